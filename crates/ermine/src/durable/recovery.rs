//! Turns the files of a directory into a database: the same way after a crash and after a clean stop (ERMIA 3.7).
//!
//! - File names identify the segments of the log; the checkpoint has addresses and keys as of its beginning.
//! - The log after it is replayed in parallel, segment by segment. It ends at its first hole.
//! - Indexes are built; the catalog's rows describe the tables. The log then continues in a new segment.
//!
//! Invariants
//! 1. *Only the tail has holes.* A segment gets its file when everything before it is durable (`log::flusher`). So
//!    anything that a crash has torn lies in the last segment; a hole before it, or a hole that a later block proves to
//!    have been durable, is damage, and recovery stops with an error instead of cutting off what was acknowledged.
//! 2. *What was read is durable.* If only the process died, the device may lag behind what recovery reads; after a sync
//!    that failed it lags permanently, and the system takes the bytes for written. So whatever nothing proves to be
//!    durable is written again and synced before anything builds on it.
//! 3. *The cut is permanent.* Before anything new is written the hole is closed with a skip to the end of its segment:
//!    the bytes after the hole never come back. The skip is written when everything before it is durable, since it says
//!    so.
//! 4. *Recovery changes nothing else* but what the identity file says of the log, so that it can itself be interrupted
//!    anywhere and repeated.
//! 5. *Nothing is another database's*: checkpoint, segments and files of the cold store carry the identity in the file
//!    `IDENTITY`. A segment that this file names, and blocks up to the offset where it says that the log was durable,
//!    exist.

use std::{
    fmt, io,
    ops::Range,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use super::{
    archive::Archive,
    blobs::Blobs,
    checkpoint::Checkpoints,
    cold::{self, ColdStore},
    copy::UNFINISHED,
    image::{self, Image, Marker},
    index_rebuild,
    parallel::files::{check_family, refuse_in_place},
    removal::{Kept, Removals},
    replay::{self, Arrays, End, Notes, Replay},
    row_set::RowSet,
    shipping::receiver::STANDBY,
    store::{Store, storage},
    stored_block::{Blocks, StoredRecord},
};
use crate::{
    catalog::{CATALOG, Catalog, CatalogRow, DroppedTables, IndexEntry, TableEntry},
    epoch::{EpochManager, Participant},
    error::{Error, Result},
    ids::{RowId, TableId},
    index::Index,
    log::{
        Start,
        block::{HEADER_BYTES, Invalid, Sealed},
        heads::span_of_heads,
        identity::{self, IDENTITY, IdentityFile, Label, Said},
        lsn::{Address, GRANULE, check_span},
        scan::{Behind, Scan},
        segment::{SegmentFiles, name_of, span_of},
        space::Span,
    },
    options::Options,
    platform::{
        budget::{Budget, Need},
        file::{Directory, Open, write_again},
    },
    rows::{array::ChainArray, chain::CertifierStamps},
};

/// Results of a recovery, and how long it took.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Recovery {
    /// Tables, the catalog not counted.
    pub tables: u64,
    /// Rows that exist.
    pub rows: u64,
    /// Transactions that were replayed.
    pub transactions: u64,
    /// Bytes of log that were replayed.
    pub log_bytes: u64,
    /// Where the log was cut off in front of what a crash had left behind an incomplete write, in bytes of log; `None`:
    /// nothing was left behind its end.
    pub cut_at: Option<u64>,
    /// Time until transactions could begin.
    pub took: Duration,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tables, rows, transactions, log_bytes, cut_at, took } = self;
        let bytes = log_bytes >> 20;
        write!(
            f,
            "{rows} rows in {tables} tables, {transactions} transactions in {bytes} MiB of log replayed, {took:.2?}"
        )?;
        cut_at.map_or(Ok(()), |at| write!(f, "; the log broke off at {at}"))
    }
}

/// A recovered table.
pub(crate) struct RecoveredTable<H> {
    pub(crate) entry: TableEntry,
    pub(crate) rows: ChainArray<H>,
    pub(crate) primary: Index,
    /// The secondary indexes, each with the number of rows that have no entry there: none, unless the index was built
    /// over rows.
    pub(crate) indexes: Vec<(Index, u64)>,
    live: u64,
}

