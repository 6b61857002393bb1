//! Ranges of an index, in either direction.
//!
//! A scan takes one leaf at a time: its entries under one leaf version, then the row behind each. Every leaf that meets
//! the range is added to the leaf set, even an empty one: this prevents phantoms. Rows are read a few at a time and
//! then shown; when the visitor writes to the table meanwhile, the rest are read again.

use std::ops::{Bound, Range};

use super::{
    running::{Operation, RowRead, Txn},
    trace::LookupKey,
};
use crate::{
    access::{Direction, ScanRange, Visit},
    durable::read_ahead::{self, RowsAhead},
    error::Result,
    ids::{IndexOrdinal, RowId, TableId},
    index::{self, Batch, LeafSeen, Lookup},
    rows::chain::VersionPtr,
    scheme::{Certifier, ConflictSite, Scheme, StampsOf},
    sync::Spin,
    table::TableStore,
    txn::{leaf_set::ScannedRange, write_set::ROWS_REMEMBERED},
    worker::{ScanBuffers, State, Uncached},
};

/// Entries taken from a leaf at a time.
const BATCH_ENTRIES: usize = 256;

/// Rows that are read before the first of them is shown. A scan that stops early has read, and depends on, up to this
/// many more rows.
const RESOLVED_AHEAD: usize = 16;

/// Entries whose rows' newest versions are looked up at a time, and start to be loaded from memory, under a snapshot.
/// Where the newest versions are read, they are looked up when the rows are read.
const LOADED_AHEAD: usize = 64;

impl<S: Scheme> Txn<'_, S> {
    /// Shows `visit` the rows of a range as (entry key, value), until it breaks, fails or has seen `limit` of them.
    pub(crate) fn scan(&self, range: ScanRange<'_>, visit: &mut Visit<'_>) -> Result<()> {
        let table = self.engine.live_table(range.table)?;
        table.check_ordered(range.index)?;
        if range.index != IndexOrdinal::PRIMARY {
            let state = self.worker().state.borrow();
            if S::SNAPSHOT || state.uncertified {
                table.secondary(range.index).check_snapshot(state.begin)?;
            }
        }
        if self.engine.options.observer.is_some() {
            return self.scan_observed(range, visit);
        }
        self.scan_rows(range, visit)
    }

    /// Counts as a read of all rows of a table, without reading them, as for a transaction that was prepared before a
    /// restart; `false`: the certifier has to know their versions.
    pub(crate) fn hold_table(&self, table: TableId) -> Result<bool> {
        let table = self.engine.live_table(table)?;
        Ok(self.operation()?.reads_whole(table))
    }

    pub(super) fn scan_rows(&self, range: ScanRange<'_>, visit: &mut Visit<'_>) -> Result<()> {
        let mut buffers = self.operation()?.state.scans.pop().unwrap_or_default();
        let mut uncached = Uncached::new(self.worker());
        let result = self.scan_leaves(range, &mut buffers, &mut uncached, visit);
        drop(uncached);
        self.worker().state.borrow_mut().scans.push(buffers);
        result
    }

    fn scan_leaves(
        &self,
        range: ScanRange<'_>,
        buffers: &mut ScanBuffers<StampsOf<S>>,
        uncached: &mut Uncached<'_, S>,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        let ScanBuffers { batch, versions, ahead: rows_ahead } = buffers;
        rows_ahead.begin();
        let table = self.engine.live_table(range.table)?;
        let nodes = self.worker().pins.nodes.enter();
        let direction = match range.direction {
            Direction::Forward => index::Direction::Forward,
            Direction::Backward => index::Direction::Backward,
        };
        let upper = range.upper.map_or(Bound::Unbounded, Bound::Excluded);
        let mut cursor = table.index(range.index).cursor(&nodes, Bound::Included(range.lower), upper, direction);
        let mut left = range.limit;
        let mut to_remember = if range.index == IndexOrdinal::PRIMARY && !self.read_only { ROWS_REMEMBERED } else { 0 };
        let mut walk = Walk::default();
        while left > 0 {
            // Before the leaf is read: a transaction that inserts into it later then finds this one through the table.
            walk.whole = self.worker().state.borrow().certifier.reads_whole(table.id);
            let Some(seen) = cursor.next_leaf(batch, left.min(BATCH_ENTRIES)) else { break };
            let mut operation = self.operation()?;
            let keys_at = operation.begin_leaf(table, &range, batch, &seen, &mut walk)?;
            if std::mem::take(&mut rows_ahead.met) {
                operation.announce_next(table, &range, batch, left, rows_ahead);
            } else {
                rows_ahead.end();
            }
            if !S::SNAPSHOT {
                table.prefetch_newest(batch.rows(0..batch.len()));
            }
            let mut ahead = if S::SNAPSHOT { LOADED_AHEAD } else { RESOLVED_AHEAD };
            let mut loaded = 0..0;
            let mut next = 0;
            while next < batch.len() {
                if next == loaded.end {
                    loaded = next..batch.len().min(next + ahead);
                    table.load_heads(batch.rows(loaded.clone()), versions);
                }
                let entries = next..loaded.end.min(next + RESOLVED_AHEAD);
                next = entries.end;
                let versions = &mut versions[entries.start - loaded.start..entries.end - loaded.start];
                uncached.free(&mut operation.state.arena);
                let reading = Reading { versions: &mut *versions, uncached, ahead: rows_ahead };
                operation.read_entries(table, range.index, batch, entries.clone(), reading, keys_at)?;
                if to_remember > 0 {
                    let first = entries.start..entries.end.min(entries.start + to_remember);
                    to_remember -= first.len();
                    operation.remember(table.id, batch, first, versions, keys_at);
                }
                if next == batch.len() && left > entries.len() {
                    // The first rows of the next leaf arrive while these are shown.
                    table.prefetch_newest(cursor.peek());
                }
                // The visitor may use the transaction.
                let entered = operation.suspend();
                let changes = self.worker().changes(table.id);
                let before = changes.get();
                for ((at, key), version) in entries.clone().zip(batch.keys(entries)).zip(&*versions) {
                    let Some(version) = *version else { continue };
                    left -= 1;
                    let flow = visit(key, version.payload(&self.worker().pins));
                    if left == 0 || !matches!(flow, Ok(flow) if flow.is_continue()) {
                        let last = batch_place(table.id, batch, at, keys_at);
                        walk.stop(&mut self.worker().state.borrow_mut(), range.direction, last);
                        return flow.map(drop);
                    }
                    if changes.get() != before {
                        // It is likely to change the next rows, too: then all that is read ahead is read again.
                        (next, ahead) = (at + 1, 1);
                        loaded.end = next;
                        break;
                    }
                }
                operation = self.resume(entered)?;
            }
        }
        Ok(())
    }
}

