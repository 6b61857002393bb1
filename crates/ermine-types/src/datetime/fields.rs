//! Fields of dates, times and intervals, for `extract` and `date_trunc`.

use jiff::tz::TimeZone;

use crate::{
    Numeric, Value,
    error::{Result, SqlError, SqlState},
};

use super::{
    Civil, EPOCH_JULIAN_DAY, INFINITY, MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND,
    UNIX_EPOCH_DAY, civil_from_days, days_from_civil, is_infinite, to_local, utc_offset,
};

/// A field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are PostgreSQL's")]
pub enum Field {
    Microseconds,
    Milliseconds,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    Epoch,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    IsoYear,
    Julian,
    TimeZone,
    TimeZoneHour,
    TimeZoneMinute,
}

impl Field {
    fn find(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "microseconds" | "microsecond" | "us" | "usec" | "usecs" => Self::Microseconds,
            "milliseconds" | "millisecond" | "ms" | "msec" | "msecs" => Self::Milliseconds,
            "second" | "seconds" | "sec" | "secs" | "s" => Self::Second,
            "minute" | "minutes" | "min" | "mins" | "m" => Self::Minute,
            "hour" | "hours" | "hr" | "hrs" | "h" => Self::Hour,
            "day" | "days" | "d" => Self::Day,
            "week" | "weeks" | "w" => Self::Week,
            "month" | "months" | "mon" | "mons" => Self::Month,
            "quarter" | "qtr" => Self::Quarter,
            "year" | "years" | "yr" | "yrs" | "y" => Self::Year,
            "decade" | "decades" | "dec" | "decs" => Self::Decade,
            "century" | "centuries" | "cent" | "c" => Self::Century,
            "millennium" | "millennia" | "mil" | "mils" => Self::Millennium,
            "epoch" => Self::Epoch,
            "dow" => Self::DayOfWeek,
            "isodow" => Self::IsoDayOfWeek,
            "doy" => Self::DayOfYear,
            "isoyear" => Self::IsoYear,
            "julian" => Self::Julian,
            "timezone" => Self::TimeZone,
            "timezone_hour" => Self::TimeZoneHour,
            "timezone_minute" => Self::TimeZoneMinute,
            _ => return None,
        })
    }

    /// Returns a field by its name, for a type.
    pub fn parse(name: &str, ty: &str) -> Result<Self> {
        Self::find(name).ok_or_else(|| not_recognized(name, ty))
    }

    /// Returns the error of `date_trunc` for this field, which does not apply to the type.
    pub(crate) fn not_truncated(self, name: &str, ty: &str) -> SqlError {
        match self {
            Self::Week | Self::TimeZone | Self::TimeZoneHour | Self::TimeZoneMinute => unsupported(name, ty),
            // A field without a size is unknown here.
            _ => not_recognized(name, ty),
        }
    }
}

fn not_recognized(name: &str, ty: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("unit \"{}\" not recognized for type {ty}", name.to_ascii_lowercase()),
    )
}

pub(super) fn unsupported(name: &str, ty: &str) -> SqlError {
    SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!("unit \"{}\" not supported for type {ty}", name.to_ascii_lowercase()),
    )
}

/// Returns a number with `scale` digits behind the point.
pub(super) fn scaled(number: i128, scale: u16) -> Numeric {
    Numeric::new(number.into(), scale.into()).unwrap_or(Numeric::NAN)
}

pub(super) fn whole(number: i64) -> Option<Numeric> {
    Some(number.into())
}

/// Returns the year and number of an ISO week.
pub(crate) fn iso_week(days: i64) -> (i64, i64) {
    // The week's Thursday is in its year. 2000-01-01 was a Saturday.
    let thursday = days - (days + 5).rem_euclid(7) + 3;
    let year = civil_from_days(thursday).year;
    let first = days_from_civil(Civil { year, month: 1, day: 1 });
    (year, (thursday - first) / 7 + 1)
}

/// Returns the Monday of an ISO week.
pub(crate) fn iso_week_begin(year: i64, week: i64) -> i64 {
    let fourth = days_from_civil(Civil { year, month: 1, day: 4 });
    fourth - (fourth + 5).rem_euclid(7) + (week - 1) * 7
}

