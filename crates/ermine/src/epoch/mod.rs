//! Three-phase epochs, which determine when an object may be reused that other threads may still be reading
//! (ERMIA 3.3).
//!
//! An [`EpochManager`] is one time scale. A thread that accesses the objects that it protects does so *inside*, between
//! entering and leaving as a [`Participant`]; objects that became unreachable are *retired* and reused when their epoch
//! has closed.
//!
//! ```text
//!   epoch     E - 1          E           E + 1
//!   phase     closed      closing        open
//!             nothing     busy, or a     arrivals
//!             inside      straggler
//! ```
//!
//! Opening E + 1 makes E closing and closes E - 1. Only participants that are still in E - 1 prevent it: stragglers,
//! which did not leave for a whole epoch. A participant that is merely busy is in E and is ignored; with two phases
//! instead of three every busy participant would be taken for a straggler.
//!
//! Invariants:
//! 1. *A participant inside holds the epoch back.* While its announced epoch is `a`, the current epoch is at most
//!    `a + 1`, or its announcement came late: then every value that it reads inside is at least as new as the advance
//!    that missed it. (The fence after the announcement against the fence before the walk in `advance`.)
//! 2. *The tag is not too old.* [`EpochManager::retirement_epoch`] is at least every epoch that a participant that saw
//!    the object can have announced. (Its fence, after the object became unreachable, against the fence after the
//!    announcement: a participant that entered a later epoch than the tag finds the object gone.)
//! 3. *Closed means gone.* When `is_closed(tag)`, every participant that was inside at `tag` or earlier has left, and
//!    its accesses there happened before the `true`. (The release of the announcement word, acquired by the walk; the
//!    release of the advance, acquired by `is_closed`.)
//! 4. Entering, leaving and retiring write the participant's own word and private state only; no participant ever
//!    waits.
//!
//! An announcement may be older than the current epoch from the start (the participant slept between reading and
//! storing). That only holds later epochs back until the participant leaves.
//!
//! Callers: any thread. A database has three managers: for operations (superseded versions), for transactions (index
//! nodes, tombstones, RowIds), and for TIDs ([`crate::txn::table`]).

mod limbo;
#[cfg(all(test, loom))]
mod loom_models;
mod participant;
#[cfg(all(test, not(loom)))]
mod tests;

use std::fmt;
use std::sync::Arc;

pub(crate) use limbo::Limbo;
pub(crate) use participant::{Guard, Participant};

use crate::platform::budget::Budget;
use crate::sync::{AppendList, AtomicU64, Mutex, Ordering, fence};
use limbo::Deferred;

/// A phase of one time scale. Epochs of different managers are not comparable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Epoch(u64);

impl Epoch {
    /// The epoch that the first participants enter. Two above zero, which announces that a slot's participant is
    /// outside.
    const FIRST: Self = Self(2);

    /// Returns its number; that of the first one is 2.
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A participant that did not leave for a whole epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Straggler {
    /// The time scale, as given to [`EpochManager::new`].
    pub(crate) scale: &'static str,
    /// Number of the participant in its manager.
    pub(crate) participant: usize,
    /// The participant's label, as given to [`EpochManager::join_as`].
    pub(crate) label: String,
    /// The epoch that the participant is in.
    pub(crate) since: Epoch,
}

impl fmt::Display for Straggler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: participant {} ({}) since epoch {}", self.scale, self.participant, self.label, self.since)
    }
}

/// The shared part of a participant. Padded: its owner writes it at every entry, and only advancing reads it.
#[repr(align(128))]
struct ParticipantSlot {
    /// The epoch that the participant is in, 0 outside.
    announced: AtomicU64,
    /// 1 while a [`Participant`] owns the slot.
    taken: AtomicU64,
    number: usize,
    label: Mutex<String>,
}

/// One time scale: its current epoch and all participants.
#[repr(align(128))]
pub(crate) struct EpochManager {
    /// Read by all participants, written at each advance: alone on its cache line.
    current: AtomicU64,
    shelf: Shelf,
}

