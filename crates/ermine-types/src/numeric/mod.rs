//! Exact decimal numbers: a whole coefficient over a power of ten, NaN and both infinities.
//!
//! `coefficient / 10^scale`. The scale is the *display scale*, the number of digits written behind the point: this is
//! why 1.10 stays 1.10. Nearly every number of a transaction fits in 64 bits, so such coefficients are stored in the
//! value itself; longer ones are a [`BigInt`] on the heap.
//!
//! Invariants
//! 1. A coefficient that fits in 64 bits is never on the heap; so equal representations mean equal value and scale.
//! 2. A number has at most [`DIGITS_BEFORE_POINT_MAX`] digits before the point and [`SCALE_MAX`] behind it. Every
//!    operation checks its result, so that no number takes more than some 60 KiB.
//!
//! This is own code around `num-bigint`, since `bigdecimal` lacks NaN, infinities and PostgreSQL's display scales.

mod arithmetic;
mod digits;
mod transcendental;

pub(crate) use arithmetic::division_by_zero;

use std::{cmp::Ordering, fmt, str::FromStr};

use num_bigint::{BigInt, Sign};

use crate::error::{Result, SqlError, SqlState};

use super::SqlType;

/// The maximum number of digits before the point.
pub const DIGITS_BEFORE_POINT_MAX: usize = 131_072;
/// The maximum number of digits behind the point.
pub const SCALE_MAX: usize = 16_383;

/// An exact number.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Numeric(Repr);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    Small { coefficient: i64, scale: u16 },
    Large(Box<Large>),
    NaN,
    Infinity,
    NegativeInfinity,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Large {
    coefficient: BigInt,
    scale: u16,
}

/// The parts of a number, for code that stores it.
pub enum Parts<'a> {
    /// Coefficient and scale.
    Small(i64, u16),
    /// Coefficient and scale, of a coefficient that needs more than 64 bits.
    Large(&'a BigInt, u16),
    /// Not a number.
    NaN,
    /// Larger than all numbers.
    Infinity,
    /// Smaller than all numbers.
    NegativeInfinity,
}

pub(crate) const POWERS_OF_TEN: [i64; 19] = {
    let mut powers = [1; 19];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// Returns 10 to the given power.
pub(crate) fn power_of_ten(exponent: usize) -> BigInt {
    match POWERS_OF_TEN.get(exponent) {
        Some(&power) => power.into(),
        None => BigInt::from(10).pow(exponent as u32),
    }
}

/// The error for a number with too many digits.
pub(crate) fn overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
}

fn out_of_range(ty: SqlType) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{} out of range", ty.name()))
}

impl Numeric {
    /// Not a number.
    pub const NAN: Self = Self(Repr::NaN);
    /// Greater than every finite number.
    pub const INFINITY: Self = Self(Repr::Infinity);
    /// Less than every finite number.
    pub const NEGATIVE_INFINITY: Self = Self(Repr::NegativeInfinity);
    /// 0
    pub const ZERO: Self = Self::small(0, 0);
    /// 1
    pub const ONE: Self = Self::small(1, 0);

    /// Returns `coefficient / 10^scale`.
    pub(crate) fn of_parts(coefficient: i64, scale: usize) -> Result<Self> {
        if scale > SCALE_MAX { Err(overflow()) } else { Ok(Self::small(coefficient, scale as u16)) }
    }

    const fn small(coefficient: i64, scale: u16) -> Self {
        Self(Repr::Small { coefficient, scale })
    }

    /// Returns `coefficient / 10^scale`; the number of digits is known to be allowed.
    fn unchecked(coefficient: BigInt, scale: u16) -> Self {
        match i64::try_from(&coefficient) {
            Ok(coefficient) => Self::small(coefficient, scale),
            Err(_) => Self(Repr::Large(Box::new(Large { coefficient, scale }))),
        }
    }

    /// Returns `coefficient / 10^scale`.
    pub(crate) fn new(coefficient: BigInt, scale: usize) -> Result<Self> {
        if scale > SCALE_MAX {
            return Err(overflow());
        }
        // Three bits are less than a digit, so only very long ones are counted exactly.
        let bits = coefficient.bits() as usize;
        if bits > DIGITS_BEFORE_POINT_MAX * 3 && digits::count(&coefficient) > DIGITS_BEFORE_POINT_MAX + scale {
            return Err(overflow());
        }
        Ok(Self::unchecked(coefficient, scale as u16))
    }

