//! The rows of a transaction, with the definitions of its time.

use std::sync::Arc;

use ermine::{Change, RowWrite};

use super::{
    history::{History, ImageChange},
    no_publication,
};
use crate::{
    catalog::{
        definition::{ColumnDef, DefaultDef, ObjectId, TableDef},
        publication::{Kinds, has_identity},
        relation_files::file_of,
        row_of_definition, table_of_truncation,
    },
    error::{Result, SqlError, SqlState},
    exec::whole_row_of,
    key::read_key,
    types::{SqlType, Value, user_types::UserTypes},
};

/// A table as it is published.
#[derive(Clone, PartialEq, Debug)]
pub struct PublishedTable {
    /// The number of the table.
    pub oid: u32,
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its columns, without generated ones.
    pub columns: Vec<PublishedColumn>,
    /// Whether changes of its rows have keys.
    pub has_identity: bool,
}

/// A column of such a table.
#[derive(Clone, PartialEq, Debug)]
pub struct PublishedColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: SqlType,
    /// The modifier of the type; -1: none.
    pub modifier: i32,
    /// Whether it belongs to the key.
    pub is_key: bool,
}

/// A change that readers are sent.
#[derive(Clone, PartialEq, Debug)]
pub enum TableChange {
    /// A row of a table has changed, as the table was when the transaction committed.
    Row(Arc<PublishedTable>, RowChange),
    /// All rows of these tables were deleted.
    Truncate(Vec<Arc<PublishedTable>>),
}

/// A change of a row.
#[derive(Clone, PartialEq, Debug)]
pub enum RowChange {
    /// A row was inserted: its values.
    Insert(Vec<Value>),
    /// A row with the same key has these values now.
    Update(Vec<Value>),
    /// The row with this key was deleted: the values of the key, and NULL in other columns.
    Delete(Vec<Value>),
}

/// Decodes transactions, one after the other.
pub(super) struct Decoder {
    pub(super) history: History,
    publications: Vec<String>,
    catalog: u32,
    /// The table of the engine that was looked up last, and what is published of it.
    last: Option<(u32, Option<Shown>)>,
}

/// A table that is published.
struct Shown {
    def: Arc<TableDef>,
    types: Vec<SqlType>,
    table: Arc<PublishedTable>,
    kinds: Kinds,
    /// Whether it has unique columns beside the key.
    has_unique: bool,
}

impl Decoder {
    /// `catalog` is the engine's table of the catalog.
    pub(super) fn new(history: History, publications: Vec<String>, catalog: u32) -> Self {
        Self { history, publications, catalog, last: None }
    }

    /// Calls `each` with the published changes of a transaction, in order; returns its changes of definitions.
    ///
    /// A table that the transaction has emptied has another relation file since: it is shown as truncated, and then with
    /// all rows of the new file. One whose rows the transaction has written anew is not shown.
    ///
    /// A transaction has one change for each row, at the place of the first. So a row may get a value of a unique column
    /// before another row has lost it. Where that can be, rows are deleted first, and inserted with their new values.
    pub(super) fn decode(
        &mut self,
        changes: &[Change],
        each: &mut dyn FnMut(TableChange, &Arc<UserTypes>) -> Result<()>,
    ) -> Result<Vec<ImageChange>> {
        let definitions = self.definitions(changes)?;
        let emptied: Vec<_> = changes.iter().filter_map(|change| self.emptied(change)).collect();
        let (mut truncated, mut hidden) = (Vec::new(), Vec::new());
        for change in &definitions {
            let Some(id) = self.history.apply(change)? else { continue };
            if !emptied.contains(&id) {
                hidden.push(id);
            }
        }
        if !definitions.is_empty() {
            self.last = None;
        }
        for id in emptied {
            if let Some(def) = self.history.table(id).cloned()
                && self.kinds_of(&def)?.is_some_and(|kinds| kinds.truncate)
            {
                truncated.push(Arc::new(published(&def)));
            }
        }
        let types = self.history.user_types.clone();
        if !truncated.is_empty() {
            each(TableChange::Truncate(truncated), &types)?;
        }
        let split = self.tables_with_conflicts(changes)?;
        if !split.is_empty() {
            self.rows(changes, &hidden, &mut |shown, row| match row.write {
                RowWrite::Insert(_) => Ok(()),
                _ if !split.contains(&row.table.as_u32()) => Ok(()),
                _ => shown.deleted(row, &mut |change| each(change, &types)),
            })?;
        }
        self.rows(changes, &hidden, &mut |shown, row| {
            let change = match (split.contains(&row.table.as_u32()), &row.write) {
                (true, RowWrite::Delete) => None,
                (true, RowWrite::Update(bytes)) => shown.reinserted(bytes)?,
                _ => shown.change(row)?,
            };
            change.map_or(Ok(()), |change| each(TableChange::Row(shown.table.clone(), change), &types))
        })?;
        Ok(definitions)
    }

