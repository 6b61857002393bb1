//! The conditions that must hold after the load and after each run, over the whole database in one snapshot.
//!
//! | condition | states | file |
//! |---|---|---|
//! | `rows` | tables of fixed size have all their rows | here |
//! | `indexes` | a secondary index has an entry for each row | here |
//! | `holdings` | a summary is the sum of its account's lots, and not zero | `holdings` |
//! | `chains` | the changes of a lot follow each other, and end with the lot | `holdings` |
//! | `assets` | evaluated by lots, the assets are those of the summaries; every evaluation left a row | `holdings` |
//! | `ticker` | the volume of a security is the sum of its ticker entries | `holdings` |
//! | `brokers` | a broker has the trades and commissions of its customers | `trades` |
//! | `balances` | a balance is the opening balance and the payments since | `trades` |
//! | `settled` | completed trades, and no others, are settled, those in cash with a payment | `trades` |
//! | `requests` | trades that wait for their price are those that have a request | `trades` |
//! | `history` | a trade went through its statuses in order | `trades` |
//!
//! They depend on the data, the seed, and the counts of what the clients committed, never on how the data came about.

mod holdings;
mod trades;

use std::ops::ControlFlow;

use ermine::{Database, Key, SecondaryIndex, Table, Transaction, TxnOptions, Value};

use super::{constants, population::Population, tables::Tables};
use crate::verdict::{Check, Promise, Verdict};

/// What clients have committed since the load.
#[derive(Clone, Debug, Default)]
pub struct Committed {
    /// Shares on the ticker, by the number of the security.
    pub volumes: Vec<i64>,
    /// Asset evaluations.
    pub evaluations: u64,
}

impl Committed {
    /// Nothing yet.
    pub fn none(population: &Population) -> Self {
        Self { volumes: vec![0; population.securities() as usize], evaluations: 0 }
    }

    /// Adds what another client has committed.
    pub fn add(&mut self, other: &Self) {
        self.volumes.iter_mut().zip(&other.volumes).for_each(|(sum, volume)| *sum += volume);
        self.evaluations += other.evaluations;
    }
}

/// Judges every condition.
pub fn check(
    db: &Database,
    tables: &Tables,
    population: &Population,
    committed: &Committed,
) -> ermine::Result<Vec<Check>> {
    let txn = &db.begin(TxnOptions::read_only())?;
    let mut verdicts = vec![
        (rows(txn, tables, population)?, Promise::Always),
        (indexes(txn, tables)?, Promise::Always),
        // Each evaluation has inserted its row.
        (holdings::evaluations(txn, tables, committed)?, Promise::Always),
    ];
    let rest = [holdings::judge(txn, tables, population, committed)?, trades::judge(txn, tables, population)?];
    verdicts.extend(rest.into_iter().flatten().map(|verdict| (verdict, Promise::NoLostUpdates)));
    let scheme = db.scheme();
    Ok(verdicts.into_iter().map(|(verdict, promise)| Check { verdict, scheme, promise }).collect())
}

