//! A piece of a database's log: the unit that is published, replicated and verified.
//!
//! Invariants:
//! 1. Encoding and decoding are inverse: two different messages never decode to the same piece, because whatever
//!    [`Piece::decode`] does not need is checked. The hash of a message therefore identifies the piece.
//! 2. Decoding never panics, and allocates nothing that the message's length does not bound.
//! 3. A piece of kind log has `from < to` and a body; an opening has `from = to` and none; a part has `from = to` and a
//!    body.
//! 4. A body that is too long for a message is several messages: parts, and a piece of kind log with the rest.
//!
//! # Encoding
//! Numbers are little-endian.
//!
//! | bytes | contents |
//! |---|---|
//! | 0 to 3 | `ERMP` |
//! | 4 | version of the encoding, 1 |
//! | 5 | kind: 0 an opening, 1 log, 2 a part |
//! | 6, 7 | 0 |
//! | 8 to 23 | identity of the database |
//! | 24 to 31 | term |
//! | 32 to 39 | `from`, a position in the database's log |
//! | 40 to 47 | `to`, the position behind the piece |
//! | 48 to 79 | hash of the predecessor: SHA-256 of its whole message; 0 if there is none |
//! | 80 to 83 | length of the body |
//! | 84 .. | the body |
//! | the last 4 | CRC-32C of all bytes before it |

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use sha2::{Digest, Sha256};

use crate::log::Term;

const MAGIC: [u8; 4] = *b"ERMP";
const VERSION: u8 = 1;
const HEADER: usize = 84;
const CHECKSUM: usize = 4;

/// The name of a database that its copies share.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Identity(pub [u8; 16]);

/// A position in a database's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// The hash of a piece's message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hash(pub [u8; 32]);

/// What a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The first piece of a term. It has no contents.
    Opening = 0,
    /// A piece of the database's log.
    Log = 1,
    /// The first bytes of the body of the piece of kind log that follows, which do not fit its message. If an opening
    /// follows instead, they count for nothing.
    Part = 2,
}

/// A piece of a database's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The database.
    pub identity: Identity,
    /// The term of the publisher.
    pub term: Term,
    /// What the piece is.
    pub kind: Kind,
    /// The position of its first byte: `to` of the predecessor.
    pub from: Position,
    /// The position behind it.
    pub to: Position,
    /// The hash of the predecessor's message.
    pub predecessor: Hash,
    /// Bytes that only the database understands.
    pub body: Bytes,
}

/// The reason why a message is no piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// It is shorter than the shortest piece, or longer than the longest.
    Length(usize),
    /// It does not begin as a piece does.
    NoPiece,
    /// The checksum is wrong: the message was damaged.
    Checksum,
    /// It has a version of the encoding that this program does not know.
    Version(u8),
    /// A field has a value that no publisher writes.
    Field(&'static str),
}

impl Piece {
    /// The longest body of a message. With the header and what a log adds, a message stays below 1 MiB, the limit that NATS has by
    /// default.
    pub const BODY_BYTES_MAX: usize = (1 << 20) - (4 << 10);

    /// Returns the message of a piece. Its hash is [`Hash::of`] the message.
    pub fn encode(&self) -> Bytes {
        assert!(self.is_well_formed(), "a malformed piece from {} to {}", self.from, self.to);
        assert!(self.body.len() <= Self::BODY_BYTES_MAX, "a body of {} bytes", self.body.len());
        let mut message = BytesMut::with_capacity(HEADER + self.body.len() + CHECKSUM);
        message.put_slice(&MAGIC);
        message.put_slice(&[VERSION, self.kind as u8, 0, 0]);
        message.put_slice(&self.identity.0);
        message.put_u64_le(self.term.0);
        message.put_u64_le(self.from.0);
        message.put_u64_le(self.to.0);
        message.put_slice(&self.predecessor.0);
        message.put_u32_le(self.body.len() as u32);
        assert_eq!(message.len(), HEADER);
        message.put_slice(&self.body);
        message.put_u32_le(crc32c::crc32c(&message));
        message.freeze()
    }

