//! Decimal digits of a coefficient: counting, parsing, and groups of four as PostgreSQL sends them.

use num_bigint::{BigInt, BigUint, Sign};

use crate::error::{Result, SqlError, SqlState};

use super::{Numeric, Repr, SCALE_MAX, power_of_ten};

/// Returns the number of decimal digits; 0 has one.
pub(super) fn count(number: &BigInt) -> usize {
    // log10(2) = 0.30103, so this is right or one too few.
    let bits = number.bits() as usize;
    let estimate = (bits.saturating_sub(1) as f64 * std::f64::consts::LOG10_2) as usize;
    let mut digits = estimate.max(1);
    while number.magnitude() >= power_of_ten(digits).magnitude() {
        digits += 1;
    }
    digits
}

/// Parses ASCII digits.
pub(super) fn parse(digits: &[u8]) -> BigInt {
    BigInt::parse_bytes(digits, 10).unwrap_or_default()
}

/// PostgreSQL's words for the signs and the special values.
const POSITIVE: u16 = 0x0000;
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const INFINITY: u16 = 0xD000;
const NEGATIVE_INFINITY: u16 = 0xF000;

/// The number of digits in a group.
const GROUP: usize = 4;

fn invalid(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
}

impl Numeric {
    /// Appends PostgreSQL's binary form: the number of groups, the first group's weight, sign, scale, groups of four
    /// digits.
    pub(crate) fn write_binary(&self, out: &mut Vec<u8>) {
        let mut words = |words: &[u16]| words.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
        let special = match self.0 {
            Repr::NaN => NAN,
            Repr::Infinity => INFINITY,
            Repr::NegativeInfinity => NEGATIVE_INFINITY,
            _ => 0,
        };
        if special != 0 {
            // PostgreSQL uses the greatest scale of its short form for infinities, and none for NaN.
            let scale = if special == NAN { 0 } else { 32 };
            return words(&[0, 0, special, scale]);
        }
        let scale = self.scale();
        let text = self.to_string();
        let unsigned = text.strip_prefix('-').unwrap_or(&text);
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let whole = whole.trim_start_matches('0');
        let mut digits = "0".repeat(whole.len().next_multiple_of(GROUP) - whole.len());
        digits.push_str(whole);
        let mut weight = (digits.len() / GROUP) as i32 - 1;
        digits.push_str(fraction);
        digits.push_str(&"0".repeat(digits.len().next_multiple_of(GROUP) - digits.len()));
        let mut groups: Vec<u16> = digits
            .as_bytes()
            .chunks(GROUP)
            .map(|group| group.iter().fold(0, |number, digit| number * 10 + u16::from(digit - b'0')))
            .collect();
        let zeros = groups.iter().take_while(|&&group| group == 0).count();
        groups.drain(..zeros);
        weight -= zeros as i32;
        while groups.last() == Some(&0) {
            groups.pop();
        }
        if groups.is_empty() {
            weight = 0;
        }
        let sign = if self.signum() < 0 { NEGATIVE } else { POSITIVE };
        words(&[groups.len() as u16, weight as i16 as u16, sign, scale as u16]);
        words(&groups);
    }

    /// Reads PostgreSQL's binary form.
    pub(crate) fn read_binary(bytes: &[u8]) -> Result<Self> {
        let (words, rest) = bytes.as_chunks::<2>();
        let mut words = words.iter().map(|word| u16::from_be_bytes(*word));
        let (Some(count), Some(weight), Some(sign), Some(scale)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(invalid("insufficient data left in message"));
        };
        match sign {
            POSITIVE | NEGATIVE => {}
            NAN => return Ok(Self::NAN),
            INFINITY => return Ok(Self::INFINITY),
            NEGATIVE_INFINITY => return Ok(Self::NEGATIVE_INFINITY),
            _ => return Err(invalid("invalid sign in external \"numeric\" value")),
        }
        if usize::from(scale) > SCALE_MAX {
            return Err(invalid("invalid scale in external \"numeric\" value"));
        }
        if words.len() < usize::from(count) {
            return Err(invalid("insufficient data left in message"));
        }
        if words.len() > usize::from(count) || !rest.is_empty() {
            return Err(invalid("incorrect binary data format"));
        }
        let mut digits = Vec::with_capacity(usize::from(count) * GROUP);
        for group in words {
            if group >= 10_000 {
                return Err(invalid("invalid digit in external \"numeric\" value"));
            }
            digits.extend_from_slice(format!("{group:04}").as_bytes());
        }
        // The digits form a fraction, scaled by the groups before the point; digits beyond the scale are cut off.
        let exponent = (i64::from(weight as i16) + 1) * GROUP as i64;
        let wanted = exponent + i64::from(scale);
        if exponent > super::DIGITS_BEFORE_POINT_MAX as i64 {
            return Err(super::overflow());
        }
        digits.resize(usize::try_from(wanted).unwrap_or(0), b'0');
        let coefficient = match parse(&digits).into_parts() {
            (Sign::NoSign, _) => BigUint::ZERO.into(),
            (_, magnitude) if sign == NEGATIVE => BigInt::from_biguint(Sign::Minus, magnitude),
            (sign, magnitude) => BigInt::from_biguint(sign, magnitude),
        };
        Self::new(coefficient, usize::from(scale))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_forms_come_back() {
        for text in [
            "0",
            "0.00",
            "1",
            "-1",
            "10000",
            "1234567890.0001",
            "-0.00012345",
            "1e40",
            "0.0000000001",
            "99999999.9999",
            "NaN",
            "-Infinity",
        ] {
            let number: Numeric = text.parse().unwrap();
            let mut bytes = Vec::new();
            number.write_binary(&mut bytes);
            assert_eq!(Numeric::read_binary(&bytes).unwrap(), number, "{text}");
        }
        let mut bytes = Vec::new();
        "12345.678".parse::<Numeric>().unwrap().write_binary(&mut bytes);
        assert_eq!(bytes, [0, 3, 0, 1, 0, 0, 0, 3, 0, 1, 9, 41, 26, 124]);
    }

    #[test]
    fn digits_are_counted() {
        for exponent in [0usize, 1, 5, 18, 19, 20, 100, 1000] {
            assert_eq!(count(&power_of_ten(exponent)), exponent + 1);
            assert_eq!(count(&(power_of_ten(exponent) - 1)), exponent.max(1));
        }
    }
}
