//! Going back in a transaction to a savepoint, and on to another snapshot.
//!
//! Going back takes the writes since the savepoint out of their rows while the transaction runs on. Others see what they see of an
//! abort: a version in front that is nobody's, then the one behind it. The transaction itself may go on from what those writes told it: that
//! there was a row, or none. As long as they stood, nobody could change that; so before a write goes, what it stood on is tracked as a
//! read, and for a key that was not there, its leaf is taken into the leaf set while the key is still in it. A version that is put back
//! gets its entries again: while it was out of its row, garbage collection took it for gone.

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
    rows::{
        chain::{Kind, Origin},
        reclaim::remove_unused_entry,
    },
    savepoints::{Mark, Savepoint},
    scheme::{Certifier, Scheme},
    types::KeyBuffer,
    worker::State,
};

impl<S: Scheme> Txn<'_, S> {
    /// Marks a point to go back to.
    pub(crate) fn savepoint(&self) -> Result<Savepoint> {
        let mut operation = self.operation()?;
        let state = &mut *operation.state;
        let notes = state.notes.as_ref().map_or(0, |notes| notes.count());
        let (writes, entries) = (state.footprint.writes.len(), state.footprint.entries.len());
        Ok(state.savepoints.add(Mark { writes, entries, log_bytes: state.footprint.log_bytes, notes }))
    }

    /// Undoes what was written since. Also of a transaction that asked for less than its scheme promises and has lost a conflict since.
    pub(crate) fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.worker().changed();
        let mut operation = self.last_operation(self.enter());
        match operation.state.savepoints.go_back(savepoint) {
            Ok(mark) => {
                operation.state.doomed = None;
                operation.undo_since(mark).map_err(|error| operation.fail_write(error))
            }
            // Lost for good: that goes before.
            Err(gone) => Err(operation.state.doomed.as_ref().map_or(gone, Doom::error)),
        }
    }

    /// Forgets a savepoint and those after it.
    pub(crate) fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        self.operation()?.state.savepoints.release(savepoint)
    }

    /// The number by which others know it, once it has written.
    pub(crate) fn tid(&self) -> Result<Option<Tid>> {
        Ok(self.operation()?.state.tid)
    }

    /// Shows every row that it has written, and what it has written there.
    pub(crate) fn writes(&self, each: &mut OwnWrite<'_>) -> Result<()> {
        let operation = self.operation()?;
        for write in &operation.state.footprint.writes {
            let key = operation.state.footprint.key(write.place);
            let value = (write.new.kind() == Kind::Live).then(|| write.new.payload(&operation.entered.versions));
            each(&self.engine.table(write.place.table).name(), key, value)?;
        }
        Ok(())
    }

    /// Goes on with the snapshot of now, if it asked for less than its scheme promises.
    pub(crate) fn renew_snapshot(&mut self) -> Result<()> {
        let mut operation = self.operation()?;
        if self.isolation == Isolation::Snapshot {
            let begin = operation.worker.slot.take(&self.engine.shared.clock, true, self.pinned);
            operation.state.begin = begin;
            // RowIds of what was deleted since may have been used again.
            operation.state.footprint.forget_found();
        }
        Ok(())
    }
}

impl<S: Scheme> Operation<'_, S> {
    /// Undoes what was written since; the transaction goes on, or everything is undone.
    pub(super) fn undo_since(&mut self, mark: Mark) -> Result<()> {
        self.take_back_since(mark).inspect_err(|_| {
            self.state.discard_replaced();
            self.undo();
        })
    }

    fn take_back_since(&mut self, mark: Mark) -> Result<()> {
        let mut put_back = Vec::new();
        for at in mark.writes..self.state.footprint.writes.len() {
            self.depend_on_found(at)?;
        }
        while let Some(own) = self.state.savepoints.pop_replaced() {
            let (State { footprint, tid, .. }, at) = (&mut *self.state, own.write() as usize);
            if at >= mark.writes {
                footprint.discarded.push(own);
                continue;
            }
            let Write { row, new, place, .. } = &mut footprint.writes[at];
            let slot = self.engine.table(place.table).rows.slot(*row);
            slot.put_back(*new, own, tid.expect("it has written"));
            footprint.discarded.push(std::mem::replace(new, own));
            put_back.push(at);
        }
        while self.state.footprint.writes.len() > mark.writes {
            self.undo_last_write();
        }
        for at in put_back {
            self.put_back_entries(at)?;
        }
        self.take_back_entries(mark.entries);
        let State { footprint, notes, .. } = &mut *self.state;
        footprint.log_bytes = mark.log_bytes;
        if let Some(notes) = notes {
            notes.forget_writes(mark.notes);
        }
        Ok(())
    }

    /// Puts the entries of a version that was put back into their indexes. While it was out of its row somebody may have taken them out,
    /// or given a unique key to another row.
    fn put_back_entries(&mut self, at: usize) -> Result<()> {
        let Write { row, new, place, .. } = self.state.footprint.writes[at];
        if new.kind() != Kind::Live {
            return Ok(());
        }
        let table = self.engine.table(place.table);
        let entries =
            table.new_entries(self.state.footprint.key(place), None, Some(new.payload(&self.entered.versions)))?;
        self.add_entries(table, row, &entries, Stamp::ZERO)
    }

    /// Takes out the entries, from one on, that were needed by rows which the transaction does not write any more. Those of other rows
    /// may belong to a version that an earlier savepoint will put back: they stay until the end.
    fn take_back_entries(&mut self, from: usize) {
        let State { footprint, tid, .. } = &mut *self.state;
        let mut kept = from;
        for at in from..footprint.entries.len() {
            let NeededEntry { row, index, entry } = footprint.entries[at];
            let table = self.engine.table(entry.table);
            let head = table.rows.slot(row).head().map(|head| head.origin().load());
            if tid.is_some_and(|tid| matches!(head, Some(Origin::By(writer)) if writer == tid)) {
                footprint.entries.swap(kept, at);
                kept += 1;
            } else {
                remove_unused_entry(table, row, index, footprint.key(entry), Stamp::ZERO, &self.entered.nodes);
            }
        }
        footprint.entries.truncate(kept);
    }

    /// The transaction depends on what one of its writes stands on.
    fn depend_on_found(&mut self, at: usize) -> Result<()> {
        if !S::Certifier::TRACKS || self.state.uncertified {
            return Ok(());
        }
        let Write { old, fresh, place, .. } = self.state.footprint.writes[at];
        let table = self.engine.table(place.table);
        let was_there = old.filter(|_| !fresh);
        if let Some(old) = was_there {
            let shared = &self.engine.shared;
            let Standing::Committed(created) = standing(shared, self.state.tid, Stamp::INFINITY, old) else {
                unreachable!("only what is committed is overwritten");
            };
            self.track(table, old, created, place)?;
        }
        if was_there.is_none_or(|old| old.kind() != Kind::Live) {
            let key = KeyBuffer::from_slice(self.state.footprint.key(place));
            let seen = table.primary.get(&self.entered.nodes, &key).seen;
            self.missed(&seen, place, &key)?;
        }
        Ok(())
    }
}
