//! Checkpoints, and with them the removal of old files of the log (SiloR 4).
//!
//! One thread per device walks over all tables in key order and writes the rows to as many files as there are
//! processors to read them again, block by block in turn. Transactions go on meanwhile and do not wait: the checkpoint
//! has parts of some, and the log is replayed on top of it from the epoch in which it began.
//!
//! Invariants
//! 1. *The walk meets what was committed before*: a transaction of an epoch before the beginning read that epoch while
//!    it held its locks; so a walk that begins after the epoch has advanced finds its records either locked, and waits,
//!    or written.
//! 2. *Later commits are left out*: rows of the first epoch and later ones are in the log that is replayed, whole.
//! 3. *Durable before it counts*: all rows, then the log up to the last epoch whose changes the walk may have met, then
//!    the manifest; nothing older is removed before that.
//! 4. *Entries are those of the row*: for a table whose indexes the application has opened they are computed from the
//!    value. For any other table they are read from the indexes: such a table cannot be written, so they agree with its
//!    rows. A table that is opened meanwhile is written only in later epochs.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, MutexGuard, OnceLock},
    thread,
    time::Instant,
};

use super::{
    super::{
        checkpoint::{CheckpointReport, Pace, Pacer},
        image::now_micros,
        store::storage,
        upkeep::Upkeep,
    },
    archive::Archive,
    files::{Places, Role, remove},
    image::{Block, Manifest, RowsFile, RowsWriter},
};
use crate::{
    epoch::Guard,
    error::Result,
    ids::RowId,
    index::{self, Batch},
    log::parallel::{
        ParallelLog,
        file::FileName,
        pepoch,
        record::{Entries, Row, put_entry},
    },
    options::CheckpointSyncs,
    rows::{
        copies::Copies,
        in_place::{Control, RecordSlot},
    },
    scheme::in_place::InPlace,
    single::Engine,
    sync::Mutex,
    table::{Family, TableParts},
    types::KeyBuffer,
};

/// Rows that a thread takes at a time.
const SLICE_ROWS: usize = 1024;

/// State that checkpoints keep from one to the next.
pub(crate) struct Checkpoints {
    pub(crate) places: Places,
    pub(super) archive: Option<Archive>,
    state: Mutex<State>,
    pub(crate) upkeep: Upkeep,
}

/// Locked while a checkpoint is made or copied: no file is removed meanwhile.
pub(super) struct State {
    /// Bytes of the newest checkpoint; `None`: there is none.
    bytes: Option<u64>,
    /// Bytes of log that were written when it began; then the bytes that recovery has replayed.
    begin: u64,
    replayed: u64,
    /// Generations of the log that are replayed.
    generations: usize,
}

impl Checkpoints {
    /// State after a recovery from a checkpoint of `bytes`, and `replayed` bytes and `generations` of log.
    pub(crate) fn new(
        places: Places,
        archive: Option<Archive>,
        bytes: Option<u64>,
        replayed: u64,
        generations: usize,
    ) -> Self {
        let state = Mutex::new(State { bytes, begin: 0, replayed, generations });
        Self { places, archive, state, upkeep: Upkeep::default() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it makes a checkpoint")
    }

    /// Archives the log after it has been closed, if there is an archive.
    pub(crate) fn archive_closed(&self, log: &ParallelLog) {
        let _state = self.lock();
        let kept = self.archive.as_ref().map_or(Ok(()), |archive| archive.keep(&self.places, log));
        if let Err(error) = kept {
            ::log::warn!(
                "the end of the log is not in the archive, and comes there when the database is open again: {error}"
            );
        }
    }

    /// Whether there are more generations of the log than there should be, each with files of its own.
    pub(crate) fn has_many_generations(&self) -> bool {
        const MANY: usize = 16;
        self.lock().generations >= MANY
    }

    /// Bytes of the newest checkpoint; 0 while another is being made.
    #[cfg(not(shuttle))]
    pub(crate) fn bytes(&self) -> u64 {
        self.state.try_lock().map_or(0, |state| state.bytes.unwrap_or(0))
    }

    /// Bytes of log that would be replayed, and bytes of the newest checkpoint.
    pub(crate) fn distance(&self, log: &ParallelLog) -> (u64, u64) {
        self.lock().distance(log)
    }
}

impl State {
    pub(super) fn has_one(&self) -> bool {
        self.bytes.is_some()
    }

