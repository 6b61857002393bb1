//! Serializable snapshot isolation by stamps (ERMIA 3.6).
//!
//! In every cycle under snapshot isolation there are T1 -rw-> T2 -rw-> T3, each two concurrent, of which T3 commits first
//! (T1 may be T3). So nobody may complete such a structure. A transaction T keeps
//!
//! | stamp | paper | meaning |
//! |---|---|---|
//! | `overwriter` | s1 | the earliest commit among those that overwrote what T read: T is T2, they are T3 |
//! | `pivot` | s2 | the smallest s1 of those: T is T1, they are T2, and T3 committed before them |
//! | `reader` | rstamp | the latest commit among the readers of what T overwrote: T is T2, they are T1 |
//!
//! and aborts as T2 when `reader` is not below `overwriter`, as T1 when it has a `pivot`. Of T1 and T2 the one with the
//! higher stamp finds the other ([`super::tracking`]); it is tried again with a snapshot that sees the one that committed, and
//! so does not fail for the same conflict again. A transaction without writes stands just below its snapshot; as T1 it is
//! in danger only if T3 committed before that (Ports and Grittner, "Serializable Snapshot Isolation in PostgreSQL", VLDB
//! 2012, theorem 3).
//!
//! Where this differs from the paper: its readers set their bits as they read, and T2 aborts for the sake of a T1 that is
//! still running. Here bits are set at commit, and such a T1 aborts when it gets there: nobody aborts for a T1 that never
//! commits. An overwriter leaves s0 and s1 in the version it overwrote (the paper's s1 and s2 of the version).

use super::{
    Certifier, Conflict, Overwrite, Place, Scheme, Shared,
    tracking::{Overwriter, Reads, Track, Tracked, Watermark, overwriter_below},
};
use crate::{
    error::AbortKind,
    ids::{Stamp, Tid},
    rows::chain::{CertifierStamps, Origin, OriginWord, VersionPtr},
    sync::{AtomicU64, Ordering},
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
    track: Track,
}

impl Default for SsiStamps {
    fn default() -> Self {
        Self { pivot: AtomicU64::new(Stamp::INFINITY.0), track: Track::default() }
    }
}

impl SsiStamps {
    /// Relaxed, both: between them stand the release and the acquire of `track.successor`.
    fn pivot(&self) -> Stamp {
        Stamp(self.pivot.load(Ordering::Relaxed))
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
}

impl Tracked for SsiStamps {
    fn track(&self) -> &Track {
        &self.track
    }
}

type Handle = VersionPtr<SsiStamps>;

/// The stamps and the tracked reads of one transaction.
pub(crate) struct Ssi {
    reads: Reads<SsiStamps>,
    overwriter: Watermark,
    pivot: Watermark,
    reader: Watermark,
    writes: bool,
}

impl Default for Ssi {
    fn default() -> Self {
        Self {
            reads: Reads::default(),
            overwriter: Watermark::at(Stamp::INFINITY),
            pivot: Watermark::at(Stamp::INFINITY),
            reader: Watermark::at(Stamp::ZERO),
            writes: false,
        }
    }
}

impl Ssi {
    /// May be tested at any time: what is dangerous stays so.
    fn test(&self) -> Result<(), Conflict> {
        let why = if self.pivot.stamp < Stamp::INFINITY {
            self.pivot
        } else if self.reader.stamp >= self.overwriter.stamp {
            let (place, other) = (self.overwriter.place, self.overwriter.other.or(self.reader.other));
            Watermark { place: place.or(self.reader.place), other, ..self.overwriter }
        } else {
            return Ok(());
        };
        Err(Conflict { kind: AbortKind::DangerousStructure, place: why.place, other: why.other })
    }

    /// As long as it does not write, only the snapshot it stands below decides.
    fn test_writer(&self) -> Result<(), Conflict> {
        if self.writes { self.test() } else { Ok(()) }
    }

    fn overwritten(&mut self, at: Stamp, pivot: Stamp, place: Place, other: Option<Tid>) {
        self.overwriter.lower(at, place, other);
        self.pivot.lower(pivot, place, other);
    }
}

impl Certifier for Ssi {
    type Stamps = SsiStamps;
    const TRACKS: bool = true;
    const SNAPSHOT_IS_SERIAL: bool = false;

    fn begin(&mut self) {
        let mut reads = std::mem::take(&mut self.reads);
        reads.clear();
        *self = Self { reads, ..Self::default() };
    }

    fn read(&mut self, version: Handle, _: Stamp, place: Place) -> Result<(), Conflict> {
        match version.certifier().track.successor.load() {
            Origin::At(Stamp::INFINITY) | Origin::By(_) => self.reads.push(version, place),
            Origin::At(at) => self.overwritten(at, version.certifier().pivot(), place, None),
        }
        self.test_writer()
    }

    fn follow(&mut self, _: Stamp, _: Place) -> Result<(), Conflict> {
        Ok(())
    }

    fn enter_gap(&mut self, stamp: Stamp, place: Place) -> Result<(), Conflict> {
        self.writes = true;
        self.reader.raise(stamp, place, None);
        self.test()
    }

    fn overwrite(&mut self, tid: Tid, old: Handle, _: Stamp, place: Place) -> Result<(), Conflict> {
        // Before the stamp is taken (tracking, invariant 2).
        old.certifier().track.successor.mark(OriginWord::by(tid));
        self.writes = true;
        self.reader.raise(old.certifier().last_read(), place, None);
        self.test()
    }

    fn certify_read_only(&mut self, shared: &Shared, stamp: Stamp) -> bool {
        self.pivot.stamp > stamp
            && self.reads.stand_below(shared, stamp, |version, _| version.certifier().pivot() > stamp, |s1| s1 > stamp)
    }

    fn announce(&mut self, tid: Tid, reader_bit: u64) {
        self.reads.announce(tid, reader_bit);
    }

    fn follow_snapshot(&mut self, reader: Stamp) {
        self.reader.raise(reader, None, None);
    }

    fn certify(
        &mut self,
        shared: &Shared,
        tid: Tid,
        stamp: Stamp,
        writes: impl Iterator<Item = Overwrite<SsiStamps>>,
    ) -> Result<Stamp, Conflict> {
        let reads = std::mem::take(&mut self.reads);
        for (version, place) in reads.iter() {
            match overwriter_below(shared, &version.certifier().track.successor, tid, stamp) {
                // Who has a higher stamp finds this transaction by itself.
                Overwriter::Stamped(at) if at < stamp => {
                    self.overwritten(at, version.certifier().pivot(), place, None);
                }
                Overwriter::None | Overwriter::Stamped(_) => {}
                Overwriter::Committed { tid, stamp, successor } => {
                    self.overwritten(stamp, successor, place, Some(tid));
                }
            }
        }
        self.reads = reads;
        for Overwrite { old, place, .. } in writes {
            let raise = |read_at, reader| self.reader.raise(read_at, place, reader);
            old.certifier().track.readers_below(shared, tid, stamp, raise);
        }
        self.test()?;
        Ok(self.overwriter.stamp)
    }

    fn publish_reads(&mut self, tid: Tid, stamp: Stamp) {
        self.reads.publish(tid, stamp);
    }

    fn publish_write(&self, write: Overwrite<SsiStamps>, stamp: Stamp, successor: Stamp) {
        let stamps = write.old.certifier();
        stamps.set_pivot(successor);
        stamps.track.successor.store(OriginWord::at(stamp));
    }

    fn withdraw(&self, tid: Tid, old: Handle) {
        old.certifier().track.successor.unmark(tid);
    }
}
