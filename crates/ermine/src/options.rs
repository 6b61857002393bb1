//! The options with which a database is opened: one plain struct with defaults and a check.

use std::{
    fmt,
    hash::{Hash, Hasher},
    path::PathBuf,
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use crate::{
    catalog::FIRST_KEY_FUNCTION,
    declared::AccessSet,
    error::{Error, Result},
    ids::Stamp,
    index::IndexKind,
    log::parallel::pepoch::DEVICES_MAX,
    observer::Observer,
    partition::PartitionOf,
    platform::budget::{Budget, default_limit},
    platform::file::Directory,
    sync::{AtomicU64, Ordering},
    types::Key,
};

/// Options of a database, fixed when it is opened. [`Options::default`] has the value that each field's description
/// states, and each field that applications use has a method of its name that changes it.
///
/// ```
/// # use std::time::Duration;
/// # use ermine::{Database, Options};
/// let options = Options::default().memory_limit(1 << 30).run_max(Duration::from_secs(5));
/// let db = Database::open_in_memory(options)?;
/// # Ok::<_, ermine::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The concurrency control of every transaction.
    /// Default: `Scheme::SiSsn`.
    pub scheme: Scheme,
    /// The order of transactions that the database keeps to under a serializable scheme. A transaction can ask for
    /// another one ([`TxnOptions::order`]).
    /// Default: `Order::Strict`.
    pub order: Order,
    /// Whether [`crate::Database::open`] creates a database where there is none. Without it a mistyped path is an
    /// error instead of an empty database.
    /// Default: `true`.
    pub create: bool,
    /// The time during which a safe snapshot is handed out again ([`crate::Database::snapshot`]) to transactions that
    /// do not ask for [`Order::Strict`]; those that do get a new one each. Under the schemes that keep one version per
    /// row, each snapshot is a new one.
    /// Default: `0ns`, each snapshot shows all that has been committed.
    pub snapshot_interval: Duration,
    /// The age from which on a version counts as stale, in bytes of log, under `rc-ssn`, `si-ssn` and `si-ssi`. Reads
    /// of stale versions are not tracked, which makes them cheap and can cost a transaction that overwrites one an
    /// abort (SSN 5.3). [`u64::MAX`]: no version counts as stale.
    /// Default: `None`, each table finds its own threshold.
    pub stale_after: Option<u64>,
    /// The number of rows of one table from which on a transaction that reads them counts as reading the whole table,
    /// under the same schemes: it keeps no more lists of rows and ranges, and every concurrent writer of the table
    /// counts as a conflict. Earlier for a transaction that reads rows from files while memory is short.
    /// Default: `None`, half of the table, and never less than 4096.
    pub escalate_after: Option<u64>,
    /// The point at which a transaction counts as committed towards its caller; a transaction can ask for another one
    /// ([`TxnOptions::durability`]). A database in memory has no durability.
    /// Default: `Durability::Durable`.
    pub durability: Durability,
    /// Bytes of the log buffer, between 64 KiB and 1 GiB, rounded up to a power of two. It absorbs commits while the
    /// device is busy; when it is full, commits wait. It is no larger than an eighth of the memory limit.
    /// Default: 32 MiB.
    pub log_buffer_bytes: u64,
    /// Bytes of a segment of the log, at least as many as the log buffer has. There are up to 16 segments; while the
    /// oldest cannot be freed, new ones are larger.
    /// Default: 64 MiB.
    pub segment_bytes: u64,
    /// The size beyond which a value is kept in a file of its own: between 64 KiB and 16 MiB, and never more than an
    /// eighth of the log buffer.
    /// Default: 1 MiB.
    pub blob_after: u64,
    /// Bytes of log after which a checkpoint is made in the background; more for a database whose checkpoint is large,
    /// and no more than a quarter of the memory limit under schemes that keep versions.
    /// Default: 1 GiB.
    pub checkpoint_after: u64,
    /// Bytes of log that are kept although the database does not need them any more, for a reader that ships the log to
    /// a standby ([`crate::Database::log_reader`]); under schemes that keep versions. They give way when the device is
    /// full.
    /// Default: 0 bytes.
    pub keep_log: u64,
    /// The position from which on all of the log is kept, also where the device is full, until commits are held
    /// ([`crate::LogReader::hold_commits`]): for a carrier of the log that goes on where an earlier one has ended. Under
    /// schemes that keep versions.
    /// Default: `None`.
    pub keep_log_from: Option<u64>,
    /// The position from which on a reader of changes that is to come will read ([`crate::Database::changes`]): the log
    /// is kept from there on until [`crate::Database::keep_changes_from`] says otherwise. It gives way when the device
    /// is full. Under schemes that keep versions.
    /// Default: `None`.
    pub keep_changes_from: Option<u64>,
    /// The log has the keys of rows that are updated or deleted, which [`crate::Database::changes`] needs; under
    /// schemes that keep versions. Programs of before this option do not read such a log.
    /// Default: `false`.
    pub log_keys: bool,
    /// Under single-version schemes: the directories of the log and of checkpoints, one per device, always in the same
    /// order. Each directory belongs to one database and has a thread that writes to it.
    /// Default: `[]`, the database's own directory.
    pub log_directories: Vec<PathBuf>,
    /// As `log_directories`, for any implementation of a directory.
    #[doc(hidden)]
    pub log_directories_in: Vec<Arc<dyn Directory>>,
    /// Under single-version schemes: the minimum length of an epoch, up to a second. Commits become durable epoch by
    /// epoch.
    /// Default: `1ms`.
    pub epoch_interval: Duration,
    /// Under single-version schemes: checkpoints are compressed (LZ4). For a device that is so slow, or so full, that
    /// compression is worth the processor's time; SiloR found that it is not (6.2). A checkpoint can be read whatever
    /// this option says.
    /// Default: `false`.
    pub compress_checkpoints: bool,
    /// Under single-version schemes: when checkpoints sync their files. For measurements.
    #[doc(hidden)]
    pub checkpoint_syncs: CheckpointSyncs,
    /// A directory in which the log is kept permanently, for restores by time ([`crate::restore`]): each of its
    /// segments is copied there before it is freed. The directory belongs to one database.
    /// Default: `None`, the log is freed by checkpoints.
    pub archive: Option<PathBuf>,
    /// As `archive`, for any implementation of a directory.
    #[doc(hidden)]
    pub archive_in: Option<Arc<dyn Directory>>,
    /// How long a transaction waits at one place for other transactions before it aborts with
    /// [`crate::AbortKind::Timeout`]: for a lock, a partition, its turn, or an older transaction, under schemes that
    /// wait ([`Scheme::waits`]); zero: it does not wait. Also how long [`crate::Database::run`] waits,
    /// under any scheme, while another transaction runs alone, and how long it waits for others to end before it runs a
    /// transaction alone itself; then it goes on. Such waits end without this limit, unless an application leaves a
    /// transaction open. Waiting for the device is not bounded by it.
    /// Default: `1s`.
    pub wait_max: Duration,
    /// How long [`crate::Database::run`] retries a transaction, counted from the end of its first attempt, before it
    /// fails with [`crate::Error::GaveUp`]. The limit is checked between attempts.
    /// Default: `30s`.
    pub run_max: Duration,
    /// The maximum number of attempts of [`crate::Database::run`], before it fails with [`crate::Error::GaveUp`].
    /// Default: `1000`.
    pub attempts_max: u32,
    /// Bytes of memory that the database may take: rows with their versions, indexes, read and write sets, log buffers,
    /// and the memory that an application takes for its queries ([`crate::Database::budget`]). An eighth of it (at most
    /// 1 GiB) is reserved for deletes, reads and recovery; a write that would need more than the rest fails with
    /// [`Error::OutOfMemory`], and has changed nothing. Under schemes that keep versions, in a database with a log, rows
    /// that are not accessed leave memory before that, and are read again on demand; indexes stay in memory, and may take
    /// five eighths of it.
    /// `None`: three quarters of the memory of the machine or the control group, less of a small one; no limit where the
    /// system has no `/proc`, as on macOS.
    /// Default: `None`.
    pub memory_limit: Option<u64>,
    /// Requests for memory are refused at random once the database is open, by this seed, for tests.
    #[doc(hidden)]
    pub memory_faults: Option<u64>,
    /// The database is the image of another one, whose log a standby has replayed so far.
    #[doc(hidden)]
    pub replayed: Option<Arc<Replayed>>,
    /// Whatever can leave memory is evicted all the time, for tests.
    #[doc(hidden)]
    pub evict_always: bool,
    /// Bytes of rows that a transaction reads from files into memory before its scans read further ones without keeping
    /// them, for tests.
    #[doc(hidden)]
    pub uncached_after: u64,
    /// Timestamps that are left at the beginning of each cycle of them, less than 2^31, for tests (`sto`, `sto-32`).
    #[doc(hidden)]
    pub timestamps_left: Option<u64>,
    /// The observer that is told the actions of every transaction. It costs each transaction time and memory for each
    /// row that it touches.
    /// Default: `None`.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scheme: Scheme::default(),
            order: Order::default(),
            create: true,
            snapshot_interval: Duration::ZERO,
            stale_after: None,
            escalate_after: None,
            durability: Durability::default(),
            log_buffer_bytes: 32 << 20,
            segment_bytes: 64 << 20,
            blob_after: 1 << 20,
            checkpoint_after: 1 << 30,
            keep_log: 0,
            keep_log_from: None,
            keep_changes_from: None,
            log_keys: false,
            log_directories: Vec::new(),
            log_directories_in: Vec::new(),
            epoch_interval: Duration::from_millis(1),
            compress_checkpoints: false,
            checkpoint_syncs: CheckpointSyncs::default(),
            archive: None,
            archive_in: None,
            wait_max: Duration::from_secs(1),
            run_max: Duration::from_secs(30),
            attempts_max: 1000,
            memory_limit: None,
            memory_faults: None,
            replayed: None,
            evict_always: false,
            uncached_after: 256 << 10,
            timestamps_left: None,
            observer: None,
        }
    }
}

