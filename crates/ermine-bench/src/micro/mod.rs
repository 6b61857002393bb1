//! Single operations over one table of `u64` keys and fixed-length values, to compare with other engines.
//!
//! | operation | one transaction |
//! |---|---|
//! | `get` | a point read |
//! | `get10` | ten point reads in one call |
//! | `scan` | 100 rows from a random key on |
//! | `mixed` | a point read (70 %) or a put (30 %) |
//! | `rmw` | five point reads, then five read-modify-writes |
//! | `rmw10` | ten read-modify-writes |
//! | `insert` | a new row; keys come in random order |
//!
//! Under `vll` all but scans declare what they touch.
//!
//! Every thread draws its keys while it runs. One transaction in sixteen is timed, the others only counted: two clock
//! readings would be a tenth of a point read.

mod report;

use std::{fmt, hint::black_box, ops::ControlFlow, str::FromStr, time::Instant};

use ermine::{Access, AccessSet, Database, IndexKind, Job, Scheme, Table, TableOptions, Transaction, TxnOptions};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::{
    Error, Result,
    abort_shapes::ShapeSummary,
    cold::ColdUse,
    latency::Quantiles,
    machine::resident_bytes,
    random::Random,
    report::{Setting, grouped, scheme_name},
    series::Series,
    sharing::Sharing,
    storage::{self, LogSummary, LogUse},
    threads::Tick,
    trial::{self, Client, ClientContext, Counts, MEASURED, RunOptions},
    zipf::Choice,
};

/// The operation of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// A point read.
    Get,
    /// Ten point reads in one call.
    Get10,
    /// A scan of 100 rows.
    Scan,
    /// 70 % point reads, 30 % puts.
    Mixed,
    /// Five reads and five read-modify-writes.
    Rmw,
    /// Ten read-modify-writes.
    Rmw10,
    /// A new row.
    Insert,
}

impl Operation {
    /// All operations, in the order in which they are run: the operation that changes the number of rows comes last.
    pub const ALL: [Self; 7] = [Self::Get, Self::Get10, Self::Scan, Self::Mixed, Self::Rmw, Self::Rmw10, Self::Insert];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Get10 => "get10",
            Self::Scan => "scan",
            Self::Mixed => "mixed",
            Self::Rmw => "rmw",
            Self::Rmw10 => "rmw10",
            Self::Insert => "insert",
        }
    }
}

impl FromStr for Operation {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::Usage(format!("unknown operation {name:?}: use one of {known}"))
        })
    }
}

/// Rows a scan reads.
const SCAN_ROWS: u64 = 100;

/// Options of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// Concurrency control.
    #[serde(serialize_with = "scheme_name")]
    pub scheme: Scheme,
    /// Threads; there may be more than cores.
    pub threads: usize,
    /// Number of rows loaded, under the keys from 0.
    pub records: u64,
    /// Length of a value.
    pub value_bytes: usize,
    /// Skew of the keys drawn; 0 is uniform.
    pub theta: f64,
    /// Operations to measure, in this order.
    pub operations: Vec<Operation>,
    /// The kind of the table's index.
    #[serde(serialize_with = "index_name")]
    pub index: IndexKind,
    /// Options that all workloads share; the times are those of each operation.
    #[serde(flatten)]
    pub run_options: RunOptions,
}

fn index_name<S: serde::Serializer>(index: &IndexKind, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{index:?}"))
}

impl Options {
    /// Fails if the options cannot work.
    pub fn check(&self) -> Result<()> {
        let usage = |why: String| Err(Error::Usage(why));
        if self.threads == 0 {
            return usage("at least one thread is needed".into());
        }
        if !(SCAN_ROWS..=Choice::RECORDS_MAX).contains(&self.records) {
            return usage(format!("the number of records lies between {SCAN_ROWS} and {}", Choice::RECORDS_MAX));
        }
        if !(1..=ermine::MAX_VALUE_BYTES).contains(&self.value_bytes) {
            return usage(format!("a value has between 1 and {} bytes", ermine::MAX_VALUE_BYTES));
        }
        if !(0.0..1.0).contains(&self.theta) {
            return usage("theta lies between 0 (uniform) and 1 (not included); 0.99 is usual".into());
        }
        if self.index == IndexKind::Hash && self.operations.contains(&Operation::Scan) {
            return usage("a hash index has no order: choose an operation other than scan".into());
        }
        self.run_options.check(&[self.scheme])
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, threads, records, value_bytes, theta, index, run_options, .. } = self;
        write!(
            f,
            "scheme {scheme}, {threads} threads, {} records of {value_bytes} bytes, {index:?}, theta {theta}, \
             {run_options}",
            grouped(*records)
        )
    }
}

