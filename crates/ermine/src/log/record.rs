//! The descriptors of a block: which rows it wrote, which keys they have, and where their payloads are.
//!
//! | record | bytes |
//! |---|---|
//! | insert | tag, [table], row, length of the payload, length of the key, key |
//! | update | tag, [table], row, length of the payload |
//! | delete | tag, [table], row |
//! | entry | tag, [table], row, index, length of the entry, entry |
//! | chain | tag, LSN of the overflow block before, how many rows the blocks before have |
//! | moved | tag, [table], row, stamp, length of the payload: a row in the cold store |
//! | unlogged | tag: a row of a table that is in memory only, so that the rows after it have their numbers |
//! | key | tag, [table], row, length of the key, key: of the row that the next record updates or deletes |
//!
//! The tag's low three bits are the kind; bit 3 says that the value is stored in a blob and the payload is a
//! [`BlobRef`]; the high four are the table, or 15 where the table follows. All numbers are LEB128 varints. An "insert"
//! is any write of a value where there was none, also over a tombstone: afterwards the row has that key, and exactly
//! the entries of secondary indexes that the block names. An update leaves both as they were, except for the entries
//! that the block names; of several entries of a row in one index the last counts.
//!
//! Keys of rows that are updated or deleted are for readers of changes (`durable::shipping::changes`), which know no
//! rows; recovery does not need them. A delete without a key, in a block that has keys, is of a row that was not there
//! before the transaction. The key of a row of the catalog is the name of a table; in its place there is the front of
//! the row's value before, which has the table's number, too.
//!
//! Payloads follow in the order of their records, one after the other.

use super::block::BLOCK_BYTES_MAX;
use crate::ids::{RowId, TableId};

/// One record of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Record<'a> {
    /// A row with a key that it did not have before.
    Insert { table: TableId, row: RowId, key: &'a [u8], value: Payload },
    /// A new value for a row.
    Update { table: TableId, row: RowId, value: Payload },
    /// A row is deleted.
    Delete { table: TableId, row: RowId },
    /// A row has this entry in a secondary index, and no other in that index.
    Entry { table: TableId, row: RowId, index: u16, entry: &'a [u8] },
    /// The records continue in an earlier overflow block, at this LSN.
    Chain { before: u64, rows_before: u64 },
    /// A row in the cold store.
    Moved { table: TableId, row: RowId, stamp: u64, value: Payload },
    /// A row of a table that is in memory only.
    Unlogged,
    /// The key of the row that the next record updates or deletes.
    Key { table: TableId, row: RowId, key: &'a [u8] },
}

/// The payload of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Payload {
    /// Bytes of the payload in this block.
    pub(crate) length: usize,
    /// These bytes are a [`BlobRef`], not the value.
    pub(crate) diverted: bool,
}

impl Payload {
    /// Returns the payload of a value that is stored in the block itself.
    pub(crate) fn here(length: usize) -> Self {
        Self { length, diverted: false }
    }
}

const INSERT: u8 = 0;
const UPDATE: u8 = 1;
const DELETE: u8 = 2;
const ENTRY: u8 = 3;
const CHAIN: u8 = 4;
const MOVED: u8 = 5;
const UNLOGGED: u8 = 6;
const KEY: u8 = 7;
const DIVERTED: u8 = 1 << 3;
const TABLE_SHIFT: u32 = 4;
/// The table number does not fit the tag.
const TABLE_FOLLOWS: u32 = 15;

/// Appends a varint.
pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Removes a varint from the front; `None` if there is none.
pub(crate) fn take_number(input: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            // The tenth byte has room for one bit.
            return (shift < 63 || byte < 2).then_some(number);
        }
    }
    None
}

