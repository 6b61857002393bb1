//! `bytea` and `uuid` as text.

use std::fmt::{self, Write};

use crate::error::{Result, SqlError, SqlState};

use super::invalid;

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// Returns bytes from hexadecimal digits; blanks between pairs are allowed.
pub(crate) fn parse_hex(digits: &str) -> Result<Vec<u8>> {
    let fail = |message: String| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    let mut out = Vec::with_capacity(digits.len() / 2);
    let mut rest = digits.chars();
    while let Some(first) = rest.next() {
        if matches!(first, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let digit = |character: char| u8::try_from(character).ok().and_then(hex_digit);
        let Some(high) = digit(first) else { return fail(format!("invalid hexadecimal digit: \"{first}\"")) };
        let Some(second) = rest.next() else { return fail("invalid hexadecimal data: odd number of digits".into()) };
        let Some(low) = digit(second) else { return fail(format!("invalid hexadecimal digit: \"{second}\"")) };
        out.push(high << 4 | low);
    }
    Ok(out)
}

/// Parses the hex form, or the older one with backslashes and octal numbers.
pub(super) fn parse(text: &str) -> Result<Vec<u8>> {
    match text.strip_prefix("\\x") {
        Some(digits) => parse_hex(digits),
        None => parse_escaped(text),
    }
}

/// Returns bytes from the form with backslashes and octal numbers.
pub(crate) fn parse_escaped(text: &str) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    loop {
        rest = match rest {
            [] => return Ok(out),
            [b'\\', b'\\', rest @ ..] => {
                out.push(b'\\');
                rest
            }
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest
            }
            [b'\\', ..] => {
                return Err(SqlError::new(
                    SqlState::INVALID_TEXT_REPRESENTATION,
                    "invalid input syntax for type bytea",
                ));
            }
            [byte, rest @ ..] => {
                out.push(*byte);
                rest
            }
        };
    }
}

/// Writes hexadecimal digits.
pub(crate) fn write_hex(bytes: &[u8], out: &mut impl Write) -> fmt::Result {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().try_for_each(|byte| {
        out.write_char(DIGITS[usize::from(byte >> 4)].into())?;
        out.write_char(DIGITS[usize::from(byte & 15)].into())
    })
}

pub(super) fn write(bytes: &[u8], out: &mut impl Write) -> fmt::Result {
    out.write_str("\\x")?;
    write_hex(bytes, out)
}

/// Parses thirty-two digits, with an optional hyphen after every four, and optional braces around them.
pub(super) fn parse_uuid(text: &str) -> Result<[u8; 16]> {
    let inner = text.strip_prefix('{').map_or(Some(text), |inner| inner.strip_suffix('}'));
    let mut rest = inner.ok_or_else(|| invalid("uuid", text))?.as_bytes();
    let mut uuid = [0; 16];
    for (at, byte) in uuid.iter_mut().enumerate() {
        let [high, low, others @ ..] = rest else { return Err(invalid("uuid", text)) };
        let (Some(high), Some(low)) = (hex_digit(*high), hex_digit(*low)) else { return Err(invalid("uuid", text)) };
        *byte = high << 4 | low;
        rest = match others {
            [b'-', others @ ..] if at % 2 == 1 && at < 15 => others,
            others => others,
        };
    }
    if rest.is_empty() { Ok(uuid) } else { Err(invalid("uuid", text)) }
}

pub(super) fn write_uuid(uuid: &[u8; 16], out: &mut impl Write) -> fmt::Result {
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.write_char('-')?;
        }
        write_hex(&[*byte], out)?;
    }
    Ok(())
}
