//! Reads the changes of committed transactions from the durable log of an open database.
//!
//! The log has what is needed where the database logs keys ([`Options::log_keys`](crate::Options::log_keys)): updates
//! and deletes name rows, and which key a row had at that time is in no file that is sure to be there.
//!
//! Invariants
//! 1. *Commit order.* Transactions are returned in the order of their commit blocks, which is the order of their stamps
//!    (ERMIA 3.3).
//! 2. *Whole.* A transaction is returned with all its changes, those in overflow blocks first; these blocks are found
//!    through its commit block, wherever reading began. What has no commit block is never returned.
//! 3. *Position.* Everything that was returned committed below the position, everything else commits at or above it.

use std::{collections::VecDeque, ops::ControlFlow, sync::Arc, time::Duration};

use bytes::{Buf as _, Bytes, BytesMut};

use super::blocks::{DurableBlocks, LogFiles, Reach};
use crate::{
    catalog::{CATALOG, CatalogRow, TableEntry},
    durable::{
        replay::{chained, descriptors},
        store::Store,
    },
    error::{Error, Result},
    handle::Table,
    ids::{RowId, Stamp, TableId},
    log::{
        Log,
        block::{BlockKind, Header},
        record::{Payload, Record, Records},
    },
    types::{Key, PAYLOAD_ALIGN, Value},
};

/// Bytes of log that are read at a time.
const AHEAD_BYTES: usize = 1 << 20;

/// Returns the name of a table, unless it was dropped.
pub(crate) type NameOf<'db> = Box<dyn Fn(TableId) -> Option<Arc<str>> + Send + Sync + 'db>;

/// Reads the changes of committed transactions, in the order of their commits. See
/// [`Database::changes`](crate::Database::changes).
pub struct ChangeReader<'db> {
    blocks: DurableBlocks<'db>,
    /// Commit blocks that were read, and whose transactions are returned next.
    ahead: VecDeque<(Header, Vec<u8>)>,
    position: u64,
    name_of: NameOf<'db>,
}

/// A committed transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CommittedTransaction {
    /// Its place in the order of commits.
    pub stamp: Stamp,
    /// What it changed; at least one thing.
    pub changes: Vec<Change>,
}

/// A change of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Change {
    /// A row was written or deleted.
    Row(RowChange),
    /// A table was created.
    TableCreated {
        /// The table's number, which no other table ever gets.
        table: TableId,
        /// The table's name.
        name: String,
    },
    /// A table was renamed.
    TableRenamed {
        /// The table's number.
        table: TableId,
        /// The table's new name.
        name: String,
    },
    /// A table was dropped with its rows. A transaction that had written to the table may commit afterwards.
    TableDropped {
        /// The table's number.
        table: TableId,
        /// The table's last name.
        name: String,
    },
}

/// A change of a row: the difference that its transaction made to it, however often it wrote the row.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RowChange {
    /// The table's number.
    pub table: TableId,
    /// The table's name at the time of reading; `None`: the table has been dropped.
    pub table_name: Option<Arc<str>>,
    /// The encoded key. It shares its memory with other keys and values of the transaction: copy what is kept for long.
    pub key: Bytes,
    /// What became of the row.
    pub write: RowWrite,
}

/// What a transaction did to a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RowWrite {
    /// The row was not there before the transaction, and has this encoded value.
    Insert(Bytes),
    /// The row has this encoded value instead of another one.
    Update(Bytes),
    /// The row was there before the transaction, and is not there any more.
    Delete,
}

impl RowWrite {
    /// Returns the new encoded value; `None`: the row was deleted.
    pub fn value(&self) -> Option<&[u8]> {
        match self {
            Self::Insert(value) | Self::Update(value) => Some(value),
            Self::Delete => None,
        }
    }
}

impl RowChange {
    /// Decodes the key and the new value (`None`: deleted), if the change is one of `table`, a table of the same
    /// database.
    pub fn of<K: Key, V: Value>(&self, table: &Table<K, V>) -> Result<Option<(K, Option<V>)>> {
        if table.id() != self.table {
            return Ok(None);
        }
        let value = self.write.value().map(|value| table.framing().decode(value)).transpose()?;
        Ok(Some((K::decode(&mut &*self.key)?, value)))
    }
}

impl<'db> ChangeReader<'db> {
    /// Reads from `from` on, or from the durable end of the log on.
    pub(crate) fn new(log: &'db Log, store: &'db Store, from: Option<u64>, name_of: NameOf<'db>) -> Result<Self> {
        let blocks = DurableBlocks::new(log, store, from, Reach::Settled)?;
        Ok(Self { position: blocks.position(), blocks, ahead: VecDeque::new(), name_of })
    }

