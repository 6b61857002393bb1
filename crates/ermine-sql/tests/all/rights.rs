//! Goal: no statement does anything that its role may not do, and rights are never lost.
//! Method: each kind of statement is run by a role that lacks one right, then with the right, then without it again, by
//! texts and by a statement that was prepared before; the answers of PostgreSQL are in tests/sql/rights.slt.

use std::sync::Arc;

use ermine::{Database, Options};
use ermine_sql::{RowSet, Session, SqlDatabase, SqlError, SqlState};

const DENIED: SqlState = SqlState::INSUFFICIENT_PRIVILEGE;

fn database() -> (Arc<Database>, SqlDatabase) {
    let engine = Arc::new(Database::open_in_memory(Options::default()).unwrap());
    let database = SqlDatabase::open(engine.clone()).unwrap();
    (engine, database)
}

fn run(session: &mut Session, text: &str) -> Result<Vec<String>, SqlError> {
    let mut rows = RowSet::default();
    session.run(text, &mut rows)?;
    Ok(rows.texts().concat())
}

fn done(session: &mut Session, text: &str) -> Vec<String> {
    run(session, text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

const OBJECTS: &str = "
    CREATE ROLE r; CREATE ROLE other; CREATE SCHEMA s; GRANT ALL ON SCHEMA s TO r;
    CREATE TABLE t (a int PRIMARY KEY, b int, c serial); INSERT INTO t VALUES (1, 1);
    CREATE TABLE child (a int REFERENCES t ON DELETE CASCADE ON UPDATE CASCADE);
    CREATE VIEW v AS SELECT a, b FROM t; CREATE SEQUENCE q; CREATE TYPE e AS ENUM ('x');
    REVOKE USAGE ON TYPE e FROM PUBLIC;
    CREATE SCHEMA hidden; CREATE TABLE hidden.t (a int); GRANT ALL ON hidden.t TO r; CREATE SCHEMA closed;";

/// Statements, the rights that each needs, and the one of them that is taken away. A statement in a block is rolled
/// back.
const CASES: &[(&str, &[&str])] = &[
    ("SELECT a FROM t", &["SELECT (a) ON t"]),
    ("SELECT * FROM t", &["SELECT ON t"]),
    ("SELECT count(*) FROM t", &["SELECT (b) ON t"]),
    ("SELECT 1 FROM t x WHERE x.b > 0", &["SELECT (b) ON t"]),
    ("SELECT 1 FROM t ORDER BY b", &["SELECT (b) ON t"]),
    ("SELECT count(b) FROM t GROUP BY a", &["SELECT (a, b) ON t"]),
    ("SELECT row_number() OVER (ORDER BY b) FROM t", &["SELECT (b) ON t"]),
    ("SELECT x.a FROM t x JOIN t y USING (a)", &["SELECT (a) ON t"]),
    ("SELECT 1 WHERE (SELECT max(a) FROM t) > 0", &["SELECT (a) ON t"]),
    ("SELECT 1 WHERE 1 IN (SELECT a FROM t)", &["SELECT (a) ON t"]),
    ("SELECT ARRAY(SELECT a FROM t)", &["SELECT (a) ON t"]),
    ("SELECT 1 UNION ALL SELECT a FROM t", &["SELECT (a) ON t"]),
    ("WITH w AS (SELECT a FROM t) SELECT * FROM w", &["SELECT (a) ON t"]),
    (
        "WITH RECURSIVE w AS (SELECT a FROM t UNION SELECT a + 1 FROM w WHERE a < 3) SELECT * FROM w",
        &["SELECT (a) ON t"],
    ),
    ("SELECT * FROM (SELECT a FROM t) x, LATERAL (SELECT x.a) y", &["SELECT (a) ON t"]),
    ("SELECT tableoid FROM t", &["SELECT ON t"]),
    ("SELECT a FROM t FOR UPDATE", &["UPDATE (b) ON t", "SELECT (a) ON t"]),
    ("SELECT a FROM t FOR SHARE", &["UPDATE (b) ON t", "SELECT (a) ON t"]),
    ("TABLE t", &["SELECT ON t"]),
    ("SELECT * FROM v", &["SELECT ON v"]),
    ("SELECT b FROM v", &["SELECT (b) ON v"]),
    ("SELECT * FROM q", &["SELECT ON q"]),
    ("SELECT * FROM hidden.t", &["USAGE ON SCHEMA hidden"]),
    ("EXPLAIN SELECT a FROM t", &["SELECT (a) ON t"]),
    ("EXPLAIN ANALYZE DELETE FROM t", &["DELETE ON t"]),
    ("BEGIN; DECLARE c CURSOR FOR SELECT a FROM t; ROLLBACK", &["SELECT (a) ON t"]),
    ("COPY t (a) TO STDOUT", &["SELECT (a) ON t"]),
    ("COPY (SELECT a FROM t) TO STDOUT", &["SELECT (a) ON t"]),
    ("COPY v TO STDOUT", &["SELECT ON v"]),
    ("INSERT INTO t (a, c) VALUES (2, 2)", &["INSERT (a, c) ON t"]),
    ("INSERT INTO t (a) VALUES (2)", &["USAGE ON SEQUENCE t_c_seq", "INSERT (a) ON t"]),
    ("INSERT INTO t (a, c) SELECT 2, 2", &["INSERT (a, c) ON t"]),
    ("INSERT INTO t (a, c) SELECT a + 1, 2 FROM t", &["SELECT (a) ON t", "INSERT (a, c) ON t"]),
    ("INSERT INTO t (a, c) VALUES (2, 2) RETURNING b", &["SELECT (b) ON t", "INSERT (a, c) ON t"]),
    ("INSERT INTO t (a, c) VALUES (1, 2) ON CONFLICT (a) DO NOTHING", &["SELECT (a) ON t", "INSERT (a, c) ON t"]),
    (
        "INSERT INTO t (a, c) VALUES (1, 2) ON CONFLICT (a) DO UPDATE SET b = 2",
        &["UPDATE (b) ON t", "SELECT (a) ON t", "INSERT (a, c) ON t"],
    ),
    (
        "INSERT INTO t (a, c) VALUES (1, 2) ON CONFLICT (a) DO UPDATE SET b = excluded.c",
        &["SELECT (c) ON t", "UPDATE (b) ON t", "SELECT (a) ON t", "INSERT (a, c) ON t"],
    ),
    ("INSERT INTO v VALUES (2, 2)", &["INSERT ON v", "USAGE ON SEQUENCE t_c_seq"]),
    ("UPDATE t SET b = 2", &["UPDATE (b) ON t"]),
    ("UPDATE t SET a = 2", &["UPDATE (a) ON t"]),
    ("UPDATE t SET b = 2 WHERE a = 1", &["SELECT (a) ON t", "UPDATE (b) ON t"]),
    ("UPDATE t SET b = a", &["SELECT (a) ON t", "UPDATE (b) ON t"]),
    ("UPDATE t SET b = 2 RETURNING a", &["SELECT (a) ON t", "UPDATE (b) ON t"]),
    ("UPDATE t SET b = x.a FROM child x", &["SELECT ON child", "UPDATE (b) ON t"]),
    ("UPDATE v SET b = 2", &["UPDATE (b) ON v"]),
    ("UPDATE v SET b = 2 WHERE a = 1", &["SELECT (a) ON v", "UPDATE (b) ON v"]),
    ("DELETE FROM t", &["DELETE ON t"]),
    ("DELETE FROM t WHERE a = 1", &["SELECT (a) ON t", "DELETE ON t"]),
    ("DELETE FROM t USING child x", &["SELECT ON child", "DELETE ON t"]),
    ("DELETE FROM v", &["DELETE ON v"]),
    ("WITH w AS (INSERT INTO t (a, c) VALUES (2, 2)) SELECT 1", &["INSERT (a, c) ON t"]),
    ("WITH w AS (INSERT INTO t (a) VALUES (2)) SELECT 1", &["USAGE ON SEQUENCE t_c_seq", "INSERT (a) ON t"]),
    ("WITH w AS (UPDATE t SET b = 2) SELECT 1", &["UPDATE (b) ON t"]),
    ("WITH w AS (UPDATE t SET b = 2 WHERE a = 1) SELECT 1", &["SELECT (a) ON t", "UPDATE (b) ON t"]),
    ("WITH w AS (DELETE FROM t) SELECT 1", &["DELETE ON t"]),
    ("WITH w AS (DELETE FROM t RETURNING a) SELECT a FROM w", &["SELECT (a) ON t", "DELETE ON t"]),
    ("WITH w AS (DELETE FROM t) SELECT a FROM child", &["SELECT (a) ON child", "DELETE ON t"]),
    ("WITH w AS (DELETE FROM v RETURNING a) SELECT 1", &["SELECT (a) ON v", "DELETE ON v"]),
    ("WITH w AS (UPDATE t SET b = 2) DELETE FROM child", &["UPDATE (b) ON t", "DELETE ON child"]),
    ("WITH w AS (DELETE FROM t), x AS (DELETE FROM child) SELECT 1", &["DELETE ON t", "DELETE ON child"]),
    (
        "WITH w AS (DELETE FROM child RETURNING a) INSERT INTO t (a, c) SELECT a, 2 FROM w",
        &["SELECT (a) ON child", "DELETE ON child", "INSERT (a, c) ON t"],
    ),
    ("WITH w AS (SELECT a FROM child) UPDATE t SET b = w.a FROM w", &["SELECT (a) ON child", "UPDATE (b) ON t"]),
    ("WITH t AS (SELECT 1) UPDATE t SET b = 2", &["UPDATE (b) ON t"]),
    ("EXPLAIN WITH w AS (DELETE FROM t) SELECT 1", &["DELETE ON t"]),
    ("TRUNCATE child", &["TRUNCATE ON child"]),
    ("TRUNCATE t CASCADE", &["TRUNCATE ON child", "TRUNCATE ON t"]),
    ("SELECT nextval('q')", &["USAGE ON SEQUENCE q"]),
    ("SELECT setval('q', 5)", &["UPDATE ON SEQUENCE q"]),
    ("BEGIN; LOCK TABLE t IN ACCESS SHARE MODE; ROLLBACK", &["SELECT ON t"]),
    ("BEGIN; LOCK TABLE t IN ROW EXCLUSIVE MODE; ROLLBACK", &["INSERT ON t"]),
    ("BEGIN; LOCK TABLE t; ROLLBACK", &["DELETE ON t"]),
    ("CREATE TABLE closed.n (a int)", &["CREATE, USAGE ON SCHEMA closed"]),
    ("CREATE TABLE closed.n AS SELECT 1 AS a", &["CREATE, USAGE ON SCHEMA closed"]),
    ("CREATE TABLE s.n AS SELECT a FROM t", &["SELECT (a) ON t"]),
    ("SELECT a INTO s.n FROM t", &["SELECT (a) ON t"]),
    ("CREATE TABLE s.n (a int REFERENCES t)", &["REFERENCES (a) ON t"]),
    ("CREATE TABLE s.n (a e)", &["USAGE ON TYPE e"]),
    ("CREATE VIEW closed.n AS SELECT 1 AS a", &["CREATE, USAGE ON SCHEMA closed"]),
    ("CREATE SEQUENCE closed.n", &["CREATE, USAGE ON SCHEMA closed"]),
    ("CREATE TYPE closed.n AS ENUM ('a')", &["CREATE, USAGE ON SCHEMA closed"]),
    ("CREATE DOMAIN closed.n AS int", &["CREATE, USAGE ON SCHEMA closed"]),
    ("CREATE SCHEMA n", &["CREATE ON DATABASE test"]),
];

/// Statements that only an owner may run.
const OF_OWNERS: &[(&str, &str)] = &[
    ("CREATE INDEX ON child (a)", "TABLE child"),
    ("ALTER TABLE child ADD n int", "TABLE child"),
    ("ALTER TABLE child ADD CHECK (a > 0)", "TABLE child"),
    ("ALTER TABLE child ALTER a SET NOT NULL", "TABLE child"),
    ("ALTER TABLE child RENAME a TO z", "TABLE child"),
    ("ALTER TABLE child RENAME TO z", "TABLE child"),
    ("ALTER TABLE child SET SCHEMA s", "TABLE child"),
    ("ALTER TABLE child ALTER a TYPE bigint", "TABLE child"),
    ("ALTER TABLE t ALTER a ADD GENERATED ALWAYS AS IDENTITY", "TABLE t"),
    ("ALTER INDEX t_pkey RENAME TO z", "TABLE t"),
    ("COMMENT ON TABLE t IS 'x'", "TABLE t"),
    ("COMMENT ON COLUMN t.a IS 'x'", "TABLE t"),
    ("COMMENT ON CONSTRAINT t_pkey ON t IS 'x'", "TABLE t"),
    ("COMMENT ON INDEX t_pkey IS 'x'", "TABLE t"),
    ("DROP TABLE child", "TABLE child"),
    ("GRANT SELECT ON child TO other", "TABLE child"),
    ("CREATE OR REPLACE VIEW v AS SELECT a, b FROM t", "VIEW v"),
    ("ALTER VIEW v RENAME a TO z", "VIEW v"),
    ("ALTER VIEW v SET (security_invoker = true)", "VIEW v"),
    ("ALTER VIEW v SET SCHEMA s", "VIEW v"),
    ("ALTER TABLE v RENAME TO z", "VIEW v"),
    ("COMMENT ON VIEW v IS 'x'", "VIEW v"),
    ("DROP VIEW v", "VIEW v"),
    ("ALTER SEQUENCE q RESTART", "SEQUENCE q"),
    ("ALTER SEQUENCE q RENAME TO z", "SEQUENCE q"),
    ("ALTER SEQUENCE q SET SCHEMA s", "SEQUENCE q"),
    ("COMMENT ON SEQUENCE q IS 'x'", "SEQUENCE q"),
    ("DROP SEQUENCE q", "SEQUENCE q"),
    ("ALTER TYPE e ADD VALUE 'y'", "TYPE e"),
    ("ALTER TYPE e RENAME TO z", "TYPE e"),
    ("ALTER TYPE e SET SCHEMA s", "TYPE e"),
    ("COMMENT ON TYPE e IS 'x'", "TYPE e"),
    ("DROP TYPE e", "TYPE e"),
    ("ALTER SCHEMA closed RENAME TO z", "SCHEMA closed"),
    ("COMMENT ON SCHEMA closed IS 'x'", "SCHEMA closed"),
    ("DROP SCHEMA closed", "SCHEMA closed"),
];

/// Runs a statement as the role, in a block that is rolled back, unless it has its own.
fn attempt(session: &mut Session, text: &str) -> Result<(), SqlError> {
    done(session, "SET SESSION AUTHORIZATION r");
    let is_own = text.starts_with("BEGIN");
    let result = if is_own { run(session, text) } else { run(session, &format!("BEGIN; {text}; ROLLBACK")) };
    if result.is_err() {
        done(session, "ROLLBACK");
    }
    done(session, "RESET SESSION AUTHORIZATION");
    result.map(drop)
}

#[test]
fn each_statement_needs_each_of_its_rights() {
    let (_, database) = database();
    let mut session = database.session("tester", "test");
    done(&mut session, OBJECTS);
    // Only of objects in schemas of others a role may be asked here.
    done(&mut session, "GRANT CREATE ON SCHEMA public TO r");
    for (text, rights) in CASES {
        for missing in 0..rights.len() {
            for (at, right) in rights.iter().enumerate() {
                let verb = if at == missing { continue } else { "GRANT" };
                done(&mut session, &format!("{verb} {right} TO r"));
            }
            let denied = attempt(&mut session, text).expect_err(text);
            assert_eq!(denied.state(), DENIED, "{text} without {}: {denied}", rights[missing]);
            done(&mut session, &format!("GRANT {} TO r", rights[missing]));
            attempt(&mut session, text).unwrap_or_else(|error| panic!("{text}: {error}"));
            for right in *rights {
                done(&mut session, &format!("REVOKE {right} FROM r"));
            }
            assert_eq!(attempt(&mut session, text).expect_err(text).state(), DENIED, "{text}");
        }
    }
}

#[test]
fn owners_alone_change_their_objects() {
    let (_, database) = database();
    let mut session = database.session("tester", "test");
    done(&mut session, OBJECTS);
    done(&mut session, "GRANT ALL ON ALL TABLES IN SCHEMA public TO r; GRANT CREATE ON SCHEMA public TO r");
    done(&mut session, "GRANT CREATE ON DATABASE test TO r; GRANT ALL ON SEQUENCE q TO r; GRANT USAGE ON TYPE e TO r");
    for (text, object) in OF_OWNERS {
        // A right without the option to grant it: there is a warning only.
        if !text.starts_with("GRANT") {
            assert_eq!(attempt(&mut session, text).expect_err(text).state(), DENIED, "{text}");
        }
        done(&mut session, &format!("ALTER {object} OWNER TO r"));
        attempt(&mut session, text).unwrap_or_else(|error| panic!("{text}: {error}"));
        done(&mut session, &format!("ALTER {object} OWNER TO tester"));
    }
    // The additions that are made while others use a table.
    done(&mut session, "SET SESSION AUTHORIZATION r");
    for text in ["CREATE INDEX ON child (a)", "ALTER TABLE child ADD UNIQUE (a)", "ALTER TABLE t ALTER b SET NOT NULL"]
    {
        assert_eq!(run(&mut session, text).expect_err(text).state(), DENIED, "{text}");
    }
}

#[test]
fn a_prepared_plan_is_for_one_role_and_one_state_of_the_rights() {
    let (_, database) = database();
    let mut session = database.session("tester", "test");
    done(&mut session, "CREATE TABLE t (a int); INSERT INTO t VALUES (1); CREATE ROLE r");
    let statement = session.prepare("SELECT a FROM t", &[]).unwrap();
    let execute = |session: &mut Session| {
        let mut rows = RowSet::default();
        session.execute(&statement, &[], &mut rows).map(drop)
    };
    execute(&mut session).unwrap();
    let mut other = database.session("r", "test");
    assert_eq!(execute(&mut other).unwrap_err().state(), DENIED);
    execute(&mut session).unwrap();
    done(&mut session, "SET ROLE r");
    assert_eq!(execute(&mut session).unwrap_err().state(), DENIED);
    done(&mut session, "RESET ROLE; GRANT SELECT ON t TO r");
    execute(&mut other).unwrap();
    done(&mut session, "REVOKE SELECT ON t FROM r");
    assert_eq!(execute(&mut other).unwrap_err().state(), DENIED);
    // The error of a plan, not of its preparation.
    assert!(other.prepare("SELECT a FROM t", &[]).is_ok());
}

#[test]
fn details_show_no_values_that_the_role_may_not_read() {
    let (_, database) = database();
    let mut session = database.session("tester", "test");
    done(&mut session, "CREATE TABLE t (a int UNIQUE, b int CHECK (b > 0), c text); CREATE ROLE r");
    done(&mut session, "INSERT INTO t VALUES (1, 1, 'secret'), (2, 1, 'x'); GRANT UPDATE (a, b), INSERT ON t TO r");
    for text in ["UPDATE t SET b = 0", "UPDATE t SET a = 1", "INSERT INTO t VALUES (1, 1)"] {
        done(&mut session, "RESET ROLE");
        assert!(run(&mut session, text).unwrap_err().report().detail.is_some(), "{text}");
        done(&mut session, "SET ROLE r");
        assert_eq!(run(&mut session, text).unwrap_err().report().detail, None, "{text}");
    }
}

#[test]
fn rights_outlive_the_database() {
    let (engine, database) = database();
    let mut session = database.session("tester", "test");
    done(&mut session, OBJECTS);
    done(&mut session, "GRANT SELECT (a), UPDATE ON t TO r WITH GRANT OPTION; GRANT other TO r WITH ADMIN OPTION");
    done(&mut session, "ALTER TABLE child OWNER TO other; GRANT USAGE ON SCHEMA hidden TO PUBLIC");
    let shown = "SELECT (SELECT string_agg(relname || coalesce(relacl::text, '-') || relowner, ';' ORDER BY relname)
        FROM pg_class), (SELECT string_agg(coalesce(attacl::text, '-'), ';' ORDER BY attrelid, attnum)
        FROM pg_attribute), (SELECT string_agg(coalesce(nspacl::text, '-') || nspowner, ';' ORDER BY nspname)
        FROM pg_namespace), (SELECT string_agg(roleid || ' ' || member || ' ' || admin_option, ';' ORDER BY roleid)
        FROM pg_auth_members), (SELECT string_agg(rolname || rolsuper || rolcanlogin, ';' ORDER BY rolname)
        FROM pg_roles)";
    let before = done(&mut session, shown);
    assert!(before[0].contains("r=w*/tester") && before[1].contains("r=r*/tester"), "{before:?}");
    let reopened = SqlDatabase::open(engine).unwrap();
    assert_eq!(done(&mut reopened.session("tester", "test"), shown), before);
    let mut of_role = reopened.session("r", "test");
    done(&mut of_role, "SELECT a FROM t");
    assert_eq!(run(&mut of_role, "SELECT b FROM t").unwrap_err().state(), DENIED);
}

/// Of a role that is dropped and a right that it gets at the same time one loses.
#[test]
fn a_role_that_gets_a_right_stays() {
    for level in ["SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED"] {
        for drops_first in [false, true] {
            let (_, database) = database();
            let mut sessions = [database.session("tester", "test"), database.session("tester", "test")];
            done(&mut sessions[0], "CREATE TABLE t (a int); CREATE ROLE r; CREATE ROLE g");
            for text in ["GRANT SELECT ON t TO r", "GRANT g TO r", "ALTER TABLE t OWNER TO r"] {
                let [granting, dropping] = &mut sessions;
                done(granting, &format!("BEGIN ISOLATION LEVEL {level}; SELECT 1 FROM pg_class LIMIT 0"));
                done(dropping, &format!("BEGIN ISOLATION LEVEL {level}; SELECT 1 FROM pg_class LIMIT 0"));
                done(granting, "SET lock_timeout = '1ms'");
                done(dropping, "SET lock_timeout = '1ms'");
                let (mut granted, mut dropped) = (Ok(Vec::new()), Ok(Vec::new()));
                for step in 0..2 {
                    match (step == 0) == drops_first {
                        true => dropped = run(dropping, "DROP ROLE r"),
                        false => granted = run(granting, text),
                    }
                }
                dropped = dropped.and_then(|_| run(dropping, "COMMIT"));
                granted = granted.and_then(|_| run(granting, "COMMIT"));
                let _ = run(dropping, "ROLLBACK");
                let _ = run(granting, "ROLLBACK");
                assert!(dropped.is_err() || granted.is_err(), "{level} {text}");
                let count = done(granting, "SELECT count(*) FROM pg_roles WHERE rolname = 'r'");
                let uses = "SELECT (SELECT count(*) FROM pg_class WHERE relacl::text LIKE '%16%')";
                assert_eq!(done(granting, uses), ["0"], "names of roles are shown, not numbers");
                if count == ["0"] {
                    done(granting, "CREATE ROLE r");
                } else if granted.is_ok() {
                    done(granting, "ALTER TABLE t OWNER TO tester; REVOKE ALL ON t FROM r; REVOKE g FROM r");
                }
            }
        }
    }
}

#[test]
fn a_session_of_a_dropped_role_has_no_rights() {
    let (_, database) = database();
    let mut session = database.session("tester", "test");
    done(&mut session, "CREATE ROLE r SUPERUSER; CREATE TABLE t (a int); GRANT CREATE ON SCHEMA public TO PUBLIC");
    let mut dropped = database.session("r", "test");
    done(&mut dropped, "SELECT * FROM t");
    done(&mut session, "DROP ROLE r");
    assert_eq!(run(&mut dropped, "SELECT * FROM t").unwrap_err().state(), DENIED);
    assert_eq!(run(&mut dropped, "CREATE TABLE u (a int)").unwrap_err().state(), SqlState::UNDEFINED_OBJECT);
    // Another role of the name is another role.
    done(&mut session, "CREATE ROLE r SUPERUSER");
    assert_eq!(run(&mut dropped, "SELECT * FROM t").unwrap_err().state(), DENIED);
    done(&mut database.session("r", "test"), "SELECT * FROM t");
}
