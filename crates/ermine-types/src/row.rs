//! The encoding of rows in the engine.
//!
//! ```text
//! number of columns (varint) | null bitmap, one bit a column | values that are not NULL, one after the other
//! ```
//!
//! | type | bytes |
//! |---|---|
//! | `boolean`, whole numbers, floats, dates and times, `interval`, `uuid`, `oid`, enumerations | fixed width, little-endian |
//! | `macaddr`, `macaddr8` | six bytes, eight bytes |
//! | `time with time zone` | eight and four bytes, little-endian |
//! | `bit`, `bit varying` | length (varint), number of bits (varint), bytes |
//! | texts, `bytea`, `jsonb`, arrays | length (varint), bytes |
//! | `inet`, `cidr` | length (varint), length of the netmask, address |
//! | `numeric` | class and scale (varint); coefficient: a zigzag varint, or length and bytes |
//!
//! A row may have fewer columns than its table has now: columns added since are not in it. Data from disk may be
//! damaged, so every length is checked; a row that does not fit its types is an error (`XX001`).

use num_bigint::BigInt;

use crate::error::{Result, SqlError, SqlState};

use super::{
    Array, Json, Numeric, Scalar, SqlType, Value, array::Dimension, bits::Bits, json::DEPTH_MAX, network::Inet,
    numeric::Parts,
};

/// Bytes of a length, at most, if it is not of a very long value.
const LENGTH_BYTES: usize = 4;
/// Bytes of a value of fixed width, at most.
const WIDTH_MAX: usize = 16;

pub(crate) fn damaged() -> SqlError {
    SqlError::new(SqlState::DATA_CORRUPTED, "stored row is damaged")
}

/// Returns the bytes of a row.
pub fn row_bytes(values: &[Value]) -> Vec<u8> {
    let lengths = values.iter().map(|value| match value {
        Value::Null => 0,
        Value::Text(value) | Value::Char(value) => value.len() + LENGTH_BYTES,
        Value::Bytea(value) => value.len() + LENGTH_BYTES,
        _ => WIDTH_MAX,
    });
    // Enough for most rows, so that few grow.
    let mut out = Vec::with_capacity(LENGTH_BYTES + values.len() / 8 + lengths.sum::<usize>());
    write_row(values, &mut out);
    out
}

/// Appends the bytes of a row.
pub fn write_row(values: &[Value], out: &mut Vec<u8>) {
    write_varint(values.len() as u64, out);
    write_nulls_and_values(values, out);
}

fn write_nulls_and_values(values: &[Value], out: &mut Vec<u8>) {
    for eight in values.chunks(8) {
        out.push(eight.iter().enumerate().fold(0, |bits, (at, value)| bits | u8::from(value.is_null()) << at));
    }
    values.iter().for_each(|value| write_value(value, out));
}

/// Writes little-endian groups of seven bits; the highest bit says that more follow.
pub(crate) fn write_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    write_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends the output of `write`, preceded by its length.
fn write_nested(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut nested = Vec::new();
    write(&mut nested);
    write_bytes(&nested, out);
}

pub(crate) fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => {}
        Value::Bool(value) => out.push(u8::from(*value)),
        Value::Int2(value) => out.extend_from_slice(&value.to_le_bytes()),
        Value::Int4(value) | Value::Date(value) => out.extend_from_slice(&value.to_le_bytes()),
        Value::Int8(value) | Value::Time(value) | Value::Timestamp(value) | Value::TimestampTz(value) => {
            out.extend_from_slice(&value.to_le_bytes());
        }
        Value::Float4(value) => out.extend_from_slice(&value.to_le_bytes()),
        Value::Float8(value) => out.extend_from_slice(&value.to_le_bytes()),
        Value::Numeric(value) => write_numeric(value, out),
        Value::Text(value) | Value::Char(value) => write_bytes(value.as_bytes(), out),
        Value::Bytea(value) => write_bytes(value, out),
        Value::Json(value) | Value::Jsonpath(value) => write_bytes(value.as_bytes(), out),
        Value::Interval { months, days, micros } => {
            out.extend_from_slice(&months.to_le_bytes());
            out.extend_from_slice(&days.to_le_bytes());
            out.extend_from_slice(&micros.to_le_bytes());
        }
        Value::Uuid(value) => out.extend_from_slice(value),
        Value::Oid(value) => out.extend_from_slice(&value.to_le_bytes()),
        Value::Enum { position, .. } => out.extend_from_slice(&position.to_le_bytes()),
        Value::Jsonb(value) => write_nested(out, |out| write_json(value, out)),
        Value::Inet(value) => write_nested(out, |out| value.write_stored(out)),
        Value::Macaddr(value) => out.extend_from_slice(value),
        Value::TimeTz { micros, ahead } => {
            out.extend_from_slice(&micros.to_le_bytes());
            out.extend_from_slice(&ahead.to_le_bytes());
        }
        Value::Array(value) => write_nested(out, |out| write_array(value, out)),
        Value::Record(_) => debug_assert!(false, "no column has records"),
        Value::Bit(value) => write_nested(out, |out| {
            write_varint(value.length().into(), out);
            out.extend_from_slice(value.bytes());
        }),
        Value::Macaddr8(value) => out.extend_from_slice(value),
    }
}

