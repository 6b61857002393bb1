//! Statements with WITH queries that write.
//!
//! Invariants
//! 1. *No part sees the writes of another*: for each part, and then for the statement behind WITH, all rows that it
//!    will write and return are computed before any row is written. Only then the writes are done, in the order of the
//!    parts, and what they owe to foreign keys is settled after the last one.
//! 2. *A row is changed once*: a part leaves out the rows that a part before it changes or deletes.
//!
//! All rows that are written or returned are in memory meanwhile.

use std::ops::ControlFlow;

use ermine::KeyBuffer;

use super::{
    Emit, Run,
    instrumentation::{OneRun, Step},
    key_set::KeySet,
    references::Owed,
    write::primary_key,
};
use crate::{
    bind::{
        parts::{Main, Parts, Write},
        write::{Change, Insert, InsertSource, OnConflict, Rules},
    },
    catalog::{Table, definition::ObjectId},
    error::{Result, SqlError, SqlState},
    expr::{Expr, Frame},
    failure::EngineResult as _,
    memory::{ALLOCATION, Kept},
    query::Path,
    row_buffer::RowBuffer,
    types::Value,
};

/// The write of a row.
pub(super) enum RowWrite {
    Insert(Vec<Value>),
    Update { key: Box<[u8]>, old: Vec<Value>, new: Vec<Value> },
    Delete { key: Box<[u8]>, old: Vec<Value> },
}

/// The writes of a statement, before they are done.
pub(super) struct Pending<'m> {
    /// The rows that are changed or deleted, by their table and key.
    taken: KeySet,
    kept: Kept<'m>,
}

impl Pending<'_> {
    /// Notes that a row is changed; returns whether it was not before.
    pub(super) fn take(&mut self, table: ObjectId, key: &[u8]) -> Result<bool> {
        let place = [&table.to_be_bytes()[..], key].concat();
        self.taken.is_new(&place, &mut self.kept)
    }

    pub(super) fn keep(&mut self, write: &RowWrite) -> Result<()> {
        self.kept.add(size_of::<RowWrite>() * 2 + ALLOCATION)?;
        match write {
            RowWrite::Insert(row) => self.kept.add_row(row),
            RowWrite::Update { key, old, new } => {
                self.kept.add(key.len())?;
                self.kept.add_row(old)?;
                self.kept.add_row(new)
            }
            RowWrite::Delete { key, old } => {
                self.kept.add(key.len())?;
                self.kept.add_row(old)
            }
        }
    }
}

