//! Goal: a standby that is read shows what its original has committed, definitions and rows of one moment, and refuses
//! everything else as PostgreSQL's hot standby does.
//! Method: a database ships its log to a standby, piece by piece, when the test says so: the standby has exactly what
//! was shipped. Random lives compare the rows and the system's tables of both; other tests look while definitions
//! change.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use ermine::{Database, HotStandby, Options};
use ermine_sql::{
    RowSet, Session, SqlDatabase, SqlState,
    logical::{lsn, parse_lsn},
};
use fastrand::Rng;

use crate::sessions::{ask, run};

/// A directory that is removed at the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn options() -> Options {
    Options::default().log_keys(true).keep_log(1 << 30)
}

/// A database and its standby.
struct Pair {
    primary: SqlDatabase,
    engine: Arc<Database>,
    copy: SqlDatabase,
    standby: HotStandby,
    scratch: Scratch,
}

impl Pair {
    /// Makes a database by some statements, and its standby.
    fn new(name: &str, statements: &str) -> Self {
        let scratch = Scratch(std::env::temp_dir().join(format!("ermine-standby-{name}-{}", std::process::id())));
        let _ = std::fs::remove_dir_all(&scratch.0);
        std::fs::create_dir_all(&scratch.0).unwrap();
        let engine = Arc::new(Database::open(scratch.0.join("primary"), options()).unwrap());
        let primary = SqlDatabase::open(engine.clone()).unwrap();
        ask(&mut session(&primary), statements);
        engine.backup(scratch.0.join("standby")).unwrap();
        let standby = HotStandby::open(scratch.0.join("standby"), options()).unwrap();
        let copy = SqlDatabase::open(standby.database().clone()).unwrap();
        let mut pair = Self { primary, engine, copy, standby, scratch };
        pair.ship();
        pair
    }

    /// Ships the whole log.
    fn ship(&mut self) {
        self.engine.sync().unwrap();
        let mut reader = self.engine.log_reader(Some(self.standby.position())).unwrap();
        while let Some(piece) = reader.next(64 << 10).unwrap() {
            self.standby.receive_with(&piece, &mut |transaction, apply| self.copy.replay(transaction, apply)).unwrap();
        }
    }

    /// Marks a safe snapshot, for the next piece that is shipped.
    fn mark(&self) {
        // The log may be in use for a moment.
        assert!((0..100).any(|_| self.engine.mark_safe_snapshot()));
    }

    /// Runs statements on the database, and ships them.
    fn write(&mut self, statements: &str) {
        ask(&mut session(&self.primary), statements);
        self.ship();
    }

    /// Returns a session of the standby.
    fn reader(&self) -> Session {
        session(&self.copy)
    }
}

fn session(database: &SqlDatabase) -> Session {
    database.session("tester", "test")
}

/// Returns the code and the message of the error of a statement.
fn failure(session: &mut Session, statement: &str) -> (&'static str, String) {
    match session.run(statement, &mut RowSet::default()) {
        Err(error) => (error.state().0, error.report().message.clone()),
        Ok(()) => panic!("{statement} succeeds"),
    }
}

/// Tables of the system that are the same on a standby, as queries.
const SYSTEM: [&str; 28] = [
    "SELECT oid, relname, relnamespace, relkind, relowner, relacl, relnatts, relfilenode, relhasindex, relispopulated \
     FROM pg_class",
    "SELECT * FROM pg_attribute",
    "SELECT * FROM pg_attrdef",
    "SELECT * FROM pg_index",
    "SELECT * FROM pg_constraint",
    "SELECT * FROM pg_sequence",
    // Others draw numbers in advance.
    "SELECT schemaname, sequencename, last_value FROM pg_sequences WHERE sequencename ~ '^s[0-9]'",
    "SELECT * FROM pg_namespace",
    "SELECT * FROM pg_type",
    "SELECT * FROM pg_enum",
    "SELECT * FROM pg_views",
    "SELECT * FROM pg_matviews",
    "SELECT * FROM pg_policies",
    "SELECT * FROM pg_authid",
    "SELECT * FROM pg_auth_members",
    "SELECT * FROM pg_database",
    "SELECT * FROM pg_description",
    "SELECT * FROM pg_shdescription",
    "SELECT * FROM pg_default_acl",
    "SELECT * FROM pg_depend",
    "SELECT * FROM pg_publication",
    "SELECT * FROM pg_publication_tables",
    "SELECT * FROM pg_indexes",
    "SELECT * FROM information_schema.columns",
    "SELECT * FROM information_schema.table_privileges",
    "SELECT * FROM information_schema.role_table_grants",
    "SELECT * FROM information_schema.referential_constraints",
    "SELECT * FROM information_schema.domains",
];

