//! SQL's values as values of Python.

use ermine_sql::{
    SqlError, SqlState,
    types::{Array, Environment, Numeric, Scalar, SqlType, Value, datetime, text},
};
use pyo3::{
    IntoPyObjectExt,
    prelude::*,
    types::{PyBytes, PyList, PyString, PyTuple},
};

use crate::{failure::exception, library::Library, parameters::EPOCH_ORDINAL};

/// What the conversion of a result's values needs.
pub struct Conversion<'r> {
    pub library: &'r Library,
    /// Knows the types that statements have created.
    pub environment: &'r Environment,
}

impl Conversion<'_> {
    /// Converts a value of a type.
    pub fn value<'py>(&self, py: Python<'py>, value: &Value, ty: SqlType) -> PyResult<Bound<'py, PyAny>> {
        match value {
            Value::Null => Ok(py.None().into_bound(py)),
            Value::Bool(value) => value.into_bound_py_any(py),
            Value::Int2(value) => value.into_bound_py_any(py),
            Value::Int4(value) => value.into_bound_py_any(py),
            Value::Int8(value) => value.into_bound_py_any(py),
            Value::Float4(value) => f64::from(*value).into_bound_py_any(py),
            Value::Float8(value) => value.into_bound_py_any(py),
            Value::Text(text) | Value::Char(text) => Ok(PyString::new(py, text).into_any()),
            Value::Bytea(bytes) => Ok(PyBytes::new(py, bytes).into_any()),
            Value::Oid(value) => value.into_bound_py_any(py),
            Value::Numeric(number) => self.numeric(py, number),
            Value::Date(days) => self.date(py, *days),
            Value::Time(micros) => self.time(py, *micros, py.None().bind(py)),
            Value::TimeTz { micros, ahead } => self.time(py, *micros, &self.zone(py, *ahead)?),
            Value::Timestamp(micros) => self.timestamp(py, *micros, py.None().bind(py)),
            Value::TimestampTz(micros) => self.timestamp(py, *micros, self.library.utc.bind(py)),
            Value::Interval { months, days, micros } => {
                // As psycopg: a year has 365 days, and another month 30.
                let days = i64::from(*days) + i64::from(months / 12) * 365 + i64::from(months % 12) * 30;
                self.library.timedelta.bind(py).call1((days, 0, *micros))
            }
            Value::Uuid(bytes) => {
                let number = u128::from_be_bytes(*bytes);
                self.library.uuid.bind(py).call1((py.None(), py.None(), py.None(), py.None(), number))
            }
            Value::Jsonb(_) | Value::Json(_) => {
                let text = text::to_string(value, ty, self.environment);
                self.library.loads.bind(py).call1((text,))
            }
            Value::Array(array) => self.array(py, array),
            Value::Record(record) => {
                let values = record.columns().map(|(field, value)| self.value(py, value, field.ty));
                PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?).map(Bound::into_any)
            }
            Value::Enum { .. }
            | Value::Inet(_)
            | Value::Macaddr(_)
            | Value::Macaddr8(_)
            | Value::Jsonpath(_)
            | Value::Bit(_) => Ok(PyString::new(py, &text::to_string(value, ty, self.environment)).into_any()),
        }
    }

    fn numeric<'py>(&self, py: Python<'py>, number: &Numeric) -> PyResult<Bound<'py, PyAny>> {
        self.library.decimal.bind(py).call1((number.to_string(),))
    }

    fn date<'py>(&self, py: Python<'py>, days: i32) -> PyResult<Bound<'py, PyAny>> {
        const ORDINAL_MAX: i32 = 3_652_059;
        match days.checked_add(EPOCH_ORDINAL) {
            Some(ordinal @ 1..=ORDINAL_MAX) => self.library.date.bind(py).call_method1("fromordinal", (ordinal,)),
            _ => Err(self.beyond(py, &Value::Date(days), SqlType::DATE)),
        }
    }

    fn time<'py>(&self, py: Python<'py>, micros: i64, zone: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if !(0..datetime::MICROS_PER_HOUR * 24).contains(&micros) {
            // 24:00 is a time of SQL.
            return Err(self.beyond(py, &Value::Time(micros), SqlType::TIME));
        }
        let [hour, minute, second, micros] = clock(micros);
        self.library.time.bind(py).call1((hour, minute, second, micros, zone))
    }

    fn timestamp<'py>(&self, py: Python<'py>, micros: i64, zone: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        const DAY: i64 = datetime::MICROS_PER_HOUR * 24;
        // From the year 1 to the year 9999.
        const DAYS: std::ops::RangeInclusive<i64> = -730_119..=2_921_939;
        let (days, time) = (micros.div_euclid(DAY), micros.rem_euclid(DAY));
        if !DAYS.contains(&days) {
            let value = if zone.is_none() { Value::Timestamp(micros) } else { Value::TimestampTz(micros) };
            let ty = value.natural_type().unwrap_or(SqlType::TIMESTAMP);
            return Err(self.beyond(py, &value, ty));
        }
        let civil = datetime::civil_from_days(days);
        let [hour, minute, second, micros] = clock(time);
        let fields = (civil.year, civil.month, civil.day, hour, minute, second, micros, zone);
        self.library.datetime.bind(py).call1(fields)
    }

    fn zone<'py>(&self, py: Python<'py>, ahead: i32) -> PyResult<Bound<'py, PyAny>> {
        let ahead = self.library.timedelta.bind(py).call1((0, ahead))?;
        self.library.timezone.bind(py).call1((ahead,))
    }

    /// Converts an array to lists in lists, one level for each dimension.
    fn array<'py>(&self, py: Python<'py>, array: &Array) -> PyResult<Bound<'py, PyAny>> {
        let element = SqlType::scalar(array.element);
        let values = array.elements().iter().map(|value| self.value(py, value, element));
        let mut items = values.collect::<PyResult<Vec<_>>>()?;
        for dimension in array.dimensions().iter().skip(1).rev() {
            let lists = items.chunks(dimension.length as usize).map(|items| PyList::new(py, items));
            items = lists.map(|list| list.map(Bound::into_any)).collect::<PyResult<_>>()?;
        }
        PyList::new(py, items).map(Bound::into_any)
    }

    /// Returns the exception for a date or a time that Python's classes do not have.
    fn beyond(&self, py: Python<'_>, value: &Value, ty: SqlType) -> PyErr {
        let text = text::to_string(value, ty, self.environment);
        let message = format!("the {ty} {text} is not representable in Python");
        let error = SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message).hint("Select it as text: column::text.");
        exception(py, self.library, &error)
    }
}

/// Returns hour, minute, second and microsecond of a time of day.
fn clock(micros: i64) -> [i64; 4] {
    let seconds = micros / datetime::MICROS_PER_SECOND;
    [seconds / 3600, seconds / 60 % 60, seconds % 60, micros % datetime::MICROS_PER_SECOND]
}

/// Whether values of a type are shown with the types that statements have created.
pub fn is_created(ty: SqlType) -> bool {
    matches!(ty.scalar, Scalar::Enum(_) | Scalar::Record)
}
