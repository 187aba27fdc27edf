//! The functions of generalised kernels, and the weights of columns.

use crate::error::{Error, Result, check_length};

/// An increasing function `g` with `g(0) = 0`, applied to every feature (eq. 14).
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Transform {
    /// `g(x) = x`, eq. 5.
    Identity,
    /// `g(x) = x^exponent`, eq. 15.
    Power {
        /// Above 0.
        exponent: f64,
    },
    /// `g(x) = (e^(exponent x) - 1) / (e^exponent - 1)`, eq. 16.
    Exponential {
        /// Above 0.
        exponent: f64,
    },
    /// The increasing part of the derivative of [`Power`](Self::Power) by its exponent,
    /// `x^exponent ln(x / unit)`.
    PowerSlope {
        /// That of the power.
        exponent: f64,
        /// Below every value that occurs.
        unit: f64,
    },
    /// The increasing part of the derivative of [`Exponential`](Self::Exponential) by its
    /// exponent.
    ExponentialSlope {
        /// That of the exponential.
        exponent: f64,
    },
}

impl Transform {
    /// `g(x)` of a non-negative `x`.
    #[must_use]
    pub fn apply(&self, x: f64) -> f64 {
        match *self {
            _ if x == 0.0 => 0.0,
            Self::Identity => x,
            Self::Power { exponent } => x.powf(exponent),
            Self::Exponential { exponent } => exponential(exponent, x),
            Self::PowerSlope { exponent, unit } => x.powf(exponent) * (x.ln() - unit.ln()).max(0.0),
            Self::ExponentialSlope { exponent } => {
                exponential(exponent, x) * excess(exponent * x) / exponent
            }
        }
    }

    /// The exponent; 1 where there is none.
    #[must_use]
    pub fn exponent(&self) -> f64 {
        match *self {
            Self::Identity => 1.0,
            Self::Power { exponent }
            | Self::Exponential { exponent }
            | Self::PowerSlope { exponent, .. }
            | Self::ExponentialSlope { exponent } => exponent,
        }
    }

