//! EXPLAIN: a plan as a tree of nodes, with estimates, and the measurements of a run.
//!
//! | module | contents |
//! |---|---|
//! | `sql` | conditions as SQL writes them |
//! | `forms` | calls of functions in them |
//! | `output` | the tree as text or as JSON, and the facts of a run |
//!
//! A plan has no nodes of its own: its queries and sources are what runs, in steps that are measured. A query may be
//! several nodes one below the other (Limit, Sort, Aggregate): the first has the measurements of all of the query, and
//! the next ones those of the step that they show.

mod forms;
mod output;
mod sql;

use std::time::Duration;

pub(crate) use self::output::{Facts, json, lines};
use self::sql::{Places, Writer, sort_key};
use crate::{
    bind::{
        join_search::{HANDED_OVER, different_rows, group_rows, limited_rows, set_rows},
        parts::{Main, Part, Write},
        write::{Change, Insert, InsertSource},
    },
    catalog::Table,
    ddl::materialized::Refresh,
    exec::{Actual, Instrumentation, Step},
    expr::{Expr, SubqueryKind},
    functions::quote_ident,
    plan::{HowToExplain, Plan},
    query::{Access, Body, Distinct, Join, Members, Path, Query, Select, SetOperation, Source, SourceKind},
    types::Environment,
};

/// What a plan is explained with.
#[derive(Clone, Copy)]
pub(crate) struct Explained<'a> {
    pub(crate) plan: &'a Plan,
    /// Whether nodes have the rows that the choice of paths expected.
    pub(crate) has_estimates: bool,
    pub(crate) environment: &'a Environment,
    /// The measurements of the run, if there was one.
    pub(crate) instrumentation: Option<&'a Instrumentation>,
    /// The time that it took to make the plan.
    pub(crate) planned: Duration,
    pub(crate) how: HowToExplain,
}

/// A node of a plan.
#[derive(Default)]
struct Node {
    /// The kind, as PostgreSQL names it in JSON.
    kind: String,
    /// The line in texts.
    title: String,
    /// What it is about: names of tables and indexes.
    about: Vec<(&'static str, String)>,
    /// Conditions and keys.
    details: Vec<(&'static str, String)>,
    /// The estimated rows of a run.
    estimate: Option<f64>,
    measured: Option<Measured>,
    inner: Vec<Node>,
}

/// The measurements of a node.
enum Measured {
    Never,
    Was(Actual),
}

impl Node {
    fn new(kind: &str) -> Self {
        Self { kind: kind.to_owned(), title: kind.to_owned(), ..Self::default() }
    }

    /// A node of one kind, with another title.
    fn titled(kind: &str, title: String) -> Self {
        Self { title, ..Self::new(kind) }
    }

    fn about(mut self, name: &'static str, what: impl Into<String>) -> Self {
        self.about.push((name, what.into()));
        self
    }

    fn detail(&mut self, name: &'static str, what: Option<String>) {
        self.details.extend(what.map(|what| (name, what)));
    }

    /// Adds the name of a source.
    fn known_as(self, of: &Source) -> Self {
        if of.name.is_empty() { self } else { self.about("Alias", &*of.name) }
    }

    /// Puts the node above others; without a better estimate, it has as many rows as the first of them.
    fn around(mut self, inner: impl IntoIterator<Item = Node>) -> Self {
        self.inner.extend(inner);
        self.estimate = self.estimate.or(self.inner.first().and_then(|first| first.estimate));
        self
    }

    fn estimated(mut self, rows: Option<f64>) -> Self {
        self.estimate = rows;
        self
    }

    /// Returns an estimate that follows from its own.
    fn so_estimated(&self, rows: impl FnOnce(f64) -> f64) -> Option<f64> {
        self.estimate.map(rows)
    }
}

/// Returns the nodes of a plan; a part of WITH that writes is a node beside the main one.
fn nodes(of: &Explained<'_>) -> Vec<Node> {
    let tree = Tree { of: *of, writer: Writer::new(of.environment) };
    let places = Places::default();
    match of.plan {
        Plan::Query(rows) => vec![tree.query(rows, &places)],
        Plan::Declare(declare) => vec![tree.query(&declare.query, &places)],
        Plan::CopyTo(to) => vec![tree.query(&to.query, &places)],
        Plan::TableAs(create) => vec![tree.query(&create.query, &places)],
        Plan::Insert(insert) => vec![tree.insert(insert)],
        Plan::Update(change) => vec![tree.change("Update", change)],
        Plan::Delete(change) => vec![tree.change("Delete", change)],
        Plan::Parts(parts) => {
            let main = match &parts.main {
                Main::Query(rows) => tree.query(rows, &places),
                Main::Write(write) => tree.write(write),
            };
            let of_part = |part: &Part| tree.write(&part.write).about("Subplan Name", format!("CTE {}", part.name));
            std::iter::once(main).chain(parts.parts.iter().map(of_part)).collect()
        }
        Plan::Explain { plan, .. } => nodes(&Explained { plan, ..*of }),
        Plan::Refresh(Refresh { query: Some(query), .. }) => vec![tree.query(query, &places)],
        Plan::CopyFrom(_) | Plan::Definition(_) | Plan::Refresh(_) | Plan::Control | Plan::Nothing => {
            vec![Node::new("Utility Statement")]
        }
    }
}

/// Makes nodes.
struct Tree<'a> {
    of: Explained<'a>,
    writer: Writer<'a>,
}

impl Tree<'_> {
    fn write(&self, of: &Write) -> Node {
        match of {
            Write::Insert(of) => self.insert(of),
            Write::Update(of) => self.change("Update", of),
            Write::Delete(of) => self.change("Delete", of),
            Write::Merge(of) => {
                let mut node = Self::modify("Merge", &of.table).around([self.query(&of.rows, &Places::default())]);
                self.measure_if_run(&mut node, of);
                node
            }
        }
    }

