//! The definitions of tables as of a position in the log.
//!
//! The catalog is a table like others: its changes are in the log, in order with those of rows. So a reader begins with
//! the catalog's rows as of its position, and applies the changes that it passes. These rows are kept with the slot,
//! because older ones are nowhere else: PostgreSQL keeps them in the catalog (`catalog_xmin`).

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::{
    catalog::{
        MAIN_DATABASE,
        definition::{Definition, ObjectId, TableDef},
        publication::PublicationDef,
        stored_definition,
    },
    error::Result,
    types::user_types::{UserType, UserTypes},
};

/// The rows of the catalog that decoding needs, and the tables of the engine, as of a position.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Image {
    /// Stored definitions, by their numbers.
    rows: BTreeMap<ObjectId, Vec<u8>>,
    /// The relation files, by the numbers of the engine's tables.
    files: BTreeMap<u32, ObjectId>,
}

/// A change of an [`Image`]; `None`: the entry is removed.
#[derive(Clone)]
pub(crate) enum ImageChange {
    Row(ObjectId, Option<Vec<u8>>),
    File(u32, Option<ObjectId>),
}

impl ImageChange {
    /// Whether decoding needs the change. The definitions of roles, with the verifiers of their passwords, are not kept.
    pub(crate) fn is_needed(&self) -> Result<bool> {
        match self {
            Self::Row(_, Some(bytes)) => History::needs(bytes),
            _ => Ok(true),
        }
    }
}

impl Image {
    pub(crate) fn apply(&mut self, change: ImageChange) {
        match change {
            ImageChange::Row(number, Some(bytes)) => _ = self.rows.insert(number, bytes),
            ImageChange::Row(number, None) => _ = self.rows.remove(&number),
            ImageChange::File(table, Some(file)) => _ = self.files.insert(table, file),
            ImageChange::File(table, None) => _ = self.files.remove(&table),
        }
    }

    fn into_changes(self) -> impl Iterator<Item = ImageChange> {
        let rows = self.rows.into_iter().map(|(number, bytes)| ImageChange::Row(number, Some(bytes)));
        rows.chain(self.files.into_iter().map(|(table, file)| ImageChange::File(table, Some(file))))
    }
}

/// The definitions as of a position.
#[derive(Default)]
pub(crate) struct History {
    schemas: HashMap<ObjectId, String>,
    tables: HashMap<ObjectId, Arc<TableDef>>,
    publications: HashMap<ObjectId, PublicationDef>,
    types: HashMap<ObjectId, UserType>,
    /// The same types, as texts of values need them.
    pub(crate) user_types: Arc<UserTypes>,
    /// The relation files, by the numbers of the engine's tables.
    files: HashMap<u32, ObjectId>,
    /// The tables of SQL, by their relation files.
    by_file: HashMap<ObjectId, ObjectId>,
}

impl History {
    pub(crate) fn new(image: Image) -> Result<Self> {
        let mut history = Self::default();
        for change in image.into_changes() {
            history.apply(&change)?;
        }
        Ok(history)
    }

    /// Whether a stored definition concerns decoding: others are not kept.
    pub(crate) fn needs(bytes: &[u8]) -> Result<bool> {
        let (database, definition) = stored_definition(bytes)?;
        Ok(database == MAIN_DATABASE
            && matches!(
                definition,
                Definition::Schema(_) | Definition::Table(_) | Definition::Publication(_) | Definition::Type(_)
            ))
    }

    /// Applies a change; returns the table that has another relation file since.
    pub(crate) fn apply(&mut self, change: &ImageChange) -> Result<Option<ObjectId>> {
        match change {
            ImageChange::File(table, Some(file)) => _ = self.files.insert(*table, *file),
            ImageChange::File(table, None) => _ = self.files.remove(table),
            ImageChange::Row(number, None) => {
                self.schemas.remove(number);
                self.publications.remove(number);
                if let Some(table) = self.tables.remove(number) {
                    self.by_file.remove(&table.relation_file);
                }
                if self.types.remove(number).is_some() {
                    Arc::make_mut(&mut self.user_types).remove(*number);
                }
            }
            ImageChange::Row(number, Some(bytes)) => match stored_definition(bytes)?.1 {
                Definition::Schema(schema) => _ = self.schemas.insert(*number, schema.name),
                Definition::Publication(publication) => _ = self.publications.insert(*number, publication),
                Definition::Type(ty) => {
                    let types = Arc::make_mut(&mut self.user_types);
                    types.remove(*number);
                    types.put(ty.clone());
                    self.types.insert(*number, ty);
                }
                Definition::Table(new) => return Ok(self.put_table(new)),
                _ => {}
            },
        }
        Ok(None)
    }

    fn put_table(&mut self, new: TableDef) -> Option<ObjectId> {
        let (id, file) = (new.id, new.relation_file);
        let old = self.tables.insert(id, Arc::new(new));
        self.by_file.insert(file, id);
        let old = old.filter(|old| old.relation_file != file)?;
        self.by_file.remove(&old.relation_file);
        Some(id)
    }

    /// Returns the table whose rows a table of the engine has.
    pub(crate) fn table_of(&self, engine_table: u32) -> Option<&Arc<TableDef>> {
        self.tables.get(self.by_file.get(self.files.get(&engine_table)?)?)
    }

    pub(crate) fn table(&self, id: ObjectId) -> Option<&Arc<TableDef>> {
        self.tables.get(&id)
    }

    pub(crate) fn publication(&self, name: &str) -> Option<&PublicationDef> {
        self.publications.values().find(|publication| publication.name == name)
    }

    pub(crate) fn schema(&self, name: &str) -> Option<ObjectId> {
        self.schemas.iter().find(|(_, own)| *own == name).map(|(id, _)| *id)
    }
}
