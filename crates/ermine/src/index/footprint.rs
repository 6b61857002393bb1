//! Memory usage of an index.

use std::ops::AddAssign;

/// Counts of an index's content; not of one moment if other threads write meanwhile.
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
    /// Returns all bytes, without the allocator's overhead.
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
