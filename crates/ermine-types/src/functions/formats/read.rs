//! `to_date` and `to_timestamp`: a text read by a pattern, as PostgreSQL's `DCH_from_char` and `do_to_timestamp` do.

use super::pieces::{Piece, Suffix, Word, is_separator, pieces};
use super::time::{MONTHS, WEEKDAYS};
use crate::{
    Environment,
    cast::with_precision,
    datetime::{
        self, Civil, EPOCH_JULIAN_DAY, MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND,
        civil_from_days, days_from_civil, days_in_month, iso_week_begin, to_utc,
    },
    error::{Result, SqlError, SqlState},
};

/// The months from the last to the first: where one is a prefix of another, the longer one comes first.
const ROMAN_MONTHS: [&str; 12] = ["XII", "XI", "X", "IX", "VIII", "VII", "VI", "V", "IV", "III", "II", "I"];

/// The calendar of a date: months, or ISO weeks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Convention {
    Gregorian,
    IsoWeek,
}

/// The fields that a text sets by a pattern; 0: not set.
#[derive(Default)]
struct Fields {
    convention: Option<Convention>,
    hour: i64,
    afternoon: i64,
    minute: i64,
    second: i64,
    second_of_day: i64,
    /// Sunday is 1.
    weekday: i64,
    day: i64,
    day_of_year: i64,
    month: i64,
    millis: i64,
    year: i64,
    is_before_christ: i64,
    week: i64,
    week_of_month: i64,
    century: i64,
    julian: i64,
    micros: i64,
    /// The number of digits of a fraction of a second, as the last `FF1` to `FF6` says.
    precision: Option<i32>,
    /// The number of digits of a year in the pattern.
    year_digits: usize,
    has_twelve_hours: bool,
    /// 0: there is no offset.
    zone_sign: i64,
    zone_hours: i64,
    zone_minutes: i64,
}

fn invalid_format(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
}

fn invalid(text: &str, word: &str) -> SqlError {
    invalid_format(format!("invalid value \"{text}\" for \"{word}\""))
}

/// Sets a field, which must not have another value already.
fn set(field: &mut i64, value: i64, word: &str) -> Result<()> {
    if *field != 0 && *field != value {
        let message = format!("conflicting values for \"{word}\" field in formatting string");
        return Err(
            invalid_format(message).detail("This value contradicts a previous setting for the same field type.")
        );
    }
    *field = value;
    Ok(())
}

/// The unread part of a text.
struct Reader<'t> {
    text: &'t str,
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn skip(&mut self) {
        let mut characters = self.rest.chars();
        characters.next();
        self.rest = characters.as_str();
    }

    /// Skips blanks; returns their number.
    fn skip_blanks(&mut self) -> i64 {
        let after =
            self.rest.trim_start_matches(|character: char| character.is_ascii_whitespace() || character == '\x0b');
        let count = self.rest.len() - after.len();
        self.rest = after;
        count as i64
    }

    fn skip_suffix(&mut self, suffix: Suffix) {
        if suffix != Suffix::None {
            self.skip();
            self.skip();
        }
    }

    /// Returns a number and its length in the text: the longest one if a non-digit follows in the pattern, otherwise
    /// `width` digits.
    fn number(&mut self, width: usize, word: &Word, ends: bool) -> Result<(i64, usize)> {
        let before = self.rest;
        self.skip_blanks();
        let shown: String = self.rest.chars().take(width).collect();
        let (number, taken) = if ends {
            long(self.rest)
        } else {
            if self.rest.len() < width {
                let message = format!("source string too short for \"{}\" formatting field", word.word);
                let detail = format!("Field requires {width} characters, but only {} remain.", self.rest.len());
                return Err(invalid_format(message).detail(detail));
            }
            let (number, taken) = long(&shown);
            if taken > 0 && taken < width {
                let detail = format!("Field requires {width} characters, but only {taken} could be parsed.");
                return Err(invalid(&shown, word.word).detail(detail));
            }
            (number, taken)
        };
        if taken == 0 {
            return Err(invalid(&shown, word.word).detail("Value must be an integer."));
        }
        self.rest = &self.rest[taken..];
        let number = number.filter(|number| i32::try_from(*number).is_ok()).ok_or_else(|| {
            let message = format!("value for \"{}\" in source string is out of range", word.word);
            SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
        })?;
        Ok((number, before.len() - self.rest.len()))
    }

    /// Returns the place of the name that comes next, in any case.
    fn name(&mut self, names: &[&str], word: &Word) -> Result<i64> {
        let found = names
            .iter()
            .position(|name| self.rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)));
        let at = found.ok_or_else(|| {
            let shown = self.rest.split_ascii_whitespace().next().unwrap_or_default();
            let shown = if self.rest.starts_with(shown) { shown } else { "" };
            invalid(shown, word.word).detail("The given value did not match any of the allowed values for this field.")
        })?;
        self.rest = &self.rest[names[at].len()..];
        Ok(at as i64)
    }
}

