//! Writes the initial data with many threads.
//!
//! The work is cut into parts: the fixed tables, fifty companies with their securities, or the hundred customers of a
//! broker with their trades. Every row draws from a random stream of its own, so that the data depends on the seed
//! alone. A part is written in transactions of a few hundred rows.

use std::ops::RangeInclusive;

use ermine::{Database, Transaction};
use indicatif::ProgressBar;

use super::{
    constants::{self, charge, kind},
    generate::{self, GeneratedCustomer, PRICES},
    initial_trades::{Book, InitialTrade},
    population::{CUSTOMERS_OF_BROKER, Draw, Population},
    rows::LastTrade,
    tables::Tables,
};
use crate::{Result, parallel, storage};

/// Rows of the fixed tables and trades written in one transaction.
const BATCH: usize = 100;
/// Companies of a part.
const COMPANIES: u64 = 50;

/// The unit of work of a thread.
#[derive(Clone, Debug)]
enum Part {
    Fixed,
    Companies(RangeInclusive<u64>),
    Securities(RangeInclusive<u64>),
    Broker(u64),
}

/// Writes the data into empty tables; `progress` counts parts. The data is durable at the end.
pub fn load(
    db: &Database,
    tables: &Tables,
    population: &Population,
    threads: usize,
    progress: &ProgressBar,
) -> Result<()> {
    let parts = parts(population);
    let loader = Loader { db, tables, population };
    parallel::run_parts(parts.len(), threads, progress, |number| loader.write_part(&parts[number]))?;
    Ok(db.sync()?)
}

fn parts(population: &Population) -> Vec<Part> {
    // Trades take longest, so that they come first.
    let mut parts: Vec<_> = (1..=population.brokers()).map(Part::Broker).collect();
    parts.extend(cut(1, population.companies()).map(Part::Companies));
    parts.extend(cut(0, population.securities() - 1).map(Part::Securities));
    parts.push(Part::Fixed);
    parts
}

/// Cuts numbers into ranges.
fn cut(first: u64, last: u64) -> impl Iterator<Item = RangeInclusive<u64>> {
    (first..=last).step_by(COMPANIES as usize).map(move |begin| begin..=last.min(begin + COMPANIES - 1))
}

struct Loader<'a> {
    db: &'a Database,
    tables: &'a Tables,
    population: &'a Population,
}