    fn from_i128(coefficient: i128, scale: u16) -> Self {
        match i64::try_from(coefficient) {
            Ok(coefficient) => Self::small(coefficient, scale),
            Err(_) => Self(Repr::Large(Box::new(Large { coefficient: coefficient.into(), scale }))),
        }
    }

    /// Returns the number of bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.0 {
            Repr::Large(large) => size_of::<Large>() + (large.coefficient.bits() / 8) as usize,
            Repr::Small { .. } | Repr::NaN | Repr::Infinity | Repr::NegativeInfinity => 0,
        }
    }

    /// Whether it has so many digits that arithmetic with it may take long.
    pub(crate) fn is_long(&self) -> bool {
        matches!(&self.0, Repr::Large(large) if large.coefficient.bits() > 4096)
    }

    /// Returns the parts of the number.
    pub fn parts(&self) -> Parts<'_> {
        match &self.0 {
            Repr::Small { coefficient, scale } => Parts::Small(*coefficient, *scale),
            Repr::Large(large) => Parts::Large(&large.coefficient, large.scale),
            Repr::NaN => Parts::NaN,
            Repr::Infinity => Parts::Infinity,
            Repr::NegativeInfinity => Parts::NegativeInfinity,
        }
    }

    /// Returns coefficient and scale of a finite number.
    pub(crate) fn finite(&self) -> Option<(BigInt, usize)> {
        match &self.0 {
            Repr::Small { coefficient, scale } => Some((BigInt::from(*coefficient), usize::from(*scale))),
            Repr::Large(large) => Some((large.coefficient.clone(), usize::from(large.scale))),
            _ => None,
        }
    }

    /// Whether it is NaN.
    pub fn is_nan(&self) -> bool {
        matches!(self.0, Repr::NaN)
    }

    /// Whether it is an infinity.
    pub fn is_infinite(&self) -> bool {
        matches!(self.0, Repr::Infinity | Repr::NegativeInfinity)
    }

    /// Whether it is neither NaN nor an infinity.
    pub fn is_finite(&self) -> bool {
        matches!(self.0, Repr::Small { .. } | Repr::Large(_))
    }

    /// Whether it is zero, of any scale.
    pub fn is_zero(&self) -> bool {
        matches!(self.0, Repr::Small { coefficient: 0, .. })
    }

    /// Returns the number of digits written behind the point.
    pub fn scale(&self) -> usize {
        match &self.0 {
            Repr::Small { scale, .. } => usize::from(*scale),
            Repr::Large(large) => usize::from(large.scale),
            _ => 0,
        }
    }

    /// Returns -1, 0 or 1; NaN counts as positive here.
    pub fn signum(&self) -> i32 {
        match &self.0 {
            Repr::Small { coefficient, .. } => coefficient.signum() as i32,
            Repr::Large(large) if large.coefficient.sign() == Sign::Minus => -1,
            Repr::Large(_) | Repr::NaN | Repr::Infinity => 1,
            Repr::NegativeInfinity => -1,
        }
    }

    /// Applies precision and scale of a modifier: rounds, and fails if there are too many digits before the point.
    pub fn with_modifier(self, modifier: i32) -> Result<Self> {
        let Some((precision, scale)) = SqlType::precision_and_scale_of(modifier) else { return Ok(self) };
        let too_large = |bound: String| {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow")
                .detail(format!("A field with precision {precision}, scale {scale} {bound}."))
        };
        match self.0 {
            Repr::NaN => return Ok(self),
            Repr::Infinity | Repr::NegativeInfinity => {
                return Err(too_large("cannot hold an infinite value".into()));
            }
            _ => {}
        }
        let rounded = self.round(scale)?;
        // The bound on the coefficient, in units of the rounded number's own scale.
        let before_point = precision - scale;
        let exponent = before_point + rounded.scale() as i32;
        let fits = match rounded.parts() {
            Parts::Small(coefficient, _) => match usize::try_from(exponent) {
                Ok(exponent) => {
                    POWERS_OF_TEN.get(exponent).is_none_or(|power| coefficient.unsigned_abs() < *power as u64)
                }
                Err(_) => coefficient == 0,
            },
            Parts::Large(coefficient, _) => match usize::try_from(exponent) {
                Ok(exponent) => coefficient.magnitude() < power_of_ten(exponent).magnitude(),
                Err(_) => false,
            },
            _ => true,
        };
        if fits {
            return Ok(rounded);
        }
        Err(too_large(match before_point {
            0 => "must round to an absolute value less than 1".into(),
            _ => format!("must round to an absolute value less than 10^{before_point}"),
        }))
    }

    /// Returns the number as an integer, rounded half away from zero; `None`: it does not fit.
    fn to_i128(&self) -> Option<i128> {
        match self.round(0).ok()?.0 {
            Repr::Small { coefficient, .. } => Some(coefficient.into()),
            Repr::Large(large) => i128::try_from(&large.coefficient).ok(),
            _ => None,
        }
    }

    fn check_convertible(&self, ty: SqlType) -> Result<()> {
        let what = match self.0 {
            Repr::NaN => "NaN",
            Repr::Infinity | Repr::NegativeInfinity => "infinity",
            _ => return Ok(()),
        };
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("cannot convert {what} to {}", ty.name())))
    }

    /// Returns the number as `smallint`, rounded.
    pub fn to_i16(&self) -> Result<i16> {
        self.check_convertible(SqlType::INT2)?;
        self.to_i128().and_then(|number| number.try_into().ok()).ok_or_else(|| out_of_range(SqlType::INT2))
    }

    /// Returns the number as `integer`, rounded.
    pub fn to_i32(&self) -> Result<i32> {
        self.check_convertible(SqlType::INT4)?;
        self.to_i128().and_then(|number| number.try_into().ok()).ok_or_else(|| out_of_range(SqlType::INT4))
    }

    /// Returns the number as `bigint`, rounded.
    pub fn to_i64(&self) -> Result<i64> {
        self.check_convertible(SqlType::INT8)?;
        self.to_i128().and_then(|number| number.try_into().ok()).ok_or_else(|| out_of_range(SqlType::INT8))
    }

    /// Returns the nearest `double precision`; infinite if the number is too large.
    pub fn to_f64(&self) -> f64 {
        match &self.0 {
            // Both are exact, so the quotient is rounded once.
            Repr::Small { coefficient, scale } if coefficient.unsigned_abs() < 1 << 53 && *scale <= 18 => {
                *coefficient as f64 / POWERS_OF_TEN[usize::from(*scale)] as f64
            }
            Repr::NaN => f64::NAN,
            Repr::Infinity => f64::INFINITY,
            Repr::NegativeInfinity => f64::NEG_INFINITY,
            _ => self.to_string().parse().unwrap_or(f64::NAN),
        }
    }

    /// Returns the nearest `real`; infinite if the number is too large.
    pub fn to_f32(&self) -> f32 {
        match self.0 {
            Repr::NaN => f32::NAN,
            Repr::Infinity => f32::INFINITY,
            Repr::NegativeInfinity => f32::NEG_INFINITY,
            _ => self.to_string().parse().unwrap_or(f32::NAN),
        }
    }

    /// Converts a `double precision`, with 15 significant digits.
    pub fn from_f64(float: f64) -> Self {
        Self::from_float(float, &format!("{float:.14e}"))
    }

    /// Converts a `real`, with 6 significant digits.
    pub fn from_f32(float: f32) -> Self {
        Self::from_float(float.into(), &format!("{float:.5e}"))
    }

    fn from_float(float: f64, digits: &str) -> Self {
        if float.is_nan() {
            return Self::NAN;
        }
        if float.is_infinite() {
            return if float > 0.0 { Self::INFINITY } else { Self::NEGATIVE_INFINITY };
        }
        // As printf's %g: without zeros at the end.
        let (mantissa, exponent) = digits.split_once('e').unwrap_or((digits, "0"));
        let mantissa =
            if mantissa.contains('.') { mantissa.trim_end_matches('0').trim_end_matches('.') } else { mantissa };
        format!("{mantissa}e{exponent}").parse().unwrap_or(Self::NAN)
    }
}

