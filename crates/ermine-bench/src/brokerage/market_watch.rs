//! Market-Watch: how the worth of many securities has changed since a day. Reads only, about a hundred rows of each of
//! three tables.

use std::ops::ControlFlow;

use ermine::{Access, Job, Scheme, Transaction, prefix};

use super::{
    constants::{INDUSTRY_COUNT, industry_name},
    draw::{self, non_uniform},
    population::Population,
    rows::Symbol,
    tables::Tables,
};
use crate::{
    failure::{Failure, found},
    random::Random,
};

/// Companies of an industry's window.
const WINDOW: u64 = 5_000;

/// Input of a Market-Watch.
#[derive(Clone, Debug)]
pub struct MarketWatchInput {
    watched: Watched,
    /// The day to compare with.
    since: u32,
}

/// What is watched.
#[derive(Clone, Copy, Debug)]
enum Watched {
    /// The watch list of a customer.
    List(u64),
    /// The holdings of an account.
    Holdings(u64),
    /// The companies of an industry, from one to another.
    Industry([u8; 50], u64, u64),
}

impl MarketWatchInput {
    /// Draws 60 % watch lists, 35 % accounts and 5 % industries; Fridays most often.
    pub fn draw(population: &Population, random: &mut Random) -> Self {
        let watched = match random.below(100) {
            0..60 => Watched::List(draw::customer(population, random).0),
            60..95 => Watched::Holdings(draw::account(population, random)),
            _ => {
                let first = random.uniform(1..=population.companies().saturating_sub(WINDOW - 1).max(1));
                Watched::Industry(industry_name(random.below(INDUSTRY_COUNT)), first, first + WINDOW - 1)
            }
        };
        let weeks = u64::from(population.scale.market_days / 5);
        let week = non_uniform(random, 255, 0, 5..=weeks - 1);
        let day = match random.below(100) {
            0..20 => 0,
            20..27 => 1,
            27..33 => 2,
            33..40 => 3,
            _ => 4,
        };
        Self { watched, since: population.market_day(week as u32 * 5 + day) }
    }
}

/// The transaction.
pub struct MarketWatch<'a> {
    pub tables: &'a Tables,
    pub input: MarketWatchInput,
}

impl Job for MarketWatch<'_> {
    /// The change in percent; none if nothing is watched.
    type Output = f64;
    type Error = Failure;

    const SCHEMES: &'static [Scheme] = &[];

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<f64, Failure> {
        let tables = self.tables;
        let (mut new, mut old) = (0, 0);
        for symbol in self.symbols(txn)? {
            let price = found(txn.view_with(&tables.last_trade, &symbol, |row| Ok(row.price))?, "LAST_TRADE")?;
            let shares = found(txn.view_with(&tables.security, &symbol, |row| Ok(row.shares))?, "SECURITY")?;
            let day = &(symbol, self.input.since);
            let before = found(txn.view_with(&tables.daily_market, day, |row| Ok(row.close))?, "DAILY_MARKET")?;
            new += shares * price;
            old += shares * before;
        }
        Ok(if old == 0 { 0.0 } else { 100.0 * (new as f64 / old as f64 - 1.0) })
    }
}

impl MarketWatch<'_> {
    fn symbols<A: Access>(&self, txn: &Transaction<'_, A>) -> Result<Vec<Symbol>, Failure> {
        let tables = self.tables;
        let mut symbols = Vec::with_capacity(128);
        match self.input.watched {
            Watched::List(customer) => {
                let lists = txn.scan_by(&tables.watch_list_by_customer, customer..=customer).collect()?;
                for (list, _) in lists {
                    txn.scan(&tables.watch_item, prefix((list,))).for_each(|(_, symbol), ()| {
                        symbols.push(symbol);
                        Ok(ControlFlow::Continue(()))
                    })?;
                }
            }
            Watched::Holdings(account) => {
                txn.scan(&tables.holding_summary, prefix((account,))).for_each(|(_, symbol), _| {
                    symbols.push(symbol);
                    Ok(ControlFlow::Continue(()))
                })?;
            }
            Watched::Industry(name, first, last) => {
                let industry = found(txn.scan_by(&tables.industry_by_name, name..=name).first()?, "INDUSTRY")?.0;
                let mut companies = Vec::new();
                txn.scan_by(&tables.company_by_industry, industry..=industry).for_each(|company, _| {
                    companies.extend((first..=last).contains(&company).then_some(company));
                    Ok(ControlFlow::Continue(()))
                })?;
                for company in companies {
                    txn.scan_by(&tables.security_by_company, prefix((company,))).for_each(|symbol, _| {
                        symbols.push(symbol);
                        Ok(ControlFlow::Continue(()))
                    })?;
                }
            }
        }
        Ok(symbols)
    }
}
