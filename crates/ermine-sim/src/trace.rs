//! Transactions that were recorded elsewhere, by the records that they read and wrote.
//!
//! A transaction's accesses keep their order. The time of each is drawn when the transaction is added, as it is for the
//! transactions of clients: from a seed, the same for every scheme, every number of cores and every retry.

use fastrand::Rng;

use crate::{
    offers::{Access, Offer, Ticks, duration},
    table::RecordId,
};

/// The effect of an access on its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The record stays as it is.
    Read,
    /// The record changes.
    Write,
    /// The record comes into being.
    Insert,
}

/// An access that was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The table of the record.
    pub table: u32,
    /// The record: any number below the number of records, the same wherever the record is accessed.
    pub record: u32,
    /// The partition of the record; `None` if it is outside of all partitions, where it should only be read.
    pub partition: Option<u32>,
    /// The effect of the access.
    pub kind: Kind,
}

/// Recorded transactions.
#[derive(Debug)]
pub struct Trace {
    pub(crate) offers: Vec<Offer>,
    /// For each transaction, the partition where it began; zero if it accessed none.
    pub(crate) homes: Vec<u32>,
    /// One more than the greatest record.
    pub(crate) records: u32,
    random: Rng,
}

impl Trace {
    /// A trace without transactions; the seed determines the times of the accesses to come.
    pub fn new(seed: u64) -> Self {
        Self { offers: Vec::new(), homes: Vec::new(), records: 0, random: Rng::with_seed(seed) }
    }

    /// Adds a transaction with its accesses in their order.
    pub fn add(&mut self, touches: impl IntoIterator<Item = Touch>) {
        let Self { offers, homes, records, random } = self;
        let mut home = None;
        let access = |Touch { table, record, partition, kind }| {
            *records = (record + 1).max(*records);
            home = home.or(partition);
            let (is_write, is_insert) = (kind != Kind::Read, kind == Kind::Insert);
            Access { record: RecordId(record), takes: duration(random), is_write, partition, table, is_insert }
        };
        let accesses = touches.into_iter().map(access).collect();
        offers.push(Offer { accesses, commit_takes: duration(random) });
        homes.push(home.unwrap_or(0));
    }

    /// Number of transactions.
    pub fn transactions(&self) -> u32 {
        self.offers.len() as u32
    }

    /// Accesses of a transaction, on average.
    pub fn mean_accesses(&self) -> f64 {
        let accesses: usize = self.offers.iter().map(|offer| offer.accesses.len()).sum();
        accesses as f64 / self.offers.len().max(1) as f64
    }

    /// Transactions in percent that access more than one partition, or write outside of partitions.
    pub fn crossing_percent(&self) -> f64 {
        let crosses = |(offer, &home): (&Offer, &u32)| {
            offer.accesses.iter().any(|access| access.partition.map_or(access.is_write, |partition| partition != home))
        };
        let crossing = self.offers.iter().zip(&self.homes).filter(|&one| crosses(one)).count();
        100.0 * crossing as f64 / self.offers.len().max(1) as f64
    }
}

impl Offer {
    /// The time that it takes without waiting.
    pub(crate) fn takes(&self) -> Ticks {
        self.accesses.iter().map(|access| access.takes).sum::<Ticks>() + self.commit_takes
    }
}
