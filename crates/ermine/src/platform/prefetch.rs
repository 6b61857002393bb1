//! Prefetching of cache lines that will be needed, so that they arrive together: one memory latency instead of several.

/// Starts loading `count` cache lines from `start` on. The pointer may be anything: nothing is read through it.
#[inline(always)]
pub(crate) fn lines(start: *const u8, count: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in 0..count {
        // SAFETY: a prefetch accesses nothing that a program could notice, whatever the address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line * 64).cast());
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (start, count);
}
