//! Long read-mostly transactions beside short writers, under several schemes (SSN paper, sections 5.3 and 8.4; the
//! Asset-Eval of its TPC-E hybrid in one table).
//!
//! A long transaction scans a share of the table from a random row on and increments the counter of one row anywhere; a
//! short one increments the counters of a few rows. Short transactions overwrite much of what a long one has read
//! before it ends. Read validation cannot let the long one commit; SSN can, but it has to track every read unless it
//! may leave out stale versions. All schemes run in one process, in interleaved rounds ([`crate::rounds`]).
//!
//! At the end the counts of all rows must add up to the writes that committed.

use std::{fmt, hint::black_box, ops::ControlFlow};

use ermine::{
    Access, Database, Error, Job, Scheme, Table, Transaction, TxnOptions, fixed_value,
    zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout},
};
use serde::Serialize;

use crate::{
    Result,
    random::Random,
    report::{Setting, grouped, listed, scheme_names},
    rounds::{self, Comparison, Contender, Point, Turn},
    trial::{self, Client, ClientContext, Counts, MEASURED, RunOptions},
    verdict::{Check, Promise, Verdict},
};

/// Options of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// Concurrency controls, in the order of the report.
    #[serde(serialize_with = "scheme_names")]
    pub schemes: Vec<Scheme>,
    /// Threads that run long transactions.
    pub long: usize,
    /// Threads that run short transactions.
    pub short: usize,
    /// Rows of the table.
    pub rows: u64,
    /// Percentage of the rows that a long transaction scans.
    pub scan_percent: f64,
    /// Rows that a short transaction writes.
    pub short_rows: u32,
    /// Rounds into which the time of each scheme is cut.
    pub rounds: u32,
    /// Options that all workloads share; times are for each scheme.
    #[serde(flatten)]
    pub run_options: RunOptions,
}

/// Maximum rows that a short transaction writes.
const SHORT_ROWS_MAX: u32 = 1_000;

impl Options {
    /// Fails if the options cannot work.
    pub fn check(&self) -> Result<()> {
        let usage = |why: String| Err(crate::Error::Usage(why));
        if self.long + self.short == 0 || self.long + self.short > 1_000 {
            return usage("there are between 1 and 1000 clients".into());
        }
        if self.rows == 0 || !(0.0..=100.0).contains(&self.scan_percent) {
            return usage("the share scanned lies between 0 and 100 % of at least one row".into());
        }
        if !(1..=SHORT_ROWS_MAX).contains(&self.short_rows) {
            return usage(format!("a short transaction writes between 1 and {SHORT_ROWS_MAX} rows"));
        }
        rounds::check(&self.schemes, self.rounds, &self.run_options)
    }

    /// Rows that a long transaction scans.
    fn scanned(&self) -> u64 {
        ((self.rows as f64 * self.scan_percent / 100.0).round() as u64).clamp(1, self.rows)
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { schemes, long, short, rows, scan_percent, short_rows, rounds, run_options } = self;
        write!(
            f,
            "schemes {}, {long} long clients that scan {scan_percent} % of {} rows and write one, {short} short ones \
             that write {short_rows}, each scheme {run_options}, in {rounds} rounds",
            listed(schemes),
            grouped(*rows)
        )
    }
}

/// A row.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[zerocopy(crate = "ermine::zerocopy")]
#[repr(C)]
struct Asset {
    /// Writes since the load.
    writes: u64,
    filler: [u8; 88],
}
fixed_value!(Asset { writes: u64, filler: [u8; 88] });

type Assets = Table<u64, Asset>;

/// Data of a contender.
struct Holdings {
    assets: Assets,
    /// Writes that committed.
    written: u64,
}

/// The kinds of transactions.
#[derive(Clone, Copy)]
enum Kind {
    Long,
    Short,
}

const NAMES: [&str; 2] = ["long", "short"];

/// Loads a database for each scheme, runs them in turn, and checks the sum of the writes.
pub fn drive(options: &Options, setting: Setting, watch: &mut dyn FnMut(Turn)) -> Result<Comparison<Options>> {
    options.check()?;
    let mut contenders = rounds::contenders(&options.schemes, &options.run_options, |db| load(db, options.rows))?;
    let trial = |contender: &mut Contender<Holdings>, round: u32, run_options: &RunOptions| {
        run(options, contender, u64::from(round) << 16, run_options)
    };
    let counted = rounds::interleave(&mut contenders, options.rounds, &options.run_options, trial, watch)?;
    let points = vec![Point::new(String::new(), &contenders, &NAMES, &counted)];
    let mut checks = Vec::new();
    for contender in &contenders {
        checks.extend(check(contender, options.rows)?);
    }
    Ok(Comparison { workload: "read-mostly", setting, options: options.clone(), points, checks })
}

