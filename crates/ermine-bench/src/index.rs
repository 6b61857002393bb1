//! Lookups in an index on its own, as in figure 11 of the HTM paper: 16 million sparse keys of four bytes. Each key
//! that is looked up depends on the result of the lookup before, so that nothing is loaded ahead.
//!
//! All indexes are built first, by inserts in random order; then they take turns in rounds, first with one thread and
//! then with more, so that other activity on the machine affects all alike. Every lookup must find its key.

use std::{
    fmt,
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use ermine::bench_index::{Contender, Lookups};
use serde::Serialize;

use crate::{
    Error, Result,
    page::{Axis, Bar, Bars, Chart, Page, Point, Report},
    report::{Facts, Grid, Setting, mib, seconds},
};

/// Options of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// Keys in each index.
    pub keys: u32,
    /// Numbers of threads.
    pub threads: Vec<usize>,
    /// Time of each index in each round, with each number of threads.
    #[serde(serialize_with = "seconds", rename = "turn_seconds")]
    pub turn: Duration,
    /// Number of rounds.
    pub rounds: usize,
}

impl Options {
    /// Fails if the options cannot work.
    pub fn check(&self) -> Result<()> {
        if self.keys == 0 || self.rounds == 0 || self.turn.is_zero() || self.threads.contains(&0) {
            return Err(Error::Usage("at least one key, thread and round, and some time are needed".into()));
        }
        Ok(())
    }
}

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The machine.
    pub setting: Setting,
    /// The options of the run.
    pub options: Options,
    /// The results of each index.
    pub lines: Vec<Line>,
}

/// The results of one index.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Its kind, and how it is synchronized.
    pub name: &'static str,
    /// Bytes of memory that it takes.
    pub bytes: u64,
    /// The rate with each number of threads.
    pub rates: Vec<Rate>,
}

/// Millions of lookups per second, of all threads together.
#[derive(Clone, Debug, Serialize)]
pub struct Rate {
    /// Number of threads.
    pub threads: usize,
    /// In the slowest round.
    pub low: f64,
    /// In the median round.
    pub median: f64,
    /// In the fastest round.
    pub high: f64,
}

/// Builds and measures; `event` receives a line about each step.
pub fn drive(options: &Options, setting: Setting, event: &mut dyn FnMut(String)) -> Result<Summary> {
    options.check()?;
    let mut built = Vec::new();
    for contender in Contender::ALL {
        let start = Instant::now();
        let lookups = Lookups::build(contender, (0..options.keys).map(key));
        let (took, bytes) = (start.elapsed().as_secs_f64(), lookups.bytes());
        event(format!("{}: built in {took:.1} s, {}", contender.name(), mib(bytes)));
        built.push((contender, lookups, bytes));
    }
    let mut rates = vec![vec![Vec::new(); options.threads.len()]; built.len()];
    for round in 1..=options.rounds {
        for (at, &threads) in options.threads.iter().enumerate() {
            for ((contender, lookups, _), rates) in built.iter().zip(&mut rates) {
                let rate = turn(lookups, threads, options);
                event(format!("round {round}, {threads} threads, {}: {rate:.2} M lookups/s", contender.name()));
                rates[at].push(rate);
            }
        }
    }
    let lines = built.iter().zip(rates).map(|((contender, _, bytes), rates)| Line {
        name: contender.name(),
        bytes: *bytes,
        rates: options.threads.iter().zip(rates).map(|(&threads, rates)| Rate::of(threads, rates)).collect(),
    });
    Ok(Summary { setting, options: options.clone(), lines: lines.collect() })
}

/// The keys are spread over four bytes, and no two are equal: a bijection (the finalizer of MurmurHash3).
fn key(number: u32) -> [u8; 4] {
    let mut mixed = number ^ number >> 16;
    mixed = mixed.wrapping_mul(0x85eb_ca6b);
    mixed ^= mixed >> 13;
    mixed = mixed.wrapping_mul(0xc2b2_ae35);
    (mixed ^ mixed >> 16).to_be_bytes()
}

/// Lets some threads look up keys of one index for a while; returns millions of lookups a second.
fn turn(lookups: &Lookups, threads: usize, options: &Options) -> f64 {
    // A walk of full period through a power of two of the numbers: its next step depends on what was found, and it
    // cannot fall into a short cycle.
    let mask = (1 << options.keys.ilog2()) - 1;
    let key_after = |found: u64| key((found.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) & mask) as u32);
    let (running, barrier) = (AtomicBool::new(true), Barrier::new(threads + 1));
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (running, barrier) = (&running, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    let first = thread as u64 * 1_000_003;
                    lookups.chase(first, key_after, || running.load(Ordering::Relaxed))
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        thread::sleep(options.turn);
        running.store(false, Ordering::Relaxed);
        let count: u64 = workers.into_iter().map(|worker| worker.join().expect("every key is found")).sum();
        count as f64 / start.elapsed().as_secs_f64() / 1e6
    })
}

impl Rate {
    fn of(threads: usize, mut rates: Vec<f64>) -> Self {
        rates.sort_by(f64::total_cmp);
        Self { threads, low: rates[0], median: rates[rates.len() / 2], high: rates[rates.len() - 1] }
    }
}

impl Summary {
    fn facts(&self) -> Facts {
        let Options { keys, rounds, turn, .. } = &self.options;
        let turn = turn.as_secs_f64();
        let rounds = format!("{rounds} of {turn:.1} s: median (lowest .. highest), millions a second");
        let facts = self.setting.facts().with("keys", format!("{keys} of 4 bytes, looked up one after the other"));
        facts.with("rounds", rounds)
    }

    fn grid(&self) -> Grid {
        let threads = self.options.threads.iter().map(|threads| format!("{threads} threads"));
        let headings: Vec<_> = ["index".to_owned(), "memory".to_owned()].into_iter().chain(threads).collect();
        let mut grid = Grid::new(&headings.iter().map(String::as_str).collect::<Vec<_>>());
        for line in &self.lines {
            let rate = |Rate { low, median, high, .. }: &Rate| format!("{median:.2} ({low:.2} .. {high:.2})");
            grid.row([line.name.to_owned(), mib(line.bytes)].into_iter().chain(line.rates.iter().map(rate)));
        }
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
        let mut page = Page::new("index", self.facts());
        let threads = Axis::named("threads", &self.options.threads);
        let mut chart = Chart::new("Lookups", threads, Axis::linear("millions per second"));
        for line in &self.lines {
            let point = |(place, rate): (usize, &Rate)| Point {
                x: place as f64,
                y: rate.median,
                spread: Some([rate.low, rate.high]),
            };
            chart.line(line.name, line.rates.iter().enumerate().map(point).collect());
        }
        page.chart(chart);
        let bar = |line: &Line| Bar { name: line.name.into(), value: line.bytes as f64, text: mib(line.bytes) };
        page.bars(Bars::single("Memory", self.lines.iter().map(bar).collect()));
        page.table("Lookups, in millions per second", self.grid());
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_finds_every_key() {
        let options = Options { keys: 5000, threads: vec![1, 2], turn: Duration::from_millis(5), rounds: 1 };
        let summary = drive(&options, Setting::uncalibrated(), &mut |_| {}).unwrap();
        assert_eq!(summary.lines.len(), Contender::ALL.len());
        assert!(summary.lines.iter().all(|line| line.rates.iter().all(|rate| rate.median > 0.0)));
        assert!(summary.to_string().contains("art, lock coupling"));
    }
}
