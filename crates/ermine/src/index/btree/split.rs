//! Splitting of full nodes.
//!
//! The left half stays where it was; the right half is new, and reachable only once the parent names it.
//!
//! Ascending keys leave full leaves behind: a leaf to which keys were appended for a while is split at its end. Often
//! there are several such sequences in one index, as the orders of each district; they end where the keys of the next
//! one begin, in the same leaf. Then that leaf is split between the two, and the sequence goes on at the end of its
//! own.

use super::{
    At, BTree, Inserted, Step,
    key::{LongKey, common_prefix},
    keys::Place,
    node::{INNER_KEYS, Inner, Leaf, NodePtr},
    version::{Locked, Torn},
};
use crate::{epoch::Guard, ids::RowId, sync::Ordering};
use std::ptr;

impl BTree {
    /// Splits a full leaf and inserts the key into the half where it belongs.
    pub(super) fn split_leaf(
        &self,
        guard: &Guard<'_>,
        parent: Option<Step<'_>>,
        at: At<'_>,
        place: Place,
        key: &[u8],
        row: RowId,
    ) -> Result<Inserted, Torn> {
        let _parent_lock = lock_parent(parent)?;
        let left = at.leaf;
        let mut lock = left.version().lock(at.seen).ok_or(Torn)?;
        let mut inserted = Inserted::begin(&left.coverage, &mut lock);
        inserted.change.leaf = left.name();
        let (gap, removed) = left.coverage.stamps(&lock);

        let mut entries = left.keys.gather();
        entries.insert(place.index, key, row, ptr::null_mut());
        let end = left.keys.end_of_appends(place.index);
        let cut = match end {
            None => entries.len() / 2,
            Some(end) if end < entries.len() => end,
            Some(_) => place.index,
        };
        // In the tree (or leaked by a panic) from here on.
        let right = Leaf::create(inserted.change.after, gap, removed);
        guard.allocated(Leaf::BYTES);
        right.keys.fill(&entries, cut..entries.len(), guard);
        left.keys.fill(&entries, 0..cut, guard);
        if let Some(end) = end {
            let leaf = if cut == end { left } else { right };
            leaf.keys.expect_appends();
        }
        let separator = separator(entries.key(cut - 1), entries.key(cut));
        right.upper.take(&left.upper);
        left.upper.set(separator, guard);
        link_right(left, right);
        self.add_child(guard, parent, 0, left.as_node(), separator, right.as_node());
        inserted.change.split = Some((right.name(), inserted.change.after));
        Ok(inserted)
    }

    /// Splits a full inner node. The descent starts again afterwards.
    pub(super) fn split_inner(&self, guard: &Guard<'_>, parent: Option<Step<'_>>, step: Step<'_>) -> Result<(), Torn> {
        let _parent_lock = lock_parent(parent)?;
        let left = step.inner;
        let _lock = left.version.lock(step.seen).ok_or(Torn)?;
        let entries = left.separators.gather();
        let children = left.children();
        // The separator in the middle moves up. At the right end few entries move: ascending keys are inserted there.
        let middle = if step.index == entries.len() { INNER_KEYS - INNER_KEYS / 8 } else { INNER_KEYS / 2 };
        let (separator, _, long) = entries.get(middle);
        if !long.is_null() {
            // SAFETY: the node is refilled without it below, under the lock.
            unsafe { LongKey::retire(long, guard) };
        }
        let right = Inner::create();
        guard.allocated(Inner::BYTES);
        right.fill_separators(&entries, middle + 1..entries.len(), guard);
        right.set_children(&children[middle + 1..]);
        left.fill_separators(&entries, 0..middle, guard);
        self.add_child(guard, parent, step.level, left.as_node(), separator, right.as_node());
        Ok(())
    }

    /// Adds `right` beside `left` on the level above: in the parent, which the caller has locked, or in a new root.
    fn add_child(
        &self,
        guard: &Guard<'_>,
        parent: Option<Step<'_>>,
        level: usize,
        left: NodePtr,
        separator: &[u8],
        right: NodePtr,
    ) {
        if let Some(parent) = parent {
            return parent.inner.insert_child(separator, right, guard);
        }
        let root = Inner::create();
        guard.allocated(Inner::BYTES);
        root.set_children(&[left]);
        root.insert_child(separator, right, guard);
        self.set_root(root.as_node(), level + 1);
    }
}

