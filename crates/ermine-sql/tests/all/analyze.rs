//! Goal: EXPLAIN ANALYZE reports what a statement did in its transaction.
//! Method: statements whose reads, version walks, tracked reads and log bytes are known, at each level.

use std::{collections::HashMap, sync::Arc};

use crate::sessions::ask;
use ermine::{Database, Options, Scheme};
use ermine_sql::{Session, SqlDatabase};
use ermine_testing::faulty::FaultyDirectory;

fn database(scheme: Scheme) -> SqlDatabase {
    let directory = Arc::new(FaultyDirectory::new());
    let engine = Database::open_in(directory, Options::default().scheme(scheme)).unwrap();
    let database = SqlDatabase::open(Arc::new(engine)).unwrap();
    let mut session = database.session("tester", "test");
    ask(&mut session, "CREATE TABLE tea (id integer PRIMARY KEY, kind text, note text)");
    ask(&mut session, "CREATE INDEX ON tea (kind)");
    ask(&mut session, "INSERT INTO tea SELECT i, 'kind ' || i % 5, '' FROM generate_series(1, 20) AS i");
    database
}

/// Returns the numbers of its last lines: rows read, versions walked, tracked reads, log bytes.
fn analyze(session: &mut Session, statement: &str) -> [u64; 4] {
    let lines = ask(session, &format!("EXPLAIN ANALYZE {statement}"));
    let told: HashMap<_, _> = lines.iter().filter_map(|line| line.split_once(": ")).collect();
    ["Rows Read", "Versions Walked", "Tracked Reads", "Log Bytes"].map(|name| told[name].parse().unwrap())
}

#[test]
fn reads_are_tracked_where_they_are_certified() {
    let database = database(Scheme::SiSsn);
    let mut session = database.session("tester", "test");
    ask(&mut session, "PREPARE by_id (integer) AS SELECT * FROM tea WHERE id = $1");
    for (level, tracks) in [("SERIALIZABLE", 1), ("REPEATABLE READ", 0), ("READ COMMITTED", 0)] {
        ask(&mut session, &format!("BEGIN ISOLATION LEVEL {level}"));
        assert_eq!(analyze(&mut session, "SELECT * FROM tea WHERE id = 7"), [1, 0, tracks, 0], "{level}");
        // Each entry of an index leads to a row.
        assert_eq!(analyze(&mut session, "SELECT * FROM tea WHERE kind = 'kind 3'"), [8, 0, 8 * tracks, 0], "{level}");
        assert_eq!(analyze(&mut session, "SELECT * FROM tea"), [20, 0, 20 * tracks, 0], "{level}");
        assert_eq!(analyze(&mut session, "SELECT 1"), [0; 4], "{level}");
        assert_eq!(analyze(&mut session, "EXECUTE by_id (7)"), [1, 0, tracks, 0], "{level}");
        ask(&mut session, "COMMIT");
    }
}

#[test]
fn old_snapshots_walk_over_newer_versions() {
    let database = database(Scheme::SiSsn);
    let [mut old, mut new] = [(); 2].map(|()| database.session("tester", "test"));
    let looks = |session: &mut Session| {
        ask(session, "BEGIN ISOLATION LEVEL REPEATABLE READ");
        ask(session, "SELECT count(*) FROM tea");
    };
    looks(&mut old);
    // A version that no snapshot sees may be collected, so each has one.
    let mut others = Vec::new();
    for note in ["a", "b", "c"] {
        ask(&mut new, &format!("UPDATE tea SET note = '{note}' WHERE id = 7"));
        let mut other = database.session("tester", "test");
        looks(&mut other);
        others.push(other);
    }
    assert_eq!(analyze(&mut old, "SELECT * FROM tea WHERE id = 7"), [1, 3, 0, 0]);
    assert_eq!(analyze(&mut old, "SELECT * FROM tea WHERE id = 8"), [1, 0, 0, 0]);
    assert_eq!(analyze(&mut new, "SELECT * FROM tea WHERE id = 7"), [1, 0, 1, 0]);
}

