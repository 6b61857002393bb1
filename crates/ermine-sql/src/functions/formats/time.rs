//! Points in time by patterns.

use std::fmt::Write;

use crate::{
    error::{Result, SqlError, SqlState},
    types::{
        Environment, Value,
        datetime::{
            self, Civil, MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND, century, check_civil,
            civil_from_days, day_of_week, day_of_year, iso_week, to_local, to_utc, utc_offset, write_offset,
        },
    },
};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const ROMAN_MONTHS: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// The patterns' words; of several that begin alike, the longer comes first. Case counts only where both are here.
const WORDS: &[&str] = &[
    "HH24", "HH12", "HH", "MI", "SSSSS", "SSSS", "SS", "MS", "US", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "A.M.",
    "a.m.", "P.M.", "p.m.", "AM", "am", "PM", "pm", "Y,YYY", "YYYY", "YYY", "YY", "Y", "IYYY", "IYY", "IY", "I",
    "B.C.", "b.c.", "A.D.", "a.d.", "BC", "bc", "AD", "ad", "MONTH", "Month", "month", "MON", "Mon", "mon", "MM",
    "DAY", "Day", "day", "DY", "Dy", "dy", "DDD", "DD", "D", "IDDD", "ID", "IW", "WW", "W", "CC", "J", "Q", "RM", "rm",
    "TZH", "TZM", "TZ", "tz", "OF",
];

/// The word at the front of a pattern.
fn word(pattern: &str) -> Option<&'static str> {
    let exact = WORDS.iter().filter(|word| pattern.starts_with(**word));
    if let Some(found) = exact.max_by_key(|word| word.len()) {
        return Some(found);
    }
    let alike =
        WORDS.iter().filter(|word| pattern.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)));
    alike.max_by_key(|word| word.len()).copied()
}

/// A piece of a pattern.
enum Piece<'a> {
    Word { word: &'static str, fill: bool, suffix: Suffix },
    Text(&'a str),
}

/// What stands behind a number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Suffix {
    None,
    Lower,
    Upper,
}

fn pieces(pattern: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').unwrap_or(quoted.len());
            pieces.push(Piece::Text(&quoted[..end]));
            rest = quoted.get(end + 1..).unwrap_or("");
            continue;
        }
        if rest.starts_with("\\\"") {
            pieces.push(Piece::Text("\""));
            rest = &rest[2..];
            continue;
        }
        // FX says how texts are read, TM that names are those of a language: English ones, which are not filled.
        let (mut after, mut fill) = (rest, true);
        while let Some(prefix) = after.get(..2).filter(|prefix| ["FM", "fm", "FX", "fx", "TM", "tm"].contains(prefix)) {
            fill &= prefix.eq_ignore_ascii_case("fx");
            after = &after[2..];
        }
        if let Some(word) = word(after) {
            rest = &after[word.len()..];
            let suffix = match rest.get(..2) {
                Some("th") => Suffix::Lower,
                Some("TH") => Suffix::Upper,
                _ => Suffix::None,
            };
            if suffix != Suffix::None {
                rest = &rest[2..];
            }
            pieces.push(Piece::Word { word, fill, suffix });
        } else if after.len() < rest.len() {
            rest = after;
        } else {
            let length = first.len_utf8();
            pieces.push(Piece::Text(&rest[..length]));
            rest = &rest[length..];
        }
    }
    pieces
}

fn ordinal_suffix(number: i64) -> &'static str {
    match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    }
}

/// As in the pattern: all upper, all lower, or the first upper.
fn in_case_of(name: &str, word: &str) -> String {
    let mut letters = word.chars();
    let (first, second) = (letters.next().unwrap_or('a'), letters.next().unwrap_or('a'));
    match (first.is_uppercase(), second.is_uppercase()) {
        (true, true) => name.to_uppercase(),
        (true, false) => name.to_owned(),
        _ => name.to_lowercase(),
    }
}

