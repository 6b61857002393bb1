//! Groups and aggregates.
//!
//! Each row belongs to a group of each grouping set: with several sets a row is added as often as there are sets.
//!
//! Groups are in memory. When there is no room for another one, rows of unknown groups go to batches in a temporary
//! file; rows of known groups are still added to these. When all rows have come, the groups are shown, and each batch
//! is grouped by itself. What aggregates gather is not written to the file.

use std::{borrow::Cow, ops::ControlFlow, slice};

use ermine::KeyBuffer;
use smallvec::SmallVec;

use super::{Emit, Run, key_set::KeySet, query::key_of, sort::one_key, space::Batches};
use crate::{
    error::Result,
    expr::Frame,
    functions::Accumulator,
    key::write_key,
    memory::{ALLOCATION, Kept},
    query::{AggregateCall, Group, Select},
    tape::Tape,
    types::{Environment, Value},
};

/// The values of a row that decide about its groups.
type Keys<'r> = SmallVec<[Cow<'r, Value>; 4]>;

/// The state of one group.
struct InGroup {
    /// The grouping set.
    set: usize,
    keys: Vec<Value>,
    aggregates: Vec<Gathering>,
}

/// One aggregate of one group.
pub(super) struct Gathering {
    accumulator: Accumulator,
    /// Bytes that are counted for the accumulator itself.
    counted: usize,
    /// The values added so far, if each distinct value is added once.
    seen: Option<KeySet>,
    /// Rows that are to be added in an order: their sort keys, and the arguments.
    waiting: Vec<(Vec<Value>, Vec<Value>)>,
}

/// Groups in memory, and the rows of groups for which there is no room.
struct Groups<'q, 'r> {
    group: &'q Group,
    all: Vec<InGroup>,
    /// The groups of empty grouping sets, which have all rows.
    whole: Vec<Option<usize>>,
    /// Each key adds a group: behind those of empty sets, they have the order of the keys.
    by_key: KeySet,
    first: usize,
    kept: Kept<'r>,
    later: Option<Batches>,
    /// The number of values of a row in the batches.
    width: usize,
}

impl<'q, 'r> Groups<'q, 'r> {
    fn new(run: &Run<'r>, group: &'q Group) -> Self {
        let whole = vec![None; group.sets.len()];
        let (kept, by_key) = (Kept::new(&run.environment.memory), KeySet::default());
        Self { group, all: Vec::new(), whole, by_key, first: 0, kept, later: None, width: 0 }
    }

    /// Adds the groups that are there without any row.
    fn add_whole(&mut self) -> Result<()> {
        for (set, _) in self.group.sets.iter().enumerate().filter(|(_, set)| set.is_empty()) {
            let keys = vec![Value::Null; self.group.keys.len()];
            self.kept.add(bytes_of_group(self.group, &keys))?;
            self.whole[set] = Some(self.add(keys, set));
        }
        self.first = self.all.len();
        Ok(())
    }

    fn add(&mut self, keys: Vec<Value>, set: usize) -> usize {
        self.all.push(InGroup::new(set, keys, &self.group.aggregates));
        self.all.len() - 1
    }

    /// Adds a row to its group of a set that has keys, unless the row has to wait.
    fn add_row<'k>(
        &mut self,
        run: &Run<'_>,
        set: usize,
        (key, keys): (&[u8], impl Iterator<Item = &'k Value> + Clone),
        frame: &Frame<'_>,
    ) -> Result<()> {
        let known = match &self.later {
            // A group that waits may not come into memory later.
            Some(_) => self.by_key.number(key).map(|number| self.first + number),
            None => {
                let bytes = || bytes_of_group(self.group, keys.clone());
                match self.by_key.try_add(key, bytes, &mut self.kept)? {
                    Some((_, true)) => Some(self.add(keys.clone().cloned().collect(), set)),
                    Some((number, false)) => Some(self.first + number),
                    None => None,
                }
            }
        };
        let Some(at) = known else {
            self.width = 1 + self.group.keys.len() + frame.row.len();
            let later = match &mut self.later {
                Some(later) => later,
                none => none.insert(run.space.batches()?),
            };
            let (set, keys) = (Value::Int8(set as i64), keys.map(|key| -> &Value { key }));
            return later.push(key, [&set].into_iter().chain(keys).chain(frame.row));
        };
        self.gather(run, at, frame)
    }

