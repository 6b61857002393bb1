//! Checkpoints, and with them the cleaning of the log (ERMIA 3.2, 3.7).
//!
//! A checkpoint is a fuzzy copy: it walks the indexes while transactions go on, and writes down the address of each
//! row's newest committed version. Recovery replays the log on top of it, from the position of the log when the walk
//! began, so it does not matter which later transactions the walk sees.
//!
//! On the same walk the cleaner moves rows out of the files to be freed: the oldest segments of the log, beyond a few,
//! and files of the cold store that are mostly waste.
//!
//! Invariants
//! 1. *Nothing below is unfinished.* A transaction with a stamp below the beginning is decided when the walk reaches
//!    its writes: the walk waits for it. A transaction with a higher stamp is in the log that is replayed.
//! 2. *Durable before it counts.* The data that addresses point to is durable before the file of the checkpoint is
//!    complete; that file is durable before its marker, and the marker before anything older is removed.
//! 3. *No reader uses what is freed.* Addresses into the files to be freed are replaced while the walk passes over
//!    them; the files are removed when every thread has left the epoch in which it may have read such an address. New
//!    addresses into them do not appear: a version in memory names a place in the log by its stamp only while that
//!    place is live, and afterwards by the row's home; and no row is evicted to a place that is
//!    [about to be freed](Leaving).
//! 4. A row has at most one address that counts: that of its newest committed version, by its stamp if the log still
//!    has that, or else the row's home in the cold store.
//! 5. *A failed checkpoint leaves nothing* but files of the cold store to which a slot or a home refers: of rows that
//!    were not in memory, or whose home was in another file. A later checkpoint does not move those again, so failures
//!    do not add up.
//! 6. *Only rows in memory have a home.* The home of a row whose slot holds an address is zero: when the row is read, the
//!    address becomes its home unless a checkpoint has given it a newer one meanwhile.

use std::{
    io, thread,
    time::{Duration, Instant},
};

use super::{
    cold::{ColdFile, ColdWriter},
    image::{self, Head, ImageWriter, Marker, begin_of, now_micros},
    read_ahead::Ahead,
    removal::Kept,
    store::{Leaving, Store, storage},
    stored_block::{Blocks, StoredRecord},
    upkeep::Upkeep,
};
use crate::{
    engine::Engine,
    error::Result,
    ids::{IndexOrdinal, RowId, Stamp, TableId},
    index::{self, Batch},
    log::{
        Log,
        lsn::{Address, GRANULE, Lsn, Space, check_span},
        record::{BlobRef, Payload},
        segment::name_of,
        space::Span,
    },
    options::Options,
    platform::file::{Directory, Open},
    rows::chain::{AT_HOME, Kind, SlotContent, VersionPtr},
    scheme::{Scheme, StampsOf},
    sync::{Mutex, Spin},
    table::TableStore,
    txn::visible::{Standing, standing},
    worker::Pins,
};

/// Segments of the log that are kept although all their rows could be moved: rows that are written again until then
/// need not be moved.
const SEGMENTS_KEPT: usize = 4;

/// The same while room is short: only the segment that is being written.
const SEGMENTS_KEPT_WHEN_SHORT: usize = 1;

/// Index entries processed in one batch.
const BATCH_ENTRIES: usize = 64;

/// State that checkpoints keep from one to the next.
pub(crate) struct Checkpoints {
    state: Mutex<State>,
    pub(crate) upkeep: Upkeep,
}

struct State {
    /// The newest checkpoint, and its size.
    newest: Option<(Marker, u64)>,
    /// Position of the log when the newest checkpoint began.
    begin: u64,
}

/// Summary of a checkpoint.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckpointReport {
    /// Rows in the checkpoint.
    pub rows: u64,
    /// Bytes of the checkpoint's file.
    pub bytes: u64,
    /// Rows that were moved to the cold store.
    pub moved: u64,
    /// Bytes written to the cold store.
    pub moved_bytes: u64,
    /// Segments of the log that were freed.
    pub freed_segments: u64,
    /// Duration of the checkpoint.
    pub took: Duration,
}

/// How much of a processor the walk may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pace {
    /// All of it: a caller is waiting.
    Full,
    /// A small part.
    Gentle,
}

