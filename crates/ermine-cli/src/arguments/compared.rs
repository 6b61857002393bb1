//! Workloads of the literature that compare schemes.

use clap::{Args, ValueEnum};
use ermine_bench::{compare, pause::Pause, smallbank, tatp, ycsb};

use super::run::Compare;

#[derive(Debug, Args)]
pub struct SmallBank {
    #[command(flatten)]
    pub compare: Compare,
    /// Customers, each with a savings and a checking account, once for each scheme
    #[arg(long, default_value_t = 18_000, value_name = "N")]
    pub customers: u32,
    /// The first customers, which most transactions are for; fewer mean more conflicts
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    pub hot_customers: u32,
    /// Percentage of the transactions that are for hot customers
    #[arg(long, default_value_t = 90, value_name = "PERCENT")]
    pub hot_percent: u32,
    /// Between the reads and the write of a WriteCheck: turns of an empty loop (some tens of nanoseconds each), or
    /// yield: the core goes to another thread
    #[arg(long, default_value = "0", value_name = "SPINS|yield")]
    pub pause: Pause,
}

impl SmallBank {
    pub fn options(&self) -> compare::Options<smallbank::SmallBank> {
        let &Self { customers, hot_customers, hot_percent, pause, .. } = self;
        self.compare.options(smallbank::SmallBank { customers, hot_customers, hot_percent, pause })
    }
}

#[derive(Debug, Args)]
pub struct Ycsb {
    #[command(flatten)]
    pub compare: Compare,
    /// The workloads, separated by commas; they run one after the other on the same records [default: all]
    #[arg(long = "workload", value_name = "A-F,..", value_delimiter = ',')]
    pub workloads: Vec<ycsb::Mix>,
    /// Records loaded, about 1000 bytes each, once for each scheme
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    pub records: u64,
    /// Fields of a record
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub fields: usize,
    /// Length of a field, at least 8
    #[arg(long, default_value_t = 100, value_name = "BYTES")]
    pub field_bytes: usize,
    /// Distribution of the records drawn [default: latest for D, zipfian for the others]
    #[arg(long, value_enum, value_name = "NAME")]
    pub distribution: Option<Distribution>,
    /// Skew of the distributions other than uniform
    #[arg(long, default_value_t = 0.99, value_name = "THETA")]
    pub theta: f64,
    /// Maximum number of records of a scan
    #[arg(long, default_value_t = 100, value_name = "N")]
    pub scan_max: u32,
    /// Operations of a transaction, each drawn by itself; 10 and 16 are usual in the literature on concurrency control
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub operations_per_transaction: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Distribution {
    Zipfian,
    Uniform,
    Latest,
}

impl Ycsb {
    pub fn options(&self) -> compare::Options<ycsb::Ycsb> {
        let &Self { records, fields, field_bytes, theta, scan_max, operations_per_transaction, .. } = self;
        let distribution = self.distribution.map(|distribution| match distribution {
            Distribution::Zipfian => ycsb::Distribution::Zipfian,
            Distribution::Uniform => ycsb::Distribution::Uniform,
            Distribution::Latest => ycsb::Distribution::Latest,
        });
        let mixes = if self.workloads.is_empty() { ycsb::Mix::ALL.to_vec() } else { self.workloads.clone() };
        self.compare.options(ycsb::Ycsb {
            mixes,
            records,
            fields,
            field_bytes,
            distribution,
            theta,
            scan_max,
            operations: operations_per_transaction,
        })
    }
}

#[derive(Debug, Args)]
pub struct Tatp {
    #[command(flatten)]
    pub compare: Compare,
    /// Subscribers, about 600 bytes each with all that belongs to them, once for each scheme
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    pub subscribers: u32,
    /// Draw all subscribers alike; otherwise, by the description's non-uniform function
    #[arg(long)]
    pub uniform: bool,
}

impl Tatp {
    pub fn options(&self) -> compare::Options<tatp::Tatp> {
        let &Self { subscribers, uniform, .. } = self;
        self.compare.options(tatp::Tatp { subscribers, uniform })
    }
}
