//! Output to a client: gathered in one buffer, and written when it is due.
//!
//! Invariants
//! 1. No report of a commit leaves before the commit's receipt says that it is durable. If a receipt fails, the report
//!    that depends on it is removed. Nor does anything leave while a primary may be one no longer ([`ReadLease`]).
//! 2. The buffer is bounded: beyond [`BUFFER_MAX`] bytes the thread that fills it waits for the socket, up to the time
//!    for which a client may read nothing. Statements are synchronous, so the wait blocks their thread, after it has
//!    handed its other connections on. Only where several statements come as one text the output is kept until the last
//!    has ended, because the first may have committed: up to [`HELD_MAX`].

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use ermine::{Error, OwnedReceipt};
use ermine_sql::{Completion, SqlError, SqlState, WaitEvent, WaitEvents, outcome_unknown};
use tokio::{io::AsyncWrite, io::AsyncWriteExt, runtime::Handle, task::block_in_place, time::timeout};

use super::{Stream, aside::pause, counted::Counted};
use crate::{
    options::ServerOptions,
    protocol::backend,
    read_lease::ReadLease,
    registry::{Entry, Registry, Stage},
};

/// Bytes from which on the buffer is written out.
pub const BUFFER_MAX: usize = 64 << 10;

/// Bytes that may be kept while they may not be written yet.
const HELD_MAX: usize = 64 << 20;

/// Capacity kept while nothing is to be written.
const KEPT: usize = 16 << 10;

/// A place in the output.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    length: usize,
    left: u64,
}

/// The buffered connection to the client.
pub struct Output {
    stream: Stream,
    bytes: Vec<u8>,
    /// Counts the results that are held.
    counted: Counted,
    /// Receipts, each with the place where the output that depends on it begins.
    receipts: VecDeque<(usize, OwnedReceipt)>,
    /// The place from which on it is not known yet which receipts the output depends on.
    held: Option<usize>,
    /// The place where the output of the statements since the last `Sync` begins.
    group: Option<usize>,
    is_due: bool,
    /// How often bytes have left the buffer.
    left: u64,
    /// Whether nothing more can, or may, be written.
    is_broken: bool,
    stall_max: Duration,
    lease: Option<ReadLease>,
    entry: Option<(Arc<Registry>, Arc<Entry>)>,
    /// Shows what is waited for.
    events: WaitEvents,
}

impl Output {
    /// Returns the output to a client of a server with these options.
    pub fn new(stream: Stream, options: &ServerOptions) -> Self {
        Self {
            stream,
            bytes: Vec::new(),
            counted: Counted::new(options.fixed.budget.clone()),
            receipts: VecDeque::new(),
            held: None,
            group: None,
            is_due: false,
            left: 0,
            is_broken: false,
            stall_max: options.stall_max,
            lease: options.fixed.lease.clone(),
            entry: None,
            events: WaitEvents::default(),
        }
    }

    /// Lets the registry end waits for the client.
    pub fn register(&mut self, registry: Arc<Registry>, entry: Arc<Entry>) {
        self.entry = Some((registry, entry));
    }

    /// Shows in `events` what is waited for.
    pub fn show_waits(&mut self, events: WaitEvents) {
        self.events = events;
    }

    /// Returns the socket, to read from.
    pub fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// Returns the socket, to be replaced by one with TLS.
    pub fn into_stream(self) -> Stream {
        self.stream
    }

