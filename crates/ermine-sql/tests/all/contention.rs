//! Goal: statements that meet other transactions wait, lose, or find deadlocks as in PostgreSQL, and what they wait for is
//! shown.
//! Method: scripts of statements of sessions with threads of their own. Steps follow one another by what is observed:
//! the result of a statement, or in `pg_stat_activity` that it waits.

use std::{
    collections::HashMap,
    sync::{Arc, mpsc},
    thread,
};

use ermine::{Database, Options, Scheme};
use ermine_sql::{RowSet, Session, SqlDatabase};

use crate::sessions::ask;

const WITH_VERSIONS: [Scheme; 6] = [Scheme::Rc, Scheme::Si, Scheme::RcSsn, Scheme::SiSsn, Scheme::SiSsi, Scheme::MvOcc];

/// The rows of a statement, or its error: the code and the message.
type Outcome = Result<Vec<String>, (String, String, String)>;

/// A session in a thread of its own.
struct Client {
    statements: mpsc::Sender<String>,
    outcomes: mpsc::Receiver<Outcome>,
    process: i32,
}

/// Sessions by name, and one that observes.
struct Stage {
    database: SqlDatabase,
    clients: HashMap<&'static str, Client>,
    observer: Session,
    case: String,
}

impl Stage {
    fn new(scheme: Scheme, case: &str) -> Self {
        let engine = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
        let database = SqlDatabase::open(Arc::new(engine)).unwrap();
        let mut observer = database.session("observer", "test");
        let tables = "CREATE TABLE t (id integer PRIMARY KEY, v integer, w integer UNIQUE); \
            CREATE TABLE u (id integer PRIMARY KEY, v integer)";
        ask(&mut observer, tables);
        ask(&mut observer, "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3); INSERT INTO u VALUES (1, 1), (2, 2)");
        Self { database, clients: HashMap::new(), observer, case: format!("{scheme}, {case}") }
    }

    fn client(&mut self, name: &'static str) -> &Client {
        let process = self.clients.len() as i32 + 1;
        self.clients.entry(name).or_insert_with(|| {
            let mut session = self.database.session(name, "test");
            session.connect(process, None, Box::new(|| {}));
            let (statements, received) = mpsc::channel::<String>();
            let (sent, outcomes) = mpsc::channel();
            thread::spawn(move || {
                for statement in received {
                    let mut rows = RowSet::default();
                    let done = session.run(&statement, &mut rows).map(drop).map_err(|error| {
                        let report = error.report();
                        (report.state.0.into(), report.message.clone(), report.detail.clone().unwrap_or_default())
                    });
                    let rows = rows.texts().iter().map(|row| row.join(",")).collect();
                    if sent.send(done.map(|()| rows)).is_err() {
                        return;
                    }
                }
            });
            Client { statements, outcomes, process }
        })
    }

    fn begins(&mut self, name: &'static str, statement: &str) {
        self.client(name).statements.send(statement.into()).unwrap();
    }

    /// Returns the result of the statement that a session runs.
    fn done(&mut self, name: &'static str) -> Outcome {
        self.client(name).outcomes.recv().unwrap()
    }

    /// Runs a statement to its end.
    fn run(&mut self, name: &'static str, statement: &str) -> Outcome {
        self.begins(name, statement);
        self.done(name)
    }

    /// Runs a statement that succeeds.
    fn ask(&mut self, name: &'static str, statement: &str) -> Vec<String> {
        self.run(name, statement).unwrap_or_else(|error| panic!("{}: {name}: {statement}: {error:?}", self.case))
    }

    /// Begins a statement, and returns when it waits for others; returns the event.
    fn waits(&mut self, name: &'static str, statement: &str) -> String {
        self.begins(name, statement);
        let process = self.client(name).process;
        loop {
            let seen =
                format!("SELECT wait_event FROM pg_stat_activity WHERE pid = {process} AND wait_event_type = 'Lock'");
            if let Some(event) = ask(&mut self.observer, &seen).pop() {
                return event;
            }
            if let Ok(done) = self.clients[name].outcomes.try_recv() {
                panic!("{}: {name}: {statement}: does not wait: {done:?}", self.case);
            }
            thread::yield_now();
        }
    }

