//! SmallBank: customers with a savings and a checking account each.
//!
//! The workload of Alomari, Cahill, Fekete and Röhm ("The cost of serializability on platforms that use snapshot
//! isolation", ICDE 2008), with the sixth transaction and the mix of H-Store:
//!
//! | transaction | share | what it does |
//! |---|---|---|
//! | Balance | 15 % | reads both accounts of a customer |
//! | DepositChecking | 15 % | adds to a checking account |
//! | TransactSavings | 15 % | adds to a savings account or takes from it; fails if it would be overdrawn |
//! | Amalgamate | 15 % | moves all of a customer's money to the checking account of another |
//! | WriteCheck | 15 % | takes from a checking account; if both accounts have less than that, a penalty, too |
//! | SendPayment | 25 % | moves money between two checking accounts; fails if it is not there |
//!
//! Under snapshot isolation it is not serializable: Balance, WriteCheck and TransactSavings of one customer form a
//! dangerous structure.
//!
//! ```text
//!     WriteCheck       reads both accounts ----------------------- takes from the checking account, commits
//!     TransactSavings               adds to the savings, commits
//!     Balance                                               reads both accounts, commits
//! ```
//!
//! The balance shows the deposit, but not the check, which has not seen the deposit and may have taken a penalty for
//! it. No condition on the final data shows this; `--check` does. A pause between the reads and the write of WriteCheck
//! makes it frequent.
//!
//! Most transactions are for a few hot customers: 90 % for 1,000 of 18,000, as in the paper; with 10 hot ones its
//! contention is high.

mod check;
mod options;
mod tables;
mod teller;
#[cfg(test)]
mod tests;
mod transactions;

use ermine::Database;

pub use self::options::SmallBank;
use self::{tables::Tables, teller::Teller};
use crate::{
    Result,
    compare::{Inputs, LoadPlan, Turn, Workload},
    rounds::Contender,
    trial::Counts,
    verdict::{Promise, Verdict},
};

/// Data of a contender.
pub struct Bank {
    tables: Tables,
    /// Cents that committed transactions have added to the accounts of each customer.
    added: Vec<i64>,
}

impl Workload for SmallBank {
    const NAME: &'static str = "smallbank";
    type Data = Bank;

    fn check(&self) -> Result<()> {
        self.check_numbers()
    }

    fn points(&self) -> Vec<Inputs> {
        vec![Inputs { name: String::new(), kinds: teller::NAMES.to_vec() }]
    }

    fn load(&self, db: &Database, plan: &LoadPlan<'_>) -> Result<Bank> {
        let tables = Tables::open(db)?;
        tables.load(db, self.customers, plan)?;
        Ok(Bank { tables, added: vec![0; self.customers as usize] })
    }

    fn run(&self, contender: &mut Contender<Bank>, turn: &Turn<'_>) -> Result<Counts> {
        let Contender { db, data, scheme } = contender;
        let teller = |random| Teller::new(self, &data.tables, *scheme, random);
        let (tellers, counts) = turn.drive(db, teller)?;
        let added: Vec<_> = tellers.into_iter().flat_map(|teller| teller.added).collect();
        added.into_iter().for_each(|(customer, cents)| data.added[customer as usize] += cents);
        Ok(counts)
    }

    fn verify(&self, contender: &Contender<Bank>, seed: u64) -> Result<Vec<(Verdict, Promise)>> {
        let Contender { db, data: Bank { tables, added }, .. } = contender;
        check::check(db, tables, added, seed)
    }
}
