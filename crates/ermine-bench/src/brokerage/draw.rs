//! The skewed draws that transactions share: customers, accounts, trades of the past.

use std::ops::RangeInclusive;

use super::population::{Population, Tier};
use crate::random::Random;

/// Draws non-uniformly: bits of a number below `2^k = a + 1`, moved up by `shift`, are set more often.
pub fn non_uniform(random: &mut Random, a: u64, shift: u32, range: RangeInclusive<u64>) -> u64 {
    let (low, high) = range.into_inner();
    let drawn = random.uniform(low..=high) | random.uniform(0..=a) << shift;
    drawn % (high - low + 1) + low
}

/// Draws a customer and its tier: the third tier trades most, and within a tier the higher ranks.
pub fn customer(population: &Population, random: &mut Random) -> (u64, Tier) {
    let (ranks, offset, tier) = match random.below(100) {
        0..10 => (0..=199, 151, 1),
        10..70 => (200..=799, 501, 2),
        // Weights of `rank - 149`.
        _ => (800..=999, -149, 3),
    };
    // Weights grow linearly with the rank: a rank is kept with a probability in proportion.
    let weight = |rank: u64| (rank as i64 + offset) as u64;
    let most = weight(*ranks.end());
    let rank = loop {
        let rank = random.uniform(ranks.clone());
        if random.below(most) < weight(rank) {
            break rank;
        }
    };
    let unit = random.below(population.customers / population.scale.unit);
    (population.customer_at(unit, rank * population.scale.unit / 1_000), tier)
}

/// Draws an account of a drawn customer.
pub fn account(population: &Population, random: &mut Random) -> u64 {
    let (customer, tier) = customer(population, random);
    random.uniform(population.accounts_of(customer, tier))
}

/// Draws an initial trade that was not aborted.
pub fn initial_trade(population: &Population, random: &mut Random) -> u64 {
    let number = non_uniform(random, 65_535, 7, 1..=population.initial_trades());
    if Population::was_aborted(number) { number - 1 } else { number }
}

/// Draws a time in the period of the initial trades, but not in its last `percent` hundredths.
pub fn time_before_end(population: &Population, random: &mut Random, percent: u64) -> u64 {
    let last = (population.initial_trades() * (100 - percent) / 100).max(1);
    population.trade_time(non_uniform(random, 4_095, 16, 1..=last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brokerage::population::Scale;

    const POPULATION: Population = Population { customers: 2_000, trades: 50, scale: Scale::FULL, seed: 1 };

    #[test]
    fn customers_are_drawn_by_tier_and_rank() {
        let mut random = Random::new(1, 0);
        let mut tiers = [0; 4];
        for _ in 0..10_000 {
            let (number, tier) = customer(&POPULATION, &mut random);
            assert_eq!(POPULATION.tier(number), tier);
            tiers[usize::from(tier)] += 1;
        }
        let near = |count: u32, wanted: u32| count.abs_diff(wanted) < 300;
        assert!(near(tiers[1], 1_000) && near(tiers[2], 6_000) && near(tiers[3], 3_000), "{tiers:?}");
        let small = Population { customers: 300, scale: Scale::SMALL, ..POPULATION };
        assert!((0..1_000).all(|_| {
            let (number, tier) = customer(&small, &mut random);
            small.tier(number) == tier
        }));
    }

    #[test]
    fn past_trades_exist() {
        let mut random = Random::new(1, 0);
        for _ in 0..10_000 {
            let trade = initial_trade(&POPULATION, &mut random);
            assert!((1..=POPULATION.initial_trades()).contains(&trade) && !Population::was_aborted(trade));
            let time = time_before_end(&POPULATION, &mut random, 40);
            assert!((POPULATION.trade_time(1)..=POPULATION.trade_time(60_000)).contains(&time));
        }
    }
}
