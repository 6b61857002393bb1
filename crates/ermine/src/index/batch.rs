//! The entries of one leaf that a scan returns.

use super::key::{HEAD, Word};
use crate::ids::RowId;
use std::ops::Range;

/// Rows and keys, packed; reused, so that scans do not allocate.
#[derive(Default)]
pub(crate) struct Batch {
    entries: Vec<Entry>,
    /// The keys, one after the other. Longer than the used part: keys are copied a word at a time, whatever their
    /// length.
    bytes: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Entry {
    row: RowId,
    /// The place of the key in `bytes`.
    start: u32,
    length: u32,
}

impl Entry {
    #[inline]
    fn span(&self) -> Range<usize> {
        self.start as usize..self.start as usize + self.length as usize
    }
}

impl Batch {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline]
    pub(crate) fn row(&self, index: usize) -> RowId {
        self.entries[index].row
    }

    #[inline]
    pub(crate) fn key(&self, index: usize) -> &[u8] {
        &self.bytes[self.key_span(index)]
    }

    /// Returns the rows of some entries.
    pub(crate) fn rows(&self, indexes: Range<usize>) -> impl Iterator<Item = RowId> {
        self.entries[indexes].iter().map(|entry| entry.row)
    }

    /// Returns some keys.
    #[inline]
    pub(crate) fn keys(&self, indexes: Range<usize>) -> impl Iterator<Item = &[u8]> {
        self.key_spans(indexes).map(|span| &self.bytes[span])
    }

    /// Returns the positions of some keys in [`Batch::key_bytes`].
    #[inline]
    pub(crate) fn key_spans(&self, indexes: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        self.entries[indexes].iter().map(Entry::span)
    }

    /// Returns all keys, one after the other.
    pub(crate) fn key_bytes(&self) -> &[u8] {
        &self.bytes[..self.used()]
    }

    /// Returns the position of a key in [`Batch::key_bytes`].
    #[inline]
    pub(crate) fn key_span(&self, index: usize) -> Range<usize> {
        self.entries[index].span()
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Forgets all but the first `length` entries.
    pub(super) fn truncate(&mut self, length: usize) {
        self.entries.truncate(length);
    }

    fn used(&self) -> usize {
        self.entries.last().map_or(0, |last| last.start as usize + last.length as usize)
    }

    /// Adds short entries: the key of each is a common prefix of at most a word (`prefix`, left-aligned), then at most
    /// a word of its own: a head and a word each.
    #[inline]
    pub(super) fn push_short(
        &mut self,
        prefix: u64,
        prefix_length: usize,
        entries: impl ExactSizeIterator<Item = (u64, Word)>,
    ) {
        let (mut at, prefix, prefix_length) = (self.used(), prefix.to_be_bytes(), prefix_length.min(HEAD));
        // The node may be changing: a key may have become a long one.
        let longest = HEAD + Word::SHORT_LENGTH_MAX;
        self.reserve(at + entries.len() * longest + HEAD);
        let bytes = &mut self.bytes[..];
        self.entries.extend(entries.map(|(head, word)| {
            // Whole words, which need no call to copy; the surplus bytes are overwritten by the next entry.
            let (start, key) = (at, &mut bytes[at..at + 2 * HEAD]);
            key[..HEAD].copy_from_slice(&prefix);
            key[prefix_length..prefix_length + HEAD].copy_from_slice(&head.to_be_bytes());
            let length = prefix_length + word.short_length();
            at += length;
            Entry { row: word.short_row(), start: start as u32, length: length as u32 }
        }));
    }

    /// Adds an entry whose key has these two parts.
    pub(super) fn push(&mut self, key: [&[u8]; 2], row: RowId) {
        let start = self.used();
        let middle = start + key[0].len();
        let end = middle + key[1].len();
        self.reserve(end);
        self.bytes[start..middle].copy_from_slice(key[0]);
        self.bytes[middle..end].copy_from_slice(key[1]);
        let small = |number: usize| u32::try_from(number).expect("a leaf's keys are far below 4 GiB");
        self.entries.push(Entry { row, start: small(start), length: small(end) - small(start) });
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
}
