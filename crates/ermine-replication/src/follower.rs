//! A standby's side: reads the pieces of a stream, and verifies each before it is handed out.
//!
//! Invariants:
//! 1. Every piece that is handed out follows the one before it ([`chain`](crate::chain)); the first one follows the end
//!    with which the follower was made. So all followers of a stream see prefixes of one sequence of pieces.
//! 2. A message that may not follow is an error that names sequence and position. The follower stays there: it skips
//!    nothing, and every further call returns the same error.
//! 3. A piece that takes several messages is handed out as a whole, or not at all.
//! 4. No reader of the log is trusted to notice that it brings nothing any more: [`Follower::check_reader`].

use std::{
    fmt,
    future::Future,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use bytes::{Bytes, BytesMut};

use crate::{
    chain::{Break, End},
    log::{LogReader, ReadError, ReplicatedLog, Sequence},
    mutant::Mutant,
    piece::{Identity, Kind, Piece, Position},
};

/// Reads and verifies the pieces of a stream.
pub struct Follower<L: ReplicatedLog> {
    log: L,
    identity: Identity,
    end: End,
    /// The end behind the last piece that was handed out.
    whole: End,
    /// The parts of the next one that were read.
    parts: BytesMut,
    reader: Option<L::Reader>,
    /// The last sequence when the reader was checked last.
    checked: Option<Sequence>,
    /// Where there is no reader: what makes one, and goes on when a call is dropped.
    beginning: Option<Beginning<L::Reader>>,
    broken: Option<Break>,
}

type Beginning<R> = Pin<Box<dyn Future<Output = Result<R, ReadError>> + Send>>;

/// The reason why a follower has no next piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowError {
    /// The log did not answer: try again.
    Unreachable(String),
    /// The next piece has been removed: take a newer base.
    Gone {
        /// The first sequence that is still there.
        first: Sequence,
    },
    /// The next message may not follow. It stays so.
    Broken {
        /// The sequence of the message.
        sequence: Sequence,
        /// The position in the database's log at which it should begin.
        position: Position,
        /// The rule that it breaks.
        cause: Break,
    },
}

impl<L: ReplicatedLog> Follower<L> {
    /// Returns a follower whose first piece is the one behind `end`: the end of a base, [`End::start`], or what
    /// [`Follower::whole`] has returned.
    pub fn new(log: L, identity: Identity, end: End) -> Self {
        let parts = BytesMut::new();
        Self { log, identity, end, whole: end, parts, reader: None, checked: None, beginning: None, broken: None }
    }

    /// Waits for the next piece, verifies it, and returns it. Openings are returned, too. Loses nothing if the future
    /// is dropped.
    pub async fn next(&mut self) -> Result<Piece, FollowError> {
        loop {
            let mut piece = self.next_message().await?;
            match piece.kind {
                Kind::Part => {
                    self.parts.extend_from_slice(&piece.body);
                    continue;
                }
                // The primary before has ended within a piece.
                Kind::Opening => self.parts.clear(),
                Kind::Log if self.parts.is_empty() => {}
                Kind::Log => {
                    self.parts.extend_from_slice(&piece.body);
                    piece.body = std::mem::take(&mut self.parts).freeze();
                }
            }
            self.whole = self.end;
            return Ok(piece);
        }
    }

    /// Returns the next piece, verified, if it has arrived. An error is left to the next call of [`Follower::next`].
    pub fn next_arrived(&mut self) -> Option<Piece> {
        match pin!(self.next()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(piece)) => Some(piece),
            _ => None,
        }
    }

    async fn next_message(&mut self) -> Result<Piece, FollowError> {
        if let Some(cause) = self.broken {
            return Err(self.error(cause));
        }
        let (sequence, message) = match self.read().await {
            Ok(read) => read,
            Err(error) => {
                self.reader = None;
                return Err(match error {
                    ReadError::Gone { first } => FollowError::Gone { first },
                    ReadError::Unreachable(reason) => FollowError::Unreachable(reason),
                });
            }
        };
        match self.end.accept(self.identity, sequence, &message) {
            Ok((piece, end)) => {
                self.end = end;
                Ok(piece)
            }
            Err(cause) => {
                self.broken = Some(cause);
                Err(self.error(cause))
            }
        }
    }

    /// Returns the end of the messages that were read: behind it, a publisher opens the next term.
    pub fn end(&self) -> End {
        self.end
    }

    /// Returns the end of the pieces that were returned: another follower goes on there.
    pub fn whole(&self) -> End {
        self.whole
    }

    /// Replaces the reader of the log, if the log has more than it has brought, and it has brought nothing since the
    /// call before: the log's servers may have lost the request that it waits for. To be called now and then; a reader
    /// has the time between two calls.
    pub async fn check_reader(&mut self) -> Result<(), ReadError> {
        let at = self.end.sequence;
        if self.checked == Some(at) && !Mutant::SilenceBelieved.is_on() && self.log.last().await? > at {
            (self.reader, self.beginning) = (None, None);
        }
        self.checked = Some(at);
        Ok(())
    }

    async fn read(&mut self) -> Result<(Sequence, Bytes), ReadError> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => {
                let (log, from) = (&self.log, self.end.sequence.next());
                let beginning = self.beginning.get_or_insert_with(|| {
                    let log = log.clone();
                    Box::pin(async move { log.read(from).await })
                });
                let begun = beginning.await;
                self.beginning = None;
                none.insert(begun?)
            }
        };
        reader.next().await
    }

    fn error(&self, cause: Break) -> FollowError {
        FollowError::Broken { sequence: self.end.sequence.next(), position: self.end.position, cause }
    }
}

impl fmt::Display for FollowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(reason) => write!(f, "the log does not answer: {reason}"),
            Self::Gone { first } => write!(f, "the pieces before sequence {first} have been removed"),
            Self::Broken { sequence, position, cause } => {
                write!(f, "the stream is broken at sequence {sequence}, position {position}: {cause}")
            }
        }
    }
}

impl std::error::Error for FollowError {}
