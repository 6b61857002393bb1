//! Queries in FROM, and views, that become part of the query around them: PostgreSQL's `pull_up_subqueries`.
//!
//! A query that only joins, filters and computes need not be run by itself: its sources are joined with those of the
//! query around it, so that conditions from outside choose the paths to its rows. Its results get places of their own
//! in the row, which nothing fills: expressions that read them are rewritten before the joins are ordered
//! ([`From::take_replaced`]).
//!
//! A query stays apart if it has DISTINCT, groups, window functions, ORDER BY, LIMIT, sets or volatile functions, if a result is large or a
//! query for each row, or if rows of it are to be locked. On the nullable side of a LEFT JOIN it also has to be a single table all of whose results are NULL where
//! the join finds no row. A query that contains a LEFT JOIN, or correlated queries, has to come first in
//! FROM, where its conditions are as good as those of WHERE.

use std::{collections::BTreeMap, mem, sync::Arc};

use sqlparser::ast::{self, SetExpr};

use super::{
    Binder,
    join_order::{is_null_with, is_volatile, is_volatile_itself, need, order_joins},
    rewrite::rewrite,
    source::From,
    with::{keep_recursions, uses_work_table},
};
use crate::{
    catalog::Catalog,
    error::Result,
    expr::Expr,
    query::{Body, Distinct, Join, Query, Select, SortKey, Source, SourceKind},
    result::Column,
    types::{SqlType, Value},
};

/// Maximum number of sources that a query gets from queries in its FROM: their order costs the square of it.
const SOURCES_MAX: usize = 64;

/// Maximum size of a result that expressions around the query repeat, so that nested queries do not double it each.
const RESULT_MAX: usize = 50;

/// A SELECT after binding, before its sources are ordered.
pub(super) struct Unordered {
    pub(super) select: Select,
    pub(super) from: From,
    pub(super) filter: Vec<Expr>,
    pub(super) order: Vec<SortKey>,
    pub(super) width: usize,
}

/// A query in FROM, bound.
pub(super) enum Derived {
    Unordered(Box<Unordered>),
    Query(Box<Query>),
}

impl Unordered {
    /// Orders the sources; `is_limited`: only the first rows may be needed; `is_repeated`: it is run for each row around.
    pub(super) fn into_query(mut self, catalog: &Catalog, is_limited: bool, is_repeated: bool) -> Query {
        self.replace();
        let Self { mut select, mut from, filter, mut order, width } = self;
        // Groups are produced in no order, and DISTINCT sees rows before they are sorted.
        let is_gathered = select.group.is_some() || !select.windows.is_empty() || !select.sets.is_empty();
        let may_be_ordered = !is_gathered && matches!(select.distinct, Distinct::No);
        let wanted = if may_be_ordered { &order[..] } else { &[] };
        let is_ordered = order_joins(catalog, &mut select, &mut from, filter, wanted, is_limited);
        if may_be_ordered && is_ordered {
            order.clear();
        }
        need(&mut select);
        keep_recursions(&mut select, is_repeated);
        if is_repeated {
            let hashes = select.sources.iter_mut().filter_map(|source| source.hash.as_mut());
            hashes.for_each(|hash| hash.has_to_fit |= hash.is_fixed);
        }
        Query { body: Body::Select(Box::new(select)), order, width, limit: None, offset: None, locks: Vec::new() }
    }

    /// Rewrites the expressions that read results of queries that were pulled up.
    pub(super) fn replace(&mut self) {
        self.filter.append(&mut self.from.filter);
        match &mut self.select.group {
            None => {
                let Select { windows, sets, output, .. } = &mut self.select;
                let exprs = output.iter_mut().chain(windows.exprs_mut()).chain(sets.exprs_mut());
                self.from.replace_in_all(self.filter.iter_mut().chain(exprs));
            }
            // The results refer to the keys and aggregates.
            Some(group) => {
                let aggregates = group.aggregates.iter_mut().flat_map(|call| call.exprs_mut());
                self.from.replace_in_all(self.filter.iter_mut().chain(&mut group.keys).chain(aggregates));
            }
        }
    }