/// Returns the number at the front of a text, as `strtol` reads it, and its length; `None`: the number does not fit.
fn long(text: &str) -> (Option<i64>, usize) {
    let blanks = text.len() - text.trim_ascii_start().len();
    let signs = usize::from(text[blanks..].starts_with(['+', '-']));
    let digits = text[blanks + signs..].bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return (Some(0), 0);
    }
    let end = blanks + signs + digits;
    (text[blanks..end].parse().ok(), end)
}

/// Whether a number ends with its last digit: not if the pattern goes on with digits.
fn ends(pieces: &[Piece], at: usize) -> bool {
    if matches!(&pieces[at], Piece::Word(word) if word.suffix != Suffix::None || word.is_bare) {
        return true;
    }
    match pieces.get(at + 1) {
        None => true,
        Some(Piece::Word(next)) => {
            const NAMES: [&str; 17] = [
                "A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "DAY", "DY", "FX", "MONTH", "MON", "OF", "P.M.", "PM", "RM",
                "TZ", "TZH",
            ];
            NAMES.contains(&&*next.upper())
        }
        Some(Piece::Separator(next) | Piece::Text(next)) => !next.is_ascii_digit(),
    }
}

/// Returns the convention that a word belongs to.
fn convention(word: &str) -> Option<Convention> {
    match word {
        "IDDD" | "ID" | "IW" | "IYYY" | "IYY" | "IY" | "I" => Some(Convention::IsoWeek),
        "DDD" | "DD" | "D" | "MM" | "MONTH" | "MON" | "RM" | "WW" | "W" | "Y,YYY" | "YYYY" | "YYY" | "YY" | "Y" => {
            Some(Convention::Gregorian)
        }
        _ => None,
    }
}

/// Completes a year of fewer than four digits to the one nearest to 2020.
fn whole_year(year: i64) -> i64 {
    match year {
        ..70 => year + 2000,
        70..100 => year + 1900,
        100..520 => year + 2000,
        520..1000 => year + 1000,
        _ => year,
    }
}

fn parse(text: &str, pattern: &str) -> Result<Fields> {
    let mut fields = Fields::default();
    let pieces = pieces(pattern);
    let mut reader = Reader { text, rest: text };
    // FX: blanks and signs count. Otherwise: how many more were skipped than the pattern has.
    let (mut is_exact, mut skipped) = (false, 0);
    for (at, piece) in pieces.iter().enumerate() {
        if reader.rest.is_empty() {
            break;
        }
        let is_word = matches!(piece, Piece::Word(_));
        if !is_exact && !matches!(piece, Piece::Word(word) if word.upper() == "FX") && (is_word || at == 0) {
            skipped += reader.skip_blanks();
        }
        match piece {
            Piece::Separator(_) if is_exact => reader.skip(),
            Piece::Separator(_) => {
                skipped -= 1;
                if reader.rest.starts_with(|next: char| next.is_ascii_whitespace() || is_separator(next)) {
                    reader.skip();
                    skipped += 1;
                }
            }
            Piece::Text(_) if !is_exact && skipped > 0 => skipped -= 1,
            Piece::Text(_) => reader.skip(),
            Piece::Word(word) => {
                let name = word.upper();
                if let Some(convention) = convention(&name) {
                    if fields.convention.is_some_and(|known| known != convention) {
                        return Err(invalid_format("invalid combination of date conventions")
                            .hint("Do not mix Gregorian and ISO week date conventions in a formatting template."));
                    }
                    fields.convention = Some(convention);
                }
                is_exact |= name == "FX";
                fields.read(&name, word, &mut reader, ends(&pieces, at), skipped)?;
                if !is_exact {
                    skipped = reader.skip_blanks();
                }
            }
        }
    }
    Ok(fields)
}

