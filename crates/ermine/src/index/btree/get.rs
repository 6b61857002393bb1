//! Point lookup, in one step, or in two steps with other lookups in between.

use super::{
    At, BTree, Lookup,
    node::{Inner, Leaf, NodePtr, Target},
    version::{Seen, Torn},
};
use crate::epoch::Guard;

/// A lookup in progress: it has the parent of its leaf, and the leaf is being loaded from memory.
pub(crate) struct Approach<'g>(Option<Parent<'g>>);

struct Parent<'g> {
    inner: &'g Inner,
    seen: Seen,
    leaf: NodePtr,
}

impl BTree {
    /// Returns the row of `key`, and the observation that the key exists or does not. Writes nothing shared, allocates
    /// nothing.
    #[inline]
    pub(in crate::index) fn get(&self, guard: &Guard<'_>, key: &[u8]) -> Lookup {
        loop {
            if let Ok(lookup) = self.try_get(guard, key) {
                return lookup;
            }
        }
    }

    #[inline]
    fn try_get(&self, guard: &Guard<'_>, key: &[u8]) -> Result<Lookup, Torn> {
        self.try_descend(guard, Target::At(key), |_| Ok(()))?.lookup(key)
    }

    /// Descends to the parent of the leaf that `key` belongs to. For [`BTree::arrive`], after other keys have been
    /// approached.
    #[inline]
    pub(in crate::index) fn approach<'g>(&'g self, guard: &'g Guard<'_>, key: &[u8]) -> Approach<'g> {
        Approach(self.try_approach(guard, key).unwrap_or(None))
    }

    fn try_approach<'g>(&'g self, guard: &'g Guard<'_>, key: &[u8]) -> Result<Option<Parent<'g>>, Torn> {
        let (node, seen, level) = self.try_descend_to(1, guard, Target::At(key), |_| Ok(()))?;
        if level == 0 {
            return Ok(None);
        }
        // SAFETY: nodes of level 1 are inner nodes; alive or retired, the guard keeps them.
        let inner: &Inner = unsafe { &*node.cast_const().cast() };
        let leaf = inner.child(inner.child_index(Target::At(key), seen)?);
        Leaf::prefetch(leaf.cast_const().cast());
        Ok(inner.version.is_still(seen).then_some(Parent { inner, seen, leaf }))
    }

    /// As [`BTree::get`] for a key that was approached under the same guard.
    #[inline]
    pub(in crate::index) fn arrive(&self, guard: &Guard<'_>, key: &[u8], approach: Approach<'_>) -> Lookup {
        match approach.0.map(|parent| parent.try_arrive(key)) {
            Some(Ok(lookup)) => lookup,
            Some(Err(Torn)) | None => self.get(guard, key),
        }
    }
}

impl Parent<'_> {
    #[inline]
    fn try_arrive(self, key: &[u8]) -> Result<Lookup, Torn> {
        // SAFETY: the parent was unchanged after it named this child: a leaf of the tree, kept by the guard.
        let leaf: &Leaf = unsafe { &*self.leaf.cast_const().cast() };
        let seen = leaf.version().observe().ok_or(Torn)?;
        // As in a descent: the leaf was responsible for the key when its version was taken.
        if !self.inner.version.is_still(self.seen) {
            return Err(Torn);
        }
        At { leaf, seen }.lookup(key)
    }
}

impl At<'_> {
    #[inline]
    fn lookup(&self, key: &[u8]) -> Result<Lookup, Torn> {
        let place = self.leaf.keys.find(key, &self.still())?;
        let row = if place.exact { Some(self.leaf.keys.row(place.index, &self.still())?) } else { None };
        Ok(Lookup { row, seen: self.believed()? })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{epoch::EpochManager, ids::RowId};

    #[test]
    fn finds_what_was_inserted_and_nothing_else() {
        let epochs = EpochManager::new("test");
        let worker = epochs.join();
        let guard = worker.enter();
        let index = BTree::new();
        let keys: [&[u8]; 6] = [b"", b"a", b"ab", b"ab\0", b"abcdefgh", b"abcdefghi"];
        for (row, key) in keys.iter().enumerate() {
            assert_eq!(index.get(&guard, key).row, None);
            index.insert_if_absent(&guard, key, RowId(row as u64));
        }
        for (row, key) in keys.iter().enumerate() {
            assert_eq!(index.get(&guard, key).row, Some(RowId(row as u64)), "{key:?}");
        }
        for (row, key) in keys.iter().enumerate() {
            let approach = index.approach(&guard, key);
            assert_eq!(index.arrive(&guard, key, approach).row, Some(RowId(row as u64)), "{key:?}");
        }
        for absent in [&b"\0"[..], b"b", b"abc", b"ab\0\0", b"abcdefgi", b"abcdefghij", b"abcdefgh\0"] {
            assert_eq!(index.get(&guard, absent).row, None, "{absent:?}");
        }
    }

    #[test]
    fn the_longest_key_works() {
        let epochs = EpochManager::new("test");
        let worker = epochs.join();
        let guard = worker.enter();
        let index = BTree::new();
        let long = vec![7; crate::index::KEY_LENGTH_MAX];
        index.insert_if_absent(&guard, &long, RowId(1));
        index.insert_if_absent(&guard, &long[1..], RowId(2));
        assert_eq!(index.get(&guard, &long).row, Some(RowId(1)));
        assert_eq!(index.get(&guard, &long[1..]).row, Some(RowId(2)));
        assert_eq!(index.get(&guard, &long[2..]).row, None);
    }

    #[test]
    fn who_approaches_arrives_whatever_happens_meanwhile() {
        let epochs = EpochManager::new("test");
        let worker = epochs.join();
        let guard = worker.enter();
        let index = BTree::new();
        const KEYS: u64 = if cfg!(miri) { 200 } else { 5000 };
        let key_of = |number: u64| (number * 10).to_be_bytes();
        for number in 0..KEYS {
            index.insert_if_absent(&guard, &key_of(number), RowId(number));
        }
        let keys: Vec<_> = (0..KEYS).step_by(7).collect();
        let approaches: Vec<_> = keys.iter().map(|&number| index.approach(&guard, &key_of(number))).collect();
        // Splits every leaf and many of their parents.
        for key in 0..10 * KEYS {
            index.insert_if_absent(&guard, &key.to_be_bytes(), RowId(key + KEYS));
        }
        for (&number, approach) in keys.iter().zip(approaches) {
            assert_eq!(index.arrive(&guard, &key_of(number), approach).row, Some(RowId(number)));
        }
    }
}
