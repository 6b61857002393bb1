//! Lists that grow at their end: the longest read of a key shows the order of its versions.
//!
//! Each other read of the key must be a prefix of the longest one. A committed append that the longest read does not
//! show comes after it. If it is not known whether the transaction of an append committed, it did if another
//! transaction saw the append.

use std::collections::{HashMap, HashSet};

use super::{Answer, ElleHistory, Number, Step, verdict::Inferred};
use crate::{anomaly::AnomalyKind, graph::Kind};

/// The transaction that appended a value, and whether it was its last to that key.
#[derive(Clone, Copy)]
struct Append {
    by: u32,
    last: bool,
}

/// A read of a list, without the values that the transaction had appended itself.
struct ListRead<'h> {
    by: u32,
    list: &'h [Number],
}

/// Infers the edges and anomalies of a history.
pub(super) fn infer(history: &ElleHistory) -> Inferred {
    let mut inference = Inference {
        history,
        inferred: Inferred::new(history.transactions.len()),
        appends: HashMap::new(),
        reads: HashMap::new(),
        seen_info: HashSet::new(),
    };
    inference.collect_appends();
    inference.collect_reads();
    let mut keys: Vec<_> = inference.reads.keys().copied().collect();
    keys.sort_unstable();
    let mut unseen = inference.appends_by_key();
    for key in keys {
        inference.key(key, unseen.remove(&key).unwrap_or_default());
    }
    inference.inferred
}

struct Inference<'h> {
    history: &'h ElleHistory,
    inferred: Inferred,
    appends: HashMap<(Number, Number), Append>,
    reads: HashMap<Number, Vec<ListRead<'h>>>,
    /// Indeterminate transactions of which an append was read: they committed.
    seen_info: HashSet<u32>,
}

impl<'h> Inference<'h> {
    fn collect_appends(&mut self) {
        for (by, transaction) in self.history.transactions.iter().enumerate() {
            let by = by as u32;
            let mut last: HashMap<Number, Number> = HashMap::new();
            for step in &transaction.steps {
                let &Step::Write { key, value } = step else { continue };
                if let Some(replaced) = last.insert(key, value)
                    && let Some(append) = self.appends.get_mut(&(key, replaced))
                {
                    append.last = false;
                }
                if let Some(other) = self.appends.insert((key, value), Append { by, last: true }) {
                    let note = || format!("{} was appended twice", self.history.name(value));
                    self.inferred.see(AnomalyKind::Duplicate, key, &[other.by, by], note);
                }
            }
        }
    }

    /// Appends that committed.
    fn appends_by_key(&self) -> HashMap<Number, Vec<(Number, u32)>> {
        let mut by_key: HashMap<_, Vec<_>> = HashMap::new();
        for (&(key, value), append) in &self.appends {
            if self.answer(append.by) == Answer::Ok || self.seen_info.contains(&append.by) {
                by_key.entry(key).or_default().push((value, append.by));
            }
        }
        by_key
    }

    fn answer(&self, transaction: u32) -> Answer {
        self.history.transactions[transaction as usize].answer
    }

    fn collect_reads(&mut self) {
        for (by, transaction) in self.history.transactions.iter().enumerate() {
            if transaction.answer == Answer::Ok {
                self.reads_of(by as u32, &transaction.steps);
            }
        }
    }

    /// Collects a transaction's reads, and checks that it saw its own appends.
    fn reads_of(&mut self, by: u32, steps: &'h [Step]) {
        let mut own: HashMap<Number, Vec<Number>> = HashMap::new();
        let mut known: HashMap<Number, &'h [Number]> = HashMap::new();
        for step in steps {
            match step {
                &Step::Write { key, value } => own.entry(key).or_default().push(value),
                Step::ReadList { key, list: Some(list) } => {
                    let own = own.get(key).map_or(&[][..], Vec::as_slice);
                    let Some(before) = list.strip_suffix(own) else {
                        let note = || "its own appends are not at the end of what it read".into();
                        self.inferred.see(AnomalyKind::Internal, *key, &[by], note);
                        continue;
                    };
                    let known = known.insert(*key, before);
                    if known.is_some_and(|known| known != before) {
                        let note = || "it read two lists that differ by more than its own appends".into();
                        self.inferred.see(AnomalyKind::NonRepeatableRead, *key, &[by], note);
                    }
                    if known != Some(before) {
                        self.check(by, *key, before);
                        self.reads.entry(*key).or_default().push(ListRead { by, list: before });
                    }
                }
                Step::ReadList { list: None, .. } | Step::ReadValue { .. } => {}
            }
        }
    }

