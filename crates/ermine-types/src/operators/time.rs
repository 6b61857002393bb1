//! Operators of dates, times and intervals.

use crate::{
    Environment, SqlType, Value,
    datetime::{
        self, MICROS_PER_DAY, add_interval_to_timestamp, add_interval_to_timestamptz, date_out_of_range,
        date_to_timestamp, interval_from_parts, interval_out_of_range, is_date, is_date_infinite, subtract_timestamps,
    },
    error::{Result, SqlError, SqlState},
    numeric::division_by_zero,
    order::time_in_utc,
};

use super::{Tables, mismatch, take};

/// Returns months, days and microseconds.
fn interval(value: &Value) -> Result<(i32, i32, i64)> {
    match value {
        Value::Interval { months, days, micros } => Ok((*months, *days, *micros)),
        _ => Err(mismatch()),
    }
}

fn negated(value: &Value) -> Result<Value> {
    let (months, days, micros) = interval(value)?;
    interval_from_parts(-i128::from(months), -i128::from(days), -i128::from(micros))
}

fn date_plus(left: &Value, right: &Value, sign: i64) -> Result<Value> {
    take!(left => Value::Date(days), right => Value::Int4(by) => {
        if is_date_infinite(*days) {
            return Ok(Value::Date(*days));
        }
        let sum = i32::try_from(i64::from(*days) + sign * i64::from(*by)).ok();
        let fits = sum.filter(|&days| is_date(days) && !is_date_infinite(days));
        fits.map(Value::Date).ok_or_else(date_out_of_range)
    })
}

fn date_minus_date(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
    take!(left => Value::Date(left), right => Value::Date(right) => {
        if is_date_infinite(*left) || is_date_infinite(*right) {
            return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "cannot subtract infinite dates"));
        }
        left.checked_sub(*right).map(Value::Int4).ok_or_else(date_out_of_range)
    })
}

fn plus_interval(left: &Value, right: &Value, environment: &Environment) -> Result<Value> {
    let (months, days, micros) = interval(right)?;
    match left {
        Value::Date(day) => {
            add_interval_to_timestamp(date_to_timestamp(*day)?, months, days, micros).map(Value::Timestamp)
        }
        Value::Timestamp(at) => add_interval_to_timestamp(*at, months, days, micros).map(Value::Timestamp),
        Value::TimestampTz(at) => {
            add_interval_to_timestamptz(*at, months, days, micros, &environment.time_zone).map(Value::TimestampTz)
        }
        Value::TimeTz { micros: at, ahead } => {
            Ok(Value::TimeTz { micros: (at + micros % MICROS_PER_DAY).rem_euclid(MICROS_PER_DAY), ahead: *ahead })
        }
        Value::Time(at) => Ok(Value::Time((at + micros % MICROS_PER_DAY).rem_euclid(MICROS_PER_DAY))),
        _ => Err(mismatch()),
    }
}

fn minus_interval(left: &Value, right: &Value, environment: &Environment) -> Result<Value> {
    plus_interval(left, &negated(right)?, environment)
}

fn interval_plus(left: &Value, right: &Value, environment: &Environment) -> Result<Value> {
    plus_interval(right, left, environment)
}

fn sum_of_intervals(left: &Value, right: &Value, sign: i128) -> Result<Value> {
    let (left, right) = (interval(left)?, interval(right)?);
    let part = |left: i64, right: i64| i128::from(left) + sign * i128::from(right);
    interval_from_parts(part(left.0.into(), right.0.into()), part(left.1.into(), right.1.into()), part(left.2, right.2))
}

fn minus(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
    match (left, right) {
        (Value::Timestamp(left), Value::Timestamp(right)) | (Value::TimestampTz(left), Value::TimestampTz(right)) => {
            subtract_timestamps(*left, *right)
        }
        (Value::Time(left), Value::Time(right)) => Ok(Value::Interval { months: 0, days: 0, micros: left - right }),
        _ => Err(mismatch()),
    }
}

fn date_and_time(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
    match (left, right) {
        (Value::Date(days), Value::Time(micros)) | (Value::Time(micros), Value::Date(days)) => {
            add_interval_to_timestamp(date_to_timestamp(*days)?, 0, 0, *micros).map(Value::Timestamp)
        }
        (Value::Date(days), Value::TimeTz { micros, ahead }) | (Value::TimeTz { micros, ahead }, Value::Date(days)) => {
            let in_utc = time_in_utc(*micros, *ahead);
            add_interval_to_timestamp(date_to_timestamp(*days)?, 0, 0, in_utc).map(Value::TimestampTz)
        }
        _ => Err(mismatch()),
    }
}

