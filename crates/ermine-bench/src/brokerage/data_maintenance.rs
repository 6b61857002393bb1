//! Data-Maintenance: changes a few rows of one of twelve tables that all other transactions only read.

use ermine::{Access, Job, Scheme, Transaction, prefix, zerocopy::FromBytes};

use super::{
    constants::{EXCHANGES, NATIONAL, national, next_rate},
    draw,
    population::Population,
    rows::{
        AccountPermission, Address, Company, Customer, DailyMarket, Exchange, Financial, NewsHead, Security, Symbol,
        TaxRate, TaxRateId,
    },
    tables::Tables,
};
use crate::{
    failure::{Failure, found},
    fixed::Text,
    random::Random,
};

/// A change, with the rows that it is about.
#[derive(Clone, Copy, Debug)]
pub enum DataMaintenanceInput {
    /// The right of the first person of an account.
    AccountPermission(u64),
    /// The second line of a customer's address.
    Address(u64),
    /// The rating of a company.
    Company(u64),
    /// The e-mail addresses of a customer change places.
    Customer(u64),
    /// A customer's national tax rate becomes the next one.
    CustomerTaxrate(u64),
    /// The volume of a security on one day of each month.
    DailyMarket(Symbol, u32),
    /// The description of an exchange names a time.
    Exchange([u8; 6], u64),
    /// The quarters of a company begin a day later, or earlier again.
    Financial(u64),
    /// A news item becomes a day younger.
    NewsItem(u64),
    /// A security is a day younger on its exchange.
    Security(Symbol),
    /// The name of a tax rate.
    Taxrate(TaxRateId),
    /// A symbol of a customer's watch list is replaced by another.
    WatchItem(u64, Symbol),
}

/// Number of tables that are maintained.
const TARGETS: u64 = 12;
/// A day in microseconds.
const DAY_US: u64 = 86_400_000_000;

impl DataMaintenanceInput {
    /// Draws the rows of a turn; each turn is about the next table.
    pub fn draw(population: &Population, turn: u64, now: u64, random: &mut Random) -> Self {
        let customer = |random: &mut Random| random.uniform(1..=population.customers);
        let company = |random: &mut Random| random.uniform(1..=population.companies());
        let symbol = |random: &mut Random| population.symbol(random.below(population.securities()));
        match turn % TARGETS {
            0 => Self::AccountPermission(draw::account(population, random)),
            1 => Self::Address(customer(random)),
            2 => Self::Company(company(random)),
            3 => Self::Customer(customer(random)),
            4 => Self::CustomerTaxrate(customer(random)),
            5 => Self::DailyMarket(symbol(random), random.below(30) as u32),
            6 => Self::Exchange(EXCHANGES[random.below(4) as usize], now),
            7 => Self::Financial(company(random)),
            8 => Self::NewsItem(random.uniform(1..=2 * population.companies())),
            9 => Self::Security(symbol(random)),
            10 => Self::Taxrate(national(random.below(NATIONAL))),
            _ => Self::WatchItem(customer(random), symbol(random)),
        }
    }
}

/// The transaction.
pub struct DataMaintenance<'a> {
    pub tables: &'a Tables,
    pub input: DataMaintenanceInput,
}

/// Replaces a text by the other of two.
fn other<const N: usize>(text: &Text<N>, first: &[u8], second: &[u8]) -> Text<N> {
    Text::new(if text.as_bytes() == first { second } else { first })
}

/// Reads a row, changes it, and writes it.
macro_rules! change {
    ($txn:ident, $table:expr, $key:expr, $name:literal, |$row:ident| $changed:expr) => {{
        let key = $key;
        let $row = *found($txn.view($table, &key)?, $name)?;
        $txn.update($table, &key, &$changed)?;
    }};
}

