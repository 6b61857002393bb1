//! Customer-Position: what each account of a customer is worth, and perhaps the latest trades of one. Reads only.

use std::ops::ControlFlow;

use ermine::{Access, Job, Scheme, Transaction, prefix};

use super::{
    assets::assets,
    draw,
    generate::tax_number,
    population::Population,
    rows::{StatusId, TaxNumber},
    tables::Tables,
};
use crate::{
    failure::{Failure, found},
    random::Random,
};

/// Trades whose history is shown.
const TRADES: usize = 10;
/// Rows of their history.
const ROWS: usize = 30;

/// Input of a Customer-Position.
#[derive(Clone, Debug)]
pub struct CustomerPositionInput {
    customer: Identity,
    /// Which of the accounts shows its history; modulo their number.
    history: Option<u64>,
}

/// How a customer is identified.
#[derive(Clone, Copy, Debug)]
enum Identity {
    Number(u64),
    TaxNumber(TaxNumber),
}

impl CustomerPositionInput {
    /// Draws half of the customers by number, and history for half of them.
    pub fn draw(population: &Population, random: &mut Random) -> Self {
        let (number, _) = draw::customer(population, random);
        let customer = match random.percent(50) {
            true => Identity::Number(number),
            false => Identity::TaxNumber(tax_number(number)),
        };
        Self { customer, history: random.percent(50).then(|| random.bits()) }
    }
}

/// The transaction.
pub struct CustomerPosition<'a> {
    pub tables: &'a Tables,
    pub input: CustomerPositionInput,
}

/// An account with its balance and its assets, in cents.
type Worth = (u64, i64, i64);
/// A trade with a status and its time.
type Step = (u64, StatusId, u64);

impl Job for CustomerPosition<'_> {
    /// The accounts, those with the least assets first, and the history, newest first.
    type Output = (Vec<Worth>, Vec<Step>);
    type Error = Failure;

    const SCHEMES: &'static [Scheme] = &[];

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<Self::Output, Failure> {
        let Self { tables, input } = self;
        let customer = match input.customer {
            Identity::Number(number) => number,
            Identity::TaxNumber(number) => {
                found(txn.scan_by(&tables.customer_by_tax_number, number..=number).first()?, "CUSTOMER by tax number")?
                    .0
            }
        };
        std::hint::black_box(found(txn.view(&tables.customer, &customer)?, "CUSTOMER")?);

        let mut accounts = Vec::new();
        txn.scan_by(&tables.account_by_customer, customer..=customer).for_each(|account, row| {
            accounts.push((account, row.balance, 0));
            Ok(ControlFlow::Continue(()))
        })?;
        for (account, _, worth) in &mut accounts {
            *worth = assets(txn, tables, *account)?;
        }
        accounts.sort_by_key(|&(_, _, worth)| worth);
        let history = match input.history {
            Some(draw) if !accounts.is_empty() => {
                latest(txn, tables, accounts[(draw % accounts.len() as u64) as usize].0)?
            }
            _ => Vec::new(),
        };
        Ok((accounts, history))
    }
}

/// Returns the history of the latest trades of an account.
fn latest<A: Access>(txn: &Transaction<'_, A>, tables: &Tables, account: u64) -> Result<Vec<Step>, Failure> {
    let mut trades = Vec::with_capacity(TRADES);
    txn.scan_by(&tables.trade_by_account, prefix((account,))).rev().limit(TRADES).for_each(|trade, _| {
        trades.push(trade);
        Ok(ControlFlow::Continue(()))
    })?;
    let mut rows = Vec::with_capacity(ROWS);
    for trade in trades {
        for ((_, status), time) in txn.scan(&tables.trade_history, prefix((trade,))).collect()? {
            std::hint::black_box(found(txn.view(&tables.status_type, &status)?, "STATUS_TYPE")?);
            rows.push((trade, status, time));
        }
    }
    rows.sort_by_key(|&(_, _, time)| std::cmp::Reverse(time));
    rows.truncate(ROWS);
    Ok(rows)
}