    fn modify(word: &str, table: &Table) -> Node {
        let title = format!("{word} on {}", table.name());
        Node::titled("ModifyTable", title).about("Operation", word).about("Relation Name", table.name())
    }

    fn insert(&self, of: &Insert) -> Node {
        let node = Self::modify("Insert", &of.table);
        let mut node = match &of.source {
            InsertSource::Query(rows, _) => node.around([self.query(rows, &Places::default())]),
            InsertSource::Rows(rows) => {
                let subplans = self.subplans(rows.iter().flatten(), &Places::default());
                node.estimated(self.expected(rows.len() as f64)).around(subplans)
            }
        };
        self.measure_if_run(&mut node, of);
        node
    }

    fn change(&self, word: &str, of: &Change) -> Node {
        let mut node = Self::modify(word, &of.table).around([self.query(&of.rows, &Places::default())]);
        // The row that the values are computed on has the columns of all sources.
        let places = match &of.rows.body {
            Body::Select(select) => Places::default().within(select),
            _ => Places::default(),
        };
        let assigned = of.assignments.iter().flatten().map(|(_, value)| value);
        node.inner.extend(self.subplans(assigned, &places));
        self.measure_if_run(&mut node, of);
        node
    }

    /// Adds the measurements of a step of a part of the plan to its node, unless it has those of an inner step already.
    fn measure<T>(&self, node: &mut Node, part: &T, step: Step) {
        let Some(instrumentation) = self.of.instrumentation else { return };
        node.measured.get_or_insert_with(|| instrumentation.of(part, step).map_or(Measured::Never, Measured::Was));
    }

    /// Adds the measurements of a statement that writes.
    fn measure_if_run<T>(&self, node: &mut Node, statement: &T) {
        let measured = self.of.instrumentation.and_then(|instrumentation| instrumentation.of(statement, Step::Whole));
        node.measured = measured.map(Measured::Was);
    }

