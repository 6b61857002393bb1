//! Checks every byte of a database that is not open, and changes nothing.
//!
//! 1. The checkpoint is read, and the log after it is replayed as in recovery, but into separate arrays, so that
//!    afterwards the address of each row is known, both the current one and the one in the checkpoint.
//! 2. All files are read from beginning to end: every block must be valid; every record that lies where a row's address
//!    says is ticked off. An address that is not ticked off points to nothing.
//! 3. Keys are compared with rows: every row has one key, every key one row, and each entry of a secondary index ends
//!    with the key of its row; each row has one entry in each index. Which entry it should have, only the application
//!    knows.
//!
//! This is for databases whose rows have versions; those of single-version schemes are handed to
//! [`super::parallel::verify`].
//!
//! A log ends where its blocks end; bytes that were not durable when a machine stopped may be torn there, and that is
//! no damage ([`Verification::torn`]). Everything else is a [`Finding`].

use std::{
    collections::HashMap,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    blobs,
    cold::{self, ColdFile},
    copy::Progress,
    image::{self, Image},
    index_rebuild, parallel,
    recovery::{Found as Files, find, find_copy, read_catalog_with, replay_all},
    replay::{Arrays, Notes, Replay, raise},
    row_set::RowSet,
    store::storage,
    stored_block::Block,
};
use crate::{
    catalog::{CATALOG, Catalog, CatalogRow, TableEntry},
    error::{Error, Result},
    ids::{RowId, TableId},
    index::IndexKind,
    log::{
        block::{BlockKind, HEADER_BYTES, Header},
        heads::{HeadsReader, heads_of},
        identity::{self, IDENTITY},
        lsn::{Address, Space},
        record::{BlobRef, Record, Records},
        scan::{Extent, Found, Scan},
        segment::{SegmentFiles, name_of},
        space::Span,
    },
    options::Options,
    platform::{
        budget::Budget,
        file::{Directory, File, Open, real::RealDirectory},
    },
    rows::array::ChainArray,
    scheme::{StampsOf, ssn::SiSsn},
};

/// Any type of stamps will do: versions play no role here.
type Stamps = StampsOf<SiSsn>;

/// Maximum number of findings that are listed.
const FINDINGS_MAX: usize = 1000;

/// A defect in a database.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The file; empty if the finding is about rows.
    pub file: String,
    /// Position in the file, in bytes.
    pub offset: u64,
    /// Description of the defect.
    pub what: String,
}

/// Results of a verification.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Verification {
    /// The findings; if there are more than a thousand, the first ones.
    pub findings: Vec<Finding>,
    /// Number of all findings.
    pub wrong: u64,
    /// Where the log ends with bytes that are not a valid block. Opening the database would cut them off; this is
    /// normal after a crash.
    pub torn: Option<Finding>,
    /// Parts that could not be checked because of the findings.
    pub not_checked: Vec<String>,
    /// Tables, the catalog not counted.
    pub tables: u64,
    /// Rows in these tables.
    pub rows: u64,
    /// Entries of secondary indexes.
    pub entries: u64,
    /// Files that were read.
    pub files: u64,
    /// Blocks whose checksums were computed.
    pub blocks: u64,
    /// Records of the parallel log whose checksums were computed.
    pub log_records: u64,
    /// The epoch up to which a parallel log counts.
    pub persistent_epoch: Option<u64>,
    /// Bytes read, in all files.
    pub bytes: u64,
    /// Duration of the verification.
    pub took: Duration,
}

impl Verification {
    /// Whether there are no findings.
    pub fn is_right(&self) -> bool {
        self.wrong == 0
    }

    pub(super) fn tell(&mut self, file: &str, offset: u64, what: impl Into<String>) {
        self.wrong += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { file: file.into(), offset, what: what.into() });
        }
    }

    pub(super) fn tell_error(&mut self, error: Error) {
        match error {
            Error::Corrupt { file, offset, what } => {
                // The replay and the scan may both report the same place.
                if self.findings.iter().all(|known| (&known.file, known.offset) != (&file, offset)) {
                    self.tell(&file, offset, what);
                }
            }
            error => self.tell("", 0, error.to_string()),
        }
    }
}

