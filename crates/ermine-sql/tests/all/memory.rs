//! The memory that statements ask for.
//!
//! Goal: a statement of every kind that gathers more than `work_mem`, or than the database has left, fails with 53200,
//! says what to do, and returns everything; the session goes on. Values that only pass through a statement do not count
//! as gathered, however large they are in total. Statements that go on in a temporary file are those of `spill.rs`.
//! Method: each statement twice, with a small and with a large `work_mem`; the memory taken from the budget before and
//! after. `ermine-server/tests/all/memory.rs` measures the memory that is really used.

use std::{panic::AssertUnwindSafe, sync::Arc};

use crate::sessions::{ask, run};
use ermine::{Database, Options};
use ermine_sql::{Column, CopyFormat, Result, RowSet, RowSink, Session, SqlDatabase, SqlError, SqlState, types::Value};

/// The most that a session may leave in the count: a step of its own, a step for what outlives statements, and what the
/// engine's workers count late.
const SLACK: u64 = 512 << 10;

fn database(limit_mebibytes: u64) -> (Arc<Database>, SqlDatabase) {
    let options = Options::default().memory_limit(limit_mebibytes << 20);
    let engine = Arc::new(Database::open_in_memory(options).unwrap());
    (engine.clone(), SqlDatabase::open(engine).unwrap())
}

fn taken(engine: &Database) -> u64 {
    engine.budget().taken()
}

fn refused(session: &mut Session, statement: &str) -> SqlError {
    let done = session.run(statement, &mut RowSet::default());
    let error = done.err().unwrap_or_else(|| panic!("{statement:.200} is not refused"));
    assert_eq!(error.state(), SqlState::OUT_OF_MEMORY, "{statement:.200}: {error}");
    error
}

