//! A value.

use smol_str::SmolStr;

use super::{Array, Json, Numeric, SqlType};

/// A value of some type, or NULL.
///
/// `==` compares representations: 1.0 and 1.00 differ, and NaN differs from itself. SQL's order is
/// [`order::compare`](super::order::compare).
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// NULL, of any type.
    #[default]
    Null,
    /// `boolean`
    Bool(bool),
    /// `smallint`
    Int2(i16),
    /// `integer`
    Int4(i32),
    /// `bigint`
    Int8(i64),
    /// `real`
    Float4(f32),
    /// `double precision`
    Float8(f64),
    /// `numeric`
    Numeric(Numeric),
    /// `varchar`, `text`, `name`
    Text(SmolStr),
    /// `char(n)`: the blanks at its end do not count in comparisons.
    Char(SmolStr),
    /// `bytea`
    Bytea(Box<[u8]>),
    /// `date`: days since 2000-01-01; the least and the greatest number are minus and plus infinity.
    Date(i32),
    /// `time`: microseconds since midnight.
    Time(i64),
    /// `timestamp`: microseconds since 2000-01-01 00:00; the least and the greatest number are infinities.
    Timestamp(i64),
    /// `timestamp with time zone`: the same in UTC.
    TimestampTz(i64),
    /// `interval`
    Interval {
        /// Months.
        months: i32,
        /// Days.
        days: i32,
        /// Microseconds.
        micros: i64,
    },
    /// `uuid`
    Uuid([u8; 16]),
    /// `jsonb`
    Jsonb(Box<Json>),
    /// `json`
    Json(Box<str>),
    /// `oid`
    Oid(u32),
    /// An array of any of the others.
    Array(Box<Array>),
}

impl Value {
    /// Creates a text.
    pub fn text(text: impl Into<SmolStr>) -> Self {
        Self::Text(text.into())
    }

    /// Creates a `jsonb`.
    pub fn json(json: Json) -> Self {
        Self::Jsonb(Box::new(json))
    }

    /// Creates an array.
    pub fn array(array: Array) -> Self {
        Self::Array(Box::new(array))
    }

    /// Whether it is NULL.
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns the bytes of memory that it takes, approximately.
    pub fn bytes(&self) -> usize {
        fn of_json(json: &Json) -> usize {
            size_of::<Json>()
                + match json {
                    Json::String(text) => text.len(),
                    Json::Array(elements) => elements.iter().map(of_json).sum(),
                    Json::Object(pairs) => {
                        pairs.iter().map(|(key, value)| size_of::<Box<str>>() + key.len() + of_json(value)).sum()
                    }
                    Json::Number(number) => number.heap_bytes(),
                    Json::Null | Json::Bool(_) => 0,
                }
        }
        size_of::<Self>()
            + match self {
                Self::Text(text) | Self::Char(text) => text.len(),
                Self::Bytea(bytes) => bytes.len(),
                Self::Jsonb(json) => of_json(json),
                Self::Json(text) => text.len(),
                Self::Array(array) => size_of::<Array>() + array.elements().iter().map(Self::bytes).sum::<usize>(),
                Self::Numeric(number) => number.heap_bytes(),
                _ => 0,
            }
    }

