//! Statements that gather more than `work_mem` and go on in a temporary file.
//!
//! Goal: they return the same rows as with enough memory, in the same order where one is wanted, stay within
//! `work_mem`, and leave nothing behind, however they end. Method: each statement with little and with much `work_mem`;
//! random queries on random rows; `pg_stat_database` says whether a file was written.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use ermine::{Database, Options};
use ermine_sql::{Column, Result, RowSink, Session, SqlDatabase, SqlState, types::Value};

use crate::sessions::{ask, run};

/// The most bytes that a statement takes from the budget beyond `work_mem`: some steps of its own, and what the engine
/// remembers of the rows that it reads.
const SLACK: u64 = 1 << 20;

fn in_memory() -> (Arc<Database>, SqlDatabase) {
    let options = Options::default().memory_limit(1 << 30);
    let engine = Arc::new(Database::open_in_memory(options).unwrap());
    (engine.clone(), SqlDatabase::open(engine).unwrap())
}

/// Returns the bytes that statements have written to temporary files.
fn written(session: &mut Session) -> u64 {
    ask(session, "SELECT temp_bytes FROM pg_stat_database WHERE datname = current_database()")[0].parse().unwrap()
}

/// Gathers the rows as texts, and looks at what is taken from the budget at each of them.
struct Watching<'d> {
    rows: Vec<String>,
    engine: &'d Database,
    most: u64,
}

impl RowSink for Watching<'_> {
    fn columns(&mut self, _: &[Column]) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, values: &[Value]) -> Result<()> {
        self.rows.push(format!("{values:?}"));
        self.most = self.most.max(self.engine.budget().taken());
        Ok(())
    }

    fn complete(&mut self, _: &str) -> Result<()> {
        Ok(())
    }
}

/// Returns the rows of a statement with so much `work_mem`, in their order, and the bytes that it has written.
fn rows_of(engine: &Database, session: &mut Session, statement: &str, work_mem: &str) -> (Vec<String>, u64) {
    ask(session, &format!("SET work_mem = '{work_mem}'"));
    let (before, mut rows) = (written(session), Watching { rows: Vec::new(), engine, most: 0 });
    let taken = engine.budget().taken();
    if let Err(error) = session.run(statement, &mut rows) {
        panic!("{statement} with {work_mem}: {error:?}");
    }
    let allowed = match work_mem.strip_suffix("kB") {
        Some(kilobytes) => kilobytes.parse::<u64>().unwrap() << 10,
        None => 256 << 20,
    };
    assert!(rows.most <= taken + allowed + SLACK, "{statement}: {taken}, then {}", rows.most);
    (rows.rows, written(session) - before)
}

/// Runs a query with much and with little memory, and compares the rows.
fn compare(engine: &Database, session: &mut Session, query: &str, small: &str) -> u64 {
    let (mut expected, none) = rows_of(engine, session, query, "256MB");
    assert_eq!(none, 0, "{query}");
    let (mut rows, written) = rows_of(engine, session, query, small);
    if !query.contains("ORDER BY") {
        expected.sort_unstable();
        rows.sort_unstable();
    }
    let first = expected.iter().zip(&rows).position(|(expected, row)| expected != row);
    let (first, lengths) = (first.map(|at| (&expected[at], &rows[at])), (expected.len(), rows.len()));
    assert!(first.is_none() && lengths.0 == lengths.1, "{query} with {small}: {lengths:?} rows, {first:?}");
    written
}

