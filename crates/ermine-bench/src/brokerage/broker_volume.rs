//! Broker-Volume: what the pending orders of a sector are worth, by broker. Reads only.
//!
//! The requests that Trade-Orders insert and Market-Feeds delete are phantoms to it.

use std::ops::ControlFlow;

use ermine::{Access, Job, Scheme, Transaction, prefix};

use super::{
    constants::{SECTOR_COUNT, sector_name},
    names::broker_name,
    population::Population,
    tables::Tables,
};
use crate::{
    failure::{Failure, found},
    random::Random,
};

/// Input of a Broker-Volume.
#[derive(Clone, Debug)]
pub struct BrokerVolumeInput {
    brokers: Vec<[u8; 49]>,
    sector: [u8; 30],
}

impl BrokerVolumeInput {
    /// Draws 20 to 40 brokers, as far as there are as many, and a sector.
    pub fn draw(population: &Population, random: &mut Random) -> Self {
        let count = random.uniform(20..=40).min(population.brokers()) as usize;
        let mut all = Self::of_sector(population, random.below(SECTOR_COUNT));
        random.shuffle(&mut all.brokers);
        all.brokers.truncate(count);
        all
    }

    /// All brokers, and the sector with a number.
    pub fn of_sector(population: &Population, sector: u64) -> Self {
        Self { brokers: (1..=population.brokers()).map(broker_name).collect(), sector: sector_name(sector) }
    }
}

/// The transaction.
pub struct BrokerVolume<'a> {
    pub tables: &'a Tables,
    pub input: BrokerVolumeInput,
}

impl Job for BrokerVolume<'_> {
    /// Brokers with the worth of their requests in cents, in descending order.
    type Output = Vec<(u64, i64)>;
    type Error = Failure;

    const SCHEMES: &'static [Scheme] = &[];

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<Self::Output, Failure> {
        let Self { tables, input } = self;
        let mut volumes = Vec::with_capacity(input.brokers.len());
        for &name in &input.brokers {
            let (broker, _) = found(txn.scan_by(&tables.broker_by_name, name..=name).first()?, "BROKER by name")?;
            volumes.push((broker, 0));
        }
        let sector = found(txn.scan_by(&tables.sector_by_name, input.sector..=input.sector).first()?, "SECTOR")?.0;
        for (industry, _) in txn.scan_by(&tables.industry_by_sector, sector..=sector).collect()? {
            let mut companies = Vec::new();
            txn.scan_by(&tables.company_by_industry, industry..=industry).for_each(|company, _| {
                companies.push(company);
                Ok(ControlFlow::Continue(()))
            })?;
            for company in companies {
                for (symbol, _) in txn.scan_by(&tables.security_by_company, prefix((company,))).collect()? {
                    txn.scan_by(&tables.trade_request_by_symbol, prefix((symbol,))).for_each(|_, request| {
                        if let Some((_, sum)) = volumes.iter_mut().find(|(broker, _)| *broker == request.broker) {
                            *sum += i64::from(request.quantity) * request.bid_price;
                        }
                        Ok(ControlFlow::Continue(()))
                    })?;
                }
            }
        }
        volumes.sort_by_key(|&(_, sum)| std::cmp::Reverse(sum));
        Ok(volumes)
    }
}
