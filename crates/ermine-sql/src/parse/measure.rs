//! Bounds on the size of the tree of a text, computed before the tree exists.

use sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use crate::error::{Result, SqlError, SqlState};

/// Maximum number of words, signs and blanks in a text.
const TOKENS_MAX: usize = 2_000_000;
/// Approximate bytes that tokens and trees take for each of them.
const TOKEN_BYTES: usize = 560;
/// Maximum number of statements in a text: the tree of one takes some 20 KiB.
const STATEMENTS_MAX: usize = 10_000;
/// Maximum number of parts that a statement may link: the stack of a thread (2 MiB) is enough for twice as many.
const LINKS_MAX: usize = 4000;
/// Maximum number of queries and joins in a statement: each is larger than an operator.
const QUERIES_MAX: usize = 400;

/// Fails for texts of too many tokens.
pub(super) fn check_size(text: &str) -> Result<()> {
    if text.len() <= TOKENS_MAX { Ok(()) } else { tree_bytes(text).map(drop) }
}

/// Returns the approximate bytes that the tree of a text takes. Fails for texts of too many tokens. It never counts too
/// few tokens, and too many only in dollar quotes.
pub(crate) fn tree_bytes(text: &str) -> Result<usize> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii();
    let bytes = text.as_bytes();
    let (mut at, mut count) = (0, 0);
    while let Some(&byte) = bytes.get(at) {
        let rest = &bytes[at..];
        at += match byte {
            b'\'' | b'"' => quoted(rest, at > 0 && matches!(bytes[at - 1], b'e' | b'E')),
            _ if is_word(byte) => rest.iter().position(|&byte| !is_word(byte)).unwrap_or(rest.len()),
            _ => 1,
        };
        count += 1;
    }
    if count <= TOKENS_MAX {
        return Ok(text.len() + count * TOKEN_BYTES);
    }
    let message = format!("a text of more than {TOKENS_MAX} words and signs");
    Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message).hint("Send it in parts, or values as parameters."))
}

/// Returns the length of the quoted text that `bytes` begin with.
fn quoted(bytes: &[u8], has_escapes: bool) -> usize {
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        at += match byte {
            b'\\' if has_escapes => 2,
            _ if byte == bytes[0] => return at + 1,
            _ => 1,
        };
    }
    bytes.len()
}

/// Fails for texts of too many statements, and for statements that link too much: trees are as deep as chains are long,
/// and so is the stack that walks them. The items between commas each begin their own chain; inside parentheses the
/// surrounding chain continues.
pub(super) fn check_chains(tokens: &[TokenWithSpan]) -> Result<()> {
    let too_complex = |message: String| Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
    let mut levels = vec![0];
    let (mut links, mut queries, mut statements) = (0, 0, 1);
    for token in tokens {
        match &token.token {
            Token::SemiColon => {
                (levels, links, queries) = (vec![0], 0, 0);
                statements += 1;
                continue;
            }
            Token::Comma => {
                links -= levels.last_mut().map_or(0, std::mem::take);
                continue;
            }
            Token::RParen | Token::RBracket => {
                if levels.len() > 1 {
                    links -= levels.pop().unwrap_or_default();
                }
                continue;
            }
            Token::Word(word) => match word.keyword {
                Keyword::NoKeyword => continue,
                Keyword::SELECT | Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT | Keyword::JOIN => queries += 1,
                _ => {}
            },
            Token::Whitespace(_) | Token::Number(..) | Token::SingleQuotedString(_) | Token::Placeholder(_) => continue,
            Token::Period => continue,
            _ => {}
        }
        links += 1;
        if let Some(level) = levels.last_mut() {
            *level += 1;
        }
        if matches!(token.token, Token::LParen | Token::LBracket) {
            levels.push(0);
        }
        if links > LINKS_MAX {
            return too_complex(format!("a chain of more than {LINKS_MAX} operators and words"));
        }
        if queries > QUERIES_MAX {
            return too_complex(format!("a statement of more than {QUERIES_MAX} queries and joins"));
        }
        if statements > STATEMENTS_MAX {
            return too_complex(format!("a text of more than {STATEMENTS_MAX} statements"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sqlparser::{dialect::PostgreSqlDialect, tokenizer::Tokenizer};

    use super::*;

    fn chains(text: &str) -> Result<()> {
        check_chains(&Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().unwrap())
    }

    #[test]
    fn texts_are_counted_by_their_tokens() {
        let many = TOKENS_MAX;
        for text in ["1,", " ", "\n", "a ", "E'\\'' ,", "'' "] {
            assert!(check_size(&text.repeat(many + 1)).is_err(), "{text:?}");
        }
        // An escaped quote seems to open a literal, but does not hide what follows it.
        assert!(check_size(&format!("E'\\'',{}", "1,".repeat(many))).is_err());
        for text in [format!("'{}'", "1,".repeat(many)), "a".repeat(2 * many), format!("\"{}\"", ", ".repeat(many))] {
            check_size(&text).unwrap();
        }
    }

    #[test]
    fn chains_end_at_commas_and_statements() {
        for link in ["+1", "::int", " AND a", " IS NULL", "[1]", " COLLATE c"] {
            assert!(chains(&format!("SELECT 1{}", link.repeat(LINKS_MAX + 1))).is_err(), "{link:?}");
            assert!(chains(&format!("SELECT (1), (f(1, 2{}", link.repeat(LINKS_MAX + 1))).is_err(), "{link:?}");
        }
        for (start, part) in [("SELECT 1", ", a + 1"), ("VALUES (1)", ", (1, -1)"), ("SELECT 1", "; SELECT 1 + 1")] {
            chains(&format!("{start}{}", part.repeat(LINKS_MAX))).unwrap();
        }
        // A chain continues after parentheses, and inside them.
        assert!(chains(&format!("SELECT 1{}", "+f(1,2)".repeat(LINKS_MAX))).is_err());
        assert!(chains(&format!("SELECT 1{}", "+(1,2".repeat(LINKS_MAX))).is_err());
        assert!(chains(&"SELECT 1 UNION ".repeat(QUERIES_MAX)).is_err());
        assert!(chains(&"SELECT 1;".repeat(STATEMENTS_MAX + 1)).is_err());
    }
}
