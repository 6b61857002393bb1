//! Values of Python as parameters of statements.
//!
//! A value is converted in two steps. With Python's lock it becomes the value of its natural type, or directly of the
//! parameter's; a `str` stays a text. Without the lock a text becomes a value of the parameter's type, as a literal
//! does: that may depend on the session's time zone and on the labels of enumerations.

use ermine_sql::{
    Result, SqlError, SqlState,
    types::{Array, Environment, Numeric, Scalar, SqlType, Value, array::Dimension, text},
};
use pyo3::{
    prelude::*,
    types::{PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple},
};

use crate::{
    failure::{exception, misuse},
    library::Library,
};

/// The days from 0001-01-01, which Python counts as 1, to 2000-01-01.
pub const EPOCH_ORDINAL: i32 = 730_120;
const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// A value of Python for a parameter.
pub enum Parameter {
    /// A value of the parameter's type, or a text to be read as one.
    Fits(Value),
    /// A value that has no direct form in the parameter's type, by the type that it has naturally.
    Other(SqlType),
}

use Parameter::{Fits, Other};

/// Converts a value for a parameter of a type.
pub fn parameter(value: &Bound<'_, PyAny>, ty: SqlType, library: &Library) -> PyResult<Parameter> {
    let py = value.py();
    if value.is_none() {
        return Ok(Fits(Value::Null));
    }
    if let Ok(text) = value.cast::<PyString>() {
        let text = text.to_cow()?;
        let text = without_nul(&text).map_err(|error| exception(py, library, &error))?;
        return Ok(Fits(Value::text(text)));
    }
    let is_json = !ty.is_array && matches!(ty.scalar, Scalar::Json | Scalar::Jsonb);
    if value.is_instance(library.json.bind(py))? {
        return json(&value.getattr("value")?, ty, library);
    }
    if let Ok(bool) = value.cast::<PyBool>() {
        return match ty {
            SqlType::BOOL => Ok(Fits(Value::Bool(bool.is_true()))),
            _ if is_json => json(value, ty, library),
            _ => Ok(Other(SqlType::BOOL)),
        };
    }
    if value.is_instance_of::<PyInt>() {
        return if is_json { json(value, ty, library) } else { integer(value, ty) };
    }
    if let Ok(float) = value.cast::<PyFloat>() {
        return match ty {
            SqlType::FLOAT8 => Ok(Fits(Value::Float8(float.value()))),
            SqlType::FLOAT4 if is_real(float.value()) => Ok(Fits(Value::Float4(float.value() as f32))),
            _ if is_json => json(value, ty, library),
            _ => Ok(Other(SqlType::FLOAT8)),
        };
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return if is_json { json(value, ty, library) } else { list(value, ty, library) };
    }
    if value.is_instance_of::<PyDict>() {
        return json(value, if is_json { ty } else { SqlType::JSONB }, library)
            .map(|json| fits(json, SqlType::JSONB, ty));
    }
    other(value, ty, library)
}

/// Returns a text; fails if it contains NUL, which no text of SQL does.
pub fn without_nul(text: &str) -> Result<&str> {
    if text.contains('\0') {
        let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
        return Err(SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
            .hint("A text has no character 0: store it as bytea."));
    }
    Ok(text)
}

/// Returns whether a `real` is near this number. Others keep their type, and its cast to `real` fails.
fn is_real(float: f64) -> bool {
    let narrow = float as f32;
    narrow.is_infinite() == float.is_infinite() && (narrow == 0.0) == (float == 0.0)
}

/// Returns the parameter for a value whose natural type is `natural`.
fn fits(value: Parameter, natural: SqlType, ty: SqlType) -> Parameter {
    let is_json = |ty: SqlType| matches!(ty, SqlType::JSON | SqlType::JSONB);
    if ty == natural || is_json(ty) && is_json(natural) { value } else { Other(natural) }
}