#[test]
fn rows_are_the_same_with_little_memory() {
    let (engine, sql) = in_memory();
    let mut session = sql.session("ann", "shop");
    let rows = "FROM generate_series(1, 30000) AS s(n)";
    for query in [
        "SELECT n, repeat('x', 50) {rows} ORDER BY n DESC",
        "SELECT n::text || 'x' {rows} ORDER BY 1 LIMIT 100 OFFSET 19000",
        "SELECT n % 7, n, repeat('x', 500), ROW(n, 'x'), ARRAY[n, NULL] {rows} ORDER BY 1, 2",
        "SELECT n, repeat('x', 50000 + n % 2) FROM generate_series(1, 100) AS s(n) ORDER BY 1 DESC",
        "SELECT DISTINCT n::text || 'x', n % 2 {rows}",
        "SELECT DISTINCT n % 20000 {rows} ORDER BY 1 DESC",
        "SELECT n::text || 'x', count(*), sum(n) {rows} GROUP BY 1",
        "SELECT n % 20000, max(repeat('x', 100)), count(*) {rows} GROUP BY 1",
        "SELECT n, n + 1, count(*), grouping(n) {rows} GROUP BY CUBE (n, n + 1)",
        "SELECT n % 9000 AS m, count(*) {rows} GROUP BY 1 HAVING count(*) > 3",
        "SELECT n, array_agg(n) {rows} GROUP BY 1",
        "SELECT n {rows} UNION SELECT -n {rows}",
        "SELECT n {rows} EXCEPT SELECT -n FROM generate_series(1, 10) AS s(n)",
        "SELECT n % 20 FROM generate_series(1, 40000) AS s(n) INTERSECT ALL SELECT n % 30000 {rows}",
        "SELECT n % 25000 {rows} INTERSECT SELECT n * 2 {rows}",
        "SELECT n % 25000 {rows} EXCEPT SELECT n * 2 {rows}",
        "SELECT n % 25000, 'x' {rows} EXCEPT ALL SELECT n * 2 % 20000, 'x' {rows}",
        "SELECT DISTINCT ON (m) n % 20000 AS m, n {rows} ORDER BY m, n DESC",
        "SELECT DISTINCT ON (n % 20000, n % 2) n % 20000, n % 2 {rows} ORDER BY n % 2",
        "SELECT DISTINCT ON (n % 20000) n % 20000 {rows}",
        "SELECT count(*) FROM generate_series(1, 5) AS l(n) FULL JOIN (SELECT nullif(n % 2, 0) * n AS k {rows}) AS r \
            ON r.k = l.n",
        "WITH c AS MATERIALIZED (SELECT n, repeat('x', n % 50) AS x {rows}) \
            SELECT count(*), max(x) FROM c UNION ALL SELECT n, x FROM c WHERE n % 10000 = 7",
        "SELECT t.m, d.n % 3, count(*) FROM generate_series(1, 2) AS t(m), (SELECT n, random() {rows}) AS d GROUP BY 1, 2",
        "SELECT * FROM (SELECT n {rows}) AS t JOIN (SELECT n, n % 3 AS m {rows}) AS d ON t.n = d.n",
        "SELECT * FROM (SELECT n {rows}) AS t FULL JOIN (SELECT n + 15000 AS n {rows}) AS u USING (n)",
        "SELECT * FROM (SELECT n {rows} WHERE n < 0) AS t FULL JOIN (SELECT n {rows}) AS u USING (n)",
        "SELECT * FROM (SELECT n {rows}) AS t LEFT JOIN (SELECT n * 2 AS n {rows}) AS u USING (n)",
        "SELECT t.n, count(u.n) FROM (SELECT n {rows}) AS t LEFT JOIN (SELECT n % 20000 AS n {rows}) AS u USING (n) \
            GROUP BY t.n ORDER BY 2 DESC, 1",
        // Two in a row that are too large.
        "SELECT count(*), sum(u.m) FROM (SELECT n {rows}) AS t JOIN (SELECT n, n + 1 AS m {rows}) AS u USING (n) \
            LEFT JOIN (SELECT n AS m, n % 2 AS half {rows}) AS v ON v.m = u.m AND v.half = 1",
    ] {
        let query = query.replace("{rows}", rows);
        let small = compare(&engine, &mut session, &query, "1024kB");
        let smallest = compare(&engine, &mut session, &query, "256kB");
        assert!(smallest > 0, "{query} does not need more than 256 kB ({small})");
    }
}

