//! The waiting of a statement for rows of other transactions.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ermine::{Abort, Dependency, Tid};

use crate::{
    catalog::{
        row_queues::Place,
        sessions::Party,
        waits::{Need, Waiting},
    },
    error::{Lost, Result, SqlError},
    failure::EngineResult as _,
    transaction::{ActiveTransaction, PATIENCE, Patience, lock_timeout},
    types::Interrupt,
};

/// How long a statement waits, about, before it tries again whatever its place, and in times of an attempt, if that is
/// longer: most of the time of a long statement is not spent on attempts.
const TRY_AFTER: Duration = Duration::from_millis(10);
const ATTEMPTS: u32 = 4;

/// The waiting of one statement, for one row after another.
pub(super) struct RowWait {
    party: Arc<Party>,
    place: Option<Place>,
    waiting: Option<Waiting>,
    /// The transaction for which it waited last.
    holder: Option<Tid>,
    /// Conflicts lost since the last one whose winner was known.
    unnamed: u32,
    /// When the first conflict was lost since the last one with a transaction that was writing the row.
    lost: Option<Instant>,
    /// When the last attempt began.
    tried: Option<Instant>,
    /// The limit of all waits.
    patience: Patience,
    /// Whether the statement has been tried again although the limit has passed.
    tried_late: bool,
    /// Whether the wait has been counted.
    is_counted: bool,
}

impl RowWait {
    /// Conflicts with transactions that have ended which a statement may lose at once, one after the other.
    const UNNAMED: u32 = 2;

    pub(super) fn new(party: Arc<Party>, at_most: Option<Duration>) -> Self {
        let patience = Patience::new(at_most);
        Self {
            party,
            place: None,
            waiting: None,
            holder: None,
            unnamed: 0,
            lost: None,
            tried: None,
            patience,
            tried_late: false,
            is_counted: false,
        }
    }

    /// Returns the row of a conflict, and the transaction that has it, if that has not ended.
    fn held(&self, conflict: &SqlError) -> Option<(u64, Tid)> {
        let Lost { row, to } = conflict.report().lost?;
        let holder = Tid::from_u64(to?);
        self.party.queues.is_in_flight(holder).then_some((row, holder))
    }

    /// Whether a conflict was lost to a transaction that is writing the row.
    pub(super) fn is_held(&self, conflict: &SqlError) -> bool {
        was_held(conflict) && self.held(conflict).is_some()
    }

    /// Whether another transaction has come before the statement since the last time: it has lost a conflict, and not
    /// only met again the transaction for which it waits.
    pub(super) fn is_passed(&self, conflict: &SqlError) -> bool {
        match self.held(conflict) {
            Some((_, holder)) => self.holder.is_some_and(|last| last != holder),
            None => true,
        }
    }

    /// Whether a limit has passed; a statement that only loses to transactions that have ended is not to lose for long.
    pub(super) fn is_over(&self) -> bool {
        self.patience.is_over() || self.lost.is_some_and(|since| since.elapsed() > PATIENCE)
    }

    /// Waits after a conflict, until the statement has a chance, or should try anyway. The statement must hold no rows
    /// but those of its transaction's earlier statements.
    pub(super) fn wait(&mut self, conflict: &SqlError, interrupt: &Interrupt) -> Result<()> {
        interrupt.check()?;
        if self.patience.is_over() {
            // The limit may have passed just now, since `is_over`: what is no wait for a row is a lost conflict.
            if self.is_held(conflict) || self.tried_late {
                return Err(lock_timeout());
            }
            self.tried_late = true;
            return Ok(());
        }
        match self.is_held(conflict) {
            true => self.lost = None,
            false => _ = self.lost.get_or_insert_with(Instant::now),
        }
        let attempt = self.tried.map_or(Duration::ZERO, |tried| tried.elapsed());
        let waited = match self.held(conflict) {
            Some((row, holder)) => self.wait_for(row, holder, attempt, interrupt),
            // The winner has ended: the statement needs no more than a newer snapshot.
            None => self.pause(),
        };
        self.tried = Some(Instant::now());
        waited
    }

