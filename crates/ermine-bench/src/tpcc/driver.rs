//! A run: load, check, drive with many threads, check again.
//!
//! A thread draws a card, draws the inputs, runs the job, and counts, all in memory of its own. The clock is read once
//! per transaction: a latency is measured from the end of the transaction before, so it includes drawing the inputs,
//! and all retries.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use ermine::{Database, Error, Job, Receipt, Recovery, Scheme, TxnOptions, observer::Observer};
use indicatif::ProgressBar;
use serde::Serialize;

use super::{
    AcknowledgedOrder, Business, CreditCheck, CreditCheckInput, Deck, Delivery, DeliveryInput, Failure, Kind, Mix,
    Moment, NewOrder, NewOrderInput, OrderSink, OrderStatus, OrderStatusInput, Payment, PaymentInput, Retry, Sale,
    Scale, StockLevel, StockLevelInput, Summary, Tables, Verdict, check, check_acknowledged, load, read_acknowledged,
    summary::Outcome,
};
use crate::{
    abort_shapes::AbortShapes,
    conflicts::{Conflicts, Counted},
    latency::Latency,
    machine::{cores, processor_seconds},
    pause::Pause,
    random::Random,
    report::{Memory, Setting, scheme_name, seconds},
    storage::{self, LogUse, Outstanding, Storage},
    threads::{self, Pace, Progress, Worker},
    trial,
    tuning::Tuning,
};

/// The warehouse that a transaction belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Home {
    /// Every thread has one warehouse for the whole run, as in the rules.
    Fixed,
    /// Any warehouse, for each transaction: threads meet in the same districts.
    Random,
}

/// Options of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// Concurrency control.
    #[serde(serialize_with = "scheme_name")]
    pub scheme: Scheme,
    /// Threads; there may be more than cores.
    pub threads: usize,
    /// Number of warehouses.
    pub warehouses: u32,
    /// Time before measuring starts.
    #[serde(serialize_with = "seconds", rename = "warmup_seconds")]
    pub warmup: Duration,
    /// Measured time.
    #[serde(serialize_with = "seconds", rename = "measured_seconds")]
    pub measured: Duration,
    /// Number of transactions that each thread completes at least: the measured time goes on until then.
    pub least: u64,
    /// Percentage of order lines that are supplied by another warehouse; 1 in the rules.
    pub remote_percent: u32,
    /// Choice of home warehouses.
    pub home: Home,
    /// Policy after a lost conflict.
    pub retry: Retry,
    /// Seed of data and inputs.
    pub seed: u64,
    /// Numbers of rows per warehouse.
    pub scale: Scale,
    /// The shares of the transactions.
    pub mix: Mix,
    /// Pause of a credit check between its reads and its write.
    pub credit_pause: Pause,
    /// Whether to count aborts by shape.
    pub explain_aborts: bool,
    /// Where the database is stored; in memory if not set.
    pub storage: Option<Storage>,
    /// Settings of the engine.
    pub tuning: Tuning,
    /// Receives every new order that was acknowledged.
    #[serde(skip)]
    pub acknowledge: Option<OrderSink>,
    /// File written by a sink, with orders that must exist when the database is opened.
    #[serde(skip)]
    pub expect: Option<PathBuf>,
    /// Observes every transaction, the loader's too.
    #[serde(skip)]
    pub observer: Option<Arc<dyn Observer>>,
}

impl Options {
    /// Fails if the options cannot work.
    pub fn check(&self) -> crate::Result<()> {
        let usage = |why: &str| Err(crate::Error::Usage(why.into()));
        if self.threads == 0 || self.warehouses == 0 {
            return usage("at least one thread and one warehouse are needed");
        }
        if self.measured.is_zero() {
            return usage("nothing can be measured in zero seconds");
        }
        if self.remote_percent > 100 {
            return usage("the remote percentage lies between 0 and 100");
        }
        storage::check(&[self.scheme], self.storage.as_ref(), &self.tuning)
    }

    fn business(&self) -> Business {
        Business { warehouses: self.warehouses, scale: self.scale, remote_percent: self.remote_percent }
    }
}