/// `to_char` of a point in time or an interval; infinities have none.
pub(crate) fn to_char_timestamp(at: &Value, pattern: &str, environment: &Environment) -> Result<Option<String>> {
    let zone = &environment.time_zone;
    let (civil, days, time, offset) = match at {
        Value::Timestamp(micros) | Value::TimestampTz(micros) if datetime::is_infinite(*micros) => {
            return Ok(None);
        }
        Value::Timestamp(_) | Value::TimestampTz(_) => {
            let (local, offset) = match at {
                Value::TimestampTz(micros) => (to_local(*micros, zone), Some(utc_offset(*micros, zone))),
                Value::Timestamp(micros) => (*micros, None),
                _ => return Err(crate::operators::mismatch()),
            };
            let days = local.div_euclid(MICROS_PER_DAY);
            (civil_from_days(days), days, local.rem_euclid(MICROS_PER_DAY), offset)
        }
        Value::Interval { months, days, micros } => {
            let civil = Civil { year: (months / 12).into(), month: (months % 12).into(), day: (*days).into() };
            (civil, 0, *micros, None)
        }
        _ => return Err(crate::operators::mismatch()),
    };
    let is_interval = matches!(at, Value::Interval { .. });
    let shown_year = if is_interval || civil.year > 0 { civil.year } else { 1 - civil.year };
    let iso_year = match iso_week(days).0 {
        year @ 1.. => year,
        year => 1 - year,
    };
    let hours = time / MICROS_PER_HOUR;
    let micros = time % MICROS_PER_SECOND;
    let mut out = String::new();
    for piece in pieces(pattern) {
        let (word, fill, suffix) = match piece {
            Piece::Text(text) => {
                out.push_str(text);
                continue;
            }
            Piece::Word { word, fill, suffix } => (word, fill, suffix),
        };
        let number = match word {
            "HH24" => (hours, 2),
            "HH12" | "HH" => (if hours % 12 == 0 { 12 } else { hours % 12 }, 2),
            "MI" => (time / MICROS_PER_MINUTE % 60, 2),
            "SS" => (time / MICROS_PER_SECOND % 60, 2),
            "SSSS" | "SSSSS" => (time / MICROS_PER_SECOND, 0),
            "MS" | "FF3" => (micros / 1000, 3),
            "US" | "FF6" => (micros, 6),
            "FF1" => (micros / 100_000, 1),
            "FF2" => (micros / 10_000, 2),
            "FF4" => (micros / 100, 4),
            "FF5" => (micros / 10, 5),
            "YYYY" => (shown_year, 4),
            "YYY" => (shown_year % 1000, 3),
            "YY" => (shown_year % 100, 2),
            "Y" => (shown_year % 10, 1),
            "IYYY" => (iso_year, 4),
            "IYY" => (iso_year % 1000, 3),
            "IY" => (iso_year % 100, 2),
            "I" => (iso_year % 10, 1),
            "MM" => (civil.month, 2),
            "DDD" => (day_of_year(days), 3),
            "DD" => (civil.day, 2),
            "D" => (day_of_week(days) + 1, 0),
            "ID" => ((days + 5).rem_euclid(7) + 1, 0),
            "IDDD" => ((iso_week(days).1 - 1) * 7 + (days + 5).rem_euclid(7) + 1, 3),
            "IW" => (iso_week(days).1, 2),
            "WW" => ((day_of_year(days) - 1) / 7 + 1, 2),
            "W" => ((civil.day - 1) / 7 + 1, 0),
            "CC" => (if is_interval { shown_year / 100 } else { century(civil.year, 100) }, 2),
            "J" => (days + i64::from(datetime::EPOCH_JULIAN_DAY), 0),
            "Q" => ((civil.month + 2) / 3, 0),
            _ => {
                let text = name(word, fill, civil, days, hours, shown_year, offset);
                out.push_str(&text);
                continue;
            }
        };
        let (number, width) = number;
        let width = if fill { width } else { 0 };
        let sign = if number < 0 { "-" } else { "" };
        let _ = write!(out, "{sign}{:0width$}", number.abs());
        match suffix {
            Suffix::None => {}
            Suffix::Lower => out.push_str(ordinal_suffix(number)),
            Suffix::Upper => out.push_str(&ordinal_suffix(number).to_uppercase()),
        }
    }
    Ok(Some(out))
}

