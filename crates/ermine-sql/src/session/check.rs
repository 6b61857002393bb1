//! Looks at whether what is kept twice agrees: for tests.

use crate::{
    bind::Binder,
    error::Result,
    exec::{Run, disagreement},
    session::Session,
};

impl Session {
    /// In words, what does not agree: entries of indexes with the rows of their tables, definitions with the storage that is free, and with
    /// names that are taken. Nobody
    /// changes anything meanwhile.
    #[doc(hidden)]
    pub fn disagreements(&mut self) -> Result<Vec<String>> {
        let mut found = self.retried(|session| {
            let open = session.open_change()?;
            let environment = session.environment();
            let run = Run::new(&open.txn, &open.catalog, &[], environment, session.given());
            let mut found = Vec::new();
            for table in open.catalog.tables() {
                let rules = Binder::new(&open.catalog, environment, session.search_path(), &[]).rules(table)?;
                found.extend(
                    table.def.unfinished.iter().map(|what| format!("{}: {what:?} is not finished", table.name())),
                );
                for (at, index) in table.def.indexes.iter().enumerate() {
                    let told = disagreement(&run, table, &rules, at)?;
                    found.extend(told.map(|told| format!("{}: {told}", index.name)));
                }
            }
            // What was read counts when that commits.
            drop(session.commit_change(open)?);
            Ok(found)
        })?;
        found.extend(self.storage_disagreements()?);
        found.extend(self.role_disagreements()?);
        Ok(found)
    }
}
