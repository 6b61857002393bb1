//! What is unreachable but may still be looked at: queues in order of retirement.

use std::collections::VecDeque;
use std::ptr::NonNull;

use super::{Epoch, EpochManager};

/// A FIFO of things that wait for the epoch of their retirement to close.
///
/// For owners with garbage of their own kind; not shared, so a worker keeps one beside its participant.
pub(crate) struct Limbo<T> {
    queue: VecDeque<(Epoch, T)>,
}

impl<T> Limbo<T> {
    pub(crate) fn new() -> Self {
        Self { queue: VecDeque::new() }
    }

    /// Retires what the caller made unreachable before the call.
    pub(crate) fn push(&mut self, epochs: &EpochManager, item: T) {
        self.queue.push_back((epochs.retirement_epoch(), item));
    }

    /// Retires many for the price of one fence.
    pub(crate) fn push_all(&mut self, epochs: &EpochManager, items: impl IntoIterator<Item = T>) {
        let epoch = epochs.retirement_epoch();
        self.queue.extend(items.into_iter().map(|item| (epoch, item)));
    }

    /// The oldest, when nobody can be looking at it any longer.
    pub(crate) fn pop_closed(&mut self, epochs: &EpochManager) -> Option<T> {
        let &(epoch, _) = self.queue.front()?;
        if !epochs.is_closed(epoch) {
            return None;
        }
        self.queue.pop_front().map(|(_, item)| item)
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Takes all out, closed or not.
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

    /// Runs the destructor; gives the bytes that it freed. Only for who took it out of its queue closed, or owns the manager alone.
    pub(super) fn run(self) -> usize {
        // SAFETY: invariant 3 of the module: nobody can reach the object any longer, and `self` is used up, so this is
        // its only destruction, as `Guard::retire` asks.
        unsafe { (self.drop)(self.pointer) }
    }
}
