//! The index: a concurrent map from key bytes to [`RowId`], whose leaves have versions.
//!
//! A table chooses its kind ([`IndexKind`]); the rest of the engine sees [`Index`], which passes every call to the kind
//! it has. The parts that all kinds share are beside this file: the version words and stamps that keep phantoms out
//! (`version.rs`), the check at commit (`validate.rs`), keys outside of nodes (`key.rs`), the entries that scans return
//! (`batch.rs`). A *leaf* is, in each kind, the place where a missing key would be inserted: in the B+-tree, its
//! leaves. An index deals with keys, rows and stamps, and has no notion of transactions, schemes or tables.
//!
//! Invariants of every kind (each part documents its own):
//! 1. Every key is in at most one live leaf, the one that a descent for it ends at.
//! 2. A key that is in the index throughout a scan of its range is returned once, in order.
//! 3. Between an observation ([`LeafSeen`]) of a leaf and its successful validation no key has entered the range that
//!    the leaf had when it was observed, and every later insert sees the validator's stamp.
//! 4. Removing a key, and the structural changes that follow, void no observation.
//! 5. A caller that passes in a [`LeafPtr`] has been in the same epoch, in one guard, since it got that pointer.

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

/// An observed leaf, identified by its coverage. Valid only under the guard it was observed in (invariant 5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct LeafPtr(NonNull<Coverage>);

// SAFETY: only a name; threads that follow it adhere to invariant 5.
unsafe impl Send for LeafPtr {}
// SAFETY: as above.
unsafe impl Sync for LeafPtr {}

/// A consistent observation of a leaf: everything that was read with it existed at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LeafSeen {
    pub(crate) leaf: LeafPtr,
    pub(crate) version: LeafVersion,
    /// The highest stamp of a key that was removed from the leaf's range.
    pub(crate) removed: Stamp,
}

/// The result of a lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lookup {
    pub(crate) row: Option<RowId>,
    pub(crate) seen: LeafSeen,
}

/// The direction of a cursor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

impl Inserted {
    /// Performs the first step of every insert under the lock.
    fn begin(coverage: &Coverage, lock: &mut Locked<'_>) -> Self {
        let (gap, removed) = coverage.stamps(lock);
        lock.bump_phantom();
        Self { change: LeafChange::by(coverage, lock), growth: None, gap: gap.max(removed) }
    }

    /// Returns the leaf that the next key above this one probably belongs to, for [`Index::insert_near`].
    #[inline]
    pub(crate) fn near(&self) -> LeafPtr {
        self.change.split.map_or(self.change.leaf, |(right, _)| right)
    }
}

impl LeafChange {
    /// Returns the change that the holder of the lock has made to the phantom version.
    fn by(coverage: &Coverage, lock: &Locked<'_>) -> Self {
        let (before, after) = lock.phantoms();
        let is_heir = coverage.is_heir_at(before, lock);
        Self { leaf: LeafPtr::of(coverage), before, is_heir, after, split: None }
    }
}

impl LeafPtr {
    fn of(coverage: &Coverage) -> Self {
        Self(coverage.into())
    }
}

/// The result of an insert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Insert {
    /// The key exists already. The stamp: the highest of the transactions that have looked at the leaf's range, for a
    /// transaction that enters the range anew through this key; a transaction that this stamp misses and that did not
    /// see the key cannot succeed.
    Exists(RowId, Stamp),
    Done(Inserted),
}

/// The effect of an insert on the leaves of the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Inserted {
    /// The leaf that the key entered.
    pub(crate) change: LeafChange,
    /// Another leaf that was split because of the insert: the hash index grows so.
    pub(crate) growth: Option<LeafChange>,
    /// The highest stamp of a scan, a miss or a removed key in the leaf's range, read at a time when no validator that
    /// this insert has not seen could still succeed.
    pub(crate) gap: Stamp,
}

/// The effect of an insert on the leaf set: a transaction that recorded `leaf` at `before` now records it at `after`,
/// and `split` too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LeafChange {
    pub(crate) leaf: LeafPtr,
    pub(crate) before: LeafVersion,
    /// Whether leaves that have died name the leaf at `before` as their heir.
    pub(crate) is_heir: bool,
    pub(crate) after: LeafVersion,
    /// The other half, if the leaf was split or replaced: together they have the range that the leaf had.
    pub(crate) split: Option<(LeafPtr, LeafVersion)>,
}

/// The data structure that finds the keys of a table, or the entries of a secondary index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IndexKind {
    /// A B+-tree with wide leaves: good at everything, and best at scans.
    #[default]
    BTree,
    /// An adaptive radix tree: point lookups touch few cache lines, scans are slower than the B+-tree's.
    Art,
    /// A hash index: keys are found but not ordered, so the table has no scans.
    Hash,
}

impl IndexKind {
    /// Whether the kind supports scans.
    pub(crate) fn is_ordered(self) -> bool {
        self != Self::Hash
    }
}
