//! The parts of a database under one scheme, and the operations on it outside of transactions.

use std::sync::Arc;

use crate::{
    begin::Begins,
    clock::LogOffset,
    durable::{
        checkpoint::Pace,
        eviction::Eviction,
        recovery::{RecoveredTable, Recovery, recover},
        store::Store,
    },
    epoch::EpochManager,
    error::{Error, Result},
    gate::Gate,
    ids::{DatabaseId, TableId, Tid},
    log::Log,
    options::{Durability, Options, TxnOptions},
    platform::{
        budget::Budget,
        file::{Directory, sync_guard::SyncGuardedDirectory},
    },
    pool::WorkerPool,
    reclaim::Latches,
    rows::{arena::Pool, chain::RowSlot, snapshots::SnapshotSlot},
    schema::Schema,
    scheme::{Scheme, Shared, StampsOf},
    statistics::Statistics,
    sync::Ordering,
    table::{Secondary, TableStore},
    tables::Tables,
    txn::{
        Txn,
        prepared::PreparedTransactions,
        readers::ReaderSlots,
        safe::{SafeSnapshot, SafeSnapshots},
        table::{Inquiry, TidTable},
    },
    worker::Worker,
};

/// The background work besides garbage collection.
#[cfg_attr(shuttle, expect(dead_code, reason = "the explorer runs no helper"))]
pub(crate) struct Chores {
    pub(crate) checkpoints: bool,
    pub(crate) loading: bool,
    pub(crate) eviction: bool,
}

/// Collects garbage at once when hardly any memory is left, so that the memory of rows deleted by other transactions
/// serves the next one. `maintain` runs one round, and returns whether garbage is left.
#[cold]
pub(crate) fn collect(maintain: impl Fn() -> bool) {
    /// Garbage is unlinked in one epoch, and freed when that epoch has closed.
    const ROUNDS: usize = 4;
    let _ = (0..ROUNDS).all(|_| maintain());
}

/// A database under scheme `S`.
pub(crate) struct Engine<S: Scheme> {
    pub(crate) shared: Shared,
    /// The epochs of operations, which protect superseded versions.
    pub(crate) versions: Arc<EpochManager>,
    /// The epochs of transactions, which protect index nodes, tombstones, RowIds.
    pub(crate) nodes: Arc<EpochManager>,
    pub(crate) safe: SafeSnapshots,
    /// One slot per worker.
    pub(crate) snapshots: boxcar::Vec<Arc<SnapshotSlot>>,
    pub(crate) latches: Latches,
    pub(crate) gate: Gate,
    pub(crate) workers: WorkerPool<Worker<S>>,
    pub(crate) tables: Tables<RowSlot<StampsOf<S>>>,
    pub(crate) options: Options,
    /// `None` for a database in memory only.
    pub(crate) log: Option<Arc<Log>>,
    /// Rows in files; `None` for a database in memory only.
    pub(crate) store: Option<Store>,
    pub(crate) eviction: Eviction<StampsOf<S>>,
    pub(crate) budget: Arc<Budget>,
    /// Declared last: versions are stored in it.
    pub(crate) memory: Arc<Pool>,
}

impl<S: Scheme> Engine<S> {
    /// Creates an empty database in memory.
    pub(crate) fn new(options: &Options) -> Self {
        let budget = options.budget();
        let nodes = EpochManager::counted_by("transactions", budget.clone());
        Self::with_clock(options, LogOffset::new(), budget, nodes)
    }

    fn with_clock(options: &Options, clock: LogOffset, budget: Arc<Budget>, nodes: Arc<EpochManager>) -> Self {
        let (tids, readers) = if cfg!(shuttle) {
            // A database is opened for each schedule, and slots should be reused within it.
            (TidTable::with_blocks_of(2, 128), ReaderSlots::with_count(64))
        } else {
            (TidTable::new(TidTable::CAPACITY_MAX), ReaderSlots::new())
        };
        Self {
            shared: Shared {
                clock: Arc::new(clock),
                tids,
                readers,
                safe: SafeSnapshot::new(),
                prepared: PreparedTransactions::new(),
            },
            versions: EpochManager::new("operations"),
            snapshots: boxcar::Vec::new(),
            safe: SafeSnapshots::new(options.snapshot_interval),
            latches: Latches::new(),
            gate: Gate::new(options.wait_max),
            workers: WorkerPool::new(),
            tables: Tables::new(options, nodes.clone(), budget.clone()),
            nodes,
            options: options.clone(),
            log: None,
            store: None,
            eviction: Eviction::new(),
            memory: Pool::new(budget.clone()),
            budget,
        }
    }

