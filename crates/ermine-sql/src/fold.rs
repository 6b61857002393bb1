//! Folds constants when a plan is made: PostgreSQL's `eval_const_expressions`.
//!
//! An expression of constants and immutable functions becomes its value, so its errors arise whether or not a row needs
//! it. Parts that constants make irrelevant are removed: strict functions with a NULL, unreachable branches of CASE and
//! COALESCE, operands behind FALSE in AND. These parts are neither folded nor run, so they cannot fail. Stable and
//! volatile functions, parameters and queries are not constants.
//!
//! A statement is folded after it is bound, so that errors in names and types come before errors in values.

use std::{
    collections::{BTreeSet, HashMap},
    mem,
    sync::Arc,
};

use crate::{
    bind::{
        is_volatile,
        merge::When,
        parts::{Main, Parts, Write},
        write::{Change, Insert, InsertSource},
    },
    error::Result,
    expr::{Evaluator, Expr, Frame, Subquery, SubqueryKind},
    query::{Body, Distinct, Join, Query, Select, Source, SourceKind, window::Windows},
    types::{Environment, Value},
};

const NULL: Expr = Expr::Constant(Value::Null);

/// Folds a condition before its parts are moved to the places where they are checked: behind a FALSE they would all be
/// removed. If folding fails, the condition stays as it is, and fails with its plan. It also stays if a column of an
/// enclosing query would vanish: whether that query groups by the column has not been checked yet.
pub(crate) fn fold_condition(condition: Expr, environment: &Environment) -> Expr {
    if !condition.has(&|inner| matches!(inner, Expr::Constant(_))) {
        return condition;
    }
    match fold(condition.clone(), environment).map(as_condition) {
        Ok(folded) if outer_columns(&folded) == outer_columns(&condition) => folded,
        _ => condition,
    }
}

/// Folds a value; it stays as it is if that fails.
pub(crate) fn folded(expr: Expr, environment: &Environment) -> Expr {
    fold(expr.clone(), environment).unwrap_or(expr)
}

/// Drops parts that do not matter where NULL is as good as FALSE: PostgreSQL's `canonicalize_qual`. Queries in them are
/// not planned, so they cannot fail.
fn as_condition(condition: Expr) -> Expr {
    const FALSE: Expr = Expr::Constant(Value::Bool(false));
    match condition {
        Expr::Constant(Value::Null) => FALSE,
        Expr::And(conditions) => {
            let conditions: Vec<_> = conditions.into_iter().map(as_condition).collect();
            if conditions.contains(&FALSE) { FALSE } else { Expr::And(conditions) }
        }
        Expr::Or(conditions) => {
            let mut conditions: Vec<_> = conditions.into_iter().map(as_condition).collect();
            conditions.retain(|condition| *condition != FALSE);
            match conditions.len() {
                0 => FALSE,
                1 => conditions.remove(0),
                _ => Expr::Or(conditions),
            }
        }
        condition => condition,
    }
}

/// The columns of enclosing queries that an expression refers to, apart from those in its queries.
fn outer_columns(expr: &Expr) -> BTreeSet<(usize, usize)> {
    let mut found = BTreeSet::new();
    expr.visit(&mut |inner| {
        if let Expr::Outer(level, at) = inner {
            found.insert((*level, *at));
        }
    });
    found
}

/// Folds the expressions of the parts of a plan.
pub(crate) struct Folder<'e> {
    environment: &'e Environment,
    /// The queries that are folded already, by their originals: a query that is run once is identified by its address.
    queries: HashMap<*const Query, (Arc<Query>, Arc<Query>)>,
}

impl<'e> Folder<'e> {
    pub(crate) fn new(environment: &'e Environment) -> Self {
        Self { environment, queries: HashMap::new() }
    }

    fn expr(&mut self, expr: &mut Expr) -> Result<()> {
        let folded = fold(mem::replace(expr, NULL), self.environment)?;
        *expr = if folded.has_query() { self.queries_in(folded)? } else { folded };
        Ok(())
    }

