//! The TID table: what became of transaction T? (ERMIA 3.4)
//!
//! A version carries its writer's TID until post-commit replaces it by a stamp. Who meets a TID asks here. A TID is a
//! generation and a slot of the table; the slot's [`Context`] says who owns it and how far the owner is.
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
//! 2. *Owner first.* A new transaction stores `owner`, then the rest, `status` last. Whoever acquires anything that the
//!    new owner wrote into the context sees the new owner, too.
//! 3. *Owner last.* An inquiry reads `status`, then what it needs, then `owner`. If the owner still is the TID asked for,
//!    nothing read before came from a later owner (2). Generations never come back, so there is no ABA.
//! 4. *Nothing older.* A TID is handed to others by a release after `begin` and read by an acquire (a version header, a
//!    reader slot): who asks for a TID sees at least the `status` that its `begin` stored.
//! 5. `successor` is stored before the status that makes it count.
//! 6. *The mark precedes the stamp.* A committer says "committing, stamp unknown" before it takes its stamp. Whoever took
//!    a higher stamp therefore does not find it in flight.
//! 7. *A slot rests* from its release until the TID epoch of the release is closed. Inquirers need no epoch (3 makes
//!    their answers right and costs no write); whoever wants answers that last, for a report or to write into the context
//!    of another, is inside one, and while inside gets no "stale" for a TID that had not ended on entering. This is the
//!    shortest of the time scales: a lease moves it on about once in [`BLOCK`] transactions, so the epoch is what keeps
//!    a slow observer from meeting a slot that went round again and again.
//!
//! `begin` and `end` touch the own context and private state; once in a block they move the epoch. `inquire` writes
//! nothing.
//!
//! Who may call: workers lease and begin; every reader of a version inquires.

use std::fmt;
use std::sync::Arc;

use super::claims::Claims;
use crate::epoch::{EpochManager, Limbo};
use crate::ids::{Stamp, Tid};
use crate::sync::{AtomicU32, AtomicU64, Ordering, total_order};

/// Slots that a lease takes from the table at a time. Few, because a worker goes through all of them in turn: its
/// contexts should stay in its first-level cache.
const BLOCK: usize = 32;

/// More slots a lease does not take: they lie idle once the straggler that made it want them is gone.
const SLOTS_PER_LEASE_MAX: usize = 64 * BLOCK;

const SLOT_BITS: u32 = 16;

/// See [`Context::successor`].
const LOCKED: u64 = 1 << 63;

impl Tid {
    fn slot(self) -> usize {
        (self.0 & ((1 << SLOT_BITS) - 1)) as usize
    }

    /// The TID of the next transaction in this one's slot. 47 bits of generation last for years of nothing else.
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
    /// Also the state of a slot that nobody owned yet.
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

    /// Committing, its stamp not known yet.
    fn is_stampless(self) -> bool {
        self.state() == Self::STAMPLESS.0
    }

    /// Committing, its stamp known.
    fn is_committing(self) -> bool {
        self.state() == Self::COMMITTING.0
    }

    fn is_committed(self) -> bool {
        self.state() == Self::COMMITTED.0
    }

    /// Running: neither committed nor aborted.
    fn is_undecided(self) -> bool {
        self.is_in_flight() || self.is_stampless() || self.is_committing()
    }

    /// Meaningful when committing or committed.
    fn stamp(self) -> Stamp {
        Stamp(self.0 & Self::STAMP_MASK)
    }
}

/// What is known about a transaction, on a cache line pair of its own.
#[repr(align(128))]
struct Context {
    /// The TID whose transaction this describes, 0 before the first.
    owner: AtomicU64,
    /// A [`StatusWord`].
    status: AtomicU64,
    /// The lowest stamp of what overwrote something it read (SSN's pi, SSI's s1), as far as others have pushed it while it
    /// runs, and at last. Bit 63, [`LOCKED`]: it is final, nobody may push any more.
    successor: AtomicU64,
    /// 1 while the transaction waits for another one to end.
    waits: AtomicU32,
}

/// What became of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inquiry {
    /// Has not begun to commit.
    InFlight,
    /// Is being certified, under this stamp once it is known.
    Committing(Option<Stamp>),
    /// Is visible to all that began after `stamp`. `successor` is its final pi.
    Committed { stamp: Stamp, successor: Stamp },
    /// Its versions are or will be unlinked.
    Aborted,
    /// Has ended, and its slot serves another: the place that gave the TID holds the answer now, and what the
    /// transaction did before its end is visible.
    Stale,
}

