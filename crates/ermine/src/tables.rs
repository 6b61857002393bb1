//! The tables of a database, and how tables and indexes come into it.

use std::{any::TypeId, sync::Arc};

use crate::{
    access::IndexOrdinal,
    catalog::IndexEntry,
    epoch::Guard,
    error::{Error, Result},
    ids::TableId,
    index::Index,
    observer::Observer,
    options::{Options, TableOptions},
    platform::budget::Budget,
    sync::Mutex,
    table::{Family, KeyOf, Secondary, TableParts},
};

/// All tables, in order of creation.
pub(crate) struct Tables<F: Family> {
    list: boxcar::Vec<TableParts<F>>,
    options: Options,
    budget: Arc<Budget>,
    /// Held while tables and indexes are created.
    schema: Mutex<()>,
}

impl<F: Family> Tables<F> {
    pub(crate) fn new(options: &Options, budget: Arc<Budget>) -> Self {
        Self { list: boxcar::Vec::new(), options: options.clone(), budget, schema: Mutex::new(()) }
    }

    /// A table by its number.
    #[inline]
    pub(crate) fn get(&self, id: TableId) -> &TableParts<F> {
        self.list.get(id.0 as usize).expect("a table handle is used with the database that gave it")
    }

    /// A table by its number, if there is one.
    pub(crate) fn find(&self, id: TableId) -> Option<&TableParts<F>> {
        self.list.get(id.0 as usize)
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &TableParts<F>> {
        self.list.iter().map(|(_, table)| table)
    }

    /// Adds a table. One caller at a time.
    pub(crate) fn push(&self, table: TableParts<F>) {
        if let Some(observer) = self.observer() {
            observer.table(table.id, &table.name);
        }
        self.list.push(table);
    }

    fn observer(&self) -> Option<&dyn Observer> {
        self.options.observer.as_deref()
    }

    /// The table of that name, created when absent; `write_down` is asked first.
    pub(crate) fn open(
        &self,
        name: &str,
        types: [TypeId; 2],
        type_names: [String; 2],
        built: &TableOptions,
        write_down: impl FnOnce(&TableParts<F>) -> Result<()>,
    ) -> Result<(TableId, Arc<str>)> {
        let _schema = self.schema.lock().expect("no code panics while it changes the schema");
        let table = match self.iter().find(|table| &*table.name == name) {
            Some(table) => table,
            None => {
                let id = TableId(self.list.count() as u32);
                let table = TableParts::new(id, name, type_names.clone(), built.index, &self.options, &self.budget);
                write_down(&table)?;
                self.push(table);
                self.get(id)
            }
        };
        if table.type_names != type_names || *table.types.get_or_init(|| types) != types {
            let [key, value] = &table.type_names;
            return Err(Error::Schema(format!("table {name} exists with keys {key} and values {value}")));
        }
        if let Some(partition) = &built.partition {
            // The first one said counts, as for key functions.
            table.partition.get_or_init(|| partition.clone());
        }
        if built.is_essential {
            table.be_essential();
        }
        if table.primary.kind() != built.index {
            let kind = table.primary.kind();
            return Err(Error::Schema(format!("table {name} exists with an index of kind {kind:?}")));
        }
        Ok((table.id, table.name.clone()))
    }

    /// The secondary index of that name, created when absent; `write_down` is asked first.
    pub(crate) fn open_index(
        &self,
        table: TableId,
        entry: IndexEntry,
        key_of: KeyOf,
        write_down: impl FnOnce(&TableParts<F>, &IndexEntry) -> Result<()>,
    ) -> Result<IndexOrdinal> {
        let _schema = self.schema.lock().expect("no code panics while it changes the schema");
        let table = self.get(table);
        let (key_type, index) = (key_of.key_type, &entry.name);
        if let Some((ordinal, existing)) = table.secondaries().find(|(_, existing)| *existing.name == **index) {
            if existing.entry() != entry || table.attach(ordinal, key_of) != key_type {
                let table = &table.name;
                return Err(Error::Schema(format!("index {index} of table {table} exists with another key or kind")));
            }
            return Ok(ordinal);
        }
        if !entry.kind.is_ordered() {
            let table = &table.name;
            return Err(Error::Schema(format!(
                "index {index} of table {table}: rows are found by the front of its entries, which a hash index cannot do; use \
                 another kind"
            )));
        }
        if table.rows.bytes() > 0 {
            let table = &table.name;
            return Err(Error::Schema(format!(
                "index {index} cannot be added: table {table} has had rows; create indexes before the first insert"
            )));
        }
        write_down(table, &entry)?;
        table.add_secondary(Secondary::new(&entry, Index::new(entry.kind), Some(key_of)))
    }

    /// Bytes of all indexes. Walks over them.
    pub(crate) fn index_bytes(&self, nodes: &Guard<'_>) -> u64 {
        self.iter().map(|table| table.index_bytes(nodes)).sum()
    }

    /// Bytes of the indirection arrays in use.
    pub(crate) fn row_bytes(&self) -> u64 {
        self.iter().map(|table| table.rows.bytes()).sum()
    }
}
