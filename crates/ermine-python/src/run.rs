//! The loop of retries around a function of the program, as [`ermine::Database::run`] has it.
//!
//! A transaction that lost a conflict is run again: at once, then after growing pauses, and alone from the 13th attempt
//! on ([`ermine::Retries`]). An exception of the function may follow from the rows that it read, so it is passed on
//! only if these are certified; otherwise the transaction has lost a conflict.

use ermine::Tid;
use ermine_sql::Status;
use pyo3::{exceptions::PyException, prelude::*};

use crate::{failure::misuse, library::Library, session::Session};

/// The end of an attempt.
enum Attempt<'py> {
    Ended(PyResult<Bound<'py, PyAny>>),
    /// It has lost a conflict, to this transaction, if known.
    Lost(PyErr, Option<u64>),
}

/// The parts of a transaction that is run.
pub struct Run<'r, 'py> {
    pub py: Python<'py>,
    pub library: &'r Library,
    pub session: &'r Session,
    /// The statement that begins it.
    pub begin: &'r str,
    pub function: &'r Bound<'py, PyAny>,
}

impl<'py> Run<'_, 'py> {
    /// Calls the function in transactions until one commits, or fails for good.
    pub fn run(&self, engine: &ermine::Database) -> PyResult<Bound<'py, PyAny>> {
        let mut retries = engine.retries();
        loop {
            let turn = self.py.detach(|| retries.turn());
            let attempt = self.attempt();
            drop(turn);
            match attempt {
                Attempt::Ended(ended) => return ended,
                Attempt::Lost(error, other) => {
                    if !self.py.detach(|| retries.lost(other.map(Tid::from_u64))) {
                        return Err(error);
                    }
                }
            }
        }
    }

    fn attempt(&self) -> Attempt<'py> {
        let (py, session) = (self.py, self.session);
        let ended = session.begin(py, self.begin).and_then(|()| match self.function.call0() {
            Ok(value) => self.commit().map(|()| value),
            Err(error) => Err(self.roll_back(error)),
        });
        match (ended, session.lost(py)) {
            // The exception of a conflict, or one that the function has raised because of it.
            (Err(error), Ok(Some(other))) if error.is_instance_of::<PyException>(py) => Attempt::Lost(error, other),
            (ended, _) => Attempt::Ended(ended),
        }
    }

    fn commit(&self) -> PyResult<()> {
        match self.session.state(self.py)? {
            // The function has ended it.
            Status::Idle => Ok(()),
            Status::Open => self.session.run(self.py, "COMMIT").map(drop),
            Status::Failed => {
                self.session.run(self.py, "ROLLBACK")?;
                let message = "a statement of the transaction has failed, and the function has ignored its exception: \
                    the transaction is rolled back. Let the exception pass, or run the statement in a transaction \
                    inside of this one.";
                Err(misuse(self.py, self.library, message))
            }
        }
    }

    /// Rolls back because of an exception; returns the one to pass on.
    fn roll_back(&self, error: PyErr) -> PyErr {
        let (py, session) = (self.py, self.session);
        let done = match session.state(py) {
            Ok(Status::Idle) => Ok(()),
            Ok(_) if error.is_instance_of::<PyException>(py) => session.roll_back(py),
            Ok(_) => session.run(py, "ROLLBACK").map(drop),
            Err(closed) => Err(closed),
        };
        match done {
            Ok(()) => error,
            Err(lost) => {
                lost.set_context(py, Some(error));
                lost
            }
        }
    }
}
