//! The event loop: clients submit, transactions access and commit, waiting transactions go on.
//!
//! Queueing is open, and nothing is retried (SSN 7.1); `cores` has the closed loop.

use crate::{
    agenda::Agenda,
    control::{Control, Simulated, run_under},
    cycles::{self, Cycles},
    offers::{ACCESS_TICKS, Client, Ticks},
    options::{Options, Usage},
    outcome::{GroupOutcome, Latency, Outcome},
    scheme::Scheme,
    steps::{Step, Steps},
    table::Slot,
    world::World,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A client submits a transaction.
    Submission(u32),
    /// A transaction accesses a record or commits.
    Step(Slot),
    /// A safe snapshot is taken.
    SafeSnapshot,
}

/// A submitted transaction that has not ended.
#[derive(Debug, Default)]
struct Run {
    group: usize,
    submitted: Ticks,
    steps: Steps,
}

struct Simulation<'a, C> {
    options: &'a Options,
    world: World<C>,
    agenda: Agenda<Event>,
    clients: Vec<Client>,
    /// For each slot, its transaction.
    runs: Vec<Run>,
    /// Transactions to be submitted.
    left: u32,
    in_flight: u32,
    groups: Vec<GroupOutcome>,
    /// For each group, the latencies of its commits.
    latencies: Vec<Vec<Ticks>>,
}

/// Simulates a scheme.
pub fn simulate(scheme: Scheme, options: &Options) -> Result<Outcome, Usage> {
    options.check()?;
    if scheme.only_queues() {
        return Err(Usage(format!("{scheme} only queues: use `ermine sim cores`, where its queue is bounded")));
    }
    let (groups, cycles) = run_under(scheme, Submitted(options));
    Ok(Outcome { scheme, groups, cycles })
}

/// The simulation of what clients submit.
struct Submitted<'a>(&'a Options);

impl Simulated for Submitted<'_> {
    type Output = (Vec<GroupOutcome>, Option<Cycles>);

    fn run<C: Control>(self) -> Self::Output {
        simulate_control::<C>(self.0)
    }
}

/// Simulates a scheme; returns the outcome of each group, and the serialization failures, if they were looked for.
pub(crate) fn simulate_control<C: Control>(options: &Options) -> (Vec<GroupOutcome>, Option<Cycles>) {
    let mut simulation = Simulation::<C>::new(options);
    simulation.run();
    let Simulation { world, mut groups, latencies, .. } = simulation;
    for (group, latencies) in groups.iter_mut().zip(latencies) {
        group.latency = Latency::of(latencies);
    }
    (groups, world.into_history().map(|history| cycles::cycles(&history)))
}

impl<'a, C: Control> Simulation<'a, C> {
    fn new(options: &'a Options) -> Self {
        let (mut agenda, mut clients) = (Agenda::new(), Client::all(options));
        for (number, client) in clients.iter_mut().enumerate() {
            agenda.add(client.first(), Event::Submission(number as u32));
        }
        if C::SAFE_SNAPSHOTS && options.safe_snapshot_interval.is_some() {
            agenda.add(0, Event::SafeSnapshot);
        }
        Self {
            options,
            world: World::new(options.records, options.cycle_test),
            agenda,
            clients,
            runs: Vec::new(),
            left: options.transactions,
            in_flight: 0,
            groups: vec![GroupOutcome::default(); options.groups.len()],
            latencies: vec![Vec::new(); options.groups.len()],
        }
    }

    fn run(&mut self) {
        while self.left + self.in_flight > 0
            && let Some((now, event)) = self.agenda.next()
        {
            self.handle(now, event);
        }
    }

    fn handle(&mut self, now: Ticks, event: Event) {
        match event {
            Event::Submission(client) => self.submit(now, client),
            Event::Step(t) => self.step(now, t),
            Event::SafeSnapshot => self.take_safe_snapshot(now),
        }
    }

    fn submit(&mut self, now: Ticks, number: u32) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        self.in_flight += 1;
        let client = &mut self.clients[number as usize];
        let group = client.group;
        let in_snapshot = C::SAFE_SNAPSHOTS
            && self.options.safe_snapshot_interval.is_some()
            && self.options.groups[group].only_reads();
        let t = if in_snapshot { self.world.begin_in_safe_snapshot() } else { self.world.begin() };
        if self.runs.len() <= t.at() {
            self.runs.push(Run::default());
        }
        let run = &mut self.runs[t.at()];
        client.draw(self.options, &mut run.steps.offer);
        let next = now + client.interval();
        (run.group, run.submitted) = (group, now);
        run.steps.restart();
        self.groups[group].offered += 1;
        self.step(now, t);
        self.agenda.add(next, Event::Submission(number));
    }

    fn step(&mut self, now: Ticks, t: Slot) {
        let run = &mut self.runs[t.at()];
        match run.steps.take(&mut self.world, t) {
            Step::Next(takes) => return self.agenda.add(now + takes, Event::Step(t)),
            Step::Waits => return,
            Step::Committed => {
                self.groups[run.group].committed += 1;
                self.latencies[run.group].push(now - run.submitted);
            }
            Step::Aborted(cause) => self.groups[run.group].aborted.count(cause),
        }
        self.in_flight -= 1;
        for waiter in self.world.woken() {
            self.agenda.add(now, Event::Step(waiter));
        }
    }

    fn take_safe_snapshot(&mut self, now: Ticks) {
        self.world.take_safe_snapshot();
        let interval = self.options.safe_snapshot_interval.expect("only then are there such events");
        self.agenda.add(now + (interval * ACCESS_TICKS as f64) as Ticks, Event::SafeSnapshot);
    }
}

#[cfg(test)]
mod tests;
