//! The fields of a line: the texts between delimiters, without escapes and quotes.

use std::ops::Range;

use super::{
    lines::bad,
    options::{Format, Options},
};
use crate::error::{Result, SqlError, SqlState};

/// The fields of one line; the memory is reused for the next line.
#[derive(Default)]
pub(super) struct Fields {
    /// The texts of all fields, one after the other.
    text: String,
    /// `None` is NULL.
    places: Vec<Option<Range<usize>>>,
}

impl Fields {
    pub(super) fn count(&self) -> usize {
        self.places.len()
    }

    /// Returns an existing field; `None` is NULL.
    pub(super) fn get(&self, at: usize) -> Option<&str> {
        self.places[at].clone().map(|place| &self.text[place])
    }

    /// Splits a line into fields.
    pub(super) fn split(&mut self, line: &[u8], options: &Options) -> Result<()> {
        utf8(line)?;
        self.places.clear();
        let mut bytes = std::mem::take(&mut self.text).into_bytes();
        bytes.clear();
        if options.format == Format::Csv {
            self.split_csv(line, options, &mut bytes)?;
        } else {
            self.split_text(line, options, &mut bytes);
        }
        // Escapes may have produced bytes that are not UTF-8.
        self.text =
            String::from_utf8(bytes).map_err(|error| invalid(error.as_bytes(), error.utf8_error().valid_up_to()))?;
        match self.text.bytes().position(|byte| byte == 0) {
            Some(at) => Err(invalid(self.text.as_bytes(), at)),
            None => Ok(()),
        }
    }

    fn split_text(&mut self, line: &[u8], options: &Options, out: &mut Vec<u8>) {
        let mut rest = line;
        loop {
            let (first, length) = (out.len(), unescape(rest, options.delimiter, out));
            // The marker of NULL is matched before escapes are interpreted.
            let is_null = rest[..length] == *options.null.as_bytes();
            self.places.push((!is_null).then_some(first..out.len()));
            if length == rest.len() {
                return;
            }
            rest = &rest[length + 1..];
        }
    }

    fn split_csv(&mut self, line: &[u8], options: &Options, out: &mut Vec<u8>) -> Result<()> {
        let Options { delimiter, quote, escape, null, .. } = options;
        let mut at = 0;
        loop {
            let (first, start) = (out.len(), at);
            let (mut in_quotes, mut was_quoted) = (false, false);
            while let Some(&byte) = line.get(at) {
                let following = line.get(at + 1);
                if in_quotes && byte == *escape && following.is_some_and(|byte| byte == quote || byte == escape) {
                    out.extend(following);
                    at += 1;
                } else if byte == *quote {
                    (in_quotes, was_quoted) = (!in_quotes, true);
                } else if !in_quotes && byte == *delimiter {
                    break;
                } else {
                    out.push(byte);
                }
                at += 1;
            }
            if in_quotes {
                return Err(bad("unterminated CSV quoted field"));
            }
            let is_null = !was_quoted && line[start..at] == *null.as_bytes();
            self.places.push((!is_null).then_some(first..out.len()));
            if at == line.len() {
                return Ok(());
            }
            at += 1;
        }
    }
}

/// Unescapes the text before a delimiter; returns the length of the escaped text.
fn unescape(line: &[u8], delimiter: u8, out: &mut Vec<u8>) -> usize {
    let mut at = 0;
    while let Some(&byte) = line.get(at) {
        if byte == delimiter {
            return at;
        }
        at += 1;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        // A backslash at the end of the line stands for itself.
        let Some(&code) = line.get(at) else {
            out.push(byte);
            break;
        };
        at += 1;
        let digits = |base: u32, most: usize| {
            let digits = line[at..].iter().take(most).map_while(|&digit| char::from(digit).to_digit(base));
            digits.fold((0, 0), |(number, count), digit| (number * base + digit, count + 1))
        };
        match code {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            b'0'..=b'7' => {
                let (number, count) = digits(8, 2);
                out.push((u32::from(code - b'0') * 8_u32.pow(count as u32) + number) as u8);
                at += count;
            }
            b'x' => match digits(16, 2) {
                (_, 0) => out.push(code),
                (number, count) => {
                    out.push(number as u8);
                    at += count;
                }
            },
            other => out.push(other),
        }
    }
    at
}

/// Returns bytes as text; fails if they are not UTF-8.
pub(super) fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| invalid(bytes, error.valid_up_to()))
}

fn invalid(bytes: &[u8], at: usize) -> SqlError {
    let byte = bytes.get(at).copied().unwrap_or(0);
    let message = format!("invalid byte sequence for encoding \"UTF8\": 0x{byte:02x}");
    SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::tree::{GivenOption, OptionValue};

    fn split(options: &[(&str, &str)], line: &[u8]) -> Result<Vec<Option<String>>> {
        let given = |(name, value): &(&str, &str)| GivenOption {
            name: (*name).into(),
            value: Some(OptionValue::Word((*value).into())),
        };
        let options = Options::of(&options.iter().map(given).collect::<Vec<_>>(), true).unwrap();
        let mut fields = Fields::default();
        fields.split(b"what was\tthere before", &options)?;
        fields.split(line, &options)?;
        Ok((0..fields.count()).map(|at| fields.get(at).map(str::to_owned)).collect())
    }

    fn texts(fields: &[Option<&str>]) -> Vec<Option<String>> {
        fields.iter().map(|field| field.map(str::to_owned)).collect()
    }

    #[test]
    fn text_has_escapes() {
        let fields = split(&[], b"a\\tb\t\\N\t\\\\N\t\t\\x41\\101\\x\\q\\\t\\x4\t\\").unwrap();
        let wanted = [Some("a\tb"), None, Some("\\N"), Some(""), Some("AAxq\t\u{4}"), Some("\\")];
        // The delimiter after a backslash is a letter.
        assert_eq!(fields, texts(&[wanted[0], wanted[1], wanted[2], wanted[3], Some("AAxq\t\u{4}"), wanted[5]]));
        assert_eq!(split(&[("null", "")], b"\ta").unwrap(), texts(&[None, Some("a")]));
        assert_eq!(split(&[], b"").unwrap(), texts(&[Some("")]));
        assert_eq!(split(&[], b"\\303\\251").unwrap(), texts(&[Some("\u{e9}")]));
    }

    #[test]
    fn csv_has_quotes() {
        const CSV: (&str, &str) = ("format", "csv");
        let fields = split(&[CSV], b"a,,\"\",\"b \"\"c\"\"\",d\"e,f\"g").unwrap();
        assert_eq!(fields, texts(&[Some("a"), None, Some(""), Some("b \"c\""), Some("de,fg")]));
        let fields = split(&[CSV, ("escape", "\\"), ("null", "-")], b"\"a\\\"b\\\\c\\d\",-,\"-\",").unwrap();
        assert_eq!(fields, texts(&[Some("a\"b\\c\\d"), None, Some("-"), Some("")]));
        assert_eq!(split(&[CSV], b"\"a").unwrap_err().state(), SqlState::BAD_COPY_FILE_FORMAT);
    }

    #[test]
    fn what_is_not_text_is_refused() {
        for line in [&b"\xff"[..], b"\\377", b"a\\000", b"\0"] {
            assert_eq!(split(&[], line).unwrap_err().state(), SqlState::CHARACTER_NOT_IN_REPERTOIRE, "{line:?}");
        }
    }
}
