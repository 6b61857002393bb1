//! A reader for EDN, as far as histories use it.
//!
//! We have our own because an error in a file must be reported with its line: the only maintained crate (edn-format
//! 3.3.0) reports none, and brings along arbitrary-precision numbers, dates and UUIDs. Tags are skipped, so that a
//! record reads as its map.

use super::datum::Datum;
use crate::file::FileError;

/// Deeper nesting is refused: it would use up the stack.
const DEPTH_MAX: u32 = 64;

/// Reads a sequence of values; if the first value is a vector or a list, the values in it.
pub(super) struct Reader<'t> {
    text: &'t str,
    at: usize,
    line: u64,
    /// The bracket that ends the enclosing sequence.
    enclosed: Option<u8>,
    /// Number of values that have begun and not ended.
    depth: u32,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Result<Self, FileError> {
        let mut reader = Self { text, at: 0, line: 1, enclosed: None, depth: 0 };
        reader.skip_blank()?;
        reader.enclosed = match reader.peek() {
            Some(b'[') => Some(b']'),
            Some(b'(') => Some(b')'),
            _ => None,
        };
        reader.at += usize::from(reader.enclosed.is_some());
        Ok(reader)
    }

    /// Number of bytes read.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// The next value, and the line on which it begins.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Datum)>, FileError> {
        self.skip_blank()?;
        match (self.peek(), self.enclosed) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err(self.error("the sequence that began the file does not end")),
            (Some(byte), Some(end)) if byte == end => {
                self.at += 1;
                self.enclosed = None;
                self.skip_blank()?;
                match self.peek() {
                    None => Ok(None),
                    Some(_) => Err(self.error("something follows the end of the sequence")),
                }
            }
            (Some(_), _) => {
                let line = self.line;
                Ok(Some((line, self.datum()?)))
            }
        }
    }

    fn error(&self, what: impl Into<String>) -> FileError {
        FileError::new(self.line, what)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips blanks, commas, comments, and values commented out with `#_`.
    fn skip_blank(&mut self) -> Result<(), FileError> {
        while let Some(byte) = self.peek() {
            match byte {
                b'\n' => {
                    self.line += 1;
                    self.at += 1;
                }
                b' ' | b'\t' | b'\r' | b',' | 0x0c => self.at += 1,
                b';' => self.at += self.text[self.at..].find('\n').unwrap_or(self.text.len() - self.at),
                b'#' if self.text[self.at..].starts_with("#_") => {
                    self.at += 2;
                    self.datum()?;
                }
                _ => break,
            }
        }
        Ok(())
    }

    fn datum(&mut self) -> Result<Datum, FileError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.error("values are nested too deeply"));
        }
        let datum = self.any_datum()?;
        self.depth -= 1;
        Ok(datum)
    }

    fn any_datum(&mut self) -> Result<Datum, FileError> {
        self.skip_blank()?;
        match self.peek() {
            None => Err(self.error("the file ends where a value should be")),
            Some(b'[') => self.sequence(1, b']').map(Datum::Seq),
            Some(b'(') => self.sequence(1, b')').map(Datum::Seq),
            Some(b'{') => {
                let line = self.line;
                let items = self.sequence(1, b'}')?;
                if items.len() % 2 == 1 {
                    return Err(FileError::new(line, "a map has a key without a value"));
                }
                let mut items = items.into_iter();
                let mut fields = Vec::with_capacity(items.len() / 2);
                while let (Some(name), Some(value)) = (items.next(), items.next()) {
                    fields.push((name, value));
                }
                Ok(Datum::Map(fields))
            }
            Some(b'#') if self.text[self.at..].starts_with("#{") => self.sequence(2, b'}').map(Datum::Seq),
            Some(b'#') => {
                self.at += 1;
                self.token();
                self.datum()
            }
            Some(b'"') => self.string(),
            Some(b'\\') => {
                self.at += 1;
                let first = self.text[self.at..].chars().next();
                let first = first.ok_or_else(|| self.error("a character is missing behind \\"))?;
                let start = self.at;
                self.at += first.len_utf8();
                self.token();
                Ok(Datum::Text(self.text[start..self.at].into()))
            }
            Some(byte @ (b']' | b')' | b'}')) => Err(self.error(format!("{:?} closes nothing", char::from(byte)))),
            Some(_) => {
                let token = self.token();
                if token.is_empty() {
                    return Err(self.error("this is no EDN"));
                }
                Ok(named(token))
            }
        }
    }

    fn sequence(&mut self, opening: usize, end: u8) -> Result<Vec<Datum>, FileError> {
        let line = self.line;
        self.at += opening;
        let mut items = Vec::new();
        loop {
            self.skip_blank()?;
            match self.peek() {
                None => {
                    let what = format!("what began here is not closed by {:?}", char::from(end));
                    return Err(FileError::new(line, what));
                }
                Some(byte) if byte == end => {
                    self.at += 1;
                    return Ok(items);
                }
                Some(_) => items.push(self.datum()?),
            }
        }
    }

    fn string(&mut self) -> Result<Datum, FileError> {
        let line = self.line;
        self.at += 1;
        let mut text = String::new();
        let mut characters = self.text[self.at..].char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.at += at + 1;
                    return Ok(Datum::Text(text));
                }
                '\\' => match characters.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, 'r')) => text.push('\r'),
                    Some((_, escaped)) => text.push(escaped),
                    None => break,
                },
                _ => {
                    self.line += u64::from(character == '\n');
                    text.push(character);
                }
            }
        }
        Err(FileError::new(line, "a string does not end"))
    }

    /// Reads up to the next blank or bracket.
    fn token(&mut self) -> &'t str {
        let rest = &self.text[self.at..];
        let is_end = |character: char| character.is_whitespace() || ",()[]{}\";".contains(character);
        let token = &rest[..rest.find(is_end).unwrap_or(rest.len())];
        self.at += token.len();
        token
    }
}

