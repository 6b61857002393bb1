//! The private state of a running transaction, kept between transactions so that beginning one allocates nothing.
//!
//! A worker belongs to one transaction at a time, not to a thread: a transaction may move between threads and its
//! worker moves with it. Idle workers wait in a pool; a thread mostly gets the worker that it used last, with its
//! memory and counters still in the core's cache.
//!
//! Invariants
//! 1. There are as many workers as there were concurrent transactions at most. A worker is never destroyed before its
//!    database, so reader slots and snapshot slots stay dense.
//! 2. Only the transaction (or the housekeeping of an idle worker) touches a worker's state.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    sync::Arc,
    time::Duration,
};

use crate::{
    durable::{read_ahead::RowsAhead, stored_block::Blocks},
    engine::Engine,
    epoch::{Limbo, Participant},
    error::{Doom, Error, Result},
    ids::{RowId, Stamp, TableId, Tid},
    index::Batch,
    log::Position,
    observer::Trace,
    platform::budget::{Budget, Kept},
    reclaim::{self, Outcome, Queue, Superseded, Unlinked},
    rows::{
        arena::Arena,
        array::{KEPT_ROWS, RowIds, WorkerRowIds},
        chain::{CertifierStamps, VersionPtr},
        snapshots::{Horizon, Needs, SnapshotSlot},
    },
    savepoints::Savepoints,
    scheme::{Certifier, ConflictSite, Scheme, StampsOf},
    sync::{Instant, Ordering},
    table::TableStore,
    txn::{absence::Absences, readers::ReaderSlot, table::TidLease, write_set::ChainSets},
    work::Counts,
};

/// The epochs of a worker.
///
/// `versions` protects the versions that an operation walks over; a transaction leaves this epoch, or moves on to the
/// next, between operations, so that a long transaction does not retain all garbage. `nodes` protects the objects that
/// a transaction keeps until it ends: leaves it has seen, tombstones it has read, RowIds. One whose snapshot is passive
/// keeps none, and leaves this epoch, too.
pub(crate) struct Pins {
    pub(crate) versions: Participant,
    pub(crate) nodes: Participant,
}

/// A worker.
pub(crate) struct Worker<S: Scheme> {
    pub(crate) pins: Pins,
    /// The epoch in which a transaction with a passive snapshot began: it may use tables and indexes until it ends.
    passive: Participant,
    /// What the snapshot of its transaction needs.
    needs: Cell<Needs>,
    pub(crate) slot: Arc<SnapshotSlot>,
    pub(crate) state: RefCell<State<S>>,
    changes: Changes,
}

/// Counts, by table, the events that may change the result of a running scan: writes, and the loss of a conflict.
/// Tables whose numbers leave the same remainder are counted together.
#[derive(Default)]
struct Changes([Cell<u64>; 8]);

impl Changes {
    fn of(&self, table: TableId) -> &Cell<u64> {
        &self.0[table.0 as usize % self.0.len()]
    }
}

/// The parts of a worker that operations change.
pub(crate) struct State<S: Scheme> {
    /// Everything strictly below is visible.
    pub(crate) begin: Stamp,
    pub(crate) counts: Counts,
    /// The transaction reads a snapshot that needs no certification: nothing is tracked, but for the reads that it
    /// [certifies](crate::Transaction::certify_reads).
    pub(crate) uncertified: bool,
    /// Whether its reads are tracked now.
    pub(crate) tracks: bool,
    /// Whether it has tracked reads although it is uncertified.
    pub(crate) certifies_some: bool,
    /// The running transaction, once it has written or needs to commit with a stamp.
    pub(crate) tid: Option<Tid>,
    pub(crate) tids: TidLease,
    pub(crate) reader: ReaderSlot,
    pub(crate) certifier: S::Certifier,
    pub(crate) sets: ChainSets<StampsOf<S>>,
    pub(crate) savepoints: Savepoints<VersionPtr<StampsOf<S>>>,
    /// The budget's count of the read and write sets and of tracked reads.
    pub(crate) kept: Kept,
    /// The worker's position in the log, where there is one.
    pub(crate) position: Option<Position>,
    /// The last place in the log that the transaction's reads come from.
    pub(crate) read_from: Stamp,
    pub(crate) arena: Arena,
    /// Bytes of the rows that the transaction has read from their files into memory.
    pub(crate) brought_in: u64,
    /// The blocks that rows were read from last.
    pub(crate) blocks: Blocks,
    /// Whether the transaction has lent values to the application; how many tables it read as a whole when it last
    /// looked for versions that it need not know any more.
    pub(crate) has_lent: bool,
    pub(crate) whole_tables: usize,
    /// The absent versions of the transaction's inserts.
    pub(crate) absences: Absences<StampsOf<S>>,
    /// The TID under which the transaction is prepared, if it is.
    pub(crate) prepared_as: Option<Tid>,
    /// The transaction's actions, for an observer.
    pub(crate) trace: Option<Box<Trace>>,
    /// Why the transaction is over before its end.
    pub(crate) doomed: Option<Doom>,
    /// Each running scan takes one. They are not on the stack: a join of many tables runs a scan inside of a scan.
    pub(crate) scans: Vec<ScanBuffers<StampsOf<S>>>,
    row_ids: WorkerRowIds,
    garbage: Garbage<StampsOf<S>>,
    /// Transactions and superseded rows since the last housekeeping.
    since_housekeeping: usize,
}

