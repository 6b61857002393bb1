//! Point reads.

use super::{
    engine::Engine,
    running::{Operation, RowRead, TableOf, Txn},
};
use crate::{
    access::Found,
    error::Result,
    ids::{IndexOrdinal, Stamp, TableId},
    index::Lookup,
    rows::copies::Copied,
    scheme::in_place::InPlace,
    sync::Spin,
    table::SIDE_BY_SIDE,
    txn::check_key,
    types::KeyList,
};

impl<P: InPlace> Txn<'_, P> {
    /// Returns the value under a key, as the transaction sees it.
    pub(crate) fn get(&self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>> {
        check_key(key)?;
        let mut operation = self.operation()?;
        let table = self.engine.tables.live(table)?;
        operation.begin_read(table, key)?;
        let at = operation.observed_from();
        let lookup = table.primary.get(&operation.nodes, key);
        let value = operation.read_key(table, key, lookup, at)?;
        Ok(value.map(|value| value.bytes(self)))
    }

    /// Returns the values under several keys, in their order; their records are loaded from memory side by side.
    pub(crate) fn get_many<'t>(&'t self, table: TableId, keys: &KeyList, found: &mut Found<'_, 't>) -> Result<()> {
        (0..keys.len()).try_for_each(|at| check_key(keys.key(at)))?;
        let mut operation = self.operation()?;
        let table = self.engine.tables.live(table)?;
        for first in (0..keys.len()).step_by(SIDE_BY_SIDE) {
            let group = first..keys.len().min(first + SIDE_BY_SIDE);
            group.clone().try_for_each(|at| operation.begin_read(table, keys.key(at)))?;
            let from = operation.observed_from();
            for (at, lookup) in group.clone().zip(table.look_up(&operation.nodes, keys, group).0) {
                let value = operation.read_key(table, keys.key(at), lookup, from)?;
                found(value.map(|value| value.bytes(self)))?;
            }
        }
        Ok(())
    }

    /// Starts loading the records under several keys from memory.
    pub(crate) fn prefetch(&self, table: TableId, keys: &KeyList) -> Result<()> {
        let operation = self.operation()?;
        self.engine.tables.live(table)?.prefetch(&operation.nodes, keys);
        Ok(())
    }
}

impl<P: InPlace> Engine<P> {
    /// Starts loading the records under several keys from memory, outside of a transaction; does nothing without an
    /// idle worker.
    pub(crate) fn prefetch(&self, table: TableId, keys: &KeyList) {
        let Some(worker) = self.workers.take() else { return };
        let nodes = worker.nodes.enter();
        if let Ok(table) = self.tables.live(table) {
            table.prefetch(&nodes, keys);
        }
        drop(nodes);
        self.workers.give(worker);
    }
}

impl<P: InPlace> Operation<'_, P> {
    /// Called before the transaction looks up a key.
    #[inline]
    fn begin_read(&mut self, table: &TableOf<P>, key: &[u8]) -> Result<()> {
        if !P::PARTITIONS {
            return Ok(());
        }
        let site = self.state.sets.note(table.id, key);
        self.reach_key(table, key, false, site)
    }

    /// Returns the value under a key, if there is a row; `first` is the result of its lookup, which an observed
    /// transaction did from `at` on.
    #[inline]
    fn read_key(&mut self, table: &TableOf<P>, key: &[u8], first: Lookup, at: Stamp) -> Result<Option<Copied>> {
        let site = self.state.sets.note(table.id, key);
        let (mut lookup, mut at, mut spin) = (first, at, Spin::default());
        loop {
            let Lookup { row, seen } = lookup;
            match row.map_or(Ok(RowRead::Nothing), |row| self.read_row(table, row, key, site))? {
                RowRead::Row(value) => {
                    row.inspect(|&row| self.state.sets.found(site, row));
                    return Ok(Some(value));
                }
                RowRead::Nothing => {
                    if row.is_none() {
                        self.check_declared(table, Some(key), None, false)?;
                    }
                    if self.saw_leaf(IndexOrdinal::PRIMARY, &seen, site)? {
                        if row.is_none() && self.is_observed() {
                            self.trace_missing(table, key, at);
                        }
                        return Ok(None);
                    }
                }
                RowRead::Gone => spin.wait(),
            }
            at = self.observed_from();
            lookup = table.primary.get(&self.nodes, key);
        }
    }
}
