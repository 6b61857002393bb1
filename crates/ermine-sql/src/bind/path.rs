//! How the rows of a table are found: which index is read, and which part of it.
//!
//! There are no statistics. The more a path is bounded by values that are known when it is read, the better it is:
//! first come all columns of a unique one, then the number of columns compared by equality, then a range on the next
//! one, then whether it produces the wanted order. The primary key is better than an equally bounded index, which leads
//! to it.

use crate::{
    catalog::Table,
    expr::{Comparison, Conversion, Expr},
    query::{Access, Bound, Path, SortKey, TableSource},
    types::SqlType,
};

/// A condition that bounds a column: the column's number, the value it is compared with, and the type of that.
struct Bounding<'c> {
    /// The index of the condition.
    at: usize,
    column: usize,
    comparison: Comparison,
    value: &'c Expr,
    from: SqlType,
}

/// A path, with the conditions and the sort that it makes redundant.
pub(crate) struct Chosen {
    pub(crate) access: Access,
    /// Conditions that hold for all rows that the path finds.
    pub(crate) implied: Vec<usize>,
    /// Whether it produces the wanted order.
    pub(crate) is_ordered: bool,
    /// The number of columns of the path, and whether it is unique.
    pub(crate) columns: usize,
    pub(crate) is_unique: bool,
    score: Score,
}

/// Greater is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Score {
    is_point: bool,
    equal: usize,
    has_range: bool,
    is_ordered: bool,
    is_primary: bool,
}

/// A wanted order of a table's rows: numbers of columns.
pub(crate) struct WantedOrder(pub(crate) Vec<(usize, SortKey)>);

/// The columns of a table, by the expressions of a query that mean them.
pub(crate) struct Columns<'t> {
    table: &'t Table,
    /// The place of the first one.
    first: usize,
    /// The hidden columns of indexes, and the expressions that they stand for, on the row of the query.
    computed: Vec<(usize, Expr)>,
}

impl<'t> Columns<'t> {
    pub(crate) fn new(source: &'t TableSource, first: usize) -> Self {
        let computed = source.computed.iter().map(|(at, expr)| (*at, moved(expr.clone(), first))).collect();
        Self { table: &source.table, first, computed }
    }

    /// Returns the number of the column that an expression means.
    pub(crate) fn column(&self, expr: &Expr) -> Option<usize> {
        match expr {
            Expr::Column(place) => place.checked_sub(self.first).filter(|column| *column < self.table.types.len()),
            _ => self.computed.iter().find(|(_, own)| own == expr).map(|(at, _)| *at),
        }
    }
}

/// Returns an expression on the row of a table as one on a row in which the table's columns begin at place `first`.
fn moved(expr: Expr, first: usize) -> Expr {
    match expr {
        Expr::Column(at) => Expr::Column(first + at),
        expr => expr.map(&mut |inner| Ok(moved(inner, first))).expect("no change fails"),
    }
}

/// Returns the best path to rows of a table. Only conditions count that compare with values that are `known`.
pub(crate) fn choose(
    columns: &Columns<'_>,
    conditions: &[&Expr],
    known: &dyn Fn(&Expr) -> bool,
    order: Option<&WantedOrder>,
) -> Chosen {
    let table = columns.table;
    let bounding: Vec<_> =
        conditions.iter().enumerate().flat_map(|(at, condition)| bounds(at, condition, columns, known)).collect();
    let indexes = table.def.indexes.iter().enumerate();
    let usable = indexes.filter(|(at, index)| table.def.is_complete(*at) && index.predicate.is_none());
    let paths = [Path::Primary].into_iter().chain(usable.map(|(at, _)| Path::Index(at)));
    let chosen = paths.map(|path| along(table, path, &bounding, order)).max_by_key(|chosen| chosen.score);
    chosen.expect("the primary path is always there")
}

/// Returns the columns of a path, and whether each is descending.
fn columns_of(table: &Table, path: Path) -> Vec<(usize, bool)> {
    match path {
        Path::Primary => {
            table.def.primary_key.iter().flat_map(|key| &key.columns).map(|&column| (column, false)).collect()
        }
        Path::Index(at) => table.def.indexes[at].columns.clone(),
    }
}

