//! How a database is opened: one plain struct with defaults and a check.

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
    database::Uniqueness,
    declared::AccessSet,
    durable::parallel::checkpoint::CheckpointSyncs,
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

/// Options of a database, fixed when it is opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The concurrency control of every transaction.
    pub scheme: Scheme,
    /// Which order of its transactions the database keeps to under a scheme that is serializable. A transaction can ask for another
    /// one ([`TxnOptions::order`]).
    pub order: Order,
    /// Whether [`crate::Database::open`] makes a database where there is none; as a default it does. Without it a path that was mistyped is an
    /// error instead of an empty database.
    pub create: bool,
    /// How long a safe snapshot is handed out again ([`crate::Database::snapshot`]) to transactions that do not ask for
    /// [`Order::Strict`]; those get a new one each. Under the schemes that keep one version a row each snapshot is a new one.
    pub snapshot_interval: Duration,
    /// From which age on a version counts as stale, in bytes of log, under `rc-ssn`, `si-ssn` and `si-ssi`. Reads of stale versions
    /// are not tracked, which makes them cheap and can cost whoever overwrites one an abort (SSN 5.3). `None`: each table finds
    /// its own threshold; [`u64::MAX`]: every read is tracked.
    pub stale_after: Option<u64>,
    /// Rows of one table from which on a transaction that reads them counts as reading all of it, under the same schemes: it
    /// keeps no more lists of rows and ranges, and every concurrent writer of the table counts as a conflict. `None`: half of the
    /// table, and never less than 4096.
    pub escalate_after: Option<u64>,
    /// When a transaction counts as committed towards its caller; a transaction can ask for something else
    /// ([`TxnOptions::durability`]). A database in memory has none.
    pub durability: Durability,
    /// Bytes of the log buffer, between 64 KiB and 1 GiB, rounded up to a power of two. It takes up what commits while the device
    /// is busy; when it is full, commits wait. It is no larger than an eighth of the memory limit.
    pub log_buffer_bytes: u64,
    /// Bytes of a segment of the log, at least as many as the log buffer has. There are up to 16; while the oldest cannot be
    /// freed, new ones are larger.
    pub segment_bytes: u64,
    /// Values of more bytes are kept in files of their own: between 64 KiB and 16 MiB, and never more than an eighth of the log
    /// buffer.
    pub blob_after: u64,
    /// Bytes of log after which a checkpoint is made in the background; more for a database whose checkpoint is large, and no more than half of
    /// the memory limit under schemes that keep versions.
    pub checkpoint_after: u64,
    /// Under single-version schemes: the directories of the log and of checkpoints, one a device, always in the same order. Each
    /// belongs to one database and has a thread that writes to it. None: the database's own directory.
    pub log_directories: Vec<PathBuf>,
    /// As `log_directories`, for any implementation of a directory.
    #[doc(hidden)]
    pub log_directories_in: Vec<Arc<dyn Directory>>,
    /// Under single-version schemes: how long an epoch lasts at least, up to a second. Commits become durable epoch by epoch.
    pub epoch_interval: Duration,
    /// Under single-version schemes: checkpoints are compressed (LZ4). For a device that is so slow, or so full, that it is worth the
    /// processor's time; SiloR found that it is not (6.2). A checkpoint is read whatever this says.
    pub compress_checkpoints: bool,
    /// Under single-version schemes: when checkpoints sync what they have written. For measurements.
    #[doc(hidden)]
    pub checkpoint_syncs: CheckpointSyncs,
    /// A directory in which the log is kept for ever, for restores to a moment ([`crate::restore`]): each of its segments comes
    /// there before it is freed. It belongs to one database.
    pub archive: Option<PathBuf>,
    /// As `archive`, for any implementation of a directory.
    #[doc(hidden)]
    pub archive_in: Option<Arc<dyn Directory>>,
    /// How long a transaction waits at one place for other transactions before it aborts with [`crate::AbortKind::Timeout`]: for a
    /// lock, a partition, its turn, or an older transaction, under schemes that wait ([`Scheme::waits`]); 1 s by default, zero: it does not
    /// wait. Also how long
    /// [`crate::Database::run`] waits, under any scheme, while another transaction runs alone, and for others to end before it runs
    /// one alone itself; then it goes on. Such waits end by themselves, unless an application leaves a transaction open. Waiting
    /// for the device is not bounded by it.
    pub wait_max: Duration,
    /// For how long [`crate::Database::run`] tries a transaction again, from the end of its first attempt on, before it fails with
    /// [`crate::Error::GaveUp`]; 30 s by default. It is looked at between attempts.
    pub run_max: Duration,
    /// How many attempts [`crate::Database::run`] makes at most, before it fails with [`crate::Error::GaveUp`]; 1000 by default.
    pub attempts_max: u32,
    /// Bytes of memory that the database may take: rows with their versions, indexes, what transactions keep, log buffers, and what an
    /// application takes for its queries ([`crate::Database::budget`]). An eighth of it (at most 1 GiB) is kept for deletes, reads and recovery;
    /// a write that would need more than the rest fails with [`Error::OutOfMemory`], and has changed nothing. `None`: three quarters of what
    /// the machine or the control group has.
    pub memory_limit: Option<u64>,
    /// Demands for memory are refused at random once the database is open, by this seed, for tests.
    #[doc(hidden)]
    pub memory_faults: Option<u64>,
    /// Timestamps that are left at the beginning of each round of them, less than 2^31, for tests (`sto`, `sto-32`).
    #[doc(hidden)]
    pub timestamps_left: Option<u64>,
    /// Is told what every transaction did. Costs each of them time and memory for each row it touches.
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
            timestamps_left: None,
            observer: None,
        }
    }
}

