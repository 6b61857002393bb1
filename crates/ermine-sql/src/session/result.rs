//! Results of statements, and the trait that receives them.

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
    /// The table's oid and the column's number in it, if the result column is a table's column; otherwise 0.
    pub source: (u32, i16),
}

/// The receiver of rows.
pub trait Rows {
    /// The rows up to [`Rows::complete`] are fetched from a binary cursor: values default to the binary format.
    fn binary(&mut self) {}
    /// Settings that affect the output of values have changed: those of this environment apply from here on.
    fn environment(&mut self, environment: &Environment) {
        let _ = environment;
    }
    /// Receives the columns of the result, before its first row.
    fn columns(&mut self, columns: &[Column]) -> Result<()>;
    /// Receives a row.
    fn row(&mut self, values: &[Value]) -> Result<()>;
    /// Begins COPY TO STDOUT: pieces follow up to [`Rows::complete`].
    fn copy_out(&mut self, format: CopyFormat) -> Result<()> {
        let _ = format;
        Err(SqlError::unsupported("COPY TO STDOUT here"))
    }
    /// Receives a piece of the copied data: a row.
    fn copy_data(&mut self, piece: &[u8]) -> Result<()> {
        let _ = piece;
        Ok(())
    }
    /// COPY FROM STDIN has begun: the sent data goes to [`crate::Session::copy_in`], until that is finished or fails.
    fn copy_in(&mut self, format: CopyFormat) -> Result<()> {
        let _ = format;
        Err(SqlError::unsupported("COPY FROM STDIN here"))
    }
    /// A statement has ended, with this tag; simple queries may contain several.
    fn complete(&mut self, tag: &str) -> Result<()>;
    /// The text contained no statement.
    fn nothing(&mut self) -> Result<()> {
        Ok(())
    }
    /// Receives a message beside the result: a notice or a warning.
    fn notice(&mut self, severity: &'static str, notice: &SqlError) {
        let _ = (severity, notice);
    }
    /// Discards the rows since the last statement ended, because the statement is run again; returns false if rows have
    /// been sent already, in which case it is not run again.
    fn take_back(&mut self) -> bool {
        false
    }
}

/// Rows that are gathered, for programs that want all of them at once.
#[derive(Default, Debug)]
pub struct Gathered {
    /// The columns of the last statement with a result.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Vec<Value>>,
    /// The tags of all statements.
    pub tags: Vec<String>,
    /// Notices and warnings.
    pub notices: Vec<SqlError>,
    /// All data that COPY returned.
    pub copied: Vec<u8>,
}

impl Gathered {
    /// Returns the rows as texts; NULL is an empty text.
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

/// The end of one or more statements.
#[must_use = "what was done may not be durable yet: wait for the receipt"]
#[derive(Default)]
pub struct Completion {
    /// The receipt to wait for before the client is told of the commit; it signals durability.
    pub receipt: Option<ermine::OwnedReceipt>,
}

impl Completion {
    /// Blocks until everything is durable that has to be.
    pub fn wait(self) -> Result<()> {
        self.receipt.map_or(Ok(()), |receipt| receipt.wait().map(drop).map_err(crate::failure::of_engine))
    }
}

/// The state of the session, as `ReadyForQuery` reports it.
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

/// The result continues.
pub(crate) const MORE: Result<ControlFlow<()>> = Ok(ControlFlow::Continue(()));
