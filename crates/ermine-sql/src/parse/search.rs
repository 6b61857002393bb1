//! SEARCH and CYCLE of recursive queries, which the grammar lacks: the clauses are put into the name of their WITH query,
//! where the binder finds them (`bind/search.rs`).

use sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan, Whitespace},
};

use super::conflicts::text_of;

/// The beginning of the name of a WITH query that has clauses. Its own name follows, and behind the same sign the
/// clauses.
pub(crate) const SEARCHES: &str = "\u{1}search ";

/// Puts the clauses of each WITH query into its name.
pub(super) fn mark_searches(tokens: &mut [TokenWithSpan]) {
    let is_named = |token: &Token, name: &str| matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name));
    let places: Vec<_> = (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).collect();
    let mut open: Vec<usize> = Vec::new();
    let mut number = 0;
    while number < places.len() {
        let at = |number: usize| places.get(number).map_or(&Token::EOF, |at| &tokens[*at].token);
        let opened = match at(number) {
            Token::LParen => {
                open.push(number);
                None
            }
            Token::RParen => open.pop(),
            _ => None,
        };
        number += 1;
        let Some(opened) = opened else { continue };
        let is_search = is_named(at(number), "search")
            && (is_named(at(number + 1), "depth") || is_named(at(number + 1), "breadth"));
        // A name may follow: `(..) cycle` in FROM has none.
        let is_cycle = is_named(at(number), "cycle") && matches!(at(number + 1), Token::Word(_));
        if !is_search && !is_cycle {
            continue;
        }
        let Some(name) = name_before(&at, opened) else { continue };
        // Without its end the clause is an error, wherever the parser meets it.
        let Some(end) = end_of(&at, number) else { return };
        let clauses: Vec<_> = (number..end).map(|number| text_of(at(number))).collect();
        let marked = format!("{SEARCHES}{}\u{1}{}", text_of(at(name)), clauses.join(" "));
        tokens[places[name]].token = Token::make_word(&marked, Some('"'));
        for at in &places[number..end] {
            tokens[*at].token = Token::Whitespace(Whitespace::Space);
        }
        number = end;
    }
}

/// Returns the number of the word that names the WITH query whose query is opened by a parenthesis.
fn name_before<'t>(at: &dyn Fn(usize) -> &'t Token, opened: usize) -> Option<usize> {
    let is = |number: usize, wanted| matches!(at(number), Token::Word(word) if word.keyword == wanted);
    let mut number = opened.checked_sub(1)?;
    if is(number, Keyword::MATERIALIZED) {
        number = number.checked_sub(1)?;
        number -= usize::from(is(number, Keyword::NOT)).min(number);
    }
    if !is(number, Keyword::AS) {
        return None;
    }
    number = number.checked_sub(1)?;
    if *at(number) == Token::RParen {
        while *at(number) != Token::LParen {
            number = number.checked_sub(1)?;
        }
        number = number.checked_sub(1)?;
    }
    matches!(at(number), Token::Word(_)).then_some(number)
}

/// Returns the number of the word behind the clauses: CYCLE ends with USING and a name, SEARCH with SET and a name.
fn end_of<'t>(at: &dyn Fn(usize) -> &'t Token, mut number: usize) -> Option<usize> {
    let is = |number: usize, name: &str| matches!(at(number), Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name));
    for (clause, last) in [("search", "set"), ("cycle", "using")] {
        if is(number, clause) {
            while !is(number, last) {
                number += 1;
                if matches!(at(number), Token::EOF | Token::SemiColon) {
                    return None;
                }
            }
            number += 2;
        }
    }
    Some(number)
}
