//! The arguments of verbs on databases that are not open: `verify`, `backup`, `restore`.

use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;

/// The log directories of a database.
#[derive(Clone, Debug, Args)]
pub struct LogDirectories {
    /// A directory of the log, if a database of a single-version scheme was given any; once for each of them, in the
    /// same order
    #[arg(long = "log-dir", value_name = "DIR")]
    pub directories: Vec<PathBuf>,
}

impl LogDirectories {
    pub fn options(&self) -> ermine::Options {
        ermine::Options::default().log_directories(&self.directories)
    }
}

#[derive(Debug, Args)]
pub struct Verify {
    /// The directory of the database, or of a backup
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    #[command(flatten)]
    pub log: LogDirectories,
    /// Write the findings as JSON to the standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Backup {
    /// The directory of the database
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Directory for the copy: a new one, or an empty one
    #[arg(value_name = "DEST")]
    pub target: PathBuf,
    /// The database's archive of its log, if it has one: log that this command frees is archived first
    #[arg(long, value_name = "DIR")]
    pub archive: Option<PathBuf>,
    #[command(flatten)]
    pub log: LogDirectories,
}

#[derive(Debug, Args)]
pub struct Restore {
    /// The directory of the backup
    #[arg(value_name = "BACKUP")]
    pub backup: PathBuf,
    /// Directory for the database: a new one, or an empty one
    #[arg(value_name = "TARGET")]
    pub target: PathBuf,
    /// The archived log of the same database (ermined serve --archive, Options::archive), to continue behind the backup
    #[arg(long, value_name = "DIR")]
    pub archive: Option<PathBuf>,
    /// Only commits at this LSN or before; for a database of a single-version scheme, the stamp of a commit, whose
    /// epoch is kept as a whole
    #[arg(long, value_name = "N", conflicts_with = "until_time")]
    pub until_lsn: Option<u64>,
    /// Only commits up to this moment, as in 2026-03-01T12:00:00.5+01:00
    ///
    /// The log notes the time every 10 ms while transactions commit.
    #[arg(long, value_name = "RFC3339")]
    pub until_time: Option<Timestamp>,
}
