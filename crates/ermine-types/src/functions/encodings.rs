//! Bytes as text and back: `hex`, `base64`, `escape`.

use std::fmt::Write;

use crate::{
    Value,
    error::{Result, SqlError, SqlState},
    text::bytes,
};

/// Base64 as in MIME, in lines of 76.
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn to_base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 4 / 3 + 4);
    for (at, three) in bytes.chunks(3).enumerate() {
        if at > 0 && at % 19 == 0 {
            out.push('\n');
        }
        let word = three.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for digit in 0..4 {
            let is_padding = digit > three.len();
            let at = (word >> (18 - 6 * digit) & 63) as usize;
            out.push(if is_padding { '=' } else { BASE64[at].into() });
        }
    }
    out
}

fn from_base64(text: &str) -> Result<Vec<u8>> {
    let invalid = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let (mut word, mut digits, mut padding) = (0u32, 0, 0);
    for character in text.chars().filter(|character| !matches!(character, ' ' | '\n' | '\r' | '\t')) {
        let value = match BASE64.iter().position(|digit| char::from(*digit) == character) {
            Some(value) if padding == 0 => value as u32,
            _ if character == '=' && digits >= 2 => {
                padding += 1;
                0
            }
            _ => {
                return Err(invalid(format!("invalid symbol \"{character}\" found while decoding base64 sequence")));
            }
        };
        word = word << 6 | value;
        digits += 1;
        if digits == 4 {
            out.extend_from_slice(&word.to_be_bytes()[1..4 - padding.min(2)]);
            (word, digits) = (0, 0);
        }
    }
    if digits != 0 {
        return Err(invalid("invalid base64 end sequence".into())
            .hint("Input data is missing padding, is truncated, or is otherwise corrupted."));
    }
    Ok(out)
}

fn unknown_encoding(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unrecognized encoding: \"{name}\""))
}

/// `encode`
pub(super) fn encode(bytes: &[u8], name: &str) -> Result<Value> {
    let mut out = String::new();
    match name.to_ascii_lowercase().as_str() {
        "hex" => bytes::write_hex(bytes, &mut out).map_err(|_| unknown_encoding(name))?,
        "base64" => out = to_base64(bytes),
        "escape" => {
            for &byte in bytes {
                match byte {
                    b'\\' => out.push_str("\\\\"),
                    0 | 0x80.. => write!(out, "\\{byte:03o}").map_err(|_| unknown_encoding(name))?,
                    byte => out.push(byte.into()),
                }
            }
        }
        _ => return Err(unknown_encoding(name)),
    }
    Ok(out.into())
}

/// `decode`
pub(super) fn decode(text: &str, name: &str) -> Result<Value> {
    let bytes = match name.to_ascii_lowercase().as_str() {
        "hex" => bytes::parse_hex(text)?,
        "base64" => from_base64(text)?,
        "escape" => bytes::parse_escaped(text)?,
        _ => return Err(unknown_encoding(name)),
    };
    Ok(Value::Bytea(bytes.into()))
}
