//! Goal: a table behaves the same whatever kind its index is, except for the scans that a hash index lacks; and its
//! kind is permanent.
//! Method: each kind goes through writing, checkpoints and opening again; operations that must be refused are tried.

use std::{sync::Arc, time::Duration};

use ermine::{
    Database, Error, IndexKind, IndexOptions, Options, Scheme, Table, TableOptions, TxnOptions, Uniqueness,
    files::Directory, verify_in,
};
use ermine_testing::faulty::FaultyDirectory;

const KINDS: [IndexKind; 3] = [IndexKind::BTree, IndexKind::Art, IndexKind::Hash];

fn options() -> Options {
    Options::default().log_buffer_bytes(1 << 20).segment_bytes(1 << 20)
}

fn open(directory: &FaultyDirectory) -> Database {
    Database::open_in(Arc::new(directory.clone()), options()).unwrap()
}

fn table(db: &Database, kind: IndexKind) -> Table<String, u64> {
    let table = db.table_with(&format!("{kind:?}"), TableOptions::default().index(kind)).unwrap();
    let by_value = |_: &String, value| value % 10;
    db.index_with(&table, "by value", IndexOptions::new(Uniqueness::NonUnique).kind(IndexKind::Art), by_value).unwrap();
    table
}

fn key(n: u64) -> String {
    "k".repeat(n as usize % 40) + &n.to_string()
}

fn check(db: &Database, table: &Table<String, u64>, expected: impl Fn(u64) -> Option<u64>) {
    for n in 0..1200 {
        assert_eq!(db.run(|txn| txn.get(table, &key(n))).unwrap(), expected(n), "{} {n}", table.name());
    }
}

fn verified(directory: &FaultyDirectory) {
    let directory: Arc<dyn Directory> = Arc::new(directory.clone());
    let verification = verify_in(&directory, &Options::default(), &mut |_| {}).unwrap();
    assert!(verification.findings.is_empty(), "{:?}", verification.findings);
}

/// With and without a checkpoint, and with changes in the log that are newer than the checkpoint.
#[test]
fn every_kind_comes_back() {
    for checkpoints in 0..3 {
        let directory = FaultyDirectory::new();
        {
            let db = open(&directory);
            for table in KINDS.map(|kind| table(&db, kind)) {
                for n in 0..1000 {
                    db.run(|txn| txn.insert(&table, &key(n), &n)).unwrap();
                }
            }
            if checkpoints > 0 {
                db.checkpoint().unwrap();
            }
            for table in KINDS.map(|kind| table(&db, kind)) {
                for n in 0..300 {
                    db.run(|txn| txn.delete(&table, &key(n * 3))).unwrap();
                }
                for n in 1000..1200 {
                    db.run(|txn| txn.insert(&table, &key(n), &n)).unwrap();
                }
            }
            if checkpoints > 1 {
                db.checkpoint().unwrap();
            }
        }
        verified(&directory);
        let db = open(&directory);
        for table in KINDS.map(|kind| table(&db, kind)) {
            check(&db, &table, |n| (n >= 900 || n % 3 != 0).then_some(n));
            db.run(|txn| txn.put(&table, &key(0), &7)).unwrap();
            assert_eq!(db.run(|txn| txn.get(&table, &key(0))).unwrap(), Some(7));
        }
    }
}

#[test]
fn a_table_is_opened_as_what_it_is() {
    let directory = FaultyDirectory::new();
    drop(KINDS.map(|kind| table(&open(&directory), kind)));
    let db = open(&directory);
    for kind in KINDS {
        for other in KINDS.into_iter().filter(|&other| other != kind) {
            let wrong = db.table_with::<String, u64>(&format!("{kind:?}"), TableOptions::default().index(other));
            assert!(matches!(wrong, Err(Error::Schema(_))), "{kind:?} as {other:?}");
        }
        let table = table(&db, kind);
        let wrong = db.index(&table, "by value", Uniqueness::NonUnique, |_, value| value % 10);
        assert!(matches!(wrong, Err(Error::Schema(_))), "the index is another one");
    }
}

