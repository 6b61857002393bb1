//! The age from which on a version counts as stale: one threshold a table, in bytes of log (SSN 5.3).
//!
//! A read of a stale version need not be tracked, which makes it cheap, but makes an overwriter of the version suspect
//! readers that do not exist. The paper leaves the threshold open. Here each table finds its own: an abort caused by an
//! untracked read doubles it, and a number of reads that had to be tracked because their versions were too young lowers
//! it by an eighth. So it settles where one lost transaction costs as much as some 85 000 tracked reads. (Halving it
//! instead left transactions of 10 000 reads at an abort in two attempts, 2026-11-21.)

use crate::{
    ids::Stamp,
    sync::{AtomicU64, Ordering},
};

/// The threshold of one table.
pub(crate) struct Staleness {
    /// Bytes of log.
    threshold: AtomicU64,
    /// Set by the user: the threshold does not change.
    fixed: bool,
    /// The user has set a threshold, of this kind or of rows: then short transactions do not track everything, either.
    given: bool,
}

/// Tracked reads of young versions after which the threshold is lowered.
pub(crate) const READS_A_STEP: u32 = 1 << 14;

impl Staleness {
    const FIRST: u64 = 1 << 20;
    const MIN: u64 = 1 << 16;
    const MAX: u64 = 1 << 50;

    /// Creates the threshold of a new table: `fixed` bytes of log, or one that adapts.
    pub(crate) fn new(fixed: Option<u64>, escalate_after: Option<u64>) -> Self {
        let given = fixed.is_some() || escalate_after.is_some();
        Self { threshold: AtomicU64::new(fixed.unwrap_or(Self::FIRST)), fixed: fixed.is_some(), given }
    }

    /// Whether a version made at `created` is stale for a transaction that began at `begin`.
    #[inline]
    pub(crate) fn is_stale(&self, created: Stamp, begin: Stamp) -> bool {
        // Relaxed: any recent value will do.
        begin.0.saturating_sub(created.0) > self.threshold.load(Ordering::Relaxed)
    }

    /// Whether the user has set a threshold.
    #[inline]
    pub(crate) fn is_given(&self) -> bool {
        self.given
    }

    /// Raises the threshold after an abort caused by an untracked read.
    pub(crate) fn raise(&self) {
        self.change(|threshold| threshold * 2);
    }

    /// Lowers the threshold after [`READS_A_STEP`] reads had to be tracked.
    pub(crate) fn lower(&self) {
        self.change(|threshold| threshold - threshold / 8);
    }

    fn change(&self, change: impl Fn(u64) -> u64) {
        if !self.fixed {
            // Relaxed, and not atomic as a whole: a lost change will be made again.
            let threshold = change(self.threshold.load(Ordering::Relaxed));
            self.threshold.store(threshold.clamp(Self::MIN, Self::MAX), Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn aborts_raise_it_and_tracked_reads_lower_it_within_bounds() {
        let staleness = Staleness::new(None, None);
        let now = Stamp(1 << 60);
        let is_stale = |age: u64| staleness.is_stale(Stamp(now.0 - age), now);
        assert!(is_stale(Staleness::FIRST + 1) && !is_stale(Staleness::FIRST));
        staleness.raise();
        assert!(!is_stale(2 * Staleness::FIRST) && is_stale(2 * Staleness::FIRST + 1));
        (0..1000).for_each(|_| staleness.lower());
        assert!(is_stale(Staleness::MIN + 1) && !is_stale(Staleness::MIN));
        (0..100).for_each(|_| staleness.raise());
        assert!(!is_stale(Staleness::MAX));
    }

    #[test]
    fn a_fixed_one_stays() {
        let staleness = Staleness::new(Some(0), None);
        staleness.raise();
        assert!(staleness.is_stale(Stamp(1), Stamp(2)) && !staleness.is_stale(Stamp(2), Stamp(2)));
    }
}
