//! Insertion of a key that is not there yet.

use super::{
    At, Index, LeafPtr, LeafVersion,
    key::{KEY_LENGTH_MAX, LongKey, assert_row_fits},
    keys::{Place, Torn},
    node::{Leaf, Target},
    version::Locked,
};
use crate::{
    epoch::Guard,
    ids::{RowId, Stamp},
};
use std::ptr;

/// What became of an insert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Insert {
    /// The key is there already. The stamp: the highest of those who have looked at the leaf's range, for those who are in
    /// it anew by this key; nobody that this misses and that did not see the key can succeed.
    Exists(RowId, Stamp),
    Done(Inserted),
}

/// What an insert did to the leaf set: who recorded `leaf` at `before` records it at `after` now, and `split` too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Inserted {
    pub(crate) leaf: LeafPtr,
    pub(crate) before: LeafVersion,
    pub(crate) after: LeafVersion,
    /// The highest stamp of a scan, a miss or a removed key in the leaf's range, read when no validator that this
    /// insert has not seen could still succeed.
    pub(crate) gap: Stamp,
    /// The new right half, if the insert split the leaf: together they have the range that the leaf had.
    pub(crate) split: Option<(LeafPtr, LeafVersion)>,
}

impl Index {
    /// Inserts `key` unless it is there.
    pub(crate) fn insert_if_absent(&self, guard: &Guard<'_>, key: &[u8], row: RowId) -> Insert {
        assert!(key.len() <= KEY_LENGTH_MAX, "a key of {} bytes is too long for the index", key.len());
        assert_row_fits(row);
        loop {
            if let Ok(outcome) = self.try_insert(guard, key, row) {
                return outcome;
            }
        }
    }

    fn try_insert(&self, guard: &Guard<'_>, key: &[u8], row: RowId) -> Result<Insert, Torn> {
        let mut parent = None;
        let at = self.try_descend(guard, Target::At(key), |step| {
            // Full nodes are split on the way down, so that a node that is split finds room in its parent.
            if step.inner.separators.is_full() {
                self.split_inner(guard, parent, step)?;
                return Err(Torn);
            }
            parent = Some(step);
            Ok(())
        })?;
        let place = at.leaf.keys.find(key, &at.still())?;
        if place.exact {
            let existing = at.leaf.keys.row(place.index, &at.still())?;
            // Those who looked before the key came in raised the stamp before its insert locked the leaf, or fail.
            let looked = at.leaf.coverage.last_looked();
            at.believed()?;
            return Ok(Insert::Exists(existing, looked));
        }
        if at.leaf.keys.is_full() {
            return Ok(Insert::Done(self.split_leaf(guard, parent, at, place, key, row)?));
        }
        let At { leaf, seen } = at;
        let mut lock = leaf.version().lock(seen).ok_or(Torn)?;
        let inserted = begin_insert(leaf, &mut lock);
        if place.fits && leaf.keys.count() > 0 {
            leaf.keys.insert(place, key, row);
        } else {
            refill_with(leaf, place, key, row, guard);
        }
        Ok(Insert::Done(inserted))
    }
}

/// What every insert does first under the lock.
pub(super) fn begin_insert(leaf: &Leaf, lock: &mut Locked<'_>) -> Inserted {
    let (gap, removed) = leaf.coverage.stamps(lock);
    lock.bump_phantom();
    let (before, after) = lock.phantoms();
    Inserted { leaf: LeafPtr(leaf.into()), before, after, gap: gap.max(removed), split: None }
}

/// Inserts a key that does not begin with the leaf's prefix, or is the first: chooses the prefix anew.
fn refill_with(leaf: &Leaf, place: Place, key: &[u8], row: RowId, guard: &Guard<'_>) {
    let mut entries = leaf.keys.gather();
    entries.insert(place.index, key, row, ptr::null_mut());
    leaf.keys.fill(&entries, 0..entries.len(), |long| {
        // SAFETY: `fill` takes it out of the leaf, under the lock.
        unsafe { LongKey::retire(long, guard) }
    });
}
