//! The works, and how one is measured: what every transaction reads is checked, and at the end of read-modify-writes
//! the numbers of the rows must add up to the increments that were committed.

use std::{
    hint::black_box,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use clap::ValueEnum;
use ermine_bench::{random::Random, zipf::Choice};

use crate::{
    engine::{BATCH, Engine, Session},
    skew,
    value::{VALUE_BYTES_MIN, check, increment, value},
};

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Work {
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
    /// Pairs of transactions that read the same two rows, and write one of them each if neither was written.
    Skew,
    /// Pairs of transactions that read the same empty range, and insert a row each if there is none.
    SkewRange,
    /// The rows are created, by one thread; with `--dir`, once before all other works.
    #[value(skip)]
    Load,
}

impl Work {
    /// The name on the command line, and in the report.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(|| "load".to_owned(), |value| value.get_name().to_owned())
    }

    /// Whether the outcome is what the engine lets happen, and not how fast it is.
    pub fn is_check(self) -> bool {
        matches!(self, Self::Skew | Self::SkewRange)
    }

    fn is_skewed(self) -> bool {
        matches!(self, Self::GetZipf | Self::MixedZipf | Self::RmwZipf)
    }

    fn increments(self) -> bool {
        matches!(self, Self::Rmw | Self::RmwZipf)
    }
}

/// The size of a measurement.
#[derive(Clone, clap::Args)]
pub struct Size {
    /// Number of rows.
    #[arg(long, default_value_t = 1_000_000)]
    pub rows: u64,
    /// Bytes of a value, at least 16.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(VALUE_BYTES_MIN as u64..))]
    pub value_bytes: u64,
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// Seconds before these; a quarter of them by default.
    #[arg(long)]
    pub warmup: Option<f64>,
    /// Skew of the keys in the works `..-zipf`.
    #[arg(long, default_value_t = 0.99)]
    pub theta: f64,
}

impl Size {
    /// The options by which another process measures the same.
    pub fn arguments(&self) -> Vec<String> {
        let Self { rows, value_bytes, threads, seconds, warmup, theta } = self;
        let warmup = warmup.unwrap_or(seconds / 4.0);
        let numbers = [*rows as f64, *value_bytes as f64, *threads as f64, *seconds, warmup, *theta];
        let names = ["--rows", "--value-bytes", "--threads", "--seconds", "--warmup", "--theta"];
        names.iter().zip(numbers).flat_map(|(name, number)| [name.to_string(), number.to_string()]).collect()
    }
}

/// The result of a measurement.
#[derive(Clone, Copy)]
pub struct Outcome {
    /// Transactions a second; for `Load`, rows.
    pub rate: f64,
    /// Retries of a transaction.
    pub retries: f64,
    /// The pairs of transactions that broke the invariant, if the work has one.
    pub broken: f64,
}

const SCAN_ROWS: usize = 100;
const STEPS: usize = 10;

/// Creates the rows.
pub fn load(engine: &dyn Engine, size: &Size) -> Outcome {
    let begin = Instant::now();
    engine.load(size.rows, size.value_bytes as usize);
    Outcome { rate: size.rows as f64 / begin.elapsed().as_secs_f64(), retries: 0.0, broken: 0.0 }
}

