//! A trace whose accesses are hardware transactions, one each, which elide the latch of their table (HTM IV.B).
//!
//! No concurrency control decides anything here: only the hardware transactions meet. In the first half of its time, an
//! access traverses the index; in the second half, it has the line with the timestamps of its record, which it writes
//! even if it only reads the record. An insert also has the line with the end of its zone (V.A): each table has a
//! number of zones, and a transaction inserts into the same random zone of every table.
//!
//! A line that another access wants goes to that one, and the access that had it aborts. It restarts a number of times,
//! then takes the latch, which aborts all accesses to the table that elide it, and keeps others out.
//!
//! The paper does not say how much of an access is a hardware transaction, and which part of that has the lines: all of
//! it and the second half are guesses. Nodes of indexes are left out, because a trace does not have them.

use std::collections::{BTreeMap, VecDeque};

use fastrand::Rng;

use crate::{
    agenda::Agenda,
    offers::{Access, Offer, Ticks},
    trace::Trace,
};

/// Accesses, and those of them that took the latch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Accesses {
    pub(super) all: u64,
    pub(super) latched: u64,
}

/// The cores, the layout of the tables, and the restarts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) cores: u32,
    /// Zones of each table.
    pub(super) zones: u32,
    /// Restarts of an access before it takes the latch.
    pub(super) restarts: u32,
}

/// A line of memory that accesses write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Record(u32),
    Zone { table: u32, zone: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The core commits, or waits for a latch.
    Outside,
    /// The access elides the latch.
    Eliding,
    /// The access has the latch.
    Latched,
}

#[derive(Debug)]
struct Core<'t> {
    offer: &'t Offer,
    zone: u32,
    /// Place of the access in the offer.
    next: usize,
    phase: Phase,
    aborted: u32,
    /// Raised by aborts: events of an attempt that has aborted have an older one.
    attempt: u64,
}

/// A latch that is held, and the cores that wait for it: to take it, or to elide it.
#[derive(Debug, Default)]
struct Latch {
    takers: VecDeque<usize>,
    eliders: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The access takes its lines.
    Lines,
    /// The access, or the commit, is over.
    Done,
}

struct Machine<'t> {
    trace: &'t Trace,
    layout: Layout,
    random: Rng,
    /// Transactions that have begun.
    begun: usize,
    cores: Vec<Core<'t>>,
    agenda: Agenda<(usize, u64, Event)>,
    /// The core that has each line.
    holders: BTreeMap<Line, usize>,
    /// The latches that are held, by table.
    latches: BTreeMap<u32, Latch>,
    counts: Accesses,
}

/// Runs a trace until all of its transactions have begun and a core finds none left.
pub(super) fn run(trace: &Trace, layout: Layout, seed: u64) -> Accesses {
    let mut machine = Machine {
        trace,
        layout,
        random: Rng::with_seed(seed),
        begun: 0,
        cores: Vec::new(),
        agenda: Agenda::new(),
        holders: BTreeMap::new(),
        latches: BTreeMap::new(),
        counts: Accesses::default(),
    };
    for number in 0..trace.offers.len().min(layout.cores as usize) {
        let core = machine.next_transaction().expect("there are as many");
        machine.cores.push(core);
        machine.begin(0, number);
    }
    while let Some((now, (number, attempt, event))) = machine.agenda.next() {
        if machine.cores[number].attempt != attempt {
            continue;
        }
        match event {
            Event::Lines => machine.take_lines(now, number),
            Event::Done if machine.finish(now, number) => {}
            Event::Done => break,
        }
    }
    machine.counts
}

