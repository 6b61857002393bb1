//! A latch that is not taken as long as there is no conflict: the critical section runs as a transaction of the
//! processor.
//!
//! The transaction begins by reading the latch. If it is free, it stays in the transaction's read set: a thread that
//! takes the latch for real aborts, at that moment, all transactions that rely on it. If it is held, the transaction
//! aborts itself. Thus two critical sections on the same latch run at the same time, unless they touch the same cache
//! lines.
//!
//! ```text
//!   begin --> latch free? --yes--> critical section --> commit
//!     ^  \        | no                    |
//!     |   `-------+--- aborted <----------+
//!     |                  |
//!     +--- yes --- latch was held, or the processor says "retry", and retries are left?
//!                        | no
//!                        take the latch
//! ```
//!
//! Without transactional memory ([`Elision`] without a memory) it is a spin latch behind one test that always goes the
//! same way.
//!
//! A critical section must not panic, allocate without bound, call the system, wait for anything, or contain another
//! one that could need this latch. The processor aborts a transaction that it cannot execute, so results would be
//! right; but then the latch is always taken, and a critical section under a latch must be short.
//!
//! An aborted attempt has no effect: the processor rolls back everything since the beginning, including the result, the
//! moved closure and the stack. So a closure is observably run once, and may be `FnOnce`. Only the [`ElisionCounts`],
//! which are updated outside of the transaction, count aborted attempts.
//!
//! Invariants
//! 1. The latch's word is [`HELD`](ElidedLatch::HELD) while a critical section runs for real, and free otherwise.
//! 2. A transaction reads the word before anything else, and continues only if it was free.
//! 3. Attempts are commits and aborts; each abort is counted under one reason.
//!
//! V. Leis, A. Kemper, T. Neumann: *Exploiting hardware transactional memory in main-memory databases*, ICDE 2014,
//! III.A, IV.B and figure 15. The paper's latch uses the prefixes of hardware lock elision, which never retry and which
//! newer processors lack; the paper itself says that retrying under program control (RTM) leads to fewer latches taken.

use super::{AtomicU64, Ordering, Spin, transactional::AbortStatus, transactional::TransactionalMemory};

/// The latch. On a cache line of its own: any other write to the line would abort all transactions.
#[repr(align(128))]
pub(crate) struct ElidedLatch {
    word: AtomicU64,
}

/// The elision of the latches of one owner; decided once.
pub(crate) struct Elision<M> {
    /// `None` if the processor has no transactional memory.
    memory: Option<M>,
    /// How often an attempt is repeated before the latch is taken.
    retries_max: u32,
}

/// Results of the attempts of one thread that enters latches. Not shared; figure 15 of the paper is
/// `fallbacks / (commits + fallbacks)` over `retries_max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ElisionCounts {
    /// Transactions begun.
    pub(crate) attempts: u64,
    pub(crate) commits: u64,
    /// Explicit aborts because the latch was held.
    pub(crate) aborts_held: u64,
    /// Explicit aborts with another code.
    pub(crate) aborts_explicit: u64,
    pub(crate) aborts_conflict: u64,
    pub(crate) aborts_capacity: u64,
    pub(crate) aborts_debug: u64,
    pub(crate) aborts_nested: u64,
    /// Aborts by interrupts, faults, and instructions that transactions may not use.
    pub(crate) aborts_other: u64,
    /// The latch was taken in the end. Without transactional memory nothing is counted.
    pub(crate) fallbacks: u64,
}

/// Proof of being inside a critical section, until this is dropped.
#[must_use]
pub(crate) struct ElidedGuard<'l, M: TransactionalMemory> {
    latch: &'l ElidedLatch,
    /// Of a transaction, the memory and the counts; `None` if the latch is held.
    transaction: Option<(&'l M, &'l mut ElisionCounts)>,
}

impl<M: TransactionalMemory> Elision<M> {
    pub(crate) fn new(memory: Option<M>, retries_max: u32) -> Self {
        Self { memory, retries_max }
    }
}

impl ElisionCounts {
    /// Returns all aborts, whatever the reason.
    pub(crate) fn aborts(&self) -> u64 {
        self.aborts_held
            + self.aborts_explicit
            + self.aborts_conflict
            + self.aborts_capacity
            + self.aborts_debug
            + self.aborts_nested
            + self.aborts_other
    }