    /// Returns the connections that a session waits for.
    fn blocked_by(&mut self, name: &'static str) -> String {
        let process = self.client(name).process;
        ask(&mut self.observer, &format!("SELECT pg_blocking_pids({process})")).remove(0)
    }

    fn cancel(&mut self, name: &'static str) {
        let process = self.client(name).process;
        assert_eq!(ask(&mut self.observer, &format!("SELECT pg_cancel_backend({process})")), ["t"]);
    }
}

fn rows(rows: &[&str]) -> Outcome {
    Ok(rows.iter().map(|row| (*row).to_owned()).collect())
}

fn code(outcome: &Outcome) -> &str {
    match outcome {
        Ok(_) => "00000",
        Err((code, ..)) => code,
    }
}

#[test]
fn the_second_writer_waits_for_the_first() {
    for scheme in WITH_VERSIONS {
        // The level, whether the second one has a snapshot, the end of the first, and what the second then gets.
        let cases = [
            ("READ COMMITTED", true, "COMMIT", "00000", "12"),
            ("READ COMMITTED", true, "ROLLBACK", "00000", "11"),
            ("REPEATABLE READ", true, "COMMIT", "40001", "2"),
            ("REPEATABLE READ", true, "ROLLBACK", "00000", "11"),
            ("REPEATABLE READ", false, "COMMIT", "00000", "12"),
        ];
        for (level, has_snapshot, end, expected, value) in cases {
            let mut stage = Stage::new(scheme, &format!("{level}, {has_snapshot}, {end}"));
            for session in ["a", "b"] {
                stage.ask(session, &format!("BEGIN ISOLATION LEVEL {level}"));
            }
            stage.ask("a", "UPDATE t SET v = v + 1 WHERE id = 1");
            if has_snapshot {
                stage.ask("b", "UPDATE t SET v = v + 1 WHERE id = 2");
            }
            assert_eq!(stage.waits("b", "UPDATE t SET v = v + 10 WHERE id = 1"), "transactionid");
            assert_eq!(stage.blocked_by("b"), "{1}", "{}", stage.case);
            stage.ask("a", end);
            assert_eq!(code(&stage.done("b")), expected, "{}", stage.case);
            stage.ask("b", if expected == "00000" { "COMMIT" } else { "ROLLBACK" });
            assert_eq!(stage.ask("a", "SELECT v FROM t WHERE id = 1"), [value], "{}", stage.case);
        }
    }
}

