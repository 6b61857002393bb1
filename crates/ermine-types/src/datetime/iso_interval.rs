//! The parser of intervals in the forms of ISO 8601: with units (`P1Y2M3W4DT5H6M7.8S`), and without
//! (`P0001-02-03T04:05:06`, `P00010203T040506`). PostgreSQL takes any number in each field.

use super::{
    MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND,
    interval::{Amount, Failure, Sum, Unit},
};

const HOURS: Unit = Unit::Micros(MICROS_PER_HOUR);
const MINUTES: Unit = Unit::Micros(MICROS_PER_MINUTE);
const SECONDS: Unit = Unit::Micros(MICROS_PER_SECOND);

/// Reads an interval; the forms are case-sensitive.
pub(super) fn parse(text: &str) -> Result<Sum, Failure> {
    let fields = text.strip_prefix('P').filter(|fields| !fields.is_empty()).ok_or(Failure::Form)?;
    let (date, time) = fields.split_once('T').map_or((fields, None), |(date, time)| (date, Some(time)));
    let mut sum = Sum::default();
    let units = [('Y', Unit::Months(12)), ('M', Unit::Months(1)), ('W', Unit::Days(7)), ('D', Unit::Days(1))];
    part(&mut sum, date, &units, 8, '-', [Unit::Months(12), Unit::Months(1), Unit::Days(1)])?;
    let units = [('H', HOURS), ('M', MINUTES), ('S', SECONDS)];
    part(&mut sum, time.unwrap_or_default(), &units, 6, ':', [HOURS, MINUTES, SECONDS])?;
    Ok(sum)
}

/// Reads the date or the time: fields with `units`; or a number of `digits` digits, of which each of the last two
/// fields has two; or up to three numbers with a separator between them.
fn part(
    sum: &mut Sum,
    mut rest: &str,
    units: &[(char, Unit)],
    digits: usize,
    separator: char,
    fields: [Unit; 3],
) -> Result<(), Failure> {
    let length = rest.len();
    while !rest.is_empty() {
        let (amount, after) = number(rest)?;
        let next = after.chars().next();
        if let Some((_, unit)) = units.iter().find(|(letter, _)| next == Some(*letter)) {
            sum.add(amount, *unit);
            rest = &after[1..];
            continue;
        }
        if rest.len() < length || !(after.is_empty() || next == Some(separator)) {
            return Err(Failure::Form);
        }
        let width = rest.strip_prefix('-').unwrap_or(rest).bytes().take_while(u8::is_ascii_digit).count();
        if after.is_empty() && width == digits {
            let Amount { whole, fraction } = amount;
            let wholes = [whole / 10_000, whole / 100 % 100, whole % 100];
            for ((unit, whole), fraction) in fields.into_iter().zip(wholes).zip([0.0, 0.0, fraction]) {
                sum.add(Amount { whole, fraction }, unit);
            }
            return Ok(());
        }
        sum.add(amount, fields[0]);
        let mut left = after;
        for unit in &fields[1..] {
            let Some(behind) = left.strip_prefix(separator) else { break };
            let (amount, after) = number(behind)?;
            sum.add(amount, *unit);
            left = after;
        }
        return if left.is_empty() { Ok(()) } else { Err(Failure::Form) };
    }
    Ok(())
}

/// Returns a number at the front of a text, perhaps with an exponent, and the rest.
fn number(text: &str) -> Result<(Amount, &str), Failure> {
    let bytes = text.as_bytes();
    let digits = |at: usize| bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut end = usize::from(bytes.first() == Some(&b'-'));
    let mut length = digits(end);
    end += length;
    if bytes.get(end) == Some(&b'.') {
        length += digits(end + 1);
        end += 1 + digits(end + 1);
    }
    if length == 0 {
        return Err(Failure::Form);
    }
    if let Some(b'e' | b'E') = bytes.get(end) {
        let exponent = end + 1 + usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        if bytes.get(exponent).is_some_and(u8::is_ascii_digit) {
            end = exponent + digits(exponent);
        }
    }
    let value: f64 = text[..end].parse().map_err(|_| Failure::Form)?;
    let is_zero =
        text[..end].bytes().take_while(|byte| !matches!(byte, b'e' | b'E')).all(|byte| !matches!(byte, b'1'..=b'9'));
    if !value.is_finite() || value == 0.0 && !is_zero {
        return Err(Failure::Form);
    }
    if value.abs() > 1e15 {
        return Err(Failure::Beyond);
    }
    Ok((Amount { whole: value.trunc() as i64, fraction: value.fract() }, &text[end..]))
}
