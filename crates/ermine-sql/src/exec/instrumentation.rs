//! Statistics of the parts of a plan when it was run (EXPLAIN ANALYZE).
//!
//! Rows are pushed, so a part is on the stack while its consumers work: their time is subtracted from its own. A
//! statement that is not analyzed pays for a check of an `Option` once a row of a source.

use std::{
    cell::RefCell,
    collections::HashMap,
    time::{Duration, Instant},
};

/// Keyed by the address of a query or a source in the plan.
#[derive(Default)]
pub(crate) struct Instrumentation(RefCell<HashMap<usize, Actual>>);

/// Statistics of one part, summed over all its runs.
#[derive(Clone, Copy, Default)]
pub(crate) struct Actual {
    pub(crate) runs: u32,
    pub(crate) rows: u64,
    pub(crate) took: Duration,
}

impl Instrumentation {
    /// Returns the statistics of a part; `None`: it was not run.
    pub(crate) fn of<T>(&self, part: &T) -> Option<Actual> {
        self.0.borrow().get(&address(part)).copied()
    }

    /// Records a run of a part.
    pub(super) fn record<T>(&self, part: &T, run: &OneRun) {
        let mut all = self.0.borrow_mut();
        let actual = all.entry(address(part)).or_default();
        actual.runs = actual.runs.saturating_add(1);
        actual.rows += run.rows;
        actual.took += run.began.elapsed().saturating_sub(run.behind);
    }
}

fn address<T>(part: &T) -> usize {
    std::ptr::from_ref(part) as usize
}

/// One run of a part, while it is in progress.
pub(super) struct OneRun {
    began: Instant,
    rows: u64,
    /// The time that the part's consumers took.
    behind: Duration,
}

impl OneRun {
    pub(super) fn begin() -> Self {
        Self { began: Instant::now(), rows: 0, behind: Duration::ZERO }
    }

    /// Calls the part's consumers with a row, and measures their time.
    pub(super) fn show<T>(&mut self, show: impl FnOnce() -> T) -> T {
        let since = Instant::now();
        let shown = show();
        self.rows += 1;
        self.behind += since.elapsed();
        shown
    }
}
