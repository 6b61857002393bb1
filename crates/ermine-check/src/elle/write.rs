//! Writes histories as EDN or JSON, one operation per line: the call, then the answer.
//!
//! Calls and answers are written in the order of their moments; if these are not known, all calls before all answers,
//! so that no order can be inferred that the history does not have. Each transaction is a process of its own: the order
//! of a process is real-time order.

use std::io::{self, Write};

use serde_json::json;

use super::{Answer, Datum, ElleHistory, ElleTransaction, Model, Step};
use crate::history::{Moment, TransactionContext};

/// Writes a history as EDN.
pub fn write_edn(history: &ElleHistory, to: &mut dyn Write) -> io::Result<()> {
    each(history, &mut |index, process, kind, steps| {
        writeln!(
            to,
            "{{:index {index}, :time {index}, :type :{kind}, :process {process}, :f :txn, :value {}}}",
            Datum::Seq(steps)
        )
    })
}

/// Writes a history as JSON.
pub fn write_json(history: &ElleHistory, to: &mut dyn Write) -> io::Result<()> {
    each(history, &mut |index, process, kind, steps| {
        let value = serde_json::Value::from(&Datum::Seq(steps));
        let line = json!({
            "index": index, "time": index, "type": kind, "process": process, "f": "txn", "value": value,
        });
        writeln!(to, "{line}")
    })
}

/// Index, process, type, value.
type Visit<'v> = &'v mut dyn FnMut(usize, usize, &str, Vec<Datum>) -> io::Result<()>;

fn each(history: &ElleHistory, visit: Visit<'_>) -> io::Result<()> {
    let is_timed = history.transactions.iter().all(|it| it.context.began.is_some());
    let moment = |of: Option<Moment>, otherwise| of.filter(|_| is_timed).unwrap_or(otherwise);
    let mut operations = Vec::new();
    for (process, transaction) in history.transactions.iter().enumerate() {
        let TransactionContext { began, ended, .. } = transaction.context;
        // At one moment calls come before answers: neither transaction had ended before the other began.
        operations.push((moment(began, Moment(0)), false, process));
        operations.push((moment(ended, Moment(u64::MAX)), true, process));
    }
    operations.sort_unstable();
    for (index, (_, is_answer, process)) in operations.into_iter().enumerate() {
        let transaction = &history.transactions[process];
        let reads_known = is_answer && transaction.answer == Answer::Ok;
        let kind = if is_answer { transaction.answer.name() } else { "invoke" };
        visit(index, process, kind, steps(history, transaction, reads_known))?;
    }
    Ok(())
}

fn steps(history: &ElleHistory, transaction: &ElleTransaction, reads_known: bool) -> Vec<Datum> {
    let name = |number| history.name(number).clone();
    let step = |step: &Step| {
        let (what, key, value) = match step {
            Step::Write { key, value } => {
                (if history.model == Model::ListAppend { "append" } else { "w" }, key, name(*value))
            }
            Step::ReadList { key, list: Some(list) } if reads_known => {
                ("r", key, Datum::Seq(list.iter().copied().map(name).collect()))
            }
            Step::ReadValue { key, value: Some(value) } if reads_known => ("r", key, name(*value)),
            Step::ReadList { key, .. } | Step::ReadValue { key, .. } => ("r", key, Datum::Nil),
        };
        Datum::Seq(vec![Datum::Keyword(what.into()), name(*key), value])
    };
    transaction.steps.iter().map(step).collect()
}