    /// Adds a row to the aggregates of a group.
    fn gather(&mut self, run: &Run<'_>, at: usize, frame: &Frame<'_>) -> Result<()> {
        for (call, gathering) in self.group.aggregates.iter().zip(&mut self.all[at].aggregates) {
            run.gather(call, gathering, frame, &mut self.kept)?;
        }
        Ok(())
    }

    /// Emits the groups, and releases their memory; returns the batches that are left, with the number of values of a
    /// row. `None`: no more are wanted.
    fn finish(
        mut self,
        run: &Run<'_>,
        outer: Option<&Frame<'_>>,
        emit: &mut Emit<'_>,
    ) -> Result<Option<Vec<(Tape, usize)>>> {
        let (group, mark) = (self.group, run.environment.memory.mark());
        for InGroup { set, keys: mut row, aggregates } in self.all {
            run.next_row(mark);
            row.extend(group.groupings.iter().map(|keys| grouping(keys, &group.sets[set])));
            for (call, gathering) in group.aggregates.iter().zip(aggregates) {
                row.push(gathering.finish(call, run.environment, &mut self.kept)?);
            }
            let frame = Frame { row: &row, outer };
            if let Some(having) = &group.having
                && !having.is_true(&frame, run)?
            {
                continue;
            }
            if emit(&row)?.is_break() {
                return Ok(None);
            }
        }
        let batches = self.later.map_or_else(|| Ok(Vec::new()), Batches::end)?;
        Ok(Some(batches.into_iter().map(|batch| (batch, self.width)).collect()))
    }
}

