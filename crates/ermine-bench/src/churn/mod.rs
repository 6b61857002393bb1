//! Updates on a fixed number of rows for a long time: does memory stay flat?
//!
//! The rows are those of the TPC-C-like schema, without the tables that grow. In a hundred transactions of a thread:
//!
//! | share | transaction |
//! |---|---|
//! | 45 | increments a district's counter and takes ten items from the stock |
//! | 43 | books a payment to a district and a customer |
//! | 6 | advances a queue: deletes its oldest order, inserts a new one |
//! | 6 | deletes a customer, then, in a second transaction, inserts the same one under another name |
//!
//! The first two supersede versions, the third moves through the key space of an index, the fourth leaves tombstones
//! that are overwritten and moves entries of a secondary index. The first quarter of the run is for pools to fill.
//! There are two steps from quarter to quarter after it, each taken between the least resident memory of the two
//! quarters. Memory is flat if one of the two steps is no more than 2.5 % or 4 MiB: a leak shows in both, while garbage
//! that piles up once, when the system holds up a thread that others wait for, makes one step and stays in the pools.
//! The 4 MiB are for small databases, where they are more than 2.5 %.

mod report;

use std::{
    fmt,
    ops::ControlFlow,
    sync::Arc,
    time::{Duration, Instant},
};

use ermine::{Access, Database, Job, Scheme, Transaction, TxnOptions, observer::Observer, zerocopy::FromZeros};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::{
    Error, Result,
    abort_shapes::ShapeSummary,
    latency::Quantiles,
    random::Random,
    report::{Memory, Setting, grouped, scheme_name, seconds},
    series::Series,
    storage::{self, LogSummary, LogUse, Storage},
    tpcc::{Customer, District, Stock, Tables, last_name},
    trial::{self, Client, ClientContext, RunOptions},
    tuning::Tuning,
};

/// Options of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// Concurrency control.
    #[serde(serialize_with = "scheme_name")]
    pub scheme: Scheme,
    /// Threads; there may be more than cores.
    pub threads: usize,
    /// Rows at the beginning and at the end.
    pub rows: u32,
    /// Duration of the run.
    #[serde(serialize_with = "seconds", rename = "seconds")]
    pub duration: Duration,
    /// Seed of all draws.
    pub seed: u64,
    /// Transactions that begin a second ([`RunOptions::rate`]).
    #[serde(rename = "offered_per_second")]
    pub rate: Option<f64>,
    /// Whether to count aborts by shape.
    pub explain_aborts: bool,
    /// Where the database is stored; in memory if not set.
    pub storage: Option<Storage>,
    /// Settings of the engine.
    pub tuning: Tuning,
    /// Observes every transaction, the loader's too.
    #[serde(skip)]
    pub observer: Option<Arc<dyn Observer>>,
}

/// Shortest run that has enough samples in every quarter.
const SECONDS_MIN: u64 = 8;
/// Fewest rows with which all tables have some.
const ROWS_MIN: u32 = 1_000;
/// Maximum growth from one quarter to the next, in percent, or in MiB if that is more.
const GROWTH_PERCENT_MAX: f64 = 2.5;
const GROWTH_MIB_MAX: f64 = 4.0;

impl Options {
    /// Fails if the options cannot work.
    pub fn check(&self) -> Result<()> {
        let usage = |why: String| Err(Error::Usage(why));
        if self.threads == 0 || self.threads > 1_000 {
            return usage("the number of threads lies between 1 and 1000".into());
        }
        if self.rows < ROWS_MIN {
            return usage(format!("at least {ROWS_MIN} rows are needed"));
        }
        if self.duration < Duration::from_secs(SECONDS_MIN) {
            return usage(format!("at least {SECONDS_MIN} seconds are needed: the quarters of the run are compared"));
        }
        storage::check(&[self.scheme], self.storage.as_ref(), &self.tuning)
    }

    /// The options of the trial: all of it is measured.
    fn run_options(&self) -> RunOptions {
        RunOptions {
            warmup: Duration::ZERO,
            measured: self.duration,
            rate: self.rate,
            seed: self.seed,
            explain_aborts: self.explain_aborts,
            storage: self.storage.clone(),
            tuning: self.tuning.clone(),
            observer: self.observer.clone(),
            ..RunOptions::default()
        }
    }
}

