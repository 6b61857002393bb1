//! The arguments of every verb, with their help texts.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use ermine::Scheme;
use ermine_bench::{churn, machine, micro, tpcc};

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
    /// Single operations over one table, to compare with other engines
    Micro(Micro),
    /// Updates on a fixed number of rows for a long time: is memory flat?
    ///
    /// Prints memory a hundred times (at most once a second); exit code 1 when resident memory of the last quarter of
    /// the run is more than 5 % (and more than 8 MiB) above that of the second.
    Churn(Churn),
}

/// What all workloads share.
#[derive(Clone, Debug, Args)]
pub struct Run {
    /// Concurrency control: rc, si, or one of the serializable rc-ssn, si-ssn, si-ssi, mvocc
    #[arg(long, default_value_t = Scheme::default(), value_name = "SCHEME")]
    pub scheme: Scheme,
    /// Threads that run transactions; may exceed the cores [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub threads: Option<u32>,
    /// Seed of data and inputs
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Write the whole report as JSON; - is the standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl Run {
    pub fn threads(&self) -> usize {
        self.threads.map_or_else(machine::cores, |threads| threads as usize)
    }
}

#[derive(Debug, Args)]
pub struct Tpcc {
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

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Scale {
    Full,
    Small,
}

impl Tpcc {
    pub fn options(&self) -> tpcc::Options {
        let threads = self.run.threads();
        tpcc::Options {
            scheme: self.run.scheme,
            threads,
            warehouses: self.warehouses.unwrap_or(threads as u32),
            warmup: self.warmup,
            measured: self.seconds,
            remote_percent: self.remote_percent,
            home: match self.home {
                Home::Fixed => tpcc::Home::Fixed,
                Home::Random => tpcc::Home::Random,
            },
            retry: match self.retry {
                Retry::Yes => tpcc::Retry::Yes,
                Retry::No => tpcc::Retry::No,
            },
            seed: self.run.seed,
            scale: match self.scale {
                Scale::Full => tpcc::Scale::FULL,
                Scale::Small => tpcc::Scale::SMALL,
            },
        }
    }
}

#[derive(Debug, Args)]
pub struct Micro {
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
            scheme: self.run.scheme,
            threads: self.run.threads(),
            records: self.records,
            value_bytes: self.value_bytes,
            theta: self.theta,
            warmup: self.warmup,
            measured: self.seconds,
            operations: self.operation.0.clone(),
            seed: self.run.seed,
        }
    }
}

#[derive(Debug, Args)]
pub struct Churn {
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
            scheme: self.run.scheme,
            threads: self.run.threads(),
            rows: self.rows,
            duration: self.seconds,
            seed: self.run.seed,
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
