//! The blocks of a file, valid or invalid.

use std::{fmt, sync::Arc};

use crate::{
    durable::store::storage,
    error::Result,
    log::{
        block::{self, HEADER_BYTES, Header, Invalid},
        lsn::Lsn,
        record::{self, Records},
        scan::{self, Extent, Paused, Scan},
    },
    platform::file::File,
};

/// Iterates over the blocks of a file, and continues behind damage. An error of the file system ends the iteration.
pub struct Blocks {
    file: Arc<dyn File>,
    extent: Extent,
    /// `None` when the iteration is over.
    scan: Option<Paused>,
}

/// The content of a place in a file.
#[derive(Clone, Debug)]
pub enum Found {
    /// A block whose header and descriptors are valid.
    Block(Block),
    /// No block: damage, or space that is not used yet.
    Hole(Hole),
}

/// A block.
#[derive(Clone, Debug)]
pub struct Block {
    /// The kind of the block.
    pub kind: BlockKind,
    /// The byte position in the file.
    pub position: u64,
    /// The offset in the log; of a commit, the stamp of its transaction.
    pub offset: u64,
    /// The number of its segment, modulo 16; 0 in a file that is not a segment.
    pub segment: u8,
    /// All bytes of the block.
    pub bytes: u64,
    /// Bytes of the block's descriptors.
    pub descriptor_bytes: u64,
    /// Number of rows among its records.
    pub rows: u64,
    /// The offset up to which the log was durable when the block was filled.
    pub durable_to: u64,
    /// Whether the payloads are valid, too.
    pub is_right: bool,
    /// Of a block that notes the time: microseconds since 1970.
    pub clock_us: Option<u64>,
    descriptors: Vec<u8>,
}

/// The kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockKind(block::BlockKind);

/// Bytes that are not a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hole {
    /// The byte position in the file.
    pub position: u64,
    /// The offset in the log.
    pub offset: u64,
    /// The distance to the next block, or to the end.
    pub bytes: u64,
    /// The reason why the bytes are not a block.
    pub reason: Reason,
}

/// The reason why bytes are not a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing was written there, in this use of the file; or it has been overwritten.
    Blank,
    /// A block in a version of the format that this program does not know.
    Version(u8),
    /// A block begins there, but its checksum or its sizes are wrong.
    Damaged,
}

/// A record of a block: a statement about a row, or about the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A row with a key that it did not have before.
    Insert {
        /// The table's number.
        table: u32,
        /// The row's number.
        row: u64,
        /// The encoded key.
        key: Vec<u8>,
        /// Bytes of the value in the block.
        value_bytes: u64,
        /// Whether these bytes are a reference to the value instead of the value.
        diverted: bool,
    },
    /// Another value of a row.
    Update {
        /// The table's number.
        table: u32,
        /// The row's number.
        row: u64,
        /// Bytes of the value in the block.
        value_bytes: u64,
        /// Whether these bytes are a reference to the value instead of the value.
        diverted: bool,
    },
    /// A row was deleted.
    Delete {
        /// The table's number.
        table: u32,
        /// The row's number.
        row: u64,
    },
    /// A row has an entry in a secondary index.
    Entry {
        /// The table's number.
        table: u32,
        /// The row's number.
        row: u64,
        /// The index's number, from 1.
        index: u16,
        /// The encoded entry.
        entry: Vec<u8>,
    },
    /// The transaction's earlier records are in an overflow block.
    Chain {
        /// The overflow block's offset in the log.
        offset: u64,
        /// Number of rows in the overflow block and those before it.
        rows_before: u64,
    },
    /// A row of a table that is in memory only.
    Unlogged,
    /// The key of the row that the next record updates or deletes.
    Key {
        /// The table's number.
        table: u32,
        /// The row's number.
        row: u64,
        /// The encoded key; of a row of the catalog, the front of the row's value before.
        key: Vec<u8>,
    },
    /// A row in the cold store.
    Moved {
        /// The table's number.
        table: u32,
        /// The row's number.
        row: u64,
        /// The commit stamp of its version.
        stamp: u64,
        /// Bytes of the value in the block.
        value_bytes: u64,
        /// Whether these bytes are a reference to the value instead of the value.
        diverted: bool,
    },
    /// The descriptors cannot be read from here on: they were written by a newer version, or are invalid.
    Unknown,
}

impl Blocks {
    pub(super) fn new(file: Arc<dyn File>, extent: Extent) -> Self {
        Self { file, extent, scan: Some(Paused::new(extent.start)) }
    }

    fn look(base: u64, scan: &mut Scan<'_>) -> Result<Option<Found>> {
        let at = scan.at();
        let reason = match scan.next().map_err(storage)? {
            scan::Found::End => return Ok(None),
            scan::Found::Block(header, bytes) => {
                return Ok(Some(Found::Block(Block::new(&header, bytes, base, true))));
            }
            scan::Found::Invalid(invalid) => Reason::from(invalid),
        };
        if let Some((header, bytes)) = scan.head().map_err(storage)? {
            let found = Block::new(&header, bytes, base, false);
            scan.go_to(header.end());
            return Ok(Some(Found::Block(found)));
        }
        scan.seek().map_err(storage)?;
        Ok(Some(Found::Hole(Hole { position: at - base, offset: at, bytes: scan.at() - at, reason })))
    }
}