/// All transactions that run, and those that ended lately.
pub(crate) struct TidTable {
    contexts: Box<[Context]>,
    /// Which blocks of slots are leased.
    blocks: Claims,
    block: usize,
    epochs: Arc<EpochManager>,
}

impl TidTable {
    /// What the slot bits of a TID can name.
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

    /// The time scale in which slots rest (invariant 7).
    pub(crate) fn epochs(&self) -> &Arc<EpochManager> {
        &self.epochs
    }

    /// A private stock of slots, empty until the first transaction.
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

    /// What became of the transaction `tid`. Writes nothing.
    pub(crate) fn inquire(&self, tid: Tid) -> Inquiry {
        let context = self.context(tid);
        total_order();
        // SeqCst: against the mark of `mark_committing`. Who stored something the committer looks at after its mark, and
        // then asks here, is seen by it or sees the mark. Acquire pairs with the releases of all status stores: what the
        // storing owner wrote before is seen by the loads below (invariant 2).
        let status = StatusWord(context.status.load(Ordering::SeqCst));
        // Acquire pairs with all stores of a successor: one of a later owner brings that owner with it.
        let successor = Stamp(context.successor.load(Ordering::Acquire) & !LOCKED);
        // Acquire pairs with the release in `begin`: who is told "stale" sees what the transaction did before it ended.
        // For invariant 3 it would do that this load is ordered after the acquires above.
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

    /// Lowers the successor stamp of another transaction, unless it is locked; says whether it counts. The caller makes
    /// sure afterwards that the transaction is still there: what meets its successor in the slot is only too low, so nobody
    /// need be inside an epoch for it (invariant 7 is for those who want an answer that lasts).
    pub(crate) fn push_successor(&self, tid: Tid, successor: Stamp) -> bool {
        let word = &self.context(tid).successor;
        // SeqCst all: pairs with `lock_successor`, and precedes the second look at who is there.
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

    /// Whether a transaction waits for another one to end.
    pub(crate) fn waits(&self, tid: Tid) -> bool {
        let context = self.context(tid);
        total_order();
        // SeqCst: pairs with `begin_waiting`. Acquire: a later owner's flag brings that owner with it.
        context.waits.load(Ordering::SeqCst) != 0 && context.owner.load(Ordering::Acquire) == tid.0
    }

    /// How many transactions run now. A walk over all leased contexts, for statistics.
    pub(crate) fn in_use(&self) -> usize {
        let slots = |block| &self.contexts[block * self.block..(block + 1) * self.block];
        // Relaxed: a statistic.
        let undecided = |context: &&Context| StatusWord(context.status.load(Ordering::Relaxed)).is_undecided();
        self.blocks.claimed().flat_map(slots).filter(undecided).count()
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

/// A worker's stock of slots, and the transaction it runs.
pub(crate) struct TidLease {
    table: Arc<TidTable>,
    tid: Option<Tid>,
    /// Slots whose last release lies in a closed epoch.
    ready: Vec<u32>,
    /// Slots released since the last `refill`, not tagged with an epoch yet: one fence tags them all.
    released: Vec<u32>,
    /// Slots whose epoch is not closed yet.
    resting: Limbo<u32>,
    /// Blocks to give back in the end.
    blocks: Vec<usize>,
}

impl TidLease {
    /// Begins a transaction in a free slot. None when the table is full.
    pub(crate) fn begin(&mut self) -> Option<Tid> {
        debug_assert!(self.tid.is_none(), "the lease runs a transaction already");
        if self.ready.is_empty() {
            self.refill();
        }
        let slot = self.ready.pop()?;
        let context = &self.table.contexts[slot as usize];
        // Relaxed: the slot is this lease's, whose claim of the block acquired what former lessees wrote.
        let tid = Tid::next_generation(context.owner.load(Ordering::Relaxed), slot);
        // Release pairs with `inquire`, for the former owner's end; for invariant 2 the releases below carry it.
        context.owner.store(tid.0, Ordering::Release);
        // Releases pair with the acquires of `inquire`.
        context.successor.store(Stamp::INFINITY.0, Ordering::Release);
        context.status.store(StatusWord::IN_FLIGHT.0, Ordering::Release);
        self.tid = Some(tid);
        Some(tid)
    }

    /// The TID of the transaction that runs.
    pub(crate) fn tid(&self) -> Tid {
        self.tid.expect("the lease runs a transaction")
    }

    /// As [`Self::tid`], if there is one.
    pub(crate) fn running(&self) -> Option<Tid> {
        self.tid
    }

    /// The transaction waits until the guard is dropped. It looks afterwards whether the one that it waits for waits as well: of
    /// several that wait in a circle the last one to get here sees that.
    pub(crate) fn begin_waiting(&self) -> Waiting<'_> {
        // SeqCst: pairs with `TidTable::waits`.
        self.context().waits.store(1, Ordering::SeqCst);
        total_order();
        Waiting(self.context())
    }

    /// It does not commit under the stamp that it has taken, and goes on.
    pub(crate) fn mark_running(&self) {
        debug_assert!(self.status().is_undecided());
        // Release: as `set_commit_stamp`. Who waits for the outcome, because the stamp was below its own, takes it for one that is
        // running: it will get a higher one.
        self.context().status.store(StatusWord::IN_FLIGHT.0, Ordering::Release);
    }

    /// Says "committing, stamp unknown". Precedes taking the stamp (invariant 6).
    pub(crate) fn mark_committing(&self) {
        debug_assert!(self.status().is_in_flight());
        // SeqCst: pairs with `inquire`; and the committer's later loads come after it in the total order.
        self.context().status.store(StatusWord::STAMPLESS.0, Ordering::SeqCst);
        total_order();
    }

    /// Says under which stamp it commits.
    pub(crate) fn set_commit_stamp(&self, stamp: Stamp) {
        debug_assert!(self.status().is_stampless());
        // Release pairs with `inquire`.
        self.context().status.store(StatusWord::committing(stamp).0, Ordering::Release);
    }

    /// Decides for commit, with its final pi.
    pub(crate) fn set_committed(&self, stamp: Stamp, successor: Stamp) {
        debug_assert!(self.status().is_undecided());
        debug_assert!(successor <= Stamp::INFINITY);
        let context = self.context();
        // Release pairs with the acquire in `inquire`, which may belong to the former owner: it must not take this pi
        // for that owner's (invariant 2).
        context.successor.store(successor.0 | LOCKED, Ordering::Release);
        // Release pairs with `inquire`: who sees the commit sees the successor and what was done before.
        context.status.store(StatusWord::committed(stamp).0, Ordering::Release);
    }

    /// What others have pushed so far.
    pub(crate) fn successor(&self) -> Stamp {
        // Acquire: whoever pushed had a stamp by then.
        Stamp(self.context().successor.load(Ordering::Acquire) & !LOCKED)
    }

    /// Lets nobody push any more; gives what has been pushed.
    pub(crate) fn lock_successor(&self) -> Stamp {
        // SeqCst: pairs with `push_successor`.
        Stamp(self.context().successor.fetch_or(LOCKED, Ordering::SeqCst) & !LOCKED)
    }

    /// Lets others push again.
    pub(crate) fn unlock_successor(&self) {
        self.context().successor.fetch_and(!LOCKED, Ordering::SeqCst);
    }

    /// Decides for abort.
    pub(crate) fn set_aborted(&self) {
        debug_assert!(self.status().is_undecided());
        // Release pairs with `inquire`.
        self.context().status.store(StatusWord::ABORTED.0, Ordering::Release);
    }

    /// Ends the transaction: its TID is in no place any more from which others take it to act on it. The answer stays
    /// readable until the slot has rested and is needed.
    pub(crate) fn end(&mut self) {
        debug_assert!(!self.status().is_undecided(), "ended before it was decided");
        let tid = self.tid.take().expect("the lease runs a transaction");
        self.released.push(tid.slot() as u32);
    }

    /// Fills `ready` if there are slots to be had: those that have rested, then new ones.
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

/// A transaction waits.
pub(crate) struct Waiting<'a>(&'a Context);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // Release: the next owner's flag, if it is seen, comes after that owner.
        self.0.waits.store(0, Ordering::Release);
    }
}

impl Drop for TidLease {
    fn drop(&mut self) {
        // A worker that panicked inside a transaction: nobody shall wait for its outcome.
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
