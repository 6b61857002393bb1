//! Operators of strings of bits.

use crate::{Environment, SqlType, Value, bits::Bits, error::Result};

use super::{Tables, take};

fn combine(left: &Value, right: &Value, name: &str, operation: fn(u8, u8) -> u8) -> Result<Value> {
    take!(left => Value::Bit(left), right => Value::Bit(right) => {
        Ok(Value::bits(left.combine(right, name, operation)?))
    })
}

fn shift(left: &Value, right: &Value, sign: i64) -> Result<Value> {
    take!(left => Value::Bit(bits), right => Value::Int4(by) => {
        Ok(Value::bits(bits.moved(sign * i64::from(*by))))
    })
}

fn concatenate(left: &Value, right: &Value, environment: &Environment) -> Result<Value> {
    take!(left => Value::Bit(left), right => Value::Bit(right) => {
        environment.memory.check(left.bytes().len() + right.bytes().len())?;
        Ok(Value::bits(left.followed_by(right)?))
    })
}

pub(super) fn register(tables: &mut Tables) {
    use SqlType as T;
    tables.binary("&", T::BIT, T::BIT, T::BIT, |left, right, _| combine(left, right, "AND", |a, b| a & b));
    tables.binary("|", T::BIT, T::BIT, T::BIT, |left, right, _| combine(left, right, "OR", |a, b| a | b));
    tables.binary("#", T::BIT, T::BIT, T::BIT, |left, right, _| combine(left, right, "XOR", |a, b| a ^ b));
    tables.binary("<<", T::BIT, T::INT4, T::BIT, |left, right, _| shift(left, right, -1));
    tables.binary(">>", T::BIT, T::INT4, T::BIT, |left, right, _| shift(left, right, 1));
    tables.binary("||", T::VARBIT, T::VARBIT, T::VARBIT, concatenate);
    tables.prefix(
        "~",
        T::BIT,
        T::BIT,
        |value, _| take!(value => Value::Bit(bits) => Ok(Value::bits(Bits::inverted(bits)))),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::tests::apply;

    #[test]
    fn bits_are_combined_and_moved() {
        let (bit, varbit, int4) = (SqlType::BIT, SqlType::VARBIT, SqlType::INT4);
        for (left, operator, right, expected) in [
            ((bit, "10001"), "&", (bit, "01101"), "00001"),
            ((bit, "10001"), "|", (bit, "01101"), "11101"),
            ((bit, "10001"), "#", (bit, "01101"), "11100"),
            ((bit, "10001"), "<<", (int4, "3"), "01000"),
            ((bit, "10001"), ">>", (int4, "2"), "00100"),
            ((bit, "10001"), "<<", (int4, "-2147483648"), "00000"),
            ((varbit, "101"), "||", (varbit, "0011"), "1010011"),
            ((bit, "101"), "<", (bit, "1010"), "t"),
        ] {
            assert_eq!(apply(left, operator, right).unwrap(), expected, "{left:?} {operator} {right:?}");
        }
        assert_eq!(apply((bit, "1"), "&", (bit, "11")).unwrap_err().state().0, "22026");
    }
}
