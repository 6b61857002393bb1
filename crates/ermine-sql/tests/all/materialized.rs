//! Goal: a materialized view survives the end of its program, and its refreshes exclude or spare readers as they say.
//! Method: a database that is opened again; two sessions, interleaved by hand.

use std::sync::Arc;

use ermine::{Database, Options, Scheme};
use ermine_sql::{SqlDatabase, SqlState};

use crate::sessions::{ask, run};

const VIEWS: &str = "CREATE TABLE t (a integer, b integer); INSERT INTO t VALUES (1, 10), (2, 20);
    CREATE MATERIALIZED VIEW m AS SELECT a, b FROM t; CREATE UNIQUE INDEX m_a ON m (a) INCLUDE (b);
    CREATE MATERIALIZED VIEW n AS SELECT sum(b) FROM m WITH NO DATA";

#[test]
fn they_are_there_when_a_database_is_opened_again() {
    let directory = std::env::temp_dir().join(format!("ermine-materialized-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let open = || SqlDatabase::open(Arc::new(Database::open(&directory, Options::default()).unwrap())).unwrap();
    {
        let mut session = open().session("tester", "test");
        ask(&mut session, VIEWS);
        ask(&mut session, "INSERT INTO t VALUES (3, 30); REFRESH MATERIALIZED VIEW m");
        ask(&mut session, "BEGIN; DELETE FROM t; REFRESH MATERIALIZED VIEW m");
    }
    {
        let database = open();
        let mut session = database.session("tester", "test");
        assert_eq!(ask(&mut session, "SELECT a FROM m ORDER BY a"), ["1", "2", "3"]);
        assert_eq!(run(&mut session, "SELECT * FROM n"), Err(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE));
        assert_eq!(run(&mut session, "DROP TABLE t"), Err(SqlState::DEPENDENT_OBJECTS_STILL_EXIST));
        ask(&mut session, "REFRESH MATERIALIZED VIEW n; UPDATE t SET b = 0; REFRESH MATERIALIZED VIEW CONCURRENTLY m");
        let found = database.verify().unwrap();
        assert!(found.findings.is_empty(), "{:?}", found.findings);
    }
    let database = open();
    let mut session = database.session("tester", "test");
    assert_eq!(ask(&mut session, "SELECT * FROM n"), ["60"]);
    assert_eq!(ask(&mut session, "SELECT b FROM m WHERE a = 3"), ["0"]);
    ask(&mut session, "DROP TABLE t CASCADE");
    assert_eq!(run(&mut session, "SELECT * FROM m"), Err(SqlState::UNDEFINED_TABLE));
    std::fs::remove_dir_all(&directory).unwrap();
}

/// A refresh waits for the transactions that read the view; one with CONCURRENTLY waits for none, and none of them sees
/// its rows.
#[test]
fn readers_are_spared_if_the_statement_says_so() {
    let engine = Database::open_in_memory(Options::default().scheme(Scheme::SiSsn)).unwrap();
    let database = SqlDatabase::open(Arc::new(engine)).unwrap();
    let [mut reader, mut other] = [(); 2].map(|()| database.session("tester", "test"));
    ask(&mut reader, VIEWS);
    ask(&mut other, "SET lock_timeout = 1");
    ask(&mut reader, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    assert_eq!(ask(&mut reader, "SELECT sum(b) FROM m"), ["30"]);
    ask(&mut other, "UPDATE t SET b = b + 1");
    assert_eq!(run(&mut other, "REFRESH MATERIALIZED VIEW m"), Err(SqlState::LOCK_NOT_AVAILABLE));
    ask(&mut other, "REFRESH MATERIALIZED VIEW CONCURRENTLY m");
    assert_eq!(ask(&mut reader, "SELECT sum(b) FROM m"), ["30"]);
    ask(&mut reader, "COMMIT");
    assert_eq!(ask(&mut reader, "SELECT sum(b) FROM m"), ["32"]);
    ask(&mut other, "REFRESH MATERIALIZED VIEW m");
}

/// A transaction that drops a table, and does not know the view on it, does not pass the one that creates the view.
#[test]
fn a_view_and_what_it_uses_do_not_pass_each_other() {
    for scheme in [Scheme::SiSsn, Scheme::Si, Scheme::Silo] {
        let engine = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
        let database = SqlDatabase::open(Arc::new(engine)).unwrap();
        let [mut one, mut other] = [(); 2].map(|()| database.session("tester", "test"));
        ask(&mut one, "CREATE TABLE t (a integer); CREATE TABLE u (a integer)");
        ask(&mut other, "SET lock_timeout = 1; BEGIN; SELECT * FROM u");
        ask(&mut one, "BEGIN; CREATE MATERIALIZED VIEW m AS SELECT a FROM t WITH NO DATA");
        assert!(
            run(&mut database.session("tester", "test"), "SET lock_timeout = 1; DROP TABLE t").is_err(),
            "{scheme}"
        );
        ask(&mut one, "COMMIT");
        assert!(run(&mut other, "DROP TABLE t").is_err(), "{scheme}");
        ask(&mut one, "REFRESH MATERIALIZED VIEW m");
    }
}
