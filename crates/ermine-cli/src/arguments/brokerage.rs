//! The brokerage workload.

use std::time::Duration;

use clap::{Args, ValueEnum};
use ermine::Scheme;
use ermine_bench::{brokerage, trial::RunOptions};

use super::run::{Retry, Run, Scale, positive_seconds, seconds};

#[derive(Debug, Args)]
pub struct Brokerage {
    /// Concurrency controls, separated by commas; each has a database of its own, and they run in turn: rc, si, the
    /// serializable rc-ssn, si-ssn, si-ssi, mvocc, or single-version schemes
    #[arg(
        id = "schemes", long = "scheme", value_name = "SCHEME,..", value_delimiter = ',',
        default_values_t = [Scheme::default()]
    )]
    pub schemes: Vec<Scheme>,
    /// Rounds into which the time of each scheme is divided
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: u32,
    #[command(flatten)]
    pub run: Run,
    /// Customers, a multiple of 1000; with the initial trades they determine the memory: about 0.4 GB for 1000 with 100
    /// trades each [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub customers: Option<u64>,
    /// Trades of each customer before the run; 576 stand for ten trading days at scale factor 500, as in the papers
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub initial_trades: u64,
    /// The shares of the transactions: standard, or hybrid with 20 % asset evaluations (TPC-EH)
    #[arg(long, value_enum, default_value_t = Mix::Standard)]
    pub mix: Mix,
    /// Percentage of the customer accounts that an asset evaluation reads, under the hybrid mix
    #[arg(long, default_value_t = 20.0, value_name = "PERCENT")]
    pub group: f64,
    /// Measured time of each scheme
    #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = positive_seconds)]
    pub seconds: Duration,
    /// Time before, which is not measured
    #[arg(long, default_value = "2", value_name = "SECONDS", value_parser = seconds)]
    pub warmup: Duration,
    /// Run a transaction that lost a conflict again until it commits, or drop it
    #[arg(long, value_enum, default_value_t = Retry::Yes)]
    pub retry: Retry,
    /// Numbers of rows beside customers and trades; small ones load in no time and measure nothing
    #[arg(long, value_enum, default_value_t = Scale::Full, hide = true)]
    pub scale: Scale,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mix {
    Standard,
    Hybrid,
}

impl Brokerage {
    pub fn options(&self) -> brokerage::Options {
        let (scale, customers) = match self.scale {
            Scale::Full => (brokerage::Scale::FULL, 1_000),
            Scale::Small => (brokerage::Scale::SMALL, 200),
        };
        brokerage::Options {
            schemes: self.schemes.clone(),
            threads: self.run.threads(),
            customers: self.customers.unwrap_or(customers),
            initial_trades: self.initial_trades,
            scale,
            mix: match self.mix {
                Mix::Standard => brokerage::Mix::Standard,
                Mix::Hybrid => brokerage::Mix::Hybrid,
            },
            group_percent: self.group,
            rounds: self.rounds,
            run_options: RunOptions { retry: self.retry.into(), ..self.run.run_options(self.warmup, self.seconds) },
        }
    }
}
