//! The three tables and their initial rows.

use ermine::{Database, Table};

use crate::{Result, compare::LoadPlan, parallel, random::Random};

/// Maximum number of customers: a name has eight digits.
pub const CUSTOMERS_MAX: u32 = 99_999_999;

/// The name of a customer, the key by which transactions find the number.
pub type Name = [u8; 16];

/// Handles of the tables.
pub struct Tables {
    /// Numbers of customers, by name.
    pub account: Table<Name, u32>,
    /// Cents, by number.
    pub savings: Table<u32, i64>,
    /// Cents, by number; a check may overdraw it.
    pub checking: Table<u32, i64>,
}

impl Tables {
    /// Creates the tables.
    pub fn open(db: &Database) -> ermine::Result<Self> {
        Ok(Self { account: db.table("account")?, savings: db.table("savings")?, checking: db.table("checking")? })
    }

    /// Opens the accounts of the customers with numbers below `customers`.
    pub fn load(&self, db: &Database, customers: u32, plan: &LoadPlan<'_>) -> Result<()> {
        parallel::insert_rows(db, u64::from(customers), plan.threads, plan.progress, |txn, number| {
            let customer = number as u32;
            let Opening { savings, checking } = Opening::of(plan.seed, customer);
            txn.insert(&self.account, &name(customer), &customer)?;
            txn.insert(&self.savings, &customer, &savings)?;
            txn.insert(&self.checking, &customer, &checking)
        })
    }
}

/// The cents with which a customer begins.
pub struct Opening {
    pub savings: i64,
    pub checking: i64,
}

impl Opening {
    /// Draws 10,000.00 to 50,000.00 for each account.
    pub fn of(seed: u64, customer: u32) -> Self {
        let mut random = Random::new(seed, 1 << 63 | u64::from(customer));
        let mut draw = || random.uniform(1_000_000..=5_000_000) as i64;
        Self { savings: draw(), checking: draw() }
    }
}

/// Returns the name of a customer: its number, behind a word.
pub fn name(customer: u32) -> Name {
    let mut name = *b"customer00000000";
    let mut rest = customer;
    for place in name.iter_mut().rev().take(8) {
        *place += (rest % 10) as u8;
        rest /= 10;
    }
    name
}
