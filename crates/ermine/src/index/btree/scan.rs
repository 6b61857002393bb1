//! Range scans, a leaf at a time, in both directions.
//!
//! A cursor keeps the rest of its range and the place where it expects to continue: the next (or previous) leaf as the
//! last one named it in a validated read. Live leaves never lose the lower end of their range (node.rs, invariant 3),
//! so a forward scan may continue in the next leaf whatever has happened to it, as long as it is live. A backward scan
//! also checks that the previous leaf still leads to the one it comes from, and where it continues in a leaf of which it
//! has read a part, that a split has not moved keys of its range to the right. In any other case the cursor descends
//! again for the rest of its range.

use super::{
    At, BTree, Direction, LeafSeen,
    batch::Batch,
    key::Word,
    node::{Leaf, Target},
    version::Torn,
};
use crate::{epoch::Guard, ids::RowId, sync::Ordering};
use smallvec::SmallVec;
use std::{ops::Bound, ptr};

type Limit = Bound<SmallVec<[u8; 36]>>;

/// A scan in progress.
pub(crate) struct Cursor<'g> {
    index: &'g BTree,
    guard: &'g Guard<'g>,
    /// The rest of the range.
    lower: Limit,
    upper: Limit,
    direction: Direction,
    place: Place<'g>,
}

/// The place where a cursor continues.
#[derive(Clone, Copy)]
enum Place<'g> {
    Descend,
    /// In this leaf.
    Here(&'g Leaf),
    /// In this leaf, if it still is the one before the other.
    Before(&'g Leaf, &'g Leaf),
    End,
}

impl BTree {
    /// Scans the keys between the bounds.
    pub(in crate::index) fn cursor<'g>(
        &'g self,
        guard: &'g Guard<'g>,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        direction: Direction,
    ) -> Cursor<'g> {
        let (lower, upper) = (lower.map(SmallVec::from_slice), upper.map(SmallVec::from_slice));
        Cursor { index: self, guard, lower, upper, direction, place: Place::Descend }
    }
}

impl<'g> Cursor<'g> {
    /// See [`super::super::Cursor::next_leaf`].
    pub(in crate::index) fn next_leaf(&mut self, batch: &mut Batch, at_most: usize) -> Option<LeafSeen> {
        loop {
            batch.clear();
            if matches!(self.place, Place::End) {
                return None;
            }
            let seen = match self.direction {
                Direction::Forward => self.try_forward(batch, at_most),
                Direction::Backward => self.try_backward(batch, at_most),
            };
            match seen {
                Ok(Some(seen)) => return Some(seen),
                Ok(None) => self.place = Place::End,
                Err(Torn) => self.recover(),
            }
        }
    }

    /// Returns the rows of the entries that come next in the scan's direction, up to eight, as far as they are known. For
    /// prefetching: the entries may be changing.
    pub(in crate::index) fn peek(&self) -> impl Iterator<Item = RowId> {
        const PEEKED: usize = 8;
        let leaf = match self.place {
            Place::Here(leaf) | Place::Before(leaf, _) => Some(leaf),
            Place::Descend | Place::End => None,
        };
        let count = leaf.map_or(0, |leaf| leaf.keys.count());
        let peeked = (0..count.min(PEEKED)).map(move |at| match self.direction {
            Direction::Forward => at,
            Direction::Backward => count - 1 - at,
        });
        let words = leaf.into_iter().flat_map(move |leaf| peeked.clone().map(|at| leaf.keys.word(at)));
        words.filter(|word| !word.is_long()).map(Word::short_row)
    }

    /// Decides how to continue after a change under the cursor: a live leaf can be read again; otherwise the cursor
    /// descends again.
    fn recover(&mut self) {
        self.place = match self.place {
            Place::Here(leaf) if leaf.version().observe().is_some() => Place::Here(leaf),
            _ => Place::Descend,
        };
    }

    fn try_forward(&mut self, batch: &mut Batch, at_most: usize) -> Result<Option<LeafSeen>, Torn> {
        let at = match self.place {
            Place::Here(leaf) => At { leaf, seen: leaf.version().observe().ok_or(Torn)? },
            _ => {
                let target = match &self.lower {
                    Bound::Unbounded => Target::At(b""),
                    Bound::Included(key) | Bound::Excluded(key) => Target::At(key.as_slice()),
                };
                self.index.try_descend(self.guard, target, |_| Ok(()))?
            }
        };
        let still = at.still();
        let next = at.leaf.next.load(Ordering::Acquire);
        let (start, end, count) = self.limits(&at)?;
        let stop = end.min(start.saturating_add(at_most));
        if stop == end {
            Leaf::prefetch(next);
        }
        at.leaf.keys.copy_to(batch, start..stop, &still)?;
        let finished = end < count || self.ends_in(&at)?;
        let seen = at.believed()?;
        self.place = if stop < end {
            Place::Here(at.leaf)
        } else if finished {
            Place::End
        } else {
            // SAFETY: named by a leaf whose read was validated, so it was in the chain; the guard keeps it.
            unsafe { next.as_ref() }.map_or(Place::End, Place::Here)
        };
        if !batch.is_empty() {
            advance(&mut self.lower, batch.key(batch.len() - 1));
        }
        Ok(Some(seen))
    }

