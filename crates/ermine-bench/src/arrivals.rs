//! The times at which a client begins transactions in an open loop: whether the ones before have ended or not.
//!
//! Gaps are exponential, as those of many users are. A client that is late begins at once, and the times behind it stay
//! as they are: a latency that is measured from them contains the time that the transaction has waited for its client.

use std::time::{Duration, Instant};

use crate::random::Random;

/// The longest gap: rates may be so small that nothing else is ever due.
const GAP_MAX: Duration = Duration::from_secs(3_600);

/// The times of one client, one after the other.
#[derive(Clone, Debug)]
pub struct Arrivals {
    random: Random,
    per_second: f64,
    next: Instant,
}

impl Arrivals {
    /// Begins now, with `per_second` transactions on average; `stream` distinguishes the clients that share the seed.
    pub fn new(per_second: f64, seed: u64, stream: u64) -> Self {
        let mut arrivals = Self { random: Random::new(seed, stream), per_second, next: Instant::now() };
        arrivals.take();
        arrivals
    }

    /// Returns the next time.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Returns the next time, and goes on to the one behind it.
    pub fn take(&mut self) -> Instant {
        let gap = Duration::try_from_secs_f64(-(1.0 - self.random.fraction()).ln() / self.per_second);
        let taken = self.next;
        self.next += gap.map_or(GAP_MAX, |gap| gap.min(GAP_MAX));
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_have_the_mean_that_the_rate_says() {
        let mut arrivals = Arrivals::new(1_000.0, 1, 2);
        let begin = arrivals.next();
        for _ in 0..100_000 {
            arrivals.take();
        }
        let mean = (arrivals.next() - begin).as_secs_f64() / 100_000.0;
        assert!((0.000_98..0.001_02).contains(&mean), "{mean}");
    }

    #[test]
    fn a_rate_of_nothing_waits_for_a_long_time() {
        let mut arrivals = Arrivals::new(0.0, 1, 2);
        assert_eq!(arrivals.take() + GAP_MAX, arrivals.next());
    }
}
