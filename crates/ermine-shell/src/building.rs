//! Progress of an index that a statement builds, on the standard error while it runs.
//!
//! The session is busy, so a second one of the same user reads `pg_stat_progress_create_index`, from a thread. It is
//! opened only for statements that take long.

use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use crate::statements::{Beside, Ends, Reply, Statements};

/// Time after which a statement takes long.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two reports.
const INTERVAL: Duration = Duration::from_millis(500);

/// Runs a text, and meanwhile shows the progress of an index that it builds: if it may build one, `is_told`, and the
/// standard error is a terminal.
pub fn run<T>(
    statements: &mut dyn Statements,
    text: &str,
    is_told: bool,
    run: impl FnOnce(&mut dyn Statements) -> T,
) -> T {
    if !is_told || !may_build(text) || !io::stderr().is_terminal() {
        return run(statements);
    }
    let beside = statements.beside();
    thread::scope(|scope| {
        let (running, ended) = mpsc::channel();
        scope.spawn(move || show(beside, &ended));
        let done = run(statements);
        drop(running);
        done
    })
}

/// Whether a text may build an index.
fn may_build(text: &str) -> bool {
    text.to_ascii_lowercase().contains("index")
}

/// Shows the progress in the last line of the terminal, until the statement has ended.
fn show(beside: Beside, ended: &Receiver<()>) {
    let goes_on = |time| ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
    if !goes_on(PATIENCE) {
        return;
    }
    let Beside { process, open } = beside;
    let Some(mut session) = open() else { return };
    let mut is_shown = false;
    loop {
        let report = report(&mut *session, process);
        if is_shown || report.is_some() {
            // A report that cannot be shown is not missed.
            let _ = write!(io::stderr(), "\r{}\x1b[K", report.as_deref().unwrap_or_default());
        }
        is_shown = report.is_some();
        if !goes_on(INTERVAL) {
            break;
        }
    }
    if is_shown {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
}

/// Returns how far the index is that a session builds, if it builds one.
fn report(session: &mut dyn Statements, process: i32) -> Option<String> {
    // A session without a connection has the number 0 itself, and none in the view.
    let text = format!(
        "SELECT phase, tuples_done, tuples_total FROM pg_catalog.pg_stat_progress_create_index
         WHERE pid IS NOT DISTINCT FROM nullif({process}, 0)"
    );
    let mut replies = Vec::new();
    session.run(&text, Ends { source: &mut io::empty(), sink: &mut io::sink() }, &mut replies).ok()?;
    let Some(Reply::Done { table: Some(table), .. }) = replies.pop() else { return None };
    let row = table.rows.first()?;
    let number = |at: usize| row.get(at)?.as_deref()?.parse::<u64>().ok();
    let phase = row.first()?.as_deref()?;
    Some(match (number(1), number(2)) {
        (Some(done), Some(total)) if done > 0 => format!("{phase}: {done} of about {total} rows"),
        _ => phase.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ermine_sql::SqlDatabase;

    use super::*;
    use crate::local::Local;

    /// A second session sees what the first one builds, and that it has ended.
    #[test]
    fn an_index_is_watched_from_beside() {
        let database = ermine::Database::open_in_memory(ermine::Options::default()).unwrap();
        let database = SqlDatabase::open(Arc::new(database)).unwrap();
        let local = || Local::new(&database, "ann", "shop", "memory");
        let run = |local: &mut dyn Statements, text| {
            let ends = Ends { source: &mut io::empty(), sink: &mut io::sink() };
            local.run(text, ends, &mut Vec::new()).unwrap();
        };
        let (mut builder, mut other) = (local(), local());
        run(&mut builder, "CREATE TABLE t (a int); INSERT INTO t VALUES (1)");
        run(&mut other, "BEGIN; UPDATE t SET a = 2");
        let Beside { process, open } = builder.beside();
        let mut session = open().unwrap();
        assert_eq!(report(&mut *session, process), None);
        let building = thread::spawn(move || {
            let ends = Ends { source: &mut io::empty(), sink: &mut io::sink() };
            builder.run("CREATE INDEX ON t (a)", ends, &mut Vec::new()).unwrap();
        });
        while report(&mut *session, process).as_deref() != Some("waiting for writers before build") {
            assert!(!building.is_finished());
            thread::yield_now();
        }
        run(&mut other, "COMMIT");
        building.join().unwrap();
        assert_eq!(report(&mut *session, process), None);
    }

    #[test]
    fn texts_that_may_build_an_index() {
        assert!(may_build("CREATE INDEX ON t (a)") && may_build("reindex table t") && !may_build("SELECT 1"));
    }
}
