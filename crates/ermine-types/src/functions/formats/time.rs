//! `to_char` of points in time and intervals.

use std::fmt::Write;

use jiff::tz::TimeZone;

use crate::{
    Environment, Value,
    datetime::{
        self, Civil, MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND, abbreviation, century,
        civil_from_days, day_of_week, day_of_year, days_from_civil, iso_week, iso_week_begin, to_local, utc_offset,
        write_offset,
    },
    error::{Result, SqlError, SqlState},
};

use super::pieces::{Piece, Suffix, Word, pieces};

pub(super) const MONTHS: [&str; 12] = [
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
pub(super) const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const ROMAN_MONTHS: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

fn ordinal_suffix(number: i64) -> &'static str {
    match ((number % 100).abs(), (number % 10).abs()) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    }
}

/// Returns a name in the case of the word: all upper, all lower, or the first letter upper.
fn in_case_of(name: &str, word: &str) -> String {
    let mut letters = word.chars();
    let (first, second) = (letters.next().unwrap_or('a'), letters.next().unwrap_or('a'));
    match (first.is_uppercase(), second.is_uppercase()) {
        (true, true) => name.to_uppercase(),
        (true, false) => name.to_owned(),
        _ => name.to_lowercase(),
    }
}

/// `to_char` of a point in time or an interval; infinities have no text.
pub(crate) fn to_char_timestamp(at: &Value, pattern: &str, environment: &Environment) -> Result<Option<String>> {
    if matches!(at, Value::Timestamp(micros) | Value::TimestampTz(micros) if datetime::is_infinite(*micros)) {
        return Ok(None);
    }
    let parts = Parts::of(at, environment)?;
    let mut out = String::new();
    for piece in pieces(pattern) {
        let Word { word, is_bare, is_translated, suffix } = match piece {
            Piece::Separator(character) | Piece::Text(character) => {
                out.push(character);
                continue;
            }
            Piece::Word(word) => word,
        };
        let upper = word.to_ascii_uppercase();
        if parts.is_interval && NOT_OF_INTERVALS.contains(&&*upper) {
            return Err(SqlError::new(
                SqlState::INVALID_DATETIME_FORMAT,
                "invalid format specification for an interval value",
            )
            .hint("Intervals are not tied to specific calendar dates."));
        }
        let number = match parts.number(&upper) {
            Some((number, width)) => {
                // The sign has a place of its own, except before fractions of a second, days and weeks.
                let is_fraction = matches!(&*upper, "MS" | "US" | "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6");
                let is_of_days = matches!(&*upper, "DDD" | "DD" | "WW" | "IW" | "IDDD");
                let is_year = upper.ends_with('Y') || upper == "I";
                let has_sign = if is_year { parts.shown_year < 0 } else { number < 0 };
                let width = match is_bare {
                    _ if is_fraction => width,
                    true => 0,
                    false if is_of_days => width,
                    false => width + usize::from(has_sign && width > 1),
                };
                let _ = write!(out, "{number:0width$}");
                number
            }
            None => {
                out.push_str(&parts.name(word, !is_bare, is_translated));
                // Of the others, only this one is a number.
                if upper != "Y,YYY" {
                    continue;
                }
                parts.shown_year
            }
        };
        match suffix {
            Suffix::None => {}
            Suffix::Lower => out.push_str(ordinal_suffix(number)),
            Suffix::Upper => out.push_str(&ordinal_suffix(number).to_uppercase()),
        }
    }
    Ok(Some(out))
}

/// Fields that an interval does not have.
const NOT_OF_INTERVALS: [&str; 14] =
    ["A.D.", "B.C.", "AD", "BC", "TZ", "TZH", "TZM", "OF", "MONTH", "MON", "DAY", "DY", "D", "ID"];

/// Returns the day that the fields of an interval would name as a date.
fn named_day(Civil { year, month, day }: Civil) -> i64 {
    let (year, month) = if month > 0 { (year, month) } else { (year - 1, month + 12) };
    days_from_civil(Civil { year, month, day })
}

/// A point in time, or an interval, by its parts.
struct Parts<'e> {
    is_interval: bool,
    civil: Civil,
    /// The day; of an interval, the one that its fields would name as a date.
    days: i64,
    /// Microseconds of the day, or of the interval.
    time: i64,
    /// Microseconds in UTC, where the value has a time zone, and that.
    zoned: Option<(i64, &'e TimeZone)>,
    shown_year: i64,
    iso_year: i64,
    /// The Monday of that year's first week.
    iso_begin: i64,
    /// Of an interval, the days of its months are counted.
    year_day: i64,
}

