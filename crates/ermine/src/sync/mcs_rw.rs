//! The fair reader-writer lock of Mellor-Crummey and Scott: one queue, in which consecutive readers hold the lock
//! together.
//!
//! ```text
//!   tail ------------------------------------------------+
//!                                                        v
//!   [reads] --> [reads] --> [writer] --> [reader] --> [reader]
//!                              |  waits for both     waits for the writer
//!   active: 2 readers, a writer waits; next_writer = the writer
//! ```
//!
//! A reader behind a reader that reads proceeds at once; behind a reader that waits, or behind a writer, it is let in
//! by that predecessor. Readers leave the queue in any order, so they are counted, and the last one lets in the writer
//! that they held up. No thread overtakes another: neither readers nor writers starve.
//!
//! The paper keeps "a writer waits" in the pointer `next_writer`, beside the count. A reader that has counted itself
//! out and then sleeps may wake to find another writer there, which other readers still hold up. Reading the count once
//! more, as later versions do, leaves the same gap for a node that is reused. Here the flag and the count are one word:
//! only the thread whose step makes it [`Active::ONLY_A_WRITER`] lets the writer in.
//!
//! Invariants
//! 1. A reader is counted from before any thread behind it may proceed until it leaves. A reader is counted in by the
//!    thread that lets it in: a reader behind one that reads counts itself, before it links itself, so its predecessor
//!    is still counted.
//! 2. `next_writer` is the first in the queue behind readers only, and the flag is set in `active` until it is let in.
//!    So there is one such writer at a time, no reader is counted in while the flag is set, and exactly one step
//!    empties the count.
//! 3. While a writer holds the lock, `active` is zero.
//! 4. A reader's mark that its successor reads is set only while the reader waits; it then lets the successor in when
//!    it proceeds itself.
//! 5. A thread that leaves learns from its own node whether a writer follows. It must not read its successor's node: a
//!    reader that follows a reader may already have entered, left and taken its node to another lock.
//! 6. A writer sees the writes of all holders before it, a reader those of all writers before it.
//!
//! J. Mellor-Crummey, M. Scott: *Scalable reader-writer synchronization for shared-memory multiprocessors*, PPoPP 1991,
//! figure 3 ("fair").

use super::{
    AtomicPtr, AtomicU64, Ordering,
    queue::{Neighbour, Place, QueueNode, QueueNodes, Tail, Waiter, wait_for},
};

/// A node's state: its owner's part in the queue.
#[derive(Clone, Copy)]
struct State(u64);

impl State {
    const WAITS: u64 = 1;
    const WRITES: u64 = 2;
    const READER_FOLLOWS: u64 = 4;
    const WRITER_FOLLOWS: u64 = 8;

    fn waits(self) -> bool {
        self.0 & Self::WAITS != 0
    }

    fn writes(self) -> bool {
        self.0 & Self::WRITES != 0
    }

    fn reader_follows(self) -> bool {
        self.0 & Self::READER_FOLLOWS != 0
    }

    fn writer_follows(self) -> bool {
        self.0 & Self::WRITER_FOLLOWS != 0
    }
}

/// The number of active readers, and whether a writer waits for them.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Active(u64);

impl Active {
    const NOBODY: Self = Self(0);
    const ONLY_A_WRITER: Self = Self(1);
    const WRITER: u64 = 1;
    const READER: u64 = 2;
}

/// A fair lock for one writer or many readers. The data that it protects is kept by its owner.
#[repr(align(128))]
pub(crate) struct McsRwLock {
    tail: Tail,
    active: AtomicU64,
    next_writer: AtomicPtr<Waiter>,
}

/// The lock, held for reading. Must be passed to [`McsRwLock::release_read`]: if it is dropped, writers stay locked out
/// forever.
#[must_use]
pub(crate) struct McsReadHeld(Place);

/// The lock, held for writing. Must be passed to [`McsRwLock::release_write`]: if it is dropped, the lock stays taken
/// forever.
#[must_use]
pub(crate) struct McsWriteHeld(Place);

/// The lock, held for reading until this is dropped.
#[must_use]
pub(crate) struct McsReadGuard<'l> {
    lock: &'l McsRwLock,
    nodes: &'l QueueNodes,
    held: Option<McsReadHeld>,
}