#[test]
fn writes_are_logged_with_what_they_write() {
    let database = database(Scheme::SiSsn);
    let mut session = database.session("tester", "test");
    let [read, walked, tracked, logged] =
        analyze(&mut session, "UPDATE tea SET note = repeat('x', 500) WHERE id BETWEEN 1 AND 4");
    assert_eq!([read, walked, tracked], [4, 0, 4]);
    assert!((4 * 500..4 * 550).contains(&logged), "{logged}");
    ask(&mut session, "BEGIN");
    let first = analyze(&mut session, "INSERT INTO tea VALUES (100, 'green', 'x')")[3];
    let second = analyze(&mut session, "INSERT INTO tea VALUES (101, 'green', 'y')")[3];
    assert!(first > 10 && first.abs_diff(second) < 5, "{first} and {second}: of each statement its own");
    let deleted = analyze(&mut session, "DELETE FROM tea WHERE id < 0")[3];
    assert_eq!(deleted, 0);
    ask(&mut session, "ROLLBACK");
}

#[test]
fn rows_in_one_place_have_no_versions_to_walk_over() {
    for (scheme, tracks) in [(Scheme::Silo, 1), (Scheme::TwoPhaseWaitDie, 0)] {
        let database = database(scheme);
        let mut session = database.session("tester", "test");
        assert_eq!(analyze(&mut session, "SELECT * FROM tea WHERE id = 7"), [1, 0, tracks, 0], "{scheme}");
        let logged = analyze(&mut session, "UPDATE tea SET note = repeat('x', 500) WHERE id = 7")[3];
        assert!((500..600).contains(&logged), "{scheme}: {logged}");
    }
}

/// Replaces the estimate of a table's size by `~`: it counts numbers of rows that a thread has taken to give away, and
/// another thread may have taken some.
fn sizeless(line: &str) -> String {
    let Some((before, rest)) = line.split_once("(rows=") else { return line.to_owned() };
    let (estimate, rest) = rest.split_once(')').unwrap();
    let estimate = if estimate.parse::<u64>().unwrap() > 3 { "~" } else { estimate };
    format!("{before}(rows={estimate}){rest}")
}

/// Returns the lines of the plan, with rows and loops, but without times.
fn plan(session: &mut Session, statement: &str) -> Vec<String> {
    let lines = ask(session, &format!("EXPLAIN ANALYZE {statement}"));
    let timeless = |line: &String| match line.split_once("time=") {
        Some((before, time)) => sizeless(&format!("{before}{}", time.split_once(' ').unwrap().1)),
        None => sizeless(line),
    };
    let lines = lines.iter().filter(|line| !line.contains("Memory: "));
    lines.take_while(|line| !line.starts_with("Result")).map(timeless).collect()
}