impl From<i64> for Numeric {
    fn from(number: i64) -> Self {
        Self::small(number, 0)
    }
}

impl From<i32> for Numeric {
    fn from(number: i32) -> Self {
        Self::small(number.into(), 0)
    }
}

impl From<i128> for Numeric {
    fn from(number: i128) -> Self {
        Self::from_i128(number, 0)
    }
}

impl FromStr for Numeric {
    type Err = SqlError;

    fn from_str(text: &str) -> Result<Self> {
        let invalid = || {
            SqlError::new(
                SqlState::INVALID_TEXT_REPRESENTATION,
                format!("invalid input syntax for type numeric: \"{text}\""),
            )
        };
        let trimmed = text.trim_matches(super::space::is_space);
        let (negative, unsigned) = match trimmed.as_bytes().first() {
            Some(b'-') => (true, &trimmed[1..]),
            Some(b'+') => (false, &trimmed[1..]),
            _ => (false, trimmed),
        };
        let bytes = unsigned.as_bytes();
        if !bytes.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'.') {
            return if trimmed.eq_ignore_ascii_case("nan") {
                Ok(Self::NAN)
            } else if unsigned.eq_ignore_ascii_case("infinity") || unsigned.eq_ignore_ascii_case("inf") {
                Ok(if negative { Self::NEGATIVE_INFINITY } else { Self::INFINITY })
            } else {
                Err(invalid())
            };
        }
        let count = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let whole = count(0);
        let mut at = whole;
        let mut fraction = 0;
        if bytes.get(at) == Some(&b'.') {
            fraction = count(at + 1);
            at += 1 + fraction;
        }
        if whole + fraction == 0 {
            return Err(invalid());
        }
        let mut exponent = 0i64;
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            let length = count(at + 1 + sign);
            if length == 0 {
                return Err(invalid());
            }
            // Exponents that do not fit are out of range like this one.
            exponent = unsigned[at + 1 + sign..at + 1 + sign + length].parse().unwrap_or(i64::MAX).min(1 << 40);
            if bytes[at + 1] == b'-' {
                exponent = -exponent;
            }
            at += 1 + sign + length;
        }
        if at != bytes.len() {
            return Err(invalid());
        }
        Self::from_digits(negative, &bytes[..whole], &bytes[whole + usize::from(fraction > 0)..][..fraction], exponent)
    }
}