/// The lock, held for writing until this is dropped.
#[must_use]
pub(crate) struct McsWriteGuard<'l> {
    lock: &'l McsRwLock,
    nodes: &'l QueueNodes,
    held: Option<McsWriteHeld>,
}

impl McsRwLock {
    pub(crate) fn new() -> Self {
        let next_writer = AtomicPtr::new(std::ptr::null_mut());
        Self { tail: Tail::new(), active: AtomicU64::new(Active::NOBODY.0), next_writer }
    }

    /// Takes the lock for reading; waits for the writers that arrived before. Not to be nested: a writer may arrive in
    /// between.
    pub(crate) fn read<'l>(&'l self, nodes: &'l QueueNodes) -> McsReadGuard<'l> {
        McsReadGuard { lock: self, nodes, held: Some(self.acquire_read(nodes.take())) }
    }

    /// Takes the lock for writing; waits for all threads that arrived before.
    pub(crate) fn write<'l>(&'l self, nodes: &'l QueueNodes) -> McsWriteGuard<'l> {
        McsWriteGuard { lock: self, nodes, held: Some(self.acquire_write(nodes.take())) }
    }

    /// Takes the lock for writing if no thread holds it.
    pub(crate) fn try_write<'l>(&'l self, nodes: &'l QueueNodes) -> Option<McsWriteGuard<'l>> {
        match self.try_acquire_write(nodes.take()) {
            Ok(held) => Some(McsWriteGuard { lock: self, nodes, held: Some(held) }),
            Err(node) => {
                nodes.put(node);
                None
            }
        }
    }

    /// As [`read`](Self::read), without a guard.
    pub(crate) fn acquire_read(&self, node: QueueNode) -> McsReadHeld {
        let (place, before) = self.tail.enter(node, State::WAITS);
        let state = match before {
            None => self.go_and_read(&place),
            Some(before) if Self::lets_in(before) => {
                before.link(&place);
                Self::wait(&place)
            }
            Some(before) => {
                // Before it is linked: see invariant 1.
                self.count_in();
                before.link(&place);
                Self::let_in(place.itself())
            }
        };
        if state.reader_follows() {
            let next = place.wait_for_successor();
            self.count_in();
            Self::let_in(next);
        }
        McsReadHeld(place)
    }

    /// As [`write`](Self::write), without a guard.
    pub(crate) fn acquire_write(&self, node: QueueNode) -> McsWriteHeld {
        let (place, before) = self.tail.enter(node, State::WAITS | State::WRITES);
        match before {
            // The number of readers can only fall now.
            None if self.nobody_reads() => {}
            None => {
                self.hold_up(place.itself(), 0);
                Self::wait(&place);
            }
            Some(before) => {
                // Relaxed: published by the link.
                before.state().fetch_or(State::WRITER_FOLLOWS, Ordering::Relaxed);
                before.link(&place);
                Self::wait(&place);
            }
        }
        self.check_writer_is_alone();
        McsWriteHeld(place)
    }

    /// As [`try_write`](Self::try_write), without a guard.
    pub(crate) fn try_acquire_write(&self, node: QueueNode) -> Result<McsWriteHeld, QueueNode> {
        if !self.tail.is_empty() || !self.nobody_reads() {
            return Err(node);
        }
        let place = self.tail.try_enter(node, State::WAITS | State::WRITES)?;
        if self.nobody_reads() {
            self.check_writer_is_alone();
            return Ok(McsWriteHeld(place));
        }
        // Readers entered and left the queue in between. The turn goes to the thread behind.
        match self.tail.leave(&place) {
            Some(next) if Self::writer_follows(&place) => self.hold_up(next, 0),
            Some(next) => {
                self.count_in();
                Self::let_in(next);
            }
            None => {}
        }
        Err(place.left())
    }

    /// Ends reading. The lock must be the one that was taken, at the same address.
    pub(crate) fn release_read(&self, held: McsReadHeld) -> QueueNode {
        match self.tail.leave(&held.0) {
            Some(next) if Self::writer_follows(&held.0) => self.hold_up(next, Active::READER),
            // A reader behind this one is counted already, and may even have left: its node is not accessed.
            _ => self.change_active(0, Active::READER),
        }
        held.0.left()
    }