/// First words of numbers: the special ones, then twice the scale, plus one if the coefficient is long.
const NAN: u64 = 0;
const INFINITY: u64 = 1;
const NEGATIVE_INFINITY: u64 = 2;
const FIRST_SCALE: u64 = 3;

fn write_numeric(number: &Numeric, out: &mut Vec<u8>) {
    match number.parts() {
        Parts::NaN => write_varint(NAN, out),
        Parts::Infinity => write_varint(INFINITY, out),
        Parts::NegativeInfinity => write_varint(NEGATIVE_INFINITY, out),
        Parts::Small(coefficient, scale) => {
            write_varint(FIRST_SCALE + 2 * u64::from(scale), out);
            write_varint(((coefficient << 1) ^ (coefficient >> 63)) as u64, out);
        }
        Parts::Large(coefficient, scale) => {
            write_varint(FIRST_SCALE + 2 * u64::from(scale) + 1, out);
            write_bytes(&coefficient.to_signed_bytes_le(), out);
        }
    }
}

fn write_json(json: &Json, out: &mut Vec<u8>) {
    match json {
        Json::Null => out.push(0),
        Json::Bool(false) => out.push(1),
        Json::Bool(true) => out.push(2),
        Json::Number(number) => {
            out.push(3);
            write_numeric(number, out);
        }
        Json::String(text) => {
            out.push(4);
            write_bytes(text.as_bytes(), out);
        }
        Json::Array(elements) => {
            out.push(5);
            write_varint(elements.len() as u64, out);
            elements.iter().for_each(|element| write_json(element, out));
        }
        Json::Object(pairs) => {
            out.push(6);
            write_varint(pairs.len() as u64, out);
            for (key, value) in pairs {
                write_bytes(key.as_bytes(), out);
                write_json(value, out);
            }
        }
    }
}

fn write_array(array: &Array, out: &mut Vec<u8>) {
    let dimensions = array.dimensions();
    out.push(dimensions.len() as u8);
    for dimension in dimensions {
        write_varint(dimension.length.into(), out);
        out.extend_from_slice(&dimension.lower.to_le_bytes());
    }
    write_nulls_and_values(array.elements(), out);
}

/// A row's bytes, decoded column by column.
#[derive(Clone, Copy, Debug)]
pub struct RowReader<'a> {
    types: &'a [SqlType],
    stored: usize,
    nulls: &'a [u8],
    values: &'a [u8],
}

impl<'a> RowReader<'a> {
    /// Opens a row of a table with these columns; the row has all of them or the first few.
    // Inlined, so that the parts of the reader are in registers.
    #[inline]
    pub fn new(bytes: &'a [u8], types: &'a [SqlType]) -> Result<Self> {
        let mut input = Input(bytes);
        let stored = usize::try_from(input.varint()?).ok().filter(|&stored| stored <= types.len());
        let stored = stored.ok_or_else(damaged)?;
        let nulls = input.take(stored.div_ceil(8))?;
        Ok(Self { types, stored, nulls, values: input.0 })
    }

    /// Returns the number of stored columns.
    pub fn stored(&self) -> usize {
        self.stored
    }

