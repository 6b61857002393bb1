//! A transaction as one hardware transaction (HTM III), in a buffer without limits: what remains are the conflicts.
//!
//! The coherence protocol tracks the lines that a transaction has read and written; a record is a line here. An access
//! that conflicts with one of another transaction, a read with a write or a write with either, takes the line away: the
//! other transaction aborts. Here it does so at its next step.

use super::Control;
use crate::{
    database::{Database, Refusal},
    outcome::Cause,
    table::{RecordId, Slot, Stamp, VersionId},
};

#[derive(Debug)]
pub(crate) struct Hardware {
    /// The transactions that have each record in their buffers, and whether they have written it.
    holders: Vec<Vec<(Slot, bool)>>,
    /// By slot: the records in its buffer.
    buffers: Vec<Vec<RecordId>>,
    /// By slot: whether a line was taken away.
    is_broken: Vec<bool>,
}

impl Control for Hardware {
    const PRIVATE_WRITES: bool = true;

    fn new(records: u32) -> Self {
        Self { holders: vec![Vec::new(); records as usize], buffers: Vec::new(), is_broken: Vec::new() }
    }

    fn read(&mut self, db: &mut Database, t: Slot, record: RecordId) -> Result<VersionId, Refusal> {
        self.access(t, record, false).map_err(Refusal::Abort)?;
        Ok(db.table.latest(record))
    }

    fn write(&mut self, _db: &mut Database, t: Slot, record: RecordId) -> Result<(), Refusal> {
        self.access(t, record, true).map_err(Refusal::Abort)
    }

    fn commit(&mut self, _db: &mut Database, t: Slot, _cstamp: Stamp) -> Result<(), Cause> {
        self.check(t)
    }

    fn end(&mut self, _db: &Database, t: Slot) {
        let Some(buffer) = self.buffers.get_mut(t.at()) else { return };
        for record in buffer.drain(..) {
            self.holders[record.0 as usize].retain(|&(holder, _)| holder != t);
        }
        self.is_broken[t.at()] = false;
    }
}

impl Hardware {
    fn check(&self, t: Slot) -> Result<(), Cause> {
        if self.is_broken.get(t.at()) == Some(&true) { Err(Cause::Collision) } else { Ok(()) }
    }

    fn access(&mut self, t: Slot, record: RecordId, is_write: bool) -> Result<(), Cause> {
        self.check(t)?;
        if self.buffers.len() <= t.at() {
            self.buffers.resize(t.at() + 1, Vec::new());
            self.is_broken.resize(t.at() + 1, false);
        }
        let holders = &mut self.holders[record.0 as usize];
        for &(other, _) in holders.iter().filter(|&&(other, wrote)| other != t && (wrote || is_write)) {
            self.is_broken[other.at()] = true;
        }
        match holders.iter_mut().find(|(holder, _)| *holder == t) {
            Some((_, wrote)) => *wrote |= is_write,
            None => {
                holders.push((t, is_write));
                self.buffers[t.at()].push(record);
            }
        }
        Ok(())
    }
}
