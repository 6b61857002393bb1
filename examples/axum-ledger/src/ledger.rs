//! The tables and transactions. Nothing here knows HTTP.

use ermine::{Database, Statistics, Table};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Account {
    pub owner: String,
    pub cents: i64,
}
ermine::serde_value!(Account);

/// A transfer that has happened. Its number is the client's choice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    pub from: u64,
    pub to: u64,
    pub cents: i64,
}
ermine::serde_value!(Transfer);

/// Why a request has no effect.
#[derive(Debug)]
pub enum Refused {
    NoAccount(u64),
    AccountExists(u64),
    /// Another transfer has this number.
    NumberTaken(u64),
    Overdrawn {
        account: u64,
        missing: i64,
    },
    NotPositive,
    Database(ermine::Error),
}

impl From<ermine::Error> for Refused {
    fn from(error: ermine::Error) -> Self {
        Self::Database(error)
    }
}

pub struct Ledger {
    db: Database,
    accounts: Table<u64, Account>,
    transfers: Table<u64, Transfer>,
}

impl Ledger {
    pub fn open(db: Database) -> ermine::Result<Self> {
        let (accounts, transfers) = (db.table("accounts")?, db.table("transfers")?);
        Ok(Self { db, accounts, transfers })
    }

    /// Returns the reason why no transaction can commit any more, if there is one.
    pub fn failure(&self) -> Option<ermine::Error> {
        self.db.failure()
    }

    pub fn create(&self, number: u64, account: &Account) -> Result<(), Refused> {
        self.db.run(|txn| match txn.insert(&self.accounts, &number, account) {
            Err(ermine::Error::KeyExists { .. }) => Err(Refused::AccountExists(number)),
            other => Ok(other?),
        })
    }

    pub fn account(&self, number: u64) -> Result<Account, Refused> {
        self.db.run(|txn| txn.get(&self.accounts, &number)?.ok_or(Refused::NoAccount(number)))
    }

    /// Transfers once, however often a client repeats the request: a client that got no answer sends it again.
    pub fn transfer(&self, number: u64, transfer: &Transfer) -> Result<(), Refused> {
        if transfer.cents <= 0 {
            return Err(Refused::NotPositive);
        }
        // Conflicts with other transfers are retried in here.
        self.db.run(|txn| {
            match txn.get(&self.transfers, &number)? {
                Some(done) if done == *transfer => return Ok(()),
                Some(_) => return Err(Refused::NumberTaken(number)),
                None => txn.insert(&self.transfers, &number, transfer)?,
            }
            let add = |account: u64, cents: i64| {
                let balance = txn.modify(&self.accounts, &account, |row| {
                    row.cents += cents;
                    Ok(row.cents)
                })?;
                balance.ok_or(Refused::NoAccount(account))
            };
            let left = add(transfer.from, -transfer.cents)?;
            if left < 0 {
                return Err(Refused::Overdrawn { account: transfer.from, missing: -left });
            }
            add(transfer.to, transfer.cents)?;
            Ok(())
        })
    }

    pub fn statistics(&self) -> Statistics {
        self.db.statistics()
    }
}
