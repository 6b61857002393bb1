//! The parts of a session that changes of the catalog use.

use std::{
    cell::RefCell,
    sync::Arc,
    time::{Duration, Instant},
};

use ermine::{Isolation, OwnedReceipt, TxnOptions};

use super::{
    Completion, Session,
    transaction::{Open, changed, locked},
};
use crate::{
    catalog::{Catalog, Change, Table, definition::RoleDef},
    error::Result,
    exec::{GivenNumbers, sees_all},
    failure::of_engine,
};

impl Session {
    pub(crate) fn search_path(&self) -> &[String] {
        &self.search_path
    }

    pub(crate) fn given(&self) -> &RefCell<GivenNumbers> {
        &self.given
    }

    /// Returns a number that no object has or had.
    pub(crate) fn catalog_number(&self) -> Result<u32> {
        self.shared.catalog.number()
    }

    /// Returns storage for a table or an index, which the transaction will put into a definition.
    pub(crate) fn storage(&self, open: &Open) -> Result<u32> {
        open.storage(&self.shared.catalog)
    }

    /// Takes the name of a relation, or frees it.
    pub(crate) fn take_name(&self, open: &Open, schema: &str, name: &str, is_taken: bool) -> Result<()> {
        if is_taken && !schema.is_empty() {
            self.shared.catalog.use_schema(&open.txn, schema, open.is_serializable())?;
        }
        self.shared.catalog.take_name(&open.txn, schema, name, is_taken)
    }

    /// Takes the name of a role, or frees it.
    pub(crate) fn take_role_name(&self, open: &Open, name: &str, is_taken: bool) -> Result<()> {
        self.shared.catalog.take_role_name(&open.txn, name, is_taken)
    }

    /// Registers that a role is changed or removed, as the transaction sees it.
    pub(crate) fn take_role(&self, open: &Open, known: &RoleDef) -> Result<()> {
        self.shared.catalog.take_role(&open.txn, known)
    }

    /// Registers that a schema is removed, into which no other transaction may put an object meanwhile.
    pub(crate) fn watch_schema(&self, open: &Open, schema: &str) -> Result<()> {
        self.shared.catalog.watch_schema(&open.txn, &open.catalog, schema)
    }

    pub(crate) fn engine(&self) -> &ermine::Database {
        &self.shared.database
    }

    /// Returns all objects as of the last change.
    pub(crate) fn catalog_now(&self) -> Arc<Catalog> {
        self.shared.catalog.current()
    }

    /// Describes in words where definitions and free storage disagree.
    pub(super) fn storage_disagreements(&self) -> Result<Vec<String>> {
        let used = self.catalog_now().tables().iter().flat_map(|table| table.def.storages()).collect();
        self.shared.catalog.storages.disagreements(&self.shared.database, &used)
    }

    /// Describes in words where definitions of roles and the taken names disagree.
    pub(super) fn role_disagreements(&self) -> Result<Vec<String>> {
        self.shared.catalog.role_disagreements()
    }

    /// Begins a separate transaction for the change.
    pub(crate) fn open_change(&mut self) -> Result<Open> {
        self.open(self.modes())
    }

    /// Commits a transaction begun by [`Session::open_change`].
    pub(crate) fn commit_change(&self, open: Open) -> Result<OwnedReceipt> {
        open.commit(&self.shared.catalog)
    }

    /// Returns the completion of a statement outside of transactions, which has ended with this commit.
    pub(crate) fn completion(&self, receipt: Option<OwnedReceipt>) -> Completion {
        Completion { receipt: receipt.filter(|_| !self.modes().is_async) }
    }

    /// Returns the time at which a statement that begins now exceeds its limit.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let millis = self.settings.millis("statement_timeout");
        (millis > 0).then(|| Instant::now() + Duration::from_millis(millis))
    }

    /// Returns a check for a statement that waits for other users of a table: it fails on a cancel request or at a time
    /// limit.
    pub(crate) fn waiting(&self, table: &Table) -> impl FnMut() -> Result<()> {
        let (since, millis) = (Instant::now(), self.settings.millis("lock_timeout"));
        move || {
            self.environment.check()?;
            if millis > 0 && since.elapsed() > Duration::from_millis(millis) {
                return Err(locked(table, "in use"));
            }
            Ok(())
        }
    }

    /// Takes a table exclusively; the transaction sees all its rows, if it has done nothing yet.
    pub(crate) fn take_newest(&self, open: &mut Open, table: &Table) -> Result<()> {
        open.take_newest(&self.shared.catalog, &self.shared.database, table, self.patience())
    }

    /// Fails when another transaction has changed a row since this one began, so that its snapshot lacks the change.
    /// This transaction holds the table exclusively.
    pub(crate) fn check_sees_all(&self, open: &Open, table: &Table) -> Result<()> {
        // Where rows have one version, every transaction sees that one.
        if !self.engine().scheme().has_versions() {
            return Ok(());
        }
        let newest = TxnOptions::read_only().isolation(Isolation::Snapshot);
        let newest = self.shared.database.begin_owned(newest).map_err(of_engine)?;
        let check = || self.environment.check();
        match sees_all(&open.txn, &newest, table, &check)? {
            true => Ok(()),
            false => Err(changed(table.name())),
        }
    }

    /// Makes changes, which the transaction sees at once.
    pub(crate) fn apply(&self, open: &mut Open, changes: Vec<Change>) -> Result<()> {
        open.apply(&self.shared.catalog, &self.shared.database, changes)
    }
}
