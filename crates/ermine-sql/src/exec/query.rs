//! Queries.

use std::{ops::ControlFlow, slice};

use ermine::KeyBuffer;

use super::{
    EachJoined, Emit, Run,
    instrumentation::{OneRun, Step},
    sort::Sorter,
    unique::Unique,
};
use crate::{
    error::{Result, SqlError, SqlState},
    expr::{Expr, Frame, Subquery},
    key::write_key,
    query::{
        Body, Distinct, Join, Members, Query, Select, SetOperation, SortKey, Source, SourceKind, TableSource, Wait,
    },
    types::Value,
};

/// Maximum number of sources and queries that run inside each other. Rows are pushed, so all of them are on the stack
/// at the same time, with a few kilobytes each.
const NESTED_MAX: usize = 500;

impl Run<'_> {
    /// Emits the rows of a query.
    pub(crate) fn query(
        &self,
        query: &Query,
        outer: Option<&Frame<'_>>,
        emit: &mut Emit<'_>,
    ) -> Result<ControlFlow<()>> {
        match query.one_table() {
            Some(parts) if self.instrumentation.is_none() => self.one_table(parts, query.width, outer, emit),
            _ => self.step(query, Step::Whole, emit, |emit| self.query_rows(query, outer, emit)),
        }
    }

    /// Runs a step of a part of the plan, and measures it, if the statement is analyzed.
    pub(super) fn step<T>(
        &self,
        part: &T,
        step: Step,
        emit: &mut Emit<'_>,
        run: impl FnOnce(&mut Emit<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let Some(instrumentation) = &self.instrumentation else { return run(emit) };
        let mut one = OneRun::begin();
        let flow = run(&mut |row| one.show(|| emit(row)))?;
        instrumentation.record(part, step, &one);
        Ok(flow)
    }

    /// Emits the results of a query on the rows of one table: the straight path of a point query.
    fn one_table(
        &self,
        (select, source, table): (&Select, &Source, &TableSource),
        width: usize,
        outer: Option<&Frame<'_>>,
        emit: &mut Emit<'_>,
    ) -> Result<ControlFlow<()>> {
        let mut row = vec![Value::Null; source.end()];
        if !self.all_hold(&select.before, &row, outer)? {
            return Ok(ControlFlow::Continue(()));
        }
        let (mut shown, mark) = (Vec::with_capacity(select.output.len()), self.environment.memory.mark());
        self.inside(1, || {
            self.table_rows(table, source.first, &mut row, outer, &mut |row| {
                self.next_row(mark);
                if !self.all_hold(&source.on, row, outer)? || !self.all_hold(&source.filter, row, outer)? {
                    return Ok(ControlFlow::Continue(()));
                }
                self.results(select, &Frame { row, outer }, &mut shown)?;
                emit(&shown[..width])
            })
        })
    }

    /// Evaluates the results of a query.
    fn results(&self, select: &Select, frame: &Frame<'_>, results: &mut Vec<Value>) -> Result<()> {
        results.clear();
        for expr in &select.output {
            results.push(expr.eval(frame, self)?.into_owned());
        }
        Ok(())
    }

    fn query_rows(&self, query: &Query, outer: Option<&Frame<'_>>, emit: &mut Emit<'_>) -> Result<ControlFlow<()>> {
        let limit = self.count(query.limit.as_ref(), outer, SqlState::INVALID_ROW_COUNT_IN_LIMIT, "LIMIT")?;
        let mut offset =
            self.count(query.offset.as_ref(), outer, SqlState::INVALID_ROW_COUNT_IN_OFFSET, "OFFSET")?.unwrap_or(0);
        let mut left = limit.unwrap_or(u64::MAX);
        if left == 0 {
            return Ok(ControlFlow::Continue(()));
        }
        let mut is_broken_off = false;
        let first_of = match &query.body {
            Body::Select(select) => match &select.distinct {
                Distinct::On(places) => &places[..],
                Distinct::No | Distinct::Rows => &[],
            },
            Body::Values(_) | Body::WorkTable(_) | Body::Returned(_) | Body::Set { .. } => &[],
        };
        let wanted = limit
            .filter(|_| first_of.is_empty() && query.locks.iter().all(|locked| locked.lock.wait != Wait::Skip))
            .map(|limit| usize::try_from(limit.saturating_add(offset)).unwrap_or(usize::MAX));
        // Rows are sorted by the expressions of DISTINCT ON first: equal ones are adjacent.
        let mut before = None;
        let mut is_first = |row: &[Value]| {
            let mut key = KeyBuffer::new();
            first_of.iter().for_each(|at| write_key(&row[*at], false, &mut key));
            let is_new = before.as_ref() != Some(&key);
            before = Some(key);
            is_new
        };
        let mut shown = |row: &[Value]| {
            if !first_of.is_empty() && !is_first(row) {
                return Ok(ControlFlow::Continue(()));
            }
            if offset > 0 {
                offset -= 1;
                return Ok(ControlFlow::Continue(()));
            }
            left -= 1;
            let flow = emit(&row[..query.width])?;
            is_broken_off |= flow.is_break();
            Ok(if left == 0 { ControlFlow::Break(()) } else { flow })
        };
        let rows = |emit: &mut Emit<'_>| match query.order.is_empty() {
            true => self.step(query, Step::Body, emit, |emit| self.body(&query.body, outer, emit)),
            false => self.step(query, Step::Sorted, emit, |emit| self.sorted(query, wanted, outer, emit)),
        };
        let locks = &query.locks;
        let _ = match locks.is_empty() {
            true => rows(&mut shown)?,
            false => self
                .step(query, Step::Locked, &mut shown, |emit| rows(&mut |row| self.lock_and_show(locks, row, emit)))?,
        };
        Ok(if is_broken_off { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    /// Emits the first rows of the body of a query, in its order.
    fn sorted(
        &self,
        query: &Query,
        wanted: Option<usize>,
        outer: Option<&Frame<'_>>,
        emit: &mut Emit<'_>,
    ) -> Result<ControlFlow<()>> {
        // The sort keys of a SELECT DISTINCT are among its results, so equal rows are adjacent.
        let (select, distinct) = match &query.body {
            Body::Select(select) if matches!(select.distinct, Distinct::Rows) => (Some(select), query.width),
            _ => (None, 0),
        };
        let mut sorter = Sorter::new(&query.order, wanted, distinct, &self.space);
        let mut gather = |row: &[Value]| {
            sorter.push(row)?;
            Ok(ControlFlow::Continue(()))
        };
        let _ = self.step(query, Step::Body, &mut gather, |emit| match select {
            Some(select) => self.plain_select(select, outer, emit),
            None => self.body(&query.body, outer, emit),
        })?;
        sorter.complete()?;
        let (holds, writes) = (sorter.bytes(), sorter.written());
        self.instrumentation.iter().for_each(|of| of.holds(query, Step::Sorted, holds, writes));
        let mark = self.environment.memory.mark();
        sorter.emit(&mut |row| {
            self.next_row(mark);
            emit(row)
        })
    }

    fn count(
        &self,
        expr: Option<&Expr>,
        outer: Option<&Frame<'_>>,
        state: SqlState,
        clause: &str,
    ) -> Result<Option<u64>> {
        let Some(expr) = expr else { return Ok(None) };
        match &*expr.eval(&Frame { row: &[], outer }, self)? {
            Value::Int8(count @ 0..) => Ok(Some(*count as u64)),
            Value::Int8(_) => Err(SqlError::new(state, format!("{clause} must not be negative"))),
            _ => Ok(None),
        }
    }

    fn body(&self, body: &Body, outer: Option<&Frame<'_>>, emit: &mut Emit<'_>) -> Result<ControlFlow<()>> {
        match body {
            Body::Select(select) => self.select(select, outer, emit),
            Body::Values(rows) => {
                let (frame, mark) = (Frame { row: &[], outer }, self.environment.memory.mark());
                for row in rows {
                    self.next_row(mark);
                    let values = row.iter().map(|value| Ok(value.eval(&frame, self)?.into_owned()));
                    if emit(&values.collect::<Result<Vec<_>>>()?)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Ok(ControlFlow::Continue(()))
            }
            Body::WorkTable(id) => self.work_table(*id, emit),
            Body::Returned(id) => self.returned_rows(*id, emit),
            Body::Set { operation: SetOperation::Recursion(id), all, sides } => {
                self.recursion(*id, *all, sides, outer, emit)
            }
            Body::Set { operation, all, sides } => self.set_operation(*operation, *all, sides, outer, emit),
        }
    }

    fn select(&self, select: &Select, outer: Option<&Frame<'_>>, emit: &mut Emit<'_>) -> Result<ControlFlow<()>> {
        match &select.distinct {
            Distinct::No => self.plain_select(select, outer, emit),
            Distinct::Rows => {
                let mut seen = Unique::new(&self.space);
                let mut fresh = |row: &[Value]| {
                    if seen.is_new(&key_of(row), row)? { emit(row) } else { Ok(ControlFlow::Continue(())) }
                };
                let flow =
                    self.step(select, Step::Results, &mut fresh, |emit| self.plain_select(select, outer, emit))?;
                if flow.is_break() { Ok(flow) } else { seen.finish(emit) }
            }
            // DISTINCT ON applies to the sorted rows: `query`.
            Distinct::On(_) => self.plain_select(select, outer, emit),
        }
    }

    fn plain_select(&self, select: &Select, outer: Option<&Frame<'_>>, emit: &mut Emit<'_>) -> Result<ControlFlow<()>> {
        let mut shown = Vec::with_capacity(select.output.len());
        self.result_rows(select, outer, &mut |row| {
            self.results(select, &Frame { row, outer }, &mut shown)?;
            emit(&shown)
        })
    }

    /// Emits the rows of the groups of a query, or of its sources if it has no groups.
    pub(super) fn joined_or_grouped(
        &self,
        select: &Select,
        outer: Option<&Frame<'_>>,
        emit: &mut Emit<'_>,
    ) -> Result<ControlFlow<()>> {
        match &select.group {
            None => self.joined(select, outer, emit),
            Some(group) => self.step(select, Step::Groups, emit, |emit| self.grouped(select, group, outer, emit)),
        }
    }

    /// Emits the joined rows of all sources that meet the conditions.
    pub(super) fn joined(
        &self,
        select: &Select,
        outer: Option<&Frame<'_>>,
        emit: &mut Emit<'_>,
    ) -> Result<ControlFlow<()>> {
        let width = select.sources.iter().map(Source::end).max().unwrap_or(0);
        let mut row = vec![Value::Null; width];
        if !self.all_hold(&select.before, &row, outer)? {
            return Ok(ControlFlow::Continue(()));
        }
        let looped = |emit: &mut Emit<'_>| {
            if self.loop_over(&select.sources, &mut row, outer, emit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            // Also where no row comes before it.
            if let [_, source] = &select.sources[..]
                && source.join == Join::Full
                && let Some(hash) = &source.hash
            {
                self.make_hash(source, hash, &mut row, outer)?;
            }
            // The rows of each source may leave rows for those behind it.
            for at in 0..select.sources.len() {
                if self.join_batches(&select.sources[at..], &mut row, outer, emit)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            debug_assert!(select.sources.iter().all(|source| source.join != Join::Full) || select.sources.len() == 2);
            match &select.sources[..] {
                [_, source] if source.join == Join::Full => match &source.hash {
                    Some(hash) => self.unmet_rows((source, hash), &mut row, outer, &mut |row| emit(row)),
                    None => Ok(ControlFlow::Continue(())),
                },
                _ => Ok(ControlFlow::Continue(())),
            }
        };
        let joined = self.inside(select.sources.len(), || self.step(select, Step::Rows, emit, looped));
        self.drop_hashes(&select.sources);
        joined
    }

    /// Runs the loops over some sources inside those that are running.
    fn inside<T>(&self, sources: usize, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let around = self.nested.get();
        let nested = around + sources + 1;
        if nested > NESTED_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded"));
        }
        self.nested.set(nested);
        let done = run();
        self.nested.set(around);
        done
    }

    pub(super) fn all_hold(&self, conditions: &[Expr], row: &[Value], outer: Option<&Frame<'_>>) -> Result<bool> {
        let frame = Frame { row, outer };
        for condition in conditions {
            if !condition.is_true(&frame, self)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn loop_over(
        &self,
        sources: &[Source],
        row: &mut Vec<Value>,
        outer: Option<&Frame<'_>>,
        emit: &mut Emit<'_>,
    ) -> Result<ControlFlow<()>> {
        let [source, inner @ ..] = sources else { return emit(row) };
        let (mut is_met, mark) = (false, self.environment.memory.mark());
        let mut run = self.instrumentation.as_ref().map(|_| OneRun::begin());
        let mut each = |row: &mut Vec<Value>| {
            self.next_row(mark);
            if !self.all_hold(&source.on, row, outer)? {
                return Ok(ControlFlow::Continue(()));
            }
            is_met = true;
            if source.join == Join::Full {
                self.note_met(source);
            }
            if !self.all_hold(&source.filter, row, outer)? {
                return Ok(ControlFlow::Continue(()));
            }
            match &mut run {
                None => self.loop_over(inner, row, outer, emit),
                Some(run) => run.show(|| self.loop_over(inner, row, outer, emit)),
            }
        };
        let flow = match &source.hash {
            None => self.source_rows(source, row, outer, &mut each)?,
            Some(hash) => match self.hashed_rows((source, hash), row, outer, &mut each)? {
                Some(flow) => flow,
                None => return Ok(ControlFlow::Continue(())),
            },
        };
        if let (Some(instrumentation), Some(run)) = (&self.instrumentation, &run) {
            instrumentation.record(source, Step::Whole, run);
        }
        if is_met || flow.is_break() || source.join == Join::Inner {
            return Ok(flow);
        }
        row[source.first..source.first + source.width].fill(Value::Null);
        if let SourceKind::Table(TableSource { key_at: Some(at), .. }) = source.kind {
            row[at] = Value::Null;
        }
        if !self.all_hold(&source.filter, row, outer)? {
            return Ok(ControlFlow::Continue(()));
        }
        self.loop_over(inner, row, outer, emit)
    }

    pub(super) fn source_rows(
        &self,
        source: &Source,
        row: &mut Vec<Value>,
        outer: Option<&Frame<'_>>,
        each: &mut EachJoined<'_>,
    ) -> Result<ControlFlow<()>> {
        let first = source.first;
        match &source.kind {
            SourceKind::Table(table) => self.table_rows(table, first, row, outer, each),
            SourceKind::Derived(query) => self.query(query, outer, &mut |values| {
                row[first..first + values.len()].clone_from_slice(values);
                each(row)
            }),
            SourceKind::Once(query) => self.once(query)?.each(&self.space, &mut |values| {
                self.check_cancelled()?;
                row[first..first + values.len()].clone_from_slice(values);
                each(row)
            }),
            SourceKind::System { table, needed } => {
                let places: Vec<_> = needed.places().map(|at| first + at).collect();
                for values in &*self.system_rows(*table, *needed)? {
                    self.check_cancelled()?;
                    for (place, value) in places.iter().zip(values) {
                        row[*place].clone_from(value);
                    }
                    if each(row)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Ok(ControlFlow::Continue(()))
            }
            SourceKind::Function { calls, is_numbered } => self.set_rows(calls, *is_numbered, first, row, outer, each),
            SourceKind::Lateral(query) => {
                let Expr::Subquery(Subquery { query, .. }) = query else { return Ok(ControlFlow::Continue(())) };
                let around = row.clone();
                self.query(query, Some(&Frame { row: &around, outer }), &mut |values| {
                    row[first..first + values.len()].clone_from_slice(values);
                    each(row)
                })
            }
            SourceKind::Members(members) => self.member_rows(members, first, row, outer, each),
        }
    }

    /// Emits the values of a condition IN.
    #[inline(never)]
    fn member_rows(
        &self,
        members: &Members,
        first: usize,
        row: &mut Vec<Value>,
        outer: Option<&Frame<'_>>,
        each: &mut EachJoined<'_>,
    ) -> Result<ControlFlow<()>> {
        let order = [SortKey { at: 0, descending: false, nulls_first: false }];
        let mut values = Sorter::new(&order, None, order.len(), &self.space);
        let mut add = |value: &Value| match value {
            Value::Null => Ok(()),
            value => values.push(slice::from_ref(value)),
        };
        let frame = Frame { row, outer };
        match members {
            Members::List(list) => list.iter().try_for_each(|member| add(&*member.eval(&frame, self)?))?,
            Members::Array(array) => {
                if let Value::Array(array) = &*array.eval(&frame, self)? {
                    array.elements().iter().try_for_each(add)?;
                }
            }
            Members::Query(Expr::Subquery(subquery)) => {
                self.first_column(subquery, &frame, usize::MAX)?.iter().try_for_each(add)?;
            }
            Members::Query(_) => {}
        }
        values.complete()?;
        values.emit(&mut |value| {
            self.check_cancelled()?;
            row[first].clone_from(&value[0]);
            each(row)
        })
    }
}

/// Returns a key of some values; equal values have equal keys.
pub(super) fn key_of(values: &[Value]) -> KeyBuffer {
    let mut key = KeyBuffer::new();
    values.iter().for_each(|value| write_key(value, false, &mut key));
    key
}
