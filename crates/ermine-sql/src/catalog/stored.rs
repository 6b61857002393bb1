//! Definitions as bytes, with the database that has them.
//!
//! The form of a stored structure never changes, so that older databases open: what a table has beyond its first form
//! is stored beside it, and a table without such parts as ever.

use super::{
    MAIN_DATABASE,
    definition::{Definition, ObjectId, TableDef, TablePart},
};
use crate::error::{Result, SqlError, SqlState};

/// A definition that all databases share is stored as one of the first.
pub(super) fn encode(database: ObjectId, definition: &Definition) -> Result<Vec<u8>> {
    let bytes = match form_of(definition) {
        Some(form) if database == MAIN_DATABASE => postcard::to_stdvec(&form),
        None if database == MAIN_DATABASE || definition.is_shared() => postcard::to_stdvec(definition),
        form => {
            let form = form.unwrap_or_else(|| definition.clone());
            postcard::to_stdvec(&Definition::Of(database, Box::new(form)))
        }
    };
    bytes.map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, error.to_string()))
}

/// Returns the form in which a definition is stored, if it is not the definition itself.
fn form_of(definition: &Definition) -> Option<Definition> {
    let Definition::Table(def) = definition else { return None };
    let parts = parts_of(def);
    (!parts.is_empty()).then(|| Definition::TableWith(def.clone(), parts))
}

pub(crate) fn decode(bytes: &[u8]) -> Result<(ObjectId, Definition)> {
    let damaged = |_| {
        SqlError::new(SqlState::DATA_CORRUPTED, "the catalog has a definition that this version cannot read")
            .hint("Open the database with the version that wrote it.")
    };
    let (database, definition) = match postcard::from_bytes(bytes).map_err(damaged)? {
        Definition::Of(database, definition) => (database, *definition),
        definition => (MAIN_DATABASE, definition),
    };
    Ok(match definition {
        Definition::TableWith(def, parts) => (database, Definition::Table(with_parts(def, parts))),
        definition => (database, definition),
    })
}

fn parts_of(def: &TableDef) -> Vec<TablePart> {
    let key = def.primary_key.iter().map(|key| (key.id, &key.included));
    let all = key.chain(def.indexes.iter().map(|index| (index.id, &index.included)));
    let including = all.filter(|(_, included)| !included.is_empty());
    let including = including.map(|(id, included)| TablePart::Included(id, included.clone()));
    let materialized = def.materialized.iter().map(|part| TablePart::Materialized((**part).clone()));
    including.chain(materialized).collect()
}

fn with_parts(mut def: TableDef, parts: Vec<TablePart>) -> TableDef {
    for part in parts {
        match part {
            TablePart::Included(id, columns) => {
                let key = def.primary_key.iter_mut().map(|key| (key.id, &mut key.included));
                let mut all = key.chain(def.indexes.iter_mut().map(|index| (index.id, &mut index.included)));
                if let Some((_, included)) = all.find(|(own, _)| *own == id) {
                    *included = columns;
                }
            }
            TablePart::Materialized(part) => def.materialized = Some(Box::new(part)),
        }
    }
    def
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::definition::{ColumnDef, KeyDef};
    use crate::types::SqlType;

    fn table(included: Vec<usize>) -> Definition {
        let columns = ["id", "kind"].map(|name| ColumnDef::new(name.into(), SqlType::INT4, -1));
        Definition::Table(TableDef {
            id: 20000,
            schema: "public".into(),
            name: "parts".into(),
            columns: columns.into(),
            primary_key: Some(KeyDef { id: 20001, name: "parts_pkey".into(), columns: vec![0], included }),
            indexes: Vec::new(),
            checks: Vec::new(),
            relation_file: 20002,
            unfinished: None,
            materialized: None,
        })
    }

    #[test]
    fn a_table_is_stored_in_its_first_form_if_that_suffices() {
        let encoded = |definition| encode(MAIN_DATABASE, definition).unwrap();
        let plain = table(Vec::new());
        assert_eq!(encoded(&plain), postcard::to_stdvec(&plain).unwrap());
        let including = table(vec![1]);
        assert_ne!(encoded(&including), postcard::to_stdvec(&including).unwrap());
        for database in [MAIN_DATABASE, 20003] {
            for definition in [&plain, &including] {
                let decoded = decode(&encode(database, definition).unwrap()).unwrap();
                assert_eq!(decoded, (database, definition.clone()));
            }
        }
    }
}
