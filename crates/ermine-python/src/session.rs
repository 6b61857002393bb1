//! Sessions: statements with parameters.
//!
//! Several threads may use a session, one after the other. A thread that waits for a session does so without Python's
//! lock.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use arrow_array::{RecordBatch, ffi_stream::RecordBatchStreamReader};
use arrow_pyarrow::FromPyArrow as _;
use ermine_sql::{
    Column, Completion, Prepared, SqlError, SqlState, Status,
    types::{SqlType, Value},
};
use pyo3::{
    prelude::*,
    types::{PyDict, PyList, PyString, PyTuple},
};

use crate::{
    arrow::import::{ROWS_MAX, arrays, given_type},
    failure::{exception, misuse},
    gathered::Gathered,
    library::Library,
    parameters::{Parameter, parameter, settle, without_nul},
    plan::Plan,
    rows::Result,
};

/// The longest text whose plan is remembered, in bytes.
const REMEMBERED_MAX: usize = 16 << 10;
/// The number of texts whose plans are remembered.
const PLANS_MAX: usize = 512;

/// The session of a slot; `None` once the database is closed.
pub struct Slot {
    session: Mutex<Option<Open>>,
    cancel: Arc<AtomicBool>,
    /// No statement begins any more.
    stopped: AtomicBool,
}

struct Open {
    session: ermine_sql::Session,
    /// The conflict that the open transaction has lost, with the number of the transaction that won, if known.
    lost: Option<Option<u64>>,
    /// The columns of the last result: many results have the columns of the one before.
    columns: Option<Arc<[Column]>>,
}

impl Slot {
    pub fn new(session: ermine_sql::Session) -> Self {
        let cancel = session.cancel();
        Self {
            session: Mutex::new(Some(Open { session, lost: None, columns: None })),
            cancel,
            stopped: AtomicBool::new(false),
        }
    }

    /// Cancels the running statement, and lets no other one begin. Does not wait.
    fn stop(&self) {
        // SeqCst: a thread that enters clears `cancel` and then reads `stopped`. If it reads false, both stores here
        // come after its own, and cancel its statement.
        self.stopped.store(true, Ordering::SeqCst);
        self.cancel.store(true, Ordering::SeqCst);
    }

    /// Ends the session: cancels its statement, and rolls back its transaction.
    pub fn end(&self) {
        self.stop();
        self.session.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// A session of a database.
#[pyclass(frozen, module = "ermine_db._ermine")]
pub struct Session {
    pub slot: Arc<Slot>,
    library: Arc<Library>,
    /// From texts to plans.
    plans: Py<PyDict>,
}

fn ended() -> SqlError {
    SqlError::new(SqlState("08003"), "the session has ended")
        .hint("Its database has been closed, or a statement of its transaction was cancelled: begin again.")
}

impl Session {
    pub fn new(py: Python<'_>, slot: Arc<Slot>, library: Arc<Library>) -> Self {
        Self { slot, library, plans: PyDict::new(py).unbind() }
    }

    /// Runs a part of the work with the session, without Python's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Open) -> ermine_sql::Result<T> + Send,
    ) -> PyResult<T> {
        let slot = &*self.slot;
        let done = py.detach(|| {
            let mut open = slot.session.lock().unwrap_or_else(PoisonError::into_inner);
            let open = open.as_mut().ok_or_else(ended)?;
            // Drop a cancellation that came too late for its statement. SeqCst: see `Slot::stop`.
            slot.cancel.store(false, Ordering::SeqCst);
            if slot.stopped.load(Ordering::SeqCst) {
                return Err(ended());
            }
            let done = work(open);
            if let Err(error) = &done
                && matches!(error.state(), SqlState::SERIALIZATION_FAILURE | SqlState::DEADLOCK_DETECTED)
            {
                open.lost = Some(error.report().lost.and_then(|lost| lost.to));
            }
            done
        });
        done.map_err(|error| exception(py, &self.library, &error))
    }

    /// Runs a text of any number of statements without parameters.
    pub fn run(&self, py: Python<'_>, text: &str) -> PyResult<Gathered> {
        self.with(py, |open| {
            let mut rows = open.expecting();
            let completion = open.session.simple_query(without_nul(text)?, &mut rows)?;
            open.end(completion, rows)
        })
    }

    /// Returns the state of the session's transaction.
    pub fn state(&self, py: Python<'_>) -> PyResult<Status> {
        self.with(py, |open| Ok(open.session.status()))
    }

    /// Begins a transaction.
    pub fn begin(&self, py: Python<'_>, statement: &str) -> PyResult<()> {
        self.with(py, |open| {
            open.lost = None;
            open.session.simple_query(statement, &mut Gathered::default())?.wait()
        })
    }

    /// Returns the conflict that the last transaction has lost.
    pub fn lost(&self, py: Python<'_>) -> PyResult<Option<Option<u64>>> {
        self.with(py, |open| Ok(open.lost))
    }

    /// Rolls back because of an exception of the program ([`ermine_sql::Session::roll_back_certified`]).
    pub fn roll_back(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |open| open.session.roll_back_certified())
    }

