//! The trades of the time before a run: all completed, with the holdings that follow from them.
//!
//! The trades of all customers take turns: number n is of customer `(n - 1) % customers + 1`, and times ascend with
//! the numbers. An account is touched by the trades of its customer alone, so that the customers can be written in
//! parallel.

use std::collections::BTreeMap;

use smallvec::{SmallVec, smallvec};

use super::{
    constants::{self, charge, commission_rate, kind, status},
    generate::{self, PRICES, Person},
    lots::{self, Costs, Lot, signed},
    population::{Draw, Population, Tier},
    rows::{
        CashTransaction, CustomerAccount, Holding, HoldingHistory, Settlement, StatusId, Symbol, Trade, TradeType,
        TradeTypeId,
    },
    settlement::Payment,
};
use crate::{fixed::Text, random::Random};

/// Quantities of trades.
pub const QUANTITIES: [i32; 4] = [100, 200, 400, 800];

/// A trade with the rows that belong to it alone.
pub struct InitialTrade {
    pub number: u64,
    pub trade: Trade,
    pub history: SmallVec<[(StatusId, u64); 3]>,
    pub settlement: Settlement,
    pub cash: Option<CashTransaction>,
    pub holding_history: SmallVec<[((u64, u64), HoldingHistory); 2]>,
}

/// What the trades of a customer have led to.
pub struct Book<'a> {
    population: &'a Population,
    customer: u64,
    tier: Tier,
    executor: Text<49>,
    /// The sum of the customer's tax rates.
    tax_rate: u32,
    /// The accounts, whose balances change.
    pub accounts: Vec<(u64, CustomerAccount)>,
    securities: Vec<Vec<u64>>,
    /// Lots by account and security, oldest first, each with its time.
    lots: BTreeMap<(u64, u64), Vec<(Lot, u64)>>,
    types: [(TradeTypeId, TradeType); 5],
    random: Random,
    /// Completed trades, and their commissions.
    pub completed: (u32, i64),
}

impl<'a> Book<'a> {
    pub fn new(population: &'a Population, customer: u64, tier: Tier, person: &Person, rates: [[u8; 4]; 2]) -> Self {
        let accounts = population.accounts_of(customer, tier);
        Self {
            population,
            customer,
            tier,
            executor: person.full_name(),
            tax_rate: rates.into_iter().map(constants::rate_of).sum(),
            securities: accounts.clone().map(|number| population.securities_of(number).collect()).collect(),
            accounts: accounts.map(|number| (number, generate::account(population, number, person))).collect(),
            lots: BTreeMap::new(),
            types: constants::trade_types(),
            random: population.row(Draw::Trades, customer),
            completed: (0, 0),
        }
    }