/// Returns the day of the week; Sunday is 0.
pub(crate) fn day_of_week(days: i64) -> i64 {
    (days + 6).rem_euclid(7)
}

/// Returns the day of the year, from 1 on.
pub(crate) fn day_of_year(days: i64) -> i64 {
    let Civil { year, .. } = civil_from_days(days);
    days - days_from_civil(Civil { year, month: 1, day: 1 }) + 1
}

/// Returns the century of a year in this module's count, where 0 is 1 BC.
pub(crate) fn century(year: i64, length: i64) -> i64 {
    if year > 0 { (year + length - 1) / length } else { -((length - 1 - (year - 1)) / length) }
}

fn of_day(field: Field, days: i64) -> Option<Numeric> {
    let Civil { year, month, day } = civil_from_days(days);
    match field {
        Field::Day => whole(day),
        Field::Week => whole(iso_week(days).1),
        Field::Month => whole(month),
        Field::Quarter => whole((month - 1) / 3 + 1),
        Field::Year => whole(if year > 0 { year } else { year - 1 }),
        Field::Decade => whole(year.div_euclid(10)),
        Field::Century => whole(century(year, 100)),
        Field::Millennium => whole(century(year, 1000)),
        Field::DayOfWeek => whole(day_of_week(days)),
        Field::IsoDayOfWeek => whole((days + 5).rem_euclid(7) + 1),
        Field::DayOfYear => whole(day_of_year(days)),
        Field::IsoYear => {
            let (year, _) = iso_week(days);
            whole(if year > 0 { year } else { year - 1 })
        }
        Field::Julian => whole(days + i64::from(EPOCH_JULIAN_DAY)),
        _ => None,
    }
}

pub(super) fn of_time(field: Field, micros: i64) -> Option<Numeric> {
    match field {
        Field::Microseconds => whole(micros % MICROS_PER_MINUTE),
        Field::Milliseconds => Some(scaled((micros % MICROS_PER_MINUTE).into(), 3)),
        Field::Second => Some(scaled((micros % MICROS_PER_MINUTE).into(), 6)),
        Field::Minute => whole(micros / MICROS_PER_MINUTE % 60),
        Field::Hour => whole(micros / MICROS_PER_HOUR),
        _ => None,
    }
}

/// Returns a field of an infinity: infinite if it grows without limit, otherwise NULL.
fn of_infinity(field: Field, micros: i64) -> Value {
    let grows = matches!(
        field,
        Field::Year
            | Field::Decade
            | Field::Century
            | Field::Millennium
            | Field::Epoch
            | Field::IsoYear
            | Field::Julian
    );
    match grows {
        true if micros == INFINITY => Numeric::INFINITY.into(),
        true => Numeric::NEGATIVE_INFINITY.into(),
        false => Value::Null,
    }
}

/// Returns a field of a date.
pub fn extract_date(name: &str, days: i32) -> Result<Value> {
    let field = Field::parse(name, "date")?;
    if field != Field::Epoch && of_day(field, 0).is_none() {
        return Err(unsupported(name, "date"));
    }
    if super::is_date_infinite(days) {
        return Ok(of_infinity(field, if days == super::DATE_INFINITY { INFINITY } else { super::MINUS_INFINITY }));
    }
    let number = match field {
        Field::Epoch => whole((i64::from(days) - i64::from(UNIX_EPOCH_DAY)) * 86_400),
        _ => of_day(field, days.into()),
    };
    number.map(Value::Numeric).ok_or_else(|| unsupported(name, "date"))
}

/// Returns a field of a time of day.
pub fn extract_time(name: &str, micros: i64) -> Result<Value> {
    let ty = "time without time zone";
    let field = Field::parse(name, ty)?;
    let number = match field {
        Field::Epoch => Some(scaled(micros.into(), 6)),
        _ => of_time(field, micros),
    };
    number.map(Value::Numeric).ok_or_else(|| unsupported(name, ty))
}

