//! JSON in the form of `json`: the text itself, in which parts are found by scanning.
//!
//! Such a text comes from [`checked`], or is composed of such texts.

use super::{DEPTH_MAX, too_deep, write::write_string};
use crate::error::{Result, SqlError, SqlState};

fn invalid() -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json")
}

/// Returns the text, if it is JSON. Escapes are not decoded: their content matters only when they are read.
pub(crate) fn checked(text: &str) -> Result<&str> {
    let mut scanner = Scanner { text, at: 0 };
    scanner.value(0, &mut |_, _| {})?;
    scanner.skip_blanks();
    if scanner.at == text.len() { Ok(text) } else { Err(invalid()) }
}

/// Returns the type of a text, as `json_typeof` does.
pub(crate) fn type_name(text: &str) -> &'static str {
    match text.trim_start_matches(is_blank).as_bytes().first() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    }
}

/// Returns the elements of an array, or the values of an object with their keys, as written in the text.
pub(crate) fn parts(text: &str) -> Result<Vec<(Option<&str>, &str)>> {
    let mut parts = Vec::new();
    Scanner { text, at: 0 }.value(0, &mut |key, value| parts.push((key, value)))?;
    Ok(parts)
}

/// Returns the content of a string without its quotes and escapes; of anything else, the text as it is.
pub(crate) fn plain(text: &str) -> Result<String> {
    let text = text.trim_matches(is_blank);
    match text.starts_with('"') {
        true => match text.parse::<super::Json>()? {
            super::Json::String(text) => Ok(text.into()),
            _ => Err(invalid()),
        },
        false => Ok(text.to_owned()),
    }
}

/// Returns the value under a key of an object; of several, the last.
pub(crate) fn get<'t>(text: &'t str, key: &str) -> Result<Option<&'t str>> {
    let mut found = None;
    for (own, value) in parts(text)? {
        if let Some(own) = own
            && plain(own)? == key
        {
            found = Some(value);
        }
    }
    Ok(found)
}

/// Returns an element of an array; negative positions count from the end.
pub(crate) fn element(text: &str, at: i64) -> Result<Option<&str>> {
    if type_name(text) != "array" {
        return Ok(None);
    }
    let parts = parts(text)?;
    Ok(super::index_from_either_end(at, parts.len()).and_then(|at| parts.get(at)).map(|part| part.1))
}

/// Returns the part that a path of keys and subscripts leads to.
pub(crate) fn follow<'t>(mut text: &'t str, path: &[&str]) -> Result<Option<&'t str>> {
    for step in path {
        let next = match type_name(text) {
            "object" => get(text, step)?,
            "array" => match step.trim_start().parse() {
                Ok(at) => element(text, at)?,
                Err(_) => None,
            },
            _ => None,
        };
        let Some(next) = next else { return Ok(None) };
        text = next;
    }
    Ok(Some(text))
}

/// Writes the text without pairs whose values are null, and without blanks.
pub(crate) fn strip_nulls(text: &str, out: &mut String) -> Result<()> {
    let kind = type_name(text);
    let (open, close) = match kind {
        "object" => ('{', '}'),
        "array" => ('[', ']'),
        // Written with as few escapes as possible.
        "string" => return write_string(&plain(text)?, out).map_err(|_| invalid()),
        _ => {
            out.push_str(text.trim_matches(is_blank));
            return Ok(());
        }
    };
    out.push(open);
    let mut is_first = true;
    for (key, value) in parts(text)? {
        if key.is_some() && type_name(value) == "null" {
            continue;
        }
        if !std::mem::replace(&mut is_first, false) {
            out.push(',');
        }
        if let Some(key) = key {
            write_string(&plain(key)?, out).map_err(|_| invalid())?;
            out.push(':');
        }
        strip_nulls(value, out)?;
    }
    out.push(close);
    Ok(())
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r')
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
}

type See<'s, 't> = dyn FnMut(Option<&'t str>, &'t str) + 's;

impl<'t> Scanner<'t> {
    fn skip_blanks(&mut self) {
        self.at += self.text[self.at..].len() - self.text[self.at..].trim_start_matches(is_blank).len();
    }

    fn peek(&mut self) -> Option<u8> {
        self.skip_blanks();
        self.text.as_bytes().get(self.at).copied()
    }

