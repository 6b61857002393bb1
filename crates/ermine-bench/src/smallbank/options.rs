//! The options of the workload.

use std::fmt;

use serde::Serialize;

use super::tables::CUSTOMERS_MAX;
use crate::{Error, Result, pause::Pause, report::grouped};

/// Options of the workload.
#[derive(Clone, Debug, Serialize)]
pub struct SmallBank {
    /// Customers, each with two accounts.
    pub customers: u32,
    /// The first customers that most transactions are for.
    pub hot_customers: u32,
    /// Percentage of transactions that are for hot customers; the others are for any.
    pub hot_percent: u32,
    /// Pause between the reads and the write of a WriteCheck.
    pub pause: Pause,
}

impl SmallBank {
    /// Fails if the numbers cannot work.
    pub(super) fn check_numbers(&self) -> Result<()> {
        let usage = |why: String| Err(Error::Usage(why));
        if !(2..=CUSTOMERS_MAX).contains(&self.customers) {
            return usage(format!("the number of customers lies between 2 and {CUSTOMERS_MAX}"));
        }
        if !(2..=self.customers).contains(&self.hot_customers) {
            return usage("there are at least 2 hot customers, and at most all are hot".into());
        }
        if self.hot_percent > 100 {
            return usage("the share of transactions for hot customers lies between 0 and 100 %".into());
        }
        Ok(())
    }
}

impl fmt::Display for SmallBank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { customers, hot_customers, hot_percent, pause } = self;
        let (customers, hot) = (grouped(u64::from(*customers)), grouped(u64::from(*hot_customers)));
        write!(f, "{customers} customers, {hot_percent} % of the transactions for {hot} of them, pause {pause}")
    }
}
