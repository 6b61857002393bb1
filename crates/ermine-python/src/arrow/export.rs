//! Results as streams of record batches.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, ListArray, PrimitiveArray, RecordBatch, RecordBatchReader, StringArray,
    builder::{BinaryBuilder, BooleanBuilder, StringBuilder},
    ffi_stream::FFI_ArrowArrayStream,
    types::{
        ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
        IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType, UInt32Type,
    },
};
use arrow_buffer::{IntervalMonthDayNano, NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit};
use ermine_sql::{
    Column,
    types::{Environment, Numeric, Scalar, SqlType, Value, datetime, text},
};
use pyo3::{prelude::*, types::PyCapsule};

use super::{EPOCH_DAYS, EPOCH_MICROS};
use crate::gathered::Gathered;

/// The most rows of a batch.
const ROWS_MAX: usize = 1 << 16;
/// The bytes of values after which a batch ends: offsets of texts have 32 bits.
const BYTES_MAX: usize = 1 << 28;

/// Returns the rows of a result from a place on as a capsule with a stream.
pub fn capsule<'py>(
    py: Python<'py>,
    gathered: Arc<Gathered>,
    environment: Environment,
    from: usize,
) -> PyResult<Bound<'py, PyCapsule>> {
    let fields: Vec<_> =
        gathered.columns.iter().map(|column| Field::new(&*column.name, data_type(column), true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let batches = Batches { gathered, environment, schema, next: from };
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), c"arrow_array_stream")
}

/// Returns Arrow's type for a column.
fn data_type(column: &Column) -> DataType {
    let scalar = match column.ty.scalar {
        Scalar::Bool => DataType::Boolean,
        Scalar::Int2 => DataType::Int16,
        Scalar::Int4 => DataType::Int32,
        Scalar::Int8 => DataType::Int64,
        Scalar::Oid => DataType::UInt32,
        Scalar::Float4 => DataType::Float32,
        Scalar::Float8 => DataType::Float64,
        Scalar::Numeric => match SqlType::precision_and_scale_of(column.modifier) {
            Some((precision @ 1..=38, scale)) if (0..=precision).contains(&scale) => {
                DataType::Decimal128(precision as u8, scale as i8)
            }
            // Any number of digits.
            _ => DataType::Utf8,
        },
        Scalar::Bytea => DataType::Binary,
        Scalar::Date => DataType::Date32,
        Scalar::Time => DataType::Time64(TimeUnit::Microsecond),
        Scalar::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        Scalar::TimestampTz => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        Scalar::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
        _ => DataType::Utf8,
    };
    match column.ty.is_array {
        true => DataType::List(Arc::new(Field::new_list_field(scalar, true))),
        false => scalar,
    }
}

/// The rows of a result that are left, batch by batch.
struct Batches {
    gathered: Arc<Gathered>,
    environment: Environment,
    schema: SchemaRef,
    next: usize,
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (from, mut bytes) = (self.next, 0);
        while self.next < self.gathered.rows && self.next - from < ROWS_MAX && bytes < BYTES_MAX {
            bytes += self.gathered.row_values(self.next).iter().map(Value::bytes).sum::<usize>();
            self.next += 1;
        }
        (self.next > from).then(|| self.batch(from..self.next))
    }
}

impl Batches {
    fn batch(&self, rows: std::ops::Range<usize>) -> Result<RecordBatch, ArrowError> {
        let count = rows.len();
        let columns =
            self.gathered.columns.iter().zip(self.schema.fields()).enumerate().map(|(at, (column, field))| {
                let values = rows.clone().map(|row| &self.gathered.row_values(row)[at]);
                let array = Array { values, ty: column.ty, environment: &self.environment };
                array.build(field.data_type()).map_err(|error| named(error, &column.name))
            });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
    }
}

fn named(error: ArrowError, column: &str) -> ArrowError {
    ArrowError::CastError(format!("column \"{column}\": {error}; select it as text: {column}::text"))
}

fn beyond(what: &str) -> ArrowError {
    ArrowError::CastError(format!("Arrow's type has no value for {what}"))
}

/// The values of a column, which become an array.
struct Array<'e, I> {
    values: I,
    ty: SqlType,
    environment: &'e Environment,
}

