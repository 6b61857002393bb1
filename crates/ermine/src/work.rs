//! The work that a transaction has done so far, in numbers.
//!
//! Rows and versions are counted as they are read, by plain additions to a part of the worker's state that a read
//! already has in its cache. Tracked reads and bytes of the log are computed on request, from the lists that the
//! transaction keeps.

/// The work that a transaction has done so far: [`crate::Transaction::work`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Rows that point reads and scans have inspected, whether the transaction sees them or not; a row that is read
    /// twice counts twice. A scan inspects up to 16 rows at a time. Keys that do not exist are not counted, nor are
    /// rows that are only written.
    pub rows_read: u64,
    /// Versions that were skipped before the ones that the transaction sees: newer versions, and those of transactions
    /// that have not committed. 0 under single-version schemes.
    pub versions_walked: u64,
    /// Reads that are kept to be checked again, or published, at commit. There are none where the transaction asked for
    /// less than a serializable scheme promises, where a long transaction reads without leaving a trace, and under
    /// schemes that do not keep reads. Ranges are not counted.
    pub tracked_reads: u64,
    /// Bytes of the records that the writes will leave in the log, without the overhead of the commit as a whole. 0 in
    /// memory.
    pub log_bytes: u64,
}

impl Work {
    /// Returns the work done after `earlier`. Several writes of the same row leave one record: a number of bytes that
    /// has decreased counts as 0.
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

/// The numbers that are counted during operations.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) rows_read: u64,
    pub(crate) versions_walked: u64,
}
