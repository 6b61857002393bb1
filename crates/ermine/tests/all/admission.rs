//! Goal: schemes that decide beforehand which transactions may run let transactions that do not conflict run side by
//! side, and no others.
//!
//! Method: one thread keeps transactions open beside each other, with no patience: a transaction that would have to
//! wait gives up at once. Then threads move money, and its sum must stay the same.

use std::{thread, time::Duration};

use ermine::{AbortKind, AccessSet, Database, Error, Options, Result, Scheme, Table, TableOptions, TxnOptions};
use fastrand::Rng;

fn impatient(scheme: Scheme) -> Database {
    Database::open_in_memory(Options::default().scheme(scheme).wait_max(Duration::ZERO)).unwrap()
}

fn kind<T>(result: Result<T>) -> Option<AbortKind> {
    match result {
        Err(Error::Abort(abort)) => Some(abort.kind),
        Err(error) => panic!("{error}"),
        Ok(_) => None,
    }
}

#[test]
fn what_is_declared_decides_who_runs_beside_whom() {
    let db = impatient(Scheme::Vll);
    let table = db.table::<u64, i64>("accounts").unwrap();
    let writes = |key| TxnOptions::declared(AccessSet::new().write(&table, &key));
    let reads = |key| TxnOptions::declared(AccessSet::new().read(&table, &key));
    db.run_with(writes(1), |txn| txn.insert(&table, &1, &10)).unwrap();

    let one = db.begin(writes(1)).unwrap();
    let two = db.begin(writes(2)).unwrap();
    assert_eq!(kind(db.begin(reads(1))), Some(AbortKind::Timeout), "another transaction writes it");
    assert_eq!(
        kind(db.begin(TxnOptions::default())),
        Some(AbortKind::Timeout),
        "a transaction without a declaration runs alone"
    );
    one.put(&table, &1, &11).unwrap();
    two.put(&table, &2, &20).unwrap();
    one.commit().unwrap();
    let readers = [db.begin(reads(1)).unwrap(), db.begin(reads(1)).unwrap()];
    assert!(readers.iter().all(|reader| reader.get(&table, &1).unwrap() == Some(11)));
    assert_eq!(kind(db.begin(writes(1))), Some(AbortKind::Timeout), "others read it");
    drop((readers, two));
    let rows = db.run(|txn| txn.scan(&table, ..).collect()).unwrap();
    assert_eq!(rows, [(1, 11)], "what was rolled back, or only declared, left no row");
}

#[test]
fn what_is_not_declared_cannot_be_touched() {
    let db = impatient(Scheme::Vll);
    let table = db.table::<u64, i64>("accounts").unwrap();
    let declared = AccessSet::new().read(&table, &1).write(&table, &2);
    let txn = db.begin(TxnOptions::declared(declared)).unwrap();
    let undeclared = |result: Result<()>| assert!(matches!(result, Err(Error::Undeclared { .. })), "{result:?}");
    assert_eq!(txn.get(&table, &1).unwrap(), None);
    undeclared(txn.put(&table, &1, &1));
    undeclared(txn.get(&table, &3).map(drop));
    undeclared(txn.insert(&table, &3, &1));
    undeclared(txn.delete(&table, &3).map(drop));
    undeclared(txn.scan(&table, ..).collect().map(drop));
    txn.insert(&table, &2, &2).unwrap();
    txn.commit().unwrap();
    assert_eq!(db.run(|txn| txn.scan(&table, ..).collect()).unwrap(), [(2, 2)]);
}

#[test]
fn partitions_run_side_by_side_and_crossing_transactions_alone() {
    let db = impatient(Scheme::Partitioned);
    let by_first = TableOptions::default().partition_by(|&first: &u32| first.into());
    let table = db.table_with::<(u32, u32), i64>("rows", by_first).unwrap();
    let common = db.table::<u64, i64>("common").unwrap();
    db.run(|txn| txn.insert(&common, &1, &5)).unwrap();

    let one = db.begin(TxnOptions::default()).unwrap();
    let two = db.begin(TxnOptions::default()).unwrap();
    one.put(&table, &(1, 1), &10).unwrap();
    two.put(&table, &(2, 1), &20).unwrap();
    assert_eq!((one.get(&common, &1).unwrap(), two.get(&common, &1).unwrap()), (Some(5), Some(5)));
    assert_eq!(one.scan(&table, (1, 0)..(1, 9)).collect().unwrap(), [((1, 1), 10)]);
    let late = db.begin(TxnOptions::default()).unwrap();
    assert_eq!(kind(late.get(&table, &(1, 2))), Some(AbortKind::Timeout), "the partition is taken");
    let writer = db.begin(TxnOptions::default()).unwrap();
    assert_eq!(kind(writer.put(&common, &1, &6)), Some(AbortKind::Timeout), "the database is shared");
    assert_eq!(kind(two.scan(&table, ..).collect()), Some(AbortKind::Timeout), "it crosses partitions");
    drop((late, writer, two));
    // Alone, it may cross.
    one.put(&table, &(2, 1), &21).unwrap();
    let shut_out = db.begin(TxnOptions::default()).unwrap();
    assert_eq!(kind(shut_out.get(&common, &1)), Some(AbortKind::Timeout), "another transaction has the database");
    drop(shut_out);
    one.commit().unwrap();
    assert_eq!(db.run(|txn| txn.scan(&table, ..).collect()).unwrap(), [((1, 1), 10), ((2, 1), 21)]);
}

/// Threads move money between accounts of two partitions; every reader sees the same sum.
#[test]
fn sums_stay_under_admission() {
    const ACCOUNTS: u32 = 4;
    const TRANSFERS: usize = if cfg!(debug_assertions) { 2_000 } else { 20_000 };
    for scheme in [Scheme::Vll, Scheme::Partitioned, Scheme::Serial] {
        let db = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
        let by_first = TableOptions::default().partition_by(|&first: &u32| first.into());
        let table: Table<(u32, u32), i64> = db.table_with("accounts", by_first).unwrap();
        let keys: Vec<_> = (0..2).flat_map(|first| (0..ACCOUNTS).map(move |second| (first, second))).collect();
        db.run(|txn| keys.iter().try_for_each(|key| txn.insert(&table, key, &100))).unwrap();
        thread::scope(|scope| {
            for seed in 0..4 {
                let (db, table, keys) = (&db, &table, &keys);
                scope.spawn(move || {
                    let mut rng = Rng::with_seed(seed);
                    for turn in 0..TRANSFERS {
                        let (from, to) = (keys[rng.usize(..keys.len())], keys[rng.usize(..keys.len())]);
                        if from == to {
                            continue;
                        }
                        let declared = AccessSet::new().write(table, &from).write(table, &to);
                        let options =
                            if rng.u8(..8) == 0 { TxnOptions::default() } else { TxnOptions::declared(declared) };
                        let moved = db.run_with(options, |txn| {
                            let (a, b) = (txn.get(table, &from)?.unwrap(), txn.get(table, &to)?.unwrap());
                            txn.put(table, &from, &(a - 1))?;
                            txn.put(table, &to, &(b + 1))
                        });
                        moved.unwrap();
                        if turn % 100 == 0 {
                            let rows = db.run(|txn| txn.scan(table, ..).collect()).unwrap();
                            assert_eq!(rows.iter().map(|(_, money)| money).sum::<i64>(), 100 * keys.len() as i64);
                        }
                    }
                });
            }
        });
    }
}
