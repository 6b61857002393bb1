//! Many reads and few writes, under several schemes: the microbenchmark of ERMIA (figure 1, section 4.2).
//!
//! A transaction reads a number of records of the Stock table of TPC-C and writes a small share of them. As the share
//! and the footprint grow, an optimistic scheme that lets a transaction commit only if nothing that it read was
//! overwritten loses more and more of its work; a certifier that looks for cycles should not. A sweep goes over several
//! footprints and shares; all schemes run in one process, in interleaved rounds ([`crate::rounds`]).
//!
//! A write increments the order count of its record. At the end the counts must add up to the writes that committed.

use std::{fmt, hint::black_box, ops::ControlFlow};

use ermine::{Access, Database, Error, Job, Scheme, Table, Transaction, TxnOptions, zerocopy::FromZeros};
use serde::Serialize;

use crate::{
    Result,
    random::Random,
    report::{Setting, grouped, listed, scheme_names},
    rounds::{self, Comparison, Contender, Point, Turn},
    tpcc::Stock,
    trial::{self, Client, ClientContext, Counts, MEASURED, RunOptions},
    verdict::{Check, Promise, Verdict},
    zipf::Choice,
};

/// Options of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// Concurrency controls, in the order of the report.
    #[serde(serialize_with = "scheme_names")]
    pub schemes: Vec<Scheme>,
    /// Threads; there may be more than cores.
    pub threads: usize,
    /// Records of the table, 312 bytes each; a warehouse has 100,000.
    pub records: u64,
    /// Skew of the records drawn; 0 is uniform.
    pub theta: f64,
    /// Numbers of records that a transaction reads: one point each.
    pub reads: Vec<u32>,
    /// Percentages of the records read that are written: one point each. If that is less than one record per
    /// transaction, a corresponding share of the transactions write one.
    pub write_percents: Vec<f64>,
    /// Rounds into which the time of each scheme and point is cut.
    pub rounds: u32,
    /// Options that all workloads share; times are for each scheme and point.
    #[serde(flatten)]
    pub run_options: RunOptions,
}

/// Points of a sweep, as in the figure.
pub const SWEEP_READS: [u32; 3] = [100, 1_000, 10_000];
/// Points of a sweep, as in the figure.
pub const SWEEP_WRITE_PERCENTS: [f64; 4] = [0.01, 0.1, 1.0, 10.0];

impl Options {
    /// Fails if the options cannot work.
    pub fn check(&self) -> Result<()> {
        let usage = |why: String| Err(crate::Error::Usage(why));
        if self.threads == 0 {
            return usage("at least one thread is needed".into());
        }
        if !(1..=Choice::RECORDS_MAX).contains(&self.records) {
            return usage(format!("the number of records lies between 1 and {}", Choice::RECORDS_MAX));
        }
        if !(0.0..1.0).contains(&self.theta) {
            return usage("theta lies between 0 (uniform) and 1 (not included)".into());
        }
        if self.reads.is_empty() || self.reads.contains(&0) {
            return usage("a transaction reads at least one record".into());
        }
        if self.write_percents.is_empty() || !self.write_percents.iter().all(|share| (0.0..=100.0).contains(share)) {
            return usage("the share of writes lies between 0 and 100 %".into());
        }
        rounds::check(&self.schemes, self.rounds, &self.run_options)
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { schemes, threads, records, theta, reads, write_percents, rounds, run_options } = self;
        let (records, reads, writes) = (grouped(*records), listed(reads), listed(write_percents));
        write!(
            f,
            "schemes {}, {threads} threads, {records} records, theta {theta}, reads {reads}, writes {writes} %, each \
             scheme and point {run_options}, in {rounds} rounds",
            listed(schemes)
        )
    }
}

type Records = Table<u64, Stock>;

/// Data of a contender.
struct Shelf {
    records: Records,
    /// Writes that committed.
    written: u64,
}

/// The only kind of transaction.
const NAMES: [&str; 1] = ["take"];

