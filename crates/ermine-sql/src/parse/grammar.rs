//! Checks of input that the parser accepts and PostgreSQL's grammar does not: reserved words as names, comparisons in a
//! chain, joins without a condition, INSERT without INTO, NULLIF of other than two values.

use std::{cell::OnceCell, collections::HashSet, ops::ControlFlow};

use sqlparser::{
    ast::{
        BinaryOperator, Expr, FunctionArguments, Ident, Insert, Join, JoinConstraint, JoinOperator, Query, Select,
        SelectItem, Statement, TableFactor, Visit, Visitor,
    },
    keywords::Keyword,
    tokenizer::{Location, Token, TokenWithSpan, Tokenizer},
};

use super::{DIALECT, position};

use crate::{
    error::{Result, SqlError, SqlState},
    keywords::{is_reserved, needs_as},
};

/// Fails for a query, or a statement that writes, that PostgreSQL's grammar does not have.
pub(crate) fn check_grammar(statement: &Statement, text: &str) -> Result<()> {
    match statement {
        Statement::Query(_) | Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) => {
            match statement.visit(&mut Grammar { text, labels: OnceCell::new(), bare: HashSet::new() }) {
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
    /// Found when the first reserved word is met among the names.
    labels: OnceCell<HashSet<Location>>,
    /// Where reserved words are labels without AS.
    bare: HashSet<Location>,
}

impl Visitor for Grammar<'_> {
    type Break = SqlError;

    fn pre_visit_ident(&mut self, ident: &Ident) -> ControlFlow<SqlError> {
        let is_name = ident.quote_style.is_some()
            || !is_reserved(&ident.value)
            || self.bare.contains(&ident.span.start)
            || self.labels.get_or_init(|| labels(self.text)).contains(&ident.span.start);
        match is_name {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(at_or_near(&ident.value).at(position(self.text, ident.span.start))),
        }
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
        match query.fetch.as_ref().and_then(|_| bare_fetch(self.text)) {
            Some(word) => ControlFlow::Break(at_or_near(&word)),
            None => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        match unchained(expr).or_else(|| miscounted(expr)) {
            Some(word) => ControlFlow::Break(at_or_near(&word)),
            None => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<SqlError> {
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item
                && is_reserved(&alias.value)
                && !needs_as(&alias.value)
            {
                self.bare.insert(alias.span.start);
            }
        }
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

/// Returns where the words of a text are labels, which may be any word: after AS, or after a dot.
fn labels(text: &str) -> HashSet<Location> {
    let (mut labels, mut follows) = (HashSet::new(), false);
    for TokenWithSpan { token, span } in Tokenizer::new(DIALECT, text).tokenize_with_location().unwrap_or_default() {
        match token {
            Token::Whitespace(_) => continue,
            Token::Word(_) if follows => drop(labels.insert(span.start)),
            _ => {}
        }
        follows = matches!(&token, Token::Word(word) if word.keyword == Keyword::AS) || token == Token::Period;
    }
    labels
}

/// Returns the token behind a FETCH that neither FIRST nor NEXT follows.
fn bare_fetch(text: &str) -> Option<String> {
    let labels = labels(text);
    let tokens = Tokenizer::new(DIALECT, text).tokenize_with_location().unwrap_or_default();
    let mut tokens = tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let is = |token: &Token, words: &[Keyword]| matches!(token, Token::Word(word) if words.contains(&word.keyword));
    while let Some(fetch) = tokens.find(|found| is(&found.token, &[Keyword::FETCH])) {
        match tokens.next() {
            _ if labels.contains(&fetch.span.start) => {}
            Some(next) if is(&next.token, &[Keyword::FIRST, Keyword::NEXT]) => {}
            next => return Some(next.map_or_else(String::new, |next| next.token.to_string())),
        }
    }
    None
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

    fn found(text: &str) -> std::result::Result<(), SqlState> {
        crate::session::tree::statements(text).map(drop).map_err(|error| error.state())
    }

    #[test]
    fn fetch_needs_first_or_next() {
        assert_eq!(found("SELECT 1 FETCH 2 ROWS ONLY"), Err(SqlState::SYNTAX_ERROR));
        assert_eq!(found("SELECT 1 AS fetch FETCH next 2 ROWS ONLY"), Ok(()));
    }

    #[test]
    fn labels_may_be_any_word() {
        assert_eq!(found("SELECT 1 AS end, t . end, t.\n end FROM t"), Ok(()));
        assert_eq!(found("SELECT end FROM t"), Err(SqlState::SYNTAX_ERROR));
        assert_eq!(found("SELECT true true, NULL null"), Ok(()));
        assert_eq!(found("SELECT true true, true"), Ok(()));
        assert_eq!(found("SELECT 1 grant"), Err(SqlState::SYNTAX_ERROR));
        assert_eq!(found("SELECT 1 AS end, \"end\" FROM t AS t ORDER BY user"), Ok(()));
    }
}
