//! `width_bucket`: the number of the part of a range in which a number lies.

use crate::{
    Numeric, SqlType, Value,
    error::{Result, SqlError, SqlState},
    operators::check_equality,
    order,
};

use super::{
    Table, arguments,
    resolution::{Outcome, Parameter},
};

fn invalid(message: &str) -> SqlError {
    SqlError::new(SqlState("2201G"), message)
}

/// Returns the bucket behind the last one.
fn behind(count: i32) -> Result<i32> {
    let beyond = || SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range");
    count.checked_add(1).ok_or_else(beyond)
}

fn of_floats(operand: f64, first: f64, last: f64, count: i32) -> Result<i32> {
    if count <= 0 {
        return Err(invalid("count must be greater than zero"));
    }
    if operand.is_nan() || first.is_nan() || last.is_nan() {
        return Err(invalid("operand, lower bound, and upper bound cannot be NaN"));
    }
    if first.is_infinite() || last.is_infinite() {
        return Err(invalid("lower and upper bounds must be finite"));
    }
    if first == last {
        return Err(invalid("lower bound cannot equal upper bound"));
    }
    // A range that goes down is one that goes up of the negative numbers.
    let (operand, first, last) = if first < last { (operand, first, last) } else { (-operand, -first, -last) };
    if operand < first {
        return Ok(0);
    }
    if operand >= last {
        return behind(count);
    }
    let part = match (last - first).is_finite() {
        true => (operand - first) / (last - first),
        false => (operand / 2.0 - first / 2.0) / (last / 2.0 - first / 2.0),
    };
    Ok(((f64::from(count) * part) as i32).min(count - 1) + 1)
}

fn of_numerics(operand: &Numeric, first: &Numeric, last: &Numeric, count: i32) -> Result<i32> {
    if count <= 0 {
        return Err(invalid("count must be greater than zero"));
    }
    if operand.is_nan() || first.is_nan() || last.is_nan() {
        return Err(invalid("operand, lower bound, and upper bound cannot be NaN"));
    }
    if !first.is_finite() || !last.is_finite() {
        return Err(invalid("lower and upper bounds must be finite"));
    }
    let width = last.subtract(first)?;
    if width.signum() == 0 {
        return Err(invalid("lower bound cannot equal upper bound"));
    }
    let is_up = width.signum() > 0;
    if (is_up && operand.order(first).is_lt()) || (!is_up && operand.order(first).is_gt()) {
        return Ok(0);
    }
    if (is_up && operand.order(last).is_ge()) || (!is_up && operand.order(last).is_le()) {
        return behind(count);
    }
    let part = operand.subtract(first)?.multiply(&count.into())?.divide_truncated(&width)?;
    Ok(part.to_i32()?.min(count - 1) + 1)
}

/// Returns the number of thresholds, which are sorted, up to a value.
fn of_thresholds(arguments: &[Value]) -> Result<Value> {
    arguments!(arguments, [operand, Value::Array(thresholds)] => {
        if thresholds.dimensions().len() > 1 {
            return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, "thresholds must be one-dimensional array"));
        }
        if thresholds.elements().iter().any(Value::is_null) {
            return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "thresholds array must not contain NULLs"));
        }
        let ty = SqlType::scalar(thresholds.element);
        check_equality(ty)?;
        let count = thresholds.elements().partition_point(|threshold| order::compare(threshold, operand, ty).is_le());
        Ok(Value::Int4(count as i32))
    })
}

pub(super) fn register(table: &mut Table) {
    use SqlType as T;
    let (f, n, i) = (T::FLOAT8, T::NUMERIC, T::INT4);
    table.add("width_bucket", &[f, f, f, i], i, |arguments, _| {
        arguments!(
            arguments,
            [Value::Float8(operand), Value::Float8(first), Value::Float8(last), Value::Int4(count)] => {
                of_floats(*operand, *first, *last, *count).map(Value::Int4)
            }
        )
    });
    table.add("width_bucket", &[n, n, n, i], i, |arguments, _| {
        arguments!(
            arguments,
            [Value::Numeric(operand), Value::Numeric(first), Value::Numeric(last), Value::Int4(count)] => {
                of_numerics(operand, first, last, *count).map(Value::Int4)
            }
        )
    });
    let parameters = [Parameter::Common, Parameter::CommonArray];
    table.generic("width_bucket", &parameters, Outcome::Is(i), |arguments, _| of_thresholds(arguments));
}
