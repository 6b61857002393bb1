//! How long a durable commit of one small row takes, beside a plain write and sync of as many bytes in the same
//! directory.
//!
//! Each client is a thread that waits for each of its commits. At **full load** it begins the next one at once. At
//! **half load** all clients together begin half as many a second, at random times (gaps are exponential); a client
//! that is late begins at once. A latency is measured from the actual start of its transaction. Between the two, and
//! before and after them, one thread writes and syncs a plain file: once over bytes that were written before, which is
//! the least work that a device can do, and once at its end, so that the file grows.

use std::{
    fmt, fs,
    io::Write,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use ermine::{Database, Durability, Scheme, Table};
use serde::Serialize;

use crate::{
    Error, Result,
    arrivals::Arrivals,
    charts,
    latency::{Latency, Quantiles},
    page::{self, Axis, Chart, Page, Report},
    report::{Facts, Grid, Setting, grouped, scheme_name, seconds},
    storage::{self, LogSummary, LogUse, Storage},
    tuning::Tuning,
};

/// Options of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// Concurrency control.
    #[serde(serialize_with = "scheme_name")]
    pub scheme: Scheme,
    /// Parent directory of the database and the plain file.
    pub directory: PathBuf,
    /// Maximum number of clients; 1, 2, 4 .. up to it are measured.
    pub clients: usize,
    /// Length of the value that a commit writes.
    pub value_bytes: usize,
    /// Measured time of each load.
    #[serde(serialize_with = "seconds", rename = "measured_seconds")]
    pub measured: Duration,
    /// Seed of the times at half load.
    pub seed: u64,
    /// Settings of the engine.
    pub tuning: Tuning,
}

impl Options {
    /// Fails if the options cannot work.
    pub fn check(&self) -> Result<()> {
        if self.clients == 0 || self.measured.is_zero() {
            return Err(Error::Usage("at least one client and some time are needed".into()));
        }
        if !(1..=ermine::MAX_VALUE_BYTES).contains(&self.value_bytes) {
            return Err(Error::Usage(format!("a value has between 1 and {} bytes", ermine::MAX_VALUE_BYTES)));
        }
        storage::check(&[self.scheme], Some(&self.storage()), &self.tuning)
    }

    fn storage(&self) -> Storage {
        Storage { directory: self.directory.clone(), durability: Durability::Durable, outstanding: 1, keep: false }
    }

    /// Numbers of clients to measure.
    fn points(&self) -> Vec<usize> {
        let mut points: Vec<_> = std::iter::successors(Some(1), |clients| Some(clients * 2))
            .take_while(|clients| *clients < self.clients)
            .collect();
        points.push(self.clients);
        points
    }
}

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The machine.
    pub setting: Setting,
    /// The options of the run.
    pub options: Options,
    /// Bytes of log that a commit takes; the plain writes have the same length.
    pub commit_bytes: usize,
    /// The results for each number of clients.
    pub points: Vec<Point>,
}

/// The results for one number of clients.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Number of clients.
    pub clients: usize,
    /// Full load: each client begins a commit when the one before is durable.
    pub full: Load,
    /// Half load: half as many commits a second.
    pub half: Load,
    /// A write and sync over bytes that were written before.
    pub plain_overwrite: Quantiles,
    /// A write and sync at the end of a file.
    pub plain_append: Quantiles,
}

/// Commits under one load.
#[derive(Clone, Debug, Serialize)]
pub struct Load {
    /// Commits per second.
    pub per_second: f64,
    /// Latency from the start of a transaction to its acknowledgement.
    pub latency: Quantiles,
    /// Use of the log.
    pub log: LogSummary,
}

/// Time before a load is measured.
const WARMUP: Duration = Duration::from_millis(200);
/// Number of keys of a client.
const KEYS: u64 = 1_000;

type Rows = Table<u64, Vec<u8>>;

/// Measures all points; `watch` receives each.
pub fn drive(options: &Options, setting: Setting, watch: &mut dyn FnMut(&Point)) -> Result<Summary> {
    options.check()?;
    let storage = options.storage().beside("database");
    let db = storage::open(ermine::Options::default().scheme(options.scheme), Some(&storage), &options.tuning)?;
    let rows: Rows = db.table("row")?;
    let bench = Bench { options, db: &db, rows: &rows };
    bench.load(1, None, WARMUP)?;
    let commit_bytes = bench.load(1, None, WARMUP)?.1.bytes_per_transaction() as usize;
    let mut plain = Plain::create(&options.directory, commit_bytes)?;
    let mut points = Vec::new();
    for clients in options.points() {
        let (mut overwrite, mut append) = (Latency::default(), Latency::default());
        let mut beside = || plain.measure(options.measured / 6, &mut overwrite, &mut append);
        beside()?;
        let full = bench.measure(clients, None)?;
        beside()?;
        let half = bench.measure(clients, Some(full.per_second / 2.0 / clients as f64))?;
        beside()?;
        let (plain_overwrite, plain_append) = (overwrite.quantiles(), append.quantiles());
        let point = Point { clients, full, half, plain_overwrite, plain_append };
        watch(&point);
        points.push(point);
    }
    Ok(Summary { setting, options: options.clone(), commit_bytes, points })
}