/// A recovered database.
pub(crate) struct Recovered<H> {
    /// In order of their numbers, the catalog first.
    pub(crate) tables: Vec<RecoveredTable<H>>,
    pub(crate) dropped: DroppedTables,
    /// Number of dropped tables of which the log still has rows.
    pub(crate) dropped_behind: usize,
    pub(crate) start: Start,
    pub(crate) store: Store,
    pub(crate) summary: Recovery,
}

/// The end of the last segment.
pub(super) struct Tail {
    pub(super) span: Span,
    /// Where the first block is missing, if that is not the end.
    pub(super) hole: Option<u64>,
    /// Whether something was written there, or behind it.
    is_torn: bool,
}

/// The contents of a directory, by the names of its files.
pub(super) struct Found {
    pub(super) image: Option<Image>,
    /// Segments of the log that count, oldest first.
    pub(super) segments: Vec<Span>,
    /// Files that do not count: those of older or unfinished checkpoints, and files that only they need.
    leftovers: Vec<String>,
    /// Contents of the identity file; `None`: the database is new, or an earlier program's.
    pub(super) said: Option<Said>,
    /// The file of a segment that was being created: nothing was written there.
    unborn: Option<String>,
}

impl Found {
    /// The number of the first segment that counts, or would count.
    pub(super) fn first_segment(&self) -> u64 {
        self.image.as_ref().map_or(0, |image| image.head.log_sequence)
    }

    /// The file of a segment that was being created.
    pub(super) fn unborn(&self) -> Option<&str> {
        self.unborn.as_deref()
    }

    /// Position from which the log is replayed.
    pub(super) fn begin(&self) -> u64 {
        self.image.as_ref().map_or(0, |image| image.head.begin)
    }
}

