//! The order of joins, by cost.
//!
//! There are no statistics but the numbers of rows, which the engine knows at any time. Of the orders that are tried,
//! one for each source that may come first, the cheapest is taken: each is built greedily, by the source that adds the
//! least work and leaves the fewest rows. That is quadratic in the number of sources for one first source, so beyond
//! [`STARTS_MAX`] sources only the best first one is tried, and beyond [`SEARCHED_MAX`] the written order stays.
//!
//! A source is joined in one of three ways: its path is bounded by the rows before it (an index loop), it is read once
//! and hashed ([`Hash`](crate::query::Hash)), or it is read again for each row before it. A hash wins over an index loop
//! only if it is cheaper by far: a loop reads nothing that is not joined, and so conflicts with fewer writers.

use std::{cmp::Ordering, collections::BTreeSet};

use super::{
    join_order::{is_known, is_volatile, path_of, places_in, uses_outer},
    path::{Chosen, column_in},
    with::uses_work_table,
};
use crate::{
    catalog::Catalog,
    expr::{Comparison, Expr, Subquery},
    query::{
        Access, Body, Distinct, Expected, Group, Join, Members, Path, Query, SetOperation, SortKey, Source, SourceKind,
        TableSource, sets::SetCall,
    },
    types::Value,
};

/// Maximum number of sources of which each is tried as the first.
const STARTS_MAX: usize = 10;
/// Maximum number of sources that are reordered.
const SEARCHED_MAX: usize = 64;
/// The number of rows of tables that have fewer: plans outlive their tables' first rows.
const ROWS_MIN: f64 = 100.0;
/// The fraction of rows that meet a condition of which nothing is known.
pub(super) const FRACTION: f64 = 0.4;
/// Rows before a source from which on a hash may replace an index loop.
const HASH_FROM: f64 = 1000.0;

/// The sources of a query, their conditions, and the order that is wanted of the rows.
pub(super) struct Joins<'j> {
    sources: &'j [Source],
    /// Estimated rows of each source, without conditions.
    sizes: Vec<f64>,
    /// Conditions on the joined rows. Those of outer joins are with their source.
    conditions: &'j [Option<Expr>],
    wanted: &'j [SortKey],
    output: &'j Vec<Expr>,
    /// Whether only the first rows may be needed.
    is_limited: bool,
}

/// One source in the order: the way to its rows.
pub(super) struct Step {
    pub(super) at: usize,
    /// The path, if it is a table.
    pub(super) chosen: Option<Chosen>,
    pub(super) hash: Option<HashParts>,
    cost: f64,
    pub(super) expected: Expected,
}

/// The conditions that a hash takes over, by their place: first the source's own, then those of the query.
pub(super) struct HashParts {
    /// Equalities, and whether the left operand is the source's own value.
    pub(super) keys: Vec<(usize, bool)>,
    pub(super) filter: Vec<usize>,
    pub(super) is_fixed: bool,
    pub(super) is_lazy: bool,
}

/// An order, and its cost.
pub(super) struct Order {
    pub(super) steps: Vec<Step>,
    pub(super) cost: f64,
}

/// The places of a row that are known, from and to.
type Known = Vec<(usize, usize)>;

impl<'j> Joins<'j> {
    pub(super) fn new(
        catalog: &Catalog,
        sources: &'j [Source],
        conditions: &'j [Option<Expr>],
        (wanted, output): (&'j [SortKey], &'j Vec<Expr>),
        is_limited: bool,
    ) -> Self {
        let sizes = sources.iter().map(|source| source_size(catalog, &source.kind)).collect();
        Self { sources, sizes, conditions, wanted, output, is_limited }
    }

