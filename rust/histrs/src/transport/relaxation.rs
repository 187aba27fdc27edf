//! What the marginals of a plan are held to, and what is returned of it.

use crate::error::{Error, Result, from_name};
use crate::stop::{Stop, with_fields, with_stop};

/// Largest penalty over the regularisation: beyond, potentials are not resolved.
const LARGEST_PENALTY: f64 = 1e9;

/// What the marginals of a plan are held to.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Relaxation {
    /// Divergences from both histograms have these weights, in the units of the cost matrix; an
    /// infinite one keeps its marginal.
    Penalties([f64; 2]),
    /// No marginal exceeds its histogram, and so much moves altogether; `None` is the smaller mass.
    Mass(Option<f64>),
}

/// What is returned of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cost {
    /// `tr(T M)`.
    Transport,
    /// With the penalties.
    Penalized,
    /// With the penalties and the entropy: what is minimised.
    Regularized,
}

from_name! { Cost, "cost", "use \"transport\", \"penalized\" or \"regularized\"",
    "transport" => Transport,
    "penalized" => Penalized,
    "regularized" => Regularized,
}

/// What is computed of each pair, and how far.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RelaxedSinkhorn {
    /// Weight of the entropy, in the units of the cost matrix.
    pub reg: f64,
    /// What the marginals are held to.
    pub relaxation: Relaxation,
    /// At a largest L1 error of a marginal, in units of the geometric mean of both masses, or of the
    /// mass that moves; of each pair.
    pub stop: Stop,
    /// What is returned.
    pub cost: Cost,
    /// Whether the dual variables are kept.
    pub potentials: bool,
}

impl RelaxedSinkhorn {
    /// Costs of transport with this weight of the entropy, to a relative error of 1e-6 in at most
    /// 10,000 iterations, without dual variables.
    pub const fn new(reg: f64, relaxation: Relaxation) -> Self {
        let stop = Stop::new(1e-6, 10_000);
        Self { reg, relaxation, stop, cost: Cost::Transport, potentials: false }
    }
}

with_fields!(RelaxedSinkhorn: with_cost(cost: Cost), with_potentials(potentials: bool));
with_stop!(RelaxedSinkhorn);

impl RelaxedSinkhorn {
    /// Fails unless the marginals can be held to what is asked.
    pub(super) fn check_relaxation(&self) -> Result<()> {
        match self.relaxation {
            Relaxation::Penalties(penalties) => {
                let error = |value, expected| Err(Error::parameter("reg_m", value, expected));
                for value in penalties {
                    if value.is_nan() || value <= 0.0 {
                        return error(value, "it must be positive; infinity keeps a marginal");
                    }
                    if value.is_finite() && value / self.reg > LARGEST_PENALTY {
                        let expected =
                            "it must be at most a billion times reg; infinity keeps a marginal";
                        return error(value, expected);
                    }
                }
                if penalties.iter().all(|p| p.is_infinite()) {
                    let expected =
                        "one of both must be finite; sinkhorn_distances keeps both marginals";
                    return error(penalties[0], expected);
                }
                Ok(())
            }
            Relaxation::Mass(Some(value)) if !(value >= 0.0 && value.is_finite()) => {
                let expected = "it must be finite and not negative";
                Err(Error::parameter("mass", value, expected))
            }
            Relaxation::Mass(_) => Ok(()),
        }
    }
}
