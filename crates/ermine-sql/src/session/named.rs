//! The statements that a client has prepared, by Parse of the protocol and by PREPARE: one name space, as in PostgreSQL.
//!
//! Invariants
//! 1. *A name is that of one statement*: neither Parse nor PREPARE replaces it. The unnamed statement of the protocol
//!    belongs to the connection, and is not here.
//! 2. *They belong to the session*: the end of a transaction, also its rollback, leaves them as they are.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::{Parent, Prepared, Session, now};
use crate::{
    error::{Result, SqlError, SqlState},
    system::own::ShownStatement,
};

/// A statement that a client has prepared, to run it any number of times.
pub struct ClientStatement {
    /// The statement, which may have no name, or several ones.
    pub prepared: Arc<Prepared>,
    /// The client's span that its text names.
    pub parent: Option<Parent>,
    /// Whether it took long the last time.
    was_long: AtomicBool,
}

impl ClientStatement {
    /// Returns a statement that has not run yet.
    pub fn new(prepared: Arc<Prepared>, parent: Option<Parent>) -> Self {
        Self { prepared, parent, was_long: AtomicBool::new(false) }
    }

    /// Whether it took long the last time.
    #[inline]
    pub fn was_long(&self) -> bool {
        // Relaxed, as a hint that only the session's task reads and writes.
        self.was_long.load(Ordering::Relaxed)
    }

    /// Records whether it took long.
    #[inline]
    pub fn took(&self, long: bool) {
        if long != self.was_long() {
            self.was_long.store(long, Ordering::Relaxed);
        }
    }
}

/// A statement with a name.
pub(super) struct Named {
    statement: Arc<ClientStatement>,
    /// The text that has named it.
    text: Arc<str>,
    /// Microseconds since 2000-01-01.
    prepared: i64,
    /// Whether PREPARE has named it.
    is_from_sql: bool,
}

impl Session {
    /// Returns the statement of a name.
    #[inline]
    pub fn statement(&self, name: &[u8]) -> Option<&Arc<ClientStatement>> {
        self.named.get(name).map(|named| &named.statement)
    }

    /// Fails if a statement has the name.
    pub fn check_new_statement(&self, name: &str) -> Result<()> {
        if self.named.contains_key(name.as_bytes()) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_PREPARED_STATEMENT, message));
        }
        Ok(())
    }

    /// Gives a statement of the protocol a name, which no statement has.
    pub fn name_statement(&mut self, name: &str, statement: Arc<ClientStatement>) {
        let text = statement.prepared.text.clone();
        self.add_named(name, Named { statement, text, prepared: now(), is_from_sql: false });
    }

    /// Gives the statement of a PREPARE its name, which no statement has.
    pub(super) fn name_prepared(&mut self, name: &str, prepared: Arc<Prepared>) {
        let statement = Arc::new(ClientStatement::new(prepared, None));
        let text = self.registered.presence.doing().query;
        self.add_named(name, Named { statement, text, prepared: now(), is_from_sql: true });
    }

    fn add_named(&mut self, name: &str, named: Named) {
        let replaced = self.named.insert(name.as_bytes().into(), named);
        assert!(replaced.is_none(), "a prepared statement is not replaced");
    }

    /// Removes the statement of a name; returns whether there was one.
    pub fn remove_statement(&mut self, name: &[u8]) -> bool {
        self.named.remove(name).is_some()
    }

    /// Returns the statement that EXECUTE names.
    pub(super) fn named_statement(&self, name: &str) -> Result<Arc<Prepared>> {
        self.statement(name.as_bytes()).map(|statement| statement.prepared.clone()).ok_or_else(|| not_prepared(name))
    }

    /// Returns the statements with names, for `pg_prepared_statements`.
    pub(super) fn statements(&self) -> Vec<ShownStatement> {
        let shown = self.named.iter().map(|(name, named)| ShownStatement {
            name: String::from_utf8_lossy(name).into_owned(),
            text: named.text.clone(),
            prepared: named.prepared,
            is_from_sql: named.is_from_sql,
            parameters: named.statement.prepared.parameters().to_vec(),
            columns: named.statement.prepared.columns().map(|columns| columns.iter().map(|column| column.ty).collect()),
        });
        shown.collect()
    }
}

/// Returns the error for a name that no statement has.
pub(super) fn not_prepared(name: &str) -> SqlError {
    let message = format!("prepared statement \"{name}\" does not exist");
    SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
}
