//! Trade-Status: the latest fifty trades of an account. Reads only; the most frequent transaction.

use std::hint::black_box;

use ermine::{Access, Job, Scheme, Transaction, prefix};

use super::{rows::StatusId, tables::Tables};
use crate::failure::{Failure, found};

/// Trades that are shown.
const TRADES: usize = 50;

/// The transaction.
pub struct TradeStatus<'a> {
    pub tables: &'a Tables,
    pub account: u64,
}

impl Job for TradeStatus<'_> {
    /// Trades with their statuses, newest first.
    type Output = Vec<(u64, StatusId)>;
    type Error = Failure;

    const SCHEMES: &'static [Scheme] = &[];

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<Self::Output, Failure> {
        let Self { tables, account } = self;
        let trades = txn.scan_by(&tables.trade_by_account, prefix((*account,))).rev().limit(TRADES).collect()?;
        let mut shown = Vec::with_capacity(trades.len());
        for (number, trade) in trades {
            black_box(found(txn.view(&tables.status_type, &trade.status.0)?, "STATUS_TYPE")?);
            black_box(found(txn.view(&tables.trade_type, &trade.kind.0)?, "TRADE_TYPE")?);
            let security = found(txn.view(&tables.security, &trade.symbol.0)?, "SECURITY")?;
            black_box(found(txn.view(&tables.exchange, &security.exchange.0)?, "EXCHANGE")?);
            shown.push((number, trade.status.0));
        }
        let row = found(txn.view(&tables.customer_account, account)?, "CUSTOMER_ACCOUNT")?;
        black_box(found(txn.view(&tables.customer, &row.customer)?, "CUSTOMER")?);
        black_box(found(txn.view(&tables.broker, &row.broker)?, "BROKER")?);
        Ok(shown)
    }
}
