//! Values as parts of keys: bytes that compare as the values do; no encoding is a prefix of another one.
//!
//! | type | encoding behind the null marker |
//! |---|---|
//! | `boolean`, whole numbers, `oid`, `uuid`, dates and times | as the engine's keys of that width |
//! | `inet`, `cidr` | family, address of the network, length of the netmask, address |
//! | `time with time zone` | the time in UTC, the seconds to the west |
//! | enumerations | the position of the label, as a whole number |
//! | `real`, `double precision` | big-endian bits, sign bit flipped, all bits where negative; one NaN, one zero |
//! | `numeric` | class, exponent in three bytes, digit pairs from 1 on, 00; if negative, all but the class inverted |
//! | texts, `bytea` | as the engine's strings; `char(n)` without the blanks at its end |
//! | `bit`, `bit varying` | the bytes as `bytea`, how many bits of the last byte count |
//! | `macaddr`, `macaddr8` | the bytes |
//! | `interval` | its length in microseconds, 16 bytes |
//! | `jsonb` | rank of the type; then the number, the text, or the count and the members |
//! | arrays | each element with a marker, 00; the dimensions |
//!
//! The null marker is 00 before a value and 01 for NULL, so that NULL comes last. In descending columns every byte is
//! inverted, the marker too, so that NULL comes first. Inverted bytes delimit themselves as the plain ones do.
//!
//! Two values have the same key exactly if SQL considers them equal. Not all keys can be decoded (1.0 and 1.00 are one
//! key), and they need not be: rows hold all their columns. Those of most types are decoded, to equal values, for
//! reports of conflicts and for readers of changes.

use ermine::{AsKey, Key, KeyBuffer};

use crate::types::{
    Array, Json, Numeric, Record, Scalar, SqlType, Value,
    numeric::Parts,
    order::{interval_length, time_in_utc, without_padding},
};

/// The marker before a value.
const PRESENT: u8 = 0;
/// The marker for NULL.
const NULL: u8 = 1;

/// Appends a column of a key.
pub fn write_key(value: &Value, descending: bool, out: &mut KeyBuffer) {
    let start = out.len();
    if value.is_null() {
        out.push(NULL);
    } else {
        out.push(PRESENT);
        write_value(value, out);
    }
    if descending {
        invert(&mut out[start..]);
    }
}

/// Whether columns of a type can be read off a key.
pub fn can_be_read(ty: SqlType) -> bool {
    let scalar = ty.scalar;
    !ty.is_array
        && matches!(
            scalar,
            Scalar::Bool
                | Scalar::Int2
                | Scalar::Int4
                | Scalar::Int8
                | Scalar::Oid
                | Scalar::Float4
                | Scalar::Float8
                | Scalar::Numeric
                | Scalar::Date
                | Scalar::Time
                | Scalar::Timestamp
                | Scalar::TimestampTz
                | Scalar::Interval
                | Scalar::Uuid
                | Scalar::Text
                | Scalar::Varchar
                | Scalar::Name
                | Scalar::InternalChar
                | Scalar::Char
                | Scalar::Bytea
        )
}

/// Reads a column off the front of a key; `None`: its type cannot be decoded, or the key is cut.
pub fn read_key(ty: SqlType, descending: bool, input: &mut &[u8]) -> Option<Value> {
    if descending {
        let mut inverted = input.to_vec();
        invert(&mut inverted);
        let mut left = &inverted[..];
        let value = read_key(ty, false, &mut left)?;
        *input = &input[input.len() - left.len()..];
        return Some(value);
    }
    let (marker, rest) = input.split_first()?;
    *input = rest;
    if *marker == NULL {
        return Some(Value::Null);
    }
    fn read<K: Key>(input: &mut &[u8]) -> Option<K> {
        K::decode(input).ok()
    }
    if ty.is_array {
        return None;
    }
    Some(match ty.scalar {
        Scalar::Bool => Value::Bool(read(input)?),
        Scalar::Int2 => Value::Int2(read(input)?),
        Scalar::Int4 => Value::Int4(read(input)?),
        Scalar::Int8 => Value::Int8(read(input)?),
        Scalar::Oid => Value::Oid(read(input)?),
        Scalar::Date => Value::Date(read(input)?),
        Scalar::Time => Value::Time(read(input)?),
        Scalar::Timestamp => Value::Timestamp(read(input)?),
        Scalar::TimestampTz => Value::TimestampTz(read(input)?),
        Scalar::Uuid => Value::Uuid(read(input)?),
        Scalar::Text | Scalar::Varchar | Scalar::Name | Scalar::InternalChar => Value::text(read::<String>(input)?),
        Scalar::Char => Value::Char(read::<String>(input)?.into()),
        Scalar::Bytea => Value::Bytea(read::<Vec<u8>>(input)?.into()),
        Scalar::Float4 => {
            let bits: u32 = read(input)?;
            Value::Float4(f32::from_bits(if bits >> 31 == 1 { bits & !(1 << 31) } else { !bits }))
        }
        Scalar::Float8 => {
            let bits: u64 = read(input)?;
            Value::Float8(f64::from_bits(if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits }))
        }
        Scalar::Interval => {
            const DAY: i128 = 86_400_000_000;
            let length: i128 = read(input)?;
            let (days, micros) = (length / DAY, (length % DAY) as i64);
            // Months only where days do not suffice.
            let months = if i32::try_from(days).is_ok() { 0 } else { days / 30 };
            let days = i32::try_from(days - 30 * months).ok()?;
            Value::Interval { months: i32::try_from(months).ok()?, days, micros }
        }
        Scalar::Numeric => Value::Numeric(read_numeric(input)?),
        _ => return None,
    })
}

