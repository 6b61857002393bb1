//! Histories as files: JSON, one line for the header and one for each transaction. docs/design/check.md has the format.
//!
//! Nothing in a file makes this module panic: errors are reported with their line.

mod lines;
mod read;
mod write;

use std::{fmt, io};

pub use read::read;
pub use write::write;

/// An error in a file, and its place.
#[derive(Debug)]
pub struct FileError {
    /// The line, from 1; 0: the file as a whole.
    pub line: u64,
    /// Description of the error.
    pub what: String,
}

impl FileError {
    pub(crate) fn new(line: u64, what: impl Into<String>) -> Self {
        Self { line, what: what.into() }
    }
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        Self::new(0, error.to_string())
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.what),
            line => write!(f, "line {line}: {}", self.what),
        }
    }
}

impl std::error::Error for FileError {}
