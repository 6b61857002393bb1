//! Advisory locks: locks on numbers, whose meaning applications agree on. Tools take one so that no two of them migrate
//! a schema at the same time.
//!
//! A session may take a lock that it has again, shared or exclusively. It keeps it until it has released it as often as
//! it took it, or, where it took it for a transaction, until the transaction ends; and no longer than it exists.
//!
//! A session waits for one lock at a time, and for all sessions that have it. Circles of sessions that wait for one
//! another are found in the graph of all waits ([`super::waits`]).
//!
//! Invariant: for any lock, there is one session that has it exclusively, or any number that have it shared.

use std::{
    collections::BTreeMap,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::definition::ObjectId;
use crate::error::{Result, SqlError, SqlState};

/// The number of a lock's database, and its number, or its two numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum AdvisoryKey {
    One(ObjectId, i64),
    Two(ObjectId, i32, i32),
}

impl AdvisoryKey {
    /// Returns the key as PostgreSQL shows it: the halves of the one number, or the two numbers.
    pub(crate) fn halves(self) -> (u32, u32) {
        match self {
            Self::One(_, number) => ((number >> 32) as u32, number as u32),
            Self::Two(_, first, second) => (first as u32, second as u32),
        }
    }

    /// Returns how many numbers it has.
    pub(crate) fn numbers(self) -> i16 {
        match self {
            Self::One(..) => 1,
            Self::Two(..) => 2,
        }
    }
}

/// How a lock is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AdvisoryMode {
    pub(crate) is_shared: bool,
    /// The transaction until whose end it is taken; `None`: until the session releases it.
    pub(crate) transaction: Option<u64>,
}

/// Locks of all sessions, in all modes, at the same time.
const LOCKS_MAX: usize = 1 << 20;

/// The locks of a database.
#[derive(Default)]
pub(crate) struct AdvisoryLocks {
    table: Mutex<LockTable>,
    released: Condvar,
    /// The next number of a transaction, less one.
    transactions: AtomicU64,
    /// Transactions that have locks.
    of_transactions: AtomicUsize,
}

#[derive(Default)]
struct LockTable {
    held: BTreeMap<AdvisoryKey, Vec<Hold>>,
    /// The locks that were taken until a transaction ends.
    of_transactions: BTreeMap<u64, Vec<AdvisoryKey>>,
    /// The number of holds.
    count: usize,
}

/// A lock that a session has, in one mode.
struct Hold {
    session: u64,
    mode: AdvisoryMode,
    times: usize,
}

/// A lock that a session has, as `pg_locks` shows it.
pub(crate) struct ShownLock {
    pub(crate) key: AdvisoryKey,
    pub(crate) session: u64,
    pub(crate) is_shared: bool,
}

/// How often a waiting session looks whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(10);

