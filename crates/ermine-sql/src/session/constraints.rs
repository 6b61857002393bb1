//! SET CONSTRAINTS.

use std::sync::Arc;

use sqlparser::{
    ast,
    parser::{Parser, ParserError},
};

use super::{Session, State};
use crate::{
    bind::{names::relation_of, plain},
    catalog::{Catalog, definition::ForeignKeyDef},
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
        let active = self.in_block("SET CONSTRAINTS")?;
        let keys = set.names.as_ref().map(|names| keys_named(&active.catalog, names)).transpose()?;
        active.deferral.set(keys.map(|keys| keys.iter().map(|key| key.id).collect()), set.is_deferred);
        if !set.is_deferred {
            self.examine_deferred()?;
        }
        rows.complete("SET CONSTRAINTS")
    }

    /// Examines what was deferred by foreign keys that are deferred no more.
    fn examine_deferred(&mut self) -> Result<()> {
        let State::Block { active: Some(active), .. } = &mut self.state else { return Ok(()) };
        let ActiveTransaction { claims, catalog, deferral, .. } = &mut **active;
        let is_due = |id| catalog.foreign_key(id).is_some_and(|key: &Arc<ForeignKeyDef>| !deferral.is_deferred(key));
        let due: Vec<_> = claims
            .iter()
            .filter(|((id, _), claim)| !claim.is_again && is_due(*id))
            .map(|(key, _)| key.clone())
            .collect();
        let due: crate::claims::Claims = due.into_iter().filter_map(|key| claims.remove_entry(&key)).collect();
        let examines_again = active.examines_again();
        self.environment.memory.begin(self.settings.in_force().work_mem);
        let run = Run::new(&active.txn, &active.catalog, &[], &self.environment, &self.given);
        if !examines_again {
            active.txn.certify_reads(true).sql()?;
        }
        let examined = run.examine_all(due.clone());
        drop(run);
        if !examines_again {
            // A transaction that has lost a conflict says so itself.
            let _ = active.txn.certify_reads(false);
        }
        examined?;
        if examines_again {
            active.claims.extend(due.into_iter().map(|(key, mut claim)| {
                claim.is_again = true;
                (key, claim)
            }));
        }
        Ok(())
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
