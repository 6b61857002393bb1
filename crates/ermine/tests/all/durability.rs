//! Databases in directories: acknowledged commits are found when the databases are opened again.

use std::sync::Arc;

use ermine::{
    Database, Durability, Error, Options, Scheme, SecondaryIndex, Table, TxnOptions, Uniqueness,
    files::{Directory, Open},
    verify_in,
};
use ermine_testing::faulty::{Attempt, Fault, FaultyDirectory, Keep};

type Accounts = Table<u64, String>;

fn options() -> Options {
    Options::default().log_buffer_bytes(1 << 20).segment_bytes(1 << 20)
}

fn open(directory: &FaultyDirectory, options: Options) -> Database {
    Database::open_in(Arc::new(directory.clone()), options).unwrap()
}

fn by_length(db: &Database, accounts: &Accounts) -> SecondaryIndex<u64, u64, String> {
    db.index(accounts, "by length", Uniqueness::NonUnique, |_, value| value.len() as u64).unwrap()
}

fn rows(db: &Database, accounts: &Accounts) -> Vec<(u64, String)> {
    db.run(|txn| txn.scan(accounts, ..).collect()).unwrap()
}

/// The log has the entries in the order of the writes: a value that a savepoint brings back is the last one again.
#[test]
fn an_entry_that_a_savepoint_brings_back_is_there_again() {
    for scheme in Scheme::ALL {
        let directory = FaultyDirectory::new();
        for round in 0..2 {
            let db = open(&directory, options().scheme(scheme));
            let accounts: Accounts = db.table("accounts").unwrap();
            let index = by_length(&db, &accounts);
            if round == 0 {
                db.run(|txn| txn.insert(&accounts, &1, "1")).unwrap();
                let mut txn = db.begin(TxnOptions::default()).unwrap();
                txn.put(&accounts, &1, "22").unwrap();
                let savepoint = txn.savepoint().unwrap();
                txn.put(&accounts, &1, "333").unwrap();
                txn.roll_back_to(savepoint).unwrap();
                txn.commit().unwrap();
            }
            let found = db.run(|txn| txn.scan_by(&index, ..).collect()).unwrap();
            assert_eq!(found, [(1, "22".to_string())], "{scheme} {round}");
        }
    }
}

#[test]
fn rows_and_indexes_are_there_again_under_every_scheme() {
    for scheme in Scheme::ALL {
        let directory = FaultyDirectory::new();
        let expected = {
            let db = open(&directory, options().scheme(scheme));
            let accounts: Accounts = db.table("accounts").unwrap();
            by_length(&db, &accounts);
            for key in 0..200u64 {
                db.run(|txn| txn.insert(&accounts, &key, &"x".repeat(key as usize % 7))).unwrap();
            }
            for key in (0..200u64).step_by(3) {
                db.run(|txn| txn.delete(&accounts, &key)).unwrap();
            }
            for key in (0..200u64).step_by(6) {
                db.run(|txn| txn.put(&accounts, &key, "again")).unwrap();
            }
            db.run(|txn| txn.update(&accounts, &1, "a longer one")).unwrap();
            rows(&db, &accounts)
        };
        // Twice: the files that recovery leaves can be recovered.
        for round in 0..2 {
            let db = open(&directory, options().scheme(scheme));
            let accounts: Accounts = db.table("accounts").unwrap();
            assert_eq!(db.recovery().rows, expected.len() as u64, "{scheme} {round}");
            assert_eq!(db.recovery().cut_at, None, "{scheme} {round}");
            let index = by_length(&db, &accounts);
            let found = db.run(|txn| txn.scan_by(&index, 12..=12).collect()).unwrap();
            assert_eq!(found, [(1, "a longer one".to_string())], "{scheme} {round}");
            assert_eq!(rows(&db, &accounts), expected, "{scheme} {round}");
            let lengths = db.run(|txn| txn.scan_by(&index, ..).collect()).unwrap();
            assert_eq!(lengths.len(), expected.len(), "{scheme} {round}");
        }
        let db = open(&directory, options().scheme(scheme));
        let accounts: Accounts = db.table("accounts").unwrap();
        by_length(&db, &accounts);
        db.run(|txn| txn.insert(&accounts, &1000, "new")).unwrap();
        assert_eq!(rows(&db, &accounts).len(), expected.len() + 1);
    }
}

#[test]
fn a_table_with_an_index_is_not_written_before_that_is_opened() {
    let directory = FaultyDirectory::new();
    {
        let db = open(&directory, options());
        let accounts = db.table("accounts").unwrap();
        by_length(&db, &accounts);
        db.run(|txn| txn.put(&accounts, &1, "one")).unwrap();
    }
    let db = open(&directory, options());
    let accounts: Accounts = db.table("accounts").unwrap();
    assert_eq!(rows(&db, &accounts).len(), 1);
    let refused = db.run(|txn| txn.put(&accounts, &2, "two"));
    assert!(matches!(refused, Err(Error::Schema(what)) if what.contains("by length")));
    by_length(&db, &accounts);
    db.run(|txn| txn.put(&accounts, &2, "two")).unwrap();
    assert!(matches!(db.table::<u32, String>("accounts"), Err(Error::Schema(_))));
}

