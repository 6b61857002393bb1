//! The open connections: which may be opened, which are to be cancelled, which are to end.
//!
//! Invariants
//! 1. No entry is added beyond `sessions_max`, the last `reserved` of them for superusers only, and at most that number
//!    of connections plus a hundred have no session yet.
//! 2. A secret is compared in constant time, and a wrong one looks like an unknown number.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicUsize, Ordering},
    },
};

use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq as _;
use tokio::sync::Notify;

/// Connections that may have no session yet, in addition to the maximum number of sessions.
const STARTING_EXTRA: usize = 100;

/// Bytes of a secret in version 3.0 of the protocol, which has room for no more.
const SECRET_LENGTH_OLD: usize = 4;
/// Bytes of a secret in version 3.2.
const SECRET_LENGTH: usize = 32;

/// The stages of the server's end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Stage {
    /// All connections are served.
    Serving,
    /// Only connections in a transaction are served.
    Draining,
    /// No connection is served.
    Ending,
}

/// The open connections.
pub struct Registry {
    entries: Mutex<HashMap<i32, Arc<Entry>>>,
    next: AtomicI32,
    starting: AtomicUsize,
    sessions_max: AtomicUsize,
    /// The number of sessions that only superusers get.
    reserved: AtomicUsize,
    stage: AtomicU8,
}

/// A connection with a session.
pub struct Entry {
    /// The connection's number, from 1 on.
    pub process: i32,
    /// The secret that a request for its cancellation must have.
    pub secret: Box<[u8]>,
    cancel: OnceLock<Arc<AtomicBool>>,
    /// Whether the connection is asked to end.
    ends: AtomicBool,
    /// Notified when the server has reached another stage, the connection is asked to end, or its session has
    /// notifications.
    pub staged: Notify,
}

/// Holds an entry in its registry.
pub struct Registration {
    registry: Arc<Registry>,
    /// The registered entry.
    pub entry: Arc<Entry>,
}

/// The sessions that are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Full {
    /// All.
    All,
    /// Those that are not reserved for superusers.
    Others,
}

/// Holds the place of a connection that has no session yet.
pub struct Starting(Arc<Registry>);

impl Registry {
    /// Returns a registry with room for `sessions_max` sessions, the last `reserved` of them for superusers.
    pub fn new(sessions_max: usize, reserved: usize) -> Self {
        Self {
            entries: Mutex::default(),
            next: AtomicI32::new(1),
            starting: AtomicUsize::new(0),
            sessions_max: AtomicUsize::new(sessions_max),
            reserved: AtomicUsize::new(reserved),
            stage: AtomicU8::new(Stage::Serving as u8),
        }
    }

    /// Changes the room. Sessions that are there stay.
    pub fn limit(&self, sessions_max: usize, reserved: usize) {
        // Relaxed: bounds that no other state depends on.
        self.sessions_max.store(sessions_max, Ordering::Relaxed);
        self.reserved.store(reserved, Ordering::Relaxed);
    }

    /// Takes a place for a connection that has no session yet; `None` if there are too many.
    pub fn starting(self: &Arc<Self>) -> Option<Starting> {
        let place = Starting(self.clone());
        // Relaxed: this is only a count; dropping the place returns it.
        let most = self.sessions_max.load(Ordering::Relaxed) + STARTING_EXTRA;
        (self.starting.fetch_add(1, Ordering::Relaxed) < most).then_some(place)
    }

    /// Takes a place for a session; fails if there are too many.
    pub fn register(self: &Arc<Self>, has_long_secret: bool, is_superuser: bool) -> Result<Registration, Full> {
        let mut secret = vec![0; if has_long_secret { SECRET_LENGTH } else { SECRET_LENGTH_OLD }];
        SystemRandom::new().fill(&mut secret).expect("the system has random bytes");
        let mut entries = self.entries();
        let sessions_max = self.sessions_max.load(Ordering::Relaxed);
        let reserved = self.reserved.load(Ordering::Relaxed).min(sessions_max.saturating_sub(1));
        match entries.len() {
            taken if taken >= sessions_max => return Err(Full::All),
            taken if taken >= sessions_max - reserved && !is_superuser => return Err(Full::Others),
            _ => {}
        }
        let process = loop {
            let process = self.next.fetch_add(1, Ordering::Relaxed) & i32::MAX;
            if process > 0 && !entries.contains_key(&process) {
                break process;
            }
        };
        let (cancel, ends, staged) = (OnceLock::new(), AtomicBool::new(false), Notify::new());
        let entry = Arc::new(Entry { process, secret: secret.into(), cancel, ends, staged });
        entries.insert(process, entry.clone());
        Ok(Registration { registry: self.clone(), entry })
    }

