//! Goal: isolation levels, side by side in one database, keep their promises.
//! Method: sessions of one thread, interleaved by hand; and threads where one waits for another.

use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use ermine::{Database, Durability, Options, Scheme};
use ermine_sql::{RowSet, Session, SqlDatabase, SqlState, Status, types::SqlType};

use crate::sessions::{ask, run};

const WITH_VERSIONS: [Scheme; 6] = [Scheme::Rc, Scheme::Si, Scheme::RcSsn, Scheme::SiSsn, Scheme::SiSsi, Scheme::MvOcc];
const CERTIFIED: [Scheme; 3] = [Scheme::SiSsn, Scheme::SiSsi, Scheme::MvOcc];

fn open(scheme: Scheme) -> SqlDatabase {
    let engine = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
    let database = SqlDatabase::open(Arc::new(engine)).unwrap();
    let mut session = database.session("tester", "test");
    ask(&mut session, "CREATE TABLE t (id integer PRIMARY KEY, v integer NOT NULL)");
    ask(&mut session, "INSERT INTO t VALUES (1, 1), (2, 2)");
    database
}

fn session(database: &SqlDatabase, level: &str) -> Session {
    let mut session = database.session("tester", "test");
    ask(&mut session, &format!("SET default_transaction_isolation = '{level}'"));
    session
}

#[test]
fn each_statement_sees_what_is_committed_under_read_committed() {
    for scheme in WITH_VERSIONS {
        let database = open(scheme);
        let (mut one, mut other) = (session(&database, "read committed"), session(&database, "read committed"));
        ask(&mut one, "BEGIN");
        assert_eq!(ask(&mut one, "SHOW transaction_isolation"), ["read committed"]);
        assert_eq!(ask(&mut one, "SELECT v FROM t WHERE id = 1"), ["1"]);
        ask(&mut other, "UPDATE t SET v = 10 WHERE id = 1");
        assert_eq!(ask(&mut one, "SELECT v FROM t WHERE id = 1"), ["10"], "{scheme}");
        // No update is lost: the statement begins with the current rows.
        ask(&mut other, "UPDATE t SET v = v + 1 WHERE id = 1");
        ask(&mut one, "UPDATE t SET v = v + 1 WHERE id = 1");
        ask(&mut other, "INSERT INTO t VALUES (3, 3)");
        assert_eq!(ask(&mut one, "SELECT count(*) FROM t"), ["3"]);
        ask(&mut one, "COMMIT");
        assert_eq!(ask(&mut other, "SELECT v FROM t WHERE id = 1"), ["12"], "{scheme}");
    }
}

#[test]
fn a_snapshot_stays_under_repeatable_read() {
    for scheme in WITH_VERSIONS {
        let database = open(scheme);
        let (mut one, mut other) = (session(&database, "repeatable read"), session(&database, "read committed"));
        ask(&mut one, "BEGIN");
        assert_eq!(ask(&mut one, "SELECT v FROM t WHERE id = 1"), ["1"]);
        ask(&mut other, "UPDATE t SET v = 10 WHERE id = 1");
        assert_eq!(ask(&mut one, "SELECT v FROM t WHERE id = 1"), ["1"], "{scheme}");
        let lost = run(&mut one, "UPDATE t SET v = v + 1 WHERE id = 1");
        assert_eq!(lost, Err(SqlState::SERIALIZATION_FAILURE), "{scheme}");
        ask(&mut one, "ROLLBACK");
    }
}

/// A transaction reads row 1 and adds to row 2. A report that reads row 2 begins after `closing` has been told that its
/// change of row 1 is committed.
fn report_after_close(
    database: &SqlDatabase,
    closing: &mut Session,
    report: Option<&mut Session>,
) -> Result<(), SqlState> {
    let mut adding = session(database, "serializable");
    ask(&mut adding, "BEGIN");
    ask(&mut adding, "SELECT v FROM t WHERE id = 1");
    ask(closing, "UPDATE t SET v = v + 1 WHERE id = 1");
    let report = report.unwrap_or(closing);
    ask(report, "BEGIN");
    ask(report, "SELECT v FROM t WHERE id = 2");
    ask(&mut adding, "UPDATE t SET v = v + 1 WHERE id = 2");
    ask(&mut adding, "COMMIT");
    let done = run(report, "COMMIT").map(drop);
    ask(report, "ROLLBACK");
    done
}

#[test]
fn a_transaction_comes_after_those_that_the_setting_names() {
    const LOST: Result<(), SqlState> = Err(SqlState::SERIALIZATION_FAILURE);
    let database = open(Scheme::SiSsn);
    let (mut client, mut other) = (session(&database, "serializable"), session(&database, "serializable"));
    assert_eq!(ask(&mut client, "SHOW ermine.transaction_order"), ["strict"]);
    assert_eq!(report_after_close(&database, &mut client, None), LOST);
    assert_eq!(report_after_close(&database, &mut client, Some(&mut other)), LOST);
    for session in [&mut client, &mut other] {
        ask(session, "SET ermine.transaction_order = 'Session'");
    }
    assert_eq!(report_after_close(&database, &mut client, None), LOST, "its own last commit");
    assert_eq!(report_after_close(&database, &mut client, Some(&mut other)), Ok(()));
    ask(&mut client, "SET ermine.transaction_order = none");
    assert_eq!(report_after_close(&database, &mut client, None), Ok(()));
    assert_eq!(run(&mut client, "SET ermine.transaction_order = 'some'"), Err(SqlState::INVALID_PARAMETER_VALUE));
    assert_eq!(ask(&mut client, "SHOW ermine.transaction_order"), ["none"]);
    ask(&mut client, "RESET ermine.transaction_order");
    assert_eq!(report_after_close(&database, &mut client, None), LOST);
}