    /// The derivative of the kernel by the exponent, as an intersection kernel again.
    ///
    /// The derivative `h` of `g` by the exponent does not increase everywhere, but `h = u + c g`
    /// with an increasing `u` on values of at least `smallest`. So the derivative of
    /// `min(g(x), g(y))` is `min(u(x), u(y)) + c min(g(x), g(y))`. Returns `u` and `c`, or nothing
    /// for a transform without exponent.
    ///
    /// # Examples
    ///
    /// ```
    /// use histrs::intersection::Transform;
    ///
    /// let power = |exponent| Transform::Power { exponent };
    /// let (u, c) = power(2.0).exponent_slope(0.1).unwrap();
    /// let x = 0.7;
    /// let slope = u.apply(x) + c * power(2.0).apply(x);
    /// let difference = (power(2.0 + 1e-6).apply(x) - power(2.0 - 1e-6).apply(x)) / 2e-6;
    /// assert!((slope - difference).abs() < 1e-9);
    /// ```
    #[must_use]
    pub fn exponent_slope(&self, smallest: f64) -> Option<(Self, f64)> {
        match *self {
            Self::Power { exponent } => {
                let unit = 0.5 * smallest;
                Some((Self::PowerSlope { exponent, unit }, unit.ln()))
            }
            Self::Exponential { exponent } => {
                Some((Self::ExponentialSlope { exponent }, -excess(exponent) / exponent))
            }
            _ => None,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let exponent = self.exponent();
        if exponent > 0.0 && exponent.is_finite() {
            return Ok(());
        }
        Err(Error::parameter(
            "exponent",
            exponent,
            "an order-preserving transform needs a positive, finite exponent",
        ))
    }

    /// `weight g(x)`, which must be finite.
    pub(super) fn weighted(&self, x: f64, weight: f64) -> Result<f64> {
        let value = weight * self.apply(x);
        if value.is_finite() {
            return Ok(value);
        }
        Err(Error::parameter(
            "exponent",
            self.exponent(),
            "transformed features overflow; lower it or feature_weights, or scale the \
                       features down",
        ))
    }
}

/// Eq. 16 in a form that overflows only where its value does.
fn exponential(exponent: f64, x: f64) -> f64 {
    (exponent * (x - 1.0)).exp() * ((-exponent * x).exp_m1() / (-exponent).exp_m1())
}

/// `t / (1 - e^-t) - 1`, which increases from 0.
fn excess(t: f64) -> f64 {
    if t < 1e-3 {
        // The next term is below rounding.
        t * (0.5 + t * (1.0 / 12.0 - t * t / 720.0))
    } else {
        -t / (-t).exp_m1() - 1.0
    }
}

/// Fails unless there is one weight per column, and all are positive and finite.
pub(super) fn check_weights(weights: Option<&[f64]>, n_columns: usize) -> Result<()> {
    let Some(weights) = weights else { return Ok(()) };
    let cure = "give one for every column of X";
    check_length("the number of feature weights", weights.len(), n_columns, cure)?;
    match weights.iter().find(|w| !(**w > 0.0 && w.is_finite())) {
        None => Ok(()),
        Some(&value) => Err(Error::parameter(
            "feature_weights",
            value,
            "weights must be positive and finite; drop a column to leave it out",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Value;

    const TRANSFORMS: [Transform; 4] = [
        Transform::Power { exponent: 0.3 },
        Transform::Power { exponent: 3.0 },
        Transform::Exponential { exponent: 1e-9 },
        Transform::Exponential { exponent: 40.0 },
    ];

    /// `sum_k B_2k t^2k / (2k)!`, beside `t / 2`.
    #[test]
    fn what_exceeds_one_has_all_its_digits() {
        for t in [9.99e-4_f64, 5e-4, 1e-5, 1e-12, 1e-300] {
            let want = t / 2.0 + t.powi(2) / 12.0 - t.powi(4) / 720.0 + t.powi(6) / 30_240.0;
            assert!((excess(t) - want).abs() <= 4e-16 * want, "{t:e}");
        }
        for t in [1.001e-3_f64, 0.1, 3.0, 50.0] {
            let want = t / (1.0 - (-t).exp()) - 1.0;
            assert!((excess(t) - want).abs() <= 1e-9 * want, "{t}");
        }
        assert_eq!(excess(0.0), 0.0);
    }

    #[test]
    fn weights_are_positive_and_finite() {
        assert!(check_weights(Some(&[1.0, f64::MIN_POSITIVE, f64::MAX]), 3).is_ok());
        assert!(check_weights(None, 3).is_ok() && check_weights(Some(&[]), 0).is_ok());
        assert!(check_weights(Some(&[1.0, 1.0]), 3).is_err());
        for bad in [0.0, -0.0, -1.0, f64::INFINITY, f64::NAN] {
            let refused = check_weights(Some(&[1.0, bad, 2.0]), 3);
            assert!(
                matches!(refused, Err(Error::Parameter { name: "feature_weights", value: Value::Real(value), .. })
                    if value.to_bits() == bad.to_bits()),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn transforms_and_slopes_increase() {
        for transform in TRANSFORMS {
            let (slope, _) = transform.exponent_slope(0.01).unwrap();
            for transform in [transform, slope] {
                let values: Vec<f64> =
                    (1..200).map(|i| transform.apply(f64::from(i) * 0.01)).collect();
                assert!(values.windows(2).all(|w| w[0] < w[1]), "{transform:?}");
                assert_eq!(transform.apply(0.0), 0.0);
            }
        }
        assert!((TRANSFORMS[2].apply(0.4) - 0.4).abs() < 1e-9);
        assert!(Transform::Identity.exponent_slope(1.0).is_none());
    }
}
