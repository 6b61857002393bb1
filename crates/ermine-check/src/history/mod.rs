//! Histories: transactions with their beginnings, their ends, and the operations in between.
//!
//! A history is read-only once built ([`Builder`]), and its transactions are in the order of commits, aborted ones
//! last. `T7` in a report is the seventh of them. Operations are packed in byte buffers ([`packed`]): a history of
//! thirty million operations has to fit into memory beside the graph that is drawn from it.

mod builder;
mod context;
pub mod packed;

use std::fmt;

pub use builder::Builder;
pub use context::{Moment, Order, Process, TransactionContext};
pub use ermine::observer::Digest;

use self::packed::{Operations, Place, Segments};

/// A place in the order of commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub u64);

impl Stamp {
    /// Below every commit: the state before the first transaction.
    pub const ZERO: Self = Self(0);
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A table, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Table(pub u32);

/// An index of a table: 0 is the primary one, whose entries are the keys of the rows; the others are secondary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Index {
    /// The table.
    pub table: Table,
    /// The number of the index in its table.
    pub ordinal: u16,
}

impl Index {
    /// The index of a table's rows.
    pub fn primary(table: Table) -> Self {
        Self { table, ordinal: 0 }
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It committed at this stamp. Transactions without writes may share one.
    Committed(Stamp),
    /// It had no effect.
    Aborted,
}

/// The version of a row that a transaction saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadVersion {
    /// The version that was committed at this stamp; [`Stamp::ZERO`]: the row did not exist yet.
    At(Stamp),
    /// A version that it wrote itself.
    Own,
    /// The state that commits strictly below this stamp had left: no row.
    Missing(Stamp),
}

/// One operation of a transaction; the same as [`ermine::observer::Action`], in numbers that any caller can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// It read a row.
    Read {
        /// The table.
        table: Table,
        /// The primary key.
        key: &'a [u8],
        /// The version that it saw.
        version: ReadVersion,
        /// The digest of the value; `None`: no row.
        value: Option<Digest>,
    },
    /// It scanned a range of an index. The reads of the rows found precede this operation.
    Range {
        /// The index.
        index: Index,
        /// The first entry inside.
        lower: &'a [u8],
        /// The first entry outside; `None`: the end.
        upper: Option<&'a [u8]>,
        /// Entries that were born at or above this stamp were missed, unless they are among the reads.
        at: Stamp,
    },
    /// It wrote a row; a later write of the same row replaces this one.
    Write {
        /// The table.
        table: Table,
        /// The primary key.
        key: &'a [u8],
        /// The digest of the value; `None`: it deleted the row.
        value: Option<Digest>,
    },
    /// The preceding write added an entry of its row to a secondary index, or removed it.
    Entry {
        /// The index.
        index: Index,
        /// Secondary key and primary key.
        entry: &'a [u8],
        /// Whether the row has it now.
        present: bool,
    },
}

/// A transaction's beginning and end, and where its operations lie.
#[derive(Clone, Copy, Debug)]
struct Head {
    begin: Stamp,
    outcome: Outcome,
    writes: bool,
    place: Place,
    context: TransactionContext,
}

/// A finished history.
#[derive(Clone, Debug, Default)]
pub struct History {
    heads: Vec<Head>,
    committed: usize,
    segments: Segments,
    tables: Vec<(Table, String)>,
    begin_min: Option<Stamp>,
    operations: u64,
    sample: u32,
}

/// One transaction of a history.
#[derive(Clone, Copy, Debug)]
pub struct Transaction<'h> {
    head: Head,
    segments: &'h Segments,
}

impl History {
    /// Number of transactions.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether the history has no transactions.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Number of committed transactions: they are the first ones.
    pub fn committed(&self) -> usize {
        self.committed
    }

    /// Number of operations of all transactions.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// The transactions in the order of commits, then the aborted ones.
    pub fn transactions(&self) -> impl ExactSizeIterator<Item = Transaction<'_>> {
        (0..self.len()).map(|at| self.transaction(at))
    }

    /// The transaction with the number `at`, from 0.
    pub fn transaction(&self, at: usize) -> Transaction<'_> {
        Transaction { head: self.heads[at], segments: &self.segments }
    }

    /// No transaction began below this stamp. Versions committed below it existed before the history.
    pub fn begin_min(&self) -> Stamp {
        self.begin_min.unwrap_or_default()
    }

    /// One row in this many was recorded.
    pub fn sample(&self) -> u32 {
        self.sample.max(1)
    }

    /// Sets the name of a table, for reports.
    pub fn name_table(&mut self, table: Table, name: impl Into<String>) {
        match self.tables.iter_mut().find(|(known, _)| *known == table) {
            Some((_, known)) => *known = name.into(),
            None => self.tables.push((table, name.into())),
        }
    }

    /// The name of a table, if it has one.
    pub fn table_name(&self, table: Table) -> Option<&str> {
        self.tables.iter().find(|(known, _)| *known == table).map(|(_, name)| &**name)
    }

    /// All tables that have names.
    pub fn table_names(&self) -> impl Iterator<Item = (Table, &str)> {
        self.tables.iter().map(|(table, name)| (*table, &**name))
    }

    /// Bytes of memory in use.
    pub fn bytes(&self) -> u64 {
        (self.heads.capacity() * size_of::<Head>()) as u64 + self.segments.bytes()
    }
}

impl<'h> Transaction<'h> {
    /// Its begin stamp: versions committed strictly below are in its snapshot, if it has one.
    pub fn begin(&self) -> Stamp {
        self.head.begin
    }

    /// How it ended.
    pub fn outcome(&self) -> Outcome {
        self.head.outcome
    }

    /// The moments when it ran, its process, and what it was promised.
    pub fn context(&self) -> TransactionContext {
        self.head.context
    }

    /// Its commit stamp.
    pub fn stamp(&self) -> Option<Stamp> {
        match self.head.outcome {
            Outcome::Committed(stamp) => Some(stamp),
            Outcome::Aborted => None,
        }
    }

    /// Its operations, in order.
    pub fn operations(&self) -> Operations<'h> {
        self.segments.operations(self.head.place, self.head.begin)
    }
}
