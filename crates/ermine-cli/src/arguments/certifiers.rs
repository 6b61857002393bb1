//! Workloads that stress certifiers; the last two compare schemes.

use clap::Args;
use ermine_bench::{batch, pause::Pause, read_mostly, sibench, stock, write_skew};

use super::run::{OneScheme, Run, Schemes, Time};

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
    /// A group of clients, each with its own thread: accesses of a transaction, and how many of them, at the end, are
    /// writes. May be given several times [default: half of the threads 8-12:3, the others 100-200:1]
    #[arg(long = "group", value_name = "CLIENTS:MIN-MAX:WRITES", conflicts_with = "threads")]
    pub groups: Vec<sibench::Group>,
}

impl Sibench {
    pub fn options(&self) -> sibench::Options {
        let groups = match self.groups.is_empty() {
            true => sibench::Group::usual(self.run.threads() as u32),
            false => self.groups.clone(),
        };
        let (records, theta, run_options) = (self.records, self.theta, self.time.run_options(&self.run));
        sibench::Options { scheme: self.scheme.scheme, records, theta, groups, run_options }
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
            run_options: self.time.run_options(&self.run),
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
    /// Between a receipt's read of the batch number and its write: turns of an empty loop (some tens of nanoseconds
    /// each), or yield, as for write-skew
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
            run_options: self.time.run_options(&self.run),
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
    /// Records that a transaction reads; several values separated by commas
    #[arg(long, default_value = "1000", value_name = "N,..", value_delimiter = ',')]
    pub reads: Vec<u32>,
    /// Percentage of the records read that are written; several values separated by commas
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
            run_options: self.time.run_options(&self.run),
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
    /// Percentage of the rows that a long transaction scans
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
            run_options: self.time.run_options(&self.run),
        }
    }
}