/// Recovers the database in a directory.
pub(crate) fn recover<H: CertifierStamps>(
    directory: &Arc<dyn Directory>,
    options: &Options,
    budget: &Arc<Budget>,
    nodes: &Arc<EpochManager>,
) -> Result<Recovered<H>> {
    let began = Instant::now();
    let names = directory.list().map_err(storage)?;
    check_no_standby(&**directory, &names)?;
    check_family(&**directory, &names, options.scheme)?;
    let mut found = find(&**directory)?;
    found.check_labels(&**directory)?;
    let files = Arc::new(SegmentFiles::new(directory.clone()));
    let arrays = Arrays::<H>::new(budget);
    let identity = found.said.map(|said| said.identity);
    let replay = Replay::new(&files, &found.segments, &arrays, found.begin(), identity);
    if let Some(last) = found.segments.last() {
        let (path, bytes) = (directory.path(), last.end.saturating_sub(found.begin()) >> 20);
        let from = found.image.as_ref().map_or_else(|| "no checkpoint".into(), |image| image.marker.name());
        ::log::info!("recovering {path} from {from} and at most {bytes} MiB of log");
    }
    let said = found.said;
    let (notes, tail) = replay_all(&replay, said.map_or(0, |said| said.durable))?;
    let proven = notes.iter().map(|notes| notes.durable).fold(found.begin(), u64::max);
    let Found { image, mut segments, leftovers, unborn, .. } = found;
    if let Some(name) = &unborn {
        directory.remove(name).and_then(|()| directory.sync()).map_err(storage)?;
    }
    let known = said.map(|_| open_identity(&**directory)).transpose()?;
    if let Some(tail) = &tail {
        close(directory, &files, &mut segments, tail, proven, known.as_ref())?;
    }
    let mut summary = Recovery {
        transactions: notes.iter().map(|notes| notes.transactions).sum(),
        log_bytes: notes.iter().map(|notes| notes.log_bytes).sum(),
        cut_at: tail.filter(|tail| tail.is_torn).and_then(|tail| tail.hole),
        ..Recovery::default()
    };
    let cold = image.as_ref().map_or(&[][..], |image| &image.cold);
    let begin = image.as_ref().map_or(0, |image| image.head.begin);
    let end = segments.last().map_or(GRANULE, |span| span.end).max(begin);
    let identity = known.map_or_else(
        || {
            let unlabelled = if segments.is_empty() && image.is_none() { 0 } else { end };
            IdentityFile::create(&**directory, Said::of_new(unlabelled)).map_err(storage)
        },
        Ok,
    )?;
    if let Some(newest) = segments.last() {
        identity.note(newest.sequence + 1, newest.end).map_err(storage)?;
    }
    let cold = ColdStore::open(directory.clone(), identity.identity(), cold, &leftovers).map_err(storage)?;
    let of = identity.identity();
    files.label(Arc::new(identity));
    let blobs = Blobs::open(directory.clone(), &directory.list().map_err(storage)?, end);
    let removals = Removals::new(directory.clone(), files.clone(), Archive::open(options, &**directory, of)?);
    let newest = image.as_ref().map(|image| (image.marker, image.bytes()));
    // Without a checkpoint, everything in the log has still to be checkpointed.
    let checkpoints = Checkpoints::new(newest, begin);
    let store = Store::new(directory.clone(), files, segments.clone(), cold, blobs, checkpoints, removals);
    let (tables, dropped, dropped_behind) = build_tables(arrays, &notes, image.as_ref(), &store, budget, nodes)?;
    notes.iter().for_each(|notes| notes.count_back(budget));
    store.set_unloaded(tables.iter().map(|table| table.live).sum());
    if let Some(image) = &image
        && leftovers.iter().any(|name| Marker::parse(name).is_some())
    {
        make_marker_sure(&**directory, image).map_err(storage)?;
    }
    let kept_from = end.saturating_sub(options.keep_log).min(options.keep_log_from.unwrap_or(u64::MAX));
    store.removals.keep_changes_from(options.keep_changes_from.unwrap_or(u64::MAX));
    store.removals.remove(leftovers, end, Kept { log: kept_from, changes: true });
    summary.tables = tables.len() as u64 - 1;
    summary.rows = tables[1..].iter().map(|table| table.live).sum();
    summary.took = began.elapsed();
    ::log::info!("{} is open: {summary}", directory.path());
    let head = image.map(|image| image.head);
    let newest = segments.last();
    check_span(segments.first().map_or(end, |span| span.start), end)?;
    let start = Start {
        sequence: newest.map_or_else(|| head.map_or(0, |head| head.log_sequence), |span| span.sequence + 1),
        offset: end,
        // A segment ends where a block may begin.
        segment_bytes: options.segment_bytes.next_multiple_of(GRANULE),
        buffer_bytes: options.log_buffer_bytes.next_power_of_two(),
        segments,
    };
    Ok(Recovered { tables, dropped, dropped_behind, start, store, summary })
}

/// Makes the marker of the newest checkpoint durable if an older one exists: the previous process did not get as far as
/// removing the older one, perhaps because it could not make the newer marker durable. The older checkpoint is whole
/// until then.
fn make_marker_sure(directory: &dyn Directory, image: &Image) -> io::Result<()> {
    let name = image.marker.name();
    directory.remove(&name)?;
    directory.open(&name, Open::Create)?.sync()?;
    directory.sync()
}

/// Opens the file that says to which database the others belong.
pub(super) fn open_identity(directory: &dyn Directory) -> Result<IdentityFile> {
    IdentityFile::open(directory).map_err(storage)?.ok_or_else(no_identity)
}

/// Contents of the identity file of a directory; `None`: the database is new, or an earlier program's.
pub(super) fn said_of(directory: &dyn Directory) -> Result<Option<Said>> {
    let names = directory.list().map_err(storage)?;
    if !names.iter().any(|name| name == IDENTITY) {
        return Ok(None);
    }
    match identity::read(directory).map_err(storage)? {
        None => Err(check_finished(directory, &names).err().unwrap_or_else(no_identity)),
        said => Ok(said),
    }
}

