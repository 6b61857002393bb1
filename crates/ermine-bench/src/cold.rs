//! Rows that left memory during a run, and those that were read again.

use std::{fmt, time::Duration};

use ermine::Statistics;
use serde::Serialize;

use crate::report::grouped;

/// What happened to rows for which there was no room.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ColdUse {
    /// Rows that are in files only, at the end.
    pub rows_in_files: u64,
    /// Rows that left memory.
    pub evicted: u64,
    /// Rows that were read from files.
    pub read: u64,
    /// Share of the rows read that were in memory.
    pub hit_rate: f64,
    /// Median time of a read of a block, in microseconds.
    pub p50_us: f64,
    /// 99th percentile of these times.
    pub p99_us: f64,
}

impl ColdUse {
    /// Returns what happened between two moments; `None`: all rows were and stayed in memory.
    pub fn between(before: &Statistics, after: &Statistics) -> Option<Self> {
        let (evicted, read) = (after.evicted_rows - before.evicted_rows, after.cold_reads - before.cold_reads);
        if evicted + read == 0 {
            return None;
        }
        let times = after.cold_read_times.since(&before.cold_read_times);
        let micros = |share| times.quantile(share).unwrap_or(Duration::ZERO).as_secs_f64() * 1e6;
        let rows_read = (after.rows_read - before.rows_read).max(read).max(1);
        Some(Self {
            rows_in_files: after.unloaded_rows,
            evicted,
            read,
            hit_rate: 1.0 - read as f64 / rows_read as f64,
            p50_us: micros(0.5),
            p99_us: micros(0.99),
        })
    }
}

impl fmt::Display for ColdUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows_in_files, evicted, read, hit_rate, p50_us, p99_us } = self;
        let [rows_in_files, evicted, read] = [rows_in_files, evicted, read].map(|count| grouped(*count));
        write!(
            f,
            "{rows_in_files} rows in files, {evicted} evicted, {read} read again ({:.2} % were in memory), a read of a \
             block p50 {p50_us:.0} us, p99 {p99_us:.0} us",
            100.0 * hit_rate
        )
    }
}
