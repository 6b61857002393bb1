//! Functions of numbers.

use crate::{
    Environment, Numeric, SqlType, Value,
    error::{Result, SqlError, SqlState},
    operators::{check_float, power_f64, resolve_prefix},
};

use super::{Table, arguments};

/// The maximum number of digits for `round` and `trunc`.
const DIGITS_MAX: i32 = 2000;

fn float(arguments: &[Value], function: impl FnOnce(f64) -> Result<f64>) -> Result<Value> {
    arguments!(arguments, [Value::Float8(number)] => function(*number).map(Value::Float8))
}

fn numeric(arguments: &[Value], function: impl FnOnce(&Numeric) -> Result<Numeric>) -> Result<Value> {
    arguments!(arguments, [Value::Numeric(number)] => function(number).map(Value::Numeric))
}

fn numeric_to(arguments: &[Value], function: impl FnOnce(&Numeric, i32) -> Result<Numeric>) -> Result<Value> {
    arguments!(arguments, [Value::Numeric(number), Value::Int4(digits)] => {
        function(number, (*digits).clamp(-DIGITS_MAX, DIGITS_MAX)).map(Value::Numeric)
    })
}

fn numerics(arguments: &[Value], function: impl FnOnce(&Numeric, &Numeric) -> Result<Numeric>) -> Result<Value> {
    arguments!(arguments, [Value::Numeric(left), Value::Numeric(right)] => function(left, right).map(Value::Numeric))
}

fn logarithm(number: f64, function: fn(f64) -> f64) -> Result<f64> {
    let fail = |message: &str| Err(SqlError::new(SqlState("2201E"), message));
    if number == 0.0 {
        return fail("cannot take logarithm of zero");
    }
    if number < 0.0 {
        return fail("cannot take logarithm of a negative number");
    }
    check_float(function(number), number.is_infinite(), number == 1.0)
}

pub(crate) fn square_root(number: f64) -> Result<f64> {
    if number < 0.0 {
        return Err(SqlError::new(SqlState("2201F"), "cannot take square root of a negative number"));
    }
    check_float(number.sqrt(), number.is_infinite(), number == 0.0)
}

fn exponential(number: f64) -> Result<f64> {
    check_float(number.exp(), number.is_infinite(), number.is_infinite())
}

fn gcd(left: i64, right: i64) -> i128 {
    let (mut left, mut right) = (i128::from(left).abs(), i128::from(right).abs());
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left
}

fn out_of_range(ty: SqlType) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{} out of range", ty.name()))
}

fn gcd_of(arguments: &[Value], is_lcm: bool) -> Result<Value> {
    let apply = |left: i64, right: i64| {
        let divisor = gcd(left, right);
        match (is_lcm, divisor) {
            (true, 0) => 0,
            (true, _) => (i128::from(left) / divisor * i128::from(right)).abs(),
            (false, _) => divisor,
        }
    };
    match arguments {
        [Value::Int4(left), Value::Int4(right)] => {
            apply((*left).into(), (*right).into()).try_into().map(Value::Int4).map_err(|_| out_of_range(SqlType::INT4))
        }
        [Value::Int8(left), Value::Int8(right)] => {
            apply(*left, *right).try_into().map(Value::Int8).map_err(|_| out_of_range(SqlType::INT8))
        }
        [Value::Numeric(left), Value::Numeric(right)] => {
            let scale = left.scale().max(right.scale()) as i32;
            let divisor = left.gcd(right)?;
            if !is_lcm || divisor.is_zero() || !divisor.is_finite() {
                return Ok(Value::Numeric(divisor));
            }
            let multiple = left.divide_truncated(&divisor)?.multiply(right)?;
            multiple.absolute().round(scale).map(Value::Numeric)
        }
        _ => Err(crate::operators::mismatch()),
    }
}

/// Calls the prefix operator `@` as a function.
fn absolute(arguments: &[Value], environment: &Environment) -> Result<Value> {
    arguments!(arguments, [value] => {
        (resolve_prefix("@", value.natural_type())?.function)(value, environment)
    })
}

fn remainder(arguments: &[Value], environment: &Environment) -> Result<Value> {
    arguments!(arguments, [left, right] => {
        let operator = crate::operators::resolve_binary("%", left.natural_type(), right.natural_type())?;
        (operator.function)(left, right, environment)
    })
}

fn sign(number: f64) -> f64 {
    if number > 0.0 {
        1.0
    } else if number < 0.0 {
        -1.0
    } else {
        // NaN too, as in PostgreSQL.
        0.0
    }
}

