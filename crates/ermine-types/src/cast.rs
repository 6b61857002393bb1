//! Conversions of values to other types.

use smol_str::SmolStr;

use crate::error::{Result, SqlError, SqlState};

use super::{
    Environment, NAME_LENGTH_MAX, Numeric, Scalar, SqlType, Value,
    bits::Bits,
    datetime::{self, MICROS_PER_DAY, Range},
    json::Json,
    network::{self, Inet},
    text,
};

/// The context in which a cast is applied implicitly. Each implies those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Context {
    /// In any expression.
    Implicit,
    /// In assignments to columns.
    Assignment,
    /// Only where the statement demands it.
    Explicit,
}

/// Returns the context in which values of a type are cast to another; `None`: no cast exists.
pub fn context(from: SqlType, to: SqlType) -> Option<Context> {
    use Context::{Assignment, Explicit, Implicit};
    use Scalar::{
        Bit, Bool, Char, Cidr, Date, Float4, Float8, Inet, Int2, Int4, Int8, InternalChar, Interval, Json, Jsonb,
        Macaddr, Macaddr8, Name, Numeric, Oid, Text, Time, TimeTz, Timestamp, TimestampTz, Varbit, Varchar,
    };
    if from == to {
        return Some(Implicit);
    }
    let is_string = |ty: SqlType| ty.category() == b'S';
    match (from.is_array, to.is_array) {
        (true, true) => return context(SqlType::scalar(from.scalar), SqlType::scalar(to.scalar)),
        (true, false) => return is_string(to).then_some(Assignment),
        (false, true) => return is_string(from).then_some(Explicit),
        (false, false) => {}
    }
    match (from.scalar, to.scalar) {
        (Int2, Int4 | Int8 | Numeric | Float4 | Float8 | Oid)
        | (Int4, Int8 | Numeric | Float4 | Float8 | Oid)
        | (Int8, Numeric | Float4 | Float8 | Oid)
        | (Numeric, Float4 | Float8)
        | (Float4, Float8)
        | (Char | Varchar | Name | InternalChar, Text)
        | (Text | Char, Varchar)
        | (Text | Varchar, Char)
        | (Text | Varchar | Char, Name)
        | (Date, Timestamp | TimestampTz)
        | (Timestamp, TimestampTz)
        | (Time, Interval | TimeTz)
        | (Cidr, Inet)
        | (Bit, Varbit)
        | (Varbit, Bit)
        | (Macaddr, Macaddr8)
        | (Macaddr8, Macaddr) => Some(Implicit),
        (Int4 | Int8 | Numeric | Float4 | Float8, Int2)
        | (Int8 | Numeric | Float4 | Float8, Int4)
        | (Numeric | Float4 | Float8, Int8)
        | (Float4 | Float8, Numeric)
        | (Float8, Float4)
        | (Oid, Int4 | Int8)
        | (Timestamp, Date | Time)
        | (TimestampTz, Date | Time | TimeTz | Timestamp)
        | (TimeTz, Time)
        | (Inet, Cidr)
        | (Interval, Time)
        | (Text | Varchar | Char, InternalChar)
        | (Json, Jsonb)
        | (Jsonb, Json) => Some(Assignment),
        (Int4 | Int8, Bit) | (Bit, Int4 | Int8) | (Int4, InternalChar) | (InternalChar, Int4) => Some(Explicit),
        (Bool, Int4) | (Int4, Bool) | (Jsonb, Bool | Int2 | Int4 | Int8 | Numeric | Float4 | Float8) => Some(Explicit),
        _ if is_string(to) => Some(Assignment),
        _ if is_string(from) => Some(Explicit),
        _ => None,
    }
}

