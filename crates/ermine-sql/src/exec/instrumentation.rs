//! Statistics of the parts of a plan when it was run (EXPLAIN ANALYZE).
//!
//! Rows are pushed, so a part is on the stack while its consumers work: their time is subtracted from its own. A
//! statement that is not analyzed pays for a check of an `Option` once a row of a source.

use std::{
    cell::RefCell,
    collections::HashMap,
    time::{Duration, Instant},
};

/// Keyed by the address of a part of the plan, and a step of its work.
#[derive(Default)]
pub(crate) struct Instrumentation(RefCell<HashMap<(usize, Step), Actual>>);

/// A step of the work of a part of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Step {
    /// All of it: of a query, of a source, or of a statement that writes.
    Whole,
    /// The sorted rows of a query, before they are locked and limited.
    Sorted,
    /// The rows of a query, before they are sorted, locked and limited.
    Body,
    /// The results of a SELECT, before equal ones are left out.
    Results,
    /// The results of window functions.
    Windows,
    Groups,
    /// The joined rows of all sources.
    Rows,
    /// The rows of a source that are hashed, or that are searched where a hash would be.
    Hashed,
    /// The rows of a query that are locked, before they are limited.
    Locked,
}

/// Statistics of one part, summed over all its runs.
#[derive(Clone, Copy, Default)]
pub(crate) struct Actual {
    pub(crate) runs: u32,
    pub(crate) rows: u64,
    pub(crate) took: Duration,
    /// The most bytes that a hash or a sort has held.
    pub(crate) memory: usize,
    /// The most bytes that it has written to temporary files in a run.
    pub(crate) disk: u64,
}

impl Instrumentation {
    /// Returns the statistics of a part; `None`: it was not run.
    pub(crate) fn of<T>(&self, part: &T, step: Step) -> Option<Actual> {
        self.0.borrow().get(&(address(part), step)).copied().filter(|actual| actual.runs > 0)
    }

    /// Records the memory of a hash or a sort, and the bytes that it has written to temporary files.
    pub(super) fn holds<T>(&self, part: &T, step: Step, bytes: usize, written: u64) {
        let mut all = self.0.borrow_mut();
        let actual = all.entry((address(part), step)).or_default();
        actual.memory = actual.memory.max(bytes);
        actual.disk = actual.disk.max(written);
    }

    /// Records a run of a part.
    pub(super) fn record<T>(&self, part: &T, step: Step, run: &OneRun) {
        self.add(part, step, run, 1);
    }

    /// Records that a run of a part went on.
    pub(super) fn went_on<T>(&self, part: &T, step: Step, run: &OneRun) {
        self.add(part, step, run, 0);
    }

    fn add<T>(&self, part: &T, step: Step, run: &OneRun, runs: u32) {
        let mut all = self.0.borrow_mut();
        let actual = all.entry((address(part), step)).or_default();
        actual.runs = actual.runs.saturating_add(runs);
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

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds rows.
    pub(super) fn count(&mut self, rows: u64) {
        self.rows += rows;
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
