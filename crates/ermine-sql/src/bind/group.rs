//! Groups: which query an aggregate belongs to, and expressions on the rows of groups.
//!
//! An aggregate belongs to the innermost query whose columns it refers to; one that refers to no column, to the query
//! that contains it. So an aggregate in a subquery may belong to an outer query: it is computed there, over that
//! query's rows, and is a value like a column in the subquery.
//!
//! The row of a group consists of the keys of the group, the results of GROUPING, and the aggregates. Subqueries see
//! that row as their outer row.

use super::{
    Binder, Scope,
    rewrite::{rewrite, rewrite_inside},
    sets::refuse_sets,
    source::From,
    window::refuse_windows,
};
use crate::{
    error::{Result, SqlError, SqlState},
    expr::Expr,
    query::AggregateCall,
};

/// The levels of the queries that an expression refers to: 0 is the query that contains it.
#[derive(Default)]
struct Levels {
    columns: Option<usize>,
    aggregates: Option<usize>,
}

impl Levels {
    fn add(to: &mut Option<usize>, level: usize) {
        *to = Some(to.map_or(level, |known| known.min(level)));
    }

    fn look_at(&mut self, expr: &Expr) -> Result<()> {
        // Nothing is changed: rewriting is the only traversal of all expressions of a query.
        rewrite(expr.clone(), 0, &mut |expr, depth| {
            match &expr {
                Expr::Column(_) if depth == 0 => Self::add(&mut self.columns, 0),
                Expr::Outer(level, _) if *level >= depth => Self::add(&mut self.columns, level - depth),
                Expr::Aggregate(_) | Expr::Grouping(_) if depth == 0 => Self::add(&mut self.aggregates, 0),
                Expr::OuterAggregate(level, _) if *level >= depth => Self::add(&mut self.aggregates, level - depth),
                _ => {}
            }
            Ok(expr)
        })
        .map(drop)
    }
}

impl Binder<'_> {
    /// Assigns an aggregate, bound where it occurs, to the query that it belongs to.
    pub(super) fn place_aggregate(&mut self, mut call: AggregateCall) -> Result<Expr> {
        let misplaced = |message: &str| SqlError::new(SqlState::GROUPING_ERROR, message);
        refuse_windows(call.exprs(), || misplaced("aggregate function calls cannot contain window function calls"))?;
        refuse_sets(call.exprs(), "aggregate function")?;
        let mut levels = Levels::default();
        call.exprs().try_for_each(|expr| levels.look_at(expr))?;
        let level = levels.columns.into_iter().chain(levels.aggregates).min().unwrap_or(0);
        if levels.aggregates == Some(level) {
            return Err(misplaced("aggregate function calls cannot be nested"));
        }
        let owner = self.scopes.len().checked_sub(level + 1).and_then(|at| self.scopes.get_mut(at));
        let clause = owner.as_ref().map_or("", |scope| scope.clause);
        let Some(aggregates) = owner.and_then(|scope| scope.aggregates.as_mut()) else {
            let place = if clause.is_empty() { "here".into() } else { format!("in {clause}") };
            return Err(misplaced(&format!("aggregate functions are not allowed {place}")));
        };
        if level > 0 {
            for expr in call.exprs_mut() {
                *expr = rewrite(std::mem::replace(expr, Expr::TRUE), 0, &mut |expr, depth| {
                    Ok(match expr {
                        Expr::Outer(own, at) if own == level && depth == 0 => Expr::Column(at),
                        Expr::Outer(own, at) if own >= depth + level => Expr::Outer(own - level, at),
                        Expr::OuterAggregate(own, at) if own >= depth + level => Expr::OuterAggregate(own - level, at),
                        other => other,
                    })
                })?;
            }
        }
        let known = aggregates.iter().position(|known| *known == call);
        let at = known.unwrap_or_else(|| {
            aggregates.push(call);
            aggregates.len() - 1
        });
        Ok(if level == 0 { Expr::Aggregate(at) } else { Expr::OuterAggregate(level, at) })
    }
}

/// Adds the columns that an expression refers to and that the keys determine: those of a table whose whole primary key
/// is among the keys. This does not change the groups.
pub(super) fn add_decided(keys: &mut Vec<Expr>, expr: &Expr, from: &From) -> Result<()> {
    let is_decided = |keys: &[Expr], at: usize| {
        let is_key = |place: &usize| keys.contains(&Expr::Column(*place));
        from.keys.iter().any(|(columns, key)| columns.contains(&at) && key.iter().all(is_key))
    };
    rewrite(expr.clone(), 0, &mut |expr, depth| {
        let column = match &expr {
            Expr::Column(at) if depth == 0 => Some(*at),
            Expr::Outer(level, at) if *level == depth => Some(*at),
            _ => None,
        };
        if let Some(at) = column
            && !keys.contains(&Expr::Column(at))
            && is_decided(keys, at)
        {
            keys.push(Expr::Column(at));
        }
        Ok(expr)
    })
    .map(drop)
}

/// Converts an expression on the rows of a query to one on the rows of its groups.
pub(super) fn grouped(expr: Expr, keys: &[Expr], scope: &Scope) -> Result<Expr> {
    if let Some(at) = keys.iter().position(|key| *key == expr) {
        return Ok(Expr::Column(at));
    }
    match expr {
        Expr::Grouping(at) => return Ok(Expr::Column(keys.len() + at)),
        Expr::Aggregate(at) => return Ok(Expr::Column(keys.len() + scope.groupings.len() + at)),
        Expr::Column(at) => return Err(ungrouped(at, scope, "must appear in the GROUP BY clause")),
        _ => {}
    }
    let expr = expr.map(&mut |inner| grouped(inner, keys, scope))?;
    if !matches!(&expr, Expr::Subquery(subquery) if subquery.is_correlated) {
        return Ok(expr);
    }
    // The queries in it see the row of the group.
    rewrite_inside(expr, &mut |expr, depth| match expr {
        Expr::Outer(level, at) if level == depth => {
            let key = keys.iter().position(|key| *key == Expr::Column(at));
            let missing = || ungrouped(at, scope, "is used by a query inside: it must appear in the GROUP BY clause");
            Ok(Expr::Outer(level, key.ok_or_else(missing)?))
        }
        Expr::OuterAggregate(level, at) if level == depth => {
            Ok(Expr::Outer(level, keys.len() + scope.groupings.len() + at))
        }
        other => Ok(other),
    })
}

fn ungrouped(at: usize, scope: &Scope, what: &str) -> SqlError {
    let column = scope.columns.iter().find(|column| column.at == at);
    let name = column.map_or_else(String::new, |column| match &*scope.sources[column.source] {
        "" => column.name.clone(),
        source => format!("{source}.{}", column.name),
    });
    let message = format!("column \"{name}\" {what} or be used in an aggregate function");
    SqlError::new(SqlState::GROUPING_ERROR, message)
}
