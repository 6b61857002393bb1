//! Typed handles of tables and secondary indexes: cheap to clone, valid for the open database that created them.
//!
//! A handle carries the identity of its database, which every operation compares with the identity of the transaction's
//! database: one comparison of two words.

use std::{marker::PhantomData, sync::Arc};

use crate::{
    error::{Error, Result},
    ids::{DatabaseId, IndexOrdinal, TableId},
    types::Framing,
};

/// A table with keys `K` and values `V`.
///
/// It belongs to the open database that created it. Another database refuses it ([`Error::Schema`]); so does the same
/// directory when it is opened again.
pub struct Table<K, V> {
    id: TableId,
    framing: Framing,
    database: DatabaseId,
    name: Arc<str>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Table<K, V> {
    pub(crate) fn new(id: TableId, framing: Framing, database: DatabaseId, name: Arc<str>) -> Self {
        Self { id, framing, database, name, types: PhantomData }
    }

    /// Returns the table's name at the time when the handle was created.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the table's number, for a transaction of the open database at this address.
    #[inline]
    pub(crate) fn id_in(&self, database: usize) -> Result<TableId> {
        if self.database.address() == database { Ok(self.id) } else { Err(self.foreign()) }
    }

    #[cold]
    fn foreign(&self) -> Error {
        Error::Schema(format!(
            "the handle of table {} is of another open database: use the one that `Database::table` of this database \
             gives",
            self.name
        ))
    }

    /// Returns the number of the table, by which changes name it ([`crate::RowChange::table`]).
    pub fn id(&self) -> TableId {
        self.id
    }

    pub(crate) fn database(&self) -> &DatabaseId {
        &self.database
    }

    pub(crate) fn framing(&self) -> Framing {
        self.framing
    }
}

impl<K, V> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        Self::new(self.id, self.framing, self.database.clone(), self.name.clone())
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
