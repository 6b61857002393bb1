//! Values from and to PostgreSQL's text formats: dates, times and intervals in the environment's style; `bytea_output`
//! hex; floats with the fewest digits that read back as the same float.

pub(crate) mod array;
pub(crate) mod bytes;
mod number;

use std::fmt::Write;

use smol_str::SmolStr;

use crate::{
    error::{Result, SqlError, SqlState},
    space::is_space,
};

use super::{
    Environment, Json, Scalar, SqlType, Value,
    bits::Bits,
    cast, datetime,
    json::jsonpath::JsonPath,
    network::{self, Inet},
    record::{Record, no_input},
};

pub(crate) use number::{write_f32, write_f64};

/// The error for a text that is not a value of its type.
pub(crate) fn invalid(ty: &str, text: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("invalid input syntax for type {ty}: \"{text}\""))
}

/// Returns the text of a `"char"`: PostgreSQL 16's, which writes bytes outside of ASCII in octal, and zero as nothing.
pub(crate) fn char_of_byte(byte: u8) -> SmolStr {
    match byte {
        0 => SmolStr::default(),
        1..0x80 => char::from(byte).to_string().into(),
        _ => format!("\\{byte:03o}").into(),
    }
}

/// Returns the byte of such a text.
pub(crate) fn byte_of_char(text: &str) -> u8 {
    match *text.as_bytes() {
        [b'\\', high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7'] => {
            (high - b'0') << 6 | (middle - b'0') << 3 | (low - b'0')
        }
        [first, ..] => first,
        [] => 0,
    }
}

/// Returns the `"char"` of a text: its first byte, in the form in which it is stored.
pub(crate) fn internal_char(text: &str) -> SmolStr {
    char_of_byte(byte_of_char(text))
}

/// Reads a value of a type, with the modifier's length, precision or scale applied as on assignment.
pub fn parse(ty: SqlType, modifier: i32, text: &str, environment: &Environment) -> Result<Value> {
    if ty.is_array || ty.scalar == Scalar::Jsonb {
        environment.memory.check_parts(text.as_bytes())?;
    }
    if ty.is_array {
        return array::parse(ty.scalar, modifier, text, environment).map(Value::array);
    }
    let value = match ty.scalar {
        Scalar::Bool => Value::Bool(parse_bool(text)?),
        Scalar::Int2 => Value::Int2(number::parse_integer(text, ty, i16::MIN.into(), i16::MAX.into())? as i16),
        Scalar::Int4 => Value::Int4(number::parse_integer(text, ty, i32::MIN.into(), i32::MAX.into())? as i32),
        Scalar::Int8 => Value::Int8(number::parse_integer(text, ty, i64::MIN, i64::MAX)?),
        Scalar::Float4 => Value::Float4(number::parse_f32(text)?),
        Scalar::Float8 => Value::Float8(number::parse_f64(text)?),
        Scalar::Numeric => Value::Numeric(text.parse()?),
        Scalar::Char => Value::Char(text.into()),
        Scalar::Varchar | Scalar::Text | Scalar::Name => Value::text(text),
        Scalar::InternalChar => Value::text(internal_char(text)),
        Scalar::Bytea => Value::Bytea(bytes::parse(text)?.into()),
        Scalar::Date => Value::Date(datetime::parse_date(text, environment)?),
        Scalar::Time => Value::Time(datetime::parse_time(text, environment)?),
        Scalar::Timestamp => Value::Timestamp(datetime::parse_timestamp(text, environment)?),
        Scalar::TimestampTz => Value::TimestampTz(datetime::parse_timestamptz(text, environment)?),
        Scalar::Interval => datetime::parse_interval(text, modifier, environment.style.intervals)?,
        Scalar::Uuid => Value::Uuid(bytes::parse_uuid(text)?),
        Scalar::Jsonb => Value::json(text.parse::<Json>()?),
        Scalar::Json => Value::Json(super::json::raw::checked(text)?.into()),
        Scalar::Inet | Scalar::Cidr => Value::Inet(Inet::parse(text, ty.scalar == Scalar::Cidr)?),
        Scalar::Jsonpath => Value::Jsonpath(text.parse::<JsonPath>()?.to_string().into()),
        Scalar::Macaddr => Value::Macaddr(network::parse_macaddr(text)?),
        Scalar::TimeTz => datetime::parse_timetz(text, environment)?,
        Scalar::Oid => Value::Oid(number::parse_oid(text)?),
        Scalar::Enum(of) => environment.parse_label(of, text)?,
        Scalar::Bit | Scalar::Varbit => {
            environment.memory.check(text.len())?;
            Value::bits(Bits::parse(text)?)
        }
        Scalar::Macaddr8 => Value::Macaddr8(network::parse_macaddr8(text)?),
        Scalar::Record => return Err(no_input()),
    };
    cast::with_modifier(value, ty, modifier, false)
}

