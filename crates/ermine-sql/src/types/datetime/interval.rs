//! The parser of intervals.

use crate::{
    error::{Result, SqlError, SqlState},
    types::{Value, text::is_space},
};

use super::{
    DAYS_PER_MONTH, MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND, interval_out_of_range,
};

fn invalid(text: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, format!("invalid input syntax for type interval: \"{text}\""))
}

fn overflow(text: &str) -> SqlError {
    SqlError::new(SqlState::INTERVAL_FIELD_OVERFLOW, format!("interval field value out of range: \"{text}\""))
}

/// The sums of the parts of an interval.
#[derive(Default)]
struct Sum {
    months: i128,
    days: i128,
    micros: i128,
}

/// A number with the digits behind its point.
#[derive(Clone, Copy)]
struct Amount {
    whole: i64,
    /// Has the same sign.
    fraction: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Unit {
    Months(i64),
    Days(i64),
    Micros(i64),
}

fn unit(word: &str) -> Option<Unit> {
    Some(match word {
        "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecond" | "microseconds" | "microsecon" => {
            Unit::Micros(1)
        }
        "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecond" | "milliseconds" | "millisecon" => {
            Unit::Micros(1000)
        }
        "s" | "sec" | "secs" | "second" | "seconds" => Unit::Micros(MICROS_PER_SECOND),
        "m" | "min" | "mins" | "minute" | "minutes" => Unit::Micros(MICROS_PER_MINUTE),
        "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Micros(MICROS_PER_HOUR),
        "d" | "day" | "days" => Unit::Days(1),
        "w" | "week" | "weeks" => Unit::Days(7),
        "mon" | "mons" | "month" | "months" => Unit::Months(1),
        "y" | "yr" | "yrs" | "year" | "years" => Unit::Months(12),
        "dec" | "decs" | "decade" | "decades" => Unit::Months(120),
        "c" | "cent" | "century" | "centuries" => Unit::Months(1200),
        "mil" | "mils" | "millennium" | "millennia" => Unit::Months(12_000),
        _ => return None,
    })
}

impl Sum {
    fn add(&mut self, amount: Amount, unit: Unit) {
        let Amount { whole, fraction } = amount;
        match unit {
            Unit::Micros(size) => {
                self.micros +=
                    i128::from(whole) * i128::from(size) + (fraction * size as f64).round_ties_even() as i128;
            }
            Unit::Days(size) => {
                self.days += i128::from(whole) * i128::from(size);
                self.add_days(fraction * size as f64);
            }
            Unit::Months(1) => {
                self.months += i128::from(whole);
                self.add_days(fraction * DAYS_PER_MONTH as f64);
            }
            // Fractions of years are whole months.
            Unit::Months(size) => {
                self.months +=
                    i128::from(whole) * i128::from(size) + (fraction * size as f64).round_ties_even() as i128;
            }
        }
    }

    fn add_days(&mut self, days: f64) {
        self.days += days.trunc() as i128;
        // The remainder of sums of fractions is less than a microsecond.
        self.micros += ((days - days.trunc()) * MICROS_PER_DAY as f64).round_ties_even() as i128;
    }

    fn finish(self, text: &str) -> Result<Value> {
        match (self.months.try_into(), self.days.try_into(), self.micros.try_into()) {
            (Ok(months), Ok(days), Ok(micros)) => Ok(Value::Interval { months, days, micros }),
            _ => Err(overflow(text)),
        }
    }
}

/// Returns a number at the front of a text, and the rest.
fn amount(text: &str) -> Option<(Amount, bool, &str)> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole_length = digits(unsigned);
    let mut rest = &unsigned[whole_length..];
    let mut fraction = 0.0;
    if let Some(behind) = rest.strip_prefix('.') {
        let length = digits(behind);
        if whole_length + length == 0 {
            return None;
        }
        fraction = format!("0.{}", &behind[..length]).parse().unwrap_or(0.0);
        rest = &behind[length..];
    } else if whole_length == 0 {
        return None;
    }
    let whole: i64 = if whole_length == 0 { 0 } else { unsigned[..whole_length].parse().ok()? };
    let amount = if negative { Amount { whole: -whole, fraction: -fraction } } else { Amount { whole, fraction } };
    Some((amount, negative, rest))
}