fn take_bytes<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_number(input)?).ok()?;
    let (bytes, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(bytes)
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_tag(out: &mut Vec<u8>, kind: u8, table: TableId, row: RowId, diverted: bool) {
    let small = table.0.min(TABLE_FOLLOWS);
    out.push(kind | if diverted { DIVERTED } else { 0 } | (small as u8) << TABLE_SHIFT);
    if small == TABLE_FOLLOWS {
        put_number(out, table.0.into());
    }
    put_number(out, row.0);
}

impl<'a> Record<'a> {
    /// Appends the record's descriptor.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Insert { table, row, key, value } => {
                put_tag(out, INSERT, table, row, value.diverted);
                put_number(out, value.length as u64);
                put_bytes(out, key);
            }
            Self::Update { table, row, value } => {
                put_tag(out, UPDATE, table, row, value.diverted);
                put_number(out, value.length as u64);
            }
            Self::Delete { table, row } => put_tag(out, DELETE, table, row, false),
            Self::Entry { table, row, index, entry } => {
                put_tag(out, ENTRY, table, row, false);
                put_number(out, index.into());
                put_bytes(out, entry);
            }
            Self::Chain { before, rows_before } => {
                out.push(CHAIN);
                put_number(out, before);
                put_number(out, rows_before);
            }
            Self::Moved { table, row, stamp, value } => {
                put_tag(out, MOVED, table, row, value.diverted);
                put_number(out, stamp);
                put_number(out, value.length as u64);
            }
            Self::Unlogged => out.push(UNLOGGED),
            Self::Key { table, row, key } => {
                put_tag(out, KEY, table, row, false);
                put_bytes(out, key);
            }
        }
    }

    fn read(input: &mut &'a [u8]) -> Option<Self> {
        let (&tag, rest) = input.split_first()?;
        *input = rest;
        let (kind, diverted) = (tag & 7, tag & DIVERTED != 0);
        if kind == CHAIN {
            return Some(Self::Chain { before: take_number(input)?, rows_before: take_number(input)? });
        }
        if kind == UNLOGGED {
            return Some(Self::Unlogged);
        }
        let mut table = u32::from(tag >> TABLE_SHIFT);
        if table == TABLE_FOLLOWS {
            table = u32::try_from(take_number(input)?).ok()?;
        }
        let (table, row) = (TableId(table), RowId(take_number(input)?));
        let value = |input: &mut &'a [u8]| {
            // Blocks are no longer than this, so sums of lengths do not overflow.
            let length = take_number(input).filter(|&length| length <= BLOCK_BYTES_MAX)?;
            Some(Payload { length: length as usize, diverted })
        };
        Some(match kind {
            INSERT => Self::Insert { table, row, value: value(input)?, key: take_bytes(input)? },
            UPDATE => Self::Update { table, row, value: value(input)? },
            DELETE => Self::Delete { table, row },
            ENTRY => {
                let index = u16::try_from(take_number(input)?).ok()?;
                Self::Entry { table, row, index, entry: take_bytes(input)? }
            }
            MOVED => Self::Moved { table, row, stamp: take_number(input)?, value: value(input)? },
            KEY => Self::Key { table, row, key: take_bytes(input)? },
            _ => return None,
        })
    }

    /// Whether the record represents a row, and so has a number in its block.
    pub(crate) fn is_row(&self) -> bool {
        !matches!(self, Self::Entry { .. } | Self::Chain { .. } | Self::Key { .. })
    }

    /// Returns the record's payload, if its kind has one.
    pub(crate) fn payload(&self) -> Option<Payload> {
        match *self {
            Self::Insert { value, .. } | Self::Update { value, .. } | Self::Moved { value, .. } => Some(value),
            Self::Delete { .. } | Self::Entry { .. } | Self::Chain { .. } | Self::Unlogged | Self::Key { .. } => None,
        }
    }
}

/// The records of a block, in order. An item of `None` means that the bytes are not descriptors.
pub(crate) struct Records<'a>(&'a [u8]);

impl<'a> Records<'a> {
    pub(crate) fn new(descriptors: &'a [u8]) -> Self {
        Self(descriptors)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Option<Record<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let record = Record::read(&mut self.0);
        if record.is_none() {
            self.0 = &[];
        }
        Some(record)
    }
}

/// The place of a record in its block.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct RecordPlace {
    /// Rows before it.
    rows: usize,
    /// Bytes of descriptors before it.
    descriptor: usize,
    /// The start of its payload, relative to the start of the payloads.
    pub(crate) payload: usize,
}

/// Returns a row's record and its place. The search begins at the place of a row before it, or at the first record.
pub(crate) fn find_row(descriptors: &[u8], number: usize, from: RecordPlace) -> Option<(Record<'_>, RecordPlace)> {
    let mut place = if from.rows <= number { from } else { RecordPlace::default() };
    let mut records = Records::new(descriptors.get(place.descriptor..)?);
    loop {
        let record = records.next()??;
        if record.is_row() {
            if place.rows == number {
                return Some((record, place));
            }
            place.rows += 1;
        }
        place.descriptor = descriptors.len() - records.0.len();
        place.payload += record.payload().map_or(0, |payload| payload.length);
    }
}

