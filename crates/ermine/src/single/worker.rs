//! The state that a running transaction needs to itself, kept between transactions so that beginning one allocates
//! nothing.

use std::{cell::RefCell, collections::VecDeque, sync::Arc};

use super::{
    engine::Engine,
    journal::Journal,
    pending::{Positions, Write},
    removal::{Removal, Retired},
    savepoints::Replaced,
    snapshots::Snapshot,
};
use crate::{
    counters::WorkerCounters,
    epoch::{Limbo, Participant},
    error::{Doom, Error, Result},
    ids::{IndexOrdinal, RowId, Stamp, TableId},
    index::Batch,
    observer::Trace,
    platform::budget::{Budget, Kept},
    rows::{
        arena::Arena,
        array::{RowIds, WorkerRowIds},
        copies::Copies,
        in_place::{CommitTid, Outgrown},
    },
    savepoints::Savepoints,
    scheme::{ConflictSite, in_place::InPlace},
    sync::{AtomicU64, Ordering},
    txn::write_set::ReadWriteSets,
    work::Counts,
};

/// A worker.
pub(crate) struct Worker<P: InPlace> {
    pub(crate) nodes: Participant,
    pub(crate) presence: Arc<Presence>,
    pub(crate) state: RefCell<State<P>>,
}

/// The state of a worker that other threads may read, with counters that only the worker writes.
#[repr(align(128))]
pub(crate) struct Presence {
    running: AtomicU64,
    pub(crate) counters: WorkerCounters,
    /// Number of records and blocks that wait to be freed, and of keys that wait to be removed.
    pub(crate) garbage: AtomicU64,
}

impl Presence {
    const IDLE: u64 = 0;
    /// A transaction is open that the application drives.
    const OPEN: u64 = 1;
    /// A transaction is running that needs no input from outside to end.
    const RUNS_THROUGH: u64 = 2;

    fn new() -> Self {
        Self { running: AtomicU64::new(Self::IDLE), counters: WorkerCounters::new(), garbage: AtomicU64::new(0) }
    }

    /// Announces that a transaction begins.
    pub(crate) fn arrive(&self, runs_through: bool) {
        // SeqCst swap: gate.rs, invariant 2; and the fence of the caller's epoch.
        self.running.swap(if runs_through { Self::RUNS_THROUGH } else { Self::OPEN }, Ordering::SeqCst);
    }

    /// Announces that the transaction has ended.
    pub(crate) fn leave(&self) {
        // Release: everything the transaction did happened before.
        self.running.store(Self::IDLE, Ordering::Release);
    }

    /// Whether a transaction uses the worker.
    pub(crate) fn is_taken(&self) -> bool {
        // SeqCst: as below.
        self.running.load(Ordering::SeqCst) != Self::IDLE
    }

    pub(crate) fn is_running_through(&self) -> bool {
        // SeqCst: pairs with the swap in `arrive`.
        self.running.load(Ordering::SeqCst) == Self::RUNS_THROUGH
    }
}

/// An entry that a write takes from its row.
pub(crate) struct StaleEntry {
    pub(crate) row: RowId,
    pub(crate) index: IndexOrdinal,
    pub(crate) entry: ConflictSite,
}

/// The parts of a worker that operations change.
pub(crate) struct State<P: InPlace> {
    pub(crate) scheme: P::State,
    pub(crate) counts: Counts,
    pub(crate) sets: ReadWriteSets<Write<P::Control>, Outgrown>,
    pub(crate) savepoints: Savepoints<Replaced>,
    pub(crate) positions: Positions,
    pub(crate) copies: Copies,
    /// Bytes that the writes will take at commit, in addition to the existing records.
    pub(crate) reserved: u64,
    /// The part of the kept bytes that is counted in the budget.
    pub(crate) kept: Kept,
    pub(crate) arena: Arena,
    /// The snapshot that the transaction reads, if it reads one: then it does not use the scheme.
    pub(crate) snapshot: Option<Snapshot>,
    /// The greatest TID of a record that the transaction has met.
    pub(crate) last_tid: CommitTid,
    /// The TID of the last transaction that this worker has committed.
    pub(crate) own_tid: CommitTid,
    /// Whether the transaction has read a leaf for absent keys.
    pub(crate) met_gap: bool,
    /// The worker's end of the log, if there is a log.
    pub(crate) journal: Option<Journal>,
    /// Number of writes whose record is locked.
    pub(crate) locked: usize,
    /// Entries to remove when the writes are stored.
    pub(crate) stale_entries: Vec<StaleEntry>,
    /// The stamp at which the transaction began, for an observer.
    pub(crate) begin: Stamp,
    /// The transaction's actions, for an observer.
    pub(crate) trace: Option<Box<Trace>>,
    /// The reason why the transaction cannot go on, if there is one.
    pub(crate) doomed: Option<Doom>,
    /// Buffers of scans: each running scan takes one.
    pub(crate) batches: Vec<Batch>,
    pub(crate) garbage: Garbage<P::Control>,
    /// Transactions since the last housekeeping.
    transactions: usize,
}

/// Removals that are tried inside of one guard.
const REMOVALS_TOGETHER: usize = 4096;

/// Objects that wait to be removed, and to be freed.
pub(crate) struct Garbage<C> {
    pub(crate) removals: VecDeque<Removal>,
    /// How many removals transactions have queued since the last housekeeping.
    queued: usize,
    pub(crate) retired: Limbo<Retired<C>>,
    pub(crate) row_ids: WorkerRowIds,
    /// The part of the queues' bytes that is counted in the budget.
    kept: Kept,
}

