//! The Serial Safety Net over snapshot isolation or read committed: serializable (SSN Algorithms 1 and 3, with errata).
//!
//! A transaction T that commits at c(T) keeps two watermarks over the dependency graph: eta(T), the latest commit among
//! its predecessors that committed before it, and pi(T), the earliest commit it can reach backwards over read
//! anti-dependencies. T may commit only if eta(T) < pi(T) (the exclusion window, section 3.1): then no cycle can close.
//!
//! In a version, `predecessor` is the paper's pstamp, and an overwriter leaves its pi in `successor` (sstamp); how readers
//! and overwriters find each other stands in [`super::tracking`].
//!
//! Errata to the paper, found in reading: Algorithm 3 line 28 waits on *committing*, not on in flight; line 39 compares
//! with the transaction's own stamp; post-commit stores pi(T), not c(T), in the overwritten version; an overwriter also
//! takes the stamp of the overwritten version's creator, which `predecessor` does not hold until the creator is done.

use super::{
    Certifier, Conflict, Overwrite, Place, Scheme, Shared,
    tracking::{Overwriter, Reads, Track, Tracked, Watermark, overwriter_below},
};
use crate::{
    error::AbortKind,
    ids::{Stamp, Tid},
    rows::chain::{CertifierStamps, Origin, OriginWord, VersionPtr},
};

/// Snapshot isolation certified by SSN.
pub(crate) struct SiSsn;

impl Scheme for SiSsn {
    type Certifier = Ssn;
    const SNAPSHOT: bool = true;
}

/// Read committed certified by SSN.
pub(crate) struct RcSsn;

impl Scheme for RcSsn {
    type Certifier = Ssn;
    const SNAPSHOT: bool = false;
}

impl CertifierStamps for Track {
    const TRACKED: bool = true;

    fn last_read(&self) -> Stamp {
        Self::last_read(self)
    }
}

impl Tracked for Track {
    fn track(&self) -> &Track {
        self
    }
}

type Handle = VersionPtr<Track>;

/// The watermarks and the tracked reads of one transaction.
pub(crate) struct Ssn {
    reads: Reads<Track>,
    /// eta.
    predecessor: Watermark,
    /// pi, as far as it is known.
    successor: Watermark,
}

impl Default for Ssn {
    fn default() -> Self {
        Self {
            reads: Reads::default(),
            predecessor: Watermark::at(Stamp::ZERO),
            successor: Watermark::at(Stamp::INFINITY),
        }
    }
}

impl Ssn {
    /// The exclusion window: pi(T) <= eta(T) is a violation. May be tested at any time: pi only falls, eta only rises.
    fn test(&self) -> Result<(), Conflict> {
        if self.predecessor.stamp < self.successor.stamp {
            return Ok(());
        }
        let (place, other) = (self.successor.place.or(self.predecessor.place), self.successor.other);
        Err(Conflict { kind: AbortKind::Exclusion, place, other: other.or(self.predecessor.other) })
    }
}

impl Certifier for Ssn {
    type Stamps = Track;
    const TRACKS: bool = true;
    const SNAPSHOT_IS_SERIAL: bool = false;

    fn begin(&mut self) {
        let mut reads = std::mem::take(&mut self.reads);
        reads.clear();
        *self = Self { reads, ..Self::default() };
    }

    fn read(&mut self, version: Handle, created: Stamp, place: Place) -> Result<(), Conflict> {
        self.predecessor.raise(created, place, None);
        match version.certifier().successor.load() {
            Origin::At(Stamp::INFINITY) | Origin::By(_) => self.reads.push(version, place),
            Origin::At(successor) => self.successor.lower(successor, place, None),
        }
        self.test()
    }

    fn follow(&mut self, stamp: Stamp, place: Place) -> Result<(), Conflict> {
        self.predecessor.raise(stamp, place, None);
        self.test()
    }

    fn enter_gap(&mut self, stamp: Stamp, place: Place) -> Result<(), Conflict> {
        self.follow(stamp, place)
    }

    fn overwrite(&mut self, tid: Tid, old: Handle, created: Stamp, place: Place) -> Result<(), Conflict> {
        // Before the stamp is taken (tracking, invariant 2).
        old.certifier().successor.mark(OriginWord::by(tid));
        self.predecessor.raise(created.max(old.certifier().last_read()), place, None);
        self.test()
    }

    fn certify_read_only(&mut self, shared: &Shared, stamp: Stamp) -> bool {
        self.successor.stamp > stamp
            && self.reads.stand_below(shared, stamp, |_, successor| successor > stamp, |successor| successor > stamp)
    }

    fn announce(&mut self, tid: Tid, reader_bit: u64) {
        self.reads.announce(tid, reader_bit);
    }

    fn follow_snapshot(&mut self, reader: Stamp) {
        self.predecessor.raise(reader, None, None);
    }

    fn certify(
        &mut self,
        shared: &Shared,
        tid: Tid,
        stamp: Stamp,
        writes: impl Iterator<Item = Overwrite<Track>>,
    ) -> Result<Stamp, Conflict> {
        // The overwriters with a lower stamp (Algorithm 3 lines 7-20). Its own overwrites are no edges (section 4.1.3).
        for (version, place) in self.reads.iter() {
            match overwriter_below(shared, &version.certifier().successor, tid, stamp) {
                Overwriter::None => {}
                Overwriter::Stamped(successor) => self.successor.lower(successor, place, None),
                Overwriter::Committed { tid, successor, .. } => self.successor.lower(successor, place, Some(tid)),
            }
        }
        self.successor.stamp = self.successor.stamp.min(stamp);
        // The committed readers with a lower stamp of what it overwrote (lines 24-32).
        for Overwrite { old, place, .. } in writes {
            let raise = |read_at, reader| self.predecessor.raise(read_at, place, reader);
            old.certifier().readers_below(shared, tid, stamp, raise);
        }
        self.test()?;
        Ok(self.successor.stamp)
    }

    fn publish_reads(&mut self, tid: Tid, stamp: Stamp) {
        self.reads.publish(tid, stamp);
    }

    fn publish_write(&self, write: Overwrite<Track>, stamp: Stamp, successor: Stamp) {
        write.old.certifier().successor.store(OriginWord::at(successor));
        write.new.certifier().raise_predecessor(stamp);
    }

    fn withdraw(&self, tid: Tid, old: Handle) {
        old.certifier().successor.unmark(tid);
    }
}
