//! Trade-Cleanup: cancels the orders that an earlier run has left, whose market is gone.

use std::ops::ControlFlow;

use ermine::{Access, Job, Scheme, Transaction};

use super::{constants::status, tables::Tables};
use crate::{
    failure::{Failure, found},
    fixed::Text,
};

/// Trades of one transaction.
const BATCH: usize = 500;

/// The transaction: it looks at a few hundred trades from a number on.
pub struct TradeCleanup<'a> {
    pub tables: &'a Tables,
    pub from: u64,
    pub now: u64,
}

impl Job for TradeCleanup<'_> {
    /// The number to go on from, if there are more trades.
    type Output = Option<u64>;
    type Error = Failure;

    const SCHEMES: &'static [Scheme] = &[];

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<Option<u64>, Failure> {
        let &mut Self { tables, from, now } = self;
        let (mut open, mut seen, mut last) = (Vec::new(), 0, from);
        txn.scan(&tables.trade, from..).limit(BATCH).for_each(|number, row| {
            (seen, last) = (seen + 1, number);
            if [status::SUBMITTED, status::PENDING].contains(&row.status.0) {
                open.push(number);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        for number in open {
            let mut trade = *found(txn.view(&tables.trade, &number)?, "TRADE")?;
            if txn.delete(&tables.trade_request, &number)? {
                txn.insert(&tables.trade_history, &(number, status::SUBMITTED), &now)?;
            }
            (trade.dts, trade.status) = (now, Text(status::CANCELED));
            txn.update(&tables.trade, &number, &trade)?;
            txn.insert(&tables.trade_history, &(number, status::CANCELED), &now)?;
        }
        Ok((seen == BATCH).then_some(last + 1))
    }
}
