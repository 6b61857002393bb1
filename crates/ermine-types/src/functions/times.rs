//! Functions of dates, times and intervals.

use crate::{
    Environment, SqlType, Value,
    datetime::{
        self, Civil, MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND, age, check_civil,
        extract_date, extract_interval, extract_time, extract_timestamp, extract_timetz, find_zone, find_zone_at,
        find_zone_at_local, interval_from_parts, timestamp_out_of_range, timestamp_to_date, to_local, to_utc,
        truncate_timestamp,
    },
    error::{Result, SqlError, SqlState},
    text,
};

use super::{Table, arguments};

/// Returns the current time, in microseconds since 2000-01-01.
fn clock() -> i64 {
    let unix = jiff::Timestamp::now().as_microsecond();
    unix + i64::from(datetime::UNIX_EPOCH_DAY) * MICROS_PER_DAY
}

fn local_now(environment: &Environment) -> i64 {
    to_local(environment.transaction_began, &environment.time_zone)
}

fn extract(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let [Value::Text(field), value] = arguments else { return Err(crate::operators::mismatch()) };
    match value {
        Value::Date(days) => extract_date(field, *days),
        Value::Time(micros) => extract_time(field, *micros),
        Value::TimeTz { micros, ahead } => extract_timetz(field, *micros, *ahead),
        Value::Timestamp(micros) => extract_timestamp(field, *micros, None),
        Value::TimestampTz(micros) => extract_timestamp(field, *micros, Some(&environment.time_zone)),
        Value::Interval { months, days, micros } => extract_interval(field, *months, *days, *micros),
        _ => Err(crate::operators::mismatch()),
    }
}

fn date_part(arguments: &[Value], environment: &Environment) -> Result<Value> {
    Ok(match (extract(arguments, environment)?, arguments) {
        // A sum of floats in PostgreSQL, too, where the last digits differ.
        (Value::Numeric(_), [Value::Text(field), Value::Interval { months, days, micros }])
            if field.eq_ignore_ascii_case("epoch") =>
        {
            const DAY: f64 = 86_400.0;
            let time = *micros as f64 / 1e6;
            let with_months = time + 365.25 * DAY * f64::from(months / 12) + 30.0 * DAY * f64::from(months % 12);
            Value::Float8(with_months + DAY * f64::from(*days))
        }
        (Value::Numeric(number), _) => Value::Float8(number.to_f64()),
        (other, _) => other,
    })
}

fn date_trunc(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let truncated_in = |field: &str, micros: i64, zone: &jiff::tz::TimeZone| {
        let local = truncate_timestamp(field, to_local(micros, zone), "timestamp with time zone")?;
        to_utc(local, zone).map(Value::TimestampTz)
    };
    match arguments {
        [Value::Text(field), Value::Timestamp(micros)] => {
            truncate_timestamp(field, *micros, "timestamp without time zone").map(Value::Timestamp)
        }
        [Value::Text(field), Value::TimestampTz(micros)] => truncated_in(field, *micros, &environment.time_zone),
        [Value::Text(field), Value::TimestampTz(micros), Value::Text(zone)] => {
            truncated_in(field, *micros, &find_zone(zone)?)
        }
        [Value::Text(field), Value::Interval { months, days, micros }] => {
            truncate_interval(field, *months, *days, *micros)
        }
        _ => Err(crate::operators::mismatch()),
    }
}

fn truncate_interval(field: &str, months: i32, days: i32, micros: i64) -> Result<Value> {
    use datetime::Field;
    let to = |unit: i32| Value::Interval { months: months / unit * unit, days: 0, micros: 0 };
    let time = |unit: i64| Value::Interval { months, days, micros: micros / unit * unit };
    Ok(match Field::parse(field, "interval")? {
        Field::Millennium => to(12_000),
        Field::Century => to(1200),
        Field::Decade => to(120),
        Field::Year => to(12),
        Field::Quarter => to(3),
        Field::Month => to(1),
        Field::Day => Value::Interval { months, days, micros: 0 },
        Field::Hour => time(MICROS_PER_HOUR),
        Field::Minute => time(MICROS_PER_MINUTE),
        Field::Second => time(MICROS_PER_SECOND),
        Field::Milliseconds => time(1000),
        Field::Microseconds => time(1),
        unit => return Err(unit.not_truncated(field, "interval")),
    })
}

