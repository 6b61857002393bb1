//! Goal: an index that is built while writers run has exactly the entries of the rows; a constraint that is added
//! meanwhile holds for all rows; an addition that fails does not exist.
//! Method: sessions of one database, in threads that write at random, and step by step where an order of steps matters.
//! Afterwards rows and entries are compared one by one.

use std::{
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use ermine::{Database, Options, Scheme};

use super::*;
use crate::{
    result::RowSet,
    session::{
        Session, SqlDatabase,
        tree::{self, Tree},
    },
};

fn database(scheme: Scheme) -> SqlDatabase {
    SqlDatabase::open(Arc::new(Database::open_in_memory(Options::default().scheme(scheme)).unwrap())).unwrap()
}

fn session(database: &SqlDatabase) -> Session {
    database.session("tester", "test")
}

/// Ends the writers, even when a test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a text; returns the rows, or the code of the error.
fn run(session: &mut Session, text: &str) -> Result<Vec<Vec<String>>, &'static str> {
    let mut rows = RowSet::default();
    session.run(text, &mut rows).map_err(|error| error.state().0)?;
    Ok(rows.texts())
}

/// Begins the addition of a text that has one statement.
fn begin(session: &mut Session, text: &str) -> Begun {
    let Tree::Plain(statement) = tree::statements(text).unwrap().remove(0) else { panic!("{text}") };
    let definition = Definition::of(&statement).unwrap().unwrap();
    let begun = session.change_context().begin_addition(&definition.addition().unwrap(), &mut RowSet::default());
    begun.unwrap().unwrap()
}

const SCHEMES: [Scheme; 6] =
    [Scheme::SiSsn, Scheme::Si, Scheme::RcSsn, Scheme::MvOcc, Scheme::Silo, Scheme::TwoPhaseWaitDie];

/// Indexes are created and dropped while other sessions insert, update, delete and move rows.
#[test]
fn writers_and_builds_go_on_together() {
    for scheme in SCHEMES {
        for key in ["PRIMARY KEY", "NOT NULL"] {
            let database = database(scheme);
            let mut own = session(&database);
            run(&mut own, &format!("CREATE TABLE t (id int {key}, a int, b int)")).unwrap();
            run(&mut own, "INSERT INTO t SELECT n, n % 40, n FROM generate_series(1, 600) n").unwrap();
            let seed = fastrand::u64(..);
            println!("{scheme}, seed {seed}");
            // No writer runs while rows and entries are compared: under some schemes a transaction that reads
            // everything always loses.
            let (has_ended, writing) = (AtomicBool::new(false), RwLock::new(()));
            thread::scope(|scope| {
                let _ends = Ends(&has_ended);
                for writer in 0..2 {
                    let (mut session, has_ended, writing) = (session(&database), &has_ended, &writing);
                    scope.spawn(move || {
                        let mut random = fastrand::Rng::with_seed(seed ^ writer);
                        while !has_ended.load(Ordering::Relaxed) {
                            let (one, other) = (random.u32(1..700), random.u32(1..50));
                            let text = match random.u32(..8) {
                                0 => format!(
                                    "INSERT INTO t SELECT {one}, {other}, {one} WHERE NOT EXISTS (SELECT FROM \
                                     t WHERE id = {one})"
                                ),
                                1 => format!("DELETE FROM t WHERE id = {one}"),
                                2 => format!("UPDATE t SET id = id + 1000, b = b + 1000 WHERE id = {one}"),
                                3 => format!("UPDATE t SET id = id - 1000, b = b - 1000 WHERE id = {}", one + 1000),
                                4 => format!("UPDATE t SET a = NULL WHERE id = {one}"),
                                5 => format!(
                                    "BEGIN; UPDATE t SET a = a + 1 WHERE id = {one}; UPDATE t SET a = a + 1 \
                                     WHERE id = {other}; COMMIT"
                                ),
                                6 => format!("UPDATE t SET b = -b WHERE id = {one}"),
                                _ => format!("UPDATE t SET a = {other} WHERE id = {one}"),
                            };
                            // A key that is taken, a unique index that is being built, a lost conflict.
                            let _writing = writing.read().unwrap_or_else(PoisonError::into_inner);
                            match run(&mut session, &text) {
                                Ok(_) => {}
                                Err("23505" | "40001") => drop(run(&mut session, "ROLLBACK")),
                                Err(code) => panic!("{text}: {code}"),
                            }
                        }
                    });
                }
                for _ in 0..2 {
                    for index in
                        ["INDEX i ON t (a)", "UNIQUE INDEX i ON t (b)", "INDEX i ON t (a DESC, b) WHERE b > 100"]
                    {
                        match run(&mut own, &format!("CREATE {index}")) {
                            Ok(_) => {
                                let alone = writing.write().unwrap();
                                assert_eq!(own.disagreements().unwrap(), [""; 0], "{index}");
                                drop(alone);
                                run(&mut own, "DROP INDEX i").unwrap();
                            }
                            // Rows that have come to have the same number.
                            Err("23505") if index.starts_with("UNIQUE") => {}
                            Err(code) => panic!("{index}: {code}"),
                        }
                    }
                }
            });
        }
    }
}

