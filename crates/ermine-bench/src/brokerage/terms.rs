//! What Trade-Order and Trade-Result read about the terms of a trade: lots, taxes, commissions.

use std::ops::ControlFlow;

use ermine::{Access, Transaction, prefix};
use smallvec::SmallVec;

use super::{
    lots::Lot,
    population::Tier,
    rows::{ExchangeId, Symbol, TradeTypeId},
    tables::Tables,
};
use crate::failure::{Failure, found};

/// Whose lots a trade closes, and in which order.
#[derive(Clone, Copy)]
pub struct Closes {
    pub account: u64,
    pub symbol: Symbol,
    pub is_sell: bool,
    /// The newest lots are closed first.
    pub is_lifo: bool,
    pub quantity: i32,
}

/// Reads lots of an account in the order in which a trade closes them, until they cover its quantity.
pub fn open_lots<A: Access>(
    txn: &Transaction<'_, A>,
    tables: &Tables,
    closes: Closes,
) -> Result<SmallVec<[Lot; 8]>, Failure> {
    let Closes { account, symbol, is_sell, is_lifo, quantity } = closes;
    let scan = txn.scan_by(&tables.holding_by_account, prefix((account, symbol)));
    let scan = if is_lifo { scan.rev() } else { scan };
    let (mut lots, mut covered) = (SmallVec::new(), 0);
    scan.for_each(|trade, row| {
        lots.push(Lot { trade, price: row.price, quantity: row.quantity });
        covered += if is_sell { row.quantity } else { -row.quantity };
        Ok(if covered < quantity { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(lots)
}

/// The sum of a customer's tax rates, in hundred-thousandths.
pub fn tax_rate<A: Access>(txn: &Transaction<'_, A>, tables: &Tables, customer: u64) -> Result<u32, Failure> {
    let mut sum = 0;
    for ((_, rate), ()) in txn.scan(&tables.customer_taxrate, prefix((customer,))).collect()? {
        sum += found(txn.view(&tables.taxrate, &rate)?, "TAXRATE")?.rate;
    }
    Ok(sum)
}

/// The commission rate of a trade, in hundredths of a percent; not zero.
pub fn commission_rate<A: Access>(
    txn: &Transaction<'_, A>,
    tables: &Tables,
    (tier, kind, exchange): (Tier, TradeTypeId, ExchangeId),
    quantity: i32,
) -> Result<u32, Failure> {
    let quantity = quantity as u32;
    let range = (tier, kind, exchange, 0)..=(tier, kind, exchange, quantity);
    let rate = txn.scan(&tables.commission_rate, range).rev().first()?;
    let rate = rate.filter(|(_, row)| row.to_quantity >= quantity && row.rate > 0);
    Ok(found(rate, "COMMISSION_RATE of the quantity")?.1.rate)
}
