//! Errors, classified by the caller's next step: retry an [`Abort`], or mend the cause that an [`Error`] names.

use std::{
    error, fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{
    ids::{Stamp, Tid},
    table_name::{TableName, hexadecimal},
    units::Mebibytes,
};

/// The result of every operation of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why an operation failed.
///
/// Every error except [`Error::Abort`] stays the same however often the operation is tried again.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The transaction lost a conflict and is over; run it again from its beginning ([`crate::Database::run`] does).
    Abort(Box<Abort>),
    /// An insert found that its key exists, or a write would give a unique index two rows under one key.
    KeyExists {
        /// The table.
        table: TableName,
        /// The unique index whose key exists; `None` for the primary key.
        index: Option<Arc<str>>,
        /// The encoded key.
        key: Box<[u8]>,
    },
    /// A key longer than [`crate::MAX_KEY_BYTES`].
    KeyTooLong {
        /// Length of the encoded key in bytes.
        bytes: usize,
    },
    /// A value longer than [`crate::MAX_VALUE_BYTES`].
    ValueTooLong {
        /// Length of the encoded value in bytes.
        bytes: usize,
    },
    /// The bytes of a key or value cannot be decoded as the table's type: the table was opened with another type.
    Decode {
        /// The type that was expected.
        expected: &'static str,
    },
    /// A value could not be turned into bytes.
    Encode(String),
    /// A table or index of that name exists with another type, or was dropped, or is not ready for what was requested;
    /// the text says which, and what to do.
    Schema(String),
    /// The transaction has declared the keys that it will touch ([`crate::AccessSet`]), and touches something else: a
    /// row, or a range.
    Undeclared {
        /// The table.
        table: TableName,
        /// The encoded key; `None` for a range.
        key: Option<Box<[u8]>>,
    },
    /// [`crate::Database::run`] has run the transaction for as long, or as often, as it may
    /// ([`crate::Options::run_max`], [`crate::Options::attempts_max`]), and each attempt lost a conflict. The
    /// transaction had no effect.
    GaveUp {
        /// Number of attempts, all of which lost.
        attempts: u32,
        /// Time since the first attempt lost.
        elapsed: Duration,
        /// The conflict that the last attempt lost.
        last: Box<Abort>,
    },
    /// A transaction was to be run or begun, or a checkpoint or backup made, in a place that allows none: the text says
    /// where.
    Nested(&'static str),
    /// The transaction was declared read-only and tried to write.
    ReadOnly,
    /// The database is a standby ([`crate::HotStandby`]), where nothing is written but what the original has committed.
    Standby,
    /// A standby has no safe snapshot of its original: none has been marked since the standby was opened, or since
    /// something changed that is not read from a snapshot ([`crate::Database::mark_safe_snapshot`]).
    NoSnapshot,
    /// A savepoint that was released, or that came after one that was rolled back to, or that belongs to another
    /// transaction.
    NoSuchSavepoint,
    /// The key function of an index panicked. A transaction that was writing is over and has no effect.
    KeyFunction {
        /// The index.
        index: Arc<str>,
        /// The message of the panic.
        panic: Arc<str>,
    },
    /// An option has a value that cannot work; the text names the option and the values that would.
    Options(String),
    /// A limit of the engine was reached; the text says which.
    Limit(&'static str),
    /// The database has taken as much memory as it may ([`crate::Options::memory_limit`]), and the operation needs
    /// more; it has changed nothing. Delete rows, or open the database with a larger limit. Reads and deletes still
    /// work.
    OutOfMemory {
        /// Bytes that the operation needs, or the size of the chunk that they would be cut from.
        needed: u64,
        /// Bytes that the database has taken.
        taken: u64,
        /// Bytes that the database may take; a part of them is reserved for deletes.
        limit: u64,
    },
    /// The log can no longer be written; the text says why. No commit is acknowledged any more. Commits that were
    /// acknowledged before are safe: close the database, mend the cause, and open it again. A transaction that ended
    /// with this error may or may not have committed.
    Poisoned(Arc<str>),
    /// A reader of the log ([`crate::Database::log_reader`], [`crate::Database::changes`]) asked for a part of the log
    /// whose files have been removed: it was too far behind, or did not exist yet. A standby that needs that part is
    /// made again, from a new backup; a copy that follows changes begins again with the rows of the tables.
    LogRemoved {
        /// Where the part begins.
        position: u64,
    },
    /// The device has no room for a transaction's writes; the text says where. Rows can be read and deleted meanwhile,
    /// and writes succeed again as soon as there is room: free some, or delete rows and wait for the next checkpoint.
    DiskFull(String),
    /// The files of a database cannot be used; the text says which ones, why, and what to do.
    Storage(String),
    /// A restore was requested to a place before the earliest one that the backup can be restored to: take an older
    /// backup.
    TooEarly {
        /// The earliest LSN.
        lsn: u64,
        /// The earliest point in time, if the log notes one.
        moment: Option<SystemTime>,
    },
    /// A file of a database is damaged in a place where it must not be: the damage of a crash looks different.
    Corrupt {
        /// The file's name.
        file: String,
        /// The byte offset in the file.
        offset: u64,
        /// A description of the damage.
        what: String,
    },
    /// An error of the application, returned through [`crate::Database::run`]: the transaction is rolled back.
    Application(Box<dyn error::Error + Send + Sync>),
}

impl Error {
    /// [`crate::OPEN_TRANSACTIONS_MAX`] has been reached.
    pub(crate) const TOO_MANY_OPEN: Self = Self::Limit("1024 open transactions: end some, or share them");

    /// Wraps an error of the application, so that a transaction can be left with `?`.
    pub fn other(error: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        Self::Application(error.into())
    }

    /// Returns the abort, if this error is one.
    pub fn as_abort(&self) -> Option<&Abort> {
        match self {
            Self::Abort(abort) => Some(abort),
            _ => None,
        }
    }
}

/// The reason why a transaction is over before its end.
#[derive(Clone, Debug)]
pub(crate) enum Doom {
    /// The transaction has lost a conflict: all its writes are undone.
    Lost(Box<Abort>),
    /// A write has failed, perhaps half done: the transaction must not commit.
    KeyFunction {
        index: Arc<str>,
        panic: Arc<str>,
    },
    Decode {
        expected: &'static str,
    },
    Limit(&'static str),
}

impl Doom {
    /// Returns the doom of a transaction after an error that may have occurred in the middle of a write.
    pub(crate) fn of_write(error: &Error) -> Option<Self> {
        match error {
            Error::KeyFunction { index, panic } => {
                Some(Self::KeyFunction { index: index.clone(), panic: panic.clone() })
            }
            Error::Decode { expected } => Some(Self::Decode { expected }),
            Error::Limit(which) => Some(Self::Limit(which)),
            _ => None,
        }
    }

    /// Returns the error with which every later operation of the transaction fails.
    #[cold]
    pub(crate) fn error(&self) -> Error {
        match self {
            Self::Lost(abort) => Error::Abort(abort.clone()),
            Self::KeyFunction { index, panic } => Error::KeyFunction { index: index.clone(), panic: panic.clone() },
            Self::Decode { expected } => Error::Decode { expected },
            Self::Limit(which) => Error::Limit(which),
        }
    }

    /// Returns the conflict that was lost, if that is the reason.
    pub(crate) fn abort(&self) -> Option<&Abort> {
        match self {
            Self::Lost(abort) => Some(abort),
            _ => None,
        }
    }
}

impl From<Abort> for Error {
    fn from(abort: Abort) -> Self {
        Self::Abort(Box::new(abort))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Abort(abort) => abort.fmt(f),
            Self::KeyExists { table, index: None, key } => {
                write!(f, "table {table} already has a row with key {}", table.key_text(None, key))
            }
            Self::KeyExists { table, index: Some(index), key } => {
                let key = table.key_text(Some(index), key);
                write!(f, "unique index {index} of table {table} already has key {key}")
            }
            Self::KeyTooLong { bytes } => {
                write!(f, "key of {bytes} bytes is longer than the {} allowed", crate::MAX_KEY_BYTES)
            }
            Self::ValueTooLong { bytes } => {
                write!(f, "value of {bytes} bytes is longer than the {} allowed", crate::MAX_VALUE_BYTES)
            }
            Self::Decode { expected } => write!(f, "stored bytes are not a valid {expected}"),
            Self::Encode(why) => write!(f, "value cannot be encoded: {why}"),
            Self::Schema(why) => why.fmt(f),
            Self::Undeclared { table, key: Some(key) } => {
                let key = table.key_text(None, key);
                write!(f, "table {table}: the transaction did not declare that it touches key {key} like this")
            }
            Self::Undeclared { table, key: None } => {
                write!(
                    f,
                    "table {table}: a transaction that declares what it touches cannot scan, nor find out what a \
                     unique index has"
                )
            }
            Self::NoSuchSavepoint => f.write_str(
                "the savepoint is gone: it was released, or the transaction was rolled back to an earlier one",
            ),
            Self::GaveUp { attempts, elapsed, last } => {
                let seconds = elapsed.as_secs_f64();
                write!(f, "gave up after {attempts} attempts in {seconds:.1} s; the last one lost a ")?;
                last.tell(f)?;
                f.write_str(
                    "; a transaction that stays open is in the way, or Options::attempts_max or Options::run_max is \
                     too low",
                )
            }
            Self::Nested(what) => f.write_str(what),
            Self::ReadOnly => {
                f.write_str("the transaction was declared read-only: begin it without read_only to write")
            }
            Self::Standby => {
                f.write_str("the database is a standby, which follows another one: write there, or promote the standby")
            }
            Self::NoSnapshot => f.write_str(
                "the standby has no safe snapshot: one comes when the original marks it, after its next commit",
            ),
            Self::KeyFunction { index, panic } => write!(
                f,
                "the key function of index {index} panicked: {panic}; it must give a key for every row, depend on \
                 nothing but the row, and not use the database"
            ),
            Self::Options(why) => why.fmt(f),
            Self::Limit(which) => write!(f, "limit reached: {which}"),
            Self::OutOfMemory { needed, taken, limit } => write!(
                f,
                "out of memory: the operation needs {} more, and the database has taken {} of the {} that it may take, \
                 of which an eighth is kept for deletes; delete rows, or open it with a larger memory_limit",
                Mebibytes(*needed),
                Mebibytes(*taken),
                Mebibytes(*limit)
            ),
            Self::Poisoned(why) => write!(
                f,
                "the log cannot be written any more: {why}; what was acknowledged is safe: close the database and open \
                 it again"
            ),
            Self::LogRemoved { position } => {
                write!(
                    f,
                    "the log at {position} is not there any more: make the standby again, from a new backup; a reader of \
                     changes begins again with the rows, at a new position"
                )
            }
            Self::DiskFull(what) => write!(
                f,
                "no room is left on the device: {what}; rows can be read and deleted, and writing goes on when there \
                 is room again"
            ),
            Self::Storage(what) => what.fmt(f),
            Self::TooEarly { lsn, moment } => {
                write!(f, "the backup can be restored to LSN {lsn} and later")?;
                if let Some(since) = moment.and_then(|moment| moment.duration_since(UNIX_EPOCH).ok()) {
                    write!(f, ", or to {}.{:06} s after 1970 and later", since.as_secs(), since.subsec_micros())?;
                }
                f.write_str(": take an older backup for what was before")
            }
            Self::Corrupt { file, offset, what } => {
                write!(
                    f,
                    "{file} is damaged at byte {offset}: {what}; `ermine inspect` shows the file, docs/design/log.md \
                     says how to save what is left"
                )
            }
            Self::Application(error) => error.fmt(f),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Application(error) => Some(error.as_ref()),
            _ => None,
        }
    }
}

/// A lost conflict: its kind, its place, and the other transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Abort {
    /// The rule that was broken.
    pub kind: AbortKind,
    /// The table in which the conflict was noticed, where there is one.
    pub table: Option<TableName>,
    /// The encoded key at which the conflict was noticed, where there is one.
    pub key: Option<Box<[u8]>>,
    /// The other transaction, where it is still known.
    pub other: Option<Tid>,
    /// The edge from a transaction that comes before this one, where the rule involves one.
    pub predecessor: Option<Edge>,
    /// The edge to a transaction that comes after this one, where the rule involves one.
    pub successor: Option<Edge>,
}

/// An edge of the dependency graph between the transaction that lost and another one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Edge {
    /// How the two depend on each other.
    pub dependency: Dependency,
    /// The table of the row, or of the gap between rows, that the dependency is about.
    pub table: Option<TableName>,
    /// The encoded key of the row, as far as it has been kept.
    pub key: Option<Box<[u8]>>,
    /// Of a predecessor, the stamp of its commit. Of a successor, the earliest commit that can be reached through it.
    /// `None` if it is not known.
    pub stamp: Option<Stamp>,
    /// The other transaction, where it is still known.
    pub other: Option<Tid>,
}

