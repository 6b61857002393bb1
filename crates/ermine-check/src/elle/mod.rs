//! Histories in which only values are known: those of Jepsen's Elle (Kingsbury and Alvaro 2020).
//!
//! A history is a sequence of operations, each called and answered: `:invoke`, then `:ok`, `:fail`, or `:info` if the
//! result is not known. An operation is a transaction of appends and reads of lists, or of writes and reads of
//! registers. The version order of a key is inferred from reads (`append`, `register`); no edge is drawn that does not
//! follow. The order of calls and answers is real-time order.
//!
//! [`Model::ListAppend`]: `[[:append 1 2] [:r 3 [1 2]]]`; [`Model::Register`]: `[[:w 1 2] [:r 3 nil]]`.

mod append;
mod datum;
mod edn;
mod export;
mod parse;
mod register;
mod verdict;
mod write;

use std::collections::HashMap;

pub use datum::Datum;
pub use export::export;
pub use parse::read;
pub use write::{write_edn, write_json};

use crate::{history::TransactionContext, progress::Progress, report::Report};

/// The type of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Lists that grow at their end.
    ListAppend,
    /// Registers; every value is written to a key only once.
    Register,
}

impl Model {
    /// Its name in Elle.
    pub fn name(self) -> &'static str {
        match self {
            Self::ListAppend => "list-append",
            Self::Register => "rw-register",
        }
    }
}

/// How a transaction was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It committed.
    Ok,
    /// It did not commit.
    Fail,
    /// It may have committed.
    Info,
}

impl Answer {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Fail => "fail",
            Self::Info => "info",
        }
    }
}

/// A key or a value, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(pub u32);

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It appended a value to a list, or wrote it to a register.
    Write {
        /// The key.
        key: Number,
        /// The value.
        value: Number,
    },
    /// It read a list; `None`: the result is not known.
    ReadList {
        /// The key.
        key: Number,
        /// Its elements.
        list: Option<Vec<Number>>,
    },
    /// It read a register; `None`: it was empty, or the result is not known.
    ReadValue {
        /// The key.
        key: Number,
        /// The value that was read.
        value: Option<Number>,
    },
}

/// A transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElleTransaction {
    /// How it was answered.
    pub answer: Answer,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Number of its last line; 0: it was not read from a file.
    pub line: u64,
    /// When it was called and answered, and by which process.
    pub context: TransactionContext,
}

/// A history.
#[derive(Clone, Debug)]
pub struct ElleHistory {
    /// The type of its keys.
    pub model: Model,
    /// In the order of their answers.
    pub transactions: Vec<ElleTransaction>,
    /// Keys and values, by number.
    names: Names,
}

/// Numbers for keys and values.
#[derive(Clone, Debug, Default)]
struct Names {
    numbers: HashMap<Datum, Number>,
    names: Vec<Datum>,
}

impl Names {
    fn number(&mut self, name: Datum) -> Number {
        let next = Number(self.names.len() as u32);
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            next
        })
    }

    fn name(&self, number: Number) -> &Datum {
        &self.names[number.0 as usize]
    }
}

impl ElleHistory {
    /// Creates a history without transactions.
    pub fn new(model: Model) -> Self {
        Self { model, transactions: Vec::new(), names: Names::default() }
    }

    /// The number of a key or a value.
    pub fn number(&mut self, name: Datum) -> Number {
        self.names.number(name)
    }

    /// The key or value of a number.
    pub fn name(&self, number: Number) -> &Datum {
        self.names.name(number)
    }
}

/// Judges a history.
pub fn judge(history: &ElleHistory, progress: &mut dyn FnMut(Progress)) -> Report {
    progress(Progress::new("drawing the graph", 0, 1));
    let inferred = match history.model {
        Model::ListAppend => append::infer(history),
        Model::Register => register::infer(history),
    };
    inferred.report(history, progress)
}