    /// Checks a list on its own.
    fn check(&mut self, by: u32, key: Number, list: &[Number]) {
        let mut met = HashSet::new();
        let mut failed = None;
        for &value in list {
            let name = || self.history.name(value);
            if !met.insert(value) {
                self.inferred.see(AnomalyKind::Duplicate, key, &[by], || format!("{} is in it twice", name()));
            }
            match self.appends.get(&(key, value)).map(|append| append.by) {
                None => {
                    let note = || format!("{} was never appended", name());
                    self.inferred.see(AnomalyKind::CorruptRead, key, &[by], note);
                }
                Some(writer) if self.answer(writer) == Answer::Fail => {
                    let note = || format!("{} was appended by a transaction that failed", name());
                    self.inferred.see(AnomalyKind::G1a, key, &[by, writer], note);
                    failed = Some(writer);
                }
                Some(writer) => {
                    if self.answer(writer) == Answer::Info {
                        self.seen_info.insert(writer);
                    }
                    if let Some(failed) = failed {
                        let note = || format!("{} was appended behind an append that failed", name());
                        self.inferred.see(AnomalyKind::DirtyUpdate, key, &[failed, writer], note);
                    }
                }
            }
        }
        let last = list.last().and_then(|&value| Some((value, self.appends.get(&(key, value))?)));
        if let Some((value, append)) = last.filter(|(_, append)| !append.last && append.by != by) {
            let note = || format!("{} was not the last append of its transaction", self.history.name(value));
            self.inferred.see(AnomalyKind::G1b, key, &[by, append.by], note);
        }
    }

    /// The transaction that appended the value, if it is in the graph.
    fn writer(&self, key: Number, value: Number) -> Option<u32> {
        let by = self.appends.get(&(key, value))?.by;
        (self.answer(by) != Answer::Fail).then_some(by)
    }

    fn key(&mut self, key: Number, committed: Vec<(Number, u32)>) {
        let reads = self.reads.remove(&key).unwrap_or_default();
        let Some(longest) = reads.iter().max_by_key(|read| read.list.len()).map(|read| (read.list, read.by)) else {
            return;
        };
        let (order, longest_by) = longest;
        let writers: Vec<_> = order.iter().map(|&value| self.writer(key, value)).collect();
        let known: Vec<_> = writers.iter().copied().flatten().collect();
        for pair in known.windows(2) {
            self.inferred.edge(pair[0], pair[1], Kind::WriteWrite, key);
        }
        let seen: HashSet<_> = order.iter().copied().collect();
        let mut unseen: Vec<_> =
            committed.into_iter().filter(|(value, _)| !seen.contains(value)).map(|(_, by)| by).collect();
        unseen.sort_unstable();
        unseen.dedup();
        let mut whole = Vec::new();
        for read in reads {
            if !order.starts_with(read.list) {
                let note = || "one of these lists is not the beginning of the other".into();
                self.inferred.see(AnomalyKind::IncompatibleOrder, key, &[longest_by, read.by], note);
                continue;
            }
            if let Some(writer) = writers[..read.list.len()].iter().rev().copied().flatten().next() {
                self.inferred.edge(writer, read.by, Kind::WriteRead, key);
            }
            match writers[read.list.len()..].iter().copied().flatten().next() {
                Some(writer) => self.inferred.edge(read.by, writer, Kind::ReadWrite, key),
                None => whole.push(read.by),
            }
        }
        whole.sort_unstable();
        self.inferred.all_precede(&whole, &unseen, Kind::ReadWrite, key);
        if let Some(&last) = known.last() {
            self.inferred.all_precede(&[last], &unseen, Kind::WriteWrite, key);
        }
    }
}
