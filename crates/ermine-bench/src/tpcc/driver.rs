//! A run: load, check, drive with many threads, check again.
//!
//! A client draws a card, draws the inputs and runs the job. The clock is read once per transaction: a latency is
//! measured from the end of the transaction before, so it includes drawing the inputs, and all retries.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use ermine::{Database, Job, Recovery, Scheme, TxnOptions};
use indicatif::ProgressBar;

use super::{
    acknowledged::{AcknowledgedOrder, OrderSink, check_acknowledged, read_acknowledged},
    business::{Business, Failure, microseconds_since_1970},
    check::check,
    credit_check::{CreditCheck, CreditCheckInput},
    delivery::{Delivery, DeliveryInput},
    ledger::Moment,
    load::load,
    mix::{Deck, Kind},
    new_order::{NewOrder, NewOrderInput, Sale},
    options::{Home, Options},
    order_status::{OrderStatus, OrderStatusInput},
    payment::{Payment, PaymentInput},
    rows::{RowChoice, Rows, SiloRows, StandardRows},
    stock_level::{StockLevel, StockLevelInput},
    summary::{Outcome, Summary},
    tables::Tables,
};
use crate::{
    Error, Result,
    machine::cores,
    pause::Pause,
    random::Random,
    report::{Memory, Setting},
    threads::Tick,
    trial::{self, Client, ClientContext, Commit},
    verdict::Verdict,
};

