//! Checkpoints and the cleaning of the log: rows survive them, and files do not grow without bound.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use ermine::{Database, Durability, Options, Scheme, SecondaryIndex, Table, TxnOptions, Uniqueness, files::Directory};
use ermine_testing::faulty::FaultyDirectory;

type Rows = Table<u64, Vec<u8>>;

fn options() -> Options {
    Options::default().log_buffer_bytes(1 << 20).segment_bytes(1 << 20).durability(Durability::Async)
}

fn open(directory: &FaultyDirectory, options: Options) -> (Database, Rows, SecondaryIndex<u8, u64, Vec<u8>>) {
    let db = Database::open_in(Arc::new(directory.clone()), options).unwrap();
    let rows = db.table("rows").unwrap();
    let index = db
        .index(&rows, "by first", Uniqueness::NonUnique, |_: &u64, value: &[u8]| value.first().copied().unwrap_or(0))
        .unwrap();
    (db, rows, index)
}

fn content(db: &Database, rows: &Rows, index: &SecondaryIndex<u8, u64, Vec<u8>>) -> BTreeMap<u64, Vec<u8>> {
    let all: BTreeMap<_, _> = db.run(|txn| txn.scan(rows, ..).collect()).unwrap().into_iter().collect();
    let by_first: BTreeMap<_, _> = db.run(|txn| txn.scan_by(index, ..).collect()).unwrap().into_iter().collect();
    assert_eq!(all, by_first);
    all
}

/// Writes rows at random, and keeps `expected` up to date.
fn churn(db: &Database, rows: &Rows, expected: &mut BTreeMap<u64, Vec<u8>>, random: &mut fastrand::Rng, turns: usize) {
    for _ in 0..turns {
        let key = random.u64(..2000);
        let value = vec![random.u8(..); random.usize(1..1500)];
        if random.u8(..5) == 0 {
            db.run(|txn| txn.delete(rows, &key)).unwrap();
            expected.remove(&key);
        } else {
            db.run(|txn| txn.put(rows, &key, value.as_slice())).unwrap();
            expected.insert(key, value);
        }
    }
}

#[test]
fn rows_survive_checkpoints_and_openings_in_any_order() {
    for (seed, scheme) in Scheme::ALL.into_iter().enumerate() {
        let mut random = fastrand::Rng::with_seed(seed as u64);
        let (directory, mut expected) = (FaultyDirectory::new(), BTreeMap::new());
        for round in 0..6 {
            let (db, rows, index) = open(&directory, options().scheme(scheme));
            if random.bool() {
                assert_eq!(content(&db, &rows, &index), expected, "{scheme} {round} at first");
            }
            for _ in 0..random.usize(1..4) {
                let turns = random.usize(..6000);
                churn(&db, &rows, &mut expected, &mut random, turns);
                if random.u8(..4) > 0 {
                    db.checkpoint().unwrap();
                }
            }
            assert_eq!(content(&db, &rows, &index), expected, "{scheme} {round}");
        }
    }
}

#[test]
fn disk_use_is_bounded_under_endless_updates() {
    let directory = FaultyDirectory::new();
    let mut random = fastrand::Rng::with_seed(1);
    let mut expected = BTreeMap::new();
    let (db, rows, index) = open(&directory, options().checkpoint_after(2 << 20));
    let mut peak = 0;
    for round in 0..20 {
        // About 4.5 MB each; the live rows are about 1.5 MB.
        churn(&db, &rows, &mut expected, &mut random, 6000);
        if round % 2 == 0 {
            db.checkpoint().unwrap();
        }
        if round > 4 {
            // Without the reserve that is kept for a full device.
            peak = peak.max(directory.bytes_of("") - directory.bytes_of("RESERVE"));
        }
    }
    assert_eq!(content(&db, &rows, &index), expected);
    assert!(peak < 40 << 20, "{peak} bytes on disk");
    assert!(directory.bytes_of("cold-") > 0, "nothing was moved");
    drop((db, rows, index));
    let (db, rows, index) = open(&directory, options());
    assert_eq!(content(&db, &rows, &index), expected);
}

#[test]
fn checkpoints_are_made_while_transactions_run() {
    check_while_transactions_run(Scheme::SiSsn);
}

#[test]
fn parallel_checkpoints_are_made_while_transactions_run() {
    check_while_transactions_run(Scheme::Silo);
}

fn check_while_transactions_run(scheme: Scheme) {
    let directory = FaultyDirectory::new();
    let expected = {
        let (db, rows, index) = open(&directory, options().scheme(scheme));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..3u64)
                .map(|thread| {
                    let (db, rows) = (&db, &rows);
                    scope.spawn(move || {
                        let mut random = fastrand::Rng::with_seed(thread);
                        for turn in 0..6000u64 {
                            // Two rows that are always equal.
                            let key = 3 * random.u64(..500) + thread;
                            let value =
                                [vec![random.u8(..); random.usize(1..300)], turn.to_le_bytes().to_vec()].concat();
                            db.run(|txn| {
                                if turn % 7 == 0 {
                                    txn.delete(rows, &key)?;
                                    txn.delete(rows, &(key + 10_000)).map(drop)
                                } else {
                                    txn.put(rows, &key, value.as_slice())?;
                                    txn.put(rows, &(key + 10_000), value.as_slice())
                                }
                            })
                            .unwrap();
                        }
                    })
                })
                .collect();
            let checkpoints = scope.spawn(|| {
                let mut made = 0;
                while !done.load(Ordering::Relaxed) {
                    db.checkpoint().unwrap();
                    made += 1;
                }
                made
            });
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            done.store(true, Ordering::Relaxed);
            assert!(checkpoints.join().unwrap() > 1);
        });
        content(&db, &rows, &index)
    };
    for _ in 0..2 {
        let (db, rows, index) = open(&directory, options().scheme(scheme));
        let found = content(&db, &rows, &index);
        assert_eq!(found, expected);
        for (key, value) in found.range(..10_000) {
            assert_eq!(found.get(&(key + 10_000)), Some(value), "half a transaction");
        }
    }
}

