//! A struct that changes: rows of both versions are read side by side, and rewritten at leisure.
//!
//! `cargo run -p ermine --example migrate`

use std::ops::Bound;

use ermine::{Database, Error, Options};
use serde::{Deserialize, Serialize};

/// The program as it was.
mod before {
    use super::*;

    // ANCHOR: before
    #[derive(Serialize, Deserialize)]
    pub struct Customer {
        pub name: String,
        pub tags: Vec<String>,
    }
    ermine::serde_value!(Customer);
    // ANCHOR_END: before
}

// ANCHOR: after
#[derive(Serialize, Deserialize)]
struct CustomerV1 {
    name: String,
    tags: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Customer {
    name: String,
    city: Option<String>,
    tags: Vec<String>,
}

impl From<CustomerV1> for Customer {
    fn from(CustomerV1 { name, tags }: CustomerV1) -> Self {
        Self { name, city: None, tags }
    }
}

ermine::serde_value!(CustomerV1);
ermine::serde_value!(Customer, version = 2, from = CustomerV1);
// ANCHOR_END: after

/// A program whose type has changed without a new version.
mod forgotten {
    use super::*;

    #[derive(Serialize, Deserialize)]
    pub struct Customer {
        tags: Vec<String>,
        name: String,
    }
    ermine::serde_value!(Customer);
}

fn main() -> Result<(), Error> {
    let path = std::env::temp_dir().join(format!("ermine-example-migrate-{}", std::process::id()));
    {
        let db = Database::open(&path, Options::default())?;
        let customers = db.table::<u64, before::Customer>("customers")?;
        db.run(|txn| {
            (0..1000).try_for_each(|n| {
                txn.insert(&customers, &n, &before::Customer { name: format!("customer {n}"), tags: Vec::new() })
            })
        })?;
    }

    let db = Database::open(&path, Options::default())?;
    let refused = db.table::<u64, forgotten::Customer>("customers").err().expect("the fields have another order");
    println!("{refused}");

    // ANCHOR: open
    let customers = db.table::<u64, Customer>("customers")?;
    let customer = db.run(|txn| txn.get(&customers, &7))?.expect("it was written by the old program");
    assert_eq!((customer.name.as_str(), customer.city), ("customer 7", None));
    // ANCHOR_END: open

    // ANCHOR: rewrite
    // A row gets the new version when it is written. To rewrite all of them, some at a time:
    let mut done = Bound::Unbounded;
    loop {
        let last = db.run(|txn| {
            let rows = txn.scan(&customers, (done, Bound::Unbounded)).limit(100).collect()?;
            for (key, customer) in &rows {
                txn.put(&customers, key, customer)?;
            }
            Ok::<_, Error>(rows.last().map(|(key, _)| *key))
        })?;
        let Some(last) = last else { break };
        done = Bound::Excluded(last);
    }
    // ANCHOR_END: rewrite
    println!("{} customers have been rewritten", db.run(|txn| txn.scan(&customers, ..).count())?);
    drop(db);
    std::fs::remove_dir_all(&path).map_err(Error::other)
}
