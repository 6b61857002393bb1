//! Participation in an epoch: entering, leaving, quiescing, retiring.

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::Arc;

use super::limbo::Deferred;
use super::{EpochManager, Limbo, ParticipantSlot};
use crate::platform::budget::CHUNK_BYTES;
use crate::sync::{Ordering, fence};

/// A participant in a time scale. Belongs to a worker and moves between threads with it; not shared.
pub(crate) struct Participant {
    epochs: Arc<EpochManager>,
    slot: Arc<ParticipantSlot>,
    /// Number of entries that have not been left yet.
    depth: Cell<u32>,
    retired: RefCell<Limbo<Deferred>>,
    /// Bytes that were allocated, less those that were freed, and that the budget has not counted yet.
    uncounted: Cell<i64>,
}

impl Participant {
    pub(super) fn new(epochs: Arc<EpochManager>, slot: Arc<ParticipantSlot>) -> Self {
        Self { epochs, slot, depth: Cell::new(0), retired: RefCell::new(Limbo::new()), uncounted: Cell::new(0) }
    }

    /// Enters until the guard is dropped. Entries may nest.
    pub(crate) fn enter(&self) -> Guard<'_> {
        self.pin();
        Guard { participant: self }
    }

    /// Enters without a guard, for whole transactions: [`unpin`](Self::unpin) leaves.
    pub(crate) fn pin(&self) {
        if self.is_inside() {
            self.depth.set(self.depth.get() + 1);
        } else {
            self.pin_unfenced();
            // Pairs with the fences of `advance_unless` and `retirement_epoch` (invariants 1 and 2).
            fence(Ordering::SeqCst);
        }
    }

    /// Works as [`pin`](Self::pin), but the caller issues `fence(SeqCst)` itself before its first access: one fence
    /// then serves several time scales.
    pub(crate) fn pin_unfenced(&self) {
        let depth = self.depth.get();
        self.depth.set(depth + 1);
        if depth == 0 {
            self.announce();
        }
    }

    /// Leaves the entry of one [`pin`](Self::pin) or [`pin_unfenced`](Self::pin_unfenced).
    pub(crate) fn unpin(&self) {
        let depth = self.depth.get();
        debug_assert!(depth > 0, "left more often than entered");
        self.depth.set(depth - 1);
        if depth == 1 {
            // Release pairs with the acquire of the walk: all accesses inside are over (invariant 3).
            self.slot.announced.store(0, Ordering::Release);
        }
    }

    /// Number of guards that keep the participant inside, and of pins.
    pub(crate) fn depth(&self) -> u32 {
        self.depth.get()
    }

    /// A conditional quiescent point: moves to the current epoch if that is a newer one. Only for a participant that is
    /// pinned and holds no reference found inside; with guards besides the pin nothing happens. Costs a read of a
    /// seldom written line when there is no newer epoch. Returns true when the participant moved.
    pub(crate) fn quiesce(&self) -> bool {
        // Relaxed: only this participant writes its word, and a current epoch read late is read next time.
        let announced = self.slot.announced.load(Ordering::Relaxed);
        if self.depth.get() != 1 || self.epochs.current.load(Ordering::Relaxed) == announced {
            return false;
        }
        self.announce();
        // As in `pin`.
        fence(Ordering::SeqCst);
        true
    }

    /// Runs up to `at_most` destructors of closed epochs: first those that this participant retired, then those left
    /// behind by dropped participants.
    pub(crate) fn reclaim(&self, at_most: usize) -> usize {
        let mut reclaimed = 0;
        while reclaimed < at_most {
            // Not borrowed while the destructor runs: it may retire in turn.
            let deferred = self.retired.borrow_mut().pop_closed(&self.epochs);
            let Some(deferred) = deferred else { break };
            self.count(-(deferred.run() as i64));
            reclaimed += 1;
        }
        reclaimed + self.epochs.reclaim_orphans(at_most - reclaimed)
    }

    #[inline]
    fn count(&self, bytes: i64) {
        let uncounted = self.uncounted.get() + bytes;
        self.uncounted.set(uncounted);
        if uncounted.unsigned_abs() >= CHUNK_BYTES {
            self.settle();
        }
    }

    /// Reports the uncounted bytes to the budget.
    #[cold]
    fn settle(&self) {
        self.epochs.shelf.settle(self.uncounted.take());
    }

    /// Returns the number of retired objects that wait for their epoch to close.
    #[cfg(test)]
    pub(crate) fn retired(&self) -> usize {
        self.retired.borrow().len()
    }

    pub(crate) fn is_inside(&self) -> bool {
        self.depth.get() > 0
    }

    #[cfg(test)]
    pub(crate) fn epochs(&self) -> &Arc<EpochManager> {
        &self.epochs
    }

    fn announce(&self) {
        // Relaxed: an old value is safe, it only holds epochs back.
        let current = self.epochs.current.load(Ordering::Relaxed);
        // Release pairs with the acquire of the walk, which may see this entry in place of the previous leaving.
        self.slot.announced.store(current, Ordering::Release);
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        self.settle();
        self.epochs.adopt(self.retired.get_mut());
        // Release pairs with the acquire of the walk: a participant dropped inside (its transaction panicked) leaves.
        self.slot.announced.store(0, Ordering::Release);
        // Release pairs with the acquire of `join_as`.
        self.slot.taken.store(0, Ordering::Release);
    }
}

/// Proof of being inside; dropping it leaves. Stays on its thread, as the participant is not shared.
pub(crate) struct Guard<'p> {
    participant: &'p Participant,
}

impl Guard<'_> {
    /// Counts bytes that were allocated for objects that the participants of this time scale share.
    #[inline]
    pub(crate) fn allocated(&self, bytes: usize) {
        self.participant.count(bytes as i64);
    }

    /// Calls `drop(pointer)` later, when no participant can access the object any longer; `drop` returns the number of
    /// bytes that it frees.
    ///
    /// # Safety
    /// - The object is unreachable: a participant that enters after this call cannot find it.
    /// - `drop(pointer)` is sound on any thread once no reference to the object is left, and is called nowhere else.
    pub(crate) unsafe fn retire(&self, pointer: NonNull<u8>, drop: unsafe fn(NonNull<u8>) -> usize) {
        // SAFETY: the caller's promise is the same.
        let deferred = unsafe { Deferred::new(pointer, drop) };
        self.participant.retired.borrow_mut().push(&self.participant.epochs, deferred);
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.participant.unpin();
    }
}
