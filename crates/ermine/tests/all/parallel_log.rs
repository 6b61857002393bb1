//! Goal: the claims about directories of single-version schemes hold, beyond those that all schemes share
//! (`durability`, `checkpoints`, `crash`): old files are removed, several log directories work, all these schemes have
//! one format, and the others do not read it.
//! Method: databases in directories in memory, closed or left, and opened again.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ermine::{
    Database, Durability, Error, Options, Scheme, SecondaryIndex, Table, Uniqueness,
    files::{Directory, Open},
};
use ermine_testing::faulty::{FaultyDirectory, Keep};

type Rows = Table<u64, Vec<u8>>;

fn options() -> Options {
    Options::default().scheme(Scheme::Silo).log_buffer_bytes(1 << 20).segment_bytes(1 << 20)
}

fn open(directory: &FaultyDirectory, options: Options) -> (Database, Rows) {
    let db = Database::open_in(Arc::new(directory.clone()), options).unwrap();
    let rows = db.table("rows").unwrap();
    (db, rows)
}

fn by_length(db: &Database, rows: &Rows) -> SecondaryIndex<u64, u64, Vec<u8>> {
    db.index(rows, "by length", Uniqueness::NonUnique, |_, value| value.len() as u64).unwrap()
}

fn content(db: &Database, rows: &Rows) -> Vec<(u64, Vec<u8>)> {
    db.run(|txn| txn.scan(rows, ..).collect()).unwrap()
}

fn churn(db: &Database, rows: &Rows, expected: &mut BTreeMap<u64, Vec<u8>>, random: &mut fastrand::Rng, turns: usize) {
    for _ in 0..turns {
        let (key, value) = (random.u64(..1000), vec![random.u8(..); random.usize(1..1500)]);
        match random.u8(..5) {
            0 => {
                db.run_async(|txn| txn.delete(rows, &key)).map(drop).unwrap();
                expected.remove(&key);
            }
            _ => {
                db.run_async(|txn| txn.put(rows, &key, value.as_slice())).map(drop).unwrap();
                expected.insert(key, value);
            }
        }
    }
}

fn files(directory: &FaultyDirectory, prefix: &str) -> usize {
    directory.list().unwrap().iter().filter(|name| name.starts_with(prefix)).count()
}

#[test]
fn a_checkpoint_ends_old_files() {
    let (directory, mut random, mut expected) = (FaultyDirectory::new(), fastrand::Rng::with_seed(1), BTreeMap::new());
    for round in 0..4 {
        let (db, rows) = open(&directory, options());
        assert_eq!(content(&db, &rows), expected.clone().into_iter().collect::<Vec<_>>(), "{round}");
        for _ in 0..3 {
            churn(&db, &rows, &mut expected, &mut random, 4000);
            db.sync().unwrap();
            let report = db.checkpoint().unwrap();
            assert!(report.bytes > 0 && report.took > Duration::ZERO);
            assert_eq!(files(&directory, "manifest-"), 1);
            assert_eq!(report.rows, expected.len() as u64 + 1, "and one of the catalog");
            assert!(files(&directory, "redo-") <= 3, "{:?}", directory.list());
        }
        assert_eq!(db.statistics().checkpoints.count(), 3);
        // No transaction has committed since.
        assert_eq!(db.checkpoint().unwrap().rows, 0);
    }
    assert!(files(&directory, "pepoch-") <= 1);
}

#[test]
fn compressed_and_plain_checkpoints_are_both_read() {
    let (directory, mut expected) = (FaultyDirectory::new(), Vec::new());
    let mut bytes = Vec::new();
    for round in 0..4u8 {
        // The way in which one checkpoint was written does not decide how the next one is written.
        let (db, rows) = open(&directory, options().compress_checkpoints(round % 2 == 0));
        assert_eq!(content(&db, &rows), expected, "{round}");
        expected = (0..2000).map(|key| (key, vec![round; 200])).collect();
        // A value that is too large for any block.
        expected.push((2000, vec![round; 1 << 20]));
        for (key, value) in &expected {
            db.run_async(|txn| txn.put(&rows, key, value.as_slice())).map(drop).unwrap();
        }
        bytes.push(db.checkpoint().unwrap().bytes);
    }
    assert!(bytes[0] * 5 < bytes[1] && bytes[2] * 5 < bytes[3], "{bytes:?}");
    let (db, rows) = open(&directory, options());
    assert_eq!(content(&db, &rows), expected);
}

