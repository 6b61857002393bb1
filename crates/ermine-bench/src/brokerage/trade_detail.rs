//! The trades that a Trade-Lookup or a Trade-Update asks for, and the rows that both read of each.

use std::ops::ControlFlow;

use ermine::{Access, Transaction, prefix};

use super::{
    draw::{self, initial_trade, time_before_end},
    population::Population,
    rows::{StatusId, Symbol, Trade},
    tables::Tables,
};
use crate::{
    failure::{Failure, found},
    random::Random,
};

/// Most trades of one transaction.
pub const TRADES: usize = 20;

/// Which trades are meant.
#[derive(Clone, Debug)]
pub enum Selection {
    /// These.
    Numbers(Vec<u64>),
    /// The first of an account, from a time to another.
    Account(u64, u64, u64),
    /// The first of a security, from a time to another.
    Symbol(Symbol, u64, u64),
}

impl Selection {
    /// Draws twenty different initial trades.
    pub fn numbers(population: &Population, random: &mut Random) -> Self {
        let wanted = TRADES.min(population.initial_trades() as usize / 4);
        let mut numbers = Vec::with_capacity(wanted);
        while numbers.len() < wanted {
            let number = initial_trade(population, random);
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        Self::Numbers(numbers)
    }

    /// Draws an account, and a time that leaves two fifths of the initial period.
    pub fn account(population: &Population, random: &mut Random) -> Self {
        let account = draw::account(population, random);
        Self::Account(account, time_before_end(population, random, 40), population.end_of_initial_trades())
    }

    /// Draws a security, and a time that leaves a twentieth of the initial period.
    pub fn symbol(population: &Population, random: &mut Random) -> Self {
        let symbol = population.symbol(random.below(population.securities()));
        Self::Symbol(symbol, time_before_end(population, random, 5), population.end_of_initial_trades())
    }

    /// Finds the trades.
    pub fn find<A: Access>(&self, txn: &Transaction<'_, A>, tables: &Tables) -> Result<Vec<(u64, Trade)>, Failure> {
        Ok(match *self {
            Self::Numbers(ref numbers) => {
                let row = |&number: &u64| Ok((number, *found(txn.view(&tables.trade, &number)?, "TRADE")?));
                numbers.iter().map(row).collect::<Result<_, Failure>>()?
            }
            Self::Account(account, from, to) => {
                txn.scan_by(&tables.trade_by_account, (account, from)..=(account, to)).limit(TRADES).collect()?
            }
            Self::Symbol(symbol, from, to) => {
                txn.scan_by(&tables.trade_by_symbol, (symbol, from)..=(symbol, to)).limit(TRADES).collect()?
            }
        })
    }
}

/// What is known about a trade besides its own row: the amount of its settlement and the payment, if it was in cash, in
/// cents; its statuses with their times.
pub type Detail = (i64, Option<i64>, Vec<(StatusId, u64)>);

/// Reads the rows of a completed trade.
pub fn detail<A: Access>(
    txn: &Transaction<'_, A>,
    tables: &Tables,
    (number, trade): &(u64, Trade),
) -> Result<Detail, Failure> {
    let amount = found(txn.view_with(&tables.settlement, number, |row| Ok(row.amount))?, "SETTLEMENT")?;
    let paid = match trade.is_cash {
        1 => {
            let paid = txn.view_with(&tables.cash_transaction, number, |row| Ok(row.amount))?;
            Some(found(paid, "CASH_TRANSACTION")?)
        }
        _ => None,
    };
    let mut history = Vec::with_capacity(3);
    txn.scan(&tables.trade_history, prefix((*number,))).for_each(|(_, status), time| {
        history.push((status, time));
        Ok(ControlFlow::Continue(()))
    })?;
    history.sort_by_key(|&(_, time)| time);
    Ok((amount, paid, history))
}
