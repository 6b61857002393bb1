//! Insertion of a key that is not in the tree yet.
//!
//! The node that covers the key has room for it, or is replaced by a larger one; or a node with two children takes the
//! place of a leaf, or of a node whose prefix the key does not share.

use super::{
    Art, At, Child, Edge, Hold, Insert, Inserted, KeyPath, LeafPtr, NodeRef, Place, Size, Step, Synchronization, Torn,
    believed,
    key::{KEY_LENGTH_MAX, common_prefix},
    version::Locked,
};
use crate::{epoch::Guard, ids::RowId, sync::Spin};

impl<S: Synchronization> Art<S> {
    /// See [`Index::insert_if_absent`](crate::index::Index::insert_if_absent).
    pub(crate) fn insert_if_absent(&self, guard: &Guard<'_>, key: &[u8], row: RowId) -> Insert {
        assert!(key.len() <= KEY_LENGTH_MAX, "a key of {} bytes is too long for the index", key.len());
        S::writing(&self.latch, || {
            let mut spin = Spin::default();
            loop {
                match self.try_insert(guard, key, row) {
                    Ok(outcome) => return outcome,
                    Err(Torn) => spin.wait(),
                }
            }
        })
    }

    fn try_insert(&self, guard: &Guard<'_>, key: &[u8], row: RowId) -> Result<Insert, Torn> {
        let at = self.try_descend(guard, key)?;
        let Place::Slot { edge, child, depth } = at.place else { return split_prefix(guard, at, key, row) };
        if let Some(existing) = child.row_of(key, depth, &at.still())? {
            // Transactions that looked before the key was inserted raised the stamp before the insert locked the node,
            // or fail.
            let looked = at.node.header().coverage.last_looked();
            believed(at.node, &at.hold)?;
            return Ok(Insert::Exists(existing, looked));
        }
        let leaf = || Child::leaf(key, depth, row, guard);
        match child {
            Child::Nothing => {
                let shape = at.node.header().shape();
                if edge != Edge::End && shape.count() == shape.size().room() {
                    return grow(guard, at, edge, leaf);
                }
                let At { node, hold, .. } = at;
                let mut lock = hold.lock().ok_or(Torn)?;
                let inserted = Inserted::begin(&node.header().coverage, &mut lock);
                node.put(edge, leaf());
                Ok(Insert::Done(inserted))
            }
            other => branch(guard, at, edge, other, depth, key, row),
        }
    }
}

fn lock_parent<S: Synchronization>(parent: Option<Step<'_, S>>) -> Result<(NodeRef<'_>, Edge, Locked<'_>), Torn> {
    let Step { node, hold, byte } = parent.expect("the root is never replaced");
    Ok((node, Edge::Byte(byte), hold.lock().ok_or(Torn)?))
}

/// Replaces a node that is full by a larger one, with the key.
fn grow<S: Synchronization>(
    guard: &Guard<'_>,
    at: At<'_, S>,
    edge: Edge,
    leaf: impl FnOnce() -> Child,
) -> Result<Insert, Torn> {
    let At { parent, node, hold, .. } = at;
    let (parent, slot, _parent_lock) = lock_parent(parent)?;
    let mut lock = hold.lock().ok_or(Torn)?;
    let coverage = &node.header().coverage;
    let mut inserted = Inserted::begin(coverage, &mut lock);
    let larger = replacement(node, node.header().shape().size().larger(), &lock, inserted.change.after, guard);
    larger.put(edge, leaf());
    parent.put(slot, larger.as_child());
    inserted.change.split = Some((LeafPtr::of(&larger.header().coverage), inserted.change.after));
    lock.mark_dead();
    // SAFETY: dead when the lock is released, and the parent names the larger node.
    unsafe { node.retire(guard) };
    Ok(Insert::Done(inserted))
}

/// Creates a node of another size with all the content of a locked one, which the caller then replaces by it.
pub(super) fn replacement<'g>(
    node: NodeRef<'g>,
    size: Size,
    lock: &Locked<'_>,
    version: super::LeafVersion,
    guard: &Guard<'_>,
) -> NodeRef<'g> {
    let coverage = &node.header().coverage;
    let (gap, removed) = coverage.stamps(lock);
    let other = NodeRef::allocate(size, version, gap, removed, guard);
    other.become_other(node);
    coverage.hand_over(lock, &other.header().coverage, version);
    other
}

/// Replaces a leaf that shares the key's beginning by a node, with both below it.
fn branch<S: Synchronization>(
    guard: &Guard<'_>,
    at: At<'_, S>,
    edge: Edge,
    other: Child,
    depth: usize,
    key: &[u8],
    row: RowId,
) -> Result<Insert, Torn> {
    let mut other_key = KeyPath::from_slice(&key[..depth]);
    let other_row = other.complete(&mut other_key, &at.still())?.expect("a slot holds nothing, a node or a leaf");
    let At { node, hold, .. } = at;
    let mut lock = hold.lock().ok_or(Torn)?;
    let coverage = &node.header().coverage;
    let mut inserted = Inserted::begin(coverage, &mut lock);
    let (gap, removed) = coverage.stamps(&lock);
    let fork = NodeRef::allocate(Size::Four, inserted.change.after, gap, removed, guard);
    let shared = common_prefix(&key[depth..], &other_key[depth..]);
    fork.set_prefix(&key[depth..depth + shared], guard);
    let below = depth + shared;
    for (key, leaf) in [(key, None), (&other_key[..], Some(other))] {
        let edge = Edge::of(key, below);
        let depth = below + edge.length();
        fork.put(
            edge,
            match leaf {
                None => Child::leaf(key, depth, row, guard),
                Some(leaf) => leaf.moved(key, depth, other_row, guard),
            },
        );
    }
    node.put(edge, fork.as_child());
    inserted.change.split = Some((LeafPtr::of(&fork.header().coverage), inserted.change.after));
    Ok(Insert::Done(inserted))
}

/// Replaces a node whose prefix the key shares only in part by a new node, with the old one and the key below it.
fn split_prefix<S: Synchronization>(guard: &Guard<'_>, at: At<'_, S>, key: &[u8], row: RowId) -> Result<Insert, Torn> {
    let Place::Apart(shared) = at.place else { unreachable!("the caller has looked") };
    let mut prefix = KeyPath::new();
    at.node.write_prefix(&mut prefix, &at.still())?;
    let At { parent, node, hold, depth, .. } = at;
    let (parent, slot, _parent_lock) = lock_parent(parent)?;
    let mut lock = hold.lock().ok_or(Torn)?;
    let coverage = &node.header().coverage;
    let mut inserted = Inserted::begin(coverage, &mut lock);
    let (gap, removed) = coverage.stamps(&lock);
    let fork = NodeRef::allocate(Size::Four, inserted.change.after, gap, removed, guard);
    fork.set_prefix(&prefix[..shared], guard);
    node.retire_prefix(guard);
    node.set_prefix(&prefix[shared + 1..], guard);
    fork.put(Edge::Byte(prefix[shared]), node.as_child());
    let edge = Edge::of(key, depth + shared);
    fork.put(edge, Child::leaf(key, depth + shared + edge.length(), row, guard));
    parent.put(slot, fork.as_child());
    inserted.change.split = Some((LeafPtr::of(&fork.header().coverage), inserted.change.after));
    Ok(Insert::Done(inserted))
}
