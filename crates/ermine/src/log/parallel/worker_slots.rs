//! The meeting point of workers and loggers: one slot per worker, with the epoch in which the worker is committing and
//! the buffer that it fills.
//!
//! ```text
//!   worker                                        logger
//!   room in the buffer (may wait)                 E := current epoch
//!   committing := current epoch                   least := min(E, committing of all slots)
//!   lock records, read the epoch: e               take the content of the buffers of all slots,
//!   append the record                             then all buffers that were handed over
//!   committing := none                            write, sync: epochs below `least` are durable
//! ```
//!
//! In SiloR, workers advertise an epoch of theirs all the time (3.5). A worker here is a leased context that may be
//! idle for long, and must not hold back an epoch meanwhile; so it advertises one only while it commits.
//!
//! Invariants
//! 1. *Every record below `least` has been taken*, by this collection or an earlier one. Consider a record of epoch e
//!    that has not been taken: its commit read e after announcing itself, at an epoch of at most e. If the collection's
//!    visit of the slot saw the announcement, `least` is at most e. If the visit came after the withdrawal, the record
//!    was in the buffer before, and the buffer is taken later. If the visit came before the announcement, E was read
//!    before the visit, and the commit read its epoch after the announcement; all four are sequentially consistent, so
//!    e is at least E, and E at least `least`.
//! 2. *A buffer is always in a slot or among those handed over*: it is moved under the slot's lock, and slots are
//!    visited first.
//! 3. *No worker that waits for room holds anything*: room is made before the announcement and before any record is
//!    locked.
//! 4. *Memory is bounded*: buffers handed over and not yet written have no more bytes than the limit and one buffer per
//!    worker.

use std::sync::Arc;

use super::epoch::EpochClock;
use crate::sync::{AppendList, AtomicU64, Mutex, Ordering, fence, total_order};

/// Records that have not been written to a file yet.
#[derive(Default, Debug)]
pub(crate) struct Buffer {
    pub(crate) bytes: Vec<u8>,
    /// The greatest epoch of a record in it.
    pub(crate) last_epoch: u64,
}

/// A worker's slot.
#[repr(align(128))]
pub(crate) struct WorkerSlot {
    /// Lower bound of the epoch of the record that the worker is about to append.
    committing: AtomicU64,
    buffer: Mutex<Buffer>,
    /// The device whose logger takes the slot's buffers.
    device: usize,
}

/// All slots, and buffers that are full.
pub(crate) struct WorkerSlots {
    slots: AppendList<Arc<WorkerSlot>>,
    /// By device.
    handed_over: Box<[Mutex<Vec<Buffer>>]>,
    /// Bytes handed over or collected that have not been written yet.
    waiting_bytes: AtomicU64,
    /// Empty buffers.
    spare: Mutex<Vec<Vec<u8>>>,
    limit: u64,
}

/// The worker is not committing.
const NONE: u64 = u64::MAX;

/// Size of a buffer in bytes (SiloR 3.4).
pub(crate) const BUFFER_BYTES: usize = 512 << 10;

impl WorkerSlot {
    /// Announces that the worker is about to commit, before it reads the epoch for its record.
    pub(crate) fn announce(&self, epochs: &EpochClock) {
        // SeqCst: invariant 1, before the commit's load of the epoch.
        self.committing.store(epochs.current(), Ordering::SeqCst);
        total_order();
    }

    /// Withdraws the announcement: the record is in the buffer, or will never be.
    pub(crate) fn withdraw(&self) {
        // Release: pairs with `committing`; a logger that sees it finds the record in the buffer.
        self.committing.store(NONE, Ordering::Release);
    }

    fn committing(&self) -> u64 {
        total_order();
        // SeqCst: invariant 1, after the logger's load of the epoch.
        self.committing.load(Ordering::SeqCst)
    }

    /// Appends a record of `epoch` to the buffer, which has room.
    pub(crate) fn append(&self, epoch: u64, write: impl FnOnce(&mut Vec<u8>)) {
        let mut buffer = self.buffer.lock().expect("no code panics while it holds a buffer");
        buffer.last_epoch = buffer.last_epoch.max(epoch);
        write(&mut buffer.bytes);
    }
}

impl WorkerSlots {
    /// Creates an empty list of slots; buffers of `limit` bytes altogether may wait to be written.
    pub(crate) fn new(devices: usize, limit: u64) -> Self {
        Self {
            slots: AppendList::new(),
            handed_over: (0..devices).map(|_| Mutex::new(Vec::new())).collect(),
            waiting_bytes: AtomicU64::new(0),
            spare: Mutex::new(Vec::new()),
            limit,
        }
    }

