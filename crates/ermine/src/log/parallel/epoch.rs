//! The current epoch of a database: one number that every commit reads, and that one thread raises now and then.

use crate::sync::{AtomicU64, Ordering, total_order};

/// The number. On a cache line of its own: read by every commit.
#[repr(align(128))]
pub(crate) struct EpochClock(AtomicU64);

impl EpochClock {
    pub(crate) fn starting_at(epoch: u64) -> Self {
        Self(AtomicU64::new(epoch))
    }

    /// The current epoch.
    #[inline]
    pub(crate) fn current(&self) -> u64 {
        total_order();
        // SeqCst: between the locks of a commit before it and the loads of read words after it (`single::commit`); between a
        // seat's announcement and the look of the loggers at the seats (`seats`).
        self.0.load(Ordering::SeqCst)
    }

    /// Goes on to the next epoch; gives the one that ends.
    pub(crate) fn advance(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}