impl<C> Garbage<C> {
    /// Approximate bytes of the queues.
    fn bytes(&self) -> u64 {
        (self.removals.len() * size_of::<Removal>() + self.retired.len() * 2 * size_of::<Retired<C>>()) as u64
    }

    /// Queues a removal for a transaction.
    pub(super) fn queue(&mut self, removal: Removal) {
        self.removals.push_back(removal);
        self.queued += 1;
    }

    /// The worker's RowIds of a table.
    pub(crate) fn row_ids(&mut self, table: TableId) -> &mut RowIds {
        self.row_ids.of(table)
    }
}

impl<P: InPlace> State<P> {
    /// Approximate bytes that the worker keeps for the transaction, and that its commit will take.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let stale = self.stale_entries.capacity() * size_of::<StaleEntry>();
        (self.sets.bytes() + self.copies.bytes() + stale + P::kept_bytes(&self.scheme)) as u64 + self.reserved
    }

    /// Notes in the budget that the transaction has ended, and its sets are cleared.
    pub(crate) fn end_kept(&mut self, is_tight: bool, budget: &Budget) {
        let mut kept = std::mem::take(&mut self.kept);
        kept.end(is_tight, || self.kept_bytes(), budget);
        self.kept = kept;
    }
}

impl<P: InPlace> Worker<P> {
    /// Transactions and removals between two rounds of housekeeping.
    const HOUSEKEEPING_EVERY: usize = if cfg!(shuttle) { 2 } else { 128 };

    /// Creates a worker; fails if there are as many as there may be open transactions.
    pub(crate) fn new(engine: &Engine<P>) -> Result<Self> {
        // Relaxed: a count.
        if engine.worker_count.fetch_add(1, Ordering::Relaxed) >= crate::OPEN_TRANSACTIONS_MAX {
            engine.worker_count.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::TOO_MANY_OPEN);
        }
        let presence = Arc::new(Presence::new());
        engine.presences.push(presence.clone());
        let garbage = Garbage {
            removals: VecDeque::new(),
            queued: 0,
            retired: Limbo::new(),
            row_ids: WorkerRowIds::default(),
            kept: Kept::default(),
        };
        let state = State {
            scheme: P::State::default(),
            counts: Counts::default(),
            sets: ReadWriteSets::default(),
            savepoints: Savepoints::default(),
            positions: Positions::default(),
            copies: Copies::default(),
            reserved: 0,
            kept: Kept::default(),
            arena: engine.memory.arena(),
            snapshot: None,
            last_tid: CommitTid::default(),
            own_tid: CommitTid::default(),
            met_gap: false,
            journal: engine.log.as_deref().map(Journal::new),
            locked: 0,
            stale_entries: Vec::new(),
            begin: Stamp::ZERO,
            trace: engine.options.observer.is_some().then(Box::default),
            doomed: None,
            batches: Vec::new(),
            garbage,
            transactions: 0,
        };
        let nodes = engine.nodes.join_as(&format!("worker {}", engine.presences.count()));
        Ok(Self { nodes, presence, state: RefCell::new(state) })
    }

    /// Collects garbage once in a while.
    pub(crate) fn housekeep_sometimes(&mut self, engine: &Engine<P>) {
        let state = self.state.get_mut();
        state.transactions += 1;
        let since = state.transactions + state.garbage.queued;
        if since >= Self::HOUSEKEEPING_EVERY {
            // Twice the amount that was added: a backlog shrinks.
            self.housekeep(engine, 2 * since);
        }
    }

    /// Tries to remove up to `at_most` keys from their indexes, each once, frees memory that no thread can read, and
    /// advances the epoch. The worker is idle.
    pub(crate) fn housekeep(&mut self, engine: &Engine<P>, at_most: usize) {
        let state = self.state.get_mut();
        state.transactions = 0;
        // A removal that has to wait goes to the end of the queue, and is not tried again in this round.
        let mut left = at_most.min(state.garbage.removals.len());
        let mut is_due = true;
        while left > 0 && is_due {
            // Not all in one: others wait for the guard's epoch to close.
            let nodes = self.nodes.enter();
            for _ in 0..left.min(REMOVALS_TOGETHER) {
                let removal = state.garbage.removals.pop_front().expect("as many as there were");
                is_due = removal.carry_out(engine, &mut state.garbage, &nodes);
                if !is_due {
                    break;
                }
                left -= 1;
            }
        }
        // Those behind one of the current epoch are for the next rounds.
        state.garbage.queued = left;
        engine.nodes.advance();
        state.garbage.free(engine, &mut state.arena);
        state.garbage.row_ids.forget(|table| engine.tables.is_gone(table));
        state.arena.tidy();
        self.nodes.reclaim(at_most);
        let garbage = &mut state.garbage;
        garbage.kept.set(garbage.bytes(), &engine.budget);
        let waiting = state.garbage.removals.len() + state.garbage.retired.len();
        // Relaxed: a statistic.
        self.presence.garbage.store(waiting as u64, Ordering::Relaxed);
    }

    /// Gives the RowIds that the worker has freed to their tables.
    pub(crate) fn give_row_ids(&mut self, engine: &Engine<P>) {
        let row_ids = &mut self.state.get_mut().garbage.row_ids;
        row_ids.give_back(|table, row_ids| engine.tables.give_row_ids(table, row_ids, 0));
    }
}
