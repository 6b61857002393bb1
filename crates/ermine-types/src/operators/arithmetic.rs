//! Operators of numbers.

use crate::{
    Environment, Numeric, SqlType, Value,
    error::{Result, SqlError, SqlState},
    numeric::division_by_zero,
};

use super::{Tables, mismatch, take};

fn out_of_range(ty: SqlType) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{} out of range", ty.name()))
}

/// Returns a value of any of the three integer types.
fn integer(value: &Value) -> Result<i64> {
    match value {
        Value::Int2(number) => Ok((*number).into()),
        Value::Int4(number) => Ok((*number).into()),
        Value::Int8(number) => Ok(*number),
        _ => Err(mismatch()),
    }
}

/// Returns a value of either float type.
fn float(value: &Value) -> Result<f64> {
    match value {
        Value::Float4(number) => Ok((*number).into()),
        Value::Float8(number) => Ok(*number),
        _ => Err(mismatch()),
    }
}

/// Functions of integers whose result is the wider of the operands' types.
macro_rules! integer_functions {
    ($module:ident $variant:ident $integer:ty, $wide:ty, $ty:ident) => {
        mod $module {
            use super::*;

            fn narrow(number: Option<i64>) -> Result<Value> {
                let fits = number.and_then(|number| <$integer>::try_from(number).ok());
                fits.map(Value::$variant).ok_or_else(|| out_of_range(SqlType::$ty))
            }

            pub(super) fn add(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
                narrow(integer(left)?.checked_add(integer(right)?))
            }

            pub(super) fn subtract(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
                narrow(integer(left)?.checked_sub(integer(right)?))
            }

            pub(super) fn multiply(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
                narrow(integer(left)?.checked_mul(integer(right)?))
            }

            pub(super) fn divide(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
                match integer(right)? {
                    0 => Err(division_by_zero()),
                    divisor => narrow(integer(left)?.checked_div(divisor)),
                }
            }

            pub(super) fn remainder(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
                match integer(right)? {
                    0 => Err(division_by_zero()),
                    // The quotient may not fit, the remainder does.
                    divisor => narrow(Some(integer(left)?.wrapping_rem(divisor))),
                }
            }

            pub(super) fn and(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
                narrow(Some(integer(left)? & integer(right)?))
            }

            pub(super) fn or(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
                narrow(Some(integer(left)? | integer(right)?))
            }

            pub(super) fn xor(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
                narrow(Some(integer(left)? ^ integer(right)?))
            }

            pub(super) fn shift_left(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
                take!(left => Value::$variant(number), right => Value::Int4(by) =>
                    Ok(Value::$variant(<$wide>::from(*number).wrapping_shl(*by as u32) as $integer)))
            }

            pub(super) fn shift_right(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
                take!(left => Value::$variant(number), right => Value::Int4(by) =>
                    Ok(Value::$variant(<$wide>::from(*number).wrapping_shr(*by as u32) as $integer)))
            }

            pub(super) fn not(value: &Value, _: &Environment) -> Result<Value> {
                take!(value => Value::$variant(number) => Ok(Value::$variant(!number)))
            }

            pub(super) fn negate(value: &Value, _: &Environment) -> Result<Value> {
                narrow(integer(value)?.checked_neg())
            }

            pub(super) fn absolute(value: &Value, _: &Environment) -> Result<Value> {
                narrow(integer(value)?.checked_abs())
            }
        }
    };
}

// C shifts short integers as long ones.
integer_functions!(of_int2 Int2 i16, i32, INT2);
integer_functions!(of_int4 Int4 i32, i32, INT4);
integer_functions!(of_int8 Int8 i64, i64, INT8);

/// Checks a float's result: an error if it is infinite although no operand was, or zero where it should not be.
pub(crate) fn check_float(result: f64, may_be_infinite: bool, may_be_zero: bool) -> Result<f64> {
    let out_of = |message: &str| Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
    if result.is_infinite() && !may_be_infinite {
        out_of("value out of range: overflow")
    } else if result == 0.0 && !may_be_zero {
        out_of("value out of range: underflow")
    } else {
        Ok(result)
    }
}