/// `hours:minutes[:seconds[.fraction]]`, or `minutes:seconds.fraction`, without sign.
fn clock(text: &str) -> Option<i128> {
    let parts: Vec<&str> = text.split(':').collect();
    let number =
        |text: &str| if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse::<i64>().ok() } else { None };
    let seconds = |text: &str| {
        let (amount, _, rest) = amount(text)?;
        let valid = rest.is_empty() && (0..60).contains(&amount.whole) && text.as_bytes()[0].is_ascii_digit();
        valid.then(|| {
            i128::from(amount.whole * MICROS_PER_SECOND)
                + (amount.fraction * MICROS_PER_SECOND as f64).round_ties_even() as i128
        })
    };
    let minutes = |text: &str| number(text).filter(|minutes| *minutes < 60);
    match *parts.as_slice() {
        [first, second] if second.contains('.') => {
            Some(i128::from(minutes(first)?) * i128::from(MICROS_PER_MINUTE) + seconds(second)?)
        }
        [first, second] => Some(
            i128::from(number(first)?) * i128::from(MICROS_PER_HOUR)
                + i128::from(minutes(second)?) * i128::from(MICROS_PER_MINUTE),
        ),
        [first, second, third] => Some(
            i128::from(number(first)?) * i128::from(MICROS_PER_HOUR)
                + i128::from(minutes(second)?) * i128::from(MICROS_PER_MINUTE)
                + seconds(third)?,
        ),
        _ => None,
    }
}

/// Returns the text without leading blanks and ignored signs.
fn skip(text: &str) -> &str {
    let is_sign = |character: char| character.is_ascii_punctuation() && !matches!(character, '+' | '-' | '.');
    text.trim_start_matches(|character| is_space(character) || is_sign(character))
}

/// Reads an interval: with units, as SQL's `year-month` and `day hours:minutes:seconds`, or in ISO 8601's form.
pub fn parse_interval(text: &str) -> Result<Value> {
    let lower = text.to_ascii_lowercase();
    let trimmed = lower.trim_matches(is_space);
    if trimmed.starts_with('p') {
        return parse_iso(trimmed, text);
    }
    let mut sum = Sum::default();
    let mut rest = skip(trimmed);
    // A number whose unit has not been read yet.
    let mut pending: Option<Amount> = None;
    let mut found = false;
    let mut is_ago = false;
    while !rest.is_empty() {
        let first = rest.as_bytes()[0];
        if first.is_ascii_digit() || matches!(first, b'+' | b'-' | b'.') {
            let sign_length = usize::from(matches!(first, b'+' | b'-'));
            let signed = rest[sign_length..].trim_start_matches(is_space);
            let length = signed.bytes().take_while(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.')).count();
            let (token, after) = signed.split_at(length);
            let negative = first == b'-';
            if token.contains(':') {
                // A number before a time of day counts days.
                if let Some(days) = pending.take() {
                    sum.add(days, Unit::Days(1));
                }
                let micros = clock(token).ok_or_else(|| invalid(text))?;
                sum.micros += if negative { -micros } else { micros };
                found = true;
                rest = after;
            } else if after.starts_with('-') && after[1..].starts_with(|character: char| character.is_ascii_digit()) {
                // Years and months.
                let length = after[1..].bytes().take_while(u8::is_ascii_digit).count();
                let years: i64 = token.parse().map_err(|_| invalid(text))?;
                let months: i64 = after[1..1 + length].parse().map_err(|_| overflow(text))?;
                if months >= 12 {
                    return Err(overflow(text));
                }
                let months = i128::from(years) * 12 + i128::from(months);
                sum.months += if negative { -months } else { months };
                found = true;
                rest = &after[1 + length..];
                // A date is not an interval.
                if !rest.is_empty() && !rest.starts_with(|next| is_space(next) || next == ',') {
                    return Err(invalid(text));
                }
            } else {
                if pending.is_some() {
                    return Err(invalid(text));
                }
                let valid = token.chars().filter(|character| *character == '.').count() <= 1;
                let parsed = amount(token).filter(|_| valid);
                let is_long = token.bytes().take_while(u8::is_ascii_digit).count() > 18;
                let (number, ..) = parsed.ok_or_else(|| if is_long { overflow(text) } else { invalid(text) })?;
                pending = Some(match negative {
                    true => Amount { whole: -number.whole, fraction: -number.fraction },
                    false => number,
                });
                rest = after;
            }
        } else {
            let length = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
            if length == 0 {
                return Err(invalid(text));
            }
            let (word, after) = rest.split_at(length);
            rest = after;
            match (word, pending.take()) {
                ("ago", None) if found => is_ago = true,
                ("and", None) => {}
                // The first unit behind a number counts, later ones do not.
                (word, None) if unit(word).is_some() => {}
                (word, Some(amount)) => {
                    sum.add(amount, unit(word).ok_or_else(|| invalid(text))?);
                    found = true;
                }
                _ => return Err(invalid(text)),
            }
        }
        rest = skip(rest);
    }
    if let Some(seconds) = pending {
        sum.add(seconds, Unit::Micros(MICROS_PER_SECOND));
        found = true;
    }
    if !found {
        return Err(invalid(text));
    }
    if is_ago {
        sum = Sum { months: -sum.months, days: -sum.days, micros: -sum.micros };
    }
    sum.finish(text)
}

/// `P1Y2M3W4DT5H6M7.8S`
fn parse_iso(lower: &str, text: &str) -> Result<Value> {
    let mut sum = Sum::default();
    let mut rest = &lower[1..];
    let mut in_time = false;
    if rest.is_empty() {
        return Err(invalid(text));
    }
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('t').filter(|_| !in_time) {
            (rest, in_time) = (after, true);
            continue;
        }
        let (number, _, after) = amount(rest).ok_or_else(|| invalid(text))?;
        let unit = match (after.bytes().next(), in_time) {
            (Some(b'y'), false) => Unit::Months(12),
            (Some(b'm'), false) => Unit::Months(1),
            (Some(b'w'), false) => Unit::Days(7),
            (Some(b'd'), false) => Unit::Days(1),
            (Some(b'h'), true) => Unit::Micros(MICROS_PER_HOUR),
            (Some(b'm'), true) => Unit::Micros(MICROS_PER_MINUTE),
            (Some(b's'), true) => Unit::Micros(MICROS_PER_SECOND),
            _ => return Err(invalid(text)),
        };
        sum.add(number, unit);
        rest = &after[1..];
    }
    sum.finish(text)
}

