//! Statements that wait for a row, in the order in which they came.
//!
//! A statement that meets a row that another transaction is changing is undone, and queues for the row. The first of a
//! queue tries again as soon as the other transaction has ended. When it has got the row, the next one waits for *its*
//! transaction: the row passes on with one attempt by each. A statement that comes when the row happens to be free
//! takes it without a look at the queue.
//!
//! Each waiting statement also tries again after a while, whatever its place: deadlocks are found by trying
//! ([`super::waits`]), and a queue may be wrong about the transaction it waits for. Different rows may share a queue
//! ([`crate::error::Lost`]). While statements wait, the end of each transaction of a session looks at all queues.
//!
//! Invariant: a session ends its transaction, and then looks whether a statement waits; a statement enters its queue,
//! and then looks whether the transaction has ended. Both in sequentially consistent order: one of them notices.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering, fence},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

use ermine::{Database, Tid};
use hashbrown::HashMap;

use crate::{error::Result, types::Interrupt};

/// How long a statement waits where it is run; then it goes aside, so that its thread's other work goes on.
const BRIEFLY: Duration = Duration::from_micros(200);
/// How often a waiting statement looks whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// All queues of a database.
pub(crate) struct RowQueues {
    database: Arc<Database>,
    /// Statements in queues.
    waiting: AtomicUsize,
    queues: Mutex<Queues>,
}

#[derive(Default)]
struct Queues {
    by_row: HashMap<u64, Queue>,
    /// Statements that have come so far.
    come: u64,
}

#[derive(Default)]
struct Queue {
    /// The transaction that has the row.
    holder: Option<Tid>,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    number: u64,
    thread: Thread,
}

/// The place of a statement in a queue, until this is dropped.
pub(crate) struct Place {
    queues: Arc<RowQueues>,
    pub(crate) row: u64,
    number: u64,
    /// The transaction that the statement belongs to, when it has got the row.
    pub(crate) got: Option<Tid>,
}

impl RowQueues {
    pub(crate) fn new(database: Arc<Database>) -> Arc<Self> {
        Arc::new(Self { database, waiting: AtomicUsize::new(0), queues: Mutex::default() })
    }

    /// Enters the queue for a row, at its end.
    pub(crate) fn enter(self: &Arc<Self>, row: u64) -> Place {
        let mut queues = self.lock();
        queues.come += 1;
        let number = queues.come;
        queues.by_row.entry(row).or_default().waiting.push_back(Waiting { number, thread: thread::current() });
        // SeqCst: the invariant.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Place { queues: self.clone(), row, number, got: None }
    }

