//! New-Order: a customer orders 5 to 15 items (clause 2.4). The backbone of the mix.

use ermine::{Access, Job, Scheme, Transaction};

use smallvec::SmallVec;

use super::{
    business::{Business, Failure},
    random::is_original,
    rows::{LineRow, Rows, StockRow},
    schema::{DistrictKey, Item, Order, ShortLine, StockCounts},
    tables::Tables,
};
use crate::random::Random;

/// Maximum lines of an order.
const LINES_MAX: usize = 15;

/// Input of a New-Order.
#[derive(Clone, Debug)]
pub struct NewOrderInput {
    w_id: u32,
    d_id: u8,
    c_id: u32,
    entry_d: u64,
    lines: [LineInput; LINES_MAX],
    ol_cnt: u8,
}

/// An item ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineInput {
    /// The item; an item that does not exist if the user makes a mistake.
    pub i_id: u32,
    /// The warehouse whose stock it comes from.
    pub supply_w_id: u32,
    /// Quantity.
    pub quantity: u8,
}

impl NewOrderInput {
    /// Draws a random order at warehouse `home`.
    pub fn draw(business: &Business, home: u32, entry_d: u64, random: &mut Random) -> Self {
        let ol_cnt = random.uniform(5..=LINES_MAX as u64) as u8;
        let mut lines = [LineInput::default(); LINES_MAX];
        for line in &mut lines[..usize::from(ol_cnt)] {
            // Drawn for every line: a transaction of ten lines is remote with a probability of almost 10 %.
            let remote = random.percent(u64::from(business.remote_percent));
            *line = LineInput {
                i_id: business.item(random),
                supply_w_id: if remote { business.another_warehouse(home, random) } else { home },
                quantity: random.uniform(1..=10) as u8,
            };
        }
        if random.percent(business.mistakes_percent) {
            lines[usize::from(ol_cnt) - 1].i_id = business.scale.items + 1;
        }
        let (d_id, c_id) = (business.district(random), business.customer(random));
        Self { w_id: home, d_id, c_id, entry_d, lines, ol_cnt }
    }

    /// The district that it is placed in.
    pub fn district(&self) -> DistrictKey {
        (self.w_id, self.d_id)
    }

    /// The lines.
    pub fn lines(&self) -> &[LineInput] {
        &self.lines[..usize::from(self.ol_cnt)]
    }

    fn all_local(&self) -> bool {
        self.lines().iter().all(|line| line.supply_w_id == self.w_id)
    }
}

/// The transaction.
pub struct NewOrder<'a, R: Rows> {
    /// The tables.
    pub tables: &'a Tables<R>,
    /// The input.
    pub input: NewOrderInput,
}

/// The answer that the customer receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sale {
    /// The number of the order.
    pub o_id: u32,
    /// In cents, with tax and discount.
    pub total: i64,
    /// Lines whose item and stock are both an original brand ("B"; the others are generic, "G").
    pub originals: u8,
}

impl<R: Rows> Job for NewOrder<'_, R> {
    type Output = Sale;
    type Error = Failure;

    const SCHEMES: &'static [Scheme] = R::SCHEMES;

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<Sale, Failure> {
        let (tables, input) = (self.tables, &self.input);
        let &NewOrderInput { w_id, d_id, c_id, entry_d, ol_cnt, .. } = input;

        let w_tax = txn.view(&tables.warehouse, &w_id)?.ok_or_else(|| Failure::Missing("warehouse"))?.tax;
        let mut district = *txn.view(&tables.district, &(w_id, d_id))?.ok_or_else(|| Failure::Missing("district"))?;
        let o_id = district.next_o_id;
        district.next_o_id += 1;
        txn.update(&tables.district, &(w_id, d_id), &district)?;
        let customer = txn.view(&tables.customer, &(w_id, d_id, c_id))?.ok_or_else(|| Failure::Missing("customer"))?;
        // The customer's name and credit are part of the answer.
        std::hint::black_box((customer.last, customer.credit));

        let credit_check = match &tables.credit {
            Some(credit) => {
                let status = txn.view(&credit.status, &(w_id, d_id, c_id))?;
                status.ok_or_else(|| Failure::Missing("credit of a customer"))?.checks as u8
            }
            None => 0,
        };
        let order =
            Order { entry_d, c_id, carrier_id: 0, ol_cnt, all_local: u8::from(input.all_local()), credit_check };
        txn.insert(&tables.order, &(w_id, d_id, o_id), &order)?;
        txn.insert(&tables.new_order, &(w_id, d_id, o_id), &())?;

        let lines = input.lines();
        let items = txn.view_many(&tables.item, lines.iter().map(|line| &line.i_id))?;
        let places: SmallVec<[_; LINES_MAX]> = lines.iter().map(|line| (line.supply_w_id, line.i_id)).collect();
        let stocks = txn.view_many(&tables.stock, &places)?;
        let (mut sum, mut originals) = (0, 0);
        for at in 0..lines.len() {
            let item = items[at].ok_or_else(|| Failure::UnusedItem)?;
            // This order may have taken from the same stock already, on an earlier line.
            let stock = match places[..at].contains(&places[at]) {
                true => txn.view(&tables.stock, &places[at])?,
                false => stocks[at],
            };
            let stock = stock.ok_or_else(|| Failure::Missing("stock"))?;
            let (amount, original) = order_line(txn, tables, input, (o_id, at), item, *stock)?;
            sum += amount;
            originals += u8::from(original);
        }
        Ok(Sale { o_id, total: total(sum, customer.discount, w_tax, district.tax), originals })
    }
}