    /// The trade in turn `turn`, from 0; `None` if it was aborted.
    pub fn trade(&mut self, turn: u64) -> Option<InitialTrade> {
        let number = turn * self.population.customers + self.customer;
        if Population::was_aborted(number) {
            return None;
        }
        let random = &mut self.random;
        let place = random.below(self.accounts.len() as u64) as usize;
        let security = self.securities[place][random.below(self.securities[place].len() as u64) as usize];
        let (type_number, is_cash, is_lifo) = draw_terms(random);
        let (kind, trade_type) = self.types[type_number];
        let (is_sell, is_market) = (trade_type.is_sell == 1, trade_type.is_market == 1);
        let quantity = QUANTITIES[random.below(4) as usize];
        let price = random.uniform(PRICES) as i64;
        // Limit orders had waited for up to ten minutes.
        let time = self.population.trade_time(number);
        let (waited, worked) = (random.below(600) * 1_000_000, random.uniform(1..=5) * 1_000_000);
        let submitted = time - worked;

        let (account, row) = &mut self.accounts[place];
        let lots = self.lots.entry((*account, security)).or_default();
        let in_order: SmallVec<[Lot; 8]> = match is_lifo {
            true => lots.iter().rev().map(|&(lot, _)| lot).collect(),
            false => lots.iter().map(|&(lot, _)| lot).collect(),
        };
        let closing = lots::close(in_order, is_sell, quantity, price);
        let holding_history = settle_lots(lots, &closing, number, (price, time, is_sell));

        let tax = if row.tax_status == 0 { 0 } else { lots::tax(&closing, self.tax_rate) };
        let rate = commission_rate(self.tier, kind, constants::exchange_of(security), quantity);
        let (charge, commission) = (charge(type_number, self.tier), lots::commission(rate, quantity, price));
        let withheld = if row.tax_status == 1 { tax } else { 0 };
        let amount = lots::amount(is_sell, quantity, price, Costs { charge, commission, withheld });
        if is_cash {
            row.balance += amount;
        }
        self.completed = (self.completed.0 + 1, self.completed.1 + commission);
        let security_name = generate::security(self.population, security).name;
        let payment = Payment { kind: &trade_type, security_name, quantity, amount, is_cash, time };
        let mut history = smallvec![(status::SUBMITTED, submitted), (status::COMPLETED, time)];
        if !is_market {
            history.insert(0, (status::PENDING, submitted - waited));
        }
        let trade = Trade {
            dts: time,
            account: *account,
            bid_price: price,
            trade_price: price,
            charge,
            commission,
            tax,
            quantity,
            is_cash: is_cash.into(),
            is_lifo: is_lifo.into(),
            status: Text(status::COMPLETED),
            kind: Text(kind),
            symbol: Text(self.population.symbol(security)),
            executor: self.executor,
            padding: [0; 3],
        };
        let (settlement, cash) = (payment.settlement(), payment.cash());
        Some(InitialTrade { number, trade, history, settlement, cash, holding_history })
    }

    /// The holdings that are left.
    pub fn holdings(&self) -> impl Iterator<Item = (u64, Holding)> {
        self.lots.iter().flat_map(|(&(account, security), lots)| {
            let symbol = Text(self.population.symbol(security));
            lots.iter().map(move |&(Lot { trade, price, quantity }, dts)| {
                (trade, Holding { account, dts, price, quantity, symbol, padding: [0; 5] })
            })
        })
    }

    /// The quantities that are left.
    pub fn summaries(&self) -> impl Iterator<Item = ((u64, Symbol), i32)> {
        self.lots.iter().filter(|(_, lots)| !lots.is_empty()).map(|(&(account, security), lots)| {
            let quantity = lots.iter().map(|(lot, _)| lot.quantity).sum();
            ((account, self.population.symbol(security)), quantity)
        })
    }
}

/// Draws the number of a trade type, whether the trade is paid in cash, and whether it closes the newest lots first.
pub fn draw_terms(random: &mut Random) -> (usize, bool, bool) {
    let (is_market, is_sell) = (random.percent(60), random.percent(50));
    let kind = match (is_market, is_sell) {
        (true, false) => kind::MARKET_BUY,
        (true, true) => kind::MARKET_SELL,
        (false, false) => kind::LIMIT_BUY,
        (false, true) if random.percent(50) => kind::STOP_LOSS,
        (false, true) => kind::LIMIT_SELL,
    };
    let number = kind::ALL.iter().position(|&other| other == kind).expect("it is one of all");
    // 16 % of the purchases, 8 % of all.
    let is_cash = is_sell || !random.percent(16);
    (number, is_cash, random.percent(35))
}

/// Applies a trade to the lots of an account and security; returns the changes.
fn settle_lots(
    lots: &mut Vec<(Lot, u64)>,
    closing: &lots::Closing,
    trade: u64,
    (price, time, is_sell): (i64, u64, bool),
) -> SmallVec<[((u64, u64), HoldingHistory); 2]> {
    let mut changes = SmallVec::new();
    for &(lot, after) in &closing.changed {
        changes.push(((lot.trade, trade), HoldingHistory { before: lot.quantity, after }));
        let place = lots.iter().position(|(other, _)| other.trade == lot.trade).expect("the lot is among them");
        if after == 0 {
            lots.remove(place);
        } else {
            lots[place].0.quantity = after;
        }
    }
    if closing.left > 0 {
        let quantity = signed(is_sell, closing.left);
        changes.push(((trade, trade), HoldingHistory { before: 0, after: quantity }));
        lots.push((Lot { trade, price, quantity }, time));
    }
    changes
}
