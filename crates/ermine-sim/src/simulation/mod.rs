//! The event loop: clients submit, transactions access and commit, waiting transactions go on.
//!
//! A transaction's first access takes place after the time that the access takes, each further one after the time that
//! it takes from then on, at last the commit. A transaction that has waited repeats its access at once. Events at the
//! same time happen in the order in which they were scheduled: a simulation is a function of its options.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::{
    control::{Control, Rc, Rcl, Si, Ssi, Ssn, TwoPhase},
    cycles::{self, Cycles},
    offers::{ACCESS_TICKS, Client, Offer, Ticks},
    options::{Options, Usage},
    outcome::{GroupOutcome, Latency, Outcome},
    scheme::Scheme,
    table::Slot,
    world::{Progress, World},
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

/// Events to come, in the order of their times, then of their numbers.
#[derive(Debug, Default)]
struct Agenda {
    events: BinaryHeap<Reverse<(Ticks, u64, Event)>>,
    scheduled: u64,
}

impl Agenda {
    fn add(&mut self, at: Ticks, event: Event) {
        self.events.push(Reverse((at, self.scheduled, event)));
        self.scheduled += 1;
    }

    fn next(&mut self) -> Option<(Ticks, Event)> {
        self.events.pop().map(|Reverse((at, _, event))| (at, event))
    }
}

/// A submitted transaction that has not ended.
#[derive(Debug, Default)]
struct Run {
    group: usize,
    submitted: Ticks,
    offer: Offer,
    /// Place of the next access; behind the last one, the commit follows.
    next: usize,
}

impl Run {
    /// The time that the next step takes.
    fn takes(&self) -> Ticks {
        self.offer.accesses.get(self.next).map_or(self.offer.commit_takes, |access| access.takes)
    }
}

struct Simulation<'a, C> {
    options: &'a Options,
    world: World<C>,
    agenda: Agenda,
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
    let simulate = match scheme {
        Scheme::TwoPhase => simulate_control::<TwoPhase>,
        Scheme::Rcl => simulate_control::<Rcl>,
        Scheme::RclSsn => simulate_control::<Ssn<Rcl>>,
        Scheme::Rc => simulate_control::<Rc>,
        Scheme::RcSsn => simulate_control::<Ssn<Rc>>,
        Scheme::Si => simulate_control::<Si>,
        Scheme::SiSsi => simulate_control::<Ssi>,
        Scheme::SiSsn => simulate_control::<Ssn<Si>>,
    };
    let (groups, cycles) = simulate(options);
    Ok(Outcome { scheme, groups, cycles })
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
        let (mut agenda, mut clients) = (Agenda::default(), Client::all(options));
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
        client.draw(self.options, &mut run.offer);
        (run.group, run.submitted, run.next) = (group, now, 0);
        self.groups[group].offered += 1;
        self.agenda.add(now + run.takes(), Event::Step(t));
        self.agenda.add(now + client.interval(), Event::Submission(number));
    }

    fn step(&mut self, now: Ticks, t: Slot) {
        let run = &mut self.runs[t.at()];
        let access = run.offer.accesses.get(run.next);
        let progress = match access {
            Some(access) if access.is_write => self.world.write(t, access.record),
            Some(access) => self.world.read(t, access.record),
            None => self.world.commit(t),
        };
        match progress {
            Progress::Waits => return,
            Progress::Done if access.is_some() => {
                run.next += 1;
                self.agenda.add(now + run.takes(), Event::Step(t));
                return;
            }
            Progress::Done => {
                self.groups[run.group].committed += 1;
                self.latencies[run.group].push(now - run.submitted);
            }
            Progress::Aborted(cause) => self.groups[run.group].aborted.count(cause),
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
