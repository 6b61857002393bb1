//! Which transactions wait for which, to find those that wait for one another.
//!
//! A transaction waits for one other at a time, so whoever follows who waits for whom goes one way, and is back at the beginning where a
//! circle is. What is known here may be old: the other one may have taken back what the wait was for, with its statement. But whoever waits
//! tries again, and meets somebody or is done. So a circle is one if all who are in it have met each other again since it was first seen.
//! Who began to wait last gives up then.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
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
    /// When the two met last.
    met: Instant,
}

/// Those who wait for one another.
struct Circle {
    /// The number of the wait that began last.
    last: u64,
    /// Of the meetings that made it the one that is longest ago.
    oldest: Instant,
}

/// A statement that waits for others, maybe for several after one another, until this is dropped.
pub(crate) struct Waiting {
    waits: Arc<Waits>,
    waiter: Tid,
    number: u64,
    /// When a circle was first seen in which it is the one to give up.
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
    /// The statement was tried, and has met `other`, if anybody who is still there. Whether it should give up.
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
    /// The circle that a transaction is in, if there is one.
    fn circle_around(&self, waiter: Tid) -> Option<Circle> {
        let first = self.by_waiter.get(&waiter)?;
        let (mut edge, mut circle) = (first, Circle { last: first.number, oldest: first.met });
        // No more steps than there are waits: the way may lead into a circle around others.
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

/// What the one fails with that gives up; it lost `conflict` last.
pub(crate) fn deadlock(conflict: &SqlError) -> SqlError {
    let detail = conflict.report().detail.clone().unwrap_or_default();
    let hint = "Transactions wait for one another, and this one has given up. It might succeed if retried.";
    SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected").detail(detail).hint(hint)
}
