//! Values from and to PostgreSQL's binary formats.

use crate::error::{Result, SqlError, SqlState};

use super::{
    Array, Environment, Json, Numeric, Scalar, SqlType, Value,
    array::{DIMENSIONS_MAX, Dimension, ELEMENTS_MAX, too_large},
    bits::Bits,
    cast,
    json::{self, jsonpath::JsonPath},
    network::Inet,
    order::MICROS_PER_DAY,
    record::{Record, no_input},
};

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
}

fn insufficient() -> SqlError {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, "insufficient data left in message")
}

/// Reads a value of a type, with the modifier's length, precision or scale applied as on assignment.
pub fn read(ty: SqlType, modifier: i32, bytes: &[u8], environment: &Environment) -> Result<Value> {
    if ty.is_array {
        return read_array(ty.scalar, modifier, bytes, environment).map(Value::array);
    }
    let value = match ty.scalar {
        Scalar::Bool => Value::Bool(exact::<1>(bytes)?[0] != 0),
        Scalar::Int2 => Value::Int2(i16::from_be_bytes(exact(bytes)?)),
        Scalar::Int4 => Value::Int4(i32::from_be_bytes(exact(bytes)?)),
        Scalar::Int8 => Value::Int8(i64::from_be_bytes(exact(bytes)?)),
        Scalar::Float4 => Value::Float4(f32::from_be_bytes(exact(bytes)?)),
        Scalar::Float8 => Value::Float8(f64::from_be_bytes(exact(bytes)?)),
        Scalar::Numeric => Value::Numeric(Numeric::read_binary(bytes)?),
        Scalar::Char => Value::Char(text(bytes)?.into()),
        Scalar::Varchar | Scalar::Text | Scalar::Name => Value::text(text(bytes)?),
        Scalar::InternalChar => Value::text(super::text::char_of_byte(exact::<1>(bytes)?[0])),
        Scalar::Bytea => Value::Bytea(bytes.into()),
        Scalar::Date => match i32::from_be_bytes(exact(bytes)?) {
            days if super::datetime::is_date(days) => Value::Date(days),
            _ => return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range")),
        },
        Scalar::Time => match i64::from_be_bytes(exact(bytes)?) {
            micros @ 0..=MICROS_PER_DAY => Value::Time(micros),
            _ => return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "time out of range")),
        },
        Scalar::Timestamp => Value::Timestamp(timestamp(bytes)?),
        Scalar::TimestampTz => Value::TimestampTz(timestamp(bytes)?),
        Scalar::Interval => {
            let bytes: [u8; 16] = exact(bytes)?;
            let [m0, m1, m2, m3, m4, m5, m6, m7, d0, d1, d2, d3, n0, n1, n2, n3] = bytes;
            Value::Interval {
                micros: i64::from_be_bytes([m0, m1, m2, m3, m4, m5, m6, m7]),
                days: i32::from_be_bytes([d0, d1, d2, d3]),
                months: i32::from_be_bytes([n0, n1, n2, n3]),
            }
        }
        Scalar::Uuid => Value::Uuid(exact(bytes)?),
        Scalar::Jsonb => match bytes {
            [] => return Err(insufficient()),
            [JSONB_VERSION, rest @ ..] => {
                environment.memory.check_parts(rest)?;
                Value::json(text(rest)?.parse::<Json>()?)
            }
            [version, ..] => {
                return Err(SqlError::new(
                    SqlState::INTERNAL_ERROR,
                    format!("unsupported jsonb version number {version}"),
                ));
            }
        },
        Scalar::Json => Value::Json(json::raw::checked(text(bytes)?)?.into()),
        Scalar::Inet | Scalar::Cidr => Value::Inet(Inet::read_binary(bytes, ty.scalar == Scalar::Cidr)?),
        Scalar::Jsonpath => match bytes {
            [] => return Err(insufficient()),
            [JSONB_VERSION, rest @ ..] => Value::Jsonpath(text(rest)?.parse::<JsonPath>()?.to_string().into()),
            [version, ..] => {
                let message = format!("unsupported jsonpath version number: {version}");
                return Err(SqlError::new(SqlState::INTERNAL_ERROR, message));
            }
        },
        Scalar::Macaddr => Value::Macaddr(exact(bytes)?),
        Scalar::TimeTz => time_with_zone(bytes)?,
        Scalar::Oid => Value::Oid(u32::from_be_bytes(exact(bytes)?)),
        Scalar::Enum(of) => environment.parse_label(of, text(bytes)?)?,
        Scalar::Bit | Scalar::Varbit => {
            Value::bits(Bits::read_binary(bytes).ok_or_else(|| invalid("invalid length in external bit string"))?)
        }
        Scalar::Macaddr8 => match bytes {
            [a, b, c, d, e, f] => Value::Macaddr8([*a, *b, *c, 0xff, 0xfe, *d, *e, *f]),
            bytes => Value::Macaddr8(exact(bytes)?),
        },
        Scalar::Record => return Err(no_input()),
    };
    cast::with_modifier(value, ty, modifier, false)
}

