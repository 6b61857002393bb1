//! The log buffer: a ring of bytes over the LSN space. Offset `o` is stored at `o` modulo the size of the ring.
//!
//! Workers copy blocks in, each into the piece that it claimed; the flusher reads what has been filled. There is no
//! lock:
//!
//! Invariants
//! 1. A place has one writer at a time: pieces do not overlap, and a piece is written only once the bytes one ring size
//!    earlier have been written to the file ([`free`](Ring::free_to)).
//! 2. The flusher reads only below `LogSpace::filled_to`, which has acquired the bytes that were filled there.

use std::ops::Deref;

use crate::sync::{AtomicU64, Ordering};

/// The log buffer.
pub(crate) struct Ring {
    places: Places,
    bytes: u64,
    /// The offset up to which the log has been written to files, so that the places can be reused.
    written: AtomicU64,
}

impl Ring {
    /// Creates a ring of `bytes`, a power of two, for the log from `start` on.
    pub(crate) fn new(bytes: u64, start: u64) -> std::io::Result<Self> {
        assert!(bytes.is_power_of_two());
        Ok(Self { places: Places::reserve(bytes as usize)?, bytes, written: AtomicU64::new(start) })
    }

    /// Returns the size of the ring in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the offset up to which pieces may be filled.
    pub(crate) fn free_to(&self) -> u64 {
        // Acquire: pairs with `wrote`; the flusher has read the previous content of these places.
        self.written.load(Ordering::Acquire) + self.bytes
    }

    /// Notes that everything below `offset` is in files, or in a gap between them.
    pub(crate) fn wrote(&self, offset: u64) {
        // Release: pairs with `free_to`.
        self.written.store(offset, Ordering::Release);
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Safety
    /// The caller owns the piece, and it ends at or below [`Ring::free_to`].
    pub(crate) unsafe fn fill(&self, offset: u64, bytes: &[u8]) {
        let at = (offset % self.bytes) as usize;
        let (first, second) = bytes.split_at(bytes.len().min(self.bytes as usize - at));
        // SAFETY: both parts lie in the ring, and no other thread uses them (invariant 1).
        unsafe {
            self.places.write(at, first);
            self.places.write(0, second);
        }
    }

    /// Returns the bytes from `from` up to `to` or the end of the ring.
    ///
    /// # Safety
    /// The range has been filled and is not freed while the slice is in use.
    pub(crate) unsafe fn filled(&self, from: u64, to: u64) -> impl Deref<Target = [u8]> {
        let at = from % self.bytes;
        let length = (to - from).min(self.bytes - at);
        // SAFETY: inside the ring; no thread writes there until it is freed (invariants 1 and 2).
        unsafe { self.places.read(at as usize, length as usize) }
    }
}

#[cfg(not(loom))]
use mapped::Places;
#[cfg(loom)]
use modelled::Places;

/// Places backed by memory.
#[cfg(not(loom))]
mod mapped {
    use crate::platform::memory::Region;

    pub(super) struct Places(Region);

    // SAFETY: shared access to the bytes is ordered by the invariants of the ring.
    unsafe impl Sync for Places {}

    impl Places {
        pub(super) fn reserve(bytes: usize) -> std::io::Result<Self> {
            Region::reserve(bytes, 0).map(Self)
        }

        /// # Safety
        /// No other thread uses that range, which is inside the ring.
        pub(super) unsafe fn write(&self, at: usize, bytes: &[u8]) {
            // SAFETY: promised by the caller.
            unsafe { self.0.start().add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }

        /// # Safety
        /// No thread writes to that range, which is inside the ring, while the slice is in use.
        pub(super) unsafe fn read(&self, at: usize, length: usize) -> &[u8] {
            // SAFETY: promised by the caller.
            unsafe { std::slice::from_raw_parts(self.0.start().add(at), length) }
        }
    }
}

/// Places backed by cells whose uses the model checker compares.
#[cfg(loom)]
mod modelled {
    use loom::cell::UnsafeCell;

    use crate::log::lsn::GRANULE;

    const CELL: usize = GRANULE as usize;

    pub(super) struct Places(Vec<UnsafeCell<[u8; CELL]>>);

    // SAFETY: loom checks the accesses.
    unsafe impl Sync for Places {}

    impl Places {
        pub(super) fn reserve(bytes: usize) -> std::io::Result<Self> {
            Ok(Self((0..bytes / CELL).map(|_| UnsafeCell::new([0; CELL])).collect()))
        }

        /// # Safety
        /// As for the mapped places; loom reports violations.
        pub(super) unsafe fn write(&self, at: usize, bytes: &[u8]) {
            for (byte, at) in bytes.iter().zip(at..) {
                // SAFETY: loom fails the model when this is concurrent with another use.
                self.0[at / CELL].with_mut(|cell| unsafe { (*cell)[at % CELL] = *byte });
            }
        }

        /// # Safety
        /// As for the mapped places; loom reports violations.
        pub(super) unsafe fn read(&self, at: usize, length: usize) -> Vec<u8> {
            // SAFETY: loom fails the model when this is concurrent with a write.
            let byte = |at: usize| self.0[at / CELL].with(|cell| unsafe { (*cell)[at % CELL] });
            (at..at + length).map(byte).collect()
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_is_read_across_the_end() {
        let ring = Ring::new(4096, 0).unwrap();
        let bytes: Vec<u8> = (0..=255).collect();
        let offset = 3 * 4096 - 100;
        ring.wrote(offset);
        assert_eq!(ring.free_to(), offset + 4096);
        // SAFETY: the only user; the range is free.
        unsafe { ring.fill(offset, &bytes) };
        // SAFETY: it has been filled.
        let (first, second) = unsafe { (ring.filled(offset, offset + 256), ring.filled(offset + 100, offset + 256)) };
        assert_eq!((&*first, &*second), (&bytes[..100], &bytes[100..]));
    }
}
