//! Time zones: their names, and their offsets from UTC.

use jiff::{
    Timestamp,
    civil::DateTime,
    tz::{Offset, TimeZone},
};

use crate::error::{Result, SqlError, SqlState};

use super::{MICROS_PER_DAY, MICROS_PER_SECOND, UNIX_EPOCH_DAY, timestamp_out_of_range};

/// 400 years, after which the calendar repeats itself, weekdays too.
const MICROS_PER_ERA: i64 = 146_097 * MICROS_PER_DAY;
const UNIX_EPOCH: i64 = UNIX_EPOCH_DAY as i64 * MICROS_PER_DAY;
/// From here on, in the year 9600, times are mapped whole eras back before a zone is consulted: `jiff` ends with the
/// year 9999.
const FOLD: i64 = 7600 * 31_556_952 * MICROS_PER_SECOND;

/// Returns a time within the range of `jiff` for which the same rules hold.
fn folded(micros: i64) -> i64 {
    if micros < FOLD { micros } else { (micros - FOLD) % MICROS_PER_ERA + FOLD - MICROS_PER_ERA }
}

/// Returns how many seconds a zone's clocks are ahead of UTC at a point in time.
pub fn utc_offset(micros: i64, zone: &TimeZone) -> i64 {
    let unix = (folded(micros) - UNIX_EPOCH).div_euclid(MICROS_PER_SECOND);
    Timestamp::from_second(unix).map_or(0, |timestamp| zone.to_offset(timestamp).seconds().into())
}

/// Returns a zone's abbreviation at a point in time, such as CEST; for a zone without one, its offset.
pub(crate) fn abbreviation(micros: i64, zone: &TimeZone) -> String {
    let unix = (folded(micros) - UNIX_EPOCH).div_euclid(MICROS_PER_SECOND);
    Timestamp::from_second(unix)
        .map_or_else(|_| String::new(), |timestamp| zone.to_offset_info(timestamp).abbreviation().to_owned())
}

/// Returns the local time of a zone at a point in time.
pub fn to_local(micros: i64, zone: &TimeZone) -> i64 {
    if super::is_infinite(micros) {
        return micros;
    }
    micros.saturating_add(utc_offset(micros, zone) * MICROS_PER_SECOND)
}

/// Returns the point in time of a zone's local time. If the clocks skip the local time, they count as not yet set; if
/// they show it twice, the second time counts.
pub fn to_utc(local: i64, zone: &TimeZone) -> Result<i64> {
    if super::is_infinite(local) {
        return Ok(local);
    }
    let unix = folded(local) - UNIX_EPOCH;
    let shown: DateTime = Timestamp::from_microsecond(unix)
        .map(|timestamp| Offset::UTC.to_datetime(timestamp))
        .map_err(|_| timestamp_out_of_range())?;
    let ambiguous = zone.to_ambiguous_timestamp(shown);
    let offset = match ambiguous.offset() {
        jiff::tz::AmbiguousOffset::Unambiguous { offset } => offset,
        jiff::tz::AmbiguousOffset::Gap { before, .. } => before,
        jiff::tz::AmbiguousOffset::Fold { after, .. } => after,
    };
    let utc = local.saturating_sub(i64::from(offset.seconds()) * MICROS_PER_SECOND);
    if super::is_timestamp(utc) && !super::is_infinite(utc) { Ok(utc) } else { Err(timestamp_out_of_range()) }
}

/// Abbreviations as in PostgreSQL's default set, with seconds ahead of UTC. Sorted.
const ABBREVIATIONS: &[(&str, i32)] = &[
    ("acst", 34_200),
    ("adt", -10_800),
    ("aedt", 39_600),
    ("aest", 36_000),
    ("akdt", -28_800),
    ("akst", -32_400),
    ("ast", -14_400),
    ("awst", 28_800),
    ("bst", 3_600),
    ("cat", 7_200),
    ("cdt", -18_000),
    ("cest", 7_200),
    ("cet", 3_600),
    ("cst", -21_600),
    ("eat", 10_800),
    ("edt", -14_400),
    ("eest", 10_800),
    ("eet", 7_200),
    ("est", -18_000),
    ("gmt", 0),
    ("hkt", 28_800),
    ("hst", -36_000),
    ("idt", 10_800),
    ("ist", 7_200),
    ("jst", 32_400),
    ("kst", 32_400),
    ("mdt", -21_600),
    ("met", 3_600),
    ("msk", 10_800),
    ("mst", -25_200),
    ("ndt", -9_000),
    ("nst", -12_600),
    ("nzdt", 46_800),
    ("nzst", 43_200),
    ("pdt", -25_200),
    ("pkt", 18_000),
    ("pst", -28_800),
    ("sgt", 28_800),
    ("uct", 0),
    ("ut", 0),
    ("utc", 0),
    ("west", 3_600),
    ("wet", 0),
    ("z", 0),
    ("zulu", 0),
];

