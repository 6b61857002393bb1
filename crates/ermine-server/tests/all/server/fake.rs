//! A backend without tables: a few statements, each of which causes one situation that a server can meet.

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use ermine_server::backend::{Backend, Fetched, Opening, Session, Statement};
use ermine_sql::{
    Column, Completion, Parent, Result, RowSink, SqlError, SqlState, Status,
    types::{Environment, Scalar, SqlType, Value},
    verifier::Verifier,
};

pub const INT4: SqlType = SqlType { scalar: Scalar::Int4, is_array: false };
pub const TEXT: SqlType = SqlType { scalar: Scalar::Text, is_array: false };

/// Counts of events in all sessions.
#[derive(Default)]
pub struct Counts {
    pub sessions: AtomicUsize,
    pub inserted: AtomicUsize,
    pub committed: AtomicUsize,
    pub rows: AtomicUsize,
    /// Statements that take their time and have begun.
    pub long: AtomicUsize,
}

/// A database, and a table in it.
pub type Durable = (Arc<ermine::Database>, Arc<ermine::Table<u64, u64>>);

#[derive(Clone, Default)]
pub struct Fake {
    pub counts: Arc<Counts>,
    /// Whether statements always step aside.
    pub waits: bool,
    /// The database in which commits have to become durable.
    pub database: Option<Durable>,
    /// The users who may log in.
    pub users: HashMap<String, Verifier>,
}

pub struct FakeSession {
    backend: Fake,
    environment: Environment,
    cancel: Arc<AtomicBool>,
    settings: Vec<(String, String)>,
    status: Status,
    /// Rows inserted since the transaction began.
    pending: usize,
    process: i32,
    pause: fn(),
    /// Statements with names.
    named: HashMap<Vec<u8>, Arc<FakeStatement>>,
}

/// `SELECT a, 'b', $1`, `ROWS n`, `POINT $1`, `INSERT`, `FAIL`, `SLEEP ms`, which is known to be long where it is
/// prepared, `SPIN ms`, which pauses, `SET a = b`, `NOTICE a`, `PANIC`, and those of transactions.
pub struct FakeStatement {
    words: Vec<String>,
    parameters: Vec<SqlType>,
    columns: Option<Vec<Column>>,
    was_long: AtomicBool,
}

pub struct FakePortal {
    statement: Arc<FakeStatement>,
    parameters: Vec<Value>,
    next: usize,
}

impl Backend for Fake {
    type Session = FakeSession;

    fn session(&self, opening: &Opening<'_>) -> Result<FakeSession> {
        if opening.database == "nowhere" {
            return Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, "there is no such database"));
        }
        self.counts.sessions.fetch_add(1, Ordering::Relaxed);
        Ok(FakeSession {
            backend: self.clone(),
            environment: environment(opening.user),
            cancel: Arc::default(),
            settings: opening.settings.to_vec(),
            status: Status::Idle,
            pending: 0,
            process: opening.process,
            pause: opening.pause,
            named: HashMap::new(),
        })
    }

    fn has_passwords(&self) -> bool {
        !self.users.is_empty()
    }

    fn verifier(&self, user: &str) -> Option<Verifier> {
        self.users.get(user).cloned()
    }

    fn is_superuser(&self, user: &str) -> bool {
        user == "root"
    }

    fn is_member(&self, user: &str, role: &str) -> bool {
        self.users.contains_key(user) && user == role
    }

    fn secret(&self) -> &[u8] {
        b"of this test"
    }

    fn waits(&self) -> bool {
        self.waits
    }
}

fn environment(user: &str) -> Environment {
    Environment { user: user.into(), database: "fake".into(), ..Environment::default() }
}

impl Statement for FakeStatement {
    fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    fn parameters(&self) -> &[SqlType] {
        &self.parameters
    }

    fn columns(&self) -> Option<&[Column]> {
        self.columns.as_deref()
    }

    fn is_long(&self) -> bool {
        self.words[0] == "SLEEP" || self.was_long.load(Ordering::Relaxed)
    }

    fn took(&self, long: bool) {
        self.was_long.store(long, Ordering::Relaxed);
    }
}

fn column(name: impl Into<String>, ty: SqlType) -> Column {
    Column::new(name, ty)
}

