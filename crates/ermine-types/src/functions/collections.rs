//! Functions of JSON and arrays.

use crate::{
    Array, Environment, Json, Record, SqlType, Value,
    array::Dimension,
    datetime::{self, Style},
    error::{Result, SqlError, SqlState},
    functions::resolution::{Outcome, Parameter},
    json::{
        path::Change,
        raw,
        write::{string_bytes, write_string},
    },
    operators::{check_equality, concatenate_arrays, extend_array, texts},
    order, text,
};

use super::{Table, arguments};

/// Converts any value to JSON.
pub(crate) fn to_json(value: &Value, environment: &Environment) -> Result<Json> {
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Int2(number) => Json::integer((*number).into()),
        Value::Int4(number) => Json::integer((*number).into()),
        Value::Int8(number) => Json::integer(*number),
        Value::Numeric(number) if number.is_finite() => Json::Number(number.clone()),
        Value::Float4(number) if number.is_finite() => Json::Number(text_of(value, environment).parse()?),
        Value::Float8(number) if number.is_finite() => Json::Number(text_of(value, environment).parse()?),
        Value::Jsonb(json) => (**json).clone(),
        Value::Json(text) => {
            environment.memory.check_parts(text.as_bytes())?;
            text.parse()?
        }
        Value::Array(array) => array_to_json(array, environment)?,
        Value::Record(record) => {
            let pairs = record.columns().map(|(field, value)| Ok((field.name.clone(), to_json(value, environment)?)));
            Json::object(pairs.collect::<Result<_>>()?)
        }
        // JSON has ISO's form in every style, with the letter T in points in time.
        Value::Date(days) => {
            let mut text = String::new();
            // Writing to a string does not fail.
            let _ = datetime::write_date(*days, Style::default(), &mut text);
            Json::String(text.into())
        }
        Value::Timestamp(_) | Value::TimestampTz(_) => {
            let mut text = String::new();
            // Writing to a string does not fail.
            let _ = match value {
                Value::TimestampTz(micros) => {
                    datetime::write_timestamptz(*micros, &environment.time_zone, Style::default(), &mut text)
                }
                Value::Timestamp(micros) => datetime::write_timestamp(*micros, Style::default(), &mut text),
                _ => Ok(()),
            };
            let mut text = text.replacen(' ', "T", 1);
            // An offset of whole hours gets its minutes.
            let offset = text.trim_end_matches(" BC").len();
            if matches!(value, Value::TimestampTz(_))
                && text.as_bytes().get(offset.wrapping_sub(3)).is_some_and(|sign| matches!(sign, b'+' | b'-'))
            {
                text.insert_str(offset, ":00");
            }
            Json::String(text.into())
        }
        value => Json::String(text_of(value, environment).into()),
    })
}

/// Writes any value as the text of a `json`, as `to_json` does.
pub fn write_json(value: &Value, environment: &Environment, out: &mut String) -> Result<()> {
    match value {
        Value::Text(text) => environment.memory.check(string_bytes(text))?,
        Value::Jsonb(json) => environment.memory.check(json.text_bytes())?,
        _ => {}
    }
    match value {
        Value::Json(text) => out.push_str(text),
        // A number as it is spelled: JSON's own numbers have no exponent.
        Value::Float4(number) if number.is_finite() => out.push_str(&text_of(value, environment)),
        Value::Float8(number) if number.is_finite() => out.push_str(&text_of(value, environment)),
        Value::Array(array) => {
            let elements: Vec<_> = array.elements().iter().collect();
            return write_elements(&elements, array.dimensions(), ",", environment, out);
        }
        Value::Record(record) => write_record(record, ",", environment, out)?,
        value => {
            // Writing to a string does not fail.
            let _ = std::fmt::Write::write_fmt(out, format_args!("{}", to_json(value, environment)?));
        }
    }
    Ok(())
}

fn write_elements(
    elements: &[&Value],
    dimensions: &[Dimension],
    separator: &str,
    environment: &Environment,
    out: &mut String,
) -> Result<()> {
    out.push('[');
    let size = elements.len() / dimensions.first().map_or(1, |dimension| dimension.length.max(1) as usize);
    for (at, inner) in elements.chunks(size.max(1)).enumerate() {
        out.push_str(if at > 0 { separator } else { "" });
        match dimensions {
            [_, rest @ ..] if !rest.is_empty() => write_elements(inner, rest, ",", environment, out)?,
            _ => write_json(inner[0], environment, out)?,
        }
    }
    out.push(']');
    Ok(())
}

