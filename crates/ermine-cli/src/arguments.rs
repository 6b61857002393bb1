//! The arguments of every verb, with their help texts.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use ermine::Scheme;
use ermine_bench::{
    batch, churn, machine, micro,
    pause::Pause,
    read_mostly, sibench, stock, tpcc,
    trial::{self, Terms},
    write_skew,
};

/// Memory-optimized, serializable OLTP engine: benchmarks, and a judge of histories
#[derive(Debug, Parser)]
#[command(name = "ermine", version, arg_required_else_help = true)]
pub struct Ermine {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Load a database in memory, drive it with many threads, verify it, and report
    Bench {
        #[command(subcommand)]
        workload: Workload,
    },
    /// Judge a recorded history: which isolation levels hold, and the smallest cycle of each anomaly
    ///
    /// Reads histories of Ermine (JSON lines, docs/design/check.md) and those that Jepsen's Elle reads (EDN or JSON). Exit
    /// code 1 when the expected level does not hold, 2 when the file cannot be read.
    Check(Check),
}

#[derive(Debug, Args)]
pub struct Check {
    /// The history; - is the standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// What the file is
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    pub format: Format,
    /// The level that has to hold
    #[arg(long, value_enum, default_value_t = Expected::Serializable)]
    pub expect: Expected,
    /// Write the whole report as JSON; - is the standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the history for foreign checkers, as EDN, or as JSON if the name ends so
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
}

impl Expected {
    pub fn level(self) -> ermine_check::Level {
        match self {
            Self::Rc => ermine_check::Level::ReadCommitted,
            Self::Si => ermine_check::Level::SnapshotIsolation,
            Self::Serializable => ermine_check::Level::Serializable,
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum Workload {
    /// The full TPC-C-like mix, verified afterwards
    ///
    /// New-Order 45 %, Payment 43 %, Order-Status, Delivery and Stock-Level 4 % each, without key and think times. One
    /// New-Order in a hundred is rolled back by its user. The consistency conditions are checked after the load and,
    /// in one snapshot, after the run; exit code 1 when one fails (but not after a run under rc, which permits the lost
    /// updates behind it). Results are TPC-C-like and not comparable with
    /// published TPC-C results.
    Tpcc(Tpcc),
    /// The TPC-C-like mix with credit checks (TPC-C++), which is not serializable under snapshot isolation
    ///
    /// New-Order 41 %, Payment 43 %, Order-Status, Delivery, Stock-Level and Credit-Check 4 % each. A credit check reads a
    /// customer's balance and sums up the orders that are not delivered; New-Order and Payment read the status that it
    /// writes. Beside the conditions of tpcc: every order was accepted under the last credit check that had not seen it;
    /// exit code 1 when one was not, but not under rc and si, which permit it.
    CreditCheck(CreditCheck),
    /// Random reads, then writes, of one table, by groups of clients (SIBENCH as in the SSN paper, section 7.2)
    ///
    /// Exit code 1 when a record holds what an attempt wrote that did not commit.
    Sibench(Sibench),
    /// Pairs of accounts that may not be overdrawn together
    ///
    /// Prints how often a pair was; exit code 1 when one was under a serializable scheme. Under rc and si it is expected.
    WriteSkew(WriteSkew),
    /// Receipts, a batch that is closed, and a report that must not change any more (the read-only anomaly)
    ///
    /// Prints how many reports of closed batches turned out wrong; exit code 1 when one did under a serializable scheme.
    /// Under rc and si it is expected.
    Batch(Batch),
    /// Many reads and few writes under several schemes (ERMIA, figure 1)
    ///
    /// Each scheme has a database of its own in the same process; they run in turn, in rounds. Prints commits a second,
    /// their ratio to si in the same round, and commits per attempt. Exit code 1 when a write got lost, but not under rc.
    Stock(Stock),
    /// Long scans with one write beside short writers, under several schemes
    ///
    /// As stock: in turn, in rounds, compared with si.
    ReadMostly(ReadMostly),
    /// Single operations over one table, to compare with other engines
    Micro(Micro),
    /// Updates on a fixed number of rows for a long time: is memory flat?
    ///
    /// Prints memory a hundred times (at most once a second); exit code 1 when resident memory of the last quarter of
    /// the run is more than 5 % (and more than 8 MiB) above that of the second.
    Churn(Churn),
}

/// Of workloads that run under one scheme.
#[derive(Clone, Debug, Args)]
pub struct OneScheme {
    /// Concurrency control: rc, si, or one of the serializable rc-ssn, si-ssn, si-ssi, mvocc
    #[arg(long, default_value_t = Scheme::default(), value_name = "SCHEME")]
    pub scheme: Scheme,
}

/// Of workloads that compare schemes.
#[derive(Clone, Debug, Args)]
pub struct Schemes {
    /// Concurrency controls, with commas between: rc, si, or the serializable rc-ssn, si-ssn, si-ssi, mvocc
    #[arg(
        id = "schemes", long = "scheme", value_name = "SCHEME,..", value_delimiter = ',',
        default_values_t = [Scheme::Si, Scheme::SiSsn, Scheme::SiSsi, Scheme::MvOcc]
    )]
    pub schemes: Vec<Scheme>,
    /// Rounds into which the time of each scheme is cut
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: u32,
}

/// What all workloads share.
#[derive(Clone, Debug, Args)]
pub struct Run {
    /// Threads that run transactions; may exceed the cores [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub threads: Option<u32>,
    /// Seed of data and inputs
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Count aborts by shape (transaction, conflict, table) and print the most frequent ones, with example keys
    #[arg(long)]
    pub explain_aborts: bool,
    /// Write the whole report as JSON; - is the standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl Run {
    pub fn threads(&self) -> usize {
        self.threads.map_or_else(machine::cores, |threads| threads as usize)
    }