    fn is_null(&self, column: usize) -> bool {
        is_bit_set(self.nulls, column)
    }

    /// Appends the values of all stored columns.
    pub fn read_all(&self, out: &mut Vec<Value>) -> Result<()> {
        let mut input = Input(self.values);
        out.reserve(self.stored);
        for (column, ty) in self.types[..self.stored].iter().enumerate() {
            out.push(Value::Null);
            if !self.is_null(column) {
                let at = out.len() - 1;
                input.value_into(*ty, &mut out[at])?;
            }
        }
        if input.0.is_empty() { Ok(()) } else { Err(damaged()) }
    }

    /// Puts the values of these columns into `row`, each at the column's number, without decoding others. Columns that
    /// are not stored are NULL here; the caller knows their defaults. Ascending columns are read in one pass. Panics if
    /// `row` ends before one of the columns.
    pub fn read_into(&self, columns: &[usize], row: &mut [Value]) -> Result<()> {
        let mut input = Input(self.values);
        let mut next = 0;
        for &column in columns {
            if column >= self.stored || self.is_null(column) {
                row[column] = Value::Null;
                continue;
            }
            if column < next {
                (input, next) = (Input(self.values), 0);
            }
            for passed in next..column {
                if !self.is_null(passed) {
                    input.skip(self.types[passed])?;
                }
            }
            input.value_into(self.types[column], &mut row[column])?;
            next = column + 1;
        }
        Ok(())
    }
}

fn is_bit_set(bits: &[u8], at: usize) -> bool {
    bits[at / 8] >> (at % 8) & 1 == 1
}

