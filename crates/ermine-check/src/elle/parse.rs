//! Converts operations of EDN or JSON to transactions: each call is paired with its answer.

use std::collections::HashMap;

use super::{Answer, ElleHistory, ElleTransaction, Model, Number, Step, datum::Datum, edn};
use crate::{
    file::FileError,
    history::{Moment, Process, TransactionContext},
};

/// Reads a history, in EDN or JSON, of operations one after the other or in one sequence. Without a model, it is
/// list-append if that word occurs in the text. `progress` receives the number of bytes read.
pub fn read(text: &str, model: Option<Model>, progress: &mut dyn FnMut(u64)) -> Result<ElleHistory, FileError> {
    let model = model.unwrap_or_else(|| guess(text));
    let history = ElleHistory::new(model);
    let mut parser = Parser { history, processes: HashMap::new(), operations: 0 };
    if is_json(text) {
        parser.json(text, progress)?;
    } else {
        let mut reader = edn::Reader::new(text)?;
        while let Some((line, datum)) = reader.next()? {
            parser.operation(line, &datum)?;
            progress(reader.position() as u64);
        }
    }
    parser.finish()
}

fn guess(text: &str) -> Model {
    let appends = [":append", "\"append\"", "'append", "[append"].iter().any(|word| text.contains(word));
    if appends { Model::ListAppend } else { Model::Register }
}

/// Whether the first map has a field in quotes.
fn is_json(text: &str) -> bool {
    let first = text.find('{').map(|at| text[at + 1..].trim_start());
    first.is_some_and(|field| field.starts_with('"'))
}

struct Parser {
    history: ElleHistory,
    /// By name; an operation without a process belongs to one without a name.
    processes: HashMap<Datum, Client>,
    operations: u64,
}

/// A process.
struct Client {
    process: Process,
    /// The call that is not answered yet.
    called: Option<Call>,
    /// The moment when its last call was answered.
    answered: Moment,
}

struct Call {
    line: u64,
    steps: Vec<Step>,
    at: Moment,
}

impl Parser {
    fn json(&mut self, text: &str, progress: &mut dyn FnMut(u64)) -> Result<(), FileError> {
        let wrong = |line: u64, error: &serde_json::Error| FileError::new(line, error.to_string());
        if text.trim_start().starts_with('[') {
            let items: Vec<serde_json::Value> =
                serde_json::from_str(text).map_err(|error| wrong(error.line() as u64, &error))?;
            for (number, item) in items.into_iter().enumerate() {
                // The line of an element is not known; its index in the array is.
                let datum = Datum::from(item);
                self.operation(0, &datum)
                    .map_err(|error| FileError::new(0, format!("element {}: {}", number + 1, error.what)))?;
            }
            return Ok(());
        }
        let mut bytes = 0;
        for (number, line) in text.lines().enumerate() {
            bytes += line.len() as u64 + 1;
            progress(bytes);
            if !line.trim().is_empty() {
                let number = number as u64 + 1;
                let item: serde_json::Value = serde_json::from_str(line).map_err(|error| wrong(number, &error))?;
                self.operation(number, &Datum::from(item))?;
            }
        }
        Ok(())
    }

