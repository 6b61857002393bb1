//! Timestamp ordering with a safe timestamp (HTM paper, section IV).
//!
//! A transaction gets its timestamp when it begins, and with it the *safe* one: all transactions up to it have ended.
//! Their reads and writes are no concern any more, so nearly every check is one comparison with the safe timestamp, and
//! no transaction ever waits: one that meets the timestamp of a transaction that may still run, or is younger, aborts.
//! Two things make up for the caution of that rule. A timestamp between the safe one and one's own is looked up: if its
//! transaction has ended, there is no conflict (IV.C). And an aborted transaction is started again when its opponent
//! has ended ([`crate::run`]), and after some attempts alone.
//!
//! Every check of a record's timestamps runs under a latch that hardware transactions elide ([`crate::sync::elided`]);
//! where the processor has none, as on the machines this was measured on, the latch is taken. Latches are many, and a
//! record's is found by its address: without elision one latch per table, as in the paper, would serialize the table.
//!
//! With `tso-validate` records keep no read timestamps (the paper plans that at the end of IV.C): a transaction keeps
//! the write timestamps of the records it has read and compares them at commit, when all records that it writes carry
//! its own timestamp. Then readers write nothing, and leaves are validated at commit, as under `silo`.
//!
//! Differences from the paper: a writer is not stopped by readers that come before it and may still run, which costs
//! one comparison and saves aborts; writes are buffered until commit (`scheme::in_place`), so that a record's write
//! timestamp is set when its transaction is about to write it; and phantoms, which the paper leaves to the safe
//! timestamp alone, are detected through the leaves' gap stamps, which are read timestamps here.
//!
//! Invariants
//! 1. A transaction announces in its slot that it runs, from before it takes its timestamp until everything that it
//!    changed in records is final. So a thread that finds no slot with a timestamp finds its transaction's values
//!    stored, or its marks removed.
//! 2. A record's write timestamp is that of a running transaction only while that one may still write it.
//! 3. With read timestamps, a transaction that copies a value has raised the read timestamp before, and finds the write
//!    timestamp unchanged afterwards; under `tso-validate` it finds it unchanged at commit.

use std::{marker::PhantomData, sync::Arc};

use super::{
    Cause, Conflict, ConflictSite,
    in_place::{Begun, InPlace, Limits, Ranges, Read, stale},
};
use crate::{
    error::{AbortKind, Dependency},
    ids::{Stamp, Tid},
    platform::{cpu::Processor, rtm::Rtm},
    rows::{
        copies::Copies,
        in_place::{Control, RecordPtr},
    },
    sync::{
        AppendList, AtomicU64, Ordering,
        elided::{ElidedLatch, Elision, ElisionCounts},
        total_order,
    },
};

/// How a transaction ensures that the values it has read remain the newest until it commits.
pub(crate) trait Reads: Send + Sync + 'static {
    const STAMPED: bool;
}

/// By a read timestamp in the record.
pub(crate) struct Stamped;
/// By comparing write timestamps at commit.
pub(crate) struct Validated;

impl Reads for Stamped {
    const STAMPED: bool = true;
}
impl Reads for Validated {
    const STAMPED: bool = false;
}

/// The timestamps of a record.
#[derive(Default)]
pub(crate) struct Timestamps {
    /// Of the youngest transaction that has read the record.
    read: AtomicU64,
    /// Of the last transaction that wrote it, or is about to.
    write: AtomicU64,
}

impl Control for Timestamps {}

/// Whether a worker's transaction runs, and a lower bound of its timestamp.
#[derive(Clone)]
pub(crate) struct TimestampSlot(Arc<Padded>);

#[repr(align(128))]
struct Padded(AtomicU64);

const IDLE: u64 = u64::MAX;

/// The state that all transactions share.
pub(crate) struct Shared {
    next: Next,
    slots: AppendList<TimestampSlot>,
    elision: Elision<Rtm>,
    latches: Box<[ElidedLatch]>,
}

#[repr(align(128))]
struct Next(AtomicU64);

impl Shared {
    /// How often a hardware transaction is retried before the latch is taken: the paper's figure 15 finds little left
    /// to gain after a few.
    const RETRIES_MAX: u32 = 7;
    /// Under loom enough to keep neighbours apart at any address: which records share a latch must not change from run
    /// to run.
    const LATCHES: usize = if cfg!(shuttle) {
        4
    } else if cfg!(loom) {
        32
    } else {
        1024
    };

