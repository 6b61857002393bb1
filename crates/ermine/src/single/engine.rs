//! The parts of a database under one single-version scheme.

use std::sync::{Arc, atomic::AtomicBool};

use super::{
    epoch::CommitEpochs,
    running::Txn,
    snapshots::Snapshots,
    worker::{Presence, Worker},
};
use crate::{
    begin::Begins,
    durable::eviction::Progress,
    durable::{
        checkpoint::Pace,
        parallel::{
            archive::Archive,
            checkpoint::Checkpoints,
            recovery::{Recovered, recover},
        },
        recovery::Recovery,
    },
    engine::Chores,
    epoch::EpochManager,
    error::{Error, Result},
    gate::Gate,
    ids::{DatabaseId, RowId, Tid},
    log::parallel::{ParallelLog, Start},
    options::{Durability, Options, TxnOptions},
    platform::{budget::Budget, file::Directory},
    pool::WorkerPool,
    rows::{arena::Pool, in_place::RecordSlot},
    schema::Schema,
    scheme::in_place::{InPlace, Limits, patience_ends},
    statistics::Statistics,
    sync::{AtomicUsize, Instant, Mutex, Ordering, Spin},
    tables::Tables,
};

/// A database under scheme `P`.
pub(crate) struct Engine<P: InPlace> {
    pub(super) shared: P::Shared,
    pub(crate) epochs: CommitEpochs,
    pub(super) snapshots: Snapshots,
    /// The epochs of transactions: index nodes, records, blocks, RowIds.
    pub(crate) nodes: Arc<EpochManager>,
    /// One per worker.
    pub(super) presences: boxcar::Vec<Arc<Presence>>,
    gate: Gate,
    pub(super) workers: WorkerPool<Worker<P>>,
    /// Number of workers, idle or not.
    pub(super) worker_count: AtomicUsize,
    pub(crate) tables: Tables<RecordSlot<P::Control>>,
    pub(crate) options: Options,
    /// `None`: nothing is written to files.
    pub(crate) log: Option<Arc<ParallelLog>>,
    /// `None`: in memory only.
    pub(crate) checkpoints: Option<Checkpoints>,
    /// Held while all records are reset.
    rounds: Mutex<()>,
    pub(crate) budget: Arc<Budget>,
    /// Last: records live in it.
    pub(super) memory: Arc<Pool>,
}

impl<P: InPlace> Engine<P> {
    /// Creates an empty database in memory.
    pub(crate) fn new(options: &Options) -> Self {
        let budget = options.budget();
        let nodes = EpochManager::counted_by("transactions", budget.clone());
        let memory = Pool::new(budget.clone());
        Self::with_parts(options, 1, budget, nodes, memory)
    }

    fn with_parts(
        options: &Options,
        first_epoch: u64,
        budget: Arc<Budget>,
        nodes: Arc<EpochManager>,
        memory: Arc<Pool>,
    ) -> Self {
        Self {
            shared: P::shared(&Limits { wait_max: options.wait_max, timestamps_left: options.timestamps_left }),
            epochs: CommitEpochs::starting_at(first_epoch),
            snapshots: Snapshots::new(),
            nodes: nodes.clone(),
            presences: boxcar::Vec::new(),
            gate: Gate::new(options.wait_max),
            workers: WorkerPool::new(),
            worker_count: AtomicUsize::new(0),
            tables: Tables::new(options, nodes, budget.clone()),
            options: options.clone(),
            log: None,
            checkpoints: None,
            rounds: Mutex::new(()),
            budget,
            memory,
        }
    }

