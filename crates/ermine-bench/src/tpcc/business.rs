//! The business: its size, the draws that depend on it, and why one of its transactions fails.

use std::{fmt, time::SystemTime};

use super::random::{C_CUSTOMER, C_ITEM, non_uniform};
use crate::random::Random;

/// Districts of a warehouse.
pub const DISTRICTS: u8 = 10;

/// Numbers of rows that do not depend on the number of warehouses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Scale {
    /// Items, and stock rows of a warehouse.
    pub items: u32,
    /// Customers of a district; also its orders at load.
    pub customers: u32,
    /// The last of these are not delivered at load.
    pub new_orders: u32,
    /// Different last names.
    pub last_names: u32,
}

impl Scale {
    /// The numbers of the rules.
    pub const FULL: Self = Self { items: 100_000, customers: 3_000, new_orders: 900, last_names: 1_000 };
    /// A warehouse that loads in milliseconds, for tests.
    pub const SMALL: Self = Self { items: 500, customers: 60, new_orders: 18, last_names: 20 };

    /// Orders of a district that are delivered at load.
    pub fn delivered(self) -> u32 {
        self.customers - self.new_orders
    }
}

/// Why a transaction did not commit.
#[derive(Debug)]
pub enum Failure {
    /// The user ordered an item that does not exist ("item number is not valid"): one New-Order in a hundred. It counts
    /// as completed.
    UnusedItem,
    /// A row that the rules promise is missing; the text says which.
    Missing(&'static str),
    /// The engine returned an error.
    Engine(ermine::Error),
}

impl From<ermine::Error> for Failure {
    fn from(error: ermine::Error) -> Self {
        Self::Engine(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnusedItem => f.write_str("item number is not valid"),
            Self::Missing(row) => write!(f, "a row is missing that must exist: {row}"),
            Self::Engine(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Failure {}

impl From<Failure> for crate::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Engine(error) => Self::Engine(error),
            other => Self::Workload(other.to_string()),
        }
    }
}

/// Parameters of the run that every draw of inputs needs.
#[derive(Clone, Copy, Debug)]
pub struct Business {
    /// Number of warehouses.
    pub warehouses: u32,
    /// Numbers of all other rows.
    pub scale: Scale,
    /// Percentage of order lines whose stock is in another warehouse.
    pub remote_percent: u32,
    /// How many of a hundred new orders their users roll back.
    pub mistakes_percent: u64,
}

impl Business {
    /// Draws a warehouse other than `home`, uniformly; returns `home` if there is no other.
    pub(super) fn another_warehouse(&self, home: u32, random: &mut Random) -> u32 {
        if self.warehouses == 1 {
            return home;
        }
        let other = random.uniform(1..=u64::from(self.warehouses) - 1) as u32;
        if other < home { other } else { other + 1 }
    }

    /// Draws a district, uniformly.
    pub(super) fn district(&self, random: &mut Random) -> u8 {
        random.uniform(1..=u64::from(DISTRICTS)) as u8
    }

    /// Draws a customer by number, non-uniformly.
    pub(super) fn customer(&self, random: &mut Random) -> u32 {
        non_uniform(random, 1023, C_CUSTOMER, 1, u64::from(self.scale.customers)) as u32
    }

    /// Draws an item, non-uniformly.
    pub(super) fn item(&self, random: &mut Random) -> u32 {
        non_uniform(random, 8191, C_ITEM, 1, u64::from(self.scale.items)) as u32
    }
}

/// The time of day, for dates.
pub(super) fn microseconds_since_1970() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(1, |time| time.as_micros() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_warehouse_is_any_but_home() {
        let business = Business { warehouses: 4, scale: Scale::FULL, remote_percent: 1, mistakes_percent: 1 };
        let mut random = Random::new(1, 0);
        let mut seen = [0; 5];
        for _ in 0..3_000 {
            seen[business.another_warehouse(2, &mut random) as usize] += 1;
        }
        assert_eq!((seen[0], seen[2]), (0, 0));
        assert!([seen[1], seen[3], seen[4]].iter().all(|&n| (850..1150).contains(&n)), "{seen:?}");
        let alone = Business { warehouses: 1, ..business };
        assert_eq!(alone.another_warehouse(1, &mut random), 1);
    }
}