/// The seldom used parts of a manager, away from the line that all participants read.
#[repr(align(128))]
struct Shelf {
    scale: &'static str,
    slots: AppendList<Arc<ParticipantSlot>>,
    /// Objects that participants had retired when they were dropped.
    orphans: Mutex<Limbo<Deferred>>,
    /// Length of `orphans`, so that no thread takes the lock in vain.
    orphaned: AtomicU64,
    /// The budget that counts the memory allocated for objects shared by the participants.
    budget: Arc<Budget>,
    /// The bytes of it that are allocated now; below zero for a moment where one participant frees what another one
    /// has not counted yet.
    allocated: AtomicU64,
}

impl Shelf {
    /// Counts bytes that were allocated, or freed if they are negative.
    fn settle(&self, bytes: i64) {
        self.budget.settle(bytes);
        // Relaxed: a count.
        self.allocated.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl EpochManager {
    /// Creates a time scale without participants. The name appears in straggler reports.
    pub(crate) fn new(scale: &'static str) -> Arc<Self> {
        Self::counted_by(scale, Arc::new(Budget::unlimited()))
    }

    /// Works as [`EpochManager::new`], for participants that allocate memory of a database.
    pub(crate) fn counted_by(scale: &'static str, budget: Arc<Budget>) -> Arc<Self> {
        let (slots, orphans) = (AppendList::new(), Mutex::new(Limbo::new()));
        let (orphaned, allocated) = (AtomicU64::new(0), AtomicU64::new(0));
        let shelf = Shelf { scale, slots, orphans, orphaned, budget, allocated };
        Arc::new(Self { current: AtomicU64::new(Epoch::FIRST.0), shelf })
    }

    /// Creates a participant, outside. Not for the hot path.
    #[cfg(test)]
    pub(crate) fn join(self: &Arc<Self>) -> Participant {
        self.join_as("unnamed")
    }

    /// Creates a participant that straggler reports call `label`.
    pub(crate) fn join_as(self: &Arc<Self>, label: &str) -> Participant {
        let mut free = None;
        self.shelf.slots.visit(|slot| {
            // Acquire pairs with the release in `Participant::drop`: the slot's former owner is outside.
            if slot.taken.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                free = Some(Arc::clone(slot));
            }
            free.is_none()
        });
        let slot = free.unwrap_or_else(|| self.add_slot());
        label.clone_into(&mut slot.label.lock().expect("no code under this lock panics"));
        Participant::new(Arc::clone(self), slot)
    }

    fn add_slot(&self) -> Arc<ParticipantSlot> {
        let mut added = None;
        self.shelf.slots.push_with(|number| {
            let (announced, taken) = (AtomicU64::new(0), AtomicU64::new(1));
            let slot = Arc::new(ParticipantSlot { announced, taken, number, label: Mutex::new(String::new()) });
            Arc::clone(added.insert(slot))
        });
        added.expect("push_with calls its closure once")
    }

    /// Returns the open epoch. To tag objects that became unreachable use [`retirement_epoch`](Self::retirement_epoch).
    pub(crate) fn current(&self) -> Epoch {
        // Acquire pairs with the advance that opened it: the events that closed its predecessors happened before.
        Epoch(self.current.load(Ordering::Acquire))
    }

    /// Returns the tag for objects that the calling thread made unreachable before this call (invariant 2). One fence:
    /// for many objects call it once.
    pub(crate) fn retirement_epoch(&self) -> Epoch {
        // Pairs with the fence of `enter`: a participant that enters a later epoch than the one read here finds the
        // object gone.
        fence(Ordering::SeqCst);
        Epoch(self.current.load(Ordering::Relaxed))
    }

    /// Returns true when no participant can hold any object any longer that was retired in `epoch` (invariant 3).
    pub(crate) fn is_closed(&self, epoch: Epoch) -> bool {
        self.current() >= epoch.next().next()
    }

    /// Opens the next epoch, or returns the participants that hold the closing one back. Allocates only to name them.
    pub(crate) fn try_advance(&self) -> Result<Epoch, Vec<Straggler>> {
        let mut stragglers = Vec::new();
        let advanced = self.advance_unless(|slot, since| {
            let label = slot.label.lock().expect("no code under this lock panics").clone();
            stragglers.push(Straggler { scale: self.shelf.scale, participant: slot.number, label, since });
            true
        });
        advanced.ok_or(stragglers)
    }

    /// Works as [`try_advance`](Self::try_advance) for a caller that does not need the names: stops at the first
    /// straggler.
    pub(crate) fn advance(&self) -> Option<Epoch> {
        self.advance_unless(|_, _| false)
    }

    /// Opens the next epoch when no participant is in the one before the current. Otherwise passes each straggler to
    /// `straggler`, which returns whether to look for more.
    fn advance_unless(&self, mut straggler: impl FnMut(&ParticipantSlot, Epoch) -> bool) -> Option<Epoch> {
        let current = self.current();
        // Pairs with the fence of `enter`: an announcement that this walk misses comes from a participant that sees
        // everything that happened before the walk (invariant 1). Also orders the walk after the read of `current`.
        fence(Ordering::SeqCst);
        let mut clear = true;
        self.shelf.slots.visit(|slot| {
            // Acquire pairs with the releases of leaving and announcing: the participant's earlier accesses are over.
            let announced = Epoch(slot.announced.load(Ordering::Acquire));
            if announced == Epoch(0) || announced >= current {
                return true;
            }
            clear = false;
            straggler(slot, announced)
        });
        if !clear {
            return None;
        }
        // Release pairs with the acquire of `current`: a thread that finds the epoch closed comes after everything that
        // the walk acquired.
        match self.current.compare_exchange(current.0, current.next().0, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => Some(current.next()),
            // Another thread has advanced meanwhile: that is all the caller wanted.
            Err(newer) => Some(Epoch(newer)),
        }
    }

    /// Runs up to `at_most` destructors of closed epochs whose participants were dropped.
    pub(crate) fn reclaim_orphans(&self, at_most: usize) -> usize {
        // Relaxed: a hint; the lock orders the queue itself.
        if self.shelf.orphaned.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let mut reclaimed = 0;
        while reclaimed < at_most {
            // Not held while the destructor runs: it may drop a participant.
            let deferred = self.shelf.orphans.lock().expect("no code under this lock panics").pop_closed(self);
            let Some(deferred) = deferred else { break };
            self.shelf.orphaned.fetch_sub(1, Ordering::Relaxed);
            self.shelf.settle(-(deferred.run() as i64));
            reclaimed += 1;
        }
        reclaimed
    }

    /// Returns the bytes allocated for objects shared by the participants, as far as they have been counted: up to a
    /// chunk for each participant is not.
    pub(crate) fn allocated(&self) -> u64 {
        // Relaxed: a count.
        (self.shelf.allocated.load(Ordering::Relaxed) as i64).max(0) as u64
    }

    /// Counts bytes that are freed without being retired: nothing leads to them any more.
    pub(crate) fn freed(&self, bytes: u64) {
        self.shelf.settle(-(bytes as i64));
    }

    /// Takes over the objects that a participant had retired.
    fn adopt(&self, retired: &mut Limbo<Deferred>) {
        if retired.len() == 0 {
            return;
        }
        let mut orphans = self.shelf.orphans.lock().expect("no code under this lock panics");
        self.shelf.orphaned.fetch_add(retired.len() as u64, Ordering::Relaxed);
        orphans.push_all(self, retired.drain());
    }
}

impl Drop for EpochManager {
    fn drop(&mut self) {
        // Every participant keeps the manager alive: there is none, and no retired object can be reached.
        let orphans = self.shelf.orphans.get_mut().expect("no code under this lock panics");
        for deferred in orphans.drain() {
            deferred.run();
        }
    }
}

impl fmt::Debug for EpochManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EpochManager({} in epoch {})", self.shelf.scale, self.current())
    }
}
