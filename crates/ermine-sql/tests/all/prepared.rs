//! Goal: a prepared transaction survives, holds its writes, and happens once or not at all.
//! Method: sessions of one thread, on databases that are closed, or copied from the disk while open, and opened again.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use ermine::{Database, Options, Scheme};
use ermine_sql::{Session, SqlDatabase, SqlState};

use crate::sessions::{ask, run};

/// A directory that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ermine-prepared-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(path: &Path) -> SqlDatabase {
    SqlDatabase::open(Arc::new(Database::open(path, Options::default()).unwrap())).unwrap()
}

fn in_memory(scheme: Scheme) -> SqlDatabase {
    let engine = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
    SqlDatabase::open(Arc::new(engine)).unwrap()
}

fn session(database: &SqlDatabase) -> Session {
    let mut session = database.session("tester", "test");
    ask(&mut session, "SET lock_timeout = '10ms'");
    session
}

fn fill(session: &mut Session) {
    ask(session, "CREATE TABLE t (id integer PRIMARY KEY, v text UNIQUE)");
    ask(session, "INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three')");
}

/// Updates, inserts and deletes a row each, and prepares the transaction.
fn prepare(session: &mut Session, level: &str, gid: &str) {
    ask(session, &format!("BEGIN ISOLATION LEVEL {level}"));
    ask(session, "UPDATE t SET v = 'uno' WHERE id = 1");
    ask(session, "INSERT INTO t VALUES (4, 'four')");
    ask(session, "DELETE FROM t WHERE id = 3");
    ask(session, &format!("PREPARE TRANSACTION '{gid}'"));
}

const BEFORE: [&str; 3] = ["1,one", "2,two", "3,three"];
const AFTER: [&str; 3] = ["1,uno", "2,two", "4,four"];

/// Copies the files while the database is open: the state that a crash leaves.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else {
            std::fs::copy(path, to.join(name)).unwrap();
        }
    }
}

#[test]
fn it_is_committed_or_rolled_back_by_any_session() {
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        for commits in [true, false] {
            let database = in_memory(Scheme::SiSsn);
            let (mut one, mut other) = (session(&database), session(&database));
            fill(&mut one);
            prepare(&mut one, level, "a gid");
            assert_eq!(one.status(), ermine_sql::Status::Idle);
            // Other transactions cannot change its writes.
            assert!(run(&mut other, "UPDATE t SET v = 'x' WHERE id = 1").is_err(), "{level}");
            assert!(run(&mut other, "INSERT INTO t VALUES (5, 'four')").is_err(), "{level}");
            ask(&mut other, "BEGIN");
            // A name is used once.
            assert_eq!(run(&mut other, "PREPARE TRANSACTION 'a gid'"), Err(SqlState::DUPLICATE_OBJECT), "{level}");
            if commits {
                ask(&mut other, "COMMIT PREPARED 'a gid'");
            } else {
                ask(&mut other, "ROLLBACK PREPARED 'a gid'");
            }
            let expected = if commits { AFTER } else { BEFORE };
            assert_eq!(ask(&mut other, "SELECT * FROM t ORDER BY id"), expected, "{level}");
            assert_eq!(run(&mut one, "COMMIT PREPARED 'a gid'"), Err(SqlState::UNDEFINED_OBJECT));
            ask(&mut one, "UPDATE t SET v = 'y' WHERE id = 1");
        }
    }
}

#[test]
fn it_survives_a_stop_and_a_crash() {
    for level in ["READ COMMITTED", "SERIALIZABLE"] {
        for (crashes, commits) in [(false, true), (true, true), (true, false)] {
            let scratch = Scratch::new("crash");
            let (home, copied) = (scratch.0.join("db"), scratch.0.join("copy"));
            let database = open(&home);
            let mut one = session(&database);
            fill(&mut one);
            prepare(&mut one, level, "it''s");
            let path = if crashes {
                copy(&home, &copied);
                &copied
            } else {
                drop((one, database));
                &home
            };
            let database = open(path);
            let mut one = session(&database);
            assert!(run(&mut one, "UPDATE t SET v = 'x' WHERE id = 1").is_err(), "{level}");
            let expected = if commits { AFTER } else { BEFORE };
            ask(&mut one, if commits { "COMMIT PREPARED 'it''s'" } else { "ROLLBACK PREPARED 'it''s'" });
            assert_eq!(ask(&mut one, "SELECT * FROM t ORDER BY id"), expected, "{level}");
            drop((one, database));
            // A transaction ends once.
            let mut one = session(&open(path));
            assert_eq!(ask(&mut one, "SELECT * FROM t ORDER BY id"), expected);
            assert_eq!(run(&mut one, "COMMIT PREPARED 'it''s'"), Err(SqlState::UNDEFINED_OBJECT));
        }
    }
}