    /// The terms of a trial that takes this time.
    fn terms(&self, time: &Time) -> Terms {
        Terms {
            warmup: time.warmup,
            measured: time.seconds,
            retry: time.retry.into(),
            seed: self.seed,
            stale_after: time.stale_after,
            explain_aborts: self.explain_aborts,
            observer: None,
        }
    }
}

/// How long, and what follows a lost conflict.
#[derive(Clone, Debug, Args)]
pub struct Time {
    /// Measured time; where schemes are compared, of each scheme (and point)
    #[arg(long, default_value = "5", value_name = "SECONDS", value_parser = positive_seconds)]
    pub seconds: Duration,
    /// Time before, which does not count
    #[arg(long, default_value = "1", value_name = "SECONDS", value_parser = seconds)]
    pub warmup: Duration,
    /// Run a transaction that lost a conflict again until it commits, or drop it
    #[arg(long, value_enum, default_value_t = Retry::Yes)]
    pub retry: Retry,
    /// From which age on a version counts as stale, in bytes of log, so that its readers are not tracked (rc-ssn, si-ssn,
    /// si-ssi); never: every read is tracked [default: each table finds its own]
    #[arg(long, value_name = "BYTES|never", value_parser = stale_after)]
    pub stale_after: Option<u64>,
}

fn stale_after(text: &str) -> Result<u64, String> {
    match text {
        "never" => Ok(u64::MAX),
        bytes => bytes.parse().map_err(|_| "use a number of bytes, or never".to_owned()),
    }
}

#[derive(Debug, Args)]
pub struct Tpcc {
    #[command(flatten)]
    pub scheme: OneScheme,
    #[command(flatten)]
    pub run: Run,
    /// Warehouses, about 100 MB each [default: one a thread]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub warehouses: Option<u32>,
    /// Measured time
    #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = positive_seconds)]
    pub seconds: Duration,
    /// Time before, which does not count
    #[arg(long, default_value = "2", value_name = "SECONDS", value_parser = seconds)]
    pub warmup: Duration,
    /// Order lines in a hundred that another warehouse supplies, drawn for each line
    ///
    /// The rules say 1. Payments are not touched by it: 15 in a hundred are for a customer of another warehouse, as the
    /// rules say. With one warehouse nothing is remote.
    #[arg(long, default_value_t = 1, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub remote_percent: u32,
    /// The warehouse of a transaction: the thread's own, or any
    #[arg(long, value_enum, default_value_t = Home::Fixed)]
    pub home: Home,
    /// Run a transaction that lost a conflict again until it commits, or drop it
    #[arg(long, value_enum, default_value_t = Retry::Yes)]
    pub retry: Retry,
    /// Rows a warehouse; small ones load in no time and measure nothing
    #[arg(long, value_enum, default_value_t = Scale::Full, hide = true)]
    pub scale: Scale,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Home {
    Fixed,
    Random,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Retry {
    Yes,
    No,
}

impl From<Retry> for trial::Retry {
    fn from(retry: Retry) -> Self {
        match retry {
            Retry::Yes => Self::Yes,
            Retry::No => Self::No,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Scale {
    Full,
    Small,
}

impl Tpcc {
    pub fn options(&self) -> tpcc::Options {
        let threads = self.run.threads();
        tpcc::Options {
            scheme: self.scheme.scheme,
            threads,
            warehouses: self.warehouses.unwrap_or(threads as u32),
            warmup: self.warmup,
            measured: self.seconds,
            remote_percent: self.remote_percent,
            home: match self.home {
                Home::Fixed => tpcc::Home::Fixed,
                Home::Random => tpcc::Home::Random,
            },
            retry: self.retry.into(),
            seed: self.run.seed,
            scale: match self.scale {
                Scale::Full => tpcc::Scale::FULL,
                Scale::Small => tpcc::Scale::SMALL,
            },
            mix: tpcc::Mix::Standard,
            credit_pause: Pause::NONE,
            explain_aborts: self.run.explain_aborts,
            observer: None,
        }
    }
}

#[derive(Debug, Args)]
pub struct CreditCheck {
    #[command(flatten)]
    pub tpcc: Tpcc,
    /// Between what a credit check reads and what it writes: turns of an empty loop (some tens of nanoseconds each), or
    /// yield: the core goes to another thread. The longer, the more often it misses a new order
    #[arg(long, default_value = "0", value_name = "SPINS|yield")]
    pub pause: Pause,
}

impl CreditCheck {
    pub fn options(&self) -> tpcc::Options {
        tpcc::Options { mix: tpcc::Mix::CreditCheck, credit_pause: self.pause, ..self.tpcc.options() }
    }
}

#[derive(Debug, Args)]
pub struct Micro {
    #[command(flatten)]
    pub scheme: OneScheme,
    #[command(flatten)]
    pub run: Run,
    /// Rows loaded before
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(100..))]
    pub records: u64,
    /// Length of a value
    #[arg(long, default_value_t = 100, value_name = "BYTES")]
    pub value_bytes: usize,
    /// What a transaction does
    ///
    /// get: one point read. scan: 100 rows from a random key on. mixed: one point read (70 %) or one put (30 %).
    /// get10: ten point reads asked for at once. rmw: five point reads and five read-modify-writes. rmw10: ten read-modify-writes. insert: one new row, keys in
    /// random order. all: each of them in turn.
    #[arg(long, default_value = "all", value_name = "OPERATION", value_parser = operations)]
    pub operation: Operations,
    /// Skew of the keys drawn (Zipf); 0 is uniform, 0.99 is usual
    #[arg(long, default_value_t = 0.0, value_name = "THETA")]
    pub theta: f64,
    /// Measured time of each operation
    #[arg(long, default_value = "5", value_name = "SECONDS", value_parser = positive_seconds)]
    pub seconds: Duration,
    /// Time before each, which does not count
    #[arg(long, default_value = "1", value_name = "SECONDS", value_parser = seconds)]
    pub warmup: Duration,
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
            warmup: self.warmup,
            measured: self.seconds,
            operations: self.operation.0.clone(),
            seed: self.run.seed,
            explain_aborts: self.run.explain_aborts,
            observer: None,
        }
    }
}

#[derive(Debug, Args)]
pub struct Churn {
    #[command(flatten)]
    pub scheme: OneScheme,
    #[command(flatten)]
    pub run: Run,
    /// Rows, as many at the end as at the beginning
    #[arg(long, default_value_t = 500_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1_000..))]
    pub rows: u32,
    /// How long
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
            explain_aborts: self.run.explain_aborts,
            observer: None,
        }
    }
}

