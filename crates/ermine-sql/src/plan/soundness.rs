//! The invariants of plans, as assertions. In builds with debug assertions every plan is checked when it is made, so
//! all tests, and every statement of the generator (scripts/compare), check the binder and the folding of constants.
//!
//! Invariants
//! 1. *A place is read only where it has been filled*: a column that an expression reads is among the
//!    [needed](TableSource::needed) ones of its table, and its source comes no later than the expression. A place that
//!    is not filled would be NULL, a wrong answer without an error.
//! 2. *Each place has one source*: the places of the sources of a query are disjoint.
//! 3. *A query that is run once refers to no row around it*, and neither does a query in an expression that is not
//!    marked as correlated: its result is used for all rows.
//! 4. *Widths agree*: those of both sides of a set operation, of a source and its query, of the columns that the client
//!    is told and the rows that it gets, of an inserted row and its table.
//! 5. *A point is a whole key*: the bounds of an access path are those of its first columns, and a point has all.
//! 6. Nothing is left of binding: no aggregate outside of its group, no output without a type, no parameter without a
//!    number.

use std::mem;

use super::Plan;
use crate::{
    bind::{
        merge::{Action, Merge, When},
        parts::{Main, Write},
        write::{Change, Insert, InsertSource, Rules},
    },
    catalog::Table,
    expr::{Expr, Subquery, SubqueryKind},
    query::{
        Access, Body, Distinct, Hash, Path, Query, Select, Source, SourceKind, TableSource, sets::Sets, window::Windows,
    },
};

impl Plan {
    /// Panics if an invariant does not hold; `columns`: the number of columns that the client is told.
    pub(crate) fn assert_sound(&self, columns: Option<usize>, parameters: usize) {
        let mut checker = Checker { parameters, rows: Vec::new() };
        match self {
            Self::Query(query) => {
                checker.query(query);
                assert_eq!(columns, Some(query.width));
            }
            Self::Insert(insert) => {
                checker.insert(insert);
                assert_eq!(columns, insert.returning.as_ref().map(Vec::len));
            }
            Self::Update(change) | Self::Delete(change) => {
                checker.change(change);
                assert_eq!(columns, change.returning.as_ref().map(Vec::len));
            }
            Self::Parts(parts) => {
                parts.parts.iter().for_each(|part| checker.write(&part.write));
                match &parts.main {
                    Main::Query(query) => checker.query(query),
                    Main::Write(write) => checker.write(write),
                }
            }
            Self::CopyTo(to) => {
                checker.query(&to.query);
            }
            Self::Declare(declare) => {
                checker.query(&declare.query);
                assert!(declare.columns.len() <= declare.query.width);
            }
            Self::TableAs(create) => checker.query(&create.query),
            Self::Refresh(refresh) => refresh.query.iter().for_each(|query| checker.query(query)),
            Self::Explain { plan, .. } => plan.assert_sound(plan.columns(), parameters),
            Self::CopyFrom(_) | Self::Definition(_) | Self::Control | Self::Nothing => {}
        }
    }

    /// Returns the number of columns of its result, for a plan that is explained.
    fn columns(&self) -> Option<usize> {
        match self {
            Self::Parts(parts) => match &parts.main {
                Main::Query(query) => Some(query.width),
                Main::Write(Write::Insert(insert)) => insert.returning.as_ref().map(Vec::len),
                Main::Write(Write::Update(change) | Write::Delete(change)) => change.returning.as_ref().map(Vec::len),
                Main::Write(Write::Merge(_)) => None,
            },
            Self::Query(query) => Some(query.width),
            Self::Insert(insert) => insert.returning.as_ref().map(Vec::len),
            Self::Update(change) | Self::Delete(change) => change.returning.as_ref().map(Vec::len),
            _ => None,
        }
    }
}

/// For each place of a row whether it can be read.
type Readable = Vec<bool>;

struct Checker {
    parameters: usize,
    /// The current row, and before it those of the queries around, the innermost last.
    rows: Vec<Readable>,
}

impl Checker {
    fn on_row(&mut self, row: Readable, check: impl FnOnce(&mut Self)) {
        self.rows.push(row);
        check(self);
        self.rows.pop();
    }

