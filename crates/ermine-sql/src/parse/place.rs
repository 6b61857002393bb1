//! Places of errors about names: the character of a statement's text to which a client points.
//!
//! The binder has trees, and no text: it notes a line and a column in the error, the innermost expression first, and
//! the session turns them into a position when the statement has failed. Trees that the catalog stores were made from
//! other texts; errors in them are nowhere.
//!
//! All of it is cold, and apart from the functions that bind: their frames are many on the stack.

use std::ops::ControlFlow;

use sqlparser::{
    ast::{
        self, BinaryOperator, DataType, Ident, ObjectName, ObjectNamePart, Spanned as _, UnaryOperator, Visit, Visitor,
        visit_expressions,
    },
    tokenizer::Location,
};

use super::position;
use crate::{
    error::{Place, SqlError, SqlState},
    functions,
};

/// Gives an error about a name its place.
#[cold]
#[inline(never)]
pub(crate) fn at_name(error: SqlError, name: &ObjectName) -> SqlError {
    match name.0.first() {
        Some(ObjectNamePart::Identifier(first)) => at_ident(error, first),
        _ => error,
    }
}

/// Gives an error about a name without dots its place.
#[cold]
#[inline(never)]
pub(crate) fn at_ident(error: SqlError, name: &Ident) -> SqlError {
    at_location(error, name.span.start)
}

/// Gives an error its place.
#[cold]
#[inline(never)]
pub(crate) fn at_location(error: SqlError, place: Location) -> SqlError {
    error.placed(here(place))
}

/// Gives an error about a whole expression its place.
#[cold]
#[inline(never)]
pub(crate) fn at_expr(error: SqlError, expr: &ast::Expr) -> SqlError {
    at_location(error, expr.span().start)
}

/// Gives an error about a literal in a statement its place, unless an expression has done so. The catalog may have made
/// trees of its own of parts of the statement.
#[cold]
#[inline(never)]
pub(crate) fn in_statement(error: SqlError, statement: &impl Visit) -> SqlError {
    // An error about the value of a row quotes nothing, or another text.
    let quotes = error.report().message.contains('"');
    if !quotes || !is_about_literal(&error) || error.place().is_some_and(|place| *place != Place::NOWHERE) {
        return error;
    }
    match place_of_literal(&error, statement) {
        Some(place) => error.placed_anew(place),
        None => error,
    }
}

/// Gives an error about a column that is not grouped the place of the first of some expressions that refers to it
/// outside of aggregates.
#[cold]
#[inline(never)]
pub(crate) fn at_ungrouped<'a>(error: SqlError, exprs: impl Iterator<Item = &'a ast::Expr>) -> SqlError {
    if error.state() != SqlState::GROUPING_ERROR || error.place().is_some() {
        return error;
    }
    let Some(column) = error.report().message.split('"').nth(1) else { return error };
    let mut finding = FindUngrouped { column: column.to_lowercase(), inside: 0 };
    let found = exprs.map(|expr| expr.visit(&mut finding)).find_map(ControlFlow::break_value);
    error.placed(found.map_or(Place::NOWHERE, here))
}

/// Finds a reference to a column, with or without the name of its table.
struct FindUngrouped {
    column: String,
    /// How many aggregates and queries the expression is in.
    inside: usize,
}

impl FindUngrouped {
    fn is_aggregate(expr: &ast::Expr) -> bool {
        let ast::Expr::Function(function) = expr else { return false };
        let name = function.name.0.last().and_then(ObjectNamePart::as_ident).filter(|_| function.over.is_none());
        name.is_some_and(|name| functions::is_aggregate(&name.value.to_lowercase()))
    }
}

impl Visitor for FindUngrouped {
    type Break = Location;

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<Location> {
        self.inside += usize::from(Self::is_aggregate(expr));
        let names = match expr {
            ast::Expr::Identifier(name) => std::slice::from_ref(name),
            ast::Expr::CompoundIdentifier(names) => names,
            _ => return ControlFlow::Continue(()),
        };
        let written: Vec<_> = names.iter().map(|name| name.value.to_lowercase()).collect();
        let written = written.join(".");
        let is_meant = self.column == written || self.column.ends_with(&format!(".{written}"));
        match names.first().filter(|_| is_meant && self.inside == 0) {
            Some(first) => ControlFlow::Break(first.span.start),
            None => ControlFlow::Continue(()),
        }
    }