/// Takes an item from the stock and writes a line of the order; returns its amount, and whether it is an original
/// brand.
fn order_line<A: Access, R: Rows>(
    txn: &Transaction<'_, A>,
    tables: &Tables<R>,
    order: &NewOrderInput,
    (o_id, at): (u32, usize),
    item: &Item,
    stock: R::Stock,
) -> Result<(i64, bool), Failure> {
    let LineInput { i_id, supply_w_id, quantity } = order.lines()[at];
    let counts = take(stock.counts(), quantity, supply_w_id != order.w_id);
    txn.update(&tables.stock, &(supply_w_id, i_id), &stock.with_counts(counts))?;

    let amount = i64::from(quantity) * item.price;
    let line = ShortLine { delivery_d: 0, amount, i_id, supply_w_id, quantity, padding: [0; 7] };
    let row = R::Line::new(line, stock.note(order.d_id));
    txn.insert(&tables.order_line, &(order.w_id, order.d_id, o_id, at as u8 + 1), &row)?;
    let original = is_original(stock.brand()) && is_original(&item.data.0[..usize::from(item.data_len)]);
    Ok((amount, original))
}

/// Takes `quantity` out of a stock, which is refilled by 91 if fewer than ten would be left.
fn take(stock: StockCounts, quantity: u8, remote: bool) -> StockCounts {
    let rest = stock.quantity - i32::from(quantity);
    StockCounts {
        ytd: stock.ytd + u32::from(quantity),
        quantity: if rest >= 10 { rest } else { rest + 91 },
        order_cnt: stock.order_cnt + 1,
        remote_cnt: stock.remote_cnt + u32::from(remote),
    }
}

/// sum x (1 - discount) x (1 + both taxes), rounded to the cent; rates are hundredths of a percent.
fn total(sum: i64, discount: u32, w_tax: u32, d_tax: u32) -> i64 {
    const WHOLE: i64 = 10_000;
    let exact = sum * (WHOLE - i64::from(discount)) * (WHOLE + i64::from(w_tax) + i64::from(d_tax));
    (exact + WHOLE * WHOLE / 2) / (WHOLE * WHOLE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::Scale;

    const BUSINESS: Business = Business { warehouses: 5, scale: Scale::FULL, remote_percent: 1, mistakes_percent: 1 };

    fn inputs(business: &Business, count: usize) -> Vec<NewOrderInput> {
        let mut random = Random::new(1, 0);
        (0..count).map(|_| NewOrderInput::draw(business, 3, 7, &mut random)).collect()
    }

    #[test]
    fn one_in_a_hundred_has_an_unused_item_on_its_last_line() {
        let inputs = inputs(&BUSINESS, 100_000);
        let mut mistakes = 0;
        for input in &inputs {
            let (last, earlier) = input.lines().split_last().unwrap();
            assert!(earlier.iter().all(|line| (1..=100_000).contains(&line.i_id)));
            assert!((1..=100_001).contains(&last.i_id));
            mistakes += u32::from(last.i_id == 100_001);
        }
        assert!((850..1150).contains(&mistakes), "{mistakes}");
    }

    #[test]
    fn remote_supply_is_drawn_for_every_line() {
        let inputs = inputs(&BUSINESS, 100_000);
        let remote = |input: &NewOrderInput| input.lines().iter().filter(|line| line.supply_w_id != 3).count();
        let lines: usize = inputs.iter().map(|input| input.lines().len()).sum();
        let remote_lines: usize = inputs.iter().map(remote).sum();
        let share = remote_lines as f64 / lines as f64;
        assert!((0.009..0.011).contains(&share), "{share}");
        // 1 - 0.99^10: almost a tenth of the orders, nearly all of them with a single remote line.
        let orders = inputs.iter().filter(|input| remote(input) > 0).count();
        assert!((9_000..10_200).contains(&orders), "{orders}");
        assert!(inputs.iter().all(|input| input.all_local() == (remote(input) == 0)));
    }

    #[test]
    fn without_another_warehouse_nothing_is_remote() {
        let alone = Business { warehouses: 1, remote_percent: 100, ..BUSINESS };
        let input = NewOrderInput::draw(&alone, 1, 0, &mut Random::new(1, 0));
        assert!(input.all_local());
    }

    #[test]
    fn five_to_fifteen_lines_of_one_to_ten() {
        let inputs = inputs(&BUSINESS, 10_000);
        let lengths: Vec<_> = inputs.iter().map(|input| input.lines().len()).collect();
        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&5), Some(&15)));
        let quantities: Vec<_> = inputs.iter().flat_map(|input| input.lines()).map(|line| line.quantity).collect();
        assert_eq!((quantities.iter().min(), quantities.iter().max()), (Some(&1), Some(&10)));
    }

    #[test]
    fn stock_is_filled_up_below_ten() {
        let stock = take(StockCounts { ytd: 0, quantity: 20, order_cnt: 0, remote_cnt: 0 }, 10, false);
        assert_eq!(stock, StockCounts { ytd: 10, quantity: 10, order_cnt: 1, remote_cnt: 0 });
        let stock = take(stock, 1, true);
        assert_eq!(stock, StockCounts { ytd: 11, quantity: 100, order_cnt: 2, remote_cnt: 1 });
    }

    #[test]
    fn totals_are_exact_to_the_cent() {
        assert_eq!(total(10_000, 0, 0, 0), 10_000);
        // 100.00 x 0.5 x 1.4
        assert_eq!(total(10_000, 5_000, 2_000, 2_000), 7_000);
        // 0.01 x 0.5 = 0.005 is rounded up.
        assert_eq!(total(1, 5_000, 0, 0), 1);
        // Fifteen lines of ten at 100.00, the highest taxes.
        assert_eq!(total(1_500_000, 0, 2_000, 2_000), 2_100_000);
    }
}