/// Rows that are being read.
struct Reading<'b, 'w, S: Scheme> {
    /// Their newest versions, to be replaced by those that are visible.
    versions: &'b mut [Option<VersionPtr<StampsOf<S>>>],
    /// Takes those that are read from their files.
    uncached: &'b mut Uncached<'w, S>,
    ahead: &'b mut RowsAhead,
}

/// The state of a scan with respect to the leaf set.
#[derive(Default)]
struct Walk {
    /// The rest of the range.
    rest: Option<ScannedRange>,
    /// The position of the last leaf in the leaf set.
    leaf: Option<usize>,
    /// The transaction reads the table as a whole: leaves need not be remembered any more.
    whole: bool,
}

impl Walk {
    /// Ends the scan at a key: it has not looked beyond.
    fn stop<S: Scheme>(&self, state: &mut State<S>, direction: Direction, last: ConflictSite) {
        if let Some(scanned) = self.leaf.and_then(|leaf| state.sets.leaves.scanned_mut(leaf)) {
            scanned.end_at(direction, last);
        }
    }
}

/// Returns the place of an entry's key in the transaction's key bytes.
#[inline]
pub(crate) fn batch_place(table: TableId, batch: &Batch, at: usize, keys_at: Option<u32>) -> ConflictSite {
    place(table, batch.key_span(at), keys_at)
}

/// Returns the places of some entries' keys.
#[inline]
fn batch_places(
    table: TableId,
    batch: &Batch,
    entries: Range<usize>,
    keys_at: Option<u32>,
) -> impl Iterator<Item = ConflictSite> {
    batch.key_spans(entries).map(move |span| place(table, span, keys_at))
}

