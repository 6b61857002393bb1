//! Goal: the typed interface does what its documentation says, also where it refuses.
//! Method: one small database per test, under every scheme where the scheme does not matter.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use ermine::{
    Abort, AbortKind, Access, Database, Dependency, Error, Isolation, Job, MAX_KEY_BYTES, MAX_VALUE_BYTES, Options,
    Order, Scheme, Session, Table, Transaction, TxnOptions, Uniqueness, Work, prefix,
};
use ermine_testing::faulty::FaultyDirectory;

fn databases() -> impl Iterator<Item = Database> {
    Scheme::ALL.into_iter().map(|scheme| Database::open_in_memory(Options::default().scheme(scheme)).unwrap())
}

/// Whether no transaction can overwrite what an open one has read; a thread that runs both waits for itself.
fn locks(scheme: Scheme) -> bool {
    use Scheme::{TwoPhaseNoWait, TwoPhaseWaitDie, TwoPhaseWdl};
    runs_alone(scheme) || matches!(scheme, TwoPhaseNoWait | TwoPhaseWaitDie | TwoPhaseWdl)
}

/// Whether a transaction that declares nothing has the whole database.
fn runs_alone(scheme: Scheme) -> bool {
    matches!(scheme, Scheme::Serial | Scheme::Vll | Scheme::Partitioned)
}

fn filled(db: &Database) -> Table<u64, u64> {
    let table = db.table("numbers").unwrap();
    db.run(|txn| (0..10u64).try_for_each(|n| txn.insert(&table, &n, &(n * n)))).unwrap();
    table
}

#[test]
fn an_insert_of_a_key_that_exists_is_refused_and_the_transaction_goes_on() {
    for db in databases() {
        let table = filled(&db);
        db.run(|txn| {
            let refused = txn.insert(&table, &3, &0);
            assert!(matches!(&refused, Err(Error::KeyExists { index: None, .. })), "{refused:?}");
            assert!(refused.unwrap_err().to_string().contains("numbers"));
            txn.insert(&table, &30, &1)
        })
        .unwrap();
        assert_eq!(
            db.run(|txn| Ok::<_, Error>((txn.get(&table, &3)?, txn.get(&table, &30)?))).unwrap(),
            (Some(9), Some(1))
        );
    }
}

#[test]
fn update_and_delete_say_whether_there_was_a_row() {
    for db in databases() {
        let table = filled(&db);
        db.run(|txn| {
            assert!(txn.update(&table, &1, &11)?);
            assert!(!txn.update(&table, &100, &1)?);
            assert!(txn.delete(&table, &2)?);
            assert!(!txn.delete(&table, &2)?, "its own deletion is seen");
            assert!(!txn.update(&table, &2, &1)?);
            txn.insert(&table, &2, &22)
        })
        .unwrap();
        assert_eq!(db.run(|txn| txn.scan(&table, 0..4).collect()).unwrap(), [(0, 0), (1, 11), (2, 22), (3, 9)]);
    }
}

#[test]
fn a_read_only_transaction_does_not_write() {
    for db in databases() {
        let table = filled(&db);
        let txn = db.begin(TxnOptions::read_only()).unwrap();
        assert!(matches!(txn.put(&table, &1, &1), Err(Error::ReadOnly)));
        assert!(matches!(txn.delete(&table, &1), Err(Error::ReadOnly)));
        assert_eq!(txn.get(&table, &1).unwrap(), Some(1));
        txn.commit().unwrap();
    }
}

#[test]
fn a_name_gives_the_same_table_and_refuses_other_types() {
    for db in databases() {
        let table = filled(&db);
        let again = db.table::<u64, u64>("numbers").unwrap();
        assert_eq!(again.name(), table.name());
        assert_eq!(db.run(|txn| txn.get(&again, &4)).unwrap(), Some(16));
        assert!(matches!(db.table::<u64, String>("numbers"), Err(Error::Schema(_))));
    }
}

#[test]
fn too_long_keys_and_values_are_refused() {
    for db in databases() {
        let table = db.table::<String, Vec<u8>>("t").unwrap();
        let (long_key, long_value) = ("k".repeat(MAX_KEY_BYTES), vec![0; MAX_VALUE_BYTES + 1]);
        db.run(|txn| {
            assert!(matches!(txn.put(&table, long_key.as_str(), &[1u8][..]), Err(Error::KeyTooLong { .. })));
            assert!(matches!(txn.get(&table, long_key.as_str()), Err(Error::KeyTooLong { .. })));
            assert!(matches!(txn.put(&table, "k", &long_value), Err(Error::ValueTooLong { .. })));
            txn.put(&table, &long_key[1..], &long_value[1..])
        })
        .unwrap();
        assert_eq!(db.run(|txn| txn.get(&table, &long_key[1..])).unwrap().unwrap().len(), MAX_VALUE_BYTES);
    }
}

