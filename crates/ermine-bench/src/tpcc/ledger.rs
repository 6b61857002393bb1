//! The consistency conditions (clause 3.3.2): judges the data that was read from the database.
//!
//! This file deals with rows and sums, not with the engine: [`super::check`] reads one snapshot and hands it over, a
//! district at a time. Besides the conditions of the rules there are two of our own: `rows` (tables of fixed size have
//! all their rows) and `indexes` (a secondary index has one entry per row).

use std::collections::{HashMap, HashSet};

use super::{
    business::{DISTRICTS, Scale},
    credit_check::accepted_under,
    schema::{Customer, CustomerKey, District, History, HistoryKey, Order, ShortLine},
};
use crate::verdict::Verdict;

/// When a database is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Right after the load: condition 11 applies.
    AfterLoad,
    /// After transactions have run.
    AfterRun,
    /// After opening a database with the data of earlier runs.
    AfterOpening,
}

/// Indexes into [`STATEMENTS`]; condition n of the rules is at n - 1.
const ROWS: usize = 12;
const INDEXES: usize = 13;

const STATEMENTS: [(&str, &str); 14] = [
    ("1", "w_ytd = sum(d_ytd)"),
    ("2", "d_next_o_id - 1 = max(o_id) = max(no_o_id)"),
    ("3", "max(no_o_id) - min(no_o_id) + 1 = count(new_order)"),
    ("4", "sum(o_ol_cnt) = count(order_line)"),
    ("5", "o_carrier_id is null exactly when the order is in new_order"),
    ("6", "o_ol_cnt = number of the order's lines"),
    ("7", "ol_delivery_d is null exactly when o_carrier_id is"),
    ("8", "w_ytd = sum(h_amount) of the warehouse"),
    ("9", "d_ytd = sum(h_amount) of the district"),
    ("10", "c_balance = sum(ol_amount) delivered - sum(h_amount)"),
    ("11", "count(order) - count(new_order) = orders loaded as delivered"),
    ("12", "c_balance + c_ytd_payment = sum(ol_amount) delivered"),
    ("rows", "item, warehouse, district, customer and stock have the rows loaded"),
    ("indexes", "secondary indexes have an entry for each row"),
];

/// All conditions, with the results so far.
pub(super) struct Ledger {
    scale: Scale,
    moment: Moment,
    verdicts: Vec<Verdict>,
}

/// Sums over a warehouse's districts.
#[derive(Default)]
pub(super) struct WarehouseSums {
    districts_ytd: i64,
    payments: i64,
}

impl Ledger {
    pub(super) fn new(scale: Scale, moment: Moment) -> Self {
        let verdict = |&(condition, statement)| Verdict::new(condition, statement);
        Self { scale, moment, verdicts: STATEMENTS.iter().map(verdict).collect() }
    }

    /// The verdicts on the conditions that apply at this moment.
    pub(super) fn close(mut self) -> Vec<Verdict> {
        if self.moment != Moment::AfterLoad {
            self.verdicts.retain(|verdict| verdict.condition != "11");
        }
        self.verdicts
    }

    /// Counts a comparison of condition `place`; `difference` is called only if it does not hold.
    fn compare(&mut self, place: usize, holds: bool, difference: impl FnOnce() -> String) {
        self.verdicts[place].compare(holds, difference);
    }

    /// Counts a comparison of condition `number` of the rules.
    fn condition(&mut self, number: usize, holds: bool, difference: impl FnOnce() -> String) {
        self.compare(number - 1, holds, difference);
    }

    /// Checks that a table has as many rows as were loaded.
    pub(super) fn rows(&mut self, table: &str, found: u64, loaded: u64) {
        self.compare(ROWS, found == loaded, || format!("{table} has {found} rows, {loaded} were loaded"));
    }

    /// Checks that an index has as many entries as its table has rows.
    pub(super) fn index(&mut self, index: &str, (w, d): (u32, u8), entries: u64, rows: u64) {
        self.compare(INDEXES, entries == rows, || {
            format!("district {w}.{d}: {index} has {entries} entries, its table {rows} rows")
        });
    }

    /// Checks a warehouse, after all of its districts.
    pub(super) fn warehouse(&mut self, w: u32, ytd: i64, sums: &WarehouseSums) {
        let &WarehouseSums { districts_ytd, payments } = sums;
        self.condition(1, ytd == districts_ytd, || {
            format!("warehouse {w}: w_ytd {}, sum(d_ytd) {}", money(ytd), money(districts_ytd))
        });
        self.condition(8, ytd == payments, || {
            format!("warehouse {w}: w_ytd {}, sum(h_amount) {}", money(ytd), money(payments))
        });
    }

