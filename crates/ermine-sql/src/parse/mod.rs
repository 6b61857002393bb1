//! From text to the parser's trees.
//!
//! Trees are larger than texts, a thousand times if a text consists only of statements, and as deep as its chains are
//! long. So a text is measured before it is cut into tokens (`measure`), and the tokens before they become
//! trees: no text takes more than some gigabytes, and none takes more stack than a thread has.

mod block;
mod conflicts;
mod grammar;
mod lacking;
mod likes;
mod marks;
mod measure;
pub(crate) mod place;
mod precedence;
mod search;
mod sequences;
mod tables;
mod windows;
mod words;

use std::sync::LazyLock;

use regex_automata::meta::Regex;
use sqlparser::{
    ast::{Expr, Ident, ObjectName, Query},
    dialect::PostgreSqlDialect,
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Whitespace},
};

pub(crate) use self::{
    block::{Block, Step, Tokens, block},
    conflicts::{check_index_part, conflict_expression},
    grammar::{check_grammar, check_query},
    lacking::{lacking, take_words},
    likes::{LikeOption, Likes, like_of},
    marks::{CURRENT_OF, OVERRIDING, current_of, starred},
    measure::tree_bytes,
    precedence::correct_precedence,
    search::SEARCHES,
    windows::{Excluded, exclusion_of},
    words::{SYMMETRIC, VARIADIC},
};
use self::{
    conflicts::{check_included, mark_conflicts},
    likes::mark_likes,
    marks::{
        cast_constants, cast_intervals, mark_current_of, mark_lists, mark_merges, mark_overriding, mark_subscripts,
        mark_trims, name_definitions, rewrite_local_authorization, unwrap_rows,
    },
    measure::{check_chains, check_size},
    search::mark_searches,
    sequences::order_options,
    tables::expand_tables,
    windows::rewrite_frames,
    words::{forget_foreign_words, rewrite_words},
};
use crate::{
    error::{Result, SqlError, SqlState},
    functions::quote_ident,
    keywords::is_reserved,
};

/// Maximum depth of nesting: a statement in a statement takes the parser some 20 KiB of stack.
const DEPTH: usize = 60;
const DIALECT: &PostgreSqlDialect = &PostgreSqlDialect {};

/// Parses a query that is composed from names as they were written.
pub(crate) fn query(text: &str) -> Result<Box<Query>, ParserError> {
    Parser::new(DIALECT).with_recursion_limit(DEPTH).try_with_sql(text)?.parse_query()
}

/// Parses an expression that the catalog stores.
pub(crate) fn expression(text: &str) -> Result<Expr> {
    let mut expr = parser(text)?.parse_expr().map_err(|error| failure(text, &error))?;
    correct_precedence(&mut expr);
    Ok(expr)
}

/// Parses a query that the catalog stores.
pub(crate) fn stored_query(text: &str) -> Result<Box<Query>> {
    let mut query = parser(text)?.parse_query().map_err(|error| failure(text, &error))?;
    correct_precedence(&mut *query);
    Ok(query)
}

/// Returns a name, in quotes where it needs them.
pub(crate) fn ident(name: &str) -> Ident {
    if quote_ident(name) == name { Ident::new(name) } else { Ident::with_quote('"', name) }
}

/// Returns a parser at the beginning of a text.
pub(crate) fn parser(text: &str) -> Result<Parser<'static>> {
    tokens(text).map(parser_of)
}

/// Returns a parser at the beginning of tokens.
pub(crate) fn parser_of(tokens: Vec<TokenWithSpan>) -> Parser<'static> {
    Parser::new(DIALECT).with_recursion_limit(DEPTH).with_tokens_with_locations(tokens)
}

/// Cuts a text into tokens, and writes them as the parser expects them.
fn tokens(text: &str) -> Result<Vec<TokenWithSpan>> {
    check_size(text)?;
    let tokens = Tokenizer::new(DIALECT, text).tokenize_with_location();
    let mut tokens = tokens.map_err(|error| failure(text, &error.into()))?;
    cut_signs(&mut tokens);
    forget_foreign_words(&mut tokens);
    check_chains(&tokens)?;
    check_words(&tokens)?;
    check_not_null(&tokens)?;
    check_included(&tokens)?;
    strengthen_locks(&mut tokens);
    leave_out_only(&mut tokens);
    order_options(&mut tokens);
    expand_tables(&mut tokens);
    mark_searches(&mut tokens);
    mark_conflicts(&mut tokens);
    mark_likes(&mut tokens);
    mark_lists(&mut tokens);
    mark_subscripts(&mut tokens);
    mark_trims(&mut tokens);
    mark_overriding(&mut tokens);
    mark_merges(&mut tokens);
    unwrap_rows(&mut tokens);
    mark_current_of(&mut tokens);
    name_definitions(&mut tokens);
    rewrite_local_authorization(&mut tokens);
    join_literals(&mut tokens)?;
    cast_constants(&mut tokens);
    cast_intervals(&mut tokens);
    rewrite_words(&mut tokens);
    rewrite_frames(&mut tokens);
    Ok(tokens)
}

