//! The tables that have not been dropped, by their numbers and by their names: a database may have a hundred thousand.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::{
    ids::TableId,
    table::{Family, TableParts},
};

/// Invariant: `by_name` leads from the name of each table in `by_id` to its number, and has no other name.
pub(super) struct LiveTables<F: Family> {
    by_id: BTreeMap<TableId, Arc<TableParts<F>>>,
    by_name: HashMap<Arc<str>, TableId>,
}

impl<F: Family> Default for LiveTables<F> {
    fn default() -> Self {
        Self { by_id: BTreeMap::new(), by_name: HashMap::new() }
    }
}

impl<F: Family> LiveTables<F> {
    pub(super) fn add(&mut self, table: Arc<TableParts<F>>) {
        let before = self.by_name.insert(table.name(), table.id);
        assert!(before.is_none(), "two tables are named {}", table.name());
        self.by_id.insert(table.id, table);
    }

    pub(super) fn remove(&mut self, table: &TableParts<F>) {
        self.by_name.remove(&table.name());
        self.by_id.remove(&table.id);
    }

    /// Renames a table. No other one has that name.
    pub(super) fn rename(&mut self, table: &TableParts<F>, name: &str) {
        self.by_name.remove(&table.name());
        table.rename(name);
        self.by_name.insert(table.name(), table.id);
    }

    pub(super) fn get(&self, id: TableId) -> Option<Arc<TableParts<F>>> {
        self.by_id.get(&id).cloned()
    }

    pub(super) fn named(&self, name: &str) -> Option<Arc<TableParts<F>>> {
        self.get(*self.by_name.get(name)?)
    }

    /// Returns all tables, in order of creation.
    pub(super) fn all(&self) -> Vec<Arc<TableParts<F>>> {
        self.by_id.values().cloned().collect()
    }
}
