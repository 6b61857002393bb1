//! A standby beside its primary: how fast one thread of the standby replays what one thread of the primary has
//! committed, and how fast each of them is read.
//!
//! The standby begins with a backup of the loaded warehouses. One thread of the primary runs the mix, and does not wait
//! for the device. Then one thread reads its log, piece by piece, and stores it durably on the standby's side, while
//! another one replays it there ([`HotStandby::receive_all`]). In the end both must fulfil the conditions of the data,
//! and Order-Status and Stock-Level are run on both in turn.

use std::{
    fmt, fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use ermine::{Database, Durability, HotStandby, Job, Scheme};
use indicatif::ProgressBar;
use serde::Serialize;

use super::{
    business::{Failure, Scale},
    check::check,
    driver::run,
    ledger::Moment,
    load::load,
    mix::Mix,
    options::{Home, Options},
    order_status::{OrderStatus, OrderStatusInput},
    rows::{RowChoice, StandardRows},
    stock_level::{StockLevel, StockLevelInput},
    tables::Tables,
};
use crate::{
    Error, Result,
    machine::cores,
    page::{Bar, Bars, Page, Report},
    pause::Pause,
    random::Random,
    report::{Facts, Grid, Setting, grouped, mib, scheme_name, seconds},
    storage::{self, PIECE_BYTES, Storage},
    trial::RunOptions,
    tuning::Tuning,
    verdict::{Verdict, all_hold},
};

/// Options of a run.
#[derive(Clone, Debug, Serialize)]
pub struct StandbyOptions {
    /// Concurrency control.
    #[serde(serialize_with = "scheme_name")]
    pub scheme: Scheme,
    /// Parent directory of the two databases.
    pub directory: PathBuf,
    /// Number of warehouses.
    pub warehouses: u32,
    /// Numbers of rows per warehouse.
    pub scale: Scale,
    /// How long the primary writes, and then how long each of the two is read in each round.
    #[serde(serialize_with = "seconds", rename = "seconds")]
    pub measured: Duration,
    /// How often each of the two is read.
    pub rounds: usize,
    /// Seed of data and inputs.
    pub seed: u64,
    /// Settings of the engine.
    pub tuning: Tuning,
}

impl StandbyOptions {
    /// Fails if the options cannot work.
    pub fn check(&self) -> Result<()> {
        if !self.scheme.has_versions() {
            return Err(Error::Usage(format!("a standby cannot be read under {}", self.scheme)));
        }
        self.mix().check()
    }

    /// The mix on the primary.
    fn mix(&self) -> Options {
        Options {
            scheme: self.scheme,
            threads: 1,
            warehouses: self.warehouses,
            remote_percent: 1,
            home: Home::Random,
            scale: self.scale,
            rows: RowChoice::Standard,
            mix: Mix::Standard,
            credit_pause: Pause::NONE,
            acknowledge: None,
            expect: None,
            run_options: RunOptions {
                warmup: Duration::ZERO,
                measured: self.measured,
                seed: self.seed,
                storage: Some(Storage {
                    directory: self.directory.join("primary"),
                    durability: Durability::Async,
                    outstanding: 1,
                    keep: false,
                }),
                tuning: self.tuning.clone(),
                ..RunOptions::default()
            },
        }
    }
}

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub struct StandbySummary {
    /// The machine.
    pub setting: Setting,
    /// The options of the run.
    pub options: StandbyOptions,
    /// Transactions that the primary committed.
    pub committed: u64,
    /// The time that it took.
    pub written_seconds: f64,
    /// The log of these.
    pub log_bytes: u64,
    /// The time until the standby had replayed all of it.
    pub replayed_seconds: f64,
    /// Transactions a second that only read, by round: on the primary, and on the standby.
    pub reads: Vec<[f64; 2]>,
    /// The conditions of the primary's data, and of the standby's.
    pub conditions: [Vec<Verdict>; 2],
}

/// Measures all of it.
pub fn drive_standby(options: &StandbyOptions, setting: Setting, progress: &ProgressBar) -> Result<StandbySummary> {
    options.check()?;
    let (mix, copy) = (options.mix(), options.directory.join("standby"));
    let engine = ermine::Options::default().scheme(options.scheme).log_keys(true).keep_log(1 << 40);
    let db = storage::open(engine, mix.run_options.storage.as_ref(), &options.tuning)?;
    let tables = Tables::<StandardRows>::open(&db)?;
    load(&db, &tables, options.warehouses, options.scale, options.seed, cores(), progress)?;
    progress.finish_and_clear();
    db.backup(&copy)?;
    let mut standby = HotStandby::open(&copy, ermine::Options::default())?;
    // The indexes are of this program: a standby maintains those that are open.
    let image = standby.database().clone();
    let there = Tables::<StandardRows>::open(&image)?;

    let logged = db.statistics().log_bytes;
    let written = run(&mix, &db, &tables, &mut |_| {})?.counts;
    db.sync()?;
    let log_bytes = db.statistics().log_bytes - logged;

    let begin = Instant::now();
    let mut reader = db.log_reader(Some(standby.position()))?;
    standby.receive_all(std::iter::from_fn(|| reader.next(PIECE_BYTES).transpose()))?;
    let replayed_seconds = begin.elapsed().as_secs_f64();

    let judged = |db, tables| check(db, tables, options.warehouses, options.scale, Moment::AfterRun);
    let conditions = [judged(&db, &tables)?, judged(&image, &there)?];
    let mut reads = Vec::new();
    for _ in 0..options.rounds {
        reads.push([read(&mix, &db, &tables)?, read(&mix, &image, &there)?]);
    }
    drop((reader, there, image, standby));
    fs::remove_dir_all(&copy).map_err(|source| Error::File { path: copy, source })?;
    Ok(StandbySummary {
        setting,
        options: options.clone(),
        committed: written.total().committed,
        written_seconds: written.seconds,
        log_bytes,
        replayed_seconds,
        reads,
        conditions,
    })
}

/// Runs transactions that only read, by one thread; returns how many a second.
fn read(mix: &Options, db: &Database, tables: &Tables<StandardRows>) -> Result<f64> {
    let (scheme, business) = (mix.scheme, mix.business());
    let mut random = Random::new(mix.run_options.seed, 1 << 62);
    let (begin, mut done) = (Instant::now(), 0_u64);
    while begin.elapsed() < mix.run_options.measured {
        let home = random.uniform(1..=u64::from(mix.warehouses)) as u32;
        let input = OrderStatusInput::draw(&business, home, &mut random);
        completed(db, OrderStatus { tables, input, scheme })?;
        let input = StockLevelInput::draw(&business, home, &mut random);
        completed(db, StockLevel { tables, input, scheme })?;
        done += 2;
    }
    Ok(done as f64 / begin.elapsed().as_secs_f64())
}

fn completed<J: Job<Error = Failure>>(db: &Database, mut job: J) -> Result<()> {
    db.run_job(&mut job).map(drop).map_err(|failure| Error::Workload(failure.to_string()))
}

impl StandbySummary {
    /// Whether the conditions of both hold.
    pub fn holds(&self) -> bool {
        self.conditions.iter().all(|verdicts| all_hold(verdicts))
    }

    fn rates(&self) -> [(&'static str, f64); 4] {
        let median = |of: usize| {
            let mut rates: Vec<_> = self.reads.iter().map(|rates| rates[of]).collect();
            rates.sort_by(f64::total_cmp);
            rates.get(rates.len() / 2).copied().unwrap_or(0.0)
        };
        let committed = self.committed as f64;
        [
            ("committed by the primary", committed / self.written_seconds),
            ("replayed by the standby", committed / self.replayed_seconds),
            ("reads of the primary", median(0)),
            ("reads of the standby", median(1)),
        ]
    }

    fn grid(&self) -> Grid {
        let mut grid = Grid::new(&["one thread", "transactions/s", "of the primary"]);
        let rates = self.rates();
        for (number, (name, rate)) in rates.into_iter().enumerate() {
            let ratio = format!("{:.2}", rate / rates[number / 2 * 2].1);
            grid.row([name.to_owned(), grouped(rate as u64), ratio]);
        }
        grid
    }

    fn facts(&self) -> Facts {
        let StandbyOptions { scheme, directory, warehouses, measured, rounds, seed, tuning, .. } = &self.options;
        let options = format!(
            "scheme {scheme}, {warehouses} warehouses in {}, {:.0} s of the mix, {rounds} rounds of reads, seed \
             {seed}{tuning}",
            directory.display(),
            measured.as_secs_f64()
        );
        let log = format!("{} for {} transactions", mib(self.log_bytes), grouped(self.committed));
        self.setting.facts().with("options", options).with("log", log)
    }

    fn judgement(&self) -> String {
        let conditions = |(whose, verdicts): (&str, &Vec<Verdict>)| {
            let failed: String = verdicts.iter().filter(|one| !one.holds()).map(|one| format!("{one}\n")).collect();
            let verdict = if failed.is_empty() { "PASS" } else { "FAIL" };
            format!("{failed}{verdict}  conditions of the data of the {whose}\n")
        };
        ["primary", "standby"].into_iter().zip(&self.conditions).map(conditions).collect()
    }
}

impl fmt::Display for StandbySummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n\n{}\n{}", self.facts(), self.grid(), self.judgement().trim_end())
    }
}

impl Report for StandbySummary {
    fn page(&self) -> Page {
        let mut page = Page::new("standby", self.facts());
        let bar = |(name, rate): (&str, f64)| Bar { name: name.into(), value: rate, text: grouped(rate as u64) };
        page.bars(Bars::single("Transactions per second, one thread", self.rates().into_iter().map(bar).collect()));
        page.table("Standby", self.grid());
        page.text("Result", self.judgement());
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standby_has_what_the_primary_has_committed() {
        let directory = std::env::temp_dir().join(format!("ermine-bench-{}-standby", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        let options = StandbyOptions {
            scheme: Scheme::default(),
            directory: directory.clone(),
            warehouses: 1,
            scale: Scale::SMALL,
            measured: Duration::from_millis(200),
            rounds: 1,
            seed: 1,
            tuning: Tuning::default(),
        };
        assert!(StandbyOptions { scheme: Scheme::Silo, ..options.clone() }.check().is_err());
        let summary = drive_standby(&options, Setting::uncalibrated(), &ProgressBar::hidden()).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        assert!(summary.holds() && summary.committed > 0 && summary.log_bytes > 0, "{summary}");
    }
}
