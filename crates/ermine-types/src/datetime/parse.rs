//! The parser of dates and times.
//!
//! A text is cut into tokens (dates with their separators, times, numbers, words, offsets), which set the fields in any
//! order. Where numbers alone are ambiguous, the order is month, day, year.

use std::num::{IntErrorKind, ParseIntError};

use jiff::tz::TimeZone;

use crate::{
    Environment,
    error::{Result, SqlError, SqlState},
    space::is_space,
};

use super::{
    Civil, DATE_INFINITY, DATE_MINUS_INFINITY, EPOCH_JULIAN_DAY, INFINITY, MICROS_PER_DAY, MICROS_PER_HOUR,
    MICROS_PER_MINUTE, MICROS_PER_SECOND, MINUS_INFINITY, UNIX_EPOCH_DAY, civil_from_days, date_out_of_range,
    days_from_civil, days_in_month, is_date, is_timestamp, timestamp_out_of_range, to_local, to_utc, zone,
};

/// The reason why a text is not a date or time.
enum Failure {
    /// It does not look like one.
    Format,
    /// A field is beyond its range.
    Range,
    /// Month or day are, perhaps because the fields are in another order.
    Order,
    /// An offset that is too far from UTC.
    Displacement,
    /// No such zone.
    Zone(String),
}

impl Failure {
    fn report(self, ty: &str, text: &str) -> SqlError {
        match self {
            Self::Format => SqlError::new(
                SqlState::INVALID_DATETIME_FORMAT,
                format!("invalid input syntax for type {ty}: \"{text}\""),
            ),
            Self::Range => SqlError::new(
                SqlState::DATETIME_FIELD_OVERFLOW,
                format!("date/time field value out of range: \"{text}\""),
            ),
            Self::Order => Self::Range.report(ty, text).hint("Perhaps you need a different \"datestyle\" setting."),
            Self::Displacement => {
                SqlError::new(SqlState("22009"), format!("time zone displacement out of range: \"{text}\""))
            }
            Self::Zone(name) => {
                SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("time zone \"{name}\" not recognized"))
            }
        }
    }
}

