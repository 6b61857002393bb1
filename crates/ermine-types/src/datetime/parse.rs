//! The parser of dates and times.
//!
//! The tokens of a text set the fields in any order. Where numbers alone are ambiguous, the order is that of `DateStyle`.

use jiff::tz::TimeZone;

use crate::{
    Environment, Value,
    error::{Result, SqlError, SqlState},
    space::is_space,
};

use super::{
    Civil, DATE_INFINITY, DATE_MINUS_INFINITY, DateOrder, EPOCH_JULIAN_DAY, INFINITY, MICROS_PER_DAY, MICROS_PER_HOUR,
    MICROS_PER_MINUTE, MICROS_PER_SECOND, MINUS_INFINITY, UNIX_EPOCH_DAY,
    abbreviations::{Abbreviation, abbreviated},
    civil_from_days, date_out_of_range, days_from_civil, days_in_month, is_date, is_timestamp,
    iso::{self, Point},
    timestamp_out_of_range, to_local, to_utc,
    tokens::{Kind, Token, is_weekday, month, tokens},
    zone,
    zone::Unnamed,
    zoned_time::time_in_zone,
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

#[derive(Clone, Copy, PartialEq)]
enum Special {
    Infinity,
    MinusInfinity,
    Epoch,
    Now,
}

/// The meaning of the number behind a unit, as in `y2001m02d04`.
#[derive(Clone, Copy, PartialEq)]
enum Unit {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Julian,
    /// A time of day, behind a lone `t`.
    Time,
    /// One that takes no number.
    Other,
}

impl Unit {
    fn named(word: &str) -> Option<Self> {
        Some(match word {
            "y" => Self::Year,
            "m" => Self::Month,
            "d" => Self::Day,
            "h" => Self::Hour,
            "mm" => Self::Minute,
            "s" => Self::Second,
            "j" | "jd" | "julian" => Self::Julian,
            "dow" | "doy" | "isodow" | "isoyear" => Self::Other,
            _ => return None,
        })
    }
}

/// A set of the fields that a text gives.
#[derive(Clone, Copy, PartialEq, Default)]
struct Set(u16);

impl Set {
    const NONE: Self = Self(0);
    const YEAR: Self = Self(1);
    const MONTH: Self = Self(1 << 1);
    const DAY: Self = Self(1 << 2);
    const DAY_OF_YEAR: Self = Self(1 << 3);
    const HOUR: Self = Self(1 << 4);
    const MINUTE: Self = Self(1 << 5);
    const SECOND: Self = Self(1 << 6);
    const FRACTION: Self = Self(1 << 7);
    const ZONE: Self = Self(1 << 8);
    const SUMMER: Self = Self(1 << 9);
    const HALF: Self = Self(1 << 10);
    const ERA: Self = Self(1 << 11);
    const WEEKDAY: Self = Self(1 << 12);
    const SPECIAL: Self = Self(1 << 13);
    const DATE: Self = Self::YEAR.and(Self::MONTH).and(Self::DAY);
    const TIME: Self = Self::HOUR.and(Self::MINUTE).and(Self::SECOND).and(Self::FRACTION);

    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn has(self, all: Self) -> bool {
        self.0 & all.0 == all.0
    }

    const fn meets(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }

    /// Returns the fields of the date among these.
    const fn of_date(self) -> Self {
        Self(self.0 & Self::DATE.0)
    }

    /// Adds fields, none of which may be there already.
    fn add(&mut self, more: Self) -> Parsing<()> {
        if self.meets(more) {
            return Err(Failure::Format);
        }
        *self = self.and(more);
        Ok(())
    }
}

/// The content of a text, before it is converted to one of the types.
#[derive(Default)]
struct Fields {
    given: Set,
    special: Option<Special>,
    year: i64,
    /// Whether the year has at most two digits.
    is_year_short: bool,
    month: i64,
    is_month_named: bool,
    day: i64,
    day_of_year: i64,
    /// Whether the date is whole, from a Julian day or a word.
    is_whole: bool,
    is_before_christ: bool,
    hours: i64,
    minutes: i64,
    /// Seconds with their fraction.
    micros: i64,
    is_afternoon: bool,
    zone: Option<TimeZone>,
    /// An abbreviation whose offset depends on the time.
    changing: Option<Abbreviation>,
    /// Whether the zone has a name, and perhaps a summer time.
    is_zone_named: bool,
    /// A zone that is farther from UTC than zones can be here.
    beyond: Option<String>,
    /// The order of numbers that are ambiguous.
    order: DateOrder,
}

/// Returns the number that a text begins with, 0 if none, and the text behind it. Numbers have at most 32 bits.
fn leading(text: &str) -> Parsing<(i64, &str)> {
    let end = text.find(|next: char| !next.is_ascii_digit()).unwrap_or(text.len());
    let number = if end == 0 { 0 } else { text[..end].parse::<i32>().map_err(|_| Failure::Range)? };
    Ok((number.into(), &text[end..]))
}

/// Returns a point and the digits behind it, in microseconds. `None`: something else.
fn fraction(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('.').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    let mut micros = 0;
    for at in 0..6 {
        micros = micros * 10 + digits.as_bytes().get(at).map_or(0, |digit| i64::from(digit - b'0'));
    }
    Some(micros + i64::from(digits.as_bytes().get(6).is_some_and(|digit| *digit >= b'5')))
}

/// Returns a point and at least one digit behind it, in microseconds.
fn exact_fraction(text: &str) -> Parsing<i64> {
    if text == "." { Err(Failure::Format) } else { fraction(text).ok_or(Failure::Format) }
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

impl Fields {
    fn read(text: &str, time_only: bool, environment: &Environment) -> Parsing<Self> {
        let mut fields = Self { order: environment.style.order, ..Self::default() };
        let tokens = tokens(text).ok_or(Failure::Format)?;
        let mut unit = None;
        for (at, token) in tokens.iter().enumerate() {
            let text = &*token.text;
            let next = tokens.get(at + 1).map(|next| next.kind);
            // A date before a time, or before the name of a zone.
            let precedes_time = at == 0 && (next == Some(Kind::Time) || next.is_some() && ends_in_date(&tokens));
            let added = match token.kind {
                Kind::Date if time_only => {
                    if precedes_time {
                        fields.date(text)?
                    } else {
                        fields.time_and_zone(text, true)?
                    }
                }
                Kind::Date if unit == Some(Unit::Julian) => {
                    unit = None;
                    let (day, offset) = leading(text)?;
                    fields.set_days(day - i64::from(EPOCH_JULIAN_DAY));
                    fields.set_offset(offset)?;
                    Set::DATE.and(Set::TIME).and(Set::ZONE)
                }
                Kind::Date if unit.is_some() || fields.given.has(Set::MONTH.and(Set::DAY)) => {
                    if unit.take().is_some_and(|unit| unit != Unit::Time) {
                        return Err(Failure::Format);
                    }
                    fields.time_and_zone(text, false)?
                }
                Kind::Date => fields.date(text)?,
                Kind::Time => {
                    if !time_only && unit.take().is_some_and(|unit| unit != Unit::Time) {
                        return Err(Failure::Format);
                    }
                    fields.clock(text)?;
                    if !time_only {
                        fields.check_time()?;
                    }
                    Set::TIME
                }
                Kind::Offset => {
                    fields.set_offset(text)?;
                    Set::ZONE
                }
                Kind::Number => match unit.take() {
                    Some(unit) => {
                        fields.special = None;
                        fields.in_unit(unit, text)?
                    }
                    None if time_only => fields.number_of_time(text, at == 0 && ends_in_date(&tokens))?,
                    None => fields.number_of_date(text)?,
                },
                Kind::Word if text == "t" => {
                    let is_time = matches!(next, Some(Kind::Number | Kind::Time | Kind::Date));
                    if !is_time || !time_only && !fields.given.has(Set::DATE) {
                        return Err(Failure::Format);
                    }
                    unit = Some(Unit::Time);
                    Set::NONE
                }
                Kind::Word => match Unit::named(text) {
                    Some(named) => {
                        unit = Some(named);
                        Set::NONE
                    }
                    None => fields.word(text, time_only, environment)?,
                },
            };
            fields.given.add(added)?;
        }
        Ok(fields)
    }

    /// Reads the name of a zone, or a time of digits alone with an offset.
    fn time_and_zone(&mut self, text: &str, time_only: bool) -> Parsing<Set> {
        if text.starts_with(|first: char| first.is_ascii_alphabetic()) {
            match zone::named(text) {
                Ok(zone) => self.set_zone(zone),
                Err(Unnamed::Beyond) => (self.is_zone_named, self.beyond) = (true, Some(text.to_owned())),
                Err(Unnamed::Unknown) => return Err(Failure::Zone(text.to_owned())),
            }
            return Ok(Set::ZONE);
        }
        if self.given.has(Set::TIME) {
            return Err(Failure::Format);
        }
        let (time, offset) = text.split_at(text.find('-').ok_or(Failure::Format)?);
        self.set_offset(offset)?;
        let known = if time_only { self.given.and(Set::DATE) } else { self.given };
        Ok(self.digits(time, known)?.and(Set::ZONE))
    }

    fn set_zone(&mut self, zone: TimeZone) {
        (self.zone, self.is_zone_named) = (Some(zone), true);
    }

    fn set_offset(&mut self, offset: &str) -> Parsing<()> {
        self.zone = Some(zone::fixed(displacement(offset)?).ok_or(Failure::Displacement)?);
        Ok(())
    }

    fn set_days(&mut self, days: i64) {
        let Civil { year, month, day } = civil_from_days(days);
        (self.year, self.month, self.day, self.is_whole) = (year, month, day, true);
    }

    /// Reads a date with separators.
    fn date(&mut self, text: &str) -> Parsing<Set> {
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            rest = rest.trim_start_matches(|next: char| !next.is_ascii_alphanumeric());
            let is_number = rest.starts_with(|first: char| first.is_ascii_digit());
            let is_part = |next: char| if is_number { next.is_ascii_digit() } else { next.is_ascii_alphabetic() };
            let end = rest.find(|next| !is_part(next)).unwrap_or(rest.len());
            if end == 0 {
                return Err(Failure::Format);
            }
            parts.push((&rest[..end], is_number));
            // The separator may be any letter.
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        // The name of a month comes first: it decides about the numbers.
        let (mut known, mut added) = (self.given, Set::NONE);
        let mut is_named = false;
        for (name, _) in parts.iter().filter(|(name, is_number)| !is_number && !matches!(*name, "at" | "on")) {
            self.month = month(name).ok_or(Failure::Format)?;
            is_named = true;
            known.add(Set::MONTH)?;
            added = added.and(Set::MONTH);
        }
        for (digits, _) in parts.iter().filter(|(_, is_number)| *is_number) {
            let more = self.number(digits, is_named, known)?;
            known.add(more)?;
            added = added.and(more);
        }
        let is_date = known.has(Set::DATE) && !known.meets(Set::TIME.and(Set::HALF).and(Set::ERA).and(Set::WEEKDAY));
        if is_date && !known.meets(Set::SUMMER.and(Set::SPECIAL)) { Ok(added) } else { Err(Failure::Format) }
    }

    fn clock(&mut self, text: &str) -> Parsing<()> {
        let (first, rest) = leading(text)?;
        let (second, rest) = leading(rest.strip_prefix(':').ok_or(Failure::Format)?)?;
        let (hours, minutes, seconds, micros) = match rest.as_bytes().first() {
            None => (first, second, 0, 0),
            Some(b'.') => (0, first, second, exact_fraction(rest)?),
            _ => {
                let (third, rest) = leading(rest.strip_prefix(':').ok_or(Failure::Format)?)?;
                (first, second, third, if rest.is_empty() { 0 } else { exact_fraction(rest)? })
            }
        };
        if minutes > 59 || seconds > 60 {
            return Err(Failure::Range);
        }
        (self.hours, self.minutes, self.micros) = (hours, minutes, seconds * MICROS_PER_SECOND + micros);
        Ok(())
    }

    fn check_time(&self) -> Parsing<()> {
        let Self { hours, minutes, micros, .. } = *self;
        let is_time = hours <= 24 && minutes < 60 && micros <= 60 * MICROS_PER_SECOND && self.time() <= MICROS_PER_DAY;
        if is_time { Ok(()) } else { Err(Failure::Range) }
    }

    fn time(&self) -> i64 {
        self.hours * MICROS_PER_HOUR + self.minutes * MICROS_PER_MINUTE + self.micros
    }

    /// Reads a number behind a unit.
    fn in_unit(&mut self, unit: Unit, text: &str) -> Parsing<Set> {
        let (number, rest) = leading(text)?;
        let has_fraction = rest.starts_with('.');
        if has_fraction && !matches!(unit, Unit::Julian | Unit::Time | Unit::Second) {
            return Err(Failure::Format);
        }
        Ok(match unit {
            Unit::Year => {
                self.year = number;
                Set::YEAR
            }
            Unit::Month if self.given.has(Set::MONTH.and(Set::HOUR)) => {
                self.minutes = number;
                Set::MINUTE
            }
            Unit::Month => {
                self.month = number;
                Set::MONTH
            }
            Unit::Day => {
                self.day = number;
                Set::DAY
            }
            Unit::Hour => {
                self.hours = number;
                Set::HOUR
            }
            Unit::Minute => {
                self.minutes = number;
                Set::MINUTE
            }
            Unit::Second => {
                let micros = if has_fraction { exact_fraction(rest)? } else { 0 };
                self.micros = number * MICROS_PER_SECOND + micros;
                if has_fraction { Set::SECOND.and(Set::FRACTION) } else { Set::SECOND }
            }
            Unit::Julian => {
                self.set_days(number - i64::from(EPOCH_JULIAN_DAY));
                match has_fraction {
                    true => {
                        let day: f64 = rest.parse().unwrap_or(0.0);
                        self.set_time((day * MICROS_PER_DAY as f64) as i64);
                        Set::DATE.and(Set::TIME)
                    }
                    false => Set::DATE,
                }
            }
            Unit::Time => {
                let added = self.digits(text, self.given.and(Set::DATE))?;
                if added == Set::TIME { added } else { return Err(Failure::Format) }
            }
            Unit::Other => return Err(Failure::Format),
        })
    }

    fn set_time(&mut self, micros: i64) {
        self.hours = micros / MICROS_PER_HOUR;
        self.minutes = micros % MICROS_PER_HOUR / MICROS_PER_MINUTE;
        self.micros = micros % MICROS_PER_MINUTE;
    }

    /// Reads a number where only a time is wanted.
    fn number_of_time(&mut self, text: &str, precedes_date: bool) -> Parsing<Set> {
        let known = self.given.and(Set::DATE);
        match text.find('.') {
            Some(_) if precedes_date => self.date(text),
            Some(point) if point > 2 => self.digits(text, known),
            Some(_) => Err(Failure::Format),
            None if text.len() > 4 => self.digits(text, known),
            None => self.number(text, false, known),
        }
    }

    /// Reads a number where a date is wanted, perhaps with a time.
    fn number_of_date(&mut self, text: &str) -> Parsing<Set> {
        match text.find('.') {
            Some(_) if !self.given.meets(Set::DATE) => self.date(text),
            Some(point) if point > 2 => self.digits(text, self.given),
            None if text.len() >= 6 && !(self.given.meets(Set::DATE) && self.given.meets(Set::TIME)) => {
                self.digits(text, self.given)
            }
            _ => self.number(text, self.is_month_named, self.given),
        }
    }

    /// Reads a number, whose meaning follows from its length and from the fields that are known.
    fn number(&mut self, text: &str, is_month_named: bool, known: Set) -> Parsing<Set> {
        let (number, rest) = leading(text)?;
        match rest {
            _ if rest.len() == text.len() => return Err(Failure::Format),
            "" => {}
            _ if text.len() - rest.len() > 2 => return self.digits(text, known.and(Set::DATE)),
            // The fraction belongs to the seconds.
            _ => self.micros = self.micros / MICROS_PER_SECOND * MICROS_PER_SECOND + exact_fraction(rest)?,
        }
        let is_long = text.len() >= 3;
        let date = known.of_date();
        if text.len() == 3 && date == Set::YEAR && (1..=366).contains(&number) {
            self.day_of_year = number;
            return Ok(Set::DAY_OF_YEAR.and(Set::MONTH).and(Set::DAY));
        }
        let added = match date {
            Set::NONE if is_long || self.order == DateOrder::Ymd => Set::YEAR,
            Set::NONE if self.order == DateOrder::Dmy => Set::DAY,
            Set::NONE | Set::YEAR | Set::DAY => Set::MONTH,
            Set::MONTH if is_month_named && (is_long || self.order == DateOrder::Ymd) => Set::YEAR,
            Set::MONTH => Set::DAY,
            date if date == Set::YEAR.and(Set::MONTH) => {
                if is_month_named && is_long && self.is_year_short {
                    (self.day, self.year, self.is_year_short) = (self.year, number, false);
                    return Ok(Set::DAY);
                }
                Set::DAY
            }
            date if date == Set::MONTH.and(Set::DAY) => Set::YEAR,
            Set::DATE => return self.digits(text, known),
            _ => return Err(Failure::Format),
        };
        match added {
            Set::YEAR => (self.year, self.is_year_short) = (number, text.len() <= 2),
            Set::MONTH => self.month = number,
            _ => self.day = number,
        }
        Ok(added)
    }

    /// Reads a date or a time of digits alone: `20011225`, `040506.789`.
    fn digits(&mut self, text: &str, known: Set) -> Parsing<Set> {
        let (digits, micros) = match text.find('.') {
            Some(point) => (&text[..point], Some(fraction(&text[point..]).ok_or(Failure::Format)?)),
            None => (text, None),
        };
        // Digits that are too many for a number are a year beyond all.
        let number = |digits: &str| digits.parse::<i32>().map_or(i64::from(i32::MAX), i64::from);
        if micros.is_none() && !known.has(Set::DATE) && digits.len() >= 6 {
            let (year, rest) = digits.split_at(digits.len() - 4);
            (self.year, self.month, self.day) = (number(year), number(&rest[..2]), number(&rest[2..]));
            self.is_year_short |= year.len() == 2;
            return Ok(Set::DATE);
        }
        if known.has(Set::TIME) || !matches!(digits.len(), 4 | 6) {
            return Err(Failure::Format);
        }
        (self.hours, self.minutes) = (number(&digits[..2]), number(&digits[2..4]));
        let seconds = if digits.len() == 6 { number(&digits[4..]) } else { 0 };
        self.micros = seconds * MICROS_PER_SECOND + micros.unwrap_or(0);
        Ok(Set::TIME)
    }

    fn word(&mut self, word: &str, time_only: bool, environment: &Environment) -> Parsing<Set> {
        let today = || to_local(environment.transaction_began, &environment.time_zone).div_euclid(MICROS_PER_DAY);
        let special = match word {
            "infinity" | "+infinity" => Some(Special::Infinity),
            "-infinity" => Some(Special::MinusInfinity),
            "epoch" => Some(Special::Epoch),
            "now" => Some(Special::Now),
            _ => None,
        };
        let day = match word {
            "today" => Some(0),
            "tomorrow" => Some(1),
            "yesterday" => Some(-1),
            _ => None,
        };
        let is_other = special.is_some_and(|special| special != Special::Now) || day.is_some();
        if time_only && (is_other || month(word).is_some() || is_weekday(word)) {
            return Err(Failure::Format);
        }
        if let Some(abbreviation) = abbreviated(word) {
            match abbreviation {
                Abbreviation::Fixed(zone) => self.zone = Some(zone),
                changing => self.changing = Some(changing),
            }
            return Ok(Set::ZONE);
        }
        if special.is_some() {
            self.special = special;
            return Ok(if special == Some(Special::Now) {
                Set::DATE.and(Set::TIME).and(Set::ZONE)
            } else {
                Set::SPECIAL
            });
        }
        if let Some(day) = day {
            self.set_days(today() + day);
            self.special = None;
            return Ok(Set::DATE);
        }
        if let Some(month) = month(word) {
            // So an earlier number was not the month.
            let is_day = self.given.has(Set::MONTH) && !self.is_month_named && !self.given.has(Set::DAY);
            let is_day = is_day && (1..=31).contains(&self.month);
            if is_day {
                self.day = self.month;
            }
            (self.month, self.is_month_named) = (month, true);
            return Ok(if is_day { Set::DAY } else { Set::MONTH });
        }
        Ok(match word {
            "at" | "on" => Set::NONE,
            "am" | "pm" => {
                self.is_afternoon = word == "pm";
                Set::HALF
            }
            "ad" | "bc" => {
                self.is_before_christ = word == "bc";
                Set::ERA
            }
            "dst" => {
                // The hour is added to the offset before it.
                let offset = self.zone.as_ref().and_then(|zone| zone.to_fixed_offset().ok());
                if let Some(offset) = offset {
                    self.zone = zone::fixed(offset.seconds() + 3600);
                }
                Set::SUMMER
            }
            "allballs" => {
                self.set_time(0);
                (self.zone, self.special) = (Some(TimeZone::UTC), None);
                Set::TIME.and(Set::ZONE)
            }
            _ if is_weekday(word) => Set::WEEKDAY,
            _ => {
                self.set_zone(TimeZone::get(word).map_err(|_| Failure::Format)?);
                Set::ZONE
            }
        })
    }

    /// Returns the day number; `None`: the text has no whole date.
    fn resolve_date(&self) -> Parsing<Option<i64>> {
        let Self { mut year, mut month, mut day, .. } = *self;
        if self.given.has(Set::YEAR) && !self.is_whole {
            year = match (self.is_before_christ, self.is_year_short) {
                (true, _) if year > 0 => 1 - year,
                (true, _) => return Err(Failure::Range),
                (false, true) if year < 70 => year + 2000,
                (false, true) if year < 100 => year + 1900,
                (false, true) => year,
                (false, false) if year == 0 => return Err(Failure::Range),
                (false, false) => year,
            };
        }
        if year.abs() > 6_000_000 {
            return Err(Failure::Range);
        }
        if self.given.has(Set::DAY_OF_YEAR) {
            // The last one may be the first day of the next year.
            let days = days_from_civil(Civil { year, month: 1, day: 1 }) + self.day_of_year - 1;
            Civil { year, month, day } = civil_from_days(days);
        }
        let is_beyond = |field: Set, number, last| self.given.has(field) && !(1..=last).contains(&number);
        if is_beyond(Set::MONTH, month, 12) || is_beyond(Set::DAY, day, 31) {
            return Err(Failure::Order);
        }
        if !self.given.has(Set::DATE) {
            return Ok(None);
        }
        if day > days_in_month(year, month) {
            return Err(Failure::Range);
        }
        Ok(Some(days_from_civil(Civil { year, month, day })))
    }

    /// Returns the time of day, which begins at midnight.
    fn resolve_time(&self) -> Parsing<i64> {
        if !self.given.has(Set::HALF) {
            return Ok(self.time());
        }
        let half = 12 * MICROS_PER_HOUR;
        match self.hours {
            13.. => Err(Failure::Range),
            12 => Ok(if self.is_afternoon { self.time() } else { self.time() - half }),
            _ => Ok(if self.is_afternoon { self.time() + half } else { self.time() }),
        }
    }

    /// Returns the zone of a local time.
    fn zone_at(&self, local: i64) -> Option<TimeZone> {
        match &self.changing {
            Some(abbreviation) => Some(zone::at_local(abbreviation.clone(), local)),
            None => self.zone.clone(),
        }
    }

    /// Checks that a summer time belongs to an offset.
    fn check_zone(&self) -> Parsing<()> {
        let is_wrong = self.given.has(Set::SUMMER) && (self.zone.is_none() || self.is_zone_named);
        if is_wrong { Err(Failure::Format) } else { Ok(()) }
    }

    /// Returns the special word, beside which the other fields are valid.
    fn special(&self) -> Parsing<Option<Special>> {
        if !matches!(self.special, None | Some(Special::Now)) {
            self.resolve_date()?;
            self.resolve_time()?;
        }
        Ok(self.special)
    }

    /// Returns the day number and the time of day.
    fn resolve(&self) -> Parsing<(i64, i64)> {
        let days = self.resolve_date()?;
        let time = self.resolve_time()?;
        let days = days.ok_or(Failure::Format)?;
        self.check_zone()?;
        Ok((days, time))
    }
}

/// Whether a text of several tokens ends in a date, or the name of a zone.
fn ends_in_date(tokens: &[Token<'_>]) -> bool {
    tokens.len() >= 2 && tokens.last().is_some_and(|token| token.kind == Kind::Date)
}

fn read<T>(text: &str, ty: &str, environment: &Environment, resolve: impl FnOnce(&Fields) -> Parsing<T>) -> Result<T> {
    // PostgreSQL's buffers for words, each with a byte behind it.
    let bytes_max = if matches!(ty, "date" | "time" | "time with time zone") { 129 } else { 153 };
    if text.split(is_space).filter(|word| !word.is_empty()).map(|word| word.len() + 1).sum::<usize>() > bytes_max {
        return Err(Failure::Format.report(ty, text));
    }
    let lower = text.to_ascii_lowercase();
    Fields::read(&lower, ty.starts_with("time") && !ty.starts_with("timestamp"), environment)
        .and_then(|fields| resolve(&fields))
        .map_err(|failure| failure.report(ty, text))
}

/// Reads a date.
pub fn parse_date(text: &str, environment: &Environment) -> Result<i32> {
    match iso::date(text) {
        Some(days) => Ok(days as i32),
        None => parse_other_date(text, environment),
    }
}

fn parse_other_date(text: &str, environment: &Environment) -> Result<i32> {
    let days = read(text, "date", environment, |fields| {
        if let Some(special) = fields.special()? {
            return Ok(match special {
                Special::Infinity => DATE_INFINITY.into(),
                Special::MinusInfinity => DATE_MINUS_INFINITY.into(),
                Special::Epoch => UNIX_EPOCH_DAY.into(),
                Special::Now => {
                    to_local(environment.transaction_began, &environment.time_zone).div_euclid(MICROS_PER_DAY)
                }
            });
        }
        Ok(fields.resolve()?.0)
    })?;
    let fits = i32::try_from(days).ok().filter(|&days| is_date(days));
    fits.ok_or_else(|| {
        let error = date_out_of_range();
        SqlError::new(error.state(), format!("date out of range: \"{text}\""))
    })
}

/// Reads a time of day. A date and a zone beside it are ignored.
pub fn parse_time(text: &str, environment: &Environment) -> Result<i64> {
    read(text, "time", environment, |fields| {
        if fields.special == Some(Special::Now) {
            let now = to_local(environment.transaction_began, &environment.time_zone);
            return Ok(now.rem_euclid(MICROS_PER_DAY));
        }
        fields.resolve_date()?;
        let time = fields.resolve_time()?;
        fields.check_time()?;
        // The offset of a zone with a summer time depends on the date.
        let has_offset = fields.zone.as_ref().is_none_or(|zone| zone.to_fixed_offset().is_ok());
        let is_known = !fields.is_zone_named || has_offset || fields.given.has(Set::DATE);
        fields.check_zone()?;
        if fields.given.has(Set::TIME) && is_known { Ok(time) } else { Err(Failure::Format) }
    })
}

/// Reads a time of day with its zone, which is the session's if there is none. The offset of a zone with a summer time
/// depends on the date beside it.
pub fn parse_timetz(text: &str, environment: &Environment) -> Result<Value> {
    read(text, "time with time zone", environment, |fields| {
        if fields.special == Some(Special::Now) {
            return Ok(time_in_zone(environment.transaction_began, &environment.time_zone));
        }
        let days = fields.resolve_date()?;
        let time = fields.resolve_time()?;
        fields.check_time()?;
        fields.check_zone()?;
        if !fields.given.has(Set::TIME) {
            return Err(Failure::Format);
        }
        let today = || to_local(environment.transaction_began, &environment.time_zone).div_euclid(MICROS_PER_DAY);
        let local = |days: i64| days.saturating_mul(MICROS_PER_DAY).saturating_add(time);
        let known = fields.zone_at(local(days.unwrap_or_else(today)));
        let fixed = known.as_ref().and_then(|zone| zone.to_fixed_offset().ok());
        let ahead = |local: i64, zone: &TimeZone| {
            let utc = to_utc(local, zone).map_err(|_| Failure::Range)?;
            Ok(((local - utc) / 1_000_000) as i32)
        };
        let ahead = match (fixed, &known, days) {
            (Some(offset), ..) => offset.seconds(),
            (None, Some(_), None) => return Err(Failure::Format),
            (None, Some(zone), Some(days)) => ahead(local(days), zone)?,
            (None, None, days) => {
                let zone = &environment.time_zone;
                ahead(local(days.unwrap_or_else(today)), zone)?
            }
        };
        Ok(Value::TimeTz { micros: time, ahead })
    })
}

/// Returns the local time of a text, and its zone.
fn parse_point(text: &str, ty: &str, environment: &Environment) -> Result<(i64, Option<TimeZone>)> {
    if let Some(Point { days, time, offset }) = iso::point(text) {
        return Ok((days * MICROS_PER_DAY + time, offset.and_then(zone::fixed)));
    }
    parse_other_point(text, ty, environment)
}

fn parse_other_point(text: &str, ty: &str, environment: &Environment) -> Result<(i64, Option<TimeZone>)> {
    let (days, time, zone) = read(text, ty, environment, |fields| {
        if let Some(special) = fields.special()? {
            return Ok(match special {
                Special::Infinity => (0, INFINITY, None),
                Special::MinusInfinity => (0, MINUS_INFINITY, None),
                Special::Epoch => (i64::from(UNIX_EPOCH_DAY), 0, Some(TimeZone::UTC)),
                Special::Now => (0, environment.transaction_began, Some(TimeZone::UTC)),
            });
        }
        let (days, time) = fields.resolve()?;
        if let Some(name) = &fields.beyond {
            return Err(Failure::Zone(name.clone()));
        }
        let local = days.checked_mul(MICROS_PER_DAY).and_then(|micros| micros.checked_add(time));
        Ok((days, time, fields.zone_at(local.unwrap_or(0))))
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
            (&*"1".repeat(128), SqlState::DATETIME_FIELD_OVERFLOW),
            (&*"1".repeat(129), SqlState::INVALID_DATETIME_FORMAT),
        ] {
            assert_eq!(round(SqlType::DATE, text).unwrap_err().state(), state, "{text}");
        }
    }

    /// Texts that are read at their fixed places are read alike as tokens.
    #[test]
    fn the_written_form_is_read_alike() {
        let environment = Environment::default();
        let mut random = fastrand::Rng::with_seed(4);
        let mut count = 0;
        for _ in 0..200_000 {
            let (year, month, day) = (random.u32(..10_000), random.u32(..14), random.u32(..33));
            let (hour, minute, second) = (random.u32(..26), random.u32(..62), random.u32(..62));
            let fraction = ["", ".", ".5", ".123456", ".1234567", ".05 "][random.usize(..6)];
            let zone = ["", "", "+02", "-11", "+15", "+16", "+0530", "+05:30", "Z", "-1", " UTC"][random.usize(..11)];
            let mut text = format!("{year:04}-{month:02}-{day:02}");
            if random.bool() {
                text += &format!(" {hour:02}:{minute:02}:{second:02}{fraction}{zone}");
            }
            if random.u8(..4) == 0 {
                let at = random.usize(..text.len());
                text.replace_range(at..=at, ["", "-", ":", " ", "+", "0", "T", "7"][random.usize(..8)]);
            }
            if let Some(days) = iso::date(&text) {
                assert_eq!(parse_other_date(&text, &environment).ok(), Some(days as i32), "{text}");
            }
            if let Some(Point { days, time, offset }) = iso::point(&text) {
                let (micros, zone) = parse_other_point(&text, "timestamp", &environment).unwrap();
                let zone = zone.map(|zone| zone.to_fixed_offset().unwrap().seconds());
                assert_eq!((micros, zone), (days * MICROS_PER_DAY + time, offset), "{text}");
                count += 1;
            }
        }
        assert!(count > 20_000, "{count}");
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
