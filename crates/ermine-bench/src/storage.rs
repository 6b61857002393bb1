//! Where the database of a run is stored, and when its commits count.
//!
//! In a directory, a commit counts when it is acknowledged: when the log up to it is on the device (`durable`), or at
//! once (`async`, `none`). A thread stands for many clients that do not wait for each other: it goes on while a limited
//! number of its commits are [`Outstanding`], and a latency lasts from the start of a transaction to its
//! acknowledgement.

use std::{
    collections::VecDeque,
    fmt,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Instant,
};

use ermine::{Database, Durability, Receipt, Scheme, TxnOptions};
use serde::Serialize;

use crate::{
    directory,
    error::{Error, Result},
    machine,
    report::grouped,
    tuning::Tuning,
};

/// Bytes of the pieces of log that a standby receives: as `ermined` publishes them.
pub(crate) const PIECE_BYTES: usize = 960 << 10;

/// Where a database is stored, and when a commit counts.
#[derive(Clone, Debug, Serialize)]
pub struct Storage {
    /// The directory of the database; for several databases, their parent directory.
    pub directory: PathBuf,
    /// When a commit counts.
    #[serde(serialize_with = "durability_name")]
    pub durability: Durability,
    /// Commits of a thread that may wait for the device at a time.
    pub outstanding: usize,
    /// Continues with the database that an earlier run has left there.
    pub keep: bool,
}

fn durability_name<S: serde::Serializer>(durability: &Durability, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(durability.name())
}

impl Storage {
    /// The default number of outstanding commits.
    pub const OUTSTANDING: usize = 64;

    /// Fails if the options cannot work.
    pub fn check(&self) -> Result<()> {
        if self.outstanding == 0 {
            return Err(Error::Usage("a thread has at least one outstanding commit".into()));
        }
        if self.keep { Ok(()) } else { directory::check_empty(&self.directory) }
    }

    /// The same for a database in a subdirectory.
    pub fn beside(&self, name: &str) -> Self {
        Self { directory: self.directory.join(name), ..self.clone() }
    }
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { directory, durability, outstanding, .. } = self;
        write!(f, "{}, {durability}", directory.display())?;
        match durability {
            Durability::Durable => write!(f, ", up to {outstanding} outstanding commits a thread"),
            _ => Ok(()),
        }
    }
}

/// Text for a list of options: nothing for a run in memory, except settings of the engine.
pub(crate) fn in_words(storage: Option<&Storage>, tuning: &Tuning) -> String {
    let place = storage.map_or_else(String::new, |storage| format!(", in {storage}"));
    format!("{place}{tuning}")
}

/// Fails if the options cannot work under these schemes.
pub(crate) fn check(schemes: &[Scheme], storage: Option<&Storage>, tuning: &Tuning) -> Result<()> {
    storage.map_or(Ok(()), Storage::check)?;
    tuning.check(schemes, storage.is_some_and(|storage| storage.keep))
}

/// Opens the database of a run: in memory if no storage is given.
pub fn open(options: ermine::Options, storage: Option<&Storage>, tuning: &Tuning) -> Result<Database> {
    let options = tuning.apply(options);
    let Some(storage) = storage else { return Ok(Database::open_in_memory(options)?) };
    storage.check()?;
    tuning.make_directories()?;
    directory::create(&storage.directory)?;
    Ok(Database::open(&storage.directory, options.durability(storage.durability))?)
}

/// What a database takes on the device, if it is stored there.
pub(crate) fn disk_bytes(storage: Option<&Storage>, tuning: &Tuning) -> Option<u64> {
    let directories = [&storage?.directory].into_iter().chain(&tuning.log_directories);
    Some(directories.map(|directory| machine::disk_bytes(directory)).sum())
}

/// Options of transactions that load data: no thread waits for each of them. [`Database::sync`] follows the last.
pub fn loading() -> TxnOptions {
    TxnOptions::default().durability(Durability::Async)
}

/// The commits of one thread that have not been acknowledged, each with a value to be counted then.
pub struct Outstanding<'db, T> {
    /// Zero: every commit is acknowledged at once.
    limit: usize,
    waiting: VecDeque<(Receipt<'db>, T)>,
    /// Whether the log has been told that a client waits for the oldest of them.
    awaited: bool,
    /// Wakes the thread that waits for the oldest of them.
    waker: Option<Waker>,
}