impl Fields {
    /// Reads a field. `ends`: a number ends with its last digit.
    fn read(&mut self, name: &str, word: &Word, reader: &mut Reader<'_>, ends: bool, skipped: i64) -> Result<()> {
        if !self.read_name(name, word, reader)? && !self.read_zone(name, word, reader, ends, skipped)? {
            self.read_number(name, word, reader, ends)?;
            reader.skip_suffix(word.suffix);
        }
        Ok(())
    }

    /// Reads a field that is a name; returns false for any other.
    fn read_name(&mut self, name: &str, word: &Word, reader: &mut Reader<'_>) -> Result<bool> {
        let short = |name: &'static str| &name[..3];
        match name {
            "FX" => {}
            "A.M." | "P.M." | "AM" | "PM" => {
                let names = if name.len() > 2 { ["A.M.", "P.M."] } else { ["AM", "PM"] };
                set(&mut self.afternoon, reader.name(&names, word)?, word.word)?;
                self.has_twelve_hours = true;
            }
            "A.D." | "B.C." | "AD" | "BC" => {
                let names = if name.len() > 2 { ["A.D.", "B.C."] } else { ["AD", "BC"] };
                set(&mut self.is_before_christ, reader.name(&names, word)?, word.word)?;
            }
            "MONTH" => set(&mut self.month, reader.name(&MONTHS, word)? + 1, word.word)?,
            "MON" => set(&mut self.month, reader.name(&MONTHS.map(short), word)? + 1, word.word)?,
            "RM" => set(&mut self.month, 12 - reader.name(&ROMAN_MONTHS, word)?, word.word)?,
            "DAY" => set(&mut self.weekday, reader.name(&WEEKDAYS, word)? + 1, word.word)?,
            "DY" => set(&mut self.weekday, reader.name(&WEEKDAYS.map(short), word)? + 1, word.word)?,
            "TZ" | "OF" => {
                let message = format!("formatting field \"{}\" is only supported in to_char", word.word);
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads the hours or minutes of a time zone; returns false for any other field.
    fn read_zone(
        &mut self,
        name: &str,
        word: &Word,
        reader: &mut Reader<'_>,
        ends: bool,
        skipped: i64,
    ) -> Result<bool> {
        match name {
            "TZH" => {
                // A minus may have been skipped as a separator.
                let before = &reader.text[..reader.text.len() - reader.rest.len()];
                self.zone_sign = match reader.rest.bytes().next() {
                    Some(sign @ (b'+' | b'-' | b' ')) => {
                        reader.skip();
                        if sign == b'-' { -1 } else { 1 }
                    }
                    _ if skipped > 0 && before.ends_with('-') => -1,
                    _ => 1,
                };
                let (number, _) = reader.number(2, word, ends)?;
                set(&mut self.zone_hours, number, word.word)?;
            }
            "TZM" => {
                self.zone_sign = if self.zone_sign == 0 { 1 } else { self.zone_sign };
                let (number, _) = reader.number(2, word, ends)?;
                set(&mut self.zone_minutes, number, word.word)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn read_number(&mut self, name: &str, word: &Word, reader: &mut Reader<'_>, ends: bool) -> Result<()> {
        let width = word.word.len();
        let mut into = |field: &mut i64, width: usize| -> Result<usize> {
            let (number, length) = reader.number(width, word, ends)?;
            set(field, number, word.word)?;
            Ok(length)
        };
        match name {
            "Y,YYY" => {
                let wrong = || invalid_format("invalid input string for \"Y,YYY\"");
                let (thousands, taken) = long(reader.rest);
                let tail = reader.rest[taken..].strip_prefix(',').ok_or_else(wrong)?;
                let shown: String = tail.chars().take(3).collect();
                let (years, length) = long(&shown);
                let thousands = thousands.filter(|_| taken > 0 && length > 0).ok_or_else(wrong)?;
                let year = thousands.saturating_mul(1000).saturating_add(years.unwrap_or(0));
                reader.rest = &tail[length..];
                set(&mut self.year, year, word.word)?;
                self.year_digits = 4;
            }
            "HH" | "HH12" => {
                into(&mut self.hour, 2)?;
                self.has_twelve_hours = true;
            }
            "HH24" => drop(into(&mut self.hour, 2)?),
            "MI" => drop(into(&mut self.minute, width)?),
            "SS" => drop(into(&mut self.second, width)?),
            "SSSS" | "SSSSS" => drop(into(&mut self.second_of_day, width)?),
            "MS" => {
                let length = into(&mut self.millis, 3)?;
                self.millis *= 10i64.pow(3 - length.min(3) as u32);
            }
            "US" | "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
                let precision = name.strip_prefix("FF").and_then(|digits| digits.parse().ok());
                let length = into(&mut self.micros, precision.map_or(6, |digits: i32| digits as usize))?;
                self.precision = precision.or(self.precision);
                self.micros = self.micros.saturating_mul(10i64.pow(6 - length.min(6) as u32));
            }
            "MM" => drop(into(&mut self.month, width)?),
            "DDD" => drop(into(&mut self.day_of_year, width)?),
            "IDDD" => drop(into(&mut self.day_of_year, 3)?),
            "DD" => drop(into(&mut self.day, width)?),
            "D" => drop(into(&mut self.weekday, width)?),
            "ID" => {
                into(&mut self.weekday, 1)?;
                self.weekday = if self.weekday >= 7 { 1 } else { self.weekday + 1 };
            }
            "WW" | "IW" => drop(into(&mut self.week, width)?),
            "Q" => drop(into(&mut 0, width)?),
            "CC" => drop(into(&mut self.century, width)?),
            "W" => drop(into(&mut self.week_of_month, width)?),
            "J" => drop(into(&mut self.julian, width)?),
            _ => {
                // Years of at most four digits, of both conventions.
                let length = into(&mut self.year, width)?;
                self.year_digits = width;
                if length < 4 && width < 4 {
                    self.year = whole_year(self.year);
                }
            }
        }
        Ok(())
    }

    /// Returns the day that the fields mean, checked as far as they are set.
    fn days(&self, text: &str) -> Result<i64> {
        let out_of_range = || Self::out_of_range(text);
        let (mut year, mut month, mut day) = (0, 1, 1);
        let (mut has_year, mut has_month, mut has_day) = (false, false, false);
        let century = if self.is_before_christ != 0 { -self.century } else { self.century };
        let take = |days: i64| {
            let civil = civil_from_days(days);
            ((civil.year, civil.month, civil.day), (true, true, true))
        };
        if self.year != 0 {
            year = if self.century != 0 && self.year_digits <= 2 {
                match (self.year % 100, century >= 0) {
                    (0, true) => century * 100,
                    (0, false) => century * 100 + 1,
                    (short, true) => short + (century - 1) * 100,
                    (short, false) => (century + 1) * 100 - short + 1,
                }
            } else {
                let signed = if self.is_before_christ != 0 { -self.year } else { self.year };
                if signed < 0 { signed + 1 } else { signed }
            };
            has_year = true;
        } else if self.century != 0 {
            year = if century >= 0 { (century - 1) * 100 + 1 } else { century * 100 + 1 };
            has_year = true;
        }
        if self.julian != 0 {
            ((year, month, day), (has_year, has_month, has_day)) = take(self.julian - i64::from(EPOCH_JULIAN_DAY));
        }
        let is_iso = self.convention == Some(Convention::IsoWeek);
        let mut day_of_year = self.day_of_year;
        if self.week != 0 && is_iso {
            let monday = iso_week_begin(year, self.week);
            let days = match self.weekday {
                0 => 0,
                1 => 6,
                weekday => weekday - 2,
            };
            ((year, month, day), (has_year, has_month, has_day)) = take(monday + days);
        } else if self.week != 0 {
            day_of_year = (self.week - 1) * 7 + 1;
        }
        let own_day = if self.week_of_month != 0 { (self.week_of_month - 1) * 7 + 1 } else { self.day };
        if own_day != 0 {
            (day, has_day) = (own_day, true);
        }
        if self.month != 0 {
            (month, has_month) = (self.month, true);
        }
        if day_of_year != 0 && (month <= 1 || day <= 1) {
            if year == 0 && self.is_before_christ == 0 {
                return Err(invalid_format("cannot calculate day of year without year information"));
            }
            if is_iso {
                let begin = iso_week_begin(year, 1);
                ((year, month, day), (has_year, has_month, has_day)) = take(begin - 1 + day_of_year);
            } else {
                let (mut of, mut left) = (1, day_of_year);
                while of <= 12 && left > days_in_month(year, of) {
                    left -= days_in_month(year, of);
                    of += 1;
                }
                month = if month <= 1 { of } else { month };
                day = if day <= 1 { left } else { day };
                (has_month, has_day) = (true, true);
            }
        }
        let is_wrong = has_month && !(1..=12).contains(&month)
            || has_day && !(1..=31).contains(&day)
            || has_year && has_month && has_day && day > days_in_month(year, month);
        if is_wrong { Err(out_of_range()) } else { Ok(days_from_civil(Civil { year, month, day })) }
    }

    /// Returns the time of the day, in microseconds.
    fn time(&self, text: &str) -> Result<i64> {
        let of_day = self.second_of_day;
        let or = |field: i64, otherwise: i64| if field != 0 { field } else { otherwise };
        let (mut hour, minute, second) =
            (or(self.hour, of_day / 3600), or(self.minute, of_day / 60 % 60), or(self.second, of_day % 60));
        if self.has_twelve_hours {
            if !(1..=12).contains(&hour) {
                return Err(invalid_format(format!("hour \"{hour}\" is invalid for the 12-hour clock"))
                    .hint("Use the 24-hour clock, or give an hour between 1 and 12."));
            }
            match self.afternoon != 0 {
                true if hour < 12 => hour += 12,
                false if hour == 12 => hour = 0,
                _ => {}
            }
        }
        let micros = self.millis.saturating_mul(1000).saturating_add(self.micros);
        let fits = (0..24).contains(&hour)
            && (0..60).contains(&minute)
            && (0..60).contains(&second)
            && (0..MICROS_PER_SECOND).contains(&micros);
        if !fits {
            return Err(Self::out_of_range(text));
        }
        Ok(hour * MICROS_PER_HOUR + minute * MICROS_PER_MINUTE + second * MICROS_PER_SECOND + micros)
    }

    /// Returns the offset of the zone, in microseconds.
    fn offset(&self, text: &str) -> Result<Option<i64>> {
        if self.zone_sign == 0 {
            return Ok(None);
        }
        if !(0..=15).contains(&self.zone_hours) || !(0..60).contains(&self.zone_minutes) {
            let message = format!("time zone displacement out of range: \"{text}\"");
            return Err(SqlError::new(SqlState("22009"), message));
        }
        Ok(Some(self.zone_sign * (self.zone_hours * MICROS_PER_HOUR + self.zone_minutes * MICROS_PER_MINUTE)))
    }

    fn out_of_range(text: &str) -> SqlError {
        SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("date/time field value out of range: \"{text}\""))
    }
}

/// `to_date`
pub(super) fn to_date(text: &str, pattern: &str) -> Result<i32> {
    let fields = parse(text, pattern)?;
    // The time has to be valid, too.
    fields.time(text).and_then(|_| fields.days(text)).and_then(|days| {
        let days = i32::try_from(days).ok().filter(|&days| datetime::is_date(days));
        let message = || format!("date out of range: \"{text}\"");
        fields.offset(text)?;
        days.ok_or_else(|| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message()))
    })
}

/// `to_timestamp`
pub(super) fn to_timestamp(text: &str, pattern: &str, environment: &Environment) -> Result<i64> {
    let fields = parse(text, pattern)?;
    let (time, days) = (fields.time(text)?, fields.days(text)?);
    let local = days.checked_mul(MICROS_PER_DAY).and_then(|micros| micros.checked_add(time));
    let local = local.filter(|&micros| datetime::is_timestamp(micros)).ok_or_else(datetime::timestamp_out_of_range)?;
    let time = match fields.offset(text)? {
        Some(offset) => local - offset,
        None => to_utc(local, &environment.time_zone)?,
    };
    Ok(fields.precision.map_or(time, |precision| with_precision(time, precision)))
}