    /// Returns the length of its text, approximately, if the text may be long.
    pub(crate) fn text_bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Char(text) => text.len(),
            // Two digits for each.
            Self::Bytea(bytes) => 2 * bytes.len(),
            Self::Json(text) => text.len(),
            Self::Jsonb(json) => json.text_bytes(),
            // In quotes, and with a backslash before some characters.
            Self::Array(array) => array.elements().iter().map(|element| 4 + 2 * element.text_bytes()).sum(),
            _ => size_of::<Self>(),
        }
    }

    /// Whether functions of it may take long. Does not descend into its parts.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        const BYTES: usize = 32 << 10;
        const ELEMENTS: usize = 1000;
        match self {
            Self::Text(text) | Self::Char(text) => text.len() > BYTES,
            Self::Bytea(bytes) => bytes.len() > BYTES,
            Self::Json(text) => text.len() > BYTES,
            Self::Array(array) => array.elements().len() > ELEMENTS,
            Self::Jsonb(json) => match &**json {
                Json::Array(elements) => elements.len() > ELEMENTS,
                Json::Object(pairs) => pairs.len() > ELEMENTS,
                _ => false,
            },
            Self::Numeric(number) => number.is_long(),
            _ => false,
        }
    }

    /// Returns the type of this kind of value; texts other than `char(n)` are `text` here, NULL has no type.
    pub fn natural_type(&self) -> Option<SqlType> {
        Some(match self {
            Self::Null => return None,
            Self::Bool(_) => SqlType::BOOL,
            Self::Int2(_) => SqlType::INT2,
            Self::Int4(_) => SqlType::INT4,
            Self::Int8(_) => SqlType::INT8,
            Self::Float4(_) => SqlType::FLOAT4,
            Self::Float8(_) => SqlType::FLOAT8,
            Self::Numeric(_) => SqlType::NUMERIC,
            Self::Text(_) => SqlType::TEXT,
            Self::Char(_) => SqlType::CHAR,
            Self::Bytea(_) => SqlType::BYTEA,
            Self::Date(_) => SqlType::DATE,
            Self::Time(_) => SqlType::TIME,
            Self::Timestamp(_) => SqlType::TIMESTAMP,
            Self::TimestampTz(_) => SqlType::TIMESTAMPTZ,
            Self::Interval { .. } => SqlType::INTERVAL,
            Self::Uuid(_) => SqlType::UUID,
            Self::Jsonb(_) => SqlType::JSONB,
            Self::Json(_) => SqlType::JSON,
            Self::Oid(_) => SqlType::OID,
            Self::Array(array) => SqlType::scalar(array.element).array(),
        })
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i32> for Value {
    fn from(value: i32) -> Self {
        Self::Int4(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int8(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float8(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.into())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value.into())
    }
}

impl From<Numeric> for Value {
    fn from(value: Numeric) -> Self {
        Self::Numeric(value)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::types::{Scalar, array::Dimension};

    /// Returns a number that is often small, often at an end of its range.
    fn random_integer(random: &mut fastrand::Rng) -> i64 {
        match random.u8(..4) {
            0 => random.i64(-3..=3),
            1 => random.i64(-100_000..=100_000),
            2 => random.i64(..),
            _ => *random.choice(&[i64::MIN, i64::MAX, i64::from(i32::MIN), i64::from(i32::MAX)]).unwrap(),
        }
    }

    fn random_float(random: &mut fastrand::Rng) -> f64 {
        match random.u8(..5) {
            0 => *random.choice(&[0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e15, 1e-5]).unwrap(),
            1 => f64::from_bits(random.u64(..)),
            2 => f64::from(random.i32(-5..5)),
            3 => f64::from(f32::from_bits(random.u32(..))),
            _ => (random.f64() - 0.5) * 1000.0,
        }
    }

    fn random_numeric(random: &mut fastrand::Rng, is_json: bool) -> Numeric {
        if !is_json && random.u8(..10) == 0 {
            return random.choice([Numeric::NAN, Numeric::INFINITY, Numeric::NEGATIVE_INFINITY]).unwrap();
        }
        let mut text = String::from(if random.bool() { "-" } else { "" });
        let length = if random.u8(..5) == 0 { 60 } else { 6 };
        (0..random.usize(1..length)).for_each(|_| text.push(random.digit(10)));
        if random.bool() {
            text.push('.');
            (0..random.usize(1..length)).for_each(|_| text.push(random.digit(10)));
        }
        text.parse().unwrap()
    }

    fn random_text(random: &mut fastrand::Rng) -> Box<str> {
        let letters =
            ['a', 'b', 'Z', ' ', '\u{1}', '\u{2}', '"', '\\', ',', '{', '}', '\u{e9}', '\u{1f600}', '\n', '0'];
        let length = if random.u8(..20) == 0 { 200 } else { 5 };
        (0..random.usize(..length)).map(|_| *random.choice(&letters).unwrap()).collect::<String>().into()
    }

    fn random_json(random: &mut fastrand::Rng, depth: usize) -> Json {
        match random.u8(..if depth > 3 { 5 } else { 8 }) {
            0 => Json::Null,
            1 => Json::Bool(random.bool()),
            2 | 3 => Json::Number(random_numeric(random, true)),
            4 => Json::String(random_text(random)),
            5 | 6 => Json::Array((0..random.usize(..4)).map(|_| random_json(random, depth + 1)).collect()),
            _ => Json::object(
                (0..random.usize(..4)).map(|_| (random_text(random), random_json(random, depth + 1))).collect(),
            ),
        }
    }

    /// Returns a value of a type that is not NULL; equal ones are likely.
    pub(crate) fn random_value(ty: SqlType, random: &mut fastrand::Rng) -> Value {
        if ty.is_array {
            let element = SqlType::scalar(ty.scalar);
            let lengths: Vec<u32> = (0..random.usize(1..4)).map(|_| random.u32(1..3)).collect();
            let count = if random.u8(..5) == 0 { 0 } else { lengths.iter().product() };
            let lower = if random.u8(..4) == 0 { random.i32(-2..3) } else { 1 };
            let dimensions: Vec<_> = lengths.iter().map(|&length| Dimension { length, lower }).collect();
            let elements: Vec<_> = (0..count)
                .map(|_| if random.u8(..5) == 0 { Value::Null } else { random_value(element, random) })
                .collect();
            let array = if count == 0 {
                Array::new(ty.scalar, elements)
            } else {
                Array::with_dimensions(ty.scalar, &dimensions, elements).unwrap()
            };
            return Value::array(array);
        }
        match ty.scalar {
            Scalar::Bool => Value::Bool(random.bool()),
            Scalar::Int2 => Value::Int2(random_integer(random) as i16),
            Scalar::Int4 => Value::Int4(random_integer(random) as i32),
            Scalar::Int8 => Value::Int8(random_integer(random)),
            Scalar::Float4 => Value::Float4(random_float(random) as f32),
            Scalar::Float8 => Value::Float8(random_float(random)),
            Scalar::Numeric => Value::Numeric(random_numeric(random, false)),
            Scalar::Char => Value::Char(random_text(random).into()),
            Scalar::Varchar | Scalar::Text => Value::text(random_text(random)),
            Scalar::Name => Value::text(random_text(random).chars().take(10).collect::<String>()),
            Scalar::Bytea => Value::Bytea((0..random.usize(..5)).map(|_| random.u8(..4)).collect()),
            Scalar::Date => match random.u8(..8) {
                0 => Value::Date(i32::MIN),
                1 => Value::Date(i32::MAX),
                _ => Value::Date(random.i32(-2_000_000..2_000_000)),
            },
            Scalar::Time => Value::Time(random.i64(0..=86_400_000_000)),
            Scalar::Timestamp | Scalar::TimestampTz => {
                let micros = match random.u8(..8) {
                    0 => i64::MIN,
                    1 => i64::MAX,
                    2 => random.i64(-100_000_000_000_000_000..1_000_000_000_000_000_000),
                    _ => random.i64(-1000..1000) * 1_800_000_000,
                };
                if ty == SqlType::TIMESTAMP { Value::Timestamp(micros) } else { Value::TimestampTz(micros) }
            }
            Scalar::Interval => Value::Interval {
                months: random.i32(-3..=3) * random.i32(0..1000),
                days: random.i32(-100..=100),
                micros: random.i64(-3..=3) * random.i64(0..100_000_000_000),
            },
            Scalar::Uuid => {
                let mut uuid = [0; 16];
                random.fill(&mut uuid[..2]);
                Value::Uuid(uuid)
            }
            Scalar::Jsonb => Value::json(random_json(random, 0)),
            Scalar::Json => Value::Json(random_json(random, 0).to_string().into()),
            Scalar::Oid => Value::Oid(random_integer(random) as u32),
        }
    }
}
