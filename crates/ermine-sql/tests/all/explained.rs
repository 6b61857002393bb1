//! Goal: what EXPLAIN shows of a plan are conditions and keys of SQL.
//! Method: the statements of tests/sql are explained before they are run, each where its tables are, and every condition
//! and key is parsed again, as a part of a query of a table that does not exist.

use std::{collections::HashMap, path::Path, sync::Arc};

use ermine::{Database, Options};
use ermine_sql::{RowSet, Session, SqlDatabase, SqlState, Status, types::Value};
use sqllogictest::{Connection, DefaultColumnType, Record};

/// The lines of a plan that have conditions or keys, and the queries in which these can stand.
const LINES: [(&str, &str, &str); 7] = [
    ("Filter: ", "SELECT ", " FROM nowhere"),
    ("Join Filter: ", "SELECT ", " FROM nowhere"),
    ("Index Cond: ", "SELECT ", " FROM nowhere"),
    ("Hash Cond: ", "SELECT ", " FROM nowhere"),
    ("One-Time Filter: ", "SELECT ", " FROM nowhere"),
    ("Group Key: ", "SELECT FROM nowhere GROUP BY ", ""),
    ("Sort Key: ", "SELECT FROM nowhere ORDER BY ", ""),
];

/// Puts queries into the places of plans of queries.
fn with_queries(text: &str) -> String {
    let mut text = text.to_owned();
    for kind in ["(SubPlan ", "(InitPlan "] {
        while let Some(start) = text.find(kind) {
            let end = start + text[start..].find(')').unwrap();
            text.replace_range(start..=end, "(SELECT 1)");
        }
    }
    text
}

/// Explains a statement, and returns the number of conditions and keys, and those that cannot be parsed.
fn check(session: &mut Session, checker: &mut Session, statement: &str) -> (usize, Vec<String>) {
    let mut rows = RowSet::default();
    // Many are there to fail.
    if session.run(&format!("EXPLAIN {statement}"), &mut rows).is_err() {
        return (0, Vec::new());
    }
    let (mut seen, mut wrong) = (0, Vec::new());
    for row in &rows.rows {
        let Value::Text(line) = &row[0] else { panic!("a line of EXPLAIN is a text") };
        let line = line.trim_start();
        for (name, before, behind) in LINES {
            let Some(text) = line.strip_prefix(name) else { continue };
            seen += 1;
            let query = format!("PREPARE it AS {before}{}{behind}", with_queries(text));
            let refused = checker.run(&query, &mut RowSet::default()).unwrap_err();
            if refused.state() != SqlState::UNDEFINED_TABLE || text.contains("?column?") {
                wrong.push(format!("{line}\n   of {statement}\n   {refused}"));
            }
        }
    }
    (seen, wrong)
}

#[test]
fn conditions_and_keys_are_sql() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sql");
    let (mut seen, mut wrong) = (0, Vec::new());
    for file in std::fs::read_dir(directory).unwrap() {
        let database = SqlDatabase::open(Arc::new(Database::open_in_memory(Options::default()).unwrap())).unwrap();
        let mut checker = database.session("tester", "test");
        let mut sessions: HashMap<String, Session> = HashMap::new();
        for record in sqllogictest::parse_file::<DefaultColumnType>(file.unwrap().path()).unwrap() {
            let (statement, connection) = match record {
                Record::Statement { sql, connection, .. } | Record::Query { sql, connection, .. } => (sql, connection),
                _ => continue,
            };
            let name = match connection {
                Connection::Named(name) => name,
                Connection::Default => String::new(),
            };
            let session = sessions.entry(name).or_insert_with(|| database.session("tester", "test"));
            let word = statement.split_whitespace().next().unwrap_or_default().to_uppercase();
            let is_explained =
                ["SELECT", "WITH", "VALUES", "INSERT", "UPDATE", "DELETE", "MERGE", "TABLE"].contains(&&*word);
            // An error would end a block of statements.
            if is_explained && !statement.contains(';') && session.status() == Status::Idle {
                let (more, found) = check(session, &mut checker, &statement);
                seen += more;
                wrong.extend(found);
            }
            // The results are those of `logic`.
            let _ = session.run(&statement, &mut RowSet::default());
        }
    }
    assert!(wrong.is_empty(), "{} of {seen}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(seen > 1000, "{seen} conditions and keys");
}