#[test]
fn parts_of_a_plan_say_what_came_of_them() {
    let database = database(Scheme::SiSsn);
    let mut session = database.session("tester", "test");
    let found = plan(&mut session, "SELECT * FROM tea AS one JOIN tea AS two ON two.id = one.id + 1 WHERE one.id > 15");
    let expected = [
        "Nested Loop (rows=~) (actual rows=4 loops=1)",
        "  ->  Index Scan using tea_pkey on tea one (rows=~) (actual rows=5 loops=1)",
        "            Index Cond: (id > 15)",
        "  ->  Index Scan using tea_pkey on tea two (rows=1) (actual rows=1 loops=5)",
        "            Index Cond: (id = (one.id + 1))",
    ];
    assert_eq!(found, expected);
    let found = plan(&mut session, "SELECT id FROM tea WHERE kind <> 'x' ORDER BY note LIMIT 3");
    let expected = [
        "Limit (rows=3) (actual rows=3 loops=1)",
        "  ->  Sort (rows=~) (actual rows=3 loops=1)",
        "            Sort Key: note",
        "        ->  Seq Scan on tea (rows=~) (actual rows=20 loops=1)",
        "                  Filter: (kind <> 'x')",
    ];
    assert_eq!(found, expected);
    let found = plan(&mut session, "INSERT INTO tea SELECT id + 100 FROM tea WHERE id < 4");
    let expected = [
        "Insert on tea (rows=~) (actual rows=3 loops=1)",
        "  ->  Index Scan using tea_pkey on tea (rows=~) (actual rows=3 loops=1)",
        "            Index Cond: (id < 4)",
    ];
    assert_eq!(found, expected);
    let text = "SELECT kind, count(*) FROM tea GROUP BY kind HAVING count(*) > 1 ORDER BY count(*) DESC LIMIT 2";
    let expected = [
        "Limit (rows=2) (actual rows=2 loops=1)",
        "  ->  Sort (rows=~) (actual rows=2 loops=1)",
        "            Sort Key: count(*) DESC",
        "        ->  HashAggregate (rows=~) (actual rows=6 loops=1)",
        "                  Group Key: kind",
        "                  Filter: (count(*) > 1)",
        "              ->  Seq Scan on tea (rows=~) (actual rows=23 loops=1)",
    ];
    assert_eq!(plan(&mut session, text), expected);
    // Queries in expressions.
    let text = "SELECT (SELECT max(id) FROM tea) FROM tea AS one
        WHERE EXISTS (SELECT FROM tea AS two WHERE two.id = one.id + 1) AND id < 3";
    let expected = [
        "Index Scan using tea_pkey on tea one (rows=~) (actual rows=2 loops=1)",
        "      Index Cond: (id < 3)",
        "      Filter: (EXISTS (SubPlan 1))",
        "  SubPlan 1",
        "  ->  Index Scan using tea_pkey on tea two (rows=1) (actual rows=1 loops=2)",
        "            Index Cond: (id = (one.id + 1))",
        "  InitPlan 2",
        "  ->  Aggregate (rows=1) (actual rows=1 loops=1)",
        "        ->  Seq Scan on tea (rows=~) (actual rows=23 loops=1)",
    ];
    assert_eq!(plan(&mut session, text), expected);
    let text = "SELECT DISTINCT s.kind FROM (SELECT kind, sum(id) FROM tea GROUP BY kind) AS s WHERE s.sum > 1
        ORDER BY kind";
    let expected = [
        "Unique (rows=~) (actual rows=6 loops=1)",
        "  ->  Sort (rows=~)",
        "            Sort Key: kind",
        "        ->  Subquery Scan on s (rows=~) (actual rows=6 loops=1)",
        "                  Filter: (sum > 1)",
        "              ->  HashAggregate (rows=~) (actual rows=6 loops=1)",
        "                        Group Key: kind",
        "                    ->  Seq Scan on tea (rows=~) (actual rows=23 loops=1)",
    ];
    assert_eq!(plan(&mut session, text), expected);
    let text = "SELECT DISTINCT ON (kind) kind, id FROM tea WHERE id < 4 ORDER BY kind, id DESC";
    let found = plan(&mut session, text);
    assert!(found[0].starts_with("Unique ") && found[1].starts_with("  ->  Sort "), "{found:?}");
    let text = "SELECT kind, sum(count(*) FILTER (WHERE id > 3)) OVER () FROM tea GROUP BY kind ORDER BY 2";
    let found = plan(&mut session, text);
    assert!(found[1].ends_with("Sort Key: sum(count(*) FILTER (WHERE id > 3)) OVER ()"), "{found:?}");
    let found =
        plan(&mut session, "SELECT 1 FROM tea AS one JOIN tea AS two ON two.id = one.id WHERE one.note = 'none'");
    assert!(found.iter().any(|line| line.ends_with("(never executed)")), "{found:?}");
}

