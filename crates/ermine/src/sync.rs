//! The one switch between the standard library's atomics, loom's model-checked ones, and those of the schedule
//! explorer.
//!
//! Every atomic, lock, spin wait and clock of the engine comes from here, so that the real code is checked and not a
//! copy of it:
//!
//! | built with | what runs | what is explored |
//! |---|---|---|
//! | nothing | everything | |
//! | `RUSTFLAGS="--cfg loom"` | the lock-free pieces in their models | every interleaving and every permitted value |
//! | `RUSTFLAGS="--cfg shuttle"` | the whole engine (`schedules.rs`) | random interleavings, all orderings as SeqCst |
//! | `scripts/scaling counts` | the benchmarks | what threads would wait for on many cores ([`counted`]) |
//! | `scripts/sanitize thread` | everything | data races, as threads happen to run; fences are [`fenced`] |

#[cfg(any(ermine_counts, all(test, not(any(loom, shuttle)))))]
#[cfg_attr(not(ermine_counts), expect(dead_code, reason = "only counted here"))]
pub mod counted;
#[cfg_attr(not(any(test, loom)), expect(dead_code, reason = "some of it is for tests and models only"))]
pub(crate) mod elided;
#[cfg(any(shuttle, ermine_counts))]
mod hooked;
pub(crate) mod mcs;
pub(crate) mod queue;
#[cfg(shuttle)]
mod scheduled;
pub(crate) mod transactional;

#[cfg(not(any(loom, shuttle, ermine_counts)))]
pub(crate) use std::sync::{
    Mutex,
    atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};
#[cfg(not(shuttle))]
pub(crate) use std::time::Instant;

#[cfg(not(any(loom, shuttle, ermine_tsan, ermine_counts)))]
pub(crate) use std::sync::atomic::fence;

#[cfg(ermine_tsan)]
pub(crate) use fenced::fence;

/// Fences for ThreadSanitizer, which ignores the standard ones and would report the accesses that they order.
///
/// Each fence reads and writes one word for all threads, so that it comes after every earlier one. That is more than a
/// fence orders: a race that only a wrong fence permits is found by the loom models, not here.
#[cfg(ermine_tsan)]
mod fenced {
    use super::{AtomicU64, Ordering};

    pub(crate) fn fence(ordering: Ordering) {
        static FENCES: AtomicU64 = AtomicU64::new(0);
        FENCES.fetch_add(1, Ordering::AcqRel);
        std::sync::atomic::fence(ordering);
    }
}

#[cfg(any(shuttle, ermine_counts))]
pub(crate) use hooked::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

#[cfg(shuttle)]
use scheduled as hooks;
#[cfg(shuttle)]
pub(crate) use scheduled::{Instant, Mutex, fence};

#[cfg(ermine_counts)]
use counted as hooks;
#[cfg(ermine_counts)]
pub(crate) use counted::{Mutex, fence};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex,
    atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

/// Returns the one of several equal places that the calling thread tries first. Threads have stacks far apart, so an
/// address on the stack distinguishes them well enough, without thread-local state. Only speed depends on it.
pub(crate) fn home_of_thread() -> usize {
    #[cfg(shuttle)]
    return scheduled::task();
    #[cfg(not(shuttle))]
    {
        let on_the_stack = 0u8;
        ((&raw const on_the_stack).addr() >> 20).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58
    }
}

/// Waits for another thread to make a short step: a few busy turns, then the core is yielded. A wait that becomes long,
/// for a transaction that stays open, sleeps: it must not take a core from the running transactions.
///
/// Yielding matters: there are more threads than cores in ordinary use, and the awaited thread may be one that is not
/// running.
#[derive(Default)]
pub(crate) struct Spin {
    turns: u32,
}

impl Spin {
    #[cfg(not(shuttle))]
    const BUSY_TURNS: u32 = 6;
    /// After these turns, some milliseconds, the wait counts as long.
    #[cfg(not(any(loom, shuttle)))]
    const SHORT_TURNS: u32 = 1 << 10;
    #[cfg(not(any(loom, shuttle)))]
    const SLEEP: std::time::Duration = std::time::Duration::from_micros(50);
    #[cfg(loom)]
    const TURNS_EXPLORED: u32 = 8;

    /// Waits a little longer than the last time.
    pub(crate) fn wait(&mut self) {
        #[cfg(loom)]
        {
            // Two waiting threads can take turns forever, and loom would follow them: it explores only one continuation
            // from here.
            if self.turns >= Self::TURNS_EXPLORED {
                loom::skip_branch();
            }
            loom::thread::yield_now();
        }
        #[cfg(shuttle)]
        scheduled::let_others_run();
        #[cfg(not(any(loom, shuttle)))]
        if self.turns < Self::BUSY_TURNS {
            for _ in 0..1 << self.turns {
                std::hint::spin_loop();
            }
        } else if self.turns < Self::SHORT_TURNS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Self::SLEEP);
        }
        self.turns = self.turns.saturating_add(1);
    }
}

/// Accompanies a SeqCst load (before it) or store (after it) that has to take part in the single total order.
///
/// loom treats such accesses as acquire and release only, but orders its fences. In other builds this does nothing.
#[inline(always)]
pub(crate) fn total_order() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// A list that only grows, and is read without a lock while other threads append.
pub(crate) struct AppendList<T> {
    #[cfg(not(loom))]
    items: boxcar::Vec<T>,
    // loom runs all its threads on one OS thread: a plain lock that is never held over a loom operation is never waited
    // for. The lock orders nothing, either; an element becomes visible through `len` only, late or early as in boxcar.
    #[cfg(loom)]
    items: std::sync::Mutex<Vec<T>>,
    #[cfg(loom)]
    len: AtomicUsize,
}

#[cfg(not(loom))]
impl<T> AppendList<T> {
    pub(crate) fn new() -> Self {
        Self { items: boxcar::Vec::new() }
    }

    /// Appends the element that `make` builds from its index; returns the index.
    pub(crate) fn push_with(&self, make: impl FnOnce(usize) -> T) -> usize {
        #[cfg(shuttle)]
        scheduled::point();
        self.items.push_with(make)
    }

    /// Calls `visit` with every element until it returns false.
    pub(crate) fn visit(&self, mut visit: impl FnMut(&T) -> bool) {
        #[cfg(shuttle)]
        scheduled::point();
        for (_, item) in &self.items {
            if !visit(item) {
                return;
            }
        }
    }
}

#[cfg(loom)]
impl<T: Clone> AppendList<T> {
    pub(crate) fn new() -> Self {
        Self { items: std::sync::Mutex::new(Vec::new()), len: AtomicUsize::new(0) }
    }

    pub(crate) fn push_with(&self, make: impl FnOnce(usize) -> T) -> usize {
        let index = self.items.lock().unwrap().len();
        let item = make(index);
        let mut items = self.items.lock().unwrap();
        assert_eq!(items.len(), index, "appending twice at the same time is not modelled");
        items.push(item);
        drop(items);
        // Release pairs with the acquire of `visit`; a read-modify-write keeps earlier appends visible.
        self.len.fetch_add(1, Ordering::Release);
        index
    }

    pub(crate) fn visit(&self, mut visit: impl FnMut(&T) -> bool) {
        let len = self.len.load(Ordering::Acquire);
        let items = self.items.lock().unwrap()[..len].to_vec();
        for item in &items {
            if !visit(item) {
                return;
            }
        }
    }
}