/// Memory at one moment.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sample {
    /// Seconds since the beginning of the run.
    pub seconds: f64,
    /// Transactions per second since the last sample.
    pub per_second: f64,
    /// Memory figures.
    pub memory: Memory,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>6.0} s  {:>12} txn/s  {}", self.seconds, grouped(self.per_second as u64), self.memory)
    }
}

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The machine.
    pub setting: Setting,
    /// The options of the run.
    pub options: Options,
    /// Memory over time.
    pub samples: Vec<Sample>,
    /// Throughput over time.
    pub series: Series,
    /// Transactions committed.
    pub committed: u64,
    /// Attempts that lost a conflict.
    pub aborted: u64,
    /// Attempts that lost the same conflict as the attempt before: same kind, table and key.
    pub repeated: u64,
    /// Latency of transactions, with all retries, up to the acknowledgement.
    pub latency: Quantiles,
    /// Use of the log, if the database had a directory.
    pub log: Option<LogSummary>,
    /// Aborted attempts by shape, if they are to be explained.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub abort_shapes: Vec<ShapeSummary>,
    /// The smaller of the two steps of resident memory after the first quarter.
    pub growth: Growth,
    /// Rows found at the end.
    pub rows_found: u64,
}

impl Summary {
    /// Whether memory stayed flat and no row is missing.
    pub fn holds(&self) -> bool {
        self.is_flat() && self.rows_found == u64::from(self.options.rows)
    }

    fn is_flat(&self) -> bool {
        self.growth.percent <= GROWTH_PERCENT_MAX || self.growth.mib <= GROWTH_MIB_MAX
    }
}

/// Growth of memory from one time to another.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Growth {
    /// Relative growth.
    pub percent: f64,
    /// Absolute growth.
    pub mib: f64,
}

/// Loads, runs, and samples memory a hundred times, but at most once a second.
pub fn drive(
    options: &Options,
    setting: Setting,
    progress: &ProgressBar,
    watch: &mut dyn FnMut(&Sample),
) -> Result<Summary> {
    options.check()?;
    let run_options = options.run_options();
    let db = run_options.open(options.scheme)?;
    let tables: Tables = Tables::open(&db)?;
    let rows = Rows::split(options.rows, options.threads as u32);
    load(&db, &tables, rows, progress)?;
    progress.finish_and_clear();

    let clerks = (0..options.threads).map(|number| Clerk::new(options, &tables, rows, number as u32)).collect();
    let interval = (options.duration / 100).max(Duration::from_millis(999));
    let (mut samples, mut done, mut last) = (Vec::new(), 0, Instant::now());
    let (_, counts) = trial::run(&db, clerks, Change::NAMES.len(), &run_options, &mut |tick| {
        done += tick.done.completed;
        if last.elapsed() >= interval {
            let per_second = done as f64 / last.elapsed().as_secs_f64();
            (done, last) = (0, Instant::now());
            let sample = Sample { seconds: tick.elapsed.as_secs_f64(), per_second, memory: Memory::now(&db) };
            watch(&sample);
            samples.push(sample);
        }
    })?;
    let total = counts.total();
    Ok(Summary {
        setting,
        options: options.clone(),
        growth: Growth::over(&samples, options.duration),
        samples,
        committed: total.committed,
        aborted: total.conflicts.aborted,
        repeated: total.conflicts.repeated,
        latency: total.latency.quantiles(),
        log: counts.log.map(LogUse::summary),
        abort_shapes: counts.shapes.summaries(&Change::NAMES),
        series: counts.series,
        rows_found: count(&db, &tables)?,
    })
}

impl Growth {
    /// The smaller of the two steps of resident memory from the second quarter to the third, and from there to the
    /// last.
    fn over(samples: &[Sample], duration: Duration) -> Self {
        // The least of a quarter: a change within a quarter counts for one step only.
        let least = |quarter: usize| {
            let of = |sample: &Sample| (sample.seconds / duration.as_secs_f64() * 4.0).min(3.9) as usize;
            let within = samples.iter().filter(|sample| of(sample) == quarter);
            within.map(|sample| sample.memory.resident_bytes).min().map_or(f64::NAN, |bytes| bytes as f64)
        };
        let step = |before: f64, after: f64| Self {
            percent: 100.0 * (after / before - 1.0),
            mib: (after - before) / f64::from(1 << 20),
        };
        let (second, third, last) = (least(1), least(2), least(3));
        let (early, late) = (step(second, third), step(third, last));
        if early.mib < late.mib { early } else { late }
    }
}

/// Numbers of rows of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rows {
    districts: u32,
    stock: u32,
    customers: u32,
    /// Orders in each thread's queue, and the number of queues, which is that of threads.
    queue: u32,
    queues: u32,
}

impl Rows {
    /// A tenth in queues, 1 % districts, the rest stock and customers as in the schema: five to three.
    fn split(rows: u32, threads: u32) -> Self {
        let queue = (rows / 10 / threads).max(1);
        let districts = rows / 100;
        let rest = rows - districts - queue * threads;
        let customers = rest / 8 * 3;
        Self { districts, stock: rest - customers, customers, queue, queues: threads }
    }
}