#[test]
fn a_plan_is_json_with_the_keys_of_postgresql() {
    let database = database(Scheme::SiSsn);
    let mut session = database.session("tester", "test");
    let told =
        ask(&mut session, "EXPLAIN (FORMAT JSON) SELECT note FROM tea WHERE id = 3 AND note <> 'a \"b\"'").concat();
    for part in [
        "[\n  {\n    \"Plan\": {\n      \"Node Type\": \"Index Scan\",\n      \"Relation Name\": \"tea\",\n",
        "\"Index Name\": \"tea_pkey\",\n      \"Scan Direction\": \"Forward\",\n      \"Plan Rows\": 1,\n",
        "\"Index Cond\": \"(id = 3)\",\n      \"Filter\": \"(note <> 'a \\\"b\\\"')\"\n    }\n  }\n]",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let text = "SELECT (x -> 0 -> 'Plan' ->> 'Node Type') || (x -> 0 ->> 'Tracked Reads') FROM (SELECT $j$";
    let analyzed = "EXPLAIN (ANALYZE, FORMAT JSON) SELECT kind, count(*) FROM tea GROUP BY kind ORDER BY 1";
    let told = ask(&mut session, analyzed).concat();
    assert!(told.contains("\"Actual Rows\": 5") && told.contains("\"Peak Memory Usage\": "), "{told}");
    assert_eq!(ask(&mut session, &format!("{text}{told}$j$::json AS x) AS told")), ["Sort20"], "{told}");
}

#[test]
fn hashes_and_sorts_say_how_much_memory_they_held() {
    let database = database(Scheme::SiSsn);
    let mut session = database.session("tester", "test");
    let lines = ask(
        &mut session,
        "EXPLAIN ANALYZE SELECT one.id FROM tea AS one JOIN tea AS two USING (note) ORDER BY one.kind || two.kind",
    );
    assert_eq!(lines.iter().filter(|line| line.contains("Memory: ") && line.ends_with(" kB")).count(), 2, "{lines:?}");
    assert!(lines.iter().any(|line| line.ends_with("Hash Cond: (two.note = one.note)")), "{lines:?}");
}

#[test]
fn estimates_are_those_of_the_choice_of_joins() {
    let database = database(Scheme::SiSsn);
    let mut session = database.session("tester", "test");
    ask(&mut session, "CREATE TABLE leaf (id integer PRIMARY KEY, tea integer, kind text)");
    ask(&mut session, "INSERT INTO leaf SELECT i, i % 20 + 1, 'kind ' || i % 5 FROM generate_series(1, 5000) AS i");
    let mut estimates = |statement: &str| -> Vec<f64> {
        let lines = ask(&mut session, &format!("EXPLAIN (COSTS) {statement}"));
        let of_line = |line: &String| Some(line.split_once("(rows=")?.1.split_once(')')?.0.parse().unwrap());
        lines.iter().filter_map(of_line).collect()
    };
    let near = |estimate: f64, wanted: f64| (estimate - wanted).abs() < 0.1 * wanted;
    // Each row finds one by the key: the join has as many as the table.
    let by_key = estimates("SELECT count(*) FROM leaf JOIN tea ON tea.id = leaf.tea");
    assert!(by_key[0] == 1.0 && near(by_key[1], 5000.0), "{by_key:?}");
    // A hash of all rows, in which each finds a few.
    let of_hash = estimates("SELECT count(*) FROM leaf AS a JOIN leaf AS b ON b.tea = a.tea");
    let [1.0, joined, table, found, hashed] = of_hash[..] else { panic!("five nodes: {of_hash:?}") };
    assert!(near(table, 5000.0) && near(hashed, 5000.0) && found < 100.0, "{of_hash:?}");
    assert!(near(joined, table * found), "{of_hash:?}");
    // An outer join has the outer rows at least.
    let outer = estimates("SELECT FROM leaf LEFT JOIN tea ON tea.id = leaf.tea AND tea.note = 'none'");
    assert!(near(outer[0], 5000.0) && outer[2] < 1.0, "{outer:?}");
    let merged = estimates("MERGE INTO leaf USING tea ON leaf.id = tea.id WHEN MATCHED THEN DELETE");
    assert!(merged[0] <= 100.0, "{merged:?}");
    // A condition of which nothing is known holds for some.
    let some = estimates("SELECT FROM leaf WHERE EXISTS (SELECT FROM tea WHERE tea.note = leaf.kind)");
    assert!(near(some[0], 2000.0) && some[1] == 1.0, "{some:?}");
    let none = estimates("SELECT FROM leaf WHERE NOT EXISTS (SELECT FROM tea WHERE tea.note = leaf.kind)");
    assert_eq!(none, some);
    for (statement, least, most) in [
        ("SELECT kind FROM leaf GROUP BY kind", 100.0, 1000.0),
        ("SELECT DISTINCT kind FROM leaf", 100.0, 1000.0),
        ("SELECT DISTINCT kind FROM leaf ORDER BY kind", 100.0, 1000.0),
        ("SELECT kind, tea, count(*) FROM leaf GROUP BY ROLLUP (kind, tea)", 100.0, 2500.0),
        ("SELECT max(id) FROM leaf WHERE kind = 'none'", 1.0, 1.0),
        ("SELECT FROM leaf LIMIT 7 OFFSET 2", 7.0, 7.0),
        ("SELECT FROM leaf OFFSET 4000", 900.0, 1300.0),
        ("SELECT id FROM leaf EXCEPT SELECT id FROM tea", 4900.0, 5300.0),
        ("SELECT id FROM leaf INTERSECT SELECT id FROM tea", 100.0, 100.0),
        ("SELECT FROM leaf WHERE id = 7", 1.0, 1.0),
        ("VALUES (1), (2), (3)", 3.0, 3.0),
    ] {
        let of = estimates(statement);
        assert!((least..=most).contains(&of[0]), "{statement}: {of:?}");
    }
}

#[test]
fn each_node_says_how_long_it_took() {
    let database = database(Scheme::SiSsn);
    let mut session = database.session("tester", "test");
    for (statement, rows) in [
        ("SELECT * FROM tea WHERE id < 9 ORDER BY note FOR UPDATE LIMIT 3", [3, 3, 3, 8].as_slice()),
        (
            "MERGE INTO tea USING (VALUES (1), (2)) AS v (id) ON v.id = tea.id WHEN MATCHED THEN DELETE",
            &[2, 2, 2, 2, 1],
        ),
        ("WITH gone AS (DELETE FROM tea WHERE id = 4 RETURNING id) SELECT * FROM gone", &[1, 1, 1, 1]),
    ] {
        let lines = ask(&mut session, &format!("EXPLAIN ANALYZE {statement}"));
        let nodes: Vec<_> = lines.iter().filter(|line| line.contains("(rows=")).collect();
        let all_rows: Vec<u64> = nodes
            .iter()
            .map(|line| {
                let actual = line.split_once("actual time=").unwrap_or_else(|| panic!("{lines:?}")).1;
                actual.split_once("rows=").unwrap().1.split_once(' ').unwrap().0.parse().unwrap()
            })
            .collect();
        assert_eq!(all_rows, rows, "{lines:?}");
    }
}

#[test]
fn calls_and_rows_are_shown_as_they_are_written() {
    let database = database(Scheme::SiSsn);
    let mut session = database.session("tester", "test");
    ask(
        &mut session,
        "CREATE TABLE t (id integer, body text, day date, at timestamptz, \"order\" integer[], f float8)",
    );
    for (condition, shown) in [
        ("(id, f) > (5, 6)", "(ROW(id, f) > ROW(5, 6))"),
        ("day + interval '1 day' > now()", "((day + '1 day'::interval) > now())"),
        ("row(id, body) IS NULL", "(ROW(id, body) IS NULL)"),
        ("day < current_date", "(day < CURRENT_DATE)"),
        ("at < current_timestamp", "(at < CURRENT_TIMESTAMP)"),
        ("body = current_user", "(body = CURRENT_USER)"),
        ("position('x' IN body) > 1", "(POSITION('x' IN body) > 1)"),
        ("extract(year FROM at) = 2026", "(EXTRACT(year FROM at) = 2026)"),
        ("at AT TIME ZONE 'UTC' < day", "((at AT TIME ZONE 'UTC') < day)"),
        ("overlay(body PLACING 'x' FROM 2 FOR 1) = 'a'", "(OVERLAY(body PLACING 'x' FROM 2 FOR 1) = 'a')"),
        ("(at, at) OVERLAPS (now(), now())", "((at, at) OVERLAPS (now(), now()))"),
        ("- (- id) = 1", "((-(-id)) = 1)"),
        ("(id + 1) * f > 1", "(((id + 1) * f) > 1)"),
        ("\"order\"[2] = 1", "(\"order\"[2] = 1)"),
        ("lower(body COLLATE \"C\") = 'a'", "(lower(body COLLATE \"C\") = 'a')"),
        ("body ILIKE 'a%' COLLATE \"C\"", "(body ~~* 'a%' COLLATE \"C\")"),
        ("f < 'NaN'", "(f < 'NaN'::double precision)"),
        ("body::varchar(3) = 'it''s'", "(body::character varying(3) = 'it''s')"),
        ("id IS NOT DISTINCT FROM 1", "(id IS NOT DISTINCT FROM 1)"),
        ("(id > 1) IS NOT TRUE", "((id > 1) IS NOT TRUE)"),
        ("id IN (SELECT 1 WHERE t.f > 1)", "(id = ANY (SubPlan 1))"),
        ("id > (SELECT max(id) FROM t)", "(id > (InitPlan 1))"),
        ("pg_try_advisory_xact_lock(id)", "(pg_try_advisory_xact_lock(id))"),
    ] {
        let lines = ask(&mut session, &format!("EXPLAIN SELECT FROM t WHERE {condition}"));
        assert_eq!(lines[1].trim_start(), format!("Filter: {shown}"), "{lines:?}");
    }
    let named = "WITH RECURSIVE c (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c WHERE n < 50) SELECT * FROM c";
    let lines = ask(&mut session, &format!("EXPLAIN {named} WHERE n > 40"));
    let filters: Vec<_> =
        lines.iter().map(|line| line.trim_start()).filter(|line| line.starts_with("Filter")).collect();
    assert_eq!(filters, ["Filter: (n > 40)", "Filter: (n < 50)"]);
}
