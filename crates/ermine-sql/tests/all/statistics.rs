//! Goal: the counters of statements, tables and transactions say what sessions have done, to those that may know.
//! Method: a known number of statements of each kind, and what the views show then.

use std::sync::Arc;

use ermine::{Database, Options, Scheme};
use ermine_sql::{RowSet, Session, SqlDatabase, types::Value};

use crate::sessions::ask;

fn open(scheme: Scheme) -> SqlDatabase {
    let engine = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
    SqlDatabase::open(Arc::new(engine)).unwrap()
}

/// Returns the error code of a statement.
fn code(session: &mut Session, text: &str) -> String {
    session.run(text, &mut RowSet::default()).map_or_else(|error| error.state().0.into(), |()| "00000".into())
}

#[test]
fn statements_are_counted_by_their_text_without_constants() {
    for scheme in [Scheme::SiSsn, Scheme::Silo] {
        let database = open(scheme);
        let mut session = database.session("ann", "shop");
        ask(&mut session, "CREATE TABLE t (id integer PRIMARY KEY, a text)");
        for id in 0..5 {
            ask(&mut session, &format!("INSERT INTO t VALUES ({id}, 'x{id}'), ({id} + 100, NULL)"));
        }
        let prepared = session.prepare("SELECT a FROM t WHERE id = $1", &[]).unwrap();
        for id in 0..7 {
            let found = session.execute(&prepared, &[Value::Int4(id)], &mut RowSet::default()).unwrap();
            found.wait().unwrap();
        }
        assert_eq!(code(&mut session, "INSERT INTO t VALUES (1, 'y'), (2 + 100, NULL)"), "23505");
        ask(&mut session, "BEGIN");
        ask(&mut session, "UPDATE t SET a = 'z' WHERE id < 3");
        ask(&mut session, "COMMIT");
        let shown = "SELECT query, calls, rows, errors, total_exec_time >= max_exec_time, max_exec_time >= min_exec_time \
            FROM pg_stat_statements WHERE query ~ '^(INSERT|SELECT a|UPDATE|BEGIN)' ORDER BY 1";
        assert_eq!(
            ask(&mut session, shown),
            [
                "BEGIN,1,0,0,t,t",
                "INSERT INTO t VALUES ($1, $2), ($3 + $4, NULL),5,10,1,t,t",
                "SELECT a FROM t WHERE id = $1,7,5,0,t,t",
                "UPDATE t SET a = $1 WHERE id < $2,1,3,0,t,t",
            ],
            "{scheme}"
        );
        let times = "SELECT statements >= 15, p50_time <= p99_time, p99_time <= max_time FROM ermine_stat_latency";
        assert_eq!(ask(&mut session, times), ["t,t,t"]);
        ask(&mut session, "SELECT pg_stat_statements_reset()");
        assert_eq!(ask(&mut session, "SELECT count(*) FROM pg_stat_statements WHERE query ~ '^INSERT'"), ["0"]);
    }
}

/// EXECUTE counts as the statement that it runs, in the entry of its PREPARE, and a run belongs to its own role.
#[test]
fn prepared_statements_are_counted_for_the_role_that_runs_them() {
    let mut session = open(Scheme::SiSsn).session("ann", "shop");
    ask(&mut session, "CREATE TABLE t (id integer PRIMARY KEY)");
    ask(&mut session, "CREATE ROLE app");
    ask(&mut session, "GRANT SELECT ON t TO app");
    ask(&mut session, "INSERT INTO t VALUES (1), (2)");
    ask(&mut session, "PREPARE p (integer) AS SELECT id FROM t WHERE id <= $1 AND id < 100");
    let text = "SELECT id FROM t WHERE id > $1 AND id < 90";
    let prepared = session.prepare(text, &[]).unwrap();
    let run = |session: &mut Session, times: i32| {
        for _ in 0..times {
            ask(session, "EXECUTE p (2)");
            session.execute(&prepared, &[Value::Int4(1)], &mut RowSet::default()).unwrap().wait().unwrap();
        }
    };
    run(&mut session, 2);
    ask(&mut session, "SET ROLE app");
    run(&mut session, 3);
    assert_eq!(code(&mut session, "EXECUTE p ('x')"), "22P02");
    // The same text prepared by this role has the same entry.
    let own = session.prepare(text, &[]).unwrap();
    session.execute(&own, &[Value::Int4(1)], &mut RowSet::default()).unwrap().wait().unwrap();
    ask(&mut session, "RESET ROLE");
    ask(&mut session, "DEALLOCATE p");
    ask(&mut session, "SELECT 1; PREPARE q AS INSERT INTO t VALUES (3)");
    ask(&mut session, "EXECUTE q");
    let shown = "SELECT userid = 'app'::regrole, query, calls, rows FROM pg_stat_statements \
        WHERE query ~ '^(EXECUTE|PREPARE|DEALLOCATE|SELECT id|INSERT)' ORDER BY 2, 1";
    assert_eq!(
        ask(&mut session, shown),
        [
            "f,INSERT,1,1",
            "f,INSERT INTO t VALUES ($1), ($2),1,2",
            "f,PREPARE p (integer) AS SELECT id FROM t WHERE id <= $1 AND id < $2,2,4",
            "t,PREPARE p (integer) AS SELECT id FROM t WHERE id <= $1 AND id < $2,3,6",
            "f,SELECT id FROM t WHERE id > $1 AND id < $2,2,2",
            "t,SELECT id FROM t WHERE id > $1 AND id < $2,4,4",
        ]
    );
}