#[test]
fn a_checkpoint_knows_the_entries_of_tables_that_nobody_has_opened() {
    let directory = FaultyDirectory::new();
    {
        let (db, rows) = open(&directory, options());
        by_length(&db, &rows);
        (0..500u64).for_each(|key| {
            db.run_async(|txn| txn.put(&rows, &key, vec![1; key as usize % 9].as_slice())).map(drop).unwrap()
        });
    }
    for _ in 0..2 {
        // The table is not opened, nor is its index.
        let db = Database::open_in(Arc::new(directory.clone()), options()).unwrap();
        db.table::<u64, u64>("another").unwrap();
        db.checkpoint().unwrap();
        drop(db);
    }
    assert_eq!(files(&directory, "manifest-"), 1);
    let (db, rows) = open(&directory, options());
    let refused = db.run(|txn| txn.put(&rows, &2, b"two".as_slice()));
    assert!(matches!(refused, Err(Error::Schema(what)) if what.contains("by length")));
    let index = by_length(&db, &rows);
    let found = db.run(|txn| txn.scan_by(&index, 3..=3).collect()).unwrap();
    assert_eq!(found.len(), (0..500).filter(|key| key % 9 == 3).count());
    db.run(|txn| txn.put(&rows, &2, b"two".as_slice())).unwrap();
    assert_eq!(db.run(|txn| txn.scan_by(&index, ..).collect()).unwrap().len(), 500);
}

#[test]
fn several_log_directories_share_the_work() {
    let (directory, devices) = (FaultyDirectory::new(), [(); 3].map(|()| FaultyDirectory::new()));
    let mut several = options();
    several.log_directories_in = devices.iter().map(|device| Arc::new(device.clone()) as Arc<dyn Directory>).collect();
    let mut expected = BTreeMap::new();
    for round in 0..3 {
        let (db, rows) = open(&directory, several.clone());
        assert_eq!(content(&db, &rows), expected.clone().into_iter().collect::<Vec<_>>(), "{round}");
        std::thread::scope(|scope| {
            for thread in 0..6u64 {
                let (db, rows) = (&db, &rows);
                scope.spawn(move || {
                    (0..300).for_each(|turn| {
                        let key = thread * 1000 + turn;
                        db.run_async(|txn| txn.put(rows, &key, vec![round as u8; 700].as_slice())).map(drop).unwrap();
                    });
                    db.run(|txn| txn.put(rows, &(thread * 1000), vec![round as u8; 700].as_slice())).unwrap();
                });
            }
        });
        expected
            .extend((0..6).flat_map(|thread| (0..300).map(move |turn| (thread * 1000 + turn, vec![round as u8; 700]))));
        if round == 1 {
            db.checkpoint().unwrap();
            assert!(devices.iter().all(|device| files(device, "rows-") > 0));
        }
    }
    assert_eq!(files(&directory, "redo-") + files(&directory, "rows-"), 0);
    let fewer = several.log_directories_in.pop();
    let error = Database::open_in(Arc::new(directory.clone()), several.clone()).err().unwrap();
    assert!(error.to_string().contains("was not named"), "{error}");
    several.log_directories_in.insert(0, fewer.unwrap());
    let error = Database::open_in(Arc::new(directory), several).err().unwrap();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
}

#[test]
fn a_directory_opens_under_the_schemes_of_its_family_only() {
    for first in Scheme::ALL {
        let directory = FaultyDirectory::new();
        let (db, rows) = open(&directory, options().scheme(first));
        db.run(|txn| txn.put(&rows, &1, b"one".as_slice())).unwrap();
        drop((db, rows));
        for then in Scheme::ALL {
            let opened = Database::open_in(Arc::new(directory.clone()), options().scheme(then));
            if first.has_versions() == then.has_versions() {
                let rows = opened.as_ref().unwrap().table::<u64, Vec<u8>>("rows").unwrap();
                assert_eq!(opened.unwrap().run(|txn| txn.get(&rows, &1)).unwrap().as_deref(), Some(&b"one"[..]));
            } else {
                let error = opened.err().unwrap().to_string();
                assert!(error.contains(&format!("under {then}")) && error.contains(first.name()), "{error}");
            }
        }
    }
}

