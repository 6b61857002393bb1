//! Words of PostgreSQL's expressions that the grammar lacks, written as what it has.

use sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan, Whitespace},
};

use super::marks::{is_word, put_in};

/// The name of the function that stands for VARIADIC before the last argument of a call.
pub(crate) const VARIADIC: &str = "\u{1}variadic";

/// The name of the function that stands for SYMMETRIC, around the first bound of BETWEEN.
pub(crate) const SYMMETRIC: &str = "\u{1}symmetric";

/// Makes names of words that the parser knows from other systems, and PostgreSQL does not: `SELECT top FROM t`.
pub(super) fn forget_foreign_words(tokens: &mut [TokenWithSpan]) {
    use Keyword::{
        ANTI, ASOF, CONNECT, DISTRIBUTE, DIV, GLOB, MATCH_CONDITION, MATCH_RECOGNIZE, MEMBER, MINUS, OPEN, OUTPUT,
        PIVOT, PREWHERE, QUALIFY, REGEXP, RLIKE, SEMI, SETTINGS, SORT, TOP, UNPIVOT, XOR,
    };
    for TokenWithSpan { token, .. } in tokens {
        if let Token::Word(word) = token
            && matches!(
                word.keyword,
                ANTI | ASOF
                    | CONNECT
                    | DISTRIBUTE
                    | DIV
                    | GLOB
                    | MATCH_CONDITION
                    | MATCH_RECOGNIZE
                    | MEMBER
                    | MINUS
                    | OPEN
                    | OUTPUT
                    | PIVOT
                    | PREWHERE
                    | QUALIFY
                    | REGEXP
                    | RLIKE
                    | SEMI
                    | SETTINGS
                    | SORT
                    | TOP
                    | UNPIVOT
                    | XOR
            )
        {
            word.keyword = Keyword::NoKeyword;
        }
    }
}

/// Rewrites `LIKE ANY (..)` and its like as operators, `BETWEEN SYMMETRIC` with a function around its first bound, RESET
/// TIME ZONE by the setting's name, `SUBSTRING(x SIMILAR p ESCAPE e)` as a call with three arguments,
/// and `f(a, VARIADIC b)` as a call with a function around the last argument.
pub(super) fn rewrite_words(tokens: &mut Vec<TokenWithSpan>) {
    let is_wanted = |token: &Token| {
        is_word(token, &[Keyword::LIKE, Keyword::ILIKE, Keyword::SIMILAR, Keyword::BETWEEN, Keyword::RESET])
            || is_plain_word(token, "variadic")
    };
    if !tokens.iter().any(|token| is_wanted(&token.token)) {
        return;
    }
    let places: Vec<usize> =
        (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).collect();
    let (mut open, mut marks) = (Vec::new(), Vec::new());
    // The depths of the bounds behind SYMMETRIC whose AND has not come yet.
    let mut bounds: Vec<usize> = Vec::new();
    for (number, &at) in places.iter().enumerate() {
        let before = number.checked_sub(1).map(|number| places[number]);
        let behind = places.get(number + 1).map(|place| tokens[*place].token.clone());
        match &tokens[at].token {
            Token::LParen => {
                let is_substring = before.is_some_and(|before| is_plain_word(&tokens[before].token, "substring"));
                open.push(Parenthesis { is_substring, is_similar: false, is_variadic: false });
            }
            Token::RParen => {
                let closed = open.pop().filter(|open| open.is_variadic);
                marks.extend(closed.map(|_| (at, Token::RParen)));
            }
            token if is_plain_word(token, "variadic") && opens_argument(before.map(|before| &tokens[before].token)) => {
                if let Some(open) = open.last_mut().filter(|open| !open.is_variadic) {
                    open.is_variadic = true;
                    tokens[at].token = Token::make_word(VARIADIC, Some('"'));
                    marks.push((at + 1, Token::LParen));
                }
            }
            token
                if is_word(token, &[Keyword::BETWEEN])
                    && behind.as_ref().is_some_and(|behind| is_plain_word(behind, "symmetric")) =>
            {
                let symmetric = places[number + 1];
                tokens[symmetric].token = Token::make_word(SYMMETRIC, Some('"'));
                marks.push((symmetric + 1, Token::LParen));
                bounds.push(open.len());
            }
            token if is_word(token, &[Keyword::AND]) && bounds.last() == Some(&open.len()) => {
                bounds.pop();
                marks.push((at, Token::RParen));
            }
            token if is_word(token, &[Keyword::RESET]) && is_zone(tokens, &places[number + 1..]) => {
                tokens[places[number + 1]].token = Token::make_word("timezone", None);
                tokens[places[number + 2]].token = Token::Whitespace(Whitespace::Space);
            }
            token if is_word(token, &[Keyword::SIMILAR]) => {
                let is_operator = behind.is_some_and(|behind| is_word(&behind, &[Keyword::TO]));
                if let Some(open) = open.last_mut().filter(|open| open.is_substring && !is_operator) {
                    open.is_similar = true;
                    tokens[at].token = Token::Comma;
                }
            }
            token if is_word(token, &[Keyword::ESCAPE]) && open.last().is_some_and(|open| open.is_similar) => {
                tokens[at].token = Token::Comma;
            }
            token
                if is_word(token, &[Keyword::LIKE, Keyword::ILIKE])
                    && behind.is_some_and(|behind| is_word(&behind, &[Keyword::ANY, Keyword::ALL, Keyword::SOME])) =>
            {
                let is_case_blind = is_word(token, &[Keyword::ILIKE]);
                let not = before.filter(|before| is_word(&tokens[*before].token, &[Keyword::NOT]));
                tokens[at].token = match (not.is_some(), is_case_blind) {
                    (false, false) => Token::DoubleTilde,
                    (false, true) => Token::DoubleTildeAsterisk,
                    (true, false) => Token::ExclamationMarkDoubleTilde,
                    (true, true) => Token::ExclamationMarkDoubleTildeAsterisk,
                };
                if let Some(not) = not {
                    tokens[not].token = Token::Whitespace(Whitespace::Space);
                }
            }
            _ => {}
        }
    }
    put_in(tokens, marks);
}

/// What is known of an open parenthesis.
struct Parenthesis {
    /// Whether it belongs to SUBSTRING.
    is_substring: bool,
    /// Whether SIMILAR was in it.
    is_similar: bool,
    /// Whether VARIADIC was in it.
    is_variadic: bool,
}

/// Whether the next two words are TIME ZONE.
fn is_zone(tokens: &[TokenWithSpan], places: &[usize]) -> bool {
    matches!(places, [time, zone, ..] if is_word(&tokens[*time].token, &[Keyword::TIME])
        && is_word(&tokens[*zone].token, &[Keyword::ZONE]))
}

fn opens_argument(before: Option<&Token>) -> bool {
    matches!(before, Some(Token::LParen | Token::Comma))
}

pub(super) fn is_plain_word(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}
