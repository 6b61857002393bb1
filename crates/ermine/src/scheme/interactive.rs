//! Turns for transactions that an application drives, where the others queue up.

use std::time::Duration;

use crate::sync::{AtomicU64, Instant, Ordering, Spin};

/// Number of transactions driven by applications that wait for a turn. They cannot wait in a queue, which they could
/// not leave after the longest wait; so transactions that run through hold back until the queue is empty and these have
/// had their turn.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct InteractiveTurns(AtomicU64);

impl InteractiveTurns {
    /// Lets waiting transactions go first, for the longest wait at most.
    pub(super) fn give_way(&self, wait_max: Duration) {
        // Relaxed: a courtesy.
        if self.0.load(Ordering::Relaxed) > 0 {
            self.look(wait_max, || self.0.load(Ordering::Relaxed) == 0);
        }
    }

    /// Waits until `looks` returns true, while other transactions hold back; `false`: after the longest wait.
    pub(super) fn wait(&self, wait_max: Duration, mut looks: impl FnMut() -> bool) -> bool {
        if looks() {
            return true;
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        let seen = self.look(wait_max, looks);
        self.0.fetch_sub(1, Ordering::Relaxed);
        seen
    }

    fn look(&self, wait_max: Duration, mut looks: impl FnMut() -> bool) -> bool {
        let (mut spin, mut waits) = (Spin::default(), patience(wait_max));
        while !looks() {
            if !waits() {
                return false;
            }
            spin.wait();
        }
        true
    }
}

/// Returns whether to wait on: for `wait_max` from its first call.
pub(super) fn patience(wait_max: Duration) -> impl FnMut() -> bool {
    let mut since = None;
    move || since.get_or_insert_with(Instant::now).elapsed() < wait_max
}