    /// Returns the position: the transactions that were returned committed below it, all others commit at or above it.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Waits until there is more to read, at most for `timeout`; returns whether there is, which may turn out to be of
    /// no transaction.
    pub fn wait(&self, timeout: Duration) -> Result<bool> {
        if self.ahead.is_empty() { self.blocks.wait(timeout) } else { Ok(true) }
    }

    /// Returns the next transaction that changed a table; `None`: everything that is durable has been read. The
    /// transaction is in memory as a whole.
    ///
    /// Fails with [`Error::LogRemoved`] if the reader was left behind, and with [`Error::Options`] at a transaction
    /// that was logged without keys; the position stays.
    #[expect(clippy::should_implement_trait, reason = "the end is not one: more may follow")]
    pub fn next(&mut self) -> Result<Option<CommittedTransaction>> {
        loop {
            while let Some((header, block)) = self.ahead.front() {
                let changes = self.changes(header, block)?;
                let (stamp, end) = (header.lsn.stamp(), header.end());
                self.position = end;
                self.ahead.pop_front();
                if !changes.is_empty() {
                    return Ok(Some(CommittedTransaction { stamp, changes }));
                }
            }
            let read = self.read_ahead();
            if self.ahead.is_empty() {
                self.position = self.blocks.position();
            }
            if !read? {
                return Ok(None);
            }
        }
    }

    /// Reads commit blocks; returns whether there was anything to read.
    fn read_ahead(&mut self) -> Result<bool> {
        let (ahead, mut taken) = (&mut self.ahead, 0);
        let read = self.blocks.read(&mut |header, block| {
            if header.kind == BlockKind::Commit {
                ahead.push_back((*header, block.to_vec()));
            }
            taken += block.len();
            Ok(if taken >= AHEAD_BYTES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        Ok(read?.is_some())
    }

    /// Returns the changes of the transaction with this commit block.
    fn changes(&self, header: &Header, block: &[u8]) -> Result<Vec<Change>> {
        Ok(Rows::of_transaction(self.blocks.files(), header, block)?.changes(&self.name_of))
    }
}

/// The rows that a transaction changed.
pub(crate) struct Rows {
    stamp: Stamp,
    /// In the order in which the transaction wrote them first.
    written: Vec<(TableId, Bytes, RowWrite)>,
    catalog: CatalogRows,
}

impl Rows {
    /// Reads what the transaction with this commit block has changed.
    pub(super) fn of_transaction(files: LogFiles<'_>, header: &Header, block: &[u8]) -> Result<Self> {
        let mut overflow: Vec<(Header, Vec<u8>)> = Vec::new();
        let mut before = chained(block, header);
        while let Some(lsn) = before {
            let later = overflow.last().map_or(header, |(later, _)| later);
            let part = files.overflow(lsn, later)?;
            before = chained(&part.1, &part.0);
            overflow.push(part);
        }
        let mut rows = Self { stamp: header.lsn.stamp(), written: Vec::new(), catalog: CatalogRows::default() };
        for (header, block) in overflow.into_iter().rev() {
            rows.read(files, &header, &block)?;
        }
        rows.read(files, header, block)?;
        Ok(rows)
    }

    /// Returns the bytes of keys and values.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = |(_, key, write): &(TableId, Bytes, RowWrite)| key.len() + write.value().map_or(0, <[u8]>::len);
        self.written.iter().map(bytes).sum::<usize>() as u64
    }

    /// Returns the descriptions of tables that the transaction wrote.
    pub(crate) fn tables(&self) -> Result<Vec<TableEntry>> {
        let mut tables = Vec::new();
        for row in self.catalog.present() {
            if let CatalogRow::Table(entry) = CatalogRow::decode(row)? {
                tables.push(entry);
            }
        }
        Ok(tables)
    }

    /// Returns the transaction; `name_of` returns the name that a table has now.
    pub(crate) fn transaction(self, name_of: impl Fn(TableId) -> Option<Arc<str>>) -> CommittedTransaction {
        CommittedTransaction { stamp: self.stamp, changes: self.changes(name_of) }
    }

    /// Returns the changes, with the names of their tables.
    fn changes(self, name_of: impl Fn(TableId) -> Option<Arc<str>>) -> Vec<Change> {
        let mut changes = self.catalog.changes();
        let mut last: Option<(TableId, Option<Arc<str>>)> = None;
        for (table, key, write) in self.written {
            let known = last.take().filter(|(last, _)| *last == table);
            let (_, table_name) = last.insert(known.unwrap_or_else(|| (table, name_of(table))));
            changes.push(Change::Row(RowChange { table, table_name: table_name.clone(), key, write }));
        }
        changes
    }

    /// Reads the records of a block.
    fn read(&mut self, files: LogFiles<'_>, header: &Header, block: &[u8]) -> Result<()> {
        let damaged = |what: &str| files.damaged(header.lsn, what);
        let payloads = &block[header.payload_at() as usize..];
        let (mut at, mut key) = (0, None);
        let descriptors = descriptors(block, header);
        // A record with a value takes four bytes here, at least.
        let mut memory = BytesMut::with_capacity(block.len() + descriptors.len() / 4 * PAYLOAD_ALIGN);
        for record in Records::new(descriptors) {
            let record = record.ok_or_else(|| damaged("a record of an unknown kind: written by a newer version?"))?;
            let Payload { length, diverted } = record.payload().unwrap_or(Payload::here(0));
            let bytes = payloads.get(at..at + length).ok_or_else(|| damaged("a record is longer than its block"))?;
            at += length;
            let value = |owner, memory: &mut BytesMut| match diverted {
                true => files.large_value(header, owner, bytes).map(|(_, value)| value.into()),
                false => Ok(aligned(bytes, memory)),
            };
            match record {
                Record::Key { table, row, key: of_row } => key = Some((table, row, of_row)),
                Record::Insert { table: CATALOG, row, .. } => {
                    self.catalog.inserted.push(value((CATALOG, row), &mut memory)?)
                }
                // Another description of the table, or another dropped one.
                Record::Update { table: CATALOG, row, .. } => {
                    key = None;
                    self.catalog.updated.push(value((CATALOG, row), &mut memory)?);
                }
                Record::Insert { table, row, key, .. } => {
                    let (key, value) = (copied(key, &mut memory), value((table, row), &mut memory)?);
                    self.written.push((table, key, RowWrite::Insert(value)));
                }
                Record::Update { table, row, .. } => {
                    let key = copied(self.key_of(&mut key, table, row)?, &mut memory);
                    self.written.push((table, key, RowWrite::Update(value((table, row), &mut memory)?)));
                }
                // The row was not there before the transaction.
                Record::Delete { .. } if key.is_none() && header.has_keys => {}
                Record::Delete { table, row } => match self.key_of(&mut key, table, row)? {
                    front if table == CATALOG => self.catalog.removed.extend(TableEntry::number_and_name(front)),
                    key => self.written.push((table, copied(key, &mut memory), RowWrite::Delete)),
                },
                Record::Entry { .. } | Record::Chain { .. } | Record::Unlogged => {}
                Record::Moved { .. } => return Err(damaged("a record of the cold store in the log")),
            }
        }
        Ok(())
    }

    /// Takes the key of a row, which was in front of the row's record.
    fn key_of<'b>(&self, key: &mut Option<(TableId, RowId, &'b [u8])>, table: TableId, row: RowId) -> Result<&'b [u8]> {
        let key = key.take().filter(|(of_table, of_row, _)| (*of_table, *of_row) == (table, row));
        key.map(|(.., key)| key).ok_or_else(|| {
            Error::Options(format!(
                "the transaction that committed at {} was logged without keys, because the database was not opened \
                 with Options::log_keys at that time: begin again with the rows, at a new position",
                self.stamp
            ))
        })
    }
}

