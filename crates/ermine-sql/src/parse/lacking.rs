//! Statements of PostgreSQL that are missing here, by their first words: most are unknown to the parser, or known in
//! another form. They are skipped, so that they get the answer "not supported" instead of a syntax error.

use sqlparser::{parser::Parser, tokenizer::Token};

/// The first words of such statements; each prefix stands behind the words that it begins.
const LACKING: &[&str] = &[
    "ALTER AGGREGATE",
    "ALTER COLLATION",
    "ALTER CONVERSION",
    "ALTER DATABASE",
    "ALTER EVENT TRIGGER",
    "ALTER FOREIGN DATA WRAPPER",
    "ALTER FOREIGN TABLE",
    "ALTER FUNCTION",
    "ALTER GROUP",
    "ALTER LANGUAGE",
    "ALTER LARGE OBJECT",
    "ALTER OPERATOR CLASS",
    "ALTER OPERATOR FAMILY",
    "ALTER OPERATOR",
    "ALTER PROCEDURAL LANGUAGE",
    "ALTER PROCEDURE",
    "ALTER ROUTINE",
    "ALTER RULE",
    "ALTER SERVER",
    "ALTER STATISTICS",
    "ALTER SUBSCRIPTION",
    "ALTER TABLESPACE",
    "ALTER TEXT SEARCH",
    "ALTER TRIGGER",
    "ALTER USER MAPPING",
    "CLUSTER",
    "CREATE ACCESS METHOD",
    "CREATE AGGREGATE",
    "CREATE CAST",
    "CREATE COLLATION",
    "CREATE CONSTRAINT TRIGGER",
    "CREATE CONVERSION",
    "CREATE DEFAULT CONVERSION",
    "CREATE EVENT TRIGGER",
    "CREATE FOREIGN DATA WRAPPER",
    "CREATE FOREIGN TABLE",
    "CREATE FUNCTION",
    "CREATE LANGUAGE",
    "CREATE OPERATOR CLASS",
    "CREATE OPERATOR FAMILY",
    "CREATE OPERATOR",
    "CREATE OR REPLACE AGGREGATE",
    "CREATE OR REPLACE FUNCTION",
    "CREATE OR REPLACE LANGUAGE",
    "CREATE OR REPLACE PROCEDURE",
    "CREATE OR REPLACE RULE",
    "CREATE OR REPLACE TRANSFORM",
    "CREATE OR REPLACE TRIGGER",
    "CREATE OR REPLACE TRUSTED LANGUAGE",
    "CREATE PROCEDURAL LANGUAGE",
    "CREATE PROCEDURE",
    "CREATE RULE",
    "CREATE SERVER",
    "CREATE STATISTICS",
    "CREATE SUBSCRIPTION",
    "CREATE TABLESPACE",
    "CREATE TEXT SEARCH",
    "CREATE TRANSFORM",
    "CREATE TRIGGER",
    "CREATE TRUSTED LANGUAGE",
    "CREATE USER MAPPING",
    "DROP ACCESS METHOD",
    "DROP AGGREGATE",
    "DROP CAST",
    "DROP COLLATION",
    "DROP CONVERSION",
    "DROP EVENT TRIGGER",
    "DROP FOREIGN DATA WRAPPER",
    "DROP FOREIGN TABLE",
    "DROP FUNCTION",
    "DROP LANGUAGE",
    "DROP OPERATOR CLASS",
    "DROP OPERATOR FAMILY",
    "DROP OPERATOR",
    "DROP PROCEDURAL LANGUAGE",
    "DROP PROCEDURE",
    "DROP ROUTINE",
    "DROP RULE",
    "DROP SERVER",
    "DROP STATISTICS",
    "DROP SUBSCRIPTION",
    "DROP TABLESPACE",
    "DROP TEXT SEARCH",
    "DROP TRANSFORM",
    "DROP TRIGGER",
    "DROP USER MAPPING",
    "IMPORT FOREIGN SCHEMA",
    "LOAD",
    "REINDEX",
    "SECURITY LABEL",
];

/// Skips such a statement, if one comes next; returns its first words.
pub(crate) fn lacking(parser: &mut Parser<'_>) -> Option<&'static str> {
    let words = LACKING.iter().find(|words| are_next(parser, words))?;
    skip(parser);
    Some(words)
}

/// Whether words, with a blank between two, come next.
fn are_next(parser: &Parser<'_>, words: &str) -> bool {
    words.split(' ').enumerate().all(|(at, word)| match &parser.peek_nth_token_ref(at).token {
        Token::Word(next) => next.quote_style.is_none() && next.value.eq_ignore_ascii_case(word),
        _ => false,
    })
}

/// Consumes words, with a blank between two, if they come next: for those that are no keywords of the grammar.
pub(crate) fn take_words(parser: &mut Parser<'_>, words: &str) -> bool {
    let are_there = are_next(parser, words);
    if are_there {
        words.split(' ').for_each(|_| _ = parser.next_token());
    }
    are_there
}

/// Goes to the end of a statement. Semicolons in parentheses, and in a body of a function that is no text
/// (`BEGIN ATOMIC .. END`), do not end it.
fn skip(parser: &mut Parser<'_>) {
    let is = |token: &Token, wanted: &str| match token {
        Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted),
        _ => false,
    };
    let mut depth = 0_usize;
    loop {
        match &parser.peek_token_ref().token {
            Token::EOF => return,
            Token::SemiColon if depth == 0 => return,
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            begin if is(begin, "begin") && is(&parser.peek_nth_token_ref(1).token, "atomic") => depth += 1,
            case if depth > 0 && is(case, "case") => depth += 1,
            end if is(end, "end") => depth = depth.saturating_sub(1),
            _ => {}
        }
        parser.next_token();
    }
}