/// Creates an interval of these parts, if they fit.
pub fn interval_from_parts(months: i128, days: i128, micros: i128) -> Result<Value> {
    match (months.try_into(), days.try_into(), micros.try_into()) {
        (Ok(months), Ok(days), Ok(micros)) => Ok(Value::Interval { months, days, micros }),
        _ => Err(interval_out_of_range()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read_and_written() {
        for (text, expected) in [
            ("1 year 2 months 3 days 4 hours 5 minutes 6 seconds", "1 year 2 mons 3 days 04:05:06"),
            ("1-2", "1 year 2 mons"),
            ("1-2 -3 04:05", "1 year 2 mons -3 days +04:05:00"),
            ("3 4:05:06", "3 days 04:05:06"),
            ("P1Y2M3DT4H5M6S", "1 year 2 mons 3 days 04:05:06"),
            ("-1 mon +3 days -02:00", "-1 mons +3 days -02:00:00"),
            ("1.5 months", "1 mon 15 days"),
            ("1.5 days ago", "-1 days -12:00:00"),
            ("@ 1 minute", "00:01:00"),
            ("5", "00:00:05"),
            ("1:02.5", "00:01:02.5"),
            ("0", "00:00:00"),
            ("2 weeks", "14 days"),
            ("0.000001s", "00:00:00.000001"),
            ("25:00:00", "25:00:00"),
        ] {
            let Value::Interval { months, days, micros } = parse_interval(text).unwrap() else { panic!() };
            let mut out = String::new();
            super::super::write_interval(months, days, micros, &mut out).unwrap();
            assert_eq!(out, expected, "{text}");
        }
        for text in
            ["", "x", "1 fortnight", "1 2", "P", "1:99", "ago", "@", "1999-01-01", "2021-03-28 02:30:00", "1-2y"]
        {
            assert!(parse_interval(text).is_err(), "{text}");
        }
        assert_eq!(parse_interval("99999999999 years").unwrap_err().state(), SqlState::INTERVAL_FIELD_OVERFLOW);
    }
}