/// Statements that need more than 1 MB and less than 256 MB, one of each kind.
fn statements() -> Vec<String> {
    let rows = "FROM generate_series(1, 30000) AS s(n)";
    let long = "repeat('leaf,', 100000)";
    let values = (0..5000).map(|n| format!("({n})")).collect::<Vec<_>>().join(",");
    [
        // Statements that gather rows.
        // Aggregates.
        "SELECT array_agg(n) {rows}",
        "SELECT string_agg(n::text || 'some more', ',') {rows}",
        "SELECT json_object_agg(n, 'some more') {rows}",
        "SELECT jsonb_object_agg(n, 'some more') {rows}",
        "SELECT string_agg(n::text, ',' ORDER BY n DESC) {rows}",
        "SELECT string_agg(repeat('x', 20)::bytea, ','::bytea) {rows}",
        "SELECT jsonb_agg(n) {rows}",
        "SELECT json_agg(repeat('x', 20)) {rows}",
        "SELECT count(DISTINCT n::text) {rows}",
        "SELECT max(repeat('x', n)) FROM generate_series(1, 1000000, 200000) AS s(n)",
        "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY n) {rows}",
        // Window functions, recursion.
        "SELECT sum(n) OVER (ORDER BY n DESC) {rows}",
        "SELECT array_agg(n) OVER (ORDER BY n) FROM generate_series(1, 400) AS s(n)",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n + 1 FROM r WHERE n < 30000) SELECT count(*) FROM r",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r, generate_series(1, 30000) WHERE n < 2) \
            SELECT count(*) FROM r",
        // Arrays, and queries in expressions.
        "SELECT array_length(ARRAY(SELECT n {rows} WHERE n > 0), 1)",
        "SELECT 1 WHERE 5 IN (SELECT n + 10 {rows})",
        "SELECT count(*) FROM generate_series(1, 3) AS t(m) WHERE m IN (SELECT n + 10 {rows})",
        "SELECT count(*) FROM tea WHERE id IN (SELECT n {rows})",
        "SELECT count(*) FROM (SELECT regexp_matches(repeat('a', 30000), 'a', 'g')) AS g",
        "SELECT count(*) FROM jsonb_array_elements((SELECT jsonb_agg(n) {rows}))",
        "SELECT count(*) FROM unnest(string_to_array({long}, ',')) AS u",
        // Large values.
        "SELECT length(repeat('x', 2000000))",
        "SELECT length(lpad('x', 2000000))",
        "SELECT length(rpad('x', 2000000, 'yz'))",
        "SELECT length(replace(repeat('x', 2000), 'x', repeat('y', 2000)))",
        "SELECT length(regexp_replace(repeat('x', 2000), 'x', repeat('y', 2000), 'g'))",
        r"SELECT length(regexp_replace(repeat('x', 3000), 'x+', repeat('\&', 1000)))",
        "SELECT length(format(repeat('%1$s', 2000), repeat('x', 2000)))",
        "SELECT length(format('%2000000s', 'x'))",
        "SELECT length(concat(repeat('x', 400000), repeat('x', 400000), 'x'))",
        "SELECT length(concat_ws(repeat('x', 400000), 1, 2, 3))",
        "SELECT length(repeat('x', 400000) || repeat('x', 400000))",
        "SELECT length(array_to_string(string_to_array(repeat(',', 1000), ','), repeat('x', 2000)))",
        "SELECT cardinality(string_to_array(repeat(',', 50000), ','))",
        "SELECT cardinality(('{' || repeat('1,', 50000) || '1}')::int[])",
        "SELECT jsonb_array_length(('[' || repeat('1,', 50000) || '1]')::jsonb)",
        "SELECT json_array_length(('[' || repeat('1,', 50000) || '1]')::json)",
        "SELECT jsonb_array_length((('[' || repeat('1,', 50000) || '1]')::json)::jsonb)",
        "SELECT length(jsonb_pretty((repeat('[', 400) || repeat('1,', 1000) || '1' || repeat(']', 400))::jsonb))",
        "SELECT length(to_json(repeat(chr(1), 200000))::text)",
        "SELECT length(to_jsonb(repeat(chr(1), 200000))::text)",
        "SELECT length(encode(repeat('x', 200000)::bytea, 'escape'))",
        "SELECT length((repeat('x', 300000)::bytea)::text)",
        "SELECT repeat('x', 400000)::bytea LIKE '%y'",
        // Statements that write.
        "INSERT INTO tea SELECT n, 'x' {rows} ON CONFLICT (id) DO UPDATE SET name = 'y'",
        "MERGE INTO tea USING (SELECT n {rows}) m ON tea.id = m.n WHEN MATCHED THEN UPDATE SET name = name || 'x'",
        // Texts of statements.
        "SELECT count(*) FROM (VALUES {values}) AS v",
        "SELECT 1 IN ({values})",
    ]
    .map(|statement| statement.replace("{rows}", rows).replace("{long}", long).replace("{values}", &values))
    .into()
}

/// Wraps a statement in a transaction that is rolled back.
fn alone(statement: &str) -> String {
    format!("BEGIN; {statement}; ROLLBACK")
}

fn filled() -> (Arc<Database>, Session) {
    let (engine, database) = database(1024);
    let mut session = database.session("ann", "shop");
    ask(&mut session, "CREATE TABLE tea (id integer PRIMARY KEY, name text)");
    ask(&mut session, "INSERT INTO tea SELECT n, 'leaf' FROM generate_series(1, 20000) AS s(n)");
    (engine, session)
}

