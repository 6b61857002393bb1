//! `=`, `<>`, `<`, `<=`, `>`, `>=`, between values of one type and between related types.

use std::cmp::Ordering;

use crate::{
    Environment, SqlType, Value,
    datetime::{date_to_timestamp, to_utc},
    error::{Result, SqlError, SqlState},
    functions::resolution::{Outcome, Parameter},
    order,
};

use super::{BinaryFunction, PrefixFunction, Tables, mismatch, take};

/// Six functions that compare by one order.
macro_rules! comparisons {
    ($module:ident, $compare:path) => {
        mod $module {
            use super::*;

            pub(super) const ALL: [(&str, BinaryFunction); 6] = [
                ("=", |left, right, environment| Ok(Value::Bool($compare(left, right, environment)?.is_eq()))),
                ("<>", |left, right, environment| Ok(Value::Bool($compare(left, right, environment)?.is_ne()))),
                ("<", |left, right, environment| Ok(Value::Bool($compare(left, right, environment)?.is_lt()))),
                ("<=", |left, right, environment| Ok(Value::Bool($compare(left, right, environment)?.is_le()))),
                (">", |left, right, environment| Ok(Value::Bool($compare(left, right, environment)?.is_gt()))),
                (">=", |left, right, environment| Ok(Value::Bool($compare(left, right, environment)?.is_ge()))),
            ];
        }
    };
}

/// Compares values of one type; any text but `char(n)`.
fn plain(left: &Value, right: &Value, _: &Environment) -> Result<Ordering> {
    Ok(order::compare(left, right, SqlType::TEXT))
}

/// Fails for a type whose values have no order and no equality.
pub fn check_equality(ty: SqlType) -> Result<()> {
    if ty.is_ordered() {
        return Ok(());
    }
    let message = format!("could not identify an equality operator for type {}", ty.name());
    Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message))
}

fn arrays(left: &Value, right: &Value, _: &Environment) -> Result<Ordering> {
    take!(left => Value::Array(array), right => Value::Array(_) => {
        let element = SqlType::scalar(array.element);
        check_equality(element)?;
        Ok(order::compare(left, right, element.array()))
    })
}

fn records(left: &Value, right: &Value, _: &Environment) -> Result<Ordering> {
    let mismatched = |message| SqlError::new(SqlState::DATATYPE_MISMATCH, message);
    take!(left => Value::Record(left), right => Value::Record(right) => {
        for (at, ((field, left), (other, right))) in left.columns().zip(right.columns()).enumerate() {
            if field.ty != other.ty {
                let (left, right) = (field.ty.name(), other.ty.name());
                return Err(mismatched(format!(
                    "cannot compare dissimilar column types {left} and {right} at record column {}",
                    at + 1
                )));
            }
            check_equality(SqlType::scalar(field.ty.scalar))?;
            let order = order::compare(left, right, field.ty);
            if order.is_ne() {
                return Ok(order);
            }
        }
        match left.values().len() == right.values().len() {
            true => Ok(Ordering::Equal),
            false => Err(mismatched("cannot compare record types with different numbers of columns".into())),
        }
    })
}

fn padded(left: &Value, right: &Value, _: &Environment) -> Result<Ordering> {
    Ok(order::compare(left, right, SqlType::CHAR))
}

fn integers(left: &Value, right: &Value, _: &Environment) -> Result<Ordering> {
    let number = |value: &Value| match value {
        Value::Int2(number) => Ok(i64::from(*number)),
        Value::Int4(number) => Ok(i64::from(*number)),
        Value::Int8(number) => Ok(*number),
        _ => Err(mismatch()),
    };
    Ok(number(left)?.cmp(&number(right)?))
}

fn floats(left: &Value, right: &Value, _: &Environment) -> Result<Ordering> {
    let number = |value: &Value| match value {
        Value::Float4(number) => Ok(Value::Float8((*number).into())),
        Value::Float8(number) => Ok(Value::Float8(*number)),
        _ => Err(mismatch()),
    };
    Ok(order::compare(&number(left)?, &number(right)?, SqlType::FLOAT8))
}

/// A date too far in the future for a point in time is after all of them.
const AFTER_ALL: i64 = i64::MAX - 1;

/// Returns a date or a point in time without zone, as the latter.
fn local_time(value: &Value, _: &Environment) -> Result<Value> {
    match value {
        Value::Date(days) => Ok(Value::Timestamp(date_to_timestamp(*days).unwrap_or(AFTER_ALL))),
        Value::Timestamp(micros) => Ok(Value::Timestamp(*micros)),
        _ => Err(mismatch()),
    }
}

/// Returns a date or a point in time, as one with zone.
fn time(value: &Value, environment: &Environment) -> Result<Value> {
    let utc = |local: i64| to_utc(local, &environment.time_zone);
    match value {
        Value::Date(days) => Ok(Value::TimestampTz(date_to_timestamp(*days).and_then(utc).unwrap_or(AFTER_ALL))),
        Value::Timestamp(micros) => Ok(Value::TimestampTz(utc(*micros)?)),
        Value::TimestampTz(micros) => Ok(Value::TimestampTz(*micros)),
        _ => Err(mismatch()),
    }
}

/// Compares dates and points in time without zone.
fn local_times(left: &Value, right: &Value, environment: &Environment) -> Result<Ordering> {
    let (left, right) = (local_time(left, environment)?, local_time(right, environment)?);
    Ok(order::compare(&left, &right, SqlType::TIMESTAMP))
}

/// Compares dates and points in time with those that have a zone.
fn times(left: &Value, right: &Value, environment: &Environment) -> Result<Ordering> {
    Ok(order::compare(&time(left, environment)?, &time(right, environment)?, SqlType::TIMESTAMPTZ))
}

