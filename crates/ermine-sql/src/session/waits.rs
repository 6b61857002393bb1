//! A graph of the transactions that wait for others, to detect deadlocks.
//!
//! A transaction waits for one other at a time, so a walk from waiter to waited-for transaction has one path, and
//! returns to its beginning if there is a circle. An edge may be outdated: the other transaction may have undone, with
//! its statement, the write that the wait was for. But a waiting transaction tries again, and meets a transaction or
//! succeeds. So a circle is real if all transactions in it have met each other again since it was first seen. The
//! transaction that began to wait last gives up then.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use ermine::Tid;

use crate::error::{SqlError, SqlState};

/// The edges from waiting transactions to the ones they wait for.
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
    /// The number of this wait, in the order in which waits began.
    number: u64,
    /// When the two transactions last met.
    met: Instant,
}

/// Transactions that wait for one another.
struct Circle {
    /// The number of the wait that began last.
    last: u64,
    /// The time of the least recent of the meetings in the circle.
    oldest: Instant,
}

/// A statement that waits for other transactions, maybe for several in turn, until this is dropped.
pub(crate) struct Waiting {
    waits: Arc<Waits>,
    waiter: Tid,
    number: u64,
    /// When a circle was first seen in which this transaction is to give up.
    circle: Option<Instant>,
}

impl Waits {
    /// Begins a wait of a statement of the transaction `waiter`.
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
    /// Records that the statement was tried again, and has met `other`, if that transaction still exists. Returns
    /// whether the statement should give up.
    pub(crate) fn meets(&mut self, other: Option<Tid>) -> bool {
        let now = Instant::now();
        let mut edges = self.waits.lock();
        match other {
            Some(other) => edges.by_waiter.insert(self.waiter, Edge { other, number: self.number, met: now }),
            None => edges.by_waiter.remove(&self.waiter),
        };
        let circle = edges.circle_around(self.waiter);
        drop(edges);
        let Some(circle) = circle.filter(|circle| circle.last == self.number) else {
            self.circle = None;
            return false;
        };
        circle.oldest > *self.circle.get_or_insert(now)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.waits.lock().by_waiter.remove(&self.waiter);
    }
}

impl Edges {
    /// Returns the circle that a transaction is in, if there is one.
    fn circle_around(&self, waiter: Tid) -> Option<Circle> {
        let first = self.by_waiter.get(&waiter)?;
        let (mut edge, mut circle) = (first, Circle { last: first.number, oldest: first.met });
        // No more steps than there are waits: the path may lead into a circle of other transactions.
        for _ in 0..self.by_waiter.len() {
            if edge.other == waiter {
                return Some(circle);
            }
            edge = self.by_waiter.get(&edge.other)?;
            circle = Circle { last: circle.last.max(edge.number), oldest: circle.oldest.min(edge.met) };
        }
        None
    }
}

/// Returns the error of the transaction that gives up; it lost `conflict` last.
pub(crate) fn deadlock(conflict: &SqlError) -> SqlError {
    let detail = conflict.report().detail.clone().unwrap_or_default();
    let hint = "Transactions wait for one another, and this one has given up. It might succeed if retried.";
    SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected").detail(detail).hint(hint)
}
