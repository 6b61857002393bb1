//! Which snapshots are in use: one padded word a worker, written by its owner alone.
//!
//! Invariants
//! 1. A worker first stores "some snapshot not below mine", then reads the log offset, then stores the exact stamp.
//! 2. A [`Horizon`] reads the log offset first and the words afterwards. A worker that it missed therefore began at or
//!    above that offset; the pair of store-then-load on both sides is sequentially consistent.
//! 3. So no snapshot needs a version made at `c` and superseded at `n` if `n` is below the horizon's open end and no
//!    listed snapshot lies in `(c, n]`.
//! 4. A passive snapshot is one whose transaction neither writes nor is certified. It needs nothing but the versions that
//!    it sees: not the traces of what was made and gone after it, such as tombstones, which tell others that they are
//!    late.

use crate::{
    clock::LogOffset,
    counters::WorkerCounters,
    ids::Stamp,
    rows::known::Known,
    sync::{AtomicU64, Ordering, total_order},
};

/// What a snapshot needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Needs {
    /// Everything newer as well: read committed reads newer versions, too.
    Newer,
    /// The versions that it sees, and traces of what came and went after it.
    Traces,
    /// The versions that it sees (invariant 4).
    Versions,
}

/// A worker's word: idle, an exact snapshot, or "any snapshot from here on".
#[derive(Clone, Copy)]
struct Word(u64);

impl Word {
    const IDLE: Self = Self(u64::MAX);
    const OPEN: u64 = 1 << 63;
    const PASSIVE: u64 = 1 << 62;

    fn of(begin: Stamp, needs: Needs) -> Self {
        match needs {
            Needs::Newer => Self(begin.0 | Self::OPEN),
            Needs::Traces => Self(begin.0),
            Needs::Versions => Self(begin.0 | Self::PASSIVE),
        }
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

    /// Takes a snapshot of the present.
    pub(crate) fn take(&self, clock: &LogOffset, needs: Needs, runs_through: bool) -> Stamp {
        // Relaxed: published by the swap.
        self.runs_through.store(u64::from(runs_through), Ordering::Relaxed);
        // SeqCst swap: a full fence (invariant 2). The caller relies on it for its epochs as well.
        self.word.swap(Word::of(Stamp::ZERO, Needs::Newer).0, Ordering::SeqCst);
        let begin = clock.now();
        // Release: narrows what the swap announced; a reader of the wider word only keeps more.
        self.word.store(Word::of(begin, needs).0, Ordering::Release);
        begin
    }

    /// Joins a passive snapshot that another slot holds meanwhile, one that the horizon reads before this one.
    pub(crate) fn join(&self, begin: Stamp, runs_through: bool) {
        // Relaxed: published by the swap.
        self.runs_through.store(u64::from(runs_through), Ordering::Relaxed);
        // SeqCst swap: as in `take`.
        self.word.swap(Word::of(begin, Needs::Versions).0, Ordering::SeqCst);
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
    /// Those of them that are not passive.
    tracing: Vec<u64>,
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
        self.tracing.clear();
        self.look_at(holder);
        slots().for_each(|slot| self.look_at(slot));
        self.exact.sort_unstable();
        self.tracing.sort_unstable();
    }

    fn look_at(&mut self, slot: &SnapshotSlot) {
        total_order();
        // SeqCst: invariant 2.
        let word = slot.word.load(Ordering::SeqCst);
        if word == Word::IDLE.0 {
        } else if word & Word::OPEN != 0 {
            self.open = self.open.min(word & !Word::OPEN);
        } else {
            self.exact.push(word & !Word::PASSIVE);
            if word & Word::PASSIVE == 0 {
                self.tracing.push(word);
            }
        }
    }

    /// Whether a supersession at `stamp` may be processed at all: every snapshot below it is listed.
    pub(crate) fn is_settled(&self, stamp: Stamp) -> bool {
        stamp.0 < self.open
    }

    /// Returns the snapshot that keeps a version made at `made` and superseded at `superseded`, if any.
    pub(crate) fn wanted_by(&self, made: Stamp, superseded: Stamp) -> Option<Stamp> {
        debug_assert!(self.is_settled(superseded));
        Self::newest_up_to(&self.exact, superseded).filter(|&snapshot| snapshot > made)
    }

    /// Returns a snapshot that keeps the traces of what was superseded at `superseded`, if any (invariant 4).
    pub(crate) fn traced_by(&self, superseded: Stamp) -> Option<Stamp> {
        debug_assert!(self.is_settled(superseded));
        Self::newest_up_to(&self.tracing, superseded)
    }

    fn newest_up_to(snapshots: &[u64], stamp: Stamp) -> Option<Stamp> {
        let above = snapshots.partition_point(|&snapshot| snapshot <= stamp.0);
        above.checked_sub(1).map(|at| Stamp(snapshots[at]))
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
        let first = slots[0].take(&clock, Needs::Traces, true);
        let made = clock.reserve(16);
        let superseded = clock.reserve(16);
        let second = slots[1].take(&clock, Needs::Traces, true);
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
        let snapshot = holder.take(&clock, Needs::Versions, false);
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
    fn a_passive_snapshot_keeps_what_it_sees_and_no_traces() {
        let clock = LogOffset::new();
        let (holder, slots) = (SnapshotSlot::new(), [SnapshotSlot::new(), SnapshotSlot::new()]);
        let made = clock.reserve(16);
        let passive = slots[0].take(&clock, Needs::Versions, true);
        let superseded = clock.reserve(16);
        let mut horizon = Horizon::default();
        horizon.refresh(&clock, &holder, || slots.iter());
        assert_eq!((horizon.wanted_by(made, superseded), horizon.traced_by(superseded)), (Some(passive), None));
        let writer = slots[1].take(&clock, Needs::Traces, true);
        let later = clock.reserve(16);
        horizon.refresh(&clock, &holder, || slots.iter());
        assert_eq!((horizon.traced_by(superseded), horizon.traced_by(later)), (None, Some(writer)));
        assert!(horizon.has(passive) && horizon.has(writer) && horizon.oldest() == passive);
    }

    #[test]
    fn an_open_snapshot_keeps_everything_newer() {
        let clock = LogOffset::new();
        let slot = SnapshotSlot::new();
        clock.reserve(64);
        let begin = slot.take(&clock, Needs::Newer, true);
        clock.reserve(64);
        let mut horizon = Horizon::default();
        horizon.refresh(&clock, &SnapshotSlot::new(), || [&slot].into_iter());
        assert!(!horizon.is_settled(begin));
        assert!(horizon.is_settled(Stamp(begin.0 - 1)));
    }
}
