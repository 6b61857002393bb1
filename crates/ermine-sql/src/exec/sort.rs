//! Rows in an order that no path provides.
//!
//! Rows are stored one after the other; sorting moves only their numbers, each with a prefix of its keys, which decides
//! most comparisons. Rows that are not wanted, those past a limit and duplicates, are dropped whenever there are twice
//! as many rows as were left the last time: memory is bounded by the wanted rows, and each row is sorted a few times at
//! most. A row that comes behind all wanted ones is not taken at all, once there are as many.
//!
//! Rows that do not fit into memory are sorted, and go to a temporary file as a run. In the end the runs are merged: as
//! many at a time as fit into memory, each with a chunk.

use std::{cmp::Ordering, collections::BinaryHeap, collections::binary_heap::PeekMut, mem, ops::ControlFlow};

use super::{
    Emit,
    prefix::{Prefix, prefix},
    space::{Reader, Space},
};
use crate::{
    error::Result,
    expr::compare,
    memory::{Kept, bytes_of},
    query::SortKey,
    tape::Tape,
    types::Value,
};

/// The number of rows that may always be held, however few are wanted.
const ROOM_MIN: usize = 1024;

/// The order of rows.
#[derive(Clone, Copy)]
struct Keys<'q> {
    order: &'q [SortKey],
    /// Of rows that are equal in this number of leading values, one is wanted; 0: all are wanted.
    distinct: usize,
}

pub(super) struct Sorter<'q, 'r> {
    keys: Keys<'q>,
    /// The number of rows that are wanted.
    wanted: usize,
    space: &'q Space<'r>,
    width: usize,
    values: Vec<Value>,
    rows: Vec<Row>,
    /// The number of rows at which they are sorted and thinned out.
    room: usize,
    /// Once as many rows as are wanted were left: the prefix of the last one; no row with a greater prefix is wanted.
    /// The greatest number before that.
    last: Prefix,
    kept: Kept<'q>,
    /// The most bytes that were held.
    held: usize,
    /// Sorted rows that are in the file, in the order of their arrival.
    runs: Vec<Tape>,
    /// The bytes of all runs that were written.
    written: u64,
}

/// Bytes that a row takes besides its values, in a list of which up to half is empty.
const ROW: usize = 2 * size_of::<Row>();

/// A row by its number, which is in the order of arrival.
struct Row {
    prefix: Prefix,
    number: usize,
}

impl<'q, 'r> Sorter<'q, 'r> {
    pub(super) fn new(order: &'q [SortKey], wanted: Option<usize>, distinct: usize, space: &'q Space<'r>) -> Self {
        let is_all = wanted.is_none() && distinct == 0;
        let wanted = wanted.unwrap_or(usize::MAX);
        let room = if is_all { usize::MAX } else { ROOM_MIN };
        Self {
            keys: Keys { order, distinct },
            wanted,
            space,
            width: 0,
            values: Vec::new(),
            rows: Vec::new(),
            room,
            last: (u64::MAX, u64::MAX),
            kept: Kept::new(space.memory()),
            held: 0,
            runs: Vec::new(),
            written: 0,
        }
    }

    pub(super) fn push(&mut self, row: &[Value]) -> Result<()> {
        let prefix = self.keys.prefix(row);
        if prefix > self.last {
            return Ok(());
        }
        let bytes = bytes_of(row) + size_of_val(row) + ROW;
        if !self.kept.try_add(bytes) {
            self.spill()?;
            self.kept.add(bytes)?;
        }
        self.width = row.len();
        self.values.extend_from_slice(row);
        self.rows.push(Row { prefix, number: self.rows.len() });
        if self.rows.len() >= self.room {
            self.thin_out();
        }
        Ok(())
    }

    /// Returns the most bytes of memory that it has held.
    pub(super) fn bytes(&self) -> usize {
        self.held.max(self.kept.bytes())
    }

    /// Returns the bytes that it has written to the temporary file.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Sorts the rows, when all have come.
    pub(super) fn complete(&mut self) -> Result<()> {
        if self.runs.is_empty() {
            self.sort();
            return Ok(());
        }
        self.spill()?;
        loop {
            let widest = self.runs.iter().map(Tape::widest).max().unwrap_or(1).max(1);
            let at_a_time = (self.space.memory().work_mem() / 8 / widest).max(2);
            if self.runs.len() <= at_a_time {
                return Ok(());
            }
            let runs = mem::take(&mut self.runs);
            for some in runs.chunks(at_a_time) {
                let mut merged = self.space.tape()?;
                let _ = self.merge(some, &mut |row| {
                    merged.push(&[], row)?;
                    Ok(ControlFlow::Continue(()))
                })?;
                merged.end()?;
                self.written += merged.bytes();
                self.runs.push(merged);
            }
        }
    }

