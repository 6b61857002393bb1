//! From text to trees.
//!
//! Trees are larger than texts, a thousand times if a text consists only of statements, and as deep as its chains are
//! long. So a text is measured before it is cut into tokens ([`super::measure`]), and the tokens before they become
//! trees: no text takes more than some gigabytes, and none takes more stack than a thread has.

use sqlparser::{
    ast::{Expr, ObjectName, Query, Statement},
    dialect::PostgreSqlDialect,
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::{Token, TokenWithSpan, Tokenizer, Whitespace},
};

use super::{
    cursor::Fetch,
    grammar::check_grammar,
    maintenance::Maintenance,
    marks::{mark_lists, mark_subscripts},
    measure::{check_chains, check_size},
    modes::ModesTree,
    precedence::arrange,
};
use crate::{
    copy::CopyTree,
    ddl::role::{RoleTree, password_in},
    error::{Result, SqlError, SqlState},
};

/// The tree of a statement.
#[derive(Clone, Debug)]
pub(crate) enum Tree {
    /// A statement as sqlparser represents it.
    Plain(Box<Statement>),
    Copy(CopyTree),
    Fetch(Fetch),
    Maintenance(Maintenance),
    Modes(ModesTree),
    Role(RoleTree),
    /// Prepares or ends the prepared transaction of this name.
    TwoPhase(TwoPhase, String),
}

/// An operation on a prepared transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TwoPhase {
    Prepare,
    Commit,
    RollBack,
}

impl TwoPhase {
    /// Returns the words that the statement begins with, which are also its tag.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Prepare => "PREPARE TRANSACTION",
            Self::Commit => "COMMIT PREPARED",
            Self::RollBack => "ROLLBACK PREPARED",
        }
    }

    /// Consumes the words, if they come next.
    fn parse(parser: &mut Parser<'_>) -> Option<Self> {
        let next = format!("{} {}", parser.peek_nth_token_ref(0), parser.peek_nth_token_ref(1));
        let all = [Self::Prepare, Self::Commit, Self::RollBack];
        let found = all.into_iter().find(|one| next.eq_ignore_ascii_case(one.words()))?;
        parser.next_token();
        parser.next_token();
        Some(found)
    }
}

/// Maximum depth of nesting: a statement in a statement takes the parser some 20 KiB of stack.
const DEPTH: usize = 60;
pub(super) const DIALECT: &PostgreSqlDialect = &PostgreSqlDialect {};

/// Returns the statements of a text.
pub(crate) fn statements(text: &str) -> Result<Vec<Tree>> {
    // The options of VACUUM are dropped: the engine reclaims space automatically, and the grammar accepts one form of
    // it only.
    let first = text.split_whitespace().next().unwrap_or_default();
    let text = if first.eq_ignore_ascii_case("vacuum") && !text.trim_end().trim_end_matches(';').contains(';') {
        "VACUUM"
    } else {
        text
    };
    let mut trees = trees(&mut parser(text)?).map_err(|error| failure(text, &error))?;
    for tree in &mut trees {
        if let Tree::Plain(statement) = tree {
            check_grammar(statement, text)?;
            arrange(&mut **statement);
        }
    }
    Ok(trees)
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
        } else if parser.parse_keyword(Keyword::FETCH) {
            Tree::Fetch(Fetch::parse(parser)?)
        } else if let Some(what) = TwoPhase::parse(parser) {
            Tree::TwoPhase(what, parser.parse_literal_string()?)
        } else if let Some(what) = Maintenance::parse(parser)? {
            Tree::Maintenance(what)
        } else if let Some(modes) = ModesTree::parse(parser)? {
            Tree::Modes(modes)
        } else if let Some(role) = RoleTree::parse(parser)? {
            Tree::Role(role)
        } else if is_alone(parser) {
            parser.next_token();
            // One row without columns, which the grammar accepts only with FROM.
            Tree::Plain(Box::new(Statement::Query(query("SELECT FROM (VALUES (1)) AS one")?)))
        } else {
            Tree::Plain(Box::new(parser.parse_statement()?))
        });
        if !matches!(parser.peek_token_ref().token, Token::SemiColon | Token::EOF) {
            return parser.expected_ref("end of statement", parser.peek_token_ref());
        }
    }
}

/// Whether the next statement is the single word SELECT.
fn is_alone(parser: &Parser<'_>) -> bool {
    matches!(&parser.peek_nth_token_ref(0).token, Token::Word(word) if word.keyword == Keyword::SELECT)
        && matches!(parser.peek_nth_token_ref(1).token, Token::SemiColon | Token::EOF)
}

/// Parses a query that is composed from names as they were written.
pub(crate) fn query(text: &str) -> Result<Box<Query>, ParserError> {
    Parser::new(DIALECT).with_recursion_limit(DEPTH).try_with_sql(text)?.parse_query()
}

/// Parses an expression that the catalog stores.
pub(crate) fn expression(text: &str) -> Result<Expr> {
    let mut expr = parser(text)?.parse_expr().map_err(|error| failure(text, &error))?;
    arrange(&mut expr);
    Ok(expr)
}

/// Returns a parser at the beginning of a text.
fn parser(text: &str) -> Result<Parser<'static>> {
    check_size(text)?;
    let tokens = Tokenizer::new(DIALECT, text).tokenize_with_location();
    let mut tokens = tokens.map_err(|error| failure(text, &error.into()))?;
    check_chains(&tokens)?;
    check_words(&tokens)?;
    strengthen_locks(&mut tokens);
    mark_lists(&mut tokens);
    mark_subscripts(&mut tokens);
    join_literals(&mut tokens)?;
    Ok(Parser::new(DIALECT).with_recursion_limit(DEPTH).with_tokens_with_locations(tokens))
}