/// Functions of floats; a `real` is computed as `real`.
macro_rules! float_functions {
    ($module:ident $variant:ident $float:ty) => {
        mod $module {
            use super::*;

            fn apply(
                left: &Value,
                right: &Value,
                operation: fn($float, $float) -> $float,
                may_be_zero: fn(f64, f64) -> bool,
            ) -> Result<Value> {
                let (left, right) = (float(left)?, float(right)?);
                let result = operation(left as $float, right as $float);
                check_float(result.into(), left.is_infinite() || right.is_infinite(), may_be_zero(left, right))?;
                Ok(Value::$variant(result))
            }

            pub(super) fn add(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
                apply(left, right, |left, right| left + right, |_, _| true)
            }

            pub(super) fn subtract(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
                apply(left, right, |left, right| left - right, |_, _| true)
            }

            pub(super) fn multiply(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
                apply(left, right, |left, right| left * right, |left, right| left == 0.0 || right == 0.0)
            }

            pub(super) fn divide(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
                if float(right)? == 0.0 && !float(left)?.is_nan() {
                    return Err(division_by_zero());
                }
                apply(left, right, |left, right| left / right, |left, right| left == 0.0 || right.is_infinite())
            }

            pub(super) fn negate(value: &Value, _: &Environment) -> Result<Value> {
                take!(value => Value::$variant(number) => Ok(Value::$variant(-number)))
            }

            pub(super) fn absolute(value: &Value, _: &Environment) -> Result<Value> {
                take!(value => Value::$variant(number) => Ok(Value::$variant(number.abs())))
            }
        }
    };
}

float_functions!(of_float4 Float4 f32);
float_functions!(of_float8 Float8 f64);

fn invalid_power(message: &str) -> SqlError {
    SqlError::new(SqlState("2201F"), message)
}

/// Computes `left ^ right` of floats.
pub(crate) fn power_f64(base: f64, exponent: f64) -> Result<f64> {
    // 1 to any power and any number to the power of 0 is 1, even with NaN, as in C.
    if base == 0.0 && exponent < 0.0 {
        return Err(invalid_power("zero raised to a negative power is undefined"));
    }
    if base < 0.0 && exponent.is_finite() && exponent.fract() != 0.0 {
        return Err(invalid_power("a negative number raised to a non-integer power yields a complex result"));
    }
    let any_infinite = base.is_infinite() || exponent.is_infinite();
    check_float(base.powf(exponent), any_infinite, any_infinite || base == 0.0)
}

fn power_float(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
    power_f64(float(left)?, float(right)?).map(Value::Float8)
}

/// Applies an operation to two exact numbers.
fn numeric(left: &Value, right: &Value, operation: fn(&Numeric, &Numeric) -> Result<Numeric>) -> Result<Value> {
    take!(left => Value::Numeric(left), right => Value::Numeric(right) => operation(left, right).map(Value::Numeric))
}

