//! Operations as bytes: the form in which a history of millions of transactions is stored.
//!
//! An operation is a tag (its type, whether a value or an upper end follows, a small table number), the rest of the
//! table number, the ordinal of an index, keys after their lengths, a stamp as its distance from the transaction's
//! beginning, and a digest as it is. Numbers have seven bits per byte. A read of a row with an eight-byte key takes
//! about 22 bytes, a tenth of an `Operation` and its key on the heap.
//!
//! Invariants
//! 1. A transaction's bytes lie in one segment, so that they are read from one slice.
//! 2. Segments are append-only; packed bytes are never moved.

use super::{Digest, Index, Operation, ReadVersion, Stamp, Table};

/// Length of a segment; those of huge transactions are longer.
const SEGMENT_BYTES: usize = 1 << 20;

/// The place of the operations of one transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    segment: u32,
    start: u32,
    end: u32,
}

/// Packed operations of many transactions.
#[derive(Clone, Debug, Default)]
pub(super) struct Segments(Vec<Vec<u8>>);

impl Segments {
    /// Stores the packed operations of one transaction.
    pub(super) fn keep(&mut self, packed: &[u8]) -> Place {
        let fits = |segment: &Vec<u8>| segment.capacity() - segment.len() >= packed.len();
        if !self.0.last().is_some_and(fits) {
            self.0.push(Vec::with_capacity(SEGMENT_BYTES.max(packed.len())));
        }
        let last = self.0.last_mut().expect("one was just made sure of");
        let start = last.len();
        last.extend_from_slice(packed);
        let end = u32::try_from(last.len()).expect("a transaction has less than 4 GiB of operations");
        Place { segment: (self.0.len() - 1) as u32, start: start as u32, end }
    }

    /// Adds the segments of another; returns how its places change.
    pub(super) fn append(&mut self, mut other: Self) -> impl Fn(Place) -> Place + use<> {
        let moved = self.0.len() as u32;
        self.0.append(&mut other.0);
        move |place| Place { segment: place.segment + moved, ..place }
    }

    pub(super) fn operations(&self, place: Place, begin: Stamp) -> Operations<'_> {
        let bytes = &self.0[place.segment as usize][place.start as usize..place.end as usize];
        Operations { bytes, begin }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().map(|segment| segment.capacity() as u64).sum()
    }
}

/// The type of an operation: the low bits of its tag.
const READ_AT: u8 = 0;
const READ_OWN: u8 = 1;
const READ_MISSING: u8 = 2;
const RANGE: u8 = 3;
const WRITE: u8 = 4;
const ENTRY_GAINED: u8 = 5;
const ENTRY_LOST: u8 = 6;
const WHAT: u8 = 0b111;
/// A value follows, or an upper end.
const MORE: u8 = 0b1000;
/// The table is in the high bits; if all of them are set, it follows.
const TABLE_SHIFT: u32 = 4;
const TABLE_FOLLOWS: u8 = 0b1111;

/// Packs the operations of one transaction, one after the other.
pub fn pack(operation: &Operation<'_>, begin: Stamp, into: &mut Vec<u8>) {
    match *operation {
        Operation::Read { table, key, version, value } => {
            let (what, stamp) = match version {
                ReadVersion::At(stamp) => (READ_AT, Some(stamp)),
                ReadVersion::Own => (READ_OWN, None),
                ReadVersion::Missing(stamp) => (READ_MISSING, Some(stamp)),
            };
            put_tag(what, value.is_some(), table, into);
            put_bytes(key, into);
            if let Some(stamp) = stamp {
                put_stamp(stamp, begin, into);
            }
            put_value(value, into);
        }
        Operation::Range { index, lower, upper, at } => {
            put_tag(RANGE, upper.is_some(), index.table, into);
            put_number(index.ordinal.into(), into);
            put_bytes(lower, into);
            if let Some(upper) = upper {
                put_bytes(upper, into);
            }
            put_stamp(at, begin, into);
        }
        Operation::Write { table, key, value } => {
            put_tag(WRITE, value.is_some(), table, into);
            put_bytes(key, into);
            put_value(value, into);
        }
        Operation::Entry { index, entry, present } => {
            put_tag(if present { ENTRY_GAINED } else { ENTRY_LOST }, false, index.table, into);
            put_number(index.ordinal.into(), into);
            put_bytes(entry, into);
        }
    }
}

fn put_tag(what: u8, more: bool, table: Table, into: &mut Vec<u8>) {
    let small = table.0.min(TABLE_FOLLOWS.into()) as u8;
    into.push(what | if more { MORE } else { 0 } | small << TABLE_SHIFT);
    if small == TABLE_FOLLOWS {
        put_number(table.0.into(), into);
    }
}