#[test]
fn an_insert_waits_for_the_insert_of_the_same_key() {
    const DUPLICATE: &str = "23505";
    // The statement, its level, the end of the other, what it gets, and the row afterwards.
    let cases = [
        ("INSERT INTO t VALUES (9, 1, 9)", "READ COMMITTED", "COMMIT", DUPLICATE, "9,9,9"),
        ("INSERT INTO t VALUES (9, 1, 9)", "READ COMMITTED", "ROLLBACK", "00000", "9,1,9"),
        ("INSERT INTO t VALUES (9, 1, 9)", "REPEATABLE READ", "ROLLBACK", "00000", "9,1,9"),
        ("INSERT INTO t VALUES (10, 1, 9)", "READ COMMITTED", "COMMIT", DUPLICATE, "9,9,9"),
        ("INSERT INTO t VALUES (10, 1, 9)", "REPEATABLE READ", "ROLLBACK", "00000", "10,1,9"),
        ("INSERT INTO t VALUES (9, 1, 9) ON CONFLICT DO NOTHING", "READ COMMITTED", "COMMIT", "00000", "9,9,9"),
        ("INSERT INTO t VALUES (9, 1, 9) ON CONFLICT DO NOTHING", "READ COMMITTED", "ROLLBACK", "00000", "9,1,9"),
        ("INSERT INTO t VALUES (9, 1, 9) ON CONFLICT DO NOTHING", "REPEATABLE READ", "COMMIT", "40001", "9,9,9"),
        (
            "INSERT INTO t VALUES (9, 1, 9) ON CONFLICT (id) DO UPDATE SET v = t.v + 1",
            "READ COMMITTED",
            "COMMIT",
            "00000",
            "9,10,9",
        ),
        (
            "INSERT INTO t VALUES (9, 1, 9) ON CONFLICT (w) DO UPDATE SET v = t.v + 1",
            "REPEATABLE READ",
            "COMMIT",
            "40001",
            "9,9,9",
        ),
    ];
    for (statement, level, end, expected, row) in cases {
        let mut stage = Stage::new(Scheme::SiSsn, &format!("{statement}, {level}, {end}"));
        stage.ask("a", "BEGIN; INSERT INTO t VALUES (9, 9, 9)");
        stage.ask("b", &format!("BEGIN ISOLATION LEVEL {level}"));
        stage.ask("b", "SELECT v FROM t WHERE id = 1");
        stage.waits("b", statement);
        stage.ask("a", end);
        assert_eq!(code(&stage.done("b")), expected, "{}", stage.case);
        stage.ask("b", if expected == "00000" { "COMMIT" } else { "ROLLBACK" });
        assert_eq!(stage.ask("a", "SELECT id, v, w FROM t WHERE w = 9"), [row], "{}", stage.case);
    }
    // By themselves, at the default level.
    let alone = [
        ("INSERT INTO t VALUES (9, 1, 9)", DUPLICATE),
        ("INSERT INTO t VALUES (9, 1, 9) ON CONFLICT DO NOTHING", "00000"),
        ("INSERT INTO t VALUES (9, 1, 9) ON CONFLICT (id) DO UPDATE SET v = 0", "00000"),
    ];
    for (statement, expected) in alone {
        let mut stage = Stage::new(Scheme::SiSsn, statement);
        stage.ask("a", "BEGIN; INSERT INTO t VALUES (9, 9, 9)");
        stage.waits("b", statement);
        stage.ask("a", "COMMIT");
        assert_eq!(code(&stage.done("b")), expected, "{}", stage.case);
    }
}

#[test]
fn a_change_of_a_table_waits_for_its_users_and_they_for_it() {
    for scheme in WITH_VERSIONS {
        let mut stage = Stage::new(scheme, "ALTER TABLE");
        stage.ask("a", "BEGIN; UPDATE t SET v = v + 1 WHERE id = 1");
        assert_eq!(stage.waits("b", "ALTER TABLE t ADD COLUMN x integer DEFAULT 5"), "relation");
        assert_eq!(stage.waits("c", "SELECT v FROM t WHERE id = 1"), "relation");
        assert_eq!((&*stage.blocked_by("b"), &*stage.blocked_by("c")), ("{1}", "{2}"), "{}", stage.case);
        let shown = "SELECT pid, mode, granted FROM pg_locks WHERE relation = 't'::regclass AND pid < 4 ORDER BY pid";
        let shown = ask(&mut stage.observer, shown);
        assert_eq!(shown, ["1,AccessShareLock,t", "2,AccessExclusiveLock,f", "3,AccessShareLock,f"]);
        // It uses the table already.
        stage.ask("a", "UPDATE t SET v = v + 1 WHERE id = 2");
        stage.ask("a", "COMMIT");
        assert_eq!(code(&stage.done("b")), "00000", "{}", stage.case);
        assert_eq!(stage.done("c"), rows(&["2"]), "{}", stage.case);
    }
}

