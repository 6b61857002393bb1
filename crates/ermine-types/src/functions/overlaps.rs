//! `OVERLAPS`: whether two periods have a point in common.

use crate::{Environment, SqlType, Value, error::Result, operators::resolve_binary, order};

use super::Table;

/// Returns the ends of a period, the earlier one first; one that is NULL comes last. `None`: both are.
fn period(start: &Value, end: &Value, ty: SqlType, environment: &Environment) -> Result<Option<(Value, Value)>> {
    let end = match end {
        // A length.
        Value::Interval { .. } if !start.is_null() => {
            let add = resolve_binary("+", Some(ty), Some(SqlType::INTERVAL))?;
            (add.function)(start, end, environment)?
        }
        Value::Interval { .. } => Value::Null,
        end => end.clone(),
    };
    Ok(match (start, end) {
        (Value::Null, Value::Null) => None,
        (Value::Null, end) => Some((end, Value::Null)),
        (start, end) if !end.is_null() && order::compare(start, &end, ty).is_gt() => Some((end, start.clone())),
        (start, end) => Some((start.clone(), end)),
    })
}

fn overlaps(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let [start, end, other_start, other_end] = arguments else { return Err(crate::operators::mismatch()) };
    let known = [start, other_start, end, other_end]
        .into_iter()
        .find(|value| !matches!(value, Value::Interval { .. }) && !value.is_null());
    let Some(ty) = known.and_then(Value::natural_type) else { return Ok(Value::Null) };
    let first = period(start, end, ty, environment)?;
    let second = period(other_start, other_end, ty, environment)?;
    let (Some(first), Some(second)) = (first, second) else { return Ok(Value::Null) };
    let order = order::compare(&first.0, &second.0, ty);
    // Those that begin together overlap. Otherwise the one that begins earlier has to end behind the other's beginning.
    let (earlier, later) = if order.is_lt() { (&first, &second) } else { (&second, &first) };
    Ok(match (&earlier.1, &later.1) {
        (Value::Null, _) => Value::Null,
        (_, Value::Null) if order.is_eq() => Value::Null,
        _ if order.is_eq() => Value::Bool(true),
        (end, _) if order::compare(&later.0, end, ty).is_lt() => Value::Bool(true),
        (_, Value::Null) => Value::Null,
        _ => Value::Bool(false),
    })
}

pub(super) fn register(table: &mut Table) {
    use SqlType as T;
    for ty in [T::TIMESTAMP, T::TIMESTAMPTZ, T::TIME] {
        for (first, second) in [(ty, ty), (ty, T::INTERVAL), (T::INTERVAL, ty), (T::INTERVAL, T::INTERVAL)] {
            let entry = table.add("overlaps", &[ty, first, ty, second], T::BOOL, overlaps).accepts_null();
            if ty == T::TIMESTAMPTZ && (first == T::INTERVAL || second == T::INTERVAL) {
                entry.stable();
            }
        }
    }
    table.add("overlaps", &[T::TIMETZ; 4], T::BOOL, overlaps).accepts_null();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::tests::call;

    #[test]
    fn periods_overlap() {
        let (timestamp, time, interval) = (SqlType::TIMESTAMP, SqlType::TIME, SqlType::INTERVAL);
        for (arguments, expected) in [
            (
                [
                    (timestamp, "2001-02-16"),
                    (timestamp, "2001-12-21"),
                    (timestamp, "2001-10-30"),
                    (timestamp, "2002-10-30"),
                ],
                "t",
            ),
            (
                [
                    (timestamp, "2001-02-16"),
                    (interval, "100 days"),
                    (timestamp, "2001-10-30"),
                    (timestamp, "2002-10-30"),
                ],
                "f",
            ),
            (
                [
                    (timestamp, "2001-10-29"),
                    (timestamp, "2001-10-30"),
                    (timestamp, "2001-10-30"),
                    (timestamp, "2001-10-31"),
                ],
                "f",
            ),
            (
                [
                    (timestamp, "2001-10-30"),
                    (timestamp, "2001-10-30"),
                    (timestamp, "2001-10-30"),
                    (timestamp, "2001-10-31"),
                ],
                "t",
            ),
            ([(time, "01:00"), (interval, "-2 hours"), (time, "00:00"), (time, "02:00")], "t"),
        ] {
            assert_eq!(call("overlaps", &arguments).unwrap(), expected, "{arguments:?}");
        }
    }
}
