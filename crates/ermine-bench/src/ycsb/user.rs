//! A client: draws operations and runs them.

use super::{
    mix::{Distribution, Kind, Mix},
    options::Ycsb,
    recent::Recent,
    record::Records,
    transaction::{Batch, Operation},
};
use crate::{
    Result,
    random::Random,
    trial::{Client, ClientContext},
    zipf::Choice,
};

/// The part of a database that clients share.
#[derive(Clone, Copy)]
pub struct Shared<'a> {
    pub records: &'a Records,
    pub recent: &'a Recent,
    pub zipfian: &'a Choice,
}

/// A client thread.
pub struct User<'a> {
    options: &'a Ycsb,
    mix: Mix,
    distribution: Distribution,
    shared: Shared<'a>,
    random: Random,
    /// The operations of the next transaction, and space for a record; kept, so that each is allocated once.
    operations: Vec<Operation>,
    row: Vec<u8>,
    /// Updates and read-modify-writes that have committed.
    pub updates: u64,
}

impl<'a> User<'a> {
    pub fn new(options: &'a Ycsb, mix: Mix, shared: Shared<'a>, random: Random) -> Self {
        let distribution = options.distribution.unwrap_or(mix.distribution());
        let (operations, row) = (Vec::new(), Vec::new());
        Self { options, mix, distribution, shared, random, operations, row, updates: 0 }
    }

    /// Draws an operation; returns the place of its kind, too.
    pub fn draw(&mut self) -> (usize, Operation) {
        let (place, kind) = self.mix.draw(&mut self.random);
        let operation = match kind {
            Kind::Insert => Operation::Insert { number: self.shared.recent.draw(), stamp: self.random.bits() },
            Kind::Read => Operation::Read(self.number()),
            Kind::Scan => {
                let rows = self.random.uniform(1..=u64::from(self.options.scan_max)) as usize;
                Operation::Scan { number: self.number(), rows }
            }
            Kind::Update => Operation::Update { number: self.number(), field: self.field(), stamp: self.random.bits() },
            Kind::ReadModifyWrite => Operation::ReadModifyWrite { number: self.number(), field: self.field() },
        };
        (place, operation)
    }

    /// Draws a record.
    fn number(&mut self) -> u64 {
        let Shared { recent, zipfian, .. } = self.shared;
        match self.distribution {
            Distribution::Zipfian => zipfian.draw(&mut self.random),
            Distribution::Uniform => self.random.below(self.options.records),
            Distribution::Latest => recent.newest() - zipfian.draw_rank(&mut self.random),
        }
    }

    fn field(&mut self) -> usize {
        self.random.below(self.options.fields as u64) as usize
    }
}

impl Client for User<'_> {
    fn step(&mut self, context: &mut ClientContext<'_>) -> Result<()> {
        let begin = context.last_reading();
        let (mut kind, mut inserts) = (0, false);
        self.operations.clear();
        for _ in 0..self.options.operations {
            let (place, operation) = self.draw();
            kind = if self.options.operations == 1 { place } else { 0 };
            inserts |= matches!(operation, Operation::Insert { .. });
            self.operations.push(operation);
        }
        let Self { options, shared, operations, row, updates, .. } = self;
        loop {
            let batch = Batch { records: shared.records, shape: options.shape(), operations, row };
            if let Some(done) = context.run_since(kind, Some(begin), batch)? {
                *updates += done;
                break;
            }
            // The number of an insert is drawn once: its transaction is not dropped for good.
            if !inserts {
                break;
            }
        }
        for operation in &*operations {
            if let Operation::Insert { number, .. } = operation {
                shared.recent.committed(*number);
            }
        }
        Ok(())
    }
}