    /// A status can name several reasons: the most informative one counts.
    fn count(&mut self, status: AbortStatus) {
        let reason = match status {
            _ if status.is_latch_held() => &mut self.aborts_held,
            _ if status.explicit_code().is_some() => &mut self.aborts_explicit,
            _ if status.is_capacity() => &mut self.aborts_capacity,
            _ if status.is_conflict() => &mut self.aborts_conflict,
            _ if status.is_debug() => &mut self.aborts_debug,
            _ if status.is_nested() => &mut self.aborts_nested,
            _ => &mut self.aborts_other,
        };
        *reason += 1;
    }
}

impl ElidedLatch {
    pub(super) const FREE: u64 = 0;
    pub(super) const HELD: u64 = 1;
    /// A mock's transaction is running.
    #[cfg(test)]
    pub(super) const MOCKED: u64 = 2;

    pub(crate) fn new() -> Self {
        Self { word: AtomicU64::new(Self::FREE) }
    }

    /// Runs a critical section; the module documentation lists the restrictions on it.
    #[inline]
    pub(crate) fn run<M: TransactionalMemory, R>(
        &self,
        elision: &Elision<M>,
        counts: &mut ElisionCounts,
        section: impl FnOnce() -> R,
    ) -> R {
        let _guard = self.enter(elision, counts);
        section()
    }

    /// Enters a critical section; the module documentation lists the restrictions until the guard is dropped.
    #[inline]
    pub(crate) fn enter<'l, M: TransactionalMemory>(
        &'l self,
        elision: &'l Elision<M>,
        counts: &'l mut ElisionCounts,
    ) -> ElidedGuard<'l, M> {
        if let Some(memory) = &elision.memory {
            if self.elide(memory, elision.retries_max, counts) {
                return ElidedGuard { latch: self, transaction: Some((memory, counts)) };
            }
            counts.fallbacks += 1;
        }
        self.take();
        ElidedGuard { latch: self, transaction: None }
    }

    /// Begins a transaction; false if the latch has to be taken instead.
    #[inline]
    fn elide<M: TransactionalMemory>(&self, memory: &M, retries_max: u32, counts: &mut ElisionCounts) -> bool {
        for retries_left in (0..=retries_max).rev() {
            counts.attempts += 1;
            let status = match memory.begin() {
                // Invariant 2.
                Ok(()) if memory.watch(&self.word) == Self::FREE => return true,
                // SAFETY: begun above.
                Ok(()) => unsafe { memory.abort_held() },
                Err(status) => status,
            };
            counts.count(status);
            if retries_left == 0 || !(status.may_retry() || status.is_latch_held()) {
                break;
            }
            if status.is_latch_held() {
                self.wait_until_free();
            }
        }
        false
    }

    /// Takes the latch for real.
    fn take(&self) {
        // Acquire: pairs with the release when the guard is dropped.
        while self.word.compare_exchange(Self::FREE, Self::HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.wait_until_free();
        }
    }

    fn wait_until_free(&self) {
        let mut spin = Spin::default();
        // Relaxed: only to wait; a thread that then enters checks again.
        while self.word.load(Ordering::Relaxed) != Self::FREE {
            spin.wait();
        }
    }
}

impl<M: TransactionalMemory> ElidedGuard<'_, M> {
    /// Whether the critical section runs as a transaction.
    pub(crate) fn is_elided(&self) -> bool {
        self.transaction.is_some()
    }
}

