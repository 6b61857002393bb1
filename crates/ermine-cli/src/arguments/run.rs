//! Arguments that workloads share: threads, time, schemes, the place of the database.

use std::{num::NonZeroU32, path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use ermine::{CheckpointSyncs, Durability, Order, Scheme};
use ermine_bench::{
    compare, machine,
    storage::Storage,
    trial::{self, RunOptions},
    tuning::Tuning,
};

use super::output::Output;

/// Arguments of workloads that run under one scheme.
#[derive(Clone, Debug, Args)]
pub struct OneScheme {
    /// Concurrency control: rc, si, or one of the serializable rc-ssn, si-ssn, si-ssi, mvocc; or a single-version
    /// scheme: silo, 2pl-nowait, 2pl-waitdie, 2pl-wdl, serial, sto, sto-32, tso, tso-validate, vll, partitioned
    #[arg(long, default_value_t = Scheme::default(), value_name = "SCHEME")]
    pub scheme: Scheme,
}

/// Arguments of workloads that compare schemes.
#[derive(Clone, Debug, Args)]
pub struct Schemes {
    /// Concurrency controls, separated by commas: rc, si, the serializable rc-ssn, si-ssn, si-ssi, mvocc, or
    /// single-version schemes
    #[arg(
        id = "schemes", long = "scheme", value_name = "SCHEME,..", value_delimiter = ',',
        default_values_t = [Scheme::Si, Scheme::SiSsn, Scheme::SiSsi, Scheme::MvOcc]
    )]
    pub schemes: Vec<Scheme>,
    /// Rounds into which the time of each scheme is divided
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: u32,
}

/// Arguments that all workloads share.
#[derive(Clone, Debug, Args)]
pub struct Run {
    /// Threads that run transactions; may exceed the cores [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub threads: Option<u32>,
    /// Seed of data and inputs
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Transactions that all threads together begin a second, at random times, whether those before have ended or not;
    /// a latency lasts from this time [default: each thread begins the next one when the one before has ended]
    #[arg(long, value_name = "N", value_parser = rate)]
    pub rate: Option<f64>,
    /// Count aborts by shape (transaction, conflict, table) and print the most frequent ones, with example keys
    #[arg(long)]
    pub explain_aborts: bool,
    /// Record what every transaction reads and writes, and judge it afterwards: exit code 1 when the history is not
    /// what the scheme promises
    ///
    /// Takes some 30 bytes of memory per operation, and much of the speed. With N, one row in N is recorded. Where
    /// schemes are compared, give one.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1", require_equals = true)]
    pub check: Option<NonZeroU32>,
    /// Write the recorded history to a file, for `ermine check`
    #[arg(long, value_name = "FILE", requires = "check")]
    pub history: Option<PathBuf>,
    #[command(flatten)]
    pub output: Output,
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub log: Log,
    /// Log in MiB after which a checkpoint is made in the background [default: 1024]
    #[arg(long, value_name = "MIB", requires = "dir", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub checkpoint_after: Option<u64>,
    /// Memory in MiB that the database may take; operations that would need more fail [default: three quarters of the
    /// machine's or the control group's, less of a small one]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(16..=1 << 30))]
    pub memory_limit: Option<u64>,
    #[command(flatten)]
    pub compression: Compression,
    /// When a checkpoint syncs, under single-version schemes: a number of MiB, each time a thread has written that
    /// amount; end, once; sleep:MS, once, and its threads sleep for that time after each block (SiloR, figure 4)
    /// [default: 32]
    #[arg(long, value_name = "WHEN", requires = "dir", value_parser = checkpoint_syncs)]
    pub checkpoint_syncs: Option<CheckpointSyncs>,
    /// Longest time in milliseconds that a transaction waits for others before it aborts, under schemes that wait (rc,
    /// rc-ssn, 2pl-waitdie, 2pl-wdl, serial, sto, sto-32, vll, partitioned) [default: 1000]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub wait_max: Option<Duration>,
    /// Order of transactions that the database keeps to, under rc-ssn and si-ssn: strict, a transaction comes after all
    /// that had been acknowledged when it began; session, after those of its client; none [default: strict]
    #[arg(long, value_name = "ORDER")]
    pub order: Option<Order>,
}

impl Run {
    pub fn threads(&self) -> usize {
        self.threads.map_or_else(machine::cores, |threads| threads as usize)
    }

    pub(super) fn tuning(&self) -> Tuning {
        Tuning {
            checkpoint_after: self.checkpoint_after.map(|mib| mib << 20),
            memory_limit: self.memory_limit.map(|mib| mib << 20),
            compress_checkpoints: self.compression.compress_checkpoints,
            checkpoint_syncs: self.checkpoint_syncs,
            wait_max: self.wait_max,
            order: self.order,
            ..self.log.tuning()
        }
    }

    /// Returns the options of a trial that takes this time.
    pub(super) fn run_options(&self, warmup: Duration, measured: Duration) -> RunOptions {
        RunOptions {
            warmup,
            measured,
            rate: self.rate,
            seed: self.seed,
            explain_aborts: self.explain_aborts,
            storage: self.place.storage(false),
            tuning: self.tuning(),
            ..RunOptions::default()
        }
    }
}

fn checkpoint_syncs(when: &str) -> Result<CheckpointSyncs, String> {
    match (when, when.strip_prefix("sleep:")) {
        ("end", _) => Ok(CheckpointSyncs::AtEnd),
        (_, Some(time)) => milliseconds(time).map(CheckpointSyncs::Sleeping),
        _ => match when.parse() {
            Ok(mib @ 1..=1_048_576_u64) => Ok(CheckpointSyncs::Every(mib << 20)),
            _ => Err("use a number of MiB, end, or sleep:MS".into()),
        },
    }
}

