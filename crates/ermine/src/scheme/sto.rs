//! Strict timestamp ordering (STO 2.3 and 3; Bernstein, Hadzilacos, Goodman 1987, 4.2).
//!
//! A transaction gets its timestamp when it begins, and the order of timestamps is the serial order. A record has two:
//! of the youngest transaction that has read it, and of the last one that wrote it. A transaction that comes too late
//! aborts: at a read of a row that a younger one has written, or a write of a row that a younger one has read or
//! written. The highest bit of the write timestamp says that its transaction has not ended (dirty): a younger
//! transaction waits for it, an older one comes too late. So one comparison of the write timestamp with one's own
//! admits a read or finds every reason against it, and no transaction waits for a younger one: no cycle.
//!
//! The paper checks and marks inside the latch of a partition's index. Here no latch is needed, because reader and
//! writer check for each other:
//!
//! ```text
//!   reader                                        writer
//!   1. raise the read timestamp to its own        1. put its own, dirty, in the place of the write timestamp
//!   2. load the write timestamp: admitted?        2. load the read timestamp: below its own? else take 1 back
//!   3. copy; load it again: as it was?            3. (at commit) put the value in, then take the dirty bit off
//! ```
//!
//! All of these are sequentially consistent: of a reader and an older writer at least one sees the other, and gives way
//! or waits.
//!
//! Ranges: the paper's checks miss a key that is inserted after a scan. A leaf's gap stamp is a read timestamp here: a
//! transaction that scans, or finds no row, raises it and validates the leaf; a transaction that inserts checks it like
//! a record's.
//!
//! Differences from the paper: a transaction buffers its writes until it commits (`scheme::in_place`), so the dirty bit
//! means "about to change" and not "changed", and a rollback removes the bit and restores the timestamp. A deleted
//! record has the timestamp of its deletion like any other write, and the mark in the TID word that there is no row:
//! younger transactions find no row, where the paper has them abort.
//!
//! Timestamps have 64 bits, or 32 (`sto-32`), which halves the size of a record's timestamps. When they are used up, no
//! transaction begins until all have ended; then all records are reset, and counting begins again (STO 3.1.1). The
//! stamps of leaves always have 64 bits, with the number of the round in front.
//!
//! Invariants
//! 1. The dirty bit of a record is on while the transaction whose timestamp is beside it may still write it, and that
//!    transaction has the record in its inventory, once.
//! 2. Timestamps of a record do not fall, except for a write timestamp that its own transaction undoes.

use std::{marker::PhantomData, time::Duration};

use super::{
    Cause, Conflict, ConflictSite,
    in_place::{Begun, InPlace, Limits, Ranges, Read, patience_ends},
};
use crate::{
    error::{AbortKind, Dependency},
    ids::Stamp,
    mutant::Mutant,
    rows::{
        copies::Copies,
        in_place::{Control, RecordPtr},
    },
    sync::{AtomicU32, AtomicU64, Instant, Ordering, Spin, total_order},
};

/// The width of the timestamps in records.
pub(crate) trait Width: Copy + Eq + Send + Sync + 'static {
    /// A timestamp that threads share.
    type Atomic: AtomicTimestamp;
    /// The greatest one; the bit above it is the dirty bit.
    const MAX: u64;
}

/// 64 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wide;
/// 32 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Narrow;

impl Width for Wide {
    type Atomic = AtomicU64;
    // Bit 63 is the dirty bit; bit 62 stays free in stamps.
    const MAX: u64 = (1 << 62) - 1;
}

impl Width for Narrow {
    type Atomic = AtomicU32;
    const MAX: u64 = (1 << 31) - 1;
}

/// A word for a timestamp. All operations are sequentially consistent.
pub(crate) trait AtomicTimestamp: Default + Send + Sync + 'static {
    fn load(&self) -> u64;
    fn store(&self, timestamp: u64);
    fn raise(&self, timestamp: u64);
    fn replace(&self, old: u64, new: u64) -> bool;
}

macro_rules! atomic_timestamp {
    ($atomic:ty, $word:ty) => {
        impl AtomicTimestamp for $atomic {
            fn load(&self) -> u64 {
                total_order();
                self.load(Ordering::SeqCst).into()
            }

            fn store(&self, timestamp: u64) {
                self.store(timestamp as $word, Ordering::SeqCst);
            }

            fn raise(&self, timestamp: u64) {
                self.fetch_max(timestamp as $word, Ordering::SeqCst);
                total_order();
            }

            fn replace(&self, old: u64, new: u64) -> bool {
                let replaced = self.compare_exchange(old as $word, new as $word, Ordering::SeqCst, Ordering::Relaxed);
                total_order();
                replaced.is_ok()
            }
        }
    };
}

