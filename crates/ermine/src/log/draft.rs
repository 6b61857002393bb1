//! The private half of logging: a worker puts together what its transaction leaves in the log, before it takes its place
//! (ERMIA 3.2: records are kept privately, and go to the log in one block).
//!
//! What is too much for one block is handed out on the way as overflow blocks, each of which names the one before; the
//! commit block names the last. A transaction of any size therefore needs one block's worth of memory here.

use super::{
    block::{BlockKind, Body},
    chains::Part,
    lsn::{Lsn, Space},
    record::Record,
};

/// Bytes of a block, about.
const BLOCK_BYTES: usize = 256 << 10;
/// Bytes of the shortest descriptor of a row in the cold store: tag, row, stamp, length.
const RECORD_BYTES_MIN: usize = 4;

/// A block in the making.
pub(crate) struct Draft {
    /// Bytes, and rows, from which on it is handed out.
    block_bytes: usize,
    block_rows: usize,
    descriptors: Vec<u8>,
    payload: Vec<u8>,
    rows: usize,
    /// The overflow blocks handed out before.
    before: Vec<Part>,
    /// Rows in them.
    rows_before: u64,
}

impl Draft {
    /// Drafts for a log with a buffer of `ring_bytes`: blocks must leave room for others in it.
    pub(crate) fn of_log(ring_bytes: u64) -> Self {
        Self::new((ring_bytes / 4).min(BLOCK_BYTES as u64) as usize, Space::Log.records_max())
    }

    /// Drafts for the cold store. Some rows may still come when one is full: so many addresses are left.
    pub(crate) fn of_cold_store() -> Self {
        const _: () = assert!(BLOCK_BYTES / RECORD_BYTES_MIN < Space::Cold.records_max() / 2);
        Self::new(BLOCK_BYTES, Space::Cold.records_max() / 2)
    }

    fn new(block_bytes: usize, block_rows: usize) -> Self {
        Self {
            block_bytes,
            block_rows,
            descriptors: Vec::new(),
            payload: Vec::new(),
            rows: 0,
            before: Vec::new(),
            rows_before: 0,
        }
    }

    /// Begins a transaction.
    pub(crate) fn begin(&mut self) {
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

    /// Rows in the block in the making.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Whether overflow blocks have been handed out.
    pub(crate) fn is_chain(&self) -> bool {
        !self.before.is_empty()
    }

    /// All parts of a chain that ends with a commit block at `lsn`.
    pub(crate) fn parts(&self, lsn: Lsn) -> Vec<Part> {
        let last = Part { rows_before: self.rows_before, block: lsn };
        self.before.iter().copied().chain([last]).collect()
    }

    /// Names the overflow block before, where there is one. Once a block, when all its records are there.
    pub(crate) fn chain(&mut self) {
        if let Some(last) = self.before.last() {
            Record::Chain { before: last.block.word(), rows_before: self.rows_before }.write(&mut self.descriptors);
        }
    }

    /// What there is so far.
    pub(crate) fn body(&self, kind: BlockKind) -> Body<'_> {
        Body { kind, descriptors: &self.descriptors, payload: &self.payload }
    }

    /// What there is has gone to an overflow block at `lsn`.
    pub(crate) fn spilled(&mut self, lsn: Lsn) {
        self.before.push(Part { rows_before: self.rows_before, block: lsn });
        self.rows_before += self.rows as u64;
        self.clear();
    }

    /// Gives back what a large transaction needed.
    pub(crate) fn end(&mut self) {
        const KEPT: usize = 1 << 20;
        if self.payload.capacity() + self.descriptors.capacity() > KEPT {
            self.payload = Vec::new();
            self.descriptors = Vec::new();
        }
    }
}
