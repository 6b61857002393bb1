//! The current sessions and their activity: the source of `pg_stat_activity`, and the way to cancel or end a session.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use super::{
    advisory::AdvisoryKey,
    conflicts::Conflicts,
    definition::ObjectId,
    footprint::Footprint,
    hot_conflicts::HotConflicts,
    notifications::{Bell, Notification, Notifications},
    row_queues::RowQueues,
    statement_uses::StatementUses,
    temporary::Temporary,
    uses::{Ends, Sharded},
    waits::Waits,
};
use crate::{configuration::Configuration, logical::slots::Slots, tape::TempCounts};

/// The sessions of a database.
#[derive(Default)]
pub(crate) struct Sessions {
    all: Mutex<BTreeMap<u64, Arc<Presence>>>,
    /// The prepared transactions, by name, from any session.
    prepared: Mutex<BTreeMap<String, About>>,
    next: AtomicU64,
    /// When the database was opened, in microseconds since 2000-01-01.
    pub(crate) opened: OnceLock<i64>,
    pub(crate) waits: Arc<Waits>,
    pub(crate) conflicts: Conflicts,
    /// Statements that were run again, each time.
    pub(crate) retries: AtomicU64,
    pub(crate) hot_conflicts: HotConflicts,
    pub(crate) statements: StatementUses,
    pub(crate) ends: Sharded<Ends>,
    pub(crate) notifications: Notifications,
    pub(crate) configuration: Configuration,
    pub(crate) temporary_files: Arc<TempCounts>,
    pub(crate) slots: OnceLock<Arc<Slots>>,
}

/// The owner of a prepared transaction, and the time of its PREPARE.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct About {
    pub(crate) number: u64,
    pub(crate) owner: String,
    /// The name by which its session knew the database.
    pub(crate) database: String,
    /// The number of the database; it is not stored, but found by the tables.
    #[serde(skip)]
    pub(crate) database_number: ObjectId,
    /// Microseconds since 2000-01-01.
    pub(crate) prepared: i64,
}

/// A session, as other sessions see it.
pub(crate) struct Presence {
    pub(crate) user: Arc<str>,
    /// The user's number.
    pub(crate) role: u32,
    /// The name by which it knows the database.
    pub(crate) database: Arc<str>,
    pub(crate) database_number: ObjectId,
    /// Microseconds since 2000-01-01.
    pub(crate) began: i64,
    cancel: Arc<AtomicBool>,
    /// Rings when there are notifications for it.
    pub(crate) bell: Arc<Bell>,
    doing: Mutex<Doing>,
    /// The session's connection, if it has one.
    connection: OnceLock<Connection>,
    pub(crate) footprint: Arc<Footprint>,
    /// The session as the engine knows it.
    pub(crate) own: ermine::Session,
}

/// A session, or a transaction apart from any, among those that wait for one another.
pub(crate) struct Party {
    pub(crate) footprint: Arc<Footprint>,
    pub(crate) waits: Arc<Waits>,
    pub(crate) queues: Arc<RowQueues>,
    /// The temporary objects of the session.
    pub(crate) temporary: Temporary,
    /// The position of the primary up to which transactions of the session have seen a standby.
    pub(crate) seen: AtomicU64,
}

struct Connection {
    process: i32,
    client: Option<String>,
    end: Box<dyn Fn() + Send + Sync>,
}

/// The session's current activity, or its last one.
#[derive(Clone)]
pub(crate) struct Doing {
    pub(crate) state: Activity,
    /// The time at which this state began.
    pub(crate) since: i64,
    /// The text that it runs, or ran last.
    pub(crate) query: Arc<str>,
    pub(crate) query_began: Option<i64>,
    pub(crate) transaction_began: Option<i64>,
    pub(crate) application: Arc<str>,
    /// The progress of the backup that it makes.
    pub(crate) backup: Option<ermine::Progress>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Activity {
    Active,
    Idle,
    /// Waits for its client in a transaction, which keeps its snapshot.
    IdleInTransaction,
    IdleInFailed,
}

impl Activity {
    /// The name of the state in PostgreSQL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::IdleInTransaction => "idle in transaction",
            Self::IdleInFailed => "idle in transaction (aborted)",
        }
    }
}

/// The registration of a session; dropping it removes the session.
pub(crate) struct Registered {
    pub(crate) sessions: Arc<Sessions>,
    number: u64,
    pub(crate) presence: Arc<Presence>,
}

