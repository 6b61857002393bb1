//! Typed handles of tables and secondary indexes: cheap to clone, valid for the database that gave them.

use std::{marker::PhantomData, sync::Arc};

use crate::{access::IndexOrdinal, ids::TableId};

/// A table with keys `K` and values `V`.
pub struct Table<K, V> {
    id: TableId,
    name: Arc<str>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Table<K, V> {
    pub(crate) fn new(id: TableId, name: Arc<str>) -> Self {
        Self { id, name, types: PhantomData }
    }

    /// The table's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn id(&self) -> TableId {
        self.id
    }
}

impl<K, V> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        Self::new(self.id, self.name.clone())
    }
}

/// A secondary index with keys `S` over a table with keys `K` and values `V`.
pub struct SecondaryIndex<S, K, V> {
    table: Table<K, V>,
    ordinal: IndexOrdinal,
    types: PhantomData<fn() -> S>,
}

impl<S, K, V> SecondaryIndex<S, K, V> {
    pub(crate) fn new(table: Table<K, V>, ordinal: IndexOrdinal) -> Self {
        Self { table, ordinal, types: PhantomData }
    }

    pub(crate) fn table(&self) -> &Table<K, V> {
        &self.table
    }

    pub(crate) fn ordinal(&self) -> IndexOrdinal {
        self.ordinal
    }
}

impl<S, K, V> Clone for SecondaryIndex<S, K, V> {
    fn clone(&self) -> Self {
        Self::new(self.table.clone(), self.ordinal)
    }
}
