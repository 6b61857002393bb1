//! How fast the changes of committed transactions are read from the log, and replayed by a standby.
//!
//! One thread writes: transactions of some rows each, that are not waited for. Then the log is read, several times, from
//! its beginning: the files are in the system's cache. Before that, another database gets the same transactions without
//! keys in its log, so that the cost of the keys shows.
//!
//! Every write has the next number in its value, and the reader sees all numbers in their order.
//!
//! At last, a standby that began with the loaded rows receives the log of the updates, durably, piece by piece, and
//! another thread replays it meanwhile ([`HotStandby::receive_all`]). Its rows are compared with those of the original.

use std::{
    fmt, fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use ermine::{Change, Database, Durability, HotStandby, Scheme, Table};
use serde::Serialize;

use crate::{
    Error, Result,
    page::{Bar, Bars, Page, Report},
    random::Random,
    report::{Facts, Grid, Setting, grouped, mib, scheme_name, seconds},
    storage::{self, PIECE_BYTES, Storage},
    tuning::Tuning,
};

/// Options of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// Concurrency control.
    #[serde(serialize_with = "scheme_name")]
    pub scheme: Scheme,
    /// Parent directory of the databases.
    pub directory: PathBuf,
    /// Rows of the table.
    pub rows: u64,
    /// Length of a row's value, at least 8.
    pub value_bytes: usize,
    /// Transactions that are written.
    pub transactions: u64,
    /// Rows that a transaction updates.
    pub updates: u64,
    /// How often the log is read.
    pub rounds: usize,
    /// Seed of the updated rows.
    pub seed: u64,
    /// Settings of the engine.
    pub tuning: Tuning,
}

impl Options {
    /// Fails if the options cannot work.
    pub fn check(&self) -> Result<()> {
        if self.rows == 0 || self.updates == 0 || self.rounds == 0 {
            return Err(Error::Usage("at least one row, one update and one round are needed".into()));
        }
        if !(8..=ermine::MAX_VALUE_BYTES).contains(&self.value_bytes) {
            return Err(Error::Usage(format!("a value has between 8 and {} bytes", ermine::MAX_VALUE_BYTES)));
        }
        if !self.scheme.has_versions() {
            return Err(Error::Usage(format!("changes cannot be read under {}", self.scheme)));
        }
        storage::check(&[self.scheme], Some(&self.storage()), &self.tuning)
    }

    fn storage(&self) -> Storage {
        Storage { directory: self.directory.clone(), durability: Durability::Async, outstanding: 1, keep: false }
    }

    fn written(&self) -> u64 {
        self.transactions * self.updates
    }
}

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The machine.
    pub setting: Setting,
    /// The options of the run.
    pub options: Options,
    /// The writing of a log without keys.
    pub without_keys: Written,
    /// The writing of the log that is read.
    pub with_keys: Written,
    /// The times of the rounds.
    pub rounds: Vec<Round>,
    /// The standby's.
    pub replay: Round,
}

/// Transactions that were written.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Written {
    /// The time, until everything was durable.
    #[serde(serialize_with = "seconds", rename = "seconds")]
    pub took: Duration,
    /// Bytes of log.
    pub log_bytes: u64,
}

/// A reading of the whole log.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Round {
    /// The time.
    #[serde(serialize_with = "seconds", rename = "seconds")]
    pub took: Duration,
    /// Changes of rows per second.
    pub changes_per_second: f64,
}

type Rows = Table<u64, Vec<u8>>;

/// Measures all; `watch` receives each round.
pub fn drive(options: &Options, setting: Setting, watch: &mut dyn FnMut(&Round)) -> Result<Summary> {
    options.check()?;
    let open = |name: &str, log_keys: bool| {
        let engine = ermine::Options::default().scheme(options.scheme).log_keys(log_keys).keep_log(1 << 40);
        storage::open(engine, Some(&options.storage().beside(name)), &options.tuning)
    };
    let copy = options.directory.join("standby");
    let without_keys = write(options, &open("without-keys", false)?, |_| Ok(()))?.1;
    let db = open("with-keys", true)?;
    let (from, with_keys) = write(options, &db, |db| Ok(db.backup(&copy).map(drop)?))?;
    let mut rounds = Vec::new();
    for _ in 0..options.rounds {
        let round = read(options, &db, from)?;
        watch(&round);
        rounds.push(round);
    }
    let replay = replay(options, &db, HotStandby::open(&copy, ermine::Options::default())?)?;
    fs::remove_dir_all(&copy).map_err(|source| Error::File { path: copy, source })?;
    Ok(Summary { setting, options: options.clone(), without_keys, with_keys, rounds, replay })
}

