//! Reading most of a table as one read of the table (hierarchical tracking with escalation, SSN section 6).
//!
//! A table has reader bits and a stamp of its own, which stand beside those of each of its versions. A transaction that has
//! read much of a table sets its bit here once; whatever rows and ranges it scans there from then on leave no trace in
//! versions, lists or leaf sets. Overwriters and inserters take both sets of bits for one and do as they do for any untracked
//! read ([`super::untracked`]); they see a reader where there is none at worst.
//!
//! Invariants
//! 1. A reader sets its bit before it reads on, and before it looks at a leaf that it does not remember; overwriters look
//!    after they have marked what they overwrite, and inserters after their entries are in. So a read that does not see
//!    the overwriter is seen by it.
//! 2. Unlike those of versions these bits are taken off: each would make all writers of the table suspect all later transactions
//!    of the slot. Before that the reader raises `last_read`. Only the first slot of each bit escalates.

use crate::{
    ids::Stamp,
    sync::{AtomicU64, Ordering, fence},
    txn::readers::ReaderSlot,
};

/// Who reads a table as a whole.
pub(crate) struct TableReaders {
    bits: AtomicU64,
    /// The highest commit stamp of any of them.
    last_read: AtomicU64,
    /// Reads of the table that make a transaction one; `None`: half of the rows.
    escalate_after: Option<u64>,
}

impl TableReaders {
    /// Of smaller tables the reads are kept one by one.
    const ROWS_MIN: u64 = 4096;

    pub(crate) fn new(escalate_after: Option<u64>) -> Self {
        Self { bits: AtomicU64::new(0), last_read: AtomicU64::new(0), escalate_after }
    }

    /// Whether so many reads of a table with at most `rows` rows are most of it.
    pub(super) fn is_most(&self, reads: u64, rows: u64) -> bool {
        reads >= self.escalate_after.unwrap_or((rows / 2).max(Self::ROWS_MIN))
    }

    /// A transaction reads the table from now on; `false` if another slot owns its bit.
    pub(super) fn enter(&self, slot: &ReaderSlot) -> bool {
        let first = slot.is_first_of_bit();
        if first {
            // SeqCst, and the fence: invariant 1, also for leaves, which are read with less.
            self.bits.fetch_or(slot.bit(), Ordering::SeqCst);
            fence(Ordering::SeqCst);
        }
        first
    }

    /// Its commit. Release pairs with `last_read`.
    pub(super) fn publish(&self, stamp: Stamp) {
        self.last_read.fetch_max(stamp.0, Ordering::Release);
    }

    /// Its end (invariant 2). Release pairs with `bits`.
    pub(super) fn leave(&self, slot: &ReaderSlot) {
        self.bits.fetch_and(!slot.bit(), Ordering::Release);
    }

    /// The bits. SeqCst: invariant 1; who does not find one sees what its reader published.
    pub(super) fn bits(&self) -> u64 {
        self.bits.load(Ordering::SeqCst)
    }

    /// After the bits.
    pub(super) fn last_read(&self) -> Stamp {
        Stamp(self.last_read.load(Ordering::Acquire))
    }
}