/// Writes a record as an object: its keys keep their order, and duplicates stay.
fn write_record(record: &Record, separator: &str, environment: &Environment, out: &mut String) -> Result<()> {
    out.push('{');
    for (at, (field, value)) in record.columns().enumerate() {
        out.push_str(if at > 0 { separator } else { "" });
        // Writing to a string does not fail.
        let _ = write_string(&field.name, out);
        out.push(':');
        write_json(value, environment, out)?;
    }
    out.push('}');
    Ok(())
}

/// `json_build_object`: keys keep their order, and duplicates stay.
fn build_json_object(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let mut out = String::from("{");
    for (at, (key, value)) in pairs_of(arguments, "json_build_object", environment)?.into_iter().enumerate() {
        out.push_str(if at > 0 { ", " } else { "" });
        write_json(&Value::text(key), environment, &mut out)?;
        out.push_str(" : ");
        write_json(value, environment, &mut out)?;
    }
    out.push('}');
    Ok(Value::Json(out.into()))
}

fn build_json_array(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let mut out = String::from("[");
    for (at, value) in arguments.iter().enumerate() {
        out.push_str(if at > 0 { ", " } else { "" });
        write_json(value, environment, &mut out)?;
    }
    out.push(']');
    Ok(Value::Json(out.into()))
}

/// Returns the text of a value.
pub(super) fn text_of(value: &Value, environment: &Environment) -> String {
    text::to_string(value, value.natural_type().unwrap_or(SqlType::TEXT), environment)
}

fn array_to_json(array: &Array, environment: &Environment) -> Result<Json> {
    let mut level = array.elements().iter().map(|value| to_json(value, environment)).collect::<Result<Vec<_>>>()?;
    for dimension in array.dimensions().iter().skip(1).rev() {
        let mut rest = level.into_iter();
        let mut outer = Vec::new();
        loop {
            let inner: Vec<_> = rest.by_ref().take(dimension.length as usize).collect();
            if inner.is_empty() {
                break;
            }
            outer.push(Json::Array(inner));
        }
        level = outer;
    }
    Ok(Json::Array(level))
}

fn build_object(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let pairs = pairs_of(arguments, "jsonb_build_object", environment)?;
    let pairs = pairs.into_iter().map(|(key, value)| Ok((key.into(), to_json(value, environment)?)));
    Json::object(pairs.collect::<Result<_>>()?).check_depth().map(Value::json)
}

/// Returns alternating keys and values as pairs.
fn pairs_of<'v>(arguments: &'v [Value], function: &str, environment: &Environment) -> Result<Vec<(String, &'v Value)>> {
    let invalid = |message: &str| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let (pairs, rest) = arguments.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(invalid("argument list must have even number of elements")
            .hint(format!("The arguments of {function}() must consist of alternating keys and values.")));
    }
    let mut found = Vec::with_capacity(pairs.len());
    for (at, [key, value]) in pairs.iter().enumerate() {
        if key.is_null() {
            return Err(invalid(&format!("argument {}: key must not be null", at * 2 + 1)));
        }
        found.push((object_key(key, environment)?, value));
    }
    Ok(found)
}

/// Returns the key of an object that a value stands for.
pub(super) fn object_key(key: &Value, environment: &Environment) -> Result<String> {
    let invalid = |message: &str| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    match key {
        Value::Null => invalid("field name must not be null"),
        Value::Array(_) | Value::Jsonb(_) | Value::Json(_) | Value::Record(_) => {
            invalid("key value must be scalar, not array, composite, or json")
        }
        Value::Bool(value) => Ok(value.to_string()),
        Value::Date(_) | Value::Timestamp(_) | Value::TimestampTz(_) => match to_json(key, environment)? {
            Json::String(text) => Ok(text.into()),
            _ => Ok(text_of(key, environment)),
        },
        key => Ok(text_of(key, environment)),
    }
}

fn build_array(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let elements = arguments.iter().map(|value| to_json(value, environment)).collect::<Result<_>>()?;
    Json::Array(elements).check_depth().map(Value::json)
}

/// Returns the keys of a path that is given as arguments.
fn path_of(arguments: &[Value]) -> Option<Vec<&str>> {
    arguments.iter().map(|value| if let Value::Text(step) = value { Some(&**step) } else { None }).collect()
}

