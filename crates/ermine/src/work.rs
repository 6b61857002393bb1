//! What a transaction has done so far, in numbers.
//!
//! Rows and versions are counted as they are read, by plain additions to a part of the worker's state that a read has in its cache
//! anyway. Reads that are tracked and bytes of the log are found out from the lists that the transaction keeps, when somebody asks.

/// What a transaction has done so far: [`crate::Transaction::work`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Rows that were looked at by point reads and scans, whether the transaction sees them or not; one that is read twice counts twice. A
    /// scan looks at up to 16 rows at a time. Keys that nobody has do not count, nor do rows that are only written.
    pub rows_read: u64,
    /// Versions that were passed over on the way to those that the transaction sees: newer ones, and ones of transactions that
    /// have not committed. 0 under single-version schemes.
    pub versions_walked: u64,
    /// Reads that are kept to be looked at again, or made known, at commit. None are where the transaction asked for less than a serializable scheme
    /// promises, where a long one reads without leaving a trace, and under schemes that do not keep reads. Ranges are not counted.
    pub tracked_reads: u64,
    /// Bytes of the records that its writes will leave in the log, without what belongs to the commit as a whole. 0 in memory.
    pub log_bytes: u64,
}

impl Work {
    /// What came after `earlier`. What a transaction writes over itself leaves one record: bytes that became fewer are none.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            rows_read: self.rows_read.saturating_sub(earlier.rows_read),
            versions_walked: self.versions_walked.saturating_sub(earlier.versions_walked),
            tracked_reads: self.tracked_reads.saturating_sub(earlier.tracked_reads),
            log_bytes: self.log_bytes.saturating_sub(earlier.log_bytes),
        }
    }
}

/// What is counted on the way.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) rows_read: u64,
    pub(crate) versions_walked: u64,
}
