//! What the server around the sessions is configured with: its own options, which sessions can show, and the values of
//! settings of sessions that set none.
//!
//! The server decides where a configuration comes from, and installs a new one whenever it is read again. A session
//! takes over the new values when it is idle.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::error::Result;

/// The place that a value comes from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Origin {
    /// PostgreSQL's word for it, such as `command line`.
    pub source: &'static str,
    /// The file and the line, for a value of a file.
    pub place: Option<(String, u32)>,
}

/// An option of the server, as `SHOW` and `pg_settings` show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerOption {
    /// The name in SQL, in small letters.
    pub name: String,
    /// The current value; empty where there is none.
    pub value: String,
    /// The value without any configuration.
    pub boot: String,
    /// The value that the configuration has now; it differs where a change needs a restart.
    pub configured: String,
    /// The unit of the value, as PostgreSQL writes it.
    pub unit: Option<&'static str>,
    /// The kind: `bool`, `integer`, `string`, `enum`.
    pub kind: &'static str,
    /// The group of options that it belongs to.
    pub category: String,
    /// One sentence about it.
    pub description: String,
    /// Whether a new value is taken over while the server runs.
    pub is_reloadable: bool,
    /// Whether only superusers see its value: paths of the server.
    pub is_private: bool,
    /// Where the value comes from.
    pub origin: Origin,
}

impl ServerOption {
    /// Returns the value as SHOW has it: a number in the largest unit in which it is whole.
    pub(crate) fn shown(&self) -> String {
        const LARGER: [(&str, &str, u64); 9] = [
            ("B", "kB", 1 << 10),
            ("kB", "MB", 1 << 10),
            ("MB", "GB", 1 << 10),
            ("GB", "TB", 1 << 10),
            ("us", "ms", 1000),
            ("ms", "s", 1000),
            ("s", "min", 60),
            ("min", "h", 60),
            ("h", "d", 24),
        ];
        let (Some(mut unit), Ok(mut number @ 1..)) = (self.unit, self.value.parse::<u64>()) else {
            return self.value.clone();
        };
        for (smaller, larger, factor) in LARGER {
            if unit == smaller && number.is_multiple_of(factor) {
                (unit, number) = (larger, number / factor);
            }
        }
        format!("{number}{unit}")
    }
}

/// The configuration of a server at one time.
#[derive(Clone, Default, Debug)]
pub struct ServerConfiguration {
    /// The options of the server, by name.
    pub options: BTreeMap<String, ServerOption>,
    /// The values of settings of sessions that set none, by the setting's name in small letters.
    pub defaults: BTreeMap<String, (String, Origin)>,
}

/// A change that ALTER SYSTEM asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alteration<'a> {
    /// A name and its new value.
    Set(&'a str, &'a str),
    /// The name that is no longer altered.
    Reset(&'a str),
    /// No name is altered any more.
    ResetAll,
}

/// The server, as far as statements change it.
pub trait ServerControl: Send + Sync {
    /// Stores a change for the next time that the configuration is read.
    ///
    /// # Errors
    /// For an unknown name, one that needs a restart, and a value that does not fit.
    fn alter(&self, alteration: Alteration<'_>) -> Result<()>;

    /// Reads the configuration again; returns false if it cannot be used, which changes nothing.
    fn reload(&self) -> bool;

    /// Returns the servers that follow this one.
    fn standbys(&self) -> Vec<Standby> {
        Vec::new()
    }
}

/// A server that receives the log of this one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standby {
    /// The name of the server.
    pub name: String,
    /// The position in the log up to which everything was sent.
    pub sent: u64,
    /// The position up to which the standby has everything in its files.
    pub received: u64,
    /// How long ago it said so.
    pub silence: Duration,
}

/// The configuration in force.
#[derive(Default)]
pub(crate) struct Configuration {
    current: RwLock<Arc<ServerConfiguration>>,
    /// The number of configurations that have been installed.
    version: AtomicU64,
    pub(crate) control: OnceLock<Arc<dyn ServerControl>>,
}

impl Configuration {
    /// Returns the servers that follow this one.
    pub(crate) fn standbys(&self) -> Vec<Standby> {
        self.control.get().map_or_else(Vec::new, |control| control.standbys())
    }

    pub(crate) fn current(&self) -> Arc<ServerConfiguration> {
        self.read().clone()
    }

    /// Returns the current configuration if it is not the one with this version, which is then the current one's.
    #[inline]
    pub(crate) fn newer(&self, version: &mut u64) -> Option<Arc<ServerConfiguration>> {
        // Acquire: a session that sees the version sees its configuration.
        let now = self.version.load(Ordering::Acquire);
        (now != *version).then(|| {
            *version = now;
            self.current()
        })
    }

    pub(crate) fn install(&self, configuration: ServerConfiguration) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(configuration);
        self.version.fetch_add(1, Ordering::Release);
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Arc<ServerConfiguration>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }
}
