//! Set-returning functions.
//!
//! In FROM they are sources. In results, ORDER BY, DISTINCT ON and GROUP BY a call stands for itself by its number
//! ([`Expr::Set`]) until the rows that it is run on are known; then it becomes the place of its result. The ones that
//! grouping keys contain are run on the rows of the sources, as the last of these.

use std::sync::Arc;

use sqlparser::ast;

use super::{Binder, Typed, source::From};
use crate::{
    error::{Result, SqlError, SqlState},
    expr::Expr,
    functions::{self, SetReturning},
    query::{
        Join, Source, SourceKind,
        sets::{SetCall, Sets},
    },
    result::Column,
    types::{SqlType, record::Field},
};

/// The set-returning functions of a query, while it is bound.
#[derive(Default)]
pub(super) struct SetScope {
    /// Each call, and how many others contain one another in its arguments, at most.
    calls: Vec<(SetCall, usize)>,
    /// The number of calls that were bound, equal ones among them.
    bound: usize,
}

/// Returns the levels of calls that an expression needs; none: it has no calls.
fn levels_of(expr: &Expr, calls: &[(SetCall, usize)]) -> usize {
    let mut levels = 0;
    expr.visit(&mut |inner| {
        if let Expr::Set(at) = inner {
            levels = levels.max(calls[*at].1 + 1);
        }
    });
    levels
}

fn fields_of(columns: &[Column]) -> Arc<[Field]> {
    columns.iter().map(|column| Field { name: column.name.as_str().into(), ty: column.ty }).collect()
}

/// Replaces calls by the places of their results.
fn placed(expr: Expr, places: &[Option<usize>]) -> Expr {
    match expr {
        Expr::Set(at) => places[at].map_or(expr, Expr::Column),
        expr => expr.map(&mut |inner| Ok(placed(inner, places))).expect("no change fails"),
    }
}

impl SetScope {
    /// Whether no call was bound.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns the columns of the records of a call.
    pub(super) fn fields_of(&self, at: usize) -> Option<Arc<[Field]>> {
        self.calls[at].0.record.clone()
    }

    /// Returns for each call whether these expressions contain it, or calls do that they contain.
    fn contained<'x>(&self, exprs: impl IntoIterator<Item = &'x Expr>) -> Vec<bool> {
        let mut contained = vec![false; self.calls.len()];
        let look_at = |expr: &Expr, contained: &mut Vec<bool>| {
            expr.visit(&mut |inner| {
                if let Expr::Set(at) = inner {
                    contained[*at] = true;
                }
            });
        };
        exprs.into_iter().for_each(|expr| look_at(expr, &mut contained));
        // A call comes behind those in its arguments.
        for at in (0..self.calls.len()).rev().filter(|at| contained[*at]).collect::<Vec<_>>() {
            self.calls[at].0.arguments.iter().for_each(|argument| look_at(argument, &mut contained));
        }
        contained
    }

    /// Takes calls out, by their levels, and makes all expressions refer to their results, from `first` on.
    fn place_some<'x>(
        &mut self,
        some: &[bool],
        first: usize,
        exprs: impl IntoIterator<Item = &'x mut Expr>,
    ) -> Vec<Vec<SetCall>> {
        let mut places = vec![None; self.calls.len()];
        let depth = self.calls.iter().zip(some).filter(|(_, is_meant)| **is_meant).map(|(call, _)| call.1 + 1).max();
        let mut levels = vec![Vec::new(); depth.unwrap_or(0)];
        let mut next = first;
        for (level, own) in levels.iter_mut().enumerate() {
            for at in (0..self.calls.len()).filter(|at| some[*at] && self.calls[*at].1 == level) {
                places[at] = Some(next);
                next += 1;
                own.push(at);
            }
        }
        let place = |expr: &mut Expr| *expr = placed(std::mem::replace(expr, Expr::TRUE), &places);
        self.arguments_mut().for_each(place);
        exprs.into_iter().for_each(place);
        let call = |at: usize| self.calls[at].0.clone();
        levels.into_iter().map(|own| own.into_iter().map(call).collect()).collect()
    }

    /// Makes sources of the calls that the grouping keys contain.
    pub(super) fn add_to_sources<'x>(
        &mut self,
        keys: &'x mut [Expr],
        from: &mut From,
        others: impl Iterator<Item = &'x mut Expr>,
    ) {
        let contained = self.contained(&*keys);
        for calls in self.place_some(&contained, from.width, keys.iter_mut().chain(others)) {
            let (first, width) = (from.width, calls.len());
            from.width += width;
            let kind = SourceKind::Function { calls, is_numbered: false };
            from.sources.push(Source::new(first, width, kind, Join::Inner, String::new()));
        }
    }

    /// Converts the arguments of the calls that the results of a query contain.
    pub(super) fn map_contained(
        &mut self,
        output: &[Expr],
        change: &mut dyn FnMut(Expr) -> Result<Expr>,
    ) -> Result<()> {
        let contained = self.contained(output);
        for ((call, _), is_kept) in self.calls.iter_mut().zip(contained) {
            for argument in &mut call.arguments {
                let own = std::mem::replace(argument, Expr::TRUE);
                *argument = if is_kept { change(own)? } else { own };
            }
        }
        Ok(())
    }

    /// Returns all arguments, mutably.
    pub(super) fn arguments_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.calls.iter_mut().flat_map(|(call, _)| &mut call.arguments)
    }

    /// Places the results of the calls that the results of a query contain behind rows of this width.
    pub(super) fn place(mut self, first: usize, output: &mut [Expr]) -> Sets {
        let contained = self.contained(&*output);
        let levels = self.place_some(&contained, first, output);
        Sets { first, levels }
    }
}

