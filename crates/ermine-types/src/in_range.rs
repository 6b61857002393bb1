//! Distances between values of a type: PostgreSQL's `in_range` functions, which bound the frames of window functions.

use std::cmp::Ordering;

use crate::{
    Environment, Numeric, SqlType, Value,
    cast::{self, Context},
    error::{Result, SqlError, SqlState},
    operators, order,
};

/// Returns the type that the offset of a frame in RANGE mode is cast to; `None` as its own type is that of a literal or
/// parameter without a type.
pub fn offset_type(column: SqlType, offset: Option<SqlType>) -> Result<SqlType> {
    use SqlType as T;
    let choices: &[SqlType] = match column {
        T::INT2 | T::INT4 => &[T::INT8, T::INT4, T::INT2],
        T::INT8 => &[T::INT8],
        T::FLOAT4 | T::FLOAT8 => &[T::FLOAT8],
        T::NUMERIC => &[T::NUMERIC],
        T::DATE | T::TIME | T::TIMESTAMP | T::TIMESTAMPTZ | T::INTERVAL => &[T::INTERVAL],
        _ => {
            let message =
                format!("RANGE with offset PRECEDING/FOLLOWING is not supported for column type {}", column.name());
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
    };
    let preferred = offset.unwrap_or(column);
    if choices.contains(&preferred) {
        return Ok(preferred);
    }
    let fits = |to: &&SqlType| offset.is_none_or(|from| cast::context(from, **to) == Some(Context::Implicit));
    choices.iter().find(fits).copied().ok_or_else(|| {
        let message = format!(
            "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {} and offset type {}",
            column.name(),
            preferred.name()
        );
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).hint("Cast the offset value to an appropriate type.")
    })
}

/// Compares a value with the sum of another value and an offset, or with their difference.
pub fn compare_with_offset(
    value: &Value,
    base: &Value,
    offset: &Value,
    subtracts: bool,
    environment: &Environment,
) -> Result<Ordering> {
    if is_negative(offset, matches!(base, Value::Time(_))) {
        let message = "invalid preceding or following size in window function";
        return Err(SqlError::new(SqlState::INVALID_PRECEDING_OR_FOLLOWING_SIZE, message));
    }
    if let (Some(value), Some(base), Some(offset)) = (integer(value), integer(base), integer(offset)) {
        return Ok(value.cmp(&if subtracts { base - offset } else { base + offset }));
    }
    if let (Some(value), Some(base), Value::Float8(offset)) = (float(value), float(base), offset) {
        return Ok(compare_floats(value, base, *offset, subtracts));
    }
    match (value, base, offset) {
        (Value::Numeric(value), Value::Numeric(base), Value::Numeric(offset)) => {
            compare_numerics(value, base, offset, subtracts)
        }
        // Days and months of the offset do not count.
        (Value::Time(value), Value::Time(base), Value::Interval { micros, .. }) => {
            let (value, base, micros) = (i128::from(*value), i128::from(*base), i128::from(*micros));
            Ok(value.cmp(&if subtracts { base - micros } else { base + micros }))
        }
        (Value::Date(_), Value::Date(_), Value::Interval { .. }) => {
            let moment =
                |date: &Value| cast::cast(date.clone(), SqlType::DATE, SqlType::TIMESTAMP, -1, false, environment);
            compare_with_offset(&moment(value)?, &moment(base)?, offset, subtracts, environment)
        }
        (_, _, Value::Interval { .. }) => {
            let ty = base.natural_type().ok_or_else(operators::mismatch)?;
            let name = if subtracts { "-" } else { "+" };
            let operator = operators::resolve_binary(name, Some(ty), Some(SqlType::INTERVAL))?;
            Ok(order::compare(value, &(operator.function)(base, offset, environment)?, ty))
        }
        _ => Err(operators::mismatch()),
    }
}

fn is_negative(offset: &Value, is_of_time: bool) -> bool {
    match offset {
        Value::Int2(number) => *number < 0,
        Value::Int4(number) => *number < 0,
        Value::Int8(number) => *number < 0,
        Value::Float8(number) => number.is_nan() || *number < 0.0,
        Value::Numeric(number) => number.is_nan() || number.order(&Numeric::ZERO).is_lt(),
        Value::Interval { micros, .. } if is_of_time => *micros < 0,
        Value::Interval { months, days, micros } => order::interval_length(*months, *days, *micros) < 0,
        _ => false,
    }
}

fn integer(value: &Value) -> Option<i128> {
    match value {
        Value::Int2(number) => Some((*number).into()),
        Value::Int4(number) => Some((*number).into()),
        Value::Int8(number) => Some((*number).into()),
        _ => None,
    }
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Float4(number) => Some((*number).into()),
        Value::Float8(number) => Some(*number),
        _ => None,
    }
}

fn compare_floats(value: f64, base: f64, offset: f64, subtracts: bool) -> Ordering {
    // NaN is greater than any other number, at any distance.
    if value.is_nan() || base.is_nan() {
        return value.is_nan().cmp(&base.is_nan());
    }
    // The sum would be NaN: everything is in reach.
    if offset.is_infinite() && base.is_infinite() && (base > 0.0) == subtracts {
        return Ordering::Equal;
    }
    value.partial_cmp(&if subtracts { base - offset } else { base + offset }).unwrap_or(Ordering::Equal)
}

fn compare_numerics(value: &Numeric, base: &Numeric, offset: &Numeric, subtracts: bool) -> Result<Ordering> {
    if value.is_nan() || base.is_nan() {
        return Ok(value.is_nan().cmp(&base.is_nan()));
    }
    if offset.is_infinite() && base.is_infinite() && (base.signum() > 0) == subtracts {
        return Ok(Ordering::Equal);
    }
    Ok(value.order(&if subtracts { base.subtract(offset)? } else { base.add(offset)? }))
}