impl AdvisoryLocks {
    fn table(&self) -> MutexGuard<'_, LockTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a number for a transaction.
    pub(crate) fn transaction(&self) -> u64 {
        self.transactions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Takes a lock if no other session prevents it; returns whether it did.
    pub(crate) fn try_take(&self, session: u64, key: AdvisoryKey, mode: AdvisoryMode) -> Result<bool> {
        self.take_in(&mut self.table(), session, key, mode)
    }

    /// Waits for a lock, and takes it; looks whether the wait `goes_on` before each pause.
    pub(crate) fn wait(
        &self,
        session: u64,
        key: AdvisoryKey,
        mode: AdvisoryMode,
        goes_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        loop {
            // Not while the table is locked: deadlocks are looked for in it.
            goes_on()?;
            let mut table = self.table();
            if self.take_in(&mut table, session, key, mode)? {
                return Ok(());
            }
            drop(self.released.wait_timeout(table, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Returns the sessions whose holding of a lock prevents one from taking it.
    pub(crate) fn obstacles(&self, session: u64, key: AdvisoryKey, is_shared: bool) -> Vec<u64> {
        self.table().obstacles(session, key, is_shared).collect()
    }

    fn take_in(&self, table: &mut LockTable, session: u64, key: AdvisoryKey, mode: AdvisoryMode) -> Result<bool> {
        if table.obstacles(session, key, mode.is_shared).next().is_some() {
            return Ok(false);
        }
        let holds = table
            .held
            .get_mut(&key)
            .and_then(|holds| holds.iter_mut().find(|hold| hold.session == session && hold.mode == mode));
        if let Some(hold) = holds {
            hold.times += 1;
            return Ok(true);
        }
        if table.count >= LOCKS_MAX {
            let hint = format!("There can be {LOCKS_MAX} advisory locks.");
            return Err(SqlError::new(SqlState::OUT_OF_MEMORY, "out of shared memory").hint(hint));
        }
        table.count += 1;
        table.held.entry(key).or_default().push(Hold { session, mode, times: 1 });
        if let Some(transaction) = mode.transaction {
            table.of_transactions.entry(transaction).or_default().push(key);
            // Relaxed, as all accesses: a session looks after its own locks.
            self.of_transactions.store(table.of_transactions.len(), Ordering::Relaxed);
        }
        Ok(true)
    }

    /// Releases a lock once that the session took for itself; returns whether it had it.
    pub(crate) fn release(&self, session: u64, key: AdvisoryKey, is_shared: bool) -> bool {
        let mode = AdvisoryMode { is_shared, transaction: None };
        let mut table = self.table();
        let holds = table.held.get_mut(&key);
        let own = |hold: &&mut Hold| hold.session == session && hold.mode == mode;
        let Some(hold) = holds.and_then(|holds| holds.iter_mut().find(own)) else { return false };
        hold.times -= 1;
        if hold.times == 0 {
            table.release(key, |hold| hold.times == 0);
            self.released.notify_all();
        }
        true
    }

    /// Releases all locks that a session took for itself.
    pub(crate) fn release_all(&self, session: u64) {
        let mut table = self.table();
        let keys: Vec<_> = table.held.keys().copied().collect();
        for key in keys {
            table.release(key, |hold| hold.session == session && hold.mode.transaction.is_none());
        }
        self.released.notify_all();
    }

    /// Releases the locks that were taken until a transaction ends, which has ended.
    pub(crate) fn end_transaction(&self, transaction: u64) {
        if self.of_transactions.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut table = self.table();
        let Some(keys) = table.of_transactions.remove(&transaction) else { return };
        self.of_transactions.store(table.of_transactions.len(), Ordering::Relaxed);
        for key in keys {
            table.release(key, |hold| hold.mode.transaction == Some(transaction));
        }
        self.released.notify_all();
    }

    /// Returns all locks that sessions have.
    pub(crate) fn all(&self) -> Vec<ShownLock> {
        let table = self.table();
        let held = table.held.iter().flat_map(|(key, holds)| holds.iter().map(|hold| (*key, hold)));
        let shown = |(key, hold): (_, &Hold)| ShownLock { key, session: hold.session, is_shared: hold.mode.is_shared };
        held.map(shown).collect()
    }
}

impl LockTable {
    /// Removes some holds of a lock.
    fn release(&mut self, key: AdvisoryKey, is_released: impl Fn(&Hold) -> bool) {
        let Some(holds) = self.held.get_mut(&key) else { return };
        let before = holds.len();
        holds.retain(|hold| !is_released(hold));
        self.count -= before - holds.len();
        if holds.is_empty() {
            self.held.remove(&key);
        }
    }

    /// Iterates over the sessions whose holding of a lock prevents another one from taking it.
    fn obstacles(&self, session: u64, key: AdvisoryKey, is_shared: bool) -> impl Iterator<Item = u64> {
        let holds = self.held.get(&key).map_or(&[][..], |holds| holds);
        holds
            .iter()
            .filter(move |hold| hold.session != session && !(hold.mode.is_shared && is_shared))
            .map(|hold| hold.session)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const KEY: AdvisoryKey = AdvisoryKey::One(5, 1);
    const OTHER: AdvisoryKey = AdvisoryKey::Two(5, 0, 1);
    const EXCLUSIVE: AdvisoryMode = AdvisoryMode { is_shared: false, transaction: None };
    const SHARED: AdvisoryMode = AdvisoryMode { is_shared: true, transaction: None };
    const BRIEF: AdvisoryMode = AdvisoryMode { is_shared: false, transaction: Some(1) };

    impl AdvisoryLocks {
        fn takes(&self, session: u64, key: AdvisoryKey, mode: AdvisoryMode) -> bool {
            self.try_take(session, key, mode).unwrap()
        }
    }

    #[test]
    fn modes_exclude_each_other_and_count() {
        let locks = AdvisoryLocks::default();
        assert!(locks.takes(1, KEY, SHARED) && locks.takes(2, KEY, SHARED));
        assert!(!locks.takes(1, KEY, EXCLUSIVE), "another session shares it");
        assert!(locks.release(2, KEY, true) && !locks.release(2, KEY, true));
        assert!(locks.takes(1, KEY, EXCLUSIVE) && locks.takes(1, KEY, EXCLUSIVE) && locks.takes(1, KEY, BRIEF));
        assert!(!locks.takes(2, KEY, SHARED) && locks.takes(2, OTHER, EXCLUSIVE));
        assert!(!locks.release(1, OTHER, false), "another session has it");
        assert!(locks.release(1, KEY, false) && locks.release(1, KEY, false), "it was taken twice");
        locks.release_all(1);
        assert!(!locks.takes(2, KEY, SHARED), "a transaction still has it");
        locks.end_transaction(1);
        assert!(locks.takes(2, KEY, EXCLUSIVE));
        locks.release_all(2);
        assert!(locks.all().is_empty() && locks.table().held.is_empty() && locks.table().count == 0);
    }

    #[test]
    fn one_waits_until_the_other_is_done() {
        let locks = AdvisoryLocks::default();
        assert!(locks.takes(1, KEY, EXCLUSIVE));
        assert_eq!(locks.obstacles(2, KEY, true), [1]);
        let (looks, looked) = std::sync::mpsc::channel();
        thread::scope(|threads| {
            let waiting = threads.spawn(|| {
                let looks = looks;
                locks.wait(2, KEY, SHARED, &mut || {
                    let _ = looks.send(());
                    Ok(())
                })
            });
            // It has been looked for in vain before the second time.
            looked.iter().take(2).for_each(drop);
            assert!(!waiting.is_finished());
            assert!(locks.release(1, KEY, false));
            waiting.join().unwrap().unwrap();
        });
        let refused = locks.wait(1, KEY, EXCLUSIVE, &mut || Err(SqlError::canceled("user request")));
        assert_eq!(refused.unwrap_err().state(), SqlState::QUERY_CANCELED);
        assert_eq!(locks.all().iter().map(|lock| lock.session).collect::<Vec<_>>(), [2]);
    }
}
