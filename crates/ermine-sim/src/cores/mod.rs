//! A recorded trace on a number of cores (HTM VI.A, figure 14): which transactions run at the same time under a scheme,
//! and which have to wait or to run again.
//!
//! The paper simulates a machine that was not to be had from the read and write sets of TPC-C, and decides from these
//! "which transactions can be executed in parallel and which have to be run serially". Here the sets are replayed under
//! the schemes themselves, in a closed loop:
//!
//! - A core runs one transaction until it commits, then the next one. Transactions that begin in the same partition
//!   have a queue and cores of their own as far as there are enough ([`Homes::Fixed`]), or all cores share one queue
//!   ([`Homes::Any`]). A queue begins again when it is empty.
//! - Retries follow the engine: at once, or after the opponent has ended where the scheme names one; after
//!   [`ATTEMPTS_TOGETHER`] attempts, the transaction runs alone. The engine's short pauses between attempts are left
//!   out.
//! - The speedup is the time that the committed transactions would take one after the other, divided by the time that
//!   passed. An access takes the same time under every scheme, whatever the number of cores: the speedup shows what
//!   conflicts leave, without the costs of locks, timestamps and caches.

mod outcome;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use self::outcome::CoresOutcome;
use self::outcome::Counts;
use crate::{
    agenda::Agenda,
    control::{Control, Simulated, run_under},
    cycles::{self, Cycles},
    offers::Ticks,
    options::Usage,
    scheme::Scheme,
    steps::{Step, Steps},
    table::Slot,
    trace::Trace,
    world::World,
};

/// Attempts of a transaction among others; the next one runs alone. The engine's number.
const ATTEMPTS_TOGETHER: u32 = 12;
/// Maximum number of cores.
const CORES_MAX: u32 = 4096;

/// The transactions of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Homes {
    /// Those that begin in its partitions; cores that are more than the partitions share these.
    Fixed,
    /// Those that are next, wherever they begin.
    Any,
}

/// A machine on which a trace runs.
#[derive(Clone, Copy, Debug)]
pub struct CoresOptions {
    /// Number of cores.
    pub cores: u32,
    /// The transactions of a core.
    pub homes: Homes,
    /// Whether the history is kept and searched for cycles.
    pub cycle_test: bool,
}

/// Runs a trace under a scheme.
pub fn simulate_cores(scheme: Scheme, trace: &Trace, options: &CoresOptions) -> Result<CoresOutcome, Usage> {
    if trace.transactions() == 0 {
        return Err(Usage("the trace has no transactions".into()));
    }
    if !(1..=CORES_MAX).contains(&options.cores) {
        return Err(Usage(format!("there are between 1 and {CORES_MAX} cores")));
    }
    let (counts, elapsed, cycles) = run_under(scheme, Replayed { trace, options });
    Ok(counts.outcome(scheme, options.cores, elapsed, cycles))
}

/// The simulation of a trace on a machine.
struct Replayed<'a> {
    trace: &'a Trace,
    options: &'a CoresOptions,
}