/// Returns the payloads of a block that refer to values in files of their own, each with its row.
pub(crate) fn diverted<'a>(descriptors: &'a [u8], payloads: &'a [u8]) -> Vec<((TableId, RowId), &'a [u8])> {
    let (mut found, mut at) = (Vec::new(), 0);
    for record in Records::new(descriptors).map_while(|record| record) {
        let Some(payload) = record.payload() else { continue };
        let bytes = payloads.get(at..at + payload.length);
        at += payload.length;
        if let (true, Record::Insert { table, row, .. } | Record::Update { table, row, .. }) =
            (payload.diverted, record)
        {
            found.extend(bytes.map(|bytes| ((table, row), bytes)));
        }
    }
    found
}

/// The payload that the log holds for a value that is kept in a file of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlobRef {
    /// Number of the file.
    pub(crate) blob: u64,
    pub(crate) length: u64,
    /// CRC-32C of the value.
    pub(crate) checksum: u32,
}

impl BlobRef {
    pub(crate) const BYTES: usize = 20;

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.blob.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let checksum = u32::from_le_bytes(bytes[16..].try_into().expect("four bytes"));
        Some(Self { blob: number(0), length: number(8), checksum })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn samples() -> Vec<Record<'static>> {
        let value = Payload::here(300);
        vec![
            Record::Insert { table: TableId(3), row: RowId(70_000), key: b"key", value },
            Record::Update { table: TableId(15), row: RowId(0), value: Payload { length: 20, diverted: true } },
            Record::Entry { table: TableId(14), row: RowId(1), index: 16, entry: b"entry" },
            Record::Delete { table: TableId(4_000_000_000), row: RowId(u64::MAX >> 30) },
            Record::Moved { table: TableId(1), row: RowId(2), stamp: u64::MAX, value: Payload::here(0) },
            Record::Chain { before: 1 << 60, rows_before: 9 },
            Record::Unlogged,
            Record::Key { table: TableId(15), row: RowId(1), key: b"key" },
        ]
    }

    #[test]
    fn records_come_back() {
        let mut bytes = Vec::new();
        samples().iter().for_each(|record| record.write(&mut bytes));
        let read: Option<Vec<_>> = Records::new(&bytes).collect();
        assert_eq!(read, Some(samples()));
        let first = RecordPlace::default();
        let find = |number, from| find_row(&bytes, number, from);
        let found = |number, from| find(number, from).map(|(record, place)| (record, place.payload));
        assert_eq!(found(2, first), Some((samples()[3], 320)));
        assert_eq!(found(4, first), Some((Record::Unlogged, 320)));
        assert_eq!(found(5, first), None);
        // From the place of any row to any other, before it or behind it.
        let places: Vec<_> = (0..5).map(|number| find(number, first).unwrap()).collect();
        for ((_, from), number) in places.iter().flat_map(|from| (0..6).map(move |number| (from, number))) {
            assert_eq!(find(number, *from), places.get(number).copied());
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
            let _ = Records::new(&bytes).count();
            let _ = find_row(&bytes, random.usize(..4), RecordPlace::default());
        }
        let mut bytes = Vec::new();
        samples().iter().for_each(|record| record.write(&mut bytes));
        for cut in 0..bytes.len() {
            let _ = Records::new(&bytes[..cut]).count();
        }
    }

    #[test]
    fn numbers_beyond_64_bits_are_refused() {
        assert_eq!(take_number(&mut &[0xff; 10][..]), None);
        let mut bytes = Vec::new();
        put_number(&mut bytes, u64::MAX);
        assert_eq!(take_number(&mut &bytes[..]), Some(u64::MAX));
    }

    #[test]
    fn a_reference_to_a_blob_comes_back() {
        let blob = BlobRef { blob: 7, length: 1 << 33, checksum: 9 };
        assert_eq!(BlobRef::from_bytes(&blob.to_bytes()), Some(blob));
        assert_eq!(BlobRef::from_bytes(b"short"), None);
    }
}
