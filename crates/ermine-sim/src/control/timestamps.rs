//! Timestamp ordering: a transaction gets its timestamp when it begins, and the order of timestamps is the serial
//! order.
//!
//! A record has two: of the youngest transaction that has read it, and of the last one that wrote it. A transaction
//! that comes too late, after an access of a younger one that conflicts, aborts. The rules differ in how they treat an
//! older transaction that has not ended:
//!
//! - [`Dirty`]: strict timestamp ordering (STO 2.3). The transaction waits for the one that has written the record.
//! - [`Ended`]: the engine's `tso`. No transaction waits: it aborts, and its retry waits.
//! - [`Safe`]: the safe timestamp of the HTM paper (IV.A), without the optimization of IV.C. Up to the safe timestamp,
//!   all transactions have ended; an access of a later one, a read too if the transaction writes, is a conflict. The
//!   transaction is put aside until the safe timestamp has passed the other one (IV.C).

use std::{collections::BTreeMap, fmt::Debug, marker::PhantomData};

use super::Control;
use crate::{
    database::{Database, Refusal},
    offers::Access,
    outcome::Cause,
    table::{RecordId, Slot, Stamp, VersionId},
};

/// A place in the order of beginnings.
type Timestamp = u64;

/// How a transaction treats older ones that have not ended.
pub(crate) trait Rule: Debug {
    /// Whether it waits for them; otherwise it aborts.
    const WAITS: bool = false;
    /// Whether everything after the safe timestamp is a conflict.
    const SAFE_ONLY: bool = false;
}

/// Waits for the transaction that has written a record.
#[derive(Debug)]
pub(crate) struct Dirty;

/// Aborts if the transaction that has written a record has not ended.
#[derive(Debug)]
pub(crate) struct Ended;

/// Aborts unless all transactions up to the one that has accessed a record had ended when it began.
#[derive(Debug)]
pub(crate) struct Safe;

impl Rule for Dirty {
    const WAITS: bool = true;
}

impl Rule for Ended {}

impl Rule for Safe {
    const SAFE_ONLY: bool = true;
}

/// The timestamps of a transaction.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    timestamp: Timestamp,
    /// All transactions up to this one had ended when it began.
    safe: Timestamp,
}

#[derive(Debug)]
pub(crate) struct Timestamps<R> {
    last: Timestamp,
    /// By slot.
    own: Vec<Own>,
    /// The transactions that have not ended.
    running: BTreeMap<Timestamp, Slot>,
    /// For each record, the youngest transaction that has read it.
    read: Vec<Timestamp>,
    /// For each record, the last transaction that wrote it and committed.
    written: Vec<Timestamp>,
    rule: PhantomData<R>,
}

impl<R: Rule> Control for Timestamps<R> {
    const WAITS_IN_ORDER: bool = true;
    const SUSPENDS: bool = R::SAFE_ONLY;

    fn new(records: u32) -> Self {
        Self {
            last: 0,
            own: Vec::new(),
            running: BTreeMap::new(),
            read: vec![0; records as usize],
            written: vec![0; records as usize],
            rule: PhantomData,
        }
    }

    fn begin(&mut self, _db: &mut Database, t: Slot, _accesses: &[Access]) -> Result<(), Refusal> {
        self.last += 1;
        let safe = self.running.first_key_value().map_or(self.last, |(&oldest, _)| oldest) - 1;
        if self.own.len() <= t.at() {
            self.own.resize(t.at() + 1, Own::default());
        }
        self.own[t.at()] = Own { timestamp: self.last, safe };
        self.running.insert(self.last, t);
        Ok(())
    }

    fn read(&mut self, db: &mut Database, t: Slot, record: RecordId) -> Result<VersionId, Refusal> {
        self.admit_write_timestamp(db, t, record)?;
        let read = &mut self.read[record.0 as usize];
        *read = self.own[t.at()].timestamp.max(*read);
        Ok(db.table.latest(record))
    }

    fn write(&mut self, db: &mut Database, t: Slot, record: RecordId) -> Result<(), Refusal> {
        self.admit_write_timestamp(db, t, record)?;
        let (read, own) = (self.read[record.0 as usize], self.own[t.at()]);
        let is_conflict = if R::SAFE_ONLY { read > own.safe && read != own.timestamp } else { read > own.timestamp };
        if is_conflict { Err(self.lose(db, t, read)) } else { Ok(()) }
    }

    fn commit(&mut self, db: &mut Database, t: Slot, _cstamp: Stamp) -> Result<(), Cause> {
        for record in &db[t].writes {
            self.written[record.0 as usize] = self.own[t.at()].timestamp;
        }
        Ok(())
    }

    fn end(&mut self, _db: &Database, t: Slot) {
        self.running.remove(&self.own[t.at()].timestamp);
    }
}

impl<R: Rule> Timestamps<R> {
    /// Decides whether a transaction may access what the last writer has left of a record.
    fn admit_write_timestamp(&self, db: &mut Database, t: Slot, record: RecordId) -> Result<(), Refusal> {
        let own = self.own[t.at()];
        let writer = db.table.writer(record);
        let written = writer.map_or(self.written[record.0 as usize], |writer| self.own[writer.at()].timestamp);
        match writer {
            _ if written > own.timestamp || R::SAFE_ONLY && written > own.safe => Err(self.lose(db, t, written)),
            Some(writer) if R::WAITS => Err(db.wait_for(writer)),
            Some(_) => Err(self.lose(db, t, written)),
            None => Ok(()),
        }
    }

    /// Aborts a transaction because of the access of another one. A retry is younger than that: it waits only for the
    /// transactions that would be in its way again.
    fn lose(&self, db: &mut Database, t: Slot, other: Timestamp) -> Refusal {
        let in_the_way = if R::SAFE_ONLY { 0..=other } else { other..=other };
        for (_, &opponent) in self.running.range(in_the_way).filter(|&(_, &opponent)| opponent != t) {
            db.lose_to(opponent, Cause::Collision);
        }
        Refusal::Abort(Cause::Collision)
    }
}
