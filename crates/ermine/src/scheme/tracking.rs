//! How readers and overwriters of a version find each other without a lock: the common part of SSN and SSI.
//!
//! | word of a version V | meaning | writer |
//! |---|---|---|
//! | `predecessor` | latest committed reader of V (SSN: pstamp; SSI: rstamp) | readers, after they committed |
//! | `successor` | the overwriter's TID while it runs, then the stamp it leaves; infinity before | the overwriter |
//! | `readers` | which reader slots have tracked reads of V | readers, at commit, before they take a stamp |
//!
//! Invariants
//! 1. A reader sets its bits, and is named in its reader slot, before it takes its stamp ([`super::untracked`]
//!    describes reads that are in no list). So an overwriter with a higher stamp finds it, and waits for its outcome if
//!    it is still committing. An overwriter with a lower stamp need not: the reader waits for it instead. All waits are
//!    for lower stamps: no deadlock.
//! 2. An overwriter marks `successor` with its TID before it takes its stamp, so that a reader with a higher stamp
//!    finds it. An abort removes the mark before it unlinks its own version.
//! 3. A reader leaves its slot, and an overwriter its TID, only after its stamps are stored in the versions. So a
//!    thread that finds the TID stale finds the stamps.
//! 4. A read-only transaction that commits just below its snapshot raises `predecessor` *before* it loads `successor`;
//!    an overwriter is marked committing *before* it loads `predecessor`. Both sequentially consistent: at least one
//!    sees the other.
//! 5. A late read (`txn::leaves`) is found after the transaction took its stamp. It sets the bit, and then looks for
//!    the overwriter: one that has not begun to commit by then will see the bit. One with a lower stamp is treated as
//!    for any other read. One with a higher stamp may have checked the bits too early: then the transaction aborts.
//! 6. Bits are never cleared: a hot, rarely written version then costs its readers no shared write. A bit may denote a
//!    transaction that never read the version: it is taken for a reader, which can only abort too much.

use std::iter;

use super::{ConflictSite, Late, Shared};
use crate::{
    error::Dependency,
    ids::{Stamp, Tid},
    mutant::Mutant,
    rows::chain::{AtomicOrigin, Below, CertifierStamps, Kind, Origin, OriginWord, VersionPtr},
    sync::{AtomicU64, Ordering, Spin},
    txn::{readers::ReaderSlots, table::Inquiry},
};

/// The words. Those that every read touches are next to the version's own.
#[repr(C)]
pub(crate) struct Track {
    predecessor: AtomicU64,
    readers: AtomicU64,
    pub(super) successor: AtomicOrigin,
}

/// A certifier's words that contain a [`Track`].
pub(crate) trait Tracked: CertifierStamps {
    /// Returns the [`Track`].
    fn track(&self) -> &Track;

    /// Notes that a transaction that began at `begin` reads the version without tracking.
    fn read_by(&self, _begin: Stamp) {}
}

impl Default for Track {
    fn default() -> Self {
        Self {
            predecessor: AtomicU64::new(0),
            successor: AtomicOrigin::new(OriginWord::at(Stamp::INFINITY)),
            readers: AtomicU64::new(0),
        }
    }
}

impl Track {
    /// Raises the predecessor stamp; writes nothing when it is as high already.
    pub(super) fn raise_predecessor(&self, stamp: Stamp) {
        // SeqCst both: invariant 4. A load that finds the stamp high enough read from a SeqCst raise and counts as one.
        if self.predecessor.load(Ordering::SeqCst) < stamp.0 {
            self.predecessor.fetch_max(stamp.0, Ordering::SeqCst);
        }
    }

    /// The highest stamp of a committed reader.
    pub(super) fn last_read(&self) -> Stamp {
        // SeqCst: invariant 4, the overwriter's half; and it follows the reader slots (invariant 3).
        Stamp(self.predecessor.load(Ordering::SeqCst))
    }

