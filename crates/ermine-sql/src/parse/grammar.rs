//! Checks of input that the parser accepts and PostgreSQL's grammar does not: reserved words as names, comparisons in a
//! chain, joins without a condition, INSERT without INTO, NULLIF of other than two values, incomplete FETCH clauses.

use std::{cell::OnceCell, collections::HashSet, ops::ControlFlow};

use sqlparser::{
    ast::{
        BinaryOperator, CastKind, DataType, Expr, FunctionArguments, Ident, Insert, Join, JoinConstraint, JoinOperator,
        Merge, MergeAction, MergeClause, MergeClauseKind, MergeInsertKind, MergeUpdateExpr, MergeUpdateKind,
        ObjectNamePart, Query, Select, SelectItem, Statement, TableFactor, Visit, Visitor,
    },
    keywords::Keyword,
    tokenizer::{Location, Token, TokenWithSpan, Tokenizer},
};

use super::{DIALECT, position};

use crate::{
    error::{Result, SqlError, SqlState},
    keywords::{is_no_column, is_no_function, is_no_type, is_reserved, needs_as},
};

/// Fails for a query, or a statement that writes, that PostgreSQL's grammar does not have.
pub(crate) fn check_grammar(statement: &Statement, text: &str) -> Result<()> {
    match statement {
        Statement::Query(_)
        | Statement::Insert(_)
        | Statement::Update(_)
        | Statement::Delete(_)
        | Statement::Merge(_) => check(statement, text),
        Statement::Explain { statement, .. } => check_grammar(statement, text),
        _ => Ok(()),
    }
}

/// Fails likewise for a query in another statement.
pub(crate) fn check_query(query: &Query, text: &str) -> Result<()> {
    check(query, text)
}

fn check(tree: &impl Visit, text: &str) -> Result<()> {
    let mut grammar = Grammar { text, labels: OnceCell::new(), bare: HashSet::new() };
    match tree.visit(&mut grammar) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Grammar<'t> {
    text: &'t str,
    /// Found when the first reserved word is met among the names.
    labels: OnceCell<HashSet<Location>>,
    /// Where reserved words are labels without AS.
    bare: HashSet<Location>,
}

impl Grammar<'_> {
    fn is_label(&self, ident: &Ident) -> bool {
        self.labels.get_or_init(|| labels(self.text)).contains(&ident.span.start)
    }

    /// Whether a label without AS is a word that needs it.
    fn lacks_as(&self, label: &Ident) -> bool {
        needs_as(&label.value) && !self.is_label(label)
    }

    /// Fails for a label that PostgreSQL does not take without AS, and notes reserved words that it does take.
    fn check_labels(&mut self, items: &[SelectItem]) -> ControlFlow<SqlError> {
        for item in items {
            let SelectItem::ExprWithAlias { alias, .. } = item else { continue };
            if alias.quote_style == Some('\'') || alias.quote_style.is_none() && self.lacks_as(alias) {
                let place = position(self.text, alias.span.start);
                return ControlFlow::Break(at_or_near(&alias.to_string()).at(place));
            }
            if is_reserved(&alias.value) && !needs_as(&alias.value) {
                self.bare.insert(alias.span.start);
            }
        }
        ControlFlow::Continue(())
    }
}

