//! Queries.

use std::sync::Arc;

use sqlparser::{
    ast::{
        self, Distinct as AstDistinct, GroupByExpr, LimitClause, OrderByKind, OrderBySort, SelectItem,
        SelectItemQualifiedWildcardKind, SetExpr, SetOperator, SetQuantifier,
    },
    tokenizer::Location,
};

use super::{
    Binder, SELECTS_NESTED_MAX, Scope, ScopeColumn, Typed, check_equality,
    group::{add_decided, grouped},
    grouping_sets::{Keys, Results},
    join_order::uses_outer,
    names::{name_of, relation_of},
    pull_up::Unordered,
    sets::SetScope,
    source::From,
    window::WindowScope,
    with::{check_no_work_table, uses_work_table},
};
use crate::{
    collation::Collation,
    error::{Result, SqlError, SqlState},
    expr::{Expr, Subquery, SubqueryKind},
    fold::fold_condition,
    parse::{ident, place, starred},
    query::{Body, Distinct, Group, Query, Select, SetOperation, SortKey},
    result::Column,
    system::reg::named_values,
    types::{SqlType, Value},
};

/// Maximum number of columns of a result, as in PostgreSQL; the protocol has a number of two bytes for them.
const COLUMNS_MAX: usize = 1664;

/// Returns the expressions of a SELECT on rows of groups, as they are written.
fn exprs_of<'a>(select: &'a ast::Select, order_by: &'a [ast::OrderByExpr]) -> impl Iterator<Item = &'a ast::Expr> {
    let results = select.projection.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    results.chain(&select.having).chain(order_by.iter().map(|key| &key.expr))
}

fn check_width(columns: usize) -> Result<()> {
    if columns <= COLUMNS_MAX {
        return Ok(());
    }
    let message = format!("target lists can have at most {COLUMNS_MAX} entries");
    Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message))
}

/// The items of a projection: the results, and their columns.
#[derive(Default)]
struct Output {
    exprs: Vec<Expr>,
    columns: Vec<Column>,
    /// Places of literals and parameters that have no type yet.
    untyped: Vec<usize>,
}

