//! A ledger with double entries: accounts, transfers between them, and a statement of each account.
//!
//! `cargo run -p ermine --example ledger`

use std::{error, fmt, thread};

use ermine::{Database, Options, SecondaryIndex, Table, Uniqueness, prefix};
use serde::{Deserialize, Serialize};

// ANCHOR: types
#[derive(Serialize, Deserialize)]
struct Account {
    owner: String,
    cents: i64,
}
ermine::serde_value!(Account);

/// One side of a transfer: what came from, or went to, another account.
#[derive(Serialize, Deserialize)]
struct Entry {
    other: u64,
    cents: i64,
}
ermine::serde_value!(Entry);
// ANCHOR_END: types

// ANCHOR: error
#[derive(Debug)]
enum Refused {
    NoAccount(u64),
    Overdrawn { account: u64, missing: i64 },
    Database(ermine::Error),
}

impl From<ermine::Error> for Refused {
    fn from(error: ermine::Error) -> Self {
        Self::Database(error)
    }
}
// ANCHOR_END: error

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAccount(account) => write!(f, "there is no account {account}"),
            Self::Overdrawn { account, missing } => write!(f, "account {account} lacks {missing} cents"),
            Self::Database(error) => error.fmt(f),
        }
    }
}

impl error::Error for Refused {}

// ANCHOR: open
struct Ledger {
    db: Database,
    accounts: Table<u64, Account>,
    by_owner: SecondaryIndex<String, u64, Account>,
    /// By account and number of the transfer.
    entries: Table<(u64, u64), Entry>,
}

impl Ledger {
    fn open(db: Database) -> ermine::Result<Self> {
        let accounts = db.table("accounts")?;
        let by_owner =
            db.index(&accounts, "accounts by owner", Uniqueness::Unique, |_, account: Account| account.owner)?;
        let entries = db.table("entries")?;
        Ok(Self { db, accounts, by_owner, entries })
    }
}
// ANCHOR_END: open

impl Ledger {
    fn create(&self, number: u64, owner: &str, cents: i64) -> ermine::Result<()> {
        let account = Account { owner: owner.into(), cents };
        self.db.run(|txn| txn.insert(&self.accounts, &number, &account))
    }

    // ANCHOR: transfer
    fn transfer(&self, number: u64, from: u64, to: u64, cents: i64) -> Result<(), Refused> {
        self.db.run(|txn| {
            let left = txn.modify(&self.accounts, &from, |account| {
                account.cents -= cents;
                Ok(account.cents)
            })?;
            let left = left.ok_or(Refused::NoAccount(from))?;
            if left < 0 {
                return Err(Refused::Overdrawn { account: from, missing: -left }); // nothing is written
            }
            let added = txn.modify(&self.accounts, &to, |account| {
                account.cents += cents;
                Ok(())
            })?;
            added.ok_or(Refused::NoAccount(to))?;
            txn.insert(&self.entries, &(from, number), &Entry { other: to, cents: -cents })?;
            txn.insert(&self.entries, &(to, number), &Entry { other: from, cents })?;
            Ok(())
        })
    }
    // ANCHOR_END: transfer

    // ANCHOR: read
    /// Returns an owner's account, and its newest entries.
    fn statement(&self, owner: &str, entries: usize) -> ermine::Result<Option<(Account, Vec<Entry>)>> {
        self.db.run(|txn| {
            let Some((number, account)) = txn.find_by(&self.by_owner, owner)? else { return Ok(None) };
            let newest = txn.scan(&self.entries, prefix((number,))).rev().limit(entries).into_iter();
            let newest: Vec<_> = newest.map(|row| row.map(|(_, entry)| entry)).collect::<Result<_, _>>()?;
            Ok(Some((account, newest)))
        })
    }

    /// Returns the sum of all accounts, without a conflict with any transfer.
    fn total(&self) -> ermine::Result<i64> {
        let snapshot = self.db.snapshot()?;
        snapshot.scan(&self.accounts, ..).into_iter().map(|row| row.map(|(_, account)| account.cents)).sum()
    }
    // ANCHOR_END: read
}

fn main() -> Result<(), Refused> {
    let ledger = Ledger::open(Database::open_in_memory(Options::default())?)?;
    for (number, owner) in ["ann", "bob", "eve"].into_iter().enumerate() {
        ledger.create(number as u64, owner, 1000)?;
    }

    ledger.transfer(1, 0, 1, 250)?;
    let refused = ledger.transfer(2, 2, 0, 1200).unwrap_err();
    println!("{refused}");
    assert!(matches!(refused, Refused::Overdrawn { account: 2, missing: 200 }));
    assert!(matches!(ledger.transfer(2, 1, 9, 100), Err(Refused::NoAccount(9))));

    // ANCHOR: threads
    thread::scope(|scope| {
        for client in 0..4u64 {
            let ledger = &ledger;
            scope.spawn(move || {
                for n in 0..100 {
                    let (from, to) = ((client + n) % 3, (client + n + 1) % 3);
                    match ledger.transfer(1000 * (client + 1) + n, from, to, 10) {
                        Ok(()) | Err(Refused::Overdrawn { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    // ANCHOR_END: threads

    let (account, entries) = ledger.statement("bob", 2)?.ok_or(Refused::NoAccount(1))?;
    println!("bob has {} cents; the last entry was {} cents with account {}", account.cents, entries[0].cents, {
        entries[0].other
    });
    assert_eq!(entries.len(), 2);
    assert_eq!(ledger.total()?, 3000);
    println!("the accounts have 3000 cents in all");
    Ok(())
}
