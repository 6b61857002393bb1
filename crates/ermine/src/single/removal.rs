//! Keys whose row is deleted are removed from the index, and their memory is freed.
//!
//! A transaction that deletes a row, or gives up an insert, leaves a record without a row behind and queues its key.
//! When all transactions that were running then have ended, and none has come that is going to write the record
//! (in_place.rs, invariant 5), the key is removed, under the lock of the record's word: the record is marked as gone,
//! its slot is emptied, and both are reused when all transactions that may have met them have ended. A transaction that
//! has read from the record that there is no row is not disturbed: the word is the same except for the mark, and the
//! leaf shows that the key did not come back.

use smallvec::SmallVec;

use super::{engine::Engine, worker::Garbage};
use crate::{
    epoch::Guard,
    ids::{RowId, TableId},
    rows::{
        arena::Arena,
        array::KEPT_ROWS,
        in_place::{Outgrown, RecordPtr},
    },
    scheme::in_place::InPlace,
};

/// A key that is to be removed.
pub(crate) struct Removal {
    pub(crate) table: TableId,
    pub(crate) row: RowId,
    pub(crate) key: SmallVec<[u8; 24]>,
}

/// An object that has been removed, or a removal that waits.
pub(crate) enum Retired<C> {
    Record(TableId, RowId, RecordPtr<C>),
    /// Not removed yet: the transactions now running may be about to write it.
    Key(Removal),
    Block(Outgrown),
}

impl Removal {
    /// Removes the key, if there is still no row; queues it again when a transaction is at the record. Returns whether
    /// the epoch of the deletion has passed: those that were queued later are mostly of the same one.
    pub(super) fn carry_out<P: InPlace>(
        self,
        engine: &Engine<P>,
        garbage: &mut Garbage<P::Control>,
        nodes: &Guard<'_>,
    ) -> bool {
        // The records of a dropped table are freed with the table.
        let Some(table) = engine.tables.find(self.table) else { return true };
        let slot = table.rows.slot(self.row);
        let Some(record) = slot.record() else { return true };
        let word = record.word();
        if word.is_absent() && word.tid().epoch() >= engine.epochs.current() {
            garbage.removals.push_back(self);
            return false;
        }
        if !engine.snapshots.is_cleaned_up_to(word.tid().epoch()) {
            garbage.removals.push_back(self);
            return true;
        }
        let Some(word) = record.try_lock() else {
            garbage.removals.push_back(self);
            return true;
        };
        if !word.is_absent() || word.is_gone() {
            record.unlock(word.unqueued());
            return true;
        }
        if word.is_wanted() {
            record.unlock(word.unwanted());
            garbage.retired.push(&engine.nodes, Retired::Key(self));
            return true;
        }
        // In a later epoch than that of the deletion, so that a transaction that inserts the key again gets a greater
        // TID; and when no snapshot shows the row.
        let deleted = word.tid().epoch();
        let is_past = deleted < engine.epochs.current() && engine.snapshots.is_cleaned_up_to(deleted);
        if !is_past || !P::is_unclaimed(&engine.shared, record) {
            record.unlock(word);
            garbage.removals.push_back(self);
            return true;
        }
        // The record is the key's only if the key still leads to it: the RowId may serve another key by now.
        let (gap, removed) = P::last_looks(&engine.shared, record);
        if let Some(log) = &engine.log {
            log.entry_leaves(word.tid().epoch());
        }
        if !table.primary.remove_if(nodes, &self.key, self.row, gap, removed, || true) {
            record.unlock(word.unqueued());
            return true;
        }
        slot.set(None);
        record.unlock_gone(word);
        garbage.retired.push(&engine.nodes, Retired::Record(self.table, self.row, record));
        true
    }
}

impl<C: crate::rows::in_place::Control> Garbage<C> {
    /// Frees the memory that no thread can read any more.
    pub(super) fn free<P: InPlace<Control = C>>(&mut self, engine: &Engine<P>, arena: &mut Arena) {
        while let Some(retired) = self.retired.pop_closed(&engine.nodes) {
            match retired {
                Retired::Record(table, row, record) => {
                    // SAFETY: removed in an epoch that has closed (in_place.rs, invariant 4).
                    unsafe { record.destroy(arena) };
                    let row_ids = self.row_ids(table);
                    if !row_ids.is_counted() {
                        engine.tables.count_row_ids(table, row_ids);
                    }
                    row_ids.give(row);
                    if row_ids.are_many() {
                        engine.tables.give_row_ids(table, row_ids, KEPT_ROWS / 2);
                    }
                }
                Retired::Key(removal) => self.removals.push_back(removal),
                // SAFETY: as above.
                Retired::Block(block) => unsafe { block.destroy(arena) },
            }
        }
    }
}
