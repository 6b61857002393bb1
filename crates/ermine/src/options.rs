//! How a database is opened: one plain struct with defaults and a check.

use std::{fmt, str::FromStr};

use crate::error::{Error, Result};

/// Options of a database, fixed when it is opened.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// The concurrency control of every transaction.
    pub scheme: Scheme,
}

impl Options {
    /// The options with another scheme.
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        self.scheme = scheme;
        self
    }
}

/// The concurrency-control schemes, by the names used everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scheme {
    /// `rc`: read committed. Every read sees the newest committed version.
    Rc,
    /// `si`: snapshot isolation. Every read sees the snapshot of the beginning; the first updater of a row wins.
    Si,
    /// `si-ssn`: serializable. Snapshot isolation certified by the Serial Safety Net.
    #[default]
    SiSsn,
}

impl Scheme {
    /// Every scheme.
    pub const ALL: [Self; 3] = [Self::Rc, Self::Si, Self::SiSsn];

    /// The name, as given on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rc => "rc",
            Self::Si => "si",
            Self::SiSsn => "si-ssn",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scheme {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.name() == name).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|scheme| scheme.name()).collect();
            Error::Options(format!("unknown scheme {name:?}: use one of {}", known.join(", ")))
        })
    }
}

/// What a transaction says of itself when it begins.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct TxnOptions {
    /// The transaction will not write; a write is refused with [`Error::ReadOnly`].
    pub read_only: bool,
}

impl TxnOptions {
    /// A transaction that only reads.
    pub fn read_only() -> Self {
        Self { read_only: true }
    }
}
