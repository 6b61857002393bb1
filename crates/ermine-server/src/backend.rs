//! What the server asks of whatever it serves. [`crate::sql`] adapts the SQL layer to it; the tests have a small one of their own, so the
//! protocol is tried without tables.
//!
//! Calls are synchronous: see [`crate::connection`] for where they run.

use std::{
    num::NonZeroU32,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use ermine_sql::{
    Column, Completion, Result, Rows, SqlError, SqlState, Status,
    types::{Environment, SqlType, Value},
    verifier::Verifier,
};

/// Something that sessions can be had of.
pub trait Backend: Send + Sync + 'static {
    /// One client's state.
    type Session: Session;

    /// Begins a session. What it fails with goes to the client, and the connection ends.
    fn session(&self, opening: &Opening<'_>) -> Result<Self::Session>;

    /// Whether a user has a password: nobody logs in without one then. This and what follows is asked on the connection's task.
    fn has_passwords(&self) -> bool;

    /// What is stored of a user's password; `None`: there is no such user, or it has none.
    fn verifier(&self, user: &str) -> Option<Verifier>;

    /// Bytes that stay, from which the salts of users are made that are not there.
    fn secret(&self) -> &[u8];

    /// Whether statements wait for one another, as under schemes that lock: then none runs where others have to.
    fn waits(&self) -> bool {
        false
    }
}

/// What a session begins with.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// Whose it is.
    pub user: &'a str,
    /// The database that is wanted.
    pub database: &'a str,
    /// Settings that the client wants to begin with, by their names.
    pub settings: &'a [(String, String)],
    /// The connection's number, `pg_backend_pid()`.
    pub process: i32,
    /// To be called now and then within statements that take long, so that they stop nobody.
    pub pause: fn(),
    /// What runs a part of a statement that may take long at once.
    pub aside: fn(&mut dyn FnMut()),
}

/// One client's state: its transaction, its settings.
pub trait Session: Send {
    /// A statement that has been parsed and bound.
    type Statement: Statement;
    /// A statement with its parameters, and how far it has been run.
    type Portal: Send;

    /// Runs a text of any number of statements, in one transaction where they do not say otherwise.
    fn simple_query(&mut self, text: &str, rows: &mut dyn Rows) -> Result<Completion>;

    /// Parses and binds one statement.
    fn prepare(&mut self, text: &str, parameters: &[Option<SqlType>]) -> Result<Self::Statement>;

    /// Gives a statement its parameters: as many as it has, each of its type or NULL.
    fn bind(&mut self, statement: &Self::Statement, parameters: Vec<Value>) -> Result<Self::Portal>;

    /// Runs a portal from where it stands, up to so many rows. Outside of a transaction that the client has begun, what is run up to
    /// [`Session::sync`] is one transaction; `last`: the client has already asked for that end, so that this statement may well be a
    /// transaction of its own, which is run again when it loses a conflict.
    fn execute(
        &mut self,
        portal: &mut Self::Portal,
        limit: Option<NonZeroU32>,
        last: bool,
        rows: &mut dyn Rows,
    ) -> Result<Fetched>;

    /// Ends what [`Session::execute`] has begun.
    fn sync(&mut self) -> Result<Completion> {
        Ok(Completion::default())
    }

    /// The columns of a cursor that a statement has opened: to clients it is a portal like those that they have made.
    fn cursor(&self, name: &str) -> Option<&[Column]> {
        let _ = name;
        None
    }

    /// Whether the last statement was a COPY FROM STDIN, which goes on with [`Session::copy_write`] until it is finished or aborted, or a
    /// piece fails. Nothing else is asked of the session meanwhile.
    fn is_copying(&self) -> bool {
        false
    }

    /// A piece of what is copied in.
    fn copy_write(&mut self, piece: &[u8]) -> Result<()> {
        let _ = piece;
        Ok(())
    }

    /// All of it has come: ends the COPY, and runs what comes behind it in its text.
    fn copy_finish(&mut self, rows: &mut dyn Rows) -> Result<Completion> {
        let _ = rows;
        Ok(Completion::default())
    }

    /// The client says that it has failed, and why; gives the error that the COPY has ended with.
    fn copy_fail(&mut self, reason: &str) -> SqlError {
        SqlError::new(SqlState::QUERY_CANCELED, reason)
    }

    /// Ends the COPY with an error, and gives it with the place.
    fn copy_abort(&mut self, error: SqlError) -> SqlError {
        error
    }

    /// Something failed outside of the session, like the text of a parameter: an open transaction has failed with it.
    fn fail(&mut self);

    /// Where the session stands.
    fn status(&self) -> Status;

    /// Set it to true, from any thread, to have what runs fail with `57014`.
    fn cancel(&self) -> Arc<AtomicBool>;

    /// A setting that clients are told of, like `server_version`.
    fn setting(&self, name: &str) -> Option<String>;

    /// The session belongs to a connection of that number and address, which `end` ends, from any thread.
    fn connect(&mut self, process: i32, client: Option<String>, end: Box<dyn Fn() + Send + Sync>) {
        let _ = (process, client, end);
    }

    /// What the texts of values depend on.
    fn environment(&self) -> Environment;

    /// How long a client may be silent within a transaction (`idle_in_transaction_session_timeout`).
    fn silence_max(&self) -> Option<Duration> {
        None
    }
}

/// A statement that has been parsed and bound.
pub trait Statement: Send + Sync {
    /// The types of the parameters.
    fn parameters(&self) -> &[SqlType];

    /// The columns of the result; `None`: the statement gives none.
    fn columns(&self) -> Option<&[Column]>;

    /// Whether it may take long, so that it must not run where others have to. Whatever this says, a statement that took long once is
    /// believed to do so again.
    fn is_long(&self) -> bool {
        false
    }
}

/// How far a portal was run.
#[must_use]
pub enum Fetched {
    /// There are more rows; [`Rows::complete`] has not been called.
    Suspended,
    /// It has ended.
    Complete(Completion),
}
