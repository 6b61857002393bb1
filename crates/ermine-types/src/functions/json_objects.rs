//! `json_object` and `jsonb_object`: objects of texts.

use crate::{
    Array, Environment, Json, SqlType, Value,
    array::Dimension,
    error::{Result, SqlError, SqlState},
    json::write::{string_bytes, write_string},
};

use super::Table;

fn wrong(message: &str) -> SqlError {
    SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
}

/// Returns the keys and the values of an array of pairs, or of an array of each.
fn pairs<'v>(arguments: &'v [Value], environment: &Environment) -> Result<Vec<(&'v str, Option<&'v str>)>> {
    let (keys, values): (Vec<&Value>, Vec<&Value>) = match arguments {
        [Value::Array(all)] => {
            match all.dimensions() {
                [] => {}
                [Dimension { length, .. }] if length % 2 == 0 => {}
                [_] => return Err(wrong("array must have even number of elements")),
                [_, Dimension { length: 2, .. }] => {}
                [_, _] => return Err(wrong("array must have two columns")),
                _ => return Err(wrong("wrong number of array subscripts")),
            }
            all.elements().as_chunks::<2>().0.iter().map(|[key, value]| (key, value)).unzip()
        }
        [Value::Array(keys), Value::Array(values)] => {
            let is_flat = |array: &Array| array.dimensions().len() <= 1;
            if !is_flat(keys) || keys.dimensions().len() != values.dimensions().len() {
                return Err(wrong("wrong number of array subscripts"));
            }
            if keys.elements().len() != values.elements().len() {
                return Err(wrong("mismatched array dimensions"));
            }
            (keys.elements().iter().collect(), values.elements().iter().collect())
        }
        _ => return Err(crate::operators::mismatch()),
    };
    let mut bytes = 0;
    let pair = |(key, value): (&'v Value, &'v Value)| {
        let text = |value: &'v Value| if let Value::Text(text) = value { Some(&**text) } else { None };
        let missing = || SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "null value not allowed for object key");
        let (key, value) = (text(key).ok_or_else(missing)?, text(value));
        bytes += string_bytes(key) + value.map_or(4, string_bytes) + 5;
        Ok((key, value))
    };
    let pairs = keys.into_iter().zip(values).map(pair).collect::<Result<_>>()?;
    environment.memory.check(bytes)?;
    Ok(pairs)
}

fn json(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let mut out = String::from("{");
    for (at, (key, value)) in pairs(arguments, environment)?.into_iter().enumerate() {
        out.push_str(if at > 0 { ", " } else { "" });
        // Writing to a string does not fail.
        let _ = write_string(key, &mut out);
        out.push_str(" : ");
        match value {
            Some(value) => drop(write_string(value, &mut out)),
            None => out.push_str("null"),
        }
    }
    out.push('}');
    Ok(Value::Json(out.into()))
}

fn jsonb(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let pair = |(key, value): (&str, Option<&str>)| {
        (Box::from(key), value.map_or(Json::Null, |value| Json::String(value.into())))
    };
    Ok(Value::json(Json::object(pairs(arguments, environment)?.into_iter().map(pair).collect())))
}

pub(super) fn register(table: &mut Table) {
    let texts = SqlType::TEXT.array();
    table.add("json_object", &[texts, texts], SqlType::JSON, json).optional(1);
    table.add("jsonb_object", &[texts, texts], SqlType::JSONB, jsonb).optional(1);
}
