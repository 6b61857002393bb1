//! Goal: the session answers any text that a client sends: no panic, no stack overflow, no internal error, bounded time
//! and memory.
//! Method: the statements of tests/sql are cut up, mixed and repeated at random from a printed seed, and run on a small
//! database with a time limit (`front.rs`, which the fuzz target `sql` shares), on a thread with the stack size of the
//! server's threads. Texts that are constructed to be deep or long are run as they are.
//!
//! `ERMINE_TEST_SEED=n` runs one text again, `ERMINE_TEST_ROUNDS=n` more of them, and `ERMINE_TEST_TRACE=1` prints each
//! before it runs.
//!
//! The limit of memory is that of the process, so the tests have a process of their own.

mod front;

use std::{fs, io::Write as _, path::Path, thread};

use ermine::{Database, Options};
use ermine_sql::{RowSet, SqlDatabase};
use front::Front;

const STACK: usize = 2 << 20;
/// Neighbouring seeds begin with similar numbers; spread out, they do not.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// The limit of the whole process, with all tests at once.
const MEMORY_MAX_KIB: u64 = 5 << 20;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

fn on_a_small_stack(run: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().stack_size(STACK).spawn(run).unwrap();
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn trace(text: &str) {
    if variable("ERMINE_TEST_TRACE").is_some() {
        // Ordinary test output is captured, and lost when the process ends.
        let _ = writeln!(std::io::stderr(), "{text}\n--");
    }
}

fn check_memory() {
    let Ok(status) = fs::read_to_string("/proc/self/status") else { return };
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < MEMORY_MAX_KIB, "{kib} KiB at the peak");
}

/// The statements of tests/sql.
fn seeds() -> Vec<String> {
    let mut seeds = Vec::new();
    for file in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sql")).unwrap() {
        for record in fs::read_to_string(file.unwrap().path()).unwrap().split("\n\n") {
            let lines = record.lines().filter(|line| !line.starts_with('#'));
            let lines = lines.skip_while(|line| line.starts_with("connection "));
            let statement: Vec<_> = lines.skip(1).take_while(|line| *line != "----").collect();
            seeds.push(statement.join("\n"));
        }
    }
    assert!(seeds.len() > 200, "{} seeds", seeds.len());
    seeds
}

/// Splits a text into words, signs and literals; the space between is not kept.
fn parts(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut quoted = false;
    let mut last = ' ';
    for character in text.chars() {
        let is_word = |character: char| character.is_alphanumeric() || character == '_' || character == '.';
        let goes_on = quoted
            || is_word(last) && is_word(character)
            || "<>=|:-#@".contains(last) && "<>=|:-#@".contains(character);
        if character == '\'' {
            quoted = !quoted;
        }
        last = character;
        match parts.last_mut() {
            Some(part) if goes_on || character == '\'' && part.starts_with('\'') => part.push(character),
            _ if character.is_whitespace() => {}
            _ => parts.push(character.to_string()),
        }
    }
    parts
}

/// Parts that may replace others.
const STRANGE: &[&str] = &[
    "NULL",
    "0",
    "-1",
    "2147483647",
    "-9223372036854775808",
    "1e308",
    "'NaN'",
    "'infinity'::timestamptz",
    "''",
    "'\u{1f375}'",
    "$1",
    "$65535",
    "$0",
    "*",
    "(",
    ")",
    "()",
    "[",
    "]",
    ",",
    ";",
    "::",
    "::text",
    "::integer[]",
    "::numeric(3,2)",
    "::interval",
    "'{}'::jsonb",
    "ARRAY[]::text[]",
    "now()",
    "count(*)",
    "generate_series(1, 1000000000)",
    "nextval('s')",
    "SELECT",
    "FROM t",
    "FROM t, t AS o, t AS p",
    "WHERE",
    "GROUP BY",
    "ORDER BY 1",
    "LIMIT 1",
    "t.a",
    "u",
    "EXPLAIN",
    "BEGIN;",
    "COMMIT;",
    "DISTINCT",
    "UNION ALL",
    "(SELECT a FROM t)",
    "EXISTS",
    "NOT",
    "IN (1, NULL)",
    "BETWEEN",
    "LIKE '%_\\'",
    "CASE WHEN",
    "END",
    "RETURNING *",
    "ON CONFLICT DO NOTHING",
    "repeat('x', 1000000)",
    "10 ^ 1000",
    "1 << 64",
    "lpad('', 2147483647)",
    "\"",
    "'",
    "$$",
    "--",
    "/*",
    "\0",
    "\u{feff}",
];

