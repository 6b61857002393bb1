//! Rolling a transaction back to a savepoint, and moving it on to another snapshot.
//!
//! A rollback removes the writes since the savepoint from their rows while the transaction runs on. Other transactions
//! see the same as after an abort: a void version in front, then the version behind it. The transaction itself may rely
//! on the facts that those writes revealed: that a row existed, or did not. As long as the writes were in place, no
//! other transaction could change these facts; so before a write is undone, the version that it overwrote is tracked as
//! a read, and for a key that did not exist, its leaf is added to the leaf set while the key is still in it. A version
//! that is put back gets its entries again: while it was out of its row, garbage collection treated it as removed.

use super::{
    commit_order::Write,
    running::{Operation, Txn},
    visible::{Standing, standing},
    write_set::NeededEntry,
};
use crate::{
    access::OwnWrite,
    error::{Doom, Result},
    ids::{Stamp, Tid},
    options::Isolation,
    reclaim::remove_unused_entry,
    rows::chain::{Kind, Origin},
    savepoints::{Mark, Savepoint},
    scheme::{Certifier, Scheme},
    types::KeyBuffer,
    worker::State,
};

impl<S: Scheme> Txn<'_, S> {
    /// Marks a point to roll back to.
    pub(crate) fn savepoint(&self) -> Result<Savepoint> {
        let mut operation = self.operation()?;
        let state = &mut *operation.state;
        let trace = state.trace.as_ref().map_or(0, |trace| trace.count());
        let (writes, entries) = (state.sets.writes.len(), state.sets.entries.len());
        Ok(state.savepoints.add(Mark { writes, entries, log_bytes: state.sets.log_bytes, trace }))
    }

    /// Undoes the writes since the savepoint. Also for a transaction that asked for less than its scheme promises and
    /// has lost a conflict since.
    pub(crate) fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.worker().changed_all();
        let mut operation = self.last_operation(self.enter());
        match operation.state.savepoints.go_back(savepoint) {
            Ok(mark) => {
                operation.state.doomed = None;
                operation.undo_since(mark).map_err(|error| operation.fail_write(error))
            }
            // If the transaction is permanently lost, that error takes precedence.
            Err(gone) => Err(operation.state.doomed.as_ref().map_or(gone, Doom::error)),
        }
    }

    /// Forgets a savepoint and those after it.
    pub(crate) fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        self.operation()?.state.savepoints.release(savepoint)
    }

    /// Returns the number by which other transactions know this one, once it has written.
    pub(crate) fn tid(&self) -> Result<Option<Tid>> {
        Ok(self.operation()?.state.tid)
    }

    /// Returns the position of the snapshot in the log.
    pub(crate) fn position(&self) -> Result<u64> {
        Ok(self.operation()?.state.begin.0)
    }

    /// Shows every row that the transaction has written, with its value.
    pub(crate) fn writes(&self, each: &mut OwnWrite<'_>) -> Result<()> {
        let operation = self.operation()?;
        for write in &operation.state.sets.writes {
            let key = operation.state.sets.key(write.site);
            let value = (write.new.kind() == Kind::Live).then(|| write.new.payload(&operation.entered.versions));
            each(&self.engine.table(write.site.table).name(), key, value)?;
        }
        Ok(())
    }

    /// Takes a new snapshot and goes on with it, if the transaction asked for less than its scheme promises and has no
    /// certified reads: scanned ranges are examined again at commit as of the snapshot.
    pub(crate) fn renew_snapshot(&mut self) -> Result<()> {
        let mut operation = self.operation()?;
        if self.isolation == Isolation::Snapshot && !operation.state.certifies_some {
            let begin = operation.worker.slot.take(&self.engine.shared.clock, operation.worker.needs(), self.pinned);
            operation.state.begin = begin;
            // RowIds of rows deleted since may have been reused.
            operation.state.sets.forget_found();
        }
        Ok(())
    }

    /// Tracks reads from now on although the transaction asked for less, or stops doing so; returns whether the scheme
    /// certifies reads.
    pub(crate) fn certify_reads(&self, wanted: bool) -> Result<bool> {
        let mut operation = self.operation()?;
        let state = &mut *operation.state;
        if self.read_only {
            return Ok(false);
        }
        if S::Certifier::TRACKS && self.isolation == Isolation::Snapshot {
            state.tracks = wanted;
            state.certifies_some |= wanted;
        }
        Ok(S::Certifier::TRACKS)
    }
}

