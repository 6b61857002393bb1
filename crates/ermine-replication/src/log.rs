//! A replicated log: messages in one order, a lease, blobs, and notes from node to node.
//!
//! Invariants that an implementation keeps:
//! 1. Messages have the sequences 1, 2, 3, ..; all readers see the same message at a sequence. A message that a read
//!    has returned, or whose append was acknowledged, stays at its sequence until retention removes it from the front.
//! 2. An append that expects the last sequence `n` appends at `n + 1`, or not at all. A request may be delayed or
//!    delivered twice; each delivery is checked against the end of the log at that moment.
//! 3. An append is acknowledged after the message is where the log promises it (for JetStream: in the files of a
//!    quorum), never before.
//! 4. Terms only rise: every acquisition of the lease has a term above those of all earlier ones.
//! 5. A lease expires by the clock of the log, which may be wrong: it may expire early, or never. No clock of a client
//!    is
//!    compared with it.
//! 6. Each write of the lease has a number: an acquisition, a renewal, or its return. Of two writes, the later one has
//!    the higher number; between two numbers `n` and `n + 1`, there is none.
//!
//! An answer may be old: [`last`](ReplicatedLog::last) and [`get`](ReplicatedLog::get) may miss the newest messages,
//! for example if a deposed leader answers. They never return a message that is not in the log.
//!
//! The lease serves progress: it keeps candidates from replacing each other all the time. That what is written stays
//! one history comes from invariant 2 ([`publisher`](crate::publisher)). Reads of a primary rely on the lease, by the
//! clocks of the nodes ([`candidate`](crate::candidate)).

use std::{fmt, future::Future, io};

use bytes::Bytes;
use tokio::io::AsyncRead;

/// The place of a message in a replicated log. The first message has 1; 0 is the end of an empty log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

/// The number of an acquisition of the lease. The first one is above 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub u64);

/// The number of a write of the lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseWrite(pub u64);

/// The permission to be the primary, for as long as it is renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The name of the node that acquired it.
    pub holder: String,
    /// The term of this acquisition. Renewals keep it.
    pub term: Term,
    /// The last write of the lease before this acquisition: it has expired since, perhaps early. `None`: the node that
    /// had it gave it back, or there was none.
    pub expired: Option<LeaseWrite>,
}

/// A blob in the log's store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobInfo {
    /// The name under which it was put.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A log that several machines store, with a lease and a store of blobs. A value is a handle; clones share the log.
///
/// No operation waits forever, except [`LogReader::next`]: an implementation gives up after a time of its own.
pub trait ReplicatedLog: Clone + Send + Sync + 'static {
    /// Reads messages one after the other.
    type Reader: LogReader;
    /// The bytes of a blob.
    type Blob: AsyncRead + Unpin + Send;
    /// Reads notes one after the other.
    type Notes: NoteReader;

    /// Appends a message behind `expected`, which must be the last sequence; returns the sequence of the message. If
    /// the future is dropped, the outcome is unknown.
    fn append(&self, expected: Sequence, message: Bytes) -> impl Future<Output = Result<Sequence, AppendError>> + Send;

    /// Returns the message at a sequence, or nothing if the log has not come that far.
    fn get(&self, sequence: Sequence) -> impl Future<Output = Result<Option<Bytes>, ReadError>> + Send;

    /// Returns a reader whose first message is the one at `from`.
    fn read(&self, from: Sequence) -> impl Future<Output = Result<Self::Reader, ReadError>> + Send;

    /// Returns the last sequence, 0 if there was no message yet.
    fn last(&self) -> impl Future<Output = Result<Sequence, ReadError>> + Send;

    /// Removes the messages below a sequence, except that the last one stays: no replica needs them any more.
    fn trim(&self, before: Sequence) -> impl Future<Output = Result<(), ReadError>> + Send;

    /// Takes the lease, if no node holds it, or if `old` is its last write. If the answer is lost, the lease may have
    /// been taken: no node has it until it expires.
    fn acquire(&self, holder: &str, old: Option<LeaseWrite>) -> impl Future<Output = Result<Lease, LeaseError>> + Send;

    /// Prolongs a lease: it expires one lifetime, which is a setting of the log, after the log received the renewal.
    fn renew(&self, lease: &Lease) -> impl Future<Output = Result<(), LeaseError>> + Send;

    /// Gives a lease back, so that another node needs not wait until it expires.
    fn release(&self, lease: &Lease) -> impl Future<Output = Result<(), LeaseError>> + Send;

    /// Stores a blob, piece by piece; replaces one with the same name. The blob is visible when all of it is stored;
    /// after an error, it may be.
    fn put_blob(
        &self,
        name: &str,
        source: impl AsyncRead + Unpin + Send,
    ) -> impl Future<Output = Result<(), BlobError>> + Send;

    /// Returns the bytes of a blob, to be read piece by piece.
    fn get_blob(&self, name: &str) -> impl Future<Output = Result<Self::Blob, BlobError>> + Send;

    /// Returns the blobs, ordered by name.
    fn list_blobs(&self) -> impl Future<Output = Result<Vec<BlobInfo>, BlobError>> + Send;

    /// Deletes a blob. No error if there is none.
    fn delete_blob(&self, name: &str) -> impl Future<Output = Result<(), BlobError>> + Send;

    /// Sends a note to the nodes that listen at the moment. It is stored nowhere, and may be lost: nothing that has to
    /// be right depends on notes.
    fn tell(&self, note: Bytes) -> impl Future<Output = Result<(), ReadError>> + Send;

    /// Returns a reader of the notes that are sent from now on.
    fn listen(&self) -> impl Future<Output = Result<Self::Notes, ReadError>> + Send;
}

