//! Rewrites bound expressions, including those of the queries in them.

use std::{mem, sync::Arc};

use crate::{
    error::Result,
    expr::{Expr, Subquery},
    query::{Body, Query, Select, SourceKind},
};

/// Returns the replacement of an expression, which is nested in the given number of queries.
pub(super) type Change<'c> = dyn FnMut(Expr, usize) -> Result<Expr> + 'c;

/// Rewrites an expression from its leaves up. `depth`: the number of queries between it and the rows that are meant.
pub(super) fn rewrite(expr: Expr, depth: usize, change: &mut Change<'_>) -> Result<Expr> {
    let expr = expr.map(&mut |inner| rewrite(inner, depth, change))?;
    let expr = inside(expr, depth, change)?;
    change(expr, depth)
}

/// Rewrites the expressions in the query of an expression; the rows that are meant are those around it.
pub(super) fn rewrite_inside(expr: Expr, change: &mut Change<'_>) -> Result<Expr> {
    inside(expr, 0, change)
}

fn inside(mut expr: Expr, depth: usize, change: &mut Change<'_>) -> Result<Expr> {
    if let Expr::Subquery(Subquery { query, is_correlated: true, .. }) = &mut expr {
        rewrite_query(own(query), depth + 1, change)?;
    }
    Ok(expr)
}

/// Returns an unshared query: other holders keep the original.
fn own(query: &mut Arc<Query>) -> &mut Query {
    Arc::make_mut(query)
}

fn rewrite_query(query: &mut Query, depth: usize, change: &mut Change<'_>) -> Result<()> {
    let mut one = |expr: &mut Expr| -> Result<()> {
        *expr = rewrite(mem::replace(expr, Expr::TRUE), depth, change)?;
        Ok(())
    };
    query.limit.iter_mut().chain(&mut query.offset).try_for_each(&mut one)?;
    match &mut query.body {
        Body::Select(select) => rewrite_select(select, depth, change),
        Body::Values(rows) => rows.iter_mut().flatten().try_for_each(one),
        Body::WorkTable(_) | Body::Returned(_) => Ok(()),
        Body::Set { sides, .. } => sides.iter_mut().try_for_each(|side| rewrite_query(side, depth, change)),
    }
}

fn rewrite_select(select: &mut Select, depth: usize, change: &mut Change<'_>) -> Result<()> {
    for source in &mut select.sources {
        match &mut source.kind {
            // A query that refers to no outer row stays shared: a query that is run once is identified by its address.
            SourceKind::Derived(query) | SourceKind::Once(query) if super::join_order::uses_outer(query, 1) => {
                rewrite_query(own(query), depth, change)?;
            }
            _ => {}
        }
    }
    select.each_expr(&mut |expr| {
        *expr = rewrite(mem::replace(expr, Expr::TRUE), depth, change)?;
        Ok(())
    })
}
