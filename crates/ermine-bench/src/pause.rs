//! Time that a transaction spends between its reads and its writes; this makes transactions overlap.

use std::{fmt, hint::spin_loop, str::FromStr, thread};

use crate::Error;

/// How a transaction pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// This many turns of an empty loop, of some tens of nanoseconds each: transactions on other cores overlap.
    Spins(u32),
    /// Yields the core to another thread: transactions overlap even if there are more threads than cores.
    Yield,
}

impl Pause {
    /// No pause.
    pub const NONE: Self = Self::Spins(0);

    /// Pauses.
    #[inline]
    pub fn wait(self) {
        match self {
            Self::Spins(turns) => (0..turns).for_each(|_| spin_loop()),
            Self::Yield => thread::yield_now(),
        }
    }
}

impl FromStr for Pause {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "yield" => Ok(Self::Yield),
            turns => turns.parse().map(Self::Spins).map_err(|_| Error::Usage("use a number of spins, or yield".into())),
        }
    }
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spins(turns) => write!(f, "{turns}"),
            Self::Yield => f.write_str("yield"),
        }
    }
}

impl serde::Serialize for Pause {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_known_by_their_names() {
        for pause in [Pause::Spins(0), Pause::Spins(300), Pause::Yield] {
            assert_eq!(pause.to_string().parse::<Pause>().unwrap(), pause);
        }
        assert!("-1".parse::<Pause>().is_err());
    }
}