#[derive(Debug, Args)]
pub struct Sibench {
    #[command(flatten)]
    pub scheme: OneScheme,
    #[command(flatten)]
    pub run: Run,
    #[command(flatten)]
    pub time: Time,
    /// Records of the table; fewer mean more conflicts
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub records: u64,
    /// Skew of the records drawn (Zipf); 0 is uniform, 0.99 is usual
    #[arg(long, default_value_t = 0.0, value_name = "THETA")]
    pub theta: f64,
    /// A group of clients, a thread each: accesses of a transaction, and how many of them, at the end, are writes. May be
    /// given several times [default: half of the threads 8-12:3, the others 100-200:1]
    #[arg(long = "group", value_name = "CLIENTS:MIN-MAX:WRITES", conflicts_with = "threads")]
    pub groups: Vec<sibench::Group>,
}

impl Sibench {
    pub fn options(&self) -> sibench::Options {
        let groups = match self.groups.is_empty() {
            true => sibench::Group::usual(self.run.threads() as u32),
            false => self.groups.clone(),
        };
        let (records, theta, terms) = (self.records, self.theta, self.run.terms(&self.time));
        sibench::Options { scheme: self.scheme.scheme, records, theta, groups, terms }
    }
}

#[derive(Debug, Args)]
pub struct WriteSkew {
    #[command(flatten)]
    pub scheme: OneScheme,
    #[command(flatten)]
    pub run: Run,
    #[command(flatten)]
    pub time: Time,
    /// Pairs of accounts; fewer mean more conflicts
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub pairs: u32,
    /// Between reading and writing: turns of an empty loop (some tens of nanoseconds each), or yield: the core goes to
    /// another thread, so that transactions overlap also where there are more threads than cores
    #[arg(long, default_value = "yield", value_name = "SPINS|yield")]
    pub pause: Pause,
}

