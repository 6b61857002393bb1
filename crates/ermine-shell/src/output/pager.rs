//! The pager: a program that shows a text which does not fit on the screen.

use std::{
    env,
    io::{self, Write},
    process::{Child, Command, Stdio},
    str::FromStr,
};

use unicode_width::UnicodeWidthChar as _;

use super::Screen;

/// When the pager shows results, if a user sees them in a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Paging {
    /// When they do not fit on the screen.
    #[default]
    On,
    /// Never.
    Off,
    /// Always.
    Always,
}

impl Paging {
    /// Returns the value's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Always => "always",
        }
    }
}

impl FromStr for Paging {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = [Self::On, Self::Off, Self::Always];
        let found = all.into_iter().find(|paging| paging.name() == name);
        found.ok_or_else(|| format!("\"{name}\" is none of on, off, always"))
    }
}

/// Less where there is one: it moves in all directions.
const DEFAULT: &str = "if command -v less >/dev/null; then exec less; else exec more; fi";

/// Returns the user's pager; `None` if the user wants none.
pub fn command() -> Option<String> {
    let named = ["PSQL_PAGER", "PAGER"].into_iter().find_map(|name| env::var(name).ok());
    named.map_or_else(|| Some(DEFAULT.to_owned()), |named| Some(named).filter(|named| !named.trim().is_empty()))
}

/// Whether the pager shows colors, as far as the options of less tell.
pub fn shows_colors() -> bool {
    env::var("LESS").map_or(true, |options| options.contains(['R', 'r']))
}

/// A text on its way to a screen, which goes to the pager when it becomes too long.
pub struct Paged<'o> {
    out: &'o mut dyn Write,
    command: String,
    /// The number of lines from which on the pager is used.
    limit: usize,
    columns: usize,
    /// The text so far, until the pager is used.
    held: Vec<u8>,
    lines: usize,
    /// The width of the last line.
    width: usize,
    /// Whether the end of the text is in a sequence that sets a color.
    is_escaped: bool,
    pager: Option<Child>,
}

impl<'o> Paged<'o> {
    /// Returns an empty text for a screen.
    pub fn new(out: &'o mut dyn Write, screen: Screen, paging: Paging, command: String) -> Self {
        let limit = if paging == Paging::Always { 0 } else { screen.rows };
        let columns = screen.columns;
        Self { out, command, limit, columns, held: Vec::new(), lines: 0, width: 0, is_escaped: false, pager: None }
    }

    /// Writes the text to the screen, or waits until the user ends the pager.
    pub fn finish(mut self) -> io::Result<()> {
        match &mut self.pager {
            Some(pager) => {
                drop(pager.stdin.take());
                pager.wait().map(drop)
            }
            None => self.out.write_all(&self.held),
        }
    }

    /// Counts the lines of the screen that a text takes.
    fn count(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '\n' => {
                    self.lines += self.width.div_ceil(self.columns).max(1);
                    self.width = 0;
                }
                '\x1b' => self.is_escaped = true,
                'm' if self.is_escaped => self.is_escaped = false,
                _ if self.is_escaped => {}
                _ => self.width += character.width().unwrap_or(0),
            }
        }
    }

    fn start(&mut self) -> io::Result<()> {
        self.out.flush()?;
        let mut command = Command::new("sh");
        command.arg("-c").arg(&self.command).stdin(Stdio::piped());
        if env::var_os("LESS").is_none() {
            // Colors are shown, and lines are cut instead of folded.
            command.env("LESS", "RS");
        }
        let pager = self.pager.insert(command.spawn()?);
        send(pager, &std::mem::take(&mut self.held))
    }
}

impl Write for Paged<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.pager {
            Some(pager) => send(pager, bytes)?,
            None => {
                self.held.extend_from_slice(bytes);
                self.count(&String::from_utf8_lossy(bytes));
                if self.lines >= self.limit {
                    self.start()?;
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends bytes to the pager; the rest is dropped after the user has ended the pager.
fn send(pager: &mut Child, bytes: &[u8]) -> io::Result<()> {
    let Some(stdin) = &mut pager.stdin else { return Ok(()) };
    match stdin.write_all(bytes) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            pager.stdin = None;
            Ok(())
        }
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what reaches the screen, and whether the pager was started.
    fn shown(paging: Paging, text: &[&str]) -> (String, bool) {
        let mut out = Vec::new();
        let screen = Screen { columns: 10, rows: 3, has_colors: true };
        let mut paged = Paged::new(&mut out, screen, paging, "cat >/dev/null".into());
        for part in text {
            paged.write_all(part.as_bytes()).unwrap();
        }
        let is_paged = paged.pager.is_some();
        paged.finish().unwrap();
        (String::from_utf8(out).unwrap(), is_paged)
    }

    #[test]
    fn long_texts_are_paged() {
        let dim = "\x1b[2m0123456789\x1b[0m\n";
        for text in [&["a\n", "b\n"][..], &["a\n\n"], &["0123456789", "\n", "b\n"], &[dim, "b\n"], &["日本日本日\n"]]
        {
            assert_eq!(shown(Paging::On, text), (text.concat(), false));
        }
        for text in [&["a\n", "b\n", "c\n"][..], &["a\n\n\n"], &["0123456789", "a\nb\n"], &[dim, "日本日本日本\n"]]
        {
            assert_eq!(shown(Paging::On, text), (String::new(), true));
        }
        assert_eq!(shown(Paging::Always, &["a\n"]), (String::new(), true));
    }

    #[test]
    fn a_pager_may_end_early() {
        let mut out = Vec::new();
        let screen = Screen { columns: 10, rows: 1, has_colors: true };
        let mut paged = Paged::new(&mut out, screen, Paging::On, "true".into());
        // More than a pipe holds.
        for _ in 0..100 {
            paged.write_all(&[b'\n'; 4096]).unwrap();
        }
        paged.finish().unwrap();
        assert_eq!(out, b"");
    }
}
