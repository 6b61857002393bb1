//! Ranges of addresses that the system fills with zero pages as they are touched, with huge pages where it supports
//! them.
//!
//! A point read touches three places at random, a leaf, a row's slot and a version, so with small pages it misses the
//! translation cache as often as the data cache.
//!
//! Where a part goes back to the system, huge pages are requested no more: Linux's `khugepaged` makes one of any small
//! pages that are there (`max_ptes_none`), and so takes the memory again that was given back, within a minute. The huge
//! pages that are there stay.

#[cfg(not(any(loom, shuttle, miri)))]
pub(crate) use mapped::Region;
#[cfg(any(loom, shuttle, miri))]
pub(crate) use modelled::Region;

#[cfg(not(any(loom, shuttle, miri)))]
mod mapped {
    use memmap2::{MmapOptions, MmapRaw};

    /// A huge page.
    #[cfg(target_os = "linux")]
    const HUGE_BYTES: usize = 2 << 20;

    /// A reserved range; released when dropped.
    pub(crate) struct Region {
        map: MmapRaw,
        /// Huge pages were requested, and still are.
        is_huge: bool,
    }

    impl Region {
        /// Reserves `bytes`. No memory is used before it is touched; from `huge_from` on, huge pages are requested.
        pub(crate) fn reserve(bytes: usize, huge_from: usize) -> std::io::Result<Self> {
            let map = MmapOptions::new().len(bytes).no_reserve_swap().map_anon()?;
            let is_huge = huge_from < bytes;
            #[cfg(target_os = "linux")]
            if is_huge {
                // A system without huge pages refuses; small pages suffice.
                let _ = map.advise_range(memmap2::Advice::HugePage, huge_from, bytes - huge_from);
            }
            Ok(Self { map: map.into(), is_huge })
        }

        /// Returns the beginning of the range; aligned to a page.
        pub(crate) fn start(&self) -> *mut u8 {
            self.map.as_mut_ptr()
        }

        /// Returns the length of the range.
        pub(crate) fn bytes(&self) -> usize {
            self.map.len()
        }

        /// Returns the memory of a part to the system, which fills it with zeros when it is touched again. The caller
        /// has exclusive access to the part.
        pub(crate) fn discard(&mut self, offset: usize, bytes: usize) {
            #[cfg(target_os = "linux")]
            {
                let from = self.start().addr() + offset;
                // Whole huge pages leave no small ones.
                if self.is_huge && !(from.is_multiple_of(HUGE_BYTES) && bytes.is_multiple_of(HUGE_BYTES)) {
                    let _ = self.map.advise(memmap2::Advice::NoHugePage);
                    self.is_huge = false;
                }
                // SAFETY: the caller has exclusive access to the part, so no other thread sees its bytes become zeros.
                // A system that refuses leaves them unchanged.
                let _ = unsafe { self.map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, offset, bytes) };
            }
            #[cfg(not(target_os = "linux"))]
            let _ = (offset, bytes, self.is_huge);
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

#[cfg(all(test, target_os = "linux", not(any(loom, shuttle, miri))))]
mod tests {
    use super::Region;

    /// Whether the mapping that has this address has a flag (`VmFlags` in proc_pid_smaps(5)).
    fn has_flag(address: usize, flag: &str) -> bool {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = maps.lines().skip_while(|line| {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let ends = range.map(|(start, end)| [start, end].map(|end| usize::from_str_radix(end, 16)));
            !matches!(ends, Some([Ok(start), Ok(end)]) if (start..end).contains(&address))
        });
        lines.find_map(|line| line.strip_prefix("VmFlags:")).unwrap().split(' ').any(|one| one == flag)
    }

    #[test]
    fn memory_that_was_given_back_is_not_taken_again_for_huge_pages() {
        const HUGE: usize = 2 << 20;
        let mut region = Region::reserve(8 * HUGE, 0).unwrap();
        let start = region.start();
        let has = |flag: &str| has_flag(start.addr(), flag);
        // A system without huge pages refuses the request.
        let are_supported = has("hg");
        // SAFETY: inside of the region, which nothing else uses.
        unsafe { start.write_bytes(1, region.bytes()) };
        let first = start.addr().next_multiple_of(HUGE) - start.addr();
        region.discard(first, HUGE);
        assert_eq!(has("hg"), are_supported);
        region.discard(first + HUGE, 16 << 10);
        assert!(!has("hg") && has("nh") == are_supported);
        // SAFETY: as above.
        assert_eq!(unsafe { (start.add(first + HUGE).read(), start.add(first + HUGE + (16 << 10)).read()) }, (0, 1));
    }
}