#[test]
fn large_transactions_need_no_large_block() {
    let directory = FaultyDirectory::new();
    let value = "x".repeat(1000);
    {
        let db = open(&directory, options());
        let accounts: Accounts = db.table("accounts").unwrap();
        by_length(&db, &accounts);
        db.run(|txn| (0..20_000u64).try_for_each(|key| txn.insert(&accounts, &key, value.as_str()))).unwrap();
        // A transaction that is given up after it has grown large.
        let lost = db.run(|txn| {
            (0..5_000u64).try_for_each(|key| txn.put(&accounts, &key, "never"))?;
            Err::<(), _>(Error::other("no"))
        });
        assert!(lost.is_err());
    }
    let db = open(&directory, options());
    let accounts: Accounts = db.table("accounts").unwrap();
    let index = by_length(&db, &accounts);
    assert_eq!(db.run(|txn| txn.scan_by(&index, 1000..=1000).collect()).unwrap().len(), 20_000);
    assert!(rows(&db, &accounts).iter().all(|(_, row)| *row == value));
}

#[test]
fn many_threads_fill_many_segments() {
    let directory = FaultyDirectory::new();
    let sums = {
        let db = open(&directory, options());
        let accounts = db.table::<u64, Vec<u8>>("accounts").unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (db, accounts) = (&db, &accounts);
                scope.spawn(move || {
                    for turn in 0..1000 {
                        let value = vec![turn as u8; 500 + (turn * 37 % 900) as usize];
                        let options = TxnOptions::default().durability(Durability::Async);
                        db.run_with(options, |txn| txn.put(accounts, &(thread * 100 + turn % 100), value.as_slice()))
                            .unwrap();
                    }
                });
            }
        });
        db.run(|txn| txn.scan(&accounts, ..).collect()).unwrap()
    };
    let db = open(&directory, options());
    let accounts = db.table::<u64, Vec<u8>>("accounts").unwrap();
    assert_eq!(db.run(|txn| txn.scan(&accounts, ..).collect()).unwrap(), sums);
}

#[test]
fn a_failed_sync_ends_all_acknowledgements() {
    let directory = FaultyDirectory::new();
    {
        let db = open(&directory, options());
        let accounts = db.table::<u64, u64>("accounts").unwrap();
        db.run(|txn| txn.put(&accounts, &1, &1)).unwrap();
        directory.fail_when(|_, attempt| matches!(attempt, Attempt::Sync(_)).then_some(Fault::Broken));
        assert!(matches!(db.run(|txn| txn.put(&accounts, &2, &2)), Err(Error::Poisoned(_))));
        assert!(matches!(db.run(|txn| txn.put(&accounts, &3, &3)), Err(Error::Poisoned(_))));
        // Nor are the rows durable that were read.
        assert!(matches!(db.run(|txn| txn.get(&accounts, &2)), Err(Error::Poisoned(_))));
        assert_eq!(db.run(|txn| txn.get(&accounts, &1)).unwrap(), Some(1));
    }
    directory.fail_when(|_, _| None);
    let db = open(&directory, options());
    let accounts = db.table::<u64, u64>("accounts").unwrap();
    assert_eq!(db.run(|txn| txn.get(&accounts, &1)).unwrap(), Some(1));
    db.run(|txn| txn.put(&accounts, &4, &4)).unwrap();
}

#[test]
fn receipts_say_when_and_can_be_awaited() {
    use std::{
        future::Future,
        task::{Context, Waker},
    };
    let directory = FaultyDirectory::new();
    let db = open(&directory, options().durability(Durability::Async));
    let accounts = db.table::<u64, u64>("accounts").unwrap();
    let ((), receipt) = db.run_async(|txn| txn.put(&accounts, &1, &1)).unwrap();
    let stamp = receipt.stamp();
    assert_eq!(receipt.wait().unwrap(), stamp);
    let ((), receipt) = db.run_async(|txn| txn.put(&accounts, &1, &2)).unwrap();
    let mut receipt = std::pin::pin!(receipt);
    let mut context = Context::from_waker(Waker::noop());
    let began = std::time::Instant::now();
    while receipt.as_mut().poll(&mut context).is_pending() {
        assert!(began.elapsed().as_secs() < 10);
        std::thread::yield_now();
    }
    assert!(receipt.is_durable());
}

#[test]
fn a_sync_makes_durable_what_did_not_wait() {
    let directory = FaultyDirectory::new();
    let db = open(&directory, options().durability(Durability::Async));
    let accounts = db.table::<u64, u64>("accounts").unwrap();
    let receipts: Vec<_> = (0..100).map(|key| db.run_async(|txn| txn.put(&accounts, &key, &key)).unwrap().1).collect();
    let before = db.statistics();
    db.sync().unwrap();
    assert!(receipts.iter().all(|receipt| receipt.is_durable()));
    db.sync().unwrap();
    let after = db.statistics();
    assert!(
        after.log_flushes.count() > 0 && after.log_bytes >= before.log_bytes && after.log_bytes >= 100 * 48,
        "{after:?}"
    );
    Database::open_in_memory(Options::default()).unwrap().sync().unwrap();
}

