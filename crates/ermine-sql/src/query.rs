//! Queries after binding: what the executor runs.

use std::sync::Arc;

use crate::{
    catalog::Table,
    error::Result,
    expr::{Comparison, Expr},
    functions::Aggregate,
    types::SqlType,
};

/// A query: rows, their order, and how many of them.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) body: Body,
    /// By places in the rows of the body; behind those that are shown there may be others, for this only.
    pub(crate) order: Vec<SortKey>,
    /// How many of the values of a row are shown.
    pub(crate) width: usize,
    pub(crate) limit: Option<Expr>,
    pub(crate) offset: Option<Expr>,
    /// Rows that are locked before they are shown.
    pub(crate) locks: Vec<LockedRows>,
}

impl Query {
    /// Places of its results that have no type yet, while it is being bound.
    pub(crate) fn untyped(&self) -> &[usize] {
        match &self.body {
            Body::Select(select) => &select.untyped,
            Body::Values(_) | Body::Set { .. } => &[],
        }
    }
}

/// The rows of a table behind the rows of a query.
#[derive(Clone)]
pub(crate) struct LockedRows {
    pub(crate) table: Arc<Table>,
    /// The place of the key in a row of the body; NULL: no row.
    pub(crate) key_at: usize,
    pub(crate) lock: RowLock,
}

impl std::fmt::Debug for LockedRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} by {:?}", self.table.name(), self.lock)
    }
}

/// How a row is locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RowLock {
    pub(crate) is_shared: bool,
    pub(crate) wait: Wait,
}

/// What is done about a row that somebody else has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// As with any write: it is waited for, or the transaction loses.
    AsLongAsAllowed,
    Never,
    Skip,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    Select(Box<Select>),
    Values(Vec<Vec<Expr>>),
    Set { operation: SetOperation, all: bool, sides: Box<[Query; 2]> },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SetOperation {
    Union,
    Intersect,
    Except,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SortKey {
    pub(crate) at: usize,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

/// Rows of sources, joined by nested loops in their order; grouped or not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Select {
    /// Conditions that depend on no source.
    pub(crate) before: Vec<Expr>,
    pub(crate) sources: Vec<Source>,
    pub(crate) group: Option<Group>,
    pub(crate) output: Vec<Expr>,
    /// Places in the output whose values are arrays: a row for each element, of all of them side by side.
    pub(crate) sets: Vec<usize>,
    /// Places in the output of literals and parameters that have no type yet; none once all is bound.
    pub(crate) untyped: Vec<usize>,
    pub(crate) distinct: Distinct,
}

impl Select {
    /// Shows all expressions that are directly in it, to be changed: not those of the queries that it is made from.
    pub(crate) fn each_expr(&mut self, change: &mut dyn FnMut(&mut Expr) -> Result<()>) -> Result<()> {
        for source in &mut self.sources {
            source.on.iter_mut().chain(&mut source.filter).try_for_each(&mut *change)?;
            match &mut source.kind {
                SourceKind::Table(table) => {
                    let access = &mut table.access;
                    let sides = [&mut access.lower, &mut access.upper].into_iter().flatten().map(|(_, bound)| bound);
                    access.equal.iter_mut().chain(sides).try_for_each(|bound| change(&mut bound.value))?;
                }
                SourceKind::Series(bounds) => bounds.iter_mut().try_for_each(&mut *change)?,
                SourceKind::Unnest(expr) | SourceKind::Lateral(expr) => change(expr)?,
                SourceKind::Derived(_) | SourceKind::Once(_) | SourceKind::System(_) => {}
            }
        }
        self.before.iter_mut().try_for_each(&mut *change)?;
        if let Some(group) = &mut self.group {
            group.keys.iter_mut().chain(&mut group.having).try_for_each(&mut *change)?;
            for call in &mut group.aggregates {
                call.exprs_mut().try_for_each(&mut *change)?;
            }
        }
        self.output.iter_mut().try_for_each(change)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) enum Distinct {
    #[default]
    No,
    /// By all values that are shown.
    Rows,
    /// By these: places in the row.
    On(Vec<usize>),
}

#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) keys: Vec<Expr>,
    pub(crate) aggregates: Vec<AggregateCall>,
    /// On the keys and aggregates.
    pub(crate) having: Option<Expr>,
}

#[derive(Clone, Debug)]
pub(crate) struct AggregateCall {
    pub(crate) aggregate: Aggregate,
    pub(crate) arguments: Vec<Expr>,
    pub(crate) is_distinct: bool,
    pub(crate) filter: Option<Expr>,
    /// In which order rows are added, where that matters.
    pub(crate) order: Vec<(Expr, bool, bool)>,
}

impl AggregateCall {
    /// What is evaluated on each row.
    pub(crate) fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.arguments.iter().chain(&self.filter).chain(self.order.iter().map(|key| &key.0))
    }

    /// The same, to be changed.
    pub(crate) fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.arguments.iter_mut().chain(&mut self.filter).chain(self.order.iter_mut().map(|key| &mut key.0))
    }
}

