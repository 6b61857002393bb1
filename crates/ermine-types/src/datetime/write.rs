//! Dates, times and intervals as text: ISO, and intervals in PostgreSQL's own style.

use std::fmt::{self, Write};

use jiff::tz::TimeZone;

use super::{
    Civil, DATE_INFINITY, DATE_MINUS_INFINITY, INFINITY, MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE,
    MICROS_PER_SECOND, MINUS_INFINITY, civil_from_days, to_local, utc_offset,
};

/// Writes year, month and day; years before Christ in their own count.
fn write_civil(Civil { year, month, day }: Civil, out: &mut impl Write) -> fmt::Result {
    let year = if year > 0 { year } else { 1 - year };
    write!(out, "{year:04}-{month:02}-{day:02}")
}

fn write_era(year: i64, out: &mut impl Write) -> fmt::Result {
    if year > 0 { Ok(()) } else { out.write_str(" BC") }
}

/// Writes a date.
pub fn write_date(days: i32, out: &mut impl Write) -> fmt::Result {
    match days {
        DATE_MINUS_INFINITY => out.write_str("-infinity"),
        DATE_INFINITY => out.write_str("infinity"),
        _ => {
            let civil = civil_from_days(days.into());
            write_civil(civil, out)?;
            write_era(civil.year, out)
        }
    }
}

/// Writes seconds and their fraction, without zeros at the end.
fn write_seconds(micros: u64, out: &mut impl Write) -> fmt::Result {
    let fraction = micros % MICROS_PER_SECOND as u64;
    write!(out, "{:02}", micros / MICROS_PER_SECOND as u64)?;
    if fraction == 0 {
        return Ok(());
    }
    let mut digits = format!("{fraction:06}");
    digits.truncate(digits.trim_end_matches('0').len());
    write!(out, ".{digits}")
}

/// Writes a time of day.
pub fn write_time(micros: i64, out: &mut impl Write) -> fmt::Result {
    let micros = micros.unsigned_abs();
    let (hours, rest) = (micros / MICROS_PER_HOUR as u64, micros % MICROS_PER_HOUR as u64);
    write!(out, "{hours:02}:{:02}:", rest / MICROS_PER_MINUTE as u64)?;
    write_seconds(rest % MICROS_PER_MINUTE as u64, out)
}

fn write_infinity(micros: i64, out: &mut impl Write) -> Option<fmt::Result> {
    match micros {
        MINUS_INFINITY => Some(out.write_str("-infinity")),
        INFINITY => Some(out.write_str("infinity")),
        _ => None,
    }
}

/// Writes a point in time without its zone.
pub fn write_timestamp(micros: i64, out: &mut impl Write) -> fmt::Result {
    if let Some(result) = write_infinity(micros, out) {
        return result;
    }
    let civil = civil_from_days(micros.div_euclid(MICROS_PER_DAY));
    write_civil(civil, out)?;
    out.write_char(' ')?;
    write_time(micros.rem_euclid(MICROS_PER_DAY), out)?;
    write_era(civil.year, out)
}

/// Writes seconds ahead of UTC: `+02`, `+05:30`.
pub(crate) fn write_offset(seconds: i64, out: &mut impl Write) -> fmt::Result {
    let sign = if seconds < 0 { '-' } else { '+' };
    let seconds = seconds.abs();
    write!(out, "{sign}{:02}", seconds / 3600)?;
    if seconds % 3600 != 0 {
        write!(out, ":{:02}", seconds / 60 % 60)?;
    }
    if seconds % 60 != 0 {
        write!(out, ":{:02}", seconds % 60)?;
    }
    Ok(())
}

/// Writes a point in time in the local time of a zone.
pub fn write_timestamptz(micros: i64, zone: &TimeZone, out: &mut impl Write) -> fmt::Result {
    if let Some(result) = write_infinity(micros, out) {
        return result;
    }
    let local = to_local(micros, zone);
    let civil = civil_from_days(local.div_euclid(MICROS_PER_DAY));
    write_civil(civil, out)?;
    out.write_char(' ')?;
    write_time(local.rem_euclid(MICROS_PER_DAY), out)?;
    write_offset(utc_offset(micros, zone), out)?;
    write_era(civil.year, out)
}

/// Writes an interval.
pub fn write_interval(months: i32, days: i32, micros: i64, out: &mut impl Write) -> fmt::Result {
    let mut is_first = true;
    let mut was_negative = false;
    for (count, unit) in [(months / 12, "year"), (months % 12, "mon"), (days, "day")] {
        if count == 0 {
            continue;
        }
        let space = if is_first { "" } else { " " };
        let sign = if was_negative && count > 0 { "+" } else { "" };
        let plural = if count == 1 { "" } else { "s" };
        write!(out, "{space}{sign}{count} {unit}{plural}")?;
        (is_first, was_negative) = (false, count < 0);
    }
    if !is_first && micros == 0 {
        return Ok(());
    }
    out.write_str(if is_first { "" } else { " " })?;
    out.write_str(match micros < 0 {
        true => "-",
        false if was_negative => "+",
        false => "",
    })?;
    write_time(micros, out)
}
