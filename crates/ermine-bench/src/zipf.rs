//! Draws the record that a transaction accesses: uniformly, or skewed by Zipf's law.
//!
//! The skewed draw is the generator of Gray et al. ("Quickly generating billion-record synthetic databases", 1994),
//! which YCSB uses. Ranks are scattered over the keys, so that hot records are not neighbours in the index.

use crate::random::Random;

/// Coprime to every table size below it, so that scattering is one to one.
const SCATTER: u64 = 4_294_967_291; // the largest prime below 2^32

/// A distribution over the records `0..records`.
#[derive(Clone, Debug)]
pub struct Choice {
    records: u64,
    skew: Option<Skew>,
}

#[derive(Clone, Debug)]
struct Skew {
    theta: f64,
    alpha: f64,
    eta: f64,
    zeta: f64,
}

impl Choice {
    /// Maximum number of records.
    pub const RECORDS_MAX: u64 = SCATTER - 1;

    /// Creates a distribution with skew `theta` in [0, 1); 0 is uniform.
    pub fn new(records: u64, theta: f64) -> Self {
        assert!((1..=Self::RECORDS_MAX).contains(&records), "{records} records");
        assert!((0.0..1.0).contains(&theta), "theta {theta}");
        let skew = (theta > 0.0 && records > 2).then(|| {
            let zeta = |n: u64| (1..=n).map(|rank| (rank as f64).powf(-theta)).sum::<f64>();
            let all = zeta(records);
            let eta = (1.0 - (2.0 / records as f64).powf(1.0 - theta)) / (1.0 - zeta(2) / all);
            Skew { theta, alpha: 1.0 / (1.0 - theta), eta, zeta: all }
        });
        Self { records, skew }
    }

    /// Draws one record.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u64 {
        match &self.skew {
            None => random.below(self.records),
            Some(skew) => self.scatter(self.rank(skew, random.fraction())),
        }
    }

    /// Draws a rank, of which 0 is the most frequent: a record before the ranks are scattered.
    #[inline]
    pub fn draw_rank(&self, random: &mut Random) -> u64 {
        match &self.skew {
            None => random.below(self.records),
            Some(skew) => self.rank(skew, random.fraction()),
        }
    }

    fn rank(&self, skew: &Skew, u: f64) -> u64 {
        let uz = u * skew.zeta;
        if uz < 1.0 {
            0
        } else if uz < 1.0 + 0.5f64.powf(skew.theta) {
            1
        } else {
            let rank = self.records as f64 * (skew.eta * u - skew.eta + 1.0).powf(skew.alpha);
            (rank as u64).min(self.records - 1)
        }
    }

    fn scatter(&self, rank: u64) -> u64 {
        rank * SCATTER % self.records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattering_is_one_to_one() {
        for records in [3, 10, 1_000, 4_096] {
            let choice = Choice::new(records, 0.5);
            let mut seen = vec![false; records as usize];
            (0..records).for_each(|rank| seen[choice.scatter(rank) as usize] = true);
            assert!(seen.into_iter().all(|seen| seen), "{records}");
        }
    }

    #[test]
    fn skew_gives_the_first_rank_its_share() {
        let choice = Choice::new(1_000, 0.99);
        let mut random = Random::new(5, 0);
        let hits = (0..100_000).filter(|_| choice.draw(&mut random) == 0).count();
        // 1 / zeta(1000, 0.99) = 12.9 %.
        assert!((12_000..14_000).contains(&hits), "{hits}");
    }

    #[test]
    fn no_skew_is_uniform() {
        let choice = Choice::new(10, 0.0);
        let mut random = Random::new(5, 0);
        let mut seen = [0u32; 10];
        (0..10_000).for_each(|_| seen[choice.draw(&mut random) as usize] += 1);
        assert!(seen.iter().all(|&n| (850..1150).contains(&n)), "{seen:?}");
    }
}
