//! The leaf set of a transaction: the leaves that its scans and misses have read, and its own inserts into leaves.
//!
//! An insert of the transaction changes the version of a leaf, and perhaps splits or replaces the leaf; it must not void
//! the transaction's own reads (Silo's fix-up of the node set, section 4.6). The reads stay as they are. The insert is
//! kept as a step from one version of a leaf to the next one, and to the other half of a split; validation follows the
//! steps. So an insert costs the same whatever has been read, and validation takes n log n time in reads and inserts.
//!
//! Invariant: a read stands if all versions of leaves that its steps end at are current. A step is needed only if an
//! earlier read can lead to it: a later read sees the version that the insert left, and a read leads to leaves of its own
//! index only.

use std::ops::Bound;

use smallvec::SmallVec;

use crate::{
    access::Direction,
    epoch::Guard,
    ids::{IndexOrdinal, Stamp, TableId},
    index::{Inserted, LeafChange, LeafPtr, LeafSeen, LeafVersion},
    scheme::ConflictSite,
};

/// A leaf that a scan or a miss has read.
pub(crate) struct LeafRead {
    pub(crate) index: IndexOrdinal,
    seen: (LeafPtr, LeafVersion),
    /// The table, and the key at which the leaf was first found.
    pub(crate) site: ConflictSite,
    /// The keys that were looked for in the leaf; `None`: there was no room to note them.
    pub(crate) scanned: Option<ScannedRange>,
}

/// A range of keys that a transaction has examined.
#[derive(Clone, Copy)]
pub(crate) struct ScannedRange {
    pub(crate) lower: ConflictSite,
    pub(crate) upper: Bound<ConflictSite>,
}

impl ScannedRange {
    /// Returns the range of a single key.
    pub(crate) fn at(key: ConflictSite) -> Self {
        Self { lower: key, upper: Bound::Included(key) }
    }

    /// Cuts off the part of the range that a scan in this direction meets after `key`.
    pub(crate) fn end_at(&mut self, direction: Direction, key: ConflictSite) {
        match direction {
            Direction::Forward => self.upper = Bound::Included(key),
            Direction::Backward => self.lower = key,
        }
    }

    /// Cuts off the part of the range that a scan in this direction meets before `key`.
    pub(crate) fn begin_at(&mut self, direction: Direction, key: ConflictSite) {
        match direction {
            Direction::Forward => self.lower = key,
            Direction::Backward => self.upper = Bound::Included(key),
        }
    }
}

/// The leaf set. The vectors keep their memory for the worker's next transaction.
#[derive(Default)]
pub(crate) struct LeafSet {
    reads: Vec<LeafRead>,
    /// The indexes that the reads are of.
    indexes: Vec<(TableId, IndexOrdinal)>,
    own_changes: Vec<LeafChange>,
    /// Number of reads at the last of these changes.
    reads_at_change: usize,
}

impl LeafSet {
    /// Returns the bytes that the set takes.
    pub(crate) fn bytes(&self) -> usize {
        self.reads.capacity() * size_of::<LeafRead>() + self.own_changes.capacity() * size_of::<LeafChange>()
    }

    pub(crate) fn clear(&mut self) {
        self.reads.clear();
        self.indexes.clear();
        self.own_changes.clear();
    }

    pub(crate) fn reads(&self) -> &[LeafRead] {
        &self.reads
    }

    /// Adds a leaf that was read for the keys in `scanned`; returns the position of the read.
    pub(crate) fn read(
        &mut self,
        index: IndexOrdinal,
        seen: &LeafSeen,
        site: ConflictSite,
        scanned: Option<ScannedRange>,
    ) -> usize {
        if !self.indexes.contains(&(site.table, index)) {
            self.indexes.push((site.table, index));
        }
        self.reads.push(LeafRead { index, seen: (seen.leaf, seen.version), site, scanned });
        self.reads.len() - 1
    }

    /// Returns the range that the read at this position has examined.
    pub(crate) fn scanned_mut(&mut self, at: usize) -> Option<&mut ScannedRange> {
        self.reads[at].scanned.as_mut()
    }

    /// Notes an insert of the transaction's own into an index: the reads of the leaf stay valid.
    pub(crate) fn inserted(&mut self, index: (TableId, IndexOrdinal), inserted: &Inserted) {
        if !self.indexes.contains(&index) {
            return;
        }
        let Inserted { change, growth, .. } = *inserted;
        // Ascending keys enter one leaf: if nothing leads to the version in between, no read since and no leaf that has
        // died in between, one step leads past it.
        let is_passed = self.reads_at_change == self.reads.len() && !change.is_heir;
        match self.own_changes.last_mut() {
            Some(last) if is_passed && last.split.is_none() && (last.leaf, last.after) == before(&change) => {
                last.after = change.after;
                last.split = change.split;
            }
            _ => self.own_changes.push(change),
        }
        self.own_changes.extend(growth);
        self.reads_at_change = self.reads.len();
    }