/// The words that stand for names.
fn name(word: &'static str, fill: bool, civil: Civil, days: i64, hours: i64, year: i64, offset: Option<i64>) -> String {
    let filled = |text: String| if fill { format!("{text:9}") } else { text };
    let month = usize::try_from(civil.month - 1).unwrap_or(0).min(11);
    let weekday = WEEKDAYS[day_of_week(days) as usize];
    let mut zone = String::new();
    match word.to_ascii_uppercase().as_str() {
        "MONTH" => filled(in_case_of(MONTHS[month], word)),
        "MON" => in_case_of(&MONTHS[month][..3], word),
        "DAY" => filled(in_case_of(weekday, word)),
        "DY" => in_case_of(&weekday[..3], word),
        "RM" => {
            let roman = in_case_of(ROMAN_MONTHS[month], word);
            if fill { format!("{roman:4}") } else { roman }
        }
        "AM" | "PM" => in_case_of(if hours % 24 >= 12 { "PM" } else { "AM" }, word),
        "A.M." | "P.M." => {
            let text = if hours % 24 >= 12 { "P.M." } else { "A.M." };
            if word.starts_with(char::is_lowercase) { text.to_lowercase() } else { text.into() }
        }
        "BC" | "AD" => in_case_of(if civil.year > 0 { "AD" } else { "BC" }, word),
        "B.C." | "A.D." => {
            let text = if civil.year > 0 { "A.D." } else { "B.C." };
            if word.starts_with(char::is_lowercase) { text.to_lowercase() } else { text.into() }
        }
        "Y,YYY" => format!("{},{:03}", year / 1000, year % 1000),
        "TZ" => match offset {
            Some(0) => in_case_of("UTC", word),
            Some(offset) => {
                let _ = write_offset(offset, &mut zone);
                zone
            }
            None => zone,
        },
        "OF" => {
            let _ = write_offset(offset.unwrap_or(0), &mut zone);
            zone
        }
        "TZH" => {
            let offset = offset.unwrap_or(0);
            format!("{}{:02}", if offset < 0 { '-' } else { '+' }, offset.abs() / 3600)
        }
        "TZM" => format!("{:02}", offset.unwrap_or(0).abs() / 60 % 60),
        _ => String::new(),
    }
}

/// What a text says by a pattern.
#[derive(Default)]
struct Fields {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    is_before_christ: bool,
    hour: i64,
    minute: i64,
    second: i64,
    second_of_day: Option<i64>,
    micros: i64,
    afternoon: Option<bool>,
    has_twelve_hours: bool,
    offset: Option<i64>,
}

fn invalid(text: &str, word: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, format!("invalid value \"{text}\" for \"{word}\""))
}

/// Which of some names a text begins with, in whatever case, and how long it is there.
fn named(text: &str, names: &[&str], length: Option<usize>) -> Option<(i64, usize)> {
    names.iter().enumerate().find_map(|(at, name)| {
        let name = &name[..length.unwrap_or(name.len())];
        let matches = text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
        matches.then_some((at as i64, name.len()))
    })
}

