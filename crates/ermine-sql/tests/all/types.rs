//! Goal: types that statements create last, and no transaction meets a value whose type it does not know.
//! Method: sessions of one thread, and threads, on databases in memory and on one that is closed and opened again.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use ermine::{Database, Options, Scheme};
use ermine_sql::{RowSet, SqlDatabase, SqlState};

use crate::sessions::{ask, run};

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ermine-types-{name}-{}", std::process::id()));
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
    SqlDatabase::open(Arc::new(Database::open_in_memory(Options::default().scheme(scheme)).unwrap())).unwrap()
}

#[test]
fn enumerations_are_there_after_a_database_is_opened_again() {
    let scratch = Scratch::new("enum");
    let mut rows = Vec::new();
    for round in 0..4 {
        let database = open(&scratch.0);
        // Neither the session that verifies nor a fresh one has looked the type up before.
        let found = database.verify().unwrap();
        assert_eq!(found.findings, Vec::<String>::new());
        let mut session = database.session("tester", "test");
        match round {
            0 => {
                ask(&mut session, "CREATE SCHEMA s; CREATE TYPE s.mood AS ENUM ('sad', 'happy')");
                ask(&mut session, "SET search_path = s, public");
                ask(
                    &mut session,
                    "CREATE TABLE t (m mood UNIQUE, a mood[], CHECK (m::text <> 'x' OR m = 'happy'::mood))",
                );
                ask(&mut session, "CREATE TABLE gone (id integer, m mood, n integer)");
                ask(&mut session, "INSERT INTO gone VALUES (1, 'sad', 7)");
                ask(&mut session, "INSERT INTO t VALUES ('happy', '{sad,happy}'), ('sad', NULL)");
            }
            1 => {
                ask(&mut session, "ALTER TYPE s.mood ADD VALUE 'fair' BEFORE 'happy'");
                ask(&mut session, "ALTER TYPE s.mood RENAME VALUE 'sad' TO 'low'");
                ask(&mut session, "INSERT INTO s.t VALUES ('fair', '{fair}')");
                ask(&mut session, "ALTER TABLE s.gone DROP COLUMN m");
            }
            2 => {
                assert_eq!(rows, ["low,", "fair,{fair}", "happy,{low,happy}"]);
                assert_eq!(ask(&mut session, "SELECT id, n FROM s.gone"), ["1,7"]);
                ask(&mut session, "DROP TYPE s.mood CASCADE");
                assert_eq!(ask(&mut session, "SELECT id, n FROM s.gone"), ["1,7"]);
            }
            _ => assert_eq!(ask(&mut session, "SELECT count(*) FROM pg_enum"), ["0"]),
        }
        if round < 2 {
            rows = ask(&mut session, "SELECT m, a FROM s.t ORDER BY m");
        }
    }
}

#[test]
fn a_type_does_not_go_where_a_table_comes() {
    for scheme in Scheme::ALL.into_iter().filter(|scheme| SqlDatabase::serves(*scheme) && scheme.has_versions()) {
        for (first, second) in [
            ("CREATE TABLE t (m mood)", "DROP TYPE mood"),
            ("DROP TYPE mood", "CREATE TABLE t (m mood)"),
            ("ALTER TABLE old ADD COLUMN m mood[]", "DROP TYPE mood"),
            ("ALTER TYPE mood ADD VALUE 'b'", "CREATE TABLE t (m mood)"),
            ("ALTER TYPE mood ADD VALUE 'b'", "ALTER TYPE mood ADD VALUE 'c'"),
            ("CREATE DOMAIN good AS mood", "DROP TYPE mood"),
            ("CREATE TABLE t (x text CHECK (x::mood = 'a'))", "DROP TYPE mood"),
            ("ALTER TABLE old ADD CHECK (id::text::mood = 'a')", "ALTER TYPE mood RENAME TO temper"),
            ("CREATE DOMAIN pos AS integer DEFAULT (CASE WHEN 'a'::mood = 'a' THEN 1 END)", "DROP TYPE mood"),
            ("CREATE TYPE other AS ENUM ()", "CREATE TYPE other AS ENUM ('x')"),
        ] {
            let database = in_memory(scheme);
            let mut sessions = [database.session("ann", "shop"), database.session("bert", "shop")];
            ask(&mut sessions[0], "CREATE TYPE mood AS ENUM ('a'); CREATE TABLE old (id integer)");
            for session in &mut sessions {
                ask(session, "SET lock_timeout = 1");
                ask(session, "BEGIN; SELECT 1");
            }
            let done = [run(&mut sessions[0], first), run(&mut sessions[1], second)];
            let ended = [run(&mut sessions[0], "COMMIT"), run(&mut sessions[1], "COMMIT")];
            let has_done = |at: usize| done[at].is_ok() && ended[at].is_ok();
            assert!(!(has_done(0) && has_done(1)), "{scheme}: {first}; {second}");
            assert!(has_done(0) || has_done(1), "{scheme}: {first}; {second}: {done:?} {ended:?}");
            assert_eq!(database.verify().unwrap().findings, Vec::<String>::new());
        }
    }
}