/// Ends the parking of a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl<'db, T> Outstanding<'db, T> {
    /// Creates an empty set with the limit of the storage.
    pub fn new(storage: Option<&Storage>) -> Self {
        let durable = storage.filter(|storage| storage.durability == Durability::Durable);
        let limit = durable.map_or(0, |storage| storage.outstanding);
        Self { limit, waiting: VecDeque::with_capacity(limit), awaited: false, waker: None }
    }

    /// Whether every commit is acknowledged at once.
    #[inline]
    pub fn is_immediate(&self) -> bool {
        self.limit == 0
    }

    /// Adds a commit. `acknowledge` is called for all commits that are acknowledged now: this one, earlier ones, or
    /// none.
    #[inline]
    pub fn hand_in(&mut self, receipt: Receipt<'db>, what: T, mut acknowledge: impl FnMut(T)) -> Result<()> {
        if self.is_immediate() {
            drop(receipt);
            acknowledge(what);
            return Ok(());
        }
        self.waiting.push_back((receipt, what));
        if self.waiting.len() >= self.limit
            && let Some((receipt, what)) = self.waiting.pop_front()
        {
            receipt.wait()?;
            self.awaited = false;
            acknowledge(what);
        }
        self.acknowledge(acknowledge);
        self.await_oldest(Waker::noop()).map(drop)
    }

    /// Acknowledges the commits that are durable, in order.
    pub fn acknowledge(&mut self, mut acknowledge: impl FnMut(T)) {
        while self.waiting.front().is_some_and(|(receipt, _)| receipt.is_durable())
            && let Some((_, what)) = self.waiting.pop_front()
        {
            self.awaited = false;
            acknowledge(what);
        }
    }

    /// Waits until the oldest commit is durable, or for a moment to come; returns whether it is durable. All calls are
    /// of one thread.
    pub fn wait_until(&mut self, moment: Instant) -> Result<bool> {
        let waker = self.waker.get_or_insert_with(|| Arc::new(Unpark(thread::current())).into()).clone();
        loop {
            self.awaited = false;
            if self.await_oldest(&waker)? {
                return Ok(true);
            }
            match moment.saturating_duration_since(Instant::now()) {
                left if left.is_zero() => return Ok(false),
                left => thread::park_timeout(left),
            }
        }
    }

    /// Tells the log that a client waits, as every client would: otherwise the log would let commits gather. Returns
    /// whether the oldest commit is durable.
    fn await_oldest(&mut self, waker: &Waker) -> Result<bool> {
        match self.waiting.front_mut() {
            Some((receipt, _)) if !self.awaited => {
                self.awaited = true;
                match Future::poll(Pin::new(receipt), &mut Context::from_waker(waker)) {
                    Poll::Ready(done) => Ok(done.map(|_| true)?),
                    Poll::Pending => Ok(false),
                }
            }
            _ => Ok(false),
        }
    }

    /// Waits for all commits.
    pub fn settle(&mut self, mut acknowledge: impl FnMut(T)) -> Result<()> {
        for (receipt, what) in self.waiting.drain(..) {
            receipt.wait()?;
            acknowledge(what);
        }
        self.awaited = false;
        Ok(())
    }
}

/// Use of the log.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LogUse {
    /// Transactions of all kinds that committed, including those that only read.
    pub commits: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Number of flushes that made them durable.
    pub flushes: u64,
}

impl LogUse {
    /// Use of the log since the database was opened.
    pub fn now(db: &Database) -> Self {
        Self::of(&db.statistics())
    }

    /// Use of the log in the statistics of a database.
    pub fn of(statistics: &ermine::Statistics) -> Self {
        let ermine::Statistics { commits, log_bytes, log_flushes, .. } = statistics;
        Self { commits: *commits, bytes: *log_bytes, flushes: log_flushes.count() }
    }

    /// Difference to `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            commits: self.commits - earlier.commits,
            bytes: self.bytes - earlier.bytes,
            flushes: self.flushes - earlier.flushes,
        }
    }

    /// The sum of two uses, as far as they are known.
    pub fn sum(uses: [Option<Self>; 2]) -> Option<Self> {
        uses.into_iter().flatten().reduce(|one, other| Self {
            commits: one.commits + other.commits,
            bytes: one.bytes + other.bytes,
            flushes: one.flushes + other.flushes,
        })
    }

    /// Bytes of log per transaction.
    pub fn bytes_per_transaction(&self) -> f64 {
        self.bytes as f64 / self.commits.max(1) as f64
    }

    /// Bytes that were made durable together.
    pub fn bytes_per_flush(&self) -> f64 {
        self.bytes as f64 / self.flushes.max(1) as f64
    }

    /// Adds the averages per transaction and per flush.
    pub fn summary(self) -> LogSummary {
        let (bytes_per_transaction, bytes_per_flush) = (self.bytes_per_transaction(), self.bytes_per_flush());
        LogSummary { log: self, bytes_per_transaction, bytes_per_flush }
    }
}

