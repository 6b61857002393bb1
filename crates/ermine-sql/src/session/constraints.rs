//! SET CONSTRAINTS, and what a transaction examines before it ends.

use std::sync::Arc;

use sqlparser::{
    ast,
    parser::{Parser, ParserError},
};

use super::{Session, State};
use crate::{
    bind::{names::relation_of, plain},
    catalog::{Catalog, definition::ForeignKeyDef},
    claims::Deferral,
    error::{Result, SqlError, SqlState},
    exec::Run,
    failure::EngineResult as _,
    result::RowSink,
    transaction::ActiveTransaction,
};

/// When constraints are examined, until the transaction ends.
#[derive(Clone, Debug)]
pub(crate) struct SetConstraints {
    /// `None`: all that are deferrable.
    names: Option<Vec<ast::ObjectName>>,
    is_deferred: bool,
}

impl SetConstraints {
    /// Parses the statement, if it comes next.
    pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        let is_word =
            |parser: &Parser<'_>, at, word: &str| parser.peek_nth_token_ref(at).to_string().eq_ignore_ascii_case(word);
        if !(is_word(parser, 0, "set") && is_word(parser, 1, "constraints")) {
            return Ok(None);
        }
        parser.next_token();
        parser.next_token();
        let names = match is_word(parser, 0, "all") {
            true => {
                parser.next_token();
                None
            }
            false => Some(parser.parse_comma_separated(|parser| parser.parse_object_name(false))?),
        };
        let is_deferred = is_word(parser, 0, "deferred");
        if !is_deferred && !is_word(parser, 0, "immediate") {
            return parser.expected_ref("DEFERRED or IMMEDIATE", parser.peek_token_ref());
        }
        parser.next_token();
        Ok(Some(Self { names, is_deferred }))
    }
}

impl Session {
    /// Runs SET CONSTRAINTS; IMMEDIATE examines what was deferred.
    pub(super) fn set_constraints(&mut self, set: &SetConstraints, rows: &mut dyn RowSink) -> Result<()> {
        if !matches!(self.state, State::Block { is_implicit: false, .. }) {
            let message = "SET CONSTRAINTS can only be used in transaction blocks";
            rows.notice("WARNING", &SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
            return rows.complete("SET CONSTRAINTS");
        }
        let State::Block { active, .. } = &mut self.state else { return Ok(()) };
        let known = active.as_ref().map_or_else(|| self.shared.catalog.current(), |active| active.catalog.clone());
        let keys = set.names.as_ref().map(|names| keys_named(&known, names)).transpose()?;
        let keys = keys.map(|keys| keys.iter().map(|key| key.id).collect());
        // Before the first statement there is no transaction yet.
        let deferral = active.as_mut().map_or(&mut self.deferral, |active| &mut active.deferral);
        let mut changed = deferral.clone();
        changed.set(keys, set.is_deferred);
        if !set.is_deferred {
            self.examine_deferred(&changed)?;
        }
        let State::Block { active, .. } = &mut self.state else { return Ok(()) };
        *active.as_mut().map_or(&mut self.deferral, |active| &mut active.deferral) = changed;
        rows.complete("SET CONSTRAINTS")
    }

    /// Examines what was deferred by foreign keys that are deferred no more. It is examined at the end of the transaction,
    /// too: a rollback to a savepoint may undo what it was decided by.
    fn examine_deferred(&mut self, deferral: &Deferral) -> Result<()> {
        let State::Block { active: Some(active), .. } = &mut self.state else { return Ok(()) };
        if active.renews() {
            active.renew(&self.shared.catalog)?;
        }
        let is_due = |id| active.catalog.foreign_key(id).is_some_and(|key| !deferral.is_deferred(key));
        let due = active.claims().iter().filter(|((id, _), claim)| !claim.is_again && is_due(*id));
        self.environment.memory.begin(self.settings.in_force().work_mem);
        let run = Run::new(&active.txn, &active.catalog, &[], &self.environment, &self.given);
        run.examine_all(due)
    }

    /// Examines what foreign keys need before a transaction ends, with a snapshot of now if its level allows that.
    pub(super) fn settle(&self, active: &mut ActiveTransaction) -> Result<()> {
        if active.claims().is_empty() {
            return Ok(());
        }
        if active.renews() && !active.is_alone {
            active.renew(&self.shared.catalog)?;
        }
        self.environment.memory.begin(self.settings.in_force().work_mem);
        active.txn.certify_reads(true).sql()?;
        Run::new(&active.txn, &active.catalog, &[], &self.environment, &self.given)
            .examine_all(active.claims().iter())?;
        active.txn.certify_reads(false).map(drop).sql()
    }
}

/// Returns the foreign keys of these names.
fn keys_named(catalog: &Catalog, names: &[ast::ObjectName]) -> Result<Vec<Arc<ForeignKeyDef>>> {
    let mut found = Vec::new();
    for name in names {
        let (schema, own) = relation_of(name)?;
        let is_meant = |key: &&Arc<ForeignKeyDef>| {
            let table = catalog.table(key.child);
            key.name == own && schema.as_ref().is_none_or(|schema| table.is_some_and(|it| it.def.schema == *schema))
        };
        let before = found.len();
        found.extend(catalog.foreign_keys().filter(is_meant).cloned());
        if found.len() == before {
            let message = format!("constraint \"{}\" does not exist", plain(name));
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
        if let Some(key) = found[before..].iter().find(|key: &&Arc<ForeignKeyDef>| !key.is_deferrable) {
            let message = format!("constraint \"{}\" is not deferrable", key.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
    }
    Ok(found)
}