#[test]
fn readers_know_the_labels_of_all_rows() {
    for scheme in Scheme::ALL.into_iter().filter(|scheme| SqlDatabase::serves(*scheme)) {
        let database = in_memory(scheme);
        let mut writer = database.session("ann", "shop");
        ask(&mut writer, "CREATE TYPE mood AS ENUM ('l0'); CREATE TABLE t (id integer PRIMARY KEY, m mood)");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for level in ["READ COMMITTED", "REPEATABLE READ", "READ COMMITTED"] {
                let mut reader = database.session("bert", "shop");
                let is_over = &is_over;
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let _ = run(&mut reader, &format!("BEGIN ISOLATION LEVEL {level}"));
                        for _ in 0..2 {
                            for row in run(&mut reader, "SELECT m FROM t").unwrap_or_default() {
                                assert!(row.starts_with('l'), "{scheme} {level}: {row}");
                            }
                        }
                        let _ = run(&mut reader, "ROLLBACK");
                    }
                });
            }
            for at in 1..20 {
                for statement in [
                    format!("ALTER TYPE mood ADD VALUE 'l{at}' BEFORE 'l0'"),
                    format!("INSERT INTO t VALUES ({at}, 'l{at}')"),
                ] {
                    while let Err(error) = run(&mut writer, &statement) {
                        let retried = [SqlState::SERIALIZATION_FAILURE, SqlState::LOCK_NOT_AVAILABLE];
                        assert!(retried.contains(&error), "{scheme}: {statement}: {error:?}");
                    }
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert_eq!(ask(&mut writer, "SELECT count(*) FROM t"), ["19"]);
    }
}

#[test]
fn plans_and_cursors_outlive_changes_of_types() {
    let database = in_memory(Scheme::SiSsn);
    let (mut one, mut other) = (database.session("ann", "shop"), database.session("bert", "shop"));
    ask(&mut one, "CREATE TYPE mood AS ENUM ('a', 'b'); CREATE TABLE t (m mood); INSERT INTO t VALUES ('b')");
    let select = one.prepare("SELECT m FROM t WHERE m >= 'a'", &[]).unwrap();
    let insert = one.prepare("INSERT INTO t VALUES ($1)", &[]).unwrap();
    ask(&mut other, "ALTER TYPE mood RENAME VALUE 'b' TO 'c'");
    let mut rows = RowSet::default();
    drop(one.execute(&select, &[], &mut rows).unwrap());
    assert_eq!(rows.texts(), [["c"]]);
    ask(&mut other, "ALTER TYPE mood RENAME VALUE 'a' TO 'z'");
    assert_eq!(
        one.execute(&select, &[], &mut rows).map(drop).unwrap_err().state(),
        SqlState::INVALID_TEXT_REPRESENTATION
    );
    // A cursor keeps values of a type that its own transaction drops.
    ask(&mut one, "BEGIN; DECLARE c CURSOR FOR SELECT 'c'::mood FROM t");
    ask(&mut one, "DROP TABLE t; DROP TYPE mood");
    assert_eq!(ask(&mut one, "FETCH c").len(), 1);
    assert!(run(&mut one, "COMMIT").is_ok());
    assert!(one.execute(&insert, &[ermine_sql::types::Value::Null], &mut rows).is_err());
    assert_eq!(run(&mut one, "SELECT 'c'::mood"), Err(SqlState::UNDEFINED_OBJECT));
}
