//! What goes to a client: gathered in one buffer, and written when it is due.
//!
//! Invariants
//! 1. Nothing that tells of a commit leaves before its receipt says that it is durable. A receipt that fails takes what told of it out again.
//! 2. The buffer is bounded: beyond [`BUFFER_MAX`] bytes whoever fills it waits for the socket, for as long as a client may read nothing.
//!    Statements are synchronous, so the wait blocks their thread, after it has handed its other connections on. Only where several
//!    statements come as one text has it to be kept until the last, because the first may have committed: up to [`HELD_MAX`].

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use ermine::OwnedReceipt;
use ermine_sql::{Completion, SqlError, SqlState};
use tokio::{io::AsyncWrite, io::AsyncWriteExt, runtime::Handle, task::block_in_place, time::timeout};

use super::{Stream, aside::pause, counted::Counted};
use crate::{
    protocol::backend,
    registry::{Entry, Registry, Stage},
};

/// From so many bytes on the buffer is written out.
pub const BUFFER_MAX: usize = 64 << 10;

/// As much is kept where it may not be written yet.
const HELD_MAX: usize = 64 << 20;

/// Kept when nothing is to be written.
const KEPT: usize = 16 << 10;

/// A place in the output.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    length: usize,
    left: u64,
}

/// The way to the client.
pub struct Output {
    stream: Stream,
    bytes: Vec<u8>,
    /// Where results that are held count.
    counted: Counted,
    /// Where what depends on a receipt begins, and the receipt.
    receipts: Vec<(usize, OwnedReceipt)>,
    /// From where on it is not known yet which receipts it depends on.
    held: Option<usize>,
    /// Where what has been executed since the last `Sync` begins.
    group: Option<usize>,
    is_due: bool,
    /// How often something has left the buffer.
    left: u64,
    /// Nothing more can be written, or must be.
    is_broken: bool,
    stall_max: Duration,
    entry: Option<(Arc<Registry>, Arc<Entry>)>,
}

impl Output {
    /// To a client that may read nothing for so long.
    pub fn new(stream: Stream, stall_max: Duration, counted: Counted) -> Self {
        Self {
            stream,
            bytes: Vec::new(),
            counted,
            receipts: Vec::new(),
            held: None,
            group: None,
            is_due: false,
            left: 0,
            is_broken: false,
            stall_max,
            entry: None,
        }
    }

    /// Lets the registry end what waits for the client.
    pub fn register(&mut self, registry: Arc<Registry>, entry: Arc<Entry>) {
        self.entry = Some((registry, entry));
    }

    /// The socket, to read from.
    pub fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// The socket, to be replaced by one with TLS.
    pub fn into_stream(self) -> Stream {
        self.stream
    }