fn change(parts: &mut Vec<String>, seeds: &[Vec<String>], random: &mut fastrand::Rng) {
    let at = random.usize(..=parts.len());
    let end = (at + random.usize(..4)).min(parts.len());
    match random.u8(..7) {
        0 => {
            parts.drain(at..end);
        }
        1 => {
            let other = &seeds[random.usize(..seeds.len())];
            let from = random.usize(..=other.len());
            let to = (from + random.usize(..8)).min(other.len());
            parts.splice(at..end, other[from..to].iter().cloned());
        }
        2 | 3 => {
            parts.splice(at..end, [STRANGE[random.usize(..STRANGE.len())].to_owned()]);
        }
        4 => {
            let copies = vec![parts[at..end].to_vec(); 1 << random.u32(..8)];
            parts.splice(at..at, copies.concat());
        }
        5 if !parts.is_empty() => {
            let (one, two) = (random.usize(..parts.len()), random.usize(..parts.len()));
            parts.swap(one, two);
        }
        _ => {
            if let Some(part) = parts.get_mut(at) {
                let mut bytes = part.clone().into_bytes();
                let place = random.usize(..bytes.len());
                bytes[place] ^= 1 << random.u32(..7);
                *part = String::from_utf8_lossy(&bytes).into_owned();
            }
        }
    }
}

#[test]
fn random_texts_are_answered() {
    on_a_small_stack(|| {
        let rounds =
            if variable("ERMINE_TEST_SEED").is_some() { 1 } else { variable("ERMINE_TEST_ROUNDS").unwrap_or(3000) };
        let first = variable("ERMINE_TEST_SEED").unwrap_or_else(|| fastrand::u64(..1 << 48));
        let mut tables = seeds();
        let seeds: Vec<_> = tables.iter().map(|seed| parts(seed)).collect();
        tables.retain(|seed| ["CREATE TABLE", "CREATE SEQUENCE", "INSERT"].iter().any(|start| seed.starts_with(start)));
        let mut front = Front::new(tables);
        for seed in first..first + rounds {
            println!("ERMINE_TEST_SEED={seed}");
            let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(SPREAD));
            let mut text = seeds[random.usize(..seeds.len())].clone();
            for _ in 0..random.usize(..6) {
                change(&mut text, &seeds, &mut random);
            }
            let text = text.join(" ");
            trace(&text);
            front.check(&text);
        }
        check_memory();
    });
}

/// A text around a part that is repeated many times: before, part, between, behind, after.
const LONG: &[(&str, &str, &str, &str, &str)] = &[
    ("SELECT 1", "+1", "", "", ""),
    ("SELECT 'a'", "||'a'", "", "", ""),
    ("SELECT 1", "::int", "", "", ""),
    ("SELECT ", "(", "1", ")", ""),
    ("SELECT ", "- ", "1", "", ""),
    ("SELECT ", "NOT ", "true", "", ""),
    ("SELECT 1", " IS NULL", "", "", ""),
    ("SELECT ARRAY[1]", "[1]", "", "", ""),
    ("SELECT '{}'::jsonb", " -> 'a'", "", "", ""),
    ("SELECT 'a'", " COLLATE \"C\"", "", "", ""),
    ("SELECT now()", " AT TIME ZONE 'UTC'", "", "", ""),
    ("SELECT a", ".a", "", "", ""),
    ("SELECT 1", ", 1", "", "", ""),
    ("SELECT true", " AND a = 1", "", "", " FROM t"),
    ("SELECT 1", " BETWEEN 0 AND 1", "", "", ""),
    ("SELECT ", "CASE WHEN true THEN ", "1", " END", ""),
    ("SELECT CASE", " WHEN a = 1 THEN 2", "", "", " END FROM t"),
    ("SELECT ", "coalesce(", "1", ")", ""),
    ("SELECT ", "(SELECT ", "1", ")", ""),
    ("SELECT ", "EXISTS (SELECT ", "1", ")", ""),
    ("", "EXPLAIN ", "SELECT 1", "", ""),
    ("", "IF true THEN ", "SELECT 1;", " END IF;", ""),
    ("", "CASE WHEN true THEN ", "SELECT 1;", " END CASE;", ""),
    ("", "PREPARE p AS ", "SELECT 1", "", ""),
    ("", "(", "SELECT 1", ")", ""),
    ("SELECT 1 FROM ", "(", "u", " JOIN u ON true)", ""),
    ("SELECT ", "ARRAY[", "1", "]", ""),
    ("SELECT 1 IN (1", ",1", "", "", ")"),
    ("SELECT concat(1", ",1", "", "", ")"),
    ("VALUES (1)", ",(1)", "", "", ""),
    ("VALUES (1", ",1", "", "", ")"),
    ("SELECT 1", " UNION SELECT 1", "", "", ""),
    ("SELECT 1 FROM u", ", u", "", "", ""),
    ("SELECT 1 FROM u", " CROSS JOIN u", "", "", ""),
    ("SELECT 1", ";SELECT 1", "", "", ""),
    ("SELECT 1", ";", "", "", ""),
    ("SELECT '", "[", "", "]", "'::jsonb"),
    ("SELECT '", "{", "", "}", "'::integer[]"),
    ("SELECT 'a' ~ '", "(", "a", ")", "'"),
    ("SELECT '", "9", "", "", "'::numeric * 9"),
    ("SELECT 1 FROM t ORDER BY 1", ", 1", "", "", ""),
    ("SELECT 1 FROM t GROUP BY a", ", a", "", "", ""),
    ("/*", "/*", "", "*/", "*/ SELECT 1"),
    ("", "\n", "", "", "SELECT 1"),
    ("SELECT \"", "a", "", "", "\""),
    ("SELECT $", "9", "", "", ""),
];

