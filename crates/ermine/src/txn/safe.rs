//! Safe snapshots, which can be read without certification (SSN 5.2).
//!
//! A snapshot at S shows all commits below S. It is safe if no transaction commits at or above S that must come before
//! a transaction below S. A transaction that reads only the snapshot then comes after all that it sees and before all
//! that it does not, whatever it reads: it needs no tracking and cannot lose.
//!
//! Invariants
//! 1. A thread that takes a snapshot announces it, reads the log offset as S, and publishes S. A committer checks for
//!    snapshots after it has taken its stamp, and waits while a snapshot is announced. So every committer with a stamp
//!    at or above S sees S. All these accesses are sequentially consistent; the wait lasts a handful of instructions.
//! 2. A committer treats the newest safe snapshot as a transaction that committed just below it and has read
//!    everything.
//! 3. A transaction in strict order gets a new snapshot: one that was taken before it began may lack commits that were
//!    acknowledged since. A transaction in a session gets only a snapshot that its session's last commit is below.
//! 4. While a snapshot may be handed out again, `holder` has it in its word, and the horizon reads that word before it
//!    asks which other slots there are (`snapshots`). A transaction gets the snapshot under the lock, and stores it
//!    into its own word there. So a horizon that finds that the holder has moved on finds the transaction, even in a
//!    new slot.
//! 5. Older snapshots stay safe: a committer that comes after the newest one comes after them.
//!
//! *Marks.* For standbys, a snapshot is marked in the log: S is then the place of its block, which is taken where
//! invariant 1 reads the offset, so a standby that has replayed the log up to the block, and nothing behind it, has
//! that snapshot. It adopts its own state there: no thread of a standby certifies anything, and a transaction that
//! reads the adopted state is as safe as one of the original.

use std::{ops::DerefMut, time::Duration};

use crate::{
    clock::LogOffset,
    ids::Stamp,
    mutant::Mutant,
    rows::snapshots::{Needs, SnapshotSlot},
    sync::{AtomicU64, Instant, Mutex, Ordering, Spin, total_order},
};

/// The newest safe snapshot, for committers: one word that is often read and rarely written.
pub(crate) struct SafeSnapshot(AtomicU64);

impl SafeSnapshot {
    const NONE: u64 = 0;
    const ANNOUNCED: u64 = u64::MAX;

    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(Self::NONE))
    }

    /// Takes a snapshot of the present state; `take` reads the log offset, or takes a place in the log, and then it may
    /// fail. One caller at a time.
    pub(crate) fn renew(&self, take: impl FnOnce() -> Option<Stamp>) -> Option<Stamp> {
        // Relaxed: only callers write it.
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(Self::ANNOUNCED, Ordering::SeqCst);
        total_order();
        let stamp = take();
        self.0.store(stamp.map_or(before, |stamp| stamp.0), Ordering::SeqCst);
        stamp
    }

    /// Returns the stamp of a reader that precedes every transaction that overwrites a version at `stamp`, if there is
    /// a snapshot.
    pub(crate) fn reader_below(&self, stamp: Stamp) -> Option<Stamp> {
        let mut spin = Spin::default();
        loop {
            total_order();
            match self.0.load(Ordering::SeqCst) {
                Self::NONE => return None,
                Self::ANNOUNCED => spin.wait(),
                // A snapshot above the stamp shows the committer; the previous snapshot is not known any more, and is
                // below.
                snapshot => return Some(Stamp(snapshot.min(stamp.0) - 1)),
            }
        }
    }
}

/// On a standby, the snapshot that transactions get.
#[derive(Default)]
struct Adopted {
    /// With the position of the original up to which it shows all.
    snapshot: Option<(Stamp, u64)>,
    /// How often one was asked for.
    asked: u64,
}

/// Hands out safe snapshots.
pub(crate) struct SafeSnapshots {
    newest: Mutex<Option<(Stamp, Instant)>>,
    adopted: Mutex<Adopted>,
    holder: SnapshotSlot,
    /// The time during which a snapshot is handed out again.
    interval: Duration,
}

impl SafeSnapshots {
    pub(crate) fn new(interval: Duration) -> Self {
        Self {
            newest: Mutex::new(None),
            adopted: Mutex::new(Adopted::default()),
            holder: SnapshotSlot::new(),
            interval,
        }
    }

    /// Returns the slot that keeps the newest snapshot while it may be handed out again.
    pub(crate) fn holder(&self) -> &SnapshotSlot {
        &self.holder
    }

    /// Stores a safe snapshot into a transaction's slot that shows all commits up to `after`; `None`: every commit so
    /// far.
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
        let stamp =
            safe.renew(|| Some(self.holder.take(clock, Needs::Versions, false))).expect("an offset can be read");
        slot.join(stamp, runs_through);
        *newest = Some((stamp, Instant::now()));
        if self.interval.is_zero() {
            self.holder.leave();
        }
        stamp
    }

    /// Marks a snapshot in the log; `claim` takes the place of its block, or fails.
    pub(crate) fn mark(&self, safe: &SafeSnapshot, claim: impl FnOnce() -> Option<Stamp>) -> Option<Stamp> {
        // One caller at a time.
        let _newest = self.newest.lock().expect("no code panics while it takes a snapshot");
        safe.renew(claim)
    }

    /// Adopts the present state of a standby, which shows the original up to a position where a snapshot was marked.
    pub(crate) fn adopt(&self, clock: &LogOffset, position: u64) {
        let mut adopted = self.adopted();
        adopted.snapshot = Some((self.holder.take(clock, Needs::Versions, false), position));
    }

    fn adopted(&self) -> impl DerefMut<Target = Adopted> + '_ {
        self.adopted.lock().expect("no code panics while it takes a snapshot")
    }

    /// Stores the adopted snapshot into a transaction's slot; `None`: there is none.
    pub(crate) fn join(&self, slot: &SnapshotSlot, runs_through: bool) -> Option<Stamp> {
        let mut adopted = self.adopted();
        adopted.asked += 1;
        let (stamp, _) = adopted.snapshot?;
        slot.join(stamp, runs_through);
        Some(stamp)
    }

    /// Returns the position up to which the adopted snapshot shows the original, for a transaction that wants one.
    pub(crate) fn adopted_to(&self) -> Option<u64> {
        let mut adopted = self.adopted();
        adopted.asked += 1;
        adopted.snapshot.map(|(_, position)| position)
    }

    /// Returns how often an adopted snapshot was asked for.
    pub(crate) fn asked(&self) -> u64 {
        self.adopted().asked
    }

    /// Hands the newest snapshot out no more: transactions that begin now get a new one, and on a standby the next one.
    pub(crate) fn forget(&self) {
        self.adopted().snapshot = None;
        *self.newest.lock().expect("no code panics while it takes a snapshot") = None;
        self.holder.leave();
    }

    /// Releases a snapshot that will not be handed out again, so that its versions can be freed. For the background
    /// helper.
    pub(crate) fn expire(&self) {
        let newest = self.newest.lock().expect("no code panics while it takes a snapshot");
        if newest.is_some_and(|(_, taken)| taken.elapsed() >= self.interval) {
            self.holder.leave();
        }
    }

    /// Returns the age of the newest snapshot.
    pub(crate) fn age(&self) -> Option<Duration> {
        let newest = self.newest.lock().expect("no code panics while it takes a snapshot");
        newest.map(|(_, taken)| taken.elapsed())
    }
}
