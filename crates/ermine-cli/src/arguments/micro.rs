//! Workloads that measure the engine itself: single operations, memory, durable commits.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use ermine::IndexKind;
use ermine_bench::{changes, churn, commit_latency, index, machine, micro, recovery, tpcc, tuning::Tuning};

use super::{
    output::Output,
    run::{Compression, Log, OneScheme, Run, positive_seconds, seconds},
};

#[derive(Debug, Args)]
pub struct Micro {
    #[command(flatten)]
    pub scheme: OneScheme,
    #[command(flatten)]
    pub run: Run,
    /// Rows loaded before the measurement
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(100..))]
    pub records: u64,
    /// Length of a value
    #[arg(long, default_value_t = 100, value_name = "BYTES")]
    pub value_bytes: usize,
    /// The operations of a transaction
    ///
    /// get: one point read. scan: 100 rows from a random key on. mixed: one point read (70 %) or one put (30 %). get10:
    /// ten point reads asked for at once. rmw: five point reads and five read-modify-writes. rmw10: ten
    /// read-modify-writes. insert: one new row, keys in random order. all: each of them in turn.
    #[arg(long, default_value = "all", value_name = "OPERATION", value_parser = operations)]
    pub operation: Operations,
    /// Kind of the table's index: b-tree, art (a radix tree) or hash, which has no scans
    #[arg(long, value_enum, default_value_t = Kind::BTree, value_name = "KIND")]
    pub index: Kind,
    /// Skew of the keys drawn (Zipf); 0 is uniform, 0.99 is usual
    #[arg(long, default_value_t = 0.0, value_name = "THETA")]
    pub theta: f64,
    /// Measured time of each operation
    #[arg(long, default_value = "5", value_name = "SECONDS", value_parser = positive_seconds)]
    pub seconds: Duration,
    /// Time before each, which is not measured
    #[arg(long, default_value = "1", value_name = "SECONDS", value_parser = seconds)]
    pub warmup: Duration,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Kind {
    BTree,
    Art,
    Hash,
}

/// One operation, or all.
#[derive(Clone, Debug)]
pub struct Operations(Vec<micro::Operation>);

fn operations(name: &str) -> Result<Operations, String> {
    if name == "all" {
        return Ok(Operations(micro::Operation::ALL.to_vec()));
    }
    let one = name.parse().map_err(|_| {
        let known = micro::Operation::ALL.map(micro::Operation::name).join(", ");
        format!("use one of {known}, all")
    })?;
    Ok(Operations(vec![one]))
}

impl Micro {
    pub fn options(&self) -> micro::Options {
        micro::Options {
            scheme: self.scheme.scheme,
            threads: self.run.threads(),
            records: self.records,
            value_bytes: self.value_bytes,
            theta: self.theta,
            operations: self.operation.0.clone(),
            index: match self.index {
                Kind::BTree => IndexKind::BTree,
                Kind::Art => IndexKind::Art,
                Kind::Hash => IndexKind::Hash,
            },
            run_options: self.run.run_options(self.warmup, self.seconds),
        }
    }
}

#[derive(Debug, Args)]
pub struct Churn {
    #[command(flatten)]
    pub scheme: OneScheme,
    #[command(flatten)]
    pub run: Run,
    /// Rows, the same number at the end as at the beginning
    #[arg(long, default_value_t = 500_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1_000..))]
    pub rows: u32,
    /// Duration of the run
    #[arg(long, default_value = "60", value_name = "SECONDS", value_parser = positive_seconds)]
    pub seconds: Duration,
}

impl Churn {
    pub fn options(&self) -> churn::Options {
        churn::Options {
            scheme: self.scheme.scheme,
            threads: self.run.threads(),
            rows: self.rows,
            duration: self.seconds,
            seed: self.run.seed,
            rate: self.run.rate,
            explain_aborts: self.run.explain_aborts,
            storage: self.run.place.storage(false),
            tuning: self.run.tuning(),
            observer: None,
        }
    }
}

#[derive(Debug, Args)]
pub struct Index {
    /// Keys in each index
    #[arg(long, default_value_t = 1 << 24, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub keys: u32,
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2], value_name = "N")]
    pub threads: Vec<usize>,
    /// Time of each index in each round, with each number of threads
    #[arg(long, default_value = "1", value_name = "SECONDS", value_parser = positive_seconds)]
    pub seconds: Duration,
    /// Rounds
    #[arg(long, default_value_t = 7, value_name = "N")]
    pub rounds: usize,
    #[command(flatten)]
    pub output: Output,
}

impl Index {
    pub fn options(&self) -> index::Options {
        index::Options { keys: self.keys, threads: self.threads.clone(), turn: self.seconds, rounds: self.rounds }
    }
}

