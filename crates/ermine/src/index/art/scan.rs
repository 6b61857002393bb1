//! Range scans, a stretch of a node at a time, in both directions.
//!
//! A cursor is at a [`Cut`] between two keys. Each step descends to the node that covers the keys on the cut's far side
//! and returns the leaves there, up to the next child that is a node, whose near side is the next cut; behind the last
//! child the next cut is the far side of the node. So the entries of a step all existed at one moment, the steps'
//! stretches are adjacent without gaps, and each stretch is covered by the observation of one node: whatever happens to
//! the tree between two steps, no key can enter the range unnoticed.

use super::{Art, Batch, Child, Direction, Hold, KeyPath, LeafSeen, NodeRef, Synchronization, Torn, believed};
use crate::{epoch::Guard, ids::RowId};
use smallvec::SmallVec;
use std::ops::Bound;

/// A place between two keys.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Cut {
    bytes: SmallVec<[u8; 36]>,
    /// The cut is behind all keys that begin with the bytes; otherwise it is before the key that equals the bytes.
    behind: bool,
}

/// A scan in progress.
pub(crate) struct Cursor<'g, S: Synchronization> {
    tree: &'g Art<S>,
    guard: &'g Guard<'g>,
    /// The cursor's position; `None`: at the end.
    at: Option<Cut>,
    limit: Cut,
    direction: Direction,
}

/// The node that covers the keys on the far side of a cut.
struct Standing<'g, S: Synchronization> {
    node: NodeRef<'g>,
    hold: S::Hold<'g>,
    /// The bytes that lead to the node, prefix included; the first `slot` of them lead to its slot.
    path: KeyPath,
    slot: usize,
    place: Place,
}

/// The position of a cut among the children of a node.
#[derive(Clone, Copy)]
enum Place {
    Front,
    Before(u8),
    /// Among the keys that continue with this byte.
    Inside(u8),
    Behind(u8),
    Back,
}

impl Cut {
    fn before(key: &[u8]) -> Self {
        Self { bytes: SmallVec::from_slice(key), behind: false }
    }

    fn behind(prefix: &[u8]) -> Self {
        Self { bytes: SmallVec::from_slice(prefix), behind: true }
    }

    fn just_behind(key: &[u8]) -> Self {
        let mut cut = Self::before(key);
        cut.bytes.push(0);
        cut
    }

    fn of_lower(bound: Bound<&[u8]>) -> Self {
        match bound {
            Bound::Unbounded => Self::before(&[]),
            Bound::Included(key) => Self::before(key),
            Bound::Excluded(key) => Self::just_behind(key),
        }
    }

    fn of_upper(bound: Bound<&[u8]>) -> Self {
        match bound {
            Bound::Unbounded => Self::behind(&[]),
            Bound::Included(key) => Self::just_behind(key),
            Bound::Excluded(key) => Self::before(key),
        }
    }

    /// Whether a key lies above the cut.
    #[inline]
    fn is_below(&self, key: &[u8]) -> bool {
        if self.behind { *key > *self.bytes && !key.starts_with(&self.bytes) } else { *key >= *self.bytes }
    }

    /// Whether no key lies between this cut and one that is not below it.
    fn reaches(&self, upper: &Self) -> bool {
        match (self.behind, upper.behind) {
            (false, false) => self.bytes >= upper.bytes,
            // Between a cut behind a prefix and an upper cut before a key, there is nothing unless that key is above
            // all that begin with the prefix.
            (true, false) => !self.is_below(&upper.bytes),
            (false, true) => upper.is_below(&self.bytes),
            (true, true) => upper.bytes.starts_with(&self.bytes) || upper.is_below(&self.bytes),
        }
    }
}

impl<S: Synchronization> Art<S> {
    /// See [`Index::cursor`](crate::index::Index::cursor).
    pub(crate) fn cursor<'g>(
        &'g self,
        guard: &'g Guard<'g>,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        direction: Direction,
    ) -> Cursor<'g, S> {
        let (lower, upper) = (Cut::of_lower(lower), Cut::of_upper(upper));
        let is_empty = lower.reaches(&upper);
        let (at, limit) = match direction {
            Direction::Forward => (lower, upper),
            Direction::Backward => (upper, lower),
        };
        Cursor { tree: self, guard, at: (!is_empty).then_some(at), limit, direction }
    }
}

