//! The read and write sets of a transaction: the rows that it has written and the places where it looked. Undone on
//! abort, and stamped on commit.

use std::ops::Bound;

use smallvec::SmallVec;

use super::leaf_set::{LeafSet, ScannedRange};
use crate::{
    error::{Error, Result},
    ids::{IndexOrdinal, RowId, TableId},
    index::{Inserted, LeafPtr},
    rows::chain::VersionPtr,
    scheme::ConflictSite,
    txn::commit_order::Write,
};

/// An entry of a secondary index that a version of the transaction belongs to; the entry may have existed before.
#[derive(Clone, Copy)]
pub(crate) struct NeededEntry {
    pub(crate) row: RowId,
    pub(crate) index: IndexOrdinal,
    /// The entry's key.
    pub(crate) entry: ConflictSite,
    /// Whether the log needs the entry.
    pub(crate) is_logged: bool,
}

impl NeededEntry {
    /// Returns the properties that the entries of a row in one index share.
    pub(crate) fn group(&self) -> (TableId, RowId, IndexOrdinal) {
        (self.entry.table, self.row, self.index)
    }
}

/// The number of rows that are remembered for writes.
pub(crate) const ROWS_REMEMBERED: usize = 16;

/// The rows that were found last by point reads and at the beginning of scans, in a ring: a subsequent write of such a
/// key needs no second lookup.
///
/// The rows stay correct until the transaction ends. A slot is emptied before its key leaves the index, and a RowId is
/// not reused while the transaction is in the epoch; so a slot with a version still belongs to the key.
#[derive(Default)]
struct LastFound {
    ring: SmallVec<[(ConflictSite, RowId); ROWS_REMEMBERED]>,
    /// The position of the next row to store.
    next: usize,
    /// The position after the one that was found last: rows are mostly written in the order in which they were read.
    expected: usize,
}

impl LastFound {
    fn push(&mut self, site: ConflictSite, row: RowId) {
        if self.ring.len() < ROWS_REMEMBERED {
            self.ring.push((site, row));
        } else {
            self.ring[self.next] = (site, row);
        }
        self.next = (self.next + 1) % ROWS_REMEMBERED;
    }

    fn clear(&mut self) {
        self.ring.clear();
        (self.next, self.expected) = (0, 0);
    }

    fn find(&mut self, matches: impl Fn(ConflictSite) -> bool) -> Option<RowId> {
        let length = self.ring.len();
        let order = (self.expected..length).chain(0..self.expected.min(length));
        let at = order.into_iter().find(|&at| matches(self.ring[at].0))?;
        self.expected = at + 1;
        Some(self.ring[at].1)
    }
}

/// The read and write sets of a transaction on rows with versions; it discards versions that it replaced by newer ones
/// of its own, or unlinked.
pub(crate) type ChainSets<H> = ReadWriteSets<Write<H>, VersionPtr<H>>;

/// Rows, index entries and leaves of one transaction. The vectors keep their memory for the worker's next one.
pub(crate) struct ReadWriteSets<W, D> {
    pub(crate) writes: Vec<W>,
    pub(crate) entries: Vec<NeededEntry>,
    pub(crate) leaves: LeafSet,
    /// The leaf that the last row entered, in the index of its table, and whether the next one is expected there, too.
    entered: Option<(TableId, LeafPtr, bool)>,
    last_found: LastFound,
    /// Versions that the transaction removed from rows: freed when it ends, as views of them may be in use.
    pub(crate) discarded: Vec<D>,
    /// Bytes of the keys that [`ConflictSite`]s refer to.
    keys: Vec<u8>,
    /// Bytes that the records of the transaction take in the log; 0: it has written to no table that is logged.
    pub(crate) log_bytes: u64,
}

/// Maximum bytes of keys that a transaction keeps: a [`ConflictSite`] has 32 bits for the start of a key.
const KEY_BYTES_MAX: usize = if cfg!(test) { 1 << 20 } else { u32::MAX as usize };

/// Beyond this number of bytes, keys are not kept for reports any more, only for writes.
const REPORTED_KEY_BYTES: usize = KEY_BYTES_MAX >> 6;

/// The same for keys of tables that the transaction reads as a whole.
const WHOLE_KEY_BYTES: usize = 256 << 10;

