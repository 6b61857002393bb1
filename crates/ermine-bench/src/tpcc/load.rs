//! Writes the initial data (clause 4.3) with many threads.
//!
//! The work is cut into parts: a tenth of the items, a tenth of a warehouse's stock, a district with its customers and
//! orders. Each part draws from a random stream of its own, so the data depends on the seed alone, not on the number of
//! threads, and one warehouse keeps as many threads busy as ten. A part is written in transactions of a few hundred
//! rows.

use std::ops::RangeInclusive;

use ermine::{Database, Transaction};
use indicatif::ProgressBar;

use super::{
    business::{DISTRICTS, Failure, Scale, microseconds_since_1970},
    random::{C_LAST_LOAD, brand_data, digits, full_text, last_name, non_uniform, text, zip},
    rows::{LineRow, Rows, StockRow},
    schema::{Credit, Customer, District, History, Item, Order, ShortLine, StockCounts, StockNotes, Text, Warehouse},
    tables::Tables,
};
use crate::{parallel, random::Random, storage};

/// Parts into which items and stock are cut.
const CUTS: u32 = 10;
/// Rows of the larger tables written in one transaction.
const BATCH: usize = 100;

/// Parameters of all of the data.
#[derive(Clone, Copy)]
struct Plan {
    warehouses: u32,
    scale: Scale,
    seed: u64,
    /// Time of the load: when customers were registered and orders entered.
    date: u64,
}

/// The unit of work of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Items(u32),
    Warehouse(u32),
    Stock(u32, u32),
    District(u32, u8),
}

/// Writes the data of `warehouses` warehouses into empty tables; `progress` counts parts. The data is durable at the
/// end.
pub fn load<R: Rows>(
    db: &Database,
    tables: &Tables<R>,
    warehouses: u32,
    scale: Scale,
    seed: u64,
    threads: usize,
    progress: &ProgressBar,
) -> Result<(), Failure> {
    let plan = Plan { warehouses, scale, seed, date: microseconds_since_1970() };
    let parts = plan.parts();
    parallel::run_parts(parts.len(), threads, progress, |number| plan.write(db, tables, parts[number]))?;
    Ok(db.sync()?)
}

impl Plan {
    fn parts(&self) -> Vec<Part> {
        let mut parts: Vec<_> = (0..CUTS).map(Part::Items).collect();
        for w in 1..=self.warehouses {
            parts.push(Part::Warehouse(w));
            parts.extend((0..CUTS).map(|cut| Part::Stock(w, cut)));
            parts.extend((1..=DISTRICTS).map(|d| Part::District(w, d)));
        }
        parts
    }

    fn write<R: Rows>(&self, db: &Database, tables: &Tables<R>, part: Part) -> Result<(), Failure> {
        let random = &mut self.stream(part);
        match part {
            Part::Items(cut) => self.items(db, tables, cut, random),
            Part::Warehouse(w) => {
                let row = self.warehouse(random);
                write(db, random, |txn, _| txn.insert(&tables.warehouse, &w, &row))
            }
            Part::Stock(w, cut) => self.stock(db, tables, w, cut, random),
            Part::District(w, d) => {
                let row = self.district(random);
                write(db, random, |txn, _| txn.insert(&tables.district, &(w, d), &row))?;
                self.customers(db, tables, (w, d), random)?;
                self.orders(db, tables, (w, d), random)
            }
        }
    }

    /// The random numbers of a part.
    fn stream(&self, part: Part) -> Random {
        let (place, tag) = match part {
            Part::Items(cut) => (0, cut),
            Part::Warehouse(w) => (w, 0),
            Part::Stock(w, cut) => (w, 100 + cut),
            Part::District(w, d) => (w, 200 + u32::from(d)),
        };
        Random::new(self.seed, u64::from(place) << 32 | u64::from(tag))
    }

    /// Numbers of the items in a cut.
    fn cut(&self, cut: u32) -> RangeInclusive<u32> {
        self.scale.items * cut / CUTS + 1..=self.scale.items * (cut + 1) / CUTS
    }

    fn items<R: Rows>(&self, db: &Database, tables: &Tables<R>, cut: u32, random: &mut Random) -> Result<(), Failure> {
        for batch in batches(self.cut(cut)) {
            write(db, random, |txn, random| batch.iter().try_for_each(|i| txn.insert(&tables.item, i, &item(random))))?;
        }
        Ok(())
    }

    fn stock<R: Rows>(
        &self,
        db: &Database,
        tables: &Tables<R>,
        w: u32,
        cut: u32,
        random: &mut Random,
    ) -> Result<(), Failure> {
        for batch in batches(self.cut(cut)) {
            write(db, random, |txn, random| {
                batch.iter().try_for_each(|&i| {
                    let (counts, notes) = stock(random);
                    txn.insert(&tables.stock, &(w, i), &R::Stock::new(counts, &notes))?;
                    tables.stock_notes.as_ref().map_or(Ok(()), |table| txn.insert(table, &(w, i), &notes))
                })
            })?;
        }
        Ok(())
    }

