//! Whose turn it is: a seeded scheduler.
//!
//! Three ways, one drawn for each schedule, because each finds other races:
//!
//! - *even*: every thread that can go on is equally likely. Fine-grained; hardly ever stops a thread for long.
//! - *bursts*: the thread that runs goes on for some steps. Lets whole transactions pass by one that was stopped.
//! - *priorities* (PCT: Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs",
//!   ASPLOS 2010): the highest of those that can go on, and at d - 1 random steps the one that runs becomes the lowest.
//!   Finds a race that needs d turns in a certain order with a probability that has a known lower bound.
//!
//! Everything follows from the seed of the schedule alone, never from schedules before it.

use std::collections::HashMap;

use fastrand::Rng;
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

/// Distinguishes the seeds of turns from the `u64` seeds of plans, so that plan and turns are independent.
const SALT: u64 = 0x7475_726e;

/// One schedule after the other, each from the next seed.
pub struct Turns<B> {
    next_seed: u64,
    end: u64,
    /// Called with the seed of each schedule that begins.
    begins: B,
    rng: Rng,
    way: Way,
}

enum Way {
    Even,
    /// With n: the thread that runs goes on with a probability of 1 - 1/n.
    Bursts(u32),
    Priorities(Priorities),
}

struct Priorities {
    of: HashMap<TaskId, i64>,
    /// A priority below all others.
    lowest: i64,
    step: usize,
    /// The steps at which the highest becomes the lowest.
    changes: Vec<usize>,
}

impl<B: FnMut(u64)> Turns<B> {
    pub fn new(first_seed: u64, schedules: u64, begins: B) -> Self {
        let (rng, way) = (Rng::with_seed(0), Way::Even);
        Self { next_seed: first_seed, end: first_seed + schedules, begins, rng, way }
    }
}

impl Way {
    fn random(rng: &mut Rng) -> Self {
        match rng.u8(..6) {
            0 => Self::Even,
            1 | 2 => Self::Bursts(4 << rng.u32(..6)),
            _ => {
                // The number of steps is not known beforehand; all orders of magnitude are equally likely.
                let steps = 1 << rng.u32(6..13);
                let changes = (1..rng.usize(1..=6)).map(|_| rng.usize(..steps)).collect();
                Self::Priorities(Priorities { of: HashMap::new(), lowest: 0, step: 0, changes })
            }
        }
    }
}

impl Priorities {
    fn lower(&mut self, task: TaskId) {
        self.lowest -= 1;
        self.of.insert(task, self.lowest);
    }

    fn highest(&mut self, rng: &mut Rng, runnable: &[&Task]) -> TaskId {
        let mut priority = |task: &&Task| *self.of.entry(task.id()).or_insert_with(|| rng.i64(1..1 << 32));
        runnable.iter().max_by_key(|task| priority(task)).expect("some task is runnable").id()
    }
}

impl<B: FnMut(u64)> Scheduler for Turns<B> {
    fn new_execution(&mut self) -> Option<Schedule> {
        if self.next_seed == self.end {
            return None;
        }
        let seed = self.next_seed;
        self.next_seed += 1;
        (self.begins)(seed);
        self.rng = Rng::with_seed(seed ^ SALT);
        self.way = Way::random(&mut self.rng);
        Some(Schedule::new(seed))
    }

    fn next_task(&mut self, runnable: &[&Task], current: Option<TaskId>, is_yielding: bool) -> Option<TaskId> {
        if let [only] = runnable {
            return Some(only.id());
        }
        let Self { rng, way, .. } = self;
        let running = current.filter(|current| runnable.iter().any(|task| task.id() == *current));
        let anybody = |rng: &mut Rng| runnable[rng.usize(..runnable.len())].id();
        Some(match way {
            Way::Even => anybody(rng),
            Way::Bursts(length) => match running {
                Some(running) if !is_yielding && rng.u32(..*length) != 0 => running,
                _ => anybody(rng),
            },
            Way::Priorities(priorities) => {
                let changes = priorities.changes.contains(&priorities.step);
                priorities.step += 1;
                if let Some(running) = running
                    && (changes || is_yielding)
                {
                    priorities.lower(running);
                }
                priorities.highest(rng, runnable)
            }
        })
    }

    fn next_u64(&mut self) -> u64 {
        self.rng.u64(..)
    }
}
