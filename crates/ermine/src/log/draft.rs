//! The private half of logging: a worker assembles its transaction's log records before it takes a place in the log
//! (ERMIA 3.2: records are kept privately, and go to the log in one block).
//!
//! Records beyond one block are handed out during the transaction as overflow blocks, each of which names the one
//! before; the commit block names the last. A transaction of any size therefore needs one block's worth of memory here.

use super::{
    block::{BlockKind, Body},
    chains::Part,
    lsn::{Lsn, Space},
    record::Record,
};

/// Approximate size of a block in bytes, at most: a row that has left memory is read with its whole block.
const BLOCK_BYTES: usize = 16 << 10;
/// Bytes of the shortest descriptor of a row in the cold store: tag, row, stamp, length.
const RECORD_BYTES_MIN: usize = 4;

/// A block under construction.
pub(crate) struct Draft {
    /// Numbers of bytes and of rows from which on the block is handed out.
    block_bytes: usize,
    block_rows: usize,
    /// Whether the records have the keys of all rows that are updated or deleted.
    has_keys: bool,
    descriptors: Vec<u8>,
    payload: Vec<u8>,
    rows: usize,
    /// The overflow blocks that were handed out before.
    before: Vec<Part>,
    /// Number of rows in those blocks.
    rows_before: u64,
}

impl Draft {
    /// Drafts for a log with a buffer of `ring_bytes`: blocks must leave room for others in it.
    pub(crate) fn of_log(ring_bytes: u64) -> Self {
        Self::new((ring_bytes / 4).min(BLOCK_BYTES as u64) as usize, Space::Log.records_max())
    }

    /// Drafts for the cold store. More rows may be added after a draft is full: half of the addresses of a block are
    /// left for them.
    pub(crate) fn of_cold_store() -> Self {
        const _: () = assert!(BLOCK_BYTES / RECORD_BYTES_MIN < Space::Cold.records_max() / 2);
        Self::new(BLOCK_BYTES, Space::Cold.records_max() / 2)
    }

    fn new(block_bytes: usize, block_rows: usize) -> Self {
        Self {
            block_bytes,
            block_rows,
            has_keys: false,
            descriptors: Vec::new(),
            payload: Vec::new(),
            rows: 0,
            before: Vec::new(),
            rows_before: 0,
        }
    }

    /// Begins a transaction; the keys of all rows that it updates or deletes will be added where it `has_keys`.
    pub(crate) fn begin(&mut self, has_keys: bool) {
        self.has_keys = has_keys;
        self.before.clear();
        self.rows_before = 0;
        self.clear();
    }

    fn clear(&mut self) {
        self.rows = 0;
        self.descriptors.clear();
        self.payload.clear();
    }

    /// Adds a record and its payload.
    pub(crate) fn add(&mut self, record: &Record<'_>, payload: &[u8]) {
        assert_eq!(
            record.payload().map_or(0, |payload| payload.length),
            payload.len(),
            "another length than is written"
        );
        record.write(&mut self.descriptors);
        self.payload.extend_from_slice(payload);
        self.rows += usize::from(record.is_row());
    }

    /// Whether the block is as long as blocks should be.
    pub(crate) fn is_full(&self) -> bool {
        self.rows >= self.block_rows || self.descriptors.len() + self.payload.len() >= self.block_bytes
    }

    /// Returns the number of rows in the block under construction.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Whether overflow blocks have been handed out.
    pub(crate) fn is_chain(&self) -> bool {
        !self.before.is_empty()
    }

    /// Returns all parts of a chain that ends with a commit block at `lsn`.
    pub(crate) fn parts(&self, lsn: Lsn) -> Vec<Part> {
        let last = Part { rows_before: self.rows_before, block: lsn };
        self.before.iter().copied().chain([last]).collect()
    }

    /// Names the overflow block before, if there is one. Called once per block, after its last record.
    pub(crate) fn chain(&mut self) {
        if let Some(last) = self.before.last() {
            Record::Chain { before: last.block.word(), rows_before: self.rows_before }.write(&mut self.descriptors);
        }
    }

    /// Returns the content of the block so far.
    pub(crate) fn body(&self, kind: BlockKind) -> Body<'_> {
        Body { kind, has_keys: self.has_keys, descriptors: &self.descriptors, payload: &self.payload }
    }

    /// Notes that the content so far has gone to an overflow block at `lsn`, and begins the next block.
    pub(crate) fn spilled(&mut self, lsn: Lsn) {
        self.before.push(Part { rows_before: self.rows_before, block: lsn });
        self.rows_before += self.rows as u64;
        self.clear();
    }

    /// Frees the memory that a large transaction needed.
    pub(crate) fn end(&mut self) {
        const KEPT: usize = 1 << 20;
        if self.payload.capacity() + self.descriptors.capacity() > KEPT {
            self.payload = Vec::new();
            self.descriptors = Vec::new();
        }
    }
}
