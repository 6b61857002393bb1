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
    /// Bytes of the nodes and long keys of all indexes, as counted by the workers: some 64 KiB for each are not yet.
    pub index_bytes: u64,
    /// Rows whose superseded versions have not been freed yet, as of each worker's last housekeeping.
    pub garbage_versions: u64,
    /// Age of the newest safe snapshot, where one has been taken.
    pub snapshot_age: Option<Duration>,
    /// The number of the current epoch of transactions: memory that nothing uses any more is freed as epochs end.
    pub epochs: u64,
    /// Operations that keep the current epoch from ending, and so superseded versions from being freed; a few at a busy
    /// moment. [`crate::Database::stragglers`] describes them.
    pub stragglers: u64,
    /// Rows that are in files only: they were evicted, or not read since the database was opened.
    pub unloaded_rows: u64,
    /// Rows that were evicted from memory, each time.
    pub evicted_rows: u64,
    /// Rows that were read from files because a transaction asked for them.
    pub cold_reads: u64,
    /// The times of the reads from files that they took: one for the rows of a block, from the device or the system's
    /// cache.
    pub cold_read_times: Latencies,
    /// The times of the checkpoints made since the database was opened.
    pub checkpoints: Latencies,
    /// Why the last checkpoint in the background failed, if it did, or why a file that should be removed was not: it
    /// could not be archived.
    pub checkpoint_failure: Option<String>,
    /// Rows that the checkpoint in progress has passed so far; `None`: none is in progress.
    pub checkpoint_rows: Option<u64>,
    /// Rows that the cleaner of the log has moved to the cold store (ERMIA 3.7).
    pub moved_rows: u64,
    /// Bytes that it wrote to the cold store.
    pub moved_bytes: u64,
    /// Segments of the log that were freed.
    pub freed_segments: u64,
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
            metric("ermine_index_bytes", "Memory of indexes.", Gauge(self.index_bytes as f64)),
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
            metric(
                "ermine_cold_read_seconds",
                "Time to read a block of rows from a file.",
                MetricValue::Latencies(&self.cold_read_times),
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
            metric(
                "ermine_checkpoint_in_progress",
                "1 while a checkpoint is being made.",
                Gauge(f64::from(u8::from(self.checkpoint_rows.is_some()))),
            ),
            metric(
                "ermine_checkpoint_rows",
                "Rows that the checkpoint in progress has passed.",
                Gauge(self.checkpoint_rows.unwrap_or(0) as f64),
            ),
            metric(
                "ermine_cleaner_moved_rows_total",
                "Rows moved from the log to the cold store.",
                Counter(self.moved_rows),
            ),
            metric(
                "ermine_cleaner_moved_bytes_total",
                "Bytes written to the cold store for them.",
                Counter(self.moved_bytes),
            ),
            metric(
                "ermine_log_segments_freed_total",
                "Segments of the log that were freed.",
                Counter(self.freed_segments),
            ),
        ]);
        metrics.push(metric("ermine_epochs_total", "Epochs of transactions.", Counter(self.epochs)));
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

    /// Hands all numbers to the recorder of the [`metrics`] facade that the application has installed, if any; call it
    /// before each export, or every few seconds. Durations become a counter `.._count`, and gauges `.._sum` and, with
    /// the label `quantile`, the median, the 99th percentile and the maximum so far: the facade has no histograms that
    /// were counted elsewhere. With the feature `metrics`.
    #[cfg(feature = "metrics")]
    pub fn publish(&self) {
        for Metric { name, label, help, value } in self.metrics() {
            let labels: Vec<_> =
                label.iter().map(|(name, value)| metrics::Label::from_static_parts(name, value)).collect();
            match value {
                MetricValue::Counter(count) => {
                    metrics::describe_counter!(name, help);
                    metrics::counter!(name, labels).absolute(count);
                }
                MetricValue::Gauge(size) => {
                    metrics::describe_gauge!(name, help);
                    metrics::gauge!(name, labels).set(size);
                }
                MetricValue::Latencies(times) => {
                    metrics::counter!(format!("{name}_count")).absolute(times.count());
                    metrics::gauge!(format!("{name}_sum")).set(times.total().as_secs_f64());
                    metrics::describe_gauge!(name, help);
                    for (share, shown) in [(0.5, "0.5"), (0.99, "0.99"), (1.0, "1")] {
                        if let Some(time) = times.quantile(share) {
                            metrics::gauge!(name, "quantile" => shown).set(time.as_secs_f64());
                        }
                    }
                }
            }
        }
    }

    /// Adds the counters of a worker.
    pub(crate) fn add(&mut self, worker: &WorkerCounters) {
        self.commits += worker.commits();
        self.aborts.add(&worker.aborts());
        self.rows_read += worker.rows_read();
        self.versions_walked += worker.versions_walked();
    }
}
