//! The L1 cache as the buffer of a hardware transaction (HTM III.B).
//!
//! All lines that a transaction has read or written stay in the cache until it ends. A set holds as many lines as the
//! cache has ways; with one more, a line is evicted and the transaction aborts. The lines are random: each is in any
//! set with the same probability, as if the memory were much larger than the cache.

use fastrand::Rng;

use crate::options::Usage;

/// Bytes of a line.
const LINE: u32 = 64;
/// Maximum size, in KiB.
const KIB_MAX: u32 = 1 << 14;

/// The sets and ways of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cache {
    pub(super) sets: u32,
    pub(super) ways: u32,
}

impl Cache {
    /// A cache of this size.
    pub(super) fn new(kib: u32, ways: u32) -> Result<Self, Usage> {
        let lines = kib.min(KIB_MAX + 1) * (1024 / LINE);
        if !(1..=KIB_MAX).contains(&kib) || ways == 0 || !lines.is_multiple_of(ways) {
            return Err(Usage(format!(
                "a cache has 1 to {KIB_MAX} KiB, and ways that divide its lines of {LINE} bytes: not {kib} KiB with \
                 {ways} ways"
            )));
        }
        Ok(Self { sets: lines / ways, ways })
    }

    /// The lines that fit in.
    pub(super) fn lines(self) -> u32 {
        self.sets * self.ways
    }

    /// Draws the lines of a transaction; returns whether it aborts. `held` is memory for the lines of each set.
    pub(super) fn overflows(self, lines: u32, random: &mut Rng, held: &mut Vec<u32>) -> bool {
        held.clear();
        held.resize(self.sets as usize, 0);
        (0..lines).any(|_| {
            let set = &mut held[random.u32(0..self.sets) as usize];
            *set += 1;
            *set > self.ways
        })
    }

    /// The probability that a transaction with this many lines aborts.
    ///
    /// The numbers of lines of the sets are multinomial: like independent Poisson numbers X with mean `lines / sets`,
    /// given their sum. So P(fits) = P(all X <= ways, sum X = lines) / P(sum X = lines), and the numerator is a power
    /// of the truncated distribution of X.
    pub(super) fn overflow_probability(self, lines: u32) -> f64 {
        if lines <= self.ways || lines > self.lines() {
            return if lines <= self.ways { 0.0 } else { 1.0 };
        }
        let mean = f64::from(lines) / f64::from(self.sets);
        let of_set: Vec<f64> = (0..=self.ways).map(|number| poisson(mean, number)).collect();
        let mut of_sets = vec![0.0; lines as usize + 1];
        of_sets[0] = 1.0;
        for _ in 0..self.sets {
            for sum in (0..of_sets.len()).rev() {
                let parts = of_set.iter().take(sum + 1).enumerate();
                of_sets[sum] = parts.map(|(number, of_set)| of_set * of_sets[sum - number]).sum();
            }
        }
        (1.0 - of_sets[lines as usize] / poisson(f64::from(lines), lines)).clamp(0.0, 1.0)
    }
}

/// The probability of a number under Poisson's distribution.
fn poisson(mean: f64, number: u32) -> f64 {
    let logarithm_of_factorial: f64 = (2..=number).map(|factor| f64::from(factor).ln()).sum();
    (f64::from(number) * mean.ln() - mean - logarithm_of_factorial).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASWELL: Cache = Cache { sets: 64, ways: 8 };

    #[test]
    fn the_size_and_the_ways_give_the_sets() {
        assert_eq!(Cache::new(32, 8), Ok(HASWELL));
        assert_eq!(Cache::new(32, 512), Ok(Cache { sets: 1, ways: 512 }));
        for (kib, ways) in [(0, 8), (32, 0), (32, 7), (u32::MAX, 8)] {
            assert!(Cache::new(kib, ways).is_err(), "{kib} KiB, {ways} ways");
        }
    }

    /// The birthday paradox, which the paper names: among 23 people, two have the same birthday with 50.73 %.
    #[test]
    fn birthdays_are_lines_in_a_cache_with_one_way() {
        let year = Cache { sets: 365, ways: 1 };
        assert!((year.overflow_probability(23) - 0.507_297).abs() < 1e-6);
        let coin = Cache { sets: 2, ways: 1 };
        assert!((coin.overflow_probability(2) - 0.5).abs() < 1e-12);
    }

    /// "Only about one quarter of the L1 cache" is safe. With 16 KB, "for any one cache set it is quite unlikely that
    /// it contains more than 8 entries", and "likely that at least one cache set exceeds this limit" (HTM III.B).
    #[test]
    fn the_probability_rises_above_128_lines() {
        let abort = |lines| HASWELL.overflow_probability(lines);
        assert_eq!(abort(8), 0.0);
        assert!(abort(64) < 0.001 && abort(128) < 0.02 && abort(192) > 0.15 && abort(256) > 0.7, "{}", abort(256));
        assert!(abort(384) > 0.999 && abort(513) == 1.0);
        let of_one_set = 1.0 - (0..=8).map(|number| poisson(4.0, number)).sum::<f64>();
        assert!(of_one_set < 0.022, "{of_one_set}");
    }

    #[test]
    fn more_ways_in_a_cache_of_the_same_size_abort_less() {
        for lines in [64, 128, 256, 500] {
            let ways = [1, 2, 4, 8, 16, 64, 512];
            let aborts = ways.map(|ways| Cache::new(32, ways).unwrap().overflow_probability(lines));
            assert!(aborts.is_sorted_by(|less, more| less >= more), "{lines} lines: {aborts:?}");
            assert_eq!(aborts[6], 0.0, "all lines fit into the only set");
        }
    }

    #[test]
    fn random_lines_abort_with_the_computed_probability() {
        let (mut random, mut held) = (Rng::with_seed(1), Vec::new());
        for ways in [1, 4, 8, 16] {
            let cache = Cache::new(32, ways).unwrap();
            for lines in [16, 64, 128, 192, 256, 320] {
                let rounds = 10_000;
                let aborts = (0..rounds).filter(|_| cache.overflows(lines, &mut random, &mut held)).count() as f64;
                let expected = cache.overflow_probability(lines);
                let deviation = (expected * (1.0 - expected) / f64::from(rounds)).sqrt();
                let distance = (aborts / f64::from(rounds) - expected).abs();
                assert!(distance <= 5.0 * deviation + 1e-9, "{ways} ways, {lines} lines: {distance}, {expected}");
            }
        }
    }
}
