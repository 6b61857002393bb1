//! Rows in an order that no path provides.
//!
//! Rows are stored one after the other; sorting moves only their numbers, each with a prefix of its keys, which decides
//! most comparisons. Rows that are not wanted, those past a limit and duplicates, are dropped whenever there are twice
//! as many rows as were left the last time: memory is bounded by the wanted rows, and each row is sorted a few times at
//! most. A row that comes behind all wanted ones is not taken at all, once there are as many.

use std::{cmp::Ordering, mem};

use super::prefix::{Prefix, prefix};
use crate::{
    error::Result,
    expr::compare,
    memory::{Kept, Memory, bytes_of},
    query::SortKey,
    types::Value,
};

/// The number of rows that may always be held, however few are wanted.
const ROOM_MIN: usize = 1024;

pub(super) struct Sorter<'q> {
    order: &'q [SortKey],
    /// The number of rows that are wanted.
    wanted: usize,
    /// Of rows that are equal in this number of leading values, one is wanted; 0: all are wanted.
    distinct: usize,
    width: usize,
    values: Vec<Value>,
    rows: Vec<Row>,
    /// The number of rows at which they are sorted and thinned out.
    room: usize,
    /// Once as many rows as are wanted were left: the prefix of the last one; no row with a greater prefix is wanted.
    /// The greatest number before that.
    last: Prefix,
    kept: Kept<'q>,
}

/// Bytes that a row takes besides its values, in a list of which up to half is empty.
const ROW: usize = 2 * size_of::<Row>();

/// A row by its number, which is in the order of arrival.
struct Row {
    prefix: Prefix,
    number: usize,
}

impl<'q> Sorter<'q> {
    pub(super) fn new(order: &'q [SortKey], wanted: Option<usize>, distinct: usize, memory: &'q Memory) -> Self {
        let is_all = wanted.is_none() && distinct == 0;
        let wanted = wanted.unwrap_or(usize::MAX);
        let room = if is_all { usize::MAX } else { ROOM_MIN };
        let (values, rows) = (Vec::new(), Vec::new());
        Self {
            order,
            wanted,
            distinct,
            width: 0,
            values,
            rows,
            room,
            last: (u64::MAX, u64::MAX),
            kept: Kept::new(memory),
        }
    }

    pub(super) fn push(&mut self, row: &[Value]) -> Result<()> {
        let prefix = prefix(self.order.iter().map(|key| (&row[key.at], key.descending, key.nulls_first)));
        if prefix > self.last {
            return Ok(());
        }
        self.kept.add(bytes_of(row) + size_of_val(row) + ROW)?;
        self.width = row.len();
        self.values.extend_from_slice(row);
        self.rows.push(Row { prefix, number: self.rows.len() });
        if self.rows.len() >= self.room {
            self.thin_out();
        }
        Ok(())
    }

    /// Returns the bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.kept.bytes()
    }

    /// Returns all wanted rows, in order.
    pub(super) fn finish(&mut self) -> impl Iterator<Item = &[Value]> {
        self.sort();
        self.rows.iter().map(|row| self.values_of(row))
    }

    fn values_of(&self, row: &Row) -> &[Value] {
        &self.values[row.number * self.width..][..self.width]
    }

    fn sort(&mut self) {
        let mut rows = mem::take(&mut self.rows);
        rows.sort_unstable_by(|left, right| {
            let by_values = || self.compare(self.values_of(left), self.values_of(right));
            left.prefix.cmp(&right.prefix).then_with(by_values).then(left.number.cmp(&right.number))
        });
        // Equal rows are adjacent; the first to arrive stays.
        if self.distinct > 0 {
            rows.dedup_by(|later, earlier| {
                later.prefix == earlier.prefix && self.compare(self.values_of(later), self.values_of(earlier)).is_eq()
            });
        }
        rows.truncate(self.wanted);
        self.rows = rows;
    }

    fn thin_out(&mut self) {
        self.sort();
        let mut kept = Vec::with_capacity(2 * self.rows.len() * self.width);
        for (number, row) in self.rows.iter_mut().enumerate() {
            kept.extend(self.values[row.number * self.width..][..self.width].iter_mut().map(mem::take));
            row.number = number;
        }
        self.values = kept;
        let rows = self.values.chunks(self.width.max(1));
        self.kept.shrink_to(rows.map(|row| bytes_of(row) + size_of_val(row) + ROW).sum());
        self.room = ROOM_MIN.max(2 * self.rows.len());
        if let Some(last) = self.rows.last().filter(|_| self.rows.len() == self.wanted) {
            self.last = last.prefix;
        }
    }

    /// Compares rows by the keys, then by the values that distinguish rows.
    fn compare(&self, left: &[Value], right: &[Value]) -> Ordering {
        let mut by_keys =
            self.order.iter().map(|key| one_key(&left[key.at], &right[key.at], key.descending, key.nulls_first));
        let by_key = by_keys.find(|order| order.is_ne());
        by_key.unwrap_or_else(|| {
            let mut others =
                left.iter().zip(right).take(self.distinct).map(|(left, right)| one_key(left, right, false, false));
            others.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        })
    }
}

