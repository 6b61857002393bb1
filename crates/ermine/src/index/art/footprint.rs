//! Memory usage of a tree.

use super::{Art, Child, Footprint, Hold, NodeRef, Synchronization, Torn};
use crate::epoch::Guard;

impl<S: Synchronization> Art<S> {
    /// Walks the whole tree. A node that is removed meanwhile is not counted, nor is its replacement.
    pub(crate) fn footprint(&self, guard: &Guard<'_>) -> Footprint {
        S::reading(&self.latch, || {
            let mut sum = Footprint::default();
            let (root, _) = self.observe_root(guard);
            let mut nodes = vec![root];
            while let Some(node) = nodes.pop() {
                let known = nodes.len();
                loop {
                    match measure(node, self, guard, &mut nodes) {
                        Ok(Some(one)) => break sum += one,
                        Ok(None) => break,
                        Err(Torn) => nodes.truncate(known),
                    }
                }
            }
            sum
        })
    }
}

/// Measures one node, and adds its children to `others`; `None`: it is dead.
fn measure<'g, S: Synchronization>(
    node: NodeRef<'g>,
    _tree: &Art<S>,
    _guard: &'g Guard<'_>,
    others: &mut Vec<NodeRef<'g>>,
) -> Result<Option<Footprint>, Torn> {
    let Some(hold) = S::observe(&node.header().coverage.version) else { return Ok(None) };
    let mut sum = Footprint { inner_nodes: 1, ..Footprint::default() };
    for child in node.children().map(|(_, child)| child).chain([node.header().end()]) {
        match child {
            Child::Nothing => {}
            Child::Short(_) | Child::Long(_) => sum.entries += 1,
            Child::Node(child) => {
                if !hold.is_still() {
                    return Err(Torn);
                }
                // SAFETY: node.rs, invariant 4: the node was unchanged after it named this child.
                others.push(unsafe { NodeRef::new(child) });
            }
        }
    }
    (sum.node_bytes, sum.long_key_bytes) = node.measure(&|| hold.is_still())?;
    if hold.is_still() { Ok(Some(sum)) } else { Err(Torn) }
}
