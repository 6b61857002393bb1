//! Tables and their indexes as rows of a table: the catalog, which is logged and recovered as every table is.
//!
//! Key: the table's name. Value: version of the format, number, name, names of the key's and the value's types, and the indexes in
//! order of creation with name, kind and key type; then, unless the table and its indexes are all B+-trees, what they are instead,
//! the table first. Numbers are varints, strings have their length in front.
//!
//! Types are known by their names without paths (`Account`, `(u32, String)`): renaming a module changes nothing, renaming a
//! type makes another schema of it.

use std::iter;

use crate::{
    database::Uniqueness,
    error::{Error, Result},
    ids::TableId,
    index::IndexKind,
    log::record::{put_number, take_number},
};

/// The catalog itself.
pub(crate) const CATALOG: TableId = TableId(0);

/// Its name, which no other table has.
pub(crate) const CATALOG_NAME: &str = "ermine.catalog";

const FORMAT: u64 = 1;

/// What is known of a table without its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableEntry {
    pub(crate) id: TableId,
    pub(crate) name: String,
    pub(crate) key_type: String,
    pub(crate) value_type: String,
    pub(crate) kind: IndexKind,
    pub(crate) indexes: Vec<IndexEntry>,
}

/// A secondary index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub(crate) name: String,
    pub(crate) uniqueness: Uniqueness,
    pub(crate) key_type: String,
    pub(crate) kind: IndexKind,
}

impl TableEntry {
    /// What the catalog would say of itself.
    pub(crate) fn of_catalog() -> Self {
        let (key_type, value_type) = ("name".into(), "entry".into());
        Self {
            id: CATALOG,
            name: CATALOG_NAME.into(),
            key_type,
            value_type,
            kind: IndexKind::BTree,
            indexes: Vec::new(),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_number(&mut out, FORMAT);
        put_number(&mut out, self.id.0.into());
        put_text(&mut out, &self.name);
        put_text(&mut out, &self.key_type);
        put_text(&mut out, &self.value_type);
        put_number(&mut out, self.indexes.len() as u64);
        for index in &self.indexes {
            put_text(&mut out, &index.name);
            put_number(&mut out, index.uniqueness.is_unique().into());
            put_text(&mut out, &index.key_type);
        }
        // Programs that know no other kind read the entry then.
        if self.kinds().any(|kind| kind != IndexKind::BTree) {
            self.kinds().for_each(|kind| put_number(&mut out, number_of(kind)));
        }
        out
    }

    /// What the table's index is, and what the secondary ones are.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = IndexKind> {
        iter::once(self.kind).chain(self.indexes.iter().map(|index| index.kind))
    }

    pub(crate) fn decode(mut bytes: &[u8]) -> Result<Self> {
        Self::read(&mut bytes).filter(|_| bytes.is_empty()).ok_or(Error::Decode { expected: "row of the catalog" })
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        if take_number(input)? != FORMAT {
            return None;
        }
        let id = TableId(u32::try_from(take_number(input)?).ok()?);
        let (name, key_type, value_type) = (take_text(input)?, take_text(input)?, take_text(input)?);
        // Their numbers begin with 1.
        let count = take_number(input).filter(|&count| count < u64::from(u16::MAX))?;
        let indexes = (0..count).map(|_| {
            let name = take_text(input)?;
            let uniqueness = if take_number(input)? != 0 { Uniqueness::Unique } else { Uniqueness::NonUnique };
            Some(IndexEntry { name, uniqueness, key_type: take_text(input)?, kind: IndexKind::BTree })
        });
        let mut entry =
            Self { id, name, key_type, value_type, kind: IndexKind::BTree, indexes: indexes.collect::<Option<_>>()? };
        if !input.is_empty() {
            entry.kind = take_kind(input)?;
            for index in &mut entry.indexes {
                index.kind = take_kind(input)?;
            }
        }
        Some(entry)
    }
}

fn number_of(kind: IndexKind) -> u64 {
    match kind {
        IndexKind::BTree => 0,
        IndexKind::Art => 1,
        IndexKind::Hash => 2,
    }
}

fn take_kind(input: &mut &[u8]) -> Option<IndexKind> {
    let number = take_number(input)?;
    [IndexKind::BTree, IndexKind::Art, IndexKind::Hash].into_iter().find(|&kind| number_of(kind) == number)
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn take_text(input: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(take_number(input)?).ok()?;
    let (text, rest) = input.split_at_checked(length)?;
    *input = rest;
    String::from_utf8(text.to_vec()).ok()
}

/// The name of a type without paths.
pub(crate) fn type_name<T>() -> String {
    let mut name = String::new();
    let mut word = String::new();
    for character in std::any::type_name::<T>().chars() {
        match character {
            ':' => word.clear(),
            _ if character.is_alphanumeric() || character == '_' => word.push(character),
            _ => {
                name.push_str(&std::mem::take(&mut word));
                name.push(character);
            }
        }
    }
    name + &word
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_entry_comes_back() {
        let index = IndexEntry {
            name: "by name".into(),
            uniqueness: Uniqueness::Unique,
            key_type: "String".into(),
            kind: IndexKind::BTree,
        };
        let entry = TableEntry {
            id: TableId(70_000),
            name: "accounts".into(),
            key_type: "u64".into(),
            value_type: "Account".into(),
            kind: IndexKind::BTree,
            indexes: vec![index.clone(), IndexEntry { uniqueness: Uniqueness::NonUnique, ..index }],
        };
        let bytes = entry.encode();
        assert_eq!(TableEntry::decode(&bytes).unwrap(), entry);
        for cut in 0..bytes.len() {
            assert!(TableEntry::decode(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn kinds_come_back_and_are_not_written_where_there_is_but_one() {
        let index = |kind| IndexEntry {
            name: "by name".into(),
            uniqueness: Uniqueness::Unique,
            key_type: "String".into(),
            kind,
        };
        let plain = TableEntry { indexes: vec![index(IndexKind::BTree)], ..TableEntry::of_catalog() };
        for (table, secondary) in [(IndexKind::Art, IndexKind::BTree), (IndexKind::Hash, IndexKind::Art)] {
            let entry = TableEntry { kind: table, indexes: vec![index(secondary)], ..TableEntry::of_catalog() };
            let bytes = entry.encode();
            assert_eq!(TableEntry::decode(&bytes).unwrap(), entry);
            assert_eq!(bytes[..bytes.len() - 2], plain.encode(), "kinds stand at the end");
            assert!(TableEntry::decode(&bytes[..bytes.len() - 1]).is_err());
            assert!(TableEntry::decode(&[&plain.encode()[..], &[9, 0]].concat()).is_err(), "no such kind");
        }
    }

    #[test]
    fn names_of_types_have_no_paths() {
        assert_eq!(type_name::<u64>(), "u64");
        assert_eq!(type_name::<(u32, String)>(), "(u32, String)");
        assert_eq!(type_name::<Vec<Option<TableEntry>>>(), "Vec<Option<TableEntry>>");
        assert_eq!(type_name::<[u8; 16]>(), "[u8; 16]");
    }
}