/// An event that is reported to the watcher of a run.
pub enum Event<'a> {
    /// The data of earlier runs has been opened.
    Opened(&'a Recovery),
    /// The data has been loaded.
    Loaded(Duration, Memory),
    /// The conditions were checked.
    Checked(Moment, Duration, &'a [Verdict]),
    /// A second has passed.
    Second(Tick),
}

/// Loads, checks, runs and checks again.
pub fn drive(
    options: &Options,
    setting: Setting,
    progress: &ProgressBar,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Summary> {
    match options.rows {
        RowChoice::Standard => drive_rows::<StandardRows>(options, setting, progress, watch),
        RowChoice::Silo => drive_rows::<SiloRows>(options, setting, progress, watch),
    }
}

fn drive_rows<R: Rows>(
    options: &Options,
    setting: Setting,
    progress: &ProgressBar,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Summary> {
    options.check()?;
    let expected = options.expect.as_deref().map_or(Ok(Vec::new()), read_acknowledged)?;
    let db = options.run_options.open(options.scheme)?;
    let tables = Tables::<R>::open_for(&db, options.mix)?;

    let begin = Instant::now();
    let moment = match db.recovery().rows > 0 {
        true => {
            watch(Event::Opened(db.recovery()));
            check_size(options, &db, &tables)?;
            Moment::AfterOpening
        }
        false => {
            let loaders = options.threads.min(cores());
            load(&db, &tables, options.warehouses, options.scale, options.run_options.seed, loaders, progress)?;
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
fn check_size<R: Rows>(options: &Options, db: &Database, tables: &Tables<R>) -> Result<()> {
    let txn = db.begin(TxnOptions::read_only())?;
    let has = |w| txn.view(&tables.warehouse, &w).map(|row| row.is_some());
    let last_item = txn.view(&tables.item, &options.scale.items)?.is_some();
    let more_items = txn.view(&tables.item, &(options.scale.items + 1))?.is_some();
    let is_same = has(options.warehouses)? && !has(options.warehouses + 1)? && last_item && !more_items;
    txn.commit()?;
    match is_same {
        true => Ok(()),
        false => Err(Error::Usage("the database was loaded with another number of warehouses or rows".into())),
    }
}

fn judge<R: Rows>(
    options: &Options,
    db: &Database,
    tables: &Tables<R>,
    moment: Moment,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Vec<Verdict>> {
    let begin = Instant::now();
    let verdicts = check(db, tables, options.warehouses, options.scale, moment)?;
    watch(Event::Checked(moment, begin.elapsed(), &verdicts));
    Ok(verdicts)
}

/// Runs the mix on a loaded database.
pub fn run<R: Rows>(
    options: &Options,
    db: &Database,
    tables: &Tables<R>,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Outcome> {
    let terminals = (0..options.threads).map(|number| Terminal::new(options, tables, number)).collect();
    let kinds = Kind::ALL.len();
    let (terminals, counts) =
        trial::run(db, terminals, kinds, &options.run_options, &mut |tick| watch(Event::Second(tick)))?;
    let skipped_districts = terminals.iter().map(|terminal| terminal.skipped_districts).sum();
    Ok(Outcome { counts, skipped_districts })
}

/// A client that stands for all terminals of a warehouse, without their users' pauses.
struct Terminal<'a, R: Rows> {
    tables: &'a Tables<R>,
    business: Business,
    scheme: Scheme,
    home: Option<u32>,
    credit_pause: Pause,
    random: Random,
    deck: Deck,
    calendar: Calendar,
    /// Last part of the key of the next payment in HISTORY: the thread's number in the high bits; in the low bits a
    /// count that starts at the time of day, so that a later run continues after an earlier one.
    next_payment: u64,
    acknowledge: Option<OrderSink>,
    /// Districts that had nothing to deliver.
    skipped_districts: u64,
}

impl<'a, R: Rows> Terminal<'a, R> {
    fn new(options: &Options, tables: &'a Tables<R>, number: usize) -> Self {
        let thread = number as u64 + 1;
        let calendar = Calendar::start();
        Self {
            tables,
            business: options.business(),
            scheme: options.scheme,
            home: match options.home {
                Home::Fixed => Some((number % options.warehouses as usize) as u32 + 1),
                Home::Random => None,
            },
            credit_pause: options.credit_pause,
            // The loader's streams lie below 2^63.
            random: Random::new(options.run_options.seed, 1 << 63 | thread),
            deck: Deck::new(options.mix),
            next_payment: thread << 52 | calendar.begin_us,
            calendar,
            acknowledge: options.acknowledge.clone(),
            skipped_districts: 0,
        }
    }

    /// Runs a transaction whose latency is measured from `begin`.
    fn execute<J: Job<Error = Failure>>(
        &self,
        context: &mut ClientContext<'_>,
        kind: Kind,
        begin: Instant,
        job: J,
    ) -> Result<Option<J::Output>> {
        self.execute_order(context, kind, begin, job, |_| None)
    }

    /// Like `execute`; `order` computes what the customer receives when the commit is acknowledged.
    fn execute_order<J: Job<Error = Failure>>(
        &self,
        context: &mut ClientContext<'_>,
        kind: Kind,
        begin: Instant,
        job: J,
        order: impl FnOnce(&J::Output) -> Option<AcknowledgedOrder>,
    ) -> Result<Option<J::Output>> {
        let number = kind as usize;
        match context.execute(number, job) {
            Ok((output, receipt)) => {
                let then = self.acknowledge.as_ref().and_then(|sink| Some(sink.writing(order(&output)?)));
                context.hand_in(receipt, Commit { kind: number, begin: Some(begin), then })?;
                return Ok(Some(output));
            }
            Err(Failure::UnusedItem) => context.roll_back(number, begin),
            Err(Failure::Engine(ermine::Error::Abort(_))) => context.tally(number).dropped += 1,
            Err(Failure::Engine(ermine::Error::KeyExists { .. })) if self.scheme == Scheme::Rc => {
                context.tally(number).lost += 1;
            }
            Err(failure) => return Err(failure.into()),
        }
        Ok(None)
    }
}

impl<R: Rows> Client for Terminal<'_, R> {
    fn step(&mut self, context: &mut ClientContext<'_>) -> Result<()> {
        let begin = context.last_reading();
        let (tables, business, scheme, now) = (self.tables, self.business, self.scheme, self.calendar.at(begin));
        let random = &mut self.random;
        let home = self.home.unwrap_or_else(|| random.uniform(1..=u64::from(business.warehouses)) as u32);
        let kind = self.deck.draw(random);
        match kind {
            Kind::NewOrder => {
                let input = NewOrderInput::draw(&business, home, now, random);
                let ((w, d), lines) = (input.district(), input.lines().len() as u8);
                let order = |sale: &Sale| Some(AcknowledgedOrder { key: (w, d, sale.o_id), lines });
                black_box(self.execute_order(context, kind, begin, NewOrder { tables, input }, order)?);
            }
            Kind::Payment => {
                self.next_payment += 1;
                let input = PaymentInput::draw(&business, home, now, self.next_payment, random);
                black_box(self.execute(context, kind, begin, Payment { tables, input })?);
            }
            Kind::OrderStatus => {
                let input = OrderStatusInput::draw(&business, home, random);
                black_box(self.execute(context, kind, begin, OrderStatus { tables, input, scheme })?);
            }
            Kind::Delivery => {
                let input = DeliveryInput::draw(&business, home, now, random);
                let skipped = self.execute(context, kind, begin, Delivery { tables, input })?;
                self.skipped_districts += u64::from(skipped.unwrap_or(0));
            }
            Kind::StockLevel => {
                let input = StockLevelInput::draw(&business, home, random);
                black_box(self.execute(context, kind, begin, StockLevel { tables, input, scheme })?);
            }
            Kind::CreditCheck => {
                let input = CreditCheckInput::draw(&business, home, random);
                let job = CreditCheck { tables, input, pause: self.credit_pause };
                black_box(self.execute(context, kind, begin, job)?);
            }
        }
        Ok(())
    }

    fn start_measuring(&mut self) {
        self.skipped_districts = 0;
    }
}

/// Converts readings of the clock to dates.
struct Calendar {
    begin: Instant,
    begin_us: u64,
}

impl Calendar {
    fn start() -> Self {
        Self { begin: Instant::now(), begin_us: microseconds_since_1970() }
    }

    /// Microseconds since 1970 at a reading.
    fn at(&self, reading: Instant) -> u64 {
        self.begin_us + (reading - self.begin).as_micros() as u64
    }
}