    /// Ends writing, and lets in the thread that has waited longest. The lock must be the one that was taken, at the
    /// same address.
    pub(crate) fn release_write(&self, held: McsWriteHeld) -> QueueNode {
        self.check_writer_is_alone();
        if let Some(next) = self.tail.leave(&held.0) {
            if !Self::writer_follows(&held.0) {
                self.count_in();
            }
            Self::let_in(next);
        }
        held.0.left()
    }

    /// Checks invariant 3.
    fn check_writer_is_alone(&self) {
        debug_assert!(self.nobody_reads(), "a writer beside readers");
    }

    fn nobody_reads(&self) -> bool {
        // Acquire: pairs with `change_active` (invariant 6).
        Active(self.active.load(Ordering::Acquire)) == Active::NOBODY
    }

    fn writer_follows(place: &Place) -> bool {
        // Relaxed: the link to the successor has been read with acquire.
        State(place.itself().state().load(Ordering::Relaxed)).writer_follows()
    }

    /// Whether the predecessor will let in the reader behind it; sets the mark for that in the predecessor's node.
    fn lets_in(before: Neighbour) -> bool {
        // Relaxed: never changes while the node is in the queue, and entering behind it acquires.
        State(before.state().load(Ordering::Relaxed)).writes()
            || before
                .state()
                // Acquire: pairs with `let_in`: a reader that proceeds has seen the writes of the writers before it
                // (invariant 6).
                .compare_exchange(
                    State::WAITS,
                    State::WAITS | State::READER_FOLLOWS,
                    Ordering::AcqRel,
                    Ordering::Acquire,
                )
                .is_ok()
    }

    /// Lets a waiting thread in. Returns the state of its node at that time; the node may be gone by now, unless it is
    /// the caller's.
    fn let_in(node: Neighbour) -> State {
        // Release: pairs with `wait` and `lets_in` (invariant 6).
        let before = node.state().fetch_and(!State::WAITS, Ordering::AcqRel);
        debug_assert!(State(before).waits(), "let in twice");
        State(before & !State::WAITS)
    }

    fn go_and_read(&self, place: &Place) -> State {
        self.count_in();
        Self::let_in(place.itself())
    }

    fn wait(place: &Place) -> State {
        wait_for(|| {
            // Acquire: pairs with `let_in`.
            let state = State(place.itself().state().load(Ordering::Acquire));
            (!state.waits()).then_some(state)
        })
    }

    fn count_in(&self) {
        let before = self.active.fetch_add(Active::READER, Ordering::AcqRel);
        debug_assert!(before & Active::WRITER == 0, "counted in before a writer that waits (invariant 2)");
    }

    /// Makes the writer wait for the readers, less the `going` readers that leave with this step.
    fn hold_up(&self, writer: Neighbour, going: u64) {
        // Relaxed: published by the next step.
        self.next_writer.store(writer.as_pointer(), Ordering::Relaxed);
        self.change_active(Active::WRITER, going);
    }

    /// The thread that leaves only the writer behind lets it in (invariant 2).
    fn change_active(&self, coming: u64, going: u64) {
        // Acquire and release: the last reader has seen the steps of all others, and which writer waits (invariant 6).
        let before = self.active.fetch_add(coming.wrapping_sub(going), Ordering::AcqRel);
        if Active(before.wrapping_add(coming).wrapping_sub(going)) == Active::ONLY_A_WRITER {
            // Relaxed, both: no thread changes either before the writer is let in, which releases.
            let writer = Neighbour::from_pointer(self.next_writer.load(Ordering::Relaxed));
            self.active.store(Active::NOBODY.0, Ordering::Relaxed);
            Self::let_in(writer.expect("set with the flag"));
        }
    }
}

impl Drop for McsReadGuard<'_> {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.nodes.put(self.lock.release_read(held));
        }
    }
}

