//! Operators of JSON and arrays.

use crate::{
    Array, Environment, Json, SqlType, Value,
    array::Dimension,
    error::{Result, SqlError, SqlState},
    functions::{
        jsonpath::{path_exists, path_matches},
        resolution::{Outcome, Parameter},
    },
    json::{path::Change, raw},
    order,
};

use super::{Tables, check_equality, take};

/// Returns the elements of a `text[]` that are not NULL.
pub(crate) fn texts(array: &Array) -> Vec<&str> {
    array
        .elements()
        .iter()
        .filter_map(|value| if let Value::Text(text) = value { Some(&**text) } else { None })
        .collect()
}

fn json_or_null(json: Option<&Json>) -> Value {
    json.map_or(Value::Null, |json| Value::json(json.clone()))
}

/// Returns an element; a scalar counts as an array of itself.
fn element(json: &Json, at: i32) -> Option<&Json> {
    if json.is_scalar() && matches!(at, 0 | -1) { Some(json) } else { json.element(at.into()) }
}

/// Returns the text of a part of a `json` without quotes; NULL if the part does not exist, or is null.
pub(crate) fn plain_json(part: Option<&str>) -> Result<Value> {
    match part {
        Some(text) if raw::type_name(text) != "null" => raw::plain(text).map(Value::text),
        _ => Ok(Value::Null),
    }
}

/// Registers `->` and its like for `json`: parts of its text.
fn register_json_texts(tables: &mut Tables) {
    use SqlType as T;
    tables.binary("@?", T::JSONB, T::JSONPATH, T::BOOL, path_exists);
    tables.binary("@@", T::JSONB, T::JSONPATH, T::BOOL, path_matches);
    tables.binary("->", T::JSON, T::TEXT, T::JSON, |left, right, _| {
        take!(left => Value::Json(text), right => Value::Text(key) => Ok(json_part(raw::get(text, key)?)))
    });
    tables.binary("->", T::JSON, T::INT4, T::JSON, |left, right, _| {
        take!(left => Value::Json(text), right => Value::Int4(at) => Ok(json_part(raw::element(text, (*at).into())?)))
    });
    tables.binary("->>", T::JSON, T::TEXT, T::TEXT, |left, right, _| {
        take!(left => Value::Json(text), right => Value::Text(key) => plain_json(raw::get(text, key)?))
    });
    tables.binary("->>", T::JSON, T::INT4, T::TEXT, |left, right, _| {
        take!(left => Value::Json(text), right => Value::Int4(at) => plain_json(raw::element(text, (*at).into())?))
    });
    tables.binary("#>", T::JSON, T::TEXT.array(), T::JSON, |left, right, _| {
        take!(left => Value::Json(text), right => Value::Array(path) => Ok(json_part(follow_text(text, path)?)))
    });
    tables.binary("#>>", T::JSON, T::TEXT.array(), T::TEXT, |left, right, _| {
        take!(left => Value::Json(text), right => Value::Array(path) => plain_json(follow_text(text, path)?))
    });
}

fn json_part(part: Option<&str>) -> Value {
    part.map_or(Value::Null, |text| Value::Json(text.into()))
}

/// Returns the part that a path leads to; a path with NULL leads nowhere.
fn follow_text<'t>(text: &'t str, path: &Array) -> Result<Option<&'t str>> {
    if path.elements().iter().any(Value::is_null) { Ok(None) } else { raw::follow(text, &texts(path)) }
}

fn text_or_null(json: Option<&Json>) -> Value {
    json.and_then(Json::to_plain_text).map_or(Value::Null, Value::text)
}

/// Returns the part that a path leads to; a path with NULL leads nowhere.
pub(crate) fn follow<'a>(json: &'a Json, path: &Array) -> Option<&'a Json> {
    if path.elements().iter().any(Value::is_null) {
        return None;
    }
    json.follow(texts(path))
}

fn contains(left: &Value, right: &Value, environment: &Environment) -> Result<Value> {
    match (left, right) {
        (Value::Jsonb(left), Value::Jsonb(right)) => left.contains(right, || environment.check()).map(Value::Bool),
        (Value::Array(left), Value::Array(right)) => {
            let element = SqlType::scalar(left.element);
            check_equality(element)?;
            for wanted in right.elements() {
                check_large(left, environment)?;
                if !has_element(left, wanted, element) {
                    return Ok(Value::Bool(false));
                }
            }
            Ok(Value::Bool(true))
        }
        _ => Err(super::mismatch()),
    }
}

/// Whether a `jsonb` has one of the keys (`decides` is true), or all of them.
fn has_keys(json: &Value, keys: &Value, decides: bool, environment: &Environment) -> Result<Value> {
    take!(json => Value::Jsonb(json), keys => Value::Array(keys) => {
        for key in texts(keys) {
            environment.check()?;
            if json.has_key(key) == decides {
                return Ok(Value::Bool(decides));
            }
        }
        Ok(Value::Bool(!decides))
    })
}

