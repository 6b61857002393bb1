//! The numbers of records, of which inserts draw the next, and reads the latest.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Numbers of records. All up to [`Self::newest`] have been committed; beyond it are gaps of inserts that are under
/// way.
pub struct Recent {
    next: AtomicU64,
    newest: AtomicU64,
    /// Committed numbers beyond the newest.
    ahead: Mutex<BTreeSet<u64>>,
}

impl Recent {
    /// Begins with the records that have been loaded, at least one.
    pub fn new(loaded: u64) -> Self {
        debug_assert!(loaded > 0);
        let (next, newest) = (AtomicU64::new(loaded), AtomicU64::new(loaded - 1));
        Self { next, newest, ahead: Mutex::new(BTreeSet::new()) }
    }

    /// Draws the number of an insert. It has to be committed: until then the newest stays below it.
    pub fn draw(&self) -> u64 {
        // Relaxed: the counter hands out numbers and carries no data.
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes that a record has been inserted.
    pub fn committed(&self, number: u64) {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        ahead.insert(number);
        // Relaxed: the lock orders the changes; a reader that sees an earlier number draws an earlier record.
        let mut newest = self.newest.load(Ordering::Relaxed);
        while ahead.remove(&(newest + 1)) {
            newest += 1;
        }
        self.newest.store(newest, Ordering::Relaxed);
    }

    /// The newest number up to which all records are there.
    pub fn newest(&self) -> u64 {
        // Relaxed: the database has the data, and orders it.
        self.newest.load(Ordering::Relaxed)
    }

    /// Number of records, loaded or drawn.
    pub fn drawn(&self) -> u64 {
        // Relaxed: read when the clients have ended.
        self.next.load(Ordering::Relaxed)
    }
}
