//! Security-Detail: all about a security and its company. Reads only.

use std::{hint::black_box, ops::ControlFlow};

use ermine::{Access, Job, Scheme, Transaction, prefix, zerocopy::FromBytes};

use super::{
    population::Population,
    rows::{NewsHead, Symbol},
    tables::Tables,
};
use crate::{
    failure::{Failure, found},
    random::Random,
};

/// Competitors, quarters and news that are shown.
const COMPETITORS: usize = 3;
const QUARTERS: usize = 20;
const NEWS: usize = 2;

/// Input of a Security-Detail.
#[derive(Clone, Debug)]
pub struct SecurityDetailInput {
    symbol: Symbol,
    /// Whether whole news items are shown, not only their headlines.
    whole_news: bool,
    /// Days of the market.
    days: usize,
    first_day: u32,
}

impl SecurityDetailInput {
    /// Draws any security, and a day with enough days after it.
    pub fn draw(population: &Population, random: &mut Random) -> Self {
        let days = random.uniform(5..=20);
        let first_day = random.below(u64::from(population.scale.market_days) - days + 1) as u32;
        Self {
            symbol: population.symbol(random.below(population.securities())),
            whole_news: random.percent(1),
            days: days as usize,
            first_day: population.market_day(first_day),
        }
    }
}

/// The transaction.
pub struct SecurityDetail<'a> {
    pub tables: &'a Tables,
    pub input: SecurityDetailInput,
}

impl Job for SecurityDetail<'_> {
    /// The latest price in cents, and the volume of the days.
    type Output = (i64, i64);
    type Error = Failure;

    const SCHEMES: &'static [Scheme] = &[];

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<(i64, i64), Failure> {
        let Self { tables, input: SecurityDetailInput { symbol, days, first_day, .. } } = self;
        let security = found(txn.view(&tables.security, symbol)?, "SECURITY")?;
        let company = found(txn.view(&tables.company, &security.company)?, "COMPANY")?;
        let exchange = found(txn.view(&tables.exchange, &security.exchange.0)?, "EXCHANGE")?;
        for address in [company.address, exchange.address] {
            let row = found(txn.view(&tables.address, &address)?, "ADDRESS")?;
            black_box(found(txn.view(&tables.zip_code, &row.zip.0)?, "ZIP_CODE")?);
        }
        let competitors = txn.scan(&tables.company_competitor, prefix((security.company,))).limit(COMPETITORS);
        for ((_, other, industry), ()) in competitors.collect()? {
            black_box(found(txn.view(&tables.company, &other)?, "COMPANY")?.name);
            black_box(found(txn.view(&tables.industry, &industry)?, "INDUSTRY")?.name);
        }
        txn.scan(&tables.financial, prefix((security.company,))).limit(QUARTERS).for_each(|_, row| {
            black_box(row);
            Ok(ControlFlow::Continue(()))
        })?;
        let mut volume = 0;
        let range = (*symbol, *first_day)..=(*symbol, u32::MAX);
        txn.scan(&tables.daily_market, range).limit(*days).for_each(|_, row| {
            volume += row.volume;
            Ok(ControlFlow::Continue(()))
        })?;
        let price = found(txn.view(&tables.last_trade, symbol)?, "LAST_TRADE")?.price;
        for ((_, item), ()) in txn.scan(&tables.news_xref, prefix((security.company,))).limit(NEWS).collect()? {
            self.news(found(txn.view(&self.tables.news_item, &item)?, "NEWS_ITEM")?)?;
        }
        Ok((price, volume))
    }
}

impl SecurityDetail<'_> {
    /// Reads a news item, or only its head.
    fn news(&self, stored: &[u8]) -> Result<(), Failure> {
        let (head, item) = NewsHead::ref_from_prefix(stored).map_err(|_| Failure::Missing("head of a news item"))?;
        match self.input.whole_news {
            true => black_box(item.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte))),
            false => black_box(head.headline.0[0] ^ head.summary.0[0]),
        };
        Ok(())
    }
}
