//! Statements about the session itself: transactions, settings, statements with names.

use std::sync::Arc;

use sqlparser::ast::{self, Set, Statement};

use super::{
    ActiveTransaction, Completion, Extent, Modes, Prepared, Session, State, in_failed,
    named::not_prepared,
    now,
    role::{AUTHORIZATION, ROLE},
    tree::{Tree, TwoPhase},
};
use crate::{
    bind::{
        Binder,
        names::{name_of, parts_of, type_of},
        parts::written,
    },
    catalog::sessions::About,
    configuration::ServerOption,
    cursors::Cursors,
    ddl::{database::DatabaseTree, table_as::TableAsTree},
    error::{Result, SqlError, SqlState},
    exec::Run,
    expr::Frame,
    level::Level,
    parameters::{Parameter, shown_name},
    result::{Column, RowSink},
    synchronous::Synchronous,
    types::{SqlType, Value},
};

/// Maximum number of statements that EXECUTE runs one inside the other.
const EXECUTIONS_MAX: u32 = 8;

/// Whether a statement may be run in a transaction that has failed.
pub(super) fn ends_transaction(tree: &Tree) -> bool {
    match tree {
        Tree::Plain(statement) => matches!(**statement, Statement::Commit { .. } | Statement::Rollback { .. }),
        Tree::TwoPhase(what, _) => *what == TwoPhase::Prepare,
        Tree::Comment(_)
        | Tree::Constraints(_)
        | Tree::Copy(_)
        | Tree::Do(_)
        | Tree::Extension(_)
        | Tree::Fetch(_)
        | Tree::Lacking(_)
        | Tree::Database(_)
        | Tree::Maintenance(_)
        | Tree::Modes(_)
        | Tree::Object(_)
        | Tree::Publication(_)
        | Tree::Rights(_)
        | Tree::Role(_)
        | Tree::Sequence(_)
        | Tree::System(_)
        | Tree::Refresh(_)
        | Tree::TableAs(_)
        | Tree::Type(_)
        | Tree::View(_) => false,
    }
}

/// Returns the columns of the result of such a statement; fails if it is no such statement.
pub(super) fn columns(statement: &Statement) -> Result<Option<Vec<Column>>> {
    let text = |name: &str| Column::new(name, SqlType::TEXT);
    Ok(match statement {
        Statement::ShowVariable { variable } => match &*setting_name(variable) {
            "all" => Some(vec![text("name"), text("setting"), text("description")]),
            name => Some(vec![text(shown_name(name))]),
        },
        Statement::Commit { .. }
        | Statement::Rollback { .. }
        | Statement::Savepoint { .. }
        | Statement::ReleaseSavepoint { .. }
        | Statement::Set(_)
        | Statement::Reset(_)
        | Statement::Discard { .. }
        | Statement::Prepare { .. }
        | Statement::Execute { .. }
        | Statement::Deallocate { .. }
        | Statement::Close { .. }
        | Statement::LISTEN { .. }
        | Statement::UNLISTEN { .. }
        | Statement::NOTIFY { .. }
        | Statement::Vacuum(_)
        | Statement::Analyze(_) => None,
        other => {
            let text = other.to_string();
            let words: Vec<_> = text.split_whitespace().take(2).collect();
            return Err(SqlError::unsupported(words.join(" ")));
        }
    })
}

fn setting_name(variable: &[ast::Ident]) -> String {
    let words: Vec<_> = variable.iter().map(|word| word.value.to_lowercase()).collect();
    match words.iter().map(|word| &**word).collect::<Vec<_>>()[..] {
        ["time", "zone"] => "timezone".into(),
        ["transaction", "isolation", "level"] => "transaction_isolation".into(),
        ["session", "authorization"] => "session_authorization".into(),
        _ => words.join("."),
    }
}

fn no_handler() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "no handler for this statement")
}

fn not_a_query() -> SqlError {
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, "prepared statement is not a SELECT")
}