#[test]
fn of_those_that_wait_for_one_another_one_gives_up() {
    for (scheme, clients) in WITH_VERSIONS.into_iter().flat_map(|scheme| [(scheme, 2), (scheme, 5)]) {
        let database = open(scheme);
        ask(&mut database.session("tester", "test"), "INSERT INTO t SELECT n, n FROM generate_series(3, 5) AS n");
        // Each client has a row of its own, and wants that of the next.
        let all_have = Barrier::new(clients);
        let began = Instant::now();
        let mut outcomes = thread::scope(|scope| {
            let client = |number: usize| {
                let (mut session, all_have) = (session(&database, "read committed"), &all_have);
                scope.spawn(move || {
                    let update = |number: usize| format!("UPDATE t SET v = v + 100 WHERE id = {}", number + 1);
                    ask(&mut session, "BEGIN");
                    ask(&mut session, &update(number));
                    all_have.wait();
                    let done = run(&mut session, &update((number + 1) % clients)).map(drop);
                    ask(&mut session, if done.is_ok() { "COMMIT" } else { "ROLLBACK" });
                    done
                })
            };
            let clients: Vec<_> = (0..clients).map(client).collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
        });
        outcomes.retain(Result::is_err);
        assert_eq!(outcomes, [Err(SqlState::DEADLOCK_DETECTED)], "{scheme}, {clients} clients");
        assert!(began.elapsed() < Duration::from_secs(60), "{scheme}: {:?}", began.elapsed());
        let sum = 1 + 2 + 3 + 4 + 5 + 200 * (clients - 1);
        assert_eq!(ask(&mut database.session("tester", "test"), "SELECT sum(v) FROM t"), [sum.to_string()], "{scheme}");
    }
}

/// A transaction may undo the change that another one waited for, while that one still retries.
#[test]
fn a_wait_that_is_over_makes_no_deadlock() {
    let database = open(Scheme::SiSsn);
    ask(&mut database.session("tester", "test"), "INSERT INTO t SELECT n, n FROM generate_series(3, 60000) AS n");
    for _ in 0..5 {
        let mut holder = session(&database, "read committed");
        ask(&mut holder, "BEGIN");
        ask(&mut holder, "SAVEPOINT before");
        ask(&mut holder, "UPDATE t SET v = v + 1 WHERE id = 60000");
        let mut long = session(&database, "read committed");
        thread::scope(|scope| {
            let long = scope.spawn(move || {
                ask(&mut long, "BEGIN");
                let done = run(&mut long, "UPDATE t SET v = v + 1").map(drop);
                ask(&mut long, "COMMIT");
                done
            });
            thread::sleep(Duration::from_millis(fastrand::u64(50..300)));
            ask(&mut holder, "ROLLBACK TO before");
            // This may have to wait for the long transaction, which waits for no other any more.
            assert_eq!(run(&mut holder, "UPDATE t SET v = v + 1 WHERE id = 1").map(drop), Ok(()));
            ask(&mut holder, "COMMIT");
            assert_eq!(long.join().unwrap(), Ok(()));
        });
    }
}

/// Both transactions read both rows and write one of them; returns whether both commit.
fn write_skew(database: &SqlDatabase, levels: [&str; 2]) -> bool {
    let mut sessions = levels.map(|level| session(database, level));
    let [one, other] = &mut sessions;
    for session in [&mut *one, &mut *other] {
        ask(session, "BEGIN");
        ask(session, "SELECT sum(v) FROM t");
    }
    let mut done = run(one, "UPDATE t SET v = v + 1 WHERE id = 1").is_ok();
    done &= run(other, "UPDATE t SET v = v + 1 WHERE id = 2").is_ok();
    done &= ask(one, "SELECT 1") == ["1"];
    for session in &mut sessions {
        done &= run(session, "COMMIT").is_ok() && session.status() == ermine_sql::Status::Idle;
    }
    done
}

#[test]
fn write_skew_shows_where_it_may_and_nowhere_else() {
    for scheme in CERTIFIED {
        let database = open(scheme);
        assert!(write_skew(&database, ["repeatable read"; 2]), "{scheme}");
        assert!(write_skew(&database, ["read committed"; 2]), "{scheme}");
        // A serializable transaction does not help against one that is not; read validation is stricter than necessary.
        let both = write_skew(&database, ["repeatable read", "serializable"]);
        assert!(both || scheme == Scheme::MvOcc, "{scheme}");
    }
    for scheme in CERTIFIED {
        let database = open(scheme);
        let mut sessions = [(); 2].map(|()| session(&database, "serializable"));
        for session in &mut sessions {
            ask(session, "BEGIN");
            ask(session, "SELECT sum(v) FROM t");
        }
        let [one, other] = &mut sessions;
        let mut lost = run(one, "UPDATE t SET v = v + 1 WHERE id = 1").is_err();
        lost |= run(other, "UPDATE t SET v = v + 1 WHERE id = 2").is_err();
        let ends = sessions.map(|mut session| run(&mut session, "COMMIT"));
        assert!(lost || ends.contains(&Err(SqlState::SERIALIZATION_FAILURE)), "{scheme}: {ends:?}");
    }
}

#[test]
fn single_version_schemes_serve_every_level_as_serializable() {
    let database = open(Scheme::Silo);
    let mut sessions = ["read committed", "repeatable read"].map(|level| session(&database, level));
    for session in &mut sessions {
        ask(session, "BEGIN");
        ask(session, "SELECT sum(v) FROM t");
    }
    ask(&mut sessions[0], "UPDATE t SET v = v + 1 WHERE id = 1");
    ask(&mut sessions[1], "UPDATE t SET v = v + 1 WHERE id = 2");
    let ends = sessions.map(|mut session| run(&mut session, "COMMIT"));
    assert!(ends.contains(&Err(SqlState::SERIALIZATION_FAILURE)), "{ends:?}");
}

/// Schemes whose transactions read without a snapshot and without a lock: their reads may fit no serial order.
const WITHOUT_SNAPSHOT: [Scheme; 3] = [Scheme::RcSsn, Scheme::Silo, Scheme::TsoValidate];

/// A row moves from one account to the other between two reads; the second statement fails for that reason alone.
fn fail_in_the_middle(one: &mut Session, other: &mut Session, between: &str) -> Result<Vec<String>, SqlState> {
    ask(one, "BEGIN ISOLATION LEVEL SERIALIZABLE");
    assert_eq!(ask(one, "SELECT v FROM t WHERE id = 1"), ["1"]);
    ask(one, between);
    ask(other, "UPDATE t SET v = 3 - v WHERE id > 0");
    run(one, "SELECT 1 / (v - 1) FROM t WHERE id = 2")
}