/// An event that is reported to the watcher of a run.
pub enum Event {
    /// The rows have been loaded.
    Loaded(Load),
    /// An operation begins.
    Begins(Operation),
    /// A second has passed.
    Second(Tick),
}

/// Results of loading.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Load {
    /// Duration in seconds.
    pub seconds: f64,
    /// Resident memory that the rows added.
    pub resident_bytes: u64,
}

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The machine.
    pub setting: Setting,
    /// The options of the run.
    pub options: Options,
    /// Results of loading.
    pub load: Load,
    /// The results of each operation.
    pub results: Vec<Measured>,
}

/// The results of one operation.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The operation.
    pub operation: Operation,
    /// Transactions committed per second.
    pub per_second: f64,
    /// Transactions committed per second of processor time of the whole process: the comparable figure if the machine
    /// is shared.
    pub per_processor_second: f64,
    /// Aborted attempts per transaction.
    pub retries_per_transaction: f64,
    /// Aborted attempts that lost the same conflict as the attempt before: same kind, table and key.
    pub repeated: u64,
    /// Aborted attempts by shape, if they are to be explained.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub abort_shapes: Vec<ShapeSummary>,
    /// Latency of one transaction in sixteen, with all retries, up to the acknowledgement.
    pub latency: Quantiles,
    /// Throughput over time.
    pub series: Series,
    /// Use of the log, if the database had a directory.
    pub log: Option<LogSummary>,
    /// What happened to rows for which there was no room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cold: Option<ColdUse>,
    /// Shared cache lines, in a build that counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sharing: Option<Sharing>,
    /// Resident memory of the process afterwards.
    pub resident_bytes: u64,
}

type Records = Table<u64, Vec<u8>>;

/// Loads and measures.
pub fn drive(
    options: &Options,
    setting: Setting,
    progress: &ProgressBar,
    watch: &mut dyn FnMut(Event),
) -> Result<Summary> {
    options.check()?;
    let run_options = &options.run_options;
    let db = run_options.open(options.scheme)?;
    let records: Records = db.table_with("records", TableOptions::default().index(options.index))?;

    let (begin, before) = (Instant::now(), resident_bytes());
    load(&db, &records, options, progress)?;
    progress.finish_and_clear();
    let load = Load { seconds: begin.elapsed().as_secs_f64(), resident_bytes: resident_bytes().saturating_sub(before) };
    watch(Event::Loaded(load));

    let choice = Choice::new(options.records, options.theta);
    let mut results = Vec::new();
    // Keys of inserts continue where the last insert run ended.
    let mut inserted = 0;
    for &operation in &options.operations {
        watch(Event::Begins(operation));
        let clients = (0..options.threads)
            .map(|number| Caller::new(options, operation, &records, &choice, number, inserted))
            .collect();
        let (clients, counts) = trial::run(&db, clients, 1, run_options, &mut |tick| watch(Event::Second(tick)))?;
        inserted = clients.iter().map(|client| client.inserts).max().unwrap_or(inserted);
        results.push(Measured::new(operation, counts));
    }
    Ok(Summary { setting, options: options.clone(), load, results })
}

impl Measured {
    fn new(operation: Operation, counts: Counts) -> Self {
        let trial::Tally { committed, conflicts, latency, .. } = &counts.tallies[0];
        Self {
            operation,
            per_second: counts.per_second(0),
            per_processor_second: *committed as f64 / counts.processor_seconds.max(0.01),
            retries_per_transaction: conflicts.aborted as f64 / (*committed).max(1) as f64,
            repeated: conflicts.repeated,
            abort_shapes: counts.shapes.summaries(&[operation.name()]),
            latency: latency.quantiles(),
            series: counts.series,
            log: counts.log.map(LogUse::summary),
            cold: counts.cold,
            sharing: counts.sharing,
            resident_bytes: resident_bytes(),
        }
    }
}

/// Writes all records in key order, in transactions of 500.
fn load(db: &Database, records: &Records, options: &Options, progress: &ProgressBar) -> Result<()> {
    const BATCH: u64 = 500;
    progress.set_length(options.records);
    let mut random = Random::new(options.run_options.seed, 0);
    let mut value = vec![0; options.value_bytes];
    let mut next = 0;
    while next < options.records {
        let batch = next..options.records.min(next + BATCH);
        fill(&mut value, &mut random);
        db.run_with(storage::loading(), |txn| {
            batch.clone().try_for_each(|key| txn.insert(records, &key, value.as_slice()))
        })?;
        progress.inc(batch.end - batch.start);
        next = batch.end;
    }
    Ok(db.sync()?)
}

