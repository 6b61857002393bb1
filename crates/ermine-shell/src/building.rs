//! Progress of an index that a statement builds, or of a backup, on the standard error while it runs.
//!
//! The session is busy, so a second one of the same user reads `pg_stat_progress_create_index` and
//! `pg_stat_progress_basebackup`, from a thread. It is opened only for statements that take long.

use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use crate::statements::{Beside, Ends, Reply, Statements};

/// Time after which a statement takes long.
const PATIENCE: Duration = Duration::from_millis(500);
/// Time between two reports.
const INTERVAL: Duration = Duration::from_millis(500);

/// Runs a text, and meanwhile shows the progress of what it builds: if it may build something, `is_told`, and the
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

/// Whether a text may build an index or a backup.
fn may_build(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    // ADD UNIQUE builds an index, too.
    ["index", "unique", "backup"].iter().any(|word| text.contains(word))
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

/// Returns how far the index or the backup is that a session makes, if it makes one.
fn report(session: &mut dyn Statements, process: i32) -> Option<String> {
    // A session without a connection has the number 0 itself, and none in the views.
    let text = format!(
        "SELECT phase, tuples_done, tuples_total, false FROM pg_catalog.pg_stat_progress_create_index
         WHERE pid IS NOT DISTINCT FROM nullif({process}, 0)
         UNION ALL SELECT phase, backup_streamed, backup_total, true FROM pg_catalog.pg_stat_progress_basebackup
         WHERE pid IS NOT DISTINCT FROM nullif({process}, 0)"
    );
    let mut replies = Vec::new();
    session.run(&text, Ends { source: &mut io::empty(), sink: &mut io::sink() }, &mut replies).ok()?;
    let Some(Reply::Done { table: Some(table), .. }) = replies.pop() else { return None };
    let row = table.rows.first()?;
    let value = |at: usize| row.get(at)?.as_deref();
    let number = |at: usize| value(at)?.parse::<u64>().ok();
    Some(line(value(0)?, number(1), number(2), value(3) == Some("t")))
}

/// Returns a phase, and how much of it is done: bytes or rows.
fn line(phase: &str, done: Option<u64>, total: Option<u64>, of_bytes: bool) -> String {
    let mebi = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    match (done, total) {
        (Some(done), Some(total)) if of_bytes => format!("{phase}: {:.1} of {:.1} MiB", mebi(done), mebi(total)),
        (Some(done), None) if of_bytes && done > 0 => format!("{phase}: {:.1} MiB", mebi(done)),
        (Some(done), Some(total)) if done > 0 => format!("{phase}: {done} of about {total} rows"),
        _ => phase.to_owned(),
    }
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
    fn texts_that_may_build_something() {
        for text in ["CREATE INDEX ON t (a)", "reindex table t", "ALTER TABLE t ADD UNIQUE (a)", "Backup to 'b'"] {
            assert!(may_build(text), "{text}");
        }
        assert!(!may_build("SELECT 1"));
    }

    #[test]
    fn phases_say_how_much_is_done() {
        for (done, total, of_bytes, wanted) in [
            (Some(5), Some(9), false, "a: 5 of about 9 rows"),
            (Some(0), Some(9), false, "a"),
            (Some(1 << 20), Some(5 << 19), true, "a: 1.0 of 2.5 MiB"),
            (Some(1 << 20), None, true, "a: 1.0 MiB"),
            (Some(0), None, true, "a"),
        ] {
            assert_eq!(line("a", done, total, of_bytes), wanted);
        }
    }
}
