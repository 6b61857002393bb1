//! Where workers and loggers meet: a seat a worker, with the epoch in which it is committing and the buffer that it fills.
//!
//! ```text
//!   worker                                        logger
//!   room in the buffer (may wait)                 E := current epoch
//!   committing := current epoch                   least := min(E, committing of all seats)
//!   lock records, read the epoch: e               take what is in the buffers of all seats,
//!   append the record                             then all buffers that were handed over
//!   committing := nobody                          write, sync: epochs below `least` are durable
//! ```
//!
//! SiloR has workers advertise an epoch of theirs all the time (3.5). A worker here is a leased context that may rest for long,
//! and must not hold back an epoch meanwhile; so it advertises one only while it commits.
//!
//! Invariants
//! 1. *What is below `least` has been taken*, by this collection or one before. Take a record of epoch e that is not: its
//!    commit read e after it had announced itself, at an epoch of at most e. Where the look at its seat saw the announcement,
//!    `least` is at most e. Where it came after the withdrawal, the record was in the buffer before, and the buffer is taken
//!    later. Where it came before the announcement, E was read before the look, and the commit read its epoch after the
//!    announcement; all four are sequentially consistent, so e is at least E, and E at least `least`.
//! 2. *A buffer is always in a seat or among those handed over*: it is moved under the seat's lock, and seats are looked
//!    through first.
//! 3. *Nobody waits for room who holds anything*: room is made before the announcement and before any record is locked.
//! 4. *Memory is bounded*: what has been handed over and not been written is no more than the limit and one buffer a worker.

use std::sync::Arc;

use super::epoch::EpochClock;
use crate::sync::{AppendList, AtomicU64, Mutex, Ordering, fence, total_order};

/// Records on their way to a file.
#[derive(Default, Debug)]
pub(crate) struct Buffer {
    pub(crate) bytes: Vec<u8>,
    /// The greatest epoch of a record in it.
    pub(crate) last_epoch: u64,
}

/// A worker's place.
#[repr(align(128))]
pub(crate) struct Seat {
    /// The epoch at or before which the record will be that the worker is about to append.
    committing: AtomicU64,
    buffer: Mutex<Buffer>,
    /// Whose logger takes its buffers.
    device: usize,
}

/// All seats, and buffers that are full.
pub(crate) struct Seats {
    seats: AppendList<Arc<Seat>>,
    /// By device.
    handed_over: Box<[Mutex<Vec<Buffer>>]>,
    /// Bytes of those that have not been written yet.
    waiting_bytes: AtomicU64,
    /// Empty ones.
    spare: Mutex<Vec<Vec<u8>>>,
    limit: u64,
}

/// Nobody commits.
const NOBODY: u64 = u64::MAX;

/// Bytes of a buffer (SiloR 3.4).
pub(crate) const BUFFER_BYTES: usize = 512 << 10;

impl Seat {
    /// The worker is about to commit. Before it reads the epoch for its record.
    pub(crate) fn announce(&self, epochs: &EpochClock) {
        // SeqCst: invariant 1, before the commit's load of the epoch.
        self.committing.store(epochs.current(), Ordering::SeqCst);
        total_order();
    }

    /// The record is in the buffer, or will never be.
    pub(crate) fn withdraw(&self) {
        // Release: pairs with `committing`; who sees it finds the record in the buffer.
        self.committing.store(NOBODY, Ordering::Release);
    }

    fn committing(&self) -> u64 {
        total_order();
        // SeqCst: invariant 1, after the logger's load of the epoch.
        self.committing.load(Ordering::SeqCst)
    }

    /// Puts a record of `epoch` into the buffer, where there is room.
    pub(crate) fn append(&self, epoch: u64, write: impl FnOnce(&mut Vec<u8>)) {
        let mut buffer = self.buffer.lock().expect("no code panics while it holds a buffer");
        buffer.last_epoch = buffer.last_epoch.max(epoch);
        write(&mut buffer.bytes);
    }
}

