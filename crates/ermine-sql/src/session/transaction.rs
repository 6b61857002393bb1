//! The transaction of a session: the engine's, the catalog that it sees, and the tables that it uses.

use std::{
    cell::RefCell,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use ermine::{Durability, OwnedReceipt, OwnedTransaction, TxnOptions};

use crate::{
    catalog::{Catalog, CatalogStore, Change, SharedTable, Table, definition::ObjectId, latch::Share, storages::Taken},
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
    /// How many storages had become free when it began.
    free_storages: u64,
    taken: RefCell<Option<Taken>>,
    /// Last: given back when the transaction has ended, however it did.
    held: RefCell<Held>,
}

/// Latches: of tables that it shares, and of those that it has alone.
#[derive(Default)]
struct Held {
    uses: Vec<(Arc<SharedTable>, Share)>,
    alone: Vec<Changing>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.alone.iter().for_each(|table| table.0.latch.give_back());
        self.uses.iter().for_each(|(table, share)| table.latch.unshare(*share));
    }
}

impl Held {
    fn uses(&self, table: &Table) -> bool {
        self.uses.iter().any(|(own, _)| Arc::ptr_eq(own, &table.shared))
    }

    fn has_alone(&self, table: &Table) -> bool {
        self.alone.iter().any(|own| Arc::ptr_eq(&own.0, &table.shared))
    }
}

/// A table that nobody else changes as long as this is there.
pub(crate) struct Changing(Arc<SharedTable>);

impl Changing {
    /// Waits for others who change the table, as long as `go_on` is well with it.
    pub(crate) fn begin(table: &Table, go_on: &mut dyn FnMut() -> Result<()>) -> Result<Self> {
        table.shared.latch.change(go_on)?;
        Ok(Self(table.shared.clone()))
    }

    /// Waits until all have ended who use the table now.
    pub(crate) fn outlast(&self, go_on: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.0.latch.outlast(go_on)
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.0.latch.end_change();
    }
}

/// How long is waited for others where nothing is said: longer waits are taken for deadlocks.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

impl Open {
    pub(crate) fn begin(store: &CatalogStore, database: &Arc<ermine::Database>, modes: Modes) -> Result<Self> {
        // Before the snapshot: a change that comes in between is found by `share`.
        let (catalog, free_storages) = (store.current(), store.storages.count());
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
        let (taken, held) = (RefCell::default(), RefCell::default());
        Ok(Self { txn, catalog, changes: Vec::new(), version, free_storages, taken, held })
    }

    /// Storage for a table or an index, which the transaction will put into a definition: a number of an empty table of the engine.
    pub(crate) fn storage(&self, store: &CatalogStore) -> Result<ObjectId> {
        store.storages.take(&self.txn, self.free_storages, &mut self.taken.borrow_mut(), || store.number())
    }

    /// Uses tables until its end; false: one of them has been changed since it began.
    pub(crate) fn share(&self, tables: &[Arc<Table>], patience: Duration) -> Result<bool> {
        for table in tables {
            let mut held = self.held.borrow_mut();
            if held.uses(table) || held.has_alone(table) {
                continue;
            }
            let Some(share) = table.shared.latch.share(patience) else {
                return Err(locked(table, "being changed"));
            };
            held.uses.push((table.shared.clone(), share));
            if self.is_outdated(table) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a table has been changed since the transaction began.
    fn is_outdated(&self, table: &Table) -> bool {
        // SeqCst: after the latch (`latch`, invariant 2).
        table.shared.changed.load(Ordering::SeqCst) > self.version
    }

    /// Whether it has used no table yet.
    pub(crate) fn is_fresh(&self) -> bool {
        let held = self.held.borrow();
        held.uses.is_empty() && held.alone.is_empty()
    }

    /// Has a table alone until its end, to change what it is.
    pub(crate) fn take(&mut self, table: &Table, patience: Duration) -> Result<()> {
        let held = self.held.get_mut();
        if held.has_alone(table) {
            return Ok(());
        }
        let since = Instant::now();
        let changing = Changing::begin(table, &mut || match since.elapsed() > patience {
            true => Err(locked(table, "being changed")),
            false => Ok(()),
        })?;
        if !table.shared.latch.take(held.uses(table).into(), patience.saturating_sub(since.elapsed())) {
            let hint = "A transaction that uses the table is open; end it, or set lock_timeout.";
            return Err(locked(table, "in use").hint(hint));
        }
        held.alone.push(changing);
        if self.is_outdated(table) { Err(changed(table.name())) } else { Ok(()) }
    }

    /// Makes changes of the catalog, which the transaction sees at once.
    pub(crate) fn apply(
        &mut self,
        store: &CatalogStore,
        database: &Arc<ermine::Database>,
        changes: Vec<Change>,
    ) -> Result<()> {
        store.write(&self.txn, &self.catalog, &changes)?;
        self.catalog = Arc::new(self.catalog.with(database, &changes)?);
        self.changes.extend(changes);
        Ok(())
    }

    /// Commits. Changes of the catalog are shown to all when it returns; of everything the receipt tells when it is durable.
    pub(crate) fn commit(self, store: &CatalogStore) -> Result<OwnedReceipt> {
        let Self { txn, changes, taken, held, .. } = self;
        let receipt = txn.commit_async().map_err(of_engine)?;
        taken.into_inner().into_iter().for_each(Taken::keep);
        let dropped = if changes.is_empty() { Vec::new() } else { store.publish(&changes)? };
        drop(held);
        dropped.into_iter().for_each(|storage| store.storages.dropped(storage));
        Ok(receipt)
    }

    /// Rolls back, as dropping does.
    pub(crate) fn rollback(self) {}
}

/// A table was not to be had in time.
pub(crate) fn locked(table: &Table, why: &str) -> SqlError {
    let message = format!("canceling statement due to lock timeout: table \"{}\" is {why}", table.name());
    SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message)
}

/// A table has been changed since the transaction began.
pub(crate) fn changed(name: &str) -> SqlError {
    let message = format!("could not serialize access: table \"{name}\" was changed by a concurrent transaction");
    SqlError::new(SqlState::SERIALIZATION_FAILURE, message).hint("The transaction might succeed if retried.")
}
