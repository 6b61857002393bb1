//! Time zones: their names, and their offsets from UTC.

use jiff::{
    Timestamp,
    civil::DateTime,
    tz::{Offset, TimeZone},
};

use crate::error::{Result, SqlError, SqlState};

use super::{
    MICROS_PER_DAY, MICROS_PER_SECOND, UNIX_EPOCH_DAY,
    abbreviations::{Abbreviation, abbreviated},
    timestamp_out_of_range,
};

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

/// Returns a time within the range of `jiff` for which the same rules hold, in seconds since 1970.
pub(super) fn unix_second(micros: i64) -> i64 {
    (folded(micros) - UNIX_EPOCH).div_euclid(MICROS_PER_SECOND)
}

/// Returns how many seconds a zone's clocks are ahead of UTC at a point in time.
pub fn utc_offset(micros: i64, zone: &TimeZone) -> i64 {
    Timestamp::from_second(unix_second(micros)).map_or(0, |timestamp| zone.to_offset(timestamp).seconds().into())
}

/// Returns a zone's abbreviation at a point in time, such as CEST; for a zone without one, its offset.
pub(crate) fn abbreviation(micros: i64, zone: &TimeZone) -> String {
    Timestamp::from_second(unix_second(micros))
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

/// Returns a zone at a fixed number of seconds ahead of UTC.
pub(super) fn fixed(seconds: i32) -> Option<TimeZone> {
    Offset::from_seconds(seconds).ok().map(TimeZone::fixed)
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

/// A zone that has a name, as it is at some time.
#[derive(Clone, Debug)]
pub struct NamedZone {
    /// Its name.
    pub name: String,
    /// The abbreviation that it uses then.
    pub abbreviation: String,
    /// The difference of its clocks from UTC, in microseconds; to the east it is positive.
    pub offset: i64,
    /// Whether its clocks are ahead of their usual time.
    pub is_dst: bool,
}

/// Returns all zones that have names, as they are at a time.
pub fn named_zones(micros: i64) -> impl Iterator<Item = NamedZone> {
    let time = Timestamp::from_second(unix_second(micros)).unwrap_or(Timestamp::UNIX_EPOCH);
    jiff::tz::db().available().filter_map(move |name| {
        let zone = TimeZone::get(name.as_str()).ok()?;
        let info = zone.to_offset_info(time);
        Some(NamedZone {
            name: name.as_str().to_owned(),
            abbreviation: info.abbreviation().to_owned(),
            offset: i64::from(info.offset().seconds()) * 1_000_000,
            is_dst: info.dst().is_dst(),
        })
    })
}

/// Returns a zone by its abbreviation, its name, or an offset in ISO's sense like `+02:00`.
pub fn find_zone(name: &str) -> Result<TimeZone> {
    match find(name)? {
        Abbreviation::Fixed(zone) | Abbreviation::Of(zone, _) => Ok(zone),
    }
}

/// Returns a zone as [`find_zone`] does; an abbreviation whose offset has changed means the one at a point in time.
pub fn find_zone_at(name: &str, micros: i64) -> Result<TimeZone> {
    Ok(find(name)?.at(micros, None))
}

/// Returns a zone as [`find_zone_at`] does, at its local time.
pub fn find_zone_at_local(name: &str, local: i64) -> Result<TimeZone> {
    Ok(at_local(find(name)?, local))
}

/// Returns a zone as `make_timestamptz` takes it: an offset has a sign, and is that of ISO.
pub fn sane_zone(name: &str, local: i64) -> Result<TimeZone> {
    let invalid = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        let message = format!("invalid input syntax for type numeric time zone: \"{name}\"");
        return Err(invalid(message).hint("Numeric time zones must have \"-\" or \"+\" as first character."));
    }
    if !name.starts_with(['+', '-']) {
        return find_zone_at_local(name, local);
    }
    let zone = super::parse::parse_offset(name).and_then(fixed);
    zone.ok_or_else(|| match name[1..].bytes().all(|byte| byte.is_ascii_digit() || byte == b':') && name.len() > 1 {
        true => invalid(format!("numeric time zone \"{name}\" out of range")),
        false => invalid(format!("invalid input syntax for type numeric time zone: \"{name}\"")),
    })
}

/// Returns the zone that an abbreviation means at the local time of its zone.
pub(super) fn at_local(abbreviation: Abbreviation, local: i64) -> TimeZone {
    let utc = match &abbreviation {
        Abbreviation::Fixed(_) => local,
        Abbreviation::Of(zone, _) => to_utc(local, zone).unwrap_or(local),
    };
    let shown = i32::try_from((local - utc) / MICROS_PER_SECOND).ok();
    abbreviation.at(utc, shown.and_then(|seconds| Offset::from_seconds(seconds).ok()))
}

fn find(name: &str) -> Result<Abbreviation> {
    let unknown = || SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("time zone \"{name}\" not recognized"));
    let trimmed = name.trim();
    if let Some(abbreviation) = abbreviated(&trimmed.to_ascii_lowercase()) {
        return Ok(abbreviation);
    }
    let zone = match trimmed.starts_with(['+', '-']) {
        // As in POSIX, where a plain offset counts hours west of Greenwich.
        true => super::parse::parse_offset(trimmed).and_then(|seconds| fixed(-seconds)),
        false => named(trimmed).ok(),
    };
    zone.map(Abbreviation::Fixed).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

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
