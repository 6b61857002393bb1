//! Goal: an index that is built over rows, while transactions write them, has an entry of every row; a build that fails
//! leaves nothing; after a crash the index is complete or absent.
//!
//! Method. Single steps with their effects under every scheme: transactions that wrote rows before the index was
//! announced and end at each of its stages, duplicates, key functions that panic, dropped tables, full memory. Then
//! crashes at every operation on files during a build. `index_build/tests.rs` in the crate has threads beside a build,
//! and compares each entry.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use ermine::{
    Database, Error, IndexKind, IndexOptions, Options, Result, Scheme, SecondaryIndex, Table, TableOptions,
    Transaction, TxnOptions, Uniqueness, files::Directory, verify_in,
};
use ermine_testing::faulty::{Attempt, Fault, FaultyDirectory, Keep};

type Numbers = Table<u64, u64>;
type ByValue = SecondaryIndex<u64, u64, u64>;

const KINDS: [IndexKind; 3] = [IndexKind::BTree, IndexKind::Art, IndexKind::Hash];

fn in_memory(scheme: Scheme) -> Database {
    // Patience longer than any pause of a busy machine.
    Database::open_in_memory(Options::default().scheme(scheme).wait_max(Duration::from_secs(60))).unwrap()
}

fn options(scheme: Scheme) -> Options {
    let options = Options::default().scheme(scheme).wait_max(Duration::from_secs(60));
    options.log_buffer_bytes(64 << 10).segment_bytes(64 << 10)
}

fn open(directory: &FaultyDirectory, scheme: Scheme) -> Database {
    Database::open_in(Arc::new(directory.clone()), options(scheme)).unwrap()
}

fn fill(db: &Database, table: &Numbers, rows: u64) {
    db.run(|txn| (0..rows).try_for_each(|key| txn.put(table, &key, &(key * 7 % 50)))).unwrap();
}

fn by_value(db: &Database, table: &Numbers) -> Result<ByValue> {
    db.index(table, "by value", Uniqueness::NonUnique, |_, value| value)
}

fn unique_by_value(db: &Database, table: &Numbers) -> Result<ByValue> {
    db.index(table, "by value", Uniqueness::Unique, |_, value| value)
}

/// The rows of a table in the order of an index, and those that the index shows.
fn both(txn: &Transaction<'_>, table: &Numbers, index: &ByValue) -> Result<[Vec<(u64, u64)>; 2]> {
    let mut rows: Vec<(u64, u64)> = txn.scan(table, ..).collect()?;
    rows.sort_unstable_by_key(|&(key, value)| (value, key));
    Ok([rows, txn.scan_by(index, ..).collect()?])
}

/// Checks that an index shows the rows of its table.
fn check(db: &Database, table: &Numbers, index: &ByValue) {
    // Compared when the reads are certified.
    let [rows, found] = db.run(|txn| both(txn, table, index)).unwrap();
    assert_eq!(found, rows);
}

/// Checks that a build which failed has left nothing: rows can have any value, and the index can be built anew.
fn check_no_trace(db: &Database, table: &Numbers) {
    assert!(db.tables()[0].indexes.is_empty());
    db.run(|txn| (1000..1003).try_for_each(|key| txn.put(table, &key, &5))).unwrap();
    let index = by_value(db, table).unwrap();
    check(db, table, &index);
    db.run(|txn| txn.put(table, &1001, &6)).unwrap();
    check(db, table, &index);
}

