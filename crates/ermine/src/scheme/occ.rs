//! Optimistic concurrency control over versions: what was read must still be the newest at commit.
//!
//! A transaction reads the snapshot of its beginning. With its stamp c it looks at every version it read once more: none
//! may have been overwritten by a transaction with a lower stamp. All reads then hold at c, and the order of stamps is a
//! serial order (read validation as in Larson et al., "High-Performance Concurrency Control Mechanisms for Main-Memory
//! Databases", VLDB 2012, section 3.2). Ranges and missed keys are validated by the leaf set. A transaction without
//! writes needs none of that: its snapshot is a place in the order of stamps.
//!
//! Waits, for overwriters that are committing, go to lower stamps: no deadlock.

use super::{
    Certifier, Conflict, Overwrite, Place, Scheme, Shared,
    tracking::{Overwriter, Reads, overwriter_below},
};
use crate::{
    error::AbortKind,
    ids::{Stamp, Tid},
    rows::chain::{AtomicOrigin, CertifierStamps, Origin, OriginWord, VersionPtr},
};

/// Snapshots with read validation.
pub(crate) struct MvOcc;

impl Scheme for MvOcc {
    type Certifier = ReadValidation;
    const SNAPSHOT: bool = true;
}

/// The word in each version: who overwrote it. Marked with the TID before the overwriter takes its stamp, then the stamp.
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
    /// Where it read what had been overwritten already: then it must not write.
    stale: Option<Place>,
    writes: bool,
}

impl ReadValidation {
    fn test(&self) -> Result<(), Conflict> {
        match self.stale {
            Some(place) if self.writes => Err(Conflict { kind: AbortKind::StaleRead, place: Some(place), other: None }),
            _ => Ok(()),
        }
    }
}

impl Certifier for ReadValidation {
    type Stamps = Overwritten;
    const TRACKS: bool = true;
    const SNAPSHOT_IS_SERIAL: bool = true;

    fn begin(&mut self) {
        self.reads.clear();
        (self.stale, self.writes) = (None, false);
    }

    fn read(&mut self, version: Handle, _: Stamp, place: Place) -> Result<(), Conflict> {
        match version.certifier().0.load() {
            Origin::At(Stamp::INFINITY) | Origin::By(_) => self.reads.push(version, place),
            Origin::At(_) => self.stale = Some(place),
        }
        self.test()
    }

    fn follow(&mut self, _: Stamp, _: Place) -> Result<(), Conflict> {
        Ok(())
    }

    fn enter_gap(&mut self, _: Stamp, _: Place) -> Result<(), Conflict> {
        self.writes = true;
        self.test()
    }

    fn overwrite(&mut self, tid: Tid, old: Handle, _: Stamp, _: Place) -> Result<(), Conflict> {
        old.certifier().0.mark(OriginWord::by(tid));
        self.writes = true;
        self.test()
    }

    fn announce(&mut self, _: Tid, _: u64) {}

    fn certify(
        &mut self,
        shared: &Shared,
        tid: Tid,
        stamp: Stamp,
        _: impl Iterator<Item = Overwrite<Overwritten>>,
    ) -> Result<Stamp, Conflict> {
        for (version, place) in self.reads.iter() {
            let other = match overwriter_below(shared, &version.certifier().0, tid, stamp) {
                Overwriter::Stamped(at) if at < stamp => None,
                Overwriter::Committed { tid, .. } => Some(tid),
                Overwriter::None | Overwriter::Stamped(_) => continue,
            };
            return Err(Conflict { kind: AbortKind::StaleRead, place: Some(place), other });
        }
        Ok(stamp)
    }

    fn publish_reads(&mut self, _: Tid, _: Stamp) {}

    fn publish_write(&self, write: Overwrite<Overwritten>, stamp: Stamp, _: Stamp) {
        write.old.certifier().0.store(OriginWord::at(stamp));
    }

    fn withdraw(&self, tid: Tid, old: Handle) {
        old.certifier().0.unmark(tid);
    }
}