#[test]
fn a_hash_index_refuses_scans_and_to_be_a_secondary_one() {
    let db = Database::open_in_memory(Options::default()).unwrap();
    let table = table(&db, IndexKind::Hash);
    let all = db.run(|txn| txn.scan(&table, ..).collect());
    assert!(matches!(&all, Err(Error::Schema(why)) if why.contains("hash index")), "{all:?}");
    let by_hash = |_: &String, value| value;
    let index = db.index_with(&table, "by hash", IndexOptions::new(Uniqueness::Unique).kind(IndexKind::Hash), by_hash);
    assert!(matches!(index, Err(Error::Schema(_))));
    // Its secondary indexes are scanned as any other.
    db.run(|txn| txn.insert(&table, "a", &13)).unwrap();
    let by_value = |_: &String, value| value % 10;
    let index = db
        .index_with(&table, "by value", IndexOptions::new(Uniqueness::NonUnique).kind(IndexKind::Art), by_value)
        .unwrap();
    assert_eq!(db.run(|txn| txn.scan_by(&index, 3..4).collect()).unwrap(), [("a".to_string(), 13)]);
}

/// Two transactions each miss the key that the other one inserts: one of them must fail, in whichever order they
/// commit.
#[test]
fn crossed_misses_are_no_way_around_serializability() {
    for kind in KINDS {
        for scheme in Scheme::ALL.into_iter().filter(|scheme| scheme.is_serializable()) {
            // One thread drives both: neither can wait for the other.
            let db = Database::open_in_memory(Options::default().scheme(scheme).wait_max(Duration::ZERO)).unwrap();
            let table = table(&db, kind);
            let begun = [(); 2].map(|()| db.begin(TxnOptions::default()));
            let [Ok(one), Ok(other)] = begun else { continue };
            let missed = [one.get(&table, "x"), other.get(&table, "y")];
            assert!(missed.iter().flatten().all(Option::is_none));
            let written = [one.insert(&table, "y", &1), other.insert(&table, "x", &1)];
            let committed = [one.commit(), other.commit()];
            let both = written.iter().all(Result::is_ok) && committed.iter().all(Result::is_ok);
            assert!(!both, "{kind:?} under {scheme}");
        }
    }
}

/// A miss stays valid while the buckets or nodes around it are split, as long as no transaction inserts that key.
#[test]
fn growth_does_not_disturb_a_miss() {
    for kind in KINDS {
        for scheme in Scheme::ALL.into_iter().filter(|scheme| scheme.is_serializable() && scheme.reads_snapshot()) {
            let db = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
            let table = table(&db, kind);
            let reader = db.begin(TxnOptions::default()).unwrap();
            assert_eq!(reader.get(&table, "missing").unwrap(), None);
            for n in 0..1000 {
                db.run(|txn| txn.insert(&table, &key(n), &n)).unwrap();
            }
            reader.insert(&table, "mine", &1).unwrap();
            reader.commit().unwrap_or_else(|why| panic!("{kind:?} under {scheme}: {why}"));
        }
    }
}

/// A transaction never loses to its own inserts, and what an insert costs does not grow with what the transaction has
/// read before it.
#[test]
fn a_transaction_loads_many_rows_that_it_has_looked_for() {
    const ROWS: u64 = 20_000;
    for (scheme, kind) in Scheme::ALL.into_iter().flat_map(|scheme| KINDS.map(|kind| (scheme, kind))) {
        let db = Database::open_in_memory(Options::default().scheme(scheme).attempts_max(1)).unwrap();
        let table = db.table_with("rows", TableOptions::default().index(kind)).unwrap();
        let unique = IndexOptions::new(Uniqueness::Unique).kind(IndexKind::BTree);
        let unique = db.index_with(&table, "unique", unique, |_: &u64, value: u64| value).unwrap();
        db.run(|txn| {
            for n in 0..ROWS {
                let key = n * 7919 % ROWS;
                assert_eq!(txn.get(&table, &key)?, None);
                txn.insert(&table, &key, &(ROWS - n))?;
            }
            Ok::<_, Error>(())
        })
        .unwrap_or_else(|error| panic!("{scheme}, {kind:?}: {error}"));
        let rows = db.run(|txn| txn.scan_by(&unique, ..).collect()).unwrap();
        assert!(rows.iter().map(|&(_, value)| value).eq(1..=ROWS), "{scheme}, {kind:?}");
    }
}
