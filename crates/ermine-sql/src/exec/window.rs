//! Window functions.
//!
//! The rows of the sources or groups are gathered. For each partition and order they are sorted by their numbers, and
//! each partition computes the functions for its rows; the results extend the rows. A function of a frame adds only the
//! rows by which a frame grows; where the beginning of a frame moves, or rows are excluded, each frame is read anew, so
//! that the cost is the sum of the frames' lengths. Finding the bounds of a frame in RANGE mode takes a binary search.

use std::ops::{ControlFlow, Range};

use super::{
    Emit, Run,
    group::Gathering,
    partition::{Edges, Partition},
    prefix::{Prefix, prefix},
    sort::one_key,
};
use crate::{
    error::{Result, SqlError, SqlState},
    expr::{Expr, Frame},
    memory::Kept,
    query::{
        AggregateCall, Select,
        window::{Window, WindowCall, WindowFunction},
    },
    types::Value,
};

/// Rows of one width, one after the other.
struct Rows {
    width: usize,
    values: Vec<Value>,
}

impl Rows {
    fn row(&self, number: usize) -> &[Value] {
        &self.values[number * self.width..][..self.width]
    }
}

/// The rows, and the rows around the query.
struct Around<'a> {
    rows: &'a Rows,
    outer: Option<&'a Frame<'a>>,
}

impl Around<'_> {
    fn frame(&self, number: usize) -> Frame<'_> {
        Frame { row: self.rows.row(number), outer: self.outer }
    }
}

