//! Goal: a transaction that uses a view sees one definition of it, and no view refers to what is gone.
//! Method: interleavings of two sessions, one statement at a time, under a scheme of every kind; reopened databases;
//! views that stand for very much.

use std::{sync::Arc, thread};

use ermine::{Database, Options, Scheme};
use ermine_sql::{Session, SqlDatabase, SqlState};

use crate::sessions::{ask, run};

fn open(scheme: Scheme) -> SqlDatabase {
    SqlDatabase::open(Arc::new(Database::open_in_memory(Options::default().scheme(scheme)).unwrap())).unwrap()
}

fn sessions(scheme: Scheme) -> [Session; 2] {
    let database = open(scheme);
    let mut sessions = [database.session("ann", "shop"), database.session("bert", "shop")];
    ask(
        &mut sessions[0],
        "CREATE TABLE t (id integer PRIMARY KEY, a integer); INSERT INTO t VALUES (1, 10), (2, 20);
         CREATE VIEW v AS SELECT id, a FROM t WHERE id = 1",
    );
    sessions.iter_mut().for_each(|session| drop(ask(session, "SET lock_timeout = 20")));
    sessions
}

const SCHEMES: [Scheme; 4] = [Scheme::SiSsn, Scheme::Silo, Scheme::Si, Scheme::Rc];

#[test]
fn a_view_does_not_change_while_a_transaction_uses_it() {
    for scheme in SCHEMES {
        let [mut one, mut two] = sessions(scheme);
        ask(&mut one, "BEGIN");
        assert_eq!(ask(&mut one, "SELECT a FROM v"), ["10"], "{scheme}");
        for change in ["CREATE OR REPLACE VIEW v AS SELECT id, a FROM t", "DROP VIEW v", "ALTER VIEW v RENAME TO w"] {
            assert_eq!(run(&mut two, change), Err(SqlState::LOCK_NOT_AVAILABLE), "{scheme}: {change}");
        }
        assert_eq!(ask(&mut one, "SELECT a FROM v"), ["10"], "{scheme}");
        ask(&mut one, "COMMIT");
        ask(&mut two, "CREATE OR REPLACE VIEW v AS SELECT id, a FROM t WHERE id = 2");
        assert_eq!(ask(&mut one, "SELECT a FROM v"), ["20"], "{scheme}");
    }
}

/// A transaction that began before a view was replaced does not use the old definition: it begins again, or loses.
#[test]
fn an_older_transaction_does_not_use_an_old_view() {
    for scheme in SCHEMES {
        let [mut one, mut two] = sessions(scheme);
        ask(&mut one, "CREATE TABLE other (x integer)");
        ask(&mut one, "PREPARE p AS SELECT a FROM v");
        assert_eq!(ask(&mut one, "EXECUTE p"), ["10"], "{scheme}");
        let level = if scheme == Scheme::Rc { "READ COMMITTED" } else { "REPEATABLE READ" };
        ask(&mut one, &format!("BEGIN ISOLATION LEVEL {level}"));
        ask(&mut one, "SELECT * FROM other");
        let change = "BEGIN; CREATE OR REPLACE VIEW v AS SELECT id, a FROM t WHERE id = 2;
            UPDATE t SET a = 21 WHERE id = 2; COMMIT";
        ask(&mut two, change);
        match run(&mut one, "SELECT a FROM v") {
            Ok(rows) => assert_eq!(rows, ["21"], "{scheme}"),
            Err(state) => assert_eq!(state, SqlState::SERIALIZATION_FAILURE, "{scheme}"),
        }
        let _ = run(&mut one, "ROLLBACK");
        assert_eq!(ask(&mut one, "EXECUTE p"), ["21"], "{scheme}");
    }
}

/// Of CREATE VIEW and DROP of what it refers to, the later one sees the other.
#[test]
fn a_view_and_what_it_refers_to_do_not_pass_each_other() {
    for scheme in SCHEMES {
        for (create, drop) in [
            ("CREATE VIEW w AS SELECT a FROM t", "DROP TABLE t"),
            ("CREATE VIEW w AS SELECT a FROM t", "ALTER TABLE t DROP COLUMN a"),
            ("CREATE VIEW w AS SELECT a FROM v", "DROP VIEW v"),
            ("CREATE OR REPLACE VIEW v2 AS SELECT a FROM v", "DROP VIEW v"),
        ] {
            let [mut one, mut two] = sessions(scheme);
            ask(&mut one, "CREATE VIEW v2 AS SELECT 1 AS a; CREATE TABLE other (x integer)");
            if drop.contains("TABLE") {
                ask(&mut one, "DROP VIEW v");
            }
            // The one that drops began first, and knows no view.
            ask(&mut two, "BEGIN");
            ask(&mut two, "SELECT * FROM other");
            ask(&mut one, "BEGIN");
            ask(&mut one, create);
            ask(&mut one, "COMMIT");
            let lost = run(&mut two, drop).expect_err(drop);
            let expected = [SqlState::SERIALIZATION_FAILURE, SqlState::DEPENDENT_OBJECTS_STILL_EXIST];
            assert!(expected.contains(&lost), "{scheme}: {drop}: {lost:?}");
            ask(&mut two, "ROLLBACK");
            assert_eq!(run(&mut two, drop), Err(SqlState::DEPENDENT_OBJECTS_STILL_EXIST), "{scheme}: {drop}");
            // The other way round.
            ask(&mut two, "DROP VIEW IF EXISTS w; DROP VIEW v2; CREATE VIEW v2 AS SELECT 1 AS a");
            ask(&mut two, "BEGIN");
            ask(&mut two, drop);
            let waits = run(&mut one, create).expect_err(create);
            assert_eq!(waits, SqlState::LOCK_NOT_AVAILABLE, "{scheme}: {create}");
            ask(&mut two, "COMMIT");
            let missing = run(&mut one, create).expect_err(create);
            assert!([SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_COLUMN].contains(&missing), "{scheme}: {create}");
        }
    }
}

