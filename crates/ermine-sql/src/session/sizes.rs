//! The sizes of the tables for which the order of a plan's joins was chosen. Plans outlive them: a plan that was made for
//! an empty table would stay when the table has a million rows.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};

use crate::catalog::{Catalog, Table};

/// A plan is made again when a table has so many times the rows that it had, or that fraction of them.
const CHANGE: u64 = 10;
/// Tables below this size count as being of this size.
const ROWS_MIN: u64 = 1000;
/// After the first runs of a plan, one of so many looks at the sizes.
const LOOK_EVERY: u32 = 1024;

/// The sizes of a plan's tables when it was made; none if it joins nothing.
#[derive(Default)]
pub(super) struct Sizes {
    tables: Vec<(Arc<Table>, u64)>,
    /// Relaxed: they decide about speed only.
    runs: AtomicU32,
    have_changed: AtomicBool,
}

impl Sizes {
    pub(super) fn new(catalog: &Catalog, tables: &[Arc<Table>]) -> Self {
        let sizes = tables.iter().map(|table| (table.clone(), size(catalog, table)));
        let tables = if tables.len() > 1 { sizes.collect() } else { Vec::new() };
        Self { tables, ..Self::default() }
    }

    /// Whether the plan is still good. Called once a run; the sizes are compared in the runs whose numbers are powers of
    /// two, and then in one of 1024.
    pub(super) fn fit(&self, catalog: &Catalog) -> bool {
        if self.tables.is_empty() {
            return true;
        }
        let run = self.runs.fetch_add(1, Relaxed).wrapping_add(1);
        if (run.is_power_of_two() || run.is_multiple_of(LOOK_EVERY)) && !self.have_changed.load(Relaxed) {
            let differs = |(table, before): &(Arc<Table>, u64)| {
                let now = size(catalog, table);
                now / CHANGE >= *before || before / CHANGE >= now
            };
            self.have_changed.store(self.tables.iter().any(differs), Relaxed);
        }
        !self.have_changed.load(Relaxed)
    }
}

fn size(catalog: &Catalog, table: &Table) -> u64 {
    catalog.estimated_rows(table).max(ROWS_MIN)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ermine::{Database, Options};

    use super::Sizes;
    use crate::{catalog::CatalogStore, result::RowSet, session::SqlDatabase};

    #[test]
    fn a_plan_outlives_some_rows_but_not_many() {
        let engine = Arc::new(Database::open_in_memory(Options::default()).unwrap());
        let database = SqlDatabase::open(engine.clone()).unwrap();
        let mut session = database.session("tester", "test");
        let mut run = |text: &str| session.run(text, &mut RowSet::default()).unwrap();
        run("CREATE TABLE t (a int); CREATE TABLE u (b int)");
        let catalog = CatalogStore::open(engine).unwrap().current();
        let tables: Vec<_> = catalog.tables().into_iter().cloned().collect();
        let (both, one) = (Sizes::new(&catalog, &tables), Sizes::new(&catalog, &tables[..1]));
        run("INSERT INTO t SELECT generate_series(1, 900)");
        assert!((0..5).all(|_| both.fit(&catalog)));
        run("INSERT INTO t SELECT generate_series(1, 20000)");
        let fits: Vec<_> = (6..10).map(|_| both.fit(&catalog)).collect();
        // It looks in the eighth run, and does not look again.
        assert_eq!(fits, [true, true, false, false]);
        // A plan of one table has no order of joins.
        assert!((0..2000).all(|_| one.fit(&catalog)));
    }
}
