//! Functions of arrays that search, fill, replace and cut.

use crate::{
    Array, Environment, Scalar, SqlType, Value,
    array::{DIMENSIONS_MAX, Dimension, ELEMENTS_MAX, too_large},
    error::{Result, SqlError, SqlState},
    operators::check_equality,
};

use super::{
    Table, arguments,
    collections::{is_same, one_dimension},
    resolution::{Outcome, Parameter},
};

fn null_not_allowed(message: &str) -> SqlError {
    SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message)
}

fn wrong_subscripts(detail: &str) -> SqlError {
    SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, "wrong number of array subscripts").detail(detail)
}

/// Returns the extents of an array's dimensions.
fn shown_dimensions(array: &Array) -> Value {
    if array.dimensions().is_empty() {
        return Value::Null;
    }
    let extent =
        |Dimension { length, lower }: &Dimension| format!("[{lower}:{}]", i64::from(*lower) + i64::from(*length) - 1);
    array.dimensions().iter().map(extent).collect::<String>().into()
}

/// Returns the numbers of a list of lengths or lower bounds.
fn numbers_of(list: &Array) -> Result<Vec<i32>> {
    let number = |value: &Value| match value {
        Value::Int4(number) => Ok(*number),
        _ => Err(null_not_allowed("dimension values cannot be null")),
    };
    list.elements().iter().map(number).collect()
}

/// Returns an array of one value.
fn fill(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let (value, lengths, lowers) = match arguments {
        [value, Value::Array(lengths)] => (value, lengths, None),
        [value, Value::Array(lengths), Value::Array(lowers)] => (value, lengths, Some(lowers)),
        _ => return Err(null_not_allowed("dimension array or low bound array cannot be null")),
    };
    // NULL has the type of the array that the binder knows: texts stand for it.
    let element = value.natural_type().map_or(Scalar::Text, |ty| ty.scalar);
    if lengths.dimensions().len() > 1 {
        return Err(wrong_subscripts("Dimension array must be one dimensional."));
    }
    let lengths = numbers_of(lengths)?;
    if lengths.len() > DIMENSIONS_MAX {
        let message =
            format!("number of array dimensions ({}) exceeds the maximum allowed ({DIMENSIONS_MAX})", lengths.len());
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    let lowers = match lowers {
        None => vec![1; lengths.len()],
        Some(lowers) if lowers.dimensions().len() > 1 => {
            return Err(wrong_subscripts("Dimension array must be one dimensional."));
        }
        Some(lowers) if lowers.elements().len() != lengths.len() => {
            return Err(wrong_subscripts("Low bound array has different size than dimensions array."));
        }
        Some(lowers) => numbers_of(lowers)?,
    };
    let lengths = lengths.into_iter().map(u32::try_from).collect::<Result<Vec<_>, _>>().map_err(|_| too_large())?;
    let count = lengths.iter().try_fold(usize::from(!lengths.is_empty()), |count, length| {
        count.checked_mul(*length as usize).filter(|count| *count <= ELEMENTS_MAX)
    });
    let count = count.ok_or_else(too_large)?;
    environment.memory.check(count.saturating_mul(value.bytes()))?;
    let dimensions: Vec<_> =
        lengths.into_iter().zip(lowers).map(|(length, lower)| Dimension { length, lower }).collect();
    let array = Array::with_dimensions(element, &dimensions, vec![value.clone(); count]);
    array.map(Value::array).ok_or_else(too_large)
}

/// Returns the subscripts of the elements that are the same as a value.
fn positions<'a>(array: &'a Array, wanted: &'a Value) -> Result<impl Iterator<Item = i32> + 'a> {
    let lower = one_dimension(array, "searching for")?;
    let ty = SqlType::scalar(array.element);
    if !array.elements().is_empty() {
        check_equality(ty)?;
    }
    let found = array.elements().iter().enumerate().filter(move |(_, found)| is_same(found, wanted, ty));
    Ok(found.map(move |(at, _)| lower.saturating_add(at as i32)))
}

fn replace(array: &Array, from: &Value, to: &Value) -> Result<Value> {
    let ty = SqlType::scalar(array.element);
    check_equality(ty)?;
    let change = |value: &Value| if is_same(value, from, ty) { to.clone() } else { value.clone() };
    let elements = array.elements().iter().map(change).collect();
    let array = Array::with_dimensions(array.element, array.dimensions(), elements);
    array.map(Value::array).ok_or_else(too_large)
}

/// Removes the last elements of the first dimension.
fn trim(array: &Array, count: i32) -> Result<Value> {
    let length = array.dimensions().first().map_or(0, |dimension| dimension.length);
    let kept = u32::try_from(count).ok().and_then(|count| length.checked_sub(count)).ok_or_else(|| {
        let message = format!("number of elements to trim must be between 0 and {length}");
        SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
    })?;
    let mut dimensions: Vec<_> =
        array.dimensions().iter().map(|dimension| Dimension { lower: 1, ..*dimension }).collect();
    let size = array.elements().len().checked_div(length as usize).unwrap_or(0);
    if let Some(first) = dimensions.first_mut() {
        first.length = kept;
    }
    let elements = array.elements()[..size * kept as usize].to_vec();
    Array::with_dimensions(array.element, &dimensions, elements).map(Value::array).ok_or_else(too_large)
}

pub(super) fn register(table: &mut Table) {
    use SqlType as T;
    let (common, common_array, array) = (Parameter::Common, Parameter::CommonArray, Parameter::Array);
    let (int, int_parameter) = (Outcome::Is(T::INT4), Parameter::Is(T::INT4));
    table.generic(
        "array_dims",
        &[array],
        Outcome::Is(T::TEXT),
        |arguments, _| arguments!(arguments, [Value::Array(array)] => Ok(shown_dimensions(array))),
    );
    let ints = Parameter::Is(T::INT4.array());
    table.generic("array_fill", &[Parameter::Element, ints, ints], Outcome::Array, fill).accepts_null().optional(1);
    table
        .generic("array_position", &[common_array, common, int_parameter], int, |arguments, _| match arguments {
            [Value::Null, ..] => Ok(Value::Null),
            [Value::Array(array), wanted, Value::Int4(start)] => {
                let found = positions(array, wanted)?.find(|at| at >= start);
                Ok(found.map_or(Value::Null, Value::Int4))
            }
            _ => Err(null_not_allowed("initial position must not be null")),
        })
        .accepts_null();
    table
        .generic("array_positions", &[common_array, common], Outcome::Is(T::INT4.array()), |arguments, _| {
            match arguments {
                [Value::Array(array), wanted] => {
                    let found = positions(array, wanted)?.map(Value::Int4).collect();
                    Ok(Value::array(Array::new(Scalar::Int4, found)))
                }
                _ => Ok(Value::Null),
            }
        })
        .accepts_null();
    table
        .generic("array_replace", &[common_array, common, common], Outcome::Array, |arguments, _| match arguments {
            [Value::Array(array), from, to] => replace(array, from, to),
            _ => Ok(Value::Null),
        })
        .accepts_null();
    table.generic(
        "trim_array",
        &[array, int_parameter],
        Outcome::Array,
        |arguments, _| arguments!(arguments, [Value::Array(array), Value::Int4(count)] => trim(array, *count)),
    );
}