impl Drop for McsWriteGuard<'_> {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.nodes.put(self.lock.release_write(held));
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    //! The protected value is a loom cell: a write that is not ordered after all other accesses fails the model.

    use std::sync::Arc;

    use loom::{sync::atomic::AtomicUsize, thread, thread::JoinHandle};

    use super::*;

    struct Shared {
        lock: McsRwLock,
        value: loom::cell::UnsafeCell<u64>,
        /// Readers that have been inside.
        met: AtomicUsize,
    }

    // SAFETY: loom checks the accesses to the cell; that they are ordered is what the models prove.
    unsafe impl Sync for Shared {}
    // SAFETY: as above.
    unsafe impl Send for Shared {}

    impl Shared {
        fn new() -> Arc<Self> {
            let value = loom::cell::UnsafeCell::new(0);
            Arc::new(Self { lock: McsRwLock::new(), value, met: AtomicUsize::new(0) })
        }

        fn write(&self, nodes: &QueueNodes) {
            let _guard = self.lock.write(nodes);
            self.add();
        }

        fn try_write(&self, nodes: &QueueNodes) -> u64 {
            match self.lock.try_write(nodes) {
                Some(_guard) => {
                    self.add();
                    1
                }
                None => 0,
            }
        }

        fn add(&self) {
            // SAFETY: loom fails the model when this is concurrent with another access.
            self.value.with_mut(|value| unsafe { *value += 1 });
        }

        fn read(&self, nodes: &QueueNodes) -> u64 {
            let _guard = self.lock.read(nodes);
            self.value()
        }

        fn value(&self) -> u64 {
            // SAFETY: loom fails the model when this is concurrent with a write.
            self.value.with(|value| unsafe { *value })
        }

        fn spawn<R: 'static>(self: &Arc<Self>, work: impl FnOnce(&Self, &QueueNodes) -> R + 'static) -> JoinHandle<R> {
            let shared = Arc::clone(self);
            thread::spawn(move || work(&shared, &QueueNodes::new()))
        }
    }

    fn bounded(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(model);
    }

    /// A reader and a writer, twice each: they exclude each other, and the reader sees earlier writes.
    #[test]
    fn loom_mcs_rw_reader_and_writer() {
        bounded(4, || {
            let shared = Shared::new();
            let reading = shared.spawn(|shared, nodes| {
                let first = shared.read(nodes);
                assert!(shared.read(nodes) >= first);
            });
            let nodes = QueueNodes::new();
            shared.write(&nodes);
            shared.write(&nodes);
            reading.join().unwrap();
            assert_eq!(shared.value(), 2);
        });
    }

    /// Readers before and behind a writer, in all orders of arrival.
    #[test]
    fn loom_mcs_rw_two_readers_and_a_writer() {
        bounded(3, || {
            let shared = Shared::new();
            let readers = [(); 2].map(|()| shared.spawn(Shared::read));
            shared.write(&QueueNodes::new());
            readers.into_iter().for_each(|reader| assert!(reader.join().unwrap() <= 2));
            assert_eq!(shared.value(), 1);
        });
    }

    /// Writers that follow each other, and a reader anywhere between them.
    #[test]
    fn loom_mcs_rw_two_writers_and_a_reader() {
        bounded(3, || {
            let shared = Shared::new();
            let writers = [(); 2].map(|()| shared.spawn(Shared::write));
            assert!(shared.read(&QueueNodes::new()) <= 2);
            writers.into_iter().for_each(|writer| {
                writer.join().unwrap();
            });
            assert_eq!(shared.value(), 2);
        });
    }

    /// A thread that reads and then returns to write, against two readers: a last reader that sleeps between its last
    /// steps does not let a later writer in, not even the same node again.
    #[test]
    fn loom_mcs_rw_a_late_last_reader_lets_nobody_in() {
        bounded(2, || {
            let shared = Shared::new();
            let readers = [(); 2].map(|()| shared.spawn(Shared::read));
            let nodes = QueueNodes::new();
            shared.write(&nodes);
            shared.write(&nodes);
            readers.into_iter().for_each(|reader| assert!(reader.join().unwrap() <= 2));
            assert_eq!(shared.value(), 2);
        });
    }

    /// Readers meet inside: each waits there until the other has entered.
    #[test]
    fn loom_mcs_rw_readers_share() {
        bounded(4, || {
            fn meet(shared: &Shared, nodes: &QueueNodes) {
                let _guard = shared.lock.read(nodes);
                shared.met.fetch_add(1, Ordering::Relaxed);
                wait_for(|| (shared.met.load(Ordering::Relaxed) == 2).then_some(()));
            }
            let shared = Shared::new();
            let other = shared.spawn(meet);
            meet(&shared, &QueueNodes::new());
            other.join().unwrap();
        });
    }

    /// Two readers that wait for a writer are let in together.
    #[test]
    fn loom_mcs_rw_waiting_readers_share() {
        bounded(2, || {
            let shared = Shared::new();
            let held = shared.lock.acquire_write(QueueNode::new());
            let readers = [(); 2].map(|()| {
                shared.spawn(|shared, nodes| {
                    let _guard = shared.lock.read(nodes);
                    assert_eq!(shared.value(), 1);
                    shared.met.fetch_add(1, Ordering::Relaxed);
                    wait_for(|| (shared.met.load(Ordering::Relaxed) == 2).then_some(()));
                })
            });
            shared.add();
            drop(shared.lock.release_write(held));
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
    }

    /// Trying to write never waits for a holder, and gives up its place in the queue if readers were quicker.
    #[test]
    fn loom_mcs_rw_trying_takes_the_lock_or_nothing() {
        bounded(2, || {
            let shared = Shared::new();
            let trying = shared.spawn(Shared::try_write);
            let reading = shared.spawn(|shared, nodes| {
                shared.read(nodes);
                shared.read(nodes);
            });
            shared.read(&QueueNodes::new());
            let tried = trying.join().unwrap();
            reading.join().unwrap();
            assert_eq!(shared.value(), tried);
        });
    }

    /// As above; the thread behind the one that gives up is a writer.
    #[test]
    fn loom_mcs_rw_giving_up_lets_the_writer_wait() {
        bounded(2, || {
            let shared = Shared::new();
            let trying = shared.spawn(Shared::try_write);
            let reading = shared.spawn(Shared::read);
            shared.write(&QueueNodes::new());
            let tried = trying.join().unwrap();
            reading.join().unwrap();
            assert_eq!(shared.value(), 1 + tried);
        });
    }

    /// The thread that entered first goes first: a reader that arrives behind a waiting writer does not overtake it.
    #[test]
    fn loom_mcs_rw_is_handed_on_in_order() {
        bounded(2, || {
            let shared = Shared::new();
            let held = shared.lock.acquire_read(QueueNode::new());
            let entered = |before| {
                wait_for(|| (shared.lock.tail.last() != before).then_some(()));
            };
            let before = shared.lock.tail.last();
            let writing = shared.spawn(Shared::write);
            entered(before);
            let before = shared.lock.tail.last();
            let reading = shared.spawn(|shared, nodes| assert_eq!(shared.read(nodes), 1));
            entered(before);
            assert_eq!(shared.value(), 0);
            drop(shared.lock.release_read(held));
            writing.join().unwrap();
            reading.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::{
        cell::UnsafeCell,
        sync::{Barrier, Mutex},
        thread,
    };

    use super::*;

    /// Both values are equal whenever there is no writer.
    struct Shared {
        lock: McsRwLock,
        values: UnsafeCell<[u64; 2]>,
    }

    // SAFETY: the tests access the values while holding the lock.
    unsafe impl Sync for Shared {}

    impl Shared {
        fn new() -> Self {
            Self { lock: McsRwLock::new(), values: UnsafeCell::new([0; 2]) }
        }

        fn add(&self) {
            // SAFETY: the caller holds the lock for writing.
            let values = unsafe { &mut *self.values.get() };
            values[0] += 1;
            assert_eq!(values[0], values[1] + 1);
            values[1] += 1;
        }

        fn check(&self) -> u64 {
            // SAFETY: the caller holds the lock.
            let values = unsafe { *self.values.get() };
            assert_eq!(values[0], values[1]);
            values[0]
        }
    }

    #[test]
    fn trying_fails_while_it_is_held() {
        let (lock, nodes) = (McsRwLock::new(), QueueNodes::new());
        for _ in 0..2 {
            let reading = [lock.read(&nodes), lock.read(&nodes)];
            assert!(lock.try_write(&nodes).is_none());
            // In the order of arrival, so that only the count shows that there still is a reader.
            for guard in reading {
                assert!(lock.try_write(&nodes).is_none());
                drop(guard);
            }
            let writing = lock.try_write(&nodes).expect("nobody has it");
            assert!(lock.try_write(&nodes).is_none());
            drop(writing);
            drop(lock.write(&nodes));
        }
    }

    /// The last thread of the queue leaves first: the queue is empty, and a writer waits for the count.
    #[test]
    fn a_writer_waits_for_readers_that_have_left_the_queue() {
        let shared = Shared::new();
        let nodes = QueueNodes::new();
        let (first, last) = (shared.lock.read(&nodes), shared.lock.read(&nodes));
        drop(last);
        assert!(shared.lock.tail.is_empty());
        assert!(shared.lock.try_write(&nodes).is_none());
        thread::scope(|scope| {
            let writing = scope.spawn(|| {
                let nodes = QueueNodes::new();
                let _guard = shared.lock.write(&nodes);
                shared.add();
            });
            while shared.lock.tail.is_empty() {
                thread::yield_now();
            }
            assert_eq!(shared.check(), 0);
            drop(first);
            writing.join().expect("it is let in");
        });
        assert_eq!(shared.check(), 1);
    }

    #[test]
    fn what_is_held_moves_between_threads() {
        let lock = McsRwLock::new();
        let (reading, nodes) = (lock.acquire_read(QueueNode::new()), QueueNodes::new());
        thread::scope(|scope| {
            let writing = scope.spawn(|| lock.acquire_write(QueueNode::new()));
            scope.spawn(|| drop(lock.release_read(reading)));
            nodes.put(lock.release_write(writing.join().expect("it gets the lock")));
        });
        assert!(lock.try_write(&nodes).is_some());
    }

    #[test]
    fn readers_are_inside_together() {
        let (lock, barrier) = (McsRwLock::new(), Barrier::new(3));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let nodes = QueueNodes::new();
                    let _guard = lock.read(&nodes);
                    barrier.wait();
                });
            }
        });
    }

    /// Reader, writer, two readers, writer, behind a writer: each class in its turn.
    #[test]
    fn who_waits_longest_goes_first() {
        let lock = McsRwLock::new();
        let order = Mutex::new(Vec::new());
        let held = lock.acquire_write(QueueNode::new());
        thread::scope(|scope| {
            for (turn, writes) in [(0, false), (1, true), (2, false), (2, false), (3, true)] {
                let before = lock.tail.last();
                let (lock, order) = (&lock, &order);
                scope.spawn(move || {
                    let nodes = QueueNodes::new();
                    let _guards =
                        if writes { (None, Some(lock.write(&nodes))) } else { (Some(lock.read(&nodes)), None) };
                    order.lock().expect("nobody fails").push(turn);
                });
                while lock.tail.last() == before {
                    thread::yield_now();
                }
            }
            drop(lock.release_write(held));
        });
        assert_eq!(order.into_inner().expect("nobody fails"), [0, 1, 2, 2, 3]);
    }

    /// Goal: no thread starves, whatever the mix, where most waiters are not running.
    /// Method: more threads than cores, each with the same number of turns to take; the test passes if all end.
    #[test]
    fn more_threads_than_cores() {
        const THREADS: u64 = if cfg!(miri) { 4 } else { 8 };
        const TURNS: u64 = if cfg!(miri) { 20 } else { 300 };
        for write_one_in in [1, 3, 50] {
            let shared = Shared::new();
            let written = thread::scope(|scope| {
                let threads = (0..THREADS).map(|thread| {
                    let shared = &shared;
                    scope.spawn(move || {
                        let (nodes, mut written, mut seen) = (QueueNodes::new(), 0, 0);
                        for turn in 0..TURNS {
                            if (turn + thread) % write_one_in == 0 {
                                let _guard = shared.lock.write(&nodes);
                                shared.add();
                                written += 1;
                            } else if turn % 5 == 0 {
                                if let Some(_guard) = shared.lock.try_write(&nodes) {
                                    shared.add();
                                    written += 1;
                                }
                            } else {
                                let _guard = shared.lock.read(&nodes);
                                let sees = shared.check();
                                assert!(sees >= seen, "went back");
                                seen = sees;
                            }
                        }
                        written
                    })
                });
                threads.collect::<Vec<_>>().into_iter().map(|thread| thread.join().expect("nobody fails")).sum::<u64>()
            });
            assert_eq!(shared.check(), written);
        }
    }
}