#[test]
fn an_error_in_a_block_is_a_conflict_where_no_serial_order_has_what_was_read() {
    const CASES: [(Scheme, &str); 6] = [
        (Scheme::RcSsn, "SELECT 1"),
        (Scheme::RcSsn, "INSERT INTO t VALUES (0, 3)"),
        (Scheme::TsoValidate, "SELECT 1"),
        (Scheme::Silo, "SELECT 1"),
        (Scheme::Silo, "INSERT INTO t VALUES (0, 3)"),
        (Scheme::Silo, "UPDATE t SET v = v WHERE id = 1"),
    ];
    for (scheme, between) in CASES {
        let database = open(scheme);
        let mut sessions = [session(&database, "serializable"), session(&database, "serializable")];
        let [one, other] = &mut sessions;
        let failed = fail_in_the_middle(one, other, between);
        assert_eq!(failed, Err(SqlState::SERIALIZATION_FAILURE), "{scheme}, {between}");
        ask(one, "ROLLBACK");
        assert_eq!(ask(one, "SELECT v FROM t ORDER BY id"), ["2", "1"], "{scheme}, {between}");
    }
}

#[test]
fn an_error_that_is_true_stays_what_it_is() {
    for scheme in [Scheme::SiSsn, Scheme::RcSsn, Scheme::Silo, Scheme::TwoPhaseNoWait, Scheme::Sto] {
        let mut session = session(&open(scheme), "serializable");
        assert_eq!(run(&mut session, "SELECT 1 / (v - 1) FROM t"), Err(SqlState::DIVISION_BY_ZERO), "{scheme}");
        ask(&mut session, "BEGIN");
        ask(&mut session, "UPDATE t SET v = v + 1");
        assert_eq!(run(&mut session, "INSERT INTO t VALUES (1, 1)"), Err(SqlState::UNIQUE_VIOLATION), "{scheme}");
        assert_eq!(run(&mut session, "SELECT 1"), Err(SqlState::IN_FAILED_SQL_TRANSACTION), "{scheme}");
        ask(&mut session, "ROLLBACK");
        assert_eq!(ask(&mut session, "SELECT v FROM t ORDER BY id"), ["1", "2"], "{scheme}");
    }
}

/// Where the transaction can go on, an error reveals what the rows contain: it counts if the transaction commits.
#[test]
fn an_error_behind_a_savepoint_counts_if_the_transaction_commits() {
    for scheme in [Scheme::RcSsn, Scheme::Silo] {
        let database = open(scheme);
        let mut sessions = [session(&database, "serializable"), session(&database, "serializable")];
        let [one, other] = &mut sessions;
        assert_eq!(fail_in_the_middle(one, other, "SAVEPOINT s"), Err(SqlState::DIVISION_BY_ZERO), "{scheme}");
        ask(one, "ROLLBACK TO s");
        assert_eq!(run(one, "COMMIT"), Err(SqlState::SERIALIZATION_FAILURE), "{scheme}");
    }
}

/// A statement that changes many rows gets through beside others that change one of them, again and again.
#[test]
fn a_statement_by_itself_gets_through_beside_shorter_ones() {
    const ROWS: i32 = 10_000;
    const STATEMENTS: i32 = 3;
    for scheme in Scheme::ALL.into_iter().filter(|&scheme| SqlDatabase::serves(scheme)) {
        // Nothing ends by time.
        let options = Options::default().scheme(scheme).run_max(Duration::from_secs(86_400)).attempts_max(u32::MAX);
        let database = SqlDatabase::open(Arc::new(Database::open_in_memory(options).unwrap())).unwrap();
        let is_serializable = CERTIFIED.contains(&scheme) || !scheme.has_versions();
        let begin = || {
            let level = if is_serializable { "serializable" } else { "repeatable read" };
            let mut session = session(&database, level);
            ask(&mut session, "SET lock_timeout = '1d'");
            session
        };
        let mut long = begin();
        ask(&mut long, "CREATE TABLE many (id integer PRIMARY KEY, v integer NOT NULL)");
        ask(&mut long, &format!("INSERT INTO many SELECT id, 0 FROM generate_series(1, {ROWS}) id"));
        let done = AtomicBool::new(false);
        let (long_ones, short_ones) = thread::scope(|scope| {
            let write = || {
                let (mut short, mut count) = (begin(), 0);
                while !done.load(Ordering::Relaxed) {
                    let id = fastrand::i32(1..=ROWS);
                    run(&mut short, &format!("UPDATE many SET v = v + 1 WHERE id = {id}")).unwrap();
                    count += 1;
                }
                count
            };
            let writers: Vec<_> = (0..3).map(|_| scope.spawn(write)).collect();
            let long_ones: Result<Vec<_>, _> =
                (0..STATEMENTS).map(|_| run(&mut long, "UPDATE many SET v = v + 1")).collect();
            done.store(true, Ordering::Relaxed);
            (long_ones, writers.into_iter().map(|writer| writer.join().unwrap()).sum::<i32>())
        });
        assert!(long_ones.is_ok(), "{scheme}: {long_ones:?}");
        let sum = STATEMENTS * ROWS + short_ones;
        assert_eq!(ask(&mut long, "SELECT sum(v) FROM many"), [sum.to_string()], "{scheme}");
    }
}

/// Statements outside of blocks fail if a sum is wrong, beside transactions that keep the sum.
#[test]
fn a_statement_by_itself_reports_no_wrong_sum() {
    const STATEMENTS: usize = 300;
    for scheme in WITHOUT_SNAPSHOT {
        let database = open(scheme);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut writer = session(&database, "serializable");
                while !done.load(Ordering::Relaxed) {
                    // A lost conflict is retried in the next round.
                    let _ = run(&mut writer, "UPDATE t SET v = 3 - v");
                }
            });
            let mut reader = session(&database, "serializable");
            let mut wrong = None;
            for _ in 0..STATEMENTS {
                match run(&mut reader, "SELECT CASE WHEN sum(v) <> 3 THEN 1 / (sum(v) - sum(v)) ELSE 0 END FROM t") {
                    Ok(_) | Err(SqlState::SERIALIZATION_FAILURE) => {}
                    Err(state) => wrong = Some(state),
                }
            }
            done.store(true, Ordering::Relaxed);
            assert_eq!(wrong, None, "{scheme}");
        });
    }
}

