//! The standard output: a reader that closes it ends the output, and not the work, whose result is the exit status.

use std::{
    fmt,
    io::{self, Write as _},
};

use crate::error::{Error, Result};

/// The standard output, for `write!` and `writeln!`; `println!` panics where the output fails.
pub struct Stdout;

impl Stdout {
    /// Writes a text.
    pub fn write_fmt(&self, text: fmt::Arguments<'_>) -> Result<()> {
        let mut out = io::stdout().lock();
        ended(out.write_fmt(text).and_then(|()| out.flush()))
    }
}

/// Returns how the output ended; that its reader has closed it is no error.
pub fn ended(written: io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(Error::Output),
    }
}
