//! The events to come. Those at the same time happen in the order in which they were scheduled, so that a simulation is
//! a function of its options.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::offers::Ticks;

/// Events to come, in the order of their times, then of their numbers.
#[derive(Debug)]
pub(crate) struct Agenda<E> {
    events: BinaryHeap<Reverse<(Ticks, u64, E)>>,
    scheduled: u64,
}

impl<E: Ord> Agenda<E> {
    /// An agenda without events.
    pub(crate) fn new() -> Self {
        Self { events: BinaryHeap::new(), scheduled: 0 }
    }

    /// Adds an event.
    pub(crate) fn add(&mut self, at: Ticks, event: E) {
        self.events.push(Reverse((at, self.scheduled, event)));
        self.scheduled += 1;
    }

    /// Takes the next event and its time.
    pub(crate) fn next(&mut self) -> Option<(Ticks, E)> {
        self.events.pop().map(|Reverse((at, _, event))| (at, event))
    }
}
