//! The native half of the Python package `ermine-db`.
//!
//! The package `python/ermine_db` is what programs import; it uses this module, `ermine_db._ermine`, for everything
//! that touches the engine: sessions, statements, rows, and the loop of retries. Python's lock is released while a
//! statement runs, waits or becomes durable, and no session is locked while a thread waits for Python's lock: so no
//! two threads wait for one another.
//!
//! | module | contents |
//! |---|---|
//! | `database` | a database, and the sessions that end with it |
//! | `run` | the loop of retries around a function of the program |
//! | `session` | statements with parameters |
//! | `plan` | the types of a statement's parameters |
//! | `parameters` | Python's values to SQL's |
//! | `rows` | results, as Python sees them |
//! | `gathered` | the rows of a statement, as the session passes them |
//! | `values` | SQL's values to Python's |
//! | `arrow` | results as Arrow's record batches, and tables filled from them |
//! | `failure` | errors as exceptions |
//! | `library` | the classes and functions of Python that are used |

#![forbid(unsafe_code)]

mod arrow;
mod database;
mod failure;
mod gathered;
mod library;
mod parameters;
mod plan;
mod rows;
mod run;
mod session;
mod values;

/// The native half of `ermine_db`.
#[pyo3::pymodule(gil_used = false)]
mod _ermine {
    #[pymodule_export]
    use crate::database::Database;
    #[pymodule_export]
    use crate::rows::ArrowRows;
    #[pymodule_export]
    use crate::rows::Result;
    #[pymodule_export]
    use crate::session::Session;
}