impl Options {
    /// Returns the options with another durability.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Returns the options with another log buffer.
    pub fn log_buffer_bytes(mut self, bytes: u64) -> Self {
        self.log_buffer_bytes = bytes;
        self
    }

    /// Returns the options with segments of another size.
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes;
        self
    }

    /// Returns the options with another limit to the values in the log.
    pub fn blob_after(mut self, bytes: u64) -> Self {
        self.blob_after = bytes;
        self
    }

    /// Whether the database is the image of another one, which only the replay of a standby writes.
    pub(crate) fn is_standby(&self) -> bool {
        self.replayed.is_some()
    }

    /// Returns whether a value of this length is kept in a file of its own.
    pub(crate) fn diverts(&self, bytes: usize) -> bool {
        bytes as u64 > self.blob_after.min(self.log_buffer_bytes.next_power_of_two() / 8)
    }

    /// Returns the options with more or less of the log kept for readers.
    pub fn keep_log(mut self, bytes: u64) -> Self {
        self.keep_log = bytes;
        self
    }

    /// Returns the options with the log kept from a position on, until commits are held.
    pub fn keep_log_from(mut self, position: u64) -> Self {
        self.keep_log_from = Some(position);
        self
    }

    /// Returns the options with the log kept for a reader of changes that begins at a position.
    pub fn keep_changes_from(mut self, position: u64) -> Self {
        self.keep_changes_from = Some(position);
        self
    }

    /// Returns the options with the keys of rows that are updated or deleted in the log, or without.
    pub fn log_keys(mut self, log_keys: bool) -> Self {
        self.log_keys = log_keys;
        self
    }

    /// Returns the options with another distance between checkpoints.
    pub fn checkpoint_after(mut self, bytes: u64) -> Self {
        self.checkpoint_after = bytes;
        self
    }

    /// No value up to this length has ever been diverted, whatever the options were at the time.
    pub(crate) const DIVERTED_MIN: u64 = *Self::BUFFER.start() / 8;

    const BUFFER: std::ops::RangeInclusive<u64> = 64 << 10..=1 << 30;

    /// Returns the options with an archive of the log.
    pub fn archive(mut self, path: impl Into<PathBuf>) -> Self {
        self.archive = Some(path.into());
        self
    }

    /// Returns the options with directories for the log of a single-version scheme, one per device.
    pub fn log_directories(mut self, paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        self.log_directories = paths.into_iter().map(Into::into).collect();
        self
    }

    /// Returns the options with another minimum length of epochs.
    pub fn epoch_interval(mut self, interval: Duration) -> Self {
        self.epoch_interval = interval;
        self
    }

    /// Returns the options with checkpoints compressed or not.
    pub fn compress_checkpoints(mut self, compress: bool) -> Self {
        self.compress_checkpoints = compress;
        self
    }

    /// Fails when an option has a value that cannot work.
    pub fn check(&self) -> Result<()> {
        const BLOB_AFTER: std::ops::RangeInclusive<u64> = 64 << 10..=16 << 20;
        if !Self::BUFFER.contains(&self.log_buffer_bytes) {
            let bytes = self.log_buffer_bytes;
            return Err(Error::Options(format!("a log buffer of {bytes} bytes: use 64 KiB to 1 GiB")));
        }
        if !BLOB_AFTER.contains(&self.blob_after) {
            let bytes = self.blob_after;
            return Err(Error::Options(format!("values of up to {bytes} bytes in the log: use 64 KiB to 16 MiB")));
        }
        if self.segment_bytes < self.log_buffer_bytes.next_power_of_two() || self.segment_bytes > 1 << 36 {
            let bytes = self.segment_bytes;
            return Err(Error::Options(format!(
                "log segments of {bytes} bytes: use at least the log buffer's size, and at most 64 GiB"
            )));
        }
        if self.attempts_max == 0 {
            return Err(Error::Options("no attempts: use at least 1".into()));
        }
        if let Some(bytes) = self.memory_limit.filter(|bytes| *bytes < Budget::LIMIT_MIN) {
            return Err(Error::Options(format!("a memory limit of {bytes} bytes: use at least 16 MiB")));
        }
        if self.epoch_interval > Duration::from_secs(1) {
            return Err(Error::Options(format!("epochs of {:?}: use up to a second", self.epoch_interval)));
        }
        let devices = self.log_directories.len() + self.log_directories_in.len();
        if devices > DEVICES_MAX {
            return Err(Error::Options(format!("{devices} log directories: use up to {DEVICES_MAX}")));
        }
        Ok(())
    }

    /// Returns the options with another order of transactions.
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Returns the options with a choice whether a database is created where there is none.
    ///
    /// ```
    /// # use ermine::{Database, Options};
    /// let opened = Database::open("/nowhere/shopp", Options::default().create(false));
    /// assert!(opened.is_err_and(|error| error.to_string().contains("no database in /nowhere/shopp")));
    /// ```
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Returns the options with another interval between safe snapshots, for transactions that do not ask for
    /// [`Order::Strict`].
    ///
    /// Each new snapshot can cost concurrent writers an abort. A longer interval costs freshness: commits of the
    /// meantime are not seen, under [`Order::None`] not even those of the same client.
    pub fn snapshot_interval(mut self, interval: Duration) -> Self {
        self.snapshot_interval = interval;
        self
    }

    /// Returns the options with a fixed age, in bytes of log, from which on reads are not tracked.
    pub fn stale_after(mut self, bytes: u64) -> Self {
        self.stale_after = Some(bytes);
        self
    }

    /// Returns the options with a fixed number of rows from which on a transaction counts as reading the whole table.
    pub fn escalate_after(mut self, rows: u64) -> Self {
        self.escalate_after = Some(rows);
        self
    }

    /// Returns the options with another limit to waiting.
    pub fn wait_max(mut self, wait_max: Duration) -> Self {
        self.wait_max = wait_max;
        self
    }

    /// Returns the options with another limit to the time of retries.
    pub fn run_max(mut self, run_max: Duration) -> Self {
        self.run_max = run_max;
        self
    }

    /// Returns the options with another limit to the number of attempts.
    pub fn attempts_max(mut self, attempts: u32) -> Self {
        self.attempts_max = attempts;
        self
    }

    /// Returns the options with a limit to the memory that the database takes.
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = Some(bytes);
        self
    }

    /// Returns the options with the values that depend on the available memory. The schedule explorer opens a database
    /// for each schedule, and sets no limit.
    pub(crate) fn fitted(&self) -> Self {
        let limit = self.memory_limit.unwrap_or_else(|| if cfg!(shuttle) { u64::MAX } else { default_limit() });
        let buffer = (limit / 8).max(*Self::BUFFER.start());
        let largest =
            buffer.checked_next_power_of_two().map_or(u64::MAX, |next| if next > buffer { next / 2 } else { next });
        Self { memory_limit: Some(limit), log_buffer_bytes: self.log_buffer_bytes.min(largest), ..self.clone() }
    }

    /// Returns the budget of the memory that a database with these options may take.
    pub(crate) fn budget(&self) -> Arc<Budget> {
        Arc::new(Budget::new(self.memory_limit.unwrap_or(u64::MAX)))
    }

    /// Returns the bytes of the log buffer, which is allocated as a whole.
    pub(crate) fn log_buffer_taken(&self) -> u64 {
        self.log_buffer_bytes.next_power_of_two()
    }

    /// Returns the options with an observer.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Returns the options with another scheme.
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        self.scheme = scheme;
        self
    }
}