/// Reads a number: with as few digits as its value needs.
fn read_numeric(input: &mut &[u8]) -> Option<Numeric> {
    let (class, rest) = input.split_first()?;
    *input = rest;
    let text = match *class {
        NEGATIVE_INFINITY => "-Infinity".to_owned(),
        INFINITY => "Infinity".to_owned(),
        NAN => "NaN".to_owned(),
        ZERO => "0".to_owned(),
        class => {
            let mask = if class == NEGATIVE { u8::MAX } else { 0 };
            let (exponent, rest) = input.split_at_checked(3)?;
            let exponent = exponent.iter().fold(0, |all, byte| all << 8 | i32::from(byte ^ mask)) - EXPONENT_BIAS;
            let end = rest.iter().position(|byte| byte ^ mask == 0)?;
            let pairs = rest[..end].iter().map(|byte| format!("{:02}", (byte ^ mask) - 1));
            let digits: String = pairs.collect();
            *input = &rest[end + 1..];
            let sign = if class == NEGATIVE { "-" } else { "" };
            let digits = digits.trim_end_matches('0');
            format!("{sign}{digits}e{}", exponent - digits.len() as i32)
        }
    };
    text.parse().ok()
}

fn invert(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte = !*byte);
}

fn write_value(value: &Value, out: &mut KeyBuffer) {
    match value {
        Value::Null => debug_assert!(false, "NULL has its marker only"),
        Value::Bool(value) => value.encode(out),
        Value::Int2(value) => value.encode(out),
        Value::Int4(value) | Value::Date(value) => value.encode(out),
        Value::Int8(value) | Value::Time(value) | Value::Timestamp(value) | Value::TimestampTz(value) => {
            value.encode(out);
        }
        // Every `real` is a `double precision`, but a key of half the length is worth two lines.
        Value::Float4(value) => {
            let bits = if value.is_nan() { f32::NAN.abs() } else { *value + 0.0 }.to_bits();
            (if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }).encode(out);
        }
        Value::Float8(value) => {
            // Adding plus zero makes zeros positive.
            let bits = if value.is_nan() { f64::NAN.abs() } else { *value + 0.0 }.to_bits();
            (if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }).encode(out);
        }
        Value::Numeric(value) => write_numeric(value, out),
        Value::Char(value) => AsKey::<String>::encode(without_padding(value), out),
        // Only to distinguish texts: the types have no order.
        Value::Json(value) | Value::Jsonpath(value) => AsKey::<String>::encode(&**value, out),
        Value::Text(value) => AsKey::<String>::encode(&**value, out),
        Value::Bytea(value) => AsKey::<Vec<u8>>::encode(&**value, out),
        Value::Interval { months, days, micros } => interval_length(*months, *days, *micros).encode(out),
        Value::Uuid(value) => AsKey::<[u8; 16]>::encode(value, out),
        Value::Oid(value) => value.encode(out),
        Value::Enum { position, .. } => position.encode(out),
        Value::Inet(value) => {
            let (is_v6, network, prefix, address) = value.order();
            is_v6.encode(out);
            match is_v6 {
                true => [network, address].into_iter().zip([Some(prefix), None]).for_each(|(number, prefix)| {
                    number.encode(out);
                    out.extend(prefix);
                }),
                false => [network, address].into_iter().zip([Some(prefix), None]).for_each(|(number, prefix)| {
                    (number as u32).encode(out);
                    out.extend(prefix);
                }),
            }
        }
        Value::Macaddr(value) => out.extend_from_slice(value),
        Value::TimeTz { micros, ahead } => {
            time_in_utc(*micros, *ahead).encode(out);
            (-ahead).encode(out);
        }
        Value::Jsonb(value) => write_json(value, true, out),
        Value::Array(value) => write_array(value, out),
        Value::Record(value) => write_record(value, out),
        Value::Bit(value) => {
            AsKey::<Vec<u8>>::encode(value.bytes(), out);
            // Of strings with the same bytes, the one of which fewer bits of the last byte count comes first.
            out.push((value.length().wrapping_add(7) % 8) as u8);
        }
        Value::Macaddr8(value) => out.extend_from_slice(value),
    }
}

