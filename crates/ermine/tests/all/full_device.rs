//! Goal: a full device gives writers a clear error, does not affect readers, and requires no restart: acknowledged rows
//! remain, rows can be deleted, which makes room, and writing goes on when there is room again.
//! Method: a directory of bounded capacity, under schemes of both families. The number of attempts is bounded, never
//! the time.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use ermine::{Database, Durability, Error, Options, Scheme, Table, TxnOptions, files::Directory, verify_in};
use ermine_testing::faulty::{Attempt, Fault, FaultyDirectory};

const SCHEMES: [Scheme; 3] = [Scheme::SiSsn, Scheme::Silo, Scheme::TwoPhaseNoWait];

/// Returns a directory on a device of `capacity` bytes, which may change.
fn device(capacity: u64) -> (FaultyDirectory, Arc<AtomicU64>) {
    let (directory, capacity) = (FaultyDirectory::new(), Arc::new(AtomicU64::new(capacity)));
    let limit = capacity.clone();
    let mut lengths = HashMap::<String, u64>::new();
    directory.fail_when(move |_, attempt| {
        let (name, length) = match attempt {
            Attempt::Write { name, offset, bytes } => (name, offset + bytes as u64),
            Attempt::SetLength { name, bytes } => (name, bytes),
            Attempt::Remove(name) => {
                lengths.remove(name);
                return None;
            }
            Attempt::Rename { from, to } => {
                let length = lengths.remove(from).unwrap_or(0);
                lengths.insert(to.into(), length);
                return None;
            }
            _ => return None,
        };
        let before = lengths.get(name).copied().unwrap_or(0);
        let after = if matches!(attempt, Attempt::SetLength { .. }) { length } else { length.max(before) };
        let others = lengths.values().sum::<u64>() - before;
        if after > before && others + after > limit.load(SeqCst) {
            return Some(Fault::NoSpace);
        }
        lengths.insert(name.into(), after);
        None
    });
    (directory, capacity)
}

fn options(scheme: Scheme) -> Options {
    let options = Options::default().scheme(scheme).log_buffer_bytes(64 << 10).segment_bytes(64 << 10);
    options.checkpoint_after(256 << 10)
}

fn open(directory: &FaultyDirectory, scheme: Scheme) -> (Database, Table<u64, Vec<u8>>) {
    let db = Database::open_in(Arc::new(directory.clone()), options(scheme)).unwrap();
    let rows = db.table("rows").unwrap();
    (db, rows)
}

fn value(key: u64) -> Vec<u8> {
    vec![key as u8; 2000]
}

/// Writes rows from `key` on until the device is full; returns the first key that was refused.
fn fill(db: &Database, rows: &Table<u64, Vec<u8>>, mut key: u64) -> u64 {
    loop {
        match db.run(|txn| txn.put(rows, &key, value(key).as_slice())) {
            Ok(()) => key += 1,
            Err(Error::DiskFull(_)) => return key,
            Err(error) => panic!("{error}"),
        }
        assert!(key < 20_000, "the device does not become full");
    }
}

fn keys(db: &Database, rows: &Table<u64, Vec<u8>>) -> Vec<u64> {
    // Without waiting for commits of other transactions that are not on the device yet.
    let no_wait = TxnOptions::default().durability(Durability::Async);
    let all = db.run_with(no_wait, |txn| txn.scan(rows, ..).collect()).unwrap();
    assert!(all.iter().all(|(key, found)| *found == value(*key)));
    all.into_iter().map(|(key, _)| key).collect()
}

/// Attempts of an operation that has to succeed.
const ATTEMPTS: usize = 3000;

