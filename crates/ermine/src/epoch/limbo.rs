//! Queues, in order of retirement, of objects that are unreachable but may still be in use.

use std::collections::VecDeque;
use std::ptr::NonNull;

use super::{Epoch, EpochManager};

/// A FIFO of objects that wait for the epoch of their retirement to close.
///
/// For owners with garbage of their own kind; not shared, so a worker has one besides its participant.
pub(crate) struct Limbo<T> {
    queue: VecDeque<(Epoch, T)>,
}

impl<T> Limbo<T> {
    pub(crate) fn new() -> Self {
        Self { queue: VecDeque::new() }
    }

    /// Retires an object that the caller made unreachable before the call.
    pub(crate) fn push(&mut self, epochs: &EpochManager, item: T) {
        self.queue.push_back((epochs.retirement_epoch(), item));
    }

    /// Retires many objects for the price of one fence.
    pub(crate) fn push_all(&mut self, epochs: &EpochManager, items: impl IntoIterator<Item = T>) {
        let epoch = epochs.retirement_epoch();
        self.queue.extend(items.into_iter().map(|item| (epoch, item)));
    }

    /// Removes and returns the oldest object, when no participant can access it any longer.
    pub(crate) fn pop_closed(&mut self, epochs: &EpochManager) -> Option<T> {
        let &(epoch, _) = self.queue.front()?;
        if !epochs.is_closed(epoch) {
            return None;
        }
        self.queue.pop_front().map(|(_, item)| item)
    }

    /// Returns an object that comes later: the `ahead`-th from the oldest.
    pub(crate) fn peek(&self, ahead: usize) -> Option<&T> {
        self.queue.get(ahead).map(|(_, item)| item)
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Removes all objects, closed or not.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.queue.drain(..).map(|(_, item)| item)
    }
}

/// A destructor that waits for its turn.
pub(super) struct Deferred {
    pointer: NonNull<u8>,
    drop: unsafe fn(NonNull<u8>) -> usize,
}

// SAFETY: the contract of `Guard::retire` allows the destructor to run on any thread.
unsafe impl Send for Deferred {}

impl Deferred {
    /// # Safety
    /// As for [`Guard::retire`](super::Guard::retire).
    pub(super) unsafe fn new(pointer: NonNull<u8>, drop: unsafe fn(NonNull<u8>) -> usize) -> Self {
        Self { pointer, drop }
    }

    /// Runs the destructor; returns the number of bytes that it freed. Only for a caller that took it closed out of its
    /// queue, or that owns the manager alone.
    pub(super) fn run(self) -> usize {
        // SAFETY: invariant 3 of the module: no thread can reach the object any longer, and `self` is consumed, so this
        // is its only destruction, as `Guard::retire` requires.
        unsafe { (self.drop)(self.pointer) }
    }
}