impl Visitor for Grammar<'_> {
    type Break = SqlError;

    fn pre_visit_ident(&mut self, ident: &Ident) -> ControlFlow<SqlError> {
        let is_name = ident.quote_style.is_some()
            || !is_reserved(&ident.value)
            || self.bare.contains(&ident.span.start)
            || self.is_label(ident);
        match is_name {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(at_or_near(&ident.value).at(position(self.text, ident.span.start))),
        }
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
        match query.fetch.as_ref().and_then(|_| broken_fetch(self.text)) {
            Some(word) => ControlFlow::Break(at_or_near(&word)),
            None => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        match unchained(expr).or_else(|| miscounted(expr)).or_else(|| misnamed(expr)) {
            Some(word) => ControlFlow::Break(at_or_near(&word)),
            None => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<SqlError> {
        self.check_labels(&select.projection)?;
        select.from.iter().try_for_each(|from| check_joins(&from.joins))
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<SqlError> {
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => check_joins(&table_with_joins.joins),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<SqlError> {
        let returned = match statement {
            Statement::Insert(insert) => &insert.returning,
            Statement::Update(update) => &update.returning,
            Statement::Delete(delete) => &delete.returning,
            _ => &None,
        };
        self.check_labels(returned.as_deref().unwrap_or_default())?;
        match statement {
            Statement::Insert(Insert { into: false, overwrite: false, replace_into: false, table, .. }) => {
                ControlFlow::Break(at_or_near(&table.to_string()))
            }
            Statement::Insert(Insert { table_alias: Some(alias), .. }) if !alias.explicit => {
                let place = position(self.text, alias.alias.span.start);
                ControlFlow::Break(at_or_near(&alias.alias.value).at(place))
            }
            Statement::Merge(merge) => match mistaken(merge) {
                Some(word) => ControlFlow::Break(at_or_near(&word)),
                None => ControlFlow::Continue(()),
            },
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Returns a word of a MERGE that only other systems have.
fn mistaken(merge: &Merge) -> Option<String> {
    if merge.output.is_some() {
        return Some("returning".into());
    }
    if !merge.into {
        return Some(merge.table.to_string());
    }
    if merge.clauses.is_empty() {
        return Some("EOF".into());
    }
    let word = |clause: &MergeClause| match (&clause.clause_kind, &clause.action) {
        (MergeClauseKind::NotMatchedByTarget | MergeClauseKind::NotMatchedBySource, _) => Some("by"),
        (_, MergeAction::Update(update)) => match update {
            MergeUpdateExpr { kind: MergeUpdateKind::Wildcard, .. } => Some("*"),
            MergeUpdateExpr { update_predicate: None, delete_predicate: None, .. } => None,
            _ => Some("where"),
        },
        (_, MergeAction::Insert(insert)) => match &insert.kind {
            _ if insert.insert_predicate.is_some() => Some("where"),
            MergeInsertKind::Values(values) if values.rows.len() == 1 => None,
            MergeInsertKind::Values(_) => Some(","),
            MergeInsertKind::Row | MergeInsertKind::Wildcard => Some("insert"),
        },
        _ => None,
    };
    merge.clauses.iter().find_map(word).map(str::to_owned)
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

/// Returns the token at which a FETCH clause is not `FETCH {FIRST | NEXT} [count] {ROW | ROWS} {ONLY | WITH ..}`.
fn broken_fetch(text: &str) -> Option<String> {
    let labels = labels(text);
    let tokens = Tokenizer::new(DIALECT, text).tokenize_with_location().unwrap_or_default();
    let mut tokens = tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let is = |token: &Token, words: &[Keyword]| matches!(token, Token::Word(word) if words.contains(&word.keyword));
    let mut before = Token::SemiColon;
    while let Some(TokenWithSpan { token, span }) = tokens.next() {
        let is_clause = is(&token, &[Keyword::FETCH]) && !labels.contains(&span.start) && before != Token::SemiColon;
        before = token;
        if !is_clause {
            // Another word, or a statement of its own.
            continue;
        }
        let mut next = || tokens.next().map_or(Token::EOF, |next| next.token);
        let word = next();
        if !is(&word, &[Keyword::FIRST, Keyword::NEXT]) {
            return Some(word.to_string());
        }
        let mut word = next();
        if !is(&word, &[Keyword::ROW, Keyword::ROWS]) {
            // The parser accepts a number here.
            word = next();
        }
        if !is(&word, &[Keyword::ROW, Keyword::ROWS]) {
            return Some(word.to_string());
        }
        let word = next();
        if !is(&word, &[Keyword::ONLY, Keyword::WITH]) {
            return Some(word.to_string());
        }
    }
    None
}

/// Returns the word of an operator that cannot stand in the lower bound of BETWEEN without parentheses.
fn too_weak(bound: &Expr) -> Option<&'static str> {
    match bound {
        Expr::AtTimeZone { .. } => Some("at"),
        Expr::Collate { .. } => Some("collate"),
        Expr::BinaryOp { left, right, .. } => too_weak(left).or_else(|| too_weak(right)),
        Expr::UnaryOp { expr, .. } | Expr::Cast { expr, kind: CastKind::DoubleColon, .. } => too_weak(expr),
        _ => None,
    }
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
        Expr::Between { low, .. } => too_weak(low).map(str::to_owned),
        Expr::TypedString(typed) if typed.value.value.clone().into_string().is_none() => Some(typed.value.to_string()),
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

/// Returns the name of a type, a function or a column that is a keyword.
fn misnamed(expr: &Expr) -> Option<String> {
    let (name, is_no_name): (_, fn(&str) -> bool) = match expr {
        Expr::Identifier(column) if column.quote_style.is_none() && is_no_column(&column.value) => {
            return Some(column.value.clone());
        }
        Expr::Cast { data_type: DataType::Custom(name, _), .. } => (name, is_no_type),
        Expr::Function(function) => (&function.name, is_no_function),
        _ => return None,
    };
    match &name.0[..] {
        [ObjectNamePart::Identifier(own)] if own.quote_style.is_none() && is_no_name(&own.value) => {
            Some(own.value.clone())
        }
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
    let message = match word {
        "EOF" => "syntax error at end of input".to_owned(),
        word => format!("syntax error at or near \"{word}\""),
    };
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> std::result::Result<(), SqlState> {
        crate::session::tree::statements(text).map(drop).map_err(|error| error.state())
    }

    #[test]
    fn fetch_is_complete() {
        for text in ["FETCH 2 ROWS ONLY", "FETCH FIRST 2 ROWS", "FETCH FIRST 2 ONLY"] {
            assert_eq!(found(&format!("SELECT 1 {text}")), Err(SqlState::SYNTAX_ERROR), "{text}");
        }
        for text in ["FETCH FIRST ROW ONLY", "FETCH NEXT 2 ROWS ONLY", "FETCH NEXT 1 ROW ONLY"] {
            assert_eq!(found(&format!("SELECT 1 {text}")), Ok(()), "{text}");
        }
        assert_eq!(found("SELECT 1 AS fetch FETCH next 2 ROWS ONLY"), Ok(()));
        let several =
            "FETCH 5 FROM c; SELECT 1 FETCH FIRST ROW ONLY; FETCH NEXT FROM c; CREATE TABLE t (a int NOT NULL)";
        assert_eq!(found(several), Ok(()));
    }

    #[test]
    fn operators_stand_where_the_grammar_has_them() {
        for text in [
            "1 NOT NULL",
            "(1) NOT NULL",
            "1 year",
            "text NULL::varchar",
            "greatest(integer 12, 5)",
            "0::float8 precision",
            "1 BETWEEN now() AT TIME ZONE 'UTC' AND 2",
            "'a' NOT BETWEEN 'b' || 'c' COLLATE \"C\" AND 'd'",
        ] {
            assert_eq!(found(&format!("SELECT {text}")), Err(SqlState::SYNTAX_ERROR), "{text}");
        }
        for text in [
            "1 IS NOT NULL",
            "1 AS year",
            "1 \"year\"",
            "1 weekly",
            "INTERVAL '1' YEAR",
            "1 NOTNULL",
            "NOT NULL",
            "1 WHERE NOT NULL IS NOT NULL AND NOT NULL",
            "1 ORDER BY NOT NULL; CREATE TABLE t (a int DEFAULT 5 NOT NULL)",
            "1 BETWEEN (now() AT TIME ZONE 'UTC') AND 2 AT TIME ZONE 'UTC'",
            "trim(BOTH FROM ' a ')",
            "trim(from ' a ')",
        ] {
            assert_eq!(found(&format!("SELECT {text}")), Ok(()), "{text}");
        }
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