/// The structure of a table. It is chosen when the table is created, and kept in the database.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TableOptions {
    /// The kind of the index that finds rows by their keys. Default: `IndexKind::BTree`.
    pub index: IndexKind,
    /// The table's rows may take memory from the reserve. Not kept in the database: state it each time the table is
    /// opened.
    pub(crate) is_essential: bool,
    /// The table's rows stay in memory. Not kept in the database: state it each time the table is opened.
    pub(crate) is_kept_in_memory: bool,
    /// The table is in memory only.
    pub(crate) is_unlogged: bool,
    /// The function from a row to its partition, for the scheme `partitioned`. Not kept in the database: state it each
    /// time the table is opened.
    pub(crate) partition: Option<PartitionOf>,
}

impl TableOptions {
    /// Returns the options with another kind of index.
    pub fn index(mut self, kind: IndexKind) -> Self {
        self.index = kind;
        self
    }

    /// Returns the options for a table whose rows may take memory from the reserve ([`Options::memory_limit`]): a table
    /// of few rows, without which an application could not free memory when none is left, such as a catalog of the data
    /// to drop.
    pub fn essential(mut self) -> Self {
        self.is_essential = true;
        self
    }

    /// Returns the options for a table whose rows do not leave memory, once they are there, when memory runs short
    /// ([`Options::memory_limit`]): one whose rows are asked for rarely, and then at once. Other tables have the less.
    /// State it each time the table is opened.
    pub fn keep_in_memory(mut self) -> Self {
        self.is_kept_in_memory = true;
        self
    }