fn parse(text: &str, given: &[Option<SqlType>]) -> Result<FakeStatement> {
    let words: Vec<String> = text
        .trim()
        .trim_end_matches(';')
        .split([' ', ','])
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    let count = words.iter().filter(|word| word.starts_with('$')).count();
    let parameters: Vec<SqlType> =
        (0..count).map(|index| given.get(index).copied().flatten().unwrap_or(INT4)).collect();
    let columns = match words.first().map_or("", |word| word) {
        "" => None,
        "SELECT" => Some(
            (words[1..].iter().zip(0..))
                .map(|(word, index)| match word.strip_prefix('$') {
                    Some(number) => column("?column?", parameters[number.parse::<usize>().unwrap() - 1]),
                    None if word.starts_with('\'') => column(format!("t{index}"), TEXT),
                    None => column(format!("i{index}"), INT4),
                })
                .collect(),
        ),
        "ROWS" | "POINT" => Some(vec![column("i", INT4), column("t", TEXT)]),
        "SHOW" => Some(vec![column(&words[1], TEXT)]),
        "INSERT" | "FAIL" | "SLEEP" | "SET" | "NOTICE" | "PANIC" | "BEGIN" | "COMMIT" | "ROLLBACK" | "COPY"
        | "START" | "SPIN" => None,
        word => return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at \"{word}\"")).at(Some(1))),
    };
    Ok(FakeStatement { words, parameters, columns, was_long: AtomicBool::new(false) })
}

impl Session for FakeSession {
    type Statement = FakeStatement;
    type Portal = FakePortal;

    fn simple_query(&mut self, text: &str, rows: &mut dyn RowSink) -> Result<Completion> {
        let done = (|| {
            for statement in text.split(';').filter(|statement| !statement.trim().is_empty()) {
                let mut portal =
                    FakePortal { statement: Arc::new(parse(statement, &[])?), parameters: Vec::new(), next: 0 };
                let _ = self.execute(&mut portal, None, false, rows)?;
            }
            Ok(())
        })();
        match done {
            Ok(()) => self.sync(),
            Err(error) => {
                self.fail();
                Err(error)
            }
        }
    }

    fn prepare(
        &mut self,
        text: &str,
        parameters: &[Option<SqlType>],
        _parent: Option<Parent>,
    ) -> Result<Arc<FakeStatement>> {
        parse(text, parameters).map(Arc::new)
    }

    fn check_new_statement(&self, name: &str) -> Result<()> {
        match self.named.contains_key(name.as_bytes()) {
            true => Err(SqlError::new(SqlState::DUPLICATE_PREPARED_STATEMENT, "it exists")),
            false => Ok(()),
        }
    }

    fn name_statement(&mut self, name: &str, statement: Arc<FakeStatement>) {
        self.named.insert(name.into(), statement);
    }

    fn statement(&self, name: &[u8]) -> Option<&Arc<FakeStatement>> {
        self.named.get(name)
    }

    fn remove_statement(&mut self, name: &[u8]) {
        self.named.remove(name);
    }

    fn bind(&mut self, statement: &Arc<FakeStatement>, parameters: Vec<Value>) -> Result<FakePortal> {
        let statement = statement.clone();
        Ok(FakePortal { statement, parameters, next: 0 })
    }