/// Classes of exact numbers, in their order.
const NEGATIVE_INFINITY: u8 = 0;
const NEGATIVE: u8 = 1;
const ZERO: u8 = 2;
const POSITIVE: u8 = 3;
const INFINITY: u8 = 4;
const NAN: u8 = 5;

/// Makes every exponent positive: the least is some -16383.
const EXPONENT_BIAS: i32 = 1 << 20;

fn write_numeric(number: &Numeric, out: &mut KeyBuffer) {
    let (negative, digits, scale) = match number.parts() {
        Parts::NegativeInfinity => return out.push(NEGATIVE_INFINITY),
        Parts::Infinity => return out.push(INFINITY),
        Parts::NaN => return out.push(NAN),
        Parts::Small(0, _) => return out.push(ZERO),
        Parts::Small(coefficient, scale) => (coefficient < 0, coefficient.unsigned_abs().to_string(), scale),
        Parts::Large(coefficient, scale) => (number.signum() < 0, coefficient.magnitude().to_str_radix(10), scale),
    };
    out.push(if negative { NEGATIVE } else { POSITIVE });
    let start = out.len();
    // The number is 0.digits * 10^exponent.
    let exponent = digits.len() as i32 - i32::from(scale);
    out.extend_from_slice(&(exponent + EXPONENT_BIAS).to_be_bytes()[1..]);
    for pair in digits.trim_end_matches('0').as_bytes().chunks(2) {
        let second = pair.get(1).map_or(0, |digit| digit - b'0');
        out.push((pair[0] - b'0') * 10 + second + 1);
    }
    out.push(0);
    if negative {
        invert(&mut out[start..]);
    }
}

/// Before the other ranks: an empty array at the root.
const EMPTY_ARRAY_AT_ROOT: u8 = 0;

fn write_json(json: &Json, at_root: bool, out: &mut KeyBuffer) {
    if at_root && matches!(json, Json::Array(elements) if elements.is_empty()) {
        return out.push(EMPTY_ARRAY_AT_ROOT);
    }
    out.push(json.rank() + 1);
    match json {
        Json::Null => {}
        Json::Bool(value) => value.encode(out),
        Json::Number(number) => write_numeric(number, out),
        Json::String(text) => AsKey::<String>::encode(&**text, out),
        Json::Array(elements) => {
            (elements.len() as u32).encode(out);
            elements.iter().for_each(|element| write_json(element, false, out));
        }
        Json::Object(pairs) => {
            (pairs.len() as u32).encode(out);
            for (key, value) in pairs {
                AsKey::<String>::encode(&**key, out);
                write_json(value, false, out);
            }
        }
    }
}

/// After the last element of an array, or of a record.
const ARRAY_END: u8 = 0;
/// Before an element.
const ELEMENT: u8 = 1;
/// For an element that is NULL: after every other.
const NULL_ELEMENT: u8 = 2;

fn write_array(array: &Array, out: &mut KeyBuffer) {
    array.elements().iter().for_each(|element| write_element(element, out));
    out.push(ARRAY_END);
    let dimensions = array.dimensions();
    out.push(dimensions.len() as u8);
    dimensions.iter().for_each(|dimension| dimension.length.encode(out));
    dimensions.iter().for_each(|dimension| dimension.lower.encode(out));
}

fn write_element(element: &Value, out: &mut KeyBuffer) {
    if element.is_null() {
        out.push(NULL_ELEMENT);
    } else {
        out.push(ELEMENT);
        write_value(element, out);
    }
}

