//! The outcome of a run of a script, compared with the script's verdict.
//!
//! Nothing here depends on the engine: the code that plays a script, in process or over the wire, fills a [`Run`].

use std::{collections::BTreeMap, fmt::Write as _};

use super::{
    script::{Claim, Class, Expect, Script, Step},
    serial::{Committed, Serial, State, serial_order},
};

/// How a transaction of a script ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Committed,
    RolledBack,
    /// With the name of the kind.
    Aborted(String),
}

/// The outcomes of one run of a script.
pub struct Run {
    /// The outcome of every step, in order, or the kind of the abort; `None` where the transaction had aborted before.
    pub outcomes: Vec<Option<Result<String, String>>>,
    pub ends: Vec<End>,
    pub state: State,
    /// Violations of rules that were noticed during the run.
    pub faults: Vec<String>,
}

impl Run {
    /// Returns everything in which the run differs from the script.
    pub fn faults(&self, script: &Script, scheme: &str) -> Vec<String> {
        let mut faults = self.faults.clone();
        let named = script.verdicts.get(scheme);
        let Some(verdict) = named.or_else(|| script.verdicts.get("others")) else {
            return vec![format!("the script has no verdict for {scheme}")];
        };
        let mut observed = BTreeMap::new();
        for (step, outcome) in script.steps.iter().zip(&self.outcomes) {
            let Some(Ok(outcome)) = outcome else { continue };
            let expected = match &step.expect {
                Expect::Done => "done",
                Expect::Is(expected) => expected,
                Expect::Named(name) => {
                    observed.insert(name.as_str(), outcome.as_str());
                    continue;
                }
            };
            // Under `others` a transaction may be missing, locked out by one that rolls back later: then only the judge
            // decides on outcomes.
            if expected != outcome && named.is_some() {
                faults.push(format!("line {}: expected {expected}, got {outcome}", step.line));
            }
        }
        let name = |transaction: usize| &script.transactions[transaction];
        let aborted = |transaction: usize| matches!(self.ends[transaction], End::Aborted(_));
        for claim in &verdict.claims {
            match claim {
                Claim::Commits(transaction) if self.ends[*transaction] != End::Committed => {
                    faults.push(format!("{} should commit: {:?}", name(*transaction), self.ends[*transaction]));
                }
                Claim::Aborts(transaction, kind) => match &self.ends[*transaction] {
                    End::Aborted(found) if kind.as_ref().is_none_or(|kind| kind == found) => {}
                    end => faults.push(format!("{} should abort {kind:?}: {end:?}", name(*transaction))),
                },
                Claim::OneAborts(group) if !group.iter().any(|&transaction| aborted(transaction)) => {
                    faults.push(format!("{claim:?}, but none does"));
                }
                Claim::Observed(what, expected) => match observed.get(what.as_str()) {
                    // An operation that aborted observed nothing; the class says whether it was allowed to.
                    None => {}
                    Some(outcome) if outcome == expected => {}
                    Some(outcome) => faults.push(format!("expected {what} = {expected}, got {outcome}")),
                },
                Claim::Commits(_) | Claim::OneAborts(_) => {}
            }
        }
        if verdict.class != Class::Prevents {
            for transaction in (0..self.ends.len()).filter(|&transaction| aborted(transaction)) {
                faults.push(format!("{} aborts: {:?}", name(transaction), self.ends[transaction]));
            }
        }
        let gave_way = named.is_none() && self.ends.contains(&End::RolledBack);
        if !self.ends.contains(&End::Committed) && !gave_way {
            faults.push("nothing commits".to_owned());
        }
        match (verdict.class, self.serial_order(script)) {
            (Class::Permits, Some(order)) => faults.push(format!("should show the anomaly, but is serial as {order}")),
            (Class::Prevents | Class::Accepts, None) => faults.push("no serial order explains it".to_owned()),
            _ => {}
        }
        faults
    }

    /// Returns a serial order of the committed transactions that agrees with time, by their names.
    fn serial_order(&self, script: &Script) -> Option<String> {
        let committed: Vec<_> = (0..self.ends.len()).filter(|&t| self.ends[t] == End::Committed).collect();
        let histories: Vec<Committed> =
            committed.iter().map(|&transaction| self.history(script, transaction)).collect();
        let begins = |at: usize| script.steps.iter().position(|step| step.transaction == committed[at]);
        let ends = |at: usize| script.steps.iter().rposition(|step| step.transaction == committed[at]);
        let before = |one: usize, other: usize| ends(one) < begins(other);
        let order = serial_order(&Serial::new(&script.tables), &histories, &before, &self.state)?;
        let names: Vec<_> = order.into_iter().map(|at| script.transactions[committed[at]].as_str()).collect();
        Some(names.join(" "))
    }

    fn history(&self, script: &Script, transaction: usize) -> Committed {
        let steps = script.steps.iter().zip(&self.outcomes).filter(|(step, _)| step.transaction == transaction);
        steps.filter_map(|(step, outcome)| Some((step.op.clone(), outcome.clone()?.ok()?))).collect()
    }

    /// Returns the schedule with the outcome of every step.
    pub fn trace(&self, script: &Script, scheme: &str) -> String {
        let mut text = format!("  {} under {scheme}\n", script.name);
        for (Step { transaction, line, op, .. }, outcome) in script.steps.iter().zip(&self.outcomes) {
            let outcome = match outcome {
                Some(Ok(outcome)) => outcome.clone(),
                Some(Err(kind)) => format!("abort, {kind}"),
                None => "(aborted before)".to_owned(),
            };
            writeln!(text, "  {line:4}  {:8} {op} -> {outcome}", script.transactions[*transaction]).unwrap();
        }
        let order = self.serial_order(script).unwrap_or_else(|| "none".to_owned());
        writeln!(text, "        serial order: {order}; rows at the end: {:?}", self.state).unwrap();
        text
    }
}