fn parse_bool(text: &str) -> Result<bool> {
    let word = text.trim_matches(is_space).to_ascii_lowercase();
    // Any unambiguous beginning; "o" begins both "on" and "off".
    let begins = |whole: &str, least: usize| word.len() >= least && whole.starts_with(&word);
    if begins("true", 1) || begins("yes", 1) || word == "on" || word == "1" {
        Ok(true)
    } else if begins("false", 1) || begins("no", 1) || begins("off", 2) || word == "0" {
        Ok(false)
    } else {
        Err(invalid("boolean", text))
    }
}

/// Appends a value's text. NULL has none.
pub fn write(value: &Value, ty: SqlType, environment: &Environment, out: &mut String) {
    debug_assert!(!value.is_null(), "NULL has no text");
    // Writing to a string does not fail.
    let _ = match value {
        Value::Null => Ok(()),
        Value::Bool(value) => out.write_char(if *value { 't' } else { 'f' }),
        Value::Int2(value) => write!(out, "{value}"),
        Value::Int4(value) => write!(out, "{value}"),
        Value::Int8(value) => write!(out, "{value}"),
        Value::Float4(value) => write_f32(*value, out),
        Value::Float8(value) => write_f64(*value, out),
        Value::Numeric(value) => write!(out, "{value}"),
        Value::Text(value) | Value::Char(value) => out.write_str(value),
        Value::Json(value) | Value::Jsonpath(value) => out.write_str(value),
        Value::Bytea(value) => bytes::write(value, out),
        Value::Date(value) => datetime::write_date(*value, environment.style, out),
        Value::Time(value) => datetime::write_time(*value, out),
        Value::Timestamp(value) => datetime::write_timestamp(*value, environment.style, out),
        Value::TimestampTz(value) => {
            datetime::write_timestamptz(*value, &environment.time_zone, environment.style, out)
        }
        Value::Interval { months, days, micros } => {
            datetime::write_interval(*months, *days, *micros, environment.style.intervals, out)
        }
        Value::Uuid(value) => bytes::write_uuid(value, out),
        Value::Jsonb(value) => write!(out, "{value}"),
        Value::Oid(value) => write!(out, "{value}"),
        Value::Enum { of, position } => out.write_str(&environment.label(*of, *position)),
        Value::Inet(value) => value.write(out),
        Value::Macaddr(value) => network::write_macaddr(value, out),
        Value::TimeTz { micros, ahead } => datetime::write_timetz(*micros, *ahead, out),
        Value::Array(value) => array::write(value, ty, environment, out),
        Value::Record(value) => write_record(value, environment, out),
        Value::Bit(value) => value.write(out),
        Value::Macaddr8(value) => network::write_macaddr(value, out),
    };
}

