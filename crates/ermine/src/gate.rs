//! Progress for those who keep losing: a transaction that has failed often runs alone.
//!
//! First updater wins, so under contention the same transaction can lose again and again. After a few attempts
//! `Database::run` takes the gate: it closes it behind those that run, waits for them, and runs while nobody else
//! begins. Only transactions that the application drives itself (`Database::begin`) and leaves open in the middle can
//! still stand in its way; therefore all waits here are bounded.
//!
//! Invariants
//! 1. One holder at a time; it holds the gate for one attempt.
//! 2. Who begins announces itself, then looks at the gate; the holder closes the gate, then looks for announcements.
//!    Sequentially consistent: one sees the other.

use std::time::Duration;

use crate::sync::{AtomicU64, Instant, Mutex, Ordering, Spin};

/// How long anybody waits here.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// The gate of one database.
pub(crate) struct Gate {
    closed: Closed,
    holder: Mutex<()>,
}

/// Read by every beginning transaction, hardly ever written: on a cache line of its own.
#[repr(align(128))]
struct Closed(AtomicU64);

/// The right to run alone; given up when dropped.
pub(crate) struct Pass<'g> {
    gate: &'g Gate,
    _holder: std::sync::MutexGuard<'g, ()>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { closed: Closed(AtomicU64::new(0)), holder: Mutex::new(()) }
    }

    /// Whether somebody runs alone.
    pub(crate) fn is_closed(&self) -> bool {
        // SeqCst: invariant 2.
        self.closed.0.load(Ordering::SeqCst) != 0
    }

    /// Waits while somebody runs alone. One shared read when nobody does. Bounded: the holder may be the caller.
    pub(crate) fn wait_open(&self) {
        self.wait_while(|| self.is_closed());
    }

    /// Closes the gate and waits for those that run.
    pub(crate) fn pass(&self, running: impl Fn() -> bool) -> Pass<'_> {
        let holder = self.holder.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // SeqCst: invariant 2.
        self.closed.0.store(1, Ordering::SeqCst);
        let pass = Pass { gate: self, _holder: holder };
        self.wait_while(running);
        pass
    }

    fn wait_while(&self, condition: impl Fn() -> bool) {
        if !condition() {
            return;
        }
        let (mut spin, since) = (Spin::default(), Instant::now());
        while condition() && since.elapsed() < WAIT_MAX {
            spin.wait();
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        // Release: pairs with `is_closed`.
        self.gate.closed.0.store(0, Ordering::Release);
    }
}
