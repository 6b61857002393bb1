//! What an index takes of memory.

use super::{
    Index,
    keys::Torn,
    node::{Inner, Leaf, NodePtr},
    version::Seen,
};
use crate::{epoch::Guard, sync::Ordering};
use std::ops::AddAssign;

/// Counts of what is in the tree; not of one moment if others write meanwhile.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Footprint {
    pub(crate) entries: usize,
    pub(crate) leaves: usize,
    pub(crate) inner_nodes: usize,
    /// Bytes of keys that do not fit into the nodes.
    pub(crate) long_key_bytes: usize,
}

impl Footprint {
    /// All bytes, without what the allocator adds.
    pub(crate) fn bytes(&self) -> usize {
        self.leaves * size_of::<Leaf>() + self.inner_nodes * size_of::<Inner>() + self.long_key_bytes
    }
}

impl AddAssign for Footprint {
    fn add_assign(&mut self, other: Self) {
        self.entries += other.entries;
        self.leaves += other.leaves;
        self.inner_nodes += other.inner_nodes;
        self.long_key_bytes += other.long_key_bytes;
    }
}

impl Index {
    /// Walks the whole tree.
    pub(crate) fn footprint(&self, guard: &Guard<'_>) -> Footprint {
        loop {
            let (root, level) = super::untag(self.root.load(Ordering::Acquire));
            if let Ok(footprint) = measure(root, level, guard) {
                return footprint;
            }
        }
    }
}

/// Measures a node and what is below it; a child that changes is measured again.
fn measure(node: NodePtr, level: usize, guard: &Guard<'_>) -> Result<Footprint, Torn> {
    loop {
        // SAFETY: the root, or the child of a node that was believed: a node of the tree, kept by the guard.
        let seen = unsafe { &*node }.observe().ok_or(Torn)?;
        // SAFETY: as above.
        let measured = unsafe { measure_once(node, seen, level, guard) };
        match measured {
            Err(Torn) => {}
            measured => return measured,
        }
    }
}

/// # Safety
/// `node` is a node of this level, kept by the guard.
unsafe fn measure_once(node: NodePtr, seen: Seen, level: usize, guard: &Guard<'_>) -> Result<Footprint, Torn> {
    let mut sum = Footprint::default();
    if level == 0 {
        // SAFETY: nodes of level 0 are leaves.
        let leaf = unsafe { &*node.cast_const().cast::<Leaf>() };
        let still = || leaf.version().is_still(seen);
        sum.leaves = 1;
        sum.entries = leaf.keys.count();
        sum.long_key_bytes = leaf.keys.bytes_outside(&still)? + leaf.upper.bytes_outside(&still)?;
        return if still() { Ok(sum) } else { Err(Torn) };
    }
    // SAFETY: nodes above are inner nodes.
    let inner = unsafe { &*node.cast_const().cast::<Inner>() };
    let still = || inner.version.is_still(seen);
    sum.inner_nodes = 1;
    sum.long_key_bytes = inner.separators.bytes_outside(&still)?;
    for index in 0..=inner.separators.count() {
        let child = inner.child(index);
        if !still() {
            return Err(Torn);
        }
        sum += measure(child, level - 1, guard)?;
    }
    if still() { Ok(sum) } else { Err(Torn) }
}
