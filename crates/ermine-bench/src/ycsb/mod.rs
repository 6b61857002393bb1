//! The core workloads of YCSB, A to F (Cooper et al., "Benchmarking cloud serving systems with YCSB", SoCC 2010).
//!
//! | workload | operations | records drawn |
//! |---|---|---|
//! | A | 50 % read, 50 % update | zipfian |
//! | B | 95 % read, 5 % update | zipfian |
//! | C | read | zipfian |
//! | D | 95 % read, 5 % insert | latest |
//! | E | 95 % scan, 5 % insert | zipfian |
//! | F | 50 % read, 50 % read-modify-write | zipfian |
//!
//! A record has ten fields of 100 bytes, and is one row: an update of one field reads the row and writes all of it, as
//! a read-modify-write does. A read returns all fields; a scan, up to 100 records in the order of their keys. Keys are
//! the numbers of the records, scattered over 64 bits, so that inserts reach all of the index.
//!
//! A transaction is one operation, or several, each drawn by itself, as in the literature on concurrency control; it
//! may touch a record twice. Workloads run one after the other on the same records, to which D and E add.

mod check;
mod mix;
mod options;
mod recent;
mod record;
#[cfg(test)]
mod tests;
mod transaction;
mod user;

use ermine::Database;

pub use self::{
    mix::{Distribution, Mix},
    options::Ycsb,
};
use self::{
    recent::Recent,
    record::Records,
    user::{Shared, User},
};
use crate::{
    Result,
    compare::{Inputs, LoadPlan, Turn, Workload},
    parallel,
    rounds::Contender,
    trial::Counts,
    verdict::{Promise, Verdict},
    zipf::Choice,
};

/// Data of a contender.
pub struct Store {
    records: Records,
    /// Numbers of records: those loaded, then those inserted.
    recent: Recent,
    /// Updates and read-modify-writes that have committed.
    updates: u64,
    zipfian: Choice,
}

impl Store {
    fn shared(&self) -> Shared<'_> {
        Shared { records: &self.records, recent: &self.recent, zipfian: &self.zipfian }
    }
}

impl Workload for Ycsb {
    const NAME: &'static str = "ycsb";
    type Data = Store;

    fn check(&self) -> Result<()> {
        self.check_numbers()
    }

    fn points(&self) -> Vec<Inputs> {
        let kinds = |mix: Mix| match self.operations {
            1 => mix.operations().map(|(operation, _)| operation.name()).collect(),
            _ => vec!["transaction"],
        };
        self.mixes.iter().map(|&mix| Inputs { name: mix.to_string(), kinds: kinds(mix) }).collect()
    }

    fn load(&self, db: &Database, plan: &LoadPlan<'_>) -> Result<Store> {
        let (records, shape): (Records, _) = (db.table("usertable")?, self.shape());
        parallel::insert_rows(db, self.records, plan.threads, plan.progress, |txn, number| {
            txn.insert(&records, &record::key(number), &shape.new_record(number, plan.seed))
        })?;
        let zipfian = Choice::new(self.records, self.theta);
        Ok(Store { records, recent: Recent::new(self.records), updates: 0, zipfian })
    }

    fn run(&self, contender: &mut Contender<Store>, turn: &Turn<'_>) -> Result<Counts> {
        let Contender { db, data, .. } = contender;
        let mix = self.mixes[turn.point];
        let (users, counts) = turn.drive(db, |random| User::new(self, mix, data.shared(), random))?;
        let updates: u64 = users.into_iter().map(|user| user.updates).sum();
        data.updates += updates;
        Ok(counts)
    }

    fn verify(&self, contender: &Contender<Store>, _seed: u64) -> Result<Vec<(Verdict, Promise)>> {
        let Contender { db, data: Store { records, recent, updates, .. }, .. } = contender;
        check::check(db, records, self.shape(), recent.drawn(), *updates)
    }
}