#[test]
fn what_was_never_persistent_does_not_come_back() {
    let directory = FaultyDirectory::new();
    let slow = || options().durability(Durability::Async).epoch_interval(Duration::from_secs(1));
    let (db, rows) = open(&directory, slow());
    db.run(|txn| txn.put(&rows, &1, b"lasting".as_slice())).unwrap();
    db.sync().unwrap();
    let synced = directory.trace().operations();
    for turn in 0..50u64 {
        db.run(|txn| txn.put(&rows, &(turn + 2), b"lost".as_slice())).unwrap();
    }
    db.sync().unwrap();
    let trace = directory.trace();
    drop((db, rows));
    // The log was written, and the persistent epoch that makes it count was not.
    let mut lost = 0;
    for at in synced..=trace.operations() {
        let mut directory = trace.crash(at, Keep::Everything);
        let found = |directory: &FaultyDirectory| {
            let (db, rows) = open(directory, options());
            let found = content(&db, &rows).len();
            // Later epochs become persistent.
            db.run(|txn| txn.put(&rows, &1, b"lasting".as_slice())).unwrap();
            found
        };
        let first = found(&directory);
        lost += usize::from(first == 1);
        for _ in 0..2 {
            let after = directory.trace();
            directory = after.crash(after.operations(), Keep::Everything);
            assert_eq!(found(&directory), first, "at {at}");
        }
    }
    assert!(lost > 0);
}

/// A reader of a snapshot learns when what it read is durable, including the absence of a row that has since been
/// inserted again.
#[test]
fn a_snapshot_waits_for_what_it_shows() {
    let options = || options().durability(Durability::Durable);
    for shown in [None, Some(b"changed".as_slice())] {
        let directory = FaultyDirectory::new();
        let (db, rows) = open(&directory, options());
        for turn in 0..20 {
            db.run(|txn| txn.put(&rows, &1, b"old".as_slice())).unwrap();
            let change = |txn: &ermine::Transaction<'_>| match shown {
                None => txn.delete(&rows, &1).map(drop),
                Some(value) => txn.put(&rows, &1, value),
            };
            db.run_async(change).map(drop).unwrap();
            let snapshot = db.snapshot().unwrap();
            db.run_async(|txn| txn.put(&rows, &1, b"new".as_slice())).map(drop).unwrap();
            assert_eq!(snapshot.get(&rows, &1).unwrap().as_deref(), shown);
            snapshot.commit_async().unwrap().wait().unwrap();
            let trace = directory.trace();
            let (db, rows) = open(&trace.crash(trace.operations(), Keep::Nothing), options());
            let found = db.run(|txn| txn.get(&rows, &1)).unwrap();
            assert_ne!(found.as_deref(), Some(b"old".as_slice()), "{shown:?}, turn {turn}");
        }
    }
}

#[test]
fn damage_is_named() {
    let directory = FaultyDirectory::new();
    let (db, rows) = open(&directory, options());
    (0..200u64).for_each(|key| db.run_async(|txn| txn.put(&rows, &key, vec![7; 100].as_slice())).map(drop).unwrap());
    db.checkpoint().unwrap();
    (0..200u64).for_each(|key| db.run_async(|txn| txn.put(&rows, &key, vec![8; 100].as_slice())).map(drop).unwrap());
    drop((db, rows));
    let whole = directory.trace();
    for name in directory.list().unwrap() {
        let length = directory.open(&name, Open::Read).unwrap().length().unwrap();
        for damage in 0..2 {
            let directory = whole.crash(whole.operations(), Keep::Everything);
            match damage {
                // Two slots hold the same.
                0 if name.starts_with("pepoch") || name == "IDENTITY" => continue,
                0 if name.starts_with("redo") => directory.flip(&name, 100, 1).unwrap(),
                0 => directory.flip(&name, length / 2, 1).unwrap(),
                _ => directory.lose(&name).unwrap(),
            }
            let opened = Database::open_in(Arc::new(directory), options());
            if damage == 1 && name.starts_with("manifest") {
                // The log still has everything: there is no older file of it.
                assert_eq!(opened.unwrap().recovery().rows, 200);
                continue;
            }
            assert!(matches!(&opened, Err(Error::Corrupt { .. })), "{name} {damage}: {:?}", opened.err());
        }
    }
}
