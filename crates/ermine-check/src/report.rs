//! What a judge has to say.

use std::fmt;

use serde::Serialize;

use crate::anomaly::{AnomalyKind, Level};

/// How much was judged.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counts {
    /// Transactions that committed.
    pub committed: u64,
    /// Those that did not.
    pub aborted: u64,
    /// Those of which nobody knows.
    pub indeterminate: u64,
    /// Operations of all of them.
    pub operations: u64,
    /// Ranges among these.
    pub ranges: u64,
    /// Different keys.
    pub keys: u64,
    /// One row in so many was recorded.
    pub sample: u32,
    /// Edges of the graph.
    pub edges: u64,
    /// Nodes that stand for many dependencies.
    pub auxiliary_nodes: u64,
    /// Nodes on cycles.
    pub entangled: u64,
    /// Memory of the history.
    pub history_bytes: u64,
    /// Memory of the judge, beside it.
    pub judge_bytes: u64,
}

/// A dependency in a cycle.
#[derive(Clone, Debug, Serialize)]
pub struct Dependency {
    /// Who precedes.
    pub from: String,
    /// Whom.
    pub to: String,
    /// ww, wr or rw; predicate or not.
    pub kind: &'static str,
    /// Why.
    pub because: String,
}

/// A transaction that has part in an anomaly.
#[derive(Clone, Debug, Serialize)]
pub struct Involved {
    /// What it is called in this report.
    pub name: String,
    /// How it ended.
    pub outcome: String,
    /// What it did, in words; those operations only that matter, if it did much.
    pub operations: Vec<String>,
    /// Operations that are left out.
    pub left_out: u64,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, Serialize)]
pub struct Anomaly {
    /// What.
    pub kind: AnomalyKind,
    /// How often it was seen; of cycles, the smallest found stands for all.
    pub count: u64,
    /// What is remarkable about this one.
    pub note: String,
    /// The cycle; empty where there is none.
    pub cycle: Vec<Dependency>,
    /// Who is in it.
    pub transactions: Vec<Involved>,
}

/// Whether a level of isolation holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The level.
    pub level: Level,
    /// Whether nothing that it forbids was found.
    pub holds: bool,
    /// What was.
    pub broken_by: Vec<AnomalyKind>,
    /// A search gave up, so something that it forbids may have gone unseen.
    pub in_doubt: bool,
}

/// What was found in a history.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What kind of history it was.
    pub format: &'static str,
    /// How much of it.
    pub counts: Counts,
    /// Of each level, weakest first.
    pub verdicts: Vec<Verdict>,
    /// One of each kind.
    pub anomalies: Vec<Anomaly>,
}

impl Report {
    /// `certain`: no search for cycles gave up.
    pub(crate) fn new(format: &'static str, counts: Counts, anomalies: Vec<Anomaly>, certain: bool) -> Self {
        let verdicts = Level::ALL.map(|level| {
            let kinds = anomalies.iter().map(|anomaly| anomaly.kind);
            let broken_by: Vec<_> = kinds.filter(|kind| kind.is_forbidden_by(level)).collect();
            let holds = broken_by.is_empty();
            // The other levels follow from the components of the graph.
            let in_doubt = holds && !certain && level == Level::SnapshotIsolation;
            Verdict { level, holds, broken_by, in_doubt }
        });
        Self { format, counts, verdicts: verdicts.into(), anomalies }
    }

    /// Whether a level holds.
    pub fn verdict(&self, level: Level) -> &Verdict {
        self.verdicts.iter().find(|verdict| verdict.level == level).expect("there is one of each level")
    }

    /// Whether a level holds.
    pub fn holds(&self, level: Level) -> bool {
        self.verdict(level).holds
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
        write!(f, "{:<20}", self.level)?;
        if self.holds {
            f.write_str(if self.in_doubt { "holds, as far as was searched" } else { "holds" })
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