/// Fails if the directory has part of a copy.
pub(super) fn check_finished(directory: &dyn Directory, names: &[String]) -> Result<()> {
    if names.iter().any(|name| name == UNFINISHED) {
        return Err(Error::Storage(format!(
            "a backup or restore to {} has broken off: remove the directory and make it again",
            directory.path()
        )));
    }
    Ok(())
}

/// Fails if the directory is a standby: its own commits would not be those of the original.
fn check_no_standby(directory: &dyn Directory, names: &[String]) -> Result<()> {
    if names.iter().any(|name| name == STANDBY) {
        return Err(Error::Storage(format!(
            "{} is a standby, which receives the log of another database: promote it before it is opened \
             (LogReceiver::promote)",
            directory.path()
        )));
    }
    Ok(())
}

fn no_identity() -> Error {
    let what = "it does not say which database this is: bring the file back from a copy, or restore a backup";
    Error::Corrupt { file: IDENTITY.into(), offset: 0, what: what.into() }
}

/// Classifies the files of a directory.
pub(super) fn find(directory: &dyn Directory) -> Result<Found> {
    check_finished(directory, &directory.list().map_err(storage)?)?;
    find_copy(directory)
}

/// Like [`find`], but accepts a complete copy that does not count yet.
pub(super) fn find_copy(directory: &dyn Directory) -> Result<Found> {
    let names = directory.list().map_err(storage)?;
    refuse_in_place(directory, &names)?;
    let marker = names.iter().filter_map(|name| Marker::parse(name)).max();
    let image = marker.map(|marker| Image::open(directory, marker)).transpose()?;
    let mut segments: Vec<Span> = names.iter().filter_map(|name| span_of(name)).collect();
    segments.sort_unstable_by_key(|span| span.sequence);
    let needed = image.as_ref().map_or(0, |image| image.head.log_sequence);
    let old = segments.partition_point(|span| span.sequence < needed);
    let mut leftovers: Vec<String> = segments.drain(..old).map(|span| name_of(&span)).collect();
    let cold = image.as_ref().map_or(&[][..], |image| &image.cold);
    leftovers.extend(names.into_iter().filter(|name| {
        Marker::parse(name).is_some_and(|other| Some(other) != marker)
            || image::begin_of(name).is_some_and(|begin| marker.is_none_or(|marker| marker.begin != begin))
            || cold::start_of(name).is_some_and(|start| cold.iter().all(|file| file.start != start))
            || span_of_heads(name).is_some_and(|span| !segments.contains(&span))
    }));
    check_sequence(directory, &segments, needed)?;
    let found = Found { image, segments, leftovers, said: said_of(directory)?, unborn: None };
    found.check_image(directory)?;
    Ok(found)
}

/// The error for a file of another database, or of another place.
fn foreign(directory: &dyn Directory, file: &str, is: impl fmt::Display) -> Error {
    let path = directory.path();
    Error::Storage(format!("{file} in {path} {is}: bring the database's own file back, or restore a backup"))
}

impl Found {
    /// Fails if the checkpoint, or a file of the cold store that it names, belongs to another database.
    fn check_image(&self, directory: &dyn Directory) -> Result<()> {
        let Some(image) = &self.image else { return Ok(()) };
        let name = image::name_of(image.head.begin);
        let Some(said) = &self.said else {
            // An earlier program's database has neither identity.
            return image.head.identity.map_or(Ok(()), |_| Err(no_identity()));
        };
        let is_old = said.unlabelled > 0;
        match image.head.identity {
            Some(of) if of != said.identity => {
                let what = format!("is a checkpoint of database {of}, and this is {}", said.identity);
                return Err(foreign(directory, &name, what));
            }
            None if !is_old || image.head.begin > said.unlabelled => {
                return Err(foreign(directory, &name, "does not say of which database it is"));
            }
            _ => {}
        }
        for info in &image.cold {
            let name = cold::name_of(info.start);
            // A file that cannot be opened is reported by the code that needs it.
            let Ok(file) = directory.open(&name, Open::Read) else { continue };
            match cold::identity_in(&*file, info).map_err(storage)? {
                Some(of) if of != said.identity => {
                    let what = format!("is of database {of}, and this is {}", said.identity);
                    return Err(foreign(directory, &name, what));
                }
                None if !is_old => return Err(foreign(directory, &name, "does not say of which database it is")),
                _ => {}
            }
        }
        Ok(())
    }