/// A table that it has locked before it used it is among those that it writes.
#[test]
fn what_it_has_locked_survives_a_stop() {
    let scratch = Scratch::new("locked");
    let home = scratch.0.join("db");
    let database = open(&home);
    let mut one = session(&database);
    fill(&mut one);
    ask(&mut one, "BEGIN");
    ask(&mut one, "LOCK TABLE t");
    ask(&mut one, "INSERT INTO t VALUES (77, 'new')");
    ask(&mut one, "PREPARE TRANSACTION 'locks'");
    drop((one, database));
    let mut one = session(&open(&home));
    ask(&mut one, "COMMIT PREPARED 'locks'");
    assert_eq!(ask(&mut one, "SELECT v FROM t WHERE id = 77"), ["new"]);
}

/// Where rows have numbers, the inserted rows keep theirs: a new row gets another one.
#[test]
fn its_rows_keep_their_numbers_after_a_crash() {
    let scratch = Scratch::new("numbers");
    let (home, copied) = (scratch.0.join("db"), scratch.0.join("copy"));
    let database = open(&home);
    let mut one = session(&database);
    ask(&mut one, "CREATE TABLE t (v text)");
    ask(&mut one, "BEGIN ISOLATION LEVEL READ COMMITTED; INSERT INTO t VALUES ('one'), ('two')");
    ask(&mut one, "PREPARE TRANSACTION 'two rows'");
    copy(&home, &copied);
    let database = open(&copied);
    let mut one = session(&database);
    // In a snapshot, where nothing is retried.
    ask(&mut one, "BEGIN ISOLATION LEVEL REPEATABLE READ; INSERT INTO t VALUES ('three'); COMMIT");
    ask(&mut one, "COMMIT PREPARED 'two rows'");
    assert_eq!(ask(&mut one, "SELECT v FROM t ORDER BY v"), ["one", "three", "two"]);
}

/// Each transaction has read what the other writes: the one that prepares first commits, the other one must not.
#[test]
fn what_a_serializable_one_has_read_stays() {
    for scheme in [Scheme::SiSsn, Scheme::SiSsi, Scheme::MvOcc] {
        let database = in_memory(scheme);
        let (mut one, mut other) = (session(&database), session(&database));
        fill(&mut one);
        ask(&mut one, "CREATE TABLE u (id integer PRIMARY KEY)");
        for (session, table, row) in [(&mut one, "u", "t VALUES (9, 'nine')"), (&mut other, "t", "u VALUES (1)")] {
            ask(session, "BEGIN");
            ask(session, &format!("SELECT count(*) FROM {table}"));
            ask(session, &format!("INSERT INTO {row}"));
        }
        ask(&mut one, "PREPARE TRANSACTION 'one'");
        // The other transaction has read what is written here, and writes what was read here.
        assert_eq!(run(&mut other, "PREPARE TRANSACTION 'other'"), Err(SqlState::SERIALIZATION_FAILURE), "{scheme}");
        ask(&mut one, "ROLLBACK PREPARED 'one'");
        // The reads have become invalid since.
        ask(&mut one, "BEGIN");
        ask(&mut one, "SELECT count(*) FROM u");
        ask(&mut one, "INSERT INTO t VALUES (9, 'nine')");
        ask(&mut other, "INSERT INTO u VALUES (1)");
        let prepared = run(&mut one, "PREPARE TRANSACTION 'one'");
        assert_eq!(prepared, Err(SqlState::SERIALIZATION_FAILURE), "{scheme}");
        // The reads cannot change.
        ask(&mut one, "BEGIN");
        ask(&mut one, "SELECT count(*) FROM u");
        ask(&mut one, "INSERT INTO t VALUES (9, 'nine')");
        ask(&mut one, "PREPARE TRANSACTION 'one'");
        assert_eq!(run(&mut other, "INSERT INTO u VALUES (2)"), Err(SqlState::SERIALIZATION_FAILURE), "{scheme}");
        ask(&mut other, "BEGIN ISOLATION LEVEL READ COMMITTED");
        assert_eq!(run(&mut other, "INSERT INTO u VALUES (2)"), Err(SqlState::LOCK_NOT_AVAILABLE), "{scheme}");
        ask(&mut other, "ROLLBACK");
        // Readers are not blocked, at any level, nor are writers elsewhere.
        for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
            ask(&mut other, &format!("BEGIN ISOLATION LEVEL {level}"));
            assert_eq!(ask(&mut other, "SELECT count(*) FROM t, u"), ["3"], "{scheme}");
            ask(&mut other, "UPDATE t SET v = v || '!' WHERE id = 2");
            ask(&mut other, "COMMIT");
        }
        ask(&mut one, "COMMIT PREPARED 'one'");
        ask(&mut other, "INSERT INTO u VALUES (2)");
        assert_eq!(ask(&mut one, "SELECT v FROM t WHERE id = 9"), ["nine"]);
    }
}

