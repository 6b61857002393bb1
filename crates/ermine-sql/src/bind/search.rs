//! SEARCH and CYCLE of recursive queries. The parser has put the clauses into the name of their WITH query
//! (`parse/search.rs`); the query is rewritten as PostgreSQL rewrites it: columns for the order of the search,
//! for the mark of a cycle and for the path are computed from those of the row before.
//!
//! ```text
//!   WITH RECURSIVE t (a) AS (L UNION ALL SELECT x FROM t, ..) SEARCH DEPTH FIRST BY a SET s CYCLE a SET c USING p
//!   WITH RECURSIVE t (a, s, c, p) AS (
//!     SELECT a, ARRAY[ROW(a)], false, ARRAY[ROW(a)] FROM (L) AS row (a)
//!     UNION ALL
//!     SELECT a, s || ROW(a), ROW(a) = ANY (p), p || ROW(a)
//!     FROM (SELECT x, t.s, t.c, t.p FROM t, ..) AS row (a, s, c, p) WHERE c <> true)
//! ```
//!
//! BREADTH FIRST has records of the depth and the columns instead of arrays.

use std::ops::ControlFlow;

use sqlparser::{
    ast::{
        Cte, Query, Select, SelectItem, SetExpr, SetOperator, SetQuantifier, TableAliasColumnDef, TableFactor,
        VisitMut, VisitorMut,
    },
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use super::{label_of, names::name_of};
use crate::{
    error::{Result, SqlError, SqlState},
    parse::{SEARCHES, failure, ident, parser},
};

/// The name of the rows of a side, which no statement has.
const ROW: &str = "\"\u{1}row\"";

/// The clauses of a WITH query.
#[derive(Default)]
struct Clauses {
    search: Option<Search>,
    cycle: Option<Cycle>,
}

struct Search {
    is_depth: bool,
    columns: Vec<String>,
    sequence: String,
}

struct Cycle {
    columns: Vec<String>,
    mark: String,
    /// The texts of the values for rows of cycles, and for others.
    values: (String, String),
    path: String,
}

/// Rewrites the WITH queries of a statement that have clauses.
pub(crate) fn expand_searches(tree: &mut impl VisitMut) -> Result<()> {
    match tree.visit(&mut Expander) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Expander;

impl VisitorMut for Expander {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        let Some(with) = &mut query.with else { return ControlFlow::Continue(()) };
        let is_recursive = with.recursive;
        for table in &mut with.cte_tables {
            if let Err(error) = expand(table, is_recursive) {
                return ControlFlow::Break(error);
            }
        }
        ControlFlow::Continue(())
    }
}

fn expand(table: &mut Cte, is_recursive: bool) -> Result<()> {
    let Some(marked) = table.alias.name.value.strip_prefix(SEARCHES) else { return Ok(()) };
    let (name, text) = marked.split_once('\u{1}').unwrap_or((marked, ""));
    let unparsed = |error: ParserError| failure(text, &error).at(None);
    let name = parser(name)?.parse_identifier().map_err(unparsed)?;
    let clauses = Clauses::parse(&mut parser(text)?).map_err(unparsed)?;
    table.alias.name = name.clone();
    let name = name_of(&name);
    let not_recursive = || SqlError::new(SqlState::SYNTAX_ERROR, "WITH query is not recursive");
    let SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, left, right } = &mut *table.query.body else {
        return Err(not_recursive());
    };
    if !is_recursive {
        return Err(not_recursive());
    }
    let refused = |side: &str| {
        let message = format!("with a SEARCH or CYCLE clause, the {side} side of the UNION must be a SELECT");
        Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
    };
    if let SetExpr::SetOperation { .. } | SetExpr::Query(_) = **left {
        return refused("left");
    }
    let SetExpr::Select(step) = &mut **right else { return refused("right") };
    let columns = columns_of(table.alias.columns.iter().map(|column| name_of(&column.name)).collect(), left)?;
    clauses.check(&columns)?;
    let added = clauses.added();
    add_columns(step, &name, &added)?;
    let shown = |names: &[String]| names.iter().map(|name| ident(name).to_string()).collect::<Vec<_>>().join(", ");
    let own: Vec<_> = columns.iter().map(|name| of_row(name)).collect();
    let own = own.join(", ");
    let all = [&columns[..], &added].concat();
    let all_sides = match set_quantifier {
        SetQuantifier::All => "UNION ALL",
        _ => "UNION",
    };
    let stop = clauses
        .cycle
        .as_ref()
        .map_or(String::new(), |cycle| format!(" WHERE {} <> {}", of_row(&cycle.mark), cycle.values.0));
    let text = format!(
        "SELECT {own}, {} FROM ({left}) AS {ROW} ({}) {all_sides} SELECT {own}, {} FROM ({right}) AS {ROW} ({}){stop}",
        clauses.first_values(),
        shown(&columns),
        clauses.next_values(),
        shown(&all),
    );
    let rewritten = parser(&text)?.parse_query().map_err(|error| failure(&text, &error).at(None))?;
    table.query.body = rewritten.body;
    table.alias.columns = all.iter().map(|name| TableAliasColumnDef { name: ident(name), data_type: None }).collect();
    Ok(())
}

