//! What the page shows, and what it does. All of it is SQL in the name of a user.

use ermine_sql::{Result, RowSet, Session};

use crate::status::STATUS;

/// Returns what the page shows.
pub(super) fn status(session: &mut Session) -> Result<String> {
    one(session, STATUS)
}

/// Cancels the statement of a connection, if there is one and the user may; returns whether there was.
pub(super) fn cancel(session: &mut Session, process: i32) -> Result<String> {
    one(session, &format!("SELECT json_build_object('cancelled', pg_cancel_backend({process}))"))
}

fn one(session: &mut Session, text: &str) -> Result<String> {
    let mut rows = RowSet::default();
    session.run(text, &mut rows)?;
    Ok(rows.texts().into_iter().flatten().next().unwrap_or_default())
}