impl Checkpoints {
    pub(crate) fn new(newest: Option<(Marker, u64)>, begin: u64) -> Self {
        Self { state: Mutex::new(State { newest, begin }), upkeep: Upkeep::default() }
    }

    /// Whether there is a checkpoint.
    pub(crate) fn has_one(&self) -> bool {
        self.state.lock().expect("no code panics while it makes a checkpoint").newest.is_some()
    }

    /// Bytes of the newest checkpoint; 0 while another is being made.
    #[cfg(not(shuttle))]
    pub(crate) fn image_bytes(&self) -> u64 {
        self.state.try_lock().ok().and_then(|state| state.newest).map_or(0, |(_, bytes)| bytes)
    }

    /// Bytes of log since the newest checkpoint began, and its size.
    pub(crate) fn distance(&self, now: u64) -> (u64, u64) {
        let state = self.state.lock().expect("no code panics while it makes a checkpoint");
        (now.saturating_sub(state.begin), state.newest.map_or(0, |(_, bytes)| bytes))
    }
}

/// Sleeps so that the walk takes no more than its share.
pub(super) struct Pacer {
    pace: Pace,
    since: Instant,
}

impl Pacer {
    const WORK: Duration = Duration::from_millis(1);
    const REST: Duration = Duration::from_millis(9);

    pub(super) fn new(pace: Pace) -> Self {
        Self { pace, since: Instant::now() }
    }

    pub(super) fn step(&mut self, is_urgent: impl FnOnce() -> bool) {
        if self.pace == Pace::Gentle && self.since.elapsed() >= Self::WORK {
            if !is_urgent() {
                thread::sleep(Self::REST);
            }
            self.since = Instant::now();
        }
    }
}

/// The walk of one checkpoint.
struct Walk<'e, S: Scheme> {
    engine: &'e Engine<S>,
    log: &'e Log,
    store: &'e Store,
    begin: u64,
    /// Everything in the log below this offset is to be freed.
    log_floor: u64,
    /// Files of the cold store that are to be removed.
    waste: Vec<ColdFile>,
    cold: ColdWriter<'e>,
    image: ImageWriter,
    /// Segments that were live when the list was last fetched, oldest first.
    segments: Vec<Span>,
    /// Start of the cold store when the walk began, for the addresses into it.
    cold_start: u64,
    /// Start of each file of the cold store, in order, and its number of live rows.
    live: Vec<(u64, u64)>,
    /// Rows that have been moved but whose block has not been written yet.
    moving: Vec<Moving>,
    /// The blocks that rows were read from last, and those that are read next.
    blocks: Blocks,
    ahead: Ahead,
    report: CheckpointReport,
}

/// A version of a row that is being moved to the cold store.
struct Moving {
    row: RowId,
    stamp: u64,
    from: Address,
    to: Address,
}

impl<S: Scheme> Engine<S> {
    /// Makes a checkpoint when enough has been logged since the last one.
    #[cfg(not(shuttle))]
    pub(crate) fn checkpoint_if_due(&self) -> Result<()> {
        let (Some(log), Some(store)) = (&self.log, &self.store) else { return Ok(()) };
        store.removals.retry(self.kept_for_readers(log));
        let (distance, size) = store.checkpoints.distance(self.shared.clock.now().0);
        // A large database gets checkpoints less often, so that what checkpoints write stays in proportion.
        let after = self.options.checkpoint_after.max(2 * size).min(self.log_max());
        let is_due = distance >= after || log.is_crowded() || self.tables.is_checkpoint_due();
        let frees_room = distance > 0 || log.segments().len() > SEGMENTS_KEPT_WHEN_SHORT;
        store.checkpoints.upkeep.try_one(is_due, frees_room && log.room.is_short(), || {
            if log.room.is_short() {
                // So that this checkpoint differs from the last one.
                log.try_note_moment();
            }
            self.checkpoint(Pace::Gentle)
        })
    }

    /// Returns how much of the log is kept for readers: what is kept gives way where room is short, except for what a
    /// reader has still to carry elsewhere.
    fn kept_for_readers(&self, log: &Log) -> Kept {
        let is_short = log.room.is_short();
        let bytes = if is_short { 0 } else { self.options.keep_log };
        Kept { log: self.shared.clock.now().0.saturating_sub(bytes).min(log.kept_from()), changes: !is_short }
    }

