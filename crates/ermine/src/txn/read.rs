//! Point reads.

use std::ops::Range;

use super::{
    running::{Entered, Operation, RowRead, Txn},
    trace::LookupKey,
};
use crate::{
    access::{Found, Show},
    durable::read_ahead::{self, Ahead},
    engine::Engine,
    error::{Error, Result},
    ids::{Stamp, TableId},
    index::Lookup,
    rows::chain::VersionPtr,
    scheme::{Certifier, Scheme, StampsOf},
    sync::Spin,
    table::{SIDE_BY_SIDE, TableStore},
    types::KeyList,
    worker::Uncached,
};

impl<S: Scheme> Txn<'_, S> {
    /// Returns the value under a key, as the transaction sees it.
    pub(crate) fn get(&self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>> {
        check_key(key)?;
        let mut operation = self.operation()?;
        let table = self.engine.live_table(table)?;
        let at = operation.observed_from();
        let lookup = table.primary.get(&operation.entered.nodes, key);
        let version = operation.read_key(table, key, lookup, at, None)?;
        Ok(version.map(|version| operation.lend(table.id, version).payload(&self.worker().pins)))
    }

    /// Shows `visit` the value under a key, as the transaction sees it, for the length of the call; returns whether there
    /// is a row.
    pub(crate) fn read(&self, table: TableId, key: &[u8], visit: &mut Show<'_>) -> Result<bool> {
        check_key(key)?;
        let mut operation = self.operation()?;
        let table = self.engine.live_table(table)?;
        let at = operation.observed_from();
        let lookup = table.primary.get(&operation.entered.nodes, key);
        let mut uncached = Uncached::new(self.worker());
        let version = operation.read_key(table, key, lookup, at, Some(&mut uncached));
        // The visitor may use the transaction.
        let _entered = operation.suspend();
        let shown = version?.map(|version| visit(version.payload(&self.worker().pins)));
        Ok(shown.transpose()?.is_some())
    }

    /// Passes the values under several keys to `found`, in the order of the keys.
    ///
    /// A lookup waits for memory three times: for the leaf, for the row's slot, for the version. Here the lookups of a
    /// group take each of these steps together, so that their waits overlap.
    pub(crate) fn get_many<'t>(&'t self, table: TableId, keys: &KeyList, found: &mut Found<'_, 't>) -> Result<()> {
        (0..keys.len()).try_for_each(|at| check_key(keys.key(at)))?;
        let mut operation = self.operation()?;
        let table = self.engine.live_table(table)?;
        let (mut announced, mut ahead) = (0, Ahead::default());
        for first in (0..keys.len()).step_by(SIDE_BY_SIDE) {
            let group = first..keys.len().min(first + SIDE_BY_SIDE);
            let from = operation.observed_from();
            let (lookups, is_cold) = table.look_up(&operation.entered.nodes, keys, group.clone());
            if is_cold && announced < keys.len().min(group.end + read_ahead::ROWS / 2) {
                let next = announced.max(group.start)..keys.len().min(group.end + read_ahead::ROWS);
                announced = next.end;
                self.engine.announce_keys(&operation.entered, table, keys, next, &mut ahead);
            }
            for (at, lookup) in group.zip(lookups) {
                let version = operation.read_key(table, keys.key(at), lookup, from, None)?;
                version.inspect(|version| version.prefetch_payload());
                found(version.map(|version| operation.lend(table.id, version).payload(&self.worker().pins)))?;
            }
        }
        Ok(())
    }

    /// Starts loading the rows under several keys from memory.
    pub(crate) fn prefetch(&self, table: TableId, keys: &KeyList) -> Result<()> {
        let operation = self.operation()?;
        let table = self.engine.live_table(table)?;
        if table.prefetch(&operation.entered.nodes, keys) {
            self.engine.announce_keys(&operation.entered, table, keys, 0..keys.len(), &mut Ahead::default());
        }
        Ok(())
    }
}