/// The value of a word that is not a string.
fn named(token: &str) -> Datum {
    match token {
        "nil" => return Datum::Nil,
        "true" => return Datum::Bool(true),
        "false" => return Datum::Bool(false),
        _ => {}
    }
    if let Some(name) = token.strip_prefix(':') {
        return Datum::Keyword(name.into());
    }
    let plain = token.strip_suffix('N').unwrap_or(token);
    if let Ok(number) = plain.parse() {
        return Datum::Int(number);
    }
    let digits = token.trim_start_matches(['+', '-']);
    if digits.starts_with(|character: char| character.is_ascii_digit()) {
        return Datum::Number(token.into());
    }
    Datum::Symbol(token.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Result<String, String> {
        let mut reader = Reader::new(text).map_err(|error| error.to_string())?;
        let mut words = Vec::new();
        while let Some((line, datum)) = reader.next().map_err(|error| error.to_string())? {
            words.push(format!("{line} {datum}"));
        }
        Ok(words.join("; "))
    }

    #[test]
    fn values_are_read() {
        let text =
            "{:a 1, \"b\" [nil true -2N 1.5M x/y]} ; comment\n#jepsen.Op{:k #{:v}} #_ {:left out} \\c \"\\\"\\n\"";
        assert_eq!(all(text).unwrap(), r#"1 {:a 1, "b" [nil true -2 1.5M x/y]}; 2 {:k [:v]}; 2 "c"; 2 "\"\n""#);
        assert_eq!(all("[1\n2\n(3)]\n").unwrap(), "1 1; 2 2; 3 [3]");
        assert_eq!(all("").unwrap(), "");
    }

    #[test]
    fn errors_name_their_line() {
        for (text, error) in [
            ("{:a}", "line 1: a map has a key without a value"),
            ("{:a 1}\n\n{:b [1 2}", "line 3: '}' closes nothing"),
            ("{:a\n \"b", "line 2: a string does not end"),
            ("{:a 1", "line 1: what began here is not closed by '}'"),
            ("[1\n2", "line 2: the sequence that began the file does not end"),
            ("[1] 2", "line 1: something follows the end of the sequence"),
            ("#_", "line 1: the file ends where a value should be"),
        ] {
            assert_eq!(all(text).unwrap_err(), error, "{text}");
        }
        assert!(all(&"{".repeat(100_000)).unwrap_err().contains("too deeply"));
        assert!(all(&"#_".repeat(100_000)).is_err());
    }
}