    fn try_backward(&mut self, batch: &mut Batch, at_most: usize) -> Result<Option<LeafSeen>, Torn> {
        let at = match self.place {
            Place::Here(leaf) | Place::Before(leaf, _) => At { leaf, seen: leaf.version().observe().ok_or(Torn)? },
            _ => {
                let target = match &self.upper {
                    Bound::Unbounded => Target::Last,
                    Bound::Included(key) => Target::At(key),
                    Bound::Excluded(key) => Target::Below(key),
                };
                self.index.try_descend(self.guard, target, |_| Ok(()))?
            }
        };
        let still = at.still();
        if matches!(self.place, Place::Here(_)) && !self.ends_in(&at)? {
            self.place = Place::Descend;
            return Err(Torn);
        }
        if let Place::Before(leaf, from) = self.place {
            if !ptr::eq(leaf.next.load(Ordering::Relaxed), from) {
                return Err(Torn);
            }
            if let Bound::Included(key) | Bound::Excluded(key) = &self.lower
                && leaf.upper.is_at_or_below(key, &still)?
            {
                at.believed()?;
                return Ok(None);
            }
        }
        let prev = at.leaf.prev.load(Ordering::Acquire);
        let (start, end, _) = self.limits(&at)?;
        let stop = start.max(end.saturating_sub(at_most));
        if stop == start {
            Leaf::prefetch(prev);
        }
        at.leaf.keys.copy_to(batch, (stop..end).rev(), &still)?;
        let seen = at.believed()?;
        self.place = if stop > start {
            Place::Here(at.leaf)
        } else if start > 0 {
            Place::End
        } else {
            // SAFETY: a leaf is retired after its successor's `prev` was changed; this successor was alive when it was
            // read, so the guard keeps the leaf.
            unsafe { prev.as_ref() }.map_or(Place::End, |prev| Place::Before(prev, at.leaf))
        };
        if !batch.is_empty() {
            advance(&mut self.upper, batch.key(batch.len() - 1));
        }
        Ok(Some(seen))
    }

    /// Whether no key of the rest of the range belongs to a leaf behind this one.
    fn ends_in(&self, at: &At<'_>) -> Result<bool, Torn> {
        let still = at.still();
        Ok(match &self.upper {
            Bound::Unbounded => false,
            Bound::Included(key) => !at.leaf.upper.is_at_or_below(key, &still)?,
            Bound::Excluded(key) => !at.leaf.upper.is_below(key, &still)?,
        })
    }

    /// Returns which entries of the leaf are in the range: from, to, of how many.
    fn limits(&self, at: &At<'_>) -> Result<(usize, usize, usize), Torn> {
        let keys = &at.leaf.keys;
        let still = at.still();
        let count = keys.count();
        let start = match &self.lower {
            Bound::Unbounded => 0,
            Bound::Included(key) => keys.find(key, &still)?.index,
            Bound::Excluded(key) => {
                let place = keys.find(key, &still)?;
                place.index + usize::from(place.exact)
            }
        };
        let end = match &self.upper {
            Bound::Unbounded => count,
            Bound::Included(key) => {
                let place = keys.find(key, &still)?;
                place.index + usize::from(place.exact)
            }
            Bound::Excluded(key) => keys.find(key, &still)?.index,
        };
        // The bounds may be crossed, and the count may be that of another node version.
        let end = end.min(count);
        Ok((start.min(end), end, count))
    }
}

/// Reduces a range to its part behind `key`.
fn advance(limit: &mut Limit, key: &[u8]) {
    match limit {
        Bound::Excluded(old) | Bound::Included(old) => {
            let mut old = std::mem::take(old);
            old.clear();
            old.extend_from_slice(key);
            *limit = Bound::Excluded(old);
        }
        Bound::Unbounded => *limit = Bound::Excluded(SmallVec::from_slice(key)),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::epoch::EpochManager;

    /// A backward scan has returned one entry of a leaf when the leaf is split below that entry.
    #[test]
    fn a_backward_scan_finds_what_has_moved_to_the_right() {
        let epochs = EpochManager::new("test");
        let worker = epochs.join();
        let guard = worker.enter();
        let index = BTree::new();
        let key = |n: u64| n.to_be_bytes();
        for n in 0..50 {
            index.insert_if_absent(&guard, &key(10 * n), RowId(n));
        }
        let mut batch = Batch::default();
        let mut cursor = index.cursor(&guard, Bound::Unbounded, Bound::Unbounded, Direction::Backward);
        assert!(cursor.next_leaf(&mut batch, 1).is_some());
        assert_eq!((batch.len(), batch.row(0)), (1, RowId(49)));
        for n in 0..20 {
            index.insert_if_absent(&guard, &key(n * 10 + 5), RowId(100));
        }
        assert_eq!(index.footprint(&guard).leaves, 2);
        let mut rows = Vec::new();
        while cursor.next_leaf(&mut batch, 1).is_some() {
            rows.extend((0..batch.len()).map(|i| batch.row(i).0).filter(|&row| row < 100));
        }
        assert_eq!(rows, (0..49).rev().collect::<Vec<_>>());
    }
}