    /// Opens the database of a directory.
    pub(crate) fn open(options: &Options, directory: &Arc<dyn Directory>) -> Result<(Self, Recovery)> {
        let budget = options.budget();
        let recovered = recover::<P::Control>(directory, options, &budget)?;
        let Recovered {
            tables,
            dropped,
            dropped_behind,
            nodes,
            memory,
            places,
            identity,
            generation,
            epoch,
            checkpoint_bytes,
            generations,
            summary,
        } = recovered;
        let mut engine = Self::with_parts(options, epoch, budget, nodes, memory);
        engine.tables.recovered(tables, dropped, dropped_behind);
        if let Some(identity) = identity.filter(|_| options.durability != Durability::None) {
            engine.budget.add(options.log_buffer_taken());
            let start = Start {
                directory: places.directory.clone(),
                devices: places.devices.clone(),
                generation,
                file_bytes: options.segment_bytes,
                buffer_bytes: options.log_buffer_bytes,
                interval: options.epoch_interval,
                identity,
            };
            engine.log = Some(ParallelLog::start(engine.epochs.clock().clone(), start)?);
        }
        let archive = Archive::open(options, &places, generation)?;
        let checkpoints = Checkpoints::new(places, archive, checkpoint_bytes, summary.log_bytes, generations);
        engine.checkpoints = Some(checkpoints);
        Ok((engine, summary))
    }

    /// The identity of the open database.
    pub(crate) fn database(&self) -> &DatabaseId {
        &self.tables.database
    }

    /// Does nothing: records stay in memory.
    pub(crate) fn evict_chosen(&self, _: impl Fn(u64) -> bool) -> u64 {
        0
    }

    /// Returns true: records are in memory when the database is open.
    pub(crate) fn has_loaded(&self) -> bool {
        true
    }

    /// Does nothing: records stay in memory.
    #[cfg(not(shuttle))]
    pub(crate) fn evict_some(&self, _: bool) -> Progress {
        Progress::Idle
    }

    /// One round of the background helper: advances epochs and frees the garbage of idle workers. Returns whether
    /// garbage is left.
    pub(crate) fn maintain(&self) -> bool {
        self.epochs.advance();
        self.tables.advance();
        self.workers.for_each_idle(|worker| {
            worker.housekeep(self, 4096);
            worker.give_row_ids(self);
        });
        self.nodes.reclaim_orphans(4096);
        self.memory.sweep_if_due();
        let ending = self.tables.free_ended(|table| {
            // SAFETY: the table was dropped, and every transaction that could meet its records has left the epoch of
            // transactions.
            let _ = unsafe { table.clear(&mut self.memory.arena()) };
        });
        self.garbage() > 0 || ending
    }

    /// Further work for the background.
    pub(crate) fn chores(&self) -> Chores {
        Chores { checkpoints: self.log.is_some(), loading: false, eviction: false }
    }

    pub(crate) fn load(&self, _stop: &AtomicBool) -> Result<()> {
        Ok(())
    }

    /// Lifts the limits on background work, because the database is about to be closed.
    pub(crate) fn hurry(&self) {
        self.checkpoints.iter().for_each(|checkpoints| checkpoints.upkeep.hurry());
    }

    /// Makes everything durable. No transaction runs any more.
    pub(crate) fn close(&self) {
        /// A log that is replayed in a moment.
        const LITTLE: u64 = 64 << 20;
        let (Some(log), Some(checkpoints)) = (&self.log, &self.checkpoints) else { return };
        if checkpoints.distance(log).0 > LITTLE || checkpoints.has_many_generations() {
            // On an error nothing is lost: the log has everything, too.
            let _ = self.checkpoint(Pace::Full);
        }
        log.stop();
        checkpoints.archive_closed(log);
    }