    /// Returns the options for a table that is in memory only: neither the table nor its rows are in the log or in any
    /// other file, so that it is gone when the database is opened again. Otherwise transactions use it like any other
    /// table. Under schemes with versions a transaction is acknowledged without waiting for the log if it has written
    /// nothing else, and read nothing that was committed with logged rows; one that has written to such a table cannot
    /// be prepared. It has no secondary indexes, and its rows do not leave memory.
    ///
    /// ```
    /// # use ermine::{Database, Options, TableOptions};
    /// # let db = Database::open_in_memory(Options::default())?;
    /// let seen = db.table_with::<u64, u64>("seen", TableOptions::default().unlogged())?;
    /// db.run(|txn| txn.put(&seen, &1, &2))?;
    /// # Ok::<_, ermine::Error>(())
    /// ```
    pub fn unlogged(mut self) -> Self {
        self.is_unlogged = true;
        self
    }

    /// Returns the options with partitions: `of` computes a row's partition from the first part of its key, whose type
    /// is `Q`. Under the scheme `partitioned` transactions of different partitions run in parallel; other schemes
    /// ignore it. Keys of the table's secondary indexes must begin with the same part, or scans of them reach
    /// everything ([`Self::indexes_apart`]).
    ///
    /// ```
    /// # use ermine::{Database, Options, Scheme, TableOptions};
    /// # let db = Database::open_in_memory(Options::default().scheme(Scheme::Partitioned))?;
    /// let by_warehouse = TableOptions::default().partition_by(|&warehouse: &u32| warehouse.into());
    /// let stock = db.table_with::<(u32, u32), i64>("stock", by_warehouse)?;
    /// db.run(|txn| txn.put(&stock, &(7, 1), &100))?; // locks partition 7
    /// # Ok::<_, ermine::Error>(())
    /// ```
    pub fn partition_by<Q: Key>(mut self, of: impl Fn(&Q) -> u64 + Send + Sync + 'static) -> Self {
        self.partition = Some(PartitionOf::new(of));
        self
    }