    /// Returns the plan of a text with the first of these lists of types that will do.
    fn prepare(&self, py: Python<'_>, text: &Arc<str>, lists: &[&[Option<SqlType>]]) -> PyResult<Py<Plan>> {
        let (place, types) = self.with(py, |open| {
            let (place, prepared) = open.session.prepare_with_any(without_nul(text)?, lists)?;
            Ok((place, prepared.parameters().into()))
        })?;
        Py::new(py, Plan::new(text.clone(), lists[place].into(), types))
    }

    /// Returns the plan of a text as it was last prepared; otherwise with types that are inferred, or with the types of
    /// these values.
    fn first_plan(&self, text: &Bound<'_, PyString>, row: &[Bound<'_, PyAny>]) -> PyResult<Py<Plan>> {
        let (py, plans) = (text.py(), self.plans.bind(text.py()));
        if let Some(known) = plans.get_item(text)? {
            return Ok(known.cast::<Plan>()?.clone().unbind());
        }
        let natural = row.iter().map(|value| {
            // No value has a direct form in this type, but texts, which have no type of their own.
            Ok(match parameter(value, SqlType::RECORD, &self.library)? {
                Parameter::Fits(_) => None,
                Parameter::Other(natural) => Some(natural),
            })
        });
        let natural = natural.collect::<PyResult<Vec<_>>>()?;
        let content: Arc<str> = (*text.to_cow()?).into();
        let texts: Vec<_> = natural.iter().map(|ty| Some(ty.unwrap_or(SqlType::TEXT))).collect();
        let plan = self.prepare(py, &content, &[&[], &natural, &texts])?;
        if content.len() <= REMEMBERED_MAX {
            if plans.len() >= PLANS_MAX {
                plans.clear();
            }
            plans.set_item(text, plan.clone_ref(py))?;
        }
        Ok(plan)
    }

    /// Converts the values of a statement; chooses the plan by the types that they need.
    fn convert(&self, first: &Py<Plan>, row: &[Bound<'_, PyAny>], py: Python<'_>) -> PyResult<(Py<Plan>, Vec<Value>)> {
        let mut plan = first.clone_ref(py);
        for _ in 0..2 {
            let types = &plan.get().types;
            if row.len() != types.len() {
                let message =
                    format!("the statement has {} parameters, but {} values are given", types.len(), row.len());
                return Err(misuse(py, &self.library, message));
            }
            let mut given = vec![None; row.len()];
            let mut values = Vec::with_capacity(row.len());
            for ((value, ty), given) in row.iter().zip(types).zip(&mut given) {
                match parameter(value, *ty, &self.library)? {
                    Parameter::Fits(value) => values.push(value),
                    Parameter::Other(natural) => *given = Some(natural),
                }
            }
            if values.len() == row.len() {
                return Ok((plan, values));
            }
            let other = first.get().other(py, &given);
            plan = match other {
                Some(other) => other,
                None => {
                    let other = self.prepare(py, &first.get().text, &[&given])?;
                    first.get().remember(other.clone_ref(py));
                    other
                }
            };
        }
        Err(misuse(py, &self.library, "the values of the parameters fit none of the types that the statement may have"))
    }

    /// Runs a statement once for each row of parameters. Its result is that of the last run.
    fn statement(&self, text: &Bound<'_, PyString>, rows: &[Vec<Bound<'_, PyAny>>]) -> PyResult<Gathered> {
        let py = text.py();
        let Some(row) = rows.first() else { return Ok(Gathered::default()) };
        // Twice, if the tables of a known plan have been replaced meanwhile.
        for _ in 0..2 {
            let first = self.first_plan(text, row)?;
            let converted = rows.iter().map(|row| self.convert(&first, row, py)).collect::<PyResult<Vec<_>>>()?;
            let (plans, values): (Vec<_>, Vec<_>) = converted.into_iter().unzip();
            let plans: Vec<&Plan> = plans.iter().map(Py::get).collect();
            if let Some(gathered) = self.with(py, |open| open.statement(&plans, values))? {
                return Ok(gathered);
            }
            // It is not there if another thread has removed it, or if the text is too long to be remembered.
            let _ = self.plans.bind(py).del_item(text);
        }
        Err(exception(py, &self.library, &types_changed()))
    }
}