pub(super) fn register(tables: &mut Tables) {
    use SqlType as T;
    macro_rules! integers {
        ($module:ident: $(($left:ident, $right:ident))+ => $result:ident) => {
            $(
                tables.binary("+", T::$left, T::$right, T::$result, $module::add);
                tables.binary("-", T::$left, T::$right, T::$result, $module::subtract);
                tables.binary("*", T::$left, T::$right, T::$result, $module::multiply);
                tables.binary("/", T::$left, T::$right, T::$result, $module::divide);
            )+
            tables.binary("%", T::$result, T::$result, T::$result, $module::remainder);
            tables.binary("&", T::$result, T::$result, T::$result, $module::and);
            tables.binary("|", T::$result, T::$result, T::$result, $module::or);
            tables.binary("#", T::$result, T::$result, T::$result, $module::xor);
            tables.binary("<<", T::$result, T::INT4, T::$result, $module::shift_left);
            tables.binary(">>", T::$result, T::INT4, T::$result, $module::shift_right);
            tables.prefix("~", T::$result, T::$result, $module::not);
            tables.prefix("-", T::$result, T::$result, $module::negate);
            tables.prefix("@", T::$result, T::$result, $module::absolute);
        };
    }
    integers!(of_int2: (INT2, INT2) => INT2);
    integers!(of_int4: (INT4, INT4) (INT2, INT4) (INT4, INT2) => INT4);
    integers!(of_int8: (INT8, INT8) (INT2, INT8) (INT8, INT2) (INT4, INT8) (INT8, INT4) => INT8);
    macro_rules! floats {
        ($module:ident: $(($left:ident, $right:ident))+ => $result:ident) => {
            $(
                tables.binary("+", T::$left, T::$right, T::$result, $module::add);
                tables.binary("-", T::$left, T::$right, T::$result, $module::subtract);
                tables.binary("*", T::$left, T::$right, T::$result, $module::multiply);
                tables.binary("/", T::$left, T::$right, T::$result, $module::divide);
            )+
            tables.prefix("-", T::$result, T::$result, $module::negate);
            tables.prefix("@", T::$result, T::$result, $module::absolute);
        };
    }
    floats!(of_float4: (FLOAT4, FLOAT4) => FLOAT4);
    floats!(of_float8: (FLOAT8, FLOAT8) (FLOAT4, FLOAT8) (FLOAT8, FLOAT4) => FLOAT8);
    tables.binary("^", T::FLOAT8, T::FLOAT8, T::FLOAT8, power_float);
    let (name, ty) = (["+", "-", "*", "/", "%", "^"], T::NUMERIC);
    tables.binary(name[0], ty, ty, ty, |left, right, _| numeric(left, right, Numeric::add));
    tables.binary(name[1], ty, ty, ty, |left, right, _| numeric(left, right, Numeric::subtract));
    tables.binary(name[2], ty, ty, ty, |left, right, _| numeric(left, right, Numeric::multiply));
    tables.binary(name[3], ty, ty, ty, |left, right, _| numeric(left, right, Numeric::divide));
    tables.binary(name[4], ty, ty, ty, |left, right, _| numeric(left, right, Numeric::remainder));
    tables.binary(name[5], ty, ty, ty, |left, right, _| numeric(left, right, Numeric::power));
    tables.prefix(
        "|/",
        T::FLOAT8,
        T::FLOAT8,
        |value, _| take!(value => Value::Float8(number) => crate::functions::square_root(*number).map(Value::Float8)),
    );
    tables.prefix(
        "||/",
        T::FLOAT8,
        T::FLOAT8,
        |value, _| take!(value => Value::Float8(number) => Ok(Value::Float8(number.cbrt()))),
    );
    tables.prefix("-", ty, ty, |value, _| take!(value => Value::Numeric(number) => Ok(number.negate().into())));
    tables.prefix("@", ty, ty, |value, _| take!(value => Value::Numeric(number) => Ok(number.absolute().into())));
    for ty in [T::INT2, T::INT4, T::INT8, T::FLOAT4, T::FLOAT8, T::NUMERIC] {
        tables.prefix("+", ty, ty, |value, _| Ok(value.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::tests::apply;

    #[test]
    fn numbers_are_computed_as_postgresql_does() {
        let (int2, int4, int8) = (SqlType::INT2, SqlType::INT4, SqlType::INT8);
        for (left, operator, right, expected) in [
            ((int4, "7"), "/", (int4, "-2"), "-3"),
            ((int4, "-7"), "%", (int4, "2"), "-1"),
            ((int8, "-9223372036854775808"), "%", (int8, "-1"), "0"),
            ((int4, "1"), "<<", (int4, "33"), "2"),
            ((int2, "3"), "+", (int8, "4"), "7"),
            ((int4, "2"), "^", (int4, "10"), "1024"),
            ((SqlType::NUMERIC, "7"), "/", (int4, "2"), "3.5000000000000000"),
            ((SqlType::FLOAT4, "1.1"), "*", (SqlType::FLOAT4, "1.1"), "1.21"),
        ] {
            assert_eq!(apply(left, operator, right).unwrap(), expected, "{left:?} {operator} {right:?}");
        }
        for (left, operator, right, state) in [
            ((int4, "2147483647"), "+", (int4, "1"), SqlState::NUMERIC_VALUE_OUT_OF_RANGE),
            ((int8, "-9223372036854775808"), "/", (int8, "-1"), SqlState::NUMERIC_VALUE_OUT_OF_RANGE),
            ((int2, "32767"), "*", (int2, "2"), SqlState::NUMERIC_VALUE_OUT_OF_RANGE),
            ((int4, "1"), "/", (int4, "0"), SqlState::DIVISION_BY_ZERO),
            ((SqlType::FLOAT8, "1"), "/", (SqlType::FLOAT8, "0"), SqlState::DIVISION_BY_ZERO),
            ((SqlType::FLOAT8, "1e308"), "*", (SqlType::FLOAT8, "10"), SqlState::NUMERIC_VALUE_OUT_OF_RANGE),
        ] {
            assert_eq!(apply(left, operator, right).unwrap_err().state(), state, "{left:?} {operator} {right:?}");
        }
    }
}