    /// Raises the gap stamps of all leaves to at least `stamp`; then returns the reads of leaves that other
    /// transactions have inserted into, or are about to.
    ///
    /// The guard in which the leaves were read must still be held (invariant 5 of the index).
    pub(crate) fn changed(&self, nodes: &Guard<'_>, stamp: Stamp) -> impl Iterator<Item = &LeafRead> {
        let mut followed = Followed { set: self, order: SmallVec::new(), stands: SmallVec::new() };
        followed.follow(nodes, stamp);
        self.reads.iter().filter(move |read| !followed.stands(nodes, read.seen, stamp))
    }
}

/// A leaf set in which it is known what stands after each of the transaction's own changes.
struct Followed<'s> {
    set: &'s LeafSet,
    /// The positions of the changes, in the order of the leaves and their versions.
    order: SmallVec<[u32; 16]>,
    /// Of each change: whether only the transaction itself has inserted into the leaf's range since `before`.
    stands: SmallVec<[bool; 16]>,
}

impl Followed<'_> {
    /// Follows the changes, the last one first: each leads to later ones only.
    fn follow(&mut self, nodes: &Guard<'_>, stamp: Stamp) {
        let changes = &self.set.own_changes;
        self.order.extend(0..u32::try_from(changes.len()).expect("a transaction changes fewer than 2^32 leaves"));
        self.order.sort_unstable_by_key(|&at| before(&changes[at as usize]));
        self.stands.resize(changes.len(), false);
        for (at, change) in changes.iter().enumerate().rev() {
            let rest = self.stands(nodes, (change.leaf, change.after), stamp);
            // Not by `&&`: the stamps of both halves have to be raised.
            let split = change.split.is_none_or(|split| self.stands(nodes, split, stamp));
            self.stands[at] = rest && split;
        }
    }

    /// Whether only the transaction itself has inserted into the range of a leaf since it was `seen`.
    fn stands(&self, nodes: &Guard<'_>, mut seen: (LeafPtr, LeafVersion), stamp: Stamp) -> bool {
        let changes = &self.set.own_changes;
        if !changes.is_empty() {
            loop {
                if let Ok(at) = self.order.binary_search_by_key(&seen, |&at| before(&changes[at as usize])) {
                    return self.stands[self.order[at] as usize];
                }
                match seen.0.heir(nodes, seen.1) {
                    Some(heir) => seen = heir,
                    None => break,
                }
            }
        }
        seen.0.validate(nodes, seen.1, stamp)
    }
}

