//! The queries of WITH, and recursive ones.
//!
//! A recursive query is a union of a query that does not refer to it, and one that refers to it once: there it stands
//! for the rows that the run before returned ([`Body::WorkTable`]).

use std::{collections::HashMap, ops::ControlFlow, sync::Arc};

use sqlparser::ast::{
    self, JoinOperator, SetExpr, SetOperator, SetQuantifier, TableFactor, Visit, Visitor, visit_relations,
};

use super::{
    Binder, Named, Typed, check_equality,
    join_order::{is_volatile, uses_outer},
    names::{name_of, relation_of},
    pull_up::plain_select,
};
use crate::{
    error::{Result, SqlError, SqlState},
    expr::Expr,
    query::{Body, Query, Select, SetOperation, Source, SourceKind},
    result::Column,
    types::SqlType,
};

fn invalid(name: &str, what: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_RECURSION,
        format!("recursive reference to query \"{name}\" must not appear {what}"),
    )
}

impl Binder<'_> {
    /// Binds the queries of WITH, and adds their names.
    pub(super) fn with_queries(&mut self, body: &ast::Query, with: &ast::With) -> Result<()> {
        let mut uses: HashMap<String, usize> = HashMap::new();
        let _ = visit_relations(body, |name| {
            if let Ok((None, name)) = relation_of(name) {
                *uses.entry(name).or_default() += 1;
            }
            ControlFlow::<()>::Continue(())
        });
        for (at, table) in with.cte_tables.iter().enumerate() {
            let name = name_of(&table.alias.name);
            if with.cte_tables[..at].iter().any(|other| name_of(&other.alias.name) == name) {
                let message = format!("WITH query name \"{name}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message));
            }
        }
        let order = if with.recursive { dependency_order(with)? } else { (0..with.cte_tables.len()).collect() };
        for table in order.into_iter().map(|at| &with.cte_tables[at]) {
            let (before, name) = (self.expanded, name_of(&table.alias.name));
            let own = if with.recursive { References::of(&*table.query, &name).all } else { 0 };
            if self.part(table, own > 0)? {
                continue;
            }
            let (query, columns) = match own {
                0 => {
                    let (query, columns) = self.query(&table.query)?;
                    (query, renamed(columns, &table.alias)?)
                }
                _ => self.recursive_query(table, &name)?,
            };
            let others = uses.get(&name).map_or(0, |uses| uses.saturating_sub(own));
            let is_kept = is_volatile(&query) || others > 1;
            // In FROM of the query itself, the rows around are as far away as here.
            if uses_outer(&query, 1) && (is_kept || others > in_from(&body.body, &name)) {
                return Err(SqlError::unsupported("a WITH query that looks at rows around it, used here"));
            }
            if is_kept && uses_work_table(&query) {
                let what = "a WITH query of a recursive term that is used several times, or volatile,";
                return Err(SqlError::unsupported(what));
            }
            let expanded = std::mem::replace(&mut self.expanded, before) - before;
            let may_be_moved =
                own == 0 && !is_kept && !matches!(table.materialized, Some(ast::CteAsMaterialized::Materialized));
            let tree = plain_select(&table.query).filter(|_| may_be_moved).map(|_| Arc::new((*table.query).clone()));
            self.named.push(Named { name, query: Arc::new(query), columns, tree, is_kept, expanded });
        }
        Ok(())
    }

    /// Binds a query of WITH RECURSIVE that refers to itself.
    fn recursive_query(&mut self, table: &ast::Cte, name: &str) -> Result<(Query, Vec<Column>)> {
        let SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, left, right } = &*table.query.body else {
            let message = format!(
                "recursive query \"{name}\" does not have the form non-recursive-term UNION [ALL] recursive-term"
            );
            return Err(SqlError::new(SqlState::INVALID_RECURSION, message));
        };
        check_form(&table.query, left, right, name)?;
        let outside = self.named.len();
        if let Some(with) = &table.query.with {
            self.with_queries(&table.query, with)?;
        }
        let bound = self.recursion(table, name, *set_quantifier == SetQuantifier::All, left, right);
        self.named.truncate(outside);
        bound
    }

    fn recursion(
        &mut self,
        table: &ast::Cte,
        name: &str,
        all: bool,
        left: &SetExpr,
        right: &SetExpr,
    ) -> Result<(Query, Vec<Column>)> {
        let (mut first, columns) = self.body(left)?;
        for at in first.untyped().to_vec() {
            self.type_output(&mut first, at, SqlType::TEXT, -1)?;
        }
        let mut columns = renamed(columns, &table.alias)?;
        columns.iter_mut().for_each(|column| column.source = (0, 0));
        let (id, width) = (self.recursions, columns.len());
        self.recursions += 1;
        let query = |body| Query { body, order: Vec::new(), width, limit: None, offset: None, locks: Vec::new() };
        self.named.push(Named {
            name: name.to_owned(),
            query: Arc::new(query(Body::WorkTable(id))),
            columns: columns.clone(),
            tree: None,
            is_kept: false,
            expanded: 0,
        });
        let (mut next, others) = self.body(right)?;
        if others.len() != width {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "each UNION query must have the same number of columns"));
        }
        for (at, (column, other)) in columns.iter().zip(&others).enumerate() {
            if !all {
                check_equality(column.ty)?;
            }
            if next.untyped().contains(&at) {
                self.type_output(&mut next, at, column.ty, -1)?;
                continue;
            }
            let typed = [column.ty, other.ty].map(|ty| Typed::new(Expr::Column(at), ty));
            let (_, overall) = self.common(typed.into(), "UNION")?;
            if overall != column.ty || column.modifier != -1 && column.modifier != other.modifier {
                let message = format!(
                    "recursive query \"{name}\" column {} has type {} in non-recursive term but type {} overall",
                    at + 1,
                    column.ty.describe(column.modifier),
                    overall.name()
                );
                let hint = "Cast the output of the non-recursive term to the correct type.";
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).hint(hint));
            }
            self.change_output(&mut next, at, other.ty, overall)?;
        }
        let operation = SetOperation::Recursion(id);
        Ok((query(Body::Set { operation, all, sides: Box::new([first, next]) }), columns))
    }
}