fn change(arguments: &[Value], default: bool, make: fn(&Json, bool) -> Change<'_>) -> Result<Value> {
    match arguments {
        [Value::Jsonb(json), Value::Array(path), Value::Jsonb(new), rest @ ..] => {
            if let Some(at) = path.elements().iter().position(Value::is_null) {
                return Err(SqlError::new(
                    SqlState::NULL_VALUE_NOT_ALLOWED,
                    format!("path element at position {} is null", at + 1),
                ));
            }
            let flag = if let [Value::Bool(flag)] = rest { *flag } else { default };
            (**json).clone().change(&texts(path), make(new, flag)).map(Value::json)
        }
        _ => Err(crate::operators::mismatch()),
    }
}

fn strip_nulls(json: &Json) -> Json {
    match json {
        Json::Array(elements) => Json::Array(elements.iter().map(strip_nulls).collect()),
        Json::Object(pairs) => Json::Object(
            pairs
                .iter()
                .filter(|(_, value)| *value != Json::Null)
                .map(|(key, value)| (key.clone(), strip_nulls(value)))
                .collect(),
        ),
        json => json.clone(),
    }
}

fn array_length(json: &Json) -> Result<Value> {
    let fail = |message: &str| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    match json {
        Json::Array(elements) => Ok(Value::Int4(elements.len() as i32)),
        Json::Object(_) => fail("cannot get array length of a non-array"),
        _ => fail("cannot get array length of a scalar"),
    }
}

/// Returns a bound of a dimension, counted from 1.
fn bound(arguments: &[Value], which: fn(i64, i64) -> i64) -> Result<Value> {
    arguments!(arguments, [Value::Array(array), Value::Int4(number)] => {
        let at = usize::try_from(*number).ok().and_then(|number| number.checked_sub(1));
        let dimension = at.and_then(|at| array.dimensions().get(at));
        Ok(dimension.map_or(Value::Null, |dimension| {
            Value::Int4(which(dimension.lower.into(), dimension.length.into()) as i32)
        }))
    })
}

pub(super) fn is_same(left: &Value, right: &Value, element: SqlType) -> bool {
    match (left.is_null(), right.is_null()) {
        (true, true) => true,
        (false, false) => order::compare(left, right, element).is_eq(),
        _ => false,
    }
}

fn has_null(array: &Array) -> bool {
    array.elements().iter().any(Value::is_null)
}

pub(super) fn one_dimension(array: &Array, activity: &str) -> Result<i32> {
    match array.dimensions() {
        [] => Ok(1),
        [dimension] => Ok(dimension.lower),
        _ => Err(SqlError::unsupported(format!("{activity} elements in multidimensional arrays"))),
    }
}

/// Returns the array; for NULL, an empty one with the element type of `other`.
fn array_or_empty(value: &Value, other: &Value) -> Option<Array> {
    match value {
        Value::Array(array) => Some((**array).clone()),
        _ => other.natural_type().map(|ty| Array::new(ty.scalar, Vec::new())),
    }
}

fn append(array: &Value, value: &Value, at_front: bool) -> Result<Value> {
    match array_or_empty(array, value) {
        Some(array) => extend_array(&array, value, at_front).map(Value::array),
        None => Ok(Value::Null),
    }
}