    /// Returns the buffer to which messages are appended.
    #[inline]
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Returns the current end of the output.
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark { length: self.bytes.len(), left: self.left }
    }

    /// Removes the output since `mark`; returns false if some of the buffer has been written since.
    pub fn back_to(&mut self, mark: Mark) -> bool {
        let is_whole = self.left == mark.left;
        if is_whole {
            self.bytes.truncate(mark.length);
        }
        is_whole
    }

    /// Marks the output as due: it has to be written before anything is waited for.
    #[inline]
    pub fn due(&mut self) {
        self.is_due = true;
    }

    /// Whether output has to be written now.
    #[inline]
    pub fn wants_flush(&self) -> bool {
        (self.is_due && !self.bytes.is_empty()) || self.bytes.len() > BUFFER_MAX
    }

    /// Holds the output from here on: it may depend on receipts that are not known yet.
    pub fn hold(&mut self) {
        self.held.get_or_insert(self.bytes.len());
    }

    /// Makes the output since `from` depend on the receipt of `completion`.
    #[inline]
    pub fn completed(&mut self, from: usize, completion: Completion) {
        let from = self.held.take().unwrap_or(from);
        if let Some(receipt) = completion.receipt {
            self.receipts.push_back((from, receipt));
        }
    }

    /// Begins a group: the output from here on up to `Sync` may be one transaction.
    #[inline]
    pub fn begin_group(&mut self) {
        self.group.get_or_insert(self.bytes.len());
    }

    /// Ends the group, whose output depends on `completion` as a whole. Parts of it that have been sent already were
    /// provisional until this end.
    #[inline]
    pub fn end_group(&mut self, completion: Completion) {
        let from = self.group.take().unwrap_or(self.bytes.len());
        self.completed(from, completion);
    }

    /// Releases the held output of a text that has failed: it depends on nothing. But where the outcome of its commits
    /// is unknown, takes it back.
    pub fn release(&mut self, error: &SqlError) {
        if let Some(from) = self.held.take()
            && error.state() == SqlState::STATEMENT_COMPLETION_UNKNOWN
        {
            self.bytes.truncate(from);
        }
    }

    /// Writes everything, when it is durable, and known to be the newest.
    pub async fn flush(&mut self) -> io::Result<()> {
        debug_assert!(self.held.is_none());
        if self.is_broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.is_due = false;
        let checked = self.check().await;
        self.send(checked).await
    }

    /// Writes everything.
    async fn send(&mut self, checked: io::Result<()>) -> io::Result<()> {
        self.left += 1;
        // Also where this is given up on in the middle of a message.
        self.is_broken = true;
        let written = write(&mut self.stream, &self.bytes, self.stall_max, self.entry.as_ref(), &self.events).await;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
        self.counted.clear();
        self.group = self.group.map(|_| 0);
        let done = written.and(checked);
        self.is_broken = done.is_err();
        done
    }

    /// Waits until every commit that the output reports is durable, and what was read for it is known to be the newest;
    /// otherwise takes back what may not be true, and says why.
    async fn check(&mut self) -> io::Result<()> {
        let reports = !self.receipts.is_empty();
        let durable = self.receive().await;
        let is_newest = match &self.lease {
            None => true,
            Some(lease) => lease.held().await,
        };
        let (from, error) = match durable {
            Ok(()) if is_newest => return Ok(()),
            Ok(()) if !reports => {
                let message = "terminating connection because this node may no longer be the primary";
                let hint = "Connect to the primary. Whether a commit that was not answered has happened is unknown.";
                (0, SqlError::new(SqlState::ADMIN_SHUTDOWN, message).hint(hint))
            }
            Ok(()) => (0, outcome_unknown(&Error::Poisoned("this node may no longer be the primary".into()))),
            Err((from, error)) => {
                log::error!("a commit did not become durable: {error}");
                (if is_newest { from } else { 0 }, outcome_unknown(&error))
            }
        };
        self.bytes.truncate(from);
        backend::error(&mut self.bytes, "FATAL", &error);
        Err(io::Error::other(error))
    }

    /// Waits until every commit that the output reports is durable; otherwise returns where the output begins that
    /// depends on one that is not.
    async fn receive(&mut self) -> Result<(), (usize, Error)> {
        if self.receipts.is_empty() {
            return Ok(());
        }
        let _waiting = self.events.during(WaitEvent::WalSync);
        // One that is not waited for to its end stays.
        while let Some((from, receipt)) = self.receipts.front_mut() {
            let (from, durable) = (*from, receipt.await);
            durable.map_err(|error| (from, error))?;
            self.receipts.pop_front();
        }
        Ok(())
    }

    /// Called within a statement: makes room if the buffer is too full.
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
        let is_checked = self.receipts.is_empty() && self.lease.as_ref().is_none_or(ReadLease::is_held);
        if is_checked {
            let mut context = Context::from_waker(Waker::noop());
            while written < self.bytes.len() {
                match Pin::new(&mut self.stream).poll_write(&mut context, &self.bytes[written..]) {
                    Poll::Ready(Ok(count)) if count > 0 => written += count,
                    Poll::Ready(Ok(_)) => return Err(self.broken(&io::ErrorKind::WriteZero.into())),
                    Poll::Ready(Err(error)) => return Err(self.broken(&error)),
                    Poll::Pending => break,
                }
            }
            self.bytes.drain(..written);
            self.left += 1;
            self.group = self.group.map(|from| from.saturating_sub(written));
        }
        if !self.bytes.is_empty() {
            // What was checked may be in the middle of a message now.
            let rest = async { if is_checked { self.send(Ok(())).await } else { self.flush().await } };
            block_in_place(|| Handle::current().block_on(rest)).map_err(|error| gone(&error))?;
        }
        Ok(())
    }

    /// Nothing more is written: the last message may have left in part.
    fn broken(&mut self, error: &io::Error) -> SqlError {
        self.is_broken = true;
        gone(error)
    }

    /// Closes the connection, and gives the client time to read the last output: a socket that is closed with unread
    /// input discards it.
    pub async fn close(&mut self) {
        use tokio::io::AsyncReadExt;
        self.held = None;
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
    events: &WaitEvents,
) -> io::Result<()> {
    while !bytes.is_empty() {
        match within(stream.write(bytes), stall_max, entry, events).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => bytes = &bytes[count..],
        }
    }
    within(stream.flush(), stall_max, entry, events).await
}

