//! The receipt of a transaction that commits without waiting for the device.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use super::{Log, parallel::ParallelLog, waiters::Waiters};
use crate::{error::Result, ids::Stamp};

/// A commit that may not be durable yet. The transaction is visible to others; wait for the receipt, or await it,
/// before acknowledging the transaction outside of the database.
///
/// Dropping the receipt does not wait.
#[must_use = "the commit may not be durable yet: wait for it, await it, or say by drop that it need not be"]
pub struct Receipt<'db> {
    stamp: Stamp,
    /// `None`: nothing to wait for.
    pending: Option<Pending<'db>>,
    /// The waker that is in the list of waiters.
    enlisted: Option<Waker>,
}

/// The part of a log that a transaction waits for.
#[derive(Clone, Copy)]
pub(crate) enum Pending<'db> {
    /// The central log, and the last place in it that the transaction wrote or read from.
    Place(&'db Log, u64),
    /// The parallel log, and the last epoch that the transaction wrote in or read from.
    Epoch(&'db ParallelLog, u64),
}

impl<'db> Pending<'db> {
    fn is_durable(self) -> bool {
        match self {
            Self::Place(log, offset) => log.is_durable(offset),
            Self::Epoch(log, epoch) => log.is_durable(epoch),
        }
    }

    fn wait(self) -> Result<()> {
        match self {
            Self::Place(log, offset) => log.wait(offset),
            Self::Epoch(log, epoch) => log.wait(epoch),
        }
    }

    /// Fails if it never will be durable.
    fn check(self) -> Result<()> {
        match self {
            Self::Place(log, _) => log.check(),
            Self::Epoch(log, _) => log.check(),
        }
    }

    /// Adds `waker` to the list, to be woken when it is durable, or never will be.
    fn enlist(self, waker: Waker) {
        let enlist = |waiters: &'db Waiters, number| waiters.enlist(number, waker);
        match self {
            Self::Place(log, offset) => {
                enlist(&log.waiters, offset);
                log.wake_flusher();
            }
            Self::Epoch(log, epoch) => {
                enlist(&log.waiters, epoch);
                log.wake_logger();
            }
        }
    }
}

impl<'db> Receipt<'db> {
    pub(crate) fn new(stamp: Stamp, pending: Option<Pending<'db>>) -> Self {
        Self { stamp, pending, enlisted: None }
    }

    /// Returns the transaction's place in the order of commits.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Whether the transaction, and all that it read, would survive a crash.
    pub fn is_durable(&self) -> bool {
        self.pending.is_none_or(Pending::is_durable)
    }

    /// Blocks until the transaction is durable. [`crate::Error::Poisoned`]: it never will be in this process; whether
    /// it happened shows when the database is opened again.
    pub fn wait(self) -> Result<Stamp> {
        self.pending.map_or(Ok(()), Pending::wait)?;
        Ok(self.stamp)
    }
}

impl Future for Receipt<'_> {
    type Output = Result<Stamp>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(pending) = self.pending else { return Poll::Ready(Ok(self.stamp)) };
        if !pending.is_durable() && pending.check().is_ok() {
            // Each waker is added once, however often the task is polled.
            if !self.enlisted.as_ref().is_some_and(|enlisted| enlisted.will_wake(context.waker())) {
                self.enlisted = Some(context.waker().clone());
                pending.enlist(context.waker().clone());
            }
            // The second check: see `waiters`.
            if !pending.is_durable() && pending.check().is_ok() {
                return Poll::Pending;
            }
        }
        Poll::Ready(if pending.is_durable() { Ok(self.stamp) } else { pending.check().map(|()| self.stamp) })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::{
        pin::pin,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        task::{Wake, Waker},
        thread,
    };

    use super::*;
    use crate::{
        clock::LogOffset,
        log::{
            Start,
            block::{BlockKind, Body},
            lsn::GRANULE,
            segment::SegmentFiles,
        },
        platform::file::faulty::{Attempt, FaultyDirectory},
    };

    struct Counting(AtomicUsize);

    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_task_is_woken_once_however_often_it_looks() {
        let directory = FaultyDirectory::new();
        let (go_on, wait) = mpsc::channel::<()>();
        directory.fail_when(move |_, attempt| {
            if matches!(attempt, Attempt::Sync(_)) {
                let _ = wait.recv();
            }
            None
        });
        let files = Arc::new(SegmentFiles::new(Arc::new(directory)));
        let start = Start {
            segments: Vec::new(),
            sequence: 0,
            offset: GRANULE,
            segment_bytes: 1 << 20,
            buffer_bytes: 64 << 10,
        };
        let log = Log::start(files, Arc::new(LogOffset::new()), start).unwrap();
        let body = Body { kind: BlockKind::Commit, descriptors: &[], payload: &[1; 8] };
        let lsn = log.append(&log.space.join(), body);
        let counting = Arc::new(Counting(AtomicUsize::new(0)));
        let waker = Waker::from(counting.clone());
        let mut context = Context::from_waker(&waker);
        let mut receipt = pin!(Receipt::new(lsn.stamp(), Some(Pending::Place(&log, lsn.offset()))));
        for _ in 0..5 {
            assert!(receipt.as_mut().poll(&mut context).is_pending());
        }
        drop(go_on);
        while counting.0.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        assert!(matches!(receipt.as_mut().poll(&mut context), Poll::Ready(Ok(stamp)) if stamp == lsn.stamp()));
        log.stop();
        assert_eq!(counting.0.load(Ordering::SeqCst), 1);
        let nothing = Receipt::new(lsn.stamp(), None);
        assert!(nothing.is_durable() && nothing.wait().is_ok());
    }
}