/// The buffers of a scan.
pub(crate) struct ScanBuffers<H> {
    /// The entries of a leaf.
    pub(crate) batch: Batch,
    /// Of some of their rows, the newest versions, and then the visible ones.
    pub(crate) versions: Vec<Option<VersionPtr<H>>>,
    /// Those that are read ahead of it.
    pub(crate) ahead: RowsAhead,
}

/// Rows that were read from their files to be shown once: no slot refers to these versions.
pub(crate) struct Uncached<'w, S: Scheme> {
    worker: &'w Worker<S>,
    versions: Vec<VersionPtr<StampsOf<S>>>,
}

impl<'w, S: Scheme> Uncached<'w, S> {
    pub(crate) fn new(worker: &'w Worker<S>) -> Self {
        Self { worker, versions: Vec::new() }
    }

    pub(crate) fn push(&mut self, version: VersionPtr<StampsOf<S>>) {
        self.versions.push(version);
    }

    /// Frees the versions, which have been shown.
    #[inline]
    pub(crate) fn free(&mut self, arena: &mut Arena) {
        for version in self.versions.drain(..) {
            // SAFETY: no slot refers to the version, no certifier knows it, and its reader has done with it.
            unsafe { version.destroy(arena) };
        }
    }
}

impl<S: Scheme> Drop for Uncached<'_, S> {
    fn drop(&mut self) {
        // When an operation panics, its borrow ends first.
        if !self.versions.is_empty()
            && let Ok(mut state) = self.worker.state.try_borrow_mut()
        {
            self.free(&mut state.arena);
        }
    }
}

impl<H> Default for ScanBuffers<H> {
    fn default() -> Self {
        Self { batch: Batch::default(), versions: Vec::new(), ahead: RowsAhead::default() }
    }
}

/// The versions that a worker has superseded, and those that it has unlinked.
struct Garbage<H> {
    queue: Queue,
    /// Absent versions of committed transactions, with their stamps, which ascend.
    absent: VecDeque<(Stamp, VersionPtr<H>)>,
    horizon: Horizon,
    versions: Limbo<VersionPtr<H>>,
    rows: Limbo<(TableId, RowId, Option<VersionPtr<H>>)>,
    unlinked: Vec<VersionPtr<H>>,
    /// The budget's count of the queues.
    kept: Kept,
}

impl<S: Scheme> Worker<S> {
    /// Transactions and superseded rows between two rounds of garbage collection.
    const HOUSEKEEPING_EVERY: usize = if cfg!(shuttle) { 2 } else { 128 };
    /// Number of unlinked versions that may wait for other threads' operations before the worker yields to these.
    const BACKLOG_MAX: usize = 1 << 14;
    /// Maximum time that the worker yields, each time it collects garbage.
    const BACKLOG_WAIT_MAX: Duration = Duration::from_millis(1);

