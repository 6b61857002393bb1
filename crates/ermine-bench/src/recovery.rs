//! How fast a database recovers: after its process was killed, and after a clean stop.
//!
//! One process builds: it loads rows, makes a checkpoint, updates rows at random until the log has the requested
//! length, and dies without closing anything. Another process opens the database, and measures the time until the first
//! transaction and until all rows are in memory. Then it reads the same files sequentially, as a program that does
//! nothing else would; then it checks every row, stops cleanly, and opens the database once more.
//!
//! Every row counts its updates, and one more row has the sum that was acknowledged.

use std::{
    fmt, fs,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use ermine::{Database, Durability, Scheme, Table, TxnOptions};
use serde::Serialize;

use crate::{
    error::{Error, Result},
    page::{Bar, Bars, Page, Report},
    random::Random,
    report::{Facts, Setting, grouped, mib, scheme_name},
    storage,
    tuning::Tuning,
};

/// Options of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// Concurrency control.
    #[serde(serialize_with = "scheme_name")]
    pub scheme: Scheme,
    /// The directory of the database.
    pub directory: PathBuf,
    /// Rows of the table.
    pub rows: u64,
    /// Length of a row's value.
    pub value_bytes: usize,
    /// Log to be replayed, in bytes.
    pub log_bytes: u64,
    /// Rows that a transaction updates.
    pub updates: u64,
    /// Whether the system is told to drop its file cache before each opening. Needs the permission to do so.
    pub drop_caches: bool,
    /// Seed of the updates.
    pub seed: u64,
    /// Settings of the engine: how checkpoints are written.
    pub tuning: Tuning,
}

/// The key of the row with the sum.
const SUM: u64 = u64::MAX;
/// Rows that a loading transaction inserts.
const LOADED_TOGETHER: u64 = 1_000;

type Rows = Table<u64, Vec<u8>>;

impl Options {
    /// Fails if the options cannot work.
    pub fn check(&self) -> Result<()> {
        if self.rows == 0 || self.updates == 0 || self.value_bytes < 8 {
            return Err(Error::Usage("at least one row, one update and values of 8 bytes are needed".into()));
        }
        self.tuning.check(&[self.scheme], true)
    }

    fn open(&self) -> Result<Database> {
        // No automatic checkpoint: segments so long that few are live, and no limit to the log. Each file of the
        // parallel log is read by one thread.
        let logged = 2 * self.log_bytes + 2 * self.rows * self.value_bytes as u64;
        let segment_bytes = if self.scheme.has_versions() { logged.clamp(64 << 20, 2 << 30) } else { 64 << 20 };
        let options =
            ermine::Options::default().scheme(self.scheme).segment_bytes(segment_bytes).checkpoint_after(u64::MAX);
        let storage = storage::Storage {
            directory: self.directory.clone(),
            durability: Durability::Durable,
            outstanding: storage::Storage::OUTSTANDING,
            keep: true,
        };
        storage::open(options, Some(&storage), &self.tuning)
    }

    /// The count, and then half noise, half zeros, so that the value compresses about as well as ordinary data.
    fn value(&self, key: u64, updates: u64) -> Vec<u8> {
        let mut value = vec![0; self.value_bytes];
        let (count, rest) = value.split_at_mut(8);
        count.copy_from_slice(&updates.to_le_bytes());
        let mut random = Random::new(updates, key);
        let noise = rest.len() / 2;
        rest[..noise]
            .chunks_mut(8)
            .for_each(|chunk| chunk.copy_from_slice(&random.bits().to_le_bytes()[..chunk.len()]));
        value
    }
}

fn updates_of(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().expect("a value has at least 8 bytes"))
}

