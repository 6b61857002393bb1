//! Scans of a table or a secondary index, as applications use them.
//!
//! A scan shows its rows to a visitor, or returns them copied out. Its iterator ([`Rows`]) reads them in batches, since
//! a visitor cannot be left in the middle and resumed: each batch begins behind the entry with which the last one
//! ended. So no gap between two batches goes unread, and a transaction that inserts there is a conflict like any other.

use std::{collections::VecDeque, marker::PhantomData, ops::ControlFlow};

use crate::{
    access::{Access, Direction, ScanRange},
    error::Result,
    handle::Table,
    ids::{IndexOrdinal, TableId},
    transaction::Transaction,
    types::{EncodedRange, Framing, Key, KeyBuffer, Value},
};

/// Cuts the secondary key off an index entry, so that the primary key is left.
pub(crate) type Skip = fn(&mut &[u8]) -> Result<()>;

/// A scan that has not run yet: reverse it, limit it, then call [`Scan::for_each`] or [`Scan::collect`], or iterate
/// over it.
///
/// ```
/// # let db = ermine::Database::open_in_memory(ermine::Options::default())?;
/// let stock = db.table::<u64, i64>("stock")?;
/// db.run(|txn| {
///     (0..1000).try_for_each(|item| txn.put(&stock, &item, &1))?;
///     let mut sum = 0;
///     for row in txn.scan(&stock, 10..) {
///         let (item, count) = row?;
///         if item == 20 {
///             break; // most of the other rows are not read
///         }
///         sum += count;
///     }
///     assert_eq!(sum, 10);
///     assert_eq!(txn.scan(&stock, 500..).count()?, 500);
///     Ok::<_, ermine::Error>(())
/// })?;
/// # Ok::<_, ermine::Error>(())
/// ```
#[must_use = "a scan does nothing until it is run"]
pub struct Scan<'t, A: Access, K, V> {
    access: &'t A,
    table: Result<TableId>,
    framing: Framing,
    index: IndexOrdinal,
    range: EncodedRange,
    direction: Direction,
    limit: usize,
    skip: Option<Skip>,
    types: PhantomData<(K, V)>,
}

impl<'t, A: Access, K: Key, V: Value> Scan<'t, A, K, V> {
    pub(crate) fn new(
        txn: &'t Transaction<'_, A>,
        table: &Table<K, V>,
        index: IndexOrdinal,
        range: EncodedRange,
        skip: Option<Skip>,
    ) -> Self {
        let (direction, limit) = (Direction::Forward, usize::MAX);
        let (access, framing, table) = (txn.access(), table.framing(), table.id_in(txn.database()));
        Self { access, table, framing, index, range, direction, limit, skip, types: PhantomData }
    }

    /// Scans from the highest key down.
    pub fn rev(mut self) -> Self {
        self.direction = match self.direction {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        };
        self
    }

    /// Limits the scan to `rows` rows.
    pub fn limit(mut self, rows: usize) -> Self {
        self.limit = rows;
        self
    }

