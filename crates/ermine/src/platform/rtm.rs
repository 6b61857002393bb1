//! Restricted transactional memory (RTM) of x86-64 processors: `xbegin`, `xend`, `xabort`, `xtest`.
//!
//! By inline assembly, as the intrinsics are unstable. Checked against Intel's manual (volume 1, "Programming with
//! Intel Transactional Synchronization Extensions"; volume 2, the four instructions); **not run on hardware**: no
//! machine of this project has it.
//!
//! `xbegin` names the address where execution continues after an abort: here the instruction behind it. So it seems to
//! return twice. Not to the compiler: an abort restores all registers but EAX, the flags, and all memory, the stack
//! included, to their state at `xbegin`. The program that continues is one in which `xbegin` has just returned, with
//! another EAX. That also holds if the function that began the transaction has returned meanwhile: its frame is memory,
//! too.
//!
//! Invariants
//! 1. An [`Rtm`] exists only if the processor has the instructions: otherwise they are invalid.
//! 2. EAX is all ones before `xbegin` and stays so when the transaction starts. No abort sets EAX to all ones: bits 6
//!    to 23 are zero.
//! 3. No access to memory is moved across any of the four: to the compiler each may read and write all memory. The
//!    processor orders `xbegin` and the end of a transaction as it does locked instructions.

use super::cpu::Processor;
use crate::sync::{
    AtomicU64, Ordering,
    transactional::{AbortStatus, TransactionalMemory},
};

/// The right to use the instructions (invariant 1).
#[derive(Clone, Copy)]
pub(crate) struct Rtm(());

impl Rtm {
    /// `None` if the processor does not have the instructions.
    pub(crate) fn of(processor: Processor) -> Option<Self> {
        processor.has_restricted_transactions().then_some(Self(()))
    }

    /// Whether the caller is in a transaction.
    pub(crate) fn is_inside(self) -> bool {
        // SAFETY: invariant 1.
        unsafe { instructions::xtest() }
    }
}

impl TransactionalMemory for Rtm {
    #[inline(always)]
    fn begin(&self) -> Result<(), AbortStatus> {
        // SAFETY: invariant 1.
        match unsafe { instructions::xbegin() } {
            instructions::STARTED => Ok(()),
            eax => Err(AbortStatus::from_eax(eax)),
        }
    }

    #[inline(always)]
    fn watch(&self, word: &AtomicU64) -> u64 {
        // Acquire: pairs with the release of a holder; the load puts the word into the read set.
        word.load(Ordering::Acquire)
    }

    #[inline(always)]
    unsafe fn commit(&self, _: &AtomicU64) {
        // SAFETY: invariant 1; the caller is in a transaction (outside one, `xend` faults).
        unsafe { instructions::xend() };
    }

    #[inline(always)]
    unsafe fn abort_held(&self) -> AbortStatus {
        // SAFETY: invariant 1.
        unsafe { instructions::xabort::<{ AbortStatus::LATCH_HELD as i32 }>() };
        // Outside a transaction `xabort` does nothing; inside, control returns to `xbegin`.
        debug_assert!(false, "aborted outside a transaction");
        AbortStatus::latch_held()
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod instructions {
    use std::arch::asm;

    /// EAX while no abort has written it.
    pub(super) const STARTED: u32 = u32::MAX;

    /// Begins a transaction; returns [`STARTED`], or the status of the abort with which it ended.
    ///
    /// # Safety
    /// The processor has RTM.
    #[inline(always)]
    pub(super) unsafe fn xbegin() -> u32 {
        let mut eax = STARTED;
        // SAFETY: the caller's promise; an abort changes EAX only, which is an output. Memory counts as written.
        unsafe { asm!("xbegin 2f", "2:", inout("eax") eax, options(nostack)) };
        eax
    }

    /// Commits.
    ///
    /// # Safety
    /// The processor has RTM and is in a transaction.
    #[inline(always)]
    pub(super) unsafe fn xend() {
        // SAFETY: the caller's promise. Memory counts as read: all stores of the transaction come before.
        unsafe { asm!("xend", options(nostack)) };
    }

    /// Aborts with a code of eight bits; does nothing outside a transaction.
    ///
    /// # Safety
    /// The processor has RTM.
    #[inline(always)]
    pub(super) unsafe fn xabort<const CODE: i32>() {
        const { assert!(CODE >= 0 && CODE <= 255) };
        // SAFETY: the caller's promise. The value of EAX is visible at `xbegin` only.
        unsafe { asm!("xabort {code}", code = const CODE, options(nostack)) };
    }

    /// Whether the processor is in a transaction.
    ///
    /// # Safety
    /// The processor has RTM.
    #[inline(always)]
    pub(super) unsafe fn xtest() -> bool {
        let inside: u8;
        // SAFETY: the caller's promise. It clears ZF inside a transaction and sets it outside; flags count as changed.
        unsafe { asm!("xtest", "setnz {inside}", inside = out(reg_byte) inside, options(nostack)) };
        inside != 0
    }
}

/// Never called: there is no [`Rtm`] here (invariant 1).
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod instructions {
    pub(super) const STARTED: u32 = u32::MAX;

    pub(super) unsafe fn xbegin() -> u32 {
        unreachable!("no transactional memory")
    }

    pub(super) unsafe fn xend() {
        unreachable!("no transactional memory")
    }

    pub(super) unsafe fn xabort<const CODE: i32>() {
        unreachable!("no transactional memory")
    }

    pub(super) unsafe fn xtest() -> bool {
        unreachable!("no transactional memory")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::sync::elided::{ElidedLatch, Elision, ElisionCounts};

    /// On a processor with RTM, sections commit or fall back, and are rolled back when they abort; on others the latch
    /// is taken.
    #[test]
    fn a_latch_over_what_the_processor_has() {
        let rtm = Rtm::of(Processor::detect());
        let (latch, elision, mut counts) = (ElidedLatch::new(), Elision::new(rtm, 3), ElisionCounts::default());
        let value = Cell::new(0);
        for turn in 0..1_000 {
            let guard = latch.enter(&elision, &mut counts);
            let inside = rtm.is_some_and(Rtm::is_inside);
            value.set(value.get() + 1);
            let elided = guard.is_elided();
            drop(guard);
            assert_eq!(elided, inside);
            assert_eq!(value.get(), turn + 1);
        }
        assert!(!rtm.is_some_and(Rtm::is_inside));
        assert_eq!(counts.attempts, counts.commits + counts.aborts());
        assert_eq!(counts.commits + counts.fallbacks, if rtm.is_some() { 1_000 } else { 0 });
    }
}
