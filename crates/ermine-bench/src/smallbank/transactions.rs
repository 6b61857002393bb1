//! The six transactions. They are compiled for no scheme by themselves: an operation costs the same dispatch under all
//! of them.

use ermine::{Access, Job, Scheme, Table, Transaction};

use super::tables::{Name, Tables};
use crate::{
    failure::{Failure, found},
    pause::Pause,
};

/// What a check costs in addition if it is not covered, in cents.
const PENALTY: i64 = 100;

/// The order of a customer; amounts are in cents.
#[derive(Clone, Copy, Debug)]
pub enum Request {
    Balance(Name),
    DepositChecking(Name, i64),
    /// A negative amount is taken.
    TransactSavings(Name, i64),
    /// From the first to the second.
    Amalgamate(Name, Name),
    WriteCheck(Name, i64),
    /// From the first to the second.
    SendPayment(Name, Name, i64),
}

/// Cents added to the accounts of customers by a transaction; of one customer, or two.
pub type Added = [(u32, i64); 2];

/// A transaction.
pub struct Order<'a> {
    pub tables: &'a Tables,
    pub request: Request,
    /// Pause of a WriteCheck between its reads and its write.
    pub pause: Pause,
}

impl Job for Order<'_> {
    type Output = Added;
    type Error = Failure;

    const SCHEMES: &'static [Scheme] = &[];

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<Added, Failure> {
        let desk = Desk { tables: self.tables, txn };
        match self.request {
            Request::Balance(name) => desk.balance(&name),
            Request::DepositChecking(name, amount) => desk.deposit_checking(&name, amount),
            Request::TransactSavings(name, amount) => desk.transact_savings(&name, amount),
            Request::Amalgamate(from, to) => desk.amalgamate(&from, &to),
            Request::WriteCheck(name, amount) => desk.write_check(&name, amount, self.pause),
            Request::SendPayment(from, to, amount) => desk.send_payment(&from, &to, amount),
        }
    }
}

/// The tables in a transaction.
struct Desk<'a, 't, A: Access> {
    tables: &'a Tables,
    txn: &'a Transaction<'t, A>,
}

impl<A: Access> Desk<'_, '_, A> {
    fn customer(&self, name: &Name) -> Result<u32, Failure> {
        found(self.txn.get(&self.tables.account, name)?, "a customer")
    }

    fn cents(&self, accounts: &Table<u32, i64>, customer: u32) -> Result<i64, Failure> {
        found(self.txn.get(accounts, &customer)?, "an account")
    }

    fn set(&self, accounts: &Table<u32, i64>, customer: u32, cents: i64) -> Result<(), Failure> {
        found(self.txn.update(accounts, &customer, &cents)?.then_some(()), "an account")
    }

    fn balance(&self, name: &Name) -> Result<Added, Failure> {
        let customer = self.customer(name)?;
        let cents = self.cents(&self.tables.savings, customer)? + self.cents(&self.tables.checking, customer)?;
        std::hint::black_box(cents);
        Ok([(customer, 0); 2])
    }

    fn deposit_checking(&self, name: &Name, amount: i64) -> Result<Added, Failure> {
        let customer = self.customer(name)?;
        let cents = self.cents(&self.tables.checking, customer)?;
        self.set(&self.tables.checking, customer, cents + amount)?;
        Ok([(customer, amount), (customer, 0)])
    }

    fn transact_savings(&self, name: &Name, amount: i64) -> Result<Added, Failure> {
        let customer = self.customer(name)?;
        let cents = self.cents(&self.tables.savings, customer)? + amount;
        if cents < 0 {
            return Err(Failure::RolledBack);
        }
        self.set(&self.tables.savings, customer, cents)?;
        Ok([(customer, amount), (customer, 0)])
    }

    fn amalgamate(&self, from: &Name, to: &Name) -> Result<Added, Failure> {
        let Tables { savings, checking, .. } = self.tables;
        let (from, to) = (self.customer(from)?, self.customer(to)?);
        let all = self.cents(savings, from)? + self.cents(checking, from)?;
        let cents = self.cents(checking, to)?;
        self.set(savings, from, 0)?;
        self.set(checking, from, 0)?;
        self.set(checking, to, cents + all)?;
        Ok([(from, -all), (to, all)])
    }

    fn write_check(&self, name: &Name, amount: i64, pause: Pause) -> Result<Added, Failure> {
        let customer = self.customer(name)?;
        let savings = self.cents(&self.tables.savings, customer)?;
        let checking = self.cents(&self.tables.checking, customer)?;
        pause.wait();
        let taken = if savings + checking < amount { amount + PENALTY } else { amount };
        self.set(&self.tables.checking, customer, checking - taken)?;
        Ok([(customer, -taken), (customer, 0)])
    }

    fn send_payment(&self, from: &Name, to: &Name, amount: i64) -> Result<Added, Failure> {
        let checking = &self.tables.checking;
        let (from, to) = (self.customer(from)?, self.customer(to)?);
        let cents = [self.cents(checking, from)?, self.cents(checking, to)?];
        if cents[0] < amount {
            return Err(Failure::RolledBack);
        }
        self.set(checking, from, cents[0] - amount)?;
        self.set(checking, to, cents[1] + amount)?;
        Ok([(from, -amount), (to, amount)])
    }
}
