//! Statements that write rows, with their index entries.

use std::{borrow::Cow, mem, ops::ControlFlow};

use ermine::{Error, KeyBuffer};

use super::{
    Emit, Run,
    gathered::Gathered,
    instrumentation::{OneRun, Step},
    key_set::KeySet,
    references::Owed,
    scan::whole_row,
    unique::Unique,
};
use crate::{
    bind::{
        row_security::PolicyCheck,
        write::{Change, ConflictUpdate, Insert, InsertSource, OnConflict, Rules},
    },
    catalog::{
        Table,
        publication::{Kinds, has_identity},
        uses::add,
    },
    error::{Result, SqlError, SqlState},
    expr::{Expr, Frame},
    failure::{EngineResult as _, sql_error},
    key::write_key,
    memory::{Kept, Memory},
    query::Path,
    storage::RawTable,
    types::{SqlType, Value, row::row_bytes, text},
};

/// A kind of changes, for readers of publications.
enum Published {
    Insert,
    Update,
    Delete,
}

/// Gets the key of a row and the values that a query found with it.
pub(super) type EachFound<'e> = dyn FnMut(&[u8], &[Value]) -> Result<()> + 'e;

impl Run<'_> {
    /// Runs a statement that writes, and measures it, if it is analyzed; returns the number of rows that it wrote.
    pub(super) fn writes<T>(&self, statement: &T, write: impl FnOnce() -> Result<u64>) -> Result<u64> {
        let Some(instrumentation) = &self.instrumentation else { return write() };
        let mut run = OneRun::begin();
        run.count(write()?);
        instrumentation.record(statement, Step::Whole, &run);
        Ok(run.rows())
    }

    /// Runs an INSERT; returns the number of rows that it wrote.
    pub(crate) fn insert(&self, insert: &Insert, emit: &mut Emit<'_>) -> Result<u64> {
        self.writes(insert, || self.insert_rows(insert, emit))
    }

    fn insert_rows(&self, insert: &Insert, emit: &mut Emit<'_>) -> Result<u64> {
        let whole = |exprs: &[Expr], on: &[Value]| -> Result<Vec<Value>> {
            let frame = Frame { row: on, outer: None };
            exprs.iter().map(|expr| Ok(expr.eval(&frame, self)?.into_owned())).collect()
        };
        // A policy does not see the statement's own writes.
        let checked = |mut row: Vec<Value>| -> Result<Vec<Value>> {
            if !insert.rules.policies.is_empty() {
                self.generate(&insert.rules, &mut row)?;
                self.check_policies(&insert.table, &insert.rules.policies, &row)?;
            }
            Ok(row)
        };
        let memory = &self.environment.memory;
        let (mark, mut kept) = (memory.mark(), Kept::new(memory));
        let (mut written, mut touched) = (0, Touched::new(memory));
        let mut owed = Owed::new(insert.references.clone(), memory);
        let mut write = |row: Vec<Value>| -> Result<()> {
            self.check_cancelled()?;
            written += self.insert_one(insert, row, &mut touched, &mut owed, emit)?;
            Ok(())
        };
        match (&insert.source, insert.streamed()) {
            (_, Some((query, exprs))) => {
                let _ = self.query(query, None, &mut |row| write(whole(exprs, row)?).map(ControlFlow::Continue))?;
            }
            // Otherwise all rows are gathered first: a statement does not see its own writes.
            (InsertSource::Rows(given), None) => {
                let mut rows = Vec::new();
                for exprs in given {
                    self.next_row(mark);
                    let row = checked(whole(exprs, &[])?)?;
                    kept.add_row(&row)?;
                    rows.push(row);
                }
                for row in rows {
                    self.next_row(mark);
                    write(row)?;
                }
            }
            (InsertSource::Query(query, exprs), None) => {
                let mut rows = Gathered::new(&self.environment.memory);
                let _ = self.query(query, None, &mut |row| {
                    rows.push(checked(whole(exprs, row)?)?, &self.space).map(ControlFlow::Continue)
                })?;
                rows.drain(&self.space, &mut |row| {
                    self.next_row(mark);
                    write(row.iter_mut().map(mem::take).collect())
                })?;
            }
        }
        owed.settle(self)?;
        Ok(written)
    }

    fn insert_one(
        &self,
        insert: &Insert,
        mut row: Vec<Value>,
        touched: &mut Touched<'_>,
        owed: &mut Owed,
        emit: &mut Emit<'_>,
    ) -> Result<u64> {
        let Insert { table, rules, conflict, returning, .. } = insert;
        self.generate(rules, &mut row)?;
        self.check_row(table, rules, &row)?;
        let update = conflict.as_ref().and_then(|conflict| conflict.update.as_ref());
        if let Some(conflict) = conflict
            && let Some(key) = self.conflicting(table, rules, conflict, &row)?
        {
            let Some(update) = update else { return Ok(0) };
            if !touched.insert(&key)? {
                let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
                let hint = "Ensure that no rows proposed for insertion within the same command have duplicate \
                    constrained values.";
                return Err(SqlError::new(SqlState::CARDINALITY_VIOLATION, message).hint(hint));
            }
            let changed = self.update_conflicting(table, rules, update, &key, &row, owed)?;
            let Some(changed) = changed else { return Ok(0) };
            row = changed;
        } else {
            let key = self.insert_row(table, rules, &row)?;
            owed.inserted(self, &row)?;
            if update.is_some() {
                touched.insert(&key)?;
            }
        }
        self.show(returning.as_deref(), &row, emit)?;
        Ok(1)
    }

    pub(super) fn show(&self, returning: Option<&[Expr]>, row: &[Value], emit: &mut Emit<'_>) -> Result<()> {
        let Some(returning) = returning else { return Ok(()) };
        let frame = Frame { row, outer: None };
        let shown = returning.iter().map(|expr| Ok(expr.eval(&frame, self)?.into_owned()));
        emit(&shown.collect::<Result<Vec<_>>>()?).map(drop)
    }

    /// Returns the key of an existing row that conflicts with another one.
    pub(super) fn conflicting(
        &self,
        table: &Table,
        rules: &Rules,
        conflict: &OnConflict,
        row: &[Value],
    ) -> Result<Option<KeyBuffer>> {
        for path in conflict.paths_of(table) {
            match path {
                Path::Primary => {
                    let key = primary_key(table, row);
                    if self.txn.contains(&table.rows, &key[..]).sql()? {
                        return Ok(Some(key));
                    }
                }
                Path::Index(at) => {
                    if let Some((entry, true)) = self.entry(table, rules, at, row, &[])?
                        && let Some(key) = self.txn.view(&table.indexes[at], &entry[..]).sql()?
                    {
                        return Ok(Some(KeyBuffer::from_slice(key)));
                    }
                }
            }
        }
        Ok(None)
    }

    fn update_conflicting(
        &self,
        table: &Table,
        rules: &Rules,
        update: &ConflictUpdate,
        key: &[u8],
        row: &[Value],
        owed: &mut Owed,
    ) -> Result<Option<Vec<Value>>> {
        let Some((old, new)) = self.changed_by_conflict(table, rules, update, key, row)? else { return Ok(None) };
        self.update_row(table, rules, key, &old, &new)?;
        owed.updated(self, &old, &new)?;
        Ok(Some(new))
    }

    /// Returns the row with a key, before and after DO UPDATE; `None`: it stays.
    pub(super) fn changed_by_conflict(
        &self,
        table: &Table,
        rules: &Rules,
        update: &ConflictUpdate,
        key: &[u8],
        row: &[Value],
    ) -> Result<Option<(Vec<Value>, Vec<Value>)>> {
        let old = self.row_of(table, key)?;
        let both: Vec<_> = old.iter().chain(row).cloned().collect();
        let frame = Frame { row: &both, outer: None };
        if let Some(condition) = &update.condition
            && !condition.is_true(&frame, self)?
        {
            return Ok(None);
        }
        self.check_policies(table, &update.visible, &old)?;
        let mut new = old.clone();
        for (at, expr) in &update.assignments {
            new[*at] = expr.eval(&frame, self)?.into_owned();
        }
        self.generate(rules, &mut new)?;
        self.check_policies(table, &update.policies, &new)?;
        self.check_row(table, rules, &new)?;
        Ok(Some((old, new)))
    }

    /// Returns all columns of the row with a key.
    fn row_of(&self, table: &Table, key: &[u8]) -> Result<Vec<Value>> {
        let bytes = self.txn.view(&table.rows, key).sql()?;
        let bytes = bytes.ok_or_else(|| SqlError::new(SqlState::DATA_CORRUPTED, "an index entry leads to no row"))?;
        whole_row(table, bytes)
    }

    /// Runs an UPDATE or DELETE; returns the number of rows that it wrote.
    pub(crate) fn change(&self, change: &Change, emit: &mut Emit<'_>) -> Result<u64> {
        self.writes(change, || match &change.assignments {
            Some(assignments) => self.update(change, assignments, emit),
            None => self.delete(change, emit),
        })
    }

    fn update(&self, change: &Change, assignments: &[(usize, Expr)], emit: &mut Emit<'_>) -> Result<u64> {
        let Change { table, rules, key_at, returning, .. } = change;
        // Computes all new rows first: a statement does not see its own writes.
        let (mut found, mark, mut updated) =
            (Gathered::new(&self.environment.memory), self.environment.memory.mark(), 0);
        self.rows_to_change(change, &mut |_, row| {
            self.next_row(mark);
            let frame = Frame { row, outer: None };
            let mut both = Vec::with_capacity(row.len() + key_at);
            both.extend_from_slice(row);
            both.extend_from_slice(&row[..*key_at]);
            let new = &mut both[row.len()..];
            for (at, expr) in assignments {
                new[*at] = expr.eval(&frame, self)?.into_owned();
            }
            self.generate(rules, new)?;
            self.check_policies(table, &rules.policies, new)?;
            updated += 1;
            found.push(both, &self.space)
        })?;
        let mut owed = Owed::new(change.references.clone(), &self.environment.memory);
        found.drain(&self.space, &mut |both| {
            self.next_row(mark);
            self.check_cancelled()?;
            let (row, new) = both.split_at_mut(both.len() - key_at);
            let (key, old) = (KeyBuffer::from_slice(key_of(row, *key_at)?), &row[..*key_at]);
            self.check_row(table, rules, new)?;
            self.update_row(table, rules, &key, old, new)?;
            owed.updated(self, old, new)?;
            row[..*key_at].clone_from_slice(new);
            self.show(returning.as_deref(), row, emit)
        })?;
        owed.settle(self)?;
        Ok(updated)
    }

    /// Gathers only the keys of the rows, and the values that they are joined with if RETURNING may refer to them, so
    /// that a full database can be emptied. The rows are read again when they are deleted.
    fn delete(&self, change: &Change, emit: &mut Emit<'_>) -> Result<u64> {
        let Change { table, rules, key_at, returning, .. } = change;
        let mut found = Gathered::new(&self.environment.memory);
        self.rows_to_change(change, &mut |_, row| {
            let shown = if returning.is_some() { row.len() } else { key_at + 1 };
            found.push(row[*key_at..shown].to_vec(), &self.space)
        })?;
        let (mark, mut deleted) = (self.environment.memory.mark(), 0);
        let mut owed = Owed::new(change.references.clone(), &self.environment.memory);
        let is_read = returning.is_some() || !table.indexes.is_empty() || owed.needs_deleted();
        found.drain(&self.space, &mut |found| {
            self.next_row(mark);
            self.check_cancelled()?;
            let (key, mut row) = (key_of(found, 0)?, Vec::new());
            if is_read {
                // Without a snapshot, another transaction may have deleted the row since.
                let Some(bytes) = self.txn.view(&table.rows, key).sql()? else { return Ok(()) };
                row = whole_row(table, bytes)?;
            }
            self.delete_row(table, rules, key, &row)?;
            if owed.needs_deleted() {
                owed.deleted(self, &row)?;
            }
            deleted += 1;
            if returning.is_some() {
                row.extend(found.iter_mut().map(mem::take));
                self.show(returning.as_deref(), &row, emit)?;
            }
            Ok(())
        })?;
        owed.settle(self)?;
        Ok(deleted)
    }

    /// Shows each row that an UPDATE or DELETE is to change once, with its key. If a row is joined with several others,
    /// the first one counts.
    pub(super) fn rows_to_change(&self, change: &Change, each: &mut EachFound<'_>) -> Result<()> {
        let key_at = change.key_at;
        let mut seen = Unique::new(&self.space);
        let mut show = |row: &[Value]| each(key_of(row, key_at)?, row).map(ControlFlow::Continue);
        let _ = self.query(&change.rows, None, &mut |row| {
            let is_wanted = row.len() <= key_at + 1 || seen.is_new(key_of(row, key_at)?, row)?;
            if is_wanted { show(row) } else { Ok(ControlFlow::Continue(())) }
        })?;
        seen.finish(&mut show).map(drop)
    }

    /// Computes the generated columns of a row from the others.
    pub(crate) fn generate(&self, rules: &Rules, row: &mut [Value]) -> Result<()> {
        for (at, expr) in &rules.generated {
            row[*at] = expr.eval(&Frame { row, outer: None }, self)?.into_owned();
        }
        Ok(())
    }

    /// Fails when a row does not meet the conditions of policies.
    pub(super) fn check_policies(&self, table: &Table, policies: &[PolicyCheck], row: &[Value]) -> Result<()> {
        let frame = Frame { row, outer: None };
        for policy in policies {
            if !policy.condition.is_true(&frame, self)? {
                return Err(policy.violated(table.name()));
            }
        }
        Ok(())
    }

    /// Fails when a row breaks a rule of its table.
    pub(crate) fn check_row(&self, table: &Table, rules: &Rules, row: &[Value]) -> Result<()> {
        let frame = Frame { row, outer: None };
        for domain in &rules.domains {
            domain.eval(&frame, self)?;
        }
        for (at, column) in table.def.live_columns() {
            if column.not_null && row[at].is_null() {
                let message = format!(
                    "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                    column.name,
                    table.name()
                );
                let error = SqlError::new(SqlState::NOT_NULL_VIOLATION, message)
                    .table(&*table.def.schema, table.name())
                    .column(&*column.name);
                return Err(error.detail(self.failing(table, row)));
            }
        }
        for (name, check) in &rules.checks {
            // NULL counts as true.
            if *check.eval(&frame, self)? == Value::Bool(false) {
                let message = format!("new row for relation \"{}\" violates check constraint \"{name}\"", table.name());
                let error = SqlError::new(SqlState::CHECK_VIOLATION, message)
                    .table(&*table.def.schema, table.name())
                    .constraint(&**name);
                return Err(error.detail(self.failing(table, row)));
            }
        }
        for (view, check) in &rules.view_checks {
            if !check.is_true(&frame, self)? {
                let message = format!("new row violates check option for view \"{view}\"");
                let error = SqlError::new(SqlState::WITH_CHECK_OPTION_VIOLATION, message);
                return Err(error.detail(self.failing(table, row)));
            }
        }
        Ok(())
    }

    fn failing(&self, table: &Table, row: &[Value]) -> String {
        let values: Vec<_> = table.def.live_columns().map(|(at, column)| self.shown(&row[at], column.ty)).collect();
        format!("Failing row contains ({}).", values.join(", "))
    }

    fn shown(&self, value: &Value, ty: SqlType) -> String {
        if value.is_null() { "null".into() } else { text::to_string(value, ty, self.environment) }
    }

    /// Inserts a row and its index entries; returns its key.
    pub(crate) fn insert_row(&self, table: &Table, rules: &Rules, row: &[Value]) -> Result<KeyBuffer> {
        self.check_published(table, Published::Insert)?;
        self.insert_stored_row(table, rules, row, &row_bytes(row))
    }

    /// Works as `insert_row`, for a row that is stored as these bytes; columns that were added since they were written
    /// may be missing in them.
    pub(super) fn insert_stored_row(
        &self,
        table: &Table,
        rules: &Rules,
        row: &[Value],
        bytes: &[u8],
    ) -> Result<KeyBuffer> {
        let key = match table.def.primary_key {
            Some(_) => primary_key(table, row),
            None => KeyBuffer::from_slice(&table.next_row().to_be_bytes()),
        };
        self.txn.insert(&table.rows, &key[..], bytes).map_err(|error| match error {
            Error::KeyExists { .. } => self.exists(table, rules, Path::Primary, row),
            error => sql_error(error),
        })?;
        add(&self.uses(table).inserted, 1);
        for at in 0..table.indexes.len() {
            if let Some((entry, is_unique)) = self.entry(table, rules, at, row, &key)? {
                self.put_entry(table, rules, at, (&entry, is_unique), &key, row)?;
            }
        }
        Ok(key)
    }

    pub(super) fn update_row(
        &self,
        table: &Table,
        rules: &Rules,
        key: &[u8],
        old: &[Value],
        new: &[Value],
    ) -> Result<()> {
        self.check_published(table, Published::Update)?;
        let new_key = match table.def.primary_key {
            Some(_) => primary_key(table, new),
            None => KeyBuffer::from_slice(key),
        };
        if new_key[..] != *key {
            self.delete_row(table, rules, key, old)?;
            return self.insert_row(table, rules, new).map(drop);
        }
        let bytes = row_bytes(new);
        self.txn.update(&table.rows, key, &bytes[..]).sql()?;
        add(&self.uses(table).updated, 1);
        for at in 0..table.indexes.len() {
            let (before, after) = (self.entry(table, rules, at, old, key)?, self.entry(table, rules, at, new, key)?);
            if before == after {
                continue;
            }
            if let Some((entry, _)) = before {
                self.delete_entry(table, at, &entry, key)?;
            }
            if let Some((entry, is_unique)) = after {
                self.put_entry(table, rules, at, (&entry, is_unique), key, new)?;
            }
        }
        Ok(())
    }

    pub(super) fn delete_row(&self, table: &Table, rules: &Rules, key: &[u8], old: &[Value]) -> Result<()> {
        self.check_published(table, Published::Delete)?;
        self.txn.delete(&table.rows, key).sql()?;
        add(&self.uses(table).deleted, 1);
        for at in 0..table.indexes.len() {
            if let Some((entry, _)) = self.entry(table, rules, at, old, key)? {
                self.delete_entry(table, at, &entry, key)?;
            }
        }
        Ok(())
    }

    /// Fails for a change of a row that readers of a publication could not tell.
    #[inline]
    fn check_published(&self, table: &Table, change: Published) -> Result<()> {
        if self.catalog.has_publications() { self.check_readers(table, change) } else { Ok(()) }
    }

    #[cold]
    fn check_readers(&self, table: &Table, change: Published) -> Result<()> {
        let name = table.name();
        let refused = |message: String, hint: &str| {
            Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).hint(hint))
        };
        if self.catalog.is_rewritten(table.def.id) {
            let message = format!("cannot change published table \"{name}\" after its rows were written anew");
            return refused(message, "Commit the change of the table first.");
        }
        let (verb, what, is_published): (_, _, fn(Kinds) -> bool) = match change {
            Published::Insert => return Ok(()),
            Published::Update => ("update", "updates", |kinds| kinds.update),
            Published::Delete => ("delete from", "deletes", |kinds| kinds.delete),
        };
        if has_identity(&table.def) || !self.catalog.publishes(&table.def, is_published) {
            return Ok(());
        }
        refused(
            format!("cannot {verb} table \"{name}\" because it does not have a replica identity and publishes {what}"),
            "Give the table a primary key whose types readers can be sent, or do not publish such changes.",
        )
    }

    /// Returns the entry of a row in an index, and whether it has to be unique; `None`: the row is not in it.
    pub(super) fn entry(
        &self,
        table: &Table,
        rules: &Rules,
        at: usize,
        row: &[Value],
        key: &[u8],
    ) -> Result<Option<(KeyBuffer, bool)>> {
        if let Some(predicate) = &rules.predicates[at]
            && !predicate.is_true(&Frame { row, outer: None }, self)?
        {
            return Ok(None);
        }
        let index = &table.def.indexes[at];
        let (mut entry, mut is_unique) = (KeyBuffer::new(), index.is_unique);
        for (column, descending) in &index.columns {
            let value = self.value_in(rules, row, *column)?;
            write_key(&value, *descending, &mut entry);
            is_unique &= !value.is_null();
        }
        if !is_unique {
            entry.extend_from_slice(key);
        }
        Ok(Some((entry, is_unique)))
    }

    /// Returns the value of a row in a column of an index.
    fn value_in<'r>(&'r self, rules: &'r Rules, row: &'r [Value], column: usize) -> Result<Cow<'r, Value>> {
        match rules.computed.iter().find(|(at, _)| *at == column) {
            None => Ok(Cow::Borrowed(&row[column])),
            Some((_, expr)) => Ok(Cow::Owned(expr.eval(&Frame { row, outer: None }, self)?.into_owned())),
        }
    }

    pub(super) fn put_entry(
        &self,
        table: &Table,
        rules: &Rules,
        at: usize,
        (entry, is_unique): (&[u8], bool),
        key: &[u8],
        row: &[Value],
    ) -> Result<()> {
        let index: &RawTable = &table.indexes[at];
        match self.txn.insert(index, entry, key) {
            Err(Error::KeyExists { .. }) if is_unique => Err(self.exists(table, rules, Path::Index(at), row)),
            // It contains the key of its row.
            Err(Error::KeyExists { .. }) => Ok(()),
            inserted => inserted.sql(),
        }
    }

    /// Deletes the entry of a row. While an index is incomplete, the entry may be that of another row, or missing.
    fn delete_entry(&self, table: &Table, at: usize, entry: &[u8], key: &[u8]) -> Result<()> {
        let index = &table.indexes[at];
        if !table.def.is_complete(at) && self.txn.view(index, entry).sql()? != Some(key) {
            return Ok(());
        }
        self.txn.delete(index, entry).map(drop).sql()
    }

    pub(super) fn exists(&self, table: &Table, rules: &Rules, path: Path, row: &[Value]) -> SqlError {
        let (name, columns): (&str, Vec<usize>) = match path {
            Path::Primary => match &table.def.primary_key {
                Some(key) => (&key.name, key.columns.clone()),
                None => ("", Vec::new()),
            },
            Path::Index(at) => {
                let index = &table.def.indexes[at];
                (&index.name, index.columns.iter().map(|column| column.0).collect())
            }
        };
        let names: Vec<_> = columns.iter().map(|at| table.def.part(*at)).collect();
        let shown = |at: &usize| Ok(self.shown(&*self.value_in(rules, row, *at)?, table.types[*at]));
        let values: Vec<_> = match columns.iter().map(shown).collect::<Result<_>>() {
            Ok(values) => values,
            Err(error) => return error,
        };
        SqlError::new(SqlState::UNIQUE_VIOLATION, format!("duplicate key value violates unique constraint \"{name}\""))
            .detail(format!("Key ({})=({}) already exists.", names.join(", "), values.join(", ")))
            .table(&*table.def.schema, table.name())
            .constraint(name)
    }
}

/// Keys of rows that ON CONFLICT DO UPDATE has written, and must not meet again.
struct Touched<'m> {
    keys: KeySet,
    kept: Kept<'m>,
}

impl<'m> Touched<'m> {
    fn new(memory: &'m Memory) -> Self {
        Self { keys: KeySet::default(), kept: Kept::new(memory) }
    }

    /// Adds a key; returns false if it is already present.
    fn insert(&mut self, key: &[u8]) -> Result<bool> {
        self.keys.is_new(key, &mut self.kept)
    }
}

/// Returns the key of a row among the values that a query found.
pub(super) fn key_of(row: &[Value], key_at: usize) -> Result<&[u8]> {
    match &row[key_at] {
        Value::Bytea(key) => Ok(key),
        _ => Err(SqlError::new(SqlState::INTERNAL_ERROR, "a row without its key")),
    }
}

/// Returns the key of a row of a table that has a primary key.
pub(super) fn primary_key(table: &Table, row: &[Value]) -> KeyBuffer {
    let mut key = KeyBuffer::new();
    for &column in table.def.primary_key.iter().flat_map(|key| &key.columns) {
        write_key(&row[column], false, &mut key);
    }
    key
}