    /// Where messages are appended.
    #[inline]
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Where the output stands.
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark { length: self.bytes.len(), left: self.left }
    }

    /// Takes out what came since; false where something has left the buffer meanwhile.
    pub fn back_to(&mut self, mark: Mark) -> bool {
        let is_whole = self.left == mark.left;
        if is_whole {
            self.bytes.truncate(mark.length);
        }
        is_whole
    }

    /// What there is has to go out before anything is waited for.
    #[inline]
    pub fn due(&mut self) {
        self.is_due = true;
    }

    /// Whether something has to go out now.
    #[inline]
    pub fn wants_flush(&self) -> bool {
        (self.is_due && !self.bytes.is_empty()) || self.bytes.len() > BUFFER_MAX
    }

    /// What comes from here on may depend on receipts that are not here yet.
    pub fn hold(&mut self) {
        self.held.get_or_insert(self.bytes.len());
    }

    /// What came since `from` depends on this.
    #[inline]
    pub fn completed(&mut self, from: usize, completion: Completion) {
        let from = self.held.take().unwrap_or(from);
        if let Some(receipt) = completion.receipt {
            self.receipts.push((from, receipt));
        }
    }

    /// What comes from here on up to `Sync` may be one transaction.
    #[inline]
    pub fn begin_group(&mut self) {
        self.group.get_or_insert(self.bytes.len());
    }

    /// The group ends, and depends on this as a whole. What of it is gone already was said under the proviso of this end.
    #[inline]
    pub fn end_group(&mut self, completion: Completion) {
        let from = self.group.take().unwrap_or(self.bytes.len());
        self.completed(from, completion);
    }

    /// Nothing that is held depends on anything.
    pub fn release(&mut self) {
        self.held = None;
    }

    /// Writes everything, when it is durable.
    pub async fn flush(&mut self) -> io::Result<()> {
        debug_assert!(self.held.is_none());
        if self.is_broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.is_due = false;
        self.left += 1;
        let durable = self.receive().await;
        let written = write(&mut self.stream, &self.bytes, self.stall_max, self.entry.as_ref()).await;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
        self.counted.clear();
        self.group = self.group.map(|_| 0);
        let done = written.and(durable);
        self.is_broken = done.is_err();
        done
    }

    /// Makes sure that so much is durable as is told of.
    async fn receive(&mut self) -> io::Result<()> {
        for (from, receipt) in std::mem::take(&mut self.receipts) {
            if let Err(error) = receipt.await {
                log::error!("a commit did not become durable: {error}");
                self.bytes.truncate(from);
                let report = SqlError::new(SqlState::STATEMENT_COMPLETION_UNKNOWN, error.to_string())
                    .detail("The commit could not be made durable; it may or may not be there after a restart.");
                backend::error(&mut self.bytes, "FATAL", &report);
                return Err(io::Error::other(error));
            }
        }
        Ok(())
    }

    /// Called within a statement: makes room where the buffer is too full.
    #[inline]
    pub fn relieve(&mut self) -> Result<(), SqlError> {
        if self.bytes.len() <= BUFFER_MAX { Ok(()) } else { self.drain() }
    }

    #[cold]
    fn drain(&mut self) -> Result<(), SqlError> {
        if self.held.is_some() {
            return if self.bytes.len() <= HELD_MAX {
                self.counted.grow_to(self.bytes.capacity(), "the results of several statements in one text")
            } else {
                let what = "the results of several statements in one text are too large";
                Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what).hint("Send the statements one by one."))
            };
        }
        pause();
        let mut written = 0;
        if self.receipts.is_empty() {
            let mut context = Context::from_waker(Waker::noop());
            while written < self.bytes.len() {
                match Pin::new(&mut self.stream).poll_write(&mut context, &self.bytes[written..]) {
                    Poll::Ready(Ok(count)) if count > 0 => written += count,
                    Poll::Ready(Ok(_)) => return Err(gone(&io::ErrorKind::WriteZero.into())),
                    Poll::Ready(Err(error)) => return Err(gone(&error)),
                    Poll::Pending => break,
                }
            }
            self.bytes.drain(..written);
            self.left += 1;
            self.group = self.group.map(|from| from.saturating_sub(written));
        }
        if !self.bytes.is_empty() {
            block_in_place(|| Handle::current().block_on(self.flush())).map_err(|error| gone(&error))?;
        }
        Ok(())
    }

    /// Ends it, and gives the client the time to read the last words: a socket that is closed with something unread in it throws them
    /// away.
    pub async fn close(&mut self) {
        use tokio::io::AsyncReadExt;
        self.release();
        let _ = timeout(Duration::from_secs(1), async {
            let _ = self.flush().await;
            let _ = self.stream.shutdown().await;
            let mut rest = [0; 1024];
            for _ in 0..64 {
                if !matches!(self.stream.read(&mut rest).await, Ok(1..)) {
                    break;
                }
            }
        })
        .await;
    }
}

async fn write(
    stream: &mut Stream,
    mut bytes: &[u8],
    stall_max: Duration,
    entry: Option<&(Arc<Registry>, Arc<Entry>)>,
) -> io::Result<()> {
    while !bytes.is_empty() {
        match within(stream.write(bytes), stall_max, entry).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => bytes = &bytes[count..],
        }
    }
    within(stream.flush(), stall_max, entry).await
}

/// Waits for one step of writing. Mostly there is nothing to wait for, and no timer is needed.
async fn within<T>(
    step: impl Future<Output = io::Result<T>>,
    stall_max: Duration,
    entry: Option<&(Arc<Registry>, Arc<Entry>)>,
) -> io::Result<T> {
    let mut step = std::pin::pin!(step);
    if let Poll::Ready(done) = std::future::poll_fn(|context| Poll::Ready(step.as_mut().poll(context))).await {
        return done;
    }
    tokio::select! {
        done = timeout(stall_max, step) => done.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?,
        () = ended(entry) => Err(io::Error::other("the server ends")),
    }
}

/// The server serves nobody any more.
async fn ended(entry: Option<&(Arc<Registry>, Arc<Entry>)>) {
    let Some((registry, entry)) = entry else { return std::future::pending().await };
    while registry.stage() != Stage::Ending {
        entry.staged.notified().await;
    }
    // For whoever waits next.
    entry.staged.notify_one();
}

fn gone(error: &io::Error) -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, format!("the client reads no more: {error}"))
}
