//! Ranges of addresses that the system fills with zero pages as they are touched, with huge pages where it supports
//! them.
//!
//! A point read touches three places at random, a leaf, a row's slot and a version, so with small pages it misses the
//! translation cache as often as the data cache.

#[cfg(not(any(loom, shuttle, miri)))]
pub(crate) use mapped::Region;
#[cfg(any(loom, shuttle, miri))]
pub(crate) use modelled::Region;

#[cfg(not(any(loom, shuttle, miri)))]
mod mapped {
    use memmap2::{MmapOptions, MmapRaw};

    /// A reserved range; released when dropped.
    pub(crate) struct Region(MmapRaw);

    impl Region {
        /// Reserves `bytes`. No memory is used before it is touched; from `huge_from` on, huge pages are requested.
        pub(crate) fn reserve(bytes: usize, huge_from: usize) -> std::io::Result<Self> {
            let map = MmapOptions::new().len(bytes).no_reserve_swap().map_anon()?;
            #[cfg(target_os = "linux")]
            if huge_from < bytes {
                // A system without huge pages refuses; small pages suffice.
                let _ = map.advise_range(memmap2::Advice::HugePage, huge_from, bytes - huge_from);
            }
            #[cfg(not(target_os = "linux"))]
            let _ = huge_from;
            Ok(Self(map.into()))
        }

        /// Returns the beginning of the range; aligned to a page.
        pub(crate) fn start(&self) -> *mut u8 {
            self.0.as_mut_ptr()
        }

        /// Returns the length of the range.
        pub(crate) fn bytes(&self) -> usize {
            self.0.len()
        }

        /// Returns the memory of a part to the system, which fills it with zeros when it is touched again. The caller
        /// has exclusive access to the part.
        pub(crate) fn discard(&mut self, offset: usize, bytes: usize) {
            #[cfg(target_os = "linux")]
            // SAFETY: the caller has exclusive access to the part, so no other thread sees its bytes become zeros. A
            // system that refuses leaves them unchanged.
            let _ = unsafe { self.0.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, offset, bytes) };
            #[cfg(not(target_os = "linux"))]
            let _ = (offset, bytes);
        }
    }
}

#[cfg(any(loom, shuttle, miri))]
mod modelled {
    /// Plain zeroed memory: the model checkers do not support reserved ranges.
    pub(crate) struct Region(*mut u8, std::alloc::Layout);

    // SAFETY: it only owns memory; its user is responsible for the content.
    unsafe impl Send for Region {}
    // SAFETY: as above.
    unsafe impl Sync for Region {}

    impl Region {
        pub(crate) fn reserve(bytes: usize, _: usize) -> std::io::Result<Self> {
            let layout = std::alloc::Layout::from_size_align(bytes, 4096).expect("a sensible size");
            // SAFETY: the size is not zero.
            Ok(Self(unsafe { std::alloc::alloc_zeroed(layout) }, layout))
        }

        pub(crate) fn start(&self) -> *mut u8 {
            self.0
        }

        pub(crate) fn bytes(&self) -> usize {
            self.1.size()
        }

        pub(crate) fn discard(&mut self, _: usize, _: usize) {}
    }

    impl Drop for Region {
        fn drop(&mut self) {
            // SAFETY: allocated with this layout.
            unsafe { std::alloc::dealloc(self.0, self.1) };
        }
    }
}
