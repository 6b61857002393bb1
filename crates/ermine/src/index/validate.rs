//! Checking at commit that nothing has entered the leaves that a transaction observed.

use super::{LeafPtr, LeafVersion, version::Verdict};
use crate::{epoch::Guard, ids::Stamp};

impl LeafPtr {
    /// Returns the leaf that has the range now, and since which version, if this leaf has died with no insert since it
    /// was `seen`.
    ///
    /// The guard in which the leaf was observed must still be held (invariant 5 of the index).
    pub(crate) fn heir(self, _guard: &Guard<'_>, seen: LeafVersion) -> Option<(Self, LeafVersion)> {
        // SAFETY: as in `validate`.
        let (heir, version) = unsafe { self.0.as_ref() }.heir(seen)?;
        Some((Self(heir), version))
    }

    /// Raises the leaf's gap stamp to at least `stamp`, then returns true if no key has entered, or is about to enter,
    /// the range that the leaf had when it was `seen`. If the leaf was unlinked since, the node that got its range is
    /// checked.
    ///
    /// The guard in which the leaf was observed must still be held (invariant 5 of the index).
    pub(crate) fn validate(self, _guard: &Guard<'_>, seen: LeafVersion, stamp: Stamp) -> bool {
        let (mut leaf, mut seen) = (self.0, seen);
        loop {
            // SAFETY: a leaf of an index, observed under a guard that is held (invariant 5); an absorber is retired
            // after those it absorbed were, so the same guard keeps it.
            let observed = unsafe { leaf.as_ref() };
            match observed.validate(seen, stamp) {
                Verdict::Unchanged => return true,
                Verdict::Changed => return false,
                Verdict::Absorbed => (leaf, seen) = observed.absorber(),
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{
        epoch::EpochManager,
        ids::RowId,
        index::{Index, IndexKind, Insert, Inserted, LeafSeen},
    };

    fn insert(index: &Index, guard: &Guard<'_>, n: u64) -> Inserted {
        match index.insert_if_absent(guard, &n.to_be_bytes(), RowId(n)) {
            Insert::Done(inserted) => inserted,
            Insert::Exists(..) => panic!("{n} was there"),
        }
    }

    fn remove(index: &Index, guard: &Guard<'_>, n: u64) {
        assert!(index.remove_if(guard, &n.to_be_bytes(), RowId(n), Stamp(n), Stamp(n), || true));
    }

    fn miss(index: &Index, guard: &Guard<'_>, n: u64) -> LeafSeen {
        let lookup = index.get(guard, &n.to_be_bytes());
        assert_eq!(lookup.row, None);
        lookup.seen
    }

    #[test]
    fn an_insert_voids_an_observation_and_a_removal_does_not() {
        [IndexKind::BTree, IndexKind::Art].into_iter().for_each(insert_voids);
    }

    fn insert_voids(kind: IndexKind) {
        let epochs = EpochManager::new("test");
        let worker = epochs.join();
        let guard = worker.enter();
        let index = Index::new(kind);
        insert(&index, &guard, 1);
        let seen = miss(&index, &guard, 2);
        assert!(seen.leaf.validate(&guard, seen.version, Stamp(10)));
        remove(&index, &guard, 1);
        assert!(seen.leaf.validate(&guard, seen.version, Stamp(20)));
        let inserted = insert(&index, &guard, 3);
        assert_eq!((inserted.change.leaf, inserted.change.before, inserted.gap), (seen.leaf, seen.version, Stamp(20)));
        assert!(!seen.leaf.validate(&guard, seen.version, Stamp(30)));
        assert!(seen.leaf.validate(&guard, inserted.change.after, Stamp(30)));
        assert_eq!(miss(&index, &guard, 2).removed, Stamp(1));
    }

    #[test]
    fn a_split_voids_and_hands_the_stamps_to_both_halves() {
        let epochs = EpochManager::new("test");
        let worker = epochs.join();
        let guard = worker.enter();
        let index = Index::new(IndexKind::BTree);
        insert(&index, &guard, 0);
        let seen = miss(&index, &guard, 1);
        assert!(seen.leaf.validate(&guard, seen.version, Stamp(10)));
        let inserted =
            (1..).map(|n| insert(&index, &guard, n * 10)).find(|inserted| inserted.change.split.is_some()).unwrap();
        let (right, version) = inserted.change.split.unwrap();
        assert_eq!(inserted.gap, Stamp(10));
        assert!(!seen.leaf.validate(&guard, seen.version, Stamp(11)));
        assert!(inserted.change.leaf.validate(&guard, inserted.change.after, Stamp(12)));
        assert!(right.validate(&guard, version, Stamp(13)));
        assert_eq!(insert(&index, &guard, 5).gap, Stamp(12));
        assert_eq!(insert(&index, &guard, 1_000_000).gap, Stamp(13));
    }

    /// Every leaf of a tree of three levels is emptied and unlinked; all observations stay valid until something is
    /// inserted into the nodes that got the ranges.
    #[test]
    fn unlinking_voids_nothing() {
        [IndexKind::BTree, IndexKind::Art].into_iter().for_each(unlinking);
    }

    fn unlinking(kind: IndexKind) {
        let epochs = EpochManager::new("test");
        let worker = epochs.join();
        let guard = worker.enter();
        let count = if cfg!(miri) { 150 } else { 20_000 };
        for order in [0, 1, 7919] {
            let index = Index::new(kind);
            for n in 0..count {
                insert(&index, &guard, 2 * n);
            }
            let seen: Vec<_> = (0..count).map(|n| miss(&index, &guard, 2 * n + 1)).collect();
            for n in 0..count {
                let n = match order {
                    0 => n,
                    1 => count - 1 - n,
                    stride => n * stride % count,
                };
                remove(&index, &guard, 2 * n);
            }
            let stamp = Stamp(10 * count);
            let footprint = index.footprint(&guard);
            assert_eq!((footprint.entries, footprint.leaves.max(1)), (0, 1));
            assert!(seen.iter().all(|seen| seen.leaf.validate(&guard, seen.version, stamp)));
            let inserted = insert(&index, &guard, 77);
            assert_eq!(inserted.gap, stamp);
            assert!(seen.iter().all(|seen| !seen.leaf.validate(&guard, seen.version, stamp)));
        }
    }
}