fn load(db: &Database, count: u64) -> Result<Holdings> {
    let assets: Assets = db.table("asset")?;
    trial::insert_rows(db, count, |txn, key| txn.insert(&assets, &key, &Asset::new_zeroed()))?;
    Ok(Holdings { assets, written: 0 })
}

fn run(
    options: &Options,
    contender: &mut Contender<Holdings>,
    stream: u64,
    run_options: &RunOptions,
) -> Result<Counts> {
    let Contender { db, data: Holdings { assets, written }, .. } = contender;
    let client = |number: usize| Trader {
        assets,
        kind: if number < options.long { Kind::Long } else { Kind::Short },
        rows: options.rows,
        scanned: options.scanned(),
        random: Random::new(run_options.seed, stream | (number as u64 + 1)),
        keys: vec![0; options.short_rows as usize],
        written: 0,
    };
    let clients = (0..options.long + options.short).map(client).collect();
    let (clients, counts) = trial::run(db, clients, NAMES.len(), run_options, &mut |_| {})?;
    *written += clients.iter().map(|client| client.written).sum::<u64>();
    Ok(counts)
}

fn check(contender: &Contender<Holdings>, count: u64) -> Result<[Check; 2]> {
    let Contender { scheme, db, data: Holdings { assets, written } } = contender;
    let txn = db.begin(TxnOptions::read_only())?;
    let (mut found, mut sum) = (0, 0);
    txn.scan(assets, ..).for_each(|_, row| {
        found += 1;
        sum += row.writes;
        Ok(ControlFlow::Continue(()))
    })?;
    txn.commit()?;
    let mut rows = Verdict::new("rows", "every row is there");
    rows.compare(found == count, || format!("{scheme}: found {found} of {count}"));
    let mut writes = Verdict::new("writes", "the counts of all rows are the writes that committed");
    writes.compare(sum == *written, || format!("{scheme}: found {sum}, {written} have committed"));
    let check = |verdict, promise| Check { verdict, scheme: *scheme, promise };
    Ok([check(rows, Promise::Always), check(writes, Promise::NoLostUpdates)])
}

/// A client thread.
struct Trader<'a> {
    assets: &'a Assets,
    kind: Kind,
    rows: u64,
    /// Rows that a long transaction scans.
    scanned: u64,
    random: Random,
    /// Keys that the next short transaction writes.
    keys: Vec<u64>,
    /// Writes that committed.
    written: u64,
}

impl Client for Trader<'_> {
    fn step(&mut self, context: &mut ClientContext<'_>) -> Result<()> {
        let Self { assets, rows, random, keys, .. } = self;
        let assets = *assets;
        let done = match self.kind {
            Kind::Long => {
                let first = random.below(*rows - self.scanned + 1);
                let write = random.below(*rows);
                context.run(self.kind as usize, Long { assets, first, scanned: self.scanned, write })?.map(|()| 1)
            }
            Kind::Short => {
                keys.iter_mut().for_each(|key| *key = random.below(*rows));
                context.run(self.kind as usize, Short { assets, keys })?.map(|()| keys.len() as u64)
            }
        };
        self.written += done.unwrap_or(0);
        Ok(())
    }
}

/// Increments the counter of a row.
fn count_up<A: Access>(txn: &Transaction<'_, A>, assets: &Assets, key: u64) -> ermine::Result<()> {
    let mut row = *txn.view(assets, &key)?.ok_or_else(|| Error::other("a row is missing"))?;
    row.writes += 1;
    txn.update(assets, &key, &row).map(drop)
}

/// Scans a part of the table and increments the counter of one row.
struct Long<'a> {
    assets: &'a Assets,
    first: u64,
    scanned: u64,
    write: u64,
}

impl Job for Long<'_> {
    type Output = ();
    type Error = Error;

    const SCHEMES: &'static [Scheme] = MEASURED;

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> ermine::Result<()> {
        let mut sum = 0;
        txn.scan(self.assets, self.first..self.first + self.scanned).for_each(|_, row| {
            sum += row.writes;
            Ok(ControlFlow::Continue(()))
        })?;
        black_box(sum);
        count_up(txn, self.assets, self.write)
    }
}

/// Increments the counters of a few rows.
struct Short<'a> {
    assets: &'a Assets,
    keys: &'a [u64],
}

impl Job for Short<'_> {
    type Output = ();
    type Error = Error;

    const SCHEMES: &'static [Scheme] = MEASURED;

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> ermine::Result<()> {
        self.keys.iter().try_for_each(|&key| count_up(txn, self.assets, key))
    }
}
