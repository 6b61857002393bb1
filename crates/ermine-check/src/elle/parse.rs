//! Operations of EDN or JSON become transactions: each call is paired with its answer.

use std::collections::HashMap;

use super::{Answer, ElleHistory, ElleTransaction, Model, Number, Step, datum::Datum, edn};
use crate::file::FileError;

/// Reads a history, in EDN or JSON, of operations one after the other or in one sequence. Without a model, it is
/// list-append if that word is in it. `progress` is told how many bytes are read.
pub fn read(text: &str, model: Option<Model>, progress: &mut dyn FnMut(u64)) -> Result<ElleHistory, FileError> {
    let model = model.unwrap_or_else(|| guess(text));
    let mut parser = Parser { history: ElleHistory::new(model), called: HashMap::new(), operations: 0 };
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
    /// By process: the line of a call, and its steps.
    called: HashMap<Datum, (u64, Vec<Step>)>,
    operations: u64,
}

impl Parser {
    fn json(&mut self, text: &str, progress: &mut dyn FnMut(u64)) -> Result<(), FileError> {
        let wrong = |line: u64, error: &serde_json::Error| FileError::new(line, error.to_string());
        if text.trim_start().starts_with('[') {
            let items: Vec<serde_json::Value> =
                serde_json::from_str(text).map_err(|error| wrong(error.line() as u64, &error))?;
            for (number, item) in items.into_iter().enumerate() {
                // The line of an element is not known: its place in the array is.
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
        let kind = datum.field("type").and_then(Datum::as_name);
        let kind = kind.ok_or_else(|| wrong("an operation has no :type".into()))?;
        let process = datum.field("process").ok_or_else(|| wrong("an operation has no :process".into()))?;
        if !matches!(process, Datum::Int(_)) {
            // Whoever breaks the system under test notes that, too.
            return Ok(());
        }
        let value = datum.field("value").unwrap_or(&Datum::Nil);
        let is_ok = kind == "ok";
        let steps = match value {
            Datum::Nil => None,
            _ => Some(self.steps(value, is_ok).map_err(wrong)?),
        };
        let answer = match kind {
            "invoke" => {
                let steps = steps.ok_or_else(|| wrong("a call has no :value".into()))?;
                if self.called.insert(process.clone(), (line, steps)).is_some() {
                    return Err(wrong(format!("process {process} calls before its last call was answered")));
                }
                return Ok(());
            }
            "ok" => Answer::Ok,
            "fail" => Answer::Fail,
            "info" => Answer::Info,
            other => return Err(wrong(format!("{other:?} is none of invoke, ok, fail, info"))),
        };
        let called = self.called.remove(process).map(|(_, steps)| steps);
        let steps = match answer {
            Answer::Ok => steps.ok_or_else(|| wrong("what is ok has a :value".into()))?,
            // What it would have read is not known.
            Answer::Fail | Answer::Info => called.or(steps).unwrap_or_default(),
        };
        self.history.transactions.push(ElleTransaction { answer, steps, line });
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
            // A list that nobody has appended to is nil.
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
        let mut unanswered: Vec<_> = self.called.into_values().collect();
        unanswered.sort_by_key(|(line, _)| *line);
        for (line, steps) in unanswered {
            self.history.transactions.push(ElleTransaction { answer: Answer::Info, steps, line });
        }
        Ok(self.history)
    }
}