fn warn_of_no_transaction(rows: &mut dyn RowSink) {
    warn(rows, SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
}

impl Session {
    /// Runs such a statement.
    pub(super) fn control(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        rows: &mut dyn RowSink,
    ) -> Result<Completion> {
        let Some(tree) = &prepared.tree else { return Ok(Completion::default()) };
        if matches!(self.state, State::Failed { .. }) && !ends_transaction(tree) {
            return Err(in_failed());
        }
        self.check_in_recovery(tree)?;
        let statement = match tree {
            Tree::Plain(statement) => &**statement,
            Tree::TwoPhase(what, gid) => return self.two_phase(*what, gid, rows),
            Tree::Database(tree) => return self.change_database(tree, rows),
            Tree::Maintenance(what) => return self.maintain(what, prepared.columns(), rows),
            Tree::Fetch(fetch) => {
                self.fetch(fetch, prepared.columns(), rows)?;
                return Ok(Completion::default());
            }
            Tree::Modes(modes) => {
                self.transaction_modes(modes, rows)?;
                return Ok(Completion::default());
            }
            Tree::Constraints(set) => {
                self.set_constraints(set, rows)?;
                return Ok(Completion::default());
            }
            Tree::Do(tree) => return self.run_block(tree, rows),
            Tree::Extension(tree) => {
                self.extension(tree, rows)?;
                return Ok(Completion::default());
            }
            Tree::System(tree) => {
                self.alter_system(tree, rows)?;
                return Ok(Completion::default());
            }
            Tree::TableAs(create) => return self.create_as_executed(create, parameters, rows),
            Tree::Comment(_)
            | Tree::Copy(_)
            | Tree::Lacking(_)
            | Tree::Object(_)
            | Tree::Publication(_)
            | Tree::Rights(_)
            | Tree::Role(_)
            | Tree::Sequence(_)
            | Tree::Refresh(_)
            | Tree::Type(_)
            | Tree::View(_) => {
                return Ok(Completion::default());
            }
        };
        self.control_statement(statement, prepared, parameters, rows)
    }

    fn control_statement(
        &mut self,
        statement: &Statement,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        rows: &mut dyn RowSink,
    ) -> Result<Completion> {
        match statement {
            Statement::Commit { chain, .. } => return self.commit_block(*chain, rows),
            Statement::Savepoint { name } => {
                self.savepoint(name_of(name))?;
                rows.complete("SAVEPOINT")?;
            }
            Statement::ReleaseSavepoint { name } => {
                self.in_block("RELEASE SAVEPOINT")?.release_savepoint(&name_of(name))?;
                rows.complete("RELEASE")?;
            }
            Statement::Rollback { savepoint: Some(name), .. } => {
                self.roll_back_to(&name_of(name))?;
                rows.complete("ROLLBACK")?;
            }
            Statement::Rollback { chain, .. } => return self.roll_back_block(*chain, rows),
            Statement::Set(set) => {
                self.set_statement(set, rows)?;
                rows.complete("SET")?;
            }
            Statement::Reset(reset) => self.reset(&reset.reset, rows)?,
            Statement::ShowVariable { variable } => self.show(&setting_name(variable), prepared, rows)?,
            Statement::Discard { object_type } => self.discard(object_type, rows)?,
            Statement::Prepare { name, data_types, statement } => {
                self.prepare_named(prepared, &name_of(name), data_types, statement)?;
                rows.complete("PREPARE")?;
            }
            Statement::Explain { statement: executed, .. } => {
                let Statement::Execute { name, parameters: given, .. } = &**executed else { return Err(no_handler()) };
                let (named, values) = self.executed(name.as_ref(), given, parameters)?;
                self.executions += 1;
                let done = self.explain_named(statement, &named, &values, rows);
                self.executions -= 1;
                return done;
            }
            Statement::Execute { name, parameters: given, .. } => {
                let (named, values) = self.executed(name.as_ref(), given, parameters)?;
                if named.is_empty() {
                    rows.complete("EXECUTE")?;
                    return Ok(Completion::default());
                }
                let _held = self.hold_parameters(&values)?;
                // Its columns may have been announced when it was prepared.
                let is_simple = std::mem::replace(&mut self.is_simple, false);
                let began = now();
                self.executions += 1;
                let done = self.execute_inside(&named, &values, rows);
                self.executions -= 1;
                self.is_simple = is_simple;
                self.ran(&named, (began, now()), done.is_ok());
                return done;
            }
            Statement::Deallocate { name, .. } => {
                let name = name_of(name);
                let tag = if name == "all" {
                    self.named.clear();
                    "DEALLOCATE ALL"
                } else {
                    if !self.remove_statement(name.as_bytes()) {
                        return Err(not_prepared(&name));
                    }
                    "DEALLOCATE"
                };
                rows.complete(tag)?;
            }
            Statement::Close { cursor } => self.close(cursor, rows)?,
            Statement::LISTEN { .. } | Statement::UNLISTEN { .. } | Statement::NOTIFY { .. } => {
                return self.note(statement, rows);
            }
            // The engine reclaims old versions automatically, and keeps no statistics.
            Statement::Vacuum(_) => rows.complete("VACUUM")?,
            Statement::Analyze(_) => rows.complete("ANALYZE")?,
            _ => return Err(no_handler()),
        }
        Ok(Completion::default())
    }

    fn commit_block(&mut self, chain: bool, rows: &mut dyn RowSink) -> Result<Completion> {
        let chained = self.chained(chain, "COMMIT AND CHAIN")?;
        let tag = match self.state {
            State::Idle => {
                warn_of_no_transaction(rows);
                "COMMIT"
            }
            // A failed transaction is rolled back, and the tag says so.
            State::Failed { .. } => "ROLLBACK",
            State::Block { .. } => "COMMIT",
        };
        let done = self.end_block(true)?;
        self.begin_chained(chained);
        rows.complete(tag)?;
        Ok(done)
    }

    /// Returns the modes of the block that a chained one follows; `None`: none follows.
    fn chained(&self, chain: bool, what: &str) -> Result<Option<Modes>> {
        match self.state {
            _ if !chain => Ok(None),
            State::Block { modes, is_implicit: false, .. } | State::Failed { modes, is_implicit: false, .. } => {
                Ok(Some(modes))
            }
            _ => {
                let message = format!("{what} can only be used in transaction blocks");
                Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message))
            }
        }
    }

    fn begin_chained(&mut self, modes: Option<Modes>) {
        if let Some(mut modes) = modes {
            // SET LOCAL has ended with the block before.
            modes.synchronous = self.modes().synchronous;
            self.state = State::Block { active: None, modes, is_implicit: false };
        }
    }

    fn roll_back_block(&mut self, chain: bool, rows: &mut dyn RowSink) -> Result<Completion> {
        let chained = self.chained(chain, "ROLLBACK AND CHAIN")?;
        if matches!(self.state, State::Idle) {
            warn_of_no_transaction(rows);
        }
        let done = self.end_block(false)?;
        self.begin_chained(chained);
        rows.complete("ROLLBACK")?;
        Ok(done)
    }

    fn reset(&mut self, what: &ast::Reset, rows: &mut dyn RowSink) -> Result<()> {
        match what {
            ast::Reset::ALL => {
                let names: Vec<_> = self.settings.all().map(|(name, _)| name.to_owned()).collect();
                for name in names.into_iter().filter(|name| name != ROLE && name != AUTHORIZATION) {
                    // Settings that cannot be changed keep their values.
                    let _ = self.set_one(&name, None, self.extent(false));
                }
            }
            ast::Reset::ConfigurationParameter(name) => {
                self.set_one(&parts_of(name)?.join(".").to_lowercase(), None, self.extent(false))?;
            }
            ast::Reset::SessionAuthorization => self.set_one(AUTHORIZATION, None, self.extent(false))?,
        }
        rows.complete("RESET")
    }

    fn discard(&mut self, what: &ast::DiscardObject, rows: &mut dyn RowSink) -> Result<()> {
        let is_all = matches!(what, ast::DiscardObject::ALL);
        if is_all && !matches!(self.state, State::Idle) {
            let message = "DISCARD ALL cannot run inside a transaction block";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        self.plans.clear();
        if is_all || matches!(what, ast::DiscardObject::TEMP) {
            self.discard_temporary()?;
        }
        if is_all || matches!(what, ast::DiscardObject::SEQUENCES) {
            let given = self.given.get_mut();
            given.by_sequence.clear();
            given.last = None;
        }
        if is_all {
            self.named.clear();
            self.held.open.clear();
            self.registered.unlisten();
            self.registered.release_locks();
            self.settings = super::Settings::new(
                &self.authenticated.0,
                &self.shared.database,
                self.registered.configuration().current(),
            );
            self.after_settings();
        }
        rows.complete(&format!("DISCARD {what}"))
    }

    /// Gives a statement a name; its runs are counted by the entry of the PREPARE, as in PostgreSQL.
    fn prepare_named(
        &mut self,
        prepare: &Prepared,
        name: &str,
        types: &[ast::DataType],
        statement: &Statement,
    ) -> Result<()> {
        self.check_new_statement(name)?;
        let seen = self.types();
        self.see_types(&seen);
        let types = types.iter().map(|ty| Ok(Some(type_of(ty, &self.environment)?.0))).collect::<Result<Vec<_>>>()?;
        let held = self.hold_tree(&statement.to_string())?;
        let mut bound = Prepared { _held: held, ..self.bind(Tree::Plain(Box::new(statement.clone())), &types)? };
        if !bound.bound.plan.is_preparable() {
            let message = "only SELECT, INSERT, UPDATE, DELETE and VALUES can be prepared";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        bound.uses = match prepare.text.is_empty() {
            true => self.uses_of(bound.bound.plan.words()),
            false => prepare.uses.clone(),
        };
        let prepared = self.planned(bound);
        self.name_prepared(name, prepared);
        Ok(())
    }

    /// Returns the statement that EXECUTE names, and its arguments.
    fn executed(
        &mut self,
        name: Option<&ast::ObjectName>,
        given: &[ast::Expr],
        parameters: &[Value],
    ) -> Result<(Arc<Prepared>, Vec<Value>)> {
        // A statement of the protocol may be EXECUTE, also of itself.
        if self.executions == EXECUTIONS_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded"));
        }
        let name = name.map(parts_of).transpose()?.unwrap_or_default().join(".");
        let named = self.named_statement(&name)?;
        let values = self.arguments(&named, given, parameters)?;
        Ok((named, values))
    }

    /// Runs EXPLAIN EXECUTE, as the same statement with the one that has the name in its place.
    fn explain_named(
        &mut self,
        explain: &Statement,
        named: &Prepared,
        values: &[Value],
        rows: &mut dyn RowSink,
    ) -> Result<Completion> {
        let (mut explain, Some(Tree::Plain(inner))) = (explain.clone(), &named.tree) else {
            return Err(SqlError::unsupported("EXPLAIN EXECUTE of this statement"));
        };
        if let Statement::Explain { statement, .. } = &mut explain {
            statement.clone_from(inner);
        }
        let _held = self.hold_parameters(values)?;
        let types: Vec<_> = named.bound.parameters.iter().copied().map(Some).collect();
        let held = self.hold_tree(&explain.to_string())?;
        let bound = self.bind(Tree::Plain(Box::new(explain)), &types).map_err(SqlError::nowhere)?;
        self.execute_inside(&Arc::new(Prepared { _held: held, ..bound }), values, rows)
    }

    /// Runs CREATE TABLE AS EXECUTE, as the same statement with the query in its place.
    fn create_as_executed(
        &mut self,
        create: &TableAsTree,
        parameters: &[Value],
        rows: &mut dyn RowSink,
    ) -> Result<Completion> {
        let Some((name, given)) = &create.execute else { return Ok(Completion::default()) };
        let named = self.named_statement(&name_of(name))?;
        let query = match &named.tree {
            Some(Tree::Plain(statement)) => match &**statement {
                Statement::Query(query) if written(query).is_none() => query,
                _ => return Err(not_a_query()),
            },
            _ => return Err(not_a_query()),
        };
        let values = self.arguments(&named, given, parameters)?;
        let _held = self.hold_parameters(&values)?;
        let types: Vec<_> = named.bound.parameters.iter().copied().map(Some).collect();
        let held = self.hold_tree(&query.to_string())?;
        let bound = Prepared {
            _held: held,
            ..self.bind(Tree::TableAs(create.with_query(query)), &types).map_err(SqlError::nowhere)?
        };
        self.execute_inside(&Arc::new(bound), &values, rows)
    }

    /// Runs CREATE, ALTER or DROP DATABASE.
    fn change_database(&mut self, tree: &DatabaseTree, rows: &mut dyn RowSink) -> Result<Completion> {
        if !matches!(self.state, State::Idle) {
            let message = format!("{} cannot run inside a transaction block", tree.words());
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        let receipt = self.change_context().change_database(tree, rows)?;
        rows.complete(tree.words())?;
        Ok(Completion { receipt: self.modes().synchronous.waits_for(receipt) })
    }

    /// Prepares the transaction, or ends a prepared one.
    fn two_phase(&mut self, what: TwoPhase, gid: &str, rows: &mut dyn RowSink) -> Result<Completion> {
        if what != TwoPhase::Prepare && !matches!(self.state, State::Idle) {
            let message = format!("{} cannot run inside a transaction block", what.words());
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        if what != TwoPhase::Prepare {
            self.check_finishes(gid)?;
        }
        let (shared, mut receipt) = (self.shared.clone(), None);
        match what {
            TwoPhase::Commit => receipt = Some(shared.prepared.commit(gid, &shared.catalog)?),
            TwoPhase::RollBack => shared.prepared.roll_back(gid)?,
            TwoPhase::Prepare => match self.state {
                State::Block { is_implicit: false, .. } => self.prepare_transaction(gid)?,
                _ => {
                    if matches!(self.state, State::Idle) {
                        warn_of_no_transaction(rows);
                    }
                    let done = self.end_block(false)?;
                    rows.complete("ROLLBACK")?;
                    return Ok(done);
                }
            },
        }
        rows.complete(what.words())?;
        Ok(Completion { receipt: self.modes().synchronous.waits_for(receipt) })
    }

    /// Fails for a prepared transaction of another role.
    fn check_finishes(&self, gid: &str) -> Result<()> {
        let catalog = self.shared.catalog.current();
        let about = catalog.sessions.prepared().get(gid).cloned();
        if about.as_ref().is_some_and(|about| about.database_number != catalog.number) {
            let message = "prepared transaction belongs to another database";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .hint("Connect to the database where the transaction was prepared to finish it."));
        }
        let owner = about.map(|about| about.owner);
        if owner.is_none_or(|owner| owner == *self.environment.user) || catalog.is_superuser(self.environment.role) {
            return Ok(());
        }
        let message = "permission denied to finish prepared transaction";
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
            .hint("Must be superuser or the user that prepared the transaction."))
    }

    fn prepare_transaction(&mut self, gid: &str) -> Result<()> {
        self.in_block(TwoPhase::Prepare.words())?;
        let State::Block { active: Some(mut active), .. } = std::mem::replace(&mut self.state, State::Idle) else {
            unreachable!("it was begun just now");
        };
        let unfit = match () {
            () if !active.cursors.take_held().is_empty() => Some("created a cursor WITH HOLD"),
            () if active.has_temporary() => Some("operated on temporary objects"),
            () if !self.given.get_mut().notes.is_empty() => Some("executed LISTEN, UNLISTEN, or NOTIFY"),
            () => None,
        };
        active.cursors = Cursors::default();
        let about = self.shared.catalog.number().map(|number| About {
            number: number.into(),
            owner: self.environment.user.to_string(),
            database: self.environment.database.to_string(),
            database_number: self.shared.catalog.number,
            prepared: now(),
        });
        let prepared = match self.settle(&mut active) {
            Ok(()) if let Some(what) = unfit => {
                let message = format!("cannot PREPARE a transaction that has {what}");
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
            Ok(()) => {
                active.leaves(&self.shared.catalog);
                about.and_then(|about| self.shared.prepared.prepare(gid, active, about))
            }
            Err(error) => Err(active.fail(error)),
        };
        // A transaction that was not prepared is rolled back, and the block is over.
        self.end_settings(prepared.is_ok());
        prepared
    }

    /// Returns the transaction of the block, and begins it if necessary.
    pub(super) fn in_block(&mut self, what: &str) -> Result<&mut ActiveTransaction> {
        match self.state {
            State::Block { is_implicit: false, .. } => self.in_transaction(),
            _ => Err(not_in_block(what)),
        }
    }

    /// Returns the transaction of the statements, whichever of them it comprises, and begins it if necessary.
    pub(super) fn in_transaction(&mut self) -> Result<&mut ActiveTransaction> {
        let (modes, begins) = match &self.state {
            State::Block { modes, active, .. } => (*modes, active.is_none()),
            _ => return Err(in_failed()),
        };
        let begun = if begins { Some(Box::new(self.open(modes)?)) } else { None };
        let State::Block { active, .. } = &mut self.state else { unreachable!("looked at above") };
        Ok(match begun {
            Some(begun) => active.insert(begun),
            None => active.as_mut().expect("it has begun"),
        })
    }

    fn savepoint(&mut self, name: String) -> Result<()> {
        let marks = self.marks();
        self.in_block("SAVEPOINT")?.add_savepoint(name, marks)
    }

    /// Rolls the transaction back to a savepoint, from which it continues, even if it has failed.
    pub(super) fn roll_back_to(&mut self, name: &str) -> Result<()> {
        let marks = match &mut self.state {
            State::Failed { active: Some(active), .. } => active.go_back_to(name)?,
            State::Failed { active: None, is_implicit: false, .. } => {
                let message = format!("the transaction is over, with its savepoints: \"{name}\" is gone");
                return Err(SqlError::new(SqlState::IN_FAILED_SQL_TRANSACTION, message).hint(
                    "It had none, or lost a conflict that a savepoint does not help against: end it, and try it again.",
                ));
            }
            _ => self.in_block("ROLLBACK TO SAVEPOINT")?.go_back_to(name)?,
        };
        self.state = match std::mem::replace(&mut self.state, State::Idle) {
            State::Failed { active, modes, is_implicit } => State::Block { active, modes, is_implicit },
            other => other,
        };
        self.given.get_mut().notes.go_back(marks.notes);
        if self.settings.go_back(marks.settings) {
            self.after_settings();
        }
        let synchronous = self.modes().synchronous;
        if let State::Block { modes, .. } = &mut self.state {
            modes.synchronous = synchronous;
        }
        Ok(())
    }

    fn set_statement(&mut self, set: &Set, rows: &mut dyn RowSink) -> Result<()> {
        match set {
            Set::SingleAssignment { scope, variable, values, .. } => {
                let is_local = matches!(scope, Some(ast::ContextModifier::Local));
                if is_local && matches!(self.state, State::Idle) {
                    warn(rows, SqlState::NO_ACTIVE_SQL_TRANSACTION, "SET LOCAL can only be used in transaction blocks");
                    return Ok(());
                }
                let name = parts_of(variable)?.join(".").to_lowercase();
                let value = match &values[..] {
                    [value] if is_word(value, &["default"]) => None,
                    values => Some(values.iter().map(setting_value).collect::<Vec<_>>().join(", ")),
                };
                self.set_one(&name, value.as_deref(), self.extent(is_local))
            }
            Set::SetRole { context_modifier, role_name } => {
                self.set_role(context_modifier.as_ref(), role_name.as_ref(), rows)
            }
            Set::SetSessionAuthorization(authorization) => self.set_authorization(authorization, rows),
            Set::SetTimeZone { value, local } => {
                let value = (!is_word(value, &["default", "local"])).then(|| setting_value(value));
                self.set_one("timezone", value.as_deref(), self.extent(*local))
            }
            Set::SetNames { charset_name, .. } => {
                self.set_one("client_encoding", Some(&charset_name.value), self.extent(false))
            }
            other => Err(SqlError::unsupported(format_args!("{other}"))),
        }
    }

    /// Returns how long a value lasts that a statement sets.
    pub(super) fn extent(&self, is_local: bool) -> Extent {
        match self.state {
            State::Idle => Extent::Session,
            _ if is_local => Extent::Local,
            _ => Extent::Transaction,
        }
    }

    /// Sets a setting and updates the state that depends on it.
    pub(super) fn set_one(&mut self, name: &str, value: Option<&str>, extent: Extent) -> Result<()> {
        let name = if name == "time zone" { "timezone" } else { name };
        if self.set_if_role(name, value, extent)? {
            return Ok(());
        }
        if Parameter::named(name).is_some_and(|parameter| parameter.is_of_superusers())
            && !self.shared.catalog.current().is_superuser(self.environment.role)
        {
            let message = format!("permission denied to set parameter \"{name}\"");
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        if name == "timezone" {
            // Checks that the zone exists before it is set.
            crate::types::datetime::find_zone(value.unwrap_or("UTC"))?;
        }
        self.settings.set(name, value, extent)?;
        if let (State::Block { modes, active: None, .. }, "transaction_read_only") = (&mut self.state, name) {
            modes.read_only = self.settings.is_on(name);
        }
        if let (State::Block { modes, active: None, .. }, "transaction_deferrable") = (&mut self.state, name) {
            modes.deferrable = self.settings.is_on(name);
        }
        if let (State::Block { modes, active: None, .. }, "transaction_isolation", Some(value)) =
            (&mut self.state, name, value)
        {
            modes.level = self.settings.level_of(value)?;
        }
        if name == "synchronous_commit"
            && let State::Block { modes, .. } = &mut self.state
        {
            modes.synchronous = self.settings.get(name).map_or(modes.synchronous, Synchronous::of);
        }
        self.after_settings();
        Ok(())
    }

    fn show(&mut self, name: &str, prepared: &Prepared, rows: &mut dyn RowSink) -> Result<()> {
        let text = |text: &str| Value::Text(text.into());
        rows.columns(prepared.columns().unwrap_or_default())?;
        if name == "all" {
            for (name, value) in self.settings.all() {
                let description = Parameter::named(name).map_or("", |parameter| parameter.description);
                rows.row(&[text(shown_name(name)), text(value), text(description)])?;
            }
            let configured = self.registered.configuration().current();
            for option in configured.options.values().filter(|option| self.may_see(option)) {
                rows.row(&[text(&option.name), text(&option.shown()), text(&option.description)])?;
            }
        } else {
            let value = match (name, &self.state) {
                ("transaction_read_only", State::Block { modes, .. }) => {
                    Some(if modes.read_only { "on" } else { "off" })
                }
                ("transaction_deferrable", State::Block { modes, .. }) => {
                    Some(if modes.deferrable { "on" } else { "off" })
                }
                ("transaction_isolation", State::Block { modes, .. }) => Some(modes.level.name()),
                _ => self.settings.get(name),
            };
            let configured = self.registered.configuration().current();
            let option = configured.options.get(name).filter(|_| value.is_none());
            if let Some(option) = option
                && !self.may_see(option)
            {
                let message = format!("must be superuser to examine \"{name}\"");
                return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
            }
            let shown = option.map(ServerOption::shown);
            let missing = || {
                let message = format!("unrecognized configuration parameter \"{name}\"");
                SqlError::new(SqlState::UNDEFINED_OBJECT, message)
            };
            let value = text(value.or(shown.as_deref()).ok_or_else(missing)?);
            rows.row(&[value])?;
        }
        rows.complete("SHOW")
    }

    /// Whether the role of the session may see the value of an option of the server.
    fn may_see(&self, option: &ServerOption) -> bool {
        !option.is_private || self.shared.catalog.current().is_superuser(self.environment.role)
    }

    /// Returns the values of EXECUTE.
    fn arguments(&self, named: &Prepared, given: &[ast::Expr], parameters: &[Value]) -> Result<Vec<Value>> {
        if given.len() != named.bound.parameters.len() {
            let message = "wrong number of parameters for prepared statement";
            let detail = format!("Expected {} parameters but got {}.", named.bound.parameters.len(), given.len());
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).detail(detail));
        }
        if given.is_empty() {
            return Ok(Vec::new());
        }
        // The values come from functions. On a standby, a safe snapshot for them would have to be waited for.
        let level = match self.shared.database.is_standby() {
            true => Level::RepeatableRead,
            false => self.modes().level,
        };
        let modes = Modes { read_only: true, level, ..self.modes() };
        let active = ActiveTransaction::begin(&self.shared.catalog, &self.shared.database, modes, self.following())?;
        let mut run = Run::new(&active.txn, &active.catalog, parameters, &self.environment, &self.given);
        let number = match &self.state {
            State::Block { active: Some(block), .. } => block.number(),
            _ => active.number(),
        };
        (run.session, run.lock_timeout) = (Some((&*self.party, number)), self.limits().at_most);
        let mut values = Vec::new();
        for (expr, ty) in given.iter().zip(&named.bound.parameters) {
            let mut binder = Binder::new(&active.catalog, &self.environment, &self.search_path, &[]);
            let typed = binder.expr(expr)?;
            let bound = binder.assign(typed, *ty, -1, "parameter")?;
            binder.denial().map_or(Ok(()), Err)?;
            values.push(bound.eval(&Frame { row: &[], outer: None }, &run)?.into_owned());
        }
        Ok(values)
    }
}

pub(super) fn not_in_block(what: &str) -> SqlError {
    let message = format!("{what} can only be used in transaction blocks");
    SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message)
}

pub(super) fn warn(rows: &mut dyn RowSink, state: SqlState, message: &str) {
    rows.notice("WARNING", &SqlError::new(state, message));
}

/// Whether a value that is set is one of some words, which are in lower case.
fn is_word(value: &ast::Expr, words: &[&str]) -> bool {
    matches!(value, ast::Expr::Identifier(ident) if ident.quote_style.is_none() && words.contains(&&*name_of(ident)))
}

/// Returns the text of a value that is set.
fn setting_value(value: &ast::Expr) -> String {
    match value {
        ast::Expr::Value(value) => value.value.clone().into_string().unwrap_or_else(|| value.to_string()),
        ast::Expr::Identifier(ident) => name_of(ident),
        ast::Expr::Interval(interval) => setting_value(&interval.value),
        other => other.to_string(),
    }
}
