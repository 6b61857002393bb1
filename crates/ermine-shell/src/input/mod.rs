//! Lines that are typed or read from files, and the pieces they are cut into.

mod assistant;
mod complete;
pub mod split;
mod terminal;

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Write as _},
    path::Path,
};

pub use self::terminal::Terminal;
use crate::output::{Screen, style::Style};

/// The source of lines.
pub enum Lines {
    /// A user types them.
    Terminal(Box<Terminal>),
    /// They are read from a file or a pipe.
    Script(Script),
}

/// Lines of a file or a pipe.
pub struct Script {
    reader: Box<dyn BufRead>,
    /// The file's name, if errors should report it.
    name: Option<String>,
    /// How many lines have been read.
    count: usize,
}

/// The text in front of a line that is typed.
pub struct Prompt<'p> {
    pub text: String,
    pub style: Style,
    /// The lines of the statement before this one; `None` in data that is copied.
    pub before: Option<&'p str>,
}

/// The result of asking for a line.
#[derive(PartialEq, Eq, Debug)]
pub enum Line {
    /// A line.
    Text(String),
    /// Ctrl-C: the text typed so far is discarded.
    Interrupted,
    /// There are no more lines.
    End,
}

impl Lines {
    /// Returns the lines of the standard input.
    pub fn stdin() -> Self {
        Self::Script(Script::new(BufReader::new(io::stdin()), None))
    }

    /// Returns the lines of a file; `-` is the standard input.
    pub fn file(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::stdin());
        }
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?;
        Ok(Self::Script(Script::new(BufReader::new(file), Some(name))))
    }

    /// Whether a user types them.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal(_))
    }

    /// Returns the next line; at a terminal, prompts for it.
    pub fn next(&mut self, prompt: &Prompt<'_>) -> io::Result<Line> {
        match self {
            Self::Terminal(terminal) => terminal.next(prompt),
            Self::Script(script) => script.next(),
        }
    }

    /// Returns the size of the terminal, if a user sees results there.
    pub fn screen(&mut self) -> Option<Screen> {
        match self {
            Self::Terminal(terminal) => terminal.screen(),
            Self::Script(_) => None,
        }
    }

    /// Adds a complete statement or command to the history.
    pub fn remember(&mut self, text: &str) {
        if let Self::Terminal(terminal) = self {
            terminal.remember(text);
        }
    }

    /// Returns the file and the number of the line that was read last.
    pub fn origin(&self) -> Option<String> {
        match self {
            Self::Script(Script { name: Some(name), count, .. }) => Some(format!("{name}:{count}")),
            _ => None,
        }
    }
}

impl Script {
    fn new(reader: impl BufRead + 'static, name: Option<String>) -> Self {
        Self { reader: Box::new(reader), name, count: 0 }
    }

    /// Returns the bytes of the next line with its newline; none at the end.
    fn bytes(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line)?;
        self.count += usize::from(!line.is_empty());
        Ok(line)
    }

    fn next(&mut self) -> io::Result<Line> {
        let mut line = self.bytes()?;
        if line.is_empty() {
            return Ok(Line::End);
        }
        line.pop_if(|last| *last == b'\n');
        let line = String::from_utf8(line).map_err(|_| io::Error::other("the line is not UTF-8"))?;
        // Some editors begin files with a byte order mark.
        let line = if self.count == 1 { line.trim_start_matches('\u{feff}') } else { &*line };
        Ok(Line::Text(line.to_owned()))
    }
}

const HOW_DATA_ENDS: &str = "Enter data to be copied followed by a newline.
End with a backslash and a period on a line by itself, or an EOF signal.";

/// Data for COPY among the lines: up to a line `\.`, or the end.
pub struct Inline<'l> {
    lines: &'l mut Lines,
    /// The rest of the line that is being read.
    rest: Vec<u8>,
    is_begun: bool,
    is_ended: bool,
}

impl<'l> Inline<'l> {
    /// Returns the data from the next line on.
    pub fn new(lines: &'l mut Lines) -> Self {
        Self { lines, rest: Vec::new(), is_begun: false, is_ended: false }
    }

    /// Reads to the end, if anything was read: the rest is no statement.
    pub fn skip(mut self) -> io::Result<()> {
        while self.is_begun && !self.is_ended && !self.lines.is_terminal() {
            self.fill()?;
        }
        Ok(())
    }

    fn fill(&mut self) -> io::Result<()> {
        if !self.is_begun && self.lines.is_terminal() {
            writeln!(io::stdout(), "{HOW_DATA_ENDS}")?;
        }
        self.is_begun = true;
        self.rest = match self.lines {
            Lines::Script(script) => script.bytes()?,
            Lines::Terminal(terminal) => {
                match terminal.next(&Prompt { text: ">> ".to_owned(), style: Style::Bold, before: None })? {
                    Line::Text(line) => (line + "\n").into_bytes(),
                    Line::Interrupted => return Err(io::Error::other("canceled by user")),
                    Line::End => Vec::new(),
                }
            }
        };
        if self.rest.is_empty() || matches!(&*self.rest, b"\\." | b"\\.\n" | b"\\.\r\n") {
            self.rest.clear();
            self.is_ended = true;
        }
        Ok(())
    }
}

impl Read for Inline<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() && !self.is_ended {
            self.fill()?;
        }
        let length = self.rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&self.rest[..length]);
        self.rest.drain(..length);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &'static str) -> Lines {
        Lines::Script(Script::new(text.as_bytes(), Some("a.sql".into())))
    }

    fn next(lines: &mut Lines) -> io::Result<Line> {
        lines.next(&Prompt { text: String::new(), style: Style::Bold, before: None })
    }

    #[test]
    fn files_have_lines() {
        let mut lines = script("\u{feff}a\n\nb");
        for (wanted, origin) in [("a", "a.sql:1"), ("", "a.sql:2"), ("b", "a.sql:3")] {
            assert_eq!(next(&mut lines).unwrap(), Line::Text(wanted.into()));
            assert_eq!(lines.origin().unwrap(), origin);
        }
        assert_eq!(next(&mut lines).unwrap(), Line::End);
        let mut lines = Lines::Script(Script::new(&b"\xff\na"[..], None));
        assert!(next(&mut lines).unwrap_err().to_string().contains("UTF-8"));
        assert_eq!((next(&mut lines).unwrap(), lines.origin()), (Line::Text("a".into()), None));
    }

    #[test]
    fn data_ends_at_its_mark() {
        let mut lines = script("1\ta\n2\t\\.\n\\.\nselect 1;\n3");
        let mut data = String::new();
        Inline::new(&mut lines).read_to_string(&mut data).unwrap();
        assert_eq!(data, "1\ta\n2\t\\.\n");
        assert_eq!(next(&mut lines).unwrap(), Line::Text("select 1;".into()));
        let mut inline = Inline::new(&mut lines);
        inline.read_to_string(&mut data).unwrap();
        assert!(data.ends_with('3'));
    }

    #[test]
    fn data_that_nobody_wanted_is_skipped() {
        let mut lines = script("1\n2\n\\.\nselect 1;");
        Inline::new(&mut lines).skip().unwrap();
        let mut inline = Inline::new(&mut lines);
        assert_eq!(inline.read(&mut [0]).unwrap(), 1);
        inline.skip().unwrap();
        assert_eq!(next(&mut lines).unwrap(), Line::Text("select 1;".into()));
    }
}