impl<'e> Parts<'e> {
    fn of(at: &Value, environment: &'e Environment) -> Result<Self> {
        let (local, zoned) = match at {
            Value::Interval { months, days, micros } => return Ok(Self::of_interval(*months, *days, *micros)),
            Value::Timestamp(micros) => (*micros, None),
            Value::TimestampTz(micros) => {
                let zone = &environment.time_zone;
                (to_local(*micros, zone), Some((*micros, zone)))
            }
            _ => return Err(crate::operators::mismatch()),
        };
        let days = local.div_euclid(MICROS_PER_DAY);
        let civil = civil_from_days(days);
        let shown = |year: i64| if year > 0 { year } else { 1 - year };
        let iso_year = iso_week(days).0;
        Ok(Self {
            is_interval: false,
            civil,
            days,
            time: local.rem_euclid(MICROS_PER_DAY),
            zoned,
            shown_year: shown(civil.year),
            iso_year: shown(iso_year),
            iso_begin: iso_week_begin(iso_year, 1),
            year_day: day_of_year(days),
        })
    }

    fn of_interval(months: i32, days: i32, micros: i64) -> Self {
        let civil = Civil { year: (months / 12).into(), month: (months % 12).into(), day: days.into() };
        let days = named_day(civil);
        // PostgreSQL looks no further than the years before and behind.
        let iso_year = civil.year + (iso_week(days).0 - civil.year).signum();
        Self {
            is_interval: true,
            civil,
            days,
            time: micros,
            zoned: None,
            shown_year: civil.year,
            iso_year,
            iso_begin: iso_week_begin(iso_year, 1),
            year_day: (civil.year * 12 + civil.month) * 30 + civil.day,
        }
    }

    /// Returns the number that a word stands for, and its width; `None`: it is a name.
    fn number(&self, word: &str) -> Option<(i64, usize)> {
        let &Self { is_interval, civil, days, time, shown_year, iso_year, iso_begin, year_day, .. } = self;
        let (hours, micros) = (time / MICROS_PER_HOUR, time % MICROS_PER_SECOND);
        Some(match word {
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
            "DDD" => (year_day, 3),
            "DD" => (civil.day, 2),
            "D" => (day_of_week(days) + 1, 0),
            "ID" => ((days + 5).rem_euclid(7) + 1, 0),
            "IDDD" => (days - iso_begin + 1, 3),
            "IW" => ((days - iso_begin) / 7 + 1, 2),
            "WW" => ((year_day - 1) / 7 + 1, 2),
            "W" => ((civil.day - 1) / 7 + 1, 0),
            "CC" => (if is_interval { shown_year / 100 } else { century(civil.year, 100) }, 2),
            "J" => (days + i64::from(datetime::EPOCH_JULIAN_DAY), 0),
            "Q" if civil.month != 0 => ((civil.month - 1) / 3 + 1, 0),
            _ => return None,
        })
    }

    /// Returns the text for a word that stands for a name, or for nothing.
    fn name(&self, word: &str, fill: bool, is_translated: bool) -> String {
        let Civil { year, month, .. } = self.civil;
        let filled = |text: String| if fill && !is_translated { format!("{text:9}") } else { text };
        let month_name = MONTHS[usize::try_from(month - 1).unwrap_or(0).min(11)];
        let weekday = WEEKDAYS[day_of_week(self.days) as usize];
        let is_afternoon = self.time / MICROS_PER_HOUR % 24 >= 12;
        let offset = || self.zoned.map_or(0, |(micros, zone)| utc_offset(micros, zone));
        let with_points =
            |text: &str| if word.starts_with(char::is_lowercase) { text.to_lowercase() } else { text.into() };
        match word.to_ascii_uppercase().as_str() {
            "MONTH" => filled(in_case_of(month_name, word)),
            "MON" => in_case_of(&month_name[..3], word),
            "DAY" => filled(in_case_of(weekday, word)),
            "DY" => in_case_of(&weekday[..3], word),
            "RM" if month == 0 && year == 0 => String::new(),
            "RM" => {
                // The months of an interval are counted from both ends, and no months count as twelve.
                let place = match month {
                    0 if year >= 0 => 11,
                    0 => 0,
                    ..0 => 12 + month,
                    month => month - 1,
                };
                let roman = ROMAN_MONTHS[place as usize];
                let roman = if word == "rm" { roman.to_lowercase() } else { roman.into() };
                if fill { format!("{roman:4}") } else { roman }
            }
            "AM" | "PM" => in_case_of(if is_afternoon { "PM" } else { "AM" }, word),
            "A.M." | "P.M." => with_points(if is_afternoon { "P.M." } else { "A.M." }),
            "BC" | "AD" => in_case_of(if year > 0 { "AD" } else { "BC" }, word),
            "B.C." | "A.D." => with_points(if year > 0 { "A.D." } else { "B.C." }),
            "Y,YYY" => format!("{},{:03}", self.shown_year / 1000, self.shown_year % 1000),
            "TZ" => self.zoned.map_or_else(String::new, |(micros, zone)| in_case_of(&abbreviation(micros, zone), word)),
            "OF" => {
                let mut text = String::new();
                let _ = write_offset(offset(), &mut text);
                // Without fill, hours have no zero in front.
                if !fill && text[1..].starts_with('0') {
                    text.remove(1);
                }
                text
            }
            "TZH" => format!("{}{:02}", if offset() < 0 { '-' } else { '+' }, offset().abs() / 3600),
            "TZM" => format!("{:02}", offset().abs() / 60 % 60),
            // FX, and the quarter of no month.
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{SqlType, functions::tests::call};

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
