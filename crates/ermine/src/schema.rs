//! Changes of the schema, the same in both storage families: each is one durable transaction of the catalog.

use std::time::Duration;

use crate::{
    access::{
        Put,
        sealed::{Attempt as _, Operations as _},
    },
    begin::Begins,
    catalog::{CATALOG, DROPPED_NAME, IndexEntry, TableEntry},
    error::{Error, Result},
    ids::{IndexOrdinal, TableId},
    index_build::Builds,
    options::{Durability, TableOptions, TxnOptions},
    table::{Family, KeyOf},
    tables::{OpenTable, TableTypes, Tables},
};

/// An engine, as changes of its schema see it.
pub(crate) trait Schema: Begins + Sized {
    /// The storage family of its rows.
    type Family: Family;

    fn tables(&self) -> &Tables<Self::Family>;

    /// Whether writes are logged; otherwise there is no catalog.
    fn is_logged(&self) -> bool;

    /// Waits until everything that has been committed is durable.
    fn sync(&self) -> Result<()>;

    /// Opens the table of that name, and creates it when absent.
    fn open_table(&self, name: &str, types: &TableTypes, built: &TableOptions) -> Result<OpenTable> {
        self.tables().open(name, types, built, |entry| self.write_catalog(entry))
    }

    /// Opens the secondary index of that name, and builds it when absent.
    fn open_index(&self, table: TableId, entry: IndexEntry, key_of: KeyOf, wait_max: Duration) -> Result<IndexOrdinal>
    where
        Self: Builds,
    {
        self.tables().open_index(self, table, entry, key_of, wait_max)
    }

    /// Drops the table of that name; returns whether there was one.
    fn drop_table(&self, name: &str) -> Result<bool> {
        self.tables().drop_table(name, self.is_logged(), |table, dropped| {
            self.change_catalog(|txn| {
                txn.delete(CATALOG, table.name().as_bytes())?;
                txn.put(CATALOG, DROPPED_NAME.as_bytes(), &dropped.encode(), Put::Upsert).map(drop)
            })
        })
    }

    /// Renames a table.
    fn rename_table(&self, name: &str, new_name: &str) -> Result<()> {
        self.tables().rename_table(name, new_name, |entry, name| {
            self.change_catalog(|txn| {
                txn.delete(CATALOG, name.as_bytes())?;
                txn.put(CATALOG, entry.name.as_bytes(), &entry.encode(), Put::Insert).map(drop)
            })
        })
    }

    /// Writes a table's entry into the catalog.
    fn write_catalog(&self, entry: &TableEntry) -> Result<()> {
        self.change_catalog(|txn| txn.put(CATALOG, entry.name.as_bytes(), &entry.encode(), Put::Upsert).map(drop))
    }

    /// Changes the catalog, where there is one, in one transaction, which is durable when this returns.
    fn change_catalog(&self, change: impl Fn(&Self::Txn<'_>) -> Result<()>) -> Result<()> {
        if self.options().is_standby() {
            return Err(Error::Standby);
        }
        if !self.is_logged() {
            return Ok(());
        }
        let txn = self.begin(&TxnOptions::default().durability(Durability::Durable), true)?;
        change(&txn)?;
        drop(txn.commit_async()?);
        self.sync()
    }
}