    /// Returns the options for a table whose secondary indexes have keys that do not begin with the part that
    /// determines the partition.
    pub fn indexes_apart(mut self) -> Self {
        self.partition.iter_mut().for_each(|partition| partition.indexes_alike = false);
        self
    }
}

/// The structure of a secondary index.
///
/// ```
/// # use ermine::{Database, IndexKind, IndexOptions, Options, Uniqueness};
/// # let db = Database::open_in_memory(Options::default())?;
/// let users = db.table::<u64, String>("users")?;
/// let options = IndexOptions::new(Uniqueness::Unique).kind(IndexKind::Art).version(2);
/// let by_name = db.index_with(&users, "by name", options, |_, name| name.to_lowercase())?;
/// # Ok::<_, ermine::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IndexOptions {
    /// Whether two rows may share a key.
    pub uniqueness: Uniqueness,
    /// The structure of the index.
    pub kind: IndexKind,
    /// The version of the key function. The database stores it, and refuses another one.
    pub version: u32,
    /// How long the building of the index waits for one other transaction that is open and has written rows of the
    /// table; 1 minute by default.
    pub wait_max: Duration,
}

impl IndexOptions {
    /// Returns the options of a B+-tree with version 1 of its key function.
    pub fn new(uniqueness: Uniqueness) -> Self {
        Self { uniqueness, kind: IndexKind::BTree, version: FIRST_KEY_FUNCTION, wait_max: Duration::from_secs(60) }
    }

    /// Returns the options with another kind of index.
    pub fn kind(mut self, kind: IndexKind) -> Self {
        self.kind = kind;
        self
    }

    /// Returns the options with another version of the key function.
    pub fn version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Returns the options with another limit to the wait for one other transaction.
    pub fn wait_max(mut self, wait_max: Duration) -> Self {
        self.wait_max = wait_max;
        self
    }
}

/// The point at which a transaction counts as committed towards its caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// `durable`: when the log up to the commit is on the device. A crash of the machine loses no acknowledged commit.
    /// Data that a transaction only read is durable, too, before it is handed out.
    #[default]
    Durable,
    /// `async`: at once. A crash loses the last moments, some ten milliseconds, and always a suffix of the order of
    /// commits: the rest is consistent.
    Async,
    /// `none`: of a database: nothing is written, and all commits are lost when the database is closed. Of a single
    /// transaction: as `async`, since other transactions may build on its writes.
    None,
}

impl Durability {
    /// All durabilities.
    pub const ALL: [Self; 3] = [Self::Durable, Self::Async, Self::None];

    /// Returns the name, as given on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::Async => "async",
            Self::None => "none",
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Durability {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|durability| durability.name() == name)
            .ok_or_else(|| Error::Options(format!("unknown durability {name:?}: use one of durable, async, none")))
    }
}

