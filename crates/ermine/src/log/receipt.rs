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
        let mut receipt = pin!(Receipt::new(lsn.stamp(), Some((&log, lsn.offset()))));
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