/// Rows of cursors and portals, which are fetched in any order.
#[test]
fn cursors_go_on_in_a_file() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (engine, sql) = in_memory();
    let mut session = sql.session("ann", "shop");
    ask(&mut session, "CREATE TABLE tea (id integer PRIMARY KEY, name text)");
    ask(&mut session, "INSERT INTO tea SELECT n, repeat('x', n % 90) FROM generate_series(1, 5000) AS s(n)");
    let before = written(&mut session);
    ask(&mut session, "BEGIN; SET LOCAL work_mem = '64kB'");
    ask(&mut session, "DECLARE small SCROLL CURSOR FOR SELECT id, name FROM tea ORDER BY id");
    ask(&mut session, "DECLARE forward NO SCROLL CURSOR FOR SELECT id, name FROM tea ORDER BY id");
    ask(&mut session, "SET LOCAL work_mem = '256MB'");
    ask(&mut session, "DECLARE large SCROLL CURSOR FOR SELECT id, name FROM tea ORDER BY id");
    assert!(written(&mut session) > before + (200 << 10));
    for _ in 0..400 {
        let count = random.u32(1..200);
        let fetch = match random.u8(..6) {
            0 => format!("FORWARD {count}"),
            1 => format!("BACKWARD {count}"),
            2 => format!("ABSOLUTE {}", random.i32(-5010..5010)),
            3 => format!("RELATIVE {}", random.i32(-300..300)),
            4 => "PRIOR".into(),
            _ => "NEXT".into(),
        };
        let expected = ask(&mut session, &format!("FETCH {fetch} FROM large"));
        assert_eq!(ask(&mut session, &format!("FETCH {fetch} FROM small")), expected, "{fetch}");
    }
    ask(&mut session, "MOVE ABSOLUTE 4321 IN small");
    assert_eq!(ask(&mut session, "UPDATE tea SET name = 'new' WHERE CURRENT OF small RETURNING id"), ["4321"]);
    let mut all = Vec::new();
    while all.len() < 5000 {
        let count = random.u32(1..500);
        let more = ask(&mut session, &format!("FETCH {count} FROM forward"));
        assert!(!more.is_empty());
        all.extend(more);
    }
    ask(&mut session, "MOVE ABSOLUTE 0 IN large");
    assert!(all == ask(&mut session, "FETCH ALL FROM large"));
    assert!(ask(&mut session, "FETCH NEXT FROM forward").is_empty());
    ask(&mut session, "ROLLBACK");
    // A portal's rows.
    ask(&mut session, "SET work_mem = '64kB'");
    let mut rows = session.row_buffer();
    let row = |number: i64| [Value::Int8(number), Value::text("x".repeat(number as usize % 100))];
    (0..3000).for_each(|number| rows.push(&row(number)).unwrap());
    assert!(rows.bytes() <= 64 << 10);
    let (mut fetched, mut next) = (0, 0);
    while fetched < 3000 {
        let mut sink = Watching { rows: Vec::new(), engine: &engine, most: 0 };
        fetched += rows.fetch(random.usize(1..300), &mut sink).unwrap();
        for shown in sink.rows {
            assert_eq!(shown, format!("{:?}", row(next)));
            next += 1;
        }
    }
    assert_eq!(next, 3000);
}

/// A query that is run for each row around keeps its hash for the next run: it would be read from a file each time.
#[test]
fn the_hash_of_a_repeated_query_has_to_fit() {
    let (engine, sql) = in_memory();
    let mut session = sql.session("ann", "shop");
    let rows = "FROM generate_series(1, 30000) AS s(n)";
    let query = format!(
        "SELECT m, (SELECT max(t.n) FROM (SELECT n {rows}) AS t JOIN (SELECT n {rows}) AS u ON u.n = t.n + s.m) \
            FROM generate_series(1, 3) AS s(m)"
    );
    assert_eq!(rows_of(&engine, &mut session, &query, "256MB").1, 0);
    ask(&mut session, "SET work_mem = '256kB'");
    assert_eq!(run(&mut session, &query), Err(SqlState::OUT_OF_MEMORY));
    // What such a query sorts or groups is done anew each time, in the same place of the file.
    let query = "SELECT count(*) FROM generate_series(1, 200) AS s(m), \
        LATERAL (SELECT n FROM generate_series(1, 3000) AS t(n) ORDER BY n % m OFFSET 2999) AS u";
    ask(&mut session, "SET work_mem = '64kB'; SET temp_file_limit = '1MB'");
    assert_eq!(ask(&mut session, query), ["200"]);
}

/// Where the database has no room, and `work_mem` would allow more.
#[test]
fn a_full_database_is_left_for_the_file() {
    let options = Options::default().memory_limit(64 << 20);
    let engine = Arc::new(Database::open_in_memory(options).unwrap());
    let sql = SqlDatabase::open(engine).unwrap();
    let mut session = sql.session("ann", "shop");
    let rows = |count: u32| format!("FROM generate_series(1, {count}) AS s(n)");
    for query in [
        format!("SELECT count(*) FROM (SELECT n {0}) AS t JOIN (SELECT n {0}) AS u USING (n)", rows(800_000)),
        format!(
            "SELECT count(*) FROM (SELECT n, repeat('x', 1 + n % 3), count(*) AS c, sum(n) {} GROUP BY 1, 2 \
                ORDER BY c, n OFFSET 0) AS q",
            rows(500_000)
        ),
    ] {
        let before = written(&mut session);
        ask(&mut session, &query);
        assert!(written(&mut session) > before, "{query}");
    }
}

#[test]
fn rows_with_one_key_have_to_fit() {
    let (engine, sql) = in_memory();
    let mut session = sql.session("ann", "shop");
    let query = "SELECT count(*) FROM generate_series(1, 3) AS t(m) LEFT JOIN \
        (SELECT n % 2 AS k, n FROM generate_series(1, 7500) AS s(n)) AS u ON u.k = t.m";
    assert!(compare(&engine, &mut session, query, "1024kB") > 0);
    ask(&mut session, "SET work_mem = '256kB'");
    assert_eq!(run(&mut session, query), Err(SqlState::OUT_OF_MEMORY));
    assert_eq!(ask(&mut session, "SELECT 1"), ["1"]);
}