struct Bench<'a> {
    options: &'a Options,
    db: &'a Database,
    rows: &'a Rows,
}

impl Bench<'_> {
    fn measure(&self, clients: usize, rate: Option<f64>) -> Result<Load> {
        self.load(clients, rate, WARMUP)?;
        let (latency, log) = self.load(clients, rate, self.options.measured)?;
        let per_second = log.commits as f64 / self.options.measured.as_secs_f64();
        Ok(Load { per_second, latency: latency.quantiles(), log: log.summary() })
    }

    /// Lets clients commit for `time`, each `rate` times a second, or as often as it can.
    fn load(&self, clients: usize, rate: Option<f64>, time: Duration) -> Result<(Latency, LogUse)> {
        let before = LogUse::now(self.db);
        let end = Instant::now() + time;
        let latency = thread::scope(|scope| {
            let threads: Vec<_> =
                (0..clients as u64).map(|number| scope.spawn(move || self.client(number, rate, end))).collect();
            let mut all = Latency::default();
            for thread in threads {
                all.merge(&thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
            }
            Ok::<_, Error>(all)
        })?;
        Ok((latency, LogUse::now(self.db).since(before)))
    }

    fn client(&self, number: u64, rate: Option<f64>, end: Instant) -> Result<Latency> {
        let mut latency = Latency::default();
        let mut value = vec![0; self.options.value_bytes];
        let mut arrivals = rate.map(|rate| Arrivals::new(rate, self.options.seed, number));
        for turn in 0.. {
            if let Some(arrivals) = &mut arrivals {
                thread::sleep(arrivals.take().min(end).saturating_duration_since(Instant::now()));
            }
            let begin = Instant::now();
            if begin >= end {
                break;
            }
            value[0] = turn as u8;
            let key = number * KEYS + turn % KEYS;
            self.db.run(|txn| txn.put(self.rows, &key, value.as_slice()))?;
            latency.record(begin.elapsed());
        }
        Ok(latency)
    }
}

/// A file that is written without an engine.
struct Plain {
    path: PathBuf,
    file: fs::File,
    bytes: Vec<u8>,
    /// Position of the next write over old bytes.
    at: u64,
}

impl Plain {
    /// Bytes that are written once beforehand, and then overwritten again and again.
    const LENGTH: u64 = 16 << 20;

    fn create(directory: &Path, bytes: usize) -> Result<Self> {
        let path = directory.join("plain");
        let create = || -> std::io::Result<fs::File> {
            let mut file = fs::File::options().create_new(true).read(true).write(true).open(&path)?;
            file.write_all(&vec![1; Self::LENGTH as usize])?;
            file.sync_all()?;
            Ok(file)
        };
        let file = create().map_err(|source| Error::File { path: path.clone(), source })?;
        Ok(Self { path, file, bytes: vec![2; bytes.max(1)], at: 0 })
    }

    fn measure(&mut self, time: Duration, overwrite: &mut Latency, append: &mut Latency) -> Result<()> {
        let mut measure = || -> std::io::Result<()> {
            let end = Instant::now() + time / 2;
            while Instant::now() < end {
                self.at = if self.at + self.bytes.len() as u64 > Self::LENGTH { 0 } else { self.at };
                self.timed(self.at, overwrite)?;
                self.at += self.bytes.len() as u64;
            }
            let (end, mut at) = (Instant::now() + time / 2, Self::LENGTH);
            while Instant::now() < end {
                self.timed(at, append)?;
                at += self.bytes.len() as u64;
            }
            self.file.set_len(Self::LENGTH)?;
            self.file.sync_all()
        };
        measure().map_err(|source| Error::File { path: self.path.clone(), source })
    }

    fn timed(&self, at: u64, latency: &mut Latency) -> std::io::Result<()> {
        let begin = Instant::now();
        self.file.write_all_at(&self.bytes, at)?;
        self.file.sync_data()?;
        latency.record(begin.elapsed());
        Ok(())
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { clients, full, half, plain_overwrite, .. } = self;
        write!(
            f,
            "{clients:>4} clients  full {:>9} commits/s p99 {:.0} us  half {:>9} commits/s p99 {:.0} us  plain p99 \
             {:.0} us",
            grouped(full.per_second as u64),
            full.latency.p99_us,
            grouped(half.per_second as u64),
            half.latency.p99_us,
            plain_overwrite.p99_us
        )
    }
}