/// No client was told the columns of a simple query before, although its plan is remembered.
#[test]
fn a_simple_query_waits_for_a_change_of_its_columns() {
    for scheme in WITH_VERSIONS {
        let mut stage = Stage::new(scheme, "ALTER COLUMN");
        let query = "SELECT v FROM t WHERE id = 1";
        assert_eq!(stage.ask("b", query), ["1"]);
        stage.ask("a", "BEGIN; ALTER TABLE t ALTER v TYPE text");
        assert_eq!(stage.waits("b", query), "relation");
        stage.ask("a", "COMMIT");
        assert_eq!(stage.done("b"), rows(&["1"]), "{}", stage.case);
    }
}

/// Each session has what the next one wants; the last one to wait gives up, and the others go on.
#[test]
fn deadlocks_are_found_across_rows_tables_and_advisory_locks() {
    const ROW: (&str, &str) = ("UPDATE t SET v = 0 WHERE id = 1", "UPDATE t SET v = 1 WHERE id = 1");
    const OTHER_ROW: (&str, &str) = ("UPDATE t SET v = 0 WHERE id = 2", "UPDATE t SET v = 1 WHERE id = 2");
    const TABLE: (&str, &str) = ("LOCK TABLE u", "LOCK TABLE u");
    const READ: (&str, &str) = ("LOCK TABLE u", "SELECT count(*) FROM u");
    const CHANGE: (&str, &str) = ("SELECT count(*) FROM u", "ALTER TABLE u ADD COLUMN x integer");
    const ADVISORY: (&str, &str) = ("SELECT pg_advisory_xact_lock(7)", "SELECT pg_advisory_xact_lock(7)");
    const SHARED: (&str, &str) = ("SELECT pg_advisory_lock_shared(8)", "SELECT pg_advisory_xact_lock(8)");
    let circles: [&[(&str, &str)]; 9] = [
        &[ROW, OTHER_ROW],
        &[ROW, TABLE],
        &[CHANGE, ROW],
        &[ROW, ADVISORY],
        &[ADVISORY, SHARED],
        &[READ, ADVISORY],
        &[ROW, READ, ADVISORY],
        &[ADVISORY, ROW, CHANGE],
        &[SHARED, OTHER_ROW, TABLE],
    ];
    let levels = ["READ COMMITTED", "REPEATABLE READ"];
    for (circle, level) in circles.into_iter().flat_map(|circle| levels.map(|level| (circle, level))) {
        let mut stage = Stage::new(Scheme::SiSsn, &format!("{circle:?}, {level}"));
        let sessions = &["a", "b", "c"][..circle.len()];
        for (session, (has, _)) in sessions.iter().zip(circle) {
            stage.ask(session, &format!("BEGIN ISOLATION LEVEL {level}"));
            stage.ask(session, has);
        }
        for at in 0..circle.len() - 1 {
            stage.waits(sessions[at], circle[at + 1].1);
        }
        let last = sessions[circle.len() - 1];
        let lost = stage.run(last, circle[0].1);
        assert_eq!(code(&lost), "40P01", "{}: {lost:?}", stage.case);
        let detail = lost.unwrap_err().2;
        let (own, first) = (circle.len(), 1);
        assert!(detail.starts_with(&format!("Process {own} waits for ")), "{}: {detail}", stage.case);
        assert!(detail.lines().next().unwrap().ends_with(&format!("; blocked by process {first}.")), "{detail}");
        assert_eq!(detail.lines().count(), circle.len(), "{detail}");
        stage.ask(last, "ROLLBACK; SELECT pg_advisory_unlock_all()");
        for at in (0..circle.len() - 1).rev() {
            let done = stage.done(sessions[at]);
            // The row that it waited for may have been changed.
            let may_lose =
                level == "REPEATABLE READ" && circle[at + 1].1.starts_with("UPDATE") && at + 2 < circle.len();
            let expected = if may_lose { "40001" } else { "00000" };
            assert_eq!(code(&done), expected, "{}: {done:?}", stage.case);
            stage.ask(sessions[at], "COMMIT; SELECT pg_advisory_unlock_all()");
        }
        assert_eq!(ask(&mut stage.observer, "SELECT count(*) FROM pg_locks WHERE NOT granted"), ["0"]);
    }
}

