//! The order in which sources are joined, and where conditions are evaluated.
//!
//! A left join whose filled-up rows a condition drops is an inner one. The order is that of `join_search`: an inner
//! join may come anywhere, a left join anywhere behind the sources that its conditions refer to, because joins of rows
//! before it neither need its rows nor change which of them each row meets. A condition is evaluated as soon as all
//! values that it depends on are known; those of a left join are evaluated with it.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    ops::Range,
    sync::Arc,
};

use super::{
    join_conditions::{Converted, convert_members, implied_equalities},
    join_search::{FRACTION, HashParts, Joins, Order, Step},
    path,
    source::From,
};
use crate::{
    catalog::Catalog,
    expr::{Expr, Subquery},
    fold::is_strict,
    query::{AggregateCall, Body, Distinct, Hash, Join, Query, Select, SortKey, Source, SourceKind},
    types::Value,
};

/// Whether a query refers to rows `level` or more levels around it.
pub(super) fn uses_outer(query: &Query, level: usize) -> bool {
    let mut found = false;
    visit_query(query, &mut |expr| match expr {
        Expr::Outer(levels, _) | Expr::OuterAggregate(levels, _) => found |= *levels >= level,
        Expr::Subquery(subquery) => found |= uses_outer(&subquery.query, level + 1),
        _ => {}
    });
    found
}

/// Whether a query may return other rows on each run, with the same tables.
pub(crate) fn is_volatile(query: &Query) -> bool {
    let mut found = false;
    visit_query(query, &mut |expr| found |= is_volatile_itself(expr));
    found
}

/// Whether an expression, apart from its operands, may have another value each time.
pub(super) fn is_volatile_itself(expr: &Expr) -> bool {
    match expr {
        Expr::Subquery(subquery) => is_volatile(&subquery.query),
        expr => expr.is_volatile(),
    }
}

/// Whether a query and some expressions on its rows read no table, in no query in them either, and no state of the
/// system: its rows are the same whatever its statement has written meanwhile, and no scan is in the middle of a table
/// while they are shown.
pub(crate) fn is_generated(query: &Query, exprs: &[Expr]) -> bool {
    let mut reads = false;
    let mut see = |expr: &Expr| reads |= matches!(expr, Expr::Subquery(_) | Expr::Lookup(..));
    visit_query(query, &mut see);
    exprs.iter().for_each(|expr| expr.visit(&mut see));
    !reads && has_generated_rows(query)
}

/// Whether a query is made from functions and given values only. Those of its expressions that read are none of these.
fn has_generated_rows(query: &Query) -> bool {
    let is_generated = |source: &Source| match &source.kind {
        SourceKind::Derived(query) | SourceKind::Once(query) => has_generated_rows(query),
        SourceKind::Function { .. } | SourceKind::Members(_) => true,
        SourceKind::Table(_) | SourceKind::Lateral(_) | SourceKind::System { .. } => false,
    };
    match &query.body {
        Body::Select(select) => select.sources.iter().all(is_generated),
        Body::Set { sides, .. } => sides.iter().all(has_generated_rows),
        Body::Values(_) | Body::WorkTable(_) => true,
        Body::Returned(_) => false,
    }
}

/// Visits all expressions of a query, including those of queries it is made from, but not those of queries in
/// expressions.
fn visit_query(query: &Query, see: &mut dyn FnMut(&Expr)) {
    query.limit.iter().chain(&query.offset).for_each(|expr| expr.visit(see));
    match &query.body {
        Body::Select(select) => {
            visit_select(select, see);
            for source in &select.sources {
                if let SourceKind::Derived(query) | SourceKind::Once(query) = &source.kind {
                    visit_query(query, see);
                }
            }
        }
        Body::Values(rows) => rows.iter().flatten().for_each(|expr| expr.visit(see)),
        Body::WorkTable(_) | Body::Returned(_) => {}
        Body::Set { sides, .. } => sides.iter().for_each(|side| visit_query(side, see)),
    }
}

