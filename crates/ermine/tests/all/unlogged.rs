//! Goal: tables in memory only behave like others as long as the database is open; nothing of them reaches a file, and
//! what is logged beside them comes back, at the right addresses.
//!
//! Method: transactions write to tables of both kinds in turn, with savepoints and large values; the rows of the logged
//! one are evicted, read from their files, checkpointed and recovered. The files are searched for a marker that only
//! the table in memory has.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use ermine::{
    Database, Error, Options, Scheme, Table, TableOptions, Transaction, TxnOptions, Uniqueness, files::Directory,
    verify_in,
};
use ermine_testing::faulty::{Attempt, FaultyDirectory};

const MARKER: &[u8] = b"unlogged-marker-7f3a";

type Rows = Table<u64, Vec<u8>>;

fn options(scheme: Scheme) -> Options {
    Options::default().scheme(scheme).segment_bytes(1 << 20).log_buffer_bytes(256 << 10)
}

fn open(directory: &FaultyDirectory, scheme: Scheme) -> Database {
    Database::open_in(Arc::new(directory.clone()), options(scheme)).unwrap()
}

fn unlogged(db: &Database) -> Rows {
    db.table_with("scratch", TableOptions::default().unlogged()).unwrap()
}

fn value(key: u64, generation: u64) -> Vec<u8> {
    let mut value = vec![key as u8; 40 + key as usize % 50];
    value[..8].copy_from_slice(&generation.to_le_bytes());
    value
}

fn marked(key: u64) -> Vec<u8> {
    [MARKER, &key.to_le_bytes()[..]].concat()
}

/// Whether any file has the marker.
fn is_marked(directory: &FaultyDirectory) -> bool {
    directory.contents().values().any(|bytes| bytes.windows(MARKER.len()).any(|window| window == MARKER))
}

#[test]
fn rows_beside_those_in_memory_only_come_back() {
    const ROWS: u64 = 100;
    for scheme in Scheme::ALL {
        let directory = FaultyDirectory::new();
        let db = open(&directory, scheme);
        let (rows, scratch) = (db.table::<u64, Vec<u8>>("rows").unwrap(), unlogged(&db));
        for key in 0..ROWS {
            db.run(|txn| {
                txn.put(&scratch, &key, &marked(key))?;
                txn.put(&rows, &key, &value(key, 1))?;
                txn.put(&scratch, &(key + 1), &marked(key + 1))?;
                txn.put(&scratch, &(key + 2), &marked(key + 2))?;
                txn.put(&rows, &(key + ROWS), &value(key, 2))?;
                txn.delete(&scratch, &(key + 2)).map(drop)
            })
            .unwrap();
            // Logged rows only, and none.
            db.run(|txn| txn.put(&rows, &key, &value(key, 3))).unwrap();
            db.run(|txn| txn.put(&scratch, &key, &marked(key))).unwrap();
        }
        let sums = |db: &Database, rows: &Rows| {
            db.run(|txn| txn.scan(rows, ..).collect()).unwrap().into_iter().collect::<Vec<(u64, Vec<u8>)>>()
        };
        let expected: Vec<_> =
            (0..2 * ROWS).map(|key| (key, value(key % ROWS, if key < ROWS { 3 } else { 2 }))).collect();
        if scheme.has_versions() {
            assert!((0..3).map(|_| db.evict(|_| true)).sum::<u64>() > 2 * ROWS - 50, "{scheme}");
        }
        for _ in 0..2 {
            assert_eq!(sums(&db, &rows), expected, "{scheme}");
            assert_eq!(sums(&db, &scratch).len() as u64, ROWS + 1, "{scheme}");
        }
        db.checkpoint().unwrap();
        db.run(|txn| txn.put(&scratch, &1, &marked(1)).and_then(|()| txn.put(&rows, &1, &value(1, 3)))).unwrap();
        assert!(db.drop_table("scratch").unwrap(), "{scheme}");
        let later = db.table::<u64, u64>("later").unwrap();
        db.run(|txn| txn.put(&later, &1, &2)).unwrap();
        drop((later, rows, scratch, db));
        for _ in 0..2 {
            assert!(!is_marked(&directory), "{scheme}");
            let db = open(&directory, scheme);
            let rows = db.table::<u64, Vec<u8>>("rows").unwrap();
            assert_eq!(sums(&db, &rows), expected, "{scheme}");
            assert_eq!(db.run(|txn| txn.get(&db.table::<u64, u64>("later")?, &1)).unwrap(), Some(2), "{scheme}");
            let scratch = unlogged(&db);
            assert!(sums(&db, &scratch).is_empty(), "{scheme}");
            db.run(|txn| txn.put(&scratch, &1, &marked(1))).unwrap();
        }
        let directory: Arc<dyn Directory> = Arc::new(directory);
        let found = verify_in(&directory, &options(scheme), &mut |_| ()).unwrap();
        assert!(found.findings.is_empty(), "{scheme} {found:?}");
    }
}

