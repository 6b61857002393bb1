//! Dates, times of day, points in time and intervals.
//!
//! Dates are days and points in time are microseconds since 2000-01-01, in the proleptic Gregorian calendar; the least
//! and the greatest number stand for the infinities. This is own code instead of `jiff`, whose years end at 9999 where
//! PostgreSQL's go to 5874897; `jiff` provides the time zones.

mod abbreviations;
mod arithmetic;
mod calendar;
mod fields;
mod interval;
mod iso;
mod iso_interval;
mod parse;
mod style;
mod tokens;
mod words;
mod write;
mod write_interval;
mod zone;
mod zoned_time;

pub use arithmetic::{
    add_interval_to_timestamp, add_interval_to_timestamptz, age, date_to_timestamp, subtract_timestamps,
    timestamp_to_date,
};
pub(crate) use calendar::check_civil;
pub use calendar::{Civil, civil_from_days, days_from_civil, days_in_month};
pub use fields::{Field, extract_date, extract_interval, extract_time, extract_timestamp, truncate_timestamp};
pub(crate) use fields::{century, day_of_week, day_of_year, iso_week, iso_week_begin};
pub use interval::{Range, interval_from_parts, parse_interval};
pub use parse::{parse_date, parse_time, parse_timestamp, parse_timestamptz, parse_timetz};
pub use style::{DateForm, DateOrder, IntervalStyle, NoDateStyle, Style};
pub use words::depends_on_now;
pub(crate) use write::write_offset;
pub use write::{write_date, write_time, write_timestamp, write_timestamptz};
pub use write_interval::write_interval;
pub(crate) use zone::abbreviation;
pub use zone::{
    NamedZone, find_zone, find_zone_at, find_zone_at_local, named_zones, sane_zone, to_local, to_utc, utc_offset,
};
pub use zoned_time::{extract_timetz, move_time, time_in_zone, time_of_today, write_timetz};

use super::Value;
use crate::error::{Result, SqlError, SqlState};

pub(crate) use super::order::{DAYS_PER_MONTH, MICROS_PER_DAY};

/// A second, in microseconds.
pub const MICROS_PER_SECOND: i64 = 1_000_000;
/// A minute, in microseconds.
pub const MICROS_PER_MINUTE: i64 = 60 * MICROS_PER_SECOND;
/// An hour, in microseconds.
pub const MICROS_PER_HOUR: i64 = 60 * MICROS_PER_MINUTE;

/// Before every date.
pub const DATE_MINUS_INFINITY: i32 = i32::MIN;
/// After every date.
pub const DATE_INFINITY: i32 = i32::MAX;
/// Before every point in time.
pub const MINUS_INFINITY: i64 = i64::MIN;
/// After every point in time.
pub const INFINITY: i64 = i64::MAX;

/// The Julian day of 2000-01-01, which is day 0 here.
pub(crate) const EPOCH_JULIAN_DAY: i32 = 2_451_545;
/// 1970-01-01 as a day number.
pub(crate) const UNIX_EPOCH_DAY: i32 = -10_957;

/// Dates begin with Julian day 0 and end before this one.
const DATE_END: i32 = 2_147_483_494 - EPOCH_JULIAN_DAY;
const TIMESTAMP_MIN: i64 = -(EPOCH_JULIAN_DAY as i64) * MICROS_PER_DAY;
/// Points in time end before the year 294277.
const TIMESTAMP_END: i64 = 9_223_371_331_200_000_000;

/// Whether it is a date or an infinity.
pub fn is_date(days: i32) -> bool {
    days == DATE_MINUS_INFINITY || days == DATE_INFINITY || (-EPOCH_JULIAN_DAY..DATE_END).contains(&days)
}

/// Whether it is a point in time or an infinity.
pub fn is_timestamp(micros: i64) -> bool {
    is_infinite(micros) || (TIMESTAMP_MIN..TIMESTAMP_END).contains(&micros)
}

/// Whether it is one of the infinities.
pub fn is_infinite(micros: i64) -> bool {
    micros == MINUS_INFINITY || micros == INFINITY
}

/// Whether it is one of the infinities.
pub fn is_date_infinite(days: i32) -> bool {
    days == DATE_MINUS_INFINITY || days == DATE_INFINITY
}

/// The error for a point in time beyond the calendar.
/// Returns the local time of a point in time, if it is within the limits of points in time without zone.
pub(crate) fn local_timestamp(micros: i64, zone: &jiff::tz::TimeZone) -> Result<Value> {
    let local = to_local(micros, zone);
    if is_timestamp(local) { Ok(Value::Timestamp(local)) } else { Err(timestamp_out_of_range()) }
}

pub(crate) fn timestamp_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range")
}

/// The error for a date beyond the calendar.
pub(crate) fn date_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range")
}

/// The error for an interval beyond its fields.
pub(crate) fn interval_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
}
