//! Memory usage of a tree.

use super::{
    BTree, Footprint,
    node::{Inner, Leaf, NodePtr},
    version::{Seen, Torn},
};
use crate::{epoch::Guard, sync::Ordering};

impl BTree {
    /// Walks the whole tree.
    pub(in crate::index) fn footprint(&self, guard: &Guard<'_>) -> Footprint {
        loop {
            let (root, level) = super::untag(self.root.load(Ordering::Acquire));
            if let Ok(footprint) = measure(root, level, guard) {
                return footprint;
            }
        }
    }
}

/// Measures a node and everything below it; a child that changes is measured again.
fn measure(node: NodePtr, level: usize, guard: &Guard<'_>) -> Result<Footprint, Torn> {
    loop {
        // SAFETY: the root, or the child of a node whose read was validated: a node of the tree, kept by the guard.
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
        (sum.leaves, sum.node_bytes) = (1, size_of::<Leaf>());
        sum.entries = leaf.keys.count();
        sum.long_key_bytes = leaf.keys.bytes_outside(&still)? + leaf.upper.bytes_outside(&still)?;
        return if still() { Ok(sum) } else { Err(Torn) };
    }
    // SAFETY: nodes above are inner nodes.
    let inner = unsafe { &*node.cast_const().cast::<Inner>() };
    let still = || inner.version.is_still(seen);
    (sum.inner_nodes, sum.node_bytes) = (1, size_of::<Inner>());
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
