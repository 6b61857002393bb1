//! The entries of secondary indexes that follow a row.
//!
//! An entry (secondary key, primary key) -> RowId exists while the row has that secondary key, and while a transaction
//! runs that is going to give it to the row. Entries of a row change under the lock of its record's word: a committing
//! transaction inserts its new ones (once more: a transaction that rolled back may have removed one) before the
//! decision, and removes the old ones when its value is stored; a transaction that rolls back removes entries that no
//! row needs. Entries that a running transaction adds earlier, without the lock, are for its own scans, and make other
//! transactions' scans of the range fail or see the row. The entries to insert and remove are derived from the record's
//! row at the write: at the commit the record must say the same.
//!
//! The check that no other row has the key of a unique index is done before a write, and what it found is in the
//! transaction's read set: the rows behind the entries there, and the leaves.

use std::ops::Bound;

use smallvec::SmallVec;

use super::{
    engine::Engine,
    pending::Write,
    running::{Operation, TableOf},
    snapshots::{LeftEntry, Snapshot},
    worker::{StaleEntry, State, Worker},
};
use crate::{
    epoch::Guard,
    error::{Error, Result},
    ids::{IndexOrdinal, RowId, Stamp, TableId},
    index::{self, Insert},
    mutant::Mutant,
    rows::{copies::Copies, in_place::CommitTid},
    scheme::{
        Conflict, ConflictSite,
        in_place::{InPlace, Ranges, stale},
    },
    table::{NewEntries, NewEntry},
    txn::write_set::NeededEntry,
    types::{KeyBuffer, byte_successor},
};

