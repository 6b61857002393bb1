//! Statements with WITH queries that write.
//!
//! The queries of WITH that write are the parts of a statement. They are bound in their order, so that each knows the
//! names of those before it; where a name is used it stands for the rows that the part returns ([`Body::Returned`]).

use std::sync::Arc;

use sqlparser::ast::{self, SetExpr, Statement};

use super::{
    Binder, Named,
    merge::Merge,
    names::name_of,
    with::renamed,
    write::{Change, Insert},
};
use crate::{
    error::{Result, SqlError, SqlState},
    query::{Body, Query},
    result::Column,
    system::reg,
};

/// A statement with parts that write.
pub(crate) struct Parts {
    pub(crate) parts: Vec<Part>,
    pub(crate) main: Main,
}

/// A query of WITH that writes.
pub(crate) struct Part {
    /// The number by which its rows are read.
    pub(crate) id: usize,
    pub(crate) name: String,
    pub(crate) write: Write,
}

pub(crate) enum Write {
    Insert(Insert),
    Update(Change),
    Delete(Change),
    Merge(Box<Merge>),
}

/// The statement behind WITH.
pub(crate) enum Main {
    Query(Query),
    Write(Write),
}

impl Write {
    /// Returns the word that the statement begins with.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Insert(_) => "INSERT",
            Self::Update(_) => "UPDATE",
            Self::Delete(_) => "DELETE",
            Self::Merge(_) => "MERGE",
        }
    }
}

impl Main {
    /// Returns the word that the statement begins with.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Query(_) => "SELECT",
            Self::Write(write) => write.word(),
        }
    }
}

/// Returns the statement of a query that writes.
pub(crate) fn written(query: &ast::Query) -> Option<&Statement> {
    match &*query.body {
        SetExpr::Insert(statement)
        | SetExpr::Update(statement)
        | SetExpr::Delete(statement)
        | SetExpr::Merge(statement) => Some(statement),
        _ => None,
    }
}

/// Whether a query, or one of its WITH queries, writes.
pub(crate) fn is_written(query: &ast::Query) -> bool {
    let parts = query.with.iter().flat_map(|with| &with.cte_tables);
    written(query).is_some() || parts.map(|table| &table.query).any(|query| written(query).is_some())
}

impl Binder<'_> {
    /// Binds a statement that writes, or whose WITH queries write.
    pub(crate) fn parts(&mut self, query: &ast::Query) -> Result<(Parts, Option<Vec<Column>>)> {
        self.parts = Some(Vec::new());
        if query.with.as_ref().is_some_and(|with| with.recursive) && matches!(*query.body, SetExpr::Merge(_)) {
            let message = "WITH RECURSIVE is not supported for MERGE statement";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        if let Some(with) = &query.with {
            self.with_queries(query, with)?;
        }
        let parts = self.parts.take().unwrap_or_default();
        let (main, columns) = match written(query) {
            Some(statement) => {
                let (write, columns) = self.write(statement)?;
                (Main::Write(write), columns)
            }
            None => {
                let (query, mut columns) = self.query(&ast::Query { with: None, ..query.clone() })?;
                (Main::Query(reg::named(query, &mut columns)), Some(columns))
            }
        };
        self.named.clear();
        Ok((Parts { parts, main }, columns))
    }

    fn write(&mut self, statement: &Statement) -> Result<(Write, Option<Vec<Column>>)> {
        Ok(match statement {
            Statement::Insert(insert) => {
                let (insert, columns) = self.insert(insert)?;
                (Write::Insert(insert), columns)
            }
            Statement::Update(update) => {
                let (change, columns) = self.update(update)?;
                (Write::Update(change), columns)
            }
            Statement::Delete(delete) => {
                let (change, columns) = self.delete(delete)?;
                (Write::Delete(change), columns)
            }
            Statement::Merge(merge) => (Write::Merge(Box::new(self.merge_statement(merge)?)), None),
            _ => return Err(SqlError::unsupported("this statement behind WITH")),
        })
    }

    /// Binds a query of WITH that writes, and adds its name; returns whether it is one.
    pub(super) fn part(&mut self, table: &ast::Cte, refers_to_itself: bool) -> Result<bool> {
        let Some(statement) = written(&table.query) else { return Ok(false) };
        if let Statement::Merge(_) = statement {
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "MERGE not supported in WITH query"));
        }
        let name = name_of(&table.alias.name);
        if refers_to_itself {
            let message = format!("recursive query \"{name}\" must not contain data-modifying statements");
            return Err(SqlError::new(SqlState::INVALID_RECURSION, message));
        }
        let Some(mut parts) = self.parts.take() else {
            let message = "WITH clause containing a data-modifying statement must be at the top level";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        };
        if table.query.with.is_some() {
            return Err(SqlError::unsupported("WITH of a WITH query that writes"));
        }
        let (write, columns) = self.write(statement)?;
        let columns = columns.map_or(Ok(Vec::new()), |columns| renamed(columns, &table.alias))?;
        let columns: Vec<_> = columns.into_iter().map(|column| Column { source: (0, 0), ..column }).collect();
        let (id, width) = (self.recursions, columns.len());
        self.recursions += 1;
        let query =
            Query { body: Body::Returned(id), order: Vec::new(), width, limit: None, offset: None, locks: Vec::new() };
        parts.push(Part { id, name: name.clone(), write });
        self.parts = Some(parts);
        self.named.push(Named { name, query: Arc::new(query), columns, tree: None, is_kept: false, expanded: 0 });
        Ok(true)
    }
}