    /// Opens the database that a directory holds.
    pub(crate) fn open(options: &Options, directory: &Arc<dyn Directory>) -> Result<(Self, Recovery)> {
        let directory: Arc<dyn Directory> = Arc::new(SyncGuardedDirectory::new(directory.clone()));
        let budget = options.budget();
        let nodes = EpochManager::counted_by("transactions", budget.clone());
        let recovered = recover::<StampsOf<S>>(&directory, options, &budget, &nodes)?;
        let mut engine = Self::with_clock(options, LogOffset::from(recovered.start.offset), budget, nodes);
        let mut tables = Vec::new();
        for table in recovered.tables {
            let RecoveredTable { entry, rows, primary, indexes, .. } = table;
            let store = TableStore::with_rows(&entry, rows, primary, options);
            for (index, (entries, missing)) in entry.indexes.iter().zip(indexes) {
                store.add_secondary(Secondary::new(index, entries, None).lacking(missing, &entry.name))?;
            }
            tables.push(store);
        }
        engine.tables.recovered(tables, recovered.dropped, recovered.dropped_behind);
        if options.durability != Durability::None {
            let files = recovered.store.segment_files().clone();
            engine.budget.add(options.log_buffer_taken());
            let log = Log::start(files, engine.shared.clock.clone(), recovered.start)?;
            recovered.store.continues_in(&log);
            log.keep_from(options.keep_log_from.unwrap_or(u64::MAX));
            engine.log = Some(log);
        }
        engine.store = Some(recovered.store);
        if engine.evicts() {
            engine.memory.split_blocks();
        }
        Ok((engine, recovered.summary))
    }

    /// Returns a table that the caller's transaction has already found.
    pub(crate) fn table(&self, id: TableId) -> &TableStore<StampsOf<S>> {
        self.tables.get(id)
    }

    /// Returns the table of that number, if there is one that was not dropped. The caller is inside the epoch of
    /// transactions.
    pub(crate) fn find_table(&self, id: TableId) -> Option<&TableStore<StampsOf<S>>> {
        self.tables.find(id)
    }

    /// Returns a table for an operation that begins; fails if the table was dropped.
    pub(crate) fn live_table(&self, id: TableId) -> Result<&TableStore<StampsOf<S>>> {
        self.tables.live(id)
    }

    /// Returns the identity of the open database.
    pub(crate) fn database(&self) -> &DatabaseId {
        &self.tables.database
    }

    /// Runs one round of the background helper: advances epochs and frees the garbage that idle workers left behind.
    /// Returns whether garbage is left.
    pub(crate) fn maintain(&self) -> bool {
        self.safe.expire();
        self.versions.advance();
        self.tables.advance();
        self.shared.tids.epochs().advance();
        self.workers.for_each_idle(|worker| {
            worker.housekeep(self, 4096);
            worker.give_row_ids(self);
        });
        self.nodes.reclaim_orphans(4096);
        self.memory.sweep_if_due();
        let ending = self.tables.free_ended(|table| {
            // SAFETY: the table was dropped, and every transaction that could find its rows has left the epoch of
            // transactions.
            let unloaded = unsafe { table.clear(&mut self.memory.arena()) };
            self.store.iter().for_each(|store| store.forget_unloaded(unloaded));
        });
        self.garbage_versions() > 0 || ending
    }

    /// Ends the throttling of background work, as the database is about to be closed.
    pub(crate) fn hurry(&self) {
        self.store.iter().for_each(|store| store.checkpoints.upkeep.hurry());
    }

