//! The session's temporary objects: the ends of its transactions, and DISCARD TEMP.

use super::{Session, State};
use crate::{
    bind::names::relation_of,
    catalog::Relation,
    ddl::online::Addition,
    error::{Result, SqlError, SqlState},
    transaction::ActiveTransaction,
};

impl Session {
    /// Does what a transaction that is about to commit does with temporary tables.
    pub(super) fn end_temporary(&mut self, active: &mut ActiveTransaction) -> Result<()> {
        if active.on_commit().is_empty() { Ok(()) } else { self.change_context().end_temporary(active) }
    }

    /// Whether an addition is to a temporary table, which no other session uses meanwhile.
    pub(super) fn is_of_temporary(&self, addition: &Addition<'_>) -> Result<bool> {
        if self.party.temporary.number() == 0 {
            return Ok(false);
        }
        let (schema, own) = relation_of(addition.table().0)?;
        let (catalog, _) = self.seen_catalog()?;
        let found = match schema {
            Some(schema) => catalog.find(&schema, &own),
            None => catalog.find_in(&self.search_path, self.environment.role, &own),
        };
        Ok(matches!(found, Some(Relation::Table(table)) if catalog.is_temporary(table.def.id)))
    }

    /// Drops all temporary objects.
    pub(super) fn discard_temporary(&mut self) -> Result<()> {
        if !matches!(self.state, State::Idle) {
            let message = "DISCARD TEMP cannot run inside a transaction block";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        self.party.temporary.clear();
        Ok(())
    }
}