    /// Returns the piece of a message. The body shares the message's memory.
    pub fn decode(message: &Bytes) -> Result<Self, DecodeError> {
        let length = message.len();
        let Some(body_length) = length.checked_sub(HEADER + CHECKSUM) else {
            return Err(DecodeError::Length(length));
        };
        if body_length > Self::BODY_BYTES_MAX {
            return Err(DecodeError::Length(length));
        }
        let mut fields = message.clone();
        if fields.split_to(4)[..] != MAGIC {
            return Err(DecodeError::NoPiece);
        }
        let (covered, mut checksum) = message.split_at(HEADER + body_length);
        if crc32c::crc32c(covered) != checksum.get_u32_le() {
            return Err(DecodeError::Checksum);
        }
        let version = fields.get_u8();
        if version != VERSION {
            return Err(DecodeError::Version(version));
        }
        let kind = match fields.get_u8() {
            0 => Kind::Opening,
            1 => Kind::Log,
            2 => Kind::Part,
            _ => return Err(DecodeError::Field("kind")),
        };
        if fields.get_u16_le() != 0 {
            return Err(DecodeError::Field("reserved"));
        }
        let mut identity = Identity([0; 16]);
        fields.copy_to_slice(&mut identity.0);
        let (term, from, to) =
            (Term(fields.get_u64_le()), Position(fields.get_u64_le()), Position(fields.get_u64_le()));
        let mut predecessor = Hash([0; 32]);
        fields.copy_to_slice(&mut predecessor.0);
        if fields.get_u32_le() as usize != body_length {
            return Err(DecodeError::Field("length of the body"));
        }
        fields.truncate(body_length);
        let piece = Self { identity, term, kind, from, to, predecessor, body: fields };
        if piece.is_well_formed() { Ok(piece) } else { Err(DecodeError::Field("positions")) }
    }

    /// Returns whether this is the first piece of a term, which has no contents.
    pub fn is_opening(&self) -> bool {
        self.kind == Kind::Opening
    }

    fn is_well_formed(&self) -> bool {
        match self.kind {
            Kind::Opening => self.from == self.to && self.body.is_empty(),
            Kind::Log => self.from < self.to && !self.body.is_empty(),
            Kind::Part => self.from == self.to && !self.body.is_empty(),
        }
    }
}

impl Hash {
    /// The predecessor of the first piece.
    pub const NONE: Self = Self([0; 32]);

    /// Returns the hash of a message.
    pub fn of(message: &[u8]) -> Self {
        Self(Sha256::digest(message).into())
    }
}

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The first 8 bytes, which people compare.
impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0[..8])
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(bytes) => write!(f, "a message of {bytes} bytes is no piece of a log"),
            Self::NoPiece => f.write_str("the message is no piece of a log"),
            Self::Checksum => f.write_str("the message is damaged: its checksum is wrong"),
            Self::Version(version) => {
                write!(f, "the piece has version {version} of the encoding; this program knows {VERSION}")
            }
            Self::Field(name) => write!(f, "a field of the piece is impossible: {name}"),
        }
    }
}