/// Of three transactions that each have read what the next one writes, one is prepared; the others succeed after a
/// retry.
#[test]
fn of_three_in_a_circle_the_first_stays() {
    for scheme in [Scheme::SiSsn, Scheme::SiSsi, Scheme::MvOcc] {
        let database = in_memory(scheme);
        let mut sessions = [(); 3].map(|()| session(&database));
        fill(&mut sessions[0]);
        for (at, session) in sessions.iter_mut().enumerate() {
            ask(session, "BEGIN");
            ask(session, &format!("SELECT v FROM t WHERE id = {}", at + 1));
            ask(session, &format!("UPDATE t SET v = 'by {at}' WHERE id = {}", (at + 1) % 3 + 1));
        }
        let prepared: Vec<_> =
            (0..3).map(|at| run(&mut sessions[at], &format!("PREPARE TRANSACTION 'p{at}'"))).collect();
        assert!(prepared[0].is_ok(), "{scheme}: {prepared:?}");
        let lost = prepared[1..].iter().filter(|end| **end == Err(SqlState::SERIALIZATION_FAILURE)).count();
        assert!(lost >= 1, "{scheme}: {prepared:?}");
        for (at, end) in prepared.iter().enumerate() {
            if end.is_ok() {
                ask(&mut sessions[0], &format!("COMMIT PREPARED 'p{at}'"));
            }
        }
    }
}

/// It holds rows and ranges, not tables, and the same ones after a crash.
#[test]
fn what_was_read_is_held_by_rows_and_ranges_also_after_a_crash() {
    let scratch = Scratch::new("ranges");
    let (home, copied) = (scratch.0.join("db"), scratch.0.join("copy"));
    let held = |one: &mut Session, when: &str| {
        for (text, is_held) in [
            ("UPDATE t SET n = 0 WHERE id = 10", true),
            ("DELETE FROM t WHERE id = 10", true),
            ("UPDATE t SET n = 0 WHERE id = 25", true),
            // No row was there, and none is inserted.
            ("INSERT INTO t VALUES (22, 7)", true),
            ("INSERT INTO t VALUES (1000, 1)", true),
            // The range of the index.
            ("INSERT INTO t VALUES (2000, 505)", true),
            ("UPDATE t SET n = 505 WHERE id = 90", true),
            // Beside them.
            ("UPDATE t SET n = n WHERE id = 11", false),
            ("UPDATE t SET n = n WHERE id = 90", false),
            ("INSERT INTO t VALUES (1001, 1)", false),
            ("DELETE FROM t WHERE id = 1001", false),
        ] {
            let done = run(one, text);
            assert_eq!(done == Err(SqlState::SERIALIZATION_FAILURE), is_held, "{when}: {text}: {done:?}");
            assert!(is_held || done.is_ok(), "{when}: {text}: {done:?}");
        }
        ask(one, "BEGIN");
        ask(one, "SELECT count(*) FROM t");
        ask(one, "COMMIT");
    };
    let database = open(&home);
    let mut one = session(&database);
    ask(&mut one, "CREATE TABLE t (id int PRIMARY KEY, n int); CREATE INDEX by_n ON t (n)");
    ask(&mut one, "INSERT INTO t SELECT i, i * 10 FROM generate_series(1, 100) AS s (i) WHERE i <> 22");
    ask(&mut one, "CREATE TABLE u (id int PRIMARY KEY)");
    ask(&mut one, "BEGIN");
    ask(&mut one, "SELECT n FROM t WHERE id = 10");
    ask(&mut one, "SELECT n FROM t WHERE id BETWEEN 20 AND 30");
    ask(&mut one, "SELECT n FROM t WHERE id = 1000");
    ask(&mut one, "SELECT id FROM t WHERE n BETWEEN 501 AND 509");
    ask(&mut one, "INSERT INTO u VALUES (1)");
    ask(&mut one, "PREPARE TRANSACTION 'held'");
    held(&mut one, "before");
    copy(&home, &copied);
    drop((one, database));
    for (path, commits) in [(&home, false), (&copied, true)] {
        let database = open(path);
        let mut one = session(&database);
        held(&mut one, "afterwards");
        let end = if commits { "COMMIT" } else { "ROLLBACK" };
        // Another transaction that has read its writes is no reason to lose.
        let mut other = session(&database);
        ask(&mut other, "BEGIN");
        ask(&mut other, "SELECT * FROM u");
        ask(&mut one, &format!("{end} PREPARED 'held'"));
        ask(&mut other, "COMMIT");
        assert_eq!(ask(&mut one, "SELECT count(*) FROM u"), [if commits { "1" } else { "0" }]);
        ask(&mut one, "UPDATE t SET n = 0 WHERE id = 10");
        ask(&mut one, "INSERT INTO t VALUES (22, 7)");
    }
}

