//! TPC-C, and the same with credit checks.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use ermine_bench::{Result, pause::Pause, tpcc, trial::RunOptions};

use super::run::{OneScheme, Retry, Run, Scale, positive_seconds, seconds};

#[derive(Debug, Args)]
pub struct Tpcc {
    #[command(flatten)]
    pub scheme: OneScheme,
    #[command(flatten)]
    pub run: Run,
    /// Warehouses, about 100 MB each [default: one per thread]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub warehouses: Option<u32>,
    /// Measured time
    #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = positive_seconds)]
    pub seconds: Duration,
    /// Time before, which is not measured
    #[arg(long, default_value = "2", value_name = "SECONDS", value_parser = seconds)]
    pub warmup: Duration,
    /// Percentage of order lines that another warehouse supplies, drawn for each line
    ///
    /// The rules say 1. Payments are not affected by it: 15 in a hundred are for a customer of another warehouse, as
    /// the rules say. With one warehouse nothing is remote.
    #[arg(long, default_value_t = 1, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub remote_percent: u32,
    /// The warehouse of a transaction: the thread's own, or any
    #[arg(long, value_enum, default_value_t = Home::Fixed)]
    pub home: Home,
    /// Rows and rules of TPC-C, or the smaller ones of Silo's public benchmark
    ///
    /// With silo, a stock's notes are in a table that nothing reads, order lines have no note, no order is rolled back,
    /// and Order-Status and Stock-Level read a snapshot where the scheme has them: for comparisons with Silo and
    /// nothing else.
    #[arg(long, value_enum, default_value_t = Rows::Standard)]
    pub rows: Rows,
    /// Run a transaction that lost a conflict again until it commits, or drop it
    #[arg(long, value_enum, default_value_t = Retry::Yes)]
    pub retry: Retry,
    /// Continue with the database that an earlier run has left in DIR, instead of loading one
    #[arg(long, requires = "dir")]
    pub keep: bool,
    /// Write every new order to a file when it is acknowledged: warehouse, district, order, lines; - is the standard
    /// output
    #[arg(long, value_name = "FILE")]
    pub acknowledge: Option<PathBuf>,
    /// Orders that must exist when the database is opened, as written by --acknowledge
    #[arg(long, value_name = "FILE", requires = "keep")]
    pub expect: Option<PathBuf>,
    /// Rows per warehouse; small ones load in no time and measure nothing
    #[arg(long, value_enum, default_value_t = Scale::Full, hide = true)]
    pub scale: Scale,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Home {
    Fixed,
    Random,
}

/// Rows, and the rules that go with them.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Rows {
    Standard,
    Silo,
}

impl Tpcc {
    pub fn options(&self) -> Result<tpcc::Options> {
        let threads = self.run.threads();
        Ok(tpcc::Options {
            scheme: self.scheme.scheme,
            threads,
            warehouses: self.warehouses.unwrap_or(threads as u32),
            remote_percent: self.remote_percent,
            home: match self.home {
                Home::Fixed => tpcc::Home::Fixed,
                Home::Random => tpcc::Home::Random,
            },
            scale: match self.scale {
                Scale::Full => tpcc::Scale::FULL,
                Scale::Small => tpcc::Scale::SMALL,
            },
            rows: match self.rows {
                Rows::Standard => tpcc::RowChoice::Standard,
                Rows::Silo => tpcc::RowChoice::Silo,
            },
            mix: tpcc::Mix::Standard,
            credit_pause: Pause::NONE,
            acknowledge: self.acknowledge.as_deref().map(tpcc::OrderSink::to_path).transpose()?,
            expect: self.expect.clone(),
            run_options: RunOptions {
                retry: self.retry.into(),
                storage: self.run.place.storage(self.keep),
                ..self.run.run_options(self.warmup, self.seconds)
            },
        })
    }
}

#[derive(Debug, Args)]
pub struct CreditCheck {
    #[command(flatten)]
    pub tpcc: Tpcc,
    /// Between a credit check's reads and its write: turns of an empty loop (some tens of nanoseconds each), or yield:
    /// the core goes to another thread. The longer, the more often it misses a new order
    #[arg(long, default_value = "0", value_name = "SPINS|yield")]
    pub pause: Pause,
}

impl CreditCheck {
    pub fn options(&self) -> Result<tpcc::Options> {
        Ok(tpcc::Options { mix: tpcc::Mix::CreditCheck, credit_pause: self.pause, ..self.tpcc.options()? })
    }
}