#[test]
fn a_statement_of_any_kind_is_bounded_by_work_mem() {
    let (engine, mut session) = filled();
    let (writing, reading): (Vec<_>, Vec<_>) = statements().into_iter().partition(|text| text.contains("tea"));
    // What is left of the rows that a statement wrote is counted some transactions later.
    for statement in reading.into_iter().chain(writing) {
        ask(&mut session, "SET work_mem = '1MB'");
        let before = taken(&engine);
        let error = refused(&mut session, &statement);
        let (detail, hint) = (error.report().detail.clone(), error.report().hint.clone());
        assert!(detail.is_some_and(|detail| detail.contains("1024 kB")), "{statement:.200}: {error:?}");
        assert!(hint.is_some_and(|hint| hint.contains("work_mem")), "{statement:.200}: {error:?}");
        // A statement that writes has written into the engine before it was undone.
        let slack = if statement.contains("tea") { 16 << 20 } else { SLACK };
        assert!(taken(&engine) <= before + slack, "{statement:.200}: {before}, then {}", taken(&engine));
        assert_eq!(ask(&mut session, "SELECT 1"), ["1"]);
        ask(&mut session, "SET work_mem = '256MB'");
        if let Err(error) = session.run(&alone(&statement), &mut RowSet::default()) {
            panic!("{statement:.200}: {error:?}");
        }
        assert!(taken(&engine) <= before + slack, "{statement:.200}: {before}, then {}", taken(&engine));
    }
}

#[test]
fn a_statement_of_any_kind_is_bounded_by_the_limit_of_the_database() {
    let (engine, mut session) = filled();
    ask(&mut session, "SET work_mem = '256MB'");
    // Another user of the budget has nearly everything.
    let (budget, mut others) = (engine.budget(), 0);
    for statement in statements().iter().filter(|statement| !statement.contains("tea")) {
        let more = (budget.limit() / 16 * 15).saturating_sub(taken(&engine) + (256 << 10));
        budget.take(more).unwrap();
        others += more;
        let before = taken(&engine);
        let error = refused(&mut session, statement);
        let hint = error.report().hint.clone();
        assert!(hint.is_some_and(|hint| hint.contains("--memory-limit")), "{statement:.200}: {error:?}");
        assert!(taken(&engine) <= before + SLACK, "{statement:.200}: {before}, then {}", taken(&engine));
        assert_eq!(ask(&mut session, "SELECT 1"), ["1"]);
    }
    budget.give(others);
    ask(&mut session, "SELECT length(repeat('x', 10000000))");
}

/// Counts rows and bytes and keeps nothing.
#[derive(Default)]
struct Passing {
    rows: usize,
    bytes: usize,
}

impl RowSink for Passing {
    fn columns(&mut self, _: &[Column]) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, values: &[Value]) -> Result<()> {
        self.rows += 1;
        self.bytes += values.iter().map(Value::bytes).sum::<usize>();
        Ok(())
    }

    fn copy_in(&mut self, _: CopyFormat) -> Result<()> {
        Ok(())
    }

    fn copy_out(&mut self, _: CopyFormat) -> Result<()> {
        Ok(())
    }

    fn copy_data(&mut self, piece: &[u8]) -> Result<()> {
        self.bytes += piece.len();
        Ok(())
    }

    fn complete(&mut self, _: &str) -> Result<()> {
        Ok(())
    }
}

/// Rows of 4 KiB are deleted by one statement in a database that has room for the keys alone.
#[test]
fn a_full_database_is_emptied_by_one_statement() {
    let (engine, database) = database(64);
    let mut session = database.session("ann", "shop");
    ask(&mut session, "CREATE TABLE tea (id integer PRIMARY KEY, kind integer, name text)");
    ask(&mut session, "CREATE INDEX ON tea (kind)");
    let insert = "INSERT INTO tea SELECT n, n % 7, repeat('x', 4000) FROM generate_series";
    let mut rows = 0;
    while session.run(&format!("{insert}({rows} + 1, {rows} + 100) AS s(n)"), &mut RowSet::default()).is_ok() {
        rows += 100;
        assert!(rows < 20_000, "the limit of the database is not reached");
    }
    assert!(rows > 5000, "{rows}");
    let (before, deleted) =
        (taken(&engine), run(&mut session, "DELETE FROM tea WHERE name LIKE 'x%' RETURNING id, kind"));
    assert_eq!(deleted.unwrap().len(), rows);
    assert_eq!(ask(&mut session, "SELECT count(*) FROM tea WHERE kind < 10"), ["0"]);
    assert!(taken(&engine) < before + (4 << 20), "{before}, then {}", taken(&engine));
}