/// An event that is reported to the watcher of a run.
pub enum Event<'a> {
    /// The data of earlier runs has been opened.
    Opened(&'a Recovery),
    /// The data has been loaded.
    Loaded(Duration, Memory),
    /// The conditions were checked.
    Checked(Moment, Duration, &'a [Verdict]),
    /// A second has passed.
    Second(threads::Tick),
}

/// Loads, checks, runs and checks again.
pub fn drive(
    options: &Options,
    setting: Setting,
    progress: &ProgressBar,
    watch: &mut dyn FnMut(Event<'_>),
) -> crate::Result<Summary> {
    options.check()?;
    let expected = options.expect.as_deref().map_or(Ok(Vec::new()), read_acknowledged)?;
    let db = trial::open(options.scheme, options.observer.as_ref(), options.storage.as_ref(), &options.tuning)?;
    let tables = Tables::open_for(&db, options.mix)?;

    let begin = Instant::now();
    let moment = match db.recovery().rows > 0 {
        true => {
            watch(Event::Opened(db.recovery()));
            check_size(options, &db, &tables)?;
            Moment::AfterOpening
        }
        false => {
            let loaders = options.threads.min(cores());
            load(&db, &tables, options.warehouses, options.scale, options.seed, loaders, progress)?;
            progress.finish_and_clear();
            watch(Event::Loaded(begin.elapsed(), Memory::now(&db)));
            Moment::AfterLoad
        }
    };
    let load_time = begin.elapsed();
    let loaded_memory = Memory::now(&db);
    let mut after_load = judge(options, &db, &tables, moment, watch)?;
    if !expected.is_empty() {
        after_load.push(check_acknowledged(&db, &tables, &expected)?);
    }

    let outcome = run(options, &db, &tables, watch)?;
    let run_memory = Memory::now(&db);
    let after_run = judge(options, &db, &tables, Moment::AfterRun, watch)?;
    Ok(Summary::new(options, setting, load_time, [loaded_memory, run_memory], outcome, [after_load, after_run]))
}

/// Checks that the data of an earlier run has the size that these options ask for.
fn check_size(options: &Options, db: &Database, tables: &Tables) -> crate::Result<()> {
    let txn = db.begin(TxnOptions::read_only())?;
    let has = |w| txn.view(&tables.warehouse, &w).map(|row| row.is_some());
    let last_item = txn.view(&tables.item, &options.scale.items)?.is_some();
    let more_items = txn.view(&tables.item, &(options.scale.items + 1))?.is_some();
    let is_same = has(options.warehouses)? && !has(options.warehouses + 1)? && last_item && !more_items;
    txn.commit()?;
    match is_same {
        true => Ok(()),
        false => Err(crate::Error::Usage("the database was loaded with another number of warehouses or rows".into())),
    }
}

fn judge(
    options: &Options,
    db: &Database,
    tables: &Tables,
    moment: Moment,
    watch: &mut dyn FnMut(Event<'_>),
) -> crate::Result<Vec<Verdict>> {
    let begin = Instant::now();
    let verdicts = check(db, tables, options.warehouses, options.scale, moment)?;
    watch(Event::Checked(moment, begin.elapsed(), &verdicts));
    Ok(verdicts)
}

/// Runs the mix on a loaded database.
pub fn run(
    options: &Options,
    db: &Database,
    tables: &Tables,
    watch: &mut dyn FnMut(Event<'_>),
) -> crate::Result<Outcome> {
    let workers = (0..options.threads).map(|number| Terminal::new(options, db, tables, number)).collect();
    let pace = Pace { warmup: options.warmup, measured: options.measured, least: options.least };
    let (mut before, mut processor) = (db.statistics(), 0.0);
    let done = threads::run(workers, pace, &mut |event| match event {
        threads::Event::Second(tick) => watch(Event::Second(tick)),
        threads::Event::Measuring => (before, processor) = (db.statistics(), processor_seconds()),
    })?;
    let after = db.statistics();

    let log = options.storage.as_ref().map(|_| LogUse::of(&after).since(LogUse::of(&before)));
    let mut outcome = Outcome { processor_seconds: processor_seconds() - processor, log, ..Outcome::default() };
    let threads = done.len() as f64;
    for done in &done {
        outcome.seconds += done.measured.as_secs_f64() / threads;
        outcome.tally.merge(&done.worker.tally);
        if let Some(shapes) = &done.worker.shapes {
            outcome.shapes.get_or_insert_default().merge(shapes);
        }
    }
    for (sum, (after, before)) in outcome.aborts.iter_mut().zip(after.aborts.iter().zip(&before.aborts)) {
        *sum = after - before;
    }
    Ok(outcome)
}

/// Counts of one thread.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Counts by kind, in the order of [`Kind::ALL`].
    pub(super) kinds: [KindTally; Kind::ALL.len()],
    /// Districts that had nothing to deliver.
    pub(super) skipped_districts: u64,
}

/// Counts of one kind of transaction.
#[derive(Clone, Debug, Default)]
pub(super) struct KindTally {
    pub(super) committed: u64,
    pub(super) rolled_back: u64,
    /// Transactions that failed on a key that another transaction had taken after a lost update: under `rc` only.
    pub(super) lost: u64,
    /// Transactions dropped after a lost conflict.
    pub(super) dropped: u64,
    /// Attempts that lost a conflict.
    pub(super) conflicts: Conflicts,
    pub(super) latency: Latency,
}

impl Tally {
    fn merge(&mut self, other: &Self) {
        self.skipped_districts += other.skipped_districts;
        self.kinds.iter_mut().zip(&other.kinds).for_each(|(own, other)| own.merge(other));
    }

    fn reset(&mut self) {
        self.skipped_districts = 0;
        for kind in &mut self.kinds {
            kind.latency.reset();
            let latency = std::mem::take(&mut kind.latency);
            *kind = KindTally { latency, ..KindTally::default() };
        }
    }
}

impl KindTally {
    pub(super) fn merge(&mut self, other: &Self) {
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.lost += other.lost;
        self.dropped += other.dropped;
        self.conflicts.merge(&other.conflicts);
        self.latency.merge(&other.latency);
    }
}

/// A thread that stands for all terminals of a warehouse, without their users' pauses.
struct Terminal<'a> {
    db: &'a Database,
    tables: &'a Tables,
    business: Business,
    scheme: Scheme,
    home: Option<u32>,
    retry: Retry,
    credit_pause: Pause,
    random: Random,
    deck: Deck,
    clock: Clock,
    /// Last part of the key of the next payment in HISTORY: the thread's number in the high bits; in the low bits a
    /// count that starts at the time of day, so that a later run continues after an earlier one.
    next_payment: u64,
    outstanding: Outstanding<'a, Commit>,
    acknowledge: Option<OrderSink>,
    tally: Tally,
    /// Set if aborts are to be explained.
    shapes: Option<AbortShapes>,
    /// Set if transactions are ordered within each session.
    session: Option<ermine::Session>,
}

impl<'a> Terminal<'a> {
    fn new(options: &Options, db: &'a Database, tables: &'a Tables, number: usize) -> Self {
        let thread = number as u64 + 1;
        let clock = Clock::start();
        Self {
            db,
            tables,
            business: options.business(),
            scheme: options.scheme,
            home: match options.home {
                Home::Fixed => Some((number % options.warehouses as usize) as u32 + 1),
                Home::Random => None,
            },
            retry: options.retry,
            credit_pause: options.credit_pause,
            // The loader's streams lie below 2^63.
            random: Random::new(options.seed, 1 << 63 | thread),
            deck: Deck::new(options.mix),
            next_payment: thread << 52 | clock.begin_us,
            clock,
            outstanding: Outstanding::new(options.storage.as_ref()),
            acknowledge: options.acknowledge.clone(),
            tally: Tally::default(),
            shapes: AbortShapes::when(options.explain_aborts),
            session: options.tuning.session(),
        }
    }

    fn execute<J: Job<Error = Failure>>(&mut self, kind: Kind, job: J) -> crate::Result<Option<J::Output>> {
        self.execute_order(kind, job, |_| None)
    }

    /// Like `execute`; `order` computes what the customer receives when the commit is acknowledged.
    fn execute_order<J: Job<Error = Failure>>(
        &mut self,
        kind: Kind,
        job: J,
        order: impl FnOnce(&J::Output) -> Option<AcknowledgedOrder>,
    ) -> crate::Result<Option<J::Output>> {
        let tally = &mut self.tally.kinds[kind as usize];
        let mut counted =
            Counted::new(job, kind as usize, &mut tally.conflicts, self.shapes.as_mut(), self.session.as_ref());
        let result = match self.retry {
            Retry::Yes => self.db.run_job_async(&mut counted),
            Retry::No => self.db.try_job_async(&mut counted),
        };
        drop(counted);
        let begin = self.clock.last;
        let latency = self.clock.lap();
        let mut output = None;
        match result {
            Ok((value, receipt)) => {
                let order = self.acknowledge.as_ref().and_then(|_| order(&value));
                self.hand_in(receipt, Commit { kind, begin, order })?;
                output = Some(value);
            }
            Err(Failure::UnusedItem) => {
                tally.rolled_back += 1;
                tally.latency.record(latency);
            }
            Err(Failure::Engine(Error::Abort(_))) => tally.dropped += 1,
            Err(Failure::Engine(Error::KeyExists { .. })) if self.scheme == Scheme::Rc => tally.lost += 1,
            Err(failure) => return Err(failure.into()),
        }
        Ok(output)
    }

    fn hand_in(&mut self, receipt: Receipt<'a>, commit: Commit) -> crate::Result<()> {
        let Self { outstanding, tally, acknowledge, clock, .. } = self;
        // Read once for all commits that are acknowledged together.
        let mut now = outstanding.is_immediate().then_some(clock.last);
        let mut told = Ok(());
        outstanding.hand_in(receipt, commit, |Commit { kind, begin, order }| {
            let tally = &mut tally.kinds[kind as usize];
            tally.committed += 1;
            tally.latency.record(*now.get_or_insert_with(Instant::now) - begin);
            if let (Some(sink), Some(order), Ok(())) = (&*acknowledge, order, &told) {
                told = sink.write(order);
            }
        })?;
        // The next transaction begins when this one does not have to wait any longer.
        clock.last = now.unwrap_or(clock.last);
        told.map_err(|source| crate::Error::File { path: "the acknowledged orders".into(), source })
    }
}

impl Worker for Terminal<'_> {
    fn step(&mut self) -> crate::Result<()> {
        let (tables, business, now) = (self.tables, self.business, self.clock.now());
        let random = &mut self.random;
        let home = self.home.unwrap_or_else(|| random.uniform(1..=u64::from(business.warehouses)) as u32);
        let kind = self.deck.draw(random);
        match kind {
            Kind::NewOrder => {
                let input = NewOrderInput::draw(&business, home, now, random);
                let ((w, d), lines) = (input.district(), input.lines().len() as u8);
                let order = |sale: &Sale| Some(AcknowledgedOrder { key: (w, d, sale.o_id), lines });
                std::hint::black_box(self.execute_order(kind, NewOrder { tables, input }, order)?);
            }
            Kind::Payment => {
                self.next_payment += 1;
                let input = PaymentInput::draw(&business, home, now, self.next_payment, random);
                std::hint::black_box(self.execute(kind, Payment { tables, input })?);
            }
            Kind::OrderStatus => {
                let input = OrderStatusInput::draw(&business, home, random);
                std::hint::black_box(self.execute(kind, OrderStatus { tables, input })?);
            }
            Kind::Delivery => {
                let input = DeliveryInput::draw(&business, home, now, random);
                let skipped = self.execute(kind, Delivery { tables, input })?;
                self.tally.skipped_districts += u64::from(skipped.unwrap_or(0));
            }
            Kind::StockLevel => {
                let input = StockLevelInput::draw(&business, home, random);
                std::hint::black_box(self.execute(kind, StockLevel { tables, input })?);
            }
            Kind::CreditCheck => {
                let input = CreditCheckInput::draw(&business, home, random);
                std::hint::black_box(self.execute(kind, CreditCheck { tables, input, pause: self.credit_pause })?);
            }
        }
        Ok(())
    }

    fn start_measuring(&mut self) {
        self.tally.reset();
        self.shapes.iter_mut().for_each(AbortShapes::reset);
        self.clock.lap();
    }

    fn progress(&self) -> Progress {
        self.tally.kinds.iter().fold(Progress::default(), |sum, kind| Progress {
            completed: sum.completed + kind.committed + kind.rolled_back,
            aborted: sum.aborted + kind.conflicts.aborted,
        })
    }

    fn finish(&mut self) -> crate::Result<()> {
        self.outstanding.settle(|_| ())
    }
}

/// A commit that waits for its acknowledgement.
struct Commit {
    kind: Kind,
    begin: Instant,
    order: Option<AcknowledgedOrder>,
}

/// Clock of a thread, read once per transaction.
struct Clock {
    begin: Instant,
    begin_us: u64,
    last: Instant,
}

impl Clock {
    fn start() -> Self {
        let begin = Instant::now();
        Self { begin, begin_us: microseconds_since_1970(), last: begin }
    }

    /// Time since the last lap.
    fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now - std::mem::replace(&mut self.last, now)
    }

    /// Microseconds since 1970, as of the last lap.
    fn now(&self) -> u64 {
        self.begin_us + (self.last - self.begin).as_micros() as u64
    }
}

/// The time of day, for dates.
pub(super) fn microseconds_since_1970() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(1, |time| time.as_micros() as u64)
}
