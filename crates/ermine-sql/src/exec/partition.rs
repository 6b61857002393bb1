//! The rows of a partition of a window: peers, and the bounds of frames.

use std::ops::Range;

use super::Run;
use crate::{
    error::{Result, SqlError, SqlState},
    expr::{Expr, Frame},
    query::window::{Exclusion, FrameBound, FrameUnit, Window, WindowFrame},
    types::{Environment, Value, in_range},
};

/// A frame whose offsets have been evaluated.
pub(super) struct Edges {
    unit: FrameUnit,
    start: Edge,
    end: Edge,
    exclusion: Exclusion,
    /// Whether the sort key is descending.
    is_descending: bool,
}

enum Edge {
    Unbounded,
    CurrentRow,
    Preceding(Value),
    Following(Value),
}

impl Run<'_> {
    /// Evaluates the offsets of a frame.
    pub(super) fn edges(&self, frame: &WindowFrame, window: &Window, outer: Option<&Frame<'_>>) -> Result<Edges> {
        let offset = |offset: &Expr, which: &str| {
            let value = offset.eval(&Frame { row: &[], outer }, self)?.into_owned();
            if value.is_null() {
                let message = format!("frame {which} offset must not be null");
                return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
            }
            if frame.unit != FrameUnit::Range && matches!(value, Value::Int8(..0)) {
                let message = format!("frame {which} offset must not be negative");
                return Err(SqlError::new(SqlState::INVALID_PRECEDING_OR_FOLLOWING_SIZE, message));
            }
            Ok(value)
        };
        let edge = |bound: &FrameBound, which: &str| {
            Ok::<_, SqlError>(match bound {
                FrameBound::Unbounded => Edge::Unbounded,
                FrameBound::CurrentRow => Edge::CurrentRow,
                FrameBound::Preceding(value) => Edge::Preceding(offset(value, which)?),
                FrameBound::Following(value) => Edge::Following(offset(value, which)?),
            })
        };
        Ok(Edges {
            unit: frame.unit,
            start: edge(&frame.start, "starting")?,
            end: edge(&frame.end, "ending")?,
            exclusion: frame.exclusion,
            is_descending: window.order.first().is_some_and(|key| key.1),
        })
    }
}

/// The rows of a partition in their order.
pub(super) struct Partition<'a> {
    numbers: &'a [usize],
    /// The first sort key of each row; empty if there is none.
    keys: Vec<&'a Value>,
    /// For each row the group of peers that it belongs to.
    groups: Vec<usize>,
    /// The first row of each group, and behind them the number of rows.
    starts: Vec<usize>,
}

