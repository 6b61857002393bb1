//! Delivery: every district of a warehouse delivers its oldest order (clause 2.7).
//!
//! The rules allow queueing it for a background worker, and running it as one transaction or ten. Here it is one
//! transaction of ten districts, run by the thread that drew it: the hardest form for concurrency control.

use std::ops::ControlFlow;

use ermine::{Access, Job, Scheme, Transaction, prefix};

use smallvec::SmallVec;

use super::{
    business::{Business, DISTRICTS, Failure},
    rows::{LineRow, Rows},
    schema::Order,
    tables::Tables,
};
use crate::random::Random;

/// Input of a Delivery.
#[derive(Clone, Debug)]
pub struct DeliveryInput {
    w_id: u32,
    carrier_id: u8,
    delivery_d: u64,
}

impl DeliveryInput {
    /// Draws a random delivery of warehouse `home`.
    pub fn draw(_: &Business, home: u32, delivery_d: u64, random: &mut Random) -> Self {
        Self { w_id: home, carrier_id: random.uniform(1..=10) as u8, delivery_d }
    }
}

/// The transaction.
pub struct Delivery<'a, R: Rows> {
    /// The tables.
    pub tables: &'a Tables<R>,
    /// The input.
    pub input: DeliveryInput,
}

impl<R: Rows> Job for Delivery<'_, R> {
    /// Districts that had nothing to deliver.
    type Output = u32;
    type Error = Failure;

    const SCHEMES: &'static [Scheme] = R::SCHEMES;

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<u32, Failure> {
        let w_id = self.input.w_id;
        let mut places = SmallVec::<[_; DISTRICTS as usize]>::new();
        for d_id in 1..=DISTRICTS {
            places.extend(self.take_oldest(txn, d_id)?.map(|o_id| (w_id, d_id, o_id)));
        }
        let mut buyers = SmallVec::<[_; DISTRICTS as usize]>::new();
        let mut amounts = SmallVec::<[_; DISTRICTS as usize]>::new();
        for (&place, order) in places.iter().zip(txn.view_many(&self.tables.order, &places)?) {
            let order = order.ok_or_else(|| Failure::Missing("order"))?;
            buyers.push((w_id, place.1, order.c_id));
            amounts.push(self.deliver(txn, place, *order)?);
        }
        let customers = txn.view_many(&self.tables.customer, &buyers)?;
        for ((buyer, amount), customer) in buyers.iter().zip(amounts).zip(customers) {
            let mut customer = *customer.ok_or_else(|| Failure::Missing("customer of an order"))?;
            customer.balance += amount;
            customer.delivery_cnt += 1;
            txn.update(&self.tables.customer, buyer, &customer)?;
        }
        Ok(u32::from(DISTRICTS) - places.len() as u32)
    }
}

impl<R: Rows> Delivery<'_, R> {
    /// Deletes the oldest order of a district from NEW_ORDER, and returns its number.
    fn take_oldest<A: Access>(&self, txn: &Transaction<'_, A>, d_id: u8) -> Result<Option<u32>, Failure> {
        let w_id = self.input.w_id;
        loop {
            let mut oldest = None;
            txn.scan(&self.tables.new_order, prefix((w_id, d_id))).limit(1).for_each(|(_, _, o_id), ()| {
                oldest = Some(o_id);
                Ok(ControlFlow::Break(()))
            })?;
            let Some(o_id) = oldest else { return Ok(None) };
            // Under read committed another delivery may have deleted it since the scan: then the next one is tried.
            if txn.delete(&self.tables.new_order, &(w_id, d_id, o_id))? {
                return Ok(Some(o_id));
            }
        }
    }

    /// Marks an order and its lines as delivered; returns the sum of their amounts.
    fn deliver<A: Access>(
        &self,
        txn: &Transaction<'_, A>,
        place @ (w_id, d_id, o_id): (u32, u8, u32),
        mut order: Order,
    ) -> Result<i64, Failure> {
        let tables = self.tables;
        let &DeliveryInput { carrier_id, delivery_d, .. } = &self.input;
        order.carrier_id = carrier_id;
        txn.update(&tables.order, &place, &order)?;

        let mut lines = SmallVec::<[(u8, R::Line); 15]>::new();
        txn.scan(&tables.order_line, prefix((w_id, d_id, o_id))).for_each(|(_, _, _, number), line| {
            lines.push((number, *line));
            Ok(ControlFlow::Continue(()))
        })?;
        let mut amount = 0;
        for (number, line) in lines {
            amount += line.short().amount;
            txn.update(&tables.order_line, &(w_id, d_id, o_id, number), &line.delivered(delivery_d))?;
        }
        Ok(amount)
    }
}