    /// See [`Checkpoints::distance`].
    pub(super) fn distance(&self, log: &ParallelLog) -> (u64, u64) {
        (log.written().0 - self.begin + self.replayed, self.bytes.unwrap_or(0))
    }
}

/// The walk of one checkpoint.
struct Walk<'e, P: InPlace> {
    engine: &'e Engine<P>,
    places: &'e Places,
    epoch: u64,
    pace: Pace,
    upkeep: &'e Upkeep,
    tables: Vec<Arc<TableParts<RecordSlot<P::Control>>>>,
    /// By table.
    slices: Vec<Slices>,
}

/// The unwalked rest of a table, and the entries that only its indexes have.
#[derive(Default)]
struct Slices {
    walk: std::sync::Mutex<index::Walk>,
    entries: OnceLock<Option<HashMap<RowId, Vec<u8>>>>,
}

impl<P: InPlace> Engine<P> {
    /// Makes a checkpoint when enough has been logged since the last one.
    #[cfg(not(shuttle))]
    pub(crate) fn checkpoint_if_due(&self) -> Result<()> {
        let (Some(log), Some(checkpoints)) = (&self.log, &self.checkpoints) else { return Ok(()) };
        let (distance, bytes) = checkpoints.distance(log);
        // A large database gets checkpoints less often, so that what checkpoints write stays in proportion.
        let is_due = distance >= self.options.checkpoint_after.max(2 * bytes)
            || checkpoints.has_many_generations()
            || self.tables.is_checkpoint_due();
        let frees_room = distance > 0 && log.room.is_short();
        checkpoints.upkeep.try_one(is_due, frees_room, || self.checkpoint(Pace::Gentle))
    }

    /// Reserves disk space for the next file of the log and the next checkpoint, once the log has enough in it to be
    /// worth a checkpoint.
    #[cfg(not(shuttle))]
    pub(crate) fn keep_room(&self) {
        let (Some(log), Some(checkpoints)) = (&self.log, &self.checkpoints) else { return };
        if log.written().0 >= log.file_bytes() / 4 || log.room.is_short() {
            log.room.want_for_checkpoint(log.file_bytes() + checkpoints.bytes() * 5 / 4);
            log.keep_room();
        }
    }

    /// Makes a checkpoint and removes the files that it supersedes. One runs at a time; a second caller waits, and
    /// makes another.
    pub(crate) fn checkpoint(&self, pace: Pace) -> Result<CheckpointReport> {
        let Some(checkpoints) = &self.checkpoints else { return Ok(CheckpointReport::default()) };
        self.make_checkpoint(&mut checkpoints.lock(), pace, false)
    }

    /// Like [`Engine::checkpoint`]; with `anyway`, even if nothing has happened since the last one.
    pub(super) fn make_checkpoint(&self, state: &mut State, pace: Pace, anyway: bool) -> Result<CheckpointReport> {
        let (Some(log), Some(checkpoints)) = (&self.log, &self.checkpoints) else {
            return Ok(CheckpointReport::default());
        };
        let began = Instant::now();
        let mut lent = log.room.lend();
        let places = &checkpoints.places;
        log.check()?;
        // Everything that is committed is in the log's files, or in a buffer: counted before the walk.
        let written = log.written().0;
        let is_index_new = self.tables.has_unrecorded_index();
        if !anyway && !is_index_new && state.replayed == 0 && written == state.begin && !log.seats_have_records() {
            // Nothing has happened since the last checkpoint.
            lent.done();
            return Ok(CheckpointReport::default());
        }
        let _in_progress = checkpoints.upkeep.begin();
        self.epochs.clock().advance();
        let epoch = self.epochs.current();
        if let Some(archive) = &checkpoints.archive {
            // The files that this checkpoint frees have only earlier epochs.
            log.wait_or_fail(epoch)?;
            archive.keep(places, log)?;
        }
        let (recorded, tables) = (self.tables.recorded(), self.tables.logged());
        let walk = Walk {
            engine: self,
            places,
            epoch,
            pace,
            upkeep: &checkpoints.upkeep,
            slices: tables.iter().map(|_| Slices::default()).collect(),
            tables,
        };
        let files = walk.run().inspect_err(|_| remove_unfinished(places, epoch))?;
        for directory in &places.devices {
            directory.sync().map_err(storage)?;
        }
        let last_epoch = self.epochs.current();
        log.wait_or_fail(last_epoch).inspect_err(|_| remove_unfinished(places, epoch))?;
        let manifest = Manifest {
            epoch,
            last_epoch,
            generation: log.generation(),
            first: log.first_needed(epoch),
            files,
            tables: names_by_number(&self.tables.logged()),
            micros: now_micros(),
            identity: places.said.map(|said| said.identity),
        };
        manifest.publish(&*places.directory).map_err(storage)?;
        // From here on the checkpoint counts, whatever happens to older ones.
        let report = CheckpointReport {
            rows: manifest.files.iter().map(|file| file.rows).sum(),
            bytes: manifest.files.iter().map(|file| file.bytes).sum(),
            ..CheckpointReport::default()
        };
        checkpoints.archive.iter().try_for_each(|archive| archive.reach(epoch))?;
        *state = State { bytes: Some(report.bytes), begin: written, replayed: 0, generations: 0 };
        lent.done();
        self.tables.cover(recorded);
        checkpoints.upkeep.count(began.elapsed());
        log.forget_before(&manifest.first);
        let freed = remove_older(places, &manifest)?;
        let report = CheckpointReport { freed_segments: freed, took: began.elapsed(), ..report };
        checkpoints.upkeep.cleaned(&report);
        Ok(report)
    }
}

