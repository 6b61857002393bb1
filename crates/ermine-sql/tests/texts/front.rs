//! The properties of every text that is run as SQL: it ends in time, with a result or an error that is not an internal
//! one, and the session goes on.
//!
//! The fuzz target `sql` shares this file.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ermine::{Database, Options};
use ermine_sql::{Column, Result, RowSink, Session, SqlDatabase, SqlState, Status, types::Value};

/// The objects that the texts of the seeds and others may use.
const SCHEMA: &str = "
    CREATE TABLE t (id serial PRIMARY KEY, a integer, b text DEFAULT 'b', c numeric(12,3), d timestamptz, j jsonb, l \
    integer[], CHECK (a < 1000));
    CREATE UNIQUE INDEX t_b ON t (b, a DESC);
    CREATE INDEX t_c ON t (c) WHERE a > 3;
    CREATE TABLE u (k text PRIMARY KEY, v bigint NOT NULL);
    CREATE SEQUENCE s;
    INSERT INTO t (a, b, c, d, j, l)
        SELECT n, 'b' || n, n / 3.0, '2026-01-01'::timestamptz, '{\"n\": [1, null]}'::jsonb, ARRAY[n, NULL] FROM \
        generate_series(1, 30) AS n;
    INSERT INTO u SELECT 'k' || n, n FROM generate_series(1, 10) AS n";

/// The time limit of a statement, as the session is told; and that of a text, with time for binding and a slow machine.
const TIMEOUT: &str = "SET statement_timeout = 100";
const TEXT_MAX: Duration = Duration::from_secs(20);

/// A small database, and the number of texts that it has run: objects that they create are dropped now and then.
pub struct Front {
    database: SqlDatabase,
    /// Statements that create more than [`SCHEMA`]; some of them may fail.
    more: Vec<String>,
    texts: u32,
}

impl Front {
    pub fn new(more: Vec<String>) -> Self {
        let engine = Database::open_in_memory(Options::default()).unwrap();
        let database = SqlDatabase::open(Arc::new(engine)).unwrap();
        let mut session = database.session("ann", "shop");
        session.run(SCHEMA, &mut Discarded).unwrap();
        for statement in &more {
            let _ = session.run(statement, &mut Discarded);
        }
        Self { database, more, texts: 0 }
    }

    /// Runs a text as clients do: as it is, and prepared with parameters that are NULL.
    pub fn check(&mut self, text: &str) {
        self.texts += 1;
        if self.texts.is_multiple_of(100) {
            *self = Self::new(std::mem::take(&mut self.more));
        }
        let began = Instant::now();
        let mut session = self.database.session("ann", "shop");
        session.run(TIMEOUT, &mut Discarded).unwrap();
        settle(&mut session, text, |session| session.run(text, &mut Discarded));
        session.run(TIMEOUT, &mut Discarded).unwrap();
        settle(&mut session, text, |session| {
            let prepared = session.prepare(text, &[])?;
            let nulls = vec![Value::Null; prepared.parameters().len()];
            session.execute(&prepared, &nulls, &mut Discarded)?.wait()
        });
        assert!(began.elapsed() < TEXT_MAX, "{:?} for {text}", began.elapsed());
    }
}

/// Runs a text, checks its error, and checks that the session still works.
fn settle(session: &mut Session, text: &str, run: impl FnOnce(&mut Session) -> Result<()>) {
    if let Err(error) = run(session) {
        let state = error.state();
        assert!(state != SqlState::INTERNAL_ERROR && state.0.len() == 5, "{text}: {error}");
        assert!(!error.report().message.is_empty(), "{text}");
    }
    if session.status() != Status::Idle {
        session.run("ROLLBACK", &mut Discarded).unwrap();
    }
    assert_eq!(session.status(), Status::Idle, "{text}");
}

/// Discards all rows.
struct Discarded;

impl RowSink for Discarded {
    fn columns(&mut self, _: &[Column]) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, _: &[Value]) -> Result<()> {
        Ok(())
    }

    fn complete(&mut self, _: &str) -> Result<()> {
        Ok(())
    }

    fn take_back(&mut self) -> bool {
        true
    }
}
