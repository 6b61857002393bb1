//! What happened: transactions with their beginnings, their ends, and what they did in between.
//!
//! A history is read-only once built ([`Builder`]), and its transactions are in the order of commits, aborted ones
//! behind. `T7` in a report is the seventh of them. Operations lie packed in byte buffers ([`packed`]): a history of
//! thirty million operations has to fit into memory beside the graph that is drawn from it.

mod builder;
pub mod packed;
mod terms;

use std::fmt;

pub use builder::Builder;
pub use ermine::observer::Digest;
pub use terms::{Moment, Order, Process, Terms};

use self::packed::{Operations, Place, Segments};

/// A place in the order of commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub u64);

impl Stamp {
    /// Below every commit: what was there before the first transaction.
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
    /// Which of its indexes.
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
    /// Nothing of it happened.
    Aborted,
}

/// Which version of a row a transaction saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadVersion {
    /// The one that was committed at this stamp; [`Stamp::ZERO`]: the row was not there yet.
    At(Stamp),
    /// One of its own.
    Own,
    /// The state that commits strictly below this stamp had left: no row.
    Missing(Stamp),
}

/// One thing that a transaction did; the same as [`ermine::observer::Action`], in numbers that anybody can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// It read a row.
    Read {
        /// The table.
        table: Table,
        /// The primary key.
        key: &'a [u8],
        /// What it saw.
        version: ReadVersion,
        /// The digest of the value; `None`: no row.
        value: Option<Digest>,
    },
    /// It looked through a range of an index. The reads of what it found precede this.
    Range {
        /// The index.
        index: Index,
        /// First entry inside.
        lower: &'a [u8],
        /// First entry outside; `None`: the end.
        upper: Option<&'a [u8]>,
        /// Entries that came at or above this were missed, unless they are among the reads.
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
    /// The write before this gave its row an entry of a secondary index, or took it away.
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
    terms: Terms,
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
    /// How many transactions it has.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// How many of them committed: they are the first ones.
    pub fn committed(&self) -> usize {
        self.committed
    }

    /// How many operations they have together.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// The transactions in the order of commits, then the aborted ones.
    pub fn transactions(&self) -> impl ExactSizeIterator<Item = Transaction<'_>> {
        (0..self.len()).map(|at| self.transaction(at))
    }

    /// One of them.
    pub fn transaction(&self, at: usize) -> Transaction<'_> {
        Transaction { head: self.heads[at], segments: &self.segments }
    }

    /// No transaction began below this. What was committed below was there before.
    pub fn begin_min(&self) -> Stamp {
        self.begin_min.unwrap_or_default()
    }

    /// One row in so many was recorded.
    pub fn sample(&self) -> u32 {
        self.sample.max(1)
    }

    /// Gives a table its name, for reports.
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

    /// Memory it takes.
    pub fn bytes(&self) -> u64 {
        (self.heads.capacity() * size_of::<Head>()) as u64 + self.segments.bytes()
    }
}

impl<'h> Transaction<'h> {
    /// What committed strictly below is in its snapshot, if it has one.
    pub fn begin(&self) -> Stamp {
        self.head.begin
    }

    /// How it ended.
    pub fn outcome(&self) -> Outcome {
        self.head.outcome
    }

    /// When it ran, in which process, and what it was promised.
    pub fn terms(&self) -> Terms {
        self.head.terms
    }

    /// Its commit stamp.
    pub fn stamp(&self) -> Option<Stamp> {
        match self.head.outcome {
            Outcome::Committed(stamp) => Some(stamp),
            Outcome::Aborted => None,
        }
    }

    /// What it did, in order.
    pub fn operations(&self) -> Operations<'h> {
        self.segments.operations(self.head.place, self.head.begin)
    }
}