impl<S: Synchronization> Cursor<'_, S> {
    /// See [`super::super::Cursor::next_leaf`].
    pub(crate) fn next_leaf(&mut self, batch: &mut Batch, at_most: usize) -> Option<LeafSeen> {
        batch.clear();
        let at = self.at.take()?;
        S::reading(&self.tree.latch, || {
            loop {
                if let Ok((seen, next)) = self.try_next(&at, batch, at_most) {
                    let is_done = match self.direction {
                        Direction::Forward => next.reaches(&self.limit),
                        Direction::Backward => self.limit.reaches(&next),
                    };
                    self.at = (!is_done).then_some(next);
                    return Some(seen);
                }
                batch.clear();
            }
        })
    }

    fn try_next(&self, at: &Cut, batch: &mut Batch, at_most: usize) -> Result<(LeafSeen, Cut), Torn> {
        let standing = self.try_stand(at)?;
        let next = match self.direction {
            Direction::Forward => self.forward(at, &standing, batch, at_most)?,
            Direction::Backward => self.backward(at, &standing, batch, at_most)?,
        };
        Ok((believed(standing.node, &standing.hold)?, next))
    }

    /// Descends to the node that covers the keys on the far side of a cut.
    fn try_stand(&self, at: &Cut) -> Result<Standing<'_, S>, Torn> {
        let (mut node, mut hold) = self.tree.observe_root(self.guard);
        let mut path = KeyPath::new();
        // The descent follows the cut's bytes, or, once it has left them, one side of the nodes below.
        let mut side = None;
        loop {
            let slot = path.len();
            node.write_prefix(&mut path, &|| hold.is_still())?;
            let place = match side {
                Some(false) => Place::Front,
                Some(true) => Place::Back,
                None => place(at, &path, slot),
            };
            let (byte, next_side) = match (place, self.direction) {
                (Place::Inside(byte), _) => (Some(byte), None),
                (Place::Before(byte), Direction::Forward) => (Some(byte), Some(false)),
                (Place::Behind(byte), Direction::Forward) => (byte.checked_add(1), Some(false)),
                (Place::Before(byte), Direction::Backward) => (byte.checked_sub(1), Some(true)),
                (Place::Behind(byte), Direction::Backward) => (Some(byte), Some(true)),
                (Place::Front | Place::Back, _) => (None, None),
            };
            match byte.map(|byte| (byte, node.child(byte))) {
                Some((byte, Child::Node(child))) => {
                    (node, hold) = Art::<S>::follow(self.guard, &hold, child)?;
                    path.push(byte);
                    side = next_side;
                }
                _ => return Ok(Standing { node, hold, path, slot, place }),
            }
        }
    }

    /// Hands out the node's entries above the cut, up to the next node below it; returns the next cut.
    fn forward(&self, at: &Cut, standing: &Standing<'_, S>, batch: &mut Batch, at_most: usize) -> Result<Cut, Torn> {
        let Standing { node, hold, path, slot, place } = standing;
        let still = || hold.is_still();
        let first = match *place {
            Place::Front => 0,
            Place::Before(byte) | Place::Inside(byte) => u16::from(byte),
            Place::Behind(byte) => u16::from(byte) + 1,
            Place::Back => 256,
        };
        let mut key = KeyPath::from_slice(path);
        if let Place::Front = place
            && let Some(row) = node.header().end().complete(&mut key, &still)?
            && let Some(cut) = self.hand_out(at, &key, row, batch, at_most)
        {
            return Ok(cut);
        }
        let mut from = first;
        while let Some((byte, child)) = node.next(from) {
            key.clear();
            key.extend_from_slice(path);
            key.push(byte);
            let Some(row) = child.complete(&mut key, &still)? else { return Ok(Cut::before(&key)) };
            if let Some(cut) = self.hand_out(at, &key, row, batch, at_most) {
                return Ok(cut);
            }
            from = u16::from(byte) + 1;
        }
        Ok(Cut::behind(&path[..*slot]))
    }

    /// As [`Cursor::forward`], below the cut.
    fn backward(&self, at: &Cut, standing: &Standing<'_, S>, batch: &mut Batch, at_most: usize) -> Result<Cut, Torn> {
        let Standing { node, hold, path, slot, place } = standing;
        let still = || hold.is_still();
        let mut below = match *place {
            Place::Front => return Ok(Cut::before(&path[..*slot])),
            Place::Before(byte) => u16::from(byte),
            Place::Inside(byte) | Place::Behind(byte) => u16::from(byte) + 1,
            Place::Back => 256,
        };
        let mut key = KeyPath::from_slice(path);
        while let Some((byte, child)) = node.previous(below) {
            key.clear();
            key.extend_from_slice(path);
            key.push(byte);
            let Some(row) = child.complete(&mut key, &still)? else { return Ok(Cut::behind(&key)) };
            if let Some(cut) = self.hand_out(at, &key, row, batch, at_most) {
                return Ok(cut);
            }
            below = byte.into();
        }
        key.clear();
        key.extend_from_slice(path);
        if let Some(row) = node.header().end().complete(&mut key, &still)?
            && let Some(cut) = self.hand_out(at, &key, row, batch, at_most)
        {
            return Ok(cut);
        }
        Ok(Cut::before(&path[..*slot]))
    }

    /// Adds an entry to the batch if it is in the range; returns the next cut if the step ends at this entry.
    fn hand_out(&self, at: &Cut, key: &[u8], row: RowId, batch: &mut Batch, at_most: usize) -> Option<Cut> {
        let (lower, upper) = match self.direction {
            Direction::Forward => (at, &self.limit),
            Direction::Backward => (&self.limit, at),
        };
        let (is_above, is_below) = (lower.is_below(key), !upper.is_below(key));
        let (is_behind_us, is_beyond) = match self.direction {
            Direction::Forward => (!is_above, !is_below),
            Direction::Backward => (!is_below, !is_above),
        };
        if is_beyond {
            return Some(self.limit.clone());
        }
        if is_behind_us {
            return None;
        }
        batch.push([key, &[]], row);
        (batch.len() == at_most).then(|| match self.direction {
            Direction::Forward => Cut::just_behind(key),
            Direction::Backward => Cut::before(key),
        })
    }
}

/// Returns the position of a cut in a node that its bytes lead to: the path's first `slot` bytes are the cut's.
fn place(at: &Cut, path: &[u8], slot: usize) -> Place {
    let (rest, prefix) = (&at.bytes[slot.min(at.bytes.len())..], &path[slot..]);
    let shared = super::key::common_prefix(rest, prefix);
    if shared == rest.len() {
        return if at.behind { Place::Back } else { Place::Front };
    }
    if shared < prefix.len() {
        return if rest[shared] < prefix[shared] { Place::Front } else { Place::Back };
    }
    let byte = rest[shared];
    match (rest.len() == shared + 1, at.behind) {
        (false, _) => Place::Inside(byte),
        (true, false) => Place::Before(byte),
        (true, true) => Place::Behind(byte),
    }
}