    /// The highest stamp of any transaction that may have read the version and has ended: what is left of those whose
    /// reads were not tracked is in their slots.
    pub(super) fn last_reader(&self, slots: &ReaderSlots) -> Stamp {
        let mut last = self.last_read();
        let looked: Result<(), std::convert::Infallible> = slots.try_for_each_slot(self.readers(), |slot| {
            last = last.max(slot.last_untracked());
            Ok(())
        });
        let Ok(()) = looked;
        last
    }

    /// Whether a transaction has overwritten the version, or is about to.
    pub(super) fn is_overwritten(&self) -> bool {
        self.successor.load() != Origin::At(Stamp::INFINITY)
    }

    /// Returns the reader bits. SeqCst: follows the transaction's own stamp; finds the bits of all readers with lower
    /// ones (invariant 1).
    pub(super) fn readers(&self) -> u64 {
        self.readers.load(Ordering::SeqCst)
    }

    /// Sets a reader bit unless it is set. SeqCst both: before the reader takes its stamp (invariant 1), or loads
    /// `successor` once more (`untracked`); a load that finds the bit set counts as setting it.
    pub(super) fn add_reader(&self, bit: u64) {
        if self.readers.load(Ordering::SeqCst) & bit == 0 && !Mutant::NoReaderBit.is_on() {
            self.readers.fetch_or(bit, Ordering::SeqCst);
        }
    }
}

/// Reads for which memory is kept for the next transaction.
const READS_KEPT: usize = 1 << 14;

/// The versions that a transaction has read and that were not overwritten then, or by a transaction that had not ended.
pub(super) struct Reads<H>(Vec<(VersionPtr<H>, ConflictSite)>);

impl<H> Default for Reads<H> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<H: CertifierStamps> Reads<H> {
    pub(super) fn clear(&mut self) {
        if self.0.capacity() > READS_KEPT {
            self.0 = Vec::new();
        }
        self.0.clear();
    }

    pub(super) fn push(&mut self, version: VersionPtr<H>, site: ConflictSite) {
        self.0.push((version, site));
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (VersionPtr<H>, ConflictSite)> {
        self.0.iter().copied()
    }
}

impl<H: Tracked> Reads<H> {
    /// See [`Certifier::reads_hold`](super::Certifier::reads_hold).
    pub(super) fn hold(&self, shared: &Shared, tid: Option<Tid>) -> bool {
        self.iter().all(|(version, _)| holds(shared, &version.certifier().track().successor, tid))
    }

    /// Sets the transaction's bit, before it takes its stamp (invariant 1). Versions that the transaction has
    /// overwritten itself are dropped: only an overwriter that commits looks for readers, and that is this transaction.
    pub(super) fn announce(&mut self, tid: Tid, reader_bit: u64) {
        self.0.retain(|(version, _)| {
            let track = version.certifier().track();
            let is_own = track.successor.load() == Origin::By(tid);
            if !is_own {
                track.add_reader(reader_bit);
            }
            !is_own
        });
    }

    /// Leaves the stamp of the committed transaction (invariant 3).
    pub(super) fn publish(&self, stamp: Stamp) {
        self.iter().for_each(|(version, _)| version.certifier().track().raise_predecessor(stamp));
    }

    /// Whether a transaction without writes may end at `stamp`, just below its snapshot: each overwriter that has
    /// committed meanwhile must pass `stamped`, for the stamp it left in the version, or `committed`, for its successor
    /// stamp (invariant 4).
    pub(super) fn stand_below(
        &self,
        shared: &Shared,
        stamp: Stamp,
        stamped: impl Fn(VersionPtr<H>, Stamp) -> bool,
        committed: impl Fn(Stamp) -> bool,
    ) -> bool {
        self.iter().all(|(version, _)| stands_below(shared, stamp, version, &stamped, &committed))
    }

