//! Functions of strings of bits.

use crate::{
    SqlType, Value,
    bits::Bits,
    error::{Result, SqlError, SqlState},
};

use super::{Table, arguments, strings::count};

fn negative_length() -> SqlError {
    SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed")
}

/// Returns `length` bits from a bit on, counted from 1; positions before the first bit count too.
fn substring(bits: &Bits, from: i64, length: Option<i64>) -> Result<Bits> {
    let end = match length {
        Some(..0) => return Err(negative_length()),
        Some(length) => from - 1 + length,
        None => bits.length().into(),
    };
    let place = |at: i64| at.clamp(0, bits.length().into()) as u32;
    Ok(bits.part(place(from - 1), place(end)))
}

/// Replaces `length` bits from a bit on by others.
fn overlay(bits: &Bits, other: &Bits, from: i32, length: i32) -> Result<Value> {
    if from <= 0 {
        return Err(negative_length());
    }
    let end = from
        .checked_add(length)
        .ok_or_else(|| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"))?;
    let before = substring(bits, 1, Some(i64::from(from) - 1))?;
    let behind = substring(bits, end.into(), None)?;
    Ok(Value::bits(before.followed_by(other)?.followed_by(&behind)?))
}

/// Returns the place of a bit that exists.
fn place(bits: &Bits, at: i32) -> Result<u32> {
    u32::try_from(at).ok().filter(|at| *at < bits.length()).ok_or_else(|| {
        let message = format!("bit index {at} out of valid range (0..{})", i64::from(bits.length()) - 1);
        SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
    })
}

pub(super) fn register(table: &mut Table) {
    use SqlType as T;
    let (b, i) = (T::BIT, T::INT4);
    for name in ["length", "bit_length"] {
        table.add(
            name,
            &[b],
            i,
            |arguments, _| arguments!(arguments, [Value::Bit(bits)] => count(bits.length() as usize)),
        );
    }
    table.add(
        "octet_length",
        &[b],
        i,
        |arguments, _| arguments!(arguments, [Value::Bit(bits)] => count(bits.bytes().len())),
    );
    table.add(
        "bit_count",
        &[b],
        T::INT8,
        |arguments, _| arguments!(arguments, [Value::Bit(bits)] => Ok(Value::Int8(bits.count_ones()))),
    );
    table
        .add("substring", &[b, i, i], b, |arguments, _| match arguments {
            [Value::Bit(bits), Value::Int4(from)] => substring(bits, (*from).into(), None).map(Value::bits),
            [Value::Bit(bits), Value::Int4(from), Value::Int4(length)] => {
                substring(bits, (*from).into(), Some((*length).into())).map(Value::bits)
            }
            _ => Err(crate::operators::mismatch()),
        })
        .optional(1);
    table
        .add("overlay", &[b, b, i, i], b, |arguments, _| match arguments {
            [Value::Bit(bits), Value::Bit(other), Value::Int4(from)] => {
                overlay(bits, other, *from, other.length() as i32)
            }
            [Value::Bit(bits), Value::Bit(other), Value::Int4(from), Value::Int4(length)] => {
                overlay(bits, other, *from, *length)
            }
            _ => Err(crate::operators::mismatch()),
        })
        .optional(1);
    table.add("position", &[b, b], i, |arguments, environment| {
        arguments!(arguments, [Value::Bit(bits), Value::Bit(wanted)] => match wanted.length() {
            0 if bits.length() > 0 => count(1),
            0 => count(0),
            _ => count(bits.find(wanted, || environment.check())?.map_or(0, |at| at as usize + 1)),
        })
    });
    table.add("get_bit", &[b, i], i, |arguments, _| {
        arguments!(arguments, [Value::Bit(bits), Value::Int4(at)] => {
            Ok(Value::Int4(bits.has(place(bits, *at)?).into()))
        })
    });
    table.add("set_bit", &[b, i, i], b, |arguments, _| {
        arguments!(arguments, [Value::Bit(bits), Value::Int4(at), Value::Int4(bit)] => {
            let at = place(bits, *at)?;
            match bit {
                0 | 1 => Ok(Value::bits(bits.with(at, *bit == 1))),
                _ => Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "new bit must be 0 or 1")),
            }
        })
    });
}
