//! Goal: comments, types of columns and generated columns are what the last transaction made of them, also of several
//! at the same time, and after the database was closed.
//! Method: interleavings of two sessions under schemes of every kind; a database that is opened again.

use std::sync::Arc;

use ermine::{Database, Options, Scheme};
use ermine_sql::{SqlDatabase, SqlState};

use crate::sessions::{ask, run};

fn open(scheme: Scheme) -> SqlDatabase {
    SqlDatabase::open(Arc::new(Database::open_in_memory(Options::default().scheme(scheme)).unwrap())).unwrap()
}

fn schemes() -> impl Iterator<Item = Scheme> {
    Scheme::ALL.into_iter().filter(|scheme| SqlDatabase::serves(*scheme))
}

#[test]
fn an_object_has_one_comment_whatever_runs_at_the_same_time() {
    for scheme in schemes() {
        let database = open(scheme);
        let [mut one, mut other] = [(); 2].map(|()| database.session("ann", "shop"));
        run(&mut one, "CREATE TABLE t (a integer)").unwrap();
        for text in ["'first'", "'second'", "NULL", "'third'"] {
            run(&mut one, "SET lock_timeout = '100ms'").unwrap();
            run(&mut other, "SET lock_timeout = '100ms'").unwrap();
            run(&mut one, "BEGIN").unwrap();
            run(&mut other, "BEGIN").unwrap();
            let done = run(&mut one, &format!("COMMENT ON TABLE t IS {text}"));
            let also = run(&mut other, "COMMENT ON TABLE t IS 'other'");
            let done = done.and_then(|_| run(&mut one, "COMMIT"));
            let also = also.and_then(|_| run(&mut other, "COMMIT"));
            assert!(done.is_ok() || also.is_ok(), "{scheme} {text}: {done:?} {also:?}");
            for lost in [done, also].into_iter().filter_map(Result::err) {
                let expected = [SqlState::SERIALIZATION_FAILURE, SqlState::LOCK_NOT_AVAILABLE];
                assert!(expected.contains(&lost), "{scheme} {text}: {lost:?}");
            }
            let _ = (run(&mut one, "ROLLBACK"), run(&mut other, "ROLLBACK"));
            let rows = ask(&mut one, "SELECT count(*) FROM pg_description WHERE objoid = 't'::regclass");
            assert!(rows == ["0"] || rows == ["1"], "{scheme} {text}: {rows:?}");
        }
    }
}

/// A comment keeps its table from being changed, but none of its users waits.
#[test]
fn a_comment_waits_for_changes_of_its_table_only() {
    let database = open(Scheme::SiSsn);
    let [mut one, mut other] = [(); 2].map(|()| database.session("ann", "shop"));
    run(&mut one, "CREATE TABLE t (a integer)").unwrap();
    run(&mut other, "SET lock_timeout = '50ms'").unwrap();
    run(&mut one, "BEGIN").unwrap();
    run(&mut one, "INSERT INTO t VALUES (1)").unwrap();
    run(&mut other, "COMMENT ON TABLE t IS 'in use'").unwrap();
    run(&mut one, "COMMIT").unwrap();
    run(&mut one, "BEGIN").unwrap();
    run(&mut one, "ALTER TABLE t ALTER COLUMN a TYPE bigint").unwrap();
    assert_eq!(run(&mut other, "COMMENT ON TABLE t IS 'changed'").err(), Some(SqlState::LOCK_NOT_AVAILABLE));
    run(&mut one, "COMMIT").unwrap();
    run(&mut other, "COMMENT ON TABLE t IS 'changed'").unwrap();
    assert_eq!(ask(&mut one, "SELECT obj_description('t'::regclass)"), ["changed"]);
}

#[test]
fn they_are_the_same_when_the_database_is_opened_again() {
    let path = std::env::temp_dir().join(format!("ermine-sql-objects-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let open = || SqlDatabase::open(Arc::new(Database::open(&path, Options::default()).unwrap())).unwrap();
    {
        let mut session = open().session("ann", "shop");
        for text in [
            "CREATE TABLE t (id integer PRIMARY KEY, a text UNIQUE, twice integer GENERATED ALWAYS AS (id * 2) STORED)",
            "INSERT INTO t VALUES (1, '10'), (2, '20')",
            "ALTER TABLE t ALTER COLUMN a TYPE integer USING a::integer + id",
            "ALTER TABLE t ADD COLUMN n serial",
            "ALTER TABLE t ADD CONSTRAINT positive CHECK (id > 0)",
            "COMMENT ON CONSTRAINT positive ON t IS 'no zero'",
            "COMMENT ON COLUMN t.a IS 'was a text'",
            "COMMENT ON TABLE t IS 'gone'",
            "COMMENT ON TABLE t IS NULL",
        ] {
            run(&mut session, text).unwrap();
        }
    }
    let database = open();
    let mut session = database.session("ann", "shop");
    assert_eq!(ask(&mut session, "SELECT id, a, twice, n FROM t WHERE a = 11"), ["1,11,2,1"]);
    assert_eq!(run(&mut session, "INSERT INTO t VALUES (3, 22)").err(), Some(SqlState::UNIQUE_VIOLATION));
    assert_eq!(ask(&mut session, "INSERT INTO t VALUES (3, 30) RETURNING twice, n > 2"), ["6,t"]);
    let comments = "SELECT description FROM pg_description WHERE description <> 'standard public schema' ORDER BY 1";
    assert_eq!(ask(&mut session, comments), ["no zero", "was a text"]);
    run(&mut session, "DROP TABLE t").unwrap();
    assert_eq!(ask(&mut session, comments), [""; 0]);
    drop((session, database));
    std::fs::remove_dir_all(&path).unwrap();
}