/// Whether the result of a cast is independent of the session's settings: PostgreSQL's `provolatile` of the functions
/// behind it.
pub fn is_immutable(from: SqlType, to: SqlType) -> bool {
    use Scalar::{Date, Interval, Time, TimeTz, Timestamp, TimestampTz};
    if from == to {
        return true;
    }
    if from.is_array && to.is_array {
        return is_immutable(SqlType::scalar(from.scalar), SqlType::scalar(to.scalar));
    }
    let is_read_by_settings =
        |ty: SqlType| ty.is_array || matches!(ty.scalar, Date | Time | TimeTz | Timestamp | TimestampTz | Interval);
    // The text of a time has no zone, and no style.
    let is_shown_by_settings = |ty: SqlType| {
        ty.is_array || ty == SqlType::RECORD || is_read_by_settings(ty) && !matches!(ty.scalar, Time | TimeTz)
    };
    match (from.is_text(), to.is_text()) {
        (true, _) => !is_read_by_settings(to),
        (_, true) => !is_shown_by_settings(from),
        _ if to.scalar == TimeTz => false,
        _ => (from.scalar == TimestampTz) == (to.scalar == TimestampTz),
    }
}

/// Returns the common type of values that have to be of one type; `None`: their categories differ. It may be a type
/// that not all of them can be cast to.
pub fn common_type(types: impl IntoIterator<Item = SqlType>) -> Option<SqlType> {
    let mut types = types.into_iter();
    let mut common = types.next()?;
    for ty in types {
        if ty == common {
            continue;
        }
        if ty.category() != common.category() {
            return None;
        }
        let becomes = |from, to| context(from, to) == Some(Context::Implicit);
        if !common.is_preferred() && becomes(common, ty) && !becomes(ty, common) {
            common = ty;
        }
    }
    Some(common)
}

/// The error for a cast that does not exist.
pub fn cannot_cast(from: SqlType, to: SqlType) -> SqlError {
    SqlError::new(SqlState::CANNOT_COERCE, format!("cannot cast type {} to {}", from.name(), to.name()))
}

/// Casts a value to another type, with the modifier's length, precision or scale.
pub fn cast(
    value: Value,
    from: SqlType,
    to: SqlType,
    modifier: i32,
    explicit: bool,
    environment: &Environment,
) -> Result<Value> {
    if value.is_null() {
        return Ok(value);
    }
    if from == to {
        return with_modifier(value, to, modifier, explicit);
    }
    if from.is_array && to.is_array {
        let Value::Array(array) = value else { return Err(cannot_cast(from, to)) };
        let (element, wanted) = (SqlType::scalar(from.scalar), SqlType::scalar(to.scalar));
        let array = array.map(to.scalar, |value| cast(value, element, wanted, modifier, explicit, environment))?;
        return Ok(Value::array(array));
    }
    if to == SqlType::BIT
        && let Some(number) = integer_of(&value)
    {
        return Ok(Value::bits(Bits::of_integer(number, modifier.max(1) as u32)));
    }
    let value = convert(value, from, to, environment)?;
    with_modifier(value, to, modifier, explicit)
}

/// Returns the number that a value of one of the two types is that are cast to bits.
fn integer_of(value: &Value) -> Option<i64> {
    match value {
        Value::Int4(number) => Some((*number).into()),
        Value::Int8(number) => Some(*number),
        _ => None,
    }
}

fn out_of_range(ty: SqlType) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{} out of range", ty.name()))
}

/// Converts a float to an integer, rounded half to even; `$beyond` is the least float that does not fit.
macro_rules! from_float {
    ($float:expr, $integer:ty, $ty:expr) => {{
        let float: f64 = f64::from($float).round_ties_even();
        // The lower end is a power of two and therefore exact; the upper end is its negative.
        let least = <$integer>::MIN as f64;
        if float >= least && float < -least { Ok(float as $integer) } else { Err(out_of_range($ty)) }
    }};
}

/// Converts a `double precision` to a `real`.
pub(crate) fn narrow_float(float: f64) -> Result<f32> {
    let narrow = float as f32;
    if narrow.is_infinite() && float.is_finite() {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow"));
    }
    if narrow == 0.0 && float != 0.0 {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: underflow"));
    }
    Ok(narrow)
}

