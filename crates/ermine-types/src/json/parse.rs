//! The parser of JSON.

use std::str::FromStr;

use crate::error::{Result, SqlError, SqlState};

use super::{DEPTH_MAX, Json, too_deep};

/// The error for a text that is not JSON.
fn invalid(detail: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json").detail(detail)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl FromStr for Json {
    type Err = SqlError;

    fn from_str(text: &str) -> Result<Self> {
        let mut parser = Parser { text, at: 0 };
        let json = parser.value(0)?;
        match parser.peek() {
            None => Ok(json),
            Some(_) => Err(invalid(format!("Expected end of input, but found \"{}\".", parser.token()))),
        }
    }
}

impl Parser<'_> {
    fn bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// Returns the next byte that is not a blank.
    fn peek(&mut self) -> Option<u8> {
        while matches!(self.bytes().get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        self.bytes().get(self.at).copied()
    }

    /// Returns the token at the current position, for messages.
    fn token(&self) -> &str {
        let rest = &self.text[self.at..];
        let word =
            rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80).count();
        if word > 0 { &rest[..word] } else { rest.get(..1).unwrap_or(rest) }
    }

    fn unexpected(&mut self, wanted: &str) -> SqlError {
        match self.peek() {
            None => invalid("The input string ended unexpectedly."),
            Some(_) => invalid(format!("Expected {wanted}, but found \"{}\".", self.token())),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json> {
        match self.peek() {
            Some(b'{' | b'[') if depth >= DEPTH_MAX => Err(too_deep()),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Json::String(self.string()?.into())),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(byte) if byte.is_ascii_alphabetic() || byte >= 0x80 => {
                let json = match self.token() {
                    "null" => Json::Null,
                    "true" => Json::Bool(true),
                    "false" => Json::Bool(false),
                    token => return Err(invalid(format!("Token \"{token}\" is invalid."))),
                };
                self.at += self.token().len();
                Ok(json)
            }
            _ => Err(self.unexpected("JSON value")),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Json> {
        self.at += 1;
        let mut elements = Vec::new();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Json::Array(elements));
        }
        loop {
            elements.push(self.value(depth + 1)?);
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Json::Array(elements));
                }
                _ => return Err(self.unexpected("\",\" or \"]\"")),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json> {
        self.at += 1;
        let mut pairs = Vec::new();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Json::Object(pairs));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.unexpected(if pairs.is_empty() { "string or \"}\"" } else { "string" }));
            }
            let key = self.string()?;
            if self.peek() != Some(b':') {
                return Err(self.unexpected("\":\""));
            }
            self.at += 1;
            pairs.push((key.into(), self.value(depth + 1)?));
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Json::object(pairs));
                }
                _ => return Err(self.unexpected("\",\" or \"}\"")),
            }
        }
    }

    fn number(&mut self) -> Result<Json> {
        let rest = &self.bytes()[self.at..];
        let digits = |from: usize| rest[from.min(rest.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut length = usize::from(rest[0] == b'-');
        let whole = digits(length);
        let mut valid = whole == 1 || (whole > 1 && rest[length] != b'0');
        length += whole;
        if rest.get(length) == Some(&b'.') {
            let fraction = digits(length + 1);
            valid &= fraction > 0;
            length += 1 + fraction;
        }
        if matches!(rest.get(length), Some(b'e' | b'E')) {
            length += 1 + usize::from(matches!(rest.get(length + 1), Some(b'+' | b'-')));
            let exponent = digits(length);
            valid &= exponent > 0;
            length += exponent;
        }
        let tail = rest[length..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        let token = &self.text[self.at..self.at + length + tail];
        if !valid || tail > 0 {
            return Err(invalid(format!("Token \"{token}\" is invalid.")));
        }
        let number = token.parse()?;
        self.at += length;
        Ok(Json::Number(number))
    }

    fn string(&mut self) -> Result<String> {
        let unterminated = || invalid("The input string ended unexpectedly.");
        self.at += 1;
        let mut string = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain =
                rest.bytes().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)).ok_or_else(unterminated)?;
            string.push_str(&rest[..plain]);
            self.at += plain + 1;
            match rest.as_bytes()[plain] {
                b'"' => return Ok(string),
                b'\\' => {
                    let escape = self.bytes().get(self.at).copied().ok_or_else(unterminated)?;
                    self.at += 1;
                    string.push(match escape {
                        b'"' | b'\\' | b'/' => escape.into(),
                        b'b' => '\u{8}',
                        b'f' => '\u{c}',
                        b'n' => '\n',
                        b'r' => '\r',
                        b't' => '\t',
                        b'u' => self.escaped_character()?,
                        _ => {
                            let character = self.text[self.at - 1..].chars().next().unwrap_or('\\');
                            return Err(invalid(format!("Escape sequence \"\\{character}\" is invalid.")));
                        }
                    });
                }
                byte => {
                    return Err(invalid(format!("Character with value 0x{byte:02x} must be escaped.")));
                }
            }
        }
    }

    fn four_hex_digits(&mut self) -> Result<u32> {
        let digits = self.bytes().get(self.at..self.at + 4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.ok_or_else(|| invalid("\"\\u\" must be followed by four hexadecimal digits."))?;
        let number = digits.iter().fold(0, |number, &digit| number * 16 + char::from(digit).to_digit(16).unwrap_or(0));
        self.at += 4;
        Ok(number)
    }

    fn escaped_character(&mut self) -> Result<char> {
        let first = self.four_hex_digits()?;
        let code = match first {
            0 => {
                return Err(SqlError::new(SqlState("22P05"), "unsupported Unicode escape sequence")
                    .detail("\\u0000 cannot be converted to text."));
            }
            0xDC00..=0xDFFF => return Err(invalid("Unicode low surrogate must follow a high surrogate.")),
            0xD800..=0xDBFF => {
                if self.bytes().get(self.at..self.at + 2) != Some(b"\\u") {
                    return Err(invalid("Unicode low surrogate must follow a high surrogate."));
                }
                self.at += 2;
                match self.four_hex_digits()? {
                    second @ 0xDC00..=0xDFFF => 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00),
                    0xD800..=0xDBFF => {
                        return Err(invalid("Unicode high surrogate must not follow a high surrogate."));
                    }
                    _ => return Err(invalid("Unicode low surrogate must follow a high surrogate.")),
                }
            }
            code => code,
        };
        char::from_u32(code).ok_or_else(|| invalid("Unicode escape is invalid."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_json_is_refused() {
        for text in [
            "",
            "{",
            "[1,]",
            "{\"a\"}",
            "01",
            "1.",
            "-",
            "1e",
            "nul",
            "\"a",
            "\"\\x\"",
            "\"\\ud800\"",
            "1 2",
            "{a:1}",
            "\"\u{1}\"",
            "[1 2]",
            "\u{e9}",
        ] {
            assert_eq!(text.parse::<Json>().unwrap_err().state(), SqlState::INVALID_TEXT_REPRESENTATION, "{text}");
        }
        assert_eq!("[".repeat(100_000).parse::<Json>().unwrap_err().state(), SqlState::STATEMENT_TOO_COMPLEX);
        assert!((("[".repeat(DEPTH_MAX)) + &"]".repeat(DEPTH_MAX)).parse::<Json>().is_ok());
    }

    #[test]
    fn escapes_are_read() {
        assert_eq!(r#""\u0041\ud83d\ude00\n\/""#.parse::<Json>().unwrap(), Json::string("A\u{1f600}\n/"));
    }
}