/// Visits the expressions of a query's body that are evaluated on its own rows, or on none.
fn visit_select(select: &Select, see: &mut dyn FnMut(&Expr)) {
    visit_sources(select, see);
    visit_results(select, see);
}

/// Visits the expressions that are evaluated on the joined rows, or before, apart from the results.
fn visit_sources(select: &Select, see: &mut dyn FnMut(&Expr)) {
    for source in &select.sources {
        source.on.iter().chain(&source.filter).for_each(|expr| expr.visit(see));
        source.hash.iter().flat_map(|hash| hash.exprs()).for_each(|expr| expr.visit(see));
        if let SourceKind::Table(table) = &source.kind {
            table.visible.iter().for_each(|expr| expr.visit(see));
            let access = &table.access;
            let sides = [&access.lower, &access.upper].into_iter().flatten().map(|(_, bound)| bound);
            access.equal.iter().chain(sides).for_each(|bound| bound.value.visit(see));
        }
        source.kind.exprs().iter().for_each(|expr| expr.visit(see));
    }
    select.before.iter().for_each(|expr| expr.visit(see));
    if let Some(group) = &select.group {
        group.keys.iter().for_each(|expr| expr.visit(see));
        for call in &group.aggregates {
            call.exprs().for_each(|expr| expr.visit(see));
        }
    }
}

/// Visits the expressions that are evaluated on the joined rows, or on the groups: in a grouped query, their places are
/// those of keys and aggregates.
fn visit_results(select: &Select, see: &mut dyn FnMut(&Expr)) {
    select.group.iter().flat_map(|group| &group.having).for_each(|expr| expr.visit(see));
    select.windows.exprs().chain(select.sets.exprs()).for_each(|expr| expr.visit(see));
    select.output.iter().for_each(|expr| expr.visit(see));
}

/// Determines the order of the sources, the conditions of each, and the way to its rows. Returns whether rows are
/// produced in the wanted order.
pub(super) fn order_joins(
    catalog: &Catalog,
    select: &mut Select,
    from: &mut From,
    filter: Vec<Expr>,
    wanted: &[SortKey],
    is_limited: bool,
) -> bool {
    let mut sources: Vec<Source> = mem::take(&mut from.sources);
    reduce_outer_joins(&mut sources, &filter);
    // It does not matter where a condition on rows of inner joins was written, but those of joins are checked first.
    let mut conditions: Vec<Option<Expr>> = Vec::new();
    let inner = sources.iter_mut().filter(|source| source.join == Join::Inner);
    inner.for_each(|source| conditions.extend(source.on.drain(..).map(Some)));
    conditions.extend(filter.into_iter().map(Some));
    // A full join has rows without those of its first source.
    let is_full = sources.iter().any(|source| source.join == Join::Full);
    if !is_full {
        know_results(select, &mut sources, &mut conditions);
    }
    place(&mut conditions, &[], sources.is_empty(), &mut select.before);
    let given = conditions.len();
    if sources.len() > 1 {
        let implied = implied_equalities(&conditions);
        conditions.extend(implied.into_iter().map(Some));
    }
    let search = |sources: &[Source], conditions: &[Option<Expr>]| {
        Joins::new(catalog, sources, conditions, (wanted, &select.output), is_limited).search()
    };
    let mut order = search(&sources, &conditions);
    let (plain, mut left) = (sources.len(), Vec::new());
    // Results of window functions and sets have the places behind the sources.
    let is_extended = !select.windows.is_empty() || !select.sets.is_empty();
    while !is_full && (!is_extended || select.group.is_some()) {
        let converted = convert_members(&mut sources, &mut conditions[..given], from.width, &left);
        if converted.is_empty() {
            break;
        }
        let with_members = search(&sources, &conditions);
        let is_used = |converted: &Converted| with_members.steps.iter().any(|step| step.is_bounded_by(converted.place));
        let unused: Vec<usize> =
            converted.iter().filter(|converted| !is_used(converted)).map(|converted| converted.at).collect();
        if unused.is_empty() && with_members.cost < order.cost {
            order = with_members;
            break;
        }
        let all = converted.iter().map(|converted| converted.at);
        left.extend(if unused.is_empty() { all.collect() } else { unused });
        sources.truncate(plain);
        for Converted { at, original, .. } in converted {
            conditions[at] = Some(original);
        }
    }
    arrange(select, sources, (conditions, given), order, wanted)
}

