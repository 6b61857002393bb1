//! A primary's side: publishes the pieces of its log, in order, until it is fenced.
//!
//! Invariants:
//! 1. An append that expects sequence `n` is sent only by a publisher that knows every message up to `n` as its own
//!    past. So one append is in flight at a time: with a second one, expecting `n + 1`, the message at `n + 1` could be
//!    another primary's, and the log would accept the piece behind it.
//! 2. A publisher begins its term with an opening, and its term is above that of the end that it begins behind. Once
//!    the opening is in the stream, no append of an earlier term can be accepted any more, however long it was delayed:
//!    it expects a sequence that is no longer the last. So the pieces of two terms never interleave, whatever the lease
//!    says.
//! 3. A piece is reported as replicated only if the log acknowledged it, or if its message was read from the log.
//! 4. An append whose outcome is not known is resolved by a read of its sequence: the piece's own message (it is
//!    replicated), nothing (the append is repeated, with the same bytes), or a foreign message (the publisher is
//!    fenced). A repeated append cannot append twice, because it expects the same sequence.
//! 5. A publisher that is fenced stays fenced: [`Fence`] is set once. It starts no append any more.
//!
//! A publisher that loses its lease while an append is in flight may still learn that the piece is replicated; that is
//! the truth, because nothing but invariant 2 decides it.
//!
//! Rejected: several appends in flight (invariant 1). The bodies of pieces are batches, so the rate of bytes is bound
//! by the size of a message, not by the delay of a quorum.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;

use crate::{
    chain::End,
    log::{AppendError, Lease, LeaseError, ReadError, ReplicatedLog, Sequence, Term},
    mutant::Mutant,
    piece::{Hash, Identity, Kind, Piece, Position},
};

/// Appends whose outcome a call tries to learn. A call ends even if the log contradicts itself.
const ROUNDS_MAX: u32 = 8;

/// Publishes pieces in a term.
pub struct Publisher<L> {
    log: L,
    identity: Identity,
    lease: Lease,
    /// The last piece that is known to be in the log.
    end: End,
    pending: Option<Pending>,
    /// The position and the bytes behind the pending message, of the same piece.
    rest: Option<(Position, Bytes)>,
    fence: Arc<OnceLock<Fence>>,
}

/// The message behind the end of a publisher, whose outcome is not known yet.
struct Pending {
    message: Bytes,
    /// The end behind it.
    end: End,
}

/// Renews the lease of a publisher, beside it.
#[derive(Clone)]
pub struct LeaseKeeper<L> {
    log: L,
    lease: Lease,
    fence: Arc<OnceLock<Fence>>,
}

/// The reason why a publisher has stopped for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fence {
    /// The lease was lost: another node may be the primary. If a piece was pending, whether it is replicated is
    /// unknown; the stream will show it.
    LeaseLost {
        /// The term that ended.
        term: Term,
    },
    /// There is another message where the publisher's next piece belongs. That piece is not replicated, and never will
    /// be.
    Foreign {
        /// The sequence of the message.
        sequence: Sequence,
        /// Its term, if it is a piece.
        term: Option<Term>,
    },
    /// The message at the sequence of the pending piece was removed before it could be read. Whether it was the piece
    /// is unknown.
    Gone {
        /// The sequence of the piece.
        sequence: Sequence,
    },
}

/// The reason why a publisher could not begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The lease's term is not above the term of the stream's end. Acquire the lease again; if that does not help, the
    /// lease's store has been replaced by an older or an empty one.
    OldTerm {
        /// The lease's term.
        term: Term,
        /// The term of the stream's end.
        end: Term,
    },
    /// The stream goes on behind the given end: follow it, and open again.
    Moved(Fence),
    /// The log does not have the given end, perhaps not yet.
    Behind {
        /// The sequence of the given end.
        sequence: Sequence,
    },
    /// Another message than the given end's is at its sequence: this database and the stream have parted.
    Diverged {
        /// The sequence of the given end.
        sequence: Sequence,
    },
    /// The message at the given end has been removed: a newer base is needed.
    Gone {
        /// The first sequence that is still there.
        first: Sequence,
    },
    /// The log refuses the opening: the reason.
    Refused(String),
    /// Whether the term has begun is unknown. Open again, with the same lease and end.
    Unknown(String),
}

/// The reason why a piece was not reported as replicated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublishError {
    /// The publisher has stopped for good.
    Fenced(Fence),
    /// Whether the piece is replicated is unknown. [`Publisher::settle`] tries again.
    Unknown(String),
    /// The log refuses the piece. It is not replicated. [`Publisher::settle`] tries again.
    Refused(String),
}

