//! Goal: each fault that rows with one version invite is avoided, shown step by step.
//!
//! Method: transactions that one thread drives, each test the shortest way to a fault that once existed; and threads,
//! for as long as they need.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use ermine::{AbortKind, Database, Error, Options, Result, Scheme, SecondaryIndex, Table, TxnOptions, Uniqueness};

/// Returns the schemes whose rows have one version.
fn single_version_schemes() -> impl Iterator<Item = Scheme> {
    Scheme::ALL.into_iter().filter(|scheme| !scheme.has_versions())
}

/// Returns a database in which no transaction waits: one thread drives all.
fn impatient(scheme: Scheme) -> Database {
    Database::open_in_memory(Options::default().scheme(scheme).wait_max(Duration::ZERO)).unwrap()
}

type ByValue = SecondaryIndex<u64, u64, u64>;

fn table(database: &Database, uniqueness: Uniqueness) -> (Table<u64, u64>, ByValue) {
    let table = database.table("table").unwrap();
    let by_value = database.index(&table, "by value", uniqueness, |_, value| value).unwrap();
    (table, by_value)
}

/// A row is overwritten with the unique key that it has, so the transaction does not look for a twin. Before its commit
/// the row gets another key, and another row takes the old one.
#[test]
fn a_unique_key_that_a_row_has_lost_meanwhile_is_not_given_back() {
    let database = impatient(Scheme::Silo);
    let (table, by_value) = table(&database, Uniqueness::Unique);
    database.run(|txn| txn.insert(&table, &1, &10)).unwrap();
    let blind = database.begin(TxnOptions::default()).unwrap();
    blind.put(&table, &1, &10).unwrap();
    database.run(|txn| txn.put(&table, &1, &11)).unwrap();
    database.run(|txn| txn.insert(&table, &2, &10)).unwrap();
    assert_eq!(blind.commit().unwrap_err().as_abort().map(|abort| abort.kind), Some(AbortKind::StaleRead));
    let rows = database.run(|txn| txn.scan_by(&by_value, ..).collect()).unwrap();
    assert_eq!(rows, [(2, 10), (1, 11)]);
}

/// A transaction has looked for a key, found nothing, and inserts it. Another one finds its record, without a row, and
/// writes it.
#[test]
fn an_own_insert_does_not_cover_a_row_that_another_one_puts_there() {
    let database = impatient(Scheme::Silo);
    let (table, _) = table(&database, Uniqueness::NonUnique);
    let first = database.begin(TxnOptions::default()).unwrap();
    assert_eq!(first.get(&table, &1).unwrap(), None);
    first.put(&table, &1, &10).unwrap();
    database.run(|txn| txn.insert(&table, &1, &20)).unwrap();
    assert_eq!(first.commit().unwrap_err().as_abort().map(|abort| abort.kind), Some(AbortKind::StaleRead));
    assert_eq!(database.run(|txn| txn.get(&table, &1)).unwrap(), Some(20));
}

/// Two transactions write the same value to a row, and the one that has put the index entry there rolls back and
/// removes the entry.
#[test]
fn an_entry_that_another_writer_takes_back_hides_no_own_row() {
    let database = impatient(Scheme::Silo);
    let (table, by_value) = table(&database, Uniqueness::NonUnique);
    database.run(|txn| txn.insert(&table, &1, &10)).unwrap();
    let [first, second] = [(); 2].map(|()| database.begin(TxnOptions::default()).unwrap());
    first.put(&table, &1, &20).unwrap();
    second.put(&table, &1, &20).unwrap();
    first.rollback();
    let seen = second.scan_by(&by_value, 20..=20).collect().unwrap();
    let committed = second.commit();
    assert!(seen == [(1, 20)] || committed.is_err(), "committed without having seen its own row: {seen:?}");
}

