//! The SQL layer as a backend: all code of the server that depends on [`ermine_sql::Session`].
//!
//! The layer passes rows to its caller without stopping. So a portal that is fetched in parts is run to its end at the
//! first fetch, and the rest of its rows is kept ([`RowBuffer`]): up to `work_mem` in memory, where it counts against
//! the database's, the others in a temporary file.

use std::{
    num::NonZeroU32,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use crate::backend::{Backend, Fetched, Opening, Session, Statement};
use ermine_sql::{
    ClientStatement, Column, Completion, Effort, Held, Notification, Parent, Result, RowBuffer, RowSink, SqlDatabase,
    SqlError, SqlState, Status, WaitEvents,
    logical::ChangeStream,
    types::{Environment, SqlType, Value, user_types::UserTypes},
    verifier::Verifier,
};

/// A database with the tables of SQL.
pub struct SqlBackend {
    database: SqlDatabase,
    waits: bool,
}

impl SqlBackend {
    /// `waits` says whether transactions wait for one another ([`ermine::Scheme::waits`]).
    pub fn new(database: SqlDatabase, waits: bool) -> Self {
        Self { database, waits }
    }
}

/// A client's session.
pub struct SqlSession(ermine_sql::Session);

/// A statement with its parameters.
pub struct SqlPortal {
    statement: Arc<ClientStatement>,
    parameters: Vec<Value>,
    /// The memory of the parameters.
    _held: Held,
    /// The rows that were computed and not fetched.
    kept: Option<Kept>,
}

#[derive(Default)]
struct Kept {
    /// The environment that the rows are written with, where settings have changed.
    environment: Option<Environment>,
    /// The types that statements have created, where there are any.
    types: Option<Arc<UserTypes>>,
    columns: Vec<Column>,
    rows: RowBuffer,
    tag: String,
    notices: Vec<(&'static str, SqlError)>,
    completion: Completion,
}

impl Backend for SqlBackend {
    type Session = SqlSession;

    fn session(&self, opening: &Opening<'_>) -> Result<SqlSession> {
        let mut session = self.database.login(opening.user, opening.database, opening.has_proof)?;
        session.set_pause(opening.pause);
        session.set_aside(opening.aside);
        for (name, value) in opening.settings {
            session.set(&name.to_lowercase(), value)?;
        }
        Ok(SqlSession(session))
    }

    fn has_passwords(&self) -> bool {
        self.database.has_passwords()
    }

    fn verifier(&self, user: &str) -> Option<Verifier> {
        self.database.verifier(user)
    }

    fn is_superuser(&self, user: &str) -> bool {
        self.database.is_superuser(user)
    }

    fn is_member(&self, user: &str, role: &str) -> bool {
        self.database.is_member(user, role)
    }

    fn secret(&self) -> &[u8] {
        self.database.secret()
    }

    fn waits(&self) -> bool {
        self.waits
    }
}

impl Statement for ClientStatement {
    fn is_empty(&self) -> bool {
        self.prepared.is_empty()
    }

    fn parameters(&self) -> &[SqlType] {
        self.prepared.parameters()
    }

    fn columns(&self) -> Option<&[Column]> {
        self.prepared.columns()
    }

    fn shape(&self) -> Option<String> {
        Some(self.prepared.shape())
    }

    fn parent(&self) -> Option<Parent> {
        self.parent
    }

    #[inline]
    fn is_long(&self) -> bool {
        self.was_long()
    }

    #[inline]
    fn took(&self, long: bool) {
        ClientStatement::took(self, long);
    }
}

impl Session for SqlSession {
    type Statement = ClientStatement;
    type Portal = SqlPortal;

    fn check_connections(&self) -> Result<()> {
        self.0.check_connections()
    }

    fn check_replicates(&self) -> Result<()> {
        self.0.check_replicates()
    }

    fn log_position(&self) -> Result<u64> {
        self.0.log_position()
    }

    fn create_slot(&mut self, name: &str, plugin: &str, uses_snapshot: bool) -> Result<u64> {
        self.0.create_slot(name, plugin, uses_snapshot)
    }

    fn drop_slot(&mut self, name: &str, waits: bool) -> Result<()> {
        self.0.drop_slot(name, waits)
    }

    fn changes(&mut self, slot: &str, from: u64, publications: Vec<String>) -> Result<ChangeStream> {
        self.0.stream(slot, from, publications)
    }

    fn simple_query(&mut self, text: &str, rows: &mut dyn RowSink) -> Result<Completion> {
        self.0.simple_query(text, rows)
    }

    fn prepare(
        &mut self,
        text: &str,
        parameters: &[Option<SqlType>],
        parent: Option<Parent>,
    ) -> Result<Arc<ClientStatement>> {
        Ok(Arc::new(ClientStatement::new(self.0.prepare(text, parameters)?, parent)))
    }

    fn check_new_statement(&self, name: &str) -> Result<()> {
        self.0.check_new_statement(name)
    }

    fn name_statement(&mut self, name: &str, statement: Arc<ClientStatement>) {
        self.0.name_statement(name, statement);
    }

    #[inline]
    fn statement(&self, name: &[u8]) -> Option<&Arc<ClientStatement>> {
        self.0.statement(name)
    }

    fn remove_statement(&mut self, name: &[u8]) {
        self.0.remove_statement(name);
    }

    #[inline]
    fn bind(&mut self, statement: &Arc<ClientStatement>, parameters: Vec<Value>) -> Result<SqlPortal> {
        let held = self.0.hold_parameters(&parameters)?;
        Ok(SqlPortal { statement: statement.clone(), parameters, _held: held, kept: None })
    }

    #[inline]
    fn execute(
        &mut self,
        portal: &mut SqlPortal,
        limit: Option<NonZeroU32>,
        last: bool,
        rows: &mut dyn RowSink,
    ) -> Result<Fetched> {
        if let Some(kept) = &mut portal.kept {
            return kept.fetch(limit, rows);
        }
        if !last {
            // More statements follow before the client asks for the end: they are one transaction.
            self.0.begin_implicit();
        }
        if limit.is_none() || portal.statement.prepared.is_copy() {
            return self.0.execute(&portal.statement.prepared, &portal.parameters, rows).map(Fetched::Complete);
        }
        let mut kept = Kept { rows: self.0.row_buffer(), ..Kept::default() };
        kept.completion = self.0.execute(&portal.statement.prepared, &portal.parameters, &mut kept)?;
        portal.kept.insert(kept).fetch(limit, rows)
    }

    fn sync(&mut self) -> Result<Completion> {
        self.0.end_implicit()
    }

    fn cursor(&self, name: &str) -> Option<&[Column]> {
        self.0.cursor(name)
    }

    fn is_copying(&self) -> bool {
        self.0.is_copying()
    }

    fn copy_write(&mut self, piece: &[u8]) -> Result<()> {
        self.0.copy_in().map_or(Ok(()), |copy| copy.write(piece))
    }

    fn copy_finish(&mut self, rows: &mut dyn RowSink) -> Result<Completion> {
        self.0.copy_in().map_or_else(|| Ok(Completion::default()), |copy| copy.finish(rows))
    }

    fn copy_fail(&mut self, reason: &str) -> SqlError {
        match self.0.copy_in() {
            Some(copy) => copy.fail(reason),
            None => SqlError::new(SqlState::QUERY_CANCELED, reason),
        }
    }

    fn copy_abort(&mut self, error: SqlError) -> SqlError {
        match self.0.copy_in() {
            Some(copy) => copy.abort(error),
            None => error,
        }
    }

    fn fail(&mut self) {
        self.0.fail_from_outside();
    }

    fn status(&self) -> Status {
        self.0.status()
    }

    fn cancel(&self) -> Arc<AtomicBool> {
        self.0.cancel()
    }

    fn setting(&self, name: &str) -> Option<String> {
        self.0.setting(&name.to_lowercase()).map(str::to_owned)
    }

    fn connect(&mut self, process: i32, client: Option<String>, end: Box<dyn Fn() + Send + Sync>) {
        self.0.connect(process, client, end);
    }

    fn on_notification(&mut self, wake: Box<dyn Fn() + Send + Sync>) {
        self.0.on_notification(wake);
    }

    #[inline]
    fn has_notifications(&self) -> bool {
        self.0.has_notifications()
    }

    fn notifications(&mut self) -> Vec<Notification> {
        self.0.notifications()
    }

    fn wait_events(&self) -> WaitEvents {
        self.0.wait_events()
    }

    fn environment(&self) -> Environment {
        self.0.environment().clone()
    }

    fn types(&self) -> Arc<UserTypes> {
        self.0.types()
    }

    fn effort(&self) -> Effort {
        self.0.effort()
    }

    fn shape_of(&self, text: &str) -> Option<String> {
        self.0.shape_of(text)
    }

    #[inline]
    fn slow_after(&self) -> Option<Duration> {
        self.0.slow_after()
    }

    fn logs_failures(&self) -> bool {
        self.0.logs_failures()
    }

    fn silence_max(&self) -> Option<Duration> {
        self.0.idle_in_transaction_max()
    }
}

impl Kept {
    fn fetch(&mut self, limit: Option<NonZeroU32>, rows: &mut dyn RowSink) -> Result<Fetched> {
        if let Some(environment) = self.environment.take() {
            rows.environment(&environment);
        }
        if let Some(types) = &self.types {
            rows.types(types);
        }
        for (severity, notice) in self.notices.drain(..) {
            rows.notice(severity, &notice);
        }
        rows.columns(&self.columns)?;
        let count = self.rows.fetch(limit.map_or(usize::MAX, |limit| limit.get() as usize), rows)?;
        // As in PostgreSQL: the rows fetched may be all, but only the next fetch finds that out.
        if !self.columns.is_empty() && limit.is_some_and(|limit| count == limit.get() as usize) {
            return Ok(Fetched::Suspended);
        }
        match self.tag.split_once(' ') {
            Some(("SELECT", _)) => rows.complete(&format!("SELECT {count}"))?,
            _ => rows.complete(&self.tag)?,
        }
        Ok(Fetched::Complete(std::mem::take(&mut self.completion)))
    }
}

impl RowSink for Kept {
    fn environment(&mut self, environment: &Environment) {
        self.environment = Some(environment.clone());
    }

    fn types(&mut self, types: &Arc<UserTypes>) {
        self.types = Some(types.clone());
    }

    fn columns(&mut self, columns: &[Column]) -> Result<()> {
        self.columns = columns.to_vec();
        Ok(())
    }

    fn row(&mut self, values: &[Value]) -> Result<()> {
        self.rows.push(values)
    }

    fn complete(&mut self, tag: &str) -> Result<()> {
        tag.clone_into(&mut self.tag);
        Ok(())
    }

    fn notice(&mut self, severity: &'static str, notice: &SqlError) {
        self.notices.push((severity, notice.clone()));
    }

    fn take_back(&mut self) -> bool {
        self.rows.clear();
        self.notices.clear();
        true
    }
}