    /// Checks a district, and adds it to its warehouse.
    pub(super) fn district(&mut self, facts: &DistrictFacts, payments: &Payments, sums: &mut WarehouseSums) {
        let paid = payments.at_district(facts.key);
        sums.districts_ytd += facts.ytd;
        sums.payments += paid;
        let (w, d) = facts.key;
        self.condition(9, facts.ytd == paid, || {
            format!("district {w}.{d}: d_ytd {}, sum(h_amount) {}", money(facts.ytd), money(paid))
        });
        self.order_numbers(facts);
        self.orders(facts);
        self.customers(facts, payments);
    }

    /// Checks conditions 2, 3, 4 and 11: numbers and counts of a district's orders.
    fn order_numbers(&mut self, facts: &DistrictFacts) {
        let (w, d) = facts.key;
        let last = i64::from(facts.next_o_id) - 1;
        let newest = facts.orders.iter().map(|order| order.o_id).max().map(i64::from);
        let first_new = facts.new_orders.iter().min().copied().map(i64::from);
        let last_new = facts.new_orders.iter().max().copied().map(i64::from);
        // A district whose orders are all delivered has no row in NEW_ORDER.
        let holds = newest == Some(last) && last_new.is_none_or(|last_new| last_new == last);
        self.condition(2, holds, || {
            format!("district {w}.{d}: d_next_o_id - 1 = {last}, max(o_id) {newest:?}, max(no_o_id) {last_new:?}")
        });
        let count = facts.new_orders.len() as i64;
        let span = first_new.zip(last_new).map_or(0, |(first, last)| last - first + 1);
        self.condition(3, span == count, || {
            format!("district {w}.{d}: new orders {first_new:?} to {last_new:?}, but {count} rows")
        });
        let promised: u64 = facts.orders.iter().map(|order| u64::from(order.ol_cnt)).sum();
        let lines = facts.lines();
        self.condition(4, promised == lines, || {
            format!("district {w}.{d}: sum(o_ol_cnt) {promised}, but {lines} order lines")
        });
        if self.moment == Moment::AfterLoad {
            let (orders, wanted) = (facts.orders.len() as i64, i64::from(self.scale.delivered()));
            self.condition(11, orders - count == wanted, || {
                format!("district {w}.{d}: {orders} orders - {count} new orders is not {wanted}")
            });
        }
    }

    /// Checks conditions 5, 6 and 7: every order against its lines and NEW_ORDER.
    fn orders(&mut self, facts: &DistrictFacts) {
        let (w, d) = facts.key;
        let mut new_orders: HashSet<u32> = facts.new_orders.iter().copied().collect();
        for order in &facts.orders {
            let &OrderFacts { o_id, undelivered, ol_cnt, lines, lines_undelivered, .. } = order;
            let is_new = new_orders.remove(&o_id);
            self.condition(5, undelivered == is_new, || {
                format!("order {w}.{d}.{o_id}: carrier null is {undelivered}, in new_order is {is_new}")
            });
            self.condition(6, u32::from(ol_cnt) == lines, || {
                format!("order {w}.{d}.{o_id}: o_ol_cnt {ol_cnt}, but {lines} lines")
            });
            let wanted = if undelivered { lines } else { 0 };
            self.condition(7, lines_undelivered == wanted, || {
                format!(
                    "order {w}.{d}.{o_id}: carrier null is {undelivered}, \
                     delivery date null in {lines_undelivered} of {lines} lines"
                )
            });
        }
        for o_id in new_orders {
            self.condition(5, false, || format!("order {w}.{d}.{o_id} is in new_order only"));
        }
        if let Some(o_id) = facts.stray_lines.first() {
            let count = facts.stray_lines.len();
            self.condition(6, false, || format!("{count} lines have no order, the first is of {w}.{d}.{o_id}"));
        }
    }

