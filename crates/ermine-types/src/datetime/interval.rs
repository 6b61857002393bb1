//! The parser of intervals.

use crate::{
    Value,
    error::{Result, SqlError, SqlState},
    space::is_space,
};

use super::{
    DAYS_PER_MONTH, MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND, interval_out_of_range,
    iso_interval,
};

fn invalid(text: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, format!("invalid input syntax for type interval: \"{text}\""))
}

fn overflow(text: &str) -> SqlError {
    SqlError::new(SqlState::INTERVAL_FIELD_OVERFLOW, format!("interval field value out of range: \"{text}\""))
}

/// Why a text is no interval.
pub(super) enum Failure {
    /// It has no interval's form.
    Form,
    /// A field is out of range.
    Beyond,
}

/// The sums of the parts of an interval.
#[derive(Default)]
pub(super) struct Sum {
    months: i128,
    days: i128,
    micros: i128,
}

/// A number with the digits behind its point.
#[derive(Clone, Copy, Default)]
pub(super) struct Amount {
    pub(super) whole: i64,
    /// Has the same sign.
    pub(super) fraction: f64,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Unit {
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
    pub(super) fn add(&mut self, amount: Amount, unit: Unit) {
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

/// Reads a number without sign; a colon that ends the text stands for one that is zero.
fn part_of_clock(text: &str) -> Result<i64, Failure> {
    match text {
        "" => Ok(0),
        text if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().map_err(|_| Failure::Beyond),
        _ => Err(Failure::Form),
    }
}

/// `hours:minutes[:seconds[.fraction]]`, or `minutes:seconds.fraction`, without sign.
fn clock(text: &str) -> Result<i128, Failure> {
    let parts: Vec<&str> = text.split(':').collect();
    let (hours, minutes, seconds) = match *parts.as_slice() {
        [minutes, seconds] if seconds.contains('.') => ("", minutes, seconds),
        [hours, minutes] => (hours, minutes, ""),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return Err(Failure::Form),
    };
    let (hours, minutes) = (part_of_clock(hours)?, part_of_clock(minutes)?);
    let (seconds, digits) = seconds.split_once('.').unwrap_or((seconds, ""));
    let (seconds, _) = (part_of_clock(seconds)?, part_of_clock(&digits[..digits.len().min(18)])?);
    let fraction = format!("0.{digits}").parse().map_err(|_| Failure::Form)?;
    // Sixty seconds are the next minute.
    if minutes > 59 || seconds > 60 {
        return Err(Failure::Beyond);
    }
    let mut sum = Sum::default();
    for (whole, unit) in [hours, minutes].into_iter().zip(TIME_OF_DAY) {
        sum.add(Amount { whole, fraction: 0.0 }, unit);
    }
    sum.add(Amount { whole: seconds, fraction }, Unit::Micros(MICROS_PER_SECOND));
    Ok(sum.micros)
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
    if text.starts_with('P') {
        return match iso_interval::parse(text) {
            Ok(sum) => sum.finish(text),
            Err(Failure::Form) => Err(invalid(text)),
            Err(Failure::Beyond) => Err(overflow(text)),
        };
    }
    let mut reader =
        Reader { text, rest: skip(trimmed), sum: Sum::default(), pending: None, found: Vec::new(), is_beyond: false };
    let mut is_ago = false;
    while let Some(first) = reader.rest.bytes().next() {
        if first.is_ascii_digit() || matches!(first, b'+' | b'-' | b'.') {
            reader.number()?;
        } else {
            is_ago |= reader.word()?;
        }
        reader.rest = skip(reader.rest);
    }
    let Sum { months, days, micros } = reader.finish()?;
    let sum = if is_ago { Sum { months: -months, days: -days, micros: -micros } } else { Sum { months, days, micros } };
    sum.finish(text)
}

/// Reads numbers and words one after the other.
struct Reader<'t> {
    /// The whole text, for errors.
    text: &'t str,
    rest: &'t str,
    sum: Sum,
    /// A number whose unit has not been read yet.
    pending: Option<Amount>,
    /// The units of what has been added to the sum: each occurs once.
    found: Vec<Unit>,
    /// Whether a field is out of range. Whatever else is wrong with the text behind it is reported first.
    is_beyond: bool,
}

const TIME_OF_DAY: [Unit; 3] =
    [Unit::Micros(MICROS_PER_HOUR), Unit::Micros(MICROS_PER_MINUTE), Unit::Micros(MICROS_PER_SECOND)];

impl Reader<'_> {
    /// Adds units to those that occur.
    fn find(&mut self, units: &[Unit]) -> Result<()> {
        if units.iter().any(|unit| self.found.contains(unit)) {
            return Err(invalid(self.text));
        }
        self.found.extend(units);
        Ok(())
    }

    fn add(&mut self, amount: Amount, unit: Unit) -> Result<()> {
        self.find(&[unit])?;
        let fractions = [Unit::Micros(1000), Unit::Micros(1)];
        if unit == Unit::Micros(MICROS_PER_SECOND) && amount.fraction != 0.0 {
            self.find(&fractions)?;
        }
        self.sum.add(amount, unit);
        Ok(())
    }

    /// Reads a number with its sign: a time of day, years and months, or a number whose unit follows.
    fn number(&mut self) -> Result<()> {
        let is_negative = self.rest.starts_with('-');
        let unsigned = self.rest.strip_prefix(['+', '-']).unwrap_or(self.rest).trim_start_matches(is_space);
        let length = unsigned.bytes().take_while(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.')).count();
        let (token, after) = unsigned.split_at(length);
        if token.starts_with('.') && unsigned.len() < self.rest.len() {
            // A digit follows a sign.
            return Err(invalid(self.text));
        }
        self.rest = after;
        let signed = |number: i128| if is_negative { -number } else { number };
        if token.contains(':') {
            // A number before a time of day counts days.
            if let Some(days) = self.pending.take() {
                self.add(days, Unit::Days(1))?;
            }
            match clock(token) {
                Ok(micros) => self.sum.micros += signed(micros),
                Err(Failure::Beyond) => self.is_beyond = true,
                Err(Failure::Form) => return Err(invalid(self.text)),
            }
            self.find(&TIME_OF_DAY)?;
        } else if after.starts_with('-') && !token.is_empty() && !token.contains('.') {
            self.sum.months += signed(self.years_and_months(token)?);
            self.find(&[Unit::Months(1)])?;
        } else {
            if self.pending.is_some() {
                return Err(invalid(self.text));
            }
            let is_one = token.bytes().filter(|byte| *byte == b'.').count() <= 1;
            let is_long = token.bytes().take_while(u8::is_ascii_digit).count() > 18;
            let read = match (token, signed(1)) {
                // A point alone is zero.
                (".", 1) => Some((Amount { whole: 0, fraction: 0.0 }, false, "")),
                _ => amount(token).filter(|_| is_one),
            };
            self.is_beyond |= is_long && read.is_none();
            let (Amount { whole, fraction }, ..) = match read {
                None if is_long => (Amount::default(), false, ""),
                read => read.ok_or_else(|| invalid(self.text))?,
            };
            self.pending = Some(match is_negative {
                true => Amount { whole: -whole, fraction: -fraction },
                false => Amount { whole, fraction },
            });
        }
        Ok(())
    }

    /// Reads the months behind the years, and the `-` between them; returns the number of months.
    fn years_and_months(&mut self, years: &str) -> Result<i128> {
        let behind = &self.rest[1..];
        let (months, after) = behind.split_at(behind.bytes().take_while(u8::is_ascii_digit).count());
        self.rest = after;
        let years: i64 = years.parse().map_err(|_| invalid(self.text))?;
        let months: i64 = match months {
            "" => 0,
            months => months.parse().map_err(|_| overflow(self.text))?,
        };
        if months >= 12 {
            self.is_beyond = true;
            self.rest = after.trim_start_matches(|next: char| next.is_ascii_digit() || next == '-');
            return Ok(0);
        }
        // A date is not an interval.
        if after.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '-') {
            return Err(invalid(self.text));
        }
        Ok(i128::from(years) * 12 + i128::from(months))
    }

    /// Reads a word; returns whether it is `ago`.
    fn word(&mut self) -> Result<bool> {
        let (word, after) = self.rest.split_at(self.rest.bytes().take_while(u8::is_ascii_alphabetic).count());
        self.rest = after;
        match (word, self.pending.take()) {
            ("ago", None) if !self.found.is_empty() => return Ok(true),
            ("and", None) => {}
            // The first unit behind a number counts, later ones do not.
            (word, None) if unit(word).is_some() => {}
            (word, Some(amount)) => {
                self.add(amount, unit(word).ok_or_else(|| invalid(self.text))?)?;
            }
            _ => return Err(invalid(self.text)),
        }
        Ok(false)
    }

    /// Returns the sum; a number without a unit counts seconds.
    fn finish(mut self) -> Result<Sum> {
        if let Some(seconds) = self.pending {
            self.add(seconds, Unit::Micros(MICROS_PER_SECOND))?;
        }
        match (self.found.is_empty(), self.is_beyond) {
            (true, _) => Err(invalid(self.text)),
            (false, true) => Err(overflow(self.text)),
            (false, false) => Ok(self.sum),
        }
    }
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
            ("1-2,3", "1 year 2 mons 00:00:03"),
            ("3-*-1", "3 years -00:00:01"),
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
            ("1:2:60.9", "01:03:00.9"),
            ("59:60.5", "01:00:00.5"),
            ("P1Y1e5D", "1 year 100000 days"),
            ("P1-13-1", "2 years 1 mon 1 day"),
            ("P0001-02-03T04:05:06", "1 year 2 mons 3 days 04:05:06"),
            ("P00010203T040506", "1 year 2 mons 3 days 04:05:06"),
            ("P1Y2M3DT4:5", "1 year 2 mons 3 days 04:05:00"),
            ("PT1:2:3", "01:02:03"),
            ("P1e-5D", "00:00:00.864"),
        ] {
            let Value::Interval { months, days, micros } = parse_interval(text).unwrap() else { panic!() };
            let mut out = String::new();
            super::super::write_interval(months, days, micros, &mut out).unwrap();
            assert_eq!(out, expected, "{text}");
        }
        let state = |text: &str| parse_interval(text).unwrap_err().state();
        for text in [
            "",
            "x",
            "1 fortnight",
            "1 2",
            "P",
            "ago",
            "@",
            "1999-01-01",
            "2021-03-28 02:30:00",
            "1-2y",
            "1:99 xx",
            "99999999999999999999 xx",
            "2019-12-31T23:59:59.5",
            "P1e400D",
            "p1d",
            "P1D-1",
            "P1H",
            "PT1D",
            "P1DT1:2S",
        ] {
            assert_eq!(state(text), SqlState::INVALID_DATETIME_FORMAT, "{text}");
        }
        for text in [
            "99999999999 years",
            "1:99",
            "1:2:61",
            "60:59.5",
            "1:9223372036854775808",
            "99999999999999999999",
            "P99999999999999999999D",
            "P1e14Y",
        ] {
            assert_eq!(state(text), SqlState::INTERVAL_FIELD_OVERFLOW, "{text}");
        }
    }
}