fn sorted(session: &mut Session, query: &str) -> Vec<String> {
    let mut rows = ask(session, query);
    rows.sort();
    rows
}

/// Compares everything in a database of a pair.
fn compare(pair: &Pair, database: &str) {
    let begin = |of: &SqlDatabase| of.login("tester", database, false).unwrap();
    let (mut original, mut copy) = (begin(&pair.primary), begin(&pair.copy));
    for query in SYSTEM {
        assert_eq!(sorted(&mut copy, query), sorted(&mut original, query), "{database}: {query}");
    }
    let tables = "SELECT quote_ident(nspname) || '.' || quote_ident(relname) FROM pg_class AS c
        JOIN pg_namespace AS n ON n.oid = relnamespace
        WHERE relkind IN ('r', 'm') AND relispopulated AND nspname NOT IN ('pg_catalog', 'information_schema')";
    for table in ask(&mut original, tables) {
        let query = format!("SELECT * FROM {table}");
        assert_eq!(sorted(&mut copy, &query), sorted(&mut original, &query), "{database}: {query}");
    }
}

/// Returns a random statement: many fail.
fn statement(rng: &mut Rng) -> String {
    let table = |rng: &mut Rng| format!("t{}", rng.u8(..4));
    let (one, other) = (table(rng), table(rng));
    let (n, m, role) = (rng.u32(..1000), rng.u32(..1000), format!("r{}", rng.u8(..3)));
    match rng.u8(..60) {
        0 | 1 => format!("CREATE TABLE {one} (id int PRIMARY KEY, v text, w int)"),
        2 => format!("CREATE TABLE {one} (id serial PRIMARY KEY, v text UNIQUE, w int CHECK (w < 900))"),
        3 => format!("CREATE TABLE {one} (id int, v text, w int GENERATED ALWAYS AS (id * 2) STORED)"),
        4 => format!("CREATE TABLE {one} AS SELECT i AS id, i::text AS v, i AS w FROM generate_series(1, {n}) AS i"),
        5 => format!("DROP TABLE {one} CASCADE"),
        6 => format!("TRUNCATE {one} CASCADE"),
        7 => format!("ALTER TABLE {one} RENAME TO {other}"),
        8 => format!("ALTER TABLE {one} ADD COLUMN c{} text DEFAULT 'x{n}'", rng.u8(..3)),
        9 => format!("ALTER TABLE {one} DROP COLUMN c{} CASCADE", rng.u8(..3)),
        10 => format!("ALTER TABLE {one} ALTER w TYPE bigint"),
        11 => format!("ALTER TABLE {one} ALTER w SET NOT NULL"),
        12 => format!("ALTER TABLE {one} ADD FOREIGN KEY (w) REFERENCES {other}"),
        13 => format!("CREATE INDEX i{} ON {one} (w, lower(v))", rng.u8(..4)),
        14 => format!("CREATE UNIQUE INDEX i{} ON {one} (w)", rng.u8(..4)),
        15 => format!("DROP INDEX i{}", rng.u8(..4)),
        16 => format!("CREATE VIEW v{} AS SELECT id, w FROM {one} WHERE w > {n}", rng.u8(..3)),
        17 => format!("CREATE MATERIALIZED VIEW m AS SELECT id, v FROM {one}"),
        18 => "REFRESH MATERIALIZED VIEW m".into(),
        19 => format!("DROP VIEW v{} CASCADE", rng.u8(..3)),
        20 => "DROP MATERIALIZED VIEW m".into(),
        21 => format!("CREATE SEQUENCE s{} START {}", rng.u8(..3), n + 1),
        22 => format!("SELECT setval('s{}', {})", rng.u8(..3), n + 1),
        23 => format!("ALTER SEQUENCE s{} INCREMENT {} RESTART {}", rng.u8(..3), n + 1, m + 1),
        24 => format!("CREATE ROLE {role} LOGIN PASSWORD 'p{n}'"),
        25 => format!("ALTER ROLE {role} CONNECTION LIMIT {n}"),
        26 => format!("DROP OWNED BY {role}; DROP ROLE {role}"),
        27 => format!("GRANT SELECT, UPDATE (w) ON {one} TO {role}"),
        28 => format!("ALTER TABLE {one} OWNER TO {role}"),
        29 => format!("GRANT r0 TO {role}"),
        30 => format!("COMMENT ON TABLE {one} IS 'c{n}'"),
        31 => format!("CREATE POLICY p ON {one} USING (w > {n}); ALTER TABLE {one} ENABLE ROW LEVEL SECURITY"),
        32 => format!("CREATE PUBLICATION p{} FOR TABLE {one}", rng.u8(..2)),
        33 => format!("DROP PUBLICATION p{}", rng.u8(..2)),
        34 => format!("CREATE TYPE mood AS ENUM ('m{n}'); ALTER TABLE {one} ADD COLUMN mood mood"),
        35 => format!("ALTER TYPE mood ADD VALUE 'n{n}'"),
        36 => "DROP TYPE mood CASCADE".into(),
        37 => "CREATE SCHEMA s".into(),
        38 => format!("CREATE TABLE s.{one} (id bigint PRIMARY KEY, v text, w int)"),
        39 => "DROP SCHEMA s CASCADE".into(),
        40 => format!("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO {role}"),
        41 => format!("CREATE DOMAIN d AS int CHECK (VALUE < {})", n + 1),
        _ => rows(rng, &one),
    }
}