impl WriteSkew {
    pub fn options(&self) -> write_skew::Options {
        write_skew::Options {
            scheme: self.scheme.scheme,
            threads: self.run.threads(),
            pairs: self.pairs,
            pause: self.pause,
            terms: self.run.terms(&self.time),
        }
    }
}

#[derive(Debug, Args)]
pub struct Batch {
    #[command(flatten)]
    pub scheme: OneScheme,
    #[command(flatten)]
    pub run: Run,
    #[command(flatten)]
    pub time: Time,
    /// Receipts for each close of a batch, on average
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub receipts: u32,
    /// Between a receipt's look at the batch number and its write: turns of an empty loop (some tens of nanoseconds each),
    /// or yield, as for write-skew
    #[arg(long, default_value = "yield", value_name = "SPINS|yield")]
    pub pause: Pause,
    /// Reports read a safe snapshot; otherwise they are transactions that happen not to write
    #[arg(long)]
    pub snapshot_reports: bool,
}

impl Batch {
    pub fn options(&self) -> batch::Options {
        batch::Options {
            scheme: self.scheme.scheme,
            threads: self.run.threads(),
            receipts: self.receipts,
            pause: self.pause,
            snapshot_reports: self.snapshot_reports,
            terms: self.run.terms(&self.time),
        }
    }
}

#[derive(Debug, Args)]
pub struct Stock {
    #[command(flatten)]
    pub schemes: Schemes,
    #[command(flatten)]
    pub run: Run,
    #[command(flatten)]
    pub time: Time,
    /// Records of the table, 312 bytes each, once for each scheme; a warehouse has 100,000
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub records: u64,
    /// Skew of the records drawn (Zipf); 0 is uniform, 0.99 is usual
    #[arg(long, default_value_t = 0.0, value_name = "THETA")]
    pub theta: f64,
    /// Records that a transaction reads; several with commas between
    #[arg(long, default_value = "1000", value_name = "N,..", value_delimiter = ',')]
    pub reads: Vec<u32>,
    /// Of a hundred records read, those written; several with commas between
    #[arg(long, default_value = "1", value_name = "PERCENT,..", value_delimiter = ',')]
    pub write_share: Vec<f64>,
    /// All of 100, 1000 and 10000 reads with 0.01, 0.1, 1 and 10 % writes
    #[arg(long, conflicts_with_all = ["reads", "write_share"])]
    pub sweep: bool,
}

