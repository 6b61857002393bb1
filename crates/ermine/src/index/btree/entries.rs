//! The entries of a node, copied out while it is split or given another prefix.

use super::key::{LongKey, Word};
use crate::ids::RowId;
use std::{ops::Range, ptr};

/// Keys with their rows (in an inner node: separators, rows unused), in order. The bytes are in any order.
pub(super) struct Entries {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

struct Entry {
    key: Range<usize>,
    row: RowId,
    /// The key's existing allocation outside of the node; null if there is none.
    long: *mut LongKey,
}

impl Entries {
    pub(super) fn with_room_for(count: usize) -> Self {
        Self { bytes: Vec::with_capacity(count * 12), entries: Vec::with_capacity(count) }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn push(&mut self, key: &[u8], row: RowId, long: *mut LongKey) {
        self.insert(self.len(), key, row, long);
    }

    /// Adds an entry as it is stored in a node.
    pub(super) fn push_short(&mut self, prefix: &[u8], head: u64, word: Word) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(prefix);
        self.bytes.extend_from_slice(&head.to_be_bytes()[..word.short_length()]);
        self.entries.push(Entry { key: start..self.bytes.len(), row: word.short_row(), long: ptr::null_mut() });
    }

    pub(super) fn insert(&mut self, index: usize, key: &[u8], row: RowId, long: *mut LongKey) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.entries.insert(index, Entry { key: start..self.bytes.len(), row, long });
    }

    pub(super) fn key(&self, index: usize) -> &[u8] {
        &self.bytes[self.entries[index].key.clone()]
    }

    pub(super) fn get(&self, index: usize) -> (&[u8], RowId, *mut LongKey) {
        let entry = &self.entries[index];
        (&self.bytes[entry.key.clone()], entry.row, entry.long)
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }
}