fn lock_parent<'g>(parent: Option<Step<'g>>) -> Result<Option<Locked<'g>>, Torn> {
    match parent {
        Some(step) => Ok(Some(step.inner.version.lock(step.seen).ok_or(Torn)?)),
        // The node is the root, and remains the root as long as its version is unchanged: the root is replaced under
        // its lock.
        None => Ok(None),
    }
}

/// Links `right` between `left`, which the caller has locked, and the next leaf.
pub(super) fn link_right(left: &Leaf, right: &Leaf) {
    let next = left.next.load(Ordering::Relaxed);
    right.next.store(next, Ordering::Relaxed);
    right.prev.store(ptr::from_ref(left).cast_mut(), Ordering::Relaxed);
    let right = ptr::from_ref(right).cast_mut();
    // Release pairs with the Acquire loads of scans: they find a finished leaf.
    left.next.store(right, Ordering::Release);
    // SAFETY: the next leaf cannot leave the chain while we hold the lock of the one before it.
    if let Some(next) = unsafe { next.as_ref() } {
        next.prev.store(right, Ordering::Release);
    }
}

/// Returns the shortest key above `below` and not above `above`.
pub(super) fn separator<'k>(below: &[u8], above: &'k [u8]) -> &'k [u8] {
    debug_assert!(below < above);
    &above[..=common_prefix(below, above)]
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{
        epoch::EpochManager,
        ids::Stamp,
        index::{Insert, btree::node::LEAF_KEYS},
    };

    /// Returns a key of 58 bytes, of which only the last ones differ.
    fn key(n: u64) -> Vec<u8> {
        let mut key = vec![b'x'; 50];
        key.extend(format!("{n:08}").bytes());
        key
    }

    /// Several ascending sequences in one index, a few keys of one at a time, leave full leaves: also those that end in
    /// front of the keys of another one.
    #[test]
    fn ascending_sequences_side_by_side_fill_leaves() {
        let (sequences, each) = if cfg!(miri) { (2, 80) } else { (20, 10_000) };
        let epochs = EpochManager::new("test");
        let worker = epochs.join();
        let index = BTree::new();
        let mut random = fastrand::Rng::with_seed(1);
        let mut ends = vec![0; sequences];
        let insert = |sequence: usize, number: u32| {
            let key = [&[sequence as u8], &number.to_be_bytes()[..]].concat();
            let row = RowId(u64::from(number) * sequences as u64 + sequence as u64);
            assert!(matches!(index.insert_if_absent(&worker.enter(), &key, row), Insert::Done(_)));
        };
        for _ in 0..sequences * each / 10 {
            let sequence = random.usize(0..sequences);
            for _ in 0..10 {
                insert(sequence, ends[sequence]);
                ends[sequence] += 1;
            }
        }
        let full = index.footprint(&worker.enter());
        assert_eq!(full.entries, sequences * each);
        assert!(full.entries * 10 >= (full.leaves - 2 * sequences) * LEAF_KEYS * 9, "leaves are not full: {full:?}");
    }

    /// Ascending inserts leave full leaves; a queue that is filled on the right and emptied on the left stays small.
    #[test]
    fn ascending_keys_fill_leaves_and_queues_stay_flat() {
        let count = if cfg!(miri) { 150 } else { 200_000 };
        let epochs = EpochManager::new("test");
        let worker = epochs.join();
        let index = BTree::new();
        for n in 0..count {
            index.insert_if_absent(&worker.enter(), &key(n), RowId(n));
        }
        let full = index.footprint(&worker.enter());
        assert!(full.entries * 10 >= (full.leaves - 1) * LEAF_KEYS * 9, "leaves are not full: {full:?}");
        for n in 0..count * 3 {
            let guard = worker.enter();
            assert!(index.remove_if(&guard, &key(n), RowId(n), Stamp(n), Stamp(n), || true));
            let new = n + count;
            assert!(matches!(index.insert_if_absent(&guard, &key(new), RowId(new)), Insert::Done(_)));
            drop(guard);
            worker.reclaim(8);
        }
        let later = index.footprint(&worker.enter());
        assert!(later.leaves <= full.leaves * 11 / 10 + 2, "{full:?} became {later:?}");
        assert!(later.inner_nodes <= full.inner_nodes * 2 + 4, "{full:?} became {later:?}");
    }
}
