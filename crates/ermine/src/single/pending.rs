//! The writes of a transaction that have not been stored in records yet.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, DefaultHasher},
};

use crate::{
    ids::RowId,
    rows::{
        copies::Copied,
        in_place::{Control, RecordPtr, TidWord},
    },
    scheme::ConflictSite,
    table::IndexSet,
};

/// One row that the transaction writes.
pub(crate) struct Write<C> {
    pub(crate) record: RecordPtr<C>,
    pub(crate) row: RowId,
    /// Table and primary key.
    pub(crate) site: ConflictSite,
    /// The value to store; `None`: no row.
    pub(crate) value: Option<Copied>,
    /// The record's word as of the comparison of index entries; once the record is locked, the word before the lock.
    pub(crate) word: TidWord,
    /// The table's indexes as of the first write of the row.
    pub(crate) indexes: IndexSet,
    /// Whether the write inserts or removes entries of secondary indexes.
    pub(crate) moves: bool,
}

/// Maps a record to its position in the write set.
#[derive(Default)]
pub(crate) struct Positions {
    /// A bit for each record that may be in the write set.
    filter: u64,
    /// Used when there are many writes.
    map: HashMap<usize, u32, BuildHasherDefault<DefaultHasher>>,
}

impl Positions {
    /// Up to this number of writes are searched one by one.
    const FEW: usize = 24;

    /// Returns the position of a record among the writes.
    #[inline]
    pub(crate) fn find<C: Control>(&self, writes: &[Write<C>], record: RecordPtr<C>) -> Option<usize> {
        if self.filter & bit(record) == 0 {
            return None;
        }
        if writes.len() <= Self::FEW {
            return writes.iter().rposition(|write| write.record == record);
        }
        self.map.get(&record.address()).map(|&at| at as usize)
    }

    /// Notes that a write has been added at the end.
    pub(crate) fn added<C: Control>(&mut self, writes: &[Write<C>]) {
        self.filter |= writes.last().map_or(0, |write| bit(write.record));
        if writes.len() > Self::FEW {
            let known = self.map.len();
            let new = writes.iter().enumerate().skip(known);
            self.map.extend(new.map(|(at, write)| (write.record.address(), at as u32)));
        }
    }

    pub(crate) fn clear(&mut self) {
        self.filter = 0;
        if !self.map.is_empty() {
            self.map = HashMap::default();
        }
    }
}

fn bit<C: Control>(record: RecordPtr<C>) -> u64 {
    1 << ((record.address() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58)
}