/// The leaf before a change.
fn before(change: &LeafChange) -> (LeafPtr, LeafVersion) {
    (change.leaf, change.before)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::{
        epoch::EpochManager,
        ids::RowId,
        index::{Index, IndexKind, Insert},
    };

    const INDEX: (TableId, IndexOrdinal) = (TableId(0), IndexOrdinal::PRIMARY);
    const KEYS: u64 = if cfg!(miri) { 100 } else { 3000 };

    /// A transaction that misses keys, inserts some of them, and has read each as often as it has looked for it.
    struct Looking<'g> {
        index: Index,
        nodes: &'g Guard<'g>,
        set: LeafSet,
    }

    impl Looking<'_> {
        fn miss(&mut self, n: u64) {
            let lookup = self.index.get(self.nodes, &n.to_be_bytes());
            assert_eq!(lookup.row, None);
            let (table, index) = INDEX;
            let site = ConflictSite { table, at: n as u32, length: 8 };
            self.set.read(index, &lookup.seen, site, None);
        }

        fn insert(&self, n: u64) -> Inserted {
            match self.index.insert_if_absent(self.nodes, &n.to_be_bytes(), RowId(n)) {
                Insert::Done(inserted) => inserted,
                Insert::Exists(..) => panic!("{n} was there"),
            }
        }

        /// Returns the missed keys whose leaves others have changed.
        fn changed(&self) -> Vec<u64> {
            self.set.changed(self.nodes, Stamp(1)).map(|read| read.site.at.into()).collect()
        }
    }

    /// Calls `check` for a transaction that looked for each key before it inserted two of three, while all the keys
    /// that were there first were removed; with every kind of index and several orders of keys.
    fn after_a_load(check: impl Fn(&mut Looking<'_>)) {
        for kind in [IndexKind::BTree, IndexKind::Art, IndexKind::Hash] {
            for stride in [1, KEYS - 1, 7919] {
                let epochs = EpochManager::new("test");
                let worker = epochs.join();
                let guard = worker.enter();
                let mut looking = Looking { index: Index::new(kind), nodes: &guard, set: LeafSet::default() };
                for n in 0..KEYS {
                    looking.insert(2 * n);
                }
                for n in 0..KEYS {
                    let removed = RowId(2 * n);
                    assert!(looking.index.remove_if(
                        &guard,
                        &(2 * n).to_be_bytes(),
                        removed,
                        Stamp(1),
                        Stamp(1),
                        || true
                    ));
                    let n = n * stride % KEYS;
                    looking.miss(2 * n + 1);
                    if !n.is_multiple_of(3) {
                        let inserted = looking.insert(2 * n + 1);
                        looking.set.inserted(INDEX, &inserted);
                    }
                }
                println!("{kind:?}, {stride}");
                check(&mut looking);
            }
        }
    }

    #[test]
    fn own_inserts_void_nothing_and_cost_no_more_later_than_at_first() {
        after_a_load(|looking| {
            assert_eq!(looking.changed(), []);
            assert_eq!(looking.set.reads().len() as u64, KEYS);
            // A hash index grows by less than a bucket an insert.
            assert!(looking.set.own_changes.len() as u64 <= 2 * KEYS);
        });
    }

    /// All reads come first, so that inserts into one leaf are one step; garbage collection, or a rollback to a
    /// savepoint, removes other keys meanwhile, so that leaves die and name versions in the midst of a step.
    #[test]
    fn leaves_that_die_between_own_inserts_void_nothing() {
        for kind in [IndexKind::BTree, IndexKind::Art, IndexKind::Hash] {
            for seed in 0..if cfg!(miri) { 2 } else { 200 } {
                let mut rng = fastrand::Rng::with_seed(seed);
                let epochs = EpochManager::new("test");
                let worker = epochs.join();
                let guard = worker.enter();
                let mut looking = Looking { index: Index::new(kind), nodes: &guard, set: LeafSet::default() };
                let mut keys: Vec<u64> = (0..rng.u64(10..600)).map(|n| n * rng.u64(1..=3)).collect();
                keys.sort_unstable();
                keys.dedup();
                rng.shuffle(&mut keys);
                let (there, missing) = keys.split_at(keys.len() / 2);
                there.iter().for_each(|n| _ = looking.insert(*n));
                missing.iter().for_each(|n| looking.miss(*n));
                let mut steps: Vec<_> = there.iter().map(|n| (*n, false)).collect();
                steps.extend(missing.iter().take(rng.usize(1..20)).map(|n| (*n, true)));
                rng.shuffle(&mut steps);
                for (n, inserts) in steps {
                    if inserts {
                        let inserted = looking.insert(n);
                        looking.set.inserted(INDEX, &inserted);
                    } else {
                        let key = n.to_be_bytes();
                        assert!(looking.index.remove_if(&guard, &key, RowId(n), Stamp(1), Stamp(1), || true));
                    }
                }
                assert_eq!(looking.changed(), [], "{kind:?}, seed {seed}");
            }
        }
    }

    #[test]
    fn an_insert_of_another_transaction_is_found_behind_own_ones() {
        after_a_load(|looking| {
            for n in [0, KEYS / 3 / 2 * 3, (KEYS - 1) / 3 * 3] {
                looking.insert(2 * n + 1);
                assert!(looking.changed().contains(&(2 * n + 1)));
            }
        });
    }

    #[test]
    fn own_inserts_one_after_the_other_are_one_step_unless_a_read_comes_between() {
        let epochs = EpochManager::new("test");
        let worker = epochs.join();
        let guard = worker.enter();
        let mut looking = Looking { index: Index::new(IndexKind::BTree), nodes: &guard, set: LeafSet::default() };
        let own = |looking: &mut Looking<'_>, n| {
            let inserted = looking.insert(n);
            looking.set.inserted(INDEX, &inserted);
        };
        looking.miss(1);
        (10..15).for_each(|n| own(&mut looking, n));
        assert_eq!(looking.set.own_changes.len(), 1);
        looking.miss(2);
        (15..20).for_each(|n| own(&mut looking, n));
        assert_eq!(looking.set.own_changes.len(), 2);
        assert_eq!(looking.changed(), []);
        looking.insert(3);
        assert_eq!(looking.changed(), [1, 2]);
        // Another transaction's insert is between two own ones.
        own(&mut looking, 4);
        assert_eq!(looking.set.own_changes.len(), 3);
        assert_eq!(looking.changed(), [1, 2]);
    }

    #[test]
    fn inserts_into_indexes_that_were_not_read_are_no_steps() {
        let epochs = EpochManager::new("test");
        let worker = epochs.join();
        let guard = worker.enter();
        let mut looking = Looking { index: Index::new(IndexKind::BTree), nodes: &guard, set: LeafSet::default() };
        let inserted = looking.insert(1);
        looking.set.inserted(INDEX, &inserted);
        looking.miss(2);
        for other in [(TableId(1), IndexOrdinal::PRIMARY), (TableId(0), IndexOrdinal(1))] {
            looking.set.inserted(other, &inserted);
        }
        assert!(looking.set.own_changes.is_empty());
    }

    #[test]
    fn an_own_insert_after_another_transactions_hides_nothing() {
        let epochs = EpochManager::new("test");
        let worker = epochs.join();
        let guard = worker.enter();
        let mut looking = Looking { index: Index::new(IndexKind::BTree), nodes: &guard, set: LeafSet::default() };
        looking.miss(5);
        looking.insert(5);
        let inserted = looking.insert(6);
        looking.set.inserted(INDEX, &inserted);
        assert_eq!(looking.changed(), [5]);
    }
}
