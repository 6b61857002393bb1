//! Payment: a customer pays at a district (clause 2.5).

use std::io::Write;

use ermine::{Access, Job, Scheme, Transaction};

use super::{
    business::{Business, Failure},
    customer::{Pick, find},
    rows::Rows,
    schema::{Customer, District, History, Text, Warehouse},
    tables::Tables,
};
use crate::random::Random;

/// Input of a Payment.
#[derive(Clone, Debug)]
pub struct PaymentInput {
    /// The district where it is paid.
    w_id: u32,
    d_id: u8,
    /// The district that the customer belongs to.
    c_w_id: u32,
    c_d_id: u8,
    customer: Pick,
    /// In cents.
    amount: i64,
    date: u64,
    /// The last part of the key in HISTORY.
    unique: u64,
}

/// Percentage of payments whose customer belongs to another warehouse.
const REMOTE_PERCENT: u64 = 15;

impl PaymentInput {
    /// Draws a random payment at warehouse `home`; no other payment uses `unique`.
    pub fn draw(business: &Business, home: u32, date: u64, unique: u64, random: &mut Random) -> Self {
        let d_id = business.district(random);
        let remote = business.warehouses > 1 && random.percent(REMOTE_PERCENT);
        let (c_w_id, c_d_id) =
            if remote { (business.another_warehouse(home, random), business.district(random)) } else { (home, d_id) };
        Self {
            w_id: home,
            d_id,
            c_w_id,
            c_d_id,
            customer: Pick::draw(business, random),
            amount: random.uniform(100..=500_000) as i64,
            date,
            unique,
        }
    }
}

/// The transaction.
pub struct Payment<'a, R: Rows> {
    /// The tables.
    pub tables: &'a Tables<R>,
    /// The input.
    pub input: PaymentInput,
}

impl<R: Rows> Job for Payment<'_, R> {
    /// The customer's balance, in cents.
    type Output = i64;
    type Error = Failure;

    const SCHEMES: &'static [Scheme] = R::SCHEMES;

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<i64, Failure> {
        let tables = self.tables;
        let &PaymentInput { w_id, d_id, c_w_id, c_d_id, customer, amount, date, unique } = &self.input;

        let mut warehouse = *txn.view(&tables.warehouse, &w_id)?.ok_or_else(|| Failure::Missing("warehouse"))?;
        warehouse.ytd += amount;
        txn.update(&tables.warehouse, &w_id, &warehouse)?;
        let mut district = *txn.view(&tables.district, &(w_id, d_id))?.ok_or_else(|| Failure::Missing("district"))?;
        district.ytd += amount;
        txn.update(&tables.district, &(w_id, d_id), &district)?;

        let (c_id, mut customer) = find(txn, tables, (c_w_id, c_d_id), customer)?;
        customer.balance -= amount;
        customer.ytd_payment += amount;
        customer.payment_cnt += 1;
        let credit = match &tables.credit {
            Some(credit) => {
                let status = txn.view(&credit.status, &(c_w_id, c_d_id, c_id))?;
                status.ok_or_else(|| Failure::Missing("credit of a customer"))?.status
            }
            None => customer.credit,
        };
        if credit == Text(*b"BC") {
            note(&mut customer, (c_id, c_d_id, c_w_id), (d_id, w_id), amount);
        }
        txn.update(&tables.customer, &(c_w_id, c_d_id, c_id), &customer)?;

        let data = receipt(&warehouse, &district);
        let history = History { amount, date, c_w_id, c_id, c_d_id, data, padding: [0; 7] };
        txn.insert(&tables.history, &(w_id, d_id, unique), &history)?;
        Ok(customer.balance)
    }
}

