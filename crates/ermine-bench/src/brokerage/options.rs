//! The options of a run.

use std::fmt;

use ermine::Scheme;
use serde::Serialize;

use super::{
    mix::Mix,
    population::{CUSTOMERS_OF_BROKER, Population, Scale},
};
use crate::{
    Error, Result,
    report::{grouped, listed, scheme_names},
    rounds,
    trial::RunOptions,
};

/// Options of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// Concurrency controls, in the order of the report; each has a database of its own.
    #[serde(serialize_with = "scheme_names")]
    pub schemes: Vec<Scheme>,
    /// Threads; there may be more than cores.
    pub threads: usize,
    /// Customers, a multiple of the scale's unit.
    pub customers: u64,
    /// Trades of each customer before the run.
    pub initial_trades: u64,
    /// Numbers of rows that do not depend on the number of customers.
    pub scale: Scale,
    /// The shares of the transactions.
    pub mix: Mix,
    /// Percentage of the customer accounts that an asset evaluation reads.
    pub group_percent: f64,
    /// Rounds into which the time of each scheme is divided.
    pub rounds: u32,
    /// Options that all workloads share.
    #[serde(flatten)]
    pub run_options: RunOptions,
}

impl Options {
    /// Fails if the options cannot work.
    pub fn check(&self) -> Result<()> {
        let usage = |why: String| Err(Error::Usage(why));
        let unit = self.scale.unit.max(CUSTOMERS_OF_BROKER);
        if self.threads == 0 {
            return usage("at least one thread is needed".into());
        }
        if self.customers == 0 || !self.customers.is_multiple_of(unit) {
            return usage(format!("the number of customers is a multiple of {unit}"));
        }
        if self.initial_trades == 0 {
            return usage("a customer has at least one initial trade".into());
        }
        if !(self.group_percent > 0.0 && self.group_percent <= 100.0) {
            return usage("the group of an asset evaluation lies between 0 and 100 % of the accounts".into());
        }
        rounds::check(&self.schemes, self.rounds, &self.run_options)
    }

    /// The size of each database.
    pub(super) fn population(&self) -> Population {
        let &Self { customers, initial_trades, scale, .. } = self;
        Population { customers, trades: initial_trades, scale, seed: self.run_options.seed }
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { schemes, threads, customers, initial_trades, mix, group_percent, rounds, run_options, .. } = self;
        let (schemes, customers) = (listed(schemes), grouped(*customers));
        write!(
            f,
            "schemes {schemes}, {threads} threads, {customers} customers, {initial_trades} initial trades each, \
             mix {mix}"
        )?;
        if *mix == Mix::Hybrid {
            write!(f, ", asset evaluations of {group_percent} % of the accounts")?;
        }
        if self.scale != Scale::FULL {
            f.write_str(", reduced scale")?;
        }
        write!(f, ", each scheme {run_options}, in {rounds} rounds")
    }
}
