//! The run of TPC-C that the simulator replays.

use std::time::Duration;

use clap::Args;
use ermine_bench::{
    pause::Pause,
    tpcc,
    trial::{Retry, RunOptions},
};

use super::run::Scale;

#[derive(Debug, Args)]
pub struct Recorded {
    /// Warehouses of TPC-C, about 100 MB each
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub warehouses: u32,
    /// Transactions that are recorded and then simulated
    #[arg(
        long, default_value_t = 20_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000)
    )]
    pub transactions: u32,
    /// Percentage of order lines that another warehouse supplies
    #[arg(long, default_value_t = 1, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub remote_percent: u32,
    /// Determines the transactions, and the time of each access
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Rows per warehouse
    #[arg(long, value_enum, default_value_t = Scale::Full, hide = true)]
    pub scale: Scale,
}

impl Recorded {
    /// The options of the run: one thread, for any warehouse, until there are enough transactions.
    pub fn tpcc(&self) -> tpcc::Options {
        tpcc::Options {
            scheme: ermine::Scheme::Si,
            threads: 1,
            warehouses: self.warehouses,
            remote_percent: self.remote_percent,
            home: tpcc::Home::Random,
            scale: match self.scale {
                Scale::Full => tpcc::Scale::FULL,
                Scale::Small => tpcc::Scale::SMALL,
            },
            rows: tpcc::RowChoice::Standard,
            mix: tpcc::Mix::Standard,
            credit_pause: Pause::NONE,
            acknowledge: None,
            expect: None,
            run_options: RunOptions {
                warmup: Duration::ZERO,
                measured: Duration::from_millis(1),
                // One New-Order in a hundred is rolled back, and not recorded.
                least: u64::from(self.transactions) * 21 / 20 + 100,
                retry: Retry::Yes,
                seed: self.seed,
                ..RunOptions::default()
            },
        }
    }
}