impl std::error::Error for DecodeError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_piece(body: Bytes) -> Piece {
        Piece {
            identity: Identity(*b"0123456789abcdef"),
            term: Term(0x0102_0304_0506_0708),
            kind: Kind::Log,
            from: Position(0x1112),
            to: Position(0x2122),
            predecessor: Hash([0x33; 32]),
            body,
        }
    }

    /// The bytes are those of the table in the header of this file.
    #[test]
    fn the_encoding_is_as_documented() {
        let message = log_piece(Bytes::from_static(b"body")).encode();
        let mut expected = b"ERMP\x01\x01\0\x000123456789abcdef".to_vec();
        expected.extend([8, 7, 6, 5, 4, 3, 2, 1, 0x12, 0x11, 0, 0, 0, 0, 0, 0, 0x22, 0x21, 0, 0, 0, 0, 0, 0]);
        expected.extend([0x33; 32]);
        expected.extend(b"\x04\0\0\0body");
        expected.extend(crc32c::crc32c(&expected).to_le_bytes());
        assert_eq!(message, expected);
        let opening = Piece { kind: Kind::Opening, to: Position(0x1112), ..log_piece(Bytes::new()) };
        assert_eq!(opening.encode().len(), HEADER + CHECKSUM);
        assert_eq!(Piece::decode(&opening.encode()), Ok(opening));
    }

    #[test]
    fn a_hash_is_sha_256() {
        // FIPS 180-4, the example with one block.
        assert_eq!(Hash::of(b"abc").to_string(), "ba7816bf8f01cfea");
    }

    #[test]
    fn the_longest_body_is_decoded_and_a_longer_one_refused() {
        let longest = log_piece(vec![7; Piece::BODY_BYTES_MAX].into());
        assert_eq!(Piece::decode(&longest.encode()), Ok(longest));
        let length = HEADER + Piece::BODY_BYTES_MAX + 1 + CHECKSUM;
        assert_eq!(Piece::decode(&vec![0; length].into()), Err(DecodeError::Length(length)));
    }

    /// Writes the right checksum at the end of a message.
    fn mend(message: &mut [u8]) {
        if let Some(end) = message.len().checked_sub(CHECKSUM) {
            let checksum = crc32c::crc32c(&message[..end]);
            message[end..].copy_from_slice(&checksum.to_le_bytes());
        }
    }

    /// Behind a right checksum.
    #[test]
    fn a_field_that_no_publisher_writes_is_named() {
        let cases: [(usize, u8, _); 7] = [
            (0, b'e', DecodeError::NoPiece),
            (4, 2, DecodeError::Version(2)),
            (5, 3, DecodeError::Field("kind")),
            (7, 1, DecodeError::Field("reserved")),
            (80, 5, DecodeError::Field("length of the body")),
            // An opening with a body.
            (5, 0, DecodeError::Field("positions")),
            // A part that moves the position.
            (5, 2, DecodeError::Field("positions")),
        ];
        for (at, byte, error) in cases {
            let mut message = log_piece(Bytes::from_static(b"body")).encode().to_vec();
            message[at] = byte;
            mend(&mut message);
            assert_eq!(Piece::decode(&message.into()), Err(error));
        }
        let mut empty = log_piece(Bytes::from_static(b"body")).encode().to_vec();
        empty.copy_within(32..40, 40);
        mend(&mut empty);
        assert_eq!(Piece::decode(&empty.into()), Err(DecodeError::Field("positions")));
    }

    /// Any bytes are decoded or refused without a panic; what is decoded is encoded to the same bytes. Damage that a
    /// checksum covers is always found.
    #[test]
    fn any_bytes_are_decoded_or_refused() {
        let seed = std::env::var("ERMINE_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
        println!("ERMINE_SEED={seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut decoded = 0;
        for round in 0..20_000 {
            let body: Vec<u8> = (1..random.usize(2..40)).map(|_| random.u8(..)).collect();
            let original = log_piece(body.into()).encode();
            let mut message = original.to_vec();
            if round % 4 == 0 {
                message = (0..random.usize(..200)).map(|_| random.u8(..)).collect();
                let known = random.usize(..9).min(message.len());
                message[..known].copy_from_slice(&original[..known]);
            }
            for _ in 0..random.usize(..4) {
                let end = message.len();
                match random.u8(..4) {
                    0 if end > 0 => message[random.usize(..end)] ^= 1 << random.u8(..8),
                    1 if end > 0 => message[random.usize(..end)] = random.choice([0, 1, 127, 128, 255]).unwrap(),
                    2 => message.truncate(random.usize(..=end)),
                    _ => message.extend((0..random.usize(..8)).map(|_| random.u8(..))),
                }
            }
            let damaged = message != original;
            let mended = random.bool();
            if mended {
                mend(&mut message);
            }
            let message = Bytes::from(message);
            if let Ok(piece) = Piece::decode(&message) {
                assert!(mended || !damaged, "damage was not found");
                assert_eq!(piece.encode(), message);
                decoded += 1;
            }
        }
        assert!(decoded > 2000, "only {decoded} messages were decoded");
    }
}
