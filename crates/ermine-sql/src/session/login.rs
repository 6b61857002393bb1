//! Which clients get a session: names, passwords, and limits of roles.

use std::sync::Arc;

use super::{Session, SqlDatabase, cut};
use crate::{
    catalog::{
        Catalog,
        databases::no_database,
        rights::{Kind, Object, Rights, no_right_to},
        roles::{BUILT_IN, SUPERUSER},
        sessions::{Presence, now},
    },
    error::{Result, SqlError, SqlState},
    verifier::Verifier,
};

impl SqlDatabase {
    /// Begins a session of a client that connects. A name that no role has is the first superuser, but only of a client
    /// that was let in without a proof: one that has proved to be a user was that user, which is gone meanwhile.
    ///
    /// # Errors
    /// 28000, for a user that may not log in; 3D000, for the name of a database that was dropped; 42501, for a user that
    /// may not use the database; 55000, if the database allows no connections.
    pub fn login(&self, user: &str, database: &str, has_proof: bool) -> Result<Session> {
        let session = self.of_name(database)?.begin(user, database);
        if session.shared.catalog.is_closed() {
            let message = format!("database \"{database}\" is not currently accepting connections");
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                .hint("It is being dropped or renamed."));
        }
        // The name may have become that of another one before the session was registered.
        if self.0.first.named(cut(database))?.number != session.shared.catalog.number {
            return Err(no_database(database));
        }
        let catalog = session.shared.catalog.current();
        let (user, role) = &session.authenticated;
        let refused = |message: String| Err(SqlError::new(SqlState::INVALID_AUTHORIZATION, message));
        if *role == SUPERUSER && has_proof {
            return refused(format!("role \"{user}\" does not exist"));
        }
        let is_built_in = BUILT_IN.iter().any(|(name, _)| **name == **user);
        match !is_built_in && (*role == SUPERUSER || catalog.traits(*role).can_login) {
            true => session.check_database(&catalog).map(|()| session),
            false => refused(format!("role \"{user}\" is not permitted to log in")),
        }
    }

    /// Sets whether a login with a name that no database has is refused (3D000), as in PostgreSQL, where the name of the
    /// first database is `postgres`. Otherwise such a name, if no database had it, is one of the first database.
    pub fn require_names(&self, are_required: bool) {
        self.0.catalog.require_names(are_required);
    }

    /// Whether any user has a password, so that a login is possible.
    pub fn has_passwords(&self) -> bool {
        self.0.catalog.current().roles().any(|role| role.verifier.is_some())
    }

    /// Returns the stored verifier of a user's password; `None`: there is no such user, or it has no password, or the
    /// password counts no more (VALID UNTIL).
    pub fn verifier(&self, user: &str) -> Option<Verifier> {
        let catalog = self.0.catalog.current();
        let role = catalog.role(cut(user))?;
        let is_valid = catalog.traits(role.id).valid_until.is_none_or(|end| now() < end);
        role.verifier.clone().filter(|_| is_valid)
    }

    /// Bytes that last as long as the database, with which [`Verifier::mock`] hides which users exist.
    pub fn secret(&self) -> &[u8] {
        &self.0.catalog.secret
    }

    /// Whether a user exists and is a member of a role, directly or by way of others, or the role itself.
    pub fn is_member(&self, user: &str, role: &str) -> bool {
        let catalog = self.0.catalog.current();
        let ids = [cut(user), cut(role)].map(|name| catalog.role(name).map(|role| role.id));
        matches!(ids, [Some(user), Some(role)] if catalog.roles_of(user, false).contains(&role))
    }

    /// Whether a session of a user has all rights.
    pub fn is_superuser(&self, user: &str) -> bool {
        let catalog = self.0.catalog.current();
        let role = catalog.role(cut(user)).map_or(SUPERUSER, |role| role.id);
        catalog.is_superuser(role)
    }
}

impl Session {
    /// Fails if the user may not use the database.
    fn check_database(&self, catalog: &Catalog) -> Result<()> {
        let (name, role) = (&self.environment.database, self.authenticated.1);
        if catalog.database(catalog.number).is_some_and(|database| !database.allows_connections) {
            let message = format!("database \"{name}\" is not currently accepting connections");
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        let database = Object::new(Kind::Database, catalog.number);
        match catalog.is_superuser(role) || catalog.has_any(role, database, Rights::CONNECT) {
            true => Ok(()),
            false => Err(no_right_to("database", name).detail("User does not have CONNECT privilege.")),
        }
    }

    /// Fails if the user, or the database, has more connections than its CONNECTION LIMIT allows, this one included. Superusers have no
    /// limit.
    ///
    /// # Errors
    /// 53300.
    pub fn check_connections(&self) -> Result<()> {
        let catalog = self.shared.catalog.current();
        let (user, role) = &self.authenticated;
        if let Some(database) = catalog.database(catalog.number)
            && let Ok(limit) = usize::try_from(database.connection_limit)
            && !catalog.is_superuser(*role)
        {
            let is_here = |other: &&Arc<Presence>| other.database_number == database.id && other.is_connected();
            if catalog.sessions.all().iter().filter(is_here).count() > limit {
                let message = format!("too many connections for database \"{}\"", database.name);
                return Err(SqlError::new(SqlState::TOO_MANY_CONNECTIONS, message));
            }
        }
        let limit = match usize::try_from(catalog.traits(*role).connection_limit) {
            Ok(limit) if !catalog.is_superuser(*role) => limit,
            _ => return Ok(()),
        };
        let connections =
            catalog.sessions.all().iter().filter(|other| other.role == *role && other.is_connected()).count();
        match connections > limit {
            true => {
                let message = format!("too many connections for role \"{user}\"");
                Err(SqlError::new(SqlState::TOO_MANY_CONNECTIONS, message))
            }
            false => Ok(()),
        }
    }
}
