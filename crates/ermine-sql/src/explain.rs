//! EXPLAIN: a plan as lines of text, and the measurements of its run.

use std::time::Duration;

use ermine::Work;

use crate::{
    bind::{
        parts::{Main, Write},
        write::{Change, Insert, InsertSource},
    },
    catalog::Table,
    exec::{Actual, Instrumentation},
    expr::Expr,
    plan::Plan,
    query::{Access, Body, Join, Members, Path, Query, Select, SetOperation, Source, SourceKind},
};

/// Returns the lines of a plan, with the measurements of its parts, if it was run.
pub(crate) fn lines(plan: &Plan, instrumentation: Option<&Instrumentation>) -> Vec<String> {
    let mut lines = Lines { all: Vec::new(), instrumentation };
    match plan {
        Plan::Query(rows) => query(rows, 0, &mut lines),
        Plan::Declare(declare) => query(&declare.query, 0, &mut lines),
        Plan::Insert(of) => insert(of, 0, &mut lines),
        Plan::Update(of) => change("Update", of, 0, &mut lines),
        Plan::Delete(of) => change("Delete", of, 0, &mut lines),
        Plan::Parts(parts) => {
            match &parts.main {
                Main::Query(rows) => query(rows, 0, &mut lines),
                Main::Write(of) => write(of, 0, &mut lines),
            }
            for part in &parts.parts {
                detail(0, &format!("CTE {}", part.name), &mut lines);
                write(&part.write, 1, &mut lines);
            }
        }
        Plan::Explain { plan, .. } => return self::lines(plan, instrumentation),
        Plan::CopyFrom(_)
        | Plan::CopyTo(_)
        | Plan::Definition(_)
        | Plan::TableAs(_)
        | Plan::Refresh(_)
        | Plan::Control
        | Plan::Nothing => {
            line(0, "Utility Statement", &mut lines);
        }
    }
    lines.all.into_iter().map(|(line, told)| line + &told.unwrap_or_default()).collect()
}

fn write(of: &Write, depth: usize, lines: &mut Lines<'_>) {
    match of {
        Write::Insert(of) => insert(of, depth, lines),
        Write::Update(of) => change("Update", of, depth, lines),
        Write::Delete(of) => change("Delete", of, depth, lines),
        Write::Merge(of) => {
            line(depth, &format!("Merge on {}", of.table.name()), lines);
            query(&of.rows, depth + 1, lines);
        }
    }
}

fn insert(of: &Insert, depth: usize, lines: &mut Lines<'_>) {
    line(depth, &format!("Insert on {}", of.table.name()), lines);
    if let InsertSource::Query(rows, _) = &of.source {
        query(rows, depth + 1, lines);
    }
}

fn change(word: &str, of: &Change, depth: usize, lines: &mut Lines<'_>) {
    line(depth, &format!("{word} on {}", of.table.name()), lines);
    query(&of.rows, depth + 1, lines);
}

/// Lines under construction.
struct Lines<'a> {
    /// Each line, with the measurements of the part of the plan that it names.
    all: Vec<(String, Option<String>)>,
    instrumentation: Option<&'a Instrumentation>,
}

impl Lines<'_> {
    /// Adds the average time and rows of a part of the plan to a line, unless the line has those of an inner part
    /// already.
    fn tell<T>(&mut self, at: usize, part: &T) {
        let Some(instrumentation) = self.instrumentation else { return };
        self.all[at].1.get_or_insert_with(|| match instrumentation.of(part) {
            None => " (never executed)".to_owned(),
            Some(Actual { runs, rows, took }) => {
                let (millis, rows) = ((took / runs).as_secs_f64() * 1e3, rows as f64 / f64::from(runs));
                format!(" (actual time={millis:.3} rows={rows:.0} loops={runs})")
            }
        });
    }
}

