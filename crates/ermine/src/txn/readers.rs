//! Reader slots: small numbers for running transactions, so that a version's reader bitmap can name them.
//!
//! A version has 64 reader bits. Bit `b` represents all reader slots whose number is `b` modulo 64, and slots are
//! leased lowest free first, so the bitmap is exact for up to 64 concurrent transactions and errs on the safe side
//! beyond.
//!
//! Invariants:
//! 1. A slot has at most one lessee; giving it back clears it.
//! 2. A transaction publishes its TID before it sets its bit in a version. A thread that acquires the bit and
//!    enumerates its readers therefore finds the TID, or the slot as that transaction or a later one left it.
//! 3. A slot keeps the highest commit stamp of its readers with untracked reads, also for its next lessees: bits
//!    outlive the transactions that set them.
//! 4. Slots at or above `leased_max` were never leased: the enumeration stops there.
//!
//! Callers: a worker leases a slot for a transaction or for its lifetime; a committer enumerates. (SSN 5.1; the leasing
//! is ours, since a transaction is not bound to a thread.)

use std::sync::Arc;

use super::claims::Claims;
use crate::ids::{Stamp, Tid};
use crate::sync::{AtomicU64, AtomicUsize, Ordering, total_order};

/// One reader: padded, as its owner writes it in each transaction.
#[repr(align(128))]
struct Entry {
    /// A [`Reader`] as a word, 0 for none.
    reader: AtomicU64,
    /// The begin stamp of the snapshot of the last reader with untracked reads.
    begin: AtomicU64,
    /// The highest commit stamp of any reader with untracked reads (SSN's last cstamp).
    last_untracked: AtomicU64,
}

impl Entry {
    fn new() -> Self {
        Self { reader: AtomicU64::new(0), begin: AtomicU64::new(0), last_untracked: AtomicU64::new(0) }
    }
}

/// The reader in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reader {
    pub(crate) tid: Tid,
    /// Whether it has reads that are in no list (`scheme::untracked`).
    pub(crate) untracked: bool,
}

impl Reader {
    const UNTRACKED: u64 = 1 << 63;

    fn of(word: u64) -> Option<Self> {
        (word != 0).then_some(Self { tid: Tid(word & !Self::UNTRACKED), untracked: word & Self::UNTRACKED != 0 })
    }

    fn word(self) -> u64 {
        self.tid.0 | if self.untracked { Self::UNTRACKED } else { 0 }
    }
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
    pub(crate) const COUNT: usize = crate::OPEN_TRANSACTIONS_MAX;
    pub(crate) const BITS: usize = u64::BITS as usize;

    pub(crate) fn new() -> Arc<Self> {
        Self::with_count(Self::COUNT)
    }

    pub(crate) fn with_count(count: usize) -> Arc<Self> {
        let entries = (0..count).map(|_| Entry::new()).collect();
        Arc::new(Self { entries, leases: Claims::new(count), leased_max: AtomicUsize::new(0) })
    }

    /// Leases the lowest free slot; returns none when all are leased.
    pub(crate) fn lease(self: &Arc<Self>) -> Option<ReaderSlot> {
        let index = self.leases.claim()?;
        // SeqCst, as the load: a bit that is already set may belong to another slot.
        self.leased_max.fetch_max(index + 1, Ordering::SeqCst);
        Some(ReaderSlot { slots: Arc::clone(self), index })
    }

    /// Calls `visit` with each slot that one of the `bits` represents. Complete for readers whose bits the caller
    /// acquired; other readers, under the same bits or none, may be found or missed.
    pub(crate) fn try_for_each_slot<E>(
        &self,
        bits: u64,
        mut visit: impl FnMut(SlotView<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        // SeqCst: follows the caller's load of the bits.
        let leased = self.leased_max.load(Ordering::SeqCst);
        let mut rest = bits;
        while rest != 0 {
            let first = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            for index in (first..leased).step_by(Self::BITS) {
                visit(SlotView(&self.entries[index]))?;
            }
        }
        Ok(())
    }
}

/// A reader slot, as an overwriter sees it.
pub(crate) struct SlotView<'a>(&'a Entry);

impl SlotView<'_> {
    /// Returns the reader in the slot.
    pub(crate) fn reader(&self) -> Option<Reader> {
        total_order();
        // SeqCst pairs with `publish_untracked`; an acquire that pairs with `publish` (invariant 4 of the TID table).
        Reader::of(self.0.reader.load(Ordering::SeqCst))
    }

    /// Returns the begin stamp of the reader's snapshot, if the reader has untracked reads and is still there
    /// afterwards.
    pub(crate) fn begin(&self) -> Stamp {
        // Acquire: pairs with `publish_untracked` of a later reader. The load of the slot that follows this one then no
        // longer returns the earlier reader.
        Stamp(self.0.begin.load(Ordering::Acquire))
    }

    /// Returns the highest commit stamp of a reader with untracked reads that has left.
    pub(crate) fn last_untracked(&self) -> Stamp {
        // Acquire: pairs with `raise_last_untracked`; follows the acquire of the empty slot.
        Stamp(self.0.last_untracked.load(Ordering::Acquire))
    }
}

/// A leased reader slot.
pub(crate) struct ReaderSlot {
    slots: Arc<ReaderSlots>,
    index: usize,
}

impl ReaderSlot {
    /// Publishes the reader's TID, before its first bit is set.
    pub(crate) fn publish(&self, tid: Tid) {
        // Relaxed: only this slot's owner stores it.
        let published = Reader::of(self.entry().reader.load(Ordering::Relaxed));
        if published.is_none_or(|reader| reader.tid != tid) {
            // Release pairs with the acquire of `SlotView::reader`.
            self.entry().reader.store(Reader { tid, untracked: false }.word(), Ordering::Release);
        }
    }

    /// Publishes that the reader has untracked reads, before the first of them.
    pub(crate) fn publish_untracked(&self, tid: Tid, begin: Stamp) {
        // Release pairs with `SlotView::begin`.
        self.entry().begin.store(begin.0, Ordering::Release);
        // SeqCst: precedes the reader's load of the version's words (`scheme::untracked`, invariant 1).
        self.entry().reader.store(Reader { tid, untracked: true }.word(), Ordering::SeqCst);
        total_order();
    }

    /// Notes that a reader with untracked reads has committed at `stamp`. Called before `clear`.
    pub(crate) fn raise_last_untracked(&self, stamp: Stamp) {
        let last = &self.entry().last_untracked;
        // Relaxed load: only this slot's owners store it. Release pairs with `SlotView::last_untracked`.
        if last.load(Ordering::Relaxed) < stamp.0 {
            last.store(stamp.0, Ordering::Release);
        }
    }

    /// Marks the slot as empty: the transaction has ended and its stamps are stored in the versions.
    pub(crate) fn clear(&self) {
        // Release: a thread that finds the slot empty after acquiring its bit sees the transaction's actions before its
        // end.
        self.entry().reader.store(0, Ordering::Release);
    }

    fn entry(&self) -> &Entry {
        &self.slots.entries[self.index]
    }

    /// Returns the place of the bit that represents this slot in a reader bitmap.
    pub(crate) fn place(&self) -> usize {
        self.index % ReaderSlots::BITS
    }

    /// Returns that bit.
    pub(crate) fn bit(&self) -> u64 {
        1 << self.place()
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
        let done = slots.try_for_each_slot(bits, |slot| {
            found.extend(slot.reader().map(|reader| reader.tid.0));
            Ok::<_, ()>(())
        });
        done.unwrap();
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
