//! Roots, powers, exponentials and logarithms.
//!
//! Computed in fixed point with spare digits and rounded to PostgreSQL's scale, which has at least sixteen significant
//! digits.

use num_bigint::{BigInt, Sign};

use crate::error::{Result, SqlError, SqlState};

use super::{
    Numeric, SCALE_MAX,
    arithmetic::{GROUP, RESULT_SCALE_MAX, SIGNIFICANT_DIGITS_MIN, division_by_zero, leading_group},
    digits, overflow, power_of_ten,
};

/// The number of digits computed beyond the wanted ones.
const SPARE: usize = 24;
/// Results with more digits than this before the point, or zeros behind it, are not computed.
const EXPONENT_MAX: f64 = 6000.0;

fn invalid_logarithm(message: &str) -> SqlError {
    SqlError::new(SqlState("2201E"), message)
}

fn invalid_power(message: &str) -> SqlError {
    SqlError::new(SqlState("2201F"), message)
}

fn scale_for(weight: i64, scales: &[usize]) -> usize {
    let least = scales.iter().copied().max().unwrap_or(0) as i64;
    (SIGNIFICANT_DIGITS_MIN - weight).max(least).clamp(0, RESULT_SCALE_MAX) as usize
}

/// Returns e to the power of `x / 10^precision`, in the same units.
fn exp_fixed(x: &BigInt, precision: usize) -> BigInt {
    let one = power_of_ten(precision);
    // Halved until it is small, so that the series is short; the result is squared as often.
    let magnitude = x.bits() as i64 - one.bits() as i64;
    let halvings = (magnitude + 8).max(0) as usize;
    let small: BigInt = x >> halvings;
    let mut term = one.clone();
    let mut sum = one.clone();
    let mut number = 1u32;
    loop {
        term = term * &small / &one / number;
        if term.sign() == Sign::NoSign {
            break;
        }
        sum += &term;
        number += 1;
    }
    for _ in 0..halvings {
        sum = &sum * &sum / &one;
    }
    sum
}

/// Returns the natural logarithm of a number of about one digit before the point.
fn ln_fixed(x: &BigInt, precision: usize) -> BigInt {
    let one = power_of_ten(precision);
    let approximate = {
        let digits: BigInt = x * power_of_ten(17) / &one;
        (i64::try_from(digits).unwrap_or(i64::MAX) as f64 / 1e17).max(1e-17).ln()
    };
    let mut y = BigInt::from((approximate * 1e15) as i64) * &one / power_of_ten(15);
    // Each step triples the number of correct digits.
    let mut right = 13;
    while right < precision {
        let power = exp_fixed(&y, precision);
        y += (x - &power) * 2 * &one / (x + &power);
        right *= 3;
    }
    y
}

impl Numeric {
    /// Estimates log10 of a positive finite number.
    fn log10_estimate(&self) -> f64 {
        let Some((coefficient, scale)) = self.finite() else { return 0.0 };
        let count = digits::count(&coefficient);
        let cut = count.saturating_sub(17);
        let leading = i64::try_from(coefficient.magnitude() / power_of_ten(cut).magnitude()).unwrap_or(1);
        (leading.max(1) as f64).log10() + cut as f64 - scale as f64
    }

    /// Returns the decimal weight of a positive number's logarithm, as PostgreSQL estimates it.
    fn logarithm_weight(&self) -> Result<i64> {
        let near_one = self.order(&"0.9".parse()?).is_ge() && self.order(&"1.1".parse()?).is_le();
        if near_one {
            let rest = self.subtract(&Self::ONE)?;
            let Some((coefficient, scale)) = rest.finite() else { return Ok(0) };
            if coefficient.sign() == Sign::NoSign {
                return Ok(0);
            }
            let (weight, group) = leading_group(&coefficient, scale);
            return Ok(weight * GROUP + (group as f64).log10() as i64);
        }
        let logarithm = self.log10_estimate() * std::f64::consts::LN_10;
        Ok(logarithm.abs().log10() as i64)
    }