#[test]
fn views_are_replaced_and_read_at_the_same_time() {
    let database = open(Scheme::SiSsn);
    let mut session = database.session("ann", "shop");
    ask(&mut session, "CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3)");
    ask(&mut session, "CREATE VIEW v AS SELECT id, 0 AS round FROM t; CREATE VIEW w AS SELECT round FROM v");
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = database.session("ann", "shop");
            for round in 1..=60 {
                ask(&mut session, &format!("CREATE OR REPLACE VIEW v AS SELECT id, {round} AS round FROM t"));
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let mut session = database.session("bert", "shop");
                let mut last = 0;
                while last < 60 {
                    let rows = ask(&mut session, "SELECT min(round), max(round), (SELECT max(round) FROM v) FROM w");
                    let rounds: Vec<u32> = rows[0].split(',').map(|round| round.parse().unwrap()).collect();
                    assert!(rounds.iter().all(|round| *round == rounds[0]), "{rows:?}");
                    let round = rounds[0];
                    assert!(round >= last, "{round} after {last}");
                    last = round;
                }
            });
        }
    });
}

#[test]
fn views_are_there_when_a_database_is_opened_again() {
    let directory = std::env::temp_dir().join(format!("ermine-sql-views-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let open = || SqlDatabase::open(Arc::new(Database::open(&directory, Options::default()).unwrap())).unwrap();
    {
        let database = open();
        let mut session = database.session("ann", "shop");
        ask(
            &mut session,
            "CREATE TABLE t (id integer PRIMARY KEY, a integer); INSERT INTO t VALUES (1, 10);
             CREATE VIEW v AS SELECT * FROM t; CREATE VIEW w (x) AS SELECT a FROM v WITH CHECK OPTION;
             ALTER TABLE t RENAME TO u; ALTER TABLE u RENAME COLUMN a TO b; CREATE VIEW gone AS SELECT 1 AS one;
             DROP VIEW gone; CREATE TABLE copied AS SELECT * FROM w",
        );
    }
    let database = open();
    let mut session = database.session("ann", "shop");
    assert_eq!(ask(&mut session, "SELECT a, (SELECT x FROM w), (SELECT x FROM copied) FROM v"), ["10,10,10"]);
    assert_eq!(ask(&mut session, "SELECT viewname FROM pg_views ORDER BY 1"), ["v", "w"]);
    assert_eq!(run(&mut session, "DROP TABLE u"), Err(SqlState::DEPENDENT_OBJECTS_STILL_EXIST));
    assert_eq!(run(&mut session, "CREATE TABLE v (x integer)"), Err(SqlState::DUPLICATE_TABLE));
    assert_eq!(database.verify().unwrap().findings, [""; 0]);
    drop(session);
    drop(database);
    std::fs::remove_dir_all(&directory).unwrap();
}

/// A statement takes bounded work and stack, whatever its views stand for.
#[test]
fn views_stand_for_bounded_work() {
    let database = open(Scheme::SiSsn);
    let mut session = database.session("ann", "shop");
    ask(&mut session, "CREATE TABLE t (id integer PRIMARY KEY); CREATE VIEW v0 AS SELECT id FROM t");
    // Nested, and not pulled up; in expressions; each with nested queries of its own.
    let nested = |at: usize| {
        let below = at - 1;
        [
            format!("CREATE VIEW v{at} AS SELECT DISTINCT id FROM v{below} WHERE id IN (((1)))"),
            format!("CREATE VIEW v{at} AS SELECT id FROM t WHERE id + (SELECT max(id) FROM v{below}) > 0"),
            format!(
                "CREATE VIEW v{at} AS SELECT DISTINCT id FROM (SELECT DISTINCT id FROM (SELECT DISTINCT id FROM
                 (SELECT DISTINCT id FROM (SELECT DISTINCT id FROM v{below}) a) b) c) d"
            ),
        ]
    };
    for kind in 0..3 {
        let refused = (1..50).find_map(|at| Some((at, run(&mut session, &nested(at)[kind]).err()?)));
        let (at, error) = refused.unwrap();
        assert_eq!(error, SqlState::STATEMENT_TOO_COMPLEX, "{kind}");
        assert!(at > 6, "{kind}: {at}");
        ask(&mut session, &format!("SELECT * FROM v{}", at - 1));
        ask(&mut session, "DROP VIEW v0 CASCADE; CREATE VIEW v0 AS SELECT id FROM t");
    }
    // Each is used twice by the next.
    ask(&mut session, "CREATE VIEW w0 AS SELECT id FROM t");
    let refused = (1..40).find_map(|at| {
        let below = at - 1;
        run(&mut session, &format!("CREATE VIEW w{at} AS SELECT x.id FROM w{below} x, w{below} y")).err()
    });
    assert_eq!(refused, Some(SqlState::STATEMENT_TOO_COMPLEX));
    ask(&mut session, "SELECT count(*) FROM w4");
}