    /// Checks conditions 10 and 12: the balances of customers.
    fn customers(&mut self, facts: &DistrictFacts, payments: &Payments) {
        let (w, d) = facts.key;
        let mut delivered =
            vec![0; facts.customers.iter().map(|customer| customer.c_id).max().unwrap_or(0) as usize + 1];
        for order in &facts.orders {
            match delivered.get_mut(order.c_id as usize) {
                Some(sum) => *sum += order.delivered_sum,
                None => self.condition(10, false, || format!("order {w}.{d}.{} is of no customer", order.o_id)),
            }
        }
        for &CustomerFacts { c_id, balance, ytd_payment } in &facts.customers {
            let delivered = delivered[c_id as usize];
            let paid = payments.of_customer((w, d, c_id));
            self.condition(10, balance == delivered - paid, || {
                format!(
                    "customer {w}.{d}.{c_id}: c_balance {}, delivered {} - paid {}",
                    money(balance),
                    money(delivered),
                    money(paid)
                )
            });
            self.condition(12, balance + ytd_payment == delivered, || {
                format!(
                    "customer {w}.{d}.{c_id}: c_balance {} + c_ytd_payment {}, delivered {}",
                    money(balance),
                    money(ytd_payment),
                    money(delivered)
                )
            });
        }
    }
}

/// Sums of HISTORY, by the district that received and by the customer that paid.
pub(super) struct Payments {
    customers: u32,
    by_district: Vec<i64>,
    by_customer: Vec<i64>,
    /// Payments under keys that no warehouse has: missing in every sum, so that conditions 8 to 10 fail.
    pub(super) strays: u64,
}

impl Payments {
    pub(super) fn new(warehouses: u32, scale: Scale) -> Self {
        let districts = warehouses as usize * usize::from(DISTRICTS);
        let customers = scale.customers;
        let by_customer = vec![0; districts * customers as usize];
        Self { customers, by_district: vec![0; districts], by_customer, strays: 0 }
    }

    pub(super) fn add(&mut self, (w, d, _): HistoryKey, row: &History) {
        let (place, customer) = (district_place((w, d)), self.customer_place((row.c_w_id, row.c_d_id, row.c_id)));
        let sums = place
            .and_then(|place| self.by_district.get_mut(place))
            .zip(customer.and_then(|place| self.by_customer.get_mut(place)));
        match sums {
            Some((at_district, of_customer)) => {
                *at_district += row.amount;
                *of_customer += row.amount;
            }
            None => self.strays += 1,
        }
    }

    fn at_district(&self, key: (u32, u8)) -> i64 {
        district_place(key).and_then(|place| self.by_district.get(place)).copied().unwrap_or(0)
    }

    fn of_customer(&self, key: CustomerKey) -> i64 {
        self.customer_place(key).and_then(|place| self.by_customer.get(place)).copied().unwrap_or(0)
    }

    fn customer_place(&self, (w, d, c): CustomerKey) -> Option<usize> {
        let valid = (1..=self.customers).contains(&c);
        district_place((w, d)).filter(|_| valid).map(|place| place * self.customers as usize + c as usize - 1)
    }
}

fn district_place((w, d): (u32, u8)) -> Option<usize> {
    let valid = w >= 1 && (1..=DISTRICTS).contains(&d);
    valid.then(|| (w as usize - 1) * usize::from(DISTRICTS) + usize::from(d) - 1)
}

/// The facts about one district that the conditions need. Rows are added in key order.
pub(super) struct DistrictFacts {
    key: (u32, u8),
    ytd: i64,
    next_o_id: u32,
    orders: Vec<OrderFacts>,
    new_orders: Vec<u32>,
    customers: Vec<CustomerFacts>,
    /// Orders that lines name, but that do not exist.
    stray_lines: Vec<u32>,
}

struct OrderFacts {
    o_id: u32,
    c_id: u32,
    undelivered: bool,
    ol_cnt: u8,
    credit_check: u8,
    lines: u32,
    lines_undelivered: u32,
    delivered_sum: i64,
}

struct CustomerFacts {
    c_id: u32,
    balance: i64,
    ytd_payment: i64,
}

impl DistrictFacts {
    pub(super) fn new(key: (u32, u8), row: &District) -> Self {
        let &District { ytd, next_o_id, .. } = row;
        Self {
            key,
            ytd,
            next_o_id,
            orders: Vec::new(),
            new_orders: Vec::new(),
            customers: Vec::new(),
            stray_lines: Vec::new(),
        }
    }

    pub(super) fn customer(&mut self, c_id: u32, row: &Customer) {
        self.customers.push(CustomerFacts { c_id, balance: row.balance, ytd_payment: row.ytd_payment });
    }

    pub(super) fn order(&mut self, o_id: u32, row: &Order) {
        self.orders.push(OrderFacts {
            o_id,
            c_id: row.c_id,
            undelivered: row.carrier_id == 0,
            ol_cnt: row.ol_cnt,
            credit_check: row.credit_check,
            lines: 0,
            lines_undelivered: 0,
            delivered_sum: 0,
        });
    }

