//! The arguments of `ermine inspect`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::closed::LogDirectories;

#[derive(Debug, Subcommand)]
pub enum Inspect {
    /// The segments of a log and their blocks: their kinds, their places, whether their checksums are right
    ///
    /// For a single-version scheme: the files of the log with their generations and epochs, and their records. Within a
    /// file of these, nothing behind damage is read.
    ///
    /// Goes on behind damage. Exit code 1 when something is damaged that had been durable; the end that a crash has
    /// given a log is no damage. 2 when it cannot be read. docs/design/log.md has the format, and says how to save the
    /// rest.
    Log(InspectLog),
    /// The content of the newest checkpoint; for a single-version scheme: its manifest
    Checkpoint(InspectCheckpoint),
}

#[derive(Debug, Args)]
pub struct InspectLog {
    /// The directory of the database
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    #[command(flatten)]
    pub log: LogDirectories,
    /// Only the segment with this file name
    #[arg(long, value_name = "FILE")]
    pub segment: Option<String>,
    /// Show the records of each block: tables, rows, keys (not for single-version schemes)
    #[arg(long)]
    pub records: bool,
    /// Show only the segments (or files), holes and damage, and the sums
    #[arg(long, conflicts_with = "records")]
    pub summary: bool,
    /// JSON lines instead of text, an object per segment (or file), block (or record) and hole
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct InspectCheckpoint {
    /// The directory of the database
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    #[command(flatten)]
    pub log: LogDirectories,
    /// Show every key and entry, with its row and the place of its value
    #[arg(long)]
    pub keys: bool,
}
