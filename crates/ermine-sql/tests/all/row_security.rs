//! Goal: no statement sees, changes or tells anything of a row that policies hide, on any way to the row; and a change
//! of policies counts at once.
//! Method: each statement is run by a restricted role in a database with hidden rows, and by the owner in a database
//! that lacks these rows: both get the same, and the hidden rows stay. PostgreSQL's answers are in
//! tests/sql/row_security.slt.

use std::sync::Arc;

use ermine::{Database, Options, Scheme};
use ermine_sql::{RowSet, Session, SqlDatabase, SqlError, SqlState};

/// Hidden rows have numbers above 100 in `t`; what belongs to them in `c` is hidden by a query.
const OBJECTS: &str = "
    CREATE TABLE t (a int PRIMARY KEY, b int, s text); CREATE INDEX ON t (b); CREATE INDEX ON t (lower(s));
    CREATE TABLE c (a int PRIMARY KEY, t int, n text);
    CREATE TABLE open (a int, n text); INSERT INTO open VALUES (1, 'one'), (101, 'many'), (7, NULL);
    INSERT INTO t SELECT g, g % 3, 'row ' || g FROM generate_series(1, 9) g;
    INSERT INTO c SELECT g * 2, g, 'child ' || g FROM generate_series(1, 9) g;";

const HIDDEN: &str = "
    INSERT INTO t SELECT g, g % 3, 'row ' || g FROM generate_series(101, 109) g;
    INSERT INTO c SELECT g * 2, g, 'child ' || g FROM generate_series(101, 109) g;
    CREATE ROLE r; GRANT ALL ON t, c, open TO r;
    CREATE POLICY visible ON t USING (a <= 100) WITH CHECK (a <= 100);
    CREATE POLICY of_visible ON c USING (EXISTS (SELECT FROM t WHERE t.a = c.t));
    ALTER TABLE t ENABLE ROW LEVEL SECURITY; ALTER TABLE c ENABLE ROW LEVEL SECURITY;";