fn parse(text: &str, pattern: &str) -> Result<Fields> {
    let mut fields = Fields::default();
    let mut rest = text.trim_start();
    let pieces = pieces(pattern);
    for (at, piece) in pieces.iter().enumerate() {
        let (word, suffix) = match piece {
            // Separators stand for each other, and may be missing.
            Piece::Text(literal) => {
                let is_separator = literal.chars().all(|character| !character.is_alphanumeric());
                if is_separator {
                    rest = rest.trim_start();
                    let mut characters = rest.chars();
                    if characters.next().is_some_and(|next| {
                        !next.is_alphanumeric() && !matches!(next, '+' | '-') || literal.starts_with(next)
                    }) {
                        rest = characters.as_str();
                    }
                } else {
                    rest = rest.get(literal.len()..).unwrap_or("");
                }
                continue;
            }
            Piece::Word { word, suffix, .. } => (*word, *suffix),
        };
        rest = rest.trim_start();
        if rest.is_empty() {
            break;
        }
        // A number ends where its word does if digits of another follow at once.
        let next_is_number = matches!(pieces.get(at + 1), Some(Piece::Word { .. }));
        let digits = |limit: usize| {
            let limit = if next_is_number { limit } else { 18 };
            rest.bytes().take(limit).take_while(u8::is_ascii_digit).count()
        };
        let number = |limit: usize| -> Result<(i64, usize)> {
            let length = digits(limit);
            let shown: String = rest.chars().take(limit).collect();
            rest[..length].parse().map(|number| (number, length)).map_err(|_| invalid(&shown, word))
        };
        let fraction = |limit: usize| -> Result<(i64, usize)> {
            let length = rest.bytes().take(limit).take_while(u8::is_ascii_digit).count();
            if length == 0 {
                return Err(invalid(rest, word));
            }
            let padded = format!("{:0<6}", &rest[..length]);
            padded[..6].parse().map(|number| (number, length)).map_err(|_| invalid(rest, word))
        };
        let name =
            |names: &[&str], length: Option<usize>| named(rest, names, length).ok_or_else(|| invalid(rest, word));
        let mut length = 0;
        let mut take = |(number, taken): (i64, usize)| {
            length = taken;
            number
        };
        match word.to_ascii_uppercase().as_str() {
            "HH24" => fields.hour = take(number(2)?),
            "HH12" | "HH" => {
                fields.hour = take(number(2)?);
                fields.has_twelve_hours = true;
            }
            "MI" => fields.minute = take(number(2)?),
            "SS" => fields.second = take(number(2)?),
            "SSSS" | "SSSSS" => fields.second_of_day = Some(take(number(5)?)),
            "MS" | "FF3" => fields.micros = take(fraction(3)?),
            "US" | "FF6" => fields.micros = take(fraction(6)?),
            "FF1" => fields.micros = take(fraction(1)?),
            "FF2" => fields.micros = take(fraction(2)?),
            "FF4" => fields.micros = take(fraction(4)?),
            "FF5" => fields.micros = take(fraction(5)?),
            "YYYY" | "IYYY" => fields.year = Some(take(number(4)?)),
            "Y,YYY" => {
                let (thousands, first) = number(1)?;
                let tail = rest.get(first + 1..first + 4).and_then(|tail| tail.parse::<i64>().ok());
                let tail = tail.filter(|_| rest[first..].starts_with(',')).ok_or_else(|| invalid(rest, word))?;
                fields.year = Some(take((thousands.saturating_mul(1000) + tail, first + 4)));
            }
            "YYY" | "YY" | "Y" => {
                let short = take(number(word.len())?);
                fields.year = Some(match short {
                    0..70 => short + 2000,
                    70..100 => short + 1900,
                    100..520 => short + 2000,
                    520..1000 => short + 1000,
                    long => long,
                });
            }
            "MM" => fields.month = Some(take(number(2)?)),
            "MONTH" => fields.month = Some(take(name(&MONTHS, None)?) + 1),
            "MON" => fields.month = Some(take(name(&MONTHS, Some(3))?) + 1),
            "RM" => {
                let found = ROMAN_MONTHS.iter().rev().position(|roman| named(rest, &[roman], None).is_some());
                let at = 11 - found.ok_or_else(|| invalid(rest, word))?;
                fields.month = Some(take((at as i64, ROMAN_MONTHS[at].len())) + 1);
            }
            "DD" => fields.day = Some(take(number(2)?)),
            "DDD" => fields.day_of_year = Some(take(number(3)?)),
            "DAY" => drop(take(name(&WEEKDAYS, None)?)),
            "DY" => drop(take(name(&WEEKDAYS, Some(3))?)),
            "D" | "ID" | "W" | "WW" | "IW" | "Q" | "CC" => drop(take(number(2)?)),
            "AM" | "PM" | "A.M." | "P.M." => {
                fields.afternoon = Some(take(name(&["AM", "PM", "A.M.", "P.M."], None)?) % 2 == 1);
            }
            "BC" | "AD" | "B.C." | "A.D." => {
                fields.is_before_christ = take(name(&["AD", "BC", "A.D.", "B.C."], None)?) % 2 == 1;
            }
            "TZH" => {
                let signed = rest.strip_prefix(['+', '-']).unwrap_or(rest);
                let count = signed.bytes().take(2).take_while(u8::is_ascii_digit).count();
                let hours: i64 = signed[..count].parse().map_err(|_| invalid(rest, word))?;
                let seconds = hours * 3600;
                fields.offset = Some(if rest.starts_with('-') { -seconds } else { seconds });
                length = count + rest.len() - signed.len();
            }
            "TZM" => {
                let minutes = take(number(2)?) * 60;
                let offset = fields.offset.unwrap_or(0);
                fields.offset = Some(if offset < 0 { offset - minutes } else { offset + minutes });
            }
            _ => {
                return Err(SqlError::unsupported(format!("formatting field \"{word}\" in to_date and to_timestamp")));
            }
        }
        rest = &rest[length..];
        if suffix != Suffix::None {
            rest = rest.get(2..).unwrap_or("");
        }
    }
    Ok(fields)
}

