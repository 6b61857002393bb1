//! The B+-tree, with optimistic lock coupling.
//!
//! Readers write nothing shared: they take a node's version, read, and check the version again (`version.rs`). Writers
//! lock the one to four nodes they change. Leaves are wide, with word-sized key heads from which the common prefix is
//! cut (`keys.rs`, `key.rs`), and linked both ways.
//!
//! One file per operation: [`get`], [`insert`] with [`split`], [`remove`] with [`unlink`], [`scan`], [`bulk`],
//! [`footprint`]. Start with [`descend`](BTree::try_descend) below.
//!
//! Why a descent is correct: a node's range shrinks only by its own split, which changes its version; every other
//! change (absorbing a neighbour's range) makes it grow. So if the parent was unchanged from naming the child until the
//! child's version was taken, and the parent was responsible for the key then, the child is responsible for it now.
//!
//! Invariant, besides those of every index: neither unlinking an empty leaf nor giving a node another prefix voids an
//! observation.
//!
//! Tried and rejected: see docs/decisions/0001-index.md. References: Leis et al., "The ART of Practical
//! Synchronization" (DaMoN 2016); Mao et al., "Cache Craftiness for Fast Multicore Key-Value Storage" (EuroSys 2012);
//! Graefe, "Modern B-Tree Techniques" (2011), 3.5 and 3.6.

mod bulk;
mod entries;
mod footprint;
mod get;
mod insert;
mod keys;
mod node;
mod remove;
mod scan;
mod split;
mod unlink;

pub(crate) use self::{get::Approach, scan::Cursor};

use self::node::{Inner, Leaf, NodePtr, Target};
use super::{
    Direction, Footprint, Insert, Inserted, LeafPtr, LeafSeen, LeafVersion, Lookup, batch,
    key::{self, LongKey},
    version::{self, Seen, Torn, Version},
};
use crate::{
    epoch::Guard,
    ids::Stamp,
    sync::{AtomicPtr, Ordering},
};
use std::ptr::NonNull;

/// Nodes are aligned to 64 bytes: the root word stores the height of the tree in the bits below.
const LEVEL_MASK: usize = 63;

/// An ordered concurrent map from key bytes to rows.
pub(crate) struct BTree {
    /// The root, and in its low bits its level: 0 for a leaf.
    root: AtomicPtr<Version>,
}

// SAFETY: the tree is shared by means of atomics; the tree alone owns what it points to.
unsafe impl Send for BTree {}
// SAFETY: as above.
unsafe impl Sync for BTree {}

/// A leaf and its version, at the end of the descent of a reader or writer.
struct At<'g> {
    leaf: &'g Leaf,
    seen: Seen,
}

/// An inner node on that descent, and the child that it continued with.
#[derive(Clone, Copy)]
struct Step<'g> {
    inner: &'g Inner,
    seen: Seen,
    index: usize,
    level: usize,
}

impl BTree {
    /// Creates an empty index.
    pub(super) fn new() -> Self {
        Self::from_root(Leaf::create(LeafVersion::FIRST, Stamp::ZERO, Stamp::ZERO).as_node(), 0)
    }

    fn from_root(root: NodePtr, level: usize) -> Self {
        Self { root: AtomicPtr::new(tag(root, level)) }
    }