/// Returns the type in which values of two related types are compared: each value of either has exactly one there that
/// is equal to it, as the operators between the two types have it.
pub fn compared_in(left: SqlType, right: SqlType) -> Option<SqlType> {
    use SqlType as T;
    match [left, right] {
        [T::FLOAT4, T::FLOAT8] | [T::FLOAT8, T::FLOAT4] => Some(T::FLOAT8),
        [T::DATE, T::TIMESTAMP] | [T::TIMESTAMP, T::DATE] => Some(T::TIMESTAMP),
        [T::DATE | T::TIMESTAMP, T::TIMESTAMPTZ] | [T::TIMESTAMPTZ, T::DATE | T::TIMESTAMP] => Some(T::TIMESTAMPTZ),
        [T::NAME, T::TEXT] | [T::TEXT, T::NAME] => Some(T::TEXT),
        _ => None,
    }
}

/// Returns the function that converts a value for such a comparison; `None`: its cast does.
pub fn widening(from: SqlType, to: SqlType) -> Option<PrefixFunction> {
    match to {
        _ if from == to => None,
        SqlType::TIMESTAMP => Some(local_time),
        SqlType::TIMESTAMPTZ => Some(time),
        _ => None,
    }
}

comparisons!(of_plain, plain);
comparisons!(of_arrays, arrays);
comparisons!(of_padded, padded);
comparisons!(of_records, records);
comparisons!(of_integers, integers);
comparisons!(of_floats, floats);
comparisons!(of_local_times, local_times);
comparisons!(of_times, times);

/// `=` of integers of one width, on the path of every point query.
fn equal_int4(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
    take!(left => Value::Int4(left), right => Value::Int4(right) => Ok(Value::Bool(left == right)))
}

fn equal_int8(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
    take!(left => Value::Int8(left), right => Value::Int8(right) => Ok(Value::Bool(left == right)))
}

pub(super) fn register(tables: &mut Tables) {
    use SqlType as T;
    let mut add = |all: [(&'static str, BinaryFunction); 6], left: T, right: T| {
        for (name, function) in all {
            let function = match (name, left, right) {
                ("=", T::INT4, T::INT4) => equal_int4,
                ("=", T::INT8, T::INT8) => equal_int8,
                _ => function,
            };
            tables.binary(name, left, right, T::BOOL, function);
        }
    };
    for left in [T::INT2, T::INT4, T::INT8] {
        for right in [T::INT2, T::INT4, T::INT8] {
            add(of_integers::ALL, left, right);
        }
    }
    for left in [T::FLOAT4, T::FLOAT8] {
        for right in [T::FLOAT4, T::FLOAT8] {
            add(of_floats::ALL, left, right);
        }
    }
    for left in [T::DATE, T::TIMESTAMP, T::TIMESTAMPTZ] {
        for right in [T::DATE, T::TIMESTAMP, T::TIMESTAMPTZ] {
            let has_zone = left == T::TIMESTAMPTZ || right == T::TIMESTAMPTZ;
            let all = match (left == right, has_zone) {
                (true, _) => of_plain::ALL,
                (false, true) => of_times::ALL,
                (false, false) => of_local_times::ALL,
            };
            add(all, left, right);
        }
    }
    for ty in [
        T::BOOL,
        T::NUMERIC,
        T::TEXT,
        T::NAME,
        T::INTERNAL_CHAR,
        T::BYTEA,
        T::TIME,
        T::TIMETZ,
        T::INTERVAL,
        T::UUID,
        T::JSONB,
        T::OID,
        T::INET,
        T::MACADDR,
        T::MACADDR8,
        T::BIT,
        T::VARBIT,
    ] {
        add(of_plain::ALL, ty, ty);
    }
    add(of_plain::ALL, T::NAME, T::TEXT);
    add(of_plain::ALL, T::TEXT, T::NAME);
    add(of_padded::ALL, T::CHAR, T::CHAR);
    add(of_records::ALL, T::RECORD, T::RECORD);
    for (name, function) in of_plain::ALL {
        tables.add(name, Parameter::Enum, Parameter::Enum, Outcome::Is(T::BOOL), function);
    }
    for (name, function) in of_arrays::ALL {
        tables.add(name, Parameter::Array, Parameter::Array, Outcome::Is(T::BOOL), function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::tests::apply;

    #[test]
    fn types_that_are_alike_compare() {
        for (left, operator, right) in [
            ((SqlType::INT2, "1"), "<", (SqlType::INT8, "2")),
            ((SqlType::INT4, "1"), "=", (SqlType::NUMERIC, "1.00")),
            ((SqlType::FLOAT4, "0.5"), "=", (SqlType::FLOAT8, "0.5")),
            ((SqlType::CHAR, "a  "), "=", (SqlType::CHAR, "a")),
            ((SqlType::TEXT, "a "), "<>", (SqlType::TEXT, "a")),
            ((SqlType::DATE, "2020-01-02"), ">", (SqlType::TIMESTAMP, "2020-01-01 23:59")),
            ((SqlType::DATE, "5874897-01-01"), ">", (SqlType::TIMESTAMPTZ, "2020-01-01 23:59")),
            ((SqlType::FLOAT8, "NaN"), "=", (SqlType::FLOAT8, "NaN")),
            ((SqlType::INT4.array(), "{1,2}"), "<", (SqlType::INT4.array(), "{1,3}")),
            ((SqlType::INTERVAL, "1 day"), "=", (SqlType::INTERVAL, "24:00")),
        ] {
            assert_eq!(apply(left, operator, right).unwrap(), "t", "{left:?} {operator} {right:?}");
        }
    }
}
