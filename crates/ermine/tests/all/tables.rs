//! Goal: tables are listed, renamed and dropped while transactions run, in both storage families; the memory and files
//! of a dropped table are freed, and no earlier than allowed.
//! Method: single steps with their effects; then threads that use tables which others drop and rename, where any error
//! but that of a dropped table, any wrong value and any access to freed memory (debug builds overwrite it) is a fault.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use ermine::{
    Database, Error, IndexKind, IndexOptions, Options, Scheme, Table, TableOptions, TxnOptions, Uniqueness,
    files::Directory, verify_in,
};
use ermine_testing::faulty::{FaultyDirectory, Keep};

/// One scheme of each storage family.
const SCHEMES: [Scheme; 2] = [Scheme::SiSsn, Scheme::Silo];

fn options(scheme: Scheme) -> Options {
    Options::default().scheme(scheme).log_buffer_bytes(64 << 10).segment_bytes(64 << 10)
}

fn open(directory: &FaultyDirectory, scheme: Scheme) -> Database {
    Database::open_in(Arc::new(directory.clone()), options(scheme)).unwrap()
}

fn refused<T>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::Schema(message)) => message,
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("it was accepted"),
    }
}

fn names(db: &Database) -> Vec<String> {
    db.tables().into_iter().map(|table| table.name).collect()
}

fn verify(directory: FaultyDirectory, scheme: Scheme) {
    let directory: Arc<dyn Directory> = Arc::new(directory);
    let found = verify_in(&directory, &options(scheme), &mut |_| ()).unwrap();
    assert!(found.findings.is_empty(), "{scheme} {found:?}");
}

/// Waits for work in the background, and checks until it is done.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..100_000 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("not after 100 000 looks: {what}");
}

#[test]
fn tables_are_listed_with_types_and_indexes() {
    for scheme in SCHEMES {
        let directory = FaultyDirectory::new();
        for _ in 0..2 {
            let db = open(&directory, scheme);
            let people = db.table::<u64, String>("people").unwrap();
            let unique = IndexOptions::new(Uniqueness::Unique).kind(IndexKind::Art).version(3);
            db.index_with(&people, "by name", unique, |_, name: &str| name.to_owned()).unwrap();
            db.table_with::<(u32, String), i64>("sums", TableOptions::default().index(IndexKind::Hash)).unwrap();
            let [people, sums] = &db.tables()[..] else { panic!("{:?}", db.tables()) };
            assert_eq!((&*people.name, &*people.key_type, &*people.value_type), ("people", "u64", "String"));
            assert_eq!(people.layouts, [(0, "String".to_owned())]);
            let [by_name] = &people.indexes[..] else { panic!("{people:?}") };
            assert_eq!((&*by_name.name, &*by_name.key_type), ("by name", "String"));
            let IndexOptions { uniqueness, kind, version, .. } = by_name.options;
            assert_eq!((uniqueness, kind, version), (Uniqueness::Unique, IndexKind::Art, 3));
            assert_eq!((&*sums.name, &*sums.key_type, sums.index), ("sums", "(u32, String)", IndexKind::Hash));
        }
    }
    let db = Database::open_in_memory(Options::default()).unwrap();
    db.table::<u64, u64>("first").unwrap();
    assert_eq!(names(&db), ["first"]);
}

#[test]
fn a_dropped_table_is_gone_for_good_and_its_name_is_free() {
    for scheme in Scheme::ALL {
        let directory = FaultyDirectory::new();
        let db = open(&directory, scheme);
        let (kept, gone) = (db.table::<u64, u64>("kept").unwrap(), db.table::<u64, u64>("gone").unwrap());
        let by_value = db.index(&gone, "by value", Uniqueness::NonUnique, |_, value| value).unwrap();
        db.run(|txn| {
            (0..100).try_for_each(|key| txn.put(&gone, &key, &key))?;
            txn.put(&kept, &1, &1)
        })
        .unwrap();
        assert!(db.drop_table("gone").unwrap());
        assert!(!db.drop_table("gone").unwrap());
        let txn = db.begin(TxnOptions::default()).unwrap();
        let refusals = [
            refused(txn.get(&gone, &1)),
            refused(txn.get_many(&gone, [&1])),
            refused(txn.put(&gone, &1, &1)),
            refused(txn.delete(&gone, &1)),
            refused(txn.row_lock(&gone, &1)),
            refused(txn.sees_newest(&gone, || true)),
            refused(txn.scan(&gone, ..).collect()),
            refused(txn.scan_by(&by_value, ..).collect()),
        ];
        assert!(refusals.iter().all(|message| message.contains("dropped")), "{refusals:?}");
        assert_eq!(txn.get(&kept, &1).unwrap(), Some(1), "the transaction goes on");
        txn.commit().unwrap();
        refused(db.index(&gone, "another", Uniqueness::NonUnique, |_, value| value));
        // Another table, with other types.
        let new = db.table::<String, String>("gone").unwrap();
        db.run(|txn| txn.put(&new, "a", "b")).unwrap();
        refused(db.run(|txn| txn.get(&gone, &1)));
        for checkpoint in [false, true] {
            if checkpoint {
                db.checkpoint().unwrap();
            }
            // As after a crash.
            let copy = directory.trace().crash(directory.trace().operations(), Keep::Everything);
            assert_eq!(names(&open(&copy, scheme)), ["kept", "gone"], "{scheme}");
            verify(copy, scheme);
        }
        drop(db);
        let db = open(&directory, scheme);
        assert_eq!(names(&db), ["kept", "gone"]);
        let new = db.table::<String, String>("gone").unwrap();
        assert_eq!(db.run(|txn| txn.scan(&new, ..).collect()).unwrap(), [("a".into(), "b".into())]);
    }
}

