//! The report of a judge.

use std::fmt;

use serde::Serialize;

use crate::{
    anomaly::{AnomalyKind, Level},
    graph::Told,
};

/// The amount of data that was judged.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counts {
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions that aborted.
    pub aborted: u64,
    /// Transactions of which it is not known whether they committed.
    pub indeterminate: u64,
    /// Operations of all transactions.
    pub operations: u64,
    /// Ranges among the operations.
    pub ranges: u64,
    /// Distinct keys.
    pub keys: u64,
    /// One row in this many was recorded.
    pub sample: u32,
    /// Edges of the graph.
    pub edges: u64,
    /// Nodes that stand for many dependencies.
    pub auxiliary_nodes: u64,
    /// Transactions on cycles of dependencies.
    pub entangled: u64,
    /// Committed transactions that were promised less than real-time order, such as safe snapshots.
    pub unordered: u64,
    /// Bytes of memory of the history.
    pub history_bytes: u64,
    /// Bytes of memory of the judge, in addition to the history.
    pub judge_bytes: u64,
}

/// A dependency in a cycle.
#[derive(Clone, Debug, Serialize)]
pub struct Dependency {
    /// The transaction that precedes.
    pub from: String,
    /// The transaction that follows.
    pub to: String,
    /// ww, wr or rw; predicate or not.
    pub kind: &'static str,
    /// The reason in words.
    pub because: String,
}

/// A transaction that takes part in an anomaly.
#[derive(Clone, Debug, Serialize)]
pub struct Involved {
    /// Its name in this report.
    pub name: String,
    /// How it ended.
    pub outcome: String,
    /// Its operations, in words; if there are many, only those that matter.
    pub operations: Vec<String>,
    /// Number of operations that are left out.
    pub left_out: u64,
}

/// An anomaly that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Anomaly {
    /// Its kind.
    pub kind: AnomalyKind,
    /// How often it was seen; of cycles, the smallest found stands for all.
    pub count: u64,
    /// The particulars of this one.
    pub note: String,
    /// The cycle; empty if there is none.
    pub cycle: Vec<Dependency>,
    /// The transactions in it.
    pub transactions: Vec<Involved>,
}

/// Whether a level of isolation holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The level.
    pub level: Level,
    /// Whether no anomaly that it forbids was found.
    pub holds: bool,
    /// The anomalies that it forbids and that were found.
    pub broken_by: Vec<AnomalyKind>,
}

/// The anomalies found in a history.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The format of the history.
    pub format: &'static str,
    /// The amount of data in it.
    pub counts: Counts,
    /// Verdicts on each level that the history has enough information for, weakest first.
    pub verdicts: Vec<Verdict>,
    /// One anomaly of each kind.
    pub anomalies: Vec<Anomaly>,
}

impl Report {
    pub(crate) fn new(format: &'static str, counts: Counts, anomalies: Vec<Anomaly>, told: Told) -> Self {
        let is_told = |level: &Level| match level {
            Level::StrictSerializable => told.realtime,
            Level::StrongSessionSerializable => told.process,
            _ => true,
        };
        let verdict = |level| {
            let kinds = anomalies.iter().map(|anomaly| anomaly.kind);
            let broken_by: Vec<_> = kinds.filter(|kind| kind.is_forbidden_by(level)).collect();
            Verdict { level, holds: broken_by.is_empty(), broken_by }
        };
        let verdicts = Level::ALL.into_iter().filter(is_told).map(verdict).collect();
        Self { format, counts, verdicts, anomalies }
    }

    /// The verdict on a level; `None`: the history lacks the processes or moments that it needs.
    pub fn verdict(&self, level: Level) -> Option<&Verdict> {
        self.verdicts.iter().find(|verdict| verdict.level == level)
    }

    /// Whether a level holds; false if the history lacks the information.
    pub fn holds(&self, level: Level) -> bool {
        self.verdict(level).is_some_and(|verdict| verdict.holds)
    }

    /// The anomaly of a kind, if it was found.
    pub fn anomaly(&self, kind: AnomalyKind) -> Option<&Anomaly> {
        self.anomalies.iter().find(|anomaly| anomaly.kind == kind)
    }

    /// The kinds that were found.
    pub fn kinds(&self) -> Vec<AnomalyKind> {
        self.anomalies.iter().map(|anomaly| anomaly.kind).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { committed, aborted, indeterminate, operations, ranges, keys, .. } = self.counts;
        write!(f, "{}: {committed} committed, {aborted} aborted", self.format)?;
        if indeterminate > 0 {
            write!(f, ", {indeterminate} indeterminate")?;
        }
        writeln!(f, "; {operations} operations, of these {ranges} ranges, on {keys} keys")?;
        if self.counts.sample > 1 {
            writeln!(f, "one row in {} was recorded: cycles through others go unseen", self.counts.sample)?;
        }
        if self.counts.unordered > 0 {
            writeln!(f, "{} transactions were promised less than real-time order", self.counts.unordered)?;
        }
        let Counts { edges, auxiliary_nodes, entangled, history_bytes, judge_bytes, .. } = self.counts;
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        writeln!(
            f,
            "graph: {edges} edges, {auxiliary_nodes} auxiliary nodes; {entangled} transactions on cycles; \
             {:.0} MiB history, {:.0} MiB judge\n",
            mib(history_bytes),
            mib(judge_bytes)
        )?;
        for verdict in &self.verdicts {
            writeln!(f, "{verdict}")?;
        }
        for anomaly in &self.anomalies {
            write!(f, "\n{anomaly}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<28}", self.level)?;
        if self.holds {
            f.write_str("holds")
        } else {
            let names: Vec<_> = self.broken_by.iter().map(|kind| kind.name()).collect();
            write!(f, "BROKEN by {}", names.join(", "))
        }
    }
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.kind.meaning())?;
        if self.count > 1 {
            write!(f, " ({} times; the first)", self.count)?;
        }
        writeln!(f)?;
        if !self.note.is_empty() {
            writeln!(f, "  {}", self.note)?;
        }
        for Dependency { from, to, kind, because } in &self.cycle {
            writeln!(f, "  {from} -{kind}-> {to}: {because}")?;
        }
        for Involved { name, outcome, operations, left_out } in &self.transactions {
            writeln!(f, "  {name}, {outcome}:")?;
            for operation in operations {
                writeln!(f, "    {operation}")?;
            }
            if *left_out > 0 {
                writeln!(f, "    and {left_out} more")?;
            }
        }
        Ok(())
    }
}
