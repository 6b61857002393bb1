//! Keeps the lease of a primary, from the moment on in which the node has it.

use std::time::{Duration, Instant};

use ermine_replication::{Lease, ReplicatedLog as _, jetstream::JetStream, log::LeaseError};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

/// Renews a lease until it is released or lost.
pub struct Keeper {
    log: JetStream,
    lease: Lease,
    lost: watch::Receiver<Option<String>>,
    task: JoinHandle<()>,
}

impl Keeper {
    /// Begins with a lease that was acquired or renewed after `since`.
    pub fn begin(log: JetStream, lease: Lease, lifetime: Duration, since: Instant) -> Self {
        let (told, lost) = watch::channel(None);
        let (renewing, renewed) = (log.clone(), lease.clone());
        let task = tokio::spawn(async move {
            let why = keep(&renewing, &renewed, lifetime, since).await;
            told.send_replace(Some(why));
            // Kept: what waits for the loss is not to see the end of the task.
            told.closed().await;
        });
        Self { log, lease, lost, task }
    }

    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Returns what tells why the lease is lost, once it is.
    pub fn lost(&self) -> watch::Receiver<Option<String>> {
        self.lost.clone()
    }

    /// Gives the lease back, so that another node needs not wait until it expires.
    pub async fn release(self) {
        self.task.abort();
        match self.log.release(&self.lease).await {
            Ok(()) | Err(LeaseError::Lost) => {}
            Err(error) => log::warn!("the lease expires by itself: {error}"),
        }
    }
}

/// Renews the lease until it is lost, or a fifth of its lifetime before it may be; returns the reason.
async fn keep(log: &JetStream, lease: &Lease, lifetime: Duration, mut since: Instant) -> String {
    loop {
        let left = (since + lifetime * 4 / 5).saturating_duration_since(Instant::now());
        let now = Instant::now();
        match timeout(left, log.renew(lease)).await {
            Ok(Ok(())) => since = now,
            Ok(Err(LeaseError::Lost)) => return "the lease was lost".into(),
            Ok(Err(error)) => log::warn!("the lease is not renewed: {error}"),
            Err(_) => return format!("the lease could not be renewed for {} ms", since.elapsed().as_millis()),
        }
        let left = (since + lifetime * 4 / 5).saturating_duration_since(Instant::now());
        sleep(left.min(lifetime / 10)).await;
    }
}
