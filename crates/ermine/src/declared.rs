//! The rows that a transaction says it will touch, before it begins.

use crate::{
    handle::Table,
    ids::TableId,
    types::{AsKey, Key, KeyBuffer, Value},
};

/// The keys that a transaction will read and write, declared before it begins: what the scheme `vll` locks, all at once.
///
/// Under `vll` a transaction that declares nothing runs alone; one that does may touch what it has declared and nothing else
/// ([`crate::Error::Undeclared`]), and no ranges. Other schemes do not look at it.
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
}

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct DeclaredKey {
    pub(crate) table: TableId,
    pub(crate) key: KeyBuffer,
    pub(crate) writes: bool,
}

impl AccessSet {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a key that will be read.
    pub fn read<K: Key, V: Value>(self, table: &Table<K, V>, key: &(impl AsKey<K> + ?Sized)) -> Self {
        self.with(table, key, false)
    }

    /// With a key that will be written, and perhaps read.
    pub fn write<K: Key, V: Value>(self, table: &Table<K, V>, key: &(impl AsKey<K> + ?Sized)) -> Self {
        self.with(table, key, true)
    }

    fn with<K: Key, V: Value>(mut self, table: &Table<K, V>, key: &(impl AsKey<K> + ?Sized), writes: bool) -> Self {
        let mut encoded = KeyBuffer::new();
        key.encode(&mut encoded);
        self.keys.push(DeclaredKey { table: table.id(), key: encoded, writes });
        self
    }

    pub(crate) fn keys(&self) -> &[DeclaredKey] {
        &self.keys
    }
}