impl<'v, I: Iterator<Item = &'v Value>> Array<'_, I> {
    fn build(self, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
        use Value::{Date, Float4, Float8, Int2, Int4, Int8, Interval, Oid, Time, Timestamp, TimestampTz};
        /// A value of one of Rust's types for the values of one variant.
        macro_rules! primitive {
            ($arrow:ty, $($pattern:pat => $value:expr),+) => {
                self.primitive::<$arrow>(|value| match value {
                    $($pattern => $value,)+
                    _ => Ok(None),
                })
                .map(|array| Arc::new(array.with_data_type(data_type.clone())) as ArrayRef)
            };
        }
        match data_type {
            DataType::Boolean => {
                let mut builder = BooleanBuilder::new();
                self.values.for_each(|value| match value {
                    Value::Bool(value) => builder.append_value(*value),
                    _ => builder.append_null(),
                });
                Ok(Arc::new(builder.finish()))
            }
            DataType::Int16 => primitive!(Int16Type, Int2(value) => Ok(Some(*value))),
            DataType::Int32 => primitive!(Int32Type, Int4(value) => Ok(Some(*value))),
            DataType::Int64 => primitive!(Int64Type, Int8(value) => Ok(Some(*value))),
            DataType::UInt32 => primitive!(UInt32Type, Oid(value) => Ok(Some(*value))),
            DataType::Float32 => primitive!(Float32Type, Float4(value) => Ok(Some(*value))),
            DataType::Float64 => primitive!(Float64Type, Float8(value) => Ok(Some(*value))),
            DataType::Decimal128(_, scale) => {
                primitive!(Decimal128Type, Value::Numeric(value) => decimal(value, *scale).map(Some))
            }
            DataType::Date32 => primitive!(Date32Type, Date(days) => date(*days).map(Some)),
            DataType::Time64(_) => primitive!(Time64MicrosecondType, Time(micros) => Ok(Some(*micros))),
            DataType::Timestamp(..) => primitive!(
                TimestampMicrosecondType, Timestamp(micros) | TimestampTz(micros) => timestamp(*micros).map(Some)
            ),
            DataType::Interval(_) => primitive!(
                IntervalMonthDayNanoType, Interval { months, days, micros } => {
                    let nanos = micros.checked_mul(1000).ok_or_else(|| beyond("so long an interval"))?;
                    Ok(Some(IntervalMonthDayNano::new(*months, *days, nanos)))
                }
            ),
            DataType::Binary => {
                let mut builder = BinaryBuilder::new();
                self.values.for_each(|value| match value {
                    Value::Bytea(bytes) => builder.append_value(bytes),
                    _ => builder.append_null(),
                });
                Ok(Arc::new(builder.finish()))
            }
            DataType::List(field) => self.lists(field),
            _ => Ok(Arc::new(self.texts())),
        }
    }

    fn primitive<T: ArrowPrimitiveType>(
        self,
        native: impl Fn(&Value) -> Result<Option<T::Native>, ArrowError>,
    ) -> Result<PrimitiveArray<T>, ArrowError> {
        self.values.map(native).collect()
    }

    fn texts(self) -> StringArray {
        let (mut builder, mut buffer) = (StringBuilder::new(), String::new());
        for value in self.values {
            match value {
                Value::Null => builder.append_null(),
                Value::Text(text) | Value::Char(text) => builder.append_value(text),
                value => {
                    buffer.clear();
                    text::write(value, self.ty, self.environment, &mut buffer);
                    builder.append_value(&buffer);
                }
            }
        }
        builder.finish()
    }

    fn lists(self, field: &Arc<Field>) -> Result<ArrayRef, ArrowError> {
        let (mut elements, mut lengths, mut are_valid) = (Vec::new(), Vec::new(), Vec::new());
        for value in self.values {
            let items = match value {
                Value::Array(array) if array.dimensions().len() > 1 => {
                    return Err(beyond("an array of several dimensions"));
                }
                Value::Array(array) => array.elements(),
                _ => &[],
            };
            are_valid.push(!value.is_null());
            lengths.push(items.len());
            elements.extend(items);
        }
        let ty = SqlType::scalar(self.ty.scalar);
        let elements = Array { values: elements.into_iter(), ty, environment: self.environment };
        let elements = elements.build(field.data_type())?;
        let nulls = NullBuffer::from(are_valid);
        Ok(Arc::new(ListArray::try_new(field.clone(), OffsetBuffer::from_lengths(lengths), elements, Some(nulls))?))
    }
}

/// Returns a number in units of the last digit of its column.
fn decimal(number: &Numeric, scale: i8) -> Result<i128, ArrowError> {
    let text = number.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let zeros = (scale as usize).saturating_sub(fraction.len());
    format!("{whole}{fraction}{}", "0".repeat(zeros)).parse().map_err(|_| beyond(&text))
}

fn date(days: i32) -> Result<i32, ArrowError> {
    match datetime::is_date_infinite(days) {
        false => days.checked_add(EPOCH_DAYS).ok_or_else(|| beyond("so late a date")),
        true => Err(beyond("an infinite date")),
    }
}

fn timestamp(micros: i64) -> Result<i64, ArrowError> {
    match datetime::is_infinite(micros) {
        false => micros.checked_add(EPOCH_MICROS).ok_or_else(|| beyond("so late a time")),
        true => Err(beyond("an infinite time")),
    }
}
