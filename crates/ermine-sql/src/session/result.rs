//! What comes of statements, and where it goes.

use std::ops::ControlFlow;

use crate::{
    copy::CopyFormat,
    error::{Result, SqlError},
    types::{Environment, SqlType, Value},
};

/// A column of a result.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: SqlType,
    /// The type's modifier, as PostgreSQL numbers them; -1: none.
    pub modifier: i32,
    /// The table's oid and the column's number in it, where it is one; otherwise 0.
    pub source: (u32, i16),
}

/// Where rows go to.
pub trait Rows {
    /// What comes up to [`Rows::complete`] is fetched from a binary cursor: values are wanted in binary where nothing was said.
    fn binary(&mut self) {}
    /// Settings have changed that values are written by: those of this environment count from here on.
    fn environment(&mut self, environment: &Environment) {
        let _ = environment;
    }
    /// The columns of what comes now, before the first row.
    fn columns(&mut self, columns: &[Column]) -> Result<()>;
    /// A row.
    fn row(&mut self, values: &[Value]) -> Result<()>;
    /// COPY TO STDOUT begins: what comes up to [`Rows::complete`] are pieces.
    fn copy_out(&mut self, format: CopyFormat) -> Result<()> {
        let _ = format;
        Err(SqlError::unsupported("COPY TO STDOUT here"))
    }
    /// A piece of what is copied: a row.
    fn copy_data(&mut self, piece: &[u8]) -> Result<()> {
        let _ = piece;
        Ok(())
    }
    /// COPY FROM STDIN has begun: what is sent goes to [`crate::Session::copy_in`], until that is told to finish or to fail.
    fn copy_in(&mut self, format: CopyFormat) -> Result<()> {
        let _ = format;
        Err(SqlError::unsupported("COPY FROM STDIN here"))
    }
    /// A statement has ended, with this tag; simple queries may have several.
    fn complete(&mut self, tag: &str) -> Result<()>;
    /// There was no statement.
    fn nothing(&mut self) -> Result<()> {
        Ok(())
    }
    /// Something to be told beside the result: a notice or a warning.
    fn notice(&mut self, severity: &'static str, notice: &SqlError) {
        let _ = (severity, notice);
    }
    /// Forgets the rows since the last statement ended, because the statement is run again; false where they have left already, and it
    /// is not.
    fn take_back(&mut self) -> bool {
        false
    }
}

/// Rows that are gathered, for programs that want them all.
#[derive(Default, Debug)]
pub struct Gathered {
    /// The columns of the last statement with a result.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Vec<Value>>,
    /// The tags of all statements.
    pub tags: Vec<String>,
    /// What was told beside.
    pub notices: Vec<SqlError>,
    /// What COPY gave, all of it.
    pub copied: Vec<u8>,
}

impl Gathered {
    /// The rows as texts; NULL is an empty one.
    pub fn texts(&self) -> Vec<Vec<String>> {
        let environment = Environment::default();
        let text = |(value, column): (&Value, &Column)| match value {
            Value::Null => String::new(),
            value => crate::types::text::to_string(value, column.ty, &environment),
        };
        self.rows.iter().map(|row| row.iter().zip(&self.columns).map(text).collect()).collect()
    }
}

impl Rows for Gathered {
    fn columns(&mut self, columns: &[Column]) -> Result<()> {
        self.columns = columns.to_vec();
        self.rows.clear();
        Ok(())
    }

    fn row(&mut self, values: &[Value]) -> Result<()> {
        self.rows.push(values.to_vec());
        Ok(())
    }

    fn copy_out(&mut self, _: CopyFormat) -> Result<()> {
        self.copied.clear();
        Ok(())
    }

    fn copy_data(&mut self, piece: &[u8]) -> Result<()> {
        self.copied.extend_from_slice(piece);
        Ok(())
    }

    fn copy_in(&mut self, _: CopyFormat) -> Result<()> {
        Ok(())
    }

    fn complete(&mut self, tag: &str) -> Result<()> {
        self.tags.push(tag.to_owned());
        Ok(())
    }

    fn notice(&mut self, _: &'static str, notice: &SqlError) {
        self.notices.push(notice.clone());
    }

    fn take_back(&mut self) -> bool {
        self.rows.clear();
        true
    }
}

/// How statements ended.
#[must_use = "what was done may not be durable yet: wait for the receipt"]
#[derive(Default)]
pub struct Completion {
    /// What has to become durable before the client may be told.
    pub receipt: Option<ermine::OwnedReceipt>,
}

impl Completion {
    /// Blocks until everything is durable that has to be.
    pub fn wait(self) -> Result<()> {
        self.receipt.map_or(Ok(()), |receipt| receipt.wait().map(drop).map_err(crate::failure::of_engine))
    }
}

/// Where the session stands, as `ReadyForQuery` tells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// In no transaction.
    Idle,
    /// In a transaction.
    Open,
    /// In a transaction that has failed.
    Failed,
}

/// Keeps the tag until the statement's transaction has committed.
pub(super) struct Tagged<'r> {
    pub(super) rows: &'r mut dyn Rows,
    pub(super) tag: String,
}

impl Rows for Tagged<'_> {
    fn binary(&mut self) {
        self.rows.binary();
    }

    fn environment(&mut self, environment: &Environment) {
        self.rows.environment(environment);
    }

    fn columns(&mut self, columns: &[Column]) -> Result<()> {
        self.rows.columns(columns)
    }

    fn row(&mut self, values: &[Value]) -> Result<()> {
        self.rows.row(values)
    }

    fn copy_out(&mut self, format: CopyFormat) -> Result<()> {
        self.rows.copy_out(format)
    }

    fn copy_data(&mut self, piece: &[u8]) -> Result<()> {
        self.rows.copy_data(piece)
    }

    fn copy_in(&mut self, format: CopyFormat) -> Result<()> {
        self.rows.copy_in(format)
    }

    fn complete(&mut self, tag: &str) -> Result<()> {
        self.tag = tag.to_owned();
        Ok(())
    }

    fn notice(&mut self, severity: &'static str, notice: &SqlError) {
        self.rows.notice(severity, notice);
    }

    fn take_back(&mut self) -> bool {
        self.rows.take_back()
    }
}

/// Rows of a result go on.
pub(crate) const MORE: Result<ControlFlow<()>> = Ok(ControlFlow::Continue(()));
