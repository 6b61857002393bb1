//! The foreign keys that the writes of a statement concern, and the tables that their actions write.

use std::{collections::BTreeSet, sync::Arc};

use super::{Binder, write::Rules};
use crate::{
    catalog::{
        Catalog, Table,
        definition::{ForeignKeyDef, ObjectId, ReferentialAction},
    },
    error::{Result, SqlError, SqlState},
    expr::Expr,
    query::Path,
    types::{SqlType, Value},
};

/// A foreign key between two tables, with the ways to find rows by it.
pub(crate) struct Reference {
    pub(crate) def: Arc<ForeignKeyDef>,
    pub(crate) child: Arc<Table>,
    pub(crate) parent: Arc<Table>,
    /// The unique index of the parent, and for each of its columns the place among the columns of the foreign key.
    pub(crate) parent_path: (Path, Vec<usize>),
    /// The index of the child that begins with the columns of the foreign key, likewise; `None`: all rows have to be
    /// looked at.
    pub(crate) child_path: Option<(Path, Vec<usize>)>,
}

/// The tables that a statement writes, or may write by actions of foreign keys; the first is the one that it names.
pub(crate) struct References(pub(crate) Vec<Concerned>);

/// A table that a statement writes.
pub(crate) struct Concerned {
    pub(crate) table: Arc<Table>,
    pub(crate) rules: Rules,
    /// The defaults of all columns, where an action may set some.
    pub(crate) defaults: Vec<Expr>,
    /// Its own foreign keys.
    pub(crate) own: Vec<Arc<Reference>>,
    /// The foreign keys that refer to it, and the place of their table here if their actions write it.
    pub(crate) incoming: Vec<(Arc<Reference>, Option<usize>)>,
    /// The numbers of the columns that they refer to, ascending.
    pub(crate) referred: Vec<usize>,
}

impl Concerned {
    /// Returns the key by which a foreign key refers to a row, of which `values` are the columns that others refer to.
    pub(crate) fn key(&self, reference: &Reference, values: &[Value]) -> Vec<Value> {
        let place = |at: &usize| self.referred.binary_search(at).expect("others refer to it");
        reference.def.parent_columns.iter().map(|at| values[place(at)].clone()).collect()
    }
}

impl Reference {
    /// Finds the tables and indexes of a foreign key.
    pub(crate) fn new(catalog: &Catalog, def: &Arc<ForeignKeyDef>) -> Result<Self> {
        let missing = || {
            let message = format!("the tables of the foreign key \"{}\" are not there", def.name);
            SqlError::new(SqlState::INTERNAL_ERROR, message)
        };
        let table = |id: ObjectId| catalog.table(id).cloned().ok_or_else(missing);
        let (child, parent) = (table(def.child)?, table(def.parent)?);
        let parent_path = parent.def.unique_key(&def.parent_columns).ok_or_else(missing)?;
        let parent_path = (parent_path.0.map_or(Path::Primary, Path::Index), parent_path.1);
        let child_path = path_beginning_with(&child, &def.child_columns);
        Ok(Self { def: def.clone(), child, parent, parent_path, child_path })
    }

    /// Returns the key that a row of the child refers to, as values of the parent's columns; `None`: it refers to none
    /// because it has a NULL.
    pub(crate) fn referred(&self, row: &[Value]) -> Option<Vec<Option<Value>>> {
        let columns = self.def.child_columns.iter().zip(&self.def.parent_columns);
        let values = columns.map(|(own, other)| match &row[*own] {
            Value::Null => None,
            value => Some(converted(value, self.parent.types[*other])),
        });
        values.collect()
    }

    /// Whether a row of the child breaks MATCH FULL.
    pub(crate) fn is_mixed(&self, row: &[Value]) -> bool {
        let nulls = self.def.child_columns.iter().filter(|at| row[**at].is_null()).count();
        self.def.is_full && nulls > 0 && nulls < self.def.child_columns.len()
    }
}

/// Returns an index that begins with exactly these columns, in any order.
fn path_beginning_with(table: &Table, columns: &[usize]) -> Option<(Path, Vec<usize>)> {
    let begins = |own: Vec<usize>| -> Option<Vec<usize>> {
        let first = own.get(..columns.len())?;
        first.iter().map(|at| columns.iter().position(|own| own == at)).collect()
    };
    if let Some(places) = table.def.primary_key.as_ref().and_then(|key| begins(key.columns.clone())) {
        return Some((Path::Primary, places));
    }
    table.def.indexes.iter().enumerate().find_map(|(at, index)| {
        let is_usable = index.predicate.is_none() && table.def.is_complete(at);
        let places = begins(index.columns.iter().map(|column| column.0).collect()).filter(|_| is_usable)?;
        Some((Path::Index(at), places))
    })
}

/// Whether values of the two types can be compared as keys of a foreign key.
pub(crate) fn are_comparable(left: SqlType, right: SqlType) -> bool {
    let is_plain_text = |ty: SqlType| ty == SqlType::TEXT || ty == SqlType::VARCHAR;
    left == right || left.is_integer() && right.is_integer() || is_plain_text(left) && is_plain_text(right)
}

/// Returns a value as one of another type that is comparable; `None`: no value of that type is equal.
pub(crate) fn converted(value: &Value, ty: SqlType) -> Option<Value> {
    let number = match value {
        Value::Int2(number) => i64::from(*number),
        Value::Int4(number) => i64::from(*number),
        Value::Int8(number) => *number,
        other => return Some(other.clone()),
    };
    match ty {
        SqlType::INT2 => number.try_into().ok().map(Value::Int2),
        SqlType::INT4 => number.try_into().ok().map(Value::Int4),
        _ => Some(Value::Int8(number)),
    }
}

impl Binder<'_> {
    /// Returns the foreign keys that writes of a table concern; `None`: there are none.
    pub(crate) fn references(&mut self, table: &Arc<Table>) -> Result<Option<Arc<References>>> {
        if self.catalog.foreign_keys_at(table.def.id).next().is_none() {
            return Ok(None);
        }
        let mut written = vec![table.clone()];
        let mut all = Vec::new();
        while let Some(table) = written.get(all.len()).cloned() {
            let rules = self.rules(&table)?;
            let (mut own, mut incoming, mut sets_default) = (Vec::new(), Vec::new(), false);
            for def in self.catalog.foreign_keys_at(table.def.id) {
                let reference = Arc::new(Reference::new(self.catalog, def)?);
                for other in [&reference.child, &reference.parent] {
                    self.uses(other);
                }
                if def.parent == table.def.id {
                    let is_written = def.on_delete.writes() || def.on_update.writes();
                    let place = is_written.then(|| {
                        let known = written.iter().position(|known| known.def.id == def.child);
                        known.unwrap_or_else(|| {
                            written.push(reference.child.clone());
                            written.len() - 1
                        })
                    });
                    incoming.push((reference.clone(), place));
                }
                if def.child == table.def.id {
                    sets_default |= [def.on_delete, def.on_update].contains(&ReferentialAction::SetDefault);
                    own.push(reference);
                }
            }
            let mut defaults = Vec::new();
            if sets_default {
                let columns = 0..table.types.len();
                // The actions need no rights of the role.
                defaults = self.in_rules(|this| columns.map(|at| this.default_of(&table, at)).collect())?;
            }
            let referred = incoming.iter().flat_map(|(reference, _)| reference.def.parent_columns.iter().copied());
            let referred = referred.collect::<BTreeSet<_>>().into_iter().collect();
            all.push(Concerned { table, rules, defaults, own, incoming, referred });
        }
        Ok(Some(Arc::new(References(all))))
    }
}