    /// Checks something that is run where the rows around cannot be read.
    fn alone(&mut self, check: impl FnOnce(&mut Self)) {
        let nothing = vec![Readable::new(); self.rows.len()];
        let rows = mem::replace(&mut self.rows, nothing);
        check(self);
        self.rows = rows;
    }

    fn exprs<'x>(&mut self, exprs: impl IntoIterator<Item = &'x Expr>) {
        exprs.into_iter().for_each(|expr| self.expr(expr));
    }

    fn assert_readable(&self, levels: usize, at: usize) {
        let row = self.rows.len().checked_sub(levels + 1).map(|row| &self.rows[row]);
        let is_readable = row.and_then(|row| row.get(at)).copied();
        assert_eq!(is_readable, Some(true), "place {at}, {levels} levels up, is read but not filled: {:?}", self.rows);
    }

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Column(at) => self.assert_readable(0, *at),
            Expr::Outer(levels, at) => {
                assert!(*levels > 0, "an outer column of the query itself");
                self.assert_readable(*levels, *at);
            }
            Expr::Parameter(at) => assert!(*at < self.parameters, "parameter {at} of {}", self.parameters),
            Expr::Aggregate(_) | Expr::OuterAggregate(..) | Expr::Grouping(_) => {
                panic!("{expr:?} outside of its group")
            }
            Expr::Window(_) | Expr::Set(_) => panic!("{expr:?} without a place"),
            Expr::And(operands) | Expr::Or(operands) | Expr::Coalesce(operands) | Expr::Extreme(_, operands) => {
                assert!(!operands.is_empty(), "{expr:?}");
            }
            Expr::Rows(comparisons) => assert!(comparisons.len() % 2 == 1, "{comparisons:?}"),
            Expr::Record(fields, operands) => assert_eq!(fields.len(), operands.len(), "{operands:?}"),
            Expr::Element(operands) => assert!(operands.len() > 1, "{operands:?}"),
            Expr::Subquery(subquery) => self.subquery(subquery),
            _ => {}
        }
        self.exprs(expr.children());
    }

    fn subquery(&mut self, Subquery { query, kind, is_correlated }: &Subquery) {
        assert!(matches!(kind, SubqueryKind::Exists) || query.width == 1, "{kind:?} of {} columns", query.width);
        if *is_correlated {
            self.query(query);
        } else {
            self.alone(|checker| checker.query(query));
        }
    }

    fn query(&mut self, query: &Query) {
        let width = match &query.body {
            Body::Select(select) => self.select(select),
            Body::Values(rows) => {
                let width = rows.first().map_or(query.width, Vec::len);
                assert!(rows.iter().all(|row| row.len() == width), "rows of different widths");
                self.on_row(Readable::new(), |checker| checker.exprs(rows.iter().flatten()));
                width
            }
            Body::WorkTable(_) | Body::Returned(_) => query.width,
            Body::Set { sides, .. } => {
                sides.iter().for_each(|side| self.query(side));
                assert_eq!(sides[0].width, sides[1].width);
                sides[0].width
            }
        };
        assert!(query.width <= width, "{} of {width} columns", query.width);
        assert!(query.order.iter().all(|key| key.at < width), "{:?} in {width} columns", query.order);
        assert!(query.locks.iter().all(|locked| locked.key_at < width), "{:?} in {width} columns", query.locks);
        self.on_row(Readable::new(), |checker| checker.exprs(query.limit.iter().chain(&query.offset)));
    }

    /// Returns the number of places in the rows that a SELECT emits.
    fn select(&mut self, select: &Select) -> usize {
        let width = select.sources.iter().map(Source::end).max().unwrap_or(0);
        let mut taken = vec![false; width];
        self.on_row(vec![false; width], |checker| {
            checker.exprs(&select.before);
            for source in &select.sources {
                checker.source(source, &mut taken);
            }
            if let Some(group) = &select.group {
                checker.exprs(&group.keys);
                checker.exprs(group.aggregates.iter().flat_map(|call| call.exprs()));
                let mut places = group.sets.iter().chain(&group.groupings).flatten();
                assert!(places.all(|at| *at < group.keys.len()), "{group:?}");
                let grouped = vec![true; group.width()];
                *checker.rows.last_mut().expect("pushed above") = grouped;
                checker.exprs(&group.having);
            }
            checker.windows(&select.windows);
            checker.sets(&select.sets);
            checker.exprs(&select.output);
        });
        let width = select.output.len();
        assert!(select.untyped.is_empty(), "outputs {:?} have no type", select.untyped);
        if let Distinct::On(places) = &select.distinct {
            assert!(places.iter().all(|at| *at < width), "{places:?} in {width} columns");
        }
        width
    }

    /// Checks window functions, and makes the places of their results readable.
    fn windows(&mut self, windows: &Windows) {
        if windows.is_empty() {
            return;
        }
        self.exprs(windows.exprs());
        let row = self.rows.last_mut().expect("that of the sources or groups");
        assert!(row.len() <= windows.first, "results at {} of {} places", windows.first, row.len());
        let mut places: Vec<_> = windows.all.iter().flat_map(|window| &window.calls).map(|call| call.at).collect();
        places.sort_unstable();
        assert!(places.into_iter().eq(windows.first..windows.width()), "{windows:?}");
        row.resize(windows.first, false);
        row.resize(windows.width(), true);
    }

    /// Checks set-returning functions, and makes the places of their results readable.
    fn sets(&mut self, sets: &Sets) {
        for calls in &sets.levels {
            assert!(!calls.is_empty() && calls.iter().all(|call| call.width == 1), "{calls:?}");
            self.exprs(calls.iter().flat_map(|call| &call.arguments));
            let row = self.rows.last_mut().expect("that of the sources or groups");
            assert!(row.len() <= sets.first || row.len() < sets.width(), "results at {} of {}", sets.first, row.len());
            row.resize(row.len().max(sets.first), false);
            row.resize(row.len() + calls.len(), true);
        }
    }

    /// Checks a source, and makes its places readable.
    fn source(&mut self, source: &Source, taken: &mut [bool]) {
        let own = source.first..source.first + source.width;
        // The key of a row to change follows its columns; that of a row to lock follows all sources.
        let key_at = match &source.kind {
            SourceKind::Table(table) => table.key_at,
            _ => None,
        };
        let key_behind = key_at.filter(|at| !own.contains(at));
        let mut filled: Vec<_> = own.clone().collect();
        match &source.kind {
            SourceKind::Table(table) => {
                self.access(table);
                let columns = source.width - usize::from(key_at.is_some() && key_behind.is_none());
                // `tableoid` follows the columns, except for rows to change.
                let own = table.table.types.len();
                assert!(columns == own || columns == own + 1, "{columns} places for {own} columns");
                assert!(table.needed.is_sorted_by(|one, next| one < next), "{:?}", table.needed);
                filled = table.needed.iter().map(|column| source.first + column).chain(key_at).collect();
            }
            SourceKind::Derived(query) => {
                assert_eq!(source.width, query.width);
                let row = self.rows.pop().expect("that of the sources");
                self.query(query);
                self.rows.push(row);
            }
            SourceKind::Once(query) => {
                assert_eq!(source.width, query.width);
                self.alone(|checker| checker.query(query));
            }
            SourceKind::Lateral(Expr::Subquery(Subquery { query, .. })) => {
                assert_eq!(source.width, query.width);
                self.query(query);
            }
            // A constant, where folding has shown that there are no rows.
            SourceKind::Lateral(expr) => self.expr(expr),
            SourceKind::Function { calls, is_numbered } => {
                let width: usize = calls.iter().map(|call| call.width).sum();
                assert_eq!(source.width, width + usize::from(*is_numbered));
                self.exprs(calls.iter().flat_map(|call| &call.arguments));
            }
            SourceKind::Members(members) => {
                assert_eq!(source.width, 1);
                self.exprs(members.exprs());
            }
            SourceKind::System { .. } => {}
        }
        for at in own.chain(key_behind) {
            assert!(!mem::replace(&mut taken[at], true), "place {at} of {} is taken", source.name);
        }
        let row = self.rows.last_mut().expect("that of the sources");
        let mut alone = vec![false; row.len()];
        filled.iter().for_each(|at| alone[*at] = true);
        if let Some(hash) = &source.hash {
            self.hash(source, hash, alone);
        }
        let row = self.rows.last_mut().expect("that of the sources");
        filled.into_iter().for_each(|at| row[at] = true);
        self.exprs(source.on.iter().chain(&source.filter));
    }

    /// Checks the hash of a source; `own`: the places that it fills. Its rows are read once, so nothing of them depends
    /// on the rows before, and while they are kept for all rows around, on none of those.
    fn hash(&mut self, source: &Source, hash: &Hash, own: Readable) {
        self.exprs(hash.keys.iter().map(|(before, _)| before));
        let rows = self.rows.clone();
        if hash.is_fixed {
            self.rows.fill(Readable::new());
        }
        *self.rows.last_mut().expect("that of the sources") = Readable::new();
        if let SourceKind::Table(table) = &source.kind {
            self.access(table);
        }
        *self.rows.last_mut().expect("that of the sources") = own;
        self.exprs(hash.keys.iter().map(|(_, own)| own).chain(&hash.filter));
        self.rows = rows;
    }

    fn access(&mut self, TableSource { table, access, .. }: &TableSource) {
        let Access { path, equal, is_point, lower, upper, .. } = access;
        assert!(access.cursor.is_none() || equal.is_empty() && lower.is_none() && upper.is_none(), "{access:?}");
        let columns: Vec<_> = match path {
            Path::Primary => table.def.primary_key.iter().flat_map(|key| &key.columns).copied().collect(),
            Path::Index(at) => table.def.indexes[*at].columns.iter().map(|(column, _)| *column).collect(),
        };
        let has_range = lower.is_some() || upper.is_some();
        assert!(equal.len() + usize::from(has_range) <= columns.len(), "{access:?} of {columns:?}");
        assert!(!is_point || equal.len() == columns.len() && !has_range, "{access:?} of {columns:?}");
        let sides = [lower, upper].into_iter().flatten().map(|(_, bound)| (bound, columns[equal.len()]));
        for (bound, column) in equal.iter().zip(columns.iter().copied()).chain(sides) {
            assert_eq!(bound.column, table.types[column], "{bound:?}");
            self.expr(&bound.value);
        }
    }

    fn rules(&mut self, table: &Table, rules: &Rules) {
        assert_eq!(rules.predicates.len(), table.def.indexes.len());
        self.on_row(vec![true; table.types.len()], |checker| {
            checker.exprs(&rules.domains);
            checker.exprs(rules.checks.iter().map(|(_, check)| check));
            checker.exprs(rules.predicates.iter().flatten());
            checker.exprs(rules.generated.iter().chain(&rules.computed).map(|(_, value)| value));
            checker.exprs(rules.view_checks.iter().map(|(_, check)| check));
            checker.exprs(rules.policies.iter().map(|policy| &policy.condition));
        });
    }

    fn insert(&mut self, Insert { table, rules, references: _, source, conflict, returning }: &Insert) {
        let width = table.types.len();
        self.rules(table, rules);
        match source {
            InsertSource::Rows(rows) => {
                assert!(rows.iter().all(|row| row.len() == width), "rows that are not those of {}", table.name());
                self.on_row(Readable::new(), |checker| checker.exprs(rows.iter().flatten()));
            }
            InsertSource::Query(query, row) => {
                self.query(query);
                assert_eq!(row.len(), width);
                self.on_row(vec![true; query.width], |checker| checker.exprs(row));
            }
        }
        if let Some(update) = conflict.as_ref().and_then(|conflict| conflict.update.as_ref()) {
            assert!(update.assignments.iter().all(|(column, _)| *column < width), "{width} columns");
            self.on_row(vec![true; 2 * width], |checker| {
                checker.exprs(update.assignments.iter().map(|(_, value)| value).chain(&update.condition));
            });
            self.on_row(vec![true; width], |checker| {
                checker.exprs(update.visible.iter().chain(&update.policies).map(|policy| &policy.condition));
            });
        }
        self.on_row(vec![true; width], |checker| checker.exprs(returning.iter().flatten()));
    }

    fn write(&mut self, write: &Write) {
        match write {
            Write::Insert(insert) => self.insert(insert),
            Write::Update(change) | Write::Delete(change) => self.change(change),
            Write::Merge(merge) => self.merge(merge),
        }
    }

    fn merge(&mut self, Merge { table, rules, references: _, rows, key_at, clauses }: &Merge) {
        self.rules(table, rules);
        self.query(rows);
        assert_eq!(*key_at, table.types.len(), "the key is behind the columns");
        for When { is_matched, condition, action, visible, policies } in clauses {
            self.on_row(vec![true; *key_at], |checker| {
                checker.exprs(visible.iter().chain(policies).map(|policy| &policy.condition));
            });
            // A row of the source that matches none has no row of the table.
            let readable = (0..rows.width).map(|at| *is_matched || at > *key_at).collect();
            self.on_row(readable, |checker| {
                checker.exprs(condition);
                match action {
                    Action::Nothing | Action::Delete => {}
                    Action::Insert(row) => {
                        assert!(!is_matched && row.len() == *key_at, "a row that is not one of {}", table.name());
                        checker.exprs(row);
                    }
                    Action::Update(assigned) => {
                        assert!(*is_matched && assigned.iter().all(|(at, _)| at < key_at), "columns of {key_at}");
                        checker.exprs(assigned.iter().map(|(_, value)| value));
                    }
                }
            });
        }
    }

    fn change(&mut self, Change { table, rules, references: _, rows, key_at, assignments, returning }: &Change) {
        self.rules(table, rules);
        self.query(rows);
        assert_eq!(*key_at, table.types.len(), "the key is behind the columns");
        assert!(*key_at < rows.width, "the key at {key_at} of {} columns", rows.width);
        let assignments = assignments.iter().flatten();
        self.on_row(vec![true; rows.width], |checker| {
            for (column, value) in assignments {
                assert!(*column < *key_at, "column {column} of {key_at}");
                checker.expr(value);
            }
            checker.exprs(returning.iter().flatten());
        });
    }
}