    /// Whether it can become part of the query around it, as a source that is joined so. `is_first`: it comes first in
    /// FROM, and no join turns it to the nullable side.
    fn is_simple(&self, join: Join, is_first: bool) -> bool {
        let Self { select, from, filter, order, width } = self;
        let is_gathered = select.group.is_some() || !select.windows.is_empty() || !select.sets.is_empty();
        let is_plain = !is_gathered && matches!(select.distinct, Distinct::No);
        let is_whole = order.is_empty() && select.output.len() == *width;
        let is_fixed = self.has(&is_fixed) || from.sources.iter().any(has_fixed_rows);
        if !is_plain || !is_whole || from.sources.is_empty() || is_fixed {
            return false;
        }
        if select.output.iter().any(is_costly) {
            return false;
        }
        let joins_left = from.sources.iter().any(|source| source.join != Join::Inner) || !from.filter.is_empty();
        let is_correlated = |expr: &Expr| matches!(expr, Expr::Subquery(subquery) if subquery.is_correlated);
        let needs_first = joins_left || self.has(&is_correlated);
        match (join, &from.sources[..]) {
            (Join::Inner, _) => is_first || !needs_first,
            (Join::Left, [Source { kind: SourceKind::Table(_), first, width, .. }]) => {
                let own = *first..first + width;
                let is_own = |expr: &Expr| is_null_with(expr, &own);
                !needs_first && select.output.iter().all(is_own) && !filter.iter().any(Expr::has_query)
            }
            _ => false,
        }
    }

    /// Whether any expression on its rows, or anything in it, is such.
    fn has(&self, is_such: &dyn Fn(&Expr) -> bool) -> bool {
        let on = self.from.sources.iter().flat_map(|source| source.on.iter().chain(source.filter.iter()));
        let exprs = self.select.output.iter().chain(&self.filter).chain(&self.from.filter).chain(on);
        exprs.into_iter().any(|expr| expr.has(is_such))
    }
}

/// Whether a result may not be repeated: it is large, or a query for each row.
fn is_costly(result: &Expr) -> bool {
    let (mut size, mut is_correlated) = (0, false);
    result.visit(&mut |expr| {
        size += 1;
        is_correlated |= matches!(expr, Expr::Subquery(subquery) if subquery.is_correlated);
    });
    size > RESULT_MAX || is_correlated
}

/// Whether the rows of a source cannot be read more often, or elsewhere.
fn has_fixed_rows(source: &Source) -> bool {
    match &source.kind {
        SourceKind::Table(_) | SourceKind::System { .. } => false,
        SourceKind::Derived(query) => is_volatile(query) || uses_work_table(query),
        SourceKind::Once(_) | SourceKind::Lateral(_) | SourceKind::Members(_) => true,
        SourceKind::Function { .. } => source.kind.exprs().iter().any(|expr| expr.has(&is_fixed)),
    }
}

/// Whether an expression, apart from its operands, must be evaluated where it is written.
fn is_fixed(expr: &Expr) -> bool {
    matches!(expr, Expr::Aggregate(_) | Expr::OuterAggregate(..)) || is_volatile_itself(expr)
}

impl From {
    /// Takes the results that stand for places from `first` on; the expressions of the sources from `start` on, which
    /// all lie there, are rewritten.
    pub(super) fn take_replaced(&mut self, start: usize, first: usize) -> BTreeMap<usize, Expr> {
        let own = self.replaced.split_off(&first);
        replace_in(&mut self.sources[start..], &own);
        own
    }

    /// Rewrites the sources and other expressions; then no expression reads the places that no source fills.
    pub(super) fn replace_in_all<'x>(&mut self, exprs: impl IntoIterator<Item = &'x mut Expr>) {
        if self.replaced.is_empty() {
            return;
        }
        replace_in(&mut self.sources, &self.replaced);
        replace_all(exprs, &self.replaced);
        self.replaced.values_mut().for_each(|expr| *expr = Expr::Constant(Value::Null));
    }

    /// Returns the values of all places, as results of a query.
    pub(super) fn outputs(&self) -> Vec<Expr> {
        let value = |at: usize| self.replaced.get(&at).cloned().unwrap_or(Expr::Column(at));
        (0..self.width).map(value).collect()
    }
}