impl<M: TransactionalMemory> Drop for ElidedGuard<'_, M> {
    #[inline]
    fn drop(&mut self) {
        match &mut self.transaction {
            Some((memory, counts)) => {
                // SAFETY: `enter` has begun it, and it watches the latch.
                unsafe { memory.commit(&self.latch.word) };
                counts.commits += 1;
            }
            // Release: pairs with `take`, and with `watch` of the next transaction.
            None => self.latch.word.store(ElidedLatch::FREE, Ordering::Release),
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    //! Under the mock a transaction has the latch while it runs, so these models check the latch, and that no
    //! transaction continues beside a holder; that a holder aborts running transactions is the processor's promise.

    use std::sync::Arc;

    use loom::thread;

    use super::*;
    use crate::sync::transactional::mock::Mock;

    struct Shared {
        latch: ElidedLatch,
        value: loom::cell::UnsafeCell<u64>,
    }

    // SAFETY: loom checks the accesses to the cell; that they are ordered is what the models prove.
    unsafe impl Sync for Shared {}
    // SAFETY: as above.
    unsafe impl Send for Shared {}

    /// Two threads add one each; a thread with `None` takes the latch, one with `Some` retries.
    fn model(memories: [fn() -> Option<Mock>; 2], retries_max: u32) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(4);
        builder.check(move || {
            let value = loom::cell::UnsafeCell::new(0);
            let shared = Arc::new(Shared { latch: ElidedLatch::new(), value });
            let add = move |shared: &Shared, memory: fn() -> Option<Mock>| {
                let (elision, mut counts) = (Elision::new(memory(), retries_max), ElisionCounts::default());
                // SAFETY: loom fails the model when this is concurrent with another access.
                let add = || shared.value.with_mut(|value| unsafe { *value += 1 });
                shared.latch.run(&elision, &mut counts, add);
                assert_eq!(counts.attempts, counts.commits + counts.aborts());
                assert!(elision.memory.is_none() || counts.commits + counts.fallbacks == 1);
            };
            let other = thread::spawn({
                let shared = Arc::clone(&shared);
                move || add(&shared, memories[0])
            });
            add(&shared, memories[1]);
            other.join().unwrap();
            // SAFETY: as above.
            assert_eq!(shared.value.with(|value| unsafe { *value }), 2);
        });
    }

    fn none() -> Option<Mock> {
        None
    }

    fn begins() -> Option<Mock> {
        Some(Mock::script([]))
    }

    #[test]
    fn loom_elided_latch_is_held_by_one() {
        model([none, none], 0);
    }

    /// A transaction that finds the latch held takes it afterwards, or waits and begins again.
    #[test]
    fn loom_elided_transaction_respects_the_holder() {
        for retries_max in [0, 1] {
            model([none, begins], retries_max);
        }
    }

    #[test]
    fn loom_elided_transactions_do_not_abort_each_other() {
        model([begins, begins], 0);
    }

    /// One thread falls back while the other's transaction runs.
    #[test]
    fn loom_elided_fallback_waits_for_the_transaction() {
        model([|| Some(Mock::script([Some(AbortStatus::from_eax(0))])), begins], 1);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::{cell::UnsafeCell, thread};

    use super::*;
    use crate::sync::transactional::mock::Mock;

    const RETRY: u32 = 0b10;
    const CONFLICT: u32 = 0b100;
    const CAPACITY: u32 = 0b1000;

    /// Returns the counts when the attempts go as `statuses` say, and then succeed.
    fn counted(statuses: &[u32], retries_max: u32) -> ElisionCounts {
        let statuses = statuses.iter().map(|&eax| Some(AbortStatus::from_eax(eax))).collect::<Vec<_>>();
        let elision = Elision::new(Some(Mock::script(statuses)), retries_max);
        let (latch, mut counts, mut runs) = (ElidedLatch::new(), ElisionCounts::default(), 0);
        latch.run(&elision, &mut counts, || runs += 1);
        assert_eq!(runs, 1);
        assert_eq!(counts.attempts, counts.commits + counts.aborts());
        assert_eq!(counts.commits + counts.fallbacks, 1);
        counts
    }

    #[test]
    fn an_attempt_that_succeeds_is_one() {
        assert_eq!(counted(&[], 3), ElisionCounts { attempts: 1, commits: 1, ..Default::default() });
    }

    #[test]
    fn what_may_succeed_is_retried() {
        let counts = counted(&[RETRY | CONFLICT, RETRY], 3);
        let expected =
            ElisionCounts { attempts: 3, commits: 1, aborts_conflict: 1, aborts_other: 1, ..Default::default() };
        assert_eq!(counts, expected);
    }

    #[test]
    fn retries_are_bounded() {
        for retries_max in 0..4 {
            let counts = counted(&[RETRY | CONFLICT; 8], retries_max);
            let attempts = u64::from(retries_max) + 1;
            let expected = ElisionCounts { attempts, aborts_conflict: attempts, fallbacks: 1, ..Default::default() };
            assert_eq!(counts, expected);
        }
    }

    #[test]
    fn what_cannot_succeed_is_not_retried() {
        let one = ElisionCounts { attempts: 1, fallbacks: 1, ..Default::default() };
        for (eax, expected) in [
            (CAPACITY, ElisionCounts { aborts_capacity: 1, ..one }),
            (CONFLICT, ElisionCounts { aborts_conflict: 1, ..one }),
            (1 << 4, ElisionCounts { aborts_debug: 1, ..one }),
            (1 << 5, ElisionCounts { aborts_nested: 1, ..one }),
            (0, ElisionCounts { aborts_other: 1, ..one }),
            (0x1200_0001, ElisionCounts { aborts_explicit: 1, ..one }),
        ] {
            assert_eq!(counted(&[eax], 3), expected);
        }
    }

    /// Latch held: an attempt aborts, waits, and succeeds when the holder has released it; without retries it takes the
    /// latch.
    #[test]
    fn a_holder_is_respected() {
        for retries_max in [0, 1] {
            let (latch, plain) = (ElidedLatch::new(), Elision::<Mock>::new(None, 0));
            let mut none = ElisionCounts::default();
            let held = latch.enter(&plain, &mut none);
            assert!(!held.is_elided());
            let begun = crate::sync::AtomicU64::new(0);
            thread::scope(|scope| {
                let waiting = scope.spawn(|| {
                    let (elision, mut counts) = (Elision::new(Some(Mock::script([])), retries_max), Default::default());
                    begun.store(1, Ordering::Release);
                    let guard = latch.enter(&elision, &mut counts);
                    assert_eq!(begun.load(Ordering::Acquire), 2, "beside the holder");
                    assert!(guard.is_elided() || retries_max == 0);
                    drop(guard);
                    counts
                });
                while begun.load(Ordering::Acquire) == 0 {
                    thread::yield_now();
                }
                // Time for the other thread to reach the latch; if it is too short, the test checks nothing, but does
                // not fail.
                thread::sleep(std::time::Duration::from_millis(20));
                begun.store(2, Ordering::Release);
                drop(held);
                let counts = waiting.join().expect("it enters");
                assert_eq!(counts.aborts(), counts.aborts_held);
                assert_eq!(counts.commits + counts.fallbacks, 1);
            });
            assert_eq!(none, ElisionCounts::default());
        }
    }

    /// Goal: critical sections are atomic, whatever aborts. Method: more threads than cores, a mock each that aborts at
    /// random with random statuses, and one thread without transactional memory. The seed is printed; `ERMINE_SEED`
    /// sets it.
    #[test]
    fn critical_sections_of_many_are_atomic() {
        const ITERATIONS: u64 = if cfg!(miri) { 20 } else { 2_000 };
        struct Pair(UnsafeCell<[u64; 2]>);
        // SAFETY: accessed inside the latch only.
        unsafe impl Sync for Pair {}

        let seed = std::env::var("ERMINE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(14u64);
        println!("ERMINE_SEED={seed}");
        let (latch, pair) = (ElidedLatch::new(), Pair(UnsafeCell::new([0; 2])));
        thread::scope(|scope| {
            for me in 0..6 {
                let (latch, pair) = (&latch, &pair);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed + me);
                    let mock = Mock::new(move || random.bool().then(|| AbortStatus::from_eax(random.u32(..1 << 6))));
                    let elision = Elision::new((me != 0).then_some(mock), me as u32 % 4);
                    let mut counts = ElisionCounts::default();
                    for _ in 0..ITERATIONS {
                        latch.run(&elision, &mut counts, || {
                            let pair = &pair;
                            // SAFETY: inside the latch.
                            let both = unsafe { &mut *pair.0.get() };
                            both[0] += 1;
                            assert_eq!(both[0], both[1] + 1);
                            both[1] += 1;
                        });
                    }
                    assert_eq!(counts.attempts, counts.commits + counts.aborts());
                    assert_eq!(counts.commits + counts.fallbacks, if me == 0 { 0 } else { ITERATIONS });
                });
            }
        });
        assert_eq!(pair.0.into_inner(), [6 * ITERATIONS; 2]);
    }
}
