//! Reports the actions of transactions to an observer that was registered when the database was opened: the versions
//! that they read, ranges and misses included, and the versions that they wrote. A checker builds the serialization
//! graph from these.
//!
//! A version is named by its row (table and primary key) and by the stamp of the transaction that wrote it. A digest
//! identifies the value, so that a checker can see whether the value that was read is the one that was written.
//!
//! A worker records the actions of its transaction in private buffers and shows them once, at the end. Without an
//! observer nothing is noted.

use std::{fmt, hash::Hasher};

use crate::{
    ids::{Stamp, TableId},
    options::{Isolation, Order, Session},
};

/// An observer that is told about every transaction that has ended.
pub trait Observer: Send + Sync {
    /// Called when a transaction begins, by its thread, before it takes a snapshot or reads anything. The answer is
    /// stored in [`Circumstances::began`].
    fn begins(&self) -> Moment {
        Moment(0)
    }

    /// Called when a transaction has ended, by commit or not, by the thread that ended it, after other transactions can
    /// see the outcome: calls arrive from all threads concurrently, and not in the order of commits.
    fn ended(&self, transaction: &Observed<'_>);

    /// Called when a table has been created.
    fn table(&self, _table: TableId, _name: &str) {}
}

impl fmt::Debug for dyn Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// A transaction that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// Its snapshot contains everything that committed strictly below this stamp. Under read committed: the log offset
    /// when it began.
    pub begin: Stamp,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether the transaction asked for less than its scheme promises: then its reads imply nothing about the
    /// transactions after it.
    pub isolation: Isolation,
    trace: &'a Trace,
}

/// A point of real time, by the observer's own count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

/// How a transaction began.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// The answer of [`Observer::begins`].
    pub began: Moment,
    /// Whether the transaction was promised the snapshot of its begin stamp: the newest versions committed below.
    pub reads_snapshot: bool,
    /// The order that the transaction was promised.
    pub order: Order,
    /// The transaction's session, if it named one.
    pub session: Option<Session>,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The transaction committed at this stamp. Transactions without writes may share a stamp, just below their
    /// snapshot. So may transactions that failed ([`crate::Transaction::commit_reads`]): their reads were certified;
    /// their writes were undone and are not among their actions.
    Committed(Stamp),
    /// The transaction lost a conflict or was rolled back: it had no effect.
    Aborted,
}

/// One action of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// The transaction read a row, found by its key or in a range.
    Read {
        /// The table.
        table: TableId,
        /// The primary key.
        key: &'a [u8],
        /// The version that the transaction saw.
        version: ReadVersion,
        /// The digest of the value; `None` where the row was deleted, or did not exist yet.
        value: Option<Digest>,
    },
    /// The transaction examined a range of an index, all of it. A read of each row that an entry in the range led to
    /// precedes this action, including rows that turned out not to belong to the entry.
    Range {
        /// The index.
        index: IndexId,
        /// First entry inside the range.
        lower: &'a [u8],
        /// First entry above the range; `None` for the end.
        upper: Option<&'a [u8]>,
        /// Entries whose insertion committed at or above this stamp were missed, unless they are among the reads;
        /// entries inserted below it were seen, unless their deletion committed below it, too.
        at: Stamp,
    },
    /// The transaction wrote a row. A later write of the same row replaces this one.
    Write {
        /// The table.
        table: TableId,
        /// The primary key.
        key: &'a [u8],
        /// The digest of the value; `None` if the transaction deleted the row.
        value: Option<Digest>,
    },
    /// The transaction's last write of a row added an entry of a secondary index to the row, or removed one.
    Entry {
        /// The index.
        index: IndexId,
        /// Secondary key and primary key.
        entry: &'a [u8],
        /// Whether the row has the entry now.
        present: bool,
    },
}

/// An index of a table: the primary one (0), whose entries are the primary keys, or the n-th secondary one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexId {
    /// The table.
    pub table: TableId,
    /// The ordinal of the index in the table.
    pub ordinal: u16,
}

/// The version of a row that a transaction saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadVersion {
    /// The version that was committed at this stamp; [`Stamp::ZERO`] if the row did not exist yet.
    At(Stamp),
    /// A version of the transaction's own.
    Own,
    /// No version is left of the row, or there never was one: the transaction saw the state that commits strictly below
    /// this stamp had left.
    Missing(Stamp),
}