fn fill(value: &mut [u8], random: &mut Random) {
    value.chunks_mut(8).for_each(|chunk| {
        let drawn = random.bits().to_le_bytes();
        chunk.copy_from_slice(&drawn[..chunk.len()]);
    });
}

/// A client thread.
struct Caller<'a> {
    operation: Operation,
    choice: &'a Choice,
    records: &'a Records,
    /// Whether the scheme needs to know what a transaction touches.
    declares: bool,
    random: Random,
    /// The value that is written.
    value: Vec<u8>,
    /// Keys of this thread's inserts: every `threads`-th number from its own on.
    threads: u64,
    number: u64,
    inserts: u64,
    scan_starts: u64,
}

/// A read that is part of a transaction, optionally with a write of the same key.
#[derive(Clone, Copy)]
struct Step {
    key: u64,
    write: bool,
}

impl<'a> Caller<'a> {
    fn new(
        options: &Options,
        operation: Operation,
        records: &'a Records,
        choice: &'a Choice,
        number: usize,
        inserts: u64,
    ) -> Self {
        let mut random = Random::new(options.run_options.seed, 1 + number as u64);
        let mut value = vec![0; options.value_bytes];
        fill(&mut value, &mut random);
        Self {
            operation,
            choice,
            records,
            declares: options.scheme == Scheme::Vll,
            random,
            value,
            threads: options.threads as u64,
            number: number as u64,
            inserts,
            scan_starts: options.records - SCAN_ROWS + 1,
        }
    }

    /// Runs one transaction, whose latency is measured from `begin` on, or not at all.
    fn transaction(&mut self, context: &mut ClientContext<'_>, begin: Option<Instant>) -> Result<()> {
        let Self { choice, records, random, .. } = self;
        let records = *records;
        match self.operation {
            Operation::Get => {
                let key = choice.draw(random);
                context.run_since(0, begin, Get { records, options: self.declare(&[key], false), key })?;
            }
            Operation::Get10 => {
                let keys = std::array::from_fn(|_| choice.draw(random));
                context.run_since(0, begin, GetMany { records, options: self.declare(&keys, false), keys })?;
            }
            Operation::Scan => {
                // A scan that starts near the end would be shorter.
                let first = choice.draw(random).min(self.scan_starts - 1);
                context.run_since(0, begin, ScanRows { records, options: TxnOptions::default(), first })?;
            }
            Operation::Mixed => {
                let key = choice.draw(random);
                if random.percent(70) {
                    context.run_since(0, begin, Get { records, options: self.declare(&[key], false), key })?;
                } else {
                    let (options, value) = (self.declare(&[key], true), self.next_value());
                    context.run_since(0, begin, Put { records, options, key, value })?;
                }
            }
            Operation::Rmw => self.steps(context, begin, |number| number >= 5)?,
            Operation::Rmw10 => self.steps(context, begin, |_| true)?,
            Operation::Insert => {
                let key = new_key(self.inserts * self.threads + self.number);
                self.inserts += 1;
                let (options, value) = (self.declare(&[key], true), self.next_value());
                context.run_since(0, begin, Insert { records, options, key, value })?;
            }
        }
        Ok(())
    }

    /// Runs ten steps, some of which write.
    fn steps(
        &mut self,
        context: &mut ClientContext<'_>,
        begin: Option<Instant>,
        writes: impl Fn(usize) -> bool,
    ) -> Result<()> {
        let (choice, records, random) = (self.choice, self.records, &mut self.random);
        let steps: [Step; 10] = std::array::from_fn(|number| Step { key: choice.draw(random), write: writes(number) });
        let options = self.declare_all(|set| {
            let declare = |set: AccessSet, step: &Step| match step.write {
                true => set.write(records, &step.key),
                false => set.read(records, &step.key),
            };
            steps.iter().fold(set, declare)
        });
        context.run_since(0, begin, Steps { records, options, steps, value: &mut self.value })?;
        Ok(())
    }

    /// Declares keys that will all be read, or all be written.
    fn declare(&self, keys: &[u64], write: bool) -> TxnOptions {
        self.declare_all(|set| {
            let declare = |set: AccessSet, key: &u64| match write {
                true => set.write(self.records, key),
                false => set.read(self.records, key),
            };
            keys.iter().fold(set, declare)
        })
    }

    /// Declares what a transaction touches, if the scheme needs that.
    #[inline]
    fn declare_all(&self, touched: impl FnOnce(AccessSet) -> AccessSet) -> TxnOptions {
        if !self.declares {
            return TxnOptions::default();
        }
        TxnOptions::declared(touched(AccessSet::new()))
    }

