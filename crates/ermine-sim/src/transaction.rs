//! A transaction in flight.

use crate::table::{RecordId, Slot, Stamp, VersionId};

/// The context of a transaction (SSN 4.1, Table 1).
#[derive(Debug)]
pub(crate) struct Transaction {
    /// The stamp of the last commit when it began.
    pub(crate) begin: Stamp,
    /// The safe snapshot that it reads instead of what its scheme shows.
    pub(crate) safe_snapshot: Option<Stamp>,
    /// Versions that it has read, in order, repeated reads included.
    pub(crate) reads: Vec<VersionId>,
    /// Records that it has written, each once.
    pub(crate) writes: Vec<RecordId>,
    /// eta(T), the high watermark of predecessors.
    pub(crate) pstamp: Stamp,
    /// pi(T), the low watermark of successors.
    pub(crate) sstamp: Stamp,
    /// The record that it waits to write.
    pub(crate) queued: Option<RecordId>,
    /// Number of transactions whose end it awaits.
    pub(crate) waits_for: u32,
    /// Transactions that await its end.
    pub(crate) waiters: Vec<Slot>,
}

impl Default for Transaction {
    fn default() -> Self {
        Self {
            begin: Stamp::ZERO,
            safe_snapshot: None,
            reads: Vec::new(),
            writes: Vec::new(),
            pstamp: Stamp::ZERO,
            sstamp: Stamp::INFINITE,
            queued: None,
            waits_for: 0,
            waiters: Vec::new(),
        }
    }
}

impl Transaction {
    /// Prepares the context for its next transaction; keeps its memory.
    pub(crate) fn reset(&mut self, begin: Stamp) {
        debug_assert!(self.waiters.is_empty() && self.waits_for == 0 && self.queued.is_none());
        (self.begin, self.safe_snapshot) = (begin, None);
        (self.pstamp, self.sstamp) = (Stamp::ZERO, Stamp::INFINITE);
        self.reads.clear();
        self.writes.clear();
    }
}
