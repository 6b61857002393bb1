//! The interface between the shell and the session that runs its statements: in process ([`crate::local`]) or on a
//! server ([`crate::connected`]).

use std::io::{Read, Write};

/// A session that runs statements.
pub trait Statements {
    /// Runs a text of one statement or more. After a failure, `replies` has the results before it as well.
    fn run(&mut self, text: &str, ends: Ends<'_>, replies: &mut Vec<Reply>) -> Result<(), Box<Failure>>;

    /// Returns the state of the session's transaction.
    fn standing(&self) -> Standing;

    /// Returns a function that ends the running statement, if there is one, with 57014; it is called from another
    /// thread.
    fn canceller(&self) -> Box<dyn Fn() + Send>;

    /// Replaces a session that is lost by a new one of the same user on the same database, without asking the user
    /// anything.
    fn reconnect(&mut self) -> Result<(), Box<Failure>>;

    /// Returns the way to another session of the same user on the same database.
    fn beside(&self) -> Beside;

    /// Returns the database's name, for the prompt.
    fn database(&self) -> &str;

    /// Describes the database and the user in a sentence.
    fn description(&self) -> String;
}

/// The way to a session beside one.
pub struct Beside {
    /// The number of the first session, as `pg_backend_pid()` returns it.
    pub process: i32,
    /// Opens the other session, without asking the user anything, from any thread.
    pub open: Box<dyn FnOnce() -> Option<Box<dyn Statements>> + Send>,
}

/// The source and the destination of a COPY's bytes.
pub struct Ends<'a> {
    /// The source that `COPY .. FROM STDIN` reads, up to its end.
    pub source: &'a mut dyn Read,
    /// The destination that `COPY .. TO STDOUT` writes to.
    pub sink: &'a mut dyn Write,
}

/// A result of a statement.
#[derive(Debug)]
pub enum Reply {
    /// The statement has ended.
    Done {
        /// Its rows, if it returns any.
        table: Option<Table>,
        /// Its tag: `INSERT 0 1`.
        tag: String,
    },
    /// The statement has copied data out, to the given sink.
    CopiedOut {
        /// Its tag: `COPY 3`.
        tag: String,
    },
    /// A notice beside the result.
    Notice(Box<Failure>),
}

/// Rows as texts.
#[derive(Clone, Default, Debug)]
pub struct Table {
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, each with a value per column; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    /// The column's name.
    pub name: String,
    /// Whether the values are numbers, which are aligned to the right.
    pub is_number: bool,
}

impl Column {
    /// Returns a column with a type.
    pub fn new(name: &str, oid: u32) -> Self {
        // smallint, integer, bigint, oid, real, double precision, money, numeric, and numbers of transactions and
        // commands.
        let is_number = matches!(oid, 20 | 21 | 23 | 26 | 28 | 29 | 700 | 701 | 790 | 1700 | 5069);
        Self { name: name.to_owned(), is_number }
    }
}

/// The state of the session's transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// No transaction is open.
    Idle,
    /// A transaction is open.
    Open,
    /// The open transaction has failed.
    Failed,
    /// There is no session any more.
    Lost,
}

/// The reason why a statement failed; also a notice.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Failure {
    /// `ERROR`, `WARNING` ..
    pub severity: String,
    /// The code; empty where the shell itself failed.
    pub state: String,
    /// The failure in words.
    pub message: String,
    /// Further details.
    pub detail: Option<String>,
    /// Advice.
    pub hint: Option<String>,
    /// The context of the failure.
    pub context: Option<String>,
    /// The place in the text, in characters from 1 on.
    pub position: Option<usize>,
}

impl Failure {
    /// Returns a failure of something other than a statement.
    pub fn of_shell(what: impl std::fmt::Display) -> Box<Self> {
        Box::new(Self { message: what.to_string(), ..Self::default() })
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        [&self.detail, &self.hint].into_iter().flatten().try_for_each(|more| write!(f, "; {more}"))
    }
}