#[test]
fn what_passes_through_is_not_gathered() {
    let (_, mut session) = filled();
    ask(&mut session, "SET work_mem = '1MB'");
    ask(
        &mut session,
        "CREATE TABLE large (id serial, name text DEFAULT repeat('x', 20000), CHECK (length(repeat(name, 2)) > 0))",
    );
    ask(&mut session, "CREATE TABLE few (id integer)");
    ask(&mut session, "INSERT INTO few SELECT generate_series(1, 300)");
    let large = "repeat(n::text, 20000)";
    let rows = "FROM generate_series(1, 300) AS s(n)";
    for statement in [
        format!("SELECT {large} {rows}"),
        format!("COPY (SELECT {large} {rows}) TO STDOUT"),
        // Rows that are filtered out leave nothing, either.
        format!("SELECT count(*) {rows} WHERE {large} = 'x'"),
        format!("SELECT count({large}) {rows}"),
        format!("SELECT n, max({large}) {rows} WHERE n < 10 GROUP BY n"),
        format!("SELECT n {rows} GROUP BY n HAVING length({large}) < 0"),
        format!("SELECT {large} {rows} GROUP BY n"),
        format!("SELECT {large} FROM (SELECT n {rows} ORDER BY n DESC) AS s"),
        format!("SELECT (SELECT max(length(repeat(m::text, 20000))) FROM generate_series(1, 3) AS t(m)) {rows}"),
        format!("SELECT m {rows} JOIN generate_series(1, 2) AS a(m) ON length({large}) < 0"),
        format!("SELECT length(l) {rows}, LATERAL (SELECT {large} AS l) AS t"),
        "VALUES (repeat('x', 200000)), (repeat('x', 200000)), (repeat('x', 200000)), (repeat('x', 200000))".into(),
        "INSERT INTO few SELECT generate_series(1, 300) RETURNING repeat('x', 20000)".into(),
        "CREATE TABLE many AS SELECT n FROM generate_series(1, 30000) AS s(n)".into(),
        "INSERT INTO many SELECT n FROM generate_series(1, 30000) AS s(n)".into(),
        "UPDATE few SET id = id + 1 RETURNING repeat('x', 20000)".into(),
        "UPDATE few SET id = length(repeat('x', 20000 + id))".into(),
        "DELETE FROM few RETURNING repeat('x', 20000)".into(),
        "INSERT INTO large (id) VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15)"
            .into(),
        "ALTER TABLE large ADD CHECK (length(repeat(name, 3)) > 0)".into(),
        "CREATE INDEX ON large (length(name)) WHERE length(repeat(name, 4)) > 0".into(),
    ] {
        let mut passing = Passing::default();
        if let Err(error) = session.run(&statement, &mut passing) {
            let is_unsupported = error.state() == SqlState::FEATURE_NOT_SUPPORTED || statement.contains("CREATE INDEX");
            assert!(is_unsupported, "{statement}: {error:?}");
        }
    }
    // Rows that are copied in go on to the engine one by one.
    session.run("COPY large (id) FROM STDIN", &mut Passing::default()).unwrap();
    for n in 0..500 {
        session.copy_in().unwrap().write(format!("{n}\n").as_bytes()).unwrap();
    }
    session.copy_in().unwrap().finish(&mut Passing::default()).unwrap().wait().unwrap();
    // Many statements in one text take no more than each of them.
    let text = "SELECT length(repeat('x', 200000));".repeat(20);
    session.run(&text, &mut Passing::default()).unwrap();
}