/// Called before another pass over all elements.
fn check_large(array: &Array, environment: &Environment) -> Result<()> {
    if array.elements().len() > 100 { environment.check() } else { Ok(()) }
}

/// Whether an array has an element; NULL is never equal to one.
fn has_element(array: &Array, wanted: &Value, element: SqlType) -> bool {
    !wanted.is_null()
        && array.elements().iter().any(|found| !found.is_null() && order::compare(found, wanted, element).is_eq())
}

fn overlap(left: &Value, right: &Value, environment: &Environment) -> Result<Value> {
    take!(left => Value::Array(left), right => Value::Array(right) => {
        let element = SqlType::scalar(left.element);
        check_equality(element)?;
        for wanted in right.elements() {
            check_large(left, environment)?;
            if has_element(left, wanted, element) {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    })
}

fn incompatible() -> SqlError {
    SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, "cannot concatenate incompatible arrays")
}

/// Concatenates two arrays.
pub(crate) fn concatenate_arrays(left: &Array, right: &Array) -> Result<Array> {
    if left.dimensions().is_empty() {
        return Ok(right.clone());
    }
    if right.dimensions().is_empty() {
        return Ok(left.clone());
    }
    let (first, second) = (left.dimensions(), right.dimensions());
    let joined = |outer: Dimension, more: u32| {
        outer.length.checked_add(more).map(|length| Dimension { length, ..outer }).ok_or_else(crate::array::too_large)
    };
    let dimensions = if first.len() == second.len() && first[1..] == second[1..] {
        let mut dimensions = first.to_vec();
        dimensions[0] = joined(first[0], second[0].length)?;
        dimensions
    } else if first.len() == second.len() + 1 && &first[1..] == second {
        let mut dimensions = first.to_vec();
        dimensions[0] = joined(first[0], 1)?;
        dimensions
    } else if second.len() == first.len() + 1 && &second[1..] == first {
        let mut dimensions = second.to_vec();
        dimensions[0] = joined(second[0], 1)?;
        dimensions
    } else {
        return Err(incompatible());
    };
    let elements = left.elements().iter().chain(right.elements()).cloned().collect();
    Array::with_dimensions(left.element, &dimensions, elements).ok_or_else(incompatible)
}

/// Returns an array with one more element, at its front or its end.
pub(crate) fn extend_array(array: &Array, value: &Value, at_front: bool) -> Result<Array> {
    let lower = match array.dimensions() {
        [] => 1,
        [dimension] => dimension.lower,
        _ => {
            return Err(SqlError::new(SqlState::DATA_EXCEPTION, "argument must be empty or one-dimensional array"));
        }
    };
    let mut elements = array.elements().to_vec();
    elements.insert(if at_front { 0 } else { elements.len() }, value.clone());
    let dimension = Dimension { length: elements.len() as u32, lower };
    Array::with_dimensions(array.element, &[dimension], elements).ok_or_else(crate::array::too_large)
}

fn concatenate(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
    match (left, right) {
        (Value::Jsonb(left), Value::Jsonb(right)) => {
            Json::concatenate((**left).clone(), (**right).clone()).map(Value::json)
        }
        (Value::Array(left), Value::Array(right)) => concatenate_arrays(left, right).map(Value::array),
        (Value::Array(array), value) => extend_array(array, value, false).map(Value::array),
        (value, Value::Array(array)) => extend_array(array, value, true).map(Value::array),
        _ => Err(super::mismatch()),
    }
}

pub(super) fn register(tables: &mut Tables) {
    use SqlType as T;
    let (json, texts_type) = (T::JSONB, T::TEXT.array());
    register_json_texts(tables);
    tables.binary("->", json, T::TEXT, json, |left, right, _| {
        take!(left => Value::Jsonb(json), right => Value::Text(key) => Ok(json_or_null(json.get(key))))
    });
    tables.binary("->", json, T::INT4, json, |left, right, _| {
        take!(left => Value::Jsonb(json), right => Value::Int4(at) => Ok(json_or_null(element(json, *at))))
    });
    tables.binary("->>", json, T::TEXT, T::TEXT, |left, right, _| {
        take!(left => Value::Jsonb(json), right => Value::Text(key) => Ok(text_or_null(json.get(key))))
    });
    tables.binary("->>", json, T::INT4, T::TEXT, |left, right, _| {
        take!(left => Value::Jsonb(json), right => Value::Int4(at) => Ok(text_or_null(element(json, *at))))
    });
    tables.binary("#>", json, texts_type, json, |left, right, _| {
        take!(left => Value::Jsonb(json), right => Value::Array(path) => Ok(json_or_null(follow(json, path))))
    });
    tables.binary("#>>", json, texts_type, T::TEXT, |left, right, _| {
        take!(left => Value::Jsonb(json), right => Value::Array(path) => Ok(text_or_null(follow(json, path))))
    });
    tables.binary("@>", json, json, T::BOOL, contains);
    tables.binary("<@", json, json, T::BOOL, |left, right, environment| contains(right, left, environment));
    tables.binary("?", json, T::TEXT, T::BOOL, |left, right, _| {
        take!(left => Value::Jsonb(json), right => Value::Text(key) => Ok(Value::Bool(json.has_key(key))))
    });
    tables.binary("?|", json, texts_type, T::BOOL, |left, right, environment| has_keys(left, right, true, environment));
    tables
        .binary("?&", json, texts_type, T::BOOL, |left, right, environment| has_keys(left, right, false, environment));
    tables.binary("-", json, T::TEXT, json, |left, right, _| {
        take!(left => Value::Jsonb(json), right => Value::Text(key) =>
            (**json).clone().without_key(key).map(Value::json))
    });
    tables.binary("-", json, T::INT4, json, |left, right, _| {
        take!(left => Value::Jsonb(json), right => Value::Int4(at) =>
            (**json).clone().without_element((*at).into()).map(Value::json))
    });
    tables.binary("-", json, texts_type, json, |left, right, environment| {
        take!(left => Value::Jsonb(json), right => Value::Array(keys) => {
            let without = |json: Json, key| {
                environment.check()?;
                json.without_key(key)
            };
            texts(keys).into_iter().try_fold((**json).clone(), without).map(Value::json)
        })
    });
    tables.binary("#-", json, texts_type, json, |left, right, _| {
        take!(left => Value::Jsonb(json), right => Value::Array(path) =>
            (**json).clone().change(&texts(path), Change::Delete).map(Value::json))
    });
    tables.binary("||", json, json, json, concatenate);
    register_arrays(tables);
}

fn register_arrays(tables: &mut Tables) {
    use SqlType as T;
    let boolean = Outcome::Is(T::BOOL);
    tables.add("@>", Parameter::Array, Parameter::Array, boolean, |left, right, environment| {
        contains(left, right, environment)
    });
    tables.add("<@", Parameter::Array, Parameter::Array, boolean, |left, right, environment| {
        contains(right, left, environment)
    });
    tables.add("&&", Parameter::Array, Parameter::Array, boolean, overlap);
    // Operators of ranges and geometry.
    for (name, left, right) in [
        ("@>", Parameter::Foreign, Parameter::Foreign),
        ("@>", Parameter::Foreign, Parameter::NonArray),
        ("<@", Parameter::Foreign, Parameter::Foreign),
        ("<@", Parameter::NonArray, Parameter::Foreign),
        ("&&", Parameter::Foreign, Parameter::Foreign),
        ("?|", Parameter::Foreign, Parameter::Foreign),
    ] {
        tables.add(name, left, right, boolean, |_, _, _| Err(super::mismatch()));
    }
    tables.add("||", Parameter::CommonArray, Parameter::CommonArray, Outcome::Array, concatenate);
    tables.add("||", Parameter::CommonArray, Parameter::Common, Outcome::Array, concatenate);
    tables.add("||", Parameter::Common, Parameter::CommonArray, Outcome::Array, concatenate);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::tests::apply;

    #[test]
    fn collections_are_taken_apart_and_joined() {
        let (json, text, ints) = (SqlType::JSONB, SqlType::TEXT, SqlType::INT4.array());
        for (left, operator, right, expected) in [
            ((json, r#"{"a":{"b":"c"}}"#), "->", (text, "a"), r#"{"b": "c"}"#),
            ((json, r#"["x","y"]"#), "->>", (SqlType::INT4, "-1"), "y"),
            ((json, r#"{"a":{"b":"c"}}"#), "#>>", (text.array(), "{a,b}"), "c"),
            ((json, r#"{"a":1}"#), "||", (json, r#"{"a":2}"#), r#"{"a": 2}"#),
            ((json, r#"{"a":1}"#), "?", (text, "a"), "t"),
            ((json, r#"["a","b"]"#), "-", (text, "a"), r#"["b"]"#),
            ((json, r#"{"a":[1]}"#), "@>", (json, r#"{"a":[]}"#), "t"),
            ((ints, "{1,2,3}"), "@>", (ints, "{3,1}"), "t"),
            ((ints, "{1,2}"), "&&", (ints, "{3}"), "f"),
            ((ints, "{1,2}"), "||", (ints, "{3}"), "{1,2,3}"),
            ((ints, "{{1,2}}"), "||", (ints, "{3,4}"), "{{1,2},{3,4}}"),
            ((ints, "{1}"), "||", (SqlType::INT4, "2"), "{1,2}"),
            ((SqlType::INT4, "2"), "||", (ints, "{1}"), "{2,1}"),
        ] {
            assert_eq!(apply(left, operator, right).unwrap(), expected, "{left:?} {operator} {right:?}");
        }
    }
}
