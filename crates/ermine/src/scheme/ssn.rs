//! The Serial Safety Net over snapshot isolation or read committed: serializable (SSN Algorithms 1 and 3, with errata).
//!
//! A transaction T that commits at c(T) keeps two watermarks over the dependency graph: eta(T), the latest commit among
//! its predecessors that committed before it, and pi(T), the earliest commit it can reach backwards over read
//! anti-dependencies. T may commit only if eta(T) < pi(T) (the exclusion window, section 3.1): then no cycle can close.
//!
//! In a version, `predecessor` is the paper's pstamp, and an overwriter leaves its pi in `successor` (sstamp);
//! [`super::tracking`] describes how readers and overwriters find each other, [`super::untracked`] how they do for
//! stale versions.
//!
//! The theorem holds for any graph whose forward edges all count in eta. A transaction U that was acknowledged before T
//! began is such an edge: c(U) is below the offset that T read when it began. So with eta(T) >= begin(T) the serial
//! order is one that agrees with real time (strict serializability), and with eta(T) at the last commit of T's session
//! one that agrees with the session.
//!
//! Errata to the paper, found in reading: Algorithm 3 line 28 waits on *committing*, not on in flight; line 39 compares
//! with the transaction's own stamp; post-commit stores pi(T), not c(T), in the overwritten version; an overwriter also
//! takes the stamp of the overwritten version's creator, which the paper's pstamp does not hold until the creator is
//! done. As every overwriter does that, `predecessor` is left to readers.

use super::{
    Cause, Certifier, Conflict, ConflictSite, Late, Overwrite, Read, Running, Scheme, Shared,
    staleness::Staleness,
    tracking::{Overwriter, Reads, Track, Tracked, holds, overwriter_below, stands_below},
    untracked::{Met, Overwriting, TooLate, Untracked},
};
use crate::{
    error::{AbortKind, Dependency},
    ids::{Stamp, TableId, Tid},
    mutant::Mutant,
    rows::chain::{CertifierStamps, Origin, OriginWord, VersionPtr},
    txn::{
        readers::{ReaderSlot, ReaderSlots},
        table::TidLease,
    },
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

    fn last_reader(&self, slots: &ReaderSlots) -> Stamp {
        Self::last_reader(self, slots)
    }

    fn is_overwritten(&self) -> bool {
        Self::is_overwritten(self)
    }
}

impl Tracked for Track {
    fn track(&self) -> &Track {
        self
    }
}

type Handle = VersionPtr<Track>;

/// The watermarks and the reads of one transaction.
pub(crate) struct Ssn {
    reads: Reads<Track>,
    untracked: Untracked,
    /// Transactions up to this stamp come before it because they had been acknowledged when it began: a part of eta.
    after: Stamp,
    /// The rest of eta.
    predecessor: Cause,
    /// pi, as far as it is known.
    successor: Cause,
}

impl Default for Ssn {
    fn default() -> Self {
        Self {
            reads: Reads::default(),
            untracked: Untracked::default(),
            after: Stamp::ZERO,
            predecessor: Cause::none(Stamp::ZERO),
            successor: Cause::none(Stamp::INFINITY),
        }
    }
}

impl Ssn {
    /// The exclusion window: pi(T) <= eta(T) is a violation. May be tested at any time: pi only falls, eta only rises.
    #[inline]
    fn test(&self) -> Result<(), Conflict> {
        let successor = self.successor.stamp;
        if self.predecessor.stamp < successor && self.after < successor || Mutant::NoTest.is_on() {
            Ok(())
        } else {
            Err(self.conflict())
        }
    }

    /// Returns a function that notes one read after the other.
    #[inline(always)]
    fn read_next<'a>(
        &mut self,
        staleness: &'a Staleness,
        running: impl FnOnce() -> Running<'a>,
    ) -> impl FnMut(Read<Track>) {
        let Self { reads: tracked, untracked, predecessor, successor, .. } = self;
        let mut run = untracked.run(staleness, running);
        move |(version, created, site)| {
            predecessor.raise(Cause::new(created, Dependency::ReadFrom, site));
            if run.read(tracked.len(), version, created, site) {
                return;
            }
            match version.certifier().successor.load() {
                Origin::At(Stamp::INFINITY) | Origin::By(_) => tracked.push(version, site),
                Origin::At(left) => successor.lower(Cause::new(left, Dependency::OverwrittenBy, site)),
            }
        }
    }

    #[cold]
    fn conflict(&self) -> Conflict {
        let (mut predecessor, successor) = (self.predecessor, self.successor);
        if predecessor.stamp < successor.stamp && self.after >= successor.stamp {
            predecessor = Cause::new(self.after, Dependency::EndedBefore, None);
        }
        let untracked = if predecessor.dependency == Some(Dependency::MayHaveBeenReadBy) {
            predecessor.site.map(|site| site.table)
        } else if successor.dependency == Some(Dependency::MayBeOverwrittenBy) {
            self.untracked.table()
        } else {
            None
        };
        Conflict { kind: AbortKind::Exclusion, predecessor: Some(predecessor), successor: Some(successor), untracked }
    }

    /// Takes over a stamp that others have pushed because of reads that are not tracked.
    fn lower_pushed(&mut self, successor: Stamp) {
        self.successor.lower(Cause::new(successor, Dependency::MayBeOverwrittenBy, None));
    }
}

