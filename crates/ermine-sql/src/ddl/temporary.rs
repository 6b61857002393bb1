//! Temporary objects: in which schema they are created, and what the end of a transaction does with their rows.

use std::ops::ControlFlow;

use ermine::OwnedTransaction;
use sqlparser::ast::{self, ObjectName};

use super::context::ChangeContext;
use crate::{
    bind::names::relation_of,
    catalog::{
        Change,
        definition::{Definition, ObjectId, SchemaDef},
        rights::{Kind, Object, Rights, no_right_to},
        temporary::{self, OnCommit, is_temporary},
    },
    error::{Result, SqlError, SqlState},
    failure::EngineResult as _,
    storage::{RawKey, RawRange, RawTable},
    transaction::ActiveTransaction,
};

/// Rows that are deleted at a time.
const BATCH: usize = 256;

impl ChangeContext<'_> {
    /// Returns the schema in which a new relation is created, and its name. A temporary one has the session's schema,
    /// which comes with the first.
    pub(super) fn place_of_new(
        &self,
        active: &mut ActiveTransaction,
        name: &ObjectName,
        is_temporary: bool,
    ) -> Result<(String, String)> {
        if !self.is_for_temporary(name, is_temporary)? {
            return self.place_of(active, name);
        }
        let (schema, own) = relation_of(name)?;
        let known = active.catalog.temporary_schema().map(str::to_owned);
        if let Some(schema) = schema.filter(|schema| !is_own(schema, known.as_deref())) {
            return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist")));
        }
        let schema = match known {
            Some(known) => known,
            None => {
                let name = temporary::new_schema();
                let def = SchemaDef { id: self.catalog_number()?, name: name.clone() };
                self.apply(active, vec![Change::Put(Definition::Schema(def))])?;
                name
            }
        };
        Ok((schema, own))
    }

    /// Whether a new relation is temporary, by its name or by its statement.
    fn is_for_temporary(&self, name: &ObjectName, says_so: bool) -> Result<bool> {
        match relation_of(name)?.0 {
            Some(schema) if is_temporary(&schema) => Ok(true),
            Some(_) if says_so => {
                let message = "cannot create temporary relation in non-temporary schema";
                Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
            }
            None => Ok(says_so || self.search_path.first().is_some_and(|schema| is_temporary(schema))),
            _ => Ok(says_so),
        }
    }

    /// Fails if the role may not create a relation of a name.
    pub(super) fn check_creates_new(
        &self,
        active: &ActiveTransaction,
        name: &ObjectName,
        is_temporary: bool,
    ) -> Result<()> {
        if !self.is_for_temporary(name, is_temporary)? {
            return self.check_creates(active, name);
        }
        let database = Object::new(Kind::Database, active.catalog.number);
        match active.catalog.has_any(self.environment.role, database, Rights::TEMPORARY) {
            true => Ok(()),
            false => {
                let error = no_right_to("database", &self.environment.database);
                let message = format!(
                    "permission denied to create temporary tables in database \"{}\"",
                    self.environment.database
                );
                Err(SqlError::new(error.state(), message))
            }
        }
    }

    /// Sets what the ends of transactions do with a new table.
    pub(super) fn ends_with(
        &self,
        active: &mut ActiveTransaction,
        table: ObjectId,
        on_commit: Option<ast::OnCommit>,
    ) -> Result<()> {
        let what = match on_commit {
            None => return Ok(()),
            Some(_) if !active.catalog.is_temporary(table) => {
                let message = "ON COMMIT can only be used on temporary tables";
                return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
            }
            Some(ast::OnCommit::PreserveRows) => return Ok(()),
            Some(ast::OnCommit::DeleteRows) => OnCommit::DeleteRows,
            Some(ast::OnCommit::Drop) => OnCommit::Drop,
        };
        active.set_on_commit(table, what);
        Ok(())
    }

    /// Fails unless a foreign key's tables are both temporary, or neither is.
    pub(super) fn check_alike(&self, active: &ActiveTransaction, child: ObjectId, parent: ObjectId) -> Result<()> {
        let is_temporary = |id| active.catalog.is_temporary(id);
        if is_temporary(child) == is_temporary(parent) {
            return Ok(());
        }
        let kind = if is_temporary(child) { "temporary" } else { "permanent" };
        let message = format!("constraints on {kind} tables may reference only {kind} tables");
        Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
    }

    /// Fails if an object would come into a schema of temporary objects, or leave it.
    pub(super) fn check_moves(&self, from: &str, to: &str) -> Result<()> {
        if is_temporary(from) || is_temporary(to) {
            let message = "cannot move objects into or out of temporary schemas";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        Ok(())
    }

    /// Does what a transaction that is about to commit does with temporary tables.
    pub(crate) fn end_temporary(&self, active: &mut ActiveTransaction) -> Result<()> {
        for (id, what) in active.on_commit() {
            let Some(table) = active.catalog.table(id).cloned() else { continue };
            match what {
                OnCommit::DeleteRows => {
                    for rows in table.indexes.iter().chain([&table.rows]) {
                        delete_all(&active.txn, rows)?;
                    }
                }
                OnCommit::Drop => self.drop_with_all(active, &table.def)?,
            }
        }
        Ok(())
    }
}

/// Whether a name of a schema stands for the session's own.
fn is_own(schema: &str, own: Option<&str>) -> bool {
    schema == "pg_temp" || Some(schema) == own
}

/// Deletes all rows of a table of the engine.
pub(super) fn delete_all(txn: &OwnedTransaction, rows: &RawTable) -> Result<()> {
    loop {
        let mut keys = Vec::new();
        txn.scan(rows, RawRange::default())
            .limit(BATCH)
            .for_each(|RawKey(key), _| {
                keys.push(key);
                Ok(ControlFlow::Continue(()))
            })
            .sql()?;
        if keys.is_empty() {
            return Ok(());
        }
        keys.iter().try_for_each(|key| txn.delete(rows, &key[..]).map(drop)).sql()?;
    }
}
