//! Expressions of indexes. Each has a hidden column in its table's definition (`DefaultDef::Computed`), by which the
//! definition of an index names it. No row stores its value: it is computed where an entry is made.

use std::collections::BTreeSet;

use sqlparser::ast;

use super::{Binder, Typed, generated::columns_of, names::name_of, row::check_storable, write::column_of};
use crate::{
    catalog::{
        Table,
        definition::{IndexDef, TableDef},
    },
    error::{Result, SqlError, SqlState},
    expr::Expr,
    fold::folded,
    parse,
    types::SqlType,
};

impl Binder<'_> {
    /// Binds an expression of an index, on the rows of its table.
    pub(crate) fn index_expression(&mut self, def: &TableDef, expr: &ast::Expr) -> Result<(Expr, SqlType)> {
        let Typed { expr, ty, modifier } =
            self.value_on(def, expr, "index expressions").map_err(|error| match error.state() {
                SqlState::GROUPING_ERROR => {
                    let message = "aggregate functions are not allowed in index expressions";
                    SqlError::new(SqlState::GROUPING_ERROR, message)
                }
                _ => error,
            })?;
        if expr.has_query() {
            let message = "cannot use subquery in index expression";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let own = ty.unwrap_or(SqlType::TEXT);
        check_storable("row", own)?;
        let expr = self.coerce(Typed { expr, ty, modifier }, own)?;
        if !expr.is_immutable() {
            let message = "functions in index expression must be marked IMMUTABLE";
            return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
        }
        // Conditions of queries are folded before they are compared with it.
        Ok((folded(expr, self.environment), own))
    }

    /// Returns the hidden columns that indexes of a table use, and their values, computed from the row.
    pub(crate) fn computed(&mut self, def: &TableDef) -> Result<Vec<(usize, Expr)>> {
        let columns = def.computed_columns();
        columns.map(|(at, _, text)| Ok((at, self.stored_index_expression(def, text)?))).collect()
    }

    fn stored_index_expression(&mut self, def: &TableDef, text: &str) -> Result<Expr> {
        self.stored(text, |this, expr| Ok(this.index_expression(def, expr)?.0))
    }

    /// Returns the columns of the table that an index uses in place of its own, hidden ones.
    pub(crate) fn columns_of_index(&mut self, def: &TableDef, index: &IndexDef) -> Result<BTreeSet<usize>> {
        let mut columns = BTreeSet::new();
        for (at, _) in &index.columns {
            match def.columns[*at].computation() {
                None => drop(columns.insert(*at)),
                Some(text) => columns.extend(columns_of(&self.stored_index_expression(def, text)?)),
            }
        }
        Ok(columns)
    }

    /// Returns the columns that an element of ON CONFLICT means: a column, or the hidden ones of an expression; a
    /// number that no column has if no index has the expression.
    pub(super) fn conflict_column(
        &mut self,
        table: &Table,
        name: &ast::Ident,
        computed: &[(usize, Expr)],
    ) -> Result<usize> {
        let Some(expr) = parse::conflict_expression(name)? else { return column_of(table, &name_of(name)) };
        let bound = match self.index_expression(&table.def, &expr)?.0 {
            Expr::Column(at) => return Ok(at),
            bound => bound,
        };
        let columns = columns_of(&bound);
        self.needs_to_read(table.def.id, columns.into_iter());
        Ok(computed.iter().find(|(_, own)| *own == bound).map_or(usize::MAX, |(at, _)| *at))
    }
}