/// Returns how often FROM of a query has a table of this name, outside of queries in it.
fn in_from(body: &SetExpr, name: &str) -> usize {
    fn in_joins(table: &ast::TableWithJoins, name: &str) -> usize {
        let joined = table.joins.iter().map(|join| &join.relation);
        [&table.relation].into_iter().chain(joined).map(|factor| in_factor(factor, name)).sum()
    }
    fn in_factor(factor: &TableFactor, name: &str) -> usize {
        match factor {
            TableFactor::Table { .. } => References::of(factor, name).all,
            TableFactor::NestedJoin { table_with_joins, .. } => in_joins(table_with_joins, name),
            _ => 0,
        }
    }
    match body {
        SetExpr::Select(select) => select.from.iter().map(|table| in_joins(table, name)).sum(),
        SetExpr::SetOperation { left, right, .. } => in_from(left, name) + in_from(right, name),
        _ => 0,
    }
}

/// Gives columns the names of an alias.
pub(super) fn renamed(mut columns: Vec<Column>, alias: &ast::TableAlias) -> Result<Vec<Column>> {
    let (there, wanted) = (columns.len(), alias.columns.len());
    if wanted > there {
        let name = name_of(&alias.name);
        let message = format!("WITH query \"{name}\" has {there} columns available but {wanted} columns specified");
        return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
    }
    for (column, name) in columns.iter_mut().zip(&alias.columns) {
        column.name = name_of(&name.name);
    }
    Ok(columns)
}

