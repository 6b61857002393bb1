//! Prepared transactions: those that have promised to commit, with their reads.
//!
//! A prepared transaction T has to be able to commit at any later time. It can if pi(T) = c(T), whatever c(T) will be:
//! then eta(T) < pi(T) holds for any predecessors. So from the moment at which T is prepared until its end, no other
//! transaction may commit a change of T's reads. Reads are never refused, and T does not wait.
//!
//! T's reads are kept as ranges of primary keys: keys that were read one by one, ranges that were scanned, and whole
//! tables, where a read left no trace except in its table (an untracked read, a read of the table as a whole, a range
//! of a secondary index).
//!
//! ```text
//!   T is prepared                                 W commits a change
//!   1. T's reads are entered                      1. W is marked committing, and has its stamp
//!   2. check for transactions that have              2. look for prepared transactions: W loses
//!      overwritten a read, or are about to              if one has read a key that it writes
//!                                                 3. W is certified
//! ```
//!
//! Invariants
//! 1. *One of the two sees the other*: step 1 of both comes before step 2, sequentially consistent. If W has passed its
//!    second step before T's first, T finds W committing, waits for its outcome, and is not prepared if W commits. A W
//!    that is not committing then will lose.
//! 2. *A prepared transaction stays so to its end*: T's reads are removed after T's stamps are stored in the versions
//!    that it read. A W that finds them gone is certified afterwards, so it finds the stamps.
//! 3. *Prepared transactions agree*: T is not prepared if it writes a key that another prepared transaction has read,
//!    or has read a key that another one writes. For an untracked read T knows only the table, and the other
//!    transaction pushes at its commit: so T is not prepared if the other one has written anywhere in that table.
//!    Transactions are prepared one at a time.
//! 4. *T commits*: no transaction that overwrites its reads commits. Its other possible conflicts (with a reader that
//!    came later and cannot be informed any more) depend on its stamp, and it takes a higher one.

use std::{
    collections::{HashMap, HashSet},
    ops::{Bound, DerefMut, RangeBounds},
    sync::Arc,
};

use crate::{
    ids::{TableId, Tid},
    sync::{AtomicUsize, Mutex, Ordering},
};

/// A range of keys.
type Range = (Bound<Box<[u8]>>, Bound<Box<[u8]>>);

/// The reads of a transaction.
#[derive(Default)]
pub(crate) struct ReadSet {
    tables: HashMap<TableId, TableReads>,
}

/// The reads of one table.
#[derive(Default)]
struct TableReads {
    whole: bool,
    keys: HashSet<Box<[u8]>>,
    ranges: Vec<Range>,
}

impl ReadSet {
    pub(crate) fn add_table(&mut self, table: TableId) {
        self.tables.entry(table).or_default().whole = true;
    }

    pub(crate) fn add_key(&mut self, table: TableId, key: &[u8]) {
        self.tables.entry(table).or_default().keys.insert(key.into());
    }

    pub(crate) fn add_range(&mut self, table: TableId, lower: Bound<&[u8]>, upper: Bound<&[u8]>) {
        match (lower, upper) {
            (Bound::Included(lower), Bound::Included(upper)) if lower == upper => self.add_key(table, lower),
            _ => self.tables.entry(table).or_default().ranges.push((lower.map(Box::from), upper.map(Box::from))),
        }
    }

    fn has(&self, table: TableId, key: &[u8]) -> bool {
        self.tables.get(&table).is_some_and(|reads| {
            reads.whole
                || reads.keys.contains(key)
                || reads.ranges.iter().any(|(lower, upper)| {
                    let range = (lower.as_ref().map(|key| &**key), upper.as_ref().map(|key| &**key));
                    RangeBounds::<[u8]>::contains(&range, key)
                })
        })
    }

    /// Shows all reads, as ranges.
    pub(crate) fn for_each<E>(
        &self,
        mut show: impl FnMut(TableId, Bound<&[u8]>, Bound<&[u8]>) -> Result<(), E>,
    ) -> Result<(), E> {
        for (table, reads) in &self.tables {
            if reads.whole {
                show(*table, Bound::Unbounded, Bound::Unbounded)?;
                continue;
            }
            for key in &reads.keys {
                show(*table, Bound::Included(key), Bound::Included(key))?;
            }
            for (lower, upper) in &reads.ranges {
                show(*table, lower.as_ref().map(|key| &**key), upper.as_ref().map(|key| &**key))?;
            }
        }
        Ok(())
    }
}

/// A prepared transaction.
struct Entry {
    tid: Tid,
    reads: Arc<ReadSet>,
    /// The tables in which the transaction has written.
    written: Box<[TableId]>,
}