#[test]
fn an_index_is_built_over_rows() {
    for scheme in Scheme::ALL {
        for (primary, kind) in KINDS.into_iter().zip([IndexKind::BTree, IndexKind::Art, IndexKind::BTree]) {
            let db = in_memory(scheme);
            let table = db.table_with::<u64, u64>("numbers", TableOptions::default().index(primary)).unwrap();
            fill(&db, &table, 500);
            db.run(|txn| {
                txn.delete(&table, &7)?;
                txn.put(&table, &8, &1000)
            })
            .unwrap();
            let options = IndexOptions::new(Uniqueness::NonUnique).kind(kind);
            let index = db.index_with(&table, "by value", options, |_, value| value).unwrap();
            let unique = db.index(&table, "by both", Uniqueness::Unique, |key, value| (value, *key)).unwrap();
            let expected = |value: u64| (0..500).filter(move |key| key * 7 % 50 == value && ![7, 8].contains(key));
            db.run(|txn| {
                for value in 0..50 {
                    let found = txn.scan_by(&index, value..=value).collect()?.into_iter().map(|(key, _)| key);
                    assert!(found.eq(expected(value)), "{scheme} {primary:?}");
                }
                assert_eq!(txn.scan_by(&index, 1000..).collect()?, [(8, 1000)]);
                assert_eq!(txn.scan_by(&unique, ..).collect()?.len(), 499);
                // Writers maintain it.
                txn.put(&table, &8, &77)?;
                txn.put(&table, &600, &78)?;
                txn.delete(&table, &9).map(drop)
            })
            .unwrap();
            db.run(|txn| {
                let found = txn.scan_by(&index, 63..).collect()?;
                assert_eq!(found, [(8, 77), (600, 78)], "{scheme} {primary:?}");
                assert_eq!(txn.scan_by(&index, ..).collect()?.len(), 499);
                Ok::<_, Error>(())
            })
            .unwrap();
        }
    }
}

/// The work of a transaction that began before the index was announced.
type Work = fn(&mut Transaction<'_>, &Numbers) -> Result<()>;

const WORKS: [(&str, Work); 7] = [
    ("a changed value", |txn, table| txn.put(table, &3, &900)),
    ("the same value", |txn, table| txn.put(table, &3, &21)),
    ("a new row", |txn, table| txn.insert(table, &901, &901)),
    ("a deletion", |txn, table| txn.delete(table, &3).map(drop)),
    ("a deletion and an insert", |txn, table| {
        txn.delete(table, &3)?;
        txn.insert(table, &3, &902)
    }),
    ("many rows", |txn, table| (0..90).try_for_each(|key| txn.put(table, &key, &(key + 300)))),
    ("a savepoint", |txn, table| {
        txn.put(table, &3, &904)?;
        let savepoint = txn.savepoint()?;
        txn.put(table, &3, &905)?;
        txn.insert(table, &906, &906)?;
        txn.roll_back_to(savepoint)
    }),
];

/// The end of such a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Commit,
    RollBack,
    /// Commits after it has written once more, knowing the index.
    WriteAgain,
    /// Goes back to a savepoint from before those writes, and commits.
    GoBack,
}

/// Runs a transaction that writes rows, then a build beside it; ends the transaction when the build has come past those
/// rows.
fn build_beside(scheme: Scheme, work: Work, end: End, uniqueness: Uniqueness) -> (Database, Numbers, Result<ByValue>) {
    let db = in_memory(scheme);
    let table = db.table::<u64, u64>("numbers").unwrap();
    if uniqueness == Uniqueness::NonUnique {
        // With another index, writes compare values, and rows with one version say whether they were written.
        db.index(&table, "by key", uniqueness, |key, _| *key).unwrap();
    }
    db.run(|txn| (0..100).try_for_each(|key| txn.put(&table, &key, &(key * 7)))).unwrap();
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    work(&mut txn, &table).unwrap();
    let (visited, is_visited) = mpsc::channel();
    let index = thread::scope(|scope| {
        let (db, table) = (&db, &table);
        let build = scope.spawn(move || {
            db.index(table, "by value", uniqueness, move |key, value: u64| {
                if *key == 95 {
                    let _ = visited.send(());
                }
                value
            })
        });
        is_visited.recv().unwrap();
        let ended = (|| {
            match end {
                End::Commit => {}
                End::RollBack => {
                    drop(txn);
                    return Ok(());
                }
                End::WriteAgain => {
                    txn.put(table, &3, &910)?;
                    txn.put(table, &3, &911)?;
                    txn.put(table, &912, &912)?;
                }
                End::GoBack => {
                    let savepoint = txn.savepoint()?;
                    txn.put(table, &3, &913)?;
                    txn.put(table, &914, &914)?;
                    txn.roll_back_to(savepoint)?;
                }
            }
            txn.commit().map(drop)
        })();
        match ended {
            Ok(()) => {}
            // It has written without the index.
            Err(Error::Abort(abort)) => {
                // Later it knows the index, and can lose a conflict.
                let knows = matches!(end, End::WriteAgain | End::GoBack);
                assert!(!scheme.has_versions() || knows, "{scheme} {end:?} {abort}");
            }
            Err(error) => panic!("{scheme} {error}"),
        }
        build.join().unwrap()
    });
    (db, table, index)
}