    fn all<'x>(&mut self, exprs: impl IntoIterator<Item = &'x mut Expr>) -> Result<()> {
        exprs.into_iter().try_for_each(|expr| self.expr(expr))
    }

    /// Folds the queries in an expression.
    fn queries_in(&mut self, expr: Expr) -> Result<Expr> {
        let mut expr = expr.map(&mut |inner| self.queries_in(inner))?;
        if let Expr::Subquery(Subquery { query, kind, .. }) = &mut expr {
            self.shared(query, matches!(kind, SubqueryKind::Exists))?;
        }
        Ok(expr)
    }

    /// Folds a query that may occur in several places.
    fn shared(&mut self, query: &mut Arc<Query>, only_exists: bool) -> Result<()> {
        if let Some((_, folded)) = self.queries.get(&Arc::as_ptr(query)) {
            *query = folded.clone();
            return Ok(());
        }
        let mut folded = Query::clone(query);
        if only_exists {
            drop_output(&mut folded);
        }
        self.query(&mut folded)?;
        let folded = Arc::new(folded);
        let from = mem::replace(query, folded.clone());
        self.queries.insert(Arc::as_ptr(&from), (from, folded));
        Ok(())
    }

    pub(crate) fn query(&mut self, query: &mut Query) -> Result<()> {
        match &mut query.body {
            Body::Select(select) => self.select(select)?,
            Body::Values(rows) => self.all(rows.iter_mut().flatten())?,
            Body::WorkTable(_) | Body::Returned(_) => {}
            Body::Set { sides, .. } => sides.iter_mut().try_for_each(|side| self.query(side))?,
        }
        self.all(query.limit.iter_mut().chain(&mut query.offset))
    }

    fn select(&mut self, select: &mut Select) -> Result<()> {
        select.each_expr(&mut |expr| self.expr(expr))?;
        if let Some(group) = &mut select.group
            && let Some(having) = group.having.take()
        {
            // Where a condition that is the same for all groups does not hold there are none, and no row is read. A
            // group without keys exists even without rows: it still has to meet the condition.
            let differs = |inner: &Expr| match inner {
                Expr::Column(_) => true,
                // PostgreSQL evaluates the others before it reads a row.
                Expr::Subquery(Subquery { query, kind, is_correlated }) => {
                    *is_correlated
                        || matches!(kind, SubqueryKind::Holds { .. } | SubqueryKind::Row { .. })
                        || is_volatile(query)
                }
                _ => false,
            };
            let is_same = |condition: &Expr| !condition.is_volatile() && !condition.has(&differs);
            let (before, having): (Vec<_>, Vec<_>) = having.conjuncts().into_iter().partition(is_same);
            let kept = if group.has_whole() { before.clone() } else { Vec::new() };
            let having: Vec<_> = kept.into_iter().chain(having).collect();
            select.before.splice(0..0, before);
            group.having = (!having.is_empty()).then_some(Expr::And(having));
        }
        let never_holds = |expr: &Expr| matches!(expr, Expr::Constant(Value::Bool(false) | Value::Null));
        let has_no_rows = |source: &Source| {
            let hashed = source.hash.iter().flat_map(|hash| &hash.filter);
            let on = source.on.iter().chain(hashed).filter(|_| source.join == Join::Inner);
            source.filter.iter().chain(on).any(never_holds)
        };
        if select.before.iter().any(never_holds) || select.sources.iter().any(has_no_rows) {
            // Other conditions are not evaluated.
            select.before.insert(0, Expr::Constant(Value::Bool(false)));
        }
        for source in &mut select.sources {
            if let SourceKind::Derived(query) | SourceKind::Once(query) = &mut source.kind {
                self.shared(query, false)?;
            }
        }
        Ok(())
    }

    pub(crate) fn insert(&mut self, insert: &mut Insert) -> Result<()> {
        match &mut insert.source {
            InsertSource::Rows(rows) => self.all(rows.iter_mut().flatten())?,
            InsertSource::Query(query, row) => {
                self.query(query)?;
                self.all(row)?;
            }
        }
        if let Some(update) = insert.conflict.as_mut().and_then(|conflict| conflict.update.as_mut()) {
            self.all(update.assignments.iter_mut().map(|(_, expr)| expr).chain(&mut update.condition))?;
        }
        self.all(insert.returning.iter_mut().flatten())
    }

    pub(crate) fn parts(&mut self, parts: &mut Parts) -> Result<()> {
        parts.parts.iter_mut().try_for_each(|part| self.write(&mut part.write))?;
        match &mut parts.main {
            Main::Query(query) => self.query(query),
            Main::Write(write) => self.write(write),
        }
    }

    fn write(&mut self, write: &mut Write) -> Result<()> {
        match write {
            Write::Insert(insert) => self.insert(insert),
            Write::Update(change) | Write::Delete(change) => self.change(change),
            Write::Merge(merge) => {
                self.all(merge.clauses.iter_mut().flat_map(When::exprs_mut))?;
                self.query(&mut merge.rows)
            }
        }
    }

    pub(crate) fn change(&mut self, change: &mut Change) -> Result<()> {
        self.all(change.assignments.iter_mut().flatten().map(|(_, expr)| expr))?;
        self.all(change.returning.iter_mut().flatten())?;
        self.query(&mut change.rows)
    }
}