#[test]
fn the_memory_of_the_indexes_of_a_dropped_table_is_free() {
    for scheme in SCHEMES {
        let db = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
        let before = db.statistics().memory_taken;
        for _ in 0..8 {
            let table = db.table::<u64, u64>("gone").unwrap();
            db.index(&table, "by text", Uniqueness::NonUnique, |_, value| format!("{value:0>1000}")).unwrap();
            db.run(|txn| (0..4000).try_for_each(|key| txn.put(&table, &key, &key))).unwrap();
            assert!(db.drop_table("gone").unwrap());
        }
        until("the indexes are freed", || db.statistics().memory_taken < before + (16 << 20));
    }
}

#[test]
fn a_renamed_table_keeps_its_rows_and_handles() {
    for scheme in SCHEMES {
        let directory = FaultyDirectory::new();
        let db = open(&directory, scheme);
        let table = db.table::<u64, u64>("old").unwrap();
        let by_value = db.index(&table, "by value", Uniqueness::Unique, |_, value| value).unwrap();
        db.table::<u64, u64>("other").unwrap();
        db.run(|txn| txn.put(&table, &1, &10)).unwrap();
        assert!(refused(db.rename_table("old", "other")).contains("there is a table other"));
        assert!(refused(db.rename_table("none", "new")).contains("none"));
        for own in ["ermine.catalog", "ermine.dropped", "ermine sequences"] {
            refused(db.rename_table("old", own));
            refused(db.rename_table(own, "new"));
            refused(db.drop_table(own));
        }
        refused(db.table::<u64, u64>("ermine.dropped"));
        db.rename_table("old", "new").unwrap();
        db.rename_table("new", "new").unwrap();
        db.run(|txn| txn.put(&table, &2, &20)).unwrap();
        let message = db.run(|txn| txn.insert(&table, &2, &30)).unwrap_err().to_string();
        assert!(message.contains("table new"), "{message}");
        assert_eq!(db.run(|txn| txn.scan_by(&by_value, ..).collect()).unwrap(), [(1, 10), (2, 20)]);
        assert_eq!(names(&db), ["new", "other"]);
        drop(db);
        let db = open(&directory, scheme);
        assert_eq!(names(&db), ["new", "other"]);
        let table = db.table::<u64, u64>("new").unwrap();
        assert_eq!(db.run(|txn| txn.scan(&table, ..).collect()).unwrap(), [(1, 10), (2, 20)]);
    }
}

#[test]
fn what_a_transaction_has_seen_of_a_dropped_table_stays_until_it_ends() {
    for scheme in SCHEMES {
        let db = Database::open_in_memory(options(scheme)).unwrap();
        let other = db.table::<u64, Vec<u8>>("other").unwrap();
        let table = db.table::<u64, Vec<u8>>("t").unwrap();
        db.run(|txn| (0..2000).try_for_each(|key| txn.put(&table, &key, &[key as u8; 100]))).unwrap();
        let full = db.statistics().version_bytes;
        let reader = db.begin(TxnOptions::read_only()).unwrap();
        let seen: Vec<_> = (0..2000).map(|key| reader.view(&table, &key).unwrap().unwrap()).collect();
        let writer = db.begin(TxnOptions::default()).unwrap();
        writer.put(&table, &1, &[0; 100]).unwrap();
        writer.put(&other, &1, &[1]).unwrap();
        assert!(db.drop_table("t").unwrap());
        refused(reader.view(&table, &1));
        writer.commit().unwrap();
        // These tables use whatever memory is freed.
        let filled = db.table::<u64, Vec<u8>>("filled").unwrap();
        for round in 0..20u8 {
            db.run(|txn| (0..500).try_for_each(|key| txn.put(&filled, &key, &[round; 100]))).unwrap();
            thread::sleep(Duration::from_millis(5));
        }
        for (key, value) in seen.iter().enumerate() {
            assert_eq!(*value, [key as u8; 100], "{scheme}");
        }
        drop(reader);
        assert_eq!(db.run(|txn| txn.get(&other, &1)).unwrap(), Some(vec![1]));
        // The memory of one table serves the next ones.
        for round in 0..10 {
            let name = format!("t {round}");
            let again = db.table::<u64, Vec<u8>>(&name).unwrap();
            db.run(|txn| (0..2000).try_for_each(|key| txn.put(&again, &key, &[7; 100]))).unwrap();
            assert!(db.drop_table(&name).unwrap());
            until("rows are freed", || db.statistics().row_bytes < 1 << 20 && db.stragglers().is_empty());
            thread::sleep(Duration::from_millis(50));
        }
        let now = db.statistics().version_bytes;
        assert!(now < 6 * full, "{scheme}: {now} bytes after {full}");
    }
}

