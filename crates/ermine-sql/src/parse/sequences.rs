//! Options of sequences in any order.
//!
//! The grammar has one order of them, PostgreSQL any. So they are brought into that order before they are parsed, in
//! CREATE SEQUENCE and in the parentheses of an identity column.

use sqlparser::{
    keywords::Keyword,
    tokenizer::{Span, Token, TokenWithSpan, Whitespace},
};

/// Tokens that options may take, blanks included.
const TOKENS_MAX: usize = 200;

/// Brings the options of sequences into the order of the grammar. Where something else stands among them, they stay as
/// they are, and the parser reports it.
pub(super) fn order_options(tokens: &mut Vec<TokenWithSpan>) {
    let is_sequence = |token: &TokenWithSpan| matches!(keyword(&token.token), Keyword::SEQUENCE | Keyword::IDENTITY);
    if !tokens.iter().any(is_sequence) {
        return;
    }
    let (mut all, mut at) = (Vec::with_capacity(tokens.len()), 0);
    while at < tokens.len() {
        let region = match keyword(&tokens[at].token) {
            Keyword::SEQUENCE => after_name(tokens, at),
            Keyword::IDENTITY => in_parentheses(tokens, at),
            _ => None,
        };
        let ordered = region.and_then(|(first, end)| Some((first, end, ordered(&tokens[first..end])?)));
        match ordered {
            Some((first, end, ordered)) => {
                all.extend_from_slice(&tokens[at..first]);
                all.extend(ordered);
                at = end;
            }
            None => {
                all.push(tokens[at].clone());
                at += 1;
            }
        }
    }
    *tokens = all;
}

fn keyword(token: &Token) -> Keyword {
    match token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// Returns the place of the first token from `at` on that is not blank.
fn next(tokens: &[TokenWithSpan], at: usize) -> usize {
    (at..tokens.len()).find(|at| !is_blank(&tokens[*at])).unwrap_or(tokens.len())
}

/// Returns the options of CREATE SEQUENCE, whose second word is at `at`: from the end of the name to the end of the
/// statement.
fn after_name(tokens: &[TokenWithSpan], at: usize) -> Option<(usize, usize)> {
    let before = (0..at).rev().filter(|at| !is_blank(&tokens[*at])).map(|at| keyword(&tokens[at].token));
    let mut before = before.skip_while(|word| matches!(word, Keyword::TEMP | Keyword::TEMPORARY));
    if before.next() != Some(Keyword::CREATE) {
        return None;
    }
    let mut at = next(tokens, at + 1);
    for word in [Keyword::IF, Keyword::NOT, Keyword::EXISTS] {
        if at < tokens.len() && keyword(&tokens[at].token) == word {
            at = next(tokens, at + 1);
        }
    }
    // A name, and after each period another one.
    loop {
        at = next(tokens, at + 1);
        match tokens.get(at) {
            Some(token) if token.token == Token::Period => at = next(tokens, at + 1),
            _ => break,
        }
    }
    let last = tokens.len().min(at + TOKENS_MAX);
    let end = (at..last).find(|at| matches!(tokens[*at].token, Token::SemiColon | Token::EOF));
    let end = end.or_else(|| (last == tokens.len()).then_some(last))?;
    Some((at, end)).filter(|(first, end)| first < end)
}

/// Returns the options of an identity column, in the parentheses after the word at `at`.
fn in_parentheses(tokens: &[TokenWithSpan], at: usize) -> Option<(usize, usize)> {
    let open = next(tokens, at + 1);
    if tokens.get(open)?.token != Token::LParen {
        return None;
    }
    let close = (open..tokens.len().min(open + TOKENS_MAX)).find(|at| tokens[*at].token == Token::RParen)?;
    Some((open + 1, close))
}

/// Returns the tokens of options in the order of the grammar; `None` where something else is among them. OWNED BY NONE
/// is left out.
fn ordered(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    use Keyword::{AS, BY, CACHE, CYCLE, INCREMENT, MAXVALUE, MINVALUE, NO, NONE, OWNED, START, WITH};
    let words: Vec<&TokenWithSpan> = tokens.iter().filter(|token| !is_blank(token)).collect();
    let is = |at: usize, word: Keyword| words.get(at).is_some_and(|token| keyword(&token.token) == word);
    // The end of a number, which may have a sign.
    let number = |at: usize| {
        let at = at + usize::from(words.get(at).is_some_and(|token| matches!(token.token, Token::Minus | Token::Plus)));
        words.get(at).is_some_and(|token| matches!(token.token, Token::Number(..))).then_some(at + 1)
    };
    let (mut at, mut options) = (0, Vec::new());
    while at < words.len() {
        let (place, end) = if is(at, AS) {
            (0, at + 2)
        } else if is(at, INCREMENT) {
            (1, number(at + 1 + usize::from(is(at + 1, BY)))?)
        } else if is(at, MINVALUE) {
            (2, number(at + 1)?)
        } else if is(at, NO) && is(at + 1, MINVALUE) {
            (2, at + 2)
        } else if is(at, MAXVALUE) {
            (3, number(at + 1)?)
        } else if is(at, NO) && is(at + 1, MAXVALUE) {
            (3, at + 2)
        } else if is(at, START) {
            (4, number(at + 1 + usize::from(is(at + 1, WITH)))?)
        } else if is(at, CACHE) {
            (5, number(at + 1)?)
        } else if is(at, CYCLE) {
            (6, at + 1)
        } else if is(at, NO) && is(at + 1, CYCLE) {
            (6, at + 2)
        } else if is(at, OWNED) && is(at + 1, BY) && is(at + 2, NONE) {
            at += 3;
            continue;
        } else {
            return None;
        };
        options.push((place, words.get(at..end)?));
        at = end;
    }
    options.sort_by_key(|(place, _)| *place);
    // One option given twice is an error, which the parser reports.
    let blank = |span: Span| TokenWithSpan { token: Token::Whitespace(Whitespace::Space), span };
    let all = options.into_iter().flat_map(|(_, option)| option.iter().copied().cloned());
    Some(all.flat_map(|token| [blank(token.span), token]).collect())
}
