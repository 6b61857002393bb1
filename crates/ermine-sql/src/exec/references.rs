//! Foreign keys: what the writes of a statement owe, and the actions on rows that refer.
//!
//! A foreign key promises for every key K: *if a row of the child refers to K, a row of the parent has K*. Writes record
//! the keys for which the promise may have changed ([`Claim`]); each claim is examined at the end of the statement, after
//! all actions, or of the transaction. It does not matter which write made it, so claims of writes that were undone do no
//! harm.
//!
//! Invariants
//! 1. *What a claim was decided by is certified*: the row of the parent, or the absence of rows in the child, is a read
//!    that counts at commit, at every level. So of a transaction that adds a row that refers and one that removes the
//!    row referred to, one loses, whichever comes first; a change of other columns of the parent's row conflicts with
//!    neither. No row is locked or written.
//! 2. *Certified reads are of the last snapshot*: at READ COMMITTED, statements of a block examine claims without
//!    certification, and the transaction examines all of them again, certified, right before its end, with a snapshot
//!    of that time.
//! 3. Where the scheme certifies nothing (`rc`, `si`), the row of the parent is written back instead, as by FOR SHARE;
//!    a removal has written it before it looks for rows of the child.

use std::{collections::VecDeque, ops::ControlFlow, sync::Arc};

use ermine::KeyBuffer;

use super::{Run, scan::whole_row};
use crate::{
    bind::references::{Concerned, Reference, References, converted},
    catalog::{
        Table,
        definition::{ForeignKeyDef, ObjectId, ReferentialAction},
    },
    claims::{Claim, Claims, Side},
    error::{Result, SqlError, SqlState},
    expr::Frame,
    failure::EngineResult as _,
    key::write_key,
    memory::{ALLOCATION, Held, Memory, bytes_of},
    query::Path,
    storage::RawRange,
    types::{Value, cast, text},
};

/// A change of a row to which others may refer.
struct Event {
    /// The place of its table.
    at: usize,
    /// The columns that others refer to.
    old: Vec<Value>,
    /// `None`: it was deleted.
    new: Option<Vec<Value>>,
}

/// What the writes of one statement owe to foreign keys.
pub(crate) struct Owed {
    references: Option<Arc<References>>,
    claims: Claims,
    events: VecDeque<Event>,
    held: Held,
    bytes: usize,
    /// Whether an action has written a row.
    has_acted: bool,
}

impl Owed {
    pub(crate) fn new(references: Option<Arc<References>>, memory: &Memory) -> Self {
        let (claims, events) = (Claims::default(), VecDeque::new());
        // Most statements owe nothing.
        let held = if references.is_some() { memory.hold() } else { Held::default() };
        Self { references, claims, events, held, bytes: 0, has_acted: false }
    }

    /// Whether rows are needed as they were before they were deleted.
    pub(crate) fn needs_deleted(&self) -> bool {
        self.references.as_ref().is_some_and(|all| !all.0[0].incoming.is_empty())
    }

    /// Notes that the statement inserted a row.
    pub(crate) fn inserted(&mut self, run: &Run<'_>, row: &[Value]) -> Result<()> {
        if self.references.is_some() { self.wrote(run, 0, None, Some(row), Side::Child) } else { Ok(()) }
    }

    /// Notes that the statement changed a row.
    pub(crate) fn updated(&mut self, run: &Run<'_>, old: &[Value], new: &[Value]) -> Result<()> {
        if self.references.is_some() { self.wrote(run, 0, Some(old), Some(new), Side::Child) } else { Ok(()) }
    }

    /// Notes that the statement deleted a row.
    pub(crate) fn deleted(&mut self, run: &Run<'_>, old: &[Value]) -> Result<()> {
        if self.references.is_some() { self.wrote(run, 0, Some(old), None, Side::Child) } else { Ok(()) }
    }

