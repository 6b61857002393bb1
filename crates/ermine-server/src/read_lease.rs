//! The lease of a primary, as its sessions see it.
//!
//! Invariant: *no stale answer*. Output leaves for a client only when the lease was held at a time behind everything
//! that was read for it. So no other node was the primary before that, and nothing was missed that another one
//! committed. Whatever stops the process or its machine in between, the clock shows afterwards.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::time::sleep;

/// The lease of the primary that a server belongs to; clones are of the same one.
#[derive(Clone, Debug)]
pub struct ReadLease(Arc<Held>);

#[derive(Debug)]
struct Held {
    began: Instant,
    /// Nanoseconds from `began` to the time up to which the lease is held; [`LOST`].
    until: AtomicU64,
}

/// The lease is not held any more, and will not be.
const LOST: u64 = 0;

impl ReadLease {
    /// Returns a lease that is held until a time.
    pub fn new(until: Instant) -> Self {
        let lease = Self(Arc::new(Held { began: Instant::now(), until: AtomicU64::new(LOST + 1) }));
        lease.extend(until);
        lease
    }

    /// Notes that the lease is held until a time. One task calls this, and [`lose`](Self::lose).
    pub fn extend(&self, until: Instant) {
        let after = until.saturating_duration_since(self.0.began).as_nanos();
        // Relaxed, here and below: times prove what is held, whichever of them is seen; an older one proves less.
        self.0.until.store(u64::try_from(after).unwrap_or(u64::MAX).max(LOST + 1), Ordering::Relaxed);
    }

    /// Notes that the lease is lost, or given back.
    pub fn lose(&self) {
        self.0.until.store(LOST, Ordering::Relaxed);
    }

    /// Whether the lease is held now.
    pub fn is_held(&self) -> bool {
        self.0.began.elapsed().as_nanos() < u128::from(self.0.until.load(Ordering::Relaxed))
    }

    /// Waits until the lease is held, or lost; returns whether it is held.
    pub async fn held(&self) -> bool {
        // It is late where the process was stopped. The next renewal tells.
        const LOOK_AGAIN: Duration = Duration::from_millis(10);
        loop {
            if self.is_held() {
                return true;
            }
            if self.0.until.load(Ordering::Relaxed) == LOST {
                return false;
            }
            sleep(LOOK_AGAIN).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_late_lease_is_waited_for_and_a_lost_one_is_not() {
        let (past, future) = (Instant::now(), Instant::now() + Duration::from_secs(3600));
        let lease = ReadLease::new(past);
        assert!(!lease.is_held());
        let of_session = lease.clone();
        let waiting = tokio::spawn(async move { of_session.held().await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        lease.extend(future);
        assert!(lease.is_held() && waiting.await.unwrap());
        lease.lose();
        assert!(!lease.is_held() && !lease.held().await);
    }
}