#[test]
fn everything_is_given_back_however_a_statement_ends() {
    /// Ends the statement with its first row.
    struct Ending(Option<Arc<std::sync::atomic::AtomicBool>>);

    impl RowSink for Ending {
        fn columns(&mut self, _: &[Column]) -> Result<()> {
            Ok(())
        }

        fn row(&mut self, _: &[Value]) -> Result<()> {
            match &self.0 {
                Some(cancel) => cancel.store(true, std::sync::atomic::Ordering::Relaxed),
                None => panic!("as the test wants it"),
            }
            Ok(())
        }

        fn complete(&mut self, _: &str) -> Result<()> {
            Ok(())
        }
    }

    let (engine, sql) = database(1024);
    let mut session = sql.session("ann", "shop");
    let before = taken(&engine);
    let statement = "SELECT t.m FROM (SELECT n FROM generate_series(1, 50000) AS s(n) ORDER BY n DESC) AS s, \
        generate_series(1, 1000) AS t(m)";
    let cancel = session.cancel();
    let error = session.run(statement, &mut Ending(Some(cancel))).unwrap_err();
    assert_eq!(error.state(), SqlState::QUERY_CANCELED);
    assert!(taken(&engine) <= before + SLACK, "{before}, then {}", taken(&engine));
    let panicked = std::panic::catch_unwind(AssertUnwindSafe(|| session.run(statement, &mut Ending(None))));
    assert!(panicked.is_err());
    drop(session);
    assert!(taken(&engine) <= before + SLACK, "{before}, then {}", taken(&engine));
    let mut session = sql.session("ann", "shop");
    assert_eq!(
        run(&mut session, "SELECT 1 / 0 FROM (SELECT n FROM generate_series(1, 50000) AS s(n) ORDER BY n) AS s"),
        Err(SqlState::DIVISION_BY_ZERO)
    );
    assert!(taken(&engine) <= before + SLACK, "{before}, then {}", taken(&engine));
}

#[test]
fn what_outlives_statements_counts_as_long_as_it_is_there() {
    let (engine, sql) = database(1024);
    let mut session = sql.session("ann", "shop");
    let before = taken(&engine);
    let rows = "SELECT n, repeat('x', 100) FROM generate_series(1, 20000) AS s(n)";
    for end in ["CLOSE c; COMMIT", "COMMIT", "ROLLBACK"] {
        ask(&mut session, "BEGIN");
        ask(&mut session, &format!("DECLARE c NO SCROLL CURSOR FOR {rows}"));
        assert!(taken(&engine) >= before + (3 << 20), "{before}, then {}", taken(&engine));
        let half = ask(&mut session, "FETCH 19000 FROM c").len();
        assert_eq!(half, 19_000);
        assert!(taken(&engine) <= before + (1 << 20), "{before}, then {}", taken(&engine));
        ask(&mut session, end);
        assert!(taken(&engine) <= before + SLACK, "{end}: {before}, then {}", taken(&engine));
    }
    // One that scrolls keeps its rows, and one WITH HOLD also when its transaction has ended.
    for end in ["CLOSE c", "DISCARD ALL"] {
        ask(&mut session, &format!("DECLARE c SCROLL CURSOR WITH HOLD FOR {rows}"));
        assert_eq!(ask(&mut session, "FETCH ALL FROM c").len(), 20_000);
        assert!(taken(&engine) >= before + (3 << 20), "{before}, then {}", taken(&engine));
        ask(&mut session, end);
        assert!(taken(&engine) <= before + SLACK, "{end}: {before}, then {}", taken(&engine));
    }
    // Beyond `work_mem` rows are in a file.
    ask(&mut session, "SET work_mem = '1MB'; BEGIN");
    ask(&mut session, &format!("DECLARE c CURSOR FOR {rows}"));
    assert!(taken(&engine) <= before + (2 << 20), "{before}, then {}", taken(&engine));
    ask(&mut session, "ROLLBACK; RESET work_mem");
    // Many small statements of a few kilobytes each.
    for n in 0..2000 {
        ask(&mut session, &format!("PREPARE p{n} AS SELECT {n} + 1, 2, 3, 4, 5, 6, 7, 8, 9"));
    }
    assert!(taken(&engine) >= before + (20 << 20), "{before}, then {}", taken(&engine));
    ask(&mut session, "DEALLOCATE ALL");
    ask(&mut session, "DISCARD PLANS");
    assert!(taken(&engine) <= before + SLACK, "{before}, then {}", taken(&engine));
    // Parameters.
    ask(&mut session, "PREPARE t (text) AS SELECT length($1)");
    assert_eq!(ask(&mut session, "EXECUTE t (repeat('x', 1000000))"), ["1000000"]);
    ask(&mut session, "SET work_mem = '1MB'");
    refused(&mut session, "EXECUTE t (repeat('x', 1000000))");
    drop(session);
    assert!(taken(&engine) <= before + SLACK, "{before}, then {}", taken(&engine));
}

