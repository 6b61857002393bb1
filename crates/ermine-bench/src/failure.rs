//! Why a transaction did not commit, and the counting of it.

use std::{fmt, time::Instant};

use ermine::{Job, Scheme};

use crate::trial::{ClientContext, Commit};

/// Why a transaction did not commit.
#[derive(Debug)]
pub enum Failure {
    /// The rules of the workload let it end without a commit: its user rolled it back, or it found what the rules call
    /// a failure. It counts as rolled back.
    RolledBack,
    /// A row that the rules promise is missing, or a value is not as they promise; the text says which.
    Missing(&'static str),
    /// The engine returned an error.
    Engine(ermine::Error),
}

impl From<ermine::Error> for Failure {
    fn from(error: ermine::Error) -> Self {
        Self::Engine(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RolledBack => f.write_str("rolled back by its user"),
            Self::Missing(what) => write!(f, "a row or value that must exist is missing: {what}"),
            Self::Engine(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Failure {}

impl From<Failure> for crate::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Engine(error) => Self::Engine(error),
            other => Self::Workload(other.to_string()),
        }
    }
}

/// Unwraps a row that the rules promise; `what` names it.
pub fn found<T>(row: Option<T>, what: &'static str) -> Result<T, Failure> {
    row.ok_or(Failure::Missing(what))
}

/// Runs a transaction of the kind with this number, and counts its end; its latency is measured from `begin`. Returns
/// `None` if it did not commit.
pub fn run<J: Job<Error = Failure>>(
    context: &mut ClientContext<'_>,
    scheme: Scheme,
    kind: usize,
    begin: Instant,
    job: J,
) -> crate::Result<Option<J::Output>> {
    match context.execute(kind, job) {
        Ok((output, receipt)) => {
            context.hand_in(receipt, Commit { kind, begin: Some(begin), then: None })?;
            return Ok(Some(output));
        }
        Err(Failure::RolledBack) => context.roll_back(kind, begin),
        Err(Failure::Engine(ermine::Error::Abort(_))) => context.tally(kind).dropped += 1,
        // Read committed lets a row vanish, or a key be taken, between two steps of a transaction.
        Err(Failure::Missing(_) | Failure::Engine(ermine::Error::KeyExists { .. })) if scheme == Scheme::Rc => {
            context.tally(kind).lost += 1;
        }
        Err(failure) => return Err(failure.into()),
    }
    Ok(None)
}
