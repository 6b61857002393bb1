//! Reader slots: small numbers for running transactions, so that a version's reader bitmap can name them.
//!
//! A version has 64 reader bits. Bit `b` stands for all reader slots whose number is `b` modulo 64, and slots are leased
//! lowest free first, so the bitmap is exact for up to 64 concurrent transactions and errs on the safe side beyond.
//!
//! Invariants:
//! 1. A slot has at most one lessee; giving it back clears it.
//! 2. A transaction publishes its TID before it sets its bit in a version. Who acquires the bit and enumerates its
//!    readers therefore meets the TID, or the slot as that transaction or a later one left it.
//! 3. Slots at or above `leased_max` were never leased: enumerating stops there.
//!
//! Who may call: a worker leases for a transaction or for as long as it lives; a committer enumerates. (SSN 5.1; the
//! leasing is ours, since a transaction is not bound to a thread.)

use std::sync::Arc;

use super::claims::Claims;
use crate::ids::Tid;
use crate::sync::{AtomicU64, AtomicUsize, Ordering};

/// One reader: padded, its owner writes it at each transaction.
#[repr(align(128))]
struct Entry {
    /// The TID of the transaction that reads here, 0 for none.
    tid: AtomicU64,
}

/// All reader slots.
pub(crate) struct ReaderSlots {
    entries: Box<[Entry]>,
    leases: Claims,
    /// One above the highest slot ever leased.
    leased_max: AtomicUsize,
}

impl ReaderSlots {
    /// Transactions that can run at the same time.
    pub(crate) const COUNT: usize = 1024;
    const BITS: usize = u64::BITS as usize;

    pub(crate) fn new() -> Arc<Self> {
        Self::with_count(Self::COUNT)
    }

    pub(crate) fn with_count(count: usize) -> Arc<Self> {
        let entries = (0..count).map(|_| Entry { tid: AtomicU64::new(0) }).collect();
        Arc::new(Self { entries, leases: Claims::new(count), leased_max: AtomicUsize::new(0) })
    }

    /// The lowest free slot, or none when all are leased.
    pub(crate) fn lease(self: &Arc<Self>) -> Option<ReaderSlot> {
        let index = self.leases.claim()?;
        // Relaxed: what is read in this slot is published by a release that comes after (invariant 2).
        self.leased_max.fetch_max(index + 1, Ordering::Relaxed);
        Some(ReaderSlot { slots: Arc::clone(self), index })
    }

    /// Calls `visit` with the TID in each slot that one of the `bits` stands for. Complete for readers whose bits the
    /// caller acquired; others, under the same bits or none, may be met or missed.
    pub(crate) fn for_each_reader(&self, bits: u64, mut visit: impl FnMut(Tid)) {
        // Relaxed: the caller acquired the bits, and with them that their slots were leased.
        let leased = self.leased_max.load(Ordering::Relaxed);
        let mut rest = bits;
        while rest != 0 {
            let first = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            for index in (first..leased).step_by(Self::BITS) {
                // Acquire pairs with the release of `publish` (invariant 4 of the TID table).
                let tid = self.entries[index].tid.load(Ordering::Acquire);
                if tid != 0 {
                    visit(Tid(tid));
                }
            }
        }
    }
}

/// A leased reader slot.
pub(crate) struct ReaderSlot {
    slots: Arc<ReaderSlots>,
    index: usize,
}

impl ReaderSlot {
    /// Says who reads here, before the first bit is set.
    pub(crate) fn publish(&self, tid: Tid) {
        // Release pairs with the acquire of `for_each_reader`.
        self.slots.entries[self.index].tid.store(tid.0, Ordering::Release);
    }

    /// Says that nobody reads here: the transaction has ended and its stamps are where they belong.
    pub(crate) fn clear(&self) {
        // Release: who finds the slot empty after acquiring its bit sees what the transaction did before it ended.
        self.slots.entries[self.index].tid.store(0, Ordering::Release);
    }

    /// The bit that stands for this slot in a reader bitmap.
    pub(crate) fn bit(&self) -> u64 {
        1 << (self.index % ReaderSlots::BITS)
    }
}

impl Drop for ReaderSlot {
    fn drop(&mut self) {
        self.clear();
        self.slots.leases.give_back(self.index);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn readers(slots: &ReaderSlots, bits: u64) -> Vec<u64> {
        let mut found = Vec::new();
        slots.for_each_reader(bits, |tid| found.push(tid.0));
        found
    }

    #[test]
    fn bits_name_the_readers_that_publish() {
        let slots = ReaderSlots::new();
        let leased: Vec<_> = (0..70).map(|_| slots.lease().unwrap()).collect();
        assert_eq!((leased[0].bit(), leased[63].bit(), leased[65].bit()), (1, 1 << 63, 2));
        leased[1].publish(Tid(0x1_0001));
        leased[65].publish(Tid(0x1_0041));
        leased[66].publish(Tid(0x1_0042));
        assert_eq!(readers(&slots, 2), [0x1_0001, 0x1_0041], "one bit stands for every 64th slot");
        assert_eq!(readers(&slots, u64::MAX).len(), 3);
        leased[1].clear();
        assert_eq!(readers(&slots, 2), [0x1_0041]);
    }

    #[test]
    fn slots_are_leased_lowest_free_first_and_cleared_when_given_back() {
        let slots = ReaderSlots::new();
        let mut leased: Vec<_> = (0..ReaderSlots::COUNT).map(|_| slots.lease().unwrap()).collect();
        assert!(slots.lease().is_none());
        leased[5].publish(Tid(0x1_0005));
        drop(leased.remove(5));
        assert_eq!(readers(&slots, u64::MAX), []);
        assert_eq!(slots.lease().unwrap().bit(), 1 << 5);
    }
}
