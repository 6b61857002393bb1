//! The threads of a benchmark: they start together, warm up, are measured, and stop together.
//!
//! For each transaction, a worker executes one relaxed load and two relaxed stores of this module, the stores to a
//! cache line of its own: it takes no lock and allocates nothing. Every worker is measured by its own clock from the
//! moment it noticed that the warm-up is over to the moment it noticed the end, so that no transaction is counted in
//! part.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::error::Result;

/// The work that one thread does over and over.
pub trait Worker: Send {
    /// Runs one transaction, or a small batch of them.
    fn step(&mut self) -> Result<()>;
    /// Called when the warm-up is over: discards all counts.
    fn start_measuring(&mut self);
    /// The work done since the warm-up.
    fn progress(&self) -> Progress;
    /// Called when the measured time is over: ends transactions in progress, which do not count any more.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Counts of a run so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Transactions that ended as intended.
    pub completed: u64,
    /// Attempts that lost a conflict.
    pub aborted: u64,
}

/// Duration of a run.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Time before measuring starts.
    pub warmup: Duration,
    /// Measured time.
    pub measured: Duration,
    /// Number of transactions that each thread completes at least: the measured time goes on until then.
    pub least: u64,
}

/// An event that is reported to the watcher of a run.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A second has passed.
    Second(Tick),
    /// The warm-up is over.
    Measuring,
}

/// One second of a run.
#[derive(Clone, Copy, Debug)]
pub struct Tick {
    /// Whether this was during the warm-up.
    pub warmup: bool,
    /// Time since the beginning of this phase.
    pub elapsed: Duration,
    /// Work done since the last tick.
    pub done: Progress,
    /// Time since the last tick.
    pub interval: Duration,
}

impl Tick {
    /// The line that is printed each second.
    pub fn line(&self) -> String {
        let attempts = self.done.completed + self.done.aborted;
        let aborted = if attempts == 0 { 0.0 } else { 100.0 * self.done.aborted as f64 / attempts as f64 };
        format!(
            "{:>6.0} s  {:>12} txn/s  aborts {aborted:>5.2} %{}",
            self.elapsed.as_secs_f64(),
            crate::report::grouped((self.done.completed as f64 / self.interval.as_secs_f64()) as u64),
            if self.warmup { "  (warm-up)" } else { "" }
        )
    }
}

/// A worker after the run, and the time it was measured for.
pub struct Done<W> {
    /// The worker, with its counts.
    pub worker: W,
    /// Its measured time.
    pub measured: Duration,
}

const SECOND: Duration = Duration::from_secs(1);

const WARMUP: u8 = 0;
const MEASURED: u8 = 1;
const OVER: u8 = 2;

/// Counts that one thread publishes to the watcher, on a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Slate {
    completed: AtomicU64,
    aborted: AtomicU64,
    /// The phase of these counts.
    phase: AtomicU8,
}

impl Slate {
    fn show(&self, progress: Progress) {
        // Relaxed: pairs with nothing; the watcher wants recent numbers, not consistent ones.
        self.completed.store(progress.completed, Ordering::Relaxed);
        self.aborted.store(progress.aborted, Ordering::Relaxed);
    }

    /// Enters a phase with the counts shown.
    fn enter(&self, phase: u8) {
        // Release: pairs with the load in `has_completed`, which must not see the counts of the phase before.
        self.phase.store(phase, Ordering::Release);
    }

    /// Whether the thread has completed this many transactions in this phase.
    fn has_completed(&self, least: u64, phase: u8) -> bool {
        least == 0 || (self.phase.load(Ordering::Acquire) == phase && self.read().completed >= least)
    }

    fn read(&self) -> Progress {
        Progress { completed: self.completed.load(Ordering::Relaxed), aborted: self.aborted.load(Ordering::Relaxed) }
    }
}

