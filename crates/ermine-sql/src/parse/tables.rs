//! The query `TABLE name`, which sqlparser reads in one form only: it becomes `SELECT * FROM name`.

use sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use super::words::is_plain_word;
use crate::keywords::is_reserved;

/// Replaces the word TABLE where it begins a query.
pub(super) fn expand_tables(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.iter().any(|token| is_word(&token.token, &[Keyword::TABLE])) {
        return;
    }
    let words = tokens.iter().enumerate().filter(|(_, token)| !matches!(token.token, Token::Whitespace(_)));
    let words: Vec<_> = words.map(|(at, token)| (at, &token.token)).collect();
    let begins = |place: usize| {
        let before = place.checked_sub(1).map_or(&Token::SemiColon, |before| words[before].1);
        let is_one = is_word(words[place].1, &[Keyword::TABLE]) && may_precede(before);
        is_one && is_query(&words[place + 1..]) && !is_of_publication(&words, place)
    };
    let queries: Vec<usize> = (0..words.len()).filter(|place| begins(*place)).map(|place| words[place].0).collect();
    let mut expanded = Vec::with_capacity(tokens.len() + 2 * queries.len());
    for (at, token) in tokens.drain(..).enumerate() {
        if queries.binary_search(&at).is_err() {
            expanded.push(token);
            continue;
        }
        let query = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
        expanded.extend(query.map(|word| TokenWithSpan::new(word, token.span)));
    }
    *tokens = expanded;
}

/// Whether a word is in a statement about a publication, where lists of tables begin with the word TABLE.
fn is_of_publication(words: &[(usize, &Token)], place: usize) -> bool {
    let begin = words[..place].iter().rposition(|(_, token)| **token == Token::SemiColon).map_or(0, |end| end + 1);
    words.get(begin + 1).is_some_and(|(_, second)| is_plain_word(second, "publication"))
}

fn is_word(token: &Token, wanted: &[Keyword]) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && wanted.contains(&word.keyword))
}

/// Whether the word TABLE behind this token may begin a query: other statements have the word, too.
fn may_precede(token: &Token) -> bool {
    use Keyword::{
        ADD, ALTER, CREATE, DROP, EXTERNAL, FOREIGN, GLOBAL, INTO, LOCAL, LOCK, ON, SET, TEMP, TEMPORARY, TRUNCATE,
        UNLOGGED,
    };
    let others = [
        ADD, ALTER, CREATE, DROP, EXTERNAL, FOREIGN, GLOBAL, INTO, LOCAL, LOCK, ON, SET, TEMP, TEMPORARY, TRUNCATE,
        UNLOGGED,
    ];
    *token != Token::Period && !is_word(token, &others)
}

/// Whether a name follows, and then what may follow a whole query.
fn is_query(mut rest: &[(usize, &Token)]) -> bool {
    use Keyword::{EXCEPT, FETCH, FOR, INTERSECT, LIMIT, OFFSET, ON, ORDER, RETURNING, UNION, WITH};
    let is_name =
        |token: &Token| matches!(token, Token::Word(word) if word.quote_style.is_some() || !is_reserved(&word.value));
    if let [(_, only), (_, next), ..] = rest
        && is_word(only, &[Keyword::ONLY])
        && is_name(next)
    {
        rest = &rest[1..];
    }
    loop {
        let [(_, name), after @ ..] = rest else { return false };
        if !is_name(name) {
            return false;
        }
        let [(_, Token::Period), after @ ..] = after else {
            let ends = |token: &Token| {
                matches!(token, Token::EOF | Token::SemiColon | Token::RParen)
                    || is_word(
                        token,
                        &[EXCEPT, FETCH, FOR, INTERSECT, LIMIT, OFFSET, ON, ORDER, RETURNING, UNION, WITH],
                    )
            };
            return after.first().is_none_or(|(_, token)| ends(token));
        };
        rest = after;
    }
}
