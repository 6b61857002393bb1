//! The judge: whether some serial order explains what the committed transactions saw and left behind.
//!
//! Method: every order of the committed transactions is replayed on a plain map, and every outcome compared, up to the
//! first one that differs; the rows at the end must be the same too. Scripts have few transactions, so that all orders
//! can be tried, and the judge does not depend on versions or stamps: it is the definition itself (view equivalence to
//! a serial execution, the final state included). The order has to agree with time: a transaction that had committed
//! when another one began precedes it.

use std::{collections::BTreeMap, ops::RangeBounds};

use super::script::{Bounds, IndexSpec, Op, Range, TableSpec};

/// The rows of every table.
pub type State = Vec<BTreeMap<String, i64>>;

/// One committed transaction: its operations and their outcomes.
pub type Committed = Vec<(Op, String)>;

/// A database that runs one transaction at a time.
#[derive(Clone, Debug)]
pub struct Serial {
    pub state: State,
    unique: Vec<bool>,
}

impl Serial {
    /// Returns a database with the initial rows of a script.
    pub fn new(tables: &[TableSpec]) -> Self {
        Self {
            state: tables.iter().map(|table| table.rows.iter().cloned().collect()).collect(),
            unique: tables.iter().map(|table| table.index == IndexSpec::UniqueByValue).collect(),
        }
    }

    /// Runs one operation and returns its outcome, in the words of the scripts.
    pub fn run(&mut self, op: &Op) -> String {
        match op {
            Op::Begin { .. } | Op::Commit | Op::Rollback => done(),
            Op::Get { table, key } => self.state[*table].get(key).map_or_else(none, i64::to_string),
            Op::Scan(range) => render(&self.scan(range)),
            Op::Insert { table, key, .. } if self.state[*table].contains_key(key) => exists(),
            Op::Update { table, key, .. } | Op::Delete { table, key } if !self.state[*table].contains_key(key) => {
                none()
            }
            Op::Delete { table, key } => {
                self.state[*table].remove(key);
                done()
            }
            Op::Insert { table, key, value } | Op::Update { table, key, value } | Op::Put { table, key, value } => {
                let taken = |(other, held): (&String, &i64)| other != key && held == value;
                if self.unique[*table] && self.state[*table].iter().any(taken) {
                    return exists();
                }
                self.state[*table].insert(key.clone(), *value);
                done()
            }
        }
    }

    fn scan(&self, range: &Range) -> Vec<(String, i64)> {
        let rows = self.state[range.table].iter().map(|(key, value)| (key.clone(), *value));
        let mut rows: Vec<_> = match &range.bounds {
            Bounds::Keys(lower, upper) => {
                let inside = (lower.clone(), upper.clone());
                rows.filter(|(key, _)| inside.contains(key)).collect()
            }
            Bounds::Values(lower, upper) => {
                let mut rows: Vec<_> = rows.filter(|(_, value)| (*lower, *upper).contains(value)).collect();
                rows.sort_by_key(|(key, value)| (*value, key.clone()));
                rows
            }
        };
        if range.backward {
            rows.reverse();
        }
        rows.truncate(range.limit.unwrap_or(usize::MAX));
        rows
    }
}

/// Returns a serial order (positions in `committed`) that explains every outcome and the rows at the end, if one
/// exists. `before` says whether the first of two transactions has to precede the second.
pub fn serial_order(
    start: &Serial,
    committed: &[Committed],
    before: &dyn Fn(usize, usize) -> bool,
    end: &State,
) -> Option<Vec<usize>> {
    fn extend(
        now: &Serial,
        committed: &[Committed],
        before: &dyn Fn(usize, usize) -> bool,
        end: &State,
        order: &mut Vec<usize>,
    ) -> bool {
        if order.len() == committed.len() {
            return now.state == *end;
        }
        for (next, transaction) in committed.iter().enumerate() {
            let left = |other: &usize| !order.contains(other);
            if !left(&next) || (0..committed.len()).filter(left).any(|other| before(other, next)) {
                continue;
            }
            let mut after = now.clone();
            if transaction.iter().all(|(op, outcome)| after.run(op) == *outcome) {
                order.push(next);
                if extend(&after, committed, before, end, order) {
                    return true;
                }
                order.pop();
            }
        }
        false
    }
    let mut order = Vec::new();
    extend(start, committed, before, end, &mut order).then_some(order)
}

/// Returns the outcome of a write that happened.
pub fn done() -> String {
    "done".to_owned()
}

/// Returns the outcome of a read, update or delete that found nothing.
pub fn none() -> String {
    "none".to_owned()
}

/// Returns the outcome of an insert whose key exists.
pub fn exists() -> String {
    "exists".to_owned()
}

/// Returns the rows of a scan as text, in its order.
pub fn render(rows: &[(String, i64)]) -> String {
    if rows.is_empty() {
        return none();
    }
    rows.iter().map(|(key, value)| format!("{key}:{value}")).collect::<Vec<_>>().join(" ")
}