/// Builds the database; the caller ends the process without dropping it.
pub fn build(options: &Options, progress: &dyn Fn(u64, u64)) -> Result<Database> {
    let db = options.open()?;
    let rows: Rows = db.table("row")?;
    for first in (0..options.rows).step_by(LOADED_TOGETHER as usize) {
        let keys = first..options.rows.min(first + LOADED_TOGETHER);
        db.run_with(storage::loading(), |txn| {
            keys.clone().try_for_each(|key| txn.insert(&rows, &key, options.value(key, 0).as_slice()))
        })?;
        progress(first, options.rows);
    }
    db.run(|txn| txn.insert(&rows, &SUM, options.value(SUM, 0).as_slice()))?;
    db.checkpoint()?;
    let begin = db.statistics().log_bytes;
    let mut random = Random::new(options.seed, 0);
    let mut sum = 0;
    loop {
        let done = db.statistics().log_bytes - begin;
        if done >= options.log_bytes {
            break;
        }
        progress(done, options.log_bytes);
        for _ in 0..1_000 {
            let keys: Vec<u64> = (0..options.updates).map(|_| random.below(options.rows)).collect();
            let relaxed = TxnOptions::default().durability(Durability::Async);
            db.run_with(relaxed, |txn| -> ermine::Result<()> {
                for key in &keys {
                    let updates = txn.view(&rows, key)?.map_or(0, updates_of);
                    txn.put(&rows, key, options.value(*key, updates + 1).as_slice())?;
                }
                Ok(())
            })?;
            sum += options.updates;
        }
    }
    db.run(|txn| txn.put(&rows, &SUM, options.value(SUM, sum).as_slice()))?;
    Ok(db)
}

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The machine.
    pub setting: Setting,
    /// The options of the run.
    pub options: Options,
    /// The opening after the kill.
    pub killed: Opening,
    /// The opening after a clean stop.
    pub stopped: Opening,
    /// Duration of that stop in seconds, with the checkpoint that it makes.
    pub stop_seconds: f64,
    /// Time to read the replayed part of the log and the checkpoint, and nothing else, in seconds.
    pub read_replayed_seconds: f64,
    /// Time to read all files, in seconds.
    pub read_all_seconds: f64,
    /// Bytes of all files.
    pub file_bytes: u64,
    /// Bytes of the checkpoint.
    pub checkpoint_bytes: u64,
}

/// Measurements of one opening.
#[derive(Clone, Debug, Serialize)]
pub struct Opening {
    /// Time until the first transaction has read a row.
    pub first_seconds: f64,
    /// Time until all rows were in memory.
    pub loaded_seconds: f64,
    /// Bytes of log that were replayed.
    pub log_bytes: u64,
    /// Transactions that were replayed.
    pub transactions: u64,
    /// Rows that were recovered.
    pub rows: u64,
}

/// Opens the database that [`build`] left, and measures.
pub fn measure(options: &Options, setting: Setting) -> Result<Summary> {
    let file_bytes = bytes_of(&options.directory, |_| true)?;
    let checkpoint_bytes = bytes_of(&options.directory, is_checkpoint)?;
    let (db, killed) = open(options)?;
    verify(options, &db)?;
    // Measured before the stop writes anything.
    let files = Files::of(&options.directory)?;
    let is_replayed = |name: &str| is_log(name) || is_checkpoint(name);
    let read_replayed_seconds = files.read(options, is_replayed, killed.log_bytes)?;
    let read_all_seconds = files.read(options, |_| true, u64::MAX)?;
    let begin = Instant::now();
    drop(db);
    let stop_seconds = begin.elapsed().as_secs_f64();
    let (db, stopped) = open(options)?;
    verify(options, &db)?;
    let options = options.clone();
    Ok(Summary {
        setting,
        options,
        killed,
        stopped,
        stop_seconds,
        read_replayed_seconds,
        read_all_seconds,
        file_bytes,
        checkpoint_bytes,
    })
}

fn open(options: &Options) -> Result<(Database, Opening)> {
    forget(options)?;
    let begin = Instant::now();
    let db = options.open()?;
    let rows: Rows = db.table("row")?;
    db.run(|txn| txn.get(&rows, &0))?;
    let first_seconds = begin.elapsed().as_secs_f64();
    while db.statistics().unloaded_rows > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let loaded_seconds = begin.elapsed().as_secs_f64();
    let found = db.recovery();
    let (log_bytes, transactions, rows) = (found.log_bytes, found.transactions, found.rows);
    Ok((db, Opening { first_seconds, loaded_seconds, log_bytes, transactions, rows }))
}

/// Checks that every row exists with as many updates as were acknowledged.
fn verify(options: &Options, db: &Database) -> Result<()> {
    let rows: Rows = db.table("row")?;
    let (mut count, mut sum, mut expected) = (0, 0, None);
    let reader = db.begin(TxnOptions::read_only())?;
    reader.scan(&rows, ..).for_each(|key, value| {
        match key {
            SUM => expected = Some(updates_of(value)),
            _ => (count, sum) = (count + 1, sum + updates_of(value)),
        }
        Ok(std::ops::ControlFlow::Continue(()))
    })?;
    if (count, Some(sum)) != (options.rows, expected) {
        return Err(Error::Workload(format!(
            "{count} rows with {sum} updates are there, and {} with {expected:?} should be",
            options.rows
        )));
    }
    Ok(())
}

/// Makes the system drop its file cache, if requested.
fn forget(options: &Options) -> Result<()> {
    let path = Path::new("/proc/sys/vm/drop_caches");
    match options.drop_caches {
        true => fs::write(path, "3").map_err(|source| Error::File { path: path.into(), source }),
        false => Ok(()),
    }
}

/// Whether a file is of the log, of either family.
fn is_log(name: &str) -> bool {
    name.starts_with("log-") || name.starts_with("redo-")
}

/// Whether a file is of a checkpoint, of either family.
fn is_checkpoint(name: &str) -> bool {
    name.starts_with("checkpoint-") || name.starts_with("rows-")
}

