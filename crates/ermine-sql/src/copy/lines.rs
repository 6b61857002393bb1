//! Splits pieces of any length into lines: finds where a row ends in text and in csv, before its content is inspected.
//!
//! A newline within quotes (csv) or after a backslash (text) ends no row. `\.` ends the data, as in files of older
//! versions: in csv only where it is a whole line.

use std::ops::Range;

use super::{
    ROW_BYTES_MAX,
    options::{Format, Options},
};
use crate::error::{Result, SqlError, SqlState};

/// How lines end: as the first one did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Newline {
    Unknown,
    Lf,
    Cr,
    CrLf,
}

/// Received bytes that are not yet a line.
pub(super) struct Lines {
    /// For csv: the quote, and the escape if it is another character.
    quotes: Option<(u8, Option<u8>)>,
    bytes: Vec<u8>,
    /// Where the line being searched for begins, and how far the search has come.
    start: usize,
    at: usize,
    newline: Newline,
    in_quotes: bool,
    is_escaped: bool,
    /// `\.` was received: everything after it is discarded.
    has_ended: bool,
    /// Whether the stream has ended.
    is_whole: bool,
    /// The number of the line that was returned last; newlines within quotes count.
    pub(super) number: u64,
    /// The place of that line.
    line: Range<usize>,
    /// Newlines within the quotes of the line being searched for.
    inside: u64,
}

impl Lines {
    pub(super) fn new(options: &Options) -> Self {
        let escape = (options.escape != options.quote).then_some(options.escape);
        Self {
            quotes: (options.format == Format::Csv).then_some((options.quote, escape)),
            bytes: Vec::new(),
            start: 0,
            at: 0,
            newline: Newline::Unknown,
            in_quotes: false,
            is_escaped: false,
            has_ended: false,
            is_whole: false,
            number: 0,
            line: 0..0,
            inside: 0,
        }
    }

