//! SET ROLE and SET SESSION AUTHORIZATION: the role whose rights the session has.
//!
//! Both are settings, so that a rollback undoes them. A setting has the name of a role; the number that the name had
//! when it was set is kept, because another role may get the name. Plans are made for one role
//! ([`super::statement::MadeFor`]).

use sqlparser::ast::{self, SetSessionAuthorizationParam, SetSessionAuthorizationParamKind as Kind};

use super::{Extent, Session, State, utility::warn};
use crate::{
    bind::names::name_of,
    catalog::{definition::ObjectId, roles::NO_ROLE},
    error::{Result, SqlError, SqlState},
    result::RowSink,
};

/// The setting of SET ROLE.
pub(super) const ROLE: &str = "role";
/// The setting of SET SESSION AUTHORIZATION.
pub(super) const AUTHORIZATION: &str = "session_authorization";
/// The value of `role` if it is that of the session.
const NONE: &str = "none";

impl Session {
    /// Runs SET ROLE; no name: NONE.
    pub(super) fn set_role(
        &mut self,
        scope: Option<&ast::ContextModifier>,
        name: Option<&ast::Ident>,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let Some(extent) = self.extent_of(scope, rows) else { return Ok(()) };
        self.set_one(ROLE, Some(&name.map_or_else(|| NONE.into(), name_of)), extent)
    }

    /// Runs SET SESSION AUTHORIZATION.
    pub(super) fn set_authorization(
        &mut self,
        SetSessionAuthorizationParam { scope, kind }: &SetSessionAuthorizationParam,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let Some(extent) = self.extent_of(Some(scope), rows) else { return Ok(()) };
        let name = match kind {
            Kind::Default => None,
            Kind::User(name) => Some(name_of(name)),
        };
        self.set_one(AUTHORIZATION, name.as_deref(), extent)
    }

    /// Returns how long a value lasts; `None`: it cannot be set for a transaction, as there is none.
    fn extent_of(&self, scope: Option<&ast::ContextModifier>, rows: &mut dyn RowSink) -> Option<Extent> {
        let is_local = matches!(scope, Some(ast::ContextModifier::Local));
        if is_local && matches!(self.state, State::Idle) {
            let message = "SET LOCAL can only be used in transaction blocks";
            warn(rows, SqlState::NO_ACTIVE_SQL_TRANSACTION, message);
            return None;
        }
        Some(self.extent(is_local))
    }

