//! Prepared transactions: those that have promised to commit, with their reads.
//!
//! A prepared transaction T has to be able to commit at any later time. It can if pi(T) = c(T), whatever c(T) will be:
//! then eta(T) < pi(T) holds for any predecessors. So from the moment at which T promises until its end, no other
//! transaction may commit a change of T's reads. Reads are never refused, and T does not wait.
//!
//! T's reads are kept as ranges of primary keys: keys that were read one by one, ranges that were scanned, and whole
//! tables, where a read left no trace except in its table (an untracked read, a read of the table as a whole, a range
//! of a secondary index).
//!
//! ```text
//!   T promises                                    W commits a change
//!   1. T's reads are among the promises           1. W is marked committing, and has its stamp
//!   2. check for transactions that have              2. check the promises: W loses if one holds a key
//!      overwritten a read, or are about to              that it writes
//!                                                 3. W is certified
//! ```
//!
//! Invariants
//! 1. *One of the two sees the other*: step 1 of both comes before step 2, sequentially consistent. If W has passed its
//!    second step before T's first, T finds W committing, waits for its outcome, and does not promise if W commits. A W
//!    that is not committing then will lose.
//! 2. *A promise holds to the end*: T's reads leave the promises after T's stamps are stored in the versions that it
//!    read. A W that finds them gone is certified afterwards, so it finds the stamps.
//! 3. *Promises agree*: T does not promise if it writes a key that another promise holds, or has read a key that
//!    another promised transaction writes. For an untracked read T knows only the table, and the other transaction
//!    pushes at its commit: so T does not promise if the other one has written anywhere in that table. One transaction
//!    promises at a time.
//! 4. *T commits*: no transaction that overwrites its reads commits. Its other possible conflicts (with a reader that
//!    came later and cannot be informed any more) depend on its stamp, and it takes a higher one.

use std::{
    collections::{HashMap, HashSet},
    ops::{Bound, DerefMut, RangeBounds as _},
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
                    range.contains(key)
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

/// The promise of a transaction.
struct Promise {
    tid: Tid,
    reads: Arc<ReadSet>,
    /// The tables in which the transaction has written.
    written: Box<[TableId]>,
}

/// The transactions of a database that have promised to commit.
pub(crate) struct Promises {
    /// Number of promises, including those of transactions that are about to promise.
    count: AtomicUsize,
    held: Mutex<Vec<Promise>>,
    /// Locked by a transaction that is about to promise.
    promising: Mutex<()>,
}

impl Promises {
    pub(crate) fn new() -> Self {
        Self { count: AtomicUsize::new(0), held: Mutex::new(Vec::new()), promising: Mutex::new(()) }
    }

    /// Starts to promise; one transaction at a time.
    pub(crate) fn begin(&self) -> impl Sized + '_ {
        self.promising.lock().expect("no code panics while it promises")
    }

    /// Enters a transaction, before it checks whether it can promise.
    pub(crate) fn enter(&self, tid: Tid, reads: Arc<ReadSet>, written: Box<[TableId]>) {
        self.held().push(Promise { tid, reads, written });
        // SeqCst: invariant 1.
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Removes a transaction that has ended, or does not promise.
    pub(crate) fn leave(&self, tid: Tid) {
        let mut held = self.held();
        let before = held.len();
        held.retain(|promise| promise.tid != tid);
        // SeqCst: a writer that finds the promise gone finds the stamps (invariant 2).
        self.count.fetch_sub(before - held.len(), Ordering::SeqCst);
    }

    /// Returns whether there are any promises. A committing transaction asks after it was marked committing (invariant
    /// 1).
    #[inline]
    pub(crate) fn any(&self) -> bool {
        // SeqCst: invariant 1.
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Returns another transaction that has promised and has read a key.
    pub(crate) fn holder(&self, table: TableId, key: &[u8], own: Option<Tid>) -> Option<Tid> {
        let held = self.held();
        held.iter().find(|held| Some(held.tid) != own && held.reads.has(table, key)).map(|held| held.tid)
    }

    /// Returns whether a transaction has promised, or is about to.
    pub(crate) fn has(&self, tid: Tid) -> bool {
        self.held().iter().any(|held| held.tid == tid)
    }

    /// Returns whether another transaction that has promised has written in a table.
    pub(crate) fn is_written(&self, table: TableId, own: Tid) -> bool {
        self.held().iter().any(|held| held.tid != own && held.written.contains(&table))
    }

    /// Returns the reads of a transaction that has promised.
    pub(crate) fn reads(&self, tid: Tid) -> Option<Arc<ReadSet>> {
        self.held().iter().find(|held| held.tid == tid).map(|held| held.reads.clone())
    }

    fn held(&self) -> impl DerefMut<Target = Vec<Promise>> + '_ {
        self.held.lock().expect("no code panics while it looks at promises")
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
        let (promises, reads) = (Promises::new(), Arc::new(reads));
        let (first, second) = (Tid(1), Tid(2));
        assert!(!promises.any());
        promises.enter(first, reads.clone(), [two].into());
        promises.enter(second, Arc::default(), [].into());
        assert_eq!(promises.holder(one, b"k", Some(second)), Some(first));
        assert_eq!(promises.holder(one, b"k", Some(first)), None);
        assert!(
            promises.is_written(two, second) && !promises.is_written(two, first) && !promises.is_written(one, second)
        );
        promises.leave(first);
        assert!(promises.any() && promises.has(second) && promises.holder(one, b"k", None).is_none());
        promises.leave(first);
        promises.leave(second);
        assert!(!promises.any());
    }
}
