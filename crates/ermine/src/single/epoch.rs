//! The epochs that commits are counted in (SiloR 2.1).
//!
//! The current epoch is one number that every committing transaction reads and one thread writes, now and then. It is read while
//! all locks are held, so the epochs of two transactions that depend on each other, in whatever way, are in the order of the
//! dependency; within an epoch the TIDs of records are.

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
    /// The last TID that was given out for an observer.
    told: AtomicU64,
}

impl CommitEpochs {
    /// How long an epoch lasts at least. Schedules that are explored are shorter than any epoch: there each round is one.
    const LENGTH: Duration = if cfg!(shuttle) { Duration::ZERO } else { Duration::from_millis(10) };

    /// The first epoch is `first`.
    pub(crate) fn starting_at(first: u64) -> Self {
        Self {
            clock: Arc::new(EpochClock::starting_at(first)),
            last_advance: Mutex::new(Instant::now()),
            told: AtomicU64::new(CommitTid::first(first).stamp().as_u64()),
        }
    }

    /// The number itself, for the log.
    pub(crate) fn clock(&self) -> &Arc<EpochClock> {
        &self.clock
    }

    /// The epoch of a transaction that holds all its locks.
    #[inline]
    pub(crate) fn current(&self) -> u64 {
        self.clock.current()
    }

    /// Goes on to the next epoch when this one has lasted.
    pub(crate) fn advance(&self) {
        let mut last = self.last_advance.lock().expect("no code panics while it advances the epoch");
        if last.elapsed() >= Self::LENGTH {
            *last = Instant::now();
            self.clock.advance();
        }
    }

    /// Goes on to the next epoch at once; gives the one that ends.
    pub(crate) fn end_one(&self) -> u64 {
        self.clock.advance()
    }

    /// A TID that is not below `tid` and above all that have been given out here: in an observed database no two transactions
    /// share one, and their order is one of commits.
    pub(crate) fn tell_apart(&self, tid: CommitTid) -> CommitTid {
        let next = |last| Some(tid.stamp().as_u64().max(last + 1));
        let last = self.told.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).expect("it always has a successor");
        CommitTid::from_stamp(next(last).map(crate::ids::Stamp).expect("as above"))
    }

    /// Below the TID of whoever takes one from now on ([`Self::tell_apart`]), above those that have been taken.
    pub(crate) fn told(&self) -> crate::ids::Stamp {
        crate::ids::Stamp(self.told.load(Ordering::SeqCst) + 1)
    }
}
