//! Intervals as text, in the four styles of `IntervalStyle`.

use std::fmt::{self, Write};

use super::{
    IntervalStyle, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND,
    write::{write_fraction, write_time},
};

/// Writes an interval.
pub fn write_interval(months: i32, days: i32, micros: i64, style: IntervalStyle, out: &mut impl Write) -> fmt::Result {
    match style {
        IntervalStyle::Postgres => write_postgres(months, days, micros, out),
        IntervalStyle::PostgresVerbose => write_verbose(months, days, micros, out),
        IntervalStyle::SqlStandard => write_sql_standard(months, days, micros, out),
        IntervalStyle::Iso8601 => write_iso(months, days, micros, out),
    }
}

fn write_postgres(months: i32, days: i32, micros: i64, out: &mut impl Write) -> fmt::Result {
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

/// Returns hours, minutes and the microseconds of the rest; all have the sign of the whole.
fn parts_of_time(micros: i64) -> (i64, i64, i64) {
    let rest = micros % MICROS_PER_HOUR;
    (micros / MICROS_PER_HOUR, rest / MICROS_PER_MINUTE, rest % MICROS_PER_MINUTE)
}

/// Writes seconds without their sign.
fn write_seconds(micros: i64, out: &mut impl Write) -> fmt::Result {
    write!(out, "{}", (micros / MICROS_PER_SECOND).abs())?;
    write_fraction(micros.unsigned_abs(), out)
}

fn write_verbose(months: i32, days: i32, micros: i64, out: &mut impl Write) -> fmt::Result {
    let (hours, minutes, rest) = parts_of_time(micros);
    let wholes = [
        (i64::from(months / 12), "year"),
        (i64::from(months % 12), "mon"),
        (i64::from(days), "day"),
        (hours, "hour"),
        (minutes, "min"),
    ];
    out.write_char('@')?;
    // The first field that is not zero decides whether the whole is before.
    let first = wholes.iter().map(|(count, _)| *count).chain([rest]).find(|count| *count != 0);
    let is_before = first.is_some_and(|first| first < 0);
    for (count, unit) in wholes {
        if count != 0 {
            let count = if is_before { -count } else { count };
            write!(out, " {count} {unit}{}", if count == 1 { "" } else { "s" })?;
        }
    }
    if rest != 0 {
        out.write_str(if (rest < 0) == is_before { " " } else { " -" })?;
        write_seconds(rest, out)?;
        out.write_str(if rest.abs() == MICROS_PER_SECOND { " sec" } else { " secs" })?;
    }
    if first.is_none() {
        out.write_str(" 0")?;
    }
    out.write_str(if is_before { " ago" } else { "" })
}

/// SQL's form has one sign, and years and months or days and a time: other intervals have all fields, each with its
/// sign.
fn write_sql_standard(months: i32, days: i32, micros: i64, out: &mut impl Write) -> fmt::Result {
    let has_negative = months < 0 || days < 0 || micros < 0;
    let has_positive = months > 0 || days > 0 || micros > 0;
    let (hours, minutes, rest) = parts_of_time(micros);
    let time = |out: &mut dyn Write| {
        write!(out, "{}:{:02}:", hours.abs(), minutes.abs())?;
        write!(out, "{:02}", (rest / MICROS_PER_SECOND).abs())?;
        write_fraction(rest.unsigned_abs(), out)
    };
    let (years, months_left) = ((months / 12).abs(), (months % 12).abs());
    if !has_negative && !has_positive {
        return out.write_char('0');
    }
    if has_negative && has_positive || months != 0 && (days != 0 || micros != 0) {
        let sign = |is_negative: bool| if is_negative { '-' } else { '+' };
        write!(out, "{}{years}-{months_left} ", sign(months < 0))?;
        write!(out, "{}{} {}", sign(days < 0), days.unsigned_abs(), sign(micros < 0))?;
        return time(out);
    }
    out.write_str(if has_negative { "-" } else { "" })?;
    if months != 0 {
        return write!(out, "{years}-{months_left}");
    }
    if days != 0 {
        write!(out, "{} ", days.unsigned_abs())?;
    }
    time(out)
}

fn write_iso(months: i32, days: i32, micros: i64, out: &mut impl Write) -> fmt::Result {
    if months == 0 && days == 0 && micros == 0 {
        return out.write_str("PT0S");
    }
    let (hours, minutes, rest) = parts_of_time(micros);
    out.write_char('P')?;
    let date = [(i64::from(months / 12), 'Y'), (i64::from(months % 12), 'M'), (i64::from(days), 'D')];
    let whole = |fields: &[(i64, char)], out: &mut dyn Write| {
        fields.iter().filter(|(count, _)| *count != 0).try_for_each(|(count, unit)| write!(out, "{count}{unit}"))
    };
    whole(&date, out)?;
    if micros != 0 {
        out.write_char('T')?;
        whole(&[(hours, 'H'), (minutes, 'M')], out)?;
    }
    if rest != 0 {
        out.write_str(if rest < 0 { "-" } else { "" })?;
        write_seconds(rest, out)?;
        out.write_char('S')?;
    }
    Ok(())
}