/// Creates a customer with a random name.
fn new_customer(random: &mut Random) -> Customer {
    Customer { last: last_name(random.below(1_000) as u32), ..Customer::new_zeroed() }
}

/// All districts, customers and stock are those of one warehouse; the key has no bounds.
const W: u32 = 1;

fn district_key(n: u32) -> (u32, u8) {
    (n / 10, (n % 10) as u8)
}

fn customer_key(n: u32) -> (u32, u8, u32) {
    (W, (n % 10) as u8, n)
}

fn load(db: &Database, tables: &Tables, rows: Rows, progress: &ProgressBar) -> Result<()> {
    progress.set_length(u64::from(rows.districts + rows.stock + rows.customers + rows.queue * rows.queues));
    insert(db, rows.districts, progress, |txn, n| {
        txn.insert(&tables.district, &district_key(n), &District::new_zeroed())
    })?;
    insert(db, rows.stock, progress, |txn, n| txn.insert(&tables.stock, &(W, n), &Stock::new_zeroed()))?;
    insert(db, rows.customers, progress, |txn, n| {
        txn.insert(&tables.customer, &customer_key(n), &new_customer(&mut Random::new(0, u64::from(n))))
    })?;
    for queue in 0..rows.queues {
        insert(db, rows.queue, progress, |txn, n| txn.insert(&tables.new_order, &(queue, 0, n), &()))?;
    }
    Ok(())
}

