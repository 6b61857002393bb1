//! Trade-Order: a customer, or another person with the right to do so, orders a trade. One in a hundred is rolled back
//! at its end.

use ermine::{Access, Job, Scheme, Transaction, prefix};

use super::{
    assets::assets,
    constants::{kind, status},
    draw,
    emulator::Order,
    generate::{self, PRICES, Person},
    initial_trades::{QUANTITIES, draw_terms},
    lots,
    names::{ISSUES, company_name},
    population::Population,
    rows::{Customer, CustomerAccount, Security, Symbol, Trade, TradeRequest, TradeType, TradeTypeId},
    tables::Tables,
    terms::{Closes, commission_rate, open_lots, tax_rate},
};
use crate::{
    failure::{Failure, found},
    fixed::Text,
    random::Random,
};

/// Input of a Trade-Order.
#[derive(Clone, Debug)]
pub struct TradeOrderInput {
    /// The number of the new trade.
    trade: u64,
    now: u64,
    account: u64,
    executor: Person,
    security: u64,
    named: Named,
    kind: TradeTypeId,
    is_cash: bool,
    is_lifo: bool,
    quantity: i32,
    /// The limit, for limit orders.
    requested_price: i64,
    rolls_back: bool,
}

/// How the security is named.
#[derive(Clone, Copy, Debug)]
enum Named {
    Symbol(Symbol),
    /// By the company's name and the issue.
    Company([u8; 60], [u8; 6]),
}

impl TradeOrderInput {
    /// Draws an order by the owner of an account, or in one case of ten by another person that has the right.
    pub fn draw(population: &Population, trade: u64, now: u64, random: &mut Random) -> Self {
        let account = draw::account(population, random);
        let securities: Vec<u64> = population.securities_of(account).collect();
        let security = securities[random.below(securities.len() as u64) as usize];
        let named = match random.percent(60) {
            true => Named::Symbol(population.symbol(security)),
            false => {
                let (company, issue) = population.company_of(security);
                Named::Company(company_name(company), ISSUES[issue as usize])
            }
        };
        let owner = generate::person(population, Population::owner(account));
        let others = if random.percent(10) { generate::others(population, account) } else { Vec::new() };
        let (kind, is_cash, is_lifo) = draw_terms(random);
        Self {
            trade,
            now,
            account,
            executor: others.into_iter().next().unwrap_or(owner),
            security,
            named,
            kind: kind::ALL[kind],
            is_cash,
            is_lifo,
            quantity: QUANTITIES[random.below(QUANTITIES.len() as u64) as usize],
            requested_price: random.uniform(PRICES) as i64,
            rolls_back: random.below(101) == 0,
        }
    }
}

#[cfg(test)]
impl TradeOrderInput {
    pub fn kind(&self) -> TradeTypeId {
        self.kind
    }
}

/// The transaction.
pub struct TradeOrder<'a> {
    pub tables: &'a Tables,
    pub input: TradeOrderInput,
}

/// What the order is estimated to cost.
struct Estimate {
    price: i64,
    charge: i64,
    commission: i64,
}

impl Job for TradeOrder<'_> {
    /// The order for the market.
    type Output = Order;
    type Error = Failure;

    const SCHEMES: &'static [Scheme] = &[];

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<Order, Failure> {
        let tables = self.tables;
        let account = *found(txn.view(&tables.customer_account, &self.input.account)?, "CUSTOMER_ACCOUNT")?;
        let customer = *found(txn.view(&tables.customer, &account.customer)?, "CUSTOMER")?;
        std::hint::black_box(found(txn.view(&tables.broker, &account.broker)?, "BROKER")?.name);
        self.check_permission(txn, &customer)?;
        let (symbol, security) = self.security(txn)?;
        let trade_type = *found(txn.view(&tables.trade_type, &self.input.kind)?, "TRADE_TYPE")?;
        let estimate = self.estimate(txn, &account, &customer, (symbol, &security), &trade_type)?;
        self.place(txn, &account, symbol, &trade_type, &estimate)?;
        if self.input.rolls_back {
            return Err(Failure::RolledBack);
        }
        let TradeOrderInput { trade, security, kind, quantity, .. } = self.input;
        Ok(Order { trade, security, kind, bid_price: estimate.price, quantity })
    }
}

