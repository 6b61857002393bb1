//! The parts of a database under one scheme, and the life of its transactions from outside.

use std::{any::TypeId, sync::Arc};

use crate::{
    access::IndexOrdinal,
    clock::LogOffset,
    database::{Statistics, Uniqueness},
    epoch::EpochManager,
    error::{Error, Result},
    gate::Gate,
    ids::TableId,
    options::Options,
    rows::{arena::Pool, reclaim::Latches, snapshots::SnapshotSlot},
    scheme::{Scheme, Shared, StampsOf},
    sync::{Mutex, Ordering},
    table::{Secondary, TableStore},
    txn::{
        readers::ReaderSlots,
        safe::{SafeSnapshot, SafeSnapshots},
        table::TidTable,
    },
    worker::WorkerPool,
};

/// A database under scheme `S`.
pub(crate) struct Engine<S: Scheme> {
    pub(crate) shared: Shared,
    /// The epochs of operations: superseded versions.
    pub(crate) versions: Arc<EpochManager>,
    /// The epochs of transactions: index nodes, tombstones, RowIds.
    pub(crate) nodes: Arc<EpochManager>,
    pub(crate) safe: SafeSnapshots,
    /// One a worker.
    pub(crate) snapshots: boxcar::Vec<Arc<SnapshotSlot>>,
    pub(crate) latches: Latches,
    pub(crate) gate: Gate,
    pub(crate) workers: WorkerPool<S>,
    tables: boxcar::Vec<TableStore<StampsOf<S>>>,
    pub(crate) options: Options,
    /// Held while tables and indexes are created.
    schema: Mutex<()>,
    /// Last: versions live in it.
    pub(crate) memory: Arc<Pool>,
}

impl<S: Scheme> Engine<S> {
    /// An empty database.
    pub(crate) fn new(options: &Options) -> Self {
        let (tids, readers) = if cfg!(shuttle) {
            // A database is opened for each schedule, and slots should come round within it.
            (TidTable::with_blocks_of(2, 128), ReaderSlots::with_count(64))
        } else {
            (TidTable::new(TidTable::CAPACITY_MAX), ReaderSlots::new())
        };
        Self {
            shared: Shared { clock: LogOffset::new(), tids, readers, safe: SafeSnapshot::new() },
            versions: EpochManager::new("operations"),
            nodes: EpochManager::new("transactions"),
            snapshots: boxcar::Vec::new(),
            safe: SafeSnapshots::new(options.snapshot_interval),
            latches: Latches::new(),
            gate: Gate::new(),
            workers: WorkerPool::new(),
            tables: boxcar::Vec::new(),
            options: options.clone(),
            schema: Mutex::new(()),
            memory: Pool::new(),
        }
    }

    /// A table by its number.
    pub(crate) fn table(&self, id: TableId) -> &TableStore<StampsOf<S>> {
        self.tables.get(id.0 as usize).expect("a table handle is used with the database that gave it")
    }

    /// The table of that name, created when absent.
    pub(crate) fn open_table(&self, name: &str, types: [TypeId; 2]) -> Result<(TableId, Arc<str>)> {
        let _schema = self.schema.lock().expect("no code panics while it changes the schema");
        if let Some((_, table)) = self.tables.iter().find(|(_, table)| &*table.name == name) {
            if table.types != types {
                return Err(Error::Schema(format!("table {name} exists with other key and value types")));
            }
            return Ok((table.id, table.name.clone()));
        }
        let id = TableId(self.tables.count() as u32);
        self.tables.push(TableStore::new(id, name, types, &self.options)?);
        if let Some(observer) = &self.options.observer {
            observer.table(id, name);
        }
        Ok((id, self.table(id).name.clone()))
    }

    /// The secondary index of that name, created when absent.
    pub(crate) fn open_index(&self, table: TableId, make: Secondary) -> Result<IndexOrdinal> {
        let _schema = self.schema.lock().expect("no code panics while it changes the schema");
        let table = self.table(table);
        if let Some((ordinal, existing)) = table.secondaries().find(|(_, existing)| existing.name == make.name) {
            if existing.key_type != make.key_type || existing.uniqueness != make.uniqueness {
                let (index, table) = (&make.name, &table.name);
                return Err(Error::Schema(format!("index {index} of table {table} exists with another key or kind")));
            }
            return Ok(ordinal);
        }
        if table.rows.bytes() > 0 {
            let (index, table) = (&make.name, &table.name);
            return Err(Error::Schema(format!(
                "index {index} cannot be added: table {table} has had rows; create indexes before the first insert"
            )));
        }
        table.add_secondary(make)
    }