impl Open {
    fn expecting(&self) -> Gathered {
        Gathered::expecting(self.columns.clone())
    }

    /// Waits until everything is durable that a result tells of.
    fn end(&mut self, completion: Completion, rows: Gathered) -> ermine_sql::Result<Gathered> {
        completion.wait()?;
        self.columns = Some(rows.columns.clone());
        Ok(rows)
    }

    /// Runs a statement for each row of values, once all of them are converted. `None`: it has other parameters now
    /// than those that the values were converted for, and was not run.
    fn statement(&mut self, plans: &[&Plan], rows: Vec<Vec<Value>>) -> ermine_sql::Result<Option<Gathered>> {
        let mut prepared: Option<(&Plan, Arc<Prepared>)> = None;
        let mut runs = Vec::with_capacity(rows.len());
        for (plan, mut values) in plans.iter().zip(rows) {
            let statement = match &prepared {
                Some((known, statement)) if std::ptr::eq(*known, *plan) => statement.clone(),
                _ => {
                    let (_, statement) = self.session.prepare_with_any(&plan.text, &[&plan.given])?;
                    if *statement.parameters() != *plan.types {
                        return Ok(None);
                    }
                    prepared = Some((plan, statement.clone()));
                    statement
                }
            };
            let environment = self.session.environment();
            for (value, ty) in values.iter_mut().zip(&plan.types) {
                settle(value, *ty, environment)?;
            }
            runs.push((statement, values));
        }
        let (mut gathered, mut changed) = (self.expecting(), 0);
        let mut last = Completion::default();
        for (statement, values) in runs {
            let completion = self.session.execute(&statement, &values, &mut gathered)?;
            // A run that changes nothing has no receipt; the receipt of an earlier one is still to be waited for.
            if completion.receipt.is_some() {
                last = completion;
            }
            changed += gathered.rowcount().unwrap_or(0);
        }
        if plans.len() > 1 {
            gathered.tag = format!("{} {changed}", gathered.tag.split(' ').next().unwrap_or_default());
        }
        self.end(last, gathered).map(Some)
    }
}

/// The error of a statement whose tables are replaced again and again while it is prepared.
fn types_changed() -> SqlError {
    let message = "the types of the statement's parameters have changed again while it was prepared";
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).hint("Run it when no table is being replaced.")
}

/// Returns a name as statements quote it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Session {
    /// Inserts the rows of a stream, and counts them.
    fn insert_all(&self, py: Python<'_>, table: &str, reader: RecordBatchStreamReader) -> PyResult<usize> {
        let schema = arrow_array::RecordBatchReader::schema(&reader);
        let columns: Vec<_> = schema.fields().iter().map(|field| quoted(field.name())).collect();
        if columns.is_empty() {
            return Err(misuse(py, &self.library, "the data have no columns"));
        }
        let (table, columns) = (table.split('.').map(quoted).collect::<Vec<_>>().join("."), columns.join(", "));
        let targets = self.with(py, |open| {
            let select = open.session.prepare(without_nul(&format!("SELECT {columns} FROM {table}"))?, &[])?;
            Ok(select.columns().unwrap_or_default().iter().map(|column| column.ty).collect::<Vec<_>>())
        })?;
        let given = schema.fields().iter().zip(&targets).map(|(field, target)| {
            let ty = given_type(field.data_type(), *target);
            ty.map_err(|why| misuse(py, &self.library, format!("column \"{}\": {why}", field.name())))
        });
        let given = given.collect::<PyResult<Vec<_>>>()?;
        let arrays: Vec<_> = given.iter().map(|ty| Some(ty.array())).collect();
        let places = (1..=given.len()).map(|place| format!("${place}")).collect::<Vec<_>>().join(", ");
        let text: Arc<str> = format!("INSERT INTO {table} ({columns}) SELECT * FROM unnest({places})").into();
        let types = given.iter().map(|ty| ty.array()).collect();
        let plan = Plan::new(text, arrays.into(), types);
        let (mut rows, mut reader) = (0, reader);
        while let Some(batch) = py.detach(|| reader.next()) {
            let batch =
                batch.map_err(|error| misuse(py, &self.library, format!("the data end with an error: {error}")))?;
            for from in (0..batch.num_rows()).step_by(ROWS_MAX) {
                let part = batch.slice(from, ROWS_MAX.min(batch.num_rows() - from));
                self.insert_batch(py, &plan, &given, &part)?;
                rows += part.num_rows();
            }
        }
        Ok(rows)
    }

    fn insert_batch(&self, py: Python<'_>, plan: &Plan, given: &[SqlType], batch: &RecordBatch) -> PyResult<()> {
        let done = self.with(py, |open| {
            let values = arrays(batch, given)?;
            open.statement(&[plan], vec![values])
        })?;
        match done {
            Some(_) => Ok(()),
            None => Err(misuse(py, &self.library, "the table has been replaced while rows were inserted")),
        }
    }
}

