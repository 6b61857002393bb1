//! The engine's untyped operations, as the typed [`crate::Transaction`] uses them.
//!
//! Sealed: the engine implements it once for every scheme and once for the enum over them.

use std::ops::{Bound, ControlFlow};

use crate::{
    error::Result,
    ids::{DatabaseId, TableId, Tid},
    savepoints::Savepoint,
    types::{KeyBuffer, KeyList},
    work::Work,
};

/// Which index of a table a scan walks: the primary one (0) or the n-th secondary one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct IndexOrdinal(pub(crate) u16);

impl IndexOrdinal {
    /// The primary index.
    pub(crate) const PRIMARY: Self = Self(0);
}

/// Which way a scan walks.
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
    /// Which of its indexes.
    pub index: IndexOrdinal,
    /// First key inside.
    pub lower: &'a [u8],
    /// First key above; `None` for the end.
    pub upper: Option<&'a [u8]>,
    /// Which way.
    pub direction: Direction,
    /// At most so many rows.
    pub limit: usize,
}

impl<'a> ScanRange<'a> {
    /// How much of it a scan has looked through that has shown so many rows, the last of them `last`, and was broken off or not.
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

/// What a write does when the key is there, and when it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// Only where the key is missing; [`crate::Error::KeyExists`] otherwise.
    Insert,
    /// Only where the key is there; says `false` otherwise.
    Update,
    /// Either way.
    Upsert,
}

/// What a write of a row would meet at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowLock {
    /// Nobody; or the scheme only tells by trying.
    Free,
    /// A transaction that has written the row and has not ended.
    Held,
    /// A version that the transaction's snapshot does not show.
    Outdated,
}

/// What a scan shows rows to, as (index entry key, value); it goes on until told to break.
pub type Visit<'v, 'a> = dyn FnMut(&[u8], &'a [u8]) -> Result<ControlFlow<()>> + 'v;

/// What is shown a row that a transaction has written: table, key, value; `None`: it deleted the row.
pub type OwnWrite<'v> = dyn FnMut(&str, &[u8], Option<&[u8]>) -> Result<()> + 'v;

/// What is shown what a transaction has read that has promised to commit: table, and a range of keys.
pub type OwnRead<'v> = dyn FnMut(&str, Bound<&[u8]>, Bound<&[u8]>) -> Result<()> + 'v;

/// What [`Access::get_many`] hands values to.
pub type Found<'v, 'a> = dyn FnMut(Option<&'a [u8]>) -> Result<()> + 'v;

/// The operations of a running transaction on bytes.
pub trait Access: sealed::Sealed {
    /// The open database that the transaction is of.
    fn database(&self) -> &DatabaseId;
    /// The value under a key, as this transaction sees it; it stays readable until the transaction ends.
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>>;
    /// As [`Access::get`] for several keys, whose values `found` gets in their order.
    fn get_many<'a>(&'a self, table: TableId, keys: &KeyList, found: &mut Found<'_, 'a>) -> Result<()>;
    /// Writes a value; says whether a row was written.
    fn put(&self, table: TableId, key: &[u8], value: &[u8], how: Put) -> Result<bool>;
    /// Deletes a row; says whether there was one.
    fn delete(&self, table: TableId, key: &[u8]) -> Result<bool>;
    /// Shows `visit` every row of the range in order, as (index entry key, value).
    fn scan<'a>(&'a self, range: ScanRange<'_>, visit: &mut Visit<'_, 'a>) -> Result<()>;
    /// What a write of a row would meet.
    fn row_lock(&self, table: TableId, key: &[u8]) -> Result<RowLock>;
    /// Promises to commit; false: it cannot.
    fn promise(&self) -> Result<bool>;
    /// Shows what a transaction has read that has promised.
    fn reads(&self, each: &mut OwnRead<'_>) -> Result<()>;
    /// The number by which others know the transaction.
    fn tid(&self) -> Result<Option<Tid>>;
    /// Shows every row that the transaction has written.
    fn writes(&self, each: &mut OwnWrite<'_>) -> Result<()>;
    /// What the transaction has done so far.
    fn work(&self) -> Result<Work>;
    /// Marks a point to go back to.
    fn savepoint(&self) -> Result<Savepoint>;
    /// Undoes what was written since.
    fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<()>;
    /// Forgets a point and those after it.
    fn release(&mut self, savepoint: Savepoint) -> Result<()>;
    /// Goes on with the snapshot of now, where the transaction may.
    fn renew_snapshot(&mut self) -> Result<()>;
}

pub(crate) mod sealed {
    use crate::error::{Abort, Result};

    /// Only the engine implements [`super::Access`].
    pub trait Sealed {}

    /// The end of a transaction.
    pub trait Attempt: super::Access + Sized {
        /// Says when the commit is durable.
        type Receipt;
        /// Commits in memory, or says why not.
        fn commit_async(self) -> Result<Self::Receipt>;
        /// Undoes what it has written and commits what it has read in memory.
        fn commit_reads_async(self) -> Result<Self::Receipt>;
        /// Why it is over, if it has lost a conflict.
        fn doomed(&self) -> Option<Box<Abort>>;
    }
}