atomic_timestamp!(AtomicU64, u64);
atomic_timestamp!(AtomicU32, u32);

/// The timestamps of a record.
pub(crate) struct Timestamps<W: Width> {
    /// Of the youngest transaction that has read the record.
    read: W::Atomic,
    /// Of the last transaction that wrote it, or is about to.
    write: W::Atomic,
}

impl<W: Width> Default for Timestamps<W> {
    fn default() -> Self {
        Self { read: W::Atomic::default(), write: W::Atomic::default() }
    }
}

impl<W: Width> Control for Timestamps<W> {}

/// A write timestamp and its dirty bit.
#[derive(Clone, Copy, PartialEq, Eq)]
struct WriteWord<W>(u64, PhantomData<W>);

impl<W: Width> WriteWord<W> {
    const DIRTY: u64 = W::MAX + 1;

    fn dirty(timestamp: u64) -> u64 {
        timestamp | Self::DIRTY
    }

    fn is_dirty(self) -> bool {
        self.0 & Self::DIRTY != 0
    }

    fn timestamp(self) -> u64 {
        self.0 & W::MAX
    }
}

impl<W: Width> Timestamps<W> {
    fn write(&self) -> WriteWord<W> {
        WriteWord(self.write.load(), PhantomData)
    }
}

/// The state that all transactions share.
pub(crate) struct Clock {
    next: Next,
    /// The first timestamp of each round.
    first: u64,
    /// How often counting has begun anew.
    round: AtomicU64,
    wait_max: Duration,
}

#[repr(align(128))]
struct Next(AtomicU64);

/// One transaction.
pub(crate) struct Running<W: Width> {
    timestamp: u64,
    /// The timestamp as leaves store it: with the round in front.
    stamp: Stamp,
    /// The dirty bit inventory: records, and the write timestamps that they had.
    inventory: Vec<(RecordPtr<Timestamps<W>>, u64)>,
}

impl<W: Width> Default for Running<W> {
    fn default() -> Self {
        Self { timestamp: 0, stamp: Stamp::ZERO, inventory: Vec::new() }
    }
}

impl<W: Width> Running<W> {
    /// Waits for an older transaction, or fails against a younger one.
    fn give_way(
        &self,
        other: WriteWord<W>,
        control: &Timestamps<W>,
        clock: &Clock,
        site: ConflictSite,
    ) -> Result<(), Conflict> {
        if other.timestamp() > self.timestamp {
            return Err(too_late(site));
        }
        let (mut spin, since) = (Spin::default(), Instant::now());
        while control.write() == other {
            if since.elapsed() >= clock.wait_max {
                return Err(patience_ends(Some(site)));
            }
            spin.wait();
        }
        Ok(())
    }
}

fn too_late(site: impl Into<Option<ConflictSite>>) -> Conflict {
    Conflict::before(AbortKind::TooLate, Cause::new(Stamp::INFINITY, Dependency::OverwrittenBy, site))
}

/// `sto`, and `sto-32`.
pub(crate) struct Sto<W>(PhantomData<W>);

impl<W: Width> InPlace for Sto<W> {
    type Control = Timestamps<W>;
    type Shared = Clock;
    type State = Running<W>;

    const RANGES: Ranges = Ranges::Stamped;

    fn kept_bytes(running: &Running<W>) -> usize {
        running.inventory.capacity() * 2 * size_of::<u64>()
    }

    fn shared(limits: &Limits) -> Clock {
        let first = W::MAX.saturating_sub(limits.timestamps_left.unwrap_or(u64::MAX)).max(1);
        Clock { next: Next(AtomicU64::new(first)), first, round: AtomicU64::new(0), wait_max: limits.wait_max }
    }

    fn begin(clock: &Clock, running: &mut Running<W>, _: bool) -> Result<Begun, Conflict> {
        let timestamp = clock.next.0.fetch_add(1, Ordering::SeqCst);
        if timestamp > W::MAX {
            return Ok(Begun::Exhausted);
        }
        // After the timestamp: it belongs to a round that has begun, and does not end before this transaction.
        let round = clock.round.load(Ordering::SeqCst);
        running.timestamp = timestamp;
        running.stamp = Stamp((round << 31) + timestamp);
        Ok(Begun::Running)
    }

