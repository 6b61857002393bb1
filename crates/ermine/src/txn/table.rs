//! The TID table, which reports what became of a transaction (ERMIA 3.4).
//!
//! A version carries its writer's TID until post-commit replaces it by a stamp. A thread that meets a TID inquires
//! here. A TID is a generation and a slot of the table; the slot's [`Context`] holds its owner and the owner's state.
//!
//! ```text
//!   TID     63 0 | 62 .. 16 generation | 15 .. 0 slot                 never zero
//!   status  63 .. 61 state | 60 .. 0 stamp                            one word: no reader sees half a change
//!
//!   in flight -> committing, stamp unknown -> committing(stamp) -> committed(stamp)
//!        '--------------------'---------------------'------------> aborted
//! ```
//!
//! Invariants:
//! 1. *One owner.* A slot belongs to at most one lease, and to at most one transaction of it. Blocks of slots are
//!    [claimed](Claims) by leases; within a lease everything is private.
//! 2. *Owner first.* A new transaction stores `owner`, then the rest, `status` last. A thread that acquires any value
//!    that the new owner wrote into the context sees the new owner, too.
//! 3. *Owner last.* An inquiry reads `status`, then the other words it needs, then `owner`. If the owner is still the
//!    TID in question, no value read before came from a later owner (2). Generations never repeat, so there is no ABA.
//! 4. *Nothing older.* A TID is handed to other threads by a release after `begin` and read by an acquire (a version
//!    header, a reader slot): an inquiry for a TID sees at least the `status` that its `begin` stored.
//! 5. `successor` is stored before the status that makes it valid.
//! 6. *The mark precedes the stamp.* A committer stores "committing, stamp unknown" before it takes its stamp. A
//!    transaction that took a higher stamp therefore does not find it in flight.
//! 7. *A slot rests* from its release until the TID epoch of the release is closed. Inquiries need no epoch (3 makes
//!    their answers right and costs no write). A thread that wants an answer that lasts, for a report or to write into
//!    the context of another transaction, is inside one, and while inside gets no "stale" for a TID that had not ended
//!    on entering. This is the shortest of the time scales: a lease advances it about once in [`BLOCK`] transactions,
//!    so the epoch prevents that a slow observer meets a slot that was reused again and again.
//!
//! `begin` and `end` touch the transaction's own context and private state; once per block they advance the epoch.
//! `inquire` writes nothing.
//!
//! Callers: workers lease and begin; every reader of a version inquires.

use std::fmt;
use std::sync::Arc;

use super::claims::Claims;
use crate::epoch::{EpochManager, Limbo};
use crate::ids::{Stamp, Tid};
use crate::sync::{AtomicU32, AtomicU64, Ordering, total_order};

/// Number of slots that a lease takes from the table at a time. Small, because a worker goes through all of them in
/// turn: its contexts should stay in its first-level cache.
const BLOCK: usize = 32;

/// Maximum number of slots of a lease: more would lie idle once the straggler that made it need them is gone.
const SLOTS_PER_LEASE_MAX: usize = 64 * BLOCK;

const SLOT_BITS: u32 = 16;

/// See [`Context::successor`].
const LOCKED: u64 = 1 << 63;

impl Tid {
    fn slot(self) -> usize {
        (self.0 & ((1 << SLOT_BITS) - 1)) as usize
    }

    /// Returns the TID of the next transaction in `owner`'s slot. 47 bits of generation last for years of doing nothing
    /// else.
    fn next_generation(owner: u64, slot: u32) -> Self {
        let tid = Self((((owner >> SLOT_BITS) + 1) << SLOT_BITS) | u64::from(slot));
        debug_assert!(tid.0 >> 63 == 0, "bit 63 tells TIDs from stamps");
        tid
    }
}

/// State and stamp of a transaction in one word.
#[derive(Clone, Copy, PartialEq, Eq)]
struct StatusWord(u64);

