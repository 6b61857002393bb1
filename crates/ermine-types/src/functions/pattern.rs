//! `LIKE`.

use crate::{
    Environment,
    error::{Result, SqlError, SqlState},
};

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

/// Whether a text matches a pattern. Backtracks only to the last `%`, so the time is at most the product of the
/// lengths.
pub(crate) fn like(text: &str, pattern: &str, escape: Option<char>, environment: &Environment) -> Result<bool> {
    const CHECK_EVERY: u32 = 1 << 16;
    let mut steps = 0u32;
    let mut text = text.chars();
    let mut pattern = pattern.chars();
    // The position to resume at when a piece does not fit: after the last `%`, one character further in the text.
    let mut again: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        steps = steps.wrapping_add(1);
        if steps.is_multiple_of(CHECK_EVERY) {
            environment.check()?;
        }
        let mut text_ahead = text.clone();
        let character = text_ahead.next();
        if character.is_none() {
            // The rest of the pattern is not examined: an escape character at its end is not noticed.
            return Ok(pattern.all(|rest| rest == '%'));
        }
        let mut ahead = pattern.clone();
        let piece = next_piece(&mut ahead, escape)?;
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
pub(crate) fn ilike(text: &str, pattern: &str, escape: Option<char>, environment: &Environment) -> Result<bool> {
    like(&text.to_lowercase(), &pattern.to_lowercase(), escape, environment)
}

/// `LIKE` without regard to the case of letters of ASCII.
pub(crate) fn ilike_in_c(text: &str, pattern: &str, escape: Option<char>, environment: &Environment) -> Result<bool> {
    like(&text.to_ascii_lowercase(), &pattern.to_ascii_lowercase(), escape, environment)
}

/// Converts a pattern with another escape character, or none, to one with backslashes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match() {
        let environment = Environment::default();
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
            assert_eq!(like(text, pattern, Some('\\'), &environment).unwrap(), expected, "{text} {pattern}");
        }
        assert!(like("ab", "a\\", Some('\\'), &environment).is_err());
        assert!(!like("a", "a\\", Some('\\'), &environment).unwrap());
        assert!(ilike("ABC", "a%c", Some('\\'), &environment).unwrap());
        assert!(like("a%c", &like_escape("a!%c", "!").unwrap(), Some('\\'), &environment).unwrap());
        // No exponential time.
        assert!(!like(&"a".repeat(2000), &("%a".repeat(50) + "b"), Some('\\'), &environment).unwrap());
    }
}