/// Puts the sources in their order, and the conditions to the sources where they can be checked. Those after the
/// `given` ones need not be.
fn arrange(
    select: &mut Select,
    sources: Vec<Source>,
    (mut conditions, given): (Vec<Option<Expr>>, usize),
    order: Order,
    wanted: &[SortKey],
) -> bool {
    let is_ordered = wanted.is_empty()
        || order.steps.first().and_then(|step| step.chosen.as_ref()).is_some_and(|chosen| chosen.is_ordered);
    let mut sources: Vec<Option<Source>> = sources.into_iter().map(Some).collect();
    let (mut known, mut left) = (Vec::new(), order.steps.len());
    for Step { at, chosen, hash, mut expected, .. } in order.steps {
        let mut source = sources[at].take().expect("each source has one step");
        left -= 1;
        known.push((source.first, source.first + source.width));
        let mut on: Vec<Option<Expr>> = mem::take(&mut source.on).into_iter().map(Some).collect();
        let mut take = |at: usize| match at.checked_sub(on.len()) {
            None => on[at].take(),
            Some(at) => conditions[at].take(),
        };
        if let (SourceKind::Table(table), Some(chosen)) = (&mut source.kind, chosen) {
            table.access = chosen.access;
            chosen.implied.into_iter().for_each(|at| drop(take(at)));
        }
        source.hash = hash.map(|HashParts { keys, filter, is_fixed, is_lazy }| {
            let keys = keys.into_iter().filter_map(|(at, is_left)| match take(at)? {
                Expr::Compare(_, operands) => {
                    let [left, right] = *operands;
                    Some(if is_left { (right, left) } else { (left, right) })
                }
                _ => None,
            });
            let keys = keys.collect();
            let filter = filter.into_iter().filter_map(&mut take).collect();
            Box::new(Hash { keys, filter, is_fixed, is_lazy, has_to_fit: is_ordered && !wanted.is_empty() })
        });
        source.on = on.into_iter().flatten().collect();
        place(&mut conditions[..given], &known, false, &mut source.filter);
        if left == 0 {
            let known = source.filter.len();
            place(&mut conditions[..given], &[], true, &mut source.filter);
            // The search does not look at these: they are last in any order.
            let fraction = FRACTION.powi((source.filter.len() - known).min(4) as i32);
            expected.found *= fraction;
            expected.joined *= fraction;
        }
        source.expected = Some(expected);
        select.sources.push(source);
    }
    is_ordered
}

/// Turns left joins into inner ones if a condition would drop every row that the join fills up with NULL.
fn reduce_outer_joins(sources: &mut [Source], filter: &[Expr]) {
    // A condition of a join refers to the sources before it: from the last source on, one pass suffices.
    for at in (0..sources.len()).rev() {
        let (before, own) = (sources[at].first, sources[at].first + sources[at].width);
        let later = sources[at + 1..].iter().filter(|source| source.join == Join::Inner).flat_map(|source| &source.on);
        if filter.iter().chain(later).any(|condition| drops_nulls(condition, &(before..own))) {
            sources[at].join = Join::Inner;
        }
    }
}

/// Whether a condition is not true if these places of a row are NULL.
fn drops_nulls(condition: &Expr, places: &Range<usize>) -> bool {
    match condition {
        Expr::And(conditions) => conditions.iter().any(|condition| drops_nulls(condition, places)),
        Expr::Or(conditions) => conditions.iter().all(|condition| drops_nulls(condition, places)),
        Expr::Not(operand) => match &**operand {
            Expr::IsNull(value) => is_null_with(value, places),
            value => is_null_with(value, places),
        },
        value => is_null_with(value, places),
    }
}

