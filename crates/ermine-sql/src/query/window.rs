//! Window functions after binding.
//!
//! They are computed on the rows of the sources, or of the groups, once HAVING has left out groups, and before DISTINCT,
//! ORDER BY and LIMIT. The row that they are computed on is extended by their results.

use super::AggregateCall;
use crate::expr::Expr;

/// The window functions of a query.
#[derive(Clone, Default, Debug)]
pub(crate) struct Windows {
    /// The place of the first result, behind the places of the sources or the group.
    pub(crate) first: usize,
    /// In the order in which they are computed.
    pub(crate) all: Vec<Window>,
}

/// A partition of rows and their order, and the functions that are computed on it.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) partition: Vec<Expr>,
    /// Each key, whether it is descending, and whether NULL comes first.
    pub(crate) order: Vec<(Expr, bool, bool)>,
    pub(crate) calls: Vec<WindowCall>,
}

#[derive(Clone, Debug)]
pub(crate) struct WindowCall {
    /// The place of the result.
    pub(crate) at: usize,
    pub(crate) function: WindowFunction,
    pub(crate) frame: WindowFrame,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum WindowFunction {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    Ntile(Expr),
    /// The value of the row this many rows behind (LEAD) or before (LAG), or the default.
    Shift {
        value: Expr,
        offset: Expr,
        default: Expr,
        is_lead: bool,
    },
    FirstValue(Expr),
    LastValue(Expr),
    NthValue(Box<[Expr; 2]>),
    Aggregate(AggregateCall),
}

/// The rows around the current one that a function sees.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct WindowFrame {
    pub(crate) unit: FrameUnit,
    pub(crate) start: FrameBound,
    pub(crate) end: FrameBound,
    pub(crate) exclusion: Exclusion,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FrameUnit {
    Rows,
    /// Values of the only sort key.
    Range,
    /// Groups of rows with equal sort keys.
    Groups,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum FrameBound {
    /// The partition's beginning as a start, its end as an end.
    Unbounded,
    CurrentRow,
    Preceding(Expr),
    Following(Expr),
}

/// The rows that a frame leaves out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exclusion {
    NoOthers,
    CurrentRow,
    /// The current row and its peers.
    Group,
    /// The peers of the current row.
    Ties,
}

impl Windows {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the number of places of a row with all results.
    pub(crate) fn width(&self) -> usize {
        self.first + self.all.iter().map(|window| window.calls.len()).sum::<usize>()
    }

    /// Returns all expressions.
    pub(crate) fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.all.iter().flat_map(|window| {
            let keys = window.partition.iter().chain(window.order.iter().map(|key| &key.0));
            let calls =
                window.calls.iter().flat_map(|call| call.function.exprs().into_iter().chain(call.frame.offsets()));
            keys.chain(calls)
        })
    }

    /// Returns the same expressions, mutably.
    pub(crate) fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.all.iter_mut().flat_map(|window| {
            let keys = window.partition.iter_mut().chain(window.order.iter_mut().map(|key| &mut key.0));
            let calls = window
                .calls
                .iter_mut()
                .flat_map(|call| call.function.exprs_mut().into_iter().chain(call.frame.offsets_mut()));
            keys.chain(calls)
        })
    }
}

impl WindowFunction {
    /// Returns the expressions that are evaluated on rows.
    pub(crate) fn exprs(&self) -> Vec<&Expr> {
        match self {
            Self::RowNumber | Self::Rank | Self::DenseRank | Self::PercentRank | Self::CumeDist => Vec::new(),
            Self::Ntile(value) | Self::FirstValue(value) | Self::LastValue(value) => vec![value],
            Self::Shift { value, offset, default, .. } => vec![value, offset, default],
            Self::NthValue(operands) => operands.iter().collect(),
            Self::Aggregate(call) => call.exprs().collect(),
        }
    }

    /// Returns the same expressions, mutably.
    pub(crate) fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            Self::RowNumber | Self::Rank | Self::DenseRank | Self::PercentRank | Self::CumeDist => Vec::new(),
            Self::Ntile(value) | Self::FirstValue(value) | Self::LastValue(value) => vec![value],
            Self::Shift { value, offset, default, .. } => vec![value, offset, default],
            Self::NthValue(operands) => operands.iter_mut().collect(),
            Self::Aggregate(call) => call.exprs_mut().collect(),
        }
    }
}

impl WindowFrame {
    /// Returns the offsets, which depend on no row of the query.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = &Expr> {
        [&self.start, &self.end].into_iter().filter_map(|bound| match bound {
            FrameBound::Preceding(offset) | FrameBound::Following(offset) => Some(offset),
            FrameBound::Unbounded | FrameBound::CurrentRow => None,
        })
    }

    /// Returns the same offsets, mutably.
    pub(crate) fn offsets_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        [&mut self.start, &mut self.end].into_iter().filter_map(|bound| match bound {
            FrameBound::Preceding(offset) | FrameBound::Following(offset) => Some(offset),
            FrameBound::Unbounded | FrameBound::CurrentRow => None,
        })
    }
}
