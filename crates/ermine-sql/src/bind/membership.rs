//! Comparisons of a value, or of a row constructor, with the results of a query: IN, ANY and ALL, or with its only one.

use std::sync::Arc;

use sqlparser::ast;

use super::{
    Binder, Typed,
    expr::{one_column, with_kind},
    row::items_of,
};
use crate::{
    error::{Result, SqlError, SqlState},
    expr::{Comparison, Expr, Quantifier, Subquery, SubqueryKind},
    query::{Body, Join, Query, Select, Source, SourceKind},
    types::{SqlType, cast, operators, record::Field},
};

impl Binder<'_> {
    /// Binds a test of whether a value is among the results of a query.
    pub(super) fn holds(
        &mut self,
        operand: &ast::Expr,
        comparison: Comparison,
        query: &ast::Query,
        all: bool,
    ) -> Result<Expr> {
        if let Some(row) = items_of(operand) {
            let quantifier = if all { Quantifier::All } else { Quantifier::Any };
            return self.row_holds(&row, comparison, query, quantifier);
        }
        // The query first, as PostgreSQL does it, which shows in errors.
        let (subquery, columns) = self.subquery(query, SubqueryKind::Exists)?;
        let operand = self.expr(operand)?;
        let [column] = &columns[..] else { return Err(one_column()) };
        let (operand, types) = self.compared(comparison, operand, column.ty)?;
        let subquery = self.with_result(subquery, column.ty, &types)?;
        Ok(with_kind(subquery, SubqueryKind::Holds { operand: Box::new(operand), comparison, all }))
    }

    /// Binds a comparison of a row constructor with the rows of a query.
    pub(super) fn row_holds(
        &mut self,
        row: &[&ast::Expr],
        comparison: Comparison,
        query: &ast::Query,
        quantifier: Quantifier,
    ) -> Result<Expr> {
        let (subquery, columns) = self.subquery(query, SubqueryKind::Exists)?;
        let row = self.values_of_row(row)?;
        if row.len() != columns.len() {
            let few = if columns.len() < row.len() { "few" } else { "many" };
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("subquery has too {few} columns")));
        }
        let (mut fields, mut operands, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for (at, (operand, column)) in row.into_iter().zip(&columns).enumerate() {
            let (operand, types) = self.compared(comparison, operand, column.ty)?;
            operands.push(operand);
            values.push(self.through(Expr::Column(at), column.ty, &types)?);
            fields.push(Field { name: format!("f{}", at + 1).into(), ty: types[1] });
        }
        let fields: Arc<[Field]> = fields.into();
        let row = Box::new(Expr::Record(fields.clone(), operands));
        let subquery = over(subquery, columns.len(), Expr::Record(fields, values));
        Ok(with_kind(subquery, SubqueryKind::Row { row, comparison, quantifier }))
    }

    /// Converts an operand to the type in which it is compared with a column. Returns the types to which the column is
    /// converted, one after the other.
    fn compared(&mut self, comparison: Comparison, operand: Typed, column: SqlType) -> Result<(Expr, [SqlType; 2])> {
        let resolved = operators::resolve_binary(comparison.name(), operand.ty, Some(column))?;
        // Both are compared as values of one type.
        let (left, right) = (resolved.left, resolved.right);
        let ty = if left == right { left } else { cast::common_type([left, right]).unwrap_or(left) };
        let operand = self.coerce(operand, left)?;
        Ok((self.coerce(Typed::new(operand, left), ty)?, [right, ty]))
    }

    /// Converts a value, one type after the other.
    fn through(&mut self, value: Expr, from: SqlType, to: &[SqlType]) -> Result<Expr> {
        let mut typed = Typed::new(value, from);
        for &next in to {
            typed = Typed::new(self.coerce(typed, next)?, next);
        }
        Ok(typed.expr)
    }

    /// Converts the only result of a query in an expression, one type after the other.
    fn with_result(&mut self, subquery: Expr, from: SqlType, to: &[SqlType]) -> Result<Expr> {
        // Values of varchar are texts.
        let is_text = |ty: SqlType| matches!(ty, SqlType::TEXT | SqlType::VARCHAR);
        let is_same = |ty: &SqlType| *ty == from || is_text(*ty) && is_text(from);
        let Expr::Subquery(Subquery { query, kind, is_correlated }) = subquery else { return Ok(subquery) };
        if to.iter().all(is_same) {
            return Ok(Expr::Subquery(Subquery { query, kind, is_correlated }));
        }
        let value = self.through(Expr::Column(0), from, to)?;
        Ok(over(Expr::Subquery(Subquery { query, kind, is_correlated }), 1, value))
    }
}

/// Makes a query in an expression one that returns a value computed from the results of the other.
fn over(subquery: Expr, width: usize, value: Expr) -> Expr {
    let Expr::Subquery(Subquery { query, kind, is_correlated }) = subquery else { return subquery };
    let source = Source::new(0, width, SourceKind::Derived(query), Join::Inner, "ANY_subquery".into());
    let select = Select { sources: vec![source], output: vec![value], ..Select::default() };
    let body = Body::Select(Box::new(select));
    let query = Query { body, order: Vec::new(), width: 1, limit: None, offset: None, locks: Vec::new() };
    Expr::Subquery(Subquery { query: Arc::new(query), kind, is_correlated })
}