const JSONB_VERSION: u8 = 1;

fn exact<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    match bytes.split_first_chunk::<N>() {
        Some((exact, [])) => Ok(*exact),
        Some(_) => Err(invalid("incorrect binary data format")),
        None => Err(insufficient()),
    }
}

fn text(bytes: &[u8]) -> Result<&str> {
    let bad = |at: usize| {
        let byte = bytes.get(at).copied().unwrap_or(0);
        SqlError::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            format!("invalid byte sequence for encoding \"UTF8\": 0x{byte:02x}"),
        )
    };
    let text = std::str::from_utf8(bytes).map_err(|error| bad(error.valid_up_to()))?;
    match text.bytes().position(|byte| byte == 0) {
        Some(at) => Err(bad(at)),
        None => Ok(text),
    }
}

fn timestamp(bytes: &[u8]) -> Result<i64> {
    let micros = i64::from_be_bytes(exact(bytes)?);
    if super::datetime::is_timestamp(micros) {
        Ok(micros)
    } else {
        Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range"))
    }
}

/// Seconds that clocks may be from UTC, at most.
const AHEAD_MAX: i32 = 16 * 3600;

fn time_with_zone(bytes: &[u8]) -> Result<Value> {
    let [m0, m1, m2, m3, m4, m5, m6, m7, z0, z1, z2, z3] = exact::<12>(bytes)?;
    let micros = i64::from_be_bytes([m0, m1, m2, m3, m4, m5, m6, m7]);
    let west = i32::from_be_bytes([z0, z1, z2, z3]);
    if !(0..=MICROS_PER_DAY).contains(&micros) {
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "time out of range"));
    }
    if west <= -AHEAD_MAX || west >= AHEAD_MAX {
        return Err(SqlError::new(SqlState("22009"), "time zone displacement out of range"));
    }
    Ok(Value::TimeTz { micros, ahead: -west })
}