/// The concurrency-control schemes, by the names used everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scheme {
    /// `rc`: read committed. Every read sees the newest committed version; a writer waits for another one that has
    /// written the row and has not ended.
    Rc,
    /// `si`: snapshot isolation. Every read sees the snapshot taken at the beginning; the first updater of a row wins.
    Si,
    /// `rc-ssn`: serializable. Read committed certified by the Serial Safety Net: a transaction that reads a row twice
    /// may see two versions, and then cannot commit.
    RcSsn,
    /// `si-ssn`: serializable. Snapshot isolation certified by the Serial Safety Net.
    #[default]
    SiSsn,
    /// `si-ssi`: serializable. Snapshot isolation, and no transaction completes the dangerous structure of two
    /// anti-dependencies whose end committed first.
    SiSsi,
    /// `mvocc`: serializable. Snapshots, and the versions that a transaction read must still be the newest at commit.
    MvOcc,
    /// `silo`: serializable, one version per row. Reads see the committed state, without a snapshot; at commit, the
    /// versions that were read must still be current (SiloR 2).
    Silo,
    /// `2pl-nowait`: serializable, as `silo`. Every record that is read or written is locked until the end; a
    /// transaction that meets a lock aborts.
    TwoPhaseNoWait,
    /// `2pl-waitdie`: as `2pl-nowait`, but a transaction that is older than the lock's holders waits for it.
    TwoPhaseWaitDie,
    /// `2pl-wdl`: as `2pl-nowait`, but a transaction that meets a lock waits, if no other transaction waits for it.
    TwoPhaseWdl,
    /// `serial`: one transaction at a time, as `silo`.
    Serial,
    /// `sto`: strict timestamp ordering, serializable, as `silo`: transactions are ordered by their beginnings; an
    /// access that is too late aborts, one that is too early waits (STO 2.3).
    Sto,
    /// `sto-32`: `sto` with timestamps of 32 bits, which are set back when they are used up.
    Sto32,
    /// `tso`: timestamp ordering without waiting, serializable, as `silo`: a transaction that meets one that may still
    /// run, or a younger one, aborts; timestamps are read under latches that hardware transactions elide (HTM paper,
    /// IV).
    Tso,
    /// `tso-validate`: `tso` without read timestamps: the reads are compared at commit.
    TsoValidate,
    /// `vll`: very lightweight locking, serializable, as `silo`: transactions declare the rows that they will touch
    /// ([`crate::AccessSet`]) and wait until no other transaction blocks them; those that declare nothing run alone
    /// (HTM paper, VI.C).
    Vll,
    /// `partitioned`: serial within a partition ([`TableOptions::partition_by`]), partitions in parallel, as `silo`; a
    /// transaction that touches several partitions locks the database (STO 2.2).
    Partitioned,
}

impl Scheme {
    /// Whether the scheme is in the list.
    pub(crate) const fn is_among(self, schemes: &[Self]) -> bool {
        let mut at = 0;
        while at < schemes.len() {
            if schemes[at] as u8 == self as u8 {
                return true;
            }
            at += 1;
        }
        false
    }

    /// All schemes.
    pub const ALL: [Self; 17] = [
        Self::Rc,
        Self::Si,
        Self::RcSsn,
        Self::SiSsn,
        Self::SiSsi,
        Self::MvOcc,
        Self::Silo,
        Self::TwoPhaseNoWait,
        Self::TwoPhaseWaitDie,
        Self::TwoPhaseWdl,
        Self::Serial,
        Self::Sto,
        Self::Sto32,
        Self::Tso,
        Self::TsoValidate,
        Self::Vll,
        Self::Partitioned,
    ];

    /// Returns whether rows have several versions.
    pub fn has_versions(self) -> bool {
        matches!(self, Self::Rc | Self::Si | Self::RcSsn | Self::SiSsn | Self::SiSsi | Self::MvOcc)
    }

    /// Returns whether a transaction waits for others before it aborts, for at most [`Options::wait_max`].
    pub fn waits(self) -> bool {
        matches!(
            self,
            Self::Rc
                | Self::RcSsn
                | Self::TwoPhaseWaitDie
                | Self::TwoPhaseWdl
                | Self::Serial
                | Self::Sto
                | Self::Sto32
                | Self::Vll
                | Self::Partitioned
        )
    }

    /// Returns whether committed transactions are always equivalent to some serial order.
    pub fn is_serializable(self) -> bool {
        !matches!(self, Self::Rc | Self::Si)
    }

    /// Returns whether [`Options::order`] makes a difference to the question which transactions commit.
    pub fn has_orders(self) -> bool {
        matches!(self, Self::RcSsn | Self::SiSsn)
    }

    /// Returns whether a transaction can read a snapshot without losing a conflict ([`crate::Database::snapshot`]).
    /// Under timestamp ordering with one version per row, no point in time shows all transactions that come before it
    /// and none after.
    pub fn has_snapshots(self) -> bool {
        !matches!(self, Self::Sto | Self::Sto32 | Self::Tso | Self::TsoValidate)
    }

    /// Returns whether all reads of a transaction see the snapshot taken at its beginning.
    pub fn reads_snapshot(self) -> bool {
        self.has_versions() && !matches!(self, Self::Rc | Self::RcSsn)
    }

    /// Returns the name, as given on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rc => "rc",
            Self::Si => "si",
            Self::RcSsn => "rc-ssn",
            Self::SiSsn => "si-ssn",
            Self::SiSsi => "si-ssi",
            Self::MvOcc => "mvocc",
            Self::Silo => "silo",
            Self::TwoPhaseNoWait => "2pl-nowait",
            Self::TwoPhaseWaitDie => "2pl-waitdie",
            Self::TwoPhaseWdl => "2pl-wdl",
            Self::Serial => "serial",
            Self::Sto => "sto",
            Self::Sto32 => "sto-32",
            Self::Tso => "tso",
            Self::TsoValidate => "tso-validate",
            Self::Vll => "vll",
            Self::Partitioned => "partitioned",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scheme {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.name() == name).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|scheme| scheme.name()).collect();
            Error::Options(format!("unknown scheme {name:?}: use one of {}", known.join(", ")))
        })
    }
}