    /// Fails if a segment belongs to another database, is another segment of this one, or was cut, and if the newest is
    /// missing. A segment that was being created is left out.
    pub(super) fn check_labels(&mut self, directory: &dyn Directory) -> Result<()> {
        let label_of = |span: &Span| {
            let file = directory.open(&name_of(span), Open::Read).map_err(storage)?;
            Label::read(&*file, span).map_err(storage)
        };
        let Some(said) = self.said else {
            let last = self.segments.last().map(label_of).transpose()?.flatten();
            return last.map_or(Ok(()), |_| Err(no_identity()));
        };
        let mut unborn = None;
        for span in &self.segments {
            let name = name_of(span);
            match label_of(span)? {
                Some(label) if label.identity != said.identity => {
                    let what = format!("is a segment of database {}, and this is {}", label.identity, said.identity);
                    return Err(foreign(directory, &name, what));
                }
                Some(label) if label.span != *span => {
                    return Err(foreign(directory, &name, format!("holds segment {}", name_of(&label.span))));
                }
                None if span.sequence >= said.newest => unborn = Some(*span),
                None if span.start >= said.unlabelled => {
                    return Err(foreign(directory, &name, "was cut: its last page is missing"));
                }
                _ => {}
            }
        }
        if let Some(unborn) = unborn {
            // Nothing was written there. It is the last segment, as each is created when the one before it is noted.
            self.unborn = self.segments.pop_if(|span| *span == unborn).map(|span| name_of(&span));
        }
        // A checkpoint may have made it superfluous before the log had anything for the next one.
        if self.segments.last().map_or(self.first_segment(), |span| span.sequence + 1) < said.newest {
            let (newest, path) = (said.newest - 1, directory.path());
            return Err(Error::Storage(format!(
                "segment {newest:016x} of the log is missing in {path}, and there was one: bring the file back, or \
                 restore a backup"
            )));
        }
        Ok(())
    }
}

/// Fails if a segment is missing.
fn check_sequence(directory: &dyn Directory, segments: &[Span], needed: u64) -> Result<()> {
    let path = directory.path();
    let gap = segments.windows(2).find(|pair| pair[0].sequence + 1 != pair[1].sequence || pair[0].end > pair[1].start);
    if let Some(pair) = gap {
        let (one, other) = (name_of(&pair[0]), name_of(&pair[1]));
        return Err(Error::Storage(format!(
            "a segment of the log is missing in {path} between {one} and {other}: bring the file back, or restore a \
             backup"
        )));
    }
    if let Some(first) = segments.first()
        && first.sequence != needed
    {
        let first = name_of(first);
        return Err(Error::Storage(format!(
            "the log in {path} begins with {first}, and segment {needed:016x} is needed: bring the file back, or \
             restore a backup"
        )));
    }
    Ok(())
}

/// Replays the whole log after the checkpoint, with all processors. The last segment ends with the first hole; a crash
/// cannot have left a hole in the others, nor below `durable`.
pub(super) fn replay_all<H: CertifierStamps>(
    replay: &Replay<'_, H>,
    durable: u64,
) -> Result<(Vec<Notes>, Option<Tail>)> {
    let mut notes: Vec<Notes> = Vec::new();
    notes.resize_with(thread::available_parallelism().map_or(1, usize::from), Notes::default);
    let Some((last, settled)) = replay.segments.split_last() else { return Ok((notes, None)) };
    for span in settled {
        if let End::Invalid(at, invalid) = replay.segment(span, &mut notes)? {
            return Err(damage(span, at, invalid));
        }
    }
    let (hole, is_torn) = match replay.segment(last, &mut notes)? {
        End::Whole => (None, false),
        End::Invalid(hole, invalid) => {
            let file = replay.files.get(last).map_err(storage)?;
            let behind = Scan::new(&*file, (*last).into(), hole + GRANULE).behind(hole).map_err(storage)?;
            if hole < durable || matches!(invalid, Invalid::Version(_)) || behind == Behind::Proof {
                return Err(damage(last, hole, invalid));
            }
            (Some(hole), invalid != Invalid::Blank || behind != Behind::Nothing)
        }
    };
    Ok((notes, Some(Tail { span: *last, hole, is_torn })))
}

