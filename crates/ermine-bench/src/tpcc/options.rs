//! The options of a run.

use std::{fmt, path::PathBuf};

use ermine::Scheme;
use serde::Serialize;

use super::{
    acknowledged::OrderSink,
    business::{Business, Scale},
    mix::Mix,
    rows::RowChoice,
};
use crate::{Error, Result, pause::Pause, report::scheme_name, trial::RunOptions};

/// The warehouse that a transaction belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Home {
    /// Every thread has one warehouse for the whole run, as in the rules.
    Fixed,
    /// Any warehouse, for each transaction: threads meet in the same districts.
    Random,
}

/// Options of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// Concurrency control.
    #[serde(serialize_with = "scheme_name")]
    pub scheme: Scheme,
    /// Threads; there may be more than cores.
    pub threads: usize,
    /// Number of warehouses.
    pub warehouses: u32,
    /// Percentage of order lines that are supplied by another warehouse; 1 in the rules.
    pub remote_percent: u32,
    /// Choice of home warehouses.
    pub home: Home,
    /// Numbers of rows per warehouse.
    pub scale: Scale,
    /// The rows, and the rules that go with them.
    pub rows: RowChoice,
    /// The shares of the transactions.
    pub mix: Mix,
    /// Pause of a credit check between its reads and its write.
    pub credit_pause: Pause,
    /// Receives every new order that was acknowledged.
    #[serde(skip)]
    pub acknowledge: Option<OrderSink>,
    /// File written by a sink, with orders that must exist when the database is opened.
    #[serde(skip)]
    pub expect: Option<PathBuf>,
    /// Options that all workloads share.
    #[serde(flatten)]
    pub run_options: RunOptions,
}

impl Options {
    /// Fails if the options cannot work.
    pub fn check(&self) -> Result<()> {
        let usage = |why: &str| Err(Error::Usage(why.into()));
        if self.threads == 0 || self.warehouses == 0 {
            return usage("at least one thread and one warehouse are needed");
        }
        if self.remote_percent > 100 {
            return usage("the remote percentage lies between 0 and 100");
        }
        self.run_options.check(&[self.scheme])
    }

    /// The parameters of its draws.
    pub(super) fn business(&self) -> Business {
        let &Self { warehouses, scale, remote_percent, rows, .. } = self;
        Business { warehouses, scale, remote_percent, mistakes_percent: rows.mistakes_percent() }
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            scheme, threads, warehouses, remote_percent, home, scale, rows, mix, credit_pause, run_options, ..
        } = self;
        write!(
            f,
            "scheme {scheme}, {threads} threads, {warehouses} warehouses, {remote_percent} % remote lines, \
             home {home:?}"
        )?;
        if *scale != Scale::FULL {
            f.write_str(", reduced scale")?;
        }
        if *rows == RowChoice::Silo {
            f.write_str(
                ", rows and rules of Silo's benchmark: STOCK without its notes, short order lines, no rollbacks, \
                 Order-Status and Stock-Level on snapshots where the scheme has them",
            )?;
        }
        if *mix != Mix::Standard {
            write!(f, ", pause {credit_pause} in credit checks")?;
        }
        write!(f, ", {run_options}")
    }
}