impl<L: ReplicatedLog> Publisher<L> {
    /// Begins a term behind `end`, up to which the database has all pieces. Returns once the opening is in the log.
    pub async fn open(log: L, identity: Identity, lease: Lease, end: End) -> Result<Self, OpenError> {
        if lease.term <= end.term {
            return Err(OpenError::OldTerm { term: lease.term, end: end.term });
        }
        check(&log, &end).await?;
        let fence = Arc::new(OnceLock::new());
        let mut publisher = Self { log, identity, lease, end, pending: None, rest: None, fence };
        publisher.prepare(Kind::Opening, end.position, Bytes::new());
        match publisher.settle().await {
            Ok(_) => Ok(publisher),
            Err(PublishError::Fenced(fence)) => Err(OpenError::Moved(fence)),
            Err(PublishError::Unknown(reason)) => Err(OpenError::Unknown(reason)),
            Err(PublishError::Refused(reason)) => Err(OpenError::Refused(reason)),
        }
    }

    /// Publishes the piece of the database's log from the end of the last piece to `to`; returns the end behind it once
    /// it is replicated. A body longer than [`Piece::BODY_BYTES_MAX`] takes several messages. After an error, or if the
    /// future is dropped, the piece is pending: [`settle`](Self::settle) goes on with it.
    ///
    /// # Panics
    /// If a piece is pending, if `to` is not behind the last piece, or if the body is empty.
    pub async fn publish(&mut self, to: Position, body: &[u8]) -> Result<End, PublishError> {
        self.check_fence()?;
        if Mutant::AcknowledgedEarly.is_on() {
            self.settle().await?;
        }
        assert!(self.pending().is_none(), "the piece behind position {} is pending", self.end.position);
        self.rest = Some((to, Bytes::copy_from_slice(body)));
        if Mutant::AcknowledgedEarly.is_on()
            && let Some(end) = self.prepare_next()
        {
            return Ok(end);
        }
        self.settle().await
    }

    /// Goes on with the pending piece, if there is one; returns the end of what is replicated.
    pub async fn settle(&mut self) -> Result<End, PublishError> {
        while self.pending.is_some() || self.prepare_next().is_some() {
            self.settle_message().await?;
        }
        Ok(self.end)
    }

    async fn settle_message(&mut self) -> Result<End, PublishError> {
        for _ in 0..ROUNDS_MAX {
            let Some(pending) = &self.pending else { return Ok(self.end) };
            self.check_fence()?;
            let (message, sequence) = (pending.message.clone(), pending.end.sequence);
            let mut expected = self.end.sequence;
            if Mutant::NoExpectedSequence.is_on() {
                expected = self.log.last().await.unwrap_or(expected);
            }
            match self.log.append(expected, message.clone()).await {
                Ok(appended) if appended == sequence || Mutant::NoExpectedSequence.is_on() => return Ok(self.advance()),
                Err(AppendError::Unknown(_)) if Mutant::UnknownIsSuccess.is_on() => return Ok(self.advance()),
                Err(AppendError::Refused(reason)) => return Err(PublishError::Refused(reason)),
                // An answer with another sequence is believed as little as no answer.
                Ok(_) | Err(AppendError::Taken | AppendError::Unknown(_)) => {}
            }
            match self.log.get(sequence).await {
                Ok(Some(found)) if found == message => return Ok(self.advance()),
                Ok(Some(_)) if Mutant::ForeignIgnored.is_on() => self.step_over(sequence),
                Ok(Some(found)) => {
                    let term = Piece::decode(&found).ok().map(|piece| piece.term);
                    return Err(self.stop(Fence::Foreign { sequence, term }));
                }
                Err(ReadError::Gone { .. }) => return Err(self.stop(Fence::Gone { sequence })),
                Err(ReadError::Unreachable(reason)) => return Err(PublishError::Unknown(reason)),
                // The message is not there, or this answer is old.
                Ok(None) => {}
            }
        }
        Err(PublishError::Unknown("the log neither has the piece nor appends it".into()))
    }

    /// Returns the end of what is known to be replicated.
    pub fn end(&self) -> End {
        self.end
    }

    /// Returns the position behind the pending piece, if a piece is pending.
    pub fn pending(&self) -> Option<Position> {
        let rest = self.rest.as_ref().map(|(to, _)| *to);
        rest.or_else(|| self.pending.as_ref().map(|pending| pending.end.position))
    }

    /// Returns the reason why this publisher has stopped, if it has.
    pub fn fence(&self) -> Option<&Fence> {
        self.fence.get()
    }

    /// Returns what renews the lease, to be used while pieces are published.
    pub fn keeper(&self) -> LeaseKeeper<L> {
        LeaseKeeper { log: self.log.clone(), lease: self.lease.clone(), fence: self.fence.clone() }
    }

    /// Makes the next message of the piece the pending one; returns the end behind it.
    fn prepare_next(&mut self) -> Option<End> {
        let (to, mut rest) = self.rest.take()?;
        let body = rest.split_to(rest.len().min(Piece::BODY_BYTES_MAX));
        if rest.is_empty() {
            return Some(self.prepare(Kind::Log, to, body));
        }
        self.rest = Some((to, rest));
        Some(self.prepare(Kind::Part, self.end.position, body))
    }