    /// Calls `each` with the changes of rows of published tables, but for hidden ones.
    fn rows(
        &mut self,
        changes: &[Change],
        hidden: &[ObjectId],
        each: &mut dyn FnMut(&Shown, &ermine::RowChange) -> Result<()>,
    ) -> Result<()> {
        for change in changes {
            if let Change::Row(row) = change
                && row.table.as_u32() != self.catalog
                && let Some(shown) = self.shown(row.table.as_u32())?
                && !hidden.contains(&shown.def.id)
            {
                each(shown, row)?;
            }
        }
        Ok(())
    }

    /// Returns the tables of the engine with other unique columns than the key, of which several rows have changed.
    fn tables_with_conflicts(&mut self, changes: &[Change]) -> Result<Vec<u32>> {
        let (mut once, mut found) = (Vec::new(), Vec::new());
        self.rows(changes, &[], &mut |shown, row| {
            let table = row.table.as_u32();
            if shown.has_unique && !found.contains(&table) {
                if once.contains(&table) { found.push(table) } else { once.push(table) }
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns the table that a change of the catalog notes as emptied.
    fn emptied(&self, change: &Change) -> Option<ObjectId> {
        match change {
            Change::Row(row) if row.table.as_u32() == self.catalog && row.write != RowWrite::Delete => {
                table_of_truncation(&row.key)
            }
            _ => None,
        }
    }

    /// Returns the changes of definitions that decoding needs.
    pub(super) fn definitions(&self, changes: &[Change]) -> Result<Vec<ImageChange>> {
        let mut definitions = Vec::new();
        for change in changes.iter().filter_map(|change| self.definition(change)) {
            if change.is_needed()? {
                definitions.push(change);
            }
        }
        Ok(definitions)
    }

    /// Returns a change of definitions.
    fn definition(&self, change: &Change) -> Option<ImageChange> {
        match change {
            Change::Row(row) if row.table.as_u32() == self.catalog => {
                let number = row_of_definition(&row.key)?;
                Some(ImageChange::Row(number, row.write.value().map(<[u8]>::to_vec)))
            }
            Change::TableCreated { table, name } => Some(ImageChange::File(table.as_u32(), Some(file_of(name)?))),
            Change::TableDropped { table, name } => file_of(name).map(|_| ImageChange::File(table.as_u32(), None)),
            _ => None,
        }
    }

    /// Returns the kinds of changes of a table that are published; `None`: the table is not published.
    fn kinds_of(&self, def: &TableDef) -> Result<Option<Kinds>> {
        let (schema, mut all) = (self.history.schema(&def.schema), None::<Kinds>);
        for name in &self.publications {
            let publication = self.history.publication(name).ok_or_else(|| no_publication(name))?;
            if publication.has(def, schema) {
                let (known, own) = (all.unwrap_or(publication.kinds), publication.kinds);
                all = Some(Kinds {
                    insert: known.insert || own.insert,
                    update: known.update || own.update,
                    delete: known.delete || own.delete,
                    truncate: known.truncate || own.truncate,
                });
            }
        }
        Ok(all)
    }

    /// Returns the published table whose rows a table of the engine has.
    fn shown(&mut self, engine_table: u32) -> Result<Option<&Shown>> {
        if self.last.as_ref().is_none_or(|(last, _)| *last != engine_table) {
            self.last = Some((engine_table, self.look_up(engine_table)?));
        }
        Ok(self.last.as_ref().and_then(|(_, shown)| shown.as_ref()))
    }

    fn look_up(&self, engine_table: u32) -> Result<Option<Shown>> {
        let Some(def) = self.history.table_of(engine_table).cloned() else { return Ok(None) };
        let Some(kinds) = self.kinds_of(&def)? else { return Ok(None) };
        let (types, table) = (def.types(), Arc::new(published(&def)));
        let has_unique = table.has_identity && def.indexes.iter().any(|index| index.is_unique);
        Ok(Some(Shown { def, types, table, kinds, has_unique }))
    }
}

impl Shown {
    /// Returns a change of a row, if its kind is published, and readers can tell the row.
    fn change(&self, row: &ermine::RowChange) -> Result<Option<RowChange>> {
        let has_identity = self.table.has_identity;
        Ok(match &row.write {
            RowWrite::Insert(bytes) if self.kinds.insert => Some(RowChange::Insert(self.row(bytes)?)),
            RowWrite::Update(bytes) if self.kinds.update && has_identity => Some(RowChange::Update(self.row(bytes)?)),
            RowWrite::Delete if self.kinds.delete && has_identity => Some(RowChange::Delete(self.key(&row.key)?)),
            _ => None,
        })
    }

    /// Shows the deletion of a row that was deleted, or is inserted with other values later.
    fn deleted(&self, row: &ermine::RowChange, each: &mut dyn FnMut(TableChange) -> Result<()>) -> Result<()> {
        let is_published = match row.write {
            RowWrite::Delete => self.kinds.delete,
            _ => self.kinds.update,
        };
        match is_published && self.table.has_identity {
            true => each(TableChange::Row(self.table.clone(), RowChange::Delete(self.key(&row.key)?))),
            false => Ok(()),
        }
    }

    /// Returns the second part of an update whose first part is a deletion.
    fn reinserted(&self, bytes: &[u8]) -> Result<Option<RowChange>> {
        match self.kinds.update && self.table.has_identity {
            true => Ok(Some(RowChange::Insert(self.row(bytes)?))),
            false => Ok(None),
        }
    }

    fn row(&self, bytes: &[u8]) -> Result<Vec<Value>> {
        let values = whole_row_of(&self.def, &self.types, bytes)?;
        let live = values.into_iter().zip(&self.def.columns).filter(|(_, column)| is_shown(column));
        Ok(live.map(|(value, _)| value).collect())
    }

    fn key(&self, mut key: &[u8]) -> Result<Vec<Value>> {
        let mut values = vec![Value::Null; self.def.columns.len()];
        for at in self.def.primary_key.iter().flat_map(|key| &key.columns) {
            values[*at] = read_key(self.types[*at], false, &mut key).ok_or_else(|| {
                let message = format!("a key of table \"{}\" in the log cannot be read", self.def.name);
                SqlError::new(SqlState::DATA_CORRUPTED, message)
            })?;
        }
        let live = values.into_iter().zip(&self.def.columns).filter(|(_, column)| is_shown(column));
        Ok(live.map(|(value, _)| value).collect())
    }
}

fn is_shown(column: &ColumnDef) -> bool {
    !column.is_dropped && !matches!(column.default, Some(DefaultDef::Generated(_)))
}

fn published(def: &TableDef) -> PublishedTable {
    let has_identity = has_identity(def);
    let is_key = |at: usize| has_identity && def.primary_key.as_ref().is_some_and(|key| key.columns.contains(&at));
    let shown = def.columns.iter().enumerate().filter(|(_, column)| is_shown(column));
    let column = |(at, column): (usize, &ColumnDef)| PublishedColumn {
        name: column.name.clone(),
        ty: column.ty,
        modifier: column.modifier,
        is_key: is_key(at),
    };
    PublishedTable {
        oid: def.id,
        schema: def.schema.clone(),
        name: def.name.clone(),
        columns: shown.map(column).collect(),
        has_identity,
    }
}
