//! Ermine beside other embedded engines: point reads, scans, and transactions that write, over one table in memory.
//!
//! Every engine gives the strongest isolation that it offers, and nothing waits for a device. Every measurement is a
//! process of its own; engines take turns within each round, so that other load on the machine affects all alike. Each
//! value contains its key, which every read checks, and a number that read-modify-writes increment: at the end the
//! numbers must add up to the increments that were committed.

#[path = "../report.rs"]
mod report;

use std::{
    collections::BTreeMap,
    error::Error,
    hint::black_box,
    ops::{Bound, ControlFlow},
    path::PathBuf,
    process::Command,
    sync::{
        RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use clap::{Parser, ValueEnum};
use ermine::{Database, Table};
use ermine_bench::{calibrate::Calibration, random::Random, report::Setting, zipf::Choice};

use crate::report::{Comparison, Figure, Measured, Output};

/// Compares embedded engines; prints thousands of transactions a second.
#[derive(Clone, Parser)]
struct Options {
    /// Number of rows.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Seconds that are measured, after a quarter of that time.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Skew of the keys in the columns `zipf`.
    #[arg(long, default_value_t = 0.99)]
    theta: f64,
    #[arg(long, value_delimiter = ',', default_values = ["ermine", "surrealmx", "lmdb", "btreemap"])]
    engines: Vec<Kind>,
    #[arg(long, value_delimiter = ',', default_values = ["get", "get-zipf", "get-batch", "scan", "mixed", "mixed-zipf", "rmw", "rmw-zipf"])]
    work: Vec<Work>,
    #[command(flatten)]
    output: Output,
    /// Measures the first engine and the first work in this process.
    #[arg(long, hide = true)]
    one: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// The default scheme, `si-ssn`.
    Ermine,
    /// In memory, serializable.
    Surrealmx,
    /// Memory-mapped; one writer at a time.
    Lmdb,
    /// A map behind a reader-writer lock: no versions, no rollback.
    Btreemap,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Work {
    /// One row is read.
    Get,
    GetZipf,
    /// One row is read; 1,024 such transactions are known beforehand (here `Database::run_many`).
    GetBatch,
    /// 100 rows are read.
    Scan,
    /// 70 of 100 transactions read a row, the others write one.
    Mixed,
    MixedZipf,
    /// Ten rows are read and written.
    Rmw,
    RmwZipf,
}

const VALUE_BYTES: usize = 100;
const SCAN_ROWS: usize = 100;
const STEPS: usize = 10;
const BATCH: usize = 1024;

type Value = [u8; VALUE_BYTES];

/// Creates the first value of a row.
fn value(key: u64) -> Value {
    let mut value = [key as u8; VALUE_BYTES];
    value[..8].copy_from_slice(&key.to_be_bytes());
    value[8..16].fill(0);
    value
}

fn word(value: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(value[at..at + 8].try_into().expect("eight bytes"))
}

/// Checks a value that was read, and returns its number.
fn check(key: u64, value: &[u8]) -> u64 {
    assert!(value.len() == VALUE_BYTES && word(value, 0) == key, "key {key} has another row's value");
    word(value, 8)
}

/// Checks a row of a scan, which is expected to be the one with the key `next`.
fn check_next(next: &mut u64, key: u64, value: &[u8]) {
    assert_eq!(key, *next, "the scan has left out rows, or shows others");
    black_box(check(key, value));
    *next += 1;
}

/// Checks a value, and returns a copy with its number incremented.
fn incremented(key: u64, seen: &[u8]) -> Value {
    check(key, seen);
    let mut value: Value = seen.try_into().expect("all values have the same length");
    let number = word(&value, 8) + 1;
    value[8..16].copy_from_slice(&number.to_be_bytes());
    value
}

/// An engine with a table.
trait Engine: Sync {
    /// Creates the rows `0..rows`.
    fn load(&self, rows: u64);
    /// Reads a row; returns its number.
    fn get(&self, key: u64) -> u64;
    /// Reads a row in each of 1,024 transactions.
    fn get_batch(&self, keys: &[u64; BATCH]) {
        for key in keys {
            black_box(self.get(*key));
        }
    }
    /// Reads 100 rows from a key on; returns their number.
    fn scan(&self, first: u64) -> usize;
    /// Writes a row; returns how often the transaction was tried in vain.
    fn put(&self, key: u64, value: &Value) -> u64;
    /// Increments the numbers of ten rows in one transaction; returns how often it was tried in vain.
    fn increment(&self, keys: &[u64; STEPS]) -> u64;
}

struct Ermine {
    db: Database,
    table: Table<u64, Vec<u8>>,
}

impl Ermine {
    fn new() -> Self {
        let db = Database::open_in_memory(ermine::Options::default()).expect("a database in memory opens");
        let table = db.table("rows").expect("a new table opens");
        Self { db, table }
    }
}

impl Engine for Ermine {
    fn load(&self, rows: u64) {
        const BATCH: usize = 1000;
        for first in (0..rows).step_by(BATCH) {
            let batch = first..rows.min(first + BATCH as u64);
            let loaded =
                self.db.run(|txn| batch.clone().try_for_each(|key| txn.insert(&self.table, &key, &value(key)[..])));
            loaded.expect("nothing conflicts");
        }
    }

    fn get(&self, key: u64) -> u64 {
        let read: ermine::Result<_> =
            self.db.run(|txn| Ok(txn.view(&self.table, &key)?.map(|value| check(key, value))));
        read.expect("a read commits").expect("all rows are there")
    }

    fn get_batch(&self, keys: &[u64; BATCH]) {
        let read = self.db.run_many(
            keys,
            |key, rows| rows.row(&self.table, *key),
            |txn, key| Ok(txn.view(&self.table, *key)?.map(|value| check(**key, value))),
        );
        read.into_iter().for_each(|read: ermine::Result<_>| {
            black_box(read.expect("a read commits").expect("all rows are there"));
        });
    }

    fn scan(&self, first: u64) -> usize {
        let read: ermine::Result<_> = self.db.run(|txn| {
            let mut next = first;
            txn.scan(&self.table, first..).limit(SCAN_ROWS).for_each(|key, value| {
                check_next(&mut next, key, value);
                Ok(ControlFlow::Continue(()))
            })?;
            Ok((next - first) as usize)
        });
        read.expect("a scan commits")
    }

    fn put(&self, key: u64, value: &Value) -> u64 {
        let mut tries = 0;
        let done = self.db.run(|txn| {
            tries += 1;
            txn.put(&self.table, &key, &value[..])
        });
        done.expect("a put commits");
        tries - 1
    }

    fn increment(&self, keys: &[u64; STEPS]) -> u64 {
        let mut tries = 0;
        let done: ermine::Result<()> = self.db.run(|txn| {
            tries += 1;
            for key in keys {
                let seen = txn.view(&self.table, key)?.expect("all rows are there");
                let value = incremented(*key, seen);
                txn.put(&self.table, key, &value[..])?;
            }
            Ok(())
        });
        done.expect("increments commit");
        tries - 1
    }
}

impl Engine for surrealmx::Database {
    fn load(&self, rows: u64) {
        for key in 0..rows {
            self.set(key.to_be_bytes().as_slice(), value(key).as_slice()).expect("nothing conflicts");
        }
    }

    fn get(&self, key: u64) -> u64 {
        // Without a transaction: its documentation calls that linearizable, and it is faster.
        let read = self.with_value(key.to_be_bytes().as_slice(), |value| check(key, value));
        read.expect("a read succeeds").expect("all rows are there")
    }

    fn scan(&self, first: u64) -> usize {
        let mut txn = self.transaction(false);
        let (first, last) = (first.to_be_bytes(), u64::MAX.to_be_bytes());
        let mut next = word(&first, 0);
        let count = txn.scan_with(first.as_slice()..last.as_slice(), None, Some(SCAN_ROWS), |key, value| {
            check_next(&mut next, word(key, 0), value);
            true
        });
        let count = count.expect("a scan succeeds");
        txn.cancel().expect("a reader ends");
        count
    }

    fn put(&self, key: u64, value: &Value) -> u64 {
        for tries in 0.. {
            let mut txn = self.transaction(true);
            txn.set(key.to_be_bytes().as_slice(), value.as_slice()).expect("a put succeeds");
            if is_committed(&mut txn) {
                return tries;
            }
        }
        unreachable!("it commits before")
    }

    fn increment(&self, keys: &[u64; STEPS]) -> u64 {
        for tries in 0.. {
            let mut txn = self.transaction(true);
            for &number in keys {
                let key = number.to_be_bytes();
                let read = txn.with_value(key.as_slice(), |value| incremented(number, value));
                let value = read.expect("a read succeeds").expect("all rows are there");
                txn.set(key.as_slice(), value.as_slice()).expect("a put succeeds");
            }
            if is_committed(&mut txn) {
                return tries;
            }
        }
        unreachable!("it commits before")
    }
}

/// Commits; returns whether the transaction has lost no conflict.
fn is_committed(txn: &mut surrealmx::Transaction) -> bool {
    match txn.commit() {
        Ok(()) => true,
        Err(surrealmx::Error::KeyReadConflict | surrealmx::Error::KeyWriteConflict) => false,
        Err(error) => panic!("a transaction does not commit: {error}"),
    }
}

struct Lmdb {
    env: heed::Env,
    table: heed::Database<heed::types::Bytes, heed::types::Bytes>,
    directory: PathBuf,
}

impl Lmdb {
    fn new() -> Self {
        // In memory, where the system has a place for that: no page is ever written back.
        let memory = PathBuf::from("/dev/shm");
        let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let directory = parent.join(format!("ermine-compare-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory for temporary files is there");
        let mut options = heed::EnvOpenOptions::new();
        options.map_size(8 << 30);
        // SAFETY: the directory is this process's own, and the file is not opened twice. Without synchronization, a
        // crash of the system may lose the file, which is removed anyway.
        let env = unsafe {
            options.flags(heed::EnvFlags::NO_SYNC | heed::EnvFlags::WRITE_MAP | heed::EnvFlags::NO_META_SYNC);
            options.open(&directory).expect("a new environment opens")
        };
        let mut txn = env.write_txn().expect("a writer begins");
        let table = env.create_database(&mut txn, None).expect("a table is created");
        txn.commit().expect("a writer commits");
        Self { env, table, directory }
    }
}

impl Drop for Lmdb {
    fn drop(&mut self) {
        // A leftover in the directory for temporary files is no failure.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Engine for Lmdb {
    fn load(&self, rows: u64) {
        let mut txn = self.env.write_txn().expect("a writer begins");
        for key in 0..rows {
            self.table.put(&mut txn, &key.to_be_bytes(), &value(key)).expect("a put succeeds");
        }
        txn.commit().expect("a writer commits");
    }

    fn get(&self, key: u64) -> u64 {
        let txn = self.env.read_txn().expect("a reader begins");
        let read = self.table.get(&txn, &key.to_be_bytes()).expect("a read succeeds");
        check(key, read.expect("all rows are there"))
    }

    fn scan(&self, first: u64) -> usize {
        let txn = self.env.read_txn().expect("a reader begins");
        let from = first.to_be_bytes();
        let range = (Bound::Included(&from[..]), Bound::Unbounded);
        let rows = self.table.range(&txn, &range).expect("a scan begins");
        let mut next = first;
        for row in rows.take(SCAN_ROWS) {
            let (key, value) = row.expect("a scan succeeds");
            check_next(&mut next, word(key, 0), value);
        }
        (next - first) as usize
    }

    fn put(&self, key: u64, value: &Value) -> u64 {
        let mut txn = self.env.write_txn().expect("a writer begins");
        self.table.put(&mut txn, &key.to_be_bytes(), value).expect("a put succeeds");
        txn.commit().expect("a writer commits");
        0
    }

    fn increment(&self, keys: &[u64; STEPS]) -> u64 {
        let mut txn = self.env.write_txn().expect("a writer begins");
        for &number in keys {
            let key = number.to_be_bytes();
            let read = self.table.get(&txn, &key).expect("a read succeeds").map(|value| incremented(number, value));
            self.table.put(&mut txn, &key, &read.expect("all rows are there")).expect("a put succeeds");
        }
        txn.commit().expect("a writer commits");
        0
    }
}

/// A map behind a reader-writer lock.
#[derive(Default)]
struct Locked(RwLock<BTreeMap<u64, Value>>);

impl Engine for Locked {
    fn load(&self, rows: u64) {
        self.0.write().expect("no thread panicked").extend((0..rows).map(|key| (key, value(key))));
    }

    fn get(&self, key: u64) -> u64 {
        check(key, &self.0.read().expect("no thread panicked")[&key])
    }

    fn scan(&self, first: u64) -> usize {
        let map = self.0.read().expect("no thread panicked");
        let mut next = first;
        map.range(first..).take(SCAN_ROWS).for_each(|(key, value)| check_next(&mut next, *key, value));
        (next - first) as usize
    }

    fn put(&self, key: u64, value: &Value) -> u64 {
        self.0.write().expect("no thread panicked").insert(key, *value);
        0
    }

    fn increment(&self, keys: &[u64; STEPS]) -> u64 {
        let mut map = self.0.write().expect("no thread panicked");
        for key in keys {
            let value = map.get_mut(key).expect("all rows are there");
            *value = incremented(*key, value);
        }
        0
    }
}

/// Transactions that committed, and tries in vain.
#[derive(Default)]
struct Done {
    committed: u64,
    retried: u64,
}

/// Runs one transaction; returns how often it was tried in vain.
fn step(engine: &impl Engine, work: Work, rows: u64, choice: &Choice, random: &mut Random) -> u64 {
    match work {
        Work::Get | Work::GetZipf => {
            black_box(engine.get(choice.draw(random)));
        }
        Work::GetBatch => engine.get_batch(&std::array::from_fn(|_| choice.draw(random))),
        Work::Scan => {
            // A scan that starts near the end would be shorter.
            let first = choice.draw(random).min(rows - SCAN_ROWS as u64);
            assert_eq!(engine.scan(first), SCAN_ROWS);
        }
        Work::Mixed | Work::MixedZipf => {
            let key = choice.draw(random);
            if random.percent(70) {
                black_box(engine.get(key));
            } else {
                return engine.put(key, &value(key));
            }
        }
        Work::Rmw | Work::RmwZipf => return engine.increment(&std::array::from_fn(|_| choice.draw(random))),
    }
    0
}

/// Measures one work; returns transactions a second and retries a transaction.
fn measure(engine: &impl Engine, work: Work, options: &Options) -> (f64, f64) {
    engine.load(options.rows);
    let theta = match work {
        Work::GetZipf | Work::MixedZipf | Work::RmwZipf => options.theta,
        Work::Get | Work::GetBatch | Work::Scan | Work::Mixed | Work::Rmw => 0.0,
    };
    let transactions = if matches!(work, Work::GetBatch) { BATCH as u64 } else { 1 };
    let choice = Choice::new(options.rows, theta);
    let (begun, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let increments = AtomicU64::new(0);
    let (done, elapsed) = thread::scope(|scope| {
        let clients: Vec<_> = (0..options.threads)
            .map(|number| {
                let (choice, begun, over, increments) = (&choice, &begun, &over, &increments);
                scope.spawn(move || {
                    let mut random = Random::new(1, number as u64);
                    let (mut done, mut all) = (Done::default(), 0);
                    // Relaxed: nothing else is shared through these.
                    while !over.load(Ordering::Relaxed) {
                        for _ in 0..16 {
                            let retried = step(engine, work, options.rows, choice, &mut random);
                            all += 1;
                            if begun.load(Ordering::Relaxed) && !over.load(Ordering::Relaxed) {
                                done.committed += transactions;
                                done.retried += retried;
                            }
                        }
                    }
                    increments.fetch_add(all * STEPS as u64, Ordering::Relaxed);
                    done
                })
            })
            .collect();
        thread::sleep(Duration::from_secs_f64(options.seconds / 4.0));
        let begin = Instant::now();
        begun.store(true, Ordering::Relaxed);
        thread::sleep(Duration::from_secs_f64(options.seconds));
        over.store(true, Ordering::Relaxed);
        let elapsed = begin.elapsed();
        let done = clients.into_iter().map(|client| client.join().expect("clients do not panic"));
        let done = done.fold(Done::default(), |sum, done| Done {
            committed: sum.committed + done.committed,
            retried: sum.retried + done.retried,
        });
        (done, elapsed)
    });
    if matches!(work, Work::Rmw | Work::RmwZipf) {
        let found: u64 = (0..options.rows).map(|key| engine.get(key)).sum();
        assert_eq!(found, increments.into_inner(), "increments are lost or done twice");
    }
    (done.committed as f64 / elapsed.as_secs_f64(), done.retried as f64 / done.committed as f64)
}

fn name<T: ValueEnum>(value: T) -> String {
    value.to_possible_value().expect("every value has a name").get_name().to_owned()
}

fn one(options: &Options) -> (f64, f64) {
    let work = options.work[0];
    match options.engines[0] {
        Kind::Ermine => measure(&Ermine::new(), work, options),
        Kind::Surrealmx => measure(&surrealmx::Database::new(), work, options),
        Kind::Lmdb => measure(&Lmdb::new(), work, options),
        Kind::Btreemap => measure(&Locked::default(), work, options),
    }
}

fn in_a_process(engine: Kind, work: Work, options: &Options) -> (f64, f64) {
    let Options { rows, threads, seconds, theta, .. } = options;
    let child = Command::new(std::env::current_exe().expect("this program has a path"))
        .args(["--one", "--engines", &name(engine), "--work", &name(work), "--rows", &rows.to_string()])
        .args(["--threads", &threads.to_string(), "--seconds", &seconds.to_string(), "--theta", &theta.to_string()])
        .output()
        .expect("this program starts");
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    let line = String::from_utf8_lossy(&child.stdout);
    let mut numbers = line.split_whitespace().map(|number| number.parse().expect("a number"));
    let mut number = || numbers.next().expect("two numbers");
    (number(), number())
}

/// The rates and the retries of all engines; `rates` has them by engine, work and round.
fn comparison(options: &Options, setting: Setting, rates: &[Vec<Vec<(f64, f64)>>]) -> Comparison {
    let Options { rows, threads, seconds, rounds, theta, .. } = options;
    let figures = |quantity, number: fn(&(f64, f64)) -> f64| {
        options.work.iter().enumerate().map(move |(at, &work)| {
            let results = options.engines.iter().zip(rates).map(|(&engine, rates)| Measured {
                name: name(engine),
                rounds: rates[at].iter().map(number).collect(),
            });
            Figure { quantity, input: name(work), results: results.collect() }
        })
    };
    Comparison {
        title: "Ermine beside other embedded engines",
        setting,
        options: format!(
            "{rows} rows of {VALUE_BYTES} bytes, {threads} threads, {seconds} s each, {rounds} rounds, zipf {theta}"
        ),
        figures: figures("Thousands of transactions per second", |(rate, _)| rate / 1e3)
            .chain(figures("Retries per transaction", |&(_, retries)| retries))
            .collect(),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    if options.one {
        let (rate, retries) = one(&options);
        println!("{rate} {retries}");
        return Ok(());
    }
    let setting = Setting::here();
    let mut rates = vec![vec![Vec::new(); options.work.len()]; options.engines.len()];
    for round in 1..=options.rounds {
        eprintln!("round {round} of {}: {}", options.rounds, Calibration::measure());
        for (at, &work) in options.work.iter().enumerate() {
            for (&engine, rates) in options.engines.iter().zip(&mut rates) {
                rates[at].push(in_a_process(engine, work, &options));
            }
        }
    }
    options.output.write(&comparison(&options, setting, &rates))?;
    println!(
        "{} rows of {VALUE_BYTES} bytes, {} threads, medians of {} rounds, thousands a second (retries)",
        options.rows, options.threads, options.rounds
    );
    println!("{:10}{}", "", options.work.iter().map(|&work| format!("{:>16}", name(work))).collect::<String>());
    for (&engine, rates) in options.engines.iter().zip(&mut rates) {
        let cells = rates.iter_mut().map(|rates| {
            rates.sort_by(|one, other| one.0.total_cmp(&other.0));
            let (rate, retries) = rates[rates.len() / 2];
            let retries = if retries > 0.0 { format!(" ({retries:.3})") } else { String::new() };
            format!("{:>16}", format!("{:.0}{retries}", rate / 1000.0))
        });
        println!("{:10}{}", name(engine), cells.collect::<String>());
    }
    Ok(())
}