/// Returns a column of the rows of a side.
fn of_row(name: &str) -> String {
    format!("{ROW}.{}", ident(name))
}

/// Returns a row of columns.
fn row_of(columns: &[String]) -> String {
    let columns: Vec<_> = columns.iter().map(|name| of_row(name)).collect();
    format!("ROW({})", columns.join(", "))
}

/// Returns the names of all columns of a WITH query that has those names, and otherwise those of its first query.
fn columns_of(mut names: Vec<String>, first: &SetExpr) -> Result<Vec<String>> {
    let SetExpr::Select(select) = first else {
        return match names.is_empty() {
            true => Err(SqlError::unsupported("SEARCH or CYCLE of a WITH query without a list of columns")),
            false => Ok(names),
        };
    };
    let is_star = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    if select.projection.iter().any(is_star) {
        return match names.is_empty() {
            true => Err(SqlError::unsupported("SEARCH or CYCLE of a WITH query without a list of columns")),
            false => Ok(names),
        };
    }
    for item in select.projection.iter().skip(names.len()) {
        names.push(match item {
            SelectItem::ExprWithAlias { alias, .. } => name_of(alias),
            SelectItem::UnnamedExpr(expr) => label_of(expr).unwrap_or_else(|| "?column?".into()),
            _ => continue,
        });
    }
    Ok(names)
}

/// Adds columns of the recursive query to the results of the term that refers to it.
fn add_columns(step: &mut Select, name: &str, columns: &[String]) -> Result<()> {
    let all = step
        .from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
    let referred = |factor: &TableFactor| match factor {
        TableFactor::Table { name: own, alias, args: None, .. } if own.0.len() == 1 => {
            let is_meant = own.0[0].as_ident().is_some_and(|own| name_of(own) == name);
            is_meant.then(|| alias.as_ref().map_or_else(|| ident(name), |alias| alias.name.clone()))
        }
        _ => None,
    };
    let Some(source) = all.into_iter().find_map(referred) else {
        let message = format!(
            "with a SEARCH or CYCLE clause, the recursive reference to WITH query \"{name}\" must be at the top level of \
             its right-hand SELECT"
        );
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    };
    let is_whole = |item: &SelectItem| match item {
        SelectItem::Wildcard(_) => true,
        SelectItem::QualifiedWildcard(kind, _) => kind.to_string() == format!("{source}.*"),
        _ => false,
    };
    if step.projection.iter().any(is_whole) {
        return Err(SqlError::unsupported("a star for the columns of a recursive query with SEARCH or CYCLE"));
    }
    let column = |name: &String| {
        SelectItem::UnnamedExpr(sqlparser::ast::Expr::CompoundIdentifier(vec![source.clone(), ident(name)]))
    };
    step.projection.extend(columns.iter().map(column));
    Ok(())
}