impl<P: InPlace> Operation<'_, P> {
    /// Checks before a write that no other row has its unique keys.
    pub(super) fn check_unique(&mut self, table: &TableOf<P>, row: Option<RowId>, entries: &NewEntries) -> Result<()> {
        for entry in entries.iter().filter(|entry| entry.unique) {
            self.refuse_twin(table, entry.index, row, &entry.key[..entry.secondary_length])?;
        }
        Ok(())
    }

    fn refuse_twin(
        &mut self,
        table: &TableOf<P>,
        ordinal: IndexOrdinal,
        row: Option<RowId>,
        secondary_key: &[u8],
    ) -> Result<()> {
        self.check_declared(table, None, None, false)?;
        let end = byte_successor(KeyBuffer::from_slice(secondary_key));
        self.reach_range(table, ordinal, secondary_key, end.as_deref())?;
        let site = self.state.sets.keep(table.id, secondary_key)?;
        let from = self.observed_from();
        let upper = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut batch = self.state.batches.pop().unwrap_or_default();
        // A guard of its own lets the operation be changed while the cursor lives.
        let nodes = self.worker.nodes.enter();
        let lower = Bound::Included(secondary_key);
        let mut cursor = table.index(ordinal).cursor(&nodes, lower, upper, index::Direction::Forward);
        let mut twin = None;
        'leaves: while let Some(seen) = cursor.next_leaf(&mut batch, usize::MAX) {
            if !self.saw_leaf(ordinal, &seen, site)? {
                cursor = table.index(ordinal).cursor(&nodes, lower, upper, index::Direction::Forward);
                continue;
            }
            for at in (0..batch.len()).filter(|&at| Some(batch.row(at)) != row) {
                if self.read_entry(table, ordinal, batch.row(at), batch.key(at), site)?.is_some() {
                    twin = Some(KeyBuffer::from_slice(batch.key(at)));
                    break 'leaves;
                }
            }
        }
        self.state.batches.push(batch);
        if self.is_observed() {
            let mut last = twin.clone();
            last.iter_mut().for_each(|last| last.push(0));
            let upper = last.as_deref().or(end.as_deref());
            let from = self.looked_at(from);
            self.trace_range(table.id, ordinal, secondary_key, upper, from);
        }
        if twin.is_none() {
            return Ok(());
        }
        let index = Some(table.secondary(ordinal).name.clone());
        Err(Error::KeyExists { table: table.name_of_keys(), index, key: secondary_key.into() })
    }

    /// Inserts the entries of a write into the indexes, and notes them for the end. `rewrites`: the transaction has
    /// written the row before.
    pub(super) fn add_entries(
        &mut self,
        table: &TableOf<P>,
        row: RowId,
        entries: &NewEntries,
        rewrites: bool,
    ) -> Result<()> {
        let known = self.state.sets.entries.len();
        for entry in entries {
            let site = self.state.sets.keep(table.id, &entry.key)?;
            let NewEntry { index, is_logged, .. } = *entry;
            self.state.sets.entries.push(NeededEntry { row, index, entry: site, is_logged });
        }
        for (at, entry) in entries.iter().enumerate() {
            let sets = &self.state.sets;
            let group = (table.id, row, entry.index);
            let is_same = |needed: &NeededEntry| needed.group() == group && sets.key(needed.entry) == &*entry.key;
            let again = rewrites && sets.entries[..known].iter().any(is_same);
            let site = sets.entries[known + at].entry;
            self.put_entry(table, entry.index, row, site, again)?;
        }
        Ok(())
    }

    /// Inserts again all entries that the transaction has inserted: one that is missing may have hidden the
    /// transaction's own row from its scans.
    pub(super) fn put_entries_again(&mut self) -> Result<()> {
        for at in 0..self.state.sets.entries.len() {
            let NeededEntry { row, index, entry, .. } = self.state.sets.entries[at];
            self.put_entry(self.engine.tables.get(entry.table), index, row, entry, true)?;
        }
        Ok(())
    }

    /// Inserts an entry into an index. `again`: the transaction has done so before. If the entry is missing now,
    /// another writer of the row has removed it, or a snapshot for which it existed has ended, and scans of the
    /// transaction may have missed its own row: so a leaf that changes now does not stay valid. Where leaves are not
    /// validated, the transaction loses.
    fn put_entry(
        &mut self,
        table: &TableOf<P>,
        ordinal: IndexOrdinal,
        row: RowId,
        site: ConflictSite,
        again: bool,
    ) -> Result<()> {
        let entry = self.state.sets.key(site);
        match table.index(ordinal).insert_if_absent(&self.nodes, entry, row) {
            Insert::Done(_) if again && P::RANGES == Ranges::AtCommit => Ok(()),
            Insert::Done(_) if again && P::RANGES == Ranges::Excluded => Err(self.lose(stale(site))),
            Insert::Done(inserted) => self.inserted(ordinal, &inserted, site),
            Insert::Exists(existing, _) if existing == row && again => Ok(()),
            // Transactions that scanned the leaf before the entry was inserted have not seen the row.
            Insert::Exists(existing, looked) if existing == row => self.entered_gap(looked, site),
            // The entry of a record with the same key that is being removed.
            Insert::Exists(..) => Err(self.lose(Conflict::write(site, None))),
        }
    }

    /// Called with the record locked, and its row unchanged since the write: makes sure that the entries which the
    /// transaction needed exist, including those of values that it has overwritten itself, and notes those that are to
    /// be removed. The first `known` entries are those needed, sorted.
    pub(super) fn settle_entries(&mut self, table: &TableOf<P>, at: usize, known: usize) -> Result<()> {
        let Write { record, row, site, value, word, .. } = self.state.sets.writes[at];
        let key = KeyBuffer::from_slice(self.state.sets.key(site));
        let mark = self.state.copies.mark();
        let before = (!word.is_absent()).then(|| record.copy_locked(&mut self.state.copies));
        for (index, secondary) in table.secondaries() {
            let entry_of = |value: Option<&[u8]>| -> Result<Option<KeyBuffer>> {
                let mut entry = KeyBuffer::new();
                value.map(|value| secondary.entry_of(&key, value, &mut entry)).transpose()?;
                Ok(value.is_some().then_some(entry))
            };
            let old = entry_of(before.map(|value| value.bytes(&self.nodes)))?;
            let new = entry_of(value.map(|value| value.bytes(&self.nodes)))?;
            let known = &self.state.sets.entries[..known];
            let first = known.partition_point(|needed| needed.group() < (table.id, row, index));
            let own = known[first..].iter().take_while(|needed| needed.group() == (table.id, row, index));
            let own: SmallVec<[_; 2]> = own.map(|needed| needed.entry).collect();
            for entry in own {
                if !Mutant::EntriesNotSettled.is_on() {
                    self.put_entry(table, index, row, entry, true)?;
                }
                if Some(self.state.sets.key(entry)) != new.as_deref() {
                    self.state.stale_entries.push(StaleEntry { row, index, entry });
                }
            }
            if let Some(old) = old.filter(|old| Some(&**old) != new.as_deref()) {
                let entry = self.state.sets.keep(table.id, &old)?;
                self.state.stale_entries.push(StaleEntry { row, index, entry });
            }
        }
        self.state.copies.rewind(mark);
        Ok(())
    }

    /// Removes the stale entries, after the writes, with the records still locked.
    pub(super) fn remove_stale_entries(&mut self, tid: CommitTid) {
        if !self.state.stale_entries.is_empty() {
            self.entry_leaves(tid);
        }
        let (engine, state) = (self.engine, &mut *self.state);
        let needs_them = engine.snapshots.is_before(tid.epoch());
        for StaleEntry { row, index, entry } in state.stale_entries.drain(..) {
            let key = state.sets.key(entry);
            let stays =
                needs_them && engine.snapshots.leave(LeftEntry::new((entry.table, row), index, key, tid.epoch()));
            if !stays {
                let index = engine.tables.get(entry.table).index(index);
                index.remove_if(&self.nodes, key, row, Stamp::ZERO, P::stamp(&state.scheme), || true);
            }
        }
    }

    /// In a rollback: removes the entries that the transaction has inserted and that the row does not have.
    pub(super) fn take_back_entries(&mut self) {
        while let Some(NeededEntry { row, index, entry, .. }) = self.state.sets.entries.pop() {
            let State { sets, copies, .. } = &mut *self.state;
            let key = sets.key(entry);
            self.engine.take_out_entry(&self.nodes, copies, (entry.table, row), index, key);
        }
    }
}

