//! Compares the results of statements with those of a PostgreSQL server: random statements over random schemas, the
//! same in both.
//!
//! ```text
//! compare --ours 'host=.. port=.. user=..' --theirs '..' [--seed N] [--statements N] [--shown N]
//! ```
//!
//! Statements come in rounds of 100, each with a schema of its own, made from a seed of its own. A round that disagrees
//! prints its seed; `--seed` with it and `--statements 100` repeats that round. (The seed of round n is the first one
//! plus n.)
//!
//! Compared are names and types of columns, rows (in their order where the statement orders them completely), tags,
//! codes of errors, and for violated constraints also the names of schema, table, column and constraint. The effect of
//! a statement is compared by reading its table, within a transaction that is rolled back where the two differ, so that
//! one difference does not cause others. Some statements have parameters, whose types both systems have to infer alike,
//! and whose results are fetched in binary.
//!
//! A statement that Ermine does not support (0A000) is counted separately, and the missing features are listed.
//! Permitted differences are counted separately: which error comes first where several rows fail, or where a text has a
//! mistake in its syntax and another one; the last digits of aggregates of floats, violations of unique constraints by
//! updates of several rows, and which of several equal values is kept, which depend on the order of the rows; a query
//! with several rows (21000) in a named query, which a condition on that may keep from being evaluated; errors of
//! values (22) where an expression of another type is cast, which depend on the rows that a plan evaluates, and those
//! of stable expressions that PostgreSQL evaluates for its estimates where there are no rows; a query in FROM without a
//! name; a parameter under COLLATE in a side of a set operation; averages of floats whose squares overflow; the rows
//! that a limit keeps where a word of ORDER BY was left out. Everything else has to agree, or the exit status is 1.

mod generate;
mod run;
mod templates;

use std::{collections::BTreeMap, env, process::ExitCode};

use generate::{Generator, Kind, Order};
use run::{Outcome, Server};

/// Statements of a round.
const ROUND: u64 = 100;

