//! Registers whose values are unique: infers the order of versions, as far as it follows.
//!
//! The empty register precedes every value; and a transaction that reads a value and then writes the key has put its
//! own value after it. Nothing else is assumed, so that an unknown order draws no edge.

use std::collections::{HashMap, HashSet};

use super::{Answer, ElleHistory, Number, Step, verdict::Inferred};
use crate::{anomaly::AnomalyKind, graph::Kind};

/// The transaction that wrote a value, and whether it was its last to that key.
#[derive(Clone, Copy)]
struct Written {
    by: u32,
    last: bool,
}

/// The transactions that touched one version of a key; the version without a value is the first.
#[derive(Default)]
struct Version {
    readers: Vec<u32>,
    /// Transactions that read the version and wrote the key.
    successors: Vec<u32>,
}

/// Infers the edges and anomalies of a history.
pub(super) fn infer(history: &ElleHistory) -> Inferred {
    let mut inference = Inference {
        history,
        inferred: Inferred::new(history.transactions.len()),
        written: HashMap::new(),
        versions: HashMap::new(),
        seen_info: HashSet::new(),
    };
    inference.collect_writes();
    for (by, transaction) in history.transactions.iter().enumerate() {
        if transaction.answer == Answer::Ok {
            inference.transaction(by as u32, &transaction.steps);
        }
    }
    inference.draw();
    inference.inferred
}

struct Inference<'h> {
    history: &'h ElleHistory,
    inferred: Inferred,
    written: HashMap<(Number, Number), Written>,
    versions: HashMap<(Number, Option<Number>), Version>,
    /// Indeterminate transactions of which a write was read: they committed.
    seen_info: HashSet<u32>,
}

impl Inference<'_> {
    fn answer(&self, transaction: u32) -> Answer {
        self.history.transactions[transaction as usize].answer
    }

    fn collect_writes(&mut self) {
        for (by, transaction) in self.history.transactions.iter().enumerate() {
            let by = by as u32;
            let mut last: HashMap<Number, Number> = HashMap::new();
            for step in &transaction.steps {
                let &Step::Write { key, value } = step else { continue };
                if let Some(replaced) = last.insert(key, value)
                    && let Some(written) = self.written.get_mut(&(key, replaced))
                {
                    written.last = false;
                }
                if let Some(other) = self.written.insert((key, value), Written { by, last: true }) {
                    let note = || format!("{} was written twice", self.history.name(value));
                    self.inferred.see(AnomalyKind::Duplicate, key, &[other.by, by], note);
                }
            }
        }
    }

    fn transaction(&mut self, by: u32, steps: &[Step]) {
        // The transaction's last write of each key, and its read of the key before.
        let mut own: HashMap<Number, Number> = HashMap::new();
        let mut read: HashMap<Number, Option<Number>> = HashMap::new();
        for step in steps {
            match *step {
                Step::Write { key, value } => {
                    if own.insert(key, value).is_none()
                        && let Some(&before) = read.get(&key)
                    {
                        self.versions.entry((key, before)).or_default().successors.push(by);
                    }
                }
                Step::ReadValue { key, value } => {
                    if let Some(&written) = own.get(&key) {
                        if value != Some(written) {
                            let note = || "a read does not return what the transaction had written before".into();
                            self.inferred.see(AnomalyKind::Internal, key, &[by], note);
                        }
                        continue;
                    }
                    let known = read.insert(key, value);
                    if known.is_some_and(|known| known != value) {
                        let note = || "it read two values".into();
                        self.inferred.see(AnomalyKind::NonRepeatableRead, key, &[by], note);
                    }
                    if known != Some(value) {
                        self.check(by, key, value);
                        self.versions.entry((key, value)).or_default().readers.push(by);
                    }
                }
                Step::ReadList { .. } => {}
            }
        }
    }

    /// Checks a read on its own.
    fn check(&mut self, by: u32, key: Number, value: Option<Number>) {
        let Some(value) = value else { return };
        let name = || self.history.name(value);
        let Some(&Written { by: writer, last }) = self.written.get(&(key, value)) else {
            let note = || format!("{} was never written", name());
            self.inferred.see(AnomalyKind::CorruptRead, key, &[by], note);
            return;
        };
        if writer == by {
            let note = || format!("it read {}, which it wrote only later", name());
            self.inferred.see(AnomalyKind::Internal, key, &[by], note);
            return;
        }
        match self.answer(writer) {
            Answer::Fail => {
                let note = || format!("{} was written by a transaction that failed", name());
                self.inferred.see(AnomalyKind::G1a, key, &[by, writer], note);
                return;
            }
            Answer::Info => drop(self.seen_info.insert(writer)),
            Answer::Ok => {}
        }
        if !last {
            let note = || format!("{} was not the last write of its transaction", name());
            self.inferred.see(AnomalyKind::G1b, key, &[by, writer], note);
        }
    }

    fn draw(&mut self) {
        let mut writers: HashMap<Number, Vec<u32>> = HashMap::new();
        for (&(key, _), written) in &self.written {
            if self.answer(written.by) == Answer::Ok || self.seen_info.contains(&written.by) {
                writers.entry(key).or_default().push(written.by);
            }
        }
        let mut versions: Vec<_> = std::mem::take(&mut self.versions).into_iter().collect();
        versions.sort_unstable_by_key(|(version, _)| *version);
        for ((key, value), Version { mut readers, mut successors }) in versions {
            for list in [&mut readers, &mut successors] {
                list.sort_unstable();
                list.dedup();
            }
            if let [one, other, ..] = successors[..] {
                let note = || "both read the same version, and wrote another".into();
                self.inferred.see(AnomalyKind::LostUpdate, key, &[one, other], note);
            }
            let Some(value) = value else {
                let mut all = writers.remove(&key).unwrap_or_default();
                all.sort_unstable();
                all.dedup();
                self.inferred.all_precede(&readers, &all, Kind::ReadWrite, key);
                continue;
            };
            self.inferred.all_precede(&readers, &successors, Kind::ReadWrite, key);
            let writer = self.written.get(&(key, value)).map(|written| written.by);
            if let Some(writer) = writer.filter(|&writer| self.answer(writer) != Answer::Fail) {
                self.inferred.all_precede(&[writer], &readers, Kind::WriteRead, key);
                self.inferred.all_precede(&[writer], &successors, Kind::WriteWrite, key);
            }
        }
    }
}
