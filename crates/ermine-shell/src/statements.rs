//! What the shell asks of whatever runs statements: a session in process ([`crate::local`]) or a server ([`crate::connected`]).

use std::io::{Read, Write};

/// Something that runs statements.
pub trait Statements {
    /// Runs a text of one statement or more. What came of it before it failed is in `replies` as well.
    fn run(&mut self, text: &str, ends: Ends<'_>, replies: &mut Vec<Reply>) -> Result<(), Box<Failure>>;

    /// Where the session stands.
    fn standing(&self) -> Standing;

    /// Ends the statement that runs, if one does, with 57014; called from another thread.
    fn canceller(&self) -> Box<dyn Fn() + Send>;

    /// The database's name, for the prompt.
    fn database(&self) -> &str;

    /// What is used, as whom, in a sentence.
    fn description(&self) -> String;
}

/// Where the bytes of a COPY come from and go to.
pub struct Ends<'a> {
    /// What `COPY .. FROM STDIN` reads, up to its end.
    pub source: &'a mut dyn Read,
    /// What `COPY .. TO STDOUT` writes to.
    pub sink: &'a mut dyn Write,
}

/// What came of a statement.
#[derive(Debug)]
pub enum Reply {
    /// It has ended.
    Done {
        /// Its rows, where it has some.
        table: Option<Table>,
        /// What it did: `INSERT 0 1`.
        tag: String,
    },
    /// It has copied something out, to the end that was given for that.
    CopiedOut {
        /// How much: `COPY 3`.
        tag: String,
    },
    /// Something was told beside.
    Notice(Box<Failure>),
}

/// Rows as texts.
#[derive(Clone, Default, Debug)]
pub struct Table {
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, as wide as the columns are many; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Numbers stand at the right.
    pub is_number: bool,
}

impl Column {
    /// Of a type.
    pub fn new(name: &str, oid: u32) -> Self {
        // smallint, integer, bigint, oid, real, double precision, money, numeric, and numbers of transactions and commands.
        let is_number = matches!(oid, 20 | 21 | 23 | 26 | 28 | 29 | 700 | 701 | 790 | 1700 | 5069);
        Self { name: name.to_owned(), is_number }
    }
}

/// Whether the session is in a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// In none.
    Idle,
    /// In one.
    Open,
    /// In one that has failed.
    Failed,
    /// There is no session any more.
    Lost,
}

/// Why a statement failed; also what is told beside it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Failure {
    /// `ERROR`, `WARNING` ..
    pub severity: String,
    /// The code; empty where the shell itself failed.
    pub state: String,
    /// What happened.
    pub message: String,
    /// More of it.
    pub detail: Option<String>,
    /// What to do.
    pub hint: Option<String>,
    /// What it happened in.
    pub context: Option<String>,
    /// Where in the text, in characters from 1 on.
    pub position: Option<usize>,
}

impl Failure {
    /// Something other than a statement failed.
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
