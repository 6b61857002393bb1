//! Queries after binding: the input of the executor.

pub(crate) mod sets;
pub(crate) mod window;

use std::sync::Arc;

use self::{
    sets::{SetCall, Sets},
    window::Windows,
};
use crate::{
    catalog::Table,
    error::Result,
    expr::{Comparison, Expr},
    functions::Aggregate,
    system::{ColumnSet, SystemTable},
    types::SqlType,
};

/// A query: rows, their order, and their number.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) body: Body,
    /// Sort keys by places in the rows of the body; behind the result columns there may be others, for sorting only.
    pub(crate) order: Vec<SortKey>,
    /// The number of result columns.
    pub(crate) width: usize,
    pub(crate) limit: Option<Expr>,
    pub(crate) offset: Option<Expr>,
    /// Rows to lock before they are returned.
    pub(crate) locks: Vec<LockedRows>,
}

impl Query {
    /// Returns the places of results that have no type yet, during binding.
    pub(crate) fn untyped(&self) -> &[usize] {
        match &self.body {
            Body::Select(select) => &select.untyped,
            Body::Values(_) | Body::WorkTable(_) | Body::Returned(_) | Body::Set { .. } => &[],
        }
    }

    /// Returns the body, the source and the table of a query that emits its results row by row as one table has them:
    /// most of those that a program runs for a key.
    pub(crate) fn one_table(&self) -> Option<(&Select, &Source, &TableSource)> {
        let Body::Select(select) = &self.body else { return None };
        let [source] = &select.sources[..] else { return None };
        let SourceKind::Table(table) = &source.kind else { return None };
        let is_whole = self.order.is_empty() && self.limit.is_none() && self.offset.is_none() && self.locks.is_empty();
        let is_ungathered = select.group.is_none() && select.windows.is_empty();
        let is_plain = is_ungathered && matches!(select.distinct, Distinct::No) && select.sets.is_empty();
        (is_whole && is_plain && source.join == Join::Inner && source.hash.is_none()).then_some((select, source, table))
    }
}

/// The rows of a table that underlie the rows of a query.
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

/// The strength of a row lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RowLock {
    pub(crate) is_shared: bool,
    pub(crate) wait: Wait,
}

/// The behavior towards a row that another transaction has locked or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// As with any write: the transaction waits for the row, or loses.
    AsLongAsAllowed,
    Never,
    Skip,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    Select(Box<Select>),
    Values(Vec<Vec<Expr>>),
    /// The rows that the last run of a recursive term returned, by the number of the recursive query.
    WorkTable(usize),
    /// The rows that a WITH query returns that writes, by its number.
    Returned(usize),
    Set {
        operation: SetOperation,
        all: bool,
        sides: Box<[Query; 2]>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SetOperation {
    Union,
    Intersect,
    Except,
    /// The rows of the left side, and those of the right one, which is run on the rows of its last run, or those of the
    /// left side, until it has none; with the number of the query.
    Recursion(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SortKey {
    pub(crate) at: usize,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

/// Rows of sources, joined by nested loops in their order; grouped or not, with the results of window functions or not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Select {
    /// Conditions that depend on no source.
    pub(crate) before: Vec<Expr>,
    pub(crate) sources: Vec<Source>,
    pub(crate) group: Option<Group>,
    pub(crate) windows: Windows,
    pub(crate) sets: Sets,
    pub(crate) output: Vec<Expr>,
    /// Places in the output of literals and parameters that have no type yet; none once binding is finished.
    pub(crate) untyped: Vec<usize>,
    pub(crate) distinct: Distinct,
}

impl Select {
    /// Calls `change` on all direct expressions, but not on those of the queries that it contains.
    pub(crate) fn each_expr(&mut self, change: &mut dyn FnMut(&mut Expr) -> Result<()>) -> Result<()> {
        for source in &mut self.sources {
            source.each_expr(change)?;
        }
        self.before.iter_mut().try_for_each(&mut *change)?;
        if let Some(group) = &mut self.group {
            group.keys.iter_mut().chain(&mut group.having).try_for_each(&mut *change)?;
            for call in &mut group.aggregates {
                call.exprs_mut().try_for_each(&mut *change)?;
            }
        }
        self.windows.exprs_mut().chain(self.sets.exprs_mut()).try_for_each(&mut *change)?;
        self.output.iter_mut().try_for_each(change)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) enum Distinct {
    #[default]
    No,
    /// All result columns.
    Rows,
    /// These places in the row.
    On(Vec<usize>),
}

#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) keys: Vec<Expr>,
    /// The keys of each grouping set, by their places; all keys, unless there are GROUPING SETS, ROLLUP or CUBE. Those
    /// that a set does not have are NULL in its groups.
    pub(crate) sets: Vec<Vec<usize>>,
    /// For each call of GROUPING the keys that are its arguments, by their places.
    pub(crate) groupings: Vec<Vec<usize>>,
    pub(crate) aggregates: Vec<AggregateCall>,
    /// Refers to the keys and aggregates.
    pub(crate) having: Option<Expr>,
}

impl Group {
    /// Returns the number of places of the row of a group: keys, results of GROUPING, aggregates.
    pub(crate) fn width(&self) -> usize {
        self.keys.len() + self.groupings.len() + self.aggregates.len()
    }

    /// Whether it has a group for all rows, even if there are none.
    pub(crate) fn has_whole(&self) -> bool {
        self.sets.iter().any(Vec::is_empty)
    }
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct AggregateCall {
    pub(crate) aggregate: Aggregate,
    pub(crate) arguments: Vec<Expr>,
    pub(crate) is_distinct: bool,
    pub(crate) filter: Option<Expr>,
    /// The order in which rows are added, where it matters.
    pub(crate) order: Vec<(Expr, bool, bool)>,
}

impl AggregateCall {
    /// Returns the expressions that are evaluated on each row.
    pub(crate) fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.arguments.iter().chain(&self.filter).chain(self.order.iter().map(|key| &key.0))
    }

    /// Returns the same expressions, mutably.
    pub(crate) fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.arguments.iter_mut().chain(&mut self.filter).chain(self.order.iter_mut().map(|key| &mut key.0))
    }
}

/// A source of joined rows: it has a place in the row for each of its columns.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) first: usize,
    pub(crate) width: usize,
    pub(crate) kind: SourceKind,
    pub(crate) join: Join,
    /// The join conditions.
    pub(crate) on: Vec<Expr>,
    /// Conditions of the query that can be checked here.
    pub(crate) filter: Vec<Expr>,
    /// Whether its rows are read once and found by their hash.
    pub(crate) hash: Option<Box<Hash>>,
    /// The rows that the choice of paths expected; `None`: there was no choice.
    pub(crate) expected: Option<Expected>,
    /// The name in statements; empty: it has none.
    pub(crate) name: String,
    /// The names of its columns, unless they are those of a table; empty: those that they have by themselves.
    pub(crate) names: Box<[Box<str>]>,
}

/// The numbers of rows that the choice of paths expects of a source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// Those in its hash, if it has one.
    pub(crate) kept: f64,
    /// Those that meet all conditions with one combination of the rows before it.
    pub(crate) found: f64,
    /// The combinations of rows up to it, in all.
    pub(crate) joined: f64,
}

