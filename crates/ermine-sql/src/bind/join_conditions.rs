//! Conditions that a query implies, and conditions IN that become sources.

use super::{
    join_order::{is_known, is_volatile},
    path::{column_in, would_bound},
};
use crate::{
    expr::{Comparison, Elementwise, Expr, Subquery, SubqueryKind},
    query::{Join, Members, Source, SourceKind},
};

/// Maximum number of columns that are equal to one another of which each pair gets a condition.
const CLASS_MAX: usize = 8;

/// Returns equalities that follow from others: of columns that are equal to the same column or value. They make more
/// paths and orders possible; they need not be checked.
pub(super) fn implied_equalities(conditions: &[Option<Expr>]) -> Vec<Expr> {
    let mut classes: Vec<(Vec<usize>, Option<&Expr>)> = Vec::new();
    let mut given: Vec<(usize, usize)> = Vec::new();
    for condition in conditions.iter().flatten() {
        let Expr::Compare(Comparison::Equal, operands) = condition else { continue };
        let (members, value) = match &**operands {
            [Expr::Column(left), Expr::Column(right)] => {
                given.push((*left.min(right), *left.max(right)));
                (vec![*left, *right], None)
            }
            [Expr::Column(at), value] | [value, Expr::Column(at)] if is_known(value, &[]) && !value.has_query() => {
                (vec![*at], Some(value))
            }
            _ => continue,
        };
        let (mut same, mut rest): (Vec<_>, Vec<_>) =
            classes.into_iter().partition(|(class, _)| members.iter().any(|at| class.contains(at)));
        same.push((members, value));
        let value = same.iter().find_map(|(_, value)| *value);
        let mut all: Vec<usize> = same.into_iter().flat_map(|(class, _)| class).collect();
        all.sort_unstable();
        all.dedup();
        rest.push((all, value));
        classes = rest;
    }
    let equal = |left: &Expr, right: &Expr| Expr::Compare(Comparison::Equal, [left.clone(), right.clone()].into());
    let mut implied = Vec::new();
    for (class, value) in classes.into_iter().filter(|(class, _)| (2..=CLASS_MAX).contains(&class.len())) {
        for (number, &at) in class.iter().enumerate() {
            if let Some(value) = value {
                implied.push(equal(&Expr::Column(at), value));
                continue;
            }
            for &other in class[number + 1..].iter().filter(|other| !given.contains(&(at, **other))) {
                implied.push(equal(&Expr::Column(at), &Expr::Column(other)));
            }
        }
    }
    implied.retain(|condition| !conditions.iter().flatten().any(|known| known == condition));
    implied
}

/// A condition IN that has become a source.
pub(super) struct Converted {
    /// The place of the condition, and what it was.
    pub(super) at: usize,
    pub(super) original: Expr,
    /// The place of the source's value in a row.
    pub(super) place: usize,
}

/// Turns conditions IN on columns of paths into sources: each value finds its rows by the path, instead of each row
/// being compared with all values. Not those among `left`. The values' places follow `next`.
pub(super) fn convert_members(
    sources: &mut Vec<Source>,
    conditions: &mut [Option<Expr>],
    next: usize,
    left: &[usize],
) -> Vec<Converted> {
    let mut found = Vec::new();
    for at in (0..conditions.len()).filter(|at| !left.contains(at)) {
        let Some((operand, members)) = conditions[at].as_ref().and_then(members_of) else { continue };
        let is_equal = |place: usize| {
            conditions.iter().flatten().any(|condition| match condition {
                Expr::Compare(Comparison::Equal, operands) => {
                    operands.iter().any(|side| column_in(side) == Some(place))
                }
                other => members_of(other).is_some_and(|(operand, _)| column_in(operand) == Some(place)),
            })
        };
        let is_bound = sources.iter().any(|source| match &source.kind {
            SourceKind::Table(table) if source.join == Join::Inner => column_in(operand)
                .and_then(|place| place.checked_sub(source.first))
                .filter(|column| *column < table.table.types.len())
                .is_some_and(|column| would_bound(&table.table, column, &|own| is_equal(source.first + own))),
            _ => false,
        });
        if is_bound {
            found.push((at, operand.clone(), members));
        }
    }
    let converted = found.into_iter().enumerate().map(|(number, (at, operand, members))| {
        let place = next + number;
        sources.push(Source::new(place, 1, SourceKind::Members(members), Join::Inner, String::new()));
        let equal = Expr::Compare(Comparison::Equal, [operand, Expr::Column(place)].into());
        let original = conditions[at].replace(equal).expect("it is a condition");
        Converted { at, original, place }
    });
    converted.collect()
}

/// Returns the operand and the values of a condition IN whose values are the same for all rows.
fn members_of(condition: &Expr) -> Option<(&Expr, Members)> {
    let is_same = |expr: &Expr| is_known(expr, &[]) && !expr.has_query();
    match condition {
        Expr::In(operand, list) if list.iter().all(is_same) => Some((operand, Members::List(list.clone()))),
        Expr::Any { operator: Elementwise::Compare(Comparison::Equal), operands, all: false } => {
            let [operand, array] = &**operands;
            is_same(array).then(|| (operand, Members::Array(array.clone())))
        }
        Expr::Subquery(Subquery {
            query,
            kind: SubqueryKind::Holds { operand, comparison: Comparison::Equal, all: false },
            is_correlated: false,
        }) if !is_volatile(query) => {
            let query = Subquery { query: query.clone(), kind: SubqueryKind::Value, is_correlated: false };
            Some((operand, Members::Query(Expr::Subquery(query))))
        }
        _ => None,
    }
}