#[test]
fn a_row_of_copy_that_does_not_end_counts() {
    let (engine, sql) = database(64);
    let mut session = sql.session("ann", "shop");
    ask(&mut session, "CREATE TABLE tea (name text)");
    let before = taken(&engine);
    session.run("COPY tea FROM STDIN", &mut RowSet::default()).unwrap();
    let piece = vec![b'x'; 1 << 20];
    let refused = (0..60).find_map(|_| session.copy_in()?.write(&piece).err());
    let refused = refused.expect("60 MiB do not fit in 64 MiB three times");
    assert_eq!(refused.state(), SqlState::OUT_OF_MEMORY, "{refused:?}");
    assert!(taken(&engine) <= before + SLACK, "{before}, then {}", taken(&engine));
    assert_eq!(ask(&mut session, "SELECT count(*) FROM tea"), ["0"]);
}

#[test]
fn work_mem_is_set_as_in_postgresql() {
    let (_, sql) = database(64);
    let mut session = sql.session("ann", "shop");
    assert_eq!(ask(&mut session, "SHOW work_mem"), ["256MB"]);
    for (value, shown) in [
        ("'1MB'", "1MB"),
        ("'1 GB'", "1GB"),
        ("100", "100kB"),
        ("'2048kB'", "2MB"),
        ("'64kb'", "64kB"),
        ("2048", "2MB"),
        ("'2047GB'", "2047GB"),
    ] {
        ask(&mut session, &format!("SET work_mem = {value}"));
        assert_eq!(ask(&mut session, "SHOW work_mem"), [shown], "{value}");
    }
    for value in ["63", "'1KiB'", "'-1'", "'many'", "'3TB'", "''"] {
        let set = run(&mut session, &format!("SET work_mem = {value}"));
        assert_eq!(set, Err(SqlState::INVALID_PARAMETER_VALUE), "{value}");
        assert_eq!(ask(&mut session, "SHOW work_mem"), ["2047GB"]);
    }
    ask(&mut session, "SET work_mem TO DEFAULT");
    assert_eq!(ask(&mut session, "SHOW work_mem"), ["256MB"]);
    ask(&mut session, "BEGIN; SET LOCAL work_mem = '1MB'");
    refused(&mut session, "SELECT length(repeat('x', 2000000))");
    ask(&mut session, "ROLLBACK");
    assert_eq!(ask(&mut session, "SHOW work_mem"), ["256MB"]);
    ask(&mut session, "SELECT length(repeat('x', 2000000))");
    ask(&mut session, "SET work_mem = '1MB'; RESET work_mem");
    assert_eq!(ask(&mut session, "SHOW work_mem"), ["256MB"]);
}

#[test]
fn each_attempt_of_a_statement_counts_by_itself() {
    /// Makes the statement lose this many conflicts.
    struct Losing(usize);

    impl RowSink for Losing {
        fn columns(&mut self, _: &[Column]) -> Result<()> {
            Ok(())
        }

        fn row(&mut self, _: &[Value]) -> Result<()> {
            if self.0 == 0 {
                return Ok(());
            }
            self.0 -= 1;
            Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, "as the test wants it"))
        }

        fn complete(&mut self, _: &str) -> Result<()> {
            Ok(())
        }

        fn take_back(&mut self) -> bool {
            true
        }
    }

    let (_, sql) = database(1024);
    let mut session = sql.session("ann", "shop");
    ask(&mut session, "SET work_mem = '8MB'");
    // Results that are kept for reuse stay as long as the attempt.
    let statement = "WITH c AS (SELECT n, random() FROM generate_series(1, 30000) AS s(n)) \
        SELECT count(*), 5 IN (SELECT n FROM generate_series(1, 30000) AS s(n)) FROM c";
    session.run(statement, &mut Losing(20)).unwrap();
    ask(&mut session, "BEGIN ISOLATION LEVEL READ COMMITTED");
    session.run(statement, &mut Losing(5)).unwrap();
    ask(&mut session, "COMMIT");
}