    /// Makes everything durable, so that the next opening has little to do. No transaction runs any more.
    pub(crate) fn close(&self) {
        /// An amount of log that is replayed in a moment.
        const LITTLE: u64 = 64 << 20;
        let Some(log) = &self.log else { return };
        if let Some(store) = &self.store
            && store.checkpoints.distance(self.shared.clock.now().0).0 > LITTLE.min(self.log_max() / 2)
        {
            // On failure nothing is lost: the log has everything, too.
            let _ = self.checkpoint(Pace::Full);
        }
        self.store.iter().for_each(|store| self.note_hot_rows(store));
        if self.store.as_ref().is_some_and(|store| store.removals.archive.is_some()) {
            // A restore by time can then reach up to now.
            log.note_moment();
        }
        log.stop();
        if let Some(store) = &self.store {
            // Whatever is missing in the archive is added when the database has been opened again.
            let _ = self.archive_durable(log, store);
        }
    }

    /// Whether all rows are in memory for which there is room.
    pub(crate) fn has_loaded(&self) -> bool {
        self.store.as_ref().is_none_or(|store| store.has_loaded())
    }

    /// Returns the chores of the background helpers: checkpoints if there is a log, loading if rows are in files only,
    /// eviction if rows have a place to leave to: memory may be limited later.
    pub(crate) fn chores(&self) -> Chores {
        let unloaded = self.store.as_ref().is_some_and(|store| store.unloaded() > 0);
        let eviction = self.log.is_some() && self.store.is_some() && !self.budget.fails();
        Chores { checkpoints: self.log.is_some(), loading: unloaded, eviction }
    }

    /// Returns why no transaction can commit any more, if that is so.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.log.as_ref().and_then(|log| log.check().err())
    }

    /// Returns the position up to which a standby's safe snapshot shows its original, if there is one.
    pub(crate) fn safe_replayed(&self) -> Option<u64> {
        self.safe.adopted_to()
    }

    /// Returns how often a standby's safe snapshot was asked for.
    pub(crate) fn safe_snapshots_asked(&self) -> u64 {
        self.safe.asked()
    }

    /// Makes the present state of a standby its safe snapshot.
    pub(crate) fn adopt_safe_snapshot(&self, position: u64) {
        self.safe.adopt(&self.shared.clock, position);
    }

    /// Hands a standby's safe snapshot out no more.
    pub(crate) fn forget_safe_snapshot(&self) {
        self.safe.forget();
    }

    fn garbage_versions(&self) -> u64 {
        self.snapshots.iter().map(|(_, slot)| slot.garbage.load(Ordering::Relaxed)).sum()
    }

    /// Returns the stragglers that keep garbage from being freed: workers that have been inside an epoch for its whole
    /// length.
    pub(crate) fn stragglers(&self) -> Vec<String> {
        let stragglers = [&self.versions, &self.nodes, &self.tables.passive]
            .map(|epochs| epochs.try_advance().err().unwrap_or_default());
        stragglers.into_iter().flatten().map(|straggler| straggler.to_string()).collect()
    }

    /// Returns the bytes of all indexes. Walks over them.
    pub(crate) fn index_bytes(&self) -> u64 {
        let participant = self.nodes.join_as("index_bytes");
        let nodes = participant.enter();
        self.tables.index_bytes(&nodes)
    }

    /// Returns counters and sizes.
    pub(crate) fn statistics(&self) -> Statistics {
        let mut statistics = Statistics {
            memory_taken: self.budget.taken(),
            memory_limit: self.budget.limit(),
            version_bytes: self.memory.bytes(),
            free_version_bytes: self.memory.free_bytes(),
            row_bytes: self.tables.row_bytes(),
            index_bytes: self.nodes.allocated(),
            epochs: self.nodes.current().number(),
            garbage_versions: self.garbage_versions(),
            snapshot_age: self.safe.age(),
            stragglers: self.stragglers().len() as u64,
            evicted_rows: self.eviction.rows(),
            cold_reads: self.store.as_ref().map_or(0, Store::reads),
            cold_read_times: self.store.as_ref().map(Store::read_times).unwrap_or_default(),
            unloaded_rows: self.store.as_ref().map_or(0, Store::unloaded),
            ..Statistics::default()
        };
        if let Some(store) = &self.store {
            store.checkpoints.upkeep.tell(&mut statistics);
            statistics.checkpoint_failure = statistics.checkpoint_failure.or_else(|| store.removals.failure());
        }
        for (_, slot) in &self.snapshots {
            statistics.add(&slot.counters);
        }
        if let Some(log) = &self.log {
            (statistics.log_bytes, statistics.log_flushes) = log.written();
            statistics.held_log_bytes = log.held_bytes();
        }
        statistics
    }
}