impl Options {
    /// The options with another durability.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// The options with another log buffer.
    pub fn log_buffer_bytes(mut self, bytes: u64) -> Self {
        self.log_buffer_bytes = bytes;
        self
    }

    /// The options with segments of another size.
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes;
        self
    }

    /// The options with another limit to the values in the log.
    pub fn blob_after(mut self, bytes: u64) -> Self {
        self.blob_after = bytes;
        self
    }

    /// From which length on a value is kept in a file of its own.
    pub(crate) fn diverts(&self, bytes: usize) -> bool {
        bytes as u64 > self.blob_after.min(self.log_buffer_bytes.next_power_of_two() / 8)
    }

    /// The options with another distance between checkpoints.
    pub fn checkpoint_after(mut self, bytes: u64) -> Self {
        self.checkpoint_after = bytes;
        self
    }

    /// No value up to this length has ever been diverted, whatever the options were then.
    pub(crate) const DIVERTED_MIN: u64 = *Self::BUFFER.start() / 8;

    const BUFFER: std::ops::RangeInclusive<u64> = 64 << 10..=1 << 30;

    /// The options with an archive of the log.
    pub fn archive(mut self, path: impl Into<PathBuf>) -> Self {
        self.archive = Some(path.into());
        self
    }

    /// The options with directories for the log of a single-version scheme, one a device.
    pub fn log_directories(mut self, paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        self.log_directories = paths.into_iter().map(Into::into).collect();
        self
    }

    /// The options with another length of epochs.
    pub fn epoch_interval(mut self, interval: Duration) -> Self {
        self.epoch_interval = interval;
        self
    }

    /// The options with checkpoints that are compressed, or are not.
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

    /// The options with another order of transactions.
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// The options with whether a database is made where there is none.
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

    /// The options with another interval between safe snapshots, for transactions that do not ask for [`Order::Strict`].
    ///
    /// Each new one can cost concurrent writers an abort. A longer interval costs freshness: what has been committed in
    /// the meantime is not seen, under [`Order::None`] also when the same client committed it.
    pub fn snapshot_interval(mut self, interval: Duration) -> Self {
        self.snapshot_interval = interval;
        self
    }

    /// The options with a fixed age, in bytes of log, from which on reads are not tracked.
    pub fn stale_after(mut self, bytes: u64) -> Self {
        self.stale_after = Some(bytes);
        self
    }

    /// The options with a fixed number of rows from which on a transaction reads the whole table.
    pub fn escalate_after(mut self, rows: u64) -> Self {
        self.escalate_after = Some(rows);
        self
    }

    /// The options with another limit to waiting.
    pub fn wait_max(mut self, wait_max: Duration) -> Self {
        self.wait_max = wait_max;
        self
    }

    /// The options with another limit to the time of retries.
    pub fn run_max(mut self, run_max: Duration) -> Self {
        self.run_max = run_max;
        self
    }

    /// The options with another limit to the number of attempts.
    pub fn attempts_max(mut self, attempts: u32) -> Self {
        self.attempts_max = attempts;
        self
    }

    /// The options with a limit to the memory that the database takes.
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = Some(bytes);
        self
    }

    /// The options with what follows from the memory there is. The schedule explorer opens a database for each schedule, and limits none.
    pub(crate) fn fitted(&self) -> Self {
        let limit = self.memory_limit.unwrap_or_else(|| if cfg!(shuttle) { u64::MAX } else { default_limit() });
        let buffer = (limit / 8).max(*Self::BUFFER.start());
        let largest =
            buffer.checked_next_power_of_two().map_or(u64::MAX, |next| if next > buffer { next / 2 } else { next });
        Self { memory_limit: Some(limit), log_buffer_bytes: self.log_buffer_bytes.min(largest), ..self.clone() }
    }

    /// The memory that a database with these options may take.
    pub(crate) fn budget(&self) -> Arc<Budget> {
        Arc::new(Budget::new(self.memory_limit.unwrap_or(u64::MAX)))
    }

    /// Bytes of the log buffer, which is taken as a whole.
    pub(crate) fn log_buffer_taken(&self) -> u64 {
        self.log_buffer_bytes.next_power_of_two()
    }

    /// The options with an observer.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// The options with another scheme.
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        self.scheme = scheme;
        self
    }
}

