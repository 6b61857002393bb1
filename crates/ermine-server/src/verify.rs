//! `ermined verify`.

use std::sync::Arc;

use ermine::Database;
use ermine_sql::SqlDatabase;

use crate::{Failure, arguments::Closed, failed, standard_output::Stdout};

/// Maximum number of findings that are printed one by one.
const FINDINGS_MAX: usize = 100;

pub fn verify(Closed { dir, engine }: &Closed) -> Result<(), Failure> {
    let files = ermine::verify(dir, &engine.options(), &mut |_| ()).map_err(failed)?;
    for finding in files.findings.iter().take(FINDINGS_MAX) {
        writeln!(Stdout, "{} at byte {}: {}", finding.file, finding.offset, finding.what)?;
    }
    files.not_checked.iter().try_for_each(|what| writeln!(Stdout, "not checked: {what}"))?;
    if !files.is_right() {
        writeln!(Stdout, "DAMAGED: {} findings in the files; rows of SQL were not looked at", files.wrong)?;
        return Err(Failure::Told);
    }
    // Nothing is changed: not even the end of the log is cut.
    let database = Arc::new(Database::open_to_look(dir, engine.options()).map_err(failed)?);
    let rows = SqlDatabase::open(database).and_then(|sql| sql.verify()).map_err(failed)?;
    rows.findings.iter().take(FINDINGS_MAX).try_for_each(|finding| writeln!(Stdout, "{finding}"))?;
    writeln!(
        Stdout,
        "{}: {} files, {} blocks; {} tables of SQL, {} rows, {} entries of indexes",
        if rows.findings.is_empty() { "nothing is wrong" } else { "DAMAGED" },
        files.files,
        files.blocks,
        rows.tables,
        rows.rows,
        rows.entries
    )?;
    if rows.findings.is_empty() { Ok(()) } else { Err(Failure::Told) }
}