    /// Cancels the statement that runs in a connection. The requester is not told whether there was one.
    pub fn cancel(&self, process: i32, secret: &[u8]) {
        let entry = self.entries().get(&process).cloned();
        if let Some(entry) = entry.filter(|entry| entry.secret.ct_eq(secret).into()) {
            entry.cancel();
        }
    }

    /// Cancels the running statements of all connections.
    pub fn cancel_all(&self) {
        self.entries().values().for_each(|entry| entry.cancel());
    }

    /// Returns the number of sessions.
    pub fn sessions(&self) -> usize {
        self.entries().len()
    }

    /// Returns the server's stage.
    pub fn stage(&self) -> Stage {
        // Acquire and release: a connection that sees a stage sees what led to it. One that checks before it waits is
        // woken by `staged`.
        match self.stage.load(Ordering::Acquire) {
            0 => Stage::Serving,
            1 => Stage::Draining,
            _ => Stage::Ending,
        }
    }

    /// Goes to a later stage and notifies all connections.
    pub fn go_to(&self, stage: Stage) {
        self.stage.fetch_max(stage as u8, Ordering::AcqRel);
        self.entries().values().for_each(|entry| entry.staged.notify_one());
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<i32, Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// Sets the flag that cancels the running statement.
    pub fn on_cancel(&self, flag: Arc<AtomicBool>) {
        let _ = self.cancel.set(flag);
    }

    /// Ends the connection as soon as it runs no statement.
    pub fn end(&self) {
        // Release and acquire: a connection that is woken sees it.
        self.ends.store(true, Ordering::Release);
        self.staged.notify_one();
    }

    /// Wakes the connection while it waits for its client.
    pub fn wake(&self) {
        self.staged.notify_one();
    }

    /// Whether the connection is asked to end.
    pub fn ends(&self) -> bool {
        self.ends.load(Ordering::Acquire)
    }

    fn cancel(&self) {
        // Release, for the state that the flag announces; the session checks the flag now and then.
        self.cancel.get().iter().for_each(|flag| flag.store(true, Ordering::Release));
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.entries().remove(&self.entry.process);
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        self.0.starting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_places_are_for_superusers() {
        let registry = Arc::new(Registry::new(3, 2));
        let first = registry.register(false, false).unwrap();
        assert_eq!(registry.register(false, false).err(), Some(Full::Others));
        let others = [registry.register(false, true).unwrap(), registry.register(false, true).unwrap()];
        assert_eq!(registry.register(false, true).err(), Some(Full::All));
        drop(first);
        assert_eq!(registry.register(false, false).err(), Some(Full::Others));
        drop(others);
        let kept = registry.register(false, false).unwrap();
        // Under other limits.
        registry.limit(1, 3);
        assert_eq!(registry.register(false, true).err(), Some(Full::All));
        registry.limit(2, 0);
        assert!(registry.register(false, false).is_ok());
        drop(kept);
    }

    #[test]
    fn only_who_knows_the_secret_cancels() {
        let registry = Arc::new(Registry::new(2, 0));
        let (first, second) = (registry.register(false, false).unwrap(), registry.register(true, false).unwrap());
        assert_eq!(registry.register(false, true).err(), Some(Full::All));
        let flag = Arc::new(AtomicBool::new(false));
        second.entry.on_cancel(flag.clone());
        registry.cancel(second.entry.process, &first.entry.secret);
        registry.cancel(first.entry.process, &second.entry.secret);
        assert!(!flag.load(Ordering::Acquire));
        registry.cancel(second.entry.process, &second.entry.secret);
        assert!(flag.load(Ordering::Acquire));
        drop(second);
        assert_eq!(registry.sessions(), 1);
    }
}