/// Two that use a table want to change it.
#[test]
fn of_two_that_want_to_change_a_table_they_use_one_gives_up() {
    let mut stage = Stage::new(Scheme::SiSsn, "upgrade");
    for session in ["a", "b"] {
        stage.ask(session, "BEGIN; SELECT v FROM t WHERE id = 1");
    }
    stage.waits("a", "LOCK TABLE t");
    assert_eq!(code(&stage.run("b", "LOCK TABLE t")), "40P01");
    stage.ask("b", "ROLLBACK");
    assert_eq!(code(&stage.done("a")), "00000");
}

#[test]
fn every_wait_ends_by_a_request_and_by_its_limits() {
    let cases = [
        ("SELECT v FROM t WHERE id = 1 FOR UPDATE", "UPDATE t SET v = 0 WHERE id = 1"),
        ("SELECT v FROM t WHERE id = 1", "LOCK TABLE t"),
        ("SELECT v FROM t WHERE id = 1", "ALTER TABLE t ADD COLUMN x integer"),
        ("SELECT v FROM t WHERE id = 1", "CREATE INDEX ON t (v)"),
        ("LOCK TABLE t", "SELECT count(*) FROM t"),
        ("SELECT pg_advisory_xact_lock(7)", "SELECT pg_advisory_lock(7)"),
    ];
    let levels = ["read committed", "repeatable read", "serializable"];
    for ((has, wants), level) in cases.into_iter().flat_map(|case| levels.map(|level| (case, level))) {
        for is_alone in [true, false] {
            let mut stage = Stage::new(Scheme::SiSsn, &format!("{wants}, {level}, {is_alone}"));
            stage.ask("a", &format!("BEGIN; {has}"));
            stage.ask("b", &format!("SET default_transaction_isolation = '{level}'"));
            if is_alone && wants.starts_with("LOCK") {
                continue;
            }
            let block = |stage: &mut Stage, word: &str| _ = (!is_alone).then(|| stage.ask("b", word));
            block(&mut stage, "BEGIN");
            stage.waits("b", wants);
            stage.cancel("b");
            let done = stage.done("b");
            let expected = ("57014", "canceling statement due to user request");
            assert_eq!(done.as_ref().unwrap_err().0, expected.0, "{}: {done:?}", stage.case);
            assert_eq!(done.unwrap_err().1, expected.1, "{}", stage.case);
            block(&mut stage, "ROLLBACK");
            for (setting, expected) in [
                ("statement_timeout", ("57014", "canceling statement due to statement timeout")),
                ("lock_timeout", ("55P03", "canceling statement due to lock timeout")),
            ] {
                stage.ask("b", &format!("SET {setting} = 20"));
                block(&mut stage, "BEGIN");
                let (code, message, _) = stage.run("b", wants).unwrap_err();
                assert_eq!((&*code, &*message), expected, "{}", stage.case);
                block(&mut stage, "ROLLBACK");
                stage.ask("b", &format!("SET {setting} = 0"));
            }
            // Nothing is left of the waits.
            stage.ask("a", "COMMIT");
            block(&mut stage, "BEGIN");
            stage.ask("b", wants);
        }
    }
}

#[test]
fn nowait_and_skip_locked_do_not_wait() {
    let mut stage = Stage::new(Scheme::SiSsn, "NOWAIT");
    stage.ask("a", "BEGIN; SELECT v FROM t WHERE id = 1 FOR UPDATE");
    stage.ask("b", "BEGIN; SAVEPOINT s");
    let refused = stage.run("b", "LOCK TABLE t NOWAIT").unwrap_err();
    assert_eq!((&*refused.0, &*refused.1), ("55P03", "could not obtain lock on relation \"t\""));
    stage.ask("b", "ROLLBACK TO s");
    let refused = stage.run("b", "SELECT v FROM t ORDER BY id FOR UPDATE NOWAIT").unwrap_err();
    assert_eq!((&*refused.0, &*refused.1), ("55P03", "could not obtain lock on row in relation \"t\""));
    stage.ask("b", "ROLLBACK TO s");
    assert_eq!(stage.ask("b", "SELECT id FROM t ORDER BY id FOR UPDATE SKIP LOCKED"), ["2", "3"]);
}

