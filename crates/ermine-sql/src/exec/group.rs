//! Groups and aggregates.

use std::{ops::ControlFlow, slice};

use ermine::KeyBuffer;
use hashbrown::{HashMap, HashSet, hash_map::Entry};

use super::{
    Emit, Run,
    query::{is_new, key_of},
    sort::one_key,
};
use crate::{
    error::Result,
    expr::Frame,
    functions::Accumulator,
    memory::{ENTRY, Kept, bytes_of},
    query::{AggregateCall, Group, Select},
    types::{Environment, Value},
};

/// One group so far.
struct InGroup {
    keys: Vec<Value>,
    aggregates: Vec<Gathering>,
}

/// One aggregate of one group.
struct Gathering {
    accumulator: Accumulator,
    /// What was added, where each is added once.
    seen: Option<HashSet<KeyBuffer>>,
    /// Rows that are to be added in their order: what they are sorted by, and the arguments.
    waiting: Vec<(Vec<Value>, Vec<Value>)>,
}

impl Run<'_> {
    /// Shows the groups of a query: keys, then aggregates.
    pub(super) fn grouped(
        &self,
        select: &Select,
        group: &Group,
        outer: Option<&Frame<'_>>,
        emit: &mut Emit<'_>,
    ) -> Result<ControlFlow<()>> {
        let mut groups: Vec<InGroup> = Vec::new();
        let mut by_key: HashMap<KeyBuffer, usize> = HashMap::new();
        let mut kept = Kept::new(&self.environment.memory);
        if group.keys.is_empty() {
            groups.push(InGroup::new(Vec::new(), &group.aggregates));
        }
        let _ = self.joined(select, outer, &mut |row| {
            let frame = Frame { row, outer };
            let at = if group.keys.is_empty() {
                0
            } else {
                let keys = group.keys.iter().map(|key| Ok(key.eval(&frame, self)?.into_owned()));
                let keys = keys.collect::<Result<Vec<_>>>()?;
                match by_key.entry(key_of(&keys)) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(new) => {
                        let aggregates = group.aggregates.len() * size_of::<Gathering>();
                        kept.add(new.key().len() + ENTRY + bytes_of(&keys) + aggregates)?;
                        groups.push(InGroup::new(keys, &group.aggregates));
                        *new.insert(groups.len() - 1)
                    }
                }
            };
            for (call, gathering) in group.aggregates.iter().zip(&mut groups[at].aggregates) {
                self.gather(call, gathering, &frame, &mut kept)?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        for InGroup { keys: mut row, aggregates } in groups {
            for (call, gathering) in group.aggregates.iter().zip(aggregates) {
                row.push(gathering.finish(call, self.environment)?);
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

    fn gather(
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
        // The usual: a value is looked at where it is.
        if let ([argument], false, true) = (&call.arguments[..], call.is_distinct, call.order.is_empty()) {
            let value = argument.eval(frame, self)?;
            if call.aggregate.keeps_values() {
                kept.add(value.bytes())?;
            }
            return gathering.accumulator.add(slice::from_ref(&*value), self.environment);
        }
        let arguments = call.arguments.iter().map(|argument| Ok(argument.eval(frame, self)?.into_owned()));
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        if let Some(seen) = &mut gathering.seen
            && !is_new(seen, key_of(&arguments), kept)?
        {
            return Ok(());
        }
        if call.aggregate.keeps_values() || !call.order.is_empty() {
            kept.add_row(&arguments)?;
        }
        if call.order.is_empty() {
            return gathering.accumulator.add(&arguments, self.environment);
        }
        let keys = call.order.iter().map(|(key, ..)| Ok(key.eval(frame, self)?.into_owned()));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        kept.add_row(&keys)?;
        gathering.waiting.push((keys, arguments));
        Ok(())
    }
}

impl InGroup {
    fn new(keys: Vec<Value>, calls: &[AggregateCall]) -> Self {
        let gathering = |call: &AggregateCall| Gathering {
            accumulator: call.aggregate.accumulator(),
            seen: call.is_distinct.then(HashSet::new),
            waiting: Vec::new(),
        };
        Self { keys, aggregates: calls.iter().map(gathering).collect() }
    }
}

impl Gathering {
    fn finish(mut self, call: &AggregateCall, environment: &Environment) -> Result<Value> {
        self.waiting.sort_by(|(left, _), (right, _)| {
            let pairs = left.iter().zip(right).zip(&call.order);
            let mut orders = pairs
                .map(|((left, right), (_, descending, nulls_first))| one_key(left, right, *descending, *nulls_first));
            orders.find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
        });
        for (_, arguments) in self.waiting {
            self.accumulator.add(&arguments, environment)?;
        }
        self.accumulator.finish()
    }
}