#[test]
fn levels_that_the_scheme_cannot_promise_are_refused() {
    for scheme in [Scheme::Rc, Scheme::Si] {
        let database = open(scheme);
        let mut session = database.session("tester", "test");
        let refused = Err(SqlState::FEATURE_NOT_SUPPORTED);
        assert_eq!(run(&mut session, "SET default_transaction_isolation = 'serializable'"), refused);
        assert_eq!(run(&mut session, "BEGIN ISOLATION LEVEL SERIALIZABLE"), refused);
        ask(&mut session, "ROLLBACK");
        ask(&mut session, "BEGIN ISOLATION LEVEL REPEATABLE READ");
        ask(&mut session, "COMMIT");
    }
}

#[test]
fn an_update_waits_for_another_under_read_committed() {
    let database = open(Scheme::SiSsn);
    let mut one = session(&database, "read committed");
    let (begun, told) = mpsc::channel();
    for in_block in [true, false] {
        ask(&mut one, "UPDATE t SET v = 1 WHERE id = 1");
        ask(&mut one, "BEGIN");
        ask(&mut one, "UPDATE t SET v = v + 1 WHERE id = 1");
        thread::scope(|scope| {
            let (database, begun) = (&database, begun.clone());
            let waits = scope.spawn(move || {
                let mut other = session(database, "read committed");
                if in_block {
                    ask(&mut other, "BEGIN");
                    ask(&mut other, "UPDATE t SET v = 5 WHERE id = 2");
                }
                begun.send(()).unwrap();
                ask(&mut other, "UPDATE t SET v = v * 10 WHERE id = 1");
                if in_block {
                    ask(&mut other, "COMMIT");
                }
            });
            told.recv().unwrap();
            thread::sleep(Duration::from_millis(30));
            assert!(!waits.is_finished(), "another transaction holds the row");
            ask(&mut one, "COMMIT");
        });
        assert_eq!(ask(&mut one, "SELECT v FROM t ORDER BY id"), ["20", "5"]);
    }
}

/// A block that has done nothing yet loses nothing: its first statement waits for the row, at every level. Without a
/// snapshot (rc-ssn), a row may change between the statement's read and its write; the block finds out at its end.
#[test]
fn the_first_statement_of_a_block_waits_for_a_row_and_does_not_lose() {
    const CLIENTS: i64 = 6;
    const BLOCKS: i64 = 30;
    for scheme in WITH_VERSIONS {
        for level in ["repeatable read", "serializable"] {
            if level == "serializable" && !CERTIFIED.contains(&scheme) {
                continue;
            }
            let database = open(scheme);
            thread::scope(|threads| {
                for _ in 0..CLIENTS {
                    threads.spawn(|| {
                        let mut client = session(&database, level);
                        ask(&mut client, "SET lock_timeout = '1h'");
                        for _ in 0..BLOCKS {
                            ask(&mut client, "BEGIN");
                            ask(&mut client, "UPDATE t SET v = v + 1 WHERE id = 1");
                            // Others meet the row while this block holds it.
                            thread::yield_now();
                            let ended = run(&mut client, "COMMIT");
                            assert!(ended.is_ok(), "{scheme}, {level}: {ended:?}");
                        }
                    });
                }
            });
            let mut reader = session(&database, level);
            let sum = ask(&mut reader, "SELECT v FROM t WHERE id = 1");
            assert_eq!(sum, [(1 + CLIENTS * BLOCKS).to_string()], "{scheme}, {level}");
        }
    }
}

/// Any statement fixes the snapshot, whatever it reads: a later one loses.
#[test]
fn a_later_statement_of_a_block_loses() {
    for scheme in CERTIFIED {
        for first in ["SELECT 1", "SELECT count(*) FROM pg_class", "SELECT v FROM t WHERE id = 2"] {
            let database = open(scheme);
            let (mut one, mut other) = (session(&database, "serializable"), session(&database, "serializable"));
            ask(&mut other, "BEGIN");
            ask(&mut other, first);
            ask(&mut one, "UPDATE t SET v = 10 WHERE id = 1");
            let lost = run(&mut other, "UPDATE t SET v = v + 1 WHERE id = 1");
            assert_eq!(lost, Err(SqlState::SERIALIZATION_FAILURE), "{scheme}, {first}");
            ask(&mut other, "ROLLBACK");
            assert_eq!(ask(&mut one, "SELECT v FROM t ORDER BY id"), ["10", "2"]);
        }
    }
}

#[test]
fn advisory_locks_last_as_long_as_they_are_asked_for() {
    let database = open(Scheme::SiSsn);
    let (mut one, mut other) = (session(&database, "serializable"), session(&database, "read committed"));
    ask(&mut one, "SELECT pg_advisory_lock(7)");
    assert_eq!(ask(&mut other, "SELECT pg_try_advisory_lock(7), pg_try_advisory_lock(0, 7)"), ["f,t"]);
    ask(&mut other, "SET lock_timeout = '20ms'");
    assert_eq!(run(&mut other, "SELECT pg_advisory_lock(7)"), Err(SqlState::LOCK_NOT_AVAILABLE));
    ask(&mut other, "SET lock_timeout = 0");
    ask(&mut other, "SET statement_timeout = '20ms'");
    assert_eq!(run(&mut other, "SELECT pg_advisory_xact_lock_shared(7)"), Err(SqlState::QUERY_CANCELED));
    ask(&mut other, "SET statement_timeout = 0");
    let shown = "SELECT locktype, classid, objid, objsubid, mode, granted FROM pg_locks ORDER BY objsubid";
    assert_eq!(ask(&mut one, shown), ["advisory,0,7,1,ExclusiveLock,t", "advisory,0,7,2,ExclusiveLock,t"]);
    // A transaction's own goes with it, however it ends, and with nothing else.
    for end in ["COMMIT", "ROLLBACK"] {
        ask(&mut other, "BEGIN");
        ask(&mut other, "SELECT pg_advisory_xact_lock(8)");
        ask(&mut other, "UPDATE t SET v = v + 1 WHERE id = 2");
        assert_eq!(ask(&mut one, "SELECT pg_try_advisory_lock_shared(8)"), ["f"]);
        assert_eq!(ask(&mut other, "SELECT pg_advisory_unlock(8)"), ["f"]);
        ask(&mut other, end);
        assert_eq!(ask(&mut one, "SELECT pg_try_advisory_xact_lock(8)"), ["t"]);
    }
    // A session's own outlives its transactions, and not the session.
    ask(&mut other, "BEGIN");
    ask(&mut other, "SELECT pg_advisory_lock(9)");
    ask(&mut other, "ROLLBACK");
    assert_eq!(ask(&mut one, "SELECT pg_try_advisory_lock(9)"), ["f"]);
    drop(other);
    assert_eq!(
        ask(&mut one, "SELECT pg_try_advisory_lock(9), pg_advisory_unlock(7), pg_advisory_unlock(7)"),
        ["t,t,f"]
    );
    ask(&mut one, "SELECT pg_advisory_unlock_all()");
    assert!(ask(&mut one, shown).is_empty());
}