/// Returns a statement that writes rows of a table.
fn rows(rng: &mut Rng, table: &str) -> String {
    let (n, m) = (rng.u32(..300), rng.u32(..300));
    match rng.u8(..6) {
        0 | 1 => format!(
            "INSERT INTO {table} (id, v, w) SELECT i, 'v' || i, i FROM generate_series({n}, {}) AS i
             ON CONFLICT DO NOTHING",
            n + m / 4
        ),
        2 => format!("UPDATE {table} SET w = w + 1, v = v || '!' WHERE id BETWEEN {n} AND {}", n + m / 4),
        3 => format!("UPDATE {table} SET id = id + 1000 WHERE id = {n}"),
        4 => format!("DELETE FROM {table} WHERE id BETWEEN {n} AND {}", n + m / 8),
        _ => format!("UPDATE {table} SET v = repeat('l{n}', 60000) WHERE id = {n}"),
    }
}

/// Statements of one session, in transactions and outside, some of which fail or are rolled back.
fn live(session: &mut Session, rng: &mut Rng, statements: usize) {
    let is_block = rng.u8(..3) == 0;
    if is_block {
        ask(session, "BEGIN");
    }
    for at in 0..statements {
        if is_block {
            let name = format!("s{at}");
            ask(session, &format!("SAVEPOINT {name}"));
            if run(session, &statement(rng)).is_err() && run(session, &format!("ROLLBACK TO {name}")).is_err() {
                break;
            }
        } else {
            let _ = run(session, &statement(rng));
        }
    }
    if is_block {
        let _ = run(session, if rng.u8(..4) == 0 { "ROLLBACK" } else { "COMMIT" });
    }
}

fn life(seed: u64) {
    let rng = &mut Rng::with_seed(seed);
    let mut pair = Pair::new(&format!("life-{seed}"), "CREATE TABLE t0 (id int PRIMARY KEY, v text, w int)");
    let mut writer = session(&pair.primary);
    ask(&mut writer, "SET lock_timeout = '1s'");
    for round in 0..30 {
        let statements = rng.usize(1..8);
        live(&mut writer, rng, statements);
        match round % 10 {
            3 => drop(run(&mut writer, &format!("CREATE DATABASE d{}", rng.u8(..2)))),
            5 => drop(run(&mut writer, &format!("ALTER DATABASE d{} RENAME TO e{}", rng.u8(..2), rng.u8(..2)))),
            8 => drop(run(&mut writer, &format!("DROP DATABASE d{}", rng.u8(..2)))),
            _ => {}
        }
        let others = "SELECT datname FROM pg_database WHERE datname ~ '^[de]'";
        let others = ask(&mut writer, others);
        for name in &others {
            live(&mut pair.primary.login("tester", name, false).unwrap(), rng, 3);
        }
        if rng.bool() {
            pair.ship();
            ["test"].into_iter().chain(others.iter().map(|name| &**name)).for_each(|name| compare(&pair, name));
        }
    }
    pair.ship();
    compare(&pair, "test");
    assert_eq!(pair.reader().disagreements().unwrap(), [""; 0]);
    // It becomes a primary.
    let shown = |session: &mut Session| SYSTEM.map(|query| sorted(session, query));
    let before = shown(&mut writer);
    let Pair { primary, engine, copy, standby, scratch } = pair;
    drop((writer, primary, engine, copy));
    standby.promote().unwrap();
    let promoted = Database::open(scratch.0.join("standby"), options()).unwrap();
    let mut promoted = session(&SqlDatabase::open(Arc::new(promoted)).unwrap());
    assert_eq!(shown(&mut promoted), before);
    assert_eq!(promoted.disagreements().unwrap(), [""; 0]);
}

#[test]
fn a_standby_has_what_its_original_has() {
    for seed in 1..5 {
        println!("seed {seed}");
        life(seed);
    }
}