#[test]
fn a_long_reader_sees_its_snapshot_across_checkpoints() {
    let directory = FaultyDirectory::new();
    let mut random = fastrand::Rng::with_seed(3);
    let mut expected = BTreeMap::new();
    let (db, rows, _) = open(&directory, options());
    churn(&db, &rows, &mut expected, &mut random, 3000);
    let before = expected.clone();
    let reader = db.begin(TxnOptions::read_only()).unwrap();
    let first: BTreeMap<_, _> = reader.scan(&rows, ..).collect().unwrap().into_iter().collect();
    for _ in 0..3 {
        churn(&db, &rows, &mut expected, &mut random, 5000);
        db.checkpoint().unwrap();
    }
    let again: BTreeMap<_, _> = reader.scan(&rows, ..).collect().unwrap().into_iter().collect();
    assert_eq!((&first, &again), (&before, &before));
}

#[test]
fn large_values_have_files_of_their_own_and_lose_them() {
    let directory = FaultyDirectory::new();
    let large = |byte: u8, more: usize| vec![byte; 200_000 + more];
    let blobs = || directory.list().unwrap().iter().filter(|name| name.starts_with("blob-")).count();
    let mut expected = BTreeMap::new();
    {
        let (db, rows, index) = open(&directory, options());
        for key in 0..10u64 {
            db.run(|txn| txn.put(&rows, &key, large(key as u8, 0).as_slice())).unwrap();
            expected.insert(key, large(key as u8, 0));
        }
        assert_eq!(blobs(), 10);
        let lost = db.run(|txn| {
            txn.put(&rows, &3, large(9, 1).as_slice())?;
            Err::<(), _>(ermine::Error::other("no"))
        });
        assert!(lost.is_err());
        db.run(|txn| txn.put(&rows, &4, b"small".as_slice())).unwrap();
        db.run(|txn| txn.delete(&rows, &5)).unwrap();
        db.run(|txn| txn.put(&rows, &6, large(60, 7).as_slice())).unwrap();
        expected.insert(4, b"small".to_vec());
        expected.remove(&5);
        expected.insert(6, large(60, 7));
        assert_eq!(blobs(), 11);
        db.checkpoint().unwrap();
        assert_eq!(blobs(), 8);
        assert_eq!(content(&db, &rows, &index), expected);
    }
    let mut random = fastrand::Rng::with_seed(4);
    for round in 0..3 {
        let (db, rows, index) = open(&directory, options());
        if round == 1 {
            assert_eq!(content(&db, &rows, &index), expected);
        }
        // Enough that the segments of the large values are removed.
        for _ in 0..6 {
            for _ in 0..3000 {
                let key = 100 + random.u64(..50);
                let value = vec![1; random.usize(..1000)];
                db.run(|txn| txn.put(&rows, &key, value.as_slice())).unwrap();
                expected.insert(key, value);
            }
            db.checkpoint().unwrap();
        }
        assert_eq!(blobs(), 8, "{round}");
        if round == 2 {
            assert_eq!(content(&db, &rows, &index), expected);
        }
    }
}

#[test]
fn a_small_buffer_makes_small_values_large_and_checkpoints_know() {
    let directory = FaultyDirectory::new();
    let small = || Options::default().log_buffer_bytes(64 << 10).segment_bytes(64 << 10);
    let mut expected = BTreeMap::new();
    {
        let (db, rows, _) = open(&directory, small());
        for key in 0..10u64 {
            let value = vec![key as u8; 8193 + 1000 * key as usize];
            db.run(|txn| txn.put(&rows, &key, value.as_slice())).unwrap();
            expected.insert(key, value);
        }
        db.checkpoint().unwrap();
    }
    // Another process with another buffer does not know what the first one had in its buffer.
    for _ in 0..2 {
        let (db, rows, index) = open(&directory, options());
        db.run(|txn| txn.put(&rows, &100, b"more".as_slice())).unwrap();
        expected.insert(100, b"more".to_vec());
        db.checkpoint().unwrap();
        assert_eq!(content(&db, &rows, &index), expected);
    }
}

#[test]
fn rows_are_read_in_the_background() {
    let directory = FaultyDirectory::new();
    let (mut random, mut expected) = (fastrand::Rng::with_seed(5), BTreeMap::new());
    {
        let (db, rows, _) = open(&directory, options());
        churn(&db, &rows, &mut expected, &mut random, 4000);
        db.checkpoint().unwrap();
        churn(&db, &rows, &mut expected, &mut random, 4000);
        db.run(|txn| txn.put(&rows, &5000, vec![7; 300_000].as_slice())).unwrap();
        expected.insert(5000, vec![7; 300_000]);
    }
    let (db, rows, index) = open(&directory, options());
    let began = std::time::Instant::now();
    while db.statistics().unloaded_rows > 0 {
        assert!(began.elapsed().as_secs() < 20, "{} rows are left", db.statistics().unloaded_rows);
        std::thread::yield_now();
    }
    assert_eq!(content(&db, &rows, &index), expected);
}
