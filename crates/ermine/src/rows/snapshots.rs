//! Which snapshots are in use: one padded word a worker, written by its owner alone.
//!
//! Invariants
//! 1. A worker first stores "some snapshot not below mine", then reads the log offset, then stores the exact stamp.
//! 2. A [`Horizon`] reads the log offset first and the words afterwards. A worker that it missed therefore began at or
//!    above that offset; the pair of store-then-load on both sides is sequentially consistent.
//! 3. So no snapshot needs a version made at `c` and superseded at `n` if `n` is below the horizon's open end and no
//!    listed snapshot lies in `(c, n]`.

use crate::{
    clock::LogOffset,
    counters::WorkerCounters,
    ids::Stamp,
    rows::known::Known,
    sync::{AtomicU64, Ordering, total_order},
};

/// A worker's word: idle, an exact snapshot, or "any snapshot from here on".
#[derive(Clone, Copy)]
struct Word(u64);

impl Word {
    const IDLE: Self = Self(u64::MAX);
    const OPEN: u64 = 1 << 63;

    fn exactly(begin: Stamp) -> Self {
        Self(begin.0)
    }

    fn from(begin: Stamp) -> Self {
        Self(begin.0 | Self::OPEN)
    }
}

/// The published snapshot of one worker, and what else only this worker writes.
#[repr(align(128))]
pub(crate) struct SnapshotSlot {
    word: AtomicU64,
    /// 1 while the transaction runs to its end without waiting for input from outside.
    runs_through: AtomicU64,
    pub(crate) counters: WorkerCounters,
    /// Superseded versions that wait to be unlinked or freed.
    pub(crate) garbage: AtomicU64,
    /// The versions that the transaction may know.
    pub(crate) known: Known,
}

impl SnapshotSlot {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU64::new(Word::IDLE.0),
            runs_through: AtomicU64::new(0),
            counters: WorkerCounters::new(),
            garbage: AtomicU64::new(0),
            known: Known::new(),
        }
    }

    /// Takes a snapshot of the present. `exact`: versions made and superseded after it may be removed while it is in
    /// use; otherwise everything newer stays as well (read committed reads newer versions too).
    pub(crate) fn take(&self, clock: &LogOffset, exact: bool, runs_through: bool) -> Stamp {
        // Relaxed: published by the swap.
        self.runs_through.store(u64::from(runs_through), Ordering::Relaxed);
        // SeqCst swap: a full fence (invariant 2). The caller relies on it for its epochs as well.
        self.word.swap(Word::from(Stamp::ZERO).0, Ordering::SeqCst);
        let begin = clock.now();
        let word = if exact { Word::exactly(begin) } else { Word::from(begin) };
        // Release: narrows what the swap announced; a reader of the wider word only keeps more.
        self.word.store(word.0, Ordering::Release);
        begin
    }

    /// Joins a snapshot that another slot holds meanwhile, one that the horizon reads before this one.
    pub(crate) fn join(&self, begin: Stamp, runs_through: bool) {
        // Relaxed: published by the swap.
        self.runs_through.store(u64::from(runs_through), Ordering::Relaxed);
        // SeqCst swap: as in `take`.
        self.word.swap(Word::exactly(begin).0, Ordering::SeqCst);
    }

    /// Whether a transaction is running that needs no input from outside to end.
    pub(crate) fn is_running_through(&self) -> bool {
        total_order();
        // SeqCst: pairs with the swap in `take` (gate.rs, invariant 2).
        self.word.load(Ordering::SeqCst) != Word::IDLE.0 && self.runs_through.load(Ordering::Relaxed) != 0
    }

    /// Gives the snapshot up.
    pub(crate) fn leave(&self) {
        // Release: everything the transaction read happened before.
        self.word.store(Word::IDLE.0, Ordering::Release);
    }
}

/// The snapshots in use at one moment; remains valid (only more conservative than needed) as time passes.
#[derive(Default)]
pub(crate) struct Horizon {
    /// Exact snapshots, ascending.
    exact: Vec<u64>,
    /// Every snapshot at or above may be in use.
    open: u64,
}

