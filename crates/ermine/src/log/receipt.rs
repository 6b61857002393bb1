//! The receipt of a transaction that commits without waiting for the device.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use super::{Log, parallel::ParallelLog};
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
    /// The waker that is in a list of waiters, and the list.
    enlisted: Option<(Waker, List)>,
}

/// A list of waiters: of those for the device here, or of those whose commits are held until they are elsewhere.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Device,
    Held,
}

/// The part of a log that a transaction waits for.
#[derive(Clone, Copy)]
pub(crate) enum Pending<'db> {
    /// The central log, and the last place in it that the transaction wrote or read from.
    Place(&'db Log, u64),
    /// As `Place`, but the transaction waits only for the device here, although commits are held.
    Local(&'db Log, u64),
    /// The parallel log, and the last epoch that the transaction wrote in or read from.
    Epoch(&'db ParallelLog, u64),
}

impl<'db> Pending<'db> {
    fn is_durable(self) -> bool {
        match self {
            Self::Place(log, offset) => log.is_settled(offset),
            Self::Local(log, offset) => log.is_durable(offset),
            Self::Epoch(log, epoch) => log.is_durable(epoch),
        }
    }

    fn wait(self) -> Result<()> {
        match self {
            Self::Place(log, offset) => log.settle(offset),
            Self::Local(log, offset) => log.wait(offset),
            Self::Epoch(log, epoch) => log.wait(epoch),
        }
    }

    /// Returns what is durable when both are.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Local(log, one), Self::Local(_, another)) => Self::Local(log, one.max(another)),
            (Self::Place(log, one) | Self::Local(log, one), Self::Place(_, another) | Self::Local(_, another)) => {
                Self::Place(log, one.max(another))
            }
            (Self::Epoch(log, one), Self::Epoch(_, another)) => Self::Epoch(log, one.max(another)),
            _ => unreachable!("a database has one log"),
        }
    }

    /// Fails if it never will be durable.
    fn check(self) -> Result<()> {
        match self {
            Self::Place(log, _) | Self::Local(log, _) => log.check(),
            Self::Epoch(log, _) => log.check(),
        }
    }

    /// Returns the list in which a waiter has to be now.
    fn list(self) -> List {
        match self {
            Self::Place(log, offset) if log.is_durable(offset) => List::Held,
            _ => List::Device,
        }
    }

    /// Adds `waker` to a list, to be woken when the wait goes on in another one, is over, or never will be.
    fn enlist(self, list: List, waker: Waker) {
        match (self, list) {
            (Self::Place(log, offset), List::Held) => log.held.enlist(offset, waker),
            (Self::Place(log, offset) | Self::Local(log, offset), _) => {
                log.waiters.enlist(offset, waker);
                log.wake_flusher();
            }
            (Self::Epoch(log, epoch), _) => {
                log.waiters.enlist(epoch, waker);
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

    /// Lets the receipt wait for the device of this machine only, where commits are held until they are elsewhere as well
    /// ([`CommitHold`](crate::CommitHold)).
    pub fn locally(self) -> Self {
        let pending = match self.pending {
            Some(Pending::Place(log, offset)) => Some(Pending::Local(log, offset)),
            pending => pending,
        };
        Self { pending, ..self }
    }

    /// Returns a receipt for two commits of one database: it is durable when both are. If one of them waits for the
    /// device only, it waits as the other one does.
    pub fn and(self, other: Self) -> Self {
        let pending = match (self.pending, other.pending) {
            (Some(one), Some(another)) => Some(one.and(another)),
            (one, another) => one.or(another),
        };
        Self::new(self.stamp.max(other.stamp), pending)
    }

    /// Whether the transaction, and all that it read, would survive a crash; where commits are held, also the loss of
    /// this machine.
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
        while !pending.is_durable() {
            pending.check()?;
            let list = pending.list();
            // Each waker is added to a list once, however often the task is polled.
            let is_in = |(enlisted, of): &(Waker, List)| *of == list && enlisted.will_wake(context.waker());
            if self.enlisted.as_ref().is_some_and(is_in) {
                return Poll::Pending;
            }
            self.enlisted = Some((context.waker().clone(), list));
            pending.enlist(list, context.waker().clone());
            // The second check: see `waiters`.
        }
        Poll::Ready(Ok(self.stamp))
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
            lsn::{GRANULE, Lsn},
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

    /// Starts a log with one block, and returns the block's place.
    fn log_with_block(directory: FaultyDirectory) -> (Arc<Log>, Lsn) {
        let files = Arc::new(SegmentFiles::new(Arc::new(directory)));
        let start = Start {
            segments: Vec::new(),
            sequence: 0,
            offset: GRANULE,
            segment_bytes: 1 << 20,
            buffer_bytes: 64 << 10,
        };
        let log = Log::start(files, Arc::new(LogOffset::new()), start).unwrap();
        let body = Body::of(BlockKind::Commit, &[], &[1; 8]);
        let lsn = log.append(&log.space.join(), body);
        (log, lsn)
    }

    /// A task waits for the device first, and then for what holds commits; each wakes it once.
    #[test]
    fn a_held_commit_is_durable_when_it_is_let_go() {
        let (log, lsn) = log_with_block(FaultyDirectory::new());
        log.hold_beyond(lsn.offset());
        let counting = Arc::new(Counting(AtomicUsize::new(0)));
        let waker = Waker::from(counting.clone());
        let mut context = Context::from_waker(&waker);
        let pending = || Some(Pending::Place(&log, lsn.offset()));
        let mut receipt = pin!(Receipt::new(lsn.stamp(), pending()));
        let mut polls = 0;
        while !log.is_durable(lsn.offset()) {
            assert!(receipt.as_mut().poll(&mut context).is_pending());
            polls += 1;
            thread::yield_now();
        }
        assert!(Receipt::new(lsn.stamp(), pending()).locally().wait().is_ok());
        for _ in 0..5 {
            assert!(receipt.as_mut().poll(&mut context).is_pending());
        }
        assert!(!Receipt::new(lsn.stamp(), pending()).is_durable());
        log.hold_beyond(lsn.offset() + 1);
        // By the device, if it was polled before, and by the release.
        while counting.0.load(Ordering::SeqCst) < 1 + usize::from(polls > 0) {
            thread::yield_now();
        }
        assert!(matches!(receipt.as_mut().poll(&mut context), Poll::Ready(Ok(stamp)) if stamp == lsn.stamp()));
        // A thread, and a failure.
        log.hold_beyond(lsn.offset());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| Receipt::new(lsn.stamp(), pending()).wait());
            log.fail("replaced");
            assert!(waiting.join().unwrap().is_err());
        });
        log.stop();
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
        let (log, lsn) = log_with_block(directory);
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
