//! The rows that a transaction says it will touch, before it begins.

use std::sync::Arc;

use crate::{
    error::{Error, Result},
    handle::Table,
    ids::{DatabaseId, TableId},
    types::{AsKey, Key, KeyBuffer, Value},
};

/// The keys that a transaction will read and write, declared before it begins; the scheme `vll` locks them all at once.
///
/// Under `vll` a transaction that declares nothing runs alone; one that declares keys may touch only those
/// ([`crate::Error::Undeclared`]), and no ranges. Other schemes ignore the declaration.
///
/// ```
/// # use ermine::{AccessSet, Database, Error, Options, Scheme, TxnOptions};
/// # let db = Database::open_in_memory(Options::default().scheme(Scheme::Vll))?;
/// let accounts = db.table::<u64, i64>("accounts")?;
/// let declared = AccessSet::new().read(&accounts, &1).write(&accounts, &2);
/// db.run_with(TxnOptions::declared(declared), |txn| {
///     let first = txn.get(&accounts, &1)?.unwrap_or(0);
///     txn.put(&accounts, &2, &(first + 1))
/// })?;
/// # Ok::<_, Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct AccessSet {
    keys: Vec<DeclaredKey>,
    /// The database of the declared tables.
    database: Option<DatabaseId>,
    /// A table that belongs to another database than the first one.
    foreign: Option<Arc<str>>,
}

/// A declared key.
#[derive(Clone, Debug)]
pub(crate) struct DeclaredKey {
    pub(crate) table: TableId,
    pub(crate) key: KeyBuffer,
    pub(crate) writes: bool,
}

impl AccessSet {
    /// Creates an empty declaration.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key that will be read.
    pub fn read<K: Key, V: Value>(self, table: &Table<K, V>, key: &(impl AsKey<K> + ?Sized)) -> Self {
        self.with(table, key, false)
    }

    /// Adds a key that will be written, and perhaps read.
    pub fn write<K: Key, V: Value>(self, table: &Table<K, V>, key: &(impl AsKey<K> + ?Sized)) -> Self {
        self.with(table, key, true)
    }

    fn with<K: Key, V: Value>(mut self, table: &Table<K, V>, key: &(impl AsKey<K> + ?Sized), writes: bool) -> Self {
        let mut encoded = KeyBuffer::new();
        key.encode(&mut encoded);
        if self.database.get_or_insert_with(|| table.database().clone()) != table.database() {
            self.foreign.get_or_insert_with(|| table.name().into());
        }
        self.keys.push(DeclaredKey { table: table.id(), key: encoded, writes });
        self
    }

    /// Returns the keys, for a transaction of this database.
    pub(crate) fn keys(&self, database: &DatabaseId) -> Result<&[DeclaredKey]> {
        let name = match &self.foreign {
            Some(name) => &**name,
            None if self.database.as_ref().is_none_or(|own| own == database) => return Ok(&self.keys),
            None => "those declared",
        };
        Err(Error::Schema(format!("the access set declares keys of another open database (table {name})")))
    }
}
