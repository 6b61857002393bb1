//! Goal: a transaction that is prepared has promised to commit: it survives, holds what it wrote, and happens once or not at all.
//! Method: sessions of one thread, on databases that are closed, or copied as they lie on the disk, and opened again.

mod sessions;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use ermine::{Database, Options, Scheme};
use ermine_sql::{Session, SqlDatabase, SqlState};

use sessions::{ask, run};

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

/// Updates, inserts and deletes a row each, and prepares that.
fn prepare(session: &mut Session, level: &str, gid: &str) {
    ask(session, &format!("BEGIN ISOLATION LEVEL {level}"));
    ask(session, "UPDATE t SET v = 'uno' WHERE id = 1");
    ask(session, "INSERT INTO t VALUES (4, 'four')");
    ask(session, "DELETE FROM t WHERE id = 3");
    ask(session, &format!("PREPARE TRANSACTION '{gid}'"));
}

const BEFORE: [&str; 3] = ["1,one", "2,two", "3,three"];
const AFTER: [&str; 3] = ["1,uno", "2,two", "4,four"];

/// A copy of the files while the database is open: what a crash leaves.
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
            // What it has written is its own.
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
            // Once.
            let mut one = session(&open(path));
            assert_eq!(ask(&mut one, "SELECT * FROM t ORDER BY id"), expected);
            assert_eq!(run(&mut one, "COMMIT PREPARED 'it''s'"), Err(SqlState::UNDEFINED_OBJECT));
        }
    }
}

/// Where rows have numbers, those that it has inserted have theirs: a new row gets another one.
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
    // In a snapshot, where nothing is tried again.
    ask(&mut one, "BEGIN ISOLATION LEVEL REPEATABLE READ; INSERT INTO t VALUES ('three'); COMMIT");
    ask(&mut one, "COMMIT PREPARED 'two rows'");
    assert_eq!(ask(&mut one, "SELECT v FROM t ORDER BY v"), ["one", "three", "two"]);
}

/// Each has read what the other writes: whoever prepares first commits, the other one must not.
#[test]
fn what_a_serializable_one_has_read_stays() {
    for scheme in [Scheme::SiSsn, Scheme::SiSsi, Scheme::MvOcc] {
        let database = in_memory(scheme);
        let (mut one, mut other) = (session(&database), session(&database));
        fill(&mut one);
        ask(&mut one, "CREATE TABLE u (id integer PRIMARY KEY)");
        for (session, table) in [(&mut one, "u"), (&mut other, "t")] {
            ask(session, "BEGIN");
            ask(session, &format!("SELECT count(*) FROM {table}"));
        }
        // It has not used t yet, and the other one goes on to write what it has read.
        ask(&mut one, "INSERT INTO t VALUES (9, 'nine')");
        let prepared = run(&mut one, "PREPARE TRANSACTION 'one'");
        assert_eq!(prepared, Err(SqlState::LOCK_NOT_AVAILABLE), "{scheme}: somebody else uses t");
        ask(&mut other, "ROLLBACK");
        // What was read has changed since.
        ask(&mut one, "BEGIN");
        ask(&mut one, "SELECT count(*) FROM u");
        ask(&mut one, "INSERT INTO t VALUES (9, 'nine')");
        ask(&mut other, "INSERT INTO u VALUES (1)");
        let prepared = run(&mut one, "PREPARE TRANSACTION 'one'");
        assert_eq!(prepared, Err(SqlState::SERIALIZATION_FAILURE), "{scheme}");
        // What was read cannot change.
        ask(&mut one, "BEGIN");
        ask(&mut one, "SELECT count(*) FROM u");
        ask(&mut one, "INSERT INTO t VALUES (9, 'nine')");
        ask(&mut one, "PREPARE TRANSACTION 'one'");
        assert_eq!(run(&mut other, "INSERT INTO u VALUES (2)"), Err(SqlState::LOCK_NOT_AVAILABLE), "{scheme}");
        ask(&mut one, "COMMIT PREPARED 'one'");
        ask(&mut other, "INSERT INTO u VALUES (2)");
        assert_eq!(ask(&mut one, "SELECT v FROM t WHERE id = 9"), ["nine"]);
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
    // It has failed: that is a rollback.
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