#[test]
fn transactions_that_wrote_rows_before_are_waited_for_or_lose() {
    for scheme in Scheme::ALL.into_iter().filter(|scheme| runs_side_by_side(*scheme)) {
        for uniqueness in [Uniqueness::NonUnique, Uniqueness::Unique] {
            for (what, work) in WORKS {
                for end in [End::Commit, End::RollBack, End::WriteAgain, End::GoBack] {
                    let (db, table, index) = build_beside(scheme, work, end, uniqueness);
                    let index = index.unwrap_or_else(|error| panic!("{scheme} {what} {end:?}: {error}"));
                    let checked = catch_unwind(AssertUnwindSafe(|| check(&db, &table, &index)));
                    assert!(checked.is_ok(), "{scheme} {uniqueness:?} {what} {end:?}");
                    // What the transaction left can be changed like any row.
                    db.run(|txn| (0..110).try_for_each(|key| txn.put(&table, &key, &(key + 5000)))).unwrap();
                    check(&db, &table, &index);
                }
            }
        }
    }
}

/// Whether another thread can read rows while a transaction is open that has written some.
fn runs_side_by_side(scheme: Scheme) -> bool {
    !matches!(scheme, Scheme::Serial | Scheme::Partitioned | Scheme::Vll)
}

#[test]
fn a_transaction_that_stays_open_ends_the_build_and_not_itself() {
    for scheme in Scheme::ALL.into_iter().filter(|scheme| scheme.has_versions()) {
        let db = in_memory(scheme);
        let table = db.table::<u64, u64>("numbers").unwrap();
        fill(&db, &table, 300);
        let txn = db.begin(TxnOptions::default()).unwrap();
        txn.put(&table, &5, &5).unwrap();
        let options = IndexOptions::new(Uniqueness::NonUnique).wait_max(Duration::ZERO);
        match db.index_with(&table, "by value", options, |_, value| value) {
            Err(Error::Schema(message)) => assert!(message.contains("has been open"), "{message}"),
            other => panic!("{scheme} {:?}", other.map(drop)),
        }
        txn.put(&table, &6, &6).unwrap();
        txn.commit().unwrap();
        check_no_trace(&db, &table);
    }
}

#[test]
fn an_index_is_not_built_inside_of_a_transaction_that_runs() {
    for scheme in [Scheme::SiSsn, Scheme::Silo] {
        let db = in_memory(scheme);
        let table = db.table::<u64, u64>("numbers").unwrap();
        fill(&db, &table, 10);
        assert!(matches!(db.run(|_| by_value(&db, &table)), Err(Error::Nested(_))));
        let index = by_value(&db, &table).unwrap();
        db.run(|txn| both(txn, &table, &by_value(&db, &table)?)).unwrap();
        check(&db, &table, &index);
    }
}

#[test]
fn duplicates_end_the_build_of_a_unique_index() {
    for scheme in Scheme::ALL {
        let directory = FaultyDirectory::new();
        let db = open(&directory, scheme);
        let table = db.table::<u64, u64>("numbers").unwrap();
        db.run(|txn| (0..300).try_for_each(|key| txn.put(&table, &key, &(key + 1)))).unwrap();
        db.run(|txn| txn.put(&table, &200, &100)).unwrap();
        for _ in 0..20 {
            match unique_by_value(&db, &table) {
                Err(Error::KeyExists { table, index, key }) => {
                    assert_eq!((&*table, index.as_deref()), ("numbers", Some("by value")), "{scheme}");
                    assert_eq!(*key, 100u64.to_be_bytes());
                }
                other => panic!("{scheme} {:?}", other.map(drop)),
            }
            db.run(|txn| txn.put(&table, &201, &100)).unwrap();
        }
        drop(db);
        let db = open(&directory, scheme);
        let table = db.table::<u64, u64>("numbers").unwrap();
        check_no_trace(&db, &table);
        drop(db);
        verify(&directory, scheme);
    }
}

