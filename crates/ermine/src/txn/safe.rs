//! Safe snapshots: what may be read without being certified (SSN 5.2).
//!
//! A snapshot at S shows what committed below S. It is safe if nobody commits at or above S who must come before somebody
//! below S. A transaction that reads it and nothing else then comes after all that it sees and before all that it does not,
//! whatever it reads: it needs no tracking and cannot lose.
//!
//! Invariants
//! 1. Who takes a snapshot announces it, reads the log offset as S, and publishes S. A committer looks here after it has
//!    taken its stamp, and waits while a snapshot is announced. So whoever has a stamp at or above S knows of S. All these
//!    accesses are sequentially consistent; the wait is for a handful of instructions.
//! 2. A committer takes the newest safe snapshot for a transaction that committed just below it and has read everything.
//! 3. A transaction in strict order gets a new snapshot: one that was taken before it began may lack what has been acknowledged
//!    since. A transaction in a session gets no snapshot that its session's last commit is not below.
//! 4. While a snapshot may be handed out again, `holder` has it in its word, and the horizon looks at that word before it
//!    asks which other slots there are (`snapshots`). A transaction gets it under the lock, and puts it into its own word
//!    there. So a horizon that finds the holder gone on finds the transaction, also in a slot that is new.

use std::time::Duration;

use crate::{
    clock::LogOffset,
    ids::Stamp,
    mutant::Mutant,
    rows::snapshots::SnapshotSlot,
    sync::{AtomicU64, Instant, Mutex, Ordering, Spin, total_order},
};

/// The newest safe snapshot, for committers: one word that all read and few write.
pub(crate) struct SafeSnapshot(AtomicU64);

impl SafeSnapshot {
    const NONE: u64 = 0;
    const ANNOUNCED: u64 = u64::MAX;

    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(Self::NONE))
    }

    /// Takes a snapshot of now; `take` reads the log offset. One caller at a time.
    pub(crate) fn renew(&self, take: impl FnOnce() -> Stamp) -> Stamp {
        self.0.store(Self::ANNOUNCED, Ordering::SeqCst);
        total_order();
        let stamp = take();
        self.0.store(stamp.0, Ordering::SeqCst);
        stamp
    }

    /// The stamp of a reader that precedes whoever overwrites anything at `stamp`, if there is a snapshot.
    pub(crate) fn reader_below(&self, stamp: Stamp) -> Option<Stamp> {
        let mut spin = Spin::default();
        loop {
            total_order();
            match self.0.load(Ordering::SeqCst) {
                Self::NONE => return None,
                Self::ANNOUNCED => spin.wait(),
                // A snapshot above the stamp shows the committer; the one before it is not known any more, and is below.
                snapshot => return Some(Stamp(snapshot.min(stamp.0) - 1)),
            }
        }
    }
}

/// Hands out safe snapshots.
pub(crate) struct SafeSnapshots {
    newest: Mutex<Option<(Stamp, Instant)>>,
    holder: SnapshotSlot,
    /// How long a snapshot is handed out again.
    interval: Duration,
}

impl SafeSnapshots {
    pub(crate) fn new(interval: Duration) -> Self {
        Self { newest: Mutex::new(None), holder: SnapshotSlot::new(), interval }
    }

    /// The slot that keeps the newest one while it may be handed out again.
    pub(crate) fn holder(&self) -> &SnapshotSlot {
        &self.holder
    }

    /// Gives a transaction a safe snapshot in its slot that shows what committed up to `after`; `None`: everything that has committed.
    pub(crate) fn take(
        &self,
        safe: &SafeSnapshot,
        clock: &LogOffset,
        slot: &SnapshotSlot,
        runs_through: bool,
        after: Option<Stamp>,
    ) -> Stamp {
        let mut newest = self.newest.lock().expect("no code panics while it takes a snapshot");
        if let Some((stamp, taken)) = *newest
            && (after.is_some_and(|after| after < stamp) || Mutant::OldSnapshot.is_on())
            && taken.elapsed() < self.interval
        {
            slot.join(stamp, runs_through);
            return stamp;
        }
        let stamp = safe.renew(|| self.holder.take(clock, true, false));
        slot.join(stamp, runs_through);
        *newest = Some((stamp, Instant::now()));
        if self.interval.is_zero() {
            self.holder.leave();
        }
        stamp
    }

    /// Lets go of a snapshot that will not be handed out again, so that its versions can go. For the background helper.
    pub(crate) fn expire(&self) {
        let newest = self.newest.lock().expect("no code panics while it takes a snapshot");
        if newest.is_some_and(|(_, taken)| taken.elapsed() >= self.interval) {
            self.holder.leave();
        }
    }

    /// How old the newest one is.
    pub(crate) fn age(&self) -> Option<Duration> {
        let newest = self.newest.lock().expect("no code panics while it takes a snapshot");
        newest.map(|(_, taken)| taken.elapsed())
    }
}