/// A plan is counted when it is made, and not when it is used again; the view shows the last one while a session has it,
/// and an earlier one afterwards.
#[test]
fn plans_are_counted_and_shown() {
    let mut session = open(Scheme::SiSsn).session("ann", "shop");
    ask(&mut session, "CREATE TABLE t (id integer PRIMARY KEY, a integer)");
    let text = "SELECT a FROM t WHERE a = 7";
    let shown = "SELECT plans, calls, total_plan_time > 0, min_plan_time <= max_plan_time, plan FROM pg_stat_statements \
        WHERE query = 'SELECT a FROM t WHERE a = $1'";
    (0..3).for_each(|_| drop(ask(&mut session, text)));
    assert_eq!(ask(&mut session, shown), ["1,3,t,t,Seq Scan on t; Filter: (a = 7)"]);
    // Another catalog, another plan.
    ask(&mut session, "CREATE INDEX t_a ON t (a)");
    (0..3).for_each(|_| drop(ask(&mut session, text)));
    assert_eq!(ask(&mut session, shown), ["2,6,t,t,Index Scan using t_a on t; Index Cond: (a = 7)"]);
    // A prepared statement gets its new plan when it is run.
    let prepared = session.prepare("SELECT id FROM t WHERE a = $1", &[]).unwrap();
    ask(&mut session, "DROP INDEX t_a");
    session.execute(&prepared, &[Value::Int4(1)], &mut RowSet::default()).unwrap().wait().unwrap();
    let shown = "SELECT plans, plan FROM pg_stat_statements WHERE query ~ '^SELECT id'";
    assert_eq!(ask(&mut session, shown), ["2,Seq Scan on t; Filter: (a = $1)"]);
    drop(prepared);
    ask(&mut session, "DISCARD ALL");
    assert_eq!(ask(&mut session, shown), ["2,Seq Scan on t; Filter: (a = $1)"]);
    assert_eq!(ask(&mut session, "SELECT plans FROM pg_stat_statements WHERE query = 'DISCARD ALL'"), ["0"]);
    // EXPLAIN tells the time of planning, where it tells times.
    let times = |session: &mut Session, options: &str| {
        let lines = ask(session, &format!("EXPLAIN {options} SELECT a FROM t"));
        lines.iter().filter_map(|line| Some(line.split_once(" Time: ")?.0.to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(times(&mut session, ""), Vec::<String>::new());
    assert_eq!(times(&mut session, "(SUMMARY)"), ["Planning"]);
    assert_eq!(times(&mut session, "ANALYZE"), ["Planning", "Execution"]);
    assert_eq!(times(&mut session, "(ANALYZE, SUMMARY OFF)"), Vec::<String>::new());
    let json = ask(&mut session, "EXPLAIN (ANALYZE, FORMAT JSON) SELECT a FROM t").concat();
    assert!(json.contains("\"Planning Time\": ") && json.contains("\"Execution Time\": "), "{json}");
}

#[test]
fn a_copy_is_counted_when_it_has_ended() {
    let mut session = open(Scheme::SiSsn).session("ann", "shop");
    ask(&mut session, "CREATE TABLE t (id integer PRIMARY KEY)");
    for (data, is_ok) in [(&b"1\n2\n3\n"[..], true), (b"4\nx\n", false)] {
        let mut rows = RowSet::default();
        session.run("COPY t FROM STDIN", &mut rows).unwrap();
        let written = session.copy_in().unwrap().write(data);
        let ended = written.and_then(|()| session.copy_in().unwrap().finish(&mut rows).map(drop));
        assert_eq!(ended.is_ok(), is_ok);
    }
    let shown = "SELECT calls, rows, errors FROM pg_stat_statements WHERE query ~ '^COPY'";
    assert_eq!(ask(&mut session, shown), ["1,3,1"]);
}

#[test]
fn uses_of_tables_and_ends_of_transactions_are_counted() {
    for scheme in [Scheme::SiSsn, Scheme::Silo] {
        let mut session = open(scheme).session("ann", "shop");
        ask(&mut session, "CREATE TABLE t (id integer PRIMARY KEY, a integer, b integer)");
        ask(&mut session, "CREATE INDEX t_a ON t (a)");
        let ends = "SELECT xact_commit, xact_rollback FROM pg_stat_database";
        let before = ask(&mut session, ends);
        ask(&mut session, "INSERT INTO t SELECT i, i % 10, 0 FROM generate_series(1, 100) AS i");
        ask(&mut session, "UPDATE t SET b = 1 WHERE id = 7");
        ask(&mut session, "DELETE FROM t WHERE a = 3");
        ask(&mut session, "SELECT count(*) FROM t");
        ask(&mut session, "SELECT count(*) FROM t WHERE a = 4");
        ask(&mut session, "BEGIN; INSERT INTO t VALUES (1000, 0, 0)");
        ask(&mut session, "ROLLBACK");
        assert_eq!(code(&mut session, "INSERT INTO t VALUES (1, 0, 0)"), "23505");
        // Rows that the transaction rolled back count, as in PostgreSQL; the one that exists was not inserted.
        let shown = "SELECT n_tup_ins, n_tup_upd, n_tup_del, seq_scan, seq_tup_read, idx_scan, idx_tup_fetch \
            FROM pg_stat_user_tables WHERE relname = 't'";
        assert_eq!(ask(&mut session, shown), ["101,1,10,1,90,3,21"], "{scheme}");
        let numbers = |rows: Vec<String>| -> Vec<u64> { rows[0].split(',').map(|one| one.parse().unwrap()).collect() };
        let (before, after) = (numbers(before), numbers(ask(&mut session, ends)));
        // Five statements, two views of the counters; a block and a statement that failed.
        assert_eq!([after[0] - before[0], after[1] - before[1]], [7, 2], "{scheme}");
    }
}

#[test]
fn statements_of_others_are_for_those_that_may_see_them() {
    let database = open(Scheme::SiSsn);
    let mut session = database.session("ann", "shop");
    ask(&mut session, "CREATE ROLE eva; CREATE ROLE watcher; GRANT pg_monitor TO watcher");
    ask(&mut session, "SELECT 'secret'");
    let shown = |session: &mut Session| {
        let text = "SELECT query, queryid IS NULL FROM pg_stat_statements WHERE calls = 1 AND rows = 1 ORDER BY 1";
        ask(session, text)
    };
    assert_eq!(shown(&mut session), ["SELECT $1,f"]);
    ask(&mut session, "SET ROLE eva");
    let hidden = shown(&mut session);
    assert!(!hidden.is_empty() && hidden.iter().all(|row| row == "<insufficient privilege>,t"), "{hidden:?}");
    assert_eq!(code(&mut session, "SELECT pg_stat_statements_reset()"), "42501");
    assert_eq!(code(&mut session, "SELECT ermine_stat_conflicts_reset()"), "42501");
    ask(&mut session, "RESET ROLE; SET ROLE watcher");
    assert!(shown(&mut session).contains(&"SELECT $1,f".into()));
}

#[test]
fn the_log_and_its_causes_of_aborts_are_shown() {
    let mut session = open(Scheme::SiSsn).session("ann", "shop");
    assert_eq!(ask(&mut session, "SELECT bytes, flushes, checkpoints FROM ermine_stat_log"), ["0,0,0"]);
    let causes = ask(&mut session, "SELECT cause, aborts FROM ermine_stat_aborts");
    assert_eq!(causes.len(), ermine::AbortKind::ALL.len());
    assert!(causes.contains(&"write-conflict,0".into()), "{causes:?}");
    let oldest = "SELECT commits > 0, oldest_seconds >= 0 FROM ermine_stat_transactions";
    assert_eq!(ask(&mut session, oldest), ["t,t"]);
}

#[test]
fn times_of_statements_are_in_buckets() {
    let mut session = open(Scheme::SiSsn).session("ann", "shop");
    ask(&mut session, "SELECT 1");
    ask(&mut session, "SELECT 2");
    // Both statements before this one, which has not ended yet.
    let counts = "SELECT sum(statements), count(DISTINCT up_to_time) = count(*), min(up_to_time) >= 0, \
        min(statements) > 0, (SELECT statements FROM ermine_stat_latency) FROM ermine_stat_latency_histogram";
    assert_eq!(ask(&mut session, counts), ["2,t,t,t,2"]);
}
