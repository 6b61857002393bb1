//! Functions of bytes.

use sha2::{Digest as _, Sha224, Sha256, Sha384, Sha512};

use crate::{
    SqlType, Value,
    error::{Result, SqlError, SqlState},
};

use super::{Table, arguments, strings::count};

fn one(arguments: &[Value], function: impl FnOnce(&[u8]) -> Result<Value>) -> Result<Value> {
    arguments!(arguments, [Value::Bytea(bytes)] => function(bytes))
}

fn two(arguments: &[Value], function: impl FnOnce(&[u8], &[u8]) -> Result<Value>) -> Result<Value> {
    arguments!(arguments, [Value::Bytea(left), Value::Bytea(right)] => function(left, right))
}

/// Returns `length` bytes from a byte on, counted from 1; positions before the first byte count too.
fn substring(bytes: &[u8], from: i32, length: Option<i32>) -> Result<Value> {
    let first = i64::from(from) - 1;
    let end = match length {
        Some(length) if length < 0 => {
            return Err(SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
        }
        Some(length) => first + i64::from(length),
        None => i64::MAX,
    };
    let clamp = |at: i64| usize::try_from(at).unwrap_or(0).min(bytes.len());
    let start = clamp(first);
    Ok(Value::Bytea(bytes[start..clamp(end).max(start)].into()))
}

fn digest(digest: &[u8]) -> Result<Value> {
    Ok(Value::Bytea(digest.into()))
}

fn trim(mut bytes: &[u8], cut: &[u8], left: bool, right: bool) -> Value {
    let mut is_cut = [false; 256];
    cut.iter().for_each(|byte| is_cut[usize::from(*byte)] = true);
    while left
        && let [first, rest @ ..] = bytes
        && is_cut[usize::from(*first)]
    {
        bytes = rest;
    }
    while right
        && let [rest @ .., last] = bytes
        && is_cut[usize::from(*last)]
    {
        bytes = rest;
    }
    Value::Bytea(bytes.into())
}

/// Returns the position of bytes in others, counted from 1; 0 if they do not occur.
fn position(bytes: &[u8], wanted: &[u8]) -> Result<Value> {
    if wanted.is_empty() {
        return count(1);
    }
    count(memchr::memmem::find(bytes, wanted).map_or(0, |at| at + 1))
}

/// Returns the place of a byte, or of a bit, that exists.
fn place(at: i64, length: usize) -> Result<usize> {
    usize::try_from(at).ok().filter(|&at| at < length).ok_or_else(|| {
        let message = format!("index {at} out of valid range, 0..{}", length as i64 - 1);
        SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
    })
}

/// Returns the bytes with the bit at a place changed.
fn with_bit(bytes: &[u8], at: i64, bit: i32) -> Result<Value> {
    let at = place(at, bytes.len().saturating_mul(8))?;
    let mask = 1 << (at % 8);
    let mut bytes = bytes.to_vec();
    match bit {
        0 => bytes[at / 8] &= !mask,
        1 => bytes[at / 8] |= mask,
        _ => return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "new bit must be 0 or 1")),
    }
    Ok(Value::Bytea(bytes.into()))
}