/// Converts the values that are rarer.
fn other(value: &Bound<'_, PyAny>, ty: SqlType, library: &Library) -> PyResult<Parameter> {
    let py = value.py();
    let is = |class: &Py<PyAny>| value.is_instance(class.bind(py));
    let found = if value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>() {
        Value::Bytea(value.extract::<Vec<u8>>()?.into())
    } else if value.is_instance_of::<PyMemoryView>() {
        Value::Bytea(value.call_method0("tobytes")?.extract::<Vec<u8>>()?.into())
    } else if is(&library.datetime)? {
        timestamp(value)?
    } else if is(&library.date)? {
        Value::Date(value.call_method0("toordinal")?.extract::<i32>()? - EPOCH_ORDINAL)
    } else if is(&library.time)? {
        match offset(value)? {
            None => Value::Time(time_of_day(value)?),
            Some(ahead) => Value::TimeTz { micros: time_of_day(value)?, ahead: (ahead / MICROS_PER_SECOND) as i32 },
        }
    } else if is(&library.timedelta)? {
        let part = |name: &str| value.getattr(name)?.extract::<i64>();
        let micros = part("seconds")? * MICROS_PER_SECOND + part("microseconds")?;
        Value::Interval { months: 0, days: part("days")? as i32, micros }
    } else if is(&library.uuid)? {
        Value::Uuid(value.getattr("bytes")?.extract::<[u8; 16]>()?)
    } else if is(&library.decimal)? {
        match value.str()?.to_cow()?.parse::<Numeric>() {
            Ok(number) => Value::Numeric(number),
            Err(error) => return Err(exception(py, library, &error)),
        }
    } else if value.hasattr("__index__")? {
        // The integers of numpy.
        return integer(&value.call_method0("__index__")?, ty);
    } else {
        let class = value.get_type().fully_qualified_name()?;
        let message = format!(
            "a value of the class {class} cannot be a parameter: convert it to one of the classes that docs/python.md \
             lists, or to a str that SQL reads as a value of the type {ty}"
        );
        return Err(misuse(py, library, message));
    };
    let natural = found.natural_type().unwrap_or(SqlType::TEXT);
    Ok(fits(Fits(found), natural, ty))
}

fn integer(value: &Bound<'_, PyAny>, ty: SqlType) -> PyResult<Parameter> {
    let Ok(number) = value.extract::<i64>() else {
        let digits = value.str()?;
        let number = digits.to_cow()?.parse::<Numeric>();
        return Ok(match (number, ty) {
            (Ok(number), SqlType::NUMERIC) => Fits(Value::Numeric(number)),
            _ => Other(SqlType::NUMERIC),
        });
    };
    let fits = match ty {
        SqlType::INT8 => Some(Value::Int8(number)),
        SqlType::INT4 => i32::try_from(number).ok().map(Value::Int4),
        SqlType::INT2 => i16::try_from(number).ok().map(Value::Int2),
        SqlType::NUMERIC => Some(Value::Numeric(number.into())),
        SqlType::FLOAT8 => Some(Value::Float8(number as f64)),
        SqlType::FLOAT4 => Some(Value::Float4(number as f32)),
        SqlType::OID => u32::try_from(number).ok().map(Value::Oid),
        _ => None,
    };
    // As the type of a literal.
    let natural = if i32::try_from(number).is_ok() { SqlType::INT4 } else { SqlType::INT8 };
    Ok(fits.map_or(Other(natural), Fits))
}

/// Converts a `datetime`: one with a time zone is a `timestamp with time zone`.
fn timestamp(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    let days = i64::from(value.call_method0("toordinal")?.extract::<i32>()? - EPOCH_ORDINAL);
    let micros = days * MICROS_PER_DAY + time_of_day(value)?;
    Ok(match offset(value)? {
        None => Value::Timestamp(micros),
        Some(ahead) => Value::TimestampTz(micros - ahead),
    })
}

/// Returns the microseconds since midnight of a `time` or a `datetime`.
fn time_of_day(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    let part = |name: &str| value.getattr(name)?.extract::<i64>();
    let seconds = (part("hour")? * 60 + part("minute")?) * 60 + part("second")?;
    Ok(seconds * MICROS_PER_SECOND + part("microsecond")?)
}

/// Returns the microseconds that a time is ahead of UTC, if it has a time zone.
fn offset(value: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    let offset = value.call_method0("utcoffset")?;
    if offset.is_none() {
        return Ok(None);
    }
    let part = |name: &str| offset.getattr(name)?.extract::<i64>();
    Ok(Some(part("days")? * MICROS_PER_DAY + part("seconds")? * MICROS_PER_SECOND + part("microseconds")?))
}

