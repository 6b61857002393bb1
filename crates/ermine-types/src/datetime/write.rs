//! Dates and times as text.

use std::fmt::{self, Write};

use jiff::tz::TimeZone;

use super::{
    Civil, DATE_INFINITY, DATE_MINUS_INFINITY, DateForm, DateOrder, INFINITY, MICROS_PER_DAY, MICROS_PER_HOUR,
    MICROS_PER_MINUTE, MICROS_PER_SECOND, MINUS_INFINITY, Style, civil_from_days, day_of_week, to_local,
    tokens::{MONTHS, WEEKDAYS},
    utc_offset,
    zone::abbreviation,
};

/// Returns the year in its own count before Christ.
fn year_shown(year: i64) -> i64 {
    if year > 0 { year } else { 1 - year }
}

/// Writes year, month and day; years before Christ in their own count.
fn write_civil(Civil { year, month, day }: Civil, style: Style, out: &mut impl Write) -> fmt::Result {
    let year = year_shown(year);
    let (first, second) = if style.order == DateOrder::Dmy { (day, month) } else { (month, day) };
    match style.dates {
        DateForm::Iso => write!(out, "{year:04}-{month:02}-{day:02}"),
        DateForm::Sql => write!(out, "{first:02}/{second:02}/{year:04}"),
        DateForm::Postgres => write!(out, "{first:02}-{second:02}-{year:04}"),
        DateForm::German => write!(out, "{day:02}.{month:02}.{year:04}"),
    }
}

fn write_era(year: i64, out: &mut impl Write) -> fmt::Result {
    if year > 0 { Ok(()) } else { out.write_str(" BC") }
}

/// Writes a date.
pub fn write_date(days: i32, style: Style, out: &mut impl Write) -> fmt::Result {
    match days {
        DATE_MINUS_INFINITY => out.write_str("-infinity"),
        DATE_INFINITY => out.write_str("infinity"),
        _ => {
            let civil = civil_from_days(days.into());
            write_civil(civil, style, out)?;
            write_era(civil.year, out)
        }
    }
}

/// Writes the fraction of a second, without zeros at the end, if there is one.
pub(super) fn write_fraction<W: Write + ?Sized>(micros: u64, out: &mut W) -> fmt::Result {
    let fraction = micros % MICROS_PER_SECOND as u64;
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
    let seconds = rest % MICROS_PER_MINUTE as u64;
    write!(out, "{:02}", seconds / MICROS_PER_SECOND as u64)?;
    write_fraction(seconds, out)
}

fn write_infinity(micros: i64, out: &mut impl Write) -> Option<fmt::Result> {
    match micros {
        MINUS_INFINITY => Some(out.write_str("-infinity")),
        INFINITY => Some(out.write_str("infinity")),
        _ => None,
    }
}

/// Writes the first three letters of the name of a weekday or a month.
fn write_name(name: &str, out: &mut impl Write) -> fmt::Result {
    write!(out, "{}{} ", name[..1].to_ascii_uppercase(), &name[1..3])
}

/// Writes a local time; returns its year.
fn write_local(local: i64, style: Style, out: &mut impl Write) -> Result<i64, fmt::Error> {
    let days = local.div_euclid(MICROS_PER_DAY);
    let civil = civil_from_days(days);
    if style.dates != DateForm::Postgres {
        write_civil(civil, style, out)?;
        out.write_char(' ')?;
        write_time(local.rem_euclid(MICROS_PER_DAY), out)?;
        return Ok(civil.year);
    }
    write_name(WEEKDAYS[day_of_week(days) as usize], out)?;
    let month = MONTHS[civil.month as usize - 1];
    if style.order == DateOrder::Dmy {
        write!(out, "{:02} ", civil.day)?;
        write_name(month, out)?;
    } else {
        write_name(month, out)?;
        write!(out, "{:02} ", civil.day)?;
    }
    write_time(local.rem_euclid(MICROS_PER_DAY), out)?;
    write!(out, " {:04}", year_shown(civil.year))?;
    Ok(civil.year)
}

/// Writes a point in time without its zone.
pub fn write_timestamp(micros: i64, style: Style, out: &mut impl Write) -> fmt::Result {
    if let Some(result) = write_infinity(micros, out) {
        return result;
    }
    let year = write_local(micros, style, out)?;
    write_era(year, out)
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

/// Writes a point in time in the local time of a zone; but for ISO's form, the zone is its abbreviation.
pub fn write_timestamptz(micros: i64, zone: &TimeZone, style: Style, out: &mut impl Write) -> fmt::Result {
    if let Some(result) = write_infinity(micros, out) {
        return result;
    }
    let year = write_local(to_local(micros, zone), style, out)?;
    if style.dates == DateForm::Iso {
        write_offset(utc_offset(micros, zone), out)?;
    } else {
        write!(out, " {}", abbreviation(micros, zone))?;
    }
    write_era(year, out)
}
