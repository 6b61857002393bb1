//! Removing empty leaves from the tree (free at empty).
//!
//! The empty leaf's range goes to the neighbour that descents find once the leaf's parent has lost it: the leaf to the
//! left, unless the leaf is the first child of the lowest ancestor that has others. Ancestors that have no other child
//! are removed with it. The neighbour takes the stamps; the dead leaf names the neighbour, so that observations of the
//! leaf can be validated there.

use super::{
    At, BTree, Step,
    key::LongKey,
    node::{Inner, Leaf, Target},
    version::{Locked, Torn},
};
use crate::{
    epoch::Guard,
    sync::{Ordering, Spin},
};
use smallvec::SmallVec;
use std::ptr;

/// More levels than any tree has that fits into memory.
const LEVELS: usize = 12;

impl BTree {
    /// Unlinks the leaf responsible for `key` if it is empty and not the only one.
    pub(super) fn unlink_if_empty(&self, guard: &Guard<'_>, key: &[u8]) {
        let mut spin = Spin::default();
        while self.try_unlink(guard, key).is_err() {
            spin.wait();
        }
    }

    /// Takes the locks, from the top down and then sideways, none of them by waiting: a thread that waited could
    /// deadlock.
    fn try_unlink(&self, guard: &Guard<'_>, key: &[u8]) -> Result<(), Torn> {
        let mut path = SmallVec::<[Step<'_>; LEVELS]>::new();
        let At { leaf: empty, seen } = self.try_descend(guard, Target::At(key), |step| {
            path.push(step);
            Ok(())
        })?;
        let count = empty.keys.count();
        if !empty.version().is_still(seen) {
            return Err(Torn);
        }
        let holder = path.iter().rposition(|step| step.inner.separators.count() > 0);
        let (0, Some(holder)) = (count, holder) else { return Ok(()) };
        path.drain(..holder);
        let mut path_locks = SmallVec::<[Locked<'_>; LEVELS]>::new();
        for step in &path {
            path_locks.push(step.inner.version.lock(step.seen).ok_or(Torn)?);
        }
        let mut empty_lock = empty.version().lock(seen).ok_or(Torn)?;

        // SAFETY: the previous leaf is retired only after this one's `prev` was changed, so the guard keeps it.
        let prev = unsafe { empty.prev.load(Ordering::Acquire).as_ref() };
        let prev_lock = match prev {
            Some(prev) => Some(prev.version().try_lock().ok_or(Torn)?),
            None => None,
        };
        if prev.is_some_and(|prev| !ptr::eq(prev.next.load(Ordering::Relaxed), empty)) {
            return Err(Torn);
        }
        let step = path[0];
        if step.index > 0 {
            let (Some(prev), Some(lock)) = (prev, &prev_lock) else { unreachable!("there is a child to the left") };
            empty.coverage.hand_over(&empty_lock, &prev.coverage, lock.phantoms().0);
            prev.upper.discard(&mut |long| {
                // SAFETY: removed from the leaf, under its lock.
                unsafe { LongKey::retire(long, guard) }
            });
            prev.upper.take(&empty.upper);
        } else {
            // SAFETY: the next leaf cannot leave the chain while we hold the lock of the one before it.
            let next = unsafe { &*empty.next.load(Ordering::Relaxed) };
            let lock = next.version().try_lock().ok_or(Torn)?;
            empty.coverage.hand_over(&empty_lock, &next.coverage, lock.phantoms().0);
        }
        unlink(prev, empty);
        self.detach(guard, &path, &mut path_locks);
        empty_lock.mark_dead();
        let mut retire = |long: *mut LongKey| {
            // SAFETY: removed from the leaf, under its lock.
            unsafe { LongKey::retire(long, guard) }
        };
        empty.keys.discard_prefix(&mut retire);
        empty.upper.discard(&mut retire);
        // SAFETY: dead when the lock is released, and nothing leads to it.
        unsafe { empty.retire(guard) };
        let is_alone = path[0].inner.separators.count() == 0;
        drop((prev_lock, empty_lock, path_locks));
        if is_alone {
            self.lower_root(guard);
        }
        Ok(())
    }

    /// Removes the child on the path from the path's first node, and marks the nodes below it dead, all of them locked.
    fn detach(&self, guard: &Guard<'_>, path: &[Step<'_>], locks: &mut [Locked<'_>]) {
        path[0].inner.remove_child(path[0].index, guard);
        for (step, lock) in path.iter().zip(&mut *locks).skip(1) {
            lock.mark_dead();
            // SAFETY: dead when the lock is released, and nothing leads to it.
            unsafe { step.inner.retire(guard) };
        }
    }

    /// Replaces a root with a single child by that child, and repeats this if that child has a single child, too: it
    /// may have lost the others before. For callers without a lock: it waits for the lock of the root.
    ///
    /// Consider a thread that makes a node the root and one that removes the second last child from it. One of the two
    /// sees the other: the first checks the children under the node's lock afterwards, the second releases that lock
    /// before it checks for the root.
    fn lower_root(&self, guard: &Guard<'_>) {
        let mut spin = Spin::default();
        loop {
            let (root, level) = super::untag(self.root.load(Ordering::Acquire));
            if level == 0 {
                return;
            }
            // SAFETY: a node of an inner level that was the root a moment ago; the guard keeps it if it has been
            // retired since.
            let inner = unsafe { &*root.cast_const().cast::<Inner>() };
            let Some(mut lock) = inner.version.try_lock() else {
                spin.wait();
                continue;
            };
            // The root is replaced under its lock alone.
            let is_root = ptr::eq(super::untag(self.root.load(Ordering::Relaxed)).0, root);
            if !is_root {
                lock.release_unchanged();
                continue;
            }
            if inner.separators.count() > 0 {
                return lock.release_unchanged();
            }
            self.set_root(inner.child(0), level - 1);
            lock.mark_dead();
            // SAFETY: dead when the lock is released, and nothing leads to it.
            unsafe { inner.retire(guard) };
        }
    }
}

/// Unlinks `empty` from the chain. It and `prev` are locked.
fn unlink(prev: Option<&Leaf>, empty: &Leaf) {
    let next = empty.next.load(Ordering::Relaxed);
    if let Some(prev) = prev {
        prev.next.store(next, Ordering::Release);
    }
    // SAFETY: the next leaf cannot leave the chain while we hold the lock of the one before it.
    if let Some(next) = unsafe { next.as_ref() } {
        next.prev.store(prev.map_or(ptr::null_mut(), |prev| ptr::from_ref(prev).cast_mut()), Ordering::Release);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::BTree;
    use crate::{
        epoch::EpochManager,
        ids::{RowId, Stamp},
        index::Insert,
    };

    /// The last key is left alone in its part of the tree before the rest of the tree is removed.
    #[test]
    fn a_tree_of_one_leaf_has_no_level_above_it() {
        let count = if cfg!(miri) { 3000 } else { 300_000_u64 };
        let epochs = EpochManager::new("test");
        let worker = epochs.join();
        let tree = BTree::new();
        for key in 0..count {
            let inserted = tree.insert_if_absent(&worker.enter(), &key.to_be_bytes(), RowId(key));
            assert!(matches!(inserted, Insert::Done(_)));
        }
        assert!(tree.footprint(&worker.enter()).inner_nodes > 2);
        for key in (0..count - 1).rev() {
            let zero = Stamp::ZERO;
            assert!(tree.remove_if(&worker.enter(), &key.to_be_bytes(), RowId(key), zero, zero, || true));
        }
        let footprint = tree.footprint(&worker.enter());
        assert_eq!((footprint.entries, footprint.leaves, footprint.inner_nodes), (1, 1, 0), "{footprint:?}");
    }
}
