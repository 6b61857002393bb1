//! The interface between the server and the layer that it serves. [`crate::sql`] adapts the SQL layer to it; the tests
//! have a small backend of their own, so the protocol is tested without tables.
//!
//! Calls are synchronous: see [`crate::connection`] for where they run.

use std::{
    num::NonZeroU32,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use ermine_sql::{
    Column, Completion, Effort, Notification, Parent, Result, RowSink, SqlError, SqlState, Status, WaitEvents,
    logical::ChangeStream,
    types::{Environment, SqlType, Value, user_types::UserTypes},
    verifier::Verifier,
};

/// A layer that can open sessions.
pub trait Backend: Send + Sync + 'static {
    /// One client's state.
    type Session: Session;

    /// Begins a session. An error goes to the client, and the connection ends.
    fn session(&self, opening: &Opening<'_>) -> Result<Self::Session>;

    /// Whether some user has a password: then no client logs in without one. This and the following methods are called
    /// on the connection's task.
    fn has_passwords(&self) -> bool;

    /// Returns the stored verifier of a user's password; `None` if the user does not exist, or has no password.
    fn verifier(&self, user: &str) -> Option<Verifier>;

    /// Whether a user has all rights: then the connections that are reserved for superusers are open to it.
    fn is_superuser(&self, user: &str) -> bool;

    /// Whether a user exists and is a member of a role, or the role itself.
    fn is_member(&self, user: &str, role: &str) -> bool;

    /// Returns constant bytes, from which the salts of nonexistent users are made.
    fn secret(&self) -> &[u8];

    /// Whether statements wait for one another, as under schemes that lock: then no statement runs where it could block
    /// others.
    fn waits(&self) -> bool {
        false
    }
}

/// The parameters with which a session begins.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// The session's user.
    pub user: &'a str,
    /// Whether the client has proved to be that user: then the user has to be there still.
    pub has_proof: bool,
    /// The requested database.
    pub database: &'a str,
    /// Initial settings that the client asks for, by their names.
    pub settings: &'a [(String, String)],
    /// The connection's number, `pg_backend_pid()`.
    pub process: i32,
    /// To be called now and then within statements that take long, so that they stop no other client.
    pub pause: fn(),
    /// Runs a part of a statement that may take long in one piece.
    pub aside: fn(&mut dyn FnMut()),
}

/// One client's state: its transaction, its settings.
pub trait Session: Send {
    /// A statement that has been parsed and bound.
    type Statement: Statement;
    /// A statement with its parameters, and the position up to which it has been run.
    type Portal: Send;

    /// Fails if the user has more connections than it may have; called once, when the session has its connection.
    fn check_connections(&self) -> Result<()> {
        Ok(())
    }

    /// Fails without the right to commands of replication.
    fn check_replicates(&self) -> Result<()> {
        Err(SqlError::unsupported("replication"))
    }

    /// Returns the end of the log.
    fn log_position(&self) -> Result<u64> {
        Err(SqlError::unsupported("replication"))
    }

    /// Creates a replication slot, and returns its position; with `uses_snapshot`, the transaction that has just begun
    /// sees what committed before that.
    fn create_slot(&mut self, name: &str, plugin: &str, uses_snapshot: bool) -> Result<u64> {
        let _ = (name, plugin, uses_snapshot);
        Err(SqlError::unsupported("replication"))
    }

    /// Drops a replication slot; `waits`: as soon as it has no reader.
    fn drop_slot(&mut self, name: &str, waits: bool) -> Result<()> {
        let _ = (name, waits);
        Err(SqlError::unsupported("replication"))
    }

    /// Returns a reader of the changes of publications, which begins where its slot is; commits before `from` are left
    /// out.
    fn changes(&mut self, slot: &str, from: u64, publications: Vec<String>) -> Result<ChangeStream> {
        let _ = (slot, from, publications);
        Err(SqlError::unsupported("replication"))
    }

    /// Runs a text of any number of statements, in one transaction where they do not say otherwise.
    fn simple_query(&mut self, text: &str, rows: &mut dyn RowSink) -> Result<Completion>;

    /// Parses and binds one statement, or none; `parent` is the client's span that its text names.
    fn prepare(
        &mut self,
        text: &str,
        parameters: &[Option<SqlType>],
        parent: Option<Parent>,
    ) -> Result<Arc<Self::Statement>>;

    /// Fails if a statement has the name, also one that SQL has prepared.
    fn check_new_statement(&self, name: &str) -> Result<()>;

    /// Gives a statement a name, which no statement has.
    fn name_statement(&mut self, name: &str, statement: Arc<Self::Statement>);

    /// Returns the statement of a name, also one that SQL has prepared.
    fn statement(&self, name: &[u8]) -> Option<&Arc<Self::Statement>>;

    /// Removes the statement of a name, if it exists.
    fn remove_statement(&mut self, name: &[u8]);

    /// Binds parameters to a statement: as many as it has, each of its type or NULL.
    fn bind(&mut self, statement: &Arc<Self::Statement>, parameters: Vec<Value>) -> Result<Self::Portal>;