impl<P: InPlace> Engine<P> {
    /// Closes a snapshot and removes what was kept for it.
    pub(super) fn close_snapshot(&self, snapshot: Snapshot, worker: &mut Worker<P>) {
        let (nodes, copies) = (worker.nodes.enter(), &mut worker.state.get_mut().copies);
        self.snapshots.close(snapshot, &self.epochs, |left| {
            self.take_out_entry(&nodes, copies, left.row, left.index, &left.entry);
        });
    }

    /// Removes an entry if its row does not have it, and did not have it in a snapshot.
    fn take_out_entry(
        &self,
        nodes: &Guard<'_>,
        copies: &mut Copies,
        site: (TableId, RowId),
        index: IndexOrdinal,
        entry: &[u8],
    ) {
        // The entries of a dropped table are freed with the table.
        let (Some(table), row) = (self.tables.find(site.0), site.1) else { return };
        if !table.has_index(index) {
            // The index was withdrawn, because its building failed, while the entry was kept for a snapshot.
            return;
        }
        let remove = || table.index(index).remove_if(nodes, entry, row, Stamp::ZERO, Stamp::ZERO, || true);
        let Some(record) = table.rows.slot(row).record() else {
            // A removed key leaves its entries behind; its RowId is not reused while the transaction is in the epoch.
            remove();
            return;
        };
        let word = record.lock();
        let mark = copies.mark();
        // A value that cannot be decoded, or at which the key function panics, counts as a match: the entry stays.
        let is_needed = !word.is_absent() && {
            let value = record.copy_locked(copies);
            table.secondary(index).matches(entry, value.bytes(nodes)).unwrap_or(true)
        };
        copies.rewind(mark);
        let changed = word.tid().epoch();
        let stays = is_needed
            || self.snapshots.is_before(changed) && self.snapshots.leave(LeftEntry::new(site, index, entry, changed));
        if !stays {
            remove();
        }
        record.unlock(word);
    }
}