impl Sessions {
    /// Returns the prepared transactions.
    pub(crate) fn prepared(&self) -> MutexGuard<'_, BTreeMap<String, About>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn register(
        self: &Arc<Self>,
        (user, role): (Arc<str>, u32),
        (database, database_number): (Arc<str>, ObjectId),
        began: i64,
        cancel: Arc<AtomicBool>,
        own: ermine::Session,
    ) -> Registered {
        let doing = Doing {
            state: Activity::Idle,
            since: began,
            query: "".into(),
            query_began: None,
            transaction_began: None,
            application: "".into(),
            backup: None,
        };
        let (doing, connection) = (Mutex::new(doing), OnceLock::new());
        // Relaxed: the numbers only have to differ.
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let footprint = Arc::new(Footprint::new(number, database_number));
        let presence = Arc::new(Presence {
            user,
            role,
            database,
            database_number,
            began,
            cancel,
            bell: Arc::default(),
            doing,
            connection,
            footprint,
            own,
        });
        self.map().insert(number, presence.clone());
        Registered { sessions: self.clone(), number, presence }
    }

    /// Returns the number of sessions that have begun since the database was opened.
    pub(crate) fn begun(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Returns all sessions in the order of their registration.
    pub(crate) fn all(&self) -> Vec<Arc<Presence>> {
        self.map().values().cloned().collect()
    }

    /// Returns the session with a number.
    pub(crate) fn numbered(&self, number: u64) -> Option<Arc<Presence>> {
        self.map().get(&number).cloned()
    }

    /// Returns the session of a connection.
    pub(crate) fn of_process(&self, process: i32) -> Option<Arc<Presence>> {
        self.map().values().find(|presence| presence.process() == Some(process)).cloned()
    }

    fn map(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Presence>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registered {
    /// Returns the configuration of the server.
    pub(crate) fn configuration(&self) -> &Configuration {
        &self.sessions.configuration
    }

    /// Releases an advisory lock once that the session took for itself.
    pub(crate) fn release_lock(&self, key: AdvisoryKey, is_shared: bool) {
        self.sessions.waits.locks.release(self.number, key, is_shared);
    }

    /// Returns the notifications for the session.
    pub(crate) fn notifications(&self) -> Vec<Notification> {
        self.sessions.notifications.take(self.number)
    }

    /// Ends all listening of the session.
    pub(crate) fn unlisten(&self) {
        self.sessions.notifications.remove(self.number);
    }

    /// Releases the session's advisory locks.
    pub(crate) fn release_locks(&self) {
        self.sessions.waits.locks.release_all(self.number);
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.sessions.map().remove(&self.number);
        self.release_locks();
        self.unlisten();
    }
}

impl Presence {
    /// Attaches a connection of that number, which `end` ends.
    pub(crate) fn connect(&self, process: i32, client: Option<String>, end: Box<dyn Fn() + Send + Sync>) {
        self.footprint.connect(process);
        // The first one stays: a session has one connection.
        let _ = self.connection.set(Connection { process, client, end });
    }

    /// Whether it has a connection.
    pub(crate) fn is_connected(&self) -> bool {
        self.connection.get().is_some()
    }

    pub(crate) fn process(&self) -> Option<i32> {
        self.connection.get().map(|connection| connection.process)
    }

    pub(crate) fn client(&self) -> Option<&str> {
        self.connection.get()?.client.as_deref()
    }

    pub(crate) fn doing(&self) -> Doing {
        self.lock().clone()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Doing)) {
        change(&mut self.lock());
    }

    /// Makes the running statement fail.
    pub(crate) fn cancel(&self) {
        // Relaxed: publishes nothing else.
        self.cancel.store(true, Ordering::Relaxed);
    }

    /// Ends the connection, and the running statement; returns false if the session has no connection.
    pub(crate) fn end(&self) -> bool {
        let Some(connection) = self.connection.get() else { return false };
        (connection.end)();
        self.cancel();
        true
    }

    fn lock(&self) -> MutexGuard<'_, Doing> {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The current time, in microseconds since 2000-01-01.
pub(crate) fn now() -> i64 {
    const UNIX_TO_2000: i64 = 946_684_800_000_000;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_micros() as i64 - UNIX_TO_2000
}