#[test]
fn savepoints_and_rollbacks_reach_both_kinds_of_tables() {
    for scheme in Scheme::ALL.into_iter().filter(|scheme| scheme.has_versions()) {
        let directory = FaultyDirectory::new();
        let db = open(&directory, scheme);
        let (rows, scratch) = (db.table::<u64, u64>("rows").unwrap(), unlogged(&db));
        let mut txn = db.begin(TxnOptions::default()).unwrap();
        txn.put(&scratch, &1, &marked(1)).unwrap();
        txn.put(&rows, &1, &1).unwrap();
        let savepoint = txn.savepoint().unwrap();
        txn.put(&scratch, &1, &marked(100)).unwrap();
        txn.put(&scratch, &2, &marked(2)).unwrap();
        txn.put(&rows, &1, &100).unwrap();
        txn.put(&rows, &2, &2).unwrap();
        txn.roll_back_to(savepoint).unwrap();
        txn.put(&rows, &3, &3).unwrap();
        txn.commit().unwrap();
        let failed = db.run(|txn| -> Result<(), Error> {
            txn.put(&scratch, &1, &marked(7))?;
            Err(Error::Limit("on purpose"))
        });
        assert!(failed.is_err());
        let read = |db: &Database, rows: &Table<u64, u64>| db.run(|txn| txn.scan(rows, ..).collect()).unwrap();
        assert_eq!(read(&db, &rows), [(1, 1), (3, 3)], "{scheme}");
        assert_eq!(db.run(|txn| txn.scan(&scratch, ..).collect()).unwrap(), [(1, marked(1))], "{scheme}");
        drop((rows, scratch, db));
        let db = open(&directory, scheme);
        assert_eq!(read(&db, &db.table("rows").unwrap()), [(1, 1), (3, 3)], "{scheme}");
    }
}

/// A transaction that has written nothing else does not wait for the log, nor does one that reads what it wrote.
#[test]
fn a_transaction_in_memory_only_is_acknowledged_at_once() {
    let directory = FaultyDirectory::new();
    let db = open(&directory, Scheme::SiSsn);
    let (rows, scratch) = (db.table::<u64, u64>("rows").unwrap(), unlogged(&db));
    let holds = Arc::new(AtomicBool::new(true));
    let held = holds.clone();
    directory.fail_when(move |_, attempt| {
        while matches!(attempt, Attempt::Sync(_)) && held.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        None
    });
    let commit = |write: &dyn Fn(&Transaction<'_>) -> Result<(), Error>| {
        let txn = db.begin(TxnOptions::default()).unwrap();
        write(&txn).unwrap();
        txn.commit_async().unwrap().is_durable()
    };
    let mut alone = Vec::new();
    for key in 0..100 {
        alone.push(commit(&|txn| txn.put(&scratch, &key, &marked(key))));
        alone.push(commit(&|txn| txn.get(&scratch, &key).map(|read| assert_eq!(read, Some(marked(key))))));
        alone.push(commit(&|txn| txn.scan(&scratch, ..).collect().map(drop)));
    }
    let beside = [
        commit(&|txn| txn.put(&scratch, &1, &marked(1)).and_then(|()| txn.put(&rows, &1, &1))),
        commit(&|txn| txn.get(&rows, &1).and_then(|_| txn.put(&scratch, &1, &marked(1)))),
        // What it reads may have been committed with logged rows.
        commit(&|txn| txn.get(&scratch, &1).map(drop)),
    ];
    // Before anything fails: the end of the database waits for the log.
    holds.store(false, Ordering::SeqCst);
    assert!(alone.iter().all(|is_durable| *is_durable), "{alone:?}");
    assert_eq!(beside, [false; 3]);
}

#[test]
fn what_cannot_be_done_with_a_table_in_memory_only_is_refused() {
    let directory = FaultyDirectory::new();
    let db = open(&directory, Scheme::SiSsn);
    let scratch = unlogged(&db);
    let refused = |result: Result<(), Error>, words: &str| match result {
        Err(Error::Schema(message)) => assert!(message.contains(words), "{message}"),
        other => panic!("{other:?}"),
    };
    refused(db.table::<u64, Vec<u8>>("scratch").map(drop), "is in memory only");
    db.table::<u64, Vec<u8>>("rows").unwrap();
    refused(db.table_with::<u64, Vec<u8>>("rows", TableOptions::default().unlogged()).map(drop), "is in files");
    let indexed = db.index(&scratch, "length", Uniqueness::NonUnique, |_: &u64, value: &[u8]| value.len() as u64);
    refused(indexed.map(drop), "has no secondary indexes");
    let txn = db.begin(Default::default()).unwrap();
    txn.put(&scratch, &1, &marked(1)).unwrap();
    refused(txn.prepare().map(drop), "cannot be prepared");
    db.rename_table("scratch", "other").unwrap();
    assert!(db.drop_table("other").unwrap());
}
