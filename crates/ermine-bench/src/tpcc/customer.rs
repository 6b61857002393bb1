//! Finds the customer of a transaction: by number, or by last name (clauses 2.5.2.2, 2.6.2.2).

use ermine::{Access, Transaction, prefix};
use smallvec::SmallVec;

use super::{
    business::{Business, Failure},
    random::{C_LAST_RUN, last_name, non_uniform},
    rows::Rows,
    schema::Customer,
    tables::Tables,
};
use crate::random::Random;
use std::ops::ControlFlow;

/// How a transaction identifies its customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// By number.
    Number(u32),
    /// By the number of a last name.
    LastName(u32),
}

impl Pick {
    /// Draws 60 % by last name, 40 % by number, both non-uniformly.
    pub(super) fn draw(business: &Business, random: &mut Random) -> Self {
        if random.percent(60) {
            let names = u64::from(business.scale.last_names);
            Self::LastName(non_uniform(random, 255, C_LAST_RUN, 0, names - 1) as u32)
        } else {
            Self::Number(business.customer(random))
        }
    }
}

/// Finds the customer's number and row.
pub(super) fn find<A: Access, R: Rows>(
    txn: &Transaction<'_, A>,
    tables: &Tables<R>,
    (w, d): (u32, u8),
    pick: Pick,
) -> Result<(u32, Customer), Failure> {
    match pick {
        Pick::Number(c) => {
            let row = txn.view(&tables.customer, &(w, d, c))?.ok_or_else(|| Failure::Missing("customer by number"))?;
            Ok((c, *row))
        }
        Pick::LastName(number) => {
            // Three of 3000 customers on average, about a dozen under the most frequent names.
            let mut namesakes = SmallVec::<[(u32, Customer); 4]>::new();
            let named = prefix((w, d, last_name(number).0));
            txn.scan_by(&tables.customer_by_name, named).for_each(|(_, _, c), row| {
                namesakes.push((c, *row));
                Ok(ControlFlow::Continue(()))
            })?;
            middle(&namesakes).ok_or_else(|| Failure::Missing("customer by last name"))
        }
    }
}

/// Row ceil(n / 2) of n, counted from one.
fn middle<T: Copy>(rows: &[T]) -> Option<T> {
    rows.len().checked_sub(1).map(|last| rows[last / 2])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::Scale;

    #[test]
    fn the_middle_row_is_taken_not_the_first() {
        assert_eq!(middle::<u32>(&[]), None);
        assert_eq!(middle(&[1]), Some(1));
        assert_eq!(middle(&[1, 2]), Some(1));
        assert_eq!(middle(&[1, 2, 3]), Some(2));
        assert_eq!(middle(&[1, 2, 3, 4]), Some(2));
        assert_eq!(middle(&[1, 2, 3, 4, 5]), Some(3));
    }

    #[test]
    fn three_of_five_are_named() {
        let business = Business { warehouses: 1, scale: Scale::FULL, remote_percent: 1, mistakes_percent: 1 };
        let mut random = Random::new(1, 0);
        let named = (0..10_000).filter(|_| matches!(Pick::draw(&business, &mut random), Pick::LastName(_))).count();
        assert!((5_800..6_200).contains(&named), "{named}");
    }
}
