//! A value.

use smol_str::SmolStr;

use super::{Array, Json, Numeric, Record, Scalar, SqlType, bits::Bits, network::Inet};

/// A value of some type, or NULL.
///
/// `==` compares representations: 1.0 and 1.00 differ, and NaN differs from itself. SQL's order is
/// [`order::compare`](super::order::compare).
#[derive(Debug, Default, PartialEq)]
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
    /// A value of an enumeration.
    Enum {
        /// The number of the type.
        of: u32,
        /// The position of its label.
        position: i64,
    },
    /// `inet`, `cidr`
    Inet(Inet),
    /// `macaddr`
    Macaddr([u8; 6]),
    /// `time with time zone`
    TimeTz {
        /// Microseconds since midnight.
        micros: i64,
        /// Seconds that the clocks that show it are ahead of UTC.
        ahead: i32,
    },
    /// `jsonpath`, as PostgreSQL writes it.
    Jsonpath(Box<str>),
    /// An array of any of the others.
    Array(Box<Array>),
    /// `record`
    Record(Box<Record>),
    /// `bit`, `bit varying`
    Bit(Box<Bits>),
    /// `macaddr8`
    Macaddr8([u8; 8]),
}

impl Clone for Value {
    // Inlined, copies of the most frequent types are written where they stay: a value that is moved as a whole, right
    // after it was written in parts, has to wait for these to leave the store buffer.
    #[inline]
    fn clone(&self) -> Self {
        match self {
            Self::Null => Self::Null,
            Self::Int4(value) => Self::Int4(*value),
            Self::Int8(value) => Self::Int8(*value),
            Self::Text(value) => Self::Text(value.clone()),
            other => other.clone_other(),
        }
    }
}

impl Value {
    /// Returns a copy of a value of any type. It has no arm for several of them, so that none is forgotten.
    #[inline(never)]
    fn clone_other(&self) -> Self {
        match self {
            Self::Null => Self::Null,
            Self::Bool(value) => Self::Bool(*value),
            Self::Int2(value) => Self::Int2(*value),
            Self::Int4(value) => Self::Int4(*value),
            Self::Int8(value) => Self::Int8(*value),
            Self::Float4(value) => Self::Float4(*value),
            Self::Float8(value) => Self::Float8(*value),
            Self::Numeric(value) => Self::Numeric(value.clone()),
            Self::Text(value) => Self::Text(value.clone()),
            Self::Char(value) => Self::Char(value.clone()),
            Self::Bytea(value) => Self::Bytea(value.clone()),
            Self::Date(value) => Self::Date(*value),
            Self::Time(value) => Self::Time(*value),
            Self::Timestamp(value) => Self::Timestamp(*value),
            Self::TimestampTz(value) => Self::TimestampTz(*value),
            Self::Interval { months, days, micros } => Self::Interval { months: *months, days: *days, micros: *micros },
            Self::Uuid(value) => Self::Uuid(*value),
            Self::Jsonb(value) => Self::Jsonb(value.clone()),
            Self::Json(value) => Self::Json(value.clone()),
            Self::Oid(value) => Self::Oid(*value),
            Self::Enum { of, position } => Self::Enum { of: *of, position: *position },
            Self::Inet(value) => Self::Inet(*value),
            Self::Macaddr(value) => Self::Macaddr(*value),
            Self::TimeTz { micros, ahead } => Self::TimeTz { micros: *micros, ahead: *ahead },
            Self::Jsonpath(value) => Self::Jsonpath(value.clone()),
            Self::Array(value) => Self::Array(value.clone()),
            Self::Record(value) => Self::Record(value.clone()),
            Self::Bit(value) => Self::Bit(value.clone()),
            Self::Macaddr8(value) => Self::Macaddr8(*value),
        }
    }

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

    /// Creates a string of bits.
    pub fn bits(bits: Bits) -> Self {
        Self::Bit(Box::new(bits))
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
                Self::Json(text) | Self::Jsonpath(text) => text.len(),
                Self::Array(array) => size_of::<Array>() + array.elements().iter().map(Self::bytes).sum::<usize>(),
                Self::Record(record) => size_of::<Record>() + record.values().iter().map(Self::bytes).sum::<usize>(),
                Self::Numeric(number) => number.heap_bytes(),
                Self::Bit(bits) => size_of::<Bits>() + bits.bytes().len(),
                _ => 0,
            }
    }

    /// Returns the length of its text, approximately, if the text may be long.
    pub(crate) fn text_bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Char(text) => text.len(),
            // Two digits for each.
            Self::Bytea(bytes) => 2 * bytes.len(),
            Self::Bit(bits) => bits.length() as usize,
            Self::Json(text) | Self::Jsonpath(text) => text.len(),
            Self::Jsonb(json) => json.text_bytes(),
            // In quotes, and with a backslash before some characters.
            Self::Array(array) => array.elements().iter().map(|element| 4 + 2 * element.text_bytes()).sum(),
            Self::Record(record) => record.values().iter().map(|value| 4 + 2 * value.text_bytes()).sum(),
            _ => size_of::<Self>(),
        }
    }

    /// Whether functions of it may take long. Does not descend into its parts, but for those of a record.
    #[inline]
    pub fn is_large(&self) -> bool {
        const BYTES: usize = 32 << 10;
        const ELEMENTS: usize = 1000;
        match self {
            Self::Text(text) | Self::Char(text) => text.len() > BYTES,
            Self::Bytea(bytes) => bytes.len() > BYTES,
            Self::Bit(bits) => bits.length() as usize > BYTES,
            Self::Json(text) => text.len() > BYTES,
            Self::Array(array) => array.elements().len() > ELEMENTS,
            Self::Jsonb(json) => match &**json {
                Json::Array(elements) => elements.len() > ELEMENTS,
                Json::Object(pairs) => pairs.len() > ELEMENTS,
                _ => false,
            },
            Self::Numeric(number) => number.is_long(),
            Self::Record(record) => record.values().iter().any(Self::is_large),
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
            Self::Enum { of, .. } => SqlType::scalar(Scalar::Enum(*of)),
            Self::Inet(inet) if inet.is_network => SqlType::CIDR,
            Self::Inet(_) => SqlType::INET,
            Self::Macaddr(_) => SqlType::MACADDR,
            Self::TimeTz { .. } => SqlType::TIMETZ,
            Self::Jsonpath(_) => SqlType::JSONPATH,
            Self::Array(array) => SqlType::scalar(array.element).array(),
            Self::Record(_) => SqlType::RECORD,
            Self::Bit(_) => SqlType::VARBIT,
            Self::Macaddr8(_) => SqlType::MACADDR8,
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