impl<S: Scheme> Engine<S> {
    /// Starts loading the rows under several keys from memory, outside of a transaction; does nothing without an idle
    /// worker.
    pub(crate) fn prefetch(&self, table: TableId, keys: &KeyList) {
        let Some(worker) = self.workers.take() else { return };
        let nodes = worker.pins.nodes.enter();
        if let Ok(table) = self.live_table(table)
            && table.prefetch(&nodes, keys)
        {
            let entered = Entered { versions: worker.pins.versions.enter(), nodes: worker.pins.nodes.enter() };
            self.announce_keys(&entered, table, keys, 0..keys.len(), &mut Ahead::default());
        }
        drop(nodes);
        self.workers.give(worker);
    }

    /// Has the device read the rows under some of the keys that are only in files.
    #[cold]
    fn announce_keys(
        &self,
        entered: &Entered<'_>,
        table: &TableStore<StampsOf<S>>,
        keys: &KeyList,
        which: Range<usize>,
        ahead: &mut Ahead,
    ) {
        let Some(store) = &self.store else { return };
        for first in which.clone().step_by(read_ahead::ROWS) {
            let some = first..which.end.min(first + read_ahead::ROWS);
            let groups = some.clone().step_by(SIDE_BY_SIDE).map(|from| from..some.end.min(from + SIDE_BY_SIDE));
            let lookups = groups.flat_map(|group| table.look_up(&entered.nodes, keys, group).0);
            store.announce(table, lookups.filter_map(|lookup| lookup.row), ahead);
        }
    }
}

impl<S: Scheme> Operation<'_, S> {
    /// Notes that a version's value is lent to the application until the transaction ends.
    fn lend(&mut self, table: TableId, version: VersionPtr<StampsOf<S>>) -> VersionPtr<StampsOf<S>> {
        // One that the certifier keeps is known anyway.
        if !S::Certifier::TRACKS || !self.state.tracks || self.state.certifier.reads_whole(table) {
            self.worker.slot.known.add(version.address());
        }
        self.state.has_lent = true;
        version
    }

    /// Returns the version under a key that the transaction sees, if there is a row; `first` is the result of the key's
    /// lookup, which an [observed](Self::observed_from) transaction did from `at` on. `uncached`: the row is to be shown
    /// once.
    fn read_key(
        &mut self,
        table: &TableStore<StampsOf<S>>,
        key: &[u8],
        first: Lookup,
        at: Stamp,
        mut uncached: Option<&mut Uncached<'_, S>>,
    ) -> Result<Option<VersionPtr<StampsOf<S>>>> {
        let site = self.state.sets.note(table.id, key);
        let mut spin = Spin::default();
        let (mut lookup, mut at) = (first, at);
        let sought = LookupKey::primary(key);
        loop {
            let Lookup { row, seen } = lookup;
            if row.is_none() && self.is_observed() {
                self.trace_missing(table, sought, at)?;
            }
            if let (Some(row), Some(uncached)) = (row, &mut uncached)
                && table.rows.slot(row).head().is_none()
                && let Some(version) = self.read_uncached(table, row, sought, site, uncached)?
            {
                self.count_reads(1)?;
                self.state.sets.found(site, row);
                return Ok(Some(version));
            }
            match row.map_or(Ok(RowRead::Nothing), |row| self.read_row(table, row, sought, site))? {
                RowRead::Live(version) => {
                    if let Some(row) = row {
                        self.state.sets.found(site, row);
                    }
                    return Ok(Some(version));
                }
                RowRead::Nothing => {
                    self.missed(&seen, site, key)?;
                    return Ok(None);
                }
                RowRead::Gone => spin.wait(),
            }
            at = self.observed_from();
            lookup = table.primary.get(&self.entered.nodes, key);
        }
    }
}

/// Fails if a key of the application is longer than the index permits.
pub(crate) fn check_key(key: &[u8]) -> Result<()> {
    if key.len() > crate::MAX_KEY_BYTES { Err(Error::KeyTooLong { bytes: key.len() }) } else { Ok(()) }
}
