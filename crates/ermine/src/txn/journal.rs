//! The log records of a commit: a record for each row that it wrote, in the order of its writes, then its index
//! entries.
//!
//! The number of a row's record among them is its version's position in the write set. So a version in memory
//! determines its place in the log: the block of its commit stamp, and that number in it. So a write to a table that is
//! not logged has a record without content, unless it is the last.

use std::{thread, time::Duration};

use super::{
    commit_order::{Journal, Write},
    running::Operation,
    write_set::{ChainSets, NeededEntry},
};
use crate::{
    catalog::{CATALOG, TableEntry},
    clock::LogOffset,
    durable::store::storage,
    epoch::Guard,
    error::{Error, Result},
    ids::Stamp,
    log::{
        Log, Position,
        record::{BlobRef, Payload, Record},
    },
    rows::chain::{CertifierStamps, Kind},
    scheme::Scheme,
    worker::State,
};

/// A worker's position in the log, at commit.
pub(super) struct Logged<'a> {
    pub(super) log: &'a Log,
    pub(super) position: &'a mut Position,
}

impl Journal for Logged<'_> {
    fn claim(&mut self, _: &LogOffset) -> Stamp {
        self.position.claim(self.log)
    }

    fn fill(&mut self) {
        self.position.fill(self.log);
    }

    fn skip(&mut self) {
        self.position.skip(self.log);
    }
}

impl<S: Scheme> Operation<'_, S> {
    /// Writes the records of the transaction, before it takes its stamp; spills the records that do not fit into one
    /// block.
    pub(super) fn write_draft(&mut self, log: &Log) -> Result<()> {
        log.check()?;
        let is_prepared = self.state.prepared_as.is_some();
        if !is_prepared {
            let sets = &self.state.sets;
            log.room.check(sets.log_bytes > 0 && sets.writes.iter().any(|write| write.new.kind() == Kind::Live))?;
        }
        let mut written = self.write_blocks(log);
        // The commit cannot be refused any more: it waits until there is room.
        while is_prepared && matches!(written, Err(Error::DiskFull(_))) {
            self.settle_blobs(false);
            if let Some(position) = &mut self.state.position {
                position.skip(log);
            }
            thread::sleep(Duration::from_millis(20));
            log.check()?;
            written = self.write_blocks(log);
        }
        if written.is_err()
            && let Some(position) = &mut self.state.position
        {
            position.skip(log);
        }
        written
    }

    fn write_blocks(&mut self, log: &Log) -> Result<()> {
        let State { sets, position, .. } = &mut *self.state;
        let (Some(position), Some(store)) = (position, &self.engine.store) else { return Ok(()) };
        position.draft.begin(self.engine.options.log_keys);
        let mut unlogged = 0;
        for write in &sets.writes {
            if write.site.table.is_unlogged() {
                if sets.log_bytes > 0 {
                    self.engine.table(write.site.table).set_beside_logged();
                }
                unlogged += 1;
                continue;
            }
            for _ in 0..std::mem::take(&mut unlogged) {
                position.draft.add(&Record::Unlogged, &[]);
                if position.draft.is_full() {
                    position.spill(log)?;
                }
            }
            let (table, row) = (write.site.table, write.row);
            let mut payload = write.new.payload(&self.entered.versions);
            let reference;
            let mut value = Payload::here(payload.len());
            if self.engine.options.diverts(payload.len()) {
                let blob = store.blobs.write((table, row), payload).map_err(storage)?;
                position.blobs.push(blob.blob);
                reference = blob.to_bytes();
                (payload, value) = (&reference, Payload { length: reference.len(), diverted: true });
            }
            if self.engine.options.log_keys
                && let Some(key) = key_of(sets, write, &self.entered.versions)
            {
                position.draft.add(&key, &[]);
            }
            position.draft.add(&record_of(sets, write, value), payload);
            if position.draft.is_full() {
                position.spill(log)?;
            }
        }
        for needed in sets.entries.iter().filter(|needed| needed.is_logged) {
            position.draft.add(&entry_of(sets, needed), &[]);
            if position.draft.is_full() {
                position.spill(log)?;
            }
        }
        position.seal(log)
    }

    /// Returns the bytes that the writes will take in the log.
    pub(super) fn log_bytes(&self) -> u64 {
        if self.engine.log.is_none() {
            return 0;
        }
        let State { sets, .. } = &*self.state;
        let (mut descriptor, mut bytes) = (Vec::new(), 0);
        let mut add = |record: &Record<'_>| {
            descriptor.clear();
            record.write(&mut descriptor);
            bytes += descriptor.len() + record.payload().map_or(0, |payload| payload.length);
        };
        for write in sets.writes.iter().filter(|write| !write.site.table.is_unlogged()) {
            let length = write.new.payload(&self.entered.versions).len();
            let diverted = self.engine.options.diverts(length);
            if self.engine.options.log_keys
                && let Some(key) = key_of(sets, write, &self.entered.versions)
            {
                add(&key);
            }
            let length = if diverted { BlobRef::BYTES } else { length };
            add(&record_of(sets, write, Payload { length, diverted }));
        }
        sets.entries.iter().filter(|needed| needed.is_logged).for_each(|needed| add(&entry_of(sets, needed)));
        bytes as u64
    }

    /// Settles the blobs of the transaction that has ended: they are kept if it committed, and garbage otherwise.
    pub(super) fn settle_blobs(&mut self, committed: bool) {
        if let (Some(position), Some(store)) = (&mut self.state.position, &self.engine.store)
            && !position.blobs.is_empty()
        {
            store.blobs.settle(&position.blobs, committed);
            position.blobs.clear();
        }
    }
}

/// Returns the record with the key of a row that was there before the transaction.
fn key_of<'f, H: CertifierStamps>(
    sets: &'f ChainSets<H>,
    write: &Write<H>,
    entered: &'f Guard<'_>,
) -> Option<Record<'f>> {
    let (table, row) = (write.site.table, write.row);
    let old = write.old.filter(|old| old.kind() == Kind::Live)?;
    let key = sets.key(write.site);
    let key = if table == CATALOG { TableEntry::front(old.payload(entered), key) } else { key };
    Some(Record::Key { table, row, key })
}

/// Returns the record of a write whose value is logged as `value`.
fn record_of<'f, H: CertifierStamps>(sets: &'f ChainSets<H>, write: &Write<H>, value: Payload) -> Record<'f> {
    let (table, row) = (write.site.table, write.row);
    let had_value = write.old.is_some_and(|old| old.kind() == Kind::Live);
    match (write.new.kind(), had_value) {
        (Kind::Live, true) => Record::Update { table, row, value },
        (Kind::Live, false) => Record::Insert { table, row, key: sets.key(write.site), value },
        (Kind::Tombstone | Kind::Absent, _) => Record::Delete { table, row },
    }
}

/// Returns the record of an index entry.
fn entry_of<'f, H>(sets: &'f ChainSets<H>, needed: &NeededEntry) -> Record<'f> {
    let (table, row, index) = (needed.entry.table, needed.row, needed.index.0);
    Record::Entry { table, row, index, entry: sets.key(needed.entry) }
}