/// Appends a value's binary form. NULL has none.
pub fn write(value: &Value, ty: SqlType, environment: &Environment, out: &mut Vec<u8>) {
    debug_assert!(!value.is_null(), "NULL has no binary form");
    match value {
        Value::Null => {}
        Value::Bool(value) => out.push(u8::from(*value)),
        Value::Int2(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Int4(value) | Value::Date(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Int8(value) | Value::Time(value) | Value::Timestamp(value) | Value::TimestampTz(value) => {
            out.extend_from_slice(&value.to_be_bytes());
        }
        Value::Float4(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Float8(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Numeric(value) => value.write_binary(out),
        Value::Text(value) if ty == SqlType::INTERNAL_CHAR => out.push(super::text::byte_of_char(value)),
        Value::Text(value) | Value::Char(value) => out.extend_from_slice(value.as_bytes()),
        Value::Bytea(value) => out.extend_from_slice(value),
        Value::Json(value) => out.extend_from_slice(value.as_bytes()),
        Value::Interval { months, days, micros } => {
            out.extend_from_slice(&micros.to_be_bytes());
            out.extend_from_slice(&days.to_be_bytes());
            out.extend_from_slice(&months.to_be_bytes());
        }
        Value::Uuid(value) => out.extend_from_slice(value),
        Value::Jsonb(value) => {
            out.push(JSONB_VERSION);
            out.extend_from_slice(value.to_string().as_bytes());
        }
        Value::Oid(value) => out.extend_from_slice(&value.to_be_bytes()),
        Value::Enum { of, position } => out.extend_from_slice(environment.label(*of, *position).as_bytes()),
        Value::Inet(value) => value.write_binary(out),
        Value::Jsonpath(value) => {
            out.push(JSONB_VERSION);
            out.extend_from_slice(value.as_bytes());
        }
        Value::Macaddr(value) => out.extend_from_slice(value),
        Value::TimeTz { micros, ahead } => {
            out.extend_from_slice(&micros.to_be_bytes());
            // PostgreSQL counts to the west.
            out.extend_from_slice(&(-ahead).to_be_bytes());
        }
        Value::Array(value) => write_array(value, ty, environment, out),
        Value::Record(value) => write_record(value, environment, out),
        Value::Bit(value) => {
            out.extend_from_slice(&(value.length() as i32).to_be_bytes());
            out.extend_from_slice(value.bytes());
        }
        Value::Macaddr8(value) => out.extend_from_slice(value),
    }
}

/// The length that marks a NULL.
const NULL_LENGTH: i32 = -1;

fn write_array(array: &Array, ty: SqlType, environment: &Environment, out: &mut Vec<u8>) {
    let element = SqlType::scalar(ty.scalar);
    let has_null = array.elements().iter().any(Value::is_null);
    out.extend_from_slice(&(array.dimensions().len() as i32).to_be_bytes());
    out.extend_from_slice(&i32::from(has_null).to_be_bytes());
    out.extend_from_slice(&element.oid().to_be_bytes());
    for Dimension { length, lower } in array.dimensions() {
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&lower.to_be_bytes());
    }
    array.elements().iter().for_each(|value| write_part(value, element, environment, out));
}

/// Writes the number of values; each has its type before it.
fn write_record(record: &Record, environment: &Environment, out: &mut Vec<u8>) {
    out.extend_from_slice(&(record.values().len() as i32).to_be_bytes());
    for (field, value) in record.columns() {
        out.extend_from_slice(&field.ty.oid().to_be_bytes());
        write_part(value, field.ty, environment, out);
    }
}

/// Writes a value behind its length.
fn write_part(value: &Value, ty: SqlType, environment: &Environment, out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(&NULL_LENGTH.to_be_bytes());
    if !value.is_null() {
        write(value, ty, environment, out);
        let length = (out.len() - at - 4) as i32;
        out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }
}

fn read_array(element: Scalar, modifier: i32, bytes: &[u8], environment: &Environment) -> Result<Array> {
    let mut rest = bytes;
    let mut word = || -> Result<i32> {
        let (word, others) = rest.split_first_chunk::<4>().ok_or_else(insufficient)?;
        rest = others;
        Ok(i32::from_be_bytes(*word))
    };
    let count = word()?;
    let flags = word()?;
    let oid = word()? as u32;
    let element_type = SqlType::scalar(element);
    if !(0..=DIMENSIONS_MAX as i32).contains(&count) {
        return Err(invalid(format!("invalid number of dimensions: {count}")));
    }
    if !(0..=1).contains(&flags) {
        return Err(invalid("invalid array flags"));
    }
    if oid != element_type.oid() {
        return Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!(
                "binary data has array element type {oid} instead of expected {} ({})",
                element_type.oid(),
                element_type.name()
            ),
        ));
    }
    let mut dimensions = Vec::new();
    for _ in 0..count {
        let length = u32::try_from(word()?).map_err(|_| too_large())?;
        dimensions.push(Dimension { length, lower: word()? });
    }
    let product = dimensions
        .iter()
        .try_fold(usize::from(count > 0), |product, dimension| product.checked_mul(dimension.length as usize))
        .filter(|&product| product <= ELEMENTS_MAX)
        .ok_or_else(too_large)?;
    // Each element takes at least its length word.
    if product > rest.len() / 4 {
        return Err(insufficient());
    }
    environment.memory.check(product * size_of::<Value>())?;
    let mut elements = Vec::with_capacity(product);
    for _ in 0..product {
        let (length, others) = rest.split_first_chunk::<4>().ok_or_else(insufficient)?;
        rest = others;
        elements.push(match i32::from_be_bytes(*length) {
            NULL_LENGTH => Value::Null,
            length => {
                let length = usize::try_from(length).map_err(|_| insufficient())?;
                let (bytes, others) = rest.split_at_checked(length).ok_or_else(insufficient)?;
                rest = others;
                read(element_type, modifier, bytes, environment)?
            }
        });
    }
    if !rest.is_empty() {
        return Err(invalid("incorrect binary data format"));
    }
    Array::with_dimensions(element, &dimensions, elements).ok_or_else(too_large)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{random::random_value, record::Field};

    #[test]
    fn binary_forms_come_back() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for ty in SqlType::all() {
            for _ in 0..1000 {
                let value = random_value(ty, &mut random);
                let mut bytes = Vec::new();
                write(&value, ty, &Environment::default(), &mut bytes);
                let back = read(ty, -1, &bytes, &Environment::default())
                    .unwrap_or_else(|error| panic!("{ty} {value:?}: {error}"));
                assert_eq!(format!("{back:?}"), format!("{value:?}"), "{ty}");
            }
        }
    }

    #[test]
    fn records_have_their_types_before_their_values() {
        let fields = [("a", SqlType::INT4), ("b", SqlType::TEXT)].map(|(name, ty)| Field { name: name.into(), ty });
        let record = Record::new(fields.into(), vec![Value::Int4(7), Value::Null]).unwrap();
        let mut bytes = Vec::new();
        write(&Value::Record(Box::new(record)), SqlType::RECORD, &Environment::default(), &mut bytes);
        let words = bytes.chunks(4).map(|word| i32::from_be_bytes(exact(word).unwrap()));
        assert_eq!(words.collect::<Vec<_>>(), [2, 23, 4, 7, 25, NULL_LENGTH]);
        assert!(read(SqlType::RECORD, -1, &bytes, &Environment::default()).is_err());
    }

    #[test]
    fn no_bytes_panic() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for ty in SqlType::all() {
            for _ in 0..3000 {
                let mut bytes = Vec::new();
                write(&random_value(ty, &mut random), ty, &Environment::default(), &mut bytes);
                for _ in 0..random.usize(..4) {
                    if !bytes.is_empty() {
                        let at = random.usize(..bytes.len());
                        bytes[at] = random.u8(..);
                    }
                }
                bytes.truncate(random.usize(..=bytes.len()));
                let _ = read(ty, -1, &bytes, &Environment::default());
            }
        }
    }
}
