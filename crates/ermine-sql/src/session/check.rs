//! Holds what is kept twice against each other: rows and entries of indexes, definitions and storage, roles and names.

use crate::{
    bind::Binder,
    error::Result,
    exec::{Run, check_table},
    session::{Session, SqlDatabase},
};

/// What was found when a database of SQL was verified.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SqlVerification {
    /// Tables.
    pub tables: u64,
    /// Rows of them, all of which were decoded.
    pub rows: u64,
    /// Entries of indexes, all of which were held against rows.
    pub entries: u64,
    /// In words, what is wrong; of much the first.
    pub findings: Vec<String>,
}

impl SqlDatabase {
    /// Decodes every row, holds the entries of all indexes against the rows and the rows against the entries, and definitions against
    /// storage and names. No other session may change anything meanwhile.
    pub fn verify(&self) -> Result<SqlVerification> {
        self.session("verify", "verify").verify()
    }
}

impl Session {
    /// In words, what [`SqlDatabase::verify`] finds: for tests.
    #[doc(hidden)]
    pub fn disagreements(&mut self) -> Result<Vec<String>> {
        Ok(self.verify()?.findings)
    }

    fn verify(&mut self) -> Result<SqlVerification> {
        let mut found = self.retried(|session| {
            let open = session.open_change()?;
            let environment = session.environment();
            let run = Run::new(&open.txn, &open.catalog, &[], environment, session.given());
            let mut found = SqlVerification::default();
            for table in open.catalog.tables() {
                let rules = Binder::new(&open.catalog, environment, session.search_path(), &[]).rules(table)?;
                let unfinished = table.def.unfinished.iter();
                found.findings.extend(unfinished.map(|what| format!("{}: {what:?} is not finished", table.name())));
                let checked = check_table(&run, table, &rules)?;
                found.tables += 1;
                found.rows += checked.rows;
                found.entries += checked.entries;
                found.findings.extend(checked.findings);
            }
            // What was read counts when that commits.
            drop(session.commit_change(open)?);
            Ok(found)
        })?;
        found.findings.extend(self.storage_disagreements()?);
        found.findings.extend(self.role_disagreements()?);
        Ok(found)
    }
}