/// Returns the lines about a plan that was run: its outcome, and its work in the transaction.
pub(crate) fn analysis(tag: &str, work: &Work, took: Duration) -> [String; 6] {
    let Work { rows_read, versions_walked, tracked_reads, log_bytes } = work;
    [
        format!("Result: {tag}"),
        format!("Rows Read: {rows_read}"),
        format!("Versions Walked: {versions_walked}"),
        format!("Tracked Reads: {tracked_reads}"),
        format!("Log Bytes: {log_bytes}"),
        format!("Execution Time: {:.3} ms", took.as_secs_f64() * 1e3),
    ]
}

fn line(depth: usize, text: &str, lines: &mut Lines<'_>) {
    let arrow = if depth == 0 { String::new() } else { format!("{}->  ", "      ".repeat(depth - 1) + "  ") };
    lines.all.push((format!("{arrow}{text}"), None));
}

/// Adds a line with details of the one before.
fn detail(depth: usize, text: &str, lines: &mut Lines<'_>) {
    lines.all.push((format!("{}{text}", "      ".repeat(depth + 1)), None));
}

fn query(of: &Query, mut depth: usize, lines: &mut Lines<'_>) {
    let first = lines.all.len();
    if of.limit.is_some() || of.offset.is_some() {
        line(depth, "Limit", lines);
        depth += 1;
    }
    if !of.locks.is_empty() {
        line(depth, "LockRows", lines);
        depth += 1;
    }
    if !of.order.is_empty() {
        line(depth, "Sort", lines);
        depth += 1;
    }
    match &of.body {
        Body::Select(of) => select(of, depth, lines),
        Body::Values(rows) => line(depth, &format!("Values ({} rows)", rows.len()), lines),
        Body::WorkTable(_) => line(depth, "WorkTable Scan", lines),
        Body::Returned(_) => line(depth, "CTE Scan", lines),
        Body::Set { operation, all, sides } => {
            let name = match operation {
                SetOperation::Recursion(_) => "Recursive Union".to_owned(),
                operation => format!("{operation:?}{}", if *all { " All" } else { "" }),
            };
            line(depth, &name, lines);
            sides.iter().for_each(|side| query(side, depth + 1, lines));
        }
    }
    lines.tell(first, of);
}

fn select(of: &Select, mut depth: usize, lines: &mut Lines<'_>) {
    if !matches!(of.distinct, crate::query::Distinct::No) {
        line(depth, "Unique", lines);
        depth += 1;
    }
    for _ in &of.sets.levels {
        line(depth, "ProjectSet", lines);
        depth += 1;
    }
    for _ in &of.windows.all {
        line(depth, "WindowAgg", lines);
        depth += 1;
    }
    if let Some(group) = &of.group {
        line(depth, if group.keys.is_empty() { "Aggregate" } else { "HashAggregate" }, lines);
        if group.sets.len() > 1 {
            detail(depth, &format!("Grouping Sets: {}", group.sets.len()), lines);
        }
        depth += 1;
    }
    match &of.sources[..] {
        [] => line(depth, "Result", lines),
        [one] => source(one, depth, lines),
        several => {
            line(depth, "Nested Loop", lines);
            several.iter().for_each(|one| source(one, depth + 1, lines));
        }
    }
}

