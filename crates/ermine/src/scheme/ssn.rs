//! The Serial Safety Net over snapshot isolation: serializable (SSN Algorithms 1 and 3, with errata).
//!
//! A transaction T that commits at c(T) keeps two watermarks over the dependency graph: eta(T), the latest commit among
//! its predecessors that committed before it, and pi(T), the earliest commit it can reach backwards over read
//! anti-dependencies. T may commit only if eta(T) < pi(T) (the exclusion window, section 3.1): then no cycle can close.
//!
//! | stamp of a version V | meaning | who writes it |
//! |---|---|---|
//! | `predecessor` | latest committed reader of V (paper: pstamp) | readers, after they committed |
//! | `successor` | pi of the overwriter; its TID while it runs; infinity before (sstamp) | the overwriter |
//! | `readers` | which reader slots have tracked reads of V | readers, at commit, before they take a stamp |
//!
//! Invariants
//! 1. A reader sets its bits, and is named in its reader slot, before it takes its stamp. So an overwriter with a higher
//!    stamp finds it, and waits for its outcome if it is still committing. An overwriter with a lower stamp need not:
//!    the reader waits for it instead. All waits go to lower stamps: no deadlock.
//! 2. An overwriter marks `successor` with its TID before it takes its stamp, so that a reader with a higher stamp
//!    finds it. An abort takes the mark off before it unlinks its own version.
//! 3. A reader leaves its slot, and an overwriter its TID, only after its stamps stand in the versions. So whoever finds
//!    the TID stale finds the stamps.
//! 4. A read-only transaction that commits just below its snapshot raises `predecessor` *before* it looks at
//!    `successor`; an overwriter is marked committing *before* it looks at `predecessor`. Both sequentially consistent:
//!    at least one sees the other.
//! 5. Bits are never cleared: a hot, rarely written version then costs its readers no shared write. What a bit points
//!    to may be a transaction that never read the version: it is taken for a reader, which can only abort too much.
//!
//! Errata to the paper, found in reading: Algorithm 3 line 28 waits on *committing*, not on in flight; line 39 compares
//! with the transaction's own stamp; post-commit stores pi(T), not c(T), in the overwritten version; an overwriter also
//! takes the stamp of the overwritten version's creator, which `predecessor` does not hold until the creator is done.

use super::{Certifier, Conflict, Overwrite, Place, Scheme, Shared};
use crate::{
    error::AbortKind,
    ids::{Stamp, Tid},
    rows::chain::{AtomicOrigin, CertifierStamps, Origin, OriginWord, VersionPtr},
    sync::{AtomicU64, Ordering, Spin},
    txn::table::Inquiry,
};

/// Snapshot isolation certified by SSN.
pub(crate) struct SiSsn;

impl Scheme for SiSsn {
    type Certifier = Ssn;
    const SNAPSHOT: bool = true;
}

/// SSN's words in each version. Those that every read touches stand next to the version's own.
#[repr(C)]
pub(crate) struct SsnStamps {
    readers: AtomicU64,
    predecessor: AtomicU64,
    successor: AtomicOrigin,
}

impl Default for SsnStamps {
    fn default() -> Self {
        Self {
            predecessor: AtomicU64::new(0),
            successor: AtomicOrigin::new(OriginWord::at(Stamp::INFINITY)),
            readers: AtomicU64::new(0),
        }
    }
}

impl SsnStamps {
    /// Raises the predecessor stamp; writes nothing when it is as high already.
    fn raise_predecessor(&self, stamp: Stamp) {
        // SeqCst both: invariant 4. A load that finds the stamp high enough read from a SeqCst raise and stands for it.
        if self.predecessor.load(Ordering::SeqCst) < stamp.0 {
            self.predecessor.fetch_max(stamp.0, Ordering::SeqCst);
        }
    }
}

impl CertifierStamps for SsnStamps {
    const TRACKED: bool = true;

    fn last_read(&self) -> Stamp {
        // SeqCst: invariant 4, the overwriter's half; and it follows the reader slots (invariant 3).
        Stamp(self.predecessor.load(Ordering::SeqCst))
    }
}

type Handle = VersionPtr<SsnStamps>;

/// A stamp and where it came from.
#[derive(Clone, Copy)]
struct Watermark {
    stamp: Stamp,
    place: Option<Place>,
    other: Option<Tid>,
}