/// The way in which another transaction depends on the one that lost, or the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Dependency {
    /// Predecessor: this transaction read a version that the other wrote.
    ReadFrom,
    /// Predecessor: this transaction overwrote a version that the other wrote.
    Overwrote,
    /// Predecessor: this transaction overwrote a version that the other had read.
    WasReadBy,
    /// Predecessor: this transaction overwrote a version that the other may have read; reads of stale versions are not
    /// tracked (SSN 5.3).
    MayHaveBeenReadBy,
    /// Predecessor: this transaction inserted a key where the other had looked.
    WasLookedAtBy,
    /// Predecessor: this transaction found no row where the other had deleted one.
    WasDeletedBy,
    /// Predecessor: the other transaction had been acknowledged when this one began ([`crate::Order`]).
    EndedBefore,
    /// Predecessor: this transaction overwrote a version that readers of a safe snapshot may have read (SSN 5.2).
    SafeSnapshot,
    /// Successor: the other transaction overwrote a version that this one had read.
    OverwrittenBy,
    /// Successor: the other transaction overwrote a version that this one may have read without tracking.
    MayBeOverwrittenBy,
    /// Successor: the other transaction inserted a key where this one had looked.
    InsertedBy,
    /// Both transactions write the same row, or the same unique key.
    BothWrite,
}