    /// The value to write, different from the last one.
    fn next_value(&mut self) -> &[u8] {
        let place = self.random.below(self.value.len() as u64) as usize;
        self.value[place] = self.value[place].wrapping_add(1);
        &self.value
    }
}

/// The n-th new key: above all loaded ones, in an order that looks random. One to one on 63 bits, since the factor is
/// odd.
fn new_key(n: u64) -> u64 {
    const HIGH: u64 = 1 << 63;
    HIGH | (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) & (HIGH - 1))
}

impl Client for Caller<'_> {
    fn step(&mut self, context: &mut ClientContext<'_>) -> Result<()> {
        const UNTIMED: u32 = 15;
        if context.is_open_loop() {
            let begin = context.last_reading();
            return self.transaction(context, Some(begin));
        }
        for _ in 0..UNTIMED {
            self.transaction(context, None)?;
        }
        self.transaction(context, Some(Instant::now()))
    }
}

/// Declares a job: its fields and its body.
macro_rules! job {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* } |$job:ident, $txn:ident| $body:block) => {
        $(#[$doc])*
        struct $name<'a> { records: &'a Records, options: TxnOptions, $($field: $type,)* }

        impl Job for $name<'_> {
            type Output = ();
            type Error = ermine::Error;

            const SCHEMES: &'static [Scheme] = MEASURED;

            #[inline]
            fn options(&self) -> TxnOptions {
                self.options.clone()
            }

            #[inline]
            fn run<A: Access>(&mut self, $txn: &Transaction<'_, A>) -> ermine::Result<()> {
                let $job = self;
                $body
            }
        }
    };
}

job! {
    /// A point read.
    Get { key: u64 } |job, txn| {
        black_box(txn.view(job.records, &job.key)?.and_then(|value| value.first()));
        Ok(())
    }
}

job! {
    /// Several point reads in one call.
    GetMany { keys: [u64; 10] } |job, txn| {
        for value in txn.view_many(job.records, &job.keys)? {
            black_box(value.and_then(|value| value.first()));
        }
        Ok(())
    }
}

job! {
    /// A scan.
    ScanRows { first: u64 } |job, txn| {
        let mut sum = 0u64;
        txn.scan(job.records, job.first..).limit(SCAN_ROWS as usize).for_each(|key, value| {
            sum = sum.wrapping_add(key).wrapping_add(u64::from(value[0]));
            Ok(ControlFlow::Continue(()))
        })?;
        black_box(sum);
        Ok(())
    }
}

job! {
    /// A put.
    Put { key: u64, value: &'a [u8] } |job, txn| { txn.put(job.records, &job.key, job.value) }
}

job! {
    /// A new row.
    Insert { key: u64, value: &'a [u8] } |job, txn| { txn.insert(job.records, &job.key, job.value) }
}

job! {
    /// Reads, and reads followed by a write of the row with its first byte incremented.
    Steps { steps: [Step; 10], value: &'a mut [u8] } |job, txn| {
        for step in &job.steps {
            let Some(seen) = txn.view(job.records, &step.key)? else { continue };
            if step.write {
                job.value.copy_from_slice(seen);
                job.value[0] = job.value[0].wrapping_add(1);
                txn.put(job.records, &step.key, &*job.value)?;
            } else {
                black_box(seen[0]);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn operations_are_known_by_their_names() {
        for operation in Operation::ALL {
            assert_eq!(operation.name().parse::<Operation>().unwrap(), operation);
        }
        assert!("put".parse::<Operation>().is_err());
    }

    #[test]
    fn new_keys_differ_from_each_other_and_from_loaded_ones() {
        let mut keys: Vec<_> = (0..100_000).map(new_key).collect();
        assert!(!keys.is_sorted());
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 100_000);
        assert!(keys[0] > Choice::RECORDS_MAX);
    }

    #[test]
    fn options_that_cannot_work_are_refused() {
        let good = Options {
            scheme: Scheme::default(),
            threads: 1,
            records: 1_000,
            value_bytes: 100,
            theta: 0.99,
            operations: Operation::ALL.to_vec(),
            index: IndexKind::BTree,
            run_options: RunOptions::default(),
        };
        assert!(good.check().is_ok());
        assert!(Options { threads: 0, ..good.clone() }.check().is_err());
        assert!(Options { records: 99, ..good.clone() }.check().is_err());
        assert!(Options { value_bytes: 0, ..good.clone() }.check().is_err());
        assert!(Options { theta: 1.0, ..good.clone() }.check().is_err());
        let run_options = RunOptions { measured: Duration::ZERO, ..RunOptions::default() };
        assert!(Options { run_options, ..good }.check().is_err());
    }
}