/// The watermarks and the tracked reads of one transaction.
pub(crate) struct Ssn {
    /// Reads of versions that were not overwritten, or whose overwriter had not ended, when they were read.
    reads: Vec<(Handle, Place)>,
    /// eta.
    predecessor: Watermark,
    /// pi, as far as it is known.
    successor: Watermark,
}

impl Default for Ssn {
    fn default() -> Self {
        let watermark = |stamp| Watermark { stamp, place: None, other: None };
        Self { reads: Vec::new(), predecessor: watermark(Stamp::ZERO), successor: watermark(Stamp::INFINITY) }
    }
}

impl Ssn {
    fn raise_predecessor(&mut self, stamp: Stamp, place: Place, other: Option<Tid>) {
        if stamp > self.predecessor.stamp {
            self.predecessor = Watermark { stamp, place: Some(place), other };
        }
    }

    fn lower_successor(&mut self, stamp: Stamp, place: Place, other: Option<Tid>) {
        if stamp < self.successor.stamp {
            self.successor = Watermark { stamp, place: Some(place), other };
        }
    }

    /// The exclusion window: pi(T) <= eta(T) is a violation. May be tested at any time: pi only falls, eta only rises.
    fn test(&self) -> Result<(), Conflict> {
        if self.predecessor.stamp < self.successor.stamp {
            return Ok(());
        }
        let (place, other) = (self.successor.place.or(self.predecessor.place), self.successor.other);
        Err(Conflict { kind: AbortKind::Exclusion, place, other: other.or(self.predecessor.other) })
    }

    /// Takes the overwriters with a lower stamp into pi (Algorithm 3 lines 7-20).
    fn finish_successor(&mut self, shared: &Shared, tid: Tid, stamp: Stamp) {
        for at in 0..self.reads.len() {
            let (version, place) = self.reads[at];
            let (found, other) = overwriter_below(shared, version, tid, stamp);
            self.lower_successor(found, place, other);
        }
    }

    /// Takes the committed readers with a lower stamp of one overwritten version into eta (lines 24-32).
    fn finish_predecessor(&mut self, shared: &Shared, tid: Tid, stamp: Stamp, write: Overwrite<SsnStamps>) {
        let stamps = write.old.certifier();
        // SeqCst: follows the transaction's own stamp; finds the bits of all readers with lower ones (invariant 1).
        let bits = stamps.readers.load(Ordering::SeqCst);
        if bits != 0 {
            shared.readers.for_each_reader(bits, |reader| {
                if reader != tid
                    && let Some(read_at) = outcome_below(shared, reader, stamp)
                {
                    self.raise_predecessor(read_at, write.place, Some(reader));
                }
            });
        }
        // After the slots: who left its slot has raised this (invariant 3).
        self.raise_predecessor(stamps.last_read(), write.place, None);
    }
}

/// pi of the overwriter of `version`, if it committed below `stamp`; infinity otherwise. Waits for one that is about to.
fn overwriter_below(shared: &Shared, version: Handle, tid: Tid, stamp: Stamp) -> (Stamp, Option<Tid>) {
    let mut spin = Spin::default();
    loop {
        let overwriter = match version.certifier().successor.load() {
            Origin::At(successor) => return (successor, None),
            // The transaction's own overwrite is no edge (section 4.1.3).
            Origin::By(overwriter) if overwriter == tid => return (Stamp::INFINITY, None),
            Origin::By(overwriter) => overwriter,
        };
        match shared.tids.inquire(overwriter) {
            // It has no stamp yet, so it will get a higher one.
            Inquiry::InFlight | Inquiry::Aborted => return (Stamp::INFINITY, None),
            Inquiry::Committing(Some(other)) if other > stamp => return (Stamp::INFINITY, None),
            Inquiry::Committed { stamp: other, .. } if other > stamp => return (Stamp::INFINITY, None),
            Inquiry::Committed { successor, .. } => return (successor, Some(overwriter)),
            Inquiry::Committing(_) | Inquiry::Stale => spin.wait(),
        }
    }
}

