//! Checks of input that the parser accepts and PostgreSQL's grammar does not: reserved words as names, comparisons in a
//! chain, joins without a condition, INSERT without INTO, NULLIF of other than two values.

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArguments, Ident, Insert, Join, JoinConstraint, JoinOperator, Select, Statement,
    TableFactor, Visit, Visitor,
};

use crate::{
    bind::names::position,
    error::{Result, SqlError, SqlState},
};

/// PostgreSQL's reserved words, sorted, without DEFAULT and those that are expressions themselves, which the parser
/// returns as names.
const RESERVED: [&str; 65] = [
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "as",
    "asc",
    "asymmetric",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "constraint",
    "create",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "from",
    "grant",
    "group",
    "having",
    "in",
    "initially",
    "intersect",
    "into",
    "lateral",
    "leading",
    "limit",
    "not",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "placing",
    "primary",
    "references",
    "returning",
    "select",
    "some",
    "symmetric",
    "table",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "using",
    "variadic",
    "when",
    "where",
    "window",
    "with",
];

/// Fails for a query, or a statement that writes, that PostgreSQL's grammar does not have.
pub(super) fn check_grammar(statement: &Statement, text: &str) -> Result<()> {
    match statement {
        Statement::Query(_) | Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) => {
            match statement.visit(&mut Grammar { text }) {
                ControlFlow::Break(error) => Err(error),
                ControlFlow::Continue(()) => Ok(()),
            }
        }
        Statement::Explain { statement, .. } => check_grammar(statement, text),
        _ => Ok(()),
    }
}

struct Grammar<'t> {
    text: &'t str,
}

impl Visitor for Grammar<'_> {
    type Break = SqlError;

    fn pre_visit_ident(&mut self, ident: &Ident) -> ControlFlow<SqlError> {
        if ident.quote_style.is_some() || !is_reserved(&ident.value) {
            return ControlFlow::Continue(());
        }
        let place = position(self.text, ident.span.start);
        if place.is_some_and(|place| is_label(self.text, place)) {
            return ControlFlow::Continue(());
        }
        ControlFlow::Break(at_or_near(&ident.value).at(place))
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        match unchained(expr).or_else(|| miscounted(expr)) {
            Some(word) => ControlFlow::Break(at_or_near(&word)),
            None => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<SqlError> {
        select.from.iter().try_for_each(|from| check_joins(&from.joins))
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<SqlError> {
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => check_joins(&table_with_joins.joins),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<SqlError> {
        match statement {
            Statement::Insert(Insert { into: false, overwrite: false, replace_into: false, table, .. }) => {
                ControlFlow::Break(at_or_near(&table.to_string()))
            }
            Statement::Insert(Insert { table_alias: Some(alias), .. }) if !alias.explicit => {
                let place = position(self.text, alias.alias.span.start);
                ControlFlow::Break(at_or_near(&alias.alias.value).at(place))
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

fn is_reserved(name: &str) -> bool {
    RESERVED.binary_search_by(|word| word.bytes().cmp(name.bytes().map(|byte| byte.to_ascii_lowercase()))).is_ok()
}

/// Whether the name at a place of the text, counted in characters from 1 on, is a label, which may be any word: after
/// AS, or after a dot.
fn is_label(text: &str, place: usize) -> bool {
    let end = text.char_indices().nth(place - 1).map_or(text.len(), |(at, _)| at);
    let before = text[..end].trim_end();
    let word = before.rsplit(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
    before.ends_with('.') || word.eq_ignore_ascii_case("as")
}

/// Returns an operator that follows another one without parentheses, where neither binds more tightly.
fn unchained(expr: &Expr) -> Option<String> {
    let compares = |operator: &BinaryOperator| {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq)
    };
    let is_comparison = |operand: &Expr| matches!(operand, Expr::BinaryOp { op, .. } if compares(op));
    let is_distinct = |operand: &Expr| matches!(operand, Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..));
    match expr {
        Expr::Position { expr, r#in } if [expr, r#in].iter().any(|side| matches!(***side, Expr::Collate { .. })) => {
            Some("collate".into())
        }
        Expr::Interval(interval) if !matches!(*interval.value, Expr::Value(_)) => Some("interval".into()),
        Expr::BinaryOp { left, op, right } if compares(op) && (is_comparison(left) || is_comparison(right)) => {
            Some(op.to_string())
        }
        Expr::AnyOp { left, compare_op, .. } | Expr::AllOp { left, compare_op, .. }
            if compares(compare_op) && is_comparison(left) =>
        {
            Some(compare_op.to_string())
        }
        Expr::IsNull(operand)
        | Expr::IsNotNull(operand)
        | Expr::IsTrue(operand)
        | Expr::IsNotTrue(operand)
        | Expr::IsFalse(operand)
        | Expr::IsNotFalse(operand)
        | Expr::IsUnknown(operand)
        | Expr::IsNotUnknown(operand)
        | Expr::IsDistinctFrom(operand, _)
        | Expr::IsNotDistinctFrom(operand, _)
            if is_distinct(operand) =>
        {
            Some("is".into())
        }
        _ => None,
    }
}

/// Returns the token at which the arguments of NULLIF, or of a function that needs at least one, end too early or too
/// late.
fn miscounted(expr: &Expr) -> Option<String> {
    let Expr::Function(function) = expr else { return None };
    let (name, FunctionArguments::List(list)) = (function.name.to_string().to_ascii_lowercase(), &function.args) else {
        return None;
    };
    match (&*name, list.args.len()) {
        ("nullif", 0 | 1) | ("coalesce" | "greatest" | "least", 0) => Some(")".into()),
        ("nullif", 3..) => Some(",".into()),
        // With FROM the parser does not take it for a function.
        ("extract", _) => Some("(".into()),
        _ => None,
    }
}

/// Fails for a join that has no condition and is no CROSS JOIN.
fn check_joins(joins: &[Join]) -> ControlFlow<SqlError> {
    use JoinOperator::{FullOuter, Inner, Join as Plain, Left, LeftOuter, Right, RightOuter};
    let has_none = |join: &Join| {
        matches!(
            &join.join_operator,
            Plain(JoinConstraint::None)
                | Inner(JoinConstraint::None)
                | Left(JoinConstraint::None)
                | LeftOuter(JoinConstraint::None)
                | Right(JoinConstraint::None)
                | RightOuter(JoinConstraint::None)
                | FullOuter(JoinConstraint::None)
        )
    };
    match joins.iter().any(has_none) {
        true => {
            let message = "syntax error: a join has neither ON nor USING";
            ControlFlow::Break(SqlError::new(SqlState::SYNTAX_ERROR, message))
        }
        false => ControlFlow::Continue(()),
    }
}

fn at_or_near(word: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{word}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_words_are_found() {
        assert!(RESERVED.is_sorted());
        assert!(RESERVED.iter().all(|word| is_reserved(word) && is_reserved(&word.to_uppercase())));
        assert!(!is_reserved("default") && !is_reserved("user") && !is_reserved("name"));
        assert!(is_label("SELECT 1 AS end", 13) && is_label("SELECT t . end", 12) && !is_label("SELECT end", 8));
    }
}