    /// Returns the best order that was found.
    pub(super) fn search(&self) -> Order {
        let needs: Vec<Vec<usize>> = (0..self.sources.len()).map(|at| self.needs(at)).collect();
        let written = || (0..self.sources.len()).collect::<Vec<_>>();
        if self.sources.len() < 2 || self.sources.len() > SEARCHED_MAX {
            return self.in_order(&written());
        }
        let mut starts: Vec<usize> = (0..self.sources.len()).filter(|at| needs[*at].is_empty()).collect();
        if self.sources.len() > STARTS_MAX {
            let weight = |at: &usize| self.step(*at, &Known::new(), 1.0, true).weight();
            starts.sort_by(|one, other| weight(one).total_cmp(&weight(other)));
            starts.truncate(1);
        }
        let orders = starts.into_iter().map(|start| self.greedily_from(start, &needs));
        let best = orders.min_by(|one, other| one.cost.partial_cmp(&other.cost).unwrap_or(Ordering::Equal));
        best.unwrap_or_else(|| self.in_order(&written()))
    }

    /// Returns a given order.
    fn in_order(&self, order: &[usize]) -> Order {
        let (mut steps, mut known, mut rows) = (Vec::new(), Known::new(), 1.0);
        for &at in order {
            let step = self.step(at, &known, rows, steps.is_empty());
            rows = step.expected.joined;
            known.push(self.places(at));
            steps.push(step);
        }
        self.order(steps)
    }

    fn greedily_from(&self, start: usize, needs: &[Vec<usize>]) -> Order {
        let mut steps = vec![self.step(start, &Known::new(), 1.0, true)];
        let mut known = vec![self.places(start)];
        let mut left: Vec<usize> = (0..self.sources.len()).filter(|at| *at != start).collect();
        while !left.is_empty() {
            let rows = steps.last().map_or(1.0, |step| step.expected.joined);
            let is_next = |at: &usize| needs[*at].iter().all(|needed| !left.contains(needed));
            let candidates = left.iter().copied().filter(is_next).map(|at| self.step(at, &known, rows, false));
            let best = candidates.min_by(|one, other| one.weight().total_cmp(&other.weight()));
            let best = best.expect("a source needs only sources that are written before it: one can always be next");
            left.retain(|at| *at != best.at);
            known.push(self.places(best.at));
            steps.push(best);
        }
        self.order(steps)
    }

    fn order(&self, steps: Vec<Step>) -> Order {
        let mut cost: f64 = steps.iter().map(|step| step.cost).sum();
        let is_ordered = steps.first().and_then(|step| step.chosen.as_ref()).is_some_and(|chosen| chosen.is_ordered);
        if is_ordered && self.is_limited {
            cost *= 0.1;
        } else if !is_ordered && !self.wanted.is_empty() {
            let rows = steps.last().map_or(1.0, |step| step.expected.joined);
            cost += 0.3 * rows * rows.max(2.0).log2();
        }
        Order { steps, cost }
    }

    fn places(&self, at: usize) -> (usize, usize) {
        let source = &self.sources[at];
        (source.first, source.first + source.width)
    }

    /// Returns the sources that must come before a source.
    fn needs(&self, at: usize) -> Vec<usize> {
        let source = &self.sources[at];
        let mut places = BTreeSet::new();
        source.on.iter().chain(source.kind.exprs()).for_each(|expr| places_in(expr, &mut places));
        let own = source.first..source.first + source.width;
        let foreign = |of: usize| places.iter().any(|at| !own.contains(at) && self.sources[of].has_place(*at));
        let mut needs: Vec<usize> = (0..self.sources.len()).filter(|of| *of != at && foreign(*of)).collect();
        if source.join != Join::Inner && needs.is_empty() {
            needs.extend(at.checked_sub(1));
        }
        needs
    }

