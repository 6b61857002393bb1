//! Definitions as bytes.
//!
//! The form of a stored structure never changes, so that older databases open: what a table has beyond its first form
//! is stored beside it, and a table without such parts as ever.

use super::definition::{Definition, TableDef, TablePart};
use crate::error::{Result, SqlError, SqlState};

pub(super) fn encode(definition: &Definition) -> Result<Vec<u8>> {
    let bytes = match definition {
        Definition::Table(def) => match parts_of(def) {
            parts if parts.is_empty() => postcard::to_stdvec(definition),
            parts => postcard::to_stdvec(&Definition::TableWith(def.clone(), parts)),
        },
        definition => postcard::to_stdvec(definition),
    };
    bytes.map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, error.to_string()))
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Definition> {
    let damaged = |_| {
        SqlError::new(SqlState::DATA_CORRUPTED, "the catalog has a definition that this version cannot read")
            .hint("Open the database with the version that wrote it.")
    };
    Ok(match postcard::from_bytes(bytes).map_err(damaged)? {
        Definition::TableWith(def, parts) => Definition::Table(with_parts(def, parts)),
        definition => definition,
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
        let plain = table(Vec::new());
        assert_eq!(encode(&plain).unwrap(), postcard::to_stdvec(&plain).unwrap());
        assert_eq!(decode(&encode(&plain).unwrap()).unwrap(), plain);
        let including = table(vec![1]);
        assert_ne!(encode(&including).unwrap(), postcard::to_stdvec(&including).unwrap());
        assert_eq!(decode(&encode(&including).unwrap()).unwrap(), including);
    }
}