    /// Makes the message behind the last one the pending one; returns the end behind it.
    fn prepare(&mut self, kind: Kind, to: Position, body: Bytes) -> End {
        let Self { identity, end, .. } = *self;
        let piece =
            Piece { identity, term: self.lease.term, kind, from: end.position, to, predecessor: end.hash, body };
        let message = piece.encode();
        let end = end.behind(&piece, &message);
        self.pending = Some(Pending { message, end });
        end
    }

    /// The pending piece is replicated.
    fn advance(&mut self) -> End {
        let pending = self.pending.take().expect("a piece is pending");
        assert_eq!(pending.end.sequence, self.end.sequence.next());
        self.end = pending.end;
        self.end
    }

    /// For [`Mutant::ForeignIgnored`].
    fn step_over(&mut self, foreign: Sequence) {
        self.end.sequence = foreign;
        if let Some(pending) = &mut self.pending {
            pending.end.sequence = foreign.next();
        }
    }

    fn check_fence(&self) -> Result<(), PublishError> {
        match self.fence.get() {
            Some(Fence::LeaseLost { .. }) if Mutant::LostLeaseIgnored.is_on() => Ok(()),
            Some(fence) => Err(PublishError::Fenced(fence.clone())),
            None => Ok(()),
        }
    }

    /// Fences the publisher; returns the reason that came first.
    fn stop(&self, fence: Fence) -> PublishError {
        PublishError::Fenced(self.fence.get_or_init(|| fence).clone())
    }
}

impl<L: ReplicatedLog> LeaseKeeper<L> {
    /// Renews the lease. If it is lost, the publisher is fenced.
    ///
    /// After [`LeaseError::Unreachable`] the lease may expire: another node may become the primary at any time. Until
    /// the publisher meets that node's messages, it goes on, safely: its pieces are replicated, or it is fenced.
    pub async fn renew(&self) -> Result<(), LeaseError> {
        let renewed = self.log.renew(&self.lease).await;
        if renewed == Err(LeaseError::Lost) {
            self.lost();
        }
        renewed
    }

    /// Gives the lease back, and fences the publisher. The lease expires by itself if this fails.
    pub async fn release(self) -> Result<(), LeaseError> {
        self.lost();
        self.log.release(&self.lease).await
    }

    fn lost(&self) {
        self.fence.get_or_init(|| Fence::LeaseLost { term: self.lease.term });
    }
}

/// Checks that the message at an end is the one that the end names.
async fn check<L: ReplicatedLog>(log: &L, end: &End) -> Result<(), OpenError> {
    let sequence = end.sequence;
    if sequence == Sequence(0) {
        // The append of the opening expects an empty log.
        return Ok(());
    }
    match log.get(sequence).await {
        Ok(Some(message)) => match Piece::decode(&message) {
            Ok(piece) if Hash::of(&message) == end.hash && (piece.term, piece.to) == (end.term, end.position) => Ok(()),
            _ => Err(OpenError::Diverged { sequence }),
        },
        Ok(None) => Err(OpenError::Behind { sequence }),
        Err(ReadError::Gone { first }) => Err(OpenError::Gone { first }),
        Err(ReadError::Unreachable(reason)) => Err(OpenError::Unknown(reason)),
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeaseLost { term } => write!(f, "the lease of term {term} was lost"),
            Self::Foreign { sequence, term: Some(term) } => {
                write!(f, "a primary of term {term} has published at sequence {sequence}")
            }
            Self::Foreign { sequence, term: None } => write!(f, "a foreign message is at sequence {sequence}"),
            Self::Gone { sequence } => write!(f, "the message at sequence {sequence} was removed before it was read"),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OldTerm { term, end } => write!(f, "term {term} is not above term {end}, in which the stream ends"),
            Self::Moved(fence) => write!(f, "the stream goes on: {fence}"),
            Self::Behind { sequence } => write!(f, "the log has not come to sequence {sequence}"),
            Self::Diverged { sequence } => {
                write!(f, "the message at sequence {sequence} is not the one that this database has from there")
            }
            Self::Gone { first } => write!(f, "the messages before sequence {first} have been removed"),
            Self::Refused(reason) => write!(f, "the log refuses the opening: {reason}"),
            Self::Unknown(reason) => write!(f, "whether the term has begun is unknown: {reason}"),
        }
    }
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fenced(fence) => write!(f, "this node is no longer the primary: {fence}"),
            Self::Unknown(reason) => write!(f, "whether the piece is replicated is unknown: {reason}"),
            Self::Refused(reason) => write!(f, "the log refuses the piece: {reason}"),
        }
    }
}

impl std::error::Error for OpenError {}
impl std::error::Error for PublishError {}