    /// Emits all wanted rows, in order, when they have been sorted.
    pub(super) fn emit(&self, emit: &mut Emit<'_>) -> Result<ControlFlow<()>> {
        if !self.runs.is_empty() {
            return self.merge(&self.runs, emit);
        }
        for row in &self.rows {
            if emit(self.values_of(row))?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn values_of(&self, row: &Row) -> &[Value] {
        &self.values[row.number * self.width..][..self.width]
    }

    fn sort(&mut self) {
        let mut rows = mem::take(&mut self.rows);
        let keys = self.keys;
        rows.sort_unstable_by(|left, right| {
            let by_values = || keys.compare(self.values_of(left), self.values_of(right));
            left.prefix.cmp(&right.prefix).then_with(by_values).then(left.number.cmp(&right.number))
        });
        // Equal rows are adjacent; the first to arrive stays.
        if keys.distinct > 0 {
            rows.dedup_by(|later, earlier| {
                later.prefix == earlier.prefix && keys.compare(self.values_of(later), self.values_of(earlier)).is_eq()
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
        self.note_last();
    }

    fn note_last(&mut self) {
        if let Some(last) = self.rows.last().filter(|_| self.rows.len() == self.wanted) {
            self.last = self.last.min(last.prefix);
        }
    }

    /// Makes the rows in memory a run in the file.
    #[cold]
    fn spill(&mut self) -> Result<()> {
        self.held = self.bytes();
        if self.rows.is_empty() {
            return Ok(());
        }
        self.sort();
        self.note_last();
        let run = self.space.tape_of(self.rows.iter().map(|row| self.values_of(row)))?;
        self.written += run.bytes();
        self.runs.push(run);
        (self.values, self.rows) = (Vec::new(), Vec::new());
        self.kept.shrink_to(0);
        Ok(())
    }

    /// Emits the wanted rows of some runs, in order. Of equal rows those of earlier runs come first.
    fn merge(&self, runs: &[Tape], emit: &mut Emit<'_>) -> Result<ControlFlow<()>> {
        let mut heads = BinaryHeap::with_capacity(runs.len());
        for (run, tape) in runs.iter().enumerate() {
            let row = vec![Value::Null; self.width];
            let mut head = Head { keys: self.keys, prefix: self.last, row, run, reader: self.space.read(tape) };
            if head.advance()? {
                heads.push(head);
            }
        }
        let (mut left, mut before): (usize, Option<Vec<Value>>) = (self.wanted, None);
        while left > 0
            && let Some(mut head) = heads.peek_mut()
        {
            let is_new = before.as_ref().is_none_or(|before| self.keys.compare(before, &head.row).is_ne());
            if is_new {
                left -= 1;
                if emit(&head.row)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                if self.keys.distinct > 0 {
                    before = Some(head.row.clone());
                }
            }
            if !head.advance()? {
                PeekMut::pop(head);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl Keys<'_> {
    fn prefix(&self, row: &[Value]) -> Prefix {
        prefix(self.order.iter().map(|key| (&row[key.at], key.descending, key.nulls_first)))
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

/// The next row of a run. The greatest head is that of the row that comes first.
struct Head<'t> {
    keys: Keys<'t>,
    prefix: Prefix,
    row: Vec<Value>,
    /// The number of the run.
    run: usize,
    reader: Reader<'t, 't>,
}

impl Head<'_> {
    /// Goes on to the next row; returns whether there is one.
    fn advance(&mut self) -> Result<bool> {
        let is_there = self.reader.next(&mut self.row)?.is_some();
        self.prefix = self.keys.prefix(&self.row);
        Ok(is_there)
    }
}

impl Ord for Head<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_values = || other.keys.compare(&other.row, &self.row);
        other.prefix.cmp(&self.prefix).then_with(by_values).then(other.run.cmp(&self.run))
    }
}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head<'_> {}

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
    use std::sync::Arc;

    use super::*;
    use crate::exec::space::tests::limited;

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
    fn expected(rows: &[Vec<Value>], keys: Keys<'_>, wanted: Option<usize>) -> Vec<Vec<Value>> {
        let mut sorted = rows.to_vec();
        sorted.sort_by(|left, right| keys.compare(left, right));
        if keys.distinct > 0 {
            // Not by `==`, to which blanks at the end of a `char(n)` count.
            let is_equal = |left: &Value, right: &Value| one_key(left, right, false, false).is_eq();
            sorted.dedup_by(|later, earlier| (0..keys.distinct).all(|at| is_equal(&later[at], &earlier[at])));
        }
        sorted.truncate(wanted.unwrap_or(usize::MAX));
        sorted
    }

    #[test]
    fn rows_come_in_order_once_and_no_more_than_wanted() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut most, mut spilled) = (0, 0);
        for _ in 0..300 {
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
            let work_mem = [64 << 10, 256 << 10, 256 << 20][random.usize(..3)];
            let (environment, counts) = (limited(work_mem), Arc::default());
            let space = Space::new(&environment, None, &counts);
            let mut sorter = Sorter::new(&order, wanted, distinct, &space);
            let mut held = 0;
            for row in &rows {
                sorter.push(row).unwrap();
                held = held.max(sorter.rows.len());
            }
            most = most.max(sorter.runs.len());
            spilled += usize::from(!sorter.runs.is_empty());
            let mut sorted = Vec::new();
            sorter.complete().unwrap();
            let flow = sorter.emit(&mut |row| {
                sorted.push(row.to_vec());
                Ok(ControlFlow::Continue(()))
            });
            assert!(flow.unwrap().is_continue());
            assert_eq!(sorted, expected(&rows, Keys { order: &order, distinct }, wanted));
            assert!(sorter.bytes() <= work_mem, "{} bytes were held", sorter.bytes());
            if let Some(wanted) = wanted {
                assert!(held <= ROOM_MIN.max(2 * wanted), "{held} rows were held where {wanted} are wanted");
            }
        }
        // Some have to be merged in several passes.
        assert!(most > 16 && spilled > 20, "{most} runs, {spilled} sorts were spilled");
    }
}
