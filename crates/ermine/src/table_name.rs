//! The name of a table in an error, with what it takes to write the table's keys as values.
//!
//! An error has encoded keys, because a transaction that loses a conflict must not pay for words that its caller may
//! never read. The name brings the types of the table's keys along, at the cost of the reference that the name alone
//! would take; the key becomes text when the error is displayed.

use std::{borrow::Borrow, fmt, ops::Deref, sync::Arc};

#[cfg(not(loom))]
use crate::types::key_texts;

/// The name of a table, in an error. It is displayed and compared as a `str`.
#[derive(Clone)]
pub struct TableName(Arc<Label>);

struct Label {
    name: Arc<str>,
    key_type: Arc<str>,
    /// The names of the secondary indexes, and the types of their keys.
    indexes: Vec<(Arc<str>, Arc<str>)>,
}

impl TableName {
    pub(crate) fn new(name: &str, key_type: &str) -> Self {
        Self(Arc::new(Label { name: name.into(), key_type: key_type.into(), indexes: Vec::new() }))
    }

    /// Returns the name alone.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// Returns another name for the same table.
    pub(crate) fn renamed(&self, name: &str) -> Self {
        let Label { key_type, indexes, .. } = &*self.0;
        Self(Arc::new(Label { name: name.into(), key_type: key_type.clone(), indexes: indexes.clone() }))
    }

    /// Returns the name with the first `count` indexes that it has, and one more.
    pub(crate) fn with_index(&self, count: usize, added: Arc<str>, added_key_type: &str) -> Self {
        let Label { name, key_type, indexes } = &*self.0;
        let indexes = indexes.iter().take(count).cloned().chain([(added, added_key_type.into())]).collect();
        Self(Arc::new(Label { name: name.clone(), key_type: key_type.clone(), indexes }))
    }

    /// Returns a key of one index as text: of the primary index, or of the secondary index of that name.
    pub(crate) fn key_text(&self, index: Option<&str>, key: &[u8]) -> String {
        let secondary = |wanted: &str| self.0.indexes.iter().find(|(name, _)| **name == *wanted);
        let key_type = index.map_or(Some(&self.0.key_type), |name| secondary(name).map(|(_, key_type)| key_type));
        let text = key_type.and_then(|key_type| key_texts(&[&**key_type], key));
        text.unwrap_or_else(|| hexadecimal(key))
    }

    /// Returns a key as text that may be of any index of the table, or a whole entry of one: as bytes, if its types
    /// leave a choice between two texts.
    pub(crate) fn any_key_text(&self, key: &[u8]) -> String {
        let primary = &*self.0.key_type;
        let mut texts = vec![key_texts(&[primary], key)];
        for (_, key_type) in &self.0.indexes {
            texts.extend([key_texts(&[key_type], key), key_texts(&[key_type, primary], key)]);
        }
        let mut known = texts.into_iter().flatten();
        let first = known.next();
        first.filter(|first| known.all(|other| other == *first)).unwrap_or_else(|| hexadecimal(key))
    }
}

/// Under loom there are no types.
#[cfg(loom)]
fn key_texts(_types: &[&str], _key: &[u8]) -> Option<String> {
    None
}

/// Returns key bytes as hexadecimal digits.
pub(crate) fn hexadecimal(key: &[u8]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Deref for TableName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0.name
    }
}

impl Borrow<str> for TableName {
    fn borrow(&self) -> &str {
        self
    }
}

/// A name without the types of keys.
impl From<&str> for TableName {
    fn from(name: &str) -> Self {
        Self::new(name, "")
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Debug for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl PartialEq for TableName {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for TableName {}

impl PartialOrd for TableName {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TableName {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (**self).cmp(other)
    }
}

impl std::hash::Hash for TableName {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}
