//! What an index takes of memory.

use std::ops::AddAssign;

/// Counts of what is in the index; not of one moment if others write meanwhile.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Footprint {
    pub(crate) entries: usize,
    pub(crate) leaves: usize,
    pub(crate) inner_nodes: usize,
    /// Bytes of leaves and inner nodes.
    pub(crate) node_bytes: usize,
    /// Bytes of keys that do not fit into the nodes.
    pub(crate) long_key_bytes: usize,
}

impl Footprint {
    /// All bytes, without what the allocator adds.
    pub(crate) fn bytes(&self) -> usize {
        self.node_bytes + self.long_key_bytes
    }
}

impl AddAssign for Footprint {
    fn add_assign(&mut self, other: Self) {
        self.entries += other.entries;
        self.leaves += other.leaves;
        self.inner_nodes += other.inner_nodes;
        self.node_bytes += other.node_bytes;
        self.long_key_bytes += other.long_key_bytes;
    }
}
