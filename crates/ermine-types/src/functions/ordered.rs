//! Ordered-set aggregates: percentiles and the most frequent value of values in an order.

use std::cmp::Ordering;

use crate::{
    Array, Environment, Scalar, SqlType, Value,
    error::{Result, SqlError, SqlState},
    operators, order,
};

/// Returns percentiles of values in their order: of one fraction, or of each fraction of an array.
pub(super) fn percentiles(
    values: &[Value],
    fraction: &Value,
    scalar: Scalar,
    one: fn(&[Value], f64) -> Result<Value>,
) -> Result<Value> {
    let of = |fraction: &Value| match fraction {
        Value::Float8(fraction) if (0.0..=1.0).contains(fraction) => one(values, *fraction),
        Value::Float8(fraction) => {
            let message = format!("percentile value {fraction} is not between 0 and 1");
            Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message))
        }
        _ => Ok(Value::Null),
    };
    let Value::Array(fractions) = fraction else { return of(fraction) };
    let elements = fractions.elements().iter().map(of).collect::<Result<Vec<_>>>()?;
    let array = Array::with_dimensions(scalar, fractions.dimensions(), elements);
    array.map(Value::array).ok_or_else(crate::array::too_large)
}

/// Returns the first value whose place among the others is at the fraction, or beyond.
pub(super) fn percentile_disc(values: &[Value], fraction: f64) -> Result<Value> {
    let place = (fraction * values.len() as f64).ceil() as usize;
    Ok(values.get(place.max(1) - 1).cloned().unwrap_or(Value::Null))
}

/// Returns the value at the fraction of the way through all values, between two of them if none is there.
pub(super) fn percentile_cont(values: &[Value], fraction: f64) -> Result<Value> {
    let Some(last) = values.len().checked_sub(1) else { return Ok(Value::Null) };
    let place = fraction * last as f64;
    let (low, high) = (&values[place.floor() as usize], &values[(place.ceil() as usize).min(last)]);
    let part = place - place.floor();
    match (low, high) {
        (Value::Float8(low), Value::Float8(high)) if place.floor() < place.ceil() => {
            Ok(Value::Float8(low + part * (high - low)))
        }
        (Value::Interval { .. }, Value::Interval { .. }) if place.floor() < place.ceil() => {
            let environment = Environment::default();
            let call = |name, left: &Value, right: &Value, ty| {
                let operator = operators::resolve_binary(name, Some(SqlType::INTERVAL), Some(ty))?;
                (operator.function)(left, right, &environment)
            };
            let whole = call("-", high, low, SqlType::INTERVAL)?;
            let part = call("*", &whole, &Value::Float8(part), SqlType::FLOAT8)?;
            call("+", &part, low, SqlType::INTERVAL)
        }
        _ => Ok(low.clone()),
    }
}

/// Returns the most frequent value; of several, the first.
pub(super) fn mode(values: &[Value], ty: SqlType) -> Value {
    let mut best: &[Value] = &[];
    for run in values.chunk_by(|left, right| order::compare(left, right, ty) == Ordering::Equal) {
        if run.len() > best.len() {
            best = run;
        }
    }
    best.first().cloned().unwrap_or(Value::Null)
}
