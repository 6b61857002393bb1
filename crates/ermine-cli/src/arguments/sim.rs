//! The arguments of `ermine sim`.

use clap::{Args, Subcommand};
use ermine_sim::{Figure, FigureOptions, Group, Options, Scheme};

use super::{
    cores::SimCores,
    htm::{FigureFiles, SimHtmDuration, SimHtmRestarts, SimHtmSize},
    output::Output,
};

#[derive(Debug, Subcommand)]
pub enum Sim {
    /// Simulate one workload under several schemes, and compare them
    ///
    /// All are offered the same transactions at the same times. Rates are percentages of these, latencies are in mean
    /// times of an access. `cycles` counts components of the dependency graph, `failed` the transactions in them that
    /// also fail the exclusion window test, as the paper does.
    Run(SimRun),
    /// Repeat a figure of the SSN paper: 6 contention, 7 share of writes, 8 readers beside writers, 9 safe snapshots
    ///
    /// docs/simulation.md compares the results with the paper.
    Figure(SimFigure),
    /// Run TPC-C on 1 to 64 simulated cores under every scheme: which transactions run at the same time
    ///
    /// TPC-C runs on the engine first, on one thread; the reads and writes of its transactions are recorded, and then
    /// replayed under each scheme: figure 14 of the HTM paper. An access takes the same time under every scheme and on
    /// every core, so the numbers show what conflicts leave, without the costs of a scheme. docs/simulation.md compares
    /// them with the paper.
    Cores(SimCores),
    /// Draw the aborts of hardware transactions by their size, for caches with several ways
    ///
    /// A transaction aborts when more of its random lines are in a set of the L1 cache than the cache has ways: figure
    /// 5 and section III.B of the HTM paper.
    HtmSize(SimHtmSize),
    /// Draw the aborts of hardware transactions by their duration
    ///
    /// A transaction aborts when its core is interrupted: figure 6 and section III.B of the HTM paper. How often that
    /// happens on the paper's machine is not known: see --interval.
    HtmDuration(SimHtmDuration),
    /// Draw the aborts of hardware transactions by the restarts before the latch is taken
    ///
    /// Each access of TPC-C's transactions, recorded as for cores, is a hardware transaction that elides the latch of
    /// its table: figure 15 and sections IV.B, V.A and VI.B of the HTM paper. Abort rate: the accesses that take the
    /// latch in the end.
    HtmRestarts(SimHtmRestarts),
}

#[derive(Debug, Args)]
pub struct SimRun {
    /// The schemes, separated by commas: 2pl, rcl, rcl-ssn, rc, rc-ssn, si, si-ssi, si-ssn; and mvocc, silo, sto, tso,
    /// tso-safe, htm, which are not in the SSN paper [default: those of the paper]
    #[arg(long, value_name = "SCHEME,..", value_delimiter = ',')]
    pub scheme: Vec<Scheme>,
    /// Records of the table; fewer mean more conflicts
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub records: u32,
    /// A group of clients: accesses of a transaction, and how many of them, the last ones, are writes, as a number or a
    /// percentage; behind @ perhaps the mean time between two transactions of a client. May be given several times
    /// [default: 30:8-12:25%]
    #[arg(long = "group", value_name = "CLIENTS:MIN-MAX:WRITES[@INTERVAL]")]
    pub groups: Vec<Group>,
    /// Transactions that all clients together submit
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    pub transactions: u32,
    /// Determines the transactions and their times
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// The expected latency of a transaction without delays, divided by the mean time between two of a client
    #[arg(long, default_value_t = 1.0, value_name = "RATIO")]
    pub load: f64,
    /// Time between two safe snapshots, in mean accesses; groups that only read use them, except under 2pl, rcl, rc and
    /// si, which have none [default: no safe snapshots]
    #[arg(long, value_name = "INTERVAL")]
    pub safe_snapshots: Option<f64>,
    /// Skip the search for cycles, and the memory that it takes
    #[arg(long)]
    pub no_cycle_test: bool,
    #[command(flatten)]
    pub output: Output,
}

impl SimRun {
    pub fn schemes(&self) -> &[Scheme] {
        if self.scheme.is_empty() { &Scheme::SSN_PAPER } else { &self.scheme }
    }

    pub fn options(&self) -> Options {
        let groups = if self.groups.is_empty() { Options::default().groups } else { self.groups.clone() };
        Options {
            records: self.records,
            groups,
            transactions: self.transactions,
            seed: self.seed,
            load: self.load,
            safe_snapshot_interval: self.safe_snapshots,
            cycle_test: !self.no_cycle_test,
        }
    }
}

#[derive(Debug, Args)]
pub struct SimFigure {
    /// Number of the figure, 6 to 9
    #[arg(value_name = "NUMBER", value_parser = figure)]
    pub figure: Figure,
    /// Simulations of each point, with seeds that follow each other; the spread is that between them
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: u32,
    /// The first seed
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Transactions of a simulation [default: 30000; 10000 for figure 7, 100000 for figure 8]
    #[arg(long, value_name = "N")]
    pub transactions: Option<u32>,
    /// As for run
    #[arg(long, default_value_t = 1.0, value_name = "RATIO")]
    pub load: f64,
    /// Every other point, with a fifth of the transactions
    #[arg(long)]
    pub quick: bool,
    #[command(flatten)]
    pub files: FigureFiles,
}

impl SimFigure {
    pub fn options(&self) -> FigureOptions {
        let &Self { seeds, seed, transactions, load, quick, .. } = self;
        FigureOptions { seeds, seed, transactions, load, quick }
    }
}

fn figure(text: &str) -> Result<Figure, String> {
    let number = text.parse().ok().and_then(Figure::numbered);
    number.ok_or_else(|| "use 6, 7, 8 or 9: the figures of section 7 of the SSN paper".to_owned())
}