/// Fails if an expression contains a set-returning function of its own query.
pub(super) fn refuse_sets<'x>(exprs: impl IntoIterator<Item = &'x Expr>, what: &str) -> Result<()> {
    if exprs.into_iter().any(|expr| expr.has(&|inner| matches!(inner, Expr::Set(_)))) {
        return Err(move_hint(&format!("{what} calls cannot contain set-returning function calls")));
    }
    Ok(())
}

/// Fails if an operand contains a set-returning function, for an operator that takes none.
pub(super) fn refuse_set_operand(operand: &Typed, operator: &str) -> Result<()> {
    if !operand.expr.has(&|inner| matches!(inner, Expr::Set(_))) {
        return Ok(());
    }
    let message = format!("argument of {operator} must not return a set");
    Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
}

fn not_supported(message: &str) -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}

fn move_hint(message: &str) -> SqlError {
    not_supported(message).hint("You might be able to move the set-returning function into a LATERAL FROM item.")
}

impl Binder<'_> {
    /// Binds a call of a set-returning function, with bound values as arguments; returns it with its columns.
    pub(super) fn set_call(&mut self, name: &str, arguments: Vec<Typed>) -> Result<(SetCall, Vec<Column>)> {
        let arguments = match (name, arguments.is_empty()) {
            // The session knows them.
            ("pg_listening_channels", true) => vec![Typed::new(Expr::Channels, SqlType::TEXT.array())],
            ("pg_listening_channels", false) => {
                let message = "function pg_listening_channels does not take arguments";
                return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
            }
            _ => arguments,
        };
        let types: Vec<_> = arguments.iter().map(|argument| argument.ty).collect();
        let SetReturning { arguments: wanted, columns, is_strict, function, in_c } =
            functions::set_returning(name, &types)?;
        let values = arguments.into_iter().zip(wanted).map(|(argument, ty)| self.coerce(argument, ty));
        let arguments = values.collect::<Result<_>>()?;
        let eval = in_c.filter(|_| self.is_in_c()).unwrap_or(function);
        let columns: Vec<_> = columns.into_iter().map(|(own, ty)| Column::new(own.unwrap_or(name), ty)).collect();
        let width = columns.len();
        Ok((SetCall { name: name.into(), arguments, is_strict, eval, width, record: None }, columns))
    }

    /// Binds a call of a set-returning function in an expression.
    pub(super) fn set(&mut self, name: &str, arguments: &[&ast::Expr]) -> Result<Typed> {
        let arguments = arguments.iter().map(|argument| self.expr(argument)).collect::<Result<_>>()?;
        let (call, columns) = self.set_call(name, arguments)?;
        self.set_of_scope(call, &columns)
    }

    /// Binds `aclexplode` in an expression.
    pub(super) fn exploded_record(&mut self, arguments: &[&ast::Expr]) -> Result<Typed> {
        let [list] = arguments else {
            let message = format!("function aclexplode({} arguments) does not exist", arguments.len());
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
        };
        let (calls, columns) = self.exploded(list)?;
        let fields = fields_of(&columns);
        let column = |(call, column): (SetCall, Column)| self.set_of_scope(call, &[column]).map(|typed| typed.expr);
        let values = calls.into_iter().zip(columns).map(column).collect::<Result<_>>()?;
        Ok(Typed::new(Expr::Record(fields, values), SqlType::RECORD))
    }

    /// Adds a call to those of the query; several columns are one record.
    fn set_of_scope(&mut self, mut call: SetCall, columns: &[Column]) -> Result<Typed> {
        let Some(sets) = self.scopes.last_mut().and_then(|scope| scope.sets.as_mut()) else {
            return Err(self.misplaced_set());
        };
        let ty = match columns {
            [column] => column.ty,
            columns => {
                (call.width, call.record) = (1, Some(fields_of(columns)));
                SqlType::RECORD
            }
        };
        let level = call.arguments.iter().map(|argument| levels_of(argument, &sets.calls)).max().unwrap_or(0);
        sets.bound += 1;
        let known = sets.calls.iter().position(|(known, _)| *known == call);
        let at = known.unwrap_or_else(|| {
            sets.calls.push((call, level));
            sets.calls.len() - 1
        });
        Ok(Typed::new(Expr::Set(at), ty))
    }

    fn misplaced_set(&self) -> SqlError {
        match self.scopes.last().map_or("", |scope| scope.clause) {
            "" => not_supported("set-returning functions are not allowed here"),
            "functions in FROM" => not_supported("set-returning functions must appear at top level of FROM"),
            clause => not_supported(&format!("set-returning functions are not allowed in {clause}")),
        }
    }

    /// Binds what may contain no set-returning function, because it decides what is evaluated.
    pub(super) fn without_sets<T>(&mut self, what: &str, bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let count = |this: &Self| this.scopes.last().and_then(|scope| scope.sets.as_ref()).map_or(0, |sets| sets.bound);
        let before = count(self);
        let bound = bind(self)?;
        if count(self) > before {
            return Err(move_hint(&format!("set-returning functions are not allowed in {what}")));
        }
        Ok(bound)
    }
}