/// Use of the log, with averages per transaction and per flush.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LogSummary {
    /// The counts.
    #[serde(flatten)]
    pub log: LogUse,
    /// Bytes of log per transaction.
    pub bytes_per_transaction: f64,
    /// Bytes that were made durable together.
    pub bytes_per_flush: f64,
}

impl fmt::Display for LogSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes a transaction, {} flushes of {} bytes",
            grouped(self.bytes_per_transaction as u64),
            grouped(self.log.flushes),
            grouped(self.bytes_per_flush as u64)
        )
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use super::*;

    /// A directory of its own for a test, removed at its end.
    struct Scratch(PathBuf);

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn storage(test: &str, durability: Durability, outstanding: usize) -> (Scratch, Storage) {
        let directory = std::env::temp_dir().join(format!("ermine-bench-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        (Scratch(directory.clone()), Storage { directory, durability, outstanding, keep: false })
    }

    #[test]
    fn a_commit_is_acknowledged_when_it_is_durable_and_in_order() {
        let (_scratch, storage) = storage("outstanding", Durability::Durable, 10);
        let db = open(ermine::Options::default(), Some(&storage), &Tuning::default()).unwrap();
        let table = db.table::<u64, u64>("t").unwrap();
        let (mut outstanding, mut acknowledged) = (Outstanding::new(Some(&storage)), Vec::new());
        for key in 0..1_000 {
            let ((), receipt) = db.run_async(|txn| txn.put(&table, &key, &key)).unwrap();
            outstanding.hand_in(receipt, key, |key| acknowledged.push(key)).unwrap();
            assert!(key + 1 - (acknowledged.len() as u64) < 10);
        }
        outstanding.settle(|key| acknowledged.push(key)).unwrap();
        assert!(acknowledged.into_iter().eq(0..1_000));
        let log = LogUse::now(&db);
        assert!(log.flushes > 1 && log.bytes_per_transaction() >= 48.0, "{log:?}");
    }

    #[test]
    fn a_client_that_pauses_is_woken_by_the_acknowledgement() {
        let (_scratch, storage) = storage("pause", Durability::Durable, 10);
        let db = open(ermine::Options::default(), Some(&storage), &Tuning::default()).unwrap();
        let table = db.table::<u64, u64>("t").unwrap();
        let (mut outstanding, mut acknowledged) = (Outstanding::new(Some(&storage)), Vec::new());
        for key in 0..5 {
            let ((), receipt) = db.run_async(|txn| txn.put(&table, &key, &key)).unwrap();
            outstanding.hand_in(receipt, key, |key| acknowledged.push(key)).unwrap();
            while acknowledged.last() != Some(&key) {
                assert!(outstanding.wait_until(Instant::now() + Duration::from_secs(600)).unwrap());
                outstanding.acknowledge(|key| acknowledged.push(key));
            }
        }
        assert_eq!(acknowledged, [0, 1, 2, 3, 4]);
        assert!(!outstanding.wait_until(Instant::now()).unwrap(), "there is none to wait for");
    }

    #[test]
    fn nobody_waits_where_nothing_is_durable() {
        let (_scratch, storage) = storage("immediate", Durability::Async, 10);
        for storage in [None, Some(&storage)] {
            let db = open(ermine::Options::default(), storage, &Tuning::default()).unwrap();
            let table = db.table::<u64, u64>("t").unwrap();
            let ((), receipt) = db.run_async(|txn| txn.put(&table, &1, &1)).unwrap();
            let (mut outstanding, mut acknowledged) = (Outstanding::new(storage), 0);
            outstanding.hand_in(receipt, (), |()| acknowledged += 1).unwrap();
            assert_eq!(acknowledged, 1);
        }
    }

    #[test]
    fn a_directory_with_something_in_it_is_refused() {
        let (_scratch, storage) = storage("empty", Durability::None, 1);
        storage.check().unwrap();
        drop(open(ermine::Options::default(), Some(&storage), &Tuning::default()).unwrap());
        assert!(storage.check().unwrap_err().to_string().contains("is not empty"));
        Storage { keep: true, ..storage.clone() }.check().unwrap();
        storage.beside("si").check().unwrap();
        assert!(Storage { outstanding: 0, ..storage.beside("si") }.check().is_err());
    }
}