    /// To be called when a transaction has ended.
    pub(crate) fn ended(&self) {
        // SeqCst: the invariant.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.lock().by_row.values().for_each(|queue| self.wake_first(queue));
        }
    }

    /// To be called when a transaction that goes on has undone a part of its writes: rows that it had may be free.
    pub(crate) fn undone(&self, transaction: Tid) {
        // As above.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            for queue in self.lock().by_row.values_mut().filter(|queue| queue.holder == Some(transaction)) {
                queue.holder = None;
                self.wake_first(queue);
            }
        }
    }

    /// Whether a transaction has not ended.
    pub(crate) fn is_in_flight(&self, transaction: Tid) -> bool {
        self.database.is_in_flight(transaction)
    }

    /// Wakes the first statement of a queue if it can go on.
    fn wake_first(&self, queue: &Queue) {
        if let Some(first) = queue.waiting.front()
            && self.is_free(queue)
        {
            first.thread.unpark();
        }
    }

    fn is_free(&self, queue: &Queue) -> bool {
        queue.holder.is_none_or(|holder| !self.is_in_flight(holder))
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Waits until it is the statement's turn, after `holder`, but not longer than `at_most`.
    pub(crate) fn wait(&self, holder: Tid, at_most: Duration, interrupt: &Interrupt) -> Result<()> {
        self.with(|queue| queue.holder = Some(holder));
        let now = Instant::now();
        let until = now + at_most;
        let (mut is_over, mut waited) = (self.wait_until(until.min(now + BRIEFLY)), Ok(()));
        if !is_over {
            (interrupt.aside)(&mut || {
                while !is_over && waited.is_ok() {
                    let next = until.min(Instant::now() + LOOK_EVERY);
                    is_over = self.wait_until(next) || next == until;
                    waited = interrupt.check();
                }
            });
        }
        waited
    }

    fn wait_until(&self, until: Instant) -> bool {
        loop {
            if self.is_next() {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            thread::park_timeout(left);
        }
    }

    fn is_next(&self) -> bool {
        self.with(|queue| {
            queue.waiting.front().is_some_and(|first| first.number == self.number) && self.queues.is_free(queue)
        })
    }

    fn with<T>(&self, action: impl FnOnce(&mut Queue) -> T) -> T {
        action(self.queues.lock().by_row.get_mut(&self.row).expect("a queue exists while a statement is in it"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.queues.waiting.fetch_sub(1, Ordering::Relaxed);
        let mut queues = self.queues.lock();
        let queue = queues.by_row.get_mut(&self.row).expect("a queue exists while a statement is in it");
        queue.waiting.retain(|waiting| waiting.number != self.number);
        queue.holder = self.got.or(queue.holder);
        self.queues.wake_first(queue);
        if queue.waiting.is_empty() {
            queues.by_row.remove(&self.row);
        }
    }
}

#[cfg(test)]
mod tests {
    use ermine::{Options, Table, TxnOptions};

    use super::*;

    fn places(queues: &RowQueues) -> usize {
        queues.lock().by_row.values().map(|queue| queue.waiting.len()).sum()
    }

    /// Waits without trying in between: only a wake-up ends it in time.
    fn wait(place: &Place) {
        let until = Instant::now() + Duration::from_secs(600);
        assert!(place.wait_until(until) && Instant::now() < until, "it is not woken");
    }

    /// The first waits for the holder, the second for the first's transaction; each is woken when that has ended.
    #[test]
    fn a_row_passes_on_in_order() {
        let database = Arc::new(Database::open_in_memory(Options::default()).unwrap());
        let table: Table<u64, u64> = database.table("t").unwrap();
        let queues = RowQueues::new(database.clone());
        let begin = |key: u64| {
            let txn = database.begin_owned(TxnOptions::default()).unwrap();
            txn.put(&table, &key, &key).unwrap();
            let tid = txn.tid().unwrap().unwrap();
            (txn, tid)
        };
        let (holder, first) = (begin(1), begin(2));
        let order = Mutex::new(Vec::new());
        let [mut first_place, second_place] = [queues.enter(7), queues.enter(7)];
        first_place.with(|queue| queue.holder = Some(holder.1));
        thread::scope(|threads| {
            let (order, first_tid) = (&order, first.1);
            // Each place belongs to the thread that waits in it.
            let one = threads.spawn(move || {
                wait(&first_place);
                order.lock().unwrap().push("first");
                first_place.got = Some(first_tid);
                drop(first_place);
            });
            let other = threads.spawn(move || {
                wait(&second_place);
                order.lock().unwrap().push("second");
            });
            for (at, thread) in [one.thread(), other.thread()].into_iter().enumerate() {
                let mut all = queues.lock();
                let waiting = &mut all.by_row.get_mut(&7).expect("both wait").waiting;
                waiting[at].thread = thread.clone();
            }
            order.lock().unwrap().push("holder ends");
            drop(holder.0);
            queues.ended();
            while places(&queues) > 1 {
                thread::yield_now();
            }
            order.lock().unwrap().push("first ends");
            drop(first.0);
            queues.ended();
        });
        assert_eq!(*order.lock().unwrap(), ["holder ends", "first", "first ends", "second"]);
        assert!(queues.lock().by_row.is_empty() && queues.waiting.load(Ordering::SeqCst) == 0);
    }
}
