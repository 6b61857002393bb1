//! Converts a history of known versions to one of registers, for other checkers.
//!
//! Each row is a register, and each of its versions a number of its own; a deletion writes one, too. Ranges are left
//! out, since registers have none, and with them the anomalies that need a range. A read of a version from before the
//! history becomes a read of nil, and so does a miss.

use std::collections::HashMap;

use super::{Answer, Datum, ElleHistory, ElleTransaction, Model, Number, Step};
use crate::{
    history::{History, Operation, ReadVersion, Stamp, Table, Transaction},
    white::printed_key,
};

/// Converts a history; returns how many ranges and reads had to be left out.
pub fn export(history: &History) -> (ElleHistory, u64) {
    let mut export = Export {
        from: history,
        to: ElleHistory::new(Model::Register),
        versions: HashMap::new(),
        values: 0,
        left_out: 0,
    };
    for transaction in history.transactions() {
        export.versions(transaction);
    }
    for versions in export.versions.values_mut() {
        versions.sort_unstable();
    }
    for transaction in history.transactions() {
        let steps = export.steps(transaction);
        let answer = if transaction.stamp().is_some() { Answer::Ok } else { Answer::Fail };
        export.to.transactions.push(ElleTransaction { answer, steps, line: 0, context: transaction.context() });
    }
    (export.to, export.left_out)
}

struct Export<'h> {
    from: &'h History,
    to: ElleHistory,
    /// By register: the value that was left at each stamp, and whether it is a row.
    versions: HashMap<Number, Vec<(Stamp, Number, bool)>>,
    values: i64,
    left_out: u64,
}

impl Export<'_> {
    fn register(&mut self, table: Table, key: &[u8]) -> Number {
        let name = match self.from.table_name(table) {
            Some(name) => format!("{name} {}", printed_key(key)),
            None => format!("{} {}", table.0, printed_key(key)),
        };
        self.to.number(Datum::Text(name))
    }

    fn next_value(&mut self) -> Number {
        self.values += 1;
        self.to.number(Datum::Int(self.values))
    }

    /// Assigns values to a transaction's writes: one each; the last one of a row is its version.
    fn versions(&mut self, transaction: Transaction<'_>) {
        let Some(stamp) = transaction.stamp() else { return };
        let mut last = HashMap::new();
        for operation in transaction.operations() {
            if let Operation::Write { table, key, value } = operation {
                last.insert(self.register(table, key), value.is_some());
            }
        }
        for (register, live) in last {
            let value = self.next_value();
            self.versions.entry(register).or_default().push((stamp, value, live));
        }
    }

    fn steps(&mut self, transaction: Transaction<'_>) -> Vec<Step> {
        let mut left: HashMap<Number, u64> = HashMap::new();
        for operation in transaction.operations() {
            if let Operation::Write { table, key, .. } = operation {
                *left.entry(self.register(table, key)).or_default() += 1;
            }
        }
        let mut own: HashMap<Number, Number> = HashMap::new();
        let mut steps = Vec::new();
        for operation in transaction.operations() {
            match operation {
                Operation::Write { table, key, .. } => {
                    let register = self.register(table, key);
                    let left = left.get_mut(&register).expect("it was counted");
                    *left -= 1;
                    let value = match transaction.stamp().filter(|_| *left == 0) {
                        Some(stamp) => self.left_at(register, stamp).expect("the last write is a version"),
                        None => self.next_value(),
                    };
                    own.insert(register, value);
                    steps.push(Step::Write { key: register, value });
                }
                Operation::Read { table, key, version, .. } => {
                    let register = self.register(table, key);
                    let value = match version {
                        ReadVersion::Own => own.get(&register).copied(),
                        ReadVersion::At(stamp) if stamp < self.from.begin_min() => None,
                        ReadVersion::At(stamp) => self.left_at(register, stamp),
                        ReadVersion::Missing(at) => self.dead_before(register, at),
                    };
                    let is_known = match version {
                        ReadVersion::At(stamp) => stamp < self.from.begin_min() || value.is_some(),
                        ReadVersion::Own => value.is_some(),
                        ReadVersion::Missing(_) => true,
                    };
                    if is_known {
                        steps.push(Step::ReadValue { key: register, value });
                    } else {
                        self.left_out += 1;
                    }
                }
                Operation::Range { .. } => self.left_out += 1,
                Operation::Entry { .. } => {}
            }
        }
        steps
    }

    fn left_at(&self, register: Number, stamp: Stamp) -> Option<Number> {
        let versions = self.versions.get(&register)?;
        let at = versions.binary_search_by_key(&stamp, |(stamp, ..)| *stamp).ok()?;
        Some(versions[at].1)
    }

    /// The last deletion that a miss may have seen.
    fn dead_before(&self, register: Number, at: Stamp) -> Option<Number> {
        let versions = self.versions.get(&register)?;
        let before = versions.iter().rev().find(|(stamp, _, live)| *stamp < at && !live)?;
        Some(before.1)
    }
}
