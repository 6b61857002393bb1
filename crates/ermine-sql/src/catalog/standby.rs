//! The catalogs of a standby: they follow the changes of definitions in the log.
//!
//! The original's rows of definitions are replayed like all others; the catalogs in memory are changed with them. No
//! latch is taken: the original has waited for its own transactions only, and those of the standby keep the catalog and
//! the snapshot that they have.
//!
//! Invariants
//! 1. *Catalog and snapshot are of one moment*: a transaction takes both while it shares the gate
//!    ([`CatalogStore::steady`]), and a change of definitions becomes visible, and is published to all databases, while
//!    the gate is closed. A safe snapshot, which may be older, is given up meanwhile.
//! 2. *The catalogs have exactly the stored definitions*: no statement of a standby changes one.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, atomic::Ordering},
};

use ermine::CommittedTransaction;

use super::{
    Catalog, CatalogStore, Change, MAIN_DATABASE, SharedTable, definition::ObjectId, row_of_definition,
    sessions::Party, stored,
};
use crate::{error::Result, failure::EngineResult as _, level::Level, storage::RawKey};

/// Shared by transactions that begin, and closed while a change of definitions is replayed.
#[derive(Default)]
pub(super) struct Gate(RwLock<()>);

/// The changes of a database's definitions, removals first: names may change hands.
#[derive(Default)]
struct Replayed {
    removed: Vec<Change>,
    put: Vec<Change>,
}

impl Replayed {
    fn all(&self) -> Vec<Change> {
        self.removed.iter().chain(&self.put).cloned().collect()
    }

    fn shared(&self) -> Vec<Change> {
        let all = self.removed.iter().chain(&self.put);
        all.filter(|change| change.definition().is_shared()).cloned().collect()
    }
}

impl CatalogStore {
    /// Whether the database is a standby.
    pub(super) fn is_standby(&self) -> bool {
        self.gate.is_some()
    }

    /// On a standby, keeps the current catalog that of the newest snapshot for as long as the result exists.
    pub(crate) fn steady(&self) -> Option<RwLockReadGuard<'_, ()>> {
        self.gate.as_ref().map(|gate| gate.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// On a standby, notes what a session's transaction may see that has just begun, or has a new snapshot.
    pub(crate) fn note_seen(&self, party: &Party, level: Level) {
        if self.is_standby() {
            let is_safe = level == Level::Serializable;
            let seen = if is_safe { self.database.safe_replayed() } else { self.database.shown_below() };
            // Relaxed: for later transactions of the same session.
            party.seen.fetch_max(seen.unwrap_or(0), Ordering::Relaxed);
        }
    }

    /// Makes a transaction of the original visible, by `apply`, and its changes of definitions with it; called for the
    /// first database's store.
    ///
    /// # Errors
    /// Those of `apply`, and for definitions that cannot be read or tables that are not there. Nothing is visible then,
    /// but for a new database: it may be missing where its definition is not.
    pub(crate) fn replay(
        &self,
        transaction: &CommittedTransaction,
        apply: &mut dyn FnMut() -> ermine::Result<()>,
    ) -> ermine::Result<()> {
        let changes = self.replayed(transaction).map_err(ermine::Error::other)?;
        let Some(gate) = self.gate.as_ref().filter(|_| !changes.is_empty()) else { return apply() };
        let next = self.next(&changes).map_err(ermine::Error::other)?;
        let alone = gate.0.write().unwrap_or_else(PoisonError::into_inner);
        apply()?;
        // The safe snapshot has the definitions from before.
        self.database.forget_safe_snapshot();
        next.into_iter().for_each(|(store, catalog)| store.show(catalog));
        self.fill_new(&changes).map_err(ermine::Error::other)?;
        drop(alone);
        self.leave_dropped();
        Ok(())
    }

    /// Returns the changes of definitions of a transaction that is not visible yet, by databases.
    fn replayed(&self, transaction: &CommittedTransaction) -> Result<BTreeMap<ObjectId, Replayed>> {
        let mut changes: BTreeMap<_, Replayed> = BTreeMap::new();
        for change in &transaction.changes {
            let ermine::Change::Row(row) = change else { continue };
            if row.table != self.rows.id() || row_of_definition(&row.key).is_none() {
                continue;
            }
            let Some((RawKey(key), new)) = row.of(&self.rows).sql()? else { continue };
            if let Some(old) = self.database.run(|txn| txn.get(&self.rows, &key[..])).sql()? {
                let (database, definition) = stored::decode(&old)?;
                changes.entry(database).or_default().removed.push(Change::Drop(definition));
            }
            if let Some(new) = new {
                let (database, definition) = stored::decode(&new)?;
                changes.entry(database).or_default().put.push(Change::Put(definition));
            }
        }
        Ok(changes)
    }

    /// Returns the catalogs after changes of definitions.
    fn next(&self, changes: &BTreeMap<ObjectId, Replayed>) -> Result<Vec<(Arc<Self>, Catalog)>> {
        let shared = changes.get(&MAIN_DATABASE).map(Replayed::shared).unwrap_or_default();
        let mut next = Vec::new();
        for store in self.all_databases() {
            let mut own = if store.number == MAIN_DATABASE { Vec::new() } else { shared.clone() };
            own.extend(changes.get(&store.number).map(Replayed::all).unwrap_or_default());
            if own.is_empty() {
                continue;
            }
            // Tables and sequences that stay keep their state.
            let current = store.current();
            let state = |id| current.shared(id).cloned().or_else(|| Some(SharedTable::of_empty(id)));
            let catalog = current.changed(&store.database, &own, &state, Some(&current))?;
            next.push((store, catalog));
        }
        Ok(next)
    }

    /// Makes the stores of databases that are new.
    fn fill_new(&self, changes: &BTreeMap<ObjectId, Replayed>) -> Result<()> {
        for database in self.current().other_databases() {
            if self.of_database(database.id).is_none() {
                let put = changes.get(&database.id).map(|changes| &changes.put[..]).unwrap_or_default();
                self.first().fill(database.id, put.iter().map(|change| change.definition().clone()).collect())?;
            }
        }
        Ok(())
    }

    /// Ends the sessions in databases that are not there any more. Those that have not ended yet see no objects.
    fn leave_dropped(&self) {
        let current = self.current();
        let dropped: Vec<_> = self
            .others()
            .extract_if(.., |number, _| current.database(*number).is_none())
            .map(|(_, store)| store)
            .collect();
        for store in dropped {
            store.close();
            let sessions = current.sessions.all();
            let own = sessions.iter().filter(|session| session.database_number == store.number);
            own.for_each(|session| _ = session.end());
        }
    }
}