impl Run<'_> {
    /// Emits the rows of the sources or groups, extended by the results of window functions.
    pub(super) fn windowed(
        &self,
        select: &Select,
        outer: Option<&Frame<'_>>,
        emit: &mut Emit<'_>,
    ) -> Result<ControlFlow<()>> {
        let windows = &select.windows;
        // Offsets are evaluated before any row is read.
        let edges = windows.all.iter().map(|window| {
            let calls = window.calls.iter();
            calls.map(|call| self.edges(&call.frame, window, outer)).collect::<Result<Vec<_>>>()
        });
        let edges = edges.collect::<Result<Vec<_>>>()?;
        let mut kept = Kept::new(&self.environment.memory);
        let mut rows = Rows { width: windows.width(), values: Vec::new() };
        let mut count = 0;
        let _ = self.joined_or_grouped(select, outer, &mut |row| {
            kept.add_row(row)?;
            kept.add(2 * (rows.width - row.len()) * size_of::<Value>() + 2 * size_of::<usize>())?;
            rows.values.extend_from_slice(row);
            count += 1;
            rows.values.resize(count * rows.width, Value::Null);
            Ok(ControlFlow::Continue(()))
        })?;
        let mut order: Vec<usize> = (0..count).collect();
        for (window, edges) in windows.all.iter().zip(&edges) {
            self.compute(window, edges, &mut rows, &mut order, outer, &mut kept)?;
        }
        let mark = self.environment.memory.mark();
        for number in order {
            self.next_row(mark);
            if emit(rows.row(number))?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Sorts the rows for a window, and computes its functions.
    fn compute(
        &self,
        window: &Window,
        edges: &[Edges],
        rows: &mut Rows,
        order: &mut [usize],
        outer: Option<&Frame<'_>>,
        kept: &mut Kept<'_>,
    ) -> Result<()> {
        let exprs: Vec<&Expr> = window.partition.iter().chain(window.order.iter().map(|key| &key.0)).collect();
        let (mut keys, mut own) = (Vec::new(), Kept::new(&self.environment.memory));
        let mark = self.environment.memory.mark();
        for number in 0..order.len() {
            self.next_row(mark);
            self.check_cancelled()?;
            let frame = Frame { row: rows.row(number), outer };
            let begin = keys.len();
            for expr in &exprs {
                keys.push(expr.eval(&frame, self)?.into_owned());
            }
            own.add_row(&keys[begin..])?;
        }
        let key = |number: usize| &keys[number * exprs.len()..][..exprs.len()];
        let ways: Vec<_> = window.partition.iter().map(|_| (false, false)).collect();
        let ways: Vec<_> = ways.into_iter().chain(window.order.iter().map(|key| (key.1, key.2))).collect();
        let compare = |left: usize, right: usize, places: Range<usize>| {
            let mut orders = places.map(|at| one_key(&key(left)[at], &key(right)[at], ways[at].0, ways[at].1));
            orders.find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
        };
        let partitioned = 0..window.partition.len();
        let all = 0..exprs.len();
        // Two numbers for each row of a partition; while they are sorted, prefixes and numbers.
        own.add(2 * order.len() * size_of::<(Prefix, usize)>())?;
        if !exprs.is_empty() {
            let prefix_of = |number| prefix(key(number).iter().zip(&ways).map(|(key, way)| (key, way.0, way.1)));
            let mut sorted: Vec<_> = order.iter().map(|number| (prefix_of(*number), *number)).collect();
            sorted.sort_by(|left, right| left.0.cmp(&right.0).then_with(|| compare(left.1, right.1, all.clone())));
            order.iter_mut().zip(sorted).for_each(|(place, (_, number))| *place = number);
        }
        let same_partition = |left: &usize, right: &usize| compare(*left, *right, partitioned.clone()).is_eq();
        for numbers in order.chunk_by(same_partition) {
            let are_peers = |left: usize, right: usize| compare(left, right, all.clone()).is_eq();
            // The sort key of a frame in RANGE mode.
            let sort_keys = numbers.iter().filter_map(|number| key(*number).get(partitioned.end));
            let partition = Partition::new(numbers, sort_keys.collect(), &are_peers);
            for (call, edges) in window.calls.iter().zip(edges) {
                self.call(call, edges, &partition, rows, outer, kept)?;
            }
        }
        Ok(())
    }

    /// Computes a function for the rows of a partition.
    fn call(
        &self,
        call: &WindowCall,
        edges: &Edges,
        partition: &Partition<'_>,
        rows: &mut Rows,
        outer: Option<&Frame<'_>>,
        kept: &mut Kept<'_>,
    ) -> Result<()> {
        let mut state = State::default();
        let mark = self.environment.memory.mark();
        for at in 0..partition.len() {
            self.next_row(mark);
            self.check_cancelled()?;
            let around = Around { rows, outer };
            let value = self.value(&call.function, edges, partition, at, &around, &mut state)?;
            kept.add(value.bytes() - size_of::<Value>())?;
            let place = partition.number(at) * rows.width + call.at;
            rows.values[place] = value;
        }
        Ok(())
    }

    fn value<'s>(
        &'s self,
        function: &WindowFunction,
        edges: &Edges,
        partition: &Partition<'_>,
        at: usize,
        around: &Around<'_>,
        state: &mut State<'s>,
    ) -> Result<Value> {
        let eval = |expr: &Expr, at: usize| {
            Ok::<_, SqlError>(expr.eval(&around.frame(partition.number(at)), self)?.into_owned())
        };
        let peers = partition.peers(at);
        let count = |number: usize| Ok(Value::Int8(number as i64));
        Ok(match function {
            WindowFunction::RowNumber => return count(at + 1),
            WindowFunction::Rank => return count(peers.start + 1),
            WindowFunction::DenseRank => return count(partition.group_of(at) + 1),
            WindowFunction::PercentRank if partition.len() < 2 => Value::Float8(0.0),
            WindowFunction::PercentRank => Value::Float8(peers.start as f64 / (partition.len() - 1) as f64),
            WindowFunction::CumeDist => Value::Float8(peers.end as f64 / partition.len() as f64),
            WindowFunction::Ntile(buckets) => {
                if state.buckets.is_none() {
                    state.buckets = Buckets::new(&eval(buckets, at)?, partition.len())?;
                }
                state.buckets.as_mut().map_or(Value::Null, |buckets| Value::Int4(buckets.next()))
            }
            WindowFunction::Shift { value, offset, default, is_lead } => {
                let Value::Int4(offset) = eval(offset, at)? else { return Ok(Value::Null) };
                let offset = if *is_lead { i64::from(offset) } else { -i64::from(offset) };
                let place = usize::try_from(at as i64 + offset).ok().filter(|place| *place < partition.len());
                match place {
                    Some(place) => eval(value, place)?,
                    None => eval(default, at)?,
                }
            }
            WindowFunction::FirstValue(value) => {
                let first = partition.frame(at, edges, self.environment)?.into_iter().flatten().next();
                first.map_or(Ok(Value::Null), |place| eval(value, place))?
            }
            WindowFunction::LastValue(value) => {
                let last = partition.frame(at, edges, self.environment)?.into_iter().rev().flat_map(Range::last).next();
                last.map_or(Ok(Value::Null), |place| eval(value, place))?
            }
            WindowFunction::NthValue(operands) => {
                let [value, number] = &**operands;
                let Value::Int4(number) = eval(number, at)? else { return Ok(Value::Null) };
                let Some(before) = usize::try_from(number).ok().and_then(|number| number.checked_sub(1)) else {
                    let message = "argument of nth_value must be greater than zero";
                    return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_NTH_VALUE, message));
                };
                match nth(&partition.frame(at, edges, self.environment)?, before) {
                    Some(place) => eval(value, place)?,
                    None => Value::Null,
                }
            }
            WindowFunction::Aggregate(call) => {
                let frame = partition.frame(at, edges, self.environment)?;
                self.aggregate(call, frame, partition, around, state)?
            }
        })
    }

    /// Computes an aggregate for a frame, from its state for the frame of the row before.
    fn aggregate<'s>(
        &'s self,
        call: &AggregateCall,
        frame: [Range<usize>; 3],
        partition: &Partition<'_>,
        around: &Around<'_>,
        state: &mut State<'s>,
    ) -> Result<Value> {
        if let Some(running) = &state.running
            && running.frame == frame
        {
            return Ok(running.value.clone());
        }
        let [first, second, third] = &frame;
        let mut fresh = match state.running.take() {
            // The frame has grown.
            Some(running)
                if running.frame[0].start == first.start
                    && running.frame[0].end <= first.end
                    && [&running.frame[1], &running.frame[2], second, third].iter().all(|range| range.is_empty()) =>
            {
                Running { frame: [running.frame[0].end..first.end, 0..0, 0..0], ..running }
            }
            _ => Running {
                frame: frame.clone(),
                gathering: Gathering::new(call),
                kept: Kept::new(&self.environment.memory),
                value: Value::Null,
            },
        };
        for place in fresh.frame.iter().cloned().flatten() {
            self.check_cancelled()?;
            self.gather(call, &mut fresh.gathering, &around.frame(partition.number(place)), &mut fresh.kept)?;
        }
        let value = fresh.gathering.so_far()?;
        state.running = Some(Running { frame, value: value.clone(), ..fresh });
        Ok(value)
    }
}