/// They bring their own order, where it matters.
const STATEMENTS: &[&str] = &[
    "SELECT * FROM t ORDER BY a",
    "SELECT count(*), max(a), sum(b) FROM t",
    "SELECT * FROM t WHERE a = 101",
    "SELECT * FROM t WHERE a IN (1, 101)",
    "SELECT a FROM t WHERE a > 5 ORDER BY a DESC LIMIT 3",
    "SELECT a FROM t WHERE b = 2 ORDER BY a",
    "SELECT a FROM t WHERE lower(s) = 'row 101'",
    "SELECT a FROM t ORDER BY b DESC, a DESC LIMIT 2",
    "SELECT b, count(*) FROM t GROUP BY b ORDER BY b",
    "SELECT DISTINCT b FROM t ORDER BY b",
    "SELECT a, rank() OVER (ORDER BY a DESC) FROM t ORDER BY a",
    "SELECT 1 / (a - 101) FROM t WHERE a < 3",
    "SELECT count(*) FROM t WHERE 1 / (a - 101) < 5",
    "SELECT o.a, t.s FROM open o LEFT JOIN t ON t.a = o.a ORDER BY o.a",
    "SELECT o.a, t.s FROM t RIGHT JOIN open o ON t.a = o.a ORDER BY o.a",
    "SELECT o.a, t.a FROM open o FULL JOIN t ON t.a = o.a ORDER BY 1, 2",
    "SELECT o.a, t.a FROM t FULL JOIN open o ON t.a = o.a ORDER BY 1, 2",
    "SELECT o.a, t.a FROM open o FULL JOIN (t JOIN c ON c.t = t.a) ON t.a = o.a ORDER BY 1, 2",
    "SELECT o.a, c.n FROM open o LEFT JOIN (t LEFT JOIN c ON c.t = t.a) ON t.a = o.a ORDER BY 1",
    "SELECT t.a, c.n FROM t JOIN c ON c.t = t.a ORDER BY 1",
    "SELECT t.a, c.n FROM t, c WHERE c.t = t.a AND c.a > 4 ORDER BY 1",
    "SELECT * FROM t NATURAL JOIN open",
    "SELECT a FROM open WHERE a IN (SELECT a FROM t) ORDER BY a",
    "SELECT a FROM open WHERE NOT EXISTS (SELECT FROM t WHERE t.a = open.a) ORDER BY a",
    "SELECT a, (SELECT s FROM t WHERE t.a = open.a) FROM open ORDER BY a",
    "SELECT ARRAY(SELECT a FROM t ORDER BY a)",
    "SELECT x.* FROM open, LATERAL (SELECT s FROM t WHERE t.a = open.a) x",
    "SELECT * FROM (SELECT a, b FROM t WHERE b > 0) x ORDER BY a",
    "WITH w AS (SELECT a FROM t) SELECT count(*) FROM w, w x",
    "WITH RECURSIVE w AS (SELECT 100 AS a UNION SELECT t.a FROM t JOIN w ON t.a = w.a + 1) SELECT * FROM w",
    "SELECT a FROM t UNION SELECT a FROM c ORDER BY 1",
    "SELECT a FROM open EXCEPT SELECT a FROM t ORDER BY 1",
    "TABLE c ORDER BY a",
    "SELECT count(*) FROM c WHERE n LIKE 'child%'",
    "SELECT t FROM t WHERE a IN (2, 102)",
    "SELECT to_jsonb(c) FROM c WHERE a IN (2, 202) ORDER BY c.a",
    "SELECT tableoid = 't'::regclass FROM t WHERE a IN (2, 102)",
    "SELECT a FROM t WHERE a > 100 FOR UPDATE",
    "SELECT t.a FROM t JOIN c ON c.t = t.a ORDER BY 1 FOR UPDATE",
    "SELECT t.a FROM t JOIN c ON c.t = t.a ORDER BY 1 FOR SHARE OF c",
    "BEGIN; DECLARE x CURSOR FOR SELECT a FROM t ORDER BY a; FETCH ALL x; COMMIT",
    "PREPARE x AS SELECT s FROM t WHERE a = $1; EXECUTE x(101); EXECUTE x(1); DEALLOCATE x",
    "COPY (SELECT a FROM t ORDER BY a) TO STDOUT",
    "CREATE TEMP TABLE copied AS SELECT * FROM t; SELECT count(*) FROM copied; DROP TABLE copied",
    "UPDATE t SET s = s || '!'",
    "UPDATE t SET b = 9 WHERE a IN (3, 103)",
    "UPDATE t SET b = open.a FROM open WHERE open.a = t.a",
    "UPDATE c SET n = t.s FROM t WHERE t.a = c.t AND t.a > 4",
    "UPDATE open SET n = t.s FROM t WHERE t.a = open.a",
    "WITH w AS (UPDATE t SET b = 4 WHERE a > 8 RETURNING a) SELECT * FROM w",
    "MERGE INTO t USING open ON t.a = open.a WHEN MATCHED THEN UPDATE SET s = open.n",
    "MERGE INTO open USING t ON t.a = open.a WHEN MATCHED THEN DELETE",
    "WITH w AS (INSERT INTO open SELECT a, s FROM t RETURNING a) SELECT count(*) FROM w",
    "DELETE FROM c USING t WHERE t.a = c.t AND t.b = 2",
    "DELETE FROM c",
    "DELETE FROM t WHERE a IN (4, 104)",
    "WITH w AS (DELETE FROM t WHERE a > 8 RETURNING a) SELECT * FROM w",
    "INSERT INTO t SELECT a + 20, b, s FROM t",
    "INSERT INTO t VALUES (21, 1, 'x') ON CONFLICT (a) DO UPDATE SET s = 'twice' RETURNING *",
    "DELETE FROM t",
];

/// Runs a statement; errors are results, too.
fn run(session: &mut Session, text: &str) -> String {
    let mut rows = RowSet::default();
    match session.run(text, &mut rows) {
        Ok(()) => format!("{:?} {:?}", rows.texts(), rows.tags),
        Err(error) => format!("{error}"),
    }
}

fn done(session: &mut Session, text: &str) -> String {
    let mut rows = RowSet::default();
    session.run(text, &mut rows).unwrap_or_else(|error| panic!("{text}: {error}"));
    format!("{:?}", rows.texts())
}

fn database(scheme: Scheme) -> SqlDatabase {
    SqlDatabase::open(Arc::new(Database::open_in_memory(Options::default().scheme(scheme)).unwrap())).unwrap()
}

#[test]
fn hidden_rows_are_as_if_they_were_not_there() {
    for scheme in [Scheme::SiSsn, Scheme::Silo] {
        let (restricted, plain) = (database(scheme), database(scheme));
        let (mut owner, mut other) = (restricted.session("tester", "test"), plain.session("tester", "test"));
        done(&mut owner, OBJECTS);
        done(&mut other, OBJECTS);
        done(&mut owner, HIDDEN);
        const ALL: &str =
            "SELECT a, b, s FROM t WHERE a > 100 UNION ALL SELECT a, t, n FROM c WHERE a > 200 ORDER BY 1";
        let hidden = done(&mut owner, ALL);
        let mut role = restricted.session("tester", "test");
        done(&mut role, "SET ROLE r");
        for statement in STATEMENTS {
            assert_eq!(run(&mut role, statement), run(&mut other, statement), "{scheme}: {statement}");
            assert_eq!(done(&mut owner, ALL), hidden, "{scheme}: {statement}");
        }
        assert_eq!(done(&mut role, "SELECT count(*) FROM t, c"), done(&mut role, "SELECT 0::bigint"));
    }
}