fn along(table: &Table, path: Path, bounding: &[Bounding<'_>], order: Option<&WantedOrder>) -> Chosen {
    let columns = columns_of(table, path);
    let is_unique = match path {
        Path::Primary => true,
        Path::Index(at) => table.def.indexes[at].is_unique,
    };
    let mut access = Access::full(path);
    let mut implied = Vec::new();
    let mut rest = &columns[..];
    let bound = |found: &Bounding<'_>, descending| Bound {
        value: found.value.clone(),
        from: found.from,
        column: table.types[found.column],
        descending,
    };
    while let [(column, descending), left @ ..] = rest
        && let Some(found) =
            bounding.iter().find(|found| found.column == *column && found.comparison == Comparison::Equal)
    {
        access.equal.push(bound(found, *descending));
        implied.push(found.at);
        rest = left;
    }
    access.is_point = is_unique && rest.is_empty() && !columns.is_empty();
    if let [(column, descending), ..] = rest {
        for found in bounding.iter().filter(|found| found.column == *column) {
            let side = match found.comparison {
                Comparison::Greater | Comparison::GreaterOrEqual => &mut access.lower,
                Comparison::Less | Comparison::LessOrEqual => &mut access.upper,
                _ => continue,
            };
            if side.is_none() {
                *side = Some((found.comparison, bound(found, *descending)));
                implied.push(found.at);
            }
        }
    }
    let reverse = order.and_then(|order| direction(table, order, &columns, access.equal.len()));
    access.reverse = reverse.unwrap_or(false);
    let score = Score {
        is_point: access.is_point,
        equal: access.equal.len(),
        has_range: access.lower.is_some() || access.upper.is_some(),
        is_ordered: reverse.is_some(),
        is_primary: path == Path::Primary,
    };
    let is_ordered = order.is_some() && (reverse.is_some() || score.is_point);
    Chosen { access, implied, is_ordered, columns: columns.len(), is_unique, score }
}

/// Whether a path can use one more condition: that this column equals a value, where `is_equal` says of which columns
/// conditions say so already.
pub(crate) fn would_bound(table: &Table, column: usize, is_equal: &dyn Fn(usize) -> bool) -> bool {
    let indexes = table.def.indexes.iter().enumerate();
    let usable = indexes.filter(|(at, index)| table.def.is_complete(*at) && index.predicate.is_none());
    [Path::Primary].into_iter().chain(usable.map(|(at, _)| Path::Index(at))).any(|path| {
        let columns = columns_of(table, path);
        let at = columns.iter().position(|(own, _)| *own == column);
        at.is_some_and(|at| columns[..at].iter().all(|(own, _)| is_equal(*own)))
    })
}

/// Returns the place of the column that an operand of a comparison is, perhaps widened for the comparison.
pub(crate) fn column_in(operand: &Expr) -> Option<usize> {
    match operand {
        Expr::Column(place) => Some(*place),
        Expr::Cast(inner, Conversion { from, to, modifier: -1, .. }) if widens(*from, *to) => match **inner {
            Expr::Column(place) => Some(place),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a path produces an order, forwards (`false`) or backwards (`true`); its first `fixed` columns have one value
/// each.
fn direction(table: &Table, order: &WantedOrder, columns: &[(usize, bool)], fixed: usize) -> Option<bool> {
    let is_fixed = |column: usize| columns[..fixed].iter().any(|(own, _)| *own == column);
    let mut rest = columns[fixed..].iter();
    let mut reverse = None;
    for (column, key) in order.0.iter().filter(|(column, _)| !is_fixed(*column)) {
        let (own, runs_down) = rest.next()?;
        let turned = key.descending != *runs_down;
        // Ascending paths have NULLs last, descending ones first.
        let nulls_fit = table.def.is_never_null(*column) || key.nulls_first == (*runs_down != turned);
        if own != column || !nulls_fit || reverse.is_some_and(|reverse| reverse != turned) {
            return None;
        }
        reverse = Some(turned);
    }
    Some(reverse.unwrap_or(false))
}

/// Returns the bounds that a condition sets on columns of the table: on one, and on a hidden one that stands for a cast
/// of it.
fn bounds<'c>(
    at: usize,
    condition: &'c Expr,
    columns: &Columns<'_>,
    known: &dyn Fn(&Expr) -> bool,
) -> impl Iterator<Item = Bounding<'c>> {
    let one_side = |operand: &Expr, comparison: Comparison, value: &'c Expr| {
        if !known(value) || comparison == Comparison::NotEqual {
            return [None, None];
        }
        let bounding = |column, from| Bounding { at, column, comparison, value, from };
        let own = columns.column(operand).map(|column| bounding(column, columns.table.types[column]));
        let widened = match operand {
            // A column that was widened for the comparison.
            Expr::Cast(inner, Conversion { from, to, modifier: -1, .. }) if widens(*from, *to) => {
                columns.column(inner).map(|column| bounding(column, *to))
            }
            _ => None,
        };
        [own, widened]
    };
    let found = match condition {
        Expr::Compare(comparison, operands) => {
            let [left, right] = &**operands;
            match one_side(left, *comparison, right) {
                [None, None] => one_side(right, comparison.turned(), left),
                found => found,
            }
        }
        _ => [None, None],
    };
    found.into_iter().flatten()
}

/// Whether values of a type can be looked up by values of another type that includes them all: each converts without
/// error, and to a distinct value.
fn widens(from: SqlType, to: SqlType) -> bool {
    let is_any_text = |ty| matches!(ty, SqlType::VARCHAR | SqlType::TEXT);
    matches!((from, to), (SqlType::INT2, SqlType::INT4 | SqlType::INT8) | (SqlType::INT4, SqlType::INT8))
        || is_any_text(from) && is_any_text(to)
        || from == SqlType::NAME && to == SqlType::TEXT
}