/// The hash of a source's rows: they are read once, and each combination of the rows before finds those that match.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hash {
    /// Pairs of equal values: of the rows before, and of the own row. Without any, all rows match.
    pub(crate) keys: Vec<(Expr, Expr)>,
    /// Conditions on the own row alone, checked when it is read.
    pub(crate) filter: Vec<Expr>,
    /// Whether the own rows are the same for all rows of the queries around: the hash is kept until the statement ends.
    pub(crate) is_fixed: bool,
    /// Whether the first run scans: there may be one row before, and no second run.
    pub(crate) is_lazy: bool,
    /// Whether it has to fit into memory: because the order of the rows before has to stay, or because it is kept for
    /// other runs of its query, each of which would read it from a file.
    pub(crate) has_to_fit: bool,
}

impl Hash {
    /// Returns all expressions, mutably.
    fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.keys.iter_mut().flat_map(|(before, own)| [before, own]).chain(&mut self.filter)
    }

    /// Returns all expressions.
    pub(crate) fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.keys.iter().flat_map(|(before, own)| [before, own]).chain(&self.filter)
    }
}

impl Source {
    /// Returns a source without conditions.
    pub(crate) fn new(first: usize, width: usize, kind: SourceKind, join: Join, name: String) -> Self {
        let (on, filter, names) = (Vec::new(), Vec::new(), Box::default());
        Self { first, width, kind, join, on, filter, hash: None, expected: None, name, names }
    }

    /// Whether a place of a row is one of its columns.
    pub(crate) fn has_place(&self, at: usize) -> bool {
        (self.first..self.first + self.width).contains(&at)
    }

    /// Calls `change` on all direct expressions, but not on those of the queries that it contains.
    pub(crate) fn each_expr(&mut self, change: &mut dyn FnMut(&mut Expr) -> Result<()>) -> Result<()> {
        self.on.iter_mut().chain(&mut self.filter).try_for_each(&mut *change)?;
        self.hash.iter_mut().flat_map(|hash| hash.exprs_mut()).try_for_each(&mut *change)?;
        match &mut self.kind {
            SourceKind::Table(table) => {
                table.visible.iter_mut().try_for_each(&mut *change)?;
                let access = &mut table.access;
                let sides = [&mut access.lower, &mut access.upper].into_iter().flatten().map(|(_, bound)| bound);
                access.equal.iter_mut().chain(sides).try_for_each(|bound| change(&mut bound.value))
            }
            SourceKind::Function { calls, .. } => {
                calls.iter_mut().flat_map(|call| &mut call.arguments).try_for_each(change)
            }
            SourceKind::Lateral(expr) => change(expr),
            SourceKind::Members(members) => members.exprs_mut().try_for_each(change),
            SourceKind::Derived(_) | SourceKind::Once(_) | SourceKind::System { .. } => Ok(()),
        }
    }