/// Compares two values, with NULLs at one of the ends.
pub(super) fn one_key(left: &Value, right: &Value, descending: bool, nulls_first: bool) -> Ordering {
    let null_before_value = if nulls_first { Ordering::Less } else { Ordering::Greater };
    match (left.is_null(), right.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) => null_before_value,
        (false, true) => null_before_value.reverse(),
        (false, false) => {
            let order = compare(left, right);
            if descending { order.reverse() } else { order }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a value of one of some types: of those whose beginning is in a prefix, and of one that is not.
    fn random_value(ty: usize, random: &mut fastrand::Rng) -> Value {
        let small = random.i32(-3..3);
        let number = if random.bool() { small } else { random.i32(..) };
        match ty {
            _ if random.u8(..8) == 0 => Value::Null,
            0 => Value::Int4(number),
            1 => Value::Int2(number as i16),
            2 => Value::Int8(i64::from(number) << random.u32(..32)),
            3 => Value::Bool(random.bool()),
            4 => Value::Float8(f64::from(small)),
            5 => Value::text(format!("the same beginning {}", random.u8(..20))),
            6 => Value::Char(format!("{}{}", small.abs(), &"    "[..random.usize(..4)]).into()),
            _ => Value::text((0..random.usize(..3)).map(|_| random.char('a'..'d')).collect::<String>()),
        }
    }

    /// Returns the rows sorted by std, without prefixes and without dropping any before the end.
    fn expected(rows: &[Vec<Value>], order: &[SortKey], wanted: Option<usize>, distinct: usize) -> Vec<Vec<Value>> {
        let memory = Memory::default();
        let reference = Sorter::new(order, wanted, distinct, &memory);
        let mut sorted = rows.to_vec();
        sorted.sort_by(|left, right| reference.compare(left, right));
        if distinct > 0 {
            // Not by `==`, to which blanks at the end of a `char(n)` count.
            let is_equal = |left: &Value, right: &Value| one_key(left, right, false, false).is_eq();
            sorted.dedup_by(|later, earlier| (0..distinct).all(|at| is_equal(&later[at], &earlier[at])));
        }
        sorted.truncate(wanted.unwrap_or(usize::MAX));
        sorted
    }

    #[test]
    fn rows_come_in_order_once_and_no_more_than_wanted() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..200 {
            let count = [3, 100, 5000][random.usize(..3)];
            let types = [random.usize(..8), random.usize(..8), random.usize(..8)];
            // The last value distinguishes rows with equal keys: they stay in the order of arrival.
            let row = |random: &mut fastrand::Rng, number: usize| {
                let values = types.iter().map(|ty| random_value(*ty, random));
                values.chain([Value::Int8(number as i64)]).collect()
            };
            let rows: Vec<Vec<_>> = (0..count).map(|number| row(&mut random, number)).collect();
            let mut key = || SortKey { at: random.usize(..3), descending: random.bool(), nulls_first: random.bool() };
            let order: Vec<_> = [key(), key(), key()].into_iter().take(random.usize(1..4)).collect();
            let wanted = [None, Some(random.usize(1..2000))][random.usize(..2)];
            let distinct = [0, 3][random.usize(..2)];
            let memory = Memory::default();
            let mut sorter = Sorter::new(&order, wanted, distinct, &memory);
            let mut held = 0;
            for row in &rows {
                sorter.push(row).unwrap();
                held = held.max(sorter.rows.len());
            }
            let sorted: Vec<_> = sorter.finish().map(<[Value]>::to_vec).collect();
            assert_eq!(sorted, expected(&rows, &order, wanted, distinct));
            if let Some(wanted) = wanted {
                assert!(held <= ROOM_MIN.max(2 * wanted), "{held} rows were held where {wanted} are wanted");
            }
        }
    }
}