#[derive(Default)]
struct Counts {
    statements: u64,
    rows: u64,
    errors: u64,
    missing: BTreeMap<String, u64>,
    /// Both failed, on values, and in different ways.
    in_other_ways: u64,
    differences: BTreeMap<String, u64>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let option = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let number = |name: &str, default: u64| option(name).map_or(default, |text| text.parse().expect("a number"));
    let (Some(ours), Some(theirs)) = (option("--ours"), option("--theirs")) else {
        eprintln!("compare --ours CONNECTION --theirs CONNECTION [--seed N] [--statements N] [--shown N]");
        return ExitCode::from(2);
    };
    let seed = number("--seed", fastrand::u64(..1_000_000_000));
    let (statements, shown) = (number("--statements", 10_000), number("--shown", 3));
    println!("seed {seed}, {statements} statements");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let counts = runtime.block_on(compare(&ours, &theirs, seed, statements, shown));
    println!(
        "\n{} statements: {} rows agree, {} errors agree, {} failed in both on other rows first",
        counts.statements, counts.rows, counts.errors, counts.in_other_ways
    );
    let missing: u64 = counts.missing.values().sum();
    println!("{missing} are not there (0A000):");
    let mut all: Vec<_> = counts.missing.iter().collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    all.iter().take(25).for_each(|(what, count)| println!("  {count:>6} {what}"));
    let differences: u64 = counts.differences.values().sum();
    println!("{differences} differences:");
    counts.differences.iter().for_each(|(what, count)| println!("  {count:>6} {what}"));
    if differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn compare(ours: &str, theirs: &str, first: u64, statements: u64, shown: u64) -> Counts {
    let (mut ours, mut theirs) = (Server::connect(ours).await, Server::connect(theirs).await);
    // A plan of ours is for all values of its parameters. PostgreSQL makes one for the values it is given, as long as
    // it finds that cheaper, and takes these for constants: what fails in them then fails before any row, and a NULL
    // drops what stands beside it.
    theirs.simple("set plan_cache_mode = force_generic_plan").await;
    let mut counts = Counts::default();
    for round in 0..statements.div_ceil(ROUND) {
        let seed = first + round;
        let mut generator = Generator::new(seed);
        let zone = ["UTC", "Europe/Berlin", "America/New_York"][(seed % 3) as usize];
        let mut setup = vec![
            "drop schema if exists compare cascade".to_owned(),
            "create schema compare".to_owned(),
            "set search_path = compare".to_owned(),
            format!("set timezone = '{zone}'"),
        ];
        setup.extend(generator.schema());
        for text in setup {
            let (one, other) = (ours.simple(&text).await, theirs.simple(&text).await);
            if !note(&mut counts, seed, shown, &text, &one, &other, Order::default()) && !text.starts_with("insert") {
                eprintln!("round {seed}: the schema is not the same in both");
            }
        }
        for _ in 0..ROUND.min(statements - round * ROUND) {
            let statement = generator.statement();
            counts.statements += 1;
            let is_change = matches!(statement.kind, Kind::Change(_));
            if is_change {
                let _ = (ours.simple("begin").await, theirs.simple("begin").await);
            }
            let with_parameters = !statement.parameters.is_empty() || statement.text.len().is_multiple_of(7);
            let (one, other) = match with_parameters {
                true => {
                    let parameters = &statement.parameters;
                    (
                        ours.extended(&statement.text, parameters).await,
                        theirs.extended(&statement.text, parameters).await,
                    )
                }
                false => (ours.simple(&statement.text).await, theirs.simple(&statement.text).await),
            };
            let mut agrees = note(&mut counts, seed, shown, &statement.text, &one, &other, statement.order);
            if let Kind::Change(table) = statement.kind {
                if agrees && matches!(one, Outcome::Rows { .. }) {
                    let text = format!("select * from {}", generator.tables[table].name);
                    let (one, other) = (ours.simple(&text).await, theirs.simple(&text).await);
                    let what = format!("{} ; {text}", statement.text);
                    agrees = note(&mut counts, seed, shown, &what, &one, &other, Order::default());
                }
                let end = if agrees { "commit" } else { "rollback" };
                let _ = (ours.simple(end).await, theirs.simple(end).await);
            }
        }
        if (round + 1).is_multiple_of(50) {
            let differences: u64 = counts.differences.values().sum();
            println!("{} statements, {differences} differences", counts.statements);
        }
    }
    counts
}

/// Returns the length of an interval, in which a month has 30 days and a day 24 hours, of its text.
fn interval_length(text: &str) -> Option<i128> {
    const DAY: i128 = 86_400_000_000;
    let (mut length, mut words) = (0, text.split(' '));
    while let Some(word) = words.next() {
        if let Some((hours, rest)) = word.split_once(':') {
            let (minutes, seconds) = rest.split_once(':')?;
            let micros = (seconds.parse::<f64>().ok()? * 1e6).round() as i128;
            let time =
                hours.trim_start_matches(['-', '+']).parse::<i128>().ok()? * 60 + minutes.parse::<i128>().ok()?;
            let time = time * 60_000_000 + micros;
            length += if word.starts_with('-') { -time } else { time };
        } else {
            let days = match words.next()? {
                "year" | "years" => 360,
                "mon" | "mons" => 30,
                "day" | "days" => 1,
                _ => return None,
            };
            length += word.parse::<i128>().ok()? * days * DAY;
        }
    }
    Some(length)
}

/// Returns values in a form that is the same for equal ones: blanks at the end of `char(n)`, zeros at the end of
/// `numeric`, the sign of a zero and the units of an interval do not count in comparisons, so such values come in any
/// order, and DISTINCT keeps any of them. Values are texts (type 0) or in binary.
fn as_compared(columns: &[(String, u32)], rows: &[Vec<Option<Vec<u8>>>]) -> Vec<Vec<Option<Vec<u8>>>> {
    const FLOAT4: u32 = 700;
    const FLOAT8: u32 = 701;
    const INTERVAL: u32 = 1186;
    const NUMERIC: u32 = 1700;
    let normal = |ty: u32, value: &[u8]| match ty {
        0 => {
            let text = value.trim_ascii_end();
            let is_number = !text.is_empty() && text.iter().all(|byte| byte.is_ascii_digit() || b"-.".contains(byte));
            let kept = text.iter().rposition(|byte| *byte != b'0').map_or(0, |at| at + 1);
            match text {
                b"-0" => b"0".to_vec(),
                text if is_number && text.contains(&b'.') => {
                    text[..kept].strip_suffix(b".").unwrap_or(&text[..kept]).to_vec()
                }
                text => match std::str::from_utf8(text).ok().and_then(interval_length) {
                    Some(length) => length.to_string().into_bytes(),
                    None => text.to_vec(),
                },
            }
        }
        INTERVAL if value.len() == 16 => {
            let micros = i64::from_be_bytes(value[..8].try_into().expect("eight bytes"));
            let days = i32::from_be_bytes(value[8..12].try_into().expect("four bytes"));
            let months = i32::from_be_bytes(value[12..].try_into().expect("four bytes"));
            let days = i128::from(days) + 30 * i128::from(months);
            (i128::from(micros) + days * 86_400_000_000).to_be_bytes().to_vec()
        }
        // The third of four numbers of two bytes is the sign, the fourth that of digits shown.
        NUMERIC if value.len() >= 8 => [&value[..6], &value[8..]].concat(),
        FLOAT4 | FLOAT8 if value[1..].iter().all(|byte| *byte == 0) => vec![value[0] & 0x7f],
        _ => value.trim_ascii_end().to_vec(),
    };
    let row = |row: &Vec<Option<Vec<u8>>>| {
        let columns = &columns[columns.len() - row.len()..];
        row.iter().zip(columns).map(|(value, (_, ty))| value.as_deref().map(|value| normal(*ty, value))).collect()
    };
    rows.iter().map(row).collect()
}

/// Whether a statement keeps one of several equal values, or of several rows that are equal in its order.
fn keeps_one(text: &str) -> bool {
    ["distinct", "union", "intersect", "except", "group by", "limit", "offset", "fetch", "max(", "min("]
        .iter()
        .any(|word| text.contains(word))
}

/// Whether each of two errors may come first. Of several failing rows, each system may evaluate another one first; of
/// several mistakes in a text, each may meet another one first. Of the syntax are also an operator that stands twice,
/// of which PostgreSQL takes the second for a prefix operator that does not exist, and a literal behind a name with a
/// dot, which it takes for a type in a schema (3F000). What it accepts so in a text with a word left out or repeated it
/// refuses later than values. In a text that is no interval for two reasons, PostgreSQL may meet an overflow first.
fn either_may_be_first(text: &str, one: &str, other: &str, order: Order) -> bool {
    let is_of_values = |code: &str| ["22", "23", "0A"].iter().any(|class| code.starts_with(class));
    let is_of_syntax = |code: &str| matches!(code, "42601" | "3F000");
    let is_of_text = |code: &str| code.starts_with("42") || is_of_syntax(code);
    let words: Vec<_> = text.split_whitespace().collect();
    let is_sign = |sign| "+-*/<>=~!@#%^&|`?".contains(sign);
    let is_twice = |pair: &[&str]| pair[0] == pair[1] && pair[0].chars().all(is_sign);
    order.reads_rows && is_of_values(one) && is_of_values(other)
        || (is_of_syntax(one) || is_of_syntax(other)) && is_of_text(one) && is_of_text(other)
        || (is_of_syntax(one) || one == "42883") && words.windows(2).any(is_twice)
        || is_of_syntax(one) && order.is_garbled && is_of_values(other)
        || text.contains("interval") && matches!((one, other), ("22007", "22015") | ("22015", "22007"))
}

/// Whether a statement keeps a part of its rows.
fn is_cut(text: &str) -> bool {
    [" limit ", " offset ", " fetch "].iter().any(|clause| text.contains(clause))
}

/// Whether a statement has an aggregate whose last digits depend on the order of the rows.
fn adds_floats(text: &str) -> bool {
    ["sum(", "avg(", "stddev", "variance", "var_", "corr(", "covar", "regr_"].iter().any(|name| text.contains(name))
}

/// Whether two values of a type are equal, or floats that differ in their last digits only. The type of a text is 0.
fn is_as_good(ty: u32, one: Option<&Vec<u8>>, other: Option<&Vec<u8>>) -> bool {
    const FLOAT8: u32 = 701;
    let float = |value: &Vec<u8>| match ty {
        0 => std::str::from_utf8(value).ok()?.parse::<f64>().ok(),
        FLOAT8 => <[u8; 8]>::try_from(&value[..]).ok().map(f64::from_be_bytes),
        _ => None,
    };
    one == other
        || match (one.and_then(float), other.and_then(float)) {
            (Some(one), Some(other)) => (one - other).abs() <= 1e-12 * one.abs().max(other.abs()),
            _ => false,
        }
}

/// Whether all values are equal up to the last digits of floats. Parameters come before the columns.
fn all_as_good(columns: &[(String, u32)], rows: &[Vec<Option<Vec<u8>>>], others: &[Vec<Option<Vec<u8>>>]) -> bool {
    rows.iter().zip(others).all(|(row, other)| {
        let columns = &columns[columns.len() - row.len()..];
        let values = row.iter().zip(other).zip(columns);
        values.into_iter().all(|((one, other), (_, ty))| is_as_good(*ty, one.as_ref(), other.as_ref()))
    })
}

/// Counts the outcomes of a statement; returns whether they agree.
fn note(
    counts: &mut Counts,
    seed: u64,
    shown: u64,
    text: &str,
    ours: &Outcome,
    theirs: &Outcome,
    order: Order,
) -> bool {
    let difference = match (ours, theirs) {
        (Outcome::Error { code, message, .. }, Outcome::Error { code: other, .. })
            if code == "0A000" && other != "0A000" =>
        {
            *counts.missing.entry(message.clone()).or_default() += 1;
            return false;
        }
        (Outcome::Error { code, message, .. }, Outcome::Rows { .. }) if code == "0A000" => {
            *counts.missing.entry(message.clone()).or_default() += 1;
            return false;
        }
        (Outcome::Error { code, about, .. }, Outcome::Error { code: other, about: other_about, .. }) => {
            if code == other && about == other_about {
                counts.errors += 1;
                return true;
            }
            if code != other && either_may_be_first(text, code, other, order) {
                counts.in_other_ways += 1;
                return false;
            }
            if code == other { "other names in an error".to_owned() } else { format!("{code} instead of {other}") }
        }
        // Each row is checked as it is written, so the order of rows, which nothing determines, decides.
        (Outcome::Error { code, .. }, Outcome::Rows { .. }) | (Outcome::Rows { .. }, Outcome::Error { code, .. })
            if code == "23505" && text.starts_with("update") =>
        {
            counts.in_other_ways += 1;
            return false;
        }
        // The plan decides about the rows on which a cast that does not fit is evaluated.
        (Outcome::Error { code, .. }, Outcome::Rows { .. }) | (Outcome::Rows { .. }, Outcome::Error { code, .. })
            if order.casts_rows && code.starts_with("22") =>
        {
            counts.in_other_ways += 1;
            return false;
        }
        // A query with several rows fails only where the plan evaluates it: a condition on a named query may come
        // first.
        (Outcome::Error { code, .. }, Outcome::Rows { .. }) | (Outcome::Rows { .. }, Outcome::Error { code, .. })
            if code == "21000" && text.starts_with("with ") =>
        {
            counts.in_other_ways += 1;
            return false;
        }
        // PostgreSQL 16 accepts it.
        (_, Outcome::Error { message, .. })
            if message == "subquery in FROM must have an alias" && !ours.is_internal_error() =>
        {
            counts.in_other_ways += 1;
            return false;
        }
        // PostgreSQL has full joins only with equalities.
        (Outcome::Rows { .. }, Outcome::Error { message, .. })
            if message.starts_with("FULL JOIN is only supported") =>
        {
            counts.in_other_ways += 1;
            return false;
        }
        // PostgreSQL squares what an average of floats is made of.
        (Outcome::Rows { .. }, Outcome::Error { code, message, .. })
            if code == "22003" && message == "value out of range: overflow" && text.contains("avg(") =>
        {
            counts.in_other_ways += 1;
            return false;
        }
        // PostgreSQL gives no type to a parameter under COLLATE in a side of a set operation.
        (Outcome::Rows { .. }, Outcome::Error { code, .. })
            if code == "42P18"
                && text.contains(" collate ")
                && [" union ", " intersect ", " except "].iter().any(|word| text.contains(word)) =>
        {
            counts.in_other_ways += 1;
            return false;
        }
        // To estimate a condition, PostgreSQL's planner evaluates stable expressions that no row may need.
        (Outcome::Rows { tag: 0, .. }, Outcome::Error { code, .. })
            if order.reads_rows && code.starts_with("22") && text.contains(" where ") =>
        {
            counts.in_other_ways += 1;
            return false;
        }
        (Outcome::Error { code, .. }, Outcome::Rows { .. }) => format!("{code} instead of rows"),
        (Outcome::Rows { .. }, Outcome::Error { code, .. }) => format!("rows instead of {code}"),
        (
            Outcome::Rows { columns, rows, tag },
            Outcome::Rows { columns: other_columns, rows: others, tag: other_tag },
        ) => {
            let sorted = |rows: &Vec<Vec<Option<Vec<u8>>>>| {
                let mut rows = rows.clone();
                rows.sort();
                rows
            };
            if columns != other_columns {
                "other columns".to_owned()
            } else if tag != other_tag {
                "another number of rows".to_owned()
            } else if sorted(rows) != sorted(others) {
                if adds_floats(text) && all_as_good(columns, &sorted(rows), &sorted(others)) {
                    counts.in_other_ways += 1;
                    return true;
                }
                let (equal, other_equal) = (as_compared(columns, rows), as_compared(columns, others));
                if keeps_one(text) && sorted(&equal) == sorted(&other_equal) {
                    counts.rows += rows.len() as u64;
                    return true;
                }
                // PostgreSQL 15 takes infinity for a date.
                if text.contains("age(") && text.contains("infinity") {
                    counts.in_other_ways += 1;
                    return false;
                }
                if order.is_broken && is_cut(text) {
                    counts.in_other_ways += 1;
                    return true;
                }
                "other rows".to_owned()
            } else if order.is_total && !order.is_broken && as_compared(columns, rows) != as_compared(columns, others) {
                "rows in another order".to_owned()
            } else {
                counts.rows += rows.len() as u64;
                return true;
            }
        }
    };
    let count = counts.differences.entry(difference.clone()).or_default();
    *count += 1;
    if *count <= shown {
        println!("\nround {seed}: {difference}\n  {text}\n  ours:   {ours}\n  theirs: {theirs}");
    }
    false
}
