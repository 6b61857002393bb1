//! Batch processing: the read-only anomaly (Fekete, O'Neil, O'Neil 2004; Ports and Grittner 2012, figure 2).
//!
//! Receipts are written under the number of the current batch; closing a batch increments that number; a report sums up
//! the receipts of the last batch that was closed. A closed batch must not change any more: the reader of its report
//! may rely on it. Under snapshot isolation it does change: a receipt that began before the close writes, after the
//! report, into a batch that is closed. Receipt and close alone are serializable (the receipt first); it is the report,
//! which only reads, that closes the cycle.
//!
//! ```text
//!     receipt   reads batch 7 ----- pause ------------------- writes a receipt of batch 7, commits
//!     close                         7 -> 8, commits
//!     report                                        sums up batch 7, commits
//! ```
//!
//! Every report is kept by its client (batch, number and sum of its receipts), and compared at the end with the
//! contents of the batch. The report is not declared read-only: the certifier has to find out.
//! [`Options::snapshot_reports`] runs it on a safe snapshot instead.

use std::{
    collections::HashMap,
    fmt,
    ops::ControlFlow,
    sync::atomic::{AtomicU64, Ordering},
};

use ermine::{Access, Database, Error, Job, Scheme, Table, Transaction, TxnOptions, prefix};
use serde::Serialize;

use crate::{
    Result,
    pause::Pause,
    random::Random,
    report::{Setting, scheme_name},
    summary::Summary,
    threads::Tick,
    trial::{self, Client, ClientContext, RunOptions},
    verdict::{Check, Promise, Verdict},
};

/// Options of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// Concurrency control.
    #[serde(serialize_with = "scheme_name")]
    pub scheme: Scheme,
    /// Threads; there may be more than cores.
    pub threads: usize,
    /// Receipts for each close, on average.
    pub receipts: u32,
    /// Pause between a receipt's read of the batch number and its write.
    pub pause: Pause,
    /// Whether reports read a safe snapshot.
    pub snapshot_reports: bool,
    /// Options that all workloads share.
    #[serde(flatten)]
    pub run_options: RunOptions,
}

impl Options {
    /// Fails if the options cannot work.
    pub fn check(&self) -> Result<()> {
        if self.threads == 0 || self.receipts == 0 {
            return Err(crate::Error::Usage("at least one thread and one receipt a batch are needed".into()));
        }
        self.run_options.check(&[self.scheme])
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, threads, receipts, pause, snapshot_reports, run_options } = self;
        let reports = if *snapshot_reports { "reports on safe snapshots" } else { "reports undeclared" };
        write!(
            f,
            "scheme {scheme}, {threads} threads, {receipts} receipts a batch, pause {pause}, {reports}, {run_options}"
        )
    }
}

/// Handles of the tables.
struct Tables {
    /// The number of the current batch, under key 0.
    control: Table<u32, u64>,
    /// Amounts, by batch and unique number.
    receipts: Table<(u64, u64), u64>,
}

/// The only key of the control table.
const CURRENT: u32 = 0;
/// The first batch; the batch before it was closed empty.
const FIRST_BATCH: u64 = 1;

/// The kinds of transactions.
#[derive(Clone, Copy)]
enum Kind {
    Receipt,
    Close,
    Report,
}

const NAMES: [&str; 3] = ["receipt", "close", "report"];

/// The contents of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Content {
    receipts: u64,
    sum: u64,
}

/// How often a batch was reported with each content.
type Reports = HashMap<(u64, Content), u64>;

/// Runs the workload, and compares every report with the contents of its batch at the end.
pub fn drive(options: &Options, setting: Setting, watch: &mut dyn FnMut(Tick)) -> Result<Summary<Options>> {
    options.check()?;
    let db = options.run_options.open(options.scheme)?;
    let tables = Tables { control: db.table("control")?, receipts: db.table("receipt")? };
    db.run(|txn| txn.insert(&tables.control, &CURRENT, &FIRST_BATCH))?;
    let closed = AtomicU64::new(0);
    let clients = (0..options.threads).map(|number| Clerk::new(options, &tables, &closed, number)).collect();
    let (clients, counts) = trial::run(&db, clients, NAMES.len(), &options.run_options, watch)?;

    let mut reports = Reports::new();
    for client in &clients {
        client.reports.iter().for_each(|(&key, count)| *reports.entry(key).or_default() += count);
    }
    let written = clients.iter().map(|client| client.written).sum();
    // Relaxed: the clients have ended.
    let (checks, violations) = check(options, &db, &tables, &reports, written, closed.load(Ordering::Relaxed))?;
    let summary = Summary::new("batch", setting, options.clone(), &NAMES, &counts, checks);
    Ok(Summary { violations: Some(violations), ..summary })
}

