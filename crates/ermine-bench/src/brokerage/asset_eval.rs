//! Asset-Eval: what the accounts of a group of customers are worth together; the result is kept in ASSETS_HISTORY.
//!
//! The transaction of the hybrid mix (ERMIA 4.1, TPC-EH in SSN 8.1): long, and all but one of its accesses are reads.
//! The one insert denies it a read-only snapshot, so that a scheme has to certify all that it has read against the
//! Market-Feeds and Trade-Results beside it.

use std::ops::ControlFlow;

use ermine::{Access, Job, Scheme, Transaction};

use super::{
    assets::assets,
    population::{ACCOUNTS_MAX, Population},
    rows::AssetsHistory,
    tables::Tables,
};
use crate::{failure::Failure, random::Random};

/// Input of an Asset-Eval: customers one after the other, and the key of the result.
#[derive(Clone, Debug)]
pub struct AssetEvalInput {
    first_customer: u64,
    customers: u64,
    number: u64,
}

impl AssetEvalInput {
    /// Draws a group of `percent` hundredths of the customers, and with them of the accounts.
    pub fn draw(population: &Population, percent: f64, number: u64, random: &mut Random) -> Self {
        let customers = ((population.customers as f64 * percent / 100.0).round() as u64).max(1);
        Self { first_customer: random.uniform(1..=population.customers - customers + 1), customers, number }
    }
}

/// The transaction.
pub struct AssetEval<'a> {
    pub tables: &'a Tables,
    pub input: AssetEvalInput,
}

impl Job for AssetEval<'_> {
    /// In cents.
    type Output = i64;
    type Error = Failure;

    const SCHEMES: &'static [Scheme] = &[];

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<i64, Failure> {
        let Self { tables, input: AssetEvalInput { first_customer, customers, number } } = self;
        let first_account = (*first_customer - 1) * ACCOUNTS_MAX + 1;
        let last_account = (*first_customer + *customers - 1) * ACCOUNTS_MAX;
        let mut accounts = Vec::with_capacity(*customers as usize * 6);
        txn.scan(&tables.customer_account, first_account..=last_account).for_each(|account, _| {
            accounts.push(account);
            Ok(ControlFlow::Continue(()))
        })?;
        let mut total = 0;
        for account in accounts {
            total += assets(txn, tables, account)?;
        }
        txn.insert(&tables.assets_history, number, &AssetsHistory { first_account, last_account, total })?;
        Ok(total)
    }
}
