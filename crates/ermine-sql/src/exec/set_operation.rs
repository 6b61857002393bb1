//! UNION, INTERSECT and EXCEPT.
//!
//! INTERSECT and EXCEPT count the rows of the right side. When there is no room for these, both sides go to batches in
//! a temporary file, and each batch is done by itself; a batch that is too large is divided again.

use std::ops::ControlFlow;

use super::{Emit, Run, key_set::KeySet, query::key_of, space::Batches, unique::Unique};
use crate::{
    error::Result,
    expr::Frame,
    memory::{Kept, Memory},
    query::{Query, SetOperation},
    tape::Tape,
    types::Value,
};

/// A consumer of rows, each with its key.
type EachKeyed<'e> = dyn FnMut(&[u8], &[Value]) -> Result<ControlFlow<()>> + 'e;

/// INTERSECT or EXCEPT, perhaps ALL.
#[derive(Clone, Copy)]
struct Rule {
    all: bool,
    is_intersection: bool,
}

/// The different rows of the right side, with the number of each.
struct Others<'r> {
    keys: KeySet,
    counts: Vec<usize>,
    kept: Kept<'r>,
}

impl<'r> Others<'r> {
    fn new(memory: &'r Memory) -> Self {
        Self { keys: KeySet::default(), counts: Vec::new(), kept: Kept::new(memory) }
    }

    /// Adds rows with a key, unless there is no room; returns whether it has.
    fn add(&mut self, key: &[u8], count: usize) -> Result<bool> {
        match self.keys.try_add(key, || 2 * size_of::<usize>(), &mut self.kept)? {
            Some((_, true)) => self.counts.push(count),
            Some((number, false)) => self.counts[number] += count,
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Moves all to batches.
    fn spill(self, batches: &mut Batches) -> Result<()> {
        let mut all = self.counts.iter().enumerate();
        all.try_for_each(|(number, count)| batches.push(self.keys.key(number), &[Value::Int8(*count as i64)]))
    }

    /// Whether a row of the left side has an equal one here; ALL: one that no other had.
    fn meets(&mut self, key: &[u8], all: bool) -> bool {
        match self.keys.number(key) {
            Some(number) if self.counts[number] > 0 => {
                self.counts[number] -= usize::from(all);
                true
            }
            _ => false,
        }
    }
}

impl Run<'_> {
    pub(super) fn set_operation(
        &self,
        operation: SetOperation,
        all: bool,
        [left, right]: &[Query; 2],
        outer: Option<&Frame<'_>>,
        emit: &mut Emit<'_>,
    ) -> Result<ControlFlow<()>> {
        if operation == SetOperation::Union {
            let mut seen = Unique::new(&self.space);
            for side in [left, right] {
                let flow = self.query(side, outer, &mut |row| {
                    if all || seen.is_new(&key_of(row), row)? { emit(row) } else { Ok(ControlFlow::Continue(())) }
                })?;
                if flow.is_break() {
                    return Ok(flow);
                }
            }
            return seen.finish(emit);
        }
        let (mut others, mut batches) = (Others::new(&self.environment.memory), None);
        let _ = self.query(right, outer, &mut |row| {
            let key = key_of(row);
            if batches.is_none() {
                if others.add(&key, 1)? {
                    return Ok(ControlFlow::Continue(()));
                }
                let made = batches.insert(self.space.batches()?);
                std::mem::replace(&mut others, Others::new(&self.environment.memory)).spill(made)?;
            }
            batches.iter_mut().try_for_each(|batches| batches.push(&key, &[Value::Int8(1)]))?;
            Ok(ControlFlow::Continue(()))
        })?;
        let rule = Rule { all, is_intersection: operation == SetOperation::Intersect };
        let Some(batches) = batches else {
            return self.rows_of_sets(rule, others, emit, &mut |each| {
                self.query(left, outer, &mut |row| each(&key_of(row), row))
            });
        };
        let (mut own, mut width) = (batches.alike(), 0);
        let _ = self.query(left, outer, &mut |row| {
            width = row.len();
            own.push(&key_of(row), row).map(ControlFlow::Continue)
        })?;
        let mut pairs: Vec<_> = own.end()?.into_iter().zip(batches.end()?).collect();
        while let Some((own, other)) = pairs.pop() {
            let Some(others) = self.others_of(&other)? else {
                let mut right = self.space.batches()?;
                let mut left = right.alike();
                right.add_all(self.space.read(&other), 1)?;
                left.add_all(self.space.read(&own), width)?;
                pairs.extend(left.end()?.into_iter().zip(right.end()?));
                continue;
            };
            let flow = self.rows_of_sets(rule, others, emit, &mut |each| {
                let (mut row, mut reader) = (vec![Value::Null; width], self.space.read(&own));
                let mark = self.environment.memory.mark();
                while let Some(key) = reader.next(&mut row)? {
                    self.next_row(mark);
                    if each(key, &row)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Ok(ControlFlow::Continue(()))
            })?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Emits those rows of the left side, with their keys, that the rule wants.
    fn rows_of_sets(
        &self,
        Rule { all, is_intersection }: Rule,
        mut others: Others<'_>,
        emit: &mut Emit<'_>,
        left: &mut dyn FnMut(&mut EachKeyed<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let mut seen = Unique::new(&self.space);
        let flow = left(&mut |key, row| {
            let is_wanted = others.meets(key, all) == is_intersection && (all || seen.is_new(key, row)?);
            if is_wanted { emit(row) } else { Ok(ControlFlow::Continue(())) }
        })?;
        drop(others);
        if flow.is_break() { Ok(flow) } else { seen.finish(emit) }
    }

    /// Returns the rows of a right batch; `None`: they do not fit into memory.
    fn others_of(&self, batch: &Tape) -> Result<Option<Others<'_>>> {
        let (mut others, mut reader, mut row) =
            (Others::new(&self.environment.memory), self.space.read(batch), [Value::Null]);
        while let Some(key) = reader.next(&mut row)? {
            let count = if let [Value::Int8(count)] = row { count as usize } else { 1 };
            if !others.add(key, count)? {
                return Ok(None);
            }
        }
        Ok(Some(others))
    }
}
