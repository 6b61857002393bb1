//! Tables filled from streams of record batches.
//!
//! Each batch becomes one statement, `INSERT INTO t (..) SELECT * FROM unnest($1, $2, ..)`, whose parameters are the
//! columns as arrays: so rights, defaults, constraints and casts are those of any INSERT, and no row costs a statement.
//! Where a value of Arrow has a direct form in the type of the table's column, the array has that type; otherwise it
//! has its natural type, and the cast of an assignment applies.

use arrow_array::{
    Array as _, ArrayRef, RecordBatch,
    cast::AsArray as _,
    types::{
        Date32Type, Date64Type, Decimal128Type, DurationMicrosecondType, DurationMillisecondType,
        DurationNanosecondType, DurationSecondType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
        Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
        TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
        UInt16Type, UInt32Type, UInt64Type,
    },
};
use arrow_schema::{DataType, TimeUnit};
use ermine_sql::{
    Result, SqlError, SqlState,
    types::{Array, Numeric, SqlType, Value},
};

use super::{EPOCH_DAYS, EPOCH_MICROS};
use crate::parameters::without_nul;

/// The rows of a statement: an array of more elements would only cost memory.
pub const ROWS_MAX: usize = 1 << 13;

/// Returns the SQL type in which the values of a column are given for a table's column of the type `target`.
pub fn given_type(column: &DataType, target: SqlType) -> Result<SqlType, String> {
    use DataType::*;
    let natural = match column {
        Null => return Ok(target),
        // As with a literal, the text is read as a value of the type.
        Utf8 | LargeUtf8 | Utf8View if !target.is_array => return Ok(target),
        Utf8 | LargeUtf8 | Utf8View => SqlType::TEXT,
        Boolean => SqlType::BOOL,
        Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 if target.is_integer() => return Ok(target),
        Int8 | UInt8 | Int16 => SqlType::INT2,
        UInt16 | Int32 => SqlType::INT4,
        UInt32 | Int64 => SqlType::INT8,
        UInt64 | Decimal128(..) => SqlType::NUMERIC,
        Float32 => SqlType::FLOAT4,
        Float64 => SqlType::FLOAT8,
        Binary | LargeBinary | BinaryView => SqlType::BYTEA,
        FixedSizeBinary(16) if target == SqlType::UUID => SqlType::UUID,
        FixedSizeBinary(_) => SqlType::BYTEA,
        Date32 | Date64 => SqlType::DATE,
        Time32(_) | Time64(_) => SqlType::TIME,
        Timestamp(_, None) => SqlType::TIMESTAMP,
        Timestamp(_, Some(_)) => SqlType::TIMESTAMPTZ,
        Duration(_) => SqlType::INTERVAL,
        Dictionary(_, values) => return given_type(values, target),
        other => return Err(format!("Arrow's type {other} cannot be stored: cast it first")),
    };
    Ok(natural)
}