/// Inserts rows 0 to `count` in transactions of 500.
fn insert(
    db: &Database,
    count: u32,
    progress: &ProgressBar,
    row: impl Fn(&Transaction<'_>, u32) -> ermine::Result<()>,
) -> Result<()> {
    for first in (0..count).step_by(500) {
        let batch = first..count.min(first + 500);
        db.run_with(storage::loading(), |txn| batch.clone().try_for_each(|n| row(txn, n)))?;
        progress.inc(batch.len() as u64);
    }
    Ok(db.sync()?)
}

/// Counts the rows of all tables.
fn count(db: &Database, tables: &Tables) -> Result<u64> {
    let txn = db.begin(TxnOptions::read_only())?;
    let mut rows = 0;
    txn.scan(&tables.district, ..).for_each(|_, _| {
        rows += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    txn.scan(&tables.stock, ..).for_each(|_, _| {
        rows += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    txn.scan_by(&tables.customer_by_name, ..).for_each(|_, _| {
        rows += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    txn.scan(&tables.new_order, ..).for_each(|_, ()| {
        rows += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    txn.commit()?;
    Ok(rows)
}

/// A client thread.
struct Clerk<'a> {
    tables: &'a Tables,
    rows: Rows,
    random: Random,
    /// This thread's queue: its number, and the oldest order in it.
    queue: u32,
    oldest: u32,
}

impl<'a> Clerk<'a> {
    fn new(options: &Options, tables: &'a Tables, rows: Rows, number: u32) -> Self {
        Self { tables, rows, random: Random::new(options.seed, u64::from(number) + 1), queue: number, oldest: 0 }
    }

    /// Runs a transaction; returns whether the row existed.
    fn execute(&self, context: &mut ClientContext<'_>, change: Change) -> Result<bool> {
        let (number, apply) = (change.number(), Apply { tables: self.tables, change });
        Ok(context.run(number, apply)? == Some(true))
    }
}

impl Client for Clerk<'_> {
    fn step(&mut self, context: &mut ClientContext<'_>) -> Result<()> {
        let Self { rows, random, .. } = self;
        let district = random.below(u64::from(rows.districts)) as u32;
        let customer = random.below(u64::from(rows.customers)) as u32;
        match random.below(100) {
            0..45 => {
                let items = std::array::from_fn(|_| random.below(u64::from(rows.stock)) as u32);
                self.execute(context, Change::Order { district, items })?;
            }
            45..88 => {
                let amount = random.uniform(100..=500_000) as i64;
                self.execute(context, Change::Pay { district, customer, amount })?;
            }
            88..94 => {
                let (queue, oldest) = (self.queue, self.oldest);
                // Numbers wrap around after 2^32 moves, when the first have been free for long.
                let next = oldest.wrapping_add(self.rows.queue);
                self.execute(context, Change::Move { queue, oldest, next })?;
                self.oldest = oldest.wrapping_add(1);
            }
            _ => {
                let row = new_customer(random);
                if self.execute(context, Change::Remove { customer })? {
                    self.execute(context, Change::Restore { customer, row })?;
                }
            }
        }
        Ok(())
    }
}

/// A transaction.
#[expect(clippy::large_enum_variant, reason = "lives on the stack for one transaction")]
enum Change {
    Order { district: u32, items: [u32; 10] },
    Pay { district: u32, customer: u32, amount: i64 },
    Move { queue: u32, oldest: u32, next: u32 },
    Remove { customer: u32 },
    Restore { customer: u32, row: Customer },
}

impl Change {
    const NAMES: [&str; 5] = ["order", "pay", "move", "remove", "restore"];

    /// Its index in [`Self::NAMES`].
    fn number(&self) -> usize {
        match self {
            Self::Order { .. } => 0,
            Self::Pay { .. } => 1,
            Self::Move { .. } => 2,
            Self::Remove { .. } => 3,
            Self::Restore { .. } => 4,
        }
    }
}

struct Apply<'a> {
    tables: &'a Tables,
    change: Change,
}

impl Job for Apply<'_> {
    /// Whether the row existed.
    type Output = bool;
    type Error = ermine::Error;

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> ermine::Result<bool> {
        let tables = self.tables;
        match &self.change {
            Change::Order { district, items } => {
                update_district(txn, tables, *district, |row| row.next_o_id = row.next_o_id.wrapping_add(1))?;
                for &item in items {
                    let Some(stock) = txn.view(&tables.stock, &(W, item))? else { return Ok(false) };
                    let mut stock = *stock;
                    stock.order_cnt = stock.order_cnt.wrapping_add(1);
                    txn.update(&tables.stock, &(W, item), &stock)?;
                }
                Ok(true)
            }
            Change::Pay { district, customer, amount } => {
                update_district(txn, tables, *district, |row| row.ytd += amount)?;
                let key = customer_key(*customer);
                // The row may be missing between its deletion and its reinsertion.
                let Some(row) = txn.view(&tables.customer, &key)? else { return Ok(false) };
                let mut row = *row;
                row.balance -= amount;
                row.payment_cnt = row.payment_cnt.wrapping_add(1);
                txn.update(&tables.customer, &key, &row)
            }
            Change::Move { queue, oldest, next } => {
                let found = txn.delete(&tables.new_order, &(*queue, 0, *oldest))?;
                txn.insert(&tables.new_order, &(*queue, 0, *next), &())?;
                Ok(found)
            }
            Change::Remove { customer } => txn.delete(&tables.customer, &customer_key(*customer)),
            Change::Restore { customer, row } => {
                txn.insert(&tables.customer, &customer_key(*customer), row)?;
                Ok(true)
            }
        }
    }
}

fn update_district<A: Access>(
    txn: &Transaction<'_, A>,
    tables: &Tables,
    n: u32,
    change: impl FnOnce(&mut District),
) -> ermine::Result<()> {
    if let Some(row) = txn.view(&tables.district, &district_key(n))? {
        let mut row = *row;
        change(&mut row);
        txn.update(&tables.district, &district_key(n), &row)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_share_all_rows() {
        for (rows, threads) in [(1_000, 1), (1_000_000, 3), (123_457, 64), (1_000, 100)] {
            let split = Rows::split(rows, threads);
            assert_eq!(split.districts + split.stock + split.customers + split.queue * split.queues, rows);
            assert!(split.districts > 0 && split.stock > 0 && split.customers > 0 && split.queue > 0, "{split:?}");
        }
    }

    fn samples(sizes: [u64; 8]) -> Vec<Sample> {
        let sample = |(n, resident_bytes)| Sample {
            seconds: n as f64 + 1.0,
            per_second: 0.0,
            memory: Memory { resident_bytes, version_bytes: 0, garbage_versions: 0 },
        };
        (0..8).zip(sizes).map(sample).collect()
    }

    #[test]
    fn what_grows_steadily_is_not_flat() {
        let growth = |sizes| Growth::over(&samples(sizes), Duration::from_secs(8)).percent;
        assert!(growth([1, 100, 100, 100, 100, 100, 100, 100]).abs() < 0.1);
        // A leak.
        assert!(growth([1, 80, 100, 103, 106, 109, 112, 115]) > 2.5);
        // A step, wherever it is.
        for step in 1..8 {
            assert!(growth(std::array::from_fn(|sample| if sample < step { 100 } else { 150 })) < 2.5);
        }
        assert!(growth([900, 100, 100, 100, 100, 102, 102, 102]) < 2.5);
    }

    #[test]
    fn options_that_cannot_work_are_refused() {
        let good = Options {
            scheme: Scheme::default(),
            threads: 2,
            rows: 1_000,
            duration: Duration::from_secs(8),
            seed: 0,
            rate: None,
            explain_aborts: false,
            storage: None,
            tuning: Tuning::default(),
            observer: None,
        };
        assert!(good.check().is_ok());
        assert!(Options { threads: 0, ..good.clone() }.check().is_err());
        assert!(Options { rows: 999, ..good.clone() }.check().is_err());
        assert!(Options { duration: Duration::from_secs(7), ..good }.check().is_err());
    }
}
