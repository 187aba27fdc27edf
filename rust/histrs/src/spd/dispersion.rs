//! What means minimise, of one eigenvalue.

use crate::error::from_name;

/// What a mean minimises the weighted sum of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dispersion {
    /// Half the square of the affine-invariant Riemannian distance: the Karcher mean.
    Airm,
    /// Twice the Jensen-Bregman log-det divergence.
    Jbld,
}

from_name! { Dispersion, "dispersion", "use \"airm\" or \"jbld\"",
    "airm" => Airm,
    "jbld" => Jbld,
}

/// The derivative of [`value`].
#[inline(always)]
pub(crate) fn slope(dispersion: Dispersion, l: f64) -> f64 {
    match dispersion {
        Dispersion::Airm => l,
        Dispersion::Jbld => (0.5 * l).tanh(),
    }
}

/// What an eigenvalue `exp(l)` adds to the dispersion.
pub(crate) fn value(dispersion: Dispersion, l: f64) -> f64 {
    match dispersion {
        Dispersion::Airm => 0.5 * l * l,
        Dispersion::Jbld => {
            // 2 ln cosh(l / 2).
            let size = l.abs();
            size + 2.0 * ((-size).exp().ln_1p() - std::f64::consts::LN_2)
        }
    }
}

/// The least curvature that an eigenvalue `exp(l)` gives along a geodesic that moves it.
pub(crate) fn least_curvature(dispersion: Dispersion, l: f64) -> f64 {
    match dispersion {
        Dispersion::Airm => 1.0,
        // 1 / (2 cosh(l / 2)^2), without overflow.
        Dispersion::Jbld => {
            let power = (-l.abs()).exp();
            2.0 * power / ((1.0 + power) * (1.0 + power))
        }
    }
}

/// The largest curvature along a geodesic, where logarithms are spread by twice `spread`.
pub(crate) fn curvature(dispersion: Dispersion, spread: f64) -> f64 {
    match dispersion {
        Dispersion::Airm if spread > 1e-8 => spread / spread.tanh(),
        Dispersion::Airm => 1.0,
        Dispersion::Jbld => 0.5,
    }
}