#[test]
fn a_transaction_keeps_its_snapshot_while_definitions_change() {
    let mut pair = Pair::new("snapshot", "CREATE TABLE t (id int PRIMARY KEY, v text); CREATE INDEX ON t (v)");
    pair.write("INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 500) AS i");
    let (mut reader, mut each) = (pair.reader(), pair.reader());
    ask(&mut reader, "BEGIN");
    ask(&mut each, "BEGIN ISOLATION LEVEL READ COMMITTED");
    let query = "SELECT count(*), min(v), max(v), sum(id) FROM t";
    let by_index = "SELECT id FROM t WHERE v = 'v77'";
    let before = (ask(&mut reader, query), ask(&mut reader, by_index));
    for (statements, now) in [
        ("UPDATE t SET v = 'w' || id", "500,w1,w99,125250"),
        ("ALTER TABLE t ADD COLUMN x int DEFAULT 7", "500,w1,w99,125250"),
        ("ALTER TABLE t RENAME v TO vv; ALTER TABLE t ADD COLUMN v text", "500,,,125250"),
        ("TRUNCATE t", "0,,,"),
        ("DROP TABLE t; CREATE TABLE t (id int, v int); INSERT INTO t VALUES (1, 2), (1, 3)", "2,2,3,2"),
        ("ALTER TABLE t RENAME TO u; CREATE VIEW t AS SELECT id + 1 AS id, v FROM u", "2,2,3,4"),
    ] {
        pair.write(statements);
        assert_eq!((ask(&mut reader, query), ask(&mut reader, by_index)), before, "{statements}");
        assert_eq!(ask(&mut each, query), [now], "{statements}");
        assert_eq!(ask(&mut pair.reader(), query), [now], "{statements}");
    }
    // What it has not used before is that of its beginning, too.
    assert_eq!(run(&mut reader, "SELECT * FROM u"), Err(SqlState::UNDEFINED_TABLE));
}

/// The engine's table of a large relation file is dropped.
#[test]
fn a_transaction_whose_table_is_gone_gets_an_error() {
    let mut pair = Pair::new("gone", "CREATE TABLE t (id int PRIMARY KEY)");
    pair.write("INSERT INTO t SELECT generate_series(1, 70000)");
    let mut reader = pair.reader();
    ask(&mut reader, "BEGIN");
    assert_eq!(ask(&mut reader, "SELECT count(*) FROM t"), ["70000"]);
    let files = |pair: &Pair| pair.engine.tables().len();
    let before = files(&pair);
    pair.write("DROP TABLE t");
    while files(&pair) == before {
        thread::yield_now();
    }
    pair.ship();
    let (state, message) = failure(&mut reader, "SELECT count(*) FROM t");
    assert_eq!((state, &*message), ("40001", "canceling statement due to conflict with recovery"));
    ask(&mut reader, "ROLLBACK");
    assert_eq!(run(&mut reader, "SELECT count(*) FROM t"), Err(SqlState::UNDEFINED_TABLE));
}

/// Definitions and rows change together.
#[test]
fn definitions_and_rows_are_of_one_moment() {
    let mut pair =
        Pair::new("moment", "CREATE TABLE t (c0 int); CREATE TABLE n (columns int); INSERT INTO n VALUES (1)");
    pair.write("CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u SELECT generate_series(1, 10)");
    pair.mark();
    pair.ship();
    let ends = Arc::new(AtomicBool::new(false));
    let columns = "SELECT columns - (SELECT count(*) FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0),
        (SELECT count(*) FROM u) FROM n";
    let read = |modes: &'static str| {
        let (mut reader, ends) = (pair.reader(), ends.clone());
        thread::spawn(move || {
            let mut is_last = false;
            while !is_last {
                is_last = ends.load(Ordering::Relaxed);
                modes.split(';').for_each(|begin| drop(ask(&mut reader, begin)));
                for _ in 0..3 {
                    assert_eq!(ask(&mut reader, columns), ["0,10"], "{modes}");
                }
                ask(&mut reader, "ROLLBACK");
            }
        })
    };
    let levels = ["", "BEGIN", "BEGIN ISOLATION LEVEL READ COMMITTED", "BEGIN ISOLATION LEVEL SERIALIZABLE"];
    let readers = levels.map(read);
    for at in 1..60 {
        pair.write(&format!(
            "BEGIN; ALTER TABLE t ADD COLUMN c{at} int; UPDATE n SET columns = columns + 1; TRUNCATE u;
             INSERT INTO u SELECT generate_series(1, 10); COMMIT"
        ));
        // There is no safe snapshot in between.
        pair.mark();
        pair.ship();
    }
    ends.store(true, Ordering::Relaxed);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}

