//! Concurrency control: which version a read returns, when an access waits, and which transactions may commit.
//!
//! A file for each kind of scheme; the base around them (`world/`) has the write locks, the waiting, and the
//! installation of versions. Reads of a transaction's own writes do not reach a scheme.

mod declared;
mod hardware;
mod named;
mod rc;
mod rcl;
mod si;
mod ssi;
mod ssn;
mod timestamps;
mod two_phase;
mod validated;

pub(crate) use self::named::{Simulated, run_under};
#[cfg(test)]
pub(crate) use self::{
    hardware::Hardware,
    rc::Rc,
    rcl::Rcl,
    si::Si,
    ssi::Ssi,
    ssn::Ssn,
    timestamps::{Dirty, Ended, Safe, Timestamps},
    two_phase::TwoPhase,
    validated::{Private, Validated},
};
use crate::{
    database::{Database, Refusal},
    offers::Access,
    outcome::Cause,
    table::{RecordId, Slot, Stamp, VersionId},
};

/// A scheme.
pub(crate) trait Control {
    /// Whether transactions that only read may use safe snapshots beside this scheme (SSN 5.2).
    const SAFE_SNAPSHOTS: bool = false;

    /// Whether reads see the snapshot of the transaction's begin.
    const SNAPSHOT: bool = false;

    /// Whether writes stay private until the commit, so that several transactions in flight may have written a record.
    const PRIVATE_WRITES: bool = false;

    /// Whether a transaction waits for earlier ones only. Then transactions cannot wait for each other in a circle, and
    /// the depth of waiting has no limit.
    const WAITS_IN_ORDER: bool = false;

    /// Whether a transaction that aborts is put aside until its opponents have ended, and its core runs others (HTM
    /// IV.C). Otherwise its core waits with it.
    const SUSPENDS: bool = false;

    /// The scheme for a table of this size.
    fn new(records: u32) -> Self;

    /// Admits a transaction before its first access. Only schemes whose transactions declare their accesses may look
    /// at these. Repeated if the transaction has to wait.
    fn begin(&mut self, _db: &mut Database, _t: Slot, _accesses: &[Access]) -> Result<(), Refusal> {
        Ok(())
    }

    /// Chooses the version that a read returns.
    fn read(&mut self, db: &mut Database, t: Slot, record: RecordId) -> Result<VersionId, Refusal>;

    /// Decides whether a transaction may overwrite the newest version of a record.
    fn write(&mut self, db: &mut Database, t: Slot, record: RecordId) -> Result<(), Refusal>;

    /// Certifies a transaction; if it succeeds, leaves its traces in the versions that it has read and overwritten.
    fn commit(&mut self, _db: &mut Database, _t: Slot, _cstamp: Stamp) -> Result<(), Cause> {
        Ok(())
    }

    /// Releases all that is not in the table.
    fn end(&mut self, _db: &Database, _t: Slot) {}
}

/// Parts of the certifiers that tests take away, one at a time, to see the cycle test fail.
pub(crate) trait Parts {
    /// SSN and SSI: a reader leaves its commit stamp in the versions that it has read.
    const READERS_LEAVE_STAMPS: bool = true;
    /// SSN: the overwritten version receives pi(T), otherwise c(T).
    const OVERWRITES_PASS_ON_PI: bool = true;
    /// SSN: the creators of the versions read are predecessors.
    const CREATORS_ARE_PREDECESSORS: bool = true;
    /// SSN and SSI: overwrites after the read count.
    const LATE_OVERWRITES_COUNT: bool = true;
    /// SSN over SI: a transaction that only reads commits at its begin only if the overwriters of its reads allow it.
    const READ_ONLY_IS_CHECKED: bool = true;
    /// SSN and SSI: a safe snapshot has read every record.
    const SNAPSHOTS_ARE_READERS: bool = true;
    /// SSI: the transaction in the middle of a dangerous structure is tested.
    const PIVOTS_ARE_TESTED: bool = true;
    /// SSI: the first transaction of a dangerous structure is tested.
    const FIRST_IS_TESTED: bool = true;
}

/// All parts, as in the paper.
#[derive(Debug)]
pub(crate) struct Complete;

impl Parts for Complete {}

/// Write conflicts wait, under every scheme (SSN 7.1).
fn wait_for_writer(db: &mut Database, record: RecordId) -> Result<(), Refusal> {
    db.table.last_writer(record).map_or(Ok(()), |writer| Err(db.wait_for(writer)))
}
