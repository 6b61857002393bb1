//! The engine's untyped operations, which the typed [`crate::Transaction`] calls.
//!
//! Sealed: the engine implements them once for each storage family and once for the enum over the schemes.

use std::ops::{Bound, ControlFlow};

use crate::{
    error::Result,
    ids::{IndexOrdinal, TableId},
    types::KeyBuffer,
};

/// The direction in which a scan walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Direction {
    /// Ascending keys.
    #[default]
    Forward,
    /// Descending keys.
    Backward,
}

/// A range of an index, walked in one direction.
#[derive(Clone, Copy, Debug)]
pub struct ScanRange<'a> {
    /// The table.
    pub table: TableId,
    /// The ordinal of the table's index that is walked.
    pub index: IndexOrdinal,
    /// First key inside the range.
    pub lower: &'a [u8],
    /// First key above the range; `None` for the end.
    pub upper: Option<&'a [u8]>,
    /// The direction of the walk.
    pub direction: Direction,
    /// The maximum number of rows.
    pub limit: usize,
}

impl<'a> ScanRange<'a> {
    /// Returns the part of the range that a scan has examined. The scan has shown `shown` rows, the last of them
    /// `last`; `broke` says whether the visitor broke it off.
    pub(crate) fn looked_through<'l>(
        &self,
        shown: usize,
        last: &'l mut KeyBuffer,
        broke: bool,
    ) -> Option<(&'l [u8], Option<&'l [u8]>)>
    where
        'a: 'l,
    {
        if !broke && shown != self.limit {
            return Some((self.lower, self.upper));
        }
        match self.direction {
            Direction::Forward if shown == 0 => Some((self.lower, Some(self.lower))),
            Direction::Forward => {
                last.push(0);
                Some((self.lower, Some(last)))
            }
            Direction::Backward if shown == 0 => None,
            Direction::Backward => Some((last, self.upper)),
        }
    }
}

/// The effect of a write when the key exists, and when it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// Writes only where the key is missing; [`crate::Error::KeyExists`] otherwise.
    Insert,
    /// Writes only where the key exists; returns `false` otherwise.
    Update,
    /// Writes in both cases.
    Upsert,
}

/// The obstacle that a write of a row would meet at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowLock {
    /// No obstacle; or the scheme finds out only by trying.
    Free,
    /// A transaction that has written the row and has not ended.
    Held,
    /// A version that the transaction's snapshot does not show.
    Outdated,
}

/// The visitor of a scan: it gets each row as (index entry key, value), both for the length of the call, and the scan
/// goes on until told to break.
pub type Visit<'v> = dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>> + 'v;

/// The visitor of one row's value.
pub type Show<'v> = dyn FnMut(&[u8]) -> Result<()> + 'v;

/// The visitor of the rows that a transaction has written: table, key, value; `None` means that the transaction deleted
/// the row.
pub type OwnWrite<'v> = dyn FnMut(&str, &[u8], Option<&[u8]>) -> Result<()> + 'v;

/// The visitor of the reads of a prepared transaction: table, and a range of keys.
pub type OwnRead<'v> = dyn FnMut(&str, Bound<&[u8]>, Bound<&[u8]>) -> Result<()> + 'v;

