//! The entries of secondary indexes that follow a row's versions.
//!
//! An entry (secondary key, primary key) -> RowId exists as long as any version of the row, committed or in flight, has
//! that secondary key. A write adds the entry of its new version after it has installed the version; entries that no
//! version needs any more are removed with the garbage (`reclaim`), or at once when the writer aborts.
//!
//! Unique indexes have the same entries. A writer looks for another row under its secondary key before it writes (a
//! visible one: the key exists) and again afterwards (a concurrent one: conflict). Of two concurrent writers at least
//! one finds the other, because both add their entry before they look the second time.

use std::ops::Bound;

use super::{
    running::Operation,
    visible::{Standing, standing},
    write::Content,
    write_set::NeededEntry,
};
use crate::{
    error::{Error, Result},
    ids::{IndexOrdinal, RowId, Stamp},
    index::{self, Insert},
    rows::chain::{Kind, VersionPtr, installed},
    scheme::{Conflict, ConflictSite, Scheme, StampsOf},
    table::{NewEntries, NewEntry, TableStore},
    types::{KeyBuffer, byte_successor},
};

impl<S: Scheme> Operation<'_, S> {
    /// Returns the entries that a write will need and that the previous version did not have.
    #[inline]
    pub(super) fn new_entries(
        &self,
        table: &TableStore<StampsOf<S>>,
        key: &[u8],
        before: Option<VersionPtr<StampsOf<S>>>,
        content: Content<'_>,
    ) -> Result<NewEntries> {
        let before = before.map(|version| version.payload(&self.entered.versions));
        table.new_entries(key, before, content.value())
    }

    /// Checks before a write that no other row has its unique keys.
    pub(super) fn check_unique(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        row: Option<RowId>,
        entries: &NewEntries,
    ) -> Result<()> {
        for entry in entries.iter().filter(|entry| entry.unique) {
            self.refuse_twins(table, entry.index, row, &entry.key[..entry.secondary_length])?;
        }
        Ok(())
    }

    /// Notes the entries that a write needs, all of them before any failure is possible, so that an abort finds them.
    /// From now on, a thread that removes an older version may leave an entry in place for this one.
    #[inline]
    pub(super) fn need_entries(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        row: RowId,
        entries: &NewEntries,
    ) -> Result<()> {
        for entry in entries {
            let site = self.state.sets.keep(table.id, &entry.key)?;
            let NewEntry { index, is_logged, .. } = *entry;
            self.state.sets.entries.push(NeededEntry { row, index, entry: site, is_logged });
        }
        Ok(())
    }

    /// Inserts the entries of a write into the indexes, after the write. No other version committed below `since` has
    /// its unique keys, as an earlier lookup has shown.
    pub(super) fn add_entries(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        row: RowId,
        entries: &NewEntries,
        since: Stamp,
    ) -> Result<()> {
        if !entries.is_empty() {
            installed();
        }
        for entry in entries {
            self.add_entry(table, entry.index, row, &entry.key)?;
            if entry.unique {
                let unique_key = &entry.key[..entry.secondary_length];
                self.refuse_concurrent_twin(table, entry.index, Some(row), unique_key, since)?;
            }
        }
        Ok(())
    }

    fn add_entry(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        ordinal: IndexOrdinal,
        row: RowId,
        entry: &[u8],
    ) -> Result<()> {
        let site = self.state.sets.keep(table.id, entry)?;
        match table.index(ordinal).insert_if_absent(&self.entered.nodes, entry, row) {
            Insert::Done(inserted) => self.inserted(ordinal, &inserted, site),
            // An older version of the row has, or had, the same key: a transaction that scanned since the entry was
            // inserted has read the row. One that scanned before has not, and the entry's writer may have aborted and
            // be about to remove it.
            Insert::Exists(existing, looked) if existing == row => self.entered_gap(looked, site),
            Insert::Exists(..) => Err(self.lose(Conflict::write(site, None))),
        }
    }

    /// Returns all entries under a secondary key, and adds the leaves that contain them to the leaf set.
    fn entries_under(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        ordinal: IndexOrdinal,
        secondary_key: &[u8],
        site: ConflictSite,
    ) -> Result<Vec<(RowId, KeyBuffer)>> {
        let mut found = Vec::new();
        let end = byte_successor(KeyBuffer::from_slice(secondary_key));
        let scanned = self.state.sets.note_range(table.id, secondary_key, end.as_deref());
        let mut buffers = self.state.scans.pop().unwrap_or_default();
        let batch = &mut buffers.batch;
        let upper = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        // A separate guard, so that the operation can be changed while the cursor lives.
        let nodes = self.worker.pins.nodes.enter();
        let lower = Bound::Included(secondary_key);
        let mut cursor = table.index(ordinal).cursor(&nodes, lower, upper, index::Direction::Forward);
        while let Some(seen) = cursor.next_leaf(batch, usize::MAX) {
            self.saw_leaf(ordinal, &seen, site, scanned)?;
            found.extend((0..batch.len()).map(|at| (batch.row(at), KeyBuffer::from_slice(batch.key(at)))));
        }
        self.state.scans.push(buffers);
        Ok(found)
    }

    /// Fails before a write if another row has the unique key. Under a snapshot, concurrent writers are checked first:
    /// a transaction that loses to them should not have disturbed them with an entry.
    fn refuse_twins(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        ordinal: IndexOrdinal,
        row: Option<RowId>,
        secondary_key: &[u8],
    ) -> Result<()> {
        if self.reads_snapshot() {
            self.refuse_concurrent_twin(table, ordinal, row, secondary_key, self.state.begin)?;
            self.refuse_visible_twin(table, ordinal, row, secondary_key)
        } else {
            // Committed versions are visible.
            self.refuse_visible_twin(table, ordinal, row, secondary_key)?;
            self.refuse_concurrent_twin(table, ordinal, row, secondary_key, self.state.begin)
        }
    }

    fn refuse_visible_twin(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        ordinal: IndexOrdinal,
        row: Option<RowId>,
        secondary_key: &[u8],
    ) -> Result<()> {
        let site = self.state.sets.keep(table.id, secondary_key)?;
        let at = self.observed_from();
        let mut twin = None;
        for (other, entry) in self.entries_under(table, ordinal, secondary_key, site)? {
            if Some(other) != row && self.read_entry(table, ordinal, other, &entry, site)?.is_some() {
                twin = Some(entry);
                break;
            }
        }
        if self.is_observed() {
            let whole = || byte_successor(KeyBuffer::from_slice(secondary_key));
            let upper = twin.clone().map_or_else(whole, |mut last| {
                last.push(0);
                Some(last)
            });
            self.trace_range(table.id, ordinal, secondary_key, upper.as_deref(), at);
        }
        if twin.is_none() {
            return Ok(());
        }
        let index = Some(table.secondary(ordinal).name.clone());
        Err(Error::KeyExists { table: table.name_of_keys(), index, key: secondary_key.into() })
    }

    /// Fails if another row has a version with the same unique key that the transaction does not see, as it was not
    /// committed below `since`.
    fn refuse_concurrent_twin(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        ordinal: IndexOrdinal,
        row: Option<RowId>,
        secondary_key: &[u8],
        since: Stamp,
    ) -> Result<()> {
        let site = self.state.sets.keep(table.id, secondary_key)?;
        for (other, entry) in self.entries_under(table, ordinal, secondary_key, site)? {
            if Some(other) == row {
                continue;
            }
            let mut next = table.rows.slot(other).head();
            while let Some(version) = next {
                let standing = standing(&self.engine.shared, self.state.tid, self.state.begin, version);
                let matches = || -> Result<bool> {
                    let secondary = table.secondary(ordinal);
                    Ok(version.kind() == Kind::Live
                        && secondary.matches(&entry, version.payload(&self.entered.versions))?)
                };
                let conflict = match standing {
                    // The transaction has already checked the versions that it overwrote itself.
                    Standing::Own => break,
                    Standing::Unfinished(writer) if matches()? => Some(Some(writer)),
                    Standing::Committed(stamp) if (stamp >= since || !self.reads_snapshot()) && matches()? => {
                        Some(None)
                    }
                    // The versions below are those that the transaction sees, or that no transaction sees any more.
                    Standing::Committed(_) => break,
                    Standing::Unfinished(_) | Standing::Void => None,
                };
                if let Some(other) = conflict {
                    return Err(self.lose(Conflict::write(site, other)));
                }
                next = version.older();
            }
        }
        Ok(())
    }
}
