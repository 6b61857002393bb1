//! The rights that a statement needs.
//!
//! A table is got from [`Binder::table`], which takes the right that is needed, a view states its own (`source`), and
//! every reference to a column passes [`Binder::note_use`]: so a plan states its needs while it is bound, and none
//! can be forgotten. They are examined when the whole statement is bound; a statement that lacks a right has a plan
//! that fails in every run, so that it can still be prepared and described. A plan holds for one catalog and one
//! role: rights change with the catalog's version, and a session's plans are made again when its role changes.
//!
//! A view's query is bound with the rights of the view's owner ([`Binder::acting`]). The expressions of a table's
//! definition (defaults, checks, generated columns) need no rights to its columns.

use std::collections::BTreeSet;

use super::{Binder, view_write::Writes};
use crate::{
    catalog::{
        Catalog, View,
        definition::ObjectId,
        rights::{Kind, Object, Rights, check_usage, no_right},
    },
    error::{Result, SqlError},
};

/// The rights that a statement needs to a relation.
pub(crate) struct Need {
    relation: ObjectId,
    /// The role that needs them.
    role: ObjectId,
    rights: Rights,
    /// The columns that are read, inserted and updated; rights to them suffice.
    columns: [BTreeSet<usize>; 3],
}

/// The number of a system column, which only a right to the whole table covers.
const SYSTEM_COLUMN: usize = usize::MAX;

/// The rights that can be granted for columns, in the order of [`Need::columns`].
const BY_COLUMN: [Rights; 3] = [Rights::SELECT, Rights::INSERT, Rights::UPDATE];

/// A relation that a statement writes: a table, or one of the views above it.
pub(super) struct Level {
    relation: ObjectId,
    pub(super) role: ObjectId,
    /// For each of its columns, the column of the table that it is.
    columns: Option<Vec<Option<usize>>>,
}

impl Writes {
    /// Returns the right that such a statement needs.
    pub(crate) fn right(self) -> Rights {
        match self {
            Self::Insert => Rights::INSERT,
            Self::Update => Rights::UPDATE,
            Self::Delete => Rights::DELETE,
        }
    }
}