/// Waits for one step of writing. In most cases it is ready at once, and no timer is needed.
async fn within<T>(
    step: impl Future<Output = io::Result<T>>,
    stall_max: Duration,
    entry: Option<&(Arc<Registry>, Arc<Entry>)>,
    events: &WaitEvents,
) -> io::Result<T> {
    let mut step = std::pin::pin!(step);
    if let Poll::Ready(done) = std::future::poll_fn(|context| Poll::Ready(step.as_mut().poll(context))).await {
        return done;
    }
    let _waiting = events.during(WaitEvent::ClientWrite);
    tokio::select! {
        done = timeout(stall_max, step) => done.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?,
        () = ended(entry) => Err(io::Error::other("the server ends")),
    }
}

/// Waits until the server ends all connections.
async fn ended(entry: Option<&(Arc<Registry>, Arc<Entry>)>) {
    let Some((registry, entry)) = entry else { return std::future::pending().await };
    while registry.stage() != Stage::Ending {
        entry.staged.notified().await;
    }
    // Wakes the next waiter.
    entry.staged.notify_one();
}

fn gone(error: &io::Error) -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, format!("the client reads no more: {error}"))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use ermine::{Database, Options, TxnOptions};
    use tokio::{
        io::AsyncReadExt as _,
        net::{TcpListener, TcpStream},
    };

    use super::*;

    /// Returns what a client receives of output that a primary has when its lease is lost.
    async fn answered(completion: Option<Completion>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        let mut options = ServerOptions::default();
        let lease = ReadLease::new(Instant::now() + Duration::from_secs(3600));
        options.fixed.lease = Some(lease.clone());
        let mut output = Output::new(Stream::Plain(socket), &options);
        output.bytes().extend_from_slice(b"read while it was held;");
        output.flush().await.unwrap();
        output.bytes().extend_from_slice(b"stale");
        if let Some(completion) = completion {
            let from = output.mark().length;
            output.bytes().extend_from_slice(b"committed");
            output.completed(from, completion);
        }
        lease.lose();
        output.flush().await.unwrap_err();
        drop(output);
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.unwrap();
        String::from_utf8_lossy(&received).into_owned()
    }

    #[tokio::test]
    async fn nothing_stale_leaves_when_the_lease_is_lost() {
        let read = answered(None).await;
        assert!(read.starts_with("read while it was held;") && read.contains("57P01"), "{read}");
        let directory = std::env::temp_dir().join(format!("ermine-output-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        let database = Arc::new(Database::open(&directory, Options::default()).unwrap());
        let table = database.table::<u64, u64>("t").unwrap();
        let txn = database.begin_owned(TxnOptions::default()).unwrap();
        txn.put(&table, &1, &1).unwrap();
        let completion = Completion { receipt: Some(txn.commit_async().unwrap()) };
        // It has happened; but whether the primary still was one when it did is not known here.
        let written = answered(Some(completion)).await;
        assert!(written.contains("40003"), "{written}");
        assert!([&read, &written].iter().all(|text| !text.contains("stale") && !text.contains("committed")));
        drop((table, database));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
