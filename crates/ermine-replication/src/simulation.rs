//! The clock, the tasks and the random numbers of a simulated cluster: one thread, no real time, all from one seed.
//!
//! Invariants:
//! 1. Two simulations of one seed that are used in the same way run the same steps in the same order.
//! 2. Time stands still while a task can run; then it jumps to the next event. A tick means whatever a test takes it
//!    for; the defaults of [`memory`](crate::memory) take it for a millisecond.
//! 3. A task that is stopped runs no further step, like a process that is killed. Requests that it has sent are on
//!    their way.
//!
//! A task has a clone of the [`Clock`], never of the [`Simulation`], which owns the task.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    rc::Rc,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake, Waker},
};

/// A simulated cluster. A value is a handle; clones share the cluster.
#[derive(Clone)]
pub struct Simulation {
    clock: Clock,
    tasks: Rc<RefCell<Tasks>>,
    ready: Arc<Mutex<Vec<TaskId>>>,
}

/// The time and the random numbers of a simulation.
#[derive(Clone)]
pub struct Clock(Arc<Mutex<Events>>);

/// The name of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId(u64);

type Task = Pin<Box<dyn Future<Output = ()>>>;

#[derive(Default)]
struct Tasks {
    made: u64,
    /// All tasks, except one that is running.
    waiting: BTreeMap<TaskId, Task>,
}

struct Events {
    now: u64,
    made: u64,
    random: fastrand::Rng,
    /// By time, then by the order in which they were made.
    queue: BTreeMap<(u64, u64), Box<dyn FnOnce() + Send>>,
}

/// Nothing that is locked here is left in a bad state by a test's panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Simulation {
    /// Returns a cluster whose random numbers come from `seed`.
    pub fn new(seed: u64) -> Self {
        let events = Events { now: 0, made: 0, random: fastrand::Rng::with_seed(seed), queue: BTreeMap::new() };
        Self { clock: Clock(Arc::new(Mutex::new(events))), tasks: Rc::default(), ready: Arc::default() }
    }

    /// Returns the clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Starts a task.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) -> TaskId {
        let mut tasks = self.tasks.borrow_mut();
        tasks.made += 1;
        let id = TaskId(tasks.made);
        tasks.waiting.insert(id, Box::pin(task));
        lock(&self.ready).push(id);
        id
    }

    /// Stops a task that is not running: it runs no further step.
    pub fn stop(&self, id: TaskId) {
        let task = self.tasks.borrow_mut().waiting.remove(&id);
        // Dropped after the borrow: what it owns may use this simulation.
        drop(task);
    }

    /// Lets the tasks run for a number of ticks.
    pub fn run(&self, ticks: u64) {
        let end = self.clock.now() + ticks;
        while self.step(end) {}
    }

    /// Runs a future, and the tasks beside it, until the future ends.
    ///
    /// # Panics
    /// If it waits for something that will not happen.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
                return value;
            }
            assert!(self.step(u64::MAX), "the future waits for something that will not happen");
        }
    }

    /// Runs one task, or the next event if no task can run. Returns false if there is none until `end`, which it is
    /// then.
    fn step(&self, end: u64) -> bool {
        if let Some(id) = self.pick() {
            let task = self.tasks.borrow_mut().waiting.remove(&id);
            if let Some(mut task) = task {
                let waker = Waker::from(Arc::new(Ready { id, ready: self.ready.clone() }));
                if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                    self.tasks.borrow_mut().waiting.insert(id, task);
                }
            }
            return true;
        }
        self.clock.step(end)
    }

    /// Takes one of the tasks that can run, in random order.
    fn pick(&self) -> Option<TaskId> {
        let mut ready = lock(&self.ready);
        if ready.is_empty() {
            return None;
        }
        let index = self.clock.below(ready.len() as u64) as usize;
        Some(ready.swap_remove(index))
    }
}

impl Clock {
    /// Returns the time in ticks.
    pub fn now(&self) -> u64 {
        lock(&self.0).now
    }

    /// Returns a random number below `bound`, which is not 0.
    pub fn below(&self, bound: u64) -> u64 {
        lock(&self.0).random.u64(..bound)
    }

    /// Returns true in `per_mille` of 1000 cases.
    pub fn chance(&self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// Waits.
    pub async fn sleep(&self, ticks: u64) {
        let over = Arc::new(Mutex::new((false, None::<Waker>)));
        let ended = over.clone();
        self.after(ticks, move || {
            let mut ended = lock(&ended);
            ended.0 = true;
            if let Some(waker) = ended.1.take() {
                waker.wake();
            }
        });
        poll_fn(|context| {
            let mut over = lock(&over);
            if over.0 {
                return Poll::Ready(());
            }
            over.1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Runs an event after a number of ticks.
    pub(crate) fn after(&self, ticks: u64, event: impl FnOnce() + Send + 'static) {
        let mut events = lock(&self.0);
        events.made += 1;
        let key = (events.now + ticks, events.made);
        events.queue.insert(key, Box::new(event));
    }

    /// Runs the next event, if there is one until `end`; otherwise it is `end`.
    fn step(&self, end: u64) -> bool {
        let mut events = lock(&self.0);
        let Some(entry) = events.queue.first_entry().filter(|entry| entry.key().0 <= end) else {
            if end < u64::MAX {
                events.now = end;
            }
            return false;
        };
        let ((time, _), event) = entry.remove_entry();
        events.now = time;
        // The event may add events.
        drop(events);
        event();
        true
    }
}

/// Events own clones of the clock, which owns them.
impl Drop for Simulation {
    fn drop(&mut self) {
        if Rc::strong_count(&self.tasks) == 1 {
            let events = std::mem::take(&mut lock(&self.clock.0).queue);
            drop(events);
        }
    }
}

struct Ready {
    id: TaskId,
    ready: Arc<Mutex<Vec<TaskId>>>,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        let mut ready = lock(&self.ready);
        if !ready.contains(&self.id) {
            ready.push(self.id);
        }
    }
}