#[test]
fn random_queries_return_the_same_rows_with_little_memory() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (engine, sql) = in_memory();
    let mut session = sql.session("ann", "shop");
    for table in ["a", "b", "c"] {
        ask(
            &mut session,
            &format!("CREATE TABLE {table} (id integer PRIMARY KEY, k integer, name text, part numeric)"),
        );
        let (rows, keys) = (random.u32(200..3000), random.u32(1..2000));
        let insert = format!(
            "INSERT INTO {table} SELECT n, nullif(n * 7919 % {keys}, 3), repeat(chr(97 + n % 26), n % 40), n % 13 / 4.0 \
                FROM generate_series(1, {rows}) AS s(n)"
        );
        ask(&mut session, &insert);
    }
    let mut spilled = 0;
    for _ in 0..60 {
        let column = |random: &mut fastrand::Rng| {
            let table = ["a", "b", "c"][random.usize(..3)];
            format!("{table}.{}", ["id", "k", "name", "part"][random.usize(..4)])
        };
        let join = |random: &mut fastrand::Rng| ["JOIN", "LEFT JOIN"][random.usize(..2)];
        let (on, more) = (["k", "id", "id % 500"][random.usize(..3)], ["k", "id"][random.usize(..2)]);
        let from = match random.u8(..4) {
            0 => format!("a FULL JOIN b ON a.{on} = b.{more}"),
            _ => format!(
                "a {} b ON a.{on} = b.id {} c ON c.id = {}.{more}",
                join(&mut random),
                join(&mut random),
                ["a", "b"][random.usize(..2)]
            ),
        };
        let column = |random: &mut fastrand::Rng| match from.contains("FULL") {
            true => column(random).replace("c.", "a."),
            false => column(random),
        };
        let columns = (column(&mut random), column(&mut random), column(&mut random));
        let query = match random.u8(..5) {
            0 => format!("SELECT {}, {} FROM {from}", columns.0, columns.1),
            1 => format!("SELECT DISTINCT {}, {} FROM {from}", columns.0, columns.1),
            2 => format!("SELECT {}, {}, count(*), max({}) FROM {from} GROUP BY 1, 2", columns.0, columns.1, columns.2),
            3 => format!(
                "SELECT {}, {}, {} FROM {from} ORDER BY 1 DESC, 2 NULLS FIRST, 3 LIMIT {}",
                columns.0,
                columns.1,
                columns.2,
                random.u32(1..3000)
            ),
            _ => format!("SELECT {0} FROM {from} UNION SELECT {0} FROM {from} WHERE {0} IS NOT NULL", columns.0),
        };
        let small = ["64kB", "128kB", "512kB"][random.usize(..3)];
        spilled += u32::from(compare(&engine, &mut session, &query, small) > 0);
    }
    assert!(spilled > 10, "{spilled} queries have written to a file");
}

#[test]
fn changes_are_the_same_with_little_memory() {
    let (engine, sql) = in_memory();
    let mut session = sql.session("ann", "shop");
    let statements = [
        "UPDATE tea SET name = repeat('x', 4200 + o.n % 2) FROM generate_series(1, 2000) AS o(n) WHERE o.n = tea.id",
        "UPDATE tea SET name = 'leaf' WHERE id <= 2000",
        "INSERT INTO tea SELECT id + 20000, name || repeat('x', 50), kind FROM tea",
        "UPDATE tea SET name = name || id, kind = kind + 1 WHERE id % 3 > 0",
        "UPDATE tea SET kind = other.id FROM (SELECT id, name FROM tea WHERE id % 2 = 0) AS other \
            WHERE other.id = tea.id + 1",
        "UPDATE tea SET id = -id",
        "DELETE FROM tea WHERE id % 5 = 0",
        "CREATE TABLE more AS SELECT * FROM tea",
    ];
    let mut contents = Vec::new();
    for work_mem in ["256MB", "256kB"] {
        ask(&mut session, "CREATE TABLE tea (id integer PRIMARY KEY, name text, kind integer)");
        ask(&mut session, "CREATE INDEX ON tea (kind)");
        ask(&mut session, "INSERT INTO tea SELECT n, 'leaf', n % 100 FROM generate_series(1, 20000) AS s(n)");
        for statement in statements {
            let (_, written) = rows_of(&engine, &mut session, statement, work_mem);
            assert_eq!(written > 0, work_mem == "256kB", "{statement}");
        }
        ask(&mut session, "SET work_mem = '256MB'");
        let returned = "DELETE FROM tea USING more WHERE more.id = tea.id AND more.kind < 50 RETURNING tea.*, more.*";
        ask(&mut session, &format!("SET work_mem = '{work_mem}'"));
        let mut returned = ask(&mut session, returned);
        returned.sort_unstable();
        ask(&mut session, "SET work_mem = '256MB'");
        let tables = ["tea", "more"].map(|table| ask(&mut session, &format!("SELECT * FROM {table} ORDER BY id")));
        assert!(returned.len() > 1000);
        contents.push((returned, tables));
        ask(&mut session, "DROP TABLE tea, more");
    }
    assert!(contents[0] == contents[1]);
}

