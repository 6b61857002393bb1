//! The base that all schemes share: transactions in flight, write locks, waiting, and the order of commits (SSN 7.1).
//!
//! Invariants
//! 1. A transaction that waits for another began to wait when the other did not wait (wait-depth limiting), or the
//!    other is older ([`Control::WAITS_IN_ORDER`]). So no transactions wait for each other in a circle.
//! 2. A record has at most one writer. The version that the writer overwrites stays the newest one until it ends. Where
//!    writes are private ([`Control::PRIVATE_WRITES`]), a record has no writer.
//! 3. With wait-depth limiting, at most one transaction waits to write a record: it comes before later accesses (SSN,
//!    figure 4), so the next one that would wait for it aborts by 1.
//! 4. Commits are atomic: each takes the next stamp, is certified, and installs its versions in one step.

use crate::{
    control::Control,
    database::{Database, Refusal},
    history::History,
    offers::Access,
    outcome::Cause,
    table::{RecordId, Slot},
};

/// What became of an access or a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It took place.
    Done,
    /// It is repeated when [`World::woken`] names the transaction.
    Waits,
    /// The transaction has ended.
    Aborted(Cause),
}

/// A database under one scheme.
#[derive(Debug)]
pub(crate) struct World<C> {
    pub(crate) db: Database,
    control: C,
    /// Slots without a transaction.
    free: Vec<Slot>,
    /// Transactions that no longer wait, in the order in which they began to.
    woken: Vec<Slot>,
    /// The transactions for whose end a retry of the transaction that aborted last should wait.
    opponents: Vec<Slot>,
    history: Option<History>,
}

impl<C: Control> World<C> {
    /// A database with this many records, which records a history on request.
    pub(crate) fn new(records: u32, keeps_history: bool) -> Self {
        Self {
            db: Database::new(records),
            control: C::new(records),
            free: Vec::new(),
            woken: Vec::new(),
            opponents: Vec::new(),
            history: keeps_history.then(|| History::new(records)),
        }
    }

    /// Begins a transaction.
    pub(crate) fn begin(&mut self) -> Slot {
        let t = self.free.pop().unwrap_or_else(|| self.db.add_slot());
        let begin = self.db.clock;
        self.db[t].reset(begin);
        t
    }

    /// Begins the retry of the transaction that aborted last, if it has to wait for the end of its opponents.
    pub(crate) fn begin_again(&mut self) -> Option<Slot> {
        let opponents = std::mem::take(&mut self.opponents);
        if opponents.is_empty() {
            return None;
        }
        let t = self.begin();
        self.await_ends(t, &opponents);
        Some(t)
    }

    /// Lets the scheme admit a transaction before its first access. Its snapshot is as of now.
    pub(crate) fn enter(&mut self, t: Slot, accesses: &[Access]) -> Progress {
        self.db[t].begin = self.db.clock;
        match self.control.begin(&mut self.db, t, accesses) {
            Ok(()) => Progress::Done,
            Err(refusal) => self.refused(t, refusal),
        }
    }

    /// Begins a transaction that only reads, and reads the last safe snapshot (SSN 5.2).
    pub(crate) fn begin_in_safe_snapshot(&mut self) -> Slot {
        let t = self.begin();
        self.db[t].safe_snapshot = Some(self.db.safe_snapshot);
        t
    }

    /// Takes a safe snapshot: a transaction that has read every record, as of now.
    pub(crate) fn take_safe_snapshot(&mut self) {
        self.db.safe_snapshot = self.db.clock;
    }

    /// Reads a record. A read of the transaction's own write adds no dependency (SSN 2).
    pub(crate) fn read(&mut self, t: Slot, record: RecordId) -> Progress {
        if self.has_written(t, record) {
            return Progress::Done;
        }
        let read = match self.db[t].safe_snapshot {
            Some(stamp) => Ok(self.db.table.as_of(record, stamp)),
            None => self.control.read(&mut self.db, t, record),
        };
        match read {
            Ok(version) => {
                self.db[t].reads.push(version);
                Progress::Done
            }
            Err(refusal) => self.refused(t, refusal),
        }
    }

