//! Results of statements, and the trait that receives them.

use std::{ops::ControlFlow, sync::Arc};

use crate::{
    collation::Collation,
    error::{Result, SqlError},
    types::{Environment, SqlType, Value, record::Field, user_types::UserTypes},
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
    /// The collation of its texts, for a query around this one.
    pub(crate) collation: Collation,
    /// The columns of its records, for a query around this one; `None`: it has no records, or they are not known.
    pub(crate) fields: Option<Arc<[Field]>>,
}

impl Column {
    /// A column of a type without a modifier, which is no table's.
    pub fn new(name: impl Into<String>, ty: SqlType) -> Self {
        Self { name: name.into(), ty, modifier: -1, source: (0, 0), collation: Collation::of(ty), fields: None }
    }
}

/// The format of a COPY, which the client is told at its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyFormat {
    /// Whether values are sent in their types' binary format; otherwise as text.
    pub is_binary: bool,
    /// The number of columns.
    pub columns: usize,
}

/// The receiver of rows.
pub trait RowSink {
    /// The rows up to [`RowSink::complete`] are fetched from a binary cursor: values default to the binary format.
    fn binary(&mut self) {}
    /// Settings that affect the output of values have changed: those of this environment apply from here on.
    fn environment(&mut self, environment: &Environment) {
        let _ = environment;
    }
    /// The types that statements have created, before the columns of a result, where there are any.
    fn types(&mut self, types: &Arc<UserTypes>) {
        let _ = types;
    }
    /// Receives the columns of the result, before its first row.
    fn columns(&mut self, columns: &[Column]) -> Result<()>;
    /// Receives a row.
    fn row(&mut self, values: &[Value]) -> Result<()>;
    /// Begins COPY TO STDOUT: pieces follow up to [`RowSink::complete`].
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
    /// Called when the statement has changed settings, though it is none that does.
    fn settings_changed(&mut self) {}
    /// Discards the rows since the last statement ended, because the statement is run again; returns false if rows have
    /// been sent already, in which case it is not run again.
    fn take_back(&mut self) -> bool {
        false
    }
}

/// Rows that are gathered, for programs that want all of them at once.
#[derive(Default, Debug)]
pub struct RowSet {
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
    /// The types that statements have created.
    types: Arc<UserTypes>,
}

impl RowSet {
    /// Returns the rows as texts; NULL is an empty text.
    pub fn texts(&self) -> Vec<Vec<String>> {
        let environment = Environment { types: self.types.clone(), ..Environment::default() };
        let text = |(value, column): (&Value, &Column)| match value {
            Value::Null => String::new(),
            value => crate::types::text::to_string(value, column.ty, &environment),
        };
        self.rows.iter().map(|row| row.iter().zip(&self.columns).map(text).collect()).collect()
    }
}

impl RowSink for RowSet {
    fn types(&mut self, types: &Arc<UserTypes>) {
        self.types = types.clone();
    }

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

/// The result continues.
pub(crate) const MORE: Result<ControlFlow<()>> = Ok(ControlFlow::Continue(()));
