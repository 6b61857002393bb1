//! What a transaction has written and not put in yet.

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
    scheme::Place,
};

/// One row that the transaction writes.
pub(crate) struct Write<C> {
    pub(crate) record: RecordPtr<C>,
    pub(crate) row: RowId,
    /// Table and primary key.
    pub(crate) place: Place,
    /// What will be there; `None`: no row.
    pub(crate) value: Option<Copied>,
    /// The record's word: what its index entries were compared under; once it is locked, what it was before.
    pub(crate) word: TidWord,
    /// Whether entries of secondary indexes come or go with it.
    pub(crate) moves: bool,
}

/// Which record is the how-manieth write.
#[derive(Default)]
pub(crate) struct Positions {
    /// A bit for each record that may be there.
    filter: u64,
    /// Of many writes.
    map: HashMap<usize, u32, BuildHasherDefault<DefaultHasher>>,
}

impl Positions {
    /// So many are looked through one by one.
    const FEW: usize = 24;

    /// The position of a record among the writes.
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

    /// The last of the writes has been added.
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