    fn warehouse(&self, random: &mut Random) -> Warehouse {
        Warehouse {
            // Sum of what its districts have received: with 3000 customers each, 300,000.00.
            ytd: FIRST_PAYMENT * i64::from(self.scale.customers) * i64::from(DISTRICTS),
            tax: random.uniform(0..=2_000) as u32,
            name: text(random, 6, 10).0,
            street_1: text(random, 10, 20).0,
            street_2: text(random, 10, 20).0,
            city: text(random, 10, 20).0,
            state: full_text(random),
            zip: zip(random),
            padding: [0; 3],
        }
    }

    fn district(&self, random: &mut Random) -> District {
        District {
            ytd: FIRST_PAYMENT * i64::from(self.scale.customers),
            tax: random.uniform(0..=2_000) as u32,
            next_o_id: self.scale.customers + 1,
            name: text(random, 6, 10).0,
            street_1: text(random, 10, 20).0,
            street_2: text(random, 10, 20).0,
            city: text(random, 10, 20).0,
            state: full_text(random),
            zip: zip(random),
            padding: [0; 7],
        }
    }

    /// Writes a district's customers, each with its first payment.
    fn customers<R: Rows>(
        &self,
        db: &Database,
        tables: &Tables<R>,
        (w, d): (u32, u8),
        random: &mut Random,
    ) -> Result<(), Failure> {
        for batch in batches(1..=self.scale.customers) {
            write(db, random, |txn, random| {
                batch.iter().try_for_each(|&c| {
                    let customer = self.customer(c, random);
                    txn.insert(&tables.customer, &(w, d, c), &customer)?;
                    if let Some(credit) = &tables.credit {
                        let status = Credit { checks: 0, status: customer.credit, padding: [0; 2] };
                        txn.insert(&credit.status, &(w, d, c), &status)?;
                    }
                    let history = History {
                        amount: FIRST_PAYMENT,
                        date: self.date,
                        c_w_id: w,
                        c_id: c,
                        c_d_id: d,
                        data: text(random, 12, 24).0,
                        padding: [0; 7],
                    };
                    txn.insert(&tables.history, &(w, d, u64::from(c)), &history)
                })
            })?;
        }
        Ok(())
    }

    fn customer(&self, c: u32, random: &mut Random) -> Customer {
        let names = self.scale.last_names;
        // The first customers have every name once, so that a run finds each customer that it asks for.
        let name =
            if c <= names { c - 1 } else { non_uniform(random, 255, C_LAST_LOAD, 0, u64::from(names) - 1) as u32 };
        let (data, data_len) = text(random, 300, 500);
        Customer {
            balance: -FIRST_PAYMENT,
            ytd_payment: FIRST_PAYMENT,
            credit_lim: 50_000 * CENTS,
            since: self.date,
            discount: random.uniform(0..=5_000) as u32,
            payment_cnt: 1,
            delivery_cnt: 0,
            data_len: data_len as u16,
            credit: if random.percent(10) { Text(*b"BC") } else { Text(*b"GC") },
            first: text(random, 8, 16).0,
            last: last_name(name),
            middle: Text(*b"OE"),
            street_1: text(random, 10, 20).0,
            street_2: text(random, 10, 20).0,
            city: text(random, 10, 20).0,
            state: full_text(random),
            zip: zip(random),
            phone: digits(random),
            data,
            padding: [0; 3],
        }
    }

    /// Writes a district's orders: one for each customer, in random order, the last of them not delivered.
    fn orders<R: Rows>(
        &self,
        db: &Database,
        tables: &Tables<R>,
        (w, d): (u32, u8),
        random: &mut Random,
    ) -> Result<(), Failure> {
        let mut customers: Vec<u32> = (1..=self.scale.customers).collect();
        random.shuffle(&mut customers);
        for batch in batches(1..=self.scale.customers) {
            write(db, random, |txn, random| {
                batch.iter().try_for_each(|&o| self.order(txn, tables, (w, d, o), customers[o as usize - 1], random))
            })?;
        }
        Ok(())
    }

    fn order<R: Rows>(
        &self,
        txn: &Transaction<'_>,
        tables: &Tables<R>,
        (w, d, o): (u32, u8, u32),
        c_id: u32,
        random: &mut Random,
    ) -> ermine::Result<()> {
        let delivered = o <= self.scale.delivered();
        let ol_cnt = random.uniform(5..=15) as u8;
        let carrier_id = if delivered { random.uniform(1..=10) as u8 } else { 0 };
        let order = Order { entry_d: self.date, c_id, carrier_id, ol_cnt, all_local: 1, credit_check: 0 };
        txn.insert(&tables.order, &(w, d, o), &order)?;
        if !delivered {
            txn.insert(&tables.new_order, &(w, d, o), &())?;
        }
        for number in 1..=ol_cnt {
            let line = ShortLine {
                delivery_d: if delivered { self.date } else { 0 },
                amount: if delivered { 0 } else { random.uniform(1..=999_999) as i64 },
                i_id: random.uniform(1..=u64::from(self.scale.items)) as u32,
                supply_w_id: w,
                quantity: 5,
                padding: [0; 7],
            };
            let line = R::Line::new(line, full_text(random));
            txn.insert(&tables.order_line, &(w, d, o, number), &line)?;
        }
        Ok(())
    }
}