/// Converts a value to the text of its JSON.
fn json(value: &Bound<'_, PyAny>, ty: SqlType, library: &Library) -> PyResult<Parameter> {
    let text = library.dumps.bind(value.py()).call1((value,))?;
    let text = Fits(Value::text(&*text.cast::<PyString>()?.to_cow()?));
    Ok(fits(text, SqlType::JSONB, ty))
}

/// Converts a list, or lists in a list, to an array.
fn list(value: &Bound<'_, PyAny>, ty: SqlType, library: &Library) -> PyResult<Parameter> {
    let element = if ty.is_array { Some(SqlType::scalar(ty.scalar)) } else { None };
    let mut flat = Flat { dimensions: Vec::new(), elements: Vec::new(), element, natural: None };
    flat.add(value, 0, library)?;
    if let Some(natural) = flat.natural {
        return Ok(Other(natural.array()));
    }
    let scalar = match element {
        Some(element) => element.scalar,
        None if flat.elements.is_empty() => return Ok(Fits(Value::text("{}"))),
        // Texts and None only.
        None => return Ok(Other(SqlType::TEXT.array())),
    };
    match Array::with_dimensions(scalar, &flat.dimensions, flat.elements) {
        Some(array) => Ok(Fits(Value::array(array))),
        None => {
            Err(misuse(value.py(), library, "lists in a list have different lengths: an array has rows of one length"))
        }
    }
}

/// The elements of a list and of the lists in it.
struct Flat {
    dimensions: Vec<Dimension>,
    elements: Vec<Value>,
    /// The type of the parameter's elements, if it is an array.
    element: Option<SqlType>,
    /// The natural type of an element that has no direct form in that type.
    natural: Option<SqlType>,
}

impl Flat {
    /// Lists in more lists than an array has dimensions are no array; the recursion ends there.
    const DEPTH_MAX: usize = ermine_sql::types::array::DIMENSIONS_MAX;

    fn add(&mut self, list: &Bound<'_, PyAny>, depth: usize, library: &Library) -> PyResult<()> {
        let unequal = |what: &str| Err(misuse(list.py(), library, format!("a list cannot be an array: {what}")));
        if depth == Self::DEPTH_MAX {
            return unequal("it has too many lists in one another");
        }
        let length = list.len()? as u32;
        match self.dimensions.get(depth) {
            None if self.elements.is_empty() => self.dimensions.push(Dimension { length, lower: 1 }),
            Some(dimension) if dimension.length == length => {}
            _ => return unequal("the lists in it have different lengths"),
        }
        for item in list.try_iter()? {
            let item = item?;
            if item.is_instance_of::<PyList>() || item.is_instance_of::<PyTuple>() {
                self.add(&item, depth + 1, library)?;
                continue;
            }
            if depth + 1 < self.dimensions.len() {
                return unequal("it has lists beside single values");
            }
            match parameter(&item, self.element.unwrap_or(SqlType::TEXT), library)? {
                Fits(value) => self.elements.push(value),
                Other(natural) => {
                    self.elements.push(Value::Null);
                    self.natural = Some(self.natural.map_or(natural, |known| wider(known, natural)));
                }
            }
        }
        Ok(())
    }
}

/// Returns the type of an array that has elements of both natural types.
fn wider(one: SqlType, other: SqlType) -> SqlType {
    let rank =
        |ty| [SqlType::INT4, SqlType::INT8, SqlType::NUMERIC, SqlType::FLOAT8].iter().position(|known| *known == ty);
    if rank(other) > rank(one) { other } else { one }
}

/// Whether a text is not a value of a type as it is.
fn is_read(ty: SqlType) -> bool {
    !ty.is_text() || matches!(ty, SqlType::CHAR | SqlType::INTERNAL_CHAR)
}

/// Makes a text a value of the parameter's type.
pub fn settle(value: &mut Value, ty: SqlType, environment: &Environment) -> Result<()> {
    match value {
        Value::Text(text) if is_read(ty) => {
            *value = text::parse(ty, -1, &std::mem::take(text), environment)?;
        }
        Value::Array(array) if is_read(SqlType::scalar(array.element)) => {
            let element = SqlType::scalar(array.element);
            if array.elements().iter().any(|value| matches!(value, Value::Text(_))) {
                let settled = std::mem::replace(&mut **array, Array::new(element.scalar, Vec::new()));
                **array = settled.map(element.scalar, |mut value| {
                    settle(&mut value, element, environment)?;
                    Ok(value)
                })?;
            }
        }
        _ => {}
    }
    Ok(())
}
