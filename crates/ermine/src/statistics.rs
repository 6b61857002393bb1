//! Counters and sizes of a database, for its users.

use std::time::Duration;

use crate::error::AbortKind;

/// Counters since the database was opened, and its present sizes.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Committed transactions.
    pub commits: u64,
    /// Aborted attempts, in the order of [`crate::AbortKind::ALL`].
    pub aborts: [u64; AbortKind::ALL.len()],
    /// Bytes of memory that the database has taken, in use or kept for reuse ([`crate::Options::memory_limit`]).
    pub memory_taken: u64,
    /// Bytes of memory that the database may take.
    pub memory_limit: u64,
    /// Bytes taken for versions, in use or free for new ones.
    pub version_bytes: u64,
    /// Those of them that are free.
    pub free_version_bytes: u64,
    /// Bytes of indirection arrays in use.
    pub row_bytes: u64,
    /// Rows whose superseded versions have not been freed yet, as of each worker's last housekeeping.
    pub garbage_versions: u64,
    /// Age of the newest safe snapshot, where one has been taken.
    pub snapshot_age: Option<Duration>,
    /// Rows that are in files only: they were evicted, or not read since the database was opened.
    pub unloaded_rows: u64,
    /// Rows that were evicted from memory, each time.
    pub evicted_rows: u64,
    /// Rows that were read from files because a transaction asked for them.
    pub cold_reads: u64,
    /// Checkpoints made since the database was opened.
    pub checkpoints: u64,
    /// Why the last checkpoint in the background failed, if it did, or why a file that should be removed was not: it
    /// could not be archived.
    pub checkpoint_failure: Option<String>,
    /// Bytes written to the log.
    pub log_bytes: u64,
    /// Number of times that the log was made durable; `log_bytes` divided by it is the average size of a group commit.
    pub log_flushes: u64,
}