/// Returns the queries of WITH RECURSIVE in an order in which each comes behind those that it refers to.
fn dependency_order(with: &ast::With) -> Result<Vec<usize>> {
    let names: Vec<_> = with.cte_tables.iter().map(|table| name_of(&table.alias.name)).collect();
    let needs =
        |at: usize, other: usize| at != other && References::of(&*with.cte_tables[at].query, &names[other]).all > 0;
    let mut rest: Vec<usize> = (0..names.len()).collect();
    let mut order = Vec::with_capacity(rest.len());
    while !rest.is_empty() {
        let is_free = |at: &usize| rest.iter().all(|other| !needs(*at, *other));
        let Some(next) = rest.iter().position(is_free) else {
            let message = "mutual recursion between WITH items is not implemented";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        };
        order.push(rest.remove(next));
    }
    Ok(order)
}

/// The references to a query of WITH, by its name.
struct References<'n> {
    name: &'n str,
    all: usize,
    in_subqueries: usize,
    /// The number of queries around that have another query of this name.
    shadowed: usize,
    /// The number of queries in expressions around.
    subqueries: usize,
}

impl<'n> References<'n> {
    fn of(node: &impl Visit, name: &'n str) -> Self {
        let mut references = Self { name, all: 0, in_subqueries: 0, shadowed: 0, subqueries: 0 };
        let _ = node.visit(&mut references);
        references
    }

    fn is_shadow(&self, query: &ast::Query) -> bool {
        query.with.iter().flat_map(|with| &with.cte_tables).any(|table| name_of(&table.alias.name) == self.name)
    }
}

fn has_subquery(expr: &ast::Expr) -> bool {
    match expr {
        ast::Expr::Subquery(_) | ast::Expr::InSubquery { .. } | ast::Expr::Exists { .. } => true,
        ast::Expr::Function(function) => matches!(function.args, ast::FunctionArguments::Subquery(_)),
        _ => false,
    }
}

impl Visitor for References<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        self.shadowed += usize::from(self.is_shadow(query));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        self.shadowed -= usize::from(self.is_shadow(query));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        self.subqueries += usize::from(has_subquery(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        self.subqueries -= usize::from(has_subquery(expr));
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ast::ObjectName) -> ControlFlow<()> {
        if self.shadowed == 0 && relation_of(relation).is_ok_and(|(schema, own)| schema.is_none() && own == self.name) {
            self.all += 1;
            self.in_subqueries += usize::from(self.subqueries > 0);
        }
        ControlFlow::Continue(())
    }
}

/// Fails where a recursive query has another form than PostgreSQL accepts.
fn check_form(query: &ast::Query, left: &SetExpr, right: &SetExpr, name: &str) -> Result<()> {
    if query.with.as_ref().is_some_and(|with| References::of(with, name).all > 0) {
        return Err(invalid(name, "within a subquery"));
    }
    if References::of(left, name).all > 0 {
        return Err(invalid(name, "within its non-recursive term"));
    }
    check_places(right, name, None)?;
    let references = References::of(right, name);
    if references.in_subqueries > 0 {
        return Err(invalid(name, "within a subquery"));
    }
    if references.all > 1 {
        return Err(invalid(name, "more than once"));
    }
    let clauses = [
        ("ORDER BY", query.order_by.is_some()),
        ("LIMIT", query.limit_clause.is_some() || query.fetch.is_some()),
        ("FOR UPDATE/SHARE", !query.locks.is_empty()),
    ];
    if let Some((clause, _)) = clauses.iter().find(|(_, is_there)| *is_there) {
        let message = format!("{clause} in a recursive query is not implemented");
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    Ok(())
}

/// Fails where a recursive term refers to its query in a place where rows of a run would not be those of the whole.
fn check_places(body: &SetExpr, name: &str, within: Option<&str>) -> Result<()> {
    match body {
        SetExpr::Query(query) => check_places(&query.body, name, within),
        SetExpr::SetOperation { op, set_quantifier, left, right } => {
            let is_all = *set_quantifier == SetQuantifier::All;
            let (in_left, in_right) = match op {
                SetOperator::Intersect if is_all => (Some("within INTERSECT"), Some("within INTERSECT")),
                SetOperator::Except | SetOperator::Minus if is_all => (Some("within EXCEPT"), Some("within EXCEPT")),
                SetOperator::Except | SetOperator::Minus => (within, Some("within EXCEPT")),
                _ => (within, within),
            };
            check_places(left, name, in_left)?;
            check_places(right, name, in_right)
        }
        SetExpr::Select(select) => select.from.iter().try_for_each(|table| check_joins(table, name, within)),
        _ => Ok(()),
    }
}

fn check_joins(table: &ast::TableWithJoins, name: &str, within: Option<&str>) -> Result<()> {
    const OUTER: Option<&str> = Some("within an outer join");
    // A later join may fill up the rows of all sources before it.
    let fills_left = |join: &ast::Join| {
        matches!(join.join_operator, JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_))
    };
    let fills_right = |join: &ast::Join| {
        matches!(join.join_operator, JoinOperator::Left(_) | JoinOperator::LeftOuter(_) | JoinOperator::FullOuter(_))
    };
    let around = |from: usize| if table.joins[from..].iter().any(fills_left) { OUTER } else { within };
    check_factor(&table.relation, name, around(0))?;
    for (at, join) in table.joins.iter().enumerate() {
        check_factor(&join.relation, name, if fills_right(join) { OUTER } else { around(at + 1) })?;
    }
    Ok(())
}