impl Dependency {
    /// Returns the dependency in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadFrom => "read what it wrote",
            Self::Overwrote => "overwrote what it wrote",
            Self::WasReadBy => "overwrote what it had read",
            Self::MayHaveBeenReadBy => "overwrote what it may have read",
            Self::WasLookedAtBy => "inserted where it had looked",
            Self::WasDeletedBy => "found nothing where it had deleted",
            Self::EndedBefore => "began after it had ended",
            Self::SafeSnapshot => "overwrote what a safe snapshot shows",
            Self::OverwrittenBy => "read what it overwrote",
            Self::MayBeOverwrittenBy => "may have read what it overwrote",
            Self::InsertedBy => "looked where it inserted",
            Self::BothWrite => "wrote what it writes",
        }
    }
}

/// The rule that a transaction broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum AbortKind {
    /// Another transaction has written the row: first updater wins.
    WriteConflict,
    /// Committing could close a cycle of dependencies (SSN's exclusion window, section 3.1).
    Exclusion,
    /// Committing would complete two anti-dependencies in a row whose end committed first (SSI's dangerous structure,
    /// ERMIA 3.6).
    DangerousStructure,
    /// A version that the transaction read was overwritten before it could commit (read validation).
    StaleRead,
    /// A new entry has appeared in a range that was scanned, or under a key that was missed.
    Phantom,
    /// A lock that the transaction needs is held by another one, for which it may not wait (two-phase locking).
    Lock,
    /// A younger transaction has read or written the record that this one is about to read or write (timestamp
    /// ordering).
    TooLate,
    /// The transaction has waited for others for as long as it may ([`crate::Options::wait_max`]).
    Timeout,
}