    /// Writes a record. A second write of the same record changes nothing that other transactions see.
    pub(crate) fn write(&mut self, t: Slot, record: RecordId) -> Progress {
        if self.has_written(t, record) {
            return Progress::Done;
        }
        self.leave_queue(t);
        match self.control.write(&mut self.db, t, record) {
            Ok(()) => {
                if !C::PRIVATE_WRITES {
                    debug_assert_eq!(self.db.table.writer(record), None, "a record has one writer");
                    self.db.table.set_writer(record, Some(t));
                }
                self.db[t].writes.push(record);
                Progress::Done
            }
            Err(refusal) => {
                let progress = self.refused(t, refusal);
                if progress == Progress::Waits {
                    self.db.table.set_queued(record, Some(t));
                    self.db[t].queued = Some(record);
                }
                progress
            }
        }
    }

    fn has_written(&self, t: Slot, record: RecordId) -> bool {
        match C::PRIVATE_WRITES {
            true => self.db[t].writes.contains(&record),
            false => self.db.table.writer(record) == Some(t),
        }
    }

    fn leave_queue(&mut self, t: Slot) {
        if let Some(record) = self.db[t].queued.take() {
            self.db.table.set_queued(record, None);
        }
    }

    /// Certifies a transaction and installs its versions, or aborts it.
    pub(crate) fn commit(&mut self, t: Slot) -> Progress {
        let cstamp = self.db.clock.next();
        if self.db[t].safe_snapshot.is_none()
            && let Err(cause) = self.control.commit(&mut self.db, t, cstamp)
        {
            return self.abort(t, cause, Vec::new());
        }
        self.db.clock = cstamp;
        let mut history = self.history.as_mut().map(|history| history.commit(&self.db[t].reads));
        for at in 0..self.db[t].writes.len() {
            let record = self.db[t].writes[at];
            let overwritten = self.db.table.install(record, cstamp);
            if let Some(history) = &mut history {
                history.overwrote(overwritten);
            }
        }
        self.end(t);
        Progress::Done
    }

    fn refused(&mut self, t: Slot, refusal: Refusal) -> Progress {
        let predecessors = self.db.take_predecessors();
        let is_deep = || predecessors.iter().any(|&predecessor| self.db[predecessor].waits_for > 0);
        match refusal {
            // Wait-depth limiting (SSN 7.1).
            Refusal::Wait if C::WAITS_IN_ORDER || !is_deep() => {
                self.await_ends(t, &predecessors);
                self.db.keep_memory(predecessors);
                Progress::Waits
            }
            Refusal::Wait => self.abort(t, Cause::WaitDepth, predecessors),
            Refusal::Abort(cause) => self.abort(t, cause, predecessors),
        }
    }

    /// Lets a transaction wait until these have ended.
    fn await_ends(&mut self, t: Slot, predecessors: &[Slot]) {
        self.db[t].waits_for = predecessors.len() as u32;
        for &predecessor in predecessors {
            self.db[predecessor].waiters.push(t);
        }
    }

    fn abort(&mut self, t: Slot, cause: Cause, opponents: Vec<Slot>) -> Progress {
        let before = std::mem::replace(&mut self.opponents, opponents);
        self.db.keep_memory(before);
        self.end(t);
        Progress::Aborted(cause)
    }

    /// Releases the locks of a transaction and wakes the transactions that waited for it alone.
    fn end(&mut self, t: Slot) {
        self.control.end(&self.db, t);
        for at in 0..self.db[t].writes.len() {
            let record = self.db[t].writes[at];
            self.db.table.set_writer(record, None);
        }
        let mut waiters = std::mem::take(&mut self.db[t].waiters);
        for waiter in waiters.drain(..) {
            self.db[waiter].waits_for -= 1;
            if self.db[waiter].waits_for == 0 {
                self.woken.push(waiter);
            }
        }
        self.db[t].waiters = waiters;
        self.free.push(t);
    }

    /// Takes the transactions whose refused accesses are to be repeated.
    pub(crate) fn woken(&mut self) -> std::vec::Drain<'_, Slot> {
        self.woken.drain(..)
    }

    /// The history of the committed transactions.
    pub(crate) fn into_history(self) -> Option<History> {
        self.history
    }
}

#[cfg(test)]
mod tests;
