//! The rows of a statement as the session passes them.

use std::sync::Arc;

use ermine_sql::{
    Column, RowSink, SqlError,
    types::{Value, user_types::UserTypes},
};

/// Gathers what a statement returns; of several statements, the rows of the last one that returns any.
#[derive(Default)]
pub struct Gathered {
    pub columns: Arc<[Column]>,
    pub has_columns: bool,
    /// The values of all rows, row by row.
    values: Vec<Value>,
    pub rows: usize,
    pub tag: String,
    pub notices: Vec<String>,
    pub types: Arc<UserTypes>,
}

impl Gathered {
    /// Returns an empty result whose columns are probably these.
    pub fn expecting(columns: Option<Arc<[Column]>>) -> Self {
        Self { columns: columns.unwrap_or_default(), ..Self::default() }
    }

    /// Returns the values of a row.
    pub fn row_values(&self, row: usize) -> &[Value] {
        &self.values[row * self.columns.len()..][..self.columns.len()]
    }

    /// Returns the number of rows that the statement has returned or changed.
    pub fn rowcount(&self) -> Option<i64> {
        self.tag.rsplit(' ').next().and_then(|count| count.parse().ok())
    }
}

fn are_same(known: &[Column], columns: &[Column]) -> bool {
    known.len() == columns.len()
        && known.iter().zip(columns).all(|(known, column)| known.ty == column.ty && known.name == column.name)
}

impl RowSink for Gathered {
    fn types(&mut self, types: &Arc<UserTypes>) {
        self.types = types.clone();
    }

    fn columns(&mut self, columns: &[Column]) -> ermine_sql::Result<()> {
        if !are_same(&self.columns, columns) {
            self.columns = columns.into();
        }
        self.has_columns = true;
        self.values.clear();
        self.rows = 0;
        Ok(())
    }

    fn row(&mut self, values: &[Value]) -> ermine_sql::Result<()> {
        self.values.extend_from_slice(values);
        self.rows += 1;
        Ok(())
    }

    fn complete(&mut self, tag: &str) -> ermine_sql::Result<()> {
        tag.clone_into(&mut self.tag);
        Ok(())
    }

    fn notice(&mut self, severity: &'static str, notice: &SqlError) {
        self.notices.push(format!("{severity}: {}", notice.report().message));
    }

    fn take_back(&mut self) -> bool {
        self.values.clear();
        self.rows = 0;
        self.notices.clear();
        true
    }
}