    fn post_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<Location> {
        self.inside -= usize::from(Self::is_aggregate(expr));
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<Location> {
        self.inside += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &ast::Query) -> ControlFlow<Location> {
        self.inside -= 1;
        ControlFlow::Continue(())
    }
}

/// Gives the error of a call in FROM its place.
#[cold]
#[inline(never)]
pub(crate) fn at_function(error: SqlError, name: &ObjectName) -> SqlError {
    match error.state() {
        SqlState::UNDEFINED_FUNCTION | SqlState::AMBIGUOUS_FUNCTION => at_name(error, name),
        _ => error,
    }
}

/// Gives an error about a name or a literal in an expression its place, unless an expression inside of it has done so.
#[cold]
#[inline(never)]
pub(crate) fn in_expr(error: SqlError, expr: &ast::Expr) -> SqlError {
    if error.place().is_some() {
        return error;
    }
    if is_about_literal(&error) {
        // The literal may be elsewhere in the statement.
        return match place_of_literal(&error, expr) {
            Some(place) => error.placed(place),
            None => error,
        };
    }
    let place = match error.state() {
        SqlState::UNDEFINED_COLUMN | SqlState::AMBIGUOUS_COLUMN => place_of_column(expr),
        SqlState::UNDEFINED_TABLE => place_of_column(expr).or_else(|| place_of_sequence(expr)),
        SqlState::UNDEFINED_FUNCTION | SqlState::AMBIGUOUS_FUNCTION => place_of_call(expr),
        SqlState::INVALID_SCHEMA_NAME | SqlState::WRONG_OBJECT_TYPE => match expr {
            ast::Expr::Function(_) | ast::Expr::AnyOp { .. } | ast::Expr::AllOp { .. } => place_of_call(expr),
            _ => None,
        },
        SqlState::UNDEFINED_OBJECT => place_of_type(expr),
        SqlState::GROUPING_ERROR | SqlState::WINDOWING_ERROR => place_of_misplaced(expr),
        // A row with another number of entries.
        SqlState::SYNTAX_ERROR if matches!(expr, ast::Expr::BinaryOp { .. }) => place_of_call(expr),
        // What has no elements.
        SqlState::DATATYPE_MISMATCH if matches!(expr, ast::Expr::CompoundFieldAccess { .. }) => place_of_column(expr),
        _ => None,
    };
    error.placed(place.unwrap_or(Place::NOWHERE))
}

/// Gives an error its position in the text of the statement.
#[cold]
#[inline(never)]
pub(crate) fn located(error: SqlError, text: &str) -> SqlError {
    let Some(Place { line, column, words }) = error.place() else { return error };
    let from = position(text, Location { line: *line, column: *column });
    let position = match &**words {
        "" => from,
        words => from.and_then(|from| nearest(text, from, words)),
    };
    error.at(position)
}

/// Returns the position of the first of some words from a position on; for words that begin with `<-`, of the last one
/// before it.
fn nearest(text: &str, from: usize, words: &str) -> Option<usize> {
    let text: Vec<_> = text.chars().map(|character| character.to_ascii_lowercase()).collect();
    let is_in_name = |at: Option<usize>| at.and_then(|at| text.get(at)).is_some_and(|one| one.is_alphanumeric());
    let is_at = |at: usize, word: &str| {
        let is_name = word.starts_with(char::is_alphabetic);
        word.chars().enumerate().all(|(number, one)| text.get(at + number) == Some(&one.to_ascii_lowercase()))
            && !(is_name && (is_in_name(at.checked_sub(1)) || is_in_name(Some(at + word.len()))))
    };
    let is_one = |words: &str, at: usize| words.split(' ').any(|word| is_at(at, word));
    let found = match words.strip_prefix("<- ") {
        Some(words) => (0..from.saturating_sub(1)).rev().find(|at| is_one(words, *at)),
        None => (from.saturating_sub(1)..text.len()).find(|at| is_one(words, *at)),
    };
    found.map(|at| at + 1)
}

fn here(at: Location) -> Place {
    Place { line: at.line, column: at.column, words: String::new() }
}

/// Returns the place of one of some words behind an expression.
fn behind(expr: &ast::Expr, words: impl Into<String>) -> Place {
    Place { words: words.into(), ..here(expr.span().end) }
}

/// Returns the place of a word before an expression.
fn before(expr: &ast::Expr, word: &str) -> Place {
    Place { words: format!("<- {word}"), ..here(expr.span().start) }
}

fn place_of_column(expr: &ast::Expr) -> Option<Place> {
    match expr {
        ast::Expr::Identifier(name) => Some(here(name.span.start)),
        ast::Expr::CompoundIdentifier(names) => names.first().map(|first| here(first.span.start)),
        ast::Expr::CompoundFieldAccess { root, .. } => Some(here(root.span().start)),
        _ => None,
    }
}

/// Whether an error may be about the text of a literal.
fn is_about_literal(error: &SqlError) -> bool {
    [
        SqlState::INVALID_TEXT_REPRESENTATION,
        SqlState::INVALID_DATETIME_FORMAT,
        SqlState::DATETIME_FIELD_OVERFLOW,
        SqlState::INTERVAL_FIELD_OVERFLOW,
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        SqlState::INVALID_BINARY_REPRESENTATION,
    ]
    .contains(&error.state())
}

/// Returns the place of the first literal that the message of an error quotes; if it quotes nothing, of the only one.
fn place_of_literal(error: &SqlError, within: &impl Visit) -> Option<Place> {
    let message = &error.report().message;
    let (mut literals, quotes) = (Vec::new(), message.contains('"'));
    let _ = visit_expressions(within, |expr| {
        let literal = match expr {
            ast::Expr::Value(literal) => literal,
            ast::Expr::TypedString(typed) => &typed.value,
            _ => return ControlFlow::<()>::Continue(()),
        };
        if let Some(text) = literal.value.clone().into_string()
            && (!quotes || message.contains(&format!("\"{text}\"")))
        {
            literals.push(literal.span.start);
        }
        ControlFlow::Continue(())
    });
    literals.first().filter(|_| quotes || literals.len() == 1).map(|at| here(*at))
}

/// Returns the place of an aggregate or a call over a window that is not allowed where it is, or that contains one.
fn place_of_misplaced(expr: &ast::Expr) -> Option<Place> {
    let ast::Expr::Function(function) = expr else { return None };
    let inside = visit_expressions(&function.args, |inner| match FindUngrouped::is_aggregate(inner) {
        true => ControlFlow::Break(inner.span().start),
        false => ControlFlow::Continue(()),
    });
    Some(here(inside.break_value().unwrap_or_else(|| function.name.span().start)))
}

/// Returns the place of the name in a call like `nextval('s')`.
fn place_of_sequence(expr: &ast::Expr) -> Option<Place> {
    let ast::Expr::Function(ast::Function { args: ast::FunctionArguments::List(list), .. }) = expr else { return None };
    match list.args.first() {
        Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(name))) => Some(here(name.span().start)),
        _ => None,
    }
}

