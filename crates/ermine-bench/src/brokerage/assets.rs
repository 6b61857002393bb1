//! The worth of what an account holds, as Customer-Position, Asset-Eval and Trade-Order compute it.

use std::ops::ControlFlow;

use ermine::{Access, Transaction, prefix};
use smallvec::SmallVec;

use super::{rows::Symbol, tables::Tables};
use crate::failure::{Failure, found};

/// The quantities of an account at the latest prices, in cents: HOLDING_SUMMARY joined with LAST_TRADE.
pub fn assets<A: Access>(txn: &Transaction<'_, A>, tables: &Tables, account: u64) -> Result<i64, Failure> {
    let mut holdings = SmallVec::<[(Symbol, i32); 18]>::new();
    txn.scan(&tables.holding_summary, prefix((account,))).for_each(|(_, symbol), quantity| {
        holdings.push((symbol, quantity));
        Ok(ControlFlow::Continue(()))
    })?;
    let mut sum = 0;
    for (symbol, quantity) in holdings {
        let price = found(txn.view_with(&tables.last_trade, &symbol, |row| Ok(row.price))?, "LAST_TRADE")?;
        sum += i64::from(quantity) * price;
    }
    Ok(sum)
}
