//! Goal: a typed table reports its bytes correctly. A handle is refused by every other database; a value type or key
//! function that is not the one that wrote the rows is an error with advice; rows of older versions of a type stay
//! readable.
//! Method: databases of one scheme of each family are written, closed, and opened again with other types of the same
//! name.

use std::sync::Arc;

use ermine::{
    AccessSet, Database, Error, IndexOptions, Options, Scheme, Table, TxnOptions, Uniqueness, fixed_value, serde_value,
    zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout},
};
use ermine_testing::faulty::FaultyDirectory;
use serde::{Deserialize, Serialize};

/// One scheme of each storage family.
const SCHEMES: [Scheme; 2] = [Scheme::SiSsn, Scheme::Silo];

fn options(scheme: Scheme) -> Options {
    Options::default().scheme(scheme).log_buffer_bytes(64 << 10).segment_bytes(64 << 10)
}

fn open(directory: &FaultyDirectory, scheme: Scheme) -> Database {
    Database::open_in(Arc::new(directory.clone()), options(scheme)).unwrap()
}

/// Returns the message of a refusal that concerns the schema.
fn refused<T>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::Schema(message)) => message,
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("it was accepted"),
    }
}

#[test]
fn a_handle_is_refused_by_every_other_database() {
    for scheme in SCHEMES {
        let (one, two) =
            (Database::open_in_memory(options(scheme)).unwrap(), Database::open_in_memory(options(scheme)).unwrap());
        let own = one.table::<u64, String>("names").unwrap();
        // A table with the same number.
        let foreign = two.table::<u64, i64>("balances").unwrap();
        let by_balance = two.index(&foreign, "by balance", Uniqueness::NonUnique, |_, balance| balance).unwrap();
        one.run(|txn| txn.put(&own, &1, "ada")).unwrap();
        let txn = one.begin(TxnOptions::default()).unwrap();
        let messages = [
            refused(txn.get(&foreign, &1)),
            refused(txn.view(&foreign, &1)),
            refused(txn.get_many(&foreign, [&1])),
            refused(txn.contains(&foreign, &1)),
            refused(txn.insert(&foreign, &2, &5)),
            refused(txn.put(&foreign, &1, &5)),
            refused(txn.update(&foreign, &1, &5)),
            refused(txn.delete(&foreign, &1)),
            refused(txn.row_lock(&foreign, &1)),
            refused(txn.sees_newest(&foreign, || true)),
            refused(txn.scan(&foreign, ..).collect()),
            refused(txn.scan_by(&by_balance, ..).collect()),
            refused(one.index(&foreign, "by value", Uniqueness::NonUnique, |_, value| value)),
        ];
        for message in messages {
            assert!(message.contains("balances") && message.contains("another open database"), "{message}");
        }
        assert_eq!(txn.get(&own, &1).unwrap().as_deref(), Some("ada"), "the transaction goes on");
        txn.commit().unwrap();
    }
}

#[test]
fn a_handle_is_refused_by_its_own_directory_when_that_is_opened_again() {
    let directory = FaultyDirectory::new();
    let db = open(&directory, Scheme::SiSsn);
    let old = db.table::<u64, i64>("balances").unwrap();
    drop(db);
    let db = open(&directory, Scheme::SiSsn);
    refused(db.run(|txn| txn.get(&old, &1)));
    assert_eq!(db.run(|txn| txn.get(&db.table::<u64, i64>("balances")?, &1)).unwrap(), None);
}

#[test]
fn declared_keys_and_sequences_are_of_one_database() {
    let options = options(Scheme::Vll);
    let (one, two) = (Database::open_in_memory(options.clone()).unwrap(), Database::open_in_memory(options).unwrap());
    let (own, foreign) = (one.table::<u64, i64>("own").unwrap(), two.table::<u64, i64>("foreign").unwrap());
    for declared in [AccessSet::new().write(&foreign, &1), AccessSet::new().write(&own, &1).read(&foreign, &1)] {
        refused(one.run_with(TxnOptions::declared(declared), |txn| txn.put(&own, &1, &1)));
    }
    let numbers = one.sequence("numbers", 10).unwrap();
    assert_eq!(numbers.next(&one).unwrap(), 1);
    refused(numbers.next(&two));
}