fn field_out_of_range(what: &str) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, what)
}

fn make_date(year: i32, month: i32, day: i32) -> Result<i32> {
    let out_of_range = || field_out_of_range(&format!("date field value out of range: {year}-{month:02}-{day:02}"));
    // Negative years are before Christ, and there is no year 0.
    let counted = match year {
        0 => return Err(out_of_range()),
        ..0 => i64::from(year) + 1,
        _ => year.into(),
    };
    let days = check_civil(Civil { year: counted, month: month.into(), day: day.into() }).ok_or_else(out_of_range)?;
    i32::try_from(days).ok().filter(|&days| datetime::is_date(days)).ok_or_else(out_of_range)
}

fn make_time(hour: i32, minute: i32, second: f64) -> Result<i64> {
    let micros = (second * 1e6).round_ties_even();
    let valid = (0..=24).contains(&hour) && (0..60).contains(&minute) && (0.0..=6e7).contains(&micros);
    if valid {
        let time = i64::from(hour) * MICROS_PER_HOUR + i64::from(minute) * MICROS_PER_MINUTE + micros as i64;
        if time <= MICROS_PER_DAY {
            return Ok(time);
        }
    }
    Err(field_out_of_range(&format!("time field value out of range: {hour}:{minute:02}:{second:02}")))
}

fn make_timestamp(arguments: &[Value]) -> Result<i64> {
    arguments!(arguments, [Value::Int4(year), Value::Int4(month), Value::Int4(day), Value::Int4(hour),
        Value::Int4(minute), Value::Float8(second), ..] => {
        let days = make_date(*year, *month, *day)?;
        let micros = i64::from(days).checked_mul(MICROS_PER_DAY)
            .and_then(|micros| micros.checked_add(make_time(*hour, *minute, *second).ok()?));
        make_time(*hour, *minute, *second)?;
        micros.filter(|&micros| datetime::is_timestamp(micros)).ok_or_else(timestamp_out_of_range)
    })
}

fn make_interval(arguments: &[Value]) -> Result<Value> {
    let part = |at: usize| match arguments.get(at) {
        Some(Value::Int4(number)) => i128::from(*number),
        _ => 0,
    };
    let seconds = match arguments.get(6) {
        Some(Value::Float8(seconds)) if seconds.abs() < 1e15 => (seconds * 1e6).round_ties_even() as i128,
        None => 0,
        _ => return Err(datetime::interval_out_of_range()),
    };
    let micros = part(4) * i128::from(MICROS_PER_HOUR) + part(5) * i128::from(MICROS_PER_MINUTE) + seconds;
    interval_from_parts(part(0) * 12 + part(1), part(2) * 7 + part(3), micros)
}

/// Converts seconds since 1970.
fn to_timestamp(seconds: f64) -> Result<Value> {
    if seconds.is_nan() {
        return Err(field_out_of_range("timestamp cannot be NaN"));
    }
    if seconds.is_infinite() {
        return Ok(Value::TimestampTz(if seconds > 0.0 { datetime::INFINITY } else { datetime::MINUS_INFINITY }));
    }
    let out_of_range = || field_out_of_range(&format!("timestamp out of range: \"{seconds}\""));
    // Rounded behind the change of epochs, as PostgreSQL does it: that decides the last digit.
    let epoch = datetime::UNIX_EPOCH_DAY as f64 * (MICROS_PER_DAY / MICROS_PER_SECOND) as f64;
    let micros = ((seconds + epoch) * 1e6).round_ties_even();
    if micros.abs() > 9.3e18 {
        return Err(out_of_range());
    }
    let fits = i64::try_from(micros as i128).ok().filter(|&micros| datetime::is_timestamp(micros));
    fits.map(Value::TimestampTz).ok_or_else(out_of_range)
}