    /// Returns the natural logarithm of a positive finite number, to a scale.
    fn ln_to_scale(&self, scale: usize) -> Result<Self> {
        let Some((coefficient, own_scale)) = self.finite() else { return Ok(Self::NAN) };
        let precision = scale + SPARE;
        // The number is mantissa * 10^exponent; the mantissa has one digit before its point.
        let count = digits::count(&coefficient);
        let exponent = count as i64 - 1 - own_scale as i64;
        let mantissa = if count > precision + 1 {
            coefficient / power_of_ten(count - 1 - precision)
        } else {
            coefficient * power_of_ten(precision + 1 - count)
        };
        let mut logarithm = ln_fixed(&mantissa, precision);
        if exponent != 0 {
            logarithm += ln_fixed(&(power_of_ten(precision) * 10), precision) * exponent;
        }
        Self::unchecked(logarithm, 0).shifted(precision)?.round(scale as i32)
    }

    /// Returns the same digits with the point moved to the left.
    fn shifted(self, scale: usize) -> Result<Self> {
        let Some((coefficient, _)) = self.finite() else { return Ok(self) };
        Self::new(coefficient, scale)
    }

    /// Returns the natural logarithm.
    pub fn ln(&self) -> Result<Self> {
        self.check_logarithm()?;
        if !self.is_finite() {
            return Ok(self.clone());
        }
        let scale = scale_for(self.logarithm_weight()?, &[self.scale()]);
        self.ln_to_scale(scale)
    }

    fn check_logarithm(&self) -> Result<()> {
        if self.is_zero() {
            return Err(invalid_logarithm("cannot take logarithm of zero"));
        }
        if self.signum() < 0 {
            return Err(invalid_logarithm("cannot take logarithm of a negative number"));
        }
        Ok(())
    }

    /// Returns the logarithm to a base.
    pub fn log(&self, base: &Self) -> Result<Self> {
        if self.is_nan() || base.is_nan() {
            return Ok(Self::NAN);
        }
        base.check_logarithm()?;
        self.check_logarithm()?;
        match (base.is_infinite(), self.is_infinite()) {
            (true, true) => return Ok(Self::NAN),
            (true, false) => return Ok(Self::ZERO),
            (false, true) => return Ok(Self::INFINITY),
            (false, false) => {}
        }
        let (base_weight, own_weight) = (base.logarithm_weight()?, self.logarithm_weight()?);
        let scale = scale_for(own_weight - base_weight, &[base.scale(), self.scale()]);
        let precise = |weight: i64| (scale as i64 + SPARE as i64 - weight.min(0) + base_weight.abs()) as usize;
        let own = self.ln_to_scale(precise(own_weight))?;
        let base = base.ln_to_scale(precise(base_weight))?;
        own.divide_to_scale(&base, scale)
    }

    /// Returns e to this power.
    pub fn exp(&self) -> Result<Self> {
        if self.is_nan() {
            return Ok(Self::NAN);
        }
        if self.is_infinite() {
            return Ok(if self.signum() > 0 { Self::INFINITY } else { Self::ZERO });
        }
        let weight = (self.to_f64() * std::f64::consts::LOG10_E).clamp(-2000.0, 2000.0);
        let scale = scale_for(weight as i64, &[self.scale()]);
        self.exp_to_scale(scale)
    }

    fn exp_to_scale(&self, scale: usize) -> Result<Self> {
        let approximate = self.to_f64();
        if approximate >= EXPONENT_MAX {
            return Err(overflow());
        }
        if approximate <= -EXPONENT_MAX {
            return Self::ZERO.round(scale as i32);
        }
        let before_point = (approximate * std::f64::consts::LOG10_E).max(0.0) as usize;
        let precision = scale + before_point + SPARE;
        let Some((coefficient, own_scale)) = self.finite() else { return Ok(Self::NAN) };
        let fixed = if own_scale > precision {
            coefficient / power_of_ten(own_scale - precision)
        } else {
            coefficient * power_of_ten(precision - own_scale)
        };
        Self::new(exp_fixed(&fixed, precision), precision.min(SCALE_MAX))?.round(scale as i32)
    }

