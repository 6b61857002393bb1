//! Errors as exceptions of `ermine_db.errors`.

use ermine_sql::{SqlError, SqlState};
use pyo3::{prelude::*, types::PyDict};

use crate::library::Library;

/// Returns the exception for the error of a statement.
pub fn exception(py: Python<'_>, library: &Library, error: &SqlError) -> PyErr {
    let report = error.report();
    let fields = || {
        let fields = PyDict::new(py);
        fields.set_item("detail", &report.detail)?;
        fields.set_item("hint", &report.hint)?;
        fields.set_item("context", &report.context)?;
        fields.set_item("position", report.position)?;
        fields.set_item("schema", &report.schema)?;
        fields.set_item("table", &report.table)?;
        fields.set_item("column", &report.column)?;
        fields.set_item("constraint", &report.constraint)?;
        library.exception.bind(py).call((report.state.0, &report.message), Some(&fields))
    };
    fields().map_or_else(|error| error, PyErr::from_value)
}

/// Returns the exception for an error of the engine, outside of statements.
pub fn engine_exception(py: Python<'_>, library: &Library, error: &ermine::Error) -> PyErr {
    let state = match error {
        ermine::Error::Options(_) => SqlState::INVALID_PARAMETER_VALUE,
        ermine::Error::Corrupt { .. } | ermine::Error::Decode { .. } => SqlState::DATA_CORRUPTED,
        ermine::Error::OutOfMemory { .. } => SqlState::OUT_OF_MEMORY,
        _ => SqlState::IO_ERROR,
    };
    exception(py, library, &SqlError::new(state, error.to_string()))
}

/// Returns the exception for a use of the package that cannot work.
pub fn misuse(py: Python<'_>, library: &Library, message: impl AsRef<str>) -> PyErr {
    library.interface_error.bind(py).call1((message.as_ref(),)).map_or_else(|error| error, PyErr::from_value)
}