/// The state of a function between the rows of a partition.
#[derive(Default)]
struct State<'s> {
    buckets: Option<Buckets>,
    running: Option<Running<'s>>,
}

/// An aggregate over the frame of the row before.
struct Running<'s> {
    frame: [Range<usize>; 3],
    gathering: Gathering,
    kept: Kept<'s>,
    value: Value,
}

/// The buckets of `ntile`: the first ones have one row more if the rows do not divide.
struct Buckets {
    current: i32,
    /// The rows that the current bucket takes, and those that it has.
    room: usize,
    taken: usize,
    /// The number of buckets that have one row more.
    larger: usize,
}

impl Buckets {
    fn new(buckets: &Value, rows: usize) -> Result<Option<Self>> {
        let Value::Int4(buckets) = buckets else { return Ok(None) };
        let Some(buckets) = usize::try_from(*buckets).ok().filter(|buckets| *buckets > 0) else {
            let message = "argument of ntile must be greater than zero";
            return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_NTILE, message));
        };
        let (room, larger) = match rows / buckets {
            0 => (1, 0),
            room => (room, rows % buckets),
        };
        Ok(Some(Self { current: 1, room: room + usize::from(larger > 0), taken: 0, larger }))
    }

    /// Returns the bucket of the next row.
    fn next(&mut self) -> i32 {
        if self.taken == self.room {
            if self.larger > 0 && self.current as usize == self.larger {
                self.room -= 1;
            }
            self.current += 1;
            self.taken = 0;
        }
        self.taken += 1;
        self.current
    }
}

/// Returns the place that this many others of a frame precede.
fn nth(frame: &[Range<usize>; 3], mut before: usize) -> Option<usize> {
    for range in frame {
        if before < range.len() {
            return Some(range.start + before);
        }
        before -= range.len();
    }
    None
}
