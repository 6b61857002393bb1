//! How a database is opened: one plain struct with defaults and a check.

use std::{fmt, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use crate::{
    error::{Error, Result},
    observer::Observer,
    platform::file::Directory,
};

/// Options of a database, fixed when it is opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The concurrency control of every transaction.
    pub scheme: Scheme,
    /// How long a safe snapshot is handed out again ([`crate::Database::snapshot`]); zero: each shows everything committed
    /// before it was asked for.
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
    /// is busy; when it is full, commits wait.
    pub log_buffer_bytes: u64,
    /// Bytes of a segment of the log, at least as many as the log buffer has. There are up to 16; while the oldest cannot be
    /// freed, new ones are larger.
    pub segment_bytes: u64,
    /// Values of more bytes are kept in files of their own: between 64 KiB and 16 MiB, and never more than an eighth of the log
    /// buffer.
    pub blob_after: u64,
    /// Bytes of log after which a checkpoint is made in the background; more for a database whose checkpoint is large.
    pub checkpoint_after: u64,
    /// A directory in which the log is kept for ever, for restores to a moment ([`crate::restore`]): each of its segments comes
    /// there before it is freed. It belongs to one database.
    pub archive: Option<PathBuf>,
    /// As `archive`, for any implementation of a directory.
    #[doc(hidden)]
    pub archive_in: Option<Arc<dyn Directory>>,
    /// Is told what every transaction did. Costs each of them time and memory for each row it touches.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scheme: Scheme::default(),
            snapshot_interval: Duration::ZERO,
            stale_after: None,
            escalate_after: None,
            durability: Durability::default(),
            log_buffer_bytes: 32 << 20,
            segment_bytes: 64 << 20,
            blob_after: 1 << 20,
            checkpoint_after: 1 << 30,
            archive: None,
            archive_in: None,
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
        Ok(())
    }

    /// The options with another interval between safe snapshots.
    ///
    /// Each new one can cost concurrent writers an abort. A longer interval costs freshness: what has been committed in
    /// the meantime is not seen, also when it was committed by the same thread.
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
    /// `rc`: read committed. Every read sees the newest committed version.
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
}

impl Scheme {
    /// Every scheme.
    pub const ALL: [Self; 6] = [Self::Rc, Self::Si, Self::RcSsn, Self::SiSsn, Self::SiSsi, Self::MvOcc];

    /// Whether what commits is always as if it had run one after the other.
    pub fn is_serializable(self) -> bool {
        !matches!(self, Self::Rc | Self::Si)
    }

    /// Whether all reads of a transaction see the snapshot of its beginning.
    pub fn reads_snapshot(self) -> bool {
        !matches!(self, Self::Rc | Self::RcSsn)
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

/// What a transaction says of itself when it begins.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct TxnOptions {
    /// The transaction will not write; a write is refused with [`Error::ReadOnly`].
    pub read_only: bool,
    /// The transaction reads a safe snapshot and nothing else: it is not tracked and never loses a conflict, under any
    /// scheme (SSN 5.2). Under schemes with a certifier a concurrent writer may lose instead. It does not write.
    pub snapshot: bool,
    /// When it counts as committed; `None`: as the database was opened.
    pub durability: Option<Durability>,
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

    /// The options with another durability than the database's.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }
}