/// The transactions that come before a transaction in the serial order, besides those that it depends on.
///
/// A serializable scheme commits transactions only if some serial order explains them. The option says how the serial
/// order agrees with the order in which clients observed the transactions. It makes a difference under `si-ssn` and
/// `rc-ssn` ([`Scheme::has_orders`]), and to snapshots that are handed out again ([`Options::snapshot_interval`]);
/// otherwise the serializable schemes are strict, whatever order is requested. Under `rc` and `si` there is no serial
/// order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// `strict`: every transaction whose commit had returned when this one began (strict serializability).
    #[default]
    Strict,
    /// `session`: the transactions that its session has committed ([`TxnOptions::session`]). A transaction without a
    /// session is strict.
    Session,
    /// `none`: no other. A client can see a state in which its own last transaction has not happened yet.
    None,
}

impl Order {
    /// All orders.
    pub const ALL: [Self; 3] = [Self::Strict, Self::Session, Self::None];

    /// Returns the name, as given on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Session => "session",
            Self::None => "none",
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Order {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|order| order.name() == name)
            .ok_or_else(|| Error::Options(format!("unknown order {name:?}: use one of strict, session, none")))
    }
}

/// A client of one database whose transactions come one after another, for [`Order::Session`]. Clones are the same
/// session.
///
/// ```
/// # use ermine::{Database, Options, Order, Session, TxnOptions};
/// # let db = Database::open_in_memory(Options::default().order(Order::Session))?;
/// # let accounts = db.table::<u64, i64>("accounts")?;
/// let session = Session::default();
/// db.run_with(TxnOptions::default().session(&session), |txn| txn.put(&accounts, &7, &100))?;
/// let report = db.begin(TxnOptions::snapshot().session(&session))?; // not older than the put
/// assert_eq!(report.get(&accounts, &7)?, Some(100));
/// # Ok::<_, ermine::Error>(())
/// ```
#[derive(Clone)]
pub struct Session(Arc<AtomicU64>);

/// Two handles are equal if they are the same session.
impl PartialEq for Session {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Session {}

impl Hash for Session {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl Default for Session {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(Stamp::ZERO.0)))
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Session").field(&self.last()).finish()
    }
}

impl Session {
    /// Returns the stamp of the session's last commit, by which the reports of conflicts know it
    /// ([`crate::Edge::stamp`]).
    pub fn last(&self) -> Stamp {
        // Relaxed, as in `committed`: only the number is read, and the client orders its own calls.
        Stamp(self.0.load(Ordering::Relaxed))
    }

    /// Notes that a transaction of the session has committed.
    pub(crate) fn committed(&self, stamp: Stamp) {
        self.0.fetch_max(stamp.0, Ordering::Relaxed);
    }
}

/// The isolation that a transaction asks of its scheme.
///
/// Levels mix: whatever level others ask for, the transactions that ask for all that a serializable scheme promises are
/// serializable among themselves (as in Adya, "Weak Consistency", 1999, section 5.5: each kind of dependency counts
/// where one of its two ends wants it to).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// All that the scheme promises.
    #[default]
    Scheme,
    /// Snapshot isolation, under every scheme that keeps versions: reads see the snapshot taken at the beginning and
    /// are not tracked; a transaction that updates a row that was committed since then aborts. Write skew can happen.
    /// Such a transaction may renew its snapshot ([`crate::Transaction::renew_snapshot`]), which makes it read
    /// committed. Under single-version schemes as [`Isolation::Scheme`].
    Snapshot,
}

/// The properties that a transaction states when it begins.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TxnOptions {
    /// The isolation that the transaction asks of the scheme.
    pub isolation: Isolation,
    /// The transaction will not write; a write is refused with [`Error::ReadOnly`].
    pub read_only: bool,
    /// The transaction reads a safe snapshot and nothing else: it is not tracked and never loses a conflict (SSN 5.2),
    /// under any scheme that has safe snapshots ([`Scheme::has_snapshots`]). Under schemes with a certifier a
    /// concurrent writer may lose instead. The transaction does not write.
    pub snapshot: bool,
    /// The transactions that come before it; `None`: as the database was opened. The choices of other transactions make
    /// no difference to it.
    pub order: Option<Order>,
    /// The session that the transaction belongs to.
    pub session: Option<Session>,
    /// The point at which the transaction counts as committed; `None`: as the database was opened.
    pub durability: Option<Durability>,
    /// The keys that the transaction will read and write, for the scheme `vll`; `None`: any.
    pub declared: Option<Arc<AccessSet>>,
    /// Every read is kept, however long the transaction is: a prepared transaction that is opened again then holds no
    /// more than it had read.
    #[doc(hidden)]
    pub tracks_all: bool,
    /// The transaction is run in the middle of another one, by the same thread: it does not wait for one that runs
    /// alone, which may be the other one, or wait for it.
    #[doc(hidden)]
    pub inside: bool,
    /// The transaction writes what the log of the original says into a standby, where no other one writes.
    #[doc(hidden)]
    pub replays: bool,
}

impl TxnOptions {
    /// Returns the options of a transaction that only reads.
    pub fn read_only() -> Self {
        Self { read_only: true, ..Self::default() }
    }