    /// Returns the nodes of the queries in expressions.
    fn subplans<'e>(&self, exprs: impl IntoIterator<Item = &'e Expr>, places: &Places<'_>) -> Vec<Node> {
        let mut nodes = Vec::new();
        for expr in exprs {
            expr.visit(&mut |expr| {
                if let Expr::Subquery(subquery) = expr {
                    let (kind, name) = self.writer.subplan(subquery);
                    let mut node = self.query(&subquery.query, places).about("Parent Relationship", kind);
                    if matches!(subquery.kind, SubqueryKind::Exists) {
                        // It ends with its first row.
                        node.estimate = node.so_estimated(|rows| rows.min(1.0));
                    }
                    nodes.push(node.about("Subplan Name", name));
                }
            });
        }
        nodes
    }

    fn query(&self, of: &Query, places: &Places<'_>) -> Node {
        let distinct = match &of.body {
            Body::Select(select) => &select.distinct,
            _ => &Distinct::No,
        };
        let mut node = match &of.body {
            Body::Select(select) => self.select(select, places, of.order.is_empty()),
            Body::Values(rows) => Node::titled("Values Scan", format!("Values ({} rows)", rows.len()))
                .estimated(self.expected(rows.len() as f64))
                .around(self.subplans(rows.iter().flatten(), places)),
            Body::WorkTable(_) => Node::new("WorkTable Scan").estimated(self.expected(HANDED_OVER)),
            Body::Returned(_) => Node::new("CTE Scan").estimated(self.expected(HANDED_OVER)),
            Body::Set { operation, all, sides } => {
                let title = match operation {
                    SetOperation::Recursion(_) => "Recursive Union".to_owned(),
                    operation => format!("{operation:?}{}", if *all { " All" } else { "" }),
                };
                let kind = if title == "Recursive Union" { "Recursive Union" } else { "SetOp" };
                let node = Node::titled(kind, title.clone()).about("Command", title);
                let [left, right] = [&sides[0], &sides[1]].map(|side| self.query(side, places));
                let rows = left.estimate.zip(right.estimate);
                let rows = rows.map(|(left, right)| set_rows(*operation, [left, right]));
                node.estimated(rows).around([left, right])
            }
        };
        let is_whole = of.order.is_empty() && of.locks.is_empty() && of.limit.is_none() && of.offset.is_none();
        if !is_whole {
            self.measure(&mut node, of, Step::Body);
        }
        if !of.order.is_empty() {
            let mut sort = Node::new("Sort");
            sort.detail("Sort Key", self.sort_keys(of, places));
            node = sort.around([node]);
            // The sort itself leaves rows out that are equal as a whole.
            if matches!(distinct, Distinct::Rows) {
                node = Self::unique(node);
            }
            self.measure(&mut node, of, Step::Sorted);
            if matches!(distinct, Distinct::On(_)) {
                node = Self::unique(node);
            }
        }
        if !of.locks.is_empty() {
            node = Node::new("LockRows").around([node]);
            if of.limit.is_some() || of.offset.is_some() {
                self.measure(&mut node, of, Step::Locked);
            }
        }
        if of.limit.is_some() || of.offset.is_some() {
            let rows = node.so_estimated(|rows| limited_rows(of, rows));
            node = Node::new("Limit").estimated(rows).around([node]);
            node.inner.extend(self.subplans(of.limit.iter().chain(&of.offset), places));
        }
        self.measure(&mut node, of, Step::Whole);
        node
    }

    /// Returns the number of rows that is expected, if it is to be shown.
    fn expected(&self, rows: f64) -> Option<f64> {
        self.of.has_estimates.then_some(rows)
    }

    /// Puts a node above another that leaves out equal rows.
    fn unique(of: Node) -> Node {
        Node::new("Unique").estimated(of.so_estimated(different_rows)).around([of])
    }

    fn sort_keys(&self, of: &Query, places: &Places<'_>) -> Option<String> {
        let Body::Select(select) = &of.body else { return None };
        let places = places.above(select);
        let keys: Option<Vec<_>> = of
            .order
            .iter()
            .map(|key| {
                let text = self.writer.expression(select.output.get(key.at)?, &places);
                Some(sort_key(&text, key.descending, key.nulls_first))
            })
            .collect();
        keys.map(|keys| keys.join(", "))
    }

    /// `shows_distinct`: whether equal rows are left out here, and not by a sort.
    fn select(&self, of: &Select, around: &Places<'_>, shows_distinct: bool) -> Node {
        let (places, above) = (around.within(of), around.above(of));
        let mut node = match &of.sources[..] {
            [] => {
                let mut node = Node::new("Result").estimated(self.expected(1.0));
                self.measure(&mut node, of, Step::Rows);
                node
            }
            [one] => self.source(one, &places),
            several => {
                let sources: Vec<_> = several.iter().map(|one| self.source(one, &places)).collect();
                let joined = several.last().and_then(|last| last.expected).map(|expected| expected.joined);
                let rows = joined.and_then(|rows| self.expected(rows));
                let mut node = Node::new("Nested Loop").estimated(rows).around(sources);
                self.measure(&mut node, of, Step::Rows);
                node
            }
        };
        node.inner.extend(self.subplans(of.sources.iter().flat_map(exprs_of).chain(&of.before), &places));
        node.detail("One-Time Filter", self.writer.conditions(of.before.iter(), &places));
        if let Some(group) = &of.group {
            let kind = if group.keys.is_empty() { "Aggregate" } else { "HashAggregate" };
            let mut aggregate = Node::titled("Aggregate", kind.to_owned())
                .about("Strategy", if group.keys.is_empty() { "Plain" } else { "Hashed" });
            if group.sets.len() > 1 {
                aggregate.detail("Grouping Sets", Some(group.sets.len().to_string()));
            } else if !group.keys.is_empty() {
                let keys: Vec<_> = group.keys.iter().map(|key| self.writer.expression(key, &places)).collect();
                aggregate.detail("Group Key", Some(keys.join(", ")));
            }
            aggregate.detail("Filter", self.writer.conditions(group.having.iter(), &above));
            let rows = node.so_estimated(|rows| group_rows(group, rows));
            node = aggregate.estimated(rows).around([node]);
            self.measure(&mut node, of, Step::Groups);
            let aggregated = group.keys.iter().chain(group.aggregates.iter().flat_map(|call| call.exprs()));
            node.inner.extend(self.subplans(aggregated, &places));
            node.inner.extend(self.subplans(&group.having, &above));
        }
        for _ in &of.windows.all {
            node = Node::new("WindowAgg").around([node]);
        }
        if !of.windows.is_empty() {
            // The first one has what all of them take.
            self.measure(&mut node, of, Step::Windows);
        }
        for _ in &of.sets.levels {
            node = Node::new("ProjectSet").around([node]);
        }
        if shows_distinct && !matches!(of.distinct, Distinct::No) {
            if matches!(of.distinct, Distinct::Rows) {
                self.measure(&mut node, of, Step::Results);
            }
            node = Self::unique(node);
        }
        let results = of.windows.exprs().chain(of.sets.exprs()).chain(&of.output);
        node.inner.extend(self.subplans(results, &above));
        node
    }

    fn source(&self, of: &Source, places: &Places<'_>) -> Node {
        let left = match of.join {
            Join::Inner => "",
            Join::Left => "Left ",
            Join::Full => "Full ",
        };
        let own_left = if of.hash.is_some() { "" } else { left };
        let mut node = self.kind(of, own_left, places);
        let visible = match &of.kind {
            SourceKind::Table(table) => &table.visible[..],
            _ => &[],
        };
        let own = of.hash.iter().flat_map(|hash| &hash.filter);
        let filter = visible.iter().chain(own).chain(&of.filter);
        node.detail("Filter", self.writer.conditions(filter, places));
        let joined = self.writer.conditions(of.on.iter(), places);
        let found = of.expected.and_then(|expected| self.expected(expected.found));
        let kept = of.expected.and_then(|expected| self.expected(expected.kept));
        node.estimate = if of.hash.is_some() { kept } else { found }.or(node.estimate);
        if let Some(hash) = &of.hash {
            let mut hashed = Node::titled("Hash Join", format!("{left}Hash{}", on(of))).known_as(of);
            let keys: Vec<_> = hash
                .keys
                .iter()
                .map(|(before, own)| {
                    format!("{} = {}", self.writer.operand(own, places), self.writer.operand(before, places))
                })
                .collect();
            hashed.detail("Hash Cond", (!keys.is_empty()).then(|| format!("({})", keys.join(" AND "))));
            hashed.detail("Join Filter", joined);
            self.measure(&mut node, of, Step::Hashed);
            node = hashed.estimated(found).around([node]);
        } else {
            node.detail("Join Filter", joined);
        }
        self.measure(&mut node, of, Step::Whole);
        let join = if of.join == Join::Inner { None } else { Some(left.trim()) };
        node.about.extend(join.map(|join| ("Join Type", join.to_owned())));
        node
    }

    /// Returns the node of what a source reads.
    fn kind(&self, of: &Source, left: &str, places: &Places<'_>) -> Node {
        let scan = |kind: &str| Node::titled(kind, format!("{left}{kind}{}", on(of))).known_as(of);
        match &of.kind {
            SourceKind::Table(table) => {
                let name = table.table.name();
                let Way { kind, index, title, condition } = self.way(&table.table, &table.access, places);
                let alias = if name == of.name { String::new() } else { format!(" {}", of.name) };
                let mut node = Node::titled(kind, format!("{left}{title} on {name}{alias}"));
                node = node.about("Relation Name", name).about("Alias", &*of.name);
                if let Some(index) = index {
                    let direction = if table.access.reverse { "Backward" } else { "Forward" };
                    node = node.about("Index Name", index).about("Scan Direction", direction);
                }
                let name = if table.access.cursor.is_some() { "TID Cond" } else { "Index Cond" };
                node.detail(name, condition);
                node
            }
            SourceKind::Derived(inner) | SourceKind::Once(inner) => {
                scan("Subquery Scan").around([self.query(inner, &places.around())])
            }
            SourceKind::Function { .. } => scan("Function Scan"),
            SourceKind::Members(members) => {
                let what = match members {
                    Members::List(list) => format!("Values Scan ({} values of IN)", list.len()),
                    Members::Array(_) => "Values Scan (elements of an array)".to_owned(),
                    Members::Query(_) => "Values Scan (results of a query)".to_owned(),
                };
                let inner = match members {
                    Members::Query(Expr::Subquery(of)) => Some(self.query(&of.query, places)),
                    _ => None,
                };
                Node::titled("Values Scan", what).around(inner)
            }
            SourceKind::Lateral(query) => {
                let inner = match query {
                    Expr::Subquery(of) => Some(self.query(&of.query, places)),
                    _ => None,
                };
                Node::titled("Subquery Scan", format!("{left}Lateral Subquery Scan{}", on(of)))
                    .known_as(of)
                    .around(inner)
            }
            SourceKind::System { table, .. } => Node::titled("System Scan", format!("{left}System Scan on {table:?}"))
                .about("Relation Name", format!("{table:?}")),
        }
    }

    /// Describes the access path to a table's rows, and its bounds.
    fn way<'t>(&self, table: &'t Table, access: &Access, places: &Places<'_>) -> Way<'t> {
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
            let condition = Some(format!("CURRENT OF {cursor}"));
            return Way { kind: "Tid Scan", index: None, title: "Tid Scan".into(), condition };
        }
        let column = |at: usize| match table.def.columns[columns[at]].computation() {
            Some(text) if text.ends_with(')') && text.find([' ', '(']) == text.find('(') => text.to_owned(),
            Some(text) => format!("({text})"),
            None => quote_ident(&table.def.columns[columns[at]].name),
        };
        let value = |bound: &crate::query::Bound| self.writer.operand(&bound.value, places);
        let equal = access.equal.iter().enumerate();
        let mut bounds: Vec<String> = equal.map(|(at, bound)| format!("{} = {}", column(at), value(bound))).collect();
        for (comparison, bound) in [&access.lower, &access.upper].into_iter().flatten() {
            bounds.push(format!("{} {} {}", column(access.equal.len()), comparison.name(), value(bound)));
        }
        let condition = (!bounds.is_empty()).then(|| format!("({})", bounds.join(" AND ")));
        let backward = if access.reverse { " Backward" } else { "" };
        match (name, access.path, &condition) {
            (Some(name), path, bounded) if path != Path::Primary || bounded.is_some() || access.reverse => {
                let title = format!("Index Scan{backward} using {name}");
                Way { kind: "Index Scan", index: Some(name), title, condition }
            }
            _ => Way { kind: "Seq Scan", index: None, title: format!("Seq Scan{backward}"), condition },
        }
    }
}

/// Returns the name of a source, as it follows the kind of its node.
fn on(of: &Source) -> String {
    if of.name.is_empty() { String::new() } else { format!(" on {}", of.name) }
}

/// Returns the expressions of a source, apart from queries that are its rows.
fn exprs_of(source: &Source) -> impl Iterator<Item = &Expr> {
    let own: Vec<&Expr> = match &source.kind {
        SourceKind::Table(table) => {
            let Access { equal, lower, upper, .. } = &table.access;
            let bounds = equal.iter().chain([lower, upper].into_iter().flatten().map(|(_, bound)| bound));
            table.visible.iter().chain(bounds.map(|bound| &bound.value)).collect()
        }
        SourceKind::Lateral(_) | SourceKind::Members(Members::Query(_)) => Vec::new(),
        kind => kind.exprs(),
    };
    let hashed = source.hash.iter().flat_map(|hash| hash.exprs());
    own.into_iter().chain(&source.on).chain(&source.filter).chain(hashed)
}

/// The access path to a table's rows.
struct Way<'t> {
    kind: &'static str,
    index: Option<&'t str>,
    title: String,
    condition: Option<String>,
}
