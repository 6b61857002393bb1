//! Market-Feed: twenty entries of the ticker reach the database; limit orders whose price they meet are submitted.
//!
//! All entries are one transaction.

use std::ops::ControlFlow;

use ermine::{Access, Job, Scheme, Transaction, prefix};

use super::{
    constants::status,
    emulator::{Order, TickerEntry, is_met},
    population::Population,
    rows::{LastTrade, Symbol},
    tables::Tables,
};
use crate::{
    failure::{Failure, found},
    fixed::Text,
};

/// The transaction.
pub struct MarketFeed<'a> {
    pub tables: &'a Tables,
    pub population: &'a Population,
    pub entries: &'a [TickerEntry],
    pub now: u64,
}

impl Job for MarketFeed<'_> {
    /// The orders that it has submitted.
    type Output = Vec<Order>;
    type Error = Failure;

    const SCHEMES: &'static [Scheme] = &[];

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<Vec<Order>, Failure> {
        let mut submitted = Vec::new();
        for entry in self.entries {
            let symbol = self.population.symbol(entry.security);
            let last = *found(txn.view(&self.tables.last_trade, &symbol)?, "LAST_TRADE")?;
            let volume = last.volume + i64::from(entry.quantity);
            let row = LastTrade { dts: self.now, price: entry.price, volume, ..last };
            txn.update(&self.tables.last_trade, &symbol, &row)?;
            self.submit_met(txn, entry, symbol, &mut submitted)?;
        }
        Ok(submitted)
    }
}

impl MarketFeed<'_> {
    /// Submits the orders of a symbol whose limit the entry meets.
    fn submit_met<A: Access>(
        &self,
        txn: &Transaction<'_, A>,
        entry: &TickerEntry,
        symbol: Symbol,
        submitted: &mut Vec<Order>,
    ) -> Result<(), Failure> {
        let (tables, now) = (self.tables, self.now);
        let first = submitted.len();
        txn.scan_by(&tables.trade_request_by_symbol, prefix((symbol,))).for_each(|trade, row| {
            let (kind, bid_price) = (row.kind.0, row.bid_price);
            if is_met(kind, bid_price, entry.price) {
                submitted.push(Order { trade, security: entry.security, kind, bid_price, quantity: row.quantity });
            }
            Ok(ControlFlow::Continue(()))
        })?;
        for &Order { trade, .. } in &submitted[first..] {
            let mut row = *found(txn.view(&tables.trade, &trade)?, "TRADE of a request")?;
            // Another client may have placed the order after this transaction took its time.
            let now = now.max(row.dts);
            (row.dts, row.status) = (now, Text(status::SUBMITTED));
            txn.update(&tables.trade, &trade, &row)?;
            txn.delete(&tables.trade_request, &trade)?;
            txn.insert(&tables.trade_history, &(trade, status::SUBMITTED), &now)?;
        }
        Ok(())
    }
}