/// What rows are joined from: a place in the row for each of its columns.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) first: usize,
    pub(crate) width: usize,
    pub(crate) kind: SourceKind,
    pub(crate) join: Join,
    /// Conditions of the join.
    pub(crate) on: Vec<Expr>,
    /// Conditions of the query that can be looked at here.
    pub(crate) filter: Vec<Expr>,
    /// As statements name it.
    pub(crate) name: String,
}

impl Source {
    /// The place behind its last one.
    pub(crate) fn end(&self) -> usize {
        let end = self.first + self.width;
        match &self.kind {
            SourceKind::Table(table) => table.key_at.map_or(end, |at| end.max(at + 1)),
            _ => end,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Join {
    Inner,
    /// With a row of NULLs where none meets the conditions.
    Left,
}

#[derive(Clone)]
pub(crate) enum SourceKind {
    Table(TableSource),
    Derived(Arc<Query>),
    /// A query that is run once, however often its rows are asked for: it might give others the next time.
    Once(Arc<Query>),
    /// Numbers from the first to the second, by the third.
    Series([Expr; 3]),
    /// The elements of an array.
    Unnest(Expr),
    /// A query that looks at the rows before it.
    Lateral(Expr),
    /// A table of the system, made from what is known at the time.
    System(crate::system::SystemTable),
}

impl std::fmt::Debug for SourceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Table(source) => write!(f, "{} by {:?}", source.table.name(), source.access),
            Self::Derived(query) | Self::Once(query) => query.fmt(f),
            Self::Series(_) => f.write_str("generate_series"),
            Self::Unnest(_) => f.write_str("unnest"),
            Self::Lateral(query) => write!(f, "lateral {query:?}"),
            Self::System(table) => table.fmt(f),
        }
    }
}

/// Rows of a table.
#[derive(Clone)]
pub(crate) struct TableSource {
    pub(crate) table: Arc<Table>,
    pub(crate) access: Access,
    /// The columns whose values are asked for, by number, ascending.
    pub(crate) needed: Vec<usize>,
    /// The place for the key of the row, where that is asked for.
    pub(crate) key_at: Option<usize>,
}

/// An order of a table's rows: that of the primary key, or an index by its place in the definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Path {
    Primary,
    Index(usize),
}

/// How rows are found.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) path: Path,
    /// What the first columns of the path are equal to.
    pub(crate) equal: Vec<Bound>,
    /// Whether those are all columns of a path that has one row for each.
    pub(crate) is_point: bool,
    /// What the next column is above, or below.
    pub(crate) lower: Option<(Comparison, Bound)>,
    pub(crate) upper: Option<(Comparison, Bound)>,
    pub(crate) reverse: bool,
}

/// A value that a column of a path is compared with.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    /// Of a type of its own; depends on nothing that comes later than the rows around.
    pub(crate) value: Expr,
    pub(crate) from: SqlType,
    pub(crate) column: SqlType,
    pub(crate) descending: bool,
}

impl Access {
    /// All rows.
    pub(crate) fn full(path: Path) -> Self {
        Self { path, equal: Vec::new(), is_point: false, lower: None, upper: None, reverse: false }
    }
}
