//! The index: a concurrent map from key bytes to [`RowId`], whose leaves have versions.
//!
//! A table chooses its kind ([`IndexKind`]); the rest of the engine sees [`Index`], which hands every call to the one it has.
//! What all kinds share lies beside this file: the version words and stamps that keep phantoms out (`version.rs`), the check
//! at commit (`validate.rs`), keys outside of nodes (`key.rs`), what scans hand out (`batch.rs`). A *leaf* is, in each kind,
//! the place where keys that are not there would enter: a leaf of the B+-tree. An index knows keys, rows and stamps, and
//! nothing of transactions, schemes or tables.
//!
//! Invariants of every kind (those of the parts are with the parts):
//! 1. Every key is in at most one live leaf, the one that a descent for it ends at.
//! 2. A key that is in the index throughout a scan of its range is handed out once, in order.
//! 3. Between an observation ([`LeafSeen`]) of a leaf and its successful validation no key has entered the range that the
//!    leaf had when it was observed, and every insert that comes later sees the validator's stamp.
//! 4. Removing a key, and what follows for the structure, voids no observation.
//! 5. Whoever hands in a [`LeafPtr`] has been in the same epoch, in one guard, since it was handed out.

pub(crate) mod art;
mod batch;
mod btree;
mod footprint;
#[cfg(not(loom))]
mod hash;
mod key;
#[cfg(not(loom))]
mod kinds;
#[cfg(not(loom))]
mod validate;
mod version;

#[cfg(all(test, not(loom)))]
mod model_test;
#[cfg(all(test, not(loom)))]
mod stress_test;

#[cfg(not(loom))]
pub(crate) use self::kinds::{Approach, Index, Walk};
pub(crate) use self::{batch::Batch, footprint::Footprint, key::KEY_LENGTH_MAX, version::LeafVersion};

use self::version::{Coverage, Locked};
use crate::ids::{RowId, Stamp};
use std::ptr::NonNull;

/// A leaf that was observed, by its coverage. Good only under the guard it was observed in (invariant 5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct LeafPtr(NonNull<Coverage>);

// SAFETY: only a name; those who follow it keep to invariant 5, on whatever thread.
unsafe impl Send for LeafPtr {}
// SAFETY: as above.
unsafe impl Sync for LeafPtr {}

/// A consistent observation of a leaf: what was read with it was all there at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LeafSeen {
    pub(crate) leaf: LeafPtr,
    pub(crate) version: LeafVersion,
    /// The highest stamp of a key that was taken out of the leaf's range.
    pub(crate) removed: Stamp,
}

/// What a lookup found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lookup {
    pub(crate) row: Option<RowId>,
    pub(crate) seen: LeafSeen,
}

/// Which way a cursor goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

impl Inserted {
    /// What every insert does first under the lock.
    fn begin(coverage: &Coverage, lock: &mut Locked<'_>) -> Self {
        let (gap, removed) = coverage.stamps(lock);
        lock.bump_phantom();
        let (before, after) = lock.phantoms();
        let has_absorbed = coverage.has_absorbed(lock);
        Self { leaf: LeafPtr::of(coverage), before, after, gap: gap.max(removed), has_absorbed, split: None }
    }
}

impl LeafPtr {
    fn of(coverage: &Coverage) -> Self {
        Self(coverage.into())
    }
}

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
    /// Whether the leaf has the range of others that died: who recorded one of them may have to do with this insert
    /// ([`LeafPtr::heir`]).
    pub(crate) has_absorbed: bool,
    /// The other half, if the insert split or replaced the leaf: together they have the range that the leaf had.
    pub(crate) split: Option<(LeafPtr, LeafVersion)>,
}

/// How the keys of a table, or the entries of a secondary index, are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IndexKind {
    /// A B+-tree with wide leaves: good at everything, and best at scans.
    #[default]
    BTree,
    /// An adaptive radix tree: point lookups touch few cache lines, scans are slower than the B+-tree's.
    Art,
    /// A hash index: keys are found and not ordered, so the table has no scans.
    Hash,
}

impl IndexKind {
    /// Whether there are scans.
    pub(crate) fn is_ordered(self) -> bool {
        self != Self::Hash
    }
}
