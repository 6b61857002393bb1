//! The order of values of a type: PostgreSQL's total order, with collation C.
//!
//! Keys (`key` in `ermine-sql`) encode the same order; their tests check that they agree.

use std::cmp::Ordering;

use super::{Array, Record, SqlType, Value};

/// A day, in microseconds.
pub(crate) const MICROS_PER_DAY: i64 = 86_400_000_000;
/// The number of days that a month counts as where intervals are compared.
pub(crate) const DAYS_PER_MONTH: i64 = 30;

/// Returns an interval's length; a month counts as 30 days of 24 hours.
pub fn interval_length(months: i32, days: i32, micros: i64) -> i128 {
    let days = i64::from(months) * DAYS_PER_MONTH + i64::from(days);
    i128::from(days) * i128::from(MICROS_PER_DAY) + i128::from(micros)
}

/// Returns the microseconds of the day in UTC, which may be those of the day before or after, of a time of day that
/// clocks show which are ahead of UTC by some seconds. Such times are ordered by them, then by how far west they are.
pub fn time_in_utc(micros: i64, ahead: i32) -> i64 {
    micros - i64::from(ahead) * 1_000_000
}

/// Returns the significant part of a `char(n)`.
pub fn without_padding(text: &str) -> &str {
    text.trim_end_matches(' ')
}

/// Compares floats: NaN is greatest and equal to itself, the two zeros are equal.
fn compare_floats(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

/// Compares two values of a type. NULL, which operators never get, comes last.
pub fn compare(left: &Value, right: &Value, ty: SqlType) -> Ordering {
    use Value::{
        Bit, Bool, Bytea, Char, Date, Enum, Float4, Float8, Inet, Int2, Int4, Int8, Interval, Json, Jsonb, Jsonpath,
        Macaddr, Macaddr8, Null, Numeric, Oid, Text, Time, TimeTz, Timestamp, TimestampTz, Uuid,
    };
    match (left, right) {
        (Int4(left), Int4(right)) => left.cmp(right),
        (Int8(left), Int8(right)) => left.cmp(right),
        (Int2(left), Int2(right)) => left.cmp(right),
        (Text(left), Text(right)) => left.cmp(right),
        (Char(left), Char(right)) => without_padding(left).cmp(without_padding(right)),
        (Bool(left), Bool(right)) => left.cmp(right),
        (Float4(left), Float4(right)) => compare_floats((*left).into(), (*right).into()),
        (Float8(left), Float8(right)) => compare_floats(*left, *right),
        (Numeric(left), Numeric(right)) => left.order(right),
        (Bytea(left), Bytea(right)) => left.cmp(right),
        (Date(left), Date(right)) => left.cmp(right),
        (Time(left), Time(right)) | (Timestamp(left), Timestamp(right)) | (TimestampTz(left), TimestampTz(right)) => {
            left.cmp(right)
        }
        (
            Interval { months, days, micros },
            Interval { months: other_months, days: other_days, micros: other_micros },
        ) => interval_length(*months, *days, *micros).cmp(&interval_length(*other_months, *other_days, *other_micros)),
        (Uuid(left), Uuid(right)) => left.cmp(right),
        (Jsonb(left), Jsonb(right)) => left.order(right),
        (Json(left), Json(right)) | (Jsonpath(left), Jsonpath(right)) => left.cmp(right),
        (Oid(left), Oid(right)) => left.cmp(right),
        (Enum { position: left, .. }, Enum { position: right, .. }) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => compare_arrays(left, right),
        (Value::Record(left), Value::Record(right)) => compare_records(left, right),
        (Inet(left), Inet(right)) => left.order().cmp(&right.order()),
        (Macaddr(left), Macaddr(right)) => left.cmp(right),
        (Macaddr8(left), Macaddr8(right)) => left.cmp(right),
        (Bit(left), Bit(right)) => left.order(right),
        (TimeTz { micros, ahead }, TimeTz { micros: other_micros, ahead: other_ahead }) => {
            let (left, right) = (time_in_utc(*micros, *ahead), time_in_utc(*other_micros, *other_ahead));
            left.cmp(&right).then(other_ahead.cmp(ahead))
        }
        (Null, Null) => Ordering::Equal,
        (Null, _) => Ordering::Greater,
        (_, Null) => Ordering::Less,
        // Values of two types: the binder prevents this.
        _ => {
            debug_assert!(false, "{left:?} and {right:?} are compared as {ty}");
            rank(left).cmp(&rank(right))
        }
    }
}

/// Compares by elements, then by their number, then by dimensions.
fn compare_arrays(left: &Array, right: &Array) -> Ordering {
    let element = SqlType::scalar(left.element);
    let elements = left.elements().iter().zip(right.elements());
    let extent = |array: &Array| {
        let dimensions = array.dimensions();
        let lengths: Vec<_> = dimensions.iter().map(|dimension| dimension.length).collect();
        let lowers: Vec<_> = dimensions.iter().map(|dimension| dimension.lower).collect();
        (array.elements().len(), dimensions.len(), lengths, lowers)
    };
    elements
        .map(|(left, right)| compare(left, right, element))
        .find(|order| order.is_ne())
        .unwrap_or_else(|| extent(left).cmp(&extent(right)))
}

/// Compares by the values, then by their number. Values of two types, which operators refuse, are ordered by their
/// types.
fn compare_records(left: &Record, right: &Record) -> Ordering {
    let pairs = left.columns().zip(right.columns());
    pairs
        .map(|((field, left), (other, right))| match field.ty == other.ty {
            true => compare(left, right, field.ty),
            false => field.ty.oid().cmp(&other.ty.oid()),
        })
        .find(|order| order.is_ne())
        .unwrap_or_else(|| left.values().len().cmp(&right.values().len()))
}

fn rank(value: &Value) -> u32 {
    value.natural_type().map_or(u32::MAX, SqlType::oid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_a_number_is_greatest_and_zeros_are_equal() {
        let compare = |left: f64, right: f64| compare(&left.into(), &right.into(), SqlType::FLOAT8);
        assert_eq!(compare(f64::NAN, f64::INFINITY), Ordering::Greater);
        assert_eq!(compare(f64::NAN, f64::NAN), Ordering::Equal);
        assert_eq!(compare(-0.0, 0.0), Ordering::Equal);
    }

    #[test]
    fn padding_counts_for_nothing() {
        let char = |text: &str| Value::Char(text.into());
        assert_eq!(compare(&char("a  "), &char("a"), SqlType::CHAR), Ordering::Equal);
        assert_eq!(compare(&"a  ".into(), &"a".into(), SqlType::TEXT), Ordering::Greater);
    }

    #[test]
    fn a_month_is_thirty_days() {
        let interval = |months, days, micros| Value::Interval { months, days, micros };
        assert!(compare(&interval(1, 0, 0), &interval(0, 30, 0), SqlType::INTERVAL).is_eq());
        assert!(compare(&interval(0, 1, 0), &interval(0, 0, MICROS_PER_DAY + 1), SqlType::INTERVAL).is_lt());
        assert!(compare(&interval(i32::MAX, i32::MAX, i64::MAX), &interval(0, 0, 0), SqlType::INTERVAL).is_gt());
    }
}
