//! A run: load a database for each scheme, check it, drive it with many clients in rounds, check it again.
//!
//! A client stands for many customers and for the market that executes their orders. What the market has ready comes
//! first: an execution becomes a Trade-Result, twenty entries of the ticker a Market-Feed; otherwise a card is drawn. A
//! latency is measured from the end of the transaction before, so it includes drawing the inputs, and all retries.

use std::{
    hint::black_box,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use ermine::{Database, Job, Scheme};
use indicatif::ProgressBar;

use super::{
    asset_eval::{AssetEval, AssetEvalInput},
    broker_volume::{BrokerVolume, BrokerVolumeInput},
    check::{Committed, check},
    customer_position::{CustomerPosition, CustomerPositionInput},
    data_maintenance::{DataMaintenance, DataMaintenanceInput},
    draw,
    emulator::{Emulator, Order, TickerEntry},
    load::load,
    market_feed::MarketFeed,
    market_watch::{MarketWatch, MarketWatchInput},
    mix::{Deck, Kind},
    options::Options,
    population::{Draw, Population},
    security_detail::{SecurityDetail, SecurityDetailInput},
    tables::Tables,
    trade_cleanup::TradeCleanup,
    trade_lookup::{TradeLookup, TradeLookupInput},
    trade_order::{TradeOrder, TradeOrderInput},
    trade_result::TradeResult,
    trade_status::TradeStatus,
    trade_update::{TradeUpdate, TradeUpdateInput},
};
use crate::{
    Error, Result,
    failure::{self, Failure},
    machine::cores,
    random::Random,
    report::Setting,
    rounds::{self, ALL_KINDS, Comparison, Contender, Point, Turn},
    trial::{self, Client, ClientContext, Counts, RunOptions},
    verdict::Check,
};

/// Transactions of the first client from one Data-Maintenance to the next: the rules ask for one a minute, which a
/// short run would not reach.
const MAINTENANCE_EVERY: u64 = 500;

/// An event that is reported to the watcher of a run.
pub enum Event<'a> {
    /// The data of a scheme has been loaded.
    Loaded(Scheme, Duration),
    /// The conditions were checked, after the load or after the run.
    Checked(Scheme, &'a [Check]),
    /// A scheme has run for its share of a round.
    Turn(Turn),
}

/// The data of a contender.
struct Brokerage {
    tables: Tables,
    population: Population,
    committed: Committed,
    /// Numbers of the next trade and the next asset evaluation.
    next_trade: AtomicU64,
    next_evaluation: AtomicU64,
    calendar: Calendar,
}

/// Loads, checks, runs and checks again.
pub fn drive(
    options: &Options,
    setting: Setting,
    progress: &ProgressBar,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Comparison<Options>> {
    options.check()?;
    let population = options.population();
    let mut contenders = rounds::contenders(&options.schemes, &options.run_options, |db| {
        let brokerage = open(db, population, options.threads, progress, watch)?;
        judge(db, &brokerage, watch)?;
        Ok(brokerage)
    })?;
    let trial = |contender: &mut Contender<Brokerage>, round: u32, run_options: &RunOptions| {
        run(contender, options, round, run_options)
    };
    let mut turn = |turn| watch(Event::Turn(turn));
    let mut counted = rounds::interleave(&mut contenders, options.rounds, &options.run_options, trial, &mut turn)?;
    // The last of the kinds is the sum of all.
    let names: Vec<_> = Kind::ALL.map(Kind::name).into_iter().chain([ALL_KINDS]).collect();
    for counts in counted.iter_mut().flatten() {
        counts.tallies.push(counts.total());
    }
    let points = vec![Point::new(format!("{} mix", options.mix), &contenders, &names, &counted)];
    let mut checks = Vec::new();
    for Contender { db, data, .. } in &contenders {
        checks.extend(judge(db, data, watch)?);
    }
    let workload = "brokerage: TPC-E-like (not comparable with published TPC-E results)";
    Ok(Comparison { workload, setting, options: options.clone(), points, checks })
}

fn open(
    db: &Database,
    population: Population,
    threads: usize,
    progress: &ProgressBar,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Brokerage> {
    let begin = Instant::now();
    let tables = Tables::open(db)?;
    load(db, &tables, &population, threads.min(cores()), progress)?;
    progress.finish_and_clear();
    watch(Event::Loaded(db.scheme(), begin.elapsed()));
    Ok(Brokerage {
        tables,
        population,
        committed: Committed::none(&population),
        next_trade: AtomicU64::new(population.initial_trades() + 1),
        next_evaluation: AtomicU64::new(1),
        calendar: Calendar { begin: Instant::now(), begin_us: population.end_of_initial_trades() },
    })
}

fn judge(db: &Database, brokerage: &Brokerage, watch: &mut dyn FnMut(Event<'_>)) -> Result<Vec<Check>> {
    let Brokerage { tables, population, committed, .. } = brokerage;
    let checks = check(db, tables, population, committed)?;
    watch(Event::Checked(db.scheme(), &checks));
    Ok(checks)
}

/// Runs the mix for a share of a round: first a Trade-Cleanup, as the markets of the round before are gone.
fn run(
    contender: &mut Contender<Brokerage>,
    options: &Options,
    round: u32,
    run_options: &RunOptions,
) -> Result<Counts> {
    let Contender { db, data, scheme } = contender;
    let mut from = Some(data.population.initial_trades() + 1);
    while let Some(number) = from {
        let now = data.calendar.at(Instant::now());
        from = db.run_job(&mut TradeCleanup { tables: &data.tables, from: number, now })?;
    }
    let clients = (0..options.threads).map(|number| Desk::new(data, options, *scheme, round, number)).collect();
    let (desks, counts) = trial::run(db, clients, Kind::ALL.len(), run_options, &mut |_| {})?;
    let committed: Vec<_> = desks.into_iter().map(|desk| desk.committed).collect();
    committed.iter().for_each(|committed| data.committed.add(committed));
    Ok(counts)
}

/// A client.
struct Desk<'a> {
    brokerage: &'a Brokerage,
    scheme: Scheme,
    group_percent: f64,
    random: Random,
    deck: Deck,
    market: Emulator,
    committed: Committed,
    /// Whether this is the client that maintains data.
    maintains: bool,
    /// Transactions so far.
    steps: u64,
}

impl<'a> Desk<'a> {
    fn new(brokerage: &'a Brokerage, options: &Options, scheme: Scheme, round: u32, number: usize) -> Self {
        let population = &brokerage.population;
        let stream = u64::from(round) << 32 | (number as u64) << 1;
        Self {
            brokerage,
            scheme,
            group_percent: options.group_percent,
            random: population.row(Draw::Client, stream),
            deck: Deck::new(options.mix),
            market: Emulator::new(population, population.row(Draw::Client, stream | 1)),
            committed: Committed::none(population),
            maintains: number == 0,
            steps: 0,
        }
    }

    /// Runs a transaction whose latency is measured from `begin`; returns `None` if it did not commit.
    fn execute<J: Job<Error = Failure>>(
        &self,
        context: &mut ClientContext<'_>,
        kind: Kind,
        begin: Instant,
        job: J,
    ) -> Result<Option<J::Output>> {
        failure::run(context, self.scheme, kind as usize, begin, job)
    }

    /// Completes an order that the market has executed.
    fn complete(&mut self, context: &mut ClientContext<'_>, begin: Instant, order: Order, price: i64) -> Result<()> {
        let Brokerage { tables, calendar, .. } = self.brokerage;
        let job = TradeResult { tables, trade: order.trade, price, now: calendar.at(begin) };
        if self.execute(context, Kind::TradeResult, begin, job)?.is_some() {
            self.market.print(&order);
        }
        Ok(())
    }

    /// Brings entries of the ticker to the database.
    fn feed(&mut self, context: &mut ClientContext<'_>, begin: Instant, entries: &[TickerEntry]) -> Result<()> {
        let Brokerage { tables, population, calendar, .. } = self.brokerage;
        let job = MarketFeed { tables, population, entries, now: calendar.at(begin) };
        if let Some(submitted) = self.execute(context, Kind::MarketFeed, begin, job)? {
            submitted.into_iter().for_each(|order| self.market.trigger(order));
            for entry in entries {
                self.committed.volumes[entry.security as usize] += i64::from(entry.quantity);
            }
        }
        Ok(())
    }

    /// Runs a transaction that a customer begins.
    fn serve(&mut self, context: &mut ClientContext<'_>, begin: Instant) -> Result<()> {
        let Brokerage { tables, population, next_trade, next_evaluation, calendar, .. } = self.brokerage;
        let random = &mut self.random;
        match self.deck.draw(random) {
            Kind::AssetEval => {
                // Relaxed: the counters hand out keys and carry no data.
                let number = next_evaluation.fetch_add(1, Ordering::Relaxed);
                let input = AssetEvalInput::draw(population, self.group_percent, number, random);
                let done = self.execute(context, Kind::AssetEval, begin, AssetEval { tables, input })?;
                self.committed.evaluations += u64::from(done.is_some());
            }
            Kind::BrokerVolume => {
                let input = BrokerVolumeInput::draw(population, random);
                black_box(self.execute(context, Kind::BrokerVolume, begin, BrokerVolume { tables, input })?);
            }
            Kind::CustomerPosition => {
                let input = CustomerPositionInput::draw(population, random);
                black_box(self.execute(context, Kind::CustomerPosition, begin, CustomerPosition { tables, input })?);
            }
            Kind::MarketWatch => {
                let input = MarketWatchInput::draw(population, random);
                black_box(self.execute(context, Kind::MarketWatch, begin, MarketWatch { tables, input })?);
            }
            Kind::SecurityDetail => {
                let input = SecurityDetailInput::draw(population, random);
                black_box(self.execute(context, Kind::SecurityDetail, begin, SecurityDetail { tables, input })?);
            }
            Kind::TradeLookup => {
                let input = &TradeLookupInput::draw(population, random);
                black_box(self.execute(context, Kind::TradeLookup, begin, TradeLookup { tables, input })?);
            }
            Kind::TradeOrder => {
                let trade = next_trade.fetch_add(1, Ordering::Relaxed);
                let input = TradeOrderInput::draw(population, trade, calendar.at(begin), random);
                if let Some(order) = self.execute(context, Kind::TradeOrder, begin, TradeOrder { tables, input })? {
                    self.market.submit(order);
                }
            }
            Kind::TradeStatus => {
                let account = draw::account(population, random);
                black_box(self.execute(context, Kind::TradeStatus, begin, TradeStatus { tables, account })?);
            }
            Kind::TradeUpdate => {
                let input = &TradeUpdateInput::draw(population, random);
                black_box(self.execute(context, Kind::TradeUpdate, begin, TradeUpdate { tables, input })?);
            }
            kind @ (Kind::MarketFeed | Kind::TradeResult | Kind::DataMaintenance) => {
                return Err(Error::Workload(format!("customers do not begin a {}", kind.name())));
            }
        }
        Ok(())
    }
}

impl Client for Desk<'_> {
    fn step(&mut self, context: &mut ClientContext<'_>) -> Result<()> {
        let begin = context.last_reading();
        self.steps += 1;
        if self.maintains && self.steps.is_multiple_of(MAINTENANCE_EVERY) {
            let Brokerage { tables, population, calendar, .. } = self.brokerage;
            let (turn, now) = (self.steps / MAINTENANCE_EVERY, calendar.at(begin));
            let input = DataMaintenanceInput::draw(population, turn, now, &mut self.random);
            self.execute(context, Kind::DataMaintenance, begin, DataMaintenance { tables, input })?;
            return Ok(());
        }
        if let Some((order, price)) = self.market.execute() {
            return self.complete(context, begin, order, price);
        }
        match self.market.feed() {
            Some(entries) => self.feed(context, begin, &entries),
            None => self.serve(context, begin),
        }
    }
}

/// Converts readings of the clock to times of the brokerage, which go on where the initial trades end.
struct Calendar {
    begin: Instant,
    begin_us: u64,
}

impl Calendar {
    fn at(&self, reading: Instant) -> u64 {
        self.begin_us + reading.saturating_duration_since(self.begin).as_micros() as u64
    }
}