impl StatusWord {
    const STATE_SHIFT: u32 = 61;
    const STAMP_MASK: u64 = (1 << Self::STATE_SHIFT) - 1;
    /// Also the state of a slot that no transaction has owned yet.
    const ABORTED: Self = Self(0);
    const IN_FLIGHT: Self = Self(1 << Self::STATE_SHIFT);
    const STAMPLESS: Self = Self(2 << Self::STATE_SHIFT);
    const COMMITTING: Self = Self(3 << Self::STATE_SHIFT);
    const COMMITTED: Self = Self(4 << Self::STATE_SHIFT);

    fn committing(stamp: Stamp) -> Self {
        Self(Self::COMMITTING.0 | Self::checked(stamp))
    }

    fn committed(stamp: Stamp) -> Self {
        Self(Self::COMMITTED.0 | Self::checked(stamp))
    }

    fn checked(stamp: Stamp) -> u64 {
        assert!(stamp.0 <= Self::STAMP_MASK, "a stamp beyond 2^61 does not fit a status word");
        stamp.0
    }

    fn state(self) -> u64 {
        self.0 & !Self::STAMP_MASK
    }

    fn is_aborted(self) -> bool {
        self.state() == Self::ABORTED.0
    }

    fn is_in_flight(self) -> bool {
        self.state() == Self::IN_FLIGHT.0
    }

    /// Whether the transaction is committing, and its stamp is not known yet.
    fn is_stampless(self) -> bool {
        self.state() == Self::STAMPLESS.0
    }

    /// Whether the transaction is committing, and its stamp is known.
    fn is_committing(self) -> bool {
        self.state() == Self::COMMITTING.0
    }

    fn is_committed(self) -> bool {
        self.state() == Self::COMMITTED.0
    }

    /// Whether the transaction is running: neither committed nor aborted.
    fn is_undecided(self) -> bool {
        self.is_in_flight() || self.is_stampless() || self.is_committing()
    }

    /// Returns the stamp; meaningful when committing or committed.
    fn stamp(self) -> Stamp {
        Stamp(self.0 & Self::STAMP_MASK)
    }
}

/// The state of a transaction, on a cache line pair of its own.
#[repr(align(128))]
struct Context {
    /// The TID of the transaction that this describes, 0 before the first.
    owner: AtomicU64,
    /// A [`StatusWord`].
    status: AtomicU64,
    /// The lowest stamp of the transactions that overwrote one of its reads (SSN's pi, SSI's s1): the value pushed by
    /// others so far while it runs, and the final value at its end. Bit 63, [`LOCKED`]: the value is final, and no
    /// transaction may push any more.
    successor: AtomicU64,
    /// 1 while the transaction waits for another one to end.
    waits: AtomicU32,
}

/// The answer to an inquiry: what became of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inquiry {
    /// The transaction has not begun to commit.
    InFlight,
    /// The transaction is being certified, under this stamp once it is known.
    Committing(Option<Stamp>),
    /// The transaction is visible to all that began after `stamp`. `successor` is its final pi.
    Committed { stamp: Stamp, successor: Stamp },
    /// The transaction's versions are or will be unlinked.
    Aborted,
    /// The transaction has ended, and its slot serves another: the place that the TID was read from holds the answer
    /// now, and the transaction's actions before its end are visible.
    Stale,
}

/// The TID table: all running transactions, and those that ended lately.
pub(crate) struct TidTable {
    contexts: Box<[Context]>,
    /// The blocks of slots that are leased.
    blocks: Claims,
    block: usize,
    epochs: Arc<EpochManager>,
}

impl TidTable {
    /// The number of slots that the slot bits of a TID can name.
    pub(crate) const CAPACITY_MAX: usize = 1 << SLOT_BITS;

    pub(crate) fn new(capacity: usize) -> Arc<Self> {
        Self::with_blocks_of(BLOCK, capacity)
    }