impl Run<'_> {
    /// Emits the groups of a query: keys, then aggregates.
    pub(super) fn grouped(
        &self,
        select: &Select,
        group: &Group,
        outer: Option<&Frame<'_>>,
        emit: &mut Emit<'_>,
    ) -> Result<ControlFlow<()>> {
        let (mut groups, mut key) = (Groups::new(self, group), KeyBuffer::new());
        groups.add_whole()?;
        let _ = self.joined(select, outer, &mut |row| {
            let frame = Frame { row, outer };
            let mut keys = Keys::new();
            for expr in &group.keys {
                keys.push(expr.eval(&frame, self)?);
            }
            for (set, places) in group.sets.iter().enumerate() {
                if let Some(at) = groups.whole[set] {
                    groups.gather(self, at, &frame)?;
                    continue;
                }
                let keys = masked(&keys, places);
                key.clear();
                keys.clone().for_each(|value| write_key(value, false, &mut key));
                if group.sets.len() > 1 {
                    key.extend_from_slice(&set.to_be_bytes());
                }
                groups.add_row(self, set, (&key, keys), &frame)?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let Some(mut batches) = groups.finish(self, outer, emit)? else { return Ok(ControlFlow::Break(())) };
        while let Some((batch, width)) = batches.pop() {
            let (mut groups, mut reader) = (Groups::new(self, group), self.space.read(&batch));
            let (mut row, mark) = (vec![Value::Null; width], self.environment.memory.mark());
            while let Some(key) = reader.next(&mut row)? {
                self.next_row(mark);
                let (Value::Int8(set), keys) = (&row[0], row[1..].iter().take(group.keys.len())) else { continue };
                let frame = Frame { row: &row[1 + group.keys.len()..], outer };
                groups.add_row(self, *set as usize, (key, keys), &frame)?;
            }
            match groups.finish(self, outer, emit)? {
                Some(more) => batches.extend(more),
                None => return Ok(ControlFlow::Break(())),
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Adds a row to an aggregate.
    pub(super) fn gather(
        &self,
        call: &AggregateCall,
        gathering: &mut Gathering,
        frame: &Frame<'_>,
        kept: &mut Kept<'_>,
    ) -> Result<()> {
        if let Some(filter) = &call.filter
            && !filter.is_true(frame, self)?
        {
            return Ok(());
        }
        // The usual case: a value is read in place.
        if let ([argument], false, true) = (&call.arguments[..], call.is_distinct, call.order.is_empty()) {
            let value = argument.eval(frame, self)?;
            return gathering.add(call, slice::from_ref(&*value), self.environment, kept);
        }
        let arguments = call.arguments.iter().map(|argument| Ok(argument.eval(frame, self)?.into_owned()));
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        if let Some(seen) = &mut gathering.seen
            && !seen.is_new(&key_of(&arguments), kept)?
        {
            return Ok(());
        }
        if call.order.is_empty() {
            return gathering.add(call, &arguments, self.environment, kept);
        }
        kept.add_row(&arguments)?;
        let keys = call.order.iter().map(|(key, ..)| Ok(key.eval(frame, self)?.into_owned()));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        kept.add_row(&keys)?;
        // Each is in a growing list, with two allocations.
        kept.add(3 * size_of::<(Vec<Value>, Vec<Value>)>())?;
        gathering.waiting.push((keys, arguments));
        Ok(())
    }
}

/// Returns the bytes that a group takes besides its key in the set of keys.
fn bytes_of_group<'k>(group: &Group, keys: impl IntoIterator<Item = &'k Value>) -> usize {
    let own = 2 * size_of::<InGroup>() + group.aggregates.len() * size_of::<Gathering>();
    ALLOCATION + size_of::<Box<[Value]>>() + keys.into_iter().map(Value::bytes).sum::<usize>() + own
}

/// Returns the keys of a grouping set, with NULL in the places of the others.
fn masked<'k>(keys: &'k Keys<'_>, set: &'k [usize]) -> impl Iterator<Item = &'k Value> + Clone {
    let keys = keys.iter().enumerate();
    keys.map(|(at, key)| if set.contains(&at) { &**key } else { &Value::Null })
}

/// Returns the result of GROUPING: a bit for each key, 1 if the grouping set lacks it; the last key has the lowest bit.
fn grouping(keys: &[usize], set: &[usize]) -> Value {
    Value::Int4(keys.iter().fold(0, |bits, key| bits << 1 | i32::from(!set.contains(key))))
}

impl InGroup {
    fn new(set: usize, keys: Vec<Value>, calls: &[AggregateCall]) -> Self {
        Self { set, keys, aggregates: calls.iter().map(Gathering::new).collect() }
    }
}

impl Gathering {
    pub(super) fn new(call: &AggregateCall) -> Self {
        Self {
            accumulator: call.aggregate.accumulator(),
            counted: 0,
            seen: call.is_distinct.then(KeySet::default),
            waiting: Vec::new(),
        }
    }

    /// Returns the result for the rows that have been added, to which others may follow; they have no order.
    pub(super) fn so_far(&self) -> Result<Value> {
        self.accumulator.clone().finish()
    }

    /// Adds the arguments of a row.
    fn add(
        &mut self,
        call: &AggregateCall,
        arguments: &[Value],
        environment: &Environment,
        kept: &mut Kept<'_>,
    ) -> Result<()> {
        if call.aggregate.keeps_values() {
            let bytes = arguments.iter().map(Value::bytes).sum::<usize>();
            environment.memory.check(bytes)?;
            if call.aggregate.keeps_each() {
                // Lists have room for twice as many, and those of arrays are copied in the end.
                kept.add(2 * bytes)?;
            }
        }
        self.accumulator.add(arguments, environment)?;
        let bytes = self.accumulator.bytes();
        if bytes > self.counted {
            kept.add(bytes - self.counted)?;
            self.counted = bytes;
        }
        Ok(())
    }

    fn finish(mut self, call: &AggregateCall, environment: &Environment, kept: &mut Kept<'_>) -> Result<Value> {
        self.waiting.sort_by(|(left, _), (right, _)| {
            let pairs = left.iter().zip(right).zip(&call.order);
            let mut orders = pairs
                .map(|((left, right), (_, descending, nulls_first))| one_key(left, right, *descending, *nulls_first));
            orders.find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
        });
        for (_, arguments) in std::mem::take(&mut self.waiting) {
            self.add(call, &arguments, environment, kept)?;
        }
        self.accumulator.finish()
    }
}
