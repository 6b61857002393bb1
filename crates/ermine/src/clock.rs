//! The total order of commits: one shared offset into the log.
//!
//! A committing transaction reserves the bytes of its log block with one `fetch_add`; the start of the block is its
//! commit stamp (ERMIA 3.2). A beginning transaction reads the offset: it sees every stamp strictly below.
//!
//! Invariants
//! 1. Stamps of transactions with writes are multiples of [`GRANULE`], so `begin - 1` is never one of them: read-only
//!    transactions commit there, or at `pass`. Several read-only transactions may have the same stamp.
//! 2. `reserve` and `pass` are sequentially consistent read-modify-writes: the actions of a committer before its own
//!    (marking itself committing, setting reader bits) are visible to every transaction that holds a higher stamp. The
//!    certifiers rest on this.

use crate::{
    ids::Stamp,
    log::lsn::GRANULE,
    sync::{AtomicU64, Ordering, total_order},
};

/// The log's offset, on a cache line of its own.
#[repr(align(128))]
pub(crate) struct LogOffset(AtomicU64);

impl LogOffset {
    /// Creates the offset of an empty log. Stamp 0 stays free: it is the stamp of absent versions.
    pub(crate) fn new() -> Self {
        Self::from(GRANULE)
    }

    /// Creates the offset of a log that continues at `offset`.
    pub(crate) fn from(offset: u64) -> Self {
        debug_assert!(offset > 0 && offset.is_multiple_of(GRANULE));
        Self(AtomicU64::new(offset))
    }

    /// Returns the stamp that the next committer will get.
    pub(crate) fn now(&self) -> Stamp {
        total_order();
        // SeqCst: pairs with `reserve`, and with the snapshot registry's store-then-load (snapshots.rs).
        Stamp(self.0.load(Ordering::SeqCst))
    }

    /// Returns an offset that the log has reached, perhaps a while ago. The caller sees the actions that preceded the
    /// reservation of all places below it.
    pub(crate) fn reached(&self) -> u64 {
        // Acquire: pairs with `reserve`.
        self.0.load(Ordering::Acquire)
    }

    /// Returns the highest stamp at or below `stamp` that a transaction with writes can have.
    pub(crate) fn commit_up_to(stamp: Stamp) -> Stamp {
        Stamp(stamp.0 & !(GRANULE - 1))
    }

    /// Takes the place `at` and `bytes` of log with it, if `at` is the next place.
    pub(crate) fn reserve_at(&self, at: Stamp, bytes: u64) -> bool {
        // SeqCst: invariant 2.
        let end = at.0 + bytes.next_multiple_of(GRANULE).max(GRANULE);
        self.0.compare_exchange(at.0, end, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Returns a place for a transaction without writes: above all that were taken and below the next one, without
    /// space in the log.
    pub(crate) fn pass(&self) -> Stamp {
        // SeqCst, and not a load: invariant 2.
        Stamp(self.0.fetch_add(0, Ordering::SeqCst) - 1)
    }

    /// Takes the next place in the order, and `bytes` of log with it.
    pub(crate) fn reserve(&self, bytes: u64) -> Stamp {
        // SeqCst: invariant 2.
        Stamp(self.0.fetch_add(bytes.next_multiple_of(GRANULE).max(GRANULE), Ordering::SeqCst))
    }
}
