//! The meeting point of the flusher and its waiters: how far the log is durable, and which threads and tasks wait for
//! more, in one list.
//!
//! Invariants
//! 1. *No waiter is forgotten.* A waiter that is in the list when the log becomes durable beyond its place is woken.
//!    The waiter enters the list, and then checks once more; the flusher publishes how far the log is durable, and then
//!    checks the list.
//! 2. *The flusher does not oversleep.* The flusher announces that it rests, and then checks the list; a waiter enters
//!    the list, and then checks whether the flusher rests, and wakes it.
//! 3. *A failure reaches all waiters.* It is published before [`wake_all`](Waiters::wake_all), which takes the lock: a
//!    waiter that enters the list afterwards sees it, too.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::Arc,
    task::{Wake, Waker},
    thread::{self, Thread},
};

use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Mutex, Ordering, total_order};

/// The list of waiters.
pub(crate) struct Waiters {
    durable: Durable,
    waiting: Mutex<BinaryHeap<Waiting>>,
    count: AtomicUsize,
    /// 1 while the flusher rests.
    resting: AtomicU32,
}

/// The offset up to which the log is durable. On a cache line of its own: the flusher writes it, readers load it.
#[repr(align(128))]
struct Durable(AtomicU64);

struct Waiting {
    /// The waiter is woken when the log is durable beyond this offset.
    beyond: Reverse<u64>,
    waker: Waker,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.beyond == other.beyond
    }
}
impl Eq for Waiting {}
impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.beyond.cmp(&other.beyond)
    }
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Waiters {
    /// Creates an empty list, for a log that is durable up to `durable`.
    pub(crate) fn new(durable: u64) -> Self {
        Self {
            durable: Durable(AtomicU64::new(durable)),
            waiting: Mutex::new(BinaryHeap::new()),
            count: AtomicUsize::new(0),
            resting: AtomicU32::new(0),
        }
    }

    /// Returns the offset up to which the log is durable.
    pub(crate) fn durable(&self) -> u64 {
        total_order();
        // SeqCst: invariant 1, the waiter's check; an acquire of the flusher's earlier work.
        self.durable.0.load(Ordering::SeqCst)
    }

    /// Notes that the log is durable up to `to`.
    pub(crate) fn publish(&self, to: u64) {
        // SeqCst: invariant 1, the flusher's step before it checks the list.
        self.durable.0.store(to, Ordering::SeqCst);
        if !self.is_empty() {
            self.wake(to);
        }
    }

    /// Whether there are no waiters.
    pub(crate) fn is_empty(&self) -> bool {
        total_order();
        // SeqCst: invariants 1 and 2, the flusher's check.
        self.count.load(Ordering::SeqCst) == 0
    }

    /// Announces that the flusher is going to rest. False if there are waiters.
    pub(crate) fn begin_rest(&self) -> bool {
        // SeqCst: invariant 2, the flusher's step before it checks the list.
        self.resting.store(1, Ordering::SeqCst);
        self.is_empty()
    }

    /// Notes that the flusher no longer rests.
    pub(crate) fn end_rest(&self) {
        // Relaxed: a waiter that still takes it for resting wakes it needlessly.
        self.resting.store(0, Ordering::Relaxed);
    }

    /// Whether the flusher rests, or is about to.
    pub(crate) fn is_flusher_resting(&self) -> bool {
        total_order();
        // SeqCst: invariant 2, the waiter's check.
        self.resting.load(Ordering::SeqCst) != 0
    }

    /// Adds `waker` to the list, to be woken once the log is durable beyond `offset`, or never will be. The caller
    /// checks once more afterwards.
    pub(crate) fn enlist(&self, offset: u64, waker: Waker) {
        let mut waiting = self.waiting.lock().expect("no code panics while it holds the list");
        waiting.push(Waiting { beyond: Reverse(offset), waker });
        // SeqCst: invariants 1 and 2, the waiter's step.
        self.count.store(waiting.len(), Ordering::SeqCst);
    }

    /// Blocks the calling thread until `done`, which becomes true when the log is durable beyond `offset`, or broken.
    /// `done` is called for the first time before the thread is in the list.
    pub(crate) fn block(&self, offset: u64, mut done: impl FnMut() -> bool) {
        if done() {
            return;
        }
        self.enlist(offset, Waker::from(Arc::new(Unpark(thread::current()))));
        while !done() {
            thread::park();
        }
    }

    /// Wakes all waiters.
    pub(crate) fn wake_all(&self) {
        self.wake(u64::MAX);
    }

    /// Wakes the waiters for offsets below `durable`.
    fn wake(&self, durable: u64) {
        let mut woken = Vec::new();
        let mut waiting = self.waiting.lock().expect("no code panics while it holds the list");
        while let Some(next) = waiting.peek()
            && next.beyond.0 < durable
        {
            woken.extend(waiting.pop().map(|waiting| waiting.waker));
        }
        self.count.store(waiting.len(), Ordering::SeqCst);
        drop(waiting);
        woken.into_iter().for_each(Waker::wake);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize as Count};

    use super::*;

    struct Counting(Count);

    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn those_are_woken_whose_place_is_durable() {
        let waiters = Waiters::new(100);
        let counting: Vec<_> = (0..4).map(|_| Arc::new(Counting(Count::new(0)))).collect();
        for (offset, waker) in [300, 100, 200, 100].into_iter().zip(&counting) {
            waiters.enlist(offset, Waker::from(waker.clone()));
        }
        let woken = || -> Vec<_> { counting.iter().map(|counting| counting.0.load(Ordering::Relaxed)).collect() };
        waiters.publish(100);
        assert_eq!(woken(), [0; 4], "durable up to a place is not beyond it");
        waiters.publish(200);
        assert_eq!((woken(), waiters.durable()), (vec![0, 1, 0, 1], 200));
        assert!(!waiters.begin_rest() && waiters.is_flusher_resting());
        waiters.wake_all();
        assert_eq!(woken(), [1; 4], "each waiter once");
        assert!(waiters.begin_rest());
        waiters.end_rest();
        assert!(!waiters.is_flusher_resting());
    }

    #[test]
    fn a_blocked_thread_goes_on_and_not_before() {
        let (waiters, early) = (Waiters::new(16), AtomicBool::new(true));
        thread::scope(|scope| {
            let blocked = scope.spawn(|| {
                waiters.block(64, || waiters.durable() > 64);
                assert!(!early.load(Ordering::SeqCst));
            });
            while waiters.is_empty() {
                thread::yield_now();
            }
            waiters.publish(64);
            // As any other wake-up of that thread would.
            blocked.thread().unpark();
            thread::sleep(std::time::Duration::from_millis(5));
            early.store(false, Ordering::SeqCst);
            waiters.publish(80);
        });
        assert!(waiters.is_empty());
    }
}