/// Repeats an operation up to `attempts` times, with pauses; returns whether there was room for it.
fn is_done(db: &Database, attempts: usize, what: impl Fn(&ermine::Transaction<'_>) -> Result<(), Error>) -> bool {
    (0..attempts).any(|_| match db.run(&what) {
        Ok(()) => true,
        Err(Error::DiskFull(_)) => {
            thread::sleep(Duration::from_millis(20));
            false
        }
        Err(error) => panic!("{error}"),
    })
}

/// Repeats an operation until there is room for it.
fn when_there_is_room(db: &Database, what: impl Fn(&ermine::Transaction<'_>) -> Result<(), Error>) {
    assert!(is_done(db, ATTEMPTS, what), "it does not go on: {:?}", db.statistics().checkpoint_failure);
}

fn write_when_there_is_room(db: &Database, rows: &Table<u64, Vec<u8>>, key: u64) {
    when_there_is_room(db, |txn| txn.put(rows, &key, value(key).as_slice()));
}

fn assert_right(directory: &FaultyDirectory) {
    let of: Arc<dyn Directory> = Arc::new(directory.clone());
    let verification = verify_in(&of, &Options::default(), &mut |_| ()).unwrap();
    assert!(verification.is_right(), "{:?}", verification.findings);
}

#[test]
fn writing_goes_on_when_there_is_room_again() {
    for scheme in SCHEMES {
        let (directory, capacity) = device(3 << 20);
        let (db, rows) = open(&directory, scheme);
        let mut written = 0;
        for round in 0..4 {
            written = fill(&db, &rows, written);
            // Readers are not affected, and nothing that was acknowledged is lost.
            assert_eq!(keys(&db, &rows), (0..written).collect::<Vec<_>>(), "{scheme}, round {round}");
            let reader = db.begin(TxnOptions::read_only()).unwrap();
            assert_eq!(reader.get(&rows, &0).unwrap(), Some(value(0)));
            reader.commit().unwrap();
            // The reserve has room for a checkpoint: how much that is depends on when the last one was made.
            let steps = [1 << 20, 1 << 20, 2 << 20, 4 << 20, 8 << 20];
            let goes_on = steps.into_iter().zip([50, 50, 50, 50, ATTEMPTS]).any(|(bytes, attempts)| {
                capacity.fetch_add(bytes, SeqCst);
                is_done(&db, attempts, |txn| txn.put(&rows, &written, value(written).as_slice()))
            });
            assert!(goes_on, "it does not go on: {:?}", db.statistics().checkpoint_failure);
            written += 1;
        }
        drop((db, rows));
        assert_right(&directory);
        let (db, rows) = open(&directory, scheme);
        assert_eq!(keys(&db, &rows), (0..written).collect::<Vec<_>>(), "{scheme}, opened again");
    }
}

#[test]
fn deleting_makes_room() {
    for scheme in SCHEMES {
        let (directory, _) = device(4 << 20);
        let (db, rows) = open(&directory, scheme);
        let mut first = 0;
        for round in 0..3 {
            let end = fill(&db, &rows, first);
            // All rows but some, a few per transaction.
            let kept = end - 20;
            for key in first..kept {
                if key < first + 20 {
                    // The delete is not refused even for a moment.
                    assert!(db.run(|txn| txn.delete(&rows, &key)).unwrap(), "{scheme}, round {round}");
                } else {
                    when_there_is_room(&db, |txn| txn.delete(&rows, &key).map(drop));
                }
            }
            first = end;
            write_when_there_is_room(&db, &rows, first);
            first += 1;
            let left = keys(&db, &rows);
            assert!(left.len() as u64 >= 21 && left.contains(&(kept + 1)), "{scheme}, round {round}");
            for key in left {
                when_there_is_room(&db, |txn| txn.delete(&rows, &key).map(drop));
            }
        }
        drop((db, rows));
        assert_right(&directory);
    }
}

/// A device that holds fewer files of the log than the engine usually keeps: the rows that were deleted leave room only
/// if their files are freed nevertheless.
#[test]
fn deleting_makes_room_on_a_small_device() {
    for scheme in SCHEMES {
        let (directory, _) = device(450 << 10);
        let (db, rows) = open(&directory, scheme);
        for round in 0..3 {
            let end = fill(&db, &rows, 0);
            assert!(end > 10, "{scheme}, round {round}: only {end} rows fit");
            for key in 0..end {
                when_there_is_room(&db, |txn| txn.delete(&rows, &key).map(drop));
            }
            write_when_there_is_room(&db, &rows, 0);
        }
        drop((db, rows));
        assert_right(&directory);
    }
}

#[test]
fn a_device_that_others_fill_up_stops_nobody_for_ever() {
    for scheme in SCHEMES {
        let (directory, capacity) = device(1 << 30);
        let (db, rows) = open(&directory, scheme);
        (0..300).for_each(|key| db.run(|txn| txn.put(&rows, &key, value(key).as_slice())).unwrap());
        // Other programs take the whole device, the reserve included: commits that no client waits for are in flight
        // meanwhile.
        capacity.store(0, SeqCst);
        let no_wait = TxnOptions::default().durability(Durability::Async);
        let mut last = 300;
        while db.run_with(no_wait.clone(), |txn| txn.put(&rows, &last, value(last).as_slice())).is_ok() {
            last += 1;
            assert!(last < 20_000, "{scheme}: nothing is refused");
        }
        assert_eq!(keys(&db, &rows).len() as u64, last, "{scheme}");
        capacity.store(1 << 30, SeqCst);
        write_when_there_is_room(&db, &rows, last);
        db.sync().unwrap();
        drop((db, rows));
        assert_right(&directory);
        let (db, rows) = open(&directory, scheme);
        assert_eq!(keys(&db, &rows), (0..=last).collect::<Vec<_>>(), "{scheme}");
    }
}

#[test]
fn only_a_sync_that_fails_is_final() {
    for scheme in SCHEMES {
        let directory = FaultyDirectory::new();
        let (db, rows) = open(&directory, scheme);
        (0..10).for_each(|key| db.run(|txn| txn.put(&rows, &key, value(key).as_slice())).unwrap());
        directory.fail_when(|_, attempt| {
            let is_log = |name: &str| name.starts_with("log-") || name.starts_with("redo-");
            matches!(attempt, Attempt::Sync(name) if is_log(name)).then_some(Fault::NoSpace)
        });
        let failed = db.run(|txn| txn.put(&rows, &10, value(10).as_slice()));
        assert!(matches!(failed, Err(Error::Poisoned(_))), "{scheme}: {failed:?}");
        assert!(db.failure().is_some(), "{scheme}");
        directory.fail_when(|_, _| None);
        assert!(matches!(db.run(|txn| txn.put(&rows, &11, value(11).as_slice())), Err(Error::Poisoned(_))));
        drop((db, rows));
        let (db, rows) = open(&directory, scheme);
        assert!(db.failure().is_none() && keys(&db, &rows).len() >= 10);
    }
}

/// A prepared transaction waits for room instead of failing.
#[test]
fn what_is_prepared_commits_when_there_is_room() {
    let (directory, capacity) = device(3 << 20);
    let (db, rows) = open(&directory, Scheme::SiSsn);
    let prepared = db.begin(TxnOptions::default()).unwrap();
    prepared.put(&rows, &1_000_000, value(1).as_slice()).unwrap();
    assert!(prepared.prepare().unwrap());
    let written = fill(&db, &rows, 0);
    capacity.store(0, SeqCst);
    thread::scope(|scope| {
        let committing = scope.spawn(move || prepared.commit().map(drop));
        // Other transactions are refused meanwhile, as often as they ask.
        for _ in 0..10 {
            assert!(matches!(db.run(|txn| txn.put(&rows, &written, value(1).as_slice())), Err(Error::DiskFull(_))));
            thread::sleep(Duration::from_millis(5));
        }
        capacity.store(1 << 30, SeqCst);
        committing.join().unwrap().unwrap();
    });
    assert_eq!(db.run(|txn| txn.get(&rows, &1_000_000)).unwrap(), Some(value(1)));
}

/// A database opens on a full device, and goes on when there is room.
#[test]
fn a_database_is_opened_on_a_full_device() {
    for scheme in SCHEMES {
        let (directory, capacity) = device(3 << 20);
        let (db, rows) = open(&directory, scheme);
        let written = fill(&db, &rows, 0);
        drop((db, rows));
        let (db, rows) = open(&directory, scheme);
        assert_eq!(keys(&db, &rows).len() as u64, written, "{scheme}");
        capacity.store(1 << 30, SeqCst);
        write_when_there_is_room(&db, &rows, written);
        drop((db, rows));
        assert_right(&directory);
    }
}

/// A database that has kept no reserve yet says so, too, instead of waiting for the first file of its log.
#[test]
fn the_first_transaction_on_a_full_device_gets_an_error() {
    for scheme in SCHEMES {
        let (directory, capacity) = device(40 << 10);
        let db = Database::open_in(Arc::new(directory.clone()), options(scheme)).unwrap();
        let refused = db.table::<u64, Vec<u8>>("rows").err();
        assert!(matches!(&refused, Some(Error::DiskFull(why)) if why.contains("65536 bytes")), "{scheme}: {refused:?}");
        capacity.store(1 << 20, SeqCst);
        let rows = db.table("rows").unwrap();
        write_when_there_is_room(&db, &rows, 0);
        drop((db, rows));
        // The same for a small database that is opened again.
        let taken = directory.bytes_of("");
        capacity.store(taken, SeqCst);
        let (db, rows) = open(&directory, scheme);
        let refused = db.run(|txn| txn.put(&rows, &1, value(1).as_slice()));
        assert!(matches!(refused, Err(Error::DiskFull(_))), "{scheme}: {refused:?}");
        assert_eq!(keys(&db, &rows), [0]);
        capacity.store(1 << 20, SeqCst);
        write_when_there_is_room(&db, &rows, 1);
        drop((db, rows));
        assert_right(&directory);
    }
}

/// Where room is short, a checkpoint frees every segment that has a file, before the next one has any. The database goes
/// on when there is room, whether it is opened again before or not.
#[test]
fn a_log_without_any_file_left_continues() {
    for is_opened_again in [true, false] {
        let (directory, capacity) = device(1 << 20);
        let (db, rows) = open(&directory, Scheme::SiSsn);
        write_when_there_is_room(&db, &rows, 0);
        drop((db, rows));
        // Room for a checkpoint, and for no file of the log.
        let taken = directory.bytes_of("");
        capacity.store(taken + (60 << 10), SeqCst);
        let without_files = |_| {
            let (db, rows) = open(&directory, Scheme::SiSsn);
            let is_short = |_| {
                thread::sleep(Duration::from_millis(5));
                let refused = db.run(|txn| txn.put(&rows, &1, value(1).as_slice()));
                assert!(refused.is_err(), "there is no room for it");
                matches!(refused, Err(Error::DiskFull(why)) if !why.contains("a file of the log needs"))
            };
            assert!((0..ATTEMPTS).any(is_short));
            // It fails if the log has already begun to wait for room for the next file.
            let _ = db.checkpoint();
            let is_without = directory.list().unwrap().iter().all(|name| !name.starts_with("log-"));
            if is_without && !is_opened_again {
                capacity.store(1 << 20, SeqCst);
                write_when_there_is_room(&db, &rows, 1);
            }
            is_without
        };
        assert!((0..ATTEMPTS).any(without_files));
        capacity.store(1 << 20, SeqCst);
        let (db, rows) = open(&directory, Scheme::SiSsn);
        assert_eq!(keys(&db, &rows).len(), if is_opened_again { 1 } else { 2 });
        write_when_there_is_room(&db, &rows, 2);
        drop((db, rows));
        assert_right(&directory);
    }
}