    fn operation(&mut self, line: u64, datum: &Datum) -> Result<(), FileError> {
        let wrong = |what: String| FileError::new(line, what);
        if !matches!(datum, Datum::Map(_)) {
            return Err(wrong(format!("{datum} is no operation: a map is expected")));
        }
        self.operations += 1;
        let now = Moment(2 * self.operations);
        let kind = datum.field("type").and_then(Datum::as_name);
        let kind = kind.ok_or_else(|| wrong("an operation has no :type".into()))?;
        let process = datum.field("process").unwrap_or(&Datum::Nil);
        if !matches!(process, Datum::Int(_) | Datum::Nil) {
            // The faults injected into the system under test are noted, too.
            return Ok(());
        }
        let value = datum.field("value").unwrap_or(&Datum::Nil);
        let is_ok = kind == "ok";
        let steps = match value {
            Datum::Nil => None,
            _ => Some(self.steps(value, is_ok).map_err(wrong)?),
        };
        let number = Process(self.processes.len() as u32);
        let client = self.processes.entry(process.clone());
        let client = client.or_insert(Client { process: number, called: None, answered: Moment(0) });
        let answer = match kind {
            "invoke" => {
                let steps = steps.ok_or_else(|| wrong("a call has no :value".into()))?;
                if client.called.replace(Call { line, steps, at: now }).is_some() {
                    return Err(wrong(format!("process {process} calls before its last call was answered")));
                }
                return Ok(());
            }
            "ok" => Answer::Ok,
            "fail" => Answer::Fail,
            "info" => Answer::Info,
            other => return Err(wrong(format!("{other:?} is none of invoke, ok, fail, info"))),
        };
        // A call that is not noted came after the answer before it.
        let unnoted = Moment(client.answered.0 + 1);
        let (called, at) = client.called.take().map_or((None, unnoted), |call| (Some(call.steps), call.at));
        client.answered = now;
        let context = TransactionContext {
            process: Some(client.process),
            began: Some(at),
            ended: Some(now),
            ..TransactionContext::default()
        };
        let steps = match answer {
            Answer::Ok => steps.ok_or_else(|| wrong("what is ok has a :value".into()))?,
            // The result of the reads is not known.
            Answer::Fail | Answer::Info => called.or(steps).unwrap_or_default(),
        };
        self.history.transactions.push(ElleTransaction { answer, steps, line, context });
        Ok(())
    }

    fn steps(&mut self, value: &Datum, is_ok: bool) -> Result<Vec<Step>, String> {
        let items = value.as_seq().ok_or_else(|| format!("{value} is no transaction: a sequence is expected"))?;
        items.iter().map(|item| self.step(item, is_ok)).collect()
    }

    fn step(&mut self, item: &Datum, is_ok: bool) -> Result<Step, String> {
        let Some([what, key, value]) = item.as_seq() else {
            return Err(format!("{item} is no step: [what key value] is expected"));
        };
        let what = what.as_name().unwrap_or("");
        let number = |history: &mut ElleHistory, name: &Datum| history.number(name.clone());
        let model = match what {
            "append" => Model::ListAppend,
            "w" => Model::Register,
            "r" => {
                let key = number(&mut self.history, key);
                return self.read_step(key, value, is_ok);
            }
            other => return Err(format!("{other:?} is none of append, w, r")),
        };
        if self.history.model != model {
            return Err(format!("{what:?} in a history of {}", self.history.model.name()));
        }
        Ok(Step::Write { key: number(&mut self.history, key), value: number(&mut self.history, value) })
    }

    fn read_step(&mut self, key: Number, value: &Datum, is_ok: bool) -> Result<Step, String> {
        let is_list = self.history.model == Model::ListAppend;
        match value {
            // A list without appends is nil.
            Datum::Nil if is_list => Ok(Step::ReadList { key, list: is_ok.then(Vec::new) }),
            Datum::Nil => Ok(Step::ReadValue { key, value: None }),
            Datum::Seq(items) if is_list => {
                let items = items.iter().map(|item| self.history.number(item.clone())).collect();
                Ok(Step::ReadList { key, list: Some(items) })
            }
            _ if is_list => Err(format!("{value} is no list")),
            _ => Ok(Step::ReadValue { key, value: Some(self.history.number(value.clone())) }),
        }
    }

    fn finish(mut self) -> Result<ElleHistory, FileError> {
        if self.operations == 0 {
            return Err(FileError::new(0, "there are no operations in it"));
        }
        let open = self.processes.into_values().filter_map(|client| Some((client.called?, client.process)));
        let mut unanswered: Vec<_> = open.collect();
        unanswered.sort_by_key(|(call, _)| call.at);
        for (Call { line, steps, at }, process) in unanswered {
            let context =
                TransactionContext { process: Some(process), began: Some(at), ..TransactionContext::default() };
            self.history.transactions.push(ElleTransaction { answer: Answer::Info, steps, line, context });
        }
        Ok(self.history)
    }
}
