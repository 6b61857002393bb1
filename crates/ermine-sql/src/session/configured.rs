//! The server's configuration, as sessions take it over.

use std::sync::{Arc, Weak};

use super::{Session, Settings, Shared, SqlDatabase, State};
use crate::{
    configuration::{ServerConfiguration, ServerControl, Standby},
    error::Result,
};

/// A database that is not kept open.
#[derive(Clone)]
pub struct WeakSqlDatabase(Weak<Shared>);

impl WeakSqlDatabase {
    /// Returns the database, unless it is closed.
    pub fn upgrade(&self) -> Option<SqlDatabase> {
        self.0.upgrade().map(SqlDatabase)
    }
}

impl SqlDatabase {
    /// Returns the database without keeping it open.
    pub fn downgrade(&self) -> WeakSqlDatabase {
        WeakSqlDatabase(Arc::downgrade(&self.0))
    }

    /// Returns a setting of sessions that the server configures, in the form in which it is shown.
    ///
    /// # Errors
    /// For a setting that does not exist or is not configured, and for a value that does not fit.
    pub fn configurable(&self, name: &str, value: &str) -> Result<String> {
        Settings::new("", &self.0.database, Arc::default()).configurable(&name.to_lowercase(), value)
    }

    /// Installs the configuration of the server, whose values for sessions [`SqlDatabase::configurable`] has accepted.
    /// Sessions take it over when they are idle.
    pub fn configure(&self, configuration: ServerConfiguration) {
        self.0.catalog.current().sessions.configuration.install(configuration);
    }

    /// Sets, once, the server that ALTER SYSTEM and `pg_reload_conf()` address.
    pub fn control_with(&self, control: Arc<dyn ServerControl>) {
        // The first one stays.
        let _ = self.0.catalog.current().sessions.configuration.control.set(control);
    }

    /// Returns the servers that follow this one, as `pg_stat_replication` shows them.
    pub fn standbys(&self) -> Vec<Standby> {
        self.0.catalog.current().sessions.configuration.standbys()
    }
}

impl Session {
    /// Takes over the configuration of the server, if there is another one, and no transaction depends on the old one.
    #[inline]
    pub(super) fn follow_configuration(&mut self) {
        if matches!(self.state, State::Idle)
            && let Some(newer) = self.registered.configuration().newer(&mut self.configuration)
        {
            self.settings.configure(newer);
            self.after_settings();
        }
    }
}
