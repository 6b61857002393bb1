//! The tokens of dates and times: dates with their separators, times, numbers, words, offsets.

use std::borrow::Cow;

use crate::space::is_space;

/// How a token looks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Kind {
    /// A date with separators inside, or the name of a zone that is more than letters.
    Date,
    Time,
    Number,
    Word,
    Offset,
}

#[derive(Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: Cow<'a, str>,
}

/// More tokens are no date or time.
const TOKENS_MAX: usize = 25;

/// Cuts a text, which is in lower case, into tokens. `None`: it is no date or time.
pub(super) fn tokens(mut rest: &str) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    while let Some(token) = next_token(&mut rest)? {
        if tokens.len() == TOKENS_MAX {
            return None;
        }
        tokens.push(token);
    }
    Some(tokens)
}

/// Takes the next token. `None`: none can begin here; within, `None`: the text has ended.
fn next_token<'a>(rest: &mut &'a str) -> Option<Option<Token<'a>>> {
    // Ignored signs count as blanks.
    let is_blank = |character: char| character.is_ascii_punctuation() && !matches!(character, '+' | '-' | '.');
    *rest = rest.trim_start_matches(|character: char| is_space(character) || is_blank(character));
    let text = *rest;
    let Some(first) = text.bytes().next() else { return Some(None) };
    let run =
        |from: usize, accept: &dyn Fn(u8) -> bool| from + text[from..].bytes().take_while(|byte| accept(*byte)).count();
    let digit = |byte: u8| byte.is_ascii_digit();
    let at = |place: usize| text.as_bytes().get(place).copied();
    let (end, kind) = match first {
        b'0'..=b'9' => {
            let digits = run(0, &digit);
            match at(digits) {
                Some(b':') => (run(digits, &|byte| digit(byte) || matches!(byte, b':' | b'.')), Kind::Time),
                Some(separator @ (b'-' | b'/' | b'.')) if at(digits + 1).is_some_and(digit) => {
                    let second = run(digits + 1, &digit);
                    match at(second) {
                        Some(next) if next == separator => {
                            (run(second, &|byte| digit(byte) || byte == separator), Kind::Date)
                        }
                        _ => (second, if separator == b'.' { Kind::Number } else { Kind::Date }),
                    }
                }
                Some(separator @ (b'-' | b'/' | b'.')) => {
                    (run(digits, &|byte| byte.is_ascii_alphanumeric() || byte == separator), Kind::Date)
                }
                _ => (digits, Kind::Number),
            }
        }
        b'.' => (run(1, &digit), Kind::Number),
        b'+' | b'-' => {
            let behind = text[1..].trim_start_matches(is_space);
            let start = text.len() - behind.len();
            let (end, kind) = match at(start) {
                Some(b'0'..=b'9') => (run(start, &|byte| digit(byte) || b":.-".contains(&byte)), Kind::Offset),
                // A sign before a word, as in -infinity.
                Some(next) if next.is_ascii_alphabetic() => {
                    (run(start, &|byte| byte.is_ascii_alphabetic()), Kind::Word)
                }
                _ => return None,
            };
            *rest = &text[end..];
            let joined = if start == 1 { text[..end].into() } else { [&text[..1], &text[start..end]].concat().into() };
            return Some(Some(Token { kind, text: joined }));
        }
        first if first.is_ascii_alphabetic() => {
            let letters = run(0, &|byte| byte.is_ascii_alphabetic());
            let is_joined = match at(letters) {
                Some(b'-' | b'/' | b'.') => true,
                Some(b'+' | b'0'..=b'9') => !is_keyword(&text[..letters]),
                _ => false,
            };
            let joined = |byte: u8| byte.is_ascii_alphanumeric() || b"+-/_.:".contains(&byte);
            if is_joined { (run(0, &joined), Kind::Date) } else { (letters, Kind::Word) }
        }
        _ => return None,
    };
    *rest = &text[end..];
    Some(Some(Token { kind, text: text[..end].into() }))
}

pub(super) const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
pub(super) const WEEKDAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

pub(super) fn month(word: &str) -> Option<i64> {
    if word == "sept" {
        return Some(9);
    }
    let at = MONTHS.iter().position(|month| *month == word || (word.len() == 3 && month.starts_with(word)))?;
    Some(at as i64 + 1)
}

pub(super) fn is_weekday(word: &str) -> bool {
    matches!(word, "tues" | "wednes" | "weds" | "thur" | "thurs")
        || WEEKDAYS.iter().any(|day| *day == word || (word.len() == 3 && day.starts_with(word)))
}

/// Whether a word has a meaning of its own, even directly before a number.
fn is_keyword(word: &str) -> bool {
    const WORDS: [&str; 28] = [
        "ad",
        "allballs",
        "am",
        "at",
        "bc",
        "d",
        "dow",
        "doy",
        "dst",
        "epoch",
        "h",
        "infinity",
        "isodow",
        "isoyear",
        "j",
        "jd",
        "julian",
        "m",
        "mm",
        "now",
        "on",
        "pm",
        "s",
        "t",
        "today",
        "tomorrow",
        "y",
        "yesterday",
    ];
    WORDS.contains(&word) || month(word).is_some() || is_weekday(word)
}