/// Each module is a program with its own definitions of `Customer` and `Account`.
mod first {
    use super::*;

    #[derive(Serialize, Deserialize)]
    pub struct Customer {
        pub name: String,
        pub city: String,
    }
    serde_value!(Customer);

    #[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[zerocopy(crate = "ermine::zerocopy")]
    #[repr(C)]
    pub struct Account {
        pub balance: i64,
    }
    fixed_value!(Account { balance: i64 });
}

mod swapped {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    pub struct Customer {
        pub city: String,
        pub name: String,
    }
    serde_value!(Customer);

    #[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[zerocopy(crate = "ermine::zerocopy")]
    #[repr(C)]
    pub struct Account {
        pub low: u32,
        pub high: u32,
    }
    fixed_value!(Account { low: u32, high: u32 });
}

mod second {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct Customer {
        pub name: String,
        pub credit: Option<u32>,
        pub city: String,
    }
    serde_value!(Customer, version = 2, from = first::Customer);

    impl From<first::Customer> for Customer {
        fn from(first::Customer { name, city }: first::Customer) -> Self {
            Self { name, credit: None, city }
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[zerocopy(crate = "ermine::zerocopy")]
    #[repr(C)]
    pub struct Account {
        pub balance: i64,
        pub opened: u64,
    }
    fixed_value!(Account { balance: i64, opened: u64 });

    #[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[zerocopy(crate = "ermine::zerocopy")]
    #[repr(C)]
    pub struct AccountV1 {
        pub balance: i64,
    }
    fixed_value!(AccountV1 as "Account" { balance: i64 });
}

mod third {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    pub struct Customer {
        pub names: Vec<String>,
        pub city: String,
    }
    serde_value!(Customer, version = 5, from = second::Customer);

