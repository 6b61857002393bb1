//! `time with time zone`: a time of day, and how many seconds the clocks that show it are ahead of UTC.

use std::fmt;

use jiff::tz::TimeZone;

use super::{
    Field, MICROS_PER_DAY, MICROS_PER_SECOND,
    fields::{of_time, scaled, unsupported, whole},
    to_local, utc_offset,
    write::{write_offset, write_time},
};
use crate::{Value, error::Result, order::time_in_utc};

/// Returns the time of day of a point in time, as the clocks of a zone show it.
pub fn time_in_zone(micros: i64, zone: &TimeZone) -> Value {
    let ahead = utc_offset(micros, zone);
    let local = micros.saturating_add(ahead * MICROS_PER_SECOND);
    Value::TimeTz { micros: local.rem_euclid(MICROS_PER_DAY), ahead: ahead as i32 }
}

/// Returns a time of day with the offset that a zone has today.
pub fn time_of_today(micros: i64, now: i64, zone: &TimeZone) -> Result<Value> {
    let midnight = to_local(now, zone).div_euclid(MICROS_PER_DAY) * MICROS_PER_DAY;
    let utc = super::to_utc(midnight + micros, zone)?;
    Ok(Value::TimeTz { micros, ahead: ((midnight + micros - utc) / MICROS_PER_SECOND) as i32 })
}

/// Returns the same moment of the day, as clocks show it that are ahead of UTC by other seconds.
pub fn move_time(micros: i64, ahead: i32, to: i32) -> Value {
    let moved = micros + i64::from(to - ahead) * MICROS_PER_SECOND;
    Value::TimeTz { micros: moved.rem_euclid(MICROS_PER_DAY), ahead: to }
}

/// Writes a time of day with its offset.
pub fn write_timetz(micros: i64, ahead: i32, out: &mut impl fmt::Write) -> fmt::Result {
    write_time(micros, out)?;
    write_offset(ahead.into(), out)
}

/// Returns a field of a time of day with its offset.
pub fn extract_timetz(name: &str, micros: i64, ahead: i32) -> Result<Value> {
    let ty = "time with time zone";
    let field = Field::parse(name, ty)?;
    let number = match field {
        Field::Epoch => Some(scaled(time_in_utc(micros, ahead).into(), 6)),
        Field::TimeZone => whole(ahead.into()),
        Field::TimeZoneHour => whole((ahead / 3600).into()),
        Field::TimeZoneMinute => whole((ahead / 60 % 60).into()),
        _ => of_time(field, micros),
    };
    number.map(Value::Numeric).ok_or_else(|| unsupported(name, ty))
}