impl TradeOrder<'_> {
    /// Fails unless the executor is the owner of the account or has a permission.
    fn check_permission<A: Access>(&self, txn: &Transaction<'_, A>, owner: &Customer) -> Result<(), Failure> {
        let Person { tax_number, first, last } = &self.input.executor;
        let named = |a: &Text<20>, b: &Text<25>| a.as_bytes() == first.as_bytes() && b.as_bytes() == last.as_bytes();
        if owner.tax_number.0 == *tax_number && named(&owner.first, &owner.last) {
            return Ok(());
        }
        let row = txn.view(&self.tables.account_permission, &(self.input.account, *tax_number))?;
        found(row.filter(|row| named(&row.first, &row.last)), "ACCOUNT_PERMISSION").map(drop)
    }

    fn security<A: Access>(&self, txn: &Transaction<'_, A>) -> Result<(Symbol, Security), Failure> {
        let tables = self.tables;
        match self.input.named {
            Named::Symbol(symbol) => Ok((symbol, *found(txn.view(&tables.security, &symbol)?, "SECURITY")?)),
            Named::Company(name, issue) => {
                let company = found(txn.scan_by(&tables.company_by_name, name..=name).first()?, "COMPANY by name")?.0;
                let issued = txn.scan_by(&tables.security_by_company, prefix((company, issue))).first()?;
                found(issued, "SECURITY by company and issue")
            }
        }
    }

    /// Estimates price, tax and costs; writes nothing.
    fn estimate<A: Access>(
        &self,
        txn: &Transaction<'_, A>,
        owner: &CustomerAccount,
        customer: &Customer,
        (symbol, security): (Symbol, &Security),
        trade_type: &TradeType,
    ) -> Result<Estimate, Failure> {
        let Self { tables, input } = self;
        let market_price = found(txn.view(&tables.last_trade, &symbol)?, "LAST_TRADE")?.price;
        let price = if trade_type.is_market == 1 { market_price } else { input.requested_price };
        let is_sell = trade_type.is_sell == 1;
        let held = txn.view(&tables.holding_summary, &(input.account, symbol))?.unwrap_or(0);
        if held != 0 && (held > 0) == is_sell {
            let &TradeOrderInput { is_lifo, quantity, account, .. } = input;
            let closes = Closes { account, symbol, is_sell, is_lifo, quantity };
            let closing = lots::close(open_lots(txn, tables, closes)?, is_sell, quantity, price);
            if owner.tax_status != 0 && closing.sell_value > closing.buy_value {
                let tax = lots::tax(&closing, tax_rate(txn, tables, owner.customer)?);
                found((tax > 0).then_some(tax), "tax on a profit")?;
            }
        }
        let terms = (customer.tier, input.kind, security.exchange.0);
        let rate = commission_rate(txn, tables, terms, input.quantity)?;
        let charge = found(txn.view(&tables.charge, &(input.kind, customer.tier))?, "CHARGE")?;
        if !input.is_cash {
            std::hint::black_box(owner.balance + assets(txn, tables, input.account)?);
        }
        Ok(Estimate { price, charge, commission: lots::commission(rate, input.quantity, price) })
    }

    /// Writes the trade, its history, and the request of a limit order.
    fn place<A: Access>(
        &self,
        txn: &Transaction<'_, A>,
        owner: &CustomerAccount,
        symbol: Symbol,
        trade_type: &TradeType,
        estimate: &Estimate,
    ) -> Result<(), Failure> {
        let Self { tables, input } = self;
        let &TradeOrderInput { trade, now, quantity, kind, account, .. } = input;
        let &Estimate { price, charge, commission } = estimate;
        let is_market = trade_type.is_market == 1;
        let status = if is_market { status::SUBMITTED } else { status::PENDING };
        let row = Trade {
            dts: now,
            account,
            bid_price: price,
            trade_price: 0,
            charge,
            commission,
            tax: 0,
            quantity,
            is_cash: input.is_cash.into(),
            is_lifo: input.is_lifo.into(),
            status: Text(status),
            kind: Text(kind),
            symbol: Text(symbol),
            executor: input.executor.full_name(),
            padding: [0; 3],
        };
        txn.insert(&tables.trade, &trade, &row)?;
        if !is_market {
            let (kind, symbol, broker) = (Text(kind), Text(symbol), owner.broker);
            let request = TradeRequest { bid_price: price, broker, quantity, kind, symbol, padding: [0; 2] };
            txn.insert(&tables.trade_request, &trade, &request)?;
        }
        txn.insert(&tables.trade_history, &(trade, status), &now)?;
        Ok(())
    }
}
