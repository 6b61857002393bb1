//! Progress for transactions that keep losing: one that has failed often runs alone.
//!
//! First updater wins, so under contention the same transaction can lose again and again. After a few attempts
//! `Database::run` takes the gate: it closes the gate behind the running transactions, waits for them, and runs while
//! no other transaction begins. It can still be blocked only by transactions that the application drives itself
//! (`Database::begin`) and leaves open in the middle. Statements of SQL take the gate, too, for a few of their attempts
//! (`Database::retries`); they are no running transactions for it, and one that has found the gate open may begin when
//! it has been closed.
//!
//! All waits here end after [`Options::wait_max`](crate::Options::wait_max), and the thread goes on as if it had waited
//! in vain: the body of the holder may itself wait for the action of another thread, and this thread may be that one.
//!
//! Invariants
//! 1. At most one holder at a time; it holds the gate for one attempt.
//! 2. A transaction that begins announces itself, then reads the gate; the holder closes the gate, then looks for
//!    announcements. Both are sequentially consistent: at least one of the two sees the other.

use std::time::Duration;

use crate::sync::{AtomicU64, Instant, Ordering, Spin};

/// The gate of one database.
pub(crate) struct Gate {
    closed: Closed,
    wait_max: Duration,
}

/// Read by every beginning transaction, rarely written: on a cache line of its own.
#[repr(align(128))]
struct Closed(AtomicU64);

/// The right to run alone; given up when dropped.
pub(crate) struct Pass<'g>(&'g Gate);

impl Gate {
    pub(crate) fn new(wait_max: Duration) -> Self {
        Self { closed: Closed(AtomicU64::new(0)), wait_max }
    }

    /// Returns whether a transaction runs alone.
    pub(crate) fn is_closed(&self) -> bool {
        // SeqCst: invariant 2.
        self.closed.0.load(Ordering::SeqCst) != 0
    }

    /// Waits while a transaction runs alone. Costs one shared read when none does.
    pub(crate) fn wait_open(&self) {
        wait(|| !self.is_closed(), self.wait_max);
    }

    /// Closes the gate and waits for the running transactions, but for no longer than `running_max`; returns `None` if
    /// other threads have kept the gate closed for too long.
    pub(crate) fn pass(&self, running: impl Fn() -> bool, running_max: Duration) -> Option<Pass<'_>> {
        // SeqCst: invariant 2, and an acquire of the last holder's release.
        let close = || self.closed.0.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        if !wait(|| !self.is_closed() && close(), self.wait_max) {
            return None;
        }
        let pass = Pass(self);
        wait(|| !running(), running_max.min(self.wait_max));
        Some(pass)
    }
}

/// Waits until `done` returns true; returns `false` if that takes longer than `at_most`.
fn wait(done: impl Fn() -> bool, at_most: Duration) -> bool {
    if done() {
        return true;
    }
    let (mut spin, since) = (Spin::default(), Instant::now());
    while since.elapsed() < at_most {
        spin.wait();
        if done() {
            return true;
        }
    }
    false
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        // Release: pairs with `is_closed` and `pass`.
        self.0.closed.0.store(0, Ordering::Release);
    }
}
