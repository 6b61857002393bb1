//! The MCS lock: waiters queue up, and each spins on a cache line of its own; the lock is handed on in the order of
//! arrival.
//!
//! Handing a lock on costs one miss, however many threads wait; a latch on which all waiters spin costs one miss per
//! waiter. The price is two read-modify-writes for an uncontended lock, and that a waiter which is not running holds up
//! those behind it: [`Spin`](super::Spin) yields the core, so that such a waiter runs soon.
//!
//! A thread that takes a lock provides a [`QueueNode`] and gets it back when it releases the lock. [`McsLock::lock`]
//! does both with a guard; a transaction that keeps a lock from one operation to the next, and moves between threads,
//! holds an [`McsHeld`].
//!
//! Invariants
//! 1. The node at the head of the queue is the holder's.
//! 2. A node's state is [`WAITS`] from the time it enters until its predecessor leaves, if it has one, or until its
//!    owner gives up. Both are compare-and-swaps: one of them sees the other's result. A node that was given up
//!    ([`LEFT`]) belongs to its predecessor from then on, which frees it when it leaves.
//! 3. Each holder sees the writes of the holders before it.
//!
//! J. Mellor-Crummey, M. Scott: *Algorithms for scalable synchronization on shared-memory multiprocessors*, TOCS 9(1),
//! 1991, figure 5. Strict timestamp ordering 3.2.2 latches its indexes with it.

use super::{
    Ordering,
    queue::{Place, QueueNode, QueueNodes, Tail, wait_for},
};

const GOES: u64 = 0;
const WAITS: u64 = 1;
/// The node's owner has given up.
const LEFT: u64 = 2;

/// A fair lock. The data that it protects is kept by its owner.
#[repr(align(128))]
pub(crate) struct McsLock {
    tail: Tail,
}

/// The lock, held. Must be passed to [`McsLock::release`]: if it is dropped, the lock stays taken forever.
#[must_use]
pub(crate) struct McsHeld(Place);

/// The lock, held until this is dropped.
#[must_use]
pub(crate) struct McsGuard<'l> {
    lock: &'l McsLock,
    nodes: &'l QueueNodes,
    held: Option<McsHeld>,
}

impl McsLock {
    pub(crate) fn new() -> Self {
        Self { tail: Tail::new() }
    }

    /// Takes the lock; waits for all threads that arrived before.
    #[cfg_attr(
        not(any(test, loom)),
        expect(dead_code, reason = "the schemes hold it between operations, without a guard")
    )]
    pub(crate) fn lock<'l>(&'l self, nodes: &'l QueueNodes) -> McsGuard<'l> {
        McsGuard { lock: self, nodes, held: Some(self.acquire(nodes.take())) }
    }

    /// Takes the lock if it is free.
    #[cfg_attr(
        not(any(test, loom)),
        expect(dead_code, reason = "the schemes hold it between operations, without a guard")
    )]
    pub(crate) fn try_lock<'l>(&'l self, nodes: &'l QueueNodes) -> Option<McsGuard<'l>> {
        match self.try_acquire(nodes.take()) {
            Ok(held) => Some(McsGuard { lock: self, nodes, held: Some(held) }),
            Err(node) => {
                nodes.put(node);
                None
            }
        }
    }

    /// As [`lock`](Self::lock), without a guard.
    pub(crate) fn acquire(&self, node: QueueNode) -> McsHeld {
        self.acquire_while(node, || true).expect("it waits for ever")
    }

    /// Takes the lock, or waits for it in the queue as long as `waits` returns true. Keeps the node if it gives up.
    pub(crate) fn acquire_while(&self, node: QueueNode, mut waits: impl FnMut() -> bool) -> Option<McsHeld> {
        let (place, before) = self.tail.enter(node, WAITS);
        let Some(before) = before else { return Some(McsHeld(place)) };
        before.link(&place);
        let state = place.itself().state();
        let goes = wait_for(|| {
            // Acquire: pairs with `release` (invariant 3).
            if state.load(Ordering::Acquire) == GOES {
                return Some(true);
            }
            if waits() {
                return None;
            }
            // Release: the last access to this node (invariant 2). Acquire: as above.
            let left = state.compare_exchange(WAITS, LEFT, Ordering::Release, Ordering::Acquire);
            Some(left.is_err())
        });
        goes.then_some(McsHeld(place))
    }

    /// As [`try_lock`](Self::try_lock), without a guard.
    pub(crate) fn try_acquire(&self, node: QueueNode) -> Result<McsHeld, QueueNode> {
        if !self.tail.is_empty() {
            return Err(node);
        }
        self.tail.try_enter(node, WAITS).map(McsHeld)
    }

    /// Hands the lock to the thread that has waited longest. The lock must be the one that was taken, at the same
    /// address.
    pub(crate) fn release(&self, held: McsHeld) -> QueueNode {
        let mut place = held.0;
        while let Some(next) = self.tail.leave(&place) {
            // Release: pairs with `acquire_while` (invariant 3). The last access to this node, if its owner waits.
            if next.state().compare_exchange(WAITS, GOES, Ordering::Release, Ordering::Acquire).is_ok() {
                break;
            }
            // The node is now at the head of the queue, and its owner is gone.
            drop(std::mem::replace(&mut place, self.tail.adopt(next)).left());
        }
        place.left()
    }
}