/// Policies that hide all rows of `s` but the first two, in ways that are evaluated differently.
const POLICIES: &[&str] = &[
    "false",
    "id < 3",
    "owner = current_user",
    "owner = current_user AND random() < 2",
    "owner = current_setting('my.user')",
    "id IN (SELECT a.id FROM seen a WHERE reader = current_user)",
    "id = ANY (ARRAY(SELECT a.id FROM seen a WHERE reader = current_user))",
    "EXISTS (SELECT FROM seen WHERE seen.id = s.id AND reader = current_user)",
    "NOT EXISTS (SELECT FROM seen a WHERE a.id = s.id AND reader <> current_user)",
    "(SELECT reader FROM seen a WHERE a.id = s.id) = current_user",
    "owner = current_user OR EXISTS (SELECT FROM seen a WHERE a.id = s.id AND reader = 'nobody')",
    "(SELECT count(*) FROM seen a WHERE a.id = s.id AND reader = current_user) > 0",
];

/// `{P}` fails for a hidden row.
const PROBES: &[&str] = &[
    "SELECT id FROM s WHERE {P} <> 7",
    "SELECT n.x, s.id FROM n LEFT JOIN s ON n.x = {P}",
    "SELECT n.x, s.id FROM n LEFT JOIN s ON {P} > n.x",
    "SELECT n.x, s.id FROM n JOIN s ON n.x = {P}",
    "SELECT n.x, s.id FROM s LEFT JOIN n ON n.x = {P}",
    "SELECT n.x, s.id FROM s FULL JOIN n ON n.x = {P}",
    "SELECT n.x, s.id FROM n FULL JOIN s ON n.x = {P}",
    "SELECT n.x, s.id FROM n RIGHT JOIN s ON n.x = {P}",
    "SELECT n.x, s.id FROM s RIGHT JOIN n ON n.x = {P}",
    "SELECT s.id FROM s, LATERAL (SELECT {P} q) l",
    "SELECT s.id FROM s, LATERAL (SELECT * FROM n WHERE n.x = {P}) l",
    "SELECT s.id FROM s, generate_series(1, {P}) l",
    "SELECT x FROM n WHERE x IN (SELECT {P} FROM s)",
    "SELECT x FROM n WHERE EXISTS (SELECT FROM s WHERE {P} = n.x)",
    "SELECT x FROM n WHERE NOT EXISTS (SELECT FROM s WHERE {P} = n.x)",
    "SELECT x, (SELECT count(*) FROM s WHERE {P} = n.x) FROM n",
    "SELECT max({P}) FROM s, n WHERE s.id = n.x",
    "SELECT {P}, count(*) FROM s GROUP BY 1",
    "SELECT id FROM s ORDER BY {P} LIMIT 1",
    "SELECT id, sum(id) OVER (PARTITION BY {P}) FROM s",
    "SELECT id FROM s WHERE secret = 30 AND {P} <> 7",
    "SELECT id FROM s WHERE id = 1 OR {P} <> 7",
    "SELECT id FROM s WHERE {P} IN (SELECT x FROM n)",
    "SELECT id FROM (SELECT *, {P} z FROM s) y, n WHERE z = n.x",
    "SELECT id FROM n LEFT JOIN (s LEFT JOIN n m ON m.x = {P}) ON s.id = n.x",
    "SELECT a.id FROM s a LEFT JOIN s b ON a.id = 1000 / (b.secret - 30)",
    "WITH q AS MATERIALIZED (SELECT *, {P} FROM s) SELECT id FROM q",
    "SELECT n.x, v.id FROM n JOIN v ON n.x = {P}",
    "SELECT id FROM s, n WHERE {P} = n.x FOR UPDATE OF s",
    "UPDATE s SET owner = owner FROM n WHERE {P} = n.x",
    "UPDATE n SET x = x FROM s WHERE {P} = n.x",
    "UPDATE s SET owner = owner WHERE secret = 30 AND {P} = 7",
    "DELETE FROM s USING n WHERE {P} = n.x AND false",
    "DELETE FROM n USING s WHERE {P} = n.x AND false",
    "MERGE INTO s USING n ON {P} = n.x WHEN MATCHED THEN UPDATE SET owner = owner WHEN NOT MATCHED THEN DO NOTHING",
    "MERGE INTO n USING s ON {P} = n.x WHEN MATCHED THEN UPDATE SET x = x WHEN NOT MATCHED THEN DO NOTHING",
    "INSERT INTO n SELECT x FROM n JOIN s ON {P} = n.x",
];