/// Two rows get one key while the index is being built, by a transaction that does not know it.
#[test]
fn duplicates_that_come_beside_the_build_are_found() {
    for scheme in Scheme::ALL.into_iter().filter(|scheme| scheme.has_versions()) {
        let duplicate: Work = |txn, table| txn.put(table, &90, &21);
        let (db, table, index) = build_beside(scheme, duplicate, End::Commit, Uniqueness::Unique);
        assert!(matches!(index, Err(Error::KeyExists { .. })), "{scheme}");
        check_no_trace(&db, &table);
    }
}

#[test]
fn a_build_can_fail_in_many_ways_and_leaves_nothing() {
    for scheme in Scheme::ALL {
        let db = in_memory(scheme);
        let table = db.table::<u64, u64>("numbers").unwrap();
        fill(&db, &table, 300);
        let panics = db.index::<u64, _, _>(&table, "by value", Uniqueness::NonUnique, |key, value| {
            assert!(*key != 250, "no key");
            value
        });
        assert!(matches!(panics, Err(Error::KeyFunction { .. })), "{scheme}");
        let too_long = db.index(&table, "by value", Uniqueness::Unique, |key, _| "x".repeat(*key as usize * 20));
        assert!(matches!(too_long, Err(Error::KeyTooLong { .. })), "{scheme}");
        check_no_trace(&db, &table);
    }
}

#[test]
fn a_build_stops_at_the_memory_limit_and_leaves_nothing() {
    for scheme in [Scheme::SiSsn, Scheme::Si, Scheme::Rc, Scheme::Silo, Scheme::TwoPhaseNoWait] {
        let db = Database::open_in_memory(Options::default().scheme(scheme).memory_limit(24 << 20)).unwrap();
        let table = db.table::<u64, u64>("numbers").unwrap();
        for block in 0..40 {
            db.run(|txn| (block * 500..(block + 1) * 500).try_for_each(|key| txn.put(&table, &key, &key))).unwrap();
        }
        let long = db.index(&table, "by text", Uniqueness::NonUnique, |_, value| format!("{value:0>2000}"));
        assert!(matches!(long, Err(Error::OutOfMemory { .. })), "{scheme} {:?}", long.map(drop));
        // What the build took is freed.
        let mut index = by_value(&db, &table);
        for _ in 0..10_000 {
            if index.is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(1));
            index = by_value(&db, &table);
        }
        check(&db, &table, &index.unwrap());
        db.run(|txn| txn.put(&table, &50_000, &1)).unwrap();
    }
}

#[test]
fn tables_are_dropped_and_renamed_beside_a_build() {
    for scheme in Scheme::ALL.into_iter().filter(|scheme| runs_side_by_side(*scheme)) {
        for drops in [true, false] {
            let directory = FaultyDirectory::new();
            let db = Arc::new(open(&directory, scheme));
            let table = db.table::<u64, u64>("numbers").unwrap();
            fill(&db, &table, 1000);
            let (stopped, is_stopped) = mpsc::channel();
            let (go_on, goes_on) = mpsc::channel::<()>();
            let first = AtomicBool::new(true);
            let goes_on = std::sync::Mutex::new(goes_on);
            let built = thread::scope(|scope| {
                let build = scope.spawn(|| {
                    db.index(&table, "by value", Uniqueness::NonUnique, move |_, value| {
                        if first.swap(false, Ordering::SeqCst) {
                            stopped.send(()).unwrap();
                            goes_on.lock().unwrap().recv().unwrap();
                        }
                        value
                    })
                });
                is_stopped.recv().unwrap();
                if drops {
                    assert!(db.drop_table("numbers").unwrap());
                    let other = db.table::<u64, u64>("numbers").unwrap();
                    db.run(|txn| txn.put(&other, &1, &1)).unwrap();
                } else {
                    db.rename_table("numbers", "values").unwrap();
                    db.run(|txn| txn.put(&table, &1, &1)).unwrap();
                }
                go_on.send(()).unwrap();
                build.join().unwrap()
            });
            match drops {
                true => {
                    assert!(matches!(built, Err(Error::Schema(message)) if message.contains("dropped")), "{scheme}");
                    assert!(db.tables()[0].indexes.is_empty());
                }
                false => {
                    check(&db, &table, &built.unwrap());
                    assert_eq!((&*db.tables()[0].name, db.tables()[0].indexes.len()), ("values", 1));
                }
            }
            drop((table, db));
            let db = open(&directory, scheme);
            if !drops {
                let table = db.table::<u64, u64>("values").unwrap();
                check(&db, &table, &by_value(&db, &table).unwrap());
            }
            drop(db);
            verify(&directory, scheme);
        }
    }
}

