//! Helpers that run statements in sessions.

use ermine_sql::{RowSet, Session, SqlState};

/// Returns the rows of a statement that succeeds, values between commas.
pub fn ask(session: &mut Session, statement: &str) -> Vec<String> {
    let mut rows = RowSet::default();
    match session.run(statement, &mut rows) {
        Ok(_) => rows.texts().iter().map(|row| row.join(",")).collect(),
        Err(error) => panic!("{statement}: {:?}", error.report()),
    }
}

/// Returns the rows of a statement, or the code of its error.
pub fn run(session: &mut Session, statement: &str) -> Result<Vec<String>, SqlState> {
    let mut rows = RowSet::default();
    session.run(statement, &mut rows).map_err(|error| error.state())?;
    Ok(rows.texts().iter().map(|row| row.join(",")).collect())
}