impl Binder<'_> {
    /// Binds a query in FROM. If it may become part of the query around it, its places begin at `first`.
    pub(super) fn derived(&mut self, query: &ast::Query, first: usize) -> Result<(Derived, Vec<Column>)> {
        let candidate = plain_select(query).filter(|_| !self.keeps_sources);
        let Some(select) = candidate else {
            let (query, columns) = self.query(query)?;
            return Ok((Derived::Query(Box::new(query)), columns));
        };
        let (mut bound, columns) = self.unordered_select(select, &[], first)?;
        for at in mem::take(&mut bound.select.untyped) {
            let expr = mem::replace(&mut bound.select.output[at], Expr::TRUE);
            bound.select.output[at] = self.untyped_as(expr, SqlType::TEXT)?;
        }
        Ok((Derived::Unordered(Box::new(bound)), columns))
    }

    /// Adds a query in FROM to the sources.
    pub(super) fn add_derived(
        &mut self,
        from: &mut From,
        (derived, columns): (Derived, Vec<Column>),
        name: &str,
        alias: Option<&ast::TableAlias>,
        (join, is_first): (Join, bool),
    ) -> Result<()> {
        let query = match derived {
            Derived::Unordered(mut unordered) => {
                unordered.replace();
                let sources = from.sources.len() + unordered.from.sources.len();
                if sources <= SOURCES_MAX && unordered.is_simple(join, is_first) {
                    return self.pull_up(from, *unordered, &columns, (name, alias), join);
                }
                unordered.into_query(self.catalog, false, self.scopes.len() > 1)
            }
            Derived::Query(query) => *query,
        };
        // In a query in an expression it is run for each outer row.
        let is_outermost = self.scopes.len() == 1;
        let is_once = is_outermost && is_volatile(&query) && !uses_work_table(&query);
        let kind = if is_once { SourceKind::Once } else { SourceKind::Derived };
        self.add(from, kind(Arc::new(query)), &columns, name, alias, join)
    }

    fn pull_up(
        &mut self,
        from: &mut From,
        Unordered { select, from: mut inner, mut filter, .. }: Unordered,
        columns: &[Column],
        (name, alias): (&str, Option<&ast::TableAlias>),
        join: Join,
    ) -> Result<()> {
        let has_left = inner.sources.iter().any(|source| source.join != Join::Inner);
        if has_left {
            from.filter.append(&mut filter);
        } else if let Some(last) = inner.sources.last_mut() {
            last.on.append(&mut filter);
        }
        if join == Join::Left {
            inner.sources[0].join = Join::Left;
        }
        from.sources.append(&mut inner.sources);
        from.replaced.append(&mut inner.replaced);
        from.width = inner.width;
        let named: Vec<usize> = (0..columns.len()).collect();
        self.add_columns(from, &named, columns, (name, alias), false)?;
        from.replaced.extend(select.output.into_iter().enumerate().map(|(at, expr)| (from.width + at, expr)));
        from.width += columns.len();
        Ok(())
    }
}

/// Returns the SELECT of a query that has nothing else.
pub(super) fn plain_select(query: &ast::Query) -> Option<&ast::Select> {
    let is_plain = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty()
        && query.for_clause.is_none();
    match &*query.body {
        SetExpr::Select(select) if is_plain && select.distinct.is_none() && !select.from.is_empty() => Some(select),
        _ => None,
    }
}

/// Rewrites the expressions of sources.
fn replace_in(sources: &mut [Source], replaced: &BTreeMap<usize, Expr>) {
    if replaced.is_empty() {
        return;
    }
    for source in sources {
        let rewritten = source.each_expr(&mut |expr| {
            replace_all([expr], replaced);
            Ok(())
        });
        rewritten.expect("no change fails");
    }
}

/// Rewrites expressions.
pub(super) fn replace_all<'x>(exprs: impl IntoIterator<Item = &'x mut Expr>, replaced: &BTreeMap<usize, Expr>) {
    for expr in exprs {
        let rewritten = rewrite(mem::replace(expr, Expr::TRUE), 0, &mut |expr, depth| {
            let at = match &expr {
                Expr::Column(at) if depth == 0 => *at,
                Expr::Outer(level, at) if depth > 0 && *level == depth => *at,
                _ => return Ok(expr),
            };
            Ok(replaced.get(&at).map_or(expr, |known| at_depth(known, depth)))
        });
        *expr = rewritten.expect("no change fails");
    }
}

/// Returns an expression as a query that many levels further in has to write it.
fn at_depth(expr: &Expr, levels: usize) -> Expr {
    if levels == 0 {
        return expr.clone();
    }
    let moved = rewrite(expr.clone(), 0, &mut |expr, depth| {
        Ok(match expr {
            Expr::Column(at) if depth == 0 => Expr::Outer(levels, at),
            Expr::Outer(level, at) if level >= depth => Expr::Outer(level + levels, at),
            other => other,
        })
    });
    moved.expect("no change fails")
}