#[test]
fn a_lost_conflict_says_what_where_and_against_whom_and_keeps_saying_so() {
    let db = Database::open_in_memory(Options::default()).unwrap();
    let table = filled(&db);
    let (winner, loser) = (db.begin(TxnOptions::default()).unwrap(), db.begin(TxnOptions::default()).unwrap());
    winner.put(&table, &7, &1).unwrap();
    let error = loser.put(&table, &7, &2).unwrap_err();
    let abort = error.as_abort().expect("first updater wins").clone();
    assert_eq!((abort.kind, abort.table.as_deref()), (AbortKind::WriteConflict, Some("numbers")));
    assert_eq!(abort.key.as_deref(), Some(&7u64.to_be_bytes()[..]));
    assert!(abort.other.is_some(), "the winner is still running");
    assert!(error.to_string().contains("run the transaction again"), "{error}");
    assert_eq!(loser.get(&table, &1).unwrap_err().as_abort(), Some(&abort));
    assert_eq!(loser.commit().unwrap_err().as_abort(), Some(&abort));
    winner.commit().unwrap();
    assert_eq!(db.run(|txn| txn.get(&table, &7)).unwrap(), Some(1));
}

#[test]
fn a_view_outlives_the_overwriting_of_its_row() {
    // Other transactions run beside one that the same thread has open.
    for db in databases().filter(|db| !runs_alone(db.scheme())) {
        let table = db.table::<u64, Vec<u8>>("t").unwrap();
        db.run(|txn| txn.insert(&table, &1, &b"committed"[..])).unwrap();
        let txn = db.begin(TxnOptions::default()).unwrap();
        let first = txn.view(&table, &1).unwrap().unwrap();
        txn.put(&table, &1, &b"second"[..]).unwrap();
        let second = txn.view(&table, &1).unwrap().unwrap();
        txn.put(&table, &1, &b"third"[..]).unwrap();
        for n in 0..1000u64 {
            db.run(|other| other.put(&table, &(n % 3 + 2), &n.to_le_bytes()[..])).unwrap();
        }
        assert_eq!((first, second), (&b"committed"[..], &b"second"[..]));
        assert_eq!(txn.get(&table, &1).unwrap().unwrap(), b"third");
        txn.rollback();
        assert_eq!(db.run(|txn| txn.get(&table, &1)).unwrap().unwrap(), b"committed");
    }
}

