//! Compares what is stored twice: rows with index entries, definitions with storage, roles with names.

use crate::{
    bind::Binder,
    error::Result,
    exec::{Run, check_table},
    session::{Session, SqlDatabase},
};

/// Results of verifying a database of SQL.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SqlVerification {
    /// Tables.
    pub tables: u64,
    /// Rows of the tables; all of them were decoded.
    pub rows: u64,
    /// Entries of indexes; all of them were compared with rows.
    pub entries: u64,
    /// Findings in words; if there are many, only the first ones.
    pub findings: Vec<String>,
}

impl SqlDatabase {
    /// Decodes every row, compares the entries of all indexes with the rows and the rows with the entries, and the
    /// definitions with storage and names. No other session may change anything meanwhile.
    pub fn verify(&self) -> Result<SqlVerification> {
        self.session("verify", "verify").verify()
    }
}

impl Session {
    /// Returns the findings of [`SqlDatabase::verify`] in words: for tests.
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
            // The reads are valid only once this commit succeeds.
            drop(session.commit_change(open)?);
            Ok(found)
        })?;
        found.findings.extend(self.storage_disagreements()?);
        found.findings.extend(self.role_disagreements()?);
        Ok(found)
    }
}