impl Fields {
    fn out_of_range(text: &str) -> SqlError {
        SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("date/time field value out of range: \"{text}\""))
    }

    fn days(&self, text: &str) -> Result<i64> {
        let year = self.year.unwrap_or(if self.is_before_christ { 1 } else { 0 });
        let year = if self.is_before_christ { 1 - year } else { year };
        let day = |month, day| check_civil(Civil { year, month, day }).ok_or_else(|| Self::out_of_range(text));
        match self.day_of_year {
            Some(number) if self.month.is_none() && (1..=366).contains(&number) => Ok(day(1, 1)? + number - 1),
            _ => day(self.month.unwrap_or(1), self.day.unwrap_or(1)),
        }
    }

    fn time(&self, text: &str) -> Result<i64> {
        let mut hour = self.hour;
        if self.has_twelve_hours {
            if !(1..=12).contains(&hour) {
                return Err(SqlError::new(
                    SqlState::INVALID_DATETIME_FORMAT,
                    format!("hour \"{hour}\" is invalid for the 12-hour clock"),
                )
                .hint("Use the 24-hour clock, or give an hour between 1 and 12."));
            }
            match self.afternoon {
                Some(true) if hour < 12 => hour += 12,
                Some(false) if hour == 12 => hour = 0,
                _ => {}
            }
        }
        if let Some(seconds) = self.second_of_day.filter(|seconds| (0..86_400).contains(seconds)) {
            return Ok(seconds * MICROS_PER_SECOND + self.micros);
        }
        if hour > 23 || self.minute > 59 || self.second > 59 {
            return Err(Self::out_of_range(text));
        }
        let seconds = self.second * MICROS_PER_SECOND + self.micros;
        Ok(hour * MICROS_PER_HOUR + self.minute * MICROS_PER_MINUTE + seconds)
    }
}

/// `to_date`
pub(super) fn to_date(text: &str, pattern: &str) -> Result<i32> {
    let days = parse(text, pattern)?.days(text)?;
    let days = i32::try_from(days).ok().filter(|&days| datetime::is_date(days));
    days.ok_or_else(|| Fields::out_of_range(text))
}

/// `to_timestamp`
pub(super) fn to_timestamp(text: &str, pattern: &str, environment: &Environment) -> Result<i64> {
    let fields = parse(text, pattern)?;
    let days = fields.days(text)?;
    let local = days.checked_mul(MICROS_PER_DAY).and_then(|micros| micros.checked_add(fields.time(text).ok()?));
    fields.time(text)?;
    let local = local.filter(|&micros| datetime::is_timestamp(micros)).ok_or_else(|| Fields::out_of_range(text))?;
    match fields.offset {
        Some(offset) => Ok(local - offset * MICROS_PER_SECOND),
        None => to_utc(local, &environment.time_zone),
    }
}

#[cfg(test)]
mod tests {
    use crate::{functions::tests::call, types::SqlType};

    #[test]
    fn patterns_are_postgresqls() {
        let (t, ts) = (SqlType::TEXT, SqlType::TIMESTAMP);
        for (name, arguments, expected) in [
            (
                "to_char",
                &[(ts, "2002-04-20 17:31:12.66"), (t, "HH12:MI:SS Day DD Mon YYYY MS US")][..],
                "05:31:12 Saturday  20 Apr 2002 660 660000",
            ),
            (
                "to_char",
                &[(ts, "2002-04-02 17:31:12"), (t, "FMDay, FMDDth FMMonth \"at\" HH24 am")],
                "Tuesday, 2nd April at 17 pm",
            ),
            (
                "to_char",
                &[(ts, "2002-04-20"), (t, "YYYY-MM-DD IYYY-IW-ID DDD Q J")],
                "2002-04-20 2002-16-6 110 2 2452385",
            ),
            ("to_date", &[(t, "05 Dec 2000"), (t, "DD Mon YYYY")], "2000-12-05"),
            ("to_date", &[(t, "20001205"), (t, "YYYYMMDD")], "2000-12-05"),
            (
                "to_timestamp",
                &[(t, "05/12/2000 03:04:05.678 PM"), (t, "DD/MM/YYYY HH12:MI:SS.MS PM")],
                "2000-12-05 15:04:05.678+00",
            ),
        ] {
            assert_eq!(
                call(name, arguments).unwrap_or_else(|error| error.to_string()),
                expected,
                "{name} {arguments:?}"
            );
        }
        assert!(call("to_date", &[(t, "2000-13-05"), (t, "YYYY-MM-DD")]).is_err());
        assert!(call("to_date", &[(t, "\u{e9}\u{e9}\u{e9}"), (t, "YYYY-\u{e9}-DD")]).is_err());
    }
}