impl Binder<'_> {
    /// Returns the role with whose rights the query is bound.
    pub(super) fn acting(&self) -> ObjectId {
        self.inside.as_ref().map_or(self.environment.role, |inside| inside.role)
    }

    /// Returns the role with whose rights a view's query is bound: its owner, or with `security_invoker` the role that
    /// runs the statement.
    pub(super) fn acting_in(&self, view: &View) -> ObjectId {
        match is_true(view, "security_invoker") {
            true => self.environment.role,
            false => self.catalog.owner(Object::new(Kind::Table, view.def.id)),
        }
    }

    /// Returns the rights to a relation that the statement needs so far.
    pub(super) fn needed(&self, role: ObjectId, relation: ObjectId) -> Rights {
        let need = self.needs.iter().find(|need| (need.relation, need.role) == (relation, role));
        need.map_or(Rights::NONE, |need| need.rights)
    }

    /// Notes that the statement needs rights to a relation.
    pub(crate) fn needs(&mut self, relation: ObjectId, rights: Rights) {
        self.need_of(self.acting(), relation, rights);
    }

    fn need_of(&mut self, role: ObjectId, relation: ObjectId, rights: Rights) -> &mut Need {
        let known = self.needs.iter().position(|need| (need.relation, need.role) == (relation, role));
        let at = known.unwrap_or_else(|| {
            self.needs.push(Need { relation, role, rights: Rights::NONE, columns: Default::default() });
            self.needs.len() - 1
        });
        let need = &mut self.needs[at];
        need.rights = need.rights | rights;
        need
    }

    /// Notes that the statement reads a column of a relation, by its number from 1 on; 0: a system column.
    pub(super) fn needs_column(&mut self, relation: ObjectId, number: i16) {
        if self.is_in_rules {
            return;
        }
        let column = usize::try_from(i32::from(number) - 1).unwrap_or(SYSTEM_COLUMN);
        self.need_of(self.acting(), relation, Rights::SELECT).columns[0].insert(column);
    }

    /// Notes that the statement reads columns of a table.
    pub(crate) fn needs_to_read(&mut self, table: ObjectId, columns: impl Iterator<Item = usize>) {
        self.need_of(self.acting(), table, Rights::SELECT).columns[0].extend(columns);
    }

    /// Notes that the statement writes columns of a table itself.
    pub(crate) fn needs_to_write(&mut self, table: ObjectId, right: Rights, columns: impl Iterator<Item = usize>) {
        let need = self.need_of(self.acting(), table, right);
        if let Some(place) = BY_COLUMN.iter().position(|by| *by == right) {
            need.columns[place].extend(columns);
        }
    }

    /// Notes that the statement writes columns of a table by way of views, if there are any.
    pub(super) fn needs_to_write_below(&mut self, levels: &[Level], right: Rights, columns: &[usize]) {
        for Level { relation, role, columns: shown } in levels {
            let need = self.need_of(*role, *relation, right);
            let Some(place) = BY_COLUMN.iter().position(|by| *by == right) else { continue };
            match shown {
                None => need.columns[place].extend(columns),
                Some(shown) => {
                    let is_written = |own: &Option<usize>| own.is_some_and(|own| columns.contains(&own));
                    let written = shown.iter().enumerate().filter(|(_, own)| is_written(own));
                    need.columns[place].extend(written.map(|(at, _)| at));
                }
            }
        }
    }

    /// Returns the level of a table, or of a view that shows some of its columns, for the role that acts here.
    pub(super) fn level(&self, relation: ObjectId, columns: Option<Vec<Option<usize>>>) -> Level {
        Level { relation, role: self.acting(), columns }
    }

    /// Notes that a function needs one of some rights to a sequence.
    pub(super) fn needs_sequence(&mut self, sequence: ObjectId, rights: Rights) {
        if self.is_in_rules {
            return;
        }
        let object = Object::new(Kind::Sequence, sequence);
        // As in PostgreSQL, a function in a view runs with the rights of the role that uses the view.
        if self.denied.is_none() && !self.catalog.has_any(self.environment.role, object, rights) {
            self.denied = Some(no_right(self.catalog, object));
        }
    }

    /// Fails if a role may not look up names in a schema.
    pub(crate) fn check_usage(&self, schema: &str) -> Result<()> {
        check_usage(self.catalog, self.environment.role, schema)
    }

    /// Binds expressions of a table's definition, which need no rights.
    pub(super) fn in_rules<T>(&mut self, bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let around = std::mem::replace(&mut self.is_in_rules, true);
        let bound = bind(self);
        self.is_in_rules = around;
        bound
    }

    /// Returns the error of the first right that the statement lacks.
    pub(crate) fn denial(&mut self) -> Option<SqlError> {
        let lacking = self.needs.iter().find(|need| !need.is_met(self.catalog));
        lacking.map(|need| no_right(self.catalog, need.object(self.catalog))).or_else(|| self.denied.take())
    }
}

/// Whether an option of a view is on.
pub(crate) fn is_true(view: &View, option: &str) -> bool {
    let on = |value: &str| matches!(value, "true" | "on" | "yes" | "1");
    view.def.options.iter().any(|(name, value)| name == option && on(value))
}

impl Need {
    fn object(&self, catalog: &Catalog) -> Object {
        let kind = if catalog.sequence(self.relation).is_some() { Kind::Sequence } else { Kind::Table };
        Object::new(kind, self.relation)
    }

    fn is_met(&self, catalog: &Catalog) -> bool {
        let held = catalog.held(self.role, self.object(catalog), self.rights);
        let lacking = self.rights.without(held);
        if lacking.is_empty() {
            return true;
        }
        let by_column = BY_COLUMN.iter().fold(Rights::NONE, |all, right| all | *right);
        if !lacking.without(by_column).is_empty() {
            return false;
        }
        let mut rest = BY_COLUMN.iter().zip(&self.columns).filter(|(right, _)| lacking.has(**right));
        rest.all(|(right, columns)| has_columns(catalog, self.role, self.relation, *right, columns))
    }
}

/// Whether a role has a right to all these columns; to none: to any column.
fn has_columns(
    catalog: &Catalog,
    role: ObjectId,
    relation: ObjectId,
    right: Rights,
    columns: &BTreeSet<usize>,
) -> bool {
    let has = |at: usize| !catalog.held_of_column(role, relation, at, right).is_empty();
    match columns.is_empty() {
        true => catalog.has_any_column(role, relation, right),
        false => columns.iter().all(|at| has(*at)),
    }
}