impl AbortKind {
    /// All kinds, for reports.
    pub const ALL: [Self; 8] = [
        Self::WriteConflict,
        Self::Exclusion,
        Self::DangerousStructure,
        Self::StaleRead,
        Self::Phantom,
        Self::Lock,
        Self::TooLate,
        Self::Timeout,
    ];

    /// Returns the kind's index in [`Self::ALL`].
    pub(crate) fn number(self) -> usize {
        Self::ALL.iter().position(|&kind| kind == self).expect("all kinds are listed")
    }

    /// Returns the name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::WriteConflict => "write-conflict",
            Self::Exclusion => "exclusion",
            Self::DangerousStructure => "dangerous-structure",
            Self::StaleRead => "stale-read",
            Self::Phantom => "phantom",
            Self::Lock => "lock-conflict",
            Self::TooLate => "too-late",
            Self::Timeout => "timeout",
        }
    }
}

impl fmt::Display for Abort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tell(f)?;
        f.write_str("; run the transaction again")
    }
}

impl Abort {
    /// Tells what happened: the dependencies on other transactions that exclude each other, as far as they are known.
    fn tell(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            AbortKind::WriteConflict => "write conflict: ",
            AbortKind::Exclusion | AbortKind::DangerousStructure => "serialization conflict: ",
            AbortKind::StaleRead => "stale read: ",
            AbortKind::Phantom => "phantom: ",
            AbortKind::Lock => "lock conflict: ",
            AbortKind::TooLate => "conflict of timestamps: ",
            AbortKind::Timeout => "wait that took too long: ",
        })?;
        match (&self.successor, &self.predecessor) {
            (Some(after), Some(before)) => {
                let is_same = after.other == before.other && after.other.is_some();
                let end = if is_same { "neither can come first" } else { "no serial order may have all of them" };
                write!(f, "{after}; {before}; {end}")
            }
            (Some(edge), None) | (None, Some(edge)) => write!(f, "{edge}"),
            (None, None) => self.tell_place(f),
        }
    }

    /// Tells the conflict of a scheme that knows no dependencies.
    fn tell_place(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (row, other) = (row(&self.table, &self.key), transaction(self.other));
        match self.kind {
            AbortKind::Lock => write!(f, "{other} has locked {row}"),
            AbortKind::TooLate => {
                write!(f, "{other}, which comes later in the serial order, has read or written {row}")
            }
            AbortKind::StaleRead => write!(f, "this transaction read {row}, which {other} overwrote"),
            AbortKind::Phantom => write!(f, "this transaction looked for {row}, which {other} inserted"),
            AbortKind::Timeout => write!(f, "this transaction waited for {other} at {row}"),
            _ => write!(f, "{other} has read or written {row}"),
        }
    }
}