    impl From<second::Customer> for Customer {
        fn from(second::Customer { name, city, .. }: second::Customer) -> Self {
            Self { names: vec![name], city }
        }
    }
}

fn written_by_the_first(scheme: Scheme) -> FaultyDirectory {
    let directory = FaultyDirectory::new();
    let db = open(&directory, scheme);
    let customers = db.table::<u64, first::Customer>("customers").unwrap();
    let accounts = db.table::<u64, first::Account>("accounts").unwrap();
    db.run(|txn| {
        for key in 0..10 {
            let (name, city) = (format!("name {key}"), format!("city {}", key % 3));
            txn.put(&customers, &key, &first::Customer { name, city })?;
        }
        txn.put(&accounts, &1, &first::Account { balance: 1 << 40 })
    })
    .unwrap();
    drop(db);
    directory
}

#[test]
fn fields_that_changed_places_or_types_are_refused() {
    for scheme in SCHEMES {
        let db = open(&written_by_the_first(scheme), scheme);
        let message = refused(db.table::<u64, swapped::Customer>("customers"));
        for part in ["customers", "{name: string, city: string}", "{city: string, name: string}", "version = 2"] {
            assert!(message.contains(part), "{message}");
        }
        let message = refused(db.table::<u64, swapped::Account>("accounts"));
        for part in ["accounts", "balance: i64 at 0", "low: u32 at 0, high: u32 at 4", "copy the rows"] {
            assert!(message.contains(part), "{message}");
        }
        // A refusal leaves the table as it was.
        let customers = db.table::<u64, first::Customer>("customers").unwrap();
        assert_eq!(db.run(|txn| txn.get(&customers, &3)).unwrap().unwrap().city, "city 0");
    }
}

#[test]
fn rows_of_older_versions_are_read_beside_new_ones() {
    for scheme in SCHEMES {
        let directory = written_by_the_first(scheme);
        let newer =
            |key: u64| second::Customer { name: "new".into(), credit: Some(7), city: format!("city {}", key % 3) };
        for round in 0..2 {
            let db = open(&directory, scheme);
            let customers = db.table::<u64, second::Customer>("customers").unwrap();
            if round == 0 {
                db.run(|txn| (0..5).try_for_each(|key| txn.put(&customers, &(2 * key), &newer(2 * key)))).unwrap();
            }
            let rows = db.run(|txn| txn.scan(&customers, ..).collect()).unwrap();
            for (key, row) in &rows {
                let older = || {
                    let (name, city) = (format!("name {key}"), format!("city {}", key % 3));
                    second::Customer { name, credit: None, city }
                };
                assert_eq!(*row, if key % 2 == 0 { newer(*key) } else { older() }, "{scheme} {round} {key}");
            }
            assert_eq!(rows.len(), 10);
            let viewed = db.run(|txn| txn.view_many(&customers, [&1, &2]).map(|rows| rows.len())).unwrap();
            assert_eq!(viewed, 2);
        }
        let db = open(&directory, scheme);
        let message = refused(db.table::<u64, first::Customer>("customers"));
        assert!(message.contains("version 2") && message.contains("newer program"), "{message}");
        // Three generations of a type in one table, one of them never written.
        let customers = db.table::<u64, third::Customer>("customers").unwrap();
        let third = third::Customer { names: vec!["x".into(), "y".into()], city: "z".into() };
        db.run(|txn| txn.put(&customers, &0, &third)).unwrap();
        let names: Vec<_> =
            db.run(|txn| txn.scan(&customers, ..3).collect()).unwrap().into_iter().map(|(_, row)| row.names).collect();
        assert_eq!(names, [vec!["x".to_owned(), "y".into()], vec!["name 1".into()], vec!["new".into()]]);
        drop(db);
        let message = refused(open(&directory, scheme).table::<u64, second::Customer>("customers"));
        assert!(message.contains("version 5"), "{message}");
    }
}

#[test]
fn an_index_over_rows_of_several_versions_finds_all() {
    for scheme in SCHEMES {
        let directory = FaultyDirectory::new();
        let db = open(&directory, scheme);
        let customers = db.table::<u64, first::Customer>("customers").unwrap();
        db.index(&customers, "by city", Uniqueness::NonUnique, |_, row: first::Customer| row.city).unwrap();
        let row = |key: u64| first::Customer { name: format!("{key}"), city: format!("{}", key % 2) };
        db.run(|txn| (0..10).try_for_each(|key| txn.put(&customers, &key, &row(key)))).unwrap();
        drop(db);
        let db = open(&directory, scheme);
        let customers = db.table::<u64, second::Customer>("customers").unwrap();
        let by_city =
            db.index(&customers, "by city", Uniqueness::NonUnique, |_, row: second::Customer| row.city).unwrap();
        let moved = second::Customer { name: "moved".into(), credit: Some(1), city: "1".into() };
        db.run(|txn| txn.put(&customers, &4, &moved)).unwrap();
        let keys = db.run(|txn| txn.scan_by(&by_city, "1".to_owned()..="1".to_owned()).collect()).unwrap();
        assert_eq!(keys.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), [1, 3, 4, 5, 7, 9]);
    }
}

#[test]
fn another_key_function_is_refused() {
    for scheme in SCHEMES {
        let directory = FaultyDirectory::new();
        let open_with = |version: u32, key_of: fn(u64) -> u64| {
            let db = open(&directory, scheme);
            let table: Table<u64, u64> = db.table("t").unwrap();
            let options = IndexOptions::new(Uniqueness::NonUnique).version(version);
            let index = db.index_with(&table, "by value", options, move |_, value| key_of(value));
            index.map(|index| (db, table, index))
        };
        let (db, table, _) = open_with(1, |value| value % 10).unwrap();
        db.run(|txn| (0..1000).try_for_each(|key| txn.put(&table, &key, &(key * 7)))).unwrap();
        // Superseded entries and deleted keys do not count.
        db.run(|txn| txn.put(&table, &5, &6)).unwrap();
        db.run(|txn| txn.delete(&table, &999)).unwrap();
        drop((db, table));
        let message = refused(open_with(1, |value| value % 9));
        assert!(message.contains("by value") && message.contains("another key function"), "{message}");
        let message = refused(open_with(2, |value| value % 10));
        assert!(message.contains("version 1") && message.contains("version 2"), "{message}");
        let (db, _, index) = open_with(1, |value| value % 10).unwrap();
        assert_eq!(db.run(|txn| txn.scan_by(&index, 6..7).collect()).unwrap().len(), 101);
    }
}