    /// Returns the square root.
    pub fn sqrt(&self) -> Result<Self> {
        if self.is_nan() {
            return Ok(Self::NAN);
        }
        if self.signum() < 0 {
            return Err(invalid_power("cannot take square root of a negative number"));
        }
        let Some((coefficient, own_scale)) = self.finite() else { return Ok(self.clone()) };
        let (weight, _) = leading_group(&coefficient, own_scale);
        self.sqrt_to(scale_for(((weight + 1) * GROUP) / 2 - 1, &[own_scale]))
    }

    /// Returns the square root of a number that is not negative, rounded once, to a scale.
    pub fn sqrt_to(&self, scale: usize) -> Result<Self> {
        let Some((coefficient, own_scale)) = self.finite() else { return Ok(self.clone()) };
        // One more digit, to be rounded: the root is irrational or exact.
        let wanted = 2 * (scale + 1);
        let radicand = if wanted >= own_scale {
            coefficient * power_of_ten(wanted - own_scale)
        } else {
            coefficient / power_of_ten(own_scale - wanted)
        };
        Self::new(radicand.sqrt(), scale + 1)?.round(scale as i32)
    }

    /// `self ^ exponent`
    pub fn power(&self, exponent: &Self) -> Result<Self> {
        let is_one = |number: &Self| number.order(&Self::ONE).is_eq();
        if exponent.is_zero() && !self.is_finite() || is_one(self) && !exponent.is_finite() {
            return Ok(Self::ONE);
        }
        if self.is_nan() || exponent.is_nan() {
            return Ok(Self::NAN);
        }
        if self.is_zero() && exponent.signum() < 0 {
            return Err(invalid_power("zero raised to a negative power is undefined"));
        }
        let is_whole = exponent.is_finite() && exponent.truncate(0)?.order(exponent).is_eq();
        if self.signum() < 0 && exponent.is_finite() && !is_whole {
            return Err(invalid_power("a negative number raised to a non-integer power yields a complex result"));
        }
        if !self.is_finite() || !exponent.is_finite() {
            return self.power_with_infinity(exponent);
        }
        if is_whole && let Ok(whole) = exponent.to_i32() {
            return self.power_whole(whole);
        }
        if self.is_zero() {
            return Self::ZERO.round(SIGNIFICANT_DIGITS_MIN as i32);
        }
        let base = self.absolute();
        let estimate = base.log10_estimate() * exponent.to_f64();
        if estimate.abs() * std::f64::consts::LN_10 > EXPONENT_MAX * 1.003 {
            return if estimate > 0.0 { Err(overflow()) } else { Self::ZERO.round(RESULT_SCALE_MAX as i32) };
        }
        let scale = scale_for(estimate as i64, &[self.scale(), exponent.scale()]);
        let precision = scale + estimate.max(0.0) as usize + SPARE;
        let logarithm = base.ln_to_scale(precision.min(SCALE_MAX / 2))?;
        let product = logarithm.multiply(exponent)?.round(precision.min(SCALE_MAX) as i32)?;
        let result = product.exp_to_scale(scale)?;
        // A whole exponent too large for repeated multiplication: an odd one keeps the sign.
        let is_odd = is_whole && !exponent.remainder(&Self::from(2))?.is_zero();
        Ok(if self.signum() < 0 && is_odd { result.negate() } else { result })
    }

    fn power_with_infinity(&self, exponent: &Self) -> Result<Self> {
        if exponent.is_infinite() {
            let one = self.absolute().order(&Self::ONE);
            return Ok(match (one, exponent.signum() > 0) {
                (std::cmp::Ordering::Equal, _) => Self::ONE,
                (std::cmp::Ordering::Greater, true) | (std::cmp::Ordering::Less, false) => Self::INFINITY,
                _ => Self::ZERO,
            });
        }
        if exponent.signum() < 0 {
            return Ok(Self::ZERO);
        }
        let is_odd = !exponent.remainder(&Self::from(2))?.is_zero();
        Ok(if self.signum() < 0 && is_odd { Self::NEGATIVE_INFINITY } else { Self::INFINITY })
    }

