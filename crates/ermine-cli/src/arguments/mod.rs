//! The arguments of every verb, with their help texts.

mod bench;
mod brokerage;
mod certifiers;
mod check;
mod closed;
mod compared;
mod cores;
mod htm;
mod inspect;
mod micro;
mod output;
mod papers;
mod recorded;
mod run;
mod sim;
#[cfg(test)]
mod tests;
mod tpcc;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

pub use self::{
    bench::Workload,
    brokerage::Brokerage,
    certifiers::{Batch, ReadMostly, Sibench, Stock, WriteSkew},
    check::{Check, Format},
    closed::{Backup, Restore, Verify},
    cores::SimCores,
    htm::{FigureFiles, SimHtmDuration, SimHtmRestarts, SimHtmSize},
    inspect::{Inspect, InspectCheckpoint, InspectLog},
    micro::{Changes, Churn, CommitLatency, Index, Micro, Recovery, Standby},
    output::Output,
    papers::Papers,
    recorded::Recorded,
    run::Run,
    sim::{Sim, SimFigure, SimRun},
};

/// Memory-optimized, serializable OLTP engine: benchmarks, a judge of histories, a simulator, inspection of files
#[derive(Debug, Parser)]
#[command(name = "ermine", version, arg_required_else_help = true)]
pub struct Ermine {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Load a database, drive it with many threads, verify it, and report
    Bench {
        #[command(subcommand)]
        workload: Box<Workload>,
    },
    /// Judge a recorded history: which isolation levels hold, and the smallest cycle of each anomaly
    ///
    /// Reads histories of Ermine (JSON lines, docs/design/check.md) and those that Jepsen's Elle reads (EDN or JSON).
    /// Exit code 1 when the expected level does not hold, 2 when the file cannot be read.
    Check(Check),
    /// Compare schemes in a discrete event simulator: what they let commit, what they abort, how long they wait
    ///
    /// It is that of the SSN paper, section 7, with the machines of the HTM paper, section VI, written from their
    /// texts: an access takes the same time under every scheme, and no engine runs while it is simulated. Exit code 1
    /// when a serializable scheme was not serializable.
    Sim {
        #[command(subcommand)]
        what: Sim,
    },
    /// Copy a database that is not open to a new directory
    ///
    /// The copy is a database, and the start of restores. An open database belongs to its process, which makes its
    /// backups: a server with the statement BACKUP TO 'directory', a program with Database::backup.
    Backup(Backup),
    /// Make a database as of some moment, from a backup and the archived log behind it
    ///
    /// Without --until-lsn and --until-time: to the end of the archived log. Commits in the new database are another
    /// history: it needs an archive of its own.
    Restore(Restore),
    /// Check every byte of a database that is not open: checksums, addresses, keys against rows
    ///
    /// Changes nothing. Exit code 1 when something is wrong. A log that ends in the middle of a part that was not
    /// durable is no damage. A database of a single-version scheme is recovered in memory for it, as by opening it.
    Verify(Verify),
    /// Inspect the files of a database without opening it
    Inspect {
        #[command(subcommand)]
        what: Inspect,
    },
    /// Print the script with which a shell completes the arguments of this command
    ///
    /// For bash: ermine completions bash > /usr/share/bash-completion/completions/ermine
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the man pages of this command and its verbs to a directory
    ///
    /// The directory is made if it does not exist. For all users: ermine man /usr/local/share/man/man1
    Man {
        /// The directory
        dir: PathBuf,
    },
}