/// The callback that gets the values of several keys.
pub type Found<'v, 'a> = dyn FnMut(Option<&'a [u8]>) -> Result<()> + 'v;

/// A running transaction under some scheme. Only the engine implements it; [`crate::Transaction`] has the operations.
pub trait Access: sealed::Operations {}

impl<T: sealed::Operations> Access for T {}

pub(crate) mod sealed {
    use super::{Found, OwnRead, OwnWrite, Put, RowLock, ScanRange, Show, Visit};
    use crate::{
        error::{Abort, Result},
        ids::{DatabaseId, TableId, Tid},
        savepoints::Savepoint,
        types::KeyList,
        work::Work,
    };

    /// The operations of a running transaction on bytes.
    pub trait Operations {
        /// Returns the open database that the transaction belongs to.
        fn database(&self) -> &DatabaseId;
        /// Returns the value under a key, as this transaction sees it; the value stays readable until the transaction
        /// ends.
        fn get(&self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>>;
        /// Shows `visit` the value under a key, for the length of the call; returns whether there is a row.
        fn read(&self, table: TableId, key: &[u8], visit: &mut Show<'_>) -> Result<bool> {
            Ok(self.get(table, key)?.map(visit).transpose()?.is_some())
        }
        /// Works as [`Operations::get`] for several keys; `found` gets their values in the order of the keys.
        fn get_many<'a>(&'a self, table: TableId, keys: &KeyList, found: &mut Found<'_, 'a>) -> Result<()>;
        /// Starts loading the rows under several keys from memory, without reading them.
        fn prefetch(&self, table: TableId, keys: &KeyList) -> Result<()>;
        /// Writes a value; returns whether a row was written.
        fn put(&self, table: TableId, key: &[u8], value: &[u8], how: Put) -> Result<bool>;
        /// Deletes a row; returns whether there was one.
        fn delete(&self, table: TableId, key: &[u8]) -> Result<bool>;
        /// Shows `visit` every row of the range in order, as (index entry key, value).
        fn scan(&self, range: ScanRange<'_>, visit: &mut Visit<'_>) -> Result<()>;
        /// Counts as a read of all rows of a table, without reading them; `false`: they have to be read.
        fn hold_table(&self, _table: TableId) -> Result<bool> {
            Ok(false)
        }
        /// Certifies reads from now on, or stops doing so, in a transaction that asked for less than its scheme
        /// promises; returns whether reads are certified if the transaction wants it.
        fn certify_reads(&self, _wanted: bool) -> Result<bool> {
            Ok(true)
        }
        /// Returns the obstacle that a write of a row would meet.
        fn row_lock(&self, table: TableId, key: &[u8]) -> Result<RowLock>;
        /// Whether the transaction sees the newest committed versions of all rows of a table; gives up when `goes_on`
        /// says so.
        fn sees_newest(&self, table: TableId, goes_on: &mut dyn FnMut() -> bool) -> Result<bool>;
        /// Prepares the transaction to commit; returns false if that is impossible.
        fn prepare(&self) -> Result<bool>;
        /// Shows the reads of a prepared transaction.
        fn reads(&self, each: &mut OwnRead<'_>) -> Result<()>;
        /// Returns the number by which other transactions know this one.
        fn tid(&self) -> Result<Option<Tid>>;
        /// Returns the position of the transaction's snapshot in the log.
        fn position(&self) -> Result<u64>;
        /// Shows every row that the transaction has written.
        fn writes(&self, each: &mut OwnWrite<'_>) -> Result<()>;
        /// Returns the work that the transaction has done so far.
        fn work(&self) -> Result<Work>;
        /// Marks a point to roll back to.
        fn savepoint(&self) -> Result<Savepoint>;
        /// Undoes the writes since the savepoint.
        fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<()>;
        /// Forgets the savepoint and those after it.
        fn release(&mut self, savepoint: Savepoint) -> Result<()>;
        /// Takes a new snapshot and goes on with it, where the transaction may.
        fn renew_snapshot(&mut self) -> Result<()>;
    }

    /// The end of a transaction.
    pub trait Attempt: Operations + Sized {
        /// Reports when the commit is durable.
        type Receipt;
        /// Commits in memory, or returns the reason why it cannot.
        fn commit_async(self) -> Result<Self::Receipt>;
        /// Undoes the transaction's writes and commits its reads in memory.
        fn commit_reads_async(self) -> Result<Self::Receipt>;
        /// Returns why the transaction is over, if it has lost a conflict.
        fn doomed(&self) -> Option<Box<Abort>>;
    }
}
