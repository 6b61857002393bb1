//! Goal: with threads beside a build, the index has exactly the entries of the rows, and afterwards, too.
//!
//! Method. Threads insert, change and delete rows, roll back, and go back to savepoints, in transactions of several
//! writes that yield in the middle, some of them before the build and some after it. Once it is built, transactions
//! compare the index with the rows; when all threads have ended and all garbage is collected, each entry is compared.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    thread,
    time::Duration,
};

use fastrand::Rng;

use crate::{Database, Error, Options, Result, Scheme, SecondaryIndex, Table, Transaction, TxnOptions, Uniqueness};

const ROWS: u64 = 300;
const VALUES: u64 = 40;
const SNAPSHOT_TURNS: usize = 60;

struct Beside {
    db: Database,
    table: Table<u64, u64>,
    /// Transactions that have ended.
    ended: AtomicUsize,
    done: AtomicBool,
}

impl Beside {
    fn new(scheme: Scheme, is_unique: bool, random: &mut Rng) -> Self {
        let options = Options::default().scheme(scheme).wait_max(Duration::from_secs(60));
        let db = Database::open_in_memory(options).unwrap();
        let table = db.table("numbers").unwrap();
        db.run(|txn| {
            (0..ROWS).try_for_each(|key| txn.put(&table, &key, &if is_unique { key } else { random.u64(..VALUES) }))
        })
        .unwrap();
        Self { db, table, ended: AtomicUsize::new(0), done: AtomicBool::new(false) }
    }