/// A digest of a value: equal values have equal digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(pub u64);

impl Digest {
    /// Returns the digest of some bytes, which is the same in every run of the same program.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = std::hash::DefaultHasher::new();
        hasher.write(bytes);
        Self(hasher.finish())
    }
}

impl<'a> Observed<'a> {
    pub(crate) fn new(begin: Stamp, outcome: Outcome, isolation: Isolation, trace: &'a Trace) -> Self {
        Self { begin, outcome, isolation, trace }
    }

    /// Returns how the transaction began.
    pub fn circumstances(&self) -> &'a Circumstances {
        &self.trace.circumstances
    }

    /// Returns the transaction's actions, in order.
    pub fn actions(&self) -> impl Iterator<Item = Action<'a>> {
        let trace = self.trace;
        trace.actions.iter().map(|event| event.action(&trace.keys))
    }
}

/// The actions of one transaction so far.
#[derive(Debug)]
pub(crate) struct Trace {
    /// How the transaction began.
    pub(crate) circumstances: Circumstances,
    /// The stamp from which the running scan began to look.
    pub(crate) scanning_from: Stamp,
    actions: Vec<Note>,
    keys: Vec<u8>,
}

/// A span of the trace's key bytes.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    end: usize,
}

/// An [`Action`] whose keys are spans.
#[derive(Clone, Copy, Debug)]
enum Note {
    Read { table: TableId, key: Span, version: ReadVersion, value: Option<Digest> },
    Range { index: IndexId, lower: Span, upper: Option<Span>, at: Stamp },
    Write { table: TableId, key: Span, value: Option<Digest> },
    Entry { index: IndexId, entry: Span, present: bool },
}

impl Default for Trace {
    fn default() -> Self {
        let circumstances =
            Circumstances { began: Moment(0), reads_snapshot: false, order: Order::Strict, session: None };
        Self { circumstances, scanning_from: Stamp::ZERO, actions: Vec::new(), keys: Vec::new() }
    }
}

impl Trace {
    /// Clears the trace for the next transaction.
    pub(crate) fn clear(&mut self) {
        self.actions.clear();
        self.keys.clear();
    }

    /// Returns the number of actions.
    pub(crate) fn count(&self) -> usize {
        self.actions.len()
    }

    /// Forgets the writes after the first `kept` actions, and the reads of these writes.
    pub(crate) fn forget_writes(&mut self, kept: usize) {
        let mut at = 0;
        self.actions.retain(|note| {
            at += 1;
            let of_own = matches!(note, Note::Read { version: ReadVersion::Own, .. });
            at <= kept || !(of_own || matches!(note, Note::Write { .. } | Note::Entry { .. }))
        });
    }

    pub(crate) fn record(&mut self, action: Action<'_>) {
        let note = match action {
            Action::Read { table, key, version, value } => Note::Read { table, key: self.keep(key), version, value },
            Action::Range { index, lower, upper, at } => {
                let (lower, upper) = (self.keep(lower), upper.map(|upper| self.keep(upper)));
                Note::Range { index, lower, upper, at }
            }
            Action::Write { table, key, value } => Note::Write { table, key: self.keep(key), value },
            Action::Entry { index, entry, present } => Note::Entry { index, entry: self.keep(entry), present },
        };
        self.actions.push(note);
    }

    fn keep(&mut self, key: &[u8]) -> Span {
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        Span { start, end: self.keys.len() }
    }
}

impl Note {
    fn action(self, keys: &[u8]) -> Action<'_> {
        let bytes = |span: Span| &keys[span.start..span.end];
        match self {
            Self::Read { table, key, version, value } => Action::Read { table, key: bytes(key), version, value },
            Self::Range { index, lower, upper, at } => {
                Action::Range { index, lower: bytes(lower), upper: upper.map(bytes), at }
            }
            Self::Write { table, key, value } => Action::Write { table, key: bytes(key), value },
            Self::Entry { index, entry, present } => Action::Entry { index, entry: bytes(entry), present },
        }
    }
}