    /// Estimates a source as the next one, and chooses the way to its rows.
    fn step(&self, at: usize, known: &Known, before: f64, is_first: bool) -> Step {
        let source = &self.sources[at];
        let order = is_first.then_some((self.wanted, self.output));
        let chosen = path_of(source, self.conditions, known, order);
        let mut with_own = known.clone();
        with_own.push(self.places(at));
        let fraction = self.fraction(source, chosen.as_ref(), known, &with_own);
        let (found, work) = self.reads(at, chosen.as_ref());
        let matching = found * fraction;
        let after = match source.join {
            Join::Inner => before * matching,
            Join::Left | Join::Full => before * matching.max(1.0),
        };
        let expected = Expected { kept: found, found: matching, joined: after.max(0.001) };
        let by_path = Step { at, cost: before * work, expected, chosen, hash: None };
        let is_loop = by_path.chosen.as_ref().is_some_and(|chosen| depends(chosen, &|inner| is_column(inner)));
        if is_loop && before < HASH_FROM && source.join != Join::Full {
            return by_path;
        }
        let Some((chosen, hash)) = self.hash(source, known, before, is_first, by_path.chosen.as_ref()) else {
            return by_path;
        };
        let (read, work) = self.reads(at, chosen.as_ref());
        let kept = read * 0.3f64.powi(hash.filter.len().min(4) as i32);
        let building = if hash.is_lazy { 0.0 } else { 2.0 * kept };
        let cost = work + building + before * (1.0 + 0.3 * matching);
        if is_loop && source.join != Join::Full && 2.0 * cost > by_path.cost {
            return by_path;
        }
        Step { chosen, hash: Some(hash), cost, expected: Expected { kept, ..expected }, ..by_path }
    }

    /// Returns the parts of a hash of a source, with the path by which it is read.
    fn hash(
        &self,
        source: &Source,
        known: &Known,
        before: f64,
        is_first: bool,
        own_path: Option<&Chosen>,
    ) -> Option<(Option<Chosen>, HashParts)> {
        let own = [(source.first, source.first + source.width)];
        let is_own = |expr: &Expr| is_known(expr, &own) && expr.has(&is_column);
        if source.kind.exprs().iter().any(|expr| !is_known(expr, &[])) || matches!(source.kind, SourceKind::Lateral(_))
        {
            return None;
        }
        let chosen = path_of(source, self.conditions, &[], None);
        if is_first && own_path.is_some_and(|chosen| !chosen.access.equal.is_empty()) {
            return None;
        }
        let implied = chosen.as_ref().map_or(&[][..], |chosen| &chosen.implied);
        let (mut keys, mut filter) = (Vec::new(), Vec::new());
        for (at, condition) in self.all_conditions(source).filter(|(at, _)| !implied.contains(at)) {
            if is_own(condition) && !condition.has(&is_outer) && source.join != Join::Full {
                filter.push(at);
            } else if let Expr::Compare(Comparison::Equal, operands) = condition {
                let is_before = |expr: &Expr| {
                    is_known(expr, known) && expr.has(&|inner| is_outer(inner) || !is_first && is_column(inner))
                };
                match &**operands {
                    [own, other] if is_own(own) && is_before(other) => keys.push((at, true)),
                    [other, own] if is_own(own) && is_before(other) => keys.push((at, false)),
                    _ => {}
                }
            }
        }
        // Without keys, only a query is worth keeping.
        let is_query = matches!(source.kind, SourceKind::Derived(_)) && !is_first && before > 1.5;
        if keys.is_empty() && !is_query && source.join != Join::Full {
            return None;
        }
        let own_keys = keys.iter().map(|(at, is_left)| {
            let (_, condition) = self.all_conditions(source).nth(*at).expect("it was found there");
            match condition {
                Expr::Compare(_, operands) => &operands[usize::from(!is_left)],
                other => other,
            }
        });
        let is_fixed = source.join != Join::Full
            && !own_keys.into_iter().any(|own| own.has(&is_outer))
            && !chosen.as_ref().is_some_and(|chosen| depends(chosen, &is_outer))
            && !source.kind.exprs().iter().any(|expr| expr.has(&is_outer))
            && match &source.kind {
                SourceKind::Derived(query) => !uses_outer(query, 1) && !is_volatile(query) && !uses_work_table(query),
                _ => true,
            };
        if is_first && !is_fixed {
            return None;
        }
        let is_lazy = before < 1.5 && source.join != Join::Full;
        Some((chosen, HashParts { keys, filter, is_fixed, is_lazy }))
    }