/// Cuts signs off the end of operators, as PostgreSQL's lexer does: `a>-1` has two operators. An operator may end in a
/// sign only if it contains a character that SQL's own operators do not have, so these need no blank behind them.
fn cut_signs(tokens: &mut Vec<TokenWithSpan>) {
    let may_end_in_sign = |operator: &str| operator.contains(|sign| "~!@#%^&|`?".contains(sign));
    let is_cut = |token: &Token| matches!(token, Token::CustomBinaryOperator(operator) if !may_end_in_sign(operator));
    if !tokens.iter().any(|token| is_cut(&token.token)) {
        return;
    }
    let mut cut = Vec::with_capacity(tokens.len());
    for TokenWithSpan { token, span } in tokens.drain(..) {
        match &token {
            Token::CustomBinaryOperator(operator) if is_cut(&token) => {
                // Its first character stays, even if it is a sign.
                let (first, rest) = operator.split_at(1);
                let head = first.len() + rest.trim_end_matches(['+', '-']).len();
                cut.push(TokenWithSpan { token: operator_of(&operator[..head]), span });
                let signs = (head..operator.len()).map(|at| operator_of(&operator[at..=at]));
                cut.extend(signs.map(|token| TokenWithSpan { token, span }));
            }
            _ => cut.push(TokenWithSpan { token, span }),
        }
    }
    *tokens = cut;
}

/// Returns the token of an operator.
fn operator_of(text: &str) -> Token {
    match text {
        "+" => Token::Plus,
        "-" => Token::Minus,
        "*" => Token::Mul,
        "/" => Token::Div,
        "=" => Token::Eq,
        "<" => Token::Lt,
        ">" => Token::Gt,
        "<=" => Token::LtEq,
        ">=" => Token::GtEq,
        "<>" => Token::Neq,
        "<<" => Token::ShiftLeft,
        ">>" => Token::ShiftRight,
        other => Token::CustomBinaryOperator(other.to_owned()),
    }
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

/// Rejects NOT NULL directly after a value, which the parser takes for IS NOT NULL. Definitions of columns have it, and
/// lists of columns in COPY.
fn check_not_null(tokens: &[TokenWithSpan]) -> Result<()> {
    use Keyword::{ALTER, BY, COPY, CREATE, END, FALSE, IS, NOT, NULL, TRUE};
    let ends_value = |token: &Token| match token {
        Token::Word(word) => {
            let may_end = !is_reserved(&word.value) || matches!(word.keyword, TRUE | FALSE | NULL | END);
            word.quote_style.is_some() || !matches!(word.keyword, IS | BY) && may_end
        }
        Token::Number(..) | Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) => true,
        Token::RParen | Token::RBracket | Token::Placeholder(_) => true,
        _ => false,
    };
    let is =
        |token: &Token, keywords: &[Keyword]| matches!(token, Token::Word(word) if keywords.contains(&word.keyword));
    for statement in tokens.split(|token| token.token == Token::SemiColon) {
        let mut words =
            statement.iter().map(|token| &token.token).filter(|token| !matches!(token, Token::Whitespace(_)));
        let Some(mut before) = words.next().filter(|first| !is(first, &[CREATE, ALTER, COPY])) else { continue };
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            if is(word, &[NOT]) && ends_value(before) && words.peek().is_some_and(|next| is(next, &[NULL])) {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"NOT\""));
            }
            before = word;
        }
    }
    Ok(())
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

/// Removes ONLY before the names of tables: none has others that inherit from it. It is a reserved word.
fn leave_out_only(tokens: &mut Vec<TokenWithSpan>) {
    use Keyword::{FROM, INTO, JOIN, ONLY, TABLE, UPDATE};
    let mut precedes_table = false;
    tokens.retain(|token| match &token.token {
        Token::Whitespace(_) => true,
        Token::Word(word) if word.keyword == ONLY && word.quote_style.is_none() && precedes_table => false,
        Token::Word(word) => {
            precedes_table = word.quote_style.is_none() && matches!(word.keyword, FROM | INTO | JOIN | TABLE | UPDATE);
            true
        }
        token => {
            precedes_table = *token == Token::Comma;
            true
        }
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

/// Converts an error of the parser.
pub(crate) fn failure(text: &str, error: &ParserError) -> SqlError {
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
        let location = Location { line: line.trim().parse().ok()?, column: column.trim().parse().ok()? };
        position(text, location)
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

/// Converts a place in a text to a count of characters, from 1 on.
pub(crate) fn position(text: &str, location: Location) -> Option<usize> {
    if location.line == 0 {
        return None;
    }
    let before = text.split('\n').take(location.line as usize - 1).map(|line| line.chars().count() + 1).sum::<usize>();
    Some(before + location.column as usize)
}

/// Returns the place in a text where a role's password may begin: after the word before it. Such a text is not to be
/// shown to others.
pub fn password_in(text: &str) -> Option<usize> {
    static BEFORE: LazyLock<Regex> = LazyLock::new(|| {
        let words = r"(?is)\b(?:create|alter)\b.+?\b(?:user|role)\b.+?\bpassword\b";
        Regex::new(words).expect("it is well-formed")
    });
    BEFORE.find(text).map(|found| found.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_found_in_texts() {
        for (text, before) in [
            ("CREATE USER eva PASSWORD 'pencil'", Some("CREATE USER eva PASSWORD")),
            ("BEGIN; alter/**/role\neva password$$pencil$$", Some("BEGIN; alter/**/role\neva password")),
            ("CREATE USER password PASSWORD'pencil'", Some("CREATE USER password")),
            ("SELECT password FROM users", None),
            ("SELECT 'created', role, password", None),
        ] {
            assert_eq!(password_in(text).map(|at| &text[..at]), before);
        }
    }
}
