//! What the transaction of a session has, as other sessions see it: the number that its rows carry, and its tables;
//! how far its statement is, and what it waits for.
//!
//! The session alone writes it. The first use of a table costs it two stores into memory of its own; others read it
//! only when something waits, or is shown.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use ermine::Tid;

use super::{definition::ObjectId, progress::Progress, wait_event::WaitEvent};

/// Tables in use for which there is room in place.
const USES_MAX: usize = 16;

/// A use of a table that excludes others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hold {
    /// The session alone may change the definition.
    Change,
    /// No other session uses the table.
    Alone,
}

/// What a session has. All accesses are relaxed: a session that waits is in a graph behind a mutex
/// ([`super::waits`]) when its footprint decides about anything.
#[derive(Default)]
pub(crate) struct Footprint {
    /// The session's number; 0: it is not one of a client.
    pub(crate) session: u64,
    /// The number of its database.
    pub(crate) database: ObjectId,
    /// The number of its connection; 0: it has none.
    process: AtomicI32,
    /// The engine's number of its last transaction that has written, 0 if it has none. It stays when that has ended:
    /// no row carries it then.
    tid: AtomicU64,
    uses: [AtomicU32; USES_MAX],
    /// The number of tables in use.
    count: AtomicUsize,
    /// Microseconds that the session's statement has waited for others.
    waited: AtomicU64,
    /// A [`WaitEvent`]; 0: it waits for none.
    event: AtomicU8,
    /// How far its statement is.
    pub(crate) progress: Progress,
    more: Mutex<More>,
}

#[derive(Default)]
struct More {
    /// Tables in use for which there was no room.
    uses: Vec<ObjectId>,
    holds: Vec<(ObjectId, Hold)>,
}

impl Footprint {
    pub(crate) fn new(session: u64, database: ObjectId) -> Self {
        Self { session, database, ..Self::default() }
    }

    pub(crate) fn connect(&self, process: i32) {
        self.process.store(process, Ordering::Relaxed);
    }

    /// Returns the number that names the session: that of its connection, or its own.
    pub(crate) fn process(&self) -> i64 {
        match self.process.load(Ordering::Relaxed) {
            0 => self.session as i64,
            process => process.into(),
        }
    }

    /// Whether the session has a connection.
    pub(crate) fn is_connected(&self) -> bool {
        self.process.load(Ordering::Relaxed) != 0
    }

    /// Counts a wait for others that has ended.
    pub(crate) fn add_wait(&self, wait: Duration) {
        self.waited.fetch_add(wait.as_micros() as u64, Ordering::Relaxed);
    }

    /// Returns the time of all waits since the last call.
    #[inline]
    pub(crate) fn take_waits(&self) -> Duration {
        match self.waited.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            // Only the session's own thread writes it.
            waited => {
                self.waited.store(0, Ordering::Relaxed);
                Duration::from_micros(waited)
            }
        }
    }

    pub(crate) fn waits_for(&self, event: Option<WaitEvent>) {
        self.event.store(event.map_or(0, |event| event as u8), Ordering::Relaxed);
    }

    /// Returns what the session waits for, outside of its statements.
    pub(crate) fn event(&self) -> Option<WaitEvent> {
        match self.event.load(Ordering::Relaxed) {
            1 => Some(WaitEvent::ClientRead),
            2 => Some(WaitEvent::ClientWrite),
            3 => Some(WaitEvent::WalSync),
            _ => None,
        }
    }

    pub(crate) fn set_tid(&self, tid: Tid) {
        self.tid.store(tid.as_u64(), Ordering::Relaxed);
    }

    pub(crate) fn has_rows_of(&self, tid: Tid) -> bool {
        self.tid.load(Ordering::Relaxed) == tid.as_u64()
    }

    /// Returns the number of its last transaction that has written.
    pub(crate) fn tid(&self) -> Option<Tid> {
        Some(self.tid.load(Ordering::Relaxed)).filter(|tid| *tid != 0).map(Tid::from_u64)
    }

    /// Notes that the transaction uses a table from now on.
    #[inline]
    pub(crate) fn adds(&self, table: ObjectId) {
        let at = self.count.load(Ordering::Relaxed);
        match self.uses.get(at) {
            Some(place) => place.store(table, Ordering::Relaxed),
            None => self.more().uses.push(table),
        }
        self.count.store(at + 1, Ordering::Relaxed);
    }

    /// Notes that the transaction, which used tables, has ended.
    pub(crate) fn ends(&self) {
        if self.count.load(Ordering::Relaxed) > USES_MAX {
            self.more().uses.clear();
        }
        self.count.store(0, Ordering::Relaxed);
    }

    pub(crate) fn holds(&self, table: ObjectId, hold: Hold) {
        self.more().holds.push((table, hold));
    }

    pub(crate) fn gives_back(&self, table: ObjectId, hold: Hold) {
        let holds = &mut self.more().holds;
        if let Some(at) = holds.iter().position(|own| *own == (table, hold)) {
            holds.swap_remove(at);
        }
    }

    pub(crate) fn has(&self, table: ObjectId, hold: Hold) -> bool {
        self.more().holds.contains(&(table, hold))
    }

    pub(crate) fn uses(&self, table: ObjectId) -> bool {
        self.used().contains(&table)
    }

    /// Returns the tables that the transaction uses.
    pub(crate) fn used(&self) -> Vec<ObjectId> {
        let count = self.count.load(Ordering::Relaxed);
        let in_place = self.uses.iter().take(count).map(|table| table.load(Ordering::Relaxed));
        in_place.chain(self.more().uses.iter().copied()).collect()
    }

    /// Returns the tables that it has alone.
    pub(crate) fn alone(&self) -> Vec<ObjectId> {
        let more = self.more();
        more.holds.iter().filter(|(_, hold)| *hold == Hold::Alone).map(|(table, _)| *table).collect()
    }

    fn more(&self) -> MutexGuard<'_, More> {
        self.more.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