/// Scales an interval. Fractions of months become days, fractions of days become time, as in PostgreSQL.
fn scale_interval(value: &Value, scale: impl Fn(f64) -> f64) -> Result<Value> {
    let (months, days, micros) = interval(value)?;
    let whole = |number: f64, least: f64| {
        if number.is_nan() || number < least || number >= -least {
            Err(interval_out_of_range())
        } else {
            Ok(number.trunc())
        }
    };
    let least = f64::from(i32::MIN);
    let exact_months = scale(f64::from(months));
    let exact_days = scale(f64::from(days));
    let new_months = whole(exact_months, least)?;
    let new_days = whole(exact_days, least)?;
    // Rounded if it is within a microsecond of a whole number.
    let round = |number: f64| (number * 1e6).round_ties_even() / 1e6;
    let month_days = round((exact_months - new_months) * 30.0);
    let mut seconds = round((exact_days - new_days + month_days - month_days.trunc()) * 86_400.0);
    let mut carried = month_days.trunc();
    if seconds.abs() >= 86_400.0 {
        carried += (seconds / 86_400.0).trunc();
        seconds -= (seconds / 86_400.0).trunc() * 86_400.0;
    }
    let new_days = whole(new_days + carried, least)?;
    let exact_micros = (scale(micros as f64) + seconds * 1e6).round_ties_even();
    let new_micros = whole(exact_micros, i64::MIN as f64)?;
    Ok(Value::Interval { months: new_months as i32, days: new_days as i32, micros: new_micros as i64 })
}

fn times(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
    match (left, right) {
        (interval, Value::Float8(factor)) | (Value::Float8(factor), interval) => {
            scale_interval(interval, |part| part * factor)
        }
        _ => Err(mismatch()),
    }
}

fn divided(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
    take!(right => Value::Float8(divisor) => match *divisor {
        0.0 => Err(division_by_zero()),
        divisor => scale_interval(left, |part| part / divisor),
    })
}

pub(super) fn register(tables: &mut Tables) {
    use SqlType as T;
    tables.binary("+", T::DATE, T::INT4, T::DATE, |left, right, _| date_plus(left, right, 1));
    tables.binary("+", T::INT4, T::DATE, T::DATE, |left, right, _| date_plus(right, left, 1));
    tables.binary("-", T::DATE, T::INT4, T::DATE, |left, right, _| date_plus(left, right, -1));
    tables.binary("-", T::DATE, T::DATE, T::INT4, date_minus_date);
    tables.binary("+", T::DATE, T::TIME, T::TIMESTAMP, date_and_time);
    tables.binary("+", T::TIME, T::DATE, T::TIMESTAMP, date_and_time);
    tables.binary("+", T::DATE, T::TIMETZ, T::TIMESTAMPTZ, date_and_time);
    tables.binary("+", T::TIMETZ, T::DATE, T::TIMESTAMPTZ, date_and_time);
    for (ty, result) in [
        (T::DATE, T::TIMESTAMP),
        (T::TIMESTAMP, T::TIMESTAMP),
        (T::TIMESTAMPTZ, T::TIMESTAMPTZ),
        (T::TIME, T::TIME),
        (T::TIMETZ, T::TIMETZ),
    ] {
        tables.binary("+", ty, T::INTERVAL, result, plus_interval);
        tables.binary("-", ty, T::INTERVAL, result, minus_interval);
        tables.binary("+", T::INTERVAL, ty, result, interval_plus);
    }
    for ty in [T::TIMESTAMP, T::TIMESTAMPTZ, T::TIME] {
        tables.binary("-", ty, ty, T::INTERVAL, minus);
    }
    tables.binary("+", T::INTERVAL, T::INTERVAL, T::INTERVAL, |left, right, _| sum_of_intervals(left, right, 1));
    tables.binary("-", T::INTERVAL, T::INTERVAL, T::INTERVAL, |left, right, _| sum_of_intervals(left, right, -1));
    tables.binary("*", T::INTERVAL, T::FLOAT8, T::INTERVAL, times);
    tables.binary("*", T::FLOAT8, T::INTERVAL, T::INTERVAL, times);
    tables.binary("/", T::INTERVAL, T::FLOAT8, T::INTERVAL, divided);
    tables.prefix("-", T::INTERVAL, T::INTERVAL, |value, _| negated(value));
    debug_assert!(datetime::is_timestamp(0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::tests::apply;

    #[test]
    fn times_are_computed_as_postgresql_does() {
        let (date, timestamp, interval) = (SqlType::DATE, SqlType::TIMESTAMP, SqlType::INTERVAL);
        for (left, operator, right, expected) in [
            ((date, "2001-09-28"), "+", (SqlType::INT4, "7"), "2001-10-05"),
            ((date, "2001-09-28"), "+", (interval, "1 hour"), "2001-09-28 01:00:00"),
            ((date, "2001-09-28"), "+", (SqlType::TIME, "03:00"), "2001-09-28 03:00:00"),
            ((date, "2001-10-01"), "-", (date, "2001-09-28"), "3"),
            ((timestamp, "2001-01-31"), "+", (interval, "1 month"), "2001-02-28 00:00:00"),
            ((timestamp, "2001-09-29 03:00"), "-", (timestamp, "2001-07-27 12:00"), "63 days 15:00:00"),
            ((SqlType::TIME, "01:00"), "-", (interval, "2 hours"), "23:00:00"),
            ((interval, "1 day"), "-", (interval, "1 hour"), "1 day -01:00:00"),
            ((interval, "1 month 1 day"), "*", (SqlType::FLOAT8, "1.5"), "1 mon 16 days 12:00:00"),
            ((interval, "1 hour"), "/", (SqlType::FLOAT8, "1.5"), "00:40:00"),
            ((SqlType::INT4, "900"), "*", (interval, "1 second"), "00:15:00"),
        ] {
            assert_eq!(apply(left, operator, right).unwrap(), expected, "{left:?} {operator} {right:?}");
        }
        assert!(apply((timestamp, "294276-12-31"), "+", (interval, "1 year")).is_err());
    }
}