#[test]
fn two_builds_of_a_table_come_one_after_the_other() {
    for scheme in Scheme::ALL {
        let db = in_memory(scheme);
        let table = db.table::<u64, u64>("numbers").unwrap();
        fill(&db, &table, 2000);
        let start = Barrier::new(6);
        let indexes: Vec<ByValue> = thread::scope(|scope| {
            let build = |number: usize| {
                let (db, table, start) = (&db, &table, &start);
                scope.spawn(move || {
                    start.wait();
                    let name = ["by value", "by remainder"][number % 2];
                    db.index(table, name, Uniqueness::NonUnique, move |_, value| {
                        if number.is_multiple_of(2) { value } else { value % 10 }
                    })
                    .unwrap()
                })
            };
            let builds: Vec<_> = (0..6).map(build).collect();
            builds.into_iter().map(|build| build.join().unwrap()).collect()
        });
        assert_eq!(db.tables()[0].indexes.len(), 2);
        for (number, index) in indexes.iter().enumerate() {
            if number % 2 == 0 {
                check(&db, &table, index);
            } else {
                assert_eq!(db.run(|txn| Ok::<_, Error>(txn.scan_by(index, 0..=9).collect()?.len())).unwrap(), 2000);
            }
        }
    }
}

/// Whether transactions that began before the build may not use the index, and read no snapshot that would tell.
fn needs_later_transactions(scheme: Scheme) -> bool {
    [Scheme::RcSsn, Scheme::Sto, Scheme::Sto32, Scheme::Tso].contains(&scheme)
}

#[test]
fn snapshots_from_before_do_not_use_the_index() {
    let refuses = |db: &Database, txn: &Transaction<'_>, index: &ByValue| {
        let rows = txn.scan_by(index, ..).collect();
        assert!(matches!(rows, Err(Error::Schema(message)) if message.contains("begins now")), "{}", db.tables().len());
    };
    for scheme in Scheme::ALL.into_iter().filter(|scheme| runs_side_by_side(*scheme)) {
        let options = Options::default().scheme(scheme).snapshot_interval(Duration::from_secs(600));
        let db = Database::open_in_memory(options).unwrap();
        let table = db.table::<u64, u64>("numbers").unwrap();
        fill(&db, &table, 100);
        let begin = |options: TxnOptions| db.begin(options).unwrap();
        if needs_later_transactions(scheme) {
            // The leaves of the index could not tell such a transaction which keys have left them before the build.
            let old = begin(TxnOptions::default());
            assert_eq!(old.get(&table, &3).unwrap(), Some(21));
            let options = IndexOptions::new(Uniqueness::NonUnique).wait_max(Duration::from_millis(20));
            match db.index_with(&table, "by value", options, |_, value| value) {
                Err(Error::Schema(message)) => {
                    assert!(message.contains("has been open that began before"), "{message}")
                }
                other => panic!("{scheme} {:?}", other.map(drop)),
            }
            drop(old);
            check_no_trace(&db, &table);
            continue;
        }
        let old = scheme.has_snapshots().then(|| begin(TxnOptions::snapshot()));
        let old_reader = scheme.reads_snapshot().then(|| begin(TxnOptions::read_only()));
        db.run(|txn| txn.put(&table, &3, &1234)).unwrap();
        let index = by_value(&db, &table).unwrap();
        old.iter().chain(&old_reader).for_each(|txn| refuses(&db, txn, &index));
        // They go on otherwise.
        old.iter().chain(&old_reader).for_each(|txn| assert_eq!(txn.get(&table, &3).unwrap(), Some(21)));
        drop((old, old_reader));
        let orders = [ermine::Order::Strict, ermine::Order::None];
        for order in orders {
            if scheme.has_snapshots() {
                let txn = begin(TxnOptions::snapshot().order(order));
                let [rows, found] = both(&txn, &table, &index).unwrap();
                assert_eq!(found, rows, "{scheme}");
            }
        }
        check(&db, &table, &index);
    }
}