    pub(crate) fn with_blocks_of(block: usize, capacity: usize) -> Arc<Self> {
        assert!(capacity <= Self::CAPACITY_MAX, "a TID has 16 bits for its slot");
        assert!(capacity >= block && capacity.is_multiple_of(block), "capacity is a multiple of {block}");
        let context = |_| Context {
            owner: AtomicU64::new(0),
            status: AtomicU64::new(StatusWord::ABORTED.0),
            successor: AtomicU64::new(0),
            waits: AtomicU32::new(0),
        };
        let contexts = (0..capacity).map(context).collect();
        Arc::new(Self { contexts, blocks: Claims::new(capacity / block), block, epochs: EpochManager::new("tids") })
    }

    /// Returns the time scale in which slots rest (invariant 7).
    pub(crate) fn epochs(&self) -> &Arc<EpochManager> {
        &self.epochs
    }

    /// Creates a private stock of slots, empty until the first transaction.
    pub(crate) fn lease(self: &Arc<Self>) -> TidLease {
        TidLease {
            table: Arc::clone(self),
            tid: None,
            ready: Vec::new(),
            released: Vec::new(),
            resting: Limbo::new(),
            blocks: Vec::new(),
        }
    }

    /// Returns what became of the transaction `tid`. Writes nothing.
    pub(crate) fn inquire(&self, tid: Tid) -> Inquiry {
        let context = self.context(tid);
        total_order();
        // SeqCst: against the mark of `mark_committing`. A thread that stored a value that the committer reads after
        // its mark, and then inquires here, is seen by the committer or sees the mark. Acquire pairs with the releases
        // of all status stores: the storing owner's earlier writes are seen by the loads below (invariant 2).
        let status = StatusWord(context.status.load(Ordering::SeqCst));
        // Acquire pairs with all stores of a successor: one of a later owner brings that owner with it.
        let successor = Stamp(context.successor.load(Ordering::Acquire) & !LOCKED);
        // Acquire pairs with the release in `begin`: a thread that gets "stale" sees the transaction's actions before
        // its end. For invariant 3 it would suffice that this load is ordered after the acquires above.
        if context.owner.load(Ordering::Acquire) != tid.0 {
            return Inquiry::Stale;
        }
        if status.is_committed() {
            Inquiry::Committed { stamp: status.stamp(), successor }
        } else if status.is_in_flight() {
            Inquiry::InFlight
        } else if status.is_aborted() {
            Inquiry::Aborted
        } else {
            Inquiry::Committing(status.is_committing().then(|| status.stamp()))
        }
    }

    /// Lowers the successor stamp of another transaction, unless it is locked; returns whether the push counts. The
    /// caller verifies afterwards that the transaction is still there: a push that meets its successor in the slot only
    /// makes that one's stamp too low, so the caller need not be inside an epoch for it (invariant 7 is for threads
    /// that want an answer that lasts).
    pub(crate) fn push_successor(&self, tid: Tid, successor: Stamp) -> bool {
        let word = &self.context(tid).successor;
        // SeqCst all: pairs with `lock_successor`, and precedes the caller's second check of the slot's reader.
        let mut current = word.load(Ordering::SeqCst);
        while current & LOCKED == 0 {
            if current <= successor.0 {
                return true;
            }
            match word.compare_exchange_weak(current, successor.0, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return true,
                Err(newer) => current = newer,
            }
        }
        false
    }

    /// Returns whether a transaction waits for another one to end.
    pub(crate) fn waits(&self, tid: Tid) -> bool {
        let context = self.context(tid);
        total_order();
        // SeqCst: pairs with `begin_waiting`. Acquire: a later owner's flag brings that owner with it.
        context.waits.load(Ordering::SeqCst) != 0 && context.owner.load(Ordering::Acquire) == tid.0
    }

    /// Returns the number of running transactions. A walk over all leased contexts, for statistics.
    pub(crate) fn in_use(&self) -> usize {
        let slots = |block| &self.contexts[block * self.block..(block + 1) * self.block];
        // Relaxed: a statistic.
        let undecided = |context: &&Context| StatusWord(context.status.load(Ordering::Relaxed)).is_undecided();
        self.blocks.claimed().flat_map(slots).filter(undecided).count()
    }

