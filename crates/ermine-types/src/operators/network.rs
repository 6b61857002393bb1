//! Operators of addresses of hosts, networks and interfaces.

use crate::{
    Environment, SqlType, Value,
    error::{Result, SqlError, SqlState},
    network::Inet,
};

use super::{BinaryFunction, Tables, take};

fn pair<'v>(left: &'v Value, right: &'v Value) -> Result<(&'v Inet, &'v Inet)> {
    take!(left => Value::Inet(left), right => Value::Inet(right) => Ok((left, right)))
}

fn of_two_sizes(operation: &str) -> SqlError {
    let message = format!("cannot {operation} inet values of different sizes");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Applies an operation to the bits of two addresses; the longer netmask stays.
fn bitwise(left: &Value, right: &Value, name: &str, operation: fn(u128, u128) -> u128) -> Result<Value> {
    let (left, right) = pair(left, right)?;
    if left.bits() != right.bits() {
        return Err(of_two_sizes(name));
    }
    let result = left.with_number(operation(left.number(), right.number()));
    Ok(Value::Inet(Inet { prefix: left.prefix.max(right.prefix), is_network: false, ..result }))
}

/// Adds a number to an address.
fn plus(left: &Value, right: &Value, sign: i128) -> Result<Value> {
    take!(left => Value::Inet(inet), right => Value::Int8(by) => {
        let by = sign * i128::from(*by);
        let all = Inet { prefix: 0, ..*inet }.host_bits();
        let sum = inet.number().checked_add_signed(by).filter(|sum| *sum <= all);
        let beyond = || SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "result is out of range");
        Ok(Value::Inet(Inet { is_network: false, ..inet.with_number(sum.ok_or_else(beyond)?) }))
    })
}

/// Returns the number of addresses from one to another.
fn minus(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
    let (left, right) = pair(left, right)?;
    if left.bits() != right.bits() {
        return Err(of_two_sizes("subtract"));
    }
    let (left, right) = (left.number(), right.number());
    let distance = i64::try_from(left.abs_diff(right)).ok();
    // The least number has no positive counterpart.
    let negative = || (left < right && left.abs_diff(right) == 1 << 63).then_some(i64::MIN);
    let distance = match distance {
        Some(distance) => Some(if left < right { -distance } else { distance }),
        None => negative(),
    };
    let beyond = || SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "result is out of range");
    distance.map(Value::Int8).ok_or_else(beyond)
}

fn of_bytes(left: &Value, right: &Value, operation: fn(u8, u8) -> u8) -> Result<Value> {
    match (left, right) {
        (Value::Macaddr(left), Value::Macaddr(right)) => {
            Ok(Value::Macaddr(std::array::from_fn(|at| operation(left[at], right[at]))))
        }
        (Value::Macaddr8(left), Value::Macaddr8(right)) => {
            Ok(Value::Macaddr8(std::array::from_fn(|at| operation(left[at], right[at]))))
        }
        _ => Err(super::mismatch()),
    }
}

pub(super) fn register(tables: &mut Tables) {
    use SqlType as T;
    let contained: [(&str, BinaryFunction); 5] = [
        ("<<", |left, right, _| {
            let (left, right) = pair(left, right)?;
            Ok(Value::Bool(right.contains(left) && right.prefix < left.prefix))
        }),
        ("<<=", |left, right, _| {
            let (left, right) = pair(left, right)?;
            Ok(Value::Bool(right.contains(left)))
        }),
        (">>", |left, right, _| {
            let (left, right) = pair(left, right)?;
            Ok(Value::Bool(left.contains(right) && left.prefix < right.prefix))
        }),
        (">>=", |left, right, _| {
            let (left, right) = pair(left, right)?;
            Ok(Value::Bool(left.contains(right)))
        }),
        ("&&", |left, right, _| {
            let (left, right) = pair(left, right)?;
            Ok(Value::Bool(left.contains(right) || right.contains(left)))
        }),
    ];
    for (name, function) in contained {
        tables.binary(name, T::INET, T::INET, T::BOOL, function);
    }
    tables.binary("&", T::INET, T::INET, T::INET, |left, right, _| bitwise(left, right, "AND", |a, b| a & b));
    tables.binary("|", T::INET, T::INET, T::INET, |left, right, _| bitwise(left, right, "OR", |a, b| a | b));
    tables.binary("+", T::INET, T::INT8, T::INET, |left, right, _| plus(left, right, 1));
    tables.binary("+", T::INT8, T::INET, T::INET, |left, right, _| plus(right, left, 1));
    tables.binary("-", T::INET, T::INT8, T::INET, |left, right, _| plus(left, right, -1));
    tables.binary("-", T::INET, T::INET, T::INT8, minus);
    tables.prefix("~", T::INET, T::INET, |value, _| {
        take!(value => Value::Inet(inet) => {
            Ok(Value::Inet(Inet { is_network: false, ..inet.with_number(!inet.number()) }))
        })
    });
    for ty in [T::MACADDR, T::MACADDR8] {
        tables.binary("&", ty, ty, ty, |left, right, _| of_bytes(left, right, |a, b| a & b));
        tables.binary("|", ty, ty, ty, |left, right, _| of_bytes(left, right, |a, b| a | b));
    }
    tables.prefix(
        "~",
        T::MACADDR8,
        T::MACADDR8,
        |value, _| take!(value => Value::Macaddr8(address) => Ok(Value::Macaddr8(address.map(|byte| !byte)))),
    );
    tables.prefix(
        "~",
        T::MACADDR,
        T::MACADDR,
        |value, _| take!(value => Value::Macaddr(address) => Ok(Value::Macaddr(address.map(|byte| !byte)))),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::tests::apply;

    #[test]
    fn networks_contain_addresses() {
        let (inet, int8) = (SqlType::INET, SqlType::INT8);
        for (left, operator, right, expected) in [
            ((inet, "192.168.1.5"), "<<", (inet, "192.168.1.0/24"), "t"),
            ((inet, "192.168.1.0/24"), "<<", (inet, "192.168.1.0/24"), "f"),
            ((inet, "192.168.1.0/24"), "<<=", (inet, "192.168.1.0/24"), "t"),
            ((inet, "0.0.0.0/0"), ">>", (inet, "::1"), "f"),
            ((inet, "192.168.1.0/24"), "&&", (inet, "192.168.1.80/28"), "t"),
            ((inet, "192.168.1.6"), "+", (int8, "25"), "192.168.1.31"),
            ((inet, "255.255.255.255"), "-", (inet, "0.0.0.0"), "4294967295"),
            ((inet, "192.168.1.0/24"), "|", (inet, "0.0.0.255"), "192.168.1.255"),
        ] {
            assert_eq!(apply(left, operator, right).unwrap(), expected, "{left:?} {operator} {right:?}");
        }
        assert!(apply((inet, "255.255.255.255"), "+", (int8, "1")).is_err());
        assert!(apply((inet, "::"), "&", (inet, "0.0.0.0")).is_err());
    }
}