impl Drop for McsGuard<'_> {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.nodes.put(self.lock.release(held));
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    //! The protected value is a loom cell: an access that is not ordered after the last one fails the model.

    use std::sync::Arc;

    use loom::{sync::atomic::AtomicUsize, thread};

    use super::*;

    struct Shared {
        lock: McsLock,
        value: loom::cell::UnsafeCell<u64>,
        turn: AtomicUsize,
    }

    // SAFETY: loom checks the accesses to the cell; that they are ordered is what the models prove.
    unsafe impl Sync for Shared {}
    // SAFETY: as above.
    unsafe impl Send for Shared {}

    impl Shared {
        fn new() -> Arc<Self> {
            let value = loom::cell::UnsafeCell::new(0);
            Arc::new(Self { lock: McsLock::new(), value, turn: AtomicUsize::new(0) })
        }

        fn add(&self, nodes: &QueueNodes) {
            let _guard = self.lock.lock(nodes);
            self.add_unlocked();
        }

        fn add_unlocked(&self) {
            // SAFETY: loom fails the model when this is concurrent with another access.
            self.value.with_mut(|value| unsafe { *value += 1 });
        }

        fn value(&self) -> u64 {
            // SAFETY: as above.
            self.value.with(|value| unsafe { *value })
        }
    }

    fn bounded(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(model);
    }

    /// Two threads take the lock twice each, with the same nodes: one at a time, no waiter is forgotten, nodes are
    /// reused.
    #[test]
    fn loom_mcs_one_at_a_time() {
        bounded(4, || {
            let shared = Shared::new();
            let other = thread::spawn({
                let shared = Arc::clone(&shared);
                move || {
                    let nodes = QueueNodes::new();
                    shared.add(&nodes);
                    shared.add(&nodes);
                }
            });
            let nodes = QueueNodes::new();
            shared.add(&nodes);
            shared.add(&nodes);
            other.join().unwrap();
            assert_eq!(shared.value(), 4);
        });
    }

    /// Three threads at the same time; the middle one of the queue has a neighbour on both sides.
    #[test]
    fn loom_mcs_three_in_the_queue() {
        bounded(3, || {
            let shared = Shared::new();
            let others = [(); 2].map(|()| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.add(&QueueNodes::new()))
            });
            shared.add(&QueueNodes::new());
            others.into_iter().for_each(|other| other.join().unwrap());
            assert_eq!(shared.value(), 3);
        });
    }

    /// Trying never waits, and takes the lock or nothing.
    #[test]
    fn loom_mcs_trying_takes_the_lock_or_nothing() {
        bounded(4, || {
            let shared = Shared::new();
            let other = thread::spawn({
                let shared = Arc::clone(&shared);
                move || match shared.lock.try_lock(&QueueNodes::new()) {
                    Some(_guard) => {
                        shared.add_unlocked();
                        1
                    }
                    None => 0,
                }
            });
            shared.add(&QueueNodes::new());
            let tried = other.join().unwrap();
            assert_eq!(shared.value(), 1 + tried);
        });
    }

    /// The waiter in front gives up; the one behind it gets the lock, whichever of the two the holder meets, and when.
    #[test]
    fn loom_mcs_giving_up_leaves_the_queue_whole() {
        bounded(3, || {
            let shared = Shared::new();
            let nodes = QueueNodes::new();
            let held = shared.lock.acquire(nodes.take());
            let gives_up = thread::spawn({
                let shared = Arc::clone(&shared);
                move || {
                    let mut looks = 0;
                    let waits = || std::mem::replace(&mut looks, 1) == 0;
                    let Some(held) = shared.lock.acquire_while(QueueNode::new(), waits) else { return 0 };
                    shared.add_unlocked();
                    drop(shared.lock.release(held));
                    1
                }
            });
            let waits = thread::spawn({
                let shared = Arc::clone(&shared);
                move || shared.add(&QueueNodes::new())
            });
            shared.add_unlocked();
            nodes.put(shared.lock.release(held));
            waits.join().unwrap();
            let more = gives_up.join().unwrap();
            assert_eq!(shared.value(), 2 + more);
            assert!(shared.lock.tail.is_empty());
        });
    }

    /// The thread that entered first goes first.
    #[test]
    fn loom_mcs_is_handed_on_in_order() {
        bounded(2, || {
            let shared = Shared::new();
            let nodes = QueueNodes::new();
            let held = shared.lock.acquire(nodes.take());
            let waiters = [0, 1].map(|place| {
                let before = shared.lock.tail.last();
                let waiter = thread::spawn({
                    let shared = Arc::clone(&shared);
                    move || {
                        let nodes = QueueNodes::new();
                        let _guard = shared.lock.lock(&nodes);
                        assert_eq!(shared.turn.fetch_add(1, Ordering::Relaxed), place);
                    }
                });
                wait_for(|| (shared.lock.tail.last() != before).then_some(()));
                waiter
            });
            nodes.put(shared.lock.release(held));
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::{cell::UnsafeCell, thread};

    use super::*;
    use crate::sync::AtomicU64;

    struct Shared {
        lock: McsLock,
        value: UnsafeCell<u64>,
        turn: AtomicU64,
    }

    // SAFETY: the tests access the value while holding the lock.
    unsafe impl Sync for Shared {}

    impl Shared {
        fn new() -> Self {
            Self { lock: McsLock::new(), value: UnsafeCell::new(0), turn: AtomicU64::new(0) }
        }

        fn add(&self) {
            // SAFETY: the caller holds the lock.
            unsafe { *self.value.get() += 1 };
        }
    }

    #[test]
    fn trying_fails_while_it_is_held() {
        let (lock, nodes) = (McsLock::new(), QueueNodes::new());
        let guard = lock.lock(&nodes);
        assert!(lock.try_lock(&nodes).is_none());
        drop(guard);
        let guard = lock.try_lock(&nodes).expect("the lock is free");
        assert!(lock.try_lock(&nodes).is_none());
        drop(guard);
        drop(lock.lock(&nodes));
    }

    /// A thread can hold several locks, and release them in any order.
    #[test]
    fn several_locks_at_once() {
        let (locks, nodes) = ([(); 3].map(|()| McsLock::new()), QueueNodes::new());
        let mut guards = locks.iter().map(|lock| Some(lock.lock(&nodes))).collect::<Vec<_>>();
        for place in [1, 0, 2] {
            guards[place] = None;
            assert!(locks[place].try_lock(&nodes).is_some());
        }
    }

    /// A lock is taken on one thread and released on another.
    #[test]
    fn what_is_held_moves_between_threads() {
        let lock = McsLock::new();
        let held = lock.acquire(QueueNode::new());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| drop(lock.lock(&QueueNodes::new())));
            scope.spawn(|| drop(lock.release(held)));
            waiting.join().expect("it gets the lock");
        });
    }

    #[test]
    #[should_panic(expected = "taken from another lock")]
    #[cfg_attr(miri, ignore = "what was held leaks")]
    fn a_lock_is_given_back_where_it_was_taken() {
        let (lock, other) = (McsLock::new(), McsLock::new());
        let held = lock.acquire(QueueNode::new());
        let _ = other.release(held);
    }

    /// A forgotten guard leaves the lock taken, and its node alive.
    #[test]
    #[cfg_attr(miri, ignore = "it leaks on purpose")]
    fn a_forgotten_guard_keeps_the_lock() {
        let lock = McsLock::new();
        let nodes = QueueNodes::new();
        std::mem::forget(lock.lock(&nodes));
        drop(nodes);
        assert!(lock.try_lock(&QueueNodes::new()).is_none());
    }

    #[test]
    fn what_gives_up_is_passed_over() {
        let (lock, nodes) = (McsLock::new(), QueueNodes::new());
        for left in 0..3 {
            let held = lock.acquire(nodes.take());
            (0..left).for_each(|_| assert!(lock.acquire_while(nodes.take(), || false).is_none()));
            nodes.put(lock.release(held));
            assert!(lock.try_lock(&nodes).is_some(), "the queue is empty after {left} have given up");
        }
    }

    #[test]
    fn who_waits_longest_goes_first() {
        const WAITERS: u64 = 4;
        let shared = Shared::new();
        let held = shared.lock.acquire(QueueNode::new());
        thread::scope(|scope| {
            let shared = &shared;
            for place in 0..WAITERS {
                let before = shared.lock.tail.last();
                scope.spawn(move || {
                    let nodes = QueueNodes::new();
                    let _guard = shared.lock.lock(&nodes);
                    assert_eq!(shared.turn.fetch_add(1, Ordering::Relaxed), place);
                });
                while shared.lock.tail.last() == before {
                    thread::yield_now();
                }
            }
            drop(shared.lock.release(held));
        });
    }

    /// Goal: no waiter starves and no update is lost where most waiters are not running.
    /// Method: more threads than cores, each with the same number of turns to take; the test passes if all end.
    #[test]
    fn more_threads_than_cores() {
        const THREADS: u64 = if cfg!(miri) { 3 } else { 8 };
        const ITERATIONS: u64 = if cfg!(miri) { 20 } else { 600 };
        let shared = Shared::new();
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let nodes = QueueNodes::new();
                    for turn in 0..ITERATIONS {
                        if turn % 5 == 0 {
                            let mut looks = 0..turn % 3;
                            let waited = shared.lock.acquire_while(nodes.take(), || looks.next().is_some());
                            waited.into_iter().for_each(|held| nodes.put(shared.lock.release(held)));
                        }
                        let tried = if turn % 7 == 0 { shared.lock.try_lock(&nodes) } else { None };
                        let _guard = tried.unwrap_or_else(|| shared.lock.lock(&nodes));
                        shared.add();
                    }
                });
            }
        });
        assert_eq!(shared.value.into_inner(), THREADS * ITERATIONS);
    }
}