    fn wrote(
        &mut self,
        run: &Run<'_>,
        at: usize,
        old: Option<&[Value]>,
        new: Option<&[Value]>,
        side: Side,
    ) -> Result<()> {
        let Some(references) = self.references.clone() else { return Ok(()) };
        let Concerned { own, incoming, referred, .. } = &references.0[at];
        for reference in own {
            let Some(new) = new else { continue };
            let is_same = |old: &[Value]| reference.def.child_columns.iter().all(|at| is_equal(&old[*at], &new[*at]));
            if old.is_some_and(is_same) {
                continue;
            }
            if reference.is_mixed(new) {
                let detail = "MATCH FULL does not allow mixing of null and nonnull key values.";
                return Err(absent(reference).detail(detail));
            }
            match reference.referred(new).map(|key| key.into_iter().collect::<Option<Vec<_>>>()) {
                None => {}
                Some(Some(key)) => self.claim(reference, key, side)?,
                // No value of the parent's type is equal.
                Some(None) => {
                    return Err(absent_key(run, reference, &reference.def.child_columns, new, &reference.child));
                }
            }
        }
        let Some(old) = old else { return Ok(()) };
        let is_changed = |reference: &Reference| match new {
            None => true,
            Some(new) => reference.def.parent_columns.iter().any(|at| !is_equal(&old[*at], &new[*at])),
        };
        if incoming.iter().any(|(reference, _)| is_changed(reference)) {
            let kept = |row: &[Value]| referred.iter().map(|at| row[*at].clone()).collect::<Vec<_>>();
            let (old, new) = (kept(old), new.map(kept));
            self.keep(bytes_of(&old) + 2 * size_of_val(&old[..]))?;
            self.keep(new.as_ref().map_or(0, |new| bytes_of(new) + 2 * size_of_val(&new[..])))?;
            self.events.push_back(Event { at, old, new });
        }
        Ok(())
    }

    fn keep(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        self.held.grow_to(self.bytes, usize::MAX)
    }

    fn claim(&mut self, reference: &Reference, key: Vec<Value>, side: Side) -> Result<()> {
        self.add_claim(reference, Claim { key, side, is_again: false })
    }

    fn add_claim(&mut self, reference: &Reference, claim: Claim) -> Result<()> {
        let mut encoded = KeyBuffer::new();
        claim.key.iter().for_each(|value| write_key(value, false, &mut encoded));
        let bytes = self.claims.add((reference.def.id, encoded), claim);
        self.keep(bytes)
    }

    /// Runs the actions, and examines the claims that are not deferred; at the end of the statement.
    pub(crate) fn settle(&mut self, run: &Run<'_>) -> Result<()> {
        if self.claims.is_empty() && self.events.is_empty() {
            return Ok(());
        }
        let certifies = !run.examines_again;
        if certifies {
            run.txn.certify_reads(true).sql()?;
        }
        let settled = self.settle_certified(run);
        if certifies {
            // A transaction that has lost a conflict says so itself.
            let _ = run.txn.certify_reads(false);
        }
        self.bytes = 0;
        self.held.shrink_to(0);
        settled
    }

    fn settle_certified(&mut self, run: &Run<'_>) -> Result<()> {
        let mark = run.environment.memory.mark();
        while let Some(event) = self.events.pop_front() {
            run.next_row(mark);
            self.act(run, &event)?;
        }
        let Some(references) = self.references.clone() else { return Ok(()) };
        let all =
            || references.0.iter().flat_map(|table| table.own.iter().chain(table.incoming.iter().map(|(it, _)| it)));
        let has_acted = std::mem::take(&mut self.has_acted);
        for ((id, encoded), mut claim) in self.claims.drain() {
            run.next_row(mark);
            run.check_cancelled()?;
            let Some(reference) = all().find(|reference| reference.def.id == id) else { continue };
            // Actions are not deferred, and are done.
            let is_deferred = !claim.is_again && run.deferral.is_deferred(&reference.def);
            if !is_deferred && !claim.is_again {
                // An action may have changed the row.
                claim.side = if has_acted && claim.side == Side::Child { Side::Action } else { claim.side };
                run.examine(reference, &claim)?;
            }
            if is_deferred || run.examines_again {
                claim.is_again = !is_deferred;
                _ = run.given.borrow_mut().claims.add((id, encoded), claim);
            }
        }
        Ok(())
    }

