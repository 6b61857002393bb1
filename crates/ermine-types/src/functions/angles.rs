//! Functions of angles, in radians and in degrees, and hyperbolic ones.

use std::f64::consts::PI;

use crate::{
    SqlType, Value,
    error::{Result, SqlError, SqlState},
};

use super::{ScalarFunction, Table, arguments};

/// Divided by the one, multiplied by the other: this is how PostgreSQL rounds.
const RADIANS_PER_DEGREE: f64 = PI / 180.0;

fn float(arguments: &[Value], function: impl FnOnce(f64) -> Result<f64>) -> Result<Value> {
    arguments!(arguments, [Value::Float8(number)] => match number.is_nan() {
        true => Ok(Value::Float8(*number)),
        false => function(*number).map(Value::Float8),
    })
}

fn out_of_range() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range")
}

/// Calls a function that has no value for infinities.
fn of_finite(number: f64, function: impl FnOnce(f64) -> f64) -> Result<f64> {
    if number.is_infinite() { Err(out_of_range()) } else { Ok(function(number)) }
}

/// Calls a function of numbers from -1 to 1.
fn of_ratio(number: f64, function: impl FnOnce(f64) -> f64) -> Result<f64> {
    if number.abs() > 1.0 { Err(out_of_range()) } else { Ok(function(number)) }
}

/// The sine of 0 to 90 degrees; that of 30 degrees is exact.
fn sine_of_quadrant(degrees: f64) -> f64 {
    match degrees {
        ..=30.0 => (degrees * RADIANS_PER_DEGREE).sin() / (30.0 * RADIANS_PER_DEGREE).sin() / 2.0,
        _ => cosine_of_quadrant(90.0 - degrees),
    }
}

/// The cosine of 0 to 90 degrees; that of 60 degrees is exact.
fn cosine_of_quadrant(degrees: f64) -> f64 {
    let below_one = |degrees: f64| 1.0 - (degrees * RADIANS_PER_DEGREE).cos();
    match degrees {
        ..=60.0 => 1.0 - below_one(degrees) / below_one(60.0) / 2.0,
        _ => sine_of_quadrant(90.0 - degrees),
    }
}

/// Returns an angle from 0 to 180 degrees with the same cosine.
fn half_turn(degrees: f64) -> f64 {
    let degrees = degrees % 360.0;
    // Zero keeps its sign, as in PostgreSQL.
    let degrees = if degrees < 0.0 { -degrees } else { degrees };
    if degrees > 180.0 { 360.0 - degrees } else { degrees }
}

fn sine(degrees: f64) -> f64 {
    let degrees = degrees % 360.0;
    let is_negative = (degrees < 0.0) != (degrees.abs() > 180.0);
    let half = half_turn(degrees);
    let sine = sine_of_quadrant(if half > 90.0 { 180.0 - half } else { half });
    if is_negative { -sine } else { sine }
}

fn cosine(degrees: f64) -> f64 {
    match half_turn(degrees) {
        half if half > 90.0 => -cosine_of_quadrant(180.0 - half),
        half => cosine_of_quadrant(half),
    }
}

/// Returns the tangent, or what `ratio` makes of the sine and the cosine of an angle up to 90 degrees.
fn tangent(degrees: f64, ratio: fn(f64, f64) -> f64) -> f64 {
    let degrees = degrees % 360.0;
    let half = half_turn(degrees);
    let is_negative = ((degrees < 0.0) != (degrees.abs() > 180.0)) != (half > 90.0);
    let quadrant = if half > 90.0 { 180.0 - half } else { half };
    let of = |degrees: f64| ratio(sine_of_quadrant(degrees), cosine_of_quadrant(degrees));
    let tangent = of(quadrant) / of(45.0);
    // No minus zero.
    (if is_negative { -tangent } else { tangent }) + 0.0
}

/// The arc sine of 0 to 1; that of 0.5 is exact.
fn arc_sine(ratio: f64) -> f64 {
    match ratio {
        ..=0.5 => ratio.asin() / 0.5f64.asin() * 30.0,
        _ => 90.0 - ratio.acos() / 0.5f64.acos() * 60.0,
    }
}

/// The arc cosine of 0 to 1; that of 0.5 is exact.
fn arc_cosine(ratio: f64) -> f64 {
    match ratio {
        ..=0.5 => 90.0 - ratio.asin() / 0.5f64.asin() * 30.0,
        _ => ratio.acos() / 0.5f64.acos() * 60.0,
    }
}

fn two(arguments: &[Value], function: impl FnOnce(f64, f64) -> f64) -> Result<Value> {
    arguments!(arguments, [Value::Float8(y), Value::Float8(x)] => Ok(Value::Float8(function(*y, *x))))
}

