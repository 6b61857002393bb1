//! Serializable Snapshot Isolation (SSN 2): snapshot isolation without the dangerous structure, in which T1 read a
//! version that T2 overwrote, T2 read a version that T3 overwrote, and T3 committed first (Cahill et al.). T1 and T3
//! may be the same. If T1 only reads, T3 must have committed before T1 began (Ports and Grittner).
//!
//! By stamps, as in ERMIA 3.6, with s(V) the commit stamp of the transaction that overwrote V:
//! - out(T) = min { s(V) : T read V } is the commit stamp of the first T3 behind T.
//! - As T2, T aborts if a transaction that read what T overwrites committed at out(T) or later. A transaction that only
//!   reads leaves its begin, not its commit stamp: this is the exception for it.
//! - As T1, T aborts if out(T2) is finite for a T2 that overwrote what T read; if T only reads, if out(T2) <= begin(T).
//!   T3 committed before T2 then, and T2 before T.
//! - As T3, T commits: the other two see its stamps later.

use std::marker::PhantomData;

use super::{Complete, Control, Parts, si::Si};
use crate::{
    database::{Database, Refusal},
    outcome::Cause,
    table::{RecordId, Slot, Stamp, VersionId},
};

#[derive(Debug)]
pub(crate) struct Ssi<P = Complete> {
    snapshots: Si,
    parts: PhantomData<P>,
}

impl<P: Parts> Control for Ssi<P> {
    const SAFE_SNAPSHOTS: bool = true;
    const SNAPSHOT: bool = true;

    fn new(records: u32) -> Self {
        Self { snapshots: Si::new(records), parts: PhantomData }
    }

    fn read(&mut self, db: &mut Database, t: Slot, record: RecordId) -> Result<VersionId, Refusal> {
        let v = self.snapshots.read(db, t, record)?;
        // The first successor so far: the commit looks again.
        db[t].sstamp = db[t].sstamp.min(db.table[v].sstamp);
        Ok(v)
    }

    fn write(&mut self, db: &mut Database, t: Slot, record: RecordId) -> Result<(), Refusal> {
        self.snapshots.write(db, t, record)
    }

    fn commit(&mut self, db: &mut Database, t: Slot, cstamp: Stamp) -> Result<(), Cause> {
        let Neighbours { out, middle_out, readers } = survey::<P>(db, t);
        let only_reads = db[t].writes.is_empty();
        let is_first = if only_reads { middle_out <= db[t].begin } else { middle_out < Stamp::INFINITE };
        let is_pivot = out <= readers;
        if P::FIRST_IS_TESTED && is_first || P::PIVOTS_ARE_TESTED && is_pivot {
            return Err(Cause::Certifier);
        }
        if P::SNAPSHOTS_ARE_READERS && !only_reads && out <= db.safe_snapshot {
            return Err(Cause::SafeSnapshot);
        }
        leave_stamps::<P>(db, t, if only_reads { db[t].begin } else { cstamp }, cstamp, out);
        Ok(())
    }
}

/// A transaction's neighbours in dangerous structures.
struct Neighbours {
    /// Commit stamp of the first transaction that overwrote one of its reads.
    out: Stamp,
    /// The least commit stamp of a transaction behind those that overwrote its reads.
    middle_out: Stamp,
    /// The latest stamp of a transaction that read what it overwrites.
    readers: Stamp,
}

fn survey<P: Parts>(db: &Database, t: Slot) -> Neighbours {
    let transaction = &db[t];
    let mut found = Neighbours { out: transaction.sstamp, middle_out: Stamp::INFINITE, readers: Stamp::ZERO };
    for &v in &transaction.reads {
        let v = &db.table[v];
        if P::LATE_OVERWRITES_COUNT {
            found.out = found.out.min(v.sstamp);
        }
        found.middle_out = found.middle_out.min(v.s2);
    }
    for &record in &transaction.writes {
        found.readers = found.readers.max(db.table[db.table.latest(record)].pstamp);
    }
    found
}

fn leave_stamps<P: Parts>(db: &mut Database, t: Slot, read_stamp: Stamp, cstamp: Stamp, out: Stamp) {
    let reads = std::mem::take(&mut db[t].reads);
    if P::READERS_LEAVE_STAMPS {
        for &v in &reads {
            db.table[v].pstamp = db.table[v].pstamp.max(read_stamp);
        }
    }
    db[t].reads = reads;
    for at in 0..db[t].writes.len() {
        let overwritten = db.table.latest(db[t].writes[at]);
        (db.table[overwritten].sstamp, db.table[overwritten].s2) = (cstamp, out);
    }
}
