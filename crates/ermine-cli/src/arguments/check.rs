//! The arguments of `ermine check`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub struct Check {
    /// The history; - is the standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Format of the file
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    pub format: Format,
    /// The level that has to hold
    ///
    /// strong-session-serializable is serializable in an order that agrees with that of each process,
    /// strict-serializable in one that agrees with real time.
    #[arg(long, value_enum, default_value_t = Expected::Serializable)]
    pub expect: Expected,
    /// Write the whole report as JSON; - is the standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the history for foreign checkers, as EDN, or as JSON if the name ends in .json or .jsonl
    ///
    /// A history of Ermine becomes one of rw-register, without its ranges.
    #[arg(long, value_name = "FILE")]
    pub export: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Auto,
    Ermine,
    ElleListAppend,
    ElleRwRegister,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Expected {
    Rc,
    Si,
    Serializable,
    StrongSessionSerializable,
    StrictSerializable,
}

impl Expected {
    pub fn level(self) -> ermine_check::Level {
        match self {
            Self::Rc => ermine_check::Level::ReadCommitted,
            Self::Si => ermine_check::Level::SnapshotIsolation,
            Self::Serializable => ermine_check::Level::Serializable,
            Self::StrongSessionSerializable => ermine_check::Level::StrongSessionSerializable,
            Self::StrictSerializable => ermine_check::Level::StrictSerializable,
        }
    }
}