impl Binder<'_> {
    /// Binds a query; returns it with the columns of its result.
    pub(crate) fn query(&mut self, query: &ast::Query) -> Result<(Query, Vec<Column>)> {
        let (mut bound, columns) = self.untyped_query(query)?;
        for at in bound.untyped().to_vec() {
            self.type_output(&mut bound, at, SqlType::TEXT, -1)?;
        }
        Ok((bound, columns))
    }

    /// Binds a query whose [`Query::untyped`] results get their types from its context; until then their columns are
    /// texts.
    pub(super) fn untyped_query(&mut self, query: &ast::Query) -> Result<(Query, Vec<Column>)> {
        let outside = self.named.len();
        let bound = self.query_with(query);
        self.named.truncate(outside);
        bound
    }

    fn query_with(&mut self, query: &ast::Query) -> Result<(Query, Vec<Column>)> {
        let around = std::mem::replace(&mut self.keeps_sources, !query.locks.is_empty());
        let bound = self.query_parts(query);
        self.keeps_sources = around;
        bound
    }

    fn query_parts(&mut self, query: &ast::Query) -> Result<(Query, Vec<Column>)> {
        if let Some(with) = &query.with {
            self.with_queries(query, with)?;
        }
        if query.for_clause.is_some() {
            return Err(SqlError::unsupported("FOR XML, JSON and BROWSE"));
        }
        let keys = match query.order_by.as_ref().map(|order| &order.kind) {
            None => &[][..],
            Some(OrderByKind::Expressions(keys)) => keys,
            Some(OrderByKind::All(_)) => return Err(SqlError::unsupported("ORDER BY ALL")),
        };
        let (mut bound, columns) = match &*query.body {
            SetExpr::Select(select) => {
                self.select(select, keys, query.limit_clause.is_some() || query.fetch.is_some())?
            }
            // In parentheses: its own order and limit apply first.
            SetExpr::Query(inner) => {
                let (mut bound, columns) = self.untyped_query(inner)?;
                if keys.is_empty() && query.limit_clause.is_none() && query.fetch.is_none() {
                    self.lock(&mut bound, &query.locks)?;
                    return Ok((bound, columns));
                }
                let chooses = matches!(&bound.body, Body::Select(select) if matches!(select.distinct, Distinct::On(_)));
                if chooses || bound.limit.is_some() || bound.offset.is_some() {
                    let what = "ORDER BY or LIMIT behind a query in parentheses that has LIMIT, OFFSET or DISTINCT ON";
                    return Err(SqlError::unsupported(what));
                }
                if !keys.is_empty() {
                    bound.order.clear();
                }
                self.order_by_output(&mut bound, &columns, keys)?;
                (bound, columns)
            }
            body => {
                let (mut bound, columns) = self.body(body)?;
                self.order_by_output(&mut bound, &columns, keys)?;
                (bound, columns)
            }
        };
        self.lock(&mut bound, &query.locks)?;
        self.limits(&mut bound, query)?;
        Ok((bound, columns))
    }

    /// Binds LIMIT, OFFSET and FETCH.
    fn limits(&mut self, bound: &mut Query, query: &ast::Query) -> Result<()> {
        let (limit, offset) = match &query.limit_clause {
            None => (None, None),
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => (Some(limit), Some(offset)),
        };
        bound.limit = limit.map(|limit| self.count(limit, "LIMIT")).transpose()?;
        bound.offset = offset.map(|offset| self.count(offset, "OFFSET")).transpose()?;
        if let Some(fetch) = &query.fetch {
            if fetch.with_ties || fetch.percent {
                return Err(SqlError::unsupported("FETCH WITH TIES"));
            }
            bound.limit = Some(match &fetch.quantity {
                None => Expr::Constant(Value::Int8(1)),
                Some(rows) => self.count(rows, "FETCH")?,
            });
        }
        Ok(())
    }

    /// Orders a query by its results.
    fn order_by_output(&mut self, bound: &mut Query, columns: &[Column], keys: &[ast::OrderByExpr]) -> Result<()> {
        for key in keys {
            let at = self.output_place(&key.expr, Results { exprs: &[], columns }, "ORDER BY")?.ok_or_else(|| {
                SqlError::unsupported("ORDER BY of an expression after UNION, VALUES or a query in parentheses")
            })?;
            check_equality(columns[at].ty)?;
            bound.order.push(sort_key(at, &key.options)?);
        }
        Ok(())
    }

    /// Binds a number of rows.
    fn count(&mut self, expr: &ast::Expr, clause: &'static str) -> Result<Expr> {
        self.scopes.push(Scope { clause, ..Scope::default() });
        let typed = self.expr(expr);
        self.scopes.pop();
        let typed = typed?;
        match typed.ty {
            None | Some(SqlType::INT2 | SqlType::INT4 | SqlType::INT8) => self.coerce(typed, SqlType::INT8),
            Some(ty) => {
                let message = format!("argument of {clause} must be type bigint, not type {}", ty.name());
                Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
            }
        }
    }

    pub(super) fn body(&mut self, body: &SetExpr) -> Result<(Query, Vec<Column>)> {
        match body {
            SetExpr::Select(select) => self.select(select, &[], false),
            SetExpr::Query(query) => self.untyped_query(query),
            SetExpr::Values(values) => self.values(values),
            SetExpr::SetOperation { op, set_quantifier, left, right } => {
                let operation = match op {
                    SetOperator::Union => SetOperation::Union,
                    SetOperator::Intersect => SetOperation::Intersect,
                    SetOperator::Except | SetOperator::Minus => SetOperation::Except,
                };
                let all = *set_quantifier == SetQuantifier::All;
                let ((left, mut columns), (right, others)) = (self.body(left)?, self.body(right)?);
                if columns.len() != others.len() {
                    let message = format!("each {op} query must have the same number of columns");
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
                let mut sides = [left, right];
                for (at, other) in others.iter().enumerate() {
                    let column = &mut columns[at];
                    let known = [(&sides[0], column.ty), (&sides[1], other.ty)]
                        .map(|(side, ty)| (!side.untyped().contains(&at)).then_some(ty));
                    if known[0] != known[1] || known[0].is_none() {
                        let typed = known.map(|ty| Typed { expr: Expr::Column(at), ty, modifier: -1 });
                        let (_, ty) = self.common(typed.into(), &op.to_string())?;
                        for (side, from) in sides.iter_mut().zip(known) {
                            match from {
                                Some(from) => self.change_output(side, at, from, ty)?,
                                None => self.type_output(side, at, ty, -1)?,
                            }
                        }
                        (column.ty, column.modifier) = (ty, -1);
                    }
                    if column.modifier != other.modifier {
                        column.modifier = -1;
                    }
                    column.source = (0, 0);
                    column.collation = column.collation.or(other.collation);
                    if column.fields != other.fields {
                        column.fields = None;
                    }
                    if !all || operation != SetOperation::Union {
                        check_equality(column.ty)?;
                    }
                }
                let width = columns.len();
                let body = Body::Set { operation, all, sides: Box::new(sides) };
                Ok((Query { body, order: Vec::new(), width, limit: None, offset: None, locks: Vec::new() }, columns))
            }
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                Err(SqlError::unsupported("a statement that writes inside a query"))
            }
            // The forms that exist are a SELECT already.
            SetExpr::Table(_) => Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error behind TABLE")),
        }
    }

    /// Gives this type to a result that has none.
    pub(super) fn type_output(&mut self, query: &mut Query, at: usize, ty: SqlType, modifier: i32) -> Result<()> {
        let Body::Select(select) = &mut query.body else { return Ok(()) };
        select.untyped.retain(|untyped| *untyped != at);
        let expr = std::mem::replace(&mut select.output[at], Expr::TRUE);
        select.output[at] = self.take(Typed { expr, ty: None, modifier: -1 }, ty, modifier)?;
        Ok(())
    }

    /// Converts a column of a query to another type.
    pub(super) fn change_output(&mut self, query: &mut Query, at: usize, from: SqlType, to: SqlType) -> Result<()> {
        if from == to {
            return Ok(());
        }
        let mut change = |expr: &mut Expr| {
            let typed = Typed::new(std::mem::replace(expr, Expr::TRUE), from);
            *expr = self.coerce(typed, to)?;
            Ok::<_, SqlError>(())
        };
        match &mut query.body {
            Body::Select(select) => change(&mut select.output[at]),
            Body::Values(rows) => rows.iter_mut().try_for_each(|row| change(&mut row[at])),
            Body::Set { sides, .. } => sides.iter_mut().try_for_each(|side| self.change_output(side, at, from, to)),
            Body::WorkTable(_) | Body::Returned(_) => unreachable!("it is the source of a query"),
        }
    }

    fn values(&mut self, values: &ast::Values) -> Result<(Query, Vec<Column>)> {
        self.scopes.push(Scope { clause: "VALUES", ..Scope::default() });
        let bound = self.value_rows(values);
        self.scopes.pop();
        let rows = bound?;
        let width = rows[0].len();
        let mut columns: Vec<(Vec<Typed>, Collation)> = (0..width).map(|_| Default::default()).collect();
        for row in rows {
            for ((value, own), (column, collation)) in row.into_iter().zip(&mut columns) {
                column.push(value);
                *collation = collation.or(own);
            }
        }
        let mut shown = Vec::new();
        let mut all: Vec<Vec<Expr>> = Vec::new();
        for (at, (column, collation)) in columns.into_iter().enumerate() {
            let (values, ty) = self.common(column, "VALUES")?;
            shown.push(Column { collation, ..Column::new(format!("column{}", at + 1), ty) });
            all.resize_with(values.len(), Vec::new);
            all.iter_mut().zip(values).for_each(|(row, value)| row.push(value));
        }
        Ok((
            Query { body: Body::Values(all), order: Vec::new(), width, limit: None, offset: None, locks: Vec::new() },
            shown,
        ))
    }

    /// Binds the rows of VALUES, all of the same length, with the collations of the values.
    fn value_rows(&mut self, values: &ast::Values) -> Result<Vec<Vec<(Typed, Collation)>>> {
        let mut rows = Vec::new();
        for row in &values.rows {
            let values = row.content.iter().map(|value| self.collated(|this| this.expr(value)));
            rows.push(values.collect::<Result<Vec<_>>>()?);
        }
        if rows.is_empty() || rows.iter().any(|row| row.len() != rows[0].len()) {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "VALUES lists must all be the same length"));
        }
        check_width(rows[0].len())?;
        Ok(rows)
    }

    /// Binds a query in an expression.
    pub(super) fn subquery(&mut self, query: &ast::Query, kind: SubqueryKind) -> Result<(Expr, Vec<Column>)> {
        let (query, columns) = self.apart(|this| this.query(query))?;
        let is_correlated = !self.scopes.is_empty() && (uses_outer(&query, 1) || uses_work_table(&query));
        Ok((Expr::Subquery(Subquery { query: Arc::new(query), kind, is_correlated }), columns))
    }

    /// Binds a SELECT; `is_limited`: only its first rows may be needed.
    fn select(
        &mut self,
        select: &ast::Select,
        keys: &[ast::OrderByExpr],
        is_limited: bool,
    ) -> Result<(Query, Vec<Column>)> {
        let (bound, columns) = self.unordered_select(select, keys, 0)?;
        Ok((bound.into_query(self.catalog, is_limited, !self.scopes.is_empty()), columns))
    }

    /// Binds a SELECT, the places of whose sources begin at `first`.
    pub(super) fn unordered_select(
        &mut self,
        select: &ast::Select,
        keys: &[ast::OrderByExpr],
        first: usize,
    ) -> Result<(Unordered, Vec<Column>)> {
        if select.into.is_some() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "SELECT ... INTO is not allowed here"));
        }
        if !select.lateral_views.is_empty() || select.qualify.is_some() || select.top.is_some() {
            return Err(SqlError::unsupported("this clause of SELECT"));
        }
        if self.select_depth == SELECTS_NESTED_MAX {
            let message = format!("queries and views are nested in more than {SELECTS_NESTED_MAX} others");
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
        }
        self.select_depth += 1;
        self.scopes.push(Scope::default());
        let bound = self.select_inside(select, keys, first);
        self.scopes.pop();
        self.select_depth -= 1;
        bound
    }

    fn select_inside(
        &mut self,
        select: &ast::Select,
        order_by: &[ast::OrderByExpr],
        first: usize,
    ) -> Result<(Unordered, Vec<Column>)> {
        let mut from = From { width: first, ..From::default() };
        self.more_sources(&mut from, &select.from)?;
        let scope = self.scopes.last_mut().expect("a query has a scope");
        scope.aggregates = Some(Vec::new());
        scope.windows = Some(WindowScope::new(&select.named_window)?);
        scope.sets = Some(SetScope::default());
        let mut output = self.projection(&select.projection)?;
        let width = output.exprs.len();
        // After the results, as PostgreSQL does it, which shows in errors; aggregates are not allowed in it.
        let aggregates = self.scopes.last_mut().and_then(|scope| scope.aggregates.take());
        let filter = match &select.selection {
            Some(condition) => fold_condition(self.condition(condition, "WHERE")?, self.environment).conjuncts(),
            None => Vec::new(),
        };
        self.scopes.last_mut().expect("a query has a scope").aggregates = aggregates;
        let having = select.having.as_ref().map(|having| self.condition(having, "HAVING")).transpose()?;
        let mut order = Vec::new();
        for key in order_by {
            let results = Results { exprs: &output.exprs, columns: &output.columns };
            let at = match self.output_place(&key.expr, results, "ORDER BY")? {
                Some(at) => {
                    check_equality(output.columns[at].ty)?;
                    at
                }
                None => {
                    let typed = self.expr(&key.expr)?;
                    let (expr, ty) = self.settle(typed)?;
                    check_equality(ty)?;
                    match output.exprs.iter().position(|shown| *shown == expr) {
                        Some(at) => at,
                        None => {
                            output.exprs.push(expr);
                            output.exprs.len() - 1
                        }
                    }
                }
            };
            order.push(sort_key(at, &key.options)?);
        }
        let distinct = self.distinct_by(select.distinct.as_ref(), &mut output, width, &mut order)?;
        self.unused_windows()?;
        let mut windows = self.scopes.last_mut().expect("a query has a scope").take_windows();
        let aggregates = self.scopes.last_mut().and_then(|scope| scope.aggregates.take()).unwrap_or_default();
        if !aggregates.is_empty() {
            check_no_work_table(&from.sources)?;
        }
        let results = Results { exprs: &output.exprs, columns: &output.columns };
        let Keys { mut keys, mut sets } =
            self.without_windows("GROUP BY", |this| this.group_keys(&select.group_by, results))?;
        let is_ungrouped = keys.is_empty() && sets.len() == 1 && !has_group_by(&select.group_by);
        let groupings = self.grouping_places(&keys)?;
        let mut set_calls = self.scopes.last_mut().and_then(|scope| scope.sets.take()).unwrap_or_default();
        if !set_calls.is_empty() {
            set_calls.add_to_sources(&mut keys, &mut from, output.exprs.iter_mut());
        }
        let group = match is_ungrouped && aggregates.is_empty() && having.is_none() {
            true => None,
            false => {
                self.settle_output(&mut output)?;
                if let [set] = &mut sets[..] {
                    let own = keys.len();
                    let mut exprs = output.exprs.iter().chain(&having).chain(windows.exprs());
                    exprs.try_for_each(|expr| add_decided(&mut keys, expr, &from))?;
                    set.extend(own..keys.len());
                }
                let scope = self.scopes.last().expect("a query has a scope");
                let mut grouped = |expr| {
                    grouped(expr, &keys, scope).map_err(|error| place::at_ungrouped(error, exprs_of(select, order_by)))
                };
                let exprs = std::mem::take(&mut output.exprs);
                output.exprs = exprs.into_iter().map(&mut grouped).collect::<Result<_>>()?;
                windows.try_map(&mut grouped)?;
                set_calls.map_contained(&output.exprs, &mut grouped)?;
                let having = having.map(&mut grouped).transpose()?;
                Some(Group { keys, sets, groupings, aggregates, having })
            }
        };
        let Output { mut exprs, columns, untyped } = output;
        let width_below = group.as_ref().map_or(from.width, Group::width);
        let windows = windows.place(width_below, exprs.iter_mut().chain(set_calls.arguments_mut()));
        let width_below = if windows.is_empty() { width_below } else { windows.width() };
        let sets = set_calls.place(width_below, &mut exprs);
        let select = Select { group, windows, output: exprs, sets, untyped, distinct, ..Select::default() };
        Ok((Unordered { select, from, filter, order, width }, columns))
    }

    /// Makes results that have no type yet texts.
    fn settle_output(&mut self, output: &mut Output) -> Result<()> {
        for at in std::mem::take(&mut output.untyped) {
            let expr = std::mem::replace(&mut output.exprs[at], Expr::TRUE);
            output.exprs[at] = self.take(Typed { expr, ty: None, modifier: -1 }, SqlType::TEXT, -1)?;
        }
        Ok(())
    }

    /// Binds the items of a projection.
    fn projection(&mut self, items: &[SelectItem]) -> Result<Output> {
        let mut output = Output::default();
        for item in items {
            match item {
                SelectItem::UnnamedExpr(expr) => match starred(expr) {
                    Some((row, star)) => self.star_of_row(&mut output, &row, star)?,
                    None => self.item(&mut output, expr, name_of_item(expr))?,
                },
                SelectItem::ExprWithAlias { expr, alias } => self.item(&mut output, expr, name_of(alias))?,
                SelectItem::Wildcard(star) => self.all_columns(&mut output, None, star)?,
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(of), star) => {
                    let name = relation_of(of)?.1;
                    self.all_columns(&mut output, Some(&name), star).map_err(|error| place::at_name(error, of))?;
                }
                other => return Err(SqlError::unsupported(format_args!("{other} in a list of results"))),
            }
            check_width(output.exprs.len())?;
        }
        Ok(output)
    }

    fn item(&mut self, output: &mut Output, expr: &ast::Expr, name: String) -> Result<()> {
        let (typed, collation) = self.collated(|this| this.expr(expr))?;
        let modifier = typed.modifier;
        let source = match &typed.expr {
            Expr::Column(at) => {
                self.scopes.last().and_then(|scope| scope.columns.iter().find(|column| column.at == *at))
            }
            _ => None,
        };
        let source = source.map_or((0, 0), |column| column.origin);
        if typed.ty.is_none() {
            output.untyped.push(output.exprs.len());
        }
        let fields = self.fields_of(&typed);
        output.exprs.push(typed.expr);
        let ty = typed.ty.unwrap_or(SqlType::TEXT);
        output.columns.push(Column { name, ty, modifier, source, collation, fields });
        Ok(())
    }

    /// Binds `(row).*`.
    fn star_of_row(&mut self, output: &mut Output, row: &ast::Expr, star: Location) -> Result<()> {
        let (typed, collation) = self.collated(|this| this.expr(row))?;
        let columns = self.columns_of_record(typed)?;
        self.note_star_of_row(star, row, columns.iter().map(|(name, _)| &**name));
        for (name, value) in columns {
            let ty = value.ty.unwrap_or(SqlType::TEXT);
            let fields = self.fields_of(&value);
            output.exprs.push(value.expr);
            output.columns.push(Column { collation, fields, ..Column::new(name, ty) });
        }
        Ok(())
    }

    fn all_columns(
        &mut self,
        output: &mut Output,
        source: Option<&str>,
        star: &ast::WildcardAdditionalOptions,
    ) -> Result<()> {
        let scope = self.scopes.last().expect("a query has a scope");
        if let Some(source) = source.filter(|source| !scope.sources.iter().any(|own| own == source)) {
            // The grammar leaves out the parentheses of `(row).*`.
            if scope.columns.iter().any(|column| column.name == source && column.ty == SqlType::RECORD) {
                let row = ast::Expr::Identifier(ident(source));
                return self.star_of_row(output, &row, star.wildcard_token.0.span.start);
            }
            let message = format!("missing FROM-clause entry for table \"{source}\"");
            return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
        }
        if scope.sources.is_empty() {
            let message = "SELECT * with no tables specified is not valid";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let is_meant = |at: &usize| match source {
            Some(source) => scope.sources[scope.columns[*at].source] == source,
            None => !scope.columns[*at].is_merged,
        };
        let is_shown = |at: &usize| is_meant(at) && !scope.columns[*at].is_system;
        let mut meant: Vec<_> = (0..scope.columns.len()).filter(is_shown).collect();
        if source.is_some() {
            // In the order of their source, whatever joins made of it.
            meant.sort_by_key(|at| scope.columns[*at].number);
        }
        let columns: Vec<ScopeColumn> = meant.iter().map(|at| scope.columns[*at].clone()).collect();
        self.note_star(star.wildcard_token.0.span.start, &meant);
        for column in columns {
            self.note_use(column.origin);
            output.exprs.push(Expr::Column(column.at));
            let (name, ty, modifier, source) = (column.name.clone(), column.ty, column.modifier, column.origin);
            let (collation, fields) = (column.collation, column.fields);
            output.columns.push(Column { name, ty, modifier, source, collation, fields });
        }
        Ok(())
    }

    /// Binds the expressions returned for the rows that a statement writes.
    pub(super) fn returning(&mut self, items: &[SelectItem]) -> Result<(Vec<Expr>, Vec<Column>)> {
        let mut output = self.without_rows("RETURNING", |this| this.projection(items))?;
        self.settle_output(&mut output)?;
        if output.exprs.iter().any(Expr::has_query) {
            return Err(SqlError::unsupported("a query in RETURNING"));
        }
        named_values(&mut output.exprs, &mut output.columns);
        Ok((output.exprs, output.columns))
    }

    /// Returns the place among the results that ORDER BY or GROUP BY refers to by a number or a name.
    pub(super) fn output_place(
        &mut self,
        expr: &ast::Expr,
        results: Results<'_>,
        clause: &str,
    ) -> Result<Option<usize>> {
        let columns = results.columns;
        match expr {
            ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Placeholder(_), .. }) => Ok(None),
            ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Number(digits, _), .. })
                if digits.bytes().all(|digit| digit.is_ascii_digit()) =>
            {
                let place = digits.parse::<usize>().ok().filter(|place| (1..=columns.len()).contains(place));
                let missing = || {
                    let message = format!("{clause} position {digits} is not in select list");
                    place::at_expr(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message), expr)
                };
                place.map(|place| Some(place - 1)).ok_or_else(missing)
            }
            ast::Expr::Value(_) => {
                let message = format!("non-integer constant in {clause}");
                Err(place::at_expr(SqlError::new(SqlState::SYNTAX_ERROR, message), expr))
            }
            ast::Expr::Identifier(ident) => {
                let name = name_of(ident);
                let mut found = columns.iter().enumerate().filter(|(_, column)| column.name == name);
                let first = found.next().map(|(at, _)| at);
                let value = |at: usize| results.exprs.get(at);
                let is_same = |at: usize| match (first.and_then(value), value(at)) {
                    // Two calls of a volatile function are written alike.
                    (Some(left), Some(right)) => left == right || left.is_volatile() || left.has_query(),
                    _ => false,
                };
                if found.any(|(at, _)| !is_same(at)) {
                    let message = format!("{clause} \"{name}\" is ambiguous");
                    return Err(place::at_ident(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message), ident));
                }
                Ok(first)
            }
            _ => Ok(None),
        }
    }

    /// Binds DISTINCT. The rows of DISTINCT ON are sorted by its expressions first, so that equal ones are adjacent.
    fn distinct_by(
        &mut self,
        distinct: Option<&AstDistinct>,
        output: &mut Output,
        width: usize,
        order: &mut Vec<SortKey>,
    ) -> Result<Distinct> {
        match distinct {
            None | Some(AstDistinct::All) => Ok(Distinct::No),
            Some(AstDistinct::Distinct) if output.exprs.len() > width => {
                let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
                Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message))
            }
            Some(AstDistinct::Distinct) => {
                output.columns.iter().try_for_each(|column| check_equality(column.ty))?;
                Ok(Distinct::Rows)
            }
            Some(AstDistinct::On(keys)) => {
                let mut places = Vec::new();
                for key in keys {
                    let results = Results { exprs: &output.exprs, columns: &output.columns };
                    if let Some(at) = self.output_place(key, results, "DISTINCT ON")? {
                        places.push(at);
                        continue;
                    }
                    let typed = self.expr(key)?;
                    let (expr, ty) = self.settle(typed)?;
                    check_equality(ty)?;
                    let known = output.exprs.iter().position(|shown| *shown == expr);
                    places.push(known.unwrap_or_else(|| {
                        output.exprs.push(expr);
                        output.exprs.len() - 1
                    }));
                }
                let leading = order.iter().take_while(|key| places.contains(&key.at)).count();
                let missing: Vec<_> =
                    places.iter().copied().filter(|at| order[..leading].iter().all(|key| key.at != *at)).collect();
                if leading < order.len() && !missing.is_empty() {
                    let message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
                    return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
                }
                for at in missing {
                    if order.iter().all(|key| key.at != at) {
                        order.push(SortKey { at, descending: false, nulls_first: false });
                    }
                }
                Ok(Distinct::On(places))
            }
        }
    }
}