impl<S: Scheme> Begins for Engine<S> {
    type Txn<'e> = Txn<'e, S>;

    fn begin<'e>(&'e self, options: &TxnOptions, pinned: bool) -> Result<Txn<'e, S>> {
        Txn::begin(self, options.clone(), pinned)
    }

    fn gate(&self) -> &Gate {
        &self.gate
    }

    fn options(&self) -> &Options {
        &self.options
    }

    fn is_running(&self) -> bool {
        self.snapshots.iter().any(|(_, slot)| slot.is_running_through())
    }

    fn is_in_flight(&self, other: Tid) -> bool {
        // The application may pass a number that no transaction of this database has had.
        self.shared.tids.has_slot_of(other)
            && matches!(self.shared.tids.inquire(other), Inquiry::InFlight | Inquiry::Committing(_))
    }
}

impl<S: Scheme> Schema for Engine<S> {
    type Family = RowSlot<StampsOf<S>>;

    fn tables(&self) -> &Tables<RowSlot<StampsOf<S>>> {
        &self.tables
    }

    fn is_logged(&self) -> bool {
        self.log.is_some()
    }

    fn sync(&self) -> Result<()> {
        self.log.as_ref().map_or(Ok(()), |log| log.sync())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::{any::TypeId, iter, time::Duration};

    use super::*;
    use crate::{
        access::Put,
        catalog::IndexEntry,
        durable::checkpoint::Pace,
        ids::{IndexOrdinal, RowId, Stamp},
        index::IndexKind,
        options::{TableOptions, TxnOptions, Uniqueness},
        platform::file::faulty::FaultyDirectory,
        scheme::{snapshot::SnapshotIsolation, ssn::SiSsn},
        table::KeyOf,
        tables::TableTypes,
        txn::Txn,
    };

    const KEY: &[u8] = b"k";

    fn table<S: Scheme>(engine: &Engine<S>) -> TableId {
        engine.open_table("t", &TableTypes::of::<u64, u64>(), &TableOptions::default()).unwrap().id
    }

    fn put<S: Scheme>(engine: &Engine<S>, table: TableId, value: &[u8]) {
        let txn = Txn::begin(engine, TxnOptions::default(), true).unwrap();
        txn.put(table, KEY, value, Put::Upsert).unwrap();
        txn.commit().unwrap();
    }

    fn maintain<S: Scheme>(engine: &Engine<S>) {
        for _ in 0..20 {
            engine.maintain();
        }
    }

    fn chain_length<S: Scheme>(engine: &Engine<S>, table: TableId) -> usize {
        iter::successors(engine.table(table).rows.slot(RowId(0)).head(), |version| version.older()).count()
    }

    fn what_a_snapshot_kept_goes_with_it<S: Scheme>() {
        let engine = Engine::<S>::new(&Options::default());
        let table = table(&engine);
        put(&engine, table, b"0");
        maintain(&engine);
        let reader = Txn::begin(&engine, TxnOptions::read_only(), false).unwrap();
        put(&engine, table, b"1");
        put(&engine, table, b"2");
        maintain(&engine);
        assert_eq!(chain_length(&engine, table), 2, "the newest, and what the reader sees");
        drop(reader);
        maintain(&engine);
        assert_eq!((chain_length(&engine, table), engine.garbage_versions()), (1, 0));
    }

    #[test]
    fn what_a_snapshot_kept_below_versions_that_went_before_goes_with_it() {
        what_a_snapshot_kept_goes_with_it::<SnapshotIsolation>();
        what_a_snapshot_kept_goes_with_it::<SiSsn>();
    }

    #[test]
    fn a_snapshot_keeps_one_absent_version_a_transaction() {
        let engine = Engine::<SiSsn>::new(&Options::default());
        let table = table(&engine);
        let reader = Txn::begin(&engine, TxnOptions::default(), true).unwrap();
        for first in [0, 100] {
            let txn = Txn::begin(&engine, TxnOptions::default(), true).unwrap();
            for n in first..first + 100_u32 {
                txn.put(table, &n.to_be_bytes(), b"", Put::Insert).unwrap();
            }
            txn.commit().unwrap();
        }
        maintain(&engine);
        assert_eq!(engine.garbage_versions(), 2);
        assert!((0..200_u32).all(|n| reader.get(table, &n.to_be_bytes()).unwrap().is_none()));
        drop(reader);
        put(&engine, table, b"");
        maintain(&engine);
        assert_eq!(engine.garbage_versions(), 0);
    }

    #[test]
    fn a_long_snapshot_keeps_one_supersession_a_row() {
        let engine = Engine::<SiSsn>::new(&Options::default());
        let table = table(&engine);
        put(&engine, table, b"0");
        let _reader = Txn::begin(&engine, TxnOptions::read_only(), false).unwrap();
        (0..5000).for_each(|n: u32| put(&engine, table, &n.to_be_bytes()));
        maintain(&engine);
        assert!(engine.garbage_versions() < 10, "{}", engine.garbage_versions());
    }

    fn by_value<S: Scheme>(engine: &Engine<S>, table: TableId) -> Result<IndexOrdinal> {
        let entry = IndexEntry {
            name: "by value".into(),
            uniqueness: Uniqueness::NonUnique,
            key_type: "u64".into(),
            version: 1,
            kind: IndexKind::BTree,
            built: false,
        };
        let key_of = KeyOf {
            extract: Box::new(|_, value, out| {
                out.extend_from_slice(value);
                Ok(())
            }),
            secondary_length: |_| Ok(1),
            key_type: TypeId::of::<u64>(),
        };
        engine.open_index(table, entry, key_of, Duration::from_secs(60))
    }

    fn has_entry<S: Scheme>(engine: &Engine<S>, table: TableId, ordinal: IndexOrdinal, entry: &[u8]) -> bool {
        engine.table(table).index(ordinal).get(&engine.nodes.join().enter(), entry).row.is_some()
    }

    #[test]
    fn an_entry_goes_with_its_row_also_when_the_key_comes_back() {
        let engine = Engine::<SiSsn>::new(&Options::default());
        let table = table(&engine);
        let ordinal = by_value(&engine, table).unwrap();
        put(&engine, table, b"a");
        maintain(&engine);
        let txn = Txn::begin(&engine, TxnOptions::default(), true).unwrap();
        assert!(txn.delete(table, KEY).unwrap());
        txn.commit().unwrap();
        put(&engine, table, b"b");
        maintain(&engine);
        let has_old = has_entry(&engine, table, ordinal, b"ak");
        assert_eq!((chain_length(&engine, table), has_old, engine.garbage_versions()), (1, false, 0));
    }

    /// Entries that a checkpoint has lost are found by their number when the database is opened, and added when the
    /// index is.
    #[test]
    fn rows_without_an_entry_get_it_when_the_index_is_opened() {
        let directory: Arc<dyn Directory> = Arc::new(FaultyDirectory::new());
        let options = Options::default().log_buffer_bytes(64 << 10).segment_bytes(64 << 10);
        let open = || Engine::<SiSsn>::open(&options, &directory).unwrap().0;
        let engine = open();
        let table_id = table(&engine);
        let ordinal = by_value(&engine, table_id).unwrap();
        for n in 0..300u64 {
            let txn = Txn::begin(&engine, TxnOptions::default(), true).unwrap();
            txn.put(table_id, &n.to_be_bytes(), &[n as u8], Put::Upsert).unwrap();
            txn.commit().unwrap();
        }
        let entries: Vec<_> = (0..300u64).map(|n| [&[n as u8][..], &n.to_be_bytes()].concat()).collect();
        for lost in [7, 150] {
            let (participant, table) = (engine.nodes.join(), engine.table(table_id));
            let row = table.index(ordinal).get(&participant.enter(), &entries[lost]).row.unwrap();
            assert!(table.index(ordinal).remove_if(
                &participant.enter(),
                &entries[lost],
                row,
                Stamp::ZERO,
                Stamp::ZERO,
                || true
            ));
        }
        engine.checkpoint(Pace::Full).unwrap();
        drop(engine);
        for missing in [2, 0] {
            let engine = open();
            assert_eq!(engine.table(table_id).secondary(ordinal).missing, missing);
            assert_eq!(table(&engine), table_id);
            assert_eq!(by_value(&engine, table_id).unwrap(), ordinal);
            assert!(entries.iter().all(|entry| has_entry(&engine, table_id, ordinal, entry)));
            put(&engine, table_id, b"z");
            engine.checkpoint(Pace::Full).unwrap();
        }
    }
}