    /// Descends to the leaf that is responsible for `target`, calling `pass` for each inner node on the path.
    #[inline]
    fn try_descend<'g>(
        &self,
        guard: &'g Guard<'_>,
        target: Target<'_>,
        pass: impl FnMut(Step<'g>) -> Result<(), Torn>,
    ) -> Result<At<'g>, Torn> {
        let (node, seen, _) = self.try_descend_to(0, guard, target, pass)?;
        // SAFETY: nodes of level 0 are leaves; alive or retired, the guard keeps them.
        Ok(At { leaf: unsafe { &*node.cast_const().cast() }, seen })
    }

    /// As [`BTree::try_descend`], but not below level `floor`; returns the node and its level, which is lower than
    /// `floor` only if the whole tree is.
    #[inline]
    fn try_descend_to<'g>(
        &self,
        floor: usize,
        _guard: &'g Guard<'_>,
        target: Target<'_>,
        mut pass: impl FnMut(Step<'g>) -> Result<(), Torn>,
    ) -> Result<(NodePtr, Seen, usize), Torn> {
        // Acquire pairs with the Release store of `set_root`.
        let root = self.root.load(Ordering::Acquire);
        let (mut node, mut level) = untag(root);
        // SAFETY: the root is a node; it cannot be freed while the guard is held (node.rs, invariant 4).
        let mut seen = unsafe { &*node }.observe().ok_or(Torn)?;
        // The root is replaced under the old root's lock: if it still is the root now, it was when it was observed.
        if self.root.load(Ordering::Acquire) != root {
            return Err(Torn);
        }
        while level > floor {
            // SAFETY: nodes above level 0 are inner nodes; alive or retired, the guard keeps them.
            let inner: &'g Inner = unsafe { &*node.cast_const().cast() };
            let index = inner.child_index(target, seen)?;
            let child = inner.child(index);
            if level > 1 {
                Inner::prefetch(child.cast_const().cast());
            } else {
                Leaf::prefetch(child.cast_const().cast());
            }
            if !inner.version.is_still(seen) {
                return Err(Torn);
            }
            // SAFETY: the node was unchanged, so it named this child: a node of the tree, kept by the guard.
            let child_seen = unsafe { &*child }.observe().ok_or(Torn)?;
            if !inner.version.is_still(seen) {
                return Err(Torn);
            }
            pass(Step { inner, seen, index, level })?;
            (node, seen) = (child, child_seen);
            level -= 1;
        }
        Ok((node, seen, level))
    }

    /// Replaces the root. The caller holds the lock of the old one.
    fn set_root(&self, root: NodePtr, level: usize) {
        // Release pairs with the Acquire loads of `try_descend`.
        self.root.store(tag(root, level), Ordering::Release);
    }
}

impl At<'_> {
    fn still(&self) -> impl Fn() -> bool + '_ {
        || self.leaf.version().is_still(self.seen)
    }

    /// Returns the observation, if everything read from the leaf since is consistent.
    #[inline]
    fn believed(&self) -> Result<LeafSeen, Torn> {
        let removed = self.leaf.coverage.removed();
        if !self.leaf.version().is_still(self.seen) {
            return Err(Torn);
        }
        Ok(LeafSeen { leaf: LeafPtr::of(&self.leaf.coverage), version: self.seen.phantom(), removed })
    }
}

fn tag(node: NodePtr, level: usize) -> NodePtr {
    debug_assert!(level <= LEVEL_MASK && node.addr() & LEVEL_MASK == 0);
    node.map_addr(|address| address | level)
}

#[inline]
fn untag(root: NodePtr) -> (NodePtr, usize) {
    (root.map_addr(|address| address & !LEVEL_MASK), root.addr() & LEVEL_MASK)
}

impl Drop for BTree {
    fn drop(&mut self) {
        // Relaxed: the thread that drops the tree has it alone.
        let (root, level) = untag(self.root.load(Ordering::Relaxed));
        // SAFETY: no other thread has the tree, and it is not used again.
        unsafe { free_tree(root, level) };
    }
}

/// Frees a node and everything below it.
///
/// # Safety
/// `node` is a node of this level in a tree that no other thread has.
unsafe fn free_tree(node: NodePtr, level: usize) {
    // SAFETY: long keys belong to one place in one tree, which no other thread has.
    let mut discard = |long: *mut LongKey| unsafe {
        LongKey::free(NonNull::new(long).expect("allocated").cast());
    };
    let this = NonNull::new(node).expect("children are nodes").cast::<u8>();
    if level == 0 {
        // SAFETY: the caller promises that it is a leaf.
        let leaf = unsafe { this.cast::<Leaf>().as_ref() };
        leaf.keys.discard_all(&mut discard);
        leaf.upper.discard(&mut discard);
        // SAFETY: as above.
        unsafe { Leaf::free(this) };
        return;
    }
    // SAFETY: the caller promises that it is an inner node.
    let inner = unsafe { this.cast::<Inner>().as_ref() };
    for child in inner.children() {
        // SAFETY: children belong to one parent and are one level below it.
        unsafe { free_tree(child, level - 1) };
    }
    inner.separators.discard_all(&mut discard);
    // SAFETY: as above.
    unsafe { Inner::free(this) };
}
