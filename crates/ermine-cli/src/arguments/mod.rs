//! The arguments of every verb, with their help texts.

mod bench;
mod certifiers;
mod check;
mod inspect;
mod micro;
mod run;
#[cfg(test)]
mod tests;
mod tpcc;

use clap::{Parser, Subcommand};

pub use self::{
    bench::Workload,
    certifiers::{Batch, ReadMostly, Sibench, Stock, WriteSkew},
    check::{Check, Format},
    inspect::{Inspect, InspectLog},
    micro::{Churn, CommitLatency, Micro},
    run::Run,
};

/// Memory-optimized, serializable OLTP engine: benchmarks, a judge of histories, and a look into files
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
        workload: Workload,
    },
    /// Judge a recorded history: which isolation levels hold, and the smallest cycle of each anomaly
    ///
    /// Reads histories of Ermine (JSON lines, docs/design/check.md) and those that Jepsen's Elle reads (EDN or JSON). Exit
    /// code 1 when the expected level does not hold, 2 when the file cannot be read.
    Check(Check),
    /// Look into the files of a database without opening it
    Inspect {
        #[command(subcommand)]
        what: Inspect,
    },
}
