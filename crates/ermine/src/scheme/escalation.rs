//! Reading most of a table as one read of the table (hierarchical tracking with escalation, SSN section 6).
//!
//! A table has reader bits and a stamp of its own, in addition to those of each of its versions. A transaction that has
//! read much of a table, or is about to read rows that have no version in memory, sets its bit here once; the rows and ranges that it reads there from then on leave no trace in
//! versions, lists or leaf sets. Overwriters and inserters combine both sets of bits and proceed as for any untracked
//! read ([`super::untracked`]); at worst they see a reader where there is none.
//!
//! Invariants
//! 1. A reader sets its bit before it reads on, and before it reads a leaf that it does not add to its leaf set;
//!    overwriters check the bits after they have marked what they overwrite, and inserters after their entries are
//!    inserted. So a read that does not see the overwriter is seen by it.
//! 2. Unlike those of versions these bits are cleared: each would make all writers of the table suspect all later
//!    transactions of the slot. Before that the reader raises `last_read`. Slots that share a bit are counted: the last
//!    to leave clears it.
//!
//! Versions that leave memory (`durable::eviction`) leave the stamps of their readers here as well.

use std::ops::DerefMut;

use crate::{
    ids::Stamp,
    mutant::Mutant,
    sync::{AtomicU64, Mutex, Ordering, fence},
    txn::readers::{ReaderSlot, ReaderSlots},
};

/// The transactions that read a table as a whole.
pub(crate) struct TableReaders {
    bits: AtomicU64,
    /// Number of readers behind each bit.
    counts: Mutex<[u16; ReaderSlots::BITS]>,
    /// The highest commit stamp of any of them.
    last_read: AtomicU64,
    /// Number of reads after which a transaction reads the table as a whole; `None`: half of the rows.
    escalate_after: Option<u64>,
}

impl TableReaders {
    /// In smaller tables reads of versions are tracked one by one.
    const ROWS_MIN: u64 = 4096;

    pub(crate) fn new(escalate_after: Option<u64>) -> Self {
        let counts = Mutex::new([0; ReaderSlots::BITS]);
        Self { bits: AtomicU64::new(0), counts, last_read: AtomicU64::new(0), escalate_after }
    }

    /// Whether this number of reads is most of a table with at most `rows` rows.
    pub(super) fn is_most(&self, reads: u64, rows: u64) -> bool {
        reads >= self.escalate_after.unwrap_or((rows / 2).max(Self::ROWS_MIN))
    }

    /// Announces that a transaction reads the table as a whole from now on.
    pub(super) fn enter(&self, slot: &ReaderSlot) {
        let mut counts = self.counts();
        counts[slot.place()] += 1;
        // SeqCst, and the fence: invariant 1, also for leaves, which are read with weaker orderings.
        self.bits.fetch_or(slot.bit(), Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    fn counts(&self) -> impl DerefMut<Target = [u16; ReaderSlots::BITS]> {
        self.counts.lock().expect("no code panics while it counts readers")
    }

    /// Publishes a commit. Release pairs with `last_read`.
    pub(super) fn publish(&self, stamp: Stamp) {
        self.last_read.fetch_max(stamp.0, Ordering::Release);
    }

    /// Takes over the stamp of the last reader of a version that leaves memory: it counts as one that has read the
    /// whole table. Called before the version can be read from its file.
    pub(crate) fn outlive(&self, last_reader: Stamp) {
        if last_reader > Stamp::ZERO && !Mutant::EvictionForgets.is_on() {
            self.publish(last_reader);
        }
    }

    /// Clears the bit of a transaction that ends, if no other has it (invariant 2).
    pub(super) fn leave(&self, slot: &ReaderSlot) {
        let mut counts = self.counts();
        let left = &mut counts[slot.place()];
        *left -= 1;
        if *left == 0 {
            // Release: pairs with `bits`.
            self.bits.fetch_and(!slot.bit(), Ordering::Release);
        }
    }

    /// Returns the bits. SeqCst: invariant 1; a thread that finds a bit cleared sees what its reader published.
    pub(super) fn bits(&self) -> u64 {
        self.bits.load(Ordering::SeqCst)
    }

    /// Returns the highest commit stamp of such a reader. To be loaded after the bits.
    pub(super) fn last_read(&self) -> Stamp {
        Stamp(self.last_read.load(Ordering::Acquire))
    }
}