pub(crate) fn damage(span: &Span, at: u64, invalid: Invalid) -> Error {
    let what = match invalid {
        Invalid::Blank => "a block is missing where the log had been durable".into(),
        Invalid::Version(version) => format!("format {version} is not known to this program: use a newer one"),
        Invalid::Damaged => "a block is damaged where the log had been durable".into(),
    };
    Error::Corrupt { file: name_of(span), offset: span.position(at), what }
}

/// Makes the end of the log durable, and a cut there permanent (invariants 2 and 3); `segments` keeps the remaining
/// segments.
fn close(
    directory: &Arc<dyn Directory>,
    files: &SegmentFiles,
    segments: &mut Vec<Span>,
    &Tail { span, hole, .. }: &Tail,
    proven: u64,
    identity: Option<&IdentityFile>,
) -> Result<()> {
    if hole == Some(span.start) {
        // A segment without a block is treated as if it had never existed.
        segments.pop();
        if let Some(identity) = identity {
            let newest = segments.last();
            let (newest, end) = newest.map_or((0, 0), |newest| (newest.sequence + 1, newest.end));
            identity.note(newest, end).map_err(storage)?;
        }
        files.remove(&span).map_err(storage)?;
        return directory.sync().map_err(storage);
    }
    let file = files.get(&span).map_err(storage)?;
    let (from, end) = (proven.max(span.start), hole.unwrap_or(span.end));
    if from < end {
        write_again(&*file, span.position(from), span.position(end)).and_then(|()| file.sync()).map_err(storage)?;
    }
    match hole {
        Some(hole) if span.end - hole >= HEADER_BYTES as u64 => {
            let skip = Sealed::skip(span.end - hole).place(&[], span.lsn(hole), hole);
            file.write_at(span.position(hole), &skip).and_then(|()| file.sync()).map_err(storage)
        }
        _ => Ok(()),
    }
}

/// Builds the tables from the recovered arrays; also returns which tables were dropped, and how many of those have an
/// array.
fn build_tables<H: CertifierStamps>(
    arrays: Arrays<H>,
    notes: &[Notes],
    image: Option<&Image>,
    store: &Store,
    budget: &Arc<Budget>,
    nodes: &Arc<EpochManager>,
) -> Result<(Vec<RecoveredTable<H>>, DroppedTables, usize)> {
    let mut arrays = arrays.into_vec();
    let participant = nodes.join_as("recovery");
    let start = store.log_start();
    let mut build = |entry: TableEntry| {
        let rows = match arrays.get_mut(entry.id.0 as usize).and_then(Option::take) {
            Some(array) => Arc::into_inner(array).expect("the replaying threads have ended"),
            // A table without rows in the log.
            None => ChainArray::new(budget),
        };
        build_table(entry, rows, notes, image, start, budget, &participant)
    };
    let catalog = build(TableEntry::of_catalog())?;
    let Catalog { tables: entries, dropped } = read_catalog(&catalog, store)?;
    let mut tables = vec![catalog];
    for entry in entries {
        tables.push(build(entry)?);
    }
    let mut left = (0..).zip(&arrays).filter(|(_, array)| array.is_some()).map(|(id, _)| TableId(id));
    if left.clone().any(|id| !dropped.contains(id)) {
        return Err(Error::Storage("the log has rows of a table that the catalog does not know".into()));
    }
    let behind = left.by_ref().count();
    Ok((tables, dropped, behind))
}

