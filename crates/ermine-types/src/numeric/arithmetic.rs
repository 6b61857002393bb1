//! Sums, products, quotients and rounding, with PostgreSQL's scales.

use num_bigint::{BigInt, Sign};

use crate::error::{Result, SqlError, SqlState};

use super::{Numeric, POWERS_OF_TEN, Repr, SCALE_MAX, digits, power_of_ten};

/// The minimum number of significant digits of quotients and roots.
pub(super) const SIGNIFICANT_DIGITS_MIN: i64 = 16;
/// The maximum number of digits of quotients and roots behind the point.
pub(super) const RESULT_SCALE_MAX: i64 = 1000;
/// PostgreSQL's digits are groups of four.
pub(super) const GROUP: i64 = 4;

/// The error for a division by zero.
pub(crate) fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

/// The rounding mode.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rounding {
    HalfAwayFromZero,
    TowardsZero,
    Down,
    Up,
}

/// Divides and rounds.
fn divide_rounded(dividend: &BigInt, divisor: &BigInt, rounding: Rounding) -> BigInt {
    let quotient = dividend / divisor;
    let remainder = dividend - &quotient * divisor;
    if remainder.sign() == Sign::NoSign {
        return quotient;
    }
    let negative = (dividend.sign() == Sign::Minus) != (divisor.sign() == Sign::Minus);
    let away = match rounding {
        Rounding::HalfAwayFromZero => (remainder.magnitude() << 1) >= *divisor.magnitude(),
        Rounding::TowardsZero => false,
        Rounding::Down => negative,
        Rounding::Up => !negative,
    };
    match (away, negative) {
        (false, _) => quotient,
        (true, true) => quotient - 1,
        (true, false) => quotient + 1,
    }
}

/// Returns the weight of the first group of four digits, and this group.
pub(super) fn leading_group(coefficient: &BigInt, scale: usize) -> (i64, i64) {
    if coefficient.sign() == Sign::NoSign {
        return (0, 0);
    }
    let count = digits::count(coefficient) as i64;
    let exponent = count - scale as i64 - 1;
    let wanted = exponent.rem_euclid(GROUP) + 1;
    let group = if count > wanted {
        coefficient.magnitude() / power_of_ten((count - wanted) as usize).magnitude()
    } else {
        coefficient.magnitude() * power_of_ten((wanted - count) as usize).magnitude()
    };
    (exponent.div_euclid(GROUP), i64::try_from(group).unwrap_or(0))
}

/// Returns the scale of a quotient: as many digits as either operand has, and at least sixteen significant ones.
fn quotient_scale(left: &(BigInt, usize), right: &(BigInt, usize)) -> usize {
    let (left_weight, left_group) = leading_group(&left.0, left.1);
    let (right_weight, right_group) = leading_group(&right.0, right.1);
    let weight = left_weight - right_weight - i64::from(left_group <= right_group);
    (SIGNIFICANT_DIGITS_MIN - weight * GROUP).max(left.1 as i64).max(right.1 as i64).clamp(0, RESULT_SCALE_MAX) as usize
}

impl Numeric {
    /// Returns an infinity of this sign.
    fn infinity(negative: bool) -> Self {
        if negative { Self::NEGATIVE_INFINITY } else { Self::INFINITY }
    }

    /// `self + other`
    pub fn add(&self, other: &Self) -> Result<Self> {
        if let (Repr::Small { coefficient: left, scale: s }, Repr::Small { coefficient: right, scale: t }) =
            (&self.0, &other.0)
        {
            if s == t {
                return Ok(Self::from_i128(i128::from(*left) + i128::from(*right), *s));
            }
            if s.abs_diff(*t) < 19 {
                let widen = |number: i64, by: u16| i128::from(number) * i128::from(POWERS_OF_TEN[usize::from(by)]);
                let sum = widen(*left, t.saturating_sub(*s)) + widen(*right, s.saturating_sub(*t));
                return Ok(Self::from_i128(sum, *s.max(t)));
            }
        }
        match (self.finite(), other.finite()) {
            (Some((left, s)), Some((right, t))) => {
                let scale = s.max(t);
                Self::new(left * power_of_ten(scale - s) + right * power_of_ten(scale - t), scale)
            }
            (Some(_), None) => Ok(other.clone()),
            (None, Some(_)) => Ok(self.clone()),
            (None, None) if self == other => Ok(self.clone()),
            (None, None) => Ok(Self::NAN),
        }
    }

    /// `self - other`
    pub fn subtract(&self, other: &Self) -> Result<Self> {
        self.add(&other.negate())
    }

    /// `-self`
    pub fn negate(&self) -> Self {
        match &self.0 {
            Repr::Small { coefficient, scale } => Self::from_i128(-i128::from(*coefficient), *scale),
            Repr::Large(large) => Self::unchecked(-&large.coefficient, large.scale),
            Repr::NaN => Self::NAN,
            Repr::Infinity => Self::NEGATIVE_INFINITY,
            Repr::NegativeInfinity => Self::INFINITY,
        }
    }

