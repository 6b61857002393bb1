//! The options of the workload.

use std::fmt;

use serde::Serialize;

use crate::{Error, Result, random::Random, report::grouped};

/// Options of the workload.
#[derive(Clone, Debug, Serialize)]
pub struct Tatp {
    /// Subscribers; the description has 100,000 or more.
    pub subscribers: u32,
    /// Whether transactions draw all subscribers alike.
    pub uniform: bool,
}

impl Tatp {
    /// Maximum number of subscribers.
    pub const SUBSCRIBERS_MAX: u32 = 1_000_000_000;

    /// Fails if the numbers cannot work.
    pub(super) fn check_numbers(&self) -> Result<()> {
        if !(1..=Self::SUBSCRIBERS_MAX).contains(&self.subscribers) {
            return Err(Error::Usage(format!(
                "the number of subscribers lies between 1 and {}",
                Self::SUBSCRIBERS_MAX
            )));
        }
        Ok(())
    }

    /// Draws a subscriber.
    pub(super) fn subscriber(&self, random: &mut Random) -> u32 {
        let count = u64::from(self.subscribers);
        if self.uniform {
            return random.uniform(1..=count) as u32;
        }
        let mask = match count {
            ..=1_000_000 => 65_535,
            1_000_001..=10_000_000 => 1_048_575,
            _ => 2_097_151,
        };
        ((random.uniform(0..=mask) | random.uniform(1..=count)) % count + 1) as u32
    }
}

impl fmt::Display for Tatp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subscribers, uniform } = self;
        let draw = if *uniform { "uniformly" } else { "non-uniformly" };
        write!(f, "{} subscribers, drawn {draw}", grouped(u64::from(*subscribers)))
    }
}
