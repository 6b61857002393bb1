//! TATP, the benchmark of a home location register: short transactions on the subscribers of a mobile network (IBM
//! Software Group, "Telecom Application Transaction Processing Benchmark description", version 1.0, 2009).
//!
//! | transaction | share | what it does | succeeds |
//! |---|---|---|---|
//! | GET_SUBSCRIBER_DATA | 35 % | reads a subscriber | always |
//! | GET_NEW_DESTINATION | 10 % | reads where calls are forwarded to | 14.8 % |
//! | GET_ACCESS_DATA | 35 % | reads a row of access data | 62.5 % |
//! | UPDATE_SUBSCRIBER_DATA | 2 % | updates a subscriber and a special facility | 62.5 % |
//! | UPDATE_LOCATION | 14 % | updates a subscriber that it finds by its telephone number | always |
//! | INSERT_CALL_FORWARDING | 2 % | adds a forwarding, by telephone number | 31.25 % |
//! | DELETE_CALL_FORWARDING | 2 % | removes a forwarding, by telephone number | 31.25 % |
//!
//! What does not succeed has met data that is not there, or is there already: it rolls back, counts as rolled back, and
//! is no lost conflict. Rates are those of transactions that succeed, as the description wants.
//!
//! Every row of a subscriber draws from a random stream of its own, so that the initial data can be compared at the
//! end. The subscriber of a transaction is drawn by the description's non-uniform function, or uniformly.

mod check;
mod handset;
mod options;
mod population;
mod tables;
#[cfg(test)]
mod tests;
mod transactions;

use ermine::Database;

pub use self::options::Tatp;
use self::{handset::Handset, population::Profile, tables::Tables};
use crate::{
    Result,
    compare::{Inputs, LoadPlan, Turn, Workload},
    parallel,
    rounds::Contender,
    trial::Counts,
    verdict::{Promise, Verdict},
};

/// Data of a contender.
pub struct Register {
    tables: Tables,
    /// Call forwardings that committed transactions have added, less those that they have removed.
    forwardings: i64,
}

impl Workload for Tatp {
    const NAME: &'static str = "tatp";
    type Data = Register;

    fn check(&self) -> Result<()> {
        self.check_numbers()
    }

    fn points(&self) -> Vec<Inputs> {
        vec![Inputs { name: String::new(), kinds: handset::NAMES.to_vec() }]
    }

    fn load(&self, db: &Database, plan: &LoadPlan<'_>) -> Result<Register> {
        let tables = Tables::open(db)?;
        parallel::insert_rows(db, u64::from(self.subscribers), plan.threads, plan.progress, |txn, number| {
            Profile::of(plan.seed, number as u32 + 1).insert(txn, &tables)
        })?;
        Ok(Register { tables, forwardings: 0 })
    }

    fn run(&self, contender: &mut Contender<Register>, turn: &Turn<'_>) -> Result<Counts> {
        let Contender { db, data, scheme } = contender;
        let (handsets, counts) = turn.drive(db, |random| Handset::new(self, &data.tables, *scheme, random))?;
        let forwardings: i64 = handsets.into_iter().map(|handset| handset.forwardings).sum();
        data.forwardings += forwardings;
        Ok(counts)
    }

    fn verify(&self, contender: &Contender<Register>, seed: u64) -> Result<Vec<(Verdict, Promise)>> {
        let Contender { db, data: Register { tables, forwardings }, .. } = contender;
        check::check(db, tables, self.subscribers, seed, *forwardings)
    }
}