    /// Returns the absolute value.
    pub fn absolute(&self) -> Self {
        if self.signum() < 0 { self.negate() } else { self.clone() }
    }

    /// `self * other`
    pub fn multiply(&self, other: &Self) -> Result<Self> {
        if let (Repr::Small { coefficient: left, scale: s }, Repr::Small { coefficient: right, scale: t }) =
            (&self.0, &other.0)
            && usize::from(*s) + usize::from(*t) <= SCALE_MAX
        {
            return Ok(Self::from_i128(i128::from(*left) * i128::from(*right), s + t));
        }
        match (self.finite(), other.finite()) {
            (Some((left, s)), Some((right, t))) => {
                let (mut product, mut scale) = (left * right, s + t);
                if scale > SCALE_MAX {
                    product = divide_rounded(&product, &power_of_ten(scale - SCALE_MAX), Rounding::HalfAwayFromZero);
                    scale = SCALE_MAX;
                }
                Self::new(product, scale)
            }
            _ if self.is_nan() || other.is_nan() || self.is_zero() || other.is_zero() => Ok(Self::NAN),
            _ => Ok(Self::infinity(self.signum() * other.signum() < 0)),
        }
    }

    /// `self / other`
    pub fn divide(&self, other: &Self) -> Result<Self> {
        if self.is_nan() || other.is_nan() {
            return Ok(Self::NAN);
        }
        if other.is_zero() {
            return Err(division_by_zero());
        }
        match (self.finite(), other.finite()) {
            (Some(left), Some(right)) => {
                let scale = quotient_scale(&left, &right);
                self.divide_to_scale(other, scale)
            }
            (Some(_), None) => Ok(Self::ZERO),
            (None, Some(_)) => Ok(Self::infinity(self.signum() * other.signum() < 0)),
            (None, None) => Ok(Self::NAN),
        }
    }

    /// Returns the quotient of finite numbers with `scale` digits behind the point.
    pub(super) fn divide_to_scale(&self, other: &Self, scale: usize) -> Result<Self> {
        let (Some((left, s)), Some((right, t))) = (self.finite(), other.finite()) else { return Ok(Self::NAN) };
        if right.sign() == Sign::NoSign {
            return Err(division_by_zero());
        }
        // left / 10^s / (right / 10^t) * 10^scale
        let exponent = (scale + t) as i64 - s as i64;
        let (dividend, divisor) = if exponent >= 0 {
            (left * power_of_ten(exponent as usize), right)
        } else {
            (left, right * power_of_ten(-exponent as usize))
        };
        Self::new(divide_rounded(&dividend, &divisor, Rounding::HalfAwayFromZero), scale)
    }

    /// Returns the quotient without its fraction.
    pub fn divide_truncated(&self, other: &Self) -> Result<Self> {
        if self.is_finite() && other.is_finite() && !other.is_zero() {
            let rest = self.remainder(other)?;
            return self.subtract(&rest)?.divide_to_scale(other, 0);
        }
        self.divide(other)
    }

    /// Returns the remainder of the division, with the dividend's sign.
    pub fn remainder(&self, other: &Self) -> Result<Self> {
        if self.is_nan() || other.is_nan() {
            return Ok(Self::NAN);
        }
        if other.is_zero() {
            return Err(division_by_zero());
        }
        match (self.finite(), other.finite()) {
            (Some((left, s)), Some((right, t))) => {
                let scale = s.max(t);
                Self::new((left * power_of_ten(scale - s)) % (right * power_of_ten(scale - t)), scale)
            }
            (Some(_), None) => Ok(self.clone()),
            (None, _) => Ok(Self::NAN),
        }
    }

    /// Returns the greatest common divisor.
    pub fn gcd(&self, other: &Self) -> Result<Self> {
        if !self.is_finite() || !other.is_finite() {
            return Ok(Self::NAN);
        }
        let scale = self.scale().max(other.scale()) as i32;
        let (mut left, mut right) = (self.absolute(), other.absolute());
        while !right.is_zero() {
            let rest = left.remainder(&right)?;
            left = std::mem::replace(&mut right, rest);
        }
        left.round(scale)
    }