fn numeric_to_f64(number: &Numeric) -> Result<f64> {
    let float = number.to_f64();
    if is_beyond(float, number) { Err(beyond(number, SqlType::FLOAT8)) } else { Ok(float) }
}

/// Whether a number that is neither infinite nor zero has become so as a float.
fn is_beyond(float: f64, number: &Numeric) -> bool {
    number.is_finite() && (float.is_infinite() || float == 0.0 && !number.is_zero())
}

fn beyond(number: &Numeric, to: SqlType) -> SqlError {
    let message = format!("\"{number}\" is out of range for type {}", to.name());
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
}

/// Converts an integer to any of the number types.
fn convert_integer(number: i64, to: SqlType) -> Option<Result<Value>> {
    Some(match to.scalar {
        Scalar::Int2 => number.try_into().map(Value::Int2).map_err(|_| out_of_range(to)),
        Scalar::Int4 => number.try_into().map(Value::Int4).map_err(|_| out_of_range(to)),
        Scalar::Int8 => Ok(Value::Int8(number)),
        Scalar::Numeric => Ok(Value::Numeric(number.into())),
        Scalar::Float4 => Ok(Value::Float4(number as f32)),
        Scalar::Float8 => Ok(Value::Float8(number as f64)),
        _ => return None,
    })
}