    /// Runs the actions for a row that was removed, or whose key was changed.
    fn act(&mut self, run: &Run<'_>, event: &Event) -> Result<()> {
        let Some(references) = self.references.clone() else { return Ok(()) };
        let Event { at, old, new } = event;
        let concerned = &references.0[*at];
        for (reference, place) in &concerned.incoming {
            let (key, new) = (concerned.key(reference, old), new.as_ref().map(|new| concerned.key(reference, new)));
            // No row refers to a key with a NULL.
            if key.iter().any(Value::is_null) || new.as_ref().is_some_and(|new| is_same_key(&key, new)) {
                continue;
            }
            let action = if new.is_none() { reference.def.on_delete } else { reference.def.on_update };
            if action != ReferentialAction::NoAction && run.examines_again {
                // Other rows may refer to the key until the transaction ends.
                self.add_claim(reference, Claim { key: key.clone(), side: Side::Parent, is_again: true })?;
            }
            match (action, place) {
                (ReferentialAction::NoAction, _) => self.claim(reference, key, Side::Parent)?,
                (ReferentialAction::Restrict, _) => {
                    if !run.children(reference, &key, 1)?.is_empty() {
                        return Err(still_referenced(run, reference, &key));
                    }
                }
                (_, Some(place)) => {
                    let (child, new) = ((*place, &references.0[*place]), new.as_deref());
                    self.change_children(run, reference, child, &key, new, action)?;
                }
                (_, None) => {}
            }
        }
        Ok(())
    }

    /// Runs an action on all rows that refer to a key.
    fn change_children(
        &mut self,
        run: &Run<'_>,
        reference: &Reference,
        (place, child): (usize, &Concerned),
        old_key: &[Value],
        new_key: Option<&[Value]>,
        action: ReferentialAction,
    ) -> Result<()> {
        let Concerned { table, rules, defaults, .. } = child;
        let mark = run.environment.memory.mark();
        for row_key in run.children(reference, old_key, usize::MAX)? {
            run.next_row(mark);
            run.check_cancelled()?;
            self.has_acted = true;
            // An action before may have deleted it.
            let Some(bytes) = run.txn.view(&table.rows, &row_key[..]).sql()? else { continue };
            let old = whole_row(table, bytes)?;
            if action == ReferentialAction::Cascade && new_key.is_none() {
                run.delete_row(table, rules, &row_key, &old)?;
                self.wrote(run, place, Some(&old), None, Side::Action)?;
                continue;
            }
            let mut changed = old.clone();
            for (at, own) in reference.def.child_columns.iter().enumerate() {
                changed[*own] = match (action, new_key) {
                    (ReferentialAction::Cascade, Some(new)) => {
                        let (ty, modifier) = (table.types[*own], table.def.columns[*own].modifier);
                        let value = converted(&new[at], ty).ok_or_else(|| {
                            let message = format!("{} out of range", ty.name());
                            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
                        })?;
                        if value.is_null() { value } else { cast::with_modifier(value, ty, modifier, false)? }
                    }
                    (ReferentialAction::SetDefault, _) => {
                        defaults[*own].eval(&Frame { row: &[], outer: None }, run)?.into_owned()
                    }
                    _ => Value::Null,
                };
            }
            run.generate(rules, &mut changed)?;
            run.check_row(table, rules, &changed)?;
            run.update_row(table, rules, &row_key, &old, &changed)?;
            self.wrote(run, place, Some(&old), Some(&changed), Side::Action)?;
            if action == ReferentialAction::SetDefault
                && let Some(key) =
                    reference.referred(&changed).and_then(|key| key.into_iter().collect::<Option<Vec<_>>>())
                && is_same_key(&key, old_key)
            {
                // The default is the key that is going.
                self.claim(reference, key, Side::Parent)?;
            }
        }
        Ok(())
    }
}