/// The names of the tables, indexed by table number; dropped tables have empty names.
fn names_by_number<F: Family>(tables: &[Arc<TableParts<F>>]) -> Vec<String> {
    let mut names = vec![String::new(); tables.last().map_or(0, |last| last.id.0 as usize + 1)];
    tables.iter().for_each(|table| names[table.id.0 as usize] = table.name().to_string());
    names
}

/// Removes the rows of a checkpoint that failed, as far as possible: they may be filling the device.
fn remove_unfinished(places: &Places, epoch: u64) {
    for directory in &places.devices {
        let names = directory.list().unwrap_or_default().into_iter();
        let own = names.filter(|name| matches!(Role::parse(name), Some(Role::Rows(of, _)) if of == epoch));
        own.for_each(|name| drop(directory.remove(&name)));
    }
}

/// Removes the files that a checkpoint supersedes; returns how many of them are files of the log.
fn remove_older(places: &Places, manifest: &Manifest) -> Result<u64> {
    let mut leftovers = Vec::new();
    for (device, directory) in places.devices.iter().enumerate() {
        for name in directory.list().map_err(storage)? {
            if FileName::parse(&name).is_some_and(|of| !manifest.needs(device, of)) {
                leftovers.push((Some(device), name));
            }
        }
    }
    let freed = leftovers.len() as u64;
    for (device, directory) in places.devices.iter().enumerate() {
        let names = directory.list().map_err(storage)?.into_iter();
        let is_older =
            |name: &String| matches!(Role::parse(name), Some(Role::Rows(epoch, _)) if epoch != manifest.epoch);
        leftovers.extend(names.filter(is_older).map(|name| (Some(device), name)));
    }
    for name in places.directory.list().map_err(storage)? {
        let is_older = match Role::parse(&name) {
            Some(Role::Manifest(epoch) | Role::Unfinished(epoch)) => epoch != manifest.epoch,
            _ => pepoch::generation_of(&name).is_some_and(|generation| generation < manifest.generation),
        };
        if is_older {
            leftovers.push((None, name));
        }
    }
    remove(places, &leftovers)?;
    Ok(freed)
}