/// How a table is built. It is chosen when the table is created, and kept in the database.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TableOptions {
    /// How rows are found by their keys.
    pub index: IndexKind,
    /// Its rows may take memory from the reserve. Not kept in the database: say it each time the table is opened.
    pub(crate) is_essential: bool,
    /// Which partition a row is in, for the scheme `partitioned`. Not kept in the database: say it each time the table is opened.
    pub(crate) partition: Option<PartitionOf>,
}

impl TableOptions {
    /// The options with another kind of index.
    pub fn index(mut self, kind: IndexKind) -> Self {
        self.index = kind;
        self
    }

    /// The options for a table whose rows may take memory from the reserve ([`Options::memory_limit`]): one of few rows, without which an application
    /// could not free memory when there is none left, as a catalog that says what is to be dropped.
    pub fn essential(mut self) -> Self {
        self.is_essential = true;
        self
    }

    /// The options with partitions: `of` gives a row's partition from the first part of its key, whose type is `Q`. Under the scheme
    /// `partitioned` transactions of different partitions run side by side; other schemes do not look at it. Keys of the
    /// table's secondary indexes must begin with the same part, or scans of them reach everything ([`Self::indexes_apart`]).
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

    /// The options for a table whose secondary indexes have keys that do not begin with what decides the partition.
    pub fn indexes_apart(mut self) -> Self {
        self.partition.iter_mut().for_each(|partition| partition.indexes_alike = false);
        self
    }
}

/// How a secondary index is built.
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
    /// The version of the key function, which the database keeps: another one is refused.
    pub version: u32,
}

impl IndexOptions {
    /// A B+-tree with version 1 of its key function.
    pub fn new(uniqueness: Uniqueness) -> Self {
        Self { uniqueness, kind: IndexKind::BTree, version: FIRST_KEY_FUNCTION }
    }

    /// The options with another kind of index.
    pub fn kind(mut self, kind: IndexKind) -> Self {
        self.kind = kind;
        self
    }

    /// The options with another version of the key function.
    pub fn version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }
}

/// When a transaction counts as committed towards its caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// `durable`: when the log up to it is on the device. A crash of the machine loses nothing that was acknowledged. Also what
    /// a transaction only read is durable before it is handed out.
    #[default]
    Durable,
    /// `async`: at once. A crash loses the last moments, some ten milliseconds, and always a suffix of the order of commits:
    /// what is left is consistent.
    Async,
    /// `none`: of a database: nothing is written, and what is committed is gone when the database is closed. Of a single
    /// transaction: as `async`, since others may build on what it wrote.
    None,
}

