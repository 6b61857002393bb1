//! Turns for transactions that an application drives, where the others queue up.

use std::time::Duration;

use crate::sync::{AtomicU64, Instant, Ordering, Spin};

/// How many transactions that applications drive wait for a turn. They cannot stand in a queue, which they could not leave when
/// their patience ends; so those that run through hold back until the queue has run dry and they have had their turn.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct ByHand(AtomicU64);

impl ByHand {
    /// Lets those who wait go first, for as long as anybody may wait.
    pub(super) fn give_way(&self, wait_max: Duration) {
        // Relaxed: a courtesy.
        if self.0.load(Ordering::Relaxed) > 0 {
            self.look(wait_max, || self.0.load(Ordering::Relaxed) == 0);
        }
    }

    /// Looks until something is so, while others hold back; `false`: patience has ended.
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

/// Whether to wait on: for so long from the first time that it is asked.
pub(super) fn patience(wait_max: Duration) -> impl FnMut() -> bool {
    let mut since = None;
    move || since.get_or_insert_with(Instant::now).elapsed() < wait_max
}
