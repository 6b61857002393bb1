//! The processor features that an elided latch needs: transactional memory, and the reason why a transaction aborted.
//!
//! `platform/rtm.rs` is the real implementation. Tests use a mock instead: software cannot undo the effects of a body,
//! so the mock aborts before the body begins, or lets the body run while the mock really holds the latch.

use super::AtomicU64;

/// Transactions of the processor, each of which watches one latch.
pub(crate) trait TransactionalMemory {
    /// Begins a transaction. `Err` is also returned when the transaction aborts later: control returns here, and
    /// everything since, in memory and in registers, is rolled back.
    fn begin(&self) -> Result<(), AbortStatus>;

    /// Reads a latch's word, in a transaction: a thread that writes the word before the commit aborts the transaction.
    fn watch(&self, word: &AtomicU64) -> u64;

    /// Commits the transaction: all of it takes effect at once, now.
    ///
    /// # Safety
    /// The caller is in a transaction that this memory has begun, and that watches `word`.
    unsafe fn commit(&self, word: &AtomicU64);

    /// Aborts the transaction because the latch is held. A processor continues where [`begin`](Self::begin) returns; a
    /// mock, which cannot, returns the status that `begin` would have returned.
    ///
    /// # Safety
    /// The caller is in a transaction that this memory has begun.
    unsafe fn abort_held(&self) -> AbortStatus;
}

/// Why a transaction aborted: EAX after the abort, as defined in Intel's manual (volume 1, "RTM Abort Status
/// Definition"). Zero is an abort for another reason: an interrupt, a fault, an instruction that transactions may not
/// use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AbortStatus(u32);

impl AbortStatus {
    /// The code with which a transaction aborts itself when the latch is held; Intel's examples and glibc use the same.
    pub(crate) const LATCH_HELD: u8 = 0xff;

    const EXPLICIT: u32 = 1;
    const RETRY: u32 = 1 << 1;
    const CONFLICT: u32 = 1 << 2;
    const CAPACITY: u32 = 1 << 3;
    const DEBUG: u32 = 1 << 4;
    const NESTED: u32 = 1 << 5;

    pub(crate) fn from_eax(eax: u32) -> Self {
        Self(eax)
    }

    /// Returns the status after `xabort` with [`LATCH_HELD`](Self::LATCH_HELD).
    pub(crate) fn latch_held() -> Self {
        Self(Self::EXPLICIT | (Self::LATCH_HELD as u32) << 24)
    }

    /// Returns the code, if the transaction aborted itself.
    pub(crate) fn explicit_code(self) -> Option<u8> {
        (self.0 & Self::EXPLICIT != 0).then_some((self.0 >> 24) as u8)
    }

    /// Whether the transaction aborted itself because it found the latch held.
    pub(crate) fn is_latch_held(self) -> bool {
        self.explicit_code() == Some(Self::LATCH_HELD)
    }

    /// Whether the transaction may succeed if it is tried again. Never set for a transaction that aborted itself.
    pub(crate) fn may_retry(self) -> bool {
        self.0 & Self::RETRY != 0
    }

    /// Whether another processor touched memory that this transaction had written, or wrote memory that it had read.
    pub(crate) fn is_conflict(self) -> bool {
        self.0 & Self::CONFLICT != 0
    }

    /// Whether the transaction touched more memory than the processor can track.
    pub(crate) fn is_capacity(self) -> bool {
        self.0 & Self::CAPACITY != 0
    }

    /// Whether a breakpoint of a debugger was hit.
    pub(crate) fn is_debug(self) -> bool {
        self.0 & Self::DEBUG != 0
    }

    /// Whether it aborted in a transaction within the transaction.
    pub(crate) fn is_nested(self) -> bool {
        self.0 & Self::NESTED != 0
    }
}

#[cfg(test)]
pub(crate) mod mock {
    //! A mock of transactional memory.

    use std::cell::RefCell;

    use super::{AbortStatus, TransactionalMemory};
    use crate::sync::{AtomicU64, Ordering, Spin, elided::ElidedLatch};

    /// Aborts transactions when they begin, as scripted; a transaction that begins has exclusive use of the latch from
    /// watching to commit.
    ///
    /// That is sound where a processor's transaction is: no effect of a body has to be undone, and bodies of the same
    /// latch, elided or not, exclude each other. The mock shows less overlap than a processor, never more.
    pub(crate) struct Mock {
        next: RefCell<Box<dyn FnMut() -> Option<AbortStatus>>>,
    }

    impl Mock {
        /// Creates a mock: `next` returns how each transaction begins; with `None` it proceeds.
        pub(crate) fn new(next: impl FnMut() -> Option<AbortStatus> + 'static) -> Self {
            Self { next: RefCell::new(Box::new(next)) }
        }

        /// Creates a mock whose first transactions begin as the list says; all later ones proceed.
        pub(crate) fn script(statuses: impl IntoIterator<Item = Option<AbortStatus>, IntoIter: 'static>) -> Self {
            let mut statuses = statuses.into_iter();
            Self::new(move || statuses.next().flatten())
        }
    }

    impl TransactionalMemory for Mock {
        fn begin(&self) -> Result<(), AbortStatus> {
            (self.next.borrow_mut())().map_or(Ok(()), Err)
        }

        fn watch(&self, word: &AtomicU64) -> u64 {
            let mut spin = Spin::default();
            loop {
                // Acquire, and release in `commit`: the hardware orders this implicitly.
                match word.compare_exchange(
                    ElidedLatch::FREE,
                    ElidedLatch::MOCKED,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                ) {
                    // Another transaction is not a holder.
                    Err(ElidedLatch::MOCKED) => spin.wait(),
                    Ok(seen) | Err(seen) => return seen,
                }
            }
        }

        unsafe fn commit(&self, word: &AtomicU64) {
            word.store(ElidedLatch::FREE, Ordering::Release);
        }

        unsafe fn abort_held(&self) -> AbortStatus {
            AbortStatus::latch_held()
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::AbortStatus;

    /// Each predicate corresponds to a bit in the manual.
    #[test]
    fn the_predicates_are_the_bits_of_the_manual() {
        let predicates: [fn(AbortStatus) -> bool; 6] = [
            |status| status.explicit_code().is_some(),
            AbortStatus::may_retry,
            AbortStatus::is_conflict,
            AbortStatus::is_capacity,
            AbortStatus::is_debug,
            AbortStatus::is_nested,
        ];
        for bit in 0..predicates.len() {
            for (place, predicate) in predicates.iter().enumerate() {
                assert_eq!(predicate(AbortStatus::from_eax(1 << bit)), bit == place);
            }
        }
        assert!(predicates.iter().all(|predicate| !predicate(AbortStatus::from_eax(0))));
    }

    #[test]
    fn the_code_counts_where_the_abort_was_explicit() {
        assert_eq!(AbortStatus::from_eax(0x2a00_0001).explicit_code(), Some(0x2a));
        assert_eq!(AbortStatus::from_eax(0xff00_0006).explicit_code(), None);
        assert!(AbortStatus::from_eax(0xff00_0001).is_latch_held());
        assert_eq!(AbortStatus::latch_held(), AbortStatus::from_eax(0xff00_0001));
        assert!(!AbortStatus::latch_held().may_retry());
    }
}