    fn round_in(&self, wanted: i32, rounding: Rounding) -> Result<Self> {
        let scale = self.scale() as i32;
        if !self.is_finite() || wanted == scale {
            return Ok(self.clone());
        }
        if let Repr::Small { coefficient, scale: own } = self.0 {
            let exponent = wanted - scale;
            if (0..=18).contains(&exponent)
                && let Some(coefficient) = coefficient.checked_mul(POWERS_OF_TEN[exponent as usize])
            {
                return Ok(Self::small(coefficient, wanted as u16));
            }
            if wanted >= 0 && (-18..0).contains(&exponent) && rounding == Rounding::HalfAwayFromZero {
                let power = POWERS_OF_TEN[-exponent as usize];
                let half = i128::from(power / 2) * i128::from(coefficient.signum());
                debug_assert!(own > 0);
                return Ok(Self::from_i128((i128::from(coefficient) + half) / i128::from(power), wanted as u16));
            }
        }
        let Some((coefficient, _)) = self.finite() else { return Ok(self.clone()) };
        let exponent = wanted - scale;
        if exponent >= 0 {
            return Self::new(coefficient * power_of_ten(exponent as usize), wanted as usize);
        }
        // Numbers far below the last digit to keep need no power of that size.
        let digits = digits::count(&coefficient);
        let cut = (exponent.unsigned_abs() as usize).min(digits + 1);
        let rounded = divide_rounded(&coefficient, &power_of_ten(cut), rounding);
        if wanted >= 0 {
            return Self::new(rounded, wanted as usize);
        }
        if rounded.sign() == Sign::NoSign {
            return Ok(Self::ZERO);
        }
        Self::new(rounded * power_of_ten(wanted.unsigned_abs() as usize), 0)
    }

    /// Rounds to `scale` digits behind the point, half away from zero; before the point if negative.
    pub fn round(&self, scale: i32) -> Result<Self> {
        self.round_in(scale, Rounding::HalfAwayFromZero)
    }

    /// Truncates to `scale` digits behind the point.
    pub fn truncate(&self, scale: i32) -> Result<Self> {
        self.round_in(scale, Rounding::TowardsZero)
    }

    /// Returns the least whole number that is not less.
    pub fn ceiling(&self) -> Result<Self> {
        self.round_in(0, Rounding::Up)
    }

    /// Returns the greatest whole number that is not greater.
    pub fn floor(&self) -> Result<Self> {
        self.round_in(0, Rounding::Down)
    }

    /// Removes zeros at the end of the fraction.
    pub fn without_trailing_zeros(&self) -> Self {
        let Some((mut coefficient, mut scale)) = self.finite() else { return self.clone() };
        if coefficient.sign() == Sign::NoSign {
            return Self::ZERO;
        }
        let ten = BigInt::from(10);
        while scale > 0 && (&coefficient % &ten).sign() == Sign::NoSign {
            coefficient /= &ten;
            scale -= 1;
        }
        Self::unchecked(coefficient, scale as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numeric(text: &str) -> Numeric {
        text.parse().unwrap()
    }

    #[test]
    fn operations_have_postgresqls_scales() {
        let check = |result: Result<Numeric>, expected: &str| assert_eq!(result.unwrap().to_string(), expected);
        check(numeric("1.10").add(&numeric("2.005")), "3.105");
        check(numeric("9223372036854775807").add(&numeric("1")), "9223372036854775808");
        check(numeric("9223372036854775808").subtract(&numeric("1.0")), "9223372036854775807.0");
        check(numeric("1.5").multiply(&numeric("2.25")), "3.375");
        check(numeric("1").divide(&numeric("3")), "0.33333333333333333333");
        check(numeric("10").divide(&numeric("4")), "2.5000000000000000");
        check(numeric("100000").divide(&numeric("3")), "33333.333333333333");
        check(numeric("1").divide(&numeric("7e20")), "0.0000000000000000000014285714285714285714");
        check(numeric("-7.5").remainder(&numeric("2")), "-1.5");
        check(numeric("7.9").divide_truncated(&numeric("2")), "3");
        check(numeric("Infinity").add(&numeric("-Infinity")), "NaN");
        check(numeric("Infinity").multiply(&numeric("0")), "NaN");
        check(numeric("5").divide(&numeric("-Infinity")), "0");
        check(numeric("330.3").gcd(&numeric("462")), "0.3");
        assert_eq!(numeric("1").divide(&numeric("0")).unwrap_err().state(), SqlState::DIVISION_BY_ZERO);
    }

    #[test]
    fn rounding_is_half_away_from_zero() {
        for (text, scale, expected) in [
            ("2.5", 0, "3"),
            ("-2.5", 0, "-3"),
            ("2.45", 1, "2.5"),
            ("1250", -2, "1300"),
            ("4", -1, "0"),
            ("1.5", 4, "1.5000"),
            ("0.00001", -2000, "0"),
        ] {
            assert_eq!(numeric(text).round(scale).unwrap().to_string(), expected, "{text} {scale}");
        }
        assert_eq!(numeric("-0.5").ceiling().unwrap().to_string(), "0");
        assert_eq!(numeric("-0.5").floor().unwrap().to_string(), "-1");
        assert_eq!(numeric("-1.99").truncate(1).unwrap().to_string(), "-1.9");
        assert_eq!(numeric("1.500").without_trailing_zeros().to_string(), "1.5");
    }
}