/// Loads the rows, and then updates some at random; returns the position between the two, where `loaded` is called.
fn write(options: &Options, db: &Database, loaded: impl FnOnce(&Database) -> Result<()>) -> Result<(u64, Written)> {
    let rows: Rows = db.table("row")?;
    let mut value = vec![0; options.value_bytes];
    for first in (0..options.rows).step_by(1_000) {
        let mut keys = first..options.rows.min(first + 1_000);
        db.run(|txn| keys.try_for_each(|key| txn.insert(&rows, &key, value.as_slice())))?;
    }
    db.sync()?;
    let from = db.log_reader(None)?.position();
    loaded(db)?;
    let (before, begin) = (db.statistics().log_bytes, Instant::now());
    let mut random = Random::new(options.seed, 0);
    for transaction in 0..options.transactions {
        // One thread: no transaction is run again.
        db.run(|txn| {
            (0..options.updates).try_for_each(|update| {
                let number = transaction * options.updates + update;
                value[..8].copy_from_slice(&number.to_le_bytes());
                // Another row for each update of the transaction.
                let key = (random.below(options.rows) / options.updates * options.updates + update) % options.rows;
                txn.put(&rows, &key, value.as_slice())
            })
        })?;
    }
    db.sync()?;
    Ok((from, Written { took: begin.elapsed(), log_bytes: db.statistics().log_bytes - before }))
}

/// Reads all changes from a position on.
fn read(options: &Options, db: &Database, from: u64) -> Result<Round> {
    let (begin, mut expected) = (Instant::now(), 0_u64);
    let mut reader = db.changes(Some(from))?;
    while let Some(transaction) = reader.next()? {
        for change in &transaction.changes {
            let Change::Row(row) = change else { continue };
            if row.write.value().is_none_or(|value| value[..8] != expected.to_le_bytes()) {
                return Err(Error::Workload(format!("write {expected} is missing, or not in its place")));
            }
            expected += 1;
        }
    }
    let took = begin.elapsed();
    if expected != options.written() {
        return Err(Error::Workload(format!("{expected} changes were read of {}", options.written())));
    }
    Ok(Round { took, changes_per_second: expected as f64 / took.as_secs_f64() })
}

/// Lets a standby receive and replay all updates.
fn replay(options: &Options, db: &Database, mut standby: HotStandby) -> Result<Round> {
    let begin = Instant::now();
    let mut reader = db.log_reader(Some(standby.position()))?;
    standby.receive_all(std::iter::from_fn(|| reader.next(PIECE_BYTES).transpose()))?;
    let took = begin.elapsed();
    let rows_of = |db: &Database| {
        let rows: Rows = db.table("row")?;
        db.run(|txn| txn.scan(&rows, ..).collect())
    };
    if rows_of(db)? != rows_of(standby.database())? {
        return Err(Error::Workload("the standby has other rows".into()));
    }
    Ok(Round { took, changes_per_second: options.written() as f64 / took.as_secs_f64() })
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changes = grouped(self.changes_per_second as u64);
        write!(f, "{:.2} s, {changes} changes of rows per second", self.took.as_secs_f64())
    }
}

impl Summary {
    fn facts(&self) -> Facts {
        let Options { scheme, directory, rows, value_bytes, transactions, updates, seed, tuning, .. } = &self.options;
        let options = format!(
            "scheme {scheme}, {rows} rows of {value_bytes} bytes in {}, {transactions} transactions of {updates} \
             updates, seed {seed}{tuning}",
            directory.display()
        );
        self.setting.facts().with("options", options)
    }

    fn grid(&self) -> Grid {
        let mut grid = Grid::new(&["", "s", "transactions/s", "changes/s", "log"]);
        let mut row = |name: &str, took: Duration, log: String| {
            let rate = |count: u64| grouped((count as f64 / took.as_secs_f64()) as u64);
            let seconds = format!("{:.2}", took.as_secs_f64());
            grid.row([name.to_owned(), seconds, rate(self.options.transactions), rate(self.options.written()), log]);
        };
        for (name, written) in [("written without keys", self.without_keys), ("written", self.with_keys)] {
            row(name, written.took, mib(written.log_bytes));
        }
        self.rounds.iter().for_each(|round| row("read", round.took, mib(self.with_keys.log_bytes)));
        row("replayed by a standby", self.replay.took, mib(self.with_keys.log_bytes));
        grid
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n\n{}", self.facts(), self.grid())
    }
}

impl Report for Summary {
    fn page(&self) -> Page {
        let mut page = Page::new("changes", self.facts());
        let bar = |name: String, took: Duration| {
            let value = self.options.written() as f64 / took.as_secs_f64();
            Bar { name, value, text: grouped(value as u64) }
        };
        let written = [("written without keys", self.without_keys), ("written", self.with_keys)];
        let mut bars: Vec<_> = written.map(|(name, written)| bar(name.into(), written.took)).into();
        let rounds = self.rounds.iter().enumerate();
        bars.extend(rounds.map(|(number, round)| bar(format!("read, round {}", number + 1), round.took)));
        bars.push(bar("replayed by a standby".into(), self.replay.took));
        page.bars(Bars::single("Changes per second", bars));
        page.table("Changes", self.grid());
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_changes_are_read_in_each_round() {
        let directory = std::env::temp_dir().join(format!("ermine-bench-{}-changes", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        let options = Options {
            scheme: Scheme::default(),
            directory: directory.clone(),
            rows: 100,
            value_bytes: 20,
            transactions: 500,
            updates: 3,
            rounds: 2,
            seed: 1,
            tuning: Tuning::default(),
        };
        assert!(Options { scheme: Scheme::Silo, ..options.clone() }.check().is_err());
        let summary = drive(&options, Setting::here(), &mut |_| {}).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(summary.rounds.len(), 2);
        assert!(summary.with_keys.log_bytes > summary.without_keys.log_bytes, "{summary}");
    }
}
