//! `LIKE` and regular expressions.

use std::{cell::RefCell, sync::Arc};

use regex::{Regex, RegexBuilder};

use crate::error::{Result, SqlError, SqlState};

/// Compiled expressions take at most so much memory.
const COMPILED_SIZE_MAX: usize = 1 << 20;
/// So many compiled expressions each thread keeps.
const CACHED_MAX: usize = 16;

fn invalid_escape() -> SqlError {
    SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "LIKE pattern must not end with escape character")
}

/// One piece of a pattern.
#[derive(Clone, Copy, PartialEq)]
enum Piece {
    /// `%`
    Any,
    /// `_`
    One,
    Character(char),
}

fn next_piece(rest: &mut std::str::Chars<'_>, escape: Option<char>) -> Result<Option<Piece>> {
    Ok(match rest.next() {
        None => None,
        Some(character) if Some(character) == escape => Some(Piece::Character(rest.next().ok_or_else(invalid_escape)?)),
        Some('%') => Some(Piece::Any),
        Some('_') => Some(Piece::One),
        Some(character) => Some(Piece::Character(character)),
    })
}

/// Whether a text is like a pattern. Goes back only to the last `%`, so the time is at most the product of the lengths.
pub(crate) fn like(text: &str, pattern: &str, escape: Option<char>) -> Result<bool> {
    let mut text = text.chars();
    let mut pattern = pattern.chars();
    // Where to go on when a piece does not fit: after the last `%`, one character further in the text.
    let mut again: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        let mut ahead = pattern.clone();
        let piece = next_piece(&mut ahead, escape)?;
        let mut text_ahead = text.clone();
        let character = text_ahead.next();
        match (piece, character) {
            (Some(Piece::Any), _) => {
                again = Some((text.clone(), ahead.clone()));
                pattern = ahead;
                continue;
            }
            (Some(Piece::One), Some(_)) => {
                (text, pattern) = (text_ahead, ahead);
                continue;
            }
            (Some(Piece::Character(wanted)), Some(character)) if wanted == character => {
                (text, pattern) = (text_ahead, ahead);
                continue;
            }
            (None, None) => return Ok(true),
            _ => {}
        }
        let Some((mut from, after)) = again.take() else { return Ok(false) };
        if from.next().is_none() {
            return Ok(false);
        }
        text = from.clone();
        pattern = after.clone();
        again = Some((from, after));
    }
}

/// `LIKE` without regard to case.
pub(crate) fn ilike(text: &str, pattern: &str, escape: Option<char>) -> Result<bool> {
    like(&text.to_lowercase(), &pattern.to_lowercase(), escape)
}

/// A pattern written with another escape character, or none, as one with backslashes.
pub(crate) fn like_escape(pattern: &str, escape: &str) -> Result<String> {
    let mut characters = escape.chars();
    let (escape, more) = (characters.next(), characters.next());
    if more.is_some() {
        return Err(SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
            .hint("Escape string must be empty or one character."));
    }
    if escape == Some('\\') {
        return Ok(pattern.to_owned());
    }
    let mut out = String::with_capacity(pattern.len());
    let mut after_escape = false;
    for character in pattern.chars() {
        if Some(character) == escape && !after_escape {
            out.push('\\');
            after_escape = true;
        } else if character == '\\' {
            if !after_escape {
                out.push('\\');
            }
            out.push('\\');
            after_escape = false;
        } else {
            out.push(character);
            after_escape = false;
        }
    }
    Ok(out)
}

/// How an expression is to be taken.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flags {
    pub(crate) ignore_case: bool,
    pub(crate) extended: bool,
    /// `^` and `$` match at lines, and `.` no end of them.
    pub(crate) lines: bool,
    pub(crate) global: bool,
}

