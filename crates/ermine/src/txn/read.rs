//! Point reads.

use super::running::{RowRead, Txn};
use crate::{
    access::IndexOrdinal,
    error::{Error, Result},
    ids::TableId,
    index::Lookup,
    scheme::Scheme,
    sync::Spin,
};

impl<S: Scheme> Txn<'_, S> {
    /// The value under a key, as the transaction sees it.
    pub(crate) fn get(&self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>> {
        check_key(key)?;
        let mut operation = self.operation()?;
        let table = self.engine.table(table);
        let place = operation.note(table.id, key);
        let mut spin = Spin::default();
        loop {
            let Lookup { row, seen } = table.primary.get(&operation.entered.nodes, key);
            let read = row.map_or(Ok(RowRead::Nothing), |row| operation.read_row(table, row, place))?;
            match read {
                RowRead::Live(version) => {
                    if let Some(row) = row {
                        operation.state.footprint.last_found.set(table.id, key, row);
                    }
                    return Ok(Some(version.payload(&self.worker().pins)));
                }
                RowRead::Nothing => {
                    operation.saw_leaf(IndexOrdinal::PRIMARY, &seen, place)?;
                    return Ok(None);
                }
                RowRead::Gone => spin.wait(),
            }
        }
    }
}

/// A key of the application's is not longer than the index takes.
pub(super) fn check_key(key: &[u8]) -> Result<()> {
    if key.len() > crate::MAX_KEY_BYTES { Err(Error::KeyTooLong { bytes: key.len() }) } else { Ok(()) }
}