    /// Returns a slot for a new worker.
    pub(crate) fn join(&self) -> Arc<WorkerSlot> {
        let mut joined = None;
        self.slots.push_with(|number| {
            let device = number % self.handed_over.len();
            let (committing, buffer) = (AtomicU64::new(NONE), Mutex::new(Buffer::default()));
            joined.insert(Arc::new(WorkerSlot { committing, buffer, device })).clone()
        });
        // A collection that does not see the slot has read the epoch before this slot's worker reads it: pairs with the
        // fence there.
        fence(Ordering::SeqCst);
        joined.expect("the list asks once")
    }

    /// Returns the total number of bytes that may wait to be written.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Makes room for a record; false if the device is behind and the worker must wait.
    pub(crate) fn make_room(&self, slot: &WorkerSlot, bytes: usize) -> bool {
        let mut buffer = slot.buffer.lock().expect("no code panics while it holds a buffer");
        let used = buffer.bytes.len();
        if used > 0 && used + bytes > BUFFER_BYTES {
            if self.is_full() {
                return false;
            }
            let full = std::mem::take(&mut *buffer);
            // Relaxed: a bound that may be a moment late.
            self.waiting_bytes.fetch_add(full.bytes.len() as u64, Ordering::Relaxed);
            self.handed_over[slot.device].lock().expect("no code panics while it holds the list").push(full);
        }
        if buffer.bytes.capacity() == 0 {
            buffer.bytes = self.spare.lock().expect("no code panics while it holds the list").pop().unwrap_or_default();
        }
        // Reserved now, and not while the worker has locked records.
        let wanted = if cfg!(loom) { bytes } else { bytes.max(BUFFER_BYTES - buffer.bytes.len()) };
        buffer.bytes.reserve(wanted);
        true
    }

    /// Whether the bytes waiting to be written have reached the limit.
    fn is_full(&self) -> bool {
        self.waiting_bytes.load(Ordering::Relaxed) >= self.limit
    }

    /// Whether enough bytes wait that the loggers should begin.
    pub(crate) fn is_pressed(&self) -> bool {
        self.waiting_bytes.load(Ordering::Relaxed) >= self.limit / 4
    }

    /// Whether there is anything to be collected.
    pub(crate) fn has_records(&self) -> bool {
        let mut found = self.waiting_bytes.load(Ordering::Relaxed) > 0;
        self.slots.visit(|slot| {
            found = found || !slot.buffer.lock().expect("no code panics while it holds a buffer").bytes.is_empty();
            !found
        });
        found
    }

    /// Takes all buffers, by device; every record of an epoch below the one that is returned has been taken.
    pub(crate) fn collect(&self, epochs: &EpochClock) -> (u64, Vec<Vec<Buffer>>) {
        let mut least = epochs.current();
        // Pairs with the fence in `join`.
        fence(Ordering::SeqCst);
        self.slots.visit(|slot| {
            least = least.min(slot.committing());
            true
        });
        let mut taken: Vec<Vec<Buffer>> = self.handed_over.iter().map(|_| Vec::new()).collect();
        self.slots.visit(|slot| {
            let mut buffer = slot.buffer.lock().expect("no code panics while it holds a buffer");
            if !buffer.bytes.is_empty() {
                self.waiting_bytes.fetch_add(buffer.bytes.len() as u64, Ordering::Relaxed);
                // Another buffer takes its place: the worker may have made room for a record that it has yet to append.
                let spare = self.spare.lock().expect("no code panics while it holds the list").pop();
                let bytes = spare.unwrap_or_else(|| Vec::with_capacity(if cfg!(loom) { 0 } else { BUFFER_BYTES }));
                taken[slot.device].push(std::mem::replace(&mut *buffer, Buffer { bytes, last_epoch: 0 }));
            }
            true
        });
        // After the slots: invariant 2.
        for (taken, handed_over) in taken.iter_mut().zip(&self.handed_over) {
            taken.append(&mut handed_over.lock().expect("no code panics while it holds the list"));
        }
        (least, taken)
    }

    /// Reuses a buffer that has been written.
    pub(crate) fn written(&self, buffer: Buffer) {
        let Buffer { mut bytes, .. } = buffer;
        self.waiting_bytes.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
        let mut spare = self.spare.lock().expect("no code panics while it holds the list");
        if bytes.capacity() <= 2 * BUFFER_BYTES && (spare.len() * BUFFER_BYTES) as u64 <= self.limit {
            bytes.clear();
            spare.push(bytes);
        }
    }
}