    /// Runs a portal from its current position, up to `limit` rows. Outside of a transaction that the client has begun,
    /// all that is run up to [`Session::sync`] is one transaction. `last` says that the client has already asked for
    /// that end, so that this statement may be a transaction of its own, which is run again when it loses a conflict.
    fn execute(
        &mut self,
        portal: &mut Self::Portal,
        limit: Option<NonZeroU32>,
        last: bool,
        rows: &mut dyn RowSink,
    ) -> Result<Fetched>;

    /// Ends the transaction that [`Session::execute`] has begun.
    fn sync(&mut self) -> Result<Completion> {
        Ok(Completion::default())
    }

    /// Returns the columns of a cursor that a statement has opened: to clients it is a portal like those that they have
    /// made.
    fn cursor(&self, name: &str) -> Option<&[Column]> {
        let _ = name;
        None
    }

    /// Whether the last statement was a COPY FROM STDIN, which goes on with [`Session::copy_write`] until it is
    /// finished or aborted, or a piece fails. No other method is called meanwhile.
    fn is_copying(&self) -> bool {
        false
    }

    /// Takes a piece of the copied data.
    fn copy_write(&mut self, piece: &[u8]) -> Result<()> {
        let _ = piece;
        Ok(())
    }

    /// Ends the COPY after its last piece, and runs the statements behind it in its text.
    fn copy_finish(&mut self, rows: &mut dyn RowSink) -> Result<Completion> {
        let _ = rows;
        Ok(Completion::default())
    }

    /// Handles the client's report that the copy has failed, with its reason; returns the error that the COPY has ended
    /// with.
    fn copy_fail(&mut self, reason: &str) -> SqlError {
        SqlError::new(SqlState::QUERY_CANCELED, reason)
    }

    /// Ends the COPY with an error, and returns the error with its place.
    fn copy_abort(&mut self, error: SqlError) -> SqlError {
        error
    }

    /// Reports a failure outside of the session, such as an invalid text of a parameter: an open transaction fails with
    /// it.
    fn fail(&mut self);

    /// Returns the state of the session's transaction.
    fn status(&self) -> Status;

    /// Returns a flag: when a thread sets it to true, the running statement fails with `57014`.
    fn cancel(&self) -> Arc<AtomicBool>;

    /// Returns a setting that is reported to clients, like `server_version`.
    fn setting(&self, name: &str) -> Option<String>;

    /// Assigns the session to a connection of that number and address, which `end` ends, from any thread.
    fn connect(&mut self, process: i32, client: Option<String>, end: Box<dyn Fn() + Send + Sync>) {
        let _ = (process, client, end);
    }

    /// Sets the function that is called, from any thread, when there are notifications for the session.
    fn on_notification(&mut self, wake: Box<dyn Fn() + Send + Sync>) {
        let _ = wake;
    }

    /// Whether there may be notifications for the session.
    fn has_notifications(&self) -> bool {
        false
    }

    /// Returns notifications for the session, outside of transactions.
    fn notifications(&mut self) -> Vec<Notification> {
        Vec::new()
    }

    /// Returns what shows other sessions that this one waits for its client or the log.
    fn wait_events(&self) -> WaitEvents {
        WaitEvents::default()
    }

    /// Returns the settings that the texts of values depend on.
    fn environment(&self) -> Environment;

    /// Returns the types that statements have created, as the next statement sees them.
    fn types(&self) -> Arc<UserTypes> {
        Arc::default()
    }

    /// Returns what the last statement has spent its time on.
    fn effort(&self) -> Effort {
        Effort::default()
    }

    /// Returns the shape of the plan of a text, if it is known.
    fn shape_of(&self, text: &str) -> Option<String> {
        let _ = text;
        None
    }

    /// Returns the time from which on a statement is slow, and logged.
    fn slow_after(&self) -> Option<Duration> {
        None
    }

    /// Whether statements that fail are logged.
    fn logs_failures(&self) -> bool {
        true
    }

    /// Returns how long a client may be silent within a transaction (`idle_in_transaction_session_timeout`).
    fn silence_max(&self) -> Option<Duration> {
        None
    }
}

/// A statement that has been parsed and bound, or none.
pub trait Statement: Send + Sync {
    /// Whether its text had no statement.
    fn is_empty(&self) -> bool;

    /// Returns the types of the parameters.
    fn parameters(&self) -> &[SqlType];

    /// Returns the columns of the result; `None` if the statement returns no rows.
    fn columns(&self) -> Option<&[Column]>;

    /// Returns the shape of its plan, for the log.
    fn shape(&self) -> Option<String> {
        None
    }

    /// Returns the client's span that its text names.
    fn parent(&self) -> Option<Parent> {
        None
    }

    /// Whether it may take long, so that it must not run where it could block others: a statement that took long is
    /// expected to do so again.
    fn is_long(&self) -> bool;

    /// Records whether it took long.
    fn took(&self, long: bool);
}

/// The state of a portal after a call.
#[must_use]
pub enum Fetched {
    /// There are more rows; [`RowSink::complete`] has not been called.
    Suspended,
    /// The portal has ended.
    Complete(Completion),
}