impl Flags {
    /// From the letters that functions take.
    pub(crate) fn parse(letters: &str) -> Result<Self> {
        let mut flags = Self::default();
        for letter in letters.chars() {
            match letter {
                'i' => flags.ignore_case = true,
                'c' => flags.ignore_case = false,
                'x' => flags.extended = true,
                'n' | 'm' => flags.lines = true,
                's' => flags.lines = false,
                'g' => flags.global = true,
                't' | 'e' => {}
                other => {
                    return Err(SqlError::new(
                        SqlState::INVALID_PARAMETER_VALUE,
                        format!("invalid regular expression option: \"{other}\""),
                    ));
                }
            }
        }
        Ok(flags)
    }
}

/// PostgreSQL's escapes that the crate writes otherwise.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match characters.next() {
            Some('y') => out.push_str("\\b"),
            Some('Y') => out.push_str("\\B"),
            Some('m') => out.push_str("\\b{start}"),
            Some('M') => out.push_str("\\b{end}"),
            Some('Z') => out.push_str("\\z"),
            Some(other) => {
                out.push('\\');
                out.push(other);
            }
            None => out.push('\\'),
        }
    }
    out
}

type Cached = (String, Flags, Arc<Regex>);

thread_local! {
    /// The expressions used last, the latest first.
    static CACHE: RefCell<Vec<Cached>> = const { RefCell::new(Vec::new()) };
}

/// The compiled expression. PostgreSQL's differ from the crate's in what goes beyond the regular (back references and
/// looking around are errors here) and in which of several matches is taken: its longest, here the first alternative.
pub(crate) fn compile(pattern: &str, flags: Flags) -> Result<Arc<Regex>> {
    let flags = Flags { global: false, ..flags };
    let cached = CACHE.with_borrow_mut(|cache| {
        let at = cache.iter().position(|entry| entry.0 == pattern && entry.1 == flags)?;
        cache[..=at].rotate_right(1);
        Some(Arc::clone(&cache[0].2))
    });
    if let Some(regex) = cached {
        return Ok(regex);
    }
    let regex = RegexBuilder::new(&translate(pattern))
        .case_insensitive(flags.ignore_case)
        .ignore_whitespace(flags.extended)
        .multi_line(flags.lines)
        .dot_matches_new_line(!flags.lines)
        .size_limit(COMPILED_SIZE_MAX)
        .build()
        .map_err(|error| {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
            SqlError::new(SqlState("2201B"), format!("invalid regular expression: {reason}"))
        })?;
    let regex = Arc::new(regex);
    CACHE.with_borrow_mut(|cache| {
        cache.truncate(CACHED_MAX - 1);
        cache.insert(0, (pattern.to_owned(), flags, Arc::clone(&regex)));
    });
    Ok(regex)
}

/// A replacement's `\1` and `\&` filled in.
pub(crate) fn expand(replacement: &str, captures: &regex::Captures<'_>, out: &mut String) {
    let mut characters = replacement.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match characters.next() {
            Some('&') => out.push_str(&captures[0]),
            Some(digit @ '1'..='9') => {
                let group = digit as usize - '0' as usize;
                out.push_str(captures.get(group).map_or("", |found| found.as_str()));
            }
            Some('\\') => out.push('\\'),
            Some(other) => {
                out.push('\\');
                out.push(other);
            }
            None => out.push('\\'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match() {
        for (text, pattern, expected) in [
            ("abc", "abc", true),
            ("abc", "a%", true),
            ("abc", "_b_", true),
            ("abc", "c", false),
            ("", "%", true),
            ("a%c", r"a\%c", true),
            ("abc", r"a\%c", false),
            ("h\u{e9}llo", "h_llo", true),
            ("aXbXc", "%X%c", true),
            ("abc", "%%%", true),
            ("abc", "", false),
            ("mississippi", "%iss%ip%", true),
            ("ab", "a_b", false),
        ] {
            assert_eq!(like(text, pattern, Some('\\')).unwrap(), expected, "{text} {pattern}");
        }
        assert!(like("a", "a\\", Some('\\')).is_err());
        assert!(ilike("ABC", "a%c", Some('\\')).unwrap());
        assert!(like("a%c", &like_escape("a!%c", "!").unwrap(), Some('\\')).unwrap());
        // No exponential time.
        assert!(!like(&"a".repeat(2000), &("%a".repeat(50) + "b"), Some('\\')).unwrap());
    }
}
