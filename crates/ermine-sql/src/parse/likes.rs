//! LIKE in CREATE TABLE, which the grammar does not have among columns: each is shown as a column whose name has the
//! text of the clause.

use sqlparser::{
    ast::{Ident, ObjectName},
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan, Whitespace},
};

use super::conflicts::text_of;
use crate::error::Result;

/// The beginning of the name of a column that stands for LIKE; the bits of what is copied follow, and the name of the
/// relation.
const LIKE: &str = "\u{1}like ";

/// Parts of a relation that LIKE copies besides columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LikeOption {
    Comments,
    Constraints,
    Defaults,
    Generated,
    Identity,
    Indexes,
}

/// The parts that a clause copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Likes(u8);

impl Likes {
    const ALL: Self = Self(u8::MAX);

    pub(crate) fn has(self, option: LikeOption) -> bool {
        self.0 & 1 << option as u8 != 0
    }
}

/// Returns the parts that an option means; those without effect here are none.
fn option_of(token: &Token) -> Option<Likes> {
    let Token::Word(word) = token else { return None };
    let one = |option: LikeOption| Some(Likes(1 << option as u8));
    match &*word.value.to_ascii_lowercase() {
        _ if word.quote_style.is_some() => None,
        "all" => Some(Likes::ALL),
        "comments" => one(LikeOption::Comments),
        "constraints" => one(LikeOption::Constraints),
        "defaults" => one(LikeOption::Defaults),
        "generated" => one(LikeOption::Generated),
        "identity" => one(LikeOption::Identity),
        "indexes" => one(LikeOption::Indexes),
        "compression" | "statistics" | "storage" => Some(Likes::default()),
        _ => None,
    }
}

/// Replaces each element `LIKE name ..` of a list by a column. An element that is no such clause stays, and is an error.
pub(super) fn mark_likes(tokens: &mut [TokenWithSpan]) {
    let is = |token: &Token, keyword| matches!(token, Token::Word(word) if word.keyword == keyword);
    let places: Vec<_> = (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).collect();
    for number in 1..places.len() {
        let token = |ahead: usize| places.get(number + ahead).map_or(&Token::EOF, |at| &tokens[*at].token);
        let before = &tokens[places[number - 1]].token;
        if !is(token(0), Keyword::LIKE) || !matches!(before, Token::LParen | Token::Comma) {
            continue;
        }
        let mut behind = 1;
        while matches!(token(behind), Token::Word(_)) && *token(behind + 1) == Token::Period {
            behind += 2;
        }
        let is_named = matches!(token(behind), Token::Word(_));
        behind += 1;
        let name: String = (1..behind).map(|ahead| text_of(token(ahead))).collect();
        let mut copied = Likes::default();
        while let Token::Word(word) = token(behind)
            && let Some(Likes(option)) = option_of(token(behind + 1))
        {
            match &*word.value.to_ascii_lowercase() {
                "including" => copied.0 |= option,
                "excluding" => copied.0 &= !option,
                _ => break,
            }
            behind += 2;
        }
        if !is_named || !matches!(token(behind), Token::RParen | Token::Comma) {
            continue;
        }
        let column = Token::make_word(&format!("{LIKE}{} {name}", copied.0), Some('"'));
        tokens[places[number]].token = column;
        tokens[places[number + 1]].token = Token::make_word("int", None);
        for at in &places[number + 2..number + behind] {
            tokens[*at].token = Token::Whitespace(Whitespace::Space);
        }
    }
}

/// Returns the relation that a column stands for, and what is copied of it; `None`: it is a column.
pub(crate) fn like_of(column: &Ident) -> Result<Option<(ObjectName, Likes)>> {
    let Some((copied, name)) = column.value.strip_prefix(LIKE).and_then(|rest| rest.split_once(' ')) else {
        return Ok(None);
    };
    let mut parser = super::parser(name)?;
    let relation = parser.parse_object_name(false).map_err(|error| super::failure(name, &error).at(None))?;
    Ok(Some((relation, Likes(copied.parse().unwrap_or_default()))))
}