/// A transaction that does not know of the index writes a row that the batches do not see.
#[test]
fn without_waiting_for_users_an_index_lacks_entries() {
    for waits in [false, true] {
        let database = database(Scheme::SiSsn);
        let (mut own, mut other) = (session(&database), session(&database));
        run(&mut own, "CREATE TABLE t (id int PRIMARY KEY, a int); INSERT INTO t VALUES (1, 1), (2, 2)").unwrap();
        run(&mut other, "BEGIN; INSERT INTO t VALUES (3, 3)").unwrap();
        let begun = begin(&mut own, "CREATE INDEX i ON t (a)");
        if waits {
            own.environment.interrupt.deadline = Some(Instant::now() + Duration::from_millis(20));
            let waited = own.change_context().outlast_users(&begun);
            own.environment.interrupt.deadline = None;
            assert_eq!(waited.unwrap_err().state(), SqlState::QUERY_CANCELED);
            run(&mut other, "COMMIT").unwrap();
            own.change_context().outlast_users(&begun).unwrap();
            own.change_context().go_through(&begun).unwrap();
        } else {
            own.change_context().go_through(&begun).unwrap();
            run(&mut other, "COMMIT").unwrap();
        }
        drop(own.change_context().finish_addition(&begun).unwrap());
        drop(begun);
        assert_eq!(own.disagreements().unwrap().is_empty(), waits);
    }
}

/// A transaction that does not know of the constraint writes a row that breaks it, behind the batches.
#[test]
fn without_waiting_for_users_a_constraint_does_not_hold() {
    for (text, row) in
        [("ALTER TABLE t ADD CHECK (a > 0)", "(3, -3)"), ("ALTER TABLE t ALTER a SET NOT NULL", "(3, NULL)")]
    {
        for waits in [false, true] {
            let database = database(Scheme::SiSsn);
            let (mut own, mut other) = (session(&database), session(&database));
            run(&mut own, "CREATE TABLE t (id int PRIMARY KEY, a int); INSERT INTO t VALUES (1, 1), (2, 2)").unwrap();
            run(&mut other, &format!("BEGIN; INSERT INTO t VALUES {row}")).unwrap();
            let begun = begin(&mut own, text);
            if waits {
                run(&mut other, "COMMIT").unwrap();
                own.change_context().outlast_users(&begun).unwrap();
            }
            let holds = own.change_context().go_through(&begun).map_err(|error| error.state());
            if waits {
                assert!(matches!(holds, Err(SqlState::CHECK_VIOLATION | SqlState::NOT_NULL_VIOLATION)), "{text}");
                drop(own.change_context().take_away(&begun).unwrap());
            } else {
                assert_eq!(holds, Ok(()), "{text}: the row is not seen");
                run(&mut other, "COMMIT").unwrap();
            }
        }
    }
}

/// A transaction that knows the index writes the entry of a row; then one that began before the index changes the row.
/// Without snapshots the second one does not conflict with the first.
#[test]
fn entries_that_older_transactions_outdate_are_purged() {
    let database = database(Scheme::Silo);
    let (mut own, mut old, mut new) = (session(&database), session(&database), session(&database));
    run(&mut own, "CREATE TABLE t (id int PRIMARY KEY, a int); INSERT INTO t VALUES (1, 1), (2, 2)").unwrap();
    run(&mut old, "BEGIN; UPDATE t SET a = 7 WHERE id = 2").unwrap();
    let begun = begin(&mut own, "CREATE INDEX i ON t (a)");
    run(&mut new, "UPDATE t SET a = 5 WHERE id = 1").unwrap();
    run(&mut old, "UPDATE t SET a = 6 WHERE id = 1; COMMIT").unwrap();
    own.change_context().outlast_users(&begun).unwrap();
    own.change_context().go_through(&begun).unwrap();
    drop(own.change_context().finish_addition(&begun).unwrap());
    drop(begun);
    assert_eq!(own.disagreements().unwrap(), [""; 0]);
}