/// Runs one thread per worker; `watch` is called every second. The first failure ends the run for all.
pub fn run<W: Worker>(workers: Vec<W>, pace: Pace, watch: &mut dyn FnMut(Event)) -> Result<Vec<Done<W>>> {
    let phase = AtomicU8::new(WARMUP);
    let start = Barrier::new(workers.len() + 1);
    let slates: Vec<Slate> = workers.iter().map(|_| Slate::default()).collect();
    thread::scope(|scope| {
        let threads: Vec<_> = workers
            .into_iter()
            .zip(&slates)
            .map(|(worker, slate)| {
                let (phase, start) = (&phase, &start);
                scope.spawn(move || {
                    start.wait();
                    let done = work(worker, phase, slate);
                    if done.is_err() {
                        phase.store(OVER, Ordering::Relaxed);
                    }
                    done
                })
            })
            .collect();
        start.wait();
        direct(&phase, &slates, pace, watch);
        let done: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        done.into_iter().map(|joined| joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

fn work<W: Worker>(mut worker: W, phase: &AtomicU8, slate: &Slate) -> Result<Done<W>> {
    // Relaxed: the phase carries no data; a worker that sees it a little late measures a little later.
    while phase.load(Ordering::Relaxed) == WARMUP {
        worker.step()?;
        slate.show(worker.progress());
    }
    worker.start_measuring();
    slate.show(worker.progress());
    slate.enter(MEASURED);
    let begin = Instant::now();
    while phase.load(Ordering::Relaxed) == MEASURED {
        worker.step()?;
        slate.show(worker.progress());
    }
    let measured = begin.elapsed();
    worker.finish()?;
    Ok(Done { worker, measured })
}

/// Moves all workers from phase to phase.
fn direct(phase: &AtomicU8, slates: &[Slate], pace: Pace, watch: &mut dyn FnMut(Event)) {
    observe(phase, WARMUP, pace.warmup, 0, slates, watch);
    // A failed worker has set the phase to OVER: leave it at that.
    if phase.compare_exchange(WARMUP, MEASURED, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        watch(Event::Measuring);
        observe(phase, MEASURED, pace.measured, pace.least, slates, watch);
    }
    phase.store(OVER, Ordering::Relaxed);
}

/// Observes one phase, which lasts for this time, and until each thread has completed this many transactions.
fn observe(
    phase: &AtomicU8,
    current: u8,
    length: Duration,
    least: u64,
    slates: &[Slate],
    watch: &mut dyn FnMut(Event),
) {
    let begin = Instant::now();
    let (mut last, mut before) = (begin, Progress::default());
    let is_short = || slates.iter().any(|slate| !slate.has_completed(least, current));
    while phase.load(Ordering::Relaxed) == current && (begin.elapsed() < length || is_short()) {
        let wake = match begin.elapsed() < length {
            true => (last + SECOND).min(begin + length),
            false => Instant::now() + Duration::from_millis(5),
        };
        thread::sleep(wake.saturating_duration_since(Instant::now()));
        let now = Instant::now();
        if now < last + SECOND && begin.elapsed() > length && is_short() {
            continue;
        }
        let total = slates.iter().map(Slate::read).fold(Progress::default(), |sum, one| Progress {
            completed: sum.completed + one.completed,
            aborted: sum.aborted + one.aborted,
        });
        // Counts restart when the warm-up ends, at slightly different moments: never below zero.
        let done = Progress {
            completed: total.completed.saturating_sub(before.completed),
            aborted: total.aborted.saturating_sub(before.aborted),
        };
        let warmup = current == WARMUP;
        watch(Event::Second(Tick { warmup, elapsed: begin.elapsed(), done, interval: now - last }));
        (last, before) = (now, total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    struct Counter {
        steps: u64,
        fail_at: u64,
    }

    impl Worker for Counter {
        fn step(&mut self) -> Result<()> {
            self.steps += 1;
            thread::sleep(Duration::from_millis(1));
            if self.steps == self.fail_at { Err(Error::Workload("enough".into())) } else { Ok(()) }
        }

        fn start_measuring(&mut self) {
            self.steps = 0;
        }

        fn progress(&self) -> Progress {
            Progress { completed: self.steps, aborted: 0 }
        }
    }

    const PACE: Pace = Pace { warmup: Duration::from_millis(50), measured: Duration::from_millis(100), least: 0 };

    #[test]
    fn measures_only_the_measured_time() {
        let workers = (0..3).map(|_| Counter { steps: 0, fail_at: u64::MAX }).collect();
        let mut ticks = Vec::new();
        let done = run(workers, PACE, &mut |event| match event {
            Event::Second(tick) => ticks.push(Some(tick.warmup)),
            Event::Measuring => ticks.push(None),
        })
        .unwrap();
        assert_eq!(done.len(), 3);
        for done in &done {
            assert!((1..=100).contains(&done.worker.steps), "{}", done.worker.steps);
            assert!(done.measured >= Duration::from_millis(90), "{:?}", done.measured);
        }
        assert_eq!(ticks, [Some(true), None, Some(false)]);
    }

    #[test]
    fn each_thread_completes_the_least() {
        let pace = Pace { least: 150, measured: Duration::from_millis(1), ..PACE };
        let workers = (0..3).map(|_| Counter { steps: 0, fail_at: u64::MAX }).collect();
        let done = run(workers, pace, &mut |_| {}).unwrap();
        assert!(done.iter().all(|done| done.worker.steps >= 150));
    }

    #[test]
    fn transactions_of_the_warm_up_are_not_the_least() {
        /// A worker with one long step, which spans the end of the warm-up.
        struct Late {
            counter: Counter,
            is_due: bool,
        }

        impl Worker for Late {
            fn step(&mut self) -> Result<()> {
                if self.counter.steps == 5 && std::mem::take(&mut self.is_due) {
                    thread::sleep(Duration::from_millis(200));
                }
                self.counter.step()
            }

            fn start_measuring(&mut self) {
                self.counter.start_measuring();
            }

            fn progress(&self) -> Progress {
                self.counter.progress()
            }
        }

        let pace = Pace { least: 5, measured: Duration::from_millis(1), ..PACE };
        let late = Late { counter: Counter { steps: 0, fail_at: u64::MAX }, is_due: true };
        let done = run(vec![late], pace, &mut |_| {}).unwrap();
        assert!(done[0].worker.counter.steps >= 5, "{}", done[0].worker.counter.steps);
    }

    #[test]
    fn one_failure_ends_the_run() {
        let workers = vec![Counter { steps: 0, fail_at: u64::MAX }, Counter { steps: 0, fail_at: 5 }];
        let pace = Pace { warmup: Duration::from_secs(60), ..PACE };
        let begin = Instant::now();
        assert!(run(workers, pace, &mut |_| {}).is_err());
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
}