/// An index that is not finished stays so, and serves no query.
#[test]
fn an_unfinished_index_is_not_used() {
    let mut pair = Pair::new("unfinished", "CREATE TABLE t (id int PRIMARY KEY, v int)");
    pair.write("INSERT INTO t SELECT i, i % 10 FROM generate_series(1, 200) AS i");
    let mut user = session(&pair.primary);
    ask(&mut user, "BEGIN");
    ask(&mut user, "INSERT INTO t VALUES (1000, 3)");
    let mut builder = session(&pair.primary);
    let building = thread::spawn(move || drop(ask(&mut builder, "CREATE INDEX i ON t (v)")));
    let valid = "SELECT indisvalid FROM pg_index WHERE indexrelid::regclass::text = 'i'";
    while ask(&mut session(&pair.primary), valid).is_empty() {
        thread::yield_now();
    }
    pair.ship();
    let again = SqlDatabase::open(pair.standby.database().clone()).unwrap();
    let (count, explain) = ("SELECT count(*) FROM t WHERE v = 3", "EXPLAIN SELECT id FROM t WHERE v = 3");
    for copy in [&pair.copy, &again] {
        let mut reader = session(copy);
        assert_eq!(ask(&mut reader, valid), ["f"]);
        assert_eq!(ask(&mut reader, count), ["20"]);
        assert!(!ask(&mut reader, explain).concat().contains("Index Scan using i"));
    }
    drop(again);
    ask(&mut user, "COMMIT");
    building.join().unwrap();
    pair.ship();
    let mut reader = pair.reader();
    assert_eq!(ask(&mut reader, valid), ["t"]);
    assert_eq!(ask(&mut reader, count), ["21"]);
    let plan = ask(&mut reader, explain).concat();
    assert!(plan.contains(" i "), "{plan}");
    compare(&pair, "test");
}

const ONLY_READ: &str = "in a read-only transaction";
const RECOVERY: &str = "during recovery";

/// Statements that a standby refuses, with the end of their message.
#[rustfmt::skip]
const REFUSED: [(&str, &str, &str); 35] = [
    ("INSERT INTO t VALUES (1)", "cannot execute INSERT", ONLY_READ),
    ("UPDATE t SET id = 1", "cannot execute UPDATE", ONLY_READ),
    ("DELETE FROM t", "cannot execute DELETE", ONLY_READ),
    ("MERGE INTO t USING t AS u ON t.id = u.id WHEN MATCHED THEN DELETE", "cannot execute MERGE", ONLY_READ),
    ("WITH d AS (DELETE FROM t RETURNING id) SELECT * FROM d", "cannot execute SELECT", ONLY_READ),
    ("COPY t FROM STDIN", "cannot execute COPY FROM", ONLY_READ),
    ("SELECT * FROM t FOR UPDATE", "cannot execute SELECT FOR UPDATE", ONLY_READ),
    ("SELECT * FROM t FOR SHARE", "cannot execute SELECT FOR SHARE", ONLY_READ),
    ("BEGIN; DECLARE c CURSOR FOR SELECT * FROM t FOR UPDATE", "cannot execute SELECT FOR UPDATE", ONLY_READ),
    ("EXPLAIN ANALYZE DELETE FROM t", "cannot execute DELETE", ONLY_READ),
    ("CREATE TABLE u (a int)", "cannot execute CREATE TABLE", ONLY_READ),
    ("CREATE TEMP TABLE u (a int)", "cannot execute CREATE TABLE", ONLY_READ),
    ("CREATE TABLE u AS SELECT 1", "cannot execute CREATE TABLE AS", ONLY_READ),
    ("CREATE INDEX ON t (id)", "cannot execute CREATE INDEX", ONLY_READ),
    ("ALTER TABLE t ADD b int", "cannot execute ALTER TABLE", ONLY_READ),
    ("ALTER TABLE t ADD CHECK (id > 0)", "cannot execute ALTER TABLE", ONLY_READ),
    ("DROP TABLE t", "cannot execute DROP TABLE", ONLY_READ),
    ("TRUNCATE t", "cannot execute TRUNCATE TABLE", ONLY_READ),
    ("CREATE VIEW v AS SELECT 1", "cannot execute CREATE VIEW", ONLY_READ),
    ("CREATE ROLE r", "cannot execute CREATE ROLE", ONLY_READ),
    ("GRANT SELECT ON t TO public", "cannot execute GRANT", ONLY_READ),
    ("COMMENT ON TABLE t IS 'x'", "cannot execute COMMENT", ONLY_READ),
    ("CREATE DATABASE d", "cannot execute CREATE DATABASE", ONLY_READ),
    ("DROP DATABASE d", "cannot execute DROP DATABASE", ONLY_READ),
    ("SELECT nextval('s')", "cannot execute nextval()", ONLY_READ),
    ("SELECT setval('s', 5)", "cannot execute setval()", ONLY_READ),
    ("LISTEN a", "cannot execute LISTEN", RECOVERY),
    ("NOTIFY a", "cannot execute NOTIFY", RECOVERY),
    ("SELECT pg_notify('a', 'b')", "cannot execute NOTIFY", RECOVERY),
    ("COMMIT PREPARED 'x'", "cannot execute COMMIT PREPARED", RECOVERY),
    ("ROLLBACK PREPARED 'x'", "cannot execute ROLLBACK PREPARED", RECOVERY),
    ("BACKUP TO '/nowhere'", "cannot execute BACKUP", RECOVERY),
    ("CHECKPOINT", "cannot execute CHECKPOINT", RECOVERY),
    ("BEGIN; LOCK t", "cannot execute LOCK TABLE", RECOVERY),
    ("BEGIN; PREPARE TRANSACTION 'x'", "cannot execute PREPARE TRANSACTION", RECOVERY),
];