/// A row that the batches have not reached is equal to a row that has its entry, and is deleted: the entry stays.
#[test]
fn a_row_without_entry_takes_none_away() {
    let database = database(Scheme::SiSsn);
    let (mut own, mut other) = (session(&database), session(&database));
    run(&mut own, "CREATE TABLE t (id int PRIMARY KEY, a int); INSERT INTO t VALUES (0, 0), (5, 1), (6, 2)").unwrap();
    let begun = begin(&mut own, "CREATE UNIQUE INDEX i ON t (a)");
    own.change_context().outlast_users(&begun).unwrap();
    let (_, behind_first) = own.change_context().batch(&begun, Batch::Fill, &[], 1).unwrap();
    let behind_first = behind_first.unwrap();
    run(&mut other, "INSERT INTO t VALUES (-2, 1), (-1, 2)").unwrap();
    assert_eq!(run(&mut other, "INSERT INTO t VALUES (3, 1)"), Err("23505"), "those that have entries are unique");
    run(&mut other, "DELETE FROM t WHERE id = 5; UPDATE t SET a = 3 WHERE id = 6").unwrap();
    assert_eq!(own.change_context().batch(&begun, Batch::Fill, &behind_first, 10).unwrap().1, None);
    drop(own.change_context().finish_addition(&begun).unwrap());
    drop(begun);
    assert_eq!(own.disagreements().unwrap(), [""; 0]);
}

/// No statement reads an index before it is finished, or relies on an unfinished NOT NULL of a column.
#[test]
fn what_is_unfinished_is_not_relied_on() {
    let database = database(Scheme::SiSsn);
    let (mut own, mut other) = (session(&database), session(&database));
    run(&mut own, "CREATE TABLE t (id int PRIMARY KEY, a int); INSERT INTO t VALUES (1, 1), (2, NULL)").unwrap();
    run(&mut own, "CREATE INDEX i ON t (a)").unwrap();
    let begun = begin(&mut own, "ALTER TABLE t ALTER a SET NOT NULL");
    assert_eq!(run(&mut other, "INSERT INTO t VALUES (3, NULL)"), Err("23502"));
    assert_eq!(run(&mut other, "SELECT id FROM t ORDER BY a NULLS FIRST").unwrap(), [["2"], ["1"]]);
    assert_eq!(own.change_context().go_through(&begun).unwrap_err().state(), SqlState::NOT_NULL_VIOLATION);
    drop(own.change_context().take_away(&begun).unwrap());
    drop(begun);
    run(&mut other, "INSERT INTO t VALUES (3, NULL)").unwrap();

    let begun = begin(&mut own, "CREATE UNIQUE INDEX one ON t (a)");
    assert_eq!(run(&mut other, "SELECT a FROM t WHERE a = 1").unwrap(), [["1"]]);
    assert_eq!(run(&mut other, "INSERT INTO t VALUES (4, 1) ON CONFLICT (a) DO NOTHING"), Err("42P10"));
    assert_eq!(
        run(
            &mut other,
            "SELECT indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE relname = 'one'"
        )
        .unwrap(),
        [["f"]]
    );
    own.change_context().outlast_users(&begun).unwrap();
    own.change_context().go_through(&begun).unwrap();
    drop(own.change_context().finish_addition(&begun).unwrap());
    drop(begun);
    run(&mut other, "INSERT INTO t VALUES (4, 1) ON CONFLICT (a) DO NOTHING").unwrap();
}

/// A waiting statement ends when it is cancelled or times out, and leaves nothing behind.
#[test]
fn waiting_for_users_ends() {
    let database = database(Scheme::SiSsn);
    let (mut own, mut other) = (session(&database), session(&database));
    run(&mut own, "CREATE TABLE t (id int PRIMARY KEY, a int)").unwrap();
    run(&mut other, "BEGIN; INSERT INTO t VALUES (1, 1)").unwrap();
    own.set("statement_timeout", "20").unwrap();
    assert_eq!(run(&mut own, "CREATE INDEX i ON t (a)"), Err("57014"));
    own.set("statement_timeout", "0").unwrap();
    own.set("lock_timeout", "20").unwrap();
    assert_eq!(run(&mut own, "ALTER TABLE t ADD CONSTRAINT i UNIQUE (a)"), Err("55P03"));
    own.set("lock_timeout", "0").unwrap();
    own.cancel().store(true, Ordering::Relaxed);
    assert_eq!(run(&mut own, "CREATE INDEX CONCURRENTLY i ON t (a)"), Err("57014"));
    run(&mut other, "COMMIT").unwrap();
    run(&mut own, "CREATE INDEX i ON t (a)").unwrap();
    assert_eq!(own.disagreements().unwrap(), [""; 0]);
}