impl Stock {
    pub fn options(&self) -> stock::Options {
        let (reads, write_percents) = match self.sweep {
            true => (stock::SWEEP_READS.to_vec(), stock::SWEEP_WRITE_PERCENTS.to_vec()),
            false => (self.reads.clone(), self.write_share.clone()),
        };
        stock::Options {
            schemes: self.schemes.schemes.clone(),
            threads: self.run.threads(),
            records: self.records,
            theta: self.theta,
            reads,
            write_percents,
            rounds: self.schemes.rounds,
            terms: self.run.terms(&self.time),
        }
    }
}

#[derive(Debug, Args)]
pub struct ReadMostly {
    #[command(flatten)]
    pub schemes: Schemes,
    #[command(flatten)]
    pub run: Run,
    #[command(flatten)]
    pub time: Time,
    /// Threads that run long transactions [default: half of the threads]
    #[arg(long, value_name = "N", requires = "short", conflicts_with = "threads")]
    pub long: Option<u32>,
    /// Threads that run short transactions [default: the other half]
    #[arg(long, value_name = "N", requires = "long", conflicts_with = "threads")]
    pub short: Option<u32>,
    /// Rows of the table, about 100 bytes each, once for each scheme
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub rows: u64,
    /// Of a hundred rows, those that a long transaction scans
    #[arg(long, default_value_t = 20.0, value_name = "PERCENT")]
    pub share: f64,
    /// Rows that a short transaction reads and writes
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub short_rows: u32,
}

impl ReadMostly {
    pub fn options(&self) -> read_mostly::Options {
        let threads = self.run.threads();
        read_mostly::Options {
            schemes: self.schemes.schemes.clone(),
            long: self.long.map_or(threads.div_ceil(2), |long| long as usize),
            short: self.short.map_or(threads / 2, |short| short as usize),
            rows: self.rows,
            scan_percent: self.share,
            short_rows: self.short_rows,
            rounds: self.schemes.rounds,
            terms: self.run.terms(&self.time),
        }
    }
}

/// Seconds, with or without a fraction.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|_| "not a length of time".to_owned())
}

