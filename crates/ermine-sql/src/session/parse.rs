//! From text to trees.

use sqlparser::{
    ast::{Expr, ObjectName, Query, Statement},
    dialect::PostgreSqlDialect,
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use crate::{
    copy::CopyTree,
    error::{Result, SqlError, SqlState},
};

/// The tree of a statement.
#[derive(Clone, Debug)]
pub(crate) enum Tree {
    /// As sqlparser has it.
    Plain(Box<Statement>),
    Copy(CopyTree),
}

/// Longer texts are refused.
const TEXT_MAX: usize = 64 << 20;
/// How deep a text may be nested.
const DEPTH: usize = 100;

/// The statements of a text.
pub(crate) fn statements(text: &str) -> Result<Vec<Tree>> {
    if text.len() > TEXT_MAX {
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "the query is too long"));
    }
    check_chains(text)?;
    // Whatever is to be vacuumed, and how: the engine does that by itself, and the grammar has one form of it only.
    let first = text.split_whitespace().next().unwrap_or_default();
    let text = if first.eq_ignore_ascii_case("vacuum") && !text.trim_end().trim_end_matches(';').contains(';') {
        "VACUUM"
    } else {
        text
    };
    let dialect = PostgreSqlDialect {};
    let parser = Parser::new(&dialect).with_recursion_limit(DEPTH);
    parser.try_with_sql(text).and_then(|mut parser| trees(&mut parser)).map_err(|error| failure(text, &error))
}

fn trees(parser: &mut Parser<'_>) -> Result<Vec<Tree>, ParserError> {
    let mut trees = Vec::new();
    loop {
        while parser.consume_token(&Token::SemiColon) {}
        if parser.peek_token_ref().token == Token::EOF {
            return Ok(trees);
        }
        trees.push(if parser.parse_keyword(Keyword::COPY) {
            Tree::Copy(CopyTree::parse(parser)?)
        } else {
            Tree::Plain(Box::new(parser.parse_statement()?))
        });
        if !matches!(parser.peek_token_ref().token, Token::SemiColon | Token::EOF) {
            return parser.expected_ref("end of statement", parser.peek_token_ref());
        }
    }
}

/// A query that is put together from names as somebody wrote them.
pub(crate) fn query(text: &str) -> Result<Box<Query>, ParserError> {
    Parser::new(&PostgreSqlDialect {}).with_recursion_limit(DEPTH).try_with_sql(text)?.parse_query()
}

/// An expression that the catalog keeps.
pub(crate) fn expression(text: &str) -> Result<Expr> {
    let dialect = PostgreSqlDialect {};
    let parser = Parser::new(&dialect).with_recursion_limit(DEPTH);
    parser.try_with_sql(text).and_then(|mut parser| parser.parse_expr()).map_err(|error| failure(text, &error))
}

/// The name of an object, in a literal.
pub(crate) fn object_name(text: &str) -> Result<ObjectName> {
    let dialect = PostgreSqlDialect {};
    let parsed = Parser::new(&dialect).try_with_sql(text).and_then(|mut parser| parser.parse_object_name(false));
    parsed.map_err(|_| SqlError::new(SqlState::SYNTAX_ERROR, format!("invalid name syntax: \"{text}\"")))
}

/// Fails for texts that tie too many expressions or queries together: trees are as deep as chains are long, and so is the stack that
/// looks at them.
fn check_chains(text: &str) -> Result<()> {
    /// Words, and how many of them a statement may have.
    const CHAINS: [(&[&str], usize); 2] =
        [(&["and", "or"], 2000), (&["select", "union", "intersect", "except", "join"], 400)];
    const SHORT: usize = 2000;
    if text.len() < SHORT {
        return Ok(());
    }
    // Each statement by itself may have as many.
    let statements = text.matches(';').count() + 1;
    for (chain, most) in CHAINS {
        // What is in quotes is every other part.
        let parts = text.split('\'').step_by(2);
        let words =
            parts.flat_map(|part| part.split(|character: char| !character.is_ascii_alphanumeric() && character != '_'));
        let count = words.filter(|word| chain.iter().any(|known| word.eq_ignore_ascii_case(known))).count();
        if count > most * statements {
            let message = format!("a statement with more than {most} of {}", chain.join(", "));
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
        }
    }
    Ok(())
}

fn failure(text: &str, error: &ParserError) -> SqlError {
    let message = match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
        ParserError::RecursionLimitExceeded => {
            return SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "the statement is nested too deeply");
        }
    };
    // The parser tells the place at the end of its message.
    let (what, place) = match message.rsplit_once(" at Line: ") {
        Some((what, place)) => (what, Some(place)),
        None => (&**message, None),
    };
    let position = place.and_then(|place| {
        let (line, column) = place.split_once(", Column: ")?;
        let location =
            sqlparser::tokenizer::Location { line: line.trim().parse().ok()?, column: column.trim().parse().ok()? };
        crate::bind::names::position(text, location)
    });
    SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error: {}", what.trim())).at(position)
}