/// Returns a column of a batch as the elements of an array of the type that [`given_type`] has returned. Texts of types
/// other than texts are still to be read.
pub fn elements(column: &ArrayRef, ty: SqlType) -> Result<Vec<Value>> {
    use DataType::*;
    macro_rules! primitive {
        ($arrow:ty, $convert:expr) => {
            column.as_primitive::<$arrow>().iter().map(|value| value.map_or(Ok(Value::Null), $convert)).collect()
        };
    }
    macro_rules! texts {
        ($array:expr, $convert:expr) => {
            $array.iter().map(|value| value.map_or(Ok(Value::Null), $convert)).collect()
        };
    }
    let time = |micros: i64| Ok(Value::Time(micros));
    let bytes = |bytes: &[u8]| match <[u8; 16]>::try_from(bytes) {
        Ok(uuid) if ty == SqlType::UUID => Ok(Value::Uuid(uuid)),
        _ => Ok(Value::Bytea(bytes.into())),
    };
    let text = |text: &str| without_nul(text).map(Value::text);
    match column.data_type() {
        Null => Ok(vec![Value::Null; column.len()]),
        Boolean => column.as_boolean().iter().map(|value| Ok(value.map_or(Value::Null, Value::Bool))).collect(),
        Int8 => primitive!(Int8Type, |value| integer(value.into(), ty)),
        Int16 => primitive!(Int16Type, |value| integer(value.into(), ty)),
        Int32 => primitive!(Int32Type, |value| integer(value.into(), ty)),
        Int64 => primitive!(Int64Type, |value| integer(value, ty)),
        UInt8 => primitive!(UInt8Type, |value| integer(value.into(), ty)),
        UInt16 => primitive!(UInt16Type, |value| integer(value.into(), ty)),
        UInt32 => primitive!(UInt32Type, |value| integer(value.into(), ty)),
        UInt64 => primitive!(UInt64Type, |value| Ok(Value::Numeric(i128::from(value).into()))),
        Float32 => primitive!(Float32Type, |value| Ok(Value::Float4(value))),
        Float64 => primitive!(Float64Type, |value| Ok(Value::Float8(value))),
        Decimal128(_, scale) => primitive!(Decimal128Type, |value| decimal(value, *scale)),
        Utf8 => texts!(column.as_string::<i32>(), text),
        LargeUtf8 => texts!(column.as_string::<i64>(), text),
        Utf8View => texts!(column.as_string_view(), text),
        Binary => texts!(column.as_binary::<i32>(), bytes),
        LargeBinary => texts!(column.as_binary::<i64>(), bytes),
        BinaryView => texts!(column.as_binary_view(), bytes),
        FixedSizeBinary(_) => texts!(column.as_fixed_size_binary(), bytes),
        Date32 => primitive!(Date32Type, |days| date(days.into())),
        Date64 => primitive!(Date64Type, |millis| date(millis.div_euclid(86_400_000))),
        Time32(TimeUnit::Second) => primitive!(Time32SecondType, |seconds| time(i64::from(seconds) * 1_000_000)),
        Time32(_) => primitive!(Time32MillisecondType, |millis| time(i64::from(millis) * 1000)),
        Time64(TimeUnit::Nanosecond) => primitive!(Time64NanosecondType, |nanos| time(nanos.div_euclid(1000))),
        Time64(_) => primitive!(Time64MicrosecondType, time),
        Timestamp(TimeUnit::Second, _) => primitive!(TimestampSecondType, |at| timestamp(at, 1_000_000, 1, ty)),
        Timestamp(TimeUnit::Millisecond, _) => primitive!(TimestampMillisecondType, |at| timestamp(at, 1000, 1, ty)),
        Timestamp(TimeUnit::Microsecond, _) => primitive!(TimestampMicrosecondType, |at| timestamp(at, 1, 1, ty)),
        Timestamp(TimeUnit::Nanosecond, _) => primitive!(TimestampNanosecondType, |at| timestamp(at, 1, 1000, ty)),
        Duration(TimeUnit::Second) => primitive!(DurationSecondType, |time| duration(time, 1_000_000, 1)),
        Duration(TimeUnit::Millisecond) => primitive!(DurationMillisecondType, |time| duration(time, 1000, 1)),
        Duration(TimeUnit::Microsecond) => primitive!(DurationMicrosecondType, |time| duration(time, 1, 1)),
        Duration(TimeUnit::Nanosecond) => primitive!(DurationNanosecondType, |time| duration(time, 1, 1000)),
        Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            let values = elements(dictionary.values(), ty)?;
            if values.is_empty() {
                return Ok(vec![Value::Null; column.len()]);
            }
            let keys = dictionary.normalized_keys();
            let nulls = dictionary.nulls();
            let element = |(at, key): (usize, &usize)| match nulls.is_some_and(|nulls| nulls.is_null(at)) {
                true => Value::Null,
                false => values[*key].clone(),
            };
            Ok(keys.iter().enumerate().map(element).collect())
        }
        other => Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("Arrow's type {other}"))),
    }
}

/// Returns the columns of a batch as arrays of these types.
pub fn arrays(batch: &RecordBatch, types: &[SqlType]) -> Result<Vec<Value>> {
    let array = |(column, ty): (&ArrayRef, &SqlType)| Ok(Value::array(Array::new(ty.scalar, elements(column, *ty)?)));
    batch.columns().iter().zip(types).map(array).collect()
}

fn integer(value: i64, ty: SqlType) -> Result<Value> {
    let small = match ty {
        SqlType::INT2 => i16::try_from(value).ok().map(Value::Int2),
        SqlType::INT4 => i32::try_from(value).ok().map(Value::Int4),
        _ => Some(Value::Int8(value)),
    };
    small.ok_or_else(|| {
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{value} is out of range for type {ty}"))
    })
}

fn decimal(value: i128, scale: i8) -> Result<Value> {
    let digits = value.unsigned_abs().to_string();
    let sign = if value < 0 { "-" } else { "" };
    let scale = usize::try_from(scale).map_err(|_| out_of_range("a decimal number of negative scale"))?;
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    Ok(Value::Numeric(format!("{sign}{whole}.{fraction}").trim_end_matches('.').parse::<Numeric>()?))
}

fn date(days: i64) -> Result<Value> {
    let days = i32::try_from(days - i64::from(EPOCH_DAYS)).ok();
    let is_date = |days: &i32| ermine_sql::types::datetime::is_date(*days);
    days.filter(is_date).map(Value::Date).ok_or_else(|| out_of_range("a date"))
}

fn timestamp(at: i64, times: i64, by: i64, ty: SqlType) -> Result<Value> {
    let micros = at.checked_mul(times).and_then(|at| at.div_euclid(by).checked_sub(EPOCH_MICROS));
    let is_timestamp = |micros: &i64| ermine_sql::types::datetime::is_timestamp(*micros);
    let micros = micros.filter(is_timestamp).ok_or_else(|| out_of_range("a time"))?;
    Ok(if ty == SqlType::TIMESTAMPTZ { Value::TimestampTz(micros) } else { Value::Timestamp(micros) })
}

fn duration(time: i64, times: i64, by: i64) -> Result<Value> {
    let micros = time.checked_mul(times).map(|time| time.div_euclid(by)).ok_or_else(|| out_of_range("a duration"))?;
    Ok(Value::Interval { months: 0, days: 0, micros })
}

fn out_of_range(what: &str) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{what} is out of range"))
}
