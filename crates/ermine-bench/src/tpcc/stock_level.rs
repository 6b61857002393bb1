//! Stock-Level: how many items of a district's last twenty orders run low (clause 2.8). Reads only.

use std::ops::ControlFlow;

use ermine::{Access, Job, Scheme, Transaction, TxnOptions};

use smallvec::SmallVec;

use super::{
    business::{Business, Failure},
    rows::{LineRow, Rows, StockRow},
    tables::Tables,
};
use crate::random::Random;

/// Number of orders that are checked.
const ORDERS: u32 = 20;
/// Their lines: at most fifteen per order.
const LINES: usize = 15 * ORDERS as usize;

/// Input of a Stock-Level.
#[derive(Clone, Debug)]
pub struct StockLevelInput {
    w_id: u32,
    d_id: u8,
    threshold: i32,
}

impl StockLevelInput {
    /// Draws a random question at warehouse `home`. A thread stands for all ten terminals of its warehouse, and each
    /// terminal asks about its own district: the district is drawn.
    pub fn draw(business: &Business, home: u32, random: &mut Random) -> Self {
        Self { w_id: home, d_id: business.district(random), threshold: random.uniform(10..=20) as i32 }
    }
}

/// The transaction.
pub struct StockLevel<'a, R: Rows> {
    /// The tables.
    pub tables: &'a Tables<R>,
    /// The input.
    pub input: StockLevelInput,
    /// The scheme that it runs under.
    pub scheme: Scheme,
}

impl<R: Rows> Job for StockLevel<'_, R> {
    /// Number of distinct items that run low.
    type Output = u32;
    type Error = Failure;

    const SCHEMES: &'static [Scheme] = R::SCHEMES;

    fn options(&self) -> TxnOptions {
        R::read_options(self.scheme)
    }

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<u32, Failure> {
        let tables = self.tables;
        let &StockLevelInput { w_id, d_id, threshold } = &self.input;
        let district = txn.view(&tables.district, &(w_id, d_id))?.ok_or_else(|| Failure::Missing("district"))?;
        let (first, next) = (district.next_o_id.saturating_sub(ORDERS), district.next_o_id);

        let mut items = SmallVec::<[u32; LINES]>::new();
        let lines = (w_id, d_id, first, 0)..(w_id, d_id, next, 0);
        txn.scan(&tables.order_line, lines).for_each(|_, line| {
            items.push(line.short().i_id);
            Ok(ControlFlow::Continue(()))
        })?;
        let places: SmallVec<[_; LINES]> = distinct(&mut items).iter().map(|&i_id| (w_id, i_id)).collect();
        let mut low = 0;
        for stock in txn.view_many(&tables.stock, &places)? {
            low += u32::from(stock.ok_or_else(|| Failure::Missing("stock"))?.counts().quantity < threshold);
        }
        Ok(low)
    }
}

/// Removes duplicates.
fn distinct(items: &mut SmallVec<[u32; LINES]>) -> &[u32] {
    items.sort_unstable();
    items.dedup();
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_counts_once() {
        let mut items = SmallVec::from_slice(&[7, 3, 7, 7, 1, 3]);
        assert_eq!(distinct(&mut items), [1, 3, 7]);
    }

    #[test]
    fn thresholds_are_ten_to_twenty() {
        let business =
            Business { warehouses: 1, scale: crate::tpcc::Scale::FULL, remote_percent: 1, mistakes_percent: 1 };
        let mut random = Random::new(1, 0);
        let drawn: Vec<_> = (0..1_000).map(|_| StockLevelInput::draw(&business, 1, &mut random).threshold).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&10), Some(&20)));
    }
}
