//! The Serial Safety Net over any scheme that forbids lost writes and dirty reads (SSN 4.1, Algorithms 1 and 2).
//!
//! T must abort if pi(T) <= eta(T): if a transaction that must precede it committed no earlier than one that must
//! follow it. Names are those of the paper's Table 1. Two simplifications: the read set keeps all versions read (those
//! that were overwritten already give the same minimum again, those that T overwrites itself have no overwriter yet),
//! and commits are atomic, so that no stamp is unknown (4.2 is about nothing else).
//!
//! Over SI, a transaction without writes commits at its begin (5.2). Then those that overwrote its reads after its
//! begin must be no predecessors of any that committed before: pi(V) > begin for each V that it read. Otherwise the
//! ordinary rule applies.

use std::marker::PhantomData;

use super::{Complete, Control, Parts};
use crate::{
    database::{Database, Refusal},
    outcome::Cause,
    table::{RecordId, Slot, Stamp, VersionId},
};

#[derive(Debug)]
pub(crate) struct Ssn<U, P = Complete> {
    underlying: U,
    parts: PhantomData<P>,
}

impl<U: Control, P: Parts> Control for Ssn<U, P> {
    const SAFE_SNAPSHOTS: bool = true;
    const SNAPSHOT: bool = U::SNAPSHOT;

    fn new(records: u32) -> Self {
        Self { underlying: U::new(records), parts: PhantomData }
    }

    fn read(&mut self, db: &mut Database, t: Slot, record: RecordId) -> Result<VersionId, Refusal> {
        let v = self.underlying.read(db, t, record)?;
        if P::CREATORS_ARE_PREDECESSORS {
            db[t].pstamp = db[t].pstamp.max(db.table[v].cstamp);
        }
        db[t].sstamp = db[t].sstamp.min(db.table[v].sstamp);
        verify_exclusion(db, t).map_err(Refusal::Abort)?;
        Ok(v)
    }

    fn write(&mut self, db: &mut Database, t: Slot, record: RecordId) -> Result<(), Refusal> {
        self.underlying.write(db, t, record)?;
        db[t].pstamp = db[t].pstamp.max(db.table[db.table.latest(record)].pstamp);
        verify_exclusion(db, t).map_err(Refusal::Abort)
    }

    fn commit(&mut self, db: &mut Database, t: Slot, mut cstamp: Stamp) -> Result<(), Cause> {
        self.underlying.commit(db, t, cstamp)?;
        if U::SNAPSHOT && commits_at_begin::<P>(db, t) {
            cstamp = db[t].begin;
        } else {
            finalize::<P>(db, t, cstamp);
            verify_exclusion(db, t)?;
            let precedes_snapshot = db[t].sstamp <= db.safe_snapshot && !db[t].writes.is_empty();
            if P::SNAPSHOTS_ARE_READERS && precedes_snapshot {
                return Err(Cause::SafeSnapshot);
            }
        }
        post_commit::<P>(db, t, cstamp);
        Ok(())
    }

    fn end(&mut self, db: &Database, t: Slot) {
        self.underlying.end(db, t);
    }
}

fn verify_exclusion(db: &Database, t: Slot) -> Result<(), Cause> {
    if db[t].sstamp <= db[t].pstamp { Err(Cause::Certifier) } else { Ok(()) }
}

/// Whether a transaction may commit with its begin as its stamp.
fn commits_at_begin<P: Parts>(db: &Database, t: Slot) -> bool {
    let t = &db[t];
    let allowed = || t.reads.iter().all(|&v| db.table[v].sstamp > t.begin);
    t.writes.is_empty() && (!P::READ_ONLY_IS_CHECKED || allowed())
}

/// Finalizes pi(T) and eta(T) (Algorithm 2, lines 4 to 11).
fn finalize<P: Parts>(db: &mut Database, t: Slot, cstamp: Stamp) {
    let context = &db[t];
    let mut sstamp = context.sstamp.min(cstamp);
    if P::LATE_OVERWRITES_COUNT {
        sstamp = context.reads.iter().fold(sstamp, |sstamp, &v| sstamp.min(db.table[v].sstamp));
    }
    let overwritten = context.writes.iter().map(|&record| db.table[db.table.latest(record)].pstamp);
    let pstamp = overwritten.fold(context.pstamp, Stamp::max);
    (db[t].sstamp, db[t].pstamp) = (sstamp, pstamp);
}

/// Leaves c(T) in the versions read and pi(T) in those overwritten (Algorithm 2, lines 16 to 18).
fn post_commit<P: Parts>(db: &mut Database, t: Slot, cstamp: Stamp) {
    let reads = std::mem::take(&mut db[t].reads);
    if P::READERS_LEAVE_STAMPS {
        for &v in &reads {
            db.table[v].pstamp = db.table[v].pstamp.max(cstamp);
        }
    }
    db[t].reads = reads;
    for at in 0..db[t].writes.len() {
        let overwritten = db.table.latest(db[t].writes[at]);
        db.table[overwritten].sstamp = if P::OVERWRITES_PASS_ON_PI { db[t].sstamp } else { cstamp };
    }
}