impl Run<'_> {
    /// Runs a statement with parts; returns the number of rows that it wrote or returned.
    pub(crate) fn parts(&self, parts: &Parts, emit: &mut Emit<'_>) -> Result<u64> {
        let memory = &self.environment.memory;
        let mut pending = Pending { taken: KeySet::default(), kept: Kept::new(memory) };
        let mut kept = Kept::new(memory);
        let mut keep = |rows: &mut RowBuffer, row: &[Value]| {
            kept.add_row(row)?;
            rows.push(row)
        };
        let mut writes = Vec::new();
        for part in &parts.parts {
            let mut rows = RowBuffer::new(usize::MAX);
            writes.push((&part.write, self.pending(&part.write, &mut pending, &mut |row| keep(&mut rows, row))?));
            self.returned.borrow_mut().insert(part.id, rows.into());
        }
        let (mut rows, mut count) = (RowBuffer::new(usize::MAX), 0);
        match &parts.main {
            Main::Query(query) => {
                let _ = self.query(query, None, &mut |row| {
                    count += 1;
                    keep(&mut rows, row).map(ControlFlow::Continue)
                })?;
            }
            Main::Write(write) => {
                let own = self.pending(write, &mut pending, &mut |row| keep(&mut rows, row))?;
                count = own.len() as u64;
                writes.push((write, own));
            }
        }
        self.write_all(writes)?;
        for row in rows.iter() {
            if emit(row)?.is_break() {
                break;
            }
        }
        Ok(count)
    }

    /// Emits the rows that a part returns.
    pub(super) fn returned_rows(&self, id: usize, emit: &mut Emit<'_>) -> Result<ControlFlow<()>> {
        let rows = self.returned.borrow().get(&id).cloned();
        for row in rows.iter().flat_map(|rows| rows.iter()) {
            self.check_cancelled()?;
            if emit(row)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Computes the writes of a statement, and shows the rows that it returns.
    fn pending(
        &self,
        write: &Write,
        pending: &mut Pending<'_>,
        show: &mut dyn FnMut(&[Value]) -> Result<()>,
    ) -> Result<Vec<RowWrite>> {
        let mut emit = |row: &[Value]| show(row).map(ControlFlow::Continue);
        let run = self.instrumentation.as_ref().map(|of| (of, OneRun::begin()));
        let writes = match write {
            Write::Insert(insert) => self.pending_inserts(insert, pending, &mut emit)?,
            Write::Update(change) | Write::Delete(change) => self.pending_changes(change, pending, &mut emit)?,
            Write::Merge(merge) => self.pending_merge(merge, pending)?,
        };
        if let Some((instrumentation, run)) = run {
            match write {
                Write::Insert(insert) => instrumentation.record(insert, Step::Whole, &run),
                Write::Update(change) | Write::Delete(change) => instrumentation.record(change, Step::Whole, &run),
                Write::Merge(merge) => instrumentation.record(merge, Step::Whole, &run),
            }
        }
        Ok(writes)
    }

    fn pending_inserts(
        &self,
        insert: &Insert,
        pending: &mut Pending<'_>,
        emit: &mut Emit<'_>,
    ) -> Result<Vec<RowWrite>> {
        let mark = self.environment.memory.mark();
        let (mut writes, mut proposed) = (Vec::new(), KeySet::default());
        let mut propose = |exprs: &[Expr], on: &[Value]| -> Result<()> {
            self.next_row(mark);
            self.check_cancelled()?;
            let frame = Frame { row: on, outer: None };
            let row = exprs.iter().map(|expr| Ok(expr.eval(&frame, self)?.into_owned()));
            let row = row.collect::<Result<Vec<_>>>()?;
            let Some(write) = self.pending_insert(insert, row, &mut proposed, pending)? else { return Ok(()) };
            if let RowWrite::Insert(row) | RowWrite::Update { new: row, .. } = &write {
                self.show(insert.returning.as_deref(), row, emit)?;
            }
            pending.keep(&write)?;
            writes.push(write);
            Ok(())
        };
        match &insert.source {
            InsertSource::Rows(given) => given.iter().try_for_each(|exprs| propose(exprs, &[]))?,
            InsertSource::Query(query, exprs) => {
                let _ = self.query(query, None, &mut |row| propose(exprs, row).map(ControlFlow::Continue))?;
            }
        }
        Ok(writes)
    }

    /// Returns the write of a proposed row; `None`: it conflicts with another one. `proposed`: the unique keys of the
    /// statement's own rows so far.
    fn pending_insert(
        &self,
        insert: &Insert,
        mut row: Vec<Value>,
        proposed: &mut KeySet,
        pending: &mut Pending<'_>,
    ) -> Result<Option<RowWrite>> {
        let Insert { table, rules, conflict, .. } = insert;
        self.generate(rules, &mut row)?;
        self.check_policies(table, &rules.policies, &row)?;
        self.check_row(table, rules, &row)?;
        let Some(conflict) = conflict else { return Ok(Some(RowWrite::Insert(row))) };
        let second_time = || {
            let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
            let hint = "Ensure that no rows proposed for insertion within the same command have duplicate \
                constrained values.";
            SqlError::new(SqlState::CARDINALITY_VIOLATION, message).hint(hint)
        };
        let existing = self.conflicting(table, rules, conflict, &row)?;
        let own = self.unique_keys(table, rules, conflict, &row)?;
        let meets_own = own.iter().any(|key| proposed.contains(&key[..]));
        match (existing, &conflict.update) {
            (None, None) if meets_own => return Ok(None),
            (Some(_), None) => return Ok(None),
            (None, Some(_)) if meets_own => return Err(second_time()),
            (Some(key), Some(update)) => {
                if !pending.take(table.def.id, &key)? {
                    return Err(second_time());
                }
                let changed = self.changed_by_conflict(table, rules, update, &key, &row)?;
                let write = |(old, new)| RowWrite::Update { key: key[..].into(), old, new };
                return Ok(changed.map(write));
            }
            (None, _) => {}
        }
        for key in own {
            proposed.is_new(&key, &mut pending.kept)?;
        }
        Ok(Some(RowWrite::Insert(row)))
    }

    /// Returns the keys of a row in the unique paths of ON CONFLICT, each behind the number of its path.
    fn unique_keys(
        &self,
        table: &Table,
        rules: &Rules,
        conflict: &OnConflict,
        row: &[Value],
    ) -> Result<Vec<KeyBuffer>> {
        let mut keys = Vec::new();
        for path in conflict.paths_of(table) {
            let (number, key) = match path {
                Path::Primary => (0, Some(primary_key(table, row))),
                Path::Index(at) => {
                    let entry = self.entry(table, rules, at, row, &[])?;
                    (at as u32 + 1, entry.filter(|(_, is_unique)| *is_unique).map(|(entry, _)| entry))
                }
            };
            let Some(key) = key else { continue };
            let mut own = KeyBuffer::new();
            own.extend_from_slice(&number.to_be_bytes());
            own.extend_from_slice(&key);
            keys.push(own);
        }
        Ok(keys)
    }

    fn pending_changes(
        &self,
        change: &Change,
        pending: &mut Pending<'_>,
        emit: &mut Emit<'_>,
    ) -> Result<Vec<RowWrite>> {
        let Change { table, rules, key_at, assignments, returning, .. } = change;
        let (mut writes, mark) = (Vec::new(), self.environment.memory.mark());
        self.rows_to_change(change, &mut |key, row| {
            self.next_row(mark);
            if !pending.take(table.def.id, key)? {
                return Ok(());
            }
            let (old, frame) = (row[..*key_at].to_vec(), Frame { row, outer: None });
            let write = match assignments {
                None => {
                    self.show(returning.as_deref(), row, emit)?;
                    RowWrite::Delete { key: key.into(), old }
                }
                Some(assignments) => {
                    let mut new = old.clone();
                    for (at, expr) in assignments {
                        new[*at] = expr.eval(&frame, self)?.into_owned();
                    }
                    self.generate(rules, &mut new)?;
                    self.check_policies(table, &rules.policies, &new)?;
                    self.check_row(table, rules, &new)?;
                    let shown: Vec<_> = new.iter().chain(&row[*key_at..]).cloned().collect();
                    self.show(returning.as_deref(), &shown, emit)?;
                    RowWrite::Update { key: key.into(), old, new }
                }
            };
            pending.keep(&write)?;
            writes.push(write);
            Ok(())
        })?;
        Ok(writes)
    }

    /// Does the writes, and settles what they owe to foreign keys.
    fn write_all(&self, all: Vec<(&Write, Vec<RowWrite>)>) -> Result<()> {
        let mut owing = Vec::with_capacity(all.len());
        for (write, rows) in all {
            let (table, rules, references) = match write {
                Write::Insert(insert) => (&insert.table, &insert.rules, &insert.references),
                Write::Update(change) | Write::Delete(change) => (&change.table, &change.rules, &change.references),
                Write::Merge(merge) => (&merge.table, &merge.rules, &merge.references),
            };
            let mut owed = Owed::new(references.clone(), &self.environment.memory);
            let run = self.instrumentation.as_ref().map(|of| (of, OneRun::begin(), rows.len()));
            for row in rows {
                self.check_cancelled()?;
                match row {
                    RowWrite::Insert(row) => {
                        self.insert_row(table, rules, &row)?;
                        owed.inserted(self, &row)?;
                    }
                    RowWrite::Update { key, old, new } => {
                        self.update_row(table, rules, &key, &old, &new)?;
                        owed.updated(self, &old, &new)?;
                    }
                    RowWrite::Delete { key, old } => {
                        // Without a snapshot, another transaction may have deleted the row since.
                        if !self.txn.contains(&table.rows, &key[..]).sql()? {
                            continue;
                        }
                        self.delete_row(table, rules, &key, &old)?;
                        owed.deleted(self, &old)?;
                    }
                }
            }
            owing.push(owed);
            if let Some((instrumentation, mut run, count)) = run {
                run.count(count as u64);
                match write {
                    Write::Insert(insert) => instrumentation.went_on(insert, Step::Whole, &run),
                    Write::Update(change) | Write::Delete(change) => instrumentation.went_on(change, Step::Whole, &run),
                    Write::Merge(merge) => instrumentation.went_on(merge, Step::Whole, &run),
                }
            }
        }
        owing.iter_mut().try_for_each(|owed| owed.settle(self))
    }
}