/// Returns a zone at a fixed number of seconds ahead of UTC.
pub(super) fn fixed(seconds: i32) -> Option<TimeZone> {
    Offset::from_seconds(seconds).ok().map(TimeZone::fixed)
}

/// Returns a zone by an abbreviation, in lower case.
pub(super) fn abbreviated(word: &str) -> Option<TimeZone> {
    let at = ABBREVIATIONS.binary_search_by_key(&word, |(name, _)| name).ok()?;
    fixed(ABBREVIATIONS[at].1)
}

/// The reason why a text names no zone here.
pub(super) enum Unnamed {
    Unknown,
    /// It has POSIX's notation, but its clocks are more than a day from UTC.
    Beyond,
}

/// Returns a zone by its name, or in POSIX's notation: a name and the time by which it is west of Greenwich, perhaps
/// with a summer time.
pub(super) fn named(name: &str) -> std::result::Result<TimeZone, Unnamed> {
    if let Ok(zone) = TimeZone::get(name) {
        return Ok(zone);
    }
    let (winter, rest) = posix_offset(&name[posix_name(name)..]).ok_or(Unnamed::Unknown)?;
    if rest.is_empty() {
        return fixed(-winter).ok_or(Unnamed::Beyond);
    }
    let behind = &rest[posix_name(rest)..];
    if behind.len() == rest.len() {
        return Err(Unnamed::Unknown);
    }
    if let Some(rules) = behind.strip_prefix(',') {
        return if rules.is_empty() {
            Err(Unnamed::Unknown)
        } else {
            TimeZone::posix(name).map_err(|_| Unnamed::Unknown)
        };
    }
    let (summer, rest) = match behind {
        "" => (winter - 3600, ""),
        behind => posix_offset(behind).ok_or(Unnamed::Unknown)?,
    };
    if !rest.is_empty() {
        return Err(Unnamed::Unknown);
    }
    // A summer time without rules has those of the United States. The names may be shorter than POSIX has them.
    let written = |seconds: i32| {
        let (sign, seconds) = (if seconds < 0 { "-" } else { "+" }, seconds.abs());
        format!("{sign}{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
    };
    TimeZone::posix(&format!("STD{}DST{},M3.2.0,M11.1.0", written(winter), written(summer)))
        .map_err(|_| Unnamed::Beyond)
}

/// Returns the length of the name at the beginning of a zone in POSIX's notation.
fn posix_name(text: &str) -> usize {
    text.find(|next: char| next.is_ascii_digit() || matches!(next, '+' | '-' | ',')).unwrap_or(text.len())
}

/// Returns the seconds of an offset in POSIX's notation, within a week, and the text behind it.
fn posix_offset(text: &str) -> Option<(i32, &str)> {
    let is_negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut seconds = 0;
    for (unit, most) in [(3600, 167), (60, 59), (1, 60)] {
        if unit != 3600 {
            let Some(behind) = rest.strip_prefix(':') else { break };
            rest = behind;
        }
        let end = rest.find(|next: char| !next.is_ascii_digit()).unwrap_or(rest.len());
        let number: i32 = rest[..end].parse().ok().filter(|number| *number <= most)?;
        seconds += number * unit;
        rest = &rest[end..];
    }
    Some((if is_negative { -seconds } else { seconds }, rest))
}

/// Returns a zone by its abbreviation, its name, or an offset in ISO's sense like `+02:00`.
pub fn find_zone(name: &str) -> Result<TimeZone> {
    let unknown = || SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("time zone \"{name}\" not recognized"));
    let trimmed = name.trim();
    if let Some(zone) = abbreviated(&trimmed.to_ascii_lowercase()) {
        return Ok(zone);
    }
    if trimmed.starts_with(['+', '-']) {
        // As in POSIX, where a plain offset counts hours west of Greenwich.
        let seconds = super::parse::parse_offset(trimmed).ok_or_else(unknown)?;
        return fixed(-seconds).ok_or_else(unknown);
    }
    named(trimmed).map_err(|_| unknown())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abbreviations_are_sorted() {
        assert!(ABBREVIATIONS.is_sorted_by(|left, right| left.0 < right.0));
    }

    #[test]
    fn far_years_have_rules_too() {
        let zone = find_zone("Europe/Berlin").unwrap();
        // July and January of 20000.
        for (month, hours) in [(7, 2), (1, 1)] {
            let days = crate::datetime::days_from_civil(crate::datetime::Civil { year: 20_000, month, day: 10 });
            let local = days * MICROS_PER_DAY;
            let utc = to_utc(local, &zone).unwrap();
            assert_eq!(local - utc, hours * 3_600 * MICROS_PER_SECOND);
            assert_eq!(to_local(utc, &zone), local);
        }
    }
}
