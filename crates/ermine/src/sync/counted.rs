//! Counts, in a build for it (`RUSTFLAGS="--cfg ermine_counts"`), what threads would wait for on a machine with many
//! cores: locked instructions, and cache lines that go from core to core.
//!
//! | counted | because |
//! |---|---|
//! | locked instructions: read-modify-writes, SeqCst stores and fences, two a lock | some 20 cycles each, alone |
//! | invalidations: writes of a line that other threads hold | the core waits for all of them |
//! | fetches: reads of a line that another thread has written since this one held it | one core's wait for another |
//! | both, of the line that has most of them | they follow one another: a bound for all cores together |
//!
//! Only atomics and locks that come from `sync` count, and a lock counts two even where it is only tried. What a
//! version holds is written before it is shared, and read by others in lines that count as soon as an atomic lies in
//! them. Caches are taken to be without limits, so a line that leaves a real one comes back uncounted. Threads beyond
//! [`THREADS`] share a number, and what they do to each other is not seen. Two lines may have the same place in the
//! directory; then each makes the other look new.

use std::sync::{
    LockResult, MutexGuard, TryLockResult,
    atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

/// Threads that are told from one another.
const THREADS: usize = 16;
/// Lines that are told from one another.
const LINES: usize = 1 << 24;
const LINE_BYTES: usize = 64;

/// What has been counted, of all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Locked instructions.
    pub locked: u64,
    /// Writes of lines that other threads held.
    pub invalidations: u64,
    /// Reads of lines that another thread had written since the reader held them.
    pub fetches: u64,
    /// Invalidations and fetches of the line that had most of them since the last [`start`].
    pub hottest: u64,
}

impl Counted {
    /// What was counted since [`start`] returned `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            locked: self.locked - before.locked,
            invalidations: self.invalidations - before.invalidations,
            fetches: self.fetches - before.fetches,
            hottest: self.hottest,
        }
    }
}

// All accesses below are relaxed: they publish nothing, and are no more than counts and guesses.
#[repr(align(128))]
struct Tally {
    locked: AtomicU64,
    invalidations: AtomicU64,
    fetches: AtomicU64,
}

static TALLIES: [Tally; THREADS] =
    [const { Tally { locked: AtomicU64::new(0), invalidations: AtomicU64::new(0), fetches: AtomicU64::new(0) } };
        THREADS];

/// For each line: the upper half tells lines of the same place apart; then a bit for each thread that has ever held the
/// line, and one for each that holds it.
static DIRECTORY: [AtomicU64; LINES] = [const { AtomicU64::new(0) }; LINES];
/// Invalidations and fetches of each line.
static EVENTS: [AtomicU32; LINES] = [const { AtomicU32::new(0) }; LINES];

const HOLDERS: u64 = (1 << THREADS) - 1;
/// What tells lines of a place apart; the lowest bit of it is set in every entry.
const TAG: u64 = !((1 << (2 * THREADS)) - 1);

/// Forgets which line had most events, and returns what has been counted up to now.
pub fn start() -> Counted {
    EVENTS.iter().filter(|events| events.load(Ordering::Relaxed) > 0).for_each(|of| of.store(0, Ordering::Relaxed));
    read()
}

/// Returns what has been counted.
pub fn read() -> Counted {
    let sum = |count: fn(&Tally) -> &AtomicU64| TALLIES.iter().map(|tally| count(tally).load(Ordering::Relaxed)).sum();
    Counted {
        locked: sum(|tally| &tally.locked),
        invalidations: sum(|tally| &tally.invalidations),
        fetches: sum(|tally| &tally.fetches),
        hottest: EVENTS.iter().map(|events| u64::from(events.load(Ordering::Relaxed))).max().unwrap_or(0),
    }
}

fn thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static THREAD: usize = NEXT.fetch_add(1, Ordering::Relaxed) % THREADS);
    // A thread that is ending has no number any more.
    THREAD.try_with(|thread| *thread).unwrap_or(0)
}