/// Loads a database for each scheme, runs every point, and checks the sum of the writes.
pub fn drive(options: &Options, setting: Setting, watch: &mut dyn FnMut(&str, Turn)) -> Result<Comparison<Options>> {
    options.check()?;
    let mut contenders = rounds::contenders(&options.schemes, &options.run_options, |db| load(db, options.records))?;
    let choice = Choice::new(options.records, options.theta);
    let mut points = Vec::new();
    for &reads in &options.reads {
        for &percent in &options.write_percents {
            let name = format!("{} reads, {percent} % writes", grouped(u64::from(reads)));
            let order = Order { choice: &choice, reads, writes: f64::from(reads) * percent / 100.0 };
            let stream = (points.len() as u64) << 48;
            let trial = |contender: &mut Contender<Shelf>, round: u32, run_options: &RunOptions| {
                let stream = stream | u64::from(round) << 16;
                order.trial(contender, options.threads, stream, run_options)
            };
            let mut watch = |turn| watch(&name, turn);
            let counted = rounds::interleave(&mut contenders, options.rounds, &options.run_options, trial, &mut watch)?;
            points.push(Point::new(name, &contenders, &NAMES, &counted));
        }
    }
    let mut checks = Vec::new();
    for contender in &contenders {
        checks.extend(check(contender, options.records)?);
    }
    Ok(Comparison { workload: "stock", setting, options: options.clone(), points, checks })
}

fn load(db: &Database, count: u64) -> Result<Shelf> {
    let records: Records = db.table("stock")?;
    let row = Stock { quantity: 100, ..Stock::new_zeroed() };
    trial::insert_rows(db, count, |txn, record| txn.insert(&records, &record, &row))?;
    Ok(Shelf { records, written: 0 })
}

fn check(contender: &Contender<Shelf>, count: u64) -> Result<[Check; 2]> {
    let Contender { scheme, db, data: Shelf { records, written } } = contender;
    let txn = db.begin(TxnOptions::read_only())?;
    let (mut found, mut sum) = (0, 0);
    txn.scan(records, ..).for_each(|_, row| {
        found += 1;
        sum += u64::from(row.order_cnt);
        Ok(ControlFlow::Continue(()))
    })?;
    txn.commit()?;
    let mut rows = Verdict::new("rows", "every record is there");
    rows.compare(found == count, || format!("{scheme}: found {found} of {count}"));
    let mut writes = Verdict::new("writes", "the counts of all records are the writes that committed");
    writes.compare(sum == *written, || format!("{scheme}: found {sum}, {written} have committed"));
    let check = |verdict, promise| Check { verdict, scheme: *scheme, promise };
    Ok([check(rows, Promise::Always), check(writes, Promise::NoLostUpdates)])
}

/// Parameters of the transactions of a point.
#[derive(Clone, Copy)]
struct Order<'a> {
    choice: &'a Choice,
    reads: u32,
    /// Average number of writes.
    writes: f64,
}

impl Order<'_> {
    fn trial(
        self,
        contender: &mut Contender<Shelf>,
        threads: usize,
        stream: u64,
        run_options: &RunOptions,
    ) -> Result<Counts> {
        let Contender { db, data: Shelf { records, written }, .. } = contender;
        let buyer = |number| Buyer {
            order: self,
            records,
            random: Random::new(run_options.seed, stream | (number as u64 + 1)),
            keys: Vec::new(),
            written: 0,
        };
        let clients = (0..threads).map(buyer).collect();
        let (clients, counts) = trial::run(db, clients, NAMES.len(), run_options, &mut |_| {})?;
        *written += clients.iter().map(|client| client.written).sum::<u64>();
        Ok(counts)
    }
}

/// A client thread.
struct Buyer<'a> {
    order: Order<'a>,
    records: &'a Records,
    random: Random,
    /// Records that the next transaction reads; kept, so that the vector is allocated once.
    keys: Vec<u64>,
    /// Writes that committed.
    written: u64,
}

impl Client for Buyer<'_> {
    fn step(&mut self, context: &mut ClientContext<'_>) -> Result<()> {
        let Self { order, records, random, keys, .. } = self;
        keys.clear();
        keys.extend((0..order.reads).map(|_| order.choice.draw(random)));
        // The fractional part is the probability of one more write.
        let writes = order.writes.floor() as usize + usize::from(random.fraction() < order.writes.fract());
        let (reads, writes) = keys.split_at(keys.len() - writes);
        if context.run(0, Take { records, reads, writes })?.is_some() {
            self.written += writes.len() as u64;
        }
        Ok(())
    }
}

/// A transaction: reads, then reads each followed by a write.
struct Take<'a> {
    records: &'a Records,
    reads: &'a [u64],
    writes: &'a [u64],
}

impl Job for Take<'_> {
    type Output = ();
    type Error = Error;

    const SCHEMES: &'static [Scheme] = MEASURED;

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> ermine::Result<()> {
        let read = |key| txn.view(self.records, key)?.ok_or_else(|| Error::other("a record is missing"));
        for key in self.reads {
            black_box(read(key)?.quantity);
        }
        for key in self.writes {
            let row = *read(key)?;
            txn.update(self.records, key, &Stock { order_cnt: row.order_cnt.wrapping_add(1), ..row })?;
        }
        Ok(())
    }
}
