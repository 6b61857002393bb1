//! Granules of version memory: the unit in which it goes back to the system, and which of them are worth emptying.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

/// A few pages, so that few rows have to leave a granule before it is free; aligned to its size.
pub(super) const GRANULE_BYTES: usize = if cfg!(any(loom, shuttle)) { 4 << 10 } else { 16 << 10 };

/// Returns the number of the granule in which an address lies.
pub(super) fn granule_of(address: usize) -> usize {
    address / GRANULE_BYTES
}

/// The free bytes of granules, by their numbers.
pub(crate) struct FreeBytes(pub(super) FxHashMap<usize, u64>);

impl FreeBytes {
    /// Returns granules of at least `bytes` in total, if there are as many that have free blocks: those of which most
    /// is free.
    pub(crate) fn emptiest(self, bytes: u64) -> Granules {
        Granules::least(self.0.into_iter().collect(), |(_, free)| Reverse(*free), bytes, |_| 0)
    }
}

/// Some granules, by their numbers, and what it costs to empty each of them: 0 for one without a row.
pub(crate) struct Granules(FxHashMap<usize, u32>);

impl Granules {
    /// Returns the granules that come first by `key`, of some with a value each, and their costs.
    fn least<T, K: Ord>(
        mut granules: Vec<(usize, T)>,
        key: impl Fn(&(usize, T)) -> K,
        bytes: u64,
        cost: impl Fn(T) -> u32,
    ) -> Self {
        let count = bytes.div_ceil(GRANULE_BYTES as u64) as usize;
        if count < granules.len() {
            granules.select_nth_unstable_by_key(count, key);
            granules.truncate(count);
        }
        Self(granules.into_iter().map(|(granule, value)| (granule, cost(value))).collect())
    }

    /// Whether an address lies in one of them.
    pub(crate) fn contains(&self, address: usize) -> bool {
        self.0.contains_key(&granule_of(address))
    }

    /// Notes that the version of a row is at an address. `heat`: the more often it is accessed, the more the row costs.
    pub(crate) fn count_row(&mut self, address: usize, heat: u8) {
        if let Some(cost) = self.0.get_mut(&granule_of(address)) {
            *cost += 1 + u32::from(heat);
        }
    }

    /// Returns those that hold rows, and of these the ones that it costs least to empty, `bytes` in total.
    pub(crate) fn cheapest(self, bytes: u64) -> Self {
        let with_rows = self.0.into_iter().filter(|(_, cost)| *cost > 0).collect();
        Self::least(with_rows, |(_, cost)| *cost, bytes, |cost| cost)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_that_hold_rows_are_chosen() {
        let address = |granule: usize| granule * GRANULE_BYTES + 8;
        let mut granules = FreeBytes((1..=9).map(|granule| (granule, granule as u64)).collect()).emptiest(1 << 20);
        let rows = [(2, 9), (3, 0), (3, 9), (4, 5), (8, 1), (8, 2), (20, 0)];
        rows.into_iter().for_each(|(granule, heat)| granules.count_row(address(granule), heat));
        let chosen = granules.cheapest(2 * GRANULE_BYTES as u64);
        let contained: Vec<_> = (0..30).filter(|granule| chosen.contains(address(*granule))).collect();
        assert_eq!(contained, [4, 8]);
    }
}
