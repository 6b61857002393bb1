//! Goal: every statement behaves as in PostgreSQL.
//! Method: the files of tests/sql, in the format of sqllogictest: statements, and their results. Each file has a
//! database of its own; its connections are sessions of the database. Errors are compared by their code.
//!
//! `ERMINE_SQL=name cargo test -p ermine-sql --test all logic::` runs the files so named.

use std::{fmt, path::Path, sync::Arc};

use ermine::{Database, Options, Scheme};
use ermine_sql::{RowSet, Session, SqlDatabase, SqlError, SqlState, types::text};
use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner};

struct Connection(Session);

#[derive(Debug)]
struct Failure(SqlError);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Failure {}

impl DB for Connection {
    type Error = Failure;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<Self::ColumnType>, Self::Error> {
        let mut gathered = RowSet::default();
        self.0.run(sql, &mut gathered).map_err(Failure)?;
        let tag = gathered.tags.last().cloned().unwrap_or_default();
        if gathered.columns.is_empty() {
            let count = tag.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
            return Ok(DBOutput::StatementComplete(count));
        }
        let environment = self.0.environment();
        let shown = |(value, column): (&ermine_sql::types::Value, &ermine_sql::Column)| {
            if value.is_null() {
                return "NULL".to_owned();
            }
            let shown = text::to_string(value, column.ty, environment);
            if shown.is_empty() { "(empty)".to_owned() } else { shown }
        };
        let rows = gathered.rows.iter().map(|row| row.iter().zip(&gathered.columns).map(shown).collect()).collect();
        Ok(DBOutput::Rows { types: vec![DefaultColumnType::Any; gathered.columns.len()], rows })
    }
}

fn run(scheme: Scheme, path: &Path) {
    let engine = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
    let database = SqlDatabase::open(Arc::new(engine)).unwrap();
    let mut runner = Runner::new(|| async { Ok(Connection(database.session("tester", "test"))) });
    if let Err(error) = runner.run_file(path) {
        panic!("under {scheme}: {}", error.display(false));
    }
}

fn files() -> Vec<std::path::PathBuf> {
    let wanted = std::env::var("ERMINE_SQL").unwrap_or_default();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sql");
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.file_name().unwrap().to_string_lossy().contains(&wanted)).collect();
    files.sort();
    assert!(!files.is_empty(), "no file is called {wanted}");
    files
}

#[test]
fn files_give_what_they_say() {
    for path in files() {
        run(Scheme::SiSsn, &path);
    }
}

#[test]
fn single_version_schemes_give_the_same() {
    for path in files() {
        run(Scheme::Silo, &path);
    }
}

/// Files with one session: where transactions wait for one another, several sessions of one thread would wait for each
/// other forever.
#[test]
fn every_scheme_serves_a_session() {
    let schemes = Scheme::ALL.into_iter().filter(|&scheme| SqlDatabase::serves(scheme));
    for scheme in schemes {
        for path in files() {
            let text = std::fs::read_to_string(&path).unwrap();
            if !text.contains("connection ") {
                eprintln!("{scheme} {}", path.display());
                run(scheme, &path);
            }
        }
    }
}

/// This scheme runs one transaction at a time, but some statements need transactions of their own besides: numbers,
/// tables.
#[test]
fn serial_execution_is_refused() {
    for scheme in [Scheme::Serial, Scheme::Vll, Scheme::Partitioned] {
        let engine = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
        let refused = SqlDatabase::open(Arc::new(engine)).map(drop).unwrap_err();
        assert_eq!(refused.state(), SqlState::FEATURE_NOT_SUPPORTED, "{scheme}");
    }
}
