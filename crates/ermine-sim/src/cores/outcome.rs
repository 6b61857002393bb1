//! Results of a trace on a number of cores.

use serde::Serialize;

use super::ATTEMPTS_TOGETHER;
use crate::{cycles::Cycles, offers::Ticks, outcome::Aborts, scheme::Scheme};

/// Restarts above which a transaction counts as restarted often (HTM VI.B).
const OFTEN: u32 = 2;

/// Counts of a run.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) committed: u64,
    pub(super) aborted: Aborts,
    /// The time that the committed transactions take without waiting.
    work: Ticks,
    restarted: u64,
    restarted_often: u64,
    alone: u64,
}

/// Results of a scheme on a number of cores.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CoresOutcome {
    /// The scheme.
    pub scheme: Scheme,
    /// Number of cores.
    pub cores: u32,
    /// Throughput, in multiples of that of serial execution on one core.
    pub speedup: f64,
    /// Transactions committed.
    pub committed: u64,
    /// Attempts aborted, by cause.
    pub aborted: Aborts,
    /// Transactions committed after at least one restart.
    pub restarted: u64,
    /// Transactions committed after more than two restarts.
    pub restarted_often: u64,
    /// Transactions that ran alone, because all their attempts among others had aborted.
    pub alone: u64,
    /// Serialization failures, if they were looked for.
    pub cycles: Option<Cycles>,
}

impl Counts {
    /// Counts a commit after this many attempts that have aborted.
    pub(super) fn commit(&mut self, work: Ticks, aborted: u32, ran_alone: bool) {
        debug_assert!(aborted <= ATTEMPTS_TOGETHER);
        self.committed += 1;
        self.work += work;
        self.restarted += u64::from(aborted > 0);
        self.restarted_often += u64::from(aborted > OFTEN);
        self.alone += u64::from(ran_alone);
    }

    pub(super) fn outcome(self, scheme: Scheme, cores: u32, elapsed: Ticks, cycles: Option<Cycles>) -> CoresOutcome {
        let Self { committed, aborted, work, restarted, restarted_often, alone } = self;
        let speedup = work as f64 / elapsed as f64;
        CoresOutcome { scheme, cores, speedup, committed, aborted, restarted, restarted_often, alone, cycles }
    }
}

impl CoresOutcome {
    /// Whether the scheme kept its promise, as far as was looked.
    pub fn holds(&self) -> bool {
        !self.scheme.is_serializable() || self.cycles.is_none_or(|cycles| cycles.components == 0)
    }

    /// Aborted attempts in percent of all attempts.
    pub fn abort_percent(&self) -> f64 {
        let aborted = self.aborted.sum();
        100.0 * aborted as f64 / (aborted + self.committed) as f64
    }

    /// This many transactions in percent of those committed.
    pub fn percent(&self, transactions: u64) -> f64 {
        100.0 * transactions as f64 / self.committed as f64
    }
}