impl Certifier for Ssn {
    type Stamps = Track;
    const TRACKS: bool = true;
    const SNAPSHOT_IS_SERIAL: bool = false;

    fn begin(&mut self, after: Stamp) {
        self.reads.clear();
        self.untracked.begin();
        self.after = if Mutant::NoRealTime.is_on() { Stamp::ZERO } else { after };
        self.predecessor = Cause::none(Stamp::ZERO);
        self.successor = Cause::none(Stamp::INFINITY);
    }

    // Not by way of `read_all`: the compiler would make a call of it.
    #[inline(always)]
    fn read<'a>(
        &mut self,
        staleness: &'a Staleness,
        running: impl FnOnce() -> Running<'a>,
        read: Read<Track>,
    ) -> Result<(), Conflict> {
        self.read_next(staleness, running)(read);
        self.test()
    }

    fn read_all<'a>(
        &mut self,
        staleness: &'a Staleness,
        running: impl FnOnce() -> Running<'a>,
        reads: impl Iterator<Item = Read<Track>>,
    ) -> Result<(), Conflict> {
        reads.for_each(self.read_next(staleness, running));
        self.test()
    }

    fn follow(&mut self, stamp: Stamp, site: ConflictSite) -> Result<(), Conflict> {
        self.predecessor.raise(Cause::new(stamp, Dependency::WasDeletedBy, site));
        self.test()
    }

    fn enter_gap(&mut self, stamp: Stamp, site: ConflictSite) -> Result<(), Conflict> {
        if Mutant::NoGapStamp.is_on() {
            return Ok(());
        }
        self.predecessor.raise(Cause::new(stamp, Dependency::WasLookedAtBy, site));
        self.test()
    }

    fn overwrite(&mut self, tid: Tid, old: Handle, created: Stamp, site: ConflictSite) -> Result<(), Conflict> {
        // Before the stamp is taken (tracking, invariant 2).
        old.certifier().successor.mark(OriginWord::by(tid));
        if !Mutant::NoCreator.is_on() {
            self.predecessor.raise(Cause::new(created, Dependency::Overwrote, site));
        }
        self.predecessor.raise(Cause::new(old.certifier().last_read(), Dependency::WasReadBy, site));
        self.test()
    }

    fn certify_read_only(&mut self, shared: &Shared, stamp: Stamp) -> bool {
        self.successor.stamp > stamp
            && self.reads.stand_below(shared, stamp, |_, successor| successor > stamp, |successor| successor > stamp)
    }

    fn end_read_only(&mut self, tids: &TidLease, slot: &ReaderSlot, stamp: Stamp) -> bool {
        self.untracked.end_read_only(tids, slot, stamp)
    }

    fn tracked_reads(&self) -> usize {
        self.reads.len()
    }

    fn reads_hold(&self, shared: &Shared, tids: &TidLease) -> bool {
        self.successor.stamp == Stamp::INFINITY
            && self.reads.hold(shared, tids.running())
            && self.untracked.hold(shared, tids)
    }

    fn late_holds(&self, shared: &Shared, tids: &TidLease, version: Handle) -> bool {
        holds(shared, &version.certifier().successor, tids.running())
    }

    fn show_reads(&self, show: &mut dyn FnMut(ConflictSite)) {
        self.reads.iter().for_each(|(_, site)| show(site));
        self.untracked.show(show);
    }

    fn track_all(&mut self) {
        self.untracked.track_all();
    }

    fn tracks_all(&self) -> bool {
        self.untracked.tracks_all()
    }

    fn prepare(&mut self) {
        self.untracked.prepare();
    }

    fn try_again(&mut self) {
        (self.predecessor, self.successor) = (Cause::none(Stamp::ZERO), Cause::none(Stamp::INFINITY));
    }

    fn announce(&mut self, tid: Tid, reader_bit: u64) {
        self.reads.announce(tid, reader_bit);
    }

    fn follow_snapshot(&mut self, reader: Stamp) {
        self.predecessor.raise(Cause::new(reader, Dependency::SafeSnapshot, None));
    }

    fn certify<'w>(
        &mut self,
        shared: &Shared,
        tids: &TidLease,
        stamp: Stamp,
        writes: impl Iterator<Item = Overwrite<'w, Track>>,
    ) -> Result<(), Conflict> {
        let tid = tids.tid();
        // The overwriters with a lower stamp (Algorithm 3 lines 7-20). Its own overwrites are no edges (section 4.1.3).
        for (version, site) in self.reads.iter() {
            let (successor, other) = match overwriter_below(shared, &version.certifier().successor, tid, stamp) {
                Overwriter::None => continue,
                Overwriter::Stamped(successor) => (successor, None),
                Overwriter::Committed { tid, successor, .. } => (successor, Some(tid)),
            };
            self.successor.lower(Cause::new(successor, Dependency::OverwrittenBy, site).with(other));
        }
        self.lower_pushed(self.untracked.successor(tids));
        let mut writes = writes.peekable();
        // No other transaction uses the pi of one without writes, and another one without writes that it follows may
        // have its stamp.
        if writes.peek().is_some() {
            self.successor.stamp = self.successor.stamp.min(stamp);
        }
        // The committed readers with a lower stamp of what it overwrote (lines 24-32).
        let overwriting = Overwriting { shared, tid, stamp, successor: self.successor.stamp };
        for Overwrite { old, site, table_readers, .. } in writes {
            let predecessor = &mut self.predecessor;
            let met = |met| {
                if let Met::Committed(stamp, other, dependency) = met {
                    predecessor.raise(Cause::new(stamp, dependency, site).with(other));
                }
            };
            let told =
                overwriting.meet_readers(old.certifier(), table_readers, &mut self.untracked, Stamp::INFINITY, met);
            told.map_err(|TooLate(other)| {
                // As if the later reader had been counted: it can no longer find out that it comes before this one.
                self.predecessor.raise(Cause::new(stamp, Dependency::MayHaveBeenReadBy, site).with(other));
                self.conflict()
            })?;
        }
        self.test()
    }

    fn read_late(
        &mut self,
        shared: &Shared,
        tid: Tid,
        reader_bit: u64,
        stamp: Stamp,
        late: Late<Track>,
    ) -> Result<(), Conflict> {
        let Late { site, .. } = late;
        let too_late = |cause| Conflict::before(AbortKind::Phantom, cause);
        match self.reads.push_late(shared, tid, reader_bit, stamp, late).map_err(too_late)? {
            Overwriter::None => {}
            Overwriter::Stamped(successor) => {
                self.successor.lower(Cause::new(successor, Dependency::InsertedBy, site));
            }
            Overwriter::Committed { tid, successor, .. } => {
                self.successor.lower(Cause::new(successor, Dependency::InsertedBy, site).with(tid));
            }
        }
        self.test()
    }

    fn stands_below(&mut self, shared: &Shared, stamp: Stamp, version: Handle) -> bool {
        stands_below(shared, stamp, version, |_, successor| successor > stamp, |successor| successor > stamp)
    }

    fn seal(&mut self, tids: &TidLease, _: Stamp) -> Result<Stamp, Conflict> {
        self.lower_pushed(self.untracked.lock(tids));
        if !self.untracked.stands(self.successor.stamp) {
            return Err(self.conflict());
        }
        self.test()?;
        Ok(self.successor.stamp)
    }

    fn publish_reads(&mut self, slot: &ReaderSlot, stamp: Stamp) {
        self.reads.publish(stamp);
        self.untracked.publish(slot, stamp);
    }

    fn publish_write(&self, old: Handle, _: Stamp, successor: Stamp) {
        old.certifier().successor.store(OriginWord::at(successor));
    }

    fn reads_whole(&self, table: TableId) -> bool {
        self.untracked.reads_whole(table)
    }

    fn whole_tables(&self) -> usize {
        self.untracked.whole_tables()
    }

    fn kept_versions(&self) -> Option<impl Iterator<Item = VersionPtr<Self::Stamps>>> {
        self.untracked.reads_only_whole().then(|| self.reads.iter().map(|(version, _)| version))
    }

    fn read_whole(&mut self, table: TableId, running: Running<'_>) -> bool {
        self.untracked.read_whole(table, running)
    }

    fn read_stored(&mut self, created: Stamp, site: ConflictSite) -> Result<(), Conflict> {
        self.predecessor.raise(Cause::new(created, Dependency::ReadFrom, site));
        self.test()
    }

    fn end(&mut self, slot: &ReaderSlot) {
        self.untracked.end(slot);
    }

    fn withdraw(&self, tid: Tid, old: Handle) {
        old.certifier().successor.unmark(tid);
    }
}