impl Durability {
    /// Every durability.
    pub const ALL: [Self; 3] = [Self::Durable, Self::Async, Self::None];

    /// The name, as given on the command line.
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
    /// `rc`: read committed. Every read sees the newest committed version; a writer waits for one that has written the row and has not
    /// ended.
    Rc,
    /// `si`: snapshot isolation. Every read sees the snapshot of the beginning; the first updater of a row wins.
    Si,
    /// `rc-ssn`: serializable. Read committed certified by the Serial Safety Net: who reads a row twice may see two
    /// versions, and then cannot commit.
    RcSsn,
    /// `si-ssn`: serializable. Snapshot isolation certified by the Serial Safety Net.
    #[default]
    SiSsn,
    /// `si-ssi`: serializable. Snapshot isolation, and nobody completes the dangerous structure of two anti-dependencies
    /// whose end committed first.
    SiSsi,
    /// `mvocc`: serializable. Snapshots, and what was read must still be the newest at commit.
    MvOcc,
    /// `silo`: serializable, one version a row. Reads see what is committed, without a snapshot; at commit, what was
    /// read must still be there (SiloR 2).
    Silo,
    /// `2pl-nowait`: serializable, as `silo`. Every record that is read or written is locked until the end; who meets a lock
    /// aborts.
    TwoPhaseNoWait,
    /// `2pl-waitdie`: as `2pl-nowait`, but who is older than those who have the lock waits for it.
    TwoPhaseWaitDie,
    /// `2pl-wdl`: as `2pl-nowait`, but who meets a lock waits, if nobody waits for it.
    TwoPhaseWdl,
    /// `serial`: one transaction at a time, as `silo`.
    Serial,
    /// `sto`: strict timestamp ordering, serializable, as `silo`: transactions come in the order in which they began; who comes too
    /// late aborts, who comes too early waits (STO 2.3).
    Sto,
    /// `sto-32`: `sto` with timestamps of 32 bits, which are set back when they are used up.
    Sto32,
    /// `tso`: timestamp ordering without waiting, serializable, as `silo`: who meets a transaction that may still run, or a younger one,
    /// aborts; timestamps are looked at under latches that hardware transactions elide (HTM paper, IV).
    Tso,
    /// `tso-validate`: `tso` without read timestamps: what was read is compared at commit.
    TsoValidate,
    /// `vll`: very lightweight locking, serializable, as `silo`: transactions declare what they will touch ([`crate::AccessSet`]) and
    /// wait until nobody is in the way; those that declare nothing run alone (HTM paper, VI.C).
    Vll,
    /// `partitioned`: serial within a partition ([`TableOptions::partition_by`]), partitions side by side, as `silo`; who touches several
    /// locks the database (STO 2.2).
    Partitioned,
}

impl Scheme {
    /// Every scheme.
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

    /// Whether rows have several versions.
    pub fn has_versions(self) -> bool {
        matches!(self, Self::Rc | Self::Si | Self::RcSsn | Self::SiSsn | Self::SiSsi | Self::MvOcc)
    }

    /// Whether a transaction waits for others before it aborts, at most as long as [`Options::wait_max`] says.
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

    /// Whether what commits is always as if it had run one after the other.
    pub fn is_serializable(self) -> bool {
        !matches!(self, Self::Rc | Self::Si)
    }

    /// Whether [`Options::order`] makes a difference to which transactions commit.
    pub fn has_orders(self) -> bool {
        matches!(self, Self::RcSsn | Self::SiSsn)
    }

    /// Whether a transaction can read a snapshot without losing a conflict ([`crate::Database::snapshot`]). Under timestamp
    /// ordering with one version a row, no moment shows everything that came before it and nothing after.
    pub fn has_snapshots(self) -> bool {
        !matches!(self, Self::Sto | Self::Sto32 | Self::Tso | Self::TsoValidate)
    }

    /// Whether all reads of a transaction see the snapshot of its beginning.
    pub fn reads_snapshot(self) -> bool {
        self.has_versions() && !matches!(self, Self::Rc | Self::RcSsn)
    }

