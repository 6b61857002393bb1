//! The place that results are written to.

use std::{
    fs::File,
    io::{self, BufWriter, Stdout, Write},
};

/// The place that results are written to.
pub enum Destination {
    /// The standard output.
    Standard(BufWriter<Stdout>),
    /// A file.
    File(BufWriter<File>),
}

impl Destination {
    /// Returns the standard output.
    pub fn standard() -> Self {
        Self::Standard(BufWriter::new(io::stdout()))
    }

    /// Returns a file, which is emptied if there is one of that name.
    pub fn file(path: &str) -> io::Result<Self> {
        Ok(Self::File(BufWriter::new(File::create(path)?)))
    }

    /// Whether it is the standard output.
    pub fn is_standard(&self) -> bool {
        matches!(self, Self::Standard(_))
    }

    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Standard(stdout) => stdout,
            Self::File(file) => file,
        }
    }
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer().flush()
    }
}
