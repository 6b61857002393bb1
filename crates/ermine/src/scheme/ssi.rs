//! Serializable snapshot isolation by stamps (ERMIA 3.6).
//!
//! In every cycle under snapshot isolation there are T1 -rw-> T2 -rw-> T3, each two concurrent, of which T3 commits
//! first (T1 may be T3). So no transaction may complete such a structure. A transaction T keeps
//!
//! | stamp | paper | meaning |
//! |---|---|---|
//! | `overwriter` | s1 | the earliest commit among those that overwrote what T read: T is T2, they are T3 |
//! | `pivot` | s2 | the smallest s1 of those: T is T1, they are T2, and T3 committed before them |
//! | `reader` | rstamp | the latest commit among the readers of what T overwrote: T is T2, they are T1 |
//!
//! and aborts as T2 when `reader` is not below `overwriter`, as T1 when it has a `pivot`. Of T1 and T2 the one with the
//! higher stamp finds the other ([`super::tracking`]); it is tried again with a snapshot that sees the one that
//! committed, and so does not fail for the same conflict again. A transaction without writes is placed just below its
//! snapshot; as T1 it is in danger only if T3 committed before that (Ports and Grittner, "Serializable Snapshot
//! Isolation in PostgreSQL", VLDB 2012, theorem 3).
//!
//! Differences from the paper: its readers set their bits as they read, and T2 aborts for the sake of a T1 that is
//! still running. Here bits are set at commit, and such a T1 aborts when it gets there: no transaction aborts for a T1
//! that never commits. An overwriter leaves s0 and s1 in the version it overwrote (the paper's s1 and s2 of the
//! version).
//!
//! Real-time order follows from the rule. Like a transaction that another one has read from, a transaction that was
//! acknowledged before another one began committed below that one's snapshot; the theorem uses nothing else of the
//! edges of a cycle that are not anti-dependencies. So a cycle with such edges contains a dangerous structure as well.
//!
//! Reads of stale versions are not tracked ([`super::untracked`]). In the paper the overwriter of such a version then
//! only checks whether it is T2 itself. That leaves out the reader that becomes T2, with the overwriter as T3 that
//! committed first: so here the overwriter also pushes its commit stamp to readers that still run, which is their s1.

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
    sync::{AtomicU64, Ordering},
    txn::{
        readers::{ReaderSlot, ReaderSlots},
        table::TidLease,
    },
};

/// Snapshot isolation certified by SSI.
pub(crate) struct SiSsi;

impl Scheme for SiSsi {
    type Certifier = Ssi;
    const SNAPSHOT: bool = true;
}

/// SSI's words in each version. An overwriter leaves its commit stamp in `track.successor`.
#[repr(C)]
pub(crate) struct SsiStamps {
    /// The overwriter's s1, once it has ended; infinity: it has none.
    pivot: AtomicU64,
    /// The latest snapshot of a reader that read this version without tracking (the paper's bstamp).
    last_begin: AtomicU64,
    track: Track,
}

impl Default for SsiStamps {
    fn default() -> Self {
        Self { pivot: AtomicU64::new(Stamp::INFINITY.0), last_begin: AtomicU64::new(0), track: Track::default() }
    }
}

impl SsiStamps {
    /// Relaxed, both: ordered by the release and the acquire of `track.successor` between them.
    fn pivot(&self) -> Stamp {
        Stamp(self.pivot.load(Ordering::Relaxed))
    }

    /// SeqCst: follows the overwriter's mark (`untracked`, invariant 1).
    fn last_begin(&self) -> Stamp {
        Stamp(self.last_begin.load(Ordering::SeqCst))
    }

    fn set_pivot(&self, stamp: Stamp) {
        self.pivot.store(stamp.0, Ordering::Relaxed);
    }
}

impl CertifierStamps for SsiStamps {
    const TRACKED: bool = true;

    fn last_read(&self) -> Stamp {
        self.track.last_read()
    }

    fn last_reader(&self, slots: &ReaderSlots) -> Stamp {
        self.track.last_reader(slots)
    }

    fn is_overwritten(&self) -> bool {
        self.track.is_overwritten()
    }
}

impl Tracked for SsiStamps {
    fn track(&self) -> &Track {
        &self.track
    }

    fn read_by(&self, begin: Stamp) {
        // SeqCst: precedes the reader's last load of `successor` (`untracked`, invariant 1).
        if self.last_begin() < begin {
            self.last_begin.fetch_max(begin.0, Ordering::SeqCst);
        }
    }
}

type Handle = VersionPtr<SsiStamps>;

/// The stamps and the reads of one transaction.
pub(crate) struct Ssi {
    reads: Reads<SsiStamps>,
    untracked: Untracked,
    overwriter: Cause,
    pivot: Cause,
    reader: Cause,
    writes: bool,
}

