//! Schemes whose transactions declare beforehand what they will touch: serial execution (STO 2.1), partitioned
//! execution (STO 2.2), very lightweight locking (HTM VI.C).
//!
//! A transaction enters a queue with its claim, and runs as soon as no transaction in front of it has a claim that
//! conflicts with its own. It never aborts. The three schemes differ in their claims only: the whole database, the
//! partitions, the records.
//!
//! Differences from the engine: its `partitioned` scheme learns of the second partition when the transaction touches
//! it, and aborts one of two transactions that then want the whole database; its `vll` compares bit maps of keys, which
//! meet more often than the keys.

use std::fmt::Debug;

use super::Control;
use crate::{
    database::{Database, Refusal},
    offers::Access,
    table::{RecordId, Slot, VersionId},
};

/// The part of the database that a transaction has for itself, or shares.
pub(crate) trait Claim: Debug {
    /// The claim of a transaction with these accesses.
    fn of(accesses: &[Access]) -> Self;

    /// Whether two transactions with these claims may not run at the same time.
    fn conflicts(&self, other: &Self) -> bool;
}

/// The whole database: serial execution.
#[derive(Debug)]
pub(crate) struct Everything;

impl Claim for Everything {
    fn of(_accesses: &[Access]) -> Self {
        Self
    }

    fn conflicts(&self, _other: &Self) -> bool {
        true
    }
}

/// One partition, or the whole database. Every transaction may read records outside of partitions.
#[derive(Debug)]
pub(crate) enum Partitions {
    /// The transaction reads records outside of partitions only.
    None,
    /// All its other accesses are in this partition.
    One(u32),
    /// It crosses partitions, or writes outside of them.
    All,
}

impl Claim for Partitions {
    fn of(accesses: &[Access]) -> Self {
        accesses.iter().fold(Self::None, |claim, access| match (claim, access.partition) {
            (claim, None) if !access.is_write => claim,
            (Self::None, Some(partition)) => Self::One(partition),
            (Self::One(one), Some(partition)) if one == partition => Self::One(one),
            _ => Self::All,
        })
    }

    fn conflicts(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => true,
            (Self::One(one), Self::One(other)) => one == other,
            (Self::None, _) | (_, Self::None) => false,
        }
    }
}

/// The records, each to be read or written: very lightweight locking.
#[derive(Debug)]
pub(crate) struct Records(Vec<(u32, bool)>);

impl Claim for Records {
    fn of(accesses: &[Access]) -> Self {
        let mut records: Vec<_> = accesses.iter().map(|access| (access.record.0, access.is_write)).collect();
        // Of several accesses to a record, a write comes last and stays.
        records.sort_unstable();
        records.reverse();
        records.dedup_by_key(|&mut (record, _)| record);
        Self(records)
    }

    fn conflicts(&self, other: &Self) -> bool {
        let (mut these, mut those) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some((this, writes)), Some((that, others_write))) = (these.peek(), those.peek()) {
            match this.cmp(that) {
                std::cmp::Ordering::Equal if *writes || *others_write => return true,
                std::cmp::Ordering::Less => those.next(),
                _ => these.next(),
            };
        }
        false
    }
}

/// The queue of the transactions that have begun, or wait to.
#[derive(Debug)]
pub(crate) struct Declared<K> {
    queue: Vec<(Slot, K)>,
}

impl<K: Claim> Control for Declared<K> {
    const WAITS_IN_ORDER: bool = true;

    fn new(_records: u32) -> Self {
        Self { queue: Vec::new() }
    }

    fn begin(&mut self, db: &mut Database, t: Slot, accesses: &[Access]) -> Result<(), Refusal> {
        if self.queue.iter().any(|&(queued, _)| queued == t) {
            // All transactions that it has waited for have ended.
            return Ok(());
        }
        let claim = K::of(accesses);
        let mut permitted = Ok(());
        for (earlier, _) in self.queue.iter().filter(|(_, other)| claim.conflicts(other)) {
            permitted = Err(db.wait_for(*earlier));
        }
        self.queue.push((t, claim));
        permitted
    }

    fn read(&mut self, db: &mut Database, _t: Slot, record: RecordId) -> Result<VersionId, Refusal> {
        Ok(db.table.latest(record))
    }

    fn write(&mut self, _db: &mut Database, _t: Slot, _record: RecordId) -> Result<(), Refusal> {
        Ok(())
    }

    fn end(&mut self, _db: &Database, t: Slot) {
        self.queue.retain(|&(queued, _)| queued != t);
    }
}
