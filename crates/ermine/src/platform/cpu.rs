//! Optional features of the processor. Detected once, when a database is opened.

/// The optional features that the engine can use, and whether they exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Processor {
    restricted_transactions: bool,
}

impl Processor {
    /// Queries the processor.
    pub(crate) fn detect() -> Self {
        #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
        {
            use std::arch::x86_64::{__cpuid, __cpuid_count};
            // SAFETY: every x86-64 processor has the instruction; leaf 7 is read only if it exists. (Newer compilers
            // know.)
            #[allow(unused_unsafe)]
            let features = unsafe { (__cpuid(0).eax >= 7).then(|| __cpuid_count(7, 0)) };
            let restricted_transactions =
                features.is_some_and(|features| has_restricted_transactions(features.ebx, features.edx));
            Self { restricted_transactions }
        }
        #[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
        Self { restricted_transactions: false }
    }

    /// Whether `xbegin` and its companions exist, and can succeed.
    pub(crate) fn has_restricted_transactions(self) -> bool {
        self.restricted_transactions
    }
}

/// Decodes leaf 7, subleaf 0: EBX bit 11 is RTM; EDX bit 11 is RTM_ALWAYS_ABORT, set on processors whose microcode has
/// disabled RTM but that keep the instructions.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
fn has_restricted_transactions(ebx: u32, edx: u32) -> bool {
    const RTM: u32 = 1 << 11;
    const RTM_ALWAYS_ABORT: u32 = 1 << 11;
    ebx & RTM != 0 && edx & RTM_ALWAYS_ABORT == 0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn transactions_that_always_abort_are_none() {
        assert!(has_restricted_transactions(1 << 11, !(1 << 11)));
        assert!(!has_restricted_transactions(1 << 11, 1 << 11));
        assert!(!has_restricted_transactions(!(1 << 11), 0));
    }

    #[test]
    fn the_answer_stays_the_same() {
        assert_eq!(Processor::detect(), Processor::detect());
    }
}