/// Whether there is a GROUP BY, perhaps of the empty grouping set alone.
fn has_group_by(group: &GroupByExpr) -> bool {
    matches!(group, GroupByExpr::Expressions(items, _) if !items.is_empty())
}

pub(crate) fn is_descending(options: &ast::OrderByOptions) -> Result<bool> {
    match &options.sort {
        None | Some(OrderBySort::Asc) => Ok(false),
        Some(OrderBySort::Desc) => Ok(true),
        Some(OrderBySort::Using(operator)) => Err(SqlError::unsupported(format_args!("ORDER BY USING {operator}"))),
    }
}

fn sort_key(at: usize, options: &ast::OrderByOptions) -> Result<SortKey> {
    let descending = is_descending(options)?;
    Ok(SortKey { at, descending, nulls_first: options.nulls_first.unwrap_or(descending) })
}

/// Returns the name of a result without an alias.
fn name_of_item(expr: &ast::Expr) -> String {
    own_name(expr).map_or_else(|| "?column?".into(), |(name, _)| name)
}

/// Returns the name that an expression gives its result, if it gives one.
pub(crate) fn label_of(expr: &ast::Expr) -> Option<String> {
    own_name(expr).map(|(name, _)| name)
}

/// Returns the name that an expression gives its result, and whether an enclosing cast, or a CASE whose ELSE it is,
/// keeps that name.
fn own_name(expr: &ast::Expr) -> Option<(String, bool)> {
    let kept = |name: &str| Some((name.to_owned(), true));
    let of_type = |ty: &ast::DataType| Some((super::names::type_label(ty)?, false));
    match expr {
        ast::Expr::Identifier(ident) => kept(&name_of(ident)),
        ast::Expr::CompoundIdentifier(idents) => kept(&idents.last().map(name_of).unwrap_or_default()),
        ast::Expr::CompoundFieldAccess { root, access_chain } => {
            let names = access_chain.iter().rev().find_map(|place| match place {
                ast::AccessExpr::Dot(ast::Expr::Identifier(name)) => Some(name_of(name)),
                _ => None,
            });
            names.map_or_else(|| own_name(root), |name| kept(&name))
        }
        ast::Expr::Function(function) => kept(&relation_of(&function.name).ok()?.1),
        ast::Expr::Nested(inner) | ast::Expr::Collate { expr: inner, .. } => own_name(inner),
        ast::Expr::Cast { expr, data_type, .. } => match own_name(expr) {
            Some((name, true)) => kept(&name),
            _ => of_type(data_type),
        },
        ast::Expr::TypedString(typed) => of_type(&typed.data_type),
        ast::Expr::Interval(_) => Some(("interval".into(), false)),
        ast::Expr::BinaryOp { op: ast::BinaryOperator::Overlaps, .. } => Some(("overlaps".into(), false)),
        ast::Expr::Case { else_result, .. } => match else_result.as_deref().and_then(own_name) {
            Some((name, true)) => kept(&name),
            _ => Some(("case".into(), false)),
        },
        ast::Expr::Subquery(query) => kept(&name_of_query(&query.body)),
        ast::Expr::Exists { negated: false, .. } => kept("exists"),
        ast::Expr::Array(_) => kept("array"),
        ast::Expr::Tuple(_) => kept("row"),
        ast::Expr::AtTimeZone { .. } => kept("timezone"),
        ast::Expr::Extract { .. } => kept("extract"),
        ast::Expr::Substring { shorthand: true, .. } => kept("substr"),
        ast::Expr::Substring { .. } => kept("substring"),
        ast::Expr::Position { .. } => kept("position"),
        ast::Expr::Overlay { .. } => kept("overlay"),
        ast::Expr::Ceil { .. } => kept("ceil"),
        ast::Expr::Floor { .. } => kept("floor"),
        ast::Expr::Trim { trim_where, .. } => kept(match trim_where {
            Some(ast::TrimWhereField::Leading) => "ltrim",
            Some(ast::TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }),
        _ => None,
    }
}

/// Returns the name of the only result of a query.
fn name_of_query(body: &SetExpr) -> String {
    match body {
        SetExpr::Select(select) => match &select.projection[..] {
            [SelectItem::ExprWithAlias { alias, .. }] => name_of(alias),
            [SelectItem::UnnamedExpr(expr)] => name_of_item(expr),
            _ => "?column?".into(),
        },
        SetExpr::Query(query) => name_of_query(&query.body),
        SetExpr::SetOperation { left, .. } => name_of_query(left),
        SetExpr::Values(_) => "column1".into(),
        _ => "?column?".into(),
    }
}