/// Checks the database after `written` receipts and `closed` batches have been committed.
fn check(
    options: &Options,
    db: &Database,
    tables: &Tables,
    reports: &Reports,
    written: u64,
    closed: u64,
) -> Result<(Vec<Check>, u64)> {
    let txn = db.begin(TxnOptions::read_only())?;
    let mut batches = HashMap::<u64, Content>::new();
    txn.scan(&tables.receipts, ..).for_each(|(batch, _), amount| {
        let content = batches.entry(batch).or_default();
        content.receipts += 1;
        content.sum += amount;
        Ok(ControlFlow::Continue(()))
    })?;
    let current = txn.get(&tables.control, &CURRENT)?;
    txn.commit()?;

    let mut rows = Verdict::new("rows", "every receipt that committed is there");
    let found: u64 = batches.values().map(|content| content.receipts).sum();
    rows.compare(found == written, || format!("found {found}, {written} have committed"));
    let mut numbers = Verdict::new("numbers", "the current batch was counted up once a close");
    numbers.compare(current == Some(FIRST_BATCH + closed), || format!("found {current:?} after {closed} closes"));

    let mut final_reports = Verdict::new("reports", "a closed batch has at the end what was reported of it");
    let mut violations = 0;
    for (&(batch, reported), &count) in reports {
        let now = batches.get(&batch).copied().unwrap_or_default();
        violations += if now == reported { 0 } else { count };
        final_reports.compare(now == reported, || format!("batch {batch}: reported {reported:?}, now {now:?}"));
    }
    let check = |verdict, promise| Check { verdict, scheme: options.scheme, promise };
    let checks = vec![
        check(rows, Promise::Always),
        check(numbers, Promise::NoLostUpdates),
        check(final_reports, Promise::Serializable),
    ];
    Ok((checks, violations))
}

/// A client thread.
struct Clerk<'a> {
    tables: &'a Tables,
    receipts: u32,
    pause: Pause,
    snapshot_reports: bool,
    random: Random,
    /// The unique number of the next receipt: the thread's number in the high bits, a count in the low bits.
    next: u64,
    /// Receipts that committed.
    written: u64,
    /// Closes that committed, by all clerks.
    closed: &'a AtomicU64,
    reports: Reports,
}

impl<'a> Clerk<'a> {
    fn new(options: &Options, tables: &'a Tables, closed: &'a AtomicU64, number: usize) -> Self {
        let thread = number as u64 + 1;
        Self {
            tables,
            receipts: options.receipts,
            pause: options.pause,
            snapshot_reports: options.snapshot_reports,
            random: Random::new(options.run_options.seed, thread),
            next: thread << 40,
            written: 0,
            closed,
            reports: Reports::new(),
        }
    }

    /// Reports the last batch that was closed.
    fn report(&mut self, context: &mut ClientContext<'_>) -> Result<()> {
        let tables = self.tables;
        let reported = match self.snapshot_reports {
            true => Some(context.read_snapshot(Kind::Report as usize, |txn| report(tables, txn))?),
            false => context.run(Kind::Report as usize, Report { tables })?,
        };
        if let Some(reported) = reported {
            *self.reports.entry(reported).or_default() += 1;
        }
        Ok(())
    }
}

impl Client for Clerk<'_> {
    fn step(&mut self, context: &mut ClientContext<'_>) -> Result<()> {
        let tables = self.tables;
        if self.random.below(u64::from(self.receipts) + 1) > 0 {
            self.next += 1;
            let (number, amount) = (self.next, self.random.uniform(1..=1_000));
            let receipt = Receipt { tables, pause: self.pause, number, amount };
            self.written += u64::from(context.run(Kind::Receipt as usize, receipt)?.is_some());
            return Ok(());
        }
        if context.run(Kind::Close as usize, Close { tables })?.is_some() {
            // Relaxed: read when all clerks have ended.
            self.closed.fetch_add(1, Ordering::Relaxed);
        }
        // At once and once more, as a user who closes a batch would: the late receipts commit in between.
        self.report(context)?;
        self.report(context)
    }
}

fn current<A: Access>(tables: &Tables, txn: &Transaction<'_, A>) -> ermine::Result<u64> {
    txn.get(&tables.control, &CURRENT)?.ok_or_else(|| Error::other("the number of the current batch is missing"))
}

/// Writes a receipt of the current batch.
struct Receipt<'a> {
    tables: &'a Tables,
    pause: Pause,
    number: u64,
    amount: u64,
}

impl Job for Receipt<'_> {
    type Output = ();
    type Error = Error;

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> ermine::Result<()> {
        let batch = current(self.tables, txn)?;
        self.pause.wait();
        txn.insert(&self.tables.receipts, &(batch, self.number), &self.amount)
    }
}

/// Closes the current batch.
struct Close<'a> {
    tables: &'a Tables,
}

impl Job for Close<'_> {
    type Output = ();
    type Error = Error;

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> ermine::Result<()> {
        let batch = current(self.tables, txn)?;
        txn.update(&self.tables.control, &CURRENT, &(batch + 1)).map(drop)
    }
}

/// Sums up the last batch that was closed.
struct Report<'a> {
    tables: &'a Tables,
}

impl Job for Report<'_> {
    /// The batch and its contents.
    type Output = (u64, Content);
    type Error = Error;

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> ermine::Result<Self::Output> {
        report(self.tables, txn)
    }
}

fn report<A: Access>(tables: &Tables, txn: &Transaction<'_, A>) -> ermine::Result<(u64, Content)> {
    let batch = current(tables, txn)? - 1;
    let mut content = Content::default();
    txn.scan(&tables.receipts, prefix((batch,))).for_each(|_, amount| {
        content.receipts += 1;
        content.sum += amount;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((batch, content))
}