#[test]
fn what_cannot_be_prepared_is_rolled_back() {
    let database = in_memory(Scheme::SiSsn);
    let mut one = session(&database);
    fill(&mut one);
    ask(&mut one, "BEGIN");
    ask(&mut one, "CREATE TABLE u (id integer)");
    assert_eq!(run(&mut one, "PREPARE TRANSACTION 'ddl'"), Err(SqlState::FEATURE_NOT_SUPPORTED));
    assert_eq!(one.status(), ermine_sql::Status::Idle);
    assert_eq!(run(&mut one, "SELECT * FROM u"), Err(SqlState::UNDEFINED_TABLE));
    ask(&mut one, "BEGIN");
    assert!(run(&mut one, "INSERT INTO t VALUES (1, 'again')").is_err());
    // The transaction has failed: PREPARE rolls it back.
    ask(&mut one, "PREPARE TRANSACTION 'failed'");
    assert_eq!(run(&mut one, "COMMIT PREPARED 'failed'"), Err(SqlState::UNDEFINED_OBJECT));
    ask(&mut one, "BEGIN");
    assert_eq!(run(&mut one, "COMMIT PREPARED 'failed'"), Err(SqlState::ACTIVE_SQL_TRANSACTION));
    ask(&mut one, "ROLLBACK");
    let database = in_memory(Scheme::Silo);
    let mut one = session(&database);
    ask(&mut one, "BEGIN");
    assert_eq!(run(&mut one, "PREPARE TRANSACTION 'silo'"), Err(SqlState::FEATURE_NOT_SUPPORTED));
}

#[test]
fn one_that_has_only_read_can_be_prepared() {
    let database = in_memory(Scheme::SiSsn);
    let mut one = session(&database);
    fill(&mut one);
    for begin in ["BEGIN READ ONLY", "BEGIN"] {
        for end in ["COMMIT", "ROLLBACK"] {
            ask(&mut one, begin);
            ask(&mut one, "SELECT count(*) FROM t");
            ask(&mut one, "PREPARE TRANSACTION 'r'");
            assert_eq!(ask(&mut one, "SELECT gid, owner FROM pg_prepared_xacts"), ["r,tester"]);
            ask(&mut one, &format!("{end} PREPARED 'r'"));
            assert!(ask(&mut one, "SELECT gid FROM pg_prepared_xacts").is_empty());
        }
    }
}

/// After a crash nearly everything is old. A transaction that has read much must not hold more than before.
#[test]
fn two_that_went_together_do_so_after_a_crash() {
    let scratch = Scratch::new("together");
    let database = open(&scratch.0);
    let (mut one, mut other) = (session(&database), session(&database));
    ask(
        &mut one,
        "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t SELECT i, i FROM generate_series(1, 300) AS s (i)",
    );
    ask(&mut one, "CREATE TABLE u (id int PRIMARY KEY)");
    ask(&mut one, "BEGIN");
    assert_eq!(ask(&mut one, "SELECT count(*) FROM t WHERE id BETWEEN 1 AND 200"), ["200"]);
    ask(&mut one, "INSERT INTO u VALUES (1)");
    ask(&mut one, "PREPARE TRANSACTION 'reader'");
    ask(&mut other, "BEGIN");
    ask(&mut other, "INSERT INTO t VALUES (1000, 0)");
    ask(&mut other, "PREPARE TRANSACTION 'writer'");
    drop((one, other, database));
    for _ in 0..2 {
        let database = open(&scratch.0);
        let mut one = session(&database);
        assert_eq!(ask(&mut one, "SELECT count(*) FROM pg_prepared_xacts"), ["2"]);
        assert_eq!(run(&mut one, "UPDATE t SET n = 0 WHERE id = 7"), Err(SqlState::SERIALIZATION_FAILURE));
        ask(&mut one, "UPDATE t SET n = 0 WHERE id = 250");
    }
    let database = open(&scratch.0);
    let mut one = session(&database);
    ask(&mut one, "COMMIT PREPARED 'writer'");
    ask(&mut one, "COMMIT PREPARED 'reader'");
    assert_eq!(ask(&mut one, "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM u)"), ["301,1"]);
}