fn put_number(mut number: u64, into: &mut Vec<u8>) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

fn put_bytes(bytes: &[u8], into: &mut Vec<u8>) {
    put_number(bytes.len() as u64, into);
    into.extend_from_slice(bytes);
}

/// Stores the distance with its sign in the lowest bit, so that stamps just below and above are short.
fn put_stamp(stamp: Stamp, begin: Stamp, into: &mut Vec<u8>) {
    let distance = stamp.0.wrapping_sub(begin.0) as i64;
    put_number((distance << 1 ^ distance >> 63) as u64, into);
}

fn put_value(value: Option<Digest>, into: &mut Vec<u8>) {
    if let Some(Digest(digest)) = value {
        into.extend_from_slice(&digest.to_le_bytes());
    }
}

/// The operations of a transaction, unpacked one by one.
#[derive(Clone, Debug)]
pub struct Operations<'h> {
    bytes: &'h [u8],
    begin: Stamp,
}

impl<'h> Iterator for Operations<'h> {
    type Item = Operation<'h>;

    fn next(&mut self) -> Option<Operation<'h>> {
        let (&tag, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        let (what, more) = (tag & WHAT, tag & MORE != 0);
        let table = match tag >> TABLE_SHIFT {
            TABLE_FOLLOWS => Table(self.number() as u32),
            small => Table(small.into()),
        };
        Some(match what {
            READ_AT | READ_OWN | READ_MISSING => {
                let key = self.slice();
                let version = match what {
                    READ_AT => ReadVersion::At(self.stamp()),
                    READ_OWN => ReadVersion::Own,
                    _ => ReadVersion::Missing(self.stamp()),
                };
                Operation::Read { table, key, version, value: self.value(more) }
            }
            RANGE => {
                let index = Index { table, ordinal: self.number() as u16 };
                let (lower, upper) = (self.slice(), more.then(|| self.slice()));
                Operation::Range { index, lower, upper, at: self.stamp() }
            }
            WRITE => Operation::Write { table, key: self.slice(), value: self.value(more) },
            _ => {
                let index = Index { table, ordinal: self.number() as u16 };
                Operation::Entry { index, entry: self.slice(), present: what == ENTRY_GAINED }
            }
        })
    }
}

impl<'h> Operations<'h> {
    fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let (&byte, rest) = self.bytes.split_first().expect("packed numbers are whole");
            self.bytes = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return number;
            }
            shift += 7;
        }
    }

    fn slice(&mut self) -> &'h [u8] {
        let length = self.number() as usize;
        let (bytes, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        bytes
    }

    fn stamp(&mut self) -> Stamp {
        let folded = self.number();
        Stamp(self.begin.0.wrapping_add((folded >> 1) ^ (folded & 1).wrapping_neg()))
    }

    fn value(&mut self, present: bool) -> Option<Digest> {
        if !present {
            return None;
        }
        let (bytes, rest) = self.bytes.split_first_chunk().expect("packed digests are whole");
        self.bytes = rest;
        Some(Digest(u64::from_le_bytes(*bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_comes_out() {
        let long = vec![7; 300];
        let far = u64::MAX >> 1;
        let mut operations = Vec::new();
        for table in [Table(0), Table(14), Table(15), Table(u32::MAX)] {
            for value in [None, Some(Digest(0)), Some(Digest(u64::MAX))] {
                for stamp in [0, 1, 999, 1000, 1001, far].map(Stamp) {
                    for version in [ReadVersion::At(stamp), ReadVersion::Own, ReadVersion::Missing(stamp)] {
                        operations.push(Operation::Read { table, key: b"key", version, value });
                    }
                    let index = Index { table, ordinal: u16::MAX };
                    operations.push(Operation::Range { index, lower: b"", upper: None, at: stamp });
                    operations.push(Operation::Range { index, lower: &long, upper: Some(b""), at: stamp });
                    operations.push(Operation::Entry { index, entry: b"e", present: value.is_some() });
                }
                operations.push(Operation::Write { table, key: &long, value });
            }
        }
        let begin = Stamp(1000);
        let mut packed = Vec::new();
        for operation in &operations {
            pack(operation, begin, &mut packed);
        }
        let mut segments = Segments::default();
        segments.keep(b"of another one");
        let place = segments.keep(&packed);
        assert!(segments.operations(place, begin).eq(operations));
    }

    #[test]
    fn a_read_of_a_short_key_is_short() {
        let mut packed = Vec::new();
        let version = ReadVersion::At(Stamp(1_000_000 - 5_000));
        let read = Operation::Read { table: Table(3), key: &[1; 8], version, value: Some(Digest(u64::MAX)) };
        pack(&read, Stamp(1_000_000), &mut packed);
        assert!(packed.len() <= 22, "{}", packed.len());
    }
}
