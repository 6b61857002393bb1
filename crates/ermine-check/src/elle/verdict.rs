//! Collects what was inferred from values: a graph, the reason for each edge, anomalies that need no graph; and reports
//! it.

use super::{Answer, ElleHistory, ElleTransaction, Number, Step};
use crate::{
    anomaly::AnomalyKind,
    cycles::cycles,
    graph::{Cycle, Drawing, Kind, Node, draw_order},
    history::TransactionContext,
    progress::Progress,
    report::{Anomaly, Counts, Dependency, Involved, Report},
};

/// An edge and the key that it is due to.
#[derive(Clone, Copy)]
struct Reason {
    from: Node,
    to: Node,
    kind: Kind,
    key: Number,
}

/// An anomaly that needs no graph.
struct Seen {
    kind: AnomalyKind,
    count: u64,
    note: String,
    transactions: Vec<u32>,
    key: Number,
}

/// A graph of values under construction. Transactions are numbered as in the history.
pub(super) struct Inferred {
    drawing: Drawing,
    reasons: Vec<Reason>,
    seen: Vec<Seen>,
}

impl Inferred {
    pub(super) fn new(transactions: usize) -> Self {
        Self { drawing: Drawing::new(transactions), reasons: Vec::new(), seen: Vec::new() }
    }

    pub(super) fn edge(&mut self, from: u32, to: u32, kind: Kind, key: Number) {
        if from != to {
            self.noted(Node(from), Node(to), kind, key);
        }
    }

    fn noted(&mut self, from: Node, to: Node, kind: Kind, key: Number) {
        self.drawing.edge(from, to, kind);
        self.reasons.push(Reason { from, to, kind, key });
    }

    pub(super) fn see(&mut self, kind: AnomalyKind, key: Number, transactions: &[u32], note: impl FnOnce() -> String) {
        match self.seen.iter_mut().find(|seen| seen.kind == kind) {
            Some(seen) => seen.count += 1,
            None => self.seen.push(Seen { kind, count: 1, note: note(), transactions: transactions.to_vec(), key }),
        }
    }

    /// Draws that each of `firsts` precedes each of `seconds` except itself, in linear time: one auxiliary node leads
    /// to all of `seconds`, and if a transaction is on both sides, chains lead to the transactions before and after it.
    /// Both slices are sorted.
    pub(super) fn all_precede(&mut self, firsts: &[u32], seconds: &[u32], kind: Kind, key: Number) {
        if firsts.is_empty() || seconds.is_empty() {
            return;
        }
        if !kind.is_anti() {
            self.drawing.has_backward(kind);
        }
        if firsts.len() == 1 || seconds.len() == 1 {
            for &from in firsts {
                seconds.iter().for_each(|&to| self.edge(from, to, kind, key));
            }
            return;
        }
        let behind = self.chain(seconds.iter().rev());
        let before = self.chain(seconds.iter());
        let last = seconds.len() - 1;
        for &from in firsts {
            match seconds.binary_search(&from) {
                Err(_) => self.noted(Node(from), before[last], kind, key),
                Ok(at) => {
                    if at > 0 {
                        self.noted(Node(from), before[at - 1], kind, key);
                    }
                    if at < last {
                        self.noted(Node(from), behind[last - at - 1], kind, key);
                    }
                }
            }
        }
    }

    /// Draws auxiliary nodes, the n-th of which leads to the first n + 1 transactions.
    fn chain<'t>(&mut self, transactions: impl Iterator<Item = &'t u32>) -> Vec<Node> {
        let mut nodes: Vec<Node> = Vec::new();
        for &transaction in transactions {
            let node = self.drawing.auxiliary(Node(0));
            self.drawing.edge(node, Node(transaction), Kind::Chain);
            if let Some(&before) = nodes.last() {
                self.drawing.edge(node, before, Kind::Chain);
            }
            nodes.push(node);
        }
        nodes
    }

    /// Searches for cycles, and reports everything in words.
    pub(super) fn report(self, history: &ElleHistory, progress: &mut dyn FnMut(Progress)) -> Report {
        let Self { mut drawing, reasons, seen } = self;
        let in_graph = |it: &ElleTransaction| match it.answer {
            Answer::Ok => Some(it.context),
            // The transaction may take effect after its answer.
            Answer::Info => Some(TransactionContext { ended: None, ..it.context }),
            Answer::Fail => None,
        };
        let told = draw_order(&mut drawing, history.transactions.iter().map(in_graph));
        let drawing_bytes = drawing.bytes();
        let graph = drawing.finish();
        let found = cycles(&graph, progress);
        let words = Words { history, reasons: &reasons };
        let mut anomalies: Vec<_> = seen.iter().map(|seen| words.seen(seen)).collect();
        anomalies.extend(found.found.iter().map(|(kind, cycle)| words.cycle(*kind, cycle)));
        anomalies.sort_by_key(|anomaly| anomaly.kind);
        let answered =
            |answer| history.transactions.iter().filter(|transaction| transaction.answer == answer).count() as u64;
        let mut keys: Vec<_> = history.transactions.iter().flat_map(|it| &it.steps).map(Step::key).collect();
        keys.sort_unstable();
        keys.dedup();
        let counts = Counts {
            committed: answered(Answer::Ok),
            aborted: answered(Answer::Fail),
            indeterminate: answered(Answer::Info),
            operations: history.transactions.iter().map(|transaction| transaction.steps.len() as u64).sum(),
            keys: keys.len() as u64,
            sample: 1,
            edges: graph.edge_count() as u64,
            auxiliary_nodes: (graph.nodes() - history.transactions.len()) as u64,
            entangled: found.entangled,
            judge_bytes: drawing_bytes + graph.bytes() + (reasons.capacity() * size_of::<Reason>()) as u64,
            ..Counts::default()
        };
        Report::new(history.model.name(), counts, anomalies, told)
    }
}

