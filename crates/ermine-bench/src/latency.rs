//! Latencies: a histogram for each thread and kind of transaction, merged at the end.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Latencies up to a minute at a relative error of 1 %. Two digits keep a histogram at 30 KB, most of it never touched,
/// so that counting does not push the database out of the caches.
#[derive(Clone, Debug)]
pub struct Latency {
    nanoseconds: Histogram<u64>,
}

const LONGEST: u64 = 60_000_000_000;

impl Default for Latency {
    fn default() -> Self {
        let nanoseconds = Histogram::new_with_bounds(1, LONGEST, 2).expect("the bounds are constant and in order");
        Self { nanoseconds }
    }
}

impl Latency {
    /// Counts one latency.
    #[inline]
    pub fn record(&mut self, latency: Duration) {
        self.nanoseconds.saturating_record(latency.as_nanos() as u64);
    }

    /// Adds the latencies of another thread.
    pub fn merge(&mut self, other: &Self) {
        self.nanoseconds.add(&other.nanoseconds).expect("all histograms have the same bounds");
    }

    /// Resets the histogram.
    pub fn reset(&mut self) {
        self.nanoseconds.reset();
    }

    /// The quantiles that reports show.
    pub fn quantiles(&self) -> Quantiles {
        let at = |quantile| self.nanoseconds.value_at_quantile(quantile) as f64 / 1e3;
        Quantiles {
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            p9999_us: at(0.9999),
            max_us: at(1.0),
        }
    }
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Quantiles {
    /// Half of the latencies were at most this.
    pub p50_us: f64,
    /// 90 % of the latencies were at most this.
    pub p90_us: f64,
    /// 99 % of the latencies were at most this.
    pub p99_us: f64,
    /// 99.9 % of the latencies were at most this.
    pub p999_us: f64,
    /// 99.99 % of the latencies were at most this.
    pub p9999_us: f64,
    /// The longest latency.
    pub max_us: f64,
}

impl Quantiles {
    /// The names of the quantiles, in the order of [`Self::values`].
    pub const NAMES: [&str; 6] = ["50 %", "90 %", "99 %", "99.9 %", "99.99 %", "max"];

    /// All of them, from the least to the greatest.
    pub fn values(&self) -> [f64; 6] {
        [self.p50_us, self.p90_us, self.p99_us, self.p999_us, self.p9999_us, self.max_us]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_one_percent() {
        let mut latency = Latency::default();
        (1..=1_000).for_each(|us| latency.record(Duration::from_micros(us)));
        let quantiles = latency.quantiles();
        let close = |value: f64, wanted: f64| (value / wanted - 1.0).abs() < 0.01;
        assert!(close(quantiles.p50_us, 500.0) && close(quantiles.p99_us, 990.0), "{quantiles:?}");
        assert!(close(quantiles.max_us, 1_000.0), "{quantiles:?}");
        assert!(quantiles.values().is_sorted(), "{quantiles:?}");
    }
}