/// Converts a value to another type, without modifiers.
fn convert(value: Value, from: SqlType, to: SqlType, environment: &Environment) -> Result<Value> {
    let converted = match (&value, to.scalar) {
        _ if to.is_array || from.is_array => None,
        (Value::Int2(number), Scalar::Oid) => Some(Ok(Value::Oid(i32::from(*number) as u32))),
        (Value::Int4(number), Scalar::Oid) => Some(Ok(Value::Oid(*number as u32))),
        (Value::Int8(number), Scalar::Oid) => Some(
            (*number)
                .try_into()
                .map(Value::Oid)
                .map_err(|_| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "OID out of range")),
        ),
        (Value::Bit(bits), Scalar::Int4) => {
            let number = bits.to_integer(32).ok_or_else(|| out_of_range(to));
            Some(number.map(|number| Value::Int4(number as i32)))
        }
        (Value::Bit(bits), Scalar::Int8) => Some(bits.to_integer(64).map(Value::Int8).ok_or_else(|| out_of_range(to))),
        (Value::Bit(_), Scalar::Bit | Scalar::Varbit) => return Ok(value),
        (Value::Macaddr([a, b, c, d, e, f]), Scalar::Macaddr8) => {
            Some(Ok(Value::Macaddr8([*a, *b, *c, 0xff, 0xfe, *d, *e, *f])))
        }
        (Value::Macaddr8(address), Scalar::Macaddr) => Some(network::macaddr_of(*address).map(Value::Macaddr)),
        (Value::Int4(number), Scalar::InternalChar) => {
            let byte = i8::try_from(*number).map_err(|_| out_of_range(to));
            Some(byte.map(|byte| Value::text(text::char_of_byte(byte as u8))))
        }
        (Value::Int4(number), Scalar::Bool) => Some(Ok(Value::Bool(*number != 0))),
        (Value::Int2(number), _) => convert_integer((*number).into(), to),
        (Value::Int4(number), _) => convert_integer((*number).into(), to),
        (Value::Int8(number), _) => convert_integer(*number, to),
        (Value::Bool(value), Scalar::Int4) => Some(Ok(Value::Int4((*value).into()))),
        (Value::Oid(number), Scalar::Int4) => Some(Ok(Value::Int4(*number as i32))),
        (Value::Oid(number), Scalar::Int8) => Some(Ok(Value::Int8((*number).into()))),
        (Value::Float4(float), Scalar::Numeric) => Some(Ok(Value::Numeric(Numeric::from_f32(*float)))),
        (Value::Float4(float), _) => convert_float((*float).into(), to),
        (Value::Float8(float), _) => convert_float(*float, to),
        (Value::Numeric(number), _) => convert_numeric(number, to),
        (Value::Text(content), Scalar::Int4) if from.scalar == Scalar::InternalChar => {
            Some(Ok(Value::Int4((text::byte_of_char(content) as i8).into())))
        }
        (Value::Text(content) | Value::Char(content), Scalar::InternalChar) => {
            Some(Ok(Value::text(text::internal_char(content))))
        }
        (Value::Text(_) | Value::Char(_), _) if to.is_text() => {
            return Ok(match value {
                Value::Text(content) if to.scalar == Scalar::Char => Value::Char(content),
                // Blanks at the end of char(n) are padding.
                Value::Char(content) if to.scalar != Scalar::Char => {
                    let kept = super::order::without_padding(&content);
                    Value::Text(if kept.len() == content.len() { content } else { kept.into() })
                }
                value => value,
            });
        }
        (Value::Text(content) | Value::Char(content), _) => Some(text::parse(to, -1, content, environment)),
        (Value::Jsonb(json), Scalar::Json) => {
            environment.memory.check(json.text_bytes())?;
            Some(Ok(Value::Json(json.to_string().into())))
        }
        (Value::Json(text), Scalar::Jsonb) => {
            environment.memory.check_parts(text.as_bytes())?;
            Some(text.parse().map(Value::json))
        }
        (Value::Jsonb(json), _) => convert_json(json, to),
        (Value::Inet(inet), Scalar::Inet) => Some(Ok(Value::Inet(Inet { is_network: false, ..*inet }))),
        (Value::Inet(inet), Scalar::Cidr) => Some(Ok(Value::Inet(inet.network()))),
        _ => convert_datetime(&value, to, environment),
    };
    match converted {
        Some(converted) => converted,
        None if to.is_text() => {
            let content: SmolStr = match &value {
                Value::Bool(value) => SmolStr::new_static(if *value { "true" } else { "false" }),
                Value::Inet(inet) => {
                    let mut whole = String::new();
                    // Writing to a string does not fail.
                    let _ = inet.write_whole(&mut whole);
                    whole.into()
                }
                _ => {
                    environment.memory.check(value.text_bytes())?;
                    text::to_string(&value, from, environment).into()
                }
            };
            Ok(if to.scalar == Scalar::Char { Value::Char(content) } else { Value::Text(content) })
        }
        None => match &value {
            Value::Text(content) | Value::Char(content) => text::parse(to, -1, content, environment),
            _ => Err(cannot_cast(from, to)),
        },
    }
}

fn convert_float(float: f64, to: SqlType) -> Option<Result<Value>> {
    Some(match to.scalar {
        Scalar::Int2 => from_float!(float, i16, to).map(Value::Int2),
        Scalar::Int4 => from_float!(float, i32, to).map(Value::Int4),
        Scalar::Int8 => from_float!(float, i64, to).map(Value::Int8),
        Scalar::Float4 => narrow_float(float).map(Value::Float4),
        Scalar::Float8 => Ok(Value::Float8(float)),
        Scalar::Numeric => Ok(Value::Numeric(Numeric::from_f64(float))),
        _ => return None,
    })
}

fn convert_numeric(number: &Numeric, to: SqlType) -> Option<Result<Value>> {
    Some(match to.scalar {
        Scalar::Int2 => number.to_i16().map(Value::Int2),
        Scalar::Int4 => number.to_i32().map(Value::Int4),
        Scalar::Int8 => number.to_i64().map(Value::Int8),
        Scalar::Float4 => {
            let float = number.to_f32();
            if is_beyond(float.into(), number) { Err(beyond(number, to)) } else { Ok(Value::Float4(float)) }
        }
        Scalar::Float8 => numeric_to_f64(number).map(Value::Float8),
        _ => return None,
    })
}

