//! The record of a commit in the log.
//!
//! The record is composed and room is made for it before any record of a row is locked: no thread waits for the device
//! while it holds a lock. When the TID is chosen, and the transaction may commit, the record is appended before the
//! values are stored; from the announcement until then the worker's slot holds the epoch back
//! (`log::parallel::worker_slots`).

use super::{engine::Engine, pending::Write, running::Operation, worker::State};
use crate::{
    epoch::Guard,
    error::{Error, Result},
    log::parallel::{
        ParallelLog,
        record::{Draft, Entries, Row, put_entry},
        worker_slots::WorkerSlot,
    },
    rows::in_place::{CommitTid, Outgrown},
    scheme::in_place::InPlace,
    txn::write_set::ReadWriteSets,
    types::KeyBuffer,
};
use std::sync::Arc;

/// A worker's end of the log.
pub(crate) struct Journal {
    slot: Arc<WorkerSlot>,
    draft: Draft,
    /// Buffer for the entries of one row.
    entries: Vec<u8>,
}

impl Journal {
    pub(crate) fn new(log: &ParallelLog) -> Self {
        Self { slot: log.join(), draft: Draft::default(), entries: Vec::new() }
    }
}

impl<P: InPlace> Operation<'_, P> {
    /// Composes the record, makes room for it, and announces the commit.
    pub(super) fn write_draft(&mut self) -> Result<()> {
        let (engine, nodes) = (self.engine, &self.nodes);
        let State { sets, journal, .. } = &mut *self.state;
        let (Some(log), Some(journal)) = (&engine.log, journal) else { return Ok(()) };
        let Journal { slot, draft, entries } = journal;
        draft.begin();
        each_row(engine, sets, nodes, entries, |row| draft.add(row))?;
        log.room.check(sets.writes.iter().any(|write| write.value.is_some() && !write.site.table.is_unlogged()))?;
        let bytes = draft.seal().ok_or(Error::Limit("2 GiB of values and keys in one transaction"))?;
        log.make_room(slot, bytes)?;
        log.announce(slot);
        Ok(())
    }

    /// Bytes that the transaction's writes will take in the log.
    pub(super) fn log_bytes(&self) -> Result<u64> {
        if self.state.journal.is_none() {
            return Ok(0);
        }
        let (mut bytes, mut row_bytes) = (0, Vec::new());
        each_row(self.engine, &self.state.sets, &self.nodes, &mut Vec::new(), |row| {
            row_bytes.clear();
            row.write(&mut row_bytes);
            bytes += row_bytes.len() as u64;
        })?;
        Ok(bytes)
    }

    /// Appends the record of a transaction that commits with this TID.
    pub(super) fn append_draft(&mut self, tid: CommitTid) {
        if let Some(Journal { slot, draft, .. }) = &self.state.journal {
            // Empty: everything that it has written is in memory only.
            if !draft.is_empty() {
                slot.append(tid.epoch(), |buffer| draft.write(tid.stamp().as_u64(), buffer));
            }
            slot.withdraw();
        }
    }

    /// Withdraws the announcement of a transaction that does not commit.
    pub(super) fn give_up_draft(&self) {
        self.state.journal.iter().for_each(|journal| journal.slot.withdraw());
    }

    /// Notes that an index entry is about to be removed that belonged to a committed row as of `tid`.
    pub(super) fn entry_leaves(&self, tid: CommitTid) {
        self.engine.log.iter().for_each(|log| log.entry_leaves(tid.epoch()));
    }

    /// Returns the epoch that has to be durable before the transaction's reads are acknowledged.
    pub(super) fn read_from(&self) -> u64 {
        let gaps = self.engine.log.as_ref().filter(|_| self.state.met_gap).map_or(0, |log| log.gap_epoch());
        self.state.last_tid.epoch().max(gaps)
    }
}

/// Calls `each` with the log's form of every row that was written; `entries` is a buffer for those of a row.
fn each_row<P: InPlace>(
    engine: &Engine<P>,
    sets: &ReadWriteSets<Write<P::Control>, Outgrown>,
    nodes: &Guard<'_>,
    entries: &mut Vec<u8>,
    mut each: impl FnMut(&Row<'_>),
) -> Result<()> {
    for write in &sets.writes {
        let (table, key) = (engine.tables.get(write.site.table), sets.key(write.site));
        if table.id.is_unlogged() {
            continue;
        }
        let value = write.value.as_ref().map(|value| value.bytes(nodes));
        entries.clear();
        if let Some(value) = value {
            let mut entry = KeyBuffer::new();
            for (index, secondary) in table.finished() {
                let length = secondary.entry_of(key, value, &mut entry)?;
                put_entry(entries, index.0, &entry[..length]);
            }
        }
        each(&Row { table: table.id, key, value, entries: Entries(entries) });
    }
    Ok(())
}