/// Registers the functions of `json`.
fn register_json_texts(table: &mut Table) {
    use SqlType as T;
    let (j, t) = (T::JSON, T::TEXT);
    table.add("json_build_object", &[], j, build_json_object);
    table.add("json_build_array", &[], j, build_json_array);
    let builders: [(&'static str, super::ScalarFunction); 2] =
        [("json_build_object", build_json_object), ("json_build_array", build_json_array)];
    for (name, function) in builders {
        table.generic(name, &[Parameter::Any], Outcome::Is(j), function).variadic().accepts_null().stable();
    }
    table.add(
        "json_typeof",
        &[j],
        t,
        |arguments, _| arguments!(arguments, [Value::Json(text)] => Ok(raw::type_name(text).into())),
    );
    table.add("json_array_length", &[j], T::INT4, |arguments, environment| {
        arguments!(arguments, [Value::Json(text)] => match raw::type_name(text) {
            "array" => {
                environment.memory.check_parts(text.as_bytes())?;
                Ok(Value::Int4(raw::parts(text)?.len() as i32))
            }
            "object" => Err(no_array("cannot get array length of a non-array")),
            _ => Err(no_array("cannot get array length of a scalar")),
        })
    });
    table.add("json_strip_nulls", &[j], j, |arguments, _| {
        arguments!(arguments, [Value::Json(text)] => {
            let mut out = String::new();
            raw::strip_nulls(text, &mut out)?;
            Ok(Value::Json(out.into()))
        })
    });
    table
        .add("json_extract_path", &[j, t], j, |arguments, _| match arguments {
            [Value::Json(text), steps @ ..] => {
                let found = path_of(steps).map(|steps| raw::follow(text, &steps)).transpose()?.flatten();
                Ok(found.map_or(Value::Null, |text| Value::Json(text.into())))
            }
            _ => Err(crate::operators::mismatch()),
        })
        .variadic();
    table
        .add("json_extract_path_text", &[j, t], t, |arguments, _| match arguments {
            [Value::Json(text), steps @ ..] => {
                let found = path_of(steps).map(|steps| raw::follow(text, &steps)).transpose()?.flatten();
                crate::operators::plain_json(found)
            }
            _ => Err(crate::operators::mismatch()),
        })
        .variadic();
}

fn no_array(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn register_json(table: &mut Table) {
    use SqlType as T;
    let j = T::JSONB;
    let json_outcome = Outcome::Is(j);
    table
        .generic(
            "to_jsonb",
            &[Parameter::Element],
            json_outcome,
            |arguments, environment| {
                arguments!(arguments, [value] => to_json(value, environment)?.check_depth().map(Value::json))
            },
        )
        .stable();
    table
        .generic("to_json", &[Parameter::Element], Outcome::Is(T::JSON), |arguments, environment| {
            arguments!(arguments, [value] => {
                let mut out = String::new();
                write_json(value, environment, &mut out)?;
                Ok(Value::Json(out.into()))
            })
        })
        .stable();
    table
        .generic(
            "array_to_json",
            &[Parameter::Array, Parameter::Is(T::BOOL)],
            Outcome::Is(T::JSON),
            |arguments, environment| {
                let (Some(Value::Array(array)), is_pretty) = (arguments.first(), arguments.get(1)) else {
                    return Err(crate::operators::mismatch());
                };
                let separator = if is_pretty == Some(&Value::Bool(true)) { ",\n " } else { "," };
                let mut out = String::new();
                let elements: Vec<_> = array.elements().iter().collect();
                write_elements(&elements, array.dimensions(), separator, environment, &mut out)?;
                Ok(Value::Json(out.into()))
            },
        )
        .optional(1)
        .stable();
    table
        .add("row_to_json", &[T::RECORD, T::BOOL], T::JSON, |arguments, environment| {
            let (record, is_pretty) = match arguments {
                [Value::Record(record)] => (record, false),
                [Value::Record(record), Value::Bool(is_pretty)] => (record, *is_pretty),
                _ => return Err(crate::operators::mismatch()),
            };
            let mut out = String::new();
            write_record(record, if is_pretty { ",\n " } else { "," }, environment, &mut out)?;
            Ok(Value::Json(out.into()))
        })
        .optional(1)
        .stable();
    table.add("jsonb_build_object", &[], j, build_object);
    table
        .generic("jsonb_build_object", &[Parameter::Any], json_outcome, build_object)
        .variadic()
        .accepts_null()
        .stable();
    register_json_texts(table);
    table.add("jsonb_build_array", &[], j, build_array);
    table.generic("jsonb_build_array", &[Parameter::Any], json_outcome, build_array).variadic().accepts_null().stable();
    register_json_parts(table);
}

/// Returns how many arguments are NULL, or are not.
fn count_nulls(arguments: &[Value], is_null: bool) -> Result<Value> {
    Ok(Value::Int4(arguments.iter().filter(|value| value.is_null() == is_null).count() as i32))
}

fn register_json_parts(table: &mut Table) {
    use SqlType as T;
    let (j, t, path) = (T::JSONB, T::TEXT, T::TEXT.array());
    table.add(
        "jsonb_typeof",
        &[j],
        t,
        |arguments, _| arguments!(arguments, [Value::Jsonb(json)] => Ok(json.type_name().into())),
    );
    table.add(
        "jsonb_array_length",
        &[j],
        T::INT4,
        |arguments, _| arguments!(arguments, [Value::Jsonb(json)] => array_length(json)),
    );
    table
        .add("jsonb_extract_path", &[j, t], j, |arguments, _| match arguments {
            [Value::Jsonb(json), steps @ ..] => {
                let found = path_of(steps).and_then(|steps| json.follow(steps));
                Ok(found.map_or(Value::Null, |json| Value::json(json.clone())))
            }
            _ => Err(crate::operators::mismatch()),
        })
        .variadic();
    table
        .add("jsonb_extract_path_text", &[j, t], t, |arguments, _| match arguments {
            [Value::Jsonb(json), steps @ ..] => {
                let found = path_of(steps).and_then(|steps| json.follow(steps));
                Ok(found.and_then(Json::to_plain_text).map_or(Value::Null, Value::text))
            }
            _ => Err(crate::operators::mismatch()),
        })
        .variadic();
    table
        .add("jsonb_set", &[j, path, j, T::BOOL], j, |arguments, _| {
            change(arguments, true, |new, create| if create { Change::Set(new) } else { Change::Replace(new) })
        })
        .optional(1);
    table
        .add("jsonb_insert", &[j, path, j, T::BOOL], j, |arguments, _| {
            change(
                arguments,
                false,
                |new, after| if after { Change::InsertAfter(new) } else { Change::InsertBefore(new) },
            )
        })
        .optional(1);
    table.add("jsonb_pretty", &[j], t, |arguments, environment| {
        arguments!(arguments, [Value::Jsonb(json)] => {
            environment.memory.check(json.pretty_bytes())?;
            Ok(json.pretty().into())
        })
    });
    table.add(
        "jsonb_strip_nulls",
        &[j],
        j,
        |arguments, _| arguments!(arguments, [Value::Jsonb(json)] => Ok(Value::json(strip_nulls(json)))),
    );
}

/// Joins the elements of an array; NULL is left out, or shown as the third argument.
fn array_to_string(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let (array, separator, null) = match arguments {
        [Value::Array(array), Value::Text(separator)] => (array, separator, None),
        [Value::Array(array), Value::Text(separator), Value::Text(null)] => (array, separator, Some(null)),
        [Value::Array(array), Value::Text(separator), Value::Null] => (array, separator, None),
        _ => return Ok(Value::Null),
    };
    let between = separator.len() + null.map_or(0, |null| null.len());
    let bytes = array.elements().iter().map(|value| value.text_bytes() + between);
    environment.memory.check(bytes.fold(0, usize::saturating_add))?;
    let texts = array.elements().iter().filter_map(|value| match value {
        Value::Null => null.map(|null| null.to_string()),
        value => Some(text_of(value, environment)),
    });
    Ok(texts.collect::<Vec<_>>().join(separator).into())
}

pub(super) fn register(table: &mut Table) {
    register_json(table);
    use SqlType as T;
    table
        .generic("num_nulls", &[Parameter::Any], Outcome::Is(T::INT4), |arguments, _| count_nulls(arguments, true))
        .variadic()
        .accepts_null();
    table
        .generic("num_nonnulls", &[Parameter::Any], Outcome::Is(T::INT4), |arguments, _| count_nulls(arguments, false))
        .variadic()
        .accepts_null();
    let array = Parameter::Array;
    let int = Outcome::Is(T::INT4);
    let int_parameter = Parameter::Is(T::INT4);
    table.generic("array_length", &[array, int_parameter], int, |arguments, _| bound(arguments, |_, length| length));
    table.generic("array_lower", &[array, int_parameter], int, |arguments, _| bound(arguments, |lower, _| lower));
    table.generic("array_upper", &[array, int_parameter], int, |arguments, _| {
        bound(arguments, |lower, length| lower + length - 1)
    });
    table.generic("array_ndims", &[array], int, |arguments, _| {
        arguments!(arguments, [Value::Array(array)] => Ok(match array.dimensions().len() {
            0 => Value::Null,
            count => Value::Int4(count as i32),
        }))
    });
    table.generic(
        "cardinality",
        &[array],
        int,
        |arguments, _| arguments!(arguments, [Value::Array(array)] => Ok(Value::Int4(array.elements().len() as i32))),
    );
    register_array_changes(table);
}

fn register_array_changes(table: &mut Table) {
    use SqlType as T;
    let (common, common_array) = (Parameter::Common, Parameter::CommonArray);
    let (array, int) = (Parameter::Array, Outcome::Is(T::INT4));
    table
        .generic(
            "array_append",
            &[common_array, common],
            Outcome::Array,
            |arguments, _| arguments!(arguments, [array, value] => append(array, value, false)),
        )
        .accepts_null();
    table
        .generic(
            "array_prepend",
            &[common, common_array],
            Outcome::Array,
            |arguments, _| arguments!(arguments, [value, array] => append(array, value, true)),
        )
        .accepts_null();
    table
        .generic("array_cat", &[common_array, common_array], Outcome::Array, |arguments, _| match arguments {
            [Value::Array(left), Value::Array(right)] => concatenate_arrays(left, right).map(Value::array),
            [Value::Null, other] | [other, Value::Null] => Ok(other.clone()),
            _ => Err(crate::operators::mismatch()),
        })
        .accepts_null();
    table
        .generic("array_position", &[common_array, common], int, |arguments, _| match arguments {
            [Value::Array(array), wanted] => {
                let lower = one_dimension(array, "searching for")?;
                let ty = SqlType::scalar(array.element);
                let is_certain = array.elements().is_empty() || wanted.is_null() && !has_null(array);
                if is_certain {
                    return Ok(Value::Null);
                }
                check_equality(ty)?;
                let at = array.elements().iter().position(|found| is_same(found, wanted, ty));
                Ok(at.map_or(Value::Null, |at| Value::Int4(lower.saturating_add(at as i32))))
            }
            _ => Ok(Value::Null),
        })
        .accepts_null();
    table
        .generic("array_remove", &[common_array, common], Outcome::Array, |arguments, _| match arguments {
            [Value::Array(array), wanted] => {
                if array.elements().is_empty() {
                    return Ok(arguments[0].clone());
                }
                let lower = one_dimension(array, "removing")?;
                let ty = SqlType::scalar(array.element);
                check_equality(ty)?;
                let kept: Vec<_> =
                    array.elements().iter().filter(|found| !is_same(found, wanted, ty)).cloned().collect();
                let dimension = Dimension { length: kept.len() as u32, lower };
                let array = Array::with_dimensions(array.element, &[dimension], kept);
                array.map(Value::array).ok_or_else(crate::array::too_large)
            }
            _ => Ok(Value::Null),
        })
        .accepts_null();
    let text = Parameter::Is(T::TEXT);
    table.generic("array_to_string", &[array, text], Outcome::Is(T::TEXT), array_to_string).stable();
    table
        .generic("array_to_string", &[array, text, text], Outcome::Is(T::TEXT), array_to_string)
        .accepts_null()
        .stable();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::tests::call;

    #[test]
    fn collections_are_postgresqls() {
        let (t, i, j, ints) = (SqlType::TEXT, SqlType::INT4, SqlType::JSONB, SqlType::INT4.array());
        for (name, arguments, expected) in [
            ("to_jsonb", &[(t, "Fred said \"Hi.\"")][..], r#""Fred said \"Hi.\"""#),
            ("to_jsonb", &[(ints, "{{1,2},{3,4}}")], "[[1, 2], [3, 4]]"),
            ("to_jsonb", &[(SqlType::TIMESTAMPTZ, "2020-01-02 03:04:05+00")], "\"2020-01-02T03:04:05+00:00\""),
            ("jsonb_build_object", &[(t, "foo"), (i, "1"), (i, "2"), (t, "bar")], r#"{"2": "bar", "foo": 1}"#),
            ("jsonb_build_array", &[(i, "1"), (t, "a")], r#"[1, "a"]"#),
            ("jsonb_array_length", &[(j, "[1,2,3]")], "3"),
            ("jsonb_extract_path", &[(j, r#"{"f4":{"f6":"foo"}}"#), (t, "f4"), (t, "f6")], "\"foo\""),
            ("jsonb_set", &[(j, "[1,2]"), (SqlType::TEXT.array(), "{0}"), (j, "9")], "[9, 2]"),
            ("jsonb_insert", &[(j, "[1,2]"), (SqlType::TEXT.array(), "{0}"), (j, "9")], "[9, 1, 2]"),
            ("array_length", &[(ints, "{1,2,3}"), (i, "1")], "3"),
            ("array_upper", &[(ints, "[0:2]={1,2,3}"), (i, "1")], "2"),
            ("cardinality", &[(ints, "{{1,2},{3,4}}")], "4"),
            ("array_append", &[(ints, "{1}"), (i, "2")], "{1,2}"),
            ("array_cat", &[(ints, "{1}"), (ints, "{2}")], "{1,2}"),
            ("array_position", &[(ints, "{5,6}"), (i, "6")], "2"),
            ("array_remove", &[(ints, "{1,2,1}"), (i, "1")], "{2}"),
            ("array_to_string", &[(ints, "{1,NULL,2}"), (t, "-")], "1-2"),
        ] {
            assert_eq!(
                call(name, arguments).unwrap_or_else(|error| error.to_string()),
                expected,
                "{name} {arguments:?}"
            );
        }
    }
}
