//! Credit-Check: is a customer's credit still good? (TPC-C++; Cahill, "Serializable Isolation for Snapshot Databases",
//! 5.3.) Only in the mix of that name: plain TPC-C is serializable under snapshot isolation and thus proves nothing
//! about certifiers; with this transaction it is not.
//!
//! It reads the customer's balance and limit, sums up the customer's orders that are not delivered, and writes whether
//! the credit is good ("GC") or bad ("BC"). Between a check C and the other transactions there are these
//! anti-dependencies:
//!
//! ```text
//!     New-Order --- reads the status that C writes --->  C  --- misses the order ---> New-Order
//!     Payment   --- reads the status that C writes --->  C  --- reads the balance before ---> Payment
//!                                                        C  --- the same, and NEW_ORDER ---> Delivery
//! ```
//!
//! The status must not be stored in CUSTOMER: there C and Payment would write the same row, the first updater would
//! win, and snapshot isolation would never show the cycles. It is stored in a table of its own, `customer_credit`,
//! which New-Order and Payment read and only C writes, so that New-Order and C are a write skew like any other.
//!
//! So that the anomaly can be counted without a checker, C numbers the checks of a customer and notes the newest order
//! that it saw, in the table `credit_check`; an order notes the number of the check whose status it was accepted under
//! (modulo 256, in a byte of its row). In a serial history an order comes right after the last check that had not seen
//! it: see [`accepted_under`].

use std::ops::ControlFlow;

use ermine::{Access, Job, Scheme, Transaction, prefix};

use super::{
    business::{Business, Failure},
    rows::{LineRow, Rows},
    schema::{Credit, CreditCheckRow, Text},
    tables::Tables,
};
use crate::{pause::Pause, random::Random};

/// Input of a Credit-Check.
#[derive(Clone, Debug)]
pub struct CreditCheckInput {
    w_id: u32,
    d_id: u8,
    c_id: u32,
}

impl CreditCheckInput {
    /// Draws a random check at warehouse `home`.
    pub fn draw(business: &Business, home: u32, random: &mut Random) -> Self {
        Self { w_id: home, d_id: business.district(random), c_id: business.customer(random) }
    }
}

/// The transaction.
pub struct CreditCheck<'a, R: Rows> {
    /// The tables of this mix.
    pub tables: &'a Tables<R>,
    /// The input.
    pub input: CreditCheckInput,
    /// Pause between the reads and the write.
    pub pause: Pause,
}

/// A customer's orders that are not delivered.
#[derive(Default)]
struct Outstanding {
    /// In cents.
    amount: i64,
    /// The newest order, delivered or not.
    newest_o_id: u32,
}

impl<R: Rows> Job for CreditCheck<'_, R> {
    /// Whether the credit is good.
    type Output = bool;
    type Error = Failure;

    const SCHEMES: &'static [Scheme] = R::SCHEMES;

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<bool, Failure> {
        let tables = self.tables;
        let credit = tables.credit.as_ref().ok_or(Failure::Missing("tables of credit checks"))?;
        let &CreditCheckInput { w_id, d_id, c_id } = &self.input;
        let buyer = (w_id, d_id, c_id);

        let customer = txn.view(&tables.customer, &buyer)?.ok_or_else(|| Failure::Missing("customer"))?;
        let (balance, limit) = (customer.balance, customer.credit_lim);
        let Outstanding { amount, newest_o_id } = self.outstanding(txn)?;
        let is_good = balance + amount <= limit;

        let last = txn.view(&credit.status, &buyer)?.ok_or_else(|| Failure::Missing("credit of a customer"))?;
        self.pause.wait();
        let (number, status) = (last.checks + 1, if is_good { Text(*b"GC") } else { Text(*b"BC") });
        txn.update(&credit.status, &buyer, &Credit { checks: number, status, padding: [0; 2] })?;
        let check = CreditCheckRow { outstanding: amount, newest_o_id, status, padding: [0; 2] };
        txn.insert(&credit.checks, &(w_id, d_id, c_id, number), &check)?;
        Ok(is_good)
    }
}

impl<R: Rows> CreditCheck<'_, R> {
    /// Walks back over the customer's orders to the first that is delivered: all orders before it are delivered, too.
    fn outstanding<A: Access>(&self, txn: &Transaction<'_, A>) -> Result<Outstanding, Failure> {
        let tables = self.tables;
        let &CreditCheckInput { w_id, d_id, c_id } = &self.input;
        let mut sum = Outstanding::default();
        let orders = prefix((w_id, d_id, c_id));
        txn.scan_by(&tables.order_by_customer, orders).rev().for_each(|place @ (_, _, o_id), _| {
            sum.newest_o_id = sum.newest_o_id.max(o_id);
            if !txn.contains(&tables.new_order, &place)? {
                return Ok(ControlFlow::Break(()));
            }
            txn.scan(&tables.order_line, prefix((w_id, d_id, o_id))).for_each(|_, line| {
                sum.amount += line.short().amount;
                Ok(ControlFlow::Continue(()))
            })?;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(sum)
    }
}

/// The number, modulo 256, of the check that an order was accepted under in every serial history: the last check that
/// had not seen it. `newest` has the newest order that each of the customer's checks saw, in the order of the checks.
pub(super) fn accepted_under(o_id: u32, newest: &[u32]) -> u8 {
    newest.partition_point(|&newest| newest < o_id) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_follows_the_last_check_that_had_not_seen_it() {
        let newest = [10, 10, 25];
        let under: Vec<_> = [7, 10, 11, 25, 26].map(|o_id| accepted_under(o_id, &newest)).into();
        assert_eq!(under, [0, 0, 2, 2, 3]);
        assert_eq!(accepted_under(1, &[]), 0);
    }

    #[test]
    fn numbers_wrap_at_256() {
        assert_eq!(accepted_under(9, &[1; 300]), 44);
    }
}
