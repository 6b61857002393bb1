//! Which transactions wait for which, to find those that wait for one another.
//!
//! A transaction waits for one other at a time, so whoever follows who waits for whom goes one way, and is back at the beginning where a
//! circle is. What is known here may be old: the other one may have taken back what the wait was for, with its statement. Whoever waits
//! tries again at intervals, so a circle that stays for longer than an interval has been met anew by all who are in it. One of them
//! gives up: who began to wait last.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use ermine::Tid;

use crate::error::{SqlError, SqlState};

/// Who waits for whom.
#[derive(Default)]
pub(crate) struct Waits(Mutex<Edges>);

#[derive(Default)]
struct Edges {
    by_waiter: HashMap<Tid, Edge>,
    /// Waits that began so far.
    begun: u64,
}

struct Edge {
    other: Tid,
    /// Which of the waits this is, in the order in which they began.
    number: u64,
}

/// A statement that waits for others, maybe for several after one another, until this is dropped.
pub(crate) struct Waiting {
    waits: Arc<Waits>,
    waiter: Tid,
    number: u64,
    /// Since when there is a circle.
    circle: Option<Instant>,
}

impl Waits {
    /// A statement of the transaction `waiter` begins to wait.
    pub(crate) fn begin(self: &Arc<Self>, waiter: Tid) -> Waiting {
        let mut edges = self.lock();
        edges.begun += 1;
        Waiting { waits: self.clone(), waiter, number: edges.begun, circle: None }
    }

    fn lock(&self) -> MutexGuard<'_, Edges> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// The statement was tried, and has met `other`, if anybody who is still there. Whether it should give up: it is the one to do so in a circle
    /// that has been there for `interval`, in which everybody has tried again.
    pub(crate) fn meets(&mut self, other: Option<Tid>, interval: Duration) -> bool {
        let mut edges = self.waits.lock();
        match other {
            Some(other) => edges.by_waiter.insert(self.waiter, Edge { other, number: self.number }),
            None => edges.by_waiter.remove(&self.waiter),
        };
        let is_last = edges.last_in_circle(self.waiter) == Some(self.number);
        drop(edges);
        self.circle = if is_last { self.circle.or_else(|| Some(Instant::now())) } else { None };
        self.circle.is_some_and(|since| since.elapsed() >= interval)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.waits.lock().by_waiter.remove(&self.waiter);
    }
}

impl Edges {
    /// The number of the wait that began last in the circle around a transaction, if there is one.
    fn last_in_circle(&self, waiter: Tid) -> Option<u64> {
        let (mut at, mut last) = (waiter, 0);
        // No more steps than there are waits: the way may lead into a circle around others.
        for _ in 0..self.by_waiter.len() {
            let edge = self.by_waiter.get(&at)?;
            (at, last) = (edge.other, last.max(edge.number));
            if at == waiter {
                return Some(last);
            }
        }
        None
    }
}

/// What the one fails with that gives up; it lost `conflict` last.
pub(crate) fn deadlock(conflict: &SqlError) -> SqlError {
    let detail = conflict.report().detail.clone().unwrap_or_default();
    let hint = "Transactions wait for one another, and this one has given up. It might succeed if retried.";
    SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected").detail(detail).hint(hint)
}