/// Verifies the database in a directory, which must not be open. Of the options only the log directories matter.
/// Returns an error if the database cannot be checked: because it is open, because there is none, or because the device
/// fails.
pub fn verify(path: impl AsRef<Path>, options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Verification> {
    let directory = RealDirectory::open(path.as_ref()).map_err(storage)?;
    let _lock = directory.lock_to_look().map_err(storage)?;
    verify_in(&(Arc::new(directory) as Arc<dyn Directory>), options, progress)
}

/// Like [`verify`], for any implementation of a directory that is not in use meanwhile.
#[doc(hidden)]
pub fn verify_in(
    directory: &Arc<dyn Directory>,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<Verification> {
    let began = Instant::now();
    let mut verification = Verification::default();
    let names = directory.list().map_err(storage)?;
    if parallel::files::is_in_place(&names) {
        parallel::verify::verify(directory, options, &mut verification, progress)?;
        verification.took = began.elapsed();
        return Ok(verification);
    }
    let is_ours = |name: &String| {
        name == IDENTITY || image::begin_of(name).is_some() || crate::log::segment::span_of(name).is_some()
    };
    if !names.iter().any(is_ours) {
        return Err(Error::Storage(format!("{} holds no database", directory.path())));
    }
    verify_files(directory, find(&**directory), &mut verification, progress)?;
    verification.took = began.elapsed();
    Ok(verification)
}

fn verify_files(
    directory: &Arc<dyn Directory>,
    found: Result<Files>,
    verification: &mut Verification,
    progress: &mut dyn FnMut(Progress),
) -> Result<()> {
    match found {
        Ok(mut found) => {
            if let Err(error) = found.check_labels(&**directory) {
                verification.tell_error(error);
            }
            if found.said.is_some() {
                for at in identity::damaged_slots(&**directory).map_err(storage)? {
                    verification.tell(IDENTITY, at, "there is no whole slot");
                }
            }
            Check::new(directory, &found, verification, progress)?.run()
        }
        Err(error) => {
            verification.tell_error(error);
            verification.not_checked.push("everything else: it is not known which files count".into());
            Ok(())
        }
    }
}

/// Fails if something is wrong with a copy that is complete but does not count yet.
pub(super) fn verify_copy(directory: &Arc<dyn Directory>) -> Result<()> {
    let mut verification = Verification::default();
    verify_files(directory, find_copy(&**directory), &mut verification, &mut |_| ())?;
    let Some(first) = verification.findings.into_iter().next() else { return Ok(()) };
    let (path, wrong) = (directory.path(), verification.wrong);
    Err(Error::Corrupt {
        file: format!("{path}/{}", first.file),
        offset: first.offset,
        what: format!("the restored database is not right, and cannot be opened: {} ({wrong} findings)", first.what),
    })
}

/// Addresses that have been ticked off.
#[derive(Default)]
struct Ticks {
    now: RowSet,
    checkpoint: RowSet,
}

/// The last segment of a log, and where its blocks end.
type LogEnd = (Span, u64);

/// One run of the verification.
struct Check<'v> {
    directory: &'v Arc<dyn Directory>,
    found: &'v Files,
    files: SegmentFiles,
    /// The address of each row, now and in the checkpoint.
    now: Arrays<Stamps>,
    checkpoint: Arrays<Stamps>,
    ticks: HashMap<TableId, Ticks>,
    /// Further addresses of rows that have several keys in the checkpoint, until they have been ticked off.
    further: HashMap<Address, (TableId, RowId)>,
    /// For each table, the highest row number plus one.
    counts: HashMap<TableId, u64>,
    /// For each section of the checkpoint whose keys are not in order, a row that is out of order. Noted because the
    /// kinds of the indexes are not known yet when the checkpoint is read.
    unordered: HashMap<(TableId, u16), RowId>,
    /// The tables' names by their rows in the catalog.
    names: HashMap<RowId, String>,
    verification: &'v mut Verification,
    progress: &'v mut dyn FnMut(Progress),
    total: u64,
}

impl<'v> Check<'v> {
    fn new(
        directory: &'v Arc<dyn Directory>,
        found: &'v Files,
        verification: &'v mut Verification,
        progress: &'v mut dyn FnMut(Progress),
    ) -> Result<Self> {
        let cold = found.image.iter().flat_map(|image| &image.cold).map(|file| file.end - file.start);
        let log = found.segments.iter().map(|span| span.end - span.start);
        let budget = Arc::new(Budget::unlimited());
        Ok(Self {
            directory,
            found,
            files: SegmentFiles::read_only(directory.clone()),
            now: Arrays::new(&budget),
            checkpoint: Arrays::new(&budget),
            ticks: HashMap::new(),
            further: HashMap::new(),
            unordered: HashMap::new(),
            names: HashMap::new(),
            counts: HashMap::new(),
            verification,
            progress,
            total: cold.chain(log).sum(),
        })
    }

    fn start(&self) -> u64 {
        self.found.segments.first().map_or(0, |span| span.start)
    }

    fn cold(&self) -> &'v [ColdFile] {
        self.found.image.as_ref().map_or(&[][..], |image| &image.cold)
    }

    fn cold_start(&self) -> u64 {
        self.cold().first().map_or(0, |file| file.start)
    }

    fn run(&mut self) -> Result<()> {
        let is_image_right = self.read_image()?;
        let (notes, end) = self.replay()?;
        self.read_files(end)?;
        self.check_ticks(notes.is_some() && is_image_right)?;
        match notes {
            Some(notes) if is_image_right => self.check_tables(&notes),
            _ => {
                self.verification.not_checked.push("keys and indexes: the checkpoint or the log is damaged".into());
                Ok(())
            }
        }
    }

    /// Reads the whole checkpoint; returns whether it is valid.
    fn read_image(&mut self) -> Result<bool> {
        let Some(image) = &self.found.image else { return Ok(true) };
        let before = self.verification.wrong;
        self.verification.files += 1;
        self.verification.bytes += image.bytes();
        for section in &image.sections {
            let mut last: Option<image::KeyBytes> = None;
            for key in image.keys(section) {
                let (key, row, address) = match key {
                    Ok(key) => key,
                    Err(error @ Error::Corrupt { .. }) => {
                        self.verification.tell_error(error);
                        break;
                    }
                    Err(error) => return Err(error),
                };
                if last.as_ref().is_some_and(|last| *last >= key) {
                    self.unordered.entry((section.table, section.index)).or_insert(row);
                }
                last = Some(key);
                if section.index == 0 {
                    self.note_address(section.table, row, address)?;
                }
            }
        }
        // The keys' blocks are valid; what about the bytes between them and the end?
        let extent = Extent { base: 0, start: 0, end: image.bytes(), segment: 0 };
        let name = image::name_of(image.marker.begin);
        let file = self.directory.open(&name, Open::Read).map_err(storage)?;
        let mut scan = Scan::new(&*file, extent, 0);
        loop {
            let at = scan.at();
            match scan.next().map_err(storage)? {
                Found::Block(..) => self.verification.blocks += 1,
                Found::End if at == image.bytes() => break,
                Found::End | Found::Invalid(_) => {
                    let what = "no whole block in the checkpoint".to_string();
                    self.verification.tell_error(Error::Corrupt { file: name, offset: at, what });
                    break;
                }
            }
        }
        Ok(self.verification.wrong == before)
    }

    fn note_address(&mut self, table: TableId, row: RowId, address: Option<Address>) -> Result<()> {
        let address = address.filter(|_| ChainArray::<Stamps>::has_place(row));
        let arrays = [self.checkpoint.get(table)?, self.now.get(table)?];
        let ([Some(checkpoint), Some(now)], Some(address)) = (arrays, address) else {
            self.tell_row(table, row, "the checkpoint has it, and no table can have such a row");
            return Ok(());
        };
        // A row that was deleted and reused while the checkpoint was made has two keys there. The log has the newer
        // one; if it does not, `check_table` reports that.
        self.count(table, row.0 + 1);
        let older = checkpoint.slot(row).stored();
        raise(&checkpoint, row, address, self.start());
        if let Some(older) = older.filter(|older| *older != address) {
            let newer = checkpoint.slot(row).stored();
            self.further.insert(if newer == Some(address) { older } else { address }, (table, row));
        }
        raise(&now, row, address, self.start());
        Ok(())
    }

    fn count(&mut self, table: TableId, rows: u64) {
        let count = self.counts.entry(table).or_default();
        *count = (*count).max(rows);
    }

    fn rows(&self, table: TableId) -> u64 {
        self.counts.get(&table).copied().unwrap_or(0)
    }

    /// Replays the log; returns its keys, unless it is damaged, and the place where it ends, if that is not the end of
    /// a segment.
    fn replay(&mut self) -> Result<(Option<Vec<Notes>>, Option<LogEnd>)> {
        let segments = &self.found.segments[..];
        let said = self.found.said;
        let identity = said.map(|said| said.identity);
        let replay = Replay::new(&self.files, segments, &self.now, self.found.begin(), identity);
        match replay_all(&replay, said.map_or(0, |said| said.durable)) {
            Ok((notes, tail)) => {
                let cut = tail.and_then(|tail| Some((tail.span, tail.hole?)));
                for (table, rows) in notes.iter().flat_map(|notes| &notes.rows) {
                    self.count(*table, rows.above());
                }
                Ok((Some(notes), cut))
            }
            Err(error @ (Error::Corrupt { .. } | Error::Storage(_))) => {
                self.verification.tell_error(error);
                Ok((None, None))
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the files of the log and the cold store from beginning to end.
    fn read_files(&mut self, end: Option<LogEnd>) -> Result<()> {
        for info in self.cold() {
            let name = cold::name_of(info.start);
            match self.directory.open(&name, Open::Read) {
                Ok(file) => self.read_file(&name, &*file, Space::Cold, info.extent(), None)?,
                Err(error) => self.verification.tell(&name, 0, error.to_string()),
            }
        }
        for span in &self.found.segments {
            let name = name_of(span);
            let file = self.files.get(span).map_err(storage)?;
            let stop = match end {
                Some((torn, _)) if torn.sequence < span.sequence => break,
                Some((torn, at)) if torn == *span => Some(at),
                _ => None,
            };
            self.read_file(&name, &*file, Space::Log, (*span).into(), stop)?;
            self.compare_heads(span, &*file)?;
        }
        Ok(())
    }

    /// Compares a segment's file of heads, which recovery reads in its place, with the segment.
    fn compare_heads(&mut self, span: &Span, file: &dyn File) -> Result<()> {
        let identity = self.found.said.map(|said| said.identity);
        let reader = identity.and_then(|of| HeadsReader::open(&**self.directory, span, of));
        let Some(mut reader) = reader else { return Ok(()) };
        self.verification.files += 1;
        let mut scan = Scan::new(file, (*span).into(), span.start);
        while let Some(run) = reader.run() {
            for (header, head) in run.parts(1).flatten() {
                // Where there is no header, the segment itself has been reported.
                if scan.head().map_err(storage)?.is_some_and(|there| there != (*header, head)) {
                    let what = format!("the block at {} of {} has another header here", header.lsn, name_of(span));
                    self.verification.tell(&heads_of(span), 0, what);
                    return Ok(());
                }
                scan.go_to(header.end());
            }
        }
        Ok(())
    }

    fn read_file(
        &mut self,
        name: &str,
        file: &dyn File,
        space: Space,
        extent: Extent,
        stop: Option<u64>,
    ) -> Result<()> {
        self.verification.files += 1;
        let mut scan = Scan::new(file, extent, extent.start);
        loop {
            let at = scan.at();
            match scan.next().map_err(storage)? {
                Found::Block(header, block) => {
                    self.verification.blocks += 1;
                    self.verification.bytes += block.len() as u64;
                    if matches!(header.kind, BlockKind::Commit | BlockKind::Overflow | BlockKind::Cold) {
                        self.read_block(name, space, &header, block, at - extent.base)?;
                    }
                }
                Found::End => break,
                Found::Invalid(_) if stop == Some(at) => {
                    if !is_blank(file, at - extent.base, extent.end - extent.base)? {
                        let what = "the log ends here with what was not durable".into();
                        self.verification.torn = Some(Finding { file: name.into(), offset: at - extent.base, what });
                    }
                    break;
                }
                Found::Invalid(_) => {
                    let error =
                        Error::Corrupt { file: name.into(), offset: at - extent.base, what: "no whole block".into() };
                    self.verification.tell_error(error);
                    if !scan.seek().map_err(storage)? {
                        break;
                    }
                }
            }
            (self.progress)(Progress { step: "reading", done: self.verification.bytes, total: self.total });
        }
        Ok(())
    }

    /// Ticks off the rows whose addresses point here.
    fn read_block(&mut self, name: &str, space: Space, header: &Header, block: &[u8], place: u64) -> Result<()> {
        let (descriptors, payloads) = block[HEADER_BYTES..].split_at(header.descriptors as usize);
        let (mut number, mut at) = (0, 0);
        for record in Records::new(descriptors) {
            let Some(record) = record else {
                self.verification.tell(name, place, "a block with a record of an unknown kind");
                return Ok(());
            };
            let payload = record.payload();
            let value = payloads.get(at..at + payload.map_or(0, |payload| payload.length));
            at += payload.map_or(0, |payload| payload.length);
            if !record.is_row() {
                continue;
            }
            let Ok(address) = Address::new(space, header.lsn, number) else {
                self.verification.tell(name, place, "a block with more records than addresses can name");
                return Ok(());
            };
            number += 1;
            let (table, row) = match record {
                Record::Insert { table, row, .. }
                | Record::Update { table, row, .. }
                | Record::Moved { table, row, .. } => (table, row),
                _ => continue,
            };
            if !ChainArray::<Stamps>::has_place(row) {
                continue;
            }
            let Some(value) = value else {
                self.verification.tell(name, place, format!("the value of {} is cut off", row_name(table, row)));
                continue;
            };
            let is_at = |arrays: &Arrays<Stamps>| {
                Ok::<_, Error>(arrays.get(table)?.is_some_and(|array| array.slot(row).stored() == Some(address)))
            };
            let (is_now, is_checkpoint) = (is_at(&self.now)?, is_at(&self.checkpoint)?);
            if self.further.get(&address) == Some(&(table, row)) {
                self.further.remove(&address);
            }
            let ticks = self.ticks.entry(table).or_default();
            if is_checkpoint {
                ticks.checkpoint.insert(row);
            }
            if is_now {
                ticks.now.insert(row);
                if payload.is_some_and(|payload| payload.diverted) {
                    self.check_blob(name, place, (table, row), value)?;
                }
            }
        }
        Ok(())
    }

    /// Checks a row's value in a file of its own.
    fn check_blob(&mut self, name: &str, place: u64, owner: blobs::Owner, reference: &[u8]) -> Result<()> {
        let Some(of) = BlobRef::from_bytes(reference) else {
            let what = format!("the reference to the value of {} is damaged", row_name(owner.0, owner.1));
            self.verification.tell(name, place, what);
            return Ok(());
        };
        let blob = blobs::name_of(of.blob, owner);
        self.verification.bytes += of.length;
        match blobs::read(&**self.directory, owner, of) {
            Ok(Some(_)) => {}
            Ok(None) => self.verification.tell(&blob, 0, "the file does not hold the value that was written"),
            Err(error) => self.verification.tell(&blob, 0, error.to_string()),
        }
        Ok(())
    }

    /// Reports every address that has not been ticked off.
    fn check_ticks(&mut self, replayed: bool) -> Result<()> {
        for (address, (table, row)) in std::mem::take(&mut self.further) {
            let what = format!("{}: an address in the checkpoint points to no record of it", row_name(table, row));
            self.verification.tell(&self.file_of(address), self.place_of(address), what);
        }
        for id in self.now.tables() {
            let ticks = self.ticks.remove(&id).unwrap_or_default();
            for (arrays, ticks, what) in [
                (&self.checkpoint, &ticks.checkpoint, "its address in the checkpoint points to no record of it"),
                (&self.now, &ticks.now, "its newest address points to no record of it"),
            ] {
                let Some(array) = arrays.get(id)?.filter(|_| replayed) else { continue };
                for row in (0..self.rows(id)).map(RowId) {
                    if let Some(address) = array.slot(row).stored()
                        && !address.is_deleted()
                        && !ticks.contains(row)
                    {
                        self.verification.tell(
                            &self.file_of(address),
                            self.place_of(address),
                            format!("{}: {what}", row_name(id, row)),
                        );
                    }
                }
            }
        }
        Ok(())
    }

    /// The file that contains an address, if there is one.
    fn file_of(&self, address: Address) -> String {
        match address.space() {
            Space::Log => {
                let at = address.lsn(self.start()).offset();
                let span = self.found.segments.iter().find(|span| (span.start..span.end).contains(&at));
                span.map_or_else(String::new, name_of)
            }
            Space::Cold => {
                let at = address.lsn(self.cold_start()).offset();
                let file = self.cold().iter().find(|file| (file.start..file.end).contains(&at));
                file.map_or_else(String::new, |file| cold::name_of(file.start))
            }
        }
    }

    /// The address's position in that file.
    fn place_of(&self, address: Address) -> u64 {
        match address.space() {
            Space::Log => {
                let at = address.lsn(self.start()).offset();
                let span = self.found.segments.iter().find(|span| (span.start..span.end).contains(&at));
                span.map_or(at, |span| span.position(at))
            }
            Space::Cold => {
                let at = address.lsn(self.cold_start()).offset();
                let file = self.cold().iter().rfind(|file| file.start <= at);
                file.map_or(at, |file| at - file.start)
            }
        }
    }

    fn tell_row(&mut self, table: TableId, row: RowId, what: &str) {
        self.verification.tell("", 0, format!("{}: {what}", row_name(table, row)));
    }

    /// Compares keys and entries with rows.
    fn check_tables(&mut self, notes: &[Notes]) -> Result<()> {
        let catalog = self.catalog().and_then(|rows| {
            self.names = rows.iter().map(|(place, row)| (*place, row.key().to_owned())).collect();
            Catalog::of(rows.into_iter().map(|(_, row)| row))
        });
        let Catalog { tables: entries, dropped } = match catalog {
            Ok(catalog) => catalog,
            Err(error) => {
                self.verification.tell_error(error);
                self.verification.not_checked.push("keys and indexes: the catalog cannot be read".into());
                return Ok(());
            }
        };
        let tables = 1 + entries.len();
        self.verification.tables = entries.len() as u64;
        let is_known =
            |table| table == CATALOG || entries.iter().any(|entry| entry.id == table) || dropped.contains(table);
        for table in self.now.tables().into_iter().filter(|table| !is_known(*table)) {
            let table = table.0;
            self.verification.tell("", 0, format!("there are rows of table {table}, and the catalog does not know it"));
        }
        for (done, entry) in [TableEntry::of_catalog()].iter().chain(&entries).enumerate() {
            (self.progress)(Progress { step: "comparing keys and rows", done: done as u64, total: tables as u64 });
            self.check_table(entry, notes)?;
        }
        Ok(())
    }

    fn catalog(&self) -> Result<Vec<(RowId, CatalogRow)>> {
        let Some(array) = self.now.get(CATALOG)? else { return Ok(Vec::new()) };
        let rows = (0..self.rows(CATALOG)).map(RowId);
        /// Bytes that a block of the catalog is likely to have.
        const EXPECTED: u64 = 4096;
        read_catalog_with(&array, rows, |address, row| match address.space() {
            Space::Log => {
                let lsn = address.lsn(self.start());
                let span = self.found.segments.iter().find(|span| (span.start..span.end).contains(&lsn.offset()));
                let span = span.ok_or_else(|| Error::Storage("a row of the catalog is nowhere".into()))?;
                let file = self.files.get(span).map_err(storage)?;
                let block =
                    Block::read(&*file, || name_of(span), (*span).into(), (Space::Log, lsn), EXPECTED, (CATALOG, row))?;
                block.record(address, CATALOG, row)
            }
            Space::Cold => {
                let lsn = address.lsn(self.cold_start());
                let info = self.cold().iter().find(|file| (file.start..file.end).contains(&lsn.offset()));
                let info = info.ok_or_else(|| Error::Storage("a row of the catalog is nowhere".into()))?;
                let name = || cold::name_of(info.start);
                let file = self.directory.open(&name(), Open::Read).map_err(storage)?;
                let block = Block::read(&*file, name, info.extent(), (Space::Cold, lsn), EXPECTED, (CATALOG, row))?;
                block.record(address, CATALOG, row)
            }
        })
    }

    fn check_table(&mut self, entry: &TableEntry, notes: &[Notes]) -> Result<()> {
        let id = entry.id;
        let Some(array) = self.now.get(id)? else { return Ok(()) };
        let count = self.rows(id);
        let is_live = |row: RowId| array.slot(row).stored().is_some_and(|address| !address.is_deleted());
        let live = (0..count).filter(|row| is_live(RowId(*row))).count() as u64;
        if id != CATALOG {
            self.verification.rows += live;
        }
        let (fresh, renewed) = index_rebuild::newest(&array, notes, |notes| notes.keys.get(&id));
        // The keys of rows are needed only for secondary indexes.
        let mut keys = (!entry.indexes.is_empty()).then(RowKeys::default);
        let mut with_key = RowSet::default();
        let mut last: Option<image::KeyBytes> = None;
        let old = keys_of(self.found.image.as_ref(), id, 0);
        let old = old.filter(|(_, row)| is_live(*row) && !renewed.contains(*row));
        for (index, kind) in (0..).zip(entry.kinds()) {
            if let Some(row) = self.unordered.get(&(id, index)).filter(|_| kind.is_ordered()) {
                self.tell_row(id, *row, "its key in the checkpoint is not above the one before");
            }
        }
        for (key, row) in index_rebuild::merge(in_order(old, entry.kind).peekable(), owned(&fresh).peekable()) {
            if last.as_ref() == Some(&key) {
                self.tell_row(id, row, "another row has the same key");
            }
            if with_key.contains(row) {
                self.tell_row(id, row, "it has two keys");
            }
            if id == CATALOG && self.names.get(&row).is_some_and(|name| name.as_bytes() != &*key) {
                self.tell_row(id, row, "it is of a table with another name than its key");
            }
            with_key.insert(row);
            keys.iter_mut().for_each(|keys| keys.add(row, &key));
            last = Some(key);
        }
        for row in (0..count).map(RowId).filter(|row| is_live(*row) && !with_key.contains(*row)) {
            self.tell_row(id, row, "it has no key");
        }
        for (index, of) in (1..).zip(&entry.indexes) {
            let (fresh, changed) = index_rebuild::newest(&array, notes, |notes| notes.entries.get(&(id, index)));
            let mut with_entry = RowSet::default();
            let old = keys_of(self.found.image.as_ref(), id, index);
            let mut nowhere = Vec::new();
            let old = old.filter(|(_, row)| {
                if !ChainArray::<Stamps>::has_place(*row) || array.slot(*row).stored().is_none() {
                    nowhere.push(*row);
                    return false;
                }
                is_live(*row) && !renewed.contains(*row) && !changed.contains(*row)
            });
            let keys = keys.as_ref().expect("kept for tables with indexes");
            let mut wrong = Vec::new();
            for (entry, row) in index_rebuild::merge(old.peekable(), owned(&fresh).peekable()) {
                self.verification.entries += 1;
                if with_entry.contains(row) {
                    wrong.push((row, "it has two entries"));
                }
                with_entry.insert(row);
                if keys.get(row).is_some_and(|key| !entry.ends_with(key)) {
                    wrong.push((row, "its entry does not end with its key"));
                }
            }
            wrong.extend(nowhere.into_iter().map(|row| (row, "an entry is of that row, which is not there")));
            let without = (0..count).map(RowId).filter(|row| is_live(*row) && !with_entry.contains(*row));
            // An index that was built over rows gets the entries that the files lack when it is opened.
            wrong.extend(without.filter(|_| !of.built).map(|row| (row, "it has no entry")));
            for (row, what) in wrong {
                self.tell_row(id, row, &format!("index {}: {what}", of.name));
            }
        }
        Ok(())
    }
}

/// The primary keys of a table's rows.
#[derive(Default)]
struct RowKeys {
    bytes: Vec<u8>,
    places: Vec<(usize, u32)>,
}

impl RowKeys {
    const NONE: (usize, u32) = (usize::MAX, 0);

    fn add(&mut self, row: RowId, key: &[u8]) {
        let row = row.0 as usize;
        if self.places.len() <= row {
            self.places.resize(row + 1, Self::NONE);
        }
        self.places[row] = (self.bytes.len(), key.len() as u32);
        self.bytes.extend_from_slice(key);
    }

    fn get(&self, row: RowId) -> Option<&[u8]> {
        let place = self.places.get(row.0 as usize).filter(|place| **place != Self::NONE)?;
        Some(&self.bytes[place.0..][..place.1 as usize])
    }
}

/// The keys or entries of a section of the checkpoint. They have been read before without an error.
fn keys_of(image: Option<&Image>, table: TableId, index: u16) -> impl Iterator<Item = (image::KeyBytes, RowId)> {
    let section = image.and_then(|image| Some((image, image.section(table, index)?)));
    let keys = section.into_iter().flat_map(|(image, section)| image.keys(section));
    keys.map_while(|key| key.ok().map(|(key, row, _)| (key, row)))
}

/// The keys of a section in order; most sections have them in order already.
fn in_order<'k>(
    keys: impl Iterator<Item = (image::KeyBytes, RowId)> + 'k,
    kind: IndexKind,
) -> Box<dyn Iterator<Item = (image::KeyBytes, RowId)> + 'k> {
    if kind.is_ordered() {
        return Box::new(keys);
    }
    let mut all: Vec<_> = keys.collect();
    all.sort_unstable();
    Box::new(all.into_iter())
}

fn owned<'k>(keys: &'k [(&[u8], RowId)]) -> impl Iterator<Item = (image::KeyBytes, RowId)> + 'k {
    keys.iter().map(|(key, row)| (image::KeyBytes::from_slice(key), *row))
}

fn row_name(table: TableId, row: RowId) -> String {
    format!("row {} of table {}", row.0, table.0)
}

/// Whether there are only zeros from `at` on, up to `end` or the end of the file.
pub(super) fn is_blank(file: &dyn File, mut at: u64, end: u64) -> Result<bool> {
    const BYTES: u64 = 1 << 20;
    while at < end {
        let mut buffer = vec![0; BYTES.min(end - at) as usize];
        let read = file.read_at(at, &mut buffer).map_err(storage)?;
        if buffer[..read].iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        if read < buffer.len() {
            break;
        }
        at += read as u64;
    }
    Ok(true)
}