/// Returns a copy of some bytes, in memory that it shares.
fn copied(bytes: &[u8], memory: &mut BytesMut) -> Bytes {
    memory.extend_from_slice(bytes);
    memory.split().freeze()
}

/// Returns such a copy at an address at which a value may be.
fn aligned(bytes: &[u8], memory: &mut BytesMut) -> Bytes {
    memory.reserve(bytes.len() + PAYLOAD_ALIGN);
    let before = memory.as_ptr().align_offset(PAYLOAD_ALIGN);
    memory.resize(before, 0);
    memory.advance(before);
    copied(bytes, memory)
}

/// The tables whose rows a transaction took out of the catalog, and the rows that it put in, or gave another content.
#[derive(Default)]
pub(super) struct CatalogRows {
    removed: Vec<(TableId, String)>,
    inserted: Vec<Bytes>,
    updated: Vec<Bytes>,
}

impl CatalogRows {
    /// Returns the contents of the rows that are there now.
    pub(super) fn present(&self) -> impl Iterator<Item = &[u8]> {
        self.inserted.iter().chain(&self.updated).map(|row| &**row)
    }

    /// Returns the changes of tables: an entry that has another name now is that of a renamed table.
    pub(super) fn changes(&self) -> Vec<Change> {
        let removed = &self.removed;
        let inserted: Vec<_> = self.inserted.iter().filter_map(|row| TableEntry::number_and_name(row)).collect();
        let has = |entries: &[(TableId, String)], table| entries.iter().any(|(entry, _)| *entry == table);
        let dropped = removed.iter().filter(|(table, _)| !has(&inserted, *table));
        let dropped = dropped.map(|(table, name)| Change::TableDropped { table: *table, name: name.clone() });
        let named = inserted.iter().map(|(table, name)| match (*table, name.clone()) {
            (table, name) if has(removed, table) => Change::TableRenamed { table, name },
            (table, name) => Change::TableCreated { table, name },
        });
        dropped.chain(named).collect()
    }
}
