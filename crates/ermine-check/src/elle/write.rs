//! Writes histories as EDN or JSON, an operation a line: the call, then the answer.
//!
//! Each transaction is a process of its own, so that nobody infers an order from sessions.

use std::io::{self, Write};

use serde_json::json;

use super::{Answer, Datum, ElleHistory, ElleTransaction, Model, Step};

/// As EDN.
pub fn write_edn(history: &ElleHistory, to: &mut dyn Write) -> io::Result<()> {
    each(history, &mut |index, process, kind, steps| {
        writeln!(
            to,
            "{{:index {index}, :time {index}, :type :{kind}, :process {process}, :f :txn, :value {}}}",
            Datum::Seq(steps)
        )
    })
}

/// As JSON.
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
    for (process, transaction) in history.transactions.iter().enumerate() {
        let is_ok = transaction.answer == Answer::Ok;
        visit(2 * process, process, "invoke", steps(history, transaction, false))?;
        visit(2 * process + 1, process, transaction.answer.name(), steps(history, transaction, is_ok))?;
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