#[cfg(test)]
mod tests {
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::Arc,
    };

    use ermine::{Database, Options};

    use super::super::Plan;
    use crate::{
        query::{Body, Select, SourceKind, TableSource},
        result::RowSet,
        session::SqlDatabase,
    };

    /// A fault made on purpose in the plan of a statement.
    type Fault = fn(&mut Plan);

    fn select(plan: &mut Plan) -> &mut Select {
        let Plan::Query(query) = plan else { panic!("no query") };
        let Body::Select(select) = &mut query.body else { panic!("no SELECT") };
        select
    }

    fn table(plan: &mut Plan) -> &mut TableSource {
        match &mut select(plan).sources[0].kind {
            SourceKind::Table(table) => table,
            _ => panic!("no table"),
        }
    }

    #[test]
    fn unsound_plans_are_found() {
        let faults: [(&str, Fault); 6] = [
            ("SELECT a, b FROM t", |plan| {
                table(plan).needed.pop();
            }),
            ("SELECT t.a FROM t, t u WHERE u.b > t.b", |plan| select(plan).sources.reverse()),
            ("SELECT t.a, u.b FROM t, t u", |plan| select(plan).sources[1].first = 0),
            ("SELECT b FROM t WHERE a = 1", |plan| table(plan).access.equal.clear()),
            ("SELECT a FROM t ORDER BY b", |plan| match plan {
                Plan::Query(query) => query.order[0].at = 7,
                _ => panic!("no query"),
            }),
            ("SELECT a FROM t WHERE b = $1", |plan| {
                let filter = select(plan).sources[0].filter.pop().expect("the condition");
                select(plan).before.push(filter);
            }),
        ];
        let database = SqlDatabase::open(Arc::new(Database::open_in_memory(Options::default()).unwrap())).unwrap();
        let mut session = database.session("tester", "test");
        session.run("CREATE TABLE t (a int PRIMARY KEY, b int)", &mut RowSet::default()).unwrap();
        for (text, fault) in faults {
            let mut bound = session.bind_text(text).unwrap();
            let (columns, parameters) = (bound.columns.map(|columns| columns.len()), bound.parameters.len());
            bound.plan.assert_sound(columns, parameters);
            fault(&mut bound.plan);
            let found = catch_unwind(AssertUnwindSafe(|| bound.plan.assert_sound(columns, parameters)));
            assert!(found.is_err(), "{text}");
        }
    }
}