    /// Returns the options of a transaction that reads a safe snapshot.
    pub fn snapshot() -> Self {
        Self { read_only: true, snapshot: true, ..Self::default() }
    }

    /// Returns the options of a transaction that declares the keys that it will touch.
    pub fn declared(set: AccessSet) -> Self {
        Self { declared: Some(Arc::new(set)), ..Self::default() }
    }

    /// Returns the options with a level of isolation.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// Returns the options with another durability than the database's.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Returns the options with another order than the database's.
    pub fn order(mut self, order: Order) -> Self {
        self.order = Some(order);
        self
    }

    /// Returns the options with the session that the transaction belongs to.
    pub fn session(mut self, session: &Session) -> Self {
        self.session = Some(session.clone());
        self
    }
}

/// How far an image has replayed the log of its original, as positions in it.
#[derive(Debug)]
pub struct Replayed {
    /// Everything below is shown.
    pub(crate) to: std::sync::atomic::AtomicU64,
    /// The end of the transaction that began last to be shown.
    pub(crate) begun_to: std::sync::atomic::AtomicU64,
}

impl Replayed {
    pub(crate) fn new(to: u64) -> Self {
        Self { to: to.into(), begun_to: to.into() }
    }
}

/// Whether two rows may share a key of a secondary index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uniqueness {
    /// At most one row per key.
    Unique,
    /// Any number of rows per key.
    NonUnique,
}

impl Uniqueness {
    /// Whether the index is unique.
    pub(crate) fn is_unique(self) -> bool {
        self == Self::Unique
    }
}

/// When a checkpoint syncs its files (SiloR 6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointSyncs {
    /// Once, at the end.
    AtEnd,
    /// Once, at the end; the threads sleep for this time after each block.
    Sleeping(Duration),
    /// Each time a thread has written this number of bytes.
    Every(u64),
}

impl Default for CheckpointSyncs {
    fn default() -> Self {
        Self::Every(32 << 20)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The default of every field, as its documentation states it: bytes in binary units, all else as `Debug` does.
    fn stated_defaults() -> Vec<(&'static str, String)> {
        fn bytes(bytes: u64) -> String {
            let shift = if bytes == 0 { 0 } else { bytes.trailing_zeros() / 10 * 10 };
            format!("{} {}", bytes >> shift, ["bytes", "KiB", "MiB", "GiB"][shift as usize / 10])
        }
        fn code(value: impl fmt::Debug) -> String {
            format!("`{value:?}`")
        }
        // Without `..`: a field that is added is missing here until its default is stated.
        let Options {
            scheme,
            order,
            create,
            snapshot_interval,
            stale_after,
            escalate_after,
            durability,
            log_buffer_bytes,
            segment_bytes,
            blob_after,
            checkpoint_after,
            keep_log,
            keep_log_from,
            keep_changes_from,
            log_keys,
            log_directories,
            epoch_interval,
            compress_checkpoints,
            archive,
            wait_max,
            run_max,
            attempts_max,
            memory_limit,
            observer,
            log_directories_in: _,
            checkpoint_syncs: _,
            archive_in: _,
            memory_faults: _,
            replayed: _,
            evict_always: _,
            uncached_after: _,
            timestamps_left: _,
        } = Options::default();
        vec![
            ("scheme", format!("`Scheme::{scheme:?}`")),
            ("order", format!("`Order::{order:?}`")),
            ("create", code(create)),
            ("snapshot_interval", code(snapshot_interval)),
            ("stale_after", code(stale_after)),
            ("escalate_after", code(escalate_after)),
            ("durability", format!("`Durability::{durability:?}`")),
            ("log_buffer_bytes", bytes(log_buffer_bytes)),
            ("segment_bytes", bytes(segment_bytes)),
            ("blob_after", bytes(blob_after)),
            ("checkpoint_after", bytes(checkpoint_after)),
            ("keep_log", bytes(keep_log)),
            ("keep_log_from", code(keep_log_from)),
            ("keep_changes_from", code(keep_changes_from)),
            ("log_keys", code(log_keys)),
            ("log_directories", code(log_directories)),
            ("epoch_interval", code(epoch_interval)),
            ("compress_checkpoints", code(compress_checkpoints)),
            ("archive", code(archive)),
            ("wait_max", code(wait_max)),
            ("run_max", code(run_max)),
            ("attempts_max", code(attempts_max)),
            ("memory_limit", code(memory_limit)),
            ("observer", code(observer)),
        ]
    }

    /// Looks for the last line of each field's description in this file.
    #[test]
    fn the_documentation_states_every_default() {
        let source = include_str!("options.rs");
        for (field, default) in stated_defaults() {
            let at = source.find(&format!("\n    pub {field}: ")).expect("the field is public");
            let stated = source[..at].lines().next_back().unwrap_or_default();
            let begin = format!("    /// Default: {default}");
            let rest = stated.strip_prefix(&begin).unwrap_or_else(|| panic!("{field}: {default}, not {stated:?}"));
            assert!(rest.starts_with(['.', ',']), "{field}: {default}, not {stated:?}");
        }
    }
}