/// Rejects words that the parser skips after a column's definition, where other systems have them.
fn check_words(tokens: &[TokenWithSpan]) -> Result<()> {
    let is_foreign = |token: &&TokenWithSpan| match &token.token {
        Token::Word(word) => matches!(word.keyword, Keyword::AUTO_INCREMENT | Keyword::AUTOINCREMENT),
        _ => false,
    };
    match tokens.iter().find(is_foreign) {
        None => Ok(()),
        Some(token) => Err(SqlError::unsupported(&token.token).hint("Write GENERATED BY DEFAULT AS IDENTITY.")),
    }
}

/// The grammar has two row locks, PostgreSQL four: FOR NO KEY UPDATE becomes FOR UPDATE, FOR KEY SHARE becomes FOR
/// SHARE, which block everything that the weaker ones block.
fn strengthen_locks(tokens: &mut Vec<TokenWithSpan>) {
    use Keyword::{FOR, KEY, NO, SHARE, UPDATE};
    let keyword = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => word.keyword,
        _ => Keyword::NoKeyword,
    };
    let words = tokens.iter().enumerate().filter(|(_, token)| !matches!(token.token, Token::Whitespace(_)));
    let words: Vec<_> = words.map(|(at, token)| (at, keyword(token))).collect();
    let mut needless = Vec::new();
    for at in 0..words.len() {
        match words[at..] {
            [(_, FOR), (no, NO), (key, KEY), (_, UPDATE), ..] => needless.extend([no, key]),
            [(_, FOR), (key, KEY), (_, SHARE), ..] => needless.push(key),
            _ => {}
        }
    }
    let mut at = 0;
    tokens.retain(|_| {
        at += 1;
        needless.binary_search(&(at - 1)).is_err()
    });
}

/// Joins literals with only blanks and an end of line between them into one, as in SQL's standard; on one line they are
/// not joined. The first literal decides whether the others have escapes.
fn join_literals(tokens: &mut Vec<TokenWithSpan>) -> Result<()> {
    let mut joined: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // The number of blank tokens after the literal, and whether a line ended there.
    let (mut blanks, mut has_ended) = (0, false);
    for token in tokens.drain(..) {
        match &token.token {
            Token::Whitespace(Whitespace::MultiLineComment(_)) => (blanks, has_ended) = (0, false),
            Token::Whitespace(blank) => {
                has_ended |= matches!(blank, Whitespace::Newline | Whitespace::SingleLineComment { .. });
                blanks += 1;
            }
            Token::SingleQuotedString(more) if blanks > 0 && joined.len() > blanks => {
                let at = joined.len() - 1 - blanks;
                match &mut joined[at].token {
                    // The parser would take it for a name.
                    Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) if !has_ended => {
                        // The message omits the literal: it may be a password.
                        let message = "syntax error: a literal behind another one on the same line";
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                    }
                    Token::SingleQuotedString(text) => text.push_str(more),
                    Token::EscapedStringLiteral(text) => text.push_str(&unescaped(more)),
                    _ => {
                        (blanks, has_ended) = (0, false);
                        joined.push(token);
                        continue;
                    }
                }
                joined.truncate(at + 1);
                (blanks, has_ended) = (0, false);
                continue;
            }
            _ => (blanks, has_ended) = (0, false),
        }
        joined.push(token);
    }
    *tokens = joined;
    Ok(())
}

/// Returns the text of a literal that continues one with escapes; text that is no escape stays unchanged.
fn unescaped(text: &str) -> String {
    let quoted = format!("E'{}'", text.replace('\'', "''"));
    match Tokenizer::new(DIALECT, &quoted).tokenize().as_deref() {
        Ok([Token::EscapedStringLiteral(text)]) => text.clone(),
        _ => text.to_owned(),
    }
}

/// Parses the name of an object in a literal.
pub(crate) fn object_name(text: &str) -> Result<ObjectName> {
    let parsed = parser(text).ok().and_then(|mut parser| parser.parse_object_name(false).ok());
    parsed.ok_or_else(|| SqlError::new(SqlState::SYNTAX_ERROR, format!("invalid name syntax: \"{text}\"")))
}

/// Whether the token is an operator with a name that the grammar does not know otherwise.
fn is_operator(token: &str) -> bool {
    let is_sign = |sign| "+-*/<>=~!@#%^&|`?".contains(sign);
    !token.is_empty()
        && token.chars().all(is_sign)
        && !["+", "-", "*", "/", "%", "^", "<", ">", "=", "<=", ">=", "=>", "<>", "!="].contains(&token)
}

fn failure(text: &str, error: &ParserError) -> SqlError {
    let message = match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
        ParserError::RecursionLimitExceeded => {
            return SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "the statement is nested too deeply");
        }
    };
    // The parser reports the place at the end of its message.
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
    // An operator directly after itself: PostgreSQL accepts any operator before an operand, and finds none of this
    // name.
    let before = position.map(|position| text.chars().take(position - 1).collect::<String>()).unwrap_or_default();
    let stands_twice = |found: &&str| is_operator(found) && before.trim_end().ends_with(found);
    if let Some(found) = what.strip_prefix("Expected: an expression, found: ").filter(stands_twice) {
        let message = format!("operator does not exist: {found}");
        return SqlError::new(SqlState::UNDEFINED_FUNCTION, message).at(position);
    }
    // The message also shows the found token, but must not show a password.
    let message = match (password_in(text), what.strip_prefix("Expected: ")) {
        (None, _) => format!("syntax error: {}", what.trim()),
        (Some(_), Some(expected)) => {
            format!("syntax error: Expected: {}", expected.split(", found").next().unwrap_or_default())
        }
        (Some(_), None) => "syntax error".into(),
    };
    SqlError::new(SqlState::SYNTAX_ERROR, message).at(position)
}