impl Run<'_> {
    /// Fails if a foreign key does not hold for a key.
    pub(crate) fn examine(&self, reference: &Reference, claim: &Claim) -> Result<()> {
        if self.has_parent(reference, &claim.key, true)? {
            return Ok(());
        }
        if (claim.side != Side::Child || claim.is_again) && self.children(reference, &claim.key, 1)?.is_empty() {
            return Ok(());
        }
        let error = match claim.side {
            Side::Parent => still_referenced(self, reference, &claim.key),
            Side::Child | Side::Action => absent_parent(self, reference, &claim.key),
        };
        if !claim.is_again {
            return Err(error);
        }
        let message = "could not serialize access due to a concurrent change of a row of a foreign key";
        let report = error.report();
        let detail = format!("{}: {}", report.message, report.detail.as_deref().unwrap_or_default());
        Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, message).detail(detail))
    }

    /// Examines claims again at the end of a transaction, or those that were deferred until then.
    pub(crate) fn examine_all<'c>(
        &self,
        claims: impl Iterator<Item = (&'c (ObjectId, KeyBuffer), &'c Claim)>,
    ) -> Result<()> {
        let mark = self.environment.memory.mark();
        for ((id, _), claim) in claims {
            let mut claim = claim.clone();
            self.next_row(mark);
            self.check_cancelled()?;
            // It was dropped since.
            let Some(def) = self.catalog.foreign_key(*id) else { continue };
            // The row that made it may have changed since.
            claim.side = if claim.side == Side::Child { Side::Action } else { claim.side };
            self.examine(&Reference::new(self.catalog, def)?, &claim)?;
        }
        Ok(())
    }

    /// Whether a row of the parent has a key; under schemes that certify no reads, that row is locked if `locks`.
    fn has_parent(&self, reference: &Reference, key: &[Value], locks: bool) -> Result<bool> {
        let (path, places) = &reference.parent_path;
        let encoded = |descending: &dyn Fn(usize) -> bool| {
            let mut encoded = KeyBuffer::new();
            places.iter().enumerate().for_each(|(at, place)| write_key(&key[*place], descending(at), &mut encoded));
            encoded
        };
        let parent = &reference.parent;
        let row_key = match path {
            Path::Primary => {
                let row_key = encoded(&|_| false);
                self.txn.contains(&parent.rows, &row_key[..]).sql()?.then_some(row_key)
            }
            Path::Index(at) => {
                let entry = encoded(&|column| parent.def.indexes[*at].columns[column].1);
                self.txn.view(&parent.indexes[*at], &entry[..]).sql()?.map(KeyBuffer::from_slice)
            }
        };
        let Some(row_key) = row_key else { return Ok(false) };
        if locks
            && !self.txn.database().scheme().is_serializable()
            && let Some(bytes) = self.txn.view(&parent.rows, &row_key[..]).sql()?.map(<[u8]>::to_vec)
        {
            self.txn.update(&parent.rows, &row_key[..], &bytes[..]).sql()?;
        }
        Ok(true)
    }

    /// Returns the keys of rows that refer to a key, at most so many.
    fn children(&self, reference: &Reference, key: &[Value], at_most: usize) -> Result<Vec<KeyBuffer>> {
        let child = &reference.child;
        let columns = &reference.def.child_columns;
        let values = columns.iter().zip(key).map(|(at, value)| converted(value, child.types[*at]));
        // No value of the child's type is equal.
        let Some(values) = values.collect::<Option<Vec<_>>>() else { return Ok(Vec::new()) };
        let mut held = self.environment.memory.hold();
        let (mut found, mut bytes, mut failure) = (Vec::<KeyBuffer>::new(), 0, None);
        let mut add = |row_key: &[u8]| -> Result<ControlFlow<()>> {
            bytes += ALLOCATION + 2 * size_of::<KeyBuffer>() + row_key.len();
            held.grow_to(bytes, usize::MAX)?;
            found.push(KeyBuffer::from_slice(row_key));
            Ok(if found.len() < at_most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        };
        let (rows, range) = match &reference.child_path {
            None => (&child.rows, RawRange::default()),
            Some((path, places)) => {
                let is_descending = |column: usize| match path {
                    Path::Primary => false,
                    Path::Index(at) => child.def.indexes[*at].columns[column].1,
                };
                let mut prefix = KeyBuffer::new();
                for (column, place) in places.iter().enumerate() {
                    write_key(&values[*place], is_descending(column), &mut prefix);
                }
                let rows = if let Path::Index(at) = path { &child.indexes[*at] } else { &child.rows };
                (rows, RawRange::prefix(prefix))
            }
        };
        let mark = self.environment.memory.mark();
        let mut each = |entry: &[u8], value: &[u8]| -> Result<ControlFlow<()>> {
            self.next_row(mark);
            self.check_cancelled()?;
            match &reference.child_path {
                Some((Path::Index(_), _)) => add(value),
                Some((Path::Primary, _)) => add(entry),
                None => {
                    let row = whole_row(child, value)?;
                    let is_found = columns.iter().zip(&values).all(|(at, value)| is_equal(&row[*at], value));
                    if is_found { add(entry) } else { Ok(ControlFlow::Continue(())) }
                }
            }
        };
        let scanned = self.txn.scan(rows, range).for_each_encoded(|entry, value| {
            Ok(each(entry, value).unwrap_or_else(|error| {
                failure = Some(error);
                ControlFlow::Break(())
            }))
        });
        match failure {
            Some(error) => Err(error),
            None => scanned.sql().map(|()| found),
        }
    }

    /// Fails if a row of a table refers to a key that no row has; no other transaction writes the tables.
    pub(crate) fn check_reference(&self, reference: &Reference, row: &[Value]) -> Result<()> {
        if reference.is_mixed(row) {
            let detail = "MATCH FULL does not allow mixing of null and nonnull key values.";
            return Err(absent(reference).detail(detail));
        }
        let Some(key) = reference.referred(row) else { return Ok(()) };
        let is_there = match key.into_iter().collect::<Option<Vec<_>>>() {
            Some(key) => self.has_parent(reference, &key, false)?,
            None => false,
        };
        let columns = &reference.def.child_columns;
        if is_there { Ok(()) } else { Err(absent_key(self, reference, columns, row, &reference.child)) }
    }
}