/// Appends the values between parentheses; NULL is an empty place, and a value that could be taken for something else
/// is put in quotes.
fn write_record(record: &Record, environment: &Environment, out: &mut String) -> std::fmt::Result {
    let needs_quotes = |letter: char| matches!(letter, '"' | '\\' | '(' | ')' | ',') || is_space(letter);
    out.push('(');
    for (at, (field, value)) in record.columns().enumerate() {
        out.push_str(if at > 0 { "," } else { "" });
        if value.is_null() {
            continue;
        }
        let start = out.len();
        write(value, field.ty, environment, out);
        if out.len() == start || out[start..].contains(needs_quotes) {
            let text = out.split_off(start);
            out.push('"');
            for letter in text.chars() {
                if matches!(letter, '"' | '\\') {
                    out.push(letter);
                }
                out.push(letter);
            }
            out.push('"');
        }
    }
    out.write_char(')')
}

/// Returns a value's text.
pub fn to_string(value: &Value, ty: SqlType, environment: &Environment) -> String {
    let mut out = String::new();
    write(value, ty, environment, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::random_value;

    fn round(ty: SqlType, text: &str) -> String {
        let environment = Environment::default();
        to_string(&parse(ty, -1, text, &environment).unwrap(), ty, &environment)
    }

    #[test]
    fn simple_values_have_postgresqls_texts() {
        assert_eq!(round(SqlType::BOOL, " tR "), "t");
        assert_eq!(round(SqlType::BOOL, "of"), "f");
        assert_eq!(round(SqlType::INT4, " -17 "), "-17");
        assert_eq!(round(SqlType::OID, "4294967295"), "4294967295");
        assert_eq!(round(SqlType::OID, "-1"), "4294967295");
        assert_eq!(round(SqlType::BYTEA, r"\xDEADbeef"), r"\xdeadbeef");
        assert_eq!(round(SqlType::BYTEA, r"a\\b\000"), r"\x615c6200");
        let uuid = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        assert_eq!(round(SqlType::UUID, "{A0EEBC999c0b4ef8-bb6d6bb9-bd380a11}"), uuid);
    }

    #[test]
    fn errors_have_postgresqls_words() {
        let error = |ty: SqlType, text: &str| {
            parse(ty, -1, text, &Environment::default()).unwrap_err().report().message.clone()
        };
        assert_eq!(error(SqlType::INT4, "x"), "invalid input syntax for type integer: \"x\"");
        assert_eq!(error(SqlType::INT2, "32768"), "value \"32768\" is out of range for type smallint");
        assert_eq!(error(SqlType::FLOAT8, "1e400"), "\"1e400\" is out of range for type double precision");
        assert_eq!(error(SqlType::BOOL, "o"), "invalid input syntax for type boolean: \"o\"");
    }

    #[test]
    fn texts_come_back() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let environment = Environment::default();
        for ty in SqlType::all() {
            for _ in 0..1000 {
                let value = random_value(ty, &mut random);
                let text = to_string(&value, ty, &environment);
                let back = parse(ty, -1, &text, &environment).unwrap_or_else(|error| panic!("{ty} {text}: {error}"));
                assert_eq!(to_string(&back, ty, &environment), text, "{ty}");
                assert!(crate::order::compare(&value, &back, ty).is_eq(), "{ty} {value:?} {back:?}");
            }
        }
    }

    #[test]
    fn no_text_panics() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let environment = Environment::default();
        let letters: Vec<char> = "0123456789+-.:, eEinfatyTZBCpm{}[]\"\\x/\u{e9}".chars().collect();
        for ty in SqlType::all() {
            for _ in 0..3000 {
                let mut text: Vec<char> = to_string(&random_value(ty, &mut random), ty, &environment).chars().collect();
                if random.bool() {
                    text.clear();
                }
                for _ in 0..random.usize(..12) {
                    let at = random.usize(..=text.len());
                    text.insert(at, *random.choice(&letters).unwrap());
                    if random.bool() {
                        text.remove(random.usize(..text.len()));
                    }
                }
                let text: String = text.into_iter().collect();
                if let Ok(value) = parse(ty, -1, &text, &environment) {
                    to_string(&value, ty, &environment);
                }
            }
        }
    }
}