/// Returns the names in a directory.
fn names(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn nothing_is_left_however_a_statement_ends() {
    /// Cancels the statement, or looks for files, at its first row.
    struct First<'d> {
        cancel: Option<Arc<std::sync::atomic::AtomicBool>>,
        directory: &'d Path,
        known: BTreeSet<String>,
    }

    impl RowSink for First<'_> {
        fn columns(&mut self, _: &[Column]) -> Result<()> {
            Ok(())
        }

        fn row(&mut self, _: &[Value]) -> Result<()> {
            // On Linux the file never has a name.
            if cfg!(target_os = "linux") {
                let temporary: Vec<_> = names(self.directory).difference(&self.known).cloned().collect();
                assert!(temporary.iter().all(|name| !name.starts_with(".tmp")), "{temporary:?}");
            }
            if let Some(cancel) = &self.cancel {
                cancel.store(true, std::sync::atomic::Ordering::Relaxed);
            }
            Ok(())
        }

        fn complete(&mut self, _: &str) -> Result<()> {
            Ok(())
        }
    }

    let directory = std::env::temp_dir().join(format!("ermine-spill-{}", std::process::id()));
    let engine = Arc::new(Database::open(&directory, Options::default().memory_limit(256 << 20)).unwrap());
    assert_eq!(engine.path(), Some(&*directory));
    let sql = SqlDatabase::open(engine.clone()).unwrap();
    let mut session = sql.session("ann", "shop");
    ask(&mut session, "SET work_mem = '256kB'");
    let (known, taken) = (names(&directory), engine.budget().taken());
    let rows = "SELECT n, repeat('x', 20) FROM generate_series(1, 20000) AS s(n) ORDER BY n DESC";
    let cancel = session.cancel();
    for cancel in [None, Some(cancel)] {
        let is_cancelled = cancel.is_some();
        let mut sink = First { cancel, directory: &directory, known: known.clone() };
        let ended = session.run(rows, &mut sink).map_err(|error| error.state());
        assert_eq!(ended.is_err(), is_cancelled, "{ended:?}");
        assert!(!is_cancelled || ended == Err(SqlState::QUERY_CANCELED));
    }
    assert_eq!(run(&mut session, &rows.replace("n,", "n, 1 / (n - 5000),")), Err(SqlState::DIVISION_BY_ZERO));
    assert!(written(&mut session) > 1 << 20);
    let after = engine.budget().taken();
    assert!(after <= taken + SLACK, "{taken}, then {after}");
    ask(&mut session, "SET temp_file_limit = '100kB'");
    assert_eq!(run(&mut session, rows), Err(SqlState::CONFIGURATION_LIMIT_EXCEEDED));
    assert_eq!(ask(&mut session, "SHOW temp_file_limit"), ["100kB"]);
    for (value, shown) in [("-1", "-1"), ("0", "0"), ("2048", "2MB")] {
        ask(&mut session, &format!("SET temp_file_limit = {value}"));
        assert_eq!(ask(&mut session, "SHOW temp_file_limit"), [shown]);
    }
    assert_eq!(run(&mut session, "SET temp_file_limit = 'much'"), Err(SqlState::INVALID_PARAMETER_VALUE));
    ask(&mut session, "CREATE ROLE bob LOGIN");
    let mut other = sql.session("bob", "shop");
    assert_eq!(run(&mut other, "SET temp_file_limit = -1"), Err(SqlState::INSUFFICIENT_PRIVILEGE));
    let analyzed = ask(&mut session, &format!("EXPLAIN (ANALYZE, COSTS OFF) {rows}")).join("\n");
    assert!(analyzed.contains("Disk: ") && analyzed.contains("Memory: "), "{analyzed}");
    drop((session, other, sql, engine));
    std::fs::remove_dir_all(&directory).unwrap();
}