/// Returns the values of a sequence of parameters.
fn values<'py>(parameters: &Bound<'py, PyAny>, library: &Library) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if let Ok(tuple) = parameters.cast::<PyTuple>() {
        return Ok(tuple.iter().collect());
    }
    if let Ok(list) = parameters.cast::<PyList>() {
        return Ok(list.iter().collect());
    }
    let class = parameters.get_type().name()?;
    let message = format!("parameters are a tuple or a list of values, for $1, $2 and so on, and not a {class}");
    Err(misuse(parameters.py(), library, message))
}

#[pymethods]
impl Session {
    /// Runs a statement with parameters, or a text of any number of statements without.
    #[pyo3(signature = (text, parameters=None))]
    fn sql(&self, text: &Bound<'_, PyString>, parameters: Option<&Bound<'_, PyAny>>) -> PyResult<Result> {
        let gathered = match parameters {
            None => self.run(text.py(), &text.to_cow()?)?,
            Some(parameters) => self.statement(text, &[values(parameters, &self.library)?])?,
        };
        Ok(Result::new(gathered, self.library.clone()))
    }

    /// Runs a statement once for each of many sequences of parameters.
    fn sql_many(&self, text: &Bound<'_, PyString>, rows: &Bound<'_, PyAny>) -> PyResult<Result> {
        let rows = rows.try_iter()?.map(|row| values(&row?, &self.library)).collect::<PyResult<Vec<_>>>()?;
        Ok(Result::new(self.statement(text, &rows)?, self.library.clone()))
    }

    /// Inserts the rows of an object with `__arrow_c_stream__` into a table, by the names of the columns; returns how
    /// many these are.
    fn ingest(&self, table: &str, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        let py = data.py();
        if !data.hasattr("__arrow_c_stream__")? {
            let class = data.get_type().name()?;
            let message =
                format!("a {class} has no __arrow_c_stream__: pass a table, a frame or a reader of Arrow data");
            return Err(misuse(py, &self.library, message));
        }
        self.insert_all(py, table, RecordBatchStreamReader::from_pyarrow_bound(data)?)
    }

    /// The state of the session: "idle", "open" (in a transaction) or "failed" (in a transaction that has failed).
    #[getter]
    fn status(&self, py: Python<'_>) -> PyResult<&'static str> {
        Ok(match self.state(py)? {
            Status::Idle => "idle",
            Status::Open => "open",
            Status::Failed => "failed",
        })
    }

    /// Rolls back because of an exception that may follow from rows which were read; fails if the reads are no possible
    /// state.
    fn roll_back_certified(&self, py: Python<'_>) -> PyResult<()> {
        self.roll_back(py)
    }

    /// Ends the running statement, from another thread: it fails with 57014.
    fn cancel(&self) {
        // Relaxed: publishes nothing else.
        self.slot.cancel.store(true, Ordering::Relaxed);
    }

    /// Ends the running statement, and lets no other one begin in this session. Returns at once.
    fn stop(&self) {
        self.slot.stop();
    }

    /// Ends the session: its statement, and its transaction.
    fn end(&self, py: Python<'_>) {
        py.detach(|| self.slot.end());
    }
}