pub(super) fn register(table: &mut Table) {
    let f = SqlType::FLOAT8;
    table.add("pi", &[], f, |_, _| Ok(Value::Float8(PI)));
    table.add("degrees", &[f], f, |arguments, _| {
        float(arguments, |number| match number / RADIANS_PER_DEGREE {
            degrees if degrees.is_infinite() && number.is_finite() => {
                Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow"))
            }
            degrees => Ok(degrees),
        })
    });
    let functions: [(&'static str, ScalarFunction); 23] = [
        ("radians", |arguments, _| float(arguments, |number| Ok(number * RADIANS_PER_DEGREE))),
        ("sin", |arguments, _| float(arguments, |number| of_finite(number, f64::sin))),
        ("cos", |arguments, _| float(arguments, |number| of_finite(number, f64::cos))),
        ("tan", |arguments, _| float(arguments, |number| of_finite(number, f64::tan))),
        ("cot", |arguments, _| float(arguments, |number| of_finite(number, |number| 1.0 / number.tan()))),
        ("asin", |arguments, _| float(arguments, |number| of_ratio(number, f64::asin))),
        ("acos", |arguments, _| float(arguments, |number| of_ratio(number, f64::acos))),
        ("atan", |arguments, _| float(arguments, |number| Ok(number.atan()))),
        ("sinh", |arguments, _| float(arguments, |number| Ok(number.sinh()))),
        ("cosh", |arguments, _| float(arguments, |number| Ok(number.cosh()))),
        ("tanh", |arguments, _| float(arguments, |number| Ok(number.tanh()))),
        ("asinh", |arguments, _| float(arguments, |number| Ok(number.asinh()))),
        ("acosh", |arguments, _| {
            float(arguments, |number| if number < 1.0 { Err(out_of_range()) } else { Ok(number.acosh()) })
        }),
        ("atanh", |arguments, _| float(arguments, |number| of_ratio(number, f64::atanh))),
        ("sind", |arguments, _| float(arguments, |number| of_finite(number, sine))),
        ("cosd", |arguments, _| float(arguments, |number| of_finite(number, cosine))),
        ("tand", |arguments, _| {
            float(arguments, |number| of_finite(number, |number| tangent(number, |sine, cosine| sine / cosine)))
        }),
        ("cotd", |arguments, _| {
            float(arguments, |number| of_finite(number, |number| tangent(number, |sine, cosine| cosine / sine)))
        }),
        ("asind", |arguments, _| {
            float(arguments, |number| of_ratio(number, |ratio| arc_sine(ratio.abs()).copysign(ratio)))
        }),
        ("acosd", |arguments, _| {
            float(arguments, |number| {
                of_ratio(number, |ratio| if ratio >= 0.0 { arc_cosine(ratio) } else { 90.0 + arc_sine(-ratio) })
            })
        }),
        ("atand", |arguments, _| float(arguments, |number| Ok(number.atan() / 1f64.atan() * 45.0))),
        ("atan2", |arguments, _| two(arguments, f64::atan2)),
        ("atan2d", |arguments, _| two(arguments, |y, x| y.atan2(x) / 1f64.atan() * 45.0)),
    ];
    for (name, function) in functions {
        let parameters = if name.starts_with("atan2") { &[f, f][..] } else { &[f] };
        table.add(name, parameters, f, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::tests::call;

    #[test]
    fn angles_in_degrees_are_exact_where_they_can_be() {
        let float = SqlType::FLOAT8;
        for (name, argument, expected) in [
            ("sind", "30", "0.5"),
            ("sind", "-390", "-0.5"),
            ("sind", "210", "-0.5"),
            ("cosd", "60", "0.5"),
            ("cosd", "-120", "-0.5"),
            ("cosd", "270", "0"),
            ("tand", "45", "1"),
            ("tand", "135", "-1"),
            ("tand", "225", "1"),
            ("tand", "180", "0"),
            ("cotd", "315", "-1"),
            ("cotd", "0", "Infinity"),
            ("asind", "-0.5", "-30"),
            ("acosd", "-0.5", "120"),
            ("atand", "-1", "-45"),
            ("sin", "NaN", "NaN"),
            ("atanh", "1", "Infinity"),
        ] {
            assert_eq!(call(name, &[(float, argument)]).unwrap(), expected, "{name}({argument})");
        }
        for (name, argument) in [("sin", "inf"), ("cosd", "-inf"), ("acos", "1.1"), ("acosh", "0.9"), ("atanh", "-2")] {
            assert_eq!(call(name, &[(float, argument)]).unwrap_err().report().message, "input is out of range");
        }
    }
}