/// As above, and then the second transaction writes the row once more, so that it no longer needs the entry, or inserts
/// it again.
#[test]
fn an_own_row_that_was_missed_stays_missed_whatever_is_written_then() {
    type Then = fn(&ermine::Transaction<'_>, &Table<u64, u64>) -> Result<()>;
    let back_again: Then = |txn, table| [30, 20].iter().try_for_each(|value| txn.put(table, &1, value));
    let delete: Then = |txn, table| txn.delete(table, &1).map(drop);
    let another: Then = |txn, table| txn.put(table, &1, &30);
    for then in [back_again, delete, another] {
        let database = impatient(Scheme::Silo);
        let (table, by_value) = table(&database, Uniqueness::NonUnique);
        database.run(|txn| txn.insert(&table, &1, &10)).unwrap();
        let [first, second] = [(); 2].map(|()| database.begin(TxnOptions::default()).unwrap());
        first.put(&table, &1, &20).unwrap();
        second.put(&table, &1, &20).unwrap();
        first.rollback();
        let seen = second.scan_by(&by_value, 20..=20).collect().unwrap();
        then(&second, &table).unwrap();
        let committed = second.commit();
        assert!(seen == [(1, 20)] || committed.is_err(), "committed without having seen its own row: {seen:?}");
    }
}

/// A row is overwritten with the value that it has, so its index entry exists. Before the commit the row is deleted;
/// the commit inserts the entry again, finds that something else has changed, and removes it.
#[test]
fn an_entry_that_a_failed_commit_has_put_there_is_taken_back() {
    let database = impatient(Scheme::Silo);
    let (table, by_value) = table(&database, Uniqueness::NonUnique);
    database.run(|txn| (1..=2_u64).try_for_each(|key| txn.insert(&table, &key, &(key * 10)))).unwrap();
    let loser = database.begin(TxnOptions::default()).unwrap();
    assert_eq!(loser.get(&table, &2).unwrap(), Some(20));
    loser.put(&table, &1, &10).unwrap();
    database.run(|txn| txn.delete(&table, &1)).unwrap();
    database.run(|txn| txn.put(&table, &2, &20)).unwrap();
    assert_eq!(loser.commit().unwrap_err().as_abort().map(|abort| abort.kind), Some(AbortKind::StaleRead));
    // The key leaves the index, so that it gets another RowId.
    let a_while = Instant::now() + Duration::from_millis(300);
    while Instant::now() < a_while {
        thread::yield_now();
        assert_eq!(database.run(|txn| txn.scan_by(&by_value, ..).collect()).unwrap(), [(2, 20)]);
    }
    let again = database.begin(TxnOptions::default()).unwrap();
    again.insert(&table, &1, &10).expect("no transaction has the entry any more");
    again.commit().unwrap();
}

/// A row that one transaction is going to write is deleted, and once it is deleted another one is going to write it:
/// its key does not leave the index before both have ended.
#[test]
fn a_key_that_somebody_is_going_to_write_does_not_leave() {
    for scheme in [Scheme::Silo, Scheme::Serial] {
        let database = impatient(scheme);
        let (table, by_value) = table(&database, Uniqueness::NonUnique);
        for key in 0..10 {
            database.run(|txn| txn.insert(&table, &key, &10)).unwrap();
            // So that a worker is idle afterwards, which maintenance can serve in the background.
            let early = (scheme == Scheme::Silo).then(|| database.begin(TxnOptions::default()).unwrap());
            early.iter().for_each(|early| early.put(&table, &key, &20).unwrap());
            database.run(|txn| txn.delete(&table, &key)).unwrap();
            let late = database.begin(TxnOptions::default()).unwrap();
            late.put(&table, &key, &30).unwrap();
            let a_while = Instant::now() + Duration::from_millis(50);
            while Instant::now() < a_while {
                thread::yield_now();
                for (own, value) in early.iter().map(|early| (early, 20)).chain([(&late, 30)]) {
                    assert_eq!(own.get(&table, &key).unwrap(), Some(value), "its own write, under {scheme}");
                    assert_eq!(own.scan_by(&by_value, value..=value).collect().unwrap(), [(key, value)]);
                }
            }
            let commits = early.into_iter().chain([late]).filter_map(|txn| txn.commit().ok()).count();
            assert!(commits > 0, "some transaction can write under {scheme}");
            assert!(database.run(|txn| txn.delete(&table, &key)).unwrap());
        }
        assert_eq!(database.run(|txn| txn.scan_by(&by_value, ..).collect()).unwrap(), []);
    }
}

/// Snapshots that were begun between the writes of other transactions, and the rows they show until the last one has
/// ended.
#[test]
fn snapshots_show_rows_as_they_were() {
    for scheme in single_version_schemes().filter(|scheme| scheme.has_snapshots()) {
        let database = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
        let (table, by_value) = table(&database, Uniqueness::NonUnique);
        let write = |change: &dyn Fn(&ermine::Transaction<'_>) -> Result<()>| database.run(|txn| change(txn)).unwrap();
        write(&|txn| (1..=4).try_for_each(|key| txn.insert(&table, &key, &(key * 10))));
        let mut open = vec![(database.snapshot().unwrap(), vec![(1, 10), (2, 20), (3, 30), (4, 40)])];
        let mut then = |rows: &[(u64, u64)]| open.push((database.snapshot().unwrap(), rows.to_vec()));
        write(&|txn| txn.put(&table, &1, &11));
        write(&|txn| txn.delete(&table, &2).map(drop));
        then(&[(1, 11), (3, 30), (4, 40)]);
        write(&|txn| txn.insert(&table, &5, &50));
        write(&|txn| txn.put(&table, &1, &10));
        write(&|txn| txn.insert(&table, &2, &21));
        then(&[(1, 10), (2, 21), (3, 30), (4, 40), (5, 50)]);
        write(&|txn| (1..=5).try_for_each(|key| txn.delete(&table, &key).map(drop)));
        then(&[]);
        // A transaction adds an entry that a snapshot needs, and rolls back.
        let undone = database.begin(TxnOptions::default()).unwrap();
        undone.put(&table, &1, &11).unwrap();
        undone.rollback();
        write(&|txn| txn.insert(&table, &3, &33));
        let all = [(1, 10), (2, 20), (3, 30), (4, 40)];
        // The second snapshot first, then the rest.
        open.swap(0, 1);
        while !open.is_empty() {
            for _ in 0..200 {
                database.run(|txn| txn.put(&table, &3, &33)).unwrap();
            }
            for (snapshot, rows) in &open {
                assert_eq!(snapshot.scan(&table, ..).collect().unwrap(), *rows, "{scheme}");
                assert_eq!(snapshot.scan_by(&by_value, ..).rev().collect().unwrap(), reversed(rows), "{scheme}");
                for (key, _) in all {
                    let value = rows.iter().find(|row| row.0 == key).map(|row| row.1);
                    assert_eq!(snapshot.get(&table, &key).unwrap(), value, "{scheme}");
                }
                assert!(matches!(snapshot.put(&table, &1, &1), Err(Error::ReadOnly)));
            }
            let (snapshot, _) = open.remove(0);
            snapshot.commit().unwrap();
        }
        assert_eq!(database.run(|txn| txn.scan_by(&by_value, ..).collect()).unwrap(), [(3, 33)]);
        let patience = Instant::now() + Duration::from_secs(600);
        while database.statistics().garbage_versions > 0 {
            assert!(Instant::now() < patience, "what was kept for snapshots stays, under {scheme}");
            thread::yield_now();
        }
    }
}

/// A row gets back a value whose index entry exists for a snapshot only, which ends before the transaction does.
#[test]
fn an_entry_that_leaves_with_a_snapshot_hides_no_own_row() {
    for scheme in single_version_schemes().filter(|scheme| scheme.has_snapshots()) {
        let database = impatient(scheme);
        let (table, by_value) = table(&database, Uniqueness::NonUnique);
        database.run(|txn| txn.insert(&table, &1, &10)).unwrap();
        let snapshot = database.snapshot().unwrap();
        database.run(|txn| txn.put(&table, &1, &11)).unwrap();
        let back = database.begin(TxnOptions::default()).unwrap();
        back.put(&table, &1, &10).unwrap();
        snapshot.commit().unwrap();
        let seen = back.scan_by(&by_value, ..).collect().unwrap();
        let committed = back.commit();
        assert!(seen == [(1, 10)] || committed.is_err(), "{scheme}: committed without having seen its own row");
        database.run(|txn| txn.put(&table, &1, &10)).unwrap();
        assert_eq!(database.run(|txn| txn.scan_by(&by_value, ..).collect()).unwrap(), [(1, 10)], "{scheme}");
    }
}

fn reversed(rows: &[(u64, u64)]) -> Vec<(u64, u64)> {
    rows.iter().rev().copied().collect()
}

/// Under schemes whose old epochs are no serial prefix, a request for a snapshot is refused with a message.
#[test]
fn without_snapshots_the_error_says_so() {
    let database = impatient(Scheme::Sto);
    let error = database.snapshot().err().expect("sto has none");
    assert!(error.to_string().contains("sto has no snapshots"), "{error}");
}

/// A young transaction finds nothing. An older one inserts there and comes too late, and leaves its record in the
/// index, without a row. A still older one finds that record, which the young one has never met.
#[test]
fn the_record_of_an_insert_that_came_too_late_hides_nobody_who_looked_before() {
    for scheme in [Scheme::Sto, Scheme::Sto32, Scheme::Tso] {
        let database = impatient(scheme);
        let (table, _) = table(&database, Uniqueness::NonUnique);
        let [oldest, older, young] = [(); 3].map(|()| database.begin(TxnOptions::default()).unwrap());
        assert_eq!(young.get(&table, &1).unwrap(), None);
        for late in [older, oldest] {
            let refused = late.insert(&table, &1, &10).and_then(|()| late.commit().map(drop));
            assert_eq!(refused.unwrap_err().as_abort().map(|abort| abort.kind), Some(AbortKind::TooLate), "{scheme}");
        }
        young.commit().unwrap();
    }
}

/// Every thread gets its share through, whatever shape its transactions have, on rows that all threads write.
#[test]
fn nobody_starves_on_hot_rows() {
    const THREADS: u64 = 8;
    const EACH: u64 = 300;
    const ROWS: u64 = 4;
    for scheme in single_version_schemes() {
        let database = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
        let (table, by_value) = table(&database, Uniqueness::NonUnique);
        database.run(|txn| (0..ROWS).try_for_each(|key| txn.insert(&table, &key, &0))).unwrap();
        let (start, since, increments) = (Barrier::new(THREADS as usize), Instant::now(), AtomicU64::new(0));
        thread::scope(|scope| {
            for number in 0..THREADS {
                let (database, table, by_value, start, increments) =
                    (&database, &table, &by_value, &start, &increments);
                scope.spawn(move || {
                    start.wait();
                    for round in 0..EACH {
                        let (key, other) = ((number + round) % ROWS, (number * round + 1) % ROWS);
                        let done: Result<u64> = database.run(|txn| match round % 5 {
                            // Read, then write: an upgrade where there are locks.
                            0 | 1 => {
                                let value = txn.get(table, &key)?.expect("rows stay");
                                txn.put(table, &key, &(value + 1)).map(|()| 1)
                            }
                            // All rows, in an order that depends on the thread.
                            2 => {
                                (0..ROWS).try_for_each(|at| {
                                    let key = if number % 2 == 0 { at } else { ROWS - 1 - at };
                                    let value = txn.get(table, &key)?.expect("rows stay");
                                    txn.put(table, &key, &(value + 1))
                                })?;
                                Ok(ROWS)
                            }
                            // A range, and a write into it.
                            3 => {
                                let rows = txn.scan(table, ..ROWS).collect()?;
                                let row = rows.iter().find(|row| row.0 == other).expect("rows stay");
                                txn.put(table, &other, &(row.1 + 1)).map(|()| 1)
                            }
                            // A row that is inserted into and deleted from the others' ranges, and the other index.
                            _ => {
                                txn.scan_by(by_value, ..).limit(3).collect()?;
                                if !txn.delete(table, &(ROWS + number))? {
                                    txn.insert(table, &(ROWS + number), &number)?;
                                }
                                Ok(0)
                            }
                        });
                        increments.fetch_add(done.unwrap(), SeqCst);
                        assert!(since.elapsed() < Duration::from_secs(60), "{scheme}: {number} is at {round}");
                    }
                });
            }
        });
        let rows = database.run(|txn| txn.scan(&table, ..ROWS).collect()).unwrap();
        assert_eq!(rows.iter().map(|row| row.1).sum::<u64>(), increments.into_inner(), "under {scheme}");
        eprintln!("{scheme}: {:?}, {:?}", since.elapsed(), database.statistics());
    }
}

/// Timestamps are used up repeatedly: each time all transactions end, all records are reset, and counting begins anew.
/// No increment is lost, whether it comes before or after that, and no lookup misses a row.
#[test]
fn timestamps_begin_anew_beside_running_transactions() {
    const THREADS: u64 = 8;
    let mut options = Options::default().scheme(Scheme::Sto32);
    options.timestamps_left = Some(500);
    let database = Database::open_in_memory(options).unwrap();
    let (table, _) = table(&database, Uniqueness::NonUnique);
    database.run(|txn| (0..4_u64).try_for_each(|key| txn.insert(&table, &key, &0))).unwrap();
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (database, table) = (&database, &table);
            scope.spawn(move || {
                for round in 0..200 {
                    let key = (number + round) % 4;
                    let add = database.run(|txn| {
                        let value = txn.get(table, &key)?.expect("rows stay");
                        txn.put(table, &key, &(value + 1))?;
                        txn.insert(table, &(100 + number * 1000 + round), &value)
                    });
                    add.unwrap();
                }
            });
        }
    });
    let rows: Vec<(u64, u64)> = database.run(|txn| txn.scan(&table, ..).collect()).unwrap();
    assert_eq!(rows.iter().filter(|row| row.0 < 4).map(|row| row.1).sum::<u64>(), THREADS * 200);
    assert_eq!(rows.len() as u64, 4 + THREADS * 200);
}

/// A refused operation is reported as a lost conflict, which may be run again.
#[test]
fn whoever_may_not_wait_loses() {
    for scheme in single_version_schemes().filter(|&scheme| scheme != Scheme::Silo) {
        let database = impatient(scheme);
        let (table, _) = table(&database, Uniqueness::NonUnique);
        database.run(|txn| txn.insert(&table, &1, &10)).unwrap();
        let holder = database.begin(TxnOptions::default()).unwrap();
        holder.put(&table, &1, &11).unwrap();
        let refused = database.begin(TxnOptions::default()).and_then(|txn| txn.get(&table, &1));
        assert!(matches!(refused, Err(Error::Abort(_))), "{scheme}: {refused:?}");
        holder.commit().unwrap();
        assert_eq!(database.run(|txn| txn.get(&table, &1)).unwrap(), Some(11));
    }
}