pub(super) fn register(table: &mut Table) {
    use SqlType as T;
    let (b, i) = (T::BYTEA, T::INT4);
    for name in ["length", "octet_length"] {
        table.add(name, &[b], i, |arguments, _| one(arguments, |bytes| count(bytes.len())));
    }
    table.add("bit_length", &[b], i, |arguments, _| one(arguments, |bytes| count(bytes.len().saturating_mul(8))));
    table.add("bit_count", &[b], T::INT8, |arguments, _| {
        one(arguments, |bytes| Ok(Value::Int8(bytes.iter().map(|byte| i64::from(byte.count_ones())).sum())))
    });
    table.add("btrim", &[b, b], b, |arguments, _| two(arguments, |bytes, cut| Ok(trim(bytes, cut, true, true))));
    table.add("trim", &[b, b], b, |arguments, _| two(arguments, |bytes, cut| Ok(trim(bytes, cut, true, true))));
    table.add("ltrim", &[b, b], b, |arguments, _| two(arguments, |bytes, cut| Ok(trim(bytes, cut, true, false))));
    table.add("rtrim", &[b, b], b, |arguments, _| two(arguments, |bytes, cut| Ok(trim(bytes, cut, false, true))));
    table.add("position", &[b, b], i, |arguments, _| two(arguments, position));
    for name in ["substring", "substr"] {
        table
            .add(name, &[b, i, i], b, |arguments, _| match arguments {
                [Value::Bytea(bytes), Value::Int4(from)] => substring(bytes, *from, None),
                [Value::Bytea(bytes), Value::Int4(from), Value::Int4(length)] => substring(bytes, *from, Some(*length)),
                _ => Err(crate::operators::mismatch()),
            })
            .optional(1);
    }
    table.add("sha224", &[b], b, |arguments, _| one(arguments, |bytes| digest(&Sha224::digest(bytes))));
    table.add("sha256", &[b], b, |arguments, _| one(arguments, |bytes| digest(&Sha256::digest(bytes))));
    table.add("sha384", &[b], b, |arguments, _| one(arguments, |bytes| digest(&Sha384::digest(bytes))));
    table.add("sha512", &[b], b, |arguments, _| one(arguments, |bytes| digest(&Sha512::digest(bytes))));
    table.add("get_byte", &[b, i], i, |arguments, _| {
        arguments!(arguments, [Value::Bytea(bytes), Value::Int4(at)] => {
            Ok(Value::Int4(bytes[place(i64::from(*at), bytes.len())?].into()))
        })
    });
    table.add("set_byte", &[b, i, i], b, |arguments, _| {
        arguments!(arguments, [Value::Bytea(bytes), Value::Int4(at), Value::Int4(new)] => {
            let mut bytes = bytes.to_vec();
            // As in PostgreSQL, the lowest eight bits count.
            let at = place(i64::from(*at), bytes.len())?;
            bytes[at] = *new as u8;
            Ok(Value::Bytea(bytes.into()))
        })
    });
    table.add("get_bit", &[b, T::INT8], i, |arguments, _| {
        arguments!(arguments, [Value::Bytea(bytes), Value::Int8(at)] => {
            let at = place(*at, bytes.len().saturating_mul(8))?;
            Ok(Value::Int4((bytes[at / 8] >> (at % 8) & 1).into()))
        })
    });
    table.add("set_bit", &[b, T::INT8, i], b, |arguments, _| {
        arguments!(arguments, [Value::Bytea(bytes), Value::Int8(at), Value::Int4(bit)] => with_bit(bytes, *at, *bit))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::tests::call;

    #[test]
    fn bytes_are_postgresqls() {
        let (i, l, b) = (SqlType::INT4, SqlType::INT8, SqlType::BYTEA);
        for (name, arguments, expected) in [
            ("length", &[(b, "\\x1234")][..], "2"),
            ("bit_count", &[(b, "\\x1234567890")], "15"),
            ("btrim", &[(b, "\\x1234567890"), (b, "\\x9012")], "\\x345678"),
            ("ltrim", &[(b, "\\x1234567890"), (b, "\\x9012")], "\\x34567890"),
            ("rtrim", &[(b, "\\x1234567890"), (b, "\\x9012")], "\\x12345678"),
            ("position", &[(b, "\\x1234567890"), (b, "\\x5678")], "3"),
            ("position", &[(b, "\\x1234"), (b, "")], "1"),
            ("substr", &[(b, "\\x1234567890"), (i, "3"), (i, "2")], "\\x5678"),
            ("get_byte", &[(b, "\\x1234567890"), (i, "4")], "144"),
            ("set_byte", &[(b, "\\x1234567890"), (i, "4"), (i, "64")], "\\x1234567840"),
            ("get_bit", &[(b, "\\x1234567890"), (l, "30")], "1"),
            ("set_bit", &[(b, "\\x1234567890"), (l, "30"), (i, "0")], "\\x1234563890"),
        ] {
            assert_eq!(call(name, arguments).unwrap(), expected, "{name}");
        }
        let beyond = call("get_byte", &[(b, "\\x12"), (i, "1")]).unwrap_err();
        assert_eq!(beyond.report().message, "index 1 out of valid range, 0..0");
        assert_eq!(call("set_bit", &[(b, "\\x12"), (l, "0"), (i, "2")]).unwrap_err().state().0, "22023");
    }
}
