//! The counters of a worker.

use std::{iter, ops::Index};

use crate::{
    error::AbortKind,
    sync::{AtomicU64, Ordering},
};

/// Aborted attempts, by the rule that was broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aborts([u64; AbortKind::ALL.len()]);

impl Aborts {
    /// Returns all kinds with their numbers, in the order of [`AbortKind::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (AbortKind, u64)> {
        iter::zip(AbortKind::ALL, self.0)
    }

    /// Returns the number of all kinds together.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        iter::zip(&mut self.0, other.0).for_each(|(own, other)| *own += other);
    }

    /// Returns the aborts that were counted after `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|kind| self.0[kind].saturating_sub(earlier.0[kind])))
    }
}

impl Index<AbortKind> for Aborts {
    type Output = u64;

    fn index(&self, kind: AbortKind) -> &u64 {
        &self.0[kind.number()]
    }
}

/// Counters that one worker writes, for the thread that has it, and any thread reads.
pub(crate) struct WorkerCounters {
    commits: AtomicU64,
    aborts: [AtomicU64; AbortKind::ALL.len()],
    rows_read: AtomicU64,
    versions_walked: AtomicU64,
}

impl WorkerCounters {
    pub(crate) fn new() -> Self {
        Self {
            commits: AtomicU64::new(0),
            aborts: std::array::from_fn(|_| AtomicU64::new(0)),
            rows_read: AtomicU64::new(0),
            versions_walked: AtomicU64::new(0),
        }
    }

    /// Counts a commit.
    #[inline]
    pub(crate) fn committed(&self) {
        add(&self.commits, 1);
    }

    /// Counts an attempt that has lost a conflict.
    pub(crate) fn aborted(&self, kind: AbortKind) {
        add(&self.aborts[kind.number()], 1);
    }

    /// Counts what a transaction has read.
    #[inline]
    pub(crate) fn read(&self, rows: u64, versions_walked: u64) {
        add(&self.rows_read, rows);
        if versions_walked > 0 {
            add(&self.versions_walked, versions_walked);
        }
    }

    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    pub(crate) fn aborts(&self) -> Aborts {
        Aborts(std::array::from_fn(|kind| self.aborts[kind].load(Ordering::Relaxed)))
    }

    pub(crate) fn rows_read(&self) -> u64 {
        self.rows_read.load(Ordering::Relaxed)
    }

    pub(crate) fn versions_walked(&self) -> u64 {
        self.versions_walked.load(Ordering::Relaxed)
    }
}

/// Adds to a counter that no other thread writes: no locked instruction.
#[inline]
fn add(counter: &AtomicU64, count: u64) {
    // Relaxed: statistics, and the pool hands a worker from one thread to the next.
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}