impl error::Error for Abort {}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (row, other) = (row(&self.table, &self.key), transaction(self.other));
        match self.dependency {
            Dependency::ReadFrom => write!(f, "this transaction read {row}, as {other} had written it"),
            Dependency::Overwrote => write!(f, "this transaction overwrote {row}, as {other} had written it"),
            Dependency::WasReadBy => write!(f, "{other} read {row}, which this transaction overwrote"),
            Dependency::MayHaveBeenReadBy => {
                write!(f, "{other} may have read {row}, which this transaction overwrote")
            }
            Dependency::WasLookedAtBy => write!(f, "{other} looked for {row}, which this transaction inserted"),
            Dependency::WasDeletedBy => write!(f, "this transaction looked for {row}, which {other} had deleted"),
            Dependency::EndedBefore => {
                write!(f, "{other} had committed before this transaction began, and must come before it")
            }
            Dependency::SafeSnapshot => {
                write!(f, "a reader of a safe snapshot may have read {row}, which this transaction overwrote")
            }
            Dependency::OverwrittenBy => write!(f, "this transaction read {row}, which {other} overwrote"),
            Dependency::MayBeOverwrittenBy => {
                write!(f, "this transaction may have read {row}, which {other} overwrote")
            }
            Dependency::InsertedBy => write!(f, "this transaction looked for {row}, which {other} inserted"),
            Dependency::BothWrite => write!(f, "this transaction writes {row}, which {other} has written"),
        }
    }
}

/// Returns a row in words, as far as it is known.
fn row(table: &Option<TableName>, key: &Option<Box<[u8]>>) -> String {
    match (table, key) {
        (Some(table), Some(key)) => format!("key {} of table {table}", table.any_key_text(key)),
        (Some(table), None) => format!("a row of table {table}"),
        (None, Some(key)) => format!("key {}", hexadecimal(key)),
        (None, None) => "a row".into(),
    }
}

/// Returns a transaction in words.
fn transaction(other: Option<Tid>) -> String {
    other.map_or_else(|| "another transaction".into(), |other| format!("transaction {other}"))
}
