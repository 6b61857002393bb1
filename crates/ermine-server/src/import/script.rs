//! The text that `pg_dump` writes: statements, and the rows of tables behind `COPY .. FROM stdin;`, up to a line `\.`.

use std::io::{self, BufRead, Read};

use ermine_shell::{Piece, Splitter};

/// Reads a text piece by piece; of its rows, no more than one is in memory.
pub struct Script<R> {
    text: R,
    splitter: Splitter,
    /// The line of rows that is being read, and the number of its bytes that have been passed on.
    line: Vec<u8>,
    passed: usize,
    /// Whether rows come next.
    has_rows: bool,
    /// Whether the text has ended within rows or a statement.
    is_cut: bool,
}

/// A statement of a text.
#[derive(PartialEq, Eq, Debug)]
pub enum Item {
    /// A statement without rows.
    Statement(String),
    /// A COPY, whose rows come next.
    Copy {
        /// The table as the statement names it.
        table: String,
        statement: String,
    },
}

/// The line after the last row.
const END: &[u8] = b"\\.\n";

impl<R: BufRead> Script<R> {
    pub fn new(text: R) -> Self {
        Self { text, splitter: Splitter::default(), line: Vec::new(), passed: 0, has_rows: false, is_cut: false }
    }

    /// Returns the next statement; `None` at the end of the text.
    pub fn next(&mut self) -> io::Result<Option<Item>> {
        debug_assert!(!self.has_rows, "the rows of a table are read first");
        loop {
            match self.splitter.piece() {
                Some(Piece::Statement(statement)) => {
                    let Some(table) = copied(&statement) else { return Ok(Some(Item::Statement(statement))) };
                    (self.has_rows, self.passed) = (true, 0);
                    self.line.clear();
                    return Ok(Some(Item::Copy { table: table.to_owned(), statement }));
                }
                // \restrict protects psql from commands in a dump.
                Some(Piece::Command(_)) => {}
                None => {
                    let mut line = String::new();
                    if self.text.read_line(&mut line)? == 0 {
                        self.is_cut = !self.splitter.text().is_empty();
                        return Ok(None);
                    }
                    self.splitter.push(line.trim_end_matches('\n'));
                }
            }
        }
    }

    /// Whether rows of the last COPY have not been read.
    pub fn has_rows(&self) -> bool {
        self.has_rows
    }

    /// Whether the text has ended too early.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Reads rows of the last COPY: whole lines, up to about `bytes_max` of them.
    pub fn rows(&mut self, bytes_max: u64) -> Rows<'_, R> {
        Rows { script: self, bytes_max, rows: 0, bytes: 0 }
    }

    /// Reads a line of rows; returns whether there is one.
    fn row(&mut self) -> io::Result<bool> {
        self.line.clear();
        self.passed = 0;
        self.text.read_until(b'\n', &mut self.line)?;
        if !self.line.ends_with(b"\n") {
            self.is_cut = true;
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the dump ends within the rows of a table"));
        }
        self.has_rows = self.line != END;
        Ok(self.has_rows)
    }
}

/// Some rows of a table, as bytes.
pub struct Rows<'s, R> {
    script: &'s mut Script<R>,
    bytes_max: u64,
    /// The number of rows that were read.
    pub rows: u64,
    /// The number of their bytes.
    pub bytes: u64,
}

impl<R: BufRead> Read for Rows<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let script = &mut *self.script;
            if !script.has_rows {
                break;
            }
            if script.passed == script.line.len() {
                if self.bytes >= self.bytes_max || !script.row()? {
                    break;
                }
                self.rows += 1;
                self.bytes += script.line.len() as u64;
            }
            let rest = &script.line[script.passed..];
            let length = rest.len().min(buffer.len() - filled);
            buffer[filled..filled + length].copy_from_slice(&rest[..length]);
            script.passed += length;
            filled += length;
        }
        Ok(filled)
    }
}

/// Returns the table of a COPY whose rows follow.
fn copied(statement: &str) -> Option<&str> {
    let relation = statement.strip_prefix("COPY ")?.strip_suffix(" FROM stdin;")?;
    Some(name(relation))
}

/// Returns the name at the beginning of a text, up to a space outside of quotes.
pub fn name(text: &str) -> &str {
    let mut is_quoted = false;
    let end = text.find(|character| {
        is_quoted ^= character == '"';
        character == ' ' && !is_quoted
    });
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_and_rows_are_told_apart() {
        let text = r#"--
-- a dump; of old
--

\restrict x
SET a = 0;
CREATE TABLE s."a (b" (
  c text DEFAULT ';'
);
COPY s."a (b" (c, d) FROM stdin;
x;\\.
\N
last
\.


COPY s.empty  FROM stdin;
\.
SELECT 1;
"#;
        let mut script = Script::new(text.as_bytes());
        assert_eq!(script.next().unwrap(), Some(Item::Statement("SET a = 0;".into())));
        let Some(Item::Statement(create)) = script.next().unwrap() else { panic!("a statement") };
        assert!(create.starts_with("CREATE TABLE") && create.ends_with("\n);"), "{create}");
        let Some(Item::Copy { table, statement }) = script.next().unwrap() else { panic!("rows") };
        assert_eq!((&*table, &*statement), ("s.\"a (b\"", "COPY s.\"a (b\" (c, d) FROM stdin;"));
        // Of the rows, a part of the first, then the rest of it and one more, then the last.
        for (bytes_max, wanted, rows) in [(1, "x;\\\\.\n", 1), (4, "\\N\nlast\n", 2), (9, "", 0)] {
            let mut read = String::new();
            let mut part = script.rows(bytes_max);
            part.read_to_string(&mut read).unwrap();
            assert_eq!((&*read, part.rows, part.bytes), (wanted, rows, wanted.len() as u64));
        }
        assert!(!script.has_rows());
        let Some(Item::Copy { table, .. }) = script.next().unwrap() else { panic!("rows") };
        assert_eq!(table, "s.empty");
        assert_eq!(script.rows(9).read(&mut [0; 9]).unwrap(), 0);
        assert_eq!(script.next().unwrap(), Some(Item::Statement("SELECT 1;".into())));
        assert_eq!(script.next().unwrap(), None);
        assert!(!script.is_cut());
    }

    #[test]
    fn a_text_that_ends_early_is_cut() {
        let mut script = Script::new(&b"COPY a (b) FROM stdin;\n1\n2"[..]);
        script.next().unwrap();
        assert!(script.rows(100).read_to_end(&mut Vec::new()).is_err());
        assert!(script.is_cut());
        let mut script = Script::new(&b"SELECT 1"[..]);
        assert_eq!(script.next().unwrap(), None);
        assert!(script.is_cut());
    }
}