/// A statement waits for a row while others change it again and again, each in a transaction that begins when the one
/// before it has ended: it gets its turn.
#[test]
fn a_waiting_statement_is_not_passed_forever() {
    let database = Stage::new(Scheme::SiSsn, "fairness").database;
    for level in ["read committed", "serializable"] {
        let is_over = std::sync::atomic::AtomicBool::new(false);
        thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    let mut session = database.session("tester", "test");
                    while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        ask(&mut session, "UPDATE t SET v = v + 1 WHERE id = 1");
                    }
                });
            }
            let mut session = database.session("tester", "test");
            ask(&mut session, &format!("SET default_transaction_isolation = '{level}'"));
            for _ in 0..20 {
                ask(
                    &mut session,
                    "UPDATE t SET w = w + 100 + 0 * (SELECT count(*) FROM generate_series(1, 2000)) \
                    WHERE id = 1",
                );
            }
            if level == "read committed" {
                for _ in 0..10 {
                    ask(&mut session, "BEGIN");
                    ask(&mut session, "UPDATE t SET w = w + 100 WHERE id = 1");
                    ask(&mut session, "COMMIT");
                }
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}

/// Sessions and their statements, in order.
type Steps = &'static [(&'static str, &'static str)];

/// A client that loses is told what it and the other session have done.
#[test]
fn a_lost_conflict_is_a_story() {
    const SKEW: &str = "could not serialize access due to read/write dependencies among transactions";
    const WRITE: &str = "could not serialize access due to concurrent update";
    let begin = "BEGIN ISOLATION LEVEL SERIALIZABLE";
    // The steps of two sessions, of which the last one loses, and what it is told.
    let cases: [(Steps, &str, &str); 6] = [
        (
            &[
                ("a", "SELECT v FROM t WHERE id = 1"),
                ("b", "SELECT v FROM t WHERE id = 2"),
                ("a", "UPDATE t SET v = v + 1 WHERE id = 2"),
                ("b", "UPDATE t SET v = v + 1 WHERE id = 1"),
                ("a", "COMMIT"),
                ("b", "COMMIT"),
            ],
            SKEW,
            "You read t (id)=(2), which process 1 overwrote; process 1 read t (id)=(1), which you overwrote: neither can \
             come first.",
        ),
        (
            &[
                ("a", "SELECT count(*) FROM t WHERE id > 10"),
                ("b", "SELECT count(*) FROM t WHERE id > 10"),
                ("a", "INSERT INTO t VALUES (11, 1, 11)"),
                ("b", "INSERT INTO t VALUES (12, 1, 12)"),
                ("a", "COMMIT"),
                ("b", "COMMIT"),
            ],
            SKEW,
            "You looked for t (id)=(11), which process 1 inserted; process 1 read t (id)=(12), which you overwrote: \
             neither can come first.",
        ),
        (
            &[
                ("a", "SELECT v FROM t WHERE id = 1"),
                ("b", "SELECT v FROM t WHERE id = 1"),
                ("a", "UPDATE t SET v = 5 WHERE id = 1"),
                ("b", "UPDATE t SET v = 6 WHERE id = 1"),
            ],
            WRITE,
            "You write t (id)=(1), which process 1 is writing.",
        ),
        (
            &[
                ("b", "SELECT v FROM t WHERE id = 1"),
                ("a", "UPDATE t SET v = 5 WHERE id = 1"),
                ("a", "COMMIT"),
                ("b", "UPDATE t SET v = 6 WHERE id = 1"),
            ],
            WRITE,
            "You write t (id)=(1), which another transaction has written since you began.",
        ),
        (
            &[
                ("b", "SELECT v FROM t WHERE id = 1"),
                ("a", "INSERT INTO t VALUES (11, 1, 7)"),
                ("b", "INSERT INTO t VALUES (12, 1, 7)"),
            ],
            WRITE,
            "You write t (w)=(7), which process 1 is writing.",
        ),
        (
            &[
                ("b", "SELECT v FROM t WHERE id = 1"),
                ("a", "UPDATE t SET v = 5 WHERE id = 1"),
                ("a", "COMMIT"),
                ("c", "SELECT v FROM t WHERE id = 2"),
                ("c", "COMMIT"),
                ("b", "UPDATE t SET v = 6 WHERE id = 2"),
                ("b", "COMMIT"),
            ],
            SKEW,
            "You read t (id)=(1), which process 1 overwrote; process 3 read t (id)=(2), which you overwrote: no order may \
             fit all three.",
        ),
    ];
    for (steps, message, detail) in cases {
        let mut stage = Stage::new(Scheme::SiSsn, &format!("{steps:?}"));
        for session in ["a", "b", "c"] {
            stage.ask(session, begin);
        }
        let ((last, statement), before) = steps.split_last().unwrap();
        for (session, statement) in before {
            stage.ask(session, statement);
        }
        let (code, told, why) = stage.run(last, statement).unwrap_err();
        assert_eq!((&*code, &*told, &*why), ("40001", message, detail), "{}", stage.case);
    }
}