    pub(super) fn new_order(&mut self, o_id: u32) {
        self.new_orders.push(o_id);
    }

    /// Adds a line; all orders have been added before.
    pub(super) fn line(&mut self, o_id: u32, row: ShortLine) {
        let Ok(place) = self.orders.binary_search_by_key(&o_id, |order| order.o_id) else {
            return self.stray_lines.push(o_id);
        };
        let order = &mut self.orders[place];
        order.lines += 1;
        if row.delivery_d == 0 {
            order.lines_undelivered += 1;
        } else {
            order.delivered_sum += row.amount;
        }
    }

    /// Judges every order against the credit checks of its customer, each with the newest order that it saw.
    pub(super) fn credit(&self, checks: &HashMap<u32, Vec<u32>>, verdict: &mut Verdict) {
        let (w, d) = self.key;
        for &OrderFacts { o_id, c_id, credit_check, .. } in &self.orders {
            let wanted = accepted_under(o_id, checks.get(&c_id).map_or(&[], |newest| newest));
            verdict.compare(credit_check == wanted, || {
                format!("order {w}.{d}.{o_id} read check {credit_check}, the last that had not seen it is {wanted}")
            });
        }
    }

    pub(super) fn customer_count(&self) -> u64 {
        self.customers.len() as u64
    }

    pub(super) fn order_count(&self) -> u64 {
        self.orders.len() as u64
    }

    fn lines(&self) -> u64 {
        self.orders.iter().map(|order| u64::from(order.lines)).sum::<u64>() + self.stray_lines.len() as u64
    }
}

/// Formats cents as money.
fn money(cents: i64) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", cents.unsigned_abs() / 100, cents.unsigned_abs() % 100)
}

#[cfg(test)]
mod tests {
    use ermine::zerocopy::FromZeros;

    use super::*;
    use crate::verdict::all_hold;

    /// A business of one warehouse whose first district has three customers and three orders, the last one new.
    struct Books {
        w_ytd: i64,
        districts: Vec<District>,
        customers: Vec<Customer>,
        orders: Vec<(u32, Order)>,
        new_orders: Vec<u32>,
        lines: Vec<(u32, ShortLine)>,
        history: Vec<(HistoryKey, History)>,
    }

    const SCALE: Scale = Scale { items: 1, customers: 3, new_orders: 1, last_names: 1 };

    fn books() -> Books {
        let order = |c_id, carrier_id| Order { c_id, carrier_id, ol_cnt: 2, ..Order::new_zeroed() };
        let line = |delivery_d, amount| ShortLine { delivery_d, amount, ..ShortLine::new_zeroed() };
        let mut districts = vec![District { next_o_id: 1, ..District::new_zeroed() }; usize::from(DISTRICTS)];
        districts[0] = District { ytd: 3_000, next_o_id: 4, ..districts[0] };
        let customer =
            |delivered: i64| Customer { balance: delivered - 1_000, ytd_payment: 1_000, ..Customer::new_zeroed() };
        Books {
            w_ytd: 3_000,
            districts,
            customers: vec![customer(300), customer(0), customer(0)],
            orders: vec![(1, order(2, 7)), (2, order(1, 8)), (3, order(3, 0))],
            new_orders: vec![3],
            lines: vec![
                (1, line(5, 0)),
                (1, line(5, 0)),
                (2, line(6, 100)),
                (2, line(6, 200)),
                (3, line(0, 50)),
                (3, line(0, 50)),
            ],
            history: (1..=3)
                .map(|c_id| {
                    let key = (1, 1, u64::from(c_id));
                    (key, History { amount: 1_000, c_w_id: 1, c_id, c_d_id: 1, ..History::new_zeroed() })
                })
                .collect(),
        }
    }

    fn judge(books: &Books, moment: Moment) -> Vec<Verdict> {
        let mut ledger = Ledger::new(SCALE, moment);
        let mut payments = Payments::new(1, SCALE);
        books.history.iter().for_each(|(key, row)| payments.add(*key, row));
        let mut sums = WarehouseSums::default();
        for (d, row) in (1..).zip(&books.districts) {
            let mut facts = DistrictFacts::new((1, d), row);
            if d == 1 {
                (1..).zip(&books.customers).for_each(|(c, row)| facts.customer(c, row));
                books.orders.iter().for_each(|(o, row)| facts.order(*o, row));
                books.new_orders.iter().for_each(|o| facts.new_order(*o));
                books.lines.iter().for_each(|(o, row)| facts.line(*o, *row));
                ledger.index("order_by_customer", (1, d), facts.order_count(), 3);
                ledger.rows("customer", facts.customer_count(), 3);
                ledger.district(&facts, &payments, &mut sums);
            } else {
                // Only the payments of this warehouse: districts without orders are not part of these books.
                sums.districts_ytd += row.ytd;
                sums.payments += payments.at_district((1, d));
            }
        }
        ledger.warehouse(1, books.w_ytd, &sums);
        ledger.close()
    }