/// Reads notes in the order in which they come.
pub trait NoteReader: Send {
    /// Waits for the next note. After an error, the reader is of no more use.
    fn next(&mut self) -> impl Future<Output = Result<Bytes, ReadError>> + Send;
}

/// Reads messages in order.
pub trait LogReader: Send {
    /// Waits for the next message; returns it with its sequence. Loses nothing if the future is dropped. After an
    /// error, the reader is of no more use.
    fn next(&mut self) -> impl Future<Output = Result<(Sequence, Bytes), ReadError>> + Send;
}

/// The reason why an append was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendError {
    /// The last sequence was not the expected one; this delivery appended nothing. An earlier delivery of the same
    /// request may have: read the sequence behind the expected one.
    Taken,
    /// The message may be in the log, and if it is not, it may come to be there later: append it again, or read.
    Unknown(String),
    /// The log refuses the message as it is, for example as too large. It is not in the log.
    Refused(String),
}

/// The reason why nothing was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// Retention has removed the message: a replica needs a newer base.
    Gone {
        /// The first sequence that is still there.
        first: Sequence,
    },
    /// The log did not answer: try again.
    Unreachable(String),
}

/// The reason why an operation on the lease failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseError {
    /// Another acquisition of the lease is in force: try again later.
    Held {
        /// The node that holds it.
        holder: String,
        /// The last write of the lease.
        write: LeaseWrite,
    },
    /// The lease is no longer in force: it expired, was given back, or has a newer term.
    Lost,
    /// The log did not answer: try again. A renewal may have happened.
    Unreachable(String),
}

/// The reason why an operation on a blob failed.
#[derive(Debug)]
pub enum BlobError {
    /// There is no blob of this name.
    Missing,
    /// The bytes to be stored could not be read.
    Source(io::Error),
    /// The log did not answer, or refused: try again.
    Unreachable(String),
}

impl Sequence {
    /// Returns the sequence behind this one.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken => f.write_str("another message has been appended"),
            Self::Unknown(reason) => write!(f, "whether the message was appended is unknown: {reason}"),
            Self::Refused(reason) => write!(f, "the log refuses the message: {reason}"),
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone { first } => write!(f, "the messages before sequence {first} have been removed"),
            Self::Unreachable(reason) => write!(f, "the log does not answer: {reason}"),
        }
    }
}

impl fmt::Display for LeaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { holder, .. } => write!(f, "the lease is held by \"{holder}\""),
            Self::Lost => f.write_str("the lease is no longer in force"),
            Self::Unreachable(reason) => write!(f, "the log does not answer: {reason}"),
        }
    }
}

impl fmt::Display for BlobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("there is no such blob"),
            Self::Source(error) => write!(f, "the bytes to be stored could not be read: {error}"),
            Self::Unreachable(reason) => write!(f, "the log does not answer: {reason}"),
        }
    }
}

impl std::error::Error for AppendError {}
impl std::error::Error for ReadError {}
impl std::error::Error for LeaseError {}
impl std::error::Error for BlobError {}