#[test]
fn conflicts_are_counted_by_table_statement_and_cause() {
    let mut stage = Stage::new(Scheme::SiSsn, "counts");
    let shown = "SELECT relname, statement, cause, conflicts FROM ermine_stat_conflicts ORDER BY 1, 2, 3";
    assert_eq!(ask(&mut stage.observer, shown), [""; 0]);
    for _ in 0..2 {
        for session in ["a", "b"] {
            stage.ask(session, "BEGIN; SELECT sum(v) FROM t");
        }
        stage.ask("a", "UPDATE t SET v = v + 1 WHERE id = 1");
        stage.ask("b", "UPDATE t SET v = v + 1 WHERE id = 2");
        stage.ask("a", "COMMIT");
        assert_eq!(code(&stage.run("b", "COMMIT")), "40001");
    }
    stage.ask("a", "BEGIN; UPDATE t SET v = v + 1 WHERE id = 1");
    stage.ask("b", "BEGIN; SELECT v FROM u");
    assert_eq!(code(&stage.run("b", "UPDATE t SET v = v + 1 WHERE id = 1")), "40001");
    stage.ask("b", "ROLLBACK");
    // A wait is no conflict, and no rollback, however often it looks whether the row is free.
    let rollbacks = "SELECT xact_rollback FROM pg_stat_database";
    let before = ask(&mut stage.observer, rollbacks);
    stage.waits("b", "UPDATE t SET v = v + 1 WHERE id = 1");
    std::thread::sleep(std::time::Duration::from_millis(50));
    stage.ask("a", "COMMIT");
    assert_eq!(code(&stage.done("b")), "00000");
    assert_eq!(ask(&mut stage.observer, rollbacks), before);
    let waits = "SELECT sum(waits) FROM pg_stat_statements WHERE query ~ '^UPDATE'";
    assert_eq!(ask(&mut stage.observer, waits), ["1"]);
    assert_eq!(ask(&mut stage.observer, shown), ["t,COMMIT,exclusion,2", "t,UPDATE,write-conflict,1"]);
    ask(&mut stage.observer, "SELECT ermine_stat_conflicts_reset()");
    assert_eq!(ask(&mut stage.observer, shown), [""; 0]);
}