type Parsing<T> = std::result::Result<T, Failure>;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Token<'a> {
    /// A date with separators inside, or the name of a zone that is more than letters.
    Date(&'a str),
    Time(&'a str),
    Number(&'a str),
    Word(&'a str),
    Offset(&'a str),
}

/// Cuts the next token off; the text is in lower case.
fn next_token<'a>(rest: &mut &'a str) -> Parsing<Option<Token<'a>>> {
    // Ignored signs count as blanks.
    let is_blank = |character: char| character.is_ascii_punctuation() && !matches!(character, '+' | '-' | '.');
    *rest = rest.trim_start_matches(|character: char| is_space(character) || is_blank(character));
    let text = *rest;
    let Some(first) = text.bytes().next() else { return Ok(None) };
    let run = |from: usize, accept: &dyn Fn(u8) -> bool| text[from..].bytes().take_while(|byte| accept(*byte)).count();
    let digit = |byte: u8| byte.is_ascii_digit();
    let (length, token): (usize, fn(&'a str) -> Token<'a>) = if first.is_ascii_digit() {
        let digits = run(0, &digit);
        match text.as_bytes().get(digits) {
            Some(b':') => (run(0, &|byte| digit(byte) || matches!(byte, b':' | b'.')), Token::Time),
            Some(separator @ (b'-' | b'/' | b'.')) => {
                let second = run(digits + 1, &|byte| byte.is_ascii_alphanumeric());
                let mut end = digits + 1 + second;
                if text.as_bytes().get(end) == Some(separator) {
                    end += run(end, &|byte| digit(byte) || byte == *separator);
                    (end, Token::Date)
                } else if *separator == b'.' {
                    (digits + 1 + run(digits + 1, &digit), Token::Number)
                } else {
                    (end, Token::Date)
                }
            }
            _ => (digits, Token::Number),
        }
    } else if matches!(first, b'+' | b'-') {
        let is_number = text.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
        let length = 1 + run(1, &|byte| digit(byte) || matches!(byte, b':' | b'.' | b'-'));
        if !is_number {
            // A sign before a word, as in -infinity.
            let letters = run(1, &|byte| byte.is_ascii_alphabetic());
            (if letters > 0 { 1 + letters } else { return Err(Failure::Format) }, Token::Word)
        } else {
            (length, Token::Offset)
        }
    } else if first.is_ascii_alphabetic() {
        let letters = run(0, &|byte| byte.is_ascii_alphabetic());
        let is_joined = match text.as_bytes().get(letters) {
            Some(b'-' | b'/' | b'.') => true,
            Some(b'+' | b'0'..=b'9') => !is_keyword(&text[..letters]),
            _ => false,
        };
        let joined = |byte: u8| byte.is_ascii_alphanumeric() || b"+-/_.:".contains(&byte);
        if is_joined { (run(0, &joined), Token::Date) } else { (letters, Token::Word) }
    } else {
        return Err(Failure::Format);
    };
    *rest = &text[length..];
    Ok(Some(token(&text[..length])))
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

fn month(word: &str) -> Option<i64> {
    if word == "sept" {
        return Some(9);
    }
    let at = MONTHS.iter().position(|month| *month == word || (word.len() == 3 && month.starts_with(word)))?;
    Some(at as i64 + 1)
}

fn is_weekday(word: &str) -> bool {
    matches!(word, "tues" | "wednes" | "weds" | "thur" | "thurs")
        || WEEKDAYS.iter().any(|day| *day == word || (word.len() == 3 && day.starts_with(word)))
}

/// Whether a word has a meaning of its own, even directly before a number.
fn is_keyword(word: &str) -> bool {
    const WORDS: [&str; 27] = [
        "ad",
        "allballs",
        "am",
        "at",
        "bc",
        "d",
        "dow",
        "doy",
        "dst",
        "epoch",
        "h",
        "infinity",
        "isodow",
        "isoyear",
        "j",
        "jd",
        "m",
        "mm",
        "now",
        "on",
        "pm",
        "s",
        "t",
        "today",
        "tomorrow",
        "y",
        "yesterday",
    ];
    WORDS.contains(&word) || month(word).is_some() || is_weekday(word)
}

#[derive(Clone, Copy, PartialEq)]
enum Special {
    Infinity,
    MinusInfinity,
    Epoch,
    Now,
}

/// The content of a text, before it is converted to one of the types.
#[derive(Default)]
struct Fields {
    special: Option<Special>,
    year: Option<i64>,
    /// Whether the year has at most two digits.
    is_year_short: bool,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    /// A whole date: from a Julian day or a word.
    days: Option<i64>,
    is_before_christ: bool,
    time: Option<i64>,
    afternoon: Option<bool>,
    zone: Option<TimeZone>,
}

/// Returns a number of at most 32 bits.
fn number(text: &str) -> Parsing<i64> {
    let is_long = |error: &ParseIntError| *error.kind() == IntErrorKind::PosOverflow;
    let number: i32 = text.parse().map_err(|error| if is_long(&error) { Failure::Range } else { Failure::Format })?;
    Ok(number.into())
}

/// Whether digits behind a year are the number of a day in it.
fn is_day_of_year(digits: &str) -> bool {
    digits.len() == 3 && number(digits).is_ok_and(|day| (1..=366).contains(&day))
}

/// Returns seconds with their fraction, in microseconds.
fn seconds(text: &str) -> Parsing<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.bytes().any(|byte| !byte.is_ascii_digit()) {
        return Err(Failure::Format);
    }
    let mut micros = 0;
    for at in 0..6 {
        micros = micros * 10 + fraction.as_bytes().get(at).map_or(0, |digit| i64::from(digit - b'0'));
    }
    let rounds_up = fraction.as_bytes().get(6).is_some_and(|digit| *digit >= b'5');
    let whole = if whole.is_empty() { 0 } else { number(whole)? };
    if whole > 60 {
        return Err(Failure::Range);
    }
    Ok(whole * MICROS_PER_SECOND + micros + i64::from(rounds_up))
}

fn time_of_day(hours: i64, minutes: i64, micros: i64) -> Parsing<i64> {
    if !(0..=24).contains(&hours) || !(0..60).contains(&minutes) || micros > 60 * MICROS_PER_SECOND {
        return Err(Failure::Range);
    }
    let time = hours * MICROS_PER_HOUR + minutes * MICROS_PER_MINUTE + micros;
    if time > MICROS_PER_DAY { Err(Failure::Range) } else { Ok(time) }
}

/// Returns seconds ahead of UTC: `+2`, `-0800`, `+05:30`, `+05:30:15`.
fn displacement(text: &str) -> Parsing<i32> {
    // Digits at the beginning, as a number, and the text behind them.
    let leading = |text: &str| {
        let end = text.find(|next: char| !next.is_ascii_digit()).unwrap_or(text.len());
        (text[..end].parse::<i32>().unwrap_or(if end == 0 { 0 } else { i32::MAX }), text[end..].to_owned())
    };
    let digits = text.get(1..).filter(|digits| digits.starts_with(|first: char| first.is_ascii_digit()));
    let (mut hours, mut rest) = leading(digits.ok_or(Failure::Format)?);
    let (mut minutes, mut seconds) = (0, 0);
    if let Some(behind) = rest.strip_prefix(':') {
        (minutes, rest) = leading(behind);
        if let Some(behind) = rest.strip_prefix(':') {
            (seconds, rest) = leading(behind);
        }
    } else if rest.is_empty() && text.len() > 3 {
        (hours, minutes) = (hours / 100, hours % 100);
    }
    if hours > 15 || minutes > 59 || seconds > 59 {
        return Err(Failure::Displacement);
    }
    if !rest.is_empty() {
        return Err(Failure::Format);
    }
    let total = hours * 3600 + minutes * 60 + seconds;
    Ok(if text.starts_with('-') { -total } else { total })
}

/// Returns seconds ahead of UTC, if a text is such a number.
pub(super) fn parse_offset(text: &str) -> Option<i32> {
    displacement(text).ok()
}

/// Whether the next token is a time of day.
fn precedes_time(mut rest: &str) -> bool {
    matches!(next_token(&mut rest), Ok(Some(Token::Time(_))))
}

impl Fields {
    fn read(text: &str, time_only: bool, environment: &Environment) -> Parsing<Self> {
        let mut fields = Self::default();
        let mut rest = text;
        let mut any = false;
        // After a lone "t" or "j", numbers have another meaning.
        let mut prefix = None;
        while let Some(token) = next_token(&mut rest)? {
            any = true;
            match token {
                Token::Word(word @ ("t" | "j")) if prefix.is_none() => {
                    prefix = Some(word);
                    continue;
                }
                Token::Number(digits) if prefix == Some("j") && fields.days.is_none() => {
                    fields.days = Some(number(digits)? - i64::from(EPOCH_JULIAN_DAY));
                }
                // A time of day may follow a date, but not by a T.
                Token::Date(text) if fields.has_date() || prefix.is_some() || time_only && !precedes_time(rest) => {
                    if text.starts_with(|first: char| first.is_ascii_alphabetic()) {
                        fields.set_zone(zone::named(text).ok_or_else(|| Failure::Zone(text.to_owned()))?)?;
                    } else {
                        // A time of digits alone, and its zone.
                        let (time, offset) = text.split_at(text.find('-').ok_or(Failure::Format)?);
                        fields.set_zone(zone::fixed(displacement(offset)?).ok_or(Failure::Displacement)?)?;
                        fields.number(time, true)?;
                    }
                }
                Token::Date(date) => fields.date(date)?,
                Token::Time(time) => fields.clock(time)?,
                Token::Number(digits) => fields.number(digits, time_only || prefix == Some("t"))?,
                Token::Offset(offset) => {
                    fields.set_zone(zone::fixed(displacement(offset)?).ok_or(Failure::Displacement)?)?;
                }
                Token::Word(word) => fields.word(word, environment)?,
            }
            prefix = None;
        }
        if any && prefix.is_none() { Ok(fields) } else { Err(Failure::Format) }
    }

    fn has_date(&self) -> bool {
        self.days.is_some() || (self.year.is_some() && self.month.is_some() && self.day.is_some())
    }

    fn set_zone(&mut self, zone: TimeZone) -> Parsing<()> {
        match self.zone.replace(zone) {
            None => Ok(()),
            Some(_) => Err(Failure::Format),
        }
    }

    fn set(field: &mut Option<i64>, value: i64) -> Parsing<()> {
        match field.replace(value) {
            None => Ok(()),
            Some(_) => Err(Failure::Format),
        }
    }

    fn set_year(&mut self, digits: &str) -> Parsing<()> {
        self.is_year_short = digits.len() <= 2;
        Self::set(&mut self.year, number(digits)?)
    }

    /// Parses a date with separators.
    fn date(&mut self, text: &str) -> Parsing<()> {
        let parts: Vec<&str> = text.split(['-', '/', '.']).collect();
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        match *parts.as_slice() {
            [year, day] if year.len() >= 3 && is_number(year) && is_day_of_year(day) => {
                self.set_year(year)?;
                Self::set(&mut self.day_of_year, number(day)?)
            }
            [first, second, third] => {
                let named = [first, second, third].iter().position(|part| month(part).is_some());
                let (year, month_, day) = match named {
                    Some(1) if first.len() >= 3 => (first, month(second), third),
                    Some(1) => (third, month(second), first),
                    Some(0) => (third, month(first), second),
                    Some(_) => return Err(Failure::Format),
                    None if first.len() >= 3 => (first, second.parse().ok(), third),
                    None => (third, first.parse().ok(), second),
                };
                if !is_number(year) || !is_number(day) {
                    return Err(Failure::Format);
                }
                Self::set(&mut self.month, month_.ok_or(Failure::Format)?)?;
                Self::set(&mut self.day, number(day)?)?;
                self.set_year(year)
            }
            _ => Err(Failure::Format),
        }
    }

    fn clock(&mut self, text: &str) -> Parsing<()> {
        let parts: Vec<&str> = text.split(':').collect();
        let time = match *parts.as_slice() {
            [minutes, seconds_] if seconds_.contains('.') => time_of_day(0, number(minutes)?, seconds(seconds_)?)?,
            [hours, minutes] => time_of_day(number(hours)?, number(minutes)?, 0)?,
            [hours, minutes, seconds_] if !seconds_.is_empty() => {
                time_of_day(number(hours)?, number(minutes)?, seconds(seconds_)?)?
            }
            _ => return Err(Failure::Format),
        };
        Self::set(&mut self.time, time)
    }

    /// Parses digits alone.
    fn number(&mut self, text: &str, is_time: bool) -> Parsing<()> {
        let (digits, _) = text.split_once('.').unwrap_or((text, ""));
        if self.has_date() || is_time {
            let time = match digits.len() {
                4 => time_of_day(number(&digits[..2])?, number(&digits[2..])?, seconds(&text[4..])?)?,
                6 => time_of_day(number(&digits[..2])?, number(&digits[2..4])?, seconds(&text[4..])?)?,
                _ => return Err(Failure::Format),
            };
            return Self::set(&mut self.time, time);
        }
        if digits != text {
            // A year and the day of the year.
            return match text.split_once('.') {
                Some((year, day)) if year.len() >= 3 && is_day_of_year(day) => {
                    self.set_year(year)?;
                    Self::set(&mut self.day_of_year, number(day)?)
                }
                parts => {
                    parts.map(|(one, other)| number(one).and(number(other))).transpose()?;
                    Err(Failure::Format)
                }
            };
        }
        match digits.len() {
            6.. => {
                let (year, rest) = digits.split_at(digits.len() - 4);
                self.set_year(year)?;
                Self::set(&mut self.month, number(&rest[..2])?)?;
                Self::set(&mut self.day, number(&rest[2..])?)
            }
            3.. if self.year.is_none() => self.set_year(digits),
            3 if is_day_of_year(digits) => Self::set(&mut self.day_of_year, number(digits)?),
            _ if self.month.is_none() => Self::set(&mut self.month, number(digits)?),
            _ if self.day.is_none() => Self::set(&mut self.day, number(digits)?),
            _ => self.set_year(digits),
        }
    }

    fn word(&mut self, word: &str, environment: &Environment) -> Parsing<()> {
        if let Some(month) = month(word) {
            // So an earlier number was not the month.
            if let Some(earlier) = self.month.replace(month) {
                return Self::set(&mut self.day, earlier);
            }
            return Ok(());
        }
        let today = || to_local(environment.transaction_began, &environment.time_zone).div_euclid(MICROS_PER_DAY);
        match word {
            "am" | "pm" if self.afternoon.is_some() => return Err(Failure::Format),
            "am" => self.afternoon = Some(false),
            "pm" => self.afternoon = Some(true),
            "bc" => self.is_before_christ = true,
            "ad" | "at" | "on" | "dst" => {}
            "infinity" | "+infinity" => self.special = Some(Special::Infinity),
            "-infinity" => self.special = Some(Special::MinusInfinity),
            "epoch" => self.special = Some(Special::Epoch),
            "now" => self.special = Some(Special::Now),
            "today" => Self::set(&mut self.days, today())?,
            "tomorrow" => Self::set(&mut self.days, today() + 1)?,
            "yesterday" => Self::set(&mut self.days, today() - 1)?,
            "allballs" => {
                Self::set(&mut self.time, 0)?;
                self.set_zone(TimeZone::UTC)?;
            }
            _ if is_weekday(word) => {}
            _ => {
                let zone = match zone::abbreviated(word) {
                    Some(zone) => zone,
                    None if word.len() > 1 => TimeZone::get(word).map_err(|_| Failure::Format)?,
                    None => return Err(Failure::Format),
                };
                self.set_zone(zone)?;
            }
        }
        Ok(())
    }

    /// Returns the day number; `None`: the text has no date.
    fn resolve_date(&self) -> Parsing<Option<i64>> {
        if let Some(days) = self.days {
            return if self.year.or(self.month).or(self.day).is_none() { Ok(Some(days)) } else { Err(Failure::Format) };
        }
        let is_beyond = |field: Option<i64>, last| field.is_some_and(|field| !(1..=last).contains(&field));
        if is_beyond(self.month, 12) || is_beyond(self.day, 31) {
            return Err(Failure::Order);
        }
        let Some(year) = self.year else {
            return if self.month.or(self.day).is_some() { Err(Failure::Format) } else { Ok(None) };
        };
        let year = match (self.is_before_christ, self.is_year_short) {
            (true, _) if year > 0 => 1 - year,
            (true, _) => return Err(Failure::Range),
            (false, true) if year < 70 => year + 2000,
            (false, true) => year + 1900,
            (false, false) if year == 0 => return Err(Failure::Range),
            (false, false) => year,
        };
        if year > 6_000_000 {
            return Err(Failure::Range);
        }
        if let (Some(day), None, None) = (self.day_of_year, self.month, self.day) {
            // The last one may be the first day of the next year.
            return Ok(Some(days_from_civil(Civil { year, month: 1, day: 1 }) + day - 1));
        }
        let (Some(month), Some(day), None) = (self.month, self.day, self.day_of_year) else {
            return Err(Failure::Format);
        };
        if day > days_in_month(year, month) {
            return Err(Failure::Range);
        }
        Ok(Some(days_from_civil(Civil { year, month, day })))
    }

    fn resolve_time(&self) -> Parsing<Option<i64>> {
        // Behind a date, a half of the day means its beginning.
        let begin = (self.afternoon.is_some() && self.has_date()).then_some(0);
        match (self.time.or(begin), self.afternoon) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err(Failure::Format),
            (Some(time), None) => Ok(Some(time)),
            (Some(time), Some(afternoon)) => {
                let hours = time / MICROS_PER_HOUR;
                let rest = time % MICROS_PER_HOUR;
                match hours {
                    0..=11 => Ok(Some(if afternoon { time + 12 * MICROS_PER_HOUR } else { time })),
                    12 => Ok(Some(if afternoon { time } else { rest })),
                    _ => Err(Failure::Range),
                }
            }
        }
    }

    /// Checks that a special word stands alone.
    fn check_special_alone(&self) -> Parsing<()> {
        let others = self.year.or(self.month).or(self.day).or(self.days).or(self.time);
        if others.is_none() && self.zone.is_none() { Ok(()) } else { Err(Failure::Format) }
    }
}

fn read<T>(text: &str, ty: &str, environment: &Environment, resolve: impl FnOnce(&Fields) -> Parsing<T>) -> Result<T> {
    let lower = text.to_ascii_lowercase();
    Fields::read(&lower, ty == "time", environment)
        .and_then(|fields| resolve(&fields))
        .map_err(|failure| failure.report(ty, text))
}

/// Reads a date.
pub fn parse_date(text: &str, environment: &Environment) -> Result<i32> {
    let days = read(text, "date", environment, |fields| {
        if let Some(special) = fields.special {
            fields.check_special_alone()?;
            return Ok(match special {
                Special::Infinity => DATE_INFINITY.into(),
                Special::MinusInfinity => DATE_MINUS_INFINITY.into(),
                Special::Epoch => UNIX_EPOCH_DAY.into(),
                Special::Now => {
                    to_local(environment.transaction_began, &environment.time_zone).div_euclid(MICROS_PER_DAY)
                }
            });
        }
        let days = fields.resolve_date()?.ok_or(Failure::Format)?;
        fields.resolve_time()?;
        Ok(days)
    })?;
    let fits = i32::try_from(days).ok().filter(|&days| is_date(days));
    fits.ok_or_else(|| {
        let error = date_out_of_range();
        SqlError::new(error.state(), format!("date out of range: \"{text}\""))
    })
}

/// Reads a time of day. A date and a zone beside it are ignored.
pub fn parse_time(text: &str, environment: &Environment) -> Result<i64> {
    read(text, "time", environment, |fields| match fields.special {
        Some(Special::Now) => {
            Ok(to_local(environment.transaction_began, &environment.time_zone).rem_euclid(MICROS_PER_DAY))
        }
        Some(_) => Err(Failure::Format),
        None => {
            fields.resolve_date()?;
            fields.resolve_time()?.ok_or(Failure::Format)
        }
    })
}

/// Returns the local time of a text, and its zone.
fn parse_point(text: &str, ty: &str, environment: &Environment) -> Result<(i64, Option<TimeZone>)> {
    let (days, time, zone) = read(text, ty, environment, |fields| {
        if let Some(special) = fields.special {
            fields.check_special_alone()?;
            return Ok(match special {
                Special::Infinity => (0, INFINITY, None),
                Special::MinusInfinity => (0, MINUS_INFINITY, None),
                Special::Epoch => (i64::from(UNIX_EPOCH_DAY), 0, Some(TimeZone::UTC)),
                Special::Now => (0, environment.transaction_began, Some(TimeZone::UTC)),
            });
        }
        let days = fields.resolve_date()?.ok_or(Failure::Format)?;
        Ok((days, fields.resolve_time()?.unwrap_or(0), fields.zone.clone()))
    })?;
    let micros = days.checked_mul(MICROS_PER_DAY).and_then(|micros| micros.checked_add(time));
    Ok((micros.ok_or_else(|| beyond(text))?, zone))
}

/// Returns the error for a text that names no point in time that exists here.
fn beyond(text: &str) -> SqlError {
    SqlError::new(timestamp_out_of_range().state(), format!("timestamp out of range: \"{text}\""))
}

/// Reads a point in time without zone. A zone beside it is ignored.
pub fn parse_timestamp(text: &str, environment: &Environment) -> Result<i64> {
    let (micros, _) = parse_point(text, "timestamp", environment)?;
    let is_now = text.trim_matches(is_space).eq_ignore_ascii_case("now");
    let micros = if is_now { to_local(micros, &environment.time_zone) } else { micros };
    if is_timestamp(micros) { Ok(micros) } else { Err(beyond(text)) }
}

/// Reads a point in time, in the environment's zone if the text has none.
pub fn parse_timestamptz(text: &str, environment: &Environment) -> Result<i64> {
    let (local, zone) = parse_point(text, "timestamp with time zone", environment)?;
    // The local time may lie beyond the limits where the time in UTC does not.
    to_utc(local, zone.as_ref().unwrap_or(&environment.time_zone)).map_err(|_| beyond(text))
}

/// Returns the day number of a date that was built from numbers, if it is valid.
pub(crate) fn check_civil(civil: Civil) -> Option<i64> {
    let valid = (1..=12).contains(&civil.month)
        && civil.year.abs() < 6_000_000
        && (1..=days_in_month(civil.year, civil.month)).contains(&civil.day);
    let days = valid.then(|| days_from_civil(civil))?;
    debug_assert_eq!(civil_from_days(days), civil);
    Some(days)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SqlType, text};

    fn round(ty: SqlType, input: &str) -> Result<String> {
        let environment =
            Environment { time_zone: zone::find_zone("America/New_York").unwrap(), ..Environment::default() };
        Ok(text::to_string(&text::parse(ty, -1, input, &environment)?, ty, &environment))
    }

    #[test]
    fn dates_are_read_in_their_many_forms() {
        for (text, expected) in [
            ("1999-01-08", "1999-01-08"),
            ("January 8, 1999", "1999-01-08"),
            ("1/8/1999", "1999-01-08"),
            ("1/18/1999", "1999-01-18"),
            ("01/02/03", "2003-01-02"),
            ("1999-Jan-08", "1999-01-08"),
            ("Jan-08-1999", "1999-01-08"),
            ("08-Jan-1999", "1999-01-08"),
            ("19990108", "1999-01-08"),
            ("990108", "1999-01-08"),
            ("1999.008", "1999-01-08"),
            ("J2451187", "1999-01-08"),
            ("January 8, 99 BC", "0099-01-08 BC"),
            ("infinity", "infinity"),
            ("-infinity", "-infinity"),
            ("epoch", "1970-01-01"),
            ("8 Jan 1999", "1999-01-08"),
            ("Fri Jan 8 1999", "1999-01-08"),
            ("tomorrow", "2000-01-01"),
            ("5874897-12-31", "5874897-12-31"),
            ("4714-11-24 BC", "4714-11-24 BC"),
        ] {
            assert_eq!(round(SqlType::DATE, text).unwrap_or_else(|error| error.to_string()), expected, "{text}");
        }
        for (text, state) in [
            ("", SqlState::INVALID_DATETIME_FORMAT),
            ("x", SqlState::INVALID_DATETIME_FORMAT),
            ("2001-02-30", SqlState::DATETIME_FIELD_OVERFLOW),
            ("13/13/2001", SqlState::DATETIME_FIELD_OVERFLOW),
            ("0000-01-01", SqlState::DATETIME_FIELD_OVERFLOW),
            ("5874898-01-01", SqlState::DATETIME_FIELD_OVERFLOW),
            ("99999999999999999999-01-01", SqlState::DATETIME_FIELD_OVERFLOW),
            ("1999-01", SqlState::INVALID_DATETIME_FORMAT),
        ] {
            assert_eq!(round(SqlType::DATE, text).unwrap_err().state(), state, "{text}");
        }
    }

    #[test]
    fn times_are_read_in_their_many_forms() {
        for (text, expected) in [
            ("04:05:06.789", "04:05:06.789"),
            ("04:05", "04:05:00"),
            ("040506", "04:05:06"),
            ("04:05 AM", "04:05:00"),
            ("04:05 PM", "16:05:00"),
            ("12:05 am", "00:05:00"),
            ("04:05:06-08:00", "04:05:06"),
            ("24:00", "24:00:00"),
            ("23:59:60", "24:00:00"),
            ("0405", "04:05:00"),
            ("04:05:06.1234567", "04:05:06.123457"),
        ] {
            assert_eq!(round(SqlType::TIME, text).unwrap_or_else(|error| error.to_string()), expected, "{text}");
        }
        for text in ["25:00", "24:00:01", "13:00 pm", "x", "1"] {
            assert!(round(SqlType::TIME, text).is_err(), "{text}");
        }
    }

    #[test]
    fn points_in_time_have_zones() {
        for (text, expected) in [
            ("2004-10-19 10:23:54+02", "2004-10-19 04:23:54-04"),
            ("2004-10-19T10:23:54Z", "2004-10-19 06:23:54-04"),
            ("2004-01-19 10:23:54.5 PST", "2004-01-19 13:23:54.5-05"),
            ("2004-01-19 10:23:54 Europe/Berlin", "2004-01-19 04:23:54-05"),
            ("2004-01-19 10:23", "2004-01-19 10:23:00-05"),
            // Local times that the clocks skip or show twice.
            ("2021-03-14 02:30:00", "2021-03-14 03:30:00-04"),
            ("2021-11-07 01:30:00", "2021-11-07 01:30:00-05"),
            ("20040119T102354", "2004-01-19 10:23:54-05"),
            ("infinity", "infinity"),
        ] {
            assert_eq!(round(SqlType::TIMESTAMPTZ, text).unwrap_or_else(|error| error.to_string()), expected, "{text}");
        }
        assert_eq!(round(SqlType::TIMESTAMP, "2004-10-19 10:23:54+02").unwrap(), "2004-10-19 10:23:54");
        assert_eq!(round(SqlType::TIMESTAMP, "0044-03-15 12:00 BC").unwrap(), "0044-03-15 12:00:00 BC");
        assert!(round(SqlType::TIMESTAMP, "294277-01-01").is_err());
        assert!(round(SqlType::TIMESTAMPTZ, "2004-10-19 10:23 Nowhere/Town").is_err());
        assert!(round(SqlType::TIMESTAMPTZ, "2004-10-19 10:23+99").is_err());
    }
}