    /// Creates a worker of `engine`.
    pub(crate) fn new(engine: &Engine<S>) -> Result<Self> {
        let reader = engine.shared.readers.lease().ok_or(Error::TOO_MANY_OPEN)?;
        let slot = Arc::new(SnapshotSlot::new());
        engine.snapshots.push(slot.clone());
        let garbage = Garbage {
            queue: Queue::default(),
            absent: VecDeque::new(),
            horizon: Horizon::default(),
            versions: Limbo::new(),
            rows: Limbo::new(),
            unlinked: Vec::new(),
            kept: Kept::default(),
        };
        let state = State {
            begin: Stamp::ZERO,
            counts: Counts::default(),
            uncertified: false,
            tracks: true,
            certifies_some: false,
            tid: None,
            tids: engine.shared.tids.lease(),
            reader,
            certifier: S::Certifier::default(),
            sets: ChainSets::default(),
            savepoints: Savepoints::default(),
            kept: Kept::default(),
            position: engine.log.as_ref().map(|log| log.join()),
            read_from: Stamp::ZERO,
            arena: engine.memory.arena(),
            brought_in: 0,
            has_lent: false,
            whole_tables: 0,
            blocks: Blocks::default(),
            absences: Absences::default(),
            trace: engine.options.observer.is_some().then(Box::default),
            doomed: None,
            prepared_as: None,
            scans: Vec::new(),
            row_ids: WorkerRowIds::default(),
            garbage,
            since_housekeeping: 0,
        };
        let label = format!("worker {}", engine.snapshots.count());
        let pins = Pins { versions: engine.versions.join_as(&label), nodes: engine.nodes.join_as(&label) };
        let passive = engine.tables.passive.join_as(&label);
        Ok(Self {
            pins,
            passive,
            needs: Cell::new(Needs::Newer),
            slot,
            state: RefCell::new(state),
            changes: Changes::default(),
        })
    }

    /// Enters the epochs that a transaction stays in. `runs_through`: it does not wait for the application. The caller
    /// issues a fence before its first access.
    pub(crate) fn enter_transaction(&self, needs: Needs, runs_through: bool) {
        self.needs.set(needs);
        let is_passive = needs == Needs::Versions;
        if is_passive {
            self.passive.pin_unfenced();
        }
        if runs_through || !is_passive {
            self.pins.nodes.pin_unfenced();
        }
        if runs_through {
            self.pins.versions.pin_unfenced();
        }
    }

    /// Returns what the snapshot of its transaction needs.
    #[inline]
    pub(crate) fn needs(&self) -> Needs {
        self.needs.get()
    }

    /// Lets epochs advance while a transaction is between operations.
    pub(crate) fn rest(&self, runs_through: bool) {
        if runs_through {
            self.pins.versions.quiesce();
            if self.needs() == Needs::Versions {
                self.pins.nodes.quiesce();
            }
        }
    }

    /// Leaves the epochs of a transaction.
    pub(crate) fn leave_transaction(&self, runs_through: bool) {
        let is_passive = self.needs() == Needs::Versions;
        if runs_through {
            self.pins.versions.unpin();
        }
        if runs_through || !is_passive {
            self.pins.nodes.unpin();
        }
        if is_passive {
            self.passive.unpin();
        }
    }

    /// Returns the number of the transaction's changes of a table, or a higher one.
    pub(crate) fn changes(&self, table: TableId) -> &Cell<u64> {
        self.changes.of(table)
    }

    /// Notifies running scans of a change of a table.
    pub(crate) fn changed(&self, table: TableId) {
        let changes = self.changes.of(table);
        changes.set(changes.get().wrapping_add(1));
    }

    /// Notifies running scans of changes of any tables.
    pub(crate) fn changed_all(&self) {
        self.changes.0.iter().for_each(|changes| changes.set(changes.get().wrapping_add(1)));
    }

    /// Collects garbage now and then.
    pub(crate) fn housekeep_sometimes(&mut self, engine: &Engine<S>) {
        let state = self.state.get_mut();
        state.since_housekeeping += 1;
        if state.since_housekeeping >= Self::HOUSEKEEPING_EVERY {
            // Twice the amount that was added: a backlog shrinks.
            let at_most = 2 * state.since_housekeeping;
            self.housekeep(engine, at_most);
            self.give_others_time(engine);
        }
    }

    /// Yields the core for a moment when much garbage waits for other threads to end their operations: on a machine
    /// with more threads than cores these threads may not be running, and memory would grow until they do.
    fn give_others_time(&mut self, engine: &Engine<S>) {
        let State { garbage, arena, row_ids, .. } = self.state.get_mut();
        if garbage.versions.len() <= Self::BACKLOG_MAX {
            return;
        }
        let since = Instant::now();
        while garbage.versions.len() > Self::BACKLOG_MAX && since.elapsed() < Self::BACKLOG_WAIT_MAX {
            std::thread::yield_now();
            garbage.free(engine, arena, row_ids);
        }
    }