impl Job for DataMaintenance<'_> {
    type Output = ();
    type Error = Failure;

    const SCHEMES: &'static [Scheme] = &[];

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<(), Failure> {
        use DataMaintenanceInput as Input;
        let tables = self.tables;
        match self.input {
            Input::AccountPermission(account) => {
                let first = txn.scan(&tables.account_permission, prefix((account,))).first()?;
                let (key, row) = found(first, "ACCOUNT_PERMISSION")?;
                let acl = other(&row.acl, b"0000", b"0011");
                txn.update(&tables.account_permission, &key, &AccountPermission { acl, ..row })?;
            }
            Input::Address(customer) => {
                let address = found(txn.view(&tables.customer, &customer)?, "CUSTOMER")?.address;
                change!(txn, &tables.address, address, "ADDRESS", |row| Address {
                    line_2: other(&row.line_2, b"Flat 10", b"Flat 20"),
                    ..row
                });
            }
            Input::Company(company) => change!(txn, &tables.company, company, "COMPANY", |row| Company {
                rating: other(&row.rating, b"AAA", b"AB"),
                ..row
            }),
            Input::Customer(customer) => change!(txn, &tables.customer, customer, "CUSTOMER", |row| Customer {
                emails: [row.emails[1], row.emails[0]],
                ..row
            }),
            Input::CustomerTaxrate(customer) => {
                let first = txn.scan(&tables.customer_taxrate, prefix((customer,))).first()?;
                let ((_, rate), ()) = found(first, "CUSTOMER_TAXRATE")?;
                txn.delete(&tables.customer_taxrate, &(customer, rate))?;
                txn.insert(&tables.customer_taxrate, &(customer, next_rate(rate)), &())?;
            }
            Input::DailyMarket(symbol, day_of_month) => {
                for (key, row) in txn.scan(&tables.daily_market, prefix((symbol,))).collect()? {
                    if key.1 % 30 == day_of_month {
                        let volume = row.volume + 1;
                        txn.update(&tables.daily_market, &key, &DailyMarket { volume, ..row })?;
                    }
                }
            }
            Input::Exchange(exchange, now) => change!(txn, &tables.exchange, exchange, "EXCHANGE", |row| Exchange {
                description: Text::new(format!("Last updated at {now}").as_bytes()),
                ..row
            }),
            Input::Financial(company) => {
                for (key, row) in txn.scan(&tables.financial, prefix((company,))).collect()? {
                    let start = row.start ^ 1;
                    txn.update(&tables.financial, &key, &Financial { start, ..row })?;
                }
            }
            Input::NewsItem(item) => news_item(txn, tables, item)?,
            Input::Security(symbol) => change!(txn, &tables.security, symbol, "SECURITY", |row| Security {
                exchange_start: row.exchange_start + 1,
                ..row
            }),
            Input::Taxrate(rate) => change!(txn, &tables.taxrate, rate, "TAXRATE", |row| TaxRate {
                name: Text(row.name.0.map(|byte| if byte.is_ascii_alphabetic() { byte ^ 0x20 } else { byte })),
                ..row
            }),
            Input::WatchItem(customer, symbol) => watch_item(txn, tables, customer, symbol)?,
        }
        Ok(())
    }
}

fn news_item<A: Access>(txn: &Transaction<'_, A>, tables: &Tables, item: u64) -> Result<(), Failure> {
    let mut stored = found(txn.get(&tables.news_item, &item)?, "NEWS_ITEM")?;
    let (head, _) = NewsHead::mut_from_prefix(&mut stored).map_err(|_| Failure::Missing("head of a news item"))?;
    head.dts += DAY_US;
    txn.update(&tables.news_item, &item, &stored)?;
    Ok(())
}

/// Replaces the first symbol of a customer's watch list, unless the new one is on the list already.
fn watch_item<A: Access>(
    txn: &Transaction<'_, A>,
    tables: &Tables,
    customer: u64,
    symbol: Symbol,
) -> Result<(), Failure> {
    let list = found(txn.scan_by(&tables.watch_list_by_customer, customer..=customer).first()?, "WATCH_LIST")?.0;
    if txn.contains(&tables.watch_item, &(list, symbol))? {
        return Ok(());
    }
    let (first, ()) = found(txn.scan(&tables.watch_item, prefix((list,))).first()?, "WATCH_ITEM")?;
    txn.delete(&tables.watch_item, &first)?;
    txn.insert(&tables.watch_item, &(list, symbol), &())?;
    Ok(())
}