/// Drops the results of a query of which only the existence of rows matters: they are never read.
fn drop_output(query: &mut Query) {
    let is_limited = query.limit.is_some() || query.offset.is_some() || !query.locks.is_empty();
    if let Body::Select(select) = &mut query.body
        && !is_limited
        && select.group.is_none()
        && select.sets.is_empty()
    {
        select.output.clear();
        select.windows = Windows::default();
        select.distinct = Distinct::No;
        query.order.clear();
        query.width = 0;
    }
}

/// Evaluates without a run: constants alone.
struct Constants<'e>(&'e Environment);

impl Evaluator for Constants<'_> {
    fn environment(&self) -> &Environment {
        self.0
    }

    fn parameter(&self, _: usize) -> &Value {
        unreachable!("a parameter is no constant")
    }

    fn ask<'a>(&'a self, _: &'a Expr, _: &Frame<'a>) -> Result<Value> {
        unreachable!("what asks the database is no constant")
    }
}

/// Folds an expression, but not the queries in it.
fn fold(expr: Expr, environment: &Environment) -> Result<Expr> {
    match expr {
        Expr::And(conditions) => connect(conditions, false, environment),
        Expr::Or(conditions) => connect(conditions, true, environment),
        Expr::Case(conditions, otherwise) => case(conditions, *otherwise, environment),
        Expr::Coalesce(operands) => coalesce(operands, environment),
        Expr::Rows(comparisons) => {
            // The sides of a pair are evaluated even if one of them is NULL: the comparisons are not folded. The whole
            // left row comes first, which shows in errors.
            let fold_side = |comparison: Expr, side: usize| {
                let mut sides = 0..;
                comparison.map(&mut |inner| match sides.next() == Some(side) {
                    true => fold(inner, environment),
                    false => Ok(inner),
                })
            };
            let left =
                comparisons.into_iter().map(|comparison| fold_side(comparison, 0)).collect::<Result<Vec<_>>>()?;
            Ok(Expr::Rows(left.into_iter().map(|comparison| fold_side(comparison, 1)).collect::<Result<_>>()?))
        }
        Expr::Element(mut operands) => {
            // The subscripts come before the array, which shows in errors.
            operands.rotate_left(1);
            let mut folded = operands.into_iter().map(|inner| fold(inner, environment)).collect::<Result<Vec<_>>>()?;
            folded.rotate_right(1);
            simplify(Expr::Element(folded), environment)
        }
        leaf @ (Expr::Constant(_) | Expr::Column(_) | Expr::Parameter(_)) => Ok(leaf),
        expr => simplify(expr.map(&mut |inner| fold(inner, environment))?, environment),
    }
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Constant(Value::Null))
}