/// The unread input.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(damaged)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn bool(&mut self) -> Result<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(damaged()),
        }
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(damaged())
    }

    /// Reads a number of items each of which takes at least one byte, so that damaged data never reserves more memory
    /// than there is input.
    fn count(&mut self) -> Result<usize> {
        usize::try_from(self.varint()?).ok().filter(|&count| count <= self.0.len()).ok_or_else(damaged)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(self.varint()?).map_err(|_| damaged())?;
        self.take(length)
    }

    fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| damaged())
    }

    fn skip(&mut self, ty: SqlType) -> Result<()> {
        use Scalar::{
            Bit, Bool, Bytea, Char, Cidr, Date, Enum, Float4, Float8, Inet, Int2, Int4, Int8, InternalChar, Interval,
            Json, Jsonb, Jsonpath, Macaddr, Macaddr8, Name, Numeric, Oid, Record, Text, Time, TimeTz, Timestamp,
            TimestampTz, Uuid, Varbit, Varchar,
        };
        if ty.is_array {
            return self.bytes().map(drop);
        }
        let length = match ty.scalar {
            Bool => 1,
            Int2 => 2,
            Int4 | Float4 | Date | Oid => 4,
            Int8 | Float8 | Time | Timestamp | TimestampTz | Enum(_) | Macaddr8 => 8,
            Macaddr => 6,
            TimeTz => 12,
            Interval | Uuid => 16,
            Char | Varchar | Text | Name | InternalChar | Bytea | Json | Jsonb | Jsonpath | Inet | Cidr | Bit
            | Varbit => {
                return self.bytes().map(drop);
            }
            Numeric => match self.varint()? {
                ..FIRST_SCALE => 0,
                head if (head - FIRST_SCALE).is_multiple_of(2) => return self.varint().map(drop),
                _ => return self.bytes().map(drop),
            },
            Record => return Err(damaged()),
        };
        self.take(length).map(drop)
    }

    /// Reads a value into its place. The frequent ones are written where they stay, for the reason that
    /// [`Value::clone`] has.
    #[inline]
    pub(crate) fn value_into(&mut self, ty: SqlType, place: &mut Value) -> Result<()> {
        match ty {
            SqlType::INT4 => *place = Value::Int4(i32::from_le_bytes(self.array()?)),
            SqlType::INT8 => *place = Value::Int8(i64::from_le_bytes(self.array()?)),
            SqlType::TEXT | SqlType::VARCHAR => *place = Value::Text(self.text()?.into()),
            SqlType::BOOL => *place = Value::Bool(self.bool()?),
            SqlType::FLOAT8 => *place = Value::Float8(f64::from_le_bytes(self.array()?)),
            SqlType::DATE => *place = Value::Date(i32::from_le_bytes(self.array()?)),
            SqlType::TIMESTAMP => *place = Value::Timestamp(i64::from_le_bytes(self.array()?)),
            SqlType::TIMESTAMPTZ => *place = Value::TimestampTz(i64::from_le_bytes(self.array()?)),
            _ => *place = self.value(ty)?,
        }
        Ok(())
    }

    fn value(&mut self, ty: SqlType) -> Result<Value> {
        if ty.is_array {
            let mut nested = Input(self.bytes()?);
            return nested.array_of(ty.scalar).map(Value::array);
        }
        Ok(match ty.scalar {
            Scalar::Bool => Value::Bool(self.bool()?),
            Scalar::Int2 => Value::Int2(i16::from_le_bytes(self.array()?)),
            Scalar::Int4 => Value::Int4(i32::from_le_bytes(self.array()?)),
            Scalar::Int8 => Value::Int8(i64::from_le_bytes(self.array()?)),
            Scalar::Float4 => Value::Float4(f32::from_le_bytes(self.array()?)),
            Scalar::Float8 => Value::Float8(f64::from_le_bytes(self.array()?)),
            Scalar::Numeric => Value::Numeric(self.numeric()?),
            Scalar::Char => Value::Char(self.text()?.into()),
            Scalar::Varchar | Scalar::Text | Scalar::Name | Scalar::InternalChar => Value::text(self.text()?),
            Scalar::Bytea => Value::Bytea(self.bytes()?.into()),
            Scalar::Json => Value::Json(self.text()?.into()),
            Scalar::Date => Value::Date(i32::from_le_bytes(self.array()?)),
            Scalar::Time => Value::Time(i64::from_le_bytes(self.array()?)),
            Scalar::Timestamp => Value::Timestamp(i64::from_le_bytes(self.array()?)),
            Scalar::TimestampTz => Value::TimestampTz(i64::from_le_bytes(self.array()?)),
            Scalar::Interval => Value::Interval {
                months: i32::from_le_bytes(self.array()?),
                days: i32::from_le_bytes(self.array()?),
                micros: i64::from_le_bytes(self.array()?),
            },
            Scalar::Uuid => Value::Uuid(self.array()?),
            Scalar::Inet | Scalar::Cidr => {
                let inet = Inet::read_stored(self.bytes()?, ty.scalar == Scalar::Cidr);
                Value::Inet(inet.ok_or_else(damaged)?)
            }
            Scalar::Jsonpath => Value::Jsonpath(self.text()?.into()),
            Scalar::Macaddr => Value::Macaddr(self.array()?),
            Scalar::TimeTz => {
                Value::TimeTz { micros: i64::from_le_bytes(self.array()?), ahead: i32::from_le_bytes(self.array()?) }
            }
            Scalar::Oid => Value::Oid(u32::from_le_bytes(self.array()?)),
            Scalar::Enum(of) => Value::Enum { of, position: i64::from_le_bytes(self.array()?) },
            Scalar::Bit | Scalar::Varbit => {
                let mut nested = Input(self.bytes()?);
                let length = u32::try_from(nested.varint()?).ok();
                let bits = length.and_then(|length| Bits::of_stored(length, nested.0));
                Value::bits(bits.ok_or_else(damaged)?)
            }
            Scalar::Macaddr8 => Value::Macaddr8(self.array()?),
            Scalar::Record => return Err(damaged()),
            Scalar::Jsonb => {
                let mut nested = Input(self.bytes()?);
                let json = nested.json(0)?;
                if !nested.0.is_empty() {
                    return Err(damaged());
                }
                Value::json(json)
            }
        })
    }

    fn numeric(&mut self) -> Result<Numeric> {
        let head = self.varint()?;
        if head < FIRST_SCALE {
            return Ok(match head {
                NAN => Numeric::NAN,
                INFINITY => Numeric::INFINITY,
                _ => Numeric::NEGATIVE_INFINITY,
            });
        }
        let scale = usize::try_from((head - FIRST_SCALE) / 2).map_err(|_| damaged())?;
        let number = if (head - FIRST_SCALE).is_multiple_of(2) {
            let zigzag = self.varint()?;
            Numeric::of_parts((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64), scale)
        } else {
            Numeric::new(BigInt::from_signed_bytes_le(self.bytes()?), scale)
        };
        number.map_err(|_| damaged())
    }

    fn json(&mut self, depth: usize) -> Result<Json> {
        if depth > DEPTH_MAX {
            return Err(damaged());
        }
        Ok(match self.byte()? {
            0 => Json::Null,
            1 => Json::Bool(false),
            2 => Json::Bool(true),
            3 => Json::Number(self.numeric()?),
            4 => Json::String(self.text()?.into()),
            5 => {
                let count = self.count()?;
                Json::Array((0..count).map(|_| self.json(depth + 1)).collect::<Result<_>>()?)
            }
            6 => {
                let count = self.count()?;
                Json::Object(
                    (0..count).map(|_| Ok((self.text()?.into(), self.json(depth + 1)?))).collect::<Result<_>>()?,
                )
            }
            _ => return Err(damaged()),
        })
    }

    fn array_of(&mut self, element: Scalar) -> Result<Array> {
        let count = self.byte()?;
        let dimensions = (0..count)
            .map(|_| {
                let length = u32::try_from(self.varint()?).map_err(|_| damaged())?;
                Ok(Dimension { length, lower: i32::from_le_bytes(self.array()?) })
            })
            .collect::<Result<Vec<_>>>()?;
        let product = dimensions.iter().try_fold(usize::from(count > 0), |product, dimension| {
            product.checked_mul(dimension.length as usize).filter(|&product| product / 8 <= self.0.len())
        });
        let length = product.ok_or_else(damaged)?;
        let nulls = self.take(length.div_ceil(8))?;
        let mut elements = Vec::with_capacity(length);
        for at in 0..length {
            let is_null = is_bit_set(nulls, at);
            elements.push(if is_null { Value::Null } else { self.value(SqlType::scalar(element))? });
        }
        if !self.0.is_empty() {
            return Err(damaged());
        }
        Array::with_dimensions(element, &dimensions, elements).ok_or_else(damaged)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::random::random_value;

    pub(crate) fn random_row(random: &mut fastrand::Rng) -> (Vec<SqlType>, Vec<Value>) {
        let all: Vec<_> = SqlType::all().collect();
        let types: Vec<_> = (0..random.usize(..20)).map(|_| *random.choice(&all).unwrap()).collect();
        let values =
            types.iter().map(|ty| if random.u8(..4) == 0 { Value::Null } else { random_value(*ty, random) }).collect();
        (types, values)
    }

    /// Compares as text, where NaN is equal to itself.
    fn text(values: &[Value]) -> String {
        format!("{values:?}")
    }

    #[test]
    fn rows_come_back() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..2000 {
            let (mut types, values) = random_row(&mut random);
            let bytes = row_bytes(&values);
            types.push(SqlType::INT4);
            let reader = RowReader::new(&bytes, &types).unwrap();
            assert_eq!(reader.stored(), values.len());
            let mut read = Vec::new();
            reader.read_all(&mut read).unwrap();
            assert_eq!(text(&read), text(&values));
            let columns: Vec<_> = (0..5).map(|_| random.usize(..types.len())).collect();
            let mut row = vec![Value::Bool(true); types.len()];
            reader.read_into(&columns, &mut row).unwrap();
            let expected: Vec<_> = (0..types.len())
                .map(|column| match columns.contains(&column) {
                    true => values.get(column).cloned().unwrap_or(Value::Null),
                    false => Value::Bool(true),
                })
                .collect();
            assert_eq!(text(&row), text(&expected));
        }
    }

    #[test]
    fn damage_is_an_error_and_no_panic() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            let (types, values) = random_row(&mut random);
            let mut bytes = row_bytes(&values);
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
            bytes.truncate(random.usize(..=bytes.len()));
            if let Ok(reader) = RowReader::new(&bytes, &types) {
                let mut read = Vec::new();
                let _ = reader.read_all(&mut read);
                let _ = reader.read_into(&[types.len(), 0, 1], &mut vec![Value::Null; types.len() + 2]);
            }
        }
    }
}
