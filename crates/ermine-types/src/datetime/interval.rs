//! The parser of intervals.

use crate::{
    Value,
    error::{Result, SqlError, SqlState},
    space::is_space,
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
    let number = |text: &str| match text {
        // Behind a colon that ends the text.
        "" => Some(0),
        text if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse::<i64>().ok(),
        _ => None,
    };
    let seconds = |text: &str| {
        if matches!(text, "" | ".") {
            return Some(0);
        }
        let (amount, _, rest) = amount(text)?;
        let valid = rest.is_empty() && (0..60).contains(&amount.whole) && !text.starts_with(['+', '-']);
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
            self.sum.micros += signed(clock(token).ok_or_else(|| invalid(self.text))?);
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
            let fail = || if is_long { overflow(self.text) } else { invalid(self.text) };
            let read = match (token, signed(1)) {
                // A point alone is zero.
                (".", 1) => Some((Amount { whole: 0, fraction: 0.0 }, false, "")),
                _ => amount(token).filter(|_| is_one),
            };
            let (Amount { whole, fraction }, ..) = read.ok_or_else(fail)?;
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
            self.rest = after.trim_start_matches(|next: char| next.is_ascii_alphanumeric() || next == '-');
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