    /// Returns the place behind its last column.
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
    /// With a row of NULLs if no row meets the conditions.
    Left,
    /// Like `Left`, and with its own rows that no row before has met. It is the second of two sources, without
    /// conditions of the query, and hashed.
    Full,
}

#[derive(Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "most sources are tables, and each of their rows would be behind a pointer"
)]
pub(crate) enum SourceKind {
    Table(TableSource),
    Derived(Arc<Query>),
    /// A query that is run once, however often its rows are needed: a second run might return other rows.
    Once(Arc<Query>),
    /// The rows of functions, side by side; those that end earlier are extended with NULL. If it is numbered, the number
    /// of the row follows (WITH ORDINALITY).
    Function {
        calls: Vec<SetCall>,
        is_numbered: bool,
    },
    /// A query that refers to the rows before it.
    Lateral(Expr),
    /// The values of a condition IN.
    Members(Members),
    /// A table of the system, computed from the current state.
    System {
        table: SystemTable,
        needed: ColumnSet,
    },
}

impl SourceKind {
    /// Returns the expressions by which its rows are made, apart from those of a path.
    pub(crate) fn exprs(&self) -> Vec<&Expr> {
        match self {
            Self::Function { calls, .. } => calls.iter().flat_map(|call| &call.arguments).collect(),
            Self::Lateral(expr) => vec![expr],
            Self::Members(members) => members.exprs().iter().collect(),
            Self::Table(_) | Self::Derived(_) | Self::Once(_) | Self::System { .. } => Vec::new(),
        }
    }
}

impl std::fmt::Debug for SourceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Table(source) => write!(f, "{} by {:?}", source.table.name(), source.access),
            Self::Derived(query) | Self::Once(query) => query.fmt(f),
            Self::Function { calls, .. } => f.debug_list().entries(calls.iter().map(|call| &call.name)).finish(),
            Self::Lateral(query) => write!(f, "lateral {query:?}"),
            Self::Members(members) => members.fmt(f),
            Self::System { table, .. } => table.fmt(f),
        }
    }
}

/// Values of which each row has one, without NULL, each value once and in ascending order.
#[derive(Clone, Debug)]
pub(crate) enum Members {
    List(Vec<Expr>),
    /// The elements of an array.
    Array(Expr),
    /// The results of a query that refers to no row around it: a [`Expr::Subquery`].
    Query(Expr),
}

impl Members {
    /// Returns the expressions that are evaluated for the values.
    pub(crate) fn exprs(&self) -> &[Expr] {
        match self {
            Self::List(list) => list,
            Self::Array(expr) | Self::Query(expr) => std::slice::from_ref(expr),
        }
    }

    /// Returns the same expressions, mutably.
    pub(crate) fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        match self {
            Self::List(list) => list.iter_mut(),
            Self::Array(expr) | Self::Query(expr) => std::slice::from_mut(expr).iter_mut(),
        }
    }
}

/// Rows of a table.
#[derive(Clone)]
pub(crate) struct TableSource {
    pub(crate) table: Arc<Table>,
    pub(crate) access: Access,
    /// The columns whose values are needed, by number, ascending; `tableoid` is the one after the last.
    pub(crate) needed: Vec<usize>,
    /// The place for the key of the row, if it is needed.
    pub(crate) key_at: Option<usize>,
    /// The hidden columns of indexes, and their values, computed from a row of the table. Plans alone read them.
    pub(crate) computed: Vec<(usize, Expr)>,
    /// The conditions that a row meets to be there for the role (row security). They are evaluated before anything else
    /// is computed from the row, and see the rows of no other source.
    pub(crate) visible: Vec<Expr>,
}

/// An order of a table's rows: that of the primary key, or of an index by its place in the definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Path {
    Primary,
    Index(usize),
}

/// The access path to rows, and its bounds.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) path: Path,
    /// Values that the first columns of the path must equal.
    pub(crate) equal: Vec<Bound>,
    /// Whether those are all columns of a path that is unique.
    pub(crate) is_point: bool,
    /// The lower and upper bounds of the next column.
    pub(crate) lower: Option<(Comparison, Bound)>,
    pub(crate) upper: Option<(Comparison, Bound)>,
    pub(crate) reverse: bool,
    /// Only the row that this cursor is on (WHERE CURRENT OF).
    pub(crate) cursor: Option<Box<str>>,
}

/// A value that a column of a path is compared with.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    /// Has a type of its own; depends on nothing later than the rows of enclosing queries.
    pub(crate) value: Expr,
    pub(crate) from: SqlType,
    pub(crate) column: SqlType,
    pub(crate) descending: bool,
}

impl Access {
    /// Returns the access to all rows.
    pub(crate) fn full(path: Path) -> Self {
        Self { path, equal: Vec::new(), is_point: false, lower: None, upper: None, reverse: false, cursor: None }
    }
}