    /// Returns the conditions that decide which rows of a source are joined, with their places: its own ones, and
    /// unless it is outer-joined those of the query.
    fn all_conditions<'s>(&'s self, source: &'s Source) -> impl Iterator<Item = (usize, &'s Expr)> {
        const NEVER: &Expr = &Expr::Constant(Value::Null);
        let of_query = if source.join == Join::Inner { self.conditions } else { &[] };
        source.on.iter().chain(of_query.iter().map(|condition| condition.as_ref().unwrap_or(NEVER))).enumerate()
    }

    /// Estimates the fraction of the rows that a path finds which meet all conditions that are known with them.
    fn fraction(&self, source: &Source, chosen: Option<&Chosen>, known: &Known, with_own: &Known) -> f64 {
        let implied = chosen.map_or(&[][..], |chosen| &chosen.implied);
        let is_new = |(at, condition): &(usize, &Expr)| {
            !implied.contains(at) && is_known(condition, with_own) && (!is_known(condition, known))
        };
        let fractions = self.all_conditions(source).filter(is_new).map(|(_, condition)| match condition {
            Expr::Compare(Comparison::Equal, operands) => {
                let sides = [&operands[0], &operands[1]].map(column_in);
                match sides {
                    [Some(left), Some(right)] => 1.0 / self.distinct(left).max(self.distinct(right)),
                    [Some(at), None] | [None, Some(at)] => 1.0 / self.distinct(at),
                    [None, None] => 0.1,
                }
            }
            Expr::Compare(Comparison::NotEqual, _) => 0.9,
            Expr::Compare(..) => 0.33,
            Expr::In(_, list) => (0.02 * list.len() as f64).min(0.5),
            Expr::IsNull(_) => 0.1,
            _ => FRACTION,
        });
        fractions.product()
    }

    /// Estimates the number of distinct values in a place.
    fn distinct(&self, place: usize) -> f64 {
        let Some(at) = self.sources.iter().position(|source| source.has_place(place)) else { return 10.0 };
        let (source, rows) = (&self.sources[at], self.sizes[at]);
        let SourceKind::Table(TableSource { table, .. }) = &source.kind else { return rows.sqrt().max(2.0) };
        let column = place - source.first;
        let is_key = table.def.unique_key(&[column]).is_some();
        if is_key { rows } else { rows.sqrt().max(2.0) }
    }

    /// Estimates the rows that a path finds, and the work of finding them.
    fn reads(&self, at: usize, chosen: Option<&Chosen>) -> (f64, f64) {
        let size = self.sizes[at];
        let Some(chosen) = chosen else { return (size, 2.0 * size) };
        if chosen.access.is_point {
            return (1.0, if chosen.access.path == Path::Primary { 3.0 } else { 5.0 });
        }
        let found = found_rows(size, &chosen.access, chosen.columns, chosen.is_unique);
        let each = if chosen.access.path == Path::Primary { 1.0 } else { 3.0 };
        (found, 3.0 + each * found)
    }
}

impl Step {
    /// Whether its path is bounded by the value in a place.
    pub(super) fn is_bounded_by(&self, place: usize) -> bool {
        let is_place = |expr: &Expr| *expr == Expr::Column(place);
        self.hash.is_none() && self.chosen.as_ref().is_some_and(|chosen| depends(chosen, &is_place))
    }

    /// The less, the better as the next one.
    fn weight(&self) -> f64 {
        self.cost + 2.0 * self.expected.joined
    }
}

/// Estimates the rows that a path of that many columns finds in a table of `size` rows.
fn found_rows(size: f64, access: &Access, columns: usize, is_unique: bool) -> f64 {
    if access.is_point || access.cursor.is_some() {
        return size.min(1.0);
    }
    let (columns, equal) = (columns as f64, access.equal.len() as f64);
    let share = if is_unique { equal / columns.max(1.0) } else { equal / (columns + 1.0) };
    let sides = [&access.lower, &access.upper].into_iter().flatten();
    sides.fold(size.powf(1.0 - share), |found, _| 0.33 * found)
}

