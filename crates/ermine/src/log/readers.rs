//! The threads that wait for more of the durable log in order to read it. Unlike waiters for a commit they do not make
//! the flusher hurry.
//!
//! Invariant: *no reader is forgotten.* A reader enters the list, and then looks how far the log is durable; the flusher
//! publishes how far it is, and then looks at the list.

use std::thread::{self, Thread};

use crate::sync::{AtomicUsize, Mutex, Ordering, total_order};

/// The list of threads.
pub(crate) struct Readers {
    count: AtomicUsize,
    waiting: Mutex<Vec<Thread>>,
}

/// A thread's place in the list, until it is dropped.
pub(crate) struct Place<'r>(&'r Readers);

impl Readers {
    /// Creates an empty list.
    pub(crate) fn new() -> Self {
        Self { count: AtomicUsize::new(0), waiting: Mutex::new(Vec::new()) }
    }

    /// Adds the current thread, which then looks how far the log is durable, and parks.
    pub(crate) fn enter(&self) -> Place<'_> {
        self.waiting().push(thread::current());
        // SeqCst: the reader's step before it looks.
        self.count.fetch_add(1, Ordering::SeqCst);
        Place(self)
    }

    /// Wakes all threads in the list, after more of the log has become durable.
    pub(crate) fn wake(&self) {
        total_order();
        // SeqCst: the flusher's look, after it has published.
        if self.count.load(Ordering::SeqCst) > 0 {
            self.waiting().iter().for_each(Thread::unpark);
        }
    }

    fn waiting(&self) -> impl std::ops::DerefMut<Target = Vec<Thread>> {
        self.waiting.lock().expect("no code panics while it holds the list")
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting();
        let current = thread::current().id();
        waiting.iter().position(|thread| thread.id() == current).map(|at| waiting.swap_remove(at));
        // Relaxed: a flusher that still counts the thread looks in vain.
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}