    /// Keeps the log for readers of changes from a position on.
    pub(crate) fn keep_changes_from(&self, position: Option<u64>) {
        let removals = self.store.iter().map(|store| &store.removals);
        removals.for_each(|removals| removals.keep_changes_from(position.unwrap_or(u64::MAX)));
    }

    /// Bytes of log since the last checkpoint from which on another one hurries: recovery keeps the keys of what it
    /// replays in memory, beside the indexes.
    pub(crate) fn log_max(&self) -> u64 {
        self.budget.limit() / 4
    }

    /// Reserves disk space for the next segment and the next checkpoint, once the log has enough in it to be worth a
    /// checkpoint.
    #[cfg(not(shuttle))]
    pub(crate) fn keep_room(&self) {
        let (Some(log), Some(store)) = (&self.log, &self.store) else { return };
        let segment = self.options.segment_bytes;
        if log.written().0 >= segment / 4 || log.segments().len() > 1 || log.room.is_short() {
            log.room.want_for_checkpoint(segment + store.checkpoints.image_bytes() * 5 / 4);
            log.keep_room();
        }
    }

    /// Makes a checkpoint and frees what it makes free. One runs at a time; a second caller waits, and makes another.
    pub(crate) fn checkpoint(&self, pace: Pace) -> Result<CheckpointReport> {
        let (Some(log), Some(store)) = (&self.log, &self.store) else { return Ok(CheckpointReport::default()) };
        let began = Instant::now();
        let mut state = store.checkpoints.state.lock().expect("no code panics while it makes a checkpoint");
        log.check()?;
        let recorded = self.tables.recorded();
        let begin = log.chains.boundary(&self.shared.clock);
        if state.newest.is_some_and(|(newest, _)| newest.begin == begin) {
            // Nothing has happened since the newest checkpoint.
            return Ok(CheckpointReport::default());
        }
        let _in_progress = store.checkpoints.upkeep.begin();
        store.cold.mend().map_err(storage)?;
        let mut lent = log.room.lend();
        let segments = log.segments();
        let (kept, goes_max) = match log.room.is_short() {
            // One after the other: the live rows of a segment that is freed need room elsewhere first.
            true => (SEGMENTS_KEPT_WHEN_SHORT, 1),
            false => (SEGMENTS_KEPT, segments.len()),
        };
        let oldest_kept = segments.len().saturating_sub(kept).min(goes_max);
        let log_floor = segments[oldest_kept].start.min(begin);
        let first_kept = *segments.iter().find(|span| span.end > log_floor).unwrap_or(&segments[segments.len() - 1]);
        let waste: Vec<_> = store.cold.list().into_iter().map(|(file, _)| file).filter(ColdFile::is_waste).collect();
        let head = Head {
            begin,
            log_start: first_kept.start,
            log_sequence: first_kept.sequence,
            cold_start: store.cold.start(),
            micros: now_micros(),
            identity: store.segment_files().identity().map(|identity| identity.identity()),
        };
        let directory = &*store.directory;
        let image = ImageWriter::create(directory, &head).inspect_err(|_| drop(withdraw(directory, begin)));
        let image = image.map_err(storage)?;
        // From here on no row is evicted to a place that is to be freed (invariant 3).
        *store.leaving() = Leaving { log_below: first_kept.start, cold: waste.clone() };
        let mut walk = Walk {
            engine: self,
            log,
            store,
            begin,
            log_floor: first_kept.start,
            waste,
            cold: store.cold.writer(),
            image,
            segments,
            cold_start: head.cold_start,
            live: store.cold.list().into_iter().map(|(file, _)| (file.start, 0)).collect(),
            moving: Vec::new(),
            blocks: Blocks::default(),
            ahead: Ahead::default(),
            report: CheckpointReport::default(),
        };
        let Published { marker, bytes, unused } = match walk.publish(pace) {
            Ok(published) => published,
            Err(error) => {
                walk.abandon();
                // Nothing is freed. A part of a chain below the oldest segment has been before.
                *store.leaving() = Leaving { log_below: walk.segments[0].start, cold: Vec::new() };
                return Err(error);
            }
        };
        let Walk { waste, live, mut report, .. } = walk;
        // From here on the checkpoint counts, whatever happens to older ones: its file must stay as it is.
        store.cold.set_live(&live);
        state.newest = Some((marker, bytes));
        state.begin = begin;
        lent.done();
        self.tables.cover(recorded);
        store.checkpoints.upkeep.count(began.elapsed());
        report.bytes = bytes;
        let older = older_than(&*store.directory, marker).map_err(storage)?;
        // From here on only readers that fetched an address earlier refer to what is to be removed.
        self.wait_for_readers();
        let starts: Vec<_> = waste.iter().map(|file| file.start).collect();
        let gone = older.into_iter().chain(store.cold.forget(&starts));
        let gone = gone.chain(unused.into_iter().filter_map(|blob| store.blobs.forget(blob)));
        let freed = log.free_below(first_kept.start);
        log.chains.forget_below(first_kept.start);
        report.freed_segments = freed.len() as u64;
        store.removals.remove(
            gone.chain(freed.iter().map(name_of)),
            self.shared.clock.now().0,
            self.kept_for_readers(log),
        );
        self.note_hot_rows(store);
        report.took = began.elapsed();
        store.checkpoints.upkeep.cleaned(&report);
        Ok(report)
    }