fn justify(arguments: &[Value], hours: bool, days_too: bool) -> Result<Value> {
    arguments!(arguments, [Value::Interval { months, days, micros }] => {
        let (mut months, mut days, mut micros) = (i128::from(*months), i128::from(*days), i128::from(*micros));
        let day = i128::from(MICROS_PER_DAY);
        if hours {
            days += micros / day;
            micros %= day;
        }
        if days_too {
            months += days / 30;
            days %= 30;
            // The time counts if it is a part of what is justified.
            let time = if hours { micros } else { 0 };
            if months > 0 && (days < 0 || days == 0 && time < 0) {
                days += 30;
                months -= 1;
            } else if months < 0 && (days > 0 || days == 0 && time > 0) {
                days -= 30;
                months += 1;
            }
        }
        if hours {
            if days > 0 && micros < 0 {
                micros += day;
                days -= 1;
            } else if days < 0 && micros > 0 {
                micros -= day;
                days += 1;
            }
        }
        interval_from_parts(months, days, micros)
    })
}

/// The function behind `AT TIME ZONE`.
fn at_zone(arguments: &[Value], environment: &Environment) -> Result<Value> {
    match arguments {
        [Value::Text(zone), Value::Timestamp(local)] => {
            to_utc(*local, &find_zone_at_local(zone, *local)?).map(Value::TimestampTz)
        }
        [Value::Text(zone), Value::TimestampTz(micros)] => {
            datetime::local_timestamp(*micros, &find_zone_at(zone, *micros)?)
        }
        [Value::Text(zone), Value::TimeTz { micros, ahead }] => {
            let now = datetime::utc_offset(
                environment.transaction_began,
                &find_zone_at(zone, environment.transaction_began)?,
            );
            Ok(datetime::move_time(*micros, *ahead, now as i32))
        }
        // An interval is a zone ahead of UTC by its time.
        [Value::Interval { months, days, micros: zone }, value] => {
            if (*months, *days) != (0, 0) {
                let shown = text::to_string(&arguments[0], SqlType::INTERVAL, environment);
                let message = format!("interval time zone \"{shown}\" must not include months or days");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
            let zone = zone / MICROS_PER_SECOND;
            match value {
                Value::Timestamp(local) if !datetime::is_infinite(*local) => {
                    Ok(Value::TimestampTz(local.saturating_sub(zone * MICROS_PER_SECOND)))
                }
                Value::TimestampTz(micros) if !datetime::is_infinite(*micros) => {
                    Ok(Value::Timestamp(micros.saturating_add(zone * MICROS_PER_SECOND)))
                }
                Value::Timestamp(at) => Ok(Value::TimestampTz(*at)),
                Value::TimestampTz(at) => Ok(Value::Timestamp(*at)),
                Value::TimeTz { micros, ahead } => Ok(datetime::move_time(*micros, *ahead, zone as i32)),
                _ => Err(crate::operators::mismatch()),
            }
        }
        _ => Err(crate::operators::mismatch()),
    }
}

pub(super) fn register(table: &mut Table) {
    use SqlType as T;
    let t = T::TEXT;
    for name in ["now", "current_timestamp", "transaction_timestamp"] {
        table
            .add(name, &[], T::TIMESTAMPTZ, |_, environment| Ok(Value::TimestampTz(environment.transaction_began)))
            .stable();
    }
    table
        .add("statement_timestamp", &[], T::TIMESTAMPTZ, |_, environment| {
            Ok(Value::TimestampTz(environment.statement_began))
        })
        .stable();
    table.add("clock_timestamp", &[], T::TIMESTAMPTZ, |_, _| Ok(Value::TimestampTz(clock()))).volatile();
    table
        .add("timeofday", &[], t, |_, environment| {
            let at = Value::TimestampTz(clock());
            super::formats::to_char_timestamp(&at, "Dy Mon DD HH24:MI:SS.US YYYY TZ", environment)
                .map(|text| text.map_or(Value::Null, Value::from))
        })
        .volatile();
    table
        .add("current_date", &[], T::DATE, |_, environment| timestamp_to_date(local_now(environment)).map(Value::Date))
        .stable();
    table
        .add("localtime", &[], T::TIME, |_, environment| {
            Ok(Value::Time(local_now(environment).rem_euclid(MICROS_PER_DAY)))
        })
        .stable();
    table
        .add("current_time", &[], T::TIMETZ, |_, environment| {
            Ok(datetime::time_in_zone(environment.transaction_began, &environment.time_zone))
        })
        .stable();
    table
        .add("localtimestamp", &[], T::TIMESTAMP, |_, environment| Ok(Value::Timestamp(local_now(environment))))
        .stable();
    register_fields(table);
    register_makers(table);
}

fn register_fields(table: &mut Table) {
    use SqlType as T;
    let t = T::TEXT;
    for ty in [T::TIMESTAMP, T::DATE, T::TIME, T::TIMETZ, T::INTERVAL] {
        table.add("extract", &[t, ty], T::NUMERIC, extract);
        table.add("date_part", &[t, ty], T::FLOAT8, date_part);
    }
    for ty in [T::TIMESTAMP, T::INTERVAL] {
        table.add("date_trunc", &[t, ty], ty, date_trunc);
    }
    table.add("extract", &[t, T::TIMESTAMPTZ], T::NUMERIC, extract).stable();
    table.add("date_part", &[t, T::TIMESTAMPTZ], T::FLOAT8, date_part).stable();
    table.add("date_trunc", &[t, T::TIMESTAMPTZ], T::TIMESTAMPTZ, date_trunc).stable();
    table.add("date_trunc", &[t, T::TIMESTAMPTZ, t], T::TIMESTAMPTZ, date_trunc).stable();
    table.add(
        "age",
        &[T::TIMESTAMP, T::TIMESTAMP],
        T::INTERVAL,
        |arguments, _| arguments!(arguments, [Value::Timestamp(left), Value::Timestamp(right)] => age(*left, *right)),
    );
    // Immutable in PostgreSQL, too, though the zone decides.
    table.add("age", &[T::TIMESTAMPTZ, T::TIMESTAMPTZ], T::INTERVAL, |arguments, environment| {
        let zone = &environment.time_zone;
        arguments!(arguments, [Value::TimestampTz(left), Value::TimestampTz(right)] => {
            age(to_local(*left, zone), to_local(*right, zone))
        })
    });
    table
        .add("age", &[T::TIMESTAMP], T::INTERVAL, |arguments, environment| {
            let midnight = local_now(environment).div_euclid(MICROS_PER_DAY) * MICROS_PER_DAY;
            arguments!(arguments, [Value::Timestamp(at)] => age(midnight, *at))
        })
        .stable();
    table
        .add("age", &[T::TIMESTAMPTZ], T::INTERVAL, |arguments, environment| {
            let midnight = local_now(environment).div_euclid(MICROS_PER_DAY) * MICROS_PER_DAY;
            arguments!(arguments, [Value::TimestampTz(at)] => age(midnight, to_local(*at, &environment.time_zone)))
        })
        .stable();
}

/// Returns the point in time of a date and a time of day.
fn joined(days: i32, micros: i64) -> Result<i64> {
    let midnight = datetime::date_to_timestamp(days)?;
    match datetime::is_infinite(midnight) {
        true => Ok(midnight),
        false => {
            let joined = midnight.checked_add(micros).filter(|joined| datetime::is_timestamp(*joined));
            joined.ok_or_else(datetime::timestamp_out_of_range)
        }
    }
}

/// Returns the beginning of the part of time, counted from `origin` in steps of `stride`, in which a time lies.
fn bin((months, days, micros): (i32, i32, i64), at: i64, origin: i64) -> Result<i64> {
    let overflow = |message: &str| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message);
    if datetime::is_infinite(at) {
        return Ok(at);
    }
    if datetime::is_infinite(origin) {
        return Err(overflow("origin out of range"));
    }
    if months != 0 {
        let message = "timestamps cannot be binned into intervals containing months or years";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    let stride = i64::from(days).checked_mul(MICROS_PER_DAY).and_then(|length| length.checked_add(micros));
    let stride = stride.ok_or_else(|| overflow("interval out of range"))?;
    if stride <= 0 {
        return Err(overflow("stride must be greater than zero"));
    }
    let beyond = || overflow("interval out of range");
    let distance = at.checked_sub(origin).ok_or_else(beyond)?;
    origin.checked_add(distance - distance.rem_euclid(stride)).ok_or_else(beyond)
}

fn date_bin(arguments: &[Value]) -> Result<Value> {
    match arguments {
        [Value::Interval { months, days, micros }, Value::Timestamp(at), Value::Timestamp(origin)] => {
            bin((*months, *days, *micros), *at, *origin).map(Value::Timestamp)
        }
        [Value::Interval { months, days, micros }, Value::TimestampTz(at), Value::TimestampTz(origin)] => {
            bin((*months, *days, *micros), *at, *origin).map(Value::TimestampTz)
        }
        _ => Err(crate::operators::mismatch()),
    }
}

fn register_joined(table: &mut Table) {
    use SqlType as T;
    for ty in [T::TIMESTAMP, T::TIMESTAMPTZ] {
        table.add("date_bin", &[T::INTERVAL, ty, ty], ty, |arguments, _| date_bin(arguments));
    }
    table.add("timestamp", &[T::DATE, T::TIME], T::TIMESTAMP, |arguments, _| {
        arguments!(arguments, [Value::Date(days), Value::Time(micros)] => joined(*days, *micros).map(Value::Timestamp))
    });
    table
        .add("timestamptz", &[T::DATE, T::TIME], T::TIMESTAMPTZ, |arguments, environment| {
            arguments!(arguments, [Value::Date(days), Value::Time(micros)] => {
                to_utc(joined(*days, *micros)?, &environment.time_zone).map(Value::TimestampTz)
            })
        })
        .stable();
    table.add("timestamptz", &[T::DATE, T::TIMETZ], T::TIMESTAMPTZ, |arguments, _| {
        arguments!(arguments, [Value::Date(days), Value::TimeTz { micros, ahead }] => {
            joined(*days, micros - i64::from(*ahead) * 1_000_000).map(Value::TimestampTz)
        })
    });
}

fn register_makers(table: &mut Table) {
    register_joined(table);
    use SqlType as T;
    let (t, i) = (T::TEXT, T::INT4);
    table.add("make_date", &[i, i, i], T::DATE, |arguments, _| {
        arguments!(arguments, [Value::Int4(year), Value::Int4(month), Value::Int4(day)] => {
            make_date(*year, *month, *day).map(Value::Date)
        })
    });
    table.add("make_time", &[i, i, T::FLOAT8], T::TIME, |arguments, _| {
        arguments!(arguments, [Value::Int4(hour), Value::Int4(minute), Value::Float8(second)] => {
            make_time(*hour, *minute, *second).map(Value::Time)
        })
    });
    table.add("make_timestamp", &[i, i, i, i, i, T::FLOAT8], T::TIMESTAMP, |arguments, _| {
        make_timestamp(arguments).map(Value::Timestamp)
    });
    table
        .add("make_timestamptz", &[i, i, i, i, i, T::FLOAT8, t], T::TIMESTAMPTZ, |arguments, environment| {
            let local = make_timestamp(arguments)?;
            let zone = match arguments.get(6) {
                Some(Value::Text(zone)) => datetime::sane_zone(zone, local)?,
                _ => environment.time_zone.clone(),
            };
            to_utc(local, &zone).map(Value::TimestampTz)
        })
        .optional(1)
        .stable();
    table
        .add("make_interval", &[i, i, i, i, i, i, T::FLOAT8], T::INTERVAL, |arguments, _| make_interval(arguments))
        .optional(7);
    table.add(
        "to_timestamp",
        &[T::FLOAT8],
        T::TIMESTAMPTZ,
        |arguments, _| arguments!(arguments, [Value::Float8(seconds)] => to_timestamp(*seconds)),
    );
    table.add("justify_hours", &[T::INTERVAL], T::INTERVAL, |arguments, _| justify(arguments, true, false));
    table.add("justify_days", &[T::INTERVAL], T::INTERVAL, |arguments, _| justify(arguments, false, true));
    table.add("justify_interval", &[T::INTERVAL], T::INTERVAL, |arguments, _| justify(arguments, true, true));
    table.add("timezone", &[t, T::TIMESTAMP], T::TIMESTAMPTZ, at_zone);
    table.add("timezone", &[t, T::TIMESTAMPTZ], T::TIMESTAMP, at_zone);
    table.add("timezone", &[t, T::TIMETZ], T::TIMETZ, at_zone).stable();
    for (ty, result) in [(T::TIMESTAMP, T::TIMESTAMPTZ), (T::TIMESTAMPTZ, T::TIMESTAMP), (T::TIMETZ, T::TIMETZ)] {
        table.add("timezone", &[T::INTERVAL, ty], result, at_zone);
    }
    for ty in [T::DATE, T::TIMESTAMP, T::TIMESTAMPTZ, T::INTERVAL] {
        table.add("isfinite", &[ty], T::BOOL, |arguments, _| match arguments {
            [Value::Date(days)] => Ok(Value::Bool(!datetime::is_date_infinite(*days))),
            [Value::Timestamp(at) | Value::TimestampTz(at)] => Ok(Value::Bool(!datetime::is_infinite(*at))),
            _ => Ok(Value::Bool(true)),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::tests::call;

    #[test]
    fn times_are_postgresqls() {
        let (t, ts, i) = (SqlType::TEXT, SqlType::TIMESTAMP, SqlType::INT4);
        for (name, arguments, expected) in [
            ("extract", &[(t, "second"), (ts, "2001-02-16 20:38:40.5")][..], "40.500000"),
            ("extract", &[(t, "epoch"), (ts, "2001-02-16 20:38:40.12")], "982355920.120000"),
            ("extract", &[(t, "dow"), (ts, "2001-02-16 20:38:40")], "5"),
            ("extract", &[(t, "doy"), (ts, "2001-02-16 20:38:40")], "47"),
            ("extract", &[(t, "week"), (SqlType::DATE, "2006-01-01")], "52"),
            ("extract", &[(t, "isoyear"), (SqlType::DATE, "2006-01-01")], "2005"),
            ("extract", &[(t, "century"), (ts, "2000-12-16 12:21:13")], "20"),
            ("extract", &[(t, "epoch"), (SqlType::INTERVAL, "5 days 3 hours")], "442800.000000"),
            ("date_part", &[(t, "hour"), (ts, "2001-02-16 20:38:40")], "20"),
            ("date_trunc", &[(t, "hour"), (ts, "2001-02-16 20:38:40")], "2001-02-16 20:00:00"),
            ("date_trunc", &[(t, "week"), (ts, "2001-02-16 20:38:40")], "2001-02-12 00:00:00"),
            ("date_trunc", &[(t, "quarter"), (ts, "2001-05-16 20:38:40")], "2001-04-01 00:00:00"),
            ("age", &[(ts, "2001-04-10"), (ts, "1957-06-13")], "43 years 9 mons 27 days"),
            ("age", &[(ts, "1957-06-13"), (ts, "2001-04-10")], "-43 years -9 mons -27 days"),
            ("make_date", &[(i, "2013"), (i, "7"), (i, "15")], "2013-07-15"),
            ("make_interval", &[(i, "0"), (i, "0"), (i, "1"), (i, "10")], "17 days"),
            ("to_timestamp", &[(SqlType::FLOAT8, "1284352323")], "2010-09-13 04:32:03+00"),
            ("justify_interval", &[(SqlType::INTERVAL, "1 mon -1 hour")], "29 days 23:00:00"),
            ("timezone", &[(t, "America/Denver"), (ts, "2001-02-16 20:38:40")], "2001-02-17 03:38:40+00"),
        ] {
            assert_eq!(
                call(name, arguments).unwrap_or_else(|error| error.to_string()),
                expected,
                "{name} {arguments:?}"
            );
        }
        assert!(call("make_date", &[(i, "2013"), (i, "2"), (i, "30")]).is_err());
        assert!(call("extract", &[(t, "nothing"), (ts, "2001-02-16")]).is_err());
    }
}
