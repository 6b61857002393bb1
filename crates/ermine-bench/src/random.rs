//! A small, fast, seeded random generator: one per thread, nothing shared.
//!
//! xoshiro256++ (Blackman, Vigna 2018), seeded through SplitMix64 so that neighbouring seeds give unrelated streams.

use std::ops::RangeInclusive;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// Creates the stream of a seed. `stream` distinguishes the threads or parts of a run that share the seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut split = SplitMix(seed ^ SplitMix(stream).next());
        Self { state: std::array::from_fn(|_| split.next()) }
    }

    /// Returns 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// Returns a uniform number below `bound`, which is not zero.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0);
        // Lemire's multiplication; the bias is below bound / 2^64.
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a uniform number in a range, both ends included.
    #[inline]
    pub fn uniform(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (low, high) = range.into_inner();
        debug_assert!(low <= high && high - low < u64::MAX);
        low + self.below(high - low + 1)
    }

    /// Returns true in `percent` of 100 cases.
    #[inline]
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns a uniform number in [0, 1).
    #[inline]
    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a place in `shares`, each with the probability of its share in their sum, which is not zero.
    #[inline]
    pub fn weighted(&mut self, shares: &[u32]) -> usize {
        let mut drawn = self.below(shares.iter().map(|&share| u64::from(share)).sum());
        let mut is_drawn = |&share: &u32| match drawn.checked_sub(u64::from(share)) {
            Some(rest) => {
                drawn = rest;
                false
            }
            None => true,
        };
        shares.iter().position(&mut is_drawn).expect("less than the sum was drawn")
    }

    /// Shuffles a slice.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// Spreads a seed over 64-bit words.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_reference_sequence() {
        // First outputs of the reference C code for the state 1, 2, 3, 4.
        let mut random = Random { state: [1, 2, 3, 4] };
        let drawn: Vec<_> = (0..4).map(|_| random.bits()).collect();
        assert_eq!(drawn, [41943041, 58720359, 3588806011781223, 3591011842654386]);
    }

    #[test]
    fn same_seed_same_stream() {
        let draw = |seed, stream| Random::new(seed, stream).bits();
        assert_eq!(draw(7, 1), draw(7, 1));
        assert_ne!(draw(7, 1), draw(7, 2));
        assert_ne!(draw(7, 1), draw(8, 1));
    }

    #[test]
    fn uniform_reaches_both_ends_and_no_further() {
        let mut random = Random::new(1, 0);
        let mut seen = [0u32; 6];
        for _ in 0..6_000 {
            seen[random.uniform(5..=10) as usize - 5] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seen:?}");
    }

    #[test]
    fn weighted_draws_have_their_shares() {
        let mut random = Random::new(1, 0);
        let mut seen = [0u32; 4];
        (0..10_000).for_each(|_| seen[random.weighted(&[1, 0, 6, 3])] += 1);
        assert!(seen.iter().zip([1_000, 0, 6_000, 3_000]).all(|(n, wanted)| n.abs_diff(wanted) < 200), "{seen:?}");
        assert_eq!(seen[1], 0);
    }

    #[test]
    fn shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..100).collect();
        Random::new(3, 0).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