fn positive_seconds(text: &str) -> Result<Duration, String> {
    seconds(text).and_then(|time| if time.is_zero() { Err("nothing happens in no time".to_owned()) } else { Ok(time) })
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, error::ErrorKind};

    use super::*;

    fn parse(line: &str) -> Result<Workload, ErrorKind> {
        match Ermine::try_parse_from(line.split_whitespace()).map_err(|error| error.kind())?.command {
            Command::Bench { workload } => Ok(workload),
            other @ Command::Check(_) => panic!("{other:?}"),
        }
    }

    fn tpcc(line: &str) -> tpcc::Options {
        match parse(&format!("ermine bench tpcc {line}")).unwrap() {
            Workload::Tpcc(arguments) => arguments.options(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Ermine::command().debug_assert();
    }

    #[test]
    fn defaults_follow_the_machine_and_the_rules() {
        let options = tpcc("");
        assert_eq!((options.threads, options.warehouses as usize), (machine::cores(), machine::cores()));
        assert_eq!((options.scheme, options.remote_percent), (Scheme::SiSsn, 1));
        assert_eq!((options.home, options.retry), (tpcc::Home::Fixed, tpcc::Retry::Yes));
        assert_eq!((options.measured, options.warmup), (Duration::from_secs(10), Duration::from_secs(2)));
        assert_eq!(options.scale, tpcc::Scale::FULL);
    }

    #[test]
    fn every_option_arrives() {
        let options = tpcc(
            "--scheme si --threads 4 --warehouses 3 --seconds 0.5 --warmup 0 --remote-percent 100 --home random \
             --retry no --seed 9 --scale small",
        );
        assert_eq!((options.scheme, options.threads, options.warehouses), (Scheme::Si, 4, 3));
        assert_eq!((options.measured, options.warmup), (Duration::from_millis(500), Duration::ZERO));
        assert_eq!((options.remote_percent, options.seed), (100, 9));
        assert_eq!((options.home, options.retry), (tpcc::Home::Random, tpcc::Retry::No));
        assert_eq!(options.scale, tpcc::Scale::SMALL);
        assert_eq!(tpcc("--threads 4").warehouses, 4);
    }

    #[test]
    fn what_cannot_work_is_refused() {
        for line in [
            "tpcc --scheme serial",
            "tpcc --threads 0",
            "tpcc --warehouses 0",
            "tpcc --seconds 0",
            "tpcc --seconds -1",
            "tpcc --remote-percent 101",
            "tpcc --home mine",
            "micro --records 99",
            "micro --operation put",
            "churn --rows 10",
            "sibench --group 2:8-12",
            "sibench --threads 2 --group 2:8-12:3",
            "write-skew --pairs 0",
            "batch --pause long",
            "stock --scheme si,serial",
            "stock --sweep --reads 10",
            "read-mostly --long 1",
            "ycsb",
        ] {
            assert!(parse(&format!("ermine bench {line}")).is_err(), "{line}");
        }
    }

    #[test]
    fn micro_runs_one_operation_or_all() {
        let operations = |line: &str| match parse(line).unwrap() {
            Workload::Micro(arguments) => arguments.options().operations,
            other => panic!("{other:?}"),
        };
        assert_eq!(operations("ermine bench micro"), micro::Operation::ALL);
        assert_eq!(operations("ermine bench micro --operation rmw10"), [micro::Operation::Rmw10]);
    }

    #[test]
    fn groups_come_from_the_threads_or_one_by_one() {
        let groups = |line: &str| match parse(&format!("ermine bench sibench {line}")).unwrap() {
            Workload::Sibench(arguments) => arguments.options().groups,
            other => panic!("{other:?}"),
        };
        assert_eq!(groups("--threads 3"), sibench::Group::usual(3));
        let given = groups("--group 2:8-12:3 --group 1:5:0");
        assert_eq!(given.iter().map(ToString::to_string).collect::<Vec<_>>(), ["2:8-12:3", "1:5-5:0"]);
    }

    #[test]
    fn schemes_are_one_or_several() {
        let stock = |line: &str| match parse(&format!("ermine bench stock {line}")).unwrap() {
            Workload::Stock(arguments) => arguments.options(),
            other => panic!("{other:?}"),
        };
        assert_eq!(stock("--scheme si-ssn,si").schemes, [Scheme::SiSsn, Scheme::Si]);
        assert_eq!(stock("").schemes[0], Scheme::Si);
        assert_eq!(stock("--sweep").reads, stock::SWEEP_READS);
        assert_eq!(stock("--reads 10,20 --write-share 0.01").write_percents, [0.01]);
        let (long, short) = match parse("ermine bench read-mostly --threads 3").unwrap() {
            Workload::ReadMostly(arguments) => (arguments.options().long, arguments.options().short),
            other => panic!("{other:?}"),
        };
        assert_eq!((long, short), (2, 1));
    }

    #[test]
    fn the_mix_is_that_of_the_verb() {
        match parse("ermine bench credit-check --threads 1 --pause yield").unwrap() {
            Workload::CreditCheck(arguments) => {
                assert_eq!(arguments.options().mix, tpcc::Mix::CreditCheck);
                assert_eq!(arguments.options().credit_pause, Pause::Yield);
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_history_is_expected_to_be_serializable() {
        let check = |line: &str| match Ermine::try_parse_from(line.split_whitespace()).map(|ermine| ermine.command) {
            Ok(Command::Check(arguments)) => Some((arguments.format, arguments.expect.level())),
            _ => None,
        };
        use ermine_check::Level;
        assert_eq!(check("ermine check h.jsonl"), Some((Format::Auto, Level::Serializable)));
        let line = "ermine check - --format elle-list-append --expect si --json - --export h.edn";
        assert_eq!(check(line), Some((Format::ElleListAppend, Level::SnapshotIsolation)));
        assert_eq!(check("ermine check"), None);
        assert_eq!(check("ermine check h --expect snapshot"), None);
    }
}
