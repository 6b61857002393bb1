//! Workers, the collection of a round, and the persistent epoch under the model checker: a transaction whose epoch is
//! reported persistent has its record among those that were synced.
//!
//! Workers take the steps of `single::journal` and `single::commit`, the collector those of `logger`, with a list for
//! the files.

use std::sync::{Arc, Mutex as StdMutex};

use loom::thread;

use super::{
    epoch::EpochClock,
    worker_slots::{BUFFER_BYTES, WorkerSlot, WorkerSlots},
};

/// The first epoch.
const FIRST: u64 = 5;

struct Model {
    epochs: EpochClock,
    slots: WorkerSlots,
    /// Epochs of records that were synced. A plain lock: it orders nothing under loom.
    synced: StdMutex<Vec<u8>>,
}

impl Model {
    fn new() -> Arc<Self> {
        let epochs = EpochClock::starting_at(FIRST);
        Arc::new(Self { epochs, slots: WorkerSlots::new(1, 1 << 30), synced: StdMutex::default() })
    }

    /// Commits; returns the epoch of the commit.
    fn commit(&self, slot: &WorkerSlot, bytes: usize) -> u64 {
        assert!(self.slots.make_room(slot, bytes));
        slot.announce(&self.epochs);
        let epoch = self.epochs.current();
        slot.append(epoch, |buffer| buffer.resize(buffer.len() + bytes, epoch as u8));
        slot.withdraw();
        epoch
    }

    /// Runs a round; returns the epoch that is persistent then.
    fn round(&self) -> u64 {
        self.epochs.advance();
        let (least, taken) = self.slots.collect(&self.epochs);
        for buffer in taken.into_iter().flatten() {
            self.synced.lock().unwrap().extend(&buffer.bytes);
            self.slots.written(buffer);
        }
        least - 1
    }

    /// Checks that all records of the persistent epochs are synced.
    fn check(&self, persistent: u64, synced: &[u8], commits: &[(u64, usize)]) {
        for epoch in FIRST..=persistent {
            let there = synced.iter().filter(|of| u64::from(**of) == epoch).count();
            let wanted: usize = commits.iter().filter(|(of, _)| *of == epoch).map(|(_, bytes)| bytes).sum();
            assert_eq!(there, wanted, "epoch {epoch} is persistent");
        }
    }

    fn run_rounds(&self, count: usize) -> Vec<(u64, Vec<u8>)> {
        (0..count).map(|_| (self.round(), self.synced.lock().unwrap().clone())).collect()
    }
}

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn what_is_persistent_has_been_synced() {
    explore(|| {
        let model = Model::new();
        let workers: Vec<_> = (0..2)
            .map(|worker| {
                let (model, slot) = (model.clone(), model.slots.join());
                thread::spawn(move || {
                    if worker == 0 {
                        // Other threads than the logger advance epochs, too.
                        model.epochs.advance();
                    }
                    (model.commit(&slot, 1), 1)
                })
            })
            .collect();
        let rounds = model.run_rounds(2);
        let commits: Vec<_> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
        rounds.iter().for_each(|(persistent, synced)| model.check(*persistent, synced, &commits));
        let (persistent, synced) = model.run_rounds(1).remove(0);
        model.check(persistent, &synced, &commits);
        assert!(commits.iter().all(|(epoch, _)| *epoch <= persistent), "no worker holds it back");
    });
}

#[test]
fn a_full_buffer_is_not_missed() {
    explore(|| {
        let model = Model::new();
        let slot = model.slots.join();
        let worker = {
            let model = model.clone();
            // The second commit hands over the buffer of the first.
            thread::spawn(move || [1, BUFFER_BYTES].map(|bytes| (model.commit(&slot, bytes), bytes)))
        };
        let rounds = model.run_rounds(2);
        let commits = worker.join().unwrap();
        rounds.iter().for_each(|(persistent, synced)| model.check(*persistent, synced, &commits));
    });
}

#[test]
fn who_sits_down_late_is_not_missed() {
    explore(|| {
        let model = Model::new();
        let worker = {
            let model = model.clone();
            thread::spawn(move || (model.commit(&model.slots.join(), 1), 1))
        };
        let rounds = model.run_rounds(2);
        let commits = [worker.join().unwrap()];
        rounds.iter().for_each(|(persistent, synced)| model.check(*persistent, synced, &commits));
    });
}