    /// Unlinks and frees up to `at_most` rows' worth of garbage, and advances the epochs. The worker is idle.
    pub(crate) fn housekeep(&mut self, engine: &Engine<S>, at_most: usize) {
        let Self { pins, slot, state, .. } = self;
        let State { garbage, arena, row_ids, since_housekeeping, .. } = state.get_mut();
        *since_housekeeping = 0;
        garbage.unlink(engine, pins, at_most);
        garbage.free(engine, arena, row_ids);
        row_ids.forget(|table| engine.tables.is_gone(table));
        if engine.is_tight() {
            arena.give_everything()
        } else {
            arena.tidy()
        }
        pins.nodes.reclaim(at_most);
        garbage.kept.set(garbage.bytes(), &engine.budget);
        // Relaxed: a statistic.
        slot.garbage.store(garbage.len() as u64, Ordering::Relaxed);
    }

    /// Gives the RowIds that the worker has freed to their tables.
    pub(crate) fn give_row_ids(&mut self, engine: &Engine<S>) {
        self.state.get_mut().row_ids.give_back(|table, row_ids| engine.tables.give_row_ids(table, row_ids, 0));
    }
}

impl<S: Scheme> State<S> {
    /// Whether the certifier decides about the transaction, if it has written.
    pub(crate) fn is_certified(&self) -> bool {
        !self.uncertified || self.certifies_some
    }

    /// Returns the approximate number of bytes that the worker keeps of the transaction.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let reads = self.certifier.tracked_reads() * 2 * size_of::<ConflictSite>();
        (self.sets.bytes() + self.absences.bytes() + reads + self.blocks.bytes()) as u64
    }

    /// Notes in the budget that the transaction has ended, and its sets are cleared.
    pub(crate) fn end_kept(&mut self, is_tight: bool, budget: &Budget) {
        let mut kept = std::mem::take(&mut self.kept);
        kept.end(is_tight, || self.kept_bytes(), budget);
        self.kept = kept;
    }

    /// Notes that the transaction reads a version made at `created`: it is acknowledged when that is durable.
    #[inline]
    pub(crate) fn reads_from(&mut self, table: &TableStore<StampsOf<S>>, created: Stamp) {
        if !table.id.is_unlogged() || table.is_beside_logged() {
            self.read_from = self.read_from.max(created);
        }
    }

    /// Returns the worker's RowIds of a table.
    pub(crate) fn row_ids(&mut self, table: TableId) -> &mut RowIds {
        self.row_ids.of(table)
    }

    /// Keeps or discards a version of the transaction's own that it has replaced by a newer one.
    pub(crate) fn replaced(&mut self, own: VersionPtr<StampsOf<S>>) {
        if self.savepoints.any() { self.savepoints.replaced(own) } else { self.sets.discarded.push(own) }
    }

    /// Discards the replaced versions, as no savepoint will be rolled back to any more.
    pub(crate) fn discard_replaced(&mut self) {
        self.sets.discarded.extend(self.savepoints.end());
    }

    /// Ends the use of a TID by a transaction that has written nothing, whether it meant to commit or not.
    pub(crate) fn give_up_tid(&mut self) {
        if self.tid.take().is_some() {
            self.tids.set_aborted();
            self.reader.clear();
            self.tids.end();
        }
    }

    /// Queues a version that a committed transaction of this worker superseded.
    pub(crate) fn superseded(&mut self, superseded: Superseded) {
        self.garbage.queue.push(superseded);
        self.since_housekeeping += 1;
    }

    /// Queues the absent versions of the inserts of a transaction that committed at `stamp`.
    pub(crate) fn supersede_absences(&mut self, stamp: Stamp) {
        while let Some(version) = self.absences.pop_from(0) {
            self.garbage.absent.push_back((stamp, version));
            self.since_housekeeping += 1;
        }
    }

    /// Retires a version of this worker's own that has been unlinked and that no transaction can have read.
    pub(crate) fn retire_version(&mut self, engine: &Engine<S>, version: VersionPtr<StampsOf<S>>) {
        self.garbage.versions.push(&engine.versions, version);
    }

    /// Retires a row that has been removed from the table, with the last version that transactions may have read of it.
    pub(crate) fn retire_row(
        &mut self,
        engine: &Engine<S>,
        table: TableId,
        row: RowId,
        version: Option<VersionPtr<StampsOf<S>>>,
    ) {
        self.garbage.rows.push(&engine.nodes, (table, row, version));
    }
}

impl<H: CertifierStamps> Garbage<H> {
    /// Number of superseded versions that wait to be unlinked or freed.
    fn len(&self) -> usize {
        self.queue.len() + self.absent.len() + self.versions.len()
    }

