//! Goal: an index on an expression has the entries of its rows, also when the database is opened again, and what is
//! read through it is tracked.
//! Method: the verification of all entries after statements of every kind; interleavings of two sessions.

use std::sync::Arc;

use ermine::{Database, Options, Scheme};
use ermine_sql::{SqlDatabase, SqlState};

use crate::sessions::{ask, run};

const TABLE: &str = "CREATE TABLE t (id integer PRIMARY KEY, email text, a integer);
    INSERT INTO t SELECT g, 'Name' || g, g FROM generate_series(1, 300) g";

fn open(scheme: Scheme) -> (Arc<Database>, SqlDatabase) {
    let engine = Arc::new(Database::open_in_memory(Options::default().scheme(scheme)).unwrap());
    let database = SqlDatabase::open(engine.clone()).unwrap();
    (engine, database)
}

/// Returns the number of entries, after comparing them with the rows.
fn entries(database: &SqlDatabase) -> u64 {
    let found = database.verify().unwrap();
    assert!(found.findings.is_empty(), "{:?}", found.findings);
    found.entries
}

#[test]
fn entries_are_those_of_the_rows_also_after_reopening() {
    for scheme in [Scheme::SiSsn, Scheme::Silo, Scheme::Si, Scheme::Rc] {
        let (engine, database) = open(scheme);
        let mut session = database.session("tester", "test");
        ask(&mut session, TABLE);
        ask(&mut session, "CREATE UNIQUE INDEX one ON t (lower(email)); CREATE INDEX two ON t ((a % 7) DESC, (-id))");
        assert_eq!(entries(&database), 600, "{scheme}");
        let reopened = SqlDatabase::open(engine).unwrap();
        let mut session = reopened.session("tester", "test");
        for statement in [
            "UPDATE t SET email = upper(email), a = a + 1 WHERE id % 2 = 0",
            "UPDATE t SET id = id + 1000 WHERE id < 20",
            "INSERT INTO t VALUES (9000, 'name7') ON CONFLICT (lower(email)) DO UPDATE SET a = -1",
            "DELETE FROM t WHERE lower(email) = 'name8'",
            "INSERT INTO t VALUES (9001)",
            "ALTER TABLE t ADD COLUMN more integer DEFAULT 3",
            "ALTER TABLE t RENAME COLUMN a TO b",
        ] {
            ask(&mut session, statement);
            let rows = ask(&mut session, "SELECT 2 * count(*) FROM t");
            assert_eq!(vec![entries(&reopened).to_string()], rows, "{scheme}: {statement}");
        }
        assert_eq!(ask(&mut session, "SELECT id, b FROM t WHERE lower(email) = 'name7'"), ["1007,-1"], "{scheme}");
        let plan = ask(&mut session, "EXPLAIN SELECT id FROM t WHERE lower(email) = 'name7'");
        assert!(plan[0].contains("using one"), "{plan:?}");
        assert_eq!(run(&mut session, "INSERT INTO t VALUES (1, 'NAME9')"), Err(SqlState::UNIQUE_VIOLATION));
        ask(&mut session, "ALTER TABLE t DROP COLUMN b");
        assert_eq!(entries(&reopened), 300, "{scheme}");
    }
}

/// Of two transactions that each look for a value and insert one that the other has looked for, one loses.
#[test]
fn look_ups_are_tracked() {
    for scheme in [Scheme::SiSsn, Scheme::Silo] {
        let (_, database) = open(scheme);
        let [mut one, mut two] = ["one", "two"].map(|name| database.session(name, "test"));
        ask(&mut one, TABLE);
        ask(&mut one, "CREATE INDEX ON t (lower(email))");
        for session in [&mut one, &mut two] {
            ask(session, "BEGIN ISOLATION LEVEL SERIALIZABLE");
            assert!(ask(session, "SELECT id FROM t WHERE lower(email) = 'new'").is_empty());
        }
        let first = run(&mut one, "INSERT INTO t VALUES (1001, 'New'); COMMIT");
        let second = run(&mut two, "INSERT INTO t VALUES (1002, 'NEW'); COMMIT");
        assert!(first.is_ok() != second.is_ok(), "{scheme}: {first:?} {second:?}");
    }
}

/// Prepared statements look up values of parameters, and see an index that came, or went, since.
#[test]
fn prepared_statements_use_it_as_long_as_it_is_there() {
    let (_, database) = open(Scheme::SiSsn);
    let mut session = database.session("tester", "test");
    ask(&mut session, TABLE);
    ask(&mut session, "PREPARE p (text) AS SELECT id FROM t WHERE lower(email) = $1");
    for change in ["SELECT 1", "CREATE INDEX i ON t (lower(email))", "DROP INDEX i", "CREATE INDEX j ON t ((a + 1))"] {
        ask(&mut session, change);
        assert_eq!(ask(&mut session, "EXECUTE p ('name5')"), ["5"], "{change}");
    }
    assert_eq!(ask(&mut session, "SELECT id FROM t WHERE a + 1 = 8"), ["7"]);
}