fn convert_json(json: &Json, to: SqlType) -> Option<Result<Value>> {
    let refused = || {
        let what = match json {
            Json::Array(_) => "array",
            Json::Object(_) => "object",
            Json::Null => "null",
            Json::Bool(_) => "boolean",
            Json::Number(_) => "numeric",
            Json::String(_) => "string",
        };
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("cannot cast jsonb {what} to type {}", to.name()))
    };
    Some(match (json, to.scalar) {
        (Json::Bool(value), Scalar::Bool) => Ok(Value::Bool(*value)),
        (Json::Number(number), Scalar::Numeric) => Ok(Value::Numeric(number.clone())),
        (Json::Number(number), _) if to.is_numeric() => return convert_numeric(number, to),
        _ if to.is_numeric() || to == SqlType::BOOL => Err(refused()),
        _ => return None,
    })
}

fn convert_datetime(value: &Value, to: SqlType, environment: &Environment) -> Option<Result<Value>> {
    let zone = &environment.time_zone;
    let time_of = |micros: i64| match datetime::is_infinite(micros) {
        true => Ok(Value::Null),
        false => Ok(Value::Time(micros.rem_euclid(MICROS_PER_DAY))),
    };
    Some(match (value, to.scalar) {
        (Value::Date(days), Scalar::Timestamp) => datetime::date_to_timestamp(*days).map(Value::Timestamp),
        (Value::Date(days), Scalar::TimestampTz) => {
            datetime::date_to_timestamp(*days).and_then(|local| datetime::to_utc(local, zone)).map(Value::TimestampTz)
        }
        (Value::Timestamp(micros), Scalar::TimestampTz) => datetime::to_utc(*micros, zone).map(Value::TimestampTz),
        (Value::Timestamp(micros), Scalar::Date) => datetime::timestamp_to_date(*micros).map(Value::Date),
        (Value::Timestamp(micros), Scalar::Time) => time_of(*micros),
        (Value::TimestampTz(micros), Scalar::Timestamp) => datetime::local_timestamp(*micros, zone),
        (Value::TimestampTz(micros), Scalar::Date) => {
            datetime::timestamp_to_date(datetime::to_local(*micros, zone)).map(Value::Date)
        }
        (Value::TimestampTz(micros), Scalar::Time) => time_of(datetime::to_local(*micros, zone)),
        (Value::TimestampTz(micros), Scalar::TimeTz) if datetime::is_infinite(*micros) => Ok(Value::Null),
        (Value::TimestampTz(micros), Scalar::TimeTz) => Ok(datetime::time_in_zone(*micros, zone)),
        (Value::Time(micros), Scalar::TimeTz) => datetime::time_of_today(*micros, environment.transaction_began, zone),
        (Value::TimeTz { micros, .. }, Scalar::Time) => Ok(Value::Time(*micros)),
        (Value::Time(micros), Scalar::Interval) => Ok(Value::Interval { months: 0, days: 0, micros: *micros }),
        (Value::Interval { micros, .. }, Scalar::Time) => Ok(Value::Time(micros.rem_euclid(MICROS_PER_DAY))),
        _ => return None,
    })
}