impl Iterator for Blocks {
    type Item = Result<Found>;

    fn next(&mut self) -> Option<Result<Found>> {
        let mut scan = self.scan.take()?.resume(&*self.file, self.extent);
        let found = Self::look(self.extent.base, &mut scan).transpose()?;
        if found.is_ok() {
            self.scan = Some(scan.pause());
        }
        Some(found)
    }
}

impl Block {
    /// `bytes` begins with header and descriptors, and is the whole block where `is_right`.
    fn new(header: &Header, bytes: &[u8], base: u64, is_right: bool) -> Self {
        let descriptors = bytes[HEADER_BYTES..header.payload_at() as usize].to_vec();
        let has_records = BlockKind(header.kind).has_records();
        let records = Records::new(if has_records { &descriptors } else { &[] });
        let rows = records.flatten().filter(record::Record::is_row).count() as u64;
        let is_clock = is_right && header.kind == block::BlockKind::Clock;
        let clock = bytes.get(header.payload_at() as usize..).and_then(<[u8]>::first_chunk);
        Self {
            kind: BlockKind(header.kind),
            position: header.lsn.offset() - base,
            offset: header.lsn.offset(),
            segment: header.lsn.segment(),
            bytes: header.size,
            descriptor_bytes: header.descriptors.into(),
            rows,
            durable_to: header.durable(),
            is_right,
            clock_us: clock.filter(|_| is_clock).map(|bytes| u64::from_le_bytes(*bytes)),
            descriptors,
        }
    }

    /// Returns the bytes behind the descriptors: payloads and padding. Of a skip block, the bytes that it skips.
    pub fn payload_bytes(&self) -> u64 {
        self.bytes - HEADER_BYTES as u64 - self.descriptor_bytes
    }

    /// Returns the records in the block's descriptors; none where the descriptors are not records of rows.
    pub fn records(&self) -> Vec<Record> {
        let descriptors = if self.kind.has_records() { &self.descriptors[..] } else { &[] };
        Records::new(descriptors).map(|record| record.map_or(Record::Unknown, Record::from)).collect()
    }
}

impl BlockKind {
    /// Returns the name, in lower case.
    pub fn name(self) -> &'static str {
        match self.0 {
            block::BlockKind::Commit => "commit",
            block::BlockKind::Skip => "skip",
            block::BlockKind::Overflow => "overflow",
            block::BlockKind::Clock => "clock",
            block::BlockKind::Cold => "cold",
            block::BlockKind::Begin => "begin",
            block::BlockKind::Keys => "keys",
            block::BlockKind::Entries => "entries",
            block::BlockKind::End => "end",
            block::BlockKind::Label => "label",
        }
    }

    /// Returns whether the descriptors are records of rows.
    fn has_records(self) -> bool {
        matches!(self.0, block::BlockKind::Commit | block::BlockKind::Overflow | block::BlockKind::Cold)
    }
}

impl fmt::Display for BlockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl From<Invalid> for Reason {
    fn from(invalid: Invalid) -> Self {
        match invalid {
            Invalid::Blank => Self::Blank,
            Invalid::Version(version) => Self::Version(version),
            Invalid::Damaged => Self::Damaged,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blank => f.write_str("no block"),
            Self::Version(version) => write!(f, "a block of format {version}"),
            Self::Damaged => f.write_str("a damaged block"),
        }
    }
}

impl From<record::Record<'_>> for Record {
    fn from(record: record::Record<'_>) -> Self {
        match record {
            record::Record::Insert { table, row, key, value } => Self::Insert {
                table: table.0,
                row: row.0,
                key: key.to_vec(),
                value_bytes: value.length as u64,
                diverted: value.diverted,
            },
            record::Record::Update { table, row, value } => {
                Self::Update { table: table.0, row: row.0, value_bytes: value.length as u64, diverted: value.diverted }
            }
            record::Record::Delete { table, row } => Self::Delete { table: table.0, row: row.0 },
            record::Record::Entry { table, row, index, entry } => {
                Self::Entry { table: table.0, row: row.0, index, entry: entry.to_vec() }
            }
            record::Record::Chain { before, rows_before } => {
                Self::Chain { offset: Lsn::from_word(before).offset(), rows_before }
            }
            record::Record::Unlogged => Self::Unlogged,
            record::Record::Key { table, row, key } => Self::Key { table: table.0, row: row.0, key: key.to_vec() },
            record::Record::Moved { table, row, stamp, value } => Self::Moved {
                table: table.0,
                row: row.0,
                stamp,
                value_bytes: value.length as u64,
                diverted: value.diverted,
            },
        }
    }
}
