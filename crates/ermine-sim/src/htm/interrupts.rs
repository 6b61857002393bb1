//! Interrupts, which abort a hardware transaction whatever it does (HTM III.B).
//!
//! The paper does not say which interrupts its machine had, and when. Two forms bound what there can be: interrupts
//! that know nothing of each other, and one timer. The transaction begins at a random moment.

use fastrand::Rng;

/// The times of interrupts, with the same mean time between two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interrupts {
    /// Each at a time of its own: the number in a length of time is Poisson's.
    Independent,
    /// At regular times: a timer.
    Regular,
}

impl Interrupts {
    /// Both.
    pub(super) const ALL: [Self; 2] = [Self::Independent, Self::Regular];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Independent => "independent",
            Self::Regular => "regular",
        }
    }

    /// Draws whether there is an interrupt within a transaction of this length, in mean times between interrupts.
    pub(super) fn strikes(self, length: f64, random: &mut Rng) -> bool {
        // Between zero, exclusive, and one.
        let uniform = 1.0 - random.f64();
        length
            > match self {
                Self::Independent => -uniform.ln(),
                Self::Regular => uniform,
            }
    }

    /// The probability of that.
    pub(super) fn probability(self, length: f64) -> f64 {
        match self {
            Self::Independent => 1.0 - (-length).exp(),
            Self::Regular => length.min(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_strike_with_the_computed_probability() {
        let mut random = Rng::with_seed(1);
        for interrupts in Interrupts::ALL {
            assert_eq!(interrupts.probability(0.0), 0.0);
            for length in [0.01, 0.1, 0.5, 1.0, 3.0] {
                let rounds = 20_000;
                let strikes = (0..rounds).filter(|_| interrupts.strikes(length, &mut random)).count() as f64;
                let distance = (strikes / f64::from(rounds) - interrupts.probability(length)).abs();
                assert!(distance < 0.02, "{interrupts:?}, {length}: {distance}");
            }
        }
        assert!(Interrupts::Regular.probability(1.0) == 1.0 && Interrupts::Independent.probability(5.0) > 0.99);
    }
}