impl Simulated for Replayed<'_> {
    type Output = (Counts, Ticks, Option<Cycles>);

    fn run<C: Control>(self) -> Self::Output {
        let mut machine = Machine::<C>::new(self.trace, self.options);
        let elapsed = machine.run();
        let Machine { world, counts, .. } = machine;
        (counts, elapsed, world.into_history().map(|history| cycles::cycles(&history)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A core begins a transaction, or a retry.
    Begin(u32),
    /// A transaction is admitted, accesses a record or commits.
    Step(Slot),
}

/// Transactions that begin in the same partitions, and the next of them.
#[derive(Debug, Default)]
struct Queue {
    transactions: Vec<u32>,
    next: usize,
}

/// A transaction that has not committed.
#[derive(Debug)]
struct Work {
    steps: Steps,
    /// Attempts that have aborted.
    aborted: u32,
    /// The slot of its next attempt, if it has one already.
    slot: Option<Slot>,
    /// Whether it is put aside, and its opponents have not ended.
    is_suspended: bool,
}

/// A core, its transaction, and those that it has put aside.
#[derive(Debug)]
struct Core {
    queue: usize,
    work: Option<Work>,
    aside: Vec<Work>,
}

struct Machine<'a, C> {
    trace: &'a Trace,
    world: World<C>,
    agenda: Agenda<Event>,
    queues: Vec<Queue>,
    cores: Vec<Core>,
    /// For each slot, the core of its transaction.
    core_of: Vec<u32>,
    /// Transactions that have begun and not ended, without those put aside.
    in_flight: u32,
    /// The core whose transaction runs alone, or waits until the others have ended.
    alone: Option<u32>,
    /// Cores that wait for that transaction before they begin theirs.
    held: Vec<u32>,
    counts: Counts,
}

impl<'a, C: Control> Machine<'a, C> {
    fn new(trace: &'a Trace, options: &CoresOptions) -> Self {
        let queues = queues(trace, options);
        let core = |number: u32| Core { queue: number as usize % queues.len(), work: None, aside: Vec::new() };
        Self {
            trace,
            world: World::new(trace.records, options.cycle_test),
            agenda: Agenda::new(),
            cores: (0..options.cores).map(core).collect(),
            queues,
            core_of: Vec::new(),
            in_flight: 0,
            alone: None,
            held: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Runs until as many transactions have committed as the trace has; returns the time that has passed.
    fn run(&mut self) -> Ticks {
        for core in 0..self.cores.len() as u32 {
            self.agenda.add(0, Event::Begin(core));
        }
        let mut elapsed = 0;
        while self.counts.committed < u64::from(self.trace.transactions()) {
            let (now, event) = self.agenda.next().expect("some transaction can always go on");
            elapsed = now;
            match event {
                Event::Begin(core) => self.begin(now, core),
                Event::Step(t) => self.step(now, t),
            }
        }
        elapsed
    }

    /// Begins the transaction of a core; takes another one if it has none.
    fn begin(&mut self, now: Ticks, number: u32) {
        if self.alone.is_some_and(|alone| alone != number) {
            self.held.push(number);
            return;
        }
        let mut work = self.take_work(number);
        if work.aborted >= ATTEMPTS_TOGETHER {
            self.alone = Some(number);
            if self.in_flight > 0 {
                self.cores[number as usize].work = Some(work);
                return;
            }
        }
        let t = work.slot.take().unwrap_or_else(|| self.world.begin());
        self.cores[number as usize].work = Some(work);
        self.start(number, t);
        self.step(now, t);
    }

    /// Takes the transaction of a core, one that it has put aside, or the next one of its queue.
    fn take_work(&mut self, number: u32) -> Work {
        let core = &mut self.cores[number as usize];
        if let Some(work) = core.work.take() {
            return work;
        }
        if let Some(place) = core.aside.iter().position(|work| !work.is_suspended) {
            return core.aside.remove(place);
        }
        let queue = &mut self.queues[core.queue];
        let offer = &self.trace.offers[queue.transactions[queue.next] as usize];
        queue.next = (queue.next + 1) % queue.transactions.len();
        Work { steps: Steps::new(offer.clone()), aborted: 0, slot: None, is_suspended: false }
    }

    /// Notes that the transaction of a core is in this slot and under way.
    fn start(&mut self, core: u32, t: Slot) {
        self.set_core(t, core);
        self.in_flight += 1;
    }

    fn set_core(&mut self, t: Slot, core: u32) {
        if self.core_of.len() <= t.at() {
            self.core_of.resize(t.at() + 1, core);
        }
        self.core_of[t.at()] = core;
    }

    fn step(&mut self, now: Ticks, t: Slot) {
        let number = self.core_of[t.at()];
        let core = &mut self.cores[number as usize];
        if let Some(work) = core.aside.iter_mut().find(|work| work.slot == Some(t)) {
            work.is_suspended = false;
            return;
        }
        let work = core.work.as_mut().expect("a transaction under way is that of its core");
        match work.steps.take(&mut self.world, t) {
            Step::Next(takes) => return self.agenda.add(now + takes, Event::Step(t)),
            Step::Waits => return,
            Step::Committed => {
                self.counts.commit(work.steps.offer.takes(), work.aborted, self.alone == Some(number));
                core.work = None;
            }
            Step::Aborted(cause) => {
                assert_ne!(self.alone, Some(number), "a transaction that runs alone meets no other");
                work.aborted += 1;
                work.steps.restart();
                self.counts.aborted.count(cause);
            }
        }
        self.end(now, number);
    }

    /// Lets a core go on after its transaction has committed or aborted, and those that waited for it.
    fn end(&mut self, now: Ticks, number: u32) {
        self.in_flight -= 1;
        for waiter in self.world.woken() {
            self.agenda.add(now, Event::Step(waiter));
        }
        if self.alone == Some(number) {
            self.alone = None;
            for held in self.held.drain(..) {
                self.agenda.add(now, Event::Begin(held));
            }
        }
        if !self.await_opponents(number) {
            self.agenda.add(now, Event::Begin(number));
        }
        if let Some(alone) = self.alone
            && self.in_flight == 0
        {
            self.agenda.add(now, Event::Begin(alone));
        }
    }

    /// Lets a core wait with its transaction for the opponents to which it has lost; returns whether there are any. If
    /// the scheme puts such a transaction aside, the core does not wait.
    fn await_opponents(&mut self, number: u32) -> bool {
        let waits = |work: &Work| (1..ATTEMPTS_TOGETHER).contains(&work.aborted);
        if self.alone.is_some() || !self.cores[number as usize].work.as_ref().is_some_and(waits) {
            return false;
        }
        let Some(t) = self.world.begin_again() else { return false };
        if !C::SUSPENDS {
            self.start(number, t);
            return true;
        }
        self.set_core(t, number);
        let core = &mut self.cores[number as usize];
        let work = core.work.take().expect("it has aborted");
        core.aside.push(Work { slot: Some(t), is_suspended: true, ..work });
        false
    }
}

/// The queues of the cores: one for each partition where transactions begin, or for several if there are fewer cores;
/// or one for all.
fn queues(trace: &Trace, options: &CoresOptions) -> Vec<Queue> {
    if options.homes == Homes::Any {
        return vec![Queue { transactions: (0..trace.transactions()).collect(), next: 0 }];
    }
    let mut homes = trace.homes.clone();
    homes.sort_unstable();
    homes.dedup();
    let mut queues: Vec<_> = (0..homes.len().min(options.cores as usize)).map(|_| Queue::default()).collect();
    let count = queues.len();
    for (number, home) in trace.homes.iter().enumerate() {
        let place = homes.binary_search(home).expect("every home is in the list");
        queues[place % count].transactions.push(number as u32);
    }
    queues
}
