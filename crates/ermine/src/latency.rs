//! Durations, counted by their size: from a few microseconds to hours in some hundred buckets.
//!
//! A bucket is a quarter of a power of two of microseconds, so a quantile is at most a quarter too large. Counting is
//! one relaxed addition to a word that the counting threads share: where that would cost, each has a recorder of its
//! own, and a reader adds them up.

use std::{iter, time::Duration};

use crate::sync::{AtomicU64, Ordering};

/// Powers of two of microseconds that have four buckets each; the last one includes everything longer (9.5 hours).
const POWERS: usize = 34;
/// Durations of 0 to 3 microseconds have a bucket each.
const EXACT: usize = 4;
const BUCKETS: usize = EXACT + 4 * (POWERS - 1);

/// Counts durations; any thread may count, and any thread may read.
pub struct LatencyRecorder {
    buckets: [AtomicU64; BUCKETS],
    micros: AtomicU64,
}

/// Durations that were counted, as of one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies {
    buckets: [u64; BUCKETS],
    micros: u64,
}

impl LatencyRecorder {
    /// Returns a recorder that has counted nothing.
    pub fn new() -> Self {
        Self { buckets: std::array::from_fn(|_| AtomicU64::new(0)), micros: AtomicU64::new(0) }
    }

    /// Counts a duration, down to whole microseconds.
    #[inline]
    pub fn record(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        // Relaxed: statistics.
        self.buckets[bucket(micros)].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Returns what was counted so far.
    pub fn read(&self) -> Latencies {
        Latencies {
            buckets: std::array::from_fn(|at| self.buckets[at].load(Ordering::Relaxed)),
            micros: self.micros.load(Ordering::Relaxed),
        }
    }
}

impl Default for LatencyRecorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Latencies {
    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the sum of the durations.
    pub fn total(&self) -> Duration {
        Duration::from_micros(self.micros)
    }

    /// Returns a duration that the given share of all durations, from 0 to 1, does not exceed: the upper end of a
    /// bucket. `None` if there are no durations.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        let rank = ((share.clamp(0.0, 1.0) * count as f64).ceil() as u64).max(1);
        self.up_to().find(|(_, up_to)| *up_to >= rank).map(|(end, _)| end)
    }

    /// Returns the upper end of each bucket, in rising order, with the number of durations up to it: the form of a
    /// histogram of Prometheus.
    pub fn up_to(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let mut up_to = 0;
        self.buckets.iter().enumerate().map(move |(at, count)| {
            up_to += count;
            (Duration::from_micros(end(at)), up_to)
        })
    }

    /// Adds the durations of another recorder.
    pub fn merge(&mut self, other: &Self) {
        iter::zip(&mut self.buckets, other.buckets).for_each(|(own, other)| *own += other);
        self.micros += other.micros;
    }

    /// Returns the durations that were counted after `earlier`, which was read from the same recorder.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            buckets: std::array::from_fn(|at| self.buckets[at].saturating_sub(earlier.buckets[at])),
            micros: self.micros.saturating_sub(earlier.micros),
        }
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], micros: 0 }
    }
}

/// Returns the bucket of a duration.
fn bucket(micros: u64) -> usize {
    if micros < EXACT as u64 {
        return micros as usize;
    }
    let power = micros.ilog2();
    let quarter = (micros >> (power - 2)) & 3;
    (EXACT * (power as usize - 1) + quarter as usize).min(BUCKETS - 1)
}

/// Returns the longest duration of a bucket in microseconds.
fn end(bucket: usize) -> u64 {
    if bucket < EXACT {
        return bucket as u64;
    }
    let (power, quarter) = (bucket / EXACT + 1, bucket % EXACT);
    (((EXACT + quarter + 1) as u64) << (power - 2)) - 1
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn each_duration_is_in_the_bucket_that_ends_at_or_after_it() {
        for micros in (0..5_000).chain((12..40).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1])) {
            let at = bucket(micros);
            assert!(at == BUCKETS - 1 || end(at) >= micros, "{micros}");
            assert!(at == 0 || end(at - 1) < micros, "{micros}");
            assert!(at == BUCKETS - 1 || end(at) <= micros + micros / 4, "{micros}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_the_durations() {
        let recorder = LatencyRecorder::new();
        assert_eq!(recorder.read().quantile(0.5), None);
        let earlier = recorder.read();
        for micros in 1..=1000 {
            recorder.record(Duration::from_micros(micros));
        }
        let read = recorder.read();
        assert_eq!((read.count(), read.total()), (1000, Duration::from_micros(500_500)));
        for (share, exact) in [(0.0, 1), (0.001, 1), (0.5, 500), (0.99, 990), (1.0, 1000)] {
            let found = read.quantile(share).unwrap().as_micros() as u64;
            assert!((exact..=exact + exact / 4).contains(&found), "{share}: {found}");
        }
        assert_eq!(read.up_to().last().unwrap().1, 1000);
        assert_eq!(read.since(&earlier), read);
        let mut twice = read.clone();
        twice.merge(&read);
        assert_eq!((twice.since(&read), twice.count()), (read, 2000));
    }
}