/// Estimates the rows of a source without conditions.
fn source_size(catalog: &Catalog, kind: &SourceKind) -> f64 {
    match kind {
        SourceKind::Table(table) => (catalog.estimated_rows(&table.table) as f64).max(ROWS_MIN),
        SourceKind::Derived(query) | SourceKind::Once(query) => query_size(catalog, query),
        SourceKind::Members(Members::List(list)) => list.len() as f64,
        SourceKind::Members(Members::Query(Expr::Subquery(Subquery { query, .. }))) => query_size(catalog, query),
        SourceKind::Function { calls, .. } => match &calls[..] {
            [SetCall { name, arguments, .. }] if **name == *"generate_series" => match &arguments[..] {
                [Expr::Constant(Value::Int4(first)), Expr::Constant(Value::Int4(last)), ..] => {
                    (f64::from(*last) - f64::from(*first) + 1.0).clamp(1.0, 1e9)
                }
                _ => 1000.0,
            },
            _ => 10.0,
        },
        SourceKind::System { .. } => 200.0,
        SourceKind::Members(_) | SourceKind::Lateral(_) => 10.0,
    }
}

/// Estimates the number of different ones of some rows.
pub(crate) fn different_rows(rows: f64) -> f64 {
    rows.powf(0.7)
}

/// Estimates the number of groups of some rows.
pub(crate) fn group_rows(group: &Group, rows: f64) -> f64 {
    let of_set = |set: &Vec<usize>| if set.is_empty() { 1.0 } else { different_rows(rows) };
    group.sets.iter().map(of_set).sum()
}

/// Estimates the rows of a set operation by those of its sides.
pub(crate) fn set_rows(operation: SetOperation, [left, right]: [f64; 2]) -> f64 {
    match operation {
        SetOperation::Union | SetOperation::Recursion(_) => left + right,
        SetOperation::Intersect => left.min(right),
        SetOperation::Except => left,
    }
}

/// Estimates how many of the rows of a query's body are between OFFSET and LIMIT.
pub(crate) fn limited_rows(query: &Query, rows: f64) -> f64 {
    let constant = |count: &Option<Expr>| match count {
        Some(Expr::Constant(Value::Int8(count))) => Some(*count as f64),
        _ => None,
    };
    let rows = (rows - constant(&query.offset).unwrap_or(0.0)).max(0.0);
    constant(&query.limit).map_or(rows, |limit| rows.min(limit))
}

/// The number of rows that a recursive query, or a statement in WITH, is expected to hand over at once.
pub(crate) const HANDED_OVER: f64 = 10.0;

fn query_size(catalog: &Catalog, query: &Query) -> f64 {
    let rows = match &query.body {
        Body::Values(rows) => rows.len() as f64,
        Body::WorkTable(_) | Body::Returned(_) => HANDED_OVER,
        Body::Set { operation, sides, .. } => {
            let [left, right] = &**sides;
            set_rows(*operation, [query_size(catalog, left), query_size(catalog, right)])
        }
        Body::Select(select) => {
            let of_source = |source: &Source| match &source.kind {
                SourceKind::Table(table) if table.access.is_point => 1.0,
                kind => source_size(catalog, kind) * 0.3f64.powi(source.filter.len().min(4) as i32),
            };
            let rows = select.sources.iter().map(of_source).fold(1.0, f64::max);
            let rows = select.group.as_ref().map_or(rows, |group| group_rows(group, rows));
            if matches!(select.distinct, Distinct::No) { rows } else { different_rows(rows) }
        }
    };
    limited_rows(query, rows)
}

/// Whether a bound of a path is, or contains, such an expression.
fn depends(chosen: &Chosen, is_such: &dyn Fn(&Expr) -> bool) -> bool {
    let access = &chosen.access;
    let sides = [&access.lower, &access.upper].into_iter().flatten().map(|(_, bound)| bound);
    access.equal.iter().chain(sides).any(|bound| bound.value.has(is_such))
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Column(_))
}

fn is_outer(expr: &Expr) -> bool {
    matches!(expr, Expr::Outer(..) | Expr::OuterAggregate(..))
}