fn source(of: &Source, depth: usize, lines: &mut Lines<'_>) {
    let left = match of.join {
        Join::Inner => "",
        Join::Left => "Left ",
        Join::Full => "Full ",
    };
    let first = lines.all.len();
    if let Some(hash) = &of.hash {
        let keys: Vec<_> =
            hash.keys.iter().map(|(before, own)| format!("{} = {}", value(own), value(before))).collect();
        line(depth, &format!("{left}Hash on {}", of.name), lines);
        if !keys.is_empty() {
            detail(depth, &format!("Hash Cond: ({})", keys.join(" AND ")), lines);
        }
    }
    let (left, depth) = if of.hash.is_some() { ("", depth + 1) } else { (left, depth) };
    match &of.kind {
        SourceKind::Table(table) => {
            let (way, condition) = access(&table.table, &table.access);
            line(
                depth,
                &format!("{left}{way} on {}{}", table.table.name(), alias(table.table.name(), &of.name)),
                lines,
            );
            if let Some(condition) = condition {
                let kind = if table.access.cursor.is_some() { "TID" } else { "Index" };
                detail(depth, &format!("{kind} Cond: {condition}"), lines);
            }
        }
        SourceKind::Derived(inner) | SourceKind::Once(inner) => {
            line(depth, &format!("{left}Subquery Scan on {}", of.name), lines);
            query(inner, depth + 1, lines);
        }
        SourceKind::Function { .. } => line(depth, &format!("{left}Function Scan on {}", of.name), lines),
        SourceKind::Members(members) => {
            let what = match members {
                Members::List(list) => format!("Values Scan ({} values of IN)", list.len()),
                Members::Array(_) => "Values Scan (elements of an array)".to_owned(),
                Members::Query(_) => "Values Scan (results of a query)".to_owned(),
            };
            line(depth, &what, lines);
            if let Members::Query(Expr::Subquery(of)) = members {
                query(&of.query, depth + 1, lines);
            }
        }
        SourceKind::Lateral(_) => line(depth, &format!("{left}Lateral Subquery Scan on {}", of.name), lines),
        SourceKind::System(table) => line(depth, &format!("{left}System Scan on {table:?}"), lines),
    }
    let filters = of.on.len() + of.filter.len() + of.hash.as_ref().map_or(0, |hash| hash.filter.len());
    if filters > 0 {
        let plural = if filters == 1 { "" } else { "s" };
        detail(depth, &format!("Filter: {filters} condition{plural}"), lines);
    }
    lines.tell(first, of);
}

fn alias(name: &str, alias: &str) -> String {
    if name == alias { String::new() } else { format!(" {alias}") }
}

/// Describes the access path to a table's rows, and its bounds.
fn access(table: &Table, access: &Access) -> (String, Option<String>) {
    let (name, columns): (Option<&str>, Vec<usize>) = match access.path {
        Path::Primary => {
            let key = table.def.primary_key.as_ref();
            (key.map(|key| &*key.name), key.map_or(Vec::new(), |key| key.columns.clone()))
        }
        Path::Index(at) => {
            let index = &table.def.indexes[at];
            (Some(&index.name), index.columns.iter().map(|column| column.0).collect())
        }
    };
    if let Some(cursor) = &access.cursor {
        return ("Tid Scan".into(), Some(format!("CURRENT OF {cursor}")));
    }
    let column = |at: usize| table.def.part(columns[at]);
    let mut bounds: Vec<String> = access
        .equal
        .iter()
        .enumerate()
        .map(|(at, bound)| format!("{} = {}", column(at), value(&bound.value)))
        .collect();
    for (comparison, bound) in [&access.lower, &access.upper].into_iter().flatten() {
        bounds.push(format!("{} {} {}", column(access.equal.len()), comparison.name(), value(&bound.value)));
    }
    let condition = (!bounds.is_empty()).then(|| format!("({})", bounds.join(" AND ")));
    let backward = if access.reverse { " Backward" } else { "" };
    let way = match (name, access.path, &condition) {
        (_, Path::Primary, None) if !access.reverse => "Seq Scan".to_owned(),
        (Some(name), _, _) => format!("Index Scan{backward} using {name}"),
        (None, _, _) => format!("Seq Scan{backward}"),
    };
    (way, condition)
}

fn value(of: &Expr) -> String {
    match of {
        Expr::Constant(value) => format!("{value:?}"),
        Expr::Parameter(at) => format!("${}", at + 1),
        Expr::Column(_) | Expr::Outer(..) => "a column".into(),
        _ => "an expression".into(),
    }
}