/// Returns a field of a point in time, in the local time of the zone if there is one.
pub fn extract_timestamp(name: &str, micros: i64, zone: Option<&TimeZone>) -> Result<Value> {
    let ty = if zone.is_some() { "timestamp with time zone" } else { "timestamp without time zone" };
    let field = Field::parse(name, ty)?;
    if is_infinite(micros) {
        return Ok(of_infinity(field, micros));
    }
    let local = zone.map_or(micros, |zone| to_local(micros, zone));
    let (days, time) = (local.div_euclid(MICROS_PER_DAY), local.rem_euclid(MICROS_PER_DAY));
    let offset = zone.map(|zone| utc_offset(micros, zone));
    let number = match (field, offset) {
        (Field::Epoch, _) => {
            Some(scaled(i128::from(micros) - i128::from(UNIX_EPOCH_DAY) * i128::from(MICROS_PER_DAY), 6))
        }
        (Field::Julian, _) => {
            let day = Numeric::from(days + i64::from(EPOCH_JULIAN_DAY));
            Some(day.add(&Numeric::from(time).divide(&Numeric::from(MICROS_PER_DAY))?)?)
        }
        (Field::TimeZone, Some(offset)) => whole(offset),
        (Field::TimeZoneHour, Some(offset)) => whole(offset / 3600),
        (Field::TimeZoneMinute, Some(offset)) => whole(offset / 60 % 60),
        _ => of_day(field, days).filter(|_| field != Field::Julian).or_else(|| of_time(field, time)),
    };
    number.map(Value::Numeric).ok_or_else(|| unsupported(name, ty))
}

/// Returns a field of an interval.
pub fn extract_interval(name: &str, months: i32, days: i32, micros: i64) -> Result<Value> {
    let field = Field::parse(name, "interval")?;
    let (years, months_left) = (i64::from(months / 12), i64::from(months % 12));
    let number = match field {
        Field::Day => whole(days.into()),
        Field::Month => whole(months_left),
        Field::Quarter => whole(months_left / 3 + 1),
        Field::Year => whole(years),
        Field::Decade => whole(years / 10),
        Field::Century => whole(years / 100),
        Field::Millennium => whole(years / 1000),
        Field::Epoch => {
            // A year is 365.25 days, a month 30.
            let quarter_days = i128::from(years) * 1461 + i128::from(months_left) * 120 + i128::from(days) * 4;
            Some(scaled(quarter_days * i128::from(MICROS_PER_DAY / 4) + i128::from(micros), 6))
        }
        _ => of_time(field, micros),
    };
    number.map(Value::Numeric).ok_or_else(|| unsupported(name, "interval"))
}

/// Truncates a local time to a field.
pub fn truncate_timestamp(name: &str, local: i64, ty: &str) -> Result<i64> {
    if is_infinite(local) {
        return Ok(local);
    }
    let field = Field::parse(name, ty)?;
    let (days, time) = (local.div_euclid(MICROS_PER_DAY), local.rem_euclid(MICROS_PER_DAY));
    let Civil { year, month, .. } = civil_from_days(days);
    let first_of = |year, month| days_from_civil(Civil { year, month, day: 1 });
    let size = match field {
        Field::Microseconds => 1,
        Field::Milliseconds => 1000,
        Field::Second => MICROS_PER_SECOND,
        Field::Minute => MICROS_PER_MINUTE,
        Field::Hour => MICROS_PER_HOUR,
        _ => {
            let day = match field {
                Field::Day => days,
                Field::Week => days - (days + 5).rem_euclid(7),
                Field::Month => first_of(year, month),
                Field::Quarter => first_of(year, (month - 1) / 3 * 3 + 1),
                Field::Year => first_of(year, 1),
                Field::Decade => first_of(year.div_euclid(10) * 10, 1),
                Field::Century => first_of((year - 1).div_euclid(100) * 100 + 1, 1),
                Field::Millennium => first_of((year - 1).div_euclid(1000) * 1000 + 1, 1),
                _ => return Err(field.not_truncated(name, ty)),
            };
            let micros = day.checked_mul(MICROS_PER_DAY).filter(|&micros| super::is_timestamp(micros));
            return micros.ok_or_else(super::timestamp_out_of_range);
        }
    };
    Ok(days * MICROS_PER_DAY + time - time % size)
}