/// Bytes of memory that are kept for the next transaction.
const KEPT_BYTES: usize = 1 << 20;

impl<W, D> Default for ReadWriteSets<W, D> {
    fn default() -> Self {
        Self {
            writes: Vec::new(),
            entries: Vec::new(),
            leaves: LeafSet::default(),
            entered: None,
            last_found: LastFound::default(),
            discarded: Vec::new(),
            keys: Vec::new(),
            log_bytes: 0,
        }
    }
}

impl<W, D> ReadWriteSets<W, D> {
    /// Returns the bytes that the sets take.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.capacity()
            + self.writes.capacity() * size_of::<W>()
            + self.entries.capacity() * size_of::<NeededEntry>()
            + self.leaves.bytes()
            + self.discarded.capacity() * size_of::<D>()
    }

    /// Clears the sets for a new transaction. The memory of a very large one is freed; so is any memory where memory
    /// `is_tight`.
    pub(crate) fn clear(&mut self, is_tight: bool) {
        if self.bytes() > if is_tight { 0 } else { KEPT_BYTES } {
            *self = Self::default();
        }
        self.writes.clear();
        self.entries.clear();
        self.leaves.clear();
        self.entered = None;
        self.last_found.clear();
        self.discarded.clear();
        self.keys.clear();
        self.log_bytes = 0;
    }

    /// Keeps a key that will be needed at the end.
    pub(crate) fn keep(&mut self, table: TableId, key: &[u8]) -> Result<ConflictSite> {
        let length = u16::try_from(key.len()).map_err(|_| Error::KeyTooLong { bytes: key.len() })?;
        if key.len() > KEY_BYTES_MAX - self.keys.len() {
            return Err(Error::Limit("4 GiB of keys that one transaction writes"));
        }
        let at = self.keys.len() as u32;
        self.keys.extend_from_slice(key);
        Ok(ConflictSite { table, at, length })
    }

    /// Forgets the key that was kept last, if nothing was kept after it. No place of it is in use.
    pub(crate) fn forget(&mut self, site: ConflictSite) {
        if site.at as usize + site.length as usize == self.keys.len() {
            self.keys.truncate(site.at as usize);
        }
    }

    /// Keeps a key for reports, unless there are too many.
    pub(crate) fn note(&mut self, table: TableId, key: &[u8]) -> ConflictSite {
        let nowhere = ConflictSite { table, at: 0, length: 0 };
        if self.keys.len() > REPORTED_KEY_BYTES { nowhere } else { self.keep(table, key).unwrap_or(nowhere) }
    }

    /// Keeps a run of keys with one copy; returns its start.
    pub(crate) fn note_run(&mut self, keys: &[u8]) -> Option<u32> {
        if self.keys.len() > REPORTED_KEY_BYTES || keys.len() > KEY_BYTES_MAX - self.keys.len() {
            return None;
        }
        let at = self.keys.len() as u32;
        self.keys.extend_from_slice(keys);
        Some(at)
    }

    /// Keeps a run of keys of a table that is read as a whole, for which the transaction keeps little else.
    pub(crate) fn note_run_of_whole(&mut self, keys: &[u8]) -> Option<u32> {
        if self.keys.len() > WHOLE_KEY_BYTES { None } else { self.note_run(keys) }
    }

    /// Returns the leaf that the next row is expected to enter: the one that the last row entered, if it was of this
    /// table, and unless the one before it entered another leaf.
    #[inline]
    pub(crate) fn near(&self, table: TableId) -> Option<LeafPtr> {
        self.entered.filter(|&(of, _, expected)| of == table && expected).map(|(_, leaf, _)| leaf)
    }

    /// Notes that a row has entered the index of its table.
    #[inline]
    pub(crate) fn entered(&mut self, table: TableId, inserted: &Inserted) {
        let leaf = inserted.near();
        let expected = self.entered.is_none_or(|(of, last, _)| of != table || last == leaf);
        self.entered = Some((table, leaf, expected));
    }

    /// Notes that a read found the row of a key.
    pub(crate) fn found(&mut self, key: ConflictSite, row: RowId) {
        if key.length > 0 {
            self.last_found.push(key, row);
        }
    }

    /// Forgets the rows that reads found.
    pub(crate) fn forget_found(&mut self) {
        self.last_found.clear();
    }

    /// Returns the row of a key, if a recent read has found it.
    pub(crate) fn find(&mut self, table: TableId, key: &[u8]) -> Option<RowId> {
        let keys = &self.keys;
        let same = |site: ConflictSite| site.table == table && keys[site.at as usize..][..site.length as usize] == *key;
        self.last_found.find(same)
    }

    /// Returns the bytes of a key.
    pub(crate) fn key(&self, site: ConflictSite) -> &[u8] {
        &self.keys[site.at as usize..][..site.length as usize]
    }

    /// Keeps a range that will be examined.
    pub(crate) fn note_range(&mut self, table: TableId, lower: &[u8], upper: Option<&[u8]>) -> Option<ScannedRange> {
        if self.keys.len() > REPORTED_KEY_BYTES {
            return None;
        }
        // The ends of a range may be longer than any key.
        let lower = self.keep(table, lower).ok()?;
        let upper = match upper {
            Some(upper) => Bound::Excluded(self.keep(table, upper).ok()?),
            None => Bound::Unbounded,
        };
        Some(ScannedRange { lower, upper })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::KEY_BYTES_MAX;
    use crate::{Database, Error, Options, Scheme, TxnOptions};

    /// One more than the number of keys that fit.
    const KEYS: u64 = KEY_BYTES_MAX as u64 / 8 + 1;

    #[test]
    fn a_key_that_is_written_again_and_again_is_kept_once() {
        for scheme in Scheme::ALL {
            let database = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
            let table = database.table::<u64, u64>("rows").unwrap();
            database
                .run(|txn| (0..2 * KEYS).try_for_each(|value| txn.put(&table, &(value % 3), &value)))
                .unwrap_or_else(|error| panic!("{scheme}: {error}"));
            assert_eq!(database.run(|txn| txn.get(&table, &((2 * KEYS - 1) % 3))).unwrap(), Some(2 * KEYS - 1));
        }
    }

    #[test]
    fn too_many_keys_are_an_error_and_nothing_is_left_of_them() {
        for scheme in Scheme::ALL {
            let database = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
            let table = database.table::<u64, u64>("rows").unwrap();
            let run = database.run(|txn| (0..KEYS).try_for_each(|key| txn.insert(&table, &key, &key)));
            assert!(matches!(run, Err(Error::Limit(_))), "{scheme}: {run:?}");
            let txn = database.begin(TxnOptions::default()).unwrap();
            let failed = (0..KEYS).find_map(|key| txn.insert(&table, &key, &key).err());
            assert!(matches!(failed, Some(Error::Limit(_))), "{scheme}: {failed:?}");
            // Not even the writes before the limit can commit.
            assert!(matches!(txn.commit(), Err(Error::Limit(_))), "{scheme}");
            assert_eq!(database.run(|txn| txn.scan(&table, ..).collect()).unwrap(), [], "{scheme}");
            database.run(|txn| txn.insert(&table, &1, &1)).unwrap();
        }
    }

    /// The end of a range may be longer than any key; a row that enters the range is found all the same.
    #[test]
    fn a_range_with_long_ends_is_looked_through_again() {
        for scheme in Scheme::ALL.into_iter().filter(|scheme| scheme.is_serializable()) {
            let options = Options::default().scheme(scheme).wait_max(std::time::Duration::ZERO);
            let database = Database::open_in_memory(options).unwrap();
            let table = database.table::<String, u64>("rows").unwrap();
            let [begun @ Ok(_), other @ Ok(_)] = [(); 2].map(|()| database.begin(TxnOptions::default())) else {
                continue;
            };
            let (one, other) = (begun.unwrap(), other.unwrap());
            let (lower, upper) = ("b".repeat(70_000), "c".repeat(70_000));
            let look = |txn: &crate::Transaction<'_>| txn.scan(&table, lower.as_str()..upper.as_str()).collect();
            let scanned = [look(&one), look(&other)];
            let written = [one.insert(&table, "c1", &1), other.insert(&table, "c2", &2)];
            let committed = [one.commit(), other.commit()];
            let both = scanned.iter().all(Result::is_ok)
                && written.iter().all(Result::is_ok)
                && committed.iter().all(Result::is_ok);
            assert!(!both, "{scheme}");
        }
    }
}