    /// Sets one of the two settings, if the session may; returns false for any other setting.
    pub(super) fn set_if_role(&mut self, setting: &str, value: Option<&str>, extent: Extent) -> Result<bool> {
        let denied = |what: String| SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, what);
        let (catalog, _) = self.seen_catalog()?;
        match (setting, value) {
            (ROLE, Some(name)) if !name.eq_ignore_ascii_case(NONE) => {
                let number = self.number_of(name)?;
                if !catalog.is_member(self.environment.login, number) {
                    return Err(denied(format!("permission denied to set role \"{name}\"")));
                }
                self.roles_set.insert(name.to_owned(), number);
                self.settings.set(ROLE, Some(name), extent)?;
            }
            (ROLE, _) => self.settings.set(ROLE, None, extent)?,
            (AUTHORIZATION, value) => {
                let (own, number) = self.authenticated.clone();
                let name = value.unwrap_or(&own).to_owned();
                if name != *own {
                    let wanted = self.number_of(&name)?;
                    if !catalog.is_superuser(number) {
                        return Err(denied("permission denied to set session authorization".into()));
                    }
                    self.roles_set.insert(name.clone(), wanted);
                }
                self.settings.set(AUTHORIZATION, Some(&name), extent)?;
                self.settings.set(ROLE, None, extent)?;
            }
            _ => return Ok(false),
        }
        self.after_settings();
        Ok(true)
    }

    fn number_of(&self, name: &str) -> Result<ObjectId> {
        let missing = || SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("role \"{name}\" does not exist"));
        self.seen_catalog()?.0.role_number(name, &self.environment).ok_or_else(missing)
    }

    /// Makes the role of the settings the current one; returns whether it was another one before.
    pub(super) fn follow_roles(&mut self) -> bool {
        let (own, number) = &self.authenticated;
        let number_of = |name: &str| match self.roles_set.get(name) {
            _ if name == &**own => *number,
            known => known.copied().unwrap_or(NO_ROLE),
        };
        let session_user = self.settings.get(AUTHORIZATION).unwrap_or(own).to_owned();
        let login = number_of(&session_user);
        let (user, role) = match self.settings.get(ROLE).unwrap_or(NONE) {
            NONE => (session_user.clone(), login),
            name => (name.to_owned(), self.roles_set.get(name).copied().unwrap_or(NO_ROLE)),
        };
        self.settings.show_superuser(self.shared.catalog.current().is_superuser(role));
        let environment = &mut self.environment;
        if (environment.role, environment.login) == (role, login) && *environment.user == *user {
            return false;
        }
        (environment.role, environment.login) = (role, login);
        (environment.user, environment.session_user) = (user.into(), session_user.into());
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{
        RowSet, SqlDatabase, SqlState,
        catalog::{
            Catalog, Change,
            definition::{Definition, RoleDef},
        },
    };

    /// A role of a database from before roles had attributes: only its definition is stored.
    #[test]
    fn roles_of_older_databases_may_do_everything() {
        let engine = Arc::new(ermine::Database::open_in_memory(ermine::Options::default()).unwrap());
        let database = SqlDatabase::open(engine.clone()).unwrap();
        let store = &database.0.catalog;
        let id = store.number().unwrap();
        let old = Definition::Role(RoleDef { id, name: "ann".into(), verifier: None, row: id });
        let txn = engine.begin_owned(ermine::TxnOptions::default()).unwrap();
        store.take_role_name(&txn, "ann", true).unwrap();
        store.write(&txn, &Catalog::default(), &[Change::Put(old)]).unwrap();
        txn.commit().unwrap();
        let run = |database: &SqlDatabase, user: &str, text: &str| {
            let mut rows = RowSet::default();
            database.session(user, "test").run(text, &mut rows).map(|_| rows.texts().concat())
        };
        run(&database, "first", "CREATE TABLE t (a int); INSERT INTO t VALUES (1)").unwrap();
        let database = SqlDatabase::open(engine).unwrap();
        let attributes = "SELECT rolsuper, rolcanlogin, rolcreaterole FROM pg_roles WHERE rolname = 'ann'";
        assert_eq!(run(&database, "ann", attributes).unwrap(), ["t", "t", "t"]);
        assert!(database.login("ann", "test", true).is_ok());
        for text in ["SELECT * FROM t", "ALTER TABLE t ADD b int", "CREATE TABLE u (a int)", "CREATE ROLE bob"] {
            run(&database, "ann", text).unwrap();
        }
        // An attribute that is changed is stored with all others.
        run(&database, "first", "ALTER ROLE ann NOSUPERUSER NOLOGIN").unwrap();
        assert_eq!(run(&database, "ann", attributes).unwrap(), ["f", "f", "t"]);
        let denied = run(&database, "ann", "SELECT * FROM t").unwrap_err();
        assert_eq!(denied.state(), SqlState::INSUFFICIENT_PRIVILEGE);
        assert_eq!(database.login("ann", "test", true).err().unwrap().state(), SqlState::INVALID_AUTHORIZATION);
        // A table that it has created is its own.
        run(&database, "ann", "INSERT INTO u VALUES (1)").unwrap();
    }

    /// A client that has proved to be a user whose name is gone when its session begins.
    #[test]
    fn a_user_that_is_gone_does_not_become_the_first_superuser() {
        let engine = Arc::new(ermine::Database::open_in_memory(ermine::Options::default()).unwrap());
        let database = SqlDatabase::open(engine).unwrap();
        database.session("first", "test").run("CREATE USER ann PASSWORD 'x'", &mut RowSet::default()).unwrap();
        assert!(database.login("ann", "test", true).is_ok());
        database.session("first", "test").run("ALTER USER ann RENAME TO eva", &mut RowSet::default()).unwrap();
        let refused = database.login("ann", "test", true).err().unwrap();
        assert_eq!(refused.state(), SqlState::INVALID_AUTHORIZATION);
        assert!(database.login("eva", "test", true).is_ok());
        database.session("first", "test").run("DROP USER eva", &mut RowSet::default()).unwrap();
        assert!(database.login("eva", "test", true).is_err());
        // Where it was let in without a proof, it is the first superuser.
        assert!(database.login("eva", "test", false).is_ok());
    }
}