impl Numeric {
    /// Returns the number with the given digits before and behind the point and an exponent.
    fn from_digits(negative: bool, whole: &[u8], fraction: &[u8], exponent: i64) -> Result<Self> {
        let scale = fraction.len() as i64 - exponent;
        if scale > SCALE_MAX as i64 || exponent >= 1 << 30 {
            return Err(overflow());
        }
        let zeros = whole.iter().chain(fraction).take_while(|&&byte| byte == b'0').count();
        let significant = whole.len() + fraction.len() - zeros;
        if significant == 0 {
            return Ok(Self::small(0, scale.max(0) as u16));
        }
        let before_point = significant as i64 - scale;
        if before_point > DIGITS_BEFORE_POINT_MAX as i64 {
            return Err(overflow());
        }
        let missing_zeros = (-scale).max(0) as usize;
        let scale = scale.max(0) as u16;
        if significant + missing_zeros <= 18 {
            let digits = whole.iter().chain(fraction).fold(0i64, |number, byte| number * 10 + i64::from(byte - b'0'));
            let coefficient = digits * POWERS_OF_TEN[missing_zeros];
            return Ok(Self::small(if negative { -coefficient } else { coefficient }, scale));
        }
        let mut digits = [whole, fraction].concat();
        digits.resize(digits.len() + missing_zeros, b'0');
        let coefficient = digits::parse(&digits);
        Ok(Self::unchecked(if negative { -coefficient } else { coefficient }, scale))
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer;
        let (negative, digits, scale) = match &self.0 {
            Repr::NaN => return f.write_str("NaN"),
            Repr::Infinity => return f.write_str("Infinity"),
            Repr::NegativeInfinity => return f.write_str("-Infinity"),
            Repr::Small { coefficient, scale } => {
                (*coefficient < 0, coefficient.unsigned_abs().to_string(), usize::from(*scale))
            }
            Repr::Large(large) => (
                large.coefficient.sign() == Sign::Minus,
                large.coefficient.magnitude().to_str_radix(10),
                usize::from(large.scale),
            ),
        };
        let mut digits = digits.as_str();
        if negative {
            f.write_str("-")?;
        }
        if scale == 0 {
            return f.write_str(digits);
        }
        if digits.len() <= scale {
            buffer = "0".repeat(scale + 1 - digits.len());
            buffer.push_str(digits);
            digits = &buffer;
        }
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        write!(f, "{whole}.{fraction}")
    }
}