/// Amount that every customer has paid before the first order, in cents.
const FIRST_PAYMENT: i64 = 10 * CENTS;

/// Cents in one unit of money.
const CENTS: i64 = 100;

fn item(random: &mut Random) -> Item {
    let (data, data_len) = brand_data(random);
    Item {
        price: random.uniform(100..=10_000) as i64,
        im_id: random.uniform(1..=10_000) as u32,
        data_len: data_len as u8,
        name: text(random, 14, 24).0,
        data,
        padding: 0,
    }
}

/// Draws a row of STOCK and its notes.
fn stock(random: &mut Random) -> (StockCounts, StockNotes) {
    let (data, data_len) = brand_data(random);
    let counts = StockCounts { ytd: 0, quantity: random.uniform(10..=100) as i32, order_cnt: 0, remote_cnt: 0 };
    let dist = std::array::from_fn(|_| full_text(random));
    (counts, StockNotes { data_len: data_len as u8, dist, data, padding: [0; 5] })
}

/// Cuts numbers into batches of one transaction each.
fn batches(numbers: RangeInclusive<u32>) -> Vec<Vec<u32>> {
    numbers.collect::<Vec<_>>().chunks(BATCH).map(<[u32]>::to_vec).collect()
}

/// Runs a transaction that draws random numbers: a retry draws the same ones again.
fn write(
    db: &Database,
    random: &mut Random,
    mut body: impl FnMut(&Transaction<'_>, &mut Random) -> ermine::Result<()>,
) -> Result<(), Failure> {
    let before = random.clone();
    *random = db.run_with(storage::loading(), |txn| -> Result<Random, Failure> {
        let mut random = before.clone();
        body(txn, &mut random)?;
        Ok(random)
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan { warehouses: 2, scale: Scale::FULL, seed: 42, date: 1 };

    #[test]
    fn every_part_has_a_stream_of_its_own() {
        let parts = PLAN.parts();
        assert_eq!(parts.len(), 10 + 2 * 21);
        let mut firsts: Vec<_> = parts.iter().map(|&part| PLAN.stream(part).bits()).collect();
        firsts.sort_unstable();
        firsts.dedup();
        assert_eq!(firsts.len(), parts.len());
    }

    #[test]
    fn cuts_cover_every_item_once() {
        for items in [500, 100_000, 7] {
            let plan = Plan { scale: Scale { items, ..Scale::FULL }, ..PLAN };
            let all: Vec<_> = (0..CUTS).flat_map(|cut| batches(plan.cut(cut))).flatten().collect();
            assert_eq!(all, (1..=items).collect::<Vec<_>>());
        }
    }

    #[test]
    fn customers_have_the_values_of_the_rules() {
        let mut random = Random::new(1, 0);
        let customers: Vec<_> = (1..=3_000).map(|c| PLAN.customer(c, &mut random)).collect();
        for (number, customer) in (0..1000).zip(&customers) {
            assert_eq!(customer.last, last_name(number));
        }
        let bad = customers.iter().filter(|customer| customer.credit == Text(*b"BC")).count();
        assert!((230..370).contains(&bad), "{bad}");
        for customer in &customers {
            assert_eq!((customer.balance, customer.ytd_payment, customer.payment_cnt), (-1_000, 1_000, 1));
            assert_eq!((customer.credit_lim, customer.middle), (5_000_000, Text(*b"OE")));
            assert!((300..=500).contains(&customer.data_len) && customer.discount <= 5_000);
            assert_eq!(usize::from(customer.data_len), customer.data.as_bytes().len());
        }
    }

    #[test]
    fn places_have_received_the_first_payments() {
        let mut random = Random::new(1, 0);
        assert_eq!(PLAN.warehouse(&mut random).ytd, 300_000 * CENTS);
        let district = PLAN.district(&mut random);
        assert_eq!((district.ytd, district.next_o_id), (30_000 * CENTS, 3_001));
    }

    #[test]
    fn items_and_stock_have_the_values_of_the_rules() {
        let mut random = Random::new(1, 0);
        for _ in 0..1_000 {
            let (item, (stock, notes)) = (item(&mut random), stock(&mut random));
            assert!((100..=10_000).contains(&item.price) && (1..=10_000).contains(&item.im_id));
            assert!((10..=100).contains(&stock.quantity));
            assert_eq!((stock.ytd, stock.order_cnt, stock.remote_cnt), (0, 0, 0));
            assert!(notes.dist.iter().all(|dist| dist.as_bytes().len() == 24));
        }
    }
}