impl<'t> Machine<'t> {
    fn next_transaction(&mut self) -> Option<Core<'t>> {
        let offer = self.trace.offers.get(self.begun)?;
        self.begun += 1;
        let zone = self.random.u32(0..self.layout.zones);
        Some(Core { offer, zone, next: 0, phase: Phase::Outside, aborted: 0, attempt: 0 })
    }

    fn access(&self, number: usize) -> Option<&'t Access> {
        let core = &self.cores[number];
        core.offer.accesses.get(core.next)
    }

    fn add(&mut self, at: Ticks, number: usize, event: Event) {
        self.agenda.add(at, (number, self.cores[number].attempt, event));
    }

    /// Begins an attempt of an access, or the commit.
    fn begin(&mut self, now: Ticks, number: usize) {
        let Some(access) = self.access(number) else {
            return self.add(now + self.cores[number].offer.commit_takes, number, Event::Done);
        };
        if let Some(latch) = self.latches.get_mut(&access.table) {
            return latch.eliders.push(number);
        }
        self.cores[number].phase = Phase::Eliding;
        self.add(now + access.takes / 2, number, Event::Lines);
    }

    fn take_lines(&mut self, now: Ticks, number: usize) {
        let access = self.access(number).expect("a commit takes no lines");
        let attempt = self.cores[number].attempt;
        for line in self.lines(number, access) {
            if let Some(other) = self.holders.insert(line, number) {
                self.abort(now, other);
            }
            if self.cores[number].attempt != attempt {
                // The other access took the latch.
                return;
            }
        }
        self.add(now + access.takes - access.takes / 2, number, Event::Done);
    }

    fn lines(&self, number: usize, access: &Access) -> impl Iterator<Item = Line> + use<> {
        let zone = Line::Zone { table: access.table, zone: self.cores[number].zone };
        [Line::Record(access.record.0)].into_iter().chain(access.is_insert.then_some(zone))
    }

    /// Gives up the lines that the access of a core has.
    fn release(&mut self, number: usize, access: &Access) {
        for line in self.lines(number, access) {
            if self.holders.get(&line) == Some(&number) {
                self.holders.remove(&line);
            }
        }
    }

    fn abort(&mut self, now: Ticks, number: usize) {
        let access = self.access(number).expect("a commit does not abort");
        self.release(number, access);
        let core = &mut self.cores[number];
        (core.phase, core.attempt, core.aborted) = (Phase::Outside, core.attempt + 1, core.aborted + 1);
        if core.aborted <= self.layout.restarts {
            return self.begin(now, number);
        }
        match self.latches.get_mut(&access.table) {
            Some(latch) => latch.takers.push_back(number),
            None => self.take_latch(now, number, access),
        }
    }

    fn take_latch(&mut self, now: Ticks, number: usize, access: &Access) {
        self.counts.latched += 1;
        self.latches.entry(access.table).or_default();
        self.cores[number].phase = Phase::Latched;
        self.add(now + access.takes, number, Event::Done);
        for other in 0..self.cores.len() {
            let is_same = self.access(other).is_some_and(|other| other.table == access.table);
            if is_same && self.cores[other].phase == Phase::Eliding {
                self.abort(now, other);
            }
        }
    }

    /// Lets a core go on after an access or a commit; returns whether there is something to do.
    fn finish(&mut self, now: Ticks, number: usize) -> bool {
        let Some(access) = self.access(number) else {
            let Some(next) = self.next_transaction() else { return false };
            self.cores[number] = Core { attempt: self.cores[number].attempt, ..next };
            self.begin(now, number);
            return true;
        };
        self.counts.all += 1;
        self.release(number, access);
        let core = &mut self.cores[number];
        let was_latched = core.phase == Phase::Latched;
        (core.phase, core.aborted, core.next) = (Phase::Outside, 0, core.next + 1);
        if was_latched {
            self.release_latch(now, access.table);
        }
        self.begin(now, number);
        true
    }

    /// Gives the latch to the core that has waited longest to take it; if there is none, all that wait elide it.
    fn release_latch(&mut self, now: Ticks, table: u32) {
        let latch = self.latches.get_mut(&table).expect("it is held");
        if let Some(taker) = latch.takers.pop_front() {
            let access = self.access(taker).expect("it waits to access the table");
            return self.take_latch(now, taker, access);
        }
        let latch = self.latches.remove(&table).expect("it is held");
        for elider in latch.eliders {
            self.begin(now, elider);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Kind, Touch};

    fn latched(trace: &Trace, cores: u32, zones: u32, restarts: u32) -> f64 {
        let Accesses { all, latched } = run(trace, Layout { cores, zones, restarts }, 1);
        assert!(all > 0 && latched <= all);
        latched as f64 / all as f64
    }

    /// Transactions that each access records of their own.
    fn trace(kind: Kind) -> Trace {
        let mut trace = Trace::new(1);
        for number in 0..2000_u32 {
            let touch = |at| Touch { table: 0, record: 10 * number + at, partition: None, kind };
            trace.add((0..10_u32).map(touch));
        }
        trace
    }

    #[test]
    fn without_common_lines_no_latch_is_taken() {
        assert_eq!(latched(&trace(Kind::Write), 64, 1, 0), 0.0);
        assert_eq!(latched(&trace(Kind::Insert), 1, 1, 0), 0.0);
    }

    #[test]
    fn zones_and_restarts_save_latches() {
        let inserts = trace(Kind::Insert);
        let by_zones = [1, 8, 64].map(|zones| latched(&inserts, 4, zones, 0));
        assert!(by_zones[0] > 0.5 && by_zones[1] < 0.6 * by_zones[0] && by_zones[2] < 0.1, "{by_zones:?}");
        let by_restarts = [0, 1, 2, 4, 8].map(|restarts| latched(&inserts, 4, 8, restarts));
        assert!(by_restarts.is_sorted_by(|fewer, more| fewer > more), "{by_restarts:?}");
        let by_cores = [1, 2, 4, 16].map(|cores| latched(&inserts, cores, 8, 0));
        assert!(by_cores.is_sorted_by(|fewer, more| fewer < more), "{by_cores:?}");
    }
}
