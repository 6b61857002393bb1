//! Trade-Lookup: trades of the past with all that followed from them. Reads only.

use std::ops::ControlFlow;

use ermine::{Access, Job, Scheme, Transaction, prefix};

use super::{
    draw::{self, time_before_end},
    population::Population,
    tables::Tables,
    trade_detail::{Detail, Selection, TRADES, detail},
};
use crate::{
    failure::{Failure, found},
    random::Random,
};

/// Input of a Trade-Lookup.
#[derive(Clone, Debug)]
pub enum TradeLookupInput {
    /// Trades with their details.
    Trades(Selection),
    /// The holdings that the first trade of an account since a time has changed.
    Holdings(u64, u64),
}

impl TradeLookupInput {
    /// Draws 30 % each of trades by number, by account and by security, and 10 % holdings.
    pub fn draw(population: &Population, random: &mut Random) -> Self {
        match random.below(100) {
            0..30 => Self::Trades(Selection::numbers(population, random)),
            30..60 => Self::Trades(Selection::account(population, random)),
            60..90 => Self::Trades(Selection::symbol(population, random)),
            _ => Self::Holdings(draw::account(population, random), time_before_end(population, random, 10)),
        }
    }
}

/// The transaction.
pub struct TradeLookup<'a> {
    pub tables: &'a Tables,
    pub input: &'a TradeLookupInput,
}

/// The answer.
#[derive(Debug, Default)]
pub struct Found {
    pub trades: Vec<(u64, Detail)>,
    /// Changes of holdings: the trade that opened it, the trade that changed it, the quantities before and after.
    pub changes: Vec<(u64, u64, i32, i32)>,
}

impl Job for TradeLookup<'_> {
    type Output = Found;
    type Error = Failure;

    const SCHEMES: &'static [Scheme] = &[];

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<Found, Failure> {
        let tables = self.tables;
        let mut answer = Found::default();
        match self.input {
            TradeLookupInput::Trades(selection) => {
                for trade in selection.find(txn, tables)? {
                    std::hint::black_box(found(txn.view(&tables.trade_type, &trade.1.kind.0)?, "TRADE_TYPE")?);
                    answer.trades.push((trade.0, detail(txn, tables, &trade)?));
                }
            }
            &TradeLookupInput::Holdings(account, since) => {
                let range = (account, since)..=(account, u64::MAX);
                let Some((trade, _)) = txn.scan_by(&tables.trade_by_account, range).first()? else {
                    return Ok(answer);
                };
                for ((lot, _), _) in txn.scan_by(&tables.holding_history_by_trade, trade..=trade).collect()? {
                    let rest = TRADES - answer.changes.len();
                    txn.scan(&tables.holding_history, prefix((lot,))).limit(rest).for_each(|(lot, trade), row| {
                        answer.changes.push((lot, trade, row.before, row.after));
                        Ok(ControlFlow::Continue(()))
                    })?;
                }
            }
        }
        Ok(answer)
    }
}
