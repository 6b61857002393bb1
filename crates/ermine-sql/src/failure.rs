//! The engine's errors in the form that PostgreSQL's clients expect.

use ermine::{Abort, Error, Tid};

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::error::{Lost, Result, SqlError, SqlState};

/// The result of an operation of the engine, as part of a statement.
pub(crate) trait EngineResult<T> {
    /// Converts the error ([`sql_error`]).
    fn sql(self) -> Result<T>;
}

impl<T> EngineResult<T> for ermine::Result<T> {
    #[inline]
    fn sql(self) -> Result<T> {
        self.map_err(sql_error)
    }
}

/// Returns the error of a commit that could not be made durable.
pub fn outcome_unknown(error: &Error) -> SqlError {
    SqlError::new(SqlState::STATEMENT_COMPLETION_UNKNOWN, error.to_string())
        .detail("The commit could not be made durable; it may or may not be there after a restart.")
}

/// Returns the transaction that won the conflict, if the error is about one and it is known.
pub(crate) fn opponent(error: &SqlError) -> Option<Tid> {
    error.report().lost.and_then(|lost| lost.to).map(Tid::from_u64)
}

fn lost(abort: &Abort) -> Lost {
    let mut hasher = DefaultHasher::new();
    (&abort.table, &abort.key).hash(&mut hasher);
    Lost { to: abort.other.map(Tid::as_u64), row: hasher.finish() }
}

/// Converts an error of the engine for which no context is known.
pub fn sql_error(error: Error) -> SqlError {
    match error {
        Error::Abort(abort) | Error::GaveUp { last: abort, .. } => {
            let lost = lost(&abort);
            SqlError::new(SqlState::SERIALIZATION_FAILURE, "could not serialize access due to concurrent transactions")
                .lost(lost)
                .source(*abort)
                .hint("The transaction might succeed if retried.")
        }
        Error::KeyExists { .. } => {
            SqlError::new(SqlState::UNIQUE_VIOLATION, "duplicate key value violates unique constraint")
        }
        Error::ReadOnly | Error::Standby => {
            SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, "cannot write in a read-only transaction")
        }
        Error::NoSnapshot => {
            let message = "the standby has no safe snapshot";
            SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).source(error)
        }
        Error::KeyTooLong { bytes } => {
            let message = format!("index row size {bytes} exceeds maximum {}", ermine::MAX_KEY_BYTES);
            SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
        }
        Error::ValueTooLong { bytes } => {
            let message = format!("row is too big: size {bytes}, maximum size {}", ermine::MAX_VALUE_BYTES);
            SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
        }
        Error::OutOfMemory { .. } => SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
            .detail(error.to_string())
            .hint("Delete rows, or start the server with a larger --memory-limit."),
        Error::Limit(what) => SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what),
        Error::Poisoned(why) => SqlError::new(SqlState::IO_ERROR, format!("the log can no longer be written: {why}"))
            .hint(
                "Mend the cause and start the server again, or connect to the new primary of the cluster; whether the \
                 last transactions happened shows then.",
            ),
        Error::Corrupt { .. } | Error::Decode { .. } => SqlError::new(SqlState::DATA_CORRUPTED, error.to_string()),
        Error::DiskFull(why) => SqlError::new(SqlState::DISK_FULL, format!("no room is left on the device: {why}"))
            .hint("Rows can be read and deleted. Writing goes on when there is room: free some, or delete rows."),
        Error::Storage(why) => SqlError::new(SqlState::IO_ERROR, why),
        Error::Schema(_) => SqlError::new(SqlState::INTERNAL_ERROR, error.to_string()).source(error),
        other => SqlError::new(SqlState::INTERNAL_ERROR, other.to_string()),
    }
}
