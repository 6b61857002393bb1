//! The current epoch of a database: one number that every commit reads, and that one thread raises at intervals.

use crate::sync::{AtomicU64, Ordering, total_order};

/// The epoch number. On a cache line of its own: every commit reads it.
#[repr(align(128))]
pub(crate) struct EpochClock(AtomicU64);

impl EpochClock {
    pub(crate) fn starting_at(epoch: u64) -> Self {
        Self(AtomicU64::new(epoch))
    }

    /// Returns the current epoch.
    #[inline]
    pub(crate) fn current(&self) -> u64 {
        total_order();
        // SeqCst: between the locks of a commit before it and the loads of read words after it (`single::commit`);
        // between a slot's announcement and the loggers' visit of the slots (`worker_slots`).
        self.0.load(Ordering::SeqCst)
    }

    /// Advances to the next epoch; returns the one that ends.
    pub(crate) fn advance(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}