impl<'a> Partition<'a> {
    pub(super) fn new(numbers: &'a [usize], keys: Vec<&'a Value>, are_peers: &dyn Fn(usize, usize) -> bool) -> Self {
        let (mut groups, mut starts) = (Vec::with_capacity(numbers.len()), Vec::new());
        for (at, number) in numbers.iter().enumerate() {
            if at == 0 || !are_peers(numbers[at - 1], *number) {
                starts.push(at);
            }
            groups.push(starts.len() - 1);
        }
        starts.push(numbers.len());
        Self { numbers, keys, groups, starts }
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the number of a row by its place in the partition.
    pub(super) fn number(&self, at: usize) -> usize {
        self.numbers[at]
    }

    /// Returns the group of peers of a row.
    pub(super) fn group_of(&self, at: usize) -> usize {
        self.groups[at]
    }

    /// Returns the peers of a row, the row included.
    pub(super) fn peers(&self, at: usize) -> Range<usize> {
        let group = self.groups[at];
        self.starts[group]..self.starts[group + 1]
    }

    /// Returns the frame of a row. Only the first range has rows if none are excluded.
    pub(super) fn frame(&self, at: usize, edges: &Edges, environment: &Environment) -> Result<[Range<usize>; 3]> {
        let start = self.start(at, edges, environment)?;
        let end = self.end(at, edges, environment)?.max(start);
        let (excluded, is_in) = match edges.exclusion {
            Exclusion::NoOthers => return Ok([start..end, 0..0, 0..0]),
            Exclusion::CurrentRow => (at..at + 1, false),
            Exclusion::Group => (self.peers(at), false),
            Exclusion::Ties => (self.peers(at), (start..end).contains(&at)),
        };
        let own = if is_in { at..at + 1 } else { 0..0 };
        Ok([start..end.min(excluded.start).max(start), own, start.max(excluded.end).min(end)..end])
    }

    fn start(&self, at: usize, edges: &Edges, environment: &Environment) -> Result<usize> {
        Ok(match (&edges.start, edges.unit) {
            (Edge::Unbounded, _) => 0,
            (Edge::CurrentRow, FrameUnit::Rows) => at,
            (Edge::CurrentRow, _) => self.peers(at).start,
            (Edge::Preceding(offset), FrameUnit::Rows) => at.saturating_sub(steps(offset)),
            (Edge::Following(offset), FrameUnit::Rows) => at.saturating_add(steps(offset)).min(self.len()),
            (Edge::Preceding(offset), FrameUnit::Groups) => self.starts[self.groups[at].saturating_sub(steps(offset))],
            (Edge::Following(offset), FrameUnit::Groups) => {
                self.starts[self.groups[at].saturating_add(steps(offset)).min(self.starts.len() - 1)]
            }
            (Edge::Preceding(offset), FrameUnit::Range) => self.in_reach(at, offset, true, true, edges, environment)?,
            (Edge::Following(offset), FrameUnit::Range) => {
                self.in_reach(at, offset, false, true, edges, environment)?
            }
        })
    }

    fn end(&self, at: usize, edges: &Edges, environment: &Environment) -> Result<usize> {
        Ok(match (&edges.end, edges.unit) {
            (Edge::Unbounded, _) => self.len(),
            (Edge::CurrentRow, FrameUnit::Rows) => at + 1,
            (Edge::CurrentRow, _) => self.peers(at).end,
            (Edge::Preceding(offset), FrameUnit::Rows) => (at + 1).saturating_sub(steps(offset)),
            (Edge::Following(offset), FrameUnit::Rows) => (at + 1).saturating_add(steps(offset)).min(self.len()),
            (Edge::Preceding(offset), FrameUnit::Groups) => {
                self.starts[(self.groups[at] + 1).saturating_sub(steps(offset))]
            }
            (Edge::Following(offset), FrameUnit::Groups) => {
                self.starts[(self.groups[at] + 1).saturating_add(steps(offset)).min(self.starts.len() - 1)]
            }
            (Edge::Preceding(offset), FrameUnit::Range) => {
                self.in_reach(at, offset, true, false, edges, environment)?
            }
            (Edge::Following(offset), FrameUnit::Range) => {
                self.in_reach(at, offset, false, false, edges, environment)?
            }
        })
    }

    /// Returns the first row whose key is at this distance from the key of a row, or beyond; or, for the end of a frame,
    /// the first that is farther away. NULL is at no distance from NULL, and at an infinite one from any other value.
    fn in_reach(
        &self,
        at: usize,
        offset: &Value,
        is_preceding: bool,
        is_start: bool,
        edges: &Edges,
        environment: &Environment,
    ) -> Result<usize> {
        let base = self.keys[at];
        if base.is_null() {
            let peers = self.peers(at);
            return Ok(if is_start { peers.start } else { peers.end });
        }
        // NULLs are at one of the ends.
        let nulls_first = self.keys.first().is_some_and(|key| key.is_null());
        let nulls_last = self.keys.last().is_some_and(|key| key.is_null());
        let mut low = if nulls_first { self.peers(0).end } else { 0 };
        let mut high = if nulls_last { self.peers(self.len() - 1).start } else { self.len() };
        while low < high {
            let middle = low + (high - low) / 2;
            let subtracts = is_preceding != edges.is_descending;
            let order = in_range::compare_with_offset(self.keys[middle], base, offset, subtracts, environment)?;
            let order = if edges.is_descending { order.reverse() } else { order };
            let is_before = if is_start { order.is_lt() } else { order.is_le() };
            if is_before { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }
}

/// Returns a number of rows or groups.
fn steps(offset: &Value) -> usize {
    match offset {
        Value::Int8(offset) => usize::try_from(*offset).unwrap_or(usize::MAX),
        _ => 0,
    }
}
