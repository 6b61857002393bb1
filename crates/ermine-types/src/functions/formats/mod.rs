//! Functions with format patterns: `to_char`, `to_date`, `to_timestamp`, `to_number`.

mod number;
mod pieces;
mod read;
mod time;

use crate::{SqlType, Value};

use self::number::Number;
use super::{Table, arguments};

pub(super) use time::to_char_timestamp;

pub(super) fn register(table: &mut Table) {
    use SqlType as T;
    let t = T::TEXT;
    for ty in [T::TIMESTAMP, T::TIMESTAMPTZ, T::INTERVAL] {
        table
            .add("to_char", &[ty, t], t, |arguments, environment| {
                arguments!(arguments, [at, Value::Text(pattern)] => {
                    Ok(to_char_timestamp(at, pattern, environment)?.map_or(Value::Null, Value::from))
                })
            })
            .stable();
    }
    for ty in [T::INT4, T::INT8, T::NUMERIC, T::FLOAT4, T::FLOAT8] {
        table
            .add("to_char", &[ty, t], t, |arguments, _| {
                let [value, Value::Text(pattern)] = arguments else { return Err(crate::operators::mismatch()) };
                let number = match value {
                    Value::Int4(number) => Number::Int4(*number),
                    Value::Int8(number) => Number::Int8(*number),
                    Value::Numeric(number) => Number::Exact(number.clone()),
                    Value::Float4(number) => Number::Float(f64::from(*number), 6),
                    Value::Float8(number) => Number::Float(*number, 15),
                    _ => return Err(crate::operators::mismatch()),
                };
                number::to_char(&number, pattern).map(Value::from)
            })
            .stable();
    }
    table
        .add("to_number", &[t, t], T::NUMERIC, |arguments, _| {
            arguments!(arguments, [Value::Text(text), Value::Text(pattern)] => {
                number::to_number(text, pattern).map(Value::Numeric)
            })
        })
        .stable();
    table
        .add("to_date", &[t, t], T::DATE, |arguments, _| {
            arguments!(arguments, [Value::Text(text), Value::Text(pattern)] => {
                read::to_date(text, pattern).map(Value::Date)
            })
        })
        .stable();
    table
        .add("to_timestamp", &[t, t], T::TIMESTAMPTZ, |arguments, environment| {
            arguments!(arguments, [Value::Text(text), Value::Text(pattern)] => {
                read::to_timestamp(text, pattern, environment).map(Value::TimestampTz)
            })
        })
        .stable();
}
