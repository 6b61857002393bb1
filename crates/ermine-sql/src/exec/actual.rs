//! What came of the parts of a plan when it was run (EXPLAIN ANALYZE).
//!
//! Rows are pushed, so a part is on the stack while those behind it work: their time is taken off its own. What is not analyzed pays for a
//! look at an `Option`, once a row of a source.

use std::{
    cell::RefCell,
    collections::HashMap,
    time::{Duration, Instant},
};

/// By the address of a query or a source in the plan.
#[derive(Default)]
pub(crate) struct Actuals(RefCell<HashMap<usize, Actual>>);

/// What came of one of them, all its runs together.
#[derive(Clone, Copy, Default)]
pub(crate) struct Actual {
    pub(crate) runs: u32,
    pub(crate) rows: u64,
    pub(crate) took: Duration,
}

impl Actuals {
    /// What came of a part; `None`: it was not run.
    pub(crate) fn of<T>(&self, part: &T) -> Option<Actual> {
        self.0.borrow().get(&address(part)).copied()
    }

    /// A part was run.
    pub(super) fn note<T>(&self, part: &T, run: &OneRun) {
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

/// One run of a part, as it goes on.
pub(super) struct OneRun {
    began: Instant,
    rows: u64,
    /// What those behind it took.
    behind: Duration,
}

impl OneRun {
    pub(super) fn begin() -> Self {
        Self { began: Instant::now(), rows: 0, behind: Duration::ZERO }
    }

    /// It shows a row to those behind it.
    pub(super) fn show<T>(&mut self, show: impl FnOnce() -> T) -> T {
        let since = Instant::now();
        let shown = show();
        self.rows += 1;
        self.behind += since.elapsed();
        shown
    }
}
