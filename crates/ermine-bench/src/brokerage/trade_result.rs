//! Trade-Result: the market has executed an order; holdings, balance and broker follow. The heaviest transaction.

use ermine::{Access, Job, Scheme, Transaction};

use super::{
    constants::status,
    lots::{self, Closing, Costs, signed},
    population::Population,
    rows::{Broker, CustomerAccount, Holding, HoldingHistory, Symbol, Trade, TradeType},
    settlement::Payment,
    tables::Tables,
    terms::{Closes, commission_rate, open_lots, tax_rate},
};
use crate::{
    failure::{Failure, found},
    fixed::Text,
};

/// The transaction.
pub struct TradeResult<'a> {
    pub tables: &'a Tables,
    pub trade: u64,
    /// The price of the execution, in cents.
    pub price: i64,
    pub now: u64,
}

impl Job for TradeResult<'_> {
    /// The balance of the account, in cents.
    type Output = i64;
    type Error = Failure;

    const SCHEMES: &'static [Scheme] = &[];

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<i64, Failure> {
        let &mut Self { tables, trade: number, price, now } = self;
        let mut trade = *found(txn.view(&tables.trade, &number)?, "TRADE")?;
        found((trade.status.0 == status::SUBMITTED).then_some(()), "status Submitted of a TRADE")?;
        let trade_type = *found(txn.view(&tables.trade_type, &trade.kind.0)?, "TRADE_TYPE")?;
        let account = *found(txn.view(&tables.customer_account, &trade.account)?, "CUSTOMER_ACCOUNT")?;
        let is_sell = trade_type.is_sell == 1;

        let closing = self.settle_holdings(txn, &trade, is_sell)?;
        if account.tax_status != 0 && closing.sell_value > closing.buy_value {
            trade.tax = lots::tax(&closing, tax_rate(txn, tables, account.customer)?);
        }
        let security = *found(txn.view(&tables.security, &trade.symbol.0)?, "SECURITY")?;
        let tier = found(txn.view(&tables.customer, &account.customer)?, "CUSTOMER")?.tier;
        let rate = commission_rate(txn, tables, (tier, trade.kind.0, security.exchange.0), trade.quantity)?;
        trade.commission = lots::commission(rate, trade.quantity, price);
        (trade.dts, trade.status, trade.trade_price) = (now, Text(status::COMPLETED), price);
        txn.update(&tables.trade, &number, &trade)?;
        txn.insert(&tables.trade_history, &(number, status::COMPLETED), &now)?;

        let broker = *found(txn.view(&tables.broker, &account.broker)?, "BROKER")?;
        let commission_total = broker.commission_total + trade.commission;
        let broker = Broker { commission_total, trades: broker.trades + 1, ..broker };
        txn.update(&tables.broker, &account.broker, &broker)?;
        self.pay(txn, &trade, &trade_type, account, security.name)
    }
}

impl TradeResult<'_> {
    /// Closes lots and opens one with the rest; keeps the summary.
    fn settle_holdings<A: Access>(
        &self,
        txn: &Transaction<'_, A>,
        trade: &Trade,
        is_sell: bool,
    ) -> Result<Closing, Failure> {
        let &Self { tables, trade: number, price, now } = self;
        let (account, symbol, quantity) = (trade.account, trade.symbol.0, trade.quantity);
        let before = txn.view(&tables.holding_summary, &(account, symbol))?.unwrap_or(0);
        self.summarize(txn, (account, symbol), before, before + signed(is_sell, quantity))?;

        let lots = match before != 0 && (before > 0) == is_sell {
            true => {
                let is_lifo = trade.is_lifo == 1;
                open_lots(txn, tables, Closes { account, symbol, is_sell, is_lifo, quantity })?
            }
            false => Default::default(),
        };
        let closing = lots::close(lots, is_sell, quantity, price);
        for &(lot, after) in &closing.changed {
            let change = HoldingHistory { before: lot.quantity, after };
            txn.insert(&tables.holding_history, &(lot.trade, number), &change)?;
            if after == 0 {
                txn.delete(&tables.holding, &lot.trade)?;
            } else {
                let row = *found(txn.view(&tables.holding, &lot.trade)?, "HOLDING")?;
                txn.update(&tables.holding, &lot.trade, &Holding { quantity: after, ..row })?;
            }
        }
        if closing.left > 0 {
            let quantity = signed(is_sell, closing.left);
            let change = HoldingHistory { before: 0, after: quantity };
            txn.insert(&tables.holding_history, &(number, number), &change)?;
            let row = Holding { account, dts: now, price, quantity, symbol: Text(symbol), padding: [0; 5] };
            txn.insert(&tables.holding, &number, &row)?;
        }
        Ok(closing)
    }

    /// Writes the summary of an account and security: no row stands for no shares.
    fn summarize<A: Access>(
        &self,
        txn: &Transaction<'_, A>,
        key: (u64, Symbol),
        before: i32,
        after: i32,
    ) -> Result<(), Failure> {
        let table = &self.tables.holding_summary;
        match (before, after) {
            (0, _) => txn.insert(table, &key, &after)?,
            (_, 0) => drop(txn.delete(table, &key)?),
            _ => drop(txn.update(table, &key, &after)?),
        }
        Ok(())
    }

    /// Settles the trade; in cash, changes the balance. Returns the balance.
    fn pay<A: Access>(
        &self,
        txn: &Transaction<'_, A>,
        trade: &Trade,
        kind: &TradeType,
        account: CustomerAccount,
        security_name: Text<70>,
    ) -> Result<i64, Failure> {
        let &Self { tables, trade: number, price, now } = self;
        let withheld = if account.tax_status == 1 { trade.tax } else { 0 };
        let costs = Costs { charge: trade.charge, commission: trade.commission, withheld };
        let (quantity, is_cash) = (trade.quantity, trade.is_cash == 1);
        let amount = lots::amount(kind.is_sell == 1, quantity, price, costs);
        let payment = Payment { kind, security_name, quantity, amount, is_cash, time: now };
        txn.insert(&tables.settlement, &number, &payment.settlement())?;
        let Some(cash) = payment.cash() else { return Ok(account.balance) };
        let balance = account.balance + amount;
        txn.update(&tables.customer_account, &trade.account, &CustomerAccount { balance, ..account })?;
        txn.insert(&tables.cash_transaction, &number, &cash)?;
        debug_assert_eq!(account.customer, Population::owner(trade.account));
        Ok(balance)
    }
}
