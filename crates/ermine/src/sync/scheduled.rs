//! Atomics, locks and time for the schedule explorer: one task runs at a time, and before each access another may
//! continue.
//!
//! They are the standard library's with a scheduling point of shuttle's in front, not shuttle's own: a word stays a
//! word, so that the layouts of nodes and versions and the zeroed memory of indirection arrays are unchanged. As in
//! shuttle, every ordering counts as SeqCst; the effects of weaker orderings are checked with loom.
//!
//! Invariants
//! 1. Between two scheduling points only one task runs. A fence is not a scheduling point: it changes no memory.
//! 2. Tasks wait only by [`let_others_run`]: a schedule that never ends is cut off by the explorer's bound on steps.
//! 3. The order in which tasks run determines the outcome: time is the number of steps.

use std::{
    sync::{
        LockResult, MutexGuard, TryLockError, TryLockResult,
        atomic::{AtomicPtr as StdPtr, AtomicU32 as StdU32, AtomicU64 as StdU64, AtomicUsize as StdUsize},
    },
    time::Duration,
};

pub(crate) use std::sync::atomic::Ordering;

use shuttle_engine::{current, runtime::thread, thread_support};

/// A scheduling point: another task may continue here.
#[inline]
pub(crate) fn point() {
    thread::switch();
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

macro_rules! atomic {
    ($name:ident $(<$of:ident>)?, $standard:ty, $value:ty) => {
        #[repr(transparent)]
        pub(crate) struct $name$(<$of>)?($standard);

        #[allow(dead_code, reason = "what one word needs, all have")]
        impl$(<$of>)? $name$(<$of>)? {
            pub(crate) const fn new(value: $value) -> Self {
                Self(<$standard>::new(value))
            }

            pub(crate) fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                point();
                self.0.load(order)
            }

            pub(crate) fn store(&self, value: $value, order: Ordering) {
                point();
                self.0.store(value, order);
            }

            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.swap(value, order)
            }

            pub(crate) fn compare_exchange(
                &self,
                expected: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                point();
                self.0.compare_exchange(expected, new, success, failure)
            }

            /// Never fails spuriously.
            pub(crate) fn compare_exchange_weak(
                &self,
                expected: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(expected, new, success, failure)
            }
        }

        impl$(<$of>)? Default for $name$(<$of>)? {
            fn default() -> Self {
                Self(<$standard>::default())
            }
        }
    };
}

atomic!(AtomicPtr<T>, StdPtr<T>, *mut T);
atomic!(AtomicU32, StdU32, u32);
atomic!(AtomicU64, StdU64, u64);
atomic!(AtomicUsize, StdUsize, usize);

macro_rules! counting {
    ($name:ident, $value:ty, $($operation:ident)*) => {
        impl $name {
            $(pub(crate) fn $operation(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.$operation(value, order)
            })*
        }
    };
}

counting!(AtomicU32, u32, fetch_add fetch_sub fetch_max);
counting!(AtomicU64, u64, fetch_add fetch_sub fetch_max fetch_or fetch_and);
counting!(AtomicUsize, usize, fetch_add fetch_sub fetch_max);

impl AtomicU64 {
    pub(crate) fn fetch_update(
        &self,
        success: Ordering,
        failure: Ordering,
        update: impl FnMut(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        point();
        self.0.fetch_update(success, failure, update)
    }
}

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
