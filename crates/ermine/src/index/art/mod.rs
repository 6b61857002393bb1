//! The adaptive radix tree: an ordered index whose lookups compare a key byte by byte instead of with other keys.
//!
//! Nodes grow and shrink with the number of their children (`node.rs`), paths without branches are compressed into
//! prefixes, and a key that is alone behind a branch is a leaf at once (`child.rs`). Prefixes are kept whole, so the
//! bytes that a lookup has passed are equal; only a leaf's rest must still be compared. The synchronization of readers
//! and writers is a parameter (`synchronization.rs`); the engine uses the optimistic one.
//!
//! One file per operation: [`get`], [`insert`], [`remove`], [`scan`], [`footprint`]. Start with
//! [`descend`](Art::try_descend) below.
//!
//! ```text
//!  root (Node256, permanent)
//!    'a' -> node, prefix "cc"   end -> leaf "acc"
//!             'e' -> leaf "acce" + "pt"
//!             'o' -> node, prefix "un"
//!                      't' -> leaf ..
//! ```
//!
//! A node *covers* the keys whose descents end at it: those that diverge within its prefix, that end with it, and that
//! continue with a byte behind which there is no node. So every node is a leaf in the sense of the other kinds, with
//! versions and stamps, and a key that is missing is missing in the node that covers it.
//!
//! Invariants, besides those of every index:
//! 1. The set of keys that a node covers changes only under its lock. If a part of it goes to another node (a leaf is
//!    replaced by a node, a prefix is split, a node is replaced by a larger one to take a key), the phantom version
//!    changes: these changes always include an insert. The new node begins with the old one's stamps.
//! 2. If a node is removed without an insert (it is replaced by a smaller one, or its only child or its parent takes
//!    its range), it names its absorber, which takes over its stamps: no observation becomes void.
//! 3. A node's prefix and the slot that leads to it change only under its lock and its parent's. So a reader that finds
//!    the parent unchanged after taking the child's version has the child at the right depth.
//! 4. Locks are taken from the root downwards, none of them by waiting.
//! 5. Every node but the root has at least two children or ends; the root has no prefix, and is never replaced.
//!
//! References: Leis et al., "The Adaptive Radix Tree" (ICDE 2013); Leis et al., "The ART of Practical Synchronization"
//! (DaMoN 2016); Leis et al., "Scaling HTM-Supported Database Transactions to Many Cores", V.B.

mod child;
mod footprint;
mod get;
mod insert;
mod node;
mod remove;
mod scan;
mod synchronization;

pub(crate) use self::{
    scan::Cursor,
    synchronization::{Coarse, Coupled, Optimistic, Synchronization, Unsynchronized},
};

use self::{
    child::Child,
    node::{Header, NodeRef, Size},
    synchronization::Hold,
};
use super::{
    Direction, Footprint, Insert, Inserted, LeafPtr, LeafSeen, Lookup,
    batch::Batch,
    key,
    version::{self, LeafVersion, Torn},
};
use crate::{epoch::Guard, ids::Stamp};
use smallvec::SmallVec;
use std::ptr::NonNull;

/// The bytes on the path to a node or a leaf.
type KeyPath = SmallVec<[u8; 64]>;

/// An adaptive radix tree that is synchronized by `S`.
pub(crate) struct Art<S: Synchronization = Optimistic> {
    root: NonNull<Header>,
    latch: S::Latch,
}

// SAFETY: the tree is shared by means of atomics, or under the rules that `S` imposes on its users; the tree alone owns
// what it points to.
unsafe impl<S: Synchronization> Send for Art<S> {}
// SAFETY: as above.
unsafe impl<S: Synchronization> Sync for Art<S> {}

/// How a key continues behind a node's path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Edge {
    /// It ends there.
    End,
    Byte(u8),
}

/// An inner node on a descent, and the byte that it continued with.
struct Step<'g, S: Synchronization> {
    node: NodeRef<'g>,
    hold: S::Hold<'g>,
    byte: u8,
}

/// Where a descent for a key has ended: the node that covers it.
struct At<'g, S: Synchronization> {
    parent: Option<Step<'g, S>>,
    node: NodeRef<'g>,
    hold: S::Hold<'g>,
    /// The number of the key's bytes that lead to the node's slot.
    depth: usize,
    place: Place,
}