/// Each of them repeated, from lengths that work to lengths that cannot.
#[test]
fn deep_and_long_texts_are_answered() {
    on_a_small_stack(|| {
        let mut front = Front::new(Vec::new());
        for (before, part, between, behind, after) in LONG {
            for times in [50, 99, 390, 3900, 300_000] {
                let text = format!("{before}{}{between}{}{after}", part.repeat(times), behind.repeat(times));
                trace(&format!("{before}{part} {times}"));
                front.check(&text);
            }
        }
        check_memory();
    });
}

/// The same with names that have to differ.
#[test]
fn many_names_are_answered() {
    on_a_small_stack(|| {
        let many = |times: usize, part: &dyn Fn(usize) -> String, between: &str| {
            (0..times).map(part).collect::<Vec<_>>().join(between)
        };
        for times in [40, 350, 3000, 100_000] {
            let texts = [
                format!("SELECT 1 FROM {}", many(times, &|n| format!("u AS u{n}"), ", ")),
                format!(
                    "SELECT 1 FROM {} WHERE {}",
                    many(times, &|n| format!("u AS u{n}"), ", "),
                    many(times - 1, &|n| format!("u{n}.v = u{}.v", n + 1), " AND ")
                ),
                format!("CREATE TABLE wide ({})", many(times, &|n| format!("c{n} integer"), ", ")),
                format!(
                    "WITH c0 AS (SELECT 1), {} SELECT 1",
                    many(times, &|n| format!("c{} AS (SELECT * FROM c{n})", n + 1), ", ")
                ),
                format!("SELECT {}", many(times, &|n| format!("${}", n + 1), ", ")),
                format!("SELECT {}", many(times, &|n| format!("{n} AS c{n}"), ", ")),
            ];
            for text in texts {
                trace(&text[..40]);
                Front::new(Vec::new()).check(&text);
            }
        }
        check_memory();
    });
}

#[test]
fn what_is_too_much_says_so() {
    let engine = Database::open_in_memory(Options::default()).unwrap();
    let database = SqlDatabase::open(std::sync::Arc::new(engine)).unwrap();
    let mut session = database.session("ann", "shop");
    for (text, state) in [
        (format!("SELECT 1{}", "+1".repeat(100_000)), "54001"),
        (format!("SELECT 1{}", ", 1".repeat(1664)), "54011"),
        (format!("VALUES (1{})", ", 1".repeat(1664)), "54011"),
        ("SELECT 1;".repeat(20_000), "54001"),
        (
            format!(
                "CREATE TABLE wide (c integer{})",
                (0..1600).map(|n| format!(", c{n} integer")).collect::<String>()
            ),
            "54011",
        ),
    ] {
        let error = session.run(&text, &mut RowSet::default()).unwrap_err();
        assert_eq!(error.state().0, state, "{error}");
    }
}
