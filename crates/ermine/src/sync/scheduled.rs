//! Hooks, locks and time for the schedule explorer: one task runs at a time, and before each access another may
//! continue.
//!
//! The atomics are the standard library's with a scheduling point of shuttle's in front ([`hooked`](super::hooked)),
//! not shuttle's own. As in shuttle, every ordering counts as SeqCst; the effects of weaker ones are checked with loom.
//!
//! Invariants
//! 1. Between two scheduling points only one task runs. A fence is not a scheduling point: it changes no memory.
//! 2. Tasks wait only by [`let_others_run`]: a schedule that never ends is cut off by the explorer's bound on steps.
//! 3. The order in which tasks run determines the outcome: time is the number of steps.

use std::{
    sync::{LockResult, MutexGuard, TryLockError, TryLockResult, atomic::Ordering},
    time::Duration,
};

use shuttle_engine::{current, runtime::thread, thread_support};

/// A scheduling point: another task may continue here.
#[inline]
pub(crate) fn point() {
    thread::switch();
}

#[inline]
pub(crate) fn before_load(_: usize) {
    point();
}

#[inline]
pub(crate) fn before_store(_: usize, _: Ordering) {
    point();
}

#[inline]
pub(crate) fn before_update(_: usize) {
    point();
}

/// As [`point`], for a task that cannot continue before another has run.
pub(crate) fn let_others_run() {
    thread_support::yield_now();
}

/// Returns the number of the running task.
pub(crate) fn task() -> usize {
    current::me().into()
}

/// See invariant 1.
pub(crate) fn fence(_: Ordering) {}

/// A lock whose waiters let other tasks run.
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        loop {
            match self.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Err(poisoned),
                Err(TryLockError::WouldBlock) => let_others_run(),
            }
        }
    }

    pub(crate) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        point();
        self.0.try_lock()
    }

    pub(crate) fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }
}

/// A moment: the number of steps taken so far.
#[derive(Clone, Copy)]
pub(crate) struct Instant(usize);

impl Instant {
    /// The time that a step is said to take.
    const STEP: Duration = Duration::from_micros(10);

    pub(crate) fn now() -> Self {
        Self(current::context_switches())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        Self::STEP * (Self::now().0 - self.0) as u32
    }
}