impl Horizon {
    /// Reads the snapshots again: first `holder`, then all the slots that exist by then ([`crate::txn::safe`],
    /// invariant 4).
    pub(crate) fn refresh<'a, I: Iterator<Item = &'a SnapshotSlot>>(
        &mut self,
        clock: &LogOffset,
        holder: &SnapshotSlot,
        slots: impl FnOnce() -> I,
    ) {
        self.open = clock.now().0;
        self.exact.clear();
        self.look_at(holder);
        slots().for_each(|slot| self.look_at(slot));
        self.exact.sort_unstable();
    }

    fn look_at(&mut self, slot: &SnapshotSlot) {
        total_order();
        // SeqCst: invariant 2.
        let word = slot.word.load(Ordering::SeqCst);
        if word == Word::IDLE.0 {
        } else if word & Word::OPEN != 0 {
            self.open = self.open.min(word & !Word::OPEN);
        } else {
            self.exact.push(word);
        }
    }

    /// Whether a supersession at `stamp` may be processed at all: every snapshot below it is listed.
    pub(crate) fn is_settled(&self, stamp: Stamp) -> bool {
        stamp.0 < self.open
    }

    /// Returns the snapshot that keeps a version made at `made` and superseded at `superseded`, if any.
    pub(crate) fn wanted_by(&self, made: Stamp, superseded: Stamp) -> Option<Stamp> {
        debug_assert!(self.is_settled(superseded));
        let above = self.exact.partition_point(|&snapshot| snapshot <= superseded.0);
        above.checked_sub(1).map(|at| self.exact[at]).filter(|&snapshot| snapshot > made.0).map(Stamp)
    }

    /// The oldest snapshot in use, or a stamp below it.
    pub(crate) fn oldest(&self) -> Stamp {
        Stamp(self.exact.first().map_or(self.open, |&exact| exact.min(self.open)))
    }

    /// Whether that snapshot is still listed.
    pub(crate) fn has(&self, snapshot: Stamp) -> bool {
        self.exact.binary_search(&snapshot.0).is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_version_between_two_snapshots_is_wanted_by_nobody() {
        let clock = LogOffset::new();
        let (holder, slots) = (SnapshotSlot::new(), [SnapshotSlot::new(), SnapshotSlot::new()]);
        let first = slots[0].take(&clock, true, true);
        let made = clock.reserve(16);
        let superseded = clock.reserve(16);
        let second = slots[1].take(&clock, true, true);
        clock.reserve(16);
        let mut horizon = Horizon::default();
        horizon.refresh(&clock, &holder, || slots.iter());
        assert!(horizon.is_settled(superseded));
        assert_eq!(horizon.wanted_by(made, superseded), None);
        assert_eq!(horizon.wanted_by(Stamp::ZERO, superseded), Some(first));
        let later = clock.reserve(16);
        horizon.refresh(&clock, &holder, || slots.iter());
        assert_eq!(horizon.wanted_by(superseded, later), Some(second));
        slots[1].leave();
        horizon.refresh(&clock, &holder, || slots.iter());
        assert_eq!(horizon.wanted_by(superseded, later), None);
        assert!(!horizon.has(second));
    }

    #[test]
    fn who_joins_the_holder_is_not_missed_when_the_holder_goes() {
        let (clock, holder, new) = (LogOffset::new(), SnapshotSlot::new(), SnapshotSlot::new());
        let made = clock.reserve(16);
        let snapshot = holder.take(&clock, true, false);
        let superseded = clock.reserve(16);
        let mut horizon = Horizon::default();
        // A new worker, created since the horizon read the holder, and not among the slots yet.
        horizon.refresh(&clock, &holder, || {
            new.join(snapshot, false);
            holder.leave();
            [].into_iter()
        });
        assert_eq!(horizon.wanted_by(made, superseded), Some(snapshot));
        horizon.refresh(&clock, &holder, || [&new].into_iter());
        assert_eq!(horizon.wanted_by(made, superseded), Some(snapshot));
    }

    #[test]
    fn an_open_snapshot_keeps_everything_newer() {
        let clock = LogOffset::new();
        let slot = SnapshotSlot::new();
        clock.reserve(64);
        let begin = slot.take(&clock, false, true);
        clock.reserve(64);
        let mut horizon = Horizon::default();
        horizon.refresh(&clock, &SnapshotSlot::new(), || [&slot].into_iter());
        assert!(!horizon.is_settled(begin));
        assert!(horizon.is_settled(Stamp(begin.0 - 1)));
    }
}