    /// Whether the number may be a transaction's of this table.
    pub(crate) fn has_slot_of(&self, tid: Tid) -> bool {
        tid.0 != 0 && tid.0 >> 63 == 0 && self.contexts.get(tid.slot()).is_some()
    }

    fn context(&self, tid: Tid) -> &Context {
        debug_assert!(tid.0 != 0 && tid.0 >> 63 == 0, "{:#x} is no TID", tid.0);
        &self.contexts[tid.slot()]
    }
}

impl fmt::Debug for TidTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TidTable({} of {} slots in use)", self.in_use(), self.contexts.len())
    }
}

/// A worker's stock of slots, and its running transaction.
pub(crate) struct TidLease {
    table: Arc<TidTable>,
    tid: Option<Tid>,
    /// Slots whose last release was in an epoch that is closed.
    ready: Vec<u32>,
    /// Slots released since the last `refill`, not tagged with an epoch yet: one fence tags them all.
    released: Vec<u32>,
    /// Slots whose epoch is not closed yet.
    resting: Limbo<u32>,
    /// Blocks to give back at the end.
    blocks: Vec<usize>,
}

impl TidLease {
    /// Begins a transaction in a free slot. Returns none when the table is full.
    pub(crate) fn begin(&mut self) -> Option<Tid> {
        debug_assert!(self.tid.is_none(), "the lease runs a transaction already");
        if self.ready.is_empty() {
            self.refill();
        }
        let slot = self.ready.pop()?;
        let context = &self.table.contexts[slot as usize];
        // Relaxed: the slot belongs to this lease, whose claim of the block acquired the writes of former lessees.
        let tid = Tid::next_generation(context.owner.load(Ordering::Relaxed), slot);
        // Release pairs with `inquire`, for the former owner's end; for invariant 2 the releases below carry it.
        context.owner.store(tid.0, Ordering::Release);
        // Releases pair with the acquires of `inquire`.
        context.successor.store(Stamp::INFINITY.0, Ordering::Release);
        context.status.store(StatusWord::IN_FLIGHT.0, Ordering::Release);
        self.tid = Some(tid);
        Some(tid)
    }

    /// Returns the TID of the running transaction.
    pub(crate) fn tid(&self) -> Tid {
        self.tid.expect("the lease runs a transaction")
    }

    /// Returns the TID as [`Self::tid`], if there is one.
    pub(crate) fn running(&self) -> Option<Tid> {
        self.tid
    }

