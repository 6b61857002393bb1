//! The transaction of a session: the engine's, the catalog that it sees, and the tables that it uses.

use std::{
    cell::RefCell,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use ermine::{Durability, Isolation, OwnedReceipt, OwnedTransaction, Savepoint, TxnOptions};

use super::settings::Level;
use crate::{
    catalog::{Catalog, CatalogStore, Change, SharedTable, Table, definition::ObjectId},
    error::{Result, SqlError, SqlState},
    failure::of_engine,
};

/// How a transaction was asked to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Modes {
    pub(crate) read_only: bool,
    pub(crate) deferrable: bool,
    pub(crate) is_async: bool,
    pub(crate) level: Level,
}

/// An open transaction.
pub(crate) struct Open {
    pub(crate) txn: OwnedTransaction,
    /// As of its beginning, with its own changes.
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) changes: Vec<Change>,
    /// The version of the catalog at its beginning: its own changes have numbers that others have, too.
    version: u64,
    pub(crate) level: Level,
    /// Its savepoints, by name.
    savepoints: Vec<(String, Point)>,
    /// Last: given back when the transaction has ended, however it did.
    held: RefCell<Held>,
}

/// Where a transaction can be taken back to.
pub(crate) struct Point {
    savepoint: Savepoint,
    catalog: Arc<Catalog>,
    changes: usize,
    /// How many settings it had set.
    settings: usize,
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

/// How long is waited for others, and how often is looked.
pub(crate) struct Patience {
    since: Instant,
    at_most: Duration,
    next: Duration,
}

impl Patience {
    const FIRST: Duration = Duration::from_micros(50);
    const LONGEST: Duration = Duration::from_millis(10);

    pub(crate) fn new(at_most: Duration) -> Self {
        Self { since: Instant::now(), at_most, next: Self::FIRST }
    }

    /// Waits a little longer than the last time; false: long enough now.
    pub(crate) fn wait(&mut self) -> bool {
        std::thread::sleep(self.next.mul_f64(0.5 + fastrand::f64()));
        self.next = (2 * self.next).min(Self::LONGEST);
        self.since.elapsed() < self.at_most
    }
}

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
        let isolation = if modes.level == Level::Serializable { Isolation::Scheme } else { Isolation::Snapshot };
        let options = options.isolation(isolation);
        let txn = database.begin_owned(options).map_err(of_engine)?;
        // Rows with one version know one level.
        let level = if database.scheme().has_versions() { modes.level } else { Level::Serializable };
        let version = catalog.version;
        Ok(Self { txn, catalog, changes: Vec::new(), version, level, savepoints: Vec::new(), held: RefCell::default() })
    }

    /// One that is made anew from what was kept of it: it has read nothing, and nobody else is there.
    pub(crate) fn reopen(store: &CatalogStore, database: &Arc<ermine::Database>) -> Result<Self> {
        let modes = Modes { read_only: false, deferrable: false, is_async: false, level: Level::RepeatableRead };
        Self::begin(store, database, modes)
    }

    /// Whether what it reads is certified.
    pub(crate) fn is_serializable(&self) -> bool {
        self.level == Level::Serializable
    }

    /// The tables that it uses.
    pub(crate) fn used(&self) -> Vec<ObjectId> {
        let held = self.held.borrow();
        let all = held.uses.iter().chain(&held.alone);
        all.filter_map(|own| self.catalog.table_of(own)).map(|table| table.def.id).collect()
    }

    /// Has the tables that it uses alone until its end.
    pub(crate) fn take_used(&mut self, patience: Duration) -> Result<()> {
        for id in self.used() {
            let table = self.catalog.table(id).cloned();
            table.map_or(Ok(()), |table| self.take(&table, patience))?;
        }
        Ok(())
    }

    /// Goes on with the snapshot of now, and the catalog of now, unless it has changed that itself.
    pub(crate) fn renew(&mut self, store: &CatalogStore) -> Result<()> {
        if self.changes.is_empty() {
            // Before the snapshot, as in `begin`.
            self.catalog = store.current();
            self.version = self.catalog.version;
        }
        self.txn.renew_snapshot().map_err(of_engine)
    }

    /// Marks where it can be taken back to, where the session had set so many settings.
    pub(crate) fn point(&self, settings: usize) -> Result<Point> {
        let savepoint = self.txn.savepoint().map_err(of_engine)?;
        Ok(Point { savepoint, catalog: self.catalog.clone(), changes: self.changes.len(), settings })
    }

    /// Takes it back: everything it has written since is undone. Tables that it has used it goes on using.
    pub(crate) fn go_back(&mut self, point: &Point) -> Result<()> {
        self.txn.roll_back_to(point.savepoint).map_err(of_engine)?;
        self.catalog = point.catalog.clone();
        self.changes.truncate(point.changes);
        Ok(())
    }

    /// Forgets where it could be taken back to.
    pub(crate) fn release(&mut self, point: &Point) -> Result<()> {
        self.txn.release(point.savepoint).map_err(of_engine)
    }

    /// SAVEPOINT: of several with a name, the last one counts.
    pub(crate) fn add_savepoint(&mut self, name: String, settings: usize) -> Result<()> {
        let point = self.point(settings)?;
        self.savepoints.push((name, point));
        Ok(())
    }

    /// ROLLBACK TO: later ones are gone; gives how many settings had been set.
    pub(crate) fn go_back_to(&mut self, name: &str) -> Result<usize> {
        let at = self.find_savepoint(name)?;
        self.savepoints.truncate(at + 1);
        self.go_back_to_last().expect("there is one")
    }

    /// A statement has failed: takes the transaction back to its last savepoint, if it has any; gives how many settings had been set.
    pub(crate) fn go_back_to_last(&mut self) -> Option<Result<usize>> {
        let (name, point) = self.savepoints.pop()?;
        let (settings, done) = (point.settings, self.go_back(&point));
        self.savepoints.push((name, point));
        Some(done.map(|()| settings))
    }

    /// RELEASE: it is gone, and later ones.
    pub(crate) fn release_savepoint(&mut self, name: &str) -> Result<()> {
        let at = self.find_savepoint(name)?;
        let (_, point) = self.savepoints.swap_remove(at);
        self.savepoints.truncate(at);
        self.release(&point)
    }

    fn find_savepoint(&self, name: &str) -> Result<usize> {
        self.savepoints
            .iter()
            .rposition(|(own, _)| own == name)
            .ok_or_else(|| SqlError::new(SqlState::INVALID_SAVEPOINT, format!("savepoint \"{name}\" does not exist")))
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

    /// Whether it has done nothing yet: it may as well be another one.
    pub(crate) fn is_fresh(&self) -> bool {
        let held = self.held.borrow();
        held.uses.is_empty() && held.alone.is_empty() && self.changes.is_empty() && self.savepoints.is_empty()
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