/// A lock that was taken for a transaction stays whatever else the session does meanwhile.
#[test]
fn an_advisory_lock_of_a_transaction_goes_with_no_other_one() {
    let database = open(Scheme::SiSsn);
    let (mut one, mut other) = (session(&database, "serializable"), session(&database, "serializable"));
    ask(&mut one, "PREPARE p (boolean) AS SELECT $1");
    ask(&mut one, "BEGIN");
    ask(&mut one, "SELECT pg_advisory_xact_lock(1)");
    assert_eq!(ask(&mut one, "EXECUTE p (pg_try_advisory_lock(2))"), ["t"]);
    assert_eq!(ask(&mut other, "SELECT pg_try_advisory_lock(1), pg_try_advisory_lock(2)"), ["f,f"]);
    // A table that has changed since: the transaction begins anew, and keeps its locks.
    ask(&mut other, "ALTER TABLE t ADD COLUMN w integer");
    assert_eq!(ask(&mut one, "SELECT id, v FROM t WHERE id = 1"), ["1,1"]);
    assert_eq!(ask(&mut other, "SELECT pg_try_advisory_lock(1)"), ["f"]);
    ask(&mut one, "COMMIT");
    assert_eq!(ask(&mut other, "SELECT pg_try_advisory_xact_lock(1)"), ["t"]);
    // A prepared transaction has its own.
    ask(&mut one, "BEGIN");
    ask(&mut one, "SELECT pg_advisory_xact_lock(3)");
    ask(&mut one, "UPDATE t SET v = 5 WHERE id = 1");
    ask(&mut one, "PREPARE TRANSACTION 'a'");
    ask(&mut one, "BEGIN");
    ask(&mut one, "SELECT pg_advisory_xact_lock(1)");
    assert_eq!(ask(&mut other, "SELECT pg_try_advisory_lock(3)"), ["f"]);
    ask(&mut other, "COMMIT PREPARED 'a'");
    assert_eq!(ask(&mut other, "SELECT pg_try_advisory_lock(3), pg_try_advisory_lock(1)"), ["t,f"]);
    ask(&mut one, "ROLLBACK");
}

/// An attempt that is run again has taken nothing.
#[test]
fn a_statement_that_is_run_again_takes_its_advisory_lock_once() {
    let database = open(Scheme::SiSsn);
    let (mut one, mut other) = (session(&database, "serializable"), session(&database, "read committed"));
    ask(&mut one, "BEGIN");
    ask(&mut one, "UPDATE t SET v = v + 1 WHERE id = 1");
    ask(&mut other, "SET lock_timeout = '60ms'");
    ask(&mut other, "BEGIN");
    let waited = run(&mut other, "UPDATE t SET v = 9 WHERE id = 1 AND pg_try_advisory_lock(4)");
    assert_eq!(waited, Err(SqlState::LOCK_NOT_AVAILABLE));
    ask(&mut other, "ROLLBACK");
    ask(&mut one, "COMMIT");
    ask(&mut other, "UPDATE t SET v = 9 WHERE id = 1 AND pg_try_advisory_lock(4)");
    ask(&mut other, "SELECT pg_advisory_unlock(4)");
    // The last attempt of the statement that failed has left one, as in PostgreSQL.
    let left = ask(&mut other, "SELECT pg_advisory_unlock(4), pg_advisory_unlock(4)");
    assert!(left == ["t,f"] || left == ["f,f"], "{left:?}");
}