impl Seats {
    /// Nobody yet; buffers of `limit` bytes altogether may wait to be written.
    pub(crate) fn new(devices: usize, limit: u64) -> Self {
        Self {
            seats: AppendList::new(),
            handed_over: (0..devices).map(|_| Mutex::new(Vec::new())).collect(),
            waiting_bytes: AtomicU64::new(0),
            spare: Mutex::new(Vec::new()),
            limit,
        }
    }

    /// A seat for a new worker.
    pub(crate) fn join(&self) -> Arc<Seat> {
        let mut joined = None;
        self.seats.push_with(|number| {
            let device = number % self.handed_over.len();
            let (committing, buffer) = (AtomicU64::new(NOBODY), Mutex::new(Buffer::default()));
            joined.insert(Arc::new(Seat { committing, buffer, device })).clone()
        });
        // A collection that does not see the seat has read the epoch before whoever sits here reads it: pairs with the fence there.
        fence(Ordering::SeqCst);
        joined.expect("the list asks once")
    }

    /// Bytes that may wait to be written, all together.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Makes room for a record; false: not now, the device is behind.
    pub(crate) fn make_room(&self, seat: &Seat, bytes: usize) -> bool {
        let mut buffer = seat.buffer.lock().expect("no code panics while it holds a buffer");
        let used = buffer.bytes.len();
        if used > 0 && used + bytes > BUFFER_BYTES {
            if self.is_full() {
                return false;
            }
            let full = std::mem::take(&mut *buffer);
            // Relaxed: a bound that may be a moment late.
            self.waiting_bytes.fetch_add(full.bytes.len() as u64, Ordering::Relaxed);
            self.handed_over[seat.device].lock().expect("no code panics while it holds the list").push(full);
        }
        if buffer.bytes.capacity() == 0 {
            buffer.bytes = self.spare.lock().expect("no code panics while it holds the list").pop().unwrap_or_default();
        }
        // At once: not while the worker has locked records.
        let wanted = if cfg!(loom) { bytes } else { bytes.max(BUFFER_BYTES - buffer.bytes.len()) };
        buffer.bytes.reserve(wanted);
        true
    }

    /// Whether as much waits to be written as may.
    fn is_full(&self) -> bool {
        self.waiting_bytes.load(Ordering::Relaxed) >= self.limit
    }

    /// Whether so much waits that the loggers should begin.
    pub(crate) fn is_pressed(&self) -> bool {
        self.waiting_bytes.load(Ordering::Relaxed) >= self.limit / 4
    }

    /// Whether there is anything to be collected.
    pub(crate) fn has_records(&self) -> bool {
        let mut found = self.waiting_bytes.load(Ordering::Relaxed) > 0;
        self.seats.visit(|seat| {
            found = found || !seat.buffer.lock().expect("no code panics while it holds a buffer").bytes.is_empty();
            !found
        });
        found
    }

    /// Takes all buffers, by device; every record of an epoch below the one that is given has been taken.
    pub(crate) fn collect(&self, epochs: &EpochClock) -> (u64, Vec<Vec<Buffer>>) {
        let mut least = epochs.current();
        // Pairs with the fence in `join`.
        fence(Ordering::SeqCst);
        self.seats.visit(|seat| {
            least = least.min(seat.committing());
            true
        });
        let mut taken: Vec<Vec<Buffer>> = self.handed_over.iter().map(|_| Vec::new()).collect();
        self.seats.visit(|seat| {
            let mut buffer = seat.buffer.lock().expect("no code panics while it holds a buffer");
            if !buffer.bytes.is_empty() {
                self.waiting_bytes.fetch_add(buffer.bytes.len() as u64, Ordering::Relaxed);
                // Another one in its place: the worker may have made room for a record that comes yet.
                let spare = self.spare.lock().expect("no code panics while it holds the list").pop();
                let bytes = spare.unwrap_or_else(|| Vec::with_capacity(if cfg!(loom) { 0 } else { BUFFER_BYTES }));
                taken[seat.device].push(std::mem::replace(&mut *buffer, Buffer { bytes, last_epoch: 0 }));
            }
            true
        });
        // After the seats: invariant 2.
        for (taken, handed_over) in taken.iter_mut().zip(&self.handed_over) {
            taken.append(&mut handed_over.lock().expect("no code panics while it holds the list"));
        }
        (least, taken)
    }

    /// A buffer has been written.
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