    fn latch(&self, record: RecordPtr<Timestamps>) -> &ElidedLatch {
        let hash = (record.address() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.latches[hash as usize % self.latches.len()]
    }

    /// Returns the highest timestamp such that no running transaction has it or a lower one, as seen by the transaction
    /// that began at `own`.
    fn safe_below(&self, own: u64) -> u64 {
        let mut first = own;
        self.slots.visit(|slot| {
            // SeqCst: after the caller has taken its timestamp; a transaction that is missed takes a higher one
            // (invariant 1).
            first = first.min(slot.0.0.load(Ordering::SeqCst));
            true
        });
        first - 1
    }

    fn runs(&self, timestamp: u64) -> bool {
        let mut runs = false;
        self.slots.visit(|slot| {
            // SeqCst, and so an acquire: everything that the transaction did before it ended has happened.
            runs = slot.0.0.load(Ordering::SeqCst) == timestamp;
            !runs
        });
        runs
    }
}

/// One transaction.
#[derive(Default)]
pub(crate) struct Running {
    slot: Option<TimestampSlot>,
    timestamp: u64,
    safe: u64,
    /// Records whose write timestamp is the transaction's own, and the timestamp before, which a rollback restores.
    marked: Vec<(RecordPtr<Timestamps>, u64)>,
    /// Records that the transaction has read, and the write timestamps then, if they are compared at commit.
    read: Vec<(RecordPtr<Timestamps>, u64, ConflictSite)>,
    counts: ElisionCounts,
}

impl Running {
    /// Whether a timestamp is no conflict: the transaction's own, or that of an ended transaction that comes before.
    #[inline]
    fn admits(&self, shared: &Shared, timestamp: u64) -> bool {
        timestamp <= self.safe || timestamp == self.timestamp || timestamp < self.timestamp && !shared.runs(timestamp)
    }

    fn conflict(&self, timestamp: u64, site: ConflictSite) -> Conflict {
        let cause = Cause::new(Stamp::INFINITY, Dependency::OverwrittenBy, site);
        Conflict::before(AbortKind::TooLate, cause.with(Tid(timestamp)))
    }
}

/// `tso`, and `tso-validate`.
pub(crate) struct Tso<R>(PhantomData<R>);

impl<R: Reads> InPlace for Tso<R> {
    type Control = Timestamps;
    type Shared = Shared;
    type State = Running;

    const RANGES: Ranges = if R::STAMPED { Ranges::Stamped } else { Ranges::AtCommit };

    fn kept_bytes(running: &Running) -> usize {
        (running.marked.capacity() + running.read.capacity()) * 4 * size_of::<u64>()
    }

    fn shared(_: &Limits) -> Shared {
        Shared {
            next: Next(AtomicU64::new(1)),
            slots: AppendList::new(),
            elision: Elision::new(Rtm::of(Processor::detect()), Shared::RETRIES_MAX),
            latches: (0..Shared::LATCHES).map(|_| ElidedLatch::new()).collect(),
        }
    }

    fn begin(shared: &Shared, running: &mut Running, _: bool) -> Result<Begun, Conflict> {
        let slot = running.slot.get_or_insert_with(|| {
            let slot = TimestampSlot(Arc::new(Padded(AtomicU64::new(IDLE))));
            shared.slots.push_with(|_| slot.clone());
            slot
        });
        // SeqCst, all of them: a transaction that takes a higher timestamp sees that one is about to run from here on.
        slot.0.0.store(shared.next.0.load(Ordering::SeqCst), Ordering::SeqCst);
        running.timestamp = shared.next.0.fetch_add(1, Ordering::SeqCst);
        slot.0.0.store(running.timestamp, Ordering::SeqCst);
        running.safe = shared.safe_below(running.timestamp);
        Ok(Begun::Running)
    }

    fn read(
        shared: &Shared,
        running: &mut Running,
        record: RecordPtr<Timestamps>,
        site: ConflictSite,
        mut copies: Option<&mut Copies>,
    ) -> Result<Read, Conflict> {
        let (control, own) = (record.control(), running.timestamp);
        loop {
            let write = if R::STAMPED {
                let look = || {
                    if control.read.load(Ordering::SeqCst) < own {
                        control.read.store(own, Ordering::SeqCst);
                        total_order();
                    }
                    control.write.load(Ordering::SeqCst)
                };
                shared.latch(record).run(&shared.elision, &mut running.counts, look)
            } else {
                control.write.load(Ordering::SeqCst)
            };
            if !running.admits(shared, write) {
                return Err(running.conflict(write, site));
            }
            let mark = copies.as_deref().map(Copies::mark);
            let (word, copied) = record.read(copies.as_deref_mut());
            if control.write.load(Ordering::SeqCst) == write {
                if !R::STAMPED && write != own && !word.is_gone() {
                    running.read.push((record, write, site));
                }
                return Ok((word, copied));
            }
            if let Some((copies, mark)) = copies.as_deref_mut().zip(mark) {
                copies.rewind(mark);
            }
        }
    }