    /// Scans a value, and passes on its parts if it is an array or an object.
    fn value(&mut self, depth: usize, see: &mut See<'_, 't>) -> Result<&'t str> {
        let first = self.peek().ok_or_else(invalid)?;
        let from = self.at;
        match first {
            b'{' | b'[' if depth >= DEPTH_MAX => return Err(too_deep()),
            b'{' => self.list(b'}', depth, see)?,
            b'[' => self.list(b']', depth, see)?,
            b'"' => drop(self.string()?),
            b'-' | b'0'..=b'9' => self.number()?,
            _ => {
                let rest = &self.text[from..];
                let word = ["null", "true", "false"].into_iter().find(|word| rest.starts_with(word));
                self.at += word.ok_or_else(invalid)?.len();
                let goes_on = self.text[self.at..].starts_with(|next: char| next.is_alphanumeric() || next == '_');
                if goes_on {
                    return Err(invalid());
                }
            }
        }
        Ok(&self.text[from..self.at])
    }

    fn list(&mut self, end: u8, depth: usize, see: &mut See<'_, 't>) -> Result<()> {
        self.at += 1;
        if self.peek() == Some(end) {
            self.at += 1;
            return Ok(());
        }
        loop {
            let key = if end == b'}' {
                if self.peek() != Some(b'"') {
                    return Err(invalid());
                }
                let key = self.string()?;
                if self.peek() != Some(b':') {
                    return Err(invalid());
                }
                self.at += 1;
                Some(key)
            } else {
                None
            };
            let value = self.value(depth + 1, &mut |_, _| {})?;
            see(key, value);
            let next = self.peek();
            self.at += 1;
            match next {
                Some(b',') => {}
                Some(byte) if byte == end => return Ok(()),
                _ => return Err(invalid()),
            }
        }
    }

    /// Scans a string, with its quotes.
    fn string(&mut self) -> Result<&'t str> {
        let from = self.at;
        self.at += 1;
        loop {
            match self.text.as_bytes().get(self.at).ok_or_else(invalid)? {
                b'"' => {
                    self.at += 1;
                    return Ok(&self.text[from..self.at]);
                }
                b'\\' => {
                    let escape = *self.text.as_bytes().get(self.at + 1).ok_or_else(invalid)?;
                    let digits = match escape {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 0,
                        b'u' => 4,
                        _ => return Err(invalid()),
                    };
                    let digits_there = self.text.as_bytes()[self.at + 2..].iter().take(digits);
                    if digits_there.filter(|digit| digit.is_ascii_hexdigit()).count() < digits {
                        return Err(invalid());
                    }
                    self.at += 2 + digits;
                }
                0..0x20 => return Err(invalid()),
                _ => self.at += 1,
            }
        }
    }

    fn number(&mut self) -> Result<()> {
        let rest = &self.text.as_bytes()[self.at..];
        let digits = |from: usize| rest[from.min(rest.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut length = usize::from(rest[0] == b'-');
        let whole = digits(length);
        let mut is_valid = whole == 1 || (whole > 1 && rest[length] != b'0');
        length += whole;
        if rest.get(length) == Some(&b'.') {
            let fraction = digits(length + 1);
            is_valid &= fraction > 0;
            length += 1 + fraction;
        }
        if matches!(rest.get(length), Some(b'e' | b'E')) {
            length += 1 + usize::from(matches!(rest.get(length + 1), Some(b'+' | b'-')));
            let exponent = digits(length);
            is_valid &= exponent > 0;
            length += exponent;
        }
        let goes_on = self.text[self.at + length..].starts_with(|next: char| next.is_alphanumeric() || next == '_');
        if !is_valid || goes_on {
            return Err(invalid());
        }
        self.at += length;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_in_the_text() {
        let text = r#" {"b" : [1, {"x":2} ], "a":null, "\u0061" : "q\n" } "#;
        assert_eq!(checked(text).unwrap(), text);
        assert_eq!(get(text, "b").unwrap(), Some(r#"[1, {"x":2} ]"#));
        assert_eq!(get(text, "a").unwrap(), Some(r#""q\n""#));
        assert_eq!(follow(text, &["b", "-1", "x"]).unwrap(), Some("2"));
        assert_eq!(plain(get(text, "a").unwrap().unwrap()).unwrap(), "q\n");
        let mut out = String::new();
        strip_nulls(text, &mut out).unwrap();
        assert_eq!(out, r#"{"b":[1,{"x":2}],"a":"q\n"}"#);
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in [
            "", "{", "[1,]", "{\"a\"}", "01", "1.", "-", "1e", "nul", "nulls", "\"a", "\"\\x\"", "1 2", "{a:1}",
            "[1 2]",
        ] {
            assert_eq!(checked(text).unwrap_err().state(), SqlState::INVALID_TEXT_REPRESENTATION, "{text}");
        }
        assert!(checked(&"[".repeat(100_000)).is_err());
    }
}
