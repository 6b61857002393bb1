//! Generated columns: GENERATED ALWAYS AS (expression) STORED. Statements compute them when all other values of a row are
//! known, and never take values for them.

use std::collections::BTreeSet;

use sqlparser::ast;

use super::Binder;
use crate::{
    catalog::{
        Table,
        definition::{ColumnDef, TableDef},
    },
    error::{Result, SqlError, SqlState},
    expr::Expr,
};

const CLAUSE: &str = "column generation expressions";

impl Binder<'_> {
    /// Returns the generated columns of a table, and their values, computed from the others of the row.
    pub(super) fn generated(&mut self, table: &Table) -> Result<Vec<(usize, Expr)>> {
        let def = &table.def;
        let columns = def.live_columns().filter_map(|(at, column)| Some((at, column, column.generation()?)));
        columns.map(|(at, column, text)| Ok((at, self.generation(def, column, text)?))).collect()
    }

    fn generation(&mut self, def: &TableDef, column: &ColumnDef, text: &str) -> Result<Expr> {
        self.stored(text, |this, expr| this.generation_of(def, column, expr))
    }

    fn generation_of(&mut self, def: &TableDef, column: &ColumnDef, expr: &ast::Expr) -> Result<Expr> {
        let typed = self.value_on(def, expr, CLAUSE).map_err(|error| match error.state() {
            SqlState::GROUPING_ERROR => {
                let message = "aggregate functions are not allowed in column generation expressions";
                SqlError::new(SqlState::GROUPING_ERROR, message)
            }
            _ => error,
        })?;
        if typed.expr.has_query() {
            let message = "cannot use subquery in column generation expression";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let invalid = |message: String| SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message);
        for at in columns_of(&typed.expr) {
            let Some(used) = def.columns.get(at).filter(|used| used.generation().is_some()) else { continue };
            let message = format!("cannot use generated column \"{}\" in column generation expression", used.name);
            return Err(invalid(message).detail("A generated column cannot reference another generated column."));
        }
        let bound = self.assign_default(typed, (column.ty, column.modifier), &column.name)?;
        match bound.is_immutable() {
            true => Ok(bound),
            false => Err(invalid("generation expression is not immutable".into())),
        }
    }

    /// Returns the generated columns of a table that are computed from a column.
    pub(crate) fn generated_from(&mut self, table: &Table, column: usize) -> Result<Vec<usize>> {
        let all = self.generated(table)?;
        Ok(all.into_iter().filter(|(_, expr)| columns_of(expr).contains(&column)).map(|(at, _)| at).collect())
    }
}

/// Returns the columns that an expression on a row refers to.
pub(super) fn columns_of(expr: &Expr) -> BTreeSet<usize> {
    let mut columns = BTreeSet::new();
    expr.visit(&mut |inner| {
        if let Expr::Column(at) = inner {
            columns.insert(*at);
        }
    });
    columns
}

/// Fails for a column that takes no values from statements.
pub(super) fn check_given(column: &ColumnDef, is_insert: bool) -> Result<()> {
    if column.generation().is_none() {
        return Ok(());
    }
    let name = &column.name;
    let message = match is_insert {
        true => format!("cannot insert a non-DEFAULT value into column \"{name}\""),
        false => format!("column \"{name}\" can only be updated to DEFAULT"),
    };
    Err(SqlError::new(SqlState("428C9"), message).detail(format!("Column \"{name}\" is a generated column.")))
}