fn bytes_of(directory: &Path, wanted: fn(&str) -> bool) -> Result<u64> {
    let failed = |source| Error::File { path: directory.into(), source };
    let entries = fs::read_dir(directory).map_err(failed)?;
    let lengths = entries.map(|entry| {
        let entry = entry?;
        Ok(if wanted(&entry.file_name().to_string_lossy()) { entry.metadata()?.len() } else { 0 })
    });
    lengths.sum::<io::Result<u64>>().map_err(failed)
}

/// The files of a running database, open: the cleaner may remove a file before its turn to be read comes.
struct Files(Vec<(PathBuf, fs::File)>);

impl Files {
    fn of(directory: &Path) -> Result<Self> {
        let failed = |source| Error::File { path: directory.into(), source };
        let mut files = Vec::new();
        for entry in fs::read_dir(directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            match fs::File::open(&path) {
                Ok(file) => files.push((path, file)),
                // Removed since the directory was listed: no part of the database any more.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(Error::File { path, source }),
            }
        }
        // The newest log first: that is the part that was replayed.
        files.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
        Ok(Self(files))
    }

    /// Reads files sequentially, of the log at most `log_bytes` bytes; returns how long that took, in seconds.
    fn read(&self, options: &Options, wanted: impl Fn(&str) -> bool, log_bytes: u64) -> Result<f64> {
        forget(options)?;
        let begin = Instant::now();
        let mut buffer = vec![0; 1 << 20];
        let mut left = log_bytes;
        for (path, mut file) in self.0.iter().map(|(path, file)| (path, file)) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !wanted(name) {
                continue;
            }
            let is_log = is_log(name);
            let mut read = || -> io::Result<()> {
                file.seek(SeekFrom::Start(0))?;
                while !is_log || left > 0 {
                    match file.read(&mut buffer)? {
                        0 => break,
                        bytes if is_log => left = left.saturating_sub(bytes as u64),
                        _ => {}
                    }
                }
                Ok(())
            };
            read().map_err(|source| Error::File { path: path.clone(), source })?;
        }
        Ok(begin.elapsed().as_secs_f64())
    }
}

impl Summary {
    fn facts(&self) -> Facts {
        let Options { scheme, rows, value_bytes, log_bytes, updates, drop_caches, seed, tuning, .. } = &self.options;
        let options = format!(
            "scheme {scheme}, {} rows of {value_bytes} bytes, then {} of log by transactions of {updates} updates, \
             files {}, seed {seed}{tuning}",
            grouped(*rows),
            mib(*log_bytes),
            if *drop_caches { "not in memory" } else { "in memory as far as they fit" },
        );
        let files = format!("{}, {} of them the checkpoint", mib(self.file_bytes), mib(self.checkpoint_bytes));
        self.setting.facts().with("options", options).with("files", files)
    }

    fn times(&self) -> Facts {
        let opening = |Opening { first_seconds, loaded_seconds, log_bytes, transactions, rows }: &Opening| {
            format!(
                "first transaction after {first_seconds:.2} s, all {} rows in memory after {loaded_seconds:.2} s; {} \
                 transactions in {} of log replayed",
                grouped(*rows),
                grouped(*transactions),
                mib(*log_bytes)
            )
        };
        let plain = format!(
            "what was replayed in {:.2} s ({:.2} of the time to the first transaction), all files in {:.2} s",
            self.read_replayed_seconds,
            self.read_replayed_seconds / self.killed.first_seconds,
            self.read_all_seconds
        );
        let times = Facts::default().with("after a kill", opening(&self.killed));
        let times = times.with("after a stop", opening(&self.stopped));
        times.with("stopping", format!("{:.2} s", self.stop_seconds)).with("plain reads", plain)
    }
}

/// What [`measure`] has checked when it returns a report.
const VERDICT: &str = "every row is there with every update that was acknowledged";

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n\n{}\n{VERDICT}", self.facts(), self.times())
    }
}

impl Report for Summary {
    fn page(&self) -> Page {
        let bar = |name: &str, value: f64| Bar { name: name.into(), value, text: format!("{value:.3}") };
        let bars = vec![
            bar("after a kill: first transaction", self.killed.first_seconds),
            bar("after a kill: all rows in memory", self.killed.loaded_seconds),
            bar("plain reads: what was replayed", self.read_replayed_seconds),
            bar("plain reads: all files", self.read_all_seconds),
            bar("stopping", self.stop_seconds),
            bar("after a stop: first transaction", self.stopped.first_seconds),
            bar("after a stop: all rows in memory", self.stopped.loaded_seconds),
        ];
        let mut page = Page::new("recovery", self.facts());
        page.bars(Bars::single("Seconds", bars));
        page.text("Times", format!("{}\n{VERDICT}", self.times()));
        page
    }
}