    /// Runs transactions until all is done.
    fn write(&self, mut random: Rng, values: u64) {
        while !self.done.load(SeqCst) {
            let mut txn = self.db.begin(TxnOptions::default()).unwrap();
            match self.steps(&mut txn, &mut random, values) {
                Ok(()) if random.u8(..5) > 0 => _ = txn.commit(),
                // The unique index refuses what it knows.
                Ok(()) | Err(Error::Abort(_) | Error::KeyExists { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            self.ended.fetch_add(1, SeqCst);
        }
    }

    fn steps(&self, txn: &mut Transaction<'_>, random: &mut Rng, values: u64) -> Result<()> {
        for _ in 0..random.u8(1..5) {
            let savepoint = if random.u8(..3) == 0 { Some(txn.savepoint()?) } else { None };
            let (key, value) = (random.u64(..ROWS), random.u64(..values));
            match random.u8(..4) {
                0 => _ = txn.delete(&self.table, &key)?,
                1 if txn.get(&self.table, &key)?.is_none() => txn.insert(&self.table, &key, &value)?,
                _ => txn.put(&self.table, &key, &value)?,
            }
            thread::yield_now();
            if let Some(savepoint) = savepoint
                && random.bool()
            {
                txn.roll_back_to(savepoint)?;
            }
        }
        Ok(())
    }

    /// Waits until so many more transactions have ended.
    fn wait_for(&self, transactions: usize) {
        let until = self.ended.load(SeqCst) + transactions;
        while self.ended.load(SeqCst) < until {
            thread::yield_now();
        }
    }

    /// Compares the index with the rows in a snapshot, where the scheme has one: it loses to no writer.
    fn compare(&self, index: &SecondaryIndex<u64, u64, u64>) {
        if self.db.scheme().has_snapshots() {
            let txn = self.db.begin(TxnOptions::snapshot()).unwrap();
            let mut rows = txn.scan(&self.table, ..).collect().unwrap();
            rows.sort_unstable_by_key(|&(key, value)| (value, key));
            assert_eq!(txn.scan_by(index, ..).collect().unwrap(), rows);
        }
    }

    /// Compares each entry of the index with the rows; no transaction runs.
    fn compare_entries(&self, scheme: Scheme) {
        let mut rows = BTreeMap::new();
        for (key, value) in self.db.run(|txn| txn.scan(&self.table, ..).collect()).unwrap() {
            rows.insert([value.to_be_bytes(), key.to_be_bytes()].concat(), key.to_be_bytes().to_vec());
        }
        let [keys, entries] = self.db.settled_entries("numbers");
        let key_of: BTreeMap<_, _> = keys.into_iter().map(|(key, row)| (row, key)).collect();
        let found: BTreeMap<_, _> =
            entries.into_iter().map(|(entry, row)| (entry, key_of.get(&row).cloned().unwrap_or_default())).collect();
        let missing: Vec<_> = rows.iter().filter(|row| !found.contains_key(row.0)).collect();
        let stray: Vec<_> = found.iter().filter(|entry| rows.get(entry.0) != Some(entry.1)).collect();
        assert!(missing.is_empty() && stray.is_empty(), "{scheme}: missing {missing:?}, stray {stray:?}");
    }
}

#[test]
fn an_index_has_exactly_the_entries_of_the_rows() {
    let seed = std::env::var("ERMINE_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("ERMINE_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    for scheme in Scheme::ALL {
        for turn in 0..6 {
            let is_unique = turn % 2 == 1;
            // So many values that a table without two equal ones is likely.
            let values = if is_unique { 1 << 40 } else { VALUES };
            let beside = Beside::new(scheme, is_unique, &mut random);
            thread::scope(|scope| {
                for _ in 0..4 {
                    let random = random.fork();
                    let beside = &beside;
                    scope.spawn(move || beside.write(random, values));
                }
                let uniqueness = if is_unique { Uniqueness::Unique } else { Uniqueness::NonUnique };
                beside.wait_for(random.usize(..30));
                let index = beside.db.index(&beside.table, "by value", uniqueness, |_, value| value);
                let index = index.unwrap_or_else(|error| {
                    beside.done.store(true, SeqCst);
                    panic!("{scheme} {error}")
                });
                for _ in 0..3 {
                    beside.compare(&index);
                    beside.wait_for(10);
                }
                beside.done.store(true, SeqCst);
            });
            beside.compare_entries(scheme);
        }
    }
}

/// Writers, some of which know the index and some of which do not, give few values to many rows: either the build finds
/// two equal ones, or no two rows are ever equal again.
#[test]
fn a_unique_index_is_built_over_unique_keys_only() {
    let seed = std::env::var("ERMINE_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("ERMINE_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    for scheme in Scheme::ALL {
        let mut built = 0;
        for _ in 0..12 {
            let beside = Beside::new(scheme, true, &mut random);
            thread::scope(|scope| {
                for _ in 0..3 {
                    let random = random.fork();
                    let beside = &beside;
                    scope.spawn(move || beside.write(random, 20 * ROWS));
                }
                beside.wait_for(random.usize(..10));
                let index = beside.db.index(&beside.table, "by value", Uniqueness::Unique, |_, value| value);
                beside.wait_for(if index.is_ok() { 60 } else { 5 });
                beside.done.store(true, SeqCst);
                match index {
                    Ok(_) => built += 1,
                    Err(Error::KeyExists { .. }) => {}
                    Err(error) => panic!("{scheme} {error}"),
                }
            });
            if beside.db.tables()[0].indexes.is_empty() {
                continue;
            }
            let mut values: Vec<u64> =
                beside.db.run(|txn| txn.scan(&beside.table, ..).collect()).unwrap().iter().map(|row| row.1).collect();
            values.sort_unstable();
            assert!(values.is_sorted_by(|one, next| one < next), "{scheme}: {values:?}");
            beside.compare_entries(scheme);
        }
        println!("{scheme}: {built} of 12 were built");
    }
}

/// Readers begin while an index is built and rows change to and fro between two values: the index shows to each reader
/// what the table does, or refuses it. An entry that a reader's snapshot needs may have been unused for a moment.
#[test]
fn snapshots_that_begin_beside_a_build_find_all_rows_or_are_refused() {
    let seed = std::env::var("ERMINE_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("ERMINE_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    let mut used = 0;
    for turn in 0..SNAPSHOT_TURNS {
        let beside = Beside::new(Scheme::Si, true, &mut random);
        let index = thread::scope(|scope| {
            for _ in 0..2 {
                let mut random = random.fork();
                let beside = &beside;
                scope.spawn(move || {
                    while !beside.done.load(SeqCst) {
                        let key = random.u64(..ROWS);
                        // Half of the time the value that is there already.
                        let value = key + ROWS * random.u64(..2);
                        let _ = beside.db.run(|txn| txn.put(&beside.table, &key, &value));
                        beside.ended.fetch_add(1, SeqCst);
                    }
                });
            }
            let reader = scope.spawn(|| {
                let mut open = Vec::new();
                while !beside.done.load(SeqCst) {
                    let txn = beside.db.begin(TxnOptions::read_only()).unwrap();
                    let mut rows = txn.scan(&beside.table, ..).collect().unwrap();
                    rows.sort_unstable_by_key(|&(key, value)| (value, key));
                    open.push((txn, rows));
                    if open.len() > 64 {
                        open.remove(0);
                    }
                }
                open
            });
            beside.wait_for(random.usize(..30));
            let index = beside.db.index(&beside.table, "by value", Uniqueness::Unique, |_, value| value);
            beside.wait_for(10);
            beside.done.store(true, SeqCst);
            let index = index.unwrap();
            for (txn, rows) in reader.join().unwrap() {
                match txn.scan_by(&index, ..).collect() {
                    Ok(found) => assert_eq!(found, rows, "turn {turn}"),
                    Err(Error::Schema(_)) => continue,
                    Err(error) => panic!("turn {turn}: {error}"),
                }
                used += 1;
            }
            index
        });
        beside.compare(&index);
        beside.compare_entries(Scheme::Si);
    }
    println!("{used} snapshots used the index");
}
