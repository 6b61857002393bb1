//! Comparisons of a value with all results of a query: IN, ANY and ALL.

use std::sync::Arc;

use sqlparser::ast;

use super::{
    Binder, Typed,
    expr::{one_column, with_kind},
};
use crate::{
    error::Result,
    expr::{Comparison, Expr, Subquery, SubqueryKind},
    query::{Body, Join, Query, Select, Source, SourceKind},
    types::{SqlType, cast, operators},
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
        // The query first, as PostgreSQL does it, which shows in errors.
        let (subquery, columns) = self.subquery(query, SubqueryKind::Exists)?;
        let operand = self.expr(operand)?;
        let [column] = &columns[..] else { return Err(one_column()) };
        let resolved = operators::resolve_binary(comparison.name(), operand.ty, Some(column.ty))?;
        // Both are compared as values of one type.
        let (left, right) = (resolved.left, resolved.right);
        let ty = if left == right { left } else { cast::common_type([left, right]).unwrap_or(left) };
        let operand = self.coerce(operand, left)?;
        let operand = self.coerce(Typed::new(operand, left), ty)?;
        let subquery = self.with_result(subquery, column.ty, &[right, ty])?;
        Ok(with_kind(subquery, SubqueryKind::Holds { operand: Box::new(operand), comparison, all }))
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
        let (mut value, mut ty) = (Expr::Column(0), from);
        for &next in to {
            (value, ty) = (self.coerce(Typed::new(value, ty), next)?, next);
        }
        let source = Source::new(0, 1, SourceKind::Derived(query), Join::Inner, "ANY_subquery".into());
        let select = Select { sources: vec![source], output: vec![value], ..Select::default() };
        let body = Body::Select(Box::new(select));
        let query = Query { body, order: Vec::new(), width: 1, limit: None, offset: None, locks: Vec::new() };
        Ok(Expr::Subquery(Subquery { query: Arc::new(query), kind, is_correlated }))
    }
}