/// Applies the modifier's length, precision or scale: an explicit cast cuts values that are too long; otherwise they
/// are an error unless only blanks would be lost.
pub fn with_modifier(value: Value, ty: SqlType, modifier: i32, explicit: bool) -> Result<Value> {
    if ty.scalar == Scalar::Name
        && let Value::Text(name) = &value
        && name.len() > NAME_LENGTH_MAX
    {
        return Ok(Value::text(&name[..name.floor_char_boundary(NAME_LENGTH_MAX)]));
    }
    if modifier < 0 {
        return Ok(value);
    }
    match value {
        Value::Char(content) => {
            let Some(length) = SqlType::length_of(modifier) else { return Ok(Value::Char(content)) };
            let content = with_length(content, length, ty, explicit)?;
            Ok(Value::Char(match length.saturating_sub(content.chars().count()) {
                0 => content,
                missing => format!("{content}{}", " ".repeat(missing)).into(),
            }))
        }
        Value::Text(content) => match (SqlType::length_of(modifier), ty.scalar) {
            (Some(length), Scalar::Varchar) => with_length(content, length, ty, explicit).map(Value::Text),
            _ => Ok(Value::Text(content)),
        },
        Value::Numeric(number) if ty.scalar == Scalar::Numeric => number.with_modifier(modifier).map(Value::Numeric),
        Value::Time(micros) => Ok(Value::Time(with_precision(micros, modifier))),
        Value::TimeTz { micros, ahead } => Ok(Value::TimeTz { micros: with_precision(micros, modifier), ahead }),
        Value::Timestamp(micros) if !datetime::is_infinite(micros) => {
            Ok(Value::Timestamp(with_precision(micros, modifier)))
        }
        Value::TimestampTz(micros) if !datetime::is_infinite(micros) => {
            Ok(Value::TimestampTz(with_precision(micros, modifier)))
        }
        Value::Interval { months, days, micros } => {
            let (months, days, micros) = Range::of(modifier).cut(months, days, micros);
            let micros = match modifier & Range::FULL_PRECISION {
                precision @ 0..=6 => with_precision(micros, precision),
                _ => micros,
            };
            Ok(Value::Interval { months, days, micros })
        }
        Value::Bit(bits) => bits_with_length(bits, ty, modifier as u32, explicit),
        Value::Array(array) => {
            let element = SqlType::scalar(ty.scalar);
            Ok(Value::array(array.map(ty.scalar, |value| with_modifier(value, element, modifier, explicit))?))
        }
        value => Ok(value),
    }
}

/// Returns bits of the length of `bit(length)`, or of at most that of `bit varying(length)`.
fn bits_with_length(bits: Box<Bits>, ty: SqlType, length: u32, explicit: bool) -> Result<Value> {
    let own = bits.length();
    if own == length || ty.scalar == Scalar::Varbit && own < length {
        return Ok(Value::Bit(bits));
    }
    if explicit {
        return Ok(Value::bits(bits.with_length(length)));
    }
    Err(match ty.scalar {
        Scalar::Varbit => SqlError::new(
            SqlState::STRING_DATA_RIGHT_TRUNCATION,
            format!("bit string too long for type bit varying({length})"),
        ),
        _ => SqlError::new(SqlState("22026"), format!("bit string length {own} does not match type bit({length})")),
    })
}

fn with_length(content: SmolStr, length: usize, ty: SqlType, explicit: bool) -> Result<SmolStr> {
    if content.len() <= length {
        return Ok(content);
    }
    let Some((end, _)) = content.char_indices().nth(length) else { return Ok(content) };
    if explicit || content[end..].bytes().all(|byte| byte == b' ') {
        return Ok(content[..end].into());
    }
    Err(SqlError::new(
        SqlState::STRING_DATA_RIGHT_TRUNCATION,
        format!("value too long for type {}({length})", ty.name().trim_end_matches("[]")),
    ))
}