/// Inserts a payment in front of the notes on a customer with bad credit; bytes beyond 500 are lost.
fn note(customer: &mut Customer, (c, c_d, c_w): (u32, u8, u32), (d, w): (u8, u32), amount: i64) {
    let mut entry = [0; 80];
    let mut rest = &mut entry[..];
    write!(rest, "{c} {c_d} {c_w} {d} {w} {}.{:02}|", amount / 100, amount % 100).expect("six short numbers fit");
    let unused = rest.len();
    let entry = &entry[..entry.len() - unused];

    let data = &mut customer.data.0;
    let kept = data.len() - entry.len();
    data.copy_within(..kept, entry.len());
    data[..entry.len()].copy_from_slice(entry);
    customer.data_len = data.len().min(usize::from(customer.data_len) + entry.len()) as u16;
}

/// The names of the warehouse and the district, with four blanks between.
fn receipt(warehouse: &Warehouse, district: &District) -> Text<24> {
    let (w_name, d_name) = (warehouse.name.as_bytes(), district.name.as_bytes());
    let mut data = [0; 24];
    data[..w_name.len()].copy_from_slice(w_name);
    data[w_name.len()..w_name.len() + 4].fill(b' ');
    data[w_name.len() + 4..][..d_name.len()].copy_from_slice(d_name);
    Text(data)
}

#[cfg(test)]
mod tests {
    use ermine::zerocopy::FromZeros;

    use super::*;
    use crate::tpcc::{DISTRICTS, Scale};

    const BUSINESS: Business = Business { warehouses: 5, scale: Scale::FULL, remote_percent: 1, mistakes_percent: 1 };

    #[test]
    fn fifteen_percent_are_remote() {
        let mut random = Random::new(1, 0);
        let inputs: Vec<_> = (0..20_000).map(|n| PaymentInput::draw(&BUSINESS, 2, 0, n, &mut random)).collect();
        let remote = inputs.iter().filter(|input| input.c_w_id != 2).count();
        assert!((2_800..3_200).contains(&remote), "{remote}");
        for input in &inputs {
            assert!(input.c_w_id != input.w_id || input.c_d_id == input.d_id);
            assert!((1..=DISTRICTS).contains(&input.c_d_id) && (100..=500_000).contains(&input.amount));
        }
    }

    #[test]
    fn one_warehouse_has_no_remote_payment() {
        let alone = Business { warehouses: 1, ..BUSINESS };
        let mut random = Random::new(1, 0);
        for _ in 0..1_000 {
            let input = PaymentInput::draw(&alone, 1, 0, 0, &mut random);
            assert_eq!((input.c_w_id, input.c_d_id), (1, input.d_id));
        }
    }

    #[test]
    fn bad_credit_is_noted_in_front_and_cut_at_500() {
        let mut customer = Customer::new_zeroed();
        customer.data.0[..499].fill(b'x');
        customer.data_len = 499;
        note(&mut customer, (1234, 5, 6), (7, 8), 123_405);
        assert!(customer.data.as_bytes().starts_with(b"1234 5 6 7 8 1234.05|xxx"));
        assert_eq!((customer.data_len, customer.data.as_bytes().len()), (500, 500));

        let mut short = Customer::new_zeroed();
        note(&mut short, (1, 2, 3), (4, 5), 100);
        assert_eq!(short.data.as_bytes(), b"1 2 3 4 5 1.00|");
        assert_eq!(usize::from(short.data_len), short.data.as_bytes().len());
    }

    #[test]
    fn the_longest_note_fits() {
        let mut customer = Customer::new_zeroed();
        note(&mut customer, (u32::MAX, u8::MAX, u32::MAX), (u8::MAX, u32::MAX), i64::MAX);
        assert!(customer.data.as_bytes().ends_with(b"|"));
    }

    #[test]
    fn a_receipt_names_both_places() {
        let warehouse = Warehouse { name: Text::new(b"abcdefghij"), ..Warehouse::new_zeroed() };
        let district = District { name: Text::new(b"klmnop"), ..District::new_zeroed() };
        assert_eq!(receipt(&warehouse, &district).as_bytes(), b"abcdefghij    klmnop");
    }
}
