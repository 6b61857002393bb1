//! Keeps the lease of a primary, from the moment on in which the node has it.
//!
//! Invariant: *no two nodes keep a lease at a time and serve*. A primary keeps its lease until four fifths of its
//! lifetime have passed behind the begin of a renewal; one that acquires an expired lease serves when that has passed
//! for every earlier holder ([`ermine_replication::candidate`]), and gives the lease back only then. Clocks of nodes
//! are compared by their rates only; that of the log, which may let a lease expire early, not at all.

use std::time::{Duration, Instant};

use ermine_replication::{Candidate, Lease, ReplicatedLog as _, jetstream::JetStream, log::LeaseError};
use ermine_server::read_lease::ReadLease;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

/// A lease that a node has acquired.
#[derive(Clone)]
pub struct Acquired {
    pub lease: Lease,
    /// A moment before it was acquired, or renewed last.
    pub since: Instant,
    /// From when on no earlier one is kept.
    pub serves_from: Instant,
}

impl Acquired {
    /// Describes a lease that was acquired between `since` and now.
    pub fn new(lease: Lease, since: Instant, candidate: &Candidate<Instant>, lifetime: Duration) -> Self {
        let now = Instant::now();
        let serves_from = candidate.free_from(&lease, now).map_or(now, |free| free + kept_for(lifetime));
        Self { lease, since, serves_from }
    }

    /// Gives the lease back, so that another node needs not wait until it expires, unless an earlier one may be kept.
    pub async fn release(&self, log: &JetStream) -> Result<(), LeaseError> {
        match Instant::now() < self.serves_from {
            true => Ok(()),
            false => log.release(&self.lease).await,
        }
    }
}

/// Renews a lease until it is released or lost.
pub struct Keeper {
    log: JetStream,
    acquired: Acquired,
    reads: ReadLease,
    lost: watch::Receiver<Option<String>>,
    task: JoinHandle<()>,
}

impl Keeper {
    pub fn begin(log: JetStream, acquired: Acquired, lifetime: Duration) -> Self {
        let (told, lost) = watch::channel(None);
        let (renewing, renewed, since) = (log.clone(), acquired.lease.clone(), acquired.since);
        let reads = ReadLease::new(since + kept_for(lifetime));
        let extended = reads.clone();
        let task = tokio::spawn(async move {
            let why = keep(&renewing, &renewed, lifetime, since, &extended).await;
            extended.lose();
            told.send_replace(Some(why));
            // Kept: what waits for the loss is not to see the end of the task.
            told.closed().await;
        });
        Self { log, acquired, reads, lost, task }
    }

    pub fn acquired(&self) -> &Acquired {
        &self.acquired
    }

    /// Waits until no earlier lease is kept.
    pub async fn may_serve(&self) {
        let wait = self.acquired.serves_from.saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            log::info!("another node may keep an earlier lease, which has expired, for {} ms", wait.as_millis());
        }
        sleep(wait).await;
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
        match self.acquired.release(&self.log).await {
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
