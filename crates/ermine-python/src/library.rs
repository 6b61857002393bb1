//! The classes and functions of Python's library, and of this package, that values and errors are made with.

use pyo3::prelude::*;

/// Objects that are looked up once for each database.
pub struct Library {
    pub decimal: Py<PyAny>,
    pub date: Py<PyAny>,
    pub time: Py<PyAny>,
    pub datetime: Py<PyAny>,
    pub timedelta: Py<PyAny>,
    pub timezone: Py<PyAny>,
    pub utc: Py<PyAny>,
    pub uuid: Py<PyAny>,
    /// `json.loads` and `json.dumps`.
    pub loads: Py<PyAny>,
    pub dumps: Py<PyAny>,
    /// The class `Json` of this package.
    pub json: Py<PyAny>,
    /// Makes the exception for the fields of an error.
    pub exception: Py<PyAny>,
    pub interface_error: Py<PyAny>,
}

impl Library {
    pub fn load(py: Python<'_>) -> PyResult<Self> {
        let of = |module: &str, name: &str| py.import(module)?.getattr(name).map(Bound::unbind);
        Ok(Self {
            decimal: of("decimal", "Decimal")?,
            date: of("datetime", "date")?,
            time: of("datetime", "time")?,
            datetime: of("datetime", "datetime")?,
            timedelta: of("datetime", "timedelta")?,
            timezone: of("datetime", "timezone")?,
            utc: py.import("datetime")?.getattr("timezone")?.getattr("utc")?.unbind(),
            uuid: of("uuid", "UUID")?,
            loads: of("json", "loads")?,
            dumps: of("json", "dumps")?,
            json: of("ermine_db._values", "Json")?,
            exception: of("ermine_db.errors", "exception")?,
            interface_error: of("ermine_db.errors", "InterfaceError")?,
        })
    }
}