/// Whether a value is NULL if these places of a row are.
pub(super) fn is_null_with(value: &Expr, places: &Range<usize>) -> bool {
    match value {
        Expr::Column(at) => places.contains(at),
        value => is_strict(value) && value.children().iter().any(|operand| is_null_with(operand, places)),
    }
}

/// Replaces results of queries in FROM that are the same for all of their rows. A condition on nothing else becomes one
/// of the query's own, behind those that it has: it is checked before any row is read. A query that has no rows leaves
/// none here.
fn know_results(select: &mut Select, sources: &mut [Source], conditions: &mut Vec<Option<Expr>>) {
    let is_foreign = |inner: &Expr| {
        matches!(inner, Expr::Column(_) | Expr::Outer(..) | Expr::OuterAggregate(..) | Expr::Subquery(_))
    };
    let is_same = |expr: &Expr| !expr.has(&is_foreign) && !expr.is_volatile();
    let mut results: BTreeMap<usize, Expr> = BTreeMap::new();
    for source in sources.iter_mut().filter(|source| source.join == Join::Inner) {
        let SourceKind::Derived(query) = &mut source.kind else { continue };
        let Body::Select(inner) = &query.body else { continue };
        let keeps_rows = query.limit.is_none() && query.offset.is_none() && matches!(inner.distinct, Distinct::No);
        if !keeps_rows || inner.group.is_some() || !inner.sets.is_empty() {
            continue;
        }
        let never = Expr::Constant(Value::Bool(false));
        if inner.before.contains(&never) {
            conditions.push(Some(never));
        }
        let output = inner.output.iter().enumerate().take(query.width).filter(|(_, output)| is_same(output));
        let own: BTreeMap<usize, Expr> = output.map(|(at, output)| (source.first + at, output.clone())).collect();
        for condition in conditions.iter_mut() {
            let is_own = |condition: &Expr| condition.has(&|inner| matches!(inner, Expr::Column(_)));
            if let Some(known) = condition.clone().filter(is_own).map(|condition| with_results(condition, &own))
                && is_same(&known)
                && let Body::Select(inner) = &mut Arc::make_mut(query).body
            {
                inner.before.push(known);
                *condition = None;
            }
        }
        results.extend(own);
    }
    conditions.retain(Option::is_some);
    if results.is_empty() {
        return;
    }
    let on = sources.iter_mut().flat_map(|source| &mut source.on);
    let output: Vec<&mut Expr> = match &mut select.group {
        None => select.windows.exprs_mut().chain(select.sets.exprs_mut()).chain(&mut select.output).collect(),
        // The results refer to the keys and aggregates.
        Some(group) => {
            let aggregates = group.aggregates.iter_mut().flat_map(AggregateCall::exprs_mut);
            group.keys.iter_mut().chain(aggregates).collect()
        }
    };
    for expr in conditions.iter_mut().flatten().chain(on).chain(output) {
        *expr = with_results(mem::replace(expr, Expr::TRUE), &results);
    }
}

fn with_results(expr: Expr, results: &BTreeMap<usize, Expr>) -> Expr {
    match expr {
        Expr::Column(at) => results.get(&at).cloned().unwrap_or(expr),
        expr => expr.map(&mut |inner| Ok(with_results(inner, results))).expect("no change fails"),
    }
}

/// Whether a value depends only on rows that are known.
pub(super) fn is_known(expr: &Expr, known: &[(usize, usize)]) -> bool {
    let mut is_known = true;
    expr.visit(&mut |inner| {
        is_known &= match inner {
            Expr::Column(at) => known.iter().any(|(first, end)| (*first..*end).contains(at)),
            Expr::Subquery(subquery) => !subquery.is_correlated,
            Expr::Next(_) | Expr::LastGiven(_) | Expr::SetNext(..) | Expr::SetConfig(_) => false,
            Expr::Advisory(..) | Expr::Notify(_) | Expr::Channels | Expr::Sleep(_) => false,
            Expr::Aggregate(_) | Expr::OuterAggregate(..) => false,
            Expr::Call(function, _) => !function.is_volatile,
            _ => true,
        }
    });
    is_known
}