/// Rows that come by the primary key, by an index, and through a join, of several times the memory, in one transaction
/// at every level.
#[test]
fn a_statement_reads_rows_of_several_times_the_memory() {
    let path = std::env::temp_dir().join(format!("ermine-sql-cold-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let options = || {
        let options = Options::default().memory_limit(32 << 20).log_buffer_bytes(1 << 20).segment_bytes(8 << 20);
        options.durability(ermine::Durability::Async).checkpoint_after(16 << 20)
    };
    let engine = Arc::new(Database::open(&path, options()).unwrap());
    let database = SqlDatabase::open(engine.clone()).unwrap();
    let mut session = database.session("ann", "shop");
    ask(&mut session, "CREATE TABLE item (id int PRIMARY KEY, part int, note text)");
    ask(&mut session, "CREATE INDEX ON item (part)");
    for first in (0..70_000).step_by(200) {
        let rows = format!("generate_series({first}, {}) AS s(n)", first + 199);
        ask(&mut session, &format!("INSERT INTO item SELECT n, n * 7919 % 70000, repeat('x', 800) || n FROM {rows}"));
    }
    assert!(engine.statistics().unloaded_rows > 50_000, "{:?}", engine.statistics());
    let shown = "SELECT memory_taken BETWEEN versions AND memory_limit, versions_free <= versions, row_arrays > 0,
        rows_in_files > 50000, rows_evicted > 50000, rows_read_from_files >= 0 FROM ermine_stat_memory";
    assert_eq!(ask(&mut session, shown), ["t,t,t,t,t,t"]);
    for level in ["SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED"] {
        ask(&mut session, &format!("BEGIN ISOLATION LEVEL {level}"));
        for _ in 0..2 {
            let by_key = ask(&mut session, "SELECT count(*), sum(length(note)) FROM item");
            let by_index = ask(&mut session, "SELECT count(*), sum(length(note)) FROM item WHERE part >= 0");
            assert_eq!(by_key, by_index, "{level}");
            let joined = "SELECT count(b.note) FROM item a JOIN item b ON b.id = a.part WHERE a.id < 50000";
            assert_eq!(ask(&mut session, joined), ["50000"], "{level}");
        }
        ask(&mut session, "INSERT INTO item VALUES (-1, -1, '')");
        ask(&mut session, "ROLLBACK");
    }
    ask(&mut session, "BEGIN ISOLATION LEVEL SERIALIZABLE");
    ask(&mut session, "SELECT count(*), sum(length(note)) FROM item");
    ask(&mut session, "INSERT INTO item VALUES (-1, -1, '')");
    ask(&mut session, "PREPARE TRANSACTION 'all'");
    drop((session, database, engine));
    // The prepared transaction holds all of the table again, and reads none of it.
    let engine = Arc::new(Database::open(&path, options()).unwrap());
    let database = SqlDatabase::open(engine.clone()).unwrap();
    let mut session = database.session("ann", "shop");
    assert_eq!(run(&mut session, "UPDATE item SET part = -2 WHERE id = 5"), Err(SqlState::SERIALIZATION_FAILURE));
    ask(&mut session, "COMMIT PREPARED 'all'");
    ask(&mut session, "UPDATE item SET part = -2 WHERE id = 5");
    drop((session, database, engine));
    std::fs::remove_dir_all(&path).unwrap();
}