impl<S: Scheme> Operation<'_, S> {
    /// Undoes the writes since a mark; the transaction goes on, or on failure everything is undone.
    pub(super) fn undo_since(&mut self, mark: Mark) -> Result<()> {
        self.take_back_since(mark).inspect_err(|_| {
            self.state.discard_replaced();
            self.undo();
        })
    }

    fn take_back_since(&mut self, mark: Mark) -> Result<()> {
        let mut put_back = Vec::new();
        for at in mark.writes..self.state.sets.writes.len() {
            self.depend_on_found(at)?;
        }
        while let Some(own) = self.state.savepoints.pop_replaced() {
            let (State { sets, tid, .. }, at) = (&mut *self.state, own.write() as usize);
            if at >= mark.writes {
                sets.discarded.push(own);
                continue;
            }
            let Write { row, new, site, .. } = &mut sets.writes[at];
            let slot = self.engine.table(site.table).rows.slot(*row);
            slot.put_back(*new, own, tid.expect("it has written"));
            sets.discarded.push(std::mem::replace(new, own));
            put_back.push(at);
        }
        while self.state.sets.writes.len() > mark.writes {
            self.undo_last_write();
        }
        for at in put_back {
            self.put_back_entries(at)?;
        }
        self.take_back_entries(mark.entries);
        let State { sets, trace, .. } = &mut *self.state;
        sets.log_bytes = mark.log_bytes;
        if let Some(trace) = trace {
            trace.forget_writes(mark.trace);
        }
        Ok(())
    }

    /// Inserts the entries of a version that was put back into their indexes. While the version was out of its row,
    /// another transaction may have removed the entries, or given a unique key to another row.
    fn put_back_entries(&mut self, at: usize) -> Result<()> {
        let Write { row, new, site, .. } = self.state.sets.writes[at];
        if new.kind() != Kind::Live {
            return Ok(());
        }
        let table = self.engine.table(site.table);
        let entries = table.new_entries(self.state.sets.key(site), None, Some(new.payload(&self.entered.versions)))?;
        self.need_entries(table, row, &entries)?;
        self.add_entries(table, row, &entries, Stamp::ZERO)
    }

    /// Removes the entries, from `from` on, of rows that the transaction does not write any more. Entries of other rows
    /// may belong to a version that an earlier savepoint will put back: they stay until the end.
    fn take_back_entries(&mut self, from: usize) {
        let State { sets, tid, .. } = &mut *self.state;
        let mut kept = from;
        for at in from..sets.entries.len() {
            let NeededEntry { row, index, entry, .. } = sets.entries[at];
            let table = self.engine.table(entry.table);
            let head = table.rows.slot(row).head().map(|head| head.origin().load());
            if tid.is_some_and(|tid| matches!(head, Some(Origin::By(writer)) if writer == tid)) {
                sets.entries.swap(kept, at);
                kept += 1;
            } else {
                remove_unused_entry(table, row, index, sets.key(entry), Stamp::ZERO, &self.entered.nodes);
            }
        }
        sets.entries.truncate(kept);
    }

    /// Tracks the state that one of the transaction's writes found.
    fn depend_on_found(&mut self, at: usize) -> Result<()> {
        if !S::Certifier::TRACKS || self.state.uncertified {
            return Ok(());
        }
        let Write { old, fresh, site, .. } = self.state.sets.writes[at];
        let table = self.engine.table(site.table);
        let was_there = old.filter(|_| !fresh);
        if let Some(old) = was_there {
            let shared = &self.engine.shared;
            let Standing::Committed(created) = standing(shared, self.state.tid, Stamp::INFINITY, old) else {
                unreachable!("only what is committed is overwritten");
            };
            self.track(table, old, created, site)?;
        }
        if was_there.is_none_or(|old| old.kind() != Kind::Live) {
            let key = KeyBuffer::from_slice(self.state.sets.key(site));
            let seen = table.primary.get(&self.entered.nodes, &key).seen;
            self.missed(&seen, site, &key)?;
        }
        Ok(())
    }
}
