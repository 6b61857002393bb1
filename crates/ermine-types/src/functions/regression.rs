//! Aggregates of pairs of numbers: covariance, correlation, linear regression.

use crate::{
    Value,
    error::{Result, SqlError, SqlState},
};

/// What is computed of the pairs `(y, x)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Regression {
    Count,
    AverageX,
    AverageY,
    SquaresX,
    SquaresY,
    Products,
    CovariancePopulation,
    CovarianceSample,
    Correlation,
    Determination,
    Slope,
    Intercept,
}

impl Regression {
    const NAMED: [(&str, Self); 12] = [
        ("regr_count", Self::Count),
        ("regr_avgx", Self::AverageX),
        ("regr_avgy", Self::AverageY),
        ("regr_sxx", Self::SquaresX),
        ("regr_syy", Self::SquaresY),
        ("regr_sxy", Self::Products),
        ("covar_pop", Self::CovariancePopulation),
        ("covar_samp", Self::CovarianceSample),
        ("corr", Self::Correlation),
        ("regr_r2", Self::Determination),
        ("regr_slope", Self::Slope),
        ("regr_intercept", Self::Intercept),
    ];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(known, _)| *known == name).map(|(_, regression)| *regression)
    }

    pub(super) fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMED.iter().map(|(name, _)| *name)
    }
}

/// The sums of pairs of numbers, and of the squared differences from their means (Youngs and Cramer).
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    count: f64,
    x: f64,
    y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
}

impl Sums {
    pub(super) fn add(&mut self, y: f64, x: f64) -> Result<()> {
        let before = self.clone();
        self.count += 1.0;
        self.x += x;
        self.y += y;
        if before.count == 0.0 {
            if !x.is_finite() {
                (self.xx, self.xy) = (f64::NAN, f64::NAN);
            }
            if !y.is_finite() {
                (self.yy, self.xy) = (f64::NAN, f64::NAN);
            }
            return Ok(());
        }
        let (off_x, off_y) = (x * self.count - self.x, y * self.count - self.y);
        let scale = 1.0 / (self.count * before.count);
        self.xx += off_x * off_x * scale;
        self.yy += off_y * off_y * scale;
        self.xy += off_x * off_y * scale;
        let were_finite = |sum: f64, new: f64| !sum.is_infinite() && !new.is_infinite();
        let (x_fits, y_fits) = (were_finite(before.x, x), were_finite(before.y, y));
        let is_beyond = (self.x.is_infinite() || self.xx.is_infinite()) && x_fits
            || (self.y.is_infinite() || self.yy.is_infinite()) && y_fits
            || self.xy.is_infinite() && x_fits && y_fits;
        if is_beyond {
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow"));
        }
        for sum in [&mut self.xx, &mut self.yy, &mut self.xy] {
            if sum.is_infinite() {
                *sum = f64::NAN;
            }
        }
        Ok(())
    }

    pub(super) fn finish(&self, what: Regression) -> Value {
        let Self { count, x, y, xx, yy, xy } = *self;
        let is_flat = |sum: f64| sum == 0.0;
        let result = match what {
            Regression::Count => return Value::Int8(count as i64),
            _ if count < 1.0 => None,
            Regression::AverageX => Some(x / count),
            Regression::AverageY => Some(y / count),
            Regression::SquaresX => Some(xx),
            Regression::SquaresY => Some(yy),
            Regression::Products => Some(xy),
            Regression::CovariancePopulation => Some(xy / count),
            Regression::CovarianceSample => (count >= 2.0).then(|| xy / (count - 1.0)),
            Regression::Correlation => (!is_flat(xx) && !is_flat(yy)).then(|| xy / (xx * yy).sqrt()),
            Regression::Determination if is_flat(xx) => None,
            Regression::Determination => Some(if is_flat(yy) { 1.0 } else { xy * xy / (xx * yy) }),
            Regression::Slope => (!is_flat(xx)).then(|| xy / xx),
            Regression::Intercept => (!is_flat(xx)).then(|| (y - x * xy / xx) / count),
        };
        result.map_or(Value::Null, Value::Float8)
    }
}
