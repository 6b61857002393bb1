//! The epochs in which commits are counted (SiloR 2.1).
//!
//! The current epoch is one number that every committing transaction reads and one thread writes from time to time. It
//! is read while all locks are held, so the epochs of two transactions that depend on each other, by any kind of
//! dependency, are in the order of the dependency; within an epoch the TIDs of records are.

use std::{sync::Arc, time::Duration};

use crate::{
    log::parallel::epoch::EpochClock,
    rows::in_place::CommitTid,
    sync::{AtomicU64, Instant, Mutex, Ordering},
};

/// The current epoch of a database.
pub(crate) struct CommitEpochs {
    clock: Arc<EpochClock>,
    last_advance: Mutex<Instant>,
    /// The last TID that was given out in an observed database.
    told: AtomicU64,
}

impl CommitEpochs {
    /// The minimal duration of an epoch. Explored schedules are shorter than any epoch: there each round is one.
    const LENGTH: Duration = if cfg!(shuttle) { Duration::ZERO } else { Duration::from_millis(10) };

    /// Creates the epochs of a database whose first one is `first`.
    pub(crate) fn starting_at(first: u64) -> Self {
        Self {
            clock: Arc::new(EpochClock::starting_at(first)),
            last_advance: Mutex::new(Instant::now()),
            told: AtomicU64::new(CommitTid::first(first).stamp().as_u64()),
        }
    }

    /// The clock itself, for the log.
    pub(crate) fn clock(&self) -> &Arc<EpochClock> {
        &self.clock
    }

    /// Returns the current epoch, for a transaction that holds all its locks.
    #[inline]
    pub(crate) fn current(&self) -> u64 {
        self.clock.current()
    }

    /// Ends the epoch if it has lasted for its minimal duration.
    pub(crate) fn advance(&self) {
        let mut last = self.last_advance.lock().expect("no code panics while it advances the epoch");
        if last.elapsed() >= Self::LENGTH {
            *last = Instant::now();
            self.clock.advance();
        }
    }

    /// Ends the epoch at once; returns the ended one.
    pub(crate) fn end_one(&self) -> u64 {
        self.clock.advance()
    }

    /// Returns a TID that is not below `tid` and above all that have been returned here: in an observed database no two
    /// transactions share one, and their order is one of commits.
    pub(crate) fn tell_apart(&self, tid: CommitTid) -> CommitTid {
        let next = |last| Some(tid.stamp().as_u64().max(last + 1));
        let last = self.told.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).expect("it always has a successor");
        CommitTid::from_stamp(next(last).map(crate::ids::Stamp).expect("as above"))
    }

    /// Returns a stamp below all TIDs that [`Self::tell_apart`] returns from now on, and above those that it has
    /// returned.
    pub(crate) fn told(&self) -> crate::ids::Stamp {
        crate::ids::Stamp(self.told.load(Ordering::SeqCst) + 1)
    }
}