impl fmt::Debug for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Numeric {
    /// Compares by value; NaN is greatest and equal to itself.
    pub fn order(&self, other: &Self) -> Ordering {
        let class = |number: &Self| match number.0 {
            Repr::NegativeInfinity => 0,
            Repr::Small { .. } | Repr::Large(_) => 1,
            Repr::Infinity => 2,
            Repr::NaN => 3,
        };
        if let (Repr::Small { coefficient: left, scale: s }, Repr::Small { coefficient: right, scale: t }) =
            (&self.0, &other.0)
        {
            if s == t {
                return left.cmp(right);
            }
            if s.abs_diff(*t) < 19 {
                let widen = |number: &i64, by: u16| i128::from(*number) * i128::from(POWERS_OF_TEN[usize::from(by)]);
                return widen(left, t.saturating_sub(*s)).cmp(&widen(right, s.saturating_sub(*t)));
            }
        }
        match (self.finite(), other.finite()) {
            (Some((left, s)), Some((right, t))) => {
                let sign = |number: &BigInt| number.sign();
                sign(&left).cmp(&sign(&right)).then_with(|| {
                    let scale = s.max(t);
                    (left * power_of_ten(scale - s)).cmp(&(right * power_of_ten(scale - t)))
                })
            }
            _ => class(self).cmp(&class(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numeric(text: &str) -> Numeric {
        text.parse().unwrap()
    }

    #[test]
    fn texts_come_back() {
        for text in [
            "0",
            "0.00",
            "1.10",
            "-1.10",
            "0.001",
            "-0.5",
            "12345678901234567890.123456789",
            "NaN",
            "Infinity",
            "-Infinity",
        ] {
            assert_eq!(numeric(text).to_string(), text);
        }
        for (text, expected) in [
            (".5", "0.5"),
            ("5.", "5"),
            ("1e3", "1000"),
            ("1.5e-3", "0.0015"),
            ("  7 ", "7"),
            ("-0", "0"),
            ("+inf", "Infinity"),
        ] {
            assert_eq!(numeric(text).to_string(), expected);
        }
        for text in ["", ".", "e5", "1e", "1.2.3", "--1", "1x", "1 2"] {
            assert_eq!(text.parse::<Numeric>().unwrap_err().state(), SqlState::INVALID_TEXT_REPRESENTATION, "{text}");
        }
        for text in ["1e131072", "1e-16384", "1e999999999999999999999", "1e1000000000"] {
            assert_eq!(text.parse::<Numeric>().unwrap_err().state(), SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "{text}");
        }
        assert_eq!(numeric("1e131071").to_string().len(), 131_072);
    }

    #[test]
    fn modifiers_round_and_bound() {
        let modifier = SqlType::numeric_modifier(5, 2);
        assert_eq!(numeric("123.455").with_modifier(modifier).unwrap().to_string(), "123.46");
        assert_eq!(numeric("1").with_modifier(modifier).unwrap().to_string(), "1.00");
        let error = numeric("999.995").with_modifier(modifier).unwrap_err();
        assert_eq!(
            error.report().detail.as_deref(),
            Some("A field with precision 5, scale 2 must round to an absolute value less than 10^3.")
        );
        assert!(numeric("Infinity").with_modifier(modifier).is_err());
        assert!(numeric("NaN").with_modifier(modifier).unwrap().is_nan());
        assert_eq!(numeric("12345").with_modifier(SqlType::numeric_modifier(3, -2)).unwrap().to_string(), "12300");
        assert!(numeric("99950").with_modifier(SqlType::numeric_modifier(3, -2)).is_err());
    }

    #[test]
    fn floats_convert_with_their_significant_digits() {
        assert_eq!(Numeric::from_f64(0.1).to_string(), "0.1");
        assert_eq!(Numeric::from_f64(1e20).to_string(), "100000000000000000000");
        assert_eq!(Numeric::from_f64(123456.789_012_345_67).to_string(), "123456.789012346");
        assert_eq!(Numeric::from_f32(0.1).to_string(), "0.1");
        assert_eq!(numeric("0.1").to_f64(), 0.1);
        assert_eq!(numeric("1e400").to_f64(), f64::INFINITY);
    }
}