impl Default for Ssi {
    fn default() -> Self {
        Self {
            reads: Reads::default(),
            untracked: Untracked::default(),
            overwriter: Cause::none(Stamp::INFINITY),
            pivot: Cause::none(Stamp::INFINITY),
            reader: Cause::none(Stamp::ZERO),
            writes: false,
        }
    }
}

impl Ssi {
    /// Tests for a dangerous structure. May be called at any time: a dangerous structure remains one.
    fn test(&self) -> Result<(), Conflict> {
        if Mutant::NoTest.is_on() {
            return Ok(());
        }
        if self.pivot.stamp < Stamp::INFINITY {
            return Err(Conflict::before(AbortKind::DangerousStructure, self.pivot));
        }
        if self.reader.stamp < self.overwriter.stamp { Ok(()) } else { Err(self.conflict()) }
    }

    #[cold]
    fn conflict(&self) -> Conflict {
        let (reader, overwriter) = (self.reader, self.overwriter);
        let untracked = if reader.dependency == Some(Dependency::MayHaveBeenReadBy) {
            reader.site.map(|site| site.table)
        } else if overwriter.dependency == Some(Dependency::MayBeOverwrittenBy) {
            self.untracked.table()
        } else {
            None
        };
        Conflict {
            kind: AbortKind::DangerousStructure,
            predecessor: Some(reader),
            successor: Some(overwriter),
            untracked,
        }
    }

    /// Tests a transaction with writes. Without writes, only the snapshot below which the transaction is placed
    /// decides.
    fn test_writer(&self) -> Result<(), Conflict> {
        if self.writes { self.test() } else { Ok(()) }
    }

    fn overwritten(&mut self, at: Stamp, pivot: Stamp, site: ConflictSite, other: Option<Tid>) {
        self.overwriter.lower(Cause::new(at, Dependency::OverwrittenBy, site).with(other));
        self.pivot.lower(Cause::new(pivot, Dependency::OverwrittenBy, site).with(other));
    }

    /// Takes over a stamp that others have pushed because of reads that are not tracked.
    fn lower_pushed(&mut self, overwriter: Stamp) {
        self.overwriter.lower(Cause::new(overwriter, Dependency::MayBeOverwrittenBy, None));
    }
}

impl Certifier for Ssi {
    type Stamps = SsiStamps;
    const TRACKS: bool = true;
    const SNAPSHOT_IS_SERIAL: bool = false;

    fn begin(&mut self, _: Stamp) {
        let (mut reads, mut untracked) = (std::mem::take(&mut self.reads), std::mem::take(&mut self.untracked));
        reads.clear();
        untracked.begin();
        *self = Self { reads, untracked, ..Self::default() };
    }

