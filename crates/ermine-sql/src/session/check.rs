//! Compares what is stored twice: rows with index entries, rows with those that they refer to, definitions with relation
//! files, views with what they refer to, roles with names.

use crate::{
    bind::{Binder, references::Reference},
    ddl::online::retried,
    error::Result,
    exec::{Run, check_references, check_table},
    session::{Session, Shared, SqlDatabase},
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
    /// definitions with relation files, names, rights and comments. No other session may change anything meanwhile.
    pub fn verify(&self) -> Result<SqlVerification> {
        let mut all = SqlVerification::default();
        for store in self.0.catalog.all_databases() {
            let found = self.of_store(store).begin("verify", "verify").verify()?;
            all.tables += found.tables;
            all.rows += found.rows;
            all.entries += found.entries;
            all.findings.extend(found.findings);
        }
        all.findings.extend(self.0.catalog.database_disagreements()?);
        Ok(all)
    }
}

impl Session {
    /// Returns the findings of [`SqlDatabase::verify`] in words: for tests.
    #[doc(hidden)]
    pub fn disagreements(&mut self) -> Result<Vec<String>> {
        Ok(self.verify()?.findings)
    }

    fn verify(&mut self) -> Result<SqlVerification> {
        let changes = self.change_context();
        let mut found = retried(changes.database, changes.environment, || {
            let active = changes.open_change()?;
            let environment = changes.environment;
            let run = Run::new(&active.txn, &active.catalog, &[], environment, changes.given);
            let mut found = SqlVerification::default();
            for table in active.catalog.tables() {
                let rules = Binder::new(&active.catalog, environment, changes.search_path, &[]).rules(table)?;
                let unfinished = table.def.unfinished.iter();
                found.findings.extend(unfinished.map(|what| format!("{}: {what:?} is not finished", table.name())));
                let checked = check_table(&run, table, &rules)?;
                found.tables += 1;
                found.rows += checked.rows;
                found.entries += checked.entries;
                found.findings.extend(checked.findings);
            }
            let rights = active.catalog.all_rights().filter(|rights| !active.catalog.has_rights_object(rights));
            found.findings.extend(rights.map(|rights| format!("rights to an object that is not there: {rights:?}")));
            let comments = active.catalog.comments().filter(|comment| !active.catalog.has_object(comment));
            found.findings.extend(comments.map(|of| format!("a comment on an object that is not there: {of:?}")));
            for view in active.catalog.views() {
                let mut binder = Binder::new(&active.catalog, environment, changes.search_path, &[]);
                if let Err(error) = binder.columns_of_view(view) {
                    found.findings.push(format!("view {}: {error}", view.def.name));
                }
            }
            for security in active.catalog.all_row_security() {
                let mut binder = Binder::new(&active.catalog, environment, changes.search_path, &[]);
                let failed = binder.check_policies(security).err();
                found.findings.extend(failed.map(|error| format!("policies of table {}: {error}", security.table)));
            }
            for key in active.catalog.foreign_keys().filter(|key| key.is_valid) {
                let reference = Reference::new(&active.catalog, key)?;
                if let Err(error) = check_references(&run, &reference) {
                    let detail = error.report().detail.as_deref().unwrap_or_default().to_owned();
                    found.findings.push(format!("{error}: {detail}"));
                }
            }
            drop(run);
            // The reads are valid only once this commit succeeds.
            drop(changes.commit_change(active)?);
            Ok(found)
        })?;
        found.findings.extend(self.storage_disagreements()?);
        found.findings.extend(self.role_disagreements()?);
        Ok(found)
    }

    /// Describes in words where definitions and free relation files disagree.
    fn storage_disagreements(&self) -> Result<Vec<String>> {
        let Shared { catalog, database, .. } = &*self.shared;
        let catalogs: Vec<_> = catalog.all_databases().iter().map(|store| store.current()).collect();
        let used = catalogs.iter().flat_map(|catalog| catalog.tables());
        let used = used.flat_map(|table| table.def.relation_files()).collect();
        catalog.relation_files.disagreements(database, &used)
    }

    /// Describes in words where definitions of roles and the taken names disagree.
    fn role_disagreements(&self) -> Result<Vec<String>> {
        self.shared.catalog.role_disagreements()
    }
}