/// Adds to a count that mostly one thread has.
fn count(of: &AtomicU64, more: u64) {
    of.store(of.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

/// Notes in the directory that a thread accesses a line. `write`: the others then hold it no longer. Accesses at the
/// same moment may be noted wrongly: counts are estimates.
fn access(address: usize, write: bool) {
    let line = address / LINE_BYTES;
    let place = line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - LINES.trailing_zeros());
    let (tag, thread) = ((line as u64) << 33 | 1 << 32, thread());
    let (held_before, holds) = (1 << (THREADS + thread), 1 << thread);
    let entry = DIRECTORY[place].load(Ordering::Relaxed);
    let is_known = entry & TAG == tag;
    let entry = if is_known { entry } else { tag };
    let others = entry & HOLDERS & !holds;
    let tally = &TALLIES[thread];
    let event = match write {
        true => (others != 0).then_some(&tally.invalidations),
        false => (entry & holds == 0 && entry & held_before != 0 && others != 0).then_some(&tally.fetches),
    };
    if let Some(event) = event {
        count(event, 1);
        EVENTS[place].fetch_add(1, Ordering::Relaxed);
    }
    let now = entry & !(if write { HOLDERS } else { 0 }) | held_before | holds;
    if now != entry || !is_known {
        DIRECTORY[place].store(now, Ordering::Relaxed);
    }
}

#[inline]
pub(crate) fn before_load(address: usize) {
    access(address, false);
}

#[inline]
pub(crate) fn before_store(address: usize, order: Ordering) {
    locked(u64::from(order == Ordering::SeqCst));
    access(address, true);
}

#[inline]
pub(crate) fn before_update(address: usize) {
    locked(1);
    access(address, true);
}

pub(crate) fn fence(order: Ordering) {
    locked(u64::from(order == Ordering::SeqCst));
    std::sync::atomic::fence(order);
}

fn locked(instructions: u64) {
    count(&TALLIES[thread()].locked, instructions);
}

/// A lock: taking it and giving it back are counted.
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        self.count();
        self.0.lock()
    }

    pub(crate) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        self.count();
        self.0.try_lock()
    }

    pub(crate) fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }

    fn count(&self) {
        locked(2);
        access((&raw const self.0).cast::<u8>().addr(), true);
    }
}

#[cfg(all(test, not(ermine_counts)))]
mod tests {
    use std::{sync::mpsc, thread};

    use super::*;

    /// A thread that does as it is told.
    struct Other(mpsc::Sender<Box<dyn FnOnce() + Send>>, mpsc::Receiver<()>);

    impl Other {
        fn new() -> Self {
            let ((to, orders), (done, from)) = (mpsc::channel::<Box<dyn FnOnce() + Send>>(), mpsc::channel());
            thread::spawn(move || {
                orders.into_iter().for_each(|order| {
                    order();
                    done.send(()).unwrap();
                });
            });
            Self(to, from)
        }

        fn does(&self, order: impl FnOnce() + Send + 'static) {
            self.0.send(Box::new(order)).unwrap();
            self.1.recv().unwrap();
        }
    }

    #[test]
    fn lines_that_go_from_thread_to_thread_are_counted() {
        #[repr(align(64))]
        struct Lines([[u8; LINE_BYTES]; 2]);
        let lines = Box::new(Lines([[0; LINE_BYTES]; 2]));
        let [one, another] = [0, 1].map(|line| (&raw const lines.0[line]).addr() + 8);
        let (first, second) = (Other::new(), Other::new());
        let before = start();
        let counted = || read().since(&before);
        // The first accesses of each thread are misses wherever caches begin empty.
        first.does(move || before_store(one, Ordering::Relaxed));
        second.does(move || before_load(one));
        second.does(move || before_load(another));
        assert_eq!(counted(), Counted::default());
        // The other holds it, and reads it again.
        for _ in 0..3 {
            first.does(move || before_update(one + 8));
            first.does(move || before_store(one, Ordering::Release));
            second.does(move || before_load(one));
            second.does(move || before_load(one));
        }
        assert_eq!(counted(), Counted { locked: 3, invalidations: 3, fetches: 3, hottest: 6 });
        first.does(move || before_store(another, Ordering::SeqCst));
        assert_eq!(counted(), Counted { locked: 4, invalidations: 4, fetches: 3, hottest: 6 });
        let before = start();
        second.does(move || before_load(another));
        assert_eq!(read().since(&before), Counted { locked: 0, invalidations: 0, fetches: 1, hottest: 1 });
    }
}
