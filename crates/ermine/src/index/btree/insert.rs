//! Insertion of a key that is not in the tree yet: from the root, or at the leaf of the insert before.

use super::{
    At, BTree, Insert, Inserted, LeafPtr,
    key::{KEY_LENGTH_MAX, assert_row_fits},
    keys::Place,
    node::{Leaf, Target},
    version::Torn,
};
use crate::{epoch::Guard, ids::RowId};
use std::ptr;

impl BTree {
    /// Inserts `key` unless it exists.
    pub(in crate::index) fn insert_if_absent(&self, guard: &Guard<'_>, key: &[u8], row: RowId) -> Insert {
        assert_fits(key, row);
        loop {
            if let Ok(outcome) = self.try_insert(guard, key, row) {
                return outcome;
            }
        }
    }

    fn try_insert(&self, guard: &Guard<'_>, key: &[u8], row: RowId) -> Result<Insert, Torn> {
        let mut parent = None;
        let at = self.try_descend(guard, Target::At(key), |step| {
            // Full nodes are split during the descent, so that a node that is split finds room in its parent.
            if step.inner.separators.is_full() {
                self.split_inner(guard, parent, step)?;
                return Err(Torn);
            }
            parent = Some(step);
            Ok(())
        })?;
        let place = at.leaf.keys.find(key, &at.still())?;
        if !place.exact && at.leaf.keys.is_full() {
            return Ok(Insert::Done(self.split_leaf(guard, parent, at, place, key, row)?));
        }
        at.insert(guard, place, key, row)
    }

    /// Works as [`BTree::insert_if_absent`] where the leaf `near`, which an insert has named, has the range of the key
    /// and room for it; otherwise `None`, and nothing is changed.
    pub(in crate::index) fn insert_near(
        &self,
        guard: &Guard<'_>,
        near: LeafPtr,
        key: &[u8],
        row: RowId,
    ) -> Option<Insert> {
        assert_fits(key, row);
        // SAFETY: an insert names leaves of its tree, by pointers to the whole of them; they are kept by the guard, which
        // the caller holds since (invariant 5 of the index).
        let leaf: &Leaf = unsafe { near.0.cast().as_ref() };
        let at = At { leaf, seen: leaf.version().observe()? };
        let place = leaf.keys.find(key, &at.still()).ok()?;
        // The range begins at the smallest key in the leaf or below.
        if place.index == 0 || leaf.keys.is_full() || leaf.upper.is_at_or_below(key, &at.still()).ok()? {
            return None;
        }
        at.insert(guard, place, key, row).ok()
    }
}

impl At<'_> {
    /// Inserts `key`, which belongs to the leaf at `place`, unless it exists; the leaf has room for it.
    #[inline]
    fn insert(self, guard: &Guard<'_>, place: Place, key: &[u8], row: RowId) -> Result<Insert, Torn> {
        if place.exact {
            let existing = self.leaf.keys.row(place.index, &self.still())?;
            // Transactions that looked before the key was inserted raised the stamp before the insert locked the leaf,
            // or fail.
            let looked = self.leaf.coverage.last_looked();
            self.believed()?;
            return Ok(Insert::Exists(existing, looked));
        }
        let At { leaf, seen } = self;
        let mut lock = leaf.version().lock(seen).ok_or(Torn)?;
        let mut inserted = Inserted::begin(&leaf.coverage, &mut lock);
        inserted.change.leaf = leaf.name();
        if place.fits && leaf.keys.count() > 0 {
            leaf.keys.insert(place, key, row, guard);
        } else {
            refill_with(leaf, place, key, row, guard);
        }
        Ok(Insert::Done(inserted))
    }
}

fn assert_fits(key: &[u8], row: RowId) {
    assert!(key.len() <= KEY_LENGTH_MAX, "a key of {} bytes is too long for the index", key.len());
    assert_row_fits(row);
}

/// Inserts a key that does not begin with the leaf's prefix, or is the first: chooses the prefix anew.
fn refill_with(leaf: &Leaf, place: Place, key: &[u8], row: RowId, guard: &Guard<'_>) {
    let mut entries = leaf.keys.gather();
    entries.insert(place.index, key, row, ptr::null_mut());
    leaf.keys.fill(&entries, 0..entries.len(), guard);
}
