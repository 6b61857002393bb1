//! Goal: an error names rows as the application writes them, and tells a conflict in words.
//! Method: each error once, its text as a whole.

use ermine::{Database, Error, Options, Scheme, Table, TxnOptions, Uniqueness, serde_value};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Person {
    name: String,
    age: u32,
}
serde_value!(Person);

fn people(db: &Database) -> Table<(u16, String), Person> {
    let people = db.table("people").unwrap();
    db.index(&people, "by age", Uniqueness::Unique, |_, person: Person| person.age).unwrap();
    db.run(|txn| txn.insert(&people, &(1, "ada"), &Person { name: "Ada".into(), age: 36 })).unwrap();
    people
}

#[test]
fn a_key_that_exists_is_named_as_its_type_writes_it() {
    for scheme in Scheme::ALL {
        let db = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
        let people = people(&db);
        let person = Person { name: "Bob".into(), age: 36 };
        let twice = db.run(|txn| txn.insert(&people, &(1, "ada"), &person)).unwrap_err();
        assert_eq!(twice.to_string(), r#"table people already has a row with key (1, "ada")"#);
        let second = db.run(|txn| txn.insert(&people, &(2, "bob"), &person)).unwrap_err();
        assert_eq!(second.to_string(), "unique index by age of table people already has key 36");
        db.rename_table("people", "persons").unwrap();
        let renamed = db.run(|txn| txn.insert(&people, &(2, "bob"), &person)).unwrap_err();
        assert_eq!(renamed.to_string(), "unique index by age of table persons already has key 36");
    }
}

#[test]
fn a_write_conflict_names_the_row_and_the_other_transaction() {
    let db = Database::open_in_memory(Options::default()).unwrap();
    let people = people(&db);
    let (winner, loser) = (db.begin(TxnOptions::default()).unwrap(), db.begin(TxnOptions::default()).unwrap());
    winner.delete(&people, &(1, "ada")).unwrap();
    // ANCHOR: write_conflict
    let lost = loser.delete(&people, &(1, "ada")).unwrap_err();
    let number = winner.tid().unwrap().unwrap();
    assert_eq!(
        lost.to_string(),
        format!(
            "write conflict: this transaction writes key (1, \"ada\") of table people, which transaction {number} has \
             written; run the transaction again"
        )
    );
    // ANCHOR_END: write_conflict
}

#[test]
fn write_skew_is_told_by_both_of_its_dependencies() {
    let db = Database::open_in_memory(Options::default()).unwrap();
    let balances = db.table::<u64, i64>("balances").unwrap();
    db.run(|txn| (1..=2).try_for_each(|n| txn.insert(&balances, &n, &100))).unwrap();
    let (one, other) = (db.begin(TxnOptions::default()).unwrap(), db.begin(TxnOptions::default()).unwrap());
    one.get(&balances, &1).unwrap();
    other.get(&balances, &2).unwrap();
    one.put(&balances, &2, &0).unwrap();
    other.put(&balances, &1, &0).unwrap();
    one.commit().unwrap();
    let lost = other.commit().unwrap_err().to_string();
    for part in [
        "serialization conflict: this transaction read key 2 of table balances, which",
        "overwrote; ",
        "read key 1 of table balances, which this transaction overwrote; ",
        "run the transaction again",
    ] {
        assert!(lost.contains(part), "{lost}");
    }
}

/// The bytes of a key are shown where its type is the application's own, or where two indexes give them two meanings.
#[test]
fn a_key_without_one_meaning_is_shown_as_bytes() {
    let db = Database::open_in_memory(Options::default().scheme(Scheme::Si)).unwrap();
    let table = db.table::<u64, i64>("numbers").unwrap();
    db.index(&table, "by value", Uniqueness::NonUnique, |_, value| value).unwrap();
    let conflict = || {
        let (winner, loser) = (db.begin(TxnOptions::default()).unwrap(), db.begin(TxnOptions::default()).unwrap());
        winner.put(&table, &7, &1).unwrap();
        loser.put(&table, &7, &2).unwrap_err()
    };
    assert!(matches!(conflict(), Error::Abort(_)));
    let text = conflict().to_string();
    assert!(text.contains("key 0000000000000007 of table numbers"), "{text}");
}