/// Measures one work on the rows that are there.
pub fn measure(engine: &dyn Engine, work: Work, size: &Size) -> Outcome {
    if work.is_check() {
        return skew::check(engine, work == Work::SkewRange, size);
    }
    let before = if work.increments() { total(engine, size.rows) } else { 0 };
    let choice = Choice::new(size.rows, if work.is_skewed() { size.theta } else { 0.0 });
    let transactions = if work == Work::GetBatch { BATCH as u64 } else { 1 };
    let (begun, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let all = AtomicU64::new(0);
    let client = |number: usize| {
        let mut client = Client {
            session: engine.session(),
            random: Random::new(1, number as u64),
            choice: &choice,
            size,
            copy: Vec::new(),
        };
        let mut done = Done::default();
        // Relaxed: nothing else is shared through these.
        while !over.load(Ordering::Relaxed) {
            for _ in 0..16 {
                let retried = client.step(work);
                all.fetch_add(u64::from(work.increments()), Ordering::Relaxed);
                if begun.load(Ordering::Relaxed) && !over.load(Ordering::Relaxed) {
                    done.committed += transactions;
                    done.retried += retried;
                }
            }
        }
        done
    };
    let (done, elapsed) = thread::scope(|scope| {
        let client = &client;
        let clients: Vec<_> = (0..size.threads).map(|number| scope.spawn(move || client(number))).collect();
        thread::sleep(Duration::from_secs_f64(size.warmup.unwrap_or(size.seconds / 4.0)));
        let begin = Instant::now();
        begun.store(true, Ordering::Relaxed);
        thread::sleep(Duration::from_secs_f64(size.seconds));
        over.store(true, Ordering::Relaxed);
        let elapsed = begin.elapsed();
        let done = clients.into_iter().map(|client| client.join().expect("clients do not panic"));
        let done = done.fold(Done::default(), |sum, done| Done {
            committed: sum.committed + done.committed,
            retried: sum.retried + done.retried,
        });
        (done, elapsed)
    });
    if work.increments() {
        let expected = before + all.into_inner() * STEPS as u64;
        assert_eq!(total(engine, size.rows), expected, "increments are lost or done twice");
    }
    Outcome {
        rate: done.committed as f64 / elapsed.as_secs_f64(),
        retries: done.retried as f64 / done.committed.max(1) as f64,
        broken: 0.0,
    }
}

/// Transactions that committed, and tries in vain.
#[derive(Default)]
struct Done {
    committed: u64,
    retried: u64,
}

/// One thread's session, and what it draws its keys from.
struct Client<'e> {
    session: Box<dyn Session + 'e>,
    random: Random,
    choice: &'e Choice,
    size: &'e Size,
    /// The value that is being written.
    copy: Vec<u8>,
}

impl Client<'_> {
    /// Runs one transaction; returns how often it was tried in vain.
    fn step(&mut self, work: Work) -> u64 {
        match work {
            Work::Get | Work::GetZipf => self.get(),
            Work::GetBatch => {
                let keys = std::array::from_fn(|_| self.choice.draw(&mut self.random));
                self.session.get_batch(&keys, &mut |key, value| {
                    black_box(check(key, value));
                });
            }
            Work::Scan => {
                // A scan that starts near the end would be shorter.
                let first = self.choice.draw(&mut self.random).min(self.size.rows - SCAN_ROWS as u64);
                black_box(sum(&mut *self.session, first, self.size.rows, SCAN_ROWS));
            }
            Work::Mixed | Work::MixedZipf => {
                if self.random.percent(70) {
                    self.get();
                } else {
                    let key = self.choice.draw(&mut self.random);
                    return self.session.put(key, &value(key, self.size.value_bytes as usize));
                }
            }
            Work::Rmw | Work::RmwZipf => return self.increment(),
            Work::Skew | Work::SkewRange | Work::Load => unreachable!("it is no work of single transactions"),
        }
        0
    }

    fn get(&mut self) {
        let key = self.choice.draw(&mut self.random);
        self.session.get(key, &mut |value| {
            black_box(check(key, value));
        });
    }

    fn increment(&mut self) -> u64 {
        let keys: [u64; STEPS] = std::array::from_fn(|_| self.choice.draw(&mut self.random));
        let copy = &mut self.copy;
        self.session.transact(&mut |txn| {
            keys.iter().try_for_each(|&key| {
                txn.read(key, &mut |seen| increment(key, seen, copy))?;
                txn.write(key, copy)
            })
        })
    }
}

/// The sum of the numbers of some rows, which must be there in their order.
fn sum(session: &mut dyn Session, first: u64, rows: u64, limit: usize) -> u64 {
    let (mut next, mut numbers) = (first, 0);
    session.scan(first..rows, limit, &mut |key, value| {
        if key == first {
            // A further try of the transaction.
            (next, numbers) = (first, 0);
        }
        assert_eq!(key, next, "the scan has left out rows, or shows others");
        numbers += check(key, value);
        next += 1;
    });
    assert_eq!(next, rows.min(first + limit as u64), "the scan has ended before the last row");
    numbers
}

/// The sum of the numbers of all rows.
fn total(engine: &dyn Engine, rows: u64) -> u64 {
    const AT_ONCE: usize = 1000;
    let mut session = engine.session();
    (0..rows).step_by(AT_ONCE).map(|first| sum(&mut *session, first, rows, AT_ONCE)).sum()
}
