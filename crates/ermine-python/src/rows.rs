//! Results: the rows of a statement, which are converted to values of Python when they are fetched.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use ermine_sql::{
    Column,
    types::{Environment, SqlType},
};
use pyo3::{
    prelude::*,
    types::{PyCapsule, PyDict, PyList, PyTuple},
};

use crate::{
    arrow::export::capsule,
    failure::misuse,
    gathered::Gathered,
    library::Library,
    values::{Conversion, is_created},
};

/// The result of a statement.
#[pyclass(frozen, module = "ermine_db")]
pub struct Result {
    gathered: Arc<Gathered>,
    library: Arc<Library>,
    environment: Environment,
    /// The rows that have been fetched.
    fetched: AtomicUsize,
}

impl Result {
    pub fn new(mut gathered: Gathered, library: Arc<Library>) -> Self {
        if !gathered.has_columns {
            gathered.columns = Arc::default();
        }
        let mut environment = Environment::default();
        if gathered.columns.iter().any(|column| is_created(column.ty)) {
            environment.types = gathered.types.clone();
        }
        Self { gathered: Arc::new(gathered), library, environment, fetched: AtomicUsize::new(0) }
    }

    /// Takes the next rows, at most `count`; returns their places.
    fn take(&self, count: usize) -> std::ops::Range<usize> {
        let end = |from: usize| from.saturating_add(count).min(self.gathered.rows);
        // Relaxed: publishes nothing else.
        let from = self.fetched.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |from| Some(end(from)));
        let from = from.unwrap_or(self.gathered.rows);
        from..end(from)
    }

    fn values<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let (columns, conversion) = (&self.gathered.columns, self.conversion());
        self.gathered
            .row_values(row)
            .iter()
            .zip(&**columns)
            .map(|(value, column)| conversion.value(py, value, column.ty))
            .collect()
    }

    fn conversion(&self) -> Conversion<'_> {
        Conversion { library: &self.library, environment: &self.environment }
    }

    fn row<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.values(py, row)?)
    }

    fn rows<'py>(&self, py: Python<'py>, count: usize) -> PyResult<Bound<'py, PyList>> {
        let rows = PyList::empty(py);
        for row in self.take(count) {
            rows.append(self.row(py, row)?)?;
        }
        Ok(rows)
    }

    fn only(&self, py: Python<'_>) -> PyResult<usize> {
        match self.gathered.rows {
            1 => Ok(0),
            rows => Err(misuse(py, &self.library, format!("the statement has returned {rows} rows instead of one"))),
        }
    }
}

#[pymethods]
impl Result {
    /// The names of the columns; empty if the statement returns no rows.
    #[getter]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.gathered.columns.iter().map(|column| &*column.name))
    }

    /// The types of the columns, as SQL writes them.
    #[getter]
    fn types<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let name = |column: &Column| match column.ty.created().and_then(|of| self.gathered.types.get(of)) {
            Some(ty) => format!("{}{}", ty.name, if column.ty.is_array { "[]" } else { "" }),
            None => column.ty.describe(column.modifier),
        };
        PyList::new(py, self.gathered.columns.iter().map(name))
    }

    /// PostgreSQL's numbers of the columns' types.
    #[getter]
    fn type_codes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.gathered.columns.iter().map(|column| SqlType::oid(column.ty)))
    }

    /// The number of rows that the statement has returned or changed; -1 for a statement that does neither.
    #[getter]
    fn rowcount(&self) -> i64 {
        self.gathered.rowcount().unwrap_or(-1)
    }

    /// What the statement has done, in PostgreSQL's words, as in "INSERT 0 2".
    #[getter]
    fn status(&self) -> &str {
        &self.gathered.tag
    }

    /// The notices and warnings of the statement.
    #[getter]
    fn notices(&self) -> Vec<String> {
        self.gathered.notices.clone()
    }

    /// Returns the next row; None: there is none.
    fn fetchone<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.take(1).next().map(|row| self.row(py, row)).transpose()
    }

    /// Returns the next rows, at most `size`.
    fn fetchmany<'py>(&self, py: Python<'py>, size: usize) -> PyResult<Bound<'py, PyList>> {
        self.rows(py, size)
    }

    /// Returns all rows that are left.
    fn fetchall<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.rows(py, usize::MAX)
    }

    /// Returns all rows that are left, each as a dict from the names of the columns.
    fn dicts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let names = self.columns(py)?;
        let rows = PyList::empty(py);
        for row in self.take(usize::MAX) {
            let dict = PyDict::new(py);
            for (name, value) in names.iter().zip(self.values(py, row)?) {
                dict.set_item(name, value)?;
            }
            rows.append(dict)?;
        }
        Ok(rows)
    }

    /// Returns the only row of the result; fails if there is another number of rows.
    fn one<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let row = self.only(py)?;
        self.row(py, row)
    }

    /// Returns the first value of the only row.
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let row = self.only(py)?;
        Ok(self.values(py, row)?.into_iter().next())
    }

    /// Returns the rows that are left for any library that reads Arrow: it has `__arrow_c_stream__`.
    fn fetch_arrow(&self) -> ArrowRows {
        let from = self.take(usize::MAX).start;
        ArrowRows { gathered: self.gathered.clone(), environment: self.environment.clone(), from }
    }

    /// Returns the rows that are left as a stream of record batches.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.fetch_arrow().__arrow_c_stream__(py, requested_schema)
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.fetchone(py)
    }

    fn __repr__(&self) -> String {
        format!("<ermine_db.Result {}: {} rows>", self.gathered.tag, self.gathered.rows)
    }
}

/// The rows of a result for libraries that read Arrow.
#[pyclass(frozen, module = "ermine_db")]
pub struct ArrowRows {
    gathered: Arc<Gathered>,
    environment: Environment,
    /// The first row.
    from: usize,
}

#[pymethods]
impl ArrowRows {
    /// Returns the rows as a stream of record batches; may be called any number of times. The requested schema, which a
    /// producer may follow or not, is not followed.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        capsule(py, self.gathered.clone(), self.environment.clone(), self.from)
    }
}