    /// Returns the failure because of which no transaction can commit any more, if there is one.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.log.as_ref().and_then(|log| log.check().err())
    }

    /// Returns nothing: no standby has one version a row.
    pub(crate) fn safe_replayed(&self) -> Option<u64> {
        None
    }

    /// Returns zero: no standby has one version a row.
    pub(crate) fn safe_snapshots_asked(&self) -> u64 {
        0
    }

    /// Makes no snapshot: no standby has one version a row.
    pub(crate) fn adopt_safe_snapshot(&self, _position: u64) {}

    /// Forgets no snapshot: no standby has one version a row.
    pub(crate) fn forget_safe_snapshot(&self) {}

    /// Resets all records, so that timestamps can begin anew. No transaction runs meanwhile; takes time for each row.
    pub(super) fn begin_round(&self) -> Result<()> {
        let _alone = self.rounds.lock().expect("no code panics while it sets records back");
        if !P::is_exhausted(&self.shared) {
            return Ok(());
        }
        // A transaction that begins now finds no timestamp, and waits for the lock.
        let (mut spin, since) = (Spin::default(), Instant::now());
        while self.presences.iter().any(|(_, presence)| presence.is_taken()) {
            if since.elapsed() >= self.options.wait_max {
                // A transaction has been left open (`stragglers` names it); this one is tried again.
                return Err(patience_ends(None).report(|_| (None, None)).into());
            }
            spin.wait();
        }
        let participant = self.nodes.join_as("timestamps");
        let _nodes = participant.enter();
        for table in self.tables.held() {
            for row in 0..table.rows.count() {
                table.rows.slot(RowId(row)).record().into_iter().for_each(P::set_back);
            }
        }
        P::begin_round(&self.shared);
        Ok(())
    }

    fn garbage(&self) -> u64 {
        self.presences.iter().map(|(_, presence)| presence.garbage.load(Ordering::Relaxed)).sum()
    }

    /// Returns the participants that keep garbage from being freed: workers that have been inside for a whole epoch.
    pub(crate) fn stragglers(&self) -> Vec<String> {
        let stragglers = self.nodes.try_advance().err().unwrap_or_default();
        stragglers.into_iter().map(|straggler| straggler.to_string()).collect()
    }

    /// Bytes of all indexes. Walks over them.
    pub(crate) fn index_bytes(&self) -> u64 {
        let participant = self.nodes.join_as("index_bytes");
        self.tables.index_bytes(&participant.enter())
    }

    /// Counts and sizes.
    pub(crate) fn statistics(&self) -> Statistics {
        let mut statistics = Statistics {
            memory_taken: self.budget.taken(),
            memory_limit: self.budget.limit(),
            version_bytes: self.memory.bytes(),
            row_bytes: self.tables.row_bytes(),
            index_bytes: self.nodes.allocated(),
            epochs: self.nodes.current().number(),
            garbage_versions: self.garbage() + self.snapshots.kept() as u64,
            ..Statistics::default()
        };
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.upkeep.tell(&mut statistics);
        }
        if let Some(log) = &self.log {
            (statistics.log_bytes, statistics.log_flushes) = log.written();
        }
        for (_, presence) in &self.presences {
            statistics.add(&presence.counters);
        }
        statistics
    }
}

impl<P: InPlace> Begins for Engine<P> {
    type Txn<'e> = Txn<'e, P>;

    fn begin<'e>(&'e self, options: &TxnOptions, pinned: bool) -> Result<Txn<'e, P>> {
        Txn::begin(self, options, pinned)
    }

    fn gate(&self) -> &Gate {
        &self.gate
    }

    fn options(&self) -> &Options {
        &self.options
    }

    fn is_running(&self) -> bool {
        self.presences.iter().any(|(_, presence)| presence.is_running_through())
    }

    fn is_in_flight(&self, other: Tid) -> bool {
        P::is_running(&self.shared, other.0)
    }
}

impl<P: InPlace> Schema for Engine<P> {
    type Family = RecordSlot<P::Control>;

    fn tables(&self) -> &Tables<RecordSlot<P::Control>> {
        &self.tables
    }

    fn is_logged(&self) -> bool {
        self.log.is_some()
    }

    fn sync(&self) -> Result<()> {
        self.log.as_ref().map_or(Ok(()), |log| log.sync())
    }
}