impl Summary {
    fn facts(&self) -> Facts {
        let Options { scheme, directory, value_bytes, measured, seed, .. } = &self.options;
        let options = format!(
            "scheme {scheme}, values of {value_bytes} bytes in {}, {:.1} s each load, seed {seed}",
            directory.display(),
            measured.as_secs_f64()
        );
        let commit = format!("{} bytes of log; as many are written plainly", self.commit_bytes);
        self.setting.facts().with("options", options).with("a commit", commit)
    }

    fn grid(&self) -> Grid {
        let mut grid =
            Grid::new(&["us", "commits/s", "bytes/flush", "p50", "p99", "p99.9", "p50 over plain", "p99 over plain"]);
        for point in &self.points {
            let plain = point.plain_overwrite;
            let (clients, over) = (point.clients, |own: f64, plain: f64| format!("{:.2}", own / plain));
            for (load, name) in [(&point.full, "full"), (&point.half, "half")] {
                let Quantiles { p50_us, p99_us, p999_us, .. } = load.latency;
                grid.row([
                    format!("{clients} clients, {name} load"),
                    grouped(load.per_second as u64),
                    grouped(load.log.bytes_per_flush as u64),
                    format!("{p50_us:.0}"),
                    format!("{p99_us:.0}"),
                    format!("{p999_us:.0}"),
                    over(p50_us, plain.p50_us),
                    over(p99_us, plain.p99_us),
                ]);
            }
            for (plain, name) in [(plain, "overwrite"), (point.plain_append, "append")] {
                let Quantiles { p50_us, p99_us, p999_us, .. } = plain;
                let figures = [p50_us, p99_us, p999_us].map(|figure| format!("{figure:.0}"));
                let name = [format!("  plain {name} and sync"), String::new(), String::new()];
                grid.row(name.into_iter().chain(figures));
            }
        }
        grid
    }

    /// A line over the numbers of clients.
    fn over_clients(&self, value: impl Fn(&Point) -> f64) -> Vec<page::Point> {
        let points = self.points.iter().enumerate();
        points.map(|(place, point)| page::Point::new(place as f64, value(point))).collect()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n\n{}", self.facts(), self.grid())
    }
}

impl Report for Summary {
    fn page(&self) -> Page {
        let mut page = Page::new("commit-latency", self.facts());
        let clients = || Axis::named("clients", self.points.iter().map(|point| point.clients));
        let mut rates = Chart::new("Commits", clients(), Axis::linear("per second"));
        rates.line("full load", self.over_clients(|point| point.full.per_second));
        rates.line("half load", self.over_clients(|point| point.half.per_second));
        page.chart(rates);
        let mut slow = Chart::new("99th percentile of latency", clients(), Axis::logarithmic("microseconds"));
        slow.line("full load", self.over_clients(|point| point.full.latency.p99_us));
        slow.line("half load", self.over_clients(|point| point.half.latency.p99_us));
        slow.line("plain overwrite and sync", self.over_clients(|point| point.plain_overwrite.p99_us));
        slow.line("plain append and sync", self.over_clients(|point| point.plain_append.p99_us));
        page.chart(slow);
        for Point { clients, full, half, plain_overwrite, plain_append } in &self.points {
            let timed = [
                ("full load", full.latency),
                ("half load", half.latency),
                ("plain overwrite and sync", *plain_overwrite),
                ("plain append and sync", *plain_append),
            ];
            page.chart(charts::latencies(format!("Latency: {clients} clients"), timed));
        }
        page.table("Latency, in microseconds", self.grid());
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_double_up_to_the_most() {
        let directory = std::env::temp_dir().join(format!("ermine-bench-{}-latency", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        let options = Options {
            scheme: Scheme::default(),
            directory: directory.clone(),
            clients: 5,
            value_bytes: 10,
            measured: Duration::from_millis(60),
            seed: 1,
            tuning: Tuning::default(),
        };
        assert_eq!(options.points(), [1, 2, 4, 5]);
        let summary = drive(&Options { clients: 2, ..options }, Setting::here(), &mut |_| {}).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(summary.points.len(), 2);
        for Point { full, half, plain_overwrite, plain_append, .. } in &summary.points {
            assert!(full.per_second > 0.0 && half.per_second > 0.0);
            assert!(plain_overwrite.p50_us > 0.0 && plain_append.p50_us > 0.0);
        }
        assert!(summary.commit_bytes >= 48, "{}", summary.commit_bytes);
    }
}