#[inline]
fn place(table: TableId, span: Range<usize>, keys_at: Option<u32>) -> ConflictSite {
    match keys_at {
        Some(first) => ConflictSite { table, at: first + span.start as u32, length: span.len() as u16 },
        None => ConflictSite { table, at: 0, length: 0 },
    }
}

impl<S: Scheme> Operation<'_, S> {
    /// Adds a leaf to the leaf set; returns the start of its keys in the key bytes that are kept for reports.
    // Apart from the loop, as `read_entries` is.
    #[inline(never)]
    fn begin_leaf(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        range: &ScanRange<'_>,
        batch: &Batch,
        seen: &LeafSeen,
        walk: &mut Walk,
    ) -> Result<Option<u32>> {
        if !S::Certifier::TRACKS || !self.state.tracks {
            return Ok(None);
        }
        let sets = &mut self.state.sets;
        if walk.whole {
            let keys_at = sets.note_run_of_whole(batch.key_bytes());
            self.follow(seen.removed, ConflictSite { table: table.id, at: 0, length: 0 })?;
            return Ok(keys_at);
        }
        if walk.leaf.is_none() {
            walk.rest = sets.note_range(table.id, range.lower, range.upper);
        }
        let keys_at = sets.note_run(batch.key_bytes());
        let (mut site, mut scanned) = (ConflictSite { table: table.id, at: 0, length: 0 }, None);
        if let Some(rest) = &mut walk.rest
            && (keys_at.is_some() || batch.is_empty())
        {
            (site, scanned) = (rest.lower, Some(*rest));
            if !batch.is_empty() {
                // An insert between the last key of the previous leaf and the first key of this one may go into either
                // leaf.
                let last = batch_place(table.id, batch, batch.len() - 1, keys_at);
                site = batch_place(table.id, batch, 0, keys_at);
                let before = walk.leaf.and_then(|leaf| sets.leaves.scanned_mut(leaf));
                before.into_iter().for_each(|before| before.end_at(range.direction, site));
                rest.begin_at(range.direction, last);
            }
        }
        walk.leaf = self.saw_leaf(range.index, seen, site, scanned)?;
        Ok(keys_at)
    }

    /// Reads the rows behind some entries of a leaf: replaces their newest versions by those that are visible.
    // Apart from the loop, whose frame stays on the stack while rows are shown: a join of many tables has as many.
    #[inline(never)]
    fn read_entries(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        index: IndexOrdinal,
        batch: &Batch,
        entries: Range<usize>,
        Reading { versions, uncached, ahead }: Reading<'_, '_, S>,
        keys_at: Option<u32>,
    ) -> Result<()> {
        self.count_reads(entries.len())?;
        let first = entries.start;
        let others = self.read_all_settled(table, versions, batch_places(table.id, batch, entries.clone(), keys_at))?;
        if others != 0 || index != IndexOrdinal::PRIMARY {
            if others != 0 && !ahead.met && versions.iter().any(Option::is_none) {
                self.announce_leaf(table, batch, first, ahead);
            }
            for (at, version) in entries.zip(&mut *versions) {
                *version = match *version {
                    Some(head) if others & 1 << (at - first) == 0 => {
                        self.belonging(table, index, batch.key(at), head)?
                    }
                    _ => {
                        let site = batch_place(table.id, batch, at, keys_at);
                        let (row, entry) = (batch.row(at), batch.key(at));
                        let of_file = match version {
                            None => self.read_uncached(table, row, LookupKey { index, entry }, site, uncached)?,
                            Some(_) => None,
                        };
                        match of_file {
                            Some(version) => self.belonging(table, index, entry, version)?,
                            None => self.read_entry(table, index, row, entry, site)?,
                        }
                    }
                };
            }
        }
        versions.iter().flatten().for_each(|version| version.prefetch_payload());
        Ok(())
    }

    /// Has the device read the rows of a leaf that are only in files, from an entry on: one of them has been met.
    #[cold]
    fn announce_leaf(&self, table: &TableStore<StampsOf<S>>, batch: &Batch, first: usize, ahead: &mut RowsAhead) {
        let Some(store) = &self.engine.store else { return };
        ahead.met = true;
        if !ahead.has_announced_leaf {
            store.announce(table, batch.rows(first..batch.len()), &mut ahead.announced);
        }
    }

    /// Has the device read the rows of the next leaves that are only in files, and those of this one unless they have
    /// been announced before: the leaf before had such rows. The scan shows up to `left` rows.
    #[cold]
    fn announce_next(
        &self,
        table: &TableStore<StampsOf<S>>,
        range: &ScanRange<'_>,
        batch: &Batch,
        left: usize,
        ahead: &mut RowsAhead,
    ) {
        let Some(store) = &self.engine.store else { return };
        ahead.has_announced_leaf = true;
        if ahead.rows < batch.len() {
            store.announce(table, batch.rows(ahead.rows..batch.len()), &mut ahead.announced);
            ahead.last.clear();
            ahead.last.extend_from_slice(batch.key(batch.len() - 1));
        }
        ahead.rows = ahead.rows.saturating_sub(batch.len());
        let wanted = left.saturating_sub(batch.len()).min(read_ahead::ROWS);
        if ahead.last.is_empty() || ahead.rows >= wanted.div_ceil(2) {
            return;
        }
        let last = Bound::Excluded(&ahead.last[..]);
        let (lower, upper, direction) = match range.direction {
            Direction::Forward => {
                (last, range.upper.map_or(Bound::Unbounded, Bound::Excluded), index::Direction::Forward)
            }
            Direction::Backward => (Bound::Included(range.lower), last, index::Direction::Backward),
        };
        let mut cursor = table.index(range.index).cursor(&self.entered.nodes, lower, upper, direction);
        let next = &mut ahead.batch;
        while ahead.rows < wanted && cursor.next_leaf(next, wanted).is_some() {
            if !next.is_empty() {
                store.announce(table, next.rows(0..next.len()), &mut ahead.announced);
                ahead.rows += next.len();
                ahead.last.clear();
                ahead.last.extend_from_slice(next.key(next.len() - 1));
            }
        }
    }

    /// Remembers the rows that were read, for writes that follow.
    fn remember(
        &mut self,
        table: TableId,
        batch: &Batch,
        entries: Range<usize>,
        versions: &[Option<VersionPtr<StampsOf<S>>>],
        keys_at: Option<u32>,
    ) {
        let sets = &mut self.state.sets;
        for (at, _) in entries.zip(versions).filter(|(_, version)| version.is_some()) {
            let site = match keys_at {
                Some(_) => batch_place(table, batch, at, keys_at),
                None => sets.note(table, batch.key(at)),
            };
            sets.found(site, batch.row(at));
        }
    }

    /// Returns a version if it belongs to an entry of the index.
    #[inline]
    fn belonging(
        &self,
        table: &TableStore<StampsOf<S>>,
        index: IndexOrdinal,
        entry: &[u8],
        version: VersionPtr<StampsOf<S>>,
    ) -> Result<Option<VersionPtr<StampsOf<S>>>> {
        let belongs = index == IndexOrdinal::PRIMARY
            || table.secondary(index).matches(entry, version.payload(&self.entered.versions))?;
        Ok(belongs.then_some(version))
    }

    /// Reads the row behind an index entry; returns it if the transaction sees a version that belongs to the entry.
    pub(super) fn read_entry(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        index: IndexOrdinal,
        row: RowId,
        entry: &[u8],
        site: ConflictSite,
    ) -> Result<Option<VersionPtr<StampsOf<S>>>> {
        let mut row = row;
        let mut spin = Spin::default();
        let sought = LookupKey { index, entry };
        loop {
            let at = self.observed_from();
            match self.read_row(table, row, sought, site)? {
                RowRead::Live(version) => return self.belonging(table, index, entry, version),
                RowRead::Nothing => return Ok(None),
                RowRead::Gone => match table.index(index).get(&self.entered.nodes, entry) {
                    // Removed since: the transaction comes after the deletion. The leaf is in the leaf set.
                    Lookup { row: None, seen } => {
                        if self.is_observed() && index == IndexOrdinal::PRIMARY {
                            self.trace_missing(table, sought, at)?;
                        }
                        self.follow(seen.removed, site)?;
                        return Ok(None);
                    }
                    Lookup { row: Some(found), .. } => {
                        row = found;
                        spin.wait();
                    }
                },
            }
        }
    }
}