    fn power_whole(&self, exponent: i32) -> Result<Self> {
        let weight = if self.is_zero() { 0.0 } else { f64::from(exponent) * self.absolute().log10_estimate() };
        if weight > super::DIGITS_BEFORE_POINT_MAX as f64 {
            return Err(overflow());
        }
        // Here PostgreSQL 15 does not check the weight.
        let scale = scale_for(0, &[self.scale()]);
        if weight + 1.0 < -(scale as f64) {
            return Self::ZERO.round(scale as i32);
        }
        match exponent {
            0 => return Self::ONE.round(scale as i32),
            1 => return self.round(scale as i32),
            -1 => return Self::ONE.divide_to_scale(self, scale),
            _ if self.is_zero() && exponent < 0 => return Err(division_by_zero()),
            _ if self.is_zero() => return Self::ZERO.round(scale as i32),
            _ => {}
        }
        let Some((base, base_scale)) = self.finite() else { return Ok(Self::NAN) };
        // A mantissa of as many digits as the result needs, and its power of ten.
        let keep = scale + (weight.abs() as usize) + SPARE;
        let trim = |(mantissa, power): (BigInt, i64)| {
            let excess = digits::count(&mantissa).saturating_sub(keep);
            if excess == 0 { (mantissa, power) } else { (mantissa / power_of_ten(excess), power + excess as i64) }
        };
        let mut square = trim((base, -(base_scale as i64)));
        let mut result = (BigInt::from(1), 0);
        let mut left = exponent.unsigned_abs();
        while left > 0 {
            if left & 1 == 1 {
                result = trim((result.0 * &square.0, result.1 + square.1));
            }
            left >>= 1;
            if left > 0 {
                square = trim((&square.0 * &square.0, square.1 * 2));
            }
        }
        let (mantissa, power) = result;
        // Truncated to two digits more than wanted, then rounded.
        let wanted = scale as i64 + 2;
        if exponent > 0 {
            let shift = power + wanted;
            let fixed = if shift >= 0 {
                mantissa * power_of_ten(shift as usize)
            } else {
                mantissa / power_of_ten(shift.unsigned_abs() as usize)
            };
            return Self::new(fixed, wanted as usize)?.round(scale as i32);
        }
        // 10^wanted / (mantissa * 10^power)
        let shift = wanted - power;
        let fixed = if shift >= 0 { power_of_ten(shift as usize) / mantissa } else { BigInt::ZERO };
        Self::new(fixed, wanted as usize)?.round(scale as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_postgresqls_digits() {
        let numeric = |text: &str| text.parse::<Numeric>().unwrap();
        assert_eq!(numeric("2").sqrt().unwrap().to_string(), "1.414213562373095");
        assert_eq!(numeric("0").sqrt().unwrap().to_string(), "0.000000000000000");
        assert_eq!(numeric("1").exp().unwrap().to_string(), "2.7182818284590452");
        assert_eq!(numeric("2").ln().unwrap().to_string(), "0.6931471805599453");
        assert_eq!(numeric("100").log(&numeric("10")).unwrap().to_string(), "2.0000000000000000");
        assert_eq!(numeric("2").power(&numeric("10")).unwrap().to_string(), "1024.0000000000000000");
        assert_eq!(numeric("2").power(&numeric("0.5")).unwrap().to_string(), "1.4142135623730950");
        assert_eq!(numeric("2").power(&numeric("-2")).unwrap().to_string(), "0.2500000000000000");
        assert!(numeric("10").power(&numeric("1000000")).is_err());
        assert!(numeric("-8").power(&numeric("0.3")).is_err());
        assert!(numeric("0").ln().is_err());
        assert!(numeric("-1").sqrt().is_err());
    }
}
