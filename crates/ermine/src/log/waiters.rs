//! Who waits until the log is durable: threads and tasks, in one list.
//!
//! Invariant: whoever is in the list when the log becomes durable beyond his place is woken. He puts himself in, and then
//! looks once more; the flusher publishes how far it is, and then looks at the list.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Wake, Waker},
    thread::{self, Thread},
};

/// The list.
#[derive(Default)]
pub(crate) struct Waiters {
    waiting: Mutex<BinaryHeap<Waiting>>,
    count: AtomicUsize,
}

struct Waiting {
    /// Woken when the log is durable beyond.
    beyond: Reverse<u64>,
    waker: Waker,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.beyond == other.beyond
    }
}
impl Eq for Waiting {}
impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.beyond.cmp(&other.beyond)
    }
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Waiters {
    /// Whether anybody waits.
    pub(crate) fn is_empty(&self) -> bool {
        // SeqCst: pairs with `enlist` (waiter puts itself in, then looks; flusher moves on, then looks).
        self.count.load(Ordering::SeqCst) == 0
    }

    /// Has `waker` woken once the log is durable beyond `offset`, or never will be.
    pub(crate) fn enlist(&self, offset: u64, waker: Waker) {
        let mut waiting = self.waiting.lock().expect("no code panics while it holds the list");
        waiting.push(Waiting { beyond: Reverse(offset), waker });
        self.count.store(waiting.len(), Ordering::SeqCst);
    }

    /// Blocks the calling thread until `done`, which becomes true when the log is durable beyond `offset`.
    pub(crate) fn block(&self, offset: u64, mut done: impl FnMut() -> bool) {
        if done() {
            return;
        }
        self.enlist(offset, Waker::from(Arc::new(Unpark(thread::current()))));
        while !done() {
            thread::park();
        }
    }

    /// Wakes those who wait for something below `durable`.
    pub(crate) fn wake(&self, durable: u64) {
        if self.is_empty() {
            return;
        }
        let mut woken = Vec::new();
        let mut waiting = self.waiting.lock().expect("no code panics while it holds the list");
        while let Some(next) = waiting.peek()
            && next.beyond.0 < durable
        {
            woken.extend(waiting.pop().map(|waiting| waiting.waker));
        }
        self.count.store(waiting.len(), Ordering::SeqCst);
        drop(waiting);
        woken.into_iter().for_each(Waker::wake);
    }
}