#[derive(Debug, Args)]
pub struct CommitLatency {
    #[command(flatten)]
    pub scheme: OneScheme,
    /// Directory for the database, which must be empty or not exist; a plain file is measured beside it
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub log: Log,
    /// Maximum number of clients, each with its own thread; 1, 2, 4 .. are measured up to it [default: four per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub clients: Option<u32>,
    /// Length of the value that a commit writes
    #[arg(long, default_value_t = 100, value_name = "BYTES")]
    pub value_bytes: usize,
    /// Measured time of each load
    #[arg(long, default_value = "5", value_name = "SECONDS", value_parser = positive_seconds)]
    pub seconds: Duration,
    /// Seed of the times at which commits begin at half load
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    #[command(flatten)]
    pub output: Output,
}

impl CommitLatency {
    pub fn options(&self) -> commit_latency::Options {
        commit_latency::Options {
            scheme: self.scheme.scheme,
            directory: self.dir.clone(),
            clients: self.clients.map_or(machine::cores() * 4, |clients| clients as usize),
            value_bytes: self.value_bytes,
            measured: self.seconds,
            seed: self.seed,
            tuning: self.log.tuning(),
        }
    }
}

#[derive(Debug, Args)]
pub struct Changes {
    #[command(flatten)]
    pub scheme: OneScheme,
    /// Directory for the two databases, which must be empty or not exist
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub log: Log,
    /// Rows of the table
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub rows: u64,
    /// Length of a row's value, at least 8
    #[arg(long, default_value_t = 100, value_name = "BYTES")]
    pub value_bytes: usize,
    /// Transactions that are written
    #[arg(long, default_value_t = 500_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub transactions: u64,
    /// Rows that a transaction updates
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub updates: u64,
    /// How often the log is read
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Seed of the updated rows
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    #[command(flatten)]
    pub output: Output,
}

impl Changes {
    pub fn options(&self) -> changes::Options {
        changes::Options {
            scheme: self.scheme.scheme,
            directory: self.dir.clone(),
            rows: self.rows,
            value_bytes: self.value_bytes,
            transactions: self.transactions,
            updates: self.updates,
            rounds: self.rounds as usize,
            seed: self.seed,
            tuning: self.log.tuning(),
        }
    }
}

#[derive(Debug, Args)]
pub struct Standby {
    #[command(flatten)]
    pub scheme: OneScheme,
    /// Directory for the two databases, which must be empty or not exist
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub log: Log,
    /// Number of warehouses
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub warehouses: u32,
    /// How long the primary writes, and how long each of the two is read in a round
    #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = positive_seconds)]
    pub seconds: Duration,
    /// How often each of the two is read
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Seed of data and inputs
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    #[command(flatten)]
    pub output: Output,
}

impl Standby {
    pub fn options(&self) -> tpcc::StandbyOptions {
        tpcc::StandbyOptions {
            scheme: self.scheme.scheme,
            directory: self.dir.clone(),
            warehouses: self.warehouses,
            scale: tpcc::Scale::FULL,
            measured: self.seconds,
            rounds: self.rounds as usize,
            seed: self.seed,
            tuning: self.log.tuning(),
        }
    }
}

#[derive(Debug, Args)]
pub struct Recovery {
    #[command(flatten)]
    pub scheme: OneScheme,
    /// Directory for the database, which must be empty or not exist
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// Rows of the table
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub rows: u64,
    /// Length of a row's value, at least 8
    #[arg(long, default_value_t = 100, value_name = "BYTES")]
    pub value_bytes: usize,
    /// Log to be replayed, in MiB
    #[arg(long, default_value_t = 256, value_name = "MIB")]
    pub log_mib: u64,
    /// Rows that a transaction updates
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub updates: u64,
    #[command(flatten)]
    pub compression: Compression,
    /// Have the system drop all files from its cache before each opening and reading (Linux, as root)
    #[arg(long)]
    pub drop_caches: bool,
    /// Seed of the updates
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Only build the database, and die
    #[arg(long, hide = true)]
    pub build: bool,
    #[command(flatten)]
    pub output: Output,
}

impl Recovery {
    pub fn options(&self) -> recovery::Options {
        recovery::Options {
            scheme: self.scheme.scheme,
            directory: self.dir.clone(),
            rows: self.rows,
            value_bytes: self.value_bytes,
            log_bytes: self.log_mib << 20,
            updates: self.updates,
            drop_caches: self.drop_caches,
            seed: self.seed,
            tuning: Tuning { compress_checkpoints: self.compression.compress_checkpoints, ..Tuning::default() },
        }
    }
}