/// The stamp of `reader` if it committed below `stamp`. Waits for one that is about to.
fn outcome_below(shared: &Shared, reader: Tid, stamp: Stamp) -> Option<Stamp> {
    let mut spin = Spin::default();
    loop {
        match shared.tids.inquire(reader) {
            Inquiry::InFlight | Inquiry::Aborted | Inquiry::Stale => return None,
            Inquiry::Committing(Some(other)) if other > stamp => return None,
            Inquiry::Committed { stamp: other, .. } => return (other < stamp).then_some(other),
            Inquiry::Committing(_) => spin.wait(),
        }
    }
}

impl Certifier for Ssn {
    type Stamps = SsnStamps;
    const TRACKS: bool = true;

    fn begin(&mut self) {
        let mut reads = std::mem::take(&mut self.reads);
        reads.clear();
        *self = Self { reads, ..Self::default() };
    }

    fn read(&mut self, version: Handle, created: Stamp, place: Place) -> Result<(), Conflict> {
        self.raise_predecessor(created, place, None);
        match version.certifier().successor.load() {
            Origin::At(Stamp::INFINITY) | Origin::By(_) => self.reads.push((version, place)),
            Origin::At(successor) => self.lower_successor(successor, place, None),
        }
        self.test()
    }

    fn follow(&mut self, stamp: Stamp, place: Place) -> Result<(), Conflict> {
        self.raise_predecessor(stamp, place, None);
        self.test()
    }

    fn overwrite(&mut self, tid: Tid, old: Handle, created: Stamp, place: Place) -> Result<(), Conflict> {
        // Invariant 2: before the stamp is taken.
        old.certifier().successor.mark(OriginWord::by(tid));
        self.raise_predecessor(created.max(old.certifier().last_read()), place, None);
        self.test()
    }

    fn certify_read_only(&mut self, shared: &Shared, stamp: Stamp) -> bool {
        if self.successor.stamp <= stamp {
            return false;
        }
        self.reads.iter().all(|&(version, _)| {
            version.certifier().raise_predecessor(stamp);
            let mut spin = Spin::default();
            loop {
                // In order: after the stamp was raised (invariant 4).
                let overwriter = match version.certifier().successor.load_in_order() {
                    Origin::At(successor) => return successor > stamp,
                    Origin::By(overwriter) => overwriter,
                };
                match shared.tids.inquire(overwriter) {
                    // Invariant 4: it will see the predecessor stamp.
                    Inquiry::InFlight | Inquiry::Aborted => return true,
                    Inquiry::Committed { successor, .. } => return successor > stamp,
                    Inquiry::Committing(_) | Inquiry::Stale => spin.wait(),
                }
            }
        })
    }

    fn announce(&mut self, tid: Tid, reader_bit: u64) {
        for (version, _) in &self.reads {
            let stamps = version.certifier();
            if stamps.successor.load() == Origin::By(tid) {
                // Only an overwriter that commits asks, and that is this transaction.
                continue;
            }
            let readers = &stamps.readers;
            // Relaxed: a bit that is seen was set by an earlier transaction of this slot, and the stamp that comes
            // next publishes what this one knows. SeqCst set: before the stamp (invariant 1).
            if readers.load(Ordering::Relaxed) & reader_bit == 0 {
                readers.fetch_or(reader_bit, Ordering::SeqCst);
            }
        }
    }

    fn certify(
        &mut self,
        shared: &Shared,
        tid: Tid,
        stamp: Stamp,
        writes: impl Iterator<Item = Overwrite<SsnStamps>>,
    ) -> Result<Stamp, Conflict> {
        self.finish_successor(shared, tid, stamp);
        self.successor.stamp = self.successor.stamp.min(stamp);
        for write in writes {
            self.finish_predecessor(shared, tid, stamp, write);
        }
        self.test()?;
        Ok(self.successor.stamp)
    }

    fn publish_reads(&mut self, tid: Tid, stamp: Stamp) {
        for (version, _) in &self.reads {
            if version.certifier().successor.load() != Origin::By(tid) {
                version.certifier().raise_predecessor(stamp);
            }
        }
    }

    fn publish_write(&self, write: Overwrite<SsnStamps>, stamp: Stamp, successor: Stamp) {
        write.old.certifier().successor.store(OriginWord::at(successor));
        write.new.certifier().raise_predecessor(stamp);
    }

    fn withdraw(&self, tid: Tid, old: Handle) {
        if old.certifier().successor.load() == Origin::By(tid) {
            old.certifier().successor.store(OriginWord::at(Stamp::INFINITY));
        }
    }
}