/// Writes each value behind its type: records of one column of a query may differ in their types.
fn write_record(record: &Record, out: &mut KeyBuffer) {
    for (field, value) in record.columns() {
        out.push(ELEMENT);
        field.ty.oid().encode(out);
        write_element(value, out);
    }
    out.push(ARRAY_END);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Scalar, SqlType, order::compare, random::random_value};

    fn key(value: &Value, descending: bool) -> KeyBuffer {
        let mut out = KeyBuffer::new();
        write_key(value, descending, &mut out);
        out
    }

    #[test]
    fn keys_are_in_the_order_of_their_values() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for ty in SqlType::all().chain([SqlType::scalar(Scalar::Enum(1)), SqlType::RECORD]) {
            for _ in 0..2000 {
                let left = random_value(ty, &mut random);
                let right = random_value(ty, &mut random);
                let order = compare(&left, &right, ty);
                let ascending = [key(&left, false), key(&right, false)];
                let descending = [key(&left, true), key(&right, true)];
                assert_eq!(ascending[0].cmp(&ascending[1]), order, "{ty}: {left:?} {right:?}");
                assert_eq!(descending[0].cmp(&descending[1]), order.reverse(), "{ty}: {left:?} {right:?}");
                // No key is a prefix of another.
                for keys in [&ascending, &descending] {
                    assert!(order.is_eq() || !keys[1].starts_with(&keys[0]), "{ty}: {left:?} {right:?}");
                }
            }
        }
    }

    #[test]
    fn simple_types_are_read_as_they_were_written() {
        let values = [
            (Value::Bool(true), SqlType::BOOL),
            (Value::Int2(-3), SqlType::INT2),
            (Value::Int4(i32::MIN), SqlType::INT4),
            (Value::Int8(7), SqlType::INT8),
            (Value::Timestamp(-5), SqlType::TIMESTAMP),
            (Value::text("a\0b"), SqlType::TEXT),
            (Value::Uuid([9; 16]), SqlType::UUID),
            (Value::Null, SqlType::TEXT),
        ];
        for descending in [false, true] {
            let mut all = KeyBuffer::new();
            values.iter().for_each(|(value, _)| write_key(value, descending, &mut all));
            let mut left = &all[..];
            for (value, ty) in &values {
                assert_eq!(read_key(*ty, descending, &mut left).as_ref(), Some(value));
            }
            assert!(left.is_empty());
            for end in 0..all.len() {
                let mut cut = &all[..end];
                while values.iter().all(|(_, ty)| read_key(*ty, descending, &mut cut).is_some()) {}
            }
        }
    }

    #[test]
    fn what_can_be_read_is_equal_to_what_was_written() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for ty in SqlType::all() {
            for _ in 0..2000 {
                let value = random_value(ty, &mut random);
                for descending in [false, true] {
                    let mut written = key(&value, descending);
                    written.extend_from_slice(b"rest");
                    let mut left = &written[..];
                    match read_key(ty, descending, &mut left) {
                        Some(read) => {
                            assert!(compare(&read, &value, ty).is_eq(), "{ty}: {value:?} {read:?}");
                            assert!(can_be_read(ty) || value.is_null());
                            assert_eq!(left, b"rest", "{ty}: {value:?}");
                        }
                        None => assert!(!can_be_read(ty), "{ty}: {value:?}"),
                    }
                }
            }
        }
    }

    #[test]
    fn null_is_last_and_descending_first() {
        let value = key(&Value::Int4(i32::MAX), false);
        assert!(key(&Value::Null, false) > value);
        assert!(key(&Value::Null, true) < key(&Value::Int4(i32::MAX), true));
    }

    #[test]
    fn numbers_far_apart_are_in_order() {
        let numbers = [
            "-Infinity",
            "-1e131071",
            "-1e20",
            "-1.5",
            "-1.05",
            "-1",
            "-0.1",
            "-1e-16383",
            "0",
            "1e-16383",
            "0.099",
            "0.1",
            "0.10001",
            "1",
            "1.05",
            "9",
            "10",
            "99",
            "100",
            "1e131071",
            "Infinity",
            "NaN",
        ];
        let keys: Vec<_> = numbers.iter().map(|text| key(&Value::Numeric(text.parse().unwrap()), false)).collect();
        assert!(keys.is_sorted_by(|left, right| left < right));
    }
}