/// Rounds microseconds to a number of digits of a second.
pub(crate) fn with_precision(micros: i64, precision: i32) -> i64 {
    let Ok(missing) = u32::try_from(6 - precision) else { return micros };
    let unit = 10i64.pow(missing.min(6));
    let half = unit / 2 * micros.signum();
    micros.saturating_add(half) / unit * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cast_text(text: &str, from: SqlType, to: SqlType, modifier: i32, explicit: bool) -> Result<String> {
        let environment = Environment::default();
        let value = text::parse(from, -1, text, &environment)?;
        let value = cast(value, from, to, modifier, explicit, &environment)?;
        Ok(text::to_string(&value, to, &environment))
    }

    #[test]
    fn values_are_cast_as_postgresql_does() {
        for (text, from, to, expected) in [
            ("2.5", SqlType::FLOAT8, SqlType::INT4, "2"),
            ("3.5", SqlType::FLOAT8, SqlType::INT4, "4"),
            ("2.5", SqlType::NUMERIC, SqlType::INT4, "3"),
            ("-2.5", SqlType::NUMERIC, SqlType::INT8, "-3"),
            ("t", SqlType::BOOL, SqlType::TEXT, "true"),
            ("t", SqlType::BOOL, SqlType::INT4, "1"),
            ("1e20", SqlType::FLOAT8, SqlType::NUMERIC, "100000000000000000000"),
            ("2020-01-02", SqlType::DATE, SqlType::TIMESTAMP, "2020-01-02 00:00:00"),
            ("2020-01-02 03:04:05", SqlType::TIMESTAMP, SqlType::TIME, "03:04:05"),
            ("{1,2}", SqlType::INT4.array(), SqlType::TEXT.array(), "{1,2}"),
            ("{1,2}", SqlType::TEXT, SqlType::INT8.array(), "{1,2}"),
            ("12", SqlType::JSONB, SqlType::INT4, "12"),
            ("\"a\"", SqlType::JSONB, SqlType::TEXT, "\"a\""),
            ("a  ", SqlType::CHAR, SqlType::TEXT, "a"),
        ] {
            assert_eq!(cast_text(text, from, to, -1, true).unwrap(), expected, "{text} {from} {to}");
        }
        for (text, from, to) in [
            ("2147483648", SqlType::INT8, SqlType::INT4),
            ("NaN", SqlType::FLOAT8, SqlType::INT8),
            ("9223372036854775808", SqlType::FLOAT8, SqlType::INT8),
            ("1e39", SqlType::FLOAT8, SqlType::FLOAT4),
            ("1e-50", SqlType::FLOAT8, SqlType::FLOAT4),
            ("40000", SqlType::NUMERIC, SqlType::INT2),
        ] {
            assert_eq!(cast_text(text, from, to, -1, true).unwrap_err().state(), SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
        }
    }

    #[test]
    fn lengths_cut_where_asked_for() {
        let modifier = SqlType::length_modifier(3);
        assert_eq!(cast_text("h\u{e9}llo", SqlType::TEXT, SqlType::VARCHAR, modifier, true).unwrap(), "h\u{e9}l");
        assert_eq!(cast_text("abc  ", SqlType::TEXT, SqlType::VARCHAR, modifier, false).unwrap(), "abc");
        let error = cast_text("abcd", SqlType::TEXT, SqlType::VARCHAR, modifier, false).unwrap_err();
        assert_eq!(error.report().message, "value too long for type character varying(3)");
        assert_eq!(cast_text("a", SqlType::TEXT, SqlType::CHAR, modifier, false).unwrap(), "a  ");
        assert_eq!(
            cast_text("1.005", SqlType::NUMERIC, SqlType::NUMERIC, SqlType::numeric_modifier(4, 2), false).unwrap(),
            "1.01"
        );
        assert_eq!(cast_text("10:00:00.123456", SqlType::TIME, SqlType::TIME, 2, false).unwrap(), "10:00:00.12");
    }

    #[test]
    fn contexts_are_pg_casts() {
        assert_eq!(context(SqlType::INT4, SqlType::INT8), Some(Context::Implicit));
        assert_eq!(context(SqlType::INT8, SqlType::INT4), Some(Context::Assignment));
        assert_eq!(context(SqlType::BOOL, SqlType::INT4), Some(Context::Explicit));
        assert_eq!(context(SqlType::INT4, SqlType::TEXT), Some(Context::Assignment));
        assert_eq!(context(SqlType::TEXT, SqlType::INT4), Some(Context::Explicit));
        assert_eq!(context(SqlType::DATE, SqlType::UUID), None);
    }
}