fn verify(directory: &FaultyDirectory, scheme: Scheme) {
    let directory: Arc<dyn Directory> = Arc::new(directory.clone());
    let found = verify_in(&directory, &options(scheme), &mut |_| ()).unwrap();
    assert!(found.findings.is_empty(), "{scheme} {found:?}");
}

/// Opens what a crash has left, and compares index and rows if the index is there.
fn look(crashed: &FaultyDirectory, scheme: Scheme, what: &str) -> bool {
    verify(crashed, scheme);
    let db = open(crashed, scheme);
    let Some(found) = db.tables().into_iter().find(|table| table.name == "numbers") else { return false };
    let table = db.table::<u64, u64>("numbers").unwrap();
    let is_there = !found.indexes.is_empty();
    // If it was not built, it is now.
    let index = by_value(&db, &table).unwrap();
    let checked = catch_unwind(AssertUnwindSafe(|| check(&db, &table, &index)));
    assert!(checked.is_ok(), "{scheme} {what}, the index was there: {is_there}");
    db.run(|txn| (0..40).try_for_each(|key| txn.put(&table, &(key * 3), &(key + 7)))).unwrap();
    db.run(|txn| txn.delete(&table, &6)).unwrap();
    check(&db, &table, &index);
    drop(db);
    verify(crashed, scheme);
    let db = open(crashed, scheme);
    let table = db.table::<u64, u64>("numbers").unwrap();
    check(&db, &table, &by_value(&db, &table).unwrap());
    is_there
}

/// Builds that fail, one that succeeds, and one more, beside a writer and checkpoints.
fn live(directory: &FaultyDirectory, scheme: Scheme, random: &mut fastrand::Rng) {
    let db = open(directory, scheme);
    let table = db.table::<u64, u64>("numbers").unwrap();
    fill(&db, &table, 150);
    directory.mark(0);
    let done = AtomicBool::new(false);
    let seed = random.u64(..);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = fastrand::Rng::with_seed(seed);
            while !done.load(Ordering::SeqCst) {
                let (key, value) = (random.u64(..160), random.u64(..60));
                // The unique index that is being built refuses what it knows.
                let _ = db.run(|txn| match value {
                    0..10 => txn.delete(&table, &key).map(drop),
                    _ => txn.put(&table, &key, &value),
                });
                if value == 30 {
                    let _ = db.checkpoint();
                }
            }
        });
        let built = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..3 {
                let unique = db.index(&table, "by value", Uniqueness::Unique, |_, value| value % 10);
                assert!(matches!(unique, Err(Error::KeyExists { .. })), "{scheme} {:?}", unique.map(drop));
            }
            let index = by_value(&db, &table).unwrap();
            directory.mark(1);
            // Under read committed, a transaction sees several states.
            let beside = if scheme == Scheme::Rc { 0 } else { 10 };
            (0..beside).for_each(|_| check(&db, &table, &index));
        }));
        done.store(true, Ordering::SeqCst);
        assert!(built.is_ok());
    });
}