pub(super) fn register(table: &mut Table) {
    use SqlType as T;
    let (f, n) = (T::FLOAT8, T::NUMERIC);
    for ty in [T::INT2, T::INT4, T::INT8, T::FLOAT4, T::FLOAT8, T::NUMERIC] {
        table.add("abs", &[ty], ty, absolute);
    }
    for ty in [T::INT2, T::INT4, T::INT8, T::NUMERIC] {
        table.add("mod", &[ty, ty], ty, remainder);
    }
    for ty in [T::INT4, T::INT8, T::NUMERIC] {
        table.add("gcd", &[ty, ty], ty, |arguments, _| gcd_of(arguments, false));
    }
    for ty in [T::INT4, T::INT8, T::NUMERIC] {
        table.add("lcm", &[ty, ty], ty, |arguments, _| gcd_of(arguments, true));
    }
    for name in ["ceil", "ceiling"] {
        table.add(name, &[n], n, |arguments, _| numeric(arguments, Numeric::ceiling));
        table.add(name, &[f], f, |arguments, _| float(arguments, |number| Ok(number.ceil())));
    }
    table.add("floor", &[n], n, |arguments, _| numeric(arguments, Numeric::floor));
    table.add("floor", &[f], f, |arguments, _| float(arguments, |number| Ok(number.floor())));
    table.add("round", &[n], n, |arguments, _| numeric(arguments, |number| number.round(0)));
    table.add("round", &[f], f, |arguments, _| float(arguments, |number| Ok(number.round_ties_even())));
    table.add("round", &[n, T::INT4], n, |arguments, _| numeric_to(arguments, Numeric::round));
    table.add("trunc", &[n], n, |arguments, _| numeric(arguments, |number| number.truncate(0)));
    table.add("trunc", &[f], f, |arguments, _| float(arguments, |number| Ok(number.trunc())));
    table.add("trunc", &[n, T::INT4], n, |arguments, _| numeric_to(arguments, Numeric::truncate));
    table.add("sign", &[n], n, |arguments, _| {
        numeric(arguments, |number| Ok(if number.is_nan() { Numeric::NAN } else { number.signum().into() }))
    });
    table.add("sign", &[f], f, |arguments, _| float(arguments, |number| Ok(sign(number))));
    register_powers(table);
    table.add("random", &[], f, |_, _| Ok(Value::Float8(fastrand::f64()))).volatile();
    table.add("min_scale", &[n], T::INT4, |arguments, _| {
        arguments!(arguments, [Value::Numeric(number)] => Ok(match number.is_finite() {
            true => Value::Int4(number.without_trailing_zeros().scale() as i32),
            false => Value::Null,
        }))
    });
    table.add(
        "factorial",
        &[T::INT8],
        n,
        |arguments, environment| arguments!(arguments, [Value::Int8(number)] => factorial(*number, environment)),
    );
}

fn register_powers(table: &mut Table) {
    let (f, n) = (SqlType::FLOAT8, SqlType::NUMERIC);
    table.add("sqrt", &[n], n, |arguments, _| numeric(arguments, Numeric::sqrt));
    table.add("sqrt", &[f], f, |arguments, _| float(arguments, square_root));
    table.add("cbrt", &[f], f, |arguments, _| float(arguments, |number| Ok(number.cbrt())));
    table.add("exp", &[n], n, |arguments, _| numeric(arguments, Numeric::exp));
    table.add("exp", &[f], f, |arguments, _| float(arguments, exponential));
    table.add("ln", &[n], n, |arguments, _| numeric(arguments, Numeric::ln));
    table.add("ln", &[f], f, |arguments, _| float(arguments, |number| logarithm(number, f64::ln)));
    for name in ["log", "log10"] {
        table.add(name, &[n], n, |arguments, _| numeric(arguments, |number| number.log(&Numeric::from(10))));
        table.add(name, &[f], f, |arguments, _| float(arguments, |number| logarithm(number, f64::log10)));
    }
    table.add("log", &[n, n], n, |arguments, _| numerics(arguments, |base, number| number.log(base)));
    for name in ["power", "pow"] {
        table.add(name, &[n, n], n, |arguments, _| numerics(arguments, Numeric::power));
        table.add(name, &[f, f], f, |arguments, _| {
            arguments!(arguments, [Value::Float8(base), Value::Float8(exponent)] => {
                power_f64(*base, *exponent).map(Value::Float8)
            })
        });
    }
    table.add("div", &[n, n], n, |arguments, _| numerics(arguments, Numeric::divide_truncated));
    table.add("scale", &[n], SqlType::INT4, |arguments, _| {
        arguments!(arguments, [Value::Numeric(number)] => {
            Ok(if number.is_finite() { Value::Int4(number.scale() as i32) } else { Value::Null })
        })
    });
    table.add("trim_scale", &[n], n, |arguments, _| numeric(arguments, |number| Ok(number.without_trailing_zeros())));
}

/// Returns the product of the numbers up to one.
fn factorial(number: i64, environment: &Environment) -> Result<Value> {
    const NUMBER_MAX: i64 = 32_177;
    let beyond = |message: &str| Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
    match number {
        ..0 => return beyond("factorial of a negative number is undefined"),
        0..=NUMBER_MAX => {}
        _ => return beyond("value overflows numeric format"),
    }
    let mut product = Numeric::from(1);
    for factor in 2..=number {
        environment.check()?;
        product = product.multiply(&factor.into())?;
    }
    Ok(product.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::tests::call;

    #[test]
    fn numbers_are_postgresqls() {
        let (numeric, float, int) = (SqlType::NUMERIC, SqlType::FLOAT8, SqlType::INT4);
        for (name, arguments, expected) in [
            ("round", &[(numeric, "42.4382"), (int, "2")][..], "42.44"),
            ("round", &[(float, "2.5")], "2"),
            ("trunc", &[(numeric, "-42.8")], "-42"),
            ("ceil", &[(float, "-42.8")], "-42"),
            ("abs", &[(int, "-5")], "5"),
            ("mod", &[(int, "-9"), (int, "4")], "-1"),
            ("gcd", &[(int, "1071"), (int, "462")], "21"),
            ("div", &[(numeric, "9"), (numeric, "4")], "2"),
            ("sign", &[(numeric, "-8.4")], "-1"),
            ("log", &[(numeric, "100")], "2.0000000000000000"),
            ("power", &[(float, "9"), (float, "3")], "729"),
            ("sqrt", &[(int, "16")], "4"),
            ("exp", &[(numeric, "0")], "1.0000000000000000"),
        ] {
            assert_eq!(call(name, arguments).unwrap(), expected, "{name} {arguments:?}");
        }
        assert!(call("sqrt", &[(float, "-1")]).is_err());
        assert!(call("ln", &[(float, "0")]).is_err());
    }
}