    fn pause(&mut self) -> Result<()> {
        self.unnamed += 1;
        if self.unnamed > Self::UNNAMED {
            self.patience.wait();
        }
        self.holder = None;
        self.waiting.as_mut().map_or(Ok(()), |waiting| waiting.needs(None))
    }

    fn wait_for(&mut self, row: u64, holder: Tid, attempt: Duration, interrupt: &Interrupt) -> Result<()> {
        self.unnamed = 0;
        self.holder = Some(holder);
        let Party { waits, footprint, queues, .. } = &*self.party;
        self.waiting.get_or_insert_with(|| waits.begin(footprint)).needs(Some(Need::Row(holder)))?;
        // An old place is given up first.
        let place = match self.place.take_if(|place| place.row == row) {
            Some(place) => place,
            None => {
                self.place = None;
                queues.enter(row)
            }
        };
        // Not all at the same time: of two that try together, each may stop the other.
        let at_most = TRY_AFTER.max(attempt.saturating_mul(ATTEMPTS)).mul_f64(0.5 + fastrand::f64());
        self.place.insert(place).wait(holder, at_most.min(self.patience.left()), interrupt)
    }

    /// Whether it is asked for the first time.
    pub(super) fn is_first(&mut self) -> bool {
        !std::mem::replace(&mut self.is_counted, true)
    }

    /// The statement has succeeded.
    pub(super) fn got(&mut self, active: &ActiveTransaction) -> Result<()> {
        if let Some(mut place) = self.place.take() {
            place.got = active.txn.tid().sql()?;
        }
        Ok(())
    }
}

/// Whether a conflict was lost to a transaction that was writing the row. It may have ended since, and it may have
/// rolled back: then the row is as before, also for a statement that would lose if it had committed. One that is
/// prepared may hold the row because it has read it: that is no reason to wait for long.
pub(super) fn was_held(conflict: &SqlError) -> bool {
    let source = conflict.report().source.as_ref().and_then(|source| source.downcast_ref::<Abort>());
    let edge = source.and_then(|abort| abort.successor.as_ref());
    // The other one is not named when it had committed.
    edge.is_some_and(|edge| edge.dependency == Dependency::BothWrite && edge.other.is_some())
}

#[cfg(test)]
mod tests {
    use ermine::{Database, Error, Isolation, Options, Scheme, Table, Transaction, TxnOptions};

    use super::*;

    /// The difference decides whether a statement at REPEATABLE READ is tried again, however soon the other transaction
    /// ends after it was met.
    #[test]
    fn a_row_that_was_being_written_is_told_from_one_that_was_written() {
        for scheme in [Scheme::Si, Scheme::SiSsn, Scheme::SiSsi] {
            let db = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
            let rows: Table<u64, u64> = db.table("rows").unwrap();
            let lost = |txn: &Transaction<'_>| match txn.put(&rows, &1, &2) {
                Err(error @ Error::Abort(_)) => crate::failure::sql_error(error),
                other => panic!("{scheme}: {other:?}"),
            };
            db.run(|txn| txn.put(&rows, &1, &0)).unwrap();
            let writes = || {
                let txn = db.begin(TxnOptions::default()).unwrap();
                txn.put(&rows, &1, &1).unwrap();
                txn
            };
            for commits in [false, true] {
                let second = db.begin(TxnOptions::default().isolation(Isolation::Snapshot)).unwrap();
                let first = writes();
                let conflict = lost(&second);
                if commits {
                    first.commit().unwrap();
                } else {
                    drop(first);
                }
                assert!(was_held(&conflict), "{scheme}, {commits}");
            }
            let second = db.begin(TxnOptions::default().isolation(Isolation::Snapshot)).unwrap();
            writes().commit().unwrap();
            assert!(!was_held(&lost(&second)), "{scheme}");
        }
    }
}
