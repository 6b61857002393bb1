//! Granules of version memory: the unit in which it goes back to the system, and which of them are worth emptying.

use std::{cmp::Reverse, collections::HashMap};

/// A few pages, so that few rows have to leave a granule before it is free; aligned to its size.
pub(super) const GRANULE_BYTES: usize = if cfg!(any(loom, shuttle)) { 4 << 10 } else { 16 << 10 };

/// Returns the number of the granule in which an address lies.
pub(super) fn granule_of(address: usize) -> usize {
    address / GRANULE_BYTES
}

/// Some granules, by their numbers: of each its free bytes, and a number of rows.
pub(crate) struct Granules(HashMap<usize, (u64, u32)>);

impl Granules {
    /// Returns those of some granules, given with their free bytes, that have most of these: `bytes` of memory in total.
    pub(super) fn emptiest(mut granules: Vec<(usize, u64)>, bytes: u64) -> Self {
        let count = bytes.div_ceil(GRANULE_BYTES as u64) as usize;
        if count < granules.len() {
            granules.select_nth_unstable_by_key(count, |(_, free)| Reverse(*free));
            granules.truncate(count);
        }
        Self(granules.into_iter().map(|(granule, free)| (granule, (free, 0))).collect())
    }

    /// Whether an address lies in one of them.
    pub(crate) fn contains(&self, address: usize) -> bool {
        self.0.contains_key(&granule_of(address))
    }

    /// Notes that the version of a row is at an address.
    pub(crate) fn count_row(&mut self, address: usize) {
        if let Some((_, rows)) = self.0.get_mut(&granule_of(address)) {
            *rows += 1;
        }
    }

    /// Returns those that hold rows, and of these the emptiest, `bytes` in total.
    pub(crate) fn with_rows(&self, bytes: u64) -> Self {
        let with_rows = self.0.iter().filter(|(_, (_, rows))| *rows > 0);
        Self::emptiest(with_rows.map(|(granule, (free, _))| (*granule, *free)).collect(), bytes)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_emptiest_that_hold_rows_are_chosen() {
        let address = |granule: usize| granule * GRANULE_BYTES + 8;
        let mut granules = Granules::emptiest((1..=9).map(|granule| (granule, granule as u64)).collect(), 1 << 20);
        [2, 3, 4, 8, 20].into_iter().for_each(|granule| granules.count_row(address(granule)));
        let chosen = granules.with_rows(2 * GRANULE_BYTES as u64);
        let contained: Vec<_> = (0..30).filter(|granule| chosen.contains(address(*granule))).collect();
        assert_eq!(contained, [4, 8]);
    }
}