    fn read_all<'a>(
        &mut self,
        staleness: &'a Staleness,
        running: impl FnOnce() -> Running<'a>,
        reads: impl Iterator<Item = Read<SsiStamps>>,
    ) -> Result<(), Conflict> {
        let Self { reads: tracked, untracked, overwriter, pivot, .. } = self;
        let mut run = untracked.run(staleness, running);
        for (version, created, site) in reads {
            if run.read(tracked.len(), version, created, site) {
                continue;
            }
            match version.certifier().track.successor.load() {
                Origin::At(Stamp::INFINITY) | Origin::By(_) => tracked.push(version, site),
                Origin::At(at) => {
                    overwriter.lower(Cause::new(at, Dependency::OverwrittenBy, site));
                    pivot.lower(Cause::new(version.certifier().pivot(), Dependency::OverwrittenBy, site));
                }
            }
        }
        self.test_writer()
    }

    fn follow(&mut self, _: Stamp, _: ConflictSite) -> Result<(), Conflict> {
        Ok(())
    }

    fn enter_gap(&mut self, stamp: Stamp, site: ConflictSite) -> Result<(), Conflict> {
        if Mutant::NoGapStamp.is_on() {
            return Ok(());
        }
        self.writes = true;
        self.reader.raise(Cause::new(stamp, Dependency::WasLookedAtBy, site));
        self.test()
    }

    fn overwrite(&mut self, tid: Tid, old: Handle, _: Stamp, site: ConflictSite) -> Result<(), Conflict> {
        // Before the stamp is taken (tracking, invariant 2).
        old.certifier().track.successor.mark(OriginWord::by(tid));
        self.writes = true;
        self.reader.raise(Cause::new(old.certifier().last_read(), Dependency::WasReadBy, site));
        self.test()
    }

    fn certify_read_only(&mut self, shared: &Shared, stamp: Stamp) -> bool {
        self.pivot.stamp > stamp
            && self.reads.stand_below(shared, stamp, |version, _| version.certifier().pivot() > stamp, |s1| s1 > stamp)
    }

    fn end_read_only(&mut self, tids: &TidLease, slot: &ReaderSlot, stamp: Stamp) -> bool {
        self.untracked.end_read_only(tids, slot, stamp)
    }

    fn tracked_reads(&self) -> usize {
        self.reads.len()
    }

    fn reads_hold(&self, shared: &Shared, tids: &TidLease) -> bool {
        self.overwriter.stamp == Stamp::INFINITY
            && self.reads.hold(shared, tids.running())
            && self.untracked.hold(shared, tids)
    }

    fn late_holds(&self, shared: &Shared, tids: &TidLease, version: Handle) -> bool {
        holds(shared, &version.certifier().track.successor, tids.running())
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
        let (reads, untracked) = (std::mem::take(&mut self.reads), std::mem::take(&mut self.untracked));
        *self = Self { reads, untracked, writes: self.writes, ..Self::default() };
    }

    fn announce(&mut self, tid: Tid, reader_bit: u64) {
        self.reads.announce(tid, reader_bit);
    }

    fn follow_snapshot(&mut self, reader: Stamp) {
        self.reader.raise(Cause::new(reader, Dependency::SafeSnapshot, None));
    }

    fn certify<'w>(
        &mut self,
        shared: &Shared,
        tids: &TidLease,
        stamp: Stamp,
        writes: impl Iterator<Item = Overwrite<'w, SsiStamps>>,
    ) -> Result<(), Conflict> {
        let tid = tids.tid();
        let reads = std::mem::take(&mut self.reads);
        for (version, site) in reads.iter() {
            match overwriter_below(shared, &version.certifier().track.successor, tid, stamp) {
                // An overwriter with a higher stamp finds this transaction itself.
                Overwriter::Stamped(at) if at < stamp => {
                    self.overwritten(at, version.certifier().pivot(), site, None);
                }
                Overwriter::None | Overwriter::Stamped(_) => {}
                Overwriter::Committed { tid, stamp, successor } => {
                    self.overwritten(stamp, successor, site, Some(tid));
                }
            }
        }
        self.reads = reads;
        self.lower_pushed(self.untracked.successor(tids));
        let overwriting = Overwriting { shared, tid, stamp, successor: stamp };
        for Overwrite { old, site, table_readers, .. } in writes {
            let reader = &mut self.reader;
            let met = |met| {
                reader.raise(match met {
                    Met::Committed(stamp, other, dependency) => Cause::new(stamp, dependency, site).with(other),
                    // The reader may be T1 and will not check this transaction's s1 any more: this one must have none.
                    Met::Told => Cause::new(Stamp(Stamp::INFINITY.0 - 1), Dependency::MayHaveBeenReadBy, site),
                });
            };
            let stamps = old.certifier();
            let told =
                overwriting.meet_readers(&stamps.track, table_readers, &mut self.untracked, stamps.last_begin(), met);
            told.map_err(|TooLate(other)| {
                self.reader.raise(Cause::new(Stamp::INFINITY, Dependency::MayHaveBeenReadBy, site).with(other));
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
        late: Late<SsiStamps>,
    ) -> Result<(), Conflict> {
        let Late { version, site, .. } = late;
        let too_late = |cause| Conflict::before(AbortKind::Phantom, cause);
        match self.reads.push_late(shared, tid, reader_bit, stamp, late).map_err(too_late)? {
            Overwriter::None => {}
            Overwriter::Stamped(at) => self.overwritten(at, version.certifier().pivot(), site, None),
            Overwriter::Committed { tid, stamp, successor } => {
                self.overwritten(stamp, successor, site, Some(tid));
            }
        }
        self.test()
    }

    fn stands_below(&mut self, shared: &Shared, stamp: Stamp, version: Handle) -> bool {
        stands_below(shared, stamp, version, |version, _| version.certifier().pivot() > stamp, |s1| s1 > stamp)
    }

    fn seal(&mut self, tids: &TidLease, _: Stamp) -> Result<Stamp, Conflict> {
        self.lower_pushed(self.untracked.lock(tids));
        self.test()?;
        Ok(self.overwriter.stamp)
    }

    fn publish_reads(&mut self, slot: &ReaderSlot, stamp: Stamp) {
        self.reads.publish(stamp);
        self.untracked.publish(slot, stamp);
    }

    fn publish_write(&self, old: Handle, stamp: Stamp, successor: Stamp) {
        let stamps = old.certifier();
        stamps.set_pivot(successor);
        stamps.track.successor.store(OriginWord::at(stamp));
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

    fn end(&mut self, slot: &ReaderSlot) {
        self.untracked.end(slot);
    }

    fn withdraw(&self, tid: Tid, old: Handle) {
        old.certifier().track.successor.unmark(tid);
    }
}