/// Evaluates an expression whose operands are folded, if they determine its value.
fn simplify(expr: Expr, environment: &Environment) -> Result<Expr> {
    let children = expr.children();
    let has_null = children.iter().any(|child| is_null(child));
    let is_constant = match &expr {
        Expr::Call(..) | Expr::Array(..) | Expr::Record(..) => true,
        _ => !children.is_empty(),
    } && children.iter().all(|child| matches!(child, Expr::Constant(_)));
    if has_null && is_strict(&expr) {
        return Ok(NULL);
    }
    if is_constant && expr.is_own_immutable() {
        let value = expr.eval(&Frame { row: &[], outer: None }, &Constants(environment))?.into_owned();
        // A plan keeps no large values: they are computed when needed.
        return Ok(if value.is_large() { expr } else { Expr::Constant(value) });
    }
    Ok(match expr {
        Expr::NullIf(_, operands) if has_null => {
            let [left, _] = *operands;
            left
        }
        Expr::Distinct(operands) if has_null => {
            let [left, right] = *operands;
            Expr::Not(Box::new(Expr::IsNull(Box::new(if is_null(&left) { right } else { left }))))
        }
        expr => expr,
    })
}

/// Whether an expression is NULL if one of its operands is.
pub(crate) fn is_strict(expr: &Expr) -> bool {
    match expr {
        Expr::Binary(..) | Expr::Prefix(..) | Expr::Compare(..) | Expr::Cast(..) | Expr::Not(_) => true,
        Expr::Call(function, _) => function.is_strict,
        Expr::Lookup(function, _) => function.is_strict,
        _ => false,
    }
}

/// Folds AND, or OR where `decisive` is true. Conditions behind the deciding value are dropped.
fn connect(conditions: Vec<Expr>, decisive: bool, environment: &Environment) -> Result<Expr> {
    let (mut rest, mut has_null) = (Vec::new(), false);
    for condition in conditions {
        match fold(condition, environment)? {
            Expr::Constant(Value::Bool(truth)) if truth == decisive => {
                return Ok(Expr::Constant(Value::Bool(decisive)));
            }
            Expr::Constant(Value::Bool(_)) => {}
            Expr::Constant(Value::Null) => has_null = true,
            condition => rest.push(condition),
        }
    }
    if has_null {
        rest.push(NULL);
    }
    Ok(match rest.len() {
        0 => Expr::Constant(Value::Bool(!decisive)),
        1 => rest.remove(0),
        _ if decisive => Expr::Or(rest),
        _ => Expr::And(rest),
    })
}

fn case(conditions: Vec<(Expr, Expr)>, otherwise: Expr, environment: &Environment) -> Result<Expr> {
    let mut rest = Vec::new();
    let mut last = otherwise;
    for (condition, result) in conditions {
        match fold(condition, environment)? {
            Expr::Constant(Value::Bool(true)) => {
                last = result;
                break;
            }
            Expr::Constant(_) => {}
            condition => rest.push((condition, fold(result, environment)?)),
        }
    }
    let last = fold(last, environment)?;
    Ok(if rest.is_empty() { last } else { Expr::Case(rest, Box::new(last)) })
}

fn coalesce(operands: Vec<Expr>, environment: &Environment) -> Result<Expr> {
    let mut rest = Vec::new();
    for operand in operands {
        match fold(operand, environment)? {
            Expr::Constant(Value::Null) => {}
            Expr::Constant(value) => {
                rest.push(Expr::Constant(value));
                break;
            }
            operand => rest.push(operand),
        }
    }
    Ok(match rest.len() {
        0 => NULL,
        1 => rest.remove(0),
        _ => Expr::Coalesce(rest),
    })
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Instant};

    use ermine::{Database, Options};

    use crate::{error::SqlState, result::RowSet, session::SqlDatabase};

    /// A plan keeps the errors of its statement, but no cancellation.
    #[test]
    fn folding_that_was_cancelled_is_tried_again() {
        let database = Arc::new(Database::open_in_memory(Options::default()).unwrap());
        let database = SqlDatabase::open(database).unwrap();
        let mut session = database.session("tester", "test");
        let text = format!("SELECT length(upper('{}'))", "x".repeat(40 << 10));
        session.environment.interrupt.deadline = Some(Instant::now());
        assert_eq!(session.prepare(&text, &[]).err().map(|error| error.state()), Some(SqlState::QUERY_CANCELED));
        session.environment.interrupt.deadline = None;
        let mut rows = RowSet::default();
        session.run(&text, &mut rows).unwrap();
        assert_eq!(rows.texts(), [["40960"]]);
        assert!(session.prepare("SELECT 1 / 0", &[]).is_ok());
    }
}
