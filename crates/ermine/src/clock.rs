//! The total order of commits: one shared offset into the log.
//!
//! A committing transaction reserves the bytes of its log block with one `fetch_add`; where the block begins is its
//! commit stamp (ERMIA 3.2). A beginning transaction reads the offset: it sees every stamp strictly below.
//!
//! Invariants
//! 1. Stamps of transactions with writes are multiples of [`GRANULE`], so `begin - 1` is none of them: read-only transactions
//!    commit there, or at `pass`. Several of them may have one stamp.
//! 2. `reserve` and `pass` are sequentially consistent read-modify-writes: what a committer did before it (marking itself committing, setting reader
//!    bits) is seen by everyone who holds a higher stamp. The certifiers rest on this.

use crate::{
    ids::Stamp,
    log::lsn::GRANULE,
    sync::{AtomicU64, Ordering, total_order},
};

/// The log's offset, on a cache line of its own.
#[repr(align(128))]
pub(crate) struct LogOffset(AtomicU64);

impl LogOffset {
    /// An empty log. Stamp 0 stays free: it is the stamp of absent versions.
    pub(crate) fn new() -> Self {
        Self::from(GRANULE)
    }

    /// A log that goes on at `offset`.
    pub(crate) fn from(offset: u64) -> Self {
        debug_assert!(offset > 0 && offset.is_multiple_of(GRANULE));
        Self(AtomicU64::new(offset))
    }

    /// The stamp that the next committer will get.
    pub(crate) fn now(&self) -> Stamp {
        total_order();
        // SeqCst: pairs with `reserve`, and with the snapshot registry's store-then-load (snapshots.rs).
        Stamp(self.0.load(Ordering::SeqCst))
    }

    /// An offset that the log has reached, perhaps a while ago; with it comes what was done before places below were taken.
    pub(crate) fn reached(&self) -> u64 {
        // Acquire: pairs with `reserve`.
        self.0.load(Ordering::Acquire)
    }

    /// The highest stamp at or below `stamp` that a transaction with writes can have.
    pub(crate) fn commit_up_to(stamp: Stamp) -> Stamp {
        Stamp(stamp.0 & !(GRANULE - 1))
    }

    /// Takes the place `at` and `bytes` of log with it, if it is the next one.
    pub(crate) fn reserve_at(&self, at: Stamp, bytes: u64) -> bool {
        // SeqCst: invariant 2.
        let end = at.0 + bytes.next_multiple_of(GRANULE).max(GRANULE);
        self.0.compare_exchange(at.0, end, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Gives a place above all that were taken and below the next one, without log, to a transaction without writes.
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
