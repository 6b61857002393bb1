//! Whole numbers and floats as text.

use std::fmt::{self, Write};

use crate::error::{Result, SqlError, SqlState};

use super::{SqlType, invalid, is_space};

fn out_of_range(text: &str, ty: SqlType) -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("value \"{text}\" is out of range for type {}", ty.name()),
    )
}

/// Parses a whole number. Digits beyond the range are reported before what follows them, but not for an oid.
pub(super) fn parse_integer(text: &str, ty: SqlType, least: i64, greatest: i64) -> Result<i64> {
    let digits = text.trim_matches(is_space);
    let sign = usize::from(digits.starts_with(['-', '+']));
    let end = sign + digits[sign..].bytes().take_while(u8::is_ascii_digit).count();
    let is_whole = end == digits.len();
    if end == sign || ty == SqlType::OID && !is_whole {
        return Err(invalid(&ty.name(), text));
    }
    match digits[..end].parse::<i64>() {
        Ok(number) if (least..=greatest).contains(&number) => {
            if is_whole {
                Ok(number)
            } else {
                Err(invalid(&ty.name(), text))
            }
        }
        _ => Err(out_of_range(text, ty)),
    }
}

/// Parses an oid; a negative number stands for its two's complement, as in C's `strtoul`.
pub(super) fn parse_oid(text: &str) -> Result<u32> {
    let number = parse_integer(text, SqlType::OID, i32::MIN.into(), u32::MAX.into())?;
    Ok(number as u32)
}

/// Parses the special spellings, and an unsigned rest that Rust and C read alike.
fn parse_float<T: std::str::FromStr>(text: &str, ty: SqlType) -> Result<T> {
    let trimmed = text.trim_matches(is_space);
    let unsigned = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed);
    let first = unsigned.bytes().next();
    let is_number = first.is_some_and(|byte| byte.is_ascii_digit() || byte == b'.');
    let word = unsigned.to_ascii_lowercase();
    let is_infinity = word == "infinity" || word == "inf";
    if !is_number && !is_infinity && word != "nan" {
        return Err(invalid(&ty.name(), text));
    }
    trimmed.parse().map_err(|_| invalid(&ty.name(), text))
}

/// Returns the number at the beginning of a text: one beyond the range is reported before what follows it.
fn number_of(text: &str) -> &str {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let text = text.trim_start_matches(is_space);
    let sign = usize::from(text.starts_with(['-', '+']));
    let mut end = sign + digits(&text[sign..]);
    if text[end..].starts_with('.') {
        end += 1 + digits(&text[end + 1..]);
    }
    if text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['-', '+']));
        let exponent = digits(&text[end + 1 + sign..]);
        end += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    &text[..end]
}

fn check_range(text: &str, ty: SqlType, is_infinite: bool, is_zero: bool) -> Result<()> {
    let digits = text.trim_start_matches(|character| is_space(character) || character == '-' || character == '+');
    if !digits.starts_with(|character: char| character.is_ascii_digit() || character == '.') {
        return Ok(());
    }
    let mantissa = number_of(digits).split(['e', 'E']).next().unwrap_or_default();
    if is_infinite || (is_zero && mantissa.bytes().any(|byte| (b'1'..=b'9').contains(&byte))) {
        let trimmed = text.trim_matches(is_space);
        return Err(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("\"{trimmed}\" is out of range for type {}", ty.name()),
        ));
    }
    Ok(())
}

pub(super) fn parse_f64(text: &str) -> Result<f64> {
    let whole = parse_float(text, SqlType::FLOAT8);
    let known: Option<f64> = whole.as_ref().ok().copied().or_else(|| number_of(text).parse().ok());
    check_range(text, SqlType::FLOAT8, known.is_some_and(f64::is_infinite), known == Some(0.0))?;
    whole
}

pub(super) fn parse_f32(text: &str) -> Result<f32> {
    let whole = parse_float(text, SqlType::FLOAT4);
    let known: Option<f32> = whole.as_ref().ok().copied().or_else(|| number_of(text).parse().ok());
    check_range(text, SqlType::FLOAT4, known.is_some_and(f32::is_infinite), known == Some(0.0))?;
    whole
}

