//! Errors that stop a benchmark.

use std::{fmt, io, path::PathBuf};

/// The result of benchmark functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a benchmark could not go on.
#[derive(Debug)]
pub enum Error {
    /// The engine failed permanently.
    Engine(ermine::Error),
    /// An option has a value that cannot work; the text says which and what would.
    Usage(String),
    /// The workload met a state that its own rules exclude.
    Workload(String),
    /// A file could not be read or written.
    File {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The standard output could not be written.
    Output(io::Error),
}

impl From<ermine::Error> for Error {
    fn from(error: ermine::Error) -> Self {
        Self::Engine(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(error) => error.fmt(f),
            Self::Usage(why) | Self::Workload(why) => why.fmt(f),
            Self::File { path, source } => write!(f, "cannot read or write {}: {source}", path.display()),
            Self::Output(source) => write!(f, "cannot write to the standard output: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Engine(error) => Some(error),
            Self::File { source, .. } | Self::Output(source) => Some(source),
            Self::Usage(_) | Self::Workload(_) => None,
        }
    }
}