fn check_factor(factor: &TableFactor, name: &str, within: Option<&str>) -> Result<()> {
    match (factor, within) {
        (TableFactor::Table { .. }, Some(within)) if References::of(factor, name).all > 0 => Err(invalid(name, within)),
        (TableFactor::Derived { subquery, .. }, _) => check_places(&subquery.body, name, within),
        (TableFactor::NestedJoin { table_with_joins, .. }, _) => check_joins(table_with_joins, name, within),
        _ => Ok(()),
    }
}

/// Whether a query reads the rows of the last run of a recursive query around it.
pub(super) fn uses_work_table(query: &Query) -> bool {
    let (mut read, mut own) = (Vec::new(), Vec::new());
    recursions(query, &mut read, &mut own);
    read.iter().any(|id| !own.contains(id))
}

/// Collects the recursive queries whose rows are read, and those that are inside.
fn recursions(query: &Query, read: &mut Vec<usize>, own: &mut Vec<usize>) {
    match &query.body {
        Body::WorkTable(id) => read.push(*id),
        Body::Returned(_) => {}
        Body::Set { operation, sides, .. } => {
            if let SetOperation::Recursion(id) = operation {
                own.push(*id);
            }
            sides.iter().for_each(|side| recursions(side, read, own));
        }
        Body::Select(select) => select.sources.iter().for_each(|source| match &source.kind {
            SourceKind::Derived(query) | SourceKind::Once(query) => recursions(query, read, own),
            SourceKind::Lateral(Expr::Subquery(subquery)) => recursions(&subquery.query, read, own),
            _ => {}
        }),
        Body::Values(_) => {}
    }
}

/// Fails for aggregates over the rows of a recursive query in its recursive term.
pub(super) fn check_no_work_table(sources: &[Source]) -> Result<()> {
    let is_work_table = |source: &Source| match &source.kind {
        SourceKind::Derived(query) => matches!(query.body, Body::WorkTable(_)),
        _ => false,
    };
    if !sources.iter().any(is_work_table) {
        return Ok(());
    }
    let message = "aggregate functions are not allowed in a recursive query's recursive term";
    Err(SqlError::new(SqlState::INVALID_RECURSION, message))
}

/// Keeps the rows of recursive queries in FROM that would be run several times: those behind another source, or all if
/// the query itself `is_repeated`.
pub(super) fn keep_recursions(select: &mut Select, is_repeated: bool) {
    for source in select.sources.iter_mut().skip(usize::from(!is_repeated)) {
        let SourceKind::Derived(query) = &source.kind else { continue };
        let (mut read, mut own) = (Vec::new(), Vec::new());
        recursions(query, &mut read, &mut own);
        if !own.is_empty() && read.iter().all(|id| own.contains(id)) && !uses_outer(query, 1) {
            source.kind = SourceKind::Once(query.clone());
        }
    }
}
