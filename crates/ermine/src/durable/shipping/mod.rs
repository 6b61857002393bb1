//! Readers of the durable log of an open database. Shipping it: a copy of a database that is kept up to date by the
//! log of the original (ERMIA 3.7: the log is the database). And its content, as changes of rows.
//!
//! A [`LogReader`](reader::LogReader) of the open database returns what is durable in its log, piece by piece; any
//! carrier takes the pieces to another machine; a [`LogReceiver`](receiver::LogReceiver) there appends them to the
//! files of a backup. That directory is a *standby*: it is not open, and holds everything up to its position. Promoted, it is
//! opened like any database, and recovery does the rest.
//!
//! | module | contents |
//! |---|---|
//! | `blocks` | the durable log of an open database, block by block |
//! | `reader` | the same, as pieces |
//! | `receiver` | appends pieces to the files of a standby |
//! | `changes` | the changes of committed transactions, from the blocks |
//! | `received` | the committed transactions in the files of a standby |
//!
//! Positions are offsets in the log ([`crate::Stamp::as_u64`] of a commit is one). A piece covers the log between two
//! positions, and pieces follow each other without gaps.
//!
//! The body of a piece, little-endian:
//!
//! | bytes | field |
//! |---|---|
//! | 0..16 | identity of the database |
//! | 16..40 | the segment: number, first offset, offset behind the last; eight bytes each |
//! | 40..48 | offset of the first block |
//! | 48..52 | number of large values |
//! | | each large value: number of its file (8), table (4), row (8), length (4), the value |
//! | rest | blocks, as they are in the segment; of a long skip only the header |
//!
//! Blocks and large values have checksums of their own, which the receiver checks.

mod blocks;
pub(crate) mod changes;
pub(crate) mod reader;
pub(crate) mod received;
pub(crate) mod receiver;

use std::borrow::Cow;

use crate::{
    ids::{RowId, TableId},
    log::{identity::Identity, space::Span},
};

/// The part of a log between two positions, to be carried to a [`LogReceiver`](crate::LogReceiver).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogPiece {
    /// Where the piece begins: the end of the piece before it.
    pub from: u64,
    /// Where the piece ends. A commit is in a piece that ends beyond its stamp, or in an earlier one.
    pub to: u64,
    /// The content, which only a [`LogReceiver`](crate::LogReceiver) reads.
    pub body: Vec<u8>,
}

/// A large value that a block of a piece refers to.
#[derive(PartialEq, Eq, Debug)]
struct LargeValue<'a> {
    blob: u64,
    owner: (TableId, RowId),
    bytes: Cow<'a, [u8]>,
}

/// The content of a piece.
#[derive(PartialEq, Eq, Debug)]
struct Content<'a> {
    identity: Identity,
    span: Span,
    /// The offset of the first block.
    at: u64,
    values: Vec<LargeValue<'a>>,
    blocks: &'a [u8],
}

impl<'a> Content<'a> {
    fn encode(&self) -> Vec<u8> {
        let values: usize = self.values.iter().map(|value| 24 + value.bytes.len()).sum();
        let mut body = Vec::with_capacity(52 + values + self.blocks.len());
        body.extend(self.identity.bytes());
        let Span { sequence, start, end } = self.span;
        [sequence, start, end, self.at].iter().for_each(|number| body.extend(number.to_le_bytes()));
        body.extend((self.values.len() as u32).to_le_bytes());
        for LargeValue { blob, owner: (table, row), bytes } in &self.values {
            body.extend(blob.to_le_bytes());
            body.extend(table.0.to_le_bytes());
            body.extend(row.0.to_le_bytes());
            body.extend((bytes.len() as u32).to_le_bytes());
            body.extend(&**bytes);
        }
        body.extend(self.blocks);
        body
    }

    /// Decodes a body; `None`: it is none.
    fn decode(body: &'a [u8]) -> Option<Self> {
        let mut input = Input(body);
        let identity = Identity::read(input.take(Identity::BYTES)?)?;
        let span = Span { sequence: input.number()?, start: input.number()?, end: input.number()? };
        let at = input.number()?;
        let mut values = Vec::new();
        for _ in 0..input.small()? {
            let (blob, table, row) = (input.number()?, TableId(input.small()?), RowId(input.number()?));
            let length = input.small()? as usize;
            values.push(LargeValue { blob, owner: (table, row), bytes: input.take(length)?.into() });
        }
        Some(Self { identity, span, at, values, blocks: input.0 })
    }
}

/// Bytes that are decoded from the front.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(front)
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn small(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn sample() -> Content<'static> {
        let value =
            |blob, bytes: &'static [u8]| LargeValue { blob, owner: (TableId(7), RowId(1 << 40)), bytes: bytes.into() };
        Content {
            identity: Identity::draw(),
            span: Span { sequence: 3, start: 4096 + 32, end: 50_000 },
            at: 5000,
            values: vec![value(1, b"a large value"), value(2, b"")],
            blocks: b"blocks",
        }
    }

    #[test]
    fn a_body_comes_back_and_no_bytes_make_it_panic() {
        let body = sample().encode();
        let read = Content::decode(&body).unwrap();
        assert_eq!(read.encode(), body);
        assert_eq!(&*read.values[0].bytes, b"a large value");
        let without_blocks = body.len() - b"blocks".len();
        for cut in 0..body.len() {
            assert_eq!(Content::decode(&body[..cut]).is_some(), cut >= without_blocks, "{cut}");
        }
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let mut wrong = body.clone();
            let at = random.usize(..wrong.len());
            wrong[at] = random.u8(..);
            let _ = Content::decode(&wrong);
        }
    }
}
