//! GROUP BY: keys, grouping sets, and GROUPING.

use sqlparser::ast::{self, GroupByExpr};

use super::{Binder, Typed, check_equality, window::refuse_windows};
use crate::{
    error::{Result, SqlError, SqlState},
    expr::Expr,
    result::Column,
    types::SqlType,
};

/// Maximum number of grouping sets of a query, as in PostgreSQL.
const SETS_MAX: usize = 4096;
/// Maximum number of elements of CUBE.
const CUBE_MAX: usize = 12;
/// Maximum number of arguments of GROUPING: its result has 31 bits.
const GROUPING_MAX: usize = 31;

/// The keys of GROUP BY, and its grouping sets.
pub(super) struct Keys {
    pub(super) keys: Vec<Expr>,
    /// The places of the keys of each set.
    pub(super) sets: Vec<Vec<usize>>,
}

/// The results of a query, which keys may refer to.
#[derive(Clone, Copy)]
pub(super) struct Results<'o> {
    pub(super) exprs: &'o [Expr],
    pub(super) columns: &'o [Column],
}

impl Binder<'_> {
    /// Binds GROUP BY.
    pub(super) fn group_keys(&mut self, group: &GroupByExpr, results: Results<'_>) -> Result<Keys> {
        let GroupByExpr::Expressions(items, modifiers) = group else {
            return Err(SqlError::unsupported("GROUP BY ALL"));
        };
        if !modifiers.is_empty() {
            return Err(SqlError::unsupported("GROUP BY with a modifier"));
        }
        let mut keys = Vec::new();
        let mut sets = vec![Vec::new()];
        for item in items {
            // Each set is combined with each one of the next item.
            let own = self.grouping_sets(item, &mut keys, results)?;
            if sets.len() * own.len() > SETS_MAX {
                let message = format!("too many grouping sets present (maximum {SETS_MAX})");
                return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
            }
            let combined = |set: &Vec<usize>| own.iter().map(|more| united([set, more])).collect::<Vec<_>>();
            sets = sets.iter().flat_map(combined).collect();
        }
        Ok(Keys { keys, sets })
    }

    /// Returns the grouping sets that an item of GROUP BY stands for.
    fn grouping_sets(
        &mut self,
        item: &ast::Expr,
        keys: &mut Vec<Expr>,
        results: Results<'_>,
    ) -> Result<Vec<Vec<usize>>> {
        Ok(match item {
            ast::Expr::GroupingSets(sets) => {
                let mut all = Vec::new();
                for set in sets {
                    match &set[..] {
                        [only] => all.extend(self.grouping_sets(only, keys, results)?),
                        set => all.push(self.grouping_set(set, keys, results)?),
                    }
                }
                all
            }
            ast::Expr::Rollup(elements) => {
                let elements = self.elements(elements, keys, results)?;
                (0..=elements.len()).rev().map(|count| united(&elements[..count])).collect()
            }
            ast::Expr::Cube(elements) => {
                let elements = self.elements(elements, keys, results)?;
                if elements.len() > CUBE_MAX {
                    let message = format!("CUBE is limited to {CUBE_MAX} elements");
                    return Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message));
                }
                let is_in = |set: usize, at: usize| set >> (elements.len() - 1 - at) & 1 == 1;
                let of = |set: usize| {
                    united(elements.iter().enumerate().filter(|(at, _)| is_in(set, *at)).map(|(_, element)| element))
                };
                (0..1 << elements.len()).rev().map(of).collect()
            }
            // In parentheses: the keys of one set.
            ast::Expr::Tuple(exprs) => vec![self.grouping_set(exprs, keys, results)?],
            // Inside GROUPING SETS the parser takes them for calls.
            ast::Expr::Function(function) if is_nested(function) => {
                return Err(SqlError::unsupported(format_args!("{} inside GROUPING SETS", function.name)));
            }
            key => vec![vec![self.group_key(key, keys, results)?]],
        })
    }

    fn elements(
        &mut self,
        elements: &[Vec<ast::Expr>],
        keys: &mut Vec<Expr>,
        results: Results<'_>,
    ) -> Result<Vec<Vec<usize>>> {
        elements.iter().map(|element| self.grouping_set(element, keys, results)).collect()
    }

    fn grouping_set(&mut self, set: &[ast::Expr], keys: &mut Vec<Expr>, results: Results<'_>) -> Result<Vec<usize>> {
        let places = set.iter().map(|key| self.group_key(key, keys, results)).collect::<Result<Vec<_>>>()?;
        Ok(united([&places]))
    }

    /// Binds a key, and returns its place.
    fn group_key(&mut self, key: &ast::Expr, keys: &mut Vec<Expr>, results: Results<'_>) -> Result<usize> {
        // A column takes precedence over a result of the same name.
        let as_column = match key {
            ast::Expr::Value(_) => None,
            key => self.expr(key).ok(),
        };
        let expr = match as_column {
            Some(typed) => {
                let (expr, ty) = self.settle(typed)?;
                check_equality(ty)?;
                expr
            }
            None => match self.output_place(key, results, "GROUP BY")? {
                Some(at) => {
                    check_equality(results.columns[at].ty)?;
                    results.exprs[at].clone()
                }
                None => {
                    let typed = self.expr(key)?;
                    self.settle(typed)?.0
                }
            },
        };
        let is_of_groups =
            |inner: &Expr| matches!(inner, Expr::Aggregate(_) | Expr::OuterAggregate(..) | Expr::Grouping(_));
        if expr.has(&is_of_groups) {
            return Err(SqlError::new(SqlState::GROUPING_ERROR, "aggregate functions are not allowed in GROUP BY"));
        }
        refuse_windows([&expr], || {
            SqlError::new(SqlState::WINDOWING_ERROR, "window functions are not allowed in GROUP BY")
        })?;
        Ok(keys.iter().position(|known| *known == expr).unwrap_or_else(|| {
            keys.push(expr);
            keys.len() - 1
        }))
    }

    /// Binds GROUPING.
    pub(super) fn grouping(&mut self, arguments: &[&ast::Expr]) -> Result<Typed> {
        if arguments.is_empty() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "GROUPING must have an argument"));
        }
        if arguments.len() > GROUPING_MAX {
            return Err(SqlError::new(SqlState::TOO_MANY_ARGUMENTS, "GROUPING must have fewer than 32 arguments"));
        }
        if self.scopes.last().is_none_or(|scope| scope.aggregates.is_none()) {
            return Err(SqlError::new(SqlState::GROUPING_ERROR, "grouping operations are not allowed here"));
        }
        let mut bound = Vec::new();
        for argument in arguments {
            let typed = self.apart(|this| this.expr(argument))?;
            bound.push(self.settle(typed)?.0);
        }
        let groupings = &mut self.scopes.last_mut().expect("it has been checked").groupings;
        let known = groupings.iter().position(|known| *known == bound);
        let at = known.unwrap_or_else(|| {
            groupings.push(bound);
            groupings.len() - 1
        });
        Ok(Typed::new(Expr::Grouping(at), SqlType::INT4))
    }

    /// Returns the places of the keys that the arguments of GROUPING are.
    pub(super) fn grouping_places(&self, keys: &[Expr]) -> Result<Vec<Vec<usize>>> {
        let missing = || {
            let message = "arguments to GROUPING must be grouping expressions of the associated query level";
            SqlError::new(SqlState::GROUPING_ERROR, message)
        };
        let place = |argument: &Expr| keys.iter().position(|key| key == argument).ok_or_else(missing);
        let calls = self.scopes.last().into_iter().flat_map(|scope| &scope.groupings);
        calls.map(|arguments| arguments.iter().map(place).collect()).collect()
    }
}

/// Returns the places of several sets, each once.
fn united<'s>(sets: impl IntoIterator<Item = &'s Vec<usize>>) -> Vec<usize> {
    let mut places: Vec<usize> = sets.into_iter().flatten().copied().collect();
    places.sort_unstable();
    places.dedup();
    places
}

fn is_nested(function: &ast::Function) -> bool {
    let name = function.name.to_string();
    ["rollup", "cube"].iter().any(|nested| name.eq_ignore_ascii_case(nested))
}