    fn failed(change: impl FnOnce(&mut Books), moment: Moment) -> Vec<&'static str> {
        let mut books = books();
        change(&mut books);
        judge(&books, moment).iter().filter(|verdict| !verdict.holds()).map(|verdict| verdict.condition).collect()
    }

    #[test]
    fn good_books_pass() {
        assert_eq!(failed(|_| {}, Moment::AfterLoad), Vec::<&str>::new());
        assert_eq!(judge(&books(), Moment::AfterLoad).len(), 14);
    }

    #[test]
    fn every_condition_notices_its_fault() {
        let load = Moment::AfterLoad;
        assert_eq!(failed(|books| books.w_ytd += 1, load), ["1", "8"]);
        assert_eq!(failed(|books| books.districts[0].ytd += 1, load), ["1", "9"]);
        assert_eq!(failed(|books| books.districts[0].next_o_id += 1, load), ["2"]);
        assert_eq!(failed(|books| books.new_orders[0] = 2, load), ["2", "5"]);
        assert_eq!(failed(|books| books.new_orders.insert(0, 1), load), ["3", "5", "11"]);
        assert_eq!(failed(|books| books.orders[0].1.ol_cnt += 1, load), ["4", "6"]);
        assert_eq!(failed(|books| books.orders[2].1.carrier_id = 1, load), ["5", "7"]);
        let swap = |books: &mut Books| {
            books.orders[0].1.ol_cnt += 1;
            books.orders[1].1.ol_cnt -= 1;
        };
        assert_eq!(failed(swap, load), ["6"]);
        assert_eq!(failed(|books| books.lines[0].1.delivery_d = 0, load), ["7"]);
        assert_eq!(failed(|books| books.history[0].1.amount += 1, load), ["8", "9", "10"]);
        assert_eq!(failed(|books| books.history[0].0.1 = 2, load), ["9"]);
        assert_eq!(failed(|books| books.customers[0].balance += 1, load), ["10", "12"]);
        assert_eq!(failed(|books| books.customers[0].ytd_payment += 1, load), ["12"]);
        assert_eq!(failed(|books| books.lines[2].1.amount += 1, load), ["10", "12"]);
    }

    #[test]
    fn rows_without_their_order_are_noticed() {
        let load = Moment::AfterLoad;
        assert_eq!(failed(|books| books.lines[5].0 = 9, load), ["6"]);
        assert_eq!(failed(|books| books.new_orders.push(4), load), ["2", "5", "11"]);
        assert_eq!(failed(|books| books.history[0].1.c_id = 99, load), ["8", "9", "10"]);
        assert_eq!(failed(|books| books.orders[1].1.c_id = 99, load), ["10", "12"]);
    }

    #[test]
    fn sizes_are_noticed() {
        let mut ledger = Ledger::new(SCALE, Moment::AfterRun);
        ledger.rows("item", 2, 1);
        ledger.index("customer_by_name", (1, 1), 2, 3);
        let faults: Vec<_> = ledger.close().iter().map(|verdict| verdict.faults).collect();
        assert_eq!(faults, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
    }

    #[test]
    fn condition_eleven_is_not_asked_after_a_run() {
        let deliver = |books: &mut Books| {
            books.new_orders.clear();
            books.orders[2].1.carrier_id = 1;
            books.lines[4].1.delivery_d = 9;
            books.lines[5].1.delivery_d = 9;
            books.customers[2].balance += 100;
        };
        assert_eq!(failed(deliver, Moment::AfterLoad), ["11"]);
        // Neither is the highest new order, if there is none.
        assert_eq!(failed(deliver, Moment::AfterRun), Vec::<&str>::new());
    }

    #[test]
    fn what_was_never_compared_does_not_hold() {
        assert!(!all_hold(&Ledger::new(SCALE, Moment::AfterRun).close()));
    }

    #[test]
    fn money_shows_cents() {
        assert_eq!([money(-1_005), money(7), money(300_000)], ["-10.05", "0.07", "3000.00"]);
    }
}
