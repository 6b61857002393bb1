//! The parser of intervals.

use crate::{
    Value,
    error::{Result, SqlError, SqlState},
    space::is_space,
};

use super::{
    DAYS_PER_MONTH, IntervalStyle, MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND,
    interval_out_of_range, iso_interval,
    tokens::{Kind, Token, tokens},
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
    /// One of which intervals have no number.
    None,
}

/// Returns the unit that a word means; its first ten letters count.
fn unit(word: &str) -> Option<Unit> {
    Some(match &word[..word.len().min(10)] {
        "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecon" => Unit::Micros(1),
        "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecon" => Unit::Micros(1000),
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
        "qtr" | "quarter" | "timezone" | "timezone_h" | "timezone_m" => Unit::None,
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
            Unit::None => {}
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

/// Reads a number without sign; a colon that ends the text stands for one that is zero.
fn part_of_clock(text: &str) -> Result<i64, Failure> {
    match text {
        "" => Ok(0),
        text if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().map_err(|_| Failure::Beyond),
        _ => Err(Failure::Form),
    }
}

/// `hours:minutes[:seconds[.fraction]]`, or `minutes:seconds.fraction`, without sign.
fn clock(text: &str, range: Range) -> Result<i128, Failure> {
    let parts: Vec<&str> = text.split(':').collect();
    let (hours, minutes, seconds) = match *parts.as_slice() {
        [minutes, seconds] if seconds.contains('.') || range == Range::MINUTE_TO_SECOND => ("", minutes, seconds),
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

/// The fields that an interval's modifier leaves, as in PostgreSQL: a set of bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Range(i32);

impl Range {
    /// All fields.
    pub const FULL: i32 = 0x7fff;
    /// All digits of the seconds.
    pub const FULL_PRECISION: i32 = 0xffff;
    /// The fields, from the largest to the smallest, with their bits.
    pub const FIELDS: [(&str, i32); 6] = [
        ("year", 1 << 2),
        ("month", 1 << 1),
        ("day", 1 << 3),
        ("hour", 1 << 10),
        ("minute", 1 << 11),
        ("second", 1 << 12),
    ];
    const MINUTE_TO_SECOND: Self = Self(1 << 11 | 1 << 12);

    /// Returns the fields that a modifier leaves.
    pub fn of(modifier: i32) -> Self {
        Self(if modifier < 0 { Self::FULL } else { modifier >> 16 & Self::FULL })
    }

    /// Returns the bits of the fields from one to another, by their names in any case; all for no name. `None`: they
    /// are no such fields.
    pub fn between(first: &str, last: &str) -> Option<i32> {
        if first.is_empty() {
            return Some(Self::FULL);
        }
        let place = |name: &str| Self::FIELDS.iter().position(|(field, _)| name.eq_ignore_ascii_case(field));
        let (first, last) = (place(first)?, place(last)?);
        // Months have no fixed number of days.
        let is_range = first <= last && (first > 1 || last <= 1);
        is_range.then(|| Self::FIELDS[first..=last].iter().map(|(_, bit)| bit).sum())
    }

    /// Returns the smallest field; `None`: all are left.
    fn last(self) -> Option<usize> {
        (self.0 != Self::FULL).then(|| Self::FIELDS.iter().rposition(|(_, bit)| self.0 & bit != 0))?
    }

    /// Returns the fields in the syntax of statements, with a blank before them; empty: all.
    pub fn describe(self) -> String {
        let Some(last) = self.last() else { return String::new() };
        let first = Self::FIELDS.iter().position(|(_, bit)| self.0 & bit != 0).unwrap_or(last);
        let (first, last) = (Self::FIELDS[first].0, Self::FIELDS[last].0);
        if first == last { format!(" {last}") } else { format!(" {first} to {last}") }
    }

    /// Returns the unit of a number without one at the end of a text.
    fn last_unit(self) -> Unit {
        const UNITS: [Unit; 6] =
            [Unit::Months(12), Unit::Months(1), Unit::Days(1), TIME_OF_DAY[0], TIME_OF_DAY[1], TIME_OF_DAY[2]];
        self.last().map_or(TIME_OF_DAY[2], |last| UNITS[last])
    }

    /// Drops what is smaller than the smallest field.
    pub fn cut(self, months: i32, days: i32, micros: i64) -> (i32, i32, i64) {
        match self.last() {
            Some(0) => (months / 12 * 12, 0, 0),
            Some(1) => (months, 0, 0),
            Some(2) => (months, days, 0),
            Some(3) => (months, days, micros / MICROS_PER_HOUR * MICROS_PER_HOUR),
            Some(4) => (months, days, micros / MICROS_PER_MINUTE * MICROS_PER_MINUTE),
            _ => (months, days, micros),
        }
    }
}

/// Reads an interval: with units, as SQL's `year-month` and `day hours:minutes:seconds`, or in ISO 8601's form. In the
/// style of the SQL standard, a sign at the beginning is that of all fields if it is the only one.
pub fn parse_interval(text: &str, modifier: i32, style: IntervalStyle) -> Result<Value> {
    /// PostgreSQL's buffer for the words, each with a byte behind it.
    const BYTES_MAX: usize = 256;
    let is_short = text.split(is_space).map(|word| word.len() + 1).sum::<usize>() <= BYTES_MAX;
    let lower = text.to_ascii_lowercase();
    let read = match tokens(&lower).filter(|_| is_short) {
        Some(tokens) => Reader::new(&tokens, Range::of(modifier), style).read(&tokens),
        None => Err(Failure::Form),
    };
    match read {
        Err(Failure::Form) => iso_interval::parse(text),
        read => read,
    }
    .map_err(|failure| match failure {
        Failure::Form => invalid(text),
        Failure::Beyond => overflow(text),
    })?
    .finish(text)
}

/// Reads the words from the last to the first: so a unit comes before its number.
struct Reader {
    range: Range,
    sum: Sum,
    /// The unit of the next number; `None`: there was none yet.
    unit: Option<Unit>,
    /// The units of what has been added to the sum: each occurs once.
    found: Vec<Unit>,
    is_ago: bool,
    /// Whether all fields are negative.
    is_negative: bool,
}

const TIME_OF_DAY: [Unit; 3] =
    [Unit::Micros(MICROS_PER_HOUR), Unit::Micros(MICROS_PER_MINUTE), Unit::Micros(MICROS_PER_SECOND)];

impl Reader {
    fn new(tokens: &[Token<'_>], range: Range, style: IntervalStyle) -> Self {
        let has_sign = |token: &Token<'_>| token.text.starts_with(['+', '-']);
        let is_negative = style == IntervalStyle::SqlStandard
            && tokens.first().is_some_and(|token| token.text.starts_with('-'))
            && !tokens[1..].iter().any(has_sign);
        Self { range, sum: Sum::default(), unit: None, found: Vec::new(), is_ago: false, is_negative }
    }

    fn read(mut self, tokens: &[Token<'_>]) -> Result<Sum, Failure> {
        for token in tokens.iter().rev() {
            let text = &*token.text;
            match token.kind {
                Kind::Time => self.time_of_day(text, false)?,
                Kind::Offset => match text[1..].contains(':') && clock(&text[1..], self.range).is_ok() {
                    true => self.time_of_day(&text[1..], text.starts_with('-'))?,
                    false => self.number(text)?,
                },
                Kind::Date | Kind::Number => self.number(text)?,
                Kind::Word if matches!(text, "ago") => (self.is_ago, self.unit) = (true, Some(Unit::None)),
                Kind::Word => self.unit = Some(unit(text).ok_or(Failure::Form)?),
            }
        }
        let Sum { months, days, micros } = self.sum;
        match (self.found.is_empty(), self.is_ago) {
            (true, _) => Err(Failure::Form),
            (false, true) => Ok(Sum { months: -months, days: -days, micros: -micros }),
            (false, false) => Ok(Sum { months, days, micros }),
        }
    }

    /// Adds units to those that occur.
    fn find(&mut self, units: &[Unit]) -> Result<(), Failure> {
        if units.iter().any(|unit| self.found.contains(unit)) {
            return Err(Failure::Form);
        }
        self.found.extend(units);
        Ok(())
    }

    fn time_of_day(&mut self, text: &str, is_negative: bool) -> Result<(), Failure> {
        let micros = clock(text, self.range)?;
        self.sum.micros += if is_negative || self.is_negative { -micros } else { micros };
        // A number before a time of day counts days.
        self.unit = Some(Unit::Days(1));
        self.find(&TIME_OF_DAY)
    }

    /// Reads a number with its sign, or years and months.
    fn number(&mut self, text: &str) -> Result<(), Failure> {
        let unit = *self.unit.get_or_insert(self.range.last_unit());
        let is_negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (digits, rest) = unsigned.split_at(unsigned.bytes().take_while(u8::is_ascii_digit).count());
        let whole = if digits.is_empty() { 0 } else { digits.parse::<i64>().map_err(|_| Failure::Beyond)? };
        let signed = |amount: Amount| match is_negative || self.is_negative {
            true => Amount { whole: -amount.whole, fraction: -amount.fraction },
            false => amount,
        };
        if let Some(months) = rest.strip_prefix('-') {
            let (digits, behind) = months.split_at(months.bytes().take_while(u8::is_ascii_digit).count());
            let months = if digits.is_empty() { 0 } else { digits.parse::<i64>().unwrap_or(i64::MAX) };
            if months >= 12 {
                return Err(Failure::Beyond);
            }
            if !behind.is_empty() {
                return Err(Failure::Form);
            }
            self.sum.add(signed(Amount { whole, fraction: 0.0 }), Unit::Months(12));
            self.sum.add(signed(Amount { whole: months, fraction: 0.0 }), Unit::Months(1));
            self.unit = Some(Unit::Months(1));
            return self.find(&[Unit::Months(1)]);
        }
        let fraction = match rest.strip_prefix('.') {
            None if rest.is_empty() => 0.0,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                format!("0.{digits}0").parse().unwrap_or(0.0)
            }
            _ => return Err(Failure::Form),
        };
        if unit == Unit::None {
            return Err(Failure::Form);
        }
        self.sum.add(signed(Amount { whole, fraction }), unit);
        if unit == TIME_OF_DAY[0] {
            self.unit = Some(Unit::Days(1));
        }
        self.find(&[unit])?;
        match unit == TIME_OF_DAY[2] && fraction != 0.0 {
            true => self.find(&[Unit::Micros(1000), Unit::Micros(1)]),
            false => Ok(()),
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
            let Value::Interval { months, days, micros } = parse_interval(text, -1, IntervalStyle::Postgres).unwrap()
            else {
                panic!()
            };
            let mut out = String::new();
            super::super::write_interval(months, days, micros, Default::default(), &mut out).unwrap();
            assert_eq!(out, expected, "{text}");
        }
        let state = |text: &str| parse_interval(text, -1, IntervalStyle::Postgres).unwrap_err().state();
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