#[test]
fn addresses_of_dropped_tables_are_given_back() {
    for scheme in SCHEMES {
        let db = Database::open_in_memory(options(scheme)).unwrap();
        // A table reserves addresses as it grows; what 4000 tables reserved is given back.
        for round in 0..4000u64 {
            let table = loop {
                match db.table::<u64, u64>("t") {
                    Ok(table) => break table,
                    // The address space is not freed yet.
                    Err(Error::Limit(_)) => thread::sleep(Duration::from_millis(1)),
                    Err(other) => panic!("{other}"),
                }
            };
            db.run(|txn| txn.put(&table, &round, &round)).unwrap();
            db.drop_table("t").unwrap();
        }
    }
}

#[test]
fn files_of_a_dropped_table_go_with_the_next_checkpoints() {
    let directory = FaultyDirectory::new();
    let db = open(&directory, Scheme::SiSsn);
    let large = db.table::<u64, Vec<u8>>("large").unwrap();
    let small = db.table::<u64, u64>("small").unwrap();
    for key in 0..20 {
        db.run(|txn| txn.put(&large, &key, &vec![key as u8; 100_000])).unwrap();
    }
    let blobs = || directory.list().unwrap().iter().filter(|name| name.starts_with("blob-")).count();
    db.checkpoint().unwrap();
    assert_eq!(blobs(), 20);
    assert!(db.drop_table("large").unwrap());
    for round in 0..3 {
        db.run(|txn| txn.put(&small, &1, &round)).unwrap();
        db.checkpoint().unwrap();
    }
    assert_eq!(blobs(), 0);
    drop(db);
    verify(directory, Scheme::SiSsn);
}

#[test]
fn rows_that_were_not_loaded_go_with_their_table() {
    let directory = FaultyDirectory::new();
    for _ in 0..3 {
        let db = open(&directory, Scheme::SiSsn);
        let table = db.table::<u64, Vec<u8>>("t").unwrap();
        db.run(|txn| (0..3000).try_for_each(|key| txn.put(&table, &key, &[1; 50]))).unwrap();
        drop(db);
        let db = open(&directory, Scheme::SiSsn);
        // Possibly before the loader has reached its rows.
        assert!(db.drop_table("t").unwrap());
        until("nothing is left to load", || db.statistics().unloaded_rows == 0);
    }
}

#[test]
fn many_tables_can_be_dropped_between_checkpoints() {
    for scheme in SCHEMES {
        let directory = FaultyDirectory::new();
        let db = open(&directory, scheme);
        for round in 0..700u64 {
            let table = db.table::<u64, u64>("t").unwrap();
            db.run(|txn| txn.put(&table, &round, &round)).unwrap();
            while let Err(error) = db.drop_table("t") {
                assert!(matches!(error, Error::Limit(_)), "{error}");
                db.checkpoint().unwrap();
            }
        }
        db.table::<u64, u64>("last").unwrap();
        drop(db);
        assert_eq!(names(&open(&directory, scheme)), ["last"]);
    }
}

