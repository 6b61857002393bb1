//! Goal: errors about names and literals have the position that PostgreSQL 15 gives them, and errors in what the catalog stores, or
//! in a text that is not that of the statement, have none.
//! Method: statements with `^` before the place that PostgreSQL 15 reports.

use std::sync::Arc;

use ermine::{Database, Options};
use ermine_sql::{Report, RowSet, Session, SqlDatabase};

fn session() -> Session {
    let database = Database::open_in_memory(Options::default()).unwrap();
    let mut session = SqlDatabase::open(Arc::new(database)).unwrap().session("ann", "shop");
    let tables = "CREATE TABLE t (a int PRIMARY KEY, b text); CREATE TABLE t2 (a int, c int)";
    session.run(tables, &mut RowSet::default()).unwrap();
    session
}

fn failure(session: &mut Session, text: &str) -> Report {
    match session.run(text, &mut RowSet::default()) {
        Err(error) => error.report().clone(),
        Ok(()) => panic!("{text} succeeds"),
    }
}

#[test]
fn errors_have_their_places() {
    let mut session = session();
    let mut wrong = Vec::new();
    for (state, marked) in PLACED {
        let text = marked.replace('^', "");
        let wanted = marked.chars().position(|character| character == '^').map(|at| at + 1);
        let report = failure(&mut session, &text);
        if (report.state.0, report.position) != (state, wanted) {
            wrong.push(format!("{marked}: {:?} {}: {}", report.position, report.state.0, report.message));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Prepared statements have them, too.
#[test]
fn statements_that_cannot_be_prepared_have_places() {
    let mut session = session();
    let error = session.prepare("SELECT a\nFROM t\nWHERE nosuch = $1", &[]).err().unwrap();
    assert_eq!(error.report().position, Some(23));
}

#[test]
fn errors_in_other_texts_have_no_place() {
    let mut session = session();
    let run = |session: &mut Session, text: &str| session.run(text, &mut RowSet::default()).unwrap();
    assert_eq!(failure(&mut session, "DO $$ BEGIN PERFORM nosuch; END $$").position, None);
    run(&mut session, "PREPARE p AS SELECT c FROM t2; ALTER TABLE t2 RENAME c TO d");
    assert_eq!(failure(&mut session, "EXECUTE p").position, None);
    run(&mut session, "CREATE TABLE checked (a int CHECK (a > 1))");
    assert_eq!(failure(&mut session, "ALTER TABLE checked ALTER COLUMN a TYPE boolean USING true").position, None);
    assert_eq!(failure(&mut session, "COPY nosuch TO STDOUT").position, None);
    assert_eq!(failure(&mut session, "DROP TABLE nosuch").position, None);
}

#[rustfmt::skip]
const PLACED: [(&str, &str); 126] = [
    ("42703", "SELECT ^x"),
    ("42703", "SELECT ^t.x FROM t"),
    ("42703", "SELECT a, ^nosuch FROM t"),
    ("42P01", "SELECT ^u.a FROM t"),
    ("42P01", "SELECT ^t.a FROM t AS s"),
    ("42P01", "SELECT * FROM ^nosuch"),
    ("42P01", "SELECT * FROM ^public.nosuch"),
    ("42P01", "SELECT * FROM ^nosuch.t"),
    ("42P01", "SELECT * FROM t JOIN ^nosuch ON true"),
    ("42703", "SELECT * FROM t JOIN t2 ON t.a = ^t2.zz"),
    ("42702", "SELECT ^a FROM t, t2"),
    ("42702", "SELECT * FROM t, t2 WHERE ^a = 1"),
    ("42883", "SELECT ^nofunc(1)"),
    ("42883", "SELECT 1 + ^nofunc(a, b) FROM t"),
    ("42883", "SELECT ^lower(1)"),
    ("42883", "SELECT ^public.nofunc(1)"),
    ("3F000", "SELECT ^nosuch.nofunc(1)"),
    ("42883", "SELECT a ^|| 1 FROM t"),
    ("42883", "SELECT 1 ^+ true"),
    ("42883", "SELECT a ^+ b FROM t"),
    ("42883", "SELECT a   ^=   b FROM t"),
    ("42883", "SELECT * FROM t WHERE a ^= b AND a = 1"),
    ("42883", "SELECT ^- b FROM t"),
    ("42703", "SELECT NOT ^nosuch FROM t"),
    ("42704", "SELECT a::^nosuchtype FROM t"),
    ("42704", "SELECT CAST(a AS ^nosuchtype) FROM t"),
    ("42704", "SELECT ^nosuchtype 'x'"),
    ("42704", "SELECT a::^public.nosuchtype FROM t"),
    ("42883", "SELECT b ^LIKE a FROM t"),
    ("42883", "SELECT a ^NOT LIKE b FROM t"),
    ("42883", "SELECT a ^BETWEEN b AND 3 FROM t"),
    ("42883", "SELECT a ^IN (b, b) FROM t"),
    ("42809", "SELECT a ^= ANY (b) FROM t"),
    ("42883", "SELECT a ^IN (SELECT b FROM t) FROM t"),
    ("42703", "SELECT (SELECT ^nosuch FROM t)"),
    ("42703", "SELECT * FROM t ORDER BY ^nosuch"),
    ("42703", "SELECT * FROM t GROUP BY ^nosuch"),
    ("42703", "SELECT * FROM t WHERE ^nosuch = 1"),
    ("42703", "SELECT count(*) FROM t HAVING ^nosuch > 1"),
    ("42883", "SELECT ^sum(b) FROM t"),
    ("42703", "SELECT a FROM t LIMIT ^nosuch"),
    ("42P01", "INSERT INTO ^nosuch VALUES (1)"),
    ("42703", "INSERT INTO t (a, ^nosuch) VALUES (1, 2)"),
    ("42703", "INSERT INTO t VALUES (^nosuch)"),
    ("42883", "INSERT INTO t VALUES (1, 'x', ^nofunc(1))"),
    ("42P01", "UPDATE ^nosuch SET a = 1"),
    ("42703", "UPDATE t SET ^nosuch = 1"),
    ("42703", "UPDATE t SET a = ^nosuch"),
    ("42703", "UPDATE t SET a = 1 WHERE ^nosuch = 1"),
    ("42P01", "DELETE FROM ^nosuch"),
    ("42703", "DELETE FROM t WHERE ^nosuch = 1"),
    ("42P01", "DELETE FROM t USING ^nosuch"),
    ("42703", "INSERT INTO t VALUES (1) RETURNING ^nosuch"),
    ("42703", "INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET ^nosuch = 1"),
    ("42704", "CREATE TABLE n (a ^nosuchtype)"),
    ("42704", "CREATE TABLE n (a int, b ^nosuchtype DEFAULT 1)"),
    ("42703", "CREATE TABLE n (a int CHECK (^nosuch > 1))"),
    ("42704", "ALTER TABLE t ADD COLUMN c ^nosuchtype"),
    ("42883", "CREATE INDEX ON t (^nofunc(a))"),
    ("42883", "CREATE INDEX ON t ((a ^+ b))"),
    ("42703", "CREATE VIEW v AS SELECT ^nosuch FROM t"),
    ("42P01", "CREATE VIEW v AS SELECT * FROM ^nosuch"),
    ("42703", "COPY (SELECT ^nosuch FROM t) TO STDOUT"),
    ("42703", "EXPLAIN SELECT ^nosuch FROM t"),
    ("42703", "PREPARE p AS SELECT ^nosuch FROM t"),
    ("42703", "DECLARE c CURSOR FOR SELECT ^nosuch FROM t"),
    ("42703", "WITH w AS (SELECT ^nosuch FROM t) SELECT * FROM w"),
    ("42703", "WITH w AS (SELECT a FROM t) SELECT ^nosuch FROM w"),
    ("42883", "SELECT * FROM ^nosuchfunc(1)"),
    ("42703", "SELECT * FROM generate_series(1, ^nosuch)"),
    ("42703", "SELECT row_number() OVER (ORDER BY ^nosuch) FROM t"),
    ("42703", "SELECT CASE WHEN a = 1 THEN ^nosuch END FROM t"),
    ("42703", "SELECT coalesce(a, ^nosuch) FROM t"),
    ("42703", r#"SELECT ^"Nosuch" FROM t"#),
    ("42703", "SELECT 1; SELECT ^nosuch FROM t"),
    ("42703", "SELECT 'ä', ^nosuch FROM t"),
    ("42P01", "SELECT ^nosuch.* FROM t"),
    ("42P01", "MERGE INTO ^nosuch USING t ON true WHEN MATCHED THEN DELETE"),
    ("42703", "MERGE INTO t USING t2 ON t.a = ^nosuch WHEN MATCHED THEN DELETE"),
    ("42703", "SELECT a FROM t UNION SELECT ^nosuch FROM t"),
    ("42703", "VALUES (^nosuch)"),
    ("42P01", "TABLE ^nosuch"),
    ("42P01", "SELECT nextval(^'nosuch')"),
    ("42883", "SELECT a ^IS DISTINCT FROM b FROM t"),
    ("42883", "SELECT ^substring(a FROM 1) FROM t"),
    ("42883", "SELECT a ^~ b FROM t"),
    ("42704", "SELECT ARRAY[1]::^nosuchtype[]"),
    ("42703", "CREATE TABLE n AS SELECT ^nosuch FROM t"),
    ("22P02", "SELECT ^'abc'::int"),
    ("22P02", "SELECT CAST(^'1.5.2' AS numeric)"),
    ("22P02", "SELECT ^'{1,2'::int[]"),
    ("22007", "SELECT date ^'foo'"),
    ("22007", "SELECT interval ^'bla'"),
    ("22P02", "SELECT json ^'{'"),
    ("22P02", "SELECT * FROM t WHERE a = ^'abc'"),
    ("22P02", "SELECT * FROM t WHERE b = '-' AND a = ^'-'"),
    ("22P02", "SELECT coalesce(a, ^'x') FROM t"),
    ("22P02", "SELECT CASE WHEN true THEN a ELSE ^'x' END FROM t"),
    ("22P02", "SELECT a IN (1, ^'x') FROM t"),
    ("22P02", "SELECT abs(^'x')"),
    ("22P02", "SELECT ARRAY[1, ^'x']"),
    ("22P02", "SELECT 'x' LIMIT ^'a'"),
    ("22P02", "VALUES (1), (^'x')"),
    ("22P02", "INSERT INTO t VALUES (1, 'x'), (^'y', 'y')"),
    ("22P02", "INSERT INTO t (a) SELECT ^'zzz'"),
    ("22P02", "UPDATE t SET b = 'p', a = ^'q'"),
    ("22P02", "CREATE TABLE n (a int DEFAULT ^'x')"),
    ("22P02", "ALTER TABLE t ALTER a SET DEFAULT ^'x'"),
    ("42804", "UPDATE t SET a = ^b"),
    ("42804", "INSERT INTO t (a) VALUES (^'x'::text)"),
    ("42601", "INSERT INTO t (a) VALUES (1, ^2)"),
    ("42601", "INSERT INTO t (a, ^b) VALUES (1)"),
    ("42601", "SELECT (1, 2) ^= (1, 2, 3)"),
    ("42804", "SELECT ^a[1] FROM t"),
    ("42804", "SELECT 1 WHERE ^1"),
    ("42803", "SELECT ^a, count(*) FROM t GROUP BY b"),
    ("42803", "SELECT sum(a), 1 + ^t.a FROM t GROUP BY b"),
    ("42803", "SELECT ^b FROM t HAVING count(*) > 1"),
    ("42803", "SELECT b, (SELECT a FROM t2 LIMIT 1), ^t.a FROM t GROUP BY b"),
    ("42803", "SELECT b FROM t GROUP BY b ORDER BY ^a"),
    ("42803", "SELECT sum(^count(*)) FROM t"),
    ("42803", "SELECT a FROM t WHERE ^count(*) > 1"),
    ("42P20", "SELECT a FROM t WHERE ^row_number() OVER () > 1"),
    ("42P10", "SELECT 1 AS x GROUP BY ^2"),
    ("42P10", "SELECT a FROM t ORDER BY ^3"),
    ("42804", "CREATE TABLE n (a int DEFAULT 'x'::text)"),
];
