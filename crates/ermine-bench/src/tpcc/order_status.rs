//! Order-Status: a customer asks for the latest order (clause 2.6). Reads only.

use std::{hint::black_box, ops::ControlFlow};

use ermine::{Access, Job, Scheme, Transaction, TxnOptions, prefix};

use super::{
    business::{Business, Failure},
    customer::{Pick, find},
    rows::{LineRow, Rows},
    tables::Tables,
};
use crate::random::Random;

/// Input of an Order-Status.
#[derive(Clone, Debug)]
pub struct OrderStatusInput {
    w_id: u32,
    d_id: u8,
    customer: Pick,
}

impl OrderStatusInput {
    /// Draws a random question at warehouse `home`.
    pub fn draw(business: &Business, home: u32, random: &mut Random) -> Self {
        Self { w_id: home, d_id: business.district(random), customer: Pick::draw(business, random) }
    }
}

/// The transaction.
pub struct OrderStatus<'a, R: Rows> {
    /// The tables.
    pub tables: &'a Tables<R>,
    /// The input.
    pub input: OrderStatusInput,
    /// The scheme that it runs under.
    pub scheme: Scheme,
}

impl<R: Rows> Job for OrderStatus<'_, R> {
    /// The number of the latest order, and the number of its lines.
    type Output = (u32, u8);
    type Error = Failure;

    const SCHEMES: &'static [Scheme] = R::SCHEMES;

    fn options(&self) -> TxnOptions {
        R::read_options(self.scheme)
    }

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<(u32, u8), Failure> {
        let tables = self.tables;
        let &OrderStatusInput { w_id, d_id, customer } = &self.input;
        let (c_id, customer) = find(txn, tables, (w_id, d_id), customer)?;
        black_box((customer.balance, customer.first, customer.middle, customer.last));

        let mut latest = None;
        let orders = prefix((w_id, d_id, c_id));
        txn.scan_by(&tables.order_by_customer, orders).rev().limit(1).for_each(|(_, _, o_id), order| {
            black_box((order.entry_d, order.carrier_id));
            latest = Some(o_id);
            Ok(ControlFlow::Break(()))
        })?;
        // Every customer has an order from the beginning.
        let o_id = latest.ok_or(Failure::Missing("order of a customer"))?;

        let mut lines = 0;
        txn.scan(&tables.order_line, prefix((w_id, d_id, o_id))).for_each(|_, line| {
            black_box(line.short());
            lines += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok((o_id, lines))
    }
}