    /// Shows every row to `visit` without copying it, until `visit` breaks or fails. A row is readable during the call:
    /// one that is not in memory is read for it alone.
    pub fn for_each(self, mut visit: impl FnMut(K, V::View<'_>) -> Result<ControlFlow<()>>) -> Result<()> {
        let framing = self.framing;
        self.run(|key, value| visit(key, framing.view::<V>(value)?))
    }

    /// As [`Scan::for_each`], with the rows' keys as they are encoded instead of decoded: for an application that
    /// compares keys, copies them or does not need them.
    ///
    /// ```
    /// # use std::ops::ControlFlow;
    /// use ermine::{Key, Uniqueness};
    ///
    /// # let db = ermine::Database::open_in_memory(ermine::Options::default())?;
    /// let people = db.table::<u64, String>("people")?;
    /// let by_name = db.index(&people, "people by name", Uniqueness::NonUnique, |_, name: &str| name.to_owned())?;
    /// db.run(|txn| {
    ///     txn.put(&people, &1, "Zoe")?;
    ///     txn.put(&people, &2, "Ann")?;
    ///     let mut keys = Vec::new();
    ///     txn.scan_by(&by_name, ..).for_each_encoded(|mut key, name| {
    ///         keys.push((u64::decode(&mut key)?, name.to_owned()));
    ///         Ok(ControlFlow::Continue(()))
    ///     })?;
    ///     assert_eq!(keys, [(2, "Ann".to_owned()), (1, "Zoe".to_owned())]);
    ///     Ok::<_, ermine::Error>(())
    /// })?;
    /// # Ok::<_, ermine::Error>(())
    /// ```
    pub fn for_each_encoded(self, mut visit: impl FnMut(&[u8], V::View<'_>) -> Result<ControlFlow<()>>) -> Result<()> {
        let framing = self.framing;
        self.run_keys(|key, value| visit(key, framing.view::<V>(value)?))
    }

    /// Returns all rows, copied out.
    pub fn collect(self) -> Result<Vec<(K, V)>> {
        let (framing, mut rows) = (self.framing, Vec::new());
        self.run(|key, value| {
            rows.push((key, framing.decode(value)?));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(rows)
    }

    /// Returns the first row of the range, copied out.
    pub fn first(self) -> Result<Option<(K, V)>> {
        Ok(self.limit(1).collect()?.pop())
    }

    /// Returns the number of rows. It reads all of them, as any other scan does;
    /// [`Database::estimated_rows`](crate::Database::estimated_rows) costs nothing.
    pub fn count(self) -> Result<usize> {
        let mut rows = 0;
        self.run_encoded(|_, _| {
            rows += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(rows)
    }

    fn run(self, mut visit: impl FnMut(K, &[u8]) -> Result<ControlFlow<()>>) -> Result<()> {
        self.run_keys(|mut key, value| visit(K::decode(&mut key)?, value))
    }

    /// Shows the rows' keys, cut off the entries of a secondary index.
    fn run_keys(self, mut visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>>) -> Result<()> {
        let skip = self.skip;
        self.run_encoded(|mut entry, value| {
            if let Some(skip) = skip {
                skip(&mut entry)?;
            }
            visit(entry, value)
        })
    }

    fn run_encoded(self, mut visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>>) -> Result<()> {
        let range = ScanRange {
            table: self.table?,
            index: self.index,
            lower: &self.range.lower,
            upper: self.range.upper.as_deref(),
            direction: self.direction,
            limit: self.limit,
        };
        self.access.scan(range, &mut visit)
    }
}

/// Iterates over the rows, copied out; an error ends the iteration.
///
/// The rows are read in batches, of 16 rows at first and of up to 256 later. The transaction has read the whole batch,
/// also if the iteration ends inside it: end it early by [`Scan::limit`] or [`Scan::for_each`] where other transactions
/// write the rows behind. Rows that the transaction writes during the iteration, in front of it, may or may not be part
/// of it.
impl<'t, A: Access, K: Key, V: Value> IntoIterator for Scan<'t, A, K, V> {
    type Item = Result<(K, V)>;
    type IntoIter = Rows<'t, A, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        Rows { scan: Some(self), batch: BATCH_MIN, read: VecDeque::new() }
    }
}

/// Rows of the first batch of an iteration.
const BATCH_MIN: usize = 16;
/// Rows of a later batch, at most.
const BATCH_MAX: usize = 256;

/// The iterator over the rows of a [`Scan`].
pub struct Rows<'t, A: Access, K, V> {
    /// The rest of the scan, unless its end has been read.
    scan: Option<Scan<'t, A, K, V>>,
    /// Rows of the next batch.
    batch: usize,
    /// Rows that were read and not yet returned.
    read: VecDeque<(K, V)>,
}

impl<A: Access, K: Key, V: Value> Rows<'_, A, K, V> {
    /// Reads the next batch.
    fn read_batch(&mut self) -> Result<()> {
        let Some(mut scan) = self.scan.take() else { return Ok(()) };
        let (table, rows) = (scan.table?, self.batch.min(scan.limit));
        let range = ScanRange {
            table,
            index: scan.index,
            lower: &scan.range.lower,
            upper: scan.range.upper.as_deref(),
            direction: scan.direction,
            limit: rows,
        };
        let (mut last, read) = (KeyBuffer::new(), &mut self.read);
        scan.access.scan(range, &mut |entry, value| {
            last.clear();
            last.extend_from_slice(entry);
            let mut key = entry;
            if let Some(skip) = scan.skip {
                skip(&mut key)?;
            }
            read.push_back((K::decode(&mut key)?, scan.framing.decode(value)?));
            Ok(ControlFlow::Continue(()))
        })?;
        if read.len() < rows || rows == scan.limit {
            return Ok(());
        }
        match scan.direction {
            Direction::Forward => {
                last.push(0);
                scan.range.lower = last;
            }
            Direction::Backward => scan.range.upper = Some(last),
        }
        self.scan = Some(Scan { table: Ok(table), limit: scan.limit - rows, ..scan });
        self.batch = (2 * self.batch).min(BATCH_MAX);
        Ok(())
    }
}

impl<A: Access, K: Key, V: Value> Iterator for Rows<'_, A, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.read.is_empty()
            && let Err(error) = self.read_batch()
        {
            self.read.clear();
            return Some(Err(error));
        }
        self.read.pop_front().map(Ok)
    }
}
