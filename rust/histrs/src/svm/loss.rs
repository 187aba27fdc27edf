//! Losses of a margin, and their derivatives.

use crate::error::{Error, Result};
use crate::simd::Elementary;

/// The loss of a margin `z = y f(x)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// `max(0, 1 - z)`.
    Hinge,
    /// `max(0, 1 - z)^2`.
    SquaredHinge,
    /// `log(1 + exp(-z))`.
    Logistic,
}

impl std::str::FromStr for Loss {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "hinge" => Ok(Self::Hinge),
            "squared_hinge" => Ok(Self::SquaredHinge),
            "logistic" => Ok(Self::Logistic),
            _ => Err(Error::Unknown {
                name: "loss",
                value: name.into(),
                known: "\"hinge\", \"squared_hinge\" or \"logistic\"",
            }),
        }
    }
}

/// A loss known at compile time, so that loops over margins become vector instructions.
pub(super) trait Margin {
    /// The loss and its derivative; a subgradient where it has a corner.
    fn at(z: f64) -> (f64, f64);
}

pub(super) struct Hinge;

impl Margin for Hinge {
    #[inline(always)]
    fn at(z: f64) -> (f64, f64) {
        let short = 1.0 - z;
        if short > 0.0 { (short, -1.0) } else { (0.0, 0.0) }
    }
}

pub(super) struct SquaredHinge;

impl Margin for SquaredHinge {
    #[inline(always)]
    fn at(z: f64) -> (f64, f64) {
        let short = 1.0 - z;
        let short = if short > 0.0 { short } else { 0.0 };
        (short * short, -2.0 * short)
    }
}

pub(super) struct Logistic;

impl Margin for Logistic {
    #[inline(always)]
    fn at(z: f64) -> (f64, f64) {
        // Of the smaller exponential, which does not overflow.
        let t = (-z.abs()).exp_in_range();
        let below = if z < 0.0 { -z } else { 0.0 };
        let share = if z < 0.0 { 1.0 } else { t };
        (below + (1.0 + t).ln_of_normal(), -share / (1.0 + t))
    }
}
