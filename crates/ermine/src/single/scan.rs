//! Ranges of an index, in either direction.
//!
//! A scan takes one leaf at a time: its entries under one leaf version, then the row behind each. Every leaf that
//! overlaps the range goes into the leaf set, even an empty one: that excludes phantoms.

use std::ops::Bound;

use super::running::{Operation, RowRead, TableOf, Txn};
use crate::{
    access::{Direction, ScanRange, Visit},
    error::Result,
    ids::{IndexOrdinal, RowId},
    index::{self, Batch, Lookup},
    rows::copies::Copied,
    scheme::{
        ConflictSite,
        in_place::{InPlace, Ranges},
    },
    sync::Spin,
    txn::{batch_place, write_set::ROWS_REMEMBERED},
    types::KeyBuffer,
};

/// Entries taken from a leaf at a time.
const BATCH_ENTRIES: usize = 256;

impl<P: InPlace> Txn<'_, P> {
    /// Calls `visit` with the rows of a range as (entry key, value), until it breaks, fails or has seen `limit` of
    /// them.
    pub(crate) fn scan(&self, range: ScanRange<'_>, visit: &mut Visit<'_>) -> Result<()> {
        let table = self.engine.tables.live(range.table)?;
        table.check_ordered(range.index)?;
        let mut operation = self.operation()?;
        operation.check_declared(table, None, None, false)?;
        operation.reach_range(table, range.index, range.lower, range.upper)?;
        if range.index != IndexOrdinal::PRIMARY && operation.state.snapshot.is_some() {
            table.secondary(range.index).check_snapshot(operation.state.begin)?;
        }
        drop(operation);
        if self.engine.options.observer.is_some() {
            return self.scan_observed(range, visit);
        }
        self.scan_rows(range, visit)
    }

    pub(super) fn scan_rows(&self, range: ScanRange<'_>, visit: &mut Visit<'_>) -> Result<()> {
        let mut batch = self.operation()?.state.batches.pop().unwrap_or_default();
        let result = self.scan_leaves(range, &mut batch, visit);
        self.worker().state.borrow_mut().batches.push(batch);
        result
    }

    fn scan_leaves(&self, range: ScanRange<'_>, batch: &mut Batch, visit: &mut Visit<'_>) -> Result<()> {
        let table = self.engine.tables.live(range.table)?;
        let nodes = self.worker().nodes.enter();
        let direction = match range.direction {
            Direction::Forward => index::Direction::Forward,
            Direction::Backward => index::Direction::Backward,
        };
        let upper = range.upper.map_or(Bound::Unbounded, Bound::Excluded);
        let lower = Bound::Included(range.lower);
        let index = table.index(range.index);
        let mut cursor = index.cursor(&nodes, lower, upper, direction);
        let mut left = range.limit;
        let mut to_remember = if range.index == IndexOrdinal::PRIMARY && !self.read_only { ROWS_REMEMBERED } else { 0 };
        // The last entry that has been read.
        let mut last = KeyBuffer::new();
        let mut is_first = true;
        while left > 0
            && let Some(seen) = cursor.next_leaf(batch, left.min(BATCH_ENTRIES))
        {
            let mut operation = self.operation()?;
            let keys_at = operation.state.sets.note_run(batch.key_bytes());
            let first = match batch.is_empty() {
                true => ConflictSite { table: table.id, at: 0, length: 0 },
                false => batch_place(table.id, batch, 0, keys_at),
            };
            if !operation.saw_leaf(range.index, &seen, first)? {
                cursor = match (is_first, direction) {
                    (true, _) => index.cursor(&nodes, lower, upper, direction),
                    (_, index::Direction::Forward) => index.cursor(&nodes, Bound::Excluded(&last), upper, direction),
                    (_, index::Direction::Backward) => index.cursor(&nodes, lower, Bound::Excluded(&last), direction),
                };
                continue;
            }
            if P::RANGES == Ranges::Stamped && !batch.is_empty() {
                is_first = false;
                last = KeyBuffer::from_slice(batch.key(batch.len() - 1));
            }
            table.prefetch_newest((0..batch.len()).map(|at| batch.row(at)));
            for at in 0..batch.len() {
                let site = batch_place(table.id, batch, at, keys_at);
                let value = operation.read_entry(table, range.index, batch.row(at), batch.key(at), site)?;
                let Some(value) = value else { continue };
                if to_remember > 0 {
                    to_remember -= 1;
                    operation.state.sets.found(site, batch.row(at));
                }
                // The visitor may use the transaction.
                drop(operation);
                left -= 1;
                let flow = visit(batch.key(at), value.bytes(self))?;
                if left == 0 || flow.is_break() {
                    return Ok(());
                }
                operation = self.operation()?;
            }
        }
        Ok(())
    }
}

impl<P: InPlace> Operation<'_, P> {
    /// Returns the row behind an index entry, if the transaction sees one that belongs to the entry.
    pub(super) fn read_entry(
        &mut self,
        table: &TableOf<P>,
        index: IndexOrdinal,
        row: RowId,
        entry: &[u8],
        site: ConflictSite,
    ) -> Result<Option<Copied>> {
        let key = match index {
            IndexOrdinal::PRIMARY => entry,
            _ => table.secondary(index).primary_key(entry)?,
        };
        let (mut row, mut spin) = (row, Spin::default());
        loop {
            let at = self.observed_from();
            match self.read_row(table, row, key, site)? {
                RowRead::Row(value) => {
                    let belongs = index == IndexOrdinal::PRIMARY
                        || table.secondary(index).matches(entry, value.bytes(&self.nodes))?;
                    return Ok(belongs.then_some(value));
                }
                RowRead::Nothing => return Ok(None),
                // Removed since: the leaf is in the leaf set.
                RowRead::Gone => match table.index(index).get(&self.nodes, entry) {
                    Lookup { row: None, .. } => {
                        if self.is_observed() && index == IndexOrdinal::PRIMARY {
                            self.trace_missing(table, entry, at);
                        }
                        return Ok(None);
                    }
                    // The entry of a writer that has not rolled it back yet.
                    Lookup { row: Some(found), .. } if found == row => return Ok(None),
                    Lookup { row: Some(found), .. } => {
                        row = found;
                        spin.wait();
                    }
                },
            }
        }
    }
}
