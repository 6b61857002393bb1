//! Looking for input for a short time before the thread sleeps.
//!
//! Many clients send their next message microseconds after an answer. If the thread sleeps meanwhile, the client's
//! message has to wake it, which costs tens of microseconds where the core has halted. So the thread of a lone client
//! looks for the client's next message before it sleeps. Where several clients send messages, there is mostly one to be
//! handled, and the thread has better things to do.
//!
//! A thread that looks does not look after other sockets. So it lets the runtime do that now and then, however often it
//! finds a message.
//!
//! When no message came in time, the thread looks less often, each time by half: clients that think, and machines
//! without a core to spare, cost next to nothing.
//!
//! Tried and rejected: yielding to the runtime instead, which asks all sockets each time (2026-11-26). A thread of the
//! runtime that finds a task wakes another one to search on; that costs more than it saves, with one client or eight.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use tokio::task::yield_now;

/// How long a thread goes on from one message to the next without a look at other sockets.
const IN_A_RUN: Duration = Duration::from_millis(1);

/// Inputs in a row, without one of another connection in between, after which a connection counts as alone.
const ALONE: u32 = 8;

/// The waits between two looks are doubled this often at most.
const DOUBLED_MAX: u32 = 10;

/// The number of inputs received by all connections; roughly, as it is not counted atomically.
#[derive(Default)]
pub struct Arrivals(AtomicU32);

impl Arrivals {
    // Relaxed, both: numbers that decide about nothing but time.
    fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self) {
        self.0.store(self.count().wrapping_add(1), Ordering::Relaxed);
    }
}

/// The experience of one connection.
#[derive(Default)]
pub struct Polling {
    /// The number of inputs when this connection received its last one.
    last: u32,
    /// Inputs in a row before that one.
    in_a_row: u32,
    /// When the first of the looks began that all found something.
    since: Option<Instant>,
    /// Looks in vain since the last one that was not.
    failed: u32,
    /// Waits without a look, before the next look.
    left_out: u32,
}

impl Polling {
    /// Looks for input until `look` finds it, or for `patience` at most; not at all where that is not promising.
    pub fn look<T>(
        &mut self,
        arrivals: &Arrivals,
        patience: Duration,
        mut look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        if patience.is_zero() || self.in_a_row < ALONE || arrivals.count() != self.last {
            self.since = None;
            return None;
        }
        if self.left_out > 0 {
            self.left_out -= 1;
            return None;
        }
        let began = Instant::now();
        if began.duration_since(*self.since.get_or_insert(began)) > IN_A_RUN {
            return None;
        }
        let found = loop {
            let found = look();
            if found.is_some() || began.elapsed() > patience || arrivals.count() != self.last {
                break found;
            }
        };
        if found.is_none() {
            self.since = None;
        }
        self.failed = if found.is_some() { 0 } else { (self.failed + 1).min(DOUBLED_MAX) };
        self.left_out = (1 << self.failed) - 1;
        found
    }

    /// Lets the runtime look after other sockets, if it has not for some time.
    pub async fn let_others_come(&mut self) {
        if self.since.take().is_some() {
            yield_now().await;
        }
    }

    /// To be called when the connection has received input.
    pub fn received(&mut self, arrivals: &Arrivals) {
        self.in_a_row = if arrivals.count() == self.last { self.in_a_row.saturating_add(1) } else { 0 };
        arrivals.add();
        self.last = arrivals.count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_in_vain_makes_looks_rarer() {
        let (arrivals, mut polling) = (Arrivals::default(), Polling::default());
        let mut looks = Vec::new();
        (0..ALONE).for_each(|_| polling.received(&arrivals));
        for wait in 0..40 {
            polling.received(&arrivals);
            let mut looked = false;
            let found: Option<()> = polling.look(&arrivals, Duration::from_nanos(1), || {
                looked = true;
                None
            });
            assert!(found.is_none());
            if looked {
                looks.push(wait);
            }
        }
        assert_eq!(looks, [0, 2, 6, 14, 30]);
        polling.left_out = 0;
        for _ in 0..3 {
            assert!(polling.look(&arrivals, Duration::from_nanos(1), || Some(())).is_some());
        }
    }

    #[test]
    fn messages_without_end_do_not_keep_others_out() {
        let (arrivals, mut polling) = (Arrivals::default(), Polling::default());
        (0..=ALONE).for_each(|_| polling.received(&arrivals));
        let mut looks = 0;
        while polling.look(&arrivals, Duration::from_secs(1), || Some(())).is_some() {
            polling.received(&arrivals);
            looks += 1;
        }
        assert!(looks > 0 && polling.since.is_some(), "it is the runtime's turn");
    }

    #[test]
    fn beside_another_client_there_is_no_look() {
        let (arrivals, mut one, mut other) = (Arrivals::default(), Polling::default(), Polling::default());
        for _ in 0..2 * ALONE {
            one.received(&arrivals);
            other.received(&arrivals);
            assert!(other.look(&arrivals, Duration::from_secs(1), || Some(())).is_none());
        }
        (0..ALONE).for_each(|_| other.received(&arrivals));
        assert!(one.look(&arrivals, Duration::from_secs(1), || Some(())).is_none());
        assert!(other.look(&arrivals, Duration::from_secs(1), || Some(())).is_some());
        assert!(other.look(&arrivals, Duration::ZERO, || Some(())).is_none());
    }
}
