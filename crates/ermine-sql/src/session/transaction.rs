//! The transaction of a session: the engine's, the catalog that it sees, and the tables that it uses.

use std::{
    cell::RefCell,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use ermine::{Durability, OwnedReceipt, OwnedTransaction, TxnOptions};

use crate::{
    catalog::{Catalog, CatalogStore, Change, SharedTable, Table},
    error::{Result, SqlError, SqlState},
    failure::of_engine,
};

/// How a transaction was asked to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Modes {
    pub(crate) read_only: bool,
    pub(crate) deferrable: bool,
    pub(crate) is_async: bool,
}

/// An open transaction.
pub(crate) struct Open {
    pub(crate) txn: OwnedTransaction,
    /// As of its beginning, with its own changes.
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) changes: Vec<Change>,
    /// The version of the catalog at its beginning: its own changes have numbers that others have, too.
    version: u64,
    /// Last: given back when the transaction has ended, however it did.
    held: RefCell<Held>,
}

/// Latches: of tables that it shares, and of those that it has alone.
#[derive(Default)]
struct Held {
    uses: Vec<Arc<SharedTable>>,
    alone: Vec<Arc<SharedTable>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.alone.iter().for_each(|table| table.latch.give_back());
        self.uses.iter().for_each(|table| table.latch.unshare());
    }
}

impl Held {
    fn has(&self, table: &Table) -> bool {
        self.uses.iter().chain(&self.alone).any(|own| Arc::ptr_eq(own, &table.shared))
    }
}

/// How long is waited for others where nothing is said: longer waits are taken for deadlocks.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

impl Open {
    pub(crate) fn begin(store: &CatalogStore, database: &Arc<ermine::Database>, modes: Modes) -> Result<Self> {
        // Before the snapshot: a change that comes in between is found by `share`.
        let catalog = store.current();
        let options = match modes {
            Modes { read_only: true, deferrable: true, .. } if database.scheme().has_snapshots() => {
                TxnOptions::snapshot()
            }
            Modes { read_only: true, .. } => TxnOptions::read_only(),
            Modes { is_async: true, .. } => TxnOptions::default().durability(Durability::Async),
            _ => TxnOptions::default(),
        };
        let txn = database.begin_owned(options).map_err(of_engine)?;
        let version = catalog.version;
        Ok(Self { txn, catalog, changes: Vec::new(), version, held: RefCell::default() })
    }

    /// Uses tables until its end; false: one of them has been changed since it began.
    pub(crate) fn share(&self, tables: &[Arc<Table>], patience: Duration) -> Result<bool> {
        for table in tables {
            let mut held = self.held.borrow_mut();
            if held.has(table) {
                continue;
            }
            if !table.shared.latch.share(patience) {
                let message =
                    format!("canceling statement due to lock timeout: table \"{}\" is being changed", table.name());
                return Err(SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message));
            }
            held.uses.push(table.shared.clone());
            if self.is_outdated(table) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a table has been changed since the transaction began.
    fn is_outdated(&self, table: &Table) -> bool {
        // Acquire: pairs with the release of `publish`, which whoever has the latch comes after.
        table.shared.changed.load(Ordering::Acquire) > self.version
    }

    /// Whether it has used no table yet.
    pub(crate) fn is_fresh(&self) -> bool {
        let held = self.held.borrow();
        held.uses.is_empty() && held.alone.is_empty()
    }

    /// Has a table alone until its end, to change what it is.
    pub(crate) fn take(&mut self, table: &Table, patience: Duration) -> Result<()> {
        let held = self.held.get_mut();
        if held.alone.iter().any(|own| Arc::ptr_eq(own, &table.shared)) {
            return Ok(());
        }
        let own = held.has(table);
        if !table.shared.latch.take(own.into(), patience) {
            let message = format!("canceling statement due to lock timeout: table \"{}\" is in use", table.name());
            let hint = "A transaction that uses the table is open; end it, or set lock_timeout.";
            return Err(SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message).hint(hint));
        }
        held.alone.push(table.shared.clone());
        if self.is_outdated(table) { Err(changed(table.name())) } else { Ok(()) }
    }

    /// Makes changes of the catalog, which the transaction sees at once.
    pub(crate) fn apply(
        &mut self,
        store: &CatalogStore,
        database: &Arc<ermine::Database>,
        changes: Vec<Change>,
    ) -> Result<()> {
        store.write(&self.txn, &changes)?;
        self.catalog = Arc::new(self.catalog.with(database, &changes)?);
        self.changes.extend(changes);
        Ok(())
    }

    /// Commits. Changes of the catalog are shown to all when it returns; of everything the receipt tells when it is durable.
    pub(crate) fn commit(self, store: &CatalogStore) -> Result<OwnedReceipt> {
        let Self { txn, changes, held, .. } = self;
        let receipt = txn.commit_async().map_err(of_engine)?;
        if !changes.is_empty() {
            store.publish(&changes)?;
        }
        drop(held);
        Ok(receipt)
    }

    /// Rolls back, as dropping does.
    pub(crate) fn rollback(self) {}
}

/// A table has been changed since the transaction began.
pub(crate) fn changed(name: &str) -> SqlError {
    let message = format!("could not serialize access: table \"{name}\" was changed by a concurrent transaction");
    SqlError::new(SqlState::SERIALIZATION_FAILURE, message).hint("The transaction might succeed if retried.")
}