fn build_table<H: CertifierStamps>(
    entry: TableEntry,
    rows: ChainArray<H>,
    notes: &[Notes],
    image: Option<&Image>,
    start: u64,
    budget: &Budget,
    participant: &Participant,
) -> Result<RecoveredTable<H>> {
    let id = entry.id;
    let section = |index| image.and_then(|image| Some((image, image.section(id, index)?)));
    let mut copied = RowSet::default();
    let mut keys = section(0).into_iter().flat_map(|(image, section)| image.keys(section)).map(|key| {
        let (key, row, address) = key?;
        let address = address.filter(|_| ChainArray::<H>::has_place(row));
        let address = address.ok_or_else(no_such_row)?;
        replay::raise(&rows, row, address, start);
        copied.insert(row);
        budget.check(0, Need::Shrink)?;
        Ok((key, row))
    });
    let (primary, renewed) = index_rebuild::primary(&rows, id, entry.kind, notes, &mut keys, participant)?;
    let index = |(index, of): (u16, &IndexEntry)| {
        let entries = section(index).into_iter().flat_map(|(image, section)| image.keys(section));
        let mut entries = entries.map(|entry| {
            let (key, row, _) = entry?;
            budget.check(0, Need::Shrink)?;
            if ChainArray::<H>::has_place(row) { Ok((key, row)) } else { Err(no_such_row()) }
        });
        index_rebuild::secondary(&rows, id, (index, of.kind), &renewed, notes, &mut entries, participant)
    };
    let indexes = (1..).zip(&entry.indexes).map(index).collect::<Result<Vec<_>>>()?;
    let logged = notes.iter().filter_map(|notes| notes.rows.get(&id));
    let used = RowSet::stretches(logged.chain([&copied]));
    let live = settle_rows(&rows, &used);
    rows.recovered(&used);
    let indexes = indexes.into_iter().map(|(index, entries)| (index, live.saturating_sub(entries))).collect();
    Ok(RecoveredTable { entry, rows, primary, indexes, live })
}

fn no_such_row() -> Error {
    Error::Storage("the checkpoint has a row that no table has: restore a backup".into())
}

/// Empties the slots of deleted rows; returns the number of the others.
fn settle_rows<H: CertifierStamps>(rows: &ChainArray<H>, used: &[Range<u64>]) -> u64 {
    let mut live = 0;
    for slot in used.iter().cloned().flatten().map(|row| rows.slot(RowId(row))) {
        match slot.stored() {
            Some(address) if address.is_deleted() => drop(slot.replace_stored(Some(address), None)),
            Some(_) => live += 1,
            None => {}
        }
    }
    live
}

/// Reads the catalog from its rows.
fn read_catalog<H: CertifierStamps>(catalog: &RecoveredTable<H>, store: &Store) -> Result<Catalog> {
    let mut blocks = Blocks::default();
    let read = |address, row| store.read_raw(store.segments(), address, CATALOG, row, &mut blocks);
    let rows = read_catalog_with(&catalog.rows, catalog.rows.recovered_rows(), read)?;
    let participant = EpochManager::new("recovery").join_as("recovery");
    let is_known = |name: &str, row| catalog.primary.get(&participant.enter(), name.as_bytes()).row == Some(row);
    if let Some((_, row)) = rows.iter().find(|(id, row)| !is_known(row.key(), *id)) {
        return Err(Error::Storage(format!("the catalog has the row of {} under another name", row.key())));
    }
    Catalog::of(rows.into_iter().map(|(_, row)| row))
}

/// The rows of a catalog, each with its row number, fetched with `read`.
pub(super) fn read_catalog_with<H: CertifierStamps>(
    array: &ChainArray<H>,
    rows: impl IntoIterator<Item = RowId>,
    mut read: impl FnMut(Address, RowId) -> Result<StoredRecord>,
) -> Result<Vec<(RowId, CatalogRow)>> {
    let mut found = Vec::new();
    for row in rows {
        if let Some(address) = array.slot(row).stored().filter(|address| !address.is_deleted()) {
            found.push((row, CatalogRow::decode(&read(address, row)?.bytes)?));
        }
    }
    Ok(found)
}
