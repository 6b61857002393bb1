//! Sums and differences of points in time and intervals.

use jiff::tz::TimeZone;

use crate::{Value, error::Result};

use super::{
    Civil, DATE_INFINITY, DATE_MINUS_INFINITY, INFINITY, MICROS_PER_DAY, MINUS_INFINITY, civil_from_days,
    date_out_of_range, days_from_civil, days_in_month, interval_out_of_range, is_date, is_infinite, is_timestamp,
    timestamp_out_of_range, to_local, to_utc,
};

fn checked(micros: Option<i64>) -> Result<i64> {
    micros.filter(|&micros| is_timestamp(micros) && !is_infinite(micros)).ok_or_else(timestamp_out_of_range)
}

/// Adds months, then days, by the calendar.
fn add_calendar(local: i64, months: i32, days: i32) -> Result<i64> {
    let day = civil_from_days(local.div_euclid(MICROS_PER_DAY)).add_months(months.into());
    let days = days_from_civil(day) + i64::from(days);
    checked(days.checked_mul(MICROS_PER_DAY).and_then(|micros| micros.checked_add(local.rem_euclid(MICROS_PER_DAY))))
}

/// Adds an interval to a point in time without zone.
pub fn add_interval_to_timestamp(timestamp: i64, months: i32, days: i32, micros: i64) -> Result<i64> {
    if is_infinite(timestamp) {
        return Ok(timestamp);
    }
    checked(add_calendar(timestamp, months, days)?.checked_add(micros))
}

/// Adds an interval to a point in time; months and days are those of a zone.
pub fn add_interval_to_timestamptz(
    timestamp: i64,
    months: i32,
    days: i32,
    micros: i64,
    zone: &TimeZone,
) -> Result<i64> {
    if is_infinite(timestamp) {
        return Ok(timestamp);
    }
    let mut timestamp = timestamp;
    if months != 0 || days != 0 {
        timestamp = to_utc(add_calendar(to_local(timestamp, zone), months, days)?, zone)?;
    }
    checked(timestamp.checked_add(micros))
}

/// Returns the interval from one point in time to another, in days and less.
pub fn subtract_timestamps(left: i64, right: i64) -> Result<Value> {
    if is_infinite(left) || is_infinite(right) {
        return Err(crate::error::SqlError::new(
            crate::error::SqlState::DATETIME_FIELD_OVERFLOW,
            "cannot subtract infinite timestamps",
        ));
    }
    let micros = left.checked_sub(right).ok_or_else(interval_out_of_range)?;
    Ok(Value::Interval { months: 0, days: (micros / MICROS_PER_DAY) as i32, micros: micros % MICROS_PER_DAY })
}

/// Returns the beginning of a day.
pub fn date_to_timestamp(days: i32) -> Result<i64> {
    match days {
        DATE_MINUS_INFINITY => Ok(MINUS_INFINITY),
        DATE_INFINITY => Ok(INFINITY),
        _ => checked(i64::from(days).checked_mul(MICROS_PER_DAY)).map_err(|_| {
            crate::error::SqlError::new(
                crate::error::SqlState::DATETIME_FIELD_OVERFLOW,
                "date out of range for timestamp",
            )
        }),
    }
}

/// Returns the day of a point in time.
pub fn timestamp_to_date(micros: i64) -> Result<i32> {
    match micros {
        MINUS_INFINITY => Ok(DATE_MINUS_INFINITY),
        INFINITY => Ok(DATE_INFINITY),
        _ => {
            let days = i32::try_from(micros.div_euclid(MICROS_PER_DAY)).ok();
            days.filter(|&days| is_date(days)).ok_or_else(date_out_of_range)
        }
    }
}

/// Returns the interval from one point in time to another, in years, months, days and less. As in PostgreSQL 15,
/// infinity counts as an ordinary time.
pub fn age(left: i64, right: i64) -> Result<Value> {
    if left == MINUS_INFINITY || right == MINUS_INFINITY {
        return Err(timestamp_out_of_range());
    }
    let negative = left < right;
    let (later, earlier) = if negative { (right, left) } else { (left, right) };
    let parts = |micros: i64| (civil_from_days(micros.div_euclid(MICROS_PER_DAY)), micros.rem_euclid(MICROS_PER_DAY));
    let (Civil { year, month, day }, time) = parts(later);
    let (from, from_time) = parts(earlier);
    let mut micros = time - from_time;
    let mut days = day - from.day;
    let mut months = (year * 12 + month) - (from.year * 12 + from.month);
    if micros < 0 {
        micros += MICROS_PER_DAY;
        days -= 1;
    }
    while days < 0 {
        // Days are borrowed from the month in which the interval begins.
        days += days_in_month(from.year, from.month);
        months -= 1;
    }
    let sign = if negative { -1 } else { 1 };
    Ok(Value::Interval { months: (sign * months) as i32, days: (sign * days) as i32, micros: sign * micros })
}
