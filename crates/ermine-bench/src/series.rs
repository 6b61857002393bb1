//! Throughput second by second, with what the engine did meanwhile.

use ermine::Statistics;
use serde::Serialize;

use crate::threads::Tick;

/// A second of the measured time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Second {
    /// Measured time at its end.
    pub seconds: f64,
    /// Transactions that ended as intended, per second.
    pub completed_per_second: f64,
    /// Attempts that lost a conflict, per second.
    pub aborted_per_second: f64,
    /// Checkpoints that were completed.
    pub checkpoints: u64,
    /// Rows whose superseded versions were not freed yet at its end.
    pub garbage_versions: u64,
    /// Memory that the database had taken at its end, of its limit.
    pub memory_bytes: u64,
    /// What the files of the database took on the device at its end, if it has any.
    pub disk_bytes: Option<u64>,
}

/// The seconds of the measured time, in their order.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Series(pub Vec<Second>);

impl Series {
    /// Adds a second, between two readings of the engine's counters.
    pub fn add(&mut self, tick: &Tick, before: &Statistics, now: &Statistics, disk_bytes: Option<u64>) {
        let per_second = |count: u64| count as f64 / tick.interval.as_secs_f64().max(f64::MIN_POSITIVE);
        self.0.push(Second {
            seconds: tick.elapsed.as_secs_f64(),
            completed_per_second: per_second(tick.done.completed),
            aborted_per_second: per_second(tick.done.aborted),
            checkpoints: now.checkpoints.count() - before.checkpoints.count(),
            garbage_versions: now.garbage_versions,
            memory_bytes: now.memory_taken,
            disk_bytes,
        });
    }

    /// Adds the seconds of a later period; their times go on where these end.
    pub fn extend(&mut self, later: &Self) {
        let end = self.0.last().map_or(0.0, |last| last.seconds);
        self.0.extend(later.0.iter().map(|second| Second { seconds: end + second.seconds, ..*second }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_later_periods_go_on() {
        let second = |seconds: f64| Second {
            seconds,
            completed_per_second: 0.0,
            aborted_per_second: 0.0,
            checkpoints: 0,
            garbage_versions: 0,
            memory_bytes: 0,
            disk_bytes: None,
        };
        let mut series = Series::default();
        series.extend(&Series(vec![second(1.0), second(1.5)]));
        series.extend(&Series(vec![second(1.0)]));
        assert!(series.0.iter().map(|second| second.seconds).eq([1.0, 1.5, 2.5]));
    }
}
