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

pub(super) fn parse_integer(text: &str, ty: SqlType, least: i64, greatest: i64) -> Result<i64> {
    let digits = text.trim_matches(is_space);
    match digits.parse::<i64>() {
        Ok(number) if (least..=greatest).contains(&number) => Ok(number),
        Ok(_) => Err(out_of_range(text, ty)),
        Err(_) => {
            let unsigned = digits.strip_prefix(['-', '+']).unwrap_or(digits);
            let is_number = !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit());
            Err(if is_number { out_of_range(text, ty) } else { invalid(ty.name(), text) })
        }
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
        return Err(invalid(ty.name(), text));
    }
    trimmed.parse().map_err(|_| invalid(ty.name(), text))
}

fn check_range(text: &str, ty: SqlType, is_infinite: bool, is_zero: bool) -> Result<()> {
    let digits = text.trim_start_matches(|character| is_space(character) || character == '-' || character == '+');
    if !digits.starts_with(|character: char| character.is_ascii_digit() || character == '.') {
        return Ok(());
    }
    let mantissa = digits.split(['e', 'E']).next().unwrap_or(digits);
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
    let number: f64 = parse_float(text, SqlType::FLOAT8)?;
    check_range(text, SqlType::FLOAT8, number.is_infinite(), number == 0.0)?;
    Ok(number)
}

pub(super) fn parse_f32(text: &str) -> Result<f32> {
    let number: f32 = parse_float(text, SqlType::FLOAT4)?;
    check_range(text, SqlType::FLOAT4, number.is_infinite(), number == 0.0)?;
    Ok(number)
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

/// Writes a `double precision`.
pub(crate) fn write_f64(number: f64, out: &mut impl Write) -> fmt::Result {
    if number.is_nan() {
        out.write_str("NaN")
    } else if number.is_infinite() {
        out.write_str(if number > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        write_shortest(&format!("{number:e}"), 15, out)
    }
}

/// Writes a `real`.
pub(crate) fn write_f32(number: f32, out: &mut impl Write) -> fmt::Result {
    if number.is_nan() {
        out.write_str("NaN")
    } else if number.is_infinite() {
        out.write_str(if number > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        write_shortest(&format!("{number:e}"), 6, out)
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
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(text(number), expected);
        }
        let mut out = String::new();
        write_f32(1e6, &mut out).unwrap();
        write_f32(123456.0, &mut out).unwrap();
        assert_eq!(out, "1e+06123456");
    }
}