impl Loader<'_> {
    fn write(&self, mut body: impl FnMut(&Transaction<'_>) -> ermine::Result<()>) -> Result<()> {
        Ok(self.db.run_with(storage::loading(), |txn| body(txn))?)
    }

    /// Writes items in batches of one transaction each.
    fn write_all<T>(
        &self,
        items: impl IntoIterator<Item = T>,
        put: impl Fn(&Transaction<'_>, &T) -> ermine::Result<()>,
    ) -> Result<()> {
        let items: Vec<T> = items.into_iter().collect();
        items.chunks(BATCH).try_for_each(|batch| self.write(|txn| batch.iter().try_for_each(|item| put(txn, item))))
    }

    fn write_part(&self, part: &Part) -> Result<()> {
        match part {
            Part::Fixed => self.fixed(),
            Part::Companies(companies) => companies.clone().try_for_each(|number| self.company(number)),
            Part::Securities(securities) => securities.clone().try_for_each(|number| self.security(number)),
            &Part::Broker(number) => self.broker(number),
        }
    }

    fn fixed(&self) -> Result<()> {
        let Self { tables, population, .. } = self;
        let scale = population.scale;
        self.write_all(constants::statuses(), |txn, (key, row)| txn.insert(&tables.status_type, key, row))?;
        self.write_all(constants::trade_types(), |txn, (key, row)| txn.insert(&tables.trade_type, key, row))?;
        self.write_all(constants::exchanges(population), |txn, (key, row)| txn.insert(&tables.exchange, key, row))?;
        self.write_all(1..=4, |txn, number| txn.insert(&tables.address, number, &constants::address(*number, scale)))?;
        let charges = kind::ALL.into_iter().enumerate();
        let charges = charges.flat_map(|(number, kind)| (1..=3).map(move |tier| ((kind, tier), charge(number, tier))));
        self.write_all(charges, |txn, (key, cents)| txn.insert(&tables.charge, key, cents))?;
        self.write_all(constants::commission_rates(), |txn, (key, row)| txn.insert(&tables.commission_rate, key, row))?;
        self.write_all(constants::tax_rates(), |txn, (key, row)| txn.insert(&tables.taxrate, key, row))?;
        self.write_all(constants::sectors(), |txn, (key, row)| txn.insert(&tables.sector, key, row))?;
        self.write_all(constants::industries(), |txn, (key, row)| txn.insert(&tables.industry, key, row))?;
        self.write_all(constants::zip_codes(scale), |txn, (key, row)| txn.insert(&tables.zip_code, key, row))
    }

    /// Writes a company with its address, results, competitors and news.
    fn company(&self, number: u64) -> Result<()> {
        let Self { tables, population, .. } = self;
        let row = generate::company(population, number);
        self.write(|txn| {
            txn.insert(&tables.address, &row.address, &constants::address(row.address, population.scale))?;
            txn.insert(&tables.company, &number, &row)?;
            for (other, industry) in generate::competitors(population, number) {
                txn.insert(&tables.company_competitor, &(number, other, industry), &())?;
            }
            for ((year, quarter), row) in generate::financials(population, number) {
                txn.insert(&tables.financial, &(number, year, quarter), &row)?;
            }
            for news in [2 * number - 1, 2 * number] {
                txn.insert(&tables.news_item, &news, &generate::news(population, news))?;
                txn.insert(&tables.news_xref, &(number, news), &())?;
            }
            Ok(())
        })
    }

    /// Writes a security with its market.
    fn security(&self, number: u64) -> Result<()> {
        let Self { tables, population, .. } = self;
        let symbol = population.symbol(number);
        let price = population.row(Draw::Security, 1 << 41 | number).uniform(PRICES) as i64;
        let last = LastTrade { dts: population.end_of_initial_trades(), price, open_price: price, volume: 0 };
        self.write(|txn| {
            txn.insert(&tables.security, &symbol, &generate::security(population, number))?;
            txn.insert(&tables.last_trade, &symbol, &last)
        })?;
        let days = generate::daily_market(population, number);
        self.write_all(days, |txn, (day, row)| txn.insert(&tables.daily_market, &(symbol, *day), row))
    }

    /// Writes the customers of a broker with their trades, then the broker with the sums of these trades.
    fn broker(&self, number: u64) -> Result<()> {
        let Self { tables, population, .. } = self;
        let first = (number - 1) * CUSTOMERS_OF_BROKER + 1;
        let (mut trades, mut commissions) = (0, 0);
        for customer in first..first + CUSTOMERS_OF_BROKER {
            let tier = population.tier(customer);
            let generated = generate::customer(population, customer, tier);
            self.customer(customer, &generated)?;
            let mut book = Book::new(population, customer, tier, &generated.person, generated.tax_rates);
            for turns in cut_turns(population.trades) {
                let batch: Vec<_> = turns.filter_map(|turn| book.trade(turn)).collect();
                self.write(|txn| batch.iter().try_for_each(|trade| self.trade(txn, trade)))?;
            }
            self.write_all(book.holdings(), |txn, (key, row)| txn.insert(&tables.holding, key, row))?;
            self.write_all(book.summaries(), |txn, (key, sum)| txn.insert(&tables.holding_summary, key, sum))?;
            self.write_all(&book.accounts, |txn, (key, row)| txn.insert(&tables.customer_account, key, row))?;
            self.write_all(&book.accounts, |txn, (account, _)| {
                let mut permissions = generate::permissions(population, *account, &generated.person).into_iter();
                permissions.try_for_each(|(tax_number, row)| {
                    txn.insert(&tables.account_permission, &(*account, tax_number), &row)
                })
            })?;
            (trades, commissions) = (trades + book.completed.0, commissions + book.completed.1);
        }
        self.write(|txn| txn.insert(&tables.broker, &number, &generate::broker(number, trades, commissions)))
    }

    /// Writes a customer with its address, tax rates and watch list.
    fn customer(&self, number: u64, generated: &GeneratedCustomer) -> Result<()> {
        let Self { tables, population, .. } = self;
        let row = &generated.row;
        let (least, most) = population.scale.watched;
        self.write(|txn| {
            txn.insert(&tables.address, &row.address, &constants::address(row.address, population.scale))?;
            txn.insert(&tables.customer, &number, row)?;
            generated
                .tax_rates
                .iter()
                .try_for_each(|&rate| txn.insert(&tables.customer_taxrate, &(number, rate), &()))?;
            txn.insert(&tables.watch_list, &number, &number)?;
            let mut random = population.row(Draw::Securities, 1 << 40 | number);
            let (first, count) = (random.below(population.securities()), random.uniform(least..=most));
            (0..count.min(population.securities())).try_for_each(|place| {
                let symbol = population.symbol((first + place) % population.securities());
                txn.insert(&tables.watch_item, &(number, symbol), &())
            })
        })
    }

    fn trade(&self, txn: &Transaction<'_>, trade: &InitialTrade) -> ermine::Result<()> {
        let tables = self.tables;
        let InitialTrade { number, trade, history, settlement, cash, holding_history } = trade;
        txn.insert(&tables.trade, number, trade)?;
        history.iter().try_for_each(|(status, time)| txn.insert(&tables.trade_history, &(*number, *status), time))?;
        txn.insert(&tables.settlement, number, settlement)?;
        cash.iter().try_for_each(|cash| txn.insert(&tables.cash_transaction, number, cash))?;
        holding_history.iter().try_for_each(|(key, row)| txn.insert(&tables.holding_history, key, row))
    }
}

/// Cuts the turns of a customer's trades into those of one transaction each.
fn cut_turns(trades: u64) -> impl Iterator<Item = std::ops::Range<u64>> {
    (0..trades).step_by(BATCH).map(move |begin| begin..trades.min(begin + BATCH as u64))
}
