//! Rows in an order that no path provides.
//!
//! Rows are stored one after the other; sorting moves only their numbers, each with a prefix of its first key as a
//! number, which decides most comparisons. Rows that are not wanted, those past a limit and duplicates, are dropped
//! whenever there are twice as many rows as were left the last time: memory is bounded by the wanted rows, and each row
//! is sorted a few times at most.

use std::{cmp::Ordering, mem};

use crate::{
    error::Result,
    expr::compare,
    memory::{Kept, Memory, bytes_of},
    query::SortKey,
    types::{Value, order::without_padding},
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
    kept: Kept<'q>,
}

/// A row by its number, which is in the order of arrival.
struct Row {
    prefix: u64,
    number: usize,
}

impl<'q> Sorter<'q> {
    pub(super) fn new(order: &'q [SortKey], wanted: Option<usize>, distinct: usize, memory: &'q Memory) -> Self {
        let is_all = wanted.is_none() && distinct == 0;
        let wanted = wanted.unwrap_or(usize::MAX);
        let room = if is_all { usize::MAX } else { ROOM_MIN };
        Self { order, wanted, distinct, width: 0, values: Vec::new(), rows: Vec::new(), room, kept: Kept::new(memory) }
    }

    pub(super) fn push(&mut self, row: &[Value]) -> Result<()> {
        self.kept.add_row(row)?;
        self.width = row.len();
        self.values.extend_from_slice(row);
        let first = &self.order[0];
        self.rows.push(Row { prefix: prefix(&row[first.at], first), number: self.rows.len() });
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
        self.kept.shrink_to(rows.map(|row| bytes_of(row) + size_of_val(row)).sum());
        self.room = ROOM_MIN.max(2 * self.rows.len());
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

/// Returns a number for a value: if it is less than another value's number, the value sorts before that one.
fn prefix(value: &Value, key: &SortKey) -> u64 {
    const SIGN: u64 = 1 << 63;
    let ascending = match value {
        Value::Null => return if key.nulls_first { 0 } else { u64::MAX },
        Value::Int2(number) => *number as u64 ^ SIGN,
        Value::Int4(number) | Value::Date(number) => *number as u64 ^ SIGN,
        Value::Int8(number) | Value::Timestamp(number) | Value::TimestampTz(number) => *number as u64 ^ SIGN,
        Value::Text(text) => beginning(text),
        Value::Char(text) => beginning(without_padding(text)),
        _ => 0,
    };
    if key.descending { !ascending } else { ascending }
}

/// Returns the first bytes of a text as a number.
fn beginning(text: &str) -> u64 {
    let mut bytes = [0; 8];
    let length = text.len().min(8);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    u64::from_be_bytes(bytes)
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

    fn random_value(random: &mut fastrand::Rng) -> Value {
        match random.u8(..8) {
            0 => Value::Null,
            _ => Value::Int4(random.i32(-20..20)),
        }
    }

    fn random_text(random: &mut fastrand::Rng) -> Value {
        match random.u8(..8) {
            0 => Value::Null,
            1 => Value::text(format!("the same beginning {}", random.u8(..20))),
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
            sorted.dedup_by(|later, earlier| later[..distinct] == earlier[..distinct]);
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
            // The third value distinguishes rows with equal keys: they stay in the order of arrival.
            let row = |random: &mut fastrand::Rng, number: usize| {
                vec![random_text(random), random_value(random), Value::Int8(number as i64)]
            };
            let rows: Vec<_> = (0..count).map(|number| row(&mut random, number)).collect();
            let mut key = || SortKey { at: random.usize(..2), descending: random.bool(), nulls_first: random.bool() };
            let order = [key(), key()];
            let wanted = [None, Some(random.usize(1..2000))][random.usize(..2)];
            let distinct = [0, 2][random.usize(..2)];
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