#[test]
fn statements_that_write_are_refused() {
    let pair = Pair::new("refused", "CREATE TABLE t (id int PRIMARY KEY); CREATE SEQUENCE s");
    let mut reader = pair.reader();
    let mut wrong = Vec::new();
    for (statement, begin, end) in REFUSED {
        let (state, message) = failure(&mut reader, statement);
        if (state, &*message) != ("25006", &*format!("{begin} {end}")) {
            wrong.push(format!("{statement}: {state} {message}"));
        }
        let _ = run(&mut reader, "ROLLBACK");
    }
    let modes = "cannot set transaction read-write mode during recovery";
    for (statement, code, expected) in [
        ("BEGIN READ WRITE", "0A000", modes),
        ("BEGIN; SET transaction_read_only = off", "0A000", modes),
        ("BEGIN; SET TRANSACTION READ WRITE", "0A000", modes),
        ("SELECT pg_current_wal_lsn()", "55000", "recovery is in progress"),
        ("SELECT pg_current_wal_flush_lsn()", "55000", "recovery is in progress"),
    ] {
        let (state, message) = failure(&mut reader, statement);
        if (state, &*message) != (code, expected) {
            wrong.push(format!("{statement}: {state} {message}"));
        }
        let _ = run(&mut reader, "ROLLBACK");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Nothing has happened.
    compare(&pair, "test");
}

#[test]
fn statements_that_read_are_run() {
    let mut pair = Pair::new("read", "CREATE TABLE t (id int PRIMARY KEY, v text); CREATE SEQUENCE s");
    pair.write("INSERT INTO t VALUES (1, 'one'), (2, 'two'); SELECT setval('s', 41)");
    let mut reader = pair.reader();
    for (statement, expected) in [
        ("SHOW transaction_isolation", &["repeatable read"][..]),
        ("SHOW default_transaction_isolation", &["repeatable read"]),
        ("SHOW transaction_read_only", &["on"]),
        ("SHOW default_transaction_read_only", &["on"]),
        ("SHOW in_hot_standby", &["on"]),
        ("SELECT pg_is_in_recovery()", &["t"]),
        ("SELECT last_value, is_called FROM s", &["41,t"]),
        ("BEGIN READ ONLY DEFERRABLE; SELECT v FROM t ORDER BY id; COMMIT", &["one", "two"]),
        ("BEGIN; LOCK t IN ACCESS SHARE MODE; LOCK t IN ROW EXCLUSIVE MODE; COMMIT", &[]),
        ("BEGIN; SAVEPOINT a; SELECT 1; ROLLBACK TO a; COMMIT", &["1"]),
        // Pools of connections do this.
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", &[]),
        ("SHOW default_transaction_read_only", &["on"]),
        ("ANALYZE", &[]),
        ("PREPARE p (int) AS SELECT v FROM t WHERE id = $1", &[]),
        ("EXECUTE p (2)", &["two"]),
        ("BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT v FROM t ORDER BY id; COMMIT", &[]),
        ("FETCH ALL c", &["one", "two"]),
        ("SELECT pg_try_advisory_lock(1)", &["t"]),
        ("COPY (SELECT id FROM t ORDER BY id) TO STDOUT", &[]),
        ("SELECT count(*) > 0 FROM pg_stat_activity", &["t"]),
        ("SELECT count(*) > 0 FROM pg_stat_statements WHERE query ~ 'pg_try_advisory_lock'", &["t"]),
        ("SELECT count(*) FROM pg_prepared_xacts", &["0"]),
        ("SET statement_timeout = '10s'; RESET ALL", &[]),
        ("DISCARD ALL", &[]),
        ("UNLISTEN *", &[]),
    ] {
        assert_eq!(ask(&mut reader, statement), expected, "{statement}");
    }
    for (schema, name, _) in ermine_sql::system_tables() {
        ask(&mut reader, &format!("SELECT count(*) FROM {schema}.{name}"));
    }
    let position = ask(&mut session(&pair.primary), "SELECT pg_current_wal_lsn()").concat();
    pair.ship();
    let replayed = lsn(pair.standby.position());
    assert_eq!(ask(&mut reader, "SELECT pg_last_wal_replay_lsn()"), [&*replayed]);
    assert_eq!(ask(&mut reader, "SELECT pg_last_wal_receive_lsn()"), [&*replayed]);
    // The log may have grown.
    assert!(parse_lsn(&replayed) >= parse_lsn(&position), "{replayed} {position}");
    let mut writer = session(&pair.primary);
    assert_eq!(ask(&mut writer, "SELECT pg_is_in_recovery(), pg_last_wal_replay_lsn() IS NULL"), ["f,t"]);
    assert_eq!(ask(&mut writer, "SHOW in_hot_standby"), ["off"]);
    assert_eq!(reader.setting("in_hot_standby"), Some("on"));
    assert_eq!(pair.copy.configurable("default_transaction_isolation", "serializable").unwrap(), "serializable");
}

#[test]
fn a_client_reads_what_it_has_written() {
    let mut pair = Pair::new("read-after", "CREATE TABLE t (id int)");
    let (mut writer, mut reader) = (session(&pair.primary), pair.reader());
    ask(&mut writer, "CREATE TABLE new (id int); INSERT INTO new VALUES (7)");
    let position = ask(&mut writer, "SELECT pg_current_wal_lsn()").concat();
    ask(&mut reader, &format!("SET ermine.read_after = '{position}'; SET statement_timeout = '1ms'"));
    for statement in ["SELECT id FROM new", "SELECT 1", "BEGIN; SELECT 1"] {
        assert_eq!(run(&mut reader, statement), Err(SqlState::QUERY_CANCELED), "{statement}");
        let _ = run(&mut reader, "ROLLBACK");
    }
    // Settings can be changed.
    ask(&mut reader, "SHOW ermine.read_after; RESET statement_timeout");
    let reading = thread::spawn(move || (ask(&mut reader, "SELECT id FROM new"), reader));
    pair.ship();
    let (rows, mut reader) = reading.join().unwrap();
    assert_eq!(rows, ["7"]);
    assert_eq!(run(&mut reader, "SET ermine.read_after = 'x'"), Err(SqlState::INVALID_PARAMETER_VALUE));
    ask(&mut reader, "SET ermine.read_after = '17'; SELECT 1; SET ermine.read_after = ''; SELECT 1");
    // Definitions are there as soon as their position is.
    for at in 0..10 {
        ask(&mut writer, &format!("CREATE TABLE new{at} AS SELECT {at} AS id"));
        let position = ask(&mut writer, "SELECT pg_current_wal_lsn()").concat();
        ask(&mut reader, &format!("SET ermine.read_after = '{position}'"));
        let reading = thread::spawn(move || (ask(&mut reader, &format!("SELECT id FROM new{at}")), reader));
        pair.ship();
        let rows;
        (rows, reader) = reading.join().unwrap();
        assert_eq!(rows, [at.to_string()]);
    }
    // A primary has everything.
    ask(&mut writer, "SET ermine.read_after = 'FFFFFFFF/FFFFFFFF'; SELECT 1");
}

#[test]
fn serializable_transactions_read_safe_snapshots() {
    let mut pair = Pair::new("serializable", "CREATE TABLE t (id int)");
    let mut reader = pair.reader();
    let serializable = |query: &str| format!("BEGIN ISOLATION LEVEL SERIALIZABLE; {query}; COMMIT");
    let rows = serializable("SELECT count(*) FROM t");
    let waits = |reader: &mut Session| {
        ask(reader, "SET statement_timeout = '2ms'");
        let waits = run(reader, &rows) == Err(SqlState::QUERY_CANCELED);
        let _ = run(reader, "ROLLBACK");
        ask(reader, "SET statement_timeout = 0");
        waits
    };
    assert!(waits(&mut reader), "nothing is marked");
    pair.mark();
    pair.ship();
    assert_eq!(ask(&mut reader, &rows), ["0"]);

    pair.write("INSERT INTO t VALUES (1)");
    assert_eq!(ask(&mut reader, &rows), ["0"]);
    let mut other = pair.reader();
    assert_eq!(ask(&mut other, "SELECT count(*) FROM t"), ["1"]);
    assert!(waits(&mut other), "the session has seen more");
    let position = ask(&mut session(&pair.primary), "SELECT pg_current_wal_lsn()").concat();
    ask(&mut reader, &format!("SET ermine.read_after = '{position}'"));
    assert!(waits(&mut reader), "the safe snapshot is older");
    pair.mark();
    pair.ship();
    assert_eq!(ask(&mut reader, &rows), ["1"]);
    assert_eq!(ask(&mut other, &rows), ["1"]);

    // One that is open keeps its snapshot, and its definitions.
    let mut open = pair.reader();
    assert_eq!(ask(&mut open, "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT * FROM t"), ["1"]);
    pair.write("ALTER TABLE t ADD COLUMN v int DEFAULT 5");
    assert!(waits(&mut reader), "the safe snapshot has other definitions");
    assert_eq!(ask(&mut open, "PREPARE p (int) AS SELECT $1 + id FROM t; EXECUTE p (3)"), ["4"]);
    pair.mark();
    pair.ship();
    assert_eq!(ask(&mut reader, &serializable("SELECT * FROM t")), ["1,5"]);
    assert_eq!(ask(&mut open, "SELECT * FROM t; COMMIT"), ["1"]);

    ask(&mut reader, "SET default_transaction_isolation = serializable");
    assert_eq!(ask(&mut reader, "SHOW transaction_isolation"), ["serializable"]);
    pair.write("INSERT INTO t VALUES (2)");
    assert_eq!(ask(&mut reader, "SELECT count(*) FROM t"), ["1"]);
    assert_eq!(ask(&mut reader, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t; COMMIT"), ["2"]);
}

#[test]
fn roles_log_in_with_their_rights() {
    let mut pair = Pair::new("roles", "CREATE TABLE t (id int, owner name); CREATE TABLE hidden (id int)");
    pair.write(
        "CREATE USER ann PASSWORD 'secret'; CREATE USER bob; GRANT SELECT ON t TO ann, bob;
         INSERT INTO t VALUES (1, 'ann'), (2, 'bob'); ALTER TABLE t ENABLE ROW LEVEL SECURITY;
         CREATE POLICY own ON t USING (owner = current_user)",
    );
    assert!(pair.copy.has_passwords());
    assert_eq!(pair.copy.secret(), pair.primary.secret());
    let mut ann = pair.copy.login("ann", "test", true).unwrap();
    assert_eq!(ask(&mut ann, "SELECT id FROM t"), ["1"]);
    assert_eq!(run(&mut ann, "SELECT * FROM hidden"), Err(SqlState::INSUFFICIENT_PRIVILEGE));
    pair.write("GRANT SELECT ON hidden TO ann; REVOKE SELECT ON t FROM ann, bob; DROP USER bob");
    assert_eq!(run(&mut ann, "SELECT id FROM t"), Err(SqlState::INSUFFICIENT_PRIVILEGE));
    assert!(ask(&mut ann, "SELECT * FROM hidden").is_empty());
    assert!(pair.copy.login("bob", "test", true).is_err());
}

#[test]
fn databases_come_and_go() {
    let mut pair = Pair::new("databases", "CREATE TABLE t (id int)");
    assert!(pair.copy.login("tester", "other", false).is_ok(), "it is the first one");
    pair.write("CREATE DATABASE other");
    ask(&mut pair.primary.login("tester", "other", false).unwrap(), "CREATE TABLE o AS SELECT 5 AS five");
    pair.ship();
    let mut other = pair.copy.login("tester", "other", false).unwrap();
    assert_eq!(ask(&mut other, "SELECT * FROM o"), ["5"]);
    assert_eq!(run(&mut other, "SELECT * FROM t"), Err(SqlState::UNDEFINED_TABLE));
    // One that is there when the standby is opened.
    let again = SqlDatabase::open(pair.standby.database().clone()).unwrap();
    assert_eq!(ask(&mut again.login("tester", "other", false).unwrap(), "SELECT * FROM o"), ["5"]);
    drop(again);
    let is_ended = Arc::new(AtomicBool::new(false));
    let end = is_ended.clone();
    other.connect(7, None, Box::new(move || end.store(true, Ordering::Relaxed)));
    ask(&mut other, "BEGIN");
    assert_eq!(ask(&mut other, "SELECT * FROM o"), ["5"]);
    pair.write("DROP DATABASE other");
    assert!(is_ended.load(Ordering::Relaxed));
    other.cancel().store(false, Ordering::Relaxed);
    assert!(pair.copy.login("tester", "other", false).is_err());
    assert_eq!(ask(&mut other, "SELECT * FROM o"), ["5"], "the snapshot of the transaction");
    ask(&mut other, "COMMIT");
    assert_eq!(run(&mut other, "SELECT * FROM o"), Err(SqlState::UNDEFINED_TABLE));
    pair.write("CREATE DATABASE other");
    assert!(
        ask(
            &mut pair.copy.login("tester", "other", false).unwrap(),
            "SELECT relname FROM pg_class WHERE relname = 'o'"
        )
        .is_empty()
    );
}