/// A prepared transaction that knows the addition keeps a row for as long as nothing ends it.
#[test]
fn waiting_for_a_row_ends() {
    let database = database(Scheme::SiSsn);
    let (mut own, mut other) = (session(&database), session(&database));
    run(&mut own, "CREATE TABLE t (id int PRIMARY KEY, a int); INSERT INTO t VALUES (1, 1), (2, 2)").unwrap();
    let begun = begin(&mut own, "CREATE INDEX i ON t (a)");
    own.change_context().outlast_users(&begun).unwrap();
    run(&mut other, "BEGIN; UPDATE t SET a = 3 WHERE id = 2; PREPARE TRANSACTION 'p'").unwrap();
    own.set("lock_timeout", "20").unwrap();
    let waited = own.change_context().go_through(&begun);
    assert_eq!(waited.unwrap_err().state(), SqlState::LOCK_NOT_AVAILABLE);
    run(&mut other, "COMMIT PREPARED 'p'").unwrap();
    own.change_context().go_through(&begun).unwrap();
    drop(own.change_context().finish_addition(&begun).unwrap());
    drop(begun);
    assert_eq!(own.disagreements().unwrap(), [""; 0]);
}

/// Another change of the table waits for the statement; a use of the table does not.
#[test]
fn one_change_at_a_time() {
    let database = database(Scheme::SiSsn);
    let (mut own, mut other) = (session(&database), session(&database));
    run(&mut own, "CREATE TABLE t (id int PRIMARY KEY, a int)").unwrap();
    let begun = begin(&mut own, "CREATE INDEX i ON t (a)");
    other.set("lock_timeout", "20").unwrap();
    for text in ["DROP TABLE t", "DROP INDEX i", "TRUNCATE t", "CREATE INDEX j ON t (a)", "ALTER TABLE t ADD b int"] {
        assert_eq!(run(&mut other, text), Err("55P03"), "{text}");
    }
    run(&mut other, "INSERT INTO t VALUES (1, 1)").unwrap();
    drop(begun);
}

/// Additions that were unfinished when the program that wrote the database ended do not exist afterwards.
#[test]
fn unfinished_additions_go_when_the_database_is_opened() {
    let directory = std::env::temp_dir().join(format!("ermine-sql-online-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let open = || SqlDatabase::open(Arc::new(Database::open(&directory, Options::default()).unwrap())).unwrap();
    for (text, then) in [
        ("CREATE UNIQUE INDEX i ON t (a)", "INSERT INTO t VALUES (0, 1)"),
        ("ALTER TABLE t ADD CONSTRAINT i UNIQUE (a)", "INSERT INTO t VALUES (1, 1)"),
        ("ALTER TABLE t ADD CONSTRAINT i CHECK (a > 0)", "INSERT INTO t VALUES (2, -1)"),
        ("ALTER TABLE t ALTER a SET NOT NULL", "INSERT INTO t VALUES (3, NULL)"),
    ] {
        let database = open();
        let mut own = session(&database);
        run(&mut own, "CREATE TABLE IF NOT EXISTS t (id int PRIMARY KEY, a int)").unwrap();
        run(&mut own, "DELETE FROM t; INSERT INTO t SELECT 10 + n, n FROM generate_series(1, 200) n").unwrap();
        let begun = begin(&mut own, text);
        own.change_context().outlast_users(&begun).unwrap();
        own.change_context().batch(&begun, Batch::Fill, &[], 100).unwrap();
        run(&mut own, "INSERT INTO t VALUES (-1, 1000)").unwrap();
        drop((begun, own, database));

        let database = open();
        let mut own = session(&database);
        run(&mut own, then).unwrap();
        assert_eq!(own.disagreements().unwrap(), [""; 0]);
        run(&mut own, "CREATE INDEX i ON t (a)").unwrap();
        assert_eq!(own.disagreements().unwrap(), [""; 0]);
        run(&mut own, "DROP INDEX i").unwrap();
    }
    std::fs::remove_dir_all(&directory).unwrap();
}
