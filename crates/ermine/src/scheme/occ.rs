//! Optimistic concurrency control over versions: the versions read must still be the newest at commit.
//!
//! A transaction reads the snapshot of its beginning. With its stamp c it checks every version it read once more: none
//! may have been overwritten by a transaction with a lower stamp. All reads then hold at c, and the order of stamps is
//! a serial order (read validation as in Larson et al., "High-Performance Concurrency Control Mechanisms for
//! Main-Memory Databases", VLDB 2012, section 3.2). Ranges and missed keys are validated by the leaf set. A transaction
//! without writes needs none of that: its snapshot is a place in the order of stamps. That order agrees with real time:
//! a transaction that was acknowledged before another one began has a stamp below that one's snapshot.
//!
//! Waits, for overwriters that are committing, are for lower stamps: no deadlock.

use super::{
    Cause, Certifier, Conflict, ConflictSite, Late, Overwrite, Read, Running, Scheme, Shared,
    staleness::Staleness,
    tracking::{Overwriter, Reads, holds, overwriter_below},
};
use crate::{
    error::{AbortKind, Dependency},
    ids::{Stamp, Tid},
    mutant::Mutant,
    rows::chain::{AtomicOrigin, CertifierStamps, Origin, OriginWord, VersionPtr},
    txn::{readers::ReaderSlot, table::TidLease},
};

/// Snapshots with read validation.
pub(crate) struct MvOcc;

impl Scheme for MvOcc {
    type Certifier = ReadValidation;
    const SNAPSHOT: bool = true;
}

/// The word in each version: its overwriter. Marked with the TID before the overwriter takes its stamp, then the stamp.
pub(crate) struct Overwritten(AtomicOrigin);

impl Default for Overwritten {
    fn default() -> Self {
        Self(AtomicOrigin::new(OriginWord::at(Stamp::INFINITY)))
    }
}

impl CertifierStamps for Overwritten {
    const TRACKED: bool = true;
}

type Handle = VersionPtr<Overwritten>;

/// The reads of one transaction.
#[derive(Default)]
pub(crate) struct ReadValidation {
    reads: Reads<Overwritten>,
    /// The place of a version that had been overwritten already when it was read, and the stamp of that: then the
    /// transaction must not write.
    stale: Option<(ConflictSite, Stamp)>,
    writes: bool,
}

impl ReadValidation {
    fn conflict(site: ConflictSite, at: Stamp, other: Option<Tid>) -> Conflict {
        let cause = Cause::new(at, Dependency::OverwrittenBy, site).with(other);
        Conflict::before(AbortKind::StaleRead, cause)
    }

    fn phantom(site: ConflictSite, at: Stamp, other: Option<Tid>) -> Conflict {
        Conflict::before(AbortKind::Phantom, Cause::new(at, Dependency::InsertedBy, site).with(other))
    }

    fn test(&self) -> Result<(), Conflict> {
        match self.stale {
            Some((site, at)) if self.writes && !Mutant::NoTest.is_on() => Err(Self::conflict(site, at, None)),
            _ => Ok(()),
        }
    }
}

impl Certifier for ReadValidation {
    type Stamps = Overwritten;
    const TRACKS: bool = true;
    const SNAPSHOT_IS_SERIAL: bool = true;

    fn begin(&mut self, _: Stamp) {
        self.reads.clear();
        (self.stale, self.writes) = (None, false);
    }

    fn read_all<'a>(
        &mut self,
        _: &'a Staleness,
        _: impl FnOnce() -> Running<'a>,
        reads: impl Iterator<Item = Read<Overwritten>>,
    ) -> Result<(), Conflict> {
        for (version, _, site) in reads {
            match version.certifier().0.load() {
                Origin::At(Stamp::INFINITY) | Origin::By(_) => self.reads.push(version, site),
                Origin::At(at) => self.stale = Some((site, at)),
            }
        }
        self.test()
    }

    fn follow(&mut self, _: Stamp, _: ConflictSite) -> Result<(), Conflict> {
        Ok(())
    }

    fn enter_gap(&mut self, _: Stamp, _: ConflictSite) -> Result<(), Conflict> {
        self.writes = true;
        self.test()
    }

    fn overwrite(&mut self, tid: Tid, old: Handle, _: Stamp, _: ConflictSite) -> Result<(), Conflict> {
        old.certifier().0.mark(OriginWord::by(tid));
        self.writes = true;
        self.test()
    }

    fn tracked_reads(&self) -> usize {
        self.reads.len()
    }

    fn reads_hold(&self, shared: &Shared, tids: &TidLease) -> bool {
        let tid = tids.running();
        self.stale.is_none() && self.reads.iter().all(|(version, _)| holds(shared, &version.certifier().0, tid))
    }

    fn late_holds(&self, shared: &Shared, tids: &TidLease, version: Handle) -> bool {
        holds(shared, &version.certifier().0, tids.running())
    }

    fn show_reads(&self, show: &mut dyn FnMut(ConflictSite)) {
        self.reads.iter().for_each(|(_, site)| show(site));
    }

    fn announce(&mut self, _: Tid, _: u64) {}

    fn certify<'w>(
        &mut self,
        shared: &Shared,
        tids: &TidLease,
        stamp: Stamp,
        _: impl Iterator<Item = Overwrite<'w, Overwritten>>,
    ) -> Result<(), Conflict> {
        if Mutant::NoTest.is_on() {
            return Ok(());
        }
        for (version, site) in self.reads.iter() {
            match overwriter_below(shared, &version.certifier().0, tids.tid(), stamp) {
                Overwriter::Stamped(at) if at < stamp => return Err(Self::conflict(site, at, None)),
                Overwriter::Committed { tid, stamp, .. } => return Err(Self::conflict(site, stamp, Some(tid))),
                Overwriter::None | Overwriter::Stamped(_) => {}
            }
        }
        Ok(())
    }

    fn read_late(
        &mut self,
        shared: &Shared,
        tid: Tid,
        _: u64,
        stamp: Stamp,
        late: Late<Overwritten>,
    ) -> Result<(), Conflict> {
        let Late { version, site, .. } = late;
        match overwriter_below(shared, &version.certifier().0, tid, stamp) {
            Overwriter::Stamped(at) if at < stamp => Err(Self::phantom(site, at, None)),
            Overwriter::Committed { tid, stamp, .. } => Err(Self::phantom(site, stamp, Some(tid))),
            Overwriter::None | Overwriter::Stamped(_) => Ok(()),
        }
    }

    fn publish_reads(&mut self, _: &ReaderSlot, _: Stamp) {}

    fn publish_write(&self, old: Handle, stamp: Stamp, _: Stamp) {
        old.certifier().0.store(OriginWord::at(stamp));
    }

    fn withdraw(&self, tid: Tid, old: Handle) {
        old.certifier().0.unmark(tid);
    }
}
