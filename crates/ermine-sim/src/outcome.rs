//! Results of a simulation.

use serde::Serialize;

use crate::{
    cycles::Cycles,
    offers::{ACCESS_TICKS, Ticks},
    scheme::Scheme,
};

/// Why a transaction aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It would have waited for a transaction that waits.
    WaitDepth,
    /// It would have overwritten a version that its snapshot does not contain.
    TemporalSkew,
    /// Its certifier found that it might close a cycle.
    Certifier,
    /// The same, with a safe snapshot in the cycle.
    SafeSnapshot,
    /// An access met one of another transaction that is younger or may still run.
    Collision,
}

/// Transactions of a group that aborted, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Aborts {
    /// It would have waited for a transaction that waits.
    pub wait_depth: u64,
    /// It would have overwritten a version that its snapshot does not contain.
    pub temporal_skew: u64,
    /// Its certifier found that it might close a cycle.
    pub certifier: u64,
    /// The same, with a safe snapshot in the cycle.
    pub safe_snapshot: u64,
    /// An access met one of another transaction that is younger or may still run: timestamp ordering, hardware
    /// transactions.
    pub collision: u64,
}

impl Aborts {
    pub(crate) fn count(&mut self, cause: Cause) {
        *match cause {
            Cause::WaitDepth => &mut self.wait_depth,
            Cause::TemporalSkew => &mut self.temporal_skew,
            Cause::Certifier => &mut self.certifier,
            Cause::SafeSnapshot => &mut self.safe_snapshot,
            Cause::Collision => &mut self.collision,
        } += 1;
    }

    /// All of them.
    pub fn sum(&self) -> u64 {
        self.wait_depth + self.temporal_skew + self.certifier + self.safe_snapshot + self.collision
    }
}

/// Time from submission to commit, in mean times of an access; zero without commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// Exceeded by one transaction in a hundred.
    pub p99: f64,
}

impl Latency {
    pub(crate) fn of(mut samples: Vec<Ticks>) -> Self {
        if samples.is_empty() {
            return Self::default();
        }
        samples.sort_unstable();
        let units = |ticks: Ticks| ticks as f64 / ACCESS_TICKS as f64;
        let rank = |percent: usize| units(samples[(samples.len() * percent / 100).min(samples.len() - 1)]);
        let mean = units(samples.iter().sum()) / samples.len() as f64;
        Self { mean, p50: rank(50), p99: rank(99) }
    }
}

/// Results of a group of clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GroupOutcome {
    /// Transactions submitted.
    pub offered: u64,
    /// Transactions committed.
    pub committed: u64,
    /// Transactions aborted.
    pub aborted: Aborts,
    /// Latency of those committed.
    pub latency: Latency,
}

impl GroupOutcome {
    /// Commits in percent of the transactions submitted.
    pub fn completion_percent(&self) -> f64 {
        self.percent(self.committed)
    }

    /// Aborts in percent of the transactions submitted.
    pub fn abort_percent(&self) -> f64 {
        self.percent(self.aborted.sum())
    }

    /// This many transactions in percent of those submitted.
    pub fn percent(&self, transactions: u64) -> f64 {
        100.0 * transactions as f64 / self.offered.max(1) as f64
    }
}

/// Results of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The scheme.
    pub scheme: Scheme,
    /// Results of each group, in the order of the options.
    pub groups: Vec<GroupOutcome>,
    /// Serialization failures, if they were looked for.
    pub cycles: Option<Cycles>,
}

impl Outcome {
    /// Whether the scheme kept its promise, as far as was looked.
    pub fn holds(&self) -> bool {
        !self.scheme.is_serializable() || self.cycles.is_none_or(|cycles| cycles.components == 0)
    }

    /// Counts of all groups together; without latencies.
    pub fn total(&self) -> GroupOutcome {
        let mut total = GroupOutcome::default();
        for GroupOutcome { offered, committed, aborted, .. } in &self.groups {
            total.offered += offered;
            total.committed += committed;
            total.aborted.wait_depth += aborted.wait_depth;
            total.aborted.temporal_skew += aborted.temporal_skew;
            total.aborted.certifier += aborted.certifier;
            total.aborted.safe_snapshot += aborted.safe_snapshot;
            total.aborted.collision += aborted.collision;
        }
        total
    }
}