/// Returns the place of the function or operator that an expression calls.
fn place_of_call(expr: &ast::Expr) -> Option<Place> {
    Some(match expr {
        ast::Expr::Function(function) => here(function.name.span().start),
        ast::Expr::BinaryOp { left, op, .. } => behind(left, words_of(op)),
        ast::Expr::AnyOp { left, compare_op, .. } | ast::Expr::AllOp { left, compare_op, .. } => {
            behind(left, words_of(compare_op))
        }
        ast::Expr::UnaryOp { op: UnaryOperator::Not, .. } => return None,
        ast::Expr::UnaryOp { op, expr } => before(expr, &op.to_string()),
        ast::Expr::Like { expr, .. } => behind(expr, "NOT LIKE"),
        ast::Expr::ILike { expr, .. } => behind(expr, "NOT ILIKE"),
        ast::Expr::SimilarTo { expr, .. } => behind(expr, "NOT SIMILAR"),
        ast::Expr::Between { expr, .. } => behind(expr, "NOT BETWEEN"),
        ast::Expr::InList { expr, .. } | ast::Expr::InSubquery { expr, .. } => behind(expr, "NOT IN"),
        ast::Expr::IsDistinctFrom(left, _) | ast::Expr::IsNotDistinctFrom(left, _) => behind(left, "IS"),
        ast::Expr::Extract { expr, .. } => before(expr, "extract"),
        ast::Expr::Substring { expr, .. } => before(expr, "substring"),
        ast::Expr::Position { expr, .. } => before(expr, "position"),
        ast::Expr::Overlay { expr, .. } => before(expr, "overlay"),
        ast::Expr::Ceil { expr, .. } => before(expr, "ceil"),
        ast::Expr::Floor { expr, .. } => before(expr, "floor"),
        _ => return None,
    })
}

/// Returns the ways to write an operator.
fn words_of(operator: &BinaryOperator) -> String {
    match operator {
        BinaryOperator::NotEq => "<> !=".to_owned(),
        BinaryOperator::PGCustomBinaryOperator(_) => "OPERATOR".to_owned(),
        other => other.to_string(),
    }
}

fn place_of_type(expr: &ast::Expr) -> Option<Place> {
    let data_type = match expr {
        ast::Expr::Cast { data_type, .. } => data_type,
        ast::Expr::TypedString(typed) => &typed.data_type,
        _ => return None,
    };
    match data_type {
        DataType::Custom(name, _) => Some(here(name.span().start)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_near_a_position() {
        for (text, from, words, wanted) in [
            ("SELECT (a) || 1", 10, "||", Some(12)),
            ("SELECT a!=b", 9, "<> !=", Some(9)),
            ("SELECT a not  like b", 9, "NOT LIKE", Some(10)),
            ("SELECT inn IN (1)", 8, "NOT IN", Some(12)),
            ("SELECT ä IN (1)", 9, "IN", Some(10)),
            ("SELECT 1 - -b", 13, "<- -", Some(12)),
            ("SELECT a + b", 9, "/", None),
        ] {
            assert_eq!(nearest(text, from, words), wanted, "{text}");
        }
    }
}
