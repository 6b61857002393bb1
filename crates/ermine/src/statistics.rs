//! Counters and sizes of a database, for its users and for programs that watch it.

use std::time::Duration;

use crate::{
    counters::{Aborts, WorkerCounters},
    latency::Latencies,
};

/// Counters since the database was opened, and its present sizes: [`crate::Database::statistics`].
///
/// ```
/// # use ermine::{AbortKind, Database, Options};
/// let db = Database::open_in_memory(Options::default())?;
/// let names = db.table::<u64, String>("names")?;
/// let before = db.statistics();
/// db.run(|txn| txn.insert(&names, &1, "ann"))?;
/// let after = db.statistics();
/// assert_eq!(after.commits - before.commits, 1);
/// assert_eq!(after.aborts[AbortKind::WriteConflict], 0);
/// # Ok::<_, ermine::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Committed transactions.
    pub commits: u64,
    /// Aborted attempts, by the rule that was broken.
    pub aborts: Aborts,
    /// Rows that transactions have inspected ([`crate::Work::rows_read`]), as of the ends of the transactions.
    pub rows_read: u64,
    /// Versions that were skipped before the ones that transactions saw ([`crate::Work::versions_walked`]), likewise.
    pub versions_walked: u64,
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
    /// Operations that keep the current epoch from ending, and so superseded versions from being freed; a few at a busy
    /// moment. [`crate::Database::stragglers`] describes them.
    pub stragglers: u64,
    /// Rows that are in files only: they were evicted, or not read since the database was opened.
    pub unloaded_rows: u64,
    /// Rows that were evicted from memory, each time.
    pub evicted_rows: u64,
    /// Rows that were read from files because a transaction asked for them.
    pub cold_reads: u64,
    /// The times of the checkpoints made since the database was opened.
    pub checkpoints: Latencies,
    /// Why the last checkpoint in the background failed, if it did, or why a file that should be removed was not: it
    /// could not be archived.
    pub checkpoint_failure: Option<String>,
    /// Bytes written to the log.
    pub log_bytes: u64,
    /// The times in which groups of commits were written to the log and made durable; `log_bytes` divided by their
    /// count is the average size of a group.
    pub log_flushes: Latencies,
    /// Bytes of the log that are durable here and not yet elsewhere, where commits are held for that
    /// ([`crate::LogReader::hold_commits`]).
    pub held_log_bytes: Option<u64>,
}

/// A number of [`Statistics`] with its name: [`Statistics::metrics`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Metric<'a> {
    /// A name in Prometheus's style, with its unit: `ermine_log_bytes_total`.
    pub name: &'static str,
    /// A label that tells metrics of one name apart, with its value.
    pub label: Option<(&'static str, &'static str)>,
    /// A description in one sentence.
    pub help: &'static str,
    /// The number.
    pub value: MetricValue<'a>,
}

/// The value of a [`Metric`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum MetricValue<'a> {
    /// A number that only grows while the database is open.
    Counter(u64),
    /// A present size.
    Gauge(f64),
    /// Durations.
    Latencies(&'a Latencies),
}

impl Statistics {
    /// Returns all numbers with their names, for an exporter; metrics of one name stand side by side.
    pub fn metrics(&self) -> Vec<Metric<'_>> {
        use MetricValue::{Counter, Gauge};
        let aborts = self.aborts.iter().map(|(kind, count)| Metric {
            name: "ermine_aborts_total",
            label: Some(("cause", kind.name())),
            help: "Attempts of transactions that lost a conflict, by the rule that was broken.",
            value: Counter(count),
        });
        let metric = |name, help, value| Metric { name, label: None, help, value };
        let mut metrics = vec![metric("ermine_commits_total", "Committed transactions.", Counter(self.commits))];
        metrics.extend(aborts);
        metrics.extend([
            metric("ermine_rows_read_total", "Rows that transactions inspected.", Counter(self.rows_read)),
            metric(
                "ermine_versions_walked_total",
                "Versions skipped before the ones that transactions saw.",
                Counter(self.versions_walked),
            ),
            metric("ermine_memory_taken_bytes", "Memory taken, of all parts.", Gauge(self.memory_taken as f64)),
            metric("ermine_memory_limit_bytes", "Memory that may be taken.", Gauge(self.memory_limit as f64)),
            metric("ermine_version_bytes", "Memory taken for versions of rows.", Gauge(self.version_bytes as f64)),
            metric(
                "ermine_version_free_bytes",
                "Memory taken for versions that is free for new ones.",
                Gauge(self.free_version_bytes as f64),
            ),
            metric("ermine_row_array_bytes", "Memory of indirection arrays.", Gauge(self.row_bytes as f64)),
            metric(
                "ermine_garbage_rows",
                "Rows whose superseded versions are not freed yet.",
                Gauge(self.garbage_versions as f64),
            ),
            metric("ermine_rows_unloaded", "Rows that are in files only.", Gauge(self.unloaded_rows as f64)),
            metric("ermine_rows_evicted_total", "Rows evicted from memory.", Counter(self.evicted_rows)),
            metric(
                "ermine_cold_reads_total",
                "Rows read from files because a transaction asked for them.",
                Counter(self.cold_reads),
            ),
            metric("ermine_log_bytes_total", "Bytes written to the log.", Counter(self.log_bytes)),
            metric(
                "ermine_log_flush_seconds",
                "Time to write a group of commits to the log and make it durable.",
                MetricValue::Latencies(&self.log_flushes),
            ),
            metric("ermine_checkpoint_seconds", "Time of a checkpoint.", MetricValue::Latencies(&self.checkpoints)),
            metric(
                "ermine_checkpoint_failing",
                "1 if the last checkpoint failed.",
                Gauge(f64::from(u8::from(self.checkpoint_failure.is_some()))),
            ),
        ]);
        let help = "Operations that keep the current epoch from ending.";
        metrics.push(metric("ermine_stragglers", help, Gauge(self.stragglers as f64)));
        if let Some(age) = self.snapshot_age {
            let help = "Age of the newest safe snapshot.";
            metrics.push(metric("ermine_safe_snapshot_age_seconds", help, Gauge(age.as_secs_f64())));
        }
        if let Some(bytes) = self.held_log_bytes {
            let help = "Log that is durable here and not replicated yet.";
            metrics.push(metric("ermine_replication_lag_bytes", help, Gauge(bytes as f64)));
        }
        metrics
    }

    /// Adds the counters of a worker.
    pub(crate) fn add(&mut self, worker: &WorkerCounters) {
        self.commits += worker.commits();
        self.aborts.add(&worker.aborts());
        self.rows_read += worker.rows_read();
        self.versions_walked += worker.versions_walked();
    }
}