impl<P: InPlace> Walk<'_, P> {
    /// Walks with one thread per device; returns the files.
    fn run(&self) -> Result<Vec<RowsFile>> {
        let devices = self.places.devices.len();
        let results: Vec<_> = thread::scope(|scope| {
            let others: Vec<_> = (1..devices).map(|device| scope.spawn(move || self.device(device))).collect();
            let first = self.device(0);
            let others =
                others.into_iter().map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            std::iter::once(first).chain(others).collect()
        });
        Ok(results.into_iter().collect::<Result<Vec<_>>>()?.concat())
    }

    /// Writes the files of one device.
    fn device(&self, device: usize) -> Result<Vec<RowsFile>> {
        let count = thread::available_parallelism().map_or(1, usize::from).min(64) as u32;
        let numbers = device as u32 * count..(device as u32 + 1) * count;
        let compresses = self.engine.options.compress_checkpoints;
        let files = numbers.map(|number| RowsWriter::create(self.places, device, self.epoch, number, compresses));
        let files = files.collect::<io::Result<Vec<_>>>().map_err(storage)?;
        let mut writer = Writer {
            files,
            next: 0,
            block: Block::default(),
            unsynced: 0,
            syncs: self.engine.options.checkpoint_syncs,
        };
        let mut pacer = Pacer::new(self.pace);
        let participant = self.engine.nodes.join_as("checkpoint");
        for (table, slices) in self.tables.iter().zip(&self.slices) {
            while self.slice(table, slices, &participant.enter(), &mut writer)? {
                pacer.step(|| self.upkeep.is_hurried());
            }
            writer.end_block().map_err(storage)?;
        }
        writer.sync().map_err(storage)?;
        Ok(writer.files.into_iter().map(|file| file.info).collect())
    }

    /// Writes the next rows of a table; returns whether there were any.
    fn slice(
        &self,
        table: &TableParts<RecordSlot<P::Control>>,
        slices: &Slices,
        nodes: &Guard<'_>,
        writer: &mut Writer,
    ) -> Result<bool> {
        let mut batches = Vec::new();
        {
            let mut walk = slices.walk.lock().expect("no code panics while it takes a slice");
            let mut rows = 0;
            while rows < SLICE_ROWS {
                let mut batch = Batch::default();
                if !table.primary.walk(nodes, &mut walk, &mut batch, SLICE_ROWS) {
                    break;
                }
                rows += batch.len();
                batches.push(batch);
            }
        }
        if batches.is_empty() {
            return Ok(false);
        }
        let stored = slices.entries.get_or_init(|| stored_entries(table, nodes));
        let (mut copies, mut entries, mut entry) = (Copies::default(), Vec::new(), KeyBuffer::new());
        for (batch, at) in batches.iter().flat_map(|batch| (0..batch.len()).map(move |at| (batch, at))) {
            let (key, row) = (batch.key(at), batch.row(at));
            let Some(record) = table.rows.slot(row).record() else { continue };
            let mark = copies.mark();
            let (word, value) = record.read(Some(&mut copies));
            if let Some(value) = value.filter(|_| word.tid().epoch() < self.epoch) {
                let value = value.bytes(nodes);
                entries.clear();
                match stored {
                    Some(stored) => entries.extend(stored.get(&row).into_iter().flatten()),
                    None => {
                        for (index, secondary) in table.finished() {
                            let length = secondary.entry_of(key, value, &mut entry)?;
                            put_entry(&mut entries, index.0, &entry[..length]);
                        }
                    }
                }
                let row = Row { table: table.id, key, value: Some(value), entries: Entries(&entries) };
                writer.add(word.tid(), &row).map_err(storage)?;
            }
            copies.rewind(mark);
        }
        self.upkeep.passes(batches.iter().map(|batch| batch.len() as u64).sum());
        Ok(true)
    }
}

/// The entries of every row of a table, if they cannot be computed from values (invariant 4).
fn stored_entries<C: Control>(table: &TableParts<RecordSlot<C>>, nodes: &Guard<'_>) -> Option<HashMap<RowId, Vec<u8>>> {
    table.check_writable().err()?;
    let mut lengths = HashMap::new();
    let mut entries: HashMap<RowId, Vec<u8>> = HashMap::new();
    let mut batch = Batch::default();
    let mut walk = index::Walk::default();
    while table.primary.walk(nodes, &mut walk, &mut batch, SLICE_ROWS) {
        lengths.extend((0..batch.len()).map(|at| (batch.row(at), batch.key(at).len())));
    }
    for (ordinal, secondary) in table.finished() {
        let mut walk = index::Walk::default();
        while secondary.entries.walk(nodes, &mut walk, &mut batch, SLICE_ROWS) {
            for at in 0..batch.len() {
                let (entry, row) = (batch.key(at), batch.row(at));
                let length = lengths.get(&row).and_then(|key| entry.len().checked_sub(*key));
                if let Some(length) = length {
                    put_entry(entries.entry(row).or_default(), ordinal.0, &entry[..length]);
                }
            }
        }
    }
    // If the table has been opened meanwhile, the indexes may have entries of rows that did not exist before.
    table.check_writable().err().map(|_| entries)
}

/// The files of one device.
struct Writer {
    files: Vec<RowsWriter>,
    /// The file that gets the next block.
    next: usize,
    block: Block,
    unsynced: u64,
    syncs: CheckpointSyncs,
}

impl Writer {
    fn add(&mut self, tid: crate::rows::in_place::CommitTid, row: &Row<'_>) -> io::Result<()> {
        self.block.add(tid, row);
        if self.block.is_full() { self.end_block() } else { Ok(()) }
    }

    fn end_block(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        self.unsynced += self.files[self.next].write(&mut self.block)?;
        self.next = (self.next + 1) % self.files.len();
        match self.syncs {
            CheckpointSyncs::Every(bytes) if self.unsynced >= bytes => self.sync()?,
            CheckpointSyncs::Sleeping(time) => thread::sleep(time),
            _ => {}
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.unsynced = 0;
        self.files.iter_mut().try_for_each(RowsWriter::sync)
    }
}