#[test]
fn tables_come_and_go_under_transactions() {
    for scheme in Scheme::ALL {
        let db = Database::open_in_memory(options(scheme)).unwrap();
        let (stop, dropped, written) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        let open = |name: &str| -> Result<_, Error> {
            let table: Table<u64, Vec<u8>> = db.table(name)?;
            // If the table has rows, the index exists already.
            let index = db.index(&table, "by first", Uniqueness::NonUnique, |_, value| value[0])?;
            Ok((table, index))
        };
        let use_tables = |client: u64| {
            let mut rng = fastrand::Rng::with_seed(client);
            while !stop.load(Ordering::Relaxed) {
                let Ok((table, index)) = open(["a", "b", "c"][rng.usize(..3)]) else { continue };
                for _ in 0..20 {
                    let first = rng.u8(..10);
                    let done = db.run(|txn| {
                        for _ in 0..rng.usize(1..10) {
                            let key = rng.u64(..50);
                            match rng.u8(..4) {
                                0 => drop(txn.delete(&table, &key)?),
                                1 => {
                                    for (_, value) in txn.scan_by(&index, first..=first).limit(5).collect()? {
                                        assert!(value.iter().all(|byte| *byte == first), "{value:?}");
                                    }
                                }
                                _ => txn.put(&table, &key, &vec![first; rng.usize(1..200)])?,
                            }
                        }
                        Ok::<_, Error>(())
                    });
                    match done {
                        Ok(()) => _ = written.fetch_add(1, Ordering::Relaxed),
                        Err(Error::Schema(message)) if message.contains("dropped") => break,
                        Err(error) => panic!("{scheme}: {error}"),
                    }
                }
            }
        };
        let change_tables = || {
            let mut rng = fastrand::Rng::with_seed(100);
            for _ in 0..60 {
                let name = || ["a", "b", "c"][fastrand::usize(..3)];
                match rng.u8(..4) {
                    0 => drop(db.rename_table(name(), name())),
                    _ => _ = dropped.fetch_add(u64::from(db.drop_table(name()).unwrap()), Ordering::Relaxed),
                }
                // Some transactions commit in between.
                let before = written.load(Ordering::Relaxed);
                until("transactions go on", || written.load(Ordering::Relaxed) > before + 3);
            }
            stop.store(true, Ordering::Relaxed);
        };
        thread::scope(|scope| {
            (0..3).for_each(|client| drop(scope.spawn(move || use_tables(client))));
            scope.spawn(change_tables);
        });
        assert!(dropped.load(Ordering::Relaxed) > 10);
    }
}

/// Values that grow free memory of all the sizes that they have had: it must serve the next ones.
#[test]
fn memory_follows_values_that_grow() {
    for scheme in SCHEMES {
        let db = Database::open_in_memory(options(scheme)).unwrap();
        let table = db.table::<u64, Vec<u8>>("t").unwrap();
        let rows = 20_000;
        let write = |size: usize| {
            for first in (0..rows).step_by(100) {
                db.run(|txn| (first..first + 100).try_for_each(|key| txn.put(&table, &key, &vec![size as u8; size])))
                    .unwrap();
            }
        };
        let mut most = 0;
        for size in (40..=400).step_by(24) {
            write(size);
            // Leaves time for the work in the background.
            thread::sleep(Duration::from_millis(200));
            most = most.max(db.statistics().version_bytes);
        }
        // Header and value of the last size; in addition memory is taken by the versions of a step, and by chunks not
        // worth a sweep.
        let last = rows * (400 + 64);
        assert!(most < 4 * last, "{scheme}: {most} bytes at most, {last} in use at the end");
    }
}

/// Values grow evenly from 40 to 400 bytes while two threads write rows at random, so that values of many sizes are in
/// use at any time. `ERMINE_TEST_WRITES=1000000000 cargo test --release -p ermine --test all memory_follows_a_drift
/// -- --nocapture` takes about an hour and prints the memory on the way.
#[test]
fn memory_follows_a_drift_of_sizes() {
    const ROWS: u64 = 100_000;
    const STEPS: u64 = 10;
    let writes: u64 = std::env::var("ERMINE_TEST_WRITES").map_or(2_000_000, |text| text.parse().unwrap());
    for scheme in SCHEMES {
        let db = Database::open_in_memory(options(scheme)).unwrap();
        let table = db.table::<u64, Vec<u8>>("t").unwrap();
        let write = |thread: u64, done: u64| {
            let mut rng = fastrand::Rng::with_seed(done + thread);
            for written in done / 2..(done + writes / STEPS) / 2 {
                let mean = 40 + 360 * 2 * written / writes;
                let value = vec![1; rng.u64(mean * 3 / 4..=mean * 5 / 4) as usize];
                db.run(|txn| txn.put(&table, &rng.u64(..ROWS), &value)).unwrap();
            }
        };
        for step in 0..STEPS {
            thread::scope(|scope| (0..2).for_each(|at| drop(scope.spawn(move || write(at, step * writes / STEPS)))));
            let rows = db.run(|txn| txn.scan(&table, ..).collect()).unwrap();
            let live: u64 = rows.iter().map(|(_, value)| value.len() as u64 + 64).sum();
            let taken = db.statistics().version_bytes;
            println!("{scheme}: {taken} bytes of versions taken, {live} in rows");
            assert!(taken < 3 * live, "{scheme}: {taken} bytes are taken for {live} in rows");
        }
    }
}