    /// Returns the approximate number of bytes that the queues take.
    fn bytes(&self) -> u64 {
        let limbo = (self.absent.len() + self.versions.len() + self.rows.len()) * 4 * size_of::<u64>();
        (self.queue.len() * size_of::<Superseded>() + limbo) as u64
    }

    /// Unlinks the versions that the horizon has passed.
    fn unlink<S: Scheme>(&mut self, engine: &Engine<S>, pins: &Pins, at_most: usize)
    where
        S::Certifier: Certifier<Stamps = H>,
    {
        if self.queue.len() + self.absent.len() == 0 {
            return;
        }
        let slots = || engine.snapshots.iter().map(|(_, slot)| &**slot);
        self.horizon.refresh(&engine.shared.clock, engine.safe.holder(), slots);
        // Each snapshot that keeps one keeps those of all later transactions; a passive one keeps none.
        while self.unlinked.len() < at_most
            && let Some(&(stamp, absent)) = self.absent.front()
            && self.horizon.is_settled(stamp)
            && self.horizon.traced_by(stamp).is_none()
        {
            self.unlinked.push(absent);
            self.absent.pop_front();
        }
        self.queue.wake(&self.horizon);
        let _versions = pins.versions.enter();
        let nodes = pins.nodes.enter();
        for _ in 0..at_most {
            let Some(superseded) = self.queue.pop(&self.horizon) else { break };
            self.prefetch_rows(engine);
            // The versions of a dropped table are freed with the table.
            let Some(table) = engine.find_table(superseded.table) else { continue };
            let mut row = None;
            let unlinked = Unlinked { versions: &mut self.unlinked, row: &mut row };
            match reclaim::process(table, &superseded, &self.horizon, &engine.latches, &nodes, unlinked) {
                Outcome::Done => {}
                Outcome::Wanted(snapshot) => self.queue.keep(snapshot, superseded),
                Outcome::Busy => self.queue.again(superseded),
            }
            if let Some((row, tombstone)) = row {
                self.rows.push(&engine.nodes, (table.id, row, Some(tombstone)));
            }
        }
        if !self.unlinked.is_empty() {
            self.versions.push_all(&engine.versions, self.unlinked.drain(..));
        }
    }

    /// Starts loading the parts of rows that are processed soon, which a row's processing would wait for one after the
    /// other: the slot of the one that comes last, the newest version of one before, the next version of one before
    /// that. The guards are held.
    fn prefetch_rows<S: Scheme>(&self, engine: &Engine<S>)
    where
        S::Certifier: Certifier<Stamps = H>,
    {
        const STEP: usize = 4;
        let slot = |ahead| {
            let later = self.queue.peek(ahead)?;
            Some((&engine.find_table(later.table)?.rows, later.row))
        };
        if let Some((rows, row)) = slot(3 * STEP) {
            rows.prefetch(row);
        }
        if let Some(head) = slot(2 * STEP).and_then(|(rows, row)| rows.slot(row).head()) {
            head.prefetch_header();
        }
        if let Some(older) = slot(STEP).and_then(|(rows, row)| rows.slot(row).head()?.older()) {
            older.prefetch_header();
        }
    }

    /// Frees the garbage that no thread can access any more.
    fn free<S: Scheme>(&mut self, engine: &Engine<S>, arena: &mut Arena, row_ids: &mut WorkerRowIds) {
        if self.versions.len() > 0 {
            engine.versions.advance();
        }
        engine.nodes.advance();
        /// Versions that are freed while the header of one arrives.
        const AHEAD: usize = 8;
        while let Some(version) = self.versions.pop_closed(&engine.versions) {
            self.versions.peek(AHEAD).inspect(|version| version.prefetch_header());
            // SAFETY: it was unlinked in an epoch that has closed, and no snapshot saw it: no handle of it is in use
            // (chain.rs, invariant 4).
            unsafe { version.destroy(arena) };
        }
        while let Some((table, row, version)) = self.rows.pop_closed(&engine.nodes) {
            if let Some(version) = version {
                // SAFETY: as above, for the epochs of transactions.
                unsafe { version.destroy(arena) };
            }
            let row_ids = row_ids.of(table);
            if !row_ids.is_counted() {
                engine.tables.count_row_ids(table, row_ids);
            }
            row_ids.give(row);
            if row_ids.are_many() {
                engine.tables.give_row_ids(table, row_ids, KEPT_ROWS / 2);
            }
        }
    }
}
