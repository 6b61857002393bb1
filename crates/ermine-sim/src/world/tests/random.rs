//! SSN's decisions against the definitions of pi and eta over the whole graph (SSN 3.1), on random schedules.

use std::collections::BTreeMap;

use super::*;
use crate::{
    control::{Rc, Rcl, Si, Ssn},
    table::{Stamp, VersionId},
};

/// A committed transaction as the definitions see it.
#[derive(Clone, Default)]
struct Committed {
    stamp: u32,
    reads: Vec<VersionId>,
    overwritten: Vec<VersionId>,
}

/// Creator and overwriter of versions, by places in the list of committed transactions.
#[derive(Default)]
struct Reference {
    committed: Vec<Committed>,
    creators: BTreeMap<u32, usize>,
    overwriters: BTreeMap<u32, usize>,
}

impl Reference {
    /// Direct successors over back edges: those that overwrote a read, and committed before.
    fn back(&self, of: &Committed) -> Vec<usize> {
        let overwriters = of.reads.iter().filter_map(|version| self.overwriters.get(&version.0).copied());
        overwriters.filter(|&at| self.committed[at].stamp < of.stamp).collect()
    }

    /// pi(T): the least stamp that is reached over back edges.
    fn pi(&self, of: &Committed) -> u32 {
        let reached = self.back(of).into_iter().map(|at| self.pi(&self.committed[at]));
        reached.chain([of.stamp]).min().unwrap()
    }

    /// eta(T): the greatest stamp of a direct predecessor that committed before.
    fn eta(&self, of: &Committed) -> Option<u32> {
        let created = of.reads.iter().chain(&of.overwritten).filter_map(|version| self.creators.get(&version.0));
        let readers = (0..self.committed.len())
            .filter(|&at| self.committed[at].reads.iter().any(|version| of.overwritten.contains(version)));
        let stamps = created.copied().chain(readers).map(|at| self.committed[at].stamp);
        stamps.filter(|&stamp| stamp < of.stamp).max()
    }

    fn violates(&self, of: &Committed) -> bool {
        self.eta(of).is_some_and(|eta| self.pi(of) <= eta)
    }
}

/// Random transactions under SSN, each decision compared with the definitions.
struct Comparison<U> {
    world: World<Ssn<U>>,
    reference: Reference,
    random: fastrand::Rng,
    records: u32,
    active: Vec<Slot>,
    commits: u32,
    aborts: u32,
}

impl<U: Control> Comparison<U> {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let records = random.u32(2..8);
        let (world, reference) = (World::new(records, false), Reference::default());
        Self { world, reference, random, records, active: Vec::new(), commits: 0, aborts: 0 }
    }

    fn run(&mut self) {
        for _ in 0..300 {
            let ready: Vec<Slot> = self.active.iter().copied().filter(|&t| self.world.db[t].waits_for == 0).collect();
            if self.active.len() < 5 && (ready.is_empty() || self.random.u32(0..4) == 0) {
                self.active.push(self.world.begin());
            } else {
                let choice = self.random.usize(0..ready.len());
                self.step(ready[choice]);
            }
        }
        assert!(self.reference.committed.iter().all(|of| !self.reference.violates(of)), "a commit made another wrong");
    }

    fn latest(&self, record: RecordId) -> VersionId {
        self.world.db.table.latest(record)
    }

    fn step(&mut self, t: Slot) {
        // A write that waited comes first.
        let (what, record) = match self.world.db[t].queued {
            Some(record) => ('w', record),
            None => {
                (['r', 'r', 'r', 'w', 'w', 'c'][self.random.usize(0..6)], RecordId(self.random.u32(0..self.records)))
            }
        };
        let context = &self.world.db[t];
        let (begin, writes) = (context.begin, context.writes.clone());
        let mut candidate = Committed {
            stamp: self.world.db.clock.next().0,
            reads: context.reads.clone(),
            overwritten: writes.iter().map(|&record| self.latest(record)).collect(),
        };
        if what != 'c' && !writes.contains(&record) {
            let seen = if U::SNAPSHOT && what == 'r' { begin } else { self.world.db.clock };
            let list = if what == 'r' { &mut candidate.reads } else { &mut candidate.overwritten };
            list.push(self.world.db.table.as_of(record, seen));
        }
        let progress = match what {
            'r' => self.world.read(t, record),
            'w' => self.world.write(t, record),
            _ => self.world.commit(t),
        };
        match progress {
            Progress::Aborted(cause) => {
                self.active.retain(|&other| other != t);
                if cause == Cause::Certifier {
                    self.aborts += 1;
                    assert!(self.reference.violates(&candidate), "aborted without a violation");
                }
            }
            Progress::Done if what == 'c' => {
                self.active.retain(|&other| other != t);
                self.committed(candidate, begin, &writes);
            }
            _ => {}
        }
        self.world.woken();
    }

    fn committed(&mut self, mut of: Committed, begin: Stamp, writes: &[RecordId]) {
        self.commits += 1;
        let overwriters = of.reads.iter().filter_map(|version| self.reference.overwriters.get(&version.0));
        let pi = overwriters.map(|&at| self.reference.pi(&self.reference.committed[at])).min();
        if U::SNAPSHOT && writes.is_empty() && pi.is_none_or(|pi| pi > begin.0) {
            of.stamp = begin.0;
        }
        assert!(!self.reference.violates(&of), "committed in spite of a violation");
        let place = self.reference.committed.len();
        self.reference.overwriters.extend(of.overwritten.iter().map(|version| (version.0, place)));
        self.reference.creators.extend(writes.iter().map(|&record| (self.world.db.table.latest(record).0, place)));
        self.reference.committed.push(of);
    }
}

fn compare<U: Control>(aborts_at_least: u32) {
    let (mut commits, mut aborts) = (0, 0);
    for seed in 0..100 {
        let mut comparison = Comparison::<U>::new(seed);
        comparison.run();
        commits += comparison.commits;
        aborts += comparison.aborts;
    }
    assert!(commits > 2000 && aborts > aborts_at_least, "{commits} commits, {aborts} aborts");
}

#[test]
fn decisions_over_rc_are_those_of_the_definitions() {
    compare::<Rc>(500);
}

#[test]
fn decisions_over_rcl_are_those_of_the_definitions() {
    compare::<Rcl>(200);
}

#[test]
fn decisions_over_si_are_those_of_the_definitions() {
    compare::<Si>(200);
}
