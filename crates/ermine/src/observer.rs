//! What transactions did, told to whoever asked when the database was opened: which versions they read, ranges and
//! misses included, and which they wrote. A checker builds the serialization graph from it.
//!
//! A version is named by its row (table and primary key) and by the stamp of the transaction that wrote it; what a value
//! was is told by a digest, so that a checker can see whether what was read is what was written.
//!
//! A worker notes the actions of its transaction in buffers of its own and shows them once, at the end. Without an
//! observer nothing is noted.

use std::{fmt, hash::Hasher};

use crate::{
    ids::{Stamp, TableId},
    options::{Isolation, Order, Session},
};

/// Is told about every transaction that has ended.
pub trait Observer: Send + Sync {
    /// A transaction begins: called by its thread before it takes a snapshot or reads anything. The answer stands in
    /// [`Circumstances::began`].
    fn begins(&self) -> Moment {
        Moment(0)
    }

    /// A transaction has ended, by commit or not. Called by the thread that ended it, after others can see the outcome:
    /// calls come from all threads at once, and not in the order of commits.
    fn ended(&self, transaction: &Observed<'_>);

    /// A table has been created.
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
    /// What committed strictly below is in its snapshot. Under read committed: the log offset when it began.
    pub begin: Stamp,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether it asked for less than its scheme promises: then what it read says nothing about what comes after it.
    pub isolation: Isolation,
    notes: &'a Notes,
}

/// A point of real time, by the observer's own count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

/// How a transaction began.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// The answer of [`Observer::begins`].
    pub began: Moment,
    /// Whether it was promised the snapshot of its begin stamp: the newest versions committed below.
    pub reads_snapshot: bool,
    /// The order that it was promised.
    pub order: Order,
    /// Its session, if it named one.
    pub session: Option<Session>,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It committed at this stamp. Transactions without writes may share a stamp, just below their snapshot. So may those
    /// that failed ([`crate::Transaction::commit_reads`]): what they read was certified, and what they wrote was undone and
    /// is not among their actions.
    Committed(Stamp),
    /// It lost a conflict or was rolled back: nothing of it happened.
    Aborted,
}

/// One thing that a transaction did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// It read a row, found by its key or in a range.
    Read {
        /// The table.
        table: TableId,
        /// The primary key.
        key: &'a [u8],
        /// Which version it saw.
        version: ReadVersion,
        /// The digest of the value; `None` where the row was deleted, or not there yet.
        value: Option<Digest>,
    },
    /// It looked through a range of an index, all of it. A read of each row that an entry there led to precedes this, also where that
    /// row turned out not to belong to the entry.
    Range {
        /// The index.
        index: IndexId,
        /// First entry inside.
        lower: &'a [u8],
        /// First entry outside; `None`: the end.
        upper: Option<&'a [u8]>,
        /// Entries whose insertion committed at or above this were missed, unless they are among the reads; those below were
        /// seen, unless their deletion committed below it, too.
        at: Stamp,
    },
    /// It wrote a row. A later write of the same row replaces this one.
    Write {
        /// The table.
        table: TableId,
        /// The primary key.
        key: &'a [u8],
        /// The digest of the value; `None`: it deleted the row.
        value: Option<Digest>,
    },
    /// Its last write of a row gave the row an entry of a secondary index, or took it away.
    Entry {
        /// The index.
        index: IndexId,
        /// Secondary key and primary key.
        entry: &'a [u8],
        /// Whether the row has it now.
        present: bool,
    },
}

/// An index of a table: the primary one (0), whose entries are the primary keys, or the n-th secondary one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexId {
    /// The table.
    pub table: TableId,
    /// Which of its indexes.
    pub ordinal: u16,
}

/// Which version of a row a transaction saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadVersion {
    /// The one that was committed at this stamp; [`Stamp::ZERO`]: the row was not there yet.
    At(Stamp),
    /// One of its own.
    Own,
    /// No version is left of the row, or there never was one: what it saw is the state that commits strictly below this
    /// stamp had left.
    Missing(Stamp),
}

/// A digest of a value: equal values have equal ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(pub u64);

impl Digest {
    /// Of some bytes. The same in every run of the same program.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = std::hash::DefaultHasher::new();
        hasher.write(bytes);
        Self(hasher.finish())
    }
}

impl<'a> Observed<'a> {
    pub(crate) fn new(begin: Stamp, outcome: Outcome, isolation: Isolation, notes: &'a Notes) -> Self {
        Self { begin, outcome, isolation, notes }
    }

    /// How it began.
    pub fn circumstances(&self) -> &'a Circumstances {
        &self.notes.circumstances
    }

    /// What it did, in order.
    pub fn actions(&self) -> impl Iterator<Item = Action<'a>> {
        let notes = self.notes;
        notes.actions.iter().map(|note| note.action(&notes.keys))
    }
}

/// What one transaction has done so far.
#[derive(Debug)]
pub(crate) struct Notes {
    /// How the transaction began.
    pub(crate) circumstances: Circumstances,
    /// Where the scan that runs began to look.
    pub(crate) scanning_from: Stamp,
    actions: Vec<Note>,
    keys: Vec<u8>,
}

/// A span of the notes' key bytes.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    end: u32,
}

/// An [`Action`] whose keys are spans.
#[derive(Clone, Copy, Debug)]
enum Note {
    Read { table: TableId, key: Span, version: ReadVersion, value: Option<Digest> },
    Range { index: IndexId, lower: Span, upper: Option<Span>, at: Stamp },
    Write { table: TableId, key: Span, value: Option<Digest> },
    Entry { index: IndexId, entry: Span, present: bool },
}

impl Default for Notes {
    fn default() -> Self {
        let circumstances =
            Circumstances { began: Moment(0), reads_snapshot: false, order: Order::Strict, session: None };
        Self { circumstances, scanning_from: Stamp::ZERO, actions: Vec::new(), keys: Vec::new() }
    }
}

impl Notes {
    /// For the next transaction.
    pub(crate) fn clear(&mut self) {
        self.actions.clear();
        self.keys.clear();
    }

    /// How many actions there are.
    pub(crate) fn count(&self) -> usize {
        self.actions.len()
    }

    /// Forgets what was written behind the first `kept` actions, and reads of that.
    pub(crate) fn forget_writes(&mut self, kept: usize) {
        let mut at = 0;
        self.actions.retain(|note| {
            at += 1;
            let of_own = matches!(note, Note::Read { version: ReadVersion::Own, .. });
            at <= kept || !(of_own || matches!(note, Note::Write { .. } | Note::Entry { .. }))
        });
    }

    pub(crate) fn note(&mut self, action: Action<'_>) {
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
        let start = self.keys.len() as u32;
        self.keys.extend_from_slice(key);
        let end = u32::try_from(self.keys.len()).expect("an observed transaction has less than 4 GiB of keys");
        Span { start, end }
    }
}

impl Note {
    fn action(self, keys: &[u8]) -> Action<'_> {
        let bytes = |span: Span| &keys[span.start as usize..span.end as usize];
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