#[test]
fn commits_are_acknowledged_as_the_database_was_opened() {
    let directory = std::env::temp_dir().join(format!("ermine-sql-acknowledged-{}", std::process::id()));
    for (durability, shown) in [(Durability::Durable, "on"), (Durability::Async, "off")] {
        let options = Options::default().durability(durability);
        let database = SqlDatabase::open(Arc::new(Database::open(&directory, options).unwrap())).unwrap();
        let mut session = database.session("tester", "test");
        assert_eq!(ask(&mut session, "SHOW synchronous_commit"), [shown]);
        ask(&mut session, "SET synchronous_commit = 'on'");
        assert_eq!(ask(&mut session, "SHOW synchronous_commit"), ["on"]);
        ask(&mut session, "SET synchronous_commit = local");
        assert_eq!(ask(&mut session, "SHOW synchronous_commit"), ["local"]);
        ask(&mut session, "RESET synchronous_commit");
        assert_eq!(ask(&mut session, "SHOW synchronous_commit"), [shown]);
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn waiting_ends() {
    let database = open(Scheme::SiSsn);
    let (mut one, mut other) = (session(&database, "read committed"), session(&database, "read committed"));
    ask(&mut one, "BEGIN");
    ask(&mut one, "UPDATE t SET v = 7 WHERE id = 1");
    ask(&mut other, "SET lock_timeout = '20ms'");
    assert_eq!(run(&mut other, "UPDATE t SET v = 8 WHERE id = 1"), Err(SqlState::LOCK_NOT_AVAILABLE));
    ask(&mut other, "BEGIN");
    ask(&mut other, "UPDATE t SET v = 9 WHERE id = 2");
    ask(&mut other, "SAVEPOINT s");
    assert_eq!(run(&mut other, "UPDATE t SET v = 8 WHERE id = 1"), Err(SqlState::LOCK_NOT_AVAILABLE));
    // A savepoint helps against that.
    ask(&mut other, "ROLLBACK TO s");
    ask(&mut other, "SET LOCAL statement_timeout = '20ms'");
    ask(&mut other, "SET LOCAL lock_timeout = 0");
    assert_eq!(run(&mut other, "UPDATE t SET v = 8 WHERE id = 1"), Err(SqlState::QUERY_CANCELED));
    ask(&mut other, "ROLLBACK TO s");
    ask(&mut other, "COMMIT");
    ask(&mut one, "COMMIT");
    assert_eq!(ask(&mut one, "SELECT v FROM t ORDER BY id"), ["7", "9"]);
}

/// A lost conflict is final, savepoint or not: the same snapshot would lose again.
#[test]
fn a_savepoint_does_not_help_who_lost_a_conflict_when_serializable() {
    let database = open(Scheme::SiSsn);
    let (mut one, mut other) = (session(&database, "serializable"), session(&database, "serializable"));
    ask(&mut one, "BEGIN");
    ask(&mut one, "SELECT v FROM t");
    ask(&mut one, "SAVEPOINT s");
    ask(&mut other, "UPDATE t SET v = 3 WHERE id = 1");
    assert_eq!(run(&mut one, "UPDATE t SET v = 4 WHERE id = 1"), Err(SqlState::SERIALIZATION_FAILURE));
    assert_eq!(run(&mut one, "ROLLBACK TO s"), Err(SqlState::IN_FAILED_SQL_TRANSACTION));
    ask(&mut one, "ROLLBACK");
    assert_eq!(ask(&mut one, "SELECT v FROM t WHERE id = 1"), ["3"]);
}

#[test]
fn rows_that_somebody_has_locked_are_refused_or_skipped() {
    for level in ["read committed", "repeatable read", "serializable"] {
        let database = open(Scheme::SiSsn);
        let (mut one, mut other) = (session(&database, level), session(&database, level));
        ask(&mut one, "BEGIN");
        assert_eq!(ask(&mut one, "SELECT id FROM t ORDER BY id LIMIT 1 FOR UPDATE"), ["1"]);
        ask(&mut other, "BEGIN");
        assert_eq!(ask(&mut other, "SELECT id FROM t FOR UPDATE SKIP LOCKED"), ["2"], "{level}");
        ask(&mut other, "SAVEPOINT s");
        let refused = run(&mut other, "SELECT id FROM t WHERE id = 1 FOR UPDATE NOWAIT");
        assert_eq!(refused, Err(SqlState::LOCK_NOT_AVAILABLE), "{level}");
        ask(&mut other, "ROLLBACK TO s");
        let refused = run(&mut other, "SELECT id FROM t WHERE id = 1 FOR SHARE NOWAIT");
        assert_eq!(refused, Err(SqlState::LOCK_NOT_AVAILABLE), "{level}");
        ask(&mut other, "ROLLBACK");
        // A transaction that only reads blocks no other, and no other blocks it.
        assert_eq!(ask(&mut other, "SELECT v FROM t WHERE id = 1"), ["1"]);
        ask(&mut one, "COMMIT");
        assert_eq!(ask(&mut other, "SELECT id FROM t FOR UPDATE NOWAIT").len(), 2);
    }
}

/// Other transactions do not change a locked row until the transaction ends: decisions based on the row hold.
#[test]
fn locked_rows_prevent_write_skew_below_serializable() {
    for lock in ["FOR UPDATE", "FOR SHARE"] {
        for level in ["read committed", "repeatable read"] {
            let database = open(Scheme::SiSsn);
            let (mut one, mut other) = (session(&database, level), session(&database, level));
            ask(&mut other, "SET lock_timeout = '10ms'");
            ask(&mut one, "BEGIN");
            ask(&mut other, "BEGIN");
            ask(&mut one, &format!("SELECT v FROM t ORDER BY id {lock}"));
            assert!(run(&mut other, &format!("SELECT v FROM t ORDER BY id {lock}")).is_err(), "{lock} {level}");
            ask(&mut one, "UPDATE t SET v = v + 1 WHERE id = 1");
            ask(&mut one, "COMMIT");
        }
    }
}

/// Many sessions take rows from a queue: each row goes to one of them, and none loses a conflict when rows that others
/// have locked are skipped.
#[test]
fn a_queue_gives_each_row_to_one() {
    for level in ["read committed", "serializable"] {
        let database = open(Scheme::SiSsn);
        let mut one = session(&database, level);
        ask(&mut one, "CREATE TABLE queue (id integer PRIMARY KEY)");
        ask(&mut one, "INSERT INTO queue SELECT * FROM generate_series(1, 200)");
        let taken: Vec<_> = thread::scope(|scope| {
            let takers = [(); 4].map(|()| {
                scope.spawn(|| {
                    let (mut session, mut taken) = (session(&database, level), Vec::new());
                    loop {
                        let take = "DELETE FROM queue WHERE id IN \
                                    (SELECT id FROM queue ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id";
                        let got = ask(&mut session, take);
                        if got.is_empty() && ask(&mut session, "SELECT count(*) FROM queue") == ["0"] {
                            return taken;
                        }
                        taken.extend(got);
                    }
                })
            });
            takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect()
        });
        let mut numbers: Vec<u32> = taken.iter().map(|id| id.parse().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=200).collect::<Vec<_>>(), "{level}");
    }
}

#[test]
fn a_new_statement_sees_new_rows_and_tables_under_read_committed() {
    let database = open(Scheme::SiSsn);
    let (mut one, mut other) = (session(&database, "read committed"), session(&database, "serializable"));
    ask(&mut one, "BEGIN");
    ask(&mut one, "SELECT 1");
    ask(&mut other, "INSERT INTO t VALUES (3, 3)");
    assert_eq!(
        ask(&mut one, "SELECT count(*) FROM t"),
        ["3"],
        "the snapshot is that of the statement, not of the first one"
    );
    ask(&mut other, "CREATE TABLE u (id integer PRIMARY KEY)");
    assert_eq!(ask(&mut one, "SELECT count(*) FROM u"), ["0"]);
    ask(&mut one, "COMMIT");
}

/// A transaction that began before a table changed cannot use the table, however often it tries.
#[test]
fn a_table_that_was_changed_is_not_used_as_it_was() {
    let database = open(Scheme::SiSsn);
    let (mut one, mut other) = (session(&database, "serializable"), session(&database, "serializable"));
    ask(&mut other, "CREATE TABLE u (id integer PRIMARY KEY)");
    for level in ["SERIALIZABLE", "REPEATABLE READ"] {
        ask(&mut one, &format!("BEGIN ISOLATION LEVEL {level}"));
        ask(&mut one, "SELECT count(*) FROM u");
        ask(&mut one, "SAVEPOINT s");
        ask(&mut other, "CREATE INDEX t_v ON t (v)");
        for _ in 0..2 {
            let refused = run(&mut one, "INSERT INTO t VALUES (9, 9)");
            assert_eq!(refused, Err(SqlState::SERIALIZATION_FAILURE), "{level}");
            ask(&mut one, "ROLLBACK TO s");
        }
        ask(&mut one, "COMMIT");
        ask(&mut other, "DROP INDEX t_v");
    }
    // Nor where statements have snapshots of their own, and the transaction has changed definitions itself.
    ask(&mut one, "BEGIN ISOLATION LEVEL READ COMMITTED");
    ask(&mut one, "CREATE TABLE own (id integer PRIMARY KEY)");
    ask(&mut other, "ALTER TABLE t ADD COLUMN w integer");
    assert_eq!(run(&mut one, "INSERT INTO t VALUES (9, 9)"), Err(SqlState::SERIALIZATION_FAILURE));
    ask(&mut one, "ROLLBACK");
}

/// A schema is not dropped while another session creates a table in it, whatever the levels.
#[test]
fn a_schema_stays_for_the_table_that_is_made_in_it() {
    let levels = ["read committed", "repeatable read", "serializable"];
    for (level, schema) in levels.into_iter().flat_map(|level| ["s", "public"].map(|schema| (level, schema))) {
        let database = open(Scheme::SiSsn);
        let (mut one, mut other) = (session(&database, level), session(&database, level));
        ask(&mut other, "SET lock_timeout = '10ms'");
        ask(&mut one, "CREATE SCHEMA s; DROP TABLE t");
        ask(&mut one, "BEGIN");
        ask(&mut one, &format!("CREATE TABLE {schema}.x (id integer PRIMARY KEY)"));
        let dropped = run(&mut other, &format!("DROP SCHEMA {schema}"));
        let made = run(&mut one, "COMMIT");
        assert!(dropped.is_err() || made.is_err(), "{schema} at {level}");
        let there = run(&mut one, &format!("SELECT count(*) FROM {schema}.x"));
        assert_eq!(there.is_ok(), made.is_ok(), "{schema} at {level}");
    }
}

/// A setting made after a savepoint does not hold after going back to it.
#[test]
fn settings_go_back_with_everything_that_depends_on_them() {
    let database = open(Scheme::SiSsn);
    let mut one = session(&database, "serializable");
    ask(&mut one, "BEGIN");
    ask(&mut one, "SAVEPOINT s");
    ask(&mut one, "SET synchronous_commit = off");
    ask(&mut one, "ROLLBACK TO s");
    ask(&mut one, "INSERT INTO t VALUES (9, 9)");
    let mut rows = RowSet::default();
    let completion = one.simple_query("COMMIT", &mut rows).unwrap();
    assert!(completion.receipt.is_some(), "the client is told when it is durable");
    completion.wait().unwrap();
}

/// Statements that read all rows of a table.
const LOOK_AT_ROWS: [&str; 4] = [
    "CREATE INDEX i ON t (v)",
    "ALTER TABLE t ADD PRIMARY KEY (id)",
    "ALTER TABLE t ADD CHECK (v < 100)",
    "ALTER TABLE t ADD COLUMN w integer, ADD UNIQUE (v)",
];

/// Changes by other sessions in the meantime, and the rows that exist afterwards.
const MEANWHILE: [(&str, &[&str]); 3] = [
    ("INSERT INTO t VALUES (3, 500)", &["1,1", "2,2", "3,500"]),
    ("UPDATE t SET v = 500 WHERE id = 2", &["1,1", "2,500"]),
    ("DELETE FROM t WHERE id = 2", &["1,1"]),
];

/// Opens a table without a key, for those statements.
fn open_without_key(scheme: Scheme) -> SqlDatabase {
    let database = open(scheme);
    let mut session = database.session("tester", "test");
    ask(&mut session, "DROP TABLE t; CREATE TABLE t (id integer NOT NULL, v integer)");
    ask(&mut session, "INSERT INTO t VALUES (1, 1), (2, 2)");
    database
}

/// Checks the table after such a statement: it has every row, with its index entries, and none that violates a
/// constraint.
fn check_rows(session: &mut Session, rows: &[&str], case: &str) {
    assert_eq!(ask(session, "SELECT id, v FROM t ORDER BY id"), rows, "{case}");
    assert_eq!(session.disagreements().unwrap(), [""; 0], "{case}");
    let checks = ask(session, "SELECT conname FROM pg_constraint WHERE contype = 'c'");
    assert!(checks.is_empty() || rows.iter().all(|row| !row.ends_with("500")), "{case}: not every row meets it");
}

#[test]
fn a_change_of_definitions_in_an_old_snapshot_misses_no_row() {
    let cases = LOOK_AT_ROWS.iter().flat_map(|statement| MEANWHILE.map(|(change, rows)| (statement, change, rows)));
    let levels = ["read committed", "repeatable read", "serializable"];
    for (scheme, level) in WITH_VERSIONS.iter().flat_map(|scheme| levels.map(|level| (*scheme, level))) {
        if level == "serializable" && !scheme.is_serializable() {
            continue;
        }
        for ((statement, change, rows), before) in
            cases.clone().zip(["SELECT 1", "CREATE TABLE u ()"].into_iter().cycle())
        {
            let database = open_without_key(scheme);
            let (mut one, mut other) = (session(&database, level), session(&database, "read committed"));
            ask(&mut one, "BEGIN");
            ask(&mut one, before);
            ask(&mut other, change);
            let done = run(&mut one, statement);
            let expected = [Err(SqlState::SERIALIZATION_FAILURE), Err(SqlState::CHECK_VIOLATION), Ok(vec![])];
            let case = format!("{scheme}, {level}, {before}, {change}, {statement}");
            assert!(expected.contains(&done), "{case}: {done:?}");
            let _ = run(&mut one, "COMMIT");
            check_rows(&mut one, rows, &case);
        }
    }
}

/// The change waits for the transaction that uses the table, and sees what it has done.
#[test]
fn a_change_of_definitions_that_waits_misses_no_row() {
    let cases = LOOK_AT_ROWS.iter().zip(MEANWHILE.iter().cycle());
    for (scheme, (statement, (change, rows))) in
        WITH_VERSIONS.iter().flat_map(|scheme| cases.clone().map(|case| (*scheme, case)))
    {
        let database = open_without_key(scheme);
        let (mut one, mut other) = (session(&database, "repeatable read"), session(&database, "read committed"));
        ask(&mut other, "BEGIN");
        ask(&mut other, change);
        let done = thread::scope(|scope| {
            let changing = scope.spawn(|| run(&mut one, statement));
            thread::sleep(Duration::from_millis(20));
            ask(&mut other, "COMMIT");
            changing.join().unwrap()
        });
        let case = format!("{scheme}, {change}, {statement}");
        let is_broken = statement.contains("CHECK") && rows.iter().any(|row| row.ends_with("500"));
        assert_eq!(done, if is_broken { Err(SqlState::CHECK_VIOLATION) } else { Ok(vec![]) }, "{case}");
        check_rows(&mut one, rows, &case);
    }
}

/// A definition is published when it is durable; a session that asks for the name before that does not get it.
#[test]
fn a_name_is_given_once() {
    for scheme in [Scheme::SiSsn, Scheme::Rc, Scheme::Silo, Scheme::TwoPhaseWaitDie] {
        let directory = std::env::temp_dir().join(format!("ermine-sql-names-{scheme}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        let engine = Database::open(&directory, Options::default().scheme(scheme)).unwrap();
        let database = SqlDatabase::open(Arc::new(engine)).unwrap();
        for round in 0..10 {
            let made: Vec<_> = thread::scope(|scope| {
                let make = || run(&mut database.session("tester", "test"), &format!("CREATE TABLE t{round} (a int)"));
                let makers: Vec<_> = (0..3).map(|_| scope.spawn(make)).collect();
                makers.into_iter().map(|maker| maker.join().unwrap()).collect()
            });
            assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1, "{scheme}: {made:?}");
            let refused = |made: &&Result<_, SqlState>| {
                matches!(made, Err(SqlState::DUPLICATE_TABLE | SqlState::SERIALIZATION_FAILURE))
            };
            assert_eq!(made.iter().filter(refused).count(), 2, "{scheme}: {made:?}");
            let named = format!("SELECT count(*) FROM pg_class WHERE relname = 't{round}'");
            assert_eq!(ask(&mut database.session("tester", "test"), &named), ["1"], "{scheme}");
        }
        drop(database);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}

#[test]
fn an_error_that_a_client_found_is_certified() {
    for scheme in [Scheme::SiSsn, Scheme::Silo] {
        let database = open(scheme);
        let (mut one, mut other) = (session(&database, "serializable"), session(&database, "serializable"));
        ask(&mut one, "BEGIN");
        ask(&mut one, "SELECT v FROM t WHERE id = 1");
        ask(&mut one, "UPDATE t SET v = 5 WHERE id = 2");
        one.roll_back_certified().unwrap();
        assert_eq!(one.status(), Status::Idle);
        assert_eq!(ask(&mut one, "SELECT v FROM t ORDER BY id"), ["1", "2"], "{scheme}: the write is undone");

        // The one row before the change of both, and the other row after it, where rows are changed in place.
        ask(&mut one, "BEGIN");
        ask(&mut one, "SELECT v FROM t WHERE id = 1");
        ask(&mut other, "UPDATE t SET v = v + 10");
        let second = ask(&mut one, "SELECT v FROM t WHERE id = 2");
        let certified = one.roll_back_certified();
        match scheme.has_versions() {
            true => (assert_eq!(second, ["2"]), certified.unwrap()).1,
            false => assert_eq!(certified.unwrap_err().state(), SqlState::SERIALIZATION_FAILURE, "{second:?}"),
        }
        assert_eq!(one.status(), Status::Idle);
    }
}

#[test]
fn types_are_given_where_they_cannot_be_inferred() {
    let database = open(Scheme::SiSsn);
    let mut one = session(&database, "serializable");
    let int8 = [Some(SqlType::INT8)];
    ask(&mut one, "BEGIN");
    for _ in 0..2 {
        let mut types = |text: &str, lists: &[&[_]]| {
            let (place, prepared) = one.prepare_with_any(text, lists).unwrap();
            (place, prepared.parameters().to_vec())
        };
        let text = "SELECT v FROM t WHERE id = $1";
        assert_eq!(types(text, &[&[], &int8]), (0, vec![SqlType::INT4]));
        assert_eq!(types(text, &[&int8]), (0, vec![SqlType::INT8]));
        assert_eq!(types("SELECT $1 IS NULL", &[&[], &int8]), (1, vec![SqlType::INT8]));
    }
    // No attempt has failed the transaction.
    assert_eq!(one.status(), Status::Open);
    let error = one.prepare_with_any("SELECT nothing($1)", &[&[], &int8]).err().unwrap();
    assert_eq!(error.state(), SqlState::UNDEFINED_FUNCTION);
    assert_eq!(one.status(), Status::Failed);
}

/// A text with several commits is complete when all of them are durable.
#[test]
fn a_text_waits_for_each_of_its_commits() {
    let directory = std::env::temp_dir().join(format!("ermine-sql-several-{}", std::process::id()));
    let engine = Arc::new(Database::open(&directory, Options::default()).unwrap());
    let database = SqlDatabase::open(engine.clone()).unwrap();
    let mut session = database.session("tester", "test");
    ask(&mut session, "CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY)");
    let reader = engine.log_reader(None).unwrap();
    for rest in ["SELECT count(*) FROM u", "SET synchronous_commit = local; INSERT INTO u VALUES (1)"] {
        let hold = reader.hold_commits(0);
        let text = format!("BEGIN; INSERT INTO t VALUES ({}); COMMIT; {rest}", rest.len());
        let receipt =
            session.simple_query(&text, &mut RowSet::default()).unwrap().receipt.expect("the transaction wrote");
        assert!(!receipt.is_durable());
        hold.end();
        receipt.wait().unwrap();
    }
    drop((session, database, engine));
    std::fs::remove_dir_all(&directory).unwrap();
}
