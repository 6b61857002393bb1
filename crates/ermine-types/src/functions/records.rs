//! Rows from JSON: `json_to_record`, `json_populate_record` and their like, for `jsonb` and for arrays.
//!
//! The columns are not those of the function: a record with their names and types, and with the values that they have
//! where the JSON lacks them, is the first argument.

use std::collections::HashMap;

use super::SetRows;
use crate::{
    Array, Environment, Json, Record, Scalar, SqlType, Value,
    array::Dimension,
    error::{Result, SqlError, SqlState},
    json::raw,
    operators::mismatch,
    text,
};

/// The arguments of such a call.
struct Call {
    /// The columns, with the values that they have where the JSON lacks them.
    columns: Record,
    /// The modifiers of the columns' types.
    modifiers: Vec<i32>,
    /// The text of the JSON; `None`: it is NULL.
    json: Option<Box<str>>,
    /// The name of the function in messages.
    function: Value,
}

impl Call {
    fn of(arguments: Vec<Value>, environment: &Environment) -> Result<Self> {
        let Ok([Value::Record(columns), Value::Array(modifiers), json, function]) = <[Value; 4]>::try_from(arguments)
        else {
            return Err(mismatch());
        };
        let json = match json {
            Value::Null => None,
            Value::Json(text) => Some(text),
            Value::Jsonb(json) => Some(json.to_string().into()),
            _ => return Err(mismatch()),
        };
        if let Some(json) = &json {
            environment.memory.check_parts(json.as_bytes())?;
        }
        let modifier = |value: &Value| if let Value::Int4(modifier) = value { *modifier } else { -1 };
        let modifiers = modifiers.elements().iter().map(modifier).collect();
        Ok(Self { columns: *columns, modifiers, json, function })
    }

    fn refused(&self, what: &str) -> SqlError {
        let function = if let Value::Text(name) = &self.function { name } else { "a function of JSON" };
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("cannot call {function} on {what}"))
    }

    /// Returns the row of an object.
    fn row(&self, object: &str, environment: &Environment) -> Result<Vec<Value>> {
        let mut parts = HashMap::new();
        for (key, part) in raw::parts(object)? {
            // Of several parts with one key, the last one counts.
            parts.insert(raw::plain(key.unwrap_or_default())?, part);
        }
        let columns = self.columns.columns().zip(&self.modifiers);
        let value = |((field, usual), modifier): ((&crate::record::Field, &Value), &i32)| {
            environment.check()?;
            match parts.get(&*field.name) {
                None => Ok(usual.clone()),
                Some(part) => value(part, field.ty, *modifier, environment, &field.name),
            }
        };
        columns.map(value).collect()
    }
}

/// The row of an object; of NULL, that of the record.
pub fn record_from_json(arguments: Vec<Value>, environment: &Environment) -> Result<SetRows> {
    let call = Call::of(arguments, environment)?;
    let row = match call.json.as_deref().map(|json| (json, raw::type_name(json))) {
        None => call.columns.values().to_vec(),
        Some((json, "object")) => call.row(json, environment)?,
        Some((_, "array")) => return Err(call.refused("an array")),
        Some(_) => return Err(call.refused("a scalar")),
    };
    Ok(SetRows::of_rows(vec![row]))
}

/// The rows of an array of objects; of NULL, none.
pub fn records_from_json(arguments: Vec<Value>, environment: &Environment) -> Result<SetRows> {
    let call = Call::of(arguments, environment)?;
    let Some(json) = &call.json else { return Ok(SetRows::none()) };
    match raw::type_name(json) {
        "array" => {}
        "object" => return Err(call.refused("an object")),
        _ => return Err(call.refused("a scalar")),
    }
    let mut rows = Vec::new();
    for (_, part) in raw::parts(json)? {
        if raw::type_name(part) != "object" {
            let function = if let Value::Text(name) = &call.function { name } else { "" };
            let message = format!("argument of {function} must be an array of objects");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        rows.push(call.row(part, environment)?);
    }
    Ok(SetRows::of_rows(rows))
}

/// Returns the value of a part of JSON, which is that of a key.
fn value(part: &str, ty: SqlType, modifier: i32, environment: &Environment, key: &str) -> Result<Value> {
    let kind = raw::type_name(part);
    match ty.scalar {
        _ if kind == "null" => Ok(Value::Null),
        _ if ty.is_array && kind == "array" => array(part, ty.scalar, modifier, environment, key),
        _ if ty.is_array && kind != "string" => Err(no_array(key)),
        Scalar::Json if !ty.is_array => Ok(Value::Json(part.trim().into())),
        Scalar::Jsonb if !ty.is_array => Ok(Value::json(part.parse::<Json>()?)),
        _ => text::parse(ty, modifier, &raw::plain(part)?, environment),
    }
}

fn no_array(key: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "expected JSON array")
        .hint(format!("See the value of key \"{key}\"."))
}

/// Returns the array that an array of JSON stands for: of several dimensions, where its elements are arrays.
fn array(part: &str, element: Scalar, modifier: i32, environment: &Environment, key: &str) -> Result<Value> {
    let takes_arrays = matches!(element, Scalar::Json | Scalar::Jsonb);
    let (mut lengths, mut level) = (Vec::new(), vec![part]);
    // The elements of one dimension after the other; all of a dimension have the same length.
    loop {
        let inner: Vec<Vec<&str>> = level
            .iter()
            .map(|part| Ok(raw::parts(part)?.into_iter().map(|(_, part)| part).collect()))
            .collect::<Result<_>>()?;
        let length = inner.first().map_or(0, Vec::len);
        if inner.iter().any(|part| part.len() != length) {
            return Err(uneven());
        }
        lengths.push(length);
        level = inner.into_iter().flatten().collect();
        let arrays = level.iter().filter(|part| raw::type_name(part) == "array").count();
        match arrays {
            0 => break,
            _ if takes_arrays => break,
            some if some == level.len() => {}
            _ => return Err(uneven()),
        }
    }
    let ty = SqlType::scalar(element);
    let elements = level.into_iter().map(|part| value(part, ty, modifier, environment, key)).collect::<Result<_>>()?;
    if lengths.contains(&0) {
        return Ok(Value::array(Array::new(element, Vec::new())));
    }
    let dimension = |length: &usize| Some(Dimension { length: u32::try_from(*length).ok()?, lower: 1 });
    let dimensions: Option<Vec<_>> = lengths.iter().map(dimension).collect();
    let array = dimensions.and_then(|dimensions| Array::with_dimensions(element, &dimensions, elements));
    array.map(Value::array).ok_or_else(|| {
        let message = format!("number of array dimensions ({}) exceeds the maximum allowed", lengths.len());
        SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
    })
}

fn uneven() -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "malformed JSON array")
        .detail("Multidimensional arrays must have sub-arrays with matching dimensions.")
}
