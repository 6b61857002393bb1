//! Keeps the lease of a primary, from the moment on in which the node has it.

use std::time::{Duration, Instant};

use ermine_replication::{Lease, ReplicatedLog as _, jetstream::JetStream, log::LeaseError};
use ermine_server::read_lease::ReadLease;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

/// Renews a lease until it is released or lost.
pub struct Keeper {
    log: JetStream,
    lease: Lease,
    reads: ReadLease,
    lost: watch::Receiver<Option<String>>,
    task: JoinHandle<()>,
}

impl Keeper {
    /// Begins with a lease that was acquired or renewed after `since`.
    pub fn begin(log: JetStream, lease: Lease, lifetime: Duration, since: Instant) -> Self {
        let (told, lost) = watch::channel(None);
        let (renewing, renewed) = (log.clone(), lease.clone());
        let reads = ReadLease::new(since + kept_for(lifetime));
        let extended = reads.clone();
        let task = tokio::spawn(async move {
            let why = keep(&renewing, &renewed, lifetime, since, &extended).await;
            extended.lose();
            told.send_replace(Some(why));
            // Kept: what waits for the loss is not to see the end of the task.
            told.closed().await;
        });
        Self { log, lease, reads, lost, task }
    }

    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Returns the lease as sessions see it.
    pub fn read_lease(&self) -> ReadLease {
        self.reads.clone()
    }

    /// Returns what tells why the lease is lost, once it is.
    pub fn lost(&self) -> watch::Receiver<Option<String>> {
        self.lost.clone()
    }

    /// Gives the lease back, so that another node needs not wait until it expires.
    pub async fn release(self) {
        self.task.abort();
        // It has ended: it extends nothing any more.
        let _ = self.task.await;
        self.reads.lose();
        match self.log.release(&self.lease).await {
            Ok(()) | Err(LeaseError::Lost) => {}
            Err(error) => log::warn!("the lease expires by itself: {error}"),
        }
    }
}

/// Renews the lease until it is lost, or a fifth of its lifetime before it may be; returns the reason.
async fn keep(log: &JetStream, lease: &Lease, lifetime: Duration, mut since: Instant, reads: &ReadLease) -> String {
    loop {
        let now = Instant::now();
        match timeout((since + kept_for(lifetime)).saturating_duration_since(now), log.renew(lease)).await {
            Ok(Ok(())) => {
                since = now;
                reads.extend(since + kept_for(lifetime));
            }
            Ok(Err(LeaseError::Lost)) => return "the lease was lost".into(),
            Ok(Err(error)) => log::warn!("the lease is not renewed: {error}"),
            Err(_) => return format!("the lease could not be renewed for {} ms", since.elapsed().as_millis()),
        }
        let left = (since + kept_for(lifetime)).saturating_duration_since(Instant::now());
        sleep(left.min(lifetime / 10)).await;
    }
}

/// Returns how long a lease is kept after a renewal. The rest is for clocks that do not run alike.
fn kept_for(lifetime: Duration) -> Duration {
    lifetime * 4 / 5
}