    /// One round of the background helper: lets epochs go on and frees what idle workers left behind. Says whether
    /// garbage is left.
    pub(crate) fn maintain(&self) -> bool {
        self.safe.expire();
        self.versions.advance();
        self.nodes.advance();
        self.shared.tids.epochs().advance();
        self.workers.for_each_idle(|worker| worker.housekeep(self, 4096));
        self.nodes.reclaim_orphans(4096);
        self.garbage_versions() > 0
    }

    /// Whether any transaction is on its way that will end by itself.
    pub(crate) fn is_running(&self) -> bool {
        self.snapshots.iter().any(|(_, slot)| slot.is_running_through())
    }

    fn garbage_versions(&self) -> u64 {
        self.snapshots.iter().map(|(_, slot)| slot.garbage.load(Ordering::Relaxed)).sum()
    }

    /// Who keeps garbage from being freed: workers that have been inside for a whole epoch.
    pub(crate) fn stragglers(&self) -> Vec<String> {
        let stragglers = [&self.versions, &self.nodes].map(|epochs| epochs.try_advance().err().unwrap_or_default());
        stragglers.into_iter().flatten().map(|straggler| straggler.to_string()).collect()
    }

    /// Bytes of all indexes. Walks over them.
    pub(crate) fn index_bytes(&self) -> u64 {
        let participant = self.nodes.join_as("index_bytes");
        let nodes = participant.enter();
        self.tables.iter().map(|(_, table)| table.index_bytes(&nodes)).sum()
    }

    /// Counts and sizes.
    pub(crate) fn statistics(&self) -> Statistics {
        let mut statistics = Statistics {
            version_bytes: self.memory.bytes(),
            row_bytes: self.tables.iter().map(|(_, table)| table.rows.bytes()).sum(),
            garbage_versions: self.garbage_versions(),
            snapshot_age: self.safe.age(),
            ..Statistics::default()
        };
        for (_, slot) in &self.snapshots {
            // Relaxed: statistics.
            statistics.commits += slot.commits.load(Ordering::Relaxed);
            for (total, aborts) in statistics.aborts.iter_mut().zip(&slot.aborts) {
                *total += aborts.load(Ordering::Relaxed);
            }
        }
        statistics
    }
}

/// Whether rows may share a secondary key.
impl Uniqueness {
    pub(crate) fn is_unique(self) -> bool {
        self == Self::Unique
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::iter;

    use super::*;
    use crate::{
        access::Put,
        ids::RowId,
        options::TxnOptions,
        scheme::{snapshot::SnapshotIsolation, ssn::SiSsn},
        txn::Txn,
    };

    const KEY: &[u8] = b"k";

    fn table<S: Scheme>(engine: &Engine<S>) -> TableId {
        engine.open_table("t", [TypeId::of::<u64>(); 2]).unwrap().0
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
    fn a_long_snapshot_keeps_one_supersession_a_row() {
        let engine = Engine::<SiSsn>::new(&Options::default());
        let table = table(&engine);
        put(&engine, table, b"0");
        let _reader = Txn::begin(&engine, TxnOptions::read_only(), false).unwrap();
        (0..5000).for_each(|n: u32| put(&engine, table, &n.to_be_bytes()));
        maintain(&engine);
        assert!(engine.garbage_versions() < 10, "{}", engine.garbage_versions());
    }

    #[test]
    fn an_entry_goes_with_its_row_also_when_the_key_comes_back() {
        let engine = Engine::<SiSsn>::new(&Options::default());
        let table = table(&engine);
        let by_value = Secondary {
            name: "by value".into(),
            uniqueness: Uniqueness::NonUnique,
            entries: crate::index::Index::new(),
            extract: Box::new(|_, value, out| {
                out.extend_from_slice(value);
                Ok(())
            }),
            secondary_length: |_| Ok(1),
            key_type: TypeId::of::<u64>(),
        };
        let ordinal = engine.open_index(table, by_value).unwrap();
        put(&engine, table, b"a");
        maintain(&engine);
        let txn = Txn::begin(&engine, TxnOptions::default(), true).unwrap();
        assert!(txn.delete(table, KEY).unwrap());
        txn.commit().unwrap();
        put(&engine, table, b"b");
        maintain(&engine);
        let participant = engine.nodes.join();
        let nodes = participant.enter();
        let entry = engine.table(table).index(ordinal).get(&nodes, b"ak").row;
        assert_eq!((chain_length(&engine, table), entry, engine.garbage_versions()), (1, None, 0));
    }
}