#[test]
fn nothing_is_computed_from_a_hidden_row() {
    let database = database(Scheme::SiSsn);
    let (mut owner, mut role) = (database.session("tester", "test"), database.session("tester", "test"));
    let objects = "CREATE TABLE n (x int); INSERT INTO n SELECT generate_series(1, 8);
        CREATE TABLE seen (id int, reader name); INSERT INTO seen VALUES (1, 'r'), (2, 'r'), (3, 'other'), (4, 'other');
        CREATE TABLE s (id int PRIMARY KEY, secret int, owner name); CREATE INDEX ON s (secret);
        INSERT INTO s SELECT g, g * 10, CASE WHEN g < 3 THEN 'r' ELSE 'other' END FROM generate_series(1, 4) g;
        CREATE ROLE r; GRANT ALL ON n, seen, s TO r; ALTER TABLE s ENABLE ROW LEVEL SECURITY;
        CREATE VIEW v WITH (security_invoker) AS SELECT * FROM s; GRANT ALL ON v TO r";
    done(&mut owner, objects);
    done(&mut role, "SET ROLE r; SET my.user = 'r'");
    for policy in POLICIES {
        done(&mut owner, &format!("CREATE POLICY p ON s USING ({policy})"));
        for probe in PROBES {
            let statement = probe.replace("{P}", "1000 / (secret - 30)");
            done(&mut role, &format!("BEGIN; {statement}; ROLLBACK"));
        }
        done(&mut owner, "DROP POLICY p ON s");
    }
    // Without any policy, too; and they fail where the row is not hidden.
    let statement = "SELECT n.x, s.id FROM n LEFT JOIN s ON n.x = 1000 / (secret - 30)";
    done(&mut role, statement);
    assert_eq!(run(&mut owner, statement), "division by zero (22012)");
}

#[test]
fn changed_policies_count_at_once() {
    let database = database(Scheme::SiSsn);
    let (mut owner, mut role) = (database.session("tester", "test"), database.session("tester", "test"));
    done(&mut owner, OBJECTS);
    done(&mut owner, HIDDEN);
    done(&mut role, "SET ROLE r; PREPARE x AS SELECT count(*) FROM t");
    let count = |role: &mut Session| done(role, "EXECUTE x");
    let of = |number: i64| format!("{:?}", [[number.to_string()]]);
    assert_eq!(count(&mut role), of(9));
    for (change, seen) in [
        ("ALTER POLICY visible ON t USING (a <= 5)", 5),
        ("CREATE POLICY more ON t TO r USING (a > 107)", 7),
        ("CREATE POLICY less ON t AS RESTRICTIVE USING (a <> 1)", 6),
        ("DROP POLICY more ON t", 4),
        ("BEGIN; DROP POLICY visible ON t; ROLLBACK", 4),
        ("ALTER TABLE t DISABLE ROW LEVEL SECURITY", 18),
        ("ALTER TABLE t ENABLE ROW LEVEL SECURITY", 4),
        ("ALTER ROLE r BYPASSRLS", 18),
        ("ALTER ROLE r NOBYPASSRLS", 4),
        ("ALTER TABLE t OWNER TO r", 18),
        ("ALTER TABLE t FORCE ROW LEVEL SECURITY", 4),
        ("DROP POLICY visible ON t; DROP POLICY less ON t", 0),
    ] {
        done(&mut owner, change);
        assert_eq!(count(&mut role), of(seen), "{change}");
    }
    done(&mut role, "SET row_security = off");
    let error: SqlError = role.run("EXECUTE x", &mut RowSet::default()).unwrap_err();
    assert_eq!(error.state(), SqlState::INSUFFICIENT_PRIVILEGE);
}

#[test]
fn policies_are_stored() {
    let directory = std::env::temp_dir().join(format!("ermine-sql-policies-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let shown = "SELECT policyname, permissive, roles, cmd, qual, with_check FROM pg_policies ORDER BY 1";
    let open = || SqlDatabase::open(Arc::new(Database::open(&directory, Options::default()).unwrap())).unwrap();
    let before = {
        let database = open();
        let mut owner = database.session("tester", "test");
        done(&mut owner, OBJECTS);
        done(&mut owner, HIDDEN);
        done(&mut owner, "ALTER TABLE t RENAME COLUMN a TO number; ALTER TABLE t RENAME TO rows");
        done(&mut owner, shown)
    };
    assert!(before.contains("(number <= 100)"), "{before}");
    let database = open();
    let mut role = database.session("tester", "test");
    assert_eq!(done(&mut role, shown), before);
    assert_eq!(database.verify().unwrap().findings, Vec::<String>::new());
    done(&mut role, "SET ROLE r");
    assert_eq!(done(&mut role, "SELECT (SELECT count(*) FROM rows), (SELECT count(*) FROM c)"), "[[\"9\", \"9\"]]");
    drop((role, database));
    let _ = std::fs::remove_dir_all(&directory);
}
