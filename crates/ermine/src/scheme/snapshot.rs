//! The visibility rules without a certifier: read committed and snapshot isolation.
//!
//! Read committed (`rc`): each operation reads the newest committed version; dirty reads and dirty writes cannot
//! happen, everything else can. Snapshot isolation (`si`): all reads see the snapshot of the beginning, and a
//! transaction that updates a row that was committed since aborts; write skew and the read-only anomaly can happen.

use super::{Certifier, Conflict, ConflictSite, Overwrite, Read, Running, Scheme, Shared, staleness::Staleness};
use crate::{
    ids::{Stamp, Tid},
    rows::chain::VersionPtr,
    txn::{readers::ReaderSlot, table::TidLease},
};

/// Read committed.
pub(crate) struct ReadCommitted;

impl Scheme for ReadCommitted {
    type Certifier = Uncertified;
    const SNAPSHOT: bool = false;
}

/// Snapshot isolation.
pub(crate) struct SnapshotIsolation;

impl Scheme for SnapshotIsolation {
    type Certifier = Uncertified;
    const SNAPSHOT: bool = true;
}

/// Lets every transaction commit that the visibility rule let through.
#[derive(Default)]
pub(crate) struct Uncertified;

impl Certifier for Uncertified {
    type Stamps = ();
    const TRACKS: bool = false;
    const SNAPSHOT_IS_SERIAL: bool = true;

    fn begin(&mut self, _: Stamp) {}

    fn read_all<'a>(
        &mut self,
        _: &'a Staleness,
        _: impl FnOnce() -> Running<'a>,
        reads: impl Iterator<Item = Read<()>>,
    ) -> Result<(), Conflict> {
        reads.for_each(drop);
        Ok(())
    }

    fn follow(&mut self, _: Stamp, _: ConflictSite) -> Result<(), Conflict> {
        Ok(())
    }

    fn enter_gap(&mut self, _: Stamp, _: ConflictSite) -> Result<(), Conflict> {
        Ok(())
    }

    fn overwrite(&mut self, _: Tid, _: VersionPtr<()>, _: Stamp, _: ConflictSite) -> Result<(), Conflict> {
        Ok(())
    }

    fn announce(&mut self, _: Tid, _: u64) {}

    fn certify<'w>(
        &mut self,
        _: &Shared,
        _: &TidLease,
        _: Stamp,
        _: impl Iterator<Item = Overwrite<'w, ()>>,
    ) -> Result<(), Conflict> {
        Ok(())
    }

    fn publish_reads(&mut self, _: &ReaderSlot, _: Stamp) {}

    fn publish_write(&self, _: VersionPtr<()>, _: Stamp, _: Stamp) {}

    fn withdraw(&self, _: Tid, _: VersionPtr<()>) {}
}