    /// Returns the number of received bytes of rows that have not been read.
    pub(super) fn waiting(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Appends a piece of the stream.
    pub(super) fn push(&mut self, piece: &[u8]) {
        if self.has_ended {
            return;
        }
        self.bytes.drain(..self.start);
        self.at -= self.start;
        (self.start, self.line) = (0, 0..0);
        self.bytes.extend_from_slice(piece);
    }

    /// Marks the end of the stream.
    pub(super) fn finish(&mut self) {
        self.is_whole = true;
    }

    /// Returns the line that [`Lines::next`] found, without its end.
    pub(super) fn line(&self) -> &[u8] {
        &self.bytes[self.line.clone()]
    }

    /// Finds the next line; returns false if it is incomplete, or there is none. An error is about the line after the
    /// last one.
    pub(super) fn next(&mut self) -> Result<bool> {
        while !self.has_ended {
            let Some(&byte) = self.bytes.get(self.at) else { return self.incomplete() };
            if let Some((quote, escape)) = self.quotes {
                if self.in_quotes && Some(byte) == escape {
                    self.is_escaped = !self.is_escaped;
                } else {
                    if byte == quote && !self.is_escaped {
                        self.in_quotes = !self.in_quotes;
                    }
                    self.is_escaped = false;
                }
                if self.in_quotes {
                    self.inside += u64::from(byte == if self.newline == Newline::Lf { b'\n' } else { b'\r' });
                    self.at += 1;
                    continue;
                }
            }
            let is_final = self.is_whole;
            let following = self.bytes.get(self.at + 1).copied();
            match byte {
                b'\\' if self.quotes.is_none() || self.at == self.start => match following {
                    None if !is_final => return self.incomplete(),
                    Some(b'.') => {
                        let behind = self.bytes.get(self.at + 2).copied();
                        match behind {
                            None if !is_final => return self.incomplete(),
                            None | Some(b'\n' | b'\r') => {
                                self.has_ended = true;
                                return Ok(self.start < self.at && self.end(0));
                            }
                            Some(_) if self.quotes.is_none() => return Err(bad("end-of-copy marker corrupt")),
                            Some(_) => self.at += 1,
                        }
                    }
                    // In text, the character after the backslash ends no line.
                    _ => self.at += if self.quotes.is_none() { 2 } else { 1 },
                },
                b'\r' => {
                    if matches!(self.newline, Newline::Unknown | Newline::CrLf) && following.is_none() && !is_final {
                        return self.incomplete();
                    }
                    match (self.newline, following == Some(b'\n')) {
                        (Newline::Unknown | Newline::CrLf, true) => return Ok(self.end_with(Newline::CrLf, 2)),
                        (Newline::Unknown | Newline::Cr, _) => return Ok(self.end_with(Newline::Cr, 1)),
                        (Newline::Lf | Newline::CrLf, _) => return Err(self.stray("carriage return", "\\r")),
                    }
                }
                b'\n' => match self.newline {
                    Newline::Unknown | Newline::Lf => return Ok(self.end_with(Newline::Lf, 1)),
                    Newline::Cr | Newline::CrLf => return Err(self.stray("newline", "\\n")),
                },
                _ => self.at += 1,
            }
            // An escape at the very end.
            self.at = self.at.min(self.bytes.len());
        }
        Ok(false)
    }

    fn end_with(&mut self, newline: Newline, length: usize) -> bool {
        self.newline = newline;
        self.end(length)
    }

    /// Ends a line here, with `length` bytes of newline.
    fn end(&mut self, length: usize) -> bool {
        self.line = self.start..self.at;
        self.at += length;
        self.start = self.at;
        self.number += 1 + std::mem::take(&mut self.inside);
        true
    }

    /// Handles the end of the bytes without an end of a line.
    fn incomplete(&mut self) -> Result<bool> {
        if self.is_whole {
            return Ok(self.start < self.at && self.end(0));
        }
        if self.bytes.len() - self.start > ROW_BYTES_MAX { Err(too_long()) } else { Ok(false) }
    }

    fn stray(&self, what: &str, code: &str) -> SqlError {
        let (kind, hint) = match self.quotes {
            None => ("literal", format!("Use \"{code}\" to represent {what}.")),
            Some(_) => ("unquoted", format!("Use quoted CSV field to represent {what}.")),
        };
        bad(format!("{kind} {what} found in data")).hint(hint)
    }
}

/// Returns the error for data that is no valid file of COPY.
pub(super) fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

pub(super) fn too_long() -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, format!("a row of COPY is longer than {ROW_BYTES_MAX} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::tree::{GivenOption, OptionValue};

    /// Returns the lines of an input that arrives in pieces of `piece` bytes.
    fn lines_of(format: &str, input: &[u8], piece: usize) -> Result<(Vec<String>, u64)> {
        let format = GivenOption { name: "format".into(), value: Some(OptionValue::Word(format.into())) };
        let mut lines = Lines::new(&Options::of(&[format], true).unwrap());
        let mut found = Vec::new();
        let mut all = |lines: &mut Lines| -> Result<()> {
            while lines.next()? {
                found.push(String::from_utf8(lines.line().to_vec()).unwrap());
            }
            Ok(())
        };
        for piece in input.chunks(piece) {
            lines.push(piece);
            all(&mut lines)?;
        }
        lines.finish();
        all(&mut lines)?;
        Ok((found, lines.number))
    }

    #[test]
    fn pieces_of_any_length_give_the_same_lines() {
        for (format, input, wanted, number) in [
            ("text", &b"a\tb\nc\\\nd\\\\\n\ne"[..], &["a\tb", "c\\\nd\\\\", "", "e"][..], 4),
            ("text", b"a\r\nb\r\n", &["a", "b"], 2),
            ("text", b"a\rb\r", &["a", "b"], 2),
            ("text", b"a\n\\.\nb\n", &["a"], 1),
            ("text", b"a\nb\\.", &["a", "b"], 2),
            ("text", b"a\\", &["a\\"], 1),
            ("csv", b"a,\"b\nc\"\n\"d\"\"\n\"\n\\.x\n\\.\nz", &["a,\"b\nc\"", "\"d\"\"\n\"", "\\.x"], 4),
            ("csv", b"\"a\nb", &["\"a\nb"], 1),
        ] {
            for piece in 1..=input.len() {
                let (lines, last) = lines_of(format, input, piece).unwrap();
                assert_eq!(
                    (&lines[..], last),
                    (&wanted.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>()[..], number),
                    "{input:?} in {piece}"
                );
            }
        }
    }

    #[test]
    fn newlines_that_do_not_fit_the_first_are_told() {
        for (format, input, message) in [
            ("text", &b"a\nb\rc\n"[..], "literal carriage return found in data"),
            ("text", b"a\r\nb\nc", "literal newline found in data"),
            ("text", b"a\rb\nc", "literal newline found in data"),
            ("csv", b"a\nb\rc\n", "unquoted carriage return found in data"),
            ("text", b"a\\.b\n", "end-of-copy marker corrupt"),
        ] {
            for piece in 1..=input.len() {
                let error = lines_of(format, input, piece).unwrap_err();
                assert_eq!((error.state(), &*error.report().message), (SqlState::BAD_COPY_FILE_FORMAT, message));
            }
        }
    }
}
