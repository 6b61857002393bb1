//! A block of the log or of the cold store, read for the rows in it.

use std::cell::Cell;

use super::store::storage;
use crate::{
    error::{Error, Result},
    ids::{RowId, Stamp, TableId},
    log::{
        block::HEADER_BYTES,
        lsn::{Address, Lsn, Space},
        record::{Payload, Record, RecordPlace, find_row},
        scan::{Extent, read_block_of},
    },
    platform::file::File,
};

/// A record of a row as it was read.
pub(crate) struct StoredRecord {
    /// The commit stamp.
    pub(crate) stamp: Stamp,
    pub(crate) value: Payload,
    pub(crate) bytes: Vec<u8>,
}

/// A record of a row, in its block.
pub(super) struct StoredRow<'b> {
    pub(super) stamp: Stamp,
    pub(super) value: Payload,
    pub(super) bytes: &'b [u8],
}

/// A block, which is whole.
pub(super) struct Block {
    at: (Space, Lsn),
    /// Its file, and its position there.
    file: String,
    position: u64,
    descriptors: usize,
    bytes: Vec<u8>,
    /// The record that was read last: the next one is mostly behind it.
    last: Cell<RecordPlace>,
}

impl Block {
    /// Reads the block in which a row should be, and which is likely to be as long as `expected`.
    pub(super) fn read(
        file: &dyn File,
        name: impl Fn() -> String,
        extent: Extent,
        at: (Space, Lsn),
        expected: u64,
        (table, row): (TableId, RowId),
    ) -> Result<Self> {
        let position = at.1.offset() - extent.base;
        let (header, bytes) =
            read_block_of(file, extent, at.1, expected).map_err(storage)?.map_err(|_| Error::Corrupt {
                file: name(),
                offset: position,
                what: format!("no whole block where a row should be (row {} of table {})", row.0, table.0),
            })?;
        Ok(Self { at, file: name(), position, descriptors: header.descriptors as usize, bytes, last: Cell::default() })
    }

    /// Returns its length.
    pub(super) fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns the record at an address in the block, which must belong to that row.
    pub(super) fn row(&self, address: Address, table: TableId, row: RowId) -> Result<StoredRow<'_>> {
        let damaged = |what: &str| Error::Corrupt {
            file: self.file.clone(),
            offset: self.position,
            what: format!("{what} (row {} of table {})", row.0, table.0),
        };
        let (descriptors, payloads) = self.bytes[HEADER_BYTES..].split_at(self.descriptors);
        let found = find_row(descriptors, address.record(), self.last.get());
        let (record, place) = found.ok_or_else(|| damaged("the block has no such record"))?;
        self.last.set(place);
        let at = place.payload;
        let (found, value, stamp) = match record {
            Record::Insert { table, row, value, .. } | Record::Update { table, row, value } => {
                ((table, row), value, self.at.1.stamp())
            }
            Record::Moved { table, row, stamp, value } => ((table, row), value, Stamp(stamp)),
            _ => return Err(damaged("the record has no value")),
        };
        if found != (table, row) {
            return Err(damaged("the record is another row's"));
        }
        let end = at.checked_add(value.length);
        let bytes = end.and_then(|end| payloads.get(at..end)).ok_or_else(|| damaged("the value is cut off"))?;
        Ok(StoredRow { stamp, value, bytes })
    }

    /// Returns the record at an address in the block, copied out.
    pub(super) fn record(&self, address: Address, table: TableId, row: RowId) -> Result<StoredRecord> {
        let StoredRow { stamp, value, bytes } = self.row(address, table, row)?;
        Ok(StoredRecord { stamp, value, bytes: bytes.to_vec() })
    }
}

/// The blocks that a transaction has read last: rows that were written one after the other lie in the same block. A
/// block is never changed, and its place never used again, so it may be kept for as long as its bytes are worth it;
/// which block has a row is decided by the row's slot at each access.
#[derive(Default)]
pub(crate) struct Blocks {
    kept: Vec<Block>,
    /// The one that was used last.
    last: usize,
}

impl Blocks {
    /// A scan, or the transaction, may meet rows of several times and tables in turn.
    const KEPT: usize = 4;
    /// A larger block, which has a single large value, is not kept.
    const BYTES_MAX: usize = 64 << 10;

    /// Returns the block at a place; calls `read` if it is not there.
    pub(super) fn get(&mut self, at: (Space, Lsn), read: impl FnOnce() -> Result<Block>) -> Result<&Block> {
        match self.kept.iter().position(|block| block.at == at) {
            Some(found) => self.last = found,
            None => {
                let block = read()?;
                self.last = (self.last + 1).min(self.kept.len()) % Self::KEPT;
                if self.last == self.kept.len() {
                    self.kept.push(block);
                } else {
                    self.kept[self.last] = block;
                }
            }
        }
        Ok(&self.kept[self.last])
    }

    /// Gives up what is too large to be kept.
    pub(super) fn shed(&mut self) {
        self.kept.retain(|block| block.bytes.len() <= Self::BYTES_MAX);
        self.last = self.last.min(self.kept.len().saturating_sub(1));
    }

    /// Returns the bytes that the blocks take.
    pub(crate) fn bytes(&self) -> usize {
        self.kept.iter().map(|block| block.bytes.capacity()).sum()
    }

    /// Gives the blocks up.
    pub(crate) fn clear(&mut self) {
        self.kept.clear();
    }
}