    /// Waits until every thread that is inside an operation now has left it.
    fn wait_for_readers(&self) {
        let epoch = self.versions.retirement_epoch();
        while !self.versions.is_closed(epoch) {
            self.versions.advance();
            thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Makes a checkpoint count.
fn publish(directory: &dyn Directory, marker: Marker) -> io::Result<()> {
    directory.sync()?;
    directory.open(&marker.name(), Open::Create)?.sync()?;
    directory.sync()
}

/// Withdraws a checkpoint that failed. Its marker may exist although it could not be synced: the marker is durably
/// removed first, and the files that it names stay until it is gone.
fn withdraw(directory: &dyn Directory, begin: u64) -> io::Result<()> {
    let names = directory.list()?;
    let markers = names.iter().filter(|name| Marker::parse(name).is_some_and(|marker| marker.begin == begin));
    for marker in markers {
        directory.remove(marker)?;
        directory.sync()?;
    }
    let name = image::name_of(begin);
    if names.contains(&name) { directory.remove(&name) } else { Ok(()) }
}

/// The files of all checkpoints before `marker`.
fn older_than(directory: &dyn Directory, marker: Marker) -> io::Result<Vec<String>> {
    let is_older = |name: &String| {
        Marker::parse(name).is_some_and(|other| other != marker)
            || begin_of(name).is_some_and(|begin| begin < marker.begin)
    };
    Ok(directory.list()?.into_iter().filter(is_older).collect())
}

/// A checkpoint that counts.
struct Published {
    marker: Marker,
    /// Bytes of its file.
    bytes: u64,
    /// Large values to which no row refers any more.
    unused: Vec<u64>,
}

impl<S: Scheme> Walk<'_, S> {
    /// Walks over all tables and makes the checkpoint count.
    fn publish(&mut self, pace: Pace) -> Result<Published> {
        let engine = self.engine;
        let mut pacer = Pacer::new(pace);
        let pins = Pins { versions: engine.versions.join_as("checkpoint"), nodes: engine.nodes.join_as("checkpoint") };
        for table in engine.tables.logged() {
            self.table(&table, &pins, &mut pacer)?;
        }
        drop(pins);
        let unused = self.unused_blobs()?;
        // After the check of the large values: none of those to be removed is needed by a restore to a later place.
        let walked = engine.shared.clock.now().0;
        // The span of everything that is addressed.
        check_span(self.segments[0].start, walked)?;
        self.cold.finish().map_err(storage)?;
        // The log that addresses point to.
        self.log.wait_or_fail(walked - GRANULE)?;
        let end = self.image.finish(&self.kept(), walked).map_err(storage)?;
        let marker = Marker { begin: self.begin, end };
        publish(&*self.store.directory, marker).map_err(storage)?;
        Ok(Published { marker, bytes: self.image.bytes(), unused })
    }

    /// The files of the cold store to which the checkpoint refers, with the live rows that the walk has counted.
    fn kept(&self) -> Vec<ColdFile> {
        let is_waste = |file: &ColdFile| self.waste.iter().any(|waste| waste.start == file.start);
        let files = self.store.cold.list().into_iter().map(|(file, _)| file).filter(|file| !is_waste(file));
        let counted = |file: ColdFile| {
            let at = self.live.binary_search_by_key(&file.start, |(start, _)| *start);
            ColdFile { live: at.map_or(0, |at| self.live[at].1), ..file }
        };
        files.map(counted).collect()
    }

    /// Cleans up after a failed checkpoint: removes the files that it began, as far as possible (invariant 5). They may
    /// be filling the device.
    fn abandon(&mut self) {
        if withdraw(&*self.store.directory, self.begin).is_ok() {
            self.cold.abandon();
        }
    }

    fn table(&mut self, table: &TableStore<StampsOf<S>>, pins: &Pins, pacer: &mut Pacer) -> Result<()> {
        self.image.section(table.id, 0).map_err(storage)?;
        self.index(table, IndexOrdinal::PRIMARY, pins, pacer)?;
        self.write_moved(table, pins)?;
        for (ordinal, _) in table.settled() {
            self.image.section(table.id, ordinal.0).map_err(storage)?;
            self.index(table, ordinal, pins, pacer)?;
        }
        Ok(())
    }

    /// Walks over an index in batches, outside all epochs in between.
    fn index(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        ordinal: IndexOrdinal,
        pins: &Pins,
        pacer: &mut Pacer,
    ) -> Result<()> {
        let mut batch = Batch::default();
        let mut walk = index::Walk::default();
        let mut found: Vec<(RowId, std::ops::Range<usize>, Option<Address>)> = Vec::new();
        loop {
            {
                let (versions, nodes) = (pins.versions.enter(), pins.nodes.enter());
                if !table.index(ordinal).walk(&nodes, &mut walk, &mut batch, BATCH_ENTRIES) {
                    return Ok(());
                }
                if table.prefetch_newest(batch.rows(0..batch.len())) && ordinal == IndexOrdinal::PRIMARY {
                    self.announce(table, &batch);
                }
                found.clear();
                for at in 0..batch.len() {
                    let row = batch.row(at);
                    let address = match ordinal {
                        IndexOrdinal::PRIMARY => match self.address(table, row, &versions)? {
                            None => continue,
                            address => address,
                        },
                        _ if self.belongs(table, ordinal, row, batch.key(at)) => None,
                        _ => continue,
                    };
                    found.push((row, batch.key_span(at), address));
                }
            }
            let before = self.report.rows;
            for (row, span, address) in found.drain(..) {
                self.report.rows += u64::from(address.is_some());
                self.image.add(&batch.key_bytes()[span], row, address).map_err(storage)?;
            }
            self.store.checkpoints.upkeep.passes(self.report.rows - before);
            if self.cold.is_full() {
                self.write_moved(table, pins)?;
            }
            pacer.step(|| {
                let logged = self.engine.shared.clock.now().0 - self.begin;
                self.log.is_crowded() || logged >= self.engine.log_max() || self.store.checkpoints.upkeep.is_hurried()
            });
        }
    }

    /// Has the device read the rows of a batch that are only in files and must move.
    fn announce(&mut self, table: &TableStore<StampsOf<S>>, batch: &Batch) {
        let mut ahead = std::mem::take(&mut self.ahead);
        let moves = |row: &RowId| match table.rows.slot(*row).peek() {
            SlotContent::Stored(address) => self.must_move(address),
            SlotContent::Head(_) | SlotContent::Empty => false,
        };
        self.store.announce(table, batch.rows(0..batch.len()).filter(moves), &mut ahead);
        self.ahead = ahead;
    }

    /// The newest committed version of a chain.
    fn newest(&self, head: VersionPtr<StampsOf<S>>) -> Option<(VersionPtr<StampsOf<S>>, Stamp)> {
        let mut next = Some(head);
        while let Some(version) = next {
            match standing(&self.engine.shared, None, Stamp(self.begin), version) {
                Standing::Committed(stamp) => return Some((version, stamp)),
                Standing::Own | Standing::Unfinished(_) | Standing::Void => next = version.older(),
            }
        }
        None
    }

    /// Whether the newest committed version of a row belongs to an entry.
    fn belongs(&self, table: &TableStore<StampsOf<S>>, ordinal: IndexOrdinal, row: RowId, entry: &[u8]) -> bool {
        match table.rows.slot(row).peek() {
            SlotContent::Head(head) => {
                self.newest(head).is_some_and(|(version, _)| table.version_matches(version, ordinal, entry))
            }
            // The row is untouched since it was stored: its entries are those of its only version.
            SlotContent::Stored(_) => true,
            SlotContent::Empty => false,
        }
    }

    /// The address under which a row will be found; `None`: there is no row. Moves the row if necessary.
    fn address(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        row: RowId,
        versions: &crate::epoch::Guard<'_>,
    ) -> Result<Option<Address>> {
        let mut spin = Spin::default();
        loop {
            let head = match table.rows.slot(row).peek() {
                SlotContent::Stored(address) if !self.must_move(address) => {
                    self.count_live(address);
                    return Ok(Some(address));
                }
                SlotContent::Stored(address) => {
                    let stored = self.store.read_raw(&self.segments, address, table.id, row, &mut self.blocks)?;
                    let (stamp, _) = self.store.written_as(address, stored.stamp);
                    return self.move_row(table, row, address, stamp.0, stored.value, &stored.bytes).map(Some);
                }
                SlotContent::Empty => return Ok(None),
                SlotContent::Head(head) => head,
            };
            let Some((version, stamp)) = self.newest(head) else { return Ok(None) };
            if version.kind() != Kind::Live {
                return Ok(None);
            }
            let Some(from) = self.place_of(table, row, version, stamp)? else {
                // The row has just been read from the cold store.
                spin.wait();
                continue;
            };
            if !self.must_move(from) {
                self.count_live(from);
                return Ok(Some(from));
            }
            let bytes = version.payload(versions);
            if bytes.len() as u64 > Options::DIVERTED_MIN {
                // The value may be in a file of its own: the record says so.
                let stored = self.store.read_raw(&self.segments, from, table.id, row, &mut self.blocks)?;
                return self.move_row(table, row, from, stamp.0, stored.value, &stored.bytes).map(Some);
            }
            return self.move_row(table, row, from, stamp.0, Payload::here(bytes.len()), bytes).map(Some);
        }
    }

    /// Large values to which no row refers any more.
    fn unused_blobs(&mut self) -> Result<Vec<u64>> {
        let mut unused = Vec::new();
        let participant = self.engine.nodes.join_as("checkpoint");
        for (blob, (table, row)) in self.store.blobs.settled() {
            let _nodes = participant.enter();
            let known = self.engine.find_table(table);
            let address = known.map_or(Ok(None), |table| self.known_address(table, row))?;
            let stored = address.map(|address| self.read_new(address, table, row)).transpose()?;
            let of =
                stored.filter(|stored| stored.value.diverted).and_then(|stored| BlobRef::from_bytes(&stored.bytes));
            if of.is_none_or(|of| of.blob != blob) {
                unused.push(blob);
            }
        }
        Ok(unused)
    }

    /// The address of a row's newest committed version, in memory or not.
    fn known_address(&mut self, table: &TableStore<StampsOf<S>>, row: RowId) -> Result<Option<Address>> {
        let participant = self.engine.versions.join_as("checkpoint");
        let _versions = participant.enter();
        let mut spin = Spin::default();
        loop {
            let head = match table.rows.slot(row).peek() {
                SlotContent::Stored(address) => return Ok(Some(address)),
                SlotContent::Empty => return Ok(None),
                SlotContent::Head(head) => head,
            };
            let Some((version, stamp)) = self.newest(head) else { return Ok(None) };
            if version.kind() != Kind::Live || version.length() as u64 <= Options::DIVERTED_MIN {
                return Ok(None);
            }
            if let Some(home) = table.rows.home(row).filter(|_| stamp.0 < self.log_floor) {
                return Ok(Some(home));
            }
            if let Some(address) = self.place_of(table, row, version, stamp)? {
                return Ok(Some(address));
            }
            spin.wait();
        }
    }

    /// Reads a record that may have been committed only just now.
    fn read_new(&mut self, address: Address, table: TableId, row: RowId) -> Result<StoredRecord> {
        if address.space() == Space::Log {
            self.log.wait_or_fail(address.lsn(self.segments[0].start).offset())?;
        }
        self.store.read_raw(&self.segments, address, table, row, &mut self.blocks)
    }

    /// The address of a committed version (invariant 4).
    fn place_of(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        row: RowId,
        version: VersionPtr<StampsOf<S>>,
        stamp: Stamp,
    ) -> Result<Option<Address>> {
        if version.write() == AT_HOME || stamp.0 < self.segments[0].start {
            return Ok(table.rows.home(row));
        }
        let number = u64::from(version.write());
        let (lsn, number) = self.log.chains.find(stamp, number).unwrap_or_else(|| (self.lsn(stamp.0), number));
        if lsn.offset() < self.segments[0].start {
            // The version's overflow block has been freed before its commit block.
            return Ok(table.rows.home(row));
        }
        Address::new(Space::Log, lsn, number as usize).map(Some)
    }

    fn lsn(&mut self, offset: u64) -> Lsn {
        let find = |segments: &[Span]| segments.iter().find(|span| (span.start..span.end).contains(&offset)).copied();
        let span = find(&self.segments).or_else(|| {
            self.segments = self.log.segments();
            find(&self.segments)
        });
        span.expect("a commit stamp that is not below the log lies in one of its segments").lsn(offset)
    }

    fn must_move(&self, address: Address) -> bool {
        match address.space() {
            Space::Log => address.lsn(self.segments[0].start).offset() < self.log_floor,
            Space::Cold => {
                let offset = address.lsn(self.cold_start).offset();
                self.waste.iter().any(|file| (file.start..file.end).contains(&offset))
            }
        }
    }

    fn count_live(&mut self, address: Address) {
        if address.space() == Space::Cold {
            let offset = address.lsn(self.cold_start).offset();
            let before = self.live.partition_point(|(start, _)| *start <= offset);
            if let Some((_, rows)) = self.live[..before].last_mut() {
                *rows += 1;
            }
        }
    }

    fn move_row(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        row: RowId,
        from: Address,
        stamp: u64,
        value: Payload,
        bytes: &[u8],
    ) -> Result<Address> {
        let to = self.cold.add(table.id, row, stamp, value, bytes)?;
        self.report.moved += 1;
        self.report.moved_bytes += bytes.len() as u64;
        self.moving.push(Moving { row, stamp, from, to });
        Ok(to)
    }

    /// Writes the rows of a table that are being moved, and redirects later lookups to their new places.
    fn write_moved(&mut self, table: &TableStore<StampsOf<S>>, pins: &Pins) -> Result<()> {
        self.cold.flush().map_err(storage)?;
        let newest = self.store.cold.newest();
        if newest.is_some_and(|newest| self.live.last().is_none_or(|(last, _)| *last < newest)) {
            self.live.extend(newest.map(|newest| (newest, 0)));
        }
        // The epoch of operations: a version that is found in memory is not evicted before its home is set. That of
        // transactions protects tombstones.
        let (_versions, _nodes) = (pins.versions.enter(), pins.nodes.enter());
        for Moving { row, stamp, from, to } in std::mem::take(&mut self.moving) {
            let rows = &table.rows;
            let was_stored = rows.slot(row).replace_stored(Some(from), Some(to));
            // A version that was written since has its place in the log, and must not get a home (invariant 6).
            if !was_stored
                && let SlotContent::Head(head) = rows.slot(row).peek()
                && self.newest(head).is_some_and(|(_, newest)| newest.0 == stamp)
            {
                rows.set_home(row, to);
            }
            // A version that is still in the log is found there, whatever its home is: only this checkpoint refers to
            // the home.
            if was_stored || from.space() == Space::Cold {
                self.cold.refer(to);
            }
            self.count_live(to);
        }
        Ok(())
    }
}
