//! Building an index from sorted entries, bottom up.

use super::{
    BTree,
    entries::Entries,
    node::{INNER_KEYS, Inner, LEAF_KEYS, Leaf, NodePtr},
    split::{link_right, separator},
};
use crate::{
    epoch::Guard,
    ids::{RowId, Stamp},
};
use std::ptr;

/// Entries per leaf: nine tenths, so that the first inserts after loading do not split every leaf.
const LEAF_FILL: usize = LEAF_KEYS * 9 / 10;
/// Children per inner node.
const INNER_FILL: usize = INNER_KEYS * 9 / 10;

/// The nodes of one level, each with the separator to its left (the first one's is not used).
type Level = Vec<(Vec<u8>, NodePtr)>;

impl BTree {
    /// Builds an index from entries in strictly ascending order of their keys.
    ///
    /// # Panics
    /// If the keys are not in strictly ascending order.
    pub(in crate::index) fn bulk_load<K: AsRef<[u8]>>(
        guard: &Guard<'_>,
        entries: impl IntoIterator<Item = (K, RowId)>,
    ) -> Self {
        let mut leaves = Level::new();
        let mut pending = Entries::with_room_for(LEAF_FILL);
        let mut before = Vec::new();
        for (key, row) in entries {
            let key = key.as_ref();
            assert!(key.len() <= super::key::KEY_LENGTH_MAX, "a key of {} bytes is too long for the index", key.len());
            super::key::assert_row_fits(row);
            if pending.len() > 0 {
                assert!(pending.key(pending.len() - 1) < key, "entries must be in strictly ascending order");
            }
            if pending.len() == LEAF_FILL {
                let boundary = separator(pending.key(pending.len() - 1), key).to_vec();
                add_leaf(guard, &mut leaves, &pending, std::mem::replace(&mut before, boundary));
                pending.clear();
            }
            pending.push(key, row, ptr::null_mut());
        }
        if pending.len() == 0 {
            return Self::new();
        }
        add_leaf(guard, &mut leaves, &pending, before);
        let (mut nodes, mut level) = (leaves, 0);
        while nodes.len() > 1 {
            nodes = nodes.chunks(INNER_FILL).map(|children| add_inner(guard, children)).collect();
            level += 1;
        }
        Self::from_root(nodes[0].1, level)
    }
}

/// Fills a leaf and links it to the previous one.
fn add_leaf(guard: &Guard<'_>, leaves: &mut Level, entries: &Entries, boundary: Vec<u8>) {
    let leaf = Leaf::create(super::LeafVersion::FIRST, Stamp::ZERO, Stamp::ZERO);
    guard.allocated(Leaf::BYTES);
    leaf.keys.fill(entries, 0..entries.len(), guard);
    if let Some(&(_, previous)) = leaves.last() {
        // SAFETY: created by this function, and no other thread has it yet.
        let previous = unsafe { &*previous.cast_const().cast::<Leaf>() };
        previous.upper.set(&boundary, guard);
        link_right(previous, leaf);
    }
    leaves.push((boundary, leaf.as_node()));
}

/// Creates a parent.
fn add_inner(guard: &Guard<'_>, children: &[(Vec<u8>, NodePtr)]) -> (Vec<u8>, NodePtr) {
    let inner = Inner::create();
    let mut separators = Entries::with_room_for(children.len());
    for (separator, _) in &children[1..] {
        separators.push(separator, RowId(0), ptr::null_mut());
    }
    guard.allocated(Inner::BYTES);
    inner.separators.fill(&separators, 0..separators.len(), guard);
    inner.set_children(&children.iter().map(|&(_, child)| child).collect::<Vec<_>>());
    (children[0].0.clone(), inner.as_node())
}
