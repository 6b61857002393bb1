//! The index that the rest of the engine sees: an index of one of the kinds.

use super::{
    Batch, Direction, Footprint, IndexKind, Insert, LeafPtr, LeafSeen, Lookup,
    art::{self, Art, Optimistic},
    btree::{self, BTree},
    hash::Hash,
};
use crate::{
    epoch::{Guard, Participant},
    ids::{RowId, Stamp},
    types::KeyBuffer,
};
use std::ops::Bound;

/// A concurrent map from key bytes to rows.
pub(crate) enum Index {
    BTree(BTree),
    Art(Art),
    Hash(Box<Hash>),
}

/// A lookup in progress.
pub(crate) enum Approach<'g> {
    BTree(btree::Approach<'g>),
    /// The whole lookup is yet to be done.
    Later,
}

/// The place where a walk over all entries continues.
#[derive(Default)]
pub(crate) enum Walk {
    #[default]
    Begin,
    /// Behind this key.
    Behind(Vec<u8>),
    /// At this place of a hash index.
    At(u64),
    End,
}

/// A scan in progress.
pub(crate) enum Cursor<'g> {
    BTree(btree::Cursor<'g>),
    Art(art::Cursor<'g, Optimistic>),
    /// A scan of one key, until it has been returned.
    Hash(&'g Hash, &'g Guard<'g>, Option<KeyBuffer>),
}

impl Index {
    /// Creates an empty index.
    pub(crate) fn new(kind: IndexKind) -> Self {
        match kind {
            IndexKind::BTree => Self::BTree(BTree::new()),
            IndexKind::Art => Self::Art(Art::new()),
            IndexKind::Hash => Self::Hash(Box::new(Hash::new())),
        }
    }

    /// Builds an index from entries in strictly ascending order of their keys, in epochs of the participant.
    ///
    /// # Panics
    /// If the keys are not in strictly ascending order.
    pub(crate) fn bulk_load<K: AsRef<[u8]>>(
        kind: IndexKind,
        participant: &Participant,
        entries: impl IntoIterator<Item = (K, RowId)>,
    ) -> Self {
        if kind == IndexKind::BTree {
            return Self::BTree(BTree::bulk_load(&participant.enter(), entries));
        }
        let index = Self::new(kind);
        let mut last: Option<K> = None;
        for (key, row) in entries {
            let is_above = last.as_ref().is_none_or(|last| last.as_ref() < key.as_ref());
            assert!(is_above, "entries must be in strictly ascending order");
            index.insert_if_absent(&participant.enter(), key.as_ref(), row);
            participant.reclaim(2);
            last = Some(key);
        }
        index
    }

    /// Returns the index's kind.
    pub(crate) fn kind(&self) -> IndexKind {
        match self {
            Self::BTree(_) => IndexKind::BTree,
            Self::Art(_) => IndexKind::Art,
            Self::Hash(_) => IndexKind::Hash,
        }
    }

    /// Returns the row of `key`, and the observation that the key exists or does not. Writes nothing shared, allocates
    /// nothing.
    #[inline]
    pub(crate) fn get(&self, guard: &Guard<'_>, key: &[u8]) -> Lookup {
        match self {
            Self::BTree(tree) => tree.get(guard, key),
            Self::Art(tree) => tree.get(guard, key),
            Self::Hash(hash) => hash.get(guard, key),
        }
    }

    /// Begins a lookup and starts loading the memory that it needs. For [`Index::arrive`], after other keys have been
    /// approached.
    #[inline]
    pub(crate) fn approach<'g>(&'g self, guard: &'g Guard<'_>, key: &[u8]) -> Approach<'g> {
        match self {
            Self::BTree(tree) => Approach::BTree(tree.approach(guard, key)),
            Self::Art(_) => Approach::Later,
            Self::Hash(hash) => {
                hash.prefetch(key);
                Approach::Later
            }
        }
    }

    /// As [`Index::get`] for a key that was approached under the same guard.
    #[inline]
    pub(crate) fn arrive(&self, guard: &Guard<'_>, key: &[u8], approach: Approach<'_>) -> Lookup {
        match (self, approach) {
            (Self::BTree(tree), Approach::BTree(approach)) => tree.arrive(guard, key, approach),
            _ => self.get(guard, key),
        }
    }

    /// Inserts `key` unless it exists.
    pub(crate) fn insert_if_absent(&self, guard: &Guard<'_>, key: &[u8], row: RowId) -> Insert {
        match self {
            Self::BTree(tree) => tree.insert_if_absent(guard, key, row),
            Self::Art(tree) => tree.insert_if_absent(guard, key, row),
            Self::Hash(hash) => hash.insert_if_absent(guard, key, row),
        }
    }

    /// Works as [`Index::insert_if_absent`], for a key that probably belongs to the leaf that the last insert of the same
    /// transaction entered: this saves a descent.
    #[inline]
    pub(crate) fn insert_near(&self, guard: &Guard<'_>, near: Option<LeafPtr>, key: &[u8], row: RowId) -> Insert {
        if let (Self::BTree(tree), Some(near)) = (self, near)
            && let Some(insert) = tree.insert_near(guard, near, key, row)
        {
            return insert;
        }
        self.insert_if_absent(guard, key, row)
    }

    /// Removes `key` if it leads to `row` and `still`, called under the leaf's lock, agrees; returns whether it did.
    ///
    /// The leaf's stamps are raised to at least `gap` and `removed`; its phantom version stays. `still` must not use
    /// the index.
    pub(crate) fn remove_if(
        &self,
        guard: &Guard<'_>,
        key: &[u8],
        row: RowId,
        gap: Stamp,
        removed: Stamp,
        still: impl FnOnce() -> bool,
    ) -> bool {
        match self {
            Self::BTree(tree) => tree.remove_if(guard, key, row, gap, removed, still),
            Self::Art(tree) => tree.remove_if(guard, key, row, gap, removed, still),
            Self::Hash(hash) => hash.remove_if(guard, key, row, gap, removed, still),
        }
    }

    /// Scans the keys between the bounds.
    ///
    /// # Panics
    /// If the index is not ordered and the bounds enclose more than one key: tables refuse such scans before calling
    /// this.
    pub(crate) fn cursor<'g>(
        &'g self,
        guard: &'g Guard<'g>,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        direction: Direction,
    ) -> Cursor<'g> {
        match self {
            Self::BTree(tree) => Cursor::BTree(tree.cursor(guard, lower, upper, direction)),
            Self::Art(tree) => Cursor::Art(tree.cursor(guard, lower, upper, direction)),
            Self::Hash(hash) => match (lower, upper) {
                (Bound::Included(lower), Bound::Included(upper)) if lower == upper => {
                    Cursor::Hash(hash, guard, Some(KeyBuffer::from_slice(lower)))
                }
                _ => panic!("a hash index has no order to scan in"),
            },
        }
    }

    /// Replaces the content of `batch` by the next entries of a walk over all of them, about `count`; in the order of
    /// their keys if the index has one. No guard need be held between two calls. Entries inserted or removed between
    /// two calls may be met or not; an entry that exists throughout is met once. False: there are no more.
    pub(crate) fn walk(&self, guard: &Guard<'_>, walk: &mut Walk, batch: &mut Batch, count: usize) -> bool {
        batch.clear();
        match (self, &mut *walk) {
            (_, Walk::End) => {}
            (Self::Hash(hash), Walk::Begin) => *walk = hash.walk(guard, 0, batch, count).map_or(Walk::End, Walk::At),
            (Self::Hash(hash), Walk::At(at)) => *walk = hash.walk(guard, *at, batch, count).map_or(Walk::End, Walk::At),
            (_, walk) => {
                let lower = if let Walk::Behind(last) = walk { Bound::Excluded(&last[..]) } else { Bound::Unbounded };
                let mut cursor = self.cursor(guard, lower, Bound::Unbounded, Direction::Forward);
                while batch.is_empty() && cursor.next_leaf(batch, count).is_some() {}
                *walk = batch.len().checked_sub(1).map_or(Walk::End, |last| Walk::Behind(batch.key(last).into()));
            }
        }
        !batch.is_empty()
    }

    /// Walks the whole index.
    pub(crate) fn footprint(&self, guard: &Guard<'_>) -> Footprint {
        match self {
            Self::BTree(tree) => tree.footprint(guard),
            Self::Art(tree) => tree.footprint(guard),
            Self::Hash(hash) => hash.footprint(guard),
        }
    }
}

impl Cursor<'_> {
    /// Replaces the content of `batch` by up to `at_most` entries of the next leaf, in the scan's direction, which all
    /// existed at one moment. The batch may stay empty: a leaf that intersects the range is returned for the keys that
    /// it does not contain. None: the range is exhausted.
    pub(crate) fn next_leaf(&mut self, batch: &mut Batch, at_most: usize) -> Option<LeafSeen> {
        match self {
            Self::BTree(cursor) => cursor.next_leaf(batch, at_most),
            Self::Art(cursor) => cursor.next_leaf(batch, at_most),
            Self::Hash(hash, guard, key) => {
                batch.clear();
                let key = key.take()?;
                let Lookup { row, seen } = hash.get(guard, &key);
                row.into_iter().for_each(|row| batch.push([&key, &[]], row));
                Some(seen)
            }
        }
    }

    /// Returns some rows of the leaf that is likely to be next, for prefetching.
    pub(crate) fn peek(&self) -> impl Iterator<Item = RowId> {
        let cursor = match self {
            Self::BTree(cursor) => Some(cursor),
            Self::Art(_) | Self::Hash(..) => None,
        };
        cursor.into_iter().flat_map(btree::Cursor::peek)
    }
}