/// Returns the best path to a source's rows, if it is a table. Conditions of the join take precedence over those of the
/// query.
pub(super) fn path_of(
    source: &Source,
    conditions: &[Option<Expr>],
    known: &[(usize, usize)],
    order: Option<(&[SortKey], &Vec<Expr>)>,
) -> Option<path::Chosen> {
    let SourceKind::Table(table) = &source.kind else { return None };
    let never = Expr::Constant(Value::Null);
    let mut all: Vec<&Expr> = source.on.iter().collect();
    if source.join == Join::Inner {
        all.extend(conditions.iter().map(|condition| condition.as_ref().unwrap_or(&never)));
    }
    let columns = path::Columns::new(table, source.first);
    let wanted = order.and_then(|(keys, output)| {
        let column = |key: &SortKey| Some((columns.column(output.get(key.at)?)?, *key));
        let keys = keys.iter().map(column).collect::<Option<Vec<_>>>()?;
        (!keys.is_empty()).then_some(path::WantedOrder(keys))
    });
    Some(path::choose(&columns, &all, &|value| is_known(value, known), wanted.as_ref()))
}

/// Moves the conditions that can be evaluated once these rows are known.
fn place(conditions: &mut [Option<Expr>], known: &[(usize, usize)], is_last: bool, to: &mut Vec<Expr>) {
    for condition in conditions {
        if is_last || condition.as_ref().is_some_and(|condition| is_known(condition, known)) {
            to.extend(condition.take());
        }
    }
}

/// Collects the places of the row `level` queries around that a query refers to.
fn outer_places(query: &Query, level: usize, places: &mut BTreeSet<usize>) {
    visit_query(query, &mut |expr| match expr {
        Expr::Outer(levels, at) if *levels == level => drop(places.insert(*at)),
        Expr::Subquery(subquery) => outer_places(&subquery.query, level + 1, places),
        _ => {}
    });
}

/// Collects the places of the row of a query that an expression reads, also in the queries in it.
pub(super) fn places_in(expr: &Expr, places: &mut BTreeSet<usize>) {
    expr.visit(&mut |inner| match inner {
        Expr::Column(at) => drop(places.insert(*at)),
        Expr::Subquery(subquery) => outer_places(&subquery.query, 1, places),
        _ => {}
    });
}

/// Determines which columns of tables are needed. Results of queries in FROM that are not needed become NULL, and are
/// not evaluated.
pub(super) fn need(select: &mut Select) {
    let mut places = BTreeSet::new();
    let mut see = |expr: &Expr| match expr {
        Expr::Column(at) => drop(places.insert(*at)),
        Expr::Subquery(subquery) => outer_places(&subquery.query, 1, &mut places),
        _ => {}
    };
    visit_sources(select, &mut see);
    if select.group.is_none() {
        visit_results(select, &mut see);
    }
    for source in &mut select.sources {
        let own = source.first..source.first + source.width;
        let needed: Vec<_> = own.filter(|at| places.contains(at)).map(|at| at - source.first).collect();
        match &mut source.kind {
            SourceKind::System { needed: columns, .. } => *columns = needed.into_iter().collect(),
            SourceKind::Table(table) => table.needed = needed,
            SourceKind::Derived(query) | SourceKind::Lateral(Expr::Subquery(Subquery { query, .. }))
                if needed.len() < source.width =>
            {
                need_results(Arc::make_mut(query), &needed);
            }
            _ => {}
        }
    }
}

/// Drops the results of a query that are not needed, unless they decide about its rows.
fn need_results(query: &mut Query, needed: &[usize]) {
    let Body::Select(select) = &mut query.body else { return };
    if !matches!(select.distinct, Distinct::No) || !select.sets.is_empty() {
        return;
    }
    for (at, output) in select.output.iter_mut().enumerate().take(query.width) {
        let decides = query.order.iter().any(|key| key.at == at) || output.has(&is_volatile_itself);
        if !decides && needed.binary_search(&at).is_err() {
            *output = Expr::Constant(Value::Null);
        }
    }
    need(select);
}