impl Clauses {
    fn parse(parser: &mut Parser<'_>) -> std::result::Result<Self, ParserError> {
        let names = |parser: &mut Parser<'_>| {
            let names = parser.parse_comma_separated(Parser::parse_identifier)?;
            Ok::<_, ParserError>(names.iter().map(name_of).collect::<Vec<_>>())
        };
        let mut clauses = Self::default();
        if parser.parse_keyword(Keyword::SEARCH) {
            let is_depth = !parser.next_token().to_string().eq_ignore_ascii_case("breadth");
            parser.expect_keywords(&[Keyword::FIRST, Keyword::BY])?;
            let columns = names(parser)?;
            parser.expect_keyword_is(Keyword::SET)?;
            clauses.search = Some(Search { is_depth, columns, sequence: name_of(&parser.parse_identifier()?) });
        }
        if parser.parse_keyword(Keyword::CYCLE) {
            let columns = names(parser)?;
            parser.expect_keyword_is(Keyword::SET)?;
            let mark = name_of(&parser.parse_identifier()?);
            let mut values = ("true".to_owned(), "false".to_owned());
            if parser.parse_keyword(Keyword::TO) {
                values.0 = parser.parse_expr()?.to_string();
                parser.expect_keyword_is(Keyword::DEFAULT)?;
                values.1 = parser.parse_expr()?.to_string();
            }
            parser.expect_keyword_is(Keyword::USING)?;
            clauses.cycle = Some(Cycle { columns, mark, values, path: name_of(&parser.parse_identifier()?) });
        }
        match parser.peek_token_ref().token {
            Token::EOF => Ok(clauses),
            _ => parser.expected_ref("the end of the clause", parser.peek_token_ref()),
        }
    }

    /// Returns the columns that the clauses add.
    fn added(&self) -> Vec<String> {
        let search = self.search.iter().map(|search| search.sequence.clone());
        search.chain(self.cycle.iter().flat_map(|cycle| [cycle.mark.clone(), cycle.path.clone()])).collect()
    }

    /// Fails for names that are not there, or that contradict each other.
    fn check(&self, columns: &[String]) -> Result<()> {
        let invalid = |message: String| Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        let search = self.search.iter().map(|search| ("search", &search.columns));
        for (clause, own) in search.chain(self.cycle.iter().map(|cycle| ("cycle", &cycle.columns))) {
            for (at, name) in own.iter().enumerate() {
                if !columns.contains(name) {
                    return invalid(format!("{clause} column \"{name}\" not in WITH query column list"));
                }
                if own[..at].contains(name) {
                    let message = format!("{clause} column \"{name}\" specified more than once");
                    return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
                }
            }
        }
        let search = self.search.iter().map(|search| ("search sequence", &search.sequence));
        let cycle = self.cycle.iter();
        let cycle = cycle.flat_map(|cycle| [("cycle mark", &cycle.mark), ("cycle path", &cycle.path)]);
        let added: Vec<_> = search.chain(cycle).collect();
        for (at, (what, name)) in added.iter().enumerate() {
            if columns.contains(name) {
                return invalid(format!("{what} column name \"{name}\" already used in WITH query column list"));
            }
            if let Some((other, _)) = added[..at].iter().find(|(_, other)| other == name) {
                return invalid(format!("{other} column name and {what} column name are the same"));
            }
        }
        Ok(())
    }

    /// Returns the values of the added columns for the rows of the first query.
    fn first_values(&self) -> String {
        let search = self.search.iter().map(|search| match search.is_depth {
            true => format!("ARRAY[{}]", row_of(&search.columns)),
            false => row_of(&search.columns).replacen("ROW(", "ROW(0::bigint, ", 1),
        });
        let cycle = self.cycle.iter().map(|cycle| {
            let (mark, default) = &cycle.values;
            // Both decide about the type.
            format!("CASE WHEN false THEN {mark} ELSE {default} END, ARRAY[{}]", row_of(&cycle.columns))
        });
        search.chain(cycle).collect::<Vec<_>>().join(", ")
    }

    /// Returns the values of the added columns for rows that come from others.
    fn next_values(&self) -> String {
        let search = self.search.iter().map(|search| {
            let (row, sequence) = (row_of(&search.columns), of_row(&search.sequence));
            match search.is_depth {
                true => format!("{sequence} || {row}"),
                false => {
                    let depth = format!("(row_to_json({sequence}) ->> 'f1')::bigint + 1");
                    row.replacen("ROW(", &format!("ROW({depth}, "), 1)
                }
            }
        });
        let cycle = self.cycle.iter().map(|cycle| {
            let (row, path, (mark, default)) = (row_of(&cycle.columns), of_row(&cycle.path), &cycle.values);
            format!("CASE WHEN {row} = ANY ({path}) THEN {mark} ELSE {default} END, {path} || {row}")
        });
        search.chain(cycle).collect::<Vec<_>>().join(", ")
    }
}