impl Step {
    pub(super) fn key(&self) -> Number {
        match *self {
            Self::Write { key, .. } | Self::ReadList { key, .. } | Self::ReadValue { key, .. } => key,
        }
    }
}

struct Words<'h> {
    history: &'h ElleHistory,
    reasons: &'h [Reason],
}

impl Words<'_> {
    fn seen(&self, seen: &Seen) -> Anomaly {
        let transactions = seen.transactions.iter().map(|&at| self.involved(at)).collect();
        let note = format!("key {}: {}", self.history.name(seen.key), seen.note);
        Anomaly { kind: seen.kind, count: seen.count, note, cycle: Vec::new(), transactions }
    }

    fn cycle(&self, kind: AnomalyKind, cycle: &Cycle) -> Anomaly {
        let dependency = |step: &crate::graph::Step| {
            let is_it = |reason: &&Reason| {
                // An edge to an auxiliary node is about a key that the transaction after it writes.
                let arrives = reason.to == step.to
                    || (reason.to.at() >= self.history.transactions.len() && self.writes(step.to.0, reason.key));
                reason.from == step.from && reason.kind == step.kind && arrives
            };
            let key = self.reasons.iter().find(is_it).map(|reason| self.history.name(reason.key).to_string());
            let (from, to, key) = (name(step.from.0), name(step.to.0), key.unwrap_or_default());
            let because = match step.kind {
                Kind::WriteWrite => format!("{to} wrote key {key} after {from}"),
                Kind::WriteRead => format!("{to} read of key {key} what {from} wrote"),
                Kind::Process => format!("of one process, {from} was answered before {to} was called"),
                Kind::Realtime => format!("{from} was answered before {to} was called"),
                _ => format!("{from} read key {key} before {to} wrote it"),
            };
            Dependency { from, to, kind: step.kind.name(), because }
        };
        let dependencies = cycle.iter().map(dependency).collect();
        let transactions = cycle.iter().map(|step| self.involved(step.from.0)).collect();
        Anomaly { kind, count: 1, note: String::new(), cycle: dependencies, transactions }
    }

    fn writes(&self, transaction: u32, of: Number) -> bool {
        let steps = &self.history.transactions[transaction as usize].steps;
        steps.iter().any(|step| matches!(step, Step::Write { key, .. } if *key == of))
    }

    fn involved(&self, transaction: u32) -> Involved {
        let it = &self.history.transactions[transaction as usize];
        let line = if it.line > 0 { format!(", line {}", it.line) } else { String::new() };
        let operations = it.steps.iter().map(|step| self.step(step)).collect();
        let outcome = format!("{}{line}", it.answer.name());
        Involved { name: name(transaction), outcome, operations, left_out: 0 }
    }

    fn step(&self, step: &Step) -> String {
        let name = |number: &Number| self.history.name(*number).to_string();
        match step {
            Step::Write { key, value } => format!("wrote {} to key {}", name(value), name(key)),
            Step::ReadList { key, list: None } => format!("read key {}", name(key)),
            Step::ReadList { key, list: Some(list) } => {
                let items: Vec<_> = list.iter().map(name).collect();
                format!("read key {} = [{}]", name(key), items.join(" "))
            }
            Step::ReadValue { key, value } => {
                format!("read key {} = {}", name(key), value.as_ref().map_or("nil".into(), name))
            }
        }
    }
}

fn name(transaction: u32) -> String {
    format!("T{}", transaction + 1)
}