#[test]
fn a_sync_that_fails_while_nobody_waits_is_not_tried_again() {
    let directory = FaultyDirectory::new();
    drop(open(&directory, options()).table::<u64, u64>("accounts").unwrap());
    let db = open(&directory, options().durability(Durability::Async));
    let accounts = db.table::<u64, u64>("accounts").unwrap();
    let mut failed = false;
    directory.fail_when(move |_, attempt| {
        let fails = !failed && matches!(attempt, Attempt::Sync(_));
        failed |= fails;
        fails.then_some(Fault::Broken)
    });
    let ((), receipt) = db.run_async(|txn| txn.put(&accounts, &1, &1)).unwrap();
    // Several rounds of the flusher.
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(!receipt.is_durable(), "what a failed sync was to write may be lost");
    assert!(matches!(receipt.wait(), Err(Error::Poisoned(_))));
}

#[test]
fn segments_of_an_odd_size_can_be_opened_again() {
    let directory = FaultyDirectory::new();
    for round in 0..3 {
        let db = open(&directory, options().segment_bytes((1 << 20) + 5));
        let accounts: Accounts = db.table("accounts").unwrap();
        assert_eq!(rows(&db, &accounts).len(), round);
        db.run(|txn| txn.put(&accounts, &(round as u64), "value")).unwrap();
    }
}

/// A database with a number of segments, killed: payloads that are damaged in the older ones are found when their rows are
/// read, as recovery has read the heads of the blocks only.
#[test]
fn recovery_reads_no_payloads_of_whole_segments() {
    // So few segments bring about no checkpoint.
    let small = || Options::default().log_buffer_bytes(64 << 10).segment_bytes(800 << 10);
    let directory = FaultyDirectory::new();
    let db = open(&directory, small());
    let accounts: Accounts = db.table("accounts").unwrap();
    by_length(&db, &accounts);
    let value = |key: u64| format!("payload {key} ").repeat(60);
    (0..1000).for_each(|key| db.run(|txn| txn.insert(&accounts, &key, value(key).as_str())).unwrap());
    // A large transaction lies in several segments.
    db.run(|txn| (1000..2000).try_for_each(|key| txn.insert(&accounts, &key, value(key).as_str()))).unwrap();
    (2000..4000).for_each(|key| db.run(|txn| txn.insert(&accounts, &key, value(key).as_str())).unwrap());
    let trace = directory.trace();
    drop(db);

    let names = |directory: &FaultyDirectory, prefix: &str| {
        let mut names = directory.list().unwrap();
        names.retain(|name| name.starts_with(prefix));
        names.sort();
        names
    };
    let mut found = 0;
    for keep in [Keep::Everything, Keep::Nothing, Keep::Random(5)] {
        let crashed = || trace.crash(trace.operations(), keep);
        let content = |directory: &FaultyDirectory| {
            let db = open(directory, small());
            let accounts: Accounts = db.table("accounts").unwrap();
            rows(&db, &accounts)
        };
        let (with, without) = (crashed(), crashed());
        found += names(&with, "heads-").len();
        names(&without, "heads-").iter().for_each(|name| without.remove(name).unwrap());
        assert_eq!(content(&with), content(&without), "{keep:?}");
    }
    assert!(found >= 3, "{found}");

    let crashed = trace.crash(trace.operations(), Keep::Everything);
    let log = names(&crashed, "log-");
    assert!(log.len() >= 3 && names(&crashed, "heads-").len() + 1 >= log.len(), "{log:?}");
    for key in [3, 1200] {
        let text = format!("payload {key} ");
        let damaged = log[..log.len() - 1].iter().any(|name| {
            let file = crashed.open(name, Open::Read).unwrap();
            let mut bytes = vec![0; file.length().unwrap() as usize];
            file.read_at(0, &mut bytes).unwrap();
            let at = bytes.windows(text.len()).position(|window| window == text.as_bytes());
            at.inspect(|at| crashed.flip(name, *at as u64, 0).unwrap()).is_some()
        });
        assert!(damaged, "{text}is in no whole segment");
    }
    let findings = verify_in(&(Arc::new(crashed.clone()) as Arc<dyn Directory>), &small(), &mut |_| ()).unwrap();
    assert!(!findings.is_right());
    let db = open(&crashed, small());
    let accounts: Accounts = db.table("accounts").unwrap();
    for key in (0..4000).step_by(50).chain([3]) {
        match db.run(|txn| txn.get(&accounts, &key)) {
            Ok(found) => assert_eq!(found, Some(value(key))),
            Err(Error::Corrupt { file, .. }) => assert!(file.starts_with("log-"), "{key}: {file}"),
            Err(error) => panic!("{key}: {error}"),
        }
    }
    let error = db.run(|txn| txn.get(&accounts, &3)).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
}
