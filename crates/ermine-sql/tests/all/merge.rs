//! Goal: what MERGE reads counts for its transaction, and rows that others change are handled as by UPDATE.
//! Method: two sessions, interleaved by hand, and a thread that waits for a row.

use std::{
    sync::{Arc, mpsc},
    thread,
};

use ermine::{Database, Options, Scheme};
use ermine_sql::{SqlDatabase, SqlState};

use crate::sessions::{ask, run};

const SERIALIZABLE: [Scheme; 5] = [Scheme::SiSsn, Scheme::SiSsi, Scheme::MvOcc, Scheme::Silo, Scheme::Tso];
const PUT: &str = "MERGE INTO t USING (VALUES (7)) m(id) ON t.id = m.id
    WHEN MATCHED THEN UPDATE SET v = t.v + 1 WHEN NOT MATCHED THEN INSERT VALUES (m.id, 1)";

/// Returns a database with a table of two columns; no index keeps a number from being there twice.
fn open(scheme: Scheme) -> SqlDatabase {
    let engine = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
    let database = SqlDatabase::open(Arc::new(engine)).unwrap();
    ask(&mut database.session("tester", "test"), "CREATE TABLE t (id integer, v integer)");
    database
}

/// Of two transactions that each find no row of a number and insert one, one loses.
#[test]
fn the_absence_of_a_row_is_tracked() {
    for scheme in SERIALIZABLE {
        let database = open(scheme);
        let [mut one, mut other] = [(); 2].map(|()| database.session("tester", "test"));
        for session in [&mut one, &mut other] {
            ask(session, "SET lock_timeout = 1; BEGIN ISOLATION LEVEL SERIALIZABLE");
        }
        let mut lost = 0;
        for session in [&mut one, &mut other] {
            lost += usize::from(run(session, PUT).is_err());
        }
        for session in [&mut one, &mut other] {
            lost += usize::from(run(session, "COMMIT") == Err(SqlState::SERIALIZATION_FAILURE));
        }
        assert!(lost > 0, "{scheme}");
        let rows = ask(&mut database.session("tester", "test"), "SELECT id FROM t");
        assert!(rows.len() <= 1, "{scheme}: {rows:?}");
    }
}

/// Two transactions that each decide by the row that the other changes cannot both commit.
#[test]
fn conditions_are_tracked() {
    for scheme in SERIALIZABLE {
        let database = open(scheme);
        let [mut one, mut other] = [(); 2].map(|()| database.session("tester", "test"));
        ask(&mut one, "INSERT INTO t VALUES (1, 1), (2, 1)");
        let mut lost = false;
        for (session, id) in [(&mut one, 1), (&mut other, 2)] {
            ask(session, "SET lock_timeout = 1; BEGIN ISOLATION LEVEL SERIALIZABLE");
            let merge = format!(
                "MERGE INTO t USING (SELECT sum(v) AS all FROM t) m ON t.id = {id}
                    WHEN MATCHED AND m.all > 1 THEN UPDATE SET v = 0"
            );
            lost |= run(session, &merge).is_err();
        }
        for session in [&mut one, &mut other] {
            lost |= run(session, "COMMIT").is_err();
        }
        assert!(lost, "{scheme}");
        let rows = ask(&mut database.session("tester", "test"), "SELECT sum(v) FROM t");
        assert_ne!(rows, ["0"], "{scheme}");
    }
}

/// At READ COMMITTED it waits for a row that another transaction has changed, and then decides by the row as it is.
#[test]
fn it_waits_for_a_row_under_read_committed() {
    let database = open(Scheme::SiSsn);
    let mut one = database.session("tester", "test");
    ask(&mut one, "INSERT INTO t VALUES (7, 10)");
    ask(&mut one, "BEGIN; UPDATE t SET v = 20 WHERE id = 7");
    let (begun, told) = mpsc::channel();
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let mut other = database.session("tester", "test");
            ask(&mut other, "SET default_transaction_isolation = 'read committed'; BEGIN");
            begun.send(()).unwrap();
            ask(&mut other, PUT);
            ask(&mut other, "COMMIT");
        });
        told.recv().unwrap();
        while ask(&mut one, "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'").is_empty() {
            assert!(!waits.is_finished(), "another transaction holds the row");
            thread::yield_now();
        }
        ask(&mut one, "COMMIT");
    });
    assert_eq!(ask(&mut one, "SELECT id, v FROM t"), ["7,21"]);
}