#[test]
fn the_hottest_conflicts_are_shown_by_row_with_their_stories() {
    let mut stage = Stage::new(Scheme::SiSsn, "hot rows");
    let shown = "SELECT relname, key, cause, conflicts, conflicts_min, last_conflict <= now(), story \
        FROM ermine_stat_hot_conflicts ORDER BY conflicts DESC";
    let mut lose = |row: u32, times: usize| {
        for _ in 0..times {
            stage.ask("a", &format!("BEGIN; UPDATE t SET v = v + 1 WHERE id = {row}"));
            stage.ask("b", "BEGIN; SELECT v FROM u");
            assert_eq!(code(&stage.run("b", &format!("UPDATE t SET v = v + 1 WHERE id = {row}"))), "40001");
            stage.ask("b", "ROLLBACK");
            stage.ask("a", "COMMIT");
        }
    };
    lose(2, 1);
    lose(1, 3);
    let story = |row: u32| format!("You write t (id)=({row}), which process 1 is writing.");
    let rows = ask(&mut stage.observer, shown);
    assert_eq!(
        rows,
        [
            format!("t,(id)=(1),write-conflict,3,3,t,{}", story(1)),
            format!("t,(id)=(2),write-conflict,1,1,t,{}", story(2))
        ]
    );
    // Keys are data.
    ask(&mut stage.observer, "CREATE ROLE eva; CREATE ROLE watcher; GRANT pg_read_all_stats TO watcher; SET ROLE eva");
    let hidden = "SELECT relname, key IS NULL, conflicts, story IS NULL FROM ermine_stat_hot_conflicts ORDER BY 3 DESC";
    assert_eq!(ask(&mut stage.observer, hidden), ["t,t,3,t", "t,t,1,t"]);
    ask(&mut stage.observer, "RESET ROLE; SET ROLE watcher");
    assert_eq!(ask(&mut stage.observer, hidden), ["t,f,3,f", "t,f,1,f"]);
    ask(&mut stage.observer, "RESET ROLE; SELECT ermine_stat_conflicts_reset()");
    assert_eq!(ask(&mut stage.observer, shown), [""; 0]);
}

#[test]
fn other_sessions_see_how_far_the_build_of_an_index_is() {
    let mut stage = Stage::new(Scheme::SiSsn, "progress");
    ask(&mut stage.observer, "INSERT INTO t SELECT i, i, i FROM generate_series(4, 300) AS i");
    let shown = "SELECT p.pid, relid::regclass, index_relid::regclass, command, phase, tuples_done, tuples_total > 0 \
        FROM pg_stat_progress_create_index AS p";
    assert_eq!(ask(&mut stage.observer, shown), [""; 0]);
    stage.ask("a", "BEGIN; UPDATE u SET v = 2 WHERE id = 1; SELECT v FROM t WHERE id = 1");
    // `a` has begun before the index, and uses the table.
    stage.waits("b", "CREATE INDEX t_v ON t (v)");
    let waiting = ask(&mut stage.observer, shown);
    assert_eq!(waiting, ["2,t,t_v,CREATE INDEX,waiting for writers before build,0,t"]);
    // `c` knows the index; the build waits before the row that it writes.
    stage.ask("c", "BEGIN; UPDATE t SET w = -200 WHERE id = 200");
    stage.ask("a", "COMMIT");
    let reached = ["2,t,t_v,CREATE INDEX,building index: scanning table,199,t"];
    while ask(&mut stage.observer, shown) != reached {
        thread::yield_now();
    }
    // A role that may not see the statement sees no more than that there is one.
    ask(&mut stage.observer, "CREATE ROLE eva; SET ROLE eva");
    let hidden = "SELECT pid, relid IS NULL, phase IS NULL, tuples_done IS NULL FROM pg_stat_progress_create_index";
    assert_eq!(ask(&mut stage.observer, hidden), ["2,t,t,t"]);
    ask(&mut stage.observer, "RESET ROLE");
    stage.ask("c", "COMMIT");
    assert_eq!(code(&stage.done("b")), "00000");
    assert_eq!(ask(&mut stage.observer, shown), [""; 0]);
}