/// Shows every row of a table.
fn each<K: Key, V: Value>(
    txn: &Transaction<'_>,
    table: &Table<K, V>,
    mut show: impl FnMut(K, V::View<'_>),
) -> ermine::Result<()> {
    txn.scan(table, ..).for_each(|key, row| {
        show(key, row);
        Ok(ControlFlow::Continue(()))
    })
}

fn count<K: Key, V: Value>(txn: &Transaction<'_>, table: &Table<K, V>) -> ermine::Result<u64> {
    let mut rows = 0;
    each(txn, table, |_, _| rows += 1)?;
    Ok(rows)
}

fn rows(txn: &Transaction<'_>, tables: &Tables, population: &Population) -> ermine::Result<Verdict> {
    let mut verdict = Verdict::new("rows", "tables of fixed size have all their rows");
    let (customers, companies) = (population.customers, population.companies());
    let (securities, scale) = (population.securities(), population.scale);
    let accounts: u64 = (1..=customers)
        .map(|customer| population.accounts_of(customer, population.tier(customer)).count() as u64)
        .sum();
    let mut compare = |name: &str, found: u64, wanted: u64| {
        verdict.compare(found == wanted, || format!("{name} has {found} rows instead of {wanted}"));
    };
    compare("CUSTOMER", count(txn, &tables.customer)?, customers);
    compare("CUSTOMER_ACCOUNT", count(txn, &tables.customer_account)?, accounts);
    compare("CUSTOMER_TAXRATE", count(txn, &tables.customer_taxrate)?, 2 * customers);
    compare("WATCH_LIST", count(txn, &tables.watch_list)?, customers);
    compare("BROKER", count(txn, &tables.broker)?, population.brokers());
    compare("CHARGE", count(txn, &tables.charge)?, 15);
    compare("COMMISSION_RATE", count(txn, &tables.commission_rate)?, 240);
    compare("TRADE_TYPE", count(txn, &tables.trade_type)?, 5);
    compare("COMPANY", count(txn, &tables.company)?, companies);
    compare("COMPANY_COMPETITOR", count(txn, &tables.company_competitor)?, 3 * companies);
    compare("DAILY_MARKET", count(txn, &tables.daily_market)?, securities * u64::from(scale.market_days));
    compare("EXCHANGE", count(txn, &tables.exchange)?, 4);
    compare("FINANCIAL", count(txn, &tables.financial)?, 20 * companies);
    compare("INDUSTRY", count(txn, &tables.industry)?, constants::INDUSTRY_COUNT);
    compare("LAST_TRADE", count(txn, &tables.last_trade)?, securities);
    compare("NEWS_ITEM", count(txn, &tables.news_item)?, 2 * companies);
    compare("NEWS_XREF", count(txn, &tables.news_xref)?, 2 * companies);
    compare("SECTOR", count(txn, &tables.sector)?, constants::SECTOR_COUNT);
    compare("SECURITY", count(txn, &tables.security)?, securities);
    compare("ADDRESS", count(txn, &tables.address)?, customers + companies + 4);
    compare("STATUS_TYPE", count(txn, &tables.status_type)?, 5);
    compare("TAXRATE", count(txn, &tables.taxrate)?, constants::NATIONAL + constants::REGIONAL);
    compare("ZIP_CODE", count(txn, &tables.zip_code)?, scale.zip_codes);
    Ok(verdict)
}

fn indexes(txn: &Transaction<'_>, tables: &Tables) -> ermine::Result<Verdict> {
    let mut verdict = Verdict::new("indexes", "secondary indexes have an entry for each row");
    fn entries<S: Key, K: Key, V: Value>(
        txn: &Transaction<'_>,
        index: &SecondaryIndex<S, K, V>,
    ) -> ermine::Result<u64> {
        let mut entries = 0;
        txn.scan_by(index, ..).for_each(|_, _| {
            entries += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(entries)
    }
    let mut compare = |name: &str, found: u64, rows: u64| {
        verdict.compare(found == rows, || format!("{name} has {found} entries, its table {rows} rows"));
    };
    let trades = count(txn, &tables.trade)?;
    compare("trade_by_account", entries(txn, &tables.trade_by_account)?, trades);
    compare("trade_by_symbol", entries(txn, &tables.trade_by_symbol)?, trades);
    let requests = count(txn, &tables.trade_request)?;
    compare("trade_request_by_symbol", entries(txn, &tables.trade_request_by_symbol)?, requests);
    compare("holding_by_account", entries(txn, &tables.holding_by_account)?, count(txn, &tables.holding)?);
    let changes = count(txn, &tables.holding_history)?;
    compare("holding_history_by_trade", entries(txn, &tables.holding_history_by_trade)?, changes);
    let customers = count(txn, &tables.customer)?;
    compare("customer_by_tax_number", entries(txn, &tables.customer_by_tax_number)?, customers);
    let accounts = count(txn, &tables.customer_account)?;
    compare("account_by_customer", entries(txn, &tables.account_by_customer)?, accounts);
    compare("broker_by_name", entries(txn, &tables.broker_by_name)?, count(txn, &tables.broker)?);
    compare("company_by_name", entries(txn, &tables.company_by_name)?, count(txn, &tables.company)?);
    compare("security_by_company", entries(txn, &tables.security_by_company)?, count(txn, &tables.security)?);
    Ok(verdict)
}