    /// Marks the transaction as waiting until the guard is dropped. The caller checks afterwards whether the
    /// transaction that it waits for is waiting as well: of several that wait in a circle, the last one to set its mark
    /// sees that.
    pub(crate) fn begin_waiting(&self) -> Waiting<'_> {
        // SeqCst: pairs with `TidTable::waits`.
        self.context().waits.store(1, Ordering::SeqCst);
        total_order();
        Waiting(self.context())
    }

    /// Puts the transaction back in flight: it does not commit under the stamp that it has taken, and goes on.
    pub(crate) fn mark_running(&self) {
        debug_assert!(self.status().is_undecided());
        // Release: as `set_commit_stamp`. A thread that waits for the outcome, because the stamp was below its own,
        // treats this transaction as running: it will get a higher stamp.
        self.context().status.store(StatusWord::IN_FLIGHT.0, Ordering::Release);
    }

    /// Stores "committing, stamp unknown". Precedes taking the stamp (invariant 6).
    pub(crate) fn mark_committing(&self) {
        debug_assert!(self.status().is_in_flight());
        // SeqCst: pairs with `inquire`; and the committer's later loads come after it in the total order.
        self.context().status.store(StatusWord::STAMPLESS.0, Ordering::SeqCst);
        total_order();
    }

    /// Stores the stamp under which the transaction commits.
    pub(crate) fn set_commit_stamp(&self, stamp: Stamp) {
        debug_assert!(self.status().is_stampless());
        // Release pairs with `inquire`.
        self.context().status.store(StatusWord::committing(stamp).0, Ordering::Release);
    }

    /// Decides to commit, with the final pi.
    pub(crate) fn set_committed(&self, stamp: Stamp, successor: Stamp) {
        debug_assert!(self.status().is_undecided());
        debug_assert!(successor <= Stamp::INFINITY);
        let context = self.context();
        // Release pairs with the acquire in `inquire`, which may belong to an inquiry for the former owner: that must
        // not take this pi for the former owner's (invariant 2).
        context.successor.store(successor.0 | LOCKED, Ordering::Release);
        // Release pairs with `inquire`: a thread that sees the commit sees the successor and all earlier writes.
        context.status.store(StatusWord::committed(stamp).0, Ordering::Release);
    }

    /// Returns the lowest successor stamp that others have pushed so far.
    pub(crate) fn successor(&self) -> Stamp {
        // Acquire: the transaction that pushed had a stamp by then.
        Stamp(self.context().successor.load(Ordering::Acquire) & !LOCKED)
    }

    /// Locks the successor stamp against further pushes; returns the lowest one pushed.
    pub(crate) fn lock_successor(&self) -> Stamp {
        // SeqCst: pairs with `push_successor`.
        Stamp(self.context().successor.fetch_or(LOCKED, Ordering::SeqCst) & !LOCKED)
    }

    /// Permits pushes again.
    pub(crate) fn unlock_successor(&self) {
        self.context().successor.fetch_and(!LOCKED, Ordering::SeqCst);
    }

    /// Decides to abort.
    pub(crate) fn set_aborted(&self) {
        debug_assert!(self.status().is_undecided());
        // Release pairs with `inquire`.
        self.context().status.store(StatusWord::ABORTED.0, Ordering::Release);
    }

    /// Ends the transaction: no place contains its TID any more from which a thread would take it to act on it. The
    /// answer stays readable until the slot has rested and is needed.
    pub(crate) fn end(&mut self) {
        debug_assert!(!self.status().is_undecided(), "ended before it was decided");
        let tid = self.tid.take().expect("the lease runs a transaction");
        self.released.push(tid.slot() as u32);
    }

    /// Fills `ready` if slots are available: first those that have rested, then new ones.
    #[cold]
    fn refill(&mut self) {
        let epochs = &self.table.epochs;
        if !self.released.is_empty() {
            self.resting.push_all(epochs, self.released.drain(..));
        }
        loop {
            while let Some(slot) = self.resting.pop_closed(epochs) {
                self.ready.push(slot);
            }
            if !self.ready.is_empty() {
                return;
            }
            // At most two advances close the epoch of everything that rests here, unless an observer holds it open.
            if self.resting.len() > 0 && epochs.advance().is_some() {
                continue;
            }
            if self.blocks.len() * self.table.block >= SLOTS_PER_LEASE_MAX {
                return;
            }
            let Some(block) = self.table.blocks.claim() else { return };
            self.blocks.push(block);
            let slots = block * self.table.block..(block + 1) * self.table.block;
            for slot in slots.rev() {
                // Relaxed: as in `begin`. A slot of a former lessee may have been released a moment ago.
                if self.table.contexts[slot].owner.load(Ordering::Relaxed) == 0 {
                    self.ready.push(slot as u32);
                } else {
                    self.resting.push(epochs, slot as u32);
                }
            }
        }
    }

    fn context(&self) -> &Context {
        &self.table.contexts[self.tid().slot()]
    }

    fn status(&self) -> StatusWord {
        // Relaxed: only this lease stores it.
        StatusWord(self.context().status.load(Ordering::Relaxed))
    }
}

/// The mark of a waiting transaction.
pub(crate) struct Waiting<'a>(&'a Context);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // Release: the next owner's flag, if it is seen, comes after that owner.
        self.0.waits.store(0, Ordering::Release);
    }
}

impl Drop for TidLease {
    fn drop(&mut self) {
        // A worker panicked inside a transaction: no thread shall wait for its outcome.
        if self.tid.is_some() && self.status().is_undecided() {
            self.set_aborted();
        }
        for &block in &self.blocks {
            self.table.blocks.give_back(block);
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "table_tests.rs"]
mod tests;