/// The prepared transactions of a database.
pub(crate) struct PreparedTransactions {
    /// Number of prepared transactions, including those that are being prepared.
    count: AtomicUsize,
    held: Mutex<Vec<Entry>>,
    /// Locked while a transaction is being prepared.
    preparing: Mutex<()>,
}

impl PreparedTransactions {
    pub(crate) fn new() -> Self {
        Self { count: AtomicUsize::new(0), held: Mutex::new(Vec::new()), preparing: Mutex::new(()) }
    }

    /// Begins to prepare; one transaction at a time.
    pub(crate) fn begin(&self) -> impl Sized + '_ {
        self.preparing.lock().expect("no code panics while it prepares")
    }

    /// Enters a transaction, before it checks whether it can be prepared.
    pub(crate) fn enter(&self, tid: Tid, reads: Arc<ReadSet>, written: Box<[TableId]>) {
        self.held().push(Entry { tid, reads, written });
        // SeqCst: invariant 1.
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Removes a transaction that has ended, or cannot be prepared.
    pub(crate) fn leave(&self, tid: Tid) {
        let mut held = self.held();
        let before = held.len();
        held.retain(|entry| entry.tid != tid);
        // SeqCst: a writer that finds the reads gone finds the stamps (invariant 2).
        self.count.fetch_sub(before - held.len(), Ordering::SeqCst);
    }

    /// Returns whether any transaction is prepared. A committing transaction asks after it was marked committing
    /// (invariant 1).
    #[inline]
    pub(crate) fn any(&self) -> bool {
        // SeqCst: invariant 1.
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Returns another transaction that is prepared and has read a key.
    pub(crate) fn holder(&self, table: TableId, key: &[u8], own: Option<Tid>) -> Option<Tid> {
        let held = self.held();
        held.iter().find(|held| Some(held.tid) != own && held.reads.has(table, key)).map(|held| held.tid)
    }

    /// Returns whether a transaction is prepared, or is being prepared.
    pub(crate) fn has(&self, tid: Tid) -> bool {
        self.held().iter().any(|held| held.tid == tid)
    }

    /// Returns whether another transaction that is prepared has written in a table.
    pub(crate) fn is_written(&self, table: TableId, own: Tid) -> bool {
        self.held().iter().any(|held| held.tid != own && held.written.contains(&table))
    }

    /// Returns the reads of a prepared transaction.
    pub(crate) fn reads(&self, tid: Tid) -> Option<Arc<ReadSet>> {
        self.held().iter().find(|held| held.tid == tid).map(|held| held.reads.clone())
    }

    fn held(&self) -> impl DerefMut<Target = Vec<Entry>> + '_ {
        self.held.lock().expect("no code panics while it holds the list")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn keys_ranges_and_tables_are_held() {
        let mut reads = ReadSet::default();
        let [one, two, three] = [1, 2, 3].map(TableId);
        reads.add_key(one, b"k");
        reads.add_range(one, Bound::Included(b"p"), Bound::Excluded(b"q"));
        reads.add_range(two, Bound::Unbounded, Bound::Included(b"c"));
        reads.add_range(two, Bound::Included(b"x"), Bound::Included(b"x"));
        reads.add_table(three);
        let held = |table, keys: [&str; 3]| keys.map(|key| reads.has(table, key.as_bytes()));
        assert_eq!(held(one, ["j", "k", "kk"]), [false, true, false]);
        assert_eq!(held(one, ["p", "pz", "q"]), [true, true, false]);
        assert_eq!(held(two, ["", "c", "ca"]), [true, true, false]);
        assert_eq!(held(two, ["w", "x", "y"]), [false, true, false]);
        assert!(reads.has(three, b"") && !reads.has(TableId(4), b"k"));
        let mut shown = 0;
        reads
            .for_each(|_, _, _| {
                shown += 1;
                Ok::<_, ()>(())
            })
            .unwrap();
        assert_eq!(shown, 5);
        let (prepared, reads) = (PreparedTransactions::new(), Arc::new(reads));
        let (first, second) = (Tid(1), Tid(2));
        assert!(!prepared.any());
        prepared.enter(first, reads.clone(), [two].into());
        prepared.enter(second, Arc::default(), [].into());
        assert_eq!(prepared.holder(one, b"k", Some(second)), Some(first));
        assert_eq!(prepared.holder(one, b"k", Some(first)), None);
        assert!(
            prepared.is_written(two, second) && !prepared.is_written(two, first) && !prepared.is_written(one, second)
        );
        prepared.leave(first);
        assert!(prepared.any() && prepared.has(second) && prepared.holder(one, b"k", None).is_none());
        prepared.leave(first);
        prepared.leave(second);
        assert!(!prepared.any());
    }
}