/// Writes the shortest digits that read back as the same number; scientific if the exponent is less than -4 or not less
/// than `limit`, as in PostgreSQL.
fn write_shortest(scientific: &str, limit: i32, out: &mut impl Write) -> fmt::Result {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |mantissa| ("-", mantissa));
    out.write_str(sign)?;
    if exponent < -4 || exponent >= limit {
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        return write!(out, "{mantissa}e{exponent_sign}{:02}", exponent.abs());
    }
    let digits: String = mantissa.chars().filter(|character| *character != '.').collect();
    if exponent < 0 {
        let zeros = "0".repeat(-exponent as usize - 1);
        return write!(out, "0.{zeros}{digits}");
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        let zeros = "0".repeat(whole - digits.len());
        write!(out, "{digits}{zeros}")
    } else {
        write!(out, "{}.{}", &digits[..whole], &digits[whole..])
    }
}

/// Returns the digits behind the point of the mantissa, and the exponent.
fn places_and_exponent(scientific: &str) -> (usize, i32) {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let places = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    (places, exponent.parse().unwrap_or(0))
}

/// Whether scientific digits lie in the middle between two neighbouring floats: a number of `bits` bits, one more than
/// a mantissa has. The digits of a middle with a fraction are too long to be the shortest ones of a float.
fn is_middle(scientific: &str, bits: u32) -> bool {
    let (places, exponent) = places_and_exponent(scientific);
    let Ok(exponent) = u32::try_from(exponent - places as i32) else { return false };
    let digits: String = scientific.chars().take_while(|sign| *sign != 'e').filter(char::is_ascii_digit).collect();
    let product = digits.parse().ok().and_then(|digits: u128| digits.checked_mul(5_u128.checked_pow(exponent)?));
    // Factors of two do not matter. A product that is too large has more bits.
    product.is_some_and(|product| product.checked_ilog2().is_some_and(|top| top + 1 - product.trailing_zeros() == bits))
}

/// Returns PostgreSQL's choice among the shortest digits of a float. They are nearer to it than to any other float:
/// digits in the middle read back as the float with the even mantissa, but are not used. Of two that are equally near
/// the last digit is even.
fn choose(shortest: String, exact: f64, limits: (u32, u32), reads_back: impl Fn(&str) -> bool) -> String {
    let (digits_min, mantissa_bits) = limits;
    let (places, exponent) = places_and_exponent(&shortest);
    let is_wrong = |text: &str| is_middle(text, mantissa_bits + 1);
    let has_one_more_digit = || (exact * 2_f64.powi(places as i32 - exponent + 1)).fract() == 0.0;
    let last = match is_wrong(&shortest) {
        true => 16,
        false if places >= digits_min as usize && has_one_more_digit() => places,
        false => return shortest,
    };
    let mut rounded = (places..=last).map(|places| format!("{exact:.places$e}"));
    rounded.find(|text| reads_back(text) && !is_wrong(text)).unwrap_or(shortest)
}

/// Writes a `double precision`.
pub(crate) fn write_f64(number: f64, out: &mut impl Write) -> fmt::Result {
    if number.is_nan() {
        out.write_str("NaN")
    } else if number.is_infinite() {
        out.write_str(if number > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        let limits = (f64::DIGITS, f64::MANTISSA_DIGITS);
        let chosen = choose(format!("{number:e}"), number, limits, |text| text.parse() == Ok(number));
        write_shortest(&chosen, 15, out)
    }
}

/// Writes a `real`.
pub(crate) fn write_f32(number: f32, out: &mut impl Write) -> fmt::Result {
    if number.is_nan() {
        out.write_str("NaN")
    } else if number.is_infinite() {
        out.write_str(if number > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        let limits = (f32::DIGITS, f32::MANTISSA_DIGITS);
        let chosen = choose(format!("{number:e}"), number.into(), limits, |text| text.parse() == Ok(number));
        write_shortest(&chosen, 6, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_postgresqls_spelling() {
        let text = |number: f64| {
            let mut out = String::new();
            write_f64(number, &mut out).unwrap();
            out
        };
        for (number, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (1e20, "1e+20"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (123456.789, "123456.789"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (1e22, "1e+22"),
            (1e23, "9.999999999999999e+22"),
            (2e23, "1.9999999999999998e+23"),
            (8.41e21, "8.409999999999999e+21"),
            (4_862_812_683_207_842.0 / 8.0, "607851585400980.2"),
            (4_862_812_683_207_846.0 / 8.0, "607851585400980.8"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(text(number), expected);
        }
        let mut out = String::new();
        write_f32(1e6, &mut out).unwrap();
        write_f32(123456.0, &mut out).unwrap();
        write_f32(3e10, &mut out).unwrap();
        assert_eq!(out, "1e+061234563.0000001e+10");
    }
}
