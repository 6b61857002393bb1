//! Groups and aggregates.
//!
//! Each row belongs to a group of each grouping set: with several sets a row is added as often as there are sets.

use std::{borrow::Cow, ops::ControlFlow, slice};

use ermine::KeyBuffer;
use smallvec::SmallVec;

use super::{Emit, Run, key_set::KeySet, query::key_of, sort::one_key};
use crate::{
    error::{Result, SqlError},
    expr::Frame,
    functions::Accumulator,
    key::write_key,
    memory::{ALLOCATION, Kept, bytes_of},
    query::{AggregateCall, Group, Select},
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

impl Run<'_> {
    /// Emits the groups of a query: keys, then aggregates.
    pub(super) fn grouped(
        &self,
        select: &Select,
        group: &Group,
        outer: Option<&Frame<'_>>,
        emit: &mut Emit<'_>,
    ) -> Result<ControlFlow<()>> {
        let mut groups: Vec<InGroup> = Vec::new();
        let mut kept = Kept::new(&self.environment.memory);
        let add_group = |keys: Vec<Value>, set, groups: &mut Vec<InGroup>, kept: &mut Kept<'_>| {
            let own = 2 * size_of::<InGroup>() + group.aggregates.len() * size_of::<Gathering>();
            kept.add(ALLOCATION + bytes_of(&keys) + own)?;
            groups.push(InGroup::new(set, keys, &group.aggregates));
            Ok::<_, SqlError>(groups.len() - 1)
        };
        let (mut whole, mut key) = (vec![None; group.sets.len()], KeyBuffer::new());
        for (set, _) in group.sets.iter().enumerate().filter(|(_, set)| set.is_empty()) {
            let keys = vec![Value::Null; group.keys.len()];
            whole[set] = Some(add_group(keys, set, &mut groups, &mut kept)?);
        }
        // Each key adds a group: behind those of empty sets, they have the order of the keys.
        let (mut by_key, first) = (KeySet::default(), groups.len());
        let _ = self.joined(select, outer, &mut |row| {
            let frame = Frame { row, outer };
            let mut keys = Keys::new();
            for expr in &group.keys {
                keys.push(expr.eval(&frame, self)?);
            }
            for (set, places) in group.sets.iter().enumerate() {
                let at = match whole[set] {
                    Some(at) => at,
                    None => {
                        key.clear();
                        masked(&keys, places).for_each(|value| write_key(value, false, &mut key));
                        if group.sets.len() > 1 {
                            key.extend_from_slice(&set.to_be_bytes());
                        }
                        let (number, is_new) = by_key.add(&key, &mut kept)?;
                        if is_new {
                            let own = masked(&keys, places).cloned().collect();
                            add_group(own, set, &mut groups, &mut kept)?;
                        }
                        first + number
                    }
                };
                for (call, gathering) in group.aggregates.iter().zip(&mut groups[at].aggregates) {
                    self.gather(call, gathering, &frame, &mut kept)?;
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let mark = self.environment.memory.mark();
        for InGroup { set, keys: mut row, aggregates } in groups {
            self.next_row(mark);
            row.extend(group.groupings.iter().map(|keys| grouping(keys, &group.sets[set])));
            for (call, gathering) in group.aggregates.iter().zip(aggregates) {
                row.push(gathering.finish(call, self.environment, &mut kept)?);
            }
            let frame = Frame { row: &row, outer };
            if let Some(having) = &group.having
                && !having.is_true(&frame, self)?
            {
                continue;
            }
            if emit(&row)?.is_break() {
                return Ok(ControlFlow::Break(()));
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

/// Returns the keys of a grouping set, with NULL in the places of the others.
fn masked<'k>(keys: &'k Keys<'_>, set: &'k [usize]) -> impl Iterator<Item = &'k Value> {
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