/// Whether two values are the same key; NULL equals NULL.
fn is_equal(left: &Value, right: &Value) -> bool {
    let encoded = |value: &Value| {
        let mut key = KeyBuffer::new();
        write_key(value, false, &mut key);
        key
    };
    match (left, right) {
        (Value::Int4(left), Value::Int4(right)) => left == right,
        (Value::Int8(left), Value::Int8(right)) => left == right,
        _ => encoded(left) == encoded(right),
    }
}

fn is_same_key(left: &[Value], right: &[Value]) -> bool {
    left.iter().zip(right).all(|(left, right)| is_equal(left, right))
}

/// Returns the error of a row that refers to nothing.
fn absent(reference: &Reference) -> SqlError {
    let (child, name) = (&reference.child, &reference.def.name);
    let message = format!("insert or update on table \"{}\" violates foreign key constraint \"{name}\"", child.name());
    SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message).table(&*child.def.schema, child.name()).constraint(&**name)
}

/// Returns the same, with the key: the columns of a row of the table.
fn absent_key(run: &Run<'_>, reference: &Reference, columns: &[usize], row: &[Value], table: &Table) -> SqlError {
    let names: Vec<_> = columns.iter().map(|at| &*table.def.columns[*at].name).collect();
    let values: Vec<_> =
        columns.iter().map(|at| text::to_string(&row[*at], table.types[*at], run.environment)).collect();
    let (names, values, parent) = (names.join(", "), values.join(", "), reference.parent.name());
    absent(reference).detail(format!("Key ({names})=({values}) is not present in table \"{parent}\"."))
}

/// Returns the same for a key of the parent.
fn absent_parent(run: &Run<'_>, reference: &Reference, key: &[Value]) -> SqlError {
    let ForeignKeyDef { child_columns, parent_columns, .. } = &*reference.def;
    let names: Vec<_> = child_columns.iter().map(|at| &*reference.child.def.columns[*at].name).collect();
    let parent = reference.parent.name();
    let values = values_of(run, reference, parent_columns, key);
    absent(reference).detail(format!("Key ({})=({values}) is not present in table \"{parent}\".", names.join(", ")))
}

/// Returns the error of a row that others refer to.
fn still_referenced(run: &Run<'_>, reference: &Reference, key: &[Value]) -> SqlError {
    let Reference { def, child, parent, .. } = reference;
    let (table, name, child_name) = (parent.name(), &def.name, child.name());
    let message = format!(
        "update or delete on table \"{table}\" violates foreign key constraint \"{name}\" on table \"{child_name}\""
    );
    let names: Vec<_> = def.parent_columns.iter().map(|at| &*parent.def.columns[*at].name).collect();
    let values = values_of(run, reference, &def.parent_columns, key);
    let names = names.join(", ");
    SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message)
        .detail(format!("Key ({names})=({values}) is still referenced from table \"{child_name}\"."))
        .table(&*child.def.schema, child_name)
        .constraint(&**name)
}

fn values_of(run: &Run<'_>, reference: &Reference, columns: &[usize], key: &[Value]) -> String {
    let shown = columns.iter().zip(key);
    let shown = shown.map(|(at, value)| text::to_string(value, reference.parent.types[*at], run.environment));
    shown.collect::<Vec<_>>().join(", ")
}