    fn claim(
        shared: &Shared,
        running: &mut Running,
        record: RecordPtr<Timestamps>,
        site: ConflictSite,
    ) -> Result<(), Conflict> {
        let (control, own) = (record.control(), running.timestamp);
        let mut counts = std::mem::take(&mut running.counts);
        let mark = || {
            let (write, read) = (control.write.load(Ordering::SeqCst), control.read.load(Ordering::SeqCst));
            // Readers that come before do not conflict.
            let against = Some(write).filter(|&write| !running.admits(shared, write));
            let against = against.or(Some(read).filter(|&read| read > own));
            if against.is_none() {
                control.write.store(own, Ordering::SeqCst);
            }
            (write, against)
        };
        let (before, against) = shared.latch(record).run(&shared.elision, &mut counts, mark);
        running.counts = counts;
        if let Some(against) = against {
            return Err(running.conflict(against, site));
        }
        if before != own {
            running.marked.push((record, before));
        }
        Ok(())
    }

    fn born(_: &Shared, running: &mut Running) -> Timestamps {
        Timestamps { read: AtomicU64::new(0), write: AtomicU64::new(running.timestamp) }
    }

    fn adopt(
        shared: &Shared,
        running: &mut Running,
        record: RecordPtr<Timestamps>,
        gap: Stamp,
        site: ConflictSite,
    ) -> Result<(), Conflict> {
        running.marked.push((record, 0));
        // As under `sto`: earlier scans of the gap have left nothing in the record, and it may stay when this
        // transaction aborts.
        let read = &record.control().read;
        let raise = || {
            if read.load(Ordering::SeqCst) < gap.0 {
                read.store(gap.0, Ordering::SeqCst);
            }
        };
        shared.latch(record).run(&shared.elision, &mut running.counts, raise);
        Self::enter_gap(shared, running, gap, site)
    }

    fn enter_gap(_: &Shared, running: &mut Running, gap: Stamp, site: ConflictSite) -> Result<(), Conflict> {
        if gap.0 > running.timestamp { Err(running.conflict(gap.0, site)) } else { Ok(()) }
    }

    fn look(shared: &Shared, running: &mut Running, removed: Stamp, site: ConflictSite) -> Result<Stamp, Conflict> {
        Self::enter_gap(shared, running, removed, site)?;
        Ok(Self::stamp(running))
    }

    fn certify(_: &Shared, running: &mut Running, _: impl Fn(RecordPtr<Timestamps>) -> bool) -> Result<(), Conflict> {
        let own = running.timestamp;
        // Before the loads of marks, after the epoch has been read: as `silo`, with marks for locks.
        total_order();
        for &(record, seen, site) in &running.read {
            let write = record.control().write.load(Ordering::SeqCst);
            if write != seen && (write != own || Self::before(running, record) != Some(seen)) {
                return Err(stale(site));
            }
        }
        Ok(())
    }

    fn is_unclaimed(shared: &Shared, record: RecordPtr<Timestamps>) -> bool {
        !shared.runs(record.control().write.load(Ordering::SeqCst))
    }

    fn last_looks(_: &Shared, record: RecordPtr<Timestamps>) -> (Stamp, Stamp) {
        let control = record.control();
        // SeqCst: after the record has been locked; a reader that has found it not locked has raised the read timestamp
        // before.
        total_order();
        (Stamp(control.read.load(Ordering::SeqCst)), Stamp(control.write.load(Ordering::SeqCst)))
    }

    fn stamp(running: &Running) -> Stamp {
        Stamp(running.timestamp)
    }

    fn is_running(shared: &Shared, timestamp: u64) -> bool {
        shared.runs(timestamp)
    }

    fn end(_: &Shared, running: &mut Running, committed: bool) {
        for (record, before) in running.marked.drain(..) {
            if !committed {
                // No other thread changes it while it is this transaction's.
                record.control().write.store(before, Ordering::SeqCst);
            }
        }
        running.read.clear();
        if let Some(slot) = &running.slot {
            // SeqCst, and so a release: invariant 1.
            slot.0.0.store(IDLE, Ordering::SeqCst);
        }
    }
}

impl<R: Reads> Tso<R> {
    /// The write timestamp that a record had before it was the transaction's own.
    fn before(running: &Running, record: RecordPtr<Timestamps>) -> Option<u64> {
        running.marked.iter().find(|(marked, _)| *marked == record).map(|(_, before)| *before)
    }
}
