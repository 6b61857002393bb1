//! A database, and the sessions that end with it.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use ermine::{Durability, Options, Order, Scheme};
use ermine_sql::SqlDatabase;
use pyo3::prelude::*;

use crate::{
    failure::{engine_exception, exception, misuse},
    library::Library,
    run::Run,
    session::{Session, Slot},
};

/// A database that is open in this process.
#[pyclass(frozen, module = "ermine_db._ermine")]
pub struct Database {
    /// `None` once it is closed.
    open: Mutex<Option<Open>>,
    library: Arc<Library>,
    name: String,
}

struct Open {
    engine: Arc<ermine::Database>,
    sql: SqlDatabase,
    slots: Vec<Weak<Slot>>,
}

impl Database {
    fn with<T>(&self, py: Python<'_>, work: impl FnOnce(&mut Open) -> T) -> PyResult<T> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.as_mut().map(work).ok_or_else(|| misuse(py, &self.library, "the database is closed"))
    }
}

#[pymethods]
impl Database {
    #[new]
    #[pyo3(signature = (path, *, scheme, order, durability, memory_limit, archive, create))]
    #[expect(clippy::too_many_arguments, reason = "Python passes them by their names")]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        scheme: &str,
        order: &str,
        durability: &str,
        memory_limit: Option<u64>,
        archive: Option<PathBuf>,
        create: bool,
    ) -> PyResult<Self> {
        let library = Arc::new(Library::load(py)?);
        let options = || {
            let mut options = Options::default()
                .scheme(scheme.parse::<Scheme>()?)
                .order(order.parse::<Order>()?)
                .durability(durability.parse::<Durability>()?)
                .create(create);
            options.memory_limit = memory_limit;
            Ok::<_, ermine::Error>(archive.into_iter().fold(options, |options, archive| options.archive(archive)))
        };
        let engine = py.detach(|| match &path {
            Some(path) => ermine::Database::open(path, options()?),
            None => ermine::Database::open_in_memory(options()?),
        });
        let engine = Arc::new(engine.map_err(|error| engine_exception(py, &library, &error))?);
        let sql = py.detach(|| SqlDatabase::open(engine.clone()));
        let sql = sql.map_err(|error| exception(py, &library, &error))?;
        let name = path.as_ref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
        let open = Open { engine, sql, slots: Vec::new() };
        Ok(Self { open: Mutex::new(Some(open)), library, name: name.unwrap_or_else(|| "ermine".to_owned()) })
    }

    /// Begins a session.
    fn session(&self, py: Python<'_>) -> PyResult<Session> {
        let slot = self.with(py, |open| {
            let slot = Arc::new(Slot::new(open.sql.session("ermine", &self.name)));
            open.slots.retain(|slot| slot.strong_count() > 0);
            open.slots.push(Arc::downgrade(&slot));
            slot
        })?;
        Ok(Session::new(py, slot, self.library.clone()))
    }

    /// Calls a function in a transaction of a session until it commits, or fails for good; `begin` is the statement
    /// that begins it.
    fn run<'py>(
        &self,
        py: Python<'py>,
        session: &Session,
        begin: &str,
        function: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let engine = self.with(py, |open| open.engine.clone())?;
        Run { py, library: &self.library, session, begin, function }.run(&engine)
    }

    /// Closes the database: ends its sessions, and returns when everything is on the device.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(Open { engine, sql, slots }) = open else { return };
            for slot in slots.iter().filter_map(Weak::upgrade) {
                slot.end();
            }
            drop((sql, engine));
        });
    }

    /// Whether the database has been closed.
    #[getter]
    fn closed(&self) -> bool {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}
