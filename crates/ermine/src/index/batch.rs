//! The entries of one leaf that a scan returns.

use super::key::{HEAD, Word};
use crate::ids::RowId;

/// Rows and keys, packed; reused, so that scans do not allocate.
#[derive(Default)]
pub(crate) struct Batch {
    rows: Vec<RowId>,
    /// The end of each key in `bytes`.
    ends: Vec<u32>,
    /// Longer than the used part: keys are copied eight bytes at a time, whatever their length.
    bytes: Vec<u8>,
}

/// The part of an entry that is in the node itself.
pub(super) struct Short<'n> {
    pub(super) prefix: &'n [u8],
    /// The same, left-aligned, if it has no more bytes than a word.
    pub(super) prefix_word: u64,
    pub(super) head: u64,
    pub(super) word: Word,
}

impl Batch {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn row(&self, index: usize) -> RowId {
        self.rows[index]
    }

    pub(crate) fn key(&self, index: usize) -> &[u8] {
        &self.bytes[self.key_span(index)]
    }

    /// Returns all keys, one after the other.
    pub(crate) fn key_bytes(&self) -> &[u8] {
        &self.bytes[..self.used()]
    }

    /// Returns the position of a key in [`Batch::key_bytes`].
    pub(crate) fn key_span(&self, index: usize) -> std::ops::Range<usize> {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        start as usize..self.ends[index] as usize
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.ends.clear();
    }

    /// Forgets all but the first `length` entries.
    pub(super) fn truncate(&mut self, length: usize) {
        self.rows.truncate(length);
        self.ends.truncate(length);
    }

    fn used(&self) -> usize {
        self.ends.last().map_or(0, |&end| end as usize)
    }

    #[inline]
    pub(super) fn push_short(&mut self, short: &Short<'_>) {
        let start = self.used();
        let at = start + short.prefix.len();
        self.reserve(at + 2 * HEAD);
        // Whole words, which need no call to copy; the surplus bytes are overwritten by the next entry.
        if short.prefix.len() <= HEAD {
            self.bytes[start..start + HEAD].copy_from_slice(&short.prefix_word.to_be_bytes());
        } else {
            self.bytes[start..at].copy_from_slice(short.prefix);
        }
        self.bytes[at..at + HEAD].copy_from_slice(&short.head.to_be_bytes());
        self.finish(at + short.word.short_length(), short.word.short_row());
    }

    #[inline]
    pub(super) fn push_long(&mut self, key: &[u8], row: RowId) {
        let start = self.used();
        self.reserve(start + key.len());
        self.bytes[start..start + key.len()].copy_from_slice(key);
        self.finish(start + key.len(), row);
    }

    #[inline]
    fn reserve(&mut self, end: usize) {
        if end > self.bytes.len() {
            self.grow(end);
        }
    }

    #[cold]
    fn grow(&mut self, end: usize) {
        self.bytes.resize(end.next_power_of_two().max(1024), 0);
    }

    #[inline]
    fn finish(&mut self, end: usize, row: RowId) {
        self.ends.push(u32::try_from(end).expect("a leaf's keys are far below 4 GiB"));
        self.rows.push(row);
    }
}
