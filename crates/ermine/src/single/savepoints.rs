//! Rollback to a savepoint.
//!
//! The transaction keeps its claims. A row that it has written since the savepoint gets back the value that the
//! transaction had for it at the savepoint, or else the value in its record, which the transaction reads then; the row
//! is written with that value at the commit. Its unique keys were checked when the transaction had this value before.

use super::{
    pending::Write,
    running::{Operation, Txn},
    write::Request,
};
use crate::{
    access::{OwnWrite, Put, RowLock},
    error::{Error, Result},
    ids::{TableId, Tid},
    rows::copies::Copied,
    savepoints::{Mark, Savepoint},
    scheme::in_place::InPlace,
};

/// A value that one of the writes had before.
pub(crate) struct Replaced {
    pub(crate) write: usize,
    pub(crate) value: Option<Copied>,
}

impl<P: InPlace> Txn<'_, P> {
    /// Sets a savepoint.
    pub(crate) fn savepoint(&self) -> Result<Savepoint> {
        let mut operation = self.operation()?;
        let state = &mut *operation.state;
        let (writes, entries) = (state.sets.writes.len(), state.sets.entries.len());
        Ok(state.savepoints.add(Mark { writes, entries, log_bytes: 0, trace: 0 }))
    }

    /// Undoes all writes since the savepoint.
    pub(crate) fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let mut operation = self.operation()?;
        let mark = operation.state.savepoints.go_back(savepoint)?;
        operation.undo_since(mark)
    }

    /// Releases a savepoint and those after it.
    pub(crate) fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        self.operation()?.state.savepoints.release(savepoint)
    }

    /// Refuses: rows that the transaction has read may change until it commits.
    pub(crate) fn prepare(&self) -> Result<bool> {
        self.operation().map(|_| false)
    }

    /// Returns none: conflicts do not name transactions.
    pub(crate) fn tid(&self) -> Result<Option<Tid>> {
        self.operation().map(|_| None)
    }

    /// Fails: the log has no single order.
    pub(crate) fn position(&self) -> Result<u64> {
        Err(Error::Options("positions in the log under a single-version scheme, whose log has no single order".into()))
    }

    /// Calls `each` with every row that the transaction has written, and its value.
    pub(crate) fn writes(&self, each: &mut OwnWrite<'_>) -> Result<()> {
        let operation = self.operation()?;
        for write in &operation.state.sets.writes {
            let key = operation.state.sets.key(write.site);
            let value = write.value.map(|value| value.bytes(&operation.nodes));
            each(&self.engine.tables.get(write.site.table).name(), key, value)?;
        }
        Ok(())
    }

    /// Returns `Free`: conflicts of a write are not known before it is tried.
    pub(crate) fn row_lock(&self, table: TableId, _: &[u8]) -> Result<RowLock> {
        self.engine.tables.live(table)?;
        self.operation().map(|_| RowLock::Free)
    }

    /// Returns true: a row has one version.
    pub(crate) fn sees_newest(&self, table: TableId) -> Result<bool> {
        self.engine.tables.live(table)?;
        self.operation().map(|_| true)
    }

    /// Does nothing: every transaction is serializable.
    pub(crate) fn renew_snapshot(&mut self) -> Result<()> {
        self.operation().map(drop)
    }
}

impl<P: InPlace> Operation<'_, P> {
    fn undo_since(&mut self, mark: Mark) -> Result<()> {
        let mut back = Vec::new();
        while let Some(replaced) = self.state.savepoints.pop_replaced() {
            if replaced.write < mark.writes {
                back.push(replaced);
            }
        }
        for Replaced { write, value } in back {
            self.write_again(write, value)?;
        }
        for at in mark.writes..self.state.sets.writes.len() {
            let Write { record, site, .. } = self.state.sets.writes[at];
            let (_, value) = self.read_record(record, site, true)?;
            self.write_again(at, value)?;
        }
        // Values that this rollback has replaced do not belong to the savepoint.
        while self.state.savepoints.pop_replaced().is_some() {}
        Ok(())
    }

    /// Replaces the value of a row that the transaction writes.
    fn write_again(&mut self, at: usize, value: Option<Copied>) -> Result<()> {
        let Write { site, indexes, .. } = self.state.sets.writes[at];
        let key: Box<[u8]> = self.state.sets.key(site).into();
        let value = value.map(|value| value.bytes(&self.nodes).to_vec());
        let table = self.engine.tables.get(site.table);
        let request = Request { table, key: &key, value: value.as_deref(), how: Put::Upsert, site, indexes };
        self.write_back(&request, at)
    }
}