#[test]
fn scans_see_the_transactions_own_writes_in_order() {
    for db in databases() {
        let table = filled(&db);
        let txn = db.begin(TxnOptions::default()).unwrap();
        txn.delete(&table, &4).unwrap();
        txn.put(&table, &5, &0).unwrap();
        txn.insert(&table, &100, &1).unwrap();
        assert_eq!(txn.scan(&table, 3..).limit(3).collect().unwrap(), [(3, 9), (5, 0), (6, 36)]);
        assert_eq!(txn.scan(&table, ..).rev().limit(2).collect().unwrap(), [(100, 1), (9, 81)]);
        assert_eq!(txn.scan(&table, ..=5).rev().limit(2).collect().unwrap(), [(5, 0), (3, 9)]);
        assert_eq!(txn.scan(&table, 50..60).first().unwrap(), None);
        assert_eq!(txn.scan(&table, ..).limit(0).collect().unwrap(), []);
        let mut seen = 0;
        let stopped = txn.scan(&table, ..).for_each(|_, _| {
            seen += 1;
            Ok(if seen == 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        assert_eq!((stopped.unwrap(), seen), ((), 4));
    }
}

#[test]
fn a_visitor_may_write_while_it_scans() {
    for db in databases() {
        let table = filled(&db);
        db.run(|txn| {
            txn.scan(&table, ..).for_each(|n, square| {
                txn.put(&table, &n, &(square + 1))?;
                Ok(ControlFlow::Continue(()))
            })
        })
        .unwrap();
        assert_eq!(db.run(|txn| txn.get(&table, &9)).unwrap(), Some(82));
    }
}

#[test]
fn secondary_indexes_follow_the_rows() {
    for db in databases() {
        let table = db.table::<u64, String>("people").unwrap();
        let by_name = db.index(&table, "by_name", Uniqueness::NonUnique, |_, name: &str| name.to_owned()).unwrap();
        db.run(|txn| {
            txn.insert(&table, &1, "ann")?;
            txn.insert(&table, &2, "bob")?;
            txn.insert(&table, &3, "ann")
        })
        .unwrap();
        let named = |name: &str| -> Vec<u64> {
            let rows = db.run(|txn| txn.scan_by(&by_name, name..=name).collect()).unwrap();
            rows.into_iter().map(|(id, _)| id).collect()
        };
        assert_eq!(named("ann"), [1, 3]);
        db.run(|txn| txn.put(&table, &1, "bob")).unwrap();
        assert_eq!((named("ann"), named("bob")), (vec![3], vec![1, 2]));
        db.run(|txn| txn.delete(&table, &2).map(drop)).unwrap();
        assert_eq!(named("bob"), [1]);
    }
}

#[test]
fn a_unique_index_refuses_a_second_row() {
    for db in databases() {
        let table = db.table::<u64, u64>("t").unwrap();
        let unique = db.index(&table, "unique", Uniqueness::Unique, |_, value| value).unwrap();
        db.run(|txn| txn.insert(&table, &1, &10)).unwrap();
        db.run(|txn| {
            let refused = txn.insert(&table, &2, &10);
            assert!(matches!(&refused, Err(Error::KeyExists { index: Some(name), .. }) if &**name == "unique"));
            assert!(txn.update(&table, &1, &11)?);
            txn.insert(&table, &2, &10)
        })
        .unwrap();
        assert_eq!(db.run(|txn| txn.scan_by(&unique, ..).collect()).unwrap(), [(2, 10), (1, 11)]);
    }
}

#[test]
fn a_prefix_selects_the_rows_that_begin_with_it() {
    for db in databases() {
        let table = db.table::<(u32, String, u8), ()>("t").unwrap();
        db.run(|txn| {
            for (a, b, c) in [(1, "x", 1), (1, "x", 2), (1, "xy", 1), (2, "x", 1)] {
                txn.insert(&table, &(a, b, c), &())?;
            }
            Ok::<_, Error>(())
        })
        .unwrap();
        let count = |n: Vec<_>| n.len();
        assert_eq!(count(db.run(|txn| txn.scan(&table, prefix((1,))).collect()).unwrap()), 3);
        assert_eq!(count(db.run(|txn| txn.scan(&table, prefix((1, "x"))).collect()).unwrap()), 2);
    }
}

#[test]
fn an_error_of_the_application_rolls_back_and_comes_through() {
    for db in databases() {
        let table = filled(&db);
        let result: Result<(), Error> = db.run(|txn| {
            txn.put(&table, &1, &1000)?;
            Err(Error::other("changed my mind"))
        });
        assert_eq!(result.unwrap_err().to_string(), "changed my mind");
        assert_eq!(db.run(|txn| txn.get(&table, &1)).unwrap(), Some(1));
    }
}

#[test]
fn a_forgotten_transaction_is_named() {
    let db = Database::open_in_memory(Options::default()).unwrap();
    let table = filled(&db);
    let forgotten = db.begin(TxnOptions::default()).unwrap();
    forgotten.get(&table, &1).unwrap();
    let named = (0..10).find_map(|_| db.stragglers().into_iter().find(|line| line.contains("transactions")));
    assert!(named.is_some_and(|line| line.contains("worker")));
}

#[test]
fn a_key_that_came_and_went_since_its_snapshot_is_not_written_by_an_old_transaction() {
    for db in databases().filter(|db| db.scheme().reads_snapshot()) {
        let table = filled(&db);
        let old = db.begin(TxnOptions::default()).unwrap();
        db.run(|txn| txn.insert(&table, &50, &1)).unwrap();
        db.run(|txn| txn.delete(&table, &50)).unwrap();
        // Later transactions take out the versions that no snapshot sees; it stays known that the old transaction may
        // not write the key.
        for n in 0..20_000u64 {
            db.run(|txn| txn.put(&table, &(n % 10), &n)).unwrap();
        }
        assert!(db.statistics().garbage_versions < 10_000, "nothing is taken out: {:?}", db.statistics());
        let refused = old.insert(&table, &50, &2);
        assert_eq!(refused.unwrap_err().as_abort().map(|abort| abort.kind), Some(AbortKind::WriteConflict));
    }
}

/// Scans backwards, with a limit, past a row that it does not show, so that it takes its leaf in two steps, and splits
/// the leaf between them, below the row that it is at.
fn scan_and_split(scanning: &Transaction<'_>, inserting: &Transaction<'_>, table: &Table<u64, u64>) -> Vec<u64> {
    scanning.delete(table, &490).unwrap();
    let mut keys = Vec::new();
    let scanned = scanning.scan(table, ..).rev().limit(2).for_each(|key, _| {
        if keys.is_empty() {
            (0..20).for_each(|n| inserting.insert(table, &(10 * n + 5), &0).unwrap());
        }
        keys.push(key);
        Ok(ControlFlow::Continue(()))
    });
    scanned.unwrap();
    keys
}

#[test]
fn a_backward_scan_goes_on_below_the_last_row_although_its_leaf_is_split() {
    let filled = |scheme| {
        let db = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
        let table = db.table::<u64, u64>("numbers").unwrap();
        db.run(|txn| (0..50).try_for_each(|n| txn.insert(&table, &(10 * n), &n))).unwrap();
        (db, table)
    };
    for scheme in Scheme::ALL {
        let (db, table) = filled(scheme);
        let txn = db.begin(TxnOptions::default()).unwrap();
        assert_eq!(scan_and_split(&txn, &txn, &table), [480, 470], "{scheme:?}: its own inserts");
        txn.commit().unwrap();
    }
    for scheme in [Scheme::Rc, Scheme::Si, Scheme::SiSsn, Scheme::RcSsn, Scheme::SiSsi, Scheme::MvOcc] {
        let (db, table) = filled(scheme);
        let [scanning, inserting] = [(); 2].map(|()| db.begin(TxnOptions::default()).unwrap());
        let keys = scan_and_split(&scanning, &inserting, &table);
        assert_eq!(keys, [480, 470], "{scheme:?}: the inserts of another transaction");
        inserting.commit().unwrap();
    }
}

/// Goal: a transaction that looked for a key and missed it depends on that key, not on its neighbours in the leaf.
#[test]
fn inserts_beside_a_missed_key_are_no_conflict() {
    for scheme in [Scheme::RcSsn, Scheme::SiSsn, Scheme::SiSsi, Scheme::MvOcc] {
        let db = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
        let table = db.table::<u64, u64>("numbers").unwrap();
        db.run(|txn| (0..5).try_for_each(|n| txn.insert(&table, &(10 * n), &n))).unwrap();
        let insert = |key| db.run(|txn| txn.insert(&table, &key, &0)).unwrap();

        let txn = db.begin(TxnOptions::default()).unwrap();
        assert_eq!(txn.get(&table, &15).unwrap(), None);
        insert(16);
        txn.put(&table, &30, &0).unwrap();
        txn.commit().unwrap_or_else(|error| panic!("{scheme:?}: {error}"));

        // What a rollback undid is looked for at its key.
        let mut txn = db.begin(TxnOptions::default()).unwrap();
        let savepoint = txn.savepoint().unwrap();
        txn.insert(&table, &25, &0).unwrap();
        txn.roll_back_to(savepoint).unwrap();
        insert(26);
        txn.insert(&table, &25, &1).unwrap();
        txn.commit().unwrap_or_else(|error| panic!("{scheme:?}: {error}"));
    }
}

/// Goal: without a snapshot, a key that was inserted where the transaction had missed it is a conflict, although the key
/// has been deleted since, or the transaction has written it, too.
#[test]
fn a_missed_key_that_came_is_a_conflict_without_a_snapshot() {
    for case in 0..8 {
        let [deletes, reads_range, writes] = [1, 2, 4].map(|bit| case & bit != 0);
        let db = Database::open_in_memory(Options::default().scheme(Scheme::RcSsn)).unwrap();
        let table = db.table::<u64, u64>("numbers").unwrap();
        db.run(|txn| (0..5).try_for_each(|n| txn.insert(&table, &(10 * n), &n))).unwrap();
        let txn = db.begin(TxnOptions::default()).unwrap();
        match reads_range {
            true => assert_eq!(txn.scan(&table, 11..19).count().unwrap(), 0),
            false => assert_eq!(txn.get(&table, &15).unwrap(), None),
        }
        db.run(|txn| txn.insert(&table, &15, &0)).unwrap();
        if deletes {
            db.run(|txn| txn.delete(&table, &15)).unwrap();
        }
        txn.put(&table, if writes { &15 } else { &30 }, &0).unwrap();
        let lost = txn.commit().unwrap_err();
        assert!(matches!(lost, Error::Abort(_)), "{case}: {lost}");
    }
}

#[test]
fn several_keys_are_read_in_the_order_asked_for() {
    for db in databases() {
        let table = db.table::<u64, u64>("numbers").unwrap();
        db.run(|txn| (0..1000u64).try_for_each(|n| txn.insert(&table, &(2 * n), &n))).unwrap();
        let keys: Vec<u64> = (0..2000).rev().step_by(3).chain([4, 4]).collect();
        let expected: Vec<_> = keys.iter().map(|key| (key % 2 == 0).then_some(key / 2)).collect();
        assert_eq!(db.run(|txn| txn.get_many(&table, &keys)).unwrap(), expected);
        db.run(|txn| {
            txn.put(&table, &4, &77)?;
            txn.delete(&table, &6)?;
            assert_eq!(txn.get_many(&table, &[4, 5, 6])?, [Some(77), None, None], "its own writes");
            assert_eq!(txn.view_many(&table, &[8, 4])?, [Some(4), Some(77)]);
            assert_eq!(txn.get_many(&table, &[0; 0])?, []);
            Ok::<_, Error>(())
        })
        .unwrap();
    }
}

#[test]
fn a_scan_shows_what_its_visitor_has_written_ahead_of_it() {
    for db in databases() {
        let table = filled(&db);
        let mut seen = Vec::new();
        db.run(|txn| {
            seen.clear();
            txn.scan(&table, ..).for_each(|key, value| {
                seen.push((key, value));
                if key == 2 {
                    txn.put(&table, &3, &33)?;
                    txn.put(&table, &5, &55)?;
                    txn.delete(&table, &6)?;
                }
                Ok(ControlFlow::Continue(()))
            })
        })
        .unwrap();
        assert_eq!(seen, [(0, 0), (1, 1), (2, 4), (3, 33), (4, 16), (5, 55), (7, 49), (8, 64), (9, 81)]);
    }
}

/// Rows are read a few at a time, so that a commit is seen by the rows far behind the one that is shown.
#[test]
fn a_scan_without_a_snapshot_shows_what_was_committed_meanwhile() {
    for scheme in Scheme::ALL.into_iter().filter(|scheme| scheme.has_versions()) {
        let db = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
        let table = db.table::<u64, u64>("numbers").unwrap();
        db.run(|txn| (0..40).try_for_each(|key| txn.insert(&table, &key, &key))).unwrap();
        let txn = db.begin(TxnOptions::default()).unwrap();
        let mut seen = Vec::new();
        let scanned = txn.scan(&table, ..).for_each(|key, value| {
            seen.push((key, value));
            if key == 3 {
                db.run(|txn| txn.put(&table, &30, &300))?;
            }
            Ok(ControlFlow::Continue(()))
        });
        scanned.unwrap_or_else(|error| panic!("{scheme}: {error}"));
        let expected = |key| if key == 30 && !scheme.reads_snapshot() { 300 } else { key };
        assert_eq!(seen, Vec::from_iter((0..40).map(|key| (key, expected(key)))), "{scheme}");
    }
}

#[test]
fn a_transaction_knows_whether_it_sees_the_newest_rows() {
    type Change = fn(&Transaction<'_>, &Table<u64, u64>) -> ermine::Result<()>;
    let changes: [Change; 4] = [
        |_, _| Ok(()),
        |txn, table| txn.put(table, &1, &11),
        |txn, table| txn.insert(table, &99, &9),
        |txn, table| txn.delete(table, &2).map(drop),
    ];
    for scheme in Scheme::ALL.into_iter().filter(|&scheme| !runs_alone(scheme)) {
        for (number, change) in changes.into_iter().enumerate() {
            let db = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
            let table = filled(&db);
            let other = db.table::<u64, u64>("other").unwrap();
            let txn = db.begin(TxnOptions::default()).unwrap();
            db.run(|txn| change(txn, &table).and_then(|()| txn.put(&other, &1, &1))).unwrap();
            let expected = number == 0 || !scheme.reads_snapshot();
            assert_eq!(txn.sees_newest(&table, || true).unwrap(), expected, "{scheme}, change {number}");
            let later = db.begin(TxnOptions::default()).unwrap();
            later.put(&table, &3, &33).unwrap();
            assert!(later.sees_newest(&table, || true).unwrap(), "{scheme}: own writes are seen");
            later.rollback();
            assert!(db.begin(TxnOptions::default()).unwrap().sees_newest(&table, || true).unwrap(), "{scheme}");
        }
    }
}

#[test]
fn a_safe_snapshot_is_read_as_it_was_and_never_lost() {
    for db in databases().filter(|db| db.scheme().has_versions()) {
        let table = filled(&db);
        // Write skew around the snapshot, so that the certifier has something to refuse.
        let skewed = db.begin(TxnOptions::default()).unwrap();
        let before = (skewed.get(&table, &1).unwrap(), skewed.get(&table, &2).unwrap());
        assert_eq!(before, (Some(1), Some(4)));
        db.run(|txn| txn.put(&table, &1, &100)).unwrap();
        let report = db.snapshot().unwrap();
        assert_eq!(report.get(&table, &1).unwrap(), Some(100), "everything committed before it");
        let lost = skewed.put(&table, &2, &200).and_then(|()| skewed.commit().map(drop));
        assert_eq!(lost.is_err(), db.scheme().is_serializable(), "it comes before the put that the report has seen");
        db.run(|txn| txn.put(&table, &3, &300)).unwrap();
        let rows = report.scan(&table, 1..4).collect().unwrap();
        assert_eq!(rows, [(1, 100), (2, 4), (3, 9)]);
        assert!(matches!(report.put(&table, &1, &1), Err(Error::ReadOnly)));
        report.commit().unwrap();
        assert!(
            db.statistics().snapshot_age.is_some() || !db.scheme().is_serializable() || db.scheme() == Scheme::MvOcc
        );
    }
}

#[test]
fn a_safe_snapshot_is_handed_out_again_for_its_interval_to_those_who_accept_an_old_one() {
    for scheme in [Scheme::RcSsn, Scheme::SiSsn, Scheme::SiSsi] {
        let options = Options::default().scheme(scheme).snapshot_interval(Duration::from_secs(3600));
        let db = Database::open_in_memory(options).unwrap();
        let table = filled(&db);
        let take = |options: &TxnOptions| db.begin(options.clone()).unwrap();
        let (none, strict) = (TxnOptions::snapshot().order(Order::None), TxnOptions::snapshot());
        let first = take(&none).get(&table, &1).unwrap();
        for n in 0..20_000u64 {
            db.run(|txn| txn.put(&table, &(n % 10), &n)).unwrap();
        }
        let again = take(&none);
        assert_eq!((first, again.get(&table, &1).unwrap()), (Some(1), Some(1)));
        assert_eq!(again.scan(&table, ..).collect().unwrap().len(), 10);
        // An idle session, which has committed nothing since, accepts it as well; one that has committed does not.
        let (idle, busy) = (Session::default(), Session::default());
        let of = |session| TxnOptions::snapshot().order(Order::Session).session(session);
        db.run_with(TxnOptions::default().session(&busy), |txn| txn.put(&table, &2, &7)).unwrap();
        assert_eq!(take(&of(&idle)).get(&table, &1).unwrap(), Some(1));
        assert_eq!(take(&of(&busy)).get(&table, &2).unwrap(), Some(7), "its own last commit");
        db.run(|txn| txn.put(&table, &2, &8)).unwrap();
        assert_eq!(take(&of(&busy)).get(&table, &2).unwrap(), Some(7), "handed out again");
        assert_eq!(take(&strict).get(&table, &2).unwrap(), Some(8), "what was acknowledged before");
        assert_eq!(take(&TxnOptions::snapshot().order(Order::Session)).get(&table, &2).unwrap(), Some(8), "no session");
    }
}

/// One transaction takes the number of the open batch. A client closes the batch, the close is acknowledged, and the
/// client reports on the batch. Then a receipt enters the batch before the report commits. Only real time orders the
/// report after the closing.
fn report_after_close(scheme: Scheme, closing: TxnOptions, report: TxnOptions) -> Result<(), Box<Abort>> {
    let db = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
    let table = filled(&db);
    let adding = db.begin(TxnOptions::default()).unwrap();
    adding.get(&table, &0).unwrap();
    db.run_with(closing, |txn| txn.put(&table, &0, &1)).unwrap();
    let report = db.begin(report).unwrap();
    report.get(&table, &1).unwrap();
    adding.put(&table, &1, &109).unwrap();
    adding.commit().unwrap();
    report.commit().map(drop).map_err(|error| error.as_abort().expect("a lost conflict").clone().into())
}

#[test]
fn a_transaction_comes_after_those_that_its_order_names() {
    for scheme in [Scheme::SiSsn, Scheme::RcSsn] {
        for report in [TxnOptions::default(), TxnOptions::read_only()] {
            let (client, other) = (Session::default(), Session::default());
            let order = |order| report.clone().order(order);
            let plain = TxnOptions::default;
            let abort = report_after_close(scheme, plain(), report.clone()).unwrap_err();
            assert_eq!(abort.kind, AbortKind::Exclusion, "{scheme}");
            assert_eq!(abort.predecessor.map(|edge| edge.dependency), Some(Dependency::EndedBefore), "{scheme}");
            report_after_close(scheme, plain(), order(Order::None)).unwrap();
            report_after_close(scheme, plain(), order(Order::Session)).unwrap_err();
            let closing = || plain().session(&client);
            report_after_close(scheme, closing(), order(Order::Session).session(&client)).unwrap_err();
            report_after_close(scheme, closing(), order(Order::Session).session(&other)).unwrap();
        }
    }
    // A session whose stamps are another database's requires no more than strict order.
    let (db, session) = (Database::open_in_memory(Options::default()).unwrap(), Session::default());
    let table = filled(&db);
    for n in 0..100 {
        db.run_with(TxnOptions::default().session(&session), |txn| txn.put(&table, &1, &n)).unwrap();
    }
    let db = Database::open_in_memory(Options::default().order(Order::Session)).unwrap();
    let table = filled(&db);
    let txn = db.begin(TxnOptions::default().session(&session)).unwrap();
    txn.get(&table, &1).unwrap();
    txn.put(&table, &2, &1).unwrap();
    txn.commit().unwrap();
    assert_eq!(Options::default().order, Order::Strict);
    assert_eq!(Order::ALL.map(|order| order.name().parse::<Order>().unwrap()), Order::ALL);
}

/// No transaction with a stamp of its own commits in between: both have the same place in the order.
#[test]
fn one_that_takes_its_writes_back_may_stand_where_a_reader_of_the_row_stands() {
    for db in databases().filter(|db| db.scheme().has_versions()) {
        let table = filled(&db);
        db.run(|txn| txn.get(&table, &1)).unwrap();
        for _ in 0..2 {
            let mut txn = db.begin(TxnOptions::default()).unwrap();
            txn.get(&table, &2).unwrap();
            let savepoint = txn.savepoint().unwrap();
            txn.put(&table, &1, &7).unwrap();
            txn.roll_back_to(savepoint).unwrap();
            let committed = txn.commit();
            assert!(committed.is_ok(), "{}: {committed:?}", db.scheme());
        }
    }
}

#[test]
fn a_transaction_without_writes_takes_no_log() {
    for db in databases().map(|db| db.scheme()).filter(|scheme| scheme.has_versions()) {
        let directory = Arc::new(FaultyDirectory::new());
        let db = Database::open_in(directory, Options::default().scheme(db)).unwrap();
        let table = filled(&db);
        db.sync().unwrap();
        let before = db.statistics().log_bytes;
        for n in 0..100 {
            db.run(|txn| txn.get(&table, &(n % 10))).unwrap();
        }
        db.sync().unwrap();
        assert_eq!(db.statistics().log_bytes, before, "{}", db.scheme());
    }
}

/// Adds one to a row that another transaction overwrites during the first attempts.
struct AddOne<'a> {
    db: &'a Database,
    table: &'a Table<u64, u64>,
    disturbed: u32,
    lost: Vec<AbortKind>,
}

impl Job for AddOne<'_> {
    type Output = u64;
    type Error = Error;

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> ermine::Result<u64> {
        let seen = txn.get(self.table, &3)?.expect("the row is there");
        if self.disturbed > 0 {
            self.disturbed -= 1;
            // Not through `run`, which refuses to be called inside a body.
            let other = self.db.begin(TxnOptions::default())?;
            other.put(self.table, &3, &(seen + 10))?;
            other.commit()?;
        }
        txn.put(self.table, &3, &(seen + 1))?;
        Ok(seen + 1)
    }

    fn lost(&mut self, abort: &Abort) {
        self.lost.push(abort.kind);
    }
}

#[test]
fn a_job_is_told_of_every_attempt_that_it_lost() {
    for db in databases().filter(|db| db.scheme() != Scheme::Rc && !locks(db.scheme())) {
        let table = filled(&db);
        let job = || AddOne { db: &db, table: &table, disturbed: 2, lost: Vec::new() };

        let mut retried = job();
        assert_eq!(db.run_job(&mut retried).unwrap(), 30, "{}", db.scheme());
        assert_eq!(retried.lost.len(), 2, "{}: {:?}", db.scheme(), retried.lost);

        let mut tried = job();
        let error = db.try_job(&mut tried).unwrap_err();
        assert_eq!(tried.lost, [error.as_abort().expect("it lost a conflict").kind], "{}", db.scheme());
    }
}

/// While a version is out of its row, its unique key is free; a row that takes the key then keeps it.
#[test]
fn a_unique_key_that_was_given_away_does_not_come_back() {
    for db in databases().filter(|db| db.scheme().has_versions()) {
        for renews in [false, true] {
            let table = db.table::<u64, u64>(&format!("twins {renews}")).unwrap();
            let index = db.index(&table, "by value", Uniqueness::Unique, |_, value| value).unwrap();
            db.run(|txn| txn.put(&table, &1, &10)).unwrap();
            let mut txn = db.begin(TxnOptions::default().isolation(Isolation::Snapshot)).unwrap();
            txn.put(&table, &1, &11).unwrap();
            let savepoint = txn.savepoint().unwrap();
            txn.put(&table, &1, &12).unwrap();
            db.run(|txn| txn.put(&table, &2, &11)).unwrap();
            if renews {
                txn.renew_snapshot().unwrap();
            }
            let back = txn.roll_back_to(savepoint);
            assert!(matches!(back, Err(Error::Abort(_))), "{}: {back:?}", db.scheme());
            assert!(txn.commit().is_err());
            let rows = db.run(|txn| txn.scan_by(&index, ..).collect()).unwrap();
            assert_eq!(rows, [(1, 10), (2, 11)], "{}", db.scheme());
        }
    }
}

/// A row that refers to another one, as a foreign key does, and the deletion of that one, at any two levels: one of them
/// commits, whichever comes first. A change of the other row's value does not matter.
#[test]
fn facts_that_writes_depend_on_are_certified_at_every_level() {
    let of = |isolation| TxnOptions::default().isolation(isolation);
    let levels = [Isolation::Scheme, Isolation::Snapshot];
    let pairs = levels.into_iter().flat_map(|one| levels.map(|other| (one, other)));
    for db in databases().filter(|db| db.scheme().has_versions()) {
        let parents = db.table::<u64, u64>("parents").unwrap();
        let children = db.table::<(u64, u64), u64>("children").unwrap();
        let cases = pairs.clone().flat_map(|pair| [(pair, true), (pair, false)]);
        let cases = cases.flat_map(|case| [(case, true), (case, false)]);
        for (parent, (((of_child, of_deletion), certifies), child_first)) in (1u64..).zip(cases) {
            db.run(|txn| txn.insert(&parents, &parent, &0)).unwrap();
            let (child, deletion) = (db.begin(of(of_child)).unwrap(), db.begin(of(of_deletion)).unwrap());
            if certifies {
                assert_eq!(child.certify_reads(true).unwrap(), db.scheme().is_serializable());
                deletion.certify_reads(true).unwrap();
            }
            let made: Result<(), Error> = (|| {
                child.insert(&children, &(parent, 1), &0)?;
                assert!(child.contains(&parents, &parent)?);
                child.certify_reads(false).map(drop)
            })();
            let deleted: Result<(), Error> = (|| {
                deletion.delete(&parents, &parent)?;
                assert!(deletion.scan(&children, (parent, 0)..(parent + 1, 0)).collect()?.is_empty());
                deletion.certify_reads(false).map(drop)
            })();
            let commit_child = || made.and_then(|()| child.commit().map(drop));
            let commit_deletion = || deleted.and_then(|()| deletion.commit().map(drop));
            let committed = match child_first {
                true => [commit_child(), commit_deletion()],
                false => [commit_deletion(), commit_child()],
            };
            let case = format!("{} {of_child:?} {of_deletion:?} {certifies} {child_first}", db.scheme());
            let expected = match (db.scheme().is_serializable(), certifies, of_child, of_deletion) {
                (true, true, ..) | (true, false, Isolation::Scheme, Isolation::Scheme) => 1..=1,
                (false, ..) | (_, _, Isolation::Snapshot, Isolation::Snapshot) => 2..=2,
                _ => 1..=2,
            };
            let count = committed.iter().filter(|done| done.is_ok()).count();
            assert!(expected.contains(&count), "{case}: {committed:?}");
        }
        // `mvocc` certifies that what was read is still the newest version.
        if db.scheme() != Scheme::MvOcc {
            db.run(|txn| txn.insert(&parents, &0, &0)).unwrap();
            let child = db.begin(of(Isolation::Snapshot)).unwrap();
            child.certify_reads(true).unwrap();
            assert!(child.contains(&parents, &0).unwrap());
            db.run(|txn| txn.update(&parents, &0, &1)).unwrap();
            child.insert(&children, &(0, 1), &0).unwrap();
            child.commit().unwrap();
        }
    }
}

#[test]
fn a_transaction_tells_what_it_has_done() {
    for db in databases() {
        let table = filled(&db);
        let txn = db.begin(TxnOptions::default()).unwrap();
        assert_eq!(txn.work().unwrap(), Work::default(), "{}", db.scheme());
        txn.get(&table, &3).unwrap();
        let before = txn.work().unwrap();
        let tracked = match db.scheme() {
            Scheme::RcSsn | Scheme::SiSsn | Scheme::SiSsi | Scheme::MvOcc | Scheme::Silo => 1,
            _ => 0,
        };
        let expected = Work { rows_read: 1, tracked_reads: tracked, ..Work::default() };
        assert_eq!(before, expected, "{}", db.scheme());
        assert_eq!(txn.scan(&table, 4..7).collect().unwrap().len(), 3);
        assert_eq!(txn.get(&table, &100).unwrap(), None);
        let expected = Work { rows_read: 3, tracked_reads: 3 * tracked, ..Work::default() };
        assert_eq!(txn.work().unwrap().since(before), expected, "{}", db.scheme());
    }
}

#[test]
fn versions_that_a_snapshot_does_not_show_are_walked() {
    for db in databases().filter(|db| db.scheme().has_versions() && !matches!(db.scheme(), Scheme::Rc | Scheme::RcSsn))
    {
        let table = filled(&db);
        for isolation in [Isolation::Scheme, Isolation::Snapshot] {
            let txn = db.begin(TxnOptions::default().isolation(isolation)).unwrap();
            let seen = txn.get(&table, &5).unwrap();
            let first = txn.work().unwrap();
            // Each version stays, since another transaction sees it.
            let others: Vec<_> = (0..3)
                .map(|value| {
                    db.run(|txn| txn.put(&table, &5, &value)).unwrap();
                    let other = db.begin(TxnOptions::default().isolation(Isolation::Snapshot)).unwrap();
                    assert_eq!(other.get(&table, &5).unwrap(), Some(value));
                    other
                })
                .collect();
            assert_eq!(txn.get(&table, &5).unwrap(), seen);
            drop(others);
            let second = txn.work().unwrap().since(first);
            // A read of a version that is already overwritten is weighed at once.
            let expected = Work { rows_read: 1, versions_walked: 3, ..Work::default() };
            assert_eq!(second, expected, "{}", db.scheme());
            let tracked = u64::from(isolation == Isolation::Scheme && db.scheme() != Scheme::Si);
            assert_eq!(first.tracked_reads, tracked, "{}", db.scheme());
        }
    }
}

#[test]
fn writes_are_known_by_what_they_leave_in_the_log() {
    let long = vec![7u8; 1000];
    for scheme in Scheme::ALL {
        let directory = Arc::new(FaultyDirectory::new());
        let db = Database::open_in(directory, Options::default().scheme(scheme)).unwrap();
        let table = db.table::<u64, Vec<u8>>("bytes").unwrap();
        db.run(|txn| txn.put(&table, &1, &long)).unwrap();
        let logged = db.statistics().log_bytes;
        let mut txn = db.begin(TxnOptions::default()).unwrap();
        assert!(txn.update(&table, &1, &long).unwrap());
        let updated = txn.work().unwrap().log_bytes;
        assert!((1000..1050).contains(&updated), "{scheme}: {updated}");
        let savepoint = txn.savepoint().unwrap();
        txn.insert(&table, &2, &long).unwrap();
        assert!(txn.work().unwrap().log_bytes >= 2 * updated, "{scheme}");
        // If a row is written twice, the last value counts.
        txn.put(&table, &2, &b"x"[..]).unwrap();
        assert!(txn.work().unwrap().log_bytes < updated + 50, "{scheme}");
        txn.roll_back_to(savepoint).unwrap();
        txn.delete(&table, &1).unwrap();
        let deleted = txn.work().unwrap().log_bytes;
        assert!((1..100).contains(&deleted), "{scheme}: {deleted}");
        txn.put(&table, &1, &long).unwrap();
        let told = txn.work().unwrap().log_bytes;
        txn.commit().unwrap();
        let written = db.statistics().log_bytes - logged;
        assert!((told..told + 300).contains(&written), "{scheme}: {written} bytes, {told} of them were told");
    }
}
