//! The Sinkhorn distance of all pairs.

use crate::error::Result;
use crate::exec::Executor;
use crate::matrix::HistogramMatrix;
use crate::simd::Element;
use crate::stop::{Stop, with_fields, with_stop};
use crate::transport::all_pairs::{AllPairs, Plans, check_shapes};
use crate::transport::costs::Costs;
use crate::transport::job::{Job, Solved};
use crate::transport::masses::{check_masses, check_tol, rounding};
use crate::transport::order::Pair;
use crate::transport::problem::{Block, Ground};
use crate::transport::relaxed::Hold;
use crate::transport::results::SinkhornDistances;

/// What is computed of each pair, and how far.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Sinkhorn {
    /// Weight of the entropy, `1/lambda` in the paper, in the units of the cost matrix.
    pub reg: f64,
    /// At a largest L1 error of a marginal, as a part of the mass; of each pair.
    pub stop: Stop,
    /// `tr(T M) - reg h(T)` instead of `tr(T M)`.
    pub regularized: bool,
    /// Whether the dual variables are kept.
    pub potentials: bool,
}

impl Sinkhorn {
    /// Distances `tr(T M)` with this weight of the entropy, to a relative error of 1e-6 in at most
    /// 10,000 iterations, without dual variables.
    pub const fn new(reg: f64) -> Self {
        let stop = Stop::new(1e-6, 10_000);
        Self { reg, stop, regularized: false, potentials: false }
    }
}

with_fields!(Sinkhorn: with_reg(reg: f64), with_regularized(regularized: bool),
    with_potentials(potentials: bool));
with_stop!(Sinkhorn);

/// Sinkhorn distances between the rows of `x` and those of `y`; `y = None` means `y = x`, and
/// computes each pair once when `m` is symmetric.
///
/// The distance of `a` and `b` is `tr(T M)`, where `T >= 0` with row sums `a` and column sums `b`
/// minimises `tr(T M) - reg h(T)`, `h(T) = -sum T log T` (equation 3 of the paper, `reg` being its
/// `1/lambda`). The scaling `T = diag(u) K diag(v)`, `K = exp(-M / reg)`, is iterated with
/// Anderson's acceleration for many pairs side by side, so that a half-step is the product of `K`
/// and a matrix. It is in single precision while that resolves the error, and in the log domain
/// where `K` would underflow. Where `m` is infinite, transport is forbidden, and a pair between
/// which no plan is left is infinitely distant.
///
/// # Errors
///
/// [`Error::Shape`](crate::Error::Shape) when `m` has not a row for each column of `x` and a column
/// for each column of `y`. [`Error::GroundDistance`](crate::Error::GroundDistance),
/// [`Error::Negative`](crate::Error::Negative) and [`Error::NotFinite`](crate::Error::NotFinite) at
/// the first bad entry. [`Error::Mass`](crate::Error::Mass) when two rows do not sum alike or one
/// is empty. [`Error::Parameter`](crate::Error::Parameter) when `reg` or `tol` is not positive, or
/// `reg` is so small that it underflows.
///
/// # Examples
///
/// ```
/// use histrs::transport::{Sinkhorn, sinkhorn_distances};
/// use histrs::{Executor, HistogramMatrix};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let x = array![[1.0_f64, 0.0], [0.25, 0.75]];
/// let m = array![[0.0, 1.0], [1.0, 0.0]];
/// let options = Sinkhorn::new(0.05).with_tol(1e-9);
/// let x = HistogramMatrix::dense(x.view());
/// let found = sinkhorn_distances(&exec, &x, None, m.view(), &options)?;
/// // Three quarters of the mass move by 1.
/// assert!((found.values[[0, 1]] - 0.75).abs() < 1e-9);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn sinkhorn_distances<'a, T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'a, T>,
    y: Option<&HistogramMatrix<'a, T>>,
    m: impl Into<Costs<'a>>,
    options: &Sinkhorn,
) -> Result<SinkhornDistances<T>> {
    AllPairs::balanced(exec, x, y, m, options)?.distances(y.is_none())
}

/// Plans that keep both marginals, of one mass.
pub(super) struct Balanced {
    mass: f64,
    /// The largest part of the mass that may be left over.
    rounding: f64,
    regularized: bool,
}

impl<'a, 'm, T: Element> AllPairs<'a, 'm, 'm, T, Balanced> {
    /// Looks at every argument of [`sinkhorn_distances`].
    pub(super) fn balanced(
        exec: &'a Executor,
        x: &'a HistogramMatrix<'m, T>,
        y: Option<&'a HistogramMatrix<'m, T>>,
        m: impl Into<Costs<'m>>,
        options: &Sinkhorn,
    ) -> Result<Self> {
        let Sinkhorn { reg, stop, regularized, potentials } = *options;
        let ground = Ground::new(m, reg, !regularized)?;
        check_tol(stop)?;
        let other = y.unwrap_or(x);
        check_shapes(&ground, [x, other])?;
        let mass = check_masses(exec, x, y)?;
        let plans = Balanced { mass, rounding: rounding::<T>(), regularized };
        Ok(Self { exec, x, y: other, ground, stop, potentials, plans })
    }
}

impl Plans for Balanced {
    fn hold(&self, _: Pair) -> Hold {
        Hold::Marginals
    }

    fn is_even(&self) -> bool {
        true
    }

    fn is_possible(&self, ground: &Ground<'_>, block: &Block, _: Pair, at: Pair) -> bool {
        block.passable(ground, block.histograms(at)) >= 1.0 - self.rounding
    }

    fn log_unit(&self, _: Pair) -> f64 {
        self.mass.ln()
    }

    fn cost(
        &self,
        ground: &Ground<'_>,
        block: &Block,
        pair: Pair,
        job: &Job,
        solved: &Solved,
    ) -> Result<f64> {
        let cost = if self.regularized {
            block.dual(job.pair(), &solved.potentials) + self.log_unit(pair)
        } else if solved.transport.is_nan() {
            let [f, g] = &solved.potentials;
            ground.finest(block.kernels(ground), &block.bins)?.transport(f, g)
        } else {
            solved.transport
        };
        Ok(self.mass * ground.reg * cost)
    }
}