    /// The name, as given on the command line.
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

/// Which transactions come before a transaction in the serial order, beside those that it depends on.
///
/// A serializable scheme commits transactions only if some serial order explains them. The order says how that one agrees with the
/// order in which clients saw them happen. It makes a difference under `si-ssn` and `rc-ssn` ([`Scheme::has_orders`]), and to
/// snapshots that are handed out again ([`Options::snapshot_interval`]); otherwise the serializable schemes are strict whatever is
/// asked for. Under `rc` and `si` there is no serial order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// `strict`: every transaction whose commit had returned when this one began (strict serializability).
    #[default]
    Strict,
    /// `session`: the transactions that its session has committed ([`TxnOptions::session`]). A transaction without a session is strict.
    Session,
    /// `none`: no other. A client can be told of a state in which its own last transaction has not happened yet.
    None,
}

impl Order {
    /// Every order.
    pub const ALL: [Self; 3] = [Self::Strict, Self::Session, Self::None];

    /// The name, as given on the command line.
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

/// A client of one database whose transactions come one after another, for [`Order::Session`]. Clones are the same session.
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

/// Two handles are equal that are the same session.
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
    /// The stamp of its last commit.
    pub(crate) fn last(&self) -> Stamp {
        // Relaxed, as in `committed`: the number is all that is read, and the client orders its own calls.
        Stamp(self.0.load(Ordering::Relaxed))
    }

    /// One of its transactions has committed.
    pub(crate) fn committed(&self, stamp: Stamp) {
        self.0.fetch_max(stamp.0, Ordering::Relaxed);
    }
}

/// What a transaction asks of its scheme.
///
/// Levels mix: whatever others ask, those that ask for all that a serializable scheme promises are serializable among themselves (as
/// in Adya, "Weak Consistency", 1999, section 5.5: each kind of dependency counts where one of its two ends wants it to).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// All that the scheme promises.
    #[default]
    Scheme,
    /// Snapshot isolation, under every scheme that keeps versions: reads see the snapshot of the beginning and are not tracked; who
    /// updates a row that was committed since aborts. Write skew can happen. Such a transaction may renew its snapshot
    /// ([`crate::Transaction::renew_snapshot`]), which makes it read committed. Under single-version schemes as [`Isolation::Scheme`].
    Snapshot,
}

/// What a transaction says of itself when it begins.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TxnOptions {
    /// What it asks of the scheme.
    pub isolation: Isolation,
    /// The transaction will not write; a write is refused with [`Error::ReadOnly`].
    pub read_only: bool,
    /// The transaction reads a safe snapshot and nothing else: it is not tracked and never loses a conflict (SSN 5.2), under any
    /// scheme that has them ([`Scheme::has_snapshots`]). Under schemes with a certifier a concurrent writer may lose instead. It does not write.
    pub snapshot: bool,
    /// Which transactions come before it; `None`: as the database was opened. What others ask for makes no difference to it.
    pub order: Option<Order>,
    /// The session that it belongs to.
    pub session: Option<Session>,
    /// When it counts as committed; `None`: as the database was opened.
    pub durability: Option<Durability>,
    /// What it will read and write, for the scheme `vll`; `None`: anything.
    pub declared: Option<Arc<AccessSet>>,
    /// Every read is kept, however long the transaction is: of a prepared transaction that is opened again, no more than it had read is held.
    #[doc(hidden)]
    pub tracks_all: bool,
}

impl TxnOptions {
    /// A transaction that only reads.
    pub fn read_only() -> Self {
        Self { read_only: true, ..Self::default() }
    }

    /// A transaction that reads a safe snapshot.
    pub fn snapshot() -> Self {
        Self { read_only: true, snapshot: true, ..Self::default() }
    }

    /// A transaction that says what it will touch.
    pub fn declared(set: AccessSet) -> Self {
        Self { declared: Some(Arc::new(set)), ..Self::default() }
    }

    /// The options with a level of isolation.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// The options with another durability than the database's.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// The options with another order than the database's.
    pub fn order(mut self, order: Order) -> Self {
        self.order = Some(order);
        self
    }

    /// The options with the session that the transaction belongs to.
    pub fn session(mut self, session: &Session) -> Self {
        self.session = Some(session.clone());
        self
    }
}
