//! The arguments of `ermine inspect`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::LogDirectories;

#[derive(Debug, Subcommand)]
pub enum Inspect {
    /// The segments of a log and their blocks: what they are, where they stand, whether their checksums are right
    ///
    /// Of a single-version scheme: the files of the log with their generations and epochs, and their records. There is no going on
    /// behind damage within a file of these.
    ///
    /// Goes on behind damage. Exit code 1 when something is damaged that had been durable; the end that a crash has given a
    /// log is no damage. 2 when it cannot be read. docs/design/log.md has the format, and says how to save what is left.
    Log(InspectLog),
    /// What the newest checkpoint says; of a single-version scheme: its manifest
    Checkpoint(crate::inspect_checkpoint::Arguments),
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
    /// Show the records of each block: tables, rows, keys (not of single-version schemes)
    #[arg(long)]
    pub records: bool,
    /// Show only the segments (or files), holes and damage, and the sums
    #[arg(long, conflicts_with = "records")]
    pub summary: bool,
    /// JSON lines instead of text, an object each segment (or file), block (or record) and hole
    #[arg(long)]
    pub json: bool,
}