    fn read(
        clock: &Clock,
        running: &mut Running<W>,
        record: RecordPtr<Timestamps<W>>,
        site: ConflictSite,
        mut copies: Option<&mut Copies>,
    ) -> Result<Read, Conflict> {
        let (control, own) = (record.control(), running.timestamp);
        loop {
            if control.read.load() < own && !Mutant::NoReadTimestamp.is_on() {
                control.read.raise(own);
            }
            let write = control.write();
            // The one comparison: neither dirty nor younger.
            if write.0 > own {
                if write.0 == WriteWord::<W>::dirty(own) {
                    return Ok(record.read(copies));
                }
                if !write.is_dirty() {
                    return Err(too_late(site));
                }
                running.give_way(write, control, clock, site)?;
                continue;
            }
            let mark = copies.as_deref().map(Copies::mark);
            let read = record.read(copies.as_deref_mut());
            if control.write() == write || Mutant::NoSecondLook.is_on() {
                return Ok(read);
            }
            if let Some((copies, mark)) = copies.as_deref_mut().zip(mark) {
                copies.rewind(mark);
            }
        }
    }

    fn claim(
        clock: &Clock,
        running: &mut Running<W>,
        record: RecordPtr<Timestamps<W>>,
        site: ConflictSite,
    ) -> Result<(), Conflict> {
        let (control, own) = (record.control(), running.timestamp);
        let dirty = WriteWord::<W>::dirty(own);
        loop {
            let write = control.write();
            if write.0 == dirty {
                return Ok(());
            }
            if write.is_dirty() {
                running.give_way(write, control, clock, site)?;
                continue;
            }
            if write.timestamp() > own {
                return Err(too_late(site));
            }
            if !control.write.replace(write.0, dirty) {
                continue;
            }
            if control.read.load() > own {
                control.write.store(write.0);
                return Err(too_late(site));
            }
            running.inventory.push((record, write.0));
            return Ok(());
        }
    }

    fn born(_: &Clock, running: &mut Running<W>) -> Timestamps<W> {
        let control = Timestamps::<W>::default();
        control.write.store(WriteWord::<W>::dirty(running.timestamp));
        control
    }

    fn adopt(
        clock: &Clock,
        running: &mut Running<W>,
        record: RecordPtr<Timestamps<W>>,
        gap: Stamp,
        site: ConflictSite,
    ) -> Result<(), Conflict> {
        running.inventory.push((record, 0));
        // Earlier scans of the gap have left no timestamp in the record. If this transaction rolls back, the next
        // writer finds the record in the index and does not check the gap.
        let round = running.stamp.0 - running.timestamp;
        record.control().read.raise(gap.0.saturating_sub(round));
        Self::enter_gap(clock, running, gap, site)
    }

    fn enter_gap(_: &Clock, running: &mut Running<W>, gap: Stamp, site: ConflictSite) -> Result<(), Conflict> {
        if gap > running.stamp && !Mutant::NoGapStamp.is_on() { Err(too_late(site)) } else { Ok(()) }
    }

    fn look(_: &Clock, running: &mut Running<W>, removed: Stamp, site: ConflictSite) -> Result<Stamp, Conflict> {
        if removed > running.stamp { Err(too_late(site)) } else { Ok(running.stamp) }
    }

    fn certify(_: &Clock, _: &mut Running<W>, _: impl Fn(RecordPtr<Timestamps<W>>) -> bool) -> Result<(), Conflict> {
        Ok(())
    }

    fn is_unclaimed(_: &Clock, record: RecordPtr<Timestamps<W>>) -> bool {
        !record.control().write().is_dirty()
    }

    fn last_looks(clock: &Clock, record: RecordPtr<Timestamps<W>>) -> (Stamp, Stamp) {
        let round = clock.round.load(Ordering::SeqCst) << 31;
        let stamp = |timestamp| Stamp(round + timestamp);
        (stamp(record.control().read.load()), stamp(record.control().write().timestamp()))
    }

    fn stamp(running: &Running<W>) -> Stamp {
        running.stamp
    }

    fn end(_: &Clock, running: &mut Running<W>, committed: bool) {
        for (record, before) in running.inventory.drain(..) {
            // SeqCst, and so a release: a thread that finds the bit off finds the value stored.
            record.control().write.store(if committed { running.timestamp } else { before });
        }
    }

    fn is_exhausted(clock: &Clock) -> bool {
        clock.next.0.load(Ordering::SeqCst) > W::MAX
    }

    fn set_back(record: RecordPtr<Timestamps<W>>) {
        record.control().read.store(0);
        record.control().write.store(0);
    }

    fn begin_round(clock: &Clock) {
        clock.round.fetch_add(1, Ordering::SeqCst);
        clock.next.0.store(clock.first, Ordering::SeqCst);
    }
}