#[test]
fn a_crash_leaves_the_index_complete_or_absent() {
    let points = std::env::var("ERMINE_TEST_POINTS").map_or(12, |points| points.parse().expect("a number of points"));
    for scheme in Scheme::ALL {
        let seed = std::env::var("ERMINE_TEST_SEED").map_or(fastrand::u64(..), |seed| seed.parse().expect("a number"));
        eprintln!("{scheme}: ERMINE_TEST_SEED={seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let directory = FaultyDirectory::new();
        live(&directory, scheme, &mut random);
        let trace = directory.trace();
        let begun = (0..).find(|&at| !trace.marks_before(at).is_empty()).expect("it is marked");
        for _ in 0..points {
            let at = random.usize(begun..=trace.operations());
            let keep = [Keep::Nothing, Keep::Everything, Keep::Last, Keep::Random(random.u64(..1 << 32))];
            let keep = keep[random.usize(..keep.len())];
            let crashed = trace.crash(at, keep);
            let is_there = look(&crashed, scheme, &format!("seed {seed}, at {at}, {keep:?}"));
            assert!(
                is_there || !trace.marks_before(at).contains(&1),
                "{scheme} {at}: it was acknowledged, and is gone"
            );
        }
    }
}

#[test]
fn a_device_that_fails_beside_a_build_leaves_the_index_complete_or_absent() {
    for scheme in [Scheme::SiSsn, Scheme::Silo] {
        for skipped in 0..6 {
            let directory = FaultyDirectory::new();
            let db = open(&directory, scheme);
            let table = db.table::<u64, u64>("numbers").unwrap();
            fill(&db, &table, 150);
            let syncs = AtomicUsize::new(0);
            directory.fail_when(move |_, attempt| match attempt {
                Attempt::Sync(_) if syncs.fetch_add(1, Ordering::SeqCst) >= skipped => Some(Fault::Broken),
                _ => None,
            });
            let built = by_value(&db, &table);
            assert!(skipped > 0 || built.is_err(), "{scheme}: the catalog is synced");
            drop((built, table, db));
            directory.fail_when(|_, _| None);
            look(&directory, scheme, &format!("{skipped} syncs"));
        }
    }
}

/// A table without an order is repaired, too: the checkpoint that would have the entries was not made.
#[test]
fn entries_that_no_file_has_are_added_when_the_index_is_opened() {
    for scheme in Scheme::ALL {
        for kind in KINDS {
            let directory = FaultyDirectory::new();
            let db = open(&directory, scheme);
            let built = TableOptions::default().index(kind);
            let table = db.table_with::<u64, u64>("numbers", built.clone()).unwrap();
            fill(&db, &table, 400);
            let by_key = db.index(&table, "by value", Uniqueness::NonUnique, |_, value| value).unwrap();
            db.run(|txn| (0..40).try_for_each(|key| txn.put(&table, &key, &(key + 100)))).unwrap();
            db.run(|txn| txn.delete(&table, &50)).unwrap();
            let crashed = directory.trace().crash(directory.trace().operations(), Keep::Everything);
            drop((by_key, db));
            for directory in [crashed, directory] {
                for turn in 0..3 {
                    verify(&directory, scheme);
                    let db = open(&directory, scheme);
                    let table = db.table_with::<u64, u64>("numbers", built.clone()).unwrap();
                    let index = by_value(&db, &table).unwrap();
                    db.run(|txn| {
                        assert_eq!(txn.scan_by(&index, ..).collect()?.len(), 399, "{scheme} {kind:?} turn {turn}");
                        let moved = txn.scan_by(&index, 100..).collect()?;
                        assert_eq!(moved, (0..40).map(|key| (key, key + 100)).collect::<Vec<_>>());
                        Ok::<_, Error>(())
                    })
                    .unwrap();
                    if turn == 1 {
                        db.checkpoint().unwrap();
                    }
                }
            }
        }
    }
}

/// The rule that the whole protocol is for:
/// `RUSTFLAGS="--cfg ermine_mutants" cargo test -p ermine --test all a_fault -- --test-threads 1`.
#[cfg(ermine_mutants)]
#[test]
fn a_fault_on_purpose_is_found() {
    use ermine::mutant::Mutant;
    for scheme in Scheme::ALL.into_iter().filter(|scheme| runs_side_by_side(*scheme)) {
        let began = std::time::Instant::now();
        Mutant::choose(Some(Mutant::IndexBuiltEarly));
        let (db, table, index) = build_beside(scheme, WORKS[0].1, End::Commit, Uniqueness::NonUnique);
        let checked = catch_unwind(AssertUnwindSafe(|| check(&db, &table, &index.unwrap())));
        Mutant::choose(None);
        assert!(checked.is_err(), "{scheme}: an entry is missing, and the index was not found wrong");
        println!("IndexBuiltEarly under {scheme}: found in {:.1?}", began.elapsed());
    }
}