/// Compression, under single-version schemes.
#[derive(Clone, Debug, Args)]
pub struct Compression {
    /// Compress checkpoints (LZ4), under single-version schemes
    #[arg(long, requires = "dir")]
    pub compress_checkpoints: bool,
}

/// The parallel log of single-version schemes.
#[derive(Clone, Debug, Args)]
pub struct Log {
    /// A directory of the log, under single-version schemes; may be given several times, once per device [default: DIR]
    ///
    /// It must be empty or not exist. Where schemes are compared, each has a directory of its own in it.
    #[arg(long = "log-dir", value_name = "DIR", requires = "dir")]
    pub log_directories: Vec<PathBuf>,
    /// Least length of an epoch in milliseconds, also a fraction of one, up to 1000, under single-version schemes:
    /// commits become durable epoch by epoch [default: 1]
    #[arg(long, value_name = "MS", requires = "dir", value_parser = milliseconds)]
    pub epoch_interval: Option<Duration>,
}

impl Log {
    pub(super) fn tuning(&self) -> Tuning {
        let (log_directories, epoch_interval) = (self.log_directories.clone(), self.epoch_interval);
        Tuning { log_directories, epoch_interval, ..Tuning::default() }
    }
}

/// The place of the database, and when a commit counts.
#[derive(Clone, Debug, Args)]
pub struct Place {
    /// Keep the database in this directory, which must be empty or not exist [default: in memory]
    ///
    /// Where schemes are compared, each has a directory of its own in it.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// When a commit counts: durable, when it is on the device; async, at once; none: nothing is written [default:
    /// durable]
    #[arg(long, value_name = "WHEN", requires = "dir")]
    pub durability: Option<Durability>,
    /// Commits of a thread that may wait for the device at a time; 1: each is waited for [default: 64]
    #[arg(long, value_name = "N", requires = "dir", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub outstanding: Option<u32>,
}

impl Place {
    /// Returns the storage, or none for a run in memory; with `keep`, the database of an earlier run is continued.
    pub fn storage(&self, keep: bool) -> Option<Storage> {
        Some(Storage {
            directory: self.dir.clone()?,
            durability: self.durability.unwrap_or_default(),
            outstanding: self.outstanding.map_or(Storage::OUTSTANDING, |outstanding| outstanding as usize),
            keep,
        })
    }
}

/// Duration, and handling of lost conflicts.
#[derive(Clone, Debug, Args)]
pub struct Time {
    /// Measured time; where schemes are compared, of each scheme (and point)
    #[arg(long, default_value = "5", value_name = "SECONDS", value_parser = positive_seconds)]
    pub seconds: Duration,
    /// Time before, which is not measured
    #[arg(long, default_value = "1", value_name = "SECONDS", value_parser = seconds)]
    pub warmup: Duration,
    /// Run a transaction that lost a conflict again until it commits, or drop it
    #[arg(long, value_enum, default_value_t = Retry::Yes)]
    pub retry: Retry,
    /// Age in bytes of log from which on a version counts as stale, so that its readers are not tracked (rc-ssn,
    /// si-ssn, si-ssi); never: every read is tracked [default: each table finds its own]
    #[arg(long, value_name = "BYTES|never", value_parser = stale_after)]
    pub stale_after: Option<u64>,
}

impl Time {
    /// Returns the options of a trial with this time and handling.
    pub(super) fn run_options(&self, run: &Run) -> RunOptions {
        let Self { seconds, warmup, retry, stale_after } = self;
        RunOptions { retry: (*retry).into(), stale_after: *stale_after, ..run.run_options(*warmup, *seconds) }
    }
}

/// Arguments of a workload of the form of [`compare`].
#[derive(Clone, Debug, Args)]
pub struct Compare {
    #[command(flatten)]
    pub schemes: Schemes,
    #[command(flatten)]
    pub run: Run,
    #[command(flatten)]
    pub time: Time,
}

impl Compare {
    /// Returns the options of a run of `workload`.
    pub(super) fn options<W>(&self, workload: W) -> compare::Options<W> {
        compare::Options {
            workload,
            schemes: self.schemes.schemes.clone(),
            threads: self.run.threads(),
            rounds: self.schemes.rounds,
            run_options: self.time.run_options(&self.run),
        }
    }
}

fn stale_after(text: &str) -> Result<u64, String> {
    match text {
        "never" => Ok(u64::MAX),
        bytes => bytes.parse().map_err(|_| "use a number of bytes, or never".to_owned()),
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Retry {
    Yes,
    No,
}

/// Numbers of rows of a workload that has rules for them.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Scale {
    Full,
    Small,
}

impl From<Retry> for trial::Retry {
    fn from(retry: Retry) -> Self {
        match retry {
            Retry::Yes => Self::Yes,
            Retry::No => Self::No,
        }
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| "use a number of transactions a second, above 0".to_owned())
}

/// Parses milliseconds, with or without a fraction.
fn milliseconds(text: &str) -> Result<Duration, String> {
    seconds(text).map(|time| time / 1000)
}

/// Parses seconds, with or without a fraction.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|_| "not a length of time".to_owned())
}

pub(super) fn positive_seconds(text: &str) -> Result<Duration, String> {
    seconds(text).and_then(|time| if time.is_zero() { Err("nothing happens in no time".to_owned()) } else { Ok(time) })
}
