//! The parts of a session that changes of the catalog use.

use std::{cell::RefCell, sync::Arc, time::Duration};

use ermine::OwnedReceipt;

use crate::{
    catalog::{
        Catalog, CatalogStore, Change, Table,
        definition::{ColumnDef, DefaultDef, RoleDef, SequenceDef},
        sessions::Party,
        temporary::is_temporary,
    },
    error::{Result, SqlError},
    exec::SessionState,
    failure::EngineResult as _,
    transaction::{ActiveTransaction, Following, Limits, Modes, TableWait, changed},
    types::{Environment, user_types::UserType},
};

/// The parts of a session that changes of the catalog use.
pub(crate) struct ChangeContext<'s> {
    pub(crate) database: &'s Arc<ermine::Database>,
    pub(crate) store: &'s CatalogStore,
    pub(crate) environment: &'s Environment,
    pub(crate) search_path: &'s [String],
    pub(crate) given: &'s RefCell<SessionState>,
    /// Of transactions that a change begins itself.
    pub(crate) modes: Modes,
    pub(crate) following: Following,
    /// How long the statement waits for the other users of a table; `None`: without a limit.
    pub(crate) at_most: Option<Duration>,
    pub(crate) party: &'s Party,
    /// Whether the client has begun a transaction block.
    pub(crate) is_in_block: bool,
}

impl ChangeContext<'_> {
    /// Returns a number that no object has or had.
    pub(crate) fn catalog_number(&self) -> Result<u32> {
        self.store.number()
    }

    /// Returns the first of consecutive numbers that no object has or had.
    pub(crate) fn catalog_numbers(&self, count: u32) -> Result<u32> {
        self.store.numbers(count)
    }

    /// Returns a relation file for a table or an index, which the transaction will put into a definition.
    pub(crate) fn relation_file(&self, active: &ActiveTransaction, schema: &str) -> Result<u32> {
        active.relation_file(self.store, schema)
    }

    /// Makes sure that a schema stays.
    pub(crate) fn use_schema(&self, active: &ActiveTransaction, schema: &str) -> Result<()> {
        match is_temporary(schema) {
            true => Ok(()),
            false => self.store.use_schema(&active.txn, schema, active.is_serializable()),
        }
    }

    /// Takes the name of a relation, or frees it.
    pub(crate) fn take_name(&self, active: &ActiveTransaction, schema: &str, name: &str, is_taken: bool) -> Result<()> {
        if is_temporary(schema) {
            return Ok(());
        }
        if is_taken && !schema.is_empty() {
            self.store.use_schema(&active.txn, schema, active.is_serializable())?;
        }
        self.store.take_name(&active.txn, schema, name, is_taken)
    }

    /// Takes the name of a type, or frees it.
    pub(crate) fn take_type_name(
        &self,
        active: &ActiveTransaction,
        schema: &str,
        name: &str,
        is_taken: bool,
    ) -> Result<()> {
        if is_taken {
            self.store.use_schema(&active.txn, schema, active.is_serializable())?;
        }
        self.store.take_type_name(&active.txn, schema, name, is_taken)
    }

    /// Makes sure that the transaction knows the newest definition of a type.
    pub(crate) fn check_type(&self, active: &ActiveTransaction, known: &UserType) -> Result<()> {
        self.store.check_type(&active.txn, known)
    }

    /// Takes the name of a role, or frees it.
    pub(crate) fn take_role_name(&self, active: &ActiveTransaction, name: &str, is_taken: bool) -> Result<()> {
        self.store.take_role_name(&active.txn, name, is_taken)
    }

    /// Registers that a role is changed or removed, as the transaction sees it.
    pub(crate) fn take_role(&self, active: &ActiveTransaction, known: &RoleDef) -> Result<()> {
        self.store.take_role(&active.txn, known)
    }

    /// Makes sure that the transaction changes the newest definition of a sequence.
    pub(crate) fn check_sequence(&self, active: &ActiveTransaction, known: &SequenceDef) -> Result<()> {
        if is_temporary(&known.schema) { Ok(()) } else { self.store.check_sequence(&active.txn, known) }
    }

    /// Registers that a schema is removed, into which no other transaction may put an object meanwhile.
    pub(crate) fn watch_schema(&self, active: &ActiveTransaction, schema: &str) -> Result<()> {
        self.store.watch_schema(&active.txn, &active.catalog, schema)
    }

    /// Returns all objects as of the last change.
    pub(crate) fn catalog_now(&self) -> Arc<Catalog> {
        self.store.current()
    }

    /// Begins a separate transaction for the change.
    pub(crate) fn open_change(&self) -> Result<ActiveTransaction> {
        ActiveTransaction::begin(self.store, self.database, self.modes, self.following.clone())
    }

    /// Commits a transaction begun by [`ChangeContext::open_change`].
    pub(crate) fn commit_change(&self, active: ActiveTransaction) -> Result<OwnedReceipt> {
        active.commit(self.store)
    }

    /// Returns the limits of its waits.
    pub(crate) fn limits(&self) -> Limits<'_> {
        Limits { at_most: self.at_most, interrupt: &self.environment.interrupt }
    }

    /// Returns a wait for other users of a table.
    pub(crate) fn waiting<'w>(&'w self, table: &'w Table) -> TableWait<'w> {
        TableWait::new(self.party, self.limits(), table.def.id, table.name())
    }

    /// Takes tables exclusively; the transaction sees all their rows, if it has done nothing yet.
    pub(crate) fn take_newest(
        &self,
        active: &mut ActiveTransaction,
        tables: &[Arc<Table>],
        limits: Limits<'_>,
    ) -> Result<()> {
        active.take_newest(self.store, self.database, tables, limits)
    }

    /// Fails when another transaction has changed a row since this one began, so that its snapshot lacks the change.
    /// This transaction holds the table exclusively.
    pub(crate) fn check_sees_all(&self, active: &ActiveTransaction, table: &Table) -> Result<()> {
        let mut checked = Ok(());
        let sees_newest = active.txn.sees_newest(&table.rows, || {
            checked = self.environment.check();
            checked.is_ok()
        });
        let sees_newest = sees_newest.sql()?;
        checked?;
        if sees_newest { Ok(()) } else { Err(changed(table.name())) }
    }

    /// Makes changes, which the transaction sees at once.
    pub(crate) fn apply(&self, active: &mut ActiveTransaction, mut changes: Vec<Change>) -> Result<()> {
        changes.iter().try_for_each(|change| check_draws(active, change))?;
        changes.extend(self.uses_of_types(active, &changes)?);
        changes.extend(self.owners_of_new(active, &changes)?);
        active.apply(self.store, self.database, changes)
    }
}

/// Fails for a table that would draw numbers from a temporary sequence after the end of the session.
fn check_draws(active: &ActiveTransaction, change: &Change) -> Result<()> {
    let Some(def) = change.table_after().filter(|def| !is_temporary(&def.schema)) else { return Ok(()) };
    let draws =
        |column: &ColumnDef| matches!(column.default, Some(DefaultDef::NextOf(id)) if active.catalog.is_temporary(id));
    match def.columns.iter().any(draws) {
        true => Err(SqlError::unsupported("a default of a permanent table with the numbers of a temporary sequence")),
        false => Ok(()),
    }
}