    fn execute(
        &mut self,
        portal: &mut FakePortal,
        limit: Option<NonZeroU32>,
        _last: bool,
        rows: &mut dyn RowSink,
    ) -> Result<Fetched> {
        let FakePortal { statement, parameters, next } = portal;
        let words: Vec<&str> = statement.words.iter().map(|word| &**word).collect();
        if self.status == Status::Failed && !matches!(words[0], "ROLLBACK" | "COMMIT") {
            let what = "current transaction is aborted, commands ignored until end of transaction block";
            return Err(SqlError::new(SqlState::IN_FAILED_SQL_TRANSACTION, what));
        }
        if let Some(columns) = &statement.columns {
            rows.columns(columns)?;
        }
        match *words {
            ["POINT", ..] => {
                rows.row(&[parameters[0].clone(), Value::Text("0123456789".into())])?;
                rows.complete("SELECT 1")?;
            }
            ["SELECT", ref words @ ..] => {
                let values = words.iter().map(|word| match word.strip_prefix('$') {
                    Some(number) => parameters[number.parse::<usize>().unwrap() - 1].clone(),
                    None if *word == "null" => Value::Null,
                    None if *word == "pid" => Value::Int4(self.process),
                    None if word.starts_with('\'') => Value::Text(word.trim_matches('\'').into()),
                    None => Value::Int4(word.parse().unwrap_or(-1)),
                });
                rows.row(&values.collect::<Vec<_>>())?;
                rows.complete("SELECT 1")?;
            }
            ["ROWS", count] => {
                let (first, count): (usize, usize) = (*next, count.parse().unwrap());
                let end = limit.map_or(count, |limit| count.min(first + limit.get() as usize));
                for index in first..end {
                    self.check()?;
                    self.backend.counts.rows.fetch_add(1, Ordering::Relaxed);
                    rows.row(&[Value::Int4(index as i32), Value::Text("x".repeat(100).into())])?;
                }
                *next = end;
                if limit.is_some_and(|limit| end - first == limit.get() as usize) {
                    return Ok(Fetched::Suspended);
                }
                rows.complete(&format!("SELECT {}", end - first))?;
            }
            ["SHOW", name] => {
                let value = self.setting(name).unwrap_or_default();
                rows.row(&[Value::Text(value.into())])?;
                rows.complete("SHOW")?;
            }
            ["INSERT"] => {
                self.pending += 1;
                rows.complete("INSERT 0 1")?;
            }
            ["FAIL"] => return Err(SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero").hint("Do not.")),
            ["SLEEP", milliseconds] => {
                self.backend.counts.long.fetch_add(1, Ordering::Relaxed);
                let end = Instant::now() + Duration::from_millis(milliseconds.parse().unwrap());
                while Instant::now() < end {
                    self.check()?;
                    thread::sleep(Duration::from_millis(1));
                }
                rows.complete("SLEEP")?;
            }
            ["SPIN", milliseconds] => {
                self.backend.counts.long.fetch_add(1, Ordering::Relaxed);
                let end = Instant::now() + Duration::from_millis(milliseconds.parse().unwrap());
                while Instant::now() < end {
                    self.check()?;
                    thread::sleep(Duration::from_micros(100));
                    (self.pause)();
                }
                rows.complete("SPIN")?;
            }
            ["SET", name, "=", value] => {
                self.settings.retain(|(known, _)| known != name);
                self.settings.push((name.into(), value.into()));
                rows.complete("SET")?;
            }
            ["NOTICE", what] => {
                rows.notice("NOTICE", &SqlError::new(SqlState("00000"), what));
                rows.complete("NOTICE")?;
            }
            ["PANIC"] => panic!("as asked for"),
            ["COPY", ..] => return Err(SqlError::unsupported("COPY")),
            ["BEGIN" | "START", ..] => {
                self.status = Status::Open;
                rows.complete("BEGIN")?;
            }
            ["COMMIT" | "ROLLBACK"] => {
                let commits = words[0] == "COMMIT" && self.status != Status::Failed;
                self.status = Status::Idle;
                rows.complete(if commits { "COMMIT" } else { "ROLLBACK" })?;
                if !commits {
                    self.pending = 0;
                }
                return Ok(Fetched::Complete(self.sync()?));
            }
            _ => return Err(SqlError::unsupported(words.join(" "))),
        }
        Ok(Fetched::Complete(Completion::default()))
    }

    fn sync(&mut self) -> Result<Completion> {
        let mut completion = Completion::default();
        if self.status == Status::Idle && self.pending > 0 {
            self.backend.counts.inserted.fetch_add(std::mem::take(&mut self.pending), Ordering::Relaxed);
            self.backend.counts.committed.fetch_add(1, Ordering::Relaxed);
            if let Some((database, table)) = &self.backend.database {
                let transaction = database.begin_owned(ermine::TxnOptions::default()).unwrap();
                transaction.put(table, &1, &1).unwrap();
                completion.receipt = Some(transaction.commit_async().unwrap());
            }
        }
        Ok(completion)
    }

    fn fail(&mut self) {
        self.pending = 0;
        if self.status == Status::Open {
            self.status = Status::Failed;
        }
    }

    fn status(&self) -> Status {
        self.status
    }

    fn cancel(&self) -> Arc<AtomicBool> {
        self.cancel.clone()
    }

    fn setting(&self, name: &str) -> Option<String> {
        self.settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    fn environment(&self) -> Environment {
        self.environment.clone()
    }

    fn silence_max(&self) -> Option<Duration> {
        self.setting("idle_in_transaction_session_timeout")?.parse().ok().map(Duration::from_millis)
    }
}

impl FakeSession {
    fn check(&self) -> Result<()> {
        if self.cancel.load(Ordering::Acquire) {
            return Err(SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request"));
        }
        Ok(())
    }
}
