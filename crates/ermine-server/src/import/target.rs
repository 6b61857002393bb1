//! The database that is imported into.

use std::io::{self, BufRead, Read};

use ermine_shell::{Ends, Failure as Refusal, Local, Reply, Statements as _};
use ermine_sql::SqlDatabase;

use super::script::{Item, Script, name};
use crate::{Failure, failed};

/// A session of the target.
pub struct Target(Local);

/// The definitions of a source, tried.
#[derive(Default)]
pub struct Tried {
    pub refused: Vec<Refused>,
    /// The statements that create primary keys, in their order, without those that are refused.
    pub keys: Vec<String>,
}

/// A statement that the target refuses.
pub struct Refused {
    pub statement: String,
    pub reason: Box<Refusal>,
}

impl Target {
    pub fn new(database: &SqlDatabase) -> Self {
        Self(Local::new(database, "", "", ""))
    }

    pub fn run(&mut self, statement: &str) -> Result<(), Box<Refusal>> {
        self.copy(statement, &mut io::empty())
    }

    /// Runs a COPY with the rows that follow it.
    pub fn copy(&mut self, statement: &str, rows: &mut dyn Read) -> Result<(), Box<Refusal>> {
        self.0.run(statement, Ends { source: rows, sink: &mut io::sink() }, &mut Vec::new())
    }

    /// Returns the number of rows of a table.
    pub fn count(&mut self, table: &str) -> Result<u64, Box<Refusal>> {
        let mut replies = Vec::new();
        let text = format!("SELECT pg_catalog.count(*) FROM ONLY {table}");
        self.0.run(&text, Ends { source: &mut io::empty(), sink: &mut io::sink() }, &mut replies)?;
        let count = match replies.pop() {
            Some(Reply::Done { table: Some(table), .. }) => table.rows.concat().pop().flatten(),
            _ => None,
        };
        count
            .and_then(|count| count.parse().ok())
            .ok_or_else(|| Refusal::of_shell(format!("{text} returned no number")))
    }

    /// Tries all statements in a transaction that is rolled back, and returns what is known of them then.
    pub fn try_all(&mut self, script: &mut Script<impl BufRead>) -> Result<Tried, Failure> {
        let mut tried = Tried::default();
        self.run("BEGIN").map_err(failed)?;
        while let Some(item) = script.next().map_err(failed)? {
            let (Item::Statement(statement) | Item::Copy { statement, .. }) = item;
            self.run("SAVEPOINT before").map_err(failed)?;
            if let Err(reason) = self.run(&statement) {
                self.run("ROLLBACK TO SAVEPOINT before").map_err(failed)?;
                tried.refused.push(Refused { statement, reason });
            } else if is_primary_key(&statement) {
                tried.keys.push(statement);
            }
            self.run("RELEASE SAVEPOINT before").map_err(failed)?;
        }
        self.run("ROLLBACK").map_err(failed)?;
        Ok(tried)
    }
}

impl Refused {
    /// Whether an object of the same name exists already.
    pub fn exists(&self) -> bool {
        // Tables, schemas, functions; types, constraints and others.
        matches!(&*self.reason.state, "42P07" | "42P06" | "42723" | "42710")
    }

    /// Whether it sets a parameter that only PostgreSQL has: newer versions of `pg_dump` set more of them for its
    /// session.
    pub fn is_setting(&self) -> bool {
        self.statement.starts_with("SET ") && self.reason.state == "42704"
    }

    /// Whether the table or sequence that it uses is missing, or the schema of that.
    pub fn lacks_table(&self) -> bool {
        matches!(&*self.reason.state, "42P01" | "3F000")
    }

    /// Whether a role is missing.
    pub fn needs_role(&self) -> bool {
        self.reason.state == "42704" && self.reason.message.starts_with("role ")
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", shortened(&self.statement), self.reason)
    }
}

/// Whether a statement adds a primary key to a table.
fn is_primary_key(statement: &str) -> bool {
    let constraint =
        statement.starts_with("ALTER TABLE ").then(|| statement.split_once("\n    ADD CONSTRAINT ")).flatten();
    constraint.is_some_and(|(_, text)| text[name(text).len()..].starts_with(" PRIMARY KEY ("))
}

/// Returns the beginning of a statement, in one line.
pub fn shortened(statement: &str) -> String {
    const LENGTH: usize = 70;
    let line = statement.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.trim_end_matches(';');
    match line.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}..", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primary_keys_are_found() {
        let add = |constraint| format!("ALTER TABLE ONLY public.t\n    ADD CONSTRAINT {constraint};");
        assert!(is_primary_key(&add("t_pkey PRIMARY KEY (id)")));
        assert!(is_primary_key(&add("\"the key\" PRIMARY KEY (a, b) DEFERRABLE")));
        assert!(!is_primary_key(&add("\"a PRIMARY KEY (b)\" UNIQUE (c)")));
        assert!(!is_primary_key("CREATE TABLE t (\n    a int PRIMARY KEY (a)\n);"));
    }

    #[test]
    fn statements_are_shortened() {
        assert_eq!(shortened("CREATE TABLE t (\n    a integer\n);"), "CREATE TABLE t ( a integer )");
        assert_eq!(shortened(&"ä".repeat(80)), format!("{}..", "ä".repeat(70)));
    }
}