impl<S: Synchronization> At<'_, S> {
    #[inline]
    fn still(&self) -> impl Fn() -> bool {
        || self.hold.is_still()
    }
}

/// The place in a node for a key that it covers.
#[derive(Clone, Copy)]
enum Place {
    /// The prefix diverges from the key after this many bytes.
    Apart(usize),
    /// The slot for the key, which is empty or holds a leaf; the bytes behind the slot begin `depth` bytes deep in the
    /// key.
    Slot { edge: Edge, child: Child, depth: usize },
}

impl<S: Synchronization> Art<S> {
    /// Creates an empty tree.
    pub(crate) fn new() -> Self {
        let root = NodeRef::allocate_uncounted(Size::Full, LeafVersion::FIRST, Stamp::ZERO, Stamp::ZERO);
        let Child::Node(root) = root.as_child() else { unreachable!("a node is a node") };
        Self { root, latch: S::Latch::default() }
    }

    /// Returns the root and a hold on it.
    #[inline]
    fn observe_root<'g>(&self, _guard: &'g Guard<'_>) -> (NodeRef<'g>, S::Hold<'g>) {
        // SAFETY: the root lives as long as the tree, and no reference to its nodes outlives a guard or the tree.
        let root = unsafe { NodeRef::new(self.root) };
        (root, S::observe(&root.header().coverage.version).expect("the root never dies"))
    }

    /// Follows a pointer to a node below one that is held.
    #[inline]
    fn follow<'g>(
        _guard: &'g Guard<'_>,
        parent: &S::Hold<'g>,
        child: NonNull<Header>,
    ) -> Result<(NodeRef<'g>, S::Hold<'g>), Torn> {
        NodeRef::prefetch(child);
        if !parent.is_still() {
            return Err(Torn);
        }
        // SAFETY: node.rs, invariant 4: the parent was unchanged after it named this child.
        let node = unsafe { NodeRef::new(child) };
        let hold = S::observe(&node.header().coverage.version).ok_or(Torn)?;
        // Invariant 3: the child was at this depth when it was observed.
        if !parent.is_still() {
            return Err(Torn);
        }
        Ok((node, hold))
    }

    /// Descends to the node that covers `key`.
    #[inline]
    fn try_descend<'g>(&self, guard: &'g Guard<'_>, key: &[u8]) -> Result<At<'g, S>, Torn> {
        let (mut node, mut hold) = self.observe_root(guard);
        let (mut parent, mut depth) = (None, 0);
        loop {
            let (equal, length) = node.match_prefix(&key[depth..], &|| hold.is_still())?;
            if equal < length {
                return Ok(At { parent, node, hold, depth, place: Place::Apart(equal) });
            }
            let edge = Edge::of(key, depth + length);
            match (node.at(edge), edge) {
                (Child::Node(child), Edge::Byte(byte)) => {
                    let (below, below_hold) = Self::follow(guard, &hold, child)?;
                    parent = Some(Step { node, hold, byte });
                    (node, hold) = (below, below_hold);
                    depth += length + 1;
                }
                (child, _) => {
                    let place = Place::Slot { edge, child, depth: depth + length + edge.length() };
                    return Ok(At { parent, node, hold, depth, place });
                }
            }
        }
    }
}

/// Returns the observation of a node, if everything read from it since is consistent.
#[inline]
fn believed<'g>(node: NodeRef<'g>, hold: &impl Hold<'g>) -> Result<LeafSeen, Torn> {
    let coverage = &node.header().coverage;
    let removed = coverage.removed();
    if !hold.is_still() {
        return Err(Torn);
    }
    Ok(LeafSeen { leaf: LeafPtr::of(coverage), version: hold.seen().phantom(), removed })
}

impl<S: Synchronization> Drop for Art<S> {
    fn drop(&mut self) {
        let mut below = vec![self.root];
        while let Some(node) = below.pop() {
            // SAFETY: no other thread has the tree, and it is not used again.
            unsafe { NodeRef::new(node).free(&mut below) };
        }
    }
}
