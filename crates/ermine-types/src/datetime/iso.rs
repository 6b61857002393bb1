//! The form in which dates and times are written (ISO 8601, with a space), which most texts have: `2021-06-15`,
//! `2021-06-15 12:30:00.5+02`. It is read at its fixed places; every other text goes through tokens (`parse`), with the
//! same result where both can read it.

use super::{Civil, MICROS_PER_SECOND, check_civil};

/// A date and a time.
#[derive(PartialEq, Debug)]
pub(super) struct Point {
    /// Number of the day.
    pub(super) days: i64,
    /// Microseconds of the day.
    pub(super) time: i64,
    /// Seconds ahead of UTC.
    pub(super) offset: Option<i32>,
}

/// Reads a date.
pub(super) fn date(text: &str) -> Option<i64> {
    days(text.as_bytes().try_into().ok()?)
}

/// Reads a date and a time.
pub(super) fn point(text: &str) -> Option<Point> {
    let (date, rest) = text.as_bytes().split_first_chunk()?;
    let days = days(date)?;
    if rest.is_empty() {
        return Some(Point { days, time: 0, offset: None });
    }
    let ([b' ', hours @ .., b':', minute, minute_end, b':', second, second_end], rest) =
        rest.split_first_chunk::<9>()?
    else {
        return None;
    };
    let (hour, minute) = (number(hours)?, number(&[*minute, *minute_end])?);
    let second = number(&[*second, *second_end])?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (fraction, rest) = fraction(rest)?;
    let offset = match rest {
        [] => None,
        [sign @ (b'+' | b'-'), hours @ ..] if hours.len() == 2 => {
            let seconds = number(hours).filter(|hours| *hours <= 15)? as i32 * 3600;
            Some(if *sign == b'-' { -seconds } else { seconds })
        }
        _ => return None,
    };
    let time = ((hour * 60 + minute) * 60 + second) * MICROS_PER_SECOND + fraction;
    Some(Point { days, time, offset })
}

fn days(date: &[u8; 10]) -> Option<i64> {
    let [year @ .., b'-', month, month_end, b'-', day, day_end] = date else { return None };
    let year = number(year).filter(|year| *year > 0)?;
    check_civil(Civil { year, month: number(&[*month, *month_end])?, day: number(&[*day, *day_end])? })
}

/// Reads up to six digits behind a point, as microseconds; returns the rest, too.
fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some((b'.', digits)) = text.split_first() else { return Some((0, text)) };
    let count = digits.iter().take_while(|digit| digit.is_ascii_digit()).count();
    let (digits, rest) = digits.split_at(count);
    (1..=6).contains(&count).then_some(())?;
    Some((number(digits)? * 10_i64.pow(6 - count as u32), rest))
}

/// Reads digits.
fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
}
