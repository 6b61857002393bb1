//! What a transaction gets that commits without waiting for the device.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use super::Log;
use crate::{error::Result, ids::Stamp};

/// A commit that may not be durable yet. The transaction is visible to others; wait for it, or await it, before telling
/// anybody outside that it happened.
///
/// Dropping it waits for nothing.
#[must_use = "the commit may not be durable yet: wait for it, await it, or say by drop that it need not be"]
pub struct Receipt<'db> {
    stamp: Stamp,
    /// The log, and the last place in it that the transaction wrote or read from. `None`: nothing to wait for.
    pending: Option<(&'db Log, u64)>,
    /// Who is in the list of those to be woken.
    enlisted: Option<Waker>,
}

impl<'db> Receipt<'db> {
    pub(crate) fn new(stamp: Stamp, pending: Option<(&'db Log, u64)>) -> Self {
        Self { stamp, pending, enlisted: None }
    }

    /// The transaction's place in the order of commits.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Whether the transaction, and all that it read, would survive a crash.
    pub fn is_durable(&self) -> bool {
        self.pending.as_ref().is_none_or(|(log, offset)| log.is_durable(*offset))
    }

    /// Blocks until it is durable. [`crate::Error::Poisoned`]: it never will be in this process; whether it happened shows
    /// when the database is opened again.
    pub fn wait(self) -> Result<Stamp> {
        if let Some((log, offset)) = &self.pending {
            log.wait(*offset)?;
        }
        Ok(self.stamp)
    }
}

impl Future for Receipt<'_> {
    type Output = Result<Stamp>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some((log, offset)) = self.pending else { return Poll::Ready(Ok(self.stamp)) };
        if !self.is_durable() && log.check().is_ok() {
            // Once a waker, however often the task looks.
            if !self.enlisted.as_ref().is_some_and(|enlisted| enlisted.will_wake(context.waker())) {
                self.enlisted = Some(context.waker().clone());
                log.waiters.enlist(offset, context.waker().clone());
                log.wake_flusher();
            }
            // The second look: see `waiters`.
            if !self.is_durable() && log.check().is_ok() {
                return Poll::Pending;
            }
        }
        Poll::Ready(if self.is_durable() { Ok(self.stamp) } else { log.check().map(|()| self.stamp) })
    }
}
