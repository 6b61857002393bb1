//! The end of a stream of pieces, and which piece may follow it.
//!
//! Invariants of a stream, all of which [`End::accept`] checks:
//! 1. All pieces are of one database.
//! 2. A piece names the hash of its predecessor, and begins at the position at which the predecessor ends.
//! 3. A term begins with an opening, whose term is above that of the predecessor; every other piece has the term of its
//!    predecessor. So terms never fall, and the pieces of a term are neighbours.

use std::fmt;

use bytes::Bytes;

use crate::{
    log::{Sequence, Term},
    mutant::Mutant,
    piece::{DecodeError, Hash, Identity, Kind, Piece, Position},
};

/// The end of a stream of pieces, as far as a reader or a writer knows it. A base is stored with the end up to which it
/// was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The sequence of the last piece, 0 if there is none.
    pub sequence: Sequence,
    /// The term of the last piece, 0 if there is none.
    pub term: Term,
    /// The position in the database's log behind the last piece.
    pub position: Position,
    /// The hash of the last piece, [`Hash::NONE`] if there is none.
    pub hash: Hash,
}

/// The rule that a message breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// The log returned the message of another sequence.
    Sequence(Sequence),
    /// The message is no piece.
    Undecodable(DecodeError),
    /// The piece is of another database.
    ForeignDatabase(Identity),
    /// The piece's term is older than that of its predecessor.
    TermFell(Term),
    /// The piece's term has not begun with an opening, or has begun twice.
    TermUnopened(Term),
    /// The piece does not begin at the end of its predecessor.
    Gap(Position),
    /// The piece names another predecessor.
    Chain(Hash),
}

impl End {
    /// Returns the end of an empty stream. The first piece will begin at `position`.
    pub fn start(position: Position) -> Self {
        Self { sequence: Sequence(0), term: Term(0), position, hash: Hash::NONE }
    }

    /// Returns the end behind a piece whose message is the next one, without a check.
    pub(crate) fn behind(&self, piece: &Piece, message: &[u8]) -> Self {
        let hash = Hash::of(message);
        Self { sequence: self.sequence.next(), term: piece.term, position: piece.to, hash }
    }

    /// Returns the piece of the message at `sequence`, and the end behind it, if it may follow this end.
    pub fn accept(&self, identity: Identity, sequence: Sequence, message: &Bytes) -> Result<(Piece, Self), Break> {
        if sequence != self.sequence.next() {
            return Err(Break::Sequence(sequence));
        }
        let piece = Piece::decode(message).map_err(Break::Undecodable)?;
        if piece.identity != identity {
            return Err(Break::ForeignDatabase(piece.identity));
        }
        if piece.term < self.term {
            return Err(Break::TermFell(piece.term));
        }
        if (piece.kind == Kind::Opening) != (piece.term > self.term) {
            return Err(Break::TermUnopened(piece.term));
        }
        if piece.from != self.position {
            return Err(Break::Gap(piece.from));
        }
        if piece.predecessor != self.hash && !Mutant::ChainUnchecked.is_on() {
            return Err(Break::Chain(piece.predecessor));
        }
        let end = self.behind(&piece, message);
        Ok((piece, end))
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sequence, term, position, hash } = self;
        write!(f, "sequence {sequence}, term {term}, position {position}, hash {hash}")
    }
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sequence(found) => write!(f, "the log returned the message of sequence {found}"),
            Self::Undecodable(error) => error.fmt(f),
            Self::ForeignDatabase(found) => write!(f, "the piece is of another database, {found}"),
            Self::TermFell(found) => write!(f, "the piece is of an older term, {found}"),
            Self::TermUnopened(found) => write!(f, "term {found} has no opening, or more than one"),
            Self::Gap(found) => write!(f, "the piece begins at position {found}"),
            Self::Chain(found) => write!(f, "the piece follows another piece, of hash {found}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: Identity = Identity([1; 16]);

    fn end() -> End {
        End { sequence: Sequence(4), term: Term(3), position: Position(100), hash: Hash([9; 32]) }
    }

    fn follower_of(end: End) -> Piece {
        Piece {
            identity: IDENTITY,
            term: end.term,
            kind: Kind::Log,
            from: end.position,
            to: Position(end.position.0 + 5),
            predecessor: end.hash,
            body: Bytes::from_static(b"12345"),
        }
    }

    #[test]
    fn a_piece_that_follows_is_accepted() {
        let piece = follower_of(end());
        let (accepted, behind) = end().accept(IDENTITY, Sequence(5), &piece.encode()).unwrap();
        assert_eq!(accepted, piece);
        let hash = Hash::of(&piece.encode());
        assert_eq!(behind, End { sequence: Sequence(5), term: Term(3), position: Position(105), hash });
    }

    /// One rule after the other is broken, and named.
    #[test]
    fn a_piece_that_does_not_follow_is_refused() {
        let good = follower_of(end());
        let opening =
            |term| Piece { kind: Kind::Opening, term: Term(term), to: good.from, body: Bytes::new(), ..good.clone() };
        let cases = [
            (Piece { identity: Identity([2; 16]), ..good.clone() }, Break::ForeignDatabase(Identity([2; 16]))),
            (Piece { term: Term(2), ..good.clone() }, Break::TermFell(Term(2))),
            (Piece { term: Term(4), ..good.clone() }, Break::TermUnopened(Term(4))),
            (opening(3), Break::TermUnopened(Term(3))),
            (opening(2), Break::TermFell(Term(2))),
            (Piece { from: Position(101), ..good.clone() }, Break::Gap(Position(101))),
            (Piece { from: Position(99), ..good.clone() }, Break::Gap(Position(99))),
            (Piece { predecessor: Hash([8; 32]), ..good.clone() }, Break::Chain(Hash([8; 32]))),
        ];
        for (piece, broken) in cases {
            assert_eq!(end().accept(IDENTITY, Sequence(5), &piece.encode()), Err(broken));
        }
        assert!(end().accept(IDENTITY, Sequence(5), &opening(4).encode()).is_ok());
        assert_eq!(end().accept(IDENTITY, Sequence(6), &good.encode()), Err(Break::Sequence(Sequence(6))));
        let damaged = Break::Undecodable(DecodeError::Length(3));
        assert_eq!(end().accept(IDENTITY, Sequence(5), &Bytes::from_static(b"ERM")), Err(damaged));
    }
}