    /// Adds a late read (invariant 5). The error: the overwriter of the version may have missed the read.
    pub(super) fn push_late(
        &mut self,
        shared: &Shared,
        tid: Tid,
        reader_bit: u64,
        stamp: Stamp,
        late: Late<H>,
    ) -> Result<Overwriter, Cause> {
        let Late { version, head, site } = late;
        let track = version.certifier().track();
        track.add_reader(reader_bit);
        let is_overwritten = track.successor.load_in_order() != Origin::At(Stamp::INFINITY);
        if is_overwritten && self.iter().any(|(read, _)| read == version) {
            return Ok(Overwriter::None);
        }
        self.push(version, site);
        let too_late = |at, other| Err(Cause::new(at, Dependency::InsertedBy, site).with(other));
        let mut spin = Spin::default();
        loop {
            let overwriter = match track.successor.load_in_order() {
                Origin::At(Stamp::INFINITY) => return Ok(Overwriter::None),
                Origin::At(left) => match overwritten_at(shared, head, version) {
                    at if at < stamp => return Ok(Overwriter::Stamped(left)),
                    at => return too_late(at, None),
                },
                Origin::By(overwriter) if overwriter == tid => return Ok(Overwriter::None),
                Origin::By(overwriter) => overwriter,
            };
            match shared.tids.inquire(overwriter) {
                // The overwriter will see the bit.
                Inquiry::InFlight => return Ok(Overwriter::None),
                Inquiry::Committing(Some(other)) if other > stamp => return too_late(other, Some(overwriter)),
                Inquiry::Committed { stamp: other, .. } if other > stamp => return too_late(other, Some(overwriter)),
                Inquiry::Committed { stamp, successor } => {
                    return Ok(Overwriter::Committed { tid: overwriter, stamp, successor });
                }
                // An aborted overwriter will remove its mark.
                Inquiry::Committing(_) | Inquiry::Stale | Inquiry::Aborted => spin.wait(),
            }
        }
    }
}

/// Returns the commit stamp of the version that took the place of another one.
fn overwritten_at<H: CertifierStamps>(shared: &Shared, head: VersionPtr<H>, version: VersionPtr<H>) -> Stamp {
    let mut spin = Spin::default();
    loop {
        let mut chain = iter::successors(Some(head), |newer| newer.older());
        // Versions in between may have been unlinked: then the result is too late rather than too early.
        // A link to an absent version may be out of date, and its memory in use again.
        let is_next = |newer: &VersionPtr<H>| match newer.below() {
            Below::Absence(absent) => absent == version && version.kind() == Kind::Absent,
            below => below.next() == Some(version),
        };
        let Some(newer) = chain.find(is_next) else { return Stamp::INFINITY };
        match newer.origin().load() {
            Origin::At(stamp) => return stamp,
            Origin::By(writer) => match shared.tids.inquire(writer) {
                Inquiry::Committed { stamp, .. } => return stamp,
                _ => spin.wait(),
            },
        }
    }
}

/// Whether a transaction without writes may end at `stamp`, just below its snapshot, as far as one read is concerned.
pub(super) fn stands_below<H: Tracked>(
    shared: &Shared,
    stamp: Stamp,
    version: VersionPtr<H>,
    stamped: impl Fn(VersionPtr<H>, Stamp) -> bool,
    committed: impl Fn(Stamp) -> bool,
) -> bool {
    let track = version.certifier().track();
    track.raise_predecessor(stamp);
    let mut spin = Spin::default();
    loop {
        // In order: after the stamp was raised.
        let overwriter = match track.successor.load_in_order() {
            Origin::At(successor) => return stamped(version, successor),
            Origin::By(overwriter) => overwriter,
        };
        match shared.tids.inquire(overwriter) {
            // The overwriter will see the predecessor stamp.
            Inquiry::InFlight | Inquiry::Aborted => return true,
            Inquiry::Committed { successor, .. } => return committed(successor),
            Inquiry::Committing(_) | Inquiry::Stale => spin.wait(),
        }
    }
}

/// The overwriter of a version.
pub(super) enum Overwriter {
    /// None, the transaction itself, or a transaction without a lower stamp.
    None,
    /// The stamp that an overwriter left in the version; infinity: there is none.
    Stamped(Stamp),
    /// A transaction that committed with a lower stamp.
    Committed { tid: Tid, stamp: Stamp, successor: Stamp },
}

/// Returns the overwriter of a version that committed below `stamp`. Waits for one that is about to.
#[inline]
pub(super) fn overwriter_below(shared: &Shared, overwritten: &AtomicOrigin, tid: Tid, stamp: Stamp) -> Overwriter {
    match overwritten.load() {
        Origin::At(left) => Overwriter::Stamped(left),
        Origin::By(_) => running_below(shared, overwritten, tid, stamp),
    }
}

/// Works as [`overwriter_below`], which is mostly done before it begins.
#[cold]
fn running_below(shared: &Shared, overwritten: &AtomicOrigin, tid: Tid, stamp: Stamp) -> Overwriter {
    let mut spin = Spin::default();
    loop {
        let overwriter = match overwritten.load() {
            Origin::At(left) => return Overwriter::Stamped(left),
            Origin::By(overwriter) if overwriter == tid => return Overwriter::None,
            Origin::By(overwriter) => overwriter,
        };
        match shared.tids.inquire(overwriter) {
            // The overwriter has no stamp yet, so it will get a higher one.
            Inquiry::InFlight | Inquiry::Aborted => return Overwriter::None,
            Inquiry::Committing(Some(other)) if other > stamp => return Overwriter::None,
            Inquiry::Committed { stamp: other, .. } if other > stamp => return Overwriter::None,
            Inquiry::Committed { stamp, successor } => {
                return Overwriter::Committed { tid: overwriter, stamp, successor };
            }
            Inquiry::Committing(_) | Inquiry::Stale => spin.wait(),
        }
    }
}

/// Whether a version has not been overwritten, or only by the transaction itself, or by one that will not commit before
/// a prepared transaction that has read the version (`txn::prepared`, invariants 1 and 3). Waits for
/// one that is about to commit.
pub(super) fn holds(shared: &Shared, overwritten: &AtomicOrigin, tid: Option<Tid>) -> bool {
    let mut spin = Spin::default();
    loop {
        // In order: after the reads were entered.
        let overwriter = match overwritten.load_in_order() {
            Origin::At(stamp) => return stamp == Stamp::INFINITY,
            Origin::By(overwriter) if Some(overwriter) == tid => return true,
            Origin::By(overwriter) => overwriter,
        };
        match shared.tids.inquire(overwriter) {
            Inquiry::InFlight => return !shared.prepared.has(overwriter),
            Inquiry::Aborted => return true,
            Inquiry::Committed { .. } => return false,
            Inquiry::Committing(_) | Inquiry::Stale => spin.wait(),
        }
    }
}

/// The edge of the dependency graph that determines a stamp of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) stamp: Stamp,
    /// The kind of the edge; `None`: there is no edge.
    pub(crate) dependency: Option<Dependency>,
    pub(crate) site: Option<ConflictSite>,
    /// The other transaction, where it is known.
    pub(crate) other: Option<Tid>,
}

impl Cause {
    /// The initial value of a watermark, without an edge.
    pub(super) fn none(stamp: Stamp) -> Self {
        Self { stamp, dependency: None, site: None, other: None }
    }

    pub(crate) fn new(stamp: Stamp, dependency: Dependency, site: impl Into<Option<ConflictSite>>) -> Self {
        Self { stamp, dependency: Some(dependency), site: site.into(), other: None }
    }

    pub(crate) fn with(self, other: impl Into<Option<Tid>>) -> Self {
        Self { other: other.into(), ..self }
    }

    /// Takes over a predecessor, if it is the latest so far.
    #[inline]
    pub(super) fn raise(&mut self, cause: Self) {
        if cause.stamp > self.stamp {
            *self = cause;
        }
    }

    /// Takes over a successor, if it is the earliest so far.
    #[inline]
    pub(super) fn lower(&mut self, cause: Self) {
        if cause.stamp < self.stamp {
            *self = cause;
        }
    }
}
